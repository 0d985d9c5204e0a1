r"""The two ingredients of every expansion in the QED regime, as power series in ε = 1/√servers.

With ρ = 1 − γε, f the scaling profile and a = −f′/f,

.. math::

    \frac1{B_s} = \frac1\varepsilon \sum_k J_k \varepsilon^k, \qquad
    F_s = \sum_{n \ge 0} q_s(n)\,\rho^{n+1} = \frac1\varepsilon \sum_k S_k \varepsilon^k.

`inverse_erlang_b` returns J, as a list of decimals, and `waiting_sum` returns S, as a `WaitingSum`;
both are to be called within `power_series.precise`.

S comes from Euler–Maclaurin on each piece of the profile. A piece from b to c, on which
the terms are g(nε; ε), contributes

.. math:: \int_b^c g + \sum_{k \ge 1} \frac{(-ε)^k}{k!} \Bigl[
          B_k(u_c)\,g^{(k-1)}(c-) - B_k(u_b)\,g^{(k-1)}(b+)\Bigr]

with the fractional parts u of b/ε and c/ε: the periodic Bernoulli polynomials. The piece that
begins at 0 has u = 0 there, which gives the usual formula.
"""

import functools
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from qcore._numerics.gaussian import gaussian_moments
from qcore._numerics.power_series import (
    add,
    bernoulli_over_index,
    bernoulli_polynomials_over_index,
    derivative,
    digits,
    exponential,
    exponential_of_polynomial,
    integral,
    multiply,
    polynomial,
    shifted,
    truncated_product,
)
from qcore.qed._local_sums import local_integrals


def inverse_erlang_b(gamma, order):
    r"""Return J_0 … J_order from Jagerman's integral.

    .. math::

        \frac1{B_s} = \sqrt s\,(1 - \gamma\varepsilon) \int_0^\infty
        \exp\Bigl(\gamma v - \tfrac12 v^2 + \sum_{j \ge 1} \frac{(-1)^{j+1}}{j+2}
        v^{j+2}\varepsilon^j\Bigr)\,dv
    """
    moments = gaussian_moments(gamma, 3 * order)
    integrals = [
        sum(c * moments[k + 2 * i] for i, c in enumerate(row))
        for k, row in enumerate(_jagerman_coefficients(order, digits()))
    ]
    return multiply(integrals, load_per_server(gamma, order))


@functools.lru_cache(maxsize=64)
def _jagerman_coefficients(order, _digits):
    """Return rows c[k]: the coefficient of ε^k in the exponential is Σ_i c[k][i] v^(k + 2i)."""
    rows = [[Decimal(1)]]
    for k in range(1, order + 1):
        row = [Decimal(0)] * (k + 1)
        for j in range(1, k + 1):
            factor = Decimal((-1) ** (j + 1) * j) / (k * (j + 2))
            for i, c in enumerate(rows[k - j]):
                row[i + 1] += factor * c
        rows.append(row)
    return rows


def load_per_server(gamma, order):
    """Return the series ρ = 1 − γε."""
    return [Decimal(1), -gamma, *[Decimal(0)] * order][: order + 1]


@dataclass(frozen=True)
class WaitingSum:
    r"""The series S as a function of the fractional parts u of break·√servers.

    Each end of a piece has a table T: its terms of order ε^l are Σ_k T[l][k − 1] B_k(u)/k. Under
    local control a break at b also multiplies all later terms by the exponential of such a series,
    since then q_s is a product over all smaller x.
    """

    integrals: list  # a series for each piece
    starts: list  # a table for each piece
    ends: list  # a table for each break
    passages: list  # a table for each break but the support; empty under global control

    def __call__(self, fractions=()):
        """Return S_0 … S_order for one decimal, or array of decimals, for each break."""
        order = len(self.integrals[0]) - 1
        bernoulli = [bernoulli_polynomials_over_index(u, order) for u in (Decimal(0), *fractions)]
        total, factor = [Decimal(0)] * (order + 1), None
        for i, piece in enumerate(self.integrals):
            series = list(map(np.subtract, piece, _at_end(self.starts[i], bernoulli[i])))
            if i < len(self.ends):
                series = list(map(np.add, series, _at_end(self.ends[i], bernoulli[i + 1])))
            total = list(map(np.add, total, multiply(factor, series) if factor else series))
            if i < len(self.passages):
                passage = _exponential(_at_end(self.passages[i], bernoulli[i + 1]))
                factor = multiply(factor, passage) if factor else passage
        return total


def _exponential(series):
    """Return the exponential of a series without constant: of numbers or arrays."""
    result = [Decimal(1)]
    for k in range(1, len(series)):
        result.append(sum(j * series[j] * result[k - j] for j in range(1, k + 1)) / k)
    return result


def _at_end(table, bernoulli):
    return [sum(map(np.multiply, row, bernoulli), Decimal(0)) for row in table]


def _end_table(jets, order):
    """Return T from the Taylor coefficients of g: ``jets`` has a row for each power of ε in g."""
    table = [[Decimal(0)] * order for _ in range(order + 1)]
    for j, jet in enumerate(jets):
        for k, value in enumerate(jet[: max(order - j, 0)], start=1):
            table[j + k][k - 1] += (-1) ** k * value
    return table


def waiting_sum(profile, gamma, order, control, power=0):
    """Return S to the given order as a `WaitingSum`.

    With ``power`` 1 each term is multiplied by x: (1/ε)ΣS_kε^k is the sum of nε·q_s(n − 1)ρⁿ.
    """
    if profile.support == 0:
        return _smooth([Decimal(0)] * (order + 1))
    if order == 0:
        return _smooth([_moments(profile, gamma, power, digits())[power]])
    exponent = _exact_exponent(profile, gamma, order, control)
    if exponent is not None:
        return _by_moments(profile, gamma, exponent, control, power)
    return _by_quadrature(profile, gamma, order, power)


def term_integrals(profile, gamma, order, control):
    """Return the series of ∫g over x > 0, for a profile without breaks."""
    if order == 0:
        return list(_moments(profile, gamma, 0, digits()))
    exponent = _exact_exponent(profile, gamma, order, control)
    if exponent is None:
        return local_integrals(profile, float(gamma), order).integrals[0]
    return _against_moments(_factors(exponent), profile, gamma)


def term_jets(profile, gamma, order, control, degree):
    """Return for each power of ε in g its Taylor coefficients at 0, up to ``degree``."""
    a = polynomial(*profile.taylor_of_a(0.0, degree, 1))
    product = truncated_product(degree)
    exponent = _tilting(gamma, order)
    if control == "local":
        exponent = list(map(add, exponent, _log_ratio(a, order, product)))
    weight = exponential_of_polynomial(-integral(add(a, polynomial(gamma))), degree)
    return [product(weight, factor) for factor in exponential(exponent, product, polynomial(1))]


def term_exponent(profile, gamma, order, control, x, up_to):
    """Return the series e of ln[g(x)/(f(x)e^{−γx})] at an x > 0; its first term is 0.

    ``up_to`` holds the integrals of a, a², … from 0 to x; under global control it is not needed.
    """
    constants = [shifted(p, Decimal(x))[0] for p in _tilting(gamma, order)]
    if control == "global":
        return constants
    at_x, at_zero = (polynomial(*profile.taylor_within(u, order)) for u in (x, 0.0))
    ratio = _log_ratio(at_x, order, truncated_product(order), up_to, at_zero)
    return [c + p[0] for c, p in zip(constants, ratio, strict=True)]


def _exact_exponent(profile, gamma, order, control):
    """Return ln of g/(f e^{−γx}), a polynomial for each power of ε, or None if it is none."""
    if control == "global":
        return _tilting(gamma, order)
    rate = profile.rate_polynomial()
    if rate is None:
        return None
    return list(map(add, _tilting(gamma, order), _log_ratio(rate, order)))


def _factors(exponent):
    """Return g/(f e^{−γx}), a polynomial for each power of ε."""
    factors = exponential(exponent, np.convolve, polynomial(1))
    return [np.trim_zeros(factor, "b") for factor in factors]


def _against_moments(factors, profile, gamma):
    moments = _moments(profile, gamma, max(map(len, factors)) - 1, digits())
    return [sum(map(np.multiply, factor, moments), Decimal(0)) for factor in factors]


def _smooth(series):
    return WaitingSum([series], [[[]] * len(series)], [], [])


@functools.lru_cache(maxsize=256)
def _moments(profile, gamma, n, _digits):
    return profile.moments(gamma, n)


def _by_moments(profile, gamma, exponent, control, power):
    """g = x^power f e^{−γx} exp(exponent), polynomials in x: the integrals are moments of f."""
    raised = polynomial(*[0] * power, 1)
    factors = [
        np.convolve(raised, factor) if len(factor) else factor for factor in _factors(exponent)
    ]
    order = len(factors) - 1
    total = _against_moments(factors, profile, gamma)
    pieces = profile.pieces(control)

    def table(x, side):
        weight = np.convolve(
            profile.taylor_of_f(x, order - 1, side),
            (-gamma * Decimal(x)).exp() * exponential_of_polynomial([0, -gamma], order - 1),
        )[:order]
        jets = [np.convolve(weight, shifted(p, Decimal(x))) if len(p) else p for p in factors]
        return _end_table(jets, order)

    return WaitingSum(
        # What is one piece's and what another's does not matter, as no factor comes between.
        [total, *([Decimal(0)] * (order + 1) for _ in pieces[1:])],
        [table(piece.start, 1) for piece in pieces],
        [table(piece.end, -1) for piece in pieces if piece.end < np.inf],
        [],
    )


def _by_quadrature(profile, gamma, order, power):
    """p_s(k) = 1/(1 + a((k + 1)ε)ε) for any a: the integrals are done numerically."""
    pieces = profile.pieces("local")
    known = local_integrals(profile, float(gamma), order, power)
    pieces = pieces[: len(known.integrals)]
    product = truncated_product(order)
    at_zero = profile.taylor_of_a(0.0, order - 1, 1)

    def rate(x, side):
        return polynomial(*profile.taylor_of_a(x, order - 1, side))

    def table(x, side):
        a, up_to = rate(x, side), known.up_to[x]
        exponent = map(
            add,
            (shifted(p, Decimal(x)) for p in _tilting(gamma, order)),
            _log_ratio(a, order, product, up_to, polynomial(*at_zero)),
        )
        exponent = [p[:order] for p in exponent]
        # At a break the exponent does not vanish at h = 0, but its constants are plain numbers.
        factors = exponential(exponent, product, polynomial(1))
        weight = (-up_to[0] - gamma * Decimal(x)).exp() * exponential_of_polynomial(
            -integral(add(a, polynomial(gamma))), order - 1
        )
        if power:
            weight = np.convolve(weight, polynomial(Decimal(x), 1))
        return _end_table([np.convolve(weight, factor) for factor in factors], order)

    def passage(x):
        before, after = rate(x, -1), rate(x, 1)
        jets, left, right = [], polynomial(1), polynomial(1)
        for m in range(1, order + 1):
            left, right = product(left, before), product(right, after)
            jets.append(Decimal((-1) ** m) / m * (left - right))
        return _end_table(jets, order)

    return WaitingSum(
        known.integrals,
        [table(piece.start, 1) for piece in pieces],
        [table(piece.end, -1) for piece in pieces if piece.end in known.up_to],
        [passage(piece.end) for piece in pieces[:-1]],
    )


def _tilting(gamma, order):
    """Return the series of x(γ − γ_s), so that ρ^n = e^{−γx} exp of it at x = nε."""
    return [polynomial(0)] + [
        polynomial(0, -(gamma ** (k + 1)) / (k + 1)) for k in range(1, order + 1)
    ]


def _log_ratio(a, order, product=np.convolve, up_to=None, at_zero=None):
    r"""Return the series of ln(q_s(n)/f(x)) at x = (n + 1)ε, for the Taylor polynomial a about b.

    Euler–Maclaurin in :math:`\ln q_s(n) = -\sum_{j=1}^{n+1} \ln(1 + εa(jε))`:

    .. math::

        \sum_{m \ge 1} \frac{(-1)^m}{m} \Bigl[ε^{m-1} \int_0^x a^m
        + \tfrac12 ε^m\, a^m\Big|_0^x
        + \sum_{i \ge 1} \frac{B_{2i}}{(2i)!} ε^{m+2i-1} (a^m)^{(2i-1)}\Big|_0^x\Bigr]
        + \int_0^x a.

    ``up_to`` holds the integrals of a, a², … from 0 to b, and ``at_zero`` the Taylor polynomial
    of a about 0; they are not needed for b = 0. What breaks between 0 and b add is left out.
    """
    series = [polynomial(0) for _ in range(order + 1)]
    at_zero = a if at_zero is None else at_zero

    def include(power, coefficient, term):
        if power <= order:
            series[power] = add(series[power], coefficient * term)

    h = h_at_zero = polynomial(1)
    for m in range(1, order + 2):
        h, h_at_zero = product(h, a), product(h_at_zero, at_zero)
        sign = Decimal((-1) ** m) / m
        if m > 1:
            include(m - 1, sign, integral(h))
            if up_to is not None:
                include(m - 1, sign * up_to[m - 1], polynomial(1))
        for k in (1, *range(2, order - m + 2, 2)):
            term = derivative(h, k - 1)
            start = derivative(h_at_zero, k - 1)[0]
            weight = (-1) ** k * bernoulli_over_index(k) / math.factorial(k - 1)
            include(m - 1 + k, sign * weight, add(term, polynomial(-start)))
    return series
