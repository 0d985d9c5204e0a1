"""Claims: sentences with evidence, their records, and the notebooks that hold them.

`evidence` makes and checks claims, with `numbers` for what is computed and `domains` for how far a
sentence and its evidence reach; `records` stores and shows them; `rerun` executes notebooks, in
the `surroundings` that are the same for all; `lab` opens them in JupyterLab. All names
load on first use: records are read without SymPy, and proofs are checked without NumPy.
"""

import importlib

_SUBMODULES = (
    "domains",
    "evidence",
    "lab",
    "numbers",
    "records",
    "rerun",
    "surroundings",
)
_NAMES = {
    "domains": ("Range", "integers", "logarithmic", "sample", "uniform"),
    "evidence": (
        "Check",
        "ClaimFailed",
        "argued",
        "check",
        "claim",
        "formal",
        "proved",
        "proved_inequality",
        "quoted",
        "try_this",
    ),
    "numbers": (
        "agrees",
        "compared",
        "extrapolated",
        "fitted_slope",
        "simulated",
        "simulated_order",
        "slope",
    ),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"derivations.claims.{name}")
    if name in _HOME:
        return getattr(
            importlib.import_module(f"derivations.claims.{_HOME[name]}"), name
        )
    raise AttributeError(f"module 'derivations.claims' has no attribute {name!r}")
