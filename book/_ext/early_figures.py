"""A chapter's main figure on its first screen, though its numbers are computed far below.

Where ``{figure-from-below} NAME`` stands, the page shows the figure of that name, with its folded
code, instead of where its cell stands in the notebook.
"""

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOG = logging.getLogger(__name__)


class Place(nodes.Element):
    """Stands where the figure named by ``figure`` shall be shown."""


class FigureFromBelow(SphinxDirective):
    """The directive: its argument is the name of a figure of the same page."""

    required_arguments = 1

    def run(self):
        """Leave the place open until the page is read."""
        place = Place(figure=self.arguments[0])
        self.set_source_info(place)
        return [place]


def move(app, doctree):
    """Move each figure that is asked for to its place."""
    for place in list(doctree.findall(Place)):
        cell = cell_of(doctree, place["figure"])
        if cell is None:
            LOG.warning("no cell shows the figure %r", place["figure"], location=place)
            place.parent.remove(place)
            continue
        cell.parent.remove(cell)
        place.replace_self(cell)


def cell_of(doctree, name):
    """Return the cell that shows the figure of this name, or nothing."""
    for figure in doctree.findall(nodes.figure):
        if name in figure["names"]:
            node = figure
            while node is not None and "cell" not in node.get("classes", ()):
                node = node.parent
            return node
    return None


def setup(app):
    """Register the directive."""
    app.add_node(Place)
    app.add_directive("figure-from-below", FigureFromBelow)
    app.connect("doctree-read", move)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
