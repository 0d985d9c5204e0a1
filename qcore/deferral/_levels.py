"""The states with a given number deferred, as one level: balance equations without subtraction.

Everything is in units of the arrival rate: ``service_ratio`` is μ/λ, ``return_ratio`` is α/λ.
A complex ``return_ratio`` carries a derivative in its imaginary part.
"""

import numpy as np

from qcore._numerics.compiled import njit

# With α(1 + iη), η this step, Im f(α(1 + iη))/η is the derivative by log α to rounding.
DERIVATIVE_STEP = 1e-20

_LARGE_EXPONENT = 500
_LARGE = 2.0**_LARGE_EXPONENT


@njit
def level_coefficients(servers, service_ratio, return_ratio):
    """Return λ/pivot and (k+1)μ/pivot for k < K."""
    inverse_pivot = np.full(servers, 0.0 * return_ratio)
    descent = np.full(servers, 0.0 * return_ratio)
    excess = return_ratio
    for k in range(servers):
        if k > 0:
            excess = return_ratio + k * service_ratio * (excess / (1.0 + excess))
        inverse_pivot[k] = 1.0 / (1.0 + excess)
        descent[k] = (k + 1) * service_ratio * inverse_pivot[k]
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
def idle_server_worth(servers, service_ratio):
    """Return 1 - B_K/B_k for k < K, with Erlang's B: what one more customer then is worth.

    1/B_k = 1 + (kμ/λ)/B_{k-1}, and its differences by the same recursion are positive.
    """
    differences = np.empty(servers)
    inverse, difference = 1.0, 0.0
    for k in range(servers):
        difference = service_ratio * (inverse + k * difference)
        inverse += difference
        differences[k] = difference
        if inverse > _LARGE:
            inverse, difference = inverse / _LARGE, difference / _LARGE
            for j in range(k, -1, -1):
                differences[j] /= _LARGE
    worth = np.empty(servers)
    total = 0.0
    for k in range(servers - 1, -1, -1):
        total += differences[k]
        worth[k] = total / inverse
    return worth
