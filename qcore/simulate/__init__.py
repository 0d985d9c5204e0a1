"""Simulation of deferral policies and of the GI/GI/N+GI queue.

Nothing here imports another module of qcore that computes a result: a simulation shares no
formula with what it checks.
"""

import importlib

_HOME = {
    "Estimate": "_estimate",
    "Dsrt": "_deferrals",
    "Esrt": "_deferrals",
    "FixedReturn": "_deferrals",
    "UniformReturn": "_deferrals",
    "ReturnRule": "_deferrals",
    "DeferralEstimates": "_deferrals",
    "DeferralCensus": "_deferrals",
    "deferrals": "_deferrals",
    "sweep": "_parallel",
    "replications": "_parallel",
    "NonIdling": "_queue_policies",
    "Thinned": "_queue_policies",
    "ServerIdle": "_queue_policies",
    "QueueEstimates": "_queue_estimates",
    "QueueCensus": "_queue_estimates",
    "Histogram": "_queue_estimates",
    "many_server_queue": "_many_server",
}

__all__ = list(_HOME)


def __getattr__(name):
    if name in _HOME:
        return getattr(importlib.import_module(f"qcore.simulate.{_HOME[name]}"), name)
    raise AttributeError(f"module 'qcore.simulate' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_HOME])
