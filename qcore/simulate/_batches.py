"""Standard errors of long-run ratios by batch means."""

import numpy as np

BATCHES = 64


def batch_sizes(customers):
    """Split the customers into batches whose sizes differ by one at most."""
    return np.diff(np.arange(BATCHES + 1) * customers // BATCHES)


def ratio(numerators, denominators):
    r"""Return the ratio of sums over batches (axis 0) and its standard error.

    With residuals :math:`e_i` = numerator − ratio × denominator of batch i, the variance of their
    sum is estimated by

    .. math:: \frac{n}{n-1} \Bigl( \sum_i e_i^2 + 2 \max\bigl(0, \sum_i e_i e_{i+1}\bigr) \Bigr).

    The covariance of neighbours removes the leading bias of batches that are not long beside the
    memory of the process; leaving out its negative values costs 5 % of the standard error of
    independent batches, which is what the few degrees of freedom ask for.
    """
    numerators = np.asarray(numerators, dtype=float)
    denominators = np.asarray(denominators, dtype=float)
    total = denominators.sum()
    value = numerators.sum(axis=0) / total
    residuals = numerators - np.multiply.outer(denominators, value)
    variance = np.sum(residuals**2, axis=0)
    variance += 2 * np.maximum(0, np.sum(residuals[1:] * residuals[:-1], axis=0))
    return value, np.sqrt(variance * BATCHES / (BATCHES - 1)) / total
