"""Erlang's formulas against ball arithmetic, against each other, and against their definitions."""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate

from qcore import UnstableSystem, erlang
from qcore.erlang import _kernels as kernels
from qcore.erlang import _ties

settings.register_profile("derandomized", derandomize=True, deadline=None)
settings.load_profile("derandomized")

SMALLEST = 1e-300


@pytest.fixture(autouse=True)
def _restore_precision():
    before = ctx.prec
    yield
    ctx.prec = before


def inverse_in_balls(servers, load):
    """Return 1/B = eᵃ a⁻ˢ Γ(s + 1, a) as a ball of at least 70 significant bits."""
    precision = 160
    while precision < 20000:
        ctx.prec = precision
        s, a = arb(servers), arb(load)
        value = a.exp() * a ** (-s) * a.gamma_upper(s + 1)
        if value.rel_accuracy_bits() > 70:
            return value
        precision *= 2
    raise AssertionError(f"no reference for servers = {servers!r}, load = {load!r}")


def abandonment_in_balls(servers, load, rate):
    """Return the three measures as balls: the sums themselves, or the incomplete gamma function."""
    precision = 160
    while precision < 6000:
        inverse = inverse_in_balls(servers, load)
        ctx.prec = max(ctx.prec, precision)
        s, a, theta = arb(servers), arb(load), arb(rate)
        b, c = s / theta, a / theta
        if load < servers * (1 + 5 * math.sqrt(rate / servers)) or load < 100 * rate:
            term, total, queue = arb(1), arb(0), arb(0)
            m = 0
            while True:
                m += 1
                term = term * c / (b + m)
                total += term
                queue += m * term
                ratio = load / (servers + rate * (m + 1))
                if ratio < 1 and float(term) * m < 1e-26 * (1 - ratio) ** 2 * float(queue):
                    break
            queue *= arb(1, 1e-25)
            total *= arb(1, 1e-25)
            numerator = queue / c
        else:
            total = b * c ** (-b) * c.exp() * (b.gamma() - c.gamma_upper(b)) - 1
            numerator = 1 + (1 - s / a) * total
        delay = (1 + total) / (inverse + total)
        lost = numerator / (inverse + total)
        if min(delay.rel_accuracy_bits(), lost.rel_accuracy_bits()) > 60:
            return delay, lost, lost * c
        precision *= 3
    raise AssertionError(f"no reference for {servers!r}, {load!r}, {rate!r}")


def relative_error(value, reference):
    return float(abs((arb(float(value)) - reference) / reference).upper())


def measurable(servers, load):
    return erlang.log_erlang_b(servers, load) > math.log(SMALLEST)


def near_load(rng, servers, width):
    return servers + rng.uniform(-width, width) * math.sqrt(servers)


def sample_erlang_b(rng, size):
    """Points in every region, with both sides of every switch of method."""
    for i in range(size):
        servers = 10 ** rng.uniform(-3, 9) if i % 3 else rng.uniform(0, 200)
        if i % 4 == 0:
            servers = float(max(1, round(servers)))
        kind = i % 7
        if kind == 0:
            load = near_load(rng, servers, 6)
        elif kind == 1:
            load = near_load(rng, servers, 40)
        elif kind == 2:
            load = servers * 10 ** rng.uniform(-1, 1)
        elif kind == 3:
            load = 10 ** rng.uniform(-6, 9)
        elif kind == 4:
            load = servers * (1 + rng.choice([-0.4, 0.4]) * (1 + rng.uniform(-1, 1) * 1e-9))
        elif kind == 5:
            servers = rng.choice([20.0, 80.0, 1e3, 1e5]) * (1 + rng.uniform(-1, 1) * 1e-9)
            load = near_load(rng, servers, 8)
        else:
            # (a − s)² = 36 a, η√s = 4 (deviance 8), and few servers at a load of 2.
            z = rng.choice([6.0, 4.0, -4.0, -8.5]) * (1 + rng.uniform(-1, 1) * 1e-9)
            load = servers + z * math.sqrt(servers) + z * z / 2
            if servers < 20:
                load = 2 * (1 + rng.uniform(-1, 1) * 1e-9)
        if load > 0 and measurable(float(servers), float(load)):
            yield float(servers), float(load)


def test_erlang_b_is_exact_in_every_region():
    rng = np.random.default_rng(20240601)
    points = list(sample_erlang_b(rng, 1600))
    assert len(points) > 1000
    values = erlang.erlang_b(*np.transpose(points))
    worst = max(
        (relative_error(value, 1 / inverse_in_balls(*point)), point)
        for value, point in zip(values, points, strict=True)
    )
    assert worst[0] < 1e-14, worst


def test_small_blocking_probabilities_keep_their_digits():
    rng = np.random.default_rng(12)
    checked = 0
    while checked < 150:
        servers = float(10 ** rng.uniform(2, 9))
        load = servers * rng.uniform(0.5, 0.75) if checked % 2 else near_load(rng, servers, 36)
        if load > 0 and SMALLEST <= erlang.erlang_b(servers, load) < 1e-100:
            checked += 1
            reference = 1 / inverse_in_balls(servers, load)
            assert relative_error(erlang.erlang_b(servers, load), reference) < 1.5e-15


@pytest.mark.parametrize(
    ("servers", "load"),
    [
        (1e9, 1e9),
        (1e9, 1e9 - 40 * math.sqrt(1e9) * 0.9),
        (1e9, 2e9),
        (1e9, 1e15),
        (1e9, 1e-3),
        (0.5, 1e-300),
        (1e-12, 1e-12),
        (1e-300, 5.0),
        (19.999999999, 1e-14),
        (1.0, 1e-290),
        (100.0, 1e6),
        (123.456, 0.2),
        (20.0, 2e-313),
    ],
)
def test_erlang_b_at_extreme_loads(servers, load):
    value = erlang.erlang_b(servers, load)
    if measurable(servers, load):
        assert relative_error(value, 1 / inverse_in_balls(servers, load)) < 1e-14
    else:
        assert value == pytest.approx(math.exp(erlang.log_erlang_b(servers, load)), rel=1e-11)


def test_erlang_b_underflows_gradually():
    for load in np.linspace(8.2, 8.9, 30):
        reference = 1 / inverse_in_balls(500.0, load)
        value = erlang.erlang_b(500.0, load)
        # Spacing of the subnormal numbers, and digits lost in proportion to −ln B.
        assert abs(value - float(reference)) <= 5e-324 + 1e-12 * float(reference)
    assert erlang.erlang_b(5000.0, 1.0) == 0.0
    assert math.isinf(erlang.inverse_erlang_b(5000.0, 1.0))


def test_log_erlang_b_where_the_probability_underflows():
    rng = np.random.default_rng(7)
    for _ in range(200):
        servers = 10 ** rng.uniform(0, 7)
        load = servers * 10 ** -rng.uniform(0, 30)
        ctx.prec = 300
        reference = -(inverse_in_balls(servers, load).log())
        value = erlang.log_erlang_b(servers, load)
        assert abs(float(arb(value) - reference)) <= 4e-15 * max(1.0, abs(value))


def excess_in_balls(servers, load):
    """Return 1/B − 1 = s eᵃ a⁻ˢ Γ(s, a) as a ball of at least 70 significant bits, or None."""
    precision = 160
    while precision < 40000:
        ctx.prec = precision
        s, a = arb(servers), arb(load)
        value = s * a.exp() * a ** (-s) * a.gamma_upper(s)
        if value.rel_accuracy_bits() > 70:
            return value
        precision *= 2
    return None


def sample_logarithms(rng, size):
    """Points down to hardly any servers or load, with both sides of every switch of method."""
    for i in range(size):
        kind = i % 8
        servers = 10 ** rng.uniform(-18, 0) if kind < 2 else 10 ** rng.uniform(0, 12)
        if kind == 0:
            load = 10 ** rng.uniform(-300, 0)
        elif kind == 1:
            load = 10 ** rng.uniform(-3, 6)
        elif kind == 2:
            servers = rng.choice([0.5, 1.0]) * (1 + rng.uniform(-1, 1) * 1e-9)
            load = 1.25 * (1 + rng.uniform(-1, 1) * 1e-9)
        elif kind == 3:
            servers = 10 ** rng.uniform(0, 15)
            load = servers * 10 ** -rng.uniform(0, 20)
        elif kind == 4:
            load = near_load(rng, servers, 40)
        elif kind == 5:
            load = servers * 10 ** rng.uniform(0, 3)
        elif kind == 6:
            servers = 10 ** rng.uniform(0, 2)
            load = 10 ** rng.uniform(-300, 0)
        else:
            servers, load = rng.uniform(0, 2.5), rng.uniform(0, 4)
        excess = excess_in_balls(float(servers), float(load)) if 0 < load < 1e15 else None
        if excess is not None:
            yield float(servers), float(load), excess


def test_logarithms_are_exact_in_both_tails():
    rng = np.random.default_rng(31)
    checked = 0
    for servers, load, excess in sample_logarithms(rng, 2000):
        tolerance = 4e-15 if servers >= 1 else 2e-14
        blocking = erlang.log_erlang_b(servers, load)
        assert relative_error(blocking, -excess.log1p()) < tolerance, (servers, load)
        if load < servers:
            checked += 1
            excess *= (arb(servers) - arb(load)) / arb(servers)
            delay = erlang.log_erlang_c(servers, load)
            assert relative_error(delay, -excess.log1p()) < tolerance, (servers, load)
    assert checked > 800


def test_logarithms_are_those_of_the_probabilities():
    for servers, load in ((0.3, 0.1), (3.0, 2.5), (400.0, 390.0), (1e9, 1e9 - 1e5), (2.0, 40.0)):
        logarithm = erlang.log_erlang_b(servers, load)
        assert logarithm == pytest.approx(math.log(erlang.erlang_b(servers, load)), rel=1e-13)
        if load < servers:
            logarithm = erlang.log_erlang_c(servers, load)
            assert logarithm == pytest.approx(math.log(erlang.erlang_c(servers, load)), rel=1e-13)
    assert erlang.log_erlang_b(0, 3.0) == 0.0
    assert erlang.log_erlang_b(3, 0.0) == erlang.log_erlang_c(3, 0.0) == -math.inf
    with pytest.raises(UnstableSystem, match=r"offered_load = 3\.0 with servers = 3\.0"):
        erlang.log_erlang_c(3.0, 3.0)


def direct_sum(servers, load):
    """1/B = Σ_k s!/(s − k)! a⁻ᵏ for an integer number of servers, as its definition reads."""
    term = total = 1.0
    for k in range(servers):
        term *= (servers - k) / load
        total += term
    return total


def test_erlang_b_is_the_definition_for_integers():
    for servers in (1, 2, 7, 30, 100, 400):
        for load in (0.5, 3.0, 90.0, 100.0, 1000.0):
            expected = direct_sum(servers, load)
            if math.isfinite(expected):
                assert erlang.erlang_b(servers, load) * expected == pytest.approx(1, rel=1e-13)


@pytest.mark.parametrize("servers", [0.3, 4.7, 50.2, 1e3 + 0.5, 1e6 + 0.25])
@pytest.mark.parametrize("z", [-5.0, -1.0, 0.0, 1.0, 5.0])
def test_erlang_b_is_jagermans_integral(servers, z):
    load = max(servers + z * math.sqrt(servers), servers / 3)
    peak = max(servers / load - 1, 0)
    height = servers * math.log1p(peak) - load * peak
    width = math.sqrt(servers) / load if servers > 1 else 1 / load

    def integrand(u):
        return load * math.exp(servers * math.log1p(u) - load * u - height)

    edges = peak + width * np.array([-12, -4, 0, 4, 12, 40, 120])
    edges = np.unique(np.maximum(edges, 0))
    integral = sum(
        integrate.quad(integrand, left, right, epsabs=0, epsrel=1e-13, limit=200)[0]
        for left, right in itertools.pairwise(edges)
    )
    log_inverse = math.log(integral) + height
    assert erlang.log_erlang_b(servers, load) == pytest.approx(-log_inverse, rel=3e-12, abs=3e-12)


def test_methods_agree_where_they_overlap():
    rng = np.random.default_rng(11)
    pairs = 0
    for _ in range(400):
        servers = rng.uniform(20, 400)
        load = servers * rng.uniform(0.61, 1.39)
        uniform = kernels._inverse_uniform(servers, load)
        assert kernels._inverse_recursion(servers, load) == pytest.approx(uniform, rel=4e-14)
        if load < 0.9 * servers:
            pairs += 1
            assert kernels._inverse_light(servers, load) == pytest.approx(uniform, rel=1e-13)
        if load > 1.1 * servers:
            pairs += 1
            assert kernels._inverse_fraction(servers, load) == pytest.approx(uniform, rel=1e-14)
    assert pairs > 200


def test_temme_coefficients_start_as_tabulated():
    # DLMF 8.12.12 and 5.11.3.
    table, stirling = kernels.temme_series(orders=3, terms=4)
    table, stirling = np.array(table, dtype=float), np.array(stirling, dtype=float)
    assert table[:, 0] == pytest.approx([-1 / 3, 1 / 12, -2 / 135, 1 / 864], rel=1e-15)
    assert table[:2, 1] == pytest.approx([-1 / 540, -1 / 288], rel=1e-15)
    assert table[0, 2] == pytest.approx(25 / 6048, rel=1e-15)
    assert stirling == pytest.approx([1, 1 / 12, 1 / 288], rel=1e-15)


servers_strategy = st.floats(0, 1e9) | st.floats(0, 100) | st.integers(0, 10**9).map(float)
load_strategy = st.floats(1e-6, 1e9) | st.floats(1e-6, 200)


@given(servers_strategy, load_strategy)
@example(19.5, 2.0)
@example(19.0, 30.0)
def test_recurrence_in_servers(servers, load):
    below = erlang.inverse_erlang_b(servers, load)
    above = erlang.inverse_erlang_b(servers + 1, load)
    if math.isfinite(above) and servers + 1 - servers == 1:
        assert above == pytest.approx(1 + (servers + 1) / load * below, rel=3e-14)


@given(servers_strategy, load_strategy, st.floats(1.001, 2))
def test_erlang_b_is_monotone_and_bounded(servers, load, factor):
    value = erlang.erlang_b(servers, load)
    assert 0 <= value <= 1
    assert value >= (1 - servers / load) * (1 - 1e-15)
    assert erlang.erlang_b(servers, load * factor) >= value * (1 - 1e-14)
    assert erlang.erlang_b(servers * factor, load) <= value * (1 + 1e-14)


def test_boundaries():
    assert erlang.erlang_b(0, 3.0) == 1.0
    assert erlang.erlang_b(0, 0) == 1.0
    assert erlang.erlang_b(3, 0) == 0.0
    assert erlang.erlang_c(3, 0) == 0.0
    assert erlang.log_erlang_b(3, 0) == -math.inf
    assert erlang.erlang_b(1, 1.0) == 0.5
    nobody = erlang.erlang_a(2, 0, 1.0)
    assert (nobody.delay_probability, nobody.abandonment_probability, nobody.mean_queue) == (0,) * 3


def test_erlang_c_is_exact_up_to_critical_load():
    rng = np.random.default_rng(3)
    for i in range(800):
        servers = 10 ** rng.uniform(-1, 9)
        load = servers * (1 - 10 ** rng.uniform(-15, 0)) if i % 2 else near_load(rng, servers, 30)
        if not 0 < load < servers or not measurable(servers, load):
            continue
        inverse = inverse_in_balls(servers, load)
        reference = arb(servers) / (arb(load) + (arb(servers) - arb(load)) * inverse)
        assert relative_error(erlang.erlang_c(servers, load), reference) < 1e-14


@given(st.integers(1, 60), st.floats(0.01, 0.999))
def test_erlang_c_is_its_definition(servers, utilization):
    load = servers * utilization
    terms = [1.0]
    for k in range(1, servers + 1):
        terms.append(terms[-1] * load / k)
    waiting = terms[-1] * servers / (servers - load)
    expected = waiting / (sum(terms[:-1]) + waiting)
    assert erlang.erlang_c(servers, load) == pytest.approx(expected, rel=3e-13)


def sample_erlang_a(rng, size):
    count = 0
    while count < size:
        servers = 10 ** rng.uniform(-1, 6)
        rate = 10 ** rng.uniform(-8, 8)
        kind = rng.integers(6)
        if kind == 0:
            load = near_load(rng, servers, 6)
        elif kind == 1:
            load = servers + rng.uniform(-6, 6) * math.sqrt(servers * rate)
        elif kind == 2:
            load = servers * 10 ** rng.uniform(-1, 1)
        elif kind == 3:
            load = 10 ** rng.uniform(-3, 6)
        elif kind == 4:
            # s/θ = 20, and the load over it 60.
            rate = servers / (20 * (1 + rng.uniform(-1, 1) * 1e-9))
            load = rate * rng.choice([60 * (1 + rng.uniform(-1, 1) * 1e-9), rng.uniform(1, 100)])
        else:
            # s − a = 2√(sθ), 0.4 s, −0.4 s.
            excess = rng.choice([-2 * math.sqrt(servers * rate), -0.4 * servers, 0.4 * servers])
            load = servers + excess * (1 + rng.uniform(-1, 1) * 1e-9)
        if not load > 0 or not measurable(servers, load):
            continue
        far = load > servers and load - servers - servers * math.log(load / servers) > 1000 * rate
        slow = load < servers and servers > 3e3 * max(
            servers - load, 0.1 * math.sqrt(servers * rate)
        )
        if servers / rate > 1e9 or load / rate > 1e9 or far or slow:
            continue
        count += 1
        yield float(servers), float(load), float(rate)


def assert_erlang_a(point, tolerance):
    measures = erlang.erlang_a(*point)
    found = (measures.delay_probability, measures.abandonment_probability, measures.mean_queue)
    for value, reference in zip(found, abandonment_in_balls(*point), strict=True):
        if float(reference) > SMALLEST:
            assert relative_error(value, reference) < tolerance, point


def test_erlang_a_is_exact_in_every_region():
    rng = np.random.default_rng(17)
    for point in sample_erlang_a(rng, 150):
        assert_erlang_a(point, 1e-14)


@pytest.mark.parametrize(
    "point",
    [
        (100.0, 1.0, 1.0),
        (100.0, 110.0, 1.0),
        (100.0, 1e4, 1.0),
        (100.0, 1.0, 1e-3),
        (100.0, 110.0, 1e6),
        (100.0, 99.9, 1e-4),
        (1e6, 1e6, 1.0),
        (1e6, 9.9e5, 0.3),
        (1e6, 1.01e6, 50.0),
        (0.25, 7.0, 3.0),
    ],
)
def test_erlang_a_in_the_tails(point):
    assert_erlang_a(point, 1e-14)


def balance(servers, load, rate):
    """Return the measures from the stationary law of the birth-death process itself."""
    weights = [1.0]
    while len(weights) <= servers or weights[-1] > 1e-18 * max(weights):
        n = len(weights)
        weights.append(weights[-1] * load / (min(n, servers) + max(n - servers, 0) * rate))
    law = np.array(weights) / math.fsum(weights)
    waiting = np.maximum(np.arange(len(law)) - servers, 0)
    return law[servers:].sum(), rate * (law @ waiting) / load, law @ waiting


@given(st.integers(0, 40), st.floats(0.1, 40), st.floats(0.2, 20))
def test_erlang_a_is_its_stationary_law(servers, load, rate):
    measures = erlang.erlang_a(servers, load, rate)
    delay, lost, queue = balance(servers, load, rate)
    assert measures.delay_probability == pytest.approx(delay, rel=1e-12)
    assert measures.abandonment_probability == pytest.approx(lost, rel=1e-12)
    assert measures.mean_queue == pytest.approx(queue, rel=1e-12)


@given(
    st.floats(0.1, 1e6),
    st.floats(1e-3, 1e6),
    st.floats(-100, 12).map(lambda exponent: 10.0**exponent),
)
@example(100.0, 100.0, 1e-280)
@example(100.0, 100.0, 1e300)
def test_erlang_a_lies_between_its_limits(servers, load, rate):
    measures = erlang.erlang_a(servers, load, rate)
    blocking = erlang.erlang_b(servers, load)
    above = 1 + 1e-14
    assert blocking <= measures.delay_probability * above
    assert measures.delay_probability <= 1
    if load < servers:
        assert measures.delay_probability <= erlang.erlang_c(servers, load) * above
    assert 1 - servers / load <= measures.abandonment_probability + 1e-15
    assert measures.abandonment_probability <= measures.delay_probability * above
    assert measures.mean_queue * rate == pytest.approx(
        measures.abandonment_probability * load, rel=1e-13, abs=1e-300
    )


def test_erlang_a_tends_to_erlang_c_and_b():
    assert erlang.erlang_a(100, 90.0, 0.0).delay_probability == erlang.erlang_c(100, 90.0)
    assert erlang.erlang_a(100, 90.0, 0.0).abandonment_probability == 0
    assert erlang.erlang_a(100, 90.0, 0.0).mean_queue == pytest.approx(
        9 * erlang.erlang_c(100, 90.0), rel=1e-14
    )
    almost = erlang.erlang_a(100, 90.0, 1e-200)
    assert almost.delay_probability == pytest.approx(erlang.erlang_c(100, 90.0), rel=1e-14)
    assert almost.abandonment_probability == pytest.approx(almost.mean_queue * 1e-200 / 90)
    huge = erlang.erlang_a(100, 90.0, 1e200)
    assert huge.delay_probability == pytest.approx(erlang.erlang_b(100, 90.0), rel=1e-14)
    assert huge.abandonment_probability == pytest.approx(erlang.erlang_b(100, 90.0), rel=1e-14)


def sample_targets(rng, size):
    for i in range(size):
        load = float(10 ** rng.uniform(-3, 9))
        if i % 2:
            yield load, float(10 ** rng.uniform(-12, -0.001))
        else:
            yield load, float(1 - 10 ** rng.uniform(-3, -0.1))


def delay_in_balls(servers, load):
    inverse = inverse_in_balls(servers, load)
    return arb(servers) / (arb(load) + (arb(servers) - arb(load)) * inverse)


def test_servers_for_blocking_are_the_fewest():
    rng = np.random.default_rng(5)
    for load, target in sample_targets(rng, 200):
        found = erlang.servers_for_blocking(load, target)
        assert 1 / inverse_in_balls(found, load) <= arb(target), (load, target)
        assert 1 / inverse_in_balls(found - 1, load) > arb(target), (load, target)
        real = erlang.servers_for_blocking(load, target, real_valued=True)
        below, above = real * (1 - 1e-14), real * (1 + 1e-14)
        assert 1 / inverse_in_balls(below, load) >= arb(target), (load, target)
        assert 1 / inverse_in_balls(above, load) <= arb(target), (load, target)


def test_servers_for_delay_are_the_fewest():
    rng = np.random.default_rng(6)
    for load, target in sample_targets(rng, 200):
        found = erlang.servers_for_delay(load, target)
        assert delay_in_balls(found, load) <= arb(target), (load, target)
        if found - 1 > load:
            assert delay_in_balls(found - 1, load) > arb(target), (load, target)
        real = erlang.servers_for_delay(load, target, real_valued=True)
        assert delay_in_balls(real * (1 + 1e-14), load) <= arb(target), (load, target)
        if real * (1 - 1e-14) > load:
            assert delay_in_balls(real * (1 - 1e-14), load) >= arb(target), (load, target)


def test_servers_for_delay_with_abandonment_are_the_fewest():
    rng = np.random.default_rng(8)
    checked = 0
    for load, target in sample_targets(rng, 250):
        rate = float(10 ** rng.uniform(-6, 6))
        found = erlang.servers_for_delay(load, target, rate)
        assert erlang.erlang_a(found, load, rate).delay_probability <= target
        assert erlang.erlang_a(found - 1, load, rate).delay_probability > target
        real = erlang.servers_for_delay(load, target, rate, real_valued=True)
        assert erlang.erlang_a(real * (1 + 2e-12), load, rate).delay_probability <= target
        assert erlang.erlang_a(real * (1 - 2e-12), load, rate).delay_probability >= target
        if load < 1e4 and 1e-2 < rate < 1e3 and checked < 25:
            checked += 1
            assert abandonment_in_balls(float(found), load, rate)[0] <= arb(target)
            if found > 1:
                assert abandonment_in_balls(float(found - 1), load, rate)[0] > arb(target)
    assert checked == 25


@pytest.mark.parametrize("load", [1.0, 2.5, 33.3, 1e3 + 0.1, 1e6 + 0.3, 3e8])
@pytest.mark.parametrize("z", [-2.0, 0.0, 3.0])
def test_the_fewest_servers_at_a_tie(load, z):
    servers = float(max(2, round(load + z * math.sqrt(load))))
    ctx.prec = 200
    blocking = 1 / inverse_in_balls(servers, load)
    for ulps in (-2, -1, 0, 1, 2):
        target = float(blocking)
        target += ulps * math.ulp(target)
        expected = servers if blocking <= arb(target) else servers + 1
        assert erlang.servers_for_blocking(load, target) == expected
    if servers > load:
        delay = delay_in_balls(servers, load)
        for ulps in (-2, -1, 0, 1, 2):
            target = float(delay)
            target += ulps * math.ulp(target)
            expected = servers if delay <= arb(target) else servers + 1
            assert erlang.servers_for_delay(load, target) == expected


def extreme_targets(rng, size):
    """Loads and targets with hardly anybody lost, and with hardly anybody served."""
    for i in range(size):
        load = float(10 ** rng.uniform(-3, 9))
        yield load, float(10 ** -rng.uniform(0, 300) if i % 2 else 1 - 10 ** -rng.uniform(0.1, 15))


def assert_is_the_root(servers, odds, target):
    """The root moved by a relative 1e-14 lies on either side: ``odds`` rise with the servers."""
    wanted = (1 - arb(target)) / arb(target)
    assert odds(servers * (1 - 1e-14)) <= wanted, (servers, target)
    assert odds(servers * (1 + 1e-14)) >= wanted, (servers, target)


def test_real_servers_for_targets_close_to_zero_and_one():
    rng = np.random.default_rng(41)
    for load, target in extreme_targets(rng, 300):
        found = erlang.servers_for_blocking(load, target, real_valued=True)
        assert_is_the_root(found, lambda s, load=load: excess_in_balls(s, load), target)

        def odds_of_no_delay(servers, load=load):
            spare = (arb(servers) - arb(load)) / arb(servers)
            return excess_in_balls(servers, load) * spare if servers > load else arb(0)

        found = erlang.servers_for_delay(load, target, real_valued=True)
        assert found > load
        assert_is_the_root(found, odds_of_no_delay, target)


def odds_with_abandonment(servers, load, rate):
    delay, _, _ = abandonment_in_balls(float(servers), load, rate)
    return (1 - delay) / delay


@pytest.mark.parametrize(
    ("load", "target", "rate"),
    [
        (6557657.333876415, 1 - 2.1458e-10, 8882.96416106567),
        (1e4, 1 - 1e-12, 10.0),
        (300.0, 1 - 1e-15, 1.0),
        (300.0, 1e-250, 1.0),
        (1e5, 1e-290, 1e-3),
    ],
)
def test_servers_for_delay_with_abandonment_close_to_zero_and_one(load, target, rate):
    found = erlang.servers_for_delay(load, target, rate)
    wanted = (1 - arb(target)) / arb(target)
    assert odds_with_abandonment(found, load, rate) >= wanted
    assert odds_with_abandonment(found - 1, load, rate) < wanted


def test_a_small_target_at_a_small_load():
    load, target = 0.03555561315122876, 4.68e-299
    assert erlang.servers_for_delay(load, target) == 99
    assert delay_in_balls(99.0, load) <= arb(target) < delay_in_balls(98.0, load)


@pytest.mark.parametrize("load", [1e8, 7e11, 1e15 - 0.5])
@pytest.mark.parametrize("z", [-40.0, -3.0, 0.0, 4.0, 36.0])
def test_the_fewest_of_very_many_servers_at_a_tie(load, z):
    """Where doubles cannot tell, 50 digits decide, at once whatever the load."""
    servers = float(round(load + z * math.sqrt(load)))
    ctx.prec = 200
    blocking = 1 / inverse_in_balls(servers, load)
    for ulps in (-1, 0, 1):
        target = float(blocking)
        target += ulps * math.ulp(target)
        found = erlang.servers_for_blocking(load, target)
        assert 1 / inverse_in_balls(float(found), load) <= arb(target)
        assert 1 / inverse_in_balls(float(found - 1), load) > arb(target)


@pytest.mark.parametrize("target", [1 - 1e-9, 0.9, 0.5, 1e-3, 1e-7])
def test_the_fewest_servers_where_one_more_changes_no_digit(target):
    load = 1e15
    found = erlang.servers_for_blocking(load, target)
    assert 1 / inverse_in_balls(float(found), load) <= arb(target)
    assert 1 / inverse_in_balls(float(found - 1), load) > arb(target)


def test_ties_are_decided_alike_by_both_methods(monkeypatch):
    rng = np.random.default_rng(51)
    with localcontext() as context:
        context.prec = 60
        for _ in range(12):
            load = float(10 ** rng.uniform(8, 8.5))
            servers = round(near_load(rng, load, 30))
            short = _ties._inverse_erlang_b(servers, load)
            with monkeypatch.context() as patch:
                other = 0 if kernels.steps_of_recursion(float(servers), load) < 1e5 else 1e9
                patch.setattr(_ties, "_LONGEST_RECURSION", other)
                long = _ties._inverse_erlang_b(servers, load)
            assert abs(short / long - 1) < Decimal("1e-28")


def test_an_exactly_attained_target_is_met():
    assert erlang.servers_for_blocking(1.0, 0.5) == 1
    assert erlang.servers_for_blocking(3.0, 0.75) == 1
    assert erlang.servers_for_blocking(15.0, 0.9375) == 1
    assert erlang.servers_for_delay(0.5, 0.5) == 1


def test_arrays_broadcast_and_scalars_are_floats():
    servers = np.array([[1.0], [2.5]])
    loads = np.array([0.5, 1.0, 4.0])
    table = erlang.erlang_b(servers, loads)
    assert table.shape == (2, 3)
    assert table[1, 2] == erlang.erlang_b(2.5, 4.0)
    assert type(erlang.erlang_b(np.int64(2), 1)) is float
    assert type(erlang.erlang_c(2, 1)) is float
    measures = erlang.erlang_a(servers, loads, 0.5)
    assert measures.mean_queue.shape == (2, 3)
    assert measures.mean_queue[1, 2] == erlang.erlang_a(2.5, 4.0, 0.5).mean_queue
    assert type(erlang.erlang_a(2, 4, 1).mean_queue) is float
    staffing = erlang.servers_for_blocking(loads, [[0.1], [0.01]])
    assert staffing.shape == (2, 3)
    assert staffing.dtype == np.int64
    assert type(erlang.servers_for_delay(4.0, 0.1)) is int
    assert type(erlang.servers_for_delay(4.0, 0.1, real_valued=True)) is float
    assert erlang.erlang_b([], 1.0).shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: erlang.erlang_b(-1, 1.0), r"servers = -1\.0: must be finite and >= 0"),
        (lambda: erlang.erlang_b(1, math.nan), r"offered_load = nan: must be finite and >= 0"),
        (lambda: erlang.erlang_b([1, 2], [1.0, -2.0]), r"offered_load = -2\.0: must be finite"),
        (lambda: erlang.erlang_b(math.inf, 1.0), r"servers = inf: must be finite"),
        (lambda: erlang.erlang_b("many", 1.0), r"servers = 'many': must be a real number"),
        (lambda: erlang.erlang_b(1j, 1.0), r"servers = 1j: must be a real number"),
        (lambda: erlang.erlang_c(3, None), r"offered_load = .*None|offered_load = nan"),
        (lambda: erlang.erlang_a(1, 1.0, -0.5), r"abandonment_rate = -0\.5: must be finite"),
        (lambda: erlang.erlang_a(1, 1.0, 1e-300), r"abandonment_rate = 1e-300: must be 0 or >="),
        (lambda: erlang.servers_for_blocking(0.0, 0.1), r"offered_load = 0\.0: must be .* > 0"),
        (lambda: erlang.servers_for_blocking(1.0, 1.0), r"target = 1\.0: must be .* < 1"),
        (lambda: erlang.servers_for_delay([1.0, 2.0], math.nan), r"target = nan: must be finite"),
        (lambda: erlang.servers_for_delay(1.0, 0.1, -1.0), r"abandonment_rate = -1\.0"),
        (lambda: erlang.servers_for_delay(1.0, 0.1, 1e-300), r"abandonment_rate = 1e-300"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: erlang.log_erlang_c([9, 6], [2.0, 7.5]),
        lambda: erlang.erlang_c(6, 6.0),
        lambda: erlang.erlang_c([9, 6], [2.0, 7.5]),
        lambda: erlang.erlang_a([9, 6], 6.0, [1.0, 0.0]),
        lambda: erlang.erlang_a(0, 0.0, 0.0),
    ],
)
def test_unstable_systems_say_so(call):
    with pytest.raises(UnstableSystem, match=r"must be offered_load < servers"):
        call()


anything = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**20), 10**20)


@given(anything, anything, anything)
@settings(max_examples=300)
def test_no_input_gives_a_value_outside_its_domain(first, second, third):
    for call in (erlang.erlang_b, erlang.erlang_c):
        try:
            value = call(first, second)
        except ValueError:
            continue
        assert 0 <= value <= 1
    try:
        measures = erlang.erlang_a(first, second, third)
    except ValueError:
        pass
    else:
        assert 0 <= measures.delay_probability <= 1
        assert 0 <= measures.abandonment_probability <= 1
        assert 0 <= measures.mean_queue < math.inf
    for inverse, arguments in (
        (erlang.servers_for_blocking, (first, second)),
        (erlang.servers_for_delay, (first, second, third)),
    ):
        try:
            found = inverse(*arguments)
        except ValueError:
            continue
        assert found >= 1
