"""The cells that a change of parameters reaches, and those that a claim needs."""

import builtins

import pytest
from slices import chosen, names, needed
from test_mutations import MUTATIONS, ROOT, code_of

SOURCES = [
    "import matplotlib.pyplot as plt\nfrom qcore import erlang, simulate",
    "load = 1.0\norder = 2",
    "symbols = [load_free for load_free in range(3)]",
    "def at(size, order):\n    return erlang.erlang_b(size, size * load)",
    "slow = simulate.run()",
    "values = [at(size, 1) for size in symbols]",
    "plt.plot(values)\nplt.show()",
    "claim('other', slow)",
    "terms = []",
    "terms.append(order)",
    "print(terms)",
]


def test_what_a_change_reaches_is_run_with_what_it_needs_and_nothing_else():
    needed, reached = chosen(SOURCES, 1, ["load"])
    assert reached == {3, 5, 6}
    assert needed == {0, 1, 2, 3, 5, 6}


def test_a_name_inside_of_a_function_is_another_and_an_object_may_change_in_place():
    needed, reached = chosen(SOURCES, 1, ["order"])
    assert reached == {9, 10}
    assert needed == {1, 8, 9, 10}


@pytest.mark.parametrize(
    ("source", "read", "written"),
    [
        ("a = b + c", {"b", "c"}, {"a"}),
        ("a.b[c] = d", {"a", "c", "d"}, {"a"}),
        ("(a, *b), c = d", {"d"}, {"a", "b", "c"}),
        ("f(a)", {"f", "a"}, set()),
        ("a.b(c).d(e)", {"a", "c", "e"}, {"a"}),
        ("import a.b as c, d.e", set(), {"c", "d"}),
        ("x = [a for a in b if a > c]", {"b", "c"}, {"x"}),
        ("def f(a, b=c):\n    return lambda d: a + d + e", {"c", "e"}, {"f"}),
        ("for a in b:\n    c += a", {"a", "b", "c"}, {"a", "c"}),
        ("with a as b:\n    pass", {"a"}, {"b"}),
    ],
)
def test_names_are_found(source, read, written):
    found = names(source)
    assert found[0] >= read
    assert found[0] - read <= written
    assert found[1] == written


NOTEBOOK = [
    "import sympy",
    "K = 2",
    "unrelated = K + 1",
    "def loss(load):\n    return load / (K + load)",
    "rows = []",
    "rows.append(loss(1))\nprint('filled')",
    "claim('first', 'It holds.', [], proved(unrelated, 3))",
    "names = [size for size in range(3)]",
    "table({'loss': rows})\nfill(rows)\nnames",
    "size = rows.pop()",
    "claim('second', 'It holds.', [], proved(rows[0], sympy.Rational(1, 3)))",
    "K = 3",
]


def test_a_claim_needs_what_sets_or_changes_what_it_reads():
    assert needed(NOTEBOOK, "first") == [NOTEBOOK[place] for place in (1, 2, 6)]
    places = (0, 1, 3, 4, 5, 7, 8, 9, 10)
    assert needed(NOTEBOOK, "second") == [NOTEBOOK[place] for place in places]


@pytest.mark.parametrize("identifier", ["nowhere", "K"])
def test_a_claim_that_is_not_made_once_is_refused(identifier):
    with pytest.raises(ValueError, match=f"claim {identifier}: made in 0 cells"):
        needed(NOTEBOOK, identifier)


def test_what_is_kept_lacks_no_name_that_the_notebook_sets():
    for mutation in MUTATIONS:
        sources = code_of(ROOT / mutation["notebook"])
        kept = needed(sources, mutation["claim"])
        before = sources[: sources.index(kept[-1])]
        written = set().union(*(names(source)[1] for source in kept))
        read = set().union(*(names(source)[0] for source in kept)) - set(dir(builtins))
        elsewhere = set().union(*(names(source)[1] for source in before))
        assert not (read - written) & elsewhere, mutation
        assert len(kept) < len(sources), mutation
