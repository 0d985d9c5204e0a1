"""Planted faults: each is noticed by the claim that was expected to notice it."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
from cells import first_error

from derivations.claims.rerun import compiled_state

ROOT = Path(__file__).parent.parent.parent
MUTATIONS = [
    mutation
    for path in sorted(Path(__file__).with_name("mutations").glob("*.toml"))
    for mutation in tomllib.loads(path.read_text("utf-8"))["mutation"]
]
# Modules that compute nothing that a claim could compare.
NOT_COMPUTING = {
    "__init__.py",
    "compiled.py",
    "errors.py",
    "markov.py",
    "_estimate.py",
    "_ties.py",
    "_parameters.py",
}


def mutated(text, mutation, is_notebook):
    """Return ``text`` with the fault planted; the place must be unique."""
    old, new = mutation["old"], mutation["new"]
    if is_notebook:
        old, new = (json.dumps(part, ensure_ascii=False)[1:-1] for part in (old, new))
    assert text.count(old) == 1, f"{mutation['file']}: {text.count(old)} places read {old!r}"
    return text.replace(old, new)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """Return one folder for all faults, so that what a fault leaves alone is compiled once."""
    return tmp_path_factory.mktemp("faults")


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: f"{one['file']}:{one['claim']}")
def test_a_planted_fault_is_noticed(mutation, workshop):
    tree = workshop / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    for package in ("qcore", "derivations"):
        shutil.copytree(
            ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__", "*.ipynb")
        )
    shutil.copy(ROOT / mutation["notebook"], tree / mutation["notebook"])
    target = tree / mutation["file"]
    text = target.read_text(encoding="utf-8")
    target.write_text(mutated(text, mutation, target.suffix == ".ipynb"), encoding="utf-8")

    environment = {"NUMBA_CACHE_DIR": str(workshop / "compiled" / compiled_state(tree))}
    error = first_error(tree, mutation["notebook"], environment)
    assert error is not None, "no cell fails"
    assert f"claim {mutation['claim']} (" in error, error


def test_every_notebook_and_module_has_a_planted_fault(notebooks):
    planted = {mutation["file"] for mutation in MUTATIONS}
    expected = {str(path.relative_to(ROOT)) for path in notebooks}
    expected |= {
        str(path.relative_to(ROOT))
        for path in (ROOT / "qcore").rglob("*.py")
        if path.name not in NOT_COMPUTING
    }
    assert expected <= planted, f"no fault is planted in {sorted(expected - planted)}"
    missing = [file for file in planted if not (ROOT / file).is_file()]
    assert not missing, f"there is no {missing}"
