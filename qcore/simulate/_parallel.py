"""Many simulations at once, on the cores of one machine or on a cluster."""

import dataclasses

import numpy as np

from qcore._numerics.checks import count, random_seed, unwrap


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
        Number of processes, or -1 for all cores.
    progress : bool, optional
        Whether to show a progress bar.

    Returns
    -------
    list
        The results, in the order of ``arguments``.

    Raises
    ------
    ValueError
        If ``arguments`` is empty, or ``seed`` or ``workers`` is outside its domain.

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
    import joblib
    from tqdm import tqdm

    arguments = list(arguments)
    if not arguments:
        raise ValueError("arguments = []: must hold the arguments of at least one run")
    if workers != -1:
        count("workers", workers, at_least=1)
    parallel = joblib.Parallel(n_jobs=workers, return_as="generator")
    results = parallel(
        joblib.delayed(function)(**run, seed=run_seed)
        for run, run_seed in zip(arguments, _seeds(seed, len(arguments)), strict=True)
    )
    return list(tqdm(results, total=len(arguments), disable=not progress))


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
        Number of runs, >= 1.
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
        If ``runs``, ``seed`` or ``workers`` is outside its domain.

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
    runs = count("runs", runs, at_least=1)
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
