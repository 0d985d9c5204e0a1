"""The queue under admission control as people staff it: waits, rejection, occupancy.

A customer who is admitted behind k waiting customers enters service after k + 1 services at the
rate s: her wait is a mixture of Erlang laws with the weights π_{s+k} p(k) = π_{s+k+1}/ρ.
"""

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import ArrayLike

from qcore._numerics import checks
from qcore._numerics.comparable import Comparable
from qcore._numerics.sums import compensated_cumsum
from qcore._numerics.waiting import (
    DIGITS,
    NEGLIGIBLE,
    UNDERFLOW,
    ErlangMixture,
    exponential,
    quantile,
)
from qcore.admission._measures import (
    LARGEST,
    MOST_STATES,
    checked_profile,
    delay_probability,
    law_of,
    log_serving,
    log_waiting,
    queue_distribution,
    rejection_probability,
    require_stable,
)
from qcore.admission._profiles import ScalingProfile
from qcore.erlang import QueueDistribution, log_erlang_b
from qcore.errors import UnstableSystem

_TIME = {"at_least": 0, "at_most": checks.LARGEST}
_FIRST = 512
_NEAR = -8.0


@dataclass(frozen=True, eq=False)
class AdmissionRule(Comparable):
    """The probabilities with which customers are admitted to one system; see `from_probabilities`.

    Attributes
    ----------
    probabilities : callable or ndarray
        p(k), the probability of admitting who finds all servers busy and k customers waiting.
    """

    probabilities: Callable | np.ndarray

    def p(self, k: ArrayLike) -> float | np.ndarray:
        """Return the probabilities of admission behind k = 0, 1, … waiting customers."""
        places = checks.real("k", k, at_least=0, at_most=2**53)
        if not np.all(places == np.floor(places)):
            raise ValueError(f"k = {checks.shown(k)}: must be whole numbers of customers")
        return checks.unwrap(self.at(places))

    def at(self, places):
        """Return p at an array of whole numbers of any shape, checked."""
        if isinstance(self.probabilities, np.ndarray):
            table = np.append(self.probabilities, 0.0)
            return table[np.minimum(places, len(table) - 1).astype(np.int64)]
        found = np.array([self._one(int(k)) for k in places.flat]).reshape(places.shape)
        inside = (found >= 0) & (found <= 1)
        if not inside.all():
            raise ValueError(
                f"p({int(places[~inside].flat[0])}) = {float(found[~inside].flat[0])!r}: "
                "must be a probability, between 0 and 1"
            )
        return found

    def _one(self, k):
        try:
            return float(operator.pos(self.probabilities(k)))
        except TypeError:
            raise ValueError(f"p({k}): must be a number") from None


def from_probabilities(p: Callable | ArrayLike) -> AdmissionRule:
    r"""Make an admission rule of the probabilities themselves, for one system.

    .. math:: p(k) = P(\text{admitted} \mid k \text{ customers wait}), \qquad k = 0, 1, 2, \dots

    Nothing is said of how the rule would change with the number of servers, so that only `queue`
    takes it; profiles, which scale, serve the expansions too.

    Parameters
    ----------
    p : callable or array_like
        A function of the whole number k ≥ 0, or a table p(0), p(1), …, beyond whose end nobody is
        admitted. Breaks are as welcome as anything else.

    Returns
    -------
    AdmissionRule

    Raises
    ------
    ValueError
        If p is neither, or a number is no probability.

    Notes
    -----
    Of a function no more places are looked at than matter; the queue ends where its probability is
    negligible and has decayed throughout the last half of the places. A rule that
    admits many again beyond a stretch so long is not seen to.

    Examples
    --------
    >>> from qcore.admission import from_probabilities, queue
    >>> five_places = from_probabilities([1.0] * 5)
    >>> round(queue(2, 0.9, five_places).rejection_probability, 9)
    0.09206289
    >>> every_other = from_probabilities(lambda k: 1.0 if k % 2 else 0.5)
    >>> round(queue(2, 1.2, every_other).rejection_probability, 9)
    0.258992806
    """
    if callable(p):
        return AdmissionRule(p)
    table = checks.real("p", p, at_least=0, at_most=1)
    if table.ndim != 1:
        raise ValueError(f"p = {checks.shown(p)}: must be a function, or a table of probabilities")
    table.flags.writeable = False
    return AdmissionRule(table)


@dataclass(frozen=True)
class Queue:
    r"""The queue M/M/s under admission control with all that is asked of it; made by `queue`.

    All times are in units of the mean service time.

    Attributes
    ----------
    servers : float
        Number of servers s.
    traffic_intensity : float
        Offered load over servers, ρ.
    profile : ScalingProfile or AdmissionRule
        Who is admitted.
    control : str or None
        How a profile is applied.
    """

    servers: float
    traffic_intensity: float
    profile: ScalingProfile | AdmissionRule
    control: str | None

    @property
    def _is_rule(self):
        return isinstance(self.profile, AdmissionRule)

    def _logs(self, reach):
        """Return ln(π_{s+n}/π_s), n = 0, 1, …, until it stays below −reach."""
        if self._is_rule:
            return _log_weights(self.profile, self.traffic_intensity, reach)
        return log_waiting(self.servers, self.traffic_intensity, self.profile, self.control, reach)

    @functools.cached_property
    def _waiting(self):
        """ln P(n wait | all servers are busy) for n = 0, 1, …, as far as sums need them."""
        logs = self._logs(NEGLIGIBLE)
        return logs - _log_sum(logs)

    @functools.cached_property
    def _near(self):
        return ErlangMixture(self._waiting[1:])

    @functools.cached_property
    def _far(self):
        """The same, as far as any tail needs that is above 1e-308."""
        logs = self._logs(UNDERFLOW + NEGLIGIBLE)
        return ErlangMixture(logs[1:] + (self._waiting[0] - logs[0]))

    @functools.cached_property
    def _gap(self):
        """One less the ratio of a geometric law of those waiting, as a Decimal; None without."""
        if self._is_rule:
            return None
        constant = self.profile.constant_refusal(math.sqrt(self.servers), self.control)
        if constant is None or constant[1] < math.inf:
            return None
        rho, refused = Decimal(self.traffic_intensity), Decimal(constant[0])
        with localcontext() as context:
            context.prec = DIGITS
            return 1 - rho * (1 - refused)

    @functools.cached_property
    def _free_to_busy(self):
        """The probability that a server is free over that of none being so, (1/B − 1)/(1 + F)."""
        log_empty = math.log(self._gap) if self._gap is not None else float(self._waiting[0])
        log_odds = self._log_excess + log_empty
        return math.exp(log_odds) if log_odds < 709 else math.inf

    @property
    def _log_excess(self):
        """ln(1/B − 1)."""
        log_b = log_erlang_b(self.servers, self.servers * self.traffic_intensity)
        return math.log(math.expm1(-log_b)) if log_b > -40 else -log_b

    @functools.cached_property
    def delay_probability(self) -> float:
        """The probability that an arriving customer finds all servers busy."""
        if self._is_rule:
            return 1.0 / (1.0 + self._free_to_busy)
        return delay_probability(self.servers, self.traffic_intensity, self.profile, self.control)

    @functools.cached_property
    def rejection_probability(self) -> float:
        """The probability that an arriving customer is turned away."""
        if self._is_rule:
            weights = np.exp(self._waiting)
            refused = 1.0 - self.profile.at(np.arange(len(weights), dtype=float))
            return self.delay_probability * min(1.0, math.fsum(weights * refused))
        return rejection_probability(
            self.servers, self.traffic_intensity, self.profile, self.control
        )

    @property
    def abandonment_probability(self) -> float:
        """The probability that a customer abandons: 0, as who is admitted stays."""
        return 0.0

    @functools.cached_property
    def admission_probability(self) -> float:
        """The probability that an arriving customer is admitted, exact however small it is."""
        free = self._free_to_busy
        at_once = 1.0 if free == math.inf else free / (1.0 + free)
        return min(1.0, at_once + self._joint_tail(0.0))

    @functools.cached_property
    def mean_queue(self) -> float:
        """The mean number of waiting customers."""
        if self._gap is not None:
            return self.delay_probability * float((1 - self._gap) / self._gap)
        weights = np.exp(self._waiting)
        return self.delay_probability * math.fsum(weights * np.arange(len(weights)))

    @property
    def mean_wait(self) -> float:
        """The mean wait of those admitted, in mean service times: Little's law for the queue."""
        load = self.servers * self.traffic_intensity
        return self.mean_queue / load / self.admission_probability

    @property
    def occupancy(self) -> float:
        """The mean fraction of servers that are busy."""
        return min(1.0, self.traffic_intensity * self.admission_probability)

    @functools.cached_property
    def distribution(self) -> QueueDistribution:
        """The law of the number in the system, for an integer number of servers, at most 2^53."""
        if self.servers != math.floor(self.servers) or self.servers > 2**53:
            raise ValueError(
                f"servers = {self.servers!r}: must be an integer <= 2^53 for a law of the number "
                "in the system"
            )
        servers = int(self.servers)
        if not self._is_rule:
            return queue_distribution(servers, self.traffic_intensity, self.profile, self.control)
        first, logs = log_serving(servers, servers * self.traffic_intensity)
        if first + len(logs) == servers + 1:
            reach = NEGLIGIBLE + float(logs.max() - logs[-1])
            logs = np.concatenate([logs, logs[-1] + self._logs(reach)[1:]])
        return law_of(first, logs, servers)

    def wait_tail(self, t: ArrayLike) -> float | np.ndarray:
        r"""Compute the probability that an admitted customer waits longer than t.

        .. math::

            P(W > t) = \frac{1}{\rho(1 - D^R)} \sum_{n \ge 1} \pi_{s+n}
                \sum_{j=0}^{n-1} e^{-st} \frac{(st)^j}{j!}

        Parameters
        ----------
        t : array_like
            Time :math:`t \ge 0` in mean service times, at most 1e150.

        Returns
        -------
        float or ndarray
            Probability, among those admitted, of a wait longer than ``t``.

        Raises
        ------
        ValueError
            If an argument is outside its domain, or more than 2·10⁷ waiting customers matter.

        Notes
        -----
        Where all are admitted with the same probability, the wait is exponential. Otherwise the
        sums over n are taken first, from the last backwards; the sum over j, of positive
        terms, goes over those within e⁻⁴⁴ of the largest, relative to which logarithms are added
        with compensation, while that of the largest has 50 digits. The queue is followed as far as
        it matters for the tail asked for. The cost grows like √s: some 0.2 ms for each time
        with 100 servers, 1 ms with 10⁴.

        Measured against sums at 60 digits, for 1 to 10⁴ servers and all profiles: relative error
        below 1e-13 wherever the probability is at least 1e-150, and below 3e-13 down to 1e-290.

        References
        ----------
        R. B. Cooper, Introduction to Queueing Theory (2nd ed., 1981), section 3.7, for the wait in
        order of arrival.

        Examples
        --------
        >>> from qcore.admission import Abandonment, ModifiedDrift, queue
        >>> queue(100, 0.98, ModifiedDrift(0.5)).wait_tail([0.0, 0.1]).round(9)
        array([0.42892174, 0.18218047])

        Who is rejected as often as others abandon leaves the same queue, and others wait longer in
        it:

        >>> from qcore import erlang
        >>> scaled, impatient = queue(100, 0.9, Abandonment(0.5)), erlang.queue(100, 90.0, 0.5)
        >>> abs(scaled.mean_queue / impatient.mean_queue - 1) < 1e-14
        True
        >>> bool(scaled.wait_tail(0.2) > impatient.wait_tail(0.2))
        True
        """
        return self._on_each(self._tail, checks.real("t", t, **_TIME))

    def wait_quantile(self, p: ArrayLike) -> float | np.ndarray:
        r"""Compute the wait that an admitted customer stays below with probability p.

        .. math:: \min \{ t \ge 0 : P(W \le t) \ge p \}

        Parameters
        ----------
        p : array_like
            Probability :math:`0 \le p < 1`.

        Returns
        -------
        float or ndarray
            Time in mean service times; 0 where that many do not wait at all.

        Raises
        ------
        ValueError
            If an argument is outside its domain.

        Notes
        -----
        The logarithm of `wait_tail` is solved for by Brent's method, to the last digits that p
        determines: one minus p is exact for p ≥ 1/2.

        Examples
        --------
        >>> from qcore.admission import OpenAdmission, queue
        >>> round(60 * queue(50, 0.96, OpenAdmission()).wait_quantile(0.9), 6)
        58.138742
        """

        def one(p):
            if self._tail(0.0) <= 1.0 - p:
                return 0.0
            return quantile(lambda t: _log(self._tail(t)), math.log1p(-p), 1.0 / self.servers)

        return self._on_each(one, checks.real("p", p, at_least=0, below=1))

    def service_level(self, t: ArrayLike, of: str = "all") -> float | np.ndarray:
        r"""Compute the share of customers who are admitted and wait no longer than t.

        .. math:: P(\text{admitted}, W \le t) = (1 - D^R)\,P(W \le t)

        Parameters
        ----------
        t : array_like
            Acceptable wait :math:`t \ge 0` in mean service times, at most 1e150.
        of : {"all", "served"}, optional
            Among which customers: all who arrive, so that a rejection counts as a failure; or
            those who are admitted, all of whom are served.

        Returns
        -------
        float or ndarray
            Probability; its absolute error, as measured, is below 1e-14.

        Raises
        ------
        ValueError
            If an argument is outside its domain.

        Examples
        --------
        >>> from qcore.admission import ModifiedDrift, queue
        >>> level = queue(100, 0.98, ModifiedDrift(0.5)).service_level([0.1, 0.2])
        >>> level.round(9)
        array([0.79339471, 0.89506578])
        """
        of = checks.choice("of", of, ("all", "served"))
        admitted = self.admission_probability
        among = admitted if of == "served" else 1.0

        def one(t):
            return min(1.0, max(0.0, admitted - self._joint_tail(t)) / among)

        return self._on_each(one, checks.real("t", t, **_TIME))

    def missed(self, t: float) -> float:
        """Return one minus the service level of all customers at the time t, exact if small."""
        t = checks.scalar("t", t, **_TIME)
        return min(1.0, self.rejection_probability + self._joint_tail(t))

    def _on_each(self, function, values):
        found = np.array([function(float(value)) for value in values.flat])
        return checks.unwrap(found.reshape(values.shape))

    def _tail(self, t):
        return min(1.0, self._joint_tail(t) / self.admission_probability)

    def _joint_tail(self, t):
        """Return the probability that a customer is admitted and waits longer than t."""
        with localcontext() as context:
            context.prec = DIGITS
            mean = Decimal(self.servers) * Decimal(t)
            if self._gap is not None:
                admitted = float((1 - self._gap) / Decimal(self.traffic_intensity))
                return self.delay_probability * admitted * exponential(-mean * self._gap)
        log = self._near.log_tail(mean)
        # What was left out is below exp(−NEGLIGIBLE) of all, and must be so of the tail.
        if log < _NEAR:
            log = self._far.log_tail(mean)
        return self.delay_probability * (exponential(log) / self.traffic_intensity)


def queue(
    servers: float,
    traffic_intensity: float,
    profile: ScalingProfile | AdmissionRule,
    control: str | None = None,
) -> Queue:
    r"""Describe the queue M/M/s under admission control by all that people staff by.

    .. math::

        \pi_k = \pi_0 \frac{(s\rho)^k}{k!} \quad (k \le s), \qquad
        \pi_{s+k+1} = \pi_{s+k}\,\rho\,p_s(k)

    Parameters
    ----------
    servers : float
        Number of servers s, 0 < s ≤ 10¹⁸, not necessarily an integer.
    traffic_intensity : float
        Offered load over servers, ρ from 1e-290; it may exceed 1, but sρ not 10¹⁸.
    profile : ScalingProfile or AdmissionRule
        Who is admitted: a profile, which scales with the servers, or the probabilities
        themselves, made by `from_probabilities`.
    control : {"global", "local"}, optional
        How a profile is applied; the profile's own way if not given.

    Returns
    -------
    Queue
        Probabilities, waits in units of the mean service time, occupancy, law of the number in
        the system.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    UnstableSystem
        If there is no stationary distribution.

    Notes
    -----
    With a profile, probabilities of delay and rejection are those of `delay_probability` and
    `rejection_probability`. Everything else is summed over the waiting customers that matter, some
    20·√s of them, at most 2·10⁷.

    References
    ----------
    Janssen, van Leeuwaarden and Sanders, Scaled control in the QED regime, Performance
    Evaluation 70 (2013), equations (2.1) and (2.2).

    Examples
    --------
    >>> from qcore.admission import FiniteBuffer, queue
    >>> buffered = queue(100, 1.0, FiniteBuffer(1.0))
    >>> round(buffered.rejection_probability, 9), round(buffered.mean_wait, 9)
    (0.04308495, 0.024763664)
    """
    s = checks.scalar("servers", servers, above=0, at_most=LARGEST)
    rho = checks.scalar("traffic_intensity", traffic_intensity, at_least=1e-290, at_most=LARGEST)
    if not 1e-290 <= s * rho <= LARGEST:
        raise ValueError(
            f"traffic_intensity = {rho!r}: servers·traffic_intensity must be from 1e-290 to 1e18"
        )
    if isinstance(profile, AdmissionRule):
        if control is not None:
            raise ValueError(
                f"control = {checks.shown(control)}: must be left out, as the probabilities are "
                "given themselves"
            )
        return Queue(s, rho, profile, None)
    how = checked_profile(profile).resolve_control(control)
    require_stable(s, rho, profile, how)
    return Queue(s, rho, profile, how)


def _log_weights(rule, rho, reach):
    """Return ln Π_{k<n} ρ p(k), n = 0, 1, …, until it is below −reach and was falling."""
    logs, length = np.zeros(1), _FIRST
    while True:
        places = np.arange(len(logs) - 1.0, len(logs) - 1.0 + length)
        with np.errstate(divide="ignore"):
            steps = math.log(rho) + np.log(rule.at(places))
        closed = np.flatnonzero(steps == -np.inf)
        if closed.size:
            steps = steps[: closed[0]]
        logs = np.concatenate([logs, logs[-1] + compensated_cumsum(steps)])
        if closed.size:
            return logs
        half = length // 2
        slope = float(logs[-1] - logs[-1 - half]) / half
        # What is left out, if it decays as the last half has.
        if slope < 0 and logs[-1] - math.log(-math.expm1(slope)) < logs.max() - reach:
            return logs
        if len(logs) > MOST_STATES // 16:
            raise UnstableSystem(
                f"traffic_intensity = {rho!r} with {rule!r}: traffic_intensity·p(k) stays near 1 "
                f"or above for {len(logs)} waiting customers, so that the queue grows without "
                "bound, or too long to be summed"
            )
        length *= 2


def _log_sum(logs):
    """Return ln Σ exp(logs)."""
    largest = float(logs.max())
    return largest + math.log(math.fsum(np.exp(logs - largest)))


def _log(value):
    return math.log(value) if value > 0.0 else -math.inf
