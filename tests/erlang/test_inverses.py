"""Staffing by waits: the inverses against the measures that they invert, and public tables."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from qcore import erlang

LOADS = [0.3, 5.0, 100.0, 1e4]
RATES = [0.0, 0.05, 2.0]
TARGETS = [1e-6, 0.05, 0.4]


def check(find, measure, load, target, rate):
    """The integer meets the target to rounding, one fewer does not; the real one is the root."""
    servers = find(real_valued=False)
    assert measure(servers) <= target * (1 + 1e-15)
    if servers > 1 and servers - 1 > load * (rate == 0):
        assert measure(servers - 1) > target
    real = find(real_valued=True)
    assert servers == 1 or servers - 1 < real <= servers * (1 + 1e-15)
    if real > load * (1 + 1e-6) * (rate == 0):
        assert measure(real) == pytest.approx(target, rel=1e-10)


@pytest.mark.parametrize(("load", "rate", "target"), itertools.product(LOADS, RATES, TARGETS))
def test_staffing_meets_its_target_with_no_server_to_spare(load, rate, target):
    def level(real_valued):
        return erlang.servers_for_service_level(load, 1 - target, 0.05, rate, real_valued)

    exact = 1 - (1 - target)
    check(level, lambda s: erlang.queue(s, load, rate).missed(0.05), load, exact, rate)

    def mean(real_valued):
        return erlang.servers_for_mean_wait(load, target, rate, real_valued)

    check(mean, lambda s: erlang.queue(s, load, rate).mean_wait, load, target, rate)

    if rate:

        def lost(real_valued):
            return erlang.servers_for_abandonment(load, target, rate, real_valued)

        check(
            lost,
            lambda s: erlang.erlang_a(s, load, rate).abandonment_probability,
            load,
            target,
            rate,
        )


def test_a_service_level_at_once_is_a_delay_probability():
    found = erlang.servers_for_service_level([10.0, 1e6], 0.8, 0.0)
    assert found.tolist() == [erlang.servers_for_delay(load, 1 - 0.8) for load in (10.0, 1e6)]


def test_nobody_is_needed_where_nobody_waits_so_long():
    assert erlang.servers_for_mean_wait(10.0, 0.5, 2.0) == 0
    assert erlang.servers_for_mean_wait(10.0, 0.5, 2.0, real_valued=True) == 0.0
    assert erlang.servers_for_mean_wait(10.0, 0.499, 2.0) == 1


@pytest.mark.parametrize("servers", [1, 2.5, 100, 10**4, 10**6])
@pytest.mark.parametrize("target", [1e-100, 1e-9, 0.01, 0.5, 0.999])
def test_the_load_for_a_blocking_probability(servers, target):
    load = erlang.load_for_blocking(servers, target)
    assert erlang.servers_for_blocking(load, target, real_valued=True) == pytest.approx(
        servers, rel=1e-13
    )
    # One step of Newton's method on ln B, of derivative s/a − 1 + B, at 50 digits.
    with mp.workdps(50):
        s, a = mp.mpf(servers), mp.mpf(load)
        if servers <= 100:
            inverse = mp.exp(a) * a ** (-s) * mp.gammainc(s + 1, a)
            step = (mp.log(1 / inverse) - mp.log(mp.mpf(target))) / (s / a - 1 + 1 / inverse)
            assert abs(step / a) < 2e-14


def test_the_load_in_closed_form_for_one_and_two_servers():
    chances = np.array([1e-9, 0.01, 0.3, 0.9])
    assert erlang.load_for_blocking(1, chances) == pytest.approx(chances / (1 - chances), rel=1e-14)
    root = (chances + np.sqrt(2 * chances - chances**2)) / (1 - chances)
    assert erlang.load_for_blocking(2, chances) == pytest.approx(root, rel=1e-13)


def test_the_classical_table_of_loads():
    """Blocking 1 %, to the digits of the tables: trunks and erlangs."""
    table = {1: 0.0101, 2: 0.153, 5: 1.36, 10: 4.46, 20: 12.0, 50: 37.9, 100: 84.1}
    for trunks, load in table.items():
        digits = 3 - 1 - math.floor(math.log10(load))
        assert round(erlang.load_for_blocking(trunks, 0.01), digits) == load


@pytest.mark.parametrize(
    "call",
    [
        lambda loads, **options: erlang.servers_for_service_level(loads, 0.8, 0.1, **options),
        lambda loads, **options: erlang.servers_for_mean_wait(loads, 0.1, **options),
        lambda loads, **options: erlang.servers_for_abandonment(loads, 0.1, 1.0, **options),
    ],
)
def test_an_element_outside_its_domain_names_itself_or_is_no_number(call):
    loads = [3.0, -1.0, 5.0]
    with pytest.raises(ValueError, match=r"offered_load = -1\.0"):
        call(loads)
    found = call(loads, errors="nan")
    assert np.isnan(found).tolist() == [False, True, False]
    assert found[0] == call(3.0)
    with pytest.raises(ValueError, match="errors = 'ignore': must be one of 'raise', 'nan'"):
        call(loads, errors="ignore")


def test_a_load_out_of_range_names_itself():
    with pytest.raises(ValueError, match=r"target = 1e-09 with servers = 0\.001"):
        erlang.load_for_blocking(1e-3, 1e-9)
    assert math.isnan(erlang.load_for_blocking(1e-3, 1e-9, errors="nan"))
    with pytest.raises(ValueError, match=r"abandonment_rate = 1e-12: must be 0 or >= 1e-09"):
        erlang.servers_for_mean_wait(1.0, 0.1, 1e-12)
