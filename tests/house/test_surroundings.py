"""The same result on anybody's machine: with hostile settings, old packages, odd paths."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from derivations.claims import surroundings

CELLS = [
    "import matplotlib.pyplot as plt\nfrom derivations.pages import figures\n\nfigures.use_style()",
    "'shown only by a kernel that shows everything'\n6 * 7",
    "plt.plot([0, 1], [1, 0])\nplt.show()",
]


def scrubbed(root):
    """Return an environment with nothing but what a program needs to start."""
    return {"PATH": os.defpath, "PYTHONPATH": str(root)}


def hostile(root, folder):
    """Return an environment whose every setting would change or break a run."""
    home = folder / "home"
    home.touch()  # A file: nothing below it can be made, by the superuser neither.
    profile = folder / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_config.py").write_text(
        "c.InteractiveShell.ast_node_interactivity = 'all'\n"
    )
    (profile / "startup").mkdir()
    (profile / "startup" / "first.py").write_text("raise SystemExit('startup of the user')\n")
    kernel = folder / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    spec = {"argv": ["false", "{connection_file}"], "display_name": "x", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    drawing = folder / "matplotlib"
    drawing.mkdir()
    (drawing / "matplotlibrc").write_text("lines.linewidth: 20\nfigure.figsize: 20, 1\n")
    startup = folder / "startup.py"
    startup.write_text("print('hello from the startup file')\n")
    return {
        "PATH": os.defpath,
        "PYTHONPATH": str(root),
        "LC_ALL": "C",
        "HOME": str(home),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_PATH": str(folder / "jupyter"),
        "JUPYTER_DATA_DIR": str(folder / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "MATPLOTLIBRC": str(drawing),
        "MPLCONFIGDIR": str(drawing),
        "MPLBACKEND": "Agg",
        "NUMBA_DISABLE_JIT": "1",
        "PIP_USER": "1",
        "PYTHONSTARTUP": str(startup),
        "SYMPY_USE_CACHE": "no",
    }


def run(*command, env, cwd, status=0):
    done = subprocess.run(
        [str(word) for word in command],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture
def page(root):
    """A notebook below the root, so that the root's conftest applies to it."""
    folder = root / "derivations" / "deferral" / ".hostile_test"
    folder.mkdir(exist_ok=True)
    yield folder / "page.ipynb"
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.xdist_group("nbval")
def test_hostile_settings_change_nothing(root, page, tmp_path):
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), page)
    rerun = [sys.executable, "-m", "derivations.claims.rerun", page]
    run(*rerun, env=scrubbed(root), cwd=root)
    stored = page.read_bytes()
    assert b"image/svg+xml" in stored
    environment = hostile(root, tmp_path)
    run(*rerun, env=environment, cwd=root)
    assert page.read_bytes() == stored
    nbval = [sys.executable, "-m", "pytest", "--nbval", page, "-q", "-p", "no:cacheprovider"]
    options = ["--rootdir", root, "-c", root / "pyproject.toml"]
    said = run(*nbval, *options, env=environment, cwd=root)
    assert f"{len(CELLS)} passed" in said


def test_the_settings_tested_are_those_that_are_dropped(root, tmp_path, monkeypatch):
    """After `settle`, nothing of the hostile environment is left but what is harmless."""
    environment = hostile(root, tmp_path)
    code = (
        "import json, os\n"
        "from derivations.claims import surroundings\n"
        "surroundings.settle()\n"
        "print(json.dumps(dict(os.environ)))\n"
    )
    left = json.loads(run(sys.executable, "-c", code, env=environment, cwd=root))
    harmless = {"PATH", "PYTHONPATH", "LC_ALL", "HOME", "PIP_USER"}
    same = {name for name, value in environment.items() if left.get(name) == value}
    assert same == harmless
    for name in surroundings.FOLDERS:
        assert os.access(left[name], os.W_OK)


@pytest.mark.parametrize(("package", "version"), [("sympy", "1.5"), ("numpy", "1.26.4")])
@pytest.mark.parametrize("with_metadata", [True, False])
def test_an_older_package_on_the_path_is_named_at_once(
    root, tmp_path, package, version, with_metadata
):
    old = tmp_path / "old"
    (old / package).mkdir(parents=True)
    (old / package / "__init__.py").write_text(f"__version__ = '{version}'\n")
    if with_metadata:
        record = old / f"{package}-{version}.dist-info"
        record.mkdir()
        (record / "METADATA").write_text(f"Name: {package}\nVersion: {version}\n")
    environment = scrubbed(root) | {"PYTHONPATH": os.pathsep.join([str(old), str(root)])}
    code = "from derivations.claims import surroundings; surroundings.settle()"
    said = run(sys.executable, "-c", code, env=environment, cwd=root, status=1)
    assert f"{package} {version} in {old / package}: >=" in said
    assert "PYTHONPATH" in said


def test_python_without_its_checks_is_refused(root):
    code = "from derivations.claims import surroundings; surroundings.settle()"
    environment = scrubbed(root) | {"PYTHONOPTIMIZE": "1"}
    assert "PYTHONOPTIMIZE" in run(sys.executable, "-c", code, env=environment, cwd=root, status=1)


def test_where_nothing_can_be_written_a_folder_is_made_elsewhere(tmp_path):
    occupied = tmp_path / "occupied"
    occupied.touch()
    folder = surroundings._writable(occupied)
    assert folder.is_dir()
    assert folder != occupied
    folder.rmdir()


NOT_SOURCES = shutil.ignore_patterns(
    ".*", "_build", "__pycache__", "*.egg-info", "build", "node_modules", "screenshots"
)
NOTEBOOK = "derivations/admission/optimal_truncation.ipynb"


@pytest.fixture(scope="module")
def odd_place(root, tmp_path_factory):
    """A copy of the sources in a folder with blanks, an apostrophe and letters beyond ASCII."""
    tree = tmp_path_factory.mktemp("elsewhere") / "Erlang's  Warteschlangen für alle"
    shutil.copytree(root, tree, ignore=NOT_SOURCES)
    return tree


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_is_called_from_anywhere(odd_place, tmp_path):
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    listed = run("make", "-f", odd_place / "Makefile", env=environment, cwd=tmp_path)
    assert listed == run("make", env=environment, cwd=odd_place)
    assert "test-latest" in listed
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.xdist_group("packages")
def test_the_environment_is_set_up_in_an_odd_place_and_works(odd_place, tmp_path):
    """`make -f` from another folder, with the user's own settings of pip and a C locale."""
    hooks = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    certificates = {name: value for name, value in os.environ.items() if "CERT" in name}
    environment = hostile(tmp_path / "nowhere", tmp_path) | hooks | certificates
    environment |= {"PIP_TARGET": str(tmp_path / "target"), "PYTHONOPTIMIZE": "1"}
    options = ["COMPILE=", f"PYTHON={sys.executable}"]
    run("make", "-f", odd_place / "Makefile", *options, "lint", env=environment, cwd=tmp_path)
    assert not (tmp_path / "target").exists()
    del environment["PYTHONOPTIMIZE"], environment["PYTHONPATH"]
    python = odd_place / ".venv" / "bin" / "python"
    command = [python, "-m", "derivations.claims.rerun", odd_place / NOTEBOOK]
    run(*command, env={"PATH": os.defpath}, cwd=tmp_path)
    plain = (odd_place / NOTEBOOK).read_bytes()
    run(*command, env=environment, cwd=tmp_path)
    assert (odd_place / NOTEBOOK).read_bytes() == plain


def interpreter(version):
    """Return a Python of that version: the one on the path, or one that pyenv keeps; or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    kept = sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    for candidate in filter(None, [shutil.which(f"python{version}"), *kept]):
        # pyenv leaves a command on the path for every version, also for those not chosen.
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


@pytest.mark.pythons
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_other_pythons(root, tmp_path, version):
    """The lock installs, and formulas, a claim and a simulation run; skipped without the Python."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version}: the lock was resolved for it, not run")
    uv = [sys.executable, "-m", "uv"]
    run(*uv, "venv", "--python", python, tmp_path / "own", env=os.environ, cwd=tmp_path)
    python = tmp_path / "own" / "bin" / "python"
    install = [*uv, "pip", "install", "--python", python, "-r", root / "requirements.txt"]
    run(*install, env=os.environ, cwd=tmp_path)
    editable = ["--no-deps", "--no-build-isolation", "-e", root, "-e", root / "derivations"]
    run(*install[:-2], *editable, env=os.environ, cwd=tmp_path)
    environment = {"PATH": os.environ["PATH"], "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    pytest_ = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=600"]
    run(*pytest_, "tests/erlang", "tests/claims/test_claims.py", env=environment, cwd=root)
    run(*pytest_, "--nbval", NOTEBOOK, "--claims-only", env=environment, cwd=root)
