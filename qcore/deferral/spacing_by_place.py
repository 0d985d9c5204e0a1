r"""Returns spaced by the place in the line: at most D customers deferred, with D spacings.

:math:`K` servers, arrivals at rate :math:`\lambda`, services at rate :math:`\mu` each, no
waiting room. A customer who finds all servers busy is deferred if fewer than :math:`D` are. Whoever
becomes the :math:`j`-th deferred returns a time :math:`x_j` after the last return already arranged,
or after now if :math:`j = 1`. Whoever finds all servers busy on return is lost. With all
:math:`x_j` equal this is `qcore.deferral.dsrt`.

A stage, between two returns, has the length that was given to the customer who ends it. So its
start is described by the number busy and the *line*: for each deferred customer, the place at which
she joined. These places rise by at most one from a customer to the next, so that for :math:`D`
different spacings there are of the order of :math:`4^D` lines, and as few as :math:`D` if all are
equal. The chain of these stages, from the first deferral to the moment when nobody is deferred, is
followed to its end or, where that takes long, eliminated state by state without subtraction
(Grassmann, Taksar and Heyman).
"""

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from qcore._numerics import checks
from qcore._numerics.compiled import njit
from qcore.deferral import _levels, _parameters, _stages, dsrt, single_deferral

__all__ = ["Optimum", "blocking_probability", "longest_deferral_time", "optimal_spacings"]

_NEGLIGIBLE = 1e-17
_NEVER = 1e-280
_ALL_STATES_UP_TO = 24
_MOST_LINES = 2000
_MOST_SPACINGS = 1000
# Of one call: steps of vectors through stages, entries of matrices, states to eliminate.
_MOST_STEPS = 2e9
_MOST_ENTRIES = 1e7
_ELIMINATED_AT_ONCE, _MOST_ELIMINATED = 400, 1200
_FEWEST_STAGES, _MOST_STAGES = 64, 4096
_MOST_PLACES = 6


@dataclass(frozen=True)
class Optimum:
    """The best spacings, and what they achieve.

    Attributes
    ----------
    spacings : tuple of float
        Time between a return and the one arranged before it, by the place at which the customer
        joined the line; as many as may be deferred at a time.
    blocking_probability : float
        Fraction of customers lost.
    """

    spacings: tuple
    blocking_probability: float


@_parameters.documented
def blocking_probability(servers, arrival_rate, service_rate, spacings):
    r"""Return the fraction of customers lost, on arrival or on return.

    .. math::

        P_B = \Pi_{K,D} + \frac{\text{rate of returns that find all servers busy}}{\lambda}

    Parameters
    ----------
    servers : int
        Number of servers :math:`K \ge 1`.
    %(rates_of_one_system)s
    spacings : sequence of float
        Times :math:`x_1, \dots, x_D` from 1e-60 to 1e60, one for each place in the line; as many
        are deferred at most.

    Returns
    -------
    float
        Blocking probability; 0 where Erlang's, which bounds it, is below 1e-280.

    Raises
    ------
    ValueError
        If an argument is not in its range; if a stage has so many events,
        :math:`(\lambda + K\mu)x_j > 5 \cdot 10^7`, that it cannot be followed; if the spacings
        make more than 2000 lines; or if a computation takes minutes or gigabytes.

    Notes
    -----
    The laws of a stage by uniformisation, doubled in time where it is long; beyond 24 servers
    without the states in which a phase spends less than 1e-17 of its time. Up to 400 states at
    starts of stages are eliminated; with more a phase is followed stage by stage if it ends soon,
    else up to 1200 states are eliminated. Measured:
    relative error below 1e-12 against dense linear algebra of its own up to 5 servers and 4
    spacings, below 1e-12 against `qcore.deferral.dsrt` with equal spacings up to 1000 servers.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), Algorithm 1, for equal spacings.
    Grassmann, Taksar and Heyman, Operations Research 33 (1985), 1107-1116.

    Examples
    --------
    >>> blocking_probability(5, 5.0, 1.0, (0.36, 0.33))
    0.22706472552...
    """
    servers, arrival_rate, service_rate = _system(servers, arrival_rate, service_rate)
    spacings = _sequence(spacings)
    times = tuple(arrival_rate * spacing for spacing in spacings)
    lost, _ = _solve(servers, service_rate / arrival_rate, times)
    return min(float(lost), 1.0)


@_parameters.documented
def longest_deferral_time(spacings):
    r"""Return the longest time for which these spacings can send somebody away.

    .. math::

        \max\Big\{\sum_{i=1}^{D} x_{i + c_i} : c_1 \ge c_2 \ge \dots \ge c_D = 0, \;
        i + c_i \le D\Big\}

    where :math:`c_i` is the number of returns since the :math:`i`-th in the line joined it.

    Parameters
    ----------
    spacings : sequence of float
        Times :math:`x_1, \dots, x_D` from 1e-60 to 1e60, one for each place in the line.

    Returns
    -------
    float
        The supremum of the times from a blocked arrival to its return; :math:`Dx` for equal ones.

    Raises
    ------
    ValueError
        If an argument is not in its range.

    Notes
    -----
    By recursion along the line, from its end.

    Examples
    --------
    >>> longest_deferral_time((0.5, 0.25))
    0.75
    >>> longest_deferral_time((0.25, 0.5))
    1.0
    """
    spacings = _sequence(spacings)
    places = len(spacings)
    # best[c]: the most that the customers from the i-th on can make up if at most c have returned.
    best = [0.0]
    for i in range(places, 0, -1):
        reached = [best[min(c, len(best) - 1)] + spacings[i + c - 1] for c in range(places - i + 1)]
        best = list(itertools.accumulate(reached, max))
    return best[-1]


@_parameters.documented
def optimal_spacings(
    servers, max_deferrals, arrival_rate, service_rate, max_deferral_time=math.inf
):
    r"""Return the spacings by place at which the fewest customers are lost.

    .. math::

        \min_{D \le \hat D} \; \min_{x_1, \dots, x_D > 0} P_B(K, D, \lambda, \mu, x),
        \qquad \text{nobody deferred for longer than } \hat T

    Parameters
    ----------
    servers : int
        Number of servers :math:`K \ge 1`.
    max_deferrals : int
        Largest number :math:`\hat D` deferred at a time, from 1 to 6.
    %(rates_of_one_system)s
    max_deferral_time : float, optional
        Longest time :math:`\hat T` from a blocked arrival to its return, as
        `longest_deferral_time` gives it; from 1e-60 to 1e60, or infinite.

    Returns
    -------
    Optimum
        Its fields are spacings, of which there are as many as deferrals in use, and
        blocking_probability.

    Raises
    ------
    ValueError
        If an argument is out of its range; if hardly anybody is lost or the blocking probability
        depends too little on the spacing, as in `qcore.deferral.dsrt.optimal_spacing`; or if
        a computation takes minutes or gigabytes.

    Notes
    -----
    From the best equal spacing downhill, by the exact derivatives by :math:`\ln x_j`, carried
    through the whole computation as the imaginary part of complex numbers: a local minimum, which
    in all systems tried was the only one met, not proved to be the best. Under a limit every
    line of :math:`D` customers must fit into :math:`\hat T`; fewer deferrals are tried as long as
    the limit is felt. Measured: for one server and three deferrals spacings within 1e-6 of where
    40-digit arithmetic has its derivatives zero; under a limit, for five servers and two
    deferrals, within 1e-7 of a search along the limit. Once compiled, a second or two for two
    deferrals and 1000 servers, three and 10, or six and one.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), section on deterministically spaced return times.

    Examples
    --------
    >>> optimal_spacings(5, 2, 1.5, 1.0)
    Optimum(spacings=(2.245708..., 1.927734...), blocking_probability=0.0019224335...)
    """
    servers, arrival_rate, service_rate = _system(servers, arrival_rate, service_rate)
    most = checks.count("max_deferrals", max_deferrals, at_least=1, at_most=_MOST_PLACES)
    limit = _longest(max_deferral_time)
    best = None
    for places in range(most, 0, -1):
        found, felt = _best_for(servers, places, arrival_rate, service_rate, limit)
        if best is None or found.blocking_probability < best.blocking_probability:
            best = found
        if not felt:
            break
    return best


def _system(servers, arrival_rate, service_rate):
    return (
        checks.count("servers", servers, at_least=1),
        _parameters.rate("arrival_rate", arrival_rate),
        _parameters.rate("service_rate", service_rate),
    )


def _longest(limit):
    if np.ndim(limit) == 0 and isinstance(limit, float) and limit == math.inf:
        return _parameters.LARGEST
    return _parameters.time("max_deferral_time", limit)


def _sequence(spacings):
    times = _parameters.times("spacings", spacings)
    if times.ndim != 1 or not 1 <= times.size <= _MOST_SPACINGS:
        raise ValueError(
            f"spacings = {checks.shown(spacings)}: must be a sequence of times, from 1 to "
            f"{_MOST_SPACINGS} of them"
        )
    return tuple(times.tolist())


def _best_for(servers, places, arrival_rate, service_rate, limit):
    """Return the best spacings for this number of places, and whether the limit is felt."""
    equal = _best_equal(servers, places, arrival_rate, service_rate)
    felt = equal * places > limit
    if places == 1:
        best = single_deferral.optimal_deferral_time(servers, arrival_rate, service_rate, limit)
        return Optimum((best.deferral_time,), best.blocking_probability), felt
    start = min(equal, limit / places)

    @functools.cache
    def solution(logs):
        times = tuple(arrival_rate * start * math.exp(log) for log in logs)
        ratio = service_rate / arrival_rate
        solved = [_solve(servers, ratio, times, place) for place in range(places)]
        lost, gained = solved[0]
        parts = [one[0] if lost.real < gained.real else one[1] for one in solved]
        sign = 1.0 if lost.real < gained.real else -1.0
        slopes = [sign * part.imag / part.real / _levels.DERIVATIVE_STEP for part in parts]
        return sign * math.log(parts[0].real), np.array(slopes), float(lost.real)

    def objective(logs):
        return solution(tuple(logs))[:2]

    logs = np.zeros(places)
    if not felt:
        logs = _downhill(objective, logs)
        found = tuple(start * math.exp(log) for log in logs)
        felt = longest_deferral_time(found) > limit
    if felt:
        logs = _downhill_within(objective, np.zeros(places), math.log(limit / start))
    found = tuple(float(start * math.exp(log)) for log in logs)
    return Optimum(found, min(solution(tuple(logs))[2], 1.0)), felt


def _best_equal(servers, places, arrival_rate, service_rate):
    if places == 1:
        return single_deferral.optimal_deferral_time(
            servers, arrival_rate, service_rate
        ).deferral_time
    longest = _parameters.LARGEST
    return dsrt.optimal_spacing(servers, places, arrival_rate, service_rate, longest).spacing


def _downhill(objective, start):
    """Return a local minimum: quasi-Newton steps, and Newton's on the exact derivative."""
    logs = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-7}).x
    step = 1e-4
    for _ in range(2):
        slopes = objective(logs)[1]
        curvature = [
            (objective(logs + move)[1] - objective(logs - move)[1]) / (2.0 * step)
            for move in step * np.eye(logs.size)
        ]
        correction = np.linalg.solve(np.array(curvature), slopes)
        if np.abs(correction).max() > 1e-2:  # rounding hides where the minimum is
            break
        logs = logs - correction
    return logs


def _downhill_within(objective, start, log_limit):
    """Return a local minimum where every full line takes at most the limit."""
    places = start.size
    full = np.array([[line.count(place) for place in range(places)] for line in _full(places)])

    def room(logs):
        return 1.0 - full @ np.exp(logs - log_limit)

    constraint = {
        "type": "ineq",
        "fun": room,
        "jac": lambda logs: -full * np.exp(logs - log_limit),
    }
    found = minimize(
        objective,
        start,
        jac=True,
        method="SLSQP",
        constraints=[constraint],
        options={"ftol": 1e-14, "maxiter": 200},
    ).x
    # What rounding lets stick out over the limit is taken off all alike.
    return found + min(0.0, math.log(1.0 / np.max(full @ np.exp(found - log_limit))))


def _full(places):
    """Return the lines of as many customers as there are places, with places from 0."""
    lines = [()]
    for i in range(places - 1, -1, -1):
        lines = [
            (place, *line)
            for line in lines
            for place in range(max(i, line[0] - 1 if line else i), places)
        ]
    return lines


def _solve(servers, service_ratio, spacings, place=None):
    """Return P_B and B_K - P_B; ``spacings`` in units of 1/λ.

    With ``place`` given, imaginary parts are derivatives by log(x_place), times the step.
    """
    places = len(spacings)
    load = 1.0 / service_ratio
    erlang_b = _parameters.erlang_b(servers, load)
    if erlang_b < _NEVER:
        return erlang_b, 0.0
    if place is None:
        kinds = sorted(set(spacings))
        labels = [kinds.index(spacing) for spacing in spacings]
    else:
        kinds, labels = list(spacings), list(range(places))
    first = 0
    if servers > _ALL_STATES_UP_TO:
        first = dsrt.first_of_window(servers, places, service_ratio, max(spacings))
    lines = _Lines(labels)
    while True:
        stages = _Stages(kinds, place, places, first, servers, service_ratio)
        visits, exits = lines.visits(stages, erlang_b)
        end, times = stages.through(visits)
        if first == 0 or times[:, 0].sum().real < _NEGLIGIBLE * times.sum().real:
            break
        first = max(0, servers - 2 * (servers - first))
    lowest = min(first, _levels.first_of_window(servers, load))
    return dsrt.whole_cycle(end, times, exits, lowest, first, servers, service_ratio)[:2]


class _Stages:
    """The stages of each length, from the numbers busy that matter."""

    def __init__(self, kinds, place, places, first, servers, service_ratio):
        self.places, self.width = places, servers - first + 1
        self.arguments = first, servers, service_ratio
        self.steps = [
            _levels.DERIVATIVE_STEP if kind == place else 0.0 for kind in range(len(kinds))
        ]
        self.kinds = kinds
        self.dtype = float if place is None else complex
        events = (1.0 + servers * service_ratio) * max(kinds)
        if places * self.width**2 * min(len(kinds), places) > _MOST_ENTRIES:
            raise ValueError(
                f"spacings, {places} of them: times {self.width}^2, for as many numbers of busy "
                f"servers, must be at most {_MOST_ENTRIES:g}"
            )
        if places * self.width * events > _MOST_STEPS:
            raise ValueError(
                f"spacings, {places} of them: times {self.width} numbers of busy servers times "
                f"{events:.3g} events in a stage must be at most {_MOST_STEPS:g}"
            )
        self.returned = []
        for kind, step in zip(kinds, self.steps, strict=True):
            matrices = dsrt.return_matrices(servers, service_ratio, kind, first, step, places)
            self.returned.append(matrices.astype(self.dtype))

    @functools.cache  # noqa: B019
    def onward(self, kind, deferred):
        """Return the laws of k after a stage, one beside the other by the number blocked in it."""
        returned = self.returned[kind]
        room = self.places - deferred
        return np.hstack([*returned[:room], returned[room:].sum(axis=0)])

    def through(self, visits):
        """Return the laws at the ends of stages and the times, from their starts (kind, d, k)."""
        first, servers, service_ratio = self.arguments
        end = times = 0.0
        for starts, kind, step in zip(visits, self.kinds, self.steps, strict=True):
            weights = _stages.poisson_terms((1.0 + servers * service_ratio) * kind, step)
            one_end, one_time = _stages.run_stage(starts, first, servers, service_ratio, *weights)
            end, times = end + one_end, times + one_time
        return end, times


class _Lines:
    """The lines that occur, by the kinds of spacing of those in them, and what follows on each."""

    def __init__(self, labels):
        self.places, self.kinds = len(labels), max(labels) + 1
        start = (labels[0],)
        number = {start: 0}
        lines, following = [start], []
        for line in lines:  # which grows
            following.append([])
            for end in range(len(line), self.places + 1):
                after = (*line[1:], *labels[len(line) : end])
                if after and after not in number:
                    if len(lines) == _MOST_LINES:
                        raise ValueError(
                            f"spacings, {self.places} of them and {self.kinds} different: must "
                            f"make at most {_MOST_LINES} different lines"
                        )
                    number[after] = len(lines)
                    lines.append(after)
                following[-1].append(after)
        self.count = len(lines)
        # What follows on a line by the number blocked in a stage; the empty line comes last.
        self.next = np.full((self.count, self.places), self.count)
        for n, row in enumerate(following):
            self.next[n, : len(row)] = [number.get(after, self.count) for after in row]
        self.groups = {}
        for n, line in enumerate(lines):
            self.groups.setdefault((line[0], len(line)), []).append(n)

    def visits(self, stages, erlang_b):
        """Return the stage starts by (kind, d, k), and the law of k at the end of a phase."""
        found = None
        if self.count * stages.width > _ELIMINATED_AT_ONCE:
            found = self._followed(stages, 0.1 * _NEGLIGIBLE * erlang_b)
        if found is None:
            found = self._eliminated(stages)
        by_line, exits = found
        visits = np.zeros((self.kinds, self.places, stages.width), dtype=stages.dtype)
        for (kind, deferred), numbers in self.groups.items():
            visits[kind, deferred - 1] = by_line[numbers].sum(axis=0)
        return visits, exits

    def _followed(self, stages, negligible):
        """Return the visits to (line, k) by following a phase to its end; None if that is long."""
        here = np.zeros((self.count, stages.width), dtype=stages.dtype)
        here[0, -1] = 1.0
        visits, exits = here.copy(), np.zeros(stages.width, dtype=stages.dtype)
        left = [1.0]
        while left[-1] > negligible:
            if len(left) == _FEWEST_STAGES:
                decay = math.log(left[-9] / left[-1]) / 8.0
                if decay * _MOST_STAGES < math.log(left[-1] / negligible):
                    return None
            if len(left) > 2 * _MOST_STAGES:
                return None
            after = np.zeros((self.count + 1, stages.width), dtype=stages.dtype)
            for (kind, deferred), numbers in self.groups.items():
                ends = here[numbers] @ stages.onward(kind, deferred)
                # With the same first customer, different lines have different ones behind her.
                for blocked in range(self.places + 1 - deferred):
                    part = ends[:, blocked * stages.width : (blocked + 1) * stages.width]
                    after[self.next[numbers, blocked]] += part
            exits += after[-1]
            here = after[:-1]
            visits += here
            left.append(float(here.real.sum()))
        return visits, exits

    def _eliminated(self, stages):
        """Return the same, to one scale, as the stationary law of phases that follow each other."""
        width, size = stages.width, self.count * stages.width
        if size > _MOST_ELIMINATED:
            raise ValueError(
                f"spacings, {self.places} of them: {self.count} lines times {width} numbers of "
                f"busy servers must be at most {_MOST_ELIMINATED}, as nobody being deferred is so "
                "rare that a phase cannot be followed to its end"
            )
        chain = np.zeros((self.count, width, self.count, width), dtype=stages.dtype)
        last = np.zeros((self.count, width, width), dtype=stages.dtype)
        for (kind, deferred), numbers in self.groups.items():
            onward = stages.onward(kind, deferred)
            for n, blocked in itertools.product(numbers, range(self.places + 1 - deferred)):
                part = onward[:, blocked * width : (blocked + 1) * width]
                to = self.next[n, blocked]
                if to == self.count:
                    last[n] += part
                    chain[n, :, 0, -1] += part.sum(axis=1)
                else:
                    chain[n, :, to] += part
        # The phase's start is where elimination ends: it is to be the first of all states.
        order = np.roll(np.arange(size), 1 - width)
        ordered = np.ascontiguousarray(chain.reshape(size, size)[np.ix_(order, order)])
        law = np.empty(size, dtype=stages.dtype)
        law[order] = _stationary(ordered)
        visits = law.reshape(self.count, width)
        return visits, np.einsum("nk,nkl->l", visits, last)


@njit
def _stationary(chain):
    """Return the stationary law of a chain, of which ``chain`` is overwritten."""
    size = chain.shape[0]
    for n in range(size - 1, 0, -1):
        leaving = chain[n, :n].sum()
        if leaving.real > 0.0:
            for i in range(n):
                factor = chain[i, n] / leaving
                chain[i, n] = factor
                if factor.real != 0.0:
                    for j in range(n):
                        chain[i, j] += factor * chain[n, j]
    law = np.zeros_like(chain[0])
    law[0] = 1.0
    for n in range(1, size):
        total = law[0] * chain[0, n]
        for i in range(1, n):
            total += law[i] * chain[i, n]
        law[n] = total
        if total.real > 1e100:
            for i in range(n + 1):
                law[i] /= total.real
    mass = law.sum().real
    return law / mass
