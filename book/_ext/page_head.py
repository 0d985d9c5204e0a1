"""What stands in the head of every page: description, card, the reader's choice about code.

The source of the whole book is laid beside the pages. The page of a wrong address finds the book's
root by itself, and the first page leads to the PDF where `make pdf` has printed it.
"""

import re
import zipfile
from html import escape
from pathlib import Path

from docutils import nodes

CODE_CHOICE = "document.documentElement.dataset.code = localStorage.getItem('code') || 'shown';"
# A server shows the page for wrong addresses at any depth; its links are written as from the root.
FIND_ROOT = """
const found = location.pathname.match(/^(.*?\\/)(?:book|derivations|_static|_sources)\\//);
const base = document.createElement("base");
base.href = found ? found[1] : location.pathname.replace(/[^/]*$/, "");
document.head.prepend(base);
addEventListener("DOMContentLoaded", () => {
  for (const link of document.querySelectorAll('a[href^="#"]'))
    link.href = location.pathname + link.getAttribute("href");
});
"""
PDF = "queues-under-control.pdf"
LENGTH = 200
SOURCE = ("qcore", "derivations", "book", "tests", "benchmarks")
SUFFIXES = {
    ".py",
    ".ipynb",
    ".md",
    ".yml",
    ".toml",
    ".css",
    ".js",
    ".svg",
    ".bib",
    ".html",
    ".txt",
    ".mjs",
    ".json",
}


def describe(app, pagename, templatename, context, doctree):
    """Add description and card, and apply the choice about code before the page is drawn."""
    app.add_js_file(None, body=CODE_CHOICE, priority=1)
    title = re.sub(r"<[^>]*>", "", context.get("title") or app.config.project)
    words = escape(description(doctree) or app.config.html_title or title, quote=True)
    card = context["pathto"]("_static/card.png", 1)
    script = f"<script>{FIND_ROOT}</script>" if pagename == "404" else ""
    context["metatags"] = (
        (context.get("metatags") or "")
        + script
        + (
            f'<meta name="description" content="{words}" />'
            f'<meta property="og:title" content="{escape(title, quote=True)}" />'
            f'<meta property="og:description" content="{words}" />'
            f'<meta property="og:type" content="article" />'
            f'<meta property="og:image" content="{card}" />'
            '<meta name="twitter:card" content="summary_large_image" />'
        )
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


def offer_pdf(html):
    """Show the first page's link to the PDF, which stands there as a comment, if there is a PDF."""
    page = Path(html) / "book" / "preface.html"
    if (Path(html) / "_static" / PDF).is_file() and page.is_file():
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"<!-- with PDF: (.*?)-->", r"\1", text, flags=re.DOTALL), "utf-8")


def offer_after_build(app, exception):
    """Offer the PDF that an earlier `make pdf` left."""
    if exception is None and app.builder.name == "html":
        offer_pdf(app.outdir)


def source_files(root):
    """Yield the files of the source: those of its folders and those at its root."""
    for path in sorted(root.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            yield path
    for folder in SOURCE:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts:
                yield path


def plain_roles(app, pagename, templatename, context, doctree):
    """Leave out roles of references that readers' software no longer knows."""
    if "body" in context:
        context["body"] = re.sub(
            r' role="(?:doc-biblioentry|list)"(?= class="citation|>)', "", context["body"]
        )


def setup(app):
    """Register the hooks."""
    app.connect("html-page-context", describe)
    app.connect("html-page-context", plain_roles)
    app.connect("build-finished", pack_source)
    app.connect("build-finished", offer_after_build)
    app.add_js_file("book.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
