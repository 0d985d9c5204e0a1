"""Parameters of a notebook: found, checked, replaced; what runs with other ones say of claims."""

import subprocess
import sys

import nbformat
import pytest

from derivations.claims import rerun
from derivations.claims.parameters import Verdicts, parameters, with_changes

SOURCE = """\
x = Symbol("x", positive=True)  # the argument
order = 3  # integer from 0 to 6: corrections
loads = [
    0.1,  # light
    2.0,
]  # from 0.05 to 10
profile = exp(-x)  # any decreasing function"""


def notebook(*sources, tagged=SOURCE):
    first = nbformat.v4.new_code_cell(tagged, metadata={"tags": ["parameters"]})
    cells = [first, *(nbformat.v4.new_code_cell(source) for source in sources)]
    return nbformat.v4.new_notebook(cells=cells)


def test_parameters_are_found_with_their_values_and_ranges():
    found = parameters(notebook("other = 1  # no parameter"))
    assert list(found) == ["x", "order", "loads", "profile"]
    assert found["order"].value == "3"
    assert found["order"].note == "integer from 0 to 6: corrections"
    assert found["loads"].note == "from 0.05 to 10"


def test_values_are_replaced_where_they_stand():
    original = notebook()
    changes = {"order": "5", "profile": "exp(-x**2)", "loads": "[9.5]"}
    changed = with_changes(original, changes).cells[0].source
    assert changed.splitlines() == [
        'x = Symbol("x", positive=True)  # the argument',
        "order = 5  # integer from 0 to 6: corrections",
        "loads = [9.5]  # from 0.05 to 10",
        "profile = exp(-x**2)  # any decreasing function",
    ]
    assert original.cells[0].source == SOURCE
    tagged = 'name = "λ"; other = "μ"  # letters'
    assert with_changes(notebook(tagged=tagged), {"other": "'ν'"}).cells[0].source == (
        "name = \"λ\"; other = 'ν'  # letters"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"orders": "5"}, "orders is no parameter of this notebook; there are: x, order, loads"),
        ({"order": "7"}, "order = 7: must be integer from 0 to 6"),
        ({"order": "2.5"}, "order = 2.5: must be integer"),
        ({"loads": "[1, 11]"}, r"loads = \[1, 11\]: must be from 0.05 to 10"),
        ({"loads": "[1, float('nan')"}, "must be a Python expression"),
        ({"order": "5; import os"}, "must be a Python expression"),
    ],
)
def test_what_is_no_parameter_or_out_of_range_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        with_changes(notebook(), changes)


def test_an_infinite_range_has_one_end():
    one = notebook(tagged="load = 1  # from 0.5 to ∞")
    assert with_changes(one, {"load": "1e9"}).cells[0].source.startswith("load = 1e9")
    with pytest.raises(ValueError, match=r"must be from 0\.5"):
        with_changes(one, {"load": "0.4"})


CLAIM = """
from derivations.claims import argued, claim, compared
claim("{0}", "It holds.", [], {1}, applies=(gamma != 7, "needs another γ"))
"""


def test_a_run_with_other_parameters_says_what_becomes_of_each_claim(tmp_path):
    path = tmp_path / "page.ipynb"
    sources = [
        CLAIM.format("positive", "compared([gamma], [0], 'positive')"),
        CLAIM.format("argued", "argued('above')"),
        "1 / (gamma + 2)",
        CLAIM.format("below", "compared([9], [gamma], 'below')"),
    ]
    nbformat.write(notebook(*sources, tagged="gamma = 1  # from -9 to 99"), path)
    assert rerun.main([str(path)]) == 0
    stored = path.read_bytes()

    verdicts = rerun.with_parameters(path, {"gamma": "2"}, tmp_path / "mine.ipynb")
    assert verdicts.sound
    assert verdicts.having("holds") == ["positive", "argued", "below"]
    mine = nbformat.read(tmp_path / "mine.ipynb", as_version=4)
    assert mine.cells[0].source == "gamma = 2  # from -9 to 99"

    verdicts = rerun.with_parameters(path, {"gamma": "-2"})
    assert verdicts.claims["positive"].startswith("fails: claim positive (agrees): positive: -2 ")
    assert verdicts.having("holds") == ["argued", "below"]
    assert list(verdicts.stops.values()) == ["ZeroDivisionError: division by zero"]
    assert not verdicts.sound
    assert "Claims: 2 holds, 1 fails" in verdicts.report()

    verdicts = rerun.with_parameters(path, {"gamma": "7"})
    assert verdicts.claims["below"] == "does not apply: it needs another γ"
    assert verdicts.sound
    assert path.read_bytes() == stored


def test_the_command_refuses_what_it_cannot_set(tmp_path, capsys):
    path = tmp_path / "page.ipynb"
    nbformat.write(notebook(), path)
    for options, message in [
        (["--set", "orders=5"], "there are: x, order, loads, profile"),
        (["--set", "order=7"], "must be integer from 0 to 6"),
        (["--output", str(path)], "would overwrite"),
        ([str(path), "--set", "order=5"], "for one notebook"),
    ]:
        with pytest.raises(SystemExit):
            rerun.main([str(path), *options])
        assert message in capsys.readouterr().err


def test_a_claim_that_no_cell_reached_is_not_sound():
    verdicts = Verdicts({"one": "not reached"})
    assert not verdicts.sound
    assert "1 not reached" in verdicts.report()


def test_parameters_need_no_notebook_library():
    code = "import sys, derivations.claims.parameters; sys.exit('nbformat' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
