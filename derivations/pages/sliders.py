"""Figures that a reader moves: curves on a grid of parameters, stored, with a slider for each.

The numbers are computed when the notebook runs; the page only looks them up
(``book/_static/sliders.js``). Without a script, and on paper, the page has its other figures.
Choices and marks are stored as lists of pairs, since stored notebooks sort the keys of mappings.
"""

import itertools

from derivations.claims.records import SLIDERS_MIME_TYPE

DIGITS = 4


def explore(compute, sliders, x, y, marks=None, words=""):
    """Show curves over x, and let the reader choose the other arguments.

    Parameters
    ----------
    compute : callable
        Given one value of each slider, in order, returns a mapping of each curve's label to its
        values at the places of x. The labels are the same for all choices.
    sliders : mapping
        Label of each slider to a mapping or list: what is written beside it, and the value.
    x, y : (str, sequence of numbers, str) and (str, str)
        The label of each axis and its scale, "linear" or "log"; between them, for x, the places.
    marks : callable, optional
        As ``compute``; returns a mapping of words to a point (x, y), such as the optimum.
    words : str
        What there is to see, in a sentence.
    """
    from IPython.display import display

    choices = {
        label: values
        if isinstance(values, dict)
        else {f"{one:g}": one for one in values}
        for label, values in sliders.items()
    }
    label, places, scale = x
    found = [
        _chosen(compute, marks, values)
        for values in itertools.product(*(one.values() for one in choices.values()))
    ]
    data = {
        "words": words,
        "sliders": [[name, list(values)] for name, values in choices.items()],
        "x": {"label": label, "scale": scale, "places": _numbers(places)},
        "y": {"label": y[0], "scale": y[1]},
        "curves": list(
            compute(*(next(iter(one.values())) for one in choices.values()))
        ),
        "found": found,
    }
    plain = f"{words} Curves for {len(found)} choices of {', '.join(choices)}."
    display({"text/plain": plain, SLIDERS_MIME_TYPE: data}, raw=True)


def _chosen(compute, marks, values):
    points = {} if marks is None else marks(*values)
    return {
        "curves": [_numbers(curve) for curve in compute(*values).values()],
        "marks": [[name, _numbers(point)] for name, point in points.items()],
    }


def _numbers(values):
    """Return numbers as a line of text, which is the most compact."""
    return " ".join(f"{float(value):.{DIGITS}g}" for value in values)
