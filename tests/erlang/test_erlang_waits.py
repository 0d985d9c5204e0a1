"""Waits in the Erlang C and A systems against their mixtures, exact rationals and print."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx

from qcore import UnstableSystem, erlang

ACCURACY = 1e-13
KINDS = ("all", "served", "abandoning", "virtual")


@pytest.fixture(autouse=True)
def _digits():
    before = ctx.prec
    with mp.workdps(60):
        yield
    ctx.prec = before


def inverse_erlang_b(servers, load):
    """1/B = eᵃ a⁻ˢ Γ(s + 1, a) by ball arithmetic."""
    ctx.prec = 2000
    s, a = arb(servers), arb(load)
    value = a.exp() * a ** (-s) * a.gamma_upper(s + 1)
    assert value.rel_accuracy_bits() > 200
    return mp.mpf(value.mid().str(70, radius=False))


def mixtures(servers, load, rate, time):
    """Return P(W > t) jointly with each kind of customer, and the probabilities of the kinds.

    A customer who finds n others waiting is served with probability s/(s + (n + 1)ϑ) and then
    waits for n + 1 stages of the rates s + ϑ, …, s + (n + 1)ϑ; if she were patient, of the rates
    s, …, s + nϑ. The chance that such stages last longer than t is summed up as a chance that a
    pure birth process has made at most n steps by then.
    """
    s, a, theta, t = map(mp.mpf, (servers, load, rate, time))
    left = mp.exp(-theta * t)
    sums = dict.fromkeys(KINDS, mp.mpf(0))
    parts = {"virtual": s / theta, "served": s / theta + 1}
    steps = {kind: left**b for kind, b in parts.items()}
    within = dict.fromkeys(parts, mp.mpf(0))
    weight, total, served = mp.mpf(1), mp.mpf(0), mp.mpf(0)
    n = 0
    while True:
        for kind, b in parts.items():
            within[kind] += steps[kind]
            steps[kind] *= (b + n) / (n + 1) * (1 - left)
        chance = s / (s + (n + 1) * theta)
        terms = {
            "virtual": weight * within["virtual"],
            "all": weight * within["virtual"] * left,
            "served": weight * chance * within["served"],
        }
        terms["abandoning"] = terms["all"] - terms["served"]
        for kind, term in terms.items():
            sums[kind] += term
        total += weight
        served += weight * chance
        ratio = a / (s + (n + 1) * theta)
        if ratio < 0.99 and weight < mp.mpf(10) ** -40 * sums["abandoning"]:
            break
        weight *= ratio
        n += 1
    below = inverse_erlang_b(servers, load) - 1
    whole = below + total
    kinds = {"virtual": 1, "all": 1, "served": (below + served) / whole}
    kinds["abandoning"] = 1 - kinds["served"]
    return {kind: sums[kind] / whole / kinds[kind] for kind in KINDS}, kinds


def error_of(value, reference):
    return float(abs(value - reference) / reference)


# Both sides of 20 stages, of critical load, and of a deviance of 700 (100 servers, load 200).
SYSTEMS = [
    *itertools.product((0.3, 1, 19.5, 100), (0.5, 0.97, 1.0, 1.3, 2.0), (0.05, 0.5, 10.0)),
    (100, 2.0, 0.0437),
    (100, 2.0, 0.0441),
    (20, 1.1, 1.0001),
    (20, 1.1, 0.9999),
    (1, 900.0, 1.0),
    (1000, 0.97, 0.5),
    (1000.5, 1.02, 2.0),
]


@pytest.mark.parametrize(("servers", "per_server", "rate"), SYSTEMS)
def test_tails_are_those_of_the_mixtures_in_all_digits(servers, per_server, rate):
    load = servers * per_server
    queue = erlang.queue(servers, load, rate)
    turn = max(0.0, math.log(per_server)) / rate
    spread = math.sqrt(1 / rate / max(servers, 1)) if per_server > 0.9 else 1 / servers
    for time in (0.0, 0.5 * turn, turn + 0.3 * spread, turn + 2 * spread, turn + 12 * spread):
        tails, kinds = mixtures(servers, load, rate, time)
        assert error_of(queue.served_probability, kinds["served"]) < 1e-14
        for kind in KINDS:
            if tails[kind] > 1e-290:
                found = queue.wait_tail(time, of=kind)
                assert error_of(found, tails[kind]) < ACCURACY, (kind, time, found)
        level = (1 - tails["served"]) * kinds["served"]
        assert abs(queue.service_level(time) - level) < 1e-14
        assert abs(queue.service_level(time, of="served") - (1 - tails["served"])) < 1e-13
        missed = kinds["abandoning"] + tails["served"] * kinds["served"]
        assert error_of(queue.missed(time), missed) < ACCURACY


def test_the_tail_that_underflows_elsewhere():
    tails, _ = mixtures(100, 90.0, 0.5, 5.0)
    found = erlang.queue(100, 90.0, 0.5).wait_tail(5.0, of="virtual")
    assert 1.0002e-147 < tails["virtual"] < 1.0003e-147
    assert error_of(found, tails["virtual"]) < 5e-15


@pytest.mark.parametrize(("servers", "load"), [(1, 0.8), (50, 48.0), (50.5, 48.0), (1000, 990.0)])
def test_without_abandonment_the_wait_is_exponential(servers, load):
    queue = erlang.queue(servers, load)
    inverse = inverse_erlang_b(servers, load)
    delay = servers / (load + (servers - mp.mpf(load)) * inverse)
    for time in (0.0, 0.1, 5.0, 60.0):
        reference = delay * mp.exp(-(servers - mp.mpf(load)) * mp.mpf(time))
        for kind in ("all", "served", "virtual"):
            if reference > 1e-290:
                assert error_of(queue.wait_tail(time, of=kind), reference) < ACCURACY
    assert error_of(queue.mean_wait, delay / (servers - mp.mpf(load))) < 1e-14
    assert queue.abandonment_probability == queue.rejection_probability == 0.0
    assert queue.occupancy == pytest.approx(load / servers, rel=1e-15)


def test_a_small_abandonment_rate_leads_to_none():
    times = np.array([0.0, 0.3, 2.0])
    patient = erlang.queue(20, 18.0).wait_tail(times)
    assert erlang.queue(20, 18.0, 1e-13).wait_tail(times) == pytest.approx(patient, rel=1e-10)
    assert erlang.queue(20, 18.0, 1e-90).wait_tail(times) == pytest.approx(patient, rel=1e-13)


def test_exact_rationals_for_one_server_and_few_customers_a_service():
    """Two servers, load 1, patience as long as a service: π_n = e⁻¹/n!, so E W = E(n − 2)⁺."""
    queue = erlang.queue(2, 1.0, 1.0)
    waiting = 3 / math.e - 1  # Σ (n − 2) e⁻¹/n! over n > 2
    assert queue.mean_queue == pytest.approx(waiting, rel=1e-14)
    assert queue.mean_wait == pytest.approx(waiting, rel=1e-14)
    assert queue.delay_probability == pytest.approx(1 - 2 / math.e, rel=1e-14)
    # One server: C = 3/4, mean wait C/(1 − a), all exact.
    assert Fraction(erlang.queue(1, 0.75).mean_wait).limit_denominator(1000) == Fraction(3)


@pytest.mark.parametrize(("servers", "load", "rate"), [(50, 48.0, 0.5), (3, 5.0, 0.2), (9, 8.0, 0)])
@pytest.mark.parametrize("of", KINDS)
def test_quantiles_invert_the_tail(servers, load, rate, of):
    queue = erlang.queue(servers, load, rate)
    if of == "abandoning" and not rate:
        with pytest.raises(ValueError, match="of = 'abandoning': nobody abandons"):
            queue.wait_quantile(0.5, of=of)
        return
    chances = np.array([0.0, 0.3, 0.7, 0.99, 1 - 1e-12])
    times = queue.wait_quantile(chances, of=of)
    at_once = 1 - queue.wait_tail(0.0, of=of) >= chances
    assert (times[at_once] == 0).all()
    assert queue.wait_tail(times[~at_once], of=of) == pytest.approx(1 - chances[~at_once], rel=1e-9)
    assert (np.diff(times) >= 0).all()


def test_the_example_of_fifty_agents_in_print():
    """Garnett, Mandelbaum and Reiman (2002): 48 calls a minute of a minute, patience 2 minutes.

    All their digits are right but one: the 90th percentile that they give as 12.5 s is 12.44 s.
    """
    impatient, patient = erlang.queue(50, 48.0, 0.5), erlang.queue(50, 48.0)
    assert round(100 * impatient.abandonment_probability, 2) == 3.09
    assert round(60 * impatient.mean_wait, 2) == 3.71
    assert 60 * impatient.wait_quantile(0.9) == pytest.approx(12.5, abs=0.06)
    assert round(60 * patient.mean_wait, 2) == 20.83
    assert round(60 * patient.wait_quantile(0.9), 1) == 58.1


@pytest.mark.parametrize(
    ("servers", "load", "rate"), [(50, 48.0, 0.5), (3, 6.0, 0.1), (20, 15.0, 0)]
)
def test_the_law_of_the_number_in_the_system_agrees_with_the_formulas(servers, load, rate):
    queue = erlang.queue(servers, load, rate)
    law = queue.distribution
    assert law.delay_probability == pytest.approx(queue.delay_probability, rel=1e-13)
    assert law.mean_waiting == pytest.approx(queue.mean_queue, rel=1e-13)
    busy = np.minimum(law.number_in_system, servers) @ law.probability
    assert busy / servers == pytest.approx(queue.occupancy, rel=1e-13)
    assert queue == erlang.queue(servers, load, rate)


def test_what_has_no_law_or_no_value_is_refused():
    with pytest.raises(ValueError, match=r"servers = 2\.5: must be an integer"):
        _ = erlang.queue(2.5, 1.0).distribution
    with pytest.raises(UnstableSystem, match=r"offered_load = 3\.0 with servers = 2\.0"):
        erlang.queue(2, 3.0)
    with pytest.raises(ValueError, match="of = 'nobody': must be one of"):
        erlang.queue(2, 1.0).wait_tail(1.0, of="nobody")
