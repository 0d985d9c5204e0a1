"""Delay, rejection and mean wait in the QED regime, to any order in 1/√servers.

With s servers of rate 1 and the load s − γ√s, all three are asymptotic series in
ε = 1/√s whose coefficients depend on γ and on the scaling profile alone. They are computed once,
in decimal arithmetic; an evaluation is then a polynomial in ε.
"""

import functools
import itertools
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from qcore._numerics import checks
from qcore._numerics.power_series import divide, interpolate, multiply, precise
from qcore.admission import ScalingProfile
from qcore.errors import UnstableSystem
from qcore.qed._waiting_sums import (
    WaitingSum,
    inverse_erlang_b,
    load_per_server,
    waiting_sum,
)

HIGHEST_ORDER = 30
_FARTHEST = 1e9
DIGITS = (60, 120, 240, 480, 960, 1920)
_AGREEMENT = Decimal("1e-18")
_NOISE = Decimal("1e-40")
_MOST_POLYNOMIALS = 5000


@dataclass(frozen=True)
class Expansion:
    r"""A probability or mean wait as a truncated series in 1/√servers, ready for evaluation.

    .. math:: s^{-p/2} \sum_{k=0}^{n} c_k\, s^{-k/2}

    Attributes
    ----------
    measure : {"delay", "rejection", "mean wait"}
        What is expanded; the mean wait in units of the mean service time.
    gamma : float
        γ; the load per server is 1 − γ/√servers.
    profile : ScalingProfile
        The scaling profile.
    control : {"global", "local"}
        How the profile is put into practice.
    order : int
        n, the number of corrections.
    leading_power : int
        p: the first term is of order s^(−p/2).
    Notes
    -----
    The series is asymptotic: for fixed s the terms shrink only up to some order, after which
    more corrections make things worse. `truncation_error` shows where.

    Where the profile breaks, at b_1 < … < b_m say, the c_k depend on s through the fractional
    parts u_i of b_i·√s: they are polynomials of degree k in each.

    Expansions are equal, and hash alike, if their attributes are; they can be pickled if the
    profile can.
    """

    measure: str
    gamma: float
    profile: ScalingProfile
    control: str
    order: int
    leading_power: int

    @property
    def coefficients(self):
        """c_0 … c_n, an array of n + 1 numbers; or of polynomials where the profile breaks.

        Each of m breaks adds an axis of length n + 1 with the powers of u_i − ½, lowest first.
        More than 5000 products of powers are refused: `coefficients_at` has no such limit.
        """
        return _polynomials(*self._series(self.order)).copy()

    def coefficients_at(self, servers):
        """Return c_0 … c_n at ``servers`` (array_like), along a last axis of length n + 1."""
        return np.moveaxis(self._rows(self._servers(servers), self.order), 0, -1)

    def __call__(self, servers):
        """Return the series at ``servers`` (array_like, > max(γ, 0)²), cut off at 0 and 1.

        Where too few servers take the truncated series out of [0, 1], the nearer end is
        returned: it is closer to any probability. The coefficients give the series itself. A mean
        wait is cut off at 0 only.
        """
        servers = self._servers(servers)
        epsilon = 1 / np.sqrt(servers)
        with np.errstate(over="ignore"):
            value = np.zeros_like(epsilon)
            for row in self._rows(servers, self.order)[::-1]:
                value = value * epsilon + row
            value = epsilon**self.leading_power * value
        if np.any(np.isnan(value)):
            raise ValueError(
                f"servers = {float(servers[np.isnan(value)].flat[0])!r}: too few for order "
                f"{self.order}, whose terms overflow"
            )
        return checks.unwrap(np.clip(value, 0.0, self._most))

    def truncation_error(self, servers):
        """Return an estimate of the absolute error of the truncation at ``servers``.

        It is the sum of the sizes of the next two terms (one alone may vanish by accident), which
        is no bound. If it does not decrease with the order, the order is too high for so few
        servers. Of a probability it is at most 1.

        Raises
        ------
        ValueError
            As for the expansion itself, which is needed to two more orders here.
        """
        servers = self._servers(servers)
        epsilon = 1 / np.sqrt(servers)
        first, second = np.abs(self._rows(servers, self.order + 2)[self.order + 1 :])
        with np.errstate(over="ignore"):
            size = epsilon ** (self.leading_power + self.order + 1) * (first + epsilon * second)
        # It is not NaN: where both terms vanish there is nothing more to come.
        return checks.unwrap(
            np.where((first == 0) & (second == 0), 0.0, np.minimum(size, self._most))
        )

    @property
    def _most(self):
        return math.inf if self.measure == "mean wait" else 1.0

    def _servers(self, servers):
        servers = checks.real("servers", servers, above=0)
        root = np.sqrt(servers)
        if np.any(self.gamma >= root):
            raise ValueError(
                f"gamma = {self.gamma!r}: must be below the square root of servers = "
                f"{float(servers[self.gamma >= root].flat[0])!r}, or there is no load"
            )
        return servers

    def _series(self, order):
        waits = self.measure == "mean wait"
        return self.measure, ingredients_of(self.gamma, self.profile, order, self.control, waits)

    def _rows(self, servers, order):
        """Return c_0 … c_order at servers, along a first axis."""
        measure, ingredients = self._series(order)
        if not ingredients.ends:
            rows = _polynomials(measure, ingredients).reshape(-1, *[1] * servers.ndim)
            return np.broadcast_to(rows, (len(rows), *servers.shape))
        with precise(ingredients.digits):
            fractions = [_fraction(piece, servers) for piece in ingredients.ends]
            rows = _coefficients(measure, ingredients, fractions)
        return _floats(np.array(rows, dtype=object), ingredients)


def _fraction(piece, servers):
    """Return end·√servers − N, N the number of n ≥ 1 with n/√servers up to the end of the piece.

    N is counted in floating point, as the profile counts. N and the end may be an integer that
    does not quite fit: then the fraction lies outside [0, 1] by a rounding error, which its
    polynomials do not mind.
    """
    root = np.sqrt(servers)
    inside = np.less_equal if piece.closed else np.less
    places = np.floor(piece.end * root)
    places = np.where(inside((places + 1) / root, piece.end), places + 1, places)
    places = np.where(inside(places / root, piece.end), places, places - 1)
    fractions = np.empty(servers.shape, dtype=object)
    for index, s in np.ndenumerate(servers):
        scaled = Decimal(piece.end) * Decimal(float(s)).sqrt()
        fractions[index] = scaled - Decimal(float(places[index]))
    return fractions


def delay_expansion(gamma, profile, order=1, control=None):
    """Return the series of `delay_probability` as an `Expansion`, for repeated evaluation.

    Parameters, errors and accuracy are those of `delay_probability`.

    Examples
    --------
    >>> from qcore import qed
    >>> from qcore.admission import Abandonment
    >>> expansion = qed.delay_expansion(0.5, Abandonment(2.0), order=3)
    >>> [round(expansion(servers), 6) for servers in (100, 10000)]
    [0.268349, 0.258966]
    >>> f"{expansion.truncation_error(100):.0e}"
    '3e-07'
    """
    return _expansion("delay", gamma, profile, order, control)


def rejection_expansion(gamma, profile, order=1, control=None):
    """Return the series of `rejection_probability` as an `Expansion`, for repeated evaluation.

    Parameters, errors and accuracy are those of `rejection_probability`.
    """
    return _expansion("rejection", gamma, profile, order, control)


def delay_probability(servers, gamma, profile, order=1, control=None):
    r"""Return the probability that an arriving customer finds all servers busy, to a given order.

    .. math::

        D_s = \frac{1 + F_s}{1/B_s + F_s}, \qquad ρ = 1 - γ/\sqrt s,

    as a series in 1/√s, truncated after ``order`` corrections to its leading term
    :math:`L(γ)/(Φ(γ)/φ(γ) + L(γ))`, so that the relative error is of order s^(−(order + 1)/2).
    If nobody waits (Erlang B) the leading term is :math:`s^{-1/2}φ(γ)/Φ(γ)`.

    Parameters
    ----------
    servers : array_like
        s > 0, not necessarily an integer; √s > γ.
    gamma : array_like
        γ > ``profile.gamma_min``, of any sign, up to 10⁹ in size: below 0 the load exceeds the
        servers.
    profile : ScalingProfile
        The scaling profile, smooth but for kinks and jumps that it declares as its ``breaks``,
        and for the end of its support.
    order : int, optional
        Number of corrections, 0 to `HIGHEST_ORDER`.
    control : {"global", "local"}, optional
        By default the profile's own.

    Returns
    -------
    float or ndarray
        The truncated series, cut off at 0 and 1; see `Expansion`.

    Raises
    ------
    UnstableSystem
        If γ ≤ ``profile.gamma_min`` (γ = 0 is allowed where the Laplace transform is finite).
    ValueError
        For arguments outside their domain; or if the profile cannot supply what the order asks
        for: derivatives of its Laplace transform, of f at 0, of a under local control.

    Notes
    -----
    1/B_s is expanded by Jagerman's integral in half-Gaussian moments; F_s by Euler–Maclaurin on
    each piece of the profile, under local control with the expansion of :math:`q_s(n)/f` inside
    the sum. At a break b the coefficients are polynomials in the fractional part of b·√s, by the
    periodic Bernoulli polynomials.

    Order 0 needs the Laplace transform alone, order n derivatives up to n − 1 of f at 0 and at
    the breaks, under local control of a.

    All series are carried with 120 decimal digits, or more, until computations with two numbers
    of digits agree. Relative errors of the coefficients, measured against direct sums at 300
    bits, taken at 32 values of s and extrapolated to s = ∞:

    - `NoWaiting`, `OpenAdmission`, `ModifiedDrift`, `Abandonment`: 2e-16 (rounding), order ≤ 12;
      `FiniteBuffer`: 3e-15 (its polynomial in u).
    - `PowerDecay` and smooth profiles of one's own under global control: 2e-14, order ≤ 6. They
      inherit the error of the profile's Laplace transform: with γ = −3 and an f that decays
      slowly, 1e-15 up to order 3, 4e-12 at order 6, 1e-7 at order 12.
    - smooth profiles of one's own under local control, at worst among five of them with γ from
      −1.5 to 2: 5e-14 up to order 4, 6e-12 at order 6, 1e-9 at order 8, 3e-7 at order 10, 2e-5 at
      order 12. A ValueError is raised where rounding leaves fewer than six digits of an integral.
      Their derivatives of a cost 0.3 s at order 6, if they come from differences, and 0.7 s at 12.
    - profiles of one's own with a kink or a jump or two, and with a bounded support, γ = −0.7 and
      0.6, at given fractions: 2e-14 up to order 4 and 2e-13 at order 6 under global control,
      2e-14 and 2e-12 under local control.

    A result below 1e-308 is 0, which happens from γ = 38 on.

    References
    ----------
    - A.J.E.M. Janssen, J.S.H. van Leeuwaarden and J. Sanders, "Scaled control in the QED
      regime", Performance Evaluation 70 (2013), Theorems 4.1–4.3.
    - D.L. Jagerman, "Some properties of the Erlang loss function", Bell System Technical
      Journal 53 (1974), Theorem 14.

    Examples
    --------
    >>> from qcore import erlang, qed
    >>> from qcore.admission import OpenAdmission
    >>> [round(qed.delay_probability(100, 1.0, OpenAdmission(), order), 6) for order in (0, 1, 2)]
    [0.223361, 0.217579, 0.216971]
    >>> round(erlang.erlang_c(100, 90), 6)
    0.21694
    """
    return _probability("delay", servers, gamma, profile, order, control)


def rejection_probability(servers, gamma, profile, order=1, control=None):
    r"""Return the probability that an arriving customer is rejected, to a given order.

    .. math:: D^R_s = \frac{1 + (1 - 1/ρ)F_s}{1/B_s + F_s}, \qquad ρ = 1 - γ/\sqrt s,

    as a series in 1/√s, truncated after ``order`` corrections to its leading term
    :math:`s^{-1/2}(1 - γL(γ))/(Φ(γ)/φ(γ) + L(γ))`. For `Abandonment` under local control, the
    Erlang A system, it is the probability of abandonment.

    Parameters
    ----------
    servers, gamma, profile, order, control
        As for `delay_probability`.

    Returns
    -------
    float or ndarray
        The truncated series, cut off at 0 and 1; exactly 0 for `OpenAdmission`.

    Raises
    ------
    UnstableSystem, ValueError
        As for `delay_probability`.

    Notes
    -----
    Method and accuracy are those of `delay_probability`, except that for a profile given by
    functions the factor 1 − γL(γ) loses the digits that it cancels.

    References
    ----------
    - A.J.E.M. Janssen, J.S.H. van Leeuwaarden and J. Sanders, "Scaled control in the QED
      regime", Performance Evaluation 70 (2013), Theorem 4.3.

    Examples
    --------
    >>> from qcore import erlang, qed
    >>> from qcore.admission import NoWaiting
    >>> abs(qed.rejection_probability(400, 1.0, NoWaiting(), 8) - erlang.erlang_b(400, 380)) < 1e-11
    True
    """
    return _probability("rejection", servers, gamma, profile, order, control)


def delay_coefficients(gamma, profile, order, control=None):
    """Return the coefficients c_0 … c_order of `delay_probability` in powers of 1/√servers.

    Parameters
    ----------
    gamma : float
        γ > ``profile.gamma_min``.
    profile, order, control
        As for `delay_probability`.

    Returns
    -------
    ndarray
        Shape (order + 1,), of the series s^(−p/2) Σ c_k s^(−k/2) with p = 1 for `NoWaiting` and 0
        for every other profile. For a `FiniteBuffer` shape (order + 1, order + 1): row k holds
        the polynomial c_k in u − ½, u the fractional part of size·√servers. Likewise for every
        profile that breaks, with an axis for each break; see `Expansion`.

    Raises
    ------
    UnstableSystem, ValueError
        As for `delay_probability`.

    Examples
    --------
    >>> from qcore import qed
    >>> from qcore.admission import NoWaiting
    >>> qed.delay_coefficients(0.0, NoWaiting(), 2).round(6)
    array([ 0.797885, -0.424413,  0.159265])
    """
    return delay_expansion(gamma, profile, order, control).coefficients


def rejection_coefficients(gamma, profile, order, control=None):
    """Return the coefficients c_0 … c_order of `rejection_probability` over 1/√servers.

    As `delay_coefficients`, but p = 1 for every profile: c_0 belongs to s^(−1/2).
    """
    return rejection_expansion(gamma, profile, order, control).coefficients


def mean_wait_expansion(gamma, profile, order=1, control=None):
    """Return the series of `mean_wait` as an `Expansion`, for repeated evaluation.

    Parameters, errors and accuracy are those of `mean_wait`.
    """
    return _expansion("mean wait", gamma, profile, order, control)


def mean_wait(servers, gamma, profile, order=1, control=None):
    r"""Return the mean wait of those admitted, in mean service times, to a given order.

    .. math::

        \mathrm E W_s = \frac{1}{s}\,\frac{\sum_{n\ge1} n\,q_s(n-1)\,ρ^n}{ρ(1/B_s - 1) + F_s},
        \qquad ρ = 1 - γ/\sqrt s,

    as a series in 1/√s, truncated after ``order`` corrections to its leading term
    :math:`-s^{-1/2}L'(γ)/(Φ(γ)/φ(γ) + L(γ))`. The mean goes over all customers who are admitted,
    those among them who do not wait included; nobody leaves before service.

    Parameters
    ----------
    servers, gamma, profile, order, control
        As for `delay_probability`.

    Returns
    -------
    float or ndarray
        The truncated series in units of the mean service time, cut off at 0; exactly 0 for
        `NoWaiting`.

    Raises
    ------
    UnstableSystem, ValueError
        As for `delay_probability`; ValueError too where the mean is infinite, at γ = γ_min = 0.

    Notes
    -----
    Little's law for the queue; its sum is F_s with a further factor n, and expanded like it. See
    `delay_probability` for the method, and for profiles with breaks. Relative errors of the
    coefficients up to order 6, measured against sums at 320 bits, taken at 24 values of s or more
    and extrapolated to s = ∞, γ = −0.3 and 0.75: below 1e-15 for profiles with closed forms; for
    others below 1e-14 under global control and, of the largest coefficient, 1e-13 under local
    control.

    References
    ----------
    - A.J.E.M. Janssen, J.S.H. van Leeuwaarden and J. Sanders, "Scaled control in the QED
      regime", Performance Evaluation 70 (2013), for the series of F_s.

    Examples
    --------
    >>> from qcore import qed
    >>> from qcore.admission import Abandonment, queue
    >>> [round(qed.mean_wait(100, 0.5, Abandonment(1.0), order), 8) for order in (0, 1, 2, 4)]
    [0.01977966, 0.0205731, 0.02058141, 0.02058071]
    >>> round(queue(100, 0.95, Abandonment(1.0)).mean_wait, 8)
    0.02058071
    """
    return _probability("mean wait", servers, gamma, profile, order, control)


def mean_wait_coefficients(gamma, profile, order, control=None):
    """Return the coefficients c_0 … c_order of `mean_wait` over 1/√servers.

    As `delay_coefficients`, with p = 1 for every profile: c_0 belongs to s^(−1/2).
    """
    return mean_wait_expansion(gamma, profile, order, control).coefficients


def _probability(measure, servers, gamma, profile, order, control):
    servers, gamma = checks.broadcast(
        servers=checks.real("servers", servers, above=0), gamma=checks.real("gamma", gamma)
    )
    result = np.empty(servers.shape)
    for value in np.unique(gamma):
        chosen = gamma == value
        result[chosen] = _expansion(measure, value, profile, order, control)(servers[chosen])
    return checks.unwrap(result)


def _expansion(measure, gamma, profile, order, control):
    gamma, control, order = checked(gamma, profile, order, control)
    leading_power = 0 if measure == "delay" and profile.support > 0 else 1
    expansion = Expansion(measure, gamma, profile, control, order, leading_power)
    expansion._series(order)
    return expansion


def checked(gamma, profile, order, control):
    """Return γ, the control and the order, checked together with the profile."""
    gamma = checks.scalar("gamma", gamma, at_least=-_FARTHEST, at_most=_FARTHEST)
    order = checks.count("order", order, at_most=HIGHEST_ORDER)
    if not isinstance(profile, ScalingProfile):
        raise ValueError(f"profile = {profile!r}: must be a ScalingProfile")
    control = profile.resolve_control(control)
    if not profile.is_finite_at(gamma):
        raise UnstableSystem(
            f"gamma = {gamma!r}: must be above gamma_min = {profile.gamma_min:g} of {profile!r}, "
            "or the queue grows without bound"
        )
    # γ_s = γ only at 0: at any other γ_min the transform cannot be expanded.
    if gamma == profile.gamma_min != 0:
        raise ValueError(
            f"gamma = {gamma!r}: there is no expansion at gamma_min itself, where the Laplace "
            "transform has no derivatives"
        )
    return gamma, control, order


@dataclass(frozen=True, eq=False)
class _Ingredients:
    """The series of 1/B_s and of F_s, with as many digits as the coefficients need."""

    digits: int
    gamma: Decimal
    profile: ScalingProfile
    inverse_erlang_b: list
    waiting: WaitingSum
    queue: WaitingSum | None  # with a factor x
    ends: tuple  # the pieces at whose ends the profile breaks

    @property
    def order(self):
        return len(self.inverse_erlang_b) - 1


@functools.lru_cache(maxsize=256)
def ingredients_of(gamma, profile, order, control, waits=False):
    """Return the ingredients, from computations with more and more digits until two agree."""
    measures = ("mean wait",) if waits else ("delay", "rejection")
    coarse = None
    for digits in DIGITS:
        with precise(digits):
            waiting = waiting_sum(profile, Decimal(gamma), order, control)
            queue = waiting_sum(profile, Decimal(gamma), order, control, 1) if waits else None
            ends = profile.pieces(control)[: len(waiting.ends)] if waiting.ends else ()
            inverse = inverse_erlang_b(Decimal(gamma), order)
            ingredients = _Ingredients(
                digits, Decimal(gamma), profile, inverse, waiting, queue, ends
            )
            fine = [_sampled(measure, ingredients) for measure in measures]
            if coarse is not None and all(map(agree, coarse, fine)):
                return ingredients
        coarse = fine
    raise ValueError(f"order = {order!r}: too high for gamma = {gamma!r} and {profile!r}")


def _sampled(measure, ingredients):
    """Return the coefficients for a few values of the fractional parts, all of them equal."""
    samples = np.array([Decimal(i) / 4 for i in range(5 if ingredients.ends else 1)])
    rows = _coefficients(measure, ingredients, [samples] * len(ingredients.ends))
    return np.array([row + 0 * samples for row in rows])


def agree(coarse, fine):
    change = np.abs(fine - coarse).max(axis=1)
    return not np.any(change > _AGREEMENT * np.abs(fine).max(axis=1) + _noise(fine))


def _noise(rows):
    """Return what is negligible in each row: 1e-40 of any coefficient so far."""
    sizes = np.abs(rows).reshape(len(rows), -1).max(axis=1)
    return _NOISE * np.array(list(itertools.accumulate(sizes, max)), dtype=object)


def _floats(rows, ingredients):
    """Return decimal rows as floats, and zero for what is left of a cancellation."""
    noise = _noise(rows).reshape(-1, *[1] * (rows.ndim - 1))
    coefficients = np.where(np.abs(rows) > noise, rows, Decimal(0)).astype(float)
    if not np.all(np.isfinite(coefficients)):
        raise ValueError(
            f"order = {ingredients.order!r}: the coefficients at gamma = "
            f"{float(ingredients.gamma)!r} exceed the largest floating-point number; ask for a "
            "lower order"
        )
    return coefficients


@functools.lru_cache(maxsize=256)
def _polynomials(measure, ingredients):
    """Return the coefficients as polynomials in fractions − ½: that of ε^k has degree k in each."""
    order, breaks = ingredients.order, len(ingredients.ends)
    if breaks > 1 and (order + 1) ** breaks > _MOST_POLYNOMIALS:
        raise ValueError(
            f"order = {order!r}: with {breaks} breaks the coefficients are polynomials of "
            f"{(order + 1) ** breaks} products of powers; use coefficients_at of the expansion"
        )
    with precise(ingredients.digits):
        nodes = [Decimal(i) / max(order, 1) - Decimal("0.5") for i in range(order + 1)]
        grids = np.meshgrid(*[np.array(nodes) + Decimal("0.5")] * breaks, indexing="ij")
        rows = _coefficients(measure, ingredients, grids)
        result = np.full((order + 1,) * (breaks + 1), Decimal(0), dtype=object)
        for k, values in enumerate(rows):
            inside = (slice(k + 1),) * breaks
            # Where no break enters yet the row is one number.
            values = np.broadcast_to(np.asarray(values, dtype=object), result.shape[1:])[inside]
            for axis in range(breaks):
                values = np.apply_along_axis(
                    lambda line: interpolate(nodes[: len(line)], list(line)), axis, values
                )
            result[(k, *inside)] = values
        return _floats(result, ingredients)


def _coefficients(measure, ingredients, fractions):
    """Return the coefficients after the leading power, decimals or arrays like the fractions."""
    waiting, order = ingredients.waiting(fractions), ingredients.order
    if measure == "mean wait":
        return divide(ingredients.queue(fractions), of_admitted(ingredients, waiting))
    if measure == "rejection" and _admits_all(ingredients.profile):
        return [Decimal(0)] * (order + 1)
    denominator = list(map(np.add, ingredients.inverse_erlang_b, waiting))
    if measure == "rejection":
        load = load_per_server(ingredients.gamma, order)
        numerator = [-ingredients.gamma * c for c in divide(waiting, load)]
        numerator[0] = numerator[0] + 1
    elif ingredients.profile.support == 0:
        numerator = [Decimal(1), *[Decimal(0)] * order]
    else:
        numerator = list(waiting)
        if order >= 1:
            numerator[1] = numerator[1] + 1
    return divide(numerator, denominator)


def rejection_series(ingredients):
    """Return the series of √s times the rejection probability, for a profile without breaks."""
    return _coefficients("rejection", ingredients, ())


def of_admitted(ingredients, waiting):
    """Return the series of ε[ρ(1/B_s − 1) + F_s], of ερ times the weight of all admitted."""
    idle = list(ingredients.inverse_erlang_b)
    if ingredients.order >= 1:
        idle[1] = idle[1] - 1
    load = load_per_server(ingredients.gamma, ingredients.order)
    return list(map(np.add, multiply(load, idle), waiting))


def _admits_all(profile):
    rate = profile.rate_polynomial()
    return rate is not None and not np.any(rate) and profile.support == np.inf
