"""Gaussian functions: Mills' ratio and half-Gaussian moments, in doubles and in decimals."""

import functools
import math
from decimal import Decimal

import numpy as np
from scipy.special import erfcx, log_ndtr

from qcore._numerics.power_series import digits, precise

# Below this |argument| the power series of the Mills ratio, above it the continued fraction.
_CONTINUED_FRACTION_FROM = 3


def log_mills(z):
    """Return the logarithm of Mills' ratio (1 − Φ(z))/φ(z)."""
    if z > -20:
        return math.log(math.sqrt(math.pi / 2) * float(erfcx(z / math.sqrt(2))))
    return z * z / 2 + math.log(2 * math.pi) / 2 + float(log_ndtr(-z))


# Up to this z the forward recurrence of the half-Gaussian moments loses at most e^{2z√n}.
_FORWARD_UP_TO = 0.25


def half_gaussian_moments(z, n):
    """Return I_0, …, I_n, where I_k is the integral over x > 0 of xᵏ exp(−zx − x²/2).

    I_{k+1} = −z I_k + k I_{k−1}, I_1 = 1 − z I_0, I_0 = Mills' ratio. For z > 0 the moments are
    the minimal solution, and the ratios come from their continued fraction, downwards.
    """
    moments = np.empty(n + 1)
    moments[0] = math.sqrt(math.pi / 2) * erfcx(z / math.sqrt(2))
    if z <= _FORWARD_UP_TO:
        for k in range(n):
            moments[k + 1] = -z * moments[k] + (k * moments[k - 1] if k else 1.0)
        return moments
    # The start's influence decays like exp(−2z(√start − √n)).
    start = int((20.0 / z + math.sqrt(n + 1.0)) ** 2) + 2
    ratio = 0.0  # I_{k+1}/I_k
    ratios = np.empty(n + 1)
    for k in range(start, 0, -1):
        ratio = k / (z + ratio)  # I_k/I_{k−1}
        if k <= n:
            ratios[k] = ratio
    return np.cumprod(np.concatenate([moments[:1], ratios[1:]]))


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
