"""Exact M/M/N+M costs against dense brute force, 50-digit sums, limits and bounds."""

import inspect
import itertools
import math
import pickle
import re

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcore.idling import FluidControlProblem, decision_process, markov
from qcore.idling._queue import Queue


def square(b):
    return b * b


COSTS = {"abandonment_cost": 1.0, "utilization_cost": square}


# A plain second route: states in a dictionary, a dense generator, its null space


def dense_average(links, costs):
    """Average cost of a chain given as {(source, target): rate}, by least squares."""
    states = sorted({state for link in links for state in link})
    place = {state: k for k, state in enumerate(states)}
    generator = np.zeros((len(states), len(states)))
    for (source, target), rate in links.items():
        generator[place[source], place[target]] += rate
        generator[place[source], place[source]] -= rate
    system = np.vstack((generator.T, np.ones(len(states))))
    right = np.zeros(len(states) + 1)
    right[-1] = 1
    distribution = np.linalg.lstsq(system, right, rcond=None)[0]
    return float(sum(distribution[place[s]] * costs(*s) for s in states))


def dense_policy_cost(n, lam, mu, theta, longest, entering, admission, a, g, h=0.0):
    links = {}
    extra = {}

    def add(source, target, rate):
        links[source, target] = links.get((source, target), 0.0) + rate

    for i, j in itertools.product(range(n + 1), range(longest + 1)):
        p = admission[i][j]
        k = entering[i][j + 1]
        place, left = i + k, j + 1 - k
        lost = lam * (1 - p)
        if left > longest:
            left, lost = longest, lam
        add((i, j), (place, left), lam * p)
        if i:
            k = entering[i - 1][j]
            add((i, j), (i - 1 + k, j - k), i * mu)
        if j:
            add((i, j), (i, j - 1), j * theta)
        extra[i, j] = lost
    return dense_average(links, lambda i, j: g(i / n) + (a * (theta * j + extra[i, j]) + h * j) / n)


def random_policy(n, longest, random):
    return [
        [int(random.integers(0, min(j, n - i) + 1)) for j in range(longest + 2)]
        for i in range(n + 1)
    ]


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_any_policy_against_the_dense_generator(n, longest, seed):
    random = np.random.default_rng(seed)
    lam, mu, theta, a, h = random.uniform(0.2, 3, size=5)
    entering = random_policy(n, longest, random)
    admission = random.uniform(0.1, 1, size=(n + 1, longest + 1))
    result = markov.policy_cost(
        n, n * lam, mu, theta, np.array(entering), admission=admission, max_waiting=longest,
        abandonment_cost=a, utilization_cost=square, holding_cost=h,
    )  # fmt: skip
    expected = dense_policy_cost(n, n * lam, mu, theta, longest, entering, admission, a, square, h)
    assert result.cost == pytest.approx(expected, rel=1e-11)
    total = result.busy_fraction * mu + result.abandonment_rate + result.rejection_rate
    assert total == pytest.approx(lam, rel=1e-11)


def every_policy(n, longest):
    choices = [range(min(j, n - i) + 1) for i in range(n + 1) for j in range(longest + 2)]
    for flat in itertools.product(*choices):
        yield np.reshape(flat, (n + 1, longest + 2)).tolist()


@pytest.mark.parametrize(
    ("lam", "mu", "theta", "a", "h"),
    [
        (2.4, 1.0, 1.0, 1.0, 0.0),
        (1.0, 1.0, 5.0, 1.3, 0.0),
        (1.5, 0.7, 0.3, 2.0, 0.2),
        (4.0, 1.0, 2.0, 0.6, 0.0),
    ],
)
def test_the_optimum_is_the_best_of_all_policies(lam, mu, theta, a, h):
    admit = [[1.0] * 3] * 3
    best = min(
        dense_policy_cost(2, lam, mu, theta, 2, entering, admit, a, square, h)
        for entering in every_policy(2, 2)
    )
    optimum = markov.optimal_policy(
        2, lam, mu, theta, abandonment_cost=a, utilization_cost=square, holding_cost=h,
        max_waiting=2,
    )  # fmt: skip
    assert optimum.cost == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize(
    ("lam", "theta", "a", "h"), [(2.0, 0.5, 1.2, 0.8), (3.0, 1.0, 0.7, 3.0), (2.0, 1.0, 0.3, 0.0)]
)
def test_the_optimum_with_rejection_is_the_best_of_all(lam, theta, a, h):
    best = min(
        dense_policy_cost(2, lam, 1.0, theta, 1, entering, np.reshape(admit, (3, 2)), a, square, h)
        for entering in every_policy(2, 1)
        for admit in itertools.product((0.0, 1.0), repeat=6)
        if admit[0]  # rejecting at (0, 0) makes the empty system absorbing
    )
    costs = {"abandonment_cost": a, "utilization_cost": square, "holding_cost": h, "max_waiting": 1}
    optimum = markov.optimal_policy(2, lam, 1.0, theta, rejection=True, **costs)
    never_serving = a * lam / 2
    assert optimum.cost == pytest.approx(min(best, never_serving), rel=1e-12)
    assert optimum.cost <= markov.optimal_policy(2, lam, 1.0, theta, **costs).cost + 1e-14


# Erlang A


def reference_erlang_a(n, working, rate, mu, theta, g):
    """E[B], E[Q] and E[g(B/n)] by a plain sum in 50 digits."""
    with mpmath.workdps(50):
        weight, total, busy, queue, used = (mpmath.mpf(k) for k in (1, 1, 0, 0, 0))
        used = mpmath.mpf(g(0))
        x, tiny = 0, mpmath.mpf(10) ** -45
        while x <= working or weight * x > min(total, queue) * tiny:
            x += 1
            down = min(x, working) * mpmath.mpf(mu) + max(x - working, 0) * mpmath.mpf(theta)
            weight *= mpmath.mpf(rate) / down
            total += weight
            busy += weight * min(x, working)
            queue += weight * max(x - working, 0)
            used += weight * g(mpmath.mpf(min(x, working)) / n)
        return float(busy / total), float(queue / total), float(used / total)


@pytest.mark.parametrize("servers", [1, 2, 7, 100, 486])
@pytest.mark.parametrize("load", [1e-3, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("theta", [0.05, 1.0, 40.0])
def test_thinned_against_fifty_digits(servers, load, theta):
    rate = servers * load * 1.3
    result = markov.thinned(servers, rate, 1.3, theta, 0.8, holding_cost=0.5, **COSTS)
    busy, queue, used = reference_erlang_a(servers, servers, rate * 0.8, 1.3, theta, square)
    assert result.busy_fraction == pytest.approx(busy / servers, rel=3e-14)
    assert result.queue_length == pytest.approx(queue / servers, rel=1e-13, abs=1e-300)
    assert result.utilization_cost == pytest.approx(used, rel=3e-14)
    assert result.rejection_rate == pytest.approx(0.2 * rate / servers, rel=1e-14)
    lost = theta * queue + 0.2 * rate
    assert result.cost == pytest.approx(used + (lost + 0.5 * queue) / servers, rel=3e-14)


@pytest.mark.parametrize("working", [0, 1, 13, 20])
def test_fewer_servers_against_fifty_digits(working):
    result = markov.fewer_servers(20, 24.0, 1.0, 0.4, working, **COSTS)
    busy, queue, used = reference_erlang_a(20, working, 24.0, 1.0, 0.4, square)
    assert result.busy_fraction == pytest.approx(busy / 20, rel=1e-13)
    assert result.abandonment_rate == pytest.approx(0.4 * queue / 20, rel=1e-13)
    assert result.utilization_cost == pytest.approx(used, rel=1e-13)


def test_special_patience_gives_poisson_and_erlang_b():
    # θ = μ: the number in the system is Poisson.
    with mpmath.workdps(30):
        mean = mpmath.mpf(9)
        pmf = [mpmath.exp(-mean) * mean**k / mpmath.factorial(k) for k in range(120)]
        busy = float(sum(p * min(k, 10) for k, p in enumerate(pmf)))
        inverse = sum(mpmath.ff(10, k) / mean**k for k in range(11))
        loss = float(1 / inverse)
    assert markov.non_idling(10, 9.0, 1.0, 1.0, **COSTS).busy_fraction == pytest.approx(busy / 10)
    # θ → ∞: nobody waits, Erlang B.
    impatient = markov.non_idling(10, 9.0, 1.0, 1e9, **COSTS)
    assert impatient.busy_fraction == pytest.approx(0.9 * (1 - loss), rel=1e-8)
    assert impatient.abandonment_rate == pytest.approx(0.9 * loss, rel=1e-8)


@pytest.mark.parametrize("servers", [3, 30])
def test_the_chain_gives_the_same_as_the_birth_death_formulas(servers):
    lam, working = 1.1 * servers, servers // 2

    def limited(busy, waiting):
        return min(waiting, max(working - busy, 0))

    def all_servers(busy, waiting):
        return min(waiting, servers - busy)

    cases = [
        (limited, None, markov.fewer_servers(servers, lam, 1.0, 0.7, working, **COSTS)),
        (all_servers, None, markov.non_idling(servers, lam, 1.0, 0.7, **COSTS)),
        (all_servers, lambda i, j: 0.4, markov.thinned(servers, lam, 1.0, 0.7, 0.4, **COSTS)),
    ]
    for entering, admission, expected in cases:
        found = markov.policy_cost(servers, lam, 1.0, 0.7, entering, admission=admission, **COSTS)
        for name in ("cost", "busy_fraction", "abandonment_rate", "rejection_rate"):
            assert getattr(found, name) == pytest.approx(
                getattr(expected, name), rel=1e-12, abs=1e-14
            )


def test_serving_nobody_gives_the_longest_queue():
    nobody = markov.policy_cost(5, 6.0, 1.0, 0.5, lambda busy, waiting: 0, **COSTS)
    assert nobody.queue_length == pytest.approx(12 / 5, rel=1e-13)
    assert nobody.cost == pytest.approx(6 / 5, rel=1e-13)


# Resting servers


def dense_resting(n, lam, mu, theta, tau, longest):
    """Busy, resting, waiting as a dictionary; only the average of the busy square is returned."""
    links = {}
    seen, todo = set(), [(0, 0, 0)]

    def go(state, target, rate):
        links[state, target] = links.get((state, target), 0.0) + rate
        todo.append(target)

    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        busy, rest, wait = state
        if busy + rest < n:
            go(state, (busy + 1, rest, 0), lam)
        elif wait < longest:
            go(state, (busy, rest, wait + 1), lam)
        if busy:
            go(state, (busy - 1, rest + 1, wait), busy * mu)
        if rest:
            target = (busy + 1, rest - 1, wait - 1) if wait else (busy, rest - 1, 0)
            go(state, target, rest / tau)
        if wait:
            go(state, (busy, rest, wait - 1), wait * theta)
    mean = dense_average(links, lambda b, r, w: b / n)
    return mean, dense_average(links, lambda b, r, w: (b / n) ** 2)


@pytest.mark.parametrize(("lam", "tau"), [(1.5, 0.5), (3.0, 1.7), (0.4, 3.0)])
def test_exponential_idling_against_the_dense_generator(lam, tau):
    result = markov.exponential_idling(3, lam, 0.9, 1.4, tau, max_waiting=6, **COSTS)
    busy, used = dense_resting(3, lam, 0.9, 1.4, tau, 6)
    assert result.busy_fraction == pytest.approx(busy, rel=1e-11)
    assert result.utilization_cost == pytest.approx(used, rel=1e-11)
    assert result.cost == pytest.approx(used + lam / 3 - 0.9 * busy, rel=1e-11)


def test_resting_servers_in_heavy_overload_are_independent():
    # B is binomial: E[(B/N)²] = b² + b(1 - b)/N.
    result = markov.exponential_idling(12, 60.0, 1.0, 1.0, 1.5, **COSTS)
    assert result.busy_fraction == pytest.approx(0.4, rel=1e-9)
    assert result.utilization_cost == pytest.approx(0.16 + 0.24 / 12, rel=1e-9)


# Bounds, gaps and the optimum


@given(st.integers(1, 8), st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=25)
def test_no_policy_beats_the_bounds_or_the_optimum(n, seed):
    random = np.random.default_rng(seed)
    load, mu, theta = random.uniform(0.2, 2.5), random.uniform(0.5, 2), random.uniform(0.3, 3)
    power, a = random.uniform(1.1, 4), random.uniform(0.2, 3)
    costs = {"abandonment_cost": a, "utilization_cost": lambda b: b**power}
    system = (n, load * n * mu, mu, theta)
    fluid = markov.lower_bound(*system[:3], **costs)
    whole = markov.lower_bound(*system[:3], whole_servers=True, **costs)
    best = markov.optimal_policy(*system, **costs)
    with_rejection = markov.optimal_policy(*system, rejection=True, **costs)
    slack = 1e-12 * (1 + fluid)
    assert fluid <= whole + slack
    assert whole <= with_rejection.cost + slack
    assert with_rejection.cost <= best.cost + slack
    entering = np.array(random_policy(n, best.max_waiting, random))
    others = [
        markov.non_idling(*system, **costs),
        markov.policy_cost(*system, entering, **costs),
        *(markov.fewer_servers(*system, m, **costs) for m in range(n + 1)),
    ]
    assert all(best.cost <= other.cost + slack for other in others)
    thinned = markov.thinned(*system, random.uniform(0.05, 1), **costs)
    assert with_rejection.cost <= thinned.cost + slack
    resting = markov.exponential_idling(*system, random.uniform(0.1, 3), **costs)
    assert whole <= resting.cost + slack  # outside the class, but not below the bound


@pytest.mark.parametrize(("rejection", "h"), [(False, 0.0), (False, 0.3), (True, 0.3)])
def test_the_reported_optimum_is_consistent(rejection, h):
    costs = {"abandonment_cost": 1.4, "utilization_cost": square, "holding_cost": h}
    best = markov.optimal_policy(30, 21.0, 1.0, 0.5, rejection=rejection, **costs)
    assert best.iterations > 0
    assert best.averages.cost == pytest.approx(best.cost, rel=1e-12)
    assert best.suboptimality < 1e-11
    assert best.truncation_probability < 1e-16
    admission = None if best.rejecting is None else 1.0 - best.rejecting
    again = markov.policy_cost(30, 21.0, 1.0, 0.5, best.entering, admission=admission, **costs)
    assert again.cost == pytest.approx(best.cost, rel=1e-12)
    longer = markov.optimal_policy(
        30, 21.0, 1.0, 0.5, rejection=rejection, max_waiting=2 * best.max_waiting, **costs
    )
    assert longer.cost == pytest.approx(best.cost, rel=1e-12)


def test_a_frequent_state_is_found_where_the_first_guess_is_never_visited():
    # The first guess for the reference state, (35, 0), is left for good by the second policy.
    costs = {"abandonment_cost": 1.4, "utilization_cost": square}
    best = markov.optimal_policy(50, 35.0, 1.0, 0.2, **costs)
    fewer = min(markov.fewer_servers(50, 35.0, 1.0, 0.2, m, **costs).cost for m in range(51))
    assert best.iterations > 1
    assert best.averages.cost == pytest.approx(best.cost, rel=1e-12)
    assert best.cost < fewer - 1e-5


@pytest.mark.parametrize(("power", "a"), [(2, 1.0), (3, 1.1), (1.5, 0.9)])
def test_the_gap_of_thinning_is_half_the_curvature_times_b_over_n(power, a):
    costs = {"abandonment_cost": a, "utilization_cost": lambda b: b**power}
    fluid = FluidControlProblem(1.2, 1.0, a, costs["utilization_cost"])
    b, p = fluid.optimal_busy_fraction, fluid.admission_probability
    sizes = np.array([500, 1000, 2000, 4000])
    gaps = np.array(
        [
            markov.thinned(n, 1.2 * n, 1.0, 1.0, p, **costs).cost - fluid.optimal_cost
            for n in sizes.tolist()
        ]
    )
    slopes = np.diff(np.log(gaps)) / math.log(2)
    assert slopes == pytest.approx(-1, abs=5e-3)
    scaled = gaps * sizes
    extrapolated = 2 * scaled[-1] - scaled[-2]
    curvature = power * (power - 1) * b ** (power - 2)
    assert extrapolated == pytest.approx(curvature * b / 2, rel=1e-4)


def test_the_gap_of_resting_servers_is_smaller_by_one_minus_b():
    gaps = []
    for n in (20, 40):
        cost = markov.exponential_idling(n, 1.2 * n, 1.0, 1.0, 1.0, **COSTS).cost
        gaps.append(n * (cost - 0.95))
    assert gaps[-1] == pytest.approx(2 * 0.5 * 0.5 / 2, rel=1e-4)


@pytest.mark.parametrize(("load", "a"), [(1.2, 1.013), (0.7, 1.4), (0.55, 1.1), (1.0, 3.0)])
def test_equal_service_and_abandonment_rates_make_a_fixed_number_exactly_optimal(load, a):
    # The number X in the system is then the same under every policy, and B = min(X, M) minimises
    # g(B/N) - aμB/N state by state, M being the best whole number.
    costs = {"abandonment_cost": a, "utilization_cost": square}
    best = markov.optimal_policy(20, 20 * load, 1.0, 1.0, **costs).cost
    whole = min(range(21), key=lambda m: square(m / 20) - a * m / 20)
    fixed = markov.fewer_servers(20, 20 * load, 1.0, 1.0, whole, **costs).cost
    assert best == pytest.approx(fixed, rel=1e-13)


def test_serving_with_a_fixed_number_reaches_the_bound_exponentially_fast():
    gaps = [
        markov.fewer_servers(n, 1.2 * n, 1.0, 1.0, n // 2, **COSTS).cost - 0.95
        for n in (10, 20, 40)
    ]
    assert gaps[0] > 1e-4
    assert gaps[1] < gaps[0] / 10
    assert gaps[2] < gaps[1] / 100
    # b*N not an integer: the bound for whole servers, not the fluid one, is reached.
    costs = {"abandonment_cost": 1.013, "utilization_cost": square}
    best = markov.optimal_policy(50, 60.0, 1.0, 1.0, **costs).cost
    whole = markov.lower_bound(50, 60.0, 1.0, whole_servers=True, **costs)
    assert best - markov.lower_bound(50, 60.0, 1.0, **costs) > 4e-5
    assert best == pytest.approx(whole, rel=1e-8)


# Certificates, tested where there is something to certify


def plain_residual(chain, values, gain, rejection):
    """Return the residual of Bellman's equation by plain loops."""
    queue, longest = chain.queue, chain.longest
    n, lam = queue.servers, queue.arrival_rate
    loss = queue.abandonment_cost / n

    def after(i, j):  # the value of (i, j) after a decision; beyond the last place one is lost
        return values[i, j] if j <= longest else values[i, longest] + loss

    def before(i, j):
        return min(after(i + k, j - k) for k in range(min(j, n - i) + 1))

    residual = np.zeros(chain.shape)
    for i, j in itertools.product(range(n + 1), range(longest + 1)):
        arrival = before(i, j + 1)
        if rejection:
            arrival = min(arrival, values[i, j] + loss)
        total = queue.utilization_cost(i / n) + j * queue.holding_cost / n
        total += j * queue.abandonment_rate * queue.abandonment_cost / n - gain
        total += lam * (arrival - values[i, j])
        if i:
            total += i * queue.service_rate * (before(i - 1, j) - values[i, j])
        if j:
            total += j * queue.abandonment_rate * (values[i, j - 1] - values[i, j])
        residual[i, j] = total
    return residual


@pytest.mark.parametrize("rejection", [False, True])
def test_the_residual_is_that_of_bellmans_equation(rejection):
    queue = Queue(3, 4.0, 1.2, 0.7, 1.5, square, 0.3)
    chain = decision_process._Chain(queue, 5)
    random = np.random.default_rng(4)
    target, admitted = chain.first_policy()[0], np.ones(chain.shape)
    for values in (random.normal(size=chain.shape), np.cumsum(random.random(chain.shape), axis=1)):
        *_, residual = chain.improve(values, 0.8, target, admitted, rejection)
        assert residual == pytest.approx(plain_residual(chain, values, 0.8, rejection), abs=1e-12)


@pytest.mark.parametrize(("theta", "h"), [(0.3, 0.0), (0.3, 0.2), (2.0, 0.0)])
def test_suboptimality_bounds_a_policy_that_is_suboptimal(monkeypatch, theta, h):
    costs = {"abandonment_cost": 1.4, "utilization_cost": square, "holding_cost": h}
    system = (12, 9.0, 1.0, theta)
    best = markov.optimal_policy(*system, **costs)

    def never_serve(chain):
        return np.broadcast_to(chain.busy, (13, chain.longest + 2)).copy(), 0

    def no_better(chain, values, gain, target, admitted, rejection):
        return target, admitted, improve(chain, values, gain, target, admitted, rejection)[2]

    improve = decision_process._Chain.improve
    monkeypatch.setattr(decision_process._Chain, "improve", no_better)
    for first_policy in (decision_process._Chain.first_policy, never_serve):
        monkeypatch.setattr(decision_process._Chain, "first_policy", first_policy)
        first = markov.optimal_policy(*system, **costs)
        excess = first.cost - best.cost
        assert excess <= first.suboptimality
        assert first.suboptimality > 1e-3  # some state has a better action, if seldom visited
        assert first.iterations == 0
    assert excess > 0.4
    assert first.suboptimality < 20 * excess


def test_an_unsettled_iteration_says_how_far_it_may_be(monkeypatch):
    costs = {"abandonment_cost": 1.4, "utilization_cost": square}
    best = markov.optimal_policy(30, 21.0, 1.0, 0.5, **costs)
    monkeypatch.setattr(decision_process, "_MOST_IMPROVEMENTS", 1)
    with pytest.raises(ArithmeticError, match="has not settled after 1 improvements") as error:
        markov.optimal_policy(30, 21.0, 1.0, 0.5, **costs)
    cost, within = map(
        float, re.search(r"is ([\d.e-]+), within ([\d.e+-]+)", str(error.value)).groups()
    )
    assert cost - within <= best.cost < cost


def test_the_truncation_probability_of_a_short_truncation():
    # Serving nobody attains the bound: the queue is then Poisson with mean 10/2.
    found = markov.optimal_policy(4, 10.0, 1.0, 2.0, max_waiting=3, **COSTS)
    with mpmath.workdps(30):
        tail = 1 - sum(mpmath.exp(-5) * mpmath.mpf(5) ** k / mpmath.factorial(k) for k in range(4))
    assert found.truncation_probability == pytest.approx(float(tail), rel=1e-13)
    assert found.truncation_probability > 0.7
    longer = markov.optimal_policy(4, 10.0, 1.0, 2.0, **COSTS)
    assert longer.truncation_probability <= 1e-17
    # A queue longer than three is at most that likely under the best policy, and not impossible.
    over = longer.distribution[:, 4:].sum()
    assert 1e-3 < over <= found.truncation_probability


def test_defaults_are_what_they_are_said_to_be():
    for function, more in (
        (markov.thinned, {"admission_probability": 0.5}),
        (markov.non_idling, {}),
        (markov.fewer_servers, {"working_servers": 2}),
        (markov.exponential_idling, {"idle_time": 1.0}),
        (markov.policy_cost, {"entering": lambda busy, waiting: min(waiting, 4 - busy)}),
        (markov.optimal_policy, {}),
    ):
        plain = function(**SYSTEM, **more)
        assert plain == function(**SYSTEM, **more, holding_cost=0.0)
        assert plain.cost < function(**SYSTEM, **more, holding_cost=0.5).cost
        # What is lost and what is held cost nothing by default but what is asked for.
        for name in ("abandonment_cost", "utilization_cost"):
            with pytest.raises(TypeError, match=name):
                function(**{key: value for key, value in SYSTEM.items() if key != name}, **more)
    system = (4, 5.0, 1.0)
    assert markov.lower_bound(*system, **COSTS) == markov.lower_bound(
        *system, whole_servers=False, **COSTS
    )
    costs = {**SYSTEM, "holding_cost": 3.0}
    assert markov.optimal_policy(**costs) == markov.optimal_policy(**costs, rejection=False)
    assert markov.optimal_policy(**costs).cost > markov.optimal_policy(**costs, rejection=True).cost


# What the lower bound supposes: each counterexample is below it


def test_interrupting_long_services_beats_the_bound():
    # Service rate 10 with chance .9, else 1/9.1, mean 1. In the limit of many servers: everybody is
    # served, for at most a time t; whoever is interrupted is lost at the cost of an abandonment.
    def cost(limit):
        served = 0.9 * -math.expm1(-10 * limit) + 0.1 * -math.expm1(-limit / 9.1)
        busy = 0.09 * -math.expm1(-10 * limit) + 0.91 * -math.expm1(-limit / 9.1)
        return 1.2 * (1 - served) + square(1.2 * busy)

    bound = markov.lower_bound(100, 120.0, 1.0, **COSTS)
    assert bound == pytest.approx(0.95)
    assert cost(0.3) == pytest.approx(0.19, abs=5e-3)
    assert min(cost(limit) for limit in np.linspace(0.05, 1, 200)) == pytest.approx(
        0.1465, abs=2e-4
    )


def test_customers_who_never_abandon_beat_the_bound():
    # Patience infinite with chance 1/2, nobody served: the others abandon, at 1.2/2 a unit of time.
    random = np.random.default_rng(5)
    arrivals = np.cumsum(random.exponential(1 / 120, size=200_000))
    patience = np.where(random.random(200_000) < 0.5, np.inf, random.exponential(size=200_000))
    lost = np.count_nonzero(arrivals + patience <= arrivals[-1])
    cost = lost / arrivals[-1] / 100
    assert cost == pytest.approx(0.6, rel=0.02)
    assert cost < 0.7 * markov.lower_bound(100, 120.0, 1.0, **COSTS)


def test_serving_whom_patience_shows_to_be_short_beats_the_bound():
    # The patient are those whose services are short: a queue that is long selects them.
    # Services 0.1 (patience 5) or 1.9 (patience 0.5), each with chance 1/2, mean 1: serve whoever
    # has waited for 0.5, as all who are left have short services.
    served, busy = 1.2 * 0.5, 1.2 * 0.5 * 0.1
    cost = 1.2 - served + square(busy)
    assert cost < 0.65 * markov.lower_bound(100, 120.0, 1.0, **COSTS)


# Cost, copies


def test_what_would_take_too_long_is_refused_at_once():
    for call, name in (
        (
            lambda: markov.thinned(5, 1e12, 1.0, 1.0, 0.5, **COSTS),
            r"arrival_rate = 1e\+12|1000000000000",
        ),
        (lambda: markov.thinned(5, 1e150, 1.0, 1e-150, 0.5, **COSTS), "abandonment_rate = 1e-150"),
        (lambda: markov.non_idling(2**62, 1e18, 1.0, 1.0, **COSTS), "arrival_rate"),
        (lambda: markov.fewer_servers(5, 1e14, 1.0, 1.0, 0, **COSTS), "arrival_rate"),
        (lambda: markov.exponential_idling(2**62, 1.0, 1.0, 1.0, 1.0, **COSTS), "states"),
        (lambda: markov.exponential_idling(5, 1e15, 1.0, 1.0, 1.0, **COSTS), "states"),
        (lambda: markov.policy_cost(5, 1e15, 1.0, 1.0, lambda i, j: 0, **COSTS), "states"),
        (lambda: markov.optimal_policy(5, 1e150, 1.0, 1e-150, **COSTS), "states"),
        (lambda: markov.optimal_policy(5, 1.0, 1.0, 1.0, max_waiting=10**12, **COSTS), "states"),
        (lambda: markov.lower_bound(2**60, 1.0, 1.0, whole_servers=True, **COSTS), "servers"),
        (lambda: markov.thinned(5, 1e151, 1.0, 1.0, 0.5, **COSTS), "arrival_rate = 1e"),
        (lambda: markov.thinned(5, 1.0, 1e-151, 1.0, 0.5, **COSTS), "service_rate = 1e-151"),
    ):
        with pytest.raises(ValueError, match=name):
            call()


@given(
    st.integers(1, 60),
    st.floats(-150, 150),
    st.floats(-150, 150),
    st.floats(-150, 150),
    st.floats(0.01, 1),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_random_systems_are_answered_or_refused(n, lam, mu, theta, p):
    system = (n, 10.0**lam, 10.0**mu, 10.0**theta)
    try:
        found = markov.thinned(*system, p, **COSTS)
    except ValueError:  # too many values to sum
        return
    for value in vars(found).values():
        assert 0 <= value < math.inf
    assert found.busy_fraction <= 1 + 1e-15
    total = found.busy_fraction * system[2] + found.abandonment_rate + found.rejection_rate
    assert total == pytest.approx(system[1] / n, rel=1e-9)


def test_results_are_pickled_and_compared():
    costs = markov.thinned(**SYSTEM, admission_probability=0.5)
    assert pickle.loads(pickle.dumps(costs)) == costs
    assert len({costs, markov.thinned(**SYSTEM, admission_probability=0.5)}) == 1
    best = markov.optimal_policy(**SYSTEM)
    assert pickle.loads(pickle.dumps(best)) == best
    assert best != markov.optimal_policy(**SYSTEM, holding_cost=1.0)
    assert best != costs
    with pytest.raises(TypeError, match="unhashable"):
        hash(best)


def test_shared_parameters_stand_in_every_docstring():
    for name in markov.__all__:
        function = getattr(markov, name)
        if name[0].isupper():
            continue
        assert "%(" not in function.__doc__
        for parameter in inspect.signature(function).parameters:
            assert re.search(rf"^    {parameter} : ", function.__doc__, re.MULTILINE), (
                name,
                parameter,
            )


# Bad input

SYSTEM = dict(servers=4, arrival_rate=5.0, service_rate=1.0, abandonment_rate=1.0, **COSTS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"servers": 0}, "servers = 0: must be an integer >= 1"),
        ({"servers": 2.0}, r"servers = 2\.0: must be an integer"),
        ({"arrival_rate": 0.0}, r"arrival_rate = 0\.0"),
        ({"service_rate": -1.0}, r"service_rate = -1\.0"),
        ({"abandonment_rate": 0.0}, r"abandonment_rate = 0\.0"),
        ({"abandonment_cost": -1.0}, r"abandonment_cost = -1\.0"),
        ({"holding_cost": math.nan}, "holding_cost = nan"),
        ({"utilization_cost": lambda b: b**0.5}, "must be convex"),
    ],
)
def test_bad_systems_are_named(changes, message):
    arguments = {**SYSTEM, **changes}
    for function, more in (
        (markov.thinned, {"admission_probability": 0.5}),
        (markov.non_idling, {}),
        (markov.fewer_servers, {"working_servers": 1}),
        (markov.exponential_idling, {"idle_time": 1.0}),
        (markov.policy_cost, {"entering": lambda busy, waiting: 0}),
        (markov.optimal_policy, {}),
    ):
        with pytest.raises(ValueError, match=message):
            function(**arguments, **more)


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1, math.nan])
def test_admission_probability_lies_in_its_interval(p):
    with pytest.raises(ValueError, match="admission_probability = "):
        markov.thinned(**SYSTEM, admission_probability=p)


def test_bad_policies_are_named():
    with pytest.raises(ValueError, match=r"working_servers = 5: must be an integer >= 0 and <= 4"):
        markov.fewer_servers(**SYSTEM, working_servers=5)
    with pytest.raises(ValueError, match=r"idle_time = 0\.0"):
        markov.exponential_idling(**SYSTEM, idle_time=0.0)
    with pytest.raises(ValueError, match=r"entering\(0, 0\) = 1\.0: must be an integer >= 0"):
        markov.policy_cost(**SYSTEM, entering=lambda busy, waiting: 1)
    with pytest.raises(ValueError, match=r"entering\(0, 1\) = 0\.5"):
        markov.policy_cost(**SYSTEM, entering=lambda busy, waiting: waiting / 2)
    with pytest.raises(ValueError, match=r"admission = 2\.0"):
        markov.policy_cost(
            **SYSTEM, entering=lambda busy, waiting: 0, admission=lambda busy, waiting: 2.0
        )
    with pytest.raises(ValueError, match="entering has shape"):
        markov.policy_cost(**SYSTEM, entering=np.zeros((2, 9)))
    with pytest.raises(ValueError, match="max_waiting = 0"):
        markov.optimal_policy(**SYSTEM, max_waiting=0)
    with pytest.raises(ValueError, match="rejection = 2"):
        markov.optimal_policy(**SYSTEM, rejection=2)
    with pytest.raises(ValueError, match="a smaller max_waiting truncates the queue"):
        markov.optimal_policy(**{**SYSTEM, "abandonment_rate": 1e-6})
