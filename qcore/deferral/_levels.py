"""The states with a given number deferred, as one level: balance equations without subtraction.

Of the numbers busy those from ``first`` up are kept; below are states that hardly ever occur.

Everything is in units of the arrival rate: ``service_ratio`` is μ/λ, ``return_ratio`` is α/λ.
A complex ``return_ratio`` carries a derivative in its imaginary part.
"""

import math

import numpy as np

from qcore._numerics.compiled import njit

# With α(1 + iη), η this step, Im f(α(1 + iη))/η is the derivative by log α to rounding.
DERIVATIVE_STEP = 1e-20

_NEGLIGIBLE_EXPONENT = 60.0
_MARGIN = 20

_LARGE_EXPONENT = 500
_LARGE = 2.0**_LARGE_EXPONENT


def first_of_window(servers, load):
    """Return the number busy below which M/M/K/K spends less than e^-60 of its time.

    Returning customers only add to those in service, so that they leave fewer servers idle.
    """
    if load < servers:
        idle = servers - load + math.sqrt(2.0 * _NEGLIGIBLE_EXPONENT * load)
    else:
        excess = math.log(load / servers)
        idle = 2.0 * _NEGLIGIBLE_EXPONENT
        idle /= excess + math.sqrt(excess * excess + 2.0 * _NEGLIGIBLE_EXPONENT / servers)
    return max(0, servers - _MARGIN - int(idle))


@njit
def level_coefficients(first, servers, service_ratio, return_ratio):
    """Return λ/pivot and (k+1)μ/pivot for k = first … K - 1."""
    width = servers - first
    inverse_pivot = np.full(width, 0.0 * return_ratio)
    descent = np.full(width, 0.0 * return_ratio)
    excess = return_ratio
    for i in range(width):
        if i > 0:
            excess = return_ratio + (first + i) * service_ratio * (excess / (1.0 + excess))
        inverse_pivot[i] = 1.0 / (1.0 + excess)
        descent[i] = (first + i + 1) * service_ratio * inverse_pivot[i]
    return inverse_pivot, descent


@njit
def fill_level(law, inflow, first, inverse_pivot, descent):
    """Fill ``law`` with the conditional law of the level that has π(K) = first and this inflow.

    Return the mass of the level, to be multiplied by two to the exponent that is returned too.
    """
    servers = law.size - 1
    for k in range(1, servers):
        inflow[k] = (inflow[k - 1] + inflow[k]) * inverse_pivot[k]
    here, mass, scale, exponent = first, first, 1.0, 0
    law[servers] = here
    for k in range(servers - 1, -1, -1):
        here = descent[k] * here + inflow[k] * scale
        if here.real > _LARGE:
            here, mass, scale = here / _LARGE, mass / _LARGE, scale / _LARGE
            exponent += _LARGE_EXPONENT
            above = k + 1
            while above <= servers and law[above].real > 0.0:
                law[above] /= _LARGE
                above += 1
        law[k] = here
        mass += here
    inverse_mass = 1.0 / mass
    for k in range(servers + 1):
        law[k] *= inverse_mass
    return mass, exponent


@njit
def idle_server_worth(first, servers, service_ratio):
    """Return 1 - B_K/B_k for k = first … K - 1, with Erlang's B: what one more customer is worth.

    B_{k+1}/B_k = E exp(-time from k to k + 1 busy) = 1/(1 + growth), and the growth follows from
    a recursion that has forgotten its start after some multiple of sqrt(K) steps.
    """
    start = max(0, first - 50 - 20 * int(math.sqrt(servers)))
    half = 0.5 * (1.0 + (1.0 - start * service_ratio) / service_ratio)
    theta = 1.0 / (half + math.sqrt(half * half + start)) if half > 0.0 else 0.5
    if start == 0:
        theta = 0.0
    worth = np.empty(servers - first)
    for k in range(start, servers):
        growth = service_ratio * (1.0 + k * theta)
        theta = growth / (1.0 + growth)
        if k >= first:
            worth[k - first] = math.log1p(growth)
    total = 0.0
    for i in range(servers - first - 1, -1, -1):
        total += worth[i]
        worth[i] = -math.expm1(-total)
    return worth
