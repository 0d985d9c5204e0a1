"""Deferral systems by brute force: dense chains of a few dozen states, straight from the rules.

A state is the number deferred, d, and the number busy, k. Nothing is derived here; the notebooks
compare what they derive with these numbers.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm


@dataclass(frozen=True)
class Stationary:
    """Long-run averages of a system that defers only when all servers are busy.

    Attributes
    ----------
    occupancy : ndarray, shape (D + 1, K + 1)
        Fraction of time with d deferred (row) and k busy (column).
    returns : ndarray, shape (D + 1, K + 1)
        Returns per unit of time that find k busy when d, the one who returns included, were
        deferred.
    blocking_probability : float
        Fraction of customers lost, on arrival or on return.
    """

    occupancy: np.ndarray
    returns: np.ndarray
    blocking_probability: float


def exponential_spacing(
    servers, max_deferrals, arrival_rate, service_rate, rearrival_rate
):
    """Return the averages when somebody deferred returns at a constant total rate."""
    shape = (max_deferrals + 1, servers + 1)
    rates = np.zeros(shape + shape)
    for d, k in np.ndindex(shape):
        _arrival_and_service(rates, d, k, arrival_rate, service_rate)
        if d > 0:
            rates[d, k, d - 1, min(k + 1, servers)] += rearrival_rate
    size = shape[0] * shape[1]
    occupancy = _stationary(rates.reshape(size, size)).reshape(shape)
    returns = rearrival_rate * occupancy
    returns[0] = 0.0
    return _averages(occupancy, returns, arrival_rate)


def deterministic_spacing(
    servers, max_deferrals, arrival_rate, service_rate, spacing, first_spacing=None
):
    """Return the averages when returns are a fixed time apart.

    The first return after somebody is deferred while nobody else is can have a time of its own,
    ``first_spacing``.
    """
    shape = (max_deferrals + 1, servers + 1)
    away, size = (max_deferrals, servers + 1), max_deferrals * (servers + 1)
    rates = np.zeros(shape + shape)
    for d, k in np.ndindex(shape):
        _arrival_and_service(rates, d, k, arrival_rate, service_rate)
    # The generator while somebody is away, and before the next customer is deferred.
    during = _generator(rates[1:, :, 1:, :].reshape(size, size))
    before = _generator(rates[0, :, 0, :])
    before[-1, -1] -= arrival_rate

    def stage(start, length):
        block = np.zeros((2 * size, 2 * size))
        block[:size, :size], block[:size, size:] = during, np.eye(size)
        flow = expm(length * block)
        return start @ flow[:size, :size], start @ flow[:size, size:]

    def after_return(ends):
        moved = np.zeros(ends.shape[:-1] + shape)
        ends = ends.reshape(ends.shape[:-1] + away)
        moved[..., :-1, 1:] = ends[..., :-1]
        moved[..., :-1, -1] += ends[..., -1]
        return moved

    begin = np.zeros(away)
    begin[0, -1] = 1.0
    end, time = stage(
        begin.reshape(-1), spacing if first_spacing is None else first_spacing
    )
    later = after_return(end)[1:].reshape(-1)
    ends, times = stage(np.eye(size), spacing)
    visits = np.linalg.solve(
        (np.eye(size) - after_return(ends)[:, 1:].reshape(size, size)).T, later
    )
    end, time = end + visits @ ends, time + visits @ times
    idle = np.linalg.solve(-before.T, after_return(end)[0])
    occupancy = np.vstack([idle, time.reshape(away)])
    returns = np.vstack([np.zeros(servers + 1), end.reshape(away)])
    cycle = occupancy.sum()
    return _averages(occupancy / cycle, returns / cycle, arrival_rate)


def _arrival_and_service(rates, d, k, arrival_rate, service_rate):
    max_deferrals, servers = rates.shape[0] - 1, rates.shape[1] - 1
    if k < servers:
        rates[d, k, d, k + 1] += arrival_rate
    elif d < max_deferrals:
        rates[d, k, d + 1, k] += arrival_rate
    if k > 0:
        rates[d, k, d, k - 1] += k * service_rate


def _generator(rates):
    return rates - np.diag(rates.sum(axis=1))


def _stationary(rates):
    """Return the stationary law by state reduction, which subtracts nothing."""
    rates = rates - np.diag(np.diag(rates))
    size = len(rates)
    for n in range(size - 1, 0, -1):
        rates[:n, n] /= rates[n, :n].sum()
        rates[:n, :n] += np.outer(rates[:n, n], rates[n, :n])
    law = np.zeros(size)
    law[0] = 1.0
    for n in range(1, size):
        law[n] = law[:n] @ rates[:n, n]
    return law / law.sum()


def _averages(occupancy, returns, arrival_rate):
    lost = occupancy[-1, -1] + returns[:, -1].sum() / arrival_rate
    return Stationary(occupancy, returns, float(lost))
