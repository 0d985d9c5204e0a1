"""What the pages made from the claim records share: records in order, sources, links, tables."""

from pathlib import Path

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from derivations.claims import records as claim_records


def read_records(srcdir, pages):
    """Return ``{page: records}`` in the order of the contents.

    ``pages`` are the documents of the book in order; a page without claims is left out.
    """
    source = Path(srcdir)
    try:
        stored = claim_records.read_all(source / "derivations")
    except claim_records.RecordError as error:
        raise ExtensionError(str(error)) from error
    found = {str(path.relative_to(source).with_suffix("")): path for path in stored}
    return {page: stored[found[page]] for page in pages if page in found}


def read_sources(srcdir):
    """Return the parts of ``book/sources.yml``."""
    return yaml.safe_load((Path(srcdir) / "book" / "sources.yml").read_text(encoding="utf-8"))


def parts_of(pages, toc):
    """Return ``{page: caption of its part}`` from the parsed ``_toc.yml``."""
    return {
        chapter["file"]: part["caption"]
        for part in toc["parts"]
        for chapter in part["chapters"]
        if chapter["file"] in pages
    }


def read_toc(srcdir):
    """Return the parsed table of contents."""
    return yaml.safe_load((Path(srcdir) / "_toc.yml").read_text(encoding="utf-8"))


class claim_number(nodes.Inline, nodes.Element):
    """Where a claim's number will stand, as a link.

    Sphinx's own ``numref`` would read the page of the claim anew for each link.
    """


def fill_numbers(app, doctree, docname):
    """Replace the places of numbers by links, now that claims have numbers."""
    labels = app.env.get_domain("std").labels
    for place in list(doctree.findall(claim_number)):
        page, anchor, _ = labels[place["anchor"]]
        number = ".".join(map(str, app.env.toc_fignumbers[page]["claim"][anchor]))
        address = ""
        if page != docname and app.builder.name != "singlehtml":
            address = app.builder.get_relative_uri(docname, page)
        link = nodes.reference("", f"Claim {number}", refuri=f"{address}#{anchor}", internal=True)
        place.replace_self(link)


def setup(app):
    """Register the node and the hook that fills it."""
    app.add_node(claim_number)
    app.connect("doctree-resolved", fill_numbers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class RecordsDirective(SphinxDirective):
    """A directive that shows something made from the records."""

    def records(self):
        """Return ``{page: records}``; the page is made anew when a notebook changes."""
        pages = read_records(self.env.srcdir, self.env.config.external_site_map)
        for page in pages:
            self.env.note_dependency(str(Path(self.env.srcdir) / f"{page}.ipynb"))
        return pages

    def sources(self):
        """Return the parts of the sources; the page is made anew when they change."""
        self.env.note_dependency(str(Path(self.env.srcdir) / "book" / "sources.yml"))
        return read_sources(self.env.srcdir)

    def number(self, record):
        """Return a link to a claim by its number, which is known when all pages are read."""
        return claim_number(anchor=record.anchor)

    def link(self, target, text=""):
        """Return a link to a label."""
        return addnodes.pending_xref(
            "",
            nodes.inline("", text),
            refdomain="std",
            reftype="ref",
            reftarget=target,
            refexplicit=bool(text),
            refwarn=True,
            refdoc=self.env.docname,
        )

    def labelled(self, node, label, title):
        """Give ``node`` an anchor to which ``{ref}`` can refer by ``title``."""
        node["ids"].append(label)
        domain = self.env.get_domain("std")
        domain.labels[label] = self.env.docname, label, title
        domain.anonlabels[label] = self.env.docname, label
        return node

    def table(self, header, rows, classes):
        """Return a table whose cells are lists of nodes."""
        group = nodes.tgroup(cols=len(header))
        group += [nodes.colspec(colwidth=1) for _ in header]
        head, body = nodes.thead(), nodes.tbody()
        head += self._row([[nodes.paragraph(text=title)] for title in header])
        body += [self._row(row) for row in rows]
        group += [head, body]
        return nodes.container("", nodes.table("", group, classes=classes), classes=["wide-table"])

    @staticmethod
    def _row(cells):
        return nodes.row("", *(nodes.entry("", *cell) for cell in cells))
