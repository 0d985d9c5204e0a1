"""Standard errors of long-run ratios by overlapping batch means."""

import numpy as np

BATCHES = 256
WINDOW = 8


def batch_sizes(customers):
    """Split the customers into batches whose sizes differ by one at most."""
    return np.diff(np.arange(BATCHES + 1) * customers // BATCHES)


def ratio(numerators, denominators):
    """Return the ratio of sums over batches (axis 0) and its standard error.

    The standard error is the one of Meketon and Schmeiser's overlapping batch means of the
    residuals, each mean over a 32nd of the run.
    """
    numerators = np.asarray(numerators, dtype=float)
    denominators = np.asarray(denominators, dtype=float)
    total = denominators.sum()
    value = numerators.sum(axis=0) / total
    residuals = numerators - np.multiply.outer(denominators, value)
    sums = np.cumsum(residuals, axis=0)
    windows = sums[WINDOW - 1 :].copy()
    windows[1:] -= sums[:-WINDOW]
    freedom = WINDOW * (BATCHES - WINDOW) * (BATCHES - WINDOW + 1)
    return value, BATCHES * np.sqrt(np.sum(windows**2, axis=0) / freedom) / total
