"""Quadrature of non-negative functions on the half-line, with a checked error estimate.

The substitution x = exp(t) turns the integrals met here into integrals over the whole line of
functions that die at least exponentially on both sides, where the trapezoidal rule converges
geometrically for analytic integrands; where it does not, because of a kink or a jump, Gauss–
Legendre on halved intervals does. Everything is kept in logarithms, so that neither the integrand
nor the integral can overflow.
"""

import math

import numpy as np
from numpy.polynomial.legendre import leggauss

# exp(-44) = 8e-20: what lies below the peak by that factor is not seen in double precision.
_NEGLIGIBLE = 44.0
_RANGES = 40.0, 230.0  # |t|, tried in this order: x from 1e-100 to 1e100 at most
_HALVINGS = 6
_MOST_INTERVALS = 20_000
_GAUSS_NODES = leggauss(16)


class QuadratureError(ValueError):
    """The error estimate of a quadrature is not small."""


def log_integral(log_integrand, upper=math.inf, tolerance=1e-13):
    """Return the logarithm of the integral over (0, upper) of ``exp(log_integrand(x))``.

    ``log_integrand`` takes an array of increasing x > 0. The error estimate, the change in the
    last halving of the step, must be below ``tolerance`` relative to the integral, or of the size
    of the rounding of the logarithm at the peak.
    """

    def log_g(t):
        values = log_integrand(np.exp(t)) + t
        if np.any(np.isnan(values)) or np.any(values == np.inf):
            raise QuadratureError("the integrand is not a finite number everywhere")
        return values

    left, right = _range(log_g)
    if upper < math.inf:
        return _by_pieces(log_g, left, min(right, math.log(upper)), tolerance)
    step = min(0.25, (right - left) / 32)
    t = np.arange(left, right + step, step)
    values = log_g(t)
    peak = values.max()
    tolerance = max(tolerance, 8 * np.finfo(float).eps * abs(peak))
    total = step * np.exp(values - peak).sum()
    for _ in range(_HALVINGS):
        midpoints = t[:-1] + step / 2 if len(t) > 1 else t
        values = log_g(midpoints)
        new_peak = max(peak, values.max())
        refined = (total * np.exp(peak - new_peak) + step * np.exp(values - new_peak).sum()) / 2
        change = abs(refined - total * np.exp(peak - new_peak))
        t = np.sort(np.concatenate([t, midpoints]))
        step, peak, total = step / 2, new_peak, refined
        if change <= tolerance * refined:
            return peak + np.log(refined)
    return _by_pieces(log_g, left, right, tolerance)


def log_integral_between(log_integrand, start, end, tolerance=1e-13):
    """Return the logarithm of the integral over a finite interval, inside which all is smooth.

    Neither end is evaluated, so that each may be a kink or a jump, or an integrable pole.
    """
    width, near = end - start, 2.0 ** -np.arange(2, 50)
    grid = np.concatenate([start + width * near, np.linspace(start, end, 258)[1:-1]])
    grid = np.unique(np.concatenate([grid, end - width * near]))
    grid = grid[(start < grid) & (grid < end)]
    peak = log_integrand(grid).max()
    if peak == -np.inf:
        return -math.inf
    if not peak < np.inf:
        raise QuadratureError("the integrand is not a finite number everywhere")
    tolerance = max(tolerance, 8 * np.finfo(float).eps * abs(peak))
    ends = np.linspace(start, end, 33)
    pieces = integrals(
        lambda x: np.exp(log_integrand(x) - peak), ends[:-1], np.diff(ends), tolerance / 100
    )
    return float(peak + np.log(pieces.sum()))


def _by_pieces(log_g, left, right, tolerance):
    """Integrate on two partitions, as a jump between an end and the first node goes unseen."""
    peak = log_g(np.linspace(left, right, 257)).max()
    tolerance = max(tolerance, 8 * np.finfo(float).eps * abs(peak))
    first, second = (
        integrals(
            lambda u: np.exp(log_g(u) - peak), ends[:-1], np.diff(ends), tolerance / 100
        ).sum()
        for ends in (np.linspace(left, right, count) for count in (65, 48))
    )
    if not abs(first - second) <= 10 * tolerance * first:
        raise QuadratureError(
            f"the estimated relative error of the integral is {abs(first / second - 1):.1e}, "
            f"above {tolerance:.1e}"
        )
    return float(peak + np.log(first))


def _range(log_g):
    """Return (left, right) outside which exp(log_g) is negligible."""
    for widest in _RANGES:
        t = np.arange(-widest, widest + 0.5)
        values = log_g(t)
        peak = values.max()
        if peak == -np.inf:
            raise QuadratureError("the integrand vanishes everywhere")
        if max(values[0], values[-1]) < peak - _NEGLIGIBLE:
            return _narrowed(log_g, t, values)
    raise QuadratureError("the integrand decays too slowly")


def _narrowed(log_g, t, values):
    """Zoom in on the largest value until what matters spans 32 points."""
    for _ in range(40):
        inside = np.flatnonzero(values > values.max() - _NEGLIGIBLE)
        if not inside.size:
            raise QuadratureError("the logarithm of the integrand is lost in rounding")
        first, last = inside[0], inside[-1]
        left, right = t[max(first - 1, 0)], t[min(last + 1, len(t) - 1)]
        if last - first >= 32:
            return left, right
        t = np.linspace(left, right, 129)
        values = log_g(t)
    raise QuadratureError("the integrand is too narrow a peak")


def cumulative_integral(function, x, tolerance=1e-15, absolute=0.0, through=()):
    """Return the integrals of ``function`` from 0 to each element of the array ``x`` >= 0.

    Kinks and jumps of the function may be given as ``through``.
    """
    last = np.max(x, initial=0.0)
    points = np.concatenate([np.ravel(x), [u for u in through if u < last]])
    if not points.size:
        return np.zeros(np.shape(x))
    ends, inverse = np.unique(points, return_inverse=True)
    starts = np.concatenate([[0.0], ends[:-1]])
    pieces = integrals(function, starts, ends - starts, tolerance, absolute)
    return np.cumsum(pieces)[inverse][: np.size(x)].reshape(np.shape(x))


def integrals(function, starts, widths, tolerance=1e-13, absolute=0.0):
    """Return the integrals over each [start, start + width]: Gauss–Legendre, halved as needed.

    An interval is done when halving changes it by less than ``tolerance`` of the sum so far, or
    by less than ``absolute``, or by rounding.
    """
    widths = np.broadcast_to(widths, starts.shape)
    if not starts.size:
        return np.zeros(starts.shape)
    whole = _gauss(function, starts, widths)
    result = np.zeros_like(whole)
    scale = np.cumsum(np.abs(whole))
    owner = np.arange(len(whole))
    for _ in range(60):
        widths = widths / 2
        left, right = (_gauss(function, left_end, widths) for left_end in (starts, starts + widths))
        if not np.all(np.isfinite(left + right)):
            raise QuadratureError("the integrand is not a finite number everywhere")
        difference = np.abs(left + right - whole)
        allowed = np.maximum(tolerance * scale[owner], absolute)
        done = difference <= np.maximum(allowed, 4e-16 * np.abs(whole))
        np.add.at(result, owner[done], (left + right)[done])
        if np.all(done):
            return result
        if done.size > _MOST_INTERVALS:
            break
        rest = ~done
        starts = np.concatenate([starts[rest], (starts + widths)[rest]])
        widths = np.concatenate([widths[rest], widths[rest]])
        whole = np.concatenate([left[rest], right[rest]])
        owner = np.concatenate([owner[rest], owner[rest]])
    raise QuadratureError("the integral does not settle when its intervals are halved")


def _gauss(function, starts, widths):
    nodes, weights = _GAUSS_NODES
    points = starts[:, None] + widths[:, None] / 2 * (1 + nodes)
    values = np.reshape(function(points.ravel()), points.shape)
    return widths / 2 * (values @ weights)
