"""What nbval compares, and what it does not.

Figures and typeset formulas are presentation: their look changes with the version of Matplotlib
and SymPy, their content does not. Each figure's data stands beside it as numbers, each formula's
truth in a claim, and both are compared. With ``--claims-only``, claim records alone are.
"""

from derivations.claims import surroundings
from derivations.claims.rerun import compile_afresh

surroundings.settle()
compile_afresh()

PRESENTATION = ("text/latex", "image/svg+xml", "image/png")
NUMBERS_AND_TEXT = (
    "text/plain",
    "text/markdown",
    "text/html",
    "stdout",
    "application/vnd.qcore.plot+json",
    "application/papermill.record/text/plain",
)


def pytest_addoption(parser):
    parser.addoption(
        "--claims-only",
        action="store_true",
        help="compare only the claim records of the notebooks (for newer SymPy or NumPy)",
    )


def pytest_collectstart(collector):
    if hasattr(collector, "skip_compare"):
        skipped = PRESENTATION
        if collector.config.getoption("--claims-only"):
            skipped += NUMBERS_AND_TEXT
        collector.skip_compare += skipped
