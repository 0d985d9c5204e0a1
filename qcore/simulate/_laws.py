"""The laws of random times that the simulation of the queue takes.

A law comes as a number, as a sample, or as a distribution of SciPy in any of its forms. Each is
turned into a `Law`, which knows what the simulation needs: its mean and variation, its survival
function, and how to draw from it.
"""

import numbers
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from scipy import stats

from qcore._numerics import checks
from qcore.simulate._quantile_table import quantile_table, resampled_times, tabulated_times

_TAKEN = (
    "must be a number (a constant time), a one-dimensional sample of times, or a frozen SciPy "
    "distribution, such as stats.expon(scale=2.0)"
)
_NEW_METHODS = ("mean", "variance", "support", "icdf", "iccdf", "ccdf", "sample")


@dataclass(frozen=True)
class Law:
    """A checked law of non-negative times.

    Attributes
    ----------
    mean, squared_variation : float
        Mean, and variance over the square of the mean; either may be infinite.
    tail_index : float
        The power with which the tail falls where it is met once in 10¹² to 10¹⁵ times.
    survival : function
        The probability of more than a time, for an array of times.
    draw : function
        ``draw(first, size, seed, generator)`` gives the times numbered from ``first`` on: a
        function of the seed, or of the state of the generator where SciPy draws them.
    table : ndarray or None
        The quantiles that it draws from, where there is such a table.
    """

    mean: float
    squared_variation: float
    tail_index: float
    survival: Callable
    draw: Callable
    table: np.ndarray | None = None


def law_of_times(name, given, *, finite_mean, positive_mean=True):
    """Return the `Law` that the argument of this name stands for."""
    if isinstance(given, numbers.Number | np.generic | str | bytes) or _shape(given) == ():
        law = _constant(checks.scalar(name, given, at_least=0.0, at_most=checks.LARGEST))
        shown = f"{name} = {checks.shown(given)}"
    elif _shape(given) is not None:
        law = _resampled(_checked_sample(name, given))
        shown = f"{name} = {checks.shown(given)}"
    else:
        distribution = _distribution(name, given)
        shown = f"{name} = {distribution}"
        law = _from_distribution(shown, distribution, finite_draws=finite_mean)
    if finite_mean and not np.isfinite(law.mean):
        raise ValueError(f"{shown}: must have a finite mean, but its mean is {law.mean:g}")
    if positive_mean and not law.mean > 0:
        raise ValueError(f"{shown}: must have a mean > 0, but its mean is {law.mean:g}")
    if 0 < law.mean < 1 / checks.LARGEST or checks.LARGEST < law.mean < np.inf:
        raise ValueError(
            f"{shown}: must have a mean from {1 / checks.LARGEST:g} to {checks.LARGEST:g}, "
            f"but its mean is {law.mean:g}"
        )
    return law


def _shape(given):
    """Return the shape of an array or a sequence, and None of anything else."""
    if hasattr(given, "__array__") or isinstance(given, Sequence):
        try:
            return np.shape(given)
        except ValueError:  # rows of different lengths
            return (-1,)
    return None


def _constant(time):
    return Law(
        mean=time,
        squared_variation=0.0,
        tail_index=np.inf,
        survival=lambda times: (np.asarray(times) < time).astype(float),
        draw=lambda first, size, seed, generator: np.full(size, time),
    )


def _checked_sample(name, given):
    sample = checks.real(name, given, at_least=0.0, at_most=checks.LARGEST)
    if sample.ndim != 1 or not sample.size:
        raise ValueError(f"{name} = {checks.shown(given)}: {_TAKEN}; this one is of {sample.shape}")
    return np.sort(sample)


def _resampled(sample):
    """Return the law that gives each time of a sorted sample the same chance."""
    return Law(
        mean=float(np.mean(sample)),
        squared_variation=_squared_variation(np.mean(sample), np.var(sample)),
        tail_index=np.inf,
        survival=lambda times: 1 - np.searchsorted(sample, times, side="right") / len(sample),
        draw=lambda first, size, seed, generator: resampled_times(sample, seed, first, size),
    )


def _squared_variation(mean, variance):
    if not np.isfinite(mean) or np.isnan(variance):
        return np.inf
    return float(variance / mean / mean) if mean > 0 else 0.0


# The distributions of SciPy, old and new, under the names of the old.


class _Frozen:
    """A frozen law of the families in `scipy.stats`."""

    def __init__(self, law):
        self.law = law
        self.mean, self.variance, self.support = law.mean, law.var, law.support
        self.ppf, self.isf, self.sf = law.ppf, law.isf, law.sf

    def rvs(self, size, generator):
        return self.law.rvs(size=size, random_state=generator)

    @property
    def smooth(self):
        """Whether the family states its quantiles; else SciPy seeks each by root search."""
        family = type(self.law.dist)
        return (
            isinstance(self.law.dist, stats.rv_continuous)
            and family._ppf is not stats.rv_continuous._ppf
        )

    def identity(self):
        """Return what is equal for two laws only if they are the same law."""
        family = type(self.law.dist)
        if family is type(getattr(stats, self.law.dist.name, None)):
            named = sorted((name, float(value)) for name, value in self.law.kwds.items())
            return (family, *map(float, self.law.args), *named)
        # A law made by the user may hold more than its parameters.
        return (id(self.law),)

    def __repr__(self):
        arguments = [f"{value!r}" for value in self.law.args]
        arguments += [f"{key}={value!r}" for key, value in self.law.kwds.items()]
        return f"{self.law.dist.name}({', '.join(arguments)})"


class _New:
    """A random variable of SciPy's newer kind, such as ``stats.make_distribution`` makes."""

    def __init__(self, law):
        self.law = law
        self.mean, self.variance, self.support = law.mean, law.variance, law.support
        self.ppf, self.isf, self.sf = law.icdf, law.iccdf, law.ccdf
        self.smooth = True

    def rvs(self, size, generator):
        return self.law.sample(size, rng=generator)

    def identity(self):
        return (id(self.law),)

    def __repr__(self):
        return " ".join(repr(self.law).split())


def _distribution(name, given):
    if isinstance(getattr(given, "dist", None), stats.rv_continuous | stats.rv_discrete):
        return _Frozen(given)
    tabulated_masses = isinstance(given, stats.rv_discrete) and hasattr(given, "xk")
    if isinstance(given, stats.rv_histogram) or tabulated_masses:
        return _Frozen(given())  # a table has no parameters that could be left open
    if not isinstance(given, type) and all(hasattr(given, method) for method in _NEW_METHODS):
        return _New(given)
    raise ValueError(f"{name} = {checks.shown(given)}: {_TAKEN}")


def _from_distribution(shown, distribution, *, finite_draws):
    lower, upper = distribution.support()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a moment that does not exist is asked for
        mean, variance = distribution.mean(), distribution.variance()
    if np.ndim(lower) or np.ndim(upper) or np.ndim(mean):
        raise ValueError(f"{shown}: must be one law, not an array of laws")
    if np.isnan(lower) or np.isnan(upper):
        raise ValueError(
            f"{shown}: must have parameters that the law allows; a constant time is a number"
        )
    if lower < 0:
        raise ValueError(
            f"{shown}: must be a law of times >= 0, but its support begins at {float(lower):g}"
        )
    table = _cached_table(_Key(distribution)) if distribution.smooth else None
    if table is not None:
        draw = partial(_draw_from_table, table)
    else:
        longest = np.finfo(float).max if finite_draws else np.inf
        draw = partial(_draw_by_scipy, shown, distribution, longest)
    return Law(
        mean=float(mean),
        squared_variation=_squared_variation(mean, variance),
        tail_index=_tail_index(distribution.isf),
        survival=distribution.sf,
        draw=draw,
        table=table,
    )


def _tail_index(isf):
    with np.errstate(all="ignore"):
        near, far = (float(isf(probability)) for probability in (1e-12, 1e-15))
    if near == far:
        return np.inf
    return np.log(1e3) / np.log(far / near) if 0 < near < far < np.inf else 0.0


def _draw_from_table(table, first, size, seed, generator):
    return tabulated_times(table, seed, first, size)


def _draw_by_scipy(shown, distribution, longest, first, size, seed, generator):
    times = np.asarray(distribution.rvs(size, generator), dtype=float)
    if not np.all((times >= 0) & (times <= longest)):
        raise ValueError(f"{shown}: drew a negative or infinite time or NaN")
    return times


class _Key:
    """A distribution as a key of the cache, which keeps it alive and so its identity its own."""

    def __init__(self, distribution):
        self.distribution = distribution
        self._identity = distribution.identity()

    def __hash__(self):
        return hash(self._identity)

    def __eq__(self, other):
        return self._identity == other._identity


@lru_cache(maxsize=64)
def _cached_table(key):
    distribution = key.distribution
    mean = distribution.mean()
    typical = mean if np.isfinite(mean) else distribution.ppf(0.5)
    return quantile_table(distribution.ppf, distribution.isf, typical)
