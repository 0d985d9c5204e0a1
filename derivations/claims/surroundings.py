"""The same surroundings for every run, whatever the user's settings and environment are.

Notebooks and tests start kernels and draw figures; what these read from the home and from the
environment could change their results. `settle` puts it out of reach, `refuse_old_packages`
says at once which package is older than the project needs.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent.parent
# Settings that change what is computed, drawn or shown, or where kernels are looked for.
DROPPED = (
    "MATPLOTLIBRC",
    "MPLBACKEND",
    "MPMATH_NOGMPY",
    "PYTHONSTARTUP",
    "PYTHONWARNINGS",
)
DROPPED_PREFIXES = ("JUPYTER_", "NUMBA_", "SYMPY_")
KEPT = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
# Each program's folder of settings, caches and connections.
FOLDERS = (
    "IPYTHONDIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "MPLCONFIGDIR",
)
DISTRIBUTIONS = ("queues-under-control", "queues-under-control-derivations")
CHECKED = ("numpy", "scipy", "numba", "sympy", "mpmath", "matplotlib")


def settle(root=ROOT):
    """Give this process and its kernels their own folders of settings, and no others'.

    The kernel ``python3`` is the running interpreter's, matrices use one thread (they are small),
    and kernels draw figures into the notebook. Raises `RuntimeError` for a package that is too
    old.
    """
    if sys.flags.optimize:
        raise RuntimeError("Python runs with -O or PYTHONOPTIMIZE, which skips checks")
    for name in tuple(os.environ):
        if name in DROPPED or (name.startswith(DROPPED_PREFIXES) and name not in KEPT):
            del os.environ[name]
    folder = _writable(root / ".settings")
    for name in FOLDERS:
        own = folder / name.lower()
        own.mkdir(mode=0o700, exist_ok=True)
        os.environ[name] = str(own)
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    refuse_old_packages()


def _writable(folder):
    """Return ``folder``, or one for this run alone where nothing can be written."""
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="queues-under-control-"))


def refuse_old_packages():
    """Raise `RuntimeError` naming each package below the project's floor, and where it lies."""
    troubles = []
    for requirement in _requirements():
        version, place = _found(requirement.name)
        if not requirement.specifier.contains(version, prereleases=True):
            troubles.append(
                f"{requirement.name} {version} in {place}: "
                f"{requirement.specifier} is needed"
            )
    if troubles:
        raise RuntimeError("; ".join(troubles) + " (is it on PYTHONPATH?)")


def _requirements():
    for distribution in DISTRIBUTIONS:
        for text in importlib.metadata.requires(distribution) or ():
            requirement = Requirement(text)
            if requirement.name in CHECKED and not requirement.marker:
                yield requirement


def _found(name):
    """Return the version and folder of the package that ``import`` finds.

    Only a package that lies elsewhere than its distribution says is imported: that takes time.
    """
    place = Path(importlib.util.find_spec(name).origin)
    distribution = importlib.metadata.distribution(name)
    recorded = Path(distribution.locate_file(f"{name}/__init__.py"))
    if recorded.exists() and recorded.samefile(place):
        return distribution.version, place.parent
    return importlib.import_module(name).__version__, place.parent
