r"""Constants of the best spacing with deterministic spacing, from an integral equation.

Far from the time scale of the diffusion, the servers that are idle follow a reflected random walk,
and the number of deferrals depends on when the walk last touched its boundary: there it fills up to
D at once, and it falls by one at the end of every stage. With a stage as unit of time, let G be the
expected number of stages entered (their first touch) at phase e in [0, 1). A Brownian path last at
zero at phase e has its next zero at phase v of the j-th later stage with density

    k_j(e, v) = sqrt((1 - e)/(j - 1 + v)) / (pi (j - e + v)),

and D stages without a touch end the deferrals, so that G = delta_0 + G (k_1 + ... + k_{D-1}).
All else are integrals against G. The first correction, of the relative order of the step of the
walk to its spread within a stage, changes the entries by a source (`_source`): returns shift the
walk by one, touching takes a step beyond the boundary, and on the way from d to D deferrals the
walk may leave for a long excursion.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import poch

# Double-exponential quadrature on (0, 1), for sqrt(e) as variable: phases have square-root
# singularities at both ends.
_HALF_POINTS = 40
_STEPS = np.arange(-_HALF_POINTS, _HALF_POINTS + 1) * (3.8 / _HALF_POINTS)
_ROOTS = 1.0 / (1.0 + np.exp(-np.pi * np.sinh(_STEPS)))
_REST = 1.0 / (1.0 + np.exp(np.pi * np.sinh(_STEPS)))
_ROOT_WEIGHTS = np.pi * np.cosh(_STEPS) * _ROOTS * _REST * (3.8 / _HALF_POINTS)
_PHASES = _ROOTS**2
_LEFT = _REST * (1.0 + _ROOTS)  # one minus the phase
_WEIGHTS = 2.0 * _ROOTS * _ROOT_WEIGHTS

_EXCURSION = 0.5 / math.sqrt(math.pi)  # density of long excursions of length t: this t^{-3/2}


@dataclass(frozen=True)
class SpacingConstants:
    """Constants that depend on the number of deferrals only.

    Attributes
    ----------
    balance : float
        kappa: the best spacing x satisfies K (mu x)^{3/2} ~ kappa (h - beta).
    cost : float
        M: with kappa, the loss beyond D waiting places, 3/2 h M (kappa (h - beta))^{1/3} K^{-4/3}.
    correction : float
        j: the best spacing is the leading one times 1 + j/sqrt(K mu x).
    """

    balance: float
    cost: float
    correction: float


@functools.cache
def deterministic(deferrals):
    """Return the constants for returns spaced by a fixed time."""
    entries = _entries(deferrals)
    left, masses = np.append(_LEFT, 1.0), np.append(entries * _WEIGHTS, 1.0)
    lost = masses @ left**-0.5
    local_time = masses @ left**0.5
    held = masses @ sum(_held(i, left) for i in range(1, deferrals + 1))
    return SpacingConstants(
        balance=float(math.sqrt(math.pi) * lost / held),
        cost=float(held / local_time / math.sqrt(math.pi)),
        correction=float(_correction(deferrals, left, masses, lost, local_time)),
    )


def exponential(deferrals):
    """Return the constants for returns spaced by independent exponential times.

    The walk starts afresh at every touch, and excursions end when D exponential times have passed:
    all is in Gamma functions. The correction is the sum of (i + 1) (1/2)_{i-1}/(i - 1)! over i < D.
    """
    cost = deferrals * poch(deferrals + 1, 0.5) / math.gamma(2.5)
    correction = 0.0
    if deferrals > 1:
        sums = poch(deferrals - 1, 0.5) / math.gamma(1.5)
        correction = sums * (2.0 + (deferrals - 2) / 3.0)
    return SpacingConstants(balance=2.0 / cost, cost=float(cost), correction=float(correction))


def _held(i, left):
    """Return the integral of sqrt((i - phi)/(phi - e)) over the phases phi from e to 1."""
    return np.sqrt(left * (i - 1.0)) + (i - 1.0 + left) * np.arcsin(
        np.sqrt(left / (i - 1.0 + left))
    )


def _entry_density(stage, left, phase):
    """Return k_stage(1 - left, phase)."""
    return np.sqrt(left / (stage - 1.0 + phase)) / (stage - 1.0 + left + phase) / math.pi


def _entries(deferrals):
    """Return the density of G - delta_0 at the phases."""
    # In the variable sqrt(e) the density times 2 sqrt(e) is smooth.
    kernel = np.zeros((len(_PHASES), len(_PHASES)))
    start = np.zeros(len(_PHASES))
    for stage in range(1, deferrals):
        kernel += _entry_density(stage, _LEFT[None, :], _PHASES[:, None])
        start += _entry_density(stage, 1.0, _PHASES)
    kernel *= _ROOTS[:, None] * 2.0 * _ROOT_WEIGHTS[None, :]
    return np.linalg.solve(np.eye(len(_PHASES)) - kernel, _ROOTS * start) / _ROOTS


def _correction(deferrals, left, masses, lost, local_time):
    source = _source(deferrals, left, masses)
    # Half a step towards the boundary at the end of the stage, seen in the next one. It moves mass
    # to phase 0, as much as the density there would have: only the difference is summed.
    next_stage = (left[None, :] + _PHASES[:, None]) ** -1.5 @ masses
    at_zero = masses @ (1.0 + left) ** -0.5
    changes = []
    for power in (-0.5, 0.5):
        later, later_from_zero, increments = _later(deferrals, power)
        change = source @ (later * _WEIGHTS)
        if deferrals > 1:
            change += (
                0.5
                * _EXCURSION
                * (2.0 * later_from_zero * at_zero - next_stage @ (increments * _WEIGHTS))
            )
            # The excursions of the first filling that end in the same stage.
            change += (
                (deferrals - 1)
                * _EXCURSION
                * ((increments * _PHASES**-1.5) @ _WEIGHTS - 2.0 * later_from_zero)
            )
        changes.append(change)
    unfilled = sum(
        (stage * (stage + 3) / 2 - 0.5) * (masses @ _entry_density(stage, left, 1.0))
        for stage in range(1, deferrals)
    )
    change_of_lost = changes[0] + math.sqrt(math.pi) * unfilled
    change_of_local_time = changes[1] - math.sqrt(math.pi) / 4.0 * masses.sum()
    return change_of_lost / lost - change_of_local_time / local_time


def _later(deferrals, power):
    """Return chi = (1 - e)^power + (k_1 + ... + k_{D-1}) chi, chi(0), and chi - chi(0)."""
    kernel = np.zeros((len(_PHASES), len(_PHASES)))
    from_zero = np.zeros(len(_PHASES))
    increments = np.zeros((len(_PHASES), len(_PHASES)))
    root = np.sqrt(_LEFT)[:, None]
    for stage in range(1, deferrals):
        after = stage - 1.0 + _PHASES[None, :]
        kernel += _entry_density(stage, _LEFT[:, None], _PHASES[None, :])
        from_zero += _entry_density(stage, 1.0, _PHASES)
        increments += (
            (after - root) / ((_LEFT[:, None] + after) * (1.0 + after)) / np.sqrt(after) / math.pi
        )
    # chi grows as (1 - e)^{-1/2} at most: solve for chi sqrt(1 - e).
    scaled = kernel * root * (_WEIGHTS / root[:, 0])[None, :]
    chi = np.linalg.solve(np.eye(len(_PHASES)) - scaled, root[:, 0] * _LEFT**power) / root[:, 0]
    # sqrt(1 - e) - 1 = -e/(1 + sqrt(1 - e)) is a factor of both differences.
    factor = -_PHASES / (1.0 + root[:, 0])
    difference = factor * ((increments * _WEIGHTS) @ chi)
    difference += factor if power > 0.0 else -factor / root[:, 0]
    return chi, 1.0 + from_zero @ (chi * _WEIGHTS), difference


def _source(deferrals, left, masses):
    """Return the density that the first correction adds to the entries.

    Without the parts that are singular at phase 0, which `_correction` adds.
    """
    phase = _PHASES[:, None]
    density = np.zeros(len(_PHASES))
    # Long excursions during the first filling that last beyond the stage.
    for stage in range(1, deferrals - 1):
        density += (deferrals - 1 - stage) * _EXCURSION * (stage + _PHASES) ** -1.5
    for stage in range(2, deferrals):
        density -= 0.5 * _EXCURSION * (left + stage - 1.0 + phase) ** -1.5 @ masses
        for shift in range(2, stage + 1):
            density += _shifted_entry(shift - 1.0, stage - shift + phase, left) @ masses
    for stage in range(2, deferrals):
        arrivals = _entry_density(stage, left, phase) @ masses
        for later in range(1, deferrals - 1):
            levels = min(stage - 1, deferrals - 1 - later)
            kernel = (later - 1.0 + _LEFT[None, :] + phase) ** -1.5
            density += levels * _EXCURSION * kernel @ (arrivals * _WEIGHTS)
        density -= (stage - 1) * _half_derivative(stage, left, masses)
    return density


def _shifted_entry(killed, after, left):
    """Return the change of the entry density when the walk, after a time in which it did not touch,
    is moved one towards the boundary.
    """
    total = left + killed + after
    share = np.sqrt(after * left / ((after + killed) * (left + killed)))
    complement = np.sqrt(killed * total / ((after + killed) * (left + killed)))
    height = (4.0 * math.pi * total) ** -0.5
    slope = 0.5 * share * killed / (after * (after + killed))
    return (
        (4.0 / math.pi)
        * height
        * (slope / complement - 0.5 * np.arctan2(share, complement) / total)
    )


def _half_derivative(stage, left, masses):
    """Return the half derivative (Riemann-Liouville, from 0) of the entry density of a stage."""
    # The integral of f'(u) (v - u)^{-1/2} over u from 0 to v, with u = v (1 - y^2).
    points = (_PHASES[:, None] * (_REST * (1.0 + _ROOTS))[None, :])[:, :, None]
    after = stage - 1.0 + points
    slope = -_entry_density(stage, left, points) * (0.5 / after + 1.0 / (left + after))
    integral = 2.0 * _ROOTS * ((slope @ masses) @ _ROOT_WEIGHTS)
    at_zero = masses @ _entry_density(stage, left, 0.0)
    return (at_zero / _ROOTS + integral) / math.sqrt(math.pi)
