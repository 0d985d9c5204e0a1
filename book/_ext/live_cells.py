"""Cells that run in the page: Python for the browser, laid beside the pages by `make live`.

Without the variable LIVE_CELLS in the environment, which `make live` sets, nothing is added.
What a browser can run is found by running each chapter as a browser does
(`derivations.claims.live`); a cell that gives nothing there says so instead of bearing a button.
"""

import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util import logging

PARTS = ("worker.js", "live.js", "live.css")
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
LOCKED = "pyodide-lock.json"
LIBRARIES = ("sympy", "mpmath", "tabulate")
# What no derivation reads: tests, and readers of other languages.
LEFT_OUT = frozenset({"tests", "benchmarks", "__pycache__", "autolev", "latex"})
logger = logging.getLogger(__name__)


def notebook_of(app, docname):
    """Return the path of a chapter's notebook, or None for another page."""
    path = Path(app.srcdir) / f"{docname}.ipynb"
    return path if path.is_file() else None


def code_cells(path):
    """Return pairs (identifier, source) of a notebook's cells with code."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [(cell["id"], "".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]


def cache(app):
    """Return the folder of what is kept from one build to the next."""
    folder = Path(app.srcdir) / "_build" / "live"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def silent_cells(app, path):
    """Return the identifiers of the cells that give nothing in a browser."""
    modules = sorted((Path(app.srcdir) / "derivations").rglob("*.py"))
    digest = hashlib.sha256(b"".join(one.read_bytes() for one in [path, *modules])).hexdigest()
    kept = cache(app) / f"{path.stem}.json"
    if kept.is_file():
        stored = json.loads(kept.read_text("utf-8"))
        if stored["digest"] == digest:
            return stored["silent"]
    done = subprocess.run(
        [sys.executable, "-m", "derivations.claims.live", path],
        capture_output=True,
        text=True,
        check=False,
        cwd=app.srcdir,
    )
    if done.returncode:
        raise ExtensionError(f"{path} does not run as in a browser:\n{done.stderr}")
    silent = json.loads(done.stdout)
    kept.write_text(json.dumps({"digest": digest, "silent": silent}), encoding="utf-8")
    return silent


def mark_cells(app, doctree, docname):
    """Give each cell its identifier, and say whether it can run."""
    path = notebook_of(app, docname)
    if path is None:
        return
    cells = json.loads(path.read_text("utf-8"))["cells"]
    silent = silent_cells(app, path)
    for node in doctree.findall(nodes.container):
        if node.get("nb_element") == "cell_code":
            name = cells[node["cell_index"]]["id"]
            node["ids"].append(f"cell-{name}")
            node["classes"].append("live-full" if name in silent else "live-cell")


def add_script(app, pagename, templatename, context, doctree):
    """Add to a chapter the script that runs its cells."""
    if notebook_of(app, pagename) is not None:
        app.add_css_file("live/live.css")
        app.add_js_file(
            "live/live.js",
            loading_method="defer",
            **{"data-chapter": f"chapters/{pagename}.json", "data-bytes": str(weight(app))},
        )


def weight(app):
    """Return how many bytes are loaded at the first click."""
    runtime = pyodide(app)
    return sum(
        file.stat().st_size
        for file in [*(runtime / name for name in (*RUNTIME, LOCKED)), libraries(app)]
        if file.suffix != ".mjs"
    )


def pyodide(app):
    """Return the folder of Pyodide, fetched by npm as the lock says."""
    source = Path(app.srcdir) / "book" / "live"
    target = cache(app) / "npm"
    installed = target / "node_modules" / "pyodide"
    lock = target / "package-lock.json"
    wanted = (source / lock.name).read_bytes()
    if installed.is_dir() and lock.is_file() and lock.read_bytes() == wanted:
        return installed
    npm = shutil.which("npm")
    if npm is None:
        raise ExtensionError("make live fetches Pyodide by npm, which is not installed")
    target.mkdir(exist_ok=True)
    for name in ("package.json", lock.name):
        shutil.copy(source / name, target)
    subprocess.run(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"],
        check=True,
        cwd=target,
    )
    return installed


def libraries(app):
    """Return the archive of SymPy and what it needs, as installed, compiled for Pyodide."""
    runtime = pyodide(app)
    versions = [f"{name}-{importlib.metadata.version(name)}" for name in LIBRARIES]
    runtime_version = json.loads((runtime / "package.json").read_text("utf-8"))["version"]
    script = Path(app.srcdir) / "book" / "live" / "compile.mjs"
    recipe = hashlib.sha256(script.read_bytes() + repr(sorted(LEFT_OUT)).encode()).hexdigest()[:8]
    names = ["pyodide", runtime_version, *versions, recipe]
    compiled = cache(app) / f"{'-'.join(names)}.zip"
    if not compiled.is_file():
        sources = compiled.with_suffix(".sources")
        with zipfile.ZipFile(sources, "w") as packed:
            for name in LIBRARIES:
                for file in importlib.metadata.files(name):
                    if file.suffix == ".py" and not LEFT_OUT & set(file.parts):
                        packed.write(file.locate(), file)
        made = compiled.with_suffix(".new")
        subprocess.run(["node", script, runtime, sources, made], check=True)
        sources.unlink()
        made.rename(compiled)
    return compiled


def lay_beside(app, exception):
    """Lay Python and the chapters' code beside the pages; remove them from a plain book."""
    if exception is not None or app.builder.name != "html":
        return
    target = Path(app.outdir) / "_static" / "live"
    shutil.rmtree(target, ignore_errors=True)
    if not app.config.live_cells:
        return
    runtime = target / "pyodide"
    runtime.mkdir(parents=True)
    for name in (*RUNTIME, LOCKED):
        shutil.copy(pyodide(app) / name, runtime)
    for name in PARTS:
        shutil.copy(Path(app.srcdir) / "book" / "live" / name, target)
    shutil.copy(libraries(app), target / "libraries.zip")
    package = Path(app.srcdir) / "derivations"
    with zipfile.ZipFile(target / "derivations.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(package.rglob("*.py")):
            packed.write(path, path.relative_to(package.parent))
    for docname in app.env.found_docs:
        path = notebook_of(app, docname)
        if path is not None:
            chapter = target / "chapters" / f"{docname}.json"
            chapter.parent.mkdir(parents=True, exist_ok=True)
            chapter.write_text(json.dumps(code_cells(path)), encoding="utf-8")


def setup(app):
    """Register the hooks; those of live pages only where they are wanted."""
    live = os.environ.get("LIVE_CELLS") == "1"
    # Pages are written anew where this differs from the last build.
    app.add_config_value("live_cells", live, "html", bool)
    app.config.live_cells = live
    if live:
        app.connect("doctree-resolved", mark_cells)
        app.connect("html-page-context", add_script)
    app.connect("build-finished", lay_beside, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
