"""Staffing under admission control: the fewest servers that reject, or keep waiting, few enough."""

import math

import numpy as np
from numpy.typing import ArrayLike

from qcore._numerics import checks
from qcore._numerics.crossings import (
    SHARED,
    extended_log,
    integer_crossing,
    on_each,
    real_crossing,
)
from qcore._numerics.docstrings import sharing
from qcore.admission._measures import checked_profile, rejection_probability
from qcore.admission._profiles import ScalingProfile
from qcore.admission._waiting import queue
from qcore.errors import UnstableSystem

_SHARED = SHARED | {
    "control": """
profile : ScalingProfile
    The profile of the control, which scales with the servers.
control : {"global", "local"}, optional
    How the profile is applied; the profile's own way if not given.
""",
}
_DOMAINS = {
    "offered_load": {"at_least": 1e-3, "at_most": 1e10},
    "target": {"at_least": 1e-290, "below": 1},
    "acceptable_wait": {"at_least": 0, "at_most": 1e9},
}


@sharing(**_SHARED)
def servers_for_rejection(
    offered_load: ArrayLike,
    target: ArrayLike,
    profile: ScalingProfile,
    control: str | None = None,
    real_valued: bool = False,
    errors: str = "raise",
) -> int | float | np.ndarray:
    r"""Compute the smallest number of servers with which few enough customers are rejected.

    .. math:: \min \{ s : D_s^R(a/s) \le \varepsilon \}

    over the integers, or over the reals.

    Parameters
    ----------
    offered_load : array_like
        Offered load sρ, held fixed as the servers vary: from 1e-3 to 10¹⁰.
    target : array_like
        Probability ε of rejection allowed, 1e-290 ≤ ε < 1.
    %(control)s
    %(answer)s

    Returns
    -------
    %(returns)s

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    The logarithm of `rejection_probability` is solved for by Brent's method. The number returned
    meets the target, and one server fewer does not. It is the smallest where the probability falls
    as servers are added to a fixed load, as it did for every profile tried but `PowerDecay`: so
    near full load that the queue is long, that one rejects hardly anybody, and fewer servers may
    meet the target again. Where a profile has a jump, the real-valued probability has jumps too,
    and the first number beyond one is returned.

    Examples
    --------
    >>> from qcore.admission import FiniteBuffer, NoWaiting, servers_for_rejection
    >>> servers_for_rejection(100.0, 0.01, NoWaiting())
    117
    >>> servers_for_rejection(100.0, 0.01, FiniteBuffer(1.0))
    110
    """
    how = checked_profile(profile).resolve_control(control)

    def log_missed(servers, load):
        return extended_log(rejection_probability(servers, load / servers, profile, how))

    arguments = {"offered_load": offered_load, "target": target}
    return _servers(arguments, log_missed, math.log, real_valued, errors)


@sharing(**_SHARED)
def servers_for_service_level(
    offered_load: ArrayLike,
    target: ArrayLike,
    acceptable_wait: ArrayLike,
    profile: ScalingProfile,
    control: str | None = None,
    real_valued: bool = False,
    errors: str = "raise",
) -> int | float | np.ndarray:
    r"""Compute the smallest number of servers that admit and serve enough customers in time.

    .. math:: \min \{ s : P(\text{admitted}, W \le t) \ge \varepsilon \}

    over the integers, or over the reals.

    Parameters
    ----------
    offered_load : array_like
        Offered load sρ, held fixed as the servers vary: from 1e-3 to 10⁸.
    target : array_like
        Share ε of all customers, from 1e-9 up to below 1.
    acceptable_wait : array_like
        Time t ≥ 0 in mean service times, at most 1e9, that a customer may wait.
    %(control)s
    %(answer)s

    Returns
    -------
    %(returns)s

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    As `servers_for_rejection`, for the probability of being rejected or of waiting longer; some
    ten milliseconds with a hundred servers, and more where a low target is met so near to
    instability that the queue is very long.

    Examples
    --------
    >>> from qcore.admission import ModifiedDrift, OpenAdmission, servers_for_service_level
    >>> servers_for_service_level(48.0, 0.8, 20 / 60, OpenAdmission())
    52
    >>> servers_for_service_level(48.0, 0.8, 20 / 60, ModifiedDrift(0.5))
    48
    """
    how = checked_profile(profile).resolve_control(control)

    def log_missed(servers, load, wait):
        return extended_log(queue(servers, load / servers, profile, how).missed(wait))

    arguments = {
        "offered_load": offered_load,
        "target": target,
        "acceptable_wait": acceptable_wait,
    }
    return _servers(arguments, log_missed, lambda level: math.log1p(-level), real_valued, errors)


def _servers(arguments, log_missed, log_allowed, real_valued, errors):
    """Solve for the servers with which log_missed(servers, load, …) is not above the allowed."""
    find = real_crossing if checks.flag("real_valued", real_valued) else integer_crossing

    def one(load, target, *others):
        allowed = log_allowed(target)

        def excess(servers):
            try:
                return log_missed(float(servers), load, *others) - allowed
            except UnstableSystem:
                return math.inf

        root = math.sqrt(load)
        return find(excess, 0.0, load + root, 0.1 * root)

    domains = {name: _DOMAINS[name] for name in arguments}
    if "acceptable_wait" in arguments:
        domains |= {
            "offered_load": {"at_least": 1e-3, "at_most": 1e8},
            "target": {"at_least": 1e-9, "below": 1},
        }
    return on_each(one, arguments, domains, errors, float if real_valued else int)
