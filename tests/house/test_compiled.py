"""The compiled kernels work where nothing can be written, and where Numba is switched off."""

import os
import shutil
import subprocess
import sys

import pytest

# The wait for a table of queues is short in compiled code; in plain Python a few calls must do.
PLAIN = """
from qcore import erlang
from qcore.deferral import dsrt, esrt, single_deferral
from qcore.simulate import Dsrt, ReturnRule, deferrals

def after_one(random, now, last_return, deferred, parameters):
    return now + 1.0

assert abs(erlang.erlang_b(2, 1.0) - 0.2) < 1e-15
assert erlang.servers_for_delay(100.0, 0.2, 1.0) == 109
assert esrt.blocking_probability(2, 2, 1.0, 1.0, 1.0) < 0.2
assert dsrt.blocking_probability(2, 2, 1.0, 1.0, 1.0) < 0.2
for policy in (Dsrt(1.0), ReturnRule(after_one)):
    run = deferrals(1, 1, 1.0, 1.0, policy, customers=2000, seed=1)
    assert 0.3 < run.blocking_probability.value < 0.6
"""


@pytest.fixture
def unwritable(root, tmp_path):
    """Return the environment of a copy of the package beside which nothing can be written.

    A file stands where each folder of compiled code would be, which stops the superuser too.
    """
    tree = tmp_path / "qcore"
    shutil.copytree(root / "qcore", tree, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [tree, *(path for path in tree.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    nowhere = str(tree / "__pycache__" / "home")
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return kept | {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "PYTHONPATH": str(tmp_path)}


def run(code, environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_kernels_compile_where_nothing_can_be_written(unwritable, tmp_path):
    code = "import qcore.simulate; from qcore import deferral, erlang; print(erlang.__file__)"
    code += "; print(erlang.erlang_b(2, 1.0))"
    done = run(code, unwritable)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "qcore" / "erlang" / "__init__.py"), "0.2"]
    assert not list(tmp_path.rglob("*.nbi"))


def test_the_kernels_run_where_numba_is_switched_off(root):
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(root)}
    done = run(PLAIN, environment)
    assert done.returncode == 0, done.stderr
