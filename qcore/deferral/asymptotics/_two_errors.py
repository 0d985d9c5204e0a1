r"""The two errors of a spacing, from one deferral to as many as the square root of the servers.

With time in units of 1/K, idle servers are a walk with rates one, and a stage lasts t = K mu x.
Beyond as many waiting places, a phase with D deferrals loses E1(t) + E2(t) (`TwoErrors`), where E1
is what idles while somebody is deferred and E2 the returns that find nobody idle.

For D of the order of t, the idle servers over t are a Brownian motion with drift -1 and variance 2,
reflected at 0, and the deferrals over t fall at rate one and are pushed up by the reflection, to
at most r = D/t. In terms of the local time l at 0, r less the deferrals is T(l) - l reflected at
0, with T the inverse local time: E exp(-q T(l)) = exp(-l psi(q)), psi = (sqrt(1 + 4 q) - 1)/2. A
phase is over when it exceeds r. So everything is in the scale function W of l - T(l), whose
transform is 1/(q - psi(q)): an occupation density W'(r - y)/W'(r) and an atom 1/W'(r) at y = r of
the deferrals y at the touches, and 1/W'(r) customers lost. Hence, per customer lost,

    E1 = t^2 A(r),   A(r) = int_0^r W(r - y) m'(y) dy,
    E2 = s C(r),     C(r) = int_0^r z W'(z) dz,

with m(y) the mean of min(deferrals, idle) summed over an excursion from y deferrals.
"""

import math

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erf, erfc, gammainc

_ANGLES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_ANGLES, _WEIGHTS = (_ANGLES + 1.0) * (math.pi / 4.0), _WEIGHTS * (math.pi / 4.0)
_ROOT_PI = math.sqrt(math.pi)
_LONGEST = 150.0  # beyond it, m' is below 1e-16
_FILLINGS = np.arange(1, 1001)


def scale_function(x):
    """Return W(x), which has the Laplace transform 1/(q - psi(q))."""
    root = np.sqrt(x)
    return (1.0 + x / 2.0) * (1.0 + erf(root / 2.0)) + root / _ROOT_PI * np.exp(-x / 4.0)


def idle_growth(ratio):
    """Return A at an array of ratios D/t; the integrand has square roots at both ends."""
    longest = np.minimum(ratio, _LONGEST)[..., None]
    y = longest * np.sin(_ANGLES) ** 2
    weights = _WEIGHTS * longest * np.sin(2.0 * _ANGLES)
    return (weights * scale_function(ratio[..., None] - y) * _excursion_slope(y)).sum(-1)


def _excursion_slope(y):
    """Return m'(y): how long an excursion has more than y - tau idle at its age tau, on average."""
    root = np.sqrt(y)
    return root / _ROOT_PI * np.exp(-y / 4.0) * (2.0 + y / 2.0) - (1.5 * y + y**2 / 4.0) * erfc(
        root / 2.0
    )


def return_growth(ratio):
    """Return C at an array of ratios D/t."""
    root = np.sqrt(ratio)
    return (
        ratio**2 / 4.0 * (1.0 + erf(root / 2.0))
        + ratio * root * np.exp(-ratio / 4.0) / (2.0 * _ROOT_PI)
        + gammainc(1.5, ratio / 4.0)
    )


def filling(ratio):
    """Return F at an array of D/sqrt(t): what the first filling costs a fixed spacing.

    Relative to stages that end independently of it: 0 where the slots are filled well before the
    first return, 1 where returns meet a pool half filled. Terms beyond the last are an integral.
    """
    width = ratio[..., None] / np.sqrt(2.0 * _FILLINGS)
    near = width**2 / 6.0 - width**4 / 40.0
    safe = np.maximum(width, 0.03)
    far = 1.0 - math.sqrt(math.pi / 2.0) * erf(safe / math.sqrt(2.0)) / safe
    inner = np.where(width < 0.03, near, far) / math.sqrt(2.0 * math.pi)
    summed = (inner / np.sqrt(2.0 * _FILLINGS)).sum(-1) * 4.0 / ratio
    return summed + ratio / (3.0 * _ROOT_PI * math.sqrt(_FILLINGS[-1] + 0.5))


class TwoErrors:
    """The two errors for one number of deferrals, with idle servers worth s/K each.

    For fixed D they are cost sqrt(t) and (s/t)(balance cost/2)(1 + correction/sqrt(t)), with the
    constants of `SpacingConstants`; D of the order of t changes the first, and the correction, by
    factors that are 1 for D/t = 0. ``idling`` and ``returning`` multiply the errors in the end.
    """

    def __init__(self, deferrals, constants, worth, fixed, idling, returning):
        self.deferrals, self.constants, self.fixed = deferrals, constants, fixed
        self.worth, self.idling, self.returning = worth, idling, returning

    def __call__(self, stage):
        """Return E1 + E2 at an array of stage lengths t."""
        ratio, root, d, one = self.deferrals / stage, np.sqrt(stage), self.deferrals, self.constants
        idle = one.cost * root * idle_growth(ratio) / (4.0 / (3.0 * _ROOT_PI) * ratio**1.5)
        correction = one.correction
        if self.fixed:
            correction = correction + d**1.5 * filling(d / root) / (2.0 * _ROOT_PI)
        correction = correction * return_growth(ratio) / (2.0 / (3.0 * _ROOT_PI) * ratio**1.5)
        lost = self.worth / stage * one.balance * one.cost / 2.0 * (1.0 + correction / root)
        return self.idling * idle + self.returning * lost

    def least(self):
        """Return the best stage and the sum of both errors there.

        The best stages of the three regimes bracket it: fixed D, the plateau, and many deferrals.
        """
        shift = self.returning / self.idling
        known = (
            (self.constants.balance * self.worth) ** (2 / 3),
            math.sqrt(1.5 * self.worth),
            math.sqrt(0.375 * self.worth),
            (self.worth * self.deferrals) ** (1 / 3),
        )
        lower = math.log(0.2 * min(known) * min(1.0, shift))
        upper = math.log(5.0 * max(known) * max(1.0, shift))
        grid = np.linspace(lower, upper, 60)
        best = int(np.argmin(self(np.exp(grid))))
        found = minimize_scalar(
            lambda log_stage: float(self(np.array([math.exp(log_stage)]))[0]),
            bounds=(grid[max(best - 1, 0)], grid[min(best + 1, 59)]),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return math.exp(found.x), float(found.fun)
