r"""Integrals for the expansion under local control, for a smooth profile known numerically.

Under local control :math:`q_s(n)ρ^{n+1} = f(x)e^{-γx} \sum_j C_j(x) ε^j` at x = (n + 1)ε, where
the C_j are made of the integrals of powers of a over (0, x) and of derivatives of such powers at
x and at 0. Here all are functions tabulated at Gauss–Legendre nodes.
"""

import functools
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.polynomial import legendre

from qcore._numerics.power_series import bernoulli_over_index, exponential
from qcore.qed._rate_derivatives import rate_jets

_NODES_PER_PANEL = 16
_FEWEST_PANELS = 8
_MOST_PANELS = 256
_TOLERANCE = 1e-13
_NEGLIGIBLE = 1e-18
_ROUNDING = 4 * np.finfo(float).eps
_WORST_ROUNDING = 1e-6


@dataclass(frozen=True)
class _Tabulated:
    """One quadrature of all integrals; the arrays have an element for each order."""

    log_scale: float
    integrals: np.ndarray
    sizes: np.ndarray  # integrals of absolute values
    rounding: np.ndarray  # bounds of the effect of rounding in the integrands
    last: np.ndarray  # absolute values of the last term of each quadrature


def local_integrals(profile, gamma, order):
    r"""Return :math:`\int_0^\infty f(x)e^{-γx}C_j(x)\,dx`, j = 0 … order, as decimals."""
    log_scale, integrals = _scaled_integrals(profile, gamma, order)
    scale = Decimal(log_scale).exp()
    return [Decimal(value) * scale for value in integrals]


@functools.lru_cache(maxsize=64)
def _scaled_integrals(profile, gamma, order):
    """Return the logarithm of a scale, and the integrals over that scale.

    The number of panels doubles until every integral has settled to 1e-13 of the integral of
    its absolute value, or to the rounding error of the integrand; a ValueError says so if that
    does not happen, or if rounding leaves fewer than six digits.
    """
    drop = 60.0
    panels = _FEWEST_PANELS
    coarse = None
    end = _end_of_range(profile, gamma, drop)
    while panels <= _MOST_PANELS:
        fine = _tabulate(profile, gamma, order, end, panels)
        if np.any(fine.last > _NEGLIGIBLE * fine.sizes):
            drop *= 1.5
            coarse, end = None, _end_of_range(profile, gamma, drop)
            continue
        if coarse is not None:
            shift = math.exp(coarse.log_scale - fine.log_scale)
            change = np.abs(fine.integrals - shift * coarse.integrals)
            if np.all(change <= _TOLERANCE * fine.sizes + fine.rounding):
                _refuse_rounding(profile, fine)
                return fine.log_scale, fine.integrals.tolist()
        coarse = fine
        panels *= 2
    raise ValueError(
        f"profile = {profile!r}: the integrals of the expansion under local control do not "
        f"settle (relative change {np.max(change / fine.sizes):.1e}); a(x) must be smooth"
    )


def _refuse_rounding(profile, tabulated):
    lost = tabulated.rounding > _WORST_ROUNDING * tabulated.sizes
    if np.any(lost):
        first = int(np.argmax(lost))
        raise ValueError(
            f"order: the coefficients of {profile!r} under local control are lost in rounding "
            f"errors from order {first} on; ask for a lower order"
        )


def _end_of_range(profile, gamma, drop):
    """Return x beyond which e^{−γx}f(x) is below e^{−drop} of its largest value.

    The logarithm of e^{−γx}f(x) is concave, since a does not decrease.
    """

    def log_weight(x):
        return profile.log_f(x) - gamma * x

    peak = 0.0
    left, right = 0.0, 2.0**-10 / (1 + abs(gamma))
    while (height := log_weight(right)) > peak - drop:
        peak = max(peak, height)
        left, right = right, 2 * right
        if right > 2.0**60:
            raise ValueError(
                f"gamma = {gamma!r}: too close to gamma_min = {profile.gamma_min:g} for the "
                "integrals of the expansion"
            )
    while right - left > 0.05 * right:
        middle = (left + right) / 2
        if log_weight(middle) > peak - drop:
            left = middle
        else:
            right = middle
    return right


def _tabulate(profile, gamma, order, end, panels):
    nodes, weights, primitive = _collocation()
    # Narrow panels near 0, where most profiles bend most.
    edges = end * (np.arange(panels + 1) / panels) ** 3
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (1 + nodes)).ravel()

    def running_integral(values):
        pieces = half * values.reshape(panels, -1)
        totals = pieces @ weights
        before = np.cumsum(totals) - totals
        return (before[:, None] + pieces @ primitive.T).ravel()

    jet = rate_jets(profile, x, np.repeat(2 * half, len(nodes)), order)
    factorials = [math.factorial(k) for k in range(order + 1)]
    at_zero = profile.a_derivatives_at_zero(order) / np.array(factorials, dtype=float)
    log_weight = -gamma * x - running_integral(jet[0])
    log_scale = log_weight.max()
    weight = np.exp(log_weight - log_scale) * (half * weights).ravel()

    terms = _exponent_terms(jet, at_zero[:, None], gamma, x, running_integral)
    one = np.ones_like(x)
    exponent = [sum(of_order, 0 * one) for of_order in terms]
    majorant = [sum(map(np.abs, of_order), 0 * one) for of_order in terms]
    products = np.array(exponential(exponent, np.multiply, one)) * weight
    bounds = np.array(exponential(majorant, np.multiply, one)) * weight
    sizes = np.abs(products).sum(axis=1)
    exponents = abs(gamma) * end * sizes
    return _Tabulated(
        log_scale=log_scale,
        integrals=products.sum(axis=1),
        # A coefficient that vanishes identically leaves rounding errors: measure by the first.
        sizes=np.maximum(sizes, 1e-3 * sizes[0]),
        rounding=_ROUNDING * (bounds.sum(axis=1) + exponents),
        last=np.abs(products[:, -1]),
    )


def _exponent_terms(jet, at_zero, gamma, x, running_integral):
    """Return for each order the terms of ln(q_s/f) + x(γ − γ_s); see `_waiting_sums`."""
    order = len(jet) - 1
    terms = [[]] + [[-(gamma ** (k + 1)) / (k + 1) * x] for k in range(1, order + 1)]
    power, power_at_zero = jet, at_zero
    for m in range(1, order + 2):
        sign = (-1) ** m / m
        change = power - power_at_zero
        if m > 1:
            terms[m - 1].append(sign * running_integral(power[0]))
        if m <= order:
            terms[m].append(sign / 2 * change[0])
        for i in range(1, (order - m + 1) // 2 + 1):
            weight = float(bernoulli_over_index(2 * i))
            terms[m + 2 * i - 1].append(sign * weight * change[2 * i - 1])
        power = _multiply_jets(power, jet)
        power_at_zero = _multiply_jets(power_at_zero, at_zero)
    return terms


def _multiply_jets(left, right):
    return np.array([sum(left[j] * right[k - j] for j in range(k + 1)) for k in range(len(left))])


@functools.cache
def _collocation():
    """Return nodes and weights on (−1, 1), and the matrix of integrals from −1 to each node."""
    nodes, weights = legendre.leggauss(_NODES_PER_PANEL)
    n = np.arange(_NODES_PER_PANEL)
    values = legendre.legvander(nodes, _NODES_PER_PANEL)
    # ∫ P_n = (P_{n+1} − P_{n−1})/(2n + 1) from −1, and 1 + x for n = 0.
    primitives = np.empty((_NODES_PER_PANEL, _NODES_PER_PANEL))
    primitives[:, 0] = 1 + nodes
    primitives[:, 1:] = (values[:, 2:] - values[:, :-2]) / (2 * n[1:] + 1)
    # The expansion of an interpolant in P_n: discrete orthogonality at the Gauss nodes.
    transform = values[:, :-1].T * weights * (2 * n[:, None] + 1) / 2
    return nodes, weights, primitives @ transform
