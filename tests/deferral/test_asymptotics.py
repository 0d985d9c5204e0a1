"""Deferrals in large systems: limits and expansions against exact optima and 50-digit arithmetic.

Where an expansion goes in powers of K^{-1/6}, the numbers of servers are sixth powers times a
constant, so that the extrapolation to K = infinity is a polynomial in 1/2, 1/4, ...
"""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats
from scipy.linalg import solve_banded
from scipy.optimize import minimize_scalar

from derivations.deferral import near_full
from qcore.deferral import asymptotics, dsrt, esrt, single_deferral
from qcore.deferral.asymptotics import _constants, _two_errors
from qcore.erlang import erlang_b

BETAS = (-30.0, -4.0, -0.5, 0.0, 0.1, 2.999, 3.001, 10.0, 30.0)


def extrapolate(steps, values):
    """Return the value at step 0 of the polynomial through the points."""
    total = 0.0
    for i, value in enumerate(values):
        others = [steps[j] for j in range(len(steps)) if j != i]
        total += value * math.prod(other / (other - steps[i]) for other in others)
    return total


def esrt_optimum(servers, deferrals, arrival_rate, guess):
    """Return (best spacing, blocking probability) with the number of deferrals fixed."""
    found = minimize_scalar(
        lambda log_rate: math.log(
            esrt.blocking_probability(
                servers, deferrals, arrival_rate, 1.0, float(math.exp(log_rate))
            )
        ),
        bounds=(-math.log(guess) - 1.5, -math.log(guess) + 1.5),
        method="bounded",
        options={"xatol": 1e-8},
    )
    return math.exp(-found.x), math.exp(found.fun)


def dsrt_optimum(servers, deferrals, arrival_rate, guess):
    found = minimize_scalar(
        lambda log_x: math.log(
            dsrt.blocking_probability(servers, deferrals, arrival_rate, 1.0, float(math.exp(log_x)))
        ),
        bounds=(math.log(guess) - 0.5, math.log(guess) + 0.5),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return math.exp(found.x), math.exp(found.fun)


def two_orders(expansion, servers):
    """Return the best spacing to the two orders that are known for a fixed number of deferrals."""
    return (expansion.leading + expansion.correction * servers ** (-1 / 6)) * servers ** (-2 / 3)


def hazard(beta):
    beta = mp.mpf(beta)
    return mp.npdf(beta) / (mp.erfc(beta / mp.sqrt(2)) / 2)


def test_hazard_and_slot_value_against_fifty_digits():
    with mp.workdps(50):
        exact = [hazard(beta) for beta in BETAS]
        slot = [float(h - mp.mpf(beta)) for h, beta in zip(exact, BETAS, strict=True)]
        exact = [float(h) for h in exact]
    assert asymptotics.scaled_erlang_b(np.array(BETAS)) == pytest.approx(exact, rel=2e-13)
    assert asymptotics.deferral_slot_value(np.array(BETAS)) == pytest.approx(slot, rel=1e-14)


@pytest.mark.parametrize("load", [0.4, 0.97, 1.0, 1.0 + 1e-9, 1.03, 5.0])
def test_waiting_room_against_the_recursion(load):
    for servers in (1, 30, 400):
        with mp.workdps(50):
            exact_load = mp.mpf(servers * load)
            inverse = mp.mpf(1)
            for k in range(1, servers + 1):
                inverse = 1 + k / exact_load * inverse
            exact = {0: 1 / inverse}
            for place in range(1, 41):
                inverse = 1 + servers / exact_load * inverse
                exact[place] = 1 / inverse
        for places in (0, 1, 7, 40):
            assert asymptotics.waiting_room_blocking(
                servers, places, servers * load, 1.0
            ) == pytest.approx(float(exact[places]), rel=2e-13)


def test_extreme_waiting_rooms_are_probabilities():
    blocking = asymptotics.waiting_room_blocking(1000, [0, 50, 10**6], [20.0, 20.0, 5000.0], 1.0)
    assert np.all((blocking >= 0.0) & (blocking <= 1.0))
    assert blocking[2] == pytest.approx(0.8, rel=1e-12)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    servers=st.integers(1, 60),
    deferrals=st.integers(1, 12),
    ratio=st.floats(0.2, 4.0),
    spacing=st.floats(1e-3, 10.0),
)
def test_no_policy_is_below_waiting_room_and_floor(servers, deferrals, ratio, spacing):
    rate = servers * ratio
    least = asymptotics.waiting_room_blocking(servers, deferrals, rate, 1.0)
    assert least >= asymptotics.throughput_floor(servers, rate, 1.0)
    for blocking in (
        esrt.blocking_probability(servers, deferrals, rate, 1.0, 1.0 / spacing),
        dsrt.blocking_probability(servers, deferrals, rate, 1.0, spacing),
    ):
        assert blocking >= least * (1.0 - 1e-10)


def extrapolated_errors(expansion, roots):
    """Return the relative errors of both coefficients from exact optima at roots**6 servers."""
    steps, scaled = [1 / root for root in roots], []
    for root in roots:
        servers = root**6
        arrival_rate = servers + expansion.beta * math.sqrt(servers)
        best, _ = esrt_optimum(
            servers, expansion.max_deferrals, arrival_rate, two_orders(expansion, servers)
        )
        scaled.append(best * root**4)
    slopes = [(value - expansion.leading) / step for value, step in zip(scaled, steps, strict=True)]
    return (
        abs(extrapolate(steps, scaled) / expansion.leading - 1.0),
        abs(extrapolate(steps, slopes) - expansion.correction) / max(1.0, expansion.correction),
    )


@pytest.mark.parametrize("deferrals", [1, 2])
@pytest.mark.parametrize("beta", [-0.7, 0.1, 1.0])
def test_exponential_spacing_has_both_coefficients(deferrals, beta):
    leading, correction = extrapolated_errors(
        asymptotics.esrt_spacing(deferrals, beta), (4, 6, 8, 10)
    )
    assert leading < 0.01
    assert correction < 0.015


@pytest.mark.parametrize("beta", [-0.7, 1.0])
def test_more_deferrals_converge_to_both_coefficients(beta):
    # More deferrals need more servers: the errors have to fall, not only to be small.
    expansion = asymptotics.esrt_spacing(3, beta)
    first = extrapolated_errors(expansion, (3, 4, 6, 8))
    second = extrapolated_errors(expansion, (4, 6, 8, 10))
    for before, after in zip(first, second, strict=True):
        assert after < 0.75 * before
        assert after < 0.04


@pytest.mark.parametrize("beta", [-0.7, 0.1, 1.0])
def test_one_fixed_time_has_both_coefficients(beta):
    expansion = asymptotics.dsrt_spacing(1, beta)
    assert expansion.correction / math.sqrt(expansion.leading) == pytest.approx(
        math.sqrt(math.pi) / 4, rel=1e-13
    )
    steps, scaled = [1 / 6, 1 / 8, 1 / 12, 1 / 16], []
    for step in steps:
        servers = round(step**-6)
        arrival_rate = servers + beta * math.sqrt(servers)
        best = single_deferral.optimal_deferral_time(servers, arrival_rate, 1.0).deferral_time
        scaled.append(best * servers ** (2 / 3))
    assert extrapolate(steps, scaled) == pytest.approx(expansion.leading, rel=1e-3)
    slopes = [(value - expansion.leading) / step for value, step in zip(scaled, steps, strict=True)]
    assert extrapolate(steps, slopes) == pytest.approx(expansion.correction, rel=4e-3)


@pytest.mark.parametrize("deferrals", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_fixed_spacing_has_both_coefficients(deferrals):
    expansion = asymptotics.dsrt_spacing(deferrals, 0.1)
    steps, scaled, excess = [1 / 4, 1 / 6, 1 / 8], [], []
    for step in steps:
        servers = round(step**-6)
        arrival_rate = servers + 0.1 * math.sqrt(servers)
        best, blocking = dsrt_optimum(
            servers, deferrals, arrival_rate, two_orders(expansion, servers)
        )
        scaled.append(best * servers ** (2 / 3))
        least = asymptotics.waiting_room_blocking(servers, deferrals, arrival_rate, 1.0)
        excess.append((blocking - least) * servers ** (4 / 3))
    assert extrapolate(steps, scaled) == pytest.approx(expansion.leading, rel=0.02)
    slopes = [(value - expansion.leading) / step for value, step in zip(scaled, steps, strict=True)]
    assert extrapolate(steps, slopes) == pytest.approx(expansion.correction, rel=0.02)
    assert extrapolate(steps, excess) == pytest.approx(expansion.excess, rel=0.05)


def walk_with_deferrals(deferrals, length):
    """Return (weighted lost returns)/(all lost) of a phase, by steps of the lattice walk.

    Idle servers walk up and down at rate 1, returns come after each ``length``; a return that finds
    nobody idle with d deferred weighs D - d + 1.
    """
    events = 2.0 * length
    count = int(events + 10.0 * math.sqrt(events) + 30)
    taken = stats.poisson(events).pmf(np.arange(count))
    remaining = stats.poisson(events).sf(np.arange(count)) / 2.0
    size = int(9 * math.sqrt(events * (deferrals + 3))) + 40
    law = np.zeros((deferrals + 1, size + 1))
    law[1, 0] = 1.0
    weighted = lost = 0.0
    while law.sum() > 1e-14:
        ends, now = np.zeros_like(law), law
        for step in range(count):
            ends += taken[step] * now
            lost += remaining[step] * now[deferrals, 0]
            following = np.zeros_like(now)
            following[:, 1:] += now[:, :-1] / 2
            following[:, :-1] += now[:, 1:] / 2
            following[2:, 0] += now[1:-1, 0] / 2
            following[deferrals, 0] += now[deferrals, 0] / 2
            now = following
        lost += ends[:, 0].sum()
        weighted += sum((deferrals - d + 1) * ends[d, 0] for d in range(1, deferrals + 1))
        law = np.zeros_like(law)
        law[1:-1, :-1] = ends[2:, 1:]
        law[1:-1, 0] += ends[2:, 0]
    return weighted / lost


@pytest.mark.parametrize("deferrals", [1, 2, 3, 4])
def test_correction_is_that_of_the_lattice_walk(deferrals):
    constants = _constants.deterministic(deferrals)
    # weighted/lost = kappa M/(2t) (1 + j/sqrt t + ...).
    scale = constants.balance * constants.cost / 2.0
    roots = (4.0, 6.0, 8.0, 12.0)
    changes = [
        (walk_with_deferrals(deferrals, root**2) * root**2 / scale - 1.0) * root for root in roots
    ]
    found = extrapolate([1.0 / root for root in roots], changes)
    assert found == pytest.approx(constants.correction, rel=1e-3)


def test_constants_with_one_deferral_are_elementary():
    fixed = _constants.deterministic(1)
    assert fixed.balance == pytest.approx(2 / math.sqrt(math.pi), rel=1e-14)
    assert fixed.cost == pytest.approx(math.sqrt(math.pi) / 2, rel=1e-14)
    random = _constants.exponential(1)
    assert (random.balance, random.cost, random.correction) == pytest.approx((2, 1, 0), rel=1e-14)


def test_fixed_spacing_costs_less_than_random_spacing():
    for deferrals in range(1, 21):
        fixed = asymptotics.dsrt_spacing(deferrals, 0.1)
        random = asymptotics.esrt_spacing(deferrals, 0.1)
        assert fixed.excess < random.excess
        assert fixed.leading < random.leading


@pytest.mark.parametrize("beta", [-0.5, 0.1])
@pytest.mark.parametrize("deferrals", [1, 2, 4])
def test_a_slot_is_worth_a_waiting_place(deferrals, beta):
    expansion = asymptotics.esrt_spacing(deferrals, beta)
    steps, worth = [1 / 6, 1 / 8, 1 / 10], []
    for step in steps:
        servers = round(step**-6)
        arrival_rate = servers + beta * math.sqrt(servers)
        erlang = asymptotics.waiting_room_blocking(servers, 0, arrival_rate, 1.0)
        _, blocking = esrt_optimum(servers, deferrals, arrival_rate, two_orders(expansion, servers))
        worth.append((1.0 - blocking / erlang) * math.sqrt(servers) / deferrals)
    # What is missing is of the relative order K^{-1/3}, with terms in K^{-1/2} after it.
    limit = extrapolate([step**2 for step in steps], worth)
    assert limit == pytest.approx(asymptotics.deferral_slot_value(beta), rel=0.01)


@pytest.mark.parametrize(("beta", "delta"), [(0.0, 2.0), (-1.0, 2.0), (1.0, 2.0)])
def test_many_deferrals_reach_the_waiting_room(beta, delta):
    expansion = asymptotics.many_deferrals(beta, delta)
    steps, rates, excess, scaled = [1 / 3, 1 / 4, 1 / 5], [], [], []
    for step in steps:
        servers = round(step**-6)
        deferrals = round(delta * math.sqrt(servers))
        arrival_rate = servers + beta * math.sqrt(servers)
        guess = servers ** (-2 / 3) / expansion.rearrival_rate
        best, blocking = esrt_optimum(servers, deferrals, arrival_rate, guess)
        least = asymptotics.waiting_room_blocking(servers, deferrals, arrival_rate, 1.0)
        rates.append(servers ** (-2 / 3) / best)
        excess.append((blocking - least) * servers ** (2 / 3))
        scaled.append(least * math.sqrt(servers))
    assert extrapolate(steps, rates) == pytest.approx(expansion.rearrival_rate, rel=0.04)
    assert extrapolate(steps, excess) == pytest.approx(expansion.excess, rel=0.02)
    limit = extrapolate([step**3 for step in steps], scaled)
    assert limit == pytest.approx(expansion.scaled_blocking, rel=1e-3)


def test_many_deferrals_at_zero_beta_is_the_limit_of_small_beta():
    for delta in (0.3, 5.0):
        at_zero = asymptotics.many_deferrals(0.0, delta)
        hazard_at_zero = math.sqrt(2 / math.pi)
        assert at_zero.rearrival_rate**3 == pytest.approx(
            0.5 + 1 / (hazard_at_zero * delta), rel=1e-13
        )
        for beta in (-1e-6, 1e-6):
            near = asymptotics.many_deferrals(beta, delta)
            assert near.rearrival_rate == pytest.approx(at_zero.rearrival_rate, rel=1e-4)
            assert near.excess == pytest.approx(at_zero.excess, rel=1e-4)


def test_a_mean_time_binds_at_the_predicted_rate():
    steps, rates, excess = [1 / 2, 1 / 3, 1 / 4], [], []
    for step in steps:
        servers = round(step**-6)
        candidates = range(round(0.8 * servers ** (2 / 3)), round(1.5 * servers ** (2 / 3)))
        losses = {
            deferrals: esrt.blocking_probability(
                servers, deferrals, float(servers), 1.0, float(deferrals)
            )
            for deferrals in candidates[:: max(1, len(candidates) // 60)]
        }
        best = min(losses, key=losses.get)
        rates.append(best * servers ** (-2 / 3))
        excess.append(losses[best] * servers ** (2 / 3))
    limit = asymptotics.mean_time_limit(0.0, 1.0)
    assert rates[-1] == pytest.approx(limit.rearrival_rate, rel=0.05)
    assert extrapolate(steps, excess) == pytest.approx(limit.excess, rel=0.06)


@pytest.mark.parametrize("servers", [10**5, 10**9])
@pytest.mark.parametrize(("beta", "time"), [(-1.0, 1.0), (-0.5, 3.0), (-2.0, 0.3)])
def test_below_capacity_the_two_losses_are_balanced(servers, beta, time):
    found = asymptotics.underloaded_time_limit(servers, beta, time)
    with mp.workdps(50):
        h, size, root, time = hazard(beta), -mp.mpf(beta), mp.sqrt(servers), mp.mpf(time)

        def loss(a):
            full = h * size / (h + size) * mp.exp(time - size * a * time) / root
            return full + h / (h + size) * a**2 / servers

        best = mp.lambertw(size**3 * time**2 * mp.exp(time) * root / 2).real / (size * time)
        below, least, above = (loss(best * mp.mpf(factor)) for factor in ("0.999", "1", "1.001"))
    assert least < min(below, above)
    assert found.rearrival_rate == pytest.approx(float(best * root), rel=1e-12)
    assert found.blocking_probability == pytest.approx(float(least), rel=1e-12)


def test_below_capacity_units_of_time_do_not_matter():
    one = asymptotics.underloaded_time_limit(1000, -1.0, 1.0)
    other = asymptotics.underloaded_time_limit(1000, -1.0, 4.0, service_rate=0.25)
    assert other.rearrival_rate == pytest.approx(one.rearrival_rate / 4, rel=1e-14)
    assert other.blocking_probability == pytest.approx(one.blocking_probability, rel=1e-14)


def test_below_capacity_exact_optima_have_that_order():
    for servers, within in ((1000, 0.25), (10**4, 0.14)):
        limit = asymptotics.underloaded_time_limit(servers, -1.0, 1.0)
        exact = esrt.optimal_rearrival_rate(
            servers, round(2 * limit.rearrival_rate), servers - math.sqrt(servers), 1.0, 1.0
        )
        assert exact.rearrival_rate == pytest.approx(limit.rearrival_rate, rel=within)
        assert exact.blocking_probability == pytest.approx(limit.blocking_probability, rel=within)


def test_a_mean_time_in_overload_leads_to_the_root():
    for b in (50.0, 1000.0):
        limit = asymptotics.mean_time_limit(b, 1.0)
        assert limit.rearrival_rate == pytest.approx(math.sqrt(b), rel=0.02)


# From one deferral to the square root of the servers


def walk_cost(deferrals, worth, stage):
    """Return the two errors per customer lost of the walk with returns at rate 1/stage.

    Level by level from all deferred: the balance of the walk W = 0, 1, ... with rates one.
    """
    size = min(int(9 * math.sqrt(2 * deferrals * stage)), int(40 * stage)) + 60
    idle = np.arange(size + 1)
    bands = np.array([[-1.0] * size, [2 + 1 / stage] * size, [-1.0] * size])
    at_zero, above = 1.0, np.zeros(size + 1)
    away = weighted = 0.0
    lost = 1.0
    for missing in range(deferrals):
        right = np.append(above[2:], 0.0) / stage
        right[0] += at_zero
        level = np.append(at_zero, solve_banded((1, 1), bands, right))
        away += level @ np.minimum(idle, deferrals - missing)
        weighted += (missing + 1) * at_zero / stage
        lost += at_zero / stage
        above, at_zero = level, level.sum() / stage
    return away / lost, worth * weighted / lost


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_deferrals_of_the_order_of_a_stage_cost_what_the_walk_says(ratio):
    stages = (50, 100, 200, 400)
    found = [walk_cost(round(ratio * stage), 1.0, stage) for stage in stages]
    steps = [stage**-0.5 for stage in stages]
    idle = [first / stage**2 for stage, (first, _) in zip(stages, found, strict=True)]
    lost = [second for _, second in found]
    ratios = np.array([ratio])
    assert extrapolate(steps, idle) == pytest.approx(_two_errors.idle_growth(ratios)[0], rel=1e-3)
    assert extrapolate(steps, lost) == pytest.approx(_two_errors.return_growth(ratios)[0], rel=1e-3)


@pytest.mark.parametrize("ratio", [1e-9, 1e-3, 0.7, 3.0, 40.0])
def test_growth_of_both_errors_against_their_integrals(ratio):
    def longer(y):
        """Return the mean time of an excursion of age tau with more than y - tau idle."""

        def density(tau):
            root = math.sqrt(tau)
            return math.exp(-(y**2) / (4 * tau)) / (math.sqrt(math.pi) * root) - 0.5 * math.erfc(
                y / (2 * root)
            )

        return integrate.quad(density, 0, y, epsabs=0, epsrel=1e-10)[0]

    def slope_of_scale(x):
        return 0.5 * (1 + math.erf(math.sqrt(x) / 2)) + math.exp(-x / 4) / math.sqrt(math.pi * x)

    returning = integrate.quad(lambda z: z * slope_of_scale(z), 0, ratio, epsabs=0, epsrel=1e-10)
    idling = integrate.quad(
        lambda y: float(_two_errors.scale_function(ratio - y)) * longer(y),
        0,
        ratio,
        epsabs=0,
        epsrel=1e-9,
    )
    ratios = np.array([ratio])
    assert _two_errors.return_growth(ratios)[0] == pytest.approx(returning[0], rel=1e-9)
    assert _two_errors.idle_growth(ratios)[0] == pytest.approx(idling[0], rel=1e-7)


def test_idle_growth_where_its_quadrature_is_cut_off():
    below, above, far = _two_errors.idle_growth(np.array([149.999, 150.001, 1e4]))
    assert above - below == pytest.approx(0.002, rel=1e-4)
    assert far - above == pytest.approx(1e4 - 150.001, rel=1e-12)


def test_the_scale_function_has_its_transform():
    for rate in (0.3, 2.0, 40.0):
        with mp.workdps(20):
            transform = mp.quad(
                lambda x, rate=rate: (
                    mp.exp(-rate * x) * float(_two_errors.scale_function(float(x)))
                ),
                [0, 0.01, 0.1, 1, 10, 100, 200],
            )
        exponent = rate - (math.sqrt(1 + 4 * rate) - 1) / 2
        assert float(transform) * exponent == pytest.approx(1.0, rel=1e-7)


def test_the_first_filling_against_its_sum():
    k = np.arange(1, 400_001)
    for ratio in (0.05, 1.0, 7.0):
        width = ratio / np.sqrt(2 * k)  # mean of (1 - x/width) x phi(x) over 0 < x < width
        inner = (1 - np.exp(-(width**2) / 2)) / math.sqrt(2 * math.pi) - (
            special.gammainc(1.5, width**2 / 2) / 2 / width
        )
        exact = (4 / (ratio * np.sqrt(2 * k)) * inner).sum()
        exact += ratio / (3 * math.sqrt(math.pi * 400_000.5))
        assert _two_errors.filling(np.array([ratio]))[0] == pytest.approx(exact, rel=1e-4)


def exact_optimum(servers, deferrals, beta, guess):
    """Return the best spacing and the loss beyond as many waiting places; exponential spacing."""
    load = servers + beta * math.sqrt(servers)
    found = minimize_scalar(
        lambda log_x: near_full.loss(servers, deferrals, load, math.exp(-log_x)),
        bounds=(math.log(guess) - 1.0, math.log(guess) + 1.0),
        method="bounded",
        options={"xatol": 1e-5},
    )
    return math.exp(found.x), found.fun - asymptotics.waiting_room_blocking(
        servers, deferrals, load, 1.0
    )


@pytest.mark.parametrize("servers", [1000, 10**4])
def test_errors_of_the_best_spacing_are_below_their_estimates(servers):
    served, shares = 0, []
    for beta in (-4.0, -1.5, 0.0, 1.5, 4.0):
        for delta in (0.0, 0.1, 0.3, 1.0, 2.0):
            deferrals = max(1, round(delta * math.sqrt(servers)))
            try:
                found = asymptotics.esrt_spacing(deferrals, beta).estimate(servers)
            except ValueError:
                continue
            best, excess = exact_optimum(servers, deferrals, beta, found.spacing)
            served += 1
            shares.append(abs(found.spacing / best - 1.0) / found.spacing_error)
            shares.append(abs(found.excess / excess - 1.0) / found.excess_error)
    assert served >= {1000: 7, 10**4: 15}[servers]
    assert 0.2 < max(shares) < 1.0


def test_many_slots_no_longer_have_a_spacing_far_too_long():
    for deferrals in (1, 3, 10, 20, 60, 200, 1000):
        found = asymptotics.esrt_spacing(deferrals, 0.1).estimate(10**5)
        best, excess = exact_optimum(10**5, deferrals, 0.1, found.spacing)
        assert found.spacing == pytest.approx(best, rel=0.045)
        assert found.excess == pytest.approx(excess, rel=0.15)
    # The coefficients alone, at twenty slots, are two and a half times too long.
    expansion = asymptotics.esrt_spacing(20, 0.1)
    coefficients = (expansion.leading + expansion.correction / 10) / 10**4
    assert coefficients > 2.4 * expansion.spacing(10**6)


@pytest.mark.parametrize(("servers", "deferrals"), [(1000, 1), (3000, 4)])
def test_errors_of_the_best_fixed_spacing_are_below_their_estimates(servers, deferrals):
    load = servers + 0.1 * math.sqrt(servers)
    found = asymptotics.dsrt_spacing(deferrals, 0.1).estimate(servers)
    best, blocking = dsrt_optimum(servers, deferrals, load, found.spacing)
    excess = blocking - asymptotics.waiting_room_blocking(servers, deferrals, load, 1.0)
    assert found.spacing == pytest.approx(best, rel=found.spacing_error)
    assert found.excess == pytest.approx(excess, rel=found.excess_error)


@pytest.mark.parametrize("expand", [asymptotics.esrt_spacing, asymptotics.dsrt_spacing])
def test_few_deferrals_in_huge_systems_have_both_orders(expand):
    for deferrals in (1, 4):
        one = expand(deferrals, -0.5)
        roots = (300.0, 600.0, 1000.0)
        rests = [
            (one.spacing(root**6) * root**4 - one.leading) * root - one.correction for root in roots
        ]
        # What remains is of the order K^{-1/6} beside the correction.
        scaled = [rest * root for rest, root in zip(rests, roots, strict=True)]
        assert scaled[2] == pytest.approx(scaled[1], rel=0.2, abs=0.05)
        assert abs(rests[2]) < 0.05 * max(one.correction, one.leading)


def test_very_many_deferrals_have_the_law_of_many():
    many = asymptotics.many_deferrals(-0.7, 0.5)
    servers = 10**12
    found = asymptotics.esrt_spacing(500_000, -0.7).estimate(servers)
    assert 1.0 / found.spacing == pytest.approx(many.rearrival_rate * servers ** (2 / 3), rel=0.02)
    assert found.excess == pytest.approx(many.excess * servers ** (-2 / 3), rel=0.02)


def test_exponential_constants_against_thirty_digits():
    for deferrals in (1, 2, 17, 300, 3000):
        found = _constants.exponential(deferrals)
        with mp.workdps(30):
            balance = 1.5 * mp.sqrt(mp.pi) * mp.gammaprod([deferrals], [deferrals + mp.mpf(1.5)])
            correction = mp.fsum(
                (i + 1) * mp.rf(mp.mpf(0.5), i - 1) / mp.factorial(i - 1)
                for i in range(1, deferrals)
            )
        assert found.balance == pytest.approx(float(balance), rel=1e-12)
        assert found.correction == pytest.approx(float(correction), rel=1e-12)


def test_many_deferrals_are_computed_to_the_ends_of_their_range():
    tiny = asymptotics.many_deferrals(0.1, 1e-170)
    # A^3 -> 1/((h - beta) delta), excess -> 3/2 h delta/A
    h = asymptotics.scaled_erlang_b(0.1)
    assert tiny.rearrival_rate == pytest.approx((1 / ((h - 0.1) * 1e-170)) ** (1 / 3), rel=1e-13)
    assert tiny.excess == pytest.approx(1.5 * h * 1e-170 / tiny.rearrival_rate, rel=1e-13)
    for beta in (-30.0, -3.0, 3.0, 30.0):
        for delta in (1e-200, 1e-9, 0.4, 20.0):
            found = asymptotics.many_deferrals(beta, delta)
            with mp.workdps(60):
                b, d, h = mp.mpf(beta), mp.mpf(delta), hazard(beta)
                idle = d + h * (mp.expm1(b * d) - b * d) / b**2 if delta > 1e-6 else d
                lost = (mp.expm1(-b * d) + b * d) / b**2 if delta > 1e-6 else d**2 / 2
                rate = mp.cbrt(idle / (2 * (h - b) * lost))
            assert found.rearrival_rate == pytest.approx(float(rate), rel=1e-6)
            assert 0.0 <= found.scaled_blocking < math.inf


# A limit on the mean time


@pytest.mark.parametrize("servers", [100, 1000, 10**4])
def test_errors_under_a_mean_time_limit_are_below_their_estimate(servers):
    served, shares = 0, []
    for beta in (-4.0, -1.0, -0.2, 0.0, 0.5, 2.0):
        for time in (0.1, 1.0, 10.0):
            try:
                found = asymptotics.mean_time_limit(beta * servers ** (1 / 6), time, servers)
            except ValueError:
                continue
            guess = found.rearrival_rate * servers ** (2 / 3) * time
            if guess * servers**0.5 > 2e6:
                continue
            for factor in (1.0, 0.75):
                try:
                    _, loss = near_full.best_deferrals(servers, beta, time, factor * guess)
                    break
                except ValueError:
                    continue
            served += 1
            shares.append(abs(found.blocking_probability / loss - 1.0) / found.relative_error)
            floor = 1.0 - servers / (servers + beta * math.sqrt(servers))
            assert found.blocking_probability - floor == pytest.approx(
                found.excess * servers ** (-2 / 3), rel=1e-9
            )
    assert served >= {100: 8, 1000: 12, 10**4: 10}[servers]
    assert 0.2 < max(shares) < 1.0


@pytest.mark.parametrize(("servers", "percent"), [(100, 12.5), (1000, 6.6), (10**4, 3.5)])
def test_the_mass_left_out_explains_most_of_the_error(servers, percent):
    finite = asymptotics.mean_time_limit(0.0, 1.0, servers)
    limit = asymptotics.mean_time_limit(0.0, 1.0)
    guess = finite.rearrival_rate * servers ** (2 / 3) / 1.2
    _, loss = near_full.best_deferrals(servers, 0.0, 1.0, guess)
    assert 100 * (finite.blocking_probability / loss - 1.0) == pytest.approx(percent, abs=0.06)
    far = {100: 88, 1000: 54, 10**4: 34}[servers]
    assert 100 * (limit.excess * servers ** (-2 / 3) / loss - 1.0) == pytest.approx(far, abs=0.6)


def test_a_mean_time_limit_tends_to_its_limit():
    for b in (-3.0, 0.0, 4.0):
        limit = asymptotics.mean_time_limit(b, 1.0)
        near = asymptotics.mean_time_limit(b, 1.0, servers=1e18)
        assert near.excess == pytest.approx(limit.excess, rel=0.01)
        assert near.rearrival_rate == pytest.approx(limit.rearrival_rate, rel=0.01)


@pytest.mark.parametrize("servers", [1000, 10**4])
def test_below_capacity_the_error_is_below_its_estimate_and_erlangs_bound_holds(servers):
    served = 0
    for beta in (-3.0, -1.0, -0.5, -0.2):
        for time in (0.1, 0.3, 1.0, 3.0):
            try:
                found = asymptotics.underloaded_time_limit(servers, beta, time)
                better = asymptotics.mean_time_limit(beta * servers ** (1 / 6), time, servers)
            except ValueError:
                continue
            served += 1
            guess = better.rearrival_rate * servers ** (2 / 3) * time
            _, loss = near_full.best_deferrals(servers, beta, time, guess)
            assert abs(found.blocking_probability / loss - 1.0) < found.relative_error
            load = servers + beta * math.sqrt(servers)
            assert found.blocking_probability <= erlang_b(servers, load)
    assert served >= 6


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: asymptotics.scaled_erlang_b(31.0), "beta"),
        (lambda: asymptotics.esrt_spacing(0, 0.1), "max_deferrals"),
        (lambda: asymptotics.dsrt_spacing(1.5, 0.1), "max_deferrals"),
        (lambda: asymptotics.many_deferrals(0.1, 0.0), "delta"),
        (lambda: asymptotics.many_deferrals(0.1, 5e-324), "delta"),
        (lambda: asymptotics.mean_time_limit(0.1, -1.0), "max_deferral_time"),
        (lambda: asymptotics.underloaded_time_limit(100, 0.0, 1.0), "beta"),
        (lambda: asymptotics.underloaded_time_limit(100, -1.0, 1e4), "max_deferral_time"),
        (lambda: asymptotics.throughput_floor(0, 1.0, 1.0), "servers"),
        (
            lambda: asymptotics.underloaded_time_limit(1000, -0.05, 10.0),
            "the expansion is not near",
        ),
        (
            lambda: asymptotics.underloaded_time_limit(10**9, -0.01, 1.0),
            "the expansion is not near",
        ),
        (lambda: asymptotics.underloaded_time_limit(10, -8.0, 100.0), "must be positive"),
        (lambda: asymptotics.mean_time_limit(-50.0, 1.0, servers=100), "must be positive"),
        (lambda: asymptotics.mean_time_limit(0.0, 1.0, servers=5), "relative error may be"),
        (lambda: asymptotics.mean_time_limit(0.0, 1.0, servers=0), "servers = 0"),
        (lambda: asymptotics.esrt_spacing(1, 0.1).spacing(2), "relative errors may be"),
        (lambda: asymptotics.esrt_spacing(1, -9.0).spacing(50), "must be positive"),
        (lambda: asymptotics.esrt_spacing(300, 0.1).spacing(100), "max_deferrals = 300"),
        (lambda: asymptotics.esrt_spacing(1, 0.1).spacing(1e9, 0.0), "service_rate"),
    ],
)
def test_refuses_what_is_outside(call, name):
    with pytest.raises(ValueError, match=name):
        call()
