"""The data of a figure, stored beside its image, so that a figure is compared like a table.

An image changes with the version of Matplotlib; the numbers that it shows do not. They are
taken from the artists of each axes, thinned to `KEPT` of each, and rounded: to the digits of the
largest, or each to its own on a logarithmic axis.
"""

import numpy as np

MIME_TYPE = "application/vnd.qcore.plot+json"
KEPT = 25
DIGITS = 4


def store_data():
    """Let every figure that is shown from here on store its data in the same output."""
    from IPython import get_ipython
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    shell = get_ipython()
    if shell is None:
        return

    class PlotFormatter(BaseFormatter):
        format_type = Unicode(MIME_TYPE)
        print_method = ObjectName("_plotted_data_")
        _return_type = dict

    formatter = PlotFormatter(parent=shell.display_formatter)
    formatter.for_type_by_name("matplotlib.figure", "Figure", data_of)
    shell.display_formatter.formatters[MIME_TYPE] = formatter
    shell.display_formatter.active_types = [
        *shell.display_formatter.active_types,
        MIME_TYPE,
    ]


def data_of(figure):
    """Return what the axes of ``figure`` show, as numbers and text."""
    return {"axes": [_axes(axes) for axes in figure.axes]}


def _axes(axes):
    shown = {
        "labels": [axes.get_xlabel(), axes.get_ylabel(), axes.get_title()],
        "scales": [axes.get_xscale(), axes.get_yscale()],
        "artists": [],
    }
    for artist in axes.get_children():
        data, points = artist_points(artist), artist.get_visible()
        if (
            data is None
            or not points
            or artist in axes.spines.values()
            or artist is axes.patch
        ):
            continue
        shown["artists"].append(_artist(artist, *data, shown["scales"]))
    return shown


def artist_points(artist):
    """Return the points of an artist as columns and how they are drawn, or None for decoration."""
    from matplotlib.collections import Collection
    from matplotlib.contour import ContourSet
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Annotation, Text

    if isinstance(artist, Line2D):
        return np.asarray(artist.get_xydata(), float).T, _line_style(artist)
    if isinstance(artist, Patch):
        return artist.get_path().transformed(
            artist.get_patch_transform()
        ).vertices.T, {}
    if isinstance(artist, AxesImage):
        return [np.ravel(artist.get_array())], {}
    if isinstance(artist, Collection):
        # The array of a contour holds its levels, which the curves do not depend on.
        values = None if isinstance(artist, ContourSet) else artist.get_array()
        if values is not None:
            return [np.ravel(values)], {}
        offsets = np.asarray(artist.get_offsets(), float)
        if len(offsets) > 1 or offsets.any():
            return offsets.T, {}
        paths = [path.vertices for path in artist.get_paths()]
        return (np.concatenate(paths).T if paths else []), {}
    if isinstance(artist, Text) and artist.get_text():
        place = artist.xy if isinstance(artist, Annotation) else artist.get_position()
        return np.asarray(place, float).reshape(2, 1), {"text": artist.get_text()}
    return None


def _line_style(line):
    return {"style": line.get_linestyle(), "marker": str(line.get_marker())}


def _artist(artist, columns, style, scales):
    columns = [np.asarray(np.ma.filled(column, np.nan), float) for column in columns]
    count = len(columns[0]) if len(columns) else 0
    chosen = np.unique(
        np.linspace(0, max(count - 1, 0), min(KEPT, count)).round().astype(int)
    )
    label = str(artist.get_label())
    return {
        "kind": type(artist).__name__,
        **({} if label.startswith("_") else {"label": label}),
        **style,
        "points": count,
        "data": [
            " ".join(
                _rounded(column, scales[place] if len(columns) == 2 else "linear")[
                    chosen
                ]
            )
            for place, column in enumerate(columns)
        ],
    }


def _rounded(column, scale):
    """Return numbers to `DIGITS` digits of the largest, on a logarithmic axis of each."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = (
            np.abs(column) if scale == "log" else np.full(len(column), _largest(column))
        )
        places = np.where(sizes > 0, np.floor(np.log10(sizes)), 0)
    places = np.where(np.isfinite(places), places, 0)
    result = [
        _text(value, int(DIGITS - 1 - place))
        for value, place in zip(column, places, strict=True)
    ]
    return np.array(result, dtype=object)


def _largest(column):
    finite = np.abs(column[np.isfinite(column)])
    return finite.max() if len(finite) else 0.0


def _text(value, digits):
    return (
        f"{round(float(value), digits) + 0.0:.12g}"
        if np.isfinite(value)
        else str(value)
    )
