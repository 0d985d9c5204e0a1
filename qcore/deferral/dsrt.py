r"""Deterministically spaced return times: at most D customers deferred, returning x apart.

:math:`K` servers, arrivals at rate :math:`\lambda`, services at rate :math:`\mu` each, no
waiting room. A customer who finds all servers busy is deferred if fewer than :math:`D` are: to
return after :math:`x` if nobody is deferred, else :math:`x` after the last return already
arranged. Whoever finds all servers busy on return is lost.

While anybody is deferred, returns are :math:`x` apart, and the number busy and the number
deferred at the start of each such stage, :math:`(k, d)`, form a Markov chain. It can go down by
one deferral at a time only, so that it is solved by first passages, starting from the most
deferrals. With :math:`c = D - d`, :math:`A_j` the law of :math:`k` after a stage with
:math:`j` blocked arrivals and the return that ends it, and :math:`G_c` the law of :math:`k` when
the number deferred first falls below :math:`d`,

.. math:: G_c = A_0 + A_1 G_c + A_2 G_{c-1} G_c + \dots + \bar A_c G_1 \cdots G_c,

where :math:`\bar A_c` stands for :math:`c` or more blocked arrivals. A cycle from one phase with
deferrals to the next then gives the stationary law as a ratio of expectations.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from qcore._numerics import checks
from qcore.deferral import _levels, _optimum, _parameters, _stages, esrt, single_deferral

__all__ = [
    "Optimum",
    "blocking_probability",
    "configuration_distribution",
    "deferrals_in_use",
    "optimal_spacing",
]

_ALL_STATES_UP_TO = 24
_NEGLIGIBLE = 1e-17
_NEVER = 1e-280
# What a call may need: multiplications in products of matrices, steps of a vector's components
# through a stage, and entries of matrices.
_MOST_PRODUCTS = 1e10
_MOST_STEPS = 1e10
_MOST_ENTRIES = 3e7


@dataclass(frozen=True)
class Optimum:
    """The best spacing, and what it achieves.

    Attributes
    ----------
    spacing : float
        Time between the returns of customers deferred together.
    max_deferrals : int
        Largest number deferred at a time that this spacing leaves room for.
    blocking_probability : float
        Fraction of customers lost.
    """

    spacing: float
    max_deferrals: int
    blocking_probability: float


@_parameters.documented
def blocking_probability(servers, max_deferrals, arrival_rate, service_rate, spacing):
    r"""Return the fraction of customers lost, on arrival or on return.

    .. math::

        P_B = \Pi_{K,D} + \frac{\text{rate of returns that find all servers busy}}{\lambda}

    Parameters
    ----------
    %(counts)s
    %(rates)s
    spacing : array_like
        Time :math:`x` between returns, from 1e-60 to 1e60.

    Returns
    -------
    float or ndarray
        Blocking probability, for rates broadcast together; 0 where Erlang's, which bounds it, is
        below 1e-280.

    Raises
    ------
    ValueError
        If a count is not an integer in its range, or a number not in its range; if a stage
        has so many events, :math:`(\lambda + K\mu)x > 5 \cdot 10^7`, that it cannot be followed;
        or if the cost below is above :math:`10^{10}`.

    Notes
    -----
    The laws of a stage by uniformisation. Beyond 24
    servers the states are left out in which a phase spends a fraction below 1e-17 of its time, so
    that :math:`w`, of order :math:`\sqrt{K}` and less, are left. A phase is followed stage by
    stage, at :math:`Dw` times the number of events each, where it ends soon. Otherwise the stages,
    doubled in time where they are long, give first passages, by one factorisation of a matrix of
    :math:`w` by :math:`w` and products of it for each number deferred, :math:`Dcw^3` operations in
    all with :math:`c \le D` the most blocked arrivals in a stage. Measured: relative error
    below 1e-13 against dense linear algebra up to 80 states, down to losses of 1e-21 below 1e-12
    against the sums of `qcore.deferral.single_deferral`; at K = 1000 to 3000 the exact identity
    between what is gained over Erlang's formula and what accepted returns are worth holds to 1e-12.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), Algorithm 1 and the section on its analysis.

    Examples
    --------
    >>> blocking_probability(10, 2, 10.3, 1.0, 0.25)
    0.18988567...
    >>> blocking_probability(10, 0, 10.3, 1.0, 0.25)  # Erlang B
    0.2283136250...
    """
    servers, max_deferrals = _counts(servers, max_deferrals)
    arguments = _parameters.broadcast_rates(
        arrival_rate=arrival_rate, service_rate=service_rate, spacing=spacing
    )
    result = np.empty(arguments[0].shape)
    for index in np.ndindex(result.shape):
        arrival, service, time = (float(argument[index]) for argument in arguments)
        result[index] = _solve(servers, max_deferrals, service / arrival, arrival * time)[0]
    return checks.unwrap(np.minimum(result, 1.0))  # all but 1 may round to more


@_parameters.documented
def configuration_distribution(servers, max_deferrals, arrival_rate, service_rate, spacing):
    r"""Return the stationary law of the numbers of busy servers and deferred customers.

    .. math::

        \Pi_{k,d} = \frac{\text{mean time with } k \text{ busy and } d \text{ deferred in a cycle}}
                        {\text{mean length of a cycle}}

    where a cycle runs from one first deferral, with nobody deferred, to the next.

    Parameters
    ----------
    %(counts)s
    %(rates_of_one_system)s
    spacing : float
        Time :math:`x` between returns, from 1e-60 to 1e60.

    Returns
    -------
    ndarray, shape (max_deferrals + 1, servers + 1)
        Probability of :math:`d` deferred and :math:`k` busy in row :math:`d`, column :math:`k`.

    Raises
    ------
    ValueError
        As `blocking_probability`.

    Notes
    -----
    Method as for `blocking_probability`. Measured against dense linear algebra up to 80 states:
    absolute error below 1e-14, relative error below 1e-11 in every component above 1e-4 of the
    largest. Beyond 24 servers the components of states that a phase hardly reaches are 0.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), Algorithm 1 and the section on its analysis.

    Examples
    --------
    >>> configuration_distribution(1, 1, 1.0, 1.0, 1.0).round(6)
    array([[0.333333, 0.333333],
           [0.094611, 0.238722]])
    """
    servers, max_deferrals = _counts(servers, max_deferrals)
    arrival_rate = _parameters.rate("arrival_rate", arrival_rate)
    service_rate = _parameters.rate("service_rate", service_rate)
    spacing = _parameters.time("spacing", spacing)
    esrt.check_states((max_deferrals + 1.0) * (servers + 1.0))
    distribution = np.empty((max_deferrals + 1, servers + 1))
    _solve(
        servers,
        max_deferrals,
        service_rate / arrival_rate,
        arrival_rate * spacing,
        distribution=distribution,
    )
    return distribution


def deferrals_in_use(max_deferrals, spacing, max_deferral_time):
    r"""Return how many customers may be deferred so that nobody is deferred too long.

    .. math:: D = \min(\hat D, \lfloor \hat T / x \rfloor)

    Parameters
    ----------
    max_deferrals : int
        Largest number :math:`\hat D \ge 1` allowed at a time.
    spacing : float
        Time :math:`x` between returns, from 1e-60 to 1e60.
    max_deferral_time : float
        Longest time :math:`\hat T` from a blocked arrival to its return, from 1e-60 to 1e60.

    Returns
    -------
    int
        Number of deferrals; a quotient within rounding of an integer counts as it.

    Raises
    ------
    ValueError
        If an argument is out of its range, or if the time leaves no room for one deferral.

    Examples
    --------
    >>> deferrals_in_use(100, 10.0 / 29, 10.0)  # although 10.0 // (10.0 / 29) is 28
    29
    """
    max_deferrals = checks.count("max_deferrals", max_deferrals, at_least=1)
    spacing = _parameters.time("spacing", spacing)
    max_deferral_time = _parameters.time("max_deferral_time", max_deferral_time)
    deferrals = _optimum.deferrals_in_use(max_deferrals, max_deferral_time / spacing)
    if deferrals == 0:
        raise ValueError(
            f"spacing = {spacing!r}: must be at most max_deferral_time = {max_deferral_time!r}, "
            "else not one customer can be deferred"
        )
    return deferrals


@_parameters.documented
def optimal_spacing(servers, max_deferrals, arrival_rate, service_rate, max_deferral_time):
    r"""Return the spacing at which the fewest customers are lost.

    .. math::

        \min_{0 < x \le \hat T} P_B(K, D, \lambda, \mu, x), \qquad
        D = \min(\hat D, \lfloor \hat T / x \rfloor)

    Parameters
    ----------
    %(allowed_counts)s
    %(rates_of_one_system)s
    max_deferral_time : float
        Longest time :math:`\hat T` from a blocked arrival to its return, from 1e-60 to 1e60.

    Returns
    -------
    Optimum
        Its fields are spacing, max_deferrals (the :math:`D` in use) and blocking_probability.

    Raises
    ------
    ValueError
        If an argument is out of its range; if hardly anybody is lost (blocking probability
        below 1e-280); if with two deferrals or more the blocking probability depends so little on
        the spacing that rounding moves the best one by more than a millionth; or if a tenth of the
        cost allowed to `blocking_probability` is not enough.

    Notes
    -----
    One deferral is left to `qcore.deferral.single_deferral`. With more, the number deferred is
    found by doubling and bisection, so that some 20 evaluations with about the best number are
    needed, however large :math:`\hat D` is.
    The blocking probability jumps where :math:`\hat T/x` is an integer. Between two jumps the
    best spacing is the right end, :math:`\hat T/D` exactly, or the root of the exact derivative
    by :math:`\ln x`, carried through the whole computation as the imaginary part of complex
    numbers. Taken for granted, as no exception was met in random systems, but not proved:
    between two jumps the derivative changes its sign at most once, more deferrals never hurt at
    the same spacing, and the smallest values between jumps fall and then rise with :math:`D`.
    Measured against 50-digit arithmetic at small sizes: relative error of the spacing below 1e-10
    (1e-13 for one server and one deferral, against the closed form).

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), section on deterministically spaced return times.

    Examples
    --------
    >>> optimal_spacing(10, 2, 10.3, 1.0, 10.0)
    Optimum(spacing=0.21736924..., max_deferrals=2, blocking_probability=0.18970515...)
    """
    servers = checks.count("servers", servers, at_least=1)
    max_deferrals = checks.count("max_deferrals", max_deferrals, at_least=1)
    arrival_rate = _parameters.rate("arrival_rate", arrival_rate)
    service_rate = _parameters.rate("service_rate", service_rate)
    max_deferral_time = _parameters.time("max_deferral_time", max_deferral_time)

    if max_deferrals == 1:
        best = single_deferral.optimal_deferral_time(
            servers, arrival_rate, service_rate, max_deferral_time
        )
        return Optimum(best.deferral_time, 1, best.blocking_probability)

    @functools.cache
    def evaluate(deferrals, slots):
        lost, gained = _solve(
            servers,
            deferrals,
            service_rate / arrival_rate,
            max_deferral_time / slots * arrival_rate,
            _levels.DERIVATIVE_STEP,
        )
        # The imaginary parts are derivatives by log(spacing) = -log(slots) + constant.
        rising = -lost.imag / lost.real if lost.real < gained.real else gained.imag / gained.real
        return float(lost.real), float(rising) / _levels.DERIVATIVE_STEP

    # The best spacing is that of exponential returns or of one deferral, or a little shorter.
    near, likely = esrt.near_best(
        servers, max_deferrals, arrival_rate, service_rate, max_deferral_time
    )
    alone = single_deferral.optimal_deferral_time(servers, arrival_rate, service_rate)
    slots, deferrals, blocking = _optimum.best_slots(
        max_deferrals, evaluate, max(near, max_deferral_time / alone.deferral_time), likely
    )
    if not _optimum.is_told_apart(deferrals, slots, evaluate):
        raise ValueError(
            f"servers = {servers!r}, arrival_rate = {arrival_rate!r}: the blocking probability "
            f"near spacing = {max_deferral_time / slots!r} must depend on the spacing by more than "
            "rounding hides for a best spacing to be told"
        )
    return Optimum(float(max_deferral_time / slots), deferrals, blocking)


def _counts(servers, max_deferrals):
    return (
        checks.count("servers", servers, at_least=1),
        checks.count("max_deferrals", max_deferrals),
    )


def _solve(servers, max_deferrals, service_ratio, spacing, step=0.0, distribution=None):
    """Return P_B and B_K - P_B, and fill ``distribution`` if given; ``spacing`` in units of 1/λ.

    With ``step`` non-zero, imaginary parts are derivatives by log(spacing), times ``step``.
    """
    load = 1.0 / service_ratio
    erlang_b = _parameters.erlang_b(servers, load)
    if max_deferrals == 0 or erlang_b < _NEVER:
        if distribution is not None:
            distribution[:] = 0.0
            distribution[0] = nobody_deferred(np.ones(1), 0, servers, servers, service_ratio)[0]
        return erlang_b, 0.0
    first = first_of_window(servers, max_deferrals, service_ratio, spacing)
    counts = _most_blocked(max_deferrals, spacing, erlang_b)
    mass, tail = _stages.poisson_terms((1.0 + servers * service_ratio) * spacing, step)
    while True:
        calls = 10.0 if step else 1.0
        check_steps(max_deferrals, servers - first + 1, mass.size, calls)
        found = _visits_stage_by_stage(
            max_deferrals, counts, first, servers, service_ratio, mass, erlang_b
        )
        if found is None:
            _check_products(max_deferrals, counts, servers - first + 1, calls)
            found = _visits(servers, max_deferrals, service_ratio, spacing, first, step, counts)
        visits, exits = found
        end, times = _stages.run_stage(visits, first, servers, service_ratio, mass, tail)
        if first == 0 or times[:, 0].sum().real < _NEGLIGIBLE * times.sum().real:
            break
        first = max(0, servers - 2 * (servers - first))
    lowest = 0 if distribution is not None else _levels.first_of_window(servers, load)
    cycle = whole_cycle(end, times, exits, min(lowest, first), first, servers, service_ratio)
    lost, gained, law, times = cycle
    if distribution is not None:
        distribution[:] = 0.0
        distribution[0] = law.real
        # Rounding in the factorisations can leave a few components at -1e-17.
        distribution[1:, first:] = np.maximum(times.real, 0.0)
    return lost, gained


def whole_cycle(end, times, exits, lowest, first, servers, service_ratio):
    """Return the parts lost and gained, and the stationary law with nobody and somebody deferred.

    Given, for one phase, are the laws at the ends of stages and the times, by (d, k), and the law
    of k when it ends.
    """
    law, outside, scale = nobody_deferred(exits, lowest, first, servers, service_ratio)
    end, times = scale * end, scale * times
    total = outside + times.sum()
    lost = (times[-1, -1] + end[:, -1].sum()) / total
    worth = _levels.idle_server_worth(first, servers, service_ratio)
    gained = (end[:, :-1].sum(axis=0) @ worth) / total
    return lost, gained, law * outside / total, times / total


def nobody_deferred(exits, lowest, first, servers, service_ratio):
    """Return the law of k between phases, its time for these phase ends, and their scale.

    The chain starts where a phase ends, k = first … K, and stops at the next blocked arrival; the
    law is that of k = lowest … K.
    """
    law = np.zeros(servers - lowest + 1, dtype=exits.dtype)
    if exits.sum().real < _NEVER:
        return law, 0.0, 1.0
    inflow = np.zeros(servers - lowest, dtype=exits.dtype)
    inflow[first - lowest :] = exits[:-1]
    descent = service_ratio * np.arange(lowest + 1.0, servers + 1.0)
    time, exponent = _levels.fill_level(law, inflow, exits.sum(), np.ones(inflow.size), descent)
    return law, time, math.ldexp(1.0, -exponent)


def first_of_window(servers, max_deferrals, service_ratio, spacing):
    """Return the least number busy that matters in a phase, judged by exponential spacing."""
    if servers <= _ALL_STATES_UP_TO:
        return 0
    first, law = esrt.busy_while_deferred(servers, max_deferrals, service_ratio, 1.0 / spacing)
    times = np.cumsum(law)
    first += int(np.searchsorted(times, _NEGLIGIBLE * times[-1]))
    return max(0, min(first, servers - 8))


def _most_blocked(max_deferrals, spacing, erlang_b):
    """Return how many numbers of blocked arrivals in a stage are told apart.

    More of them are so rare that even where hardly anybody is lost they are left out.
    """
    if max_deferrals == 1:
        return 1
    _, tail = _stages.poisson_terms(spacing, 0.0) if spacing < 1e4 else (None, np.ones(1))
    enough = int(np.searchsorted(-tail, -_NEGLIGIBLE * erlang_b))
    return min(max_deferrals, max(2, enough + 1 if enough < tail.size else max_deferrals))


def check_steps(max_deferrals, width, terms, calls):
    """Refuse stages that take minutes, before anything of their size is allocated."""
    if max_deferrals * float(width) * terms > _MOST_STEPS / calls:
        raise ValueError(
            f"max_deferrals = {max_deferrals!r}: the deferrals times {width} numbers of busy "
            f"servers times {terms} events in a stage must be at most {_MOST_STEPS / calls:g}"
        )


def _check_products(max_deferrals, counts, width, calls):
    """Refuse passages that take minutes, before their matrices are allocated."""
    products = max_deferrals * counts * float(width) ** 3
    if products > _MOST_PRODUCTS / calls or counts * float(width) ** 2 > _MOST_ENTRIES:
        raise ValueError(
            f"max_deferrals = {max_deferrals!r}: the deferrals times {counts} numbers of blocked "
            f"arrivals times {width}^3, for as many numbers of busy servers, must be at most "
            f"{_MOST_PRODUCTS / calls:g}, and {counts} * {width}^2 at most {_MOST_ENTRIES:g}"
        )


def _visits_stage_by_stage(max_deferrals, counts, first, servers, service_ratio, mass, erlang_b):
    """Return what `_visits` does by following a phase to its end, or None if that takes longer."""
    here = np.zeros((2, max_deferrals, servers - first + 1))
    here[0, 0, -1] = 1.0
    visits, exits = here.copy(), np.zeros((2, here.shape[2]))
    weights = np.ascontiguousarray(mass.real), np.ascontiguousarray(mass.imag)
    # A return is lost at least as often as an arrival without deferrals.
    negligible = 0.1 * _NEGLIGIBLE * erlang_b
    most_stages = _most_stages(max_deferrals, counts, here.shape[2], mass.size)
    left = [1.0]
    while left[-1] > negligible:
        stages = len(left)
        if stages % 16 == 0:
            decay = math.log(left[stages - 9] / left[stages - 1]) / 8.0
            if decay * (most_stages - stages) < math.log(left[-1] / negligible):
                return None
        end = _stages.end_of_stage(here, first, servers, service_ratio, *weights)
        after = np.zeros_like(end)
        after[:, :, 1:] = end[:, :, :-1]
        after[:, :, -1] += end[:, :, -1]
        exits += after[:, 0]
        here = np.zeros_like(end)
        here[:, :-1] = after[:, 1:]
        visits += here
        left.append(float(here[0].sum()))
    if np.iscomplexobj(mass):
        return visits[0] + 1j * visits[1], exits[0] + 1j * exits[1]
    return visits[0], exits[0]


def _most_stages(max_deferrals, counts, width, terms):
    """Return how many stages of a phase take the time of its first passages."""
    passages = counts * width**2 * (0.5 * terms + 0.5 * max_deferrals * width)
    return max(1, int(passages / (2.0 * max_deferrals * width * terms)))


def _visits(servers, max_deferrals, service_ratio, spacing, first, step, counts):
    """Return the stage starts at (d, k), d = 1 … D, and the ends of phases at k, to one scale."""
    returned = return_matrices(servers, service_ratio, spacing, first, step, counts)
    at_least = np.cumsum(returned[::-1], axis=0)[::-1]
    width = servers - first + 1
    visits = np.zeros((max_deferrals, width), dtype=returned.dtype)
    if max_deferrals == 1:
        visits[0, -1] = 1.0
        return visits, at_least[0][-1].copy()
    # passages[c] is G_c for c = D - d; solvers[c] the factors of I - U_c + 1e', e the last unit
    # vector, which keep their accuracy however seldom the number deferred falls.
    passages, solvers, leaving = [None], [None], [None]
    unit = np.zeros(width)
    unit[-1] = 1.0
    for room in range(1, max_deferrals):
        last = min(room, counts - 1)
        stay = at_least[last]
        for j in range(last - 1, 0, -1):
            stay = returned[j] + stay @ passages[room - j]
        matrix = np.eye(width) - stay
        matrix[:, -1] += 1.0
        solver = lu_factor(matrix, overwrite_a=True, check_finite=False)
        passage = lu_solve(solver, returned[0], check_finite=False)
        chance = passage.sum(axis=1)
        if chance[-1].real < _NEVER:
            passage, chance, from_full = 0.0 * passage, 0.0 * chance, unit
        else:
            from_full = passage[-1] / chance[-1]
        passages.append(passage + np.outer(1.0 - chance, from_full))
        solvers.append(solver)
        leaving.append(chance)
    arriving = np.zeros((max_deferrals, width), dtype=returned.dtype)
    exits = None
    for room in range(max_deferrals - 1, 0, -1):
        stationary = lu_solve(solvers[room], unit, trans=1, check_finite=False)
        if exits is None:
            here = stationary
            exits = here @ returned[0]
        else:
            lowest = max(1, room + 2 - counts)
            inflow = arriving[lowest]
            for lower in range(lowest + 1, room + 1):
                inflow = inflow @ passages[lower - 1] + arriving[lower]
            chance = leaving[room]
            here = chance[-1] * lu_solve(solvers[room], inflow, trans=1, check_finite=False)
            here = here + (inflow @ (1.0 - chance)) * stationary
            visits *= chance[-1]
            arriving *= chance[-1]
            exits = exits * chance[-1]
        visits[max_deferrals - room - 1] = here
        last = min(room, counts - 1)
        for j in range(2, last + 1):
            arriving[room - j + 1] += here @ (at_least if j == last else returned)[j]
        scale = 1.0 / visits.sum().real
        visits *= scale
        arriving *= scale
        exits = exits * scale
    return visits, exits


def return_matrices(servers, service_ratio, spacing, first, step, counts):
    """Return A_j: from k at the start of a stage to k after the return that ends it."""
    mean = (1.0 + servers * service_ratio) * spacing
    halvings = _halvings(mean, servers - first + 1, counts)
    weights, _ = _stages.poisson_terms(mean * 2.0**-halvings, step)
    matrices = _stages.count_matrices(first, servers, service_ratio, weights, counts)
    for _ in range(halvings):
        matrices = _stages.doubled(matrices)
    returned = np.zeros_like(matrices)
    returned[:, :, 1:] = matrices[:, :, :-1]
    returned[:, :, -1] += matrices[:, :, -1]
    return returned


def _halvings(mean, width, counts):
    """Return how often to halve the stage: few steps to sum against few products of matrices."""
    product = (counts + 1) ** 2 / 2 * width**3 * 0.1
    sums = counts * width**2 * 0.5

    def cost(halvings):
        return halvings * product + sums * _stages.terms_needed(mean * 2.0**-halvings)

    return min(range(64), key=cost)
