"""The fluid control problem: how busy should servers be when being busy has a cost?"""

import functools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qcore._numerics import checks
from qcore.idling._convex import first_point, lowest_point, one_sided_slope

_EPS = np.finfo(float).eps
_SUBNORMAL = np.finfo(float).smallest_subnormal
_SAME = 1e-9  # Optima closer than this are one optimum, blurred by rounding.
_BLUR = 1e-11  # How well, relatively, values of the cost must locate an end of the optimal set.

# Products of two parameters and a fraction then stay within floats.
positive_rate = functools.partial(
    checks.scalar, at_least=1 / checks.LARGEST, at_most=checks.LARGEST
)
unit_cost = functools.partial(checks.scalar, at_least=0, at_most=checks.LARGEST)


@dataclass(frozen=True)
class LocalMinimum:
    """A local minimum of the cost.

    Attributes
    ----------
    lower, upper : float
        Ends of the interval of busy fractions on which the cost takes its minimal value; equal
        where the minimum is a single point.
    cost : float
        The cost there, per server and unit time.
    """

    lower: float
    upper: float
    cost: float


class FluidControlProblem:
    r"""The busy fraction that balances abandonment against the cost of using servers.

    In a queue with many servers, per server: customers arrive at rate :math:`\lambda`, a fraction
    :math:`b` of the servers is busy, :math:`b\mu` customers leave served and, *whatever the law of
    patience*, :math:`\lambda - b\mu` abandon. The problem is

    .. math::

        \min_{0\le b\le\min(1,\lambda/\mu)} a(\lambda - b\mu) + g_U(b) + h\,q(b),
        \qquad q(b) = \lambda\int_0^{w(b)}(1 - G^r(x))\,dx,
        \qquad G^r(w(b)) = 1 - \frac{b\mu}{\lambda},

    where :math:`G^r` is the c.d.f. of patience. With ``rejection=True`` customers may also be
    turned away on arrival, at the same cost :math:`a`. Then admitting the fraction
    :math:`b\mu/\lambda` leaves no queue, and the term :math:`h\,q(b)` disappears.

    Parameters
    ----------
    arrival_rate : float
        :math:`\lambda`, customers per unit time and server, from 1e-150 to 1e150.
    service_rate : float
        :math:`\mu`, customers per unit time and busy server, from 1e-150 to 1e150.
    abandonment_cost : float
        :math:`a \ge 0`, cost per customer who abandons or is rejected; at most 1e150.
    utilization_cost : callable
        :math:`g_U`, cost per unit time and server when the fraction ``b`` of the servers is busy;
        called with one float in [0, 1]. It must be non-decreasing and convex, which is checked up
        to rounding on a grid of some 1,350 points; it need not be differentiable, nor strictly
        increasing: it may be zero up to some load, as :math:`\max(0, b - 0.6)^2`.
    holding_cost : float, optional
        :math:`h \ge 0`, cost per unit time and waiting customer; at most 1e150.
    patience : frozen continuous scipy.stats distribution, optional
        The law of patience, with support beginning at 0 and a strictly increasing c.d.f.
        Needed if there is a holding cost and no rejection (then with a finite mean), and for
        `waiting_time` and `queue_length`.
    rejection : bool, optional
        Whether customers may be rejected on arrival. The default is False: everybody is admitted
        and abandonment alone trims the load. Without a holding cost the two problems have the
        same optimum and the same cost, and the argument makes no difference.

    Raises
    ------
    ValueError
        If an argument is out of its domain, if ``utilization_cost`` is not finite, non-decreasing
        and convex on the grid, if the patience law does not start at 0, has a flat
        c.d.f., or has an infinite mean where the mean is needed.

    Notes
    -----
    *Method.* Without a queue the objective is convex. The optimal set is where the left slope is
    :math:`\le 0` and the right slope :math:`\ge 0`; both ends are found by bisection on the sign of
    one-sided slopes of :math:`g_U`, taken from interpolating polynomials on windows that shrink
    until they agree, so that kinks, corners and affine pieces need no special case. Comparing
    values of the cost instead would lose half the digits. With a queue the problem is convex only
    for a patience law with a non-increasing hazard; every local minimum seen on a grid
    (1,024 equal steps, and geometric steps towards both ends) is refined by the same bisection,
    with :math:`q'(b) = -\mu/h^r(w(b))` exact. Minima narrower than the grid would be missed.

    *Accuracy, measured* against closed forms at 40 digits, optima from 1e-13 to 1. For
    :math:`g_U = cb^k` the *relative* error of the busy fraction is below 1e-11 at
    :math:`k = 1.05`, 2e-12 at :math:`k = 1.25` and 1.5, and 6e-14 for :math:`k = 2, 3, 5, 8`,
    however small the optimum. If :math:`g_U'(0) > 0` (exponential :math:`g_U`, :math:`b + b^2`) it
    is the *absolute* error that stays small, below 4e-15 for optima below 1e-3 and 2e-13 above: a
    small optimum is then the difference of two nearly equal slopes. Kinks within 1e-14; ends of
    affine pieces within 1e-13 at kinks and 1e-11 at smooth joins; corners exact. The curvature of
    the cost divides the error: a cost that is affine to 12 digits has an interval of optima here.
    The optimal cost of all these problems is within 1e-15.

    Several optima occur if :math:`g_U` has an affine piece of slope :math:`a\mu` (convexity alone
    does not make the optimum unique). `optimal_busy_fraction` is then the largest, the one that
    loses fewest customers.

    *Cost.* Some 1,350 calls of ``utilization_cost`` to check it, twice as many for the optimum of a
    problem without a queue, and up to a hundred times as many with one: milliseconds and about a
    second.

    Problems are not changed after they are made. They are equal, with equal hashes, if their
    parameters are; laws of patience are compared by family and parameters, ``utilization_cost`` by
    identity unless it defines equality. They are pickled if ``utilization_cost`` can be, as a
    function of a module can and a lambda cannot.

    References
    ----------
    Zhong, Ward and Puha, "Asymptotically optimal idling in the GI/GI/N+GI queue", Operations
    Research Letters 50 (2022), equations (4)--(7).

    Examples
    --------
    >>> problem = FluidControlProblem(1.2, 1.0, 1.0, lambda b: b**2)
    >>> round(problem.optimal_busy_fraction, 10), round(problem.optimal_cost, 10)
    (0.5, 0.95)
    >>> round(problem.admission_probability, 10), round(problem.idle_time, 10)
    (0.4166666667, 1.0)

    A holding cost makes the queue matter, and with it the patience law:

    >>> from scipy.stats import gamma
    >>> cost = lambda b: 1.2 * b**1.05
    >>> problem = FluidControlProblem(1.2, 1.0, 1.0, cost, 0.3, gamma(3, scale=1 / 3))
    >>> [round(minimum.lower, 2) for minimum in problem.local_minima]
    [0.16, 1.0]
    """

    def __init__(
        self,
        arrival_rate,
        service_rate,
        abandonment_cost,
        utilization_cost,
        holding_cost=0.0,
        patience=None,
        *,
        rejection=False,
    ):
        self.arrival_rate = positive_rate("arrival_rate", arrival_rate)
        self.service_rate = positive_rate("service_rate", service_rate)
        self.abandonment_cost = unit_cost("abandonment_cost", abandonment_cost)
        self.holding_cost = unit_cost("holding_cost", holding_cost)
        self.rejection = checks.flag("rejection", rejection)
        self.utilization_cost = UtilizationCost(utilization_cost)
        self.patience = None if patience is None else checked_patience(patience)
        if self._queue_costs:
            if patience is None:
                raise ValueError(
                    f"patience = None: must be a frozen scipy.stats distribution when "
                    f"holding_cost = {self.holding_cost!r} is positive and rejection is False"
                )
            if not math.isfinite(self._mean_patience):
                raise ValueError(
                    f"patience has mean {self._mean_patience!r}: must be finite when holding_cost "
                    "is positive and rejection is False (the queue of a system that serves nobody "
                    "is arrival_rate times the mean)"
                )

    def __repr__(self):
        return (
            f"FluidControlProblem(arrival_rate={self.arrival_rate!r}, "
            f"service_rate={self.service_rate!r}, abandonment_cost={self.abandonment_cost!r}, "
            f"utilization_cost={self.utilization_cost!r}, holding_cost={self.holding_cost!r}, "
            f"patience={self.patience!r}, rejection={self.rejection!r})"
        )

    # The invariant state of a given busy fraction

    @property
    def largest_busy_fraction(self):
        r"""The busy fraction of servers that never idle, :math:`\min(1, \lambda/\mu)`."""
        return min(1.0, self.arrival_rate / self.service_rate)

    def abandonment_rate(self, busy_fraction, admission_probability=None):
        r"""Rate at which admitted customers abandon, per server: :math:`p\lambda - b\mu`.

        Parameters
        ----------
        busy_fraction : float or array
            :math:`b`, in [0, min(1, λ/μ)].
        admission_probability : float or array, optional
            :math:`p`, in [bμ/λ, 1]. Default: 1, or bμ/λ if the problem has ``rejection=True``.

        Returns
        -------
        float or ndarray
            The same for every patience law and every service law with mean 1/μ.

        Raises
        ------
        ValueError
            If an argument is out of its domain.

        Examples
        --------
        >>> FluidControlProblem(1.25, 1.0, 1.0, lambda b: b**2).abandonment_rate(0.5)
        0.75
        """
        b, p = self._state(busy_fraction, admission_probability)
        return checks.unwrap(np.maximum(p * self.arrival_rate - b * self.service_rate, 0.0))

    def rejection_rate(self, busy_fraction, admission_probability=None):
        r"""Rate at which customers are rejected, per server: :math:`(1-p)\lambda`.

        Parameters, defaults and errors as for `abandonment_rate`.

        Examples
        --------
        >>> problem = FluidControlProblem(1.25, 1.0, 1.0, lambda b: b**2, rejection=True)
        >>> problem.rejection_rate(0.5)
        0.75
        """
        b, p = self._state(busy_fraction, admission_probability)
        return checks.unwrap((1 - p) * self.arrival_rate + 0 * b)

    def waiting_time(self, busy_fraction, admission_probability=None):
        r"""Wait of the customer at the head of the line, :math:`G^r(w) = 1 - b\mu/(p\lambda)`.

        Parameters and defaults as for `abandonment_rate`.

        Returns
        -------
        float or ndarray
            As accurate as the patience law's ``ppf`` and ``isf``.

        Raises
        ------
        ValueError
            If the problem has no patience law, if an argument is out of its domain, or if nobody
            is served (b = 0) and patience is unbounded, when no finite wait exists.

        Examples
        --------
        >>> from scipy.stats import expon
        >>> problem = FluidControlProblem(1.0, 1.0, 1.0, lambda b: b**2, patience=expon())
        >>> round(problem.waiting_time(0.25), 9)  # ln 4
        1.386294361
        """
        b, p = self._state(busy_fraction, admission_probability)
        wait = self._wait(b, p)
        if not np.all(np.isfinite(wait)):
            raise ValueError(
                "busy_fraction = 0.0: must be positive for an unbounded patience law, since where "
                "nobody is served the wait at the head of the line has no finite value"
            )
        return checks.unwrap(wait)

    def queue_length(self, busy_fraction, admission_probability=None):
        r"""Waiting customers per server, :math:`q = p\lambda\int_0^w(1 - G^r(x))\,dx`.

        Parameters and defaults as for `abandonment_rate`.

        Returns
        -------
        float or ndarray
            By 20-point Gauss--Legendre quadrature between quantiles at powers of two. Relative
            error, measured at 50 digits with a fraction of 1e-12 to 1 - 1e-6 served: below 2e-15
            for exponential, uniform, lognormal, Pareto (shape 1/2 and 3), Weibull (1/2 and 3) and
            gamma patience (3 and 20), and 2e-14 for gamma patience of shape 1/2, whose quantiles
            are as good as that.

        Raises
        ------
        ValueError
            If the problem has no patience law, if an argument is out of its domain, or at b = 0 if
            the mean patience is infinite.

        Examples
        --------
        >>> from scipy.stats import expon
        >>> problem = FluidControlProblem(1.0, 1.0, 1.0, lambda b: b**2, patience=expon(scale=2))
        >>> round(problem.queue_length(0.25), 12)  # (λ - bμ)/θ
        1.5
        """
        b, p = self._state(busy_fraction, admission_probability)
        queue = p * self.arrival_rate * self._time_in_queue(self._wait(b, p))
        if not np.all(np.isfinite(queue)):
            raise ValueError(
                "busy_fraction = 0.0: must be positive for a patience law with an infinite mean, "
                "since where nobody is served the queue has no finite length"
            )
        return checks.unwrap(queue)

    def cost(self, busy_fraction, admission_probability=None):
        r"""Cost per server and unit time, :math:`a(\lambda - b\mu) + g_U(b) + h\,q(p, b)`.

        Parameters, defaults and errors as for `abandonment_rate`. Rejected customers cost as much
        as those who abandon, so that :math:`p` enters through the queue alone.

        Examples
        --------
        >>> FluidControlProblem(1.25, 1.0, 1.0, lambda b: b**2).cost(0.5)
        1.0
        """
        b, p = self._state(busy_fraction, admission_probability)
        lost = np.maximum(self.arrival_rate - b * self.service_rate, 0.0)
        total = self.abandonment_cost * lost + np.vectorize(self.utilization_cost, otypes="d")(b)
        if self.holding_cost > 0 and np.any(b * self.service_rate < p * self.arrival_rate):
            if self.patience is None:
                raise ValueError(
                    "patience = None: must be a frozen scipy.stats distribution, since customers "
                    "wait in this state and holding_cost is positive"
                )
            total = total + self.holding_cost * self.queue_length(b, p)
        return checks.unwrap(total)

    # The optimum

    @cached_property
    def local_minima(self):
        """Every local minimum of the cost, by busy fraction: a tuple of `LocalMinimum`.

        One, unless a holding cost makes the problem non-convex.
        """
        grid = _grid(self.largest_busy_fraction)
        values, sizes = self._values(grid)
        brackets = _valleys(values, 8 * _EPS * sizes, convex=not self._queue_costs)
        found = []
        for left, right in brackets:
            lower, upper = self._flat_part(float(grid[left]), float(grid[right]))
            found.append(LocalMinimum(lower, upper, self.cost(upper)))
        return tuple(found)

    @cached_property
    def optimal_set(self):
        """All optimal busy fractions: a tuple of intervals ``(lower, upper)``.

        One interval, of length zero if the optimum is unique, unless a holding cost makes the
        problem non-convex and several minima equally good (to 12 digits).
        """
        best = min(minimum.cost for minimum in self.local_minima)
        slack = 1e-12 * max(abs(best), self.abandonment_cost * self.arrival_rate)
        return tuple((m.lower, m.upper) for m in self.local_minima if m.cost <= best + slack)

    @property
    def is_unique(self):
        """Whether one busy fraction alone is optimal."""
        return len(self.optimal_set) == 1 and self.optimal_set[0][0] == self.optimal_set[0][1]

    @property
    def optimal_busy_fraction(self):
        r"""The optimal busy fraction :math:`b_*`; the largest, if there are several.

        Exactly :math:`\min(1, \lambda/\mu)` if :math:`g_U'(b-) \le a\mu` there, and exactly 0 if
        :math:`g_U'(0+) \ge a\mu` and 0 is the only optimum (without a queue that costs).
        """
        return self.optimal_set[-1][1]

    @cached_property
    def optimal_cost(self):
        """The least cost, per server and unit time."""
        return self.cost(self.optimal_busy_fraction)

    @property
    def admission_probability(self):
        r"""Admission probability :math:`p_* = b_*\mu/\lambda` of the thinning policy.

        Servers that never idle and are offered the fraction :math:`p_*` of all customers are busy
        a fraction :math:`b_*` of the time, and nobody waits in the limit. With a holding cost and
        ``rejection=False`` this thinning attains the busy fraction of the problem *without*
        rejection; the best thinning is that of ``rejection=True``.

        Raises
        ------
        ValueError
            If :math:`b_* = 0`: admitting nobody is not a thinning policy, which needs p in (0, 1].
        """
        return min(self._positive_optimum() * self.service_rate / self.arrival_rate, 1.0)

    @property
    def idle_time(self):
        r"""Time :math:`(1-b_*)/(b_*\mu)` that a server rests after each service.

        Raises
        ------
        ValueError
            If :math:`b_* = 0`: servers that serve nobody have no idle time after a service.
        """
        b = self._positive_optimum()
        return (1 - b) / (b * self.service_rate)

    # Comparisons

    @property
    def non_idling_cost(self):
        r"""Cost of admitting everybody and never idling, :math:`b = \min(1, \lambda/\mu)`."""
        return self.cost(self.largest_busy_fraction, 1.0)

    @property
    def non_idling_excess_cost(self):
        """How much dearer never idling is than the optimum, per server and unit time."""
        return max(self.non_idling_cost - self.optimal_cost, 0.0)

    @property
    def value_of_rejection(self):
        """How much the right to reject customers on arrival saves, per server and unit time.

        Zero without a holding cost.
        """
        costs = [self._with(rejection=allowed).optimal_cost for allowed in (False, True)]
        return max(costs[0] - costs[1], 0.0)

    # Details

    @property
    def _queue_costs(self):
        return self.holding_cost > 0 and not self.rejection

    @cached_property
    def _mean_patience(self):
        mean = float(self.patience.mean())
        return math.inf if math.isnan(mean) else mean

    @cached_property
    def _time_in_queue(self):
        return LimitedMean(self.patience, self._mean_patience)

    def _with(self, *, rejection):
        return FluidControlProblem(
            self.arrival_rate,
            self.service_rate,
            self.abandonment_cost,
            self.utilization_cost.function,
            self.holding_cost,
            self.patience,
            rejection=rejection,
        )

    def _parameters(self):
        return (
            self.arrival_rate,
            self.service_rate,
            self.abandonment_cost,
            self.utilization_cost,
            self.holding_cost,
            None if self.patience is None else _identity(self.patience),
            self.rejection,
        )

    def __eq__(self, other):
        if not isinstance(other, FluidControlProblem):
            return NotImplemented
        return self._parameters() == other._parameters()

    def __hash__(self):
        return hash(self._parameters())

    def _positive_optimum(self):
        b = self.optimal_busy_fraction
        if b == 0:
            raise ValueError(
                "optimal_busy_fraction = 0.0: must be positive for a policy to exist; here it is "
                "best to serve nobody, since utilization_cost rises at least as fast at 0 as "
                "abandonment_cost * service_rate"
            )
        return b

    def _state(self, busy_fraction, admission_probability):
        b = checks.real(
            "busy_fraction", busy_fraction, at_least=0, at_most=self.largest_busy_fraction
        )
        served = np.minimum(b * (self.service_rate / self.arrival_rate), 1.0)
        if admission_probability is None:
            return b, served if self.rejection else np.ones_like(b)
        p = checks.real("admission_probability", admission_probability, at_least=0, at_most=1)
        b, p = checks.broadcast(busy_fraction=b, admission_probability=p)
        served = np.broadcast_to(served, b.shape)
        if np.any(p < served * (1 - 4 * _EPS)):
            worst = np.unravel_index(np.argmax(served - p), p.shape)
            raise ValueError(
                f"admission_probability = {float(p[worst])!r}: must be at least "
                f"busy_fraction * service_rate / arrival_rate = {float(served[worst])!r}, or too "
                "few customers are admitted to keep that many servers busy"
            )
        return b, p

    def _wait(self, b, p):
        if self.patience is None:
            raise ValueError(
                "patience = None: must be a frozen scipy.stats distribution for waits and queues"
            )
        with np.errstate(invalid="ignore", divide="ignore"):
            served = np.where(p > 0, b * (self.service_rate / self.arrival_rate) / p, 1.0)
        served = np.minimum(served, 1.0)
        return np.where(served < 0.5, self.patience.isf(served), self.patience.ppf(1 - served))

    def _objective(self, b):
        """The part of the cost that depends on b, without the queue, and the size of its terms."""
        used = self.utilization_cost(b)
        saved = self.abandonment_cost * self.service_rate * b
        return used - saved, max(abs(used), self.utilization_cost.hidden) + saved

    def _values(self, points):
        """The part of the cost that depends on b, and the size of its terms."""
        values, sizes = np.array([self._objective(b) for b in points.tolist()]).T
        if not self._queue_costs:
            return values, sizes
        wait = self._wait(points, 1.0)
        queue = self.holding_cost * self.arrival_rate * self._time_in_queue(wait)
        return values + queue, sizes + queue

    def _queue_slope(self, b):
        r"""h q'(b) = -h μ / h^r(w(b)), where 1 - G^r(w(b)) = bμ/λ."""
        if not self._queue_costs:
            return 0.0
        b = max(b, 1e-290)
        density = float(self.patience.pdf(float(self._wait(np.float64(b), 1.0))))
        surviving = b * self.service_rate / self.arrival_rate
        if density == 0:
            return -math.inf
        return -self.holding_cost * self.service_rate * surviving / density

    def _slope(self, b, reach):
        """The cost's slope at b, seen from the side of b + reach, and its error."""
        slope, error = one_sided_slope(self._objective, b, reach)
        queue_slope = self._queue_slope(b)
        error += 4 * _EPS * self.abandonment_cost * self.service_rate
        if math.isinf(queue_slope):
            return -math.inf, error
        return slope + queue_slope, error + 64 * _EPS * abs(queue_slope)

    def _slope_sign(self, b, side):
        """Sign of the cost's one-sided slope at b, or 0 if rounding hides it.

        Close to an end of [0, 1] the window on that side is too short to see anything; the slope
        from the other side then decides.
        """
        reaches = (1.0 - b, -b) if side == "right" else (-b, 1.0 - b)
        slope, error = self._slope(b, reaches[0])
        if abs(slope) <= error and abs(reaches[1]) > abs(reaches[0]):
            other, other_error = self._slope(b, reaches[1])
            if other_error < error:
                slope, error = other, other_error
        return 0 if abs(slope) <= error else math.copysign(1, slope)

    def _flat_part(self, left, right):
        """The interval of minimal cost within a bracket that holds one local minimum.

        Values of the cost show where it exceeds its minimum, hence each end of the interval, up
        to rounding / slope there: excellent at a kink, half the digits at a smooth end. There
        the slope's change of sign is used instead, as seen from outside the interval.
        """
        top = self.largest_busy_fraction

        lowest = lowest_point(lambda points: self._values(points)[0], left, right)
        [value], [size] = self._values(np.array([lowest]))
        noise = 4 * _EPS * size
        at_zero = left == 0 and (not self._queue_costs or lowest <= _EPS * top)
        if at_zero and self._slope_sign(0.0, "right") > 0:
            return 0.0, 0.0

        def is_above(b):
            return self._values(np.array([b]))[0][0] > value + noise

        def is_steep(b, side):
            slope, error = self._slope(b, -b if side == "left" else 1.0 - b)
            return abs(slope) > error and (abs(slope) - error) * _BLUR * b > noise

        lower = start = first_point(lambda b: not is_above(b), left, lowest)
        upper = stop = first_point(is_above, lowest, right) if is_above(right) else right
        if not is_steep(start, "left"):
            lower = first_point(lambda b: self._slope_sign(b, "left") >= 0, start, stop)
        if not is_steep(stop, "right") and self._slope_sign(stop, "right") > 0:
            upper = first_point(lambda b: self._slope_sign(b, "right") > 0, start, stop)
        if upper - lower > _SAME * top:
            return lower, upper
        if start == 0 and self._slope_sign(0.0, "right") >= 0:
            return 0.0, 0.0
        if stop == top and self._slope_sign(top, "left") <= 0:
            return top, top
        middle = lower + (upper - lower) / 2
        return middle, middle


class LimitedMean:
    """E[min(X, w)], the integral of the survival function, as a function of w."""

    _NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)

    def __init__(self, law, mean):
        # Down to the smallest probability: with a heavy tail all of it matters.
        levels = 0.5 ** np.arange(1.0, 1074.0)
        with np.errstate(over="ignore"):  # waits beyond the largest float are left out
            edges = np.concatenate(([0.0], law.ppf(levels[60::-1]), law.isf(levels)))
        self.edges = np.unique(edges[np.isfinite(edges)])
        self._law = law
        self._mean = mean
        cells = self._integral(self.edges[:-1], self.edges[1:])
        self._cumulative = np.concatenate(([0.0], np.cumsum(cells)))

    def __call__(self, wait):
        wait = np.asarray(wait, dtype=float)
        finite = np.isfinite(wait)
        inside = np.where(finite, wait, 0.0)
        cell = np.searchsorted(self.edges, inside, side="right") - 1
        integral = self._cumulative[cell] + self._integral(self.edges[cell], inside)
        return np.where(finite, integral, self._mean)

    def _integral(self, lower, upper):
        half = (upper - lower)[..., None] / 2
        nodes = lower[..., None] + half * (1 + self._NODES)
        return (half * self._law.sf(nodes)) @ self._WEIGHTS


def _grid(top):
    """Equal steps on [0, top], and geometric steps towards both ends."""
    tiny = top * np.concatenate((2.0 ** -np.arange(10.0, 50.0), 16.0 ** -np.arange(13.0, 240.0)))
    near_top = top * (1 - 2.0 ** -np.arange(10.0, 48.0))
    return np.unique(np.concatenate((np.linspace(0, top, 1025), tiny, near_top)))


def _valleys(values, noise, convex=False):
    """Index pairs that bracket the local minima of a sampled function."""
    if convex:
        low = np.flatnonzero(values <= (values + noise).min())
        return [(max(low[0] - 1, 0), min(low[-1] + 1, len(values) - 1))]
    brackets = []
    start = 0  # first index of the plateau that may be a valley; it was reached by descending
    descending = True
    for k in range(1, len(values)):
        margin = noise[k] + noise[k - 1]
        if values[k] < values[k - 1] - margin:
            descending, start = True, k
        elif values[k] > values[k - 1] + margin:
            if descending:
                brackets.append((max(start - 1, 0), k))
            descending = False
    if descending:
        brackets.append((max(start - 1, 0), len(values) - 1))
    return brackets


class UtilizationCost:
    """A non-decreasing convex cost on [0, 1], as a function float → float; refused if it is not.

    Attributes
    ----------
    function : callable
        The cost as it was given.
    hidden : float
        Size of terms that cancel in the cost near 0: zero, or the largest value where rounding of
        that order was seen, as in 1 - sqrt(1 - b) and exp(2 b) - 1.
    """

    def __init__(self, function):
        if not callable(function):
            raise ValueError(f"utilization_cost = {function!r}: must be a callable on [0, 1]")
        self.function, self.hidden = function, 0.0
        points = _grid(1.0)
        values = np.array([self(float(b)) for b in points])
        if not np.all(np.isfinite(values)):
            where = float(points[~np.isfinite(values)][0])
            raise ValueError(f"utilization_cost({where!r}) is not finite: must be finite on [0, 1]")
        largest = float(np.abs(values).max())
        # Rounding to 1 ulp of the values, if they alone tell of it, or else of the largest.
        if any(_faults(points, values, np.maximum(np.abs(values[1:]), np.abs(values[:-1])))):
            self.hidden = largest
        fall, bend = _faults(points, values, np.full(points.size - 1, largest))
        if fall:
            x, y = fall
            raise ValueError(
                f"utilization_cost({x!r}) = {self(x)!r} and utilization_cost({y!r}) = "
                f"{self(y)!r}: must be non-decreasing on [0, 1]"
            )
        if bend:
            raise ValueError(
                f"utilization_cost has a slope that decreases near {bend[0]!r}: must be convex on "
                "[0, 1]"
            )

    def __call__(self, b):
        return float(self.function(b))

    def __eq__(self, other):
        return isinstance(other, UtilizationCost) and self.function == other.function

    def __hash__(self):
        return hash(self.function)

    def __repr__(self):
        return repr(self.function)


def _faults(points, values, sizes):
    """Return where values of these sizes fall (both points), and where their slope does, if so."""
    steps, gaps = np.diff(values), np.diff(points)
    # Subnormal values are rounded to a multiple of the smallest one.
    rounding = 4 * _EPS * sizes + 64 * _SUBNORMAL
    falls = steps < -rounding
    slopes = steps / gaps
    blur = rounding / gaps + 4 * _EPS * np.abs(slopes)
    bends = slopes[1:] + blur[1:] < slopes[:-1] - blur[:-1]
    fall = (float(points[:-1][falls][0]), float(points[1:][falls][0])) if np.any(falls) else ()
    return fall, (float(points[1:-1][bends][0]),) if np.any(bends) else ()


def _identity(law):
    """What tells frozen scipy.stats laws apart: SciPy compares them by identity alone."""
    try:
        parts = (law.dist.name, law.args, tuple(sorted(law.kwds.items())))
        hash(parts)
    except (AttributeError, TypeError):
        return law
    return parts


def checked_patience(patience):
    wanted = "must be a frozen continuous scipy.stats distribution"
    if not all(callable(getattr(patience, name, None)) for name in ("sf", "ppf", "isf", "pdf")):
        raise ValueError(f"patience = {patience!r}: {wanted}")
    start, end = (float(edge) for edge in patience.support())
    if start != 0 or not end > 0:
        raise ValueError(
            f"patience has support [{start:g}, {end:g}]: must begin at 0, so that its c.d.f. is "
            "strictly increasing there"
        )
    quantiles = patience.ppf(np.linspace(0.0, 1.0, 257)[:-1])
    if not np.all(np.diff(quantiles) > 0):
        raise ValueError("patience has quantiles that are not strictly increasing: " + wanted)
    return patience
