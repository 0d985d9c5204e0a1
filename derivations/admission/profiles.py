"""Scaling profiles from SymPy expressions: one profile for a derivation and for numbers.

`from_expression` takes f as an expression; everything else follows from it::

    x = sympy.symbols("x", positive=True)
    profile = from_expression((1 + x) * sympy.exp(-x), x)
    profile.a                    # x/(x + 1)
    profile.gamma_min            # -1
    profile.laplace              # in profile.gamma
    qcore.admission.from_global(**profile.global_arguments())

Nothing here knows `qcore`; the arguments are plain functions and numbers.
"""

import functools
import itertools
import math
import signal
import sys
import threading
from dataclasses import dataclass

import mpmath
import numpy as np
import sympy
from sympy import Expr, Symbol, oo

_DIGITS = 25
_MOST_DIGITS = 800
_AGREEMENT = mpmath.mpf("1e-20")
_GRID = (0.0, *(10.0 ** (k / 10 - 3) for k in range(61)))
_ROUNDING = 8 * sys.float_info.epsilon
_HUGE = 1e12


def from_expression(expression, variable, support=oo, seconds=4.0):
    """Return the profile with a given f.

    Parameters
    ----------
    expression : sympy.Expr
        f as an expression in ``variable``: non-negative, non-increasing, 1 at zero. It may contain
        further symbols, the parameters of a family; see `SymbolicProfile.with_values`. Where it
        has none it may be made with Piecewise, Max, Min, Abs or Heaviside, and its kinks and
        jumps are found.
    variable : sympy.Symbol
        The scaled number of waiting customers, x >= 0.
    support : sympy.Expr, optional
        The place beyond which f vanishes; found if f is piecewise.
    seconds : float, optional
        Processor time that SymPy may take to look for the Laplace transform; 0 if it need not try.

    Raises
    ------
    ValueError
        If f does not start at 1, or, where it has no further symbols, is negative or increases.
    """
    if not isinstance(variable, Symbol):
        raise ValueError(f"variable = {variable!r}: must be a symbol")
    profile = SymbolicProfile(
        sympy.sympify(expression), variable, sympy.sympify(support), seconds
    )
    start = _at_zero(profile.f, variable)
    if sympy.simplify(start - 1) != 0:
        raise ValueError(f"f = {profile.f}: f(0) is {start}, must be 1")
    if not profile.parameters:
        profile = profile._with_support_found()
        _require_decreasing(profile)
    return profile


@dataclass(frozen=True, eq=False)
class SymbolicProfile:
    """A scaling profile in symbols, made by `from_expression`.

    Attributes
    ----------
    f : sympy.Expr
        The profile, in ``variable``.
    variable : sympy.Symbol
        The scaled number of waiting customers.
    support : sympy.Expr
        The place beyond which f vanishes.
    seconds : float
        Processor time that SymPy may take to look for the Laplace transform.
    """

    f: Expr
    variable: Symbol
    support: Expr
    seconds: float

    @property
    def parameters(self):
        """The symbols of f other than its variable."""
        return (self.f.free_symbols | self.support.free_symbols) - {self.variable}

    @functools.cached_property
    def pieces(self):
        """Tuples (start, end, expression, closed) on which f is smooth, up to the support.

        ``closed`` says whether f(end) belongs to the piece. With parameters f is one piece.
        """
        places = [] if self.parameters else self._places()
        ends = [*places, self.support]
        starts = [sympy.Integer(0), *places]
        branches = [
            self._branch((start + end) / 2 if end != oo else start + 1)
            for start, end in zip(starts, ends, strict=True)
        ]
        return tuple(
            (start, end, f, self._is_closed(end, f))
            for start, end, f in zip(starts, ends, branches, strict=True)
        )

    @property
    def breaks(self):
        """The kinks and jumps of f below its support."""
        return tuple(end for _, end, _, _ in self.pieces[:-1])

    @functools.cached_property
    def a(self):
        """The logarithmic slope -f'/f, simplified."""
        return self._joined(self._rates)

    @functools.cached_property
    def _rates(self):
        """a on each piece."""
        x = self._positive

        def slope(f):
            log_f = sympy.expand_log(sympy.log(f.subs(self.variable, x)))
            return sympy.simplify(-sympy.diff(log_f, x)).subs(x, self.variable)

        return [slope(f) for _, _, f, _ in self.pieces]

    def derivatives_at_zero(self, n):
        """Return f(0), f'(0), ..., f^(n)(0), as limits from the right."""
        first = self.pieces[0][2]
        return [
            _at_zero(first.diff(self.variable, k), self.variable) for k in range(n + 1)
        ]

    def _places(self):
        """Where conditions in f change, in order: found by solving each for equality."""
        x = self._real
        if self.f.has(sympy.floor, sympy.ceiling, sympy.frac, sympy.Mod):
            raise ValueError(
                f"f = {self.f}: must be smooth but for a finite number of kinks and jumps"
            )
        places = set()
        for relation in self._piecewise.atoms(sympy.core.relational.Relational):
            try:
                roots = sympy.solve(
                    (relation.lhs - relation.rhs).subs(self.variable, x), x
                )
            except NotImplementedError:
                raise ValueError(
                    f"f = {self.f}: SymPy cannot say where {relation} changes"
                ) from None
            places |= {root for root in roots if 0 < root < self.support}
        places = sorted(places)
        return (
            [
                place
                for place, before, after in zip(
                    places, [0, *places], [*places[1:], places[-1] + 2], strict=False
                )
                if sympy.simplify(
                    self._branch((before + place) / 2)
                    - self._branch((place + after) / 2)
                )
                != 0
            ]
            if places
            else []
        )

    def _is_closed(self, end, f):
        if end == oo or (end == self.support and not self._ends_open):
            return True
        value = self._piecewise.subs(self.variable, end)
        if sympy.simplify(value - f.subs(self.variable, end)) == 0:
            return True
        after = self._branch(end + sympy.Rational(1, 10**9))
        if sympy.simplify(value - after.subs(self.variable, end)) == 0:
            return False
        raise ValueError(
            f"f = {self.f}: f({end}) is {value}, must be the limit of f from one side"
        )

    @property
    def _ends_open(self):
        return bool(self._piecewise.atoms(sympy.Piecewise))

    @functools.cached_property
    def _piecewise(self):
        """f with all its conditions in Piecewise."""
        kinds = (sympy.Max, sympy.Min, sympy.Heaviside, sympy.Abs, sympy.sign)
        if self.parameters or not self.f.has(*kinds):
            return self.f
        real = self.f.subs(self.variable, self._real)
        return real.rewrite(sympy.Piecewise).subs(self._real, self.variable)

    def _branch(self, place):
        """f with every condition decided as it is at a place."""

        def decided(piecewise):
            for expression, condition in piecewise.args:
                if condition.subs(self.variable, place) == True:  # noqa: E712
                    return expression
            raise ValueError(f"f = {self.f}: is not defined at {place}")

        return self._piecewise.replace(
            lambda part: isinstance(part, sympy.Piecewise), decided
        )

    def _with_support_found(self):
        """The profile whose support ends where the first piece that is zero begins."""
        for start, _, f, _ in self.pieces:
            if f == 0:
                return SymbolicProfile(self.f, self.variable, start, self.seconds)
        return self

    def _joined(self, expressions):
        """Return one expression made of one for each piece."""
        cases = [
            (expression, self.variable <= end if closed else self.variable < end)
            for expression, (_, end, _, closed) in zip(
                expressions, self.pieces, strict=True
            )
        ]
        cases[-1] = (cases[-1][0], True)
        return sympy.Piecewise(*cases) if len(cases) > 1 else expressions[0]

    @functools.cached_property
    def gamma_min(self):
        """-lim a(x), the infimum of gamma with a finite transform; None if SymPy cannot tell."""
        if self.support != oo:
            return -oo
        x = self._positive
        limit = _limit(self._rates[-1].subs(self.variable, x), x)
        return None if limit is None else -limit

    @functools.cached_property
    def finite_at_gamma_min(self):
        """Whether the transform is finite at ``gamma_min`` too.

        exp(-gamma_min x) f(x) falls like x to the power -lim x (a(x) + gamma_min), and must fall
        faster than 1/x. If the power is exactly 1, or SymPy does not find it, the answer is False.
        """
        if self.gamma_min is None or self.gamma_min == -oo:
            return False
        x = self._positive
        power = _limit(x * (self._rates[-1].subs(self.variable, x) + self.gamma_min), x)
        return power is not None and bool((power > 1) == True)  # noqa: E712

    @functools.cached_property
    def gamma(self):
        """The symbol in which ``laplace`` is written."""
        return Symbol("gamma", real=True)

    @functools.cached_property
    def laplace(self):
        """The Laplace transform of f, in ``gamma``.

        None if SymPy does not find it in time, or finds something that a numerical integral
        contradicts. (It is looked for in the main thread only, where it can be interrupted.)
        """
        x = self._positive
        # SymPy needs to know that the integral converges: write gamma = gamma_min + excess.
        excess = sympy.Dummy("excess", positive=True)
        shifted = self.gamma_min is not None and self.gamma_min.is_finite
        gamma = self.gamma_min + excess if shifted else self.gamma

        def transform():
            return sum(
                sympy.integrate(
                    sympy.powsimp(f.subs(self.variable, x) * sympy.exp(-gamma * x)),
                    (x, start, end),
                    conds="none",
                )
                for start, end, f, _ in self.pieces
            )

        found = _in_time(transform, self.seconds)
        if (
            found is None
            or found.has(sympy.Integral)
            or found.has(sympy.zoo, sympy.nan, oo)
        ):
            return None
        found = sympy.simplify(found)
        if shifted:
            found = sympy.simplify(found.subs(excess, self.gamma - self.gamma_min))
        return found if self.parameters or self._confirmed(found) else None

    def laplace_at(self, gamma, derivative=0):
        """Return a derivative of the transform at a number, as an mpmath number.

        From ``laplace`` where it is known and can be evaluated, else by quadrature. Either way two
        computations, at two precisions, have to agree to 20 digits.
        """
        self._require_numbers()
        if self.laplace is not None:
            value = _settled(self._transform_derivative(derivative), gamma)
            if value is not None:
                return value
        return self._integral(gamma, derivative)

    def with_values(self, values):
        """Return the profile with numbers in the place of further symbols."""
        return from_expression(
            self.f.subs(values), self.variable, self.support.subs(values), self.seconds
        )

    def global_arguments(self):
        """Return what ``qcore.admission.from_global`` takes, as keyword arguments."""
        self._require_numbers()
        arguments = {
            "f": self._numeric_f,
            "derivatives_at_zero": lambda n: list(
                map(float, self.derivatives_at_zero(n))
            ),
            "laplace": lambda gamma, derivative: float(
                self.laplace_at(gamma, derivative)
            ),
            "support": float(self.support),
            "breaks": tuple(map(float, self.breaks)),
            "derivatives_at_breaks": self._limits_at_breaks(
                [f for _, _, f, _ in self.pieces]
            ),
        }
        if self.support == oo:  # elsewhere a may be infinite at the end
            arguments["a"] = _numeric(self.a, self.variable)
            arguments["a_derivatives"] = self._a_derivatives
        if self.gamma_min is not None:
            arguments["gamma_min"] = float(self.gamma_min)
            arguments["finite_at_gamma_min"] = self.finite_at_gamma_min
        return arguments

    def local_arguments(self):
        """Return what ``qcore.admission.from_local`` takes, as keyword arguments."""
        self._require_numbers()
        if self.support != oo and not self._at_support() > 0:
            raise ValueError(
                f"support = {self.support}: f must not fall to 0 there under local control"
            )
        for (_, end, f, _), (_, _, after, _) in itertools.pairwise(self.pieces):
            if sympy.simplify((f - after).subs(self.variable, end)) != 0:
                raise ValueError(
                    f"f = {self.f}: jumps at {end}, where a is infinite: no local control"
                )
        minus_log = _numeric(-self._log_f(self._positive), self._positive)
        arguments = {
            "a": _numeric(self._a_up_to_support, self.variable),
            "derivatives_at_zero": lambda n: [
                float(_at_zero(self._rates[0].diff(self.variable, k), self.variable))
                for k in range(n + 1)
            ],
            "breaks": tuple(float(end) for _, end, _, _ in self.pieces if end != oo),
            "derivatives_at_breaks": self._limits_at_breaks(self._rates),
            "laplace": lambda gamma, derivative: float(
                self.laplace_at(gamma, derivative)
            ),
            "integral": minus_log,
            "a_derivatives": self._a_derivatives,
        }
        if self.gamma_min is not None:
            arguments["gamma_min"] = float(self.gamma_min)
        return arguments

    def _limits_at_breaks(self, expressions):
        """Return the function of (x, n, side) that `qcore` takes as ``derivatives_at_breaks``."""
        x = self.variable

        def limits(place, n, side):
            for (start, end, _, _), expression in zip(
                self.pieces, expressions, strict=True
            ):
                exact, direction = (end, "-") if side < 0 else (start, "+")
                if float(exact) == place:
                    derivatives = [expression.diff(x, k) for k in range(n + 1)]
                    return [float(_at(d, x, exact, direction)) for d in derivatives]
            raise ValueError(f"x = {place!r}: f = {self.f} has no break there")

        return limits

    def _at_support(self):
        return _at(self.pieces[-1][2], self.variable, self.support, "-")

    @property
    def _a_up_to_support(self):
        if self.support == oo:
            return self.a
        inside = (
            self.variable <= self.support
            if self.pieces[-1][3]
            else self.variable < self.support
        )
        return sympy.Piecewise((self.a, inside), (oo, True))

    @functools.cached_property
    def _positive(self):
        return sympy.Dummy("x", positive=True)

    @functools.cached_property
    def _real(self):
        return sympy.Dummy("x", real=True)

    def _log_f(self, x):
        logarithms = [
            sympy.expand_log(sympy.log(f.subs(self.variable, self._positive)))
            for _, _, f, _ in self.pieces
        ]
        joined = self._joined(
            [log_f.subs(self._positive, self.variable) for log_f in logarithms]
        )
        return joined.subs(self.variable, x)

    @functools.cached_property
    def _numeric_f(self):
        """f as a function, through its logarithm, which neither overflows nor gives 0 times oo."""
        logarithm = _numeric(self._log_f(self._positive), self._positive)

        # Where f is 0 at the end of its support already, though its limit may not be.
        end = math.inf if self.pieces[-1][3] else float(self.support)

        def f(x):
            if isinstance(x, mpmath.mpf | mpmath.mpc):
                if mpmath.re(x) >= end:
                    return mpmath.mpf(0)
                value = logarithm(x)
                # mpmath would carry as many digits as the exponent has.
                return mpmath.exp(value) if mpmath.re(value) > -_HUGE else mpmath.mpf(0)
            values = np.exp(logarithm(x))
            return values if end == math.inf else np.where(x < end, values, 0.0)

        return f

    def _a_derivatives(self, x, n):
        x = np.asarray(x, dtype=float)
        return np.array([self._a_derivative(k)(x) for k in range(n + 1)])

    def _a_derivative(self, k):
        return _numeric(
            self._joined(
                [sympy.simplify(a.diff(self.variable, k)) for a in self._rates]
            ),
            self.variable,
        )

    @functools.cache  # noqa: B019
    def _transform_derivative(self, n):
        return sympy.lambdify(self.gamma, self.laplace.diff(self.gamma, n), "mpmath")

    def _integral(self, gamma, derivative):
        logarithm = _numeric(self._log_f(self._positive), self._positive)

        def weighted(x, gamma):
            exponent = logarithm(x) - gamma * x
            return mpmath.exp(exponent) if exponent > -_HUGE else mpmath.mpf(0)

        def at_precision(gamma):
            end = mpmath.inf if self.support == oo else mpmath.mpmathify(self.support)
            places = {0, 1, 4, 16} | {mpmath.mpmathify(b) for b in self.breaks}
            points = [*sorted(place for place in places if place < end), end]
            return mpmath.quad(
                lambda x: (-x) ** derivative * weighted(x, gamma), points
            )

        value = _settled(at_precision, gamma, most=200)
        if value is None:
            raise ValueError(
                f"gamma = {gamma!r}: the Laplace transform of {self.f} could not be integrated"
            )
        return value

    def _confirmed(self, transform):
        above = 0 if self.gamma_min in (None, -oo) else float(self.gamma_min)
        value = sympy.lambdify(self.gamma, transform, "mpmath")
        for gamma in (above + 0.7, above + 2.3):
            found, expected = _settled(value, gamma), self._integral(gamma, 0)
            if found is None or abs(found - expected) > 1e-15 * abs(expected):
                return False
        return True

    def _require_numbers(self):
        if self.parameters:
            names = ", ".join(sorted(map(str, self.parameters)))
            raise ValueError(f"f = {self.f}: give numbers for {names} by with_values")


def _at_zero(expression, x):
    return _at(expression, x, sympy.Integer(0), "+")


def _at(expression, x, place, direction):
    """Return the limit of an expression at a place, from one direction."""
    value = expression.subs(x, place)
    if not (value.is_finite or value.free_symbols) or value.has(
        sympy.nan, sympy.zoo, oo
    ):
        value = sympy.limit(expression, x, place, direction)
    if value.is_finite is False:
        raise ValueError(f"{expression}: must be finite at {place}")
    return value


def _limit(expression, x):
    """Return the limit at infinity, or None if there is none or SymPy does not find it."""
    try:
        value = sympy.limit(expression, x, oo)
    except (NotImplementedError, ValueError):
        return None
    return None if value.has(sympy.Limit, sympy.AccumBounds, sympy.nan) else value


class _TimeIsUp(BaseException):
    """Not an Exception, so that nothing inside SymPy catches it."""


def _in_time(compute, seconds):
    """Return what ``compute`` returns, or None if it takes too long or does not know how.

    Processor time is counted, so that the answer does not depend on what else the machine does.
    """
    if seconds <= 0 or threading.current_thread() is not threading.main_thread():
        return None

    def stop(*_):
        raise _TimeIsUp

    # In a browser there is no such clock; the reader can interrupt it.
    has_clock = hasattr(signal, "setitimer")
    before = signal.signal(signal.SIGVTALRM, stop) if has_clock else None
    if has_clock:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        return compute()
    except (_TimeIsUp, NotImplementedError, ValueError, TypeError, AttributeError):
        return None
    finally:
        if has_clock:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)


def _settled(function, x, most=_MOST_DIGITS):
    """Return function(x) once two precisions agree, or None if they do not or it has no value."""
    digits, before = _DIGITS, None
    while digits <= most:
        with mpmath.workdps(digits):
            try:
                value = mpmath.mpmathify(function(mpmath.mpf(x)))
            except (ArithmeticError, ValueError, mpmath.libmp.NoConvergence):
                return None
            except (NameError, TypeError):  # mpmath lacks a function that SymPy uses
                return None
            if not mpmath.isfinite(value):
                return None
            value = mpmath.re(value)
            if before is not None and abs(value - before) <= _AGREEMENT * abs(value):
                return value
        digits, before = 2 * digits, value
    return None


def _numeric(expression, variable):
    """Return an expression as a function of numbers, arrays and mpmath numbers."""
    precise = sympy.lambdify(variable, expression, "mpmath")

    @functools.cache
    def on_arrays():
        return sympy.lambdify(variable, expression, ["scipy", "numpy"])

    def evaluate(x):
        if isinstance(x, mpmath.mpf | mpmath.mpc):
            return precise(x)
        with np.errstate(all="ignore"):
            values = on_arrays()(
                np.asarray(x) if np.iscomplexobj(x) else np.asarray(x, float)
            )
        return np.broadcast_to(values, np.shape(x)) if np.ndim(x) else values

    return evaluate


def _require_decreasing(profile):
    grid = [x for x in _GRID if x <= profile.support]
    values = [_value_at(profile._numeric_f, x) for x in grid]
    for x, value, before in zip(grid[1:], values[1:], values, strict=False):
        if math.isnan(value) or value < 0:
            raise ValueError(
                f"f = {profile.f}: f({x:g}) is {value:g}, must be at least 0"
            )
        if value > before * (1 + _ROUNDING):
            raise ValueError(
                f"f = {profile.f}: must not increase, but does before x = {x:g}"
            )


def _value_at(function, x):
    """Return function(x) as a float, NaN where it has no value."""
    try:
        return float(mpmath.re(function(mpmath.mpf(x))))
    except (ArithmeticError, ValueError):
        return math.nan
