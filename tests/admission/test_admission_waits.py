"""Waits under admission control against sums at 60 digits, exact rationals and Erlang C."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from test_admission import PROFILES, admission_rule

from qcore import UnstableSystem, admission, erlang
from qcore.admission import (
    Abandonment,
    FiniteBuffer,
    ModifiedDrift,
    NoWaiting,
    OpenAdmission,
    PowerDecay,
    from_probabilities,
)

ACCURACY = 1e-13


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(60):
        yield


def inverse_erlang_b(servers, load):
    """1/B = a ∫ e^(−au)(1 + u)^s du, as a confluent function."""
    s, a = mp.mpf(servers), mp.mpf(load)
    return mp.exp(a) * a ** (-s) * mp.gammainc(s + 1, a)


def by_definition(servers, intensity, p, times, smallest=1e-295):
    """Return D, D^R, the mean wait, and P(W > t) of those admitted, for each t.

    Who is admitted behind k others waits longer than t if at most k services end by then.
    """
    s, rho = mp.mpf(servers), mp.mpf(intensity)
    weights, chances = [mp.mpf(1)], []
    late, last = [mp.mpf(0) for _ in times], [mp.exp(-s * t) for t in times]
    within = list(last)
    waited = mp.mpf(0)
    k = 0
    while True:
        chance = p(k)
        chances.append(chance)
        entering = weights[-1] * chance
        waited += entering * (k + 1) / s
        for i, t in enumerate(times):
            late[i] += entering * within[i]
            last[i] *= s * t / (k + 1)
            within[i] += last[i]
        following = entering * rho
        small = mp.mpf(10) ** -25 * (1 - rho * chance) * min([*late, waited])
        if following == 0 or (rho * chance < 1 and following < small):
            break
        if following < smallest * max(weights) and rho * chance < 0.999:
            break
        weights.append(following)
        k += 1
    below = inverse_erlang_b(servers, s * rho) - 1
    total = below + mp.fsum(weights)
    rejected = mp.fsum(w * (1 - c) for w, c in zip(weights, chances, strict=False)) / total
    admitted = 1 - rejected
    return (
        mp.fsum(weights) / total,
        rejected,
        waited / total / admitted,
        [one / total / admitted for one in late],
    )


def error_of(value, reference):
    return float(abs(value - reference) / reference) if reference else abs(value)


CASES = [
    *((profile, "global") for profile in PROFILES),
    *((profile, "local") for profile in (OpenAdmission(), ModifiedDrift(0.5), Abandonment(0.5))),
    (Abandonment(20.0), "local"),
]


@pytest.mark.parametrize(("profile", "control"), CASES, ids=repr)
@pytest.mark.parametrize(
    ("servers", "intensity"), [(1, 0.5), (2.5, 0.75), (100, 0.875), (100, 1.25), (900, 1.0)]
)
def test_measures_are_those_of_the_definition(servers, intensity, profile, control):
    if not admission.is_stable(servers, intensity, profile, control):
        with pytest.raises(UnstableSystem):
            admission.queue(servers, intensity, profile, control)
        return
    if isinstance(profile, PowerDecay) and intensity >= 1:
        return  # hundreds of thousands of terms at 60 digits
    rule = admission_rule(servers, profile, control)
    times = [0.0, *(step / math.sqrt(servers) for step in (0.01, 1.0, 6.0, 16.0))]
    delay, rejected, wait, tails = by_definition(servers, intensity, rule, times)
    queue = admission.queue(servers, intensity, profile, control)
    assert error_of(queue.delay_probability, delay) < 1e-14
    assert error_of(queue.rejection_probability, rejected) < 1e-14
    assert error_of(queue.mean_wait, wait) < ACCURACY
    assert error_of(queue.admission_probability, 1 - rejected) < 1e-14
    assert error_of(queue.occupancy, intensity * (1 - rejected)) < 1e-14
    for time, tail in zip(times, tails, strict=True):
        if tail > 1e-290:
            allowed = ACCURACY if tail > 1e-150 else 3e-13
            assert error_of(queue.wait_tail(time), tail) < allowed, time
        level = (1 - tail) * (1 - rejected)
        assert abs(queue.service_level(time) - level) < 1e-14
        assert error_of(queue.missed(time), 1 - level) < ACCURACY


def test_without_control_the_wait_is_that_of_erlang_c():
    times = np.array([0.0, 0.1, 1.0, 20.0, 150.0])
    controlled = admission.queue(64, 0.953125, OpenAdmission())
    patient = erlang.queue(64, 61.0)
    assert controlled.wait_tail(times) == pytest.approx(patient.wait_tail(times), rel=ACCURACY)
    assert controlled.wait_quantile(0.9) == pytest.approx(patient.wait_quantile(0.9), rel=1e-13)
    assert controlled.mean_wait == pytest.approx(patient.mean_wait, rel=1e-13)


def test_rejection_and_abandonment_with_the_same_queue_have_other_waits():
    rejecting = admission.queue(100, 0.96875, Abandonment(0.5))
    impatient = erlang.queue(100, 96.875, 0.5)
    same = pytest.approx(impatient.distribution.probability, rel=1e-12)
    assert rejecting.distribution.probability == same
    assert rejecting.mean_queue == pytest.approx(impatient.mean_queue, rel=1e-13)
    lost = impatient.abandonment_probability
    assert rejecting.rejection_probability == pytest.approx(lost, rel=1e-13)
    # Little's law: the same queue shared by fewer, as who is rejected does not wait.
    assert rejecting.mean_wait == pytest.approx(impatient.mean_wait / (1 - lost), rel=1e-13)
    assert rejecting.wait_tail(0.2) > 1.1 * impatient.wait_tail(0.2)


def test_a_small_rule_in_exact_rationals():
    """One server, load 1/2, p = (1/2, 1/4): π ∝ (1, 1/2, 1/8, 1/64)."""
    queue = admission.queue(1, 0.5, from_probabilities([0.5, 0.25]))
    total = Fraction(64 + 32 + 8 + 1, 64)
    busy = Fraction(32 + 8 + 1, 64) / total
    rejected = (Fraction(1, 2) / 2 + Fraction(1, 8) * 3 / 4 + Fraction(1, 64)) / total
    waiting = (Fraction(1, 8) + 2 * Fraction(1, 64)) / total
    assert queue.delay_probability == pytest.approx(float(busy), rel=1e-15)
    assert queue.rejection_probability == pytest.approx(float(rejected), rel=1e-14)
    assert queue.mean_wait == pytest.approx(float(waiting * 2 / (1 - rejected)), rel=1e-14)
    assert queue.occupancy == pytest.approx(float((1 - rejected) / 2), rel=1e-14)
    states = [float(Fraction(n, 64) / total) for n in (64, 32, 8, 1)]
    assert queue.distribution.probability == pytest.approx(states, rel=1e-14)
    # Behind nobody with 1/4 of all arrivals over the total, behind one with 1/32.
    tail = (0.25 * math.exp(-2) + 1 / 32 * math.exp(-2) * 3) / float(total * (1 - rejected))
    assert queue.wait_tail(2.0) == pytest.approx(tail, rel=1e-14)


@pytest.mark.parametrize("intensity", [0.75, 1.0, 1.25])
@pytest.mark.parametrize(
    "rule",
    [
        [1.0] * 7,
        [1.0, 0.0, 1.0],
        [],
        lambda k: 0.7 if k < 5 else 0.3,
        lambda k: 1.0 if k % 2 else 0.5,
        lambda k: 1 / (1 + k),
    ],
    ids=["places", "a break", "nobody waits", "a step", "alternating", "slow"],
)
def test_rules_as_people_have_them(rule, intensity):
    def p(k):
        if callable(rule):
            return mp.mpf(rule(k))
        return mp.mpf(rule[k]) if k < len(rule) else mp.mpf(0)

    times = [0.0, 0.3, 4.0]
    delay, rejected, wait, tails = by_definition(10, intensity, p, times)
    queue = admission.queue(10, intensity, from_probabilities(rule))
    assert error_of(queue.delay_probability, delay) < 1e-13
    assert error_of(queue.rejection_probability, rejected) < 1e-13
    assert error_of(queue.mean_wait, wait) < 1e-13
    for found, tail in zip(queue.wait_tail(times), tails, strict=True):
        assert error_of(found, tail) < 2e-13
    assert queue.distribution.delay_probability == pytest.approx(float(delay), rel=1e-12)


def test_a_profile_and_its_probabilities_are_the_same_rule():
    profile = ModifiedDrift(0.5)
    scaled = admission.queue(100, 1.0625, profile)
    given = admission.queue(100, 1.0625, from_probabilities(lambda k: 0.5**0.1))
    times = [0.0, 0.1, 1.0]
    assert given.wait_tail(times) == pytest.approx(scaled.wait_tail(times), rel=1e-11)
    assert given.rejection_probability == pytest.approx(scaled.rejection_probability, rel=1e-11)


def test_an_ever_open_rule_in_overload_is_refused():
    with pytest.raises(UnstableSystem, match="stays near 1 or above"):
        _ = admission.queue(2, 1.5, from_probabilities(lambda k: 0.9)).delay_probability


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, 1.5], "p = 1.5: must be finite and >= 0 and <= 1"),
        ([[0.5]], "must be a function, or a table"),
        (0.5, "must be a function, or a table"),
        ("all", "p = 'all': must be a real number"),
    ],
)
def test_tables_that_are_none_are_refused(p, message):
    with pytest.raises(ValueError, match=message):
        from_probabilities(p)


def test_functions_that_give_no_probability_are_refused():
    queue = admission.queue(2, 0.5, from_probabilities(lambda k: 1.0 + k))
    with pytest.raises(ValueError, match=r"p\(1\) = 2\.0: must be a probability"):
        queue.wait_tail(1.0)
    with pytest.raises(ValueError, match=r"p\(0\): must be a number"):
        from_probabilities(lambda k: None).p(0)
    with pytest.raises(ValueError, match="control = 'local': must be left out"):
        admission.queue(2, 0.5, from_probabilities([1.0]), "local")


@pytest.mark.parametrize(
    "profile", [one for one in PROFILES if not isinstance(one, PowerDecay)], ids=repr
)
@pytest.mark.parametrize("load", [3.0, 100.0])
@pytest.mark.parametrize("target", [0.3, 0.01])
def test_staffing_meets_its_target_with_no_server_to_spare(profile, load, target):
    if not isinstance(profile, OpenAdmission):
        servers = admission.servers_for_rejection(load, target, profile)
        lost = [
            admission.rejection_probability(n, load / n, profile)
            for n in (servers, servers - 1)
            if n and admission.is_stable(n, load / n, profile)
        ]
        assert lost[0] <= target
        assert all(one > target for one in lost[1:])
    servers = admission.servers_for_service_level(load, 1 - target, 0.1, profile)
    levels = [
        admission.queue(n, load / n, profile).service_level(0.1)
        for n in (servers, servers - 1)
        if n and admission.is_stable(n, load / n, profile)
    ]
    assert levels[0] >= 1 - target
    assert all(one < 1 - target for one in levels[1:])
    real = admission.servers_for_service_level(load, 1 - target, 0.1, profile, real_valued=True)
    assert servers - 1 < real <= servers
    if not isinstance(profile, FiniteBuffer):
        level = admission.queue(real, load / real, profile).service_level(0.1)
        assert level == pytest.approx(1 - target, rel=1e-12)


@pytest.mark.parametrize("profile", PROFILES, ids=repr)
def test_more_servers_for_the_same_load_reject_fewer(profile):
    servers = np.geomspace(110 if isinstance(profile, PowerDecay) else 50, 300, 60)
    stable = [admission.is_stable(s, 100 / s, profile) for s in servers]
    lost = admission.rejection_probability(servers[stable], 100 / servers[stable], profile)
    assert (np.diff(lost) <= 0).all()


def test_where_long_queues_are_admitted_more_servers_may_reject_more():
    """Near full load the queue is so long that this profile rejects hardly anybody any more."""
    profile = PowerDecay(0.5)
    few, more = (admission.rejection_probability(s, 100 / s, profile) for s in (100.0001, 101.0))
    assert few < more / 10


def test_errors_can_be_numbers_that_are_none():
    found = admission.servers_for_rejection([100.0, -1.0], 0.01, NoWaiting(), errors="nan")
    assert found[0] == 117
    assert math.isnan(found[1])
    with pytest.raises(ValueError, match=r"offered_load = -1\.0"):
        admission.servers_for_rejection([100.0, -1.0], 0.01, NoWaiting())


def waits_by_events(servers, load, p, customers, generator):
    """Return the waits of those admitted to a plain simulation, one event at a time."""
    waits, line = [], []
    busy, clock, arrivals = 0, 0.0, 0
    while arrivals < customers:
        rate = load + busy
        clock += generator.exponential(1 / rate)
        if generator.random() * rate < load:
            arrivals += 1
            if busy < servers:
                busy += 1
                waits.append(0.0)
            elif generator.random() < p(len(line)):
                line.append(clock)
        elif line:
            waits.append(clock - line.pop(0))
        else:
            busy -= 1
    return np.array(waits)


def test_a_plain_simulation_finds_the_same_waits():
    def p(k):
        return 0.9 if k < 3 else 0.4

    queue = admission.queue(5, 0.96, from_probabilities(p))
    generator = np.random.default_rng(5)
    runs = [waits_by_events(5, 4.8, p, 20_000, generator) for _ in range(20)]
    for found, exact in (
        ([run.mean() for run in runs], queue.mean_wait),
        ([(run > 0.4).mean() for run in runs], queue.wait_tail(0.4)),
        ([np.quantile(run, 0.9) for run in runs], queue.wait_quantile(0.9)),
    ):
        error = np.std(found, ddof=1) / math.sqrt(len(runs))
        assert abs(np.mean(found) - exact) < 4 * error < 0.05 * exact
