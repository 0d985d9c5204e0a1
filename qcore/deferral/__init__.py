"""Loss systems whose blocked customers are told to come back later."""

import importlib

_SUBMODULES = (
    "asymptotics",
    "dsrt",
    "esrt",
    "single_deferral",
    "single_server",
    "spacing_by_place",
)

__all__ = list(_SUBMODULES)


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"qcore.deferral.{name}")
    raise AttributeError(f"module 'qcore.deferral' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_SUBMODULES])
