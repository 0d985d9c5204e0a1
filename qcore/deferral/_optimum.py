"""The number of deferrals that a longest deferral time leaves room for, and the best choice of it.

With returns a time x apart (in the mean) and deferrals of at most T, no more than
D = min(largest number, floor(T/x)) customers are deferred at a time. The blocking probability
jumps where T/x is an integer, and is smooth on each piece D <= T/x < D + 1.
"""

import math
import sys

from scipy.optimize import brentq

_ROUNDING = 4 * sys.float_info.epsilon


def deferrals_in_use(max_deferrals, slots):
    """Return min(max_deferrals, floor(slots)); slots within rounding of an integer count as it."""
    return int(min(max_deferrals, math.floor(slots * (1.0 + _ROUNDING))))


def best_slots(max_deferrals, evaluate):
    """Return (slots, D, blocking probability) at the smallest blocking probability.

    ``evaluate(D, slots)`` gives the blocking probability and a positive multiple of its
    derivative in log(slots). Assumed, and checked in the tests against every piece: on a piece
    the derivative changes its sign at most once, more deferrals are never worse at the same
    slots, and the smallest values of the pieces fall and then rise with D.
    """
    low, high = 1, max_deferrals
    while low < high:
        middle = (low + high) // 2
        here = _best_on_piece(middle, middle + 1, evaluate)
        if here is not None:
            last = None if middle + 1 == max_deferrals else middle + 2
            following = _best_on_piece(middle + 1, last, evaluate)
        if here is None or following is None or following[1] < here[1]:
            low = middle + 1
        else:
            high = middle
    slots, blocking = _best_on_piece(low, None if low == max_deferrals else low + 1, evaluate)
    return slots, low, blocking


def _best_on_piece(deferrals, end, evaluate):
    """Return (slots, blocking probability) for deferrals <= slots < end; None if it falls to it."""
    blocking, slope = evaluate(deferrals, float(deferrals))
    if slope >= 0.0:
        return float(deferrals), blocking
    start, upper = float(deferrals), end
    if end is None:
        upper = 2.0 * start
        while evaluate(deferrals, upper)[1] < 0.0:
            start, upper = upper, 2.0 * upper
    elif evaluate(deferrals, float(end))[1] < 0.0:
        return None
    root = brentq(
        lambda log_slots: evaluate(deferrals, math.exp(log_slots))[1],
        math.log(start),
        math.log(upper),
        xtol=1e-14,
        rtol=1e-14,
    )
    slots = math.exp(root)
    return slots, evaluate(deferrals, slots)[0]
