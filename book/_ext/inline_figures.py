"""Put drawings into the page itself, so that they take the colours of the page's theme.

An SVG file shown as an image keeps its white ground and black letters in a dark page. Inside the
page its black becomes the colour of the text, its white the ground, and each colour of the palette
a variable that ``book.css`` sets for both themes.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from derivations.pages.figures import PALETTE

THEME_COLOURS = {"#000000": "currentColor", "#ffffff": "var(--figure-ground)"} | {
    colour.lower(): f"var(--figure-{name}, {colour.lower()})" for name, colour in PALETTE.items()
}


class InlineFigures(SphinxPostTransform):
    """Replace each SVG image by the drawing itself."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs):
        """Read the drawings of this page."""
        for image in list(self.document.findall(nodes.image)):
            path = Path(self.env.srcdir) / image["uri"]
            if path.suffix != ".svg" or not path.is_file():
                continue
            drawing = themed(path.read_text(encoding="utf-8"), f"d{path.stem[:8]}", words(image))
            framed = f'<div class="figure-scroll">{drawing}</div>'
            image.replace_self(nodes.raw("", framed, format="html"))


def words(image):
    """Return what the image shows, in words: its own text, or the caption of its figure."""
    if image.get("alt"):
        return image["alt"]
    figure = image.parent
    while figure is not None and not isinstance(figure, nodes.figure):
        figure = figure.parent
    caption = figure and next(figure.findall(nodes.caption), None)
    return caption.astext() if caption else ""


def themed(svg, prefix, alternative):
    """Return an ``<svg>`` element for use inside a page.

    Its identifiers get a prefix, so that two drawings do not share them; its colours follow the
    theme; ``alternative`` is what a screen reader says.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(?<= )(?:d|x|y)="[^"]*"', shortened, svg)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = re.sub(r"#[0-9a-fA-F]{6}\b", lambda m: THEME_COLOURS.get(m[0].lower(), m[0]), svg)
    width = float(re.search(r'width="([0-9.]+)', svg)[1])
    head = f'<svg class="drawing" role="img" aria-label="{escaped(alternative)}" '
    head += f'style="--drawing-width: {width:.0f}pt" '
    return re.sub(r"\n\s*", "\n", svg.replace("<svg ", head, 1))


def shortened(attribute):
    """Return coordinates to a tenth of a point, those of small shapes to a hundredth.

    More would be weight that nobody sees; so are blanks around the letters of a path, and a letter
    that says what the one before it said.
    """

    def rounded(number):
        value = float(number[0])
        text = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
        return text.rstrip("0").rstrip(".")

    name, value = re.sub(r"-?\d+\.\d{2,}", rounded, attribute[0]).split("=", 1)
    value = re.sub(r"\s*([A-Za-z])\s*", r"\1", " ".join(value.split()))
    value = re.sub(r"([LCQ])([^A-Za-z]*)(?:\1[^A-Za-z]*)+", _once, value)
    return f"{name}={value}"


def _once(run):
    """Return a run of segments of one kind with its letter once."""
    return run[1] + run[0][1:].replace(run[1], " ")


def escaped(text):
    """Return text for use in an attribute, mathematics without its marks."""
    text = re.sub(r"\\\(|\\\)|\$", "", " ".join(text.split()))
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def setup(app):
    """Register the transform."""
    app.add_post_transform(InlineFigures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
