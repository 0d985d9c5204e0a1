"""Planted faults: each is noticed by the claim that was expected to notice it."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MUTATIONS = tomllib.loads((ROOT / "tests" / "mutations.toml").read_text("utf-8"))["mutation"]
# Modules that compute nothing that a claim could compare.
NOT_COMPUTING = {"__init__.py", "errors.py", "_estimate.py", "_parameters.py"}


def mutated(text, mutation, is_notebook):
    """Return ``text`` with the fault planted; the place must be unique."""
    old, new = mutation["old"], mutation["new"]
    if is_notebook:
        old, new = (json.dumps(part, ensure_ascii=False)[1:-1] for part in (old, new))
    assert text.count(old) == 1, f"{mutation['file']}: {text.count(old)} places read {old!r}"
    return text.replace(old, new)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: f"{one['file']}:{one['claim']}")
def test_a_planted_fault_is_noticed(mutation, tmp_path):
    notebook = tmp_path / mutation["notebook"]
    notebook.parent.mkdir(parents=True)
    shutil.copy(ROOT / mutation["notebook"], notebook)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    environment = dict(os.environ)
    target = tmp_path / mutation["file"]
    if not target.exists():
        # The kernel must import the faulty copy, and compile it anew.
        ignored = shutil.ignore_patterns("__pycache__", "*.ipynb")
        for package in ("qcore", "derivations"):
            shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored, dirs_exist_ok=True)
        environment |= {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    text = target.read_text(encoding="utf-8")
    target.write_text(mutated(text, mutation, target.suffix == ".ipynb"), encoding="utf-8")

    command = [sys.executable, "-m", "pytest", "--nbval", "--claims-only", "-x", "-q"]
    run = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-p", "no:xdist", str(notebook)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout[-3000:] + run.stderr[-3000:]
    assert f"claim {mutation['claim']} (" in run.stdout, run.stdout[-3000:]


def test_every_notebook_and_module_has_a_planted_fault(notebooks):
    planted = {mutation["file"] for mutation in MUTATIONS}
    expected = {str(path.relative_to(ROOT)) for path in notebooks}
    expected |= {
        str(path.relative_to(ROOT))
        for path in (ROOT / "qcore").rglob("*.py")
        if path.name not in NOT_COMPUTING
    }
    assert expected <= planted, f"no fault is planted in {sorted(expected - planted)}"
    assert planted <= expected, f"there is no {sorted(planted - expected)}"
