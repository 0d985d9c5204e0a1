"""Stages of a fixed length, between two returns: the chain of busy servers and blocked arrivals.

Within a stage the number of busy servers k moves as in the loss system, and an arrival that
finds k = K adds one to the number deferred d, up to its limit. The chain is uniformised: at the
points of a Poisson process of rate λ + Kμ it steps up with probability λ/(λ + Kμ), down with
kμ/(λ + Kμ), and stays otherwise, so that every sum has terms of one sign. Time is in units of
1/λ, and states k below the first one of a window are left out.
"""

import math

import numpy as np

from qcore._numerics.compiled import njit

_MOST_TERMS = 50_000_000


def terms_needed(mean):
    """Return the number of Poisson terms beyond which the tail is below 1e-19."""
    return int(mean + 9.5 * math.sqrt(mean)) + 30


def poisson_terms(mean, step):
    """Return P(N = n) and P(N > n), n = 0, 1, …, for a Poisson law up to a tail below 1e-19.

    With ``step`` non-zero their derivatives by log(mean), times ``step``, are imaginary parts.
    """
    size = terms_needed(mean)
    if size > _MOST_TERMS:
        raise ValueError(
            f"(arrival_rate + servers * service_rate) * spacing = {mean!r}: must be at most "
            f"{_MOST_TERMS:g}, as that many events in a stage are followed one by one"
        )
    mode = int(mean)
    n = np.arange(size)
    mass = np.empty(size)
    mass[mode] = 1.0
    mass[mode + 1 :] = mass[mode] * np.cumprod(mean / n[mode + 1 :])
    mass[:mode] = mass[mode] * np.cumprod(n[mode:0:-1] / mean)[::-1]
    mass /= mass.sum()
    tail = np.append(np.cumsum(mass[:0:-1])[::-1], 0.0)
    if step:
        return mass * (1.0 + 1j * step * (n - mean)), tail + 1j * step * mean * mass
    return mass, tail


@njit
def _step_probabilities(first, servers, service_ratio):
    """Return the probabilities of a step down, of none, and of one up, for k = first … K."""
    width = servers - first + 1
    up = 1.0 / (1.0 + servers * service_ratio)
    down = np.empty(width)
    stay = np.empty(width)
    for i in range(width):
        down[i] = (first + i) * service_ratio * up
        stay[i] = (servers - first - i) * service_ratio * up
    stay[0] += down[0]
    down[0] = 0.0
    return down, stay, up


@njit
def count_matrices(first, servers, service_ratio, weights, counts):
    """Return C[j, i, i']: from k = first + i to first + i' with j blocked arrivals.

    The last j stands for itself and all above; ``weights`` are the Poisson probabilities.
    """
    down, stay, up = _step_probabilities(first, servers, service_ratio)
    width = down.size
    top = width - 1
    matrices = np.full((counts, width, width), 0.0 * weights[0])
    here = np.zeros((counts, width))
    there = np.zeros((counts, width))
    for start in range(width):
        here[:] = 0.0
        there[:] = 0.0
        here[0, start] = 1.0
        matrices[0, start, start] += weights[0]
        for n in range(1, weights.size):
            right = min(top, start + n)
            for j in range(counts):
                # The states that can have been reached: j > 0 needs top - start + j steps.
                left = max(0, start - n) if j == 0 else max(0, top - (n - (top - start) - j))
                if left > right:
                    break
                source, target = here[j], there[j]
                for i in range(max(left, 1), min(right, top - 1) + 1):
                    target[i] = (
                        up * source[i - 1] + down[i + 1] * source[i + 1] + stay[i] * source[i]
                    )
                if left == 0:
                    target[0] = down[1] * source[1] + stay[0] * source[0]
                if right == top:
                    target[top] = up * source[top - 1]
                    if j > 0:
                        target[top] += up * here[j - 1, top]
                    if j == counts - 1:
                        target[top] += up * source[top]
                weight = weights[n]
                sums = matrices[j, start]
                for i in range(left, right + 1):
                    sums[i] += weight * target[i]
            here, there = there, here
    return matrices


def doubled(matrices):
    """Return the count matrices of twice the time."""
    tails = np.cumsum(matrices[::-1], axis=0)[::-1]
    last = len(matrices) - 1
    result = np.empty_like(matrices)
    for j in range(last):
        result[j] = np.hstack(matrices[: j + 1]) @ np.vstack(matrices[j::-1])
    result[last] = np.hstack(matrices) @ np.vstack([*tails[last:0:-1], tails[0]])
    # The rows are laws; without this the rounding of their sums would double each time.
    return result / result.sum(axis=(0, 2))[:, None]


@njit
def run_stage(state, first, servers, service_ratio, mass, tail):
    """Return a vector over (d, k), d = 1 … D, at the end of a stage, and its integral over it."""
    down, stay, up = _step_probabilities(first, servers, service_ratio)
    levels, width = state.shape
    top = width - 1
    here = state.copy()
    there = np.zeros_like(state)
    end = mass[0] * here
    integral = tail[0] * here
    for n in range(1, mass.size):
        change = 0.0
        for d in range(levels):
            source, target = here[d], there[d]
            for i in range(1, top):
                target[i] = up * source[i - 1] + down[i + 1] * source[i + 1] + stay[i] * source[i]
            target[0] = down[1] * source[1] + stay[0] * source[0]
            target[top] = up * source[top - 1]
            if d > 0:
                target[top] += up * here[d - 1, top]
            if d == levels - 1:
                target[top] += up * source[top]
            for i in range(width):
                end[d, i] += mass[n] * target[i]
                integral[d, i] += tail[n] * target[i]
        here, there = there, here
        if n % 1024 == 0:
            for d in range(levels):
                for i in range(width):
                    change += abs(here[d, i] - there[d, i])
            if change * (mass.size - n) < 1e-16:
                # Nothing moves any more: the remaining terms are all alike.
                end += mass[n + 1 :].sum() * here
                integral += tail[n + 1 :].sum() * here
                break
    return end, integral * up


@njit
def end_of_stage(state, first, servers, service_ratio, mass, mass_slope):
    """Return a vector over (d, k), d = 1 … D, at the end of a stage, without its integral.

    ``state[0]`` is the vector and ``state[1]`` its derivative, to which the changing length of the
    stage adds: a fraction of what complex numbers cost.
    """
    down, stay, up = _step_probabilities(first, servers, service_ratio)
    parts, levels, width = state.shape
    top = width - 1
    here = state.copy()
    there = np.zeros_like(state)
    end = mass[0] * here
    end[1] += mass_slope[0] * here[0]
    for n in range(1, mass.size):
        for part in range(parts):
            for d in range(levels):
                source, target = here[part, d], there[part, d]
                target[0] = down[1] * source[1] + stay[0] * source[0]
                for i in range(1, top):
                    target[i] = up * source[i - 1] + down[i + 1] * source[i + 1]
                    target[i] += stay[i] * source[i]
                target[top] = up * source[top - 1]
                if d > 0:
                    target[top] += up * here[part, d - 1, top]
                if d == levels - 1:
                    target[top] += up * source[top]
        here, there = there, here
        if mass[n] > 1e-30:
            for d in range(levels):
                value, slope = here[0, d], here[1, d]
                for i in range(width):
                    end[0, d, i] += mass[n] * value[i]
                    end[1, d, i] += mass[n] * slope[i] + mass_slope[n] * value[i]
    return end
