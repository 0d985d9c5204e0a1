"""What a chapter's reader takes home: the notebook, and the packages that make it run.

The distributions are built from the book's own source and laid beside the pages, so that they are
those that the book was made with. They are built anew only when that source changes.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from page_head import SUFFIXES, source_files
from sphinx.errors import ExtensionError

FOLDER = "packages"
LEFT_OUT = shutil.ignore_patterns(
    ".*", "_build", "__pycache__", "*.egg-info", "build", "node_modules", "screenshots"
)
LINES = """<aside class="take-home" aria-label="Run this chapter yourself">
<p>Run this chapter yourself: save <a href="{notebook}" download>its notebook</a>, and in the
folder of this book (or with the book's address before <code>_static</code>)</p>
<pre>pip install --find-links _static/packages "queues-under-control[lab]"
jupyter lab {name}.ipynb</pre>
<p>The book brings <a href="{packages}">the packages it was made with</a>; what they need comes from
your package index or its cache.</p>
</aside>
"""


def offer(app, pagename, templatename, context, doctree):
    """Say at the end of a chapter how to run it."""
    if app.builder.name == "html" and (Path(app.srcdir) / f"{pagename}.ipynb").is_file():
        context["body"] += LINES.format(
            notebook=context["pathto"](f"_sources/{pagename}.ipynb", 1),
            packages=context["pathto"](f"_static/{FOLDER}/index.html", 1),
            name=pagename.rpartition("/")[2],
        )


def lay_beside(app, exception):
    """Lay the distributions beside the pages, with an index that pip reads."""
    if exception is not None or app.builder.name != "html":
        return
    target = Path(app.outdir) / "_static" / FOLDER
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(built(Path(app.srcdir)), target)
    names = sorted(path.name for path in target.iterdir())
    links = "\n".join(f'<li><a href="{name}">{name}</a></li>' for name in names)
    page = (
        f"<!DOCTYPE html>\n<html lang='en'><title>Packages</title>\n<ul>\n{links}\n</ul></html>\n"
    )
    (target / "index.html").write_text(page, encoding="utf-8")


def built(root):
    """Return a folder with both distributions, each as wheel and source archive."""
    packed = [*source_files(root), *sorted((root / "tools").rglob("*.py"))]
    read = [path for path in packed if path.suffix in {*SUFFIXES, ".in", ".cff", ""}]
    digest = hashlib.sha256()
    for path in read:
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    folder = root / "_build" / FOLDER / digest.hexdigest()[:16]
    if not folder.is_dir():
        shutil.rmtree(folder.parent, ignore_errors=True)
        tree = folder.parent / "tree"
        shutil.copytree(root, tree, ignore=LEFT_OUT)
        for project in (tree, tree / "derivations"):
            build(project, folder.with_suffix(".new"))
        shutil.rmtree(tree)
        folder.with_suffix(".new").rename(folder)
    return folder


def build(project, target):
    """Build one distribution."""
    command = [sys.executable, "-m", "uv", "--no-config", "build", "--offline", "--quiet"]
    command += ["--no-build-isolation", "--no-create-gitignore", "--python", sys.executable]
    done = subprocess.run(
        [*command, "--out-dir", target, project], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ExtensionError(f"{project.name} cannot be packed:\n{done.stderr[-3000:]}")


def setup(app):
    """Register the hooks."""
    app.connect("html-page-context", offer)
    app.connect("build-finished", lay_beside)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
