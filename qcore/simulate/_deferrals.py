"""Simulation of the loss system with deferrals."""

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from numba.extending import is_jitted

from qcore._numerics.checks import count, random_seed, scalar
from qcore._numerics.compiled import njit, plain
from qcore.simulate._batches import BATCHES, batch_sizes, ratio
from qcore.simulate._estimate import Estimate
from qcore.simulate._heap import pop, push
from qcore.simulate._random import exponential, random_state, uniform


@dataclass(frozen=True)
class Dsrt:
    """Deterministically spaced return times.

    With no one deferred a customer is told to come back after ``spacing``; otherwise ``spacing``
    after the return of the customer who was deferred last.

    Parameters
    ----------
    spacing : float
        Time between two returns, > 0.
    """

    spacing: float

    def __post_init__(self):
        object.__setattr__(self, "spacing", scalar("spacing", self.spacing, above=0))


@dataclass(frozen=True)
class Esrt:
    """Exponentially spaced return times.

    As long as anyone is deferred, the deferred customers return one by one, the first deferred
    first, after independent exponential times: at rate ``rearrival_rate`` in total, however many
    they are.

    Parameters
    ----------
    rearrival_rate : float
        Rate of returns while anyone is deferred, > 0.
    """

    rearrival_rate: float

    def __post_init__(self):
        rate = scalar("rearrival_rate", self.rearrival_rate, above=0)
        object.__setattr__(self, "rearrival_rate", rate)


@dataclass(frozen=True)
class FixedReturn:
    """Every deferred customer returns after the same time, whatever the state.

    Parameters
    ----------
    deferral_time : float
        Time from deferral to return, > 0.
    """

    deferral_time: float

    def __post_init__(self):
        time = scalar("deferral_time", self.deferral_time, above=0)
        object.__setattr__(self, "deferral_time", time)


@dataclass(frozen=True)
class UniformReturn:
    """Every deferred customer returns after a time uniform on (0, ``max_deferral_time``).

    Parameters
    ----------
    max_deferral_time : float
        The longest time from deferral to return, > 0.
    """

    max_deferral_time: float

    def __post_init__(self):
        time = scalar("max_deferral_time", self.max_deferral_time, above=0)
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
        if not callable(self.return_time):
            raise ValueError(f"return_time = {self.return_time!r}: must be a function")
        parameters = tuple(float(scalar("parameters", number)) for number in self.parameters)
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


@dataclass(frozen=True)
class DeferralEstimates:
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
        Customers per unit of time, and services per unit of time of a busy server, > 0.
    policy : Dsrt, Esrt, FixedReturn, UniformReturn or ReturnRule
        When a deferred customer returns.
    customers : int
        Number of arrivals observed, >= 1000.
    seed : int
        At least 0; the same seed gives the same result.
    warmup : int, optional
        Number of arrivals simulated before observation begins, >= 0; by default a tenth of
        ``customers``.
    configurations : bool, optional
        Whether to estimate ``configuration_distribution`` and ``accepted_return_rate`` too. They
        take half a kilobyte of memory a configuration.

    Returns
    -------
    DeferralEstimates
        Each estimate with its standard error.

    Raises
    ------
    ValueError
        If an argument is outside its domain, or a rule of the reader's own returns a time in the
        past.

    Warns
    -----
    UserWarning
        If there are too few customers for honest standard errors.

    Notes
    -----
    The number of busy servers is a Markov process between returns, so an event costs one
    exponential and one uniform number, whatever the number of servers. The run starts empty,
    and the arrivals of the warm-up are not counted; what is left of the start is small beside
    the standard error when the warm-up spans many service and deferral times.

    Standard errors come from 64 batches of equal numbers of arrivals and allow for the correlation
    of neighbouring batches. Over 1,000 seeds, value ± 1.96 standard errors covers the exact value
    in 93 to 97 % of runs, if a batch is longer than two or three service and deferral times and
    what is estimated happened dozens of times. A warning says when a batch is shorter than one
    service time and than the time to fill the servers. A loss or deferral that was never seen, or
    always, is reported as 0 or 1 with the standard error 1/``customers``.

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
    arrival_rate = scalar("arrival_rate", arrival_rate, above=0)
    service_rate = scalar("service_rate", service_rate, above=0)
    customers = count("customers", customers, at_least=1000)
    warmup = customers // 10 if warmup is None else count("warmup", warmup)
    _warn_if_short(customers, servers, arrival_rate / service_rate)
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


def _warn_if_short(customers, servers, offered_load):
    needed = BATCHES * min(servers, offered_load)
    if customers < needed:
        warnings.warn(
            f"customers = {customers}: so short a run has hardly forgotten its start, and its "
            f"standard errors are too small; take at least {needed:.0f}",
            stacklevel=3,
        )


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
        f"policy = {policy!r}: must be a Dsrt, Esrt, FixedReturn, UniformReturn or ReturnRule"
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
