"""The directives ``claim-ledger`` and ``source-coverage``: tables made from the claim records."""

from pathlib import Path

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from derivations.claims import records as claim_records


class RecordsDirective(SphinxDirective):
    """What both tables share: the records, the sources, and when to make the page anew."""

    def records(self):
        """Return the records of all notebooks, and let the page depend on the notebooks."""
        folder = Path(self.env.srcdir) / "derivations"
        try:
            records = claim_records.read_all(folder)
        except claim_records.RecordError as error:
            raise ExtensionError(str(error)) from error
        for path in records:
            self.env.note_dependency(str(path))
        return records

    def sources(self):
        """Return ``{label: description}`` from ``book/sources.yml``."""
        path = Path(self.env.srcdir) / "book" / "sources.yml"
        self.env.note_dependency(str(path))
        parts = yaml.safe_load(path.read_text(encoding="utf-8"))
        return {label: text for part in parts.values() for label, text in part["labels"].items()}

    def markdown(self, text):
        """Return the nodes of one paragraph of Markdown."""
        return self.parse_text_to_nodes(text)

    def link(self, record):
        """Return a paragraph with a link to the claim's cell."""
        reference = addnodes.pending_xref(
            "",
            nodes.inline("", record.identifier),
            refdomain="std",
            reftype="ref",
            reftarget=record.anchor,
            refexplicit=True,
            refwarn=True,
            refdoc=self.env.docname,
        )
        return nodes.paragraph("", "", reference)

    def table(self, widths, header, rows):
        """Return a table whose cells are lists of nodes."""
        group = nodes.tgroup(cols=len(widths))
        group += [nodes.colspec(colwidth=width) for width in widths]
        head, body = nodes.thead(), nodes.tbody()
        head += self._row([[nodes.paragraph(text=title)] for title in header])
        body += [self._row(row) for row in rows]
        group += [head, body]
        return nodes.container(
            "", nodes.table("", group, classes=["ledger"]), classes=["ledger-scroll"]
        )

    @staticmethod
    def _row(cells):
        return nodes.row("", *(nodes.entry("", *cell) for cell in cells))


class ClaimLedger(RecordsDirective):
    """Every claim, a notebook at a time, in the order of the table of contents."""

    def run(self):
        records = self.records()
        claim_records.coverage(records, self.sources())
        source = Path(self.env.srcdir)
        pages = {str(path.relative_to(source).with_suffix("")): path for path in records}
        contents = [page for page in self.env.config.external_site_map if page in pages]
        result = []
        for page in contents:
            rows = [
                [
                    [self.link(record)],
                    [*self.markdown(record.sentence), self.evidence(record)],
                    [nodes.paragraph(text=", ".join(record.sources) or "—")],
                ]
                for record in records[pages[page]]
            ]
            header = ("Claim", "What it says, and its evidence", "Source")
            result += [self.heading(page), self.table((20, 68, 12), header, rows)]
        return result

    def evidence(self, record):
        """Return the evidence of a claim, in small print."""
        summary = self.markdown(" · ".join(record.summaries()))
        return nodes.container("", *summary, classes=["ledger-evidence"])

    def heading(self, page):
        """Return the title of a notebook, linked to it."""
        reference = addnodes.pending_xref(
            "",
            nodes.inline("", page),
            refdomain="std",
            reftype="doc",
            reftarget=f"/{page}",
            refexplicit=False,
            refwarn=True,
            refdoc=self.env.docname,
        )
        return nodes.rubric("", "", reference)


class SourceCoverage(RecordsDirective):
    """Every label of the sources and the claims that cover it."""

    def run(self):
        sources = self.sources()
        covered = claim_records.coverage(self.records(), sources)
        rows = []
        for label, description in sources.items():
            claims = [nodes.paragraph(text="not covered")]
            if covered[label]:
                claims = [self.link(record) for record in covered[label]]
            rows.append([[nodes.paragraph(text=label)], self.markdown(description), claims])
        count = sum(bool(claims) for claims in covered.values())
        summary = nodes.paragraph(text=f"{count} of {len(sources)} labels are covered by a claim.")
        return [summary, self.table((8, 60, 32), ("Label", "What it is", "Claims"), rows)]


def setup(app):
    """Register the directives."""
    app.add_directive("claim-ledger", ClaimLedger)
    app.add_directive("source-coverage", SourceCoverage)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
