"""Expansions in the QED regime, against direct sums in ball arithmetic.

Nothing here but the function under test knows an expansion: the exact probabilities come from
their defining sums at integer √servers, and reference coefficients from the polynomial in
1/√servers through such values.
"""

import functools
import itertools
import math
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from qcore import UnstableSystem, qed
from qcore._numerics.gaussian import gaussian_moments
from qcore._numerics.power_series import bernoulli, precise
from qcore.admission import (
    Abandonment,
    FiniteBuffer,
    ModifiedDrift,
    NoWaiting,
    OpenAdmission,
    PowerDecay,
    ScalingProfile,
    from_global,
    from_local,
)
from qcore.qed._expansions import _coefficients, ingredients_of

pytestmark = pytest.mark.filterwarnings("error")

BITS = 320
RATE = 0.75
SIZE = 1.25
ROOTS = range(9, 9 + 4 * 32, 4)


@pytest.fixture(autouse=True)
def _precision():
    before, ctx.prec = ctx.prec, BITS
    yield
    ctx.prec = before


def under_global(f):
    """q_s(n) = f((n + 1)/√s) as an infinite sequence."""
    return lambda root: (f(arb(n) / root) for n in itertools.count(1))


def under_local(a):
    """q_s(n), the product of 1/(1 + a((k + 1)/√s)/√s) over k ≤ n."""

    def sequence(root):
        q = arb(1)
        for n in itertools.count(1):
            q /= 1 + a(arb(n) / root) / root
            yield q

    return sequence


def in_buffer(root):
    return [arb(1)] * math.floor(SIZE * root)


class Geometric:
    """q_s(n) = r^(n + 1), whose sum needs no terms."""

    def __init__(self, ratio):
        self.ratio = ratio


def drift_ratio(root):
    return arb(0.5) ** (1 / arb(root))


def local_drift_ratio(root):
    return 1 / (1 + arb(2).log() / root)


SYSTEMS = {
    "Erlang B": (NoWaiting(), None, lambda root: ()),
    "Erlang C": (OpenAdmission(), None, Geometric(lambda root: arb(1))),
    "Erlang A": (Abandonment(0.75), None, under_local(lambda x: RATE * x)),
    "Gaussian, global": (
        Abandonment(0.75),
        "global",
        under_global(lambda x: (-RATE * x * x / 2).exp()),
    ),
    "drift, global": (
        ModifiedDrift(0.5),
        None,
        Geometric(drift_ratio),
    ),
    "drift, local": (
        ModifiedDrift(0.5),
        "local",
        Geometric(local_drift_ratio),
    ),
    "buffer": (FiniteBuffer(SIZE), None, in_buffer),
    "power": (PowerDecay(2.5), None, under_global(lambda x: 1 / ((1 + x) ** 2 * (1 + x).sqrt()))),
    "own f, global": (
        from_global(lambda x: 1 / mpmath.cosh(x)),
        None,
        under_global(lambda x: 1 / x.cosh()),
    ),
    "own f, local": (
        from_global(lambda x: 1 / mpmath.cosh(x), a=np.tanh),
        "local",
        under_local(lambda x: x.tanh()),
    ),
    "own saturating a, local": (
        from_local(lambda x: -mpmath.expm1(-x), gamma_min=-1.0),
        None,
        under_local(lambda x: 1 - (-x).exp()),
    ),
    "own a, local": (
        from_local(lambda x: x * (1 + x / 2), gamma_min=-math.inf),
        None,
        under_local(lambda x: x + x * x / 2),
    ),
}
CLOSED_FORM = [name for name in SYSTEMS if name not in ("power",) and "own" not in name]
WITHIN = {
    "buffer": 1e-14,
    "power": 2e-14,
    "own f, global": 2e-14,
    "own f, local": 5e-14,
    "own saturating a, local": 5e-14,
    "own a, local": 2e-12,
}


def inverse_erlang_b(servers, load):
    """1/B = Σ_k s(s − 1)…(s − k + 1)/load^k."""
    total, term = arb(0), arb(1)
    for k in range(servers + 1):
        total += term
        term *= (servers - k) / load
        if servers - k < load and term < total * arb(2) ** -BITS:
            break
    return total


def waiting_sum(q, load_per_server, root):
    """F_s = Σ q_s(n)ρ^(n + 1), added up until the terms are negligible."""
    if isinstance(q, Geometric):
        ratio = load_per_server * q.ratio(root)
        return ratio / (1 - ratio)
    total, power, last = arb(0), arb(1), arb(0)
    for factor in q(root):
        power *= load_per_server
        term = power * factor
        total += term
        if term < last and term < total * arb(2) ** -BITS:
            break
        last = term
    return total


@functools.cache
def exact(name, gamma, root):
    """Return the delay and the rejection probability by their defining sums, s = root²."""
    load_per_server = 1 - arb(gamma) / root
    waiting = waiting_sum(SYSTEMS[name][2], load_per_server, root)
    denominator = inverse_erlang_b(root**2, root**2 * load_per_server) + waiting
    return (1 + waiting) / denominator, (1 + (1 - 1 / load_per_server) * waiting) / denominator


def leading_power(name, measure):
    return 1 if measure == "rejection" or name == "Erlang B" else 0


def extrapolated(name, measure, gamma, roots, order):
    """Return the coefficients of the series, from exact values at these √s."""
    which = ("delay", "rejection").index(measure)
    power = leading_power(name, measure)
    return newton(
        [1 / arb(root) for root in roots],
        [exact(name, gamma, root)[which] * arb(root) ** power for root in roots],
        order,
    )


def newton(nodes, values, order):
    """Coefficients of the polynomial in 1/√s through these values, by Newton's formula."""
    table = list(values)
    for level in range(1, len(nodes)):
        for i in range(len(nodes) - 1, level - 1, -1):
            table[i] = (table[i] - table[i - 1]) / (nodes[i] - nodes[i - level])
    coefficients = [table[-1]]
    for node, difference in zip(nodes[-2::-1], table[-2::-1], strict=True):
        shifted = [difference, *coefficients]
        for i, c in enumerate(coefficients):
            shifted[i] -= node * c
        coefficients = shifted
    return np.array([float(c.mid()) for c in coefficients[: order + 1]])


def coefficients_of(name, measure, gamma, order):
    profile, control, _ = SYSTEMS[name]
    function = qed.delay_coefficients if measure == "delay" else qed.rejection_coefficients
    result = function(gamma, profile, order, control)
    if name == "buffer":  # At roots 1 + 4j the fractional part of 1.25·root is 1/4.
        result = np.polynomial.polynomial.polyval(-0.25, result.T)
    return result


@pytest.mark.parametrize("measure", ["delay", "rejection"])
@pytest.mark.parametrize("gamma", [-1.5, 0.75])
@pytest.mark.parametrize("name", SYSTEMS)
def test_coefficients_are_those_of_the_exact_probability(name, gamma, measure):
    profile = SYSTEMS[name][0]
    if gamma <= profile.gamma_min:
        pytest.skip("unstable")
    order = 12 if name in CLOSED_FORM else 6
    found = coefficients_of(name, measure, gamma, order)
    if name == "Erlang C" and measure == "rejection":
        assert not found.any()
        return
    roots = ROOTS if name in CLOSED_FORM else ROOTS[:22]
    expected = extrapolated(name, measure, gamma, roots, order)
    fewer = extrapolated(name, measure, gamma, roots[2:], order)
    np.testing.assert_allclose(fewer, expected, rtol=1e-14)
    np.testing.assert_allclose(found, expected, rtol=WITHIN.get(name, 2e-15))


@pytest.mark.parametrize("measure", ["delay", "rejection"])
@pytest.mark.parametrize("name", [name for name in SYSTEMS if name != "buffer"])
def test_errors_fall_with_the_promised_power(name, measure):
    """The error over s^(−(n + 1 + p)/2) must go to c_(n+1): that is slope −(n + 1)/2."""
    gamma = 0.75
    if name == "Erlang C" and measure == "rejection":
        pytest.skip("never rejects")
    profile, control, _ = SYSTEMS[name]
    which = ("delay", "rejection").index(measure)
    power = leading_power(name, measure)
    next_terms = extrapolated(name, measure, gamma, ROOTS[:22], 8)
    expansion = qed.delay_expansion if measure == "delay" else qed.rejection_expansion
    for order in range(7) if name in CLOSED_FORM else (0, 3, 6):
        # The larger root leaves an error of some 1e-11, well above rounding.
        roots = [round(10 ** (10 / (order + 1 + power)) / scale) for scale in (2, 1)]
        roots = [min(max(root, 9 * scale), 400) for root, scale in zip(roots, (1, 2), strict=True)]
        approximate = expansion(gamma, profile, order, control)
        errors = []
        for root in roots:
            error = exact(name, gamma, root)[which] - arb(approximate(root**2))
            errors.append(float(error * arb(root) ** (order + 1 + power)))
        c, following = next_terms[order + 1 : order + 3]
        allowed = 2 * abs(following) / np.array(roots) + 0.02 * abs(c) + 1e-4
        assert np.all(np.abs(np.array(errors) - c) < allowed), (order, roots, errors, c)


@pytest.mark.parametrize("measure", ["delay", "rejection"])
@pytest.mark.parametrize(
    "name", ["Erlang B", "Erlang C", "Erlang A", "Gaussian, global", "drift, global"]
)
def test_slopes_from_a_hundred_to_a_million_servers(name, measure):
    """Slopes −(n + 1)/2 of the relative error, n = 0 … 6: of the unrounded series."""
    if name == "Erlang C" and measure == "rejection":
        pytest.skip("never rejects")
    gamma = 1.25
    profile, control, _ = SYSTEMS[name]
    ingredients = ingredients_of(gamma, profile, 6, profile.resolve_control(control))
    with precise(100):
        series = _coefficients(measure, ingredients, [])
    series = [arb(str(c)) for c in series]
    which = ("delay", "rejection").index(measure)
    for order in range(7):
        errors = []
        for root in (100, 1000):
            polynomial = sum(c / arb(root) ** k for k, c in enumerate(series[: order + 1]))
            value = exact(name, gamma, root)[which] * arb(root) ** leading_power(name, measure)
            errors.append(abs(value - polynomial) / value)
        slope = float((errors[1] / errors[0]).log() / arb(100).log())
        assert slope == pytest.approx(-(order + 1) / 2, abs=0.03), order


def test_erlang_b_at_critical_load_is_the_published_series():
    """1/B = √(πs/2) + 2/3 + √(π/(2s))/12 − 4/(135s) + √(π/(2s³))/288 + 8/(2835s²) + …

    Knuth, The Art of Computer Programming, vol. 1, 1.2.11.3 (25), for Q(s) = 1/B − 1.
    """
    root = math.sqrt(math.pi / 2)
    published = [root, 2 / 3, root / 12, -4 / 135, root / 288, 8 / 2835]
    series = qed.delay_coefficients(0.0, NoWaiting(), 5)
    product = np.convolve(published, series)[:6]
    np.testing.assert_allclose(product, [1, 0, 0, 0, 0, 0], atol=4e-16)


@pytest.mark.parametrize("gamma", [-8.0, -1.0, 0.3, 1.0, 3.0, 20.0])
def test_leading_terms_are_the_published_limits(gamma):
    hazard = norm.pdf(gamma) / norm.cdf(gamma)
    erlang_b = qed.rejection_coefficients(gamma, NoWaiting(), 0)
    np.testing.assert_allclose(erlang_b, [hazard], rtol=1e-12)
    if gamma > 0:  # Halfin and Whitt (1981), Proposition 1
        erlang_c = qed.delay_coefficients(gamma, OpenAdmission(), 0)
        np.testing.assert_allclose(erlang_c, [1 / (1 + gamma / hazard)], rtol=1e-12)
    # Garnett, Mandelbaum and Reiman (2002), Theorem 1*
    theta = 1.7
    z = gamma / math.sqrt(theta)
    inverse = 1 + math.sqrt(theta) * norm.pdf(z) / norm.sf(z) / hazard
    erlang_a = qed.delay_coefficients(gamma, Abandonment(theta), 0)
    np.testing.assert_allclose(erlang_a, [1 / inverse], rtol=1e-12)


def test_halfin_whitt_number():
    assert qed.delay_probability(1e12, 1.0, OpenAdmission()) == pytest.approx(0.2234, abs=5e-5)


def test_erlang_a_with_patience_as_service_is_poisson():
    """At θ = 1 the number present is Poisson: the delay is its upper tail."""
    servers, gamma = 400, 0.5
    with mpmath.workdps(30):
        tail = mpmath.gammainc(servers, 0, servers - 10, regularized=True)
    assert qed.delay_probability(servers, gamma, Abandonment(1.0), 9) == pytest.approx(
        float(tail), rel=1e-12
    )


@pytest.mark.parametrize("name", ["power", "own f, global", "Gaussian, global", "drift, global"])
def test_first_correction_is_theorem_4_3(name):
    """F_s to order 1/√s by the transform, its derivatives and f′(0), whatever the profile."""
    gamma = 0.75
    profile, control, _ = SYSTEMS[name]
    transform, first, second = (profile.laplace(gamma, derivative=k) for k in range(3))
    slope = profile.derivatives_at_zero(1)[1]
    waiting = [
        transform,
        gamma**2 * first / 2 - 0.5,
        gamma**3 * first / 3 + gamma**4 * second / 8 + (gamma - slope) / 12,
    ]
    erlang_b = qed.delay_coefficients(gamma, NoWaiting(), 2)
    numerator = np.convolve([waiting[0], waiting[1] + 1, waiting[2]], erlang_b)[:3]
    denominator = np.array([1.0, 0, 0]) + np.convolve(waiting, erlang_b)[:3]
    delay = qed.delay_coefficients(gamma, profile, 2, control)
    np.testing.assert_allclose(np.convolve(delay, denominator)[:3], numerator, rtol=1e-12)


@pytest.mark.parametrize("gamma", [-2.0, 0.0, 1e-25, 1e-9, 0.6])
def test_finite_buffer_for_every_fractional_part(gamma):
    size = 0.9
    servers = np.array([50.0, 173, 401, 1000, 1001, 1002, 5000, 40001])
    found = qed.delay_probability(servers, gamma, FiniteBuffer(size), 7)
    refused = qed.rejection_probability(servers, gamma, FiniteBuffer(size), 7)
    for s, delay, rejection in zip(servers, found, refused, strict=True):
        root = arb(s).sqrt()
        load = 1 - arb(gamma) / root
        waiting = sum((load ** (n + 1) for n in range(math.floor(size * math.sqrt(s)))), arb(0))
        denominator = inverse_erlang_b(int(s), s * load) + waiting
        allowed = 1e-13 + 500 * s**-4.0
        assert delay == pytest.approx(float((1 + waiting) / denominator), rel=allowed)
        blocked = (1 + (1 - 1 / load) * waiting) / denominator
        assert rejection == pytest.approx(float(blocked), rel=allowed)


@pytest.mark.parametrize(("size", "root", "places"), [(0.1, 30, 3), (0.3, 10, 3), (0.7, 10, 7)])
def test_finite_buffer_counts_places_as_the_profile_does(size, root, places):
    f = FiniteBuffer(size).f
    assert f(places / root) == 1
    assert f((places + 1) / root) == 0
    below = qed.delay_expansion(0.5, FiniteBuffer(size), 8)
    allowed = sum((1 - 0.5 / root) ** (n + 1) for n in range(places))
    inverse = float(inverse_erlang_b(root**2, arb(root**2 - root * 0.5)))
    assert below(root**2) == pytest.approx((1 + allowed) / (inverse + allowed), rel=1e-7)


@pytest.mark.parametrize("exponent", [1.5, 3.0])
def test_power_decay_at_critical_load(exponent):
    """γ = 0 is γ_min here, and stable: F_s = s^(ν/2) ζ(ν, √s + 1)."""
    root = 60
    with mpmath.workdps(40):
        waiting = mpmath.mpf(root) ** exponent * mpmath.zeta(exponent, root + 1)
        inverse = mpmath.mpf(inverse_erlang_b(root**2, arb(root**2)).mid().str(40, radius=False))
        delay = (1 + waiting) / (inverse + waiting)
    profile = PowerDecay(exponent)
    assert qed.delay_probability(root**2, 0.0, profile, 8) == pytest.approx(float(delay), rel=1e-14)


def test_real_valued_servers():
    """1/B is the incomplete gamma function at any real s."""
    servers, gamma = 250.375, 0.8
    with mpmath.workdps(40):
        load = servers - gamma * mpmath.sqrt(servers)
        inverse = mpmath.gammainc(servers + 1, load) * mpmath.exp(load) / load**servers
    found = qed.rejection_probability(servers, gamma, NoWaiting(), 10)
    assert found == pytest.approx(float(1 / inverse), rel=1e-13)


@pytest.mark.parametrize("gamma", [-1e4, -30.0, -3.01, -2.99, -0.5, 0.0, 1e-9, 2.99, 3.01, 30.0])
def test_gaussian_moments(gamma):
    with precise(100), mpmath.workdps(120):
        moments = [mpmath.mpf(str(m)) for m in gaussian_moments(Decimal(gamma), 66)]
        g = mpmath.mpf(gamma)
        for n in (0, 1, 2, 7, 30, 66):
            expected = mpmath.factorial(n) * mpmath.exp(g * g / 4) * mpmath.pcfd(-n - 1, -g)
            assert abs(moments[n] / expected - 1) < 1e-75


def test_bernoulli_numbers():
    for n in (0, 1, 2, 3, 12, 30):
        assert float(bernoulli(n)) == pytest.approx(float(mpmath.bernoulli(n) if n != 1 else -0.5))


@pytest.mark.parametrize("gamma", [-30.0, -10.0, 10.0, 30.0])
@pytest.mark.parametrize("control", ["global", "local"])
def test_far_from_critical_load(gamma, control):
    """Tiny and nearly certain delays: relative accuracy when √s far exceeds γ³."""
    servers = 1e14
    profile = Abandonment(2.0)
    found = qed.delay_probability(servers, gamma, profile, 6, control)
    z = gamma / math.sqrt(2)
    log_idle = norm.logcdf(gamma) - norm.logpdf(gamma)
    log_waiting = norm.logsf(z) - norm.logpdf(z) - math.log(2) / 2
    log_limit = -np.logaddexp(0, log_idle - log_waiting)
    assert found == pytest.approx(math.exp(log_limit), rel=abs(gamma) ** 3 / 1e7)
    assert 0 < found <= 1


@pytest.mark.parametrize("name", ["Erlang B", "Erlang C", "Erlang A", "drift, global", "power"])
@pytest.mark.parametrize("order", [0, 1, 3, 5])
def test_truncation_error_is_of_the_size_of_the_error(name, order):
    gamma, root = 0.75, 40
    expansion = qed.delay_expansion(gamma, SYSTEMS[name][0], order, SYSTEMS[name][1])
    error = abs(float(exact(name, gamma, root)[0] - arb(expansion(root**2))))
    estimate = expansion.truncation_error(root**2)
    assert 0.7 * error < estimate + 1e-16
    assert estimate < 3 * error + 1e-15


def test_truncation_error_of_a_finite_buffer():
    servers = np.array([900.0, 910, 920])
    profile = FiniteBuffer(1.0)
    expansion = qed.delay_expansion(0.4, profile, 3)
    error = np.abs(expansion(servers) - qed.delay_probability(servers, 0.4, profile, 12))
    estimate = expansion.truncation_error(servers)
    assert np.all((0.7 * error < estimate) & (estimate < 5 * error))


def test_local_and_global_control_differ_from_the_first_correction_on():
    by_global, by_local = (
        qed.delay_coefficients(0.5, Abandonment(1.0), 2, control) for control in ("global", "local")
    )
    assert by_global[0] == pytest.approx(by_local[0], rel=1e-15)
    assert abs(by_global[1] - by_local[1]) > 0.01


def test_open_admission_is_modified_drift_with_nothing_refused():
    np.testing.assert_array_equal(
        qed.delay_coefficients(0.5, ModifiedDrift(1.0), 5),
        qed.delay_coefficients(0.5, OpenAdmission(), 5),
    )
    assert qed.rejection_probability(100, 0.5, ModifiedDrift(1.0), 3) == 0.0


def test_no_first_correction_to_abandonment_at_critical_load():
    coefficients = qed.rejection_coefficients(0.0, Abandonment(0.3), 3)
    assert coefficients[1] == 0.0
    assert coefficients[2] != 0.0


def test_arrays_broadcast_and_scalars_are_floats():
    servers, gamma = np.array([[10.0], [1000.0]]), np.array([0.1, 0.5, 1.0])
    found = qed.delay_probability(servers, gamma, OpenAdmission(), 3)
    assert found.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        single = qed.delay_probability(servers[i, 0], gamma[j], OpenAdmission(), 3)
        assert isinstance(single, float)
        assert single == found[i, j]
    expansion = qed.rejection_expansion(0.5, NoWaiting(), 2)
    assert isinstance(expansion(10), float)
    assert isinstance(expansion.truncation_error(10), float)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    servers=st.floats(1e-3, 1e12),
    gamma=st.floats(-40, 40),
    profile=st.sampled_from(
        [NoWaiting(), OpenAdmission(), Abandonment(0.01), ModifiedDrift(0.2), FiniteBuffer(2.0)]
    ),
    order=st.integers(0, 8),
    control=st.sampled_from([None, "global", "local"]),
)
def test_always_a_probability_or_a_clear_refusal(servers, gamma, profile, order, control):
    for function in (qed.delay_probability, qed.rejection_probability):
        if gamma < math.sqrt(servers) and gamma > profile.gamma_min:
            assert 0 <= function(servers, gamma, profile, order, control) <= 1
        else:
            with pytest.raises(ValueError, match=r"^gamma = "):
                function(servers, gamma, profile, order, control)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.5, OpenAdmission()), "servers = 0.0: must be finite and > 0"),
        ((np.nan, 0.5, OpenAdmission()), "servers = nan"),
        ((100, np.inf, OpenAdmission()), "gamma = inf: must be finite"),
        ((100, 10.0, OpenAdmission()), "gamma = 10.0: must be below the square root of servers"),
        ((100, 0.5, "open"), "profile = 'open': must be a ScalingProfile"),
        ((100, 0.5, OpenAdmission(), -1), "order = -1: must be an integer >= 0"),
        ((100, 0.5, OpenAdmission(), 31), "order = 31: must be an integer >= 0 and <= 30"),
        ((100, 0.5, OpenAdmission(), 1.0), "order = 1.0: must be an integer"),
        ((100, 0.5, OpenAdmission(), 1, "both"), "control = 'both': must be one of"),
        ((1e30, 1e10, OpenAdmission()), r"gamma = 10000000000.0: must be finite and >= -1e\+09"),
        (([1, 2], [0.1, 0.2, 0.3], OpenAdmission()), "must broadcast against each other"),
        ((100, 0.5, PowerDecay(2.0), 1, "local"), "control = 'local': .* decreases"),
    ],
)
def test_bad_arguments(arguments, message):
    for function in (qed.delay_probability, qed.rejection_probability):
        with pytest.raises(ValueError, match=message):
            function(*arguments)


@pytest.mark.parametrize(
    ("gamma", "profile", "gamma_min"),
    [
        (0.0, OpenAdmission(), "0"),
        (-0.1, OpenAdmission(), "0"),
        (math.log(0.5), ModifiedDrift(0.5), "-0.693147"),
        (0.0, PowerDecay(1.0), "0"),
        (-0.2, PowerDecay(3.0), "0"),
        (-1.0, from_local(lambda x: 1 - np.exp(-x), [0.0, 1.0]), "-1"),
    ],
)
def test_unstable_systems(gamma, profile, gamma_min):
    with pytest.raises(UnstableSystem, match=f"above gamma_min = {gamma_min} of"):
        qed.delay_coefficients(gamma, profile, 0)


def test_a_floating_point_rate_has_no_derivatives_under_local_control():
    profile = from_local(
        lambda x: math.sqrt(1 + x * x), [1.0, 0.0, 1.0, 0.0, -3.0], gamma_min=-math.inf
    )
    with pytest.raises(ValueError, match="needs derivatives of a"):
        qed.delay_coefficients(0.5, profile, 2)
    assert qed.delay_coefficients(0.5, profile, 2, "global").shape == (3,)


class Kinked(ScalingProfile):
    """a(x) = x up to 1/3, then steeper."""

    control = "local"
    gamma_min = -math.inf

    def _log_f(self, x):
        return -(x**2) / 2 - np.maximum(x - 1 / 3, 0) ** 2 / 2

    def _a(self, x):
        return x + np.maximum(x - 1 / 3, 0)

    def _a_derivatives(self, n):
        return np.array([0.0, 1.0, *[0.0] * n])[: n + 1]

    def a_derivatives(self, x, n):
        rows = np.zeros((n + 1, len(x)))
        rows[0] = self._a(x)
        rows[1] = np.where(x < 1 / 3, 1.0, 2.0)
        return rows


def test_a_kink_is_refused():
    with pytest.raises(ValueError, match="do not settle"):
        qed.delay_coefficients(0.5, Kinked(), 2)


def test_derivatives_by_a_method_must_have_the_right_shape():
    profile = from_local(lambda x: x, a_derivatives=lambda x, n: np.zeros(len(x)))
    with pytest.raises(ValueError, match="must give 2 rows"):
        qed.delay_coefficients(0.5, profile, 2)


# ---------------------------------------------------------------- profiles that break


def threshold(x):
    """Everybody up to 1, fewer and fewer beyond: a kink."""
    return mpmath.exp(-max(x - 1, 0))


def two_jumps(x):
    """A jump at 3/5, where the value is that from above, and one at 13/10."""
    if x < 0.6:
        return mpmath.exp(-x / 4)
    if x <= 1.3:
        return mpmath.exp(-x / 2) * 0.875
    return mpmath.exp(-x * x) * 0.75


def parabola(x):
    return mpmath.mpf(1) - x * x / 2 if x <= 1.25 else mpmath.mpf(0)


def stepwise_rate(x):
    """A kink at 1/2, and a jump at 5/4, where the value is that from above."""
    if x < 1.25:
        return x + max(x - 0.5, 0)
    return 3 + x * x / 8


def ending_rate(x):
    return x if x <= 1.25 else math.inf


def pieces_of_two_jumps(root):
    def value(n):
        x = arb(n) / root
        if n < 0.6 * root:
            return (-x / 4).exp()
        return (-x / 2).exp() * 0.875 if n <= 1.3 * root else (-x * x).exp() * 0.75

    return (value(n) for n in itertools.count(1))


def threshold_terms(root):
    return (
        (1 - arb(max(n, root)) / root).exp() if n > root else arb(1) for n in itertools.count(1)
    )


def stepwise_terms(root):
    q = arb(1)
    for n in itertools.count(1):
        x = arb(n) / root
        low = x + (x - 0.5 if 2 * n > root else 0)
        a = low if 4 * n < 5 * root else 3 + x * x / 8
        q /= 1 + a / root
        yield q


def ending_terms(root):
    q = arb(1)
    for n in range(1, math.floor(1.25 * root) + 1):
        q /= 1 + arb(n) / root / root
        yield q


def local_threshold_terms(root):
    q = arb(1)
    for n in itertools.count(1):
        q /= 1 + (arb(1) / root if n > root else 0)
        yield q


BROKEN = {
    "kink": (from_global(threshold, breaks=[1.0]), "global", threshold_terms),
    "kink, local": (from_global(threshold, breaks=[1.0]), "local", local_threshold_terms),
    "two jumps": (
        from_global(two_jumps, breaks=[0.6, 1.3], gamma_min=-math.inf),
        "global",
        pieces_of_two_jumps,
    ),
    "ends": (
        from_global(parabola, breaks=[1.25]),
        "global",
        lambda root: (1 - (arb(n) / root) ** 2 / 2 for n in range(1, math.floor(1.25 * root) + 1)),
    ),
    "kink and jump, local": (
        from_local(stepwise_rate, breaks=[0.5, 1.25]),
        "local",
        stepwise_terms,
    ),
    "ends, local": (from_local(ending_rate, breaks=[1.25]), "local", ending_terms),
}


def exact_with_breaks(name, gamma, root):
    load_per_server = 1 - arb(gamma) / root
    waiting = waiting_sum(BROKEN[name][2], load_per_server, root)
    denominator = inverse_erlang_b(root**2, root**2 * load_per_server) + waiting
    return (1 + waiting) / denominator, (1 + (1 - 1 / load_per_server) * waiting) / denominator


@pytest.mark.parametrize("measure", ["delay", "rejection"])
@pytest.mark.parametrize("name", ["two jumps", "ends", "kink and jump, local", "ends, local"])
def test_coefficients_at_breaks_are_those_of_the_exact_probability(name, measure):
    """At roots 3 + 20j the breaks have the same fractional parts in steps of 1/√s."""
    profile, control, _ = BROKEN[name]
    which = ("delay", "rejection").index(measure)
    make = qed.delay_expansion if measure == "delay" else qed.rejection_expansion
    gamma, roots = 0.6, [43 + 20 * j for j in range(24)]
    found = make(gamma, profile, 6, control).coefficients_at(roots[0] ** 2)
    values = [exact_with_breaks(name, gamma, root)[which] * arb(root) ** which for root in roots]
    nodes = [1 / arb(root) for root in roots]
    expected = newton(nodes, values, 6)
    np.testing.assert_allclose(newton(nodes[2:], values[2:], 6), expected, rtol=1e-14)
    np.testing.assert_allclose(found[:5], expected[:5], rtol=5e-14)
    np.testing.assert_allclose(found, expected, rtol=4e-12)


@pytest.mark.parametrize("measure", ["delay", "rejection"])
@pytest.mark.parametrize("name", BROKEN)
def test_errors_at_breaks_fall_with_the_promised_power(name, measure):
    """After order n = 0 … 4 the error is c_(n+1) s^(−(n + 1)/2) and what comes after that."""
    profile, control, _ = BROKEN[name]
    which = ("delay", "rejection").index(measure)
    make = qed.delay_expansion if measure == "delay" else qed.rejection_expansion
    gamma = 0.6
    expansions = make(gamma, profile, 2, control), make(gamma, profile, 6, control)
    for root in (23, 40, 103):  # at 40 the breaks are multiples of 1/√s themselves
        exact_value = exact_with_breaks(name, gamma, root)[which]
        c = expansions[1].coefficients_at(root**2)
        for order in range(5):
            series = sum(c[k] / root ** (k + which) for k in range(order + 1))
            error = float(exact_value - arb(series))
            power = order + 1 + which
            following = abs(c[order + 2]) / root ** (power + 1)
            allowed = 2.5 * following + 1e-15
            assert abs(error - c[order + 1] / root**power) < allowed, (root, order, error)
            if order == 2:
                assert expansions[0](root**2) == pytest.approx(series, rel=1e-12)
                estimate = expansions[0].truncation_error(root**2)
                assert abs(error) < 2.5 * estimate + 1e-15
                assert estimate < 3 * (abs(error) + following) + 1e-15


def test_coefficients_at_servers_are_the_polynomials_in_the_fractions():
    for name, axes in (("kink", 1), ("two jumps", 2)):
        profile, control, _ = BROKEN[name]
        expansion = qed.delay_expansion(-0.4, profile, 4, control)
        assert expansion.coefficients.shape == (5,) * (axes + 1)
        servers = np.array([150.0, 777.0, 12345.0])
        found = expansion.coefficients_at(servers)
        assert found.shape == (3, 5)
        for s, row in zip(servers, found, strict=True):
            fractions = [piece.end * math.sqrt(s) % 1 - 0.5 for piece in profile.pieces()[:-1]]
            for k in range(5):
                value = expansion.coefficients[k]
                for fraction in fractions:
                    value = np.polynomial.polynomial.polyval(fraction, value)
                assert row[k] == pytest.approx(value, rel=1e-10, abs=1e-12)


def test_a_finite_buffer_is_a_profile_that_breaks():
    buffer = FiniteBuffer(1.25)
    own = from_global(lambda x: 1.0 if x <= 1.25 else 0.0, breaks=[1.25])
    also = from_local(lambda x: 0.0 if x <= 1.25 else math.inf, breaks=[1.25])
    for gamma in (-1.3, 0.0, 0.7):
        expected = qed.delay_coefficients(gamma, buffer, 4)
        for profile in (own, also):
            found = qed.delay_coefficients(gamma, profile, 4)
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("profile", "near"),
    [
        (from_global(lambda x: 1.0 if x <= 1 else math.exp(1 - x), gamma_min=-1), 1.0),
        (from_global(threshold), 1.0),
        (from_global(two_jumps, gamma_min=-math.inf), 1.3),
        (
            from_global(lambda x: mpmath.exp(-(mpmath.mpf(max(x - 2, 0)) ** 4))),
            2.0,
        ),
        (from_global(lambda x: np.where(x <= 1, 1.0, 0.0), gamma_min=-math.inf), 1.0),
        (from_local(stepwise_rate), 1.25),
        (from_local(np.floor, gamma_min=-math.inf), 1.0),
        (from_local(ending_rate, gamma_min=-math.inf), 1.25),
    ],
)
def test_breaks_that_are_not_declared_are_refused(profile, near):
    with pytest.raises(ValueError, match=r"near x = .*breaks") as refusal:
        qed.delay_probability(100, 0.5, profile, 1)
    named = float(str(refusal.value).split("near x = ")[1].split(";")[0])
    # The first to be found need not be the first of several.
    assert abs(named / near - 1) < 1e-3 or named < near
    if profile.control == "global":
        assert 0 < qed.delay_probability(100, 0.5, profile, 0) < 1


@pytest.mark.parametrize(
    "profile",
    [
        from_global(lambda x: mpmath.exp(-x - mpmath.sin(x) / 2), gamma_min=-1),
        from_global(lambda x: 1 / (1 + 100 * x * x)),
        from_global(mpmath.erfc),
        from_local(mpmath.atan),
    ],
)
def test_smooth_profiles_are_not_taken_for_broken(profile):
    assert 0 < qed.delay_probability(400, 0.5, profile, 3) < 1


def test_that_there_are_no_breaks_can_be_said():
    """Somebody who says so gets what smoothness would give, which is wrong from ε² on here."""
    smooth, broken = (
        qed.delay_coefficients(0.5, from_global(threshold, breaks=breaks), 2)
        for breaks in ((), [1.0])
    )
    assert smooth[0] == pytest.approx(broken[0, 0], rel=1e-12)
    assert smooth.shape == (3,)


@pytest.mark.parametrize(
    ("profile", "last", "power"),
    [
        (from_global(lambda x: mpmath.exp(-(x**1.5))), 1, "-1.25"),
        (from_global(lambda x: mpmath.exp(-mpmath.sqrt(x))), 1, "-0.75"),
        (from_local(mpmath.sqrt), 1, "-0.75"),
    ],
)
def test_a_profile_that_is_not_smooth_at_zero_says_which_power_comes(profile, last, power):
    """A term x^α of f or a at 0 brings in s^(−(1 + α)/2): order 0 and 1 need no derivative."""
    for order in range(last + 1):
        assert 0 < qed.delay_probability(400, 0.5, profile, order, "global") < 1
    with pytest.raises(ValueError, match=rf"comes servers\^\({power}\)"):
        qed.delay_probability(400, 0.5, profile, 3)


@pytest.mark.parametrize("control", ["global", "local"])
def test_the_power_that_comes_at_a_root_is_the_one_that_is_said(control):
    """a = √x: after order 1 the error falls like s^(−5/4) globally and s^(−3/4) locally."""
    profile = from_local(
        np.sqrt, [0.0], integral=lambda x: 2 / 3 * x**1.5, gamma_min=-math.inf, breaks=()
    )
    if control == "global":
        profile = from_global(
            lambda x: np.exp(-2 / 3 * x**1.5),
            [1.0, 0.0],
            a=np.sqrt,
            gamma_min=-math.inf,
            breaks=(),
        )
    order, slope = (2, -2.5) if control == "global" else (1, -1.5)
    errors = []
    from qcore.admission import delay_probability

    for root in (100.0, 400.0):
        value = delay_probability(root**2, 1 - 0.5 / root, profile, control)
        errors.append(abs(value - qed.delay_probability(root**2, 0.5, profile, order, control)))
    assert math.log(errors[1] / errors[0]) / math.log(4) == pytest.approx(slope, abs=0.1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: qed.delay_expansion(0.5, BROKEN["two jumps"][0], 1, "local"),
            "jumps at 0.6, where a is infinite",
        ),
        (
            lambda: qed.delay_expansion(
                0.5,
                from_global(
                    lambda x: np.where(x <= 1, 1.0, np.exp(1 - x)),
                    [1.0, 0.0, 0.0],
                    gamma_min=-1,
                    breaks=[1],
                ),
                2,
            ),
            "pass derivatives_at_breaks of f to from_global",
        ),
        (
            lambda: qed.delay_expansion(
                0.5,
                from_global(
                    threshold, breaks=[1], derivatives_at_breaks=lambda x, n, side: [1.0] * n
                ),
                2,
            ),
            "must be 2 finite numbers",
        ),
        (lambda: from_global(threshold, breaks=[1, 1]), "breaks = .*: must increase"),
        (lambda: from_global(threshold, breaks=[-1]), r"breaks = -1.0: must be finite and > 0"),
        (
            lambda: from_global(threshold, breaks=[1], derivatives_at_breaks=3),
            "derivatives_at_breaks = 3: must be a function",
        ),
        (
            lambda: from_global(
                lambda x: mpmath.mpf([1, 0.75, 0.5][(x >= 1) + (x > 1)]), breaks=[1.0]
            ).pieces(),
            "must be its limit from one side",
        ),
        (
            lambda: from_global(lambda x: mpmath.mpf(x <= 1)).gamma_min,
            "pass the x beyond which f vanishes to from_global, as support",
        ),
    ],
)
def test_what_cannot_be_expanded_at_breaks_is_refused_by_name(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_a_series_far_outside_its_use_has_an_error_of_one():
    expansion = qed.delay_expansion(-0.5, FiniteBuffer(1.0), 7)
    for servers in (1e-60, 1e-300, 5e-324):
        assert expansion.truncation_error(servers) == 1.0
        assert 0 <= expansion(servers) <= 1


def test_profiles_and_expansions_are_compared_hashed_and_pickled():
    import pickle

    for one, same, other in (
        (Abandonment(1.0), Abandonment(1.0), Abandonment(2.0)),
        (
            from_global(threshold, breaks=[1.0]),
            from_global(threshold, breaks=(1.0,)),
            from_global(threshold, breaks=[2.0]),
        ),
        (from_local(ending_rate), from_local(ending_rate), from_local(stepwise_rate)),
    ):
        assert one == same
        assert hash(one) == hash(same)
        assert one != other
        assert pickle.loads(pickle.dumps(one)) == one
    profile = from_global(threshold, breaks=[1.0])
    expansion = qed.delay_expansion(0.5, profile, 3)
    again = pickle.loads(pickle.dumps(expansion))
    assert again == expansion
    assert again(123.0) == expansion(123.0)


def test_derivatives_of_the_rate_may_be_given():
    """a(x) = √(1 + x²) in floating point: a a′ = x, then (a²)⁽ᵏ⁾ = 0 for k > 2."""

    def a_derivatives(x, n):
        series = [np.sqrt(1 + x * x), x / np.sqrt(1 + x * x)]
        for k in range(2, n + 1):
            known = sum(series[j] * series[k - j] for j in range(1, k))
            series.append(((k == 2) - known) / (2 * series[0]))
        return np.array([math.factorial(k) * c for k, c in enumerate(series[: n + 1])])

    def at_zero(n):
        return a_derivatives(np.zeros(1), n)[:, 0]

    given_derivatives = from_local(
        lambda x: np.hypot(1, x), at_zero, a_derivatives=a_derivatives, gamma_min=-math.inf
    )
    by_differences = from_local(lambda x: mpmath.hypot(1, x), gamma_min=-math.inf)
    np.testing.assert_allclose(
        qed.delay_coefficients(0.5, given_derivatives, 5),
        qed.delay_coefficients(0.5, by_differences, 5),
        rtol=1e-12,
    )


@pytest.mark.parametrize("control", ["global", "local"])
@pytest.mark.parametrize(("gamma", "rate"), [(-3.0, 1e-6), (-30.0, 1e-6), (-100.0, 0.01)])
def test_deep_overload_rejects_the_excess(gamma, rate, control):
    """Nobody finds a free server, so 1 − 1/ρ is rejected: −γε/(1 − γε), to any order."""
    found = qed.rejection_coefficients(gamma, Abandonment(rate), 20, control)
    np.testing.assert_allclose(found, -gamma * gamma ** np.arange(21.0), rtol=1e-15)
    delay = qed.delay_coefficients(gamma, Abandonment(rate), 20, control)
    np.testing.assert_array_equal(delay, [1.0] + [0.0] * 20)
