"""The arguments that the deferral models share."""

import functools

from qcore._numerics import checks

# Products, ratios and squares of rates, times a count of servers, then stay within floats.
_SMALLEST, _LARGEST = 1e-60, 1e60

rates = functools.partial(checks.real, at_least=_SMALLEST, at_most=_LARGEST)
times = rates
rate = functools.partial(checks.scalar, at_least=_SMALLEST, at_most=_LARGEST)
time = rate
