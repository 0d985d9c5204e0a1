"""Where a falling function crosses zero, over the reals and over the integers."""

import math

import numpy as np
from scipy.optimize import brentq

from qcore._numerics import checks

_ERRORS = ("raise", "nan")
_LARGE = 1e4  # a value of a logarithm that is as good as infinite
_HALVINGS = 200

# What the docstrings of functions that look for a number of servers share.
SHARED = {
    "answer": """
real_valued : bool, optional
    Whether to return the real-valued number of servers.
errors : {"raise", "nan"}, optional
    What becomes of an element outside its domain: an exception that names it, or NaN in
    its place (the result then consists of floats), so that the others are not lost.
""",
    "returns": """
int or float or ndarray
    Number of servers: an int (or an array of them), or a float if ``real_valued``.
""",
}


def real_crossing(excess, least, guess, step):
    """Return the least x > ``least`` with excess(x) ≤ 0, for a function that falls.

    Sought from ``guess`` on by doubled steps upwards, or by halving the distance to ``least``.
    A jump counts as a crossing; ``least`` itself is returned where the function is nowhere above.
    """

    def value(x):
        return min(max(excess(x), -_LARGE), _LARGE)

    above = below = max(guess, least + step)
    if value(below) > 0:
        while value(below) > 0:
            above, below = below, below + step
            step *= 2
            if below == math.inf:
                raise OverflowError
    else:
        for _ in range(_HALVINGS):
            below, above = above, least + (above - least) / 2
            if value(above) > 0:
                break
        else:
            return least
    root = brentq(value, above, below, xtol=1e-300, rtol=1e-15)
    # Brent's method may stop on either side of a jump, or of the last digit.
    width = 1e-15 * abs(root)
    while value(root) > 0 and root < below:
        root, width = min(below, root + width), 2 * width
    return root


def integer_crossing(excess, least, guess, step):
    """Return the least integer n > ``least`` with excess(n) ≤ 0, for a function that falls."""
    first = math.floor(least) + 1
    found = max(first, math.ceil(real_crossing(excess, least, guess, step)))
    while excess(found) > 0:
        found += 1
    while found > first and excess(found - 1) <= 0:
        found -= 1
    return found


def on_each(function, arguments, domains, errors, kind):
    """Apply a function of numbers to each element of arrays given by name.

    With ``errors`` = "nan" the result is NaN where an element is outside its domain or has no
    value; else the first that is raises the ValueError that names it.
    """
    checks.choice("errors", errors, _ERRORS)
    if errors == "raise":
        arrays = {name: checks.real(name, v, **domains[name]) for name, v in arguments.items()}
    else:
        arrays = {name: checks.numbers_of(name, value) for name, value in arguments.items()}
    arrays = checks.broadcast(**arrays)

    def one(*values):
        if errors == "raise":
            return function(*values)
        try:
            for name, value in zip(domains, values, strict=True):
                checks.real(name, value, **domains[name])
            return function(*values)
        except ValueError:
            return math.nan

    if errors == "nan":
        kind = float
    found = [one(*map(float, values)) for values in zip(*(a.flat for a in arrays), strict=True)]
    if not arrays[0].ndim:
        return kind(found[0])
    return np.array(found, dtype=np.int64 if kind is int else float).reshape(arrays[0].shape)


def extended_log(value):
    """Return the logarithm of a number that is not negative, −∞ of 0."""
    return math.log(value) if value > 0.0 else -math.inf
