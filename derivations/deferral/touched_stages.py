"""Where stages end that were touched, for a fixed spacing and D deferrals: the integral equations.

The kernels are entire functions that fall like Gaussians, so that Gauss-Legendre points on a long
enough interval give all digits. The chapter on the best fixed spacing derives the equations.
"""

import math
from collections import namedtuple
from functools import cache

import numpy as np
from scipy.special import erf

Kernels = namedtuple("Kernels", "y weights stay touch slope_stay slope_touch")
Leading = namedtuple("Leading", "kappa cost at_zero ell")


def normal(x):
    """Return the normal density."""
    return np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def slope_of_normal(x):
    """Return its derivative."""
    return -x * normal(x)


def kernels(D):
    """Return the kernels; row 0 of each is for the end point 0, the others for the nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(32 + int(28 * D**0.5))
    reach = 9 * D**0.5
    y, weights = reach * (nodes + 1) / 2, reach * weights / 2
    away = y - np.append(0.0, y)[:, None]
    towards = y + np.append(0.0, y)[:, None]
    return Kernels(
        y,
        weights,
        (normal(away) - normal(towards)) * weights,
        2 * normal(towards) * weights,
        slope_of_normal(away) * weights,
        slope_of_normal(towards) * weights,
    )


def solve_equation(D, kernel, source, above=None):
    """Return f_0 = source + sum of T f_m, f_m = above_m + K f_(m-1), for m < D.

    Each row holds the value at 0 and at the nodes.
    """
    size = len(kernel.y)
    above = np.zeros((D, size + 1)) if above is None else above
    repeated, known = np.zeros((size, size)), np.zeros(size)
    total = np.zeros(size)
    for m in range(D - 1):
        repeated = np.eye(size) + kernel.stay[1:] @ repeated
        known = (above[m, 1:] if m > 0 else 0) + kernel.stay[1:] @ known
        total = total + known
    right = source + kernel.touch @ total
    first = np.linalg.solve(np.eye(size) - kernel.touch[1:] @ repeated, right[1:])
    rows = [right + kernel.touch @ (repeated @ first)]
    for m in range(1, D):
        rows.append(above[m] + kernel.stay @ rows[-1][1:])
    return np.array(rows)


def ends_of_stages(D, kernel):
    """Return u_0, ..., u_(D-1)."""
    return solve_equation(D, kernel, 2 * normal(np.append(0.0, kernel.y)))


def held(D, y):
    """Return the integrand of H over u."""
    total = D * y**2
    for i in range(1, D):
        total += (i + y**2) * erf(y / math.sqrt(2 * i)) - y**2
        total += y * math.sqrt(2 * i / math.pi) * np.exp(-(y**2) / (2 * i))
    return total


@cache
def leading(D):
    """Return kappa_D, M_D, u(0) and ell."""
    kernel = kernels(D)
    u = ends_of_stages(D, kernel)[0]
    ell = (kernel.weights * kernel.y) @ u[1:]
    time_away = (kernel.weights * held(D, kernel.y)) @ u[1:]
    return Leading(
        math.sqrt(2) * u[0] / time_away, time_away / math.sqrt(2) / ell, u[0], ell
    )


@cache
def correction(D):
    """Return j_D."""
    kernel = kernels(D)
    y, weights = kernel.y, kernel.weights
    u = ends_of_stages(D, kernel)
    ends = np.append(0.0, y)
    mirrored = [kernel.slope_touch @ u[m, 1:] for m in range(D)]
    source = 2 * (D - 1) * slope_of_normal(ends)
    for m in range(1, D):
        source = source + (2 * m - 3) * mirrored[m - 1]
    above, rest = np.zeros((D, len(ends))), -2 * slope_of_normal(ends)
    for i in range(D - 1, 0, -1):
        above[i] = rest - kernel.slope_stay @ u[i - 1, 1:]
        rest = rest - 2 * mirrored[i - 1]
    v = solve_equation(D, kernel, source, above)
    at_zero = v[:, 0].copy()
    slopes = (weights * slope_of_normal(y)) @ u[:, 1:].T
    at_zero[1:] -= slopes[:-1]
    at_zero[0] += slopes[:-1].sum()
    change = np.arange(1, D + 1) @ at_zero
    lost = (weights * y) @ v[D - 1, 1:] - 1.5 * weights @ u[D - 1, 1:] + 1
    return (change / u[0, 0] - lost / leading(D).ell) / math.sqrt(2)
