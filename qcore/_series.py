"""Truncated power series, and the Gaussian moments that they are made of, in decimal arithmetic.

Coefficients of asymptotic series are small differences of large terms: at order 20 doubles
would have none of their digits left. A series of a few dozen terms costs little in the decimal
arithmetic of the standard library, so here it is carried with as many digits as the context
says, and rounded to doubles once, at the end.

A series is a list of coefficients of the powers 0, 1, 2, …; a polynomial is an object array.
"""

import decimal
import functools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

# Below this |argument| the power series of the Mills ratio, above it the continued fraction.
_CONTINUED_FRACTION_FROM = 3


def precise(digits):
    """Return the context of that many digits in which everything here is to be evaluated."""
    return decimal.localcontext(
        decimal.Context(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
    )


def digits():
    """Return the number of digits of the present context."""
    return decimal.getcontext().prec


def multiply(left, right):
    """Return the product of two series, as long as the shorter one."""
    return [
        sum((left[j] * right[k - j] for j in range(k + 1)), Decimal(0))
        for k in range(min(len(left), len(right)))
    ]


def divide(numerator, denominator):
    """Return the quotient of two series, as long as the shorter one."""
    quotient = []
    for k in range(min(len(numerator), len(denominator))):
        known = sum(quotient[j] * denominator[k - j] for j in range(k))
        quotient.append((numerator[k] - known) / denominator[0])
    return quotient


def exponential(exponent, product, one):
    """Return E = exp(Σ exponent[k] ε^k), exponent[0] = 0, from E′ = exponent′ · E.

    The coefficients may be polynomials or arrays of function values; ``product`` multiplies two
    of them and ``one`` is their unit.
    """
    result = [one]
    for k in range(1, len(exponent)):
        terms = [product(j * exponent[j], result[k - j]) for j in range(1, k + 1)]
        result.append(add(*terms) / k)
    return result


def add(*polynomials):
    """Return the sum of polynomials of any degrees."""
    total = np.zeros_like(np.asarray(polynomials[0]), shape=max(map(len, polynomials)))
    for polynomial in polynomials:
        total[: len(polynomial)] += polynomial
    return total


def polynomial(*coefficients):
    """Return the polynomial with these coefficients, lowest power first."""
    return np.array([Decimal(c) for c in coefficients], dtype=object)


def truncated_product(degree):
    """Return the product of polynomials that drops powers above ``degree``."""

    def product(left, right):
        return np.convolve(left, right)[: degree + 1]

    return product


def derivative(coefficients, times):
    """Return the polynomial differentiated the given number of times."""
    factors = [Decimal(math.perm(k, times)) for k in range(times, len(coefficients))]
    return np.array(factors, dtype=object) * coefficients[times:] if factors else polynomial(0)


def integral(coefficients):
    """Return the polynomial integrated from 0."""
    return np.array([Decimal(0), *(c / (k + 1) for k, c in enumerate(coefficients))], dtype=object)


def interpolate(nodes, values):
    """Return the coefficients of the polynomial through the given points, by Newton's method."""
    differences = list(values)
    for level in range(1, len(nodes)):
        for i in range(len(nodes) - 1, level - 1, -1):
            differences[i] = (differences[i] - differences[i - 1]) / (nodes[i] - nodes[i - level])
    result = polynomial(differences[-1])
    for node, difference in zip(nodes[-2::-1], differences[-2::-1], strict=True):
        result = add(np.convolve(result, polynomial(-node, 1)), polynomial(difference))
    return result


@functools.cache
def bernoulli(n):
    """Return the Bernoulli number B_n (B_1 = −1/2) as a fraction."""
    if n == 0:
        return Fraction(1)
    return -sum(math.comb(n + 1, k) * bernoulli(k) for k in range(n)) / (n + 1)


def bernoulli_over_index(n):
    """Return B_n/n as a decimal number."""
    fraction = bernoulli(n) / n
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


def exponential_of_polynomial(exponent, order):
    """Return the Taylor coefficients 0 … order of exp of a polynomial that vanishes at 0."""
    padded = [polynomial(c) for c in [*exponent, *[0] * order][: order + 1]]
    return np.concatenate(exponential(padded, np.convolve, polynomial(1)))


def gaussian_moments(gamma, n):
    r"""Return M_0 … M_n, :math:`M_k = \int_0^\infty v^k e^{\gamma v - v^2/2}\,dv`.

    They satisfy :math:`M_{k+1} = \gamma M_k + k M_{k-1}` with :math:`M_1 = \gamma M_0 + 1`. For
    negative γ they are the minimal solution: the ratios come from the recurrence run backwards.
    """
    if gamma <= -_CONTINUED_FRACTION_FROM:
        return _moments_backwards(-gamma, n)
    if gamma >= _CONTINUED_FRACTION_FROM:
        (mills_ratio,) = _moments_backwards(gamma, 0)
        first = (2 * _pi()).sqrt() * (gamma * gamma / 2).exp() - mills_ratio
    else:
        first = (_pi() / 2).sqrt() * (gamma * gamma / 2).exp() + _odd_part(gamma)
    moments = [first, gamma * first + 1]
    for k in range(1, n):
        moments.append(gamma * moments[k] + k * moments[k - 1])
    return moments[: n + 1]


def _moments_backwards(g, n):
    # From one index to the next the growing solution gains exp(2 asinh(g / (2 sqrt(k)))) on the
    # minimal one: start where an error made there has died away at index n.
    start, gain = n, 0.0
    while gain < digits() * math.log(10):
        start += 1
        gain += 2 * math.asinh(float(g) / (2 * math.sqrt(start)))
    ratio = Decimal(0)
    ratios = []
    for k in range(start, 0, -1):
        ratio = k / (g + ratio)
        if k <= n:
            ratios.append(ratio)
    moments = [1 / (g + ratio)]
    for ratio in reversed(ratios):
        moments.append(moments[-1] * ratio)
    return moments


def _odd_part(gamma):
    """Return Σ γ^(2k+1)/(2k+1)!!, the odd part of the moment M_0."""
    term = total = gamma
    k = 1
    while abs(term) > abs(total) * Decimal(10) ** -digits():
        k += 2
        term = term * gamma * gamma / k
        total += term
    return total


def _pi():
    return _pi_to(digits())


@functools.cache
def _pi_to(n):
    """Return π to n digits by the Gauss–Legendre iteration."""
    with precise(n + 10):
        a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25"), 1
        for _ in range(n.bit_length()):
            a, b, previous = (a + b) / 2, (a * b).sqrt(), a
            t -= p * (previous - a) ** 2
            p *= 2
        return (a + b) ** 2 / (4 * t)
