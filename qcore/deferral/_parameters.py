"""The arguments that the deferral models share, and what is said of them."""

import functools

import numpy as np

from qcore import erlang
from qcore._numerics import checks
from qcore._numerics.docstrings import sharing

# Products, ratios and squares of rates, times a count of servers, then stay within floats.
_SMALLEST, LARGEST = 1e-60, 1e60

rates = functools.partial(checks.real, at_least=_SMALLEST, at_most=LARGEST)
times = rates
rate = functools.partial(checks.scalar, at_least=_SMALLEST, at_most=LARGEST)
time = rate

_LARGEST_LOAD = 1e18

documented = sharing(
    counts=r"""
    servers : int
        Number of servers :math:`K \ge 1`.
    max_deferrals : int
        Largest number deferred at a time, :math:`D \ge 0`; with 0 it is Erlang's loss system.
    """,
    allowed_counts=r"""
    servers : int
        Number of servers :math:`K \ge 1`.
    max_deferrals : int
        Largest number :math:`\hat D \ge 1` deferred at a time.
    """,
    rates=r"""
    arrival_rate : array_like
        Arrival rate :math:`\lambda`, customers per unit of time, from 1e-60 to 1e60.
    service_rate : array_like
        Service rate :math:`\mu` of one server, per unit of time, from 1e-60 to 1e60.
    """,
    rates_of_one_system=r"""
    arrival_rate : float
        Arrival rate :math:`\lambda`, customers per unit of time, from 1e-60 to 1e60.
    service_rate : float
        Service rate :math:`\mu` of one server, per unit of time, from 1e-60 to 1e60.
    """,
    servers_up_to_1e8=r"""
    servers : int
        Number of servers :math:`K`, from 1 to 1e8.
    """,
    rates_of_one_server=r"""
    arrival_rate : array_like
        Arrival rate :math:`\lambda`, customers per unit of time, from 1e-60 to 1e60.
    service_rate : array_like
        Service rate :math:`\mu` of the server, per unit of time, from 1e-60 to 1e60.
    """,
    spacing=r"""
    spacing : array_like
        Time :math:`x` from a blocked arrival to its return, from 1e-60 to 1e60.
    """,
    raises=r"""
    Raises
    ------
    ValueError
        If an argument is not a number in its range.
    """,
)


def broadcast_rates(**values):
    """Return rates and times given by name, each in its range, broadcast against each other."""
    return checks.broadcast(**{name: rates(name, value) for name, value in values.items()})


def deferral_time(value):
    """Return a time that may be zero."""
    return checks.scalar("deferral_time", value, at_least=0.0, at_most=LARGEST)


def erlang_b(servers, load):
    """Return Erlang's blocking probability for any ratio of two rates, up to 1e9 servers."""
    # Beyond the largest load the next term is of the order (servers/load)^2.
    blocking = erlang.erlang_b(servers, np.minimum(load, _LARGEST_LOAD))
    return checks.unwrap(np.where(load > _LARGEST_LOAD, 1.0 / (1.0 + servers / load), blocking))
