"""The fast simulation of the GI/GI/N+GI queue against exact chains and a plain simulation."""

import pickle
import tracemalloc
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_many_server import simulate
from scipy import stats
from scipy.linalg import eigvalsh_tridiagonal

from qcore.errors import UnstableSystem
from qcore.simulate import NonIdling, ServerIdle, Thinned, many_server_queue, replications
from qcore.simulate._batches import warn_if_correlated
from qcore.simulate._laws import law_of_times
from qcore.simulate._relaxation import memory_of

ARGUMENTS = {
    "servers": 3,
    "interarrival": stats.expon(scale=0.3),
    "service": stats.expon(),
    "patience": stats.expon(scale=0.7),
    "policy": NonIdling(),
    "customers": 20_000,
    "seed": 1,
}
MEASURES = (
    "abandonment_probability",
    "rejection_probability",
    "delay_probability",
    "waiting_time",
    "busy_fraction",
    "queue_length",
    "abandonment_rate",
    "rejection_rate",
    "throughput",
    "utilization_cost",
)


def run(**changes):
    return many_server_queue(**(ARGUMENTS | changes))


def cost(fraction):
    return fraction**3


def markovian_measures(servers, arrival_rate, service_rate, abandonment_rate, admitted=1.0):
    """Solve the birth-death chain of M/M/N+M, cut where the states no longer matter."""
    states = 4000
    number = np.arange(states)
    births = np.full(states - 1, admitted * arrival_rate)
    busy = np.minimum(number, servers)
    deaths = busy * service_rate + (number - busy) * abandonment_rate
    with np.errstate(divide="ignore"):
        log_weight = np.concatenate([[0.0], np.cumsum(np.log(births) - np.log(deaths[1:]))])
    weight = np.exp(log_weight - log_weight.max())
    assert weight[-1] < 1e-30
    probability = weight / weight.sum()
    queue = probability @ (number - busy)
    abandonments = abandonment_rate * queue
    return {
        "abandonment_probability": abandonments / arrival_rate,
        "rejection_probability": 1 - admitted,
        "delay_probability": probability[servers:].sum(),
        "waiting_time": queue / (admitted * arrival_rate),
        "busy_fraction": probability @ busy / servers,
        "queue_length": queue,
        "abandonment_rate": abandonments,
        "rejection_rate": (1 - admitted) * arrival_rate,
        "throughput": service_rate * probability @ busy,
        "utilization_cost": probability @ cost(busy / servers),
        "busy_distribution": np.append(probability[:servers], probability[servers:].sum()),
    }


def assert_within(estimates, exact, standard_errors=4.0, smallest_noticed=0.04):
    """Every measure agrees, and would not if it were wrong by a few per cent."""
    for name, value in exact.items():
        estimate = getattr(estimates, name)
        if name == "busy_distribution":
            continue
        if value == 0.0:
            assert estimate.value == 0.0, name
            continue
        assert abs(estimate.value - value) <= standard_errors * estimate.standard_error, name
        assert standard_errors * estimate.standard_error <= smallest_noticed * value, name


@pytest.mark.parametrize(
    ("servers", "load", "abandonment_rate", "admitted"),
    [
        (1, 0.7, 0.5, 1.0),
        (1, 3.0, 2.0, 1.0),
        (3, 3.6, 1.5, 1.0),
        (7, 8.5, 0.3, 0.8),
        (64, 80.0, 0.4, 0.9),
    ],
)
def test_markovian_queue_is_the_birth_death_chain(servers, load, abandonment_rate, admitted):
    service_rate = 1.7
    exact = markovian_measures(
        servers, load * service_rate, service_rate, abandonment_rate * service_rate, admitted
    )
    estimates = run(
        servers=servers,
        interarrival=stats.expon(scale=1 / (load * service_rate)),
        service=stats.expon(scale=1 / service_rate),
        patience=stats.expon(scale=1 / (abandonment_rate * service_rate)),
        policy=Thinned(admitted),
        customers=3_000_000,
        utilization_cost=cost,
    )
    assert_within(estimates, exact)
    assert np.max(np.abs(estimates.busy_distribution - exact["busy_distribution"])) < 0.003


def test_without_abandonment_it_is_erlang_c():
    servers, load = 5, 3.6
    terms = np.cumprod(np.concatenate([[1.0], load / np.arange(1, servers + 1)]))
    waiting_weight = terms[servers] * servers / (servers - load)
    delay = waiting_weight / (terms[:servers].sum() + waiting_weight)
    estimates = run(
        servers=servers,
        interarrival=stats.expon(scale=1 / load),
        patience=None,
        customers=4_000_000,
    )
    exact = {
        "delay_probability": delay,
        "waiting_time": delay / (servers - load),
        "queue_length": delay * load / (servers - load),
        "busy_fraction": load / servers,
        "abandonment_probability": 0.0,
        "throughput": load,
    }
    assert_within(estimates, exact)


@pytest.mark.parametrize("service", [stats.expon(), stats.lognorm(1.0, scale=np.exp(-0.5))])
def test_with_no_patience_it_is_erlang_b_whatever_the_service(service):
    servers, load = 4, 3.0
    terms = np.cumprod(np.concatenate([[1.0], load / np.arange(1, servers + 1)]))
    distribution = terms / terms.sum()
    estimates = run(
        servers=servers,
        interarrival=stats.expon(scale=1 / load),
        service=service,
        patience=stats.rv_discrete(values=([0], [1.0]))(),
        customers=1_000_000,
    )
    exact = {"abandonment_probability": distribution[-1], "waiting_time": 0.0}
    assert_within(estimates, exact)
    assert np.max(np.abs(estimates.busy_distribution - distribution)) < 0.003


PLAIN_SYSTEMS = {
    "gamma, lognormal, gamma": (
        4,
        stats.gamma(2.0, scale=0.11),
        stats.lognorm(0.8, scale=np.exp(-0.32)),
        stats.gamma(3.0, scale=0.2),
    ),
    "uniform, Weibull, uniform": (
        2,
        stats.uniform(0.1, 1.0),
        stats.weibull_min(0.7),
        stats.uniform(0.0, 2.0),
    ),
    "discrete": (
        3,
        stats.randint(0, 3),
        stats.randint(1, 6),
        stats.triang(0.3, scale=4.0),
    ),
}


@pytest.mark.parametrize("policy", [NonIdling(), Thinned(0.7), ServerIdle(0.4)], ids=str)
@pytest.mark.parametrize("system", PLAIN_SYSTEMS)
def test_agrees_with_the_plain_simulation(system, policy):
    servers, interarrival, service, patience = PLAIN_SYSTEMS[system]
    generator = np.random.default_rng(17)

    def draws(law):
        return iter(law.rvs(size=60_000, random_state=generator).tolist()).__next__

    runs = [
        simulate(
            servers,
            draws(interarrival),
            draws(service),
            draws(patience),
            customers=5_000,
            warmup=300,
            generator=generator,
            admission_probability=getattr(policy, "admission_probability", 1.0),
            idle_time=getattr(policy, "idle_time", 0.0),
            cost=cost,
        ).averages()
        for _ in range(8)
    ]
    estimates = run(
        servers=servers,
        interarrival=interarrival,
        service=service,
        patience=patience,
        policy=policy,
        customers=300_000,
        utilization_cost=cost,
    )
    for name in MEASURES:
        plain = np.array([each[name] for each in runs])
        estimate = getattr(estimates, name)
        error = np.hypot(plain.std(ddof=1) / np.sqrt(len(plain)), estimate.standard_error)
        if error == 0.0:
            assert estimate.value == plain[0] == 0.0, name
        # Eight runs: Student's t with 7 degrees of freedom has 5.4 as its 99.9 % point.
        assert abs(estimate.value - plain.mean()) <= 5.4 * error, name
        assert error <= 0.06 * estimate.value + 1e-12, name


def always(time):
    return stats.rv_discrete(values=([time], [1.0]))()


@pytest.mark.parametrize(
    ("policy", "service", "busy"), [(NonIdling(), 1.5, 1.0), (ServerIdle(0.5), 1.0, 2 / 3)]
)
def test_deterministic_queue_by_hand(policy, service, busy):
    """Of three arrivals, one is served at once, one waits 0.5, one would wait 1 and leaves."""
    estimates = run(
        servers=1,
        interarrival=always(1.0),
        service=always(service),
        patience=always(0.75),
        policy=policy,
        customers=64 * 3 * 8,
        warmup=3,
        utilization_cost=lambda fraction: 2.0 * fraction,
    )
    expected = {
        "abandonment_probability": 1 / 3,
        "delay_probability": 2 / 3,
        "waiting_time": (0.5 + 0.75) / 3,
        "served_waiting_time": 0.25,
        "queue_length": (0.5 + 0.75) / 3,
        "throughput": 2 / 3,
        "busy_fraction": busy,
        "utilization_cost": 2.0 * busy,
    }
    for name, value in expected.items():
        assert getattr(estimates, name).value == pytest.approx(value, rel=1e-12), name
        assert getattr(estimates, name).standard_error < 1e-9, name


def some_law(draw_shape):
    return st.builds(
        lambda make, mean: make(mean),
        st.sampled_from(draw_shape),
        st.floats(0.05, 20.0),
    )


LAWS = [
    lambda mean: stats.expon(scale=mean),
    lambda mean: stats.gamma(0.5, scale=2 * mean),
    lambda mean: stats.lognorm(1.0, scale=mean),
    lambda mean: stats.uniform(0.0, 2 * mean),
    lambda mean: stats.randint(0, 1 + int(np.ceil(2 * mean))),
]


@pytest.mark.filterwarnings("ignore:(customers|warmup) = :UserWarning")
@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    servers=st.integers(1, 40),
    interarrival=some_law(LAWS[:4]),
    service=some_law(LAWS),
    patience=some_law(LAWS),
    policy=st.one_of(
        st.just(NonIdling()),
        st.floats(0.05, 1.0).map(Thinned),
        st.floats(0.0, 3.0).map(ServerIdle),
    ),
    customers=st.integers(1000, 20_000),
    warmup=st.integers(0, 5_000),
    seed=st.integers(0, 2**64),
)
def test_every_arrival_is_somewhere(
    servers, interarrival, service, patience, policy, customers, warmup, seed
):
    estimates = many_server_queue(
        servers, interarrival, service, patience, policy, customers, seed, warmup
    )
    census = estimates.census
    somewhere = (
        census.rejected + census.served + census.abandoned + census.waiting + census.in_service
    )
    assert census.arrivals == somewhere == customers + warmup
    assert 0 <= census.in_service <= servers
    assert min(census.rejected, census.served, census.abandoned, census.waiting) >= 0
    if not isinstance(policy, ServerIdle) and census.waiting:
        assert census.in_service == servers
    assert estimates.busy_distribution.sum() == pytest.approx(1.0)
    assert estimates.busy_fraction.value <= 1.0 + 1e-12


@pytest.mark.parametrize("policy", [NonIdling(), Thinned(0.6), ServerIdle(0.3)], ids=str)
def test_littles_law_in_the_queue_and_in_service(policy):
    service = stats.lognorm(0.5, scale=2.0)
    estimates = run(
        servers=8,
        interarrival=stats.gamma(3.0, scale=0.06),
        service=service,
        patience=stats.gamma(2.0, scale=1.0),
        policy=policy,
        customers=2_000_000,
    )
    admitted = estimates.throughput.value + estimates.abandonment_rate.value
    waiting = admitted * estimates.waiting_time.value
    assert waiting == pytest.approx(estimates.queue_length.value, rel=1e-4)
    busy = estimates.throughput.value * service.mean()
    error = 8 * estimates.busy_fraction.standard_error
    error += estimates.throughput.standard_error * service.mean()
    assert abs(busy - 8 * estimates.busy_fraction.value) < 4 * error < 0.02 * busy


def test_same_seed_same_numbers_and_another_seed_others():
    first, again, other = run(), run(), run(seed=2)
    assert first.busy_fraction == again.busy_fraction
    assert first.waiting_time == again.waiting_time
    assert first.census == again.census
    assert first.waiting_time != other.waiting_time
    assert run(seed=2**70).waiting_time != first.waiting_time


def test_customers_keep_their_times_under_another_policy():
    """Admitting almost everybody, or resting for no time, changes nothing."""
    base = run().waiting_time
    assert run(policy=ServerIdle(0.0)).waiting_time.value == pytest.approx(base.value, rel=1e-12)
    assert run(policy=Thinned(1.0)).waiting_time == base
    assert run(policy=Thinned(1 - 1e-12)).waiting_time == base


def test_standard_errors_cover():
    """Squared errors in standard errors average to 1, or little more."""
    exact = markovian_measures(3, 1 / 0.3, 1.0, 1 / 0.7)
    exact["cost_per_server"] = (
        exact["utilization_cost"]
        + (0.8 * exact["abandonment_rate"] + 0.1 * exact["queue_length"]) / 3
    )
    costs = {"abandonment_cost": 0.8, "utilization_cost": cost, "holding_cost": 0.1}
    runs = [run(seed=seed, customers=30_000, **costs) for seed in range(300)]
    for name in (*MEASURES, "cost_per_server"):
        if exact[name] == 0.0:
            continue
        estimates = [getattr(each, name) for each in runs]
        scores = np.array([(each.value - exact[name]) / each.standard_error for each in estimates])
        # The mean of 300 such squares has a standard deviation of 0.09.
        assert 0.7 < np.mean(scores**2) < 1.3, name
        assert abs(np.mean(scores)) < 0.25, name


def test_histograms_are_the_measures_that_they_estimate():
    service = stats.gamma(2.0, scale=0.5)
    # A narrow first bin for those who do not wait at all.
    wait_edges = np.concatenate([[0.0, 1e-9], np.linspace(0.1, 8.0, 80)])
    age_edges = np.linspace(0.0, 12.0, 61)
    estimates = run(
        servers=6,
        interarrival=stats.gamma(2.0, scale=1 / 15),
        service=service,
        patience=stats.expon(scale=0.9),
        customers=3_000_000,
        wait_edges=wait_edges,
        age_edges=age_edges,
    )
    mass = {
        name: getattr(estimates, name).density * np.diff(getattr(estimates, name).edges)
        for name in ("waits", "potential_waits", "queue_ages", "service_ages")
    }
    assert mass["waits"].sum() == pytest.approx(1.0, abs=1e-5)
    assert mass["potential_waits"].sum() == pytest.approx(1.0, abs=1e-5)
    assert mass["queue_ages"].sum() == pytest.approx(estimates.queue_length.value, rel=0.015)
    assert mass["service_ages"].sum() == pytest.approx(6 * estimates.busy_fraction.value, rel=0.003)

    middle = (wait_edges[1:] + wait_edges[:-1]) / 2
    assert mass["waits"][0] == pytest.approx(1 - estimates.delay_probability.value, abs=1e-12)
    assert mass["waits"] @ middle == pytest.approx(estimates.waiting_time.value, rel=0.02)
    # Nobody has waited longer than x but those whose potential wait is: abandonments follow from
    # the ages in the queue, and exponential patience loses its customers at a constant rate.
    assert estimates.abandonment_rate.value == pytest.approx(
        mass["queue_ages"].sum() / 0.9, rel=0.015
    )
    kept = service.sf(age_edges)
    ages = (kept[1:] + kept[:-1]) / 2 * estimates.throughput.value
    error = np.abs(estimates.service_ages.density - ages)
    allowed = 5 * estimates.service_ages.standard_error + 0.01 * ages + 1e-3
    assert np.all(error < allowed)


def test_memory_does_not_depend_on_the_number_of_customers():
    run(customers=200_000)
    peaks = []
    for customers in (200_000, 2_000_000):
        tracemalloc.start()
        run(customers=customers, patience=stats.triang(0.3))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_stability_is_required_only_without_abandonment():
    with pytest.raises(UnstableSystem, match=r"3\.33333 >= 3"):
        run(patience=None)
    run(patience=None, policy=Thinned(0.8))
    run(patience=None, servers=4)
    with pytest.raises(UnstableSystem, match="idle time"):
        run(patience=None, servers=4, policy=ServerIdle(0.2))
    run(patience=stats.pareto(0.5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"servers": 0}, "servers = 0"),
        ({"servers": 2.5}, r"servers = 2\.5"),
        ({"customers": 999}, "customers = 999: must be an integer >= 1000"),
        ({"seed": -1}, "seed = -1"),
        ({"warmup": -1}, "warmup = -1"),
        ({"policy": "idle"}, "policy = 'idle': must be NonIdling"),
        ({"servers": 10**7 + 1}, "servers = 10000001: must be .* <= 10000000"),
        ({"customers": 10**12}, "customers = 1000000000000: must be .* <= 100000000000"),
        ({"warmup": 10**12}, "warmup = 1000000000000"),
        (
            {"service": stats.expon},
            "service = .*: must be a number .*, a .* sample .*, or a frozen",
        ),
        ({"patience": stats.norm(5.0)}, r"patience = norm\(5\.0\): must be a law of times >= 0"),
        ({"interarrival": stats.expon(loc=-0.1)}, r"support begins at -0\.1"),
        ({"service": stats.pareto(0.9)}, r"service = pareto\(0\.9\): must have a finite mean"),
        ({"interarrival": stats.pareto(1.0)}, "interarrival = .*: must have a finite mean"),
        ({"service": stats.gamma(-1.0)}, "must have parameters that the law allows"),
        ({"service": stats.expon(scale=0.0)}, "must have parameters that the law allows"),
        ({"service": always(0.0)}, "service = .*: must have a mean > 0, but its mean is 0"),
        ({"service": stats.expon(scale=[1.0, 2.0])}, "must be one law, not an array"),
        ({"abandonment_cost": -1.0}, r"abandonment_cost = -1\.0"),
        ({"holding_cost": np.inf}, "holding_cost = inf"),
        ({"utilization_cost": lambda b: None}, "utilization_cost: must give numbers"),
        ({"utilization_cost": lambda b: 1e200}, r"utilization_cost\(0\.0\) = 1e\+200"),
        ({"age_edges": np.arange(10**5 + 1.0)}, "(?s)age_edges = .* at most 100000"),
        ({"interarrival": 1e10}, r"interarrival: mean 1e\+10 must be .* from 1e-09 to 1e\+12"),
        ({"interarrival": 1e-13}, "interarrival: mean 1e-13 must be"),
        ({"utilization_cost": 3.0}, r"utilization_cost = 3\.0: must be a function"),
        ({"utilization_cost": lambda b: np.inf if b == 1 else b}, r"utilization_cost\(1\.0\)"),
        ({"wait_edges": [0.0]}, "wait_edges = .*: must be at least two increasing"),
        ({"age_edges": [1.0, 0.5]}, "age_edges = .*: must be at least two increasing"),
        ({"age_edges": [-1.0, 0.5]}, r"age_edges = -1\.0"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        run(**changes)


@pytest.mark.parametrize("probability", [0.0, 1.1, -0.2, np.nan])
def test_admission_probability_is_checked(probability):
    with pytest.raises(ValueError, match="admission_probability = "):
        Thinned(probability)


@pytest.mark.parametrize("idle_time", [-0.1, np.inf, np.nan])
def test_idle_time_is_checked(idle_time):
    with pytest.raises(ValueError, match="idle_time = "):
        ServerIdle(idle_time)


def silent(**changes):
    """Simulate, with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return run(**changes)


def test_short_runs_are_reported():
    with pytest.warns(UserWarning, match=r"customers = 1000: too few .* take at least 5[0-9]{3}$"):
        run(customers=1000, service=stats.expon(scale=6.0))
    with pytest.warns(UserWarning, match=r"customers = 1000: .* take at least [0-9]{4}$"):
        run(customers=1000, policy=ServerIdle(5.0))
    with pytest.warns(UserWarning, match=r"warmup = 3: too few to forget the empty start"):
        run(warmup=3)
    silent(customers=6000, service=stats.expon(scale=6.0))


SLOW_ABANDONMENT = {
    "servers": 100,
    "interarrival": stats.expon(scale=1 / 120),
    "patience": stats.expon(scale=100.0),
}


def test_slow_abandonment_is_warmed_up_and_reported():
    """The queue of 2000 takes many mean patiences to build and to forget itself."""
    with pytest.warns(UserWarning, match=r"customers = 64000: .* about 101 units .* 15[0-9]{5}$"):
        estimates = run(**SLOW_ABANDONMENT, customers=64_000)
    assert estimates.census.arrivals == 2 * 64_000
    # The fluid queue, 20 % of arrivals over the rate of abandonment; its spread is 110.
    assert abs(estimates.queue_length.value - 2000) < 110
    long_enough = silent(**SLOW_ABANDONMENT, customers=1_600_000)
    queue = long_enough.queue_length
    assert abs(queue.value - 2000) < 4 * queue.standard_error < 100


def test_laws_without_variance_are_reported():
    for name, law in (("service", stats.lomax(1.5)), ("interarrival", stats.lomax(1.5))):
        with pytest.warns(UserWarning, match=f"{name}: has no finite variance"):
            run(**{name: law}, customers=10**6)
    silent(patience=stats.lomax(0.5), customers=200_000)


def test_services_that_leave_the_wait_without_variance_are_reported():
    """Of one server the mean wait needs a fourth moment of services; spare servers help."""
    heavy = {"service": stats.lomax(2.5, scale=1.5), "customers": 10**6}
    alone = {"servers": 1, "interarrival": stats.expon(scale=1 / 0.6)}
    with pytest.warns(UserWarning, match=r"service: has so heavy a tail, of power 2\.5"):
        run(**heavy, **alone, patience=None)
    silent(**heavy, **alone)
    silent(**heavy, servers=10, patience=None)
    silent(**heavy | {"service": stats.lomax(4.5, scale=3.5)}, **alone, patience=None)
    silent(**heavy | {"service": stats.lognorm(1.0, scale=0.6)}, **alone, patience=None)


def test_correlated_batches_are_reported():
    """Only where there is noise to be correlated."""
    names = ["waiting_time", "queue_length"]
    noise = np.random.default_rng(1).normal(size=64)
    walk = np.cumsum(noise)
    measures = {
        "waiting_time": (walk, np.ones(64)),
        "throughput": (noise, np.ones(64)),
        "queue_length": (1 + 1e-6 * walk, np.ones(64)),
        "busy_fraction": (1 + 1e-14 * walk, np.ones(64)),
    }
    with pytest.warns(UserWarning, match=f"errors of {', '.join(names)}; neighbouring"):
        warn_if_correlated(5000, measures, stacklevel=1)


def relaxation(servers, arrival, service, patience, policy=NonIdling()):  # noqa: B008
    laws = {"interarrival": arrival, "service": service, "patience": patience}
    checked = {
        name: None
        if law is None
        else law_of_times(name, law, finite_mean=name != "patience", positive_mean=False)
        for name, law in laws.items()
    }
    return memory_of(
        SimpleNamespace(
            servers=servers,
            admission=policy.admission_probability,
            rest=policy.idle_time,
            **checked,
        )
    )


def gap_of_the_chain(servers, arrival_rate, abandonment_rate, states=3000):
    """Return the relaxation time of M/M/N+M from the spectrum of its generator."""
    number = np.arange(states)
    up = np.full(states - 1, arrival_rate)
    busy = np.minimum(number, servers)
    down = (busy + (number - busy) * abandonment_rate)[1:]
    leaving = np.append(up, 0.0) + np.append(0.0, down)
    spectrum = eigvalsh_tridiagonal(
        -leaving, np.sqrt(up * down), select="i", select_range=(states - 2, states - 1)
    )
    assert abs(spectrum[1]) < 1e-9 * leaving.max()
    return -1 / spectrum[0]


@pytest.mark.parametrize(
    ("servers", "arrival_rate", "abandonment_rate"),
    [
        (1, 0.8, 0.0),
        (1, 1.5, 0.1),
        (10, 9.5, 0.0),
        (10, 12.0, 0.05),
        (10, 12.0, 3.0),
        (100, 98.0, 0.0),
        (100, 100.0, 0.5),
        (100, 120.0, 0.1),
        (100, 50.0, 0.01),
    ],
)
def test_the_relaxation_time_is_about_that_of_the_chain(servers, arrival_rate, abandonment_rate):
    """Never much below, which would let a short run pass, nor far above."""
    patience = stats.expon(scale=1 / abandonment_rate) if abandonment_rate else None
    estimated = relaxation(servers, stats.expon(scale=1 / arrival_rate), stats.expon(), patience)
    exact = gap_of_the_chain(servers, arrival_rate, abandonment_rate)
    assert 0.85 < estimated.relaxation / exact < 3.0


def test_the_relaxation_time_scales():
    """Exact for a fluid queue of any size and patience; with the unit of time; never infinite."""
    for servers, mean in ((10, 1e12), (10**6, 100.0), (100, 1e4)):
        rate = 1.2 * servers
        slow = relaxation(servers, 1 / rate, stats.expon(), stats.expon(scale=mean))
        assert slow.relaxation == pytest.approx(mean + 1, rel=0.01)
        assert slow.wait == pytest.approx(mean * np.log(1.2), rel=0.02)
    here = relaxation(3, stats.expon(), stats.gamma(2.0), stats.expon())
    there = relaxation(
        3, stats.expon(scale=1e60), stats.gamma(2.0, scale=1e60), stats.expon(scale=1e60)
    )
    assert there.relaxation == pytest.approx(1e60 * here.relaxation, rel=1e-6)
    for patience in (None, 0.0, 3.0, [0.5, 7.0], stats.lomax(0.3), stats.expon(scale=1e140)):
        for service in (1.0, stats.lomax(1.1), stats.expon()):
            for arrival in (1.0, 40.0, 1e6):
                found = relaxation(40 if patience is None else 2, arrival, service, patience)
                assert 0 < found.relaxation < np.inf
                assert 0 <= found.approach < np.inf


def test_what_was_never_seen_has_an_error():
    estimates = run(servers=60, customers=64 * 300)
    assert estimates.abandonment_probability.value == estimates.delay_probability.value == 0.0
    assert estimates.abandonment_probability.standard_error == 1 / 19_200
    assert estimates.delay_probability.standard_error == 1 / 19_200
    assert estimates.abandonment_rate.standard_error == pytest.approx(1 / 5760, rel=0.05)
    assert estimates.rejection_probability.standard_error == 0.0
    assert run(servers=60, patience=None).abandonment_probability.standard_error == 0.0


def test_costs_are_nothing_unless_given():
    estimates = run()
    assert estimates.cost_per_server.value == estimates.cost_per_server.standard_error == 0.0
    assert estimates.utilization_cost is None
    free = run(utilization_cost=cost)
    assert free.cost_per_server.value == pytest.approx(free.utilization_cost.value, rel=1e-14)


def test_results_are_values():
    """They can be pickled, compared and hashed, with arrays in them."""
    edges = {"wait_edges": [0.0, 0.5, 1.0], "age_edges": [0.0, 1.0]}
    first, again, other = run(**edges), run(**edges), run(**edges, seed=2)
    copy = pickle.loads(pickle.dumps(first))
    assert first == again == copy
    assert hash(first) == hash(copy)
    assert first != other
    assert first != "another thing"
    for policy in (NonIdling(), Thinned(0.3), ServerIdle(0.1)):
        assert pickle.loads(pickle.dumps(policy)) == policy


def test_more_customers_waiting_than_there_is_room_for_are_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"patience: so long that about .* would wait at once"):
        run(patience=1e9, interarrival=0.1, customers=10**9)
    # A sample of patience whose wait the diffusion underestimates is stopped when it happens.
    monkeypatch.setattr("qcore.simulate._many_server_run.LONGEST_LINE", 20_000)
    with pytest.raises(ValueError, match=r"patience: more than .* customers wait at once"):
        run(patience=1e5, interarrival=0.1, customers=100_000)


def test_tails_and_quantiles_of_the_wait_are_erlang_c():
    """P(W > t) = C exp(−(N − a) t) with the chain's C."""
    servers, load = 5, 3.6
    terms = np.cumprod(np.concatenate([[1.0], load / np.arange(1, servers + 1)]))
    waiting_weight = terms[servers] * servers / (servers - load)
    delay = waiting_weight / (terms[:servers].sum() + waiting_weight)
    waits = run(
        servers=servers,
        interarrival=stats.expon(scale=1 / load),
        patience=None,
        customers=4_000_000,
        wait_edges=np.concatenate([[0.0, 1e-9], np.linspace(0.02, 6.0, 300)]),
    ).waits
    exact = delay * np.exp(-(servers - load) * waits.edges)
    assert waits.tail.value[0] == 1.0
    tail, error = waits.tail.value[1:], waits.tail.standard_error[1:]
    assert np.all(np.abs(tail - exact[1:]) < 4.5 * error + 1e-9)
    assert np.all(error[waits.edges[1:] < 2] < 0.04 * exact[1:][waits.edges[1:] < 2])
    for probability in (0.7, 0.9, 0.99):
        found = waits.quantile(probability)
        wanted = np.log(delay / (1 - probability)) / (servers - load)
        assert abs(found.value - wanted) < 4 * found.standard_error + 1e-4, probability
        assert found.standard_error < 0.05 * wanted
    assert waits.quantile(0.1).value < 1e-9  # nobody of these waits
    with pytest.raises(ValueError, match="must have a quantile within the edges"):
        waits.quantile(1 - 1e-9)


def test_replications_pool_the_estimates():
    arguments = {name: value for name, value in ARGUMENTS.items() if name != "seed"}
    arguments["wait_edges"] = np.linspace(0.0, 3.0, 7)
    pooled = replications(many_server_queue, arguments, 4, seed=1, workers=1, progress=False)
    alone = run(wait_edges=arguments["wait_edges"])
    assert pooled.census.arrivals == 4 * alone.census.arrivals
    assert pooled.busy_fraction.standard_error == pytest.approx(
        alone.busy_fraction.standard_error / 2, rel=0.5
    )
    assert np.array_equal(pooled.waits.edges, alone.waits.edges)


@pytest.mark.filterwarnings("ignore:(customers|warmup) = :UserWarning")
def test_averages_over_nothing_are_refused():
    with pytest.raises(ValueError, match="customers: too few"):
        run(policy=Thinned(1e-9), customers=1000)
