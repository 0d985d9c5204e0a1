"""Drawing from a law by a table of its quantiles.

Each half of (0, 1) is cut into octaves towards its end, so that the tails are resolved as well as
the middle, each octave into equal pieces, and on each piece the quantile is a polynomial through
Chebyshev nodes. Drawing is then a few multiplications whatever the law. The table is checked
against the law between the nodes.
"""

import numpy as np

from qcore._numerics.compiled import njit

OCTAVES = 53  # down to 2**-54, half the spacing of 53-bit uniforms
PIECE_BITS = 4
PIECES = 2**PIECE_BITS
DEGREE = 5
RELATIVE_TOLERANCE = 1e-9
TYPICAL_TOLERANCE = 1e-12  # in mean times, or medians where the mean is infinite

_ROWS = np.uint64(OCTAVES * PIECES)
_SHIFT = np.uint64(52 - PIECE_BITS)
_PIECE_BITS = np.uint64(PIECE_BITS)
_FIRST_ROW = np.uint64((1023 - OCTAVES - 1) << PIECE_BITS)
_MANTISSA = np.uint64(2**52 - 1)
_ONE = np.uint64(1023 << 52)  # the bits of 1.0
_TOP = np.uint64(63)
_SPARE_BITS = np.uint64(11)
_STEP = np.uint64(1)
_STRIP = 512  # numbers drawn in one go, to stay in the nearest cache

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def quantile_table(ppf, isf, typical):
    """Return the coefficients of the piecewise polynomial, or None where it would not do.

    Parameters
    ----------
    ppf, isf : function
        The quantile at a probability of the tail below, and of the tail above.
    typical : float
        A typical time, beside which much smaller ones need no relative accuracy.

    Returns
    -------
    ndarray, shape (2 * OCTAVES * PIECES, DEGREE + 1), or None
        The lower half of (0, 1) first.
    """
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1)) / 2
    between = np.linspace(-0.5, 0.5, 2 * DEGREE + 3)
    to_coefficients = np.linalg.inv(np.vander(nodes, increasing=True))
    with np.errstate(all="ignore"):
        at_nodes = np.concatenate([quantile(_tails(nodes)) for quantile in (ppf, isf)])
        if not np.all(np.isfinite(at_nodes)):
            return None
        table = at_nodes @ to_coefficients.T
        exact = np.concatenate([quantile(_tails(between)) for quantile in (ppf, isf)])
    error = np.abs(table @ np.vander(between, DEGREE + 1, increasing=True).T - exact)
    if not np.all(error <= RELATIVE_TOLERANCE * np.abs(exact) + TYPICAL_TOLERANCE * typical):
        return None
    return np.ascontiguousarray(table)


def _tails(offsets):
    """Return the tail probabilities at the offsets from the middle of every piece, a row each."""
    octave = np.exp2(np.arange(-OCTAVES - 1.0, -1.0))[:, None, None]
    piece = np.arange(PIECES)[None, :, None]
    return (octave * (1 + (piece + 0.5 + offsets) / PIECES)).reshape(-1, len(offsets))


@njit
def random_bits(seed, index):
    """Return 64 random bits, number ``index`` of the SplitMix64 sequence that starts at ``seed``.

    Being a function of the index, it gives a customer the same times under every policy.
    """
    bits = seed + (np.uint64(index) + _STEP) * _GOLDEN
    bits = (bits ^ (bits >> _SHIFTS[0])) * _MIX_1
    bits = (bits ^ (bits >> _SHIFTS[1])) * _MIX_2
    return bits ^ (bits >> _SHIFTS[2])


@njit
def random_uniform(seed, index):
    """Return the uniform number on [0, 1), a multiple of 2⁻⁵³, made of `random_bits`."""
    return np.float64(random_bits(seed, index) >> _SPARE_BITS) * 2.0**-53


@njit
def place_in_table(bits):
    """Return the row of the table and the place on its piece for a uniform number made of bits.

    The top bit chooses the half; 52 others give the probability of the tail beyond, an odd
    multiple of 2**-54. Its exponent and leading mantissa bits number the row, the rest of the
    mantissa is the place, from -1/2 to 1/2.
    """
    one_to_two = np.uint64(((bits >> _SPARE_BITS) & _MANTISSA) | _ONE).view(np.float64)
    tail = (one_to_two - (1 - 2.0**-53)) / 2
    pattern = np.float64(tail).view(np.uint64)
    row = (bits >> _TOP) * _ROWS + (pattern >> _SHIFT) - _FIRST_ROW
    place = np.uint64(((pattern << _PIECE_BITS) & _MANTISSA) | _ONE).view(np.float64) - 1.5
    return row, place


@njit
def tabulated_times(table, seed, first, size):
    """Return the quantiles at the uniform numbers ``first``, ``first + 1``, … of the seed."""
    times = np.empty(size)
    rows = np.empty(_STRIP, dtype=np.uint64)
    places = np.empty(_STRIP)
    for begin in range(0, size, _STRIP):
        length = min(_STRIP, size - begin)
        # Two loops, because the first has an instruction set of its own: it runs in parallel.
        for i in range(length):
            rows[i], places[i] = place_in_table(random_bits(seed, first + begin + i))
        for i in range(length):
            c = table[rows[i]]
            x = places[i]
            times[begin + i] = c[0] + x * (c[1] + x * (c[2] + x * (c[3] + x * (c[4] + x * c[5]))))
    return times


@njit
def resampled_times(values, seed, first, size):
    """Return values drawn with replacement at the uniform numbers ``first``, … of the seed."""
    times = np.empty(size)
    for i in range(size):
        times[i] = values[int(random_uniform(seed, first + i) * len(values))]
    return times
