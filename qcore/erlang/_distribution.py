"""The law of the number of customers in a system with so many servers."""

import math
from dataclasses import dataclass

import numpy as np

from qcore._numerics.comparable import Comparable
from qcore._numerics.sums import compensated_cumsum
from qcore._numerics.waiting import NEGLIGIBLE

_FIRST = 256
_MOST_STATES = 20_000_000


@dataclass(frozen=True, eq=False)
class QueueDistribution(Comparable):
    """The law of the number of customers in the system.

    Equal laws hash alike; a law can be pickled.

    Attributes
    ----------
    number_in_system : ndarray of int
        Consecutive states: all whose probability is at least 1e-19 of the largest.
    probability : ndarray
        Their stationary probabilities, which sum to 1.
    servers : int
        Number of servers.
    """

    number_in_system: np.ndarray
    probability: np.ndarray
    servers: int

    @property
    def mean(self):
        """The mean number in the system."""
        first = self.number_in_system[0]
        return float(first + (self.number_in_system - first) @ self.probability)

    @property
    def mean_waiting(self):
        """The mean number of waiting customers."""
        return float(np.maximum(self.number_in_system - self.servers, 0) @ self.probability)

    @property
    def delay_probability(self):
        """The probability that all servers are busy."""
        return float(self.probability[self.number_in_system >= self.servers].sum())


def number_in_system(servers, load, rate):
    """Return the law of M/M/s+M, stable, for an integer number of servers and a load > 0.

    From the likeliest state on, logarithms of ratios of neighbouring probabilities are added with
    compensation, upwards and downwards, until a probability is negligible.
    """
    mode = math.floor(load)
    if load > servers:
        mode = servers + math.floor((load - servers) / rate)

    def log_ratios(states):
        """ln(π_k/π_{k−1})."""
        leaving = np.minimum(states, servers) + rate * np.maximum(states - servers, 0.0)
        return -np.log(leaving / load)

    up = _until_negligible(lambda n: log_ratios(mode + n), math.inf)
    down = _until_negligible(lambda n: -log_ratios(mode + 1 - n), mode)
    weights = np.exp(np.concatenate([down[::-1], [0.0], up]))
    states = np.arange(mode - len(down), mode + len(up) + 1)
    return QueueDistribution(states, weights / math.fsum(weights), servers)


def _until_negligible(steps, most):
    """Return the running sums of steps(1), steps(2), …, at most so many, that are not too small."""
    pieces, length, last = [], _FIRST, 0.0
    start = 0
    while last > -NEGLIGIBLE and start < most:
        if start > _MOST_STATES:
            raise ValueError(
                f"servers: the distribution has more than {_MOST_STATES:.0e} states at this load"
            )
        pieces.append(steps(np.arange(start + 1.0, min(start + length, most) + 1)))
        start, length = start + length, 2 * length
        last += float(pieces[-1].sum())
    sums = compensated_cumsum(np.concatenate(pieces)) if pieces else np.zeros(0)
    return sums[sums > -NEGLIGIBLE]
