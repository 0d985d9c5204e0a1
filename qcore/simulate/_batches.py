"""Standard errors of long-run ratios by batch means."""

import numpy as np

BATCHES = 256
_FEWEST_BATCHES = 32
_LARGEST_CORRELATION = 0.5


def batch_sizes(customers):
    """Split the customers into batches whose sizes differ by one at most."""
    return np.diff(np.arange(BATCHES + 1) * customers // BATCHES)


def ratio(numerators, denominators):
    """Return the ratio of the sums over batches (axis 0) and its standard error.

    Neighbouring batches are merged, from 256 down to 32, until the correlation of neighbours is
    below half of its own standard error under independence, so that the batches are only as long
    as the memory of the process asks for and the standard error has as many degrees of freedom
    as it can have.
    """
    numerators = np.asarray(numerators, dtype=float)
    denominators = np.asarray(denominators, dtype=float)
    value = numerators.sum(axis=0) / denominators.sum()
    residuals = numerators - np.multiply.outer(denominators, value)
    variance = np.zeros_like(value)
    settled = np.zeros(value.shape, dtype=bool)
    while True:
        batches = len(residuals)
        squares = np.sum(residuals**2, axis=0)
        variance = np.where(settled, variance, squares * batches / (batches - 1))
        neighbours = np.sum(residuals[1:] * residuals[:-1], axis=0)
        settled |= neighbours <= _LARGEST_CORRELATION / np.sqrt(batches) * squares
        if batches == _FEWEST_BATCHES or np.all(settled):
            return value, np.sqrt(variance) / denominators.sum()
        residuals = residuals[0::2] + residuals[1::2]
