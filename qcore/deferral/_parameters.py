"""The arguments that the deferral models share."""

import functools

from qcore import _checks

# Products, ratios and squares of rates, times a count of servers, then stay within floats.
_SMALLEST, _LARGEST = 1e-60, 1e60

rates = functools.partial(_checks.real, at_least=_SMALLEST, at_most=_LARGEST)
times = rates
rate = functools.partial(_checks.scalar, at_least=_SMALLEST, at_most=_LARGEST)
time = rate
