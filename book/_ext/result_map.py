"""The map of results: claims as boxes, an arrow from each claim to those that rest on it.

The directive ``result-map`` shows all chapters, one below the other; below each chapter stands its
own neighbourhood. Both are drawn from the records when the numbers of the claims are known.
"""

import textwrap
from html import escape

from docutils import nodes
from record_pages import RecordsDirective, parts_of, read_records, read_toc

from derivations.claims import display

BOX = 164, 44
GAP = 16, 34
PER_LINE = 4
LETTERS = 24


class map_node(nodes.General, nodes.Element):
    """Where the map will stand."""


class ResultMap(RecordsDirective):
    """The map of all results."""

    def run(self):
        """Leave a place for the map; it needs numbers that are given later."""
        self.records()
        return [map_node()]


class Results:
    """All claims with their numbers, places and what they rest on."""

    def __init__(self, app, docname):
        env = app.env
        self.pages = read_records(app.srcdir, env.config.external_site_map)
        self.parts = parts_of(self.pages, read_toc(app.srcdir))
        self.titles = {page: env.titles[page].astext() for page in self.pages}
        self.record, self.page, self.number, self.address = {}, {}, {}, {}
        for page, records in self.pages.items():
            numbers = env.toc_fignumbers.get(page, {}).get("claim", {})
            for record in records:
                key = record.identifier
                self.record[key], self.page[key] = record, page
                self.number[key] = ".".join(map(str, numbers.get(record.anchor, ())))
                place = "" if app.builder.name == "singlehtml" or page == docname else page
                address = app.builder.get_relative_uri(docname, page) if place else ""
                self.address[key] = f"{address}#{record.anchor}"
        self.edges = [
            (needed, key)
            for key, record in self.record.items()
            for needed in display.needs(record)
            if needed in self.record
        ]

    def box(self, key, x, y):
        """Return the box of a claim, a link, with its upper left corner at (x, y)."""
        record = self.record[key]
        status = display.status(record)
        lines = textwrap.wrap(plain(display.name(record)), LETTERS)[:2]
        words = f"Claim {self.number[key]}, {display.STATUS_WORDS[status]}: "
        label = escape(words + plain(display.name(record)), quote=True)
        name = "".join(
            f'<text x="{x + 8}" y="{y + 27 + 12 * row}">{escape(line)}</text>'
            for row, line in enumerate(lines)
        )
        return (
            f'<a class="map-node status-{status}" href="{self.address[key]}" aria-label="{label}">'
            f"<title>{label}</title>"
            f'<rect x="{x}" y="{y}" width="{BOX[0]}" height="{BOX[1]}" rx="4"/>'
            f'<text class="map-number" x="{x + 8}" y="{y + 14}">{self.number[key]}</text>{name}</a>'
        )


def plain(text):
    """Return a name without the marks of mathematics."""
    return " ".join(text.replace("$", "").replace("\\", "").split())


def edge(start, end):
    """Return an arrow from the box at ``start`` to the box at ``end``."""
    (x1, y1), (x2, y2) = start, end
    if y1 == y2:
        x1, x2 = x1 + BOX[0] / 2, x2 + BOX[0] / 2
        path = f"M{x1} {y1} C{x1} {y1 - GAP[1]} {x2} {y2 - GAP[1]} {x2} {y2}"
    else:
        down = y2 > y1
        x1, x2 = x1 + BOX[0] / 2, x2 + BOX[0] / 2
        y1, y2 = (y1 + BOX[1], y2) if down else (y1, y2 + BOX[1])
        bend = (1 if down else -1) * min(80, abs(y2 - y1) / 2 + 10)
        path = f"M{x1} {y1} C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"
    return f'<path class="map-edge" d="{path}" marker-end="url(#arrow)"/>'


ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker></defs>'
)


def drawing(width, height, body, label):
    """Return the drawing as an element of the page."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="map" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="group" aria-label="{escape(label)}">'
        f"{ARROW}{body}</svg>"
    )


def whole(results):
    """Return the map of all chapters, in the order of the contents."""
    place, heads, y, part = {}, [], 8, None
    for page, records in results.pages.items():
        if results.parts[page] != part:
            part, y = results.parts[page], y + 20
            heads.append(f'<text class="map-part" x="8" y="{y}">{escape(part)}</text>')
            y += 12
        chapter = results.number[records[0].identifier].split(".")[0]
        title = escape(f"{chapter}. {results.titles[page]}")
        heads.append(f'<text class="map-chapter" x="8" y="{y + 14}">{title}</text>')
        y += 8 + GAP[1]
        for number, record in enumerate(records):
            row, column = divmod(number, PER_LINE)
            x = 8 + column * (BOX[0] + GAP[0])
            place[record.identifier] = x, y + row * (BOX[1] + GAP[1])
        y += ((len(records) - 1) // PER_LINE + 1) * (BOX[1] + GAP[1])
    return draw(results, place, heads, 8 + PER_LINE * (BOX[0] + GAP[0]), y, "Map of results")


def neighbourhood(results, page):
    """Return the claims of a chapter between what they rest on and what rests on them."""
    own = [record.identifier for record in results.pages[page]]
    edges = [(a, b) for a, b in results.edges if a in own or b in own]
    if not edges:
        return None
    before = list(dict.fromkeys(a for a, b in edges if a not in own))
    after = list(dict.fromkeys(b for a, b in edges if b not in own))
    inside = [key for key in own if any(key in pair for pair in edges)]
    place, y = {}, 8
    heads = []
    for title, keys in (("Rests on", before), ("Here", inside), ("Leads to", after)):
        if not keys:
            continue
        heads.append(f'<text class="map-chapter" x="8" y="{y + 12}">{title}</text>')
        y += 20 + GAP[1]
        for number, key in enumerate(keys):
            row, column = divmod(number, PER_LINE)
            place[key] = 8 + column * (BOX[0] + GAP[0]), y + row * (BOX[1] + GAP[1])
        y += ((len(keys) - 1) // PER_LINE + 1) * (BOX[1] + GAP[1])
    label = "What the claims of this chapter rest on, and what rests on them"
    return draw(results, place, heads, 8 + PER_LINE * (BOX[0] + GAP[0]), y, label)


def draw(results, place, heads, width, height, label):
    """Return a drawing with the claims at their places."""
    edges = [edge(place[a], place[b]) for a, b in results.edges if a in place and b in place]
    boxes = [results.box(key, x, y) for key, (x, y) in place.items()]
    return drawing(width, height, "".join([*heads, *edges, *boxes]), label)


def fill(app, doctree, docname):
    """Draw the map, or a chapter's neighbourhood, now that claims have numbers."""
    if app.builder.format != "html":
        return
    places = list(doctree.findall(map_node))
    is_chapter = docname.startswith("derivations/")
    if not places and not is_chapter:
        return
    results = Results(app, docname)
    for place in places:
        svg = whole(results)
        place.replace_self(nodes.raw("", f'<div class="result-map">{svg}</div>', format="html"))
    if is_chapter and docname in results.pages:
        svg = neighbourhood(results, docname)
        if svg:
            section = next(doctree.findall(nodes.section))
            title = "What these claims rest on, and what rests on them"
            html = (
                f'<div class="neighbourhood"><p class="rubric">{title}</p>'
                f'<div class="result-map">{svg}</div></div>'
            )
            section += nodes.raw("", html, format="html")


def setup(app):
    """Register the directive and the hook that draws."""
    app.add_directive("result-map", ResultMap)
    app.add_node(map_node)
    app.connect("doctree-resolved", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
