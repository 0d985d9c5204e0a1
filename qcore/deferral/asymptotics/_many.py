"""Many deferrals, and deferrals under a limit on the mean time away."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import wrightomega

from qcore._numerics import checks
from qcore.deferral import _parameters
from qcore.deferral.asymptotics._slot import LARGEST_BETA, normal_hazard, slot_value


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
        :math:`A` in :math:`\alpha^* \sim A \mu K^{2/3}`; as many as :math:`\alpha^* \hat T`
        customers are then deferred.
    excess : float
        :math:`H` in :math:`P_B - (1 - K\mu/\lambda) \sim H K^{-2/3}`.
    """

    rearrival_rate: float
    excess: float


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
    """

    rearrival_rate: float
    blocking_probability: float


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
    beta : array_like
        Load :math:`\beta`, from -30 to 30.
    delta : array_like
        Places over :math:`\sqrt K`, from 0 to 20.

    Returns
    -------
    float or ndarray
        The limit, :math:`h/(1 + h\delta)` at :math:`\beta = 0`.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Sums of positive terms. Measured against 50-digit arithmetic: relative error below 3e-13.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), section V, where the question is asked.

    Examples
    --------
    >>> scaled_waiting_room_blocking(0.0, 1.0)
    0.443790762...
    """
    beta = checks.real("beta", beta, at_least=-LARGEST_BETA, at_most=LARGEST_BETA)
    delta = checks.real("delta", delta, at_least=0.0, at_most=20.0)
    return checks.unwrap(_scaled_waiting_room(beta, delta))


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
    beta : float
        Load :math:`\beta = (\lambda/\mu - K)/\sqrt K`, from -30 to 30.
    delta : float
        Deferrals over :math:`\sqrt K`, above 0 and at most 20.

    Returns
    -------
    ManyDeferrals
        Limit, rate and loss beyond that with as many waiting places.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    A formal expansion, with corrections of relative order :math:`K^{-1/6}`: at :math:`\beta = 0,
    \delta = 2` the exact best rate over :math:`K^{2/3}` is 0.961 at :math:`K = 10^4` and 0.991 at
    :math:`10^5` against 1.0406. The closed form is computed to 1e-13.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), section V, where the question is asked.

    Examples
    --------
    >>> many_deferrals(0.0, 2.0).rearrival_rate
    1.04055...
    """
    beta = checks.scalar("beta", beta, at_least=-LARGEST_BETA, at_most=LARGEST_BETA)
    delta = checks.scalar("delta", delta, above=0.0, at_most=20.0)
    hazard = float(normal_hazard(beta))
    limit = float(_scaled_waiting_room(beta, delta))
    idle = delta + hazard * delta**2 * _second_remainder(beta * delta)
    returns = float(slot_value(np.asarray(beta))) * delta**2 * _second_remainder(-beta * delta)
    rate = (idle / (2.0 * returns)) ** (1 / 3)
    return ManyDeferrals(
        delta=delta,
        beta=beta,
        scaled_blocking=limit,
        rearrival_rate=rate,
        excess=1.5 * limit**2 * math.exp(-beta * delta) * idle / hazard / rate,
    )


def mean_time_limit(scaled_beta, max_deferral_time):
    r"""Find the best rate of returns when only the mean deferral time is limited.

    With :math:`\beta = b K^{-1/6}`, :math:`\alpha = A\mu K^{2/3}` and as many as
    :math:`\alpha\hat T` deferred,

    .. math::

        K^{2/3} \left[P_B - \left(1 - \frac{K\mu}{\lambda}\right)\right] \to
        H(A) = \frac{1}{A} + \frac{\Gamma}{e^{\Gamma A \mu \hat T} - 1}, \qquad
        \Gamma = b + \frac{1}{A} - A^2,

    to be minimised: the servers that are idle while customers return, and those that are idle
    while nobody is deferred.

    Parameters
    ----------
    scaled_beta : float
        :math:`b = \beta K^{1/6}`, from -5 to 1000.
    max_deferral_time : float
        :math:`\mu\hat T`, from 1e-3 to 1e3 mean service times.

    Returns
    -------
    TimeLimit
        The best :math:`A` and :math:`H(A)`.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    A formal limit. For :math:`\beta = 0` the best rate grows as :math:`K^{2/3}` and the loss falls
    as :math:`K^{-2/3}`; for fixed :math:`\beta > 0`, :math:`A \to \sqrt b`, so the rate grows as
    :math:`\sqrt\beta K^{3/4}`. In between, with :math:`\beta = 0.1`, :math:`\hat T = 1` and up to
    1000 servers, lie figure 9(b)'s slopes of 0.60 to 0.68. Exact best rates over :math:`K^{2/3}` at
    :math:`\beta = 0`: 1.112 at :math:`K = 10^4` and 1.118 at :math:`10^5`, against 1.0935; the
    excess converges as :math:`K^{-1/6}`.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), figure 9(b), where the question is asked.

    Examples
    --------
    >>> mean_time_limit(0.0, 1.0).rearrival_rate
    1.09348...
    """
    b = checks.scalar("scaled_beta", scaled_beta, at_least=-5.0, at_most=1000.0)
    time = checks.scalar("max_deferral_time", max_deferral_time, at_least=1e-3, at_most=1e3)

    def excess(log_rate):
        rate = math.exp(log_rate)
        drift = b + 1.0 / rate - rate**2
        # Gamma/(e^{Gamma L} - 1) = 1/integral of e^{Gamma s} over [0, L]
        return 1.0 / rate + math.exp(-_log_integral(drift, rate * time))

    grid = np.linspace(math.log(1e-4), math.log(1e4), 2000)
    best = int(np.argmin([excess(point) for point in grid]))
    found = minimize_scalar(
        excess, bounds=(grid[best - 1], grid[best + 1]), method="bounded", options={"xatol": 1e-10}
    )
    return TimeLimit(rearrival_rate=math.exp(found.x), excess=float(found.fun))


def underloaded_time_limit(servers, beta, max_deferral_time, service_rate=1.0):
    r"""Approximate the best rate of returns below capacity when only a mean time is limited.

    For :math:`\beta < 0` and :math:`K \to \infty`, to leading order in :math:`1/\ln K`, with
    :math:`y e^y = |\beta|^3 (\mu\hat T)^2 e^{\mu\hat T} \sqrt K / 2`,

    .. math::

        \alpha^* \sim \frac{\sqrt K}{|\beta| \hat T} \, y, \qquad
        P_B \sim \frac{h}{h + |\beta|} \, \frac{y^2 + 2y}{\beta^2 (\mu\hat T)^2 K}

    so that the loss is of the order :math:`(\ln K)^2/K`.

    Parameters
    ----------
    servers : float
        Number of servers :math:`K \ge 1`.
    beta : float
        Load :math:`\beta = (\lambda/\mu - K)/\sqrt K`, from -30 to -0.01.
    max_deferral_time : float
        Largest mean time :math:`\hat T` from a blocked arrival to its return, from 1e-3 to 1e3 mean
        service times.
    service_rate : float, optional
        Service rate :math:`\mu` of one server, per unit of time.

    Returns
    -------
    UnderloadedTimeLimit
        Rate and loss.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    A formal expansion: the two terms balanced are arrivals lost because all places are taken,
    :math:`\frac{h|\beta|}{h+|\beta|} e^{\mu\hat T - |\beta|a\mu\hat T} K^{-1/2}` with
    :math:`\alpha = a\mu\sqrt K`, and lost returns, :math:`\frac{h}{h+|\beta|} a^2 K^{-1}`. Its
    relative error is of the order :math:`1/\ln K` and therefore large: at :math:`\beta = -1`,
    :math:`\mu\hat T = 1` and :math:`K = 10^3, 10^5, 10^7` the exact loss is 0.79, 1.04, 1.13 of it,
    the exact rate 0.84, 0.90, 0.95. It presumes :math:`y \gg 1`.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), section V, where the question is asked.

    Examples
    --------
    >>> underloaded_time_limit(10**6, -1.0, 1.0)
    UnderloadedTimeLimit(rearrival_rate=5508.34..., blocking_probability=9.2378...e-06)
    """
    servers = checks.scalar("servers", servers, at_least=1.0)
    beta = checks.scalar("beta", beta, at_least=-LARGEST_BETA, at_most=-0.01)
    service_rate = _parameters.rate("service_rate", service_rate)
    time = service_rate * _parameters.time("max_deferral_time", max_deferral_time)
    time = checks.scalar("service_rate * max_deferral_time", time, at_least=1e-3, at_most=1e3)
    # root * exp(root) = exp(log_argument), which itself may overflow.
    log_argument = time + 0.5 * math.log(servers) + math.log(-(beta**3) * time**2 / 2.0)
    root = float(wrightomega(log_argument))
    hazard = float(normal_hazard(beta))
    scale = root / (-beta * time)
    return UnderloadedTimeLimit(
        rearrival_rate=service_rate * scale * math.sqrt(servers),
        blocking_probability=hazard / (hazard - beta) * scale**2 * (1.0 + 2.0 / root) / servers,
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
    flat = beta == 0.0
    safe = np.where(flat, 1.0, beta)
    queue = np.where(flat, delta, np.expm1(safe * delta) / safe)
    hazard = normal_hazard(beta)
    return hazard * np.exp(beta * delta) / (1.0 + hazard * queue)
