"""Speed and accuracy of the deferral models against general linear algebra, in one run.

    python -m benchmarks.deferral [--output FILE]

prints a Markdown table, and writes it to FILE. Ratios are of best times in this process.
"""

import itertools
import math
import time

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

from benchmarks import _command
from qcore.deferral import dsrt, esrt


def best_time(function, least_seconds=0.3, most_runs=200):
    """Return the result of one call and the shortest time of several."""
    function()
    times, began = [], time.perf_counter()
    while not times or (time.perf_counter() - began < least_seconds and len(times) < most_runs):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return result, min(times)


def exponential_by_sparse_solver(servers, max_deferrals, lam, mu, alpha):
    """P_B from the full generator of the chain and SciPy's sparse LU."""
    width = servers + 1
    k, d = (part.ravel() for part in np.meshgrid(np.arange(width), np.arange(max_deferrals + 1)))
    state = d * width + k
    full = k == servers
    moves = [
        (~full, state + 1, lam),
        (full & (d < max_deferrals), state + width, lam),
        (k > 0, state - 1, k * mu),
        (d > 0, state - width + np.where(full, 0, 1), alpha),
    ]
    sources = np.concatenate([state[allowed] for allowed, _, _ in moves])
    targets = np.concatenate([target[allowed] for allowed, target, _ in moves])
    rates = np.concatenate(
        [np.broadcast_to(rate, state.shape)[allowed] for allowed, _, rate in moves]
    )
    size = state.size
    outflow = np.bincount(sources, rates, size)
    generator = scipy.sparse.coo_matrix(
        (np.concatenate([rates, -outflow]), (np.append(targets, state), np.append(sources, state)))
    ).tocsc()
    # The first state gets the value 1, for its own equation, and the sum is divided out.
    rest = scipy.sparse.linalg.spsolve(generator[1:, 1:], -generator[1:, 0].toarray().ravel())
    law = np.append(1.0, rest).reshape(max_deferrals + 1, width)
    law /= law.sum()
    return law[-1, -1] + alpha / lam * law[1:, -1].sum(), law


def fixed_by_dense_exponential(servers, max_deferrals, lam, mu, spacing):
    """P_B from the dense exponential of a stage's generator and a dense solution."""
    width = servers + 1
    size = max_deferrals * width
    generator = np.zeros((size, size))
    for d, k in itertools.product(range(max_deferrals), range(width)):
        here = d * width + k
        if k < servers:
            generator[here, here + 1] = lam
        elif d < max_deferrals - 1:
            generator[here, here + width] = lam
        if k > 0:
            generator[here, here - 1] = k * mu
    generator -= np.diag(generator.sum(axis=1))
    block = np.zeros((2 * size, 2 * size))
    block[:size, :size], block[:size, size:] = generator, np.eye(size)
    block = scipy.linalg.expm(block * spacing)
    end, integral = block[:size, :size], block[:size, size:]
    returned = np.zeros_like(end)
    for d, k in itertools.product(range(max_deferrals), range(width)):
        returned[:, d * width + min(k + 1, servers)] += end[:, d * width + k]
    onward = np.hstack([returned[:, width:], np.zeros((size, width))])
    start = np.eye(1, size, servers).ravel()
    visits = np.linalg.solve((np.eye(size) - onward).T, start)
    killed = generator[:width, :width].copy()
    if max_deferrals == 1:
        killed[servers, servers] -= lam
    outside = np.linalg.solve(-killed.T, visits @ returned[:, :width])
    times = visits @ integral
    lost = lam * times[-1] + (visits @ end)[servers::width].sum()
    return lost / lam / (times.sum() + outside.sum())


def table():
    """Yield the rows: what, size, time here, time there, ratio, largest difference."""
    for size in (30, 100):
        lam = size + 0.1 * math.sqrt(size)
        system = (size, size, lam, 1.0, lam ** (2 / 3))
        value, ours = best_time(lambda system=system: esrt.configuration_distribution(*system))
        (_, law), theirs = best_time(lambda system=system: exponential_by_sparse_solver(*system))
        difference = f"{np.max(np.abs(value - law)):.0e} absolute"
        if law.min() < 0:
            difference += f", {np.count_nonzero(law < 0)} negative there"
        yield "exponential spacing", "sparse LU (SciPy)", system, ours, theirs, difference
    for servers, max_deferrals in ((10, 2), (40, 4), (100, 5)):
        lam = servers + 0.1 * math.sqrt(servers)
        system = (servers, max_deferrals, lam, 1.0, lam ** (-2 / 3))
        value, ours = best_time(lambda system=system: dsrt.blocking_probability(*system))
        other, theirs = best_time(lambda system=system: fixed_by_dense_exponential(*system))
        difference = f"{abs(value / other - 1):.0e} relative"
        yield "fixed spacing", "dense exponential (SciPy)", system, ours, theirs, difference


def alone():
    """Yield what only this package is asked for: a sentence and a time."""
    for servers, max_deferrals in ((1000, 1000), (100_000, 10)):
        lam = servers + 0.1 * math.sqrt(servers)
        system = (servers, max_deferrals, lam, 1.0, lam ** (2 / 3))
        _, seconds = best_time(lambda system=system: esrt.blocking_probability(*system))
        yield "exponential spacing", system, seconds
    for servers, max_deferrals, spacing in (
        (1000, 10, 0.0027),
        (1000, 10, 0.008),
        (1000, 10, 0.024),
        (1000, 10, 1.0),
        (10_000, 2, 0.002),
    ):
        lam = servers + 0.1 * math.sqrt(servers)
        system = (servers, max_deferrals, lam, 1.0, spacing)
        _, seconds = best_time(lambda system=system: dsrt.blocking_probability(*system))
        yield "fixed spacing", system, seconds


def optima():
    """Yield how long the best spacing, or rate of return, of a million servers takes."""
    servers = 10**6
    system = (1.0, 10.0 / servers**0.5)
    lam = servers + math.sqrt(servers)
    for max_deferrals in (1, 2, 3):
        for model, function in (
            ("exponential spacing", esrt.optimal_rearrival_rate),
            ("fixed spacing", dsrt.optimal_spacing),
        ):
            best, seconds = best_time(
                lambda function=function, d=max_deferrals: function(servers, d, lam, *system)
            )
            yield model, servers, max_deferrals, best.blocking_probability, seconds


def report():
    """Measure everything and return the tables."""
    lines = [
        "| model | K | D | against | here (ms) | there (ms) | there ÷ here | difference |",
        "|---|---:|---:|---|---:|---:|---:|---|",
    ]
    for model, peer, system, ours, theirs, difference in table():
        lines.append(
            f"| {model} | {system[0]} | {system[1]} | {peer} | {1e3 * ours:.3g} | "
            f"{1e3 * theirs:.3g} | {theirs / ours:.3g} | {difference} |"
        )
    lines += [
        "",
        "| model | K | D | spacing, or rate of return | time (ms) |",
        "|---|---:|---:|---:|---:|",
    ]
    for model, system, seconds in alone():
        lines.append(
            f"| {model} | {system[0]} | {system[1]} | {system[4]:.4g} | {1e3 * seconds:.4g} |"
        )
    lines += [
        "",
        "| optimum of | K | D | customers lost | time (ms) |",
        "|---|---:|---:|---:|---:|",
    ]
    for model, servers, max_deferrals, lost, seconds in optima():
        lines.append(
            f"| {model} | {servers} | {max_deferrals} | {lost:.9f} | {1e3 * seconds:.3g} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    _command.run(__doc__, report)
