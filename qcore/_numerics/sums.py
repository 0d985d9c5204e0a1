"""Sums of long sequences that vary slowly, exact to rounding at a cost that grows like log n.

A block of consecutive integers is summed by a rule on a few of them that is exact for polynomials;
its result is compared with that of its two halves, and the block is halved until they agree. Short
blocks are summed term by term, so no smoothness is assumed that is not checked.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

SHORTEST = 512  # blocks up to this length are summed term by term
_FIRST = 64
_NODES = 32
_GAP_NODES = 16
_TOLERANCE = 1e-14  # for a block against its halves, which are far better than that
_NEGLIGIBLE = math.log(1e-18)
_NOTHING = -800.0  # exp of it is 0
_UNBOUNDED = 800.0
_LONGEST = 2.0**200


@dataclass(frozen=True)
class _Rule:
    """Sums over 0, …, length − 1 from values at ``offsets``.

    The partial sums up to each offset come from values at the points of ``gaps``, a row for each
    gap between consecutive offsets and one for the rest of the block, with their weights.
    """

    length: int
    offsets: np.ndarray
    weights: np.ndarray

    @functools.cached_property
    def gaps(self):
        ends = np.concatenate([[0.0], self.offsets, [self.length]])
        rules = [gauss_rule(int(gap), _GAP_NODES) for gap in np.diff(ends)]
        points = [start + nodes for start, (nodes, _) in zip(ends, rules, strict=False)]
        return np.array(points), np.array([weights for _, weights in rules])


def gauss_rule(length, nodes):
    """Return nodes and weights of Gauss quadrature for the sum over 0, …, length − 1.

    The orthogonal polynomials are Chebyshev's discrete ones (DLMF 18.22), with recurrence
    coefficients α = (length − 1)/2 and β_k = k²(length² − k²)/(4(4k² − 1)).
    """
    if length <= nodes:
        points = np.concatenate([np.arange(length), np.zeros(nodes - length)])
        return points, np.concatenate([np.ones(length), np.zeros(nodes - length)])
    points, vectors = eigh_tridiagonal(np.full(nodes, (length - 1) / 2), _betas(length, nodes))
    return points, length * vectors[0] ** 2


def _betas(length, nodes):
    k = np.arange(1.0, nodes)
    return k / 2 * np.sqrt((length - k) * (length + k) / ((2 * k - 1) * (2 * k + 1)))


@functools.lru_cache(maxsize=256)
def block_rule(length):
    """Return the `_Rule` for a block of ``length`` integers, a power of two > SHORTEST."""
    gauss_points, _ = gauss_rule(length, _NODES)
    offsets = np.round(gauss_points)
    offsets[0], offsets[-1] = 0, length - 1  # a jump just inside an end is to be seen
    # Weights exact for polynomials of degree < _NODES: in the orthonormal basis only the
    # constant has a sum, √length.
    beta = _betas(length, _NODES)
    basis = np.zeros((_NODES, _NODES))
    basis[0] = 1 / math.sqrt(length)
    centred = offsets - (length - 1) / 2
    for k in range(_NODES - 1):
        basis[k + 1] = centred * basis[k] - (beta[k - 1] * basis[k - 1] if k else 0)
        basis[k + 1] /= beta[k]
    weights = np.linalg.solve(basis, np.concatenate([[math.sqrt(length)], np.zeros(_NODES - 1)]))
    return _Rule(length, offsets, weights)


class Sequence:
    """Terms t_n = exp(log t_n), n = 0, 1, …, each with a weight; subclasses give the values."""

    def direct(self, start, length, base):
        """Return log t and the weights at start, …, start + length − 1, and the next base."""
        raise NotImplementedError

    def at_rule(self, start, rule, base):
        """The same at start + rule.offsets."""
        raise NotImplementedError

    def log_tail(self, start, base):
        """Return log t_start and the log of a bound on the sum of t_n over n ≥ start, or ∞."""
        raise NotImplementedError


def sum_sequence(sequence):
    """Return (log scale, Σ_{n≥1} t_n/scale, Σ_{n≥0} weight_n t_n/scale), t_0 = 1.

    The scale is 1 unless terms are large. Once a term exceeds e^800 the sums are as good as
    infinite, and so they are returned. The weighted tail is taken to be of the order of its first
    term at most, as it is for weights 1 − t_{n+1}/(ρt_n) with ρ ≤ 1.
    """
    logs, weights, base = sequence.direct(0, _FIRST, 0.0)
    total = _Total(max(0.0, float(logs.max())))
    total.add(logs[1:], np.ones(len(logs) - 1), weights[1:])
    total.weighted += math.exp(-total.scale) * float(weights[0])
    start = length = _FIRST
    while True:
        if total.outweighs(*sequence.log_tail(start, base)):
            return total.scale, total.plain, total.weighted
        if total.scale > _UNBOUNDED:
            return math.inf, math.inf, math.inf
        if start > _LONGEST:
            raise ValueError("the sum over the waiting customers converges too slowly")
        base = _add_block(sequence, start, length, base, total)
        start, length = start + length, 2 * length


class _Total:
    """Running sums relative to exp(scale)."""

    def __init__(self, scale):
        self.scale = scale
        self.plain = 0.0
        self.weighted = 0.0

    @property
    def all(self):
        return self.plain + math.exp(-self.scale)

    def outweighs(self, log_first, log_tail):
        """Whether a tail, given its first term and a bound, is negligible for both sums."""
        if log_tail - self.scale > _NEGLIGIBLE + math.log(self.all):
            return False
        if self.weighted > 0:
            return log_first - self.scale <= _NEGLIGIBLE + math.log(self.weighted)
        return log_first < _NOTHING

    def add(self, logs, counts, weights):
        largest = float(logs.max())
        if largest > self.scale + 30:
            shrink = math.exp(self.scale - largest)
            self.plain *= shrink
            self.weighted *= shrink
            self.scale = largest
        terms = counts * np.exp(logs - self.scale)
        self.plain += float(terms.sum())
        self.weighted += float((terms * weights).sum())


def _add_block(sequence, start, length, base, total):
    """Add a block to the total, halving it as often as needed; return the base after it."""
    stack = [(start, length, None)]
    while stack:
        start, length, whole = stack.pop()
        if length <= SHORTEST:
            logs, weights, base = sequence.direct(start, length, base)
            total.add(logs, np.ones(length), weights)
            continue
        rule, half = block_rule(length), length // 2
        logs, weights, end = whole or sequence.at_rule(start, rule, base)
        if half <= SHORTEST:
            stack += [(start + half, half, None), (start, half, None)]
            continue
        part = block_rule(half)
        left = sequence.at_rule(start, part, base)
        right = sequence.at_rule(start + half, part, left[2])
        scale = max(total.scale, float(logs.max()))
        sums = [
            np.array([(terms := r.weights * np.exp(x - scale)).sum(), (terms * w).sum()])
            for r, (x, w, _) in ((rule, (logs, weights, end)), (part, left), (part, right))
        ]
        allowed = _TOLERANCE * np.maximum(
            np.array([total.all, total.weighted]) * math.exp(total.scale - scale),
            sums[1] + sums[2],
        )
        bases_agree = abs(end - right[2]) <= _TOLERANCE * max(1.0, abs(right[2]))
        if bases_agree and np.all(np.abs(sums[1] + sums[2] - sums[0]) <= allowed):
            for logs, weights, _ in (left, right):
                total.add(logs, part.weights, weights)
            base = right[2]
        else:
            stack += [(start + half, half, None), (start, half, left)]
    return base


def compensated_cumsum(increments):
    """Return the running sums, each as exact as one rounding: Neumaier's compensation."""
    sums = np.cumsum(increments)
    before = np.concatenate([[0.0], sums[:-1]])
    # What each addition lost, exactly (Knuth's two-sum), added up in turn.
    virtual = sums - before
    lost = (before - (sums - virtual)) + (increments - virtual)
    return sums + np.cumsum(lost)
