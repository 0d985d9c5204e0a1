"""Many simulations at once, on the cores of one machine or on a cluster."""

import dataclasses
import inspect
from collections.abc import Mapping
from functools import partial

import numpy as np

from qcore._numerics.checks import count, flag, random_seed, shown, unwrap

MOST_RUNS = 10**6


def sweep(function, arguments, seed, *, workers=-1, progress=True):
    """Run a simulation once for each set of arguments, in parallel.

    Parameters
    ----------
    function : function
        Called as ``function(**arguments[i], seed=...)``, such as `deferrals`.
    arguments : sequence of dict
        The keyword arguments of each run, without the seed.
    seed : int
        Each run gets a seed of its own, spawned from this one; the results do not depend on the
        number of workers.
    workers : int, optional
        Number of processes, or -1 for all cores. Several need joblib; without it -1 is 1.
    progress : bool, optional
        Whether to show a progress bar, for which tqdm is needed; without it none is shown.

    Returns
    -------
    list
        The results, in the order of ``arguments``.

    Raises
    ------
    ValueError
        If ``arguments`` is empty or holds something else than dicts with names as keys, or another
        argument is outside its domain.
    ModuleNotFoundError
        If ``workers`` is 2 or more and joblib is not installed: ``pip install joblib tqdm``.

    Notes
    -----
    The runs are given out by joblib, so its configuration applies. On a Dask cluster, connect a
    ``dask.distributed.Client`` and call this function inside
    ``with joblib.parallel_config(backend="dask"):``.

    Examples
    --------
    >>> from qcore.simulate import Dsrt, deferrals, sweep
    >>> system = dict(servers=1, max_deferrals=1, arrival_rate=1.0, service_rate=1.0)
    >>> runs = [dict(system, policy=Dsrt(x), customers=200_000) for x in (0.1, 0.9)]
    >>> short, long = sweep(deferrals, runs, seed=1, workers=1, progress=False)
    >>> short.blocking_probability.value > long.blocking_probability.value
    True
    """
    function = _function(function)
    runs = [_keywords(f"arguments[{i}]", run) for i, run in enumerate(_listed(arguments))]
    if not runs:
        raise ValueError("arguments = []: must hold the arguments of at least one run")
    for i, run in enumerate(runs):
        _require_fitting(function, run, f"arguments[{i}]")
    workers = count("workers", workers, at_least=-1)
    if workers == 0:
        raise ValueError("workers = 0: must be -1, for all cores, or an integer >= 1")
    progress = flag("progress", progress)
    calls = [
        partial(function, **run, seed=run_seed)
        for run, run_seed in zip(runs, _seeds(seed, len(runs)), strict=True)
    ]
    return list(_with_bar(_results(calls, workers), len(calls), progress))


def _results(calls, workers):
    """Yield the results in order, from processes of joblib or, without it, from this one."""
    try:
        import joblib
    except ModuleNotFoundError as missing:
        if workers > 1:
            raise ModuleNotFoundError(
                f"workers = {workers}: several processes need joblib: pip install joblib tqdm",
                name=missing.name,
            ) from None
        return (call() for call in calls)
    # More processes than runs would stand idle.
    return joblib.Parallel(n_jobs=min(workers, len(calls)), return_as="generator")(
        joblib.delayed(call)() for call in calls
    )


def _with_bar(results, total, progress):
    """Return the results behind a progress bar, where one is wanted and tqdm is installed."""
    if not progress:
        return results
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return results
    return tqdm(results, total=total)


def _function(function):
    if not callable(function):
        raise ValueError(f"function = {shown(function)}: must be a function, such as deferrals")
    return function


def _require_fitting(function, run, name):
    """Refuse before any run is started what the function would refuse by a TypeError."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # as of some built-in functions
        return
    try:
        signature.bind(**run, seed=0)
    except TypeError as wrong:
        raise ValueError(
            f"{name} = {shown(dict(run))}: does not fit function = {shown(function)}: {wrong}"
        ) from None


def _listed(arguments):
    try:
        return list(arguments)
    except TypeError:
        raise ValueError(
            f"arguments = {shown(arguments)}: must be a sequence of dicts, one for each run"
        ) from None


def _keywords(name, run):
    if not isinstance(run, Mapping) or not all(isinstance(key, str) for key in run):
        raise ValueError(f"{name} = {shown(run)}: must be a dict of arguments by name")
    if "seed" in run:
        raise ValueError(f"{name}: must not hold a seed; every run gets its own from seed")
    return run


def replications(function, arguments, runs, seed, *, workers=-1, progress=True):
    """Run one simulation several times in parallel, with independent seeds, and pool the results.

    Parameters
    ----------
    function : function
        Called as ``function(**arguments, seed=...)``, such as `deferrals`; it returns a dataclass
        of estimates.
    arguments : dict
        The keyword arguments, without the seed.
    runs : int
        Number of runs, from 1 to 10⁶.
    seed, workers, progress
        As for `sweep`.

    Returns
    -------
    dataclass
        Of the same type: each estimate is the mean over the runs, each standard error the root of
        the sum of squares of the runs' own, divided by ``runs``; counts are added up.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    ModuleNotFoundError
        As for `sweep`.

    Notes
    -----
    Every run has its own warm-up, so a few long runs are better than many short ones.

    Examples
    --------
    >>> from qcore.simulate import Dsrt, deferrals, replications
    >>> arguments = dict(
    ...     servers=1,
    ...     max_deferrals=1,
    ...     arrival_rate=1.0,
    ...     service_rate=1.0,
    ...     policy=Dsrt(0.9),
    ...     customers=100_000,
    ... )
    >>> pooled = replications(deferrals, arguments, 4, seed=1, workers=1, progress=False)
    >>> pooled.blocking_probability.standard_error < 0.002
    True
    """
    runs = count("runs", runs, at_least=1, at_most=MOST_RUNS)
    arguments = _keywords("arguments", arguments)
    return _pooled(sweep(function, [arguments] * runs, seed, workers=workers, progress=progress))


def _seeds(seed, number):
    """Return independent seeds of 128 bits."""
    children = np.random.SeedSequence(random_seed(seed)).spawn(number)
    return [int.from_bytes(child.generate_state(4).tobytes(), "little") for child in children]


def _pooled(results):
    """Pool the parts of the results: standard errors add in squares, counts add, the rest is
    averaged where it differs.
    """
    first = results[0]
    if dataclasses.is_dataclass(first):
        return dataclasses.replace(
            first,
            **{
                field.name: _pooled_part(
                    field.name, [getattr(result, field.name) for result in results]
                )
                for field in dataclasses.fields(first)
            },
        )
    if isinstance(first, int):
        return sum(results)
    if first is None or all(np.array_equal(first, result) for result in results):
        return first
    return unwrap(np.mean(results, axis=0))


def _pooled_part(name, parts):
    if name == "standard_error":
        return unwrap(np.sqrt(np.sum(np.square(parts), axis=0)) / len(parts))
    return _pooled(parts)
