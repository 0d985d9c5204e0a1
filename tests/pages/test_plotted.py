"""What a figure shows is told apart from what it does not show, and from rounding."""

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from derivations.pages.plotted import KEPT, data_of

X = np.linspace(0.1, 10, 200)


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def shown(axes):
    (own,) = data_of(axes.figure)["axes"]
    return own


def test_curves_are_thinned_and_named(axes):
    axes.plot(X, X**2, ":", label="square")
    axes.set_xlabel("load")
    axes.set_yscale("log")
    own = shown(axes)
    assert own["labels"] == ["load", "", ""]
    assert own["scales"] == ["linear", "log"]
    (curve,) = own["artists"]
    assert (curve["label"], curve["style"], curve["points"]) == ("square", ":", 200)
    columns = [column.split() for column in curve["data"]]
    assert [len(column) for column in columns] == [KEPT, KEPT]
    assert columns[1][0] == "0.01"
    assert columns[1][-1] == "100"


@pytest.mark.parametrize(
    "draw",
    [
        lambda axes, factor: axes.plot(X, factor * X),
        lambda axes, factor: axes.scatter(X, factor * X),
        lambda axes, factor: axes.bar([1, 2], [3, 4 * factor]),
        lambda axes, factor: axes.fill_between(X, X, factor * 2 * X),
        lambda axes, factor: axes.errorbar([1, 2], [3, 4], yerr=[1, 2 * factor]),
        lambda axes, factor: axes.axvline(factor),
        lambda axes, factor: axes.imshow([[1.0, 2.0 * factor]]),
        lambda axes, factor: axes.pcolormesh([[1.0, 2.0 * factor], [3.0, 4.0]]),
        lambda axes, factor: axes.contour([[1.0, 2.0 * factor], [3.0, 4.0]]),
        lambda axes, factor: axes.annotate("here", (factor, 1)),
        lambda axes, factor: axes.text(1, factor, "here"),
        lambda axes, factor: axes.step(X, factor * X),
        lambda axes, factor: axes.hist(factor * np.array([1.0, 2.0, 2.5])),
    ],
)
def test_every_kind_of_artist_is_seen(axes, draw):
    seen = []
    for factor in (1, 1.01, 1 + 1e-12):
        axes.clear()
        draw(axes, factor)
        seen.append(shown(axes))
    assert seen[0] != seen[1], "a change of a per cent is not seen"
    assert seen[0] == seen[2], "rounding is seen"


def test_small_numbers_are_seen_on_a_logarithmic_axis_only(axes):
    axes.plot([1, 2], [1e-9, 1.0])
    assert shown(axes)["artists"][0]["data"][1] == "0 1"
    axes.set_yscale("log")
    assert shown(axes)["artists"][0]["data"][1] == "1e-09 1"


def test_what_is_not_finite_is_kept(axes):
    axes.plot([1, 2, 3], [np.nan, np.inf, 1.0])
    assert shown(axes)["artists"][0]["data"][1] == "nan inf 1"
