r"""Deferrals in large systems: what a deferral is worth, and how far apart the returns should be.

:math:`K` servers of rate :math:`\mu`, arrival rate :math:`\lambda = \mu(K + \beta\sqrt K)`, and
:math:`K \to \infty`. With :math:`h = \varphi(\beta)/\Phi(-\beta)`, Erlang's blocking probability is
:math:`B_K \sim h/\sqrt K`. A loss system with :math:`D` deferrals loses at least what one with
:math:`D` waiting places loses, :math:`B_{K,D}`, and at its best spacing hardly more. In units of
the service time:

==================================  ================  =====================================
deferrals in use                    best spacing      loss beyond its bound
==================================  ================  =====================================
:math:`D` fixed                     :math:`K^{-2/3}`  :math:`K^{-4/3}` beyond :math:`B_{K,D}`
:math:`D = \delta\sqrt K`           :math:`K^{-2/3}`  :math:`K^{-2/3}` beyond :math:`B_{K,D}`
limited by a mean time, zero beta   :math:`K^{-2/3}`  :math:`K^{-2/3}` beyond 0
the same, :math:`\beta > 0`         :math:`K^{-3/4}`  :math:`K^{-3/4}` beyond the throughput bound
the same, :math:`\beta < 0`         :math:`K^{-1/2}`  :math:`K^{-1}` beyond 0, both up to logarithms
==================================  ================  =====================================

The bounds and identities are theorems; the expansions are formal, and agree with the exact optima.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erfcx, wrightomega

from qcore import _checks
from qcore.deferral import _parameters, _spacing_constants
from qcore.erlang import erlang_b

__all__ = [
    "ManyDeferrals",
    "SpacingExpansion",
    "TimeLimit",
    "UnderloadedTimeLimit",
    "deferral_slot_value",
    "dsrt_spacing",
    "esrt_spacing",
    "many_deferrals",
    "mean_time_limit",
    "scaled_erlang_b",
    "scaled_waiting_room_blocking",
    "throughput_floor",
    "underloaded_time_limit",
    "waiting_room_blocking",
]

_MOST_DEFERRALS = 100
_LARGEST_BETA = 30.0


@dataclass(frozen=True)
class SpacingExpansion:
    r"""The best spacing for a fixed number of deferrals, and the loss with it.

    Attributes
    ----------
    max_deferrals : int
        Number of deferrals :math:`D`.
    beta : float
        Load :math:`(\lambda/\mu - K)/\sqrt K`.
    leading : float
        :math:`c` in :math:`K^{2/3} \mu x^* = c + c_1 K^{-1/6} + O(K^{-1/3})`.
    correction : float
        :math:`c_1`.
    excess : float
        :math:`e` in :math:`P_B = B_{K,D} + e K^{-4/3}(1 + O(K^{-1/6}))`, where :math:`B_{K,D}` is
        the loss with :math:`D` waiting places.
    """

    max_deferrals: int
    beta: float
    leading: float
    correction: float
    excess: float

    def spacing(self, servers, service_rate=1.0):
        """Return the best spacing to both orders, in the unit of time of the service rate."""
        servers = _parameters.rate("servers", servers)
        rate = _parameters.rate("service_rate", service_rate)
        return (self.leading + self.correction * servers ** (-1 / 6)) * servers ** (-2 / 3) / rate


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


def scaled_erlang_b(beta):
    r"""Return the limit of :math:`\sqrt K` times Erlang's blocking probability.

    .. math::

        h = \lim_{K \to \infty} \sqrt K B(K, K + \beta\sqrt K) = \frac{\varphi(\beta)}{\Phi(-\beta)}

    Parameters
    ----------
    beta : array_like
        Load :math:`\beta`, from -30 to 30.

    Returns
    -------
    float or ndarray
        :math:`h`, the hazard rate of the normal law.

    Raises
    ------
    ValueError
        If ``beta`` is outside its range.

    Notes
    -----
    :math:`h = \sqrt{2/\pi}/\mathrm{erfcx}(\beta/\sqrt 2)`; measured against 50-digit arithmetic:
    relative error below 1e-15 for :math:`\beta \ge 0`, and growing to 2e-13 at -30, where the
    argument of the exponential rounds.

    References
    ----------
    Jagerman, Bell System Technical Journal 53 (1974), 525-551.

    Examples
    --------
    >>> scaled_erlang_b(0.0)
    0.797884560802...
    """
    beta = _checks.real("beta", beta, at_least=-_LARGEST_BETA, at_most=_LARGEST_BETA)
    return _checks.unwrap(_hazard(beta))


def deferral_slot_value(beta):
    r"""Return by how much a deferral lowers blocking, relative to Erlang's, times :math:`\sqrt K`.

    .. math::

        h - \beta = \lim_{K \to \infty} \sqrt K \, \frac{1 - P_B/B_K}{D}

    for a fixed number :math:`D` of deferrals, at the best spacing of either policy. A waiting place
    is worth the same.

    Parameters
    ----------
    beta : array_like
        Load :math:`\beta`, from -30 to 30.

    Returns
    -------
    float or ndarray
        :math:`h - \beta > 0`.

    Raises
    ------
    ValueError
        If ``beta`` is outside its range.

    Notes
    -----
    For :math:`\beta > 3`, where the difference would cancel, the continued fraction
    :math:`1/(\beta + 2/(\beta + 3/(\beta + \dots)))`. Measured against 50-digit arithmetic:
    relative error below 1e-14.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), for the policies.

    Examples
    --------
    >>> deferral_slot_value(0.1)
    0.762...
    """
    beta = _checks.real("beta", beta, at_least=-_LARGEST_BETA, at_most=_LARGEST_BETA)
    return _checks.unwrap(_slot_value(beta))


def waiting_room_blocking(servers, waiting_places, arrival_rate, service_rate):
    r"""Return the fraction lost by a system with waiting places: a bound for deferral systems.

    .. math::

        \frac{1}{B_{K,0}} = \frac{1}{B_K}, \qquad
        \frac{1}{B_{K,D}} = 1 + \frac{K\mu}{\lambda} \frac{1}{B_{K,D-1}}

    No policy that defers at most :math:`D` customers at a time and does not know the future loses
    fewer.

    Parameters
    ----------
    servers : array_like
        Number of servers :math:`K \ge 1`.
    waiting_places : array_like
        Number of waiting places :math:`D \ge 0`.
    arrival_rate : array_like
        Arrival rate :math:`\lambda`, customers per unit of time, from 1e-60 to 1e60.
    service_rate : array_like
        Service rate :math:`\mu` of one server, per unit of time, from 1e-60 to 1e60.

    Returns
    -------
    float or ndarray
        Blocking probability of M/M/K/K+D.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    The recursion summed, :math:`B_K/(r^{-D} + B_K (1 - r^{-D})/(1 - r^{-1}))` with
    :math:`r = \lambda/(K\mu)`, both terms positive. Relative error below 1e-13 where
    :math:`D |\ln r| < 700`, measured against the recursion in 50-digit arithmetic.

    References
    ----------
    Kleinrock, Queueing Systems I (1975), section 3.6, for M/M/K/K+D.

    Examples
    --------
    >>> waiting_room_blocking(1, 1, 1.0, 1.0)
    0.333333333333...
    """
    servers = _checks.real("servers", servers, at_least=1)
    places = _checks.real("waiting_places", waiting_places, at_least=0)
    load = _parameters.rates("arrival_rate", arrival_rate) / _parameters.rates(
        "service_rate", service_rate
    )
    blocking = erlang_b(servers, load)
    log_ratio = np.log(load / servers)
    # Beyond 700 the result is below the smallest float, or the powers are nothing beside 1.
    exponent = np.clip(-places * log_ratio, -700.0, 700.0)
    flat = np.abs(log_ratio) < 1e-300
    safe = np.where(flat, 1.0, log_ratio)
    queue = np.where(flat, places, np.expm1(exponent) / np.expm1(-safe))
    return _checks.unwrap(blocking / (np.exp(exponent) + blocking * queue))


def throughput_floor(servers, arrival_rate, service_rate):
    r"""Return the fraction that any policy loses because the servers are too few.

    .. math::

        P_B \ge \max\left(0, 1 - \frac{K\mu}{\lambda}\right)

    Parameters
    ----------
    servers : array_like
        Number of servers :math:`K \ge 1`.
    arrival_rate : array_like
        Arrival rate :math:`\lambda`, customers per unit of time, from 1e-60 to 1e60.
    service_rate : array_like
        Service rate :math:`\mu` of one server, per unit of time, from 1e-60 to 1e60.

    Returns
    -------
    float or ndarray
        The floor, :math:`\beta/(\sqrt K + \beta)` at :math:`\lambda = \mu(K + \beta\sqrt K)`,
        :math:`\beta > 0`.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Computed as :math:`(\lambda - K\mu)/\lambda`; relative error below 1e-15 for exact arguments.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), section V, asks whether many deferrals bring a loss
    of smaller order than :math:`1/\sqrt K`: for :math:`\beta > 0` this forbids it.

    Examples
    --------
    >>> throughput_floor(100, 125.0, 1.0)
    0.2
    """
    servers = _checks.real("servers", servers, at_least=1)
    arrival_rate = _parameters.rates("arrival_rate", arrival_rate)
    capacity = servers * _parameters.rates("service_rate", service_rate)
    return _checks.unwrap(np.maximum(0.0, (arrival_rate - capacity) / arrival_rate))


def esrt_spacing(max_deferrals, beta):
    r"""Expand the best mean spacing when returns are spaced by exponential times.

    .. math::

        K^{2/3} \frac{\mu}{\alpha^*} = c + j \sqrt c \, K^{-1/6} + O(K^{-1/3}), \qquad
        c = \left[ \frac{3\sqrt\pi}{2} \frac{\Gamma(D)}{\Gamma(D + 3/2)} (h - \beta) \right]^{2/3},
        \quad j = \sum_{i=1}^{D-1} (i + 1) \frac{(1/2)_{i-1}}{(i - 1)!}

    Parameters
    ----------
    max_deferrals : int
        Number of deferrals :math:`D`, from 1 to 100.
    beta : float
        Load :math:`\beta = (\lambda/\mu - K)/\sqrt K`, from -30 to 30.

    Returns
    -------
    SpacingExpansion
        Both coefficients, and the loss beyond that of :math:`D` waiting places.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    A formal expansion. Against exact optima at :math:`\beta = 0.1`, what remains times
    :math:`K^{1/3}` is -0.27 for :math:`D = 1` and -2.06 for :math:`D = 2` at :math:`K = 10^6`. The
    term of order :math:`K^{-1/6}` vanishes for :math:`D = 1` only. The expansion presumes
    :math:`D \ll K^{1/12}`.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), figure 8(b), where the question is asked.

    Examples
    --------
    >>> esrt_spacing(1, 0.1).spacing(10**6)
    0.0001325...
    """
    return _expand(max_deferrals, beta, _spacing_constants.exponential)


def dsrt_spacing(max_deferrals, beta):
    r"""Expand the best spacing when returns are spaced by a fixed time.

    .. math::

        K^{2/3} \mu x^* = c + j \sqrt c \, K^{-1/6} + O(K^{-1/3}), \qquad
        c = [\kappa_D (h - \beta)]^{2/3}

    with :math:`\kappa_1 = 2/\sqrt\pi`, :math:`j = \sqrt\pi/4` for :math:`D = 1`; for more deferrals
    both come from an integral equation on a stage,

    .. math::

        G = \delta_0 + \sum_{i=1}^{D-1} G k_i, \qquad
        k_i(e, v) = \frac{1}{\pi} \sqrt{\frac{1 - e}{i - 1 + v}} \, \frac{1}{i - e + v}, \qquad
        \kappa_D = \frac{\sqrt\pi \int (1 - e)^{-1/2} \, G(de)}
            {\sum_{i=1}^{D} \int\!\int_e^1 \sqrt{(i - \phi)/(\phi - e)} \, d\phi \, G(de)}.

    Parameters
    ----------
    max_deferrals : int
        Number of deferrals :math:`D`, from 1 to 100.
    beta : float
        Load :math:`\beta = (\lambda/\mu - K)/\sqrt K`, from -30 to 30.

    Returns
    -------
    SpacingExpansion
        Both coefficients, and the loss beyond that of :math:`D` waiting places.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    A formal expansion. The integral equation is solved by double-exponential quadrature, the
    coefficients to 1e-12 (leading) and 1e-10 (correction). At :math:`\beta = 0.1` and
    :math:`K = 10^7` the exact optimum is 0.1 %, 0.2 % and 0.4 % below both terms for
    :math:`D = 1, 2, 3`. The expansion presumes :math:`D \ll K^{1/12}`.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), figure 6, where the question is asked.

    Examples
    --------
    >>> dsrt_spacing(2, 0.1).leading
    0.58309...
    """
    return _expand(max_deferrals, beta, _spacing_constants.deterministic)


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
    beta = _checks.real("beta", beta, at_least=-_LARGEST_BETA, at_most=_LARGEST_BETA)
    delta = _checks.real("delta", delta, at_least=0.0, at_most=20.0)
    return _checks.unwrap(_scaled_waiting_room(beta, delta))


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
    beta = _checks.scalar("beta", beta, at_least=-_LARGEST_BETA, at_most=_LARGEST_BETA)
    delta = _checks.scalar("delta", delta, above=0.0, at_most=20.0)
    hazard = float(_hazard(beta))
    limit = float(_scaled_waiting_room(beta, delta))
    idle = delta + hazard * delta**2 * _second_remainder(beta * delta)
    returns = float(_slot_value(np.asarray(beta))) * delta**2 * _second_remainder(-beta * delta)
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
    b = _checks.scalar("scaled_beta", scaled_beta, at_least=-5.0, at_most=1000.0)
    time = _checks.scalar("max_deferral_time", max_deferral_time, at_least=1e-3, at_most=1e3)

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
    servers = _checks.scalar("servers", servers, at_least=1.0)
    beta = _checks.scalar("beta", beta, at_least=-_LARGEST_BETA, at_most=-0.01)
    service_rate = _parameters.rate("service_rate", service_rate)
    time = service_rate * _parameters.time("max_deferral_time", max_deferral_time)
    time = _checks.scalar("service_rate * max_deferral_time", time, at_least=1e-3, at_most=1e3)
    # root * exp(root) = exp(log_argument), which itself may overflow.
    log_argument = time + 0.5 * math.log(servers) + math.log(-(beta**3) * time**2 / 2.0)
    root = float(wrightomega(log_argument))
    hazard = float(_hazard(beta))
    scale = root / (-beta * time)
    return UnderloadedTimeLimit(
        rearrival_rate=service_rate * scale * math.sqrt(servers),
        blocking_probability=hazard / (hazard - beta) * scale**2 * (1.0 + 2.0 / root) / servers,
    )


def _hazard(beta):
    return math.sqrt(2.0 / math.pi) / erfcx(beta / math.sqrt(2.0))


def _slot_value(beta):
    fraction = np.zeros_like(beta)
    above = np.maximum(beta, 3.0)
    for term in range(80, 0, -1):
        fraction = term / (above + fraction)
    return np.where(beta > 3.0, fraction, _hazard(np.minimum(beta, 3.0)) - beta)


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
    hazard = _hazard(beta)
    return hazard * np.exp(beta * delta) / (1.0 + hazard * queue)


def _expand(max_deferrals, beta, constants_of):
    deferrals = _checks.count("max_deferrals", max_deferrals, at_least=1, at_most=_MOST_DEFERRALS)
    beta = _checks.scalar("beta", beta, at_least=-_LARGEST_BETA, at_most=_LARGEST_BETA)
    constants = constants_of(deferrals)
    balance = constants.balance * float(_slot_value(np.asarray(beta)))
    leading = balance ** (2 / 3)
    return SpacingExpansion(
        max_deferrals=deferrals,
        beta=beta,
        leading=leading,
        correction=constants.correction * math.sqrt(leading),
        excess=1.5 * float(_hazard(beta)) * constants.cost * balance ** (1 / 3),
    )
