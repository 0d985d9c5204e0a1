"""Idling on purpose: many-server queues in which keeping servers busy has a cost of its own.

`FluidControlProblem` answers in the limit of many servers which fraction of them should be busy;
`markov` gives exact costs for a finite number of servers, and the best policy there is;
`general_patience` takes any law of patience.
"""

import importlib

_SUBMODULES = ("general_patience", "markov")

__all__ = ["FluidControlProblem", *_SUBMODULES]


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"qcore.idling.{name}")
    if name == "FluidControlProblem":
        return importlib.import_module("qcore.idling.fluid").FluidControlProblem
    raise AttributeError(f"module 'qcore.idling' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
