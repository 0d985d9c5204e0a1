"""Minima of a function of one variable that is known by its values only, to full accuracy."""

import numpy as np

_EPS = np.finfo(float).eps
_SMALLEST_NORMAL = np.finfo(float).smallest_normal


def _lobatto_slope_weights(degree):
    """Nodes on [0, 1] and the weights that give the interpolant's slope at 0."""
    nodes = np.sin(np.pi * np.arange(degree + 1) / (2 * degree)) ** 2
    barycentric = (-1.0) ** np.arange(degree + 1)
    barycentric[[0, -1]] *= 0.5
    weights = np.zeros(degree + 1)
    weights[1:] = barycentric[1:] / barycentric[0] / (nodes[0] - nodes[1:])
    weights[0] = -weights[1:].sum()
    return nodes, weights


_NODES, _WEIGHTS = _lobatto_slope_weights(10)
_NOISE_GAIN = float(np.abs(_WEIGHTS).sum())


def one_sided_slope(function, x, reach):
    """Slope of ``function`` at ``x`` seen from the side of ``x + reach``, and its error.

    The slope of the interpolating polynomial of degree 10 on a window beginning at ``x``; the
    window shrinks until three of them agree best, so that kinks beyond it do not matter (two agree
    by chance too often when a kink is within both). The error is that disagreement and what
    rounding of ``function`` (1 ulp of its terms) can do. The search ends where that rounding alone
    is more than the error found, unless shorter windows still reduce it, as they do close to the
    zero of a function that vanishes there.

    ``function`` returns a value and the size of the terms it was made of.
    """
    slope, error = 0.0, np.inf
    previous, disagreement, noise, last_noise = None, np.inf, 0.0, np.inf
    width = reach
    floor = max(abs(x), 1e-290) * 64 * _EPS
    while abs(width) > floor and (noise < error or noise < 0.75 * last_noise):
        points = x + width * _NODES
        values, sizes = np.array([function(float(point)) for point in points]).T
        estimate = float(_WEIGHTS @ (values - values[0])) / width
        last_noise = noise or np.inf
        noise = _EPS * _NOISE_GAIN * float(sizes.max()) / abs(width)
        if previous is not None:
            last, disagreement = disagreement, abs(estimate - previous)
            doubt = max(disagreement, last) + noise
            if doubt < error:
                slope, error = estimate, doubt
        previous = estimate
        width /= 2
    return slope, error


def first_point(predicate, lower, upper):
    """Smallest point of [lower, upper] at which a predicate, once true always true, holds.

    Bisection down to neighbouring floats; geometric while the ends differ in magnitude.
    ``predicate(upper)`` is taken to be true.
    """
    if predicate(lower):
        return lower
    while True:
        if lower > 0 and upper > 4 * lower:
            middle = (lower * upper) ** 0.5 if lower * upper > 1e-300 else 2 * lower
        else:
            middle = lower + (upper - lower) / 2
        if not lower < middle < upper or upper - lower <= 4 * _EPS * upper:
            return upper
        if predicate(middle):
            upper = middle
        else:
            lower = middle


def lowest_point(function, lower, upper):
    """A point at which a function with one valley in [lower, upper] is least, to rounding.

    ``function`` maps an array of points to an array of values. The search also ends where no float
    is left between the points, as it comes to 0 through the subnormal numbers.
    """
    while True:
        points = np.linspace(lower, upper, 9)
        k = int(np.argmin(function(points)))
        ends = float(points[max(k - 1, 0)]), float(points[min(k + 1, 8)])
        if upper - lower <= 8 * _EPS * upper or ends == (lower, upper) or upper < _SMALLEST_NORMAL:
            return float(points[k])
        lower, upper = ends
