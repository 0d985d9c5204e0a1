r"""Tails of the wait in the QED regime, on the scale 1/√servers, to any order in 1/√servers.

A customer who is the n-th in the queue still waits at the time t/√s if fewer than n services have
ended, a Poisson number N of mean t/ε. With g(nε) = q_s(n − 1)ρⁿ the weight of all who do is

.. math::

    T = \sum_{n \ge 1} g(nε) P(N < n) = \frac1ε \mathrm E H(εN), \qquad
    H = \frac{εD}{1 - e^{-εD}} \int_x^\infty g

by Euler–Maclaurin, D being d/dx. As E h(εN) = exp[t(e^{εD} − 1 − εD)/ε] h at t, for smooth h, the
two operators together are a power series in ε with the coefficients ω_p(D), polynomials in D and t:

.. math:: εT = \int_t^\infty g - \sum_{p \ge 1} ε^p \sum_{k \ge 1} ω_{p,k}\,g^{(k-1)}(t).

All of g from t on is g(t; ε) times the same for the profile as it looks from t.
"""

import functools
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from qcore._numerics import checks
from qcore._numerics.power_series import (
    add,
    bernoulli,
    divide,
    exponential,
    integral,
    multiply,
    polynomial,
    precise,
    shifted,
)
from qcore._numerics.quadrature import QuadratureError, cumulative_integral
from qcore.admission import Piece, ScalingProfile
from qcore.qed._expansions import (
    DIGITS,
    agree,
    checked,
    ingredients_of,
    of_admitted,
    rejection_series,
)
from qcore.qed._waiting_sums import load_per_server, term_exponent, term_integrals, term_jets

_LATEST = 1e6
_AMONG = ("all", "served")


def wait_tail(servers, gamma, scaled_time, profile, order=1, control=None):
    r"""Return the probability that an admitted customer waits longer than ``scaled_time``/√s.

    .. math::

        P(W_s > t/\sqrt s) = \frac{\sum_{n\ge1} q_s(n-1)\,ρ^n\,P(N < n)}{ρ(1/B_s - 1) + F_s},
        \qquad ρ = 1 - γ/\sqrt s,

    N Poisson with mean t√s, as a series in 1/√s at a fixed t, truncated after ``order``
    corrections to its leading term :math:`L_t(γ)/(Φ(γ)/φ(γ) + L(γ))`,
    :math:`L_t(γ) = \int_t^\infty e^{-γx}f(x)\,dx`.

    Parameters
    ----------
    servers : array_like
        s > 0, not necessarily an integer; √s > γ.
    gamma : array_like
        γ > ``profile.gamma_min``, of any sign, up to 10⁹ in size.
    scaled_time : array_like
        t, 0 ≤ t ≤ 10⁶: √servers times a time in units of the mean service time.
    profile : ScalingProfile
        The scaling profile, smooth on all of x ≥ 0: without breaks, and of unbounded support;
        or `NoWaiting`.
    order : int, optional
        Number of corrections, 0 to `HIGHEST_ORDER`.
    control : {"global", "local"}, optional
        By default the profile's own.

    Returns
    -------
    float or ndarray
        The truncated series, cut off at 0 and 1; exactly 0 for `NoWaiting`.

    Raises
    ------
    UnstableSystem
        If γ ≤ ``profile.gamma_min`` (γ = 0 is allowed where the Laplace transform is finite).
    ValueError
        For arguments outside their domain; for a profile that breaks or ends, as the series is not
        uniform in t near such places (`admission.queue` gives the exact tail); or if the profile
        cannot supply what the order asks for: derivatives of a up to 2·order at t, a quadrature.

    Notes
    -----
    The sum over n is done by Euler–Maclaurin, the mean over N by its cumulants; what is left are
    the integral of e^{−γx}f(x) times polynomials from t on and derivatives at t. The series is
    uniform in 0 ≤ t ≤ T for a fixed T. It is not for t that grows with s: the corrections hold the
    powers t(γ + a(t))²/√s, so that they are small only while this is. `OpenAdmission` is exact
    in t, as its waits are exponential.

    Coefficients up to order 6, measured against sums at 320 bits, taken at 30 values of s and
    extrapolated to s = ∞, at t = 0, 0.25 and 1.5, γ = −0.3 and 0.75: within 1e-15 of themselves
    for profiles with closed forms; for others within 1e-14 of the largest, and within 2e-12 of
    themselves. A new t costs 1 to 3 ms at order 2 and 4 to 10 ms at order 6; with profiles of
    one's own whose derivatives come from differences some 0.3 s at order 6, and up to 2 s under
    local control.

    References
    ----------
    - A.J.E.M. Janssen, J.S.H. van Leeuwaarden and J. Sanders, "Scaled control in the QED
      regime", Performance Evaluation 70 (2013), for the series of F_s.
    - R. B. Cooper, Introduction to Queueing Theory (2nd ed., 1981), section 3.7, for the wait in
      order of arrival.

    Examples
    --------
    >>> from qcore import qed
    >>> from qcore.admission import Abandonment, queue
    >>> profile = Abandonment(1.0)
    >>> [round(qed.wait_tail(100, 0.5, 1.0, profile, order), 8) for order in (0, 1, 2, 4)]
    [0.0668072, 0.0725483, 0.07212046, 0.07216674]
    >>> round(queue(100, 0.95, profile).wait_tail(0.1), 8)
    0.07216601
    """
    return _on_arrays(_tail_series, servers, gamma, scaled_time, profile, order, control)


def wait_tail_coefficients(gamma, scaled_time, profile, order, control=None):
    """Return the coefficients c_0 … c_order of `wait_tail` in powers of 1/√servers.

    Parameters
    ----------
    gamma : float
        γ > ``profile.gamma_min``.
    scaled_time : array_like
        t, 0 ≤ t ≤ 10⁶: √servers times a time in units of the mean service time.
    profile, order, control
        As for `wait_tail`.

    Returns
    -------
    ndarray
        Of the shape of ``scaled_time`` and a last axis of length order + 1.

    Raises
    ------
    UnstableSystem, ValueError
        As for `wait_tail`.

    Examples
    --------
    Everybody is admitted: the wait is exponential given that there is one.

    >>> from qcore import qed
    >>> from qcore.admission import OpenAdmission
    >>> found = qed.wait_tail_coefficients(0.5, [0.0, 2.0], OpenAdmission(), 2)
    >>> (found[1] / found[0]).round(12)
    array([0.36787944, 0.36787944, 0.36787944])
    """
    return _coefficients_at(_tail_series, gamma, scaled_time, profile, order, control)


def service_level(servers, gamma, scaled_time, profile, order=1, control=None, of="all"):
    r"""Return the share of customers who are admitted and wait at most ``scaled_time``/√s.

    .. math:: P(\text{admitted}, W_s \le t/\sqrt s) = (1 - D^R_s)\,P(W_s \le t/\sqrt s)

    Parameters
    ----------
    servers, gamma, scaled_time, profile, order, control
        As for `wait_tail`; the time in units of the mean service time is
        ``scaled_time``/√servers.
    of : {"all", "served"}, optional
        Among which customers: all who arrive, so that a rejection counts as a failure; or those
        who are admitted, all of whom are served.

    Returns
    -------
    float or ndarray
        The series truncated after ``order`` corrections, cut off at 0 and 1.

    Raises
    ------
    UnstableSystem, ValueError
        As for `wait_tail`.

    Notes
    -----
    Method and accuracy are those of `wait_tail`.

    Examples
    --------
    >>> from qcore import qed
    >>> from qcore.admission import ModifiedDrift, queue
    >>> round(qed.service_level(400, 0.4, 2.0, ModifiedDrift(0.5), order=6), 9)
    0.948660531
    >>> round(queue(400, 0.98, ModifiedDrift(0.5)).service_level(0.1), 9)
    0.948660531
    """
    series = _level_series(of)
    return _on_arrays(series, servers, gamma, scaled_time, profile, order, control)


def service_level_coefficients(gamma, scaled_time, profile, order, control=None, of="all"):
    """Return the coefficients c_0 … c_order of `service_level` in powers of 1/√servers.

    As `wait_tail_coefficients`.
    """
    return _coefficients_at(_level_series(of), gamma, scaled_time, profile, order, control)


def _level_series(of):
    return {"all": _level_of_all, "served": _level_of_served}[checks.choice("of", of, _AMONG)]


def _on_arrays(series, servers, gamma, scaled_time, profile, order, control):
    servers, gamma, times = checks.broadcast(
        servers=checks.real("servers", servers, above=0),
        gamma=checks.real("gamma", gamma),
        scaled_time=_times(scaled_time),
    )
    root = np.sqrt(servers)
    if np.any(gamma >= root):
        first = np.argmax((gamma >= root).ravel())
        raise ValueError(
            f"gamma = {float(gamma.flat[first])!r}: must be below the square root of servers = "
            f"{float(servers.flat[first])!r}, or there is no load"
        )
    result = np.empty(servers.shape)
    for index in np.ndindex(servers.shape):
        row = _floats(series, float(gamma[index]), float(times[index]), profile, order, control)
        with np.errstate(over="ignore"):
            result[index] = np.polynomial.polynomial.polyval(1 / root[index], row)
    if np.any(np.isnan(result)):
        first = float(servers[np.isnan(result)].flat[0])
        raise ValueError(f"servers = {first!r}: too few for order {order}, whose terms overflow")
    return checks.unwrap(np.clip(result, 0.0, 1.0))


def _coefficients_at(series, gamma, scaled_time, profile, order, control):
    gamma, times = checks.scalar("gamma", gamma), _times(scaled_time)
    order = checked(gamma, profile, order, control)[2]
    rows = [_floats(series, gamma, t, profile, order, control) for t in times.ravel().tolist()]
    return np.reshape(rows, (*times.shape, order + 1))


def _times(scaled_time):
    return checks.real("scaled_time", scaled_time, at_least=0, at_most=_LATEST)


def _floats(series, gamma, t, profile, order, control):
    gamma, control, order = checked(gamma, profile, order, control)
    _refuse_breaks(profile, control)
    coefficients = np.array(series(gamma, t, profile, order, control), dtype=float)
    if not np.all(np.isfinite(coefficients)):
        raise ValueError(
            f"order = {order!r}: the coefficients at scaled_time = {t!r} exceed the largest "
            "floating-point number; ask for a lower order"
        )
    return coefficients


def _refuse_breaks(profile, control):
    if profile.support == 0:
        return
    first = profile.pieces(control)[0].end
    if first < math.inf:
        raise ValueError(
            f"profile = {profile!r}: it breaks or ends at x = {first!r}, near which the series of "
            "the tail is not uniform in the time; admission.queue gives the exact tail"
        )


def _tail_series(gamma, t, profile, order, control):
    ingredients = ingredients_of(gamma, profile, order, control)
    with precise(ingredients.digits):
        admitted = of_admitted(ingredients, ingredients.waiting())
        return divide(_late(gamma, t, profile, order, control), admitted)


def _level_of_served(gamma, t, profile, order, control):
    tail = [-c for c in _tail_series(gamma, t, profile, order, control)]
    return [1 + tail[0], *tail[1:]]


def _level_of_all(gamma, t, profile, order, control):
    ingredients = ingredients_of(gamma, profile, order, control)
    with precise(ingredients.digits):
        everybody = list(map(np.add, ingredients.inverse_erlang_b, ingredients.waiting()))
        everybody = multiply(load_per_server(ingredients.gamma, order), everybody)
        late = divide(_late(gamma, t, profile, order, control), everybody)
        rejected = [Decimal(0), *rejection_series(ingredients)][: order + 1]
        level = [-one - other for one, other in zip(late, rejected, strict=True)]
        return [1 + level[0], *level[1:]]


@functools.lru_cache(maxsize=4096)
def _late(gamma, t, profile, order, control):
    """Return the series of εT, with more and more digits until two computations agree."""
    if profile.support == 0:
        return [Decimal(0)] * (order + 1)
    coarse = None
    for digits in DIGITS:
        with precise(digits):
            fine = np.array(_late_once(Decimal(gamma), t, profile, order, control))[:, None]
            if coarse is not None and agree(coarse, fine):
                return fine[:, 0].tolist()
        coarse = fine
    raise ValueError(f"order = {order!r}: too high for gamma = {gamma!r}, scaled_time = {t!r}")


def _late_once(gamma, t, profile, order, control):
    onward = _Onward(profile, t) if t else profile
    weights = _operator(t, order)
    series = term_integrals(onward, gamma, order, control)
    if order:
        jets = term_jets(onward, gamma, order, control, 2 * order)
        for p in range(1, order + 1):
            for k, weight in enumerate(weights[p][1:]):
                for j in range(order + 1 - p):
                    series[p + j] -= weight * math.factorial(k) * jets[j][k]
    if not t:
        return series
    log_f = _log_profile(profile, t)
    powers = _integrals_of_powers(profile, t, order, control, log_f)
    constants = term_exponent(profile, gamma, order, control, t, powers)
    at_t = np.concatenate(
        exponential([polynomial(c) for c in constants], np.multiply, polynomial(1))
    )
    scale = (log_f - gamma * Decimal(t)).exp()
    return multiply(list(scale * at_t), series)


def _operator(t, order):
    """Return ω_0 … ω_order, polynomials in D, of exp[t(e^{εD} − 1 − εD)/ε]·εD/(1 − e^{−εD})."""
    exponent, bridge = [polynomial(0)], [polynomial(1)]
    for p in range(1, order + 1):
        power = [0] * p
        exponent.append(polynomial(*power, 0, Decimal(t) / math.factorial(p + 1)))
        number = bernoulli(p) * (-1) ** p
        factor = Decimal(number.numerator) / number.denominator / math.factorial(p)
        bridge.append(polynomial(*power, factor))
    spread = exponential(exponent, np.convolve, polynomial(1))
    return [
        add(*(np.convolve(spread[j], bridge[p - j]) for j in range(p + 1)))
        for p in range(order + 1)
    ]


def _log_profile(profile, t):
    """Return ln f(t) as a decimal."""
    rate = profile.rate_polynomial()
    if rate is not None:
        return -shifted(integral(rate), Decimal(t))[0]
    value = profile.f(t)
    return Decimal(value).ln() if value > 1e-290 else Decimal(profile.log_f(t))


def _integrals_of_powers(profile, t, order, control, log_f):
    """Return the integrals of a, a², …, a^(order + 1) from 0 to t, under local control."""
    if control == "global":
        return None
    rate = profile.rate_polynomial()
    if rate is not None:
        power, found = polynomial(1), []
        for _ in range(order + 1):
            power = np.convolve(power, rate)
            found.append(shifted(integral(power), Decimal(t))[0])
        return found
    return [-log_f, *map(Decimal, _powers_by_quadrature(profile, t, order))]


@functools.lru_cache(maxsize=1024)
def _powers_by_quadrature(profile, t, order):
    try:
        return tuple(
            float(cumulative_integral(lambda x, m=m: profile.a(x) ** m, np.array([t]))[0])
            for m in range(2, order + 2)
        )
    except QuadratureError as error:
        raise ValueError(
            f"scaled_time = {t!r}: the integrals of powers of a of {profile!r} failed: {error}"
        ) from None


@dataclass(frozen=True)
class _Onward(ScalingProfile):
    """A profile as it looks from x: f(x + y)/f(x)."""

    profile: ScalingProfile
    x: float

    @property
    def gamma_min(self):
        return self.profile.gamma_min

    def _log_f(self, y):
        return self.profile.log_f(self.x + y) - self.profile.log_f(self.x)

    def _a(self, y):
        return self.profile.a(self.x + y)

    def pieces(self, control=None):
        return (Piece(0.0, math.inf),)

    def rate_polynomial(self):
        rate = self.profile.rate_polynomial()
        return None if rate is None else shifted(rate, Decimal(self.x))

    def moments(self, gamma, n):
        return self.profile.excess_moments(self.x, gamma, n)

    def taylor_of_a(self, x, n, side):
        return self.profile.taylor_within(self.x + x, n)

    def rate_jets(self, x, scales, n):
        return self.profile.rate_jets(self.x + x, scales, n)
