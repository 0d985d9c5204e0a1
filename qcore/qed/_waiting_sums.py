r"""The two ingredients of every expansion in the QED regime, as power series in ε = 1/√servers.

With ρ = 1 − γε, f the scaling profile and a = −f′/f,

.. math::

    \frac1{B_s} = \frac1\varepsilon \sum_k J_k \varepsilon^k, \qquad
    F_s = \sum_{n \ge 0} q_s(n)\,\rho^{n+1} = \frac1\varepsilon \sum_k S_k \varepsilon^k.

`inverse_erlang_b` returns J, `waiting_sum` returns S, as lists of decimals; both are to be
called within `power_series.precise`.
"""

import functools
import math
from decimal import Decimal

import numpy as np

from qcore import admission
from qcore._numerics.gaussian import gaussian_moments
from qcore._numerics.power_series import (
    add,
    bernoulli_over_index,
    derivative,
    digits,
    divide,
    exponential,
    exponential_of_polynomial,
    integral,
    multiply,
    polynomial,
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


def waiting_sum(profile, gamma, order, control, fraction):
    """Return S_0 … S_order; ``fraction`` is that of size·√servers if the buffer is finite."""
    match profile:
        case admission.NoWaiting():
            return [Decimal(0)] * (order + 1)
        case admission.OpenAdmission():
            return _constant_rate(Decimal(0), gamma, order, control)
        case admission.ModifiedDrift():
            return _constant_rate(-Decimal(profile.p).ln(), gamma, order, control)
        case admission.FiniteBuffer():
            return _finite_buffer(Decimal(profile.size), gamma, order, fraction)
        case admission.Abandonment():
            return _abandonment(Decimal(profile.abandonment_rate), gamma, order, control)
    if profile.support < math.inf:
        raise ValueError(
            f"profile = {profile!r}: f vanishes beyond {profile.support!r}, but the expansion is "
            "for profiles that are smooth for all x > 0, and for FiniteBuffer"
        )
    if control == "global":
        return _smooth_global(profile, gamma, order)
    return _smooth_local(profile, gamma, order)


def _constant_rate(a, gamma, order, control):
    """a(x) = a: the sum is geometric, with the ratio r = ρe^{−aε}, or r = ρ/(1 + aε)."""
    if control == "local":
        return [coefficient / (gamma + a) for coefficient in load_per_server(gamma, order)]
    decay = list(exponential_of_polynomial([0, -a], order + 1))
    ratio = multiply(load_per_server(gamma, order + 1), decay)
    return divide(ratio, [-r for r in ratio[1:]])


def _finite_buffer(size, gamma, order, fraction):
    r"""f = 1 up to ``size``: a geometric sum of N = size/ε − ``fraction`` terms.

    S = ρ(1 − ρ^N)/γ, and ρ^N = exp(−γ(size + w)), where

    .. math:: size + w = (size - fraction\,ε) \sum_{j \ge 0} \frac{(γε)^j}{j + 1}.
    """
    logarithm = [power / (j + 1) for j, power in enumerate(_powers(gamma, order))]
    w = multiply([size, -fraction, *[Decimal(0)] * order], logarithm)
    # (1 − e^{−γw})/γ = y solves y′ = w′(1 − γy): no division by γ.
    y = [Decimal(0)]
    for k in range(1, order + 1):
        y.append(w[k] - gamma * sum(j * w[j] * y[k - j] for j in range(1, k + 1)) / k)
    decay = (-gamma * size).exp()
    terms = [decay * coefficient for coefficient in y]
    terms[0] = _mean_decay(gamma * size) * size
    return multiply(terms, load_per_server(gamma, order))


def _powers(base, n):
    """Return base^0 … base^n; decimal arithmetic has no 0^0."""
    return [Decimal(1), *(base**k for k in range(1, n + 1))]


def _mean_decay(y):
    """Return (1 − e^{−y})/y."""
    if abs(y) < Decimal("1e-30"):
        return 1 - y / 2 + y * y / 6
    return (1 - (-y).exp()) / y


def _abandonment(rate, gamma, order, control):
    """a(x) = rate·x: every integral is a moment of a Gaussian."""
    root = rate.sqrt()
    moments = gaussian_moments(-gamma / root, 3 * order)
    scaled = [moment / root ** (k + 1) for k, moment in enumerate(moments)]
    exponent = _tilting(gamma, order)
    if control == "local":
        exponent = map(add, exponent, _log_ratio(polynomial(0, rate), order))
    weight = exponential_of_polynomial([0, -gamma, -rate / 2], order)
    factors = exponential(list(exponent), np.convolve, polynomial(1))
    integrals = [np.dot(factor, scaled[: len(factor)]) for factor in factors]
    return _euler_maclaurin(integrals, weight, factors)


def _smooth_global(profile, gamma, order):
    """q_s(n) = f((n + 1)ε): the factors are polynomials, integrated by derivatives of L."""
    moments, f = _global_data(profile, float(gamma), order)
    decay = list(exponential_of_polynomial([0, -gamma], order))
    factors = exponential(_tilting(gamma, order), np.convolve, polynomial(1))
    integrals = [np.dot(factor, moments[: len(factor)]) for factor in factors]
    return _euler_maclaurin(integrals, multiply(f, decay), factors)


@functools.lru_cache(maxsize=64)
def _global_data(profile, gamma, order):
    """Return the moments (−1)^k L^(k)(γ) and the Taylor coefficients of f at 0."""
    # At γ = 0, γ_s = 0 too, and L(0) alone is needed (and may alone be finite).
    moments = [
        Decimal((-1) ** k * profile.laplace(gamma, derivative=k)) if k == 0 or gamma else Decimal(0)
        for k in range(order + 1)
    ]
    f = [
        Decimal(value) / math.factorial(k)
        for k, value in enumerate(profile.derivatives_at_zero(order).tolist())
    ]
    return moments, f


def _smooth_local(profile, gamma, order):
    """p_s(k) = 1/(1 + a((k + 1)ε)ε) for a smooth a: the integrals are done numerically."""
    a = profile.a_derivatives_at_zero(order)
    taylor = polynomial(*(Decimal(c) / math.factorial(k) for k, c in enumerate(a.tolist())))
    integrals = local_integrals(profile, float(gamma), order)
    product = truncated_product(order)
    exponent = map(add, _tilting(gamma, order), _log_ratio(taylor, order, product))
    factors = exponential([p[: order + 1] for p in exponent], product, polynomial(1))
    weight = exponential_of_polynomial(-integral(add(taylor, polynomial(gamma))), order)
    return _euler_maclaurin(integrals, weight, factors)


def _tilting(gamma, order):
    """Return the series of x(γ − γ_s), so that ρ^n = e^{−γx} exp of it at x = nε."""
    return [polynomial(0)] + [
        polynomial(0, -(gamma ** (k + 1)) / (k + 1)) for k in range(1, order + 1)
    ]


def _log_ratio(a, order, product=np.convolve):
    r"""Return the series of ln(q_s(n)/f(x)) at x = (n + 1)ε, for a polynomial a.

    Euler–Maclaurin in :math:`\ln q_s(n) = -\sum_{j=1}^{n+1} \ln(1 + εa(jε))`:

    .. math::

        \sum_{m \ge 1} \frac{(-1)^m}{m} \Bigl[ε^{m-1} \int_0^x a^m
        + \tfrac12 ε^m\, a^m\Big|_0^x
        + \sum_{i \ge 1} \frac{B_{2i}}{(2i)!} ε^{m+2i-1} (a^m)^{(2i-1)}\Big|_0^x\Bigr]
        + \int_0^x a.
    """
    series = [polynomial(0) for _ in range(order + 1)]

    def include(power, coefficient, term):
        if power <= order:
            series[power] = add(series[power], coefficient * term)

    h = polynomial(1)
    for m in range(1, order + 2):
        h = product(h, a)
        sign = Decimal((-1) ** m) / m
        if m > 1:
            include(m - 1, sign, integral(h))
        include(m, sign / 2, _without_constant(h))
        for i in range(1, (order - m + 1) // 2 + 1):
            term = _without_constant(derivative(h, 2 * i - 1))
            weight = bernoulli_over_index(2 * i) / math.factorial(2 * i - 1)
            include(m + 2 * i - 1, sign * weight, term)
    return series


def _without_constant(coefficients):
    result = coefficients.copy()
    result[0] = Decimal(0)
    return result


def _euler_maclaurin(integrals, weight, factors):
    r"""Return S from S = ε Σ_{n ≥ 1} g(nε), where g = weight · Σ_j factors[j] ε^j.

    .. math:: S = \int_0^\infty g - \tfrac12 ε g(0) - \sum_{i \ge 1} \frac{B_{2i}}{(2i)!}
              ε^{2i} g^{(2i-1)}(0)
    """
    order = len(integrals) - 1
    result = list(integrals)
    if order >= 1:
        result[1] -= Decimal(1) / 2
    for j, factor in enumerate(factors):
        g = np.convolve(weight, factor)
        for i in range(1, (order - j) // 2 + 1):
            if 2 * i - 1 < len(g):
                result[2 * i + j] -= bernoulli_over_index(2 * i) * g[2 * i - 1]
    return result
