"""Stationary distributions and cycle totals of large sparse chains."""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu


class Cycles:
    """Solves for expected totals between visits to a frequently visited reference state.

    Where the reference state given is visited too seldom under the policy, the matrix is nearly
    singular, and its left null vector, which one solve reveals, shows where the chain lives; the
    reference state is moved there. If it is singular to rounding, slow killing of the chain makes
    that solve possible.

    States are eliminated by ``numbers``, from the top down: the number in the system moves by
    single steps, which keeps the factors small.
    """

    def __init__(self, rates, reference, numbers):
        self._rates, self._order = rates, np.argsort(-numbers, kind="stable")
        self._leaving = np.asarray(rates.sum(axis=1)).ravel()
        for _ in range(6):
            try:
                self._factorise(reference)
                usable = True
            except RuntimeError:
                self._factorise(reference, killing_rate=1e-9 * self._leaving.max())
                usable = False
            weights = np.abs(self._left)
            heaviest = int(np.argmax(weights))
            if usable and weights[heaviest] < 1e3:
                return
            reference = int(self.others[heaviest])
        raise ArithmeticError("no state is visited often enough to tell cycles of the chain apart")

    def _factorise(self, reference, killing_rate=0.0):
        self.reference = reference
        self.others = self._order[self._order != reference]
        self.out = self._rates[[reference]].toarray().ravel()[self.others]
        generator = sparse.diags_array(self._leaving + killing_rate) - self._rates
        inner = generator.tocsr()[self.others][:, self.others]
        spec = "NATURAL" if self.others.size < 200_000 else "COLAMD"
        self._lu = splu(inner.tocsc(), permc_spec=spec, diag_pivot_thresh=0.0)
        self._left = self._lu.solve(self.out, trans="T")

    def solve(self, right):
        return self._lu.solve(right)

    def distribution(self):
        """Stationary probabilities of all states."""
        weights = np.empty(self._order.size)
        weights[self.others] = self._left
        weights[self.reference] = 1.0
        weights = np.maximum(weights, 0.0)
        return weights / weights.sum()


def stationary(rates, reference, numbers):
    """Stationary distribution of an irreducible chain."""
    if rates.shape[0] == 1:
        return np.ones(1)
    return Cycles(rates, reference, numbers).distribution()


def rate_matrix(links, size):
    """Sparse matrix of transition rates between different states."""
    sources, targets, rates = [], [], []
    for source, target, rate in links:
        moves = source != target
        sources.append(source[moves])
        targets.append(target[moves])
        rates.append(np.broadcast_to(rate, source.shape)[moves])
    rates = np.concatenate(rates).astype(float)
    indices = np.concatenate(sources), np.concatenate(targets)
    matrix = sparse.coo_array((rates, indices), shape=(size, size)).tocsr()
    matrix.eliminate_zeros()
    return matrix
