"""Exact stationary measures of a many-server queue with scaled admission control."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import gammaln

from qcore._numerics import checks
from qcore._numerics.sums import Sequence, compensated_cumsum, sum_sequence
from qcore.admission._profiles import LOG_ROUNDING, ScalingProfile
from qcore.erlang import QueueDistribution, inverse_erlang_b, log_erlang_b
from qcore.errors import UnstableSystem

MOST_STATES = 20_000_000
_LARGEST_STATE = 2**63 - 1
LARGEST = 1e18  # number of servers, traffic intensity and load
_NEGLIGIBLE = 44.0  # exp(−44) = 8e-20
_NORMAL = 1e-290  # a load below may be rounded by more than others
_INFINITE = 1e300  # an infinite a, as far as probabilities can tell


def is_stable(servers, traffic_intensity, profile, control=None):
    r"""Decide whether the controlled queue has a stationary distribution.

    .. math::

        \text{global: } \gamma_s = -\sqrt s \ln\rho > \gamma_{\min}, \qquad
        \text{local: } \gamma = \sqrt s\,(1 - \rho) > \gamma_{\min} = -\lim_{x\to\infty} a(x)

    Parameters
    ----------
    servers : array_like
        Number of servers s, 0 < s ≤ 10¹⁸, not necessarily an integer.
    traffic_intensity : array_like
        Offered load over servers, ρ ≥ 0; it may exceed 1, but sρ not 10¹⁸.
    profile : ScalingProfile
        The profile of the control.
    control : {"global", "local"}, optional
        How the profile is applied; the profile's own way if not given.

    Returns
    -------
    bool or ndarray of bool

    Notes
    -----
    Both conditions are necessary and sufficient when a is non-decreasing. Under global control
    the boundary γ_s = γ_min is stable if the Laplace transform of f is finite there, as for
    ``PowerDecay(exponent)`` with exponent > 1; under local control it never is.

    References
    ----------
    Janssen, van Leeuwaarden and Sanders, Scaled control in the QED regime, Performance
    Evaluation 70 (2013), equations (3.12) and (3.13).

    Examples
    --------
    >>> from qcore.admission import ModifiedDrift, OpenAdmission, is_stable
    >>> is_stable(100, 1.05, ModifiedDrift(0.5)), is_stable(100, 1.05, OpenAdmission())
    (True, False)
    """
    return on_each(
        lambda s, rho, how: _fails(s, rho, profile, how) is None,
        servers,
        traffic_intensity,
        profile,
        control,
        bool,
    )


def delay_probability(servers, traffic_intensity, profile, control=None):
    r"""Compute the probability that an arriving customer finds all servers busy.

    .. math::

        D_s = \frac{1 + F_s}{1/B_s + F_s}, \qquad
        F_s = \sum_{n \ge 0} p_s(0) \cdots p_s(n)\,\rho^{n+1},

    where B_s is the Erlang B probability and p_s(k) the probability of admitting a customer who
    finds k waiting: under global control :math:`p_s(0)\cdots p_s(n) = f((n+1)/\sqrt s)`, under
    local control :math:`p_s(k) = 1/(1 + a((k+1)/\sqrt s)/\sqrt s)`.

    Parameters
    ----------
    servers : array_like
        Number of servers s, 0 < s ≤ 10¹⁸, not necessarily an integer.
    traffic_intensity : array_like
        Offered load over servers, ρ ≥ 0; it may exceed 1, but sρ not 10¹⁸.
    profile : ScalingProfile
        The profile of the control.
    control : {"global", "local"}, optional
        How the profile is applied; the profile's own way if not given.

    Returns
    -------
    float or ndarray
        D_s, from B_s (nobody may wait) to 1. It is 0 where it is below 5e-324.

    Raises
    ------
    UnstableSystem
        If there is no stationary distribution.

    Notes
    -----
    F_s is a geometric sum for `NoWaiting`, `OpenAdmission`, `ModifiedDrift` and `FiniteBuffer`
    (places n ≤ size·√s, equality within rounding counting as such). Other profiles are summed
    term by term where terms are few, and by blocks of doubling length else, each by a rule that is
    exact for polynomials of degree 31 and is checked against its two halves; the time grows like
    log s for smooth profiles, and the number of servers is not limited. Kinks and jumps of a
    profile are found by halving.

    Measured against sums at 50 digits: relative error below 1e-15 for s = 1 … 10⁸ and
    ρ = 1e-6 … 10, for all profiles and both controls, wherever D_s ≥ 1e-290.

    References
    ----------
    Janssen, van Leeuwaarden and Sanders, Scaled control in the QED regime, Performance
    Evaluation 70 (2013), equations (2.3), (2.8), (3.3) and (3.5).

    Examples
    --------
    >>> from qcore.admission import Abandonment, ModifiedDrift, delay_probability
    >>> round(delay_probability(100, 0.99, ModifiedDrift(0.5)), 12)
    0.496714811554
    >>> round(delay_probability(100, 1.2, Abandonment(0.5)), 12)
    0.996634370421
    """

    def one(s, rho, how):
        return _delay(s, rho, _sums(s, rho, profile, how))

    return on_each(one, servers, traffic_intensity, profile, control, float)


def rejection_probability(servers, traffic_intensity, profile, control=None):
    r"""Compute the probability that an arriving customer is rejected.

    .. math::

        D_s^R = \frac{1 + (1 - 1/\rho)F_s}{1/B_s + F_s}, \qquad
        1 + (1 - 1/\rho)F_s = \sum_{n \ge 0} p_s(0)\cdots p_s(n-1)\,(1 - p_s(n))\,\rho^n

    For `Abandonment` under its own, local control this is the probability of abandoning.

    Parameters
    ----------
    servers, traffic_intensity, profile, control
        As for `delay_probability`.

    Returns
    -------
    float or ndarray
        D_s^R, between 0 and D_s.

    Raises
    ------
    UnstableSystem
        If there is no stationary distribution.

    Notes
    -----
    The numerator is summed in its second form, of non-negative terms, for ρ < 1, and taken in its
    first form for ρ ≥ 1, so nothing cancels. The one exception is a profile `from_global` without
    its ``a``, for which 1 − p_s(n) would be a difference of values of f: there the first form is
    used, and the relative error is that of f over the numerator.

    Measured against sums at 50 digits: relative error below 1e-15 on the domain given for
    `delay_probability`.

    References
    ----------
    Janssen, van Leeuwaarden and Sanders, Scaled control in the QED regime, Performance
    Evaluation 70 (2013), equation (2.9).

    Examples
    --------
    >>> from qcore.admission import Abandonment, NoWaiting, rejection_probability
    >>> round(rejection_probability(100, 1.2, Abandonment(0.5)), 12)
    0.166790630955
    >>> rejection_probability(2, 0.5, NoWaiting())
    0.2
    """

    def one(s, rho, how):
        sums = _sums(s, rho, profile, how)
        return _delay(s, rho, sums) * sums.rejected_share

    return on_each(one, servers, traffic_intensity, profile, control, float)


def queue_distribution(servers, traffic_intensity, profile, control=None):
    r"""Compute the stationary distribution of the number of customers in the system.

    .. math::

        \pi_k = \pi_0 \frac{(s\rho)^k}{k!} \quad (k \le s), \qquad
        \pi_{s+k+1} = \pi_{s+k}\,\rho\,p_s(k)

    Parameters
    ----------
    servers : int
        Number of servers s, 1 to 2^53.
    traffic_intensity : float
        Offered load over servers, ρ from 1e-290; it may exceed 1, but not 10¹⁸.
    profile, control
        As for `delay_probability`.

    Returns
    -------
    QueueDistribution
        States and probabilities, wherever a probability is at least 1e-19 of the largest.

    Raises
    ------
    UnstableSystem
        If there is no stationary distribution.
    ValueError
        If more than 2·10⁷ states would be needed.

    Notes
    -----
    Logarithms of ratios of neighbouring probabilities are added with compensation; neither
    Erlang's formula nor F_s is used. The delay probability of the law agrees with
    `delay_probability` to a relative 1e-11 up to 10⁸ servers, where it is above 1e-17.

    Below and at capacity some 20·√(sρ) states are computed, at 0.1 µs each; above it, and in the
    queue, those that matter. For a profile of one's own each waiting state costs a value of f or a.
    What exceeds 2·10⁷ states is refused before it is allocated.

    References
    ----------
    Janssen, van Leeuwaarden and Sanders, Scaled control in the QED regime, Performance
    Evaluation 70 (2013), equations (2.1) and (2.2).

    Examples
    --------
    >>> from qcore.admission import NoWaiting, queue_distribution
    >>> law = queue_distribution(2, 0.5, NoWaiting())
    >>> law.number_in_system.tolist(), law.probability.tolist()
    ([0, 1, 2], [0.4, 0.4, 0.2])
    """
    s = checks.count("servers", servers, at_least=1, at_most=2**53)
    rho = checks.scalar("traffic_intensity", traffic_intensity, at_least=1e-290, at_most=LARGEST)
    how = checked_profile(profile).resolve_control(control)
    require_stable(s, rho, profile, how)
    top = _states_at_the_top(s, rho, profile, how)
    if top is not None:
        states, logs = top
        weights = np.exp(logs)
        return QueueDistribution(states, weights / math.fsum(weights), s)
    first, below = log_serving(s, s * rho)
    last = first + len(below) - 1
    logs = below
    if last == s:
        waiting = log_waiting(float(s), rho, profile, how, _NEGLIGIBLE + below.max() - below[-1])
        logs = np.concatenate([below, below[-1] + waiting[1:]])
    return law_of(first, logs, s)


def law_of(first, logs, servers):
    """Return the law of the states from ``first`` on, from logarithms of their weights."""
    largest = logs.max()
    inside = np.flatnonzero(logs > largest - _NEGLIGIBLE)
    logs = logs[inside[0] : inside[-1] + 1]
    weights = np.exp(logs - largest)
    states = np.arange(first + inside[0], first + inside[-1] + 1)
    return QueueDistribution(states, weights / math.fsum(weights), servers)


def _states_at_the_top(s, rho, profile, control):
    """Return states and ln of their weights where only the last waiting places matter, or None."""
    constant = profile.constant_refusal(math.sqrt(s), control)
    if constant is None or rho <= 1 or constant[1] == math.inf:
        return None
    refused, places = constant
    log_ratio = _log(rho) + math.log1p(-refused)
    if not log_ratio * places > _NEGLIGIBLE:
        return None
    few = math.ceil(_NEGLIGIBLE / log_ratio)
    _require_few(few)
    if s + places > _LARGEST_STATE:
        raise ValueError(
            f"profile = {profile!r}: it has {places:.3g} places to wait, so that the states exceed "
            "the largest integer of an array"
        )
    return np.arange(s + places - few, s + places + 1), -log_ratio * np.arange(few, -1.0, -1)


def log_serving(s, load):
    """Return the first state and ln(π_k/π_mode) from there up to s, or to where π is negligible."""
    mode = min(s, math.floor(load))
    reach = int(10 * math.sqrt(load)) + 60
    if load > s:  # each step down from s is a factor below s/load
        reach = min(reach, math.ceil(_NEGLIGIBLE / math.log(load / s)) + 1)
    _require_few(reach)
    down = np.arange(mode, max(mode - reach, 0), -1.0)
    up = np.arange(mode + 1.0, min(mode + reach, s) + 1)
    # Each logarithm of a ratio near 1 comes from the exact difference of its two numbers.
    falling = compensated_cumsum(_log_ratios(down, load))
    rising = compensated_cumsum(-_log_ratios(up, load))
    return mode - len(down), np.concatenate([falling[::-1], [0.0], rising])


def _log_ratios(states, load):
    # Far below the load the difference rounds to the load itself.
    near = np.log1p(np.maximum(states - load, -load / 2) / load)
    return np.where(states < load / 2, np.log(states / load), near)


def log_waiting(s, rho, profile, control, reach):
    """Return ln(π_{s+n}/π_s) for n = 0, 1, … until it is below −reach for good."""
    constant = profile.constant_refusal(math.sqrt(s), control)
    if constant is not None:
        refused, places = constant
        log_ratio = _log(rho) + math.log1p(-refused)
        if log_ratio < 0:
            places = min(places, math.ceil(reach / -log_ratio))
        _require_few(places)
        return log_ratio * np.arange(int(places) + 1.0)
    terms = _terms(s, rho, profile, control)
    if terms.log_tail(MOST_STATES, 0.0)[1] == math.inf:  # they still grow there
        _require_few(2 * MOST_STATES)
    pieces, base, start, length = [], 0.0, 0, 512
    largest = 0.0
    while True:
        logs, _, base = terms.direct(start, length, base)
        pieces.append(logs)
        start, length = start + length, 2 * length
        largest = max(largest, float(logs.max()))
        log_first, log_tail = terms.log_tail(start, base)
        if log_tail < math.inf and log_first < largest - reach:
            return np.concatenate(pieces)
        _require_few(start)


def _require_few(states):
    if states > MOST_STATES:
        raise ValueError(
            f"the distribution needs {states:.3g} states for these servers and this "
            f"traffic_intensity, more than {MOST_STATES:.0e}"
        )


@dataclass(frozen=True)
class _Sums:
    """1 + F_s, and its share that is rejected: (1 + (1 − 1/ρ)F_s)/(1 + F_s)."""

    all: float
    rejected_share: float


def _sums(s, rho, profile, control):
    require_stable(s, rho, profile, control)
    root = math.sqrt(s)
    constant = profile.constant_refusal(root, control)
    if constant is not None:
        return _geometric_sums(rho, *constant)
    if rho == 1 and (total := profile.critical_sum(root)) is not None:
        return _Sums(total, 1 / total)
    if rho == 0:
        terms = _terms(s, 1.0, profile, control)
        return _Sums(1.0, float(terms.direct(0, 1, 0.0)[1][0]))
    terms = _terms(s, rho, profile, control)
    log_scale, waiting, rejected = sum_sequence(terms)
    if log_scale == math.inf:
        return _Sums(math.inf, 1 - 1 / rho)
    scale = math.exp(log_scale) if log_scale < 700 else math.inf
    if rho > 1 and profile.lost_beyond < math.inf:
        log_lost = terms.log_tail(math.floor(profile.lost_beyond * terms.root), 0.0)[0]
        if log_lost > log_scale + math.log(waiting) + LOG_ROUNDING - math.log(terms.root):
            raise ValueError(
                f"traffic_intensity = {rho!r}: the f of {profile!r} underflows where the terms "
                "f(n/√servers)·traffic_intensityⁿ are not yet negligible; pass an f that accepts "
                "mpmath numbers, or use from_local"
            )
    if rho >= 1:
        total = 1 + waiting * scale
        return _Sums(total, (rho - 1) / rho + 1 / (rho * total))
    if terms.exact_weights:
        return _Sums(1 + waiting, rejected / (1 + waiting))
    return _Sums(1 + waiting, (1 - (1 - rho) / rho * waiting) / (1 + waiting))


def _geometric_sums(rho, refused, places):
    """Geometric sums of (ρ(1 − refused))ⁿ over n = 0, …, places; at the last all are refused."""
    ratio, gap = rho * (1 - refused), (1 - rho) + rho * refused  # 1 − ratio without cancellation
    if places == math.inf:
        return _Sums(1 / gap, refused)
    if ratio == 0 or places == 0:
        return _Sums(1.0, 1.0 if places == 0 else refused)
    if gap == 0:
        total, last = places + 1.0, 1 / (places + 1.0)
    else:
        exponent = (places + 1) * (_log(rho) + math.log1p(-refused))
        total = math.expm1(exponent) / -gap if exponent < 700 else math.inf
        last = ratio**places / total if gap > 0 else gap / ratio / math.expm1(-exponent)
    return _Sums(total, refused + (1 - refused) * last)


def _delay(s, rho, sums):
    """D_s = S/(S + 1/B_s − 1) with S = 1 + F_s."""
    if rho == 0:
        return 0.0
    load = s * rho
    if load < _NORMAL:
        # B = load^s/Γ(s + 1), as what follows the leading term is below rounding.
        log_blocking = s * (math.log(s) + math.log(rho)) - float(gammaln(s + 1))
        if log_blocking < -700:
            return math.exp(log_blocking + math.log(sums.all))
        return 1 / (1 + math.expm1(-log_blocking) / sums.all)
    # The rounding of the load, times the derivative of ln B: it shows for very many servers.
    rounding = float(Fraction(s) * Fraction(rho) - Fraction(load))
    inverse = inverse_erlang_b(s, load)
    if inverse == math.inf:
        log_delay = log_erlang_b(s, load) + rounding * (s / load - 1) + math.log(sums.all)
        return math.exp(log_delay)
    inverse *= 1 - rounding * (s / load - 1 + 1 / inverse)
    return 1 / (1 + (inverse - 1) / sums.all)


def _log(rho):
    return math.log1p(rho - 1) if 0.5 < rho < 2 else math.log(rho)


def _terms(s, rho, profile, control):
    return (_GlobalTerms if control == "global" else _LocalTerms)(s, rho, profile)


class _GlobalTerms(Sequence):
    """t_n = f(n/√s)ρⁿ, weight_n = 1 − f((n + 1)/√s)/f(n/√s)."""

    def __init__(self, s, rho, profile):
        self.root, self.rho, self.log_rho, self.profile = math.sqrt(s), rho, _log(rho), profile
        self.exact_weights = profile.has_exact_ratio

    def _at(self, n):
        x = n / self.root
        weights = -np.expm1(self.profile._log_ratio(x, 1 / self.root))
        return self.profile._log_f(x) + n * self.log_rho, weights

    def direct(self, start, length, base):
        return *self._at(np.arange(start, start + length, dtype=float)), base

    def at_rule(self, start, rule, base):
        return *self._at(start + rule.offsets), base

    def log_tail(self, start, base):
        # The ratio of terms is monotone, from what it is here to its limit; and below ρ anyway.
        logs, weights = self._at(np.array([float(start)]))
        ratio = self.rho
        if self.rho >= 1:
            limit = self.rho * math.exp(self.profile.gamma_min / self.root)
            ratio = max(self.rho * (1 - float(weights[0])), limit)
        if ratio >= 1 and self.profile.finite_at_gamma_min:
            return float(logs[0]), self._log_power_tail(start, float(logs[0]))
        return float(logs[0]), float(logs[0]) + _log_geometric(ratio)

    def _log_power_tail(self, start, log_first):
        """The tail at the boundary of stability, where terms decay like a power of n."""
        exponent = (float(self._at(np.array([start / 2]))[0][0]) - log_first) / math.log(2)
        return log_first + math.log(start / (exponent - 1)) if exponent > 1.01 else math.inf


class _LocalTerms(Sequence):
    """t_n = ρⁿ/((1 + u_0)…(1 + u_{n−1})), u_j = a((j + 1)/√s)/√s, weight_n = u_n/(1 + u_n).

    The base of a block is the logarithm of the product before it.
    """

    exact_weights = True

    def __init__(self, s, rho, profile):
        self.root, self.rho, self.log_rho, self.profile = math.sqrt(s), rho, _log(rho), profile

    def _u(self, j):
        return np.minimum(self.profile._a((j + 1) / self.root) / self.root, _INFINITE)

    def direct(self, start, length, base):
        n = np.arange(start, start + length, dtype=float)
        u = self._u(n)
        after = base - compensated_cumsum(np.log1p(u))
        before = np.concatenate([[base], after[:-1]])
        return before + n * self.log_rho, u / (1 + u), float(after[-1])

    def at_rule(self, start, rule, base):
        points, weights = rule.gaps
        products = base - np.cumsum((weights * np.log1p(self._u(start + points))).sum(axis=1))
        n = start + rule.offsets
        u = self._u(n)
        return products[:-1] + n * self.log_rho, u / (1 + u), float(products[-1])

    def log_tail(self, start, base):
        # a does not decrease, so nor does the ratio of terms increase.
        u = float(self._u(np.array([float(start)]))[0])
        log_first = base + start * self.log_rho
        return log_first, log_first + _log_geometric(self.rho / (1 + u))


def _log_geometric(ratio):
    """Logarithm of the geometric sum 1/(1 − ratio); ∞ where it diverges."""
    return -math.log1p(-ratio) if ratio < 1 else math.inf


def require_stable(s, rho, profile, control):
    failing = _fails(s, rho, profile, control)
    if failing:
        raise UnstableSystem(failing)


def _fails(s, rho, profile, control):
    """Return why there is no stationary distribution, or None if there is one."""
    if rho < 1:
        return None
    gamma_min = profile.gamma_min
    if control == "global":
        name, gamma = "−√servers·ln(traffic_intensity)", -math.sqrt(s) * _log(rho)
        boundary = profile.finite_at_gamma_min
    else:
        name, gamma = "√servers·(1 − traffic_intensity)", math.sqrt(s) * (1 - rho)
        boundary = False
    if gamma > gamma_min or (boundary and gamma == gamma_min):
        return None
    return (
        f"servers = {s!r}, traffic_intensity = {rho!r} with {profile!r} under {control} control: "
        f"{name} = {gamma:.6g} must be {'>=' if boundary else '>'} gamma_min = {gamma_min:.6g}, "
        "else the queue grows without bound"
    )


def checked_profile(profile):
    if not isinstance(profile, ScalingProfile):
        raise ValueError(f"profile = {profile!r}: must be a ScalingProfile")
    return profile


def on_each(function, servers, traffic_intensity, profile, control, kind):
    servers = checks.real("servers", servers, above=0, at_most=LARGEST)
    traffic_intensity = checks.real(
        "traffic_intensity", traffic_intensity, at_least=0, at_most=LARGEST
    )
    how = checked_profile(profile).resolve_control(control)
    servers, traffic_intensity = checks.broadcast(
        servers=servers, traffic_intensity=traffic_intensity
    )
    pairs = zip(servers.flat, traffic_intensity.flat, strict=True)
    with np.errstate(over="ignore"):  # of a and −ln f, where nobody is admitted any more
        values = [function(float(s), float(rho), how) for s, rho in pairs]
    return np.array(values, dtype=kind).reshape(servers.shape) if servers.ndim else values[0]
