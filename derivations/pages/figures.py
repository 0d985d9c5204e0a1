"""One look for all figures, and SVG that is the same whenever the data is the same.

A drawing is put into the page with its colours as variables, which the page sets for its light and
its dark theme; black follows the colour of the text, white the ground. Use the colours of
`PALETTE`, black and white, and shades by ``alpha``; tell lines apart by dashes or marks too, since
paper may be grey.
"""

import matplotlib as mpl

from derivations.pages import plotted

# Okabe and Ito's palette, which colour-blind readers can tell apart.
PALETTE = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
}

STYLE = {
    "figure.figsize": (5.6, 3.5),
    "figure.constrained_layout.use": True,
    # Letters that stay legible when a phone shows the drawing at two thirds of its size.
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.titlesize": "medium",
    "axes.prop_cycle": mpl.cycler(color=[*PALETTE.values(), "#000000"])
    + mpl.cycler(
        linestyle=[
            "-",
            "--",
            "-.",
            (0, (1, 1)),
            (0, (5, 1, 1, 1, 1, 1)),
            (0, (7, 3)),
            "-",
        ]
    ),
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "queues-under-control",
    "svg.fonttype": "none",
}


def use_style():
    """Set the look of the figures of this notebook."""
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    mpl.rcParams.update(STYLE)
    set_matplotlib_formats("svg", metadata={"Date": None, "Creator": None})
    plotted.store_data()
