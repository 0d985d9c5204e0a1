"""Simulation of the loss system with deferrals."""

import inspect
import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numba.extending import is_jitted

from qcore._numerics.checks import LARGEST, count, flag, random_seed, scalar, shown
from qcore._numerics.comparable import Comparable
from qcore._numerics.compiled import njit, plain
from qcore.simulate._batches import (
    BATCHES,
    batch_sizes,
    ratio,
    warn_if_correlated,
    warn_if_short,
)
from qcore.simulate._estimate import Estimate
from qcore.simulate._heap import pop, push
from qcore.simulate._random import exponential, random_state, uniform

MOST_CUSTOMERS = 10**11
MOST_CONFIGURATIONS = 2 * 10**6
MOST_DEFERRED = 2**27


def _in_range(name, value):
    """Check a rate or a time, of which sums and products must not leave the range of floats."""
    return scalar(name, value, at_least=1 / LARGEST, at_most=LARGEST)


@dataclass(frozen=True)
class Dsrt:
    """Deterministically spaced return times.

    With no one deferred a customer is told to come back after ``spacing``; otherwise ``spacing``
    after the return of the customer who was deferred last.

    Parameters
    ----------
    spacing : float
        Time between two returns, from 10⁻¹⁵⁰ to 10¹⁵⁰.
    """

    spacing: float

    def __post_init__(self):
        object.__setattr__(self, "spacing", _in_range("spacing", self.spacing))


@dataclass(frozen=True)
class Esrt:
    """Exponentially spaced return times.

    As long as anyone is deferred, the deferred customers return one by one, the first deferred
    first, after independent exponential times: at rate ``rearrival_rate`` in total, however many
    they are.

    Parameters
    ----------
    rearrival_rate : float
        Rate of returns while anyone is deferred, from 10⁻¹⁵⁰ to 10¹⁵⁰.
    """

    rearrival_rate: float

    def __post_init__(self):
        rate = _in_range("rearrival_rate", self.rearrival_rate)
        object.__setattr__(self, "rearrival_rate", rate)


@dataclass(frozen=True)
class FixedReturn:
    """Every deferred customer returns after the same time, whatever the state.

    Parameters
    ----------
    deferral_time : float
        Time from deferral to return, from 10⁻¹⁵⁰ to 10¹⁵⁰.
    """

    deferral_time: float

    def __post_init__(self):
        time = _in_range("deferral_time", self.deferral_time)
        object.__setattr__(self, "deferral_time", time)


@dataclass(frozen=True)
class UniformReturn:
    """Every deferred customer returns after a time uniform on (0, ``max_deferral_time``).

    Parameters
    ----------
    max_deferral_time : float
        The longest time from deferral to return, from 10⁻¹⁵⁰ to 10¹⁵⁰.
    """

    max_deferral_time: float

    def __post_init__(self):
        time = _in_range("max_deferral_time", self.max_deferral_time)
        object.__setattr__(self, "max_deferral_time", time)


@dataclass(frozen=True)
class ReturnRule:
    """A policy of the reader's own: any rule that gives a deferred customer a time to return.

    Parameters
    ----------
    return_time : function
        ``return_time(random, now, last_return, deferred, parameters)`` gives the time, >= ``now``,
        at which a customer deferred at ``now`` returns. ``random`` is a NumPy generator,
        ``last_return`` the return time given to the customer deferred before this one (it may
        lie in the past) and ``deferred`` the number of customers in deferral, this one not
        counted. Numba compiles it, in a few seconds. Times are counted from an origin that moves
        now and then, so that only their differences mean something.
    parameters : tuple of numbers
        Handed to ``return_time``.

    Examples
    --------
    Deferral times of a gamma law of mean 1/2:

    >>> from qcore.simulate import ReturnRule, deferrals
    >>> def gamma_return(random, now, last_return, deferred, parameters):
    ...     shape, mean = parameters
    ...     return now + mean / shape * random.standard_gamma(shape)
    >>> policy = ReturnRule(gamma_return, (3.0, 0.5))
    >>> estimates = deferrals(1, 1, 1.0, 1.0, policy, customers=100_000, seed=1)
    >>> 0.4 < estimates.blocking_probability.value < 0.5
    True
    """

    return_time: object
    parameters: tuple = ()

    def __post_init__(self):
        if not (inspect.isfunction(self.return_time) or is_jitted(self.return_time)):
            raise ValueError(f"return_time = {shown(self.return_time)}: must be a function")
        plain = getattr(self.return_time, "py_func", self.return_time)
        try:
            inspect.signature(plain).bind("random", "now", "last_return", "deferred", "parameters")
        except TypeError as wrong:
            raise ValueError(
                f"return_time = {shown(self.return_time)}: must take random, now, last_return, "
                f"deferred and parameters, but: {wrong}"
            ) from None
        parameters = tuple(scalar("parameters", number) for number in _items(self.parameters))
        object.__setattr__(self, "parameters", parameters)
        if not is_jitted(self.return_time):
            object.__setattr__(self, "return_time", njit(self.return_time, cache=False))


@dataclass(frozen=True)
class DeferralCensus:
    """What became of every arrival of a run, the warm-up included, at its last arrival.

    ``arrivals = served + lost_on_arrival + lost_on_return + in_service + in_deferral``, exactly;
    each number is counted on its own.
    """

    arrivals: int
    served: int
    lost_on_arrival: int
    lost_on_return: int
    in_service: int
    in_deferral: int


@dataclass(frozen=True, eq=False)
class DeferralEstimates(Comparable):
    """Long-run averages of the loss system with deferrals, each an `Estimate`.

    Attributes
    ----------
    blocking_probability : Estimate
        Fraction of customers lost, on arrival or on return.
    blocked_on_arrival, blocked_on_return : Estimate
        Fraction of customers lost on arrival, and on return; they add up to the blocking
        probability.
    deferral_probability : Estimate
        Fraction of customers told to come back later.
    mean_busy, mean_deferred : Estimate
        Time averages of the number of busy servers and of the number in deferral.
    census : DeferralCensus
        Where every arrival of the run was at its end.
    configuration_distribution : Estimate or None
        Fraction of time with d customers deferred and k servers busy, where asked for: value and
        standard error are arrays of shape (max_deferrals + 1, servers + 1).
    accepted_return_rate : Estimate or None
        Returns per unit of time that find k < servers busy, where asked for: arrays of shape
        (servers,).
    """

    blocking_probability: Estimate
    blocked_on_arrival: Estimate
    blocked_on_return: Estimate
    deferral_probability: Estimate
    mean_busy: Estimate
    mean_deferred: Estimate
    census: DeferralCensus
    configuration_distribution: Estimate | None = None
    accepted_return_rate: Estimate | None = None


def deferrals(
    servers,
    max_deferrals,
    arrival_rate,
    service_rate,
    policy,
    customers,
    seed,
    *,
    warmup=None,
    configurations=False,
):
    """Simulate the loss system in which a blocked customer may be told to come back later.

    Customers arrive as a Poisson process, services are exponential and there is no waiting room.
    A customer who finds all servers busy is told to come back at a time that the policy chooses
    if fewer than ``max_deferrals`` are in deferral, and is lost otherwise; whoever finds all
    servers busy on return is lost for good.

    Parameters
    ----------
    servers : int
        Number of servers, >= 1.
    max_deferrals : int
        Greatest number of customers in deferral at a time, >= 0.
    arrival_rate, service_rate : float
        Customers per unit of time, and services per unit of time of a busy server, from
        10⁻¹⁵⁰ to 10¹⁵⁰.
    policy : Dsrt, Esrt, FixedReturn, UniformReturn or ReturnRule
        When a deferred customer returns.
    customers : int
        Number of arrivals observed, from 1000 to 10¹¹.
    seed : int
        At least 0; the same seed gives the same result.
    warmup : int, optional
        Number of arrivals simulated before observation begins, >= 0; by default a tenth of
        ``customers``.
    configurations : bool, optional
        Whether to estimate ``configuration_distribution`` and ``accepted_return_rate`` too. They
        take two kilobytes of memory a configuration, of which there may be 2·10⁶.

    Returns
    -------
    DeferralEstimates
        Each estimate with its standard error.

    Raises
    ------
    ValueError
        If an argument is outside its domain, a rule of the reader's own returns a time in the
        past, or more than 10⁸ customers are in deferral at once.

    Warns
    -----
    UserWarning
        If the run or its warm-up is too short for what the system remembers, or the run itself
        shows that its batches are correlated. Standard errors are then too small.

    Notes
    -----
    The number of busy servers is a Markov process between returns, so an event costs one
    exponential and one uniform number, whatever the number of servers: 20 to 60 ns. The run
    starts empty, and the arrivals of the warm-up are not counted.

    Standard errors come from 64 batches of equal numbers of arrivals and allow for the correlation
    of neighbouring batches. Over 1,000 seeds, value ± 1.96 standard errors covers the exact value
    in 93 to 97 % of runs, if a batch lasts more than two relaxation times and what is estimated
    happened dozens of times; the page of benchmarks has a table. The relaxation time is that of
    the servers, a mean service or the time to fill them, and that of the number in deferral. The
    latter is a random walk between 0 and ``max_deferrals``, up at the rate at which customers
    found all servers busy, down at the rate of returns: where the two are equal it
    remembers for the square of ``max_deferrals`` returns. A rule of the reader's own is judged by
    its batches alone. A loss or deferral that was never seen, or always, is reported as 0 or 1
    with the standard error 1/``customers``.

    References
    ----------
    - A. Kagrecha and J. Nair, "Please come back later", 2019,
      arXiv:1910.12894, Algorithm 1 and the policies of its experiments.

    Examples
    --------
    >>> from qcore.simulate import Dsrt, deferrals
    >>> estimates = deferrals(1, 1, 1.0, 1.0, Dsrt(0.9), customers=100_000, seed=1)
    >>> 0.42 < estimates.blocking_probability.value < 0.44
    True
    >>> estimates.blocking_probability.standard_error < 0.003
    True
    """
    servers = count("servers", servers, at_least=1)
    max_deferrals = count("max_deferrals", max_deferrals)
    arrival_rate = _in_range("arrival_rate", arrival_rate)
    service_rate = _in_range("service_rate", service_rate)
    customers = count("customers", customers, at_least=1000, at_most=MOST_CUSTOMERS)
    warmup = customers // 10 if warmup is None else count("warmup", warmup, at_most=MOST_CUSTOMERS)
    configurations = flag("configurations", configurations)
    if configurations and (max_deferrals + 1) * (servers + 1) > MOST_CONFIGURATIONS:
        raise ValueError(
            f"configurations = True: there are {(max_deferrals + 1) * (servers + 1)} of them, and "
            f"room for {MOST_CONFIGURATIONS}"
        )
    simulate = _simulation(policy, random_seed(seed))
    shape = (BATCHES + 1, max_deferrals + 1, servers + 1) if configurations else (0, 0, 0)
    occupancy = np.zeros(shape)
    accepted = np.zeros(shape[::2])
    counts, times = simulate(
        (servers, max_deferrals, arrival_rate, service_rate),
        np.concatenate([[warmup], batch_sizes(customers)]),
        occupancy,
        accepted,
    )
    arrived, lost_on_arrival, lost_on_return, deferred = counts[1:, :4].T
    duration, busy_time, deferred_time = times[1:].T
    attempt_rate = arrival_rate * (lost_on_arrival + deferred).sum() / customers
    of_servers = 1 / max(service_rate, arrival_rate / servers)
    relaxation = of_servers + _relaxation_of_deferrals(policy, max_deferrals, attempt_rate)
    mean_deferral = deferred_time.sum() / max(deferred.sum(), 1)
    warned = warn_if_short(
        customers,
        warmup,
        relaxation=relaxation,
        forgotten=of_servers * (1 + math.log(servers) / 2) + mean_deferral + 3 * relaxation,
        interarrival=1 / arrival_rate,
        stacklevel=2,
    )
    measures = {
        "blocking_probability": (lost_on_arrival + lost_on_return, arrived),
        "mean_busy": (busy_time, duration),
        "mean_deferred": (deferred_time, duration),
    }
    if not warned:
        warn_if_correlated(customers, measures, stacklevel=2)
    if configurations:
        distribution = Estimate(*ratio(occupancy[1:], duration))
        accepted_rate = Estimate(*ratio(accepted[1:, :servers], duration))
    return DeferralEstimates(
        blocking_probability=_fraction(lost_on_arrival + lost_on_return, arrived),
        blocked_on_arrival=_fraction(lost_on_arrival, arrived),
        blocked_on_return=_fraction(lost_on_return, arrived),
        deferral_probability=_fraction(deferred, arrived),
        mean_busy=_average(busy_time, duration),
        mean_deferred=_average(deferred_time, duration),
        census=_census(counts),
        configuration_distribution=distribution if configurations else None,
        accepted_return_rate=accepted_rate if configurations else None,
    )


def _items(parameters):
    if not isinstance(parameters, tuple | list | np.ndarray) or np.ndim(parameters) != 1:
        raise ValueError(f"parameters = {shown(parameters)}: must be a tuple of numbers")
    return parameters


def _census(counts):
    arrivals, lost_on_arrival, lost_on_return, _, served, _, _ = counts.sum(axis=0).tolist()
    in_service, in_deferral = counts[-1, -2:].tolist()
    return DeferralCensus(
        arrivals=arrivals,
        served=served,
        lost_on_arrival=lost_on_arrival,
        lost_on_return=lost_on_return,
        in_service=in_service,
        in_deferral=in_deferral,
    )


def _average(integrals, durations):
    value, standard_error = ratio(integrals, durations)
    return Estimate(float(value), float(standard_error))


def _fraction(hits, trials):
    value, standard_error = ratio(hits, trials)
    if hits.sum() in (0, trials.sum()):
        standard_error = 1 / trials.sum()
    # Those lost on return may have arrived before observation began.
    return Estimate(min(float(value), 1.0), float(standard_error))


def _relaxation_of_deferrals(policy, max_deferrals, attempt_rate):
    """Return the time in which the number in deferral forgets itself, where the policy tells.

    With spaced returns it is the queue M/M/1 with ``max_deferrals`` places, or close to it, whose
    spectral gap is known; otherwise every customer is away for a time of their own.
    """
    match policy:
        case _ if max_deferrals == 0 or attempt_rate == 0:
            return 0.0
        case Dsrt(spacing):
            return_rate = 1 / spacing
        case Esrt(rearrival_rate):
            return_rate = rearrival_rate
        case FixedReturn(longest) | UniformReturn(longest):
            return longest
        case _:
            return 0.0
    # attempt_rate + return_rate − 2 √(product) cos(π / (max_deferrals + 1)), without cancellation
    apart = (math.sqrt(attempt_rate) - math.sqrt(return_rate)) ** 2
    slack = 2 * math.sin(math.pi / (2 * (max_deferrals + 1))) ** 2
    return 1 / (apart + 2 * math.sqrt(attempt_rate) * math.sqrt(return_rate) * slack)


def _simulation(policy, seed):
    """Return the compiled simulation of the policy, its generator and parameters filled in."""
    stream, rule_stream = np.random.SeedSequence(seed).spawn(2)
    random = random_state(stream)
    match policy:
        case Dsrt(spacing):
            return partial(_run, random, _DSRT, spacing, None, None, None)
        case Esrt(rearrival_rate):
            return partial(_run, random, _ESRT, rearrival_rate, None, None, None)
        case FixedReturn(deferral_time):
            return partial(_run, random, _FIXED, deferral_time, None, None, None)
        case UniformReturn(max_deferral_time):
            return partial(_run, random, _UNIFORM, max_deferral_time, None, None, None)
        case ReturnRule(return_time, parameters):
            rule_random = np.random.default_rng(rule_stream)
            return partial(_run_own, random, _OWN, 0.0, return_time, rule_random, parameters)
    raise ValueError(
        f"policy = {shown(policy)}: must be a Dsrt, Esrt, FixedReturn, UniformReturn or ReturnRule"
    )


_DSRT, _ESRT, _FIXED, _UNIFORM, _OWN = range(5)


@njit
def _return_time(kind, random, now, last_return, parameter):
    """Return the time at which a customer deferred now returns."""
    if kind == _DSRT:
        return max(now, last_return) + parameter
    if kind == _ESRT:
        return max(now, last_return) + exponential(random) / parameter
    if kind == _FIXED:
        return now + parameter
    return now + parameter * uniform(random)


@njit(nogil=True)
def _run(
    random,
    kind,
    parameter,
    rule,
    rule_random,
    rule_parameters,
    system,
    sizes,
    occupancy,
    accepted,
):
    """Simulate one batch of arrivals after another; return counts and times, a row a batch.

    Counts: arrived, lost on arrival, lost on return, deferred, served, and at the end of the
    batch busy and in deferral. Times: duration, and the integrals of busy and in deferral.
    """
    servers, max_deferrals, arrival_rate, service_rate = system
    counts = np.zeros((len(sizes), 7), dtype=np.int64)
    times = np.zeros((len(sizes), 3))
    detailed = occupancy.size > 0
    returns = np.empty(min(max_deferrals, 16))
    busy = in_deferral = 0
    next_return = np.inf
    last_return = 0.0
    for batch, size in enumerate(sizes):
        arrived = served = lost_on_arrival = lost_on_return = deferred = 0
        now = busy_time = deferred_time = 0.0
        while arrived < size:
            total_rate = arrival_rate + busy * service_rate
            event = now + exponential(random) / total_rate
            is_return = next_return <= event
            if is_return:
                event = next_return
            elapsed = event - now
            now = event
            busy_time += busy * elapsed
            deferred_time += in_deferral * elapsed
            if detailed:
                occupancy[batch, in_deferral, busy] += elapsed
            if is_return:
                pop(returns, in_deferral)
                in_deferral -= 1
                next_return = returns[0] if in_deferral > 0 else np.inf
                if detailed:
                    accepted[batch, busy] += 1
                if busy < servers:
                    busy += 1
                else:
                    lost_on_return += 1
            elif uniform(random) * total_rate < arrival_rate:
                arrived += 1
                if busy < servers:
                    busy += 1
                elif in_deferral < max_deferrals:
                    deferred += 1
                    if rule is None:
                        last_return = _return_time(kind, random, now, last_return, parameter)
                    else:
                        last_return = rule(
                            rule_random, now, last_return, in_deferral, rule_parameters
                        )
                    if not last_return >= now:
                        raise ValueError("return_time gave a time before now, or no number")
                    if in_deferral == MOST_DEFERRED:
                        raise ValueError("max_deferrals: more than 134217728 are in deferral")
                    if in_deferral == len(returns):
                        returns = np.concatenate((returns, np.empty_like(returns)))
                    push(returns, in_deferral, last_return)
                    in_deferral += 1
                    next_return = returns[0]
                else:
                    lost_on_arrival += 1
            else:
                busy -= 1
                served += 1
        counts[batch] = (
            arrived,
            lost_on_arrival,
            lost_on_return,
            deferred,
            served,
            busy,
            in_deferral,
        )
        times[batch] = (now, busy_time, deferred_time)
        # The clock starts anew with each batch, so that long runs lose no digits.
        for i in range(in_deferral):
            returns[i] -= now
        next_return -= now
        last_return -= now
    return counts, times


# Numba cannot keep on disk what calls a function that it was handed.
_run_own = njit(plain(_run), cache=False, nogil=True)
