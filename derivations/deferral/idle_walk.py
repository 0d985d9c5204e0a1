"""The idle servers while customers are away at a fixed spacing, followed by brute force.

A state is (m, w): m deferrals are missing from the full D, w servers are idle. Idle servers go up
at a rate that may depend on w, and down at one rate; an arrival that finds nobody idle fills one of
the missing deferrals. At the end of a stage one customer returns.
"""

import math
from collections import namedtuple
from functools import cache

import numpy as np
from numba import njit
from numpy.polynomial import Chebyshev
from scipy.sparse.linalg import LinearOperator, gmres

Best = namedtuple("Best", "scaled excess")


def poisson(mean):
    """Return the probabilities of 0, 1, 2, ..., by ratios from the mode."""
    mode, largest = int(mean), int(mean + 9 * math.sqrt(mean) + 40)
    below = np.cumprod(np.arange(mode, 0, -1) / mean)[::-1]
    above = np.cumprod(mean / np.arange(mode + 1, largest))
    weights = np.concatenate([below, [1.0], above])
    return weights / weights.sum()


@njit(cache=True)
def uniformised(law, up, down, weights):
    """Return the law over (m, w) after a random number of steps, and the times spent."""
    rows, size = law.shape
    rate = up[0] + down
    rise, fall = up / rate, down / rate
    end, spent, later = np.zeros_like(law), np.zeros_like(law), 1.0
    now, new = law.copy(), np.empty_like(law)
    for weight in weights:
        later = max(later - weight, 0.0)
        for m in range(rows):
            for w in range(size):
                end[m, w] += weight * now[m, w]
                spent[m, w] += later / rate * now[m, w]
                stays = 1 - rise[w] - fall
                new[m, w] = stays * now[m, w]
                if w > 0:
                    new[m, w] += rise[w - 1] * now[m, w - 1]
                if w < size - 1:
                    new[m, w] += fall * now[m, w + 1]
        for m in range(rows):
            new[max(m - 1, 0), 0] += fall * now[m, 0]
        now, new = new, now
    return end, spent


def stage(law, up, down, length):
    """Return the law over (m, w) at the end of a stage, and the expected times spent."""
    return uniformised(law, up, down, poisson((up[0] + down) * length))


def after_return(end):
    """Move the ends of stages to the starts of the next ones; the phase may be over."""
    start = np.zeros_like(end)
    start[1:, :-1] = end[:-1, 1:]
    start[1:, 0] += end[:-1, 0]
    return start


def phase(D, up, down, length):
    """Return the ends of all stages of a phase, and the times spent in it.

    The starts of all stages together solve a linear equation: the first start, and what the ends
    of stages become by a return.
    """
    first = np.zeros((D, len(up)))
    first[D - 1, 0] = 1.0
    starts = first
    if D > 1:

        def remainder(starts):
            starts = starts.reshape(first.shape)
            end, _ = stage(starts, up, down, length)
            return (starts - after_return(end)).ravel()

        shape = (first.size, first.size)
        system = LinearOperator(shape, matvec=remainder, dtype=float)
        flat, _ = gmres(system, first.ravel(), rtol=1e-14, restart=80, maxiter=2)
        starts = flat.reshape(first.shape)
    return stage(starts, up, down, length)


@cache
def errors(D, t):
    """Return both errors of a phase of the walk with rates one, over the expected number lost."""
    size = int(7.5 * math.sqrt(2 * D * t)) + 20
    end, spent = phase(D, np.ones(size), 1.0, float(t))
    missing = np.arange(D)
    idle = (spent * np.minimum(D - missing[:, None], np.arange(size))).sum()
    lost_returns = (missing + 1) @ end[:, 0]
    lost = spent[0, 0] + end[:, 0].sum()
    return idle / lost, lost_returns / lost


def least(cost, middle, half_width=0.25):
    """Return the place and the value of the minimum near ``middle``.

    It is where the polynomial through seven Chebyshev points of the logarithm has its extremum.
    """
    ends = np.log(middle) + half_width * np.array([-1, 1])
    points = np.log(middle) + half_width * np.cos(np.pi * (np.arange(7) + 0.5) / 7)
    values = np.array([cost(math.exp(one)) for one in points])
    scale = abs(values[3])
    fit = Chebyshev.fit(points, (values - values[3]) / scale, 6, domain=ends)
    (best,) = (
        one.real
        for one in fit.deriv().roots()
        if one.imag == 0 and ends[0] < one.real < ends[1]
    )
    return math.exp(best), values[3] + scale * fit(best)


def worth(servers, load, blocking, window):
    """Return 1 - psi for 0, 1, 2, ... idle servers, from Erlang's recursion."""
    worths = [0.0]
    for idle in range(window - 1):
        surplus = servers - idle - load + load * (blocking + worths[-1])
        worths.append(surplus / (servers - idle))
    return np.array(worths)


def shares(servers, D, beta, spacing, blocking):
    """Return P_B/B_K and 1 - P_B/B_K, by the exact chain in a window of few idle servers."""
    load = servers + beta * math.sqrt(servers)
    window = int(7.5 * math.sqrt(2 * D * servers * spacing)) + 20
    window = min(servers + 1, window)
    up = servers - np.arange(float(window))
    end, spent = phase(D, up, load, spacing)
    lost = load * spent[0, 0] + end[:, 0].sum()
    saved = (end @ worth(servers, load, blocking, window)).sum()
    return lost / (lost + saved), saved / (lost + saved)


def best_spacing(servers, D, beta, guess, blocking):
    """Return K^(2/3) x at the optimum, and K^(4/3) times the loss beyond D places."""
    x, negative = least(lambda x: -shares(servers, D, beta, x, blocking)[1], guess)
    # 1/B_(K,d) = 1 + (K/load)/B_(K,d-1) for the waiting places.
    room = blocking
    for _ in range(D):
        room = room / (room + servers / (servers + beta * math.sqrt(servers)))
    excess = (1 - room / blocking + negative) * blocking
    return Best(x * servers ** (2 / 3), excess * servers ** (4 / 3))
