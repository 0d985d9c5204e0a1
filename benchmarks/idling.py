"""Speed and accuracy of qcore.idling beside general-purpose solvers, as ratios in one run."""

import math
import time

import numpy as np
from scipy.optimize import minimize_scalar

from benchmarks import _command
from qcore.idling import FluidControlProblem, markov


def seconds(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def value_iteration(servers, arrival_rate, service_rate, abandonment_rate, a, cost, longest, tol):
    """Relative value iteration on the uniformised chain, vectorised, with its certified bounds."""
    n = servers
    busy, waiting = np.arange(n + 1)[:, None], np.arange(longest + 1)[None, :]
    running = np.array([cost(i / n) for i in range(n + 1)])[:, None]
    running = running + a * abandonment_rate * waiting / n
    clock = arrival_rate + n * service_rate + longest * abandonment_rate
    values = np.zeros((n + 1, longest + 1))
    sweeps = 0
    while True:
        sweeps += 1
        least = np.column_stack((values, values[:, -1] + a / n))
        for i in range(n - 1, -1, -1):
            np.minimum(least[i, 1:], least[i + 1, :-1], out=least[i, 1:])
        change = running + arrival_rate * (least[:, 1:] - values)
        change[1:] += busy[1:] * service_rate * (least[:-1, :-1] - values[1:])
        change[:, 1:] += waiting[:, 1:] * abandonment_rate * (values[:, :-1] - values[:, 1:])
        if change.max() - change.min() < tol:
            return (change.max() + change.min()) / 2, sweeps
        values += change / clock
        values -= values[0, 0]


def report():
    """Measure everything and return the tables."""
    lines = [
        "The best policy at load 1.1 N, θ = μ/2, a = 1.7, g = b²: policy iteration here against "
        "relative value iteration, which stops at 1e-9.",
        "",
        "| N | evaluations here | sweeps there | times faster | difference of costs | certified |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for servers in (10, 30, 60):
        system = (servers, 1.1 * servers, 1.0, 0.5)
        ours, best = seconds(
            lambda system=system: markov.optimal_policy(
                *system, abandonment_cost=1.7, utilization_cost=lambda b: b * b
            )
        )
        theirs, (cost, sweeps) = seconds(
            lambda system=system, best=best: value_iteration(
                *system, 1.7, lambda b: b * b, best.max_waiting, 1e-9
            )
        )
        lines.append(
            f"| {servers} | {best.iterations + 1} | {sweeps} | {theirs / ours:.0f} "
            f"| {abs(cost - best.cost):.0e} | {best.suboptimality:.0e} |"
        )
    lines += [
        "",
        "The fluid optimum: error of the busy fraction here and by SciPy's bounded scalar search, "
        "which is quicker and knows nothing of corners, kinks or convexity.",
        "",
        "| cost | error here | error there | time here / there |",
        "|---|---:|---:|---:|",
    ]
    cases = {
        "b**2": (lambda b: b * b, 1.0, 0.5),
        "1.2 b**1.05": (lambda b: 1.2 * b**1.05, 1.2, (1.2 / 1.26) ** 20),
        "exp(b)": (math.exp, 1.3, math.log(1.3)),
        "kink at 0.3": (lambda b: max(0.5 * b, 1.5 * b - 0.3), 1.0, 0.3),
    }
    for name, (cost, a, exact) in cases.items():
        ours, found = seconds(
            lambda cost=cost, a=a: FluidControlProblem(1.2, 1.0, a, cost).optimal_busy_fraction
        )
        theirs, general = seconds(
            lambda cost=cost, a=a: (
                minimize_scalar(
                    lambda b: cost(b) - a * b,
                    bounds=(0, 1),
                    method="bounded",
                    options={"xatol": 1e-15},
                ).x
            )
        )
        lines.append(
            f"| `{name}` | {abs(found - exact):.0e} | {abs(general - exact):.0e} "
            f"| {ours / theirs:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    _command.run(__doc__, report)
