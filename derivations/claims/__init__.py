"""Claims: sentences with evidence, their records, and the notebooks that hold them.

`evidence` makes and checks claims, `records` stores and shows them, `rerun` executes notebooks.
Their names load on first use, so that records are read without SymPy.
"""

import importlib

_SUBMODULES = ("evidence", "lab", "records", "rerun", "surroundings")


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"derivations.claims.{name}")
    if not name.startswith("_"):
        evidence = importlib.import_module("derivations.claims.evidence")
        if name in evidence.__all__:
            return getattr(evidence, name)
    raise AttributeError(f"module 'derivations.claims' has no attribute {name!r}")
