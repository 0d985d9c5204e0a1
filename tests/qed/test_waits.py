"""Waits in the QED regime, against direct sums in ball arithmetic.

Nothing here but the functions under test knows an expansion: exact tails and means come from the
weights of the waiting states and sums of Poisson probabilities at integer √servers, and reference
coefficients from the polynomial in 1/√servers through such values.
"""

import functools
import itertools
import math

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

from qcore import UnstableSystem, admission, qed
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

pytestmark = pytest.mark.filterwarnings("error")

BITS = 320
RATE = 0.75
SIZE = 1.25
ROOTS = range(9, 9 + 4 * 30, 4)
TIMES = (0.0, 0.25, 1.5)


@pytest.fixture(autouse=True)
def _precision():
    before, ctx.prec = ctx.prec, BITS
    yield
    ctx.prec = before


def under_global(f):
    """p_s(k) = f((k + 1)/√s)/f(k/√s)."""
    return lambda root: (f(arb(k + 1) / root) / f(arb(k) / root) for k in itertools.count())


def under_local(a):
    """p_s(k) = 1/(1 + a((k + 1)/√s)/√s)."""
    return lambda root: (1 / (1 + a(arb(k + 1) / root) / root) for k in itertools.count())


def in_buffer(root):
    return [arb(1)] * math.floor(SIZE * root)


def two_steps(x):
    """A kink at 1/2, and a jump at 5/4."""
    if x <= 0.5:
        return mpmath.mpf(1)
    return mpmath.exp(0.5 - x) * (1 if x <= 1.25 else 0.75)


def steps_in_arb(x):
    value = (0.5 - x).exp() if x > 0.5 else arb(1)
    return value * 0.75 if x > 1.25 else value


def kinked_rate(x):
    return x + max(x - 0.5, 0)


SYSTEMS = {
    "Erlang C": (OpenAdmission(), None, under_global(lambda x: arb(1))),
    "Erlang A": (Abandonment(RATE), None, under_local(lambda x: RATE * x)),
    "Gaussian, global": (
        Abandonment(RATE),
        "global",
        under_global(lambda x: (-RATE * x * x / 2).exp()),
    ),
    "drift, global": (
        ModifiedDrift(0.5),
        None,
        under_global(lambda x: (-x * arb(2).log()).exp()),
    ),
    "drift, local": (ModifiedDrift(0.5), "local", under_local(lambda x: arb(2).log())),
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
BROKEN = {
    "buffer": (FiniteBuffer(SIZE), None, in_buffer),
    "steps, global": (
        from_global(two_steps, breaks=[0.5, 1.25], gamma_min=-1.0),
        None,
        under_global(steps_in_arb),
    ),
    "kink, local": (
        from_local(kinked_rate, breaks=[0.5]),
        None,
        under_local(lambda x: 2 * x - 0.5 if x > 0.5 else x),
    ),
}
CLOSED_FORM = [name for name in SYSTEMS if name not in ("power",) and "own" not in name]
WITHIN = {
    "power": 1e-14,
    "own f, global": 1e-14,
    "own f, local": 1e-13,
    "own saturating a, local": 1e-13,
    "own a, local": 1e-13,
    "steps, global": 1e-14,
    "kink, local": 1e-12,
}


@functools.cache
def weights(name, gamma, root):
    """Return the weights of n = 1, 2, … waiting, that of none being 1; and of all admitted, ·ρ."""
    load = 1 - arb(gamma) / root
    result, weight, total = [], arb(1), arb(0)
    for chance in (SYSTEMS | BROKEN)[name][2](root):
        weight *= load * chance
        result.append(weight)
        total += weight
        if weight < total * arb(2) ** -BITS and len(result) > root:
            break
    below, serving = arb(0), arb(1)  # 1/B − 1, from full downwards
    for k in range(root**2):
        serving *= (root**2 - k) / (root**2 * load)
        below += serving
    return result, load * below + total


@functools.cache
def exact_tail(name, gamma, root, time):
    """Return P(W > time/√s) among those admitted, for s = root²."""
    waiting, admitted = weights(name, gamma, root)
    mean = arb(time) * root
    ended = within = (-mean).exp()
    late = arb(0)
    for n, weight in enumerate(waiting, start=1):
        late += weight * within
        ended *= mean / n
        within += ended
    return late / admitted


@functools.cache
def exact_mean(name, gamma, root):
    """Return √s times the mean wait of those admitted, for s = root²."""
    waiting, admitted = weights(name, gamma, root)
    return sum((n * w for n, w in enumerate(waiting, 1)), arb(0)) / admitted / root


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


def extrapolated(exact, roots, order):
    """Return the coefficients, and see that two roots fewer give the same."""
    nodes, values = [1 / arb(root) for root in roots], [exact(root) for root in roots]
    found = newton(nodes, values, order)
    fewer = newton(nodes[2:], values[2:], order)
    np.testing.assert_allclose(fewer, found, rtol=1e-14, atol=1e-14)
    return found


def require_stable(name, gamma):
    if gamma <= (SYSTEMS | BROKEN)[name][0].gamma_min:
        pytest.skip("unstable")


@pytest.mark.parametrize("gamma", [-1.5, 0.75])
@pytest.mark.parametrize("name", SYSTEMS)
def test_coefficients_are_those_of_the_exact_tail(name, gamma):
    require_stable(name, gamma)
    profile, control, _ = SYSTEMS[name]
    found = qed.wait_tail_coefficients(gamma, TIMES, profile, 6, control)
    assert found.shape == (3, 7)
    for time, row in zip(TIMES, found, strict=True):
        expected = extrapolated(lambda root, t=time: exact_tail(name, gamma, root, t), ROOTS, 6)
        allowed = WITHIN.get(name, 1e-15)
        np.testing.assert_allclose(row, expected, rtol=allowed, atol=allowed * abs(expected).max())


@pytest.mark.parametrize("gamma", [-0.3, 0.75])
@pytest.mark.parametrize("name", [*SYSTEMS, *BROKEN])
def test_coefficients_are_those_of_the_exact_mean(name, gamma):
    require_stable(name, gamma)
    profile, control, _ = (SYSTEMS | BROKEN)[name]
    # At these roots the fractional parts at breaks are always the same.
    roots = ROOTS if name in SYSTEMS else [41 + 4 * j for j in range(24)]
    found = qed.mean_wait_expansion(gamma, profile, 6, control).coefficients_at(roots[0] ** 2)
    expected = extrapolated(lambda root: exact_mean(name, gamma, root), roots, 6)
    allowed = WITHIN.get(name, 1e-15)
    np.testing.assert_allclose(found, expected, rtol=allowed, atol=allowed * abs(expected).max())


@pytest.mark.parametrize("name", ["Erlang C", "Erlang A", "drift, global", "own f, local"])
def test_slopes_of_the_error(name):
    """The error of order n falls like s^(−(n + 1)/2), n = 0 … 4."""
    gamma, time, roots = 0.75, 0.75, (48, 192)
    profile, control, _ = SYSTEMS[name]
    row = qed.wait_tail_coefficients(gamma, time, profile, 4, control)
    mean = qed.mean_wait_coefficients(gamma, profile, 4, control)
    for order in range(5):
        for exact, series in (
            (lambda root: exact_tail(name, gamma, root, time), row),
            (lambda root: exact_mean(name, gamma, root), mean),
        ):
            errors = [
                abs(
                    float(
                        exact(root) - sum(arb(series[k]) / arb(root) ** k for k in range(order + 1))
                    )
                )
                for root in roots
            ]
            slope = math.log(errors[1] / errors[0]) / math.log(16)
            assert slope == pytest.approx(-(order + 1) / 2, abs=0.12), order


@pytest.mark.parametrize(
    ("profile", "control"),
    [(Abandonment(2.0), None), (ModifiedDrift(0.3), "local"), (PowerDecay(1.5), None)],
)
@pytest.mark.parametrize("of", ["all", "served"])
def test_service_levels_are_those_of_the_queue(profile, control, of):
    root, gamma = 100, 0.4
    times = np.array([0.0, 0.3, 1.0, 2.0])
    queue = admission.queue(root**2, 1 - gamma / root, profile, control)
    level = qed.service_level(root**2, gamma, times, profile, 7, control, of)
    np.testing.assert_allclose(level, queue.service_level(times / root, of), rtol=0, atol=2e-13)
    tail = qed.wait_tail(root**2, gamma, times, profile, 7, control)
    np.testing.assert_allclose(tail, queue.wait_tail(times / root), rtol=2e-10)
    mean = qed.mean_wait(root**2, gamma, profile, 7, control)
    assert mean == pytest.approx(queue.mean_wait, rel=1e-12)


def test_service_levels_are_products_of_series():
    for profile, control in ((Abandonment(2.0), None), (ModifiedDrift(0.3), "local")):
        refused = np.append(0, qed.rejection_coefficients(-0.2, profile, 4, control))
        tail = qed.wait_tail_coefficients(-0.2, 0.7, profile, 5, control)
        unit = np.eye(1, 6)[0]
        served = qed.service_level_coefficients(-0.2, 0.7, profile, 5, control, "served")
        np.testing.assert_allclose(served, unit - tail, rtol=1e-15)
        level = qed.service_level_coefficients(-0.2, 0.7, profile, 5, control)
        product = np.convolve(unit - refused, unit - tail)[:6]
        np.testing.assert_allclose(level, product, rtol=1e-13)


@pytest.mark.parametrize("name", ["Erlang A", "Gaussian, global", "drift, local"])
def test_the_tail_integrates_to_the_mean(name):
    profile, control, _ = SYSTEMS[name]
    nodes, gauss = np.polynomial.legendre.leggauss(60)
    end = 60.0 if "drift" in name else 20.0
    edges = np.linspace(0, end, 5)
    times = np.concatenate(
        [(a + b) / 2 + (b - a) / 2 * nodes for a, b in itertools.pairwise(edges)]
    )
    tails = qed.wait_tail_coefficients(0.25, times, profile, 4, control)
    areas = np.tile(gauss * end / 8, 4) @ tails
    np.testing.assert_allclose(
        areas, qed.mean_wait_coefficients(0.25, profile, 4, control), rtol=1e-11
    )


def test_without_refusals_the_wait_is_exponential_to_every_order():
    times = np.array([0.0, 0.1, 3.0, 40.0])
    rows = qed.wait_tail_coefficients(0.4, times, OpenAdmission(), 12)
    np.testing.assert_allclose(rows, np.exp(-0.4 * times)[:, None] * rows[0], rtol=4e-15)


def test_at_time_zero_the_tail_is_who_waits_among_those_admitted():
    gamma, profile = 0.3, Abandonment(1.5)
    delay, refused = (
        make(gamma, profile, 7) for make in (qed.delay_coefficients, qed.rejection_coefficients)
    )
    refused = np.append(0, refused)[:8]
    tail = qed.wait_tail_coefficients(gamma, 0.0, profile, 7)
    product = np.convolve(np.eye(1, 8)[0] - refused, tail)[:8]
    np.testing.assert_allclose(product, delay - refused, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("control", ["global", "local"])
def test_a_profile_of_ones_own_agrees_with_the_built_in_one(control):
    own = from_global(lambda x: mpmath.exp(-x * x), gamma_min=-math.inf)
    given = from_local(
        lambda x: 2 * x,
        [0.0, 2.0] + [0.0] * 12,
        integral=np.square,
        a_derivatives=lambda x, n: np.array([2 * x, 2 + 0 * x, *[0 * x] * n])[: n + 1],
        gamma_min=-math.inf,
        breaks=(),
    )
    for time in (1e-9, 0.3, 2.5):
        expected = qed.wait_tail_coefficients(0.2, time, Abandonment(2.0), 5, control)
        for profile in (own, given):
            found = qed.wait_tail_coefficients(0.2, time, profile, 5, control)
            np.testing.assert_allclose(found, expected, rtol=2e-11, atol=1e-13)


def test_who_does_not_wait():
    times = np.array([0.0, 1.0])
    np.testing.assert_array_equal(qed.wait_tail(100, -0.5, times, NoWaiting(), 3), [0.0, 0.0])
    assert qed.mean_wait(100, 0.5, NoWaiting(), 3) == 0.0
    np.testing.assert_array_equal(qed.mean_wait_coefficients(0.5, NoWaiting(), 2), [0.0] * 3)
    served = qed.service_level(100, 0.5, times, NoWaiting(), 3, of="served")
    np.testing.assert_array_equal(served, [1.0, 1.0])
    all_of_them = qed.service_level(100, 0.5, 0.0, NoWaiting(), 3)
    assert all_of_them == pytest.approx(1 - qed.rejection_probability(100, 0.5, NoWaiting(), 2))


def test_arrays_broadcast_and_scalars_are_floats():
    servers, gamma, times = np.array([[100.0], [400.0]]), np.array([0.1, 0.5]), 0.75
    found = qed.wait_tail(servers, gamma, times, Abandonment(1.0), 2)
    assert found.shape == (2, 2)
    for i, j in np.ndindex(2, 2):
        one = qed.wait_tail(servers[i, 0], gamma[j], times, Abandonment(1.0), 2)
        assert isinstance(one, float)
        assert one == found[i, j]
    assert qed.wait_tail_coefficients(0.5, 1.0, Abandonment(1.0), 2).shape == (3,)
    assert qed.wait_tail_coefficients(0.5, [[1.0]], Abandonment(1.0), 2).shape == (1, 1, 3)
    assert isinstance(qed.mean_wait(10, 0.5, OpenAdmission(), 2), float)


def test_truncation_error_of_a_mean_wait():
    expansion = qed.mean_wait_expansion(0.75, Abandonment(RATE), 3)
    error = abs(float(exact_mean("Erlang A", 0.75, 40) / 40 - arb(expansion(1600))))
    assert 0.7 * error < expansion.truncation_error(1600) < 3 * error


@pytest.mark.parametrize("time", [50.0, 1e6])
def test_far_out_the_series_is_still_a_probability(time):
    for profile in (Abandonment(1.0), ModifiedDrift(0.5), PowerDecay(2.0)):
        assert 0 <= qed.wait_tail(100, 0.5, time, profile, 4) <= 1


class Plain(ScalingProfile):
    """f(x) = exp(−x²), without derivatives of a but at 0."""

    gamma_min = -math.inf

    def _log_f(self, x):
        return -x * x

    def _a(self, x):
        return 2 * x

    def _a_derivatives(self, n):
        return np.array([0.0, 2.0, *[0.0] * n])[: n + 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.5, 1.0, OpenAdmission()), "servers = 0.0: must be finite and > 0"),
        ((100, 10.0, 1.0, OpenAdmission()), "gamma = 10.0: must be below the square root"),
        ((100, 0.5, -1.0, OpenAdmission()), r"scaled_time = -1.0: must be finite and >= 0"),
        ((100, 0.5, 1e7, OpenAdmission()), r"scaled_time = 10000000.0: .* <= 1e\+06"),
        ((100, 0.5, 1.0, "open"), "profile = 'open': must be a ScalingProfile"),
        ((100, 0.5, 1.0, OpenAdmission(), 31), "order = 31: must be an integer >= 0 and <= 30"),
        ((100, 0.5, 1.0, OpenAdmission(), 1, "both"), "control = 'both': must be one of"),
        ((100, 0.5, 1.0, FiniteBuffer(1.0)), "breaks or ends at x = 1.0, .*admission.queue"),
        (
            (100, 0.5, 1.0, from_global(two_steps, breaks=[0.5, 1.25], gamma_min=-1.0)),
            "breaks or ends at x = 0.5",
        ),
        ((100, 0.5, 1.0, from_global(two_steps, gamma_min=-1.0)), "seems to have a kink"),
        ((100, 0.5, 1.0, Plain()), "needs derivatives of a; give the profile a_derivatives"),
        (
            (100, 0.5, 1.0, from_global(lambda x: math.exp(-x), [1, -1, 1, -1, 1], gamma_min=-1)),
            "needs derivatives of a",
        ),
        (([1, 2], [0.1, 0.2, 0.3], 1.0, OpenAdmission()), "must broadcast against each other"),
    ],
)
def test_bad_arguments(arguments, message):
    for function in (qed.wait_tail, qed.service_level):
        with pytest.raises(ValueError, match=message):
            function(*arguments)


def test_who_is_counted_must_be_known():
    with pytest.raises(ValueError, match="of = 'some': must be one of"):
        qed.service_level(100, 0.5, 1.0, OpenAdmission(), of="some")


def test_unstable_systems_and_infinite_means():
    with pytest.raises(UnstableSystem, match="above gamma_min = 0 of"):
        qed.wait_tail(100, 0.0, 1.0, OpenAdmission())
    with pytest.raises(ValueError, match=r"gamma = 0\.0: must be above gamma_min = 0"):
        qed.mean_wait(100, 0.0, PowerDecay(1.5), 0)


def test_power_decay_at_critical_load():
    """γ = 0 is γ_min here, and stable: F_s = s^(ν/2) ζ(ν, √s + 1), less shorter waits."""
    root, exponent, time = 60, 1.5, 0.75
    with mpmath.workdps(40):
        waiting = mpmath.mpf(root) ** exponent * mpmath.zeta(exponent, root + 1)
        ended, within = mpmath.exp(-time * root), mpmath.mpf(0)
        late = waiting
        for n in range(1, 400):
            within += ended
            ended *= time * root / n
            late -= (1 + mpmath.mpf(n) / root) ** -exponent * (1 - within)
        inverse = mpmath.gammainc(root**2 + 1, root**2) * mpmath.exp(root**2)
        tail = late / (inverse / mpmath.mpf(root) ** (2 * root**2) - 1 + waiting)
    found = qed.wait_tail(root**2, 0.0, time, PowerDecay(exponent), 8)
    assert found == pytest.approx(float(tail), rel=1e-12)
