"""Tails of mixtures of Erlang laws, and the times at which a tail reaches a level.

A customer behind n − 1 others waits for n services, each after an exponential time of the same
rate; she still waits after the time in which a Poisson number of mean m ends, if that number is
below n. So with weights w_1, w_2, … the tail is Σ w_n P(N < n) = Σ_j P(N = j)(w_{j+1} + …).
"""

import functools
import math
from decimal import Decimal, localcontext

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from qcore._numerics.compiled import njit
from qcore._numerics.sums import compensated_cumsum

DIGITS = 50
NEGLIGIBLE = 44.0  # exp(−44) = 8e-20
UNDERFLOW = 746.0  # exp(−746) = 0
_EXACT_FACTORIALS = 40


def exponential(log):
    """Return exp of a Decimal, of its two leading doubles: no digit is lost to the size of it."""
    high = float(log)
    return math.exp(high) * (1.0 + float(log - Decimal(high))) if high > -UNDERFLOW else 0.0


class ErlangMixture:
    """Weights w_n, n = 1, 2, …, given by their logarithms, of sums of n exponential times."""

    def __init__(self, log_weights):
        self.log_weights = np.asarray(log_weights, dtype=float)
        self._beyond = _log_sums_from(self.log_weights)
        self._steps = np.arange(len(self.log_weights), dtype=float)
        self._log_factorials = gammaln(self._steps + 1)

    def log_tail(self, mean):
        """Return ln Σ w_n P(N < n) for N Poisson with a Decimal mean; −∞ without weights."""
        if not len(self.log_weights):
            return Decimal("-Infinity")
        if mean == 0:
            return Decimal(float(self._beyond[0]))
        rough = self._steps * math.log(mean) - self._log_factorials + self._beyond
        peak = int(np.argmax(rough))
        inside = np.flatnonzero(rough > rough[peak] - NEGLIGIBLE)
        first, last = int(inside[0]), int(inside[-1])
        poisson = _log_around(mean, first, peak, last)
        terms = np.exp(poisson + (self._beyond[first : last + 1] - self._beyond[peak]))
        with localcontext() as context:
            context.prec = DIGITS
            at_peak = _log_poisson(peak, mean) + Decimal(float(self._beyond[peak]))
            return at_peak + Decimal(math.log(math.fsum(terms)))


def _log_around(mean, first, peak, last):
    """Return ln P(N = j) − ln P(N = peak) for j = first, …, last."""
    rounded = float(mean)
    lost = float((mean - Decimal(rounded)) / mean)
    down = np.arange(peak, first, -1.0)
    up = np.arange(peak + 1.0, last + 1.0)
    falling = compensated_cumsum(np.log(down / rounded))
    rising = compensated_cumsum(-np.log(up / rounded))
    logs = np.concatenate([falling[::-1], [0.0], rising])
    return logs + lost * np.arange(first - peak, last - peak + 1.0)


@njit
def _log_sums_from(logs):
    """Return ln(w_n + w_{n+1} + …) for each n, from sums relative to the largest so far."""
    sums = np.empty(len(logs))
    largest, relative = -np.inf, 0.0
    for n in range(len(logs) - 1, -1, -1):
        if logs[n] > largest:
            relative *= np.exp(largest - logs[n])
            largest = logs[n]
        relative += np.exp(logs[n] - largest)
        sums[n] = largest + np.log(relative)
    return sums


def _log_poisson(count, mean):
    """Return ln P(N = count) of a Poisson number, in the decimal context."""
    if count == 0:
        return -mean
    log_mean = mean.ln()
    return count * log_mean - mean - _log_factorial(count)


@functools.lru_cache(maxsize=1024)
def _log_factorial(count):
    with localcontext() as context:
        context.prec = DIGITS
        if count <= _EXACT_FACTORIALS:
            return Decimal(math.factorial(count)).ln()
        x = Decimal(count)
        square = 1 / (x * x)
        # Stirling's series (DLMF 5.11.1): the first term left out is below 1e-24.
        numbers = [(1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156)]
        series = sum(
            (Decimal(top) / bottom * square**k for k, (top, bottom) in enumerate(numbers)),
            start=Decimal(0),
        )
        two_pi = 2 * Decimal("3.14159265358979323846264338327950288419716939937511")
        return x * x.ln() - x + (two_pi * x).ln() / 2 + series / x


def quantile(log_tail, level, start):
    """Return the t > 0 at which a log tail, decreasing from above ``level``, comes down to it."""
    far = start
    while log_tail(far) > level:
        far *= 2.0
    near = far / 2.0 if far > start else 0.0
    return brentq(lambda t: log_tail(t) - level, near, far, xtol=1e-300, rtol=4e-16 * 2.3)
