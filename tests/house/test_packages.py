"""What others install: the wheel of qcore alone, the derivations beside it, and the sources."""

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest
import yaml

NOT_SOURCES = shutil.ignore_patterns(
    ".*", "_build", "__pycache__", "*.egg-info", "build", "node_modules", "screenshots"
)
UV = [sys.executable, "-m", "uv", "--no-config"]


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def archives(root, tmp_path_factory):
    """Build both distributions, each wheel from its source archive; return their folder."""
    folder = tmp_path_factory.mktemp("packages")
    tree = folder / "tree"
    shutil.copytree(root, tree, ignore=NOT_SOURCES)
    for project in (tree, tree / "derivations"):
        options = ["--python", sys.executable, "--no-build-isolation", "--offline"]
        run(*UV, "build", *options, "--out-dir", folder / "dist", project)
    return folder / "dist"


def version(root):
    (line,) = re.findall(r'^__version__ = "(.+)"$', (root / "qcore/__init__.py").read_text(), re.M)
    return line


def wheel(archives, name):
    (path,) = archives.glob(f"{name}-[0-9]*.whl")
    return path


@pytest.mark.xdist_group("packages")
def test_the_wheel_holds_qcore_alone(root, archives):
    with zipfile.ZipFile(wheel(archives, "queues_under_control")) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    modules = {name for name in names if ".dist-info/" not in name}
    expected = {str(path.relative_to(root)) for path in (root / "qcore").rglob("*.py")}
    assert modules == expected | {"qcore/py.typed"}
    assert f"\nVersion: {version(root)}\n" in metadata
    needed = re.findall(r"^Requires-Dist: (\w+)[^;\n]*$", metadata, re.M)
    assert sorted(needed) == ["numba", "numpy", "scipy"]


@pytest.mark.xdist_group("packages")
def test_the_derivations_are_a_distribution_beside_it(root, archives):
    with zipfile.ZipFile(wheel(archives, "queues_under_control_derivations")) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        str(path.relative_to(root))
        for ending in ("*.py", "*.ipynb")
        for path in (root / "derivations").rglob(ending)
        if not any(part.startswith(".") for part in path.parts)
    }
    assert names == expected


@pytest.mark.xdist_group("packages")
def test_the_source_archive_holds_what_make_needs(root, archives):
    (path,) = archives.glob("queues_under_control-[0-9]*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listed = run("git", "ls-files", cwd=root).split() if (root / ".git").exists() else []
    kept = [name for name in listed if not name.startswith(".")]
    assert not [name for name in kept if name not in names]
    assert {"Makefile", "requirements.txt", "derivations/deferral/esrt.ipynb"} <= names


IN_A_BARE_ENVIRONMENT = """
import importlib.util, pkgutil
import qcore
from qcore import erlang
from qcore.deferral import single_server

absent = [name for name in ("sympy", "matplotlib", "derivations") if importlib.util.find_spec(name)]
assert not absent, absent
for module in pkgutil.walk_packages(qcore.__path__, "qcore."):
    importlib.import_module(module.name)
blocking = 1.0
for servers in range(1, 101):
    blocking = 90 * blocking / (servers + 90 * blocking)
assert abs(erlang.erlang_b(100, 90.0) / blocking - 1) < 1e-14
assert single_server.optimal_spacing(1.0, 1.0) > 0
print(qcore.__version__, qcore.__file__)
"""


@pytest.mark.slow
@pytest.mark.xdist_group("packages")
def test_the_wheel_works_in_a_bare_environment(root, archives, tmp_path):
    """Its needs come from the lock, out of the cache of packages where that has them."""
    bare = tmp_path / "bare"
    python = bare / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(*UV, "venv", "--python", sys.executable, bare)
    install = ["pip", "install", "--python", python, "--constraint", root / "requirements.txt"]
    target = wheel(archives, "queues_under_control")
    offline = [sys.executable, "-m", "uv", *map(str, install), "--offline", str(target)]
    if subprocess.run(offline, capture_output=True, check=False).returncode:
        run(sys.executable, "-m", "uv", *install, target)
    environment = {"PATH": str(bare), "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    said = run(python, "-c", IN_A_BARE_ENVIRONMENT, cwd=tmp_path, env=environment)
    assert said.startswith(version(root))
    assert str(bare) in said


def test_the_version_is_the_same_wherever_it_must_stand(root):
    citation = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    derivations = tomllib.loads((root / "derivations/pyproject.toml").read_text("utf-8"))
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    assert str(citation["version"]) == derivations["project"]["version"] == version(root)
    assert "version" not in project
    assert f"\n## {version(root)}" in (root / "CHANGELOG.md").read_text("utf-8")


def test_the_derivations_name_every_package_that_they_import(root):
    """What a distribution imports at the top is among its own needs, not only brought along."""
    text = (root / "derivations/pyproject.toml").read_text("utf-8")
    needs = {
        re.match(r"[\w-]+", need)[0] for need in tomllib.loads(text)["project"]["dependencies"]
    }
    needs |= {"numpy", "scipy", "numba", "qcore", "derivations"}  # of qcore
    needs |= {"IPython", "matplotlib_inline", "traitlets"}  # of ipykernel
    needs |= {"docutils", "myst_nb", "sphinx", "yaml"}  # only ever called by the book's builder
    needs |= {"jupyterlab"}  # of the extra that brings the lab
    for path in (root / "derivations").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                assert top in needs | sys.stdlib_module_names, f"{path} imports {name}"
