"""Many deferrals, and deferrals under a limit on the mean time away."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import wrightomega

from qcore._numerics import checks
from qcore.deferral import _parameters
from qcore.deferral.asymptotics._shared import LARGEST_BETA, documented
from qcore.deferral.asymptotics._slot import normal_hazard, slot_value, waiting_room_blocking

_MOST_SERVERS = 1e18
_LARGEST_ERROR = 0.5


@dataclass(frozen=True)
class ManyDeferrals:
    r"""The best rate of returns for :math:`\delta\sqrt K` deferrals, and the loss with it.

    Attributes
    ----------
    delta : float
        Number of deferrals over :math:`\sqrt K`.
    beta : float
        Load :math:`(\lambda/\mu - K)/\sqrt K`.
    scaled_blocking : float
        Limit of :math:`\sqrt K P_B`: the same as with as many waiting places.
    rearrival_rate : float
        :math:`A` in :math:`\alpha^* \sim A \mu K^{2/3}`.
    excess : float
        :math:`e` in :math:`P_B = B_{K,D} + e K^{-2/3}(1 + o(1))`.
    """

    delta: float
    beta: float
    scaled_blocking: float
    rearrival_rate: float
    excess: float


@dataclass(frozen=True)
class TimeLimit:
    r"""The best rate of returns when only the mean deferral time is limited.

    Attributes
    ----------
    rearrival_rate : float
        :math:`A` in :math:`\alpha^* \approx A \mu K^{2/3}`; as many as :math:`\alpha^* \hat T`
        customers are then deferred.
    excess : float
        :math:`H` in :math:`P_B - (1 - K\mu/\lambda) \approx H K^{-2/3}`.
    blocking_probability : float or None
        :math:`P_B`, if a number of servers was given.
    relative_error : float or None
        Estimate of its relative error, if a number of servers was given.
    """

    rearrival_rate: float
    excess: float
    blocking_probability: float | None = None
    relative_error: float | None = None


@dataclass(frozen=True)
class UnderloadedTimeLimit:
    r"""The best rate of returns below capacity when only the mean deferral time is limited.

    Attributes
    ----------
    rearrival_rate : float
        Best rate :math:`\alpha^*`, per unit of time; as many as :math:`\alpha^* \hat T` customers
        are then deferred.
    blocking_probability : float
        Fraction of customers lost.
    relative_error : float
        Estimate of its relative error.
    """

    rearrival_rate: float
    blocking_probability: float
    relative_error: float


@documented
def scaled_waiting_room_blocking(beta, delta):
    r"""Return the limit of :math:`\sqrt K P_B` with :math:`\delta\sqrt K` places or deferrals.

    .. math::

        b(\delta) = \lim_{K \to \infty} \sqrt K B_{K, \delta\sqrt K}
        = \frac{1}{e^{-\beta\delta}/h + (1 - e^{-\beta\delta})/\beta}

    A deferral system reaches the same limit when its returns are so frequent, :math:`\alpha \gg
    \sqrt K`, that no server is idle for long while somebody is deferred, and not so frequent,
    :math:`\alpha \ll K^{3/4}`, that returns lose customers.

    Parameters
    ----------
    %(betas)s
    delta : array_like
        Places over :math:`\sqrt K`, from 0 to 20.

    Returns
    -------
    float or ndarray
        The limit, :math:`h/(1 + h\delta)` at :math:`\beta = 0`.

    %(raises)s

    Notes
    -----
    Sums of positive terms. Measured against 50-digit arithmetic: relative error below 3e-13.

    %(source)s

    Examples
    --------
    >>> scaled_waiting_room_blocking(0.0, 1.0)
    0.443790762...
    """
    beta = checks.real("beta", beta, at_least=-LARGEST_BETA, at_most=LARGEST_BETA)
    delta = checks.real("delta", delta, at_least=0.0, at_most=20.0)
    return checks.unwrap(_scaled_waiting_room(*checks.broadcast(beta=beta, delta=delta)))


@documented
def many_deferrals(beta, delta):
    r"""Expand the best rate of returns for :math:`\delta\sqrt K` deferrals.

    .. math::

        A^3 = \frac{\int_0^\delta e^{\beta s} \psi(s) \, ds}
                   {2 \int_0^\delta e^{\beta s} (1 - \psi(s)) \, ds}
            = \frac{\delta + h (e^{\beta\delta} - 1 - \beta\delta)/\beta^2}
                   {2 (h - \beta) (e^{-\beta\delta} - 1 + \beta\delta)/\beta^2},
        \qquad \psi(s) = \frac{b(\delta)}{b(s)}

    with :math:`b` of `scaled_waiting_room_blocking`: idle servers while customers are deferred cost
    :math:`\psi/A`, lost returns :math:`A^2(1 - \psi)`. At :math:`\beta = 0`,
    :math:`A^3 = 1/2 + 1/(h\delta)`.

    Parameters
    ----------
    %(beta)s
    delta : float
        Deferrals over :math:`\sqrt K`, from 1e-200 to 20.

    Returns
    -------
    ManyDeferrals
        Limit, rate and loss beyond that with as many waiting places.

    %(raises)s

    Notes
    -----
    The limit for :math:`K \to \infty` with :math:`\delta` fixed, or falling so slowly that
    :math:`D \gg K^{1/4}`; for a given :math:`K`, and for fewer deferrals, see
    `SpacingExpansion.estimate`. A limit of :math:`\sqrt K P_B` below 1e-308 is returned as 0.

    A formal expansion, with corrections of relative order :math:`K^{-1/6}`: at :math:`\beta = 0,
    \delta = 2` the exact best rate over :math:`K^{2/3}` is 0.961 at :math:`K = 10^4` and 0.991 at
    :math:`10^5` against 1.0406. The closed form is computed to 1e-13.

    %(source)s

    Examples
    --------
    >>> many_deferrals(0.0, 2.0).rearrival_rate
    1.04055...
    """
    beta = checks.scalar("beta", beta, at_least=-LARGEST_BETA, at_most=LARGEST_BETA)
    delta = checks.scalar("delta", delta, at_least=1e-200, at_most=20.0)
    hazard = float(normal_hazard(beta))
    limit = float(_scaled_waiting_room(beta, delta))
    idling, returning = many_errors(beta, delta)
    rate = (idling / returning / float(slot_value(np.asarray(beta))) / delta) ** (1 / 3)
    return ManyDeferrals(
        delta=delta,
        beta=beta,
        scaled_blocking=limit,
        rearrival_rate=rate,
        excess=1.5 * hazard * delta * idling / rate,
    )


@documented
def mean_time_limit(scaled_beta, max_deferral_time, servers=None):
    r"""Find the best rate of returns when only the mean deferral time is limited.

    With :math:`\beta = b K^{-1/6}`, :math:`\alpha = A\mu K^{2/3}` and as many as
    :math:`\alpha\hat T` deferred,

    .. math::

        K^{2/3} \left[P_B - \left(1 - \frac{K\mu}{\lambda}\right)\right] \to
        H(A) = \frac{1}{A} + \frac{1}{M}, \qquad M = \int_0^{A\mu\hat T} e^{\Gamma s} ds, \qquad
        \Gamma = b + \frac{1}{A} - A^2,

    to be minimised: the servers that are idle while customers return, and those that are idle
    while nobody is deferred. In a system of :math:`K` servers nobody is deferred for a share of the
    time that vanishes only like :math:`K^{-1/6}`. With it

    .. math::

        \frac\lambda{K\mu} K^{2/3} P_B \approx
            \frac{e^{\Gamma A\mu\hat T} + A^2 M}{M + K^{-1/6}/h}, \qquad
        H(A) = \frac{M/A + 1 - \beta/h}{M + K^{-1/6}/h}.

    The terms of the first numerator are arrivals that find :math:`\alpha\hat T` deferred, and
    returns that find nobody idle; the second is the same less the floor.

    Parameters
    ----------
    scaled_beta : float
        :math:`b = \beta K^{1/6}`, from -100 to 1000.
    max_deferral_time : float
        :math:`\mu\hat T`, from 1e-3 to 1e3 mean service times.
    servers : float, optional
        Number of servers :math:`K`, from 1 to 1e18. Default: the limit of infinitely many.

    Returns
    -------
    TimeLimit
        The best :math:`A` and :math:`H(A)`; for a number of servers also the loss.

    Raises
    ------
    ValueError
        If an argument is outside its range or nobody arrives, or if the estimate of the relative
        error exceeds 1/2.

    Notes
    -----
    Formal. For :math:`\beta = 0` the best rate grows as :math:`K^{2/3}` and the loss falls as
    :math:`K^{-2/3}`; for fixed :math:`\beta > 0`, :math:`A \to \sqrt b`, so the rate grows as
    :math:`\sqrt\beta K^{3/4}`; for fixed :math:`\beta < 0` the loss becomes that of
    `underloaded_time_limit`. The limit is far: at :math:`\beta = 0`, :math:`\mu\hat T = 1` it
    exceeds the exact least loss by 88, 54 and 34 % for :math:`K = 10^2, 10^3, 10^4`. With the
    number of servers these are 12.5, 6.6 and 3.5 %. The estimate of the relative error is

    .. math::

        \frac{3}{2K^{1/3}} + \frac{|\beta|^3}{6\sqrt K} + \frac{1}{2 \alpha \hat T}
        + \frac{\beta^-}{\alpha/(\mu\sqrt K)} \Bigl(\frac12 + \frac{\mu\hat T}{20}\Bigr),

    with constants fitted to exact optima. On a grid of 100 to 10,000 servers,
    :math:`-4 \le \beta \le 2`, :math:`0.1 \le \mu\hat T \le 10`, the errors are below it.

    %(source)s

    Examples
    --------
    >>> mean_time_limit(0.0, 1.0).rearrival_rate
    1.09348...
    >>> found = mean_time_limit(0.0, 1.0, servers=1000)
    >>> round(found.blocking_probability, 4), round(found.relative_error, 2)  # exact: 0.0128
    (0.0137, 0.15)
    """
    b = checks.scalar("scaled_beta", scaled_beta, at_least=-100.0, at_most=1000.0)
    time = checks.scalar("max_deferral_time", max_deferral_time, at_least=1e-3, at_most=1e3)
    if servers is None:
        log_rate, _ = _least(lambda x: _log_limit_excess(x, b, time), math.log(1e-4), math.log(1e4))
        return TimeLimit(math.exp(log_rate), math.exp(_log_limit_excess(log_rate, b, time)))
    servers = checks.scalar("servers", servers, at_least=1.0, at_most=_MOST_SERVERS)
    beta = b * servers ** (-1 / 6)
    _check_load(servers, beta)
    found = _limited(servers, beta, time)
    if not found.relative_error <= _LARGEST_ERROR:
        raise ValueError(
            f"servers = {servers!r}: for scaled_beta = {b!r} and max_deferral_time = {time!r} the "
            f"relative error may be {found.relative_error:.2g}, must be at most {_LARGEST_ERROR}"
        )
    return found


@documented
def underloaded_time_limit(servers, beta, max_deferral_time, service_rate=1.0):
    r"""Approximate the best rate of returns below capacity when only a mean time is limited.

    For :math:`\beta < 0` and :math:`K \to \infty`, to leading order in :math:`1/\ln K`, with
    :math:`y e^y = |\beta|^3 (\mu\hat T)^2 e^{\mu\hat T} \sqrt K / 2`,

    .. math::

        \alpha^* \sim \frac{\sqrt K}{|\beta| \hat T} \, y, \qquad
        P_B \sim \frac{h}{h + |\beta|} \, \frac{y^2 + 2y}{\beta^2 (\mu\hat T)^2 K}

    so that the loss is of the order :math:`(\ln K)^2/K`. For numbers rather than orders use
    `mean_time_limit` with a number of servers, which is several times more accurate.

    Parameters
    ----------
    servers : float
        Number of servers :math:`K`, from 1 to 1e18.
    beta : float
        Load :math:`\beta = (\lambda/\mu - K)/\sqrt K`, from -30 to -0.01.
    max_deferral_time : float
        Largest mean time :math:`\hat T` from a blocked arrival to its return, from 1e-3 to 1e3 mean
        service times.
    %(one_service_rate)s

    Returns
    -------
    UnderloadedTimeLimit
        Rate, loss and an estimate of the relative error of the loss.

    Raises
    ------
    ValueError
        If an argument is outside its range or nobody arrives, if the loss would be above Erlang's
        or below that of as many waiting places, or if the estimate of its relative error exceeds 1.

    Notes
    -----
    A formal expansion: the two terms balanced are arrivals lost because all places are taken,
    :math:`\frac{h|\beta|}{h+|\beta|} e^{\mu\hat T - |\beta|a\mu\hat T} K^{-1/2}` with
    :math:`\alpha = a\mu\sqrt K`, and lost returns, :math:`\frac{h}{h+|\beta|} a^2 K^{-1}`. Its
    relative error is of the order :math:`1/\ln K` and therefore large: at :math:`\beta = -1`,
    :math:`\mu\hat T = 1` and :math:`K = 10^3, 10^5, 10^7` the exact loss is 0.79, 1.04, 1.13 of it,
    the exact rate 0.84, 0.90, 0.95. It is estimated by the distance from the finite form that
    `mean_time_limit` minimises, and the estimate of that form's own error.

    %(source)s

    Examples
    --------
    >>> found = underloaded_time_limit(10**6, -1.0, 1.0)
    >>> found.rearrival_rate, found.blocking_probability
    (5508.34..., 9.2378...e-06)
    """
    servers = checks.scalar("servers", servers, at_least=1.0, at_most=_MOST_SERVERS)
    beta = checks.scalar("beta", beta, at_least=-LARGEST_BETA, at_most=-0.01)
    service_rate = _parameters.rate("service_rate", service_rate)
    time = service_rate * _parameters.time("max_deferral_time", max_deferral_time)
    time = checks.scalar("service_rate * max_deferral_time", time, at_least=1e-3, at_most=1e3)
    _check_load(servers, beta)
    # root * exp(root) = exp(log_argument), which itself may overflow.
    log_argument = time + 0.5 * math.log(servers) + math.log(-(beta**3) * time**2 / 2.0)
    root = float(wrightomega(log_argument))
    hazard = float(normal_hazard(beta))
    scale = root / (-beta * time)
    blocking = hazard / (hazard - beta) * scale**2 * (1.0 + 2.0 / root) / servers
    finite = _limited(servers, beta, time)
    found = UnderloadedTimeLimit(
        rearrival_rate=service_rate * scale * math.sqrt(servers),
        blocking_probability=blocking,
        relative_error=abs(blocking / finite.blocking_probability - 1.0) + finite.relative_error,
    )
    load = servers + beta * math.sqrt(servers)
    places = max(1.0, scale * math.sqrt(servers) * time)
    least = waiting_room_blocking(servers, places, load, 1.0)
    most = waiting_room_blocking(servers, 0, load, 1.0)
    if not (found.relative_error <= 1.0 and least <= blocking <= most):
        raise ValueError(
            f"servers = {servers!r}: for beta = {beta!r} and service_rate * max_deferral_time = "
            f"{time!r} the expansion is not near: it gives a loss of {blocking:.3g}, between "
            f"{least:.3g} (as many waiting places) and {most:.3g} (Erlang) with a relative error "
            f"of perhaps {found.relative_error:.2g}, which must be at most 1"
        )
    return found


def _check_load(servers, beta):
    if not servers + beta * math.sqrt(servers) > 0.0:
        raise ValueError(
            f"servers = {servers!r}, beta = {beta!r}: K + beta sqrt(K) must be positive"
        )


def _log_limit_excess(log_rate, b, time):
    rate = math.exp(log_rate)
    mass = _log_integral(b + 1.0 / rate - rate**2, rate * time)
    return float(np.logaddexp(-log_rate, -mass))


def _limited(servers, beta, time):
    """Return the minimum of the loss of a system of this size over the rate of returns."""
    b = beta * servers ** (1 / 6)
    hazard, load = float(normal_hazard(beta)), servers + beta * math.sqrt(servers)
    log_nobody = -math.log(servers) / 6.0 - math.log(hazard)

    def log_loss(log_rate):
        """Return the logarithm of (e^{Gamma L} + A^2 M)/(M + K^{-1/6}/h)."""
        rate = math.exp(log_rate)
        drift, length = b + 1.0 / rate - rate**2, rate * time
        mass = _log_integral(drift, length)
        lost = np.logaddexp(drift * length, 2.0 * log_rate + mass)
        return float(lost - np.logaddexp(mass, log_nobody))

    # From one deferral at a time to returns as frequent as arrivals.
    lowest = -math.log(time) - 2.0 * math.log(servers) / 3.0
    log_rate, value = _least(log_loss, lowest, max(lowest + 1.0, math.log(servers) / 3.0))
    rate = math.exp(log_rate)
    mass = _log_integral(b + 1.0 / rate - rate**2, rate * time)
    share = math.exp(-float(np.logaddexp(mass, log_nobody)))  # density where nobody is deferred
    somebody = math.exp(mass - float(np.logaddexp(mass, log_nobody)))
    error = 1.5 * servers ** (-1 / 3) + abs(beta) ** 3 / (6.0 * math.sqrt(servers))
    error += 0.5 / (rate * servers ** (2 / 3) * time)
    error += max(-beta, 0.0) / (rate * servers ** (1 / 6)) * (0.5 + time / 20.0)
    return TimeLimit(
        rearrival_rate=rate,
        excess=servers / load * (somebody / rate + share * (1.0 - beta / hazard)),
        blocking_probability=math.exp(value) * servers ** (1 / 3) / load,
        relative_error=error,
    )


def _least(function, lower, upper):
    """Return where a function with one or few valleys is least, and its value."""
    grid = np.linspace(lower, upper, 1000)
    best = int(np.argmin([function(point) for point in grid.tolist()]))
    found = minimize_scalar(
        function,
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(found.x), float(found.fun)


def many_errors(beta, delta):
    r"""Return by what :math:`\delta\sqrt K` deferrals multiply the errors of few, both 1 at 0.

    They are :math:`b e^{-\beta\delta}/h` times the integrals of :math:`e^{\beta s}\psi` over
    :math:`\delta` and of :math:`e^{\beta s}(1 - \psi)` over :math:`(h - \beta)\delta^2/2`.
    """
    hazard = float(normal_hazard(beta))
    share = float(_left_by_waiting(beta, delta))
    share *= share * math.exp(-beta * delta)  # in this order, without underflow
    return (
        share * (1.0 + hazard * delta * _second_remainder(beta * delta)),
        share * 2.0 * _second_remainder(-beta * delta),
    )


def _second_remainder(x):
    """Return (e^x - 1 - x)/x^2."""
    if abs(x) > 0.5:
        return (math.expm1(x) - x) / x**2
    total = term = 0.5
    for k in range(3, 16):
        term *= x / k
        total += term
    return total


def _log_integral(rate, length):
    """Return the logarithm of the integral of exp(rate s) over s from 0 to length."""
    exponent = rate * length
    if abs(exponent) < 1e-8:
        return math.log(length) + exponent / 2.0
    if exponent > 0.0:
        return exponent + math.log(-math.expm1(-exponent) / rate)
    return math.log(math.expm1(exponent) / rate)


def _scaled_waiting_room(beta, delta):
    return normal_hazard(beta) * _left_by_waiting(beta, delta)


def _left_by_waiting(beta, delta):
    """Return b(delta)/h, the part of Erlang's loss that waiting places leave."""
    flat = beta == 0.0
    safe = np.where(flat, 1.0, beta)
    queue = np.where(flat, delta, np.expm1(safe * delta) / safe)
    return np.exp(beta * delta) / (1.0 + normal_hazard(beta) * queue)
