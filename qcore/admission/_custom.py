"""Profiles given by a function of one's own: `from_global` and `from_local`."""

import functools
import math

import numpy as np

from qcore._numerics import checks
from qcore._numerics.quadrature import QuadratureError, cumulative_integral, integrals
from qcore.admission._profiles import ScalingProfile, derivatives_of_a

# Where a function is checked: 0, and 1e-6 to 1e6 in steps of a factor of about 1.3.
_GRID = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 97)])
_ROUNDING = 8 * np.finfo(float).eps
_DIGITS = 50
_UNDERFLOW = 1e-290
_OVERFLOW = 1e300
_UNSEEN = 1e-17  # in ln f
# How functions refuse numbers that are no floats.
_REFUSALS = (TypeError, ValueError, AttributeError, ArithmeticError)


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
):
    r"""Build a profile from f, for global control by default.

    .. math:: q_s(n) = p_s(0) \cdots p_s(n) = f\bigl((n + 1)/\sqrt{s}\bigr)

    Parameters
    ----------
    f : callable
        f(x) for x ≥ 0: non-negative, non-increasing, f(0) = 1. It may take numbers or arrays.
    derivatives_at_zero : callable or sequence, optional
        ``derivatives_at_zero(n)`` gives f(0), f′(0), …, f⁽ⁿ⁾(0); or those numbers as far as known.
        Without it f must accept mpmath numbers, and they come from 50-digit differences.
    laplace : callable, optional
        ``laplace(gamma, derivative)``, the transform of f and its derivatives. Without it they
        are integrated numerically, which asks for an f that is smooth for x > 0.
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
        The x beyond which f vanishes.

    Raises
    ------
    ValueError
        If f(0) ≠ 1, or f increases, is negative or is not a number somewhere on a grid of points
        from 0 to 10⁶; or if something cannot be found numerically: the message says what to pass.

    Examples
    --------
    >>> import mpmath
    >>> from qcore.admission import from_global
    >>> profile = from_global(lambda x: mpmath.exp(-x - x**2))
    >>> [round(float(value), 12) for value in profile.derivatives_at_zero(3)]
    [1.0, -1.0, -1.0, 5.0]
    >>> profile.gamma_min
    -inf
    """
    profile = _FromGlobal(
        f, derivatives_at_zero, laplace, a, gamma_min, bool(finite_at_gamma_min), support
    )
    return _with_a_derivatives(profile, a_derivatives)


def from_local(
    a,
    derivatives_at_zero=None,
    laplace=None,
    *,
    integral=None,
    a_derivatives=None,
    gamma_min=None,
):
    r"""Build a profile from its rate of decay a, for local control by default.

    .. math:: p_s(k) = \frac{1}{1 + a\bigl((k + 1)/\sqrt{s}\bigr)/\sqrt{s}}

    Parameters
    ----------
    a : callable
        a(x) for x ≥ 0: non-negative and non-decreasing. It may take numbers or arrays.
    derivatives_at_zero : callable or sequence, optional
        ``derivatives_at_zero(n)`` gives a(0), a′(0), …, a⁽ⁿ⁾(0); or those numbers as far as known.
        Without it a must accept mpmath numbers, and they come from 50-digit differences.
    laplace : callable, optional
        ``laplace(gamma, derivative)``, the transform of f = exp(−∫a) and its derivatives.
    integral : callable, optional
        The integral of a from 0 to x; without it a is integrated numerically.
    a_derivatives : callable, optional
        ``a_derivatives(x, n)`` gives a(x), a′(x), …, a⁽ⁿ⁾(x) for an array x, as n + 1 rows. Used by
        the expansions of `qcore.qed` under local control; without it a must accept mpmath numbers.
    gamma_min : float, optional
        −lim a(x). Without it a must settle within x < 2^1000.

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
    profile = _FromLocal(a, derivatives_at_zero, laplace, integral, gamma_min)
    return _with_a_derivatives(profile, a_derivatives)


def _with_a_derivatives(profile, a_derivatives):
    if a_derivatives is not None:
        if not callable(a_derivatives):
            raise ValueError(f"a_derivatives = {a_derivatives!r}: must be a function of x and n")
        profile.a_derivatives = a_derivatives
    return profile


class _Custom(ScalingProfile):
    def _set_laplace(self, laplace):
        self._given_laplace = laplace

    def _laplace(self, gamma, n):
        if self._given_laplace is None:
            return super()._laplace(gamma, n)
        value = float(self._given_laplace(gamma, n))
        if not (math.isfinite(value) and (-1) ** n * value > 0):
            raise ValueError(
                f"laplace({gamma!r}, {n}) = {value!r}: must be a finite number with the sign "
                f"of (-1)**derivative"
            )
        return value


class _FromGlobal(_Custom):
    control = "global"

    def __init__(self, f, derivatives, laplace, a, gamma_min, finite_at_gamma_min, support):
        self.support = checks.scalar("support", support, above=0, allow_infinite=True)
        self._given_f = f
        self._function = _on_arrays("f", f)
        self._given_derivatives = derivatives
        self._set_laplace(laplace)
        self._rate = None if a is None else _on_arrays("a", a)
        values = self._f(_GRID)
        _refuse("f", values, _GRID, values < 0, "must be non-negative")
        if abs(values[0] - 1) > _ROUNDING:
            raise ValueError(f"f(0) = {float(values[0])!r}: must be 1")
        _refuse("f", values, _GRID, _falls(-values, _ROUNDING), "must not increase")
        self._gamma_min = None if gamma_min is None else _gamma_min(gamma_min)
        if gamma_min is None and self.support < math.inf:
            self._gamma_min = -math.inf
        self.finite_at_gamma_min = finite_at_gamma_min
        if self._rate is not None:
            x = _GRID[(self.support >= _GRID) & (values > _UNDERFLOW)]
            _require_antiderivative("a", self._rate, "−ln f", lambda u: -np.log(self._f(u)), x)

    def __repr__(self):
        return f"from_global({getattr(self._given_f, '__name__', self._given_f)!s})"

    @functools.cached_property
    def _takes_mpmath(self):
        try:
            return math.isfinite(_log_value(self._given_f, 0.5)) and varies_smoothly(self._given_f)
        except (ImportError, *_REFUSALS):
            return False

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

    @property
    def gamma_min(self):
        if self._gamma_min is None:
            self._gamma_min = 0.0 - _limit(
                self._a_at if self._rate else lambda x: _log_slope(self._given_f, x),
                "gamma_min: cannot be found from f; pass gamma_min = −lim a(x) to from_global",
            )
        return self._gamma_min

    def _a_at(self, x):
        return float(self._rate(np.array(x)))

    def resolve_control(self, control=None):
        control = super().resolve_control(control)
        if control == "local":
            x = _GRID[(self.support >= _GRID) & (self._f(_GRID) > _UNDERFLOW)]
            values = self._a(x)
            _refuse("a", values, x, _falls(values, 1e-9), "must not decrease under local control")
        return control

    def _f(self, x):
        return np.where(x > self.support, 0.0, self._function(np.minimum(x, self.support)))

    def _log_f(self, x):
        values = self._f(x)
        with np.errstate(divide="ignore"):
            logarithms = np.log(values)
        if self._takes_mpmath:
            for index in np.argwhere((values < _UNDERFLOW) & (x <= self.support)):
                logarithms[tuple(index)] = _log_value(self._given_f, float(x[tuple(index)]))
        return logarithms

    def _log_ratio(self, x, step):
        before, after = self._log_f(x), self._log_f(x + step)
        gone = np.isneginf(after)
        values = np.where(gone, -np.inf, np.where(gone, 0.0, after) - np.where(gone, 0.0, before))
        if self._rate:
            # A difference that does not cancel is as good as the integral, which may be improper.
            near = values > -1
            try:
                values[near] = -integrals(self._rate, x[near], step)
            except QuadratureError as error:
                raise ValueError(f"the integral of a failed: {error}; pass another a") from None
        return values

    def _a(self, x):
        inside = np.minimum(x, self.support)
        values = self._rate(inside) if self._rate else _complex_step_rate(self._given_f, inside)
        return np.where(x > self.support, np.inf, values)

    def _derivatives(self, n):
        values = _derivatives("f", self._given_f, self._given_derivatives, n, "from_global")
        if abs(values[0] - 1) > _ROUNDING:
            raise ValueError(f"derivatives_at_zero = {values.tolist()}: must begin with f(0) = 1")
        return values

    def _a_derivatives(self, n):
        return derivatives_of_a(self._derivatives(n + 1))


class _FromLocal(_Custom):
    control = "local"

    def __init__(self, a, derivatives, laplace, integral, gamma_min):
        self._given_a = a
        self._rate = _on_arrays("a", a)
        self._given_derivatives = derivatives
        self._set_laplace(laplace)
        self._integral = None if integral is None else _on_arrays("integral", integral)
        values = self._rate(_GRID)
        _refuse("a", values, _GRID, values < 0, "must be non-negative")
        _refuse(
            "a", values, _GRID, _falls(values, _ROUNDING), "must not decrease under local control"
        )
        self._gamma_min = None if gamma_min is None else _gamma_min(gamma_min)
        if self._integral is not None:
            x = _GRID[_GRID < 1e3]
            _require_antiderivative("a", self._rate, "integral", self._integral, x)

    def __repr__(self):
        return f"from_local({getattr(self._given_a, '__name__', self._given_a)!s})"

    @property
    def gamma_min(self):
        if self._gamma_min is None:
            self._gamma_min = 0.0 - _limit(
                lambda x: float(self._rate(np.array(x))),
                "gamma_min: cannot be found from a; pass gamma_min = −lim a(x) to from_local",
            )
        return self._gamma_min

    def _log_f(self, x):
        if self._integral is not None:
            return -self._integral(x)
        # Beyond, the integral of a overflows, or a is infinite: f is 0.
        with np.errstate(over="ignore"):
            finite = self._rate(x) * np.maximum(x, 1) < _OVERFLOW
        values = np.full(np.shape(x), -np.inf)
        try:
            values[finite] = 0.0 - cumulative_integral(self._rate, x[finite], absolute=_UNSEEN)
        except QuadratureError as error:
            raise ValueError(f"the integral of a failed: {error}; pass integral") from None
        return values

    def _a(self, x):
        return self._rate(x)

    def _a_derivatives(self, n):
        return _derivatives("a", self._given_a, self._given_derivatives, n, "from_local")


def _falls(values, rounding):
    """Return where a value is below the one before it, by more than rounding; they may be ±∞."""
    rises = values[1:] + rounding * np.abs(values[1:]) >= values[:-1]
    return np.concatenate([[False], ~rises])


def _on_arrays(name, function):
    """Return ``function`` as a map of float arrays to float arrays of the same shape."""
    if not callable(function):
        raise ValueError(f"{name} = {function!r}: must be a function of x")

    def one_by_one(x):
        for u in x.flat:
            try:
                yield float(function(float(u)))
            except (TypeError, ValueError, ArithmeticError) as error:
                raise ValueError(
                    f"{name}({float(u)!r}): must be a real number or infinite, but there is "
                    f"{type(error).__name__}: {error}"
                ) from error

    def on_arrays(x):
        x = np.asarray(x, dtype=float)
        # What overflows becomes infinite or zero, which is checked where it matters.
        with np.errstate(all="ignore"):
            try:
                values = np.asarray(function(x))
                values = None if np.iscomplexobj(values) else values.astype(float)
            except (TypeError, ValueError, AttributeError, ArithmeticError):
                values = None
            if values is None or values.shape not in (x.shape, ()):
                values = np.fromiter(one_by_one(x), float, x.size).reshape(x.shape)
        values = np.broadcast_to(values, x.shape)
        if np.any(np.isnan(values)):
            first = float(x[np.isnan(values)].flat[0])
            raise ValueError(f"{name}({first!r}) = nan: must be a number")
        return values

    return on_arrays


def _refuse(name, values, x, wrong, allowed):
    if np.any(wrong):
        first = int(np.argmax(wrong))
        before = f" after {name}({float(x[first - 1])!r}) = {float(values[first - 1])!r}"
        raise ValueError(
            f"{name}({float(x[first])!r}) = {float(values[first])!r}"
            + (before if "crease" in allowed else "")
            + f": {name} {allowed}"
        )


def _require_antiderivative(name, rate, other_name, antiderivative, x):
    with np.errstate(over="ignore"):
        x = x[rate(x) * np.maximum(x, 1) < _OVERFLOW]
    try:
        expected = cumulative_integral(rate, x, 1e-9)
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
    found = []
    for digits in (_DIGITS, 2 * _DIGITS):
        with mpmath.workdps(digits):
            try:
                found.append(list(mpmath.diffs(function, 0, n, direction=1)))
            except _REFUSALS:
                raise ValueError(f"{name} does not accept mpmath numbers: {advice}") from None
    if not varies_smoothly(function):
        raise ValueError(f"{name} computes in floating point inside: {advice}")
    coarse, fine = found
    for order, (first, second) in enumerate(zip(coarse, fine, strict=True)):
        scale = max(abs(second), 1)
        if not abs(first - second) <= 1e-17 * scale:
            raise ValueError(
                f"derivative {order} of {name} at 0 does not settle at high precision: {advice}"
            )
    # What the two precisions disagree about altogether is zero.
    return np.array(
        [
            float(second) if abs(second) > abs(first - second) else 0.0
            for first, second in zip(coarse, fine, strict=True)
        ]
    )


def varies_smoothly(function):
    """Whether slopes over 1e-25 and over 1e-9 agree, which no floating-point function's do."""
    import mpmath

    with mpmath.workdps(_DIGITS):
        for x in (mpmath.pi / 100, mpmath.e / 7):
            fine, coarse = ((function(x + h) - function(x)) / h for h in (1e-25, 1e-9))
            if abs(fine - coarse) > 1e-5 * (abs(fine) + abs(coarse)) + 1e-15:
                return False
    return True


def _log_value(f, x):
    """Return ln f(x) at any size of f(x), for an f that accepts mpmath numbers."""
    import mpmath

    with mpmath.workdps(_DIGITS):
        value = f(mpmath.mpf(x))
        return float(mpmath.log(value)) if value else -math.inf


def _log_slope(f, x):
    """Return −(ln f(2x) − ln f(x))/x, the mean of a over (x, 2x), at a precision to spare."""
    import mpmath

    with mpmath.workdps(_DIGITS):
        first, second = mpmath.mpf(f(mpmath.mpf(x))), mpmath.mpf(f(mpmath.mpf(2 * x)))
        if second == 0:
            raise ArithmeticError("f vanishes or underflows")
        return float((mpmath.log(first) - mpmath.log(second)) / x)


def _limit(rate, advice):
    """Return the limit of a non-negative rate at infinity: a number, or ∞ if it keeps growing."""
    try:
        with np.errstate(all="ignore"):
            values = np.array([rate(2.0**k) for k in range(0, 1000, 8)])
    except (ImportError, *_REFUSALS):
        raise ValueError(advice) from None
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
        except _REFUSALS:
            raise ValueError(advice) from None
        slopes = -np.diff(np.log(ends), axis=0)[0] / width
    usable = np.isfinite(slopes)
    wrong = np.abs(rates - slopes) > 1e-2 * (np.abs(rates) + np.abs(slopes)) + 1e-3
    if np.any(~np.isfinite(rates)) or np.any(wrong & usable):
        raise ValueError(advice)
    return rates.reshape(np.shape(x)) + 0.0
