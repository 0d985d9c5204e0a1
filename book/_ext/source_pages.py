"""The directive ``source-statements``: what the sources say, label by label, and what covers it."""

from docutils import nodes
from record_pages import RecordsDirective
from sphinx.errors import ExtensionError

from derivations.claims.display import source_anchor
from derivations.claims.records import RecordError, coverage

STATUS = {"covered": "covered", "cited": "cited", "left out": "left out"}


class SourceStatements(RecordsDirective):
    """Every label of one source: its statement, its status, the claims that cover it."""

    required_arguments = 1

    def run(self):
        """Return a box for each label."""
        sources = self.sources()
        part = sources[self.arguments[0]]
        labels = [label for each in sources.values() for label in each["labels"]]
        try:
            covered = coverage(self.records(), labels)
        except RecordError as error:
            raise ExtensionError(str(error)) from error
        model = nodes.container("", *self.parse_text_to_nodes(part["model"]))
        boxes = [self.box(label, entry, covered[label]) for label, entry in part["labels"].items()]
        return [model, *boxes]

    def box(self, label, entry, claims):
        """Return the box of one label."""
        status = entry["status"]
        box = nodes.container(classes=["source-statement", f"source-{status.replace(' ', '-')}"])
        self.labelled(box, source_anchor(label), f"{label}")
        title = nodes.paragraph(classes=["source-title"])
        title += [nodes.strong(text=label), nodes.Text(" ")]
        for node in self.parse_text_to_nodes(entry["title"]):
            title += node.children
        title += [nodes.Text(" "), nodes.inline(text=STATUS[status], classes=["source-status"])]
        box += [title, *self.parse_text_to_nodes(entry["statement"])]
        if claims:
            box += self.claims(claims)
        if "why" in entry:
            box += nodes.container(
                "", *self.parse_text_to_nodes(entry["why"]), classes=["source-why"]
            )
        return box

    def claims(self, claims):
        """Return the links to the claims that cover a label."""
        line = nodes.paragraph(classes=["source-claims"])
        line += nodes.Text("Covered by ")
        for number, record in enumerate(claims):
            if number:
                line += nodes.Text(", ")
            line += self.number(record)
        return line


def setup(app):
    """Register the directive."""
    app.add_directive("source-statements", SourceStatements)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
