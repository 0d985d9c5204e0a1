"""Pages that weigh little: the icons that are used, the parts of MathJax that are needed.

The theme's icon fonts and script weigh 2 MB for the twenty icons of its buttons. Their outlines
are read from that script and written as a style sheet; the fonts and the script are left out.
MathJax is loaded in parts, since its bundle holds a menu and a speech engine as well. Code
loses the marks of words and signs that need no colour of their own.
"""

import importlib.metadata
import re
import shutil
from pathlib import Path
from urllib.parse import quote

import pydata_sphinx_theme
from sphinx.util.fileutil import copy_asset

ICONS = (
    "angle-left",
    "angle-right",
    "angle-up",
    "angle-down",
    "arrow-up",
    "bars",
    "caret-down",
    "check",
    "chevron-down",
    "chevron-right",
    "chevron-up",
    "circle-half-stroke",
    "circle-info",
    "download",
    "expand",
    "file",
    "file-pdf",
    "list",
    "magnifying-glass",
    "moon",
    "sun",
    "xmark",
)
NAME = re.compile(r"[A-Za-z][\w-]*")
CLASS = re.compile(r"\.(-?[A-Za-z][\w-]*)")
# A rule whose selectors are plain: classes in brackets, as of ``:not(.a, .b)``, are left alone.
RULE = re.compile(r"(?<=[}{])((?:div)?[.][^{}()@]*)\{([^{}]*)\}")
PLAIN_CODE = re.compile(r'<span class="(?:n|o|p|w|pre|colon)">([^<]*)</span>')
UNUSED = ("sphinx-design", "design-tabs", "sphinx-thebe")
MATHJAX_PARTS = (
    "startup.js",
    "core.js",
    "loader.js",
    "input/tex.js",
    "input/tex",
    "output/chtml.js",
    "output/chtml",
)


def write_icons(app, exception):
    """Write the style sheet of icons and remove the theme's."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    theme = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static"
    (script,) = theme.glob("vendor/fontawesome/*/js/all.min.js")
    (static / "icons.css").write_text(icons(script.read_text("utf-8")), encoding="utf-8")
    shutil.rmtree(static / "vendor" / "fontawesome", ignore_errors=True)
    for unused in static.rglob("*.map"):
        unused.unlink()


def icons(script):
    """Return a style sheet with the outlines of the icons, as masks of the text's colour."""
    rules = [
        ".fa-solid, .fas { display: inline-block; width: 1em; height: 1em; "
        "vertical-align: -0.125em; "
        "background: currentColor; -webkit-mask: var(--icon) center / contain no-repeat; "
        "mask: var(--icon) center / contain no-repeat; }",
        ".fa-lg { font-size: 1.25em; }",
    ]
    for name in ICONS:
        found = re.findall(rf'"?\b{name}"?:\[(\d+),(\d+),\[[^\]]*\],"\w+","([^"]+)"\]', script)
        width, height, outline = found[-1]
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
            f'<path d="{outline}"/></svg>'
        )
        rules.append(f'.fa-{name} {{ --icon: url("data:image/svg+xml,{quote(svg)}"); }}')
    return "\n".join(rules) + "\n"


def squeeze_styles(app, exception):
    """Write the sheets of the extensions without comments and needless blanks."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    for name in ("mystnb*.css", "basic.css", "pygments.css", "proof.css"):
        for sheet in static.glob(name):
            css = re.sub(r"/\*.*?\*/", "", sheet.read_text("utf-8"), flags=re.DOTALL)
            css = re.sub(r"\s*([{};,])\s*", r"\1", " ".join(css.split()))
            sheet.write_text(css, encoding="utf-8")


def purge_styles(app, exception):
    """Leave in the largest sheets the rules for classes that a page or a script names."""
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    static = out / "_static"
    styles = static / "styles"
    sheets = [
        styles / f"{name}.css" for name in ("bootstrap", "pydata-sphinx-theme", "sphinx-book-theme")
    ]
    sheets += [*static.glob("mystnb*.css"), static / "pygments.css"]
    words = set()
    for path in [*out.rglob("*.html"), *out.glob("_static/**/*.js")]:
        if "mathjax" not in path.parts:
            words.update(NAME.findall(path.read_text("utf-8")))
    for sheet in sheets:
        sheet.write_text(purged(sheet.read_text("utf-8"), words), encoding="utf-8")


def purged(css, words):
    """Return a style sheet without the selectors that name a class outside of ``words``."""

    def keep(rule):
        selectors = [
            selector for selector in rule[1].split(",") if set(CLASS.findall(selector)) <= words
        ]
        return f"{','.join(selectors)}{{{rule[2]}}}" if selectors else ""

    return RULE.sub(keep, css)


def copy_mathjax(app, exception):
    """Copy the parts of MathJax beside the bundle, which is removed."""
    if exception is not None or app.builder.format != "html":
        return
    files = importlib.metadata.files("sphinx-mathjax-offline")
    source = Path(next(file for file in files if file.name == "startup.js").locate()).parent
    target = Path(app.outdir) / "_static" / "mathjax"
    for part in MATHJAX_PARTS:
        if (source / part).is_dir():
            copy_asset(source / part, target / part)
        else:
            copy_asset(source / part, (target / part).parent)
    for bundle in target.glob("tex-*.js"):
        bundle.unlink()


def lighten_code(app, pagename, templatename, context, doctree):
    """Leave out the marks of names, operators, punctuation and blanks: they say little."""
    if "body" in context:
        context["body"] = PLAIN_CODE.sub(r"\1", context["body"])


def drop_unused(app, pagename, templatename, context, doctree):
    """Leave out styles and scripts of cards and tabs where a page has none."""
    if "sd-" in context.get("body", ""):
        return
    for kind in ("css_files", "script_files"):
        context[kind] = [
            file
            for file in context.get(kind, ())
            if not any(word in str(getattr(file, "filename", file)) for word in UNUSED)
        ]


def setup(app):
    """Register the hooks."""
    app.config.mathjax_path = "mathjax/startup.js"
    app.add_css_file("icons.css")
    app.connect("html-page-context", drop_unused, priority=950)
    app.connect("html-page-context", lighten_code)
    app.connect("build-finished", write_icons)
    app.connect("build-finished", squeeze_styles, priority=700)
    app.connect("build-finished", purge_styles, priority=800)
    app.connect("build-finished", copy_mathjax, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
