"""Planted faults: each is noticed by the claim that was expected to notice it."""

import json
import os
import shutil
import tomllib
from pathlib import Path

import graph
import nbformat
import pytest
from numba.core.caching import _CacheLocator
from runs import first_error
from slices import needed

ROOT = Path(__file__).parent.parent.parent
MUTATIONS = [
    mutation
    for path in sorted(Path(__file__).with_name("mutations").glob("*.toml"))
    for mutation in tomllib.loads(path.read_text("utf-8"))["mutation"]
]
# Modules that compute nothing that a claim could compare.
NOT_COMPUTING = {
    "__init__.py",
    "__main__.py",
    "answers.py",
    "compiled.py",
    "errors.py",
    "main.py",
    "markov.py",
    "_estimate.py",
    "_ties.py",
    "_parameters.py",
    "_shared.py",
    "shown.py",
    "units.py",
    "docstrings.py",
    "comparable.py",
    "_relaxation.py",  # how long a simulation must be, which no claim states
    "_queue_estimates.py",  # what a simulation returns; only tests ask for its quantiles
}


def code_of(notebook):
    """Return the sources of its code cells."""
    cells = nbformat.read(notebook, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


def mutated(text, mutation, is_notebook):
    """Return ``text`` with the fault planted; the place must be unique."""
    old, new = mutation["old"], mutation["new"]
    if is_notebook:
        old, new = (json.dumps(part, ensure_ascii=False)[1:-1] for part in (old, new))
    assert text.count(old) == 1, f"{mutation['file']}: {text.count(old)} places read {old!r}"
    return text.replace(old, new)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """Return one folder for all faults, with what is compiled already of the tree as it is."""
    workshop = tmp_path_factory.mktemp("faults")
    (workshop / "compiled").mkdir()
    copy_tree(workshop / "tree")
    copy_compiled(workshop)
    return workshop


def copy_tree(tree):
    """Lay a fresh copy of the packages, without notebooks; the files keep their times."""
    shutil.rmtree(tree, ignore_errors=True)
    for package in ("qcore", "derivations"):
        shutil.copytree(
            ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__", "*.ipynb")
        )


def copy_compiled(workshop):
    """Copy what Numba has compiled of this tree to where it looks for the copy's."""
    compiled = Path(os.environ["NUMBA_CACHE_DIR"])
    for module in (ROOT / "qcore").rglob("*.py"):
        source = compiled / cache_folder(module)
        target = workshop / "compiled" / cache_folder(workshop / "tree" / module.relative_to(ROOT))
        for path in source.glob(f"{module.stem}.*"):
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def cache_folder(module):
    """Return the name of the folder in which Numba keeps what it compiles of a module."""
    return _CacheLocator.get_suitable_cache_subpath(str(module))


def compiled_without(workshop, file):
    """Return the folder of what is compiled, without what a fault in ``file`` may reach.

    Numba itself compiles anew what stands in a changed file, but not what calls it.
    """
    tree = workshop / "tree"
    reached = graph.users(graph.imports(tree, "qcore"), tree / file)
    if not reached:
        return workshop / "compiled"
    own = workshop / "compiled for this fault"
    shutil.rmtree(own, ignore_errors=True)
    shutil.copytree(workshop / "compiled", own, copy_function=os.link)
    for module in reached:
        for path in (own / cache_folder(module)).glob(f"{module.stem}.*"):
            path.unlink()
    return own


@pytest.mark.faults
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: f"{one['file']}:{one['claim']}")
def test_a_planted_fault_is_noticed(mutation, workshop):
    tree = workshop / "tree"
    copy_tree(tree)
    shutil.copy(ROOT / mutation["notebook"], tree / mutation["notebook"])
    target = tree / mutation["file"]
    text = target.read_text(encoding="utf-8")
    target.write_text(mutated(text, mutation, target.suffix == ".ipynb"), encoding="utf-8")

    environment = {"NUMBA_CACHE_DIR": str(compiled_without(workshop, mutation["file"]))}
    sources = code_of(tree / mutation["notebook"])
    error = first_error(tree, needed(sources, mutation["claim"]), environment)
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
