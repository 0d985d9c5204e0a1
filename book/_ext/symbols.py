"""Symbols: the tables of the notation page, and what a symbol means where a chapter uses it.

The directive ``symbol-table`` shows a part of ``book/symbols.yml``. In a chapter the first use of a
symbol in each section shows its meaning and leads to that table. What a chapter's own table of
symbols says goes before the dictionary.
"""

import re
from pathlib import Path

import yaml
from docutils import nodes
from record_pages import RecordsDirective
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

PARTS = {
    "derivations/deferral": ("throughout", "deferrals"),
    "derivations/admission": ("throughout", "scaled-control"),
    "derivations/erlang": ("throughout", "scaled-control"),
    "derivations/idling": ("throughout", "idling"),
}
NOTATION = "book/notation"
FORMULA = re.compile(r"\$([^$]+)\$")


def read_symbols(srcdir):
    """Return ``{part: entries}`` of the dictionary."""
    return yaml.safe_load((Path(srcdir) / "book" / "symbols.yml").read_text(encoding="utf-8"))


def spellings(entry):
    """Return the symbols of an entry in TeX, without blanks; of an equation its left side."""
    written = [tight(tex.split(" = ")[0]) for tex in FORMULA.findall(entry["symbol"])]
    # A function is spoken of with its argument and without.
    return written + [tex[: tex.index("(")] for tex in written if tex.endswith(")")]


def tight(tex):
    """Return TeX without needless blanks and braces."""
    tex = re.sub(r"(\\[A-Za-z]+) +(?=[A-Za-z])", r"\1~", " ".join(tex.split())).replace(" ", "")
    return re.sub(r"_\{(\w)\}", r"_\1", tex.replace("~", " "))


def anchor(part, entry):
    """Return the anchor of an entry: its own symbol, so that it stays when others are added."""
    return f"symbol-{part}-{re.sub('[^A-Za-z0-9]+', '-', spellings(entry)[0]).strip('-')}"


def index_term(entry):
    """Return what the general index lists: its own words, or how the meaning begins if in words."""
    begins = re.split(r"[,;:](?![^$]*\$(?:[^$]*\$[^$]*\$)*[^$]*$)", entry["meaning"])[0]
    return entry.get("index", "" if "$" in begins else begins.replace("`", ""))


class SymbolTable(RecordsDirective):
    """The symbols of one part."""

    required_arguments = 1

    def run(self):
        """Return the table."""
        self.env.note_dependency(str(Path(self.env.srcdir) / "book" / "symbols.yml"))
        part = self.arguments[0]
        rows = []
        for entry in read_symbols(self.env.srcdir)[part]:
            symbol = self.parse_text_to_nodes(entry["symbol"])
            place = anchor(part, entry)
            symbol[0]["ids"].append(place)
            if term := index_term(entry):
                symbol.append(addnodes.index(entries=[("single", term, place, "", None)]))
            code = self.parse_text_to_nodes(entry.get("code", "–"))
            rows.append([symbol, self.parse_text_to_nodes(entry["meaning"]), code])
        return [self.table(("symbol", "meaning", "in code"), rows, ["symbols"])]


class ExplainSymbols(SphinxPostTransform):
    """Let the first use of a symbol in a section say what it means."""

    default_priority = 400
    formats = ("html",)

    def run(self, **kwargs):
        """Treat a chapter."""
        folder = self.env.docname.rpartition("/")[0]
        if folder not in PARTS:
            return
        known = self.dictionary(PARTS[folder])
        known |= dict.fromkeys(own_symbols(self.document), (None, None))
        for section in self.document.findall(nodes.section):
            seen = set()
            for child in section.children:
                if not isinstance(child, nodes.section):
                    self.explain(child, known, seen)

    def dictionary(self, parts):
        """Return ``{TeX: (meaning, address)}`` for the parts."""
        symbols = read_symbols(self.env.srcdir)
        page = self.app.builder.get_relative_uri(self.env.docname, NOTATION)
        return {
            tex: (entry["meaning"], f"{page}#{anchor(part, entry)}")
            for part in parts
            for entry in symbols[part]
            for tex in spellings(entry)
        }

    def explain(self, node, known, seen):
        """Link symbols below ``node`` that have not been explained in this section."""
        for formula in list(node.findall(nodes.math)):
            tex = tight(formula.astext())
            meaning, address = known.get(tex, (None, None))
            if address is None or tex in seen or not in_running_text(formula):
                continue
            seen.add(tex)
            words = " ".join(re.sub(r"[$\\`]", "", meaning).split())
            link = nodes.reference(
                "", "", refuri=address, internal=True, reftitle=words, classes=["symbol-meaning"]
            )
            formula.replace_self(link)
            link += formula


def own_symbols(document):
    """Return the symbols that a chapter's own table explains."""
    own = []
    for table in document.findall(nodes.table):
        rows = list(table.findall(nodes.row))
        if rows and rows[0].children and rows[0][0].astext().strip() == "symbol":
            for row in rows[1:]:
                own += [tight(math.astext()) for math in row[0].findall(nodes.math)]
    return own


def in_running_text(node):
    """Whether a node stands in a paragraph, outside of links, titles and tables."""
    above = []
    while node is not None and not isinstance(node, nodes.section):
        above.append(node)
        node = node.parent
    outside = nodes.reference | nodes.title | nodes.table | nodes.caption | nodes.figure
    if any(isinstance(each, outside) for each in above):
        return False
    return any(isinstance(each, nodes.paragraph) for each in above)


def setup(app):
    """Register the directive and the transform."""
    app.add_directive("symbol-table", SymbolTable)
    app.add_post_transform(ExplainSymbols)
    # Raised when anchors are named anew, so that no page of an older build leads to the old ones.
    return {"env_version": 2, "parallel_read_safe": True, "parallel_write_safe": True}
