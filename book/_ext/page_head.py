"""What stands in the head of every page: description, card, the reader's choice about code.

The source of the whole book is laid beside the pages.
"""

import re
import zipfile
from html import escape
from pathlib import Path

from docutils import nodes

CODE_CHOICE = "document.documentElement.dataset.code = localStorage.getItem('code') || 'shown';"
LENGTH = 200
SOURCE = ("qcore", "derivations", "book", "tests", "benchmarks")
SUFFIXES = {".py", ".ipynb", ".md", ".yml", ".toml", ".css", ".js", ".svg", ".bib", ".html", ".txt"}


def describe(app, pagename, templatename, context, doctree):
    """Add description and card, and apply the choice about code before the page is drawn."""
    app.add_js_file(None, body=CODE_CHOICE, priority=1)
    title = re.sub(r"<[^>]*>", "", context.get("title") or app.config.project)
    words = escape(description(doctree) or app.config.html_title or title, quote=True)
    card = context["pathto"]("_static/card.png", 1)
    context["metatags"] = (context.get("metatags") or "") + (
        f'<meta name="description" content="{words}" />'
        f'<meta property="og:title" content="{escape(title, quote=True)}" />'
        f'<meta property="og:description" content="{words}" />'
        f'<meta property="og:type" content="article" />'
        f'<meta property="og:image" content="{card}" />'
        '<meta name="twitter:card" content="summary_large_image" />'
    )


def description(doctree):
    """Return the first paragraph of a page without mathematics, cut at a word."""
    if doctree is None:
        return ""
    for paragraph in doctree.findall(nodes.paragraph):
        if next(paragraph.findall(nodes.math), None) is None:
            text = " ".join(paragraph.astext().split())
            if len(text) > 40:
                return text if len(text) <= LENGTH else text[:LENGTH].rsplit(" ", 1)[0] + " …"
    return ""


def pack_source(app, exception):
    """Lay an archive of the book's source beside the pages."""
    if exception is not None or app.builder.name != "html":
        return
    root = Path(app.srcdir)
    archive = Path(app.outdir) / "_static" / "queues-under-control.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in source_files(root):
            packed.write(path, Path("queues-under-control") / path.relative_to(root))


def source_files(root):
    """Yield the files of the source: those of its folders and those at its root."""
    for path in sorted(root.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            yield path
    for folder in SOURCE:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts:
                yield path


def setup(app):
    """Register the hooks."""
    app.connect("html-page-context", describe)
    app.connect("build-finished", pack_source)
    app.add_js_file("book.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
