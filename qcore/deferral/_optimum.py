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
_MOST_STRIDES = 200
# The smaller one of what is lost and what is saved has a derivative that rounding hides below
# this part of it; the best spacing has to be told from its neighbours at this distance.
_NOISE = 2e-15
_NEIGHBOUR = 1e-3
_WANTED = 1e-6


def deferrals_in_use(max_deferrals, slots):
    """Return min(max_deferrals, floor(slots)); slots within rounding of an integer count as it."""
    return int(min(max_deferrals, math.floor(slots * (1.0 + _ROUNDING))))


def best_slots(max_deferrals, evaluate, guess, likely_deferrals=1):
    """Return (slots, D, blocking probability) at the smallest blocking probability.

    ``evaluate(D, slots)`` gives the blocking probability, and its derivative by log(slots) over the
    smaller one of what is lost and what is saved. Assumed (observed, not proved): the derivative
    changes its sign once, more deferrals are never worse at the same slots, and the smallest values
    of the pieces fall and then rise with D. So D is found by doubling and bisection.
    """

    @functools.cache
    def piece(deferrals):
        if deferrals == max_deferrals:
            return _best_on_last_piece(deferrals, evaluate, guess)
        return _best_on_piece(deferrals, evaluate)

    def falls(deferrals):
        here = piece(deferrals)
        following = here and piece(deferrals + 1)
        return here is None or following is None or following[1] < here[1]

    low, high = _bracket(max_deferrals, likely_deferrals, piece, falls)
    while low < high:
        middle = (low + high) // 2
        if falls(middle):
            low = middle + 1
        else:
            high = middle
    slots, blocking = piece(low)
    return slots, low, blocking


def is_told_apart(deferrals, slots, evaluate):
    """Return whether rounding moves the best slots by less than a millionth of them."""
    needed = _NOISE * _NEIGHBOUR / _WANTED
    before, after = slots * math.exp(-_NEIGHBOUR), slots * math.exp(_NEIGHBOUR)
    if before >= deferrals and evaluate(deferrals, before)[1] > -needed:
        return False
    return evaluate(deferrals, after)[1] > needed


def _bracket(max_deferrals, likely, piece, falls):
    """Return numbers of deferrals between which the best one lies, at a cost like its own."""
    likely = min(max(likely, 1), max_deferrals)
    if 2 * likely >= max_deferrals:
        # With a root of the derivative beyond all jumps nothing else is as good.
        if piece(max_deferrals)[0] > max_deferrals:
            return max_deferrals, max_deferrals
        return 1, max_deferrals
    if falls(likely):
        low = high = likely
        while high < max_deferrals and falls(high):
            low, high = high + 1, min(2 * high, max_deferrals)
        return low, high
    low = high = likely
    while low > 1:
        low, high = max(1, low // 2), low
        if falls(low):
            break
    return low, high


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
    strides = 0
    while slope < 0.0 and strides < _MOST_STRIDES:
        low, high = high, _STRIDE * high
        slope = evaluate(deferrals, high)[1]
        strides += 1
    if low == high:
        while slope >= 0.0:
            if low == start:
                return start, blocking
            low, high = max(start, low / _STRIDE), low
            blocking, slope = evaluate(deferrals, low)
    return _root(deferrals, low, high, evaluate)


def _root(deferrals, low, high, evaluate):
    def slope(log_slots):
        return evaluate(deferrals, math.exp(log_slots))[1]

    low, high = math.log(low), math.log(high)
    # Rounding of the logarithm can take an end across the root.
    if slope(low) >= 0.0:
        found = low
    elif slope(high) <= 0.0:
        found = high
    else:
        found = brentq(slope, low, high, xtol=1e-14, rtol=1e-14)
    slots = math.exp(found)
    return slots, evaluate(deferrals, slots)[0]
