"""The arguments that the deferral models share."""

import functools

from qcore import erlang
from qcore._numerics import checks

# Products, ratios and squares of rates, times a count of servers, then stay within floats.
_SMALLEST, _LARGEST = 1e-60, 1e60

rates = functools.partial(checks.real, at_least=_SMALLEST, at_most=_LARGEST)
times = rates
rate = functools.partial(checks.scalar, at_least=_SMALLEST, at_most=_LARGEST)
time = rate

_LARGEST_LOAD = 1e18


def deferral_time(value):
    """Return a time that may be zero."""
    return checks.scalar("deferral_time", value, at_least=0.0, at_most=_LARGEST)


def erlang_b(servers, load):
    """Return Erlang's blocking probability for any ratio of two rates, up to 1e9 servers."""
    if load > _LARGEST_LOAD:
        return 1.0 / (1.0 + servers / load)  # the next term is of the order (servers/load)^2
    return erlang.erlang_b(servers, load)
