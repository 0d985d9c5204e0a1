"""Compilation by Numba, whose results are kept on disk where a place for them can be written."""

import functools

import numba
import numpy as np


def njit(function=None, *, cache=True, **options):
    """Compile as `numba.njit`, with a cache on disk unless there is no place for one.

    Numba looks for the place when it decorates: without this, a module could not be imported
    where neither its folder nor the home can be written. Where Numba is switched off, the function
    stays in Python, and is as silent about overflow as compiled code is.
    """
    if function is None:
        return functools.partial(njit, cache=cache, **options)
    if numba.config.DISABLE_JIT:
        return np.errstate(all="ignore")(function)
    try:
        return numba.njit(cache=cache, **options)(function)
    except RuntimeError:
        if not cache:
            raise
        return numba.njit(**options)(function)


def plain(function):
    """Return the Python function behind a compiled one; itself where Numba is switched off."""
    return getattr(function, "py_func", function)
