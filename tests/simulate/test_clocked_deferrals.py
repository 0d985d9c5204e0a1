"""What both policies with a clock refuse, and how they count the deferrals in use."""

import math

import pytest

from qcore.deferral import dsrt, esrt

# The policy, its optimum, the name of its parameter, and how the parameter follows from a spacing.
POLICIES = [
    pytest.param(dsrt, dsrt.optimal_spacing, "spacing", lambda x: x, id="dsrt"),
    pytest.param(esrt, esrt.optimal_rearrival_rate, "rearrival_rate", lambda x: 1 / x, id="esrt"),
]
both_policies = pytest.mark.parametrize(("policy", "optimum", "parameter", "at_spacing"), POLICIES)


@both_policies
def test_the_floor_is_taken_right(policy, optimum, parameter, at_spacing):
    for time in (10.0, 0.3, 7.0, 1e-3):
        for deferrals in range(1, 400):
            spacing = time / deferrals
            assert policy.deferrals_in_use(1000, at_spacing(spacing), time) == deferrals
            if deferrals > 1:
                longer = at_spacing(spacing * (1 + 1e-13))
                assert policy.deferrals_in_use(1000, longer, time) == deferrals - 1
    assert policy.deferrals_in_use(7, at_spacing(1e-9), 1.0) == 7


@both_policies
@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, "fast", 1e-80])
def test_bad_numbers_are_named(policy, optimum, parameter, at_spacing, bad):
    for position, name in enumerate(["arrival_rate", "service_rate", parameter]):
        numbers = [1.0, 1.0, 1.0]
        numbers[position] = bad
        for function in (policy.blocking_probability, policy.configuration_distribution):
            with pytest.raises(ValueError, match=f"{name} = "):
                function(2, 2, *numbers)
    with pytest.raises(ValueError, match="max_deferral_time = "):
        optimum(2, 2, 1.0, 1.0, bad)


@both_policies
@pytest.mark.parametrize("bad", [-1, 1.5, 2.0, "two", None, True])
def test_bad_counts_are_named(policy, optimum, parameter, at_spacing, bad):
    for function in (policy.blocking_probability, policy.configuration_distribution, optimum):
        with pytest.raises(ValueError, match="servers = "):
            function(bad, 2, 1.0, 1.0, 1.0)
        with pytest.raises(ValueError, match="max_deferrals = "):
            function(2, bad, 1.0, 1.0, 1.0)


@both_policies
def test_no_servers_and_no_room_are_refused(policy, optimum, parameter, at_spacing):
    with pytest.raises(ValueError, match="servers = 0"):
        policy.blocking_probability(0, 2, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="max_deferrals = 0"):
        optimum(2, 0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="not one customer can be deferred"):
        policy.deferrals_in_use(2, at_spacing(1.5), 1.0)
