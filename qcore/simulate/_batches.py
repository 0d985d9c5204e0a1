"""Standard errors of long-run ratios by batch means."""

import warnings

import numpy as np

BATCHES = 64
RELAXATIONS = 2.0  # that a batch must last, for intervals of 95 % to cover 92 %
SUSPICIOUS_CORRELATION = 0.6  # five standard errors of that of independent batches
ROUNDING = 1e-9  # relative errors below which are no noise


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
    total = np.sum(denominators, dtype=float)
    value = numerators.sum(axis=0) / total
    residuals = _residuals(numerators, denominators, value)
    variance = np.sum(residuals**2, axis=0)
    variance += 2 * np.maximum(0, np.sum(residuals[1:] * residuals[:-1], axis=0))
    return value, np.sqrt(variance * BATCHES / (BATCHES - 1)) / total


def _residuals(numerators, denominators, value):
    return numerators - np.multiply.outer(np.asarray(denominators, dtype=float), value)


def neighbour_correlation(numerators, denominators):
    """Return the correlation of the residuals of neighbouring batches; 0 where there is no noise.

    A memory of two batches gives 0.73, of one 0.54, of half a batch 0.33.
    """
    value = np.sum(numerators) / np.sum(denominators)
    residuals = _residuals(numerators, denominators, value)
    square = np.sum(residuals**2)
    if square <= len(residuals) * (ROUNDING * np.abs(numerators).max()) ** 2:
        return 0.0
    return np.sum(residuals[1:] * residuals[:-1]) / square


def warn_if_short(customers, warmup, *, relaxation, forgotten, interarrival, stacklevel):
    """Warn where batches or warm-up are shorter than the memory of the system asks for.

    Return whether a warning was given.

    ``relaxation`` is the time in which correlations fall by a factor e, ``forgotten`` that after
    which the start does not matter, ``interarrival`` the mean time between arrivals.
    """
    needed = BATCHES * RELAXATIONS * relaxation / interarrival
    if customers < needed:
        warnings.warn(
            f"customers = {customers}: too few for honest standard errors; what happens is "
            f"correlated over about {relaxation:.3g} units of time, and each of {BATCHES} batches "
            f"must last {RELAXATIONS:g} times as long: take at least {needed:.0f}",
            stacklevel=stacklevel + 1,
        )
        return True
    if warmup < forgotten / interarrival:
        warnings.warn(
            f"warmup = {warmup}: too few to forget the empty start, which takes about "
            f"{forgotten:.3g} units of time: take at least {forgotten / interarrival:.0f}",
            stacklevel=stacklevel + 1,
        )
        return True
    return False


def warn_if_correlated(customers, measures, stacklevel):
    """Warn where neighbouring batches of a measure are too alike to give its standard error.

    ``measures`` maps names to pairs of numerators and denominators.
    """
    alike = [
        name
        for name, pair in measures.items()
        if neighbour_correlation(*pair) > SUSPICIOUS_CORRELATION
    ]
    if alike:
        warnings.warn(
            f"customers = {customers}: too few for honest standard errors of "
            f"{', '.join(alike)}; neighbouring batches of the run are correlated",
            stacklevel=stacklevel + 1,
        )
