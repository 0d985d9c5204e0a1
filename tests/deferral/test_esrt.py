"""Exponentially spaced returns: against exact linear algebra, 50-digit optima, and properties."""

import itertools
import math

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcore import erlang
from qcore.deferral import esrt, single_server

SYSTEMS = [
    # servers, max_deferrals, arrival rate, service rate, rearrival rate
    (1, 1, 1.0, 1.0, 1.0),
    (1, 9, 3.0, 1.0, 0.25),
    (2, 3, 2.5, 1.0, 4.0),
    (5, 2, 0.01, 1.0, 3.0),
    (6, 4, 8.0, 1.0, 1e6),
    (6, 4, 8.0, 1.0, 1e-6),
    (12, 6, 2.0**-20, 1.0, 1.0),
    (12, 6, 1e6, 1.0, 1.0),
    (12, 6, 1e-6, 1.0, 1e6),
    (20, 8, 20.5, 1.0, 7.0),
    (30, 2, 0.001, 1.0, 2.0),
]

log_rates = st.floats(-6, 6).map(lambda e: 10.0**e)
small_counts = st.integers(1, 12)


def generator(servers, max_deferrals, arrival_rate, service_rate, rearrival_rate):
    """Transition rates between the states (busy, deferred), straight from the model."""
    rates = {}

    def add(source, target, rate):
        rates[source, target] = rates.get((source, target), 0) + rate

    for busy, deferred in itertools.product(range(servers + 1), range(max_deferrals + 1)):
        state = busy, deferred
        if busy < servers:
            add(state, (busy + 1, deferred), arrival_rate)
        elif deferred < max_deferrals:
            add(state, (busy, deferred + 1), arrival_rate)
        if busy > 0:
            add(state, (busy - 1, deferred), busy * service_rate)
        if deferred > 0:
            add(state, (min(busy + 1, servers), deferred - 1), rearrival_rate)
    return rates


def exact_distribution(servers, max_deferrals, *rates):
    """Null vector of the generator over the rationals."""
    width = servers + 1
    size = width * (max_deferrals + 1)
    lam, mu, alpha = (flint.fmpq(*rate.as_integer_ratio()) for rate in rates)
    matrix = flint.fmpq_mat(size, size)
    for (source, target), rate in generator(servers, max_deferrals, lam, mu, alpha).items():
        i, j = (deferred * width + busy for busy, deferred in (source, target))
        matrix[j, i] += rate
        matrix[i, i] -= rate
    for j in range(size):
        matrix[size - 1, j] = 1
    right = flint.fmpq_mat(size, 1)
    right[size - 1, 0] = 1
    law = matrix.solve(right)
    table = [[law[d * width + k, 0] for k in range(width)] for d in range(max_deferrals + 1)]
    blocking = table[-1][-1] + alpha / lam * sum(row[-1] for row in table[1:])
    return table, blocking


def relative_error(value, exact):
    return abs(float(flint.fmpq(*value.as_integer_ratio()) / exact - 1))


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_component_against_exact_rationals(system):
    table, blocking = exact_distribution(*system)
    law = esrt.configuration_distribution(*system)
    assert law.shape == (system[1] + 1, system[0] + 1)
    for row, exact_row in zip(law, table, strict=True):
        for value, exact in zip(row, exact_row, strict=True):
            assert relative_error(float(value), exact) < 1e-14
    assert relative_error(esrt.blocking_probability(*system), blocking) < 2e-15


def test_the_exact_laws_reach_below_1e_minus_100():
    law = esrt.configuration_distribution(12, 6, 1e-6, 1.0, 1e6)
    assert 0 < law.min() < 1e-100


def ball_distribution(servers, max_deferrals, *rates):
    """The same law in 400-bit ball arithmetic, each level by plain tridiagonal elimination."""
    lam, mu, alpha = (flint.arb(rate) for rate in rates)
    levels = []
    for deferred in range(max_deferrals, -1, -1):
        above = levels[-1] if levels else [flint.arb(0)] * (servers + 1)
        leaving = lam + (alpha if deferred else 0)
        full = alpha / lam * sum(above) if levels else flint.arb(1)
        factor, constant = [], []
        for k in range(servers):
            pivot, right = leaving + k * mu, alpha * above[k - 1] if k else flint.arb(0)
            if k:
                pivot -= lam * factor[-1]
                right += lam * constant[-1]
            factor.append((k + 1) * mu / pivot)
            constant.append(right / pivot)
        level = [full]
        for k in range(servers - 1, -1, -1):
            level.append(factor[k] * level[-1] + constant[k])
        levels.append(level[::-1])
    total = sum(sum(level) for level in levels)
    return [[value / total for value in level] for level in levels[::-1]]


@pytest.mark.parametrize(
    "system",
    [(100, 100, 101.0, 1.0, 20.0), (100, 100, 50.0, 1.0, 20.0), (300, 5, 900.0, 1.0, 50.0)],
)
def test_every_component_of_larger_systems_in_ball_arithmetic(system, monkeypatch):
    monkeypatch.setattr(flint.ctx, "prec", 400)
    law = esrt.configuration_distribution(*system)
    compared = 0
    for row, exact_row in zip(law, ball_distribution(*system), strict=True):
        for value, exact in zip(row, exact_row, strict=True):
            if exact > 1e-290:
                assert exact.rel_accuracy_bits() > 100
                assert abs(float(flint.arb(float(value)) / exact - 1)) < 1e-13
                compared += 1
    assert compared > 1000


@pytest.mark.parametrize("system", [(200, 40, 203.0, 1.0, 20.0), (150, 60, 80.0, 1.0, 5.0)])
def test_flows_balance_in_every_state(system):
    law = esrt.configuration_distribution(*system)
    outflow, inflow = np.zeros_like(law), np.zeros_like(law)
    for (source, target), rate in generator(*system).items():
        flow = law[source[::-1]] * rate
        outflow[source[::-1]] += flow
        inflow[target[::-1]] += flow
    assert np.max(np.abs(inflow / outflow - 1)) < 2e-13
    assert law.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize(
    ("servers", "rates"),
    [
        (1000, (1e-3, 1.0, 1.0)),  # the unnormalised solution spans 1e5000
        (1000, (1e6, 1.0, 1e-3)),
        (300, (1e-60, 1e60, 1e-60)),
        (300, (1e60, 1e-60, 1e60)),
        (300, (1.0, 1e-60, 1e60)),
    ],
)
def test_extreme_rates_give_probabilities(servers, rates):
    law = esrt.configuration_distribution(servers, 50, *rates)
    assert np.all((law >= 0) & (law <= 1))
    assert law.sum() == pytest.approx(1.0, abs=1e-13)
    blocking = esrt.blocking_probability(servers, 50, *rates)
    assert 0.0 <= blocking <= 1.0
    # What enters service leaves it.
    lam, mu, _ = rates
    busy = law.sum(axis=0) @ np.arange(servers + 1)
    assert busy * mu / lam == pytest.approx(1 - blocking, rel=1e-12, abs=1e-15)


@given(small_counts, small_counts, log_rates, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_between_the_bounds(servers, max_deferrals, lam, mu, alpha):
    blocking = esrt.blocking_probability(servers, max_deferrals, lam, mu, alpha)
    load, rounding = lam / mu, 1e-14
    assert blocking >= (1 - servers / load) * (1 - rounding)
    assert blocking <= float(erlang.erlang_b(servers, load)) * (1 + rounding)
    weights, weight = [], 1.0
    for k in range(servers + max_deferrals + 1):
        weights.append(weight)
        weight *= load / min(k + 1, servers)
    assert blocking >= weights[-1] / math.fsum(weights) * (1 - rounding)


@given(small_counts, small_counts, log_rates, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_one_more_deferral_never_hurts(servers, max_deferrals, lam, mu, alpha):
    fewer = esrt.blocking_probability(servers, max_deferrals - 1, lam, mu, alpha)
    more = esrt.blocking_probability(servers, max_deferrals, lam, mu, alpha)
    assert more <= fewer * (1 + 1e-14)


@given(small_counts, small_counts, log_rates, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_the_gain_over_erlang_is_what_accepted_returns_are_worth(
    servers, deferrals, lam, mu, alpha
):
    law = esrt.configuration_distribution(servers, deferrals, lam, mu, alpha)
    blocking = esrt.blocking_probability(servers, deferrals, lam, mu, alpha)
    at_k = np.array([float(erlang.erlang_b(k, lam / mu)) for k in range(servers + 1)])
    gain = alpha / lam * law[1:, :-1].sum(axis=0) @ (1 - at_k[-1] / at_k[:-1])
    assert at_k[-1] - gain == pytest.approx(blocking, rel=1e-12, abs=1e-14)


@given(small_counts, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_no_deferral_is_erlang(servers, lam, mu):
    blocking = esrt.blocking_probability(servers, 0, lam, mu, 1.0)
    assert blocking == pytest.approx(float(erlang.erlang_b(servers, lam / mu)), rel=1e-14)


@given(log_rates, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_one_server_one_deferral_in_closed_form(lam, mu, alpha):
    closed = single_server.exponential_blocking_probability(lam, mu, alpha)
    assert esrt.blocking_probability(1, 1, lam, mu, alpha) == pytest.approx(closed, rel=1e-14)


@given(st.integers(1, 40), log_rates, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_one_server_in_closed_form(deferrals, lam, mu, alpha):
    lam, mu, alpha = (mpmath.mpf(rate) for rate in (lam, mu, alpha))
    a, b = lam / alpha, (lam + alpha) / (lam + alpha + mu)
    geometric = mpmath.fsum((a * b) ** d for d in range(1, deferrals + 1))
    closed = ((a * b) ** deferrals + geometric / a) / (1 + mu / lam + geometric / b)
    value = esrt.blocking_probability(1, deferrals, float(lam), float(mu), float(alpha))
    assert value == pytest.approx(float(closed), rel=1e-13)


def test_scale_of_time_does_not_matter():
    here = esrt.blocking_probability(30, 4, 31.0, 1.0, 7.0)
    for scale in (1e-50, 1e-3, 1e3, 1e50):
        there = esrt.blocking_probability(30, 4, 31.0 * scale, scale, 7.0 * scale)
        assert there == pytest.approx(here, rel=1e-14)


def test_arrays_broadcast_and_scalars_stay_floats():
    table = esrt.blocking_probability(5, 2, [[4.0], [6.0]], 1.0, [0.5, 1.0, 2.0])
    assert table.shape == (2, 3)
    assert table[1, 2] == esrt.blocking_probability(5, 2, 6.0, 1.0, 2.0)
    assert type(esrt.blocking_probability(5, 2, 6, 1, 2)) is float


# The best rate.


def reference_blocking(servers, deferrals, lam, mu, alpha):
    """P_B by Gaussian elimination of the full generator at the working precision."""
    width = servers + 1
    size = width * (deferrals + 1)
    matrix = mpmath.zeros(size)
    for (source, target), rate in generator(servers, deferrals, lam, mu, alpha).items():
        i, j = (d * width + k for k, d in (source, target))
        matrix[j, i] += rate
        matrix[i, i] -= rate
    for j in range(size):
        matrix[size - 1, j] = 1
    law = mpmath.lu_solve(matrix, mpmath.matrix([0] * (size - 1) + [1]))
    full = [law[d * width + servers] for d in range(deferrals + 1)]
    return full[-1] + alpha / lam * mpmath.fsum(full[1:])


@pytest.mark.parametrize(
    ("servers", "deferrals", "lam"), [(1, 2, 0.7), (3, 1, 3.2), (3, 2, 40.0), (2, 3, 2.1)]
)
def test_an_interior_optimum_is_the_root_of_the_derivative_at_fifty_digits(servers, deferrals, lam):
    best = esrt.optimal_rearrival_rate(servers, deferrals, lam, 1.0, 1e3)
    assert best.max_deferrals == deferrals
    with mpmath.workdps(50):

        def slope(alpha):
            step = mpmath.mpf(10) ** -15
            up, down = (
                reference_blocking(servers, deferrals, mpmath.mpf(lam), mpmath.mpf(1), alpha * z)
                for z in (1 + step, 1 - step)
            )
            return up - down

        start = mpmath.mpf(best.rearrival_rate)
        root = mpmath.findroot(slope, (start * 0.99, start * 1.01), solver="anderson", tol=1e-60)
        assert abs(best.rearrival_rate / root - 1) < 1e-12
        exact = reference_blocking(servers, deferrals, mpmath.mpf(lam), mpmath.mpf(1), root)
        assert abs(best.blocking_probability / exact - 1) < 1e-14


@pytest.mark.parametrize(
    ("servers", "max_deferrals", "lam", "max_time"),
    [
        (10, 30, 10.3, 1.0),
        (10, 30, 10.3, 0.3),
        (10, 3, 10.3, 10.0),
        (40, 12, 20.0, 2.0),
        (5, 8, 50.0, 0.05),
        (60, 20, 60.8, 1.5),
    ],
)
def test_nothing_on_a_fine_grid_of_all_rates_is_better(servers, max_deferrals, lam, max_time):
    best = esrt.optimal_rearrival_rate(servers, max_deferrals, lam, 1.0, max_time)
    assert best.max_deferrals == esrt.deferrals_in_use(max_deferrals, best.rearrival_rate, max_time)
    grid = np.geomspace(1.0 / max_time, 1e4 * lam, 4001)
    # Both ends of every piece: an integer slot, and just before the next.
    ends = np.arange(1, max_deferrals + 1) / max_time
    rates = np.concatenate([grid, ends, ends * (1 - 1e-9)])
    rates = rates[rates >= 1.0 / max_time]
    lost = [
        esrt.blocking_probability(
            servers, esrt.deferrals_in_use(max_deferrals, rate, max_time), lam, 1.0, rate
        )
        for rate in rates
    ]
    assert best.blocking_probability <= min(lost) * (1 + 1e-15)
    assert best.blocking_probability >= min(lost) * (1 - 1e-4)
    assert best.blocking_probability == esrt.blocking_probability(
        servers, best.max_deferrals, lam, 1.0, best.rearrival_rate
    )


def test_where_the_mean_time_binds_the_best_rate_is_a_left_end():
    best = esrt.optimal_rearrival_rate(100, 1000, 101.0, 1.0, 1.0)
    assert best.rearrival_rate == best.max_deferrals < 1000


@given(st.integers(1, 20), st.integers(1, 12), log_rates, log_rates, log_rates)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_optimum_scales_with_time(servers, max_deferrals, load, time, scale):
    lam = load * servers
    if float(erlang.erlang_b(servers, lam)) < 1e-60:
        return
    here = esrt.optimal_rearrival_rate(servers, max_deferrals, lam, 1.0, time)
    there = esrt.optimal_rearrival_rate(servers, max_deferrals, lam * scale, scale, time / scale)
    assert there.blocking_probability == pytest.approx(here.blocking_probability, rel=1e-12)


@given(log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_with_one_server_and_one_deferral_the_best_rate_is_the_arrival_rate(lam, mu):
    best = esrt.optimal_rearrival_rate(1, 1, lam, mu, 1e3 / lam)
    assert best.rearrival_rate == pytest.approx(lam, rel=1e-12)
    short = esrt.optimal_rearrival_rate(1, 1, lam, mu, 0.5 / lam)
    assert short.rearrival_rate == pytest.approx(2 * lam, rel=1e-15)


def test_a_system_without_losses_has_no_best_rate():
    with pytest.raises(ValueError, match="blocking probability"):
        esrt.optimal_rearrival_rate(200, 2, 1e-3, 1.0, 1.0)


def test_a_rate_that_rounding_hides_is_refused():
    for servers, load in ((40, 3.0), (40, 0.5), (60, 1.0)):
        with pytest.raises(ValueError, match="rounding hides"):
            esrt.optimal_rearrival_rate(servers, 1, load, 1.0, 1e58)


@pytest.mark.parametrize(("servers", "load"), [(2, 1.0), (5, 0.3), (10, 0.5), (10, 0.1)])
def test_the_best_rate_at_light_load(servers, load):
    """As where the derivative of exact losses has its root: within the millionth allowed."""
    best = esrt.optimal_rearrival_rate(servers, 1, load, 1.0, 1e30)
    with mpmath.workdps(90):
        found, lam = mpmath.mpf(best.rearrival_rate), mpmath.mpf(load)

        def loss(factor):
            return reference_blocking(servers, 1, lam, mpmath.mpf(1), found * factor)

        def slope(factor):
            step = mpmath.mpf(10) ** -25
            return loss(factor * (1 + step)) - loss(factor * (1 - step))

        near = mpmath.mpf(10) ** -6
        assert slope(1 - near) < 0 < slope(1 + near)


@given(
    st.integers(30, 2000),
    st.integers(1, 20),
    st.floats(-0.7, 1.0).map(lambda e: 10.0**e),
    st.floats(-3, 4).map(lambda e: 10.0**e),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_states_left_out_do_not_matter(servers, deferrals, ratio, alpha):
    load = servers * ratio
    kept = esrt._losses(servers, deferrals, 1 / load, alpha / load)
    whole = esrt._solve((0, 0), servers, deferrals, 1 / load, alpha / load, np.empty((0, 0)))
    assert kept == pytest.approx(whole, rel=1e-15, abs=1e-300)


def test_few_states_of_a_large_system_are_kept():
    for load in (0.9e6, 1e6, 1.1e6):
        free, deferred = esrt._window(10**6, 1 / load, 1e4 / load)
        assert 10**6 - 120_000 < free <= deferred < 10**6


def test_a_million_servers():
    lam = 1e6 + 100.0
    best = esrt.optimal_rearrival_rate(10**6, 2, lam, 1.0, 10.0)
    whole = esrt._solve(
        (0, 0), 10**6, 2, 1 / lam, complex(1, 1e-20) * best.rearrival_rate / lam, np.empty((0, 0))
    )
    assert best.blocking_probability == pytest.approx(whole[0].real, rel=1e-14)
    assert abs(whole[1].imag / whole[1].real) < 1e-10 * 1e-20


def test_what_costs_too_much_is_refused_before_it_is_tried():
    with pytest.raises(ValueError, match="max_deferrals"):
        esrt.blocking_probability(10**6, 10**9, 1e6, 1.0, 1e3)
    with pytest.raises(ValueError, match="max_deferrals"):
        esrt.configuration_distribution(10**6, 10**6, 1e6, 1.0, 1e3)
