"""Derivatives of a function given as a black box, and the places where it seems to have none.

Everything asks for a function that accepts mpmath numbers, but `suspected_break`, which makes do
with floats.
"""

import functools
import math
from itertools import pairwise

import numpy as np

from qcore._numerics import checks

# How functions refuse numbers that are no floats.
REFUSALS = (TypeError, ValueError, AttributeError, ArithmeticError)
_DIGITS = 50
# Central differences.
_CENTRAL_DIGITS = 30
_STEP_DIGITS = 5
# One-sided differences, with three steps that must agree.
_STEPS = 1e-6, 1e-8, 1e-10
_EXTRA_POINTS = 6
_SETTLED = 1e-17
# The search for breaks.
_OCTAVES = range(-8, 6)
_ODD = 0.913  # so that panels begin and end at no number that anybody would choose for a break
_CHEBYSHEV_NODES = 24
_SLOW = 2.0**-14  # an analytic function gains 2^−24 from a halving
_DEEP = 7
_MOST_PANELS = 500
_NOTHING_LEFT = 700.0  # of −ln f


class NotSmooth(ValueError):
    """A derivative does not settle: the function has a term x^power there, if that is known."""

    def __init__(self, order, power):
        super().__init__(f"derivative {order} does not settle")
        self.order, self.power = order, power


def varies_smoothly(function):
    """Whether slopes over 1e-25 and over 1e-9 agree, which no floating-point function's do."""
    import mpmath

    if not callable(function):
        raise ValueError(f"function = {checks.shown(function)}: must be a function of one number")

    with mpmath.workdps(_DIGITS):
        for x in (mpmath.pi / 100, mpmath.e / 7):
            fine, coarse = ((function(x + h) - function(x)) / h for h in (1e-25, 1e-9))
            if abs(fine - coarse) > 1e-5 * (abs(fine) + abs(coarse)) + 1e-15:
                return False
    return True


def central_taylor(function, x, scale, n):
    """Return the Taylor coefficients 0 … n of a function at x from its values around x.

    The polynomial through its values at x + j·step, −m ≤ j ≤ m, of degree 2m ≥ n + 4, leaves an
    error of the fifth or sixth power of the step, which is 1e-5 of ``scale``.
    """
    import mpmath

    reach = (n + 5) // 2
    with mpmath.workdps(_CENTRAL_DIGITS + _STEP_DIGITS * (n + 1)):
        step = mpmath.mpf(scale) / 10**_STEP_DIGITS
        return _taylor(function, mpmath.mpf(x), step, tuple(range(-reach, reach + 1)), n)


def one_sided_taylor(function, x, side, n):
    """Return the Taylor coefficients 0 … n at x ± 0 from values beyond x, as mpmath numbers.

    Raises
    ------
    NotSmooth
        If some coefficient does not settle to 17 digits as the step goes down to 1e-10.
    """
    import mpmath

    offsets = tuple(range(1, n + 2 + _EXTRA_POINTS))
    with mpmath.workdps(10 * (n + 1) + _DIGITS):
        coarse, middle, fine = (
            _taylor(function, mpmath.mpf(x), side * mpmath.mpf(step), offsets, n) for step in _STEPS
        )
        for k in range(n + 1):
            first, second = abs(coarse[k] - middle[k]), abs(middle[k] - fine[k])
            # The first of them is left out where the coefficient is all there is at 1e-17.
            if not second <= _SETTLED * max(abs(fine[k]), 1):
                known = first > 0 and second > 0 and mpmath.isfinite(first / second)
                power = k + mpmath.log(first / second) / math.log(_STEPS[0] / _STEPS[1])
                raise NotSmooth(k, float(power) if known else None)
    # What two steps disagree about altogether is zero.
    return [
        second if abs(second) > abs(first - second) else mpmath.mpf(0)
        for first, second in zip(middle, fine, strict=True)
    ]


def _taylor(function, x, step, offsets, n):
    import mpmath

    polynomials, scales = _lagrange_polynomials(offsets)
    # The function may return a float, such as 1.0 where it is constant.
    values = [
        mpmath.mpf(function(x + j * step)) / scale for j, scale in zip(offsets, scales, strict=True)
    ]
    return [
        sum(p[k] * v for p, v in zip(polynomials, values, strict=True)) / step**k
        for k in range(n + 1)
    ]


@functools.cache
def _lagrange_polynomials(offsets):
    """Return ∏(u − i) over the offsets i ≠ j, integer coefficients, and its value at each j."""
    polynomials = []
    for j in offsets:
        coefficients = [1]
        for i in offsets:
            if i != j:
                longer, padded = [0, *coefficients], [*coefficients, 0]
                coefficients = [s - i * c for s, c in zip(longer, padded, strict=True)]
        polynomials.append(coefficients)
    return polynomials, [math.prod(j - i for i in offsets if i != j) for j in offsets]


def log_derivative(series):
    """Return the Taylor coefficients of −g′/g from those of g, one fewer."""
    a = []
    for k in range(len(series) - 1):
        known = sum(a[j] * series[k - j] for j in range(k))
        a.append((-(k + 1) * series[k + 1] - known) / series[0])
    return a


def suspected_break(function, precise):
    """Return an x at which a function seems to have a kink or a jump, or None.

    On panels from 2⁻⁸ to 64, or to where the function exceeds 700, it is compared with its
    interpolant. Where it is analytic the error falls by 2⁻²⁴ whenever a panel is halved; where
    derivative k jumps, by 2⁻ᵏ only. ``precise`` says that the function takes mpmath numbers, and
    then k up to about 10 is seen; otherwise k up to 3, unless its rounding errors hide it.
    """
    import mpmath

    with mpmath.workdps(40):
        tolerance = 1e-28 if precise else 1e-13
        error = _interpolation_error(function, precise)
        panels, examined = [], 0
        for octave in reversed(_OCTAVES):
            start = _ODD * 2.0**octave
            panels.append((start, start, ()))
        while panels:
            start, width, history = panels.pop()
            if abs(function(mpmath.mpf(start) if precise else start)) > _NOTHING_LEFT:
                return None
            examined += 1
            history = (*history, error(start, width))
            if history[-1] <= tolerance:
                continue
            slow = all(later > _SLOW * before for before, later in pairwise(history[-4:]))
            if math.isinf(history[-1]) or (len(history) > _DEEP and slow):
                return _located(error, start, width, tolerance)
            if examined > _MOST_PANELS:
                return start + width / 2
            panels += [(start + width / 2, width / 2, history), (start, width / 2, history)]
    return None


def _interpolation_error(function, precise):
    import mpmath

    number = mpmath.mpf if precise else float
    nodes, tests, matrix = _interpolation(precise)

    def error(start, width):
        values, expected = (
            np.array([function(number(start) + width * u) for u in points], dtype=object)
            for points in (nodes, tests)
        )
        scale = max(1, *map(abs, values), *map(abs, expected))
        if not mpmath.isfinite(scale):
            return math.inf
        return float(max(map(abs, matrix @ values - expected)) / scale)

    return error


@functools.cache
def _interpolation(precise):
    """Return Chebyshev nodes and other points on (0, 1), and the matrix from values to values."""
    import mpmath

    number = mpmath.mpf if precise else float
    with mpmath.workdps(50):
        n = _CHEBYSHEV_NODES
        angles = [mpmath.pi * (2 * j + 1) / (2 * n) for j in range(n)]
        nodes = [(1 - mpmath.cos(angle)) / 2 for angle in angles]
        tests = [mpmath.mpf(u) for u in ("0.001", "0.27", "0.49", "0.73", "0.999")]
        weights = [(-1) ** j * mpmath.sin(angle) for j, angle in enumerate(angles)]
        rows = []
        for u in tests:
            terms = [w / (u - node) for w, node in zip(weights, nodes, strict=True)]
            rows.append([number(term / sum(terms)) for term in terms])
        matrix = np.array(rows, dtype=object)
        return list(map(number, nodes)), list(map(number, tests)), matrix


def _located(error, start, width, tolerance):
    while width > 1e-9 * start:
        width /= 2
        left, right = error(start, width), error(start + width, width)
        if max(left, right) <= tolerance:
            break
        if right > left:
            start += width
    return start + width / 2
