"""Profiles given by a function of one's own: `from_global` and `from_local`."""

import functools
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from qcore._numerics import checks
from qcore._numerics.power_series import exponential_of_polynomial, polynomial
from qcore._numerics.power_series import integral as antiderivative
from qcore._numerics.quadrature import QuadratureError, cumulative_integral, integrals
from qcore.admission._profiles import Piece, ScalingProfile, derivatives_of_a
from qcore.admission._smoothness import (
    REFUSALS,
    NotSmooth,
    central_taylor,
    log_derivative,
    one_sided_taylor,
    suspected_break,
    varies_smoothly,
)

# Where a function is checked: 0, and 1e-6 to 1e6 in steps of a factor of about 1.3.
_GRID = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 97)])
_ROUNDING = 8 * np.finfo(float).eps
_DIGITS = 50
_UNDERFLOW = 1e-290
_OVERFLOW = 1e300
_INFINITE = 1e300
_UNSEEN = 1e-17  # in ln f


def from_global(
    f,
    derivatives_at_zero=None,
    laplace=None,
    *,
    a=None,
    a_derivatives=None,
    gamma_min=None,
    finite_at_gamma_min=False,
    support=math.inf,
    breaks=None,
    derivatives_at_breaks=None,
):
    r"""Build a profile from f, for global control by default.

    .. math:: q_s(n) = p_s(0) \cdots p_s(n) = f\bigl((n + 1)/\sqrt{s}\bigr)

    Parameters
    ----------
    f : callable
        f(x) for x ≥ 0: non-negative, non-increasing, f(0) = 1. It may take numbers or arrays.
    derivatives_at_zero : callable or sequence, optional
        ``derivatives_at_zero(n)`` gives f(0), f′(0), …, f⁽ⁿ⁾(0); or those numbers as far as known.
        Without it f must accept mpmath numbers, and they come from one-sided differences with
        steps down to 1e-10, to 17 digits.
    laplace : callable, optional
        ``laplace(gamma, derivative)``, the transform of f and its derivatives. Without it they
        are integrated numerically, from one of ``breaks`` to the next.
    a : callable, optional
        a(x) = −f′(x)/f(x). Without it f must accept complex or mpmath numbers where a is needed.
    a_derivatives : callable, optional
        ``a_derivatives(x, n)`` gives a(x), a′(x), …, a⁽ⁿ⁾(x) for an array x, as n + 1 rows. Used by
        the expansions of `qcore.qed` under local control; without it f must accept mpmath numbers.
    gamma_min : float, optional
        −lim a(x). Without it a must be given or f accept mpmath numbers, and a must settle within
        x < 2^1000.
    finite_at_gamma_min : bool, optional
        Whether ∫exp(−γx)f(x)dx is finite at γ = ``gamma_min`` too.
    support : float, optional
        The x beyond which f vanishes. If f vanishes beyond the last of ``breaks``, that is it.
    breaks : sequence of float, optional
        The increasing x > 0 at which f has a kink or a jump, f(x) being the limit from one side.
        The expansions of `qcore.qed` need to know them. If they are not given, these expansions
        look for them, and refuse a profile that seems to have some; () says that there are none.
    derivatives_at_breaks : callable, optional
        ``derivatives_at_breaks(x, n, side)`` gives the limits of f, f′, …, f⁽ⁿ⁾ at a break x, from
        below for ``side`` −1, from above for 1. Without it f must accept mpmath numbers.

    Raises
    ------
    ValueError
        If f(0) ≠ 1, or f increases, is negative or is not a number somewhere on a grid of points
        from 0 to 10⁶; or if something cannot be found numerically: the message says what to pass.

    Notes
    -----
    The search for breaks that are not given looks from x = 0.004 to 58 and takes some 2000 values
    of f. It sees a jump of f or of its first three derivatives; of some ten, if f accepts mpmath
    numbers. A smooth f that bends within less than a thousandth of x may be taken for one.

    Profiles are equal, and hash alike, if they are made of the same functions and numbers, and can
    be pickled if these can: functions of a module can, a lambda cannot.

    Examples
    --------
    >>> import mpmath
    >>> from qcore.admission import from_global
    >>> profile = from_global(lambda x: mpmath.exp(-x - x**2))
    >>> [round(float(value), 12) for value in profile.derivatives_at_zero(3)]
    [1.0, -1.0, -1.0, 5.0]
    >>> profile.gamma_min
    -inf

    Everybody is admitted up to a threshold, and fewer and fewer beyond it:

    >>> from qcore import qed
    >>> threshold = from_global(lambda x: mpmath.exp(-max(x - 1, 0)), breaks=[1.0])
    >>> round(qed.delay_probability(100, 0.5, threshold, order=6), 9)
    0.386713694
    """
    return _FromGlobal(
        f,
        _frozen(derivatives_at_zero),
        laplace,
        a,
        a_derivatives,
        gamma_min,
        bool(finite_at_gamma_min),
        support,
        _frozen(breaks),
        derivatives_at_breaks,
    )


def from_local(
    a,
    derivatives_at_zero=None,
    laplace=None,
    *,
    integral=None,
    a_derivatives=None,
    gamma_min=None,
    breaks=None,
    derivatives_at_breaks=None,
):
    r"""Build a profile from its rate of decay a, for local control by default.

    .. math:: p_s(k) = \frac{1}{1 + a\bigl((k + 1)/\sqrt{s}\bigr)/\sqrt{s}}

    Parameters
    ----------
    a : callable
        a(x) for x ≥ 0: non-negative and non-decreasing. It may take numbers or arrays.
    derivatives_at_zero : callable or sequence, optional
        ``derivatives_at_zero(n)`` gives a(0), a′(0), …, a⁽ⁿ⁾(0); or those numbers as far as known.
        Without it a must accept mpmath numbers, and they come from one-sided differences with
        steps down to 1e-10, to 17 digits.
    laplace : callable, optional
        ``laplace(gamma, derivative)``, the transform of f = exp(−∫a) and its derivatives.
    integral : callable, optional
        The integral of a from 0 to x; without it a is integrated numerically.
    a_derivatives : callable, optional
        ``a_derivatives(x, n)`` gives a(x), a′(x), …, a⁽ⁿ⁾(x) for an array x, as n + 1 rows. Used by
        the expansions of `qcore.qed` under local control; without it a must accept mpmath numbers.
    gamma_min : float, optional
        −lim a(x). Without it a must settle within x < 2^1000.
    breaks : sequence of float, optional
        The increasing x > 0 at which a has a kink or a jump, a(x) being the limit from one side;
        see `from_global`. If a is infinite beyond the last, f vanishes there.
    derivatives_at_breaks : callable, optional
        ``derivatives_at_breaks(x, n, side)`` gives the limits of a, a′, …, a⁽ⁿ⁾ at a break x, from
        below for ``side`` −1, from above for 1. Without it a must accept mpmath numbers.

    Raises
    ------
    ValueError
        If a decreases, is negative or is not a number somewhere on a grid of points from 0 to
        10⁶; or if something cannot be found numerically: the message says what to pass.

    Notes
    -----
    Where a overflows it counts as infinite, and f as 0. Without ``integral``, ln f has an error
    of 1e-15 of itself, or of 1e-17 where it is that small.

    Under global control and for the transform a is integrated from one number of waiting
    customers to the next, which takes thousands of values of a. A function of arrays gives them
    at once: a delay probability at 1000 servers takes 2 seconds with an a that knows mpmath
    numbers only, a fiftieth of that with one of Python floats, a hundredth with one of arrays.
    With such an a, pass ``integral`` and ``laplace``, or an ``a`` of arrays together with
    ``derivatives_at_zero`` and ``a_derivatives``.

    Examples
    --------
    >>> from qcore.admission import from_local
    >>> profile = from_local(lambda x: 2 * x)
    >>> round(profile.f(1.5), 12), round(profile.laplace(0.0), 12)
    (0.105399224562, 0.886226925453)
    """
    return _FromLocal(
        a,
        _frozen(derivatives_at_zero),
        laplace,
        integral,
        a_derivatives,
        gamma_min,
        _frozen(breaks),
        derivatives_at_breaks,
    )


def _frozen(numbers):
    """Return a sequence as a tuple, so that profiles can be compared."""
    return numbers if numbers is None or callable(numbers) else tuple(np.ravel(numbers).tolist())


class _Custom(ScalingProfile):
    """What both kinds share; the function that describes the profile is `_described`."""

    def _set_up(self):
        for name in ("given_laplace", "given_a_derivatives", "given_at_breaks"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                argument = {
                    "given_laplace": "laplace",
                    "given_a_derivatives": "a_derivatives",
                    "given_at_breaks": "derivatives_at_breaks",
                }[name]
                raise ValueError(f"{argument} = {function!r}: must be a function")
        if self.given_breaks is None:
            return
        places = checks.real("breaks", list(self.given_breaks), above=0)
        if np.any(np.diff(places) <= 0):
            raise ValueError(f"breaks = {places.tolist()}: must increase")
        places = [x for x in places.tolist() if x < self.support]
        if places and self._vanishes_beyond(places[-1]):
            object.__setattr__(self, "support", places.pop())
        object.__setattr__(self, "breaks", tuple(places))

    def pieces(self, control=None):
        control = self.resolve_control(control)
        if self.given_breaks is None:
            self._refuse_suspected_break()
        return tuple(
            Piece(piece.start, piece.end, self._belongs_below(piece.end, control))
            for piece in super().pieces(control)
        )

    def _belongs_below(self, x, control):
        """Whether what rules at x is the limit from below, rather than that from above."""
        if x == math.inf:
            return True
        at, below, above = (
            float(self._rule(np.array(u), control))
            for u in (x, np.nextafter(x, 0), np.nextafter(x, math.inf))
        )
        if at in (below, above):
            return at == below
        near = 1e-9 * (1 + abs(at)) if math.isfinite(at) else 0.0
        if abs(at - below) <= near:
            return True
        if abs(at - above) <= near:
            return False
        raise ValueError(
            f"breaks = {list(self.given_breaks)}: the profile at {x!r} must be its limit from one "
            f"side, {below!r} or {above!r}, but it is {at!r}"
        )

    @functools.cached_property
    def _suspected_break(self):
        return self._find_break()

    def _refuse_suspected_break(self):
        x = self._suspected_break
        if x is not None:
            raise ValueError(
                f"profile = {self!r}: it seems to have a kink or a jump near x = {x:.6g}; give "
                f"all such x as breaks to {self._builder}, or breaks=() if there is none"
            )

    def _taylor(self, name, function, x, n, side):
        """Taylor coefficients of the described function at a break, as given or by differences."""
        if self.given_at_breaks is not None:
            values = np.asarray(self.given_at_breaks(x, n, side), dtype=float)
            if values.shape != (n + 1,) or not np.all(np.isfinite(values)):
                raise ValueError(
                    f"derivatives_at_breaks({x!r}, {n}, {side}) = {values.tolist()}: must be "
                    f"{n + 1} finite numbers"
                )
            return [Decimal(v) / math.factorial(k) for k, v in enumerate(values.tolist())]
        advice = f"pass derivatives_at_breaks of {name} to {self._builder}"
        if not self._takes_mpmath:
            raise ValueError(f"{name} does not accept mpmath numbers: {advice}")
        try:
            return list(map(_decimal, one_sided_taylor(function, x, side, n)))
        except NotSmooth as error:
            raise ValueError(
                f"derivative {error.order} of {name} at the break {x!r} does not settle from "
                f"{'above' if side > 0 else 'below'}; if {name} computes in floating point inside, "
                f"{advice}"
            ) from None

    def taylor_within(self, x, n):
        # Central differences would need room below x.
        if x == 0 or self.a_derivatives is not None or not self._takes_mpmath:
            return super().taylor_within(x, n)
        try:
            return list(map(_decimal, self._one_sided_rate(x, n)))
        except NotSmooth as error:
            raise ValueError(
                f"profile = {self!r}: derivative {error.order} does not settle at x = {x!r}"
            ) from None

    def _laplace(self, gamma, n):
        if self.given_laplace is None:
            return super()._laplace(gamma, n)
        value = float(self.given_laplace(gamma, n))
        if not (math.isfinite(value) and (-1) ** n * value > 0):
            raise ValueError(
                f"laplace({gamma!r}, {n}) = {value!r}: must be a finite number with the sign "
                f"of (-1)**derivative"
            )
        return value

    def _jets_by_differences(self, function, of_function, x, scales, n):
        """Return Taylor coefficients of a from those of the function that describes the profile."""
        if not self._takes_mpmath:
            raise ValueError(
                f"profile = {self!r}: the expansion needs derivatives of a; give the profile "
                "a_derivatives(x, n), or a function that accepts mpmath numbers"
            )
        more = of_function is not None
        columns = []
        for point, scale in zip(x.tolist(), scales.tolist(), strict=True):
            series = central_taylor(function, point, scale, n + more)
            columns.append(of_function(series) if more else series)
        return np.array(columns, dtype=float).T


def _decimal(value):
    """Return an mpmath number as a decimal, to 40 digits."""
    import mpmath

    return Decimal(mpmath.nstr(value, 40))


@dataclass(frozen=True)
class _FromGlobal(_Custom):
    given_f: Any
    given_derivatives: Any
    given_laplace: Any
    given_a: Any
    given_a_derivatives: Any
    given_gamma_min: Any
    finite_at_gamma_min: bool
    support: float
    given_breaks: Any = None
    given_at_breaks: Any = None

    control = "global"
    _builder = "from_global"

    def __post_init__(self):
        support = checks.scalar("support", self.support, above=0, allow_infinite=True)
        object.__setattr__(self, "support", support)
        if self.given_gamma_min is not None:
            object.__setattr__(self, "given_gamma_min", _gamma_min(self.given_gamma_min))
        values = self._f(_GRID)
        _refuse("f", values, _GRID, values < 0, "must be non-negative")
        if abs(values[0] - 1) > _ROUNDING:
            raise ValueError(f"f(0) = {float(values[0])!r}: must be 1")
        _refuse("f", values, _GRID, _falls(-values, _ROUNDING), "must not increase")
        self._set_up()
        if self.given_a is not None:
            x = _GRID[(self.support >= _GRID) & (values > _UNDERFLOW)]
            # The logarithm must have no jump, from which no rate can be integrated.
            before = x[x < min([*self.breaks, self.support])]
            _require_antiderivative("a", self._rate, "−ln f", lambda u: -np.log(self._f(u)), before)

    def __repr__(self):
        return f"from_global({getattr(self.given_f, '__name__', self.given_f)!s})"

    @functools.cached_property
    def _function(self):
        return _OnArrays("f", self.given_f)

    @functools.cached_property
    def _rate(self):
        return None if self.given_a is None else _OnArrays("a", self.given_a)

    @functools.cached_property
    def _takes_mpmath(self):
        try:
            return math.isfinite(_log_value(self.given_f, 0.5)) and varies_smoothly(self.given_f)
        except (ImportError, *REFUSALS):
            return False

    def _vanishes_beyond(self, x):
        return float(self._f(np.nextafter(x, math.inf))) == 0

    def _find_break(self):
        import mpmath

        if self._takes_mpmath:

            def minus_log(x):
                value = mpmath.mpf(self.given_f(x)) if x <= self.support else 0
                return -mpmath.log(value) if value else mpmath.inf

        else:

            def minus_log(x):
                value = float(self._f(np.array(x)))
                return -math.log(value) if value > 0 else math.inf

        found = suspected_break(minus_log, self._takes_mpmath)
        # At the support the profile is known to end.
        return None if found is not None and found >= self.support * (1 - 1e-6) else found

    @functools.cached_property
    def lost_beyond(self):
        if self._takes_mpmath:
            return math.inf
        inside, outside = 0.0, min(self.support, 1e100)
        if float(self._f(np.array(outside))) >= _UNDERFLOW:
            return math.inf
        while np.nextafter(inside, outside) < outside:
            middle = (inside + outside) / 2
            if float(self._f(np.array(middle))) >= _UNDERFLOW:
                inside = middle
            else:
                outside = middle
        # A value far above underflow just before means that f jumps to zero there.
        return inside if float(self._f(np.array(inside))) < 2 * _UNDERFLOW else math.inf

    @property
    def has_exact_ratio(self):
        return self._rate is not None

    @functools.cached_property
    def gamma_min(self):
        if self.given_gamma_min is not None:
            return self.given_gamma_min
        if self.support < math.inf:
            return -math.inf
        return 0.0 - _limit(
            self._a_at if self._rate else lambda x: _log_slope(self.given_f, x),
            "gamma_min: cannot be found from f; pass gamma_min = −lim a(x) to from_global",
        )

    def _a_at(self, x):
        return float(self._rate(np.array(x)))

    def resolve_control(self, control=None):
        control = super().resolve_control(control)
        if control == "local":
            self._local_control_allowed  # noqa: B018
        return control

    @functools.cached_property
    def _local_control_allowed(self):
        x = _GRID[(self.support >= _GRID) & (self._f(_GRID) > _UNDERFLOW)]
        values = self._a(x)
        _refuse("a", values, x, _falls(values, 1e-9), "must not decrease under local control")
        for x in self.breaks:
            below, above = self._f(np.nextafter(x, [0.0, math.inf]))
            if above < below * (1 - 1e-9):
                raise ValueError(
                    f"control = 'local': {self!r} jumps at {x!r}, where a is infinite; it is a "
                    "global profile only"
                )
        return True

    def _f(self, x):
        return np.where(x > self.support, 0.0, self._function(np.minimum(x, self.support)))

    def _log_f(self, x):
        values = self._f(x)
        with np.errstate(divide="ignore"):
            logarithms = np.array(np.log(values))
        if self._takes_mpmath:
            for index in np.argwhere((values < _UNDERFLOW) & (x <= self.support)):
                logarithms[tuple(index)] = _log_value(self.given_f, float(x[tuple(index)]))
        return logarithms

    def _log_ratio(self, x, step):
        before, after = self._log_f(x), self._log_f(x + step)
        gone = np.isneginf(after)
        values = np.where(gone, -np.inf, np.where(gone, 0.0, after) - np.where(gone, 0.0, before))
        if self._rate:
            # A difference that does not cancel is as good as the integral, which may be improper.
            near = values > -1
            for place in self.breaks:
                near &= (x > place) | (x + step <= place)
            try:
                values[near] = -integrals(self._rate, x[near], step)
            except QuadratureError as error:
                raise ValueError(f"the integral of a failed: {error}; pass another a") from None
        return values

    def _a(self, x):
        inside = np.minimum(x, self.support)
        if self._rate:
            values = self._rate(inside)
        elif self.breaks and self._takes_mpmath:
            values = np.vectorize(self._slope_from_below, otypes=[float])(inside)
        else:
            values = _complex_step_rate(self.given_f, inside)
        return np.where(x > self.support, np.inf, values)

    def _slope_from_below(self, x):
        """Return −f′/f from values within 1e-25 below x, or above 0."""
        import mpmath

        with mpmath.workdps(_DIGITS):
            step = mpmath.mpf(1e-25) * (1 if x == 0 else -1)
            at, beside = (mpmath.mpf(self.given_f(mpmath.mpf(x) + h)) for h in (0, step))
            return float((at - beside) / step / at)

    def _rule(self, x, control):
        return self._f(x) if control == "global" else self._a(x)

    def _derivatives(self, n):
        values = _derivatives("f", self.given_f, self.given_derivatives, n, "from_global")
        if abs(values[0] - 1) > _ROUNDING:
            raise ValueError(f"derivatives_at_zero = {values.tolist()}: must begin with f(0) = 1")
        return values

    def _a_derivatives(self, n):
        return derivatives_of_a(self._derivatives(n + 1))

    def taylor_of_f(self, x, n, side):
        if x == 0:
            return super().taylor_of_f(x, n, side)
        return self._taylor("f", self.given_f, x, n, side)

    def taylor_of_a(self, x, n, side):
        if x == 0:
            return super().taylor_of_a(x, n, side)
        series = self.taylor_of_f(x, n + 1, side)
        if series[0] <= Decimal(_UNDERFLOW):
            raise ValueError(
                f"control = 'local': f of {self!r} falls to zero at {x!r}, where a grows without "
                "bound; there is no expansion in powers of 1/√servers beyond order 0"
            )
        return log_derivative(series)

    def _one_sided_rate(self, x, n):
        return log_derivative(one_sided_taylor(self.given_f, x, 1, n + 1))

    def rate_jets(self, x, scales, n):
        if self.a_derivatives is not None:
            return super().rate_jets(x, scales, n)
        return self._jets_by_differences(self.given_f, log_derivative, x, scales, n)

    @property
    def a_derivatives(self):
        return self.given_a_derivatives


@dataclass(frozen=True)
class _FromLocal(_Custom):
    given_a: Any
    given_derivatives: Any
    given_laplace: Any
    given_integral: Any
    given_a_derivatives: Any
    given_gamma_min: Any
    given_breaks: Any = None
    given_at_breaks: Any = None

    control = "local"
    _builder = "from_local"

    def __post_init__(self):
        if self.given_gamma_min is not None:
            object.__setattr__(self, "given_gamma_min", _gamma_min(self.given_gamma_min))
        values = self._rate(_GRID)
        _refuse("a", values, _GRID, values < 0, "must be non-negative")
        _refuse(
            "a", values, _GRID, _falls(values, _ROUNDING), "must not decrease under local control"
        )
        self._set_up()
        if self._integral is not None:
            x = _GRID[_GRID < 1e3]
            _require_antiderivative("a", self._rate, "integral", self._integral, x, self.breaks)

    def __repr__(self):
        return f"from_local({getattr(self.given_a, '__name__', self.given_a)!s})"

    @functools.cached_property
    def _rate(self):
        return _OnArrays("a", self.given_a)

    @functools.cached_property
    def _integral(self):
        return None if self.given_integral is None else _OnArrays("integral", self.given_integral)

    @functools.cached_property
    def _takes_mpmath(self):
        try:
            return varies_smoothly(self.given_a)
        except (ImportError, *REFUSALS):
            return False

    def _vanishes_beyond(self, x):
        return float(self._rate(np.nextafter(x, math.inf))) == math.inf

    def _find_break(self):
        if self._takes_mpmath:
            return suspected_break(self.given_a, True)
        return suspected_break(lambda x: float(self._rate(np.array(x))), False)

    @functools.cached_property
    def gamma_min(self):
        if self.given_gamma_min is not None:
            return self.given_gamma_min
        if self.support < math.inf:
            return -math.inf
        return 0.0 - _limit(
            lambda x: float(self._rate(np.array(x))),
            "gamma_min: cannot be found from a; pass gamma_min = −lim a(x) to from_local",
        )

    def _log_f(self, x):
        if self._integral is not None:
            return np.where(x > self.support, -np.inf, -self._integral(np.minimum(x, self.support)))
        # Beyond, the integral of a overflows, or a is infinite: f is 0.
        with np.errstate(over="ignore"):
            finite = (x <= self.support) & (self._rate(x) * np.maximum(x, 1) < _OVERFLOW)
        values = np.full(np.shape(x), -np.inf)
        try:
            values[finite] = 0.0 - cumulative_integral(
                self._rate, x[finite], absolute=_UNSEEN, through=self.breaks
            )
        except QuadratureError as error:
            raise ValueError(
                f"the integral of a failed: {error}; give the x where a has kinks or jumps as "
                "breaks, or pass integral"
            ) from None
        return values

    def _log_ratio(self, x, step):
        inside = (x + step <= self.support) & (self._rate(x + step) < _INFINITE)
        values = np.full(np.shape(x), -np.inf)
        x = x[inside]
        total = np.zeros(len(x))
        # From one break to the next within each step; mostly there is none.
        for start, end in zip([0.0, *self.breaks], [*self.breaks, math.inf], strict=True):
            here = (x < end) & (x + step > start)
            lower = np.maximum(x[here], start)
            total[here] += integrals(self._rate, lower, np.minimum(x[here] + step, end) - lower)
        values[inside] = -total
        return values

    def _a(self, x):
        return np.where(x > self.support, np.inf, self._rate(x))

    def _rule(self, x, control):
        return self._a(x) if control == "local" else self._f(x)

    def _a_derivatives(self, n):
        return _derivatives("a", self.given_a, self.given_derivatives, n, "from_local")

    def taylor_of_a(self, x, n, side):
        if x == 0:
            return super().taylor_of_a(x, n, side)
        return self._taylor("a", self.given_a, x, n, side)

    def taylor_of_f(self, x, n, side):
        if x == 0 or n == 0:
            log_f = Decimal(float(self._log_f(np.array(x))))
            if n == 0:
                return [log_f.exp()]
            return super().taylor_of_f(x, n, side)
        rate = polynomial(*self.taylor_of_a(x, n - 1, side))
        scale = Decimal(float(self._log_f(np.array(x)))).exp()
        return list(scale * exponential_of_polynomial(-antiderivative(rate), n))

    def _one_sided_rate(self, x, n):
        return one_sided_taylor(self.given_a, x, 1, n)

    def rate_jets(self, x, scales, n):
        if self.a_derivatives is not None:
            return super().rate_jets(x, scales, n)
        return self._jets_by_differences(self.given_a, None, x, scales, n)

    @property
    def a_derivatives(self):
        return self.given_a_derivatives


def _falls(values, rounding):
    """Return where a value is below the one before it, by more than rounding; they may be ±∞."""
    rises = values[1:] + rounding * np.abs(values[1:]) >= values[:-1]
    return np.concatenate([[False], ~rises])


@dataclass(frozen=True)
class _OnArrays:
    """A function as a map of float arrays to float arrays of the same shape."""

    name: str
    function: Any

    def __post_init__(self):
        if not callable(self.function):
            raise ValueError(f"{self.name} = {self.function!r}: must be a function of x")

    def __call__(self, x):
        x = np.asarray(x, dtype=float)
        # What overflows becomes infinite or zero, which is checked where it matters.
        with np.errstate(all="ignore"):
            try:
                values = np.asarray(self.function(x))
                values = None if np.iscomplexobj(values) else values.astype(float)
            except (TypeError, ValueError, AttributeError, ArithmeticError):
                values = None
            if values is None or values.shape not in (x.shape, ()):
                values = np.fromiter(self._one_by_one(x), float, x.size).reshape(x.shape)
        values = np.broadcast_to(values, x.shape)
        if np.any(np.isnan(values)):
            first = float(x[np.isnan(values)].flat[0])
            raise ValueError(f"{self.name}({first!r}) = nan: must be a number")
        return values

    def _one_by_one(self, x):
        for u in x.flat:
            try:
                yield float(self.function(float(u)))
            except (TypeError, ValueError, ArithmeticError) as error:
                raise ValueError(
                    f"{self.name}({float(u)!r}): must be a real number or infinite, but there is "
                    f"{type(error).__name__}: {error}"
                ) from error


def _refuse(name, values, x, wrong, allowed):
    if np.any(wrong):
        first = int(np.argmax(wrong))
        before = f" after {name}({float(x[first - 1])!r}) = {float(values[first - 1])!r}"
        raise ValueError(
            f"{name}({float(x[first])!r}) = {float(values[first])!r}"
            + (before if "crease" in allowed else "")
            + f": {name} {allowed}"
        )


def _require_antiderivative(name, rate, other_name, antiderivative, x, breaks=()):
    with np.errstate(over="ignore"):
        x = x[rate(x) * np.maximum(x, 1) < _OVERFLOW]
    try:
        expected = cumulative_integral(rate, x, 1e-9, through=breaks)
    except QuadratureError as error:
        raise ValueError(f"{name}: its integral failed: {error}") from None
    values = antiderivative(x)
    wrong = ~(np.abs(values - expected) <= 1e-6 * (1 + expected))
    if np.any(wrong):
        first = int(np.argmax(wrong))
        raise ValueError(
            f"{other_name} at x = {float(x[first])!r} is {float(values[first])!r}: must be "
            f"{float(expected[first])!r}, the integral of {name}"
        )


def _gamma_min(value):
    return checks.scalar("gamma_min", value, at_most=0, allow_infinite=True)


def _derivatives(name, function, given, n, builder):
    """Derivatives 0 … n at 0 as given, or by differences at two precisions that must agree."""
    advice = f"pass derivatives_at_zero of {name} to {builder}"
    if given is not None:
        values = np.asarray(given(n) if callable(given) else given, dtype=float)
        if values.ndim != 1 or len(values) < n + 1:
            raise ValueError(
                f"derivatives_at_zero gives {values.size} numbers where derivatives 0 … {n} of "
                f"{name} are needed"
            )
        if not np.all(np.isfinite(values[: n + 1])):
            raise ValueError(f"derivatives_at_zero = {values.tolist()}: must be finite numbers")
        return values[: n + 1]
    try:
        import mpmath
    except ImportError:
        raise ValueError(f"mpmath is not installed: {advice}") from None
    try:
        with mpmath.workdps(_DIGITS):
            first = mpmath.mpf(function(mpmath.mpf(0)))
        rest = one_sided_taylor(function, mpmath.mpf(0), 1, n)[1:] if n else []
        precise = varies_smoothly(function)
    except NotSmooth as error:
        if not varies_smoothly(function):
            raise ValueError(f"{name} computes in floating point inside: {advice}") from None
        raise ValueError(_what_comes_instead(name, error, advice)) from None
    except REFUSALS:
        raise ValueError(f"{name} does not accept mpmath numbers: {advice}") from None
    if not precise:
        raise ValueError(f"{name} computes in floating point inside: {advice}")
    return np.array([float(math.factorial(k) * c) for k, c in enumerate([first, *rest])])


def _what_comes_instead(name, error, advice):
    start = f"derivative {error.order} of {name} at 0 does not settle"
    if error.power is None:
        return f"{start} at high precision: {advice} as far as there are some"
    power, last = error.power, math.ceil(error.power - 1e-6)
    return (
        f"{start}: {name} has a term of size x^{power:.4g} there. Expansions in 1/√servers hold "
        f"to order {last} only, for which {advice} as far as order {last - 1}; after that comes "
        f"servers^({-(1 + power) / 2:.4g})"
    )


def _log_value(f, x):
    """Return ln f(x) at any size of f(x), for an f that accepts mpmath numbers."""
    import mpmath

    with mpmath.workdps(_DIGITS):
        value = f(mpmath.mpf(x))
        return float(mpmath.log(value)) if value else -math.inf


class _Vanishes(ValueError):
    """A profile vanishes where it was not said to."""


def _log_slope(f, x):
    """Return −(ln f(2x) − ln f(x))/x, the mean of a over (x, 2x), at a precision to spare."""
    import mpmath

    with mpmath.workdps(_DIGITS):
        first, second = mpmath.mpf(f(mpmath.mpf(x))), mpmath.mpf(f(mpmath.mpf(2 * x)))
        if second == 0 and x < 2.0**60:
            raise _Vanishes(
                f"f({2 * x:g}) = 0: pass the x beyond which f vanishes to from_global, as support"
            )
        if second == 0:
            raise ArithmeticError("f underflows")
        return float((mpmath.log(first) - mpmath.log(second)) / x)


def _limit(rate, advice):
    """Return the limit of a non-negative rate at infinity: a number, or ∞ if it keeps growing."""
    values = []
    with np.errstate(all="ignore"):
        for k in range(0, 1000, 8):
            try:
                values.append(rate(2.0**k))
            except _Vanishes:
                raise
            except (ImportError, *REFUSALS):
                break
    # Some functions stop being numbers far out: what they do before may be enough.
    if len(values) < 6:
        raise ValueError(advice)
    last, before = values[-1], values[-6]
    if last <= 1e-12 and last <= before:
        return 0.0
    if np.isposinf(last) or last >= before + 1:
        return math.inf
    if abs(last - before) <= 1e-15 * last:
        return float(last)
    raise ValueError(advice)


def _complex_step_rate(f, x):
    """Return −f′/f by a complex step, whose error is of rounding size, checked by differences."""
    advice = "a(x) cannot be found from f: pass a to from_global"
    step = 1e-30

    def one(u):
        value = complex(f(complex(u, step)))
        return -value.imag / step / value.real

    width = 1e-4 * (1 + np.ravel(x))
    with np.errstate(all="ignore"):
        try:
            rates = np.array([one(float(u)) for u in np.ravel(x)])
            ends = [np.array([float(f(float(v))) for v in np.ravel(x) + d]) for d in (0, width)]
        except REFUSALS:
            raise ValueError(advice) from None
        slopes = -np.diff(np.log(ends), axis=0)[0] / width
    usable = np.isfinite(slopes)
    wrong = np.abs(rates - slopes) > 1e-2 * (np.abs(rates) + np.abs(slopes)) + 1e-3
    if np.any(~np.isfinite(rates)) or np.any(wrong & usable):
        raise ValueError(advice)
    return rates.reshape(np.shape(x)) + 0.0
