r"""How long the queue takes to forget its state, so that runs can be long enough.

The virtual wait v of a queue of N servers with load :math:`\rho` per server is close to a
diffusion on :math:`[0, \infty)` that is reflected at 0, with drift and variance per unit of time

.. math:: \rho \bar G(v) - 1, \qquad
          \sigma^2 = \frac{\min(\rho, 1) \bar s}{N} \left( c_a^2 + c_s^2 \right),

:math:`\bar G` the survival function of patience, :math:`\bar s` the mean service and rest,
:math:`c^2` squared coefficients of variation. On a grid it is a birth-death chain, whose spectral
gap and passage times are numbers. The services and rests under way are forgotten in a mean residual
time, :math:`\bar s (1 + c_s^2) / 2`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

STATES = 400
NEGLIGIBLE = 40.0  # the chain ends where its density has fallen by this power of e
LEAST_VARIATION = 0.02  # stands in for none at all, which makes no diffusion
GREATEST_VARIATION = 100.0  # stands in for an infinite one
DOUBLINGS = 1100  # from the least float to the greatest
ZOOMS = 6
SHARPEST = 1e-6  # of a wait: a narrower grid would be made of rounding errors


@dataclass(frozen=True)
class Memory:
    """How slowly a queue forgets.

    Attributes
    ----------
    relaxation : float
        Time in which correlations fall by a factor e.
    approach : float
        Time from empty until the wait passes its stationary median.
    wait : float
        That median.
    """

    relaxation: float
    approach: float
    wait: float

    @property
    def warmup(self):
        """The time after which nothing is left of the start but what a run forgets anyway."""
        return self.approach + 3 * self.relaxation


def memory_of(queue):
    """Return the `Memory` of a queue; its ``patience`` is None for no limit."""
    service, patience, rest = queue.service, queue.patience, queue.rest
    cycle = service.mean + rest
    load = queue.admission * cycle / (queue.servers * queue.interarrival.mean)
    arrivals = queue.admission * _bounded(queue.interarrival.squared_variation)
    arrivals += 1 - queue.admission
    cycles = _bounded(service.squared_variation) * (service.mean / cycle) ** 2
    residual = cycle * (1 + cycles) / 2
    # Work that is turned away by impatience does not vary the wait.
    variance = min(load, 1.0) * cycle / queue.servers * max(arrivals + cycles, LEAST_VARIATION)

    def drift(wait):
        return load * (1.0 if patience is None else patience.survival(wait)) - 1.0

    relaxation, approach, wait = _forgetting(drift, variance, scale=cycle / queue.servers)
    return Memory(residual + relaxation, residual + approach, wait)


def _bounded(variation):
    return min(variation, GREATEST_VARIATION)


def _forgetting(drift, variance, scale):
    """Return relaxation time, mean time from 0 to the median, and median of the diffusion."""
    low, high = 0.0, scale
    for _ in range(DOUBLINGS):
        approached = _chain(drift, variance, low, high)
        if approached.potential[-1] < approached.potential.max() - NEGLIGIBLE:
            break
        high *= 2
    kept = approached
    for _ in range(ZOOMS):  # a wait that hardly varies needs a finer grid
        nodes = np.flatnonzero(kept.potential >= kept.potential.max() - NEGLIGIBLE)
        low = kept.wait[max(nodes[0] - 1, 0)]
        high = kept.wait[min(nodes[-1] + 1, STATES - 1)]
        if high - low < SHARPEST * high:
            break
        kept = _chain(drift, variance, low, high)
    median = approached.median()
    return kept.relaxation(), approached.passage_to(median), approached.wait[median]


@dataclass(frozen=True)
class _Chain:
    """A birth-death chain with the logarithm of its stationary weights."""

    wait: np.ndarray
    potential: np.ndarray
    up: np.ndarray
    down: np.ndarray

    def relaxation(self):
        leaving = np.append(self.up, 0.0) + np.append(0.0, self.down)
        second = (STATES - 2, STATES - 2)
        coupling = np.sqrt(self.up) * np.sqrt(self.down)
        gap = -eigvalsh_tridiagonal(-leaving, coupling, select="i", select_range=second)[0]
        return 1 / gap

    def median(self):
        weight = np.exp(self.potential - self.potential.max())
        return int(np.searchsorted(np.cumsum(weight), weight.sum() / 2))

    def passage_to(self, target):
        total = passage = 0.0
        for state in range(target):
            # Mean time from a state to the next one up.
            passage = (1 + (self.down[state - 1] * passage if state else 0.0)) / self.up[state]
            total += passage
        return total


def _chain(drift, variance, low, high):
    """Return the chain on a grid: the rates of Scharfetter and Gummel between two nodes.

    They are right for diffusion and for pure drift.
    """
    wait = np.linspace(low, high, STATES)
    step = wait[1] - wait[0]
    climb = 2 * drift(wait[:-1] + step / 2) * np.ones(STATES - 1) * step / variance
    rate = variance / 2 / step**2
    return _Chain(
        wait=wait,
        potential=np.concatenate([[0.0], np.cumsum(climb)]),
        up=rate * _bernoulli(-climb),
        down=rate * _bernoulli(climb),
    )


def _bernoulli(x):
    """Return x / (e^x − 1)."""
    moderate = np.where(np.abs(x) < 1e-8, 1e-8, np.clip(x, -700.0, 700.0))
    return np.where(x < -700.0, -x, moderate / np.expm1(moderate))
