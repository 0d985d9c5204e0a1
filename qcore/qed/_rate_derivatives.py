"""Derivatives of a profile's rate a at any x, which the expansion under local control asks for."""

import functools
import math

import numpy as np

from qcore.admission import varies_smoothly

_DIGITS = 30
_STEP_DIGITS = 5


def rate_jets(profile, x, scales, n):
    """Return the Taylor coefficients a⁽ᵏ⁾(x)/k!, k = 0 … n, of a at each x, one row for each k.

    They come from ``profile.a_derivatives(x, n)`` where the profile has it, otherwise from
    differences of the given a or f at high precision, for which it must accept mpmath numbers.
    ``scales`` gives for each x a length over which a is smooth.
    """
    factorials = np.array([math.factorial(k) for k in range(n + 1)], dtype=float)
    if hasattr(profile, "a_derivatives"):
        rows = np.asarray(profile.a_derivatives(x, n), dtype=float)
        if rows.shape != (n + 1, len(x)) or not np.all(np.isfinite(rows)):
            raise ValueError(
                f"a_derivatives of {profile!r}: must give {n + 1} rows of {len(x)} finite numbers"
            )
        return rows / factorials[:, None]
    advice = (
        f"profile = {profile!r}: the expansion under local control needs derivatives of a; give "
        "the profile a_derivatives(x, n), or a function that accepts mpmath numbers"
    )
    if hasattr(profile, "_given_a"):
        function, rates = profile._given_a, _taylor
    elif hasattr(profile, "_given_f"):
        function, rates = profile._given_f, _rates_from_f
    else:
        raise ValueError(advice)
    try:
        import mpmath

        if not varies_smoothly(function):
            raise ValueError("computes in floating point inside")
        with mpmath.workdps(_DIGITS + _STEP_DIGITS * (n + 1)):
            columns = [
                rates(function, mpmath.mpf(point), mpmath.mpf(scale) / 10**_STEP_DIGITS, n)
                for point, scale in zip(x.tolist(), scales.tolist(), strict=True)
            ]
    except (ImportError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise ValueError(advice) from None
    return np.array(columns, dtype=float).T


def _taylor(function, x, step, n):
    """Return the Taylor coefficients 0 … n of a function at x from its values around x.

    The polynomial through its values at x + j·step, −m ≤ j ≤ m, of degree 2m ≥ n + 4, leaves an
    error of the fifth or sixth power of the step.
    """
    reach = (n + 5) // 2
    polynomials, scales = _lagrange_polynomials(reach)
    values = [function(x + j * step) / scale for j, scale in scales.items()]
    return [
        sum(p[k] * v for p, v in zip(polynomials, values, strict=True)) / step**k
        for k in range(n + 1)
    ]


@functools.cache
def _lagrange_polynomials(reach):
    """Return ∏(u − i) over the offsets i ≠ j, integer coefficients, and its value at each j."""
    offsets = range(-reach, reach + 1)
    polynomials, scales = [], {}
    for j in offsets:
        coefficients = [1]
        for i in offsets:
            if i != j:
                shifted, padded = [0, *coefficients], [*coefficients, 0]
                coefficients = [s - i * c for s, c in zip(shifted, padded, strict=True)]
        polynomials.append(coefficients)
        scales[j] = math.prod(j - i for i in offsets if i != j)
    return polynomials, scales


def _rates_from_f(f, x, step, n):
    """Return the Taylor coefficients of a = −f′/f, by power-series division."""
    series = _taylor(f, x, step, n + 1)
    a = []
    for k in range(n + 1):
        known = sum(a[j] * series[k - j] for j in range(k))
        a.append((-(k + 1) * series[k + 1] - known) / series[0])
    return a
