"""Let the whole book be built as one page, from which `make pdf` prints.

Extensions register how their nodes are written for the builder ``html`` only; on one page they are
written alike.
"""

from sphinx.builders.singlehtml import SingleFileHTMLBuilder


def write_alike(app):
    """Give the builder of one page the handlers of the builder of many."""
    if not isinstance(app.builder, SingleFileHTMLBuilder):
        return
    handlers = app.registry.translation_handlers
    handlers["singlehtml"] = {**handlers.get("html", {}), **handlers.get("singlehtml", {})}
    app.set_html_assets_policy("always")


def setup(app):
    """Register the hook."""
    app.connect("builder-inited", write_alike)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
