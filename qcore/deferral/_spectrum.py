r"""How the loss system leaves the state in which all servers are busy: positive exponentials.

With service rate one, started with all K servers busy, the probability that all are busy again
is completely monotone in time,

    p(t) = B_K + sum over i of c_i exp(-r_i t),   c_i > 0,   r_1 < … < r_K.

The r_i are the eigenvalues of the tridiagonal matrix with λ + j on its diagonal, j = 1 … K, and
-sqrt(λj) beside it, and c_i = K w_i²/r_i, with w_i the last component of the eigenvector of unit
length. The matrix has triangular factors, from above and from below, whose entries follow without
subtraction; shifted by r, they give the eigenvector from both ends to where it is largest, and a
correction of r (Dhillon and Parlett, Linear Algebra and its Applications 387, 2004). So every
r_i and every c_i, however small, keeps its relative accuracy.
"""

import functools
import math

import numpy as np
from scipy.linalg import eigh_tridiagonal

from qcore._numerics.compiled import njit

_HUGE = 1e100
_CORRECTIONS = 2


@functools.lru_cache(maxsize=32)
def of_full_house(servers, load):
    """Return the rates r_i and the logarithms of their weights c_i, in time of order K²."""
    index = np.arange(1.0, servers + 1.0)
    rates = load + index
    if servers > 1:
        beside = -np.sqrt(load * index[:-1])
        rates = eigh_tridiagonal(rates, beside, eigvals_only=True, lapack_driver="sterf")
    log_weights = np.empty(servers)
    _refine(load, rates, log_weights)
    rates.flags.writeable = log_weights.flags.writeable = False
    return rates, log_weights


@njit(error_model="numpy")
def _refine(load, rates, log_weights):
    """Correct the eigenvalues in place and fill in the logarithms of their weights."""
    servers = rates.size
    # Pivots of the matrix from above are j + 1 + above[j], from below load + below[j].
    above = np.empty(servers)
    below = np.empty(servers)
    above[0], below[servers - 1] = load, servers
    for j in range(1, servers):
        above[j] = load * above[j - 1] / (j + above[j - 1])
        i = servers - 1 - j
        below[i] = (i + 1) * below[i + 1] / (load + below[i + 1])
    down, up = np.empty(servers), np.empty(servers)
    left, right = np.empty(servers), np.empty(servers)
    tiny = 1e-40 * (1.0 + load)
    for i in range(servers):
        for step in range(_CORRECTIONS + 1):
            rate = rates[i]
            # left and right: by how much the shift changes the pivots down[j] and up[j].
            for j in range(servers):
                left[j] = -rate
                if j > 0:
                    left[j] += load * j * left[j - 1] / ((j + above[j - 1]) * down[j - 1])
                down[j] = j + 1 + above[j] + left[j]
                if down[j] == 0.0:
                    down[j] = tiny
            for j in range(servers - 1, -1, -1):
                right[j] = -rate
                if j < servers - 1:
                    right[j] += load * (j + 1) * right[j + 1] / ((load + below[j + 1]) * up[j + 1])
                up[j] = load + below[j] + right[j]
                if up[j] == 0.0:
                    up[j] = tiny
            remainder = math.inf
            for j in range(servers):
                at = left[j] + right[j] + rate + above[j] + below[j]
                if abs(at) < abs(remainder):
                    remainder, largest = at, j
            norm = square = 1.0
            for j in range(largest - 1, -1, -1):
                square *= load * (j + 1) / down[j] ** 2
                norm += square
            square, scale = 1.0, 0.0
            for j in range(largest + 1, servers):
                square *= load * j / up[j] ** 2
                norm += square * math.exp(scale)
                if square < 1.0 / _HUGE or square > _HUGE:
                    scale += math.log(square)
                    square = 1.0
            if step < _CORRECTIONS:
                rates[i] += remainder / norm
        log_weights[i] = scale + math.log(square) + math.log(servers / (norm * rates[i]))
