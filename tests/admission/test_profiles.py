"""Profiles from SymPy expressions: against those that qcore knows, and against quadrature."""

import math
import threading

import mpmath
import numpy as np
import pytest
import sympy
from sympy import exp, oo

from derivations.admission import profiles
from derivations.admission.profiles import from_expression
from qcore import admission, qed

x = sympy.Symbol("x")
theta = sympy.Symbol("vartheta", positive=True)

KNOWN = {
    "abandonment": (exp(-(x**2)), admission.Abandonment(2.0)),
    "modified drift": (sympy.Rational(1, 2) ** x, admission.ModifiedDrift(0.5)),
    "power decay": ((1 + x) ** -2, admission.PowerDecay(2.0)),
}


@pytest.fixture(scope="module")
def known():
    return {name: (from_expression(f, x), target) for name, (f, target) in KNOWN.items()}


@pytest.fixture(scope="module")
def gompertz():
    """a = exp(x), whose transform SymPy does not find."""
    return from_expression(exp(1 - exp(x)), x, seconds=0)


@pytest.mark.parametrize("name", KNOWN)
def test_numbers_are_those_of_the_known_profile(known, name):
    profile, target = known[name]
    own = admission.from_global(**profile.global_arguments())
    assert own.gamma_min == pytest.approx(target.gamma_min, rel=1e-15)
    assert own.finite_at_gamma_min == target.finite_at_gamma_min
    places = np.array([0.0, 0.3, 1.0, 5.0])
    np.testing.assert_allclose(own.f(places), target.f(places), rtol=1e-14)
    np.testing.assert_allclose(own.a(places), target.a(places), rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(
        own.derivatives_at_zero(5), target.derivatives_at_zero(5), rtol=1e-14
    )
    for derivative in (0, 3):
        assert own.laplace(0.5, derivative) == pytest.approx(
            target.laplace(0.5, derivative), rel=1e-14
        )
    for measure in (admission.delay_probability, admission.rejection_probability):
        assert measure(100, 0.95, own) == pytest.approx(
            measure(100, 0.95, target, "global"), rel=1e-13
        )


@pytest.mark.parametrize("name", ["abandonment", "modified drift"])
def test_local_control_is_that_of_the_known_profile(known, name):
    profile, target = known[name]
    own = admission.from_local(**profile.local_arguments())
    assert admission.delay_probability(100, 1.02, own) == pytest.approx(
        admission.delay_probability(100, 1.02, target, "local"), rel=1e-13
    )
    assert qed.delay_probability(100, 0.5, own, 3) == pytest.approx(
        qed.delay_probability(100, 0.5, target, 3, "local"), rel=1e-12
    )


def test_symbols_are_those_of_the_definitions(known):
    profile, _ = known["abandonment"]
    assert sympy.simplify(profile.a - 2 * x) == 0
    assert profile.derivatives_at_zero(4) == [1, 0, -2, 0, 12]
    assert profile.gamma_min == -oo
    gamma = profile.gamma
    expected = sympy.sqrt(sympy.pi) / 2 * exp(gamma**2 / 4) * sympy.erfc(gamma / 2)
    assert sympy.simplify(profile.laplace - expected) == 0
    drift, _ = known["modified drift"]
    assert sympy.simplify(drift.laplace - 1 / (drift.gamma + sympy.log(2))) == 0
    assert sympy.simplify(drift.gamma_min + sympy.log(2)) == 0


@pytest.mark.parametrize(("power", "finite"), [(sympy.Rational(3, 2), True), (1, False)])
def test_whether_the_transform_is_finite_at_the_end(power, finite):
    profile = from_expression((1 + x) ** -power * exp(-x), x)
    assert profile.gamma_min == -1
    assert profile.finite_at_gamma_min is finite


def test_a_transform_that_sympy_does_not_find_is_integrated(gompertz):
    assert gompertz.laplace is None
    with mpmath.workdps(30):
        # Substitute y = exp(x): the transform is e times an incomplete gamma function.
        for gamma in (-1.5, 0.5, 3.0):
            expected = mpmath.e * mpmath.gammainc(-mpmath.mpf(gamma), 1)
            assert abs(gompertz.laplace_at(gamma) / expected - 1) < 1e-18
    own = admission.from_global(**gompertz.global_arguments())
    assert own.gamma_min == -math.inf
    assert 0 < admission.delay_probability(100, 1.2, own) < 1


def test_symbolic_and_numeric_transforms_agree(known):
    for profile, _ in known.values():
        numeric = from_expression(profile.f, x, seconds=0)
        assert numeric.laplace is None
        for derivative in (0, 2):
            ratio = numeric.laplace_at(0.7, derivative) / profile.laplace_at(0.7, derivative)
            assert abs(ratio - 1) < 1e-18


def test_a_wrong_integral_is_refused(monkeypatch):
    monkeypatch.setattr(profiles.sympy, "integrate", lambda *_, **__: sympy.Integer(3))
    profile = from_expression(exp(-x), x)
    assert profile.laplace is None
    assert float(profile.laplace_at(1.0)) == pytest.approx(0.5, rel=1e-15)


def test_sympy_is_stopped_when_time_is_up():
    def endless():
        while True:
            pass

    assert profiles._in_time(endless, 0.05) is None
    assert profiles._in_time(lambda: 7, 5.0) == 7
    results = []
    other = threading.Thread(target=lambda: results.append(profiles._in_time(lambda: 7, 5.0)))
    other.start()
    other.join()
    assert results == [None]


def test_families_and_their_members():
    family = from_expression(exp(-theta * x**2 / 2), x)
    assert family.parameters == {theta}
    assert sympy.simplify(family.a - theta * x) == 0
    with pytest.raises(ValueError, match="vartheta"):
        family.global_arguments()
    own = admission.from_global(**family.with_values({theta: 2}).global_arguments())
    assert own.laplace(0.5) == pytest.approx(admission.Abandonment(2.0).laplace(0.5), rel=1e-14)


def test_a_profile_that_ends():
    profile = from_expression(1 - x / 2, x, support=2)
    gamma = profile.gamma
    assert profile.gamma_min == -oo
    expected = 1 / gamma + (exp(-2 * gamma) - 1) / (2 * gamma**2)
    assert sympy.simplify(profile.laplace - expected) == 0
    assert float(profile.laplace_at(0)) == pytest.approx(1.0, rel=1e-15)
    own = admission.from_global(**profile.global_arguments())
    # With s = 1 nobody waits beyond the first place: F = rho / 2.
    inverse = 1 + 1 / 0.8
    assert admission.delay_probability(1, 0.8, own) == pytest.approx(
        1.4 / (inverse + 0.4), rel=1e-14
    )
    with pytest.raises(ValueError, match="support"):
        profile.local_arguments()


THIRD = sympy.Rational(1, 3)


@pytest.mark.parametrize(
    ("expression", "breaks", "support", "a_beyond"),
    [
        (exp(-sympy.Max(x - 1, 0)), (1,), oo, 1),
        (sympy.Piecewise((1, x <= 1), (exp(1 - x), True)), (1,), oo, 1),
        (sympy.Min(1, exp(1 - x)), (1,), oo, 1),
        (exp(-x - sympy.Abs(x - THIRD) + THIRD), (THIRD,), oo, 2),
        (1 - sympy.Heaviside(x - 2, 1) / 2, (2,), oo, 0),
        (sympy.Max(1 - x, 0), (), 1, 1 / (1 - x)),
        (sympy.Piecewise((1, x < 1), (0, True)), (), 1, 0),
    ],
)
def test_kinks_and_jumps_are_found(expression, breaks, support, a_beyond):
    profile = from_expression(expression, x, seconds=0)
    assert profile.breaks == breaks
    assert profile.support == support
    last = profile.a.args[-1][0] if isinstance(profile.a, sympy.Piecewise) else profile.a
    assert sympy.simplify(last - a_beyond) == 0
    own = admission.from_global(**profile.global_arguments())
    assert own.breaks == tuple(map(float, breaks))
    assert own.support == float(support)
    errors = []
    for root in (30.0, 120.0):
        exact = admission.delay_probability(root**2, 1 - 0.6 / root, own)
        errors.append(abs(qed.delay_probability(root**2, 0.6, own, 2) - exact))
    # Both roots are multiples of 3, where fractional parts are the same.
    assert math.log(errors[0] / errors[1]) / math.log(4) == pytest.approx(3, abs=0.2)


def test_a_threshold_under_local_control_is_given_its_limits_at_the_break():
    profile = from_expression(exp(-(sympy.Max(x - 1, 0) ** 2) - x), x, seconds=0)
    arguments = profile.local_arguments()
    assert arguments["derivatives_at_breaks"](1.0, 2, -1) == [1.0, 0.0, 0.0]
    assert arguments["derivatives_at_breaks"](1.0, 2, 1) == [1.0, 2.0, 0.0]
    own = admission.from_local(**arguments)
    exact = admission.delay_probability(900, 0.98, own)
    assert qed.delay_probability(900, 0.6, own, 5) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: from_expression(exp(-sympy.floor(x)), x), "finite number of kinks"),
        (lambda: from_expression(1 - sympy.Heaviside(x - 2), x), "limit of f from one side"),
        (
            lambda: from_expression(1 - sympy.Heaviside(x - 2, 1) / 2, x).local_arguments(),
            "jumps at 2, where a is infinite",
        ),
    ],
)
def test_what_is_not_piecewise_smooth_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (exp(-x) / 2, r"f\(0\) is 1/2, must be 1"),
        (1 + x, "must not increase"),
        (1 - x, "must be at least 0"),
        (sympy.cos(x), "must"),
    ],
)
def test_what_is_no_profile_is_refused(expression, message):
    with pytest.raises(ValueError, match=message):
        from_expression(expression, x)


def test_the_variable_must_be_a_symbol():
    with pytest.raises(ValueError, match="must be a symbol"):
        from_expression(exp(-x), "x")
