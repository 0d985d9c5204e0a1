"""What a claim needs of a notebook, found from the names that its cells use."""

import builtins

import nbformat
import pytest
from cells import names, needed
from test_mutations import MUTATIONS, ROOT

NOTEBOOK = [
    "import sympy",
    "K = 2",
    "unrelated = K + 1",
    "def loss(load):\n    return load / (K + load)",
    "rows = []",
    "rows.append(loss(1))\nprint('filled')",
    "claim('first', 'It holds.', [], proved(unrelated, 3))",
    "%config InlineBackend.figure_formats = ['svg']",
    "table({'loss': rows})",
    "claim('second', 'It holds.', [], proved(rows[0], sympy.Rational(1, 3)))",
    "K = 3",
]


def test_a_claim_needs_what_binds_or_changes_what_it_uses():
    assert needed(NOTEBOOK, "first") == [NOTEBOOK[place] for place in (0, 1, 2, 6)]
    assert needed(NOTEBOOK, "second") == [NOTEBOOK[place] for place in (0, 1, 3, 4, 5, 9)]


@pytest.mark.parametrize("identifier", ["nowhere", "K"])
def test_a_claim_that_is_not_made_once_is_refused(identifier):
    with pytest.raises(ValueError, match=f"claim {identifier}: made in 0 cells"):
        needed(NOTEBOOK, identifier)


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("law[0] = 1", {"law"}),
        ("law.rows = 1", {"law"}),
        ("law += 1", {"law"}),
        ("(law := 1)", {"law"}),
        ("for law in range(3):\n    pass", {"law"}),
        ("kept = law.pop()", {"kept", "law"}),
        ("fill(law)\n1", {"fill", "law"}),
        ("mpmath.mp.dps = 50", {"mpmath"}),
        ("from a import law", {"law"}),
        ("law", set()),
    ],
)
def test_what_a_cell_binds_or_changes(source, changed):
    assert names(source)[1] == changed


def test_what_is_kept_lacks_no_name_that_the_notebook_binds():
    for mutation in MUTATIONS:
        notebook = nbformat.read(ROOT / mutation["notebook"], as_version=4)
        sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        kept = needed(sources, mutation["claim"])
        before = sources[: sources.index(kept[-1])]
        bound = set().union(*(names(source)[1] for source in kept))
        used = set().union(*(names(source)[0] for source in kept)) - set(dir(builtins))
        elsewhere = set().union(*(names(source)[1] for source in before))
        assert not (used - bound) & elsewhere, mutation
        assert len(kept) < len(sources), mutation
