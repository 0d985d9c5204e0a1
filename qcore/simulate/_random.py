"""Random numbers inside compiled loops: the generator xoshiro256++.

Numba cannot keep code on disk that draws from a NumPy generator, whose state is reached through
an address; it can when the state is an array.
"""

import numpy as np

from qcore._numerics.compiled import njit


def random_state(seed):
    """Return the four words of state of a generator with this NumPy `SeedSequence`."""
    return seed.generate_state(4, np.uint64)


@njit
def uniform(state):
    """Draw from the uniform law on [0, 1), a multiple of 2⁻⁵³."""
    word = state[0] + state[3]
    word = ((word << np.uint64(23)) | (word >> np.uint64(41))) + state[0]
    shifted = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << np.uint64(45)) | (state[3] >> np.uint64(19))
    return (word >> np.uint64(11)) * 2.0**-53


@njit
def exponential(state):
    """Draw from the exponential law of mean 1, by inversion."""
    return -np.log(1.0 - uniform(state))
