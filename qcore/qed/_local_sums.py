r"""Integrals for the expansion under local control, for a smooth profile known numerically.

Under local control :math:`q_s(n)ρ^{n+1} = f(x)e^{-γx} \sum_j C_j(x) ε^j` at x = (n + 1)ε, where
the C_j are made of the integrals of powers of a over (0, x) and of derivatives of such powers at
x and at 0. Here all are functions tabulated at Gauss–Legendre nodes.
"""

import functools
import itertools
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.polynomial import legendre

from qcore._numerics.power_series import bernoulli_over_index, exponential

_NODES_PER_PANEL = 16
_FEWEST_PANELS = 8
_MOST_PANELS = 256
_PANELS_AT_ZERO = 20  # each a quarter of the next, for a root of x in a
_TOLERANCE = 1e-13
_NEGLIGIBLE = 1e-18
_ROUNDING = 4 * np.finfo(float).eps
_WORST_ROUNDING = 1e-6


@dataclass(frozen=True)
class LocalIntegrals:
    """Integrals over the pieces of a profile, as decimals.

    Attributes
    ----------
    integrals : list
        For each piece that matters ∫x^power f(x)e^{−γx}C_j(x)dx, j = 0 … order, without what breaks
        add.
    up_to : dict
        For 0 and each end of a piece the integrals of a, a², …, a^(order + 1) from 0 to there.
    """

    integrals: list
    up_to: dict


@dataclass(frozen=True)
class _Tabulated:
    """One quadrature of all integrals; the arrays have an element for each order."""

    log_scale: float
    integrals: np.ndarray  # and a column for each piece
    powers: np.ndarray  # the integral of each power of a over each piece
    sizes: np.ndarray  # integrals of absolute values
    rounding: np.ndarray  # bounds of the effect of rounding in the integrands
    last: np.ndarray  # absolute values of the last term of each quadrature


def local_integrals(profile, gamma, order, power=0):
    r"""Return the `LocalIntegrals` of a profile for order ≥ 1."""
    ends, found = _settled(profile, gamma, order, power)
    scale = Decimal(found.log_scale).exp()
    sums = np.cumsum(found.powers, axis=1).T.tolist()
    zero = [Decimal(0)] * (order + 1)
    return LocalIntegrals(
        [[Decimal(value) * scale for value in column] for column in found.integrals.T.tolist()],
        {0.0: zero} | {x: list(map(Decimal, row)) for x, row in zip(ends, sums, strict=False)},
    )


@functools.lru_cache(maxsize=64)
def _settled(profile, gamma, order, power):
    """Return the finite ends of pieces that matter, and the `_Tabulated` integrals.

    The number of panels doubles, first without and then with further ones near 0, until every
    integral has settled to 1e-13 of the integral of its absolute value, or to the rounding error
    of the integrand; a ValueError says so if that does not happen, or if rounding leaves fewer
    than six digits.
    """
    pieces = profile.pieces("local")
    breaks = [piece.end for piece in pieces if piece.end < math.inf]
    for extra in (0, _PANELS_AT_ZERO):
        drop = 60.0
        panels = _FEWEST_PANELS
        coarse = None
        end = _end_of_range(profile, gamma, drop)
        while panels <= _MOST_PANELS:
            edges = [0.0, *(x for x in breaks if x < end)]
            edges.append(min(end, profile.support))
            fine = _tabulate(profile, gamma, order, power, edges, panels, extra)
            if edges[-1] < profile.support and np.any(fine.last > _NEGLIGIBLE * fine.sizes):
                drop *= 1.5
                coarse, end = None, _end_of_range(profile, gamma, drop)
                continue
            if coarse is not None:
                shift = math.exp(coarse.log_scale - fine.log_scale)
                change = np.abs(fine.integrals - shift * coarse.integrals).max(axis=1)
                if np.all(change <= _TOLERANCE * fine.sizes + fine.rounding):
                    _refuse_rounding(profile, fine)
                    return [x for x in breaks if x <= edges[-1]], fine
            coarse = fine
            panels *= 2
    raise ValueError(
        f"profile = {profile!r}: the integrals of the expansion under local control do not "
        f"settle (relative change {np.max(change / fine.sizes):.1e}); a(x) must be smooth except "
        "at its breaks, and give all of these"
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
        if right > profile.support:
            return profile.support
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


def _tabulate(profile, gamma, order, power, ends, panels, panels_at_zero):
    nodes, weights, primitive = _collocation()
    # Narrow panels near the start of a piece, where most profiles bend most.
    shape = (np.arange(panels + 1) / panels) ** 3
    edges = np.concatenate(
        [[0.0], *(start + (end - start) * shape[1:] for start, end in itertools.pairwise(ends))]
    )
    near_zero = edges[1] * 0.25 ** np.arange(panels_at_zero, 0.0, -1)
    edges = np.concatenate([[0.0], near_zero, edges[1:]])
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (1 + nodes)).ravel()

    def by_piece(values):
        """Return sums over pieces of values given at all nodes, or panels, along the last axis."""
        extra = len(near_zero) * (values.shape[-1] // len(half))
        sums = values[..., extra:].reshape(*values.shape[:-1], len(ends) - 1, -1).sum(axis=-1)
        sums[..., 0] += values[..., :extra].sum(axis=-1)
        return sums

    def integral_of(values):
        """Return the integrals over all panels, and up to each node within its panel."""
        pieces = half * values.reshape(len(half), -1)
        return pieces @ weights, pieces @ primitive.T

    def running_integral(values):
        totals, within = integral_of(values)
        return ((np.cumsum(totals) - totals)[:, None] + within).ravel()

    jet = profile.rate_jets(x, np.repeat(2 * half, len(nodes)), order - 1)
    at_zero = np.array(profile.taylor_of_a(0.0, order - 1, 1), dtype=float)
    log_weight = -gamma * x - running_integral(jet[0])
    log_scale = log_weight.max()
    weight = np.exp(log_weight - log_scale) * x**power * (half * weights).ravel()

    terms = _exponent_terms(jet, at_zero[:, None], gamma, x, running_integral)
    one = np.ones_like(x)
    exponent = [sum(of_order, 0 * one) for of_order in terms]
    majorant = [sum(map(np.abs, of_order), 0 * one) for of_order in terms]
    products = np.array(exponential(exponent, np.multiply, one)) * weight
    bounds = np.array(exponential(majorant, np.multiply, one)) * weight
    sizes = np.abs(products).sum(axis=1)
    exponents = abs(gamma) * ends[-1] * sizes
    powers = [integral_of(jet[0] ** m)[0] for m in range(1, order + 2)]
    return _Tabulated(
        log_scale=log_scale,
        integrals=by_piece(products),
        powers=by_piece(np.array(powers)),
        # A coefficient that vanishes identically leaves rounding errors: measure by the first.
        sizes=np.maximum(sizes, 1e-3 * sizes[0]),
        rounding=_ROUNDING * (bounds.sum(axis=1) + exponents),
        last=np.abs(products[:, -1]),
    )


def _exponent_terms(jet, at_zero, gamma, x, running_integral):
    """Return for each order the terms of ln(q_s/f) + x(γ − γ_s); see `_waiting_sums`."""
    order = len(jet)
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
