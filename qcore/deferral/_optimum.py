"""The number of deferrals that a longest deferral time leaves room for, and the best choice of it.

With returns a time x apart (in the mean) and deferrals of at most T, no more than
D = min(largest number, floor(T/x)) customers are deferred at a time. The blocking probability
as a function of the slots T/x jumps where they are an integer, and is smooth on each piece
D <= T/x < D + 1.
"""

import functools
import math
import sys

from scipy.optimize import brentq

SMALLEST_BLOCKING = 1e-280

_ROUNDING = 4 * sys.float_info.epsilon
_STRIDE = 1.5


def deferrals_in_use(max_deferrals, slots):
    """Return min(max_deferrals, floor(slots)); slots within rounding of an integer count as it."""
    return int(min(max_deferrals, math.floor(slots * (1.0 + _ROUNDING))))


def best_slots(max_deferrals, evaluate, guess):
    """Return (slots, D, blocking probability) at the smallest blocking probability.

    ``evaluate(D, slots)`` gives the blocking probability and a positive multiple of its
    derivative by log(slots). Assumed (observed, not proved): the derivative changes its sign
    once, more deferrals are never worse at the same slots, and the smallest values of the pieces
    fall and then rise with D. So a root of the derivative with as many deferrals as are allowed
    is best of all, and otherwise D is found by bisection.
    """

    @functools.cache
    def piece(deferrals):
        if deferrals == max_deferrals:
            return _best_on_last_piece(deferrals, evaluate, guess)
        return _best_on_piece(deferrals, evaluate)

    high = max_deferrals
    low = high if piece(high)[0] > high else 1
    while low < high:
        middle = (low + high) // 2
        here = piece(middle)
        following = here and piece(middle + 1)
        if here is None or following is None or following[1] < here[1]:
            low = middle + 1
        else:
            high = middle
    slots, blocking = piece(low)
    return slots, low, blocking


def _best_on_piece(deferrals, evaluate):
    """Return (slots, blocking probability) for D <= slots < D + 1; None if it falls to the end."""
    start, end = float(deferrals), float(deferrals + 1)
    blocking, slope = evaluate(deferrals, start)
    if slope >= 0.0:
        return start, blocking
    if evaluate(deferrals, end)[1] < 0.0:
        return None
    return _root(deferrals, start, end, evaluate)


def _best_on_last_piece(deferrals, evaluate, guess):
    """Return (slots, blocking probability) for slots >= D, looking first where the guess is."""
    start = float(deferrals)
    low = high = max(start, guess)
    blocking, slope = evaluate(deferrals, low)
    while slope < 0.0:
        low, high = high, _STRIDE * high
        slope = evaluate(deferrals, high)[1]
    if low == high:
        while slope >= 0.0:
            if low == start:
                return start, blocking
            low, high = max(start, low / _STRIDE), low
            blocking, slope = evaluate(deferrals, low)
    return _root(deferrals, low, high, evaluate)


def _root(deferrals, low, high, evaluate):
    slots = math.exp(
        brentq(
            lambda log_slots: evaluate(deferrals, math.exp(log_slots))[1],
            math.log(low),
            math.log(high),
            xtol=1e-12,
            rtol=1e-14,
        )
    )
    return slots, evaluate(deferrals, slots)[0]
