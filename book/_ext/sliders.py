"""Load the script of figures with sliders on the pages that have some."""


def add_script(app, pagename, templatename, context, doctree):
    """Add the script where a page needs it."""
    if '<div class="sliders"' in context.get("body", ""):
        app.add_js_file("sliders.js", loading_method="defer")


def setup(app):
    """Register the hook."""
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
