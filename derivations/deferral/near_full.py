"""Many deferrals in large systems by brute force: exponential spacing, almost all servers busy.

While somebody is deferred, the servers idle are roughly geometric with mean K/alpha; no more of
their states are kept than hold all but e^-30 of the time. So a million servers with ten thousand
customers deferred are a matter of 3e7 states, where the whole chain has 1e10.
"""

import math

import numpy as np
from numba import njit

_LARGE = 1e200


@njit(cache=True)
def loss(servers, deferrals, arrival_rate, rearrival_rate):
    """Return the fraction lost with service rate one.

    The balance of (d deferred, w > 0 idle) is, with y the level d + 1,

        (lambda + K - w + alpha) x[w] = lambda x[w+1] + (K - w + 1) x[w-1] + alpha y[w+1],

    solved from many idle to none; x[0] follows from the cut lambda x[0] = alpha sum(y).
    """
    fall = math.log(max((arrival_rate + rearrival_rate) / servers, 1.0 + 1e-9))
    kept = int(min(float(servers), 20.0 + 30.0 / fall))
    ratio, inflow_ratio, return_ratio = np.zeros((3, kept + 2))
    here, above, particular = np.zeros((3, kept + 2))
    for idle in range(kept, 0, -1):
        rate = arrival_rate * (1.0 - ratio[idle + 1]) + servers - idle + rearrival_rate
        ratio[idle] = (servers - idle + 1) / rate
        inflow_ratio[idle] = arrival_rate / rate
        return_ratio[idle] = rearrival_rate / rate
    first, total, lost = 1.0, 0.0, 1.0  # lost: in units of arrivals that find (D, full)
    for level in range(deferrals, 0, -1):
        if level < deferrals:
            for idle in range(kept, 0, -1):
                particular[idle] = (
                    inflow_ratio[idle] * particular[idle + 1]
                    + return_ratio[idle] * above[idle + 1]
                )
        here[0] = mass = first
        for idle in range(1, kept + 1):
            here[idle] = ratio[idle] * here[idle - 1] + particular[idle]
            mass += here[idle]
        total += mass
        lost += rearrival_rate / arrival_rate * first
        first = rearrival_rate / arrival_rate * mass
        here, above = above, here
        if first > _LARGE:
            first, total, lost, above = (
                first / _LARGE,
                total / _LARGE,
                lost / _LARGE,
                above / _LARGE,
            )
    # With nobody deferred the servers idle are many more, and nobody returns.
    most = int(min(float(servers), kept + 40.0 + 11.0 * math.sqrt(servers)))
    ratio, particular = np.zeros((2, most + 2))
    for idle in range(most, 0, -1):
        rate = arrival_rate * (1.0 - ratio[idle + 1]) + servers - idle
        inflow = rearrival_rate * above[idle + 1] if idle <= kept else 0.0
        ratio[idle] = (servers - idle + 1) / rate
        particular[idle] = (arrival_rate * particular[idle + 1] + inflow) / rate
    value = first
    total += value
    for idle in range(1, most + 1):
        value = ratio[idle] * value + particular[idle]
        total += value
    return lost / total


def best_deferrals(servers, beta, mean_time, guess):
    """Return the best number of deferrals D and its loss, if the mean time D/alpha is limited.

    Golden section on the integers, from a bracket of a factor 1.5 about the guess.
    """
    arrival_rate, known = servers + beta * math.sqrt(servers), {}

    def lost(deferrals):
        if deferrals not in known:
            known[deferrals] = loss(
                servers, deferrals, arrival_rate, deferrals / mean_time
            )
        return known[deferrals]

    lowest, highest = max(1, int(guess / 1.5)), int(1.5 * guess) + 3
    low, high, golden = lowest, highest, (math.sqrt(5) - 1) / 2
    left, right = (
        round(high - golden * (high - low)),
        round(low + golden * (high - low)),
    )
    # The loss is flat: through three points within 4 % a parabola is as good as more sections.
    while high - low > max(5, 0.04 * guess) and low < left < right < high:
        if lost(left) < lost(right):
            high, right = right, left
            left = low + high - right
        else:
            low, left = left, right
            right = low + high - left
        left, right = min(left, right), max(left, right)
    if high - low <= 20:
        best = min(range(low, high + 1), key=lost)
    else:
        middle = (low + high) // 2
        curve = np.polyfit(
            [low - middle, 0, high - middle], [lost(low), lost(middle), lost(high)], 2
        )
        best = middle + round(-curve[1] / (2 * curve[0]))
    if not lowest < best < highest:
        raise ValueError(f"guess = {guess}: the best number is not within a factor 1.5")
    return best, lost(best)
