"""The M/M/N+G queue against 40 digits, Erlang A, and simulation."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from qcore import erlang, simulate
from qcore.idling import general_patience, markov

mp = mpmath.mp

# Frozen laws, with survival functions and E min(R, x) at any precision.
LAWS = {
    "gamma(2)": (
        stats.gamma(2),
        lambda x: mp.exp(-x) * (1 + x),
        lambda x: 2 - mp.exp(-x) * (2 + x),
    ),
    "uniform": (
        stats.uniform(0, 2),
        lambda x: max(1 - x / 2, mp.zero),
        lambda x: x - x**2 / 4 if x < 2 else mp.one,
    ),
    "Weibull(1/2)": (
        stats.weibull_min(0.5),
        lambda x: mp.exp(-mp.sqrt(x)),
        lambda x: 2 - 2 * mp.exp(-mp.sqrt(x)) * (1 + mp.sqrt(x)),
    ),
    "Pareto(1/2)": (
        stats.lomax(0.5),
        lambda x: 1 / mp.sqrt(1 + x),
        lambda x: 2 * (mp.sqrt(1 + x) - 1),
    ),
}


def reference(law, servers, load):
    """Return delay, abandonment, mean wait, mean virtual wait and P(V > 1/5), for μ = 1."""
    frozen, survival, limited = LAWS[law]
    load = mp.mpf(load)

    def exponent(x):
        return load * limited(x) - servers * x

    peak = mp.mpf(float(frozen.isf(servers / float(load)))) if load > servers else mp.zero
    width = 1 / mp.sqrt(load + servers)
    points = sorted({mp.zero, peak, *(peak + k * width for k in range(1, 12))})
    points = [*points, *(points[-1] * 2 + k for k in range(1, 4)), mp.inf]
    points = [*points[:-1], points[-2] * 8 + 40]
    if law == "uniform":
        points = sorted({*points, mp.mpf(2)})

    def integral(function, start=mp.zero):
        cut = [start, *(x for x in points if x > start)]
        return mpmath.quad(lambda x: function(x) * mp.exp(exponent(x)), cut)

    free = sum(mpmath.rf(servers - j, j) / load**j for j in range(servers))
    norm = free + load * integral(lambda x: 1)
    return [
        load * value / norm
        for value in (
            integral(lambda x: 1),
            integral(lambda x: 1 - survival(x)),
            integral(limited),
            integral(lambda x: x),
            integral(lambda x: 1, mp.mpf(1) / 5),
        )
    ]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (5, 5.0), (30, 27.5), (40, 60.0)])
def test_against_forty_digits(law, servers, load):
    found = general_patience.queue(servers, load, 1.0, LAWS[law][0])
    measures = [
        found.delay_probability,
        found.abandonment_probability,
        found.mean_wait,
        found.mean_virtual_wait,
        found.virtual_wait_tail(0.2),
    ]
    with mpmath.workdps(40):
        expected = [float(value) for value in reference(law, servers, load)]
    assert measures == pytest.approx(expected, rel=1e-13)
    assert found.mean_queue == pytest.approx(load * found.mean_wait, rel=1e-15)
    assert found.busy_fraction == pytest.approx(
        load * (1 - found.abandonment_probability) / servers, rel=1e-15
    )


@pytest.mark.parametrize(
    ("servers", "load", "rate", "within"),
    [
        (1, 0.5, 1.0, 1e-14),
        (3, 1e-6, 1.0, 1e-14),
        (100, 60.0, 2.0, 1e-14),
        (100, 1000.0, 1e-6, 1e-14),
        (50, 3.0, 1e4, 3e-14),
        (10**6, 1e6 + 1000, 1.0, 2e-14),
        (10**9, 1.5e9, 0.3, 1e-14),
        (10**9, 1e9 - 3e4, 0.3, 1e-12),
    ],
)
def test_exponential_patience_is_erlang_a(servers, load, rate, within):
    found = general_patience.queue(servers, 3 * load, 3.0, stats.expon(scale=1 / (3 * rate)))
    expected = erlang.erlang_a(servers, load, rate)
    assert found.delay_probability == pytest.approx(expected.delay_probability, rel=within)
    assert found.abandonment_probability == pytest.approx(
        expected.abandonment_probability, rel=within
    )
    assert found.mean_queue == pytest.approx(expected.mean_queue, rel=within)


@pytest.mark.parametrize(("load", "p"), [(0.9, 1.0), (1.2, 1.0), (1.2, 0.4), (1.2, 0.8)])
def test_thinning_with_exponential_patience_is_that_of_the_markov_chain(load, p):
    costs = {"abandonment_cost": 2.0, "utilization_cost": lambda b: b**3, "holding_cost": 0.3}
    found = general_patience.thinned(80, 80 * load, 1.0, stats.expon(scale=2), p, **costs)
    expected = markov.thinned(80, 80 * load, 1.0, 0.5, p, **costs)
    for field in expected.__dataclass_fields__:
        assert getattr(found, field) == pytest.approx(getattr(expected, field), rel=1e-13)


@pytest.mark.parametrize("patience", [stats.lognorm(1.5, scale=0.3), stats.uniform(0, 0.4)])
def test_against_simulation(patience):
    exact = general_patience.queue(20, 22.0, 1.0, patience)
    run = simulate.many_server_queue(
        20,
        stats.expon(scale=1 / 22),
        stats.expon(),
        patience,
        simulate.NonIdling(),
        customers=8_000_000,
        seed=5,
    )
    for value, estimate in (
        (exact.abandonment_probability, run.abandonment_probability),
        (exact.mean_wait, run.waiting_time),
        (exact.mean_queue, run.queue_length),
        (exact.busy_fraction, run.busy_fraction),
    ):
        assert abs(estimate.value - value) < 4 * estimate.standard_error < 0.01 * value


def test_the_tail_takes_arrays_and_falls():
    found = general_patience.queue(100, 130.0, 1.0, stats.gamma(3, scale=1 / 3))
    times = np.array([[0.0, 0.1], [0.5, 1.0], [3.0, 1e300]])
    tail = found.virtual_wait_tail(times)
    assert tail.shape == times.shape
    assert np.all(np.diff(tail.ravel()) <= 0)
    assert tail[0, 0] == pytest.approx(found.delay_probability, rel=1e-14)
    assert tail[2, 1] == 0.0
    grid = np.linspace(0, 4, 4001)
    by_parts = np.trapezoid(found.virtual_wait_tail(grid), grid)
    assert by_parts == pytest.approx(found.mean_virtual_wait, rel=1e-6)
    with pytest.raises(ValueError, match=r"^time = -1"):
        found.virtual_wait_tail(-1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"servers": 0}, "servers = 0"),
        ({"servers": 10**10}, "servers = 10000000000"),
        ({"arrival_rate": 0.0}, "arrival_rate = 0"),
        ({"arrival_rate": 1e30}, "arrival_rate = 1e"),
        ({"service_rate": -1.0}, "service_rate = -1"),
        ({"patience": 1.0}, "patience = 1.0"),
        ({"patience": stats.norm()}, "patience has support"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    arguments = {"servers": 3, "arrival_rate": 2.0, "service_rate": 1.0, "patience": stats.expon()}
    with pytest.raises(ValueError, match=message):
        general_patience.queue(**(arguments | changes))
