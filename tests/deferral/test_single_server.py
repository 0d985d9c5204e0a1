"""One server, one deferral: against 60-digit arithmetic, the model itself, and bounds."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcore.deferral import single_server

LOAD_GRID = [10.0**e for e in range(-8, 9)] + [0.04, 0.3, 0.99, 1.7, 37.0]

log_rates = st.floats(-8, 8).map(lambda e: 10.0**e)


def reference_gain(arrival_rate, service_rate, mean_time, transform):
    lam, mu = mpmath.mpf(arrival_rate), mpmath.mpf(service_rate)
    total, mean_time = lam + mu, mpmath.mpf(mean_time)
    return mu**2 * (1 - transform(total)) / (total * (total + lam**2 * mean_time))


def reference_blocking(arrival_rate, service_rate, mean_time, transform):
    lam, mu = mpmath.mpf(arrival_rate), mpmath.mpf(service_rate)
    return lam / (lam + mu) * (1 - reference_gain(arrival_rate, service_rate, mean_time, transform))


def fixed(spacing):
    return lambda s: mpmath.exp(-s * mpmath.mpf(spacing))


@pytest.fixture(autouse=True)
def _sixty_digits():
    with mpmath.workdps(60):
        yield


def relative_error(value, reference):
    return float(abs(value / reference - 1))


@pytest.mark.parametrize("load", LOAD_GRID)
def test_blocking_and_gain_against_sixty_digits(load):
    for exponent in np.linspace(-10, 10, 41):
        spacing = 10.0**exponent / (load + 1)
        exact = reference_blocking(load, 1.0, spacing, fixed(spacing))
        gain = reference_gain(load, 1.0, spacing, fixed(spacing))
        value = single_server.blocking_probability(load, 1.0, spacing)
        assert relative_error(value, exact) < 4e-15
        assert relative_error(single_server.relative_gain(load, 1.0, spacing), gain) < 3e-15


@pytest.mark.parametrize("load", LOAD_GRID)
def test_optimal_spacing_against_sixty_digits(load):
    ratio = 1 + 1 / mpmath.mpf(load)
    start = mpmath.log(ratio**2 + 2 + 2 * mpmath.log(ratio))
    root = mpmath.findroot(lambda y: mpmath.log(mpmath.expm1(y) - y) - 2 * mpmath.log(ratio), start)
    exact = root / (mpmath.mpf(load) + 1)
    assert relative_error(single_server.optimal_spacing(load, 1.0), exact) < 2e-15


@pytest.mark.parametrize("load", [0.01, 0.5, 1.0, 20.0])
def test_optimal_spacing_is_the_lambert_form_where_that_is_accurate(load):
    square = (1 + 1 / mpmath.mpf(load)) ** 2
    with mpmath.workdps(60 + int(square / 2)):  # what the Lambert form loses
        y = -mpmath.lambertw(-mpmath.exp(-1 - square), -1).real - 1 - square
        exact = y / (mpmath.mpf(load) + 1)
    assert relative_error(single_server.optimal_spacing(load, 1.0), exact) < 2e-15


@pytest.mark.parametrize("load", LOAD_GRID)
def test_no_other_spacing_is_better(load):
    best = mpmath.mpf(single_server.optimal_spacing(load, 1.0))
    factors = (1e-3, 0.1, 0.5, 0.9, 1 - 1e-9, 1, 1 + 1e-9, 1.1, 2.0, 10.0, 1e3)
    gains = [reference_gain(load, 1, best * f, fixed(best * f)) for f in factors]
    assert gains == sorted(gains[:6]) + sorted(gains[6:], reverse=True)


@given(log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_bounds_on_the_optimal_spacing(arrival_rate, service_rate):
    best = single_server.optimal_spacing(arrival_rate, service_rate)
    rounding = 1 + 1e-14
    assert 1.14619 / (arrival_rate + service_rate) < best * rounding
    assert best < math.sqrt(2) / arrival_rate * rounding


@given(log_rates, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_blocking_is_below_erlang_and_above_the_waiting_place(arrival_rate, service_rate, time):
    load = arrival_rate / service_rate
    erlang, waiting_place = load / (1 + load), load**2 / (1 + load + load**2)
    for probability in (
        single_server.blocking_probability(arrival_rate, service_rate, time),
        single_server.exponential_blocking_probability(arrival_rate, service_rate, 1 / time),
    ):
        assert waiting_place * (1 - 1e-14) <= probability <= erlang * (1 + 1e-14)


@given(log_rates, log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_a_fixed_time_beats_an_exponential_one_of_the_same_mean(arrival_rate, service_rate, time):
    assert single_server.blocking_probability(
        arrival_rate, service_rate, time
    ) <= single_server.exponential_blocking_probability(arrival_rate, service_rate, 1 / time) * (
        1 + 1e-15
    )


def test_scale_of_time_does_not_matter():
    for scale in (1e-50, 1e-6, 3.0, 1e6, 1e50):
        assert single_server.blocking_probability(
            2.0 * scale, 3.0 * scale, 0.7 / scale
        ) == pytest.approx(single_server.blocking_probability(2.0, 3.0, 0.7), rel=1e-14)
        assert single_server.optimal_spacing(2.0 * scale, 3.0 * scale) * scale == pytest.approx(
            single_server.optimal_spacing(2.0, 3.0), rel=1e-14
        )


@pytest.mark.parametrize("load", LOAD_GRID)
def test_exponential_return_against_its_markov_chain(load):
    """Stationary law of the four states (busy servers, deferred customers), exactly."""
    lam, mu = mpmath.mpf(load), mpmath.mpf(1)
    for alpha in (load * 1e-3, load, 1.0, load * 30):
        a = mpmath.mpf(alpha)
        flow = mpmath.matrix(
            [  # states (0,0), (1,0), (0,1), (1,1); columns balance, the last one normalises
                [-lam, lam, 0, 1],
                [mu, -mu - lam, 0, 1],
                [0, a, -lam - a, 1],
                [0, a, mu, 1],
            ]
        )
        law = mpmath.lu_solve(flow.T, mpmath.matrix([0, 0, 0, 1]))
        exact = law[3] * (1 + a / lam)
        value = single_server.exponential_blocking_probability(load, 1.0, alpha)
        assert relative_error(value, exact) < 4e-15


@given(log_rates, log_rates)
@settings(derandomize=True, deadline=None)
def test_the_best_exponential_rate_is_the_arrival_rate(arrival_rate, service_rate):
    around = arrival_rate * np.array([0.1, 0.5, 1.0, 2.0, 10.0])
    blocking = single_server.exponential_blocking_probability(arrival_rate, service_rate, around)
    assert np.all(blocking >= blocking[2] * (1 - 1e-15))
    # The rate and its mirror image λ²/α lose the same.
    assert blocking[[0, 1]] == pytest.approx(blocking[[4, 3]], rel=1e-14)


def test_any_law_of_the_return_time():
    lam, mu, mean = 0.8, 1.3, 2.0
    assert single_server.random_return_blocking_probability(
        lam, mu, mean, lambda s: np.exp(-s * mean)
    ) == single_server.blocking_probability(lam, mu, mean)
    gamma = mpmath.mpf(3)
    exact = reference_blocking(lam, mu, mean, lambda s: (1 + s * mean / gamma) ** -gamma)
    value = single_server.random_return_blocking_probability(
        lam, mu, mean, lambda s: (1 + s * mean / 3) ** -3
    )
    assert relative_error(value, exact) < 4e-15


def test_arrays_broadcast_and_scalars_stay_floats():
    rates, spacings = np.array([[0.5], [2.0]]), np.array([0.1, 1.0, 10.0])
    table = single_server.blocking_probability(rates, 1.0, spacings)
    assert table.shape == (2, 3)
    assert table[1, 2] == single_server.blocking_probability(2.0, 1.0, 10.0)
    assert type(single_server.blocking_probability(2, 1, 10)) is float
    assert type(single_server.optimal_spacing(2, 1)) is float
    assert single_server.optimal_spacing(rates, 1.0).shape == (2, 1)


def test_a_short_patience_is_the_best_spacing():
    free = single_server.optimal_spacing(1.0, 1.0)
    limits = np.array([0.5 * free, free, 2 * free, np.inf])
    best = single_server.optimal_spacing(1.0, 1.0, max_deferral_time=limits)
    assert list(best) == [0.5 * free, free, free, free]


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, "fast", 1e-80, [1.0, 0.0]])
def test_bad_input_is_named(bad):
    with pytest.raises(ValueError, match="arrival_rate = "):
        single_server.blocking_probability(bad, 1.0, 1.0)
    with pytest.raises(ValueError, match="service_rate = "):
        single_server.relative_gain(1.0, bad, 1.0)
    with pytest.raises(ValueError, match="spacing = "):
        single_server.blocking_probability(1.0, 1.0, bad)
    with pytest.raises(ValueError, match="rearrival_rate = "):
        single_server.exponential_blocking_probability(1.0, 1.0, bad)
    with pytest.raises(ValueError, match="service_rate = "):
        single_server.optimal_spacing(1.0, bad)


def test_an_impossible_transform_is_refused():
    for transform in (lambda s: 1.5, lambda s: -0.1, lambda s: 0.5 * np.exp(-s)):
        with pytest.raises(ValueError, match="laplace_transform"):
            single_server.random_return_blocking_probability(1.0, 1.0, 1.0, transform)
    with pytest.raises(ValueError, match="max_deferral_time = 0"):
        single_server.optimal_spacing(1.0, 1.0, max_deferral_time=0.0)
