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


def shifted(coefficients, x):
    """Return the Taylor polynomial about x of a polynomial given about 0 (by Horner's scheme)."""
    result = np.array(coefficients, dtype=object)
    if x:
        for start in range(len(result) - 1):
            for k in range(len(result) - 2, start - 1, -1):
                result[k] += x * result[k + 1]
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


def bernoulli_polynomials_over_index(u, n):
    r"""Return B_1(u)/1, …, B_n(u)/n, B_k(u) = Σ_j C(k, j) B_{k−j} u^j, for a decimal or an array.

    They come from :math:`B_k' = kB_{k-1}`: one more integration each.
    """
    coefficients, result = polynomial(1), []
    for k in range(1, n + 1):
        coefficients = k * integral(coefficients)
        coefficients[0] = k * bernoulli_over_index(k)
        value = coefficients[-1]
        for c in coefficients[-2::-1]:
            value = value * u + c
        result.append(value / k)
    return result


def exponential_of_polynomial(exponent, order):
    """Return the Taylor coefficients 0 … order of exp of a polynomial that vanishes at 0."""
    padded = [polynomial(c) for c in [*exponent, *[0] * order][: order + 1]]
    return np.concatenate(exponential(padded, np.convolve, polynomial(1)))
