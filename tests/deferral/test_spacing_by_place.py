"""Spacing by the place in the line: against dense algebra over all lines, simulation, dsrt."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from qcore import simulate
from qcore.deferral import dsrt, single_deferral, spacing_by_place

SYSTEMS = [
    # servers, arrival rate, service rate, spacings
    (1, 1.0, 1.0, (0.5,)),
    (1, 3.0, 1.0, (0.5, 1.5)),
    (2, 3.0, 2.0, (0.7, 0.2)),
    (3, 3.2, 1.0, (0.6, 0.3, 0.1)),
    (3, 3.2, 1.0, (0.1, 0.3, 0.6)),
    (5, 2.0, 1.0, (0.5, 0.4, 0.4)),
    (2, 4.0, 1.0, (1.0, 0.4, 0.7, 0.2)),
    (6, 0.01, 1.0, (2.0, 1.0)),
    (2, 9.0, 1.0, (8.0, 4.0, 6.0)),  # a phase hardly ever ends
]


def dense_blocking(servers, lam, mu, spacings):
    """P_B with the whole line of spacings in the state, and time averages from expm."""
    places, width = len(spacings), servers + 1
    away = list(itertools.product(range(places), range(width)))  # how many but one, busy

    def moves(d, k):
        if k < servers:
            yield d, k + 1, lam
        elif d < places - 1:
            yield d + 1, k, lam
        if k:
            yield d, k - 1, k * mu

    generator = np.zeros((len(away), len(away)))
    for here, state in enumerate(away):
        for *to, rate in moves(*state):
            generator[here, away.index(tuple(to))] += rate
            generator[here, here] -= rate
    flow = np.block([[generator, np.eye(len(away))], [np.zeros_like(generator), generator * 0]])
    flows = [scipy.linalg.expm(flow * x)[: len(away)] for x in spacings]

    # The lines at the starts of stages, and the empty one with the number busy at a phase's end.
    states, found = [((0,), servers)], {((0,), servers): 0}
    links = []
    for line, k in states:
        if not line:
            links.append((0, found[line, k], 1.0))
            continue
        law = flows[line[0]][away.index((len(line) - 1, k))]
        for probability, (d, busy) in zip(law[: len(away)], away, strict=True):
            if d + 1 < len(line):
                continue
            rest = (*line[1:], *range(len(line), d + 1))
            state = rest, min(busy + 1, servers)
            if state not in found:
                found[state] = len(states)
                states.append(state)
            links.append((found[state], found[line, k], probability))
    matrix = -np.eye(len(states))
    for to, start, probability in links:
        matrix[to, start] += probability
    visits = scipy.linalg.null_space(matrix, rcond=1e-12)[:, 0]
    visits /= visits.sum()

    outside = np.diag(np.full(width, -lam - mu * np.arange(width)))
    outside += np.diag(np.full(servers, lam), 1) + np.diag(mu * np.arange(1.0, width), -1)
    time = lost = 0.0
    for (line, k), count in zip(states, visits, strict=True):
        if line:
            row = flows[line[0]][away.index((len(line) - 1, k))]
            ends = row[: len(away)].reshape(places, width)
            time += count * spacings[line[0]]
            lost += count * (lam * row[-1] + ends[:, -1].sum())
        else:
            time += count * np.linalg.solve(-outside, np.ones(width))[k]
    return lost / lam / time


@pytest.mark.parametrize("system", SYSTEMS)
def test_against_dense_linear_algebra(system):
    found = spacing_by_place.blocking_probability(*system)
    assert found == pytest.approx(dense_blocking(*system), rel=1e-12)


@given(
    st.integers(1, 4),
    st.floats(-2, 1.5).map(lambda e: 10.0**e),
    st.lists(st.floats(-2, 0.7).map(lambda e: 10.0**e), min_size=1, max_size=3),
)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_random_systems_against_dense_linear_algebra(servers, lam, spacings):
    found = spacing_by_place.blocking_probability(servers, lam, 1.0, spacings)
    expected = dense_blocking(servers, lam, 1.0, spacings)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize(
    ("servers", "places", "lam", "spacing"),
    [
        (1, 2, 3.0, 0.5),
        (3, 8, 3.2, 0.3),
        (5, 6, 8.0, 0.3),
        (10, 20, 10.3, 0.1),
        (6, 2, 0.01, 2.0),
        (3, 3, 40.0, 5.0),
        (100, 3, 101.0, 0.05),
        (1000, 2, 1003.0, 0.01),
    ],
)
def test_equal_spacings_are_deterministic_spacing(servers, places, lam, spacing):
    found = spacing_by_place.blocking_probability(servers, lam, 1.0, (spacing,) * places)
    expected = dsrt.blocking_probability(servers, places, lam, 1.0, spacing)
    assert found == pytest.approx(expected, rel=1e-12)
    # Told apart by a rounding error they are followed line by line.
    if places < 7:
        other = [spacing * (1 + place * 2e-15) for place in range(places)]
        found = spacing_by_place.blocking_probability(servers, lam, 1.0, other)
        assert found == pytest.approx(expected, rel=1e-12)


def test_following_a_phase_and_eliminating_its_states_agree(monkeypatch):
    systems = [system for system in SYSTEMS if len(system[3]) > 1][:6]
    eliminated = [spacing_by_place.blocking_probability(*system) for system in systems]
    monkeypatch.setattr(spacing_by_place, "_ELIMINATED_AT_ONCE", 0)
    monkeypatch.setattr(spacing_by_place, "_MOST_ELIMINATED", 0)
    for system, expected in zip(systems, eliminated, strict=True):
        found = spacing_by_place.blocking_probability(*system)
        assert found == pytest.approx(expected, rel=1e-13)


def test_a_window_of_states_changes_nothing(monkeypatch):
    system = 160, 161.0, 1.0, (0.03, 0.02, 0.015)
    windowed = spacing_by_place.blocking_probability(*system)
    monkeypatch.setattr(spacing_by_place, "_ALL_STATES_UP_TO", 1000)
    assert spacing_by_place.blocking_probability(*system) == pytest.approx(windowed, rel=1e-13)


def by_place(random, now, last_return, deferred, parameters):
    if deferred == 0:
        return now + parameters[0]
    return last_return + parameters[deferred]


@pytest.mark.parametrize("spacings", [(0.9, 0.3, 0.1), (0.1, 0.2, 0.7)])
def test_against_simulation(spacings):
    run = simulate.deferrals(
        2, 3, 3.0, 1.0, simulate.ReturnRule(by_place, spacings), customers=2_000_000, seed=5
    )
    found = spacing_by_place.blocking_probability(2, 3.0, 1.0, spacings)
    off = found - run.blocking_probability.value
    assert abs(off) < 4 * run.blocking_probability.standard_error < 0.01 * found


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=5))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_the_longest_deferral_is_that_of_the_worst_line(spacings):
    """Lines made by their rule: the first returns, or one joins, until nothing new comes."""
    lines, worst = {(0,)}, 0.0
    new = list(lines)
    while new:
        line = new.pop()
        following = [line[1:] or (0,)]
        if len(line) < len(spacings):
            following.append((*line, len(line)))
        worst = max(worst, math.fsum(spacings[place] for place in line))
        fresh = [one for one in following if one not in lines]
        lines.update(fresh)
        new += fresh
    found = spacing_by_place.longest_deferral_time(spacings)
    assert found == pytest.approx(worst, rel=1e-14)


def precise_blocking(lam, spacings):
    """P_B of one server at the working precision of mpmath, service rate one; see above."""
    places = len(spacings)
    size = 2 * places
    generator = mpmath.zeros(2 * size)
    for d in range(places):
        idle, busy = 2 * d, 2 * d + 1
        generator[idle, busy] += lam
        generator[idle, idle] -= lam
        generator[busy, idle] += 1
        generator[busy, busy] -= 1
        if d < places - 1:
            generator[busy, busy + 2] += lam
            generator[busy, busy] -= lam
    for i in range(size):
        generator[i, size + i] = 1
    flows = [mpmath.expm(generator * x, method="taylor") for x in spacings]
    states, found, links = [((0,), 1)], {((0,), 1): 0}, []
    for line, k in states:  # the server is busy after every return
        for end in range(size):
            rest = (*line[1:], *range(len(line), end // 2 + 1))
            if end // 2 + 1 < len(line):
                continue
            if rest and (rest, 1) not in found:
                found[rest, 1] = len(states)
                states.append((rest, 1))
            if rest:
                start = 2 * (len(line) - 1) + k
                links.append((found[rest, 1], found[line, k], flows[line[0]][start, end]))
    matrix = mpmath.eye(len(states))
    for to, start, probability in links:
        matrix[to, start] -= probability
    begin = mpmath.zeros(len(states), 1)
    begin[0] = 1
    visits = mpmath.lu_solve(matrix, begin)
    time = (1 + 1 / mpmath.mpf(lam)) / lam  # from busy until the next is blocked
    lost = mpmath.mpf(0)
    for (line, _), count in zip(states, visits, strict=True):
        row = flows[line[0]][2 * len(line) - 1, :]
        time += count * spacings[line[0]]
        lost += count * (lam * row[2 * size - 1] + mpmath.fsum(row[i] for i in range(1, size, 2)))
    return lost / lam / time


@pytest.mark.parametrize("lam", [0.3, 1.0, 4.0])
def test_the_optimum_is_stationary_at_forty_digits(lam):
    best = spacing_by_place.optimal_spacings(1, 3, lam, 1.0)
    with mpmath.workdps(40):
        spacings = [mpmath.mpf(x) for x in best.spacings]
        exact = precise_blocking(lam, spacings)
        assert abs(best.blocking_probability / exact - 1) < 1e-13

        def slope(place, at):
            step = mpmath.mpf(10) ** -12
            up, down = (
                [x * (1 + sign * step * (i == place)) for i, x in enumerate(at)] for sign in (1, -1)
            )
            return (precise_blocking(lam, up) - precise_blocking(lam, down)) / step

        for place in range(3):
            beside = [x * (1 + mpmath.mpf("1e-6") * (i == place)) for i, x in enumerate(spacings)]
            assert abs(slope(place, spacings)) < abs(slope(place, beside))


@pytest.mark.parametrize(("servers", "places", "lam"), [(5, 2, 1.5), (2, 3, 2.0), (10, 2, 10.0)])
def test_nothing_near_the_optimum_is_better_and_equal_spacing_is_worse(servers, places, lam):
    best = spacing_by_place.optimal_spacings(servers, places, lam, 1.0)
    equal = dsrt.optimal_spacing(servers, places, lam, 1.0, 1e3)
    assert best.blocking_probability < equal.blocking_probability * (1 - 1e-6)
    for factors in itertools.product((0.9, 1.0, 1.1), repeat=places):
        moved = [x * factor for x, factor in zip(best.spacings, factors, strict=True)]
        lost = spacing_by_place.blocking_probability(servers, lam, 1.0, moved)
        assert lost >= best.blocking_probability * (1 - 1e-13)


def test_one_server_and_two_places_want_equal_spacings():
    for lam in (0.1, 1.0, 10.0):
        first, second = spacing_by_place.optimal_spacings(1, 2, lam, 1.0).spacings
        assert first == pytest.approx(second, rel=1e-7)


@pytest.mark.parametrize("limit", [0.05, 0.2, 0.3, 0.4, 0.6])
def test_nothing_within_a_limit_is_better(limit):
    best = spacing_by_place.optimal_spacings(5, 2, 5.0, 1.0, limit)
    assert spacing_by_place.longest_deferral_time(best.spacings) <= limit * (1 + 1e-12)
    equal = dsrt.optimal_spacing(5, 2, 5.0, 1.0, limit)
    assert best.blocking_probability <= equal.blocking_probability * (1 + 1e-9)
    grid = limit * np.linspace(0.05, 1.0, 20)
    lost = [single_deferral.blocking_probability(5, 5.0, 1.0, x) for x in grid]
    for pair in itertools.product(grid, repeat=2):
        if spacing_by_place.longest_deferral_time(pair) <= limit:
            lost.append(spacing_by_place.blocking_probability(5, 5.0, 1.0, pair))
    assert best.blocking_probability <= min(lost) * (1 + 1e-8)
    assert best.blocking_probability >= min(lost) * (1 - 2e-3)


def test_one_place_is_one_deferral():
    best = spacing_by_place.optimal_spacings(7, 1, 6.0, 1.0, 0.1)
    alone = single_deferral.optimal_deferral_time(7, 6.0, 1.0, 0.1)
    assert best.spacings == (alone.deferral_time,) == (0.1,)


def test_scale_of_time_does_not_matter():
    here = spacing_by_place.blocking_probability(3, 3.0, 1.0, (0.3, 0.2, 0.1))
    for scale in (1e-50, 1e50):
        spacings = tuple(x / scale for x in (0.3, 0.2, 0.1))
        there = spacing_by_place.blocking_probability(3, 3.0 * scale, scale, spacings)
        assert there == pytest.approx(here, rel=1e-13)


@pytest.mark.parametrize(
    ("servers", "lam", "spacings"),
    [
        (2, 2.0, [1.0 + 0.1 * i for i in range(8)]),  # too many lines
        (2, 2.0, (1e9, 1.0)),  # too many events
        (2, 2.0, ()),
        (2, 2.0, 1.0),
        (60, 600.0, (1.0, 2.0, 3.0, 1.5, 2.5, 3.5)),  # an endless phase with too many states
    ],
)
def test_what_is_refused_names_the_spacings(servers, lam, spacings):
    with pytest.raises(ValueError, match="spacings"):
        spacing_by_place.blocking_probability(servers, lam, 1.0, spacings)
