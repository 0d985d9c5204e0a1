"""One deferral and any law of its time, against spectral sums in many digits and other routes."""

import math
from operator import mul

import flint
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from qcore.deferral import dsrt, esrt, single_deferral, single_server
from qcore.erlang import erlang_b

log_loads = st.floats(-60, 60).map(lambda e: 10.0**e)


class Spectral:
    """The M/M/K/K generator diagonalised in many digits: laws of the number busy from all busy.

    At light load the terms cancel, to the ratio of the smallest weight to the largest.
    """

    def __init__(self, servers, load):
        self.servers = servers
        self.digits = 50 + math.ceil(2 * servers * max(0.0, -math.log10(load)))
        with mp.workdps(self.digits):
            load = mp.mpf(load)
            matrix = mp.zeros(servers + 1)
            for k in range(servers + 1):
                matrix[k, k] = k + (load if k < servers else 0)
            for k in range(servers):
                matrix[k, k + 1] = matrix[k + 1, k] = -mp.sqrt(load * (k + 1))
            self.rates, vectors = mp.eigsy(matrix)
            law = [load**k / mp.factorial(k) for k in range(servers + 1)]
            self.erlang_b = law[-1] / mp.fsum(law)
            psi = [self.erlang_b * mp.fsum(law[: k + 1]) / law[k] for k in range(servers + 1)]
            self.load = load
            stationary = min(range(servers + 1), key=lambda i: abs(self.rates[i]))
            self.rates[stationary] = mp.mpf(0)
            self.full = [vectors[servers, i] ** 2 for i in range(servers + 1)]
            self.saved = [
                vectors[servers, i]
                * mp.fsum(
                    mp.sqrt(law[k] / law[-1]) * vectors[k, i] * (1 - psi[k]) for k in range(servers)
                )
                for i in range(servers + 1)
            ]

    def lost_and_saved(self, moments):
        """Return E q(X), E g(X); moments(r) = (E exp(-r X), E(1 - exp(-r X))/r)."""
        with mp.workdps(self.digits):
            pairs = [moments(rate) for rate in self.rates]
            lost = mp.fsum(
                c * (self.load * integral + transform)
                for c, (transform, integral) in zip(self.full, pairs, strict=True)
            )
            saved = mp.fsum(c * pair[0] for c, pair in zip(self.saved, pairs, strict=True))
            return lost, saved

    def blocking_and_gain(self, moments):
        lost, saved = self.lost_and_saved(moments)
        with mp.workdps(self.digits):
            return self.erlang_b * lost / (lost + saved), saved / (lost + saved)

    def rises(self, x):
        """Whether the gain of a fixed time still rises there: the sign of g'q - gq'."""
        with mp.workdps(self.digits):
            x = mp.mpf(x)
            lost, saved = self.lost_and_saved(fixed(x))
            decay = [mp.exp(-rate * x) for rate in self.rates]
            more_lost = mp.fsum(
                c * e * (self.load - r)
                for c, e, r in zip(self.full, decay, self.rates, strict=True)
            )
            more_saved = mp.fsum(
                -c * e * r for c, e, r in zip(self.saved, decay, self.rates, strict=True)
            )
            return more_saved * lost > saved * more_lost


def fixed(x):
    x = mp.mpf(x)
    return lambda r: (mp.exp(-r * x), x if r == 0 else -mp.expm1(-r * x) / r)


def mixture(times, masses):
    parts = [(mp.mpf(float(m)), fixed(float(x))) for x, m in zip(times, masses, strict=True)]
    return lambda r: tuple(mp.fsum(m * part(r)[i] for m, part in parts) for i in (0, 1))


def uniform(longest):
    longest = mp.mpf(longest)

    def moments(r):
        if r == 0:
            return mp.mpf(1), longest / 2
        transform = -mp.expm1(-r * longest) / (r * longest)
        return transform, (1 - transform) / r

    return moments


@pytest.mark.parametrize("servers", [1, 2, 5, 14])
@pytest.mark.parametrize("ratio", [1e-60, 1e-14, 1e-3, 0.1, 0.499, 0.501, 0.7, 1.0, 1.4, 10.0])
def test_fixed_times_agree_with_spectral_sums(servers, ratio):
    load = servers * ratio
    reference = Spectral(servers, load)
    for x in (1e-8, 1e-3, 0.03, 0.4, 2.0, 30.0, 64.0, 300.0, 1e5):
        blocking, gain = reference.blocking_and_gain(fixed(x))
        found = single_deferral.blocking_probability(servers, load, 1.0, x)
        # Where Erlang's probability is no float, its product with the rest is none either.
        assert found == pytest.approx(float(blocking), rel=1e-13, abs=1e-300)
        assert single_deferral.relative_gain(servers, load, 1.0, x) == pytest.approx(
            float(gain), rel=1e-13
        )


def ball_erlang_b(servers, load):
    found = [flint.arb(1)]
    for k in range(1, servers + 1):
        found.append(1 / (1 + k / (flint.arb(load) * found[-1])))
    return found


def ball_functionals(servers, load, x):
    """q, g and g'q - gq' straight from their definitions, by the exponential of the generator."""
    load = flint.arb(load)
    generator = flint.arb_mat(servers + 2, servers + 2)
    for k in range(servers + 1):
        up, down = (load if k < servers else flint.arb(0)), flint.arb(k)
        generator[k, k] = -(up + down)
        if k < servers:
            generator[k, k + 1] = up
        if k:
            generator[k, k - 1] = down
    generator[servers, servers + 1] = load  # the last state counts arrivals while all are busy
    stage = (generator * flint.arb(x)).exp()
    law = [stage[servers, k] for k in range(servers + 2)]
    at_k = ball_erlang_b(servers, load)
    worth = [1 - at_k[-1] / at_k[k] for k in range(servers + 1)]
    change = [sum(law[j] * generator[j, k] for j in range(servers + 1)) for k in range(servers + 1)]
    lost, saved = law[servers] + law[servers + 1], sum(map(mul, law, worth))
    more_lost, more_saved = change[servers] + load * law[servers], sum(map(mul, change, worth))
    return lost, saved, more_saved * lost - saved * more_lost


@pytest.mark.parametrize("load", [2.0, 29.9, 30.1, 100.0])
def test_fixed_times_agree_with_ball_arithmetic(load, monkeypatch):
    servers = 60
    monkeypatch.setattr(flint.ctx, "prec", 700)
    for x in (1e-4, 0.3, 8.0):
        lost, saved, _ = ball_functionals(servers, load, x)
        blocking = lost / (lost + saved) * ball_erlang_b(servers, load)[-1]
        gain = saved / (lost + saved)
        assert blocking.rel_accuracy_bits() > 60
        assert gain.rel_accuracy_bits() > 60
        for found, exact in (
            (single_deferral.blocking_probability(servers, load, 1.0, x), blocking),
            (single_deferral.relative_gain(servers, load, 1.0, x), gain),
        ):
            assert abs(float(flint.arb(found) / exact - 1)) < 1e-13


@pytest.mark.parametrize("load", [2.0, 25.0, 55.0])
def test_the_best_time_agrees_with_ball_arithmetic(load, monkeypatch):
    monkeypatch.setattr(flint.ctx, "prec", 700)
    best = single_deferral.optimal_deferral_time(60, load, 1.0).deferral_time
    assert ball_functionals(60, load, best * (1 - 1e-12))[2] > 0
    assert ball_functionals(60, load, best * (1 + 1e-12))[2] < 0


@pytest.mark.parametrize("servers", [1, 30, 200, 1000])
def test_both_methods_agree_where_both_are_accurate(servers):
    for ratio in (0.5, 0.9):
        model = single_deferral._Model(servers, servers * ratio, 1.0)
        for x in np.geomspace(1e-3, 1e3, 13) / servers:
            np.testing.assert_allclose(model._sums(x), model.bounded(x), rtol=1e-12)


@given(log_loads, st.floats(-60, 60).map(lambda e: 10.0**e))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_one_server_has_the_closed_form_at_every_load(load, x):
    assert single_deferral.blocking_probability(1, load, 1.0, x) == pytest.approx(
        single_server.blocking_probability(load, 1.0, x), rel=2e-14
    )
    assert single_deferral.relative_gain(1, load, 1.0, x) == pytest.approx(
        single_server.relative_gain(load, 1.0, x), rel=3e-14
    )


@pytest.mark.parametrize(
    ("servers", "load"), [(1, 0.5), (1, 1e-12), (6, 6.0), (6, 1e-3), (11, 20.0)]
)
def test_random_times_agree_with_spectral_sums(servers, load):
    reference = Spectral(servers, load)
    times, masses = [0.0, 0.2, 1.5], [0.25, 0.5, 0.25]
    laws = [
        (stats.uniform(0.0, 1.7), uniform(1.7)),
        (stats.uniform(0.0, 1e9), uniform(1e9)),  # lost are those of the first part in 1e9
        (stats.rv_discrete(values=(times, masses)), mixture(times, masses)),
        (
            stats.binom(3, 0.4),
            mixture(range(4), [mp.binomial(3, k) * 0.4**k * 0.6 ** (3 - k) for k in range(4)]),
        ),
        (
            stats.gamma(3.0, scale=0.2),
            lambda r: ((1 + r / 5) ** -3, mp.mpf(3) / 5 if r == 0 else (1 - (1 + r / 5) ** -3) / r),
        ),
    ]
    for law, moments in laws:
        blocking, gain = reference.blocking_and_gain(moments)
        assert single_deferral.blocking_probability(servers, load, 1.0, law) == pytest.approx(
            float(blocking), rel=2e-13
        )
        assert single_deferral.relative_gain(servers, load, 1.0, law) == pytest.approx(
            float(gain), rel=2e-13
        )


@pytest.mark.parametrize("servers", [1, 30, 4000])
def test_exponential_times_are_the_markovian_policy(servers):
    arrival_rate = servers + 0.1 * math.sqrt(servers)
    for rate in (0.3, servers ** (2 / 3)):
        assert single_deferral.blocking_probability(
            servers, arrival_rate, 1.0, stats.expon(scale=1.0 / rate)
        ) == pytest.approx(
            esrt.blocking_probability(servers, 1, arrival_rate, 1.0, rate), rel=1e-12
        )


@pytest.mark.parametrize("servers", [20, 1000])
@pytest.mark.parametrize("ratio", [0.8, 1.0, 1.3])
def test_fixed_times_are_deterministic_spacing_with_one_deferral(servers, ratio):
    for x in (0.1 / servers, servers ** (-2 / 3), 1.0):
        assert single_deferral.blocking_probability(
            servers, servers * ratio, 1.0, x
        ) == pytest.approx(
            dsrt.blocking_probability(servers, 1, servers * ratio, 1.0, x), rel=1e-11
        )


def test_the_recursion_forgets_its_start():
    # With twice as many states it gives the same.
    for servers, load in ((10**6, 1.0e6), (10**6, 1.02e6), (10**5, 0.9e5)):
        model = single_deferral._Model(servers, load, 1.0)
        longer = single_deferral._Model(servers, load, 1.0)
        lower = servers - len(model.theta_one)
        assert lower > 0
        theta = 1.0 / (1.0 + load)
        thetas = [theta]
        for k in range(1, servers):
            theta = (1.0 + k * theta) / (1.0 + load + k * theta)
            thetas.append(theta)
        np.testing.assert_allclose(model.theta_one, thetas[lower:], rtol=1e-13)
        longer.theta_one = np.array(thetas)
        for x in (1e-9, 1e-5, 1e-2, 10.0):
            np.testing.assert_allclose(model.functionals(x), longer.functionals(x), rtol=1e-11)


def test_rates_scale_with_the_unit_of_time():
    law = stats.uniform(0.1, 0.5)
    scaled = stats.uniform(0.1e3, 0.5e3)
    assert single_deferral.blocking_probability(5, 4.0, 1.0, law) == pytest.approx(
        single_deferral.blocking_probability(5, 4e-3, 1e-3, scaled), rel=1e-12
    )
    best = single_deferral.optimal_deferral_time(5, 4.0, 1.0)
    assert single_deferral.optimal_deferral_time(5, 4e-3, 1e-3).deferral_time == pytest.approx(
        1e3 * best.deferral_time, rel=1e-9
    )


def test_the_best_time_of_a_lightly_loaded_server():
    best = single_deferral.optimal_deferral_time(1, 1e-8, 1.0)
    assert best.deferral_time == pytest.approx(36.8414, abs=1e-4)


@given(log_loads)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_the_best_time_with_one_server_has_the_closed_form(load):
    best = single_deferral.optimal_deferral_time(1, load, 1.0)
    spacing = single_server.optimal_spacing(load, 1.0)
    assert best.deferral_time == pytest.approx(spacing, rel=1e-13)
    assert best.blocking_probability == pytest.approx(
        single_server.blocking_probability(load, 1.0, spacing), rel=2e-14
    )
    assert best.relative_gain == pytest.approx(
        single_server.relative_gain(load, 1.0, spacing), rel=3e-14
    )


@pytest.mark.parametrize("servers", [2, 5, 14])
@pytest.mark.parametrize("ratio", [1e-15, 1e-4, 0.1, 0.45, 0.7, 1.3, 5.0])
def test_the_best_time_is_where_the_gain_stops_to_rise(servers, ratio):
    load = servers * ratio
    reference = Spectral(servers, load)
    best = single_deferral.optimal_deferral_time(servers, load, 1.0)
    assert reference.rises(best.deferral_time * (1 - 1e-13))
    assert not reference.rises(best.deferral_time * (1 + 1e-13))
    blocking, gain = reference.blocking_and_gain(fixed(best.deferral_time))
    assert best.blocking_probability == pytest.approx(float(blocking), rel=1e-13)
    assert best.relative_gain == pytest.approx(float(gain), rel=1e-13)


@pytest.mark.parametrize(("servers", "load"), [(3, 2.5), (12, 12.0), (9, 20.0)])
def test_the_best_time_is_the_only_stationary_point(servers, load):
    reference = Spectral(servers, load)
    best = single_deferral.optimal_deferral_time(servers, load, 1.0).deferral_time
    times = np.geomspace(1e-2, 100.0, 41) * best
    gains = [reference.blocking_and_gain(fixed(float(x)))[1] for x in times]
    assert gains[:21] == sorted(gains[:21])
    assert gains[20:] == sorted(gains[20:], reverse=True)
    near = [
        reference.blocking_and_gain(fixed(best * (1.0 + shift)))[1] for shift in (-1e-9, 0.0, 1e-9)
    ]
    assert near[1] > near[0]
    assert near[1] > near[2]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    servers=st.integers(1, 200),
    ratio=st.floats(0.3, 3.0),
    times=st.lists(st.floats(0.0, 20.0), min_size=1, max_size=5, unique=True),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_law_beats_the_best_fixed_time(servers, ratio, times, seed):
    load = servers * ratio
    best = single_deferral.optimal_deferral_time(servers, load, 1.0)
    masses = np.random.default_rng(seed).dirichlet(np.ones(len(times)))
    law = stats.rv_discrete(values=(np.array(times) * best.deferral_time, masses))
    blocking = single_deferral.blocking_probability(servers, load, 1.0, law)
    assert best.blocking_probability * (1.0 - 1e-11) <= blocking
    assert blocking <= erlang_b(servers, load) * (1.0 + 1e-12)


@pytest.mark.parametrize(
    ("servers", "load"), [(100, 20.0), (1000, 300.0), (1000, 1000.0), (40, 20.0), (5, 1e-3)]
)
def test_the_loss_falls_to_the_best_time_and_rises_from_it(servers, load):
    best = single_deferral.optimal_deferral_time(servers, load, 1.0)
    factors = [1e-3, 0.1, 0.5, 0.9, 0.99, 1 - 1e-4, 1, 1 + 1e-4, 1.01, 1.1, 2.0, 10.0, 1e3]
    lost = [
        single_deferral.blocking_probability(servers, load, 1.0, factor * best.deferral_time)
        for factor in factors
    ]
    assert lost == sorted(lost[:7], reverse=True) + sorted(lost[7:])
    assert lost[0] > lost[6]
    if best.blocking_probability > 1e-15:  # else a longer time loses too few more to be told
        assert lost[10] > lost[6]
    # Uniformisation, another sum of positive terms, sees the same losses.
    for factor, here in list(zip(factors, lost, strict=True))[1:-1]:
        there = dsrt.blocking_probability(servers, 1, load, 1.0, factor * best.deferral_time)
        assert here == pytest.approx(there, rel=1e-12)


def test_beyond_the_sums_the_best_time_is_as_sharp_as_said(monkeypatch):
    systems = [(2000, 2000 + beta * math.sqrt(2000)) for beta in (1.0, -1.0, -3.0, -4.5)]
    found = [single_deferral.optimal_deferral_time(*system, 1.0) for system in systems]
    monkeypatch.setattr(single_deferral, "_SPECTRUM_UP_TO", 2000)
    for system, by_contour in zip(systems, found, strict=True):
        by_sums = single_deferral.optimal_deferral_time(*system, 1.0)
        assert by_contour.deferral_time == pytest.approx(
            by_sums.deferral_time, rel=1e-14 / erlang_b(*system)
        )


def test_a_best_time_that_cannot_be_told_is_refused():
    with pytest.raises(ValueError, match="blocking probability must be above 1e-280"):
        single_deferral.optimal_deferral_time(1000, 20.0, 1.0)
    with pytest.raises(ValueError, match="servers = 2000: must be at most 1000"):
        single_deferral.optimal_deferral_time(2000, 1500.0, 1.0)


def test_a_limit_on_the_time_binds():
    free = single_deferral.optimal_deferral_time(10, 9.0, 1.0)
    bound = single_deferral.optimal_deferral_time(10, 9.0, 1.0, free.deferral_time / 3)
    assert bound.deferral_time == free.deferral_time / 3
    assert bound.blocking_probability > free.blocking_probability


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 1.0, 1.0, 1.0), "servers"),
        ((1, -1.0, 1.0, 1.0), "arrival_rate"),
        ((1, 1.0, 0.0, 1.0), "service_rate"),
        ((1, 1.0, 1.0, -0.5), "deferral_time"),
        ((1, 1.0, 1.0, math.inf), "deferral_time"),
        ((1, 1.0, 1.0, 1.7e308), "deferral_time"),
        ((1, 1.0, 1.0, stats.norm()), "deferral_time"),
        ((1, 1.0, 1.0, stats.pareto(0.9)), "deferral_time"),
    ],
)
def test_refuses_what_is_no_deferral_time(arguments, name):
    with pytest.raises(ValueError, match=name):
        single_deferral.blocking_probability(*arguments)
