"""Checks of arguments: every message names the argument, its value and what is allowed."""

import operator

import numpy as np


def real(
    name,
    value,
    *,
    at_least=None,
    above=None,
    at_most=None,
    below=None,
    allow_infinite=False,
):
    """Return ``value`` as an array of floats (0-d for a scalar), each element in the domain."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} = {value!r}: must be a real number or an array of them") from None
    inside = ~np.isnan(array) if allow_infinite else np.isfinite(array)
    if at_least is not None:
        inside &= array >= at_least
    if above is not None:
        inside &= array > above
    if at_most is not None:
        inside &= array <= at_most
    if below is not None:
        inside &= array < below
    if not np.all(inside):
        raise ValueError(
            f"{name} = {_first_outside(array, inside)!r}: must be "
            + _domain(at_least, above, at_most, below, allow_infinite)
        )
    return array


def scalar(name, value, **domain):
    """Return ``value`` as one Python float in the domain; see `real`."""
    array = real(name, value, **domain)
    if array.ndim:
        raise ValueError(f"{name} = {value!r}: must be a single number, not an array")
    return float(array)


def count(name, value, *, at_least=0, at_most=None):
    """Return ``value`` as an int; a float with an integer value is refused, as indices are."""
    allowed = f"must be an integer >= {at_least}"
    if at_most is not None:
        allowed += f" and <= {at_most}"
    try:
        integer = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} = {value!r}: {allowed}") from None
    if isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} = {value!r}: {allowed}")
    if integer < at_least or (at_most is not None and integer > at_most):
        raise ValueError(f"{name} = {value!r}: {allowed}")
    return integer


def choice(name, value, allowed):
    """Return ``value`` if it is one of ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} = {value!r}: must be one of {', '.join(map(repr, allowed))}")
    return value


def unwrap(result):
    """Return a 0-d result as a Python float, and an array as it is."""
    return float(result) if np.ndim(result) == 0 else result


def _first_outside(array, inside):
    return float(array[~inside].flat[0])


def _domain(at_least, above, at_most, below, allow_infinite):
    bounds = []
    if not allow_infinite:
        bounds.append("finite")
    bounds += [
        f"{sign} {bound:g}"
        for sign, bound in ((">=", at_least), (">", above), ("<=", at_most), ("<", below))
        if bound is not None
    ]
    return " and ".join(bounds) if bounds else "a number, not NaN"
