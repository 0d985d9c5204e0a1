"""The simulation of the loss system with deferrals: against exact solutions of small systems
(built here, by dense linear algebra), an exact identity, and a simulation in plain Python.
"""

import itertools
import pickle
import sys
import warnings
from dataclasses import FrozenInstanceError, fields

import joblib
import numpy as np
import pytest
from plain_deferrals import (
    deterministic_spacing,
    estimates,
    fixed_time,
    simulate,
    uniform_time,
)
from scipy.linalg import expm

from qcore.simulate import (
    Dsrt,
    Esrt,
    FixedReturn,
    ReturnRule,
    UniformReturn,
    deferrals,
    replications,
    sweep,
)
from qcore.simulate._heap import pop, push

MEASURES = (
    "blocking_probability",
    "blocked_on_arrival",
    "blocked_on_return",
    "deferral_probability",
    "mean_busy",
    "mean_deferred",
)


def tired_return(random, now, last_return, deferred, parameters):
    """A gamma time that grows with the number in deferral."""
    shape, mean = parameters
    return now + mean * (1 + deferred) / shape * random.standard_gamma(shape)


POLICIES = (
    Dsrt(0.4),
    Esrt(2.5),
    FixedReturn(0.4),
    UniformReturn(0.8),
    ReturnRule(tired_return, (2.0, 0.3)),
)


def assert_agrees(estimate, exact, errors=4.0):
    """The estimate is within so many standard errors, and the standard error can tell."""
    distance = np.abs(np.asarray(estimate.value) - exact)
    assert np.all(distance <= errors * np.asarray(estimate.standard_error))


# Exact solutions of small systems.


def stationary(generator):
    """Return the stationary distribution of a generator, from its null space."""
    size = len(generator)
    system = np.vstack([generator.T, np.ones(size)])
    solution, *_ = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)
    return solution


def with_diagonal(rates):
    return rates - np.diag(rates.sum(axis=1))


def measures(distribution, return_rate, lam):
    """Return the exact measures from the distribution over (d, k), and from the rate of returns
    at each configuration.
    """
    levels, states = distribution.shape
    on_arrival = distribution[-1, -1]
    on_return = return_rate[:, -1].sum() / lam
    return {
        "blocking_probability": on_arrival + on_return,
        "blocked_on_arrival": on_arrival,
        "blocked_on_return": on_return,
        "deferral_probability": distribution[:-1, -1].sum(),
        "mean_busy": (distribution.sum(axis=0) * np.arange(states)).sum(),
        "mean_deferred": (distribution.sum(axis=1) * np.arange(levels)).sum(),
        "configuration_distribution": distribution,
        "accepted_return_rate": return_rate[:, :-1].sum(axis=0),
    }


def between_returns(servers, max_deferrals, lam, mu):
    """Return the rates from (d, k) to (d', k') of arrivals and departures, as a matrix."""
    states = list(itertools.product(range(max_deferrals + 1), range(servers + 1)))
    index = {state: i for i, state in enumerate(states)}
    rates = np.zeros((len(states), len(states)))
    for (d, k), i in index.items():
        if k > 0:
            rates[i, index[d, k - 1]] = k * mu
        if k < servers:
            rates[i, index[d, k + 1]] = lam
        elif d < max_deferrals:
            rates[i, index[d + 1, k]] = lam
    return index, rates


def exact_esrt(servers, max_deferrals, lam, mu, alpha):
    index, rates = between_returns(servers, max_deferrals, lam, mu)
    for (d, k), i in index.items():
        if d > 0:
            rates[i, index[d - 1, min(k + 1, servers)]] += alpha
    shape = (max_deferrals + 1, servers + 1)
    distribution = stationary(with_diagonal(rates)).reshape(shape)
    return_rate = alpha * distribution
    return_rate[0] = 0.0
    return measures(distribution, return_rate, lam)


def exact_stages(servers, max_deferrals, lam, mu, stage):
    """Solve for returns at the ends of stages whose law ``stage(generator)`` describes.

    ``stage(generator)`` returns E exp(QX) and E ∫ exp(Qs) ds over (0, X), X the length of a stage.
    A phase of deferrals is a chain of stages, from (1, K) to d = 0; between phases, and within
    stages, the process is Markov. Renewal-reward gives the distribution.
    """
    index, rates = between_returns(servers, max_deferrals, lam, mu)
    shape = (max_deferrals + 1, servers + 1)
    at_end, during = stage(with_diagonal(rates))
    after_return = np.zeros_like(rates)
    for (d, k), i in index.items():
        if d > 0:
            after_return[i, index[d - 1, min(k + 1, servers)]] = 1.0
    inside = [i for (d, k), i in index.items() if d > 0]
    outside = [i for (d, k), i in index.items() if d == 0]
    step = at_end @ after_return
    stages = np.linalg.inv(np.eye(len(inside)) - step[np.ix_(inside, inside)])
    visits = np.zeros(len(rates))
    visits[inside] = stages[inside.index(index[1, servers])]
    ends = (visits @ step)[outside]

    plain = rates[np.ix_(outside, outside)]
    plain[-1] += lam * ends
    plain[-1, -1] = 0.0
    leaves_phase_busy = lam * ends[-1]
    plain = plain - np.diag(plain.sum(axis=1))
    assert np.isclose(plain[-1, -1], -(servers * mu + lam - leaves_phase_busy))
    unnormalised = np.zeros(len(rates))
    unnormalised[outside] = stationary(plain)
    phase_rate = lam * unnormalised[outside[-1]]
    unnormalised += phase_rate * (visits @ during)
    total = unnormalised.sum()
    return_rate = phase_rate * (visits @ at_end) / total
    return measures((unnormalised / total).reshape(shape), return_rate.reshape(shape), lam)


def fixed_stage(length):
    def stage(generator):
        size = len(generator)
        block = np.block([[generator, np.eye(size)], [np.zeros((size, 2 * size))]])
        exponential = expm(length * block)
        return exponential[:size, :size], exponential[:size, size:]

    return stage


def uniform_stage(longest):
    def stage(generator):
        size = len(generator)
        zero, one = np.zeros((size, size)), np.eye(size)
        block = np.block([[generator, one, zero], [zero, zero, one], [zero, zero, zero]])
        exponential = expm(longest * block)
        once, twice = exponential[:size, size : 2 * size], exponential[:size, 2 * size :]
        return once / longest, twice / longest

    return stage


EXACT = (
    (1, 1, 1.1, Dsrt(0.7), lambda *system: exact_stages(*system, fixed_stage(0.7))),
    (2, 3, 2.4, Dsrt(0.4), lambda *system: exact_stages(*system, fixed_stage(0.4))),
    (5, 2, 5.2, Dsrt(0.1), lambda *system: exact_stages(*system, fixed_stage(0.1))),
    (3, 4, 3.5, Esrt(2.0), lambda *system: exact_esrt(*system, 2.0)),
    (8, 2, 6.0, Esrt(5.0), lambda *system: exact_esrt(*system, 5.0)),
    (3, 1, 3.2, FixedReturn(0.5), lambda *system: exact_stages(*system, fixed_stage(0.5))),
    (3, 1, 3.2, UniformReturn(1.5), lambda *system: exact_stages(*system, uniform_stage(1.5))),
)


@pytest.mark.parametrize(("servers", "max_deferrals", "lam", "policy", "solve"), EXACT)
def test_every_estimate_agrees_with_the_exact_solution(servers, max_deferrals, lam, policy, solve):
    exact = solve(servers, max_deferrals, lam, 1.3)
    simulated = deferrals(
        servers, max_deferrals, lam, 1.3, policy, 1_000_000, seed=7, configurations=True
    )
    for name, value in exact.items():
        assert_agrees(getattr(simulated, name), value)
    blocking = simulated.blocking_probability
    assert blocking.standard_error < 0.015 * blocking.value
    assert np.isclose(exact["mean_busy"], lam * (1 - exact["blocking_probability"]) / 1.3)


@pytest.mark.parametrize("spacing", [0.05, 0.9, 6.0])
def test_one_server_one_deferral_agrees_with_the_closed_form(spacing):
    lam, mu = 0.8, 1.0
    total = lam + mu
    gain = mu**2 * -np.expm1(-total * spacing) / (total * (total + lam**2 * spacing))
    exact = lam / total * (1 - gain)
    simulated = deferrals(1, 1, lam, mu, Dsrt(spacing), 2_000_000, seed=3)
    assert_agrees(simulated.blocking_probability, exact)


def test_no_deferrals_is_the_erlang_loss_system():
    weights = np.cumprod([1.0, *(4.0 / np.arange(1, 6))])
    simulated = deferrals(5, 0, 4.0, 1.0, Dsrt(1.0), 1_000_000, seed=1)
    assert_agrees(simulated.blocking_probability, weights[-1] / weights.sum())
    assert simulated.deferral_probability.value == simulated.mean_deferred.value == 0.0


# Policies without an exact solution.


@pytest.mark.parametrize("policy", POLICIES)
def test_accepted_returns_account_for_the_gain_over_erlang_b(policy):
    """P_B = B − Σ (rate of accepted returns that find k busy)(1 − ψ_k)/λ, exactly, for any policy
    that defers only when all servers are busy.
    """
    servers, lam = 4, 3.7
    weights = np.cumprod([1.0, *(lam / np.arange(1, servers + 1))])
    loss = weights[-1] / weights.sum()
    psi = loss * np.cumsum(weights) / weights
    simulated = deferrals(servers, 3, lam, 1.0, policy, 2_000_000, seed=11, configurations=True)
    accepted = simulated.accepted_return_rate
    predicted = loss - accepted.value @ (1 - psi[:-1]) / lam
    error = accepted.standard_error @ (1 - psi[:-1]) / lam
    gain = loss - predicted
    blocking = simulated.blocking_probability
    assert abs(blocking.value - predicted) < 3 * (blocking.standard_error + error)
    assert gain > 10 * (blocking.standard_error + error)


PLAIN = (
    (Dsrt(0.3), {"return_time": deterministic_spacing(0.3)}),
    (Esrt(2.0), {"clock": 2.0}),
    (FixedReturn(0.8), {"return_time": fixed_time(0.8)}),
    (UniformReturn(1.5), {"return_time": uniform_time(1.5)}),
)


@pytest.mark.parametrize(("policy", "rule"), PLAIN)
def test_the_plain_simulation_agrees(policy, rule):
    system = (3, 3, 2.5, 0.9)
    plain = estimates(
        [simulate(*system, customers=3000, seed=seed, warmup=100, **rule) for seed in range(20)]
    )
    fast = deferrals(*system, policy, 1_000_000, seed=5)
    for name, (value, error) in plain.items():
        estimate = getattr(fast, name)
        assert abs(estimate.value - value) < 3.5 * np.hypot(error, estimate.standard_error)
        assert error < 0.1 * value


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("servers", "max_deferrals"), [(1, 1), (3, 40), (7, 2)])
def test_no_customer_is_lost_sight_of(policy, servers, max_deferrals):
    census = deferrals(servers, max_deferrals, 9.0, 1.0, policy, 20_000, seed=2).census
    gone = census.served + census.lost_on_arrival + census.lost_on_return
    assert census.arrivals == gone + census.in_service + census.in_deferral == 22_000
    assert 0 <= census.in_service <= servers
    assert 0 <= census.in_deferral <= max_deferrals


@pytest.mark.parametrize("rule", [rule for _, rule in PLAIN])
def test_the_plain_simulation_loses_sight_of_no_customer(rule):
    counts = simulate(2, 3, 3.0, 1.0, customers=2000, seed=1, **rule)
    gone = counts["served"] + counts["lost on arrival"] + counts["lost on return"]
    assert counts["arrived"] == gone + counts["busy"] + counts["in deferral"] == 2000


def test_a_rule_of_the_readers_own_reproduces_the_built_in_policy():
    def spaced(random, now, last_return, deferred, parameters):
        return max(now, last_return) + parameters[0]

    arguments = (4, 3, 4.0, 1.0)
    own = deferrals(*arguments, ReturnRule(spaced, (0.2,)), 50_000, seed=4)
    assert own == deferrals(*arguments, Dsrt(0.2), 50_000, seed=4)


def test_more_are_deferred_than_the_first_block_of_memory_holds():
    system = (2, 100, 5.0, 1.0)
    runs = [simulate(*system, 2000, seed, uniform_time(30.0), warmup=400) for seed in range(20)]
    plain = estimates(runs)
    fast = deferrals(*system, UniformReturn(30.0), 200_000, seed=1)
    assert 30 < fast.mean_deferred.value < 90
    for name in ("blocking_probability", "mean_busy"):
        value, error = plain[name]
        estimate = getattr(fast, name)
        assert abs(estimate.value - value) < 3.5 * np.hypot(error, estimate.standard_error)


def test_the_heap_gives_back_times_in_order():
    times = np.random.default_rng(1).uniform(size=200).round(2)
    heap = np.empty(len(times))
    for size, time in enumerate(times):
        push(heap, size, time)
        assert heap[0] == min(times[: size + 1])
    popped = []
    for size in range(len(times), 0, -1):
        popped.append(heap[0])
        pop(heap, size)
    assert popped == sorted(times)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_time_does_not_matter(unit):
    here = deferrals(3, 2, 3.0, 1.0, Dsrt(0.25), 100_000, seed=9)
    there = deferrals(3, 2, 3.0 / unit, 1.0 / unit, Dsrt(0.25 * unit), 100_000, seed=9)
    for name in MEASURES:
        assert np.isclose(getattr(here, name).value, getattr(there, name).value, rtol=1e-3)


# Standard errors.


COVERAGE = (
    (1, 1, 1.1, Dsrt(0.8), 10_000, lambda *system: exact_stages(*system, fixed_stage(0.8))),
    (10, 2, 10.3, Esrt(4.0), 20_000, lambda *system: exact_esrt(*system, 4.0)),
    (100, 2, 101.0, Esrt(20.0), 30_000, lambda *system: exact_esrt(*system, 20.0)),
)


@pytest.mark.parametrize(
    ("servers", "max_deferrals", "lam", "policy", "customers", "solve"), COVERAGE
)
def test_intervals_of_95_percent_cover_95_percent(
    servers, max_deferrals, lam, policy, customers, solve
):
    exact = solve(servers, max_deferrals, lam, 1.0)
    runs = [
        deferrals(servers, max_deferrals, lam, 1.0, policy, customers, seed) for seed in range(1000)
    ]
    for name in MEASURES:
        errors = np.array(
            [
                (getattr(run, name).value - exact[name]) / getattr(run, name).standard_error
                for run in runs
            ]
        )
        covered = np.mean(np.abs(errors) < 1.96)
        assert 0.93 <= covered <= 0.97, (name, covered)
        assert abs(np.mean(errors)) < 0.13, (name, np.mean(errors))


def test_what_was_never_seen_has_a_standard_error_all_the_same():
    simulated = deferrals(50, 1, 1.0, 1.0, Dsrt(1.0), 10_000, seed=1)
    assert simulated.blocking_probability.value == 0.0
    assert simulated.blocking_probability.standard_error == 1e-4


def test_what_was_always_seen_has_a_standard_error_all_the_same():
    simulated = deferrals(2, 3, 1e6, 1.0, Dsrt(1e-6), 10_000, seed=1)
    assert 0.99 < simulated.blocking_probability.value <= 1.0
    assert simulated.blocking_probability.standard_error >= 1e-4


def silent(*arguments, **options):
    """Simulate, with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return deferrals(*arguments, **options, seed=1)


def test_a_run_too_short_to_be_trusted_says_so():
    with pytest.warns(UserWarning, match=r"customers = 5000: .* at least 12800"):
        deferrals(200, 1, 100.0, 1.0, Dsrt(1.0), 5000, seed=1)
    silent(200, 1, 100.0, 1.0, Dsrt(1.0), 20_000)
    with pytest.warns(UserWarning, match=r"warmup = 10: too few to forget the empty start"):
        deferrals(200, 1, 100.0, 1.0, Dsrt(1.0), 20_000, seed=1, warmup=10)


def test_long_deferrals_are_part_of_the_memory():
    with pytest.warns(UserWarning, match=r"customers = 20000: .* at least 256128$"):
        deferrals(1, 1, 1.0, 1.0, FixedReturn(2000.0), 20_000, seed=1)
    # Returns about as often as deferrals: their number walks at random between 0 and 100.
    with pytest.warns(UserWarning, match=r"customers = 30000: too few .* correlated over about"):
        deferrals(5, 100, 7.0, 1.0, Esrt(4.2), 30_000, seed=1)
    silent(5, 100, 7.0, 1.0, Esrt(100.0), 30_000)


def test_a_rule_is_judged_by_its_batches():
    """The deferral times of the reader's own rule are unknown, but their traces are seen."""

    def late(random, now, last_return, deferred, parameters):
        return now + parameters[0]

    system = (1, 5000, 3.0, 1.0)
    with pytest.warns(UserWarning, match=r"of .*mean_deferred; neighbouring batches"):
        deferrals(*system, ReturnRule(late, (300.0,)), 10_000, seed=1)


# Seeds, sweeps, clusters.


SYSTEM = {
    "servers": 3,
    "max_deferrals": 2,
    "arrival_rate": 3.0,
    "service_rate": 1.0,
    "customers": 5000,
}
RUNS = [dict(SYSTEM, policy=policy) for policy in POLICIES[:4]]


def test_the_same_seed_gives_the_same_numbers():
    first, again, other = (deferrals(**RUNS[0], seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_any_number_of_workers_gives_the_same_numbers(capfd):
    alone = sweep(deferrals, RUNS, seed=8, workers=1, progress=False)
    assert capfd.readouterr().err == ""
    assert sweep(deferrals, RUNS, seed=8, workers=2) == alone
    assert "4/4" in capfd.readouterr().err
    assert len({run.mean_busy.value for run in alone}) == len(RUNS)
    assert sweep(deferrals, RUNS, seed=9, workers=1, progress=False) != alone


def test_a_dask_cluster_gives_the_same_numbers():
    distributed = pytest.importorskip("distributed")
    alone = sweep(deferrals, RUNS, seed=8, workers=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster),
            joblib.parallel_config(backend="dask"),
        ):
            assert sweep(deferrals, RUNS, seed=8, progress=False) == alone


def test_all_cores_are_used_unless_told_otherwise(monkeypatch):
    asked = []

    class Recorder(joblib.Parallel):
        def __init__(self, n_jobs, **options):
            asked.append(n_jobs)
            super().__init__(n_jobs=1, **options)

    monkeypatch.setattr(joblib, "Parallel", Recorder)
    sweep(deferrals, RUNS, seed=8, progress=False)
    replications(deferrals, RUNS[0], 2, seed=8, progress=False)
    sweep(deferrals, RUNS, seed=8, workers=2, progress=False)
    assert asked == [-1, -1, 2]


def test_a_bare_installation_runs_one_after_the_other(monkeypatch, capfd):
    alone = sweep(deferrals, RUNS, seed=8, workers=1, progress=False)
    monkeypatch.setitem(sys.modules, "joblib", None)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert sweep(deferrals, RUNS, seed=8) == alone
    assert sweep(deferrals, RUNS, seed=8, workers=1) == alone
    assert capfd.readouterr().err == ""
    with pytest.raises(ModuleNotFoundError, match=r"workers = 2: .* pip install joblib tqdm"):
        sweep(deferrals, RUNS, seed=8, workers=2)


def test_results_and_policies_are_values():
    """They can be pickled, compared and hashed, with arrays in them."""
    first, again, other = (
        deferrals(**RUNS[0], seed=seed, configurations=True) for seed in (1, 1, 2)
    )
    copy = pickle.loads(pickle.dumps(first))
    assert first == again == copy
    assert hash(first) == hash(copy)
    assert first != other
    for policy in POLICIES[:4]:
        assert pickle.loads(pickle.dumps(policy)) == policy
    own = pickle.loads(pickle.dumps(POLICIES[4]))
    assert deferrals(**SYSTEM, policy=own, seed=1) == deferrals(
        **SYSTEM, policy=POLICIES[4], seed=1
    )


def test_pooled_replications_are_the_mean_of_the_runs():
    pooled = replications(deferrals, RUNS[0], 6, seed=8, workers=1, progress=False)
    runs = sweep(deferrals, [RUNS[0]] * 6, seed=8, workers=1, progress=False)
    values = [run.mean_busy.value for run in runs]
    errors = np.array([run.mean_busy.standard_error for run in runs])
    assert np.isclose(pooled.mean_busy.value, np.mean(values), rtol=1e-14)
    assert np.isclose(pooled.mean_busy.standard_error, np.sqrt(np.sum(errors**2)) / 6)
    assert pooled.census.arrivals == 6 * 5500
    assert pooled.configuration_distribution is None
    assert type(pooled.mean_busy.value) is type(pooled.mean_busy.standard_error) is float


def test_pooled_replications_cover_too():
    arguments = dict(SYSTEM, policy=Esrt(2.0), configurations=True)
    exact = exact_esrt(3, 2, 3.0, 1.0, 2.0)
    pooled = replications(deferrals, arguments, 40, seed=1, workers=1, progress=False)
    for name in (*MEASURES, "configuration_distribution", "accepted_return_rate"):
        assert_agrees(getattr(pooled, name), exact[name])


# Arguments.


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("servers", 0),
        ("servers", 2.0),
        ("servers", -1),
        ("max_deferrals", -1),
        ("max_deferrals", 1.5),
        ("arrival_rate", 0.0),
        ("arrival_rate", np.inf),
        ("arrival_rate", np.nan),
        ("arrival_rate", "fast"),
        ("arrival_rate", 1e308),
        ("arrival_rate", 5e-324),
        ("service_rate", 1e308),
        ("service_rate", 5e-324),
        ("customers", 10**12),
        ("warmup", 10**12),
        ("max_deferrals", 2**70),
        ("configurations", 1),
        ("service_rate", -1.0),
        ("service_rate", [1.0, 2.0]),
        ("policy", "dsrt"),
        ("policy", Dsrt),
        ("customers", 999),
        ("customers", 1e6),
        ("seed", -1),
        ("seed", None),
        ("warmup", -1),
    ],
)
def test_bad_arguments_are_named(name, value):
    with pytest.raises(ValueError, match=rf"^{name} = "):
        deferrals(**{**RUNS[0], "seed": 1, name: value})


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (Dsrt, "spacing"),
        (Esrt, "rearrival_rate"),
        (FixedReturn, "deferral_time"),
        (UniformReturn, "max_deferral_time"),
    ],
)
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan, "soon", 1e308, 5e-324])
def test_bad_policies_are_named(policy, name, value):
    with pytest.raises(ValueError, match=rf"^{name} = "):
        policy(value)


def test_bad_rules_are_refused():
    with pytest.raises(ValueError, match=r"return_time = 1\.0: must be a function"):
        ReturnRule(1.0)
    with pytest.raises(ValueError, match="parameters = 'a'"):
        ReturnRule(tired_return, ("a",))

    with pytest.raises(ValueError, match=r"return_time = .*Dsrt.*: must be a function"):
        ReturnRule(Dsrt)
    for wrong in (b"1", "12", {1.0}):
        with pytest.raises(ValueError, match=r"^parameters = .*: must be a tuple"):
            ReturnRule(tired_return, wrong)
    with pytest.raises(ValueError, match=r"parameters = 1\.0: must be a tuple"):
        ReturnRule(tired_return, 1.0)

    def past(random, now, last_return, deferred, parameters):
        return now - 1.0

    with pytest.raises(ValueError, match="return_time gave a time before now"):
        deferrals(1, 1, 1.0, 1.0, ReturnRule(past), 1000, seed=1)


def test_bad_sweeps_are_refused():
    with pytest.raises(ValueError, match="arguments = \\[\\]"):
        sweep(deferrals, [], seed=1)
    with pytest.raises(ValueError, match="arguments = 3: must be a sequence of dicts"):
        sweep(deferrals, 3, seed=1)
    with pytest.raises(ValueError, match=r"arguments\[1\] = 'a': must be a dict"):
        sweep(deferrals, [RUNS[0], "a"], seed=1)
    with pytest.raises(ValueError, match=r"arguments\[0\]: must not hold a seed"):
        sweep(deferrals, [dict(RUNS[0], seed=1)], seed=1)
    with pytest.raises(ValueError, match="function = 'deferrals': must be a function"):
        sweep("deferrals", RUNS, seed=1)
    with pytest.raises(ValueError, match="progress = 1"):
        sweep(deferrals, RUNS, seed=1, progress=1)
    with pytest.raises(ValueError, match="configurations = True: there are 4000004000001 of"):
        deferrals(2_000_000, 2_000_000, 1.0, 1.0, Dsrt(1.0), 1000, seed=1, configurations=True)
    with pytest.raises(ValueError, match="workers = 0"):
        sweep(deferrals, RUNS, seed=1, workers=0)
    with pytest.raises(ValueError, match="runs = 0"):
        replications(deferrals, RUNS[0], 0, seed=1)
    with pytest.raises(ValueError, match="seed = -1"):
        sweep(deferrals, RUNS, seed=-1)


def test_results_and_policies_are_frozen():
    result = deferrals(**RUNS[0], seed=1)
    for frozen in (result, result.census, result.mean_busy, *POLICIES):
        with pytest.raises(FrozenInstanceError):
            setattr(frozen, fields(frozen)[0].name, 1.0)
