"""Erlang's formulas with real-valued servers: blocking, delay, abandonment, and staffing.

The offered load is the arrival rate over the service rate. Every probability is a combination of
positive terms built on the inverse of the Erlang B probability, so that tails are as accurate as
the middle.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from qcore._numerics import checks
from qcore.erlang import _kernels
from qcore.errors import UnstableSystem


@dataclass(frozen=True)
class ErlangAMeasures:
    """Stationary measures of the queue with abandonment; see `erlang_a`.

    Attributes
    ----------
    delay_probability : float or ndarray
        Probability that an arriving customer finds all servers busy.
    abandonment_probability : float or ndarray
        Probability that an arriving customer abandons.
    mean_queue : float or ndarray
        Mean number of waiting customers.
    """

    delay_probability: float | np.ndarray
    abandonment_probability: float | np.ndarray
    mean_queue: float | np.ndarray


def erlang_b(servers: ArrayLike, offered_load: ArrayLike) -> float | np.ndarray:
    r"""Compute the blocking probability of the Erlang loss system, M/M/s/s.

    .. math::

        \frac{1}{B(s, a)} = a \int_0^\infty e^{-au} (1 + u)^s \, du

    for real :math:`s`; for an integer it is
    :math:`B(s, a) = (a^s/s!) \big/ \sum_{k=0}^{s} a^k/k!`.

    Parameters
    ----------
    servers : array_like
        Number of servers :math:`0 \le s \le 10^{18}`, not necessarily an integer.
    offered_load : array_like
        Offered load :math:`0 \le a \le 10^{18}`.

    Returns
    -------
    float or ndarray
        Probability that an arriving customer finds all servers busy and is lost.

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    Below 20 servers, the recursion :math:`1/B(s, a) = 1 + (s/a)/B(s - 1, a)` from the fractional
    part of :math:`s`. For :math:`a > 1.4 s` or :math:`(a - s)^2 > 36 a`, :math:`a > s`, the
    continued fraction of the incomplete gamma function. For :math:`a < 0.6 s`, the reciprocal of
    the Poisson probability less a series of positive terms. Otherwise Temme's uniform expansion.
    Where the probability is small, the exponent of the Poisson probability is carried in two
    doubles.

    The relative error measured against ball arithmetic over servers and loads up to
    :math:`10^9` is below 7e-15 (3e-15 from 20 servers on) wherever :math:`B \ge 10^{-300}`; the
    same methods hold up to :math:`10^{18}`. Smaller values lose digits in
    proportion to :math:`-\ln B`, down to 1e-12, underflow gradually, and are 0 below 5e-324.

    References
    ----------
    D. L. Jagerman, Some properties of the Erlang loss function, Bell System Technical Journal 53
    (1974), for the integral. N. M. Temme, The asymptotic expansion of the incomplete gamma
    functions, SIAM Journal on Mathematical Analysis 10 (1979); NIST Digital Library of
    Mathematical Functions, 8.9.2 for the continued fraction and 8.12.3-8.12.12 for the expansion.

    Examples
    --------
    >>> erlang_b(2, 1.0)
    0.2
    >>> erlang_b([100, 100.5, 1e6], [90.0, 90.0, 1e6]).round(8)
    array([0.02695738, 0.02516724, 0.00079746])
    """
    return evaluate("erlang_b", {"servers": servers, "offered_load": offered_load})


def erlang_c(servers: ArrayLike, offered_load: ArrayLike) -> float | np.ndarray:
    r"""Compute the probability of delay in the Erlang delay system, M/M/s.

    .. math::

        C(s, a) = \frac{s}{a + (s - a)/B(s, a)}

    with the Erlang B probability :math:`B`.

    Parameters
    ----------
    servers : array_like
        Number of servers :math:`0 < s \le 10^{18}`, not necessarily an integer.
    offered_load : array_like
        Offered load :math:`0 \le a < s`.

    Returns
    -------
    float or ndarray
        Probability that an arriving customer finds all servers busy and waits.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    UnstableSystem
        If the offered load is not below the number of servers.

    Notes
    -----
    All terms of the formula are positive. The relative error measured against ball arithmetic
    over servers up to :math:`10^9`, also with :math:`(s - a)/s` down to 1e-15, is below 4e-15
    wherever :math:`C \ge 10^{-300}`; smaller values are as in `erlang_b`.

    References
    ----------
    R. B. Cooper, Introduction to Queueing Theory (2nd ed., 1981), section 3.5.

    Examples
    --------
    >>> erlang_c(2, 1.0)
    0.3333333333333333
    """
    try:
        return evaluate("erlang_c", {"servers": servers, "offered_load": offered_load})
    except _NoValue:
        raise _unstable(servers, offered_load, 0.0) from None


def erlang_a(
    servers: ArrayLike, offered_load: ArrayLike, abandonment_rate: ArrayLike
) -> ErlangAMeasures:
    r"""Compute delay, abandonment and mean queue of the Erlang A system, M/M/s+M.

    With :math:`b = s/\vartheta`, :math:`c = a/\vartheta`, and

    .. math::

        F = \sum_{m \ge 1} \frac{c^m}{(b + 1) \cdots (b + m)}, \qquad
        D = \frac{1 + F}{1/B(s, a) + F}, \qquad
        D^R = \frac{1 + (1 - s/a) F}{1/B(s, a) + F},

    :math:`D` is the probability of delay, :math:`D^R` the probability of abandonment, and
    :math:`c D^R` the mean queue.

    Parameters
    ----------
    servers : array_like
        Number of servers :math:`0 \le s \le 10^{18}`, not necessarily an integer.
    offered_load : array_like
        Offered load :math:`0 \le a \le 10^{18}`; it may exceed the number of servers.
    abandonment_rate : array_like
        Rate :math:`\vartheta` at which a waiting customer abandons, in units of the service rate:
        at least 1e-280, or 0, where the system is that of `erlang_c`.

    Returns
    -------
    ErlangAMeasures
        Its fields ``delay_probability``, ``abandonment_probability`` and ``mean_queue``.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    UnstableSystem
        If the abandonment rate is 0 and the offered load is not below the number of servers.

    Notes
    -----
    The sum is a confluent hypergeometric function, :math:`F = M(1, b + 1, c) - 1`. For
    :math:`b < 20` it is summed (:math:`c < 60`) or obtained from the gamma function. Otherwise,
    close to critical load, by the counterpart of Temme's expansion in `erlang_b`; in overload as
    the reciprocal of a Poisson probability less :math:`1/B(b, c)`; in underload as

    .. math::

        F = \frac{c}{b - c + \delta}, \qquad
        \delta = 1 + \cfrac{c}{b - c + 2 + \cfrac{2c}{b - c + 3 + \cfrac{3c}{b - c + 4 + \cdots}}}

    where :math:`\delta` is the mean of the positive queue, so that the numerator
    :math:`1 + (1 - s/a) F`, which would cancel, is :math:`\delta F/c`, without a subtraction.

    The relative error of each field measured against ball arithmetic, over servers up to
    :math:`10^6` and rates from 1e-8 to 1e8, is below 5e-15 wherever it is at least 1e-300.

    References
    ----------
    O. Garnett, A. Mandelbaum and M. Reiman, Designing a call center with impatient customers,
    Manufacturing & Service Operations Management 4 (2002). A. J. E. M. Janssen, J. S. H. van
    Leeuwaarden and J. Sanders, Scaled control in the QED regime, Performance Evaluation 70
    (2013), (2.8) and (2.9), for :math:`D` and :math:`D^R`.

    Examples
    --------
    >>> measures = erlang_a(2, 1.0, 1.0)
    >>> round(measures.delay_probability, 12), round(measures.mean_queue, 12)
    (0.264241117657, 0.103638323514)

    The abandonment rate equal to the service rate makes the number in system Poisson:

    >>> import math
    >>> round(1 - 2 / math.e, 12)
    0.264241117657
    """
    arguments = {
        "servers": servers,
        "offered_load": offered_load,
        "abandonment_rate": abandonment_rate,
    }
    try:
        return ErlangAMeasures(*evaluate("erlang_a", arguments, results=3))
    except _NoValue:
        raise _unstable(servers, offered_load, abandonment_rate) from None


def inverse_erlang_b(servers: ArrayLike, offered_load: ArrayLike) -> float | np.ndarray:
    r"""Compute the inverse of the Erlang B probability.

    .. math::

        \frac{1}{B(s, a)} = a \int_0^\infty e^{-au} (1 + u)^s \, du

    On it rest all measures of queues that share the states in which servers are free.

    Parameters
    ----------
    servers, offered_load : array_like
        As for `erlang_b`.

    Returns
    -------
    float or ndarray
        At least 1; infinite where :math:`B` is below 5.6e-309, as for no load and some servers.

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    Method and accuracy are those of `erlang_b`.

    Examples
    --------
    >>> inverse_erlang_b(2, 1.0)
    5.0
    """
    return evaluate("inverse_erlang_b", {"servers": servers, "offered_load": offered_load})


def log_erlang_b(servers: ArrayLike, offered_load: ArrayLike) -> float | np.ndarray:
    r"""Compute the logarithm of the Erlang B probability, also where that underflows.

    .. math::

        \ln B(s, a) = -\ln\Bigl(1 + \frac{s}{a\,B(s - 1, a)}\Bigr)

    for :math:`s \ge 1`.

    Parameters
    ----------
    servers, offered_load : array_like
        As for `erlang_b`.

    Returns
    -------
    float or ndarray
        At most 0; :math:`-\infty` where nobody is lost: no load and some servers.

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    Where :math:`B > 1/2`, through :math:`1/B - 1`, which for less than one server is an incomplete
    gamma function, so that a logarithm near 0 has all its digits. Where :math:`B < 10^{-300}` it is
    the logarithm of the Poisson probability, whose deviance is carried in two doubles.

    The relative error measured against ball arithmetic, over servers from 1e-18 to :math:`10^{15}`
    and loads from 1e-300 to :math:`10^{15}`, is below 2e-14, and below 4e-15 from one server on.

    References
    ----------
    NIST Digital Library of Mathematical Functions, 8.9.2 and 8.7.3 for the incomplete gamma
    function, 5.7.3 for the gamma function near 1.

    Examples
    --------
    >>> round(log_erlang_b(10_000, 200.0), 3)
    -29325.754
    >>> erlang_b(10_000, 200.0)
    0.0
    """
    return evaluate("log_erlang_b", {"servers": servers, "offered_load": offered_load})


def log_erlang_c(servers: ArrayLike, offered_load: ArrayLike) -> float | np.ndarray:
    r"""Compute the logarithm of the probability of delay, also where that underflows.

    .. math::

        \ln C(s, a) = -\ln\Bigl[1 + \Bigl(1 - \frac{a}{s}\Bigr)
            \Bigl(\frac{1}{B(s, a)} - 1\Bigr)\Bigr]

    Parameters
    ----------
    servers, offered_load : array_like
        As for `erlang_c`.

    Returns
    -------
    float or ndarray
        Below 0; :math:`-\infty` for no load.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    UnstableSystem
        If the offered load is not below the number of servers.

    Notes
    -----
    As for `log_erlang_b`, with the same measured accuracy; :math:`1 - C` near critical load is
    ``-expm1`` of it.

    Examples
    --------
    >>> round(log_erlang_c(10_000, 200.0), 3)
    -29325.734
    >>> abs(log_erlang_c(2, 1.0) - math.log(1 / 3)) < 1e-15
    True
    """
    try:
        return evaluate("log_erlang_c", {"servers": servers, "offered_load": offered_load})
    except _NoValue:
        raise _unstable(servers, offered_load, 0.0) from None


_SCALARS = (float, int, np.float64)
_DOMAINS = {
    "servers": {"at_least": 0, "at_most": _kernels.LARGEST},
    "offered_load": {"at_least": 0, "at_most": _kernels.LARGEST},
    "abandonment_rate": {"at_least": 0},
}


class _NoValue(ValueError):
    """Each argument is in its domain, but the function has no value there."""


def evaluate(kernel, arguments, results=1, domains=_DOMAINS):
    """Apply a compiled kernel to scalars or, as a ufunc would be, to arrays.

    Kernels return NaN outside their domain, so the arguments are checked only when that happens.
    """
    if all(type(value) in _SCALARS for value in arguments.values()):
        try:
            result = getattr(_kernels, kernel)(*map(float, arguments.values()))
        except OverflowError:  # an integer beyond the floats, which the check names
            result = (math.nan,) * results if results > 1 else math.nan
        if not math.isnan(result if results == 1 else result[0]):
            return result
    arrays = {name: _floats(name, value) for name, value in arguments.items()}
    found = _loop(kernel, checks.broadcast(**arrays), results)
    if np.isnan(found).any():
        _refuse(arrays, domains)
    return checks.unwrap(found[0]) if results == 1 else tuple(map(checks.unwrap, found))


def _floats(name, value):
    """Return ``value`` as an array of floats; one that is can do without a copy."""
    ready = type(value) is np.ndarray and value.dtype == np.float64
    return value if ready else checks.numbers_of(name, value)


def _loop(kernel, arrays, results):
    """Run the compiled loop over flat copies: one type of array, whatever the callers have."""
    found = np.empty((results, *arrays[0].shape))
    loop = getattr(_kernels, f"{kernel}_array")
    loop(*(array.flatten() for array in arrays), *found.reshape(results, -1))
    return found


def _refuse(arrays, domains):
    """Name the argument that is outside its domain; raise `_NoValue` where each is inside."""
    for name, array in arrays.items():
        checks.real(name, array, **domains[name])
    rate = arrays.get("abandonment_rate", np.zeros(()))
    tiny = (rate > 0) & (rate < _kernels.SMALLEST_RATE)
    if tiny.any():
        raise ValueError(
            f"abandonment_rate = {float(rate[tiny].flat[0])!r}: "
            f"must be 0 or >= {_kernels.SMALLEST_RATE:g}"
        )
    raise _NoValue


def _unstable(servers, offered_load, abandonment_rate):
    arrays = np.broadcast_arrays(
        *(np.asarray(value, dtype=float) for value in (servers, offered_load, abandonment_rate))
    )
    unstable = (arrays[2] == 0) & ~(arrays[1] < arrays[0])
    first = [float(array[unstable].flat[0]) for array in arrays]
    return UnstableSystem(
        f"offered_load = {first[1]!r} with servers = {first[0]!r}: must be offered_load < servers "
        "where nobody abandons, else the queue grows without bound"
    )
