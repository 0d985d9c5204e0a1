"""One look for all figures, and SVG that is the same whenever the data is the same."""

import matplotlib as mpl

from derivations.pages import plotted

STYLE = {
    "figure.figsize": (6.4, 3.6),
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.titlesize": "medium",
    "axes.prop_cycle": mpl.cycler(
        # Okabe and Ito's palette, which colour-blind readers can tell apart.
        color=[
            "#0072B2",
            "#D55E00",
            "#009E73",
            "#CC79A7",
            "#E69F00",
            "#56B4E9",
            "#000000",
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
