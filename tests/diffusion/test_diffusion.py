"""qcore.diffusion against 50-digit quadrature, the exact queue, and its own sample paths."""

import math
import re

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcore import admission
from qcore.admission import (
    Abandonment,
    FiniteBuffer,
    ModifiedDrift,
    NoWaiting,
    OpenAdmission,
    PowerDecay,
    from_global,
    from_local,
    queue_distribution,
)
from qcore.diffusion import (
    delay_probability,
    mean,
    moment,
    sample_path,
    stationary_cdf,
    stationary_density,
    variance,
)
from qcore.errors import UnstableSystem

pytestmark = pytest.mark.filterwarnings("error")

quick = settings(derandomize=True, deadline=None, max_examples=50)

# Profiles with f in mpmath numbers and the right end of its support.
CASES = [
    (NoWaiting(), None, 0),
    (OpenAdmission(), lambda x: mp.mpf(1), mp.inf),
    (ModifiedDrift(0.25), lambda x: mp.mpf(0.25) ** x, mp.inf),
    (Abandonment(0.5), lambda x: mp.exp(-(x**2) / 4), mp.inf),
    (FiniteBuffer(1.5), lambda x: mp.mpf(1), 1.5),
    (PowerDecay(5.0), lambda x: (1 + x) ** -5, mp.inf),
]
GAMMAS = [-3.0, -0.5, 0.4, 2.0, 6.0]


def stable(profile, gammas=GAMMAS):
    return [gamma for gamma in gammas if profile.is_finite_at(gamma, 2)]


def below(gamma, start, power=0):
    """∫ xⁿφ(x + γ)/φ(γ) over x < start ≤ 0."""
    points = sorted({-mp.inf, -mp.mpf(gamma) - 6, -mp.mpf(gamma), mp.mpf(start)})
    points = [p for p in points if p <= start]
    return mp.quad(lambda x: x**power * mp.exp(-x * x / 2 - gamma * x), points)


def above(gamma, f, start, end, power=0):
    """∫ xⁿe^{−γx}f(x) over start < x < end."""
    if f is None:
        return mp.mpf(0)
    points = [p for p in (0, 1, 4, 10, 30, 100) if start < p < end]
    return mp.quad(lambda x: x**power * mp.exp(-gamma * x) * f(x), [start, *points, end])


@pytest.mark.parametrize(("profile", "f", "end"), CASES, ids=lambda value: repr(value)[:24])
def test_against_quadrature(profile, f, end):
    with mp.workdps(25):
        for gamma in stable(profile):
            mass_below, mass_above = below(gamma, 0), above(gamma, f, 0, end)
            mass = mass_below + mass_above
            assert delay_probability(gamma, profile) == pytest.approx(
                float(mass_above / mass), rel=1e-14
            )
            for x in [-8.0, -1.0, -1e-3]:
                assert stationary_cdf(x, gamma, profile) == pytest.approx(
                    float(below(gamma, x) / mass), rel=1e-13
                )
                density = mp.exp(-(mp.mpf(x) ** 2) / 2 - gamma * mp.mpf(x)) / mass
                assert stationary_density(x, gamma, profile) == pytest.approx(
                    float(density), rel=1e-13
                )
            for x in [0.0, 0.01, 1.0, 3.0]:
                up_to = min(mp.mpf(x), end)
                inner = above(gamma, f, 0, up_to) if up_to > 0 else 0
                assert stationary_cdf(x, gamma, profile) == pytest.approx(
                    float((mass_below + inner) / mass), rel=1e-12
                )
                if 0 < x < end:
                    density = mp.exp(-gamma * mp.mpf(x)) * f(mp.mpf(x)) / mass
                    assert stationary_density(x, gamma, profile) == pytest.approx(
                        float(density), rel=1e-13
                    )
            moments = [below(gamma, 0, n) + above(gamma, f, 0, end, n) for n in range(5)]
            for n in range(1, 5):
                assert moment(n, gamma, profile) == pytest.approx(
                    float(moments[n] / mass), rel=1e-12, abs=1e-14
                )
            first, second = moments[1] / mass, moments[2] / mass
            assert mean(gamma, profile) == pytest.approx(float(first), rel=1e-12, abs=1e-14)
            assert variance(gamma, profile) == pytest.approx(float(second - first**2), rel=1e-12)


def test_far_from_critical_load():
    with mp.workdps(50):
        for gamma in [-100, -37.0, 29.9, 30.1, 37.0]:
            part = mp.ncdf(gamma) / mp.npdf(gamma)
            laplace = (
                mp.sqrt(mp.pi / 2) * mp.exp(mp.mpf(gamma) ** 2 / 2) * mp.erfc(gamma / mp.sqrt(2))
            )
            expected = laplace / (part + laplace)
            error = abs(delay_probability(gamma, Abandonment(1.0)) / expected - 1)
            assert error < 5e-13
    # θ = 1: X is normal with mean −γ and variance 1.
    for gamma in [-300.0, -35.0, 0.3, 29.0, 31.0, 300.0]:
        profile = Abandonment(1.0)
        assert mean(gamma, profile) == pytest.approx(-gamma, rel=1e-13 + 2.3e-16 * gamma**2)
        assert variance(gamma, profile) == pytest.approx(1.0, rel=1e-9)
        assert stationary_density(-gamma, gamma, profile) == pytest.approx(
            1 / math.sqrt(2 * math.pi), rel=1e-10
        )
        assert stationary_cdf(-gamma, gamma, profile) == pytest.approx(0.5, rel=1e-10)
        assert stationary_cdf(-gamma - 5, gamma, profile) == pytest.approx(
            float(mp.ncdf(-5)), rel=1e-9
        )
    # Close to its reflection FiniteBuffer leaves an exponential law.
    assert variance(-1e3, FiniteBuffer(2.0)) == pytest.approx(1e-6, rel=1e-9)
    assert delay_probability(300.0, OpenAdmission()) == 0.0
    assert delay_probability(-1e4, FiniteBuffer(2.0)) == 1.0


@pytest.mark.parametrize(
    ("profile", "gamma"),
    [
        (OpenAdmission(), 0.5),
        (ModifiedDrift(0.25), -0.5),
        (Abandonment(2.0), -1.0),
        (PowerDecay(2.0), 0.3),
        (from_local(np.arctan), -0.7),
    ],
    ids=repr,
)
def test_the_exact_queue_tends_to_the_diffusion(profile, gamma):
    """The distance shrinks like 1/√s: tenfold with a hundred times the servers."""
    x = np.array([-1.5, -0.3, 0.4, 2.0])
    limit_delay = delay_probability(gamma, profile)
    limit_cdf = stationary_cdf(x, gamma, profile)
    delay_error, cdf_error = [], []
    for s in (10**4, 10**6):
        root = math.sqrt(s)
        rho = 1 - gamma / root
        delay_error.append(abs(admission.delay_probability(s, rho, profile) - limit_delay))
        law = queue_distribution(s, rho, profile)
        # Half a state more: the continuity correction keeps the distance smooth in s.
        cdf = np.interp(x, (law.number_in_system - s + 0.5) / root, np.cumsum(law.probability))
        cdf_error.append(np.abs(cdf - limit_cdf).max())
    assert delay_error[0] / delay_error[1] == pytest.approx(10, rel=0.1)
    assert cdf_error[0] / cdf_error[1] == pytest.approx(10, rel=0.1)


@quick
@given(
    st.floats(-5, 5),
    st.floats(-3, 3),
    st.one_of(
        st.builds(Abandonment, st.floats(0.05, 20.0)),
        st.builds(FiniteBuffer, st.floats(0.05, 5.0)),
        st.just(NoWaiting()),
    ),
)
def test_distribution_function_grows_from_zero_to_one(gamma, x, profile):
    low, high = stationary_cdf([x, x + 0.5], gamma, profile)
    assert 0 <= low <= high <= 1
    assert stationary_density(x, gamma, profile) >= 0
    at_zero = 1 - stationary_cdf(0.0, gamma, profile)
    assert delay_probability(gamma, profile) == pytest.approx(at_zero, abs=1e-12)
    assert variance(gamma, profile) > 0


@quick
@given(st.floats(-4, 4), st.floats(0.05, 10.0), st.floats(0.01, 1.0))
def test_delay_falls_with_gamma_and_with_impatience(gamma, rate, more):
    here = delay_probability(gamma, Abandonment(rate)) + 1e-15  # it may round to 1
    assert delay_probability(gamma + more, Abandonment(rate)) < here
    assert delay_probability(gamma, Abandonment(rate + more)) < here


# ---------------------------------------------------------------- sample paths


@pytest.mark.parametrize(
    ("profile", "gamma"),
    [
        (Abandonment(2.0), -1.0),
        (ModifiedDrift(0.1), 0.3),
        (FiniteBuffer(0.7), -1.0),
        (NoWaiting(), 0.5),
    ],
    ids=repr,
)
def test_paths_settle_in_the_stationary_law(profile, gamma):
    paths = 20_000
    path = sample_path(gamma, profile, horizon=7.0, seed=5, step=0.02, paths=paths)
    last = path.values[:, -1]
    x = np.linspace(-3, 1.5, 19)
    expected = stationary_cdf(x, gamma, profile)
    found = (last[:, None] <= x).mean(axis=0)
    # Four standard errors of a fraction, and what the step of 0.02 leaves.
    assert np.abs(found - expected).max() < 4 * 0.5 / math.sqrt(paths) + 0.003
    assert last.mean() == pytest.approx(
        mean(gamma, profile), abs=4 * math.sqrt(variance(gamma, profile) / paths) + 0.005
    )


@pytest.mark.parametrize("step", [0.5, 0.1])
def test_paths_err_by_their_step_and_by_nothing_else(step):
    # Where the drift is −γ − x everywhere a step is X ← m(mX + √(2h)ξ) about −γ, m = 1 − d + d²/2
    # with d = h/2: its stationary variance is 2hm²/(1 − m⁴), which is 0.973 and 0.9988, not 1.
    horizon, paths = 200.0, 1000
    path = sample_path(0.7, Abandonment(1.0), horizon, seed=4, step=step, paths=paths)
    values = path.values[:, round(10 / step) :] + 0.7
    half = 1 - step / 2 + step**2 / 8
    expected = 2 * step * half**2 / (1 - half**4)
    for averages, value in ((values.mean(axis=1), 0.0), ((values**2).mean(axis=1), expected)):
        error = averages.std(ddof=1) / math.sqrt(paths)
        assert error < 0.005
        assert averages.mean() == pytest.approx(value, abs=4 * error)
    assert expected == pytest.approx(1 - step**2 / 8, abs=step**3 / 30)


def test_paths_have_quadratic_variation_two_and_the_right_grid():
    path = sample_path(0.5, OpenAdmission(), horizon=10.0, seed=2, step=1e-3)
    assert path.times[0] == 0
    assert path.times[-1] == 10
    assert len(path.times) == len(path.values) == 10_001
    assert np.sum(np.diff(path.values) ** 2) / 10 == pytest.approx(
        2, abs=4 * 2 * math.sqrt(2 / 1e4)
    )


def test_the_same_seed_gives_the_same_path():
    first, again, other = (
        sample_path(0.5, Abandonment(1.0), 1.0, seed, start=-2.0, paths=3) for seed in (7, 7, 8)
    )
    assert first.values.shape == (3, 1001)
    assert np.all(first.values[:, 0] == -2)
    assert np.array_equal(first.values, again.values)
    assert not np.array_equal(first.values, other.values)


def test_paths_follow_the_drift():
    # Far out the noise hardly counts: x′ = −γ − x below zero, x′ = −γ − θx above.
    for start, rate in [(-1e4, 1.0), (1e4, 0.5)]:
        path = sample_path(2.0, Abandonment(0.5), 1.0, 1, start=start)
        fixed = -2.0 / rate
        expected = fixed + (start - fixed) * math.exp(-rate)
        assert path.values[-1] == pytest.approx(expected, rel=1e-3)


def test_paths_are_reflected_where_admission_stops():
    assert sample_path(-3.0, NoWaiting(), 2.0, 1).values.max() <= 0
    highest = sample_path(-3.0, FiniteBuffer(0.4), 2.0, 1).values.max()
    assert 0.3 < highest <= 0.4


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: delay_probability(0.0, OpenAdmission()), "gamma = 0.0"),
        (lambda: delay_probability(-0.7, ModifiedDrift(0.5)), "must be > gamma_min = -0.693147"),
        (lambda: stationary_cdf(0.0, -0.1, PowerDecay(3.0)), "must be >= gamma_min = 0"),
        (lambda: stationary_density(0.0, -1.0, OpenAdmission()), "no stationary distribution"),
        (lambda: moment(2, -1.0, OpenAdmission()), "no stationary distribution"),
        (lambda: variance([1.0, -1.0], OpenAdmission()), "gamma = -1.0"),
    ],
)
def test_instability_is_reported(call, message):
    with pytest.raises(UnstableSystem, match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: delay_probability(math.nan, OpenAdmission()), "gamma = nan"),
        (lambda: delay_probability(1.0, "open"), "profile = 'open'"),
        (lambda: stationary_cdf(math.inf, 1.0, OpenAdmission()), "x = inf"),
        (lambda: moment(-1, 1.0, OpenAdmission()), "order = -1"),
        (lambda: mean(0.0, PowerDecay(1.5)), "gamma = 0.0"),
        (
            lambda: stationary_density(1e200, 1.0, OpenAdmission()),
            "x = 1e+200: must be finite and >=",
        ),
        (
            lambda: stationary_density(0.0, 1e7, OpenAdmission()),
            "gamma = 10000000.0: must be finite",
        ),
        (
            lambda: stationary_density([0.0, 1.0], [1.0, 2.0, 3.0], OpenAdmission()),
            "must broadcast against each other",
        ),
        (lambda: sample_path(1.0, OpenAdmission(), -1.0, 1), "horizon = -1.0"),
        (lambda: sample_path(1.0, OpenAdmission(), 1.0, 1, step=0.0), "step = 0.0"),
        (lambda: sample_path(1.0, OpenAdmission(), 1.0, 0.5), "seed = 0.5"),
        (lambda: sample_path(1.0, FiniteBuffer(1.0), 1.0, 1, start=2.0), "start = 2.0"),
        (lambda: sample_path(1.0, OpenAdmission(), 1.0, 1, paths=0), "paths = 0"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_arrays_broadcast_and_scalars_are_floats():
    assert type(stationary_density(0.1, 1.0, OpenAdmission())) is float
    assert stationary_cdf([[0.1], [0.2]], [1.0, 2.0, 3.0], OpenAdmission()).shape == (2, 3)
    assert delay_probability([1.0, 2.0], OpenAdmission()).shape == (2,)


@pytest.mark.parametrize(
    ("profile", "gamma"),
    [
        (Abandonment(1e4), -1.0),
        (from_local(lambda x: 1e4 * x, gamma_min=-math.inf), -1.0),
        (from_local(np.exp), -2.0),
    ],
    ids=["steep", "steep, by its tangent", "exponential"],
)
def test_paths_stand_a_steep_drift(profile, gamma):
    """At a step long against 1/a′ the law is near the right one, and no path runs away."""
    path = sample_path(gamma, profile, 6.0, 3, step=4e-3, paths=400)
    late = path.values[:, -500::100]
    deviation = math.sqrt(variance(gamma, profile))
    assert abs(late.mean() - mean(gamma, profile)) < 0.15 * deviation
    assert late.var() == pytest.approx(variance(gamma, profile), rel=0.12)
    assert path.values.max() < 8 * deviation


@pytest.mark.parametrize("gamma", [-1.3, 0.0, 0.8])
@pytest.mark.parametrize(
    "profile",
    [Abandonment(2.0), ModifiedDrift(0.3), from_local(lambda x: 2 * x, gamma_min=-math.inf)],
)
def test_the_drift_is_followed_as_by_an_ode_solver(gamma, profile):
    from scipy.integrate import solve_ivp

    from qcore.diffusion import _drift_flow

    def drift(t, x):
        return -gamma - (profile.a(max(x[0], 0.0)) if x[0] > 0 else x[0])

    for start in (-2.0, -0.3, 0.0, 0.2, 1.5):
        for duration in (0.01, 0.7, 3.0):
            found = float(_drift_flow(np.array([start]), duration, gamma, profile)[0])
            solved = solve_ivp(drift, (0, duration), [start], rtol=1e-9, atol=1e-10, max_step=0.02)
            assert found == pytest.approx(solved.y[0, -1], abs=2e-5)


def test_far_tails_of_profiles_of_ones_own():
    gaussian = from_global(lambda x: mp.exp(-x - x**2))
    linear = from_local(lambda x: 2 * x)
    for profile in (gaussian, linear):
        for x in (30.0, 1e9, 1e100):
            assert stationary_cdf(x, 0.5, profile) == 1.0
            assert stationary_density(x, 0.5, profile) == 0.0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sample_path(1.0, OpenAdmission(), 1.0, 1, step=1e-12), "step = 1e-12.* at most"),
        (lambda: sample_path(1.0, OpenAdmission(), 1e308, 1, step=1e-308), "inf values"),
        (lambda: sample_path(1.0, OpenAdmission(), 1.0, 1, paths=10**9), "values; must be"),
        (lambda: moment(400, 0.0, NoWaiting()), "order = 400: the moment .* exceeds"),
        (lambda: moment(10**9, 0.0, NoWaiting()), "order = 1000000000: .* <= 1000"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def weighted(n, gamma, ends):
    return mp.quad(lambda v: v**n * mp.exp(gamma * v - v * v / 2), ends)


def test_moments_whose_parts_overflow_alone():
    """E|X|ⁿ below zero at large γ, while the unnormalised moments exceed 1e308."""
    for n, gamma in ((100, 29.0), (60, 29.9), (60, 30.1), (30, 0.0), (30, -5.0)):
        with mp.workdps(40):
            ends = [0, max(gamma, 0) / 2, max(gamma, 0) + 1, max(gamma, 0) + 10, mp.inf]
            expected = weighted(n, gamma, ends) / weighted(0, gamma, ends)
        assert moment(n, gamma, NoWaiting()) == pytest.approx(
            float((-1) ** n * expected), rel=1e-11
        )
