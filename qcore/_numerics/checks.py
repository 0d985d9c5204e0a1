"""Checks of arguments: every message names the argument, its value and what is allowed."""

import decimal
import math
import numbers
import operator

import numpy as np

LARGEST = 1e150  # products of parameters up to it stay in range

_LARGEST_COUNT = np.iinfo(np.int64).max
_REAL_TYPES = (numbers.Real, decimal.Decimal)


class _NotReal(Exception):
    """The value is no real number, or no array of them."""


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
    """Return ``value`` as an array of floats (0-d for a scalar), each element in the domain.

    A number is whatever converts to a float as it stands: an int, a NumPy number, a Fraction, a
    Decimal; −0.0 becomes 0.0. Booleans, strings, complex numbers, dates, None, masked arrays and
    arrays of objects are refused.
    """
    array = numbers_of(name, value)
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


def numbers_of(name, value):
    """Return ``value`` as a new array of floats, of any size and sign; see `real`."""
    try:
        array = np.array(_float_array(value))
    except OverflowError:
        raise ValueError(f"{name} = {shown(value)}: must be at most 1.8e308 in size") from None
    except (_NotReal, TypeError, ValueError):
        unmasked = ", without a mask" if isinstance(value, np.ma.MaskedArray) else ""
        raise ValueError(
            f"{name} = {shown(value)}: must be a real number or an array of them{unmasked}"
        ) from None
    array += 0.0  # makes 0.0 of −0.0
    return array


def scalar(name, value, **domain):
    """Return ``value`` as one Python float in the domain; see `real`."""
    array = real(name, value, **domain)
    if array.ndim:
        raise ValueError(f"{name} = {shown(value)}: must be a single number, not an array")
    return float(array)


def count(name, value, *, at_least=0, at_most=_LARGEST_COUNT):
    """Return ``value`` as an int; a float with an integer value is refused, as indices are.

    What does not fit into 64 bits is refused too, unless ``at_most`` is infinite: no array has
    that many elements.
    """
    try:
        integer = operator.index(value)
        inside = at_least <= integer <= at_most
    except TypeError:
        integer, inside = 0, False
    if isinstance(value, bool | np.bool_ | np.ma.MaskedArray) or not inside:
        allowed = f"must be an integer >= {at_least}"
        # That there is a largest count is worth saying only to whoever has passed it.
        if integer > at_most or at_most not in (_LARGEST_COUNT, math.inf):
            allowed += f" and <= {at_most}"
        raise ValueError(f"{name} = {shown(value)}: {allowed}")
    return integer


def random_seed(value):
    """Return ``value`` as an int, of any size: NumPy's seed sequences take them all."""
    return count("seed", value, at_most=math.inf)


def flag(name, value):
    """Return ``value`` as a bool; 0, 1 and what else Python takes for true or false are refused."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} = {shown(value)}: must be True or False")
    return bool(value)


def choice(name, value, allowed):
    """Return ``value`` if it is one of the words ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} = {shown(value)}: must be one of {', '.join(map(repr, allowed))}")
    return value


def broadcast(**arguments):
    """Return read-only views of the arrays given by name, broadcast against each other."""
    try:
        shape = np.broadcast_shapes(*(np.shape(value) for value in arguments.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {np.shape(value)}" for name, value in arguments.items())
        raise ValueError(f"shapes of {shapes}: must broadcast against each other") from None
    return [np.broadcast_to(value, shape) for value in arguments.values()]


def shown(value):
    """Return ``value`` as a message shows it: its repr, cut short where that is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write out integers of thousands of digits
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"a {type(value).__name__} of too many digits to show"
    return text if len(text) <= 200 else f"{text[:150]}…{text[-20:]}"


def unwrap(result):
    """Return a 0-d result as a Python float, and an array as it is."""
    return float(result) if np.ndim(result) == 0 else result


def _float_array(value):
    if isinstance(value, np.ma.MaskedArray):
        raise _NotReal
    if isinstance(value, list | tuple):
        return _float_list(value)
    if not isinstance(value, np.ndarray | np.generic):
        if isinstance(value, _REAL_TYPES):
            return np.array(_float(value))
        value = np.asarray(value)
    if value.dtype.kind not in "iuf":
        raise _NotReal
    if value.dtype.itemsize <= 8:
        return np.asarray(value, dtype=float)
    with np.errstate(over="ignore"):  # longdouble
        array = np.asarray(value, dtype=float)
    if np.any(np.isinf(array) != np.isinf(value)):
        raise OverflowError
    return array


def _float_list(values):
    """Return nested lists as an array, after a look at the type of each number in them."""
    kinds = set(map(type, values))
    if kinds <= {float, int}:
        return np.array(values, dtype=float)
    return np.array([_float_array(value) for value in values], dtype=float)


def _float(number):
    """Return one number as a float; bool is an int to Python, but no number to us."""
    if isinstance(number, bool):
        raise _NotReal
    converted = float(number)
    if math.isinf(converted) and number != converted:
        raise OverflowError
    return converted


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
