"""What a page invites to try is tried: parameters changed, notebook run, expectation compared."""

import os
from pathlib import Path

import nbformat
import pytest
from runs import run_cells
from slices import chosen

from derivations.claims import parameters
from derivations.claims import records as claim_records

ROOT = Path(__file__).parent.parent.parent
ATTEMPTS = [
    (path, attempt)
    for path in claim_records.notebooks(ROOT / "derivations")
    for attempt in claim_records.read_attempts(path)
]


def name(argument):
    if isinstance(argument, Path):
        return argument.stem
    return ", ".join(f"{one} = {value}" for one, value in argument.changes.items())


def verdicts(notebook, attempt, stored):
    """Run a notebook with the attempt's parameters; return what becomes of its claims."""
    try:
        changed = parameters.with_changes(notebook, attempt.changes)
    except ValueError as error:
        return parameters.Verdicts({}, {"parameters": str(error)})
    code = [cell for cell in changed.cells if cell.cell_type == "code"]
    (first,) = (
        place for place, cell in enumerate(code) if parameters.TAG in cell.metadata.get("tags", ())
    )
    needed, _ = chosen([cell.source for cell in code], first, attempt.changes)
    cells = [(code[place].id, code[place].source) for place in sorted(needed)]
    environment = {"NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"]}
    found = parameters.Verdicts(dict.fromkeys(stored, "not reached"))
    for place in set(range(len(code))) - needed:
        # What the change does not reach is as it is stored.
        for output in code[place].get("outputs", ()):
            found.shown(output.get("data", {}))
    to_the_end = attempt.refused is None
    for cell, shown, error in run_cells(ROOT, cells, environment, to_the_end):
        for record in shown:
            found.shown({claim_records.MIME_TYPE: record})
        if error:
            found.stopped(cell, *error)
    return found


def require_expected(attempt, found):
    """Fail unless the run came out as the attempt says."""
    if attempt.refused is not None:
        assert len(found.stops) == 1, found.report()
        assert attempt.refused in found.report()
        return
    assert not found.stops, found.report()
    assert set(found.having("does not apply")) == set(attempt.not_applying), found.report()
    assert set(found.having("fails")) == set(attempt.failing), found.report()
    assert not found.having("not reached"), found.report()


@pytest.mark.tries
@pytest.mark.parametrize(("path", "attempt"), ATTEMPTS, ids=name)
def test_what_a_page_invites_to_try_comes_out_as_it_says(path, attempt):
    stored = [record.identifier for record in claim_records.read_notebook(path)]
    notebook = nbformat.read(path, as_version=4)
    require_expected(attempt, verdicts(notebook, attempt, stored))


SOURCES = [
    "from derivations.claims import claim, compared\nimport qcore",
    "gamma = 1  # from -9 to 99",
    """claim("bounded", "It is.", [], compared([9], [gamma], "nine and γ"))""",
    """claim("even", "It is.", [], compared([9], [1], "-"), applies=(gamma % 2 == 1, "is odd"))""",
    "if gamma < -1: raise ValueError(f'gamma = {gamma}: must be -1 or more')",
]


@pytest.fixture(scope="module")
def outcomes():
    """What becomes of a small notebook's claims, by the value of its parameter."""
    cells = [nbformat.v4.new_code_cell(source) for source in SOURCES]
    cells[1].metadata["tags"] = ["parameters"]
    notebook = nbformat.v4.new_notebook(cells=cells)

    def outcome(attempt):
        return verdicts(notebook, attempt, ["bounded", "even"])

    return outcome


def attempt(value, **expected):
    return claim_records.Attempt("Try.", {"gamma": value}, **expected)


@pytest.mark.parametrize(
    ("value", "right", "wrong"),
    [
        ("3", {}, {"not_applying": ("even",)}),
        ("2", {"not_applying": ("even",)}, {}),
        ("11", {"failing": ("bounded",)}, {}),
        ("-3", {"refused": "must be -1 or more"}, {"refused": "must be 0"}),
        ("-3", {"refused": "-1 or more"}, {}),
        ("100", {"refused": "must be from -9 to 99"}, {}),
    ],
)
def test_an_attempt_that_comes_out_otherwise_fails(outcomes, value, right, wrong):
    found = attempt(value, **right)
    require_expected(found, outcomes(found))
    other = attempt(value, **wrong)
    with pytest.raises(AssertionError):
        require_expected(other, outcomes(other))
