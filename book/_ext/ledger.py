"""The directives ``claim-ledger`` and ``source-coverage``: tables made from the claim records."""

import collections
import re

from docutils import nodes
from record_pages import RecordsDirective, parts_of, read_toc

from derivations.claims import display
from derivations.claims.records import coverage

STATUS_OF_SOURCE = ("covered", "cited", "left out")


class ClaimLedger(RecordsDirective):
    """Every claim in the order of the contents: a table that ``book.js`` lets filter and sort."""

    def run(self):
        """Return counts by status and the table."""
        pages = self.records()
        parts = parts_of(pages, read_toc(self.env.srcdir))
        rows = [
            self.row(record, parts[page]) for page, records in pages.items() for record in records
        ]
        header = ("Claim", "What it says", "Part", "Status", "Evidence", "Source")
        counts = collections.Counter(
            display.status(record) for records in pages.values() for record in records
        )
        words = ", ".join(
            f"{counts[status]} {word.lower()}"
            for status, word in display.STATUS_WORDS.items()
            if counts[status]
        )
        total = nodes.paragraph(text=f"{sum(counts.values())} claims: {words}.")
        return [total, self.table(header, rows, ["ledger", "filtered"])]

    def row(self, record, part):
        """Return the cells of one claim."""
        sources = nodes.paragraph()
        for number, label in enumerate(record.sources):
            sources += nodes.Text(", " if number else "")
            sources += self.link(display.source_anchor(label), label)
        if not record.sources:
            sources += nodes.Text("beyond the sources")
        says = nodes.container(classes=["ledger-says"])
        says += self.folded(display.name(record), record.sentence)
        return [
            [nodes.paragraph("", "", self.number(record))],
            [says],
            [nodes.paragraph(text=re.split(" near | in | with ", part)[0])],
            [nodes.paragraph("", "", badge(record))],
            [nodes.paragraph(text=", ".join(record.kinds))],
            [sources],
        ]

    def folded(self, name, sentence):
        """Return the sentence of a claim, folded below its name."""
        summary = nodes.paragraph()
        for node in self.parse_text_to_nodes(name):
            summary += node.children
        return [
            nodes.raw("", "<details><summary>", format="html"),
            *summary.children,
            nodes.raw("", "</summary>", format="html"),
            *self.parse_text_to_nodes(sentence),
            nodes.raw("", "</details>", format="html"),
        ]


class FeaturedClaims(RecordsDirective):
    """Some claims by name: what each says, its status, and a link to it."""

    has_content = True

    def run(self):
        """Return a list; an unknown identifier fails."""
        records = {r.identifier: r for page in self.records().values() for r in page}
        items = nodes.bullet_list(classes=["featured-claims"])
        for line in self.content:
            identifier, _, words = line.strip().partition(": ")
            if identifier not in records:
                raise self.error(f"no claim has the identifier {identifier!r}")
            record = records[identifier]
            item = nodes.list_item("", *self.parse_text_to_nodes(words or record.sentence))
            item[0] += [nodes.Text(" "), badge(record), nodes.Text(" ")]
            item[0] += self.number(record)
            items += item
        return [items]


def badge(record):
    """Return the status of a claim, in words and colour."""
    status = display.status(record)
    words = display.STATUS_WORDS[status]
    return nodes.inline(text=words, classes=["claim-status", f"status-{status}"])


class SourceCoverage(RecordsDirective):
    """How many labels of each source are covered, cited or left out, and by how many claims."""

    def run(self):
        """Return the table of counts and the list of what no claim covers."""
        sources = self.sources()
        labels = [label for part in sources.values() for label in part["labels"]]
        covered = coverage(self.records(), labels)
        rows, uncovered = [], []
        for part in sources.values():
            counts = collections.Counter(entry["status"] for entry in part["labels"].values())
            claims = {r.identifier for label in part["labels"] for r in covered[label]}
            numbers = [str(counts[status]) for status in STATUS_OF_SOURCE] + [str(len(claims))]
            rows.append(
                [[nodes.paragraph(text=part["title"])]]
                + [[nodes.paragraph(text=number)] for number in numbers]
            )
            uncovered += [label for label in part["labels"] if not covered[label]]
        header = ("Source", "Covered by claims", "Cited", "Left out", "Claims that cover it")
        line = nodes.paragraph(text="No claim covers ")
        for number, label in enumerate(uncovered):
            line += nodes.Text(", " if number else "")
            line += self.link(display.source_anchor(label), label)
        line += nodes.Text("; the page of each says why.")
        return [self.table(header, rows, ["coverage"]), line]


def setup(app):
    """Register the directives."""
    app.add_directive("claim-ledger", ClaimLedger)
    app.add_directive("featured-claims", FeaturedClaims)
    app.add_directive("source-coverage", SourceCoverage)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
