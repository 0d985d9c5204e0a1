"""Many-server queues under control: exact values, asymptotic expansions and simulation.

The submodules load on first use, so that ``import qcore`` alone is quick: after it neither
SciPy nor Numba has been imported.
"""

import importlib

from qcore.errors import UnstableSystem

__version__ = "0.1.0"

_SUBMODULES = ("admission", "deferral", "diffusion", "erlang", "idling", "qed", "simulate")

__all__ = [*_SUBMODULES, "UnstableSystem"]


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"qcore.{name}")
    raise AttributeError(f"module 'qcore' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_SUBMODULES])
