"""Chapters run cell by cell where SymPy is all there is, as in a reader's browser."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from derivations.claims import records

NOTEBOOKS = records.notebooks(Path(records.__file__).parent.parent)
CHAPTER = """
import json, sys
from derivations.claims.live import Session
from derivations.claims.records import MIME_TYPE

cells = [
    (cell["id"], "".join(cell["source"]))
    for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]
session, changes, told = Session(cells), json.loads(sys.argv[2]), {}
for cell, (old, new) in changes.items():
    assert session.sources[cell].count(old) == 1
    session.change(cell, session.sources[cell].replace(old, new))
errors, proofs, failed = {}, {}, []
for cell, _ in cells:
    for one in session.plan(cell):
        outcome = session.run(one)
        if outcome.claim:
            failed.append(outcome.claim)
        elif outcome.error:
            errors[one] = outcome.error
        for output in outcome.outputs:
            if MIME_TYPE in output:
                record = output[MIME_TYPE]
                measured = output["metadata"][MIME_TYPE]["measured"]
                kinds = [
                    item["kind"]
                    for item, found in zip(record["evidence"], measured)
                    if "status" not in found
                ]
                proofs[record["identifier"]] = kinds.count("proved")
print(json.dumps([errors, proofs, failed]))
"""


def run(script, *arguments):
    """Run a script in a process of its own, where stand-ins replace packages; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout


def chapter(path, changes=None):
    """Return the errors of a chapter, the number of proofs by claim, and the claims that fail."""
    return json.loads(run(CHAPTER, path, json.dumps(changes or {})))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_proof_is_checked_without_numbers(path):
    """Claims from numbers alone are made only where they can be, and may be missing."""
    errors, proofs, failed = chapter(path)
    assert not errors
    assert not failed
    expected = {
        record.identifier: sum(item.kind == "proved" for item in record.evidence)
        for record in records.read_notebook(path)
    }
    assert {name: count for name, count in proofs.items() if count} == {
        name: count for name, count in expected.items() if count
    }


@pytest.mark.parametrize(
    ("cell", "old", "new", "claim"),
    [
        ("p-sympy-function-p-forward", "- mu * p(t)", "- 2 * mu * p(t)", "single-server-transient"),
        ("pasta-eq-lam-pi10-pi01", "Eq(lam * Pi10", "Eq(2 * lam * Pi10", "single-server-blocking"),
    ],
)
def test_a_changed_rate_breaks_the_claims_that_rest_on_it(root, cell, old, new, claim):
    path = root / "derivations/deferral/single_server.ipynb"
    errors, _, failed = chapter(path, {cell: (old, new)})
    assert not errors
    assert claim in failed


def session(*sources):
    """Return the outcome of statements about a session with these cells."""
    return f"""
from derivations.claims.live import Session
session = Session(list(zip("abcdef", {list(sources)!r})))
def run(cell):
    return [(one, session.run(one)) for one in session.plan(cell)]
"""


def test_what_has_run_runs_again_only_if_it_is_concerned():
    script = session("x = 1", "y = 2", "x + y", "x = 10", "x") + (
        "print([one for one, _ in run('c')], end=';')\n"
        "print([one for one, _ in run('c')], end=';')\n"
        "session.change('b', 'y = 5')\n"
        "ran = run('c')\n"
        "print([one for one, _ in ran], ran[-1][1].outputs, end=';')\n"
        "run('e')\n"
        "print(run('c')[-1][1].outputs)\n"
    )
    first, again, changed, later = run(script).strip().split(";")
    assert first == "['a', 'b', 'c']"
    assert again == "['c']"
    assert changed == "['b', 'c'] [{'text/plain': '6'}]"
    assert later == "[{'text/plain': '6'}]", "the later value of x does not reach back"


def test_what_was_changed_in_place_is_made_anew():
    script = session("found = []", "found.append(1)", "len(found)") + (
        "run('c')\nrun('b')\nprint(run('c')[-1][1].outputs)\n"
    )
    assert run(script).strip() == "[{'text/plain': '1'}]"


def test_an_error_names_its_line_and_stops_what_needs_it():
    script = session("x = 1\ny = 1 / 0", "z = 3", "x = 2") + (
        "session.change('c', 'x = (')\n"
        "print(run('a')[-1][1].error)\nprint(run('b')[-1][1].error)\nprint(run('c')[-1][1].error)\n"
    )
    divided, fine, unclosed = run(script).strip().splitlines()
    assert divided == "line 2: ZeroDivisionError: division by zero"
    assert fine == "None"
    assert unclosed == "line 1: '(' was never closed"


@pytest.mark.parametrize(
    "expression",
    [
        "float(np.pi)",
        "bool(np.pi < 4)",
        "list(np.arange(3))",
        "len(np.arange(3))",
        "f'{np.pi:.2f}'",
        "str(np.pi)",
        "round(np.pi, 2)",
        "sympy.sympify(np.pi)",
        "sympy.exp(np.pi)",
        "sympy.Eq(x, np.pi)",
        "bool(x - np.pi == 0)",
        "float(np.pi * x + 1)",
        "range(np.size(3))",
        "sympy.lambdify(x, x, 'numpy')",
        "proved(x, np.pi)",
    ],
)
def test_what_is_absent_becomes_nothing_else(expression):
    head = "import numpy as np\nimport sympy\nfrom derivations.claims import proved\n"
    script = session(head + "x = sympy.Symbol('x')", f"result = {expression}", "result") + (
        "outcome = run('c')[-1][1]\nprint(outcome.needs is not None, outcome.outputs)\n"
    )
    assert run(script).strip() == "True []"


def test_a_wrong_proof_fails_beside_evidence_that_is_not_checked():
    script = session(
        "import numpy as np\nfrom sympy import symbols\n"
        "from derivations.claims import claim, proved, slope\nx = symbols('x')",
        "claim('wrong', f'As {np.pi:.3f} says.', [], proved(x + 1, x), slope(np.pi, [1], 2), "
        "*[lambda: [slope([1, 2, 3], np.e, 2)]])",
    ) + ("print(run('b')[-1][1].claim)\n")
    assert run(script).strip() == "wrong"
