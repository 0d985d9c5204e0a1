"""Random times from any frozen scipy.stats law: by a table of its quantiles, or by its own ``rvs``.

A smooth quantile function is tabulated once: each half of (0, 1) is cut into octaves towards its
end, so that the tails are resolved as well as the middle, each octave into equal pieces, and on
each piece the quantile is a polynomial through Chebyshev nodes. Drawing is then a few
multiplications whatever the law. The table is checked against the law between the nodes; a law
that fails (atoms, kinks, a quantile found by root search) is drawn by its own ``rvs``.
"""

from functools import lru_cache

import numpy as np
from scipy import stats

from qcore._numerics.compiled import njit

OCTAVES = 53  # down to 2**-54, half the spacing of 53-bit uniforms
PIECE_BITS = 4
PIECES = 2**PIECE_BITS
DEGREE = 5
RELATIVE_TOLERANCE = 1e-9
MEAN_TOLERANCE = 1e-12

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


class Law:
    """A checked law of non-negative times, with its table of quantiles if it has one.

    Attributes
    ----------
    mean : float
        Mean; may be infinite unless ``finite_mean`` was asked for.
    table : ndarray, shape (2 * OCTAVES * PIECES, DEGREE + 1), or None
        Polynomial coefficients, lower half of (0, 1) first, or None where ``rvs`` is used.
    """

    def __init__(self, name, law, *, finite_mean, positive_mean=True):
        self.mean = _checked_mean(name, law, finite_mean, positive_mean)
        self.table = _cached_table(_Key(law))
        self._law = law

    def draw(self, first, size, seed, generator):
        """Return the times numbered from ``first`` on: by the table, a function of the seed."""
        if self.table is not None:
            return tabulated_times(self.table, seed, first, size)
        times = np.asarray(self._law.rvs(size=size, random_state=generator), dtype=float)
        if not np.all(times >= 0):
            raise ValueError(f"{_describe(self._law)}: drew a negative time or NaN")
        return times


def _checked_mean(name, law, finite_mean, positive_mean):
    if not isinstance(getattr(law, "dist", None), stats.rv_continuous | stats.rv_discrete):
        raise ValueError(
            f"{name} = {law!r}: must be a frozen scipy.stats law, such as stats.expon(scale=2.0)"
        )
    shown = f"{name} = {_describe(law)}"
    lower, upper = law.support()
    if np.ndim(lower) or np.ndim(upper) or np.ndim(law.mean()):
        raise ValueError(f"{shown}: must be one law, not an array of laws")
    if np.isnan(lower) or np.isnan(upper):
        raise ValueError(f"{shown}: must have parameters that the law allows")
    if lower < 0:
        raise ValueError(
            f"{shown}: must be a law of times >= 0, but its support begins at {float(lower):g}"
        )
    mean = float(law.mean())
    if finite_mean and not np.isfinite(mean):
        raise ValueError(f"{shown}: must have a finite mean, but its mean is {mean:g}")
    if positive_mean and not mean > 0:
        raise ValueError(f"{shown}: must have a mean > 0, but its mean is {mean:g}")
    return mean


def _describe(law):
    arguments = [f"{value!r}" for value in law.args]
    arguments += [f"{key}={value!r}" for key, value in law.kwds.items()]
    return f"{law.dist.name}({', '.join(arguments)})"


class _Key:
    """A frozen law as a key of the cache: equal when the family and the parameters are."""

    def __init__(self, law):
        self.law = law
        family = type(law.dist)
        if family is type(getattr(stats, law.dist.name, None)):
            named = sorted((name, float(value)) for name, value in law.kwds.items())
            self._identity = (family, *map(float, law.args), *named)
        else:
            # A law made by the user may hold more than its parameters.
            self._identity = (id(law),)

    def __hash__(self):
        return hash(self._identity)

    def __eq__(self, other):
        return self._identity == other._identity


@lru_cache(maxsize=64)
def _cached_table(key):
    return _quantile_table(key.law)


def _quantile_table(law):
    """Return the coefficients of the piecewise polynomial, or None where it would not do."""
    family = type(law.dist)
    if not isinstance(law.dist, stats.rv_continuous) or family._ppf is stats.rv_continuous._ppf:
        return None
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1)) / 2
    between = np.linspace(-0.5, 0.5, 2 * DEGREE + 3)
    to_coefficients = np.linalg.inv(np.vander(nodes, increasing=True))
    with np.errstate(all="ignore"):
        halves = [law.ppf, law.isf]
        at_nodes = np.concatenate([quantile(_tails(nodes)) for quantile in halves])
        if not np.all(np.isfinite(at_nodes)):
            return None
        table = at_nodes @ to_coefficients.T
        exact = np.concatenate([quantile(_tails(between)) for quantile in halves])
    error = np.abs(table @ np.vander(between, DEGREE + 1, increasing=True).T - exact)
    scale = law.mean() if np.isfinite(law.mean()) else law.median()
    if not np.all(error <= RELATIVE_TOLERANCE * np.abs(exact) + MEAN_TOLERANCE * scale):
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
