"""The generator of faults: what it finds, where it plants, and what it runs."""

import json
import shutil

from tools import mutants

SOURCE = '''\
"""At most 2 + 2."""
from a import b

def f(x, *rest):
    """Return x + 1."""
    if x < 0:
        raise ValueError(f"x = {x}: must be at least 0 + 1")
    λ = max(x, 2) ** 1.5 * x
    plt.plot(x + 1)
    claim("a", proved(x + 7, λ), agrees(x, {x: uniform(1, 2)}, tolerance=1e-9))
    return λ
'''


def test_faults_are_single_tokens_that_mean_something():
    found = {(fault.old, fault.new, fault.line) for fault in mutants.faults_in(SOURCE, "f.py")}
    assert found == {
        ("<", "<=", 6),
        ("0", "1", 6),
        ("max", "min", 8),
        ("2", "3", 8),
        ("**", "*", 8),
        ("1.5", "1.515", 8),
        ("*", "/", 8),
        ("+", "-", 10),
        ("7", "8", 10),
    }


def test_a_fault_is_planted_where_it_was_found(tmp_path):
    (tmp_path / "f.py").write_text(SOURCE, "utf-8")
    cell = {"cell_type": "code", "metadata": {}, "source": SOURCE.splitlines(keepends=True)}
    (tmp_path / "f.ipynb").write_text(json.dumps({"cells": [cell]}), "utf-8")
    for file, place in (("f.py", None), ("f.ipynb", 0)):
        (fault,) = (one for one in mutants.faults_in(SOURCE, file, place) if one.old == "**")
        mutants.plant(fault, tmp_path)
    expected = SOURCE.replace("2) ** 1.5", "2) * 1.5")
    assert (tmp_path / "f.py").read_text("utf-8") == expected
    (planted,) = json.loads((tmp_path / "f.ipynb").read_text("utf-8"))["cells"]
    assert "".join(planted["source"]) == expected


def test_a_module_s_tests_are_found_from_imports():
    assert mutants.tests_for("qcore/erlang/_formulas.py")[0] == "tests/erlang/test_erlang.py"
    assert mutants.tests_for("qcore/deferral/esrt.py")[0] == "tests/deferral/test_esrt.py"
    assert "tests/qed/test_qed.py" in mutants.tests_for("qcore/_numerics/sums.py")


def test_a_sample_is_the_same_for_a_seed_and_every_part_has_faults():
    assert mutants.sample(3, 4) == mutants.sample(3, 4)
    assert mutants.sample(3, 4) != mutants.sample(4, 4)
    faults = mutants.all_faults()
    assert {mutants.package(fault.file) for fault in faults["qcore"]} >= {
        "qcore.erlang", "qcore.admission", "qcore.qed", "qcore.diffusion", "qcore.deferral",
        "qcore.idling", "qcore.simulate",
    }  # fmt: skip


def test_what_claims_notice_and_what_they_do_not(root, tmp_path):
    for folder in ("qcore", "derivations"):
        hidden = shutil.ignore_patterns("__pycache__", "*.ipynb")
        shutil.copytree(root / folder, tmp_path / folder, ignore=hidden)
    source = (
        "import qcore, sympy\nfrom derivations.claims import claim, proved\n"
        "x = sympy.Symbol('x')\nunused = 3\nleft = (x + 1) ** 2\n"
        "claim('square', 'It is.', [], proved(left, x**2 + 2 * x + 1))"
    )
    cell = {"cell_type": "code", "metadata": {}, "source": [source]}
    (tmp_path / "page.ipynb").write_text(json.dumps({"cells": [cell]}), "utf-8")
    outcome = {
        (fault.line, fault.old): mutants.noticed(fault, tmp_path)
        for fault in mutants.faults_in(source, "page.ipynb", 0)
        if (fault.line, fault.old) in ((4, "3"), (5, "+"))
    }
    assert outcome[4, "3"] is None
    assert outcome[5, "+"].startswith("ClaimFailed: claim square (proved)")
