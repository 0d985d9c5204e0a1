"""Serve MathJax from the book itself, so that a page makes no request to another host.

And keep the book's own static files fresh: Sphinx copies them only when some page is written, so
that a changed style sheet alone would not reach a book that is built already.
"""

import filecmp
import importlib.metadata
from pathlib import Path

from sphinx.util.fileutil import copy_asset

FOLDER = "mathjax"
SCRIPT = "tex-chtml-full.js"
FONTS = "output/chtml/fonts/woff-v2"


def copy_mathjax(app, exception):
    """Copy the script and the fonts that it loads into the built book."""
    if exception is not None or app.builder.format != "html":
        return
    source = _installed()
    target = Path(app.outdir) / "_static" / FOLDER
    copy_asset(source / SCRIPT, target)
    copy_asset(source / FONTS, target / FONTS)


def drop_thebe(app, pagename, templatename, context, doctree):
    """Leave out the scripts of live-code buttons, which name another host."""
    context["script_files"] = [
        script for script in context.get("script_files", ()) if "thebe" not in _text(script).lower()
    ]


def refresh_static(app, env, added, changed, removed):
    """Let the first page be written anew if a static file differs from its copy in the book."""
    target = Path(app.outdir) / "_static"
    for folder in app.config.html_static_path:
        source = Path(app.srcdir) / folder
        for path in source.rglob("*"):
            copy = target / path.relative_to(source)
            if path.is_file() and not (copy.is_file() and filecmp.cmp(path, copy, shallow=False)):
                return [app.config.root_doc]
    return []


def _text(script):
    """Return the address of a script, or its body if it stands in the page."""
    return f"{getattr(script, 'filename', script)} {getattr(script, 'attributes', {}).get('body')}"


def _installed():
    # The package's folder has hyphens in its name: it cannot be imported, but it can be found.
    files = importlib.metadata.files("sphinx-mathjax-offline")
    return Path(next(file for file in files if file.name == SCRIPT).locate()).parent


def setup(app):
    """Register the extension."""
    app.config.mathjax_path = f"{FOLDER}/{SCRIPT}"
    app.connect("env-get-outdated", refresh_static)
    app.connect("build-finished", copy_mathjax)
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
