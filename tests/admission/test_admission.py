"""qcore.admission against 50-digit sums, quadrature, its own second routes, and its limits."""

import math
import re

import flint
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcore._numerics import sums as _sums
from qcore.admission import (
    Abandonment,
    FiniteBuffer,
    ModifiedDrift,
    NoWaiting,
    OpenAdmission,
    PowerDecay,
    _measures,
    delay_probability,
    from_global,
    from_local,
    is_stable,
    queue_distribution,
    rejection_probability,
)
from qcore.erlang import erlang_a, erlang_b, erlang_c
from qcore.errors import UnstableSystem

PROFILES = [
    NoWaiting(),
    OpenAdmission(),
    ModifiedDrift(0.5),
    Abandonment(0.5),
    Abandonment(20.0),
    FiniteBuffer(1.5),
    PowerDecay(0.5),
    PowerDecay(3.0),
]
ACCURACY = 2e-15

# No warning may escape, from whatever a function of one's own overflows.
pytestmark = pytest.mark.filterwarnings("error")

quick = settings(derandomize=True, deadline=None, max_examples=60)


def relative(value, reference):
    """The relative error, or the absolute one where the reference is zero or underflows."""
    return float(abs(value - reference) / abs(reference)) if abs(reference) > 1e-290 else value


# ---------------------------------------------------------------- references, at 50 digits


def at_50_digits(function):
    def wrapped(*arguments):
        with mp.workdps(50):
            return function(*arguments)

    return wrapped


def admission_rule(s, profile, control):
    """p_s(k) by the definition, in mpmath numbers."""
    root = mp.sqrt(s)
    c = {name: mp.mpf(value) for name, value in vars(profile).items()}
    f, a = {
        NoWaiting: (lambda x: mp.mpf(x == 0), None),
        OpenAdmission: (lambda x: mp.mpf(1), lambda x: mp.mpf(0)),
        ModifiedDrift: (lambda x: c["p"] ** x, lambda x: -mp.log(c["p"])),
        Abandonment: (
            lambda x: mp.exp(-c["abandonment_rate"] * x**2 / 2),
            lambda x: c["abandonment_rate"] * x,
        ),
        FiniteBuffer: (lambda x: mp.mpf(x <= c["size"]), None),
        PowerDecay: (lambda x: (1 + x) ** -c["exponent"], None),
    }[type(profile)]
    if (control or profile.control) == "global":
        if isinstance(profile, OpenAdmission | ModifiedDrift):
            ratio = f(1 / root)
            return lambda k: ratio
        return lambda k: f((k + 1) / root) / f(k / root)
    return lambda k: 1 / (1 + a((k + 1) / root) / root)


def plain_sums(rho, admit):
    """Σ t_n and Σ t_n(1 − p_s(n)), t_{n+1} = t_nρp_s(n), until the tail is below 1e-25 of them."""
    rho, term, total, rejected, n = mp.mpf(rho), mp.mpf(1), mp.mpf(0), mp.mpf(0), 0
    while True:
        p = admit(n)
        total += term
        rejected += term * (1 - p)
        term *= rho * p
        n += 1
        ratio = max(rho * p, mp.mpf(rho) if rho < 1 else 0)
        if term == 0 or (ratio < 1 and term / (1 - ratio) < mp.mpf(10) ** -25 * rejected):
            return total, rejected
        if rejected == 0 and rho < 1 and term < mp.mpf(10) ** -30:
            return total, rejected


def inverse_erlang_b(s, rho):
    """1/B_s = e^a a^(−s) Γ(s + 1, a) from Arb."""
    with flint.ctx.workprec(300):
        servers, load = flint.arb(s), flint.arb(s) * flint.arb(rho)
        value = (load - servers * load.log()).exp() * load.gamma_upper(servers + 1)
        assert value.rel_accuracy_bits() > 150
        return mp.mpf(value.mid().str(60, radius=False))


@at_50_digits
def reference(s, rho, profile, control=None):
    total, rejected = plain_sums(rho, admission_rule(mp.mpf(s), profile, control))
    denominator = inverse_erlang_b(s, rho) - 1 + total
    return total / denominator, rejected / denominator


# ---------------------------------------------------------------- the profiles


@at_50_digits
def reference_laplace(profile, gamma, n):
    gamma, sign = mp.mpf(gamma), (-1) ** n
    match profile:
        case OpenAdmission():
            return sign * mp.factorial(n) / gamma ** (n + 1)
        case ModifiedDrift():
            return sign * mp.factorial(n) / (gamma - mp.log(mp.mpf(profile.p))) ** (n + 1)
        case Abandonment():
            root = mp.sqrt(mp.mpf(profile.abandonment_rate))
            z = gamma / root
            parabolic = mp.exp(z**2 / 4) * mp.pcfd(-n - 1, z)
            return sign * mp.factorial(n) * parabolic / root ** (n + 1)
        case FiniteBuffer():
            size = mp.mpf(profile.size)
            return sign * size ** (n + 1) / (n + 1) * mp.hyp1f1(n + 1, n + 2, -gamma * size)
        case PowerDecay():
            exponent = mp.mpf(profile.exponent)
            return sign * mp.factorial(n) * mp.hyperu(n + 1, n + 2 - exponent, gamma)


@pytest.mark.parametrize("n", [0, 1, 5, 30])
@pytest.mark.parametrize(
    ("profile", "gammas", "tolerance"),
    [
        (OpenAdmission(), [1e-6, 0.3, 40.0], 1e-14),
        (ModifiedDrift(0.3), [-0.7, 0.0, 2.0, 100.0], 2e-14),
        # Both sides of the switch at z = 0.25 of the half-Gaussian moments.
        (Abandonment(1.0), [-5.0, -1.0, 0.0, 0.2499, 0.2501, 1.0, 7.0, 300.0], 2e-14),
        (Abandonment(0.7), [-3.0, 0.1, 2.0], 2e-14),
        # Both sides of the switches at y = 0 and y = 40 + 2n, for n = 0 and n = 5.
        (FiniteBuffer(1.0), [-300.0, -1e-9, 1e-9, 3.0, 39.9, 40.1, 49.9, 50.1, 99.0, 101.0], 2e-14),
        (FiniteBuffer(0.2), [-40.0, 0.0, 1.0], 1e-14),
        (PowerDecay(0.4), [1e-4, 0.1, 1.0, 30.0], 3e-14),
        (PowerDecay(2.5), [1e-4, 0.1, 1.0, 30.0], 3e-14),
    ],
    ids=repr,
)
def test_laplace_matches_special_functions(profile, gammas, tolerance, n):
    for gamma in gammas:
        error = relative(profile.laplace(gamma, n), reference_laplace(profile, gamma, n))
        assert error < tolerance, (gamma, error)


def test_laplace_of_power_decay_at_its_boundary():
    for exponent, n in [(1.5, 0), (3.5, 2), (9.0, 7)]:
        expected = (-1) ** n * mp.beta(n + 1, mp.mpf(exponent) - n - 1)
        assert relative(PowerDecay(exponent).laplace(0.0, n), expected) < 1e-14
    with pytest.raises(ValueError, match="gamma_min = 0"):
        PowerDecay(2.5).laplace(0.0, 2)


@pytest.mark.parametrize(
    ("closed", "quadrature"),
    [
        (ModifiedDrift(0.3), from_global(lambda x: mp.mpf(0.3) ** x)),
        (Abandonment(0.7), from_local(lambda x: 0.7 * x)),
        (FiniteBuffer(2.0), from_global(lambda x: np.where(x <= 2, 1.0, 0.0), support=2.0)),
        (PowerDecay(2.5), from_global(lambda x: (1 + x) ** -2.5)),
    ],
    ids=repr,
)
def test_closed_forms_agree_with_the_quadrature_of_custom_profiles(closed, quadrature):
    assert quadrature.gamma_min == pytest.approx(closed.gamma_min, rel=1e-15)
    for gamma in [-0.9, 0.05, 8.0]:
        if gamma > closed.gamma_min:
            for n in [0, 4]:
                value, expected = quadrature.laplace(gamma, n), closed.laplace(gamma, n)
                assert value == pytest.approx(expected, rel=1e-12)
            assert quadrature.log_laplace(gamma) == pytest.approx(
                closed.log_laplace(gamma), abs=1e-12
            )
            tails = [p.log_tail_transform(gamma, 0.8) for p in (quadrature, closed)]
            assert tails[0] == pytest.approx(tails[1], abs=1e-12)


def test_quadrature_stands_a_kink():
    profile = from_local(lambda x: np.minimum(x, 1.0))
    expected = mp.quad(lambda x: mp.exp(0.5 * x - x * x / 2), [0, 1]) + 2 * mp.exp(mp.mpf(0))
    assert profile.laplace(-0.5) == pytest.approx(float(expected), rel=1e-12)


def test_log_laplace_far_below_zero():
    for profile, gamma in [
        (Abandonment(0.5), -100.0),
        (FiniteBuffer(3.0), -1000.0),
        (from_local(lambda x: 0.5 * x), -100.0),
    ]:
        with mp.workdps(30):
            if isinstance(profile, FiniteBuffer):
                expected = mp.log((mp.exp(-gamma * profile.size) - 1) / -gamma)
            else:
                z = gamma / mp.sqrt(0.5)
                expected = mp.log(mp.ncdf(-z) / mp.npdf(z) / mp.sqrt(0.5))
        assert relative(profile.log_laplace(gamma), expected) < 1e-14
        with pytest.raises(ValueError, match="largest floating-point number"):
            profile.laplace(gamma)


@pytest.mark.parametrize("profile", [p for p in PROFILES if not isinstance(p, NoWaiting)], ids=repr)
def test_derivatives_at_zero(profile):
    with mp.workdps(60):
        c = {name: mp.mpf(value) for name, value in vars(profile).items()}
        f, a = {
            OpenAdmission: (lambda x: mp.mpf(1), lambda x: mp.mpf(0)),
            ModifiedDrift: (lambda x: c["p"] ** x, lambda x: -mp.log(c["p"])),
            Abandonment: (
                lambda x: mp.exp(-c["abandonment_rate"] * x**2 / 2),
                lambda x: c["abandonment_rate"] * x,
            ),
            FiniteBuffer: (lambda x: mp.mpf(1), lambda x: mp.mpf(0)),
            PowerDecay: (lambda x: (1 + x) ** -c["exponent"], lambda x: c["exponent"] / (1 + x)),
        }[type(profile)]
        for name, function in (("derivatives_at_zero", f), ("a_derivatives_at_zero", a)):
            expected = np.array([float(v) for v in mp.diffs(function, 0, 12)])
            found = getattr(profile, name)(12)
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-30)


def test_right_hand_limits_of_no_waiting_are_zero():
    assert NoWaiting().derivatives_at_zero(3).tolist() == [0.0] * 4
    assert (NoWaiting().f(0.0), NoWaiting().f(1e-300)) == (1.0, 0.0)


@quick
@given(st.lists(st.floats(0.1, 2.0), min_size=1, max_size=9))
def test_derivatives_of_f_and_of_a_determine_each_other(rates):
    from qcore.admission import _profiles

    f = _profiles.derivatives_of_f(rates)
    np.testing.assert_allclose(_profiles.derivatives_of_a(f), rates, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("profile", [p for p in PROFILES if p.support == math.inf], ids=repr)
def test_f_is_the_exponential_of_minus_the_integral_of_a(profile):
    for x in [0.0, 0.3, 1.0, 4.0]:
        integral = mp.quad(lambda u: profile.a(float(u)), [0, x / 2, x])
        assert profile.f(x) == pytest.approx(float(mp.exp(-integral)), rel=1e-12)
        assert profile.log_f(x) == pytest.approx(-float(integral), rel=1e-12, abs=1e-15)


def test_custom_profiles_find_what_was_not_given():
    gaussian = from_global(lambda x: mp.exp(-x - x**2))
    assert gaussian.gamma_min == -math.inf
    assert gaussian.derivatives_at_zero(4).tolist() == [1, -1, -1, 5, 1]
    assert gaussian.a([0.0, 1.0, 2.0]) == pytest.approx([1, 3, 5], rel=1e-14)
    assert gaussian.a_derivatives_at_zero(3).tolist() == [1, 2, 0, 0]
    assert from_global(lambda x: (1 + x) ** -2.5).gamma_min == 0
    assert from_local(np.arctan).gamma_min == pytest.approx(-math.pi / 2, rel=1e-15)
    assert from_local(mp.atan).derivatives_at_zero(4).tolist() == [1, 0, -1, 0, 5]
    assert from_local(lambda x: x, integral=lambda x: x * x / 2).f(2.0) == math.exp(-2)


def test_rates_that_overflow():
    # a = x³ overflows as a power, e^x within the grid on which a is checked.
    assert from_local(lambda x: x**3 + 2 * x).gamma_min == -math.inf
    steep = from_local(np.exp)
    assert steep.gamma_min == -math.inf
    assert steep.log_f([0, 1, 600, 800]).tolist() == pytest.approx(
        [0, 1 - math.e, 1 - math.exp(600), -math.inf], rel=1e-14
    )
    with mp.workdps(50):
        transform = mp.quad(lambda x: mp.exp(-x / 2 + 1 - mp.exp(x)), [0, 1, 5])
        terms = [mp.mpf(1)]
        while terms[-1] > 1e-30:
            u = mp.exp(mp.mpf(len(terms)) / 10) / 10
            terms.append(terms[-1] / (1 + u))
        delay = 1 / (1 + (1 / mp.mpf(erlang_b(100, 100.0)) - 1) / mp.fsum(terms))
    assert steep.laplace(0.5) == pytest.approx(float(transform), rel=1e-14)
    assert delay_probability(100, 1.0, steep) == pytest.approx(float(delay), rel=1e-14)


def test_a_rate_that_is_rounded_near_zero():
    # 1 − e^(−x) has an absolute error of 1e-16: so has the integral, over an interval of 1e-9.
    rounded = from_local(lambda x: 1 - np.exp(-x))
    exact = from_local(lambda x: -np.expm1(-x))
    x = np.array([1e-12, 1e-9, 1e-6, 1e-3, 1.0, 30.0])
    assert np.all(np.abs(rounded.log_f(x) - exact.log_f(x)) <= 2e-16 * np.maximum(x, 0.1 * x))
    assert exact.log_f(x).tolist() == pytest.approx((-x - np.expm1(-x)).tolist(), rel=1e-3)
    assert rounded.laplace(0.5) == pytest.approx(exact.laplace(0.5), rel=1e-14)


@pytest.mark.parametrize("measure", [delay_probability, rejection_probability])
def test_a_profile_that_reaches_zero_at_the_end_of_its_support(measure):
    # f = 1 − x/2, whose a = 1/(2 − x) has no integral up to the end: at s = 100 there are 20 terms.
    profile = from_global(lambda x: np.maximum(1 - x / 2, 0), a=lambda x: 1 / (2 - x), support=2)
    for rho in (0.5, 0.9, 1.0, 1.3):
        with mp.workdps(30):
            waiting = mp.fsum((1 - mp.mpf(n) / 20) * mp.mpf(rho) ** n for n in range(1, 20))
            delayed = 1 + waiting
            if measure is rejection_probability:
                delayed += -waiting / mp.mpf(rho)
            below = sum(mp.mpf(100 * rho) ** k / mp.factorial(k) for k in range(101))
            inverse = below * mp.factorial(100) / mp.mpf(100 * rho) ** 100
            expected = delayed / (inverse + waiting)
        assert measure(100, rho, profile) == pytest.approx(float(expected), rel=1e-13)


def wavy_f(x):
    return np.exp(-x - np.sin(x) / 2)


def wavy_a(x):
    return 1 + np.cos(x) / 2


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: from_global(lambda x: 2 - x), "must be non-negative"),
        (lambda: from_global(lambda x: 0.5 / (1 + x)), r"f\(0\) = 0.5: must be 1"),
        (lambda: from_global(lambda x: 1 + x), "f must not increase"),
        (lambda: from_global(lambda x: x * math.nan), "must be a number"),
        (lambda: from_global(1.0), "must be a function"),
        (lambda: from_global(lambda x: np.exp(-x), a=lambda x: 2 + 0 * x), "integral of a"),
        (lambda: from_local(lambda x: 1 / (1 + x)), "must not decrease under local control"),
        (lambda: from_local(lambda x: x - 1), "must be non-negative"),
        (lambda: from_local(lambda x: x, integral=lambda x: x), "integral of a"),
        (lambda: from_local(lambda x: x, gamma_min=1.0), "gamma_min = 1.0"),
        (
            lambda: from_local(lambda x: x, gamma_min=-(10**400)),
            "gamma_min = -1000.*must be at most",
        ),
        (lambda: from_local(lambda x: "much"), r"a\(0.0\): must be a real number or infinite"),
        (lambda: from_local(lambda x: x + 1j), r"a\(0.0\): must be a real number or infinite"),
        (lambda: from_local(lambda x: None), r"a\(0.0\) = nan: must be a number"),
        (
            lambda: from_local(math.exp),
            r"a\(749.8.*must be .* infinite, but there is OverflowError",
        ),
        (lambda: from_local(lambda x: np.log(x)), r"a\(0.0\) = -inf: a must be non-negative"),
        (lambda: from_local(lambda x: 1 / x), r"a\(0.0\) = inf: a must not decrease"),
        (lambda: from_local(np.floor).laplace(0.5), "integral of a failed: .* pass integral"),
        (
            lambda: rejection_probability(
                4, 0.9, from_global(wavy_f, a=lambda x: wavy_a(x) + 1e-6 * np.sin(1e9 * x))
            ),
            "integral of a failed: .* pass another a",
        ),
        (lambda: ModifiedDrift(0.0), "p = 0.0"),
        (lambda: ModifiedDrift(1.5), "p = 1.5"),
        (lambda: Abandonment(0.0), "abandonment_rate = 0.0"),
        (lambda: Abandonment(math.nan), "abandonment_rate = nan"),
        (lambda: FiniteBuffer(-1.0), "size = -1.0"),
        (lambda: PowerDecay(0), "exponent = 0"),
        (lambda: FiniteBuffer(1e308), r"size = 1e\+308: must be finite and > 0 and <= 1e\+150"),
        (lambda: ModifiedDrift(0.5).laplace(-2.0), "must be above gamma_min = -0.693"),
        (lambda: OpenAdmission().laplace(0.0), "gamma = 0.0"),
        (lambda: OpenAdmission().laplace(1.0, -1), "derivative = -1"),
        (lambda: OpenAdmission().laplace(1.0, 10**400), "derivative = 1000.* <= 1000"),
        (lambda: OpenAdmission().derivatives_at_zero(10**5000), "n = an integer of 16610 bits"),
        (lambda: OpenAdmission().f(-1.0), "x = -1.0"),
        (lambda: PowerDecay(2.0).resolve_control("local"), "global profile only"),
        (lambda: OpenAdmission().resolve_control("central"), "must be one of 'global', 'local'"),
        (
            lambda: from_global(lambda x: (1 + x) ** -2.0).resolve_control("local"),
            "must not decrease under local control",
        ),
        (
            lambda: from_global(lambda x: np.exp(-x)).derivatives_at_zero(2),
            "pass derivatives_at_zero of f to from_global",
        ),
        (
            lambda: from_global(lambda x: math.exp(-x)).derivatives_at_zero(2),
            "floating point inside",
        ),
        (
            lambda: from_global(lambda x: 1 / (1 + x * math.exp(min(x, 50)))).derivatives_at_zero(
                2
            ),
            "floating point inside",
        ),
        (
            lambda: from_global(lambda x: mp.exp(-mp.sqrt(x))).derivatives_at_zero(1),
            "does not settle",
        ),
        (
            lambda: from_global(
                lambda x: np.exp(-x), derivatives_at_zero=[1, -1]
            ).derivatives_at_zero(2),
            "gives 2 numbers",
        ),
        (
            lambda: from_global(
                lambda x: np.exp(-x), derivatives_at_zero=[2, -1]
            ).derivatives_at_zero(1),
            "begin with f",
        ),
        (lambda: from_global(lambda x: np.exp(-x)).gamma_min, "pass gamma_min"),
        (
            lambda: from_global(lambda x: np.exp(-x), gamma_min=-1).laplace(-0.99),
            "pass the transform as laplace",
        ),
        (
            lambda: from_global(
                lambda x: np.exp(-x), laplace=lambda g, n: -1.0, gamma_min=-1
            ).laplace(1.0),
            "must be a finite number with the sign",
        ),
        (
            lambda: delay_probability(4, 1.6487, from_global(lambda x: np.exp(-x), gamma_min=-1)),
            "underflows",
        ),
    ],
)
def test_bad_profiles_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


# ---------------------------------------------------------------- exact measures


def critical_power(rho, profile):
    """Power decay at critical load: its sum ends too late for plain summation."""
    return rho == 1 and isinstance(profile, PowerDecay)


@pytest.mark.parametrize("s", [1, 2.5, 100, 1234.5])
@pytest.mark.parametrize("rho", [1e-6, 0.3, 0.95, 1.0, 1.01, 10.0])
@pytest.mark.parametrize("profile", PROFILES, ids=repr)
def test_against_plain_sums(profile, rho, s):
    controls = ["global"] if isinstance(profile, PowerDecay) else ["global", "local"]
    if isinstance(profile, NoWaiting | FiniteBuffer):
        controls = ["global"]  # a is infinite; see the test of local control below
    for control in controls:
        if not is_stable(s, rho, profile, control) or (
            isinstance(profile, PowerDecay) and rho == 1
        ):
            continue
        delay, rejection = reference(s, rho, profile, control)
        assert relative(delay_probability(s, rho, profile, control), delay) < ACCURACY
        assert relative(rejection_probability(s, rho, profile, control), rejection) < ACCURACY


@pytest.mark.parametrize("exponent", [1.05, 1.999, 2.0, 2.001, 3.0, 8.0])
@pytest.mark.parametrize("s", [1, 50, 1e6])
def test_power_decay_at_critical_load_is_a_hurwitz_zeta(exponent, s):
    with mp.workdps(40):
        root = mp.sqrt(mp.mpf(s))
        total = root ** mp.mpf(exponent) * mp.zeta(mp.mpf(exponent), root)
        denominator = inverse_erlang_b(s, 1.0) - 1 + total
    profile = PowerDecay(exponent)
    assert relative(delay_probability(s, 1.0, profile), total / denominator) < 1e-14
    assert relative(rejection_probability(s, 1.0, profile), 1 / denominator) < 1e-14


@pytest.mark.parametrize("s", [1, 30, 1e4])
@pytest.mark.parametrize("rho", [0.3, 0.95, 0.9999])
def test_power_decay_is_a_lerch_transcendent(rho, s):
    exponent = 1.7
    with mp.workdps(30):
        root = mp.sqrt(mp.mpf(s))
        total = root ** mp.mpf(exponent) * mp.lerchphi(mp.mpf(rho), mp.mpf(exponent), root)
        denominator = inverse_erlang_b(s, rho) - 1 + total
    delay = delay_probability(s, rho, PowerDecay(exponent))
    assert relative(delay, total / denominator) < ACCURACY


def arb_sums(s, rho, admit):
    """As plain_sums, in 200-bit Arb numbers, fast enough for very many servers."""
    term, total, rejected, n = flint.arb(1), flint.arb(0), flint.arb(0), 0
    while True:
        p = admit(n)
        total += term
        rejected += term * (1 - p)
        term = term * rho * p
        n += 1
        if n % 1000 == 0 and term < flint.arb(1e-25) * rejected * (1 - rho * p):
            return total, rejected


@pytest.mark.parametrize(
    ("s", "gamma"),
    [(1e5, -0.5), (1e5, 0.5), (1e5, 3.0), pytest.param(1e8, 0.5, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    ("profile", "control"),
    [
        (Abandonment(0.5), "local"),
        (Abandonment(0.5), "global"),
        (ModifiedDrift(0.3), "global"),
        (from_local(np.arctan), "local"),
        (from_global(lambda x: np.exp(-x - x * x), gamma_min=-math.inf), "global"),
        (from_global(lambda x: np.exp(-x - x * x), a=lambda x: 1 + 2 * x), "global"),
    ],
)
def test_very_many_servers(profile, control, s, gamma):
    rho = 1 - gamma / math.sqrt(s)
    with flint.ctx.workprec(200):
        one, root = flint.arb(1), flint.arb(s).sqrt()
        if isinstance(profile, ModifiedDrift):
            constant = (flint.arb(0.3).log() / root).exp()
            admit = lambda k: constant  # noqa: E731
        elif isinstance(profile, Abandonment) and control == "local":
            admit = lambda k: s / (s + one / 2 * (k + 1))  # noqa: E731
        elif isinstance(profile, Abandonment):
            admit = lambda k: (-(one / 4) * (2 * k + 1) / s).exp()  # noqa: E731
        elif control == "local":
            admit = lambda k: 1 / (1 + ((k + 1) / root).atan() / root)  # noqa: E731
        else:
            admit = lambda k: (-1 / root - one * (2 * k + 1) / s).exp()  # noqa: E731
        total, rejected = arb_sums(s, flint.arb(rho), admit)
        denominator = flint.arb(mp.nstr(inverse_erlang_b(s, rho), 50)) - 1 + total
        delay, rejection = float(total / denominator), float(rejected / denominator)
    assert relative(delay_probability(s, rho, profile, control), delay) < ACCURACY
    assert relative(rejection_probability(s, rho, profile, control), rejection) < ACCURACY


@pytest.mark.parametrize(
    ("profile", "gammas"),
    [
        (Abandonment(0.5), [-2.0, -0.3, 0.01, 1.0]),
        (Abandonment(1e-2), [-2.0, -0.3, 0.01, 1.0]),
        (PowerDecay(0.5), [0.01, 1.0]),
        (PowerDecay(3.0), [0.01, 1.0]),
        (from_local(np.arctan), [-1.0, -0.3, 0.01, 1.0]),
        (from_local(lambda x: np.minimum(x, 1.0)), [-0.8, 0.01]),  # a kink
        (from_local(lambda x: np.floor(x), gamma_min=-math.inf), [-2.0, 0.01]),  # jumps
    ],
    ids=["erlang_a", "slow", "power", "steep", "arctan", "kink", "jumps"],
)
def test_blocks_agree_with_term_by_term_summation(profile, gammas, monkeypatch):
    s = 1e6
    loads = [1 - gamma / math.sqrt(s) for gamma in gammas]
    by_blocks = [_measures._sums(s, rho, profile, profile.control) for rho in loads]
    monkeypatch.setattr(_sums, "SHORTEST", 2**40)
    for rho, blocks in zip(loads, by_blocks, strict=True):
        terms = _measures._sums(s, rho, profile, profile.control)
        # The sum is the exponential of a rounded logarithm, which here goes up to 210.
        rounding = 2e-14 + 4 * np.finfo(float).eps * math.log(terms.all)
        assert blocks.all == pytest.approx(terms.all, rel=rounding)
        assert blocks.rejected_share == pytest.approx(terms.rejected_share, rel=2e-14)


def test_rules_sum_polynomials_exactly():
    for length in (1024, 2**15):
        rule = _sums.block_rule(length)
        for degree in (0, 1, 7, 31):
            y = np.arange(length) / length
            values = (rule.offsets / length) ** degree
            assert rule.weights @ values == pytest.approx(math.fsum(y**degree), rel=1e-13)
        points, weights = rule.gaps
        partial = np.cumsum((weights * (points / length) ** 9).sum(axis=1))
        sums = np.concatenate([[0.0], np.cumsum(y**9)])
        ends = np.concatenate([rule.offsets, [length]]).astype(int)
        np.testing.assert_allclose(partial[1:], sums[ends][1:], rtol=1e-12, atol=1e-30)


def test_abandonment_is_the_erlang_a_system():
    for s, rho, rate in [(1, 0.5, 2.0), (50, 1.1, 0.3), (1000, 0.99, 1.0), (10**6, 1.001, 5.0)]:
        measures = erlang_a(s, s * rho, rate)
        profile = Abandonment(rate)
        assert delay_probability(s, rho, profile) == pytest.approx(
            measures.delay_probability, rel=1e-12
        )
        assert rejection_probability(s, rho, profile) == pytest.approx(
            measures.abandonment_probability, rel=1e-12
        )


def test_extreme_overload():
    # All servers are busy, and what exceeds their capacity is turned away.
    assert delay_probability(100, 50.0, Abandonment(1e-3)) == 1.0
    assert rejection_probability(100, 50.0, Abandonment(1e-3)) == pytest.approx(0.98, rel=1e-15)
    assert rejection_probability(10**8, 1.5, FiniteBuffer(10.0)) == pytest.approx(1 / 3, rel=1e-15)


@pytest.mark.parametrize("profile", PROFILES, ids=repr)
def test_loads_near_underflow(profile):
    """B = load^s/Γ(s + 1) there, and nobody waits; also where the product sρ underflows."""
    with mp.workdps(30):
        for s, rho in ((1, 1e-320), (2.5, 1e-120), (0.01, 1e-310), (1e-200, 1e-200), (40, 1e-7)):
            log_load = mp.log(mp.mpf(s)) + mp.log(mp.mpf(rho))
            weight = mp.exp(mp.mpf(s) * log_load - mp.loggamma(mp.mpf(s) + 1))
            delay = delay_probability(s, rho, profile)
            assert delay == pytest.approx(float(weight), rel=1e-5, abs=1e-320)
            assert 0 <= rejection_probability(s, rho, profile) <= delay


def test_a_function_of_mpmath_numbers_where_f_underflows():
    profile = from_global(lambda x: mp.exp(-x - x**2))
    assert profile.log_f(26.0) == -702.0
    assert profile.log_f(1e9) == -(1e18 + 1e9)
    assert profile.log_f([]).shape == profile.a([]).shape == (0,)
    assert from_local(lambda x: 2 * x).f([]).shape == (0,)


def test_light_load_stays_in_range():
    assert delay_probability(10**6, 0.5, OpenAdmission()) == 0.0
    assert delay_probability(5, 0.0, Abandonment(1.0)) == 0.0
    assert rejection_probability(5, 0.0, Abandonment(1.0)) == 0.0
    with mp.workdps(30):
        load = mp.mpf(120) * mp.mpf(2.0**-8)
        blocking = load**120 / mp.factorial(120) / mp.exp(load)
    assert delay_probability(120, 2.0**-8, NoWaiting()) == pytest.approx(
        float(blocking), rel=1e-13, abs=1e-300
    )


@pytest.mark.parametrize("s", [1, 7, 200, 10**5])
@pytest.mark.parametrize("rho", [0.2, 0.9, 0.999])
def test_erlang_limits(rho, s):
    blocking, delay = erlang_b(s, s * rho), erlang_c(s, s * rho)
    tiny = 5e-324
    assert delay_probability(s, rho, NoWaiting()) == pytest.approx(blocking, rel=1e-13)
    assert delay_probability(s, rho, OpenAdmission()) == pytest.approx(delay, rel=1e-13)
    # As p, θ and η go to their limits; the rates are those of the exact deviation.
    assert delay_probability(s, rho, ModifiedDrift(1.0)) == pytest.approx(delay, rel=1e-12)
    assert delay_probability(s, rho, ModifiedDrift(1 - 1e-13)) == pytest.approx(delay, rel=1e-7)
    assert delay_probability(s, rho, ModifiedDrift(tiny), "global") >= blocking * (1 - 1e-13)
    assert delay_probability(s, rho, Abandonment(1e-13)) == pytest.approx(delay, rel=1e-4)
    assert delay_probability(s, rho, Abandonment(1e12 * s)) == pytest.approx(blocking, rel=1e-10)
    assert delay_probability(s, rho, FiniteBuffer(1e6)) == pytest.approx(delay, rel=1e-12)
    nobody = FiniteBuffer(0.5 / math.sqrt(s))
    assert delay_probability(s, rho, nobody) == pytest.approx(blocking, rel=1e-13)
    assert delay_probability(s, rho, PowerDecay(1e-13)) == pytest.approx(delay, rel=1e-9)


def test_finite_buffer_counts_its_places():
    for s in [1, 2, 3, 10, 99, 12345, 10**8]:
        for places in [1, 2, 7, 30, 1001, 99999]:
            assert FiniteBuffer(places / math.sqrt(s)).places(s) == places
            assert FiniteBuffer((places + 0.999) / math.sqrt(s)).places(s) == places
    # M/M/2/3 by hand: 1, 1, 1/2, 1/4 at ρ = 1/2.
    profile = FiniteBuffer(1 / math.sqrt(2))
    assert rejection_probability(2, 0.5, profile) == pytest.approx(0.25 / 2.75, rel=1e-15)
    assert delay_probability(2, 0.5, profile) == pytest.approx(0.75 / 2.75, rel=1e-15)


def test_local_and_global_control_coincide_where_admission_is_all_or_nothing():
    for profile in (NoWaiting(), OpenAdmission(), FiniteBuffer(2.0)):
        for measure in (delay_probability, rejection_probability):
            assert measure(20, 0.9, profile, "local") == measure(20, 0.9, profile, "global")


# ---------------------------------------------------------------- the distribution


@pytest.mark.parametrize("s", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("rho", [0.05, 0.9, 0.9999, 1.0, 1.003])
@pytest.mark.parametrize("profile", [*PROFILES, from_local(np.arctan)], ids=repr)
def test_distribution_solves_the_balance_equations(profile, rho, s):
    for control in ("global", "local"):
        if control == "local" and isinstance(profile, PowerDecay):
            continue
        if control == "global" and not isinstance(profile, tuple(map(type, PROFILES))):
            continue
        if not is_stable(s, rho, profile, control) or (
            rho == 1 and isinstance(profile, PowerDecay)
        ):
            continue
        law = queue_distribution(s, rho, profile, control)
        n, p = law.number_in_system, law.probability
        assert np.all(np.diff(n) == 1)
        assert math.fsum(p) == pytest.approx(1, rel=1e-14)
        serving = n[:-1] < s
        np.testing.assert_allclose((p[1:] / p[:-1])[serving], s * rho / n[1:][serving], rtol=1e-12)
        if n[-1] > s + 1:
            x = (n[:-1][~serving] - s + 1) / math.sqrt(s)
            admitted = (p[1:] / p[:-1])[~serving] / rho
            if control == "local" and math.isfinite(profile.a(float(x[-1]))):
                expected = 1 / (1 + profile.a(x) / math.sqrt(s))
            else:
                expected = profile.f(x) / profile.f(np.maximum(x - 1 / math.sqrt(s), 0))
            usable = profile.f(x) > 1e-250
            np.testing.assert_allclose(admitted[usable], expected[usable], rtol=1e-10)
        delay = delay_probability(s, rho, profile, control)
        assert law.delay_probability == pytest.approx(delay, rel=1e-11, abs=1e-17)
        if profile.control == "local" and control == "local" and isinstance(profile, Abandonment):
            # Whoever leaves impatient: θ·(mean waiting) = λ·P(abandon).
            lost = rejection_probability(s, rho, profile) * s * rho
            waiting = law.mean_waiting * profile.abandonment_rate
            assert waiting == pytest.approx(lost, rel=1e-11, abs=1e-15 * s)


def test_distribution_of_very_many_servers():
    law = queue_distribution(10**8, 1 - 1e-4, Abandonment(1.0))
    # θ = 1: the number in the system is Poisson distributed.
    assert law.mean == pytest.approx(10**8 * (1 - 1e-4), rel=1e-15)
    assert law.delay_probability == pytest.approx(
        delay_probability(10**8, 1 - 1e-4, Abandonment(1.0)), rel=1e-11
    )


def test_distribution_of_a_long_queue_that_is_always_full():
    """Overloaded, with very many places to wait: only the last few matter."""
    law = queue_distribution(10, 1e9, FiniteBuffer(1e12))
    last = 10 + FiniteBuffer(1e12).places(10)
    assert law.number_in_system[-1] == last
    np.testing.assert_allclose(law.probability[-3:], [1e-18, 1e-9, 1.0], rtol=1e-8)
    few = queue_distribution(10**9, 1e9, FiniteBuffer(4.0))
    assert len(few.number_in_system) < 10
    # On both sides of where the lower states begin to matter.
    for size in (5.0, 50.0, 70.0, 200.0):
        law = queue_distribution(4, 1.5, FiniteBuffer(size))
        delay = delay_probability(4, 1.5, FiniteBuffer(size))
        assert law.delay_probability == pytest.approx(delay, rel=1e-13)
        assert law.probability[-1] == pytest.approx(
            rejection_probability(4, 1.5, FiniteBuffer(size)), rel=1e-12
        )


def test_distribution_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"needs 9\.49e\+08 states"):
        queue_distribution(2**53, 0.999, OpenAdmission())
    with pytest.raises(ValueError, match="exceed the largest integer"):
        queue_distribution(2, 1.5, FiniteBuffer(1e30))
    with pytest.raises(ValueError, match="states"):
        queue_distribution(10**8, 1 - 1e-9, OpenAdmission())
    with pytest.raises(ValueError, match=r"servers = 2\.5"):
        queue_distribution(2.5, 0.5, OpenAdmission())
    with pytest.raises(ValueError, match=r"servers = 1000.*: must be an integer >= 1 and <= "):
        queue_distribution(10**400, 0.5, OpenAdmission())


# ---------------------------------------------------------------- stability


def test_stability_and_its_boundary():
    s = 100
    limit = math.exp(math.log(2) / 10)  # γ_s = γ_min = −ln 2
    assert is_stable(s, limit * (1 - 1e-12), ModifiedDrift(0.5))
    assert not is_stable(s, limit * (1 + 1e-12), ModifiedDrift(0.5))
    # Locally 1 − γ_min/√s is a little less.
    local = 1 + math.log(2) / 10
    assert local < limit
    assert is_stable(s, local * (1 - 1e-12), ModifiedDrift(0.5), "local")
    assert not is_stable(s, local * (1 + 1e-12), ModifiedDrift(0.5), "local")
    assert [is_stable(s, 1.0, PowerDecay(nu)) for nu in (0.5, 1.0, 1.1, 3.0)] == [
        False,
        False,
        True,
        True,
    ]
    assert not is_stable(s, 1 + 1e-15, PowerDecay(3.0))
    assert is_stable(s, 1e3, Abandonment(1e-3))
    assert is_stable(s, 1e3, NoWaiting(), "local")
    assert not is_stable(s, 1.0, OpenAdmission())
    critical = from_global(lambda x: (1 + x) ** -3.0, finite_at_gamma_min=True)
    assert is_stable(s, 1.0, critical)
    assert not is_stable(s, 1.0, from_global(lambda x: (1 + x) ** -3.0))
    assert is_stable([1, 100], 1.05, ModifiedDrift(0.5)).tolist() == [True, True]


@pytest.mark.parametrize(
    ("profile", "control", "condition"),
    [
        (OpenAdmission(), "global", "−√servers·ln(traffic_intensity) = -0.953102 must be > "),
        (ModifiedDrift(0.9), "local", "√servers·(1 − traffic_intensity) = -1 must be > gamma_min"),
        (PowerDecay(3.0), None, "must be >= gamma_min = 0"),
    ],
)
@pytest.mark.parametrize("measure", [delay_probability, rejection_probability, queue_distribution])
def test_unstable_systems_name_the_condition(measure, profile, control, condition):
    with pytest.raises(UnstableSystem, match=re.escape(condition)):
        measure(100, 1.1, profile, control)


def test_sums_diverge_where_the_system_is_said_to_be_unstable():
    # The ratio of terms tends to 1 at the boundary: above it sums grow without bound.
    s, profile = 25, from_local(np.arctan)
    boundary = 1 - profile.gamma_min / math.sqrt(s)
    near = [
        _measures._sums(s, boundary * (1 - d), profile, "local").all for d in (1e-2, 1e-3, 1e-4)
    ]
    assert near[0] * 5 < near[1]
    assert near[1] * 5 < near[2]


# ---------------------------------------------------------------- properties

profiles = st.one_of(
    st.just(NoWaiting()),
    st.just(OpenAdmission()),
    st.builds(ModifiedDrift, st.floats(1e-6, 1.0)),
    st.builds(Abandonment, st.floats(1e-3, 1e3)),
    st.builds(FiniteBuffer, st.floats(1e-3, 20.0)),
    st.builds(PowerDecay, st.floats(0.1, 10.0)),
)
servers = st.floats(0.5, 1e8)
intensities = st.floats(1e-6, 3.0)


@quick
@given(servers, intensities, profiles)
def test_blocking_is_below_delay_and_rejection_below_delay(s, rho, profile):
    if not is_stable(s, rho, profile):
        with pytest.raises(UnstableSystem):
            delay_probability(s, rho, profile)
        return
    delay, rejection = delay_probability(s, rho, profile), rejection_probability(s, rho, profile)
    assert erlang_b(s, s * rho) * (1 - 1e-11) <= delay <= 1
    assert 0 <= rejection <= delay
    # What is not rejected is served: ρ(1 − D^R) ≤ 1.
    assert rho * (1 - rejection) <= 1 + 1e-12


@quick
@given(servers, st.floats(1e-3, 2.5), st.floats(1e-4, 0.2), profiles)
def test_delay_and_rejection_grow_with_the_load(s, rho, more, profile):
    if not is_stable(s, rho * (1 + more), profile):
        return
    for measure in (delay_probability, rejection_probability):
        low, high = measure(s, rho, profile), measure(s, rho * (1 + more), profile)
        assert low <= high * (1 + 1e-12)


@quick
@given(st.integers(1, 10**4), st.floats(0.01, 1.5), st.floats(1e-2, 1e2))
def test_more_servers_delay_and_lose_fewer(s, rho, rate):
    profile, load = Abandonment(rate), s * rho
    for measure in (delay_probability, rejection_probability):
        fewer, more = measure(s, load / s, profile), measure(s + 1, load / (s + 1), profile)
        assert more <= fewer * (1 + 1e-12)


@quick
@given(servers, st.floats(0.1, 1.2), st.floats(1e-4, 0.999))
def test_local_modified_drift_admits_more_than_global(s, rho, p):
    profile = ModifiedDrift(p)
    if is_stable(s, rho, profile, "local") and is_stable(s, rho, profile, "global"):
        local, everywhere = (
            delay_probability(s, rho, profile, control) for control in ("local", "global")
        )
        assert local >= everywhere * (1 - 1e-13)


@quick
@given(st.floats(1.0, 1e6), st.floats(0.1, 2.0), st.floats(0.01, 10.0))
def test_the_sum_obeys_its_recurrence_in_the_waiting_places(s, rho, rate):
    """S = 1 + ρ p_s(0) S′, where S′ belongs to the profile shifted by one waiting place."""
    h = 1 / math.sqrt(s)
    first = 1 / (1 + rate * h * h)
    shifted = from_local(lambda x: rate * (x + h))
    whole = _measures._sums(s, rho, Abandonment(rate), "local").all
    rest = _measures._sums(s, rho, shifted, "local").all
    if math.isfinite(whole):
        assert whole == pytest.approx(1 + rho * first * rest, rel=1e-12)


def test_arrays_broadcast_and_scalars_are_floats():
    grid = delay_probability([[1], [100]], [0.5, 0.9, 1.0], Abandonment(1.0))
    assert grid.shape == (2, 3)
    single = delay_probability(100, 0.9, Abandonment(1.0))
    assert type(single) is float
    assert grid[1, 1] == single
    assert type(rejection_probability(np.float64(3), 1, NoWaiting())) is float
    assert type(is_stable(3, 0.5, NoWaiting())) is bool


@pytest.mark.parametrize("measure", [delay_probability, rejection_probability, is_stable])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.5, OpenAdmission()), "servers = 0.0"),
        ((-3, 0.5, OpenAdmission()), "servers = -3.0"),
        ((math.nan, 0.5, OpenAdmission()), "servers = nan"),
        ((math.inf, 0.5, OpenAdmission()), "servers = inf"),
        ((3, -0.5, OpenAdmission()), "traffic_intensity = -0.5"),
        ((3, math.nan, OpenAdmission()), "traffic_intensity = nan"),
        ((3, "much", OpenAdmission()), "traffic_intensity = 'much'"),
        ((3, 0.5, "open"), "profile = 'open': must be a ScalingProfile"),
        ((3, 0.5, OpenAdmission(), "none"), "control = 'none'"),
        ((3, 0.5, PowerDecay(2.0), "local"), "global profile only"),
        ((1e19, 0.5, OpenAdmission()), "servers = 1e+19: must be finite and > 0 and <= 1e+18"),
        ((3, 1e308, NoWaiting()), "traffic_intensity = 1e+308: must be finite and >= 0 and <="),
        ((None, 0.5, OpenAdmission()), "servers = None: must be a real number"),
        (("5", 0.5, OpenAdmission()), "servers = '5': must be a real number"),
        ((1j, 0.5, OpenAdmission()), "servers = 1j: must be a real number"),
        (([1, [2, 3]], 0.5, OpenAdmission()), "servers = [1, [2, 3]]: must be a real number"),
        (([1, None], 0.5, OpenAdmission()), "servers = [1, None]: must be a real number"),
        (
            (3, 10**5000, OpenAdmission()),
            "traffic_intensity = an integer of 16610 bits: must be at most",
        ),
        (
            ([1, 2], [0.5, 0.6, 0.7], OpenAdmission()),
            "shapes of servers (2,), traffic_intensity (3,): must broadcast",
        ),
    ],
)
def test_bad_arguments_are_named(measure, arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        measure(*arguments)


anything = st.one_of(st.floats(), st.integers(), st.just(10**400), st.none(), st.text(max_size=3))


@settings(quick, max_examples=40)
@given(anything, anything, profiles)
def test_nonsense_gives_an_error_or_a_probability(s, rho, profile):
    try:
        value = delay_probability(s, rho, profile)
    except ValueError as error:
        assert "must be" in str(error) or "slowly" in str(error)  # noqa: PT017
    else:
        assert 0 <= value <= 1
