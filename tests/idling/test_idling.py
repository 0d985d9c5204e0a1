"""The fluid control problem: optimum, corners, kinks, non-uniqueness, queues and bad input."""

import itertools
import math
import pickle
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from qcore.idling import FluidControlProblem

TWO_MINIMA = (1.2, 1.0, 1.0, lambda b: 1.2 * b**1.05, 0.3, stats.gamma(3, scale=1 / 3))


def square(b):
    return b * b


def test_importing_the_package_loads_no_scipy():
    code = "import sys, qcore.idling; print(any(m.split('.')[0] == 'scipy' for m in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


# The optimum without a queue


@pytest.mark.parametrize("power", [1.05, 1.2, 1.5, 2, 3, 8])
def test_power_costs_have_the_closed_form(power):
    for factor, cost, service_rate in itertools.product((0.3, 1.2, 5.0), (0.5, 2.0), (0.7, 1.6)):
        problem = FluidControlProblem(1.2, service_rate, cost, lambda b, c=factor: c * b**power)
        expected = (cost * service_rate / (factor * power)) ** (1 / (power - 1))
        expected = min(expected, problem.largest_busy_fraction)
        assert problem.optimal_busy_fraction == pytest.approx(expected, rel=2e-11, abs=0)
        assert problem.is_unique


@pytest.mark.parametrize(
    ("power", "digits"), [(1.05, 2e-11), (1.25, 2e-12), (2, 6e-14), (3, 6e-14), (8, 6e-14)]
)
def test_small_optima_of_power_costs_have_their_digits(power, digits):
    for exponent, mantissa in itertools.product(range(-13, 0), (1.3, 2.9, 7.1)):
        optimum = mantissa * 10.0**exponent
        slope = 1.2 * power * optimum ** (power - 1)
        with mpmath.workdps(40):
            ratio = mpmath.mpf(slope) / (mpmath.mpf(1.2) * mpmath.mpf(power))
            expected = float(ratio ** (1 / (mpmath.mpf(power) - 1)))
        problem = FluidControlProblem(1.2, 1.0, slope, lambda b: 1.2 * b**power)
        assert problem.optimal_busy_fraction == pytest.approx(expected, rel=digits, abs=0)
        assert problem.is_unique


def test_small_optima_of_costs_with_a_slope_at_zero_are_absolutely_accurate():
    for exponent, mantissa in itertools.product(range(-12, -3), (1.3, 4.7)):
        slope = 1.0 + 2 * mantissa * 10.0**exponent
        problem = FluidControlProblem(1.2, 1.0, slope, lambda b: b + b * b)
        assert problem.optimal_busy_fraction == pytest.approx((slope - 1) / 2, rel=0, abs=5e-15)
        problem = FluidControlProblem(1.2, 1.0, slope, math.expm1)
        assert problem.optimal_busy_fraction == pytest.approx(math.log(slope), rel=0, abs=5e-15)


@pytest.mark.parametrize("offset", [0.0, 5.0, 1e3])
def test_a_constant_cost_does_not_move_the_optimum(offset):
    problem = FluidControlProblem(1.2, 1.0, 1.3, lambda b: offset + math.exp(b))
    assert problem.optimal_busy_fraction == pytest.approx(math.log(1.3), abs=1e-12 * (1 + offset))
    assert problem.optimal_cost == pytest.approx(offset + 1.3 * (1.2 - math.log(1.3)) + 1.3)


def test_corners_are_exact_even_where_the_slope_just_reaches_them():
    assert FluidControlProblem(1.2, 1, 2, square).optimal_busy_fraction == 1.0  # g'(1) = aμ
    assert FluidControlProblem(1.2, 1, 9, square).optimal_busy_fraction == 1.0
    assert FluidControlProblem(0.7, 1, 1.4, square).optimal_busy_fraction == 0.7  # g'(λ/μ) = aμ
    assert FluidControlProblem(0.7, 1.1, 3, square).optimal_busy_fraction == 0.7 / 1.1
    assert FluidControlProblem(1.2, 1, 1, lambda b: b + b * b).optimal_busy_fraction == 0.0
    assert FluidControlProblem(1.2, 1, 1, lambda b: 2 * b).optimal_busy_fraction == 0.0
    assert FluidControlProblem(1.2, 1, 0, lambda b: b).optimal_busy_fraction == 0.0
    # A slope beyond the corner that exceeds aμ does not matter.
    kink_at_corner = FluidControlProblem(0.7, 1, 1, lambda b: max(0.5 * b, 0.35 + 9 * (b - 0.7)))
    assert kink_at_corner.optimal_busy_fraction == 0.7


def test_tiny_optima_are_not_taken_for_zero():
    # b* = (a / (1.05 c))^20, far below the resolution of the slope at 0
    problem = FluidControlProblem(1.2, 1.0, 0.126, lambda b: 1.2 * b**1.05)
    assert problem.optimal_busy_fraction == pytest.approx((0.126 / 1.26) ** 20, rel=2e-11, abs=0)
    tiny = FluidControlProblem(1, 1, 1e-10, square).optimal_busy_fraction
    assert tiny == pytest.approx(5e-11, rel=1e-13, abs=0)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True),
    st.lists(st.integers(1, 97), min_size=4, max_size=4, unique=True),
    st.integers(1, 45),
    st.integers(20, 150),
)
@settings(derandomize=True, deadline=None, max_examples=40)
def test_piecewise_linear_costs(slopes, knots, abandonment_cost, arrival_rate):
    slopes, knots = sorted(slopes), [k / 97 for k in sorted(knots)]
    edges = [0.0, *knots[: len(slopes) - 1], 1.0]
    heights = np.concatenate(([0.0], np.cumsum(np.array(slopes) * np.diff(edges))))
    problem = FluidControlProblem(
        arrival_rate / 100, 1.0, abandonment_cost, lambda b: np.interp(b, edges, heights)
    )
    top = problem.largest_busy_fraction
    # The optimal set: between the last point with slopes below a and the first with slopes above.
    falling = [e for e, s in zip(edges[1:], slopes, strict=True) if s < abandonment_cost]
    level = [e for e, s in zip(edges[1:], slopes, strict=True) if s <= abandonment_cost]
    lower = min(max(falling, default=0.0), top)
    upper = min(max(level, default=0.0), top)
    [(found_lower, found_upper)] = problem.optimal_set
    assert found_lower == pytest.approx(lower, rel=0, abs=1e-12)
    assert found_upper == pytest.approx(upper, rel=0, abs=1e-12)
    assert problem.is_unique == (lower == upper)


@pytest.mark.parametrize(("left", "length"), np.random.default_rng(2).uniform(0.1, 0.45, (40, 2)))
def test_ends_of_affine_pieces_with_smooth_joins(left, length):
    def cost(b):
        if b < left:
            return b * b
        if b < left + length:
            return 2 * left * b - left**2
        return (b - length) ** 2 + 2 * left * length

    [(lower, upper)] = FluidControlProblem(1.2, 1.0, 2 * left, cost).optimal_set
    assert (lower, upper) == pytest.approx((left, left + length), rel=0, abs=1e-11)


def test_costs_that_underflow_near_zero_are_convex_all_the_same():
    problem = FluidControlProblem(
        1.2, 1.0, 1.0, lambda b: 0.655128556859551 * b**1.4070247933884297
    )
    assert problem.optimal_busy_fraction == 1.0


def test_affine_pieces_of_slope_a_mu_make_every_point_optimal():
    whole = FluidControlProblem(1.2, 1.0, 1.0, lambda b: b)
    assert whole.optimal_set == ((0.0, 1.0),)
    assert not whole.is_unique
    assert whole.optimal_busy_fraction == 1.0
    assert whole.cost([0.0, 0.3, 1.0]) == pytest.approx([1.2] * 3, rel=1e-15)

    def smooth_joins(b):
        if b < 0.3:
            return b * b / 0.6
        return b - 0.15 + max(b - 0.6, 0) ** 2

    [(lower, upper)] = FluidControlProblem(1.2, 1.0, 1.0, smooth_joins).optimal_set
    assert (lower, upper) == pytest.approx((0.3, 0.6), rel=0, abs=1e-10)


@given(st.floats(0.05, 3), st.floats(0.2, 3), st.floats(0.05, 4), st.floats(1.05, 6))
@settings(derandomize=True, deadline=None, max_examples=25)
def test_no_point_of_a_fine_grid_is_cheaper(arrival_rate, service_rate, abandonment_cost, power):
    problem = FluidControlProblem(
        arrival_rate, service_rate, abandonment_cost, lambda b: 0.3 * b + b**power
    )
    grid = np.linspace(0, problem.largest_busy_fraction, 2001)
    assert problem.optimal_cost <= problem.cost(grid).min() * (1 + 4e-16)
    assert problem.non_idling_excess_cost == pytest.approx(
        problem.cost(grid[-1]) - problem.optimal_cost, abs=1e-15
    )


# Costs that are convex up to rounding, and costs with a flat part


def test_costs_made_of_large_terms_are_convex_all_the_same():
    for slope in (0.5, 1.9999, 2.0, 2.0001, 2.5, 7.0, 14.7, 15.0):
        with mpmath.workdps(30):
            expected = min(max(float(mpmath.log(mpmath.mpf(slope) / 2) / 2), 0.0), 1.0)
        problem = FluidControlProblem(1.2, 1.0, slope, lambda b: math.exp(2 * b) - 1)
        assert problem.optimal_busy_fraction == pytest.approx(expected, rel=0, abs=1e-12)
        assert (problem.optimal_busy_fraction == 0.0) == (slope <= 2)
    for slope in (0.4, 0.5, 0.501, 0.6, 2.0, 50.0):
        expected = max(1 - 1 / (4 * slope**2), 0.0)
        problem = FluidControlProblem(1.2, 1.0, slope, lambda b: 1 - math.sqrt(1 - b))
        assert problem.optimal_busy_fraction == pytest.approx(expected, rel=0, abs=1e-11)
        assert (problem.optimal_busy_fraction == 0.0) == (slope <= 0.5)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_flat_then_rising_costs(scale):
    for slope in (1e-9, 0.1, 0.5, 0.79, 0.8, 3.0):
        problem = FluidControlProblem(
            1.2, 1.0, scale * slope, lambda b: scale * max(0.0, b - 0.6) ** 2
        )
        expected = min(0.6 + slope / 2, 1.0)
        assert problem.optimal_busy_fraction == pytest.approx(expected, rel=0, abs=1e-12)
        assert problem.is_unique
    free = FluidControlProblem(1.2, 1.0, 0.0, lambda b: scale * max(0.0, b - 0.6) ** 2)
    [(lower, upper)] = free.optimal_set
    assert (lower, upper) == pytest.approx((0.0, 0.6), rel=0, abs=1e-6)
    assert FluidControlProblem(1.2, 1.0, scale, lambda b: 0.0).optimal_busy_fraction == 1.0
    assert FluidControlProblem(1.2, 1.0, 0.0, lambda b: 0.0).optimal_set == ((0.0, 1.0),)


# Policies


def test_policy_parameters_give_the_optimal_busy_fraction():
    problem = FluidControlProblem(1.2, 0.8, 1.0, square)
    b = problem.optimal_busy_fraction
    assert problem.admission_probability * 1.2 / 0.8 == pytest.approx(b, rel=1e-15)
    cycle = 1 / 0.8 + problem.idle_time
    assert (1 / 0.8) / cycle == pytest.approx(b, rel=1e-15)
    assert FluidControlProblem(0.7, 1, 9, square).admission_probability == 1.0
    assert FluidControlProblem(1.2, 1, 9, square).idle_time == 0.0


def test_serving_nobody_is_no_policy():
    problem = FluidControlProblem(1.2, 1.0, 1.0, lambda b: 2 * b)
    for name in ("admission_probability", "idle_time"):
        with pytest.raises(ValueError, match=r"optimal_busy_fraction = 0\.0"):
            getattr(problem, name)


# The queue


def reference_queue(survival, wait):
    return mpmath.quad(survival, mpmath.linspace(0, wait, 9))


@pytest.mark.parametrize("served", ["1e-6", "0.01", "0.3", "0.77", "0.999", "0.9999999"])
def test_queue_and_wait_against_closed_forms(served):
    # Each law by its own inverse and antiderivative, at 50 digits.
    with mpmath.workdps(50):
        s = mpmath.mpf(float(served))
        root = -mpmath.log(s)
        cases = [
            (stats.expon(scale=2), 2 * root, 2 * (1 - s)),
            # Weibull, shape 1/2: w = ln² s, ∫₀^w exp(-√x) dx = 2(1 - s(1 + √w))
            (stats.weibull_min(0.5), root**2, 2 * (1 - s * (1 + root))),
            # Lomax, shape 1/2, infinite mean: s = (1 + w)^(-1/2), integral 2(√(1 + w) - 1)
            (stats.lomax(0.5), s**-2 - 1, 2 * (1 / s - 1)),
            (stats.uniform(), 1 - s, (1 - s**2) / 2),
            # Weibull, shape 3
            (
                stats.weibull_min(3),
                root ** (1 / mpmath.mpf(3)),
                mpmath.gammainc(1 / mpmath.mpf(3), 0, root) / 3,
            ),
        ]
        expected = [(float(wait), float(queue)) for _, wait, queue in cases]
    for (law, _, _), (wait, queue) in zip(cases, expected, strict=True):
        problem = FluidControlProblem(1.0, 1.0, 1.0, square, patience=law)
        assert problem.waiting_time(float(served)) == pytest.approx(wait, rel=2e-15, abs=0)
        assert problem.queue_length(float(served)) == pytest.approx(queue, rel=2e-15, abs=0)


@pytest.mark.parametrize(("shape", "digits"), [(0.5, 4e-14), (3, 2e-15), (20, 2e-15)])
def test_queue_and_wait_of_gamma_patience(shape, digits):
    law = stats.gamma(shape)
    problem = FluidControlProblem(1.0, 1.0, 1.0, square, patience=law)
    for served in (1e-12, 1e-6, 0.01, 0.3, 0.5, 0.77, 0.999, 0.999999):
        with mpmath.workdps(40):
            k, s = mpmath.mpf(shape), mpmath.mpf(served)
            wait = mpmath.findroot(
                lambda w, k=k, s=s: mpmath.gammainc(k, w, regularized=True) - s,
                float(law.isf(served)),
                tol=1e-30,
            )
            queue = k * mpmath.gammainc(k + 1, 0, wait, regularized=True) + wait * s
        assert problem.waiting_time(served) == pytest.approx(float(wait), rel=digits, abs=0)
        assert problem.queue_length(served) == pytest.approx(float(queue), rel=digits, abs=0)


@pytest.mark.parametrize(
    "law", [stats.gamma(3), stats.gamma(0.4), stats.lognorm(1.2), stats.gamma(2, scale=1e-3)]
)
def test_queue_slope_is_minus_mu_over_the_hazard(law):
    problem = FluidControlProblem(1.4, 0.9, 1.0, square, patience=law)
    b = np.array([0.05, 0.3, 0.6, 0.95])
    step = 1e-4
    slope = (problem.queue_length(b + step) - problem.queue_length(b - step)) / (2 * step)
    wait = problem.waiting_time(b)
    assert slope == pytest.approx(-0.9 * law.sf(wait) / law.pdf(wait), rel=2e-4)
    assert problem.queue_length(0.0) == pytest.approx(1.4 * law.mean(), rel=1e-12)


def test_abandonment_and_rejection_conserve_customers():
    problem = FluidControlProblem(1.2, 0.8, 1.0, square, rejection=True)
    b, p = np.array([0.0, 0.4, 0.9, 1.0]), np.array([0.1, 0.5, 0.8, 1.0])
    total = problem.abandonment_rate(b, p) + problem.rejection_rate(b, p) + 0.8 * b
    assert total == pytest.approx([1.2] * 4, rel=1e-15)
    assert np.all(problem.abandonment_rate(b) == pytest.approx(0, abs=1e-15))


# Holding costs


@pytest.mark.parametrize("rate", [0.4, 1.0, 1.7])
def test_exponential_patience_adds_h_over_theta_to_the_abandonment_cost(rate):
    for power in (1.3, 2, 4):

        def cost(b, power=power):
            return 1.5 * b**power

        law = stats.expon(scale=1 / rate)
        holding = FluidControlProblem(1.2, 0.9, 0.5, cost, 0.3, law)
        plain = FluidControlProblem(1.2, 0.9, 0.5 + 0.3 / rate, cost)
        assert holding.optimal_busy_fraction == pytest.approx(
            plain.optimal_busy_fraction, rel=0, abs=1e-11
        )
        assert holding.optimal_cost == pytest.approx(plain.optimal_cost, rel=1e-13)


def test_two_minima():
    problem = FluidControlProblem(*TWO_MINIMA)
    with mpmath.workdps(40):
        # Stationarity in terms of the wait w: b = λ s(w), g'(b) = a + h s(w) / g^r(w).
        def survival(w):
            return mpmath.exp(-3 * w) * (1 + 3 * w + 9 * w**2 / 2)

        def density(w):
            return 27 * w**2 / 2 * mpmath.exp(-3 * w)

        def slope(w):
            b = mpmath.mpf(1.2) * survival(w)
            marginal = mpmath.mpf(1.2) * mpmath.mpf(1.05) * b ** (mpmath.mpf(1.05) - 1)
            return marginal - 1 - mpmath.mpf(0.3) * survival(w) / density(w)

        w = mpmath.findroot(slope, 1.6)
        b = mpmath.mpf(1.2) * survival(w)
        queue = mpmath.mpf(1.2) * reference_queue(survival, w)
        cost = 1.2 - b + mpmath.mpf(1.2) * b ** mpmath.mpf(1.05) + mpmath.mpf(0.3) * queue
    inner, corner = problem.local_minima
    assert inner.lower == pytest.approx(float(b), rel=0, abs=1e-10)
    assert inner.cost == pytest.approx(float(cost), rel=1e-13)
    assert corner.lower == corner.upper == 1.0
    assert inner.cost < corner.cost
    assert problem.optimal_busy_fraction == inner.upper
    # A little more abandonment cost, and the other minimum wins.
    dearer = FluidControlProblem(1.2, 1.0, 1.05, *TWO_MINIMA[3:])
    assert dearer.optimal_busy_fraction == 1.0


@pytest.mark.parametrize(
    "law", [stats.gamma(3, scale=1 / 3), stats.gamma(0.5), stats.lognorm(0.8), stats.lognorm(2)]
)
@pytest.mark.parametrize("arrival_rate", [0.8, 1.5])
def test_holding_costs_against_a_fine_grid(law, arrival_rate):
    problem = FluidControlProblem(arrival_rate, 1.0, 0.9, lambda b: b**1.2, 0.2, law)
    grid = np.linspace(0, problem.largest_busy_fraction, 20001)
    costs = problem.cost(grid)
    assert problem.optimal_cost <= costs.min() + 1e-14
    assert problem.optimal_cost == pytest.approx(costs.min(), rel=1e-6)
    assert problem.optimal_busy_fraction == pytest.approx(grid[costs.argmin()], abs=2e-3)


def cheapest_on_a_grid(problem):
    """Return the busy fraction of least cost on a fine grid, geometric towards 0, and the cost."""
    top = problem.largest_busy_fraction
    grid = np.concatenate(([0.0], np.geomspace(1e-12, 1, 2001), np.linspace(0, 1, 4001)[1:])) * top
    grid = np.unique(np.minimum(grid, top))
    costs = problem.cost(grid)
    return float(grid[costs.argmin()]), float(costs.min())


@pytest.mark.parametrize(
    ("law", "cost", "abandonment", "holding"),
    [
        (stats.gamma(3, scale=1 / 3), lambda b: b + b * b, 0.25, 0.05),
        (stats.gamma(3, scale=1 / 3), lambda b: max(0.0, b - 0.3) ** 2, 1.0, 0.3),
        (stats.lomax(1.05, scale=0.05), square, 1.0, 0.3),
        (stats.lomax(1.05, scale=0.05), lambda b: b + b * b, 0.25, 0.05),
        (stats.lomax(1.5), square, 0.25, 0.05),
        (stats.expon(), lambda b: b + b * b, 0.25, 0.05),
        (stats.uniform(), lambda b: b + b * b, 0.25, 0.05),
        (stats.weibull_min(0.5), lambda b: math.expm1(2 * b), 1.0, 0.3),
        (stats.lognorm(2), lambda b: b + b * b, 0.25, 0.05),
    ],
)
def test_every_holding_cost_comes_to_an_end_at_the_cheapest_point(law, cost, abandonment, holding):
    problem = FluidControlProblem(1.2, 1.0, abandonment, cost, holding, law)
    where, least = cheapest_on_a_grid(problem)
    assert problem.optimal_cost <= least * (1 + 1e-13)
    assert problem.optimal_cost == pytest.approx(least, rel=1e-6)
    assert problem.optimal_busy_fraction == pytest.approx(where, rel=8e-3, abs=1e-9)


def test_serving_nobody_is_exact_with_holding_costs():
    problem = FluidControlProblem(
        1.2, 1, 0.25, lambda b: b + b**2, 0.05, stats.gamma(3, scale=1 / 3)
    )
    assert problem.optimal_set == ((0.0, 0.0),)
    assert problem.optimal_cost == pytest.approx(0.25 * 1.2 + 0.05 * 1.2, rel=1e-14)


def test_an_interior_optimum_with_a_heavy_tail():
    problem = FluidControlProblem(1.2, 1.0, 1.0, square, 0.3, stats.lomax(1.05, scale=0.05))
    with mpmath.workdps(40):
        shape, scale = mpmath.mpf(1.05), mpmath.mpf(0.05)

        def slope(b):  # 2b - a - h b/(lambda density) with survival (1 + w/c)^{-s} = b/lambda
            share = b / mpmath.mpf(1.2)
            density = shape / scale * share ** ((shape + 1) / shape)
            return 2 * b - 1 - mpmath.mpf(0.3) * share / density

        expected = mpmath.findroot(slope, 0.5)
    assert problem.optimal_busy_fraction == pytest.approx(float(expected), rel=0, abs=1e-13)


def test_the_queue_of_a_heavy_tail_is_continuous_at_zero():
    law = stats.lomax(1.05)
    problem = FluidControlProblem(1.0, 1.0, 1.0, square, patience=law)
    for served in (1e-280, 1e-120, 1e-70, 1e-40):
        with mpmath.workdps(40):  # E[min(X, w)] = (1 - s^{1 - 1/shape})/(shape - 1)
            shape = mpmath.mpf(1.05)
            expected = (1 - mpmath.mpf(served) ** (1 - 1 / shape)) / (shape - 1)
        assert problem.queue_length(served) == pytest.approx(float(expected), rel=1e-13)
    assert problem.queue_length(0.0) == pytest.approx(20.0, rel=1e-13)


def test_rejection_is_worth_what_it_saves():
    problem = FluidControlProblem(*TWO_MINIMA)
    allowed = FluidControlProblem(*TWO_MINIMA, rejection=True)
    # All pairs (b, p) on a grid: none is cheaper than p = bμ/λ.
    b, p = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101))
    feasible = b <= 1.2 * p
    costs = allowed.cost(b[feasible], p[feasible])
    assert allowed.optimal_cost <= costs.min()
    assert problem.value_of_rejection == pytest.approx(
        problem.optimal_cost - allowed.optimal_cost, rel=1e-12
    )
    assert problem.value_of_rejection > 0.3
    plain = FluidControlProblem(*TWO_MINIMA[:4])
    assert plain.value_of_rejection == 0
    assert allowed.optimal_cost == plain.optimal_cost
    assert allowed.optimal_busy_fraction == plain.optimal_busy_fraction
    assert allowed.queue_length(0.3) == pytest.approx(0, abs=1e-15)
    # Never idling, without rejecting anybody, keeps its queue.
    assert allowed.non_idling_cost == pytest.approx(problem.cost(1.0), rel=1e-14)


# Bad input

GOOD = {
    "arrival_rate": 1.2,
    "service_rate": 1.0,
    "abandonment_cost": 1.0,
    "utilization_cost": square,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrival_rate": 0.0}, r"arrival_rate = 0\.0: must be finite and >= 1e-150"),
        ({"arrival_rate": math.nan}, "arrival_rate = nan"),
        (
            {"service_rate": -1.0},
            r"service_rate = -1\.0: must be finite and >= 1e-150 and <= 1e\+150",
        ),
        ({"service_rate": math.inf}, "service_rate = inf"),
        ({"abandonment_cost": -0.1}, r"abandonment_cost = -0\.1"),
        ({"holding_cost": -1.0}, r"holding_cost = -1\.0"),
        ({"holding_cost": 1.0}, "patience = None: must be a frozen"),
        ({"patience": 3.0}, r"patience = 3\.0: must be a frozen"),
        ({"patience": stats.poisson(3)}, "must be a frozen continuous"),
        ({"patience": stats.norm()}, r"support \[-inf, inf\]: must begin at 0"),
        ({"patience": stats.expon(loc=1)}, r"support \[1, inf\]: must begin at 0"),
        ({"holding_cost": 0.1, "patience": stats.lomax(0.5)}, "mean inf: must be finite"),
        ({"holding_cost": 0.1, "patience": stats.halfcauchy()}, "mean inf: must be finite"),
        ({"rejection": "yes"}, "rejection = 'yes'"),
        ({"utilization_cost": 2.0}, r"utilization_cost = 2\.0: must be a callable"),
        ({"utilization_cost": lambda b: b**0.5}, "must be convex"),
        ({"utilization_cost": lambda b: b + 0.01 * math.sin(40 * b)}, "must be convex"),
        ({"utilization_cost": lambda b: b if b > 0 else -1.0}, "must be convex"),
        ({"utilization_cost": lambda b: b**0.9}, "must be convex"),
        ({"utilization_cost": lambda b: b - 1e-6 * b * b}, "must be convex"),
        ({"utilization_cost": lambda b: -b}, "must be non-decreasing"),
        ({"utilization_cost": lambda b: 1 - 1e-12 * b}, "must be non-decreasing"),
        ({"utilization_cost": lambda b: (b - 0.01) ** 2}, "must be non-decreasing"),
        ({"utilization_cost": lambda b: b / (1 - b) if b < 1 else math.inf}, "is not finite"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        FluidControlProblem(**{**GOOD, **changes})


def test_states_that_do_not_exist():
    problem = FluidControlProblem(**GOOD, patience=stats.lomax(0.5))
    with pytest.raises(ValueError, match=r"busy_fraction = 1\.1: must be"):
        problem.cost(1.1)
    with pytest.raises(ValueError, match="head of the line has no finite value"):
        problem.waiting_time(0.0)
    with pytest.raises(ValueError, match="queue has no finite length"):
        problem.queue_length(0.0)
    with pytest.raises(ValueError, match=r"admission_probability = 0\.5: must be at least"):
        problem.abandonment_rate(0.9, 0.5)
    with pytest.raises(ValueError, match="patience = None"):
        FluidControlProblem(**GOOD).waiting_time(0.5)
    bounded = FluidControlProblem(**GOOD, patience=stats.uniform())
    assert bounded.waiting_time(0.0) == 1.0


def test_problems_are_pickled_compared_and_hashed():
    def problem(scale=1.0):
        return FluidControlProblem(1.2, 1.0, 0.3, math.expm1, 0.1, stats.gamma(3, scale=scale))

    one, other = problem(), problem()
    copy = pickle.loads(pickle.dumps(one))
    assert one == other == copy
    assert len({one, other, copy}) == 1
    assert copy.optimal_busy_fraction == one.optimal_busy_fraction
    assert one != problem(2.0)
    assert one != FluidControlProblem(1.2, 1.0, 0.3, square, 0.1, stats.gamma(3))
    assert one != FluidControlProblem(
        1.2, 1.0, 0.3, math.expm1, 0.1, stats.gamma(3), rejection=True
    )
    assert one != "problem"
    [minimum] = one.local_minima
    assert pickle.loads(pickle.dumps(minimum)) == minimum
