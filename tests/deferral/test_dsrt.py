"""Deterministically spaced returns: against dense linear algebra, 50-digit optima, properties."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from qcore import erlang
from qcore.deferral import dsrt, esrt, single_deferral, single_server

SYSTEMS = [
    # servers, max_deferrals, arrival rate, service rate, spacing
    (1, 1, 1.0, 1.0, 0.5),
    (1, 2, 3.0, 1.0, 0.5),
    (2, 1, 3.0, 1.0, 0.7),
    (3, 4, 3.2, 1.0, 0.3),
    (5, 6, 8.0, 1.0, 0.3),
    (10, 3, 10.3, 1.0, 0.2),
    (10, 5, 10.3, 1.0, 3.0),
    (10, 5, 2.0, 1.0, 0.3),
    (20, 3, 50.0, 1.0, 0.3),
    (4, 8, 4.0, 1.0, 20.0),
    (6, 12, 6.2, 1.0, 0.01),
    (6, 2, 0.01, 1.0, 2.0),
    (3, 3, 40.0, 1.0, 5.0),  # a phase hardly ever ends: e^-200
]

log_rates = st.floats(-3, 3).map(lambda e: 10.0**e)
small_counts = st.integers(1, 8)


def stage_generator(servers, max_deferrals, lam, mu):
    """Rates within a stage between the states (d, k), d = 1 … D, flattened."""
    width = servers + 1
    matrix = np.zeros((max_deferrals * width,) * 2, dtype=type(lam))
    for d, k in itertools.product(range(max_deferrals), range(width)):
        here = d * width + k
        moves = []
        if k < servers:
            moves.append((here + 1, lam))
        elif d < max_deferrals - 1:
            moves.append((here + width, lam))
        if k > 0:
            moves.append((here - 1, k * mu))
        for there, rate in moves:
            matrix[here, there] += rate
            matrix[here, here] -= rate
    return matrix


def dense_solution(servers, max_deferrals, lam, mu, spacing):
    """P_B and the stationary law from matrix exponentials and the embedded chain's null vector.

    The chain is observed at the stage starts (d, k) and at the phase ends (0, k).
    """
    width = servers + 1
    generator = stage_generator(servers, max_deferrals, lam, mu)
    size = len(generator)
    block = np.zeros((2 * size, 2 * size))
    block[:size, :size], block[:size, size:] = generator, np.eye(size)
    block = scipy.linalg.expm(block * spacing)
    end, integral = block[:size, :size], block[:size, size:]
    # Embedded chain on d = 0 … D: after a stage one returns; from d = 0 on to (1, K).
    embedded = np.zeros((size + width,) * 2)
    for d, k in itertools.product(range(max_deferrals), range(width)):
        embedded[width:, d * width + min(k + 1, servers)] += end[:, d * width + k]
    embedded[:width, width + servers] = 1.0
    equations = np.vstack([embedded.T - np.eye(size + width), np.ones(size + width)])
    visits = np.linalg.lstsq(equations, np.append(np.zeros(size + width), 1.0), rcond=None)[0]
    # Mean times outside phases, killed at the next blocked arrival.
    killed = stage_generator(servers, 1, lam, mu)
    killed[servers, servers] -= lam
    outside = np.linalg.solve(-killed.T, visits[:width])
    times = np.concatenate([outside, visits[width:] @ integral])
    lost_returns = (visits[width:] @ end)[servers::width].sum()
    law = (times / times.sum()).reshape(max_deferrals + 1, width)
    return law[-1, -1] + lost_returns / lam / times.sum(), law


@pytest.mark.parametrize("system", SYSTEMS)
def test_against_dense_linear_algebra(system):
    blocking, law = dense_solution(*system)
    assert dsrt.blocking_probability(*system) == pytest.approx(blocking, rel=1e-13)
    found = dsrt.configuration_distribution(*system)
    assert found.shape == (system[1] + 1, system[0] + 1)
    assert found == pytest.approx(law, rel=0, abs=1e-14)
    large = law > 1e-4 * law.max()
    assert found[large] == pytest.approx(law[large], rel=1e-11)


@given(small_counts, st.integers(1, 5), log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_random_systems_against_dense_linear_algebra(servers, max_deferrals, lam, spacing):
    if lam * spacing > 300:
        return
    blocking, law = dense_solution(servers, max_deferrals, lam, 1.0, spacing)
    found = dsrt.blocking_probability(servers, max_deferrals, lam, 1.0, spacing)
    assert found == pytest.approx(blocking, rel=1e-10, abs=1e-15)
    found = dsrt.configuration_distribution(servers, max_deferrals, lam, 1.0, spacing)
    assert found == pytest.approx(law, rel=0, abs=1e-12)


def accepted_return_rates(servers, max_deferrals, lam, mu, spacing):
    """Rates at which returns find k servers busy, k = 0 … K, from the stationary law alone.

    In each state within a stage, what comes by returns balances what the stage's own rates take.
    """
    law = dsrt.configuration_distribution(servers, max_deferrals, lam, mu, spacing)
    generator = stage_generator(servers, max_deferrals, lam, mu)
    taken = -(law[1:].ravel() @ generator).reshape(max_deferrals, servers + 1)
    taken[0, servers] -= lam * law[0, servers]  # the first deferral of a phase is no return
    rates = np.zeros(servers + 1)
    arriving = np.zeros(servers + 1)  # at the level below, by returns from this one
    for level in taken[::-1]:
        leaving = arriving - level
        rates += leaving
        arriving = np.append(0.0, leaving[:-1])
        arriving[servers] += leaving[servers]
    return rates


@pytest.mark.parametrize("system", SYSTEMS[:8])
def test_the_gain_over_erlang_is_what_accepted_returns_are_worth(system):
    servers, _, lam, mu, _ = system
    at_k = np.array([float(erlang.erlang_b(k, lam / mu)) for k in range(servers + 1)])
    rates = accepted_return_rates(*system)
    gain = rates[:-1] @ (1 - at_k[-1] / at_k[:-1]) / lam
    assert at_k[-1] - gain == pytest.approx(dsrt.blocking_probability(*system), rel=1e-10)


@pytest.mark.parametrize(
    ("servers", "max_deferrals", "spacing"),
    [(24, 3, 0.1), (25, 3, 0.1), (1000, 3, 0.008), (1000, 2, 0.05), (3000, 2, 0.004)],
)
def test_large_systems_by_what_they_gain_over_erlang(servers, max_deferrals, spacing):
    """P_B counts losses; the gain counts accepted returns. They meet in Erlang's formula."""
    lam = servers + 0.1 * math.sqrt(servers)
    lost, gained = dsrt._solve(servers, max_deferrals, 1 / lam, lam * spacing)
    assert lost + gained == pytest.approx(float(erlang.erlang_b(servers, lam)), rel=1e-12)
    law = dsrt.configuration_distribution(servers, max_deferrals, lam, 1.0, spacing)
    assert law.sum() == pytest.approx(1.0, rel=1e-13)


def test_a_window_of_states_changes_nothing(monkeypatch):
    windowed = dsrt.blocking_probability(160, 4, 161.0, 1.0, 0.02)
    monkeypatch.setattr(dsrt, "_ALL_STATES_UP_TO", 1000)
    assert dsrt.blocking_probability(160, 4, 161.0, 1.0, 0.02) == pytest.approx(windowed, rel=1e-13)


@pytest.mark.parametrize("halvings", [0, 1, 4, 7])
def test_doubling_a_stage_changes_nothing(monkeypatch, halvings):
    expected, _ = dense_solution(6, 4, 6.2, 1.0, 0.8)
    monkeypatch.setattr(dsrt, "_visits_stage_by_stage", lambda *_: None)
    monkeypatch.setattr(dsrt, "_halvings", lambda *_: halvings)
    assert dsrt.blocking_probability(6, 4, 6.2, 1.0, 0.8) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(
    ("servers", "deferrals", "ratio", "spacing"),
    [
        (30, 2, 0.1, 5.0),
        (30, 2, 1.0, 0.1),
        (200, 3, 1.0, 0.02),
        (8, 4, 0.1, 1.0),
        (60, 2, 2.0, 0.1),
    ],
)
def test_following_a_phase_gives_what_first_passages_give(
    monkeypatch, servers, deferrals, ratio, spacing
):
    monkeypatch.setattr(dsrt, "_most_stages", lambda *_: 10**6)
    load = servers * ratio
    arguments = servers, deferrals, 1.0 / load, load * spacing, 1e-20
    followed = dsrt._solve(*arguments)
    monkeypatch.setattr(dsrt, "_visits_stage_by_stage", lambda *_: None)
    for one, other in zip(followed, dsrt._solve(*arguments), strict=True):
        assert one.real == pytest.approx(other.real, rel=1e-12)
        assert one.imag == pytest.approx(other.imag, rel=1e-9, abs=1e-33 * one.real)


@pytest.mark.parametrize(("servers", "load"), [(30, 3.0), (10, 0.3), (60, 12.0), (3, 1e-4)])
def test_one_deferral_at_light_load_is_a_sum_of_exponentials(servers, load):
    for spacing in (0.1, 1.0, 6.0, 40.0):
        assert dsrt.blocking_probability(servers, 1, load, 1.0, spacing) == pytest.approx(
            single_deferral.blocking_probability(servers, load, 1.0, spacing), rel=1e-12
        )


@given(small_counts, small_counts, log_rates, log_rates, log_rates)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_bounds_and_conservation(servers, max_deferrals, lam, mu, spacing):
    law = dsrt.configuration_distribution(servers, max_deferrals, lam, mu, spacing)
    blocking = dsrt.blocking_probability(servers, max_deferrals, lam, mu, spacing)
    load, rounding = lam / mu, 1e-12
    assert np.all((law >= 0) & (law <= 1))
    assert law.sum() == pytest.approx(1.0, rel=1e-12)
    assert blocking >= (1 - servers / load) * (1 - rounding)
    assert blocking <= float(erlang.erlang_b(servers, load)) * (1 + rounding)
    weights, weight = [], 1.0
    for k in range(servers + max_deferrals + 1):
        weights.append(weight)
        weight *= load / min(k + 1, servers)
    assert blocking >= weights[-1] / math.fsum(weights) * (1 - rounding)
    busy = law.sum(axis=0) @ np.arange(servers + 1)
    assert busy / load == pytest.approx(1 - blocking, rel=1e-9, abs=1e-12)


@given(small_counts, small_counts, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_one_more_deferral_never_hurts(servers, max_deferrals, lam, spacing):
    fewer = dsrt.blocking_probability(servers, max_deferrals - 1, lam, 1.0, spacing)
    more = dsrt.blocking_probability(servers, max_deferrals, lam, 1.0, spacing)
    assert more <= fewer * (1 + 1e-11)


@given(small_counts, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_no_deferral_is_erlang(servers, lam, mu):
    blocking = dsrt.blocking_probability(servers, 0, lam, mu, 1.0)
    assert blocking == pytest.approx(float(erlang.erlang_b(servers, lam / mu)), rel=1e-14)


@given(log_rates, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_one_server_one_deferral_in_closed_form(lam, mu, spacing):
    closed = single_server.blocking_probability(lam, mu, spacing)
    found = dsrt.blocking_probability(1, 1, lam, mu, spacing)
    assert found == pytest.approx(closed, rel=1e-12)


def test_scale_of_time_does_not_matter():
    here = dsrt.blocking_probability(30, 3, 31.0, 1.0, 0.1)
    for scale in (1e-50, 1e-3, 1e3, 1e50):
        there = dsrt.blocking_probability(30, 3, 31.0 * scale, scale, 0.1 / scale)
        assert there == pytest.approx(here, rel=1e-13)


@pytest.mark.parametrize(
    ("servers", "rates"),
    [
        (500, (1e-3, 1.0, 1.0)),  # Erlang's probability is below every float
        (40, (1e6, 1.0, 1e-3)),
        (40, (1e3, 1.0, 1e2)),  # a stage of a million events
        (5, (1e-6, 1.0, 1e4)),
    ],
)
def test_extreme_rates_give_probabilities(servers, rates):
    law = dsrt.configuration_distribution(servers, 3, *rates)
    assert np.all((law >= 0) & (law <= 1))
    assert law.sum() == pytest.approx(1.0, rel=1e-12)
    blocking = dsrt.blocking_probability(servers, 3, *rates)
    assert max(0.0, 1 - servers * rates[1] / rates[0]) * (1 - 1e-12) <= blocking <= 1.0


def test_arrays_broadcast_and_scalars_stay_floats():
    table = dsrt.blocking_probability(3, 2, [[2.0], [4.0]], 1.0, [0.1, 0.5, 2.0])
    assert table.shape == (2, 3)
    assert table[1, 2] == dsrt.blocking_probability(3, 2, 4.0, 1.0, 2.0)
    assert type(dsrt.blocking_probability(3, 2, 4, 1, 2)) is float


# The best spacing.


def precise_blocking(servers, max_deferrals, lam, spacing):
    """P_B at the working precision, from mpmath's matrix exponential; service rate 1."""
    width = servers + 1
    generator = mpmath.matrix(
        stage_generator(servers, max_deferrals, mpmath.mpf(lam), mpmath.mpf(1)).tolist()
    )
    size = generator.rows
    block = mpmath.zeros(2 * size)
    block[:size, :size], block[:size, size:] = generator * spacing, mpmath.eye(size) * spacing
    block = mpmath.expm(block, method="taylor")
    end, integral = block[:size, :size], block[:size, size:]
    onward, exits = mpmath.eye(size), mpmath.zeros(size, width)
    for i, d, k in itertools.product(range(size), range(max_deferrals), range(width)):
        after = min(k + 1, servers)
        if d:
            onward[i, (d - 1) * width + after] -= end[i, d * width + k]
        else:
            exits[i, after] += end[i, k]
    start = mpmath.zeros(size, 1)
    start[servers] = 1
    visits = mpmath.lu_solve(onward.T, start).T
    killed = mpmath.matrix(stage_generator(servers, 1, mpmath.mpf(lam), mpmath.mpf(1)).tolist())
    killed[servers, servers] -= lam
    outside = mpmath.lu_solve(-killed.T, (visits * exits).T)
    times = visits * integral
    lost = times[size - 1] * lam + mpmath.fsum((visits * end)[servers::width])
    return lost / lam / (mpmath.fsum(times) + mpmath.fsum(outside))


@pytest.mark.parametrize(("servers", "deferrals", "lam"), [(1, 2, 0.7), (2, 1, 2.1), (3, 2, 40.0)])
def test_an_interior_optimum_is_the_root_of_the_derivative_at_fifty_digits(servers, deferrals, lam):
    best = dsrt.optimal_spacing(servers, deferrals, lam, 1.0, 100.0)
    assert best.max_deferrals == deferrals
    with mpmath.workdps(50):
        step = mpmath.mpf(10) ** -15

        def slope(spacing):
            return precise_blocking(servers, deferrals, lam, spacing * (1 + step)) - (
                precise_blocking(servers, deferrals, lam, spacing * (1 - step))
            )

        # Two secant steps of the exact slope from 1e-6 around: the error falls to 1e-12 and less.
        found = mpmath.mpf(best.spacing)
        low, high = found * (1 - mpmath.mpf("1e-6")), found * (1 + mpmath.mpf("1e-6"))
        low_slope, high_slope = slope(low), slope(high)
        assert low_slope < 0 < high_slope
        root = high - high_slope * (high - low) / (high_slope - low_slope)
        assert abs(found / root - 1) < 1e-10
        exact = precise_blocking(servers, deferrals, lam, found)
        assert abs(best.blocking_probability / exact - 1) < 1e-13


@given(log_rates, log_rates)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_with_one_server_and_one_deferral_the_closed_form_of_the_best_spacing(lam, mu):
    longest = 100.0 / lam
    best = dsrt.optimal_spacing(1, 1, lam, mu, longest)
    assert best.spacing == pytest.approx(single_server.optimal_spacing(lam, mu), rel=1e-13)
    short = 0.5 * best.spacing
    assert dsrt.optimal_spacing(1, 1, lam, mu, short).spacing == short


@pytest.mark.parametrize(
    ("servers", "max_deferrals", "lam", "max_time"),
    [
        (5, 12, 5.2, 0.5),
        (5, 12, 5.2, 0.1),
        (10, 2, 10.3, 10.0),
        (8, 6, 4.0, 1.0),
        (3, 8, 30.0, 0.05),
    ],
)
def test_nothing_on_a_fine_grid_of_all_spacings_is_better(servers, max_deferrals, lam, max_time):
    best = dsrt.optimal_spacing(servers, max_deferrals, lam, 1.0, max_time)
    assert best.max_deferrals == dsrt.deferrals_in_use(max_deferrals, best.spacing, max_time)
    ends = max_time / np.arange(1, max_deferrals + 1)
    # Both ends of every piece: T/D itself, and just above T/(D + 1).
    spacings = np.concatenate([np.geomspace(1e-4 * max_time, max_time, 160), ends, ends * 1.000001])
    spacings = spacings[spacings <= max_time]
    lost = [
        dsrt.blocking_probability(
            servers, dsrt.deferrals_in_use(max_deferrals, x, max_time), lam, 1.0, x
        )
        for x in spacings
    ]
    assert best.blocking_probability <= min(lost) * (1 + 1e-14)
    assert best.blocking_probability >= min(lost) * (1 - 1e-3)


def test_fixed_spacing_beats_exponential_spacing_of_the_same_mean():
    for servers in (1, 10, 100):
        lam = servers + 0.1 * math.sqrt(servers)
        best = esrt.optimal_rearrival_rate(servers, 2, lam, 1.0, 10.0)
        spacing = 1.0 / best.rearrival_rate
        deferrals = dsrt.deferrals_in_use(2, spacing, 10.0)
        fixed = dsrt.blocking_probability(servers, deferrals, lam, 1.0, spacing)
        assert fixed < best.blocking_probability


def test_endless_stages_are_refused():
    with pytest.raises(ValueError, match="spacing"):
        dsrt.blocking_probability(2, 2, 1.0, 1.0, 1e9)


@pytest.mark.parametrize("longest", [1e3, 1e9])
def test_the_best_spacing_of_one_deferral_at_light_load(longest):
    best = dsrt.optimal_spacing(30, 1, 3.0, 1.0, longest)
    alone = single_deferral.optimal_deferral_time(30, 3.0, 1.0)
    assert best.spacing == alone.deferral_time < 10.0
    lost = dsrt.blocking_probability(30, 1, 3.0, 1.0, best.spacing)
    assert best.blocking_probability == pytest.approx(lost, rel=1e-13)


@pytest.mark.parametrize("system", [(10, 2, 1.0), (6, 3, 0.5), (3, 2, 0.01)])
def test_a_long_patience_does_not_matter(system):
    servers, deferrals, lam = system
    near = dsrt.optimal_spacing(servers, deferrals, lam, 1.0, 1e3)
    far = dsrt.optimal_spacing(servers, deferrals, lam, 1.0, 1e40)
    assert far.spacing == pytest.approx(near.spacing, rel=1e-6)
    assert far.max_deferrals == near.max_deferrals == deferrals


def test_a_spacing_that_rounding_hides_is_refused():
    with pytest.raises(ValueError, match="rounding hides"):
        dsrt.optimal_spacing(30, 2, 3.0, 1.0, 1e3)


@pytest.mark.parametrize("load", [1e-40, 1e-19, 1e19, 1e40, 1e120])
def test_any_ratio_of_rates(load):
    lam, mu = (load * 1e-60, 1e-60) if load > 1 else (1e-60, 1e-60 / load)
    spacing = 1.0 / (lam + mu)
    found = dsrt.blocking_probability(1, 1, lam, mu, spacing)
    assert found == pytest.approx(single_server.blocking_probability(lam, mu, spacing), rel=1e-13)
    assert dsrt.blocking_probability(2, 2, lam, mu, spacing) <= 1.0


def test_more_deferrals_than_are_of_use_cost_nothing():
    few = dsrt.optimal_spacing(40, 30, 41.0, 1.0, 1.0)
    many = dsrt.optimal_spacing(40, 10**9, 41.0, 1.0, 1.0)
    assert few.max_deferrals < 30
    assert many == few


def test_what_costs_too_much_is_refused_before_it_is_tried():
    with pytest.raises(ValueError, match="max_deferrals = "):
        dsrt.blocking_probability(1000, 10**6, 1003.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="max_deferrals"):
        dsrt.configuration_distribution(10**6, 10**4, 1e6, 1.0, 1e-4)


def test_a_million_servers():
    """Lost and gained add up to what Erlang's system loses."""
    lam = 1e6 + 100.0
    lost, gained = dsrt._solve(10**6, 2, 1.0 / lam, lam * 9e-4)
    assert lost + gained == pytest.approx(erlang.erlang_b(10**6, lam), rel=1e-12)


def test_ten_thousand_servers():
    """The gain counts accepted returns, and at the best spacing neither side is lower."""
    lam = 1e4 + 10.0
    best = dsrt.optimal_spacing(10**4, 2, lam, 1.0, 10.0)
    around = [
        dsrt._solve(10**4, 2, 1.0 / lam, lam * best.spacing * factor)
        for factor in (0.99, 1.0, 1.01)
    ]
    erlang_b = erlang.erlang_b(10**4, lam)
    for lost, gained in around:
        assert lost + gained == pytest.approx(erlang_b, rel=1e-12)
    gains = [gained for _, gained in around]
    assert gains[1] == max(gains)
    assert best.blocking_probability == pytest.approx(around[1][0], rel=1e-13)
