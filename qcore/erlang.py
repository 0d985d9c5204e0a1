"""Erlang's formulas with real-valued servers: blocking, delay, abandonment, and staffing."""

import numpy as np

from qcore import _checks
from qcore import _erlang_kernels as _kernels
from qcore.errors import UnstableSystem

__all__ = ["erlang_b", "erlang_c"]

_SCALARS = (float, int)


def erlang_b(servers, offered_load):
    r"""Compute the blocking probability of the Erlang loss system.

    .. math::

        \frac{1}{B(s, a)} = a \int_0^\infty e^{-au} (1 + u)^s \, du

    for real :math:`s`; for integer :math:`s` it is
    :math:`B(s, a) = (a^s/s!) / \sum_{k=0}^{s} a^k/k!`.

    Parameters
    ----------
    servers : array_like
        Number of servers :math:`s \ge 0`, not necessarily an integer.
    offered_load : array_like
        Offered load :math:`a \ge 0`, the arrival rate over the service rate.

    Returns
    -------
    float or ndarray
        Probability that an arriving customer finds all servers busy and is lost.

    Examples
    --------
    >>> erlang_b(2, 1.0)
    0.2
    """
    return _evaluate("erlang_b", servers, offered_load)


def erlang_c(servers, offered_load):
    r"""Compute the probability of delay in the Erlang delay system.

    .. math::

        C(s, a) = \frac{s}{a + (s - a)/B(s, a)}

    Parameters
    ----------
    servers : array_like
        Number of servers :math:`s > 0`, not necessarily an integer.
    offered_load : array_like
        Offered load :math:`0 \le a < s`, the arrival rate over the service rate.

    Returns
    -------
    float or ndarray
        Probability that an arriving customer finds all servers busy and waits.

    Raises
    ------
    UnstableSystem
        If the offered load is not below the number of servers.

    Examples
    --------
    >>> erlang_c(2, 1.0)
    0.3333333333333333
    """
    try:
        return _evaluate("erlang_c", servers, offered_load)
    except _NoValue:
        pair = np.broadcast_arrays(servers, offered_load)
        first = next(zip(*(np.ravel(part)[~(pair[1] < pair[0]).ravel()] for part in pair)))
        raise UnstableSystem(
            f"offered_load = {float(first[1])!r} and servers = {float(first[0])!r}: "
            "must be offered_load < servers, else the queue grows without bound"
        ) from None


def _inverse_erlang_b(servers, offered_load):
    """1/B(s, a), which is infinite where B is below 5.6e-309."""
    return _evaluate("inverse_erlang_b", servers, offered_load)


def _log_erlang_b(servers, offered_load):
    """ln B(s, a), finite also where B underflows; −∞ for no load and some servers."""
    return _evaluate("log_erlang_b", servers, offered_load)


class _NoValue(ValueError):
    """Each argument is in its domain, but the function has no value there."""


def _evaluate(name, servers, offered_load):
    """Apply a kernel that returns NaN outside its domain; find out what is wrong only then."""
    if type(servers) in _SCALARS and type(offered_load) in _SCALARS:
        result = getattr(_kernels, name)(float(servers), float(offered_load))
        if result == result:
            return result
    servers = _checks.real("servers", servers, at_least=0)
    offered_load = _checks.real("offered_load", offered_load, at_least=0)
    pair = np.broadcast_arrays(servers, offered_load)
    result = np.empty(pair[0].shape)
    getattr(_kernels, f"{name}_array")(pair[0].ravel(), pair[1].ravel(), result.reshape(-1))
    if np.isnan(result).any():
        raise _NoValue
    return _checks.unwrap(result)
