"""The arguments that the deferral models share, and the limit on the number of deferrals."""

import functools

from qcore import _checks

# Products and ratios of two rates, and squares of one, stay finite and positive in between.
_SMALLEST, _LARGEST = 1e-150, 1e150

rates = functools.partial(_checks.real, at_least=_SMALLEST, at_most=_LARGEST)
times = rates
rate = functools.partial(_checks.scalar, at_least=_SMALLEST, at_most=_LARGEST)
time = rate
