"""Staffing by waits and abandonment, and the load that a system can bear."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from qcore._numerics import checks
from qcore._numerics.crossings import (
    SHARED,
    extended_log,
    integer_crossing,
    on_each,
    real_crossing,
)
from qcore._numerics.docstrings import sharing
from qcore.erlang import _kernels
from qcore.erlang._waiting import Queue

_SHARED = SHARED | {
    "load": """
offered_load : array_like
    Offered load :math:`a` from 1e-9 to :math:`10^{15}`.
""",
    "rate": """
abandonment_rate : array_like, optional
    Rate :math:`\\vartheta` at which a waiting customer abandons, in units of the service rate:
    0, or from 1e-9 to 1e9.
""",
}
_LOG_LOADS = math.log(1e-290), math.log(1e18)
_DOMAINS = {
    "offered_load": {"at_least": 1e-9, "at_most": 1e15},
    "target": {"at_least": 1e-300, "below": 1},
    "acceptable_wait": {"at_least": 0, "at_most": 1e9},
    "abandonment_rate": {"at_least": 0, "at_most": 1e9},
}


@sharing(**_SHARED)
def servers_for_service_level(
    offered_load: ArrayLike,
    target: ArrayLike,
    acceptable_wait: ArrayLike,
    abandonment_rate: ArrayLike = 0.0,
    real_valued: bool = False,
    errors: str = "raise",
) -> int | float | np.ndarray:
    r"""Compute the smallest number of servers with which enough customers are served in time.

    .. math::

        \min \{ s : P(\text{served}, W \le t) \ge \varepsilon \}

    over the integers, or over the reals, where it is the root.

    Parameters
    ----------
    %(load)s
    target : array_like
        Share :math:`\varepsilon` of all customers, from 1e-9 up to below 1.
    acceptable_wait : array_like
        Time :math:`t \ge 0` in mean service times, at most 1e9, within which they are to be served.
    %(rate)s
    %(answer)s

    Returns
    -------
    %(returns)s

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    The logarithm of `Queue.missed`, whose relative error is that of the tail, is solved for by
    Brent's method; some 10 evaluations, half a millisecond. The relative error of the real-valued
    number is below 1e-13. Doubles decide at an integer.

    References
    ----------
    S. Borst, A. Mandelbaum and M. Reiman, Dimensioning large call centers, Operations Research 52
    (2004).

    Examples
    --------
    Eighty per cent within twenty seconds, at 48 calls a minute of one minute each:

    >>> servers_for_service_level(48.0, 0.8, 20 / 60)
    52
    >>> servers_for_service_level(48.0, 0.8, 20 / 60, abandonment_rate=0.5)
    46
    """
    return _servers(
        {
            "offered_load": offered_load,
            "target": target,
            "acceptable_wait": acceptable_wait,
            "abandonment_rate": abandonment_rate,
        },
        lambda queue, target, wait: math.log1p(-target) - extended_log(queue.missed(wait)),
        real_valued,
        errors,
        _DOMAINS | {"target": {"at_least": 1e-9, "below": 1}},
    )


@sharing(**_SHARED)
def servers_for_mean_wait(
    offered_load: ArrayLike,
    target: ArrayLike,
    abandonment_rate: ArrayLike = 0.0,
    real_valued: bool = False,
    errors: str = "raise",
) -> int | float | np.ndarray:
    r"""Compute the smallest number of servers with which the mean wait meets a target.

    .. math::

        \min \{ s : \mathrm{E}W \le w \}

    over the integers, or over the reals, where it is the root. :math:`W` is the wait of all
    customers, whether they are served or abandon.

    Parameters
    ----------
    %(load)s
    target : array_like
        Mean wait :math:`w` allowed, in mean service times, from 1e-300 to 1e9.
    %(rate)s
    %(answer)s

    Returns
    -------
    %(returns)s
        It is 0 where nobody is patient enough to wait longer than the target in the mean.

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    As `servers_for_service_level`, with the mean wait of `queue`.

    Examples
    --------
    >>> servers_for_mean_wait(48.0, 5 / 60), servers_for_mean_wait(48.0, 5 / 60, 0.5)
    (53, 49)
    """
    return _servers(
        {"offered_load": offered_load, "target": target, "abandonment_rate": abandonment_rate},
        lambda queue, target: math.log(target) - extended_log(queue.mean_wait),
        real_valued,
        errors,
        _DOMAINS | {"target": {"at_least": 1e-300, "at_most": 1e9}},
        always=lambda target, rate: rate > 0 and target * rate >= 1,
    )


@sharing(**_SHARED)
def servers_for_abandonment(
    offered_load: ArrayLike,
    target: ArrayLike,
    abandonment_rate: ArrayLike,
    real_valued: bool = False,
    errors: str = "raise",
) -> int | float | np.ndarray:
    r"""Compute the smallest number of servers with which few enough customers abandon.

    .. math::

        \min \{ s : P(\text{abandon}) \le \varepsilon \}

    over the integers, or over the reals, where it is the root.

    Parameters
    ----------
    %(load)s
    target : array_like
        Probability of abandonment allowed, :math:`10^{-300} \le \varepsilon < 1`.
    abandonment_rate : array_like
        Rate :math:`\vartheta` at which a waiting customer abandons, in units of the service rate,
        from 1e-9 to 1e9.
    %(answer)s

    Returns
    -------
    %(returns)s

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    As `servers_for_service_level`, with the abandonment probability of `erlang_a`.

    Examples
    --------
    >>> servers_for_abandonment(48.0, 0.03, 0.5), servers_for_abandonment(48.0, 0.01, 0.5)
    (51, 55)
    """
    return _servers(
        {"offered_load": offered_load, "target": target, "abandonment_rate": abandonment_rate},
        lambda queue, target: math.log(target) - extended_log(queue.abandonment_probability),
        real_valued,
        errors,
        _DOMAINS | {"abandonment_rate": {"at_least": 1e-9, "at_most": 1e9}},
    )


def load_for_blocking(
    servers: ArrayLike, target: ArrayLike, errors: str = "raise"
) -> float | np.ndarray:
    r"""Compute the offered load at which so many servers block with a given probability.

    .. math:: B(s, a) = \varepsilon

    solved for :math:`a`, the largest load whose blocking meets the target.

    Parameters
    ----------
    servers : array_like
        Number of servers :math:`s` from 1e-3 to :math:`10^{15}`, not necessarily an integer.
    target : array_like
        Blocking probability, :math:`10^{-300} \le \varepsilon < 1`.
    errors : {"raise", "nan"}, optional
        What becomes of an element outside its domain: an exception that names it, or NaN in
        its place.

    Returns
    -------
    float or ndarray
        Offered load :math:`a`.

    Raises
    ------
    ValueError
        If an argument is outside its domain, or the load is not between 1e-290 and 1e18.

    Notes
    -----
    The logarithm of the odds, as in `servers_for_blocking`, is solved for by Brent's method in
    :math:`\ln a`. Measured against ball arithmetic for 1 to :math:`10^6` servers and targets from
    1e-100 to 0.999: relative error below 2e-14.

    Examples
    --------
    >>> from qcore.erlang import erlang_b
    >>> load = load_for_blocking(117, 0.01)
    >>> round(load, 6), round(erlang_b(117, load), 12)
    (100.118393, 0.01)
    """

    def one(servers, target):
        wanted = math.log1p(-target) - math.log(target)

        def excess(log_load):
            return _kernels.log_odds(servers, math.exp(log_load), -1.0) - wanted

        low = high = math.log(servers)
        step = 0.5 / math.sqrt(servers + 1)
        while excess(low) < 0 and low > _LOG_LOADS[0]:
            low, step = max(low - step, _LOG_LOADS[0]), 2 * step
        while excess(high) > 0 and high < _LOG_LOADS[1]:
            high, step = min(high + step, _LOG_LOADS[1]), 2 * step
        if not excess(low) >= 0 >= excess(high):
            raise ValueError(
                f"target = {target!r} with servers = {servers!r}: must belong to a load from "
                "1e-290 to 1e18"
            )
        return math.exp(brentq(excess, low, high, xtol=1e-16, rtol=1e-15))

    domains = {"servers": {"at_least": 1e-3, "at_most": 1e15}, "target": _DOMAINS["target"]}
    return on_each(one, {"servers": servers, "target": target}, domains, errors, float)


def _servers(arguments, margin, real_valued, errors, domains, always=None):
    """Solve for the servers with which ``margin(queue, target, …)`` is not negative."""
    find = real_crossing if checks.flag("real_valued", real_valued) else integer_crossing

    def one(load, target, *others):
        *others, rate = others
        if 0 < rate < 1e-9:
            raise ValueError(f"abandonment_rate = {rate!r}: must be 0 or >= 1e-09")
        if always is not None and always(target, rate):
            return 0
        least = load if rate == 0 else 0.0

        def excess(servers):
            return -margin(Queue(float(servers), load, rate), target, *others)

        root = math.sqrt(load)
        return find(excess, least, load + root, 0.1 * root)

    domains = {name: domains[name] for name in arguments}
    return on_each(one, arguments, domains, errors, float if real_valued else int)
