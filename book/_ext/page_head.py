"""What stands in the head of every page: its description, the reader's choice about code."""

CODE_CHOICE = "document.documentElement.dataset.code = localStorage.getItem('code') || 'shown';"


def add_choice(app, pagename, templatename, context, doctree):
    """Apply the choice between mathematics only and code before the page is drawn."""
    app.add_js_file(None, body=CODE_CHOICE, priority=1)


def setup(app):
    """Register the hooks."""
    app.connect("html-page-context", add_choice)
    app.add_js_file("book.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
