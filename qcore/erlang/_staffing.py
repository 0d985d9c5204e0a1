"""Staffing: the number of servers with which blocking or delay meets a target."""

import numpy as np

from qcore.erlang._formulas import evaluate

_STAFFING_DOMAINS = {
    "offered_load": {"above": 0, "at_most": 1e15},
    "target": {"at_least": 1e-300, "below": 1},
    "abandonment_rate": {"at_least": 0},
}


def servers_for_blocking(offered_load, target, real_valued=False):
    r"""Compute the smallest number of servers whose blocking probability meets a target.

    .. math::

        \min \{ s : B(s, a) \le \varepsilon \}

    over the integers, or over the reals, where it is the root of :math:`B(s, a) = \varepsilon`.

    Parameters
    ----------
    offered_load : array_like
        Offered load :math:`0 < a \le 10^{15}`.
    target : array_like
        Largest blocking probability allowed, :math:`10^{-300} \le \varepsilon < 1`.
    real_valued : bool, optional
        Whether to return the real-valued number of servers.

    Returns
    -------
    int or float or ndarray
        Number of servers: an int (or an array of them), or a float if ``real_valued``.

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    Secant steps on :math:`\ln B`, from the square-root staffing guess. The real-valued number has
    a relative error below 1e-12 over targets from 1e-12 to :math:`1 - 10^{-3}` and loads from
    1e-3 to :math:`10^9` (it is ill-conditioned as the target tends to 1). Where an integer's
    blocking probability is closer to the target than doubles can tell, the recursion in the
    servers is run in pairs of doubles, so that the integer is right for the target as given.

    References
    ----------
    J. S. H. van Leeuwaarden and N. M. Temme, Asymptotic inversion of the Erlang B formula, SIAM
    Journal on Applied Mathematics 69 (2008).

    Examples
    --------
    >>> servers_for_blocking(100.0, 0.01)
    117
    >>> erlang_b(117, 100.0) <= 0.01 < erlang_b(116, 100.0)
    True
    """
    return _staffing({"offered_load": offered_load, "target": target}, real_valued)


def servers_for_delay(offered_load, target, abandonment_rate=0.0, real_valued=False):
    r"""Compute the smallest number of servers whose probability of delay meets a target.

    .. math::

        \min \{ s : D(s, a, \vartheta) \le \varepsilon \}

    over the integers, or over the reals, where it is the root. :math:`D` is the probability of
    delay of `erlang_a`, and of `erlang_c` for :math:`\vartheta = 0`.

    Parameters
    ----------
    offered_load : array_like
        Offered load :math:`0 < a \le 10^{15}`.
    target : array_like
        Largest probability of delay allowed, :math:`10^{-300} \le \varepsilon < 1`.
    abandonment_rate : array_like, optional
        Rate at which a waiting customer abandons, in units of the service rate; 0, or at least
        1e-280.
    real_valued : bool, optional
        Whether to return the real-valued number of servers.

    Returns
    -------
    int or float or ndarray
        Number of servers: an int (or an array of them), or a float if ``real_valued``.

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Notes
    -----
    As `servers_for_blocking`, on the logarithm of the probability of delay. The integer is right
    for the target as given, except that with abandonment the target and the probability at that
    integer are compared as doubles, which matters if they agree to 14 digits.

    References
    ----------
    S. Borst, A. Mandelbaum and M. Reiman, Dimensioning large call centers, Operations Research 52
    (2004).

    Examples
    --------
    >>> servers_for_delay(100.0, 0.2)
    111
    >>> servers_for_delay(100.0, 0.2, abandonment_rate=1.0)
    109
    >>> round(servers_for_delay(100.0, 0.2, real_valued=True), 9)
    110.993866876
    """
    arguments = {
        "offered_load": offered_load,
        "target": target,
        "abandonment_rate": abandonment_rate,
    }
    return _staffing(arguments, real_valued)


def _staffing(arguments, real_valued):
    kernel = "servers_for_delay" if "abandonment_rate" in arguments else "servers_for_blocking"
    if real_valued:
        return evaluate(f"real_{kernel}", arguments, domains=_STAFFING_DOMAINS)
    found = evaluate(f"integer_{kernel}", arguments, domains=_STAFFING_DOMAINS)
    return int(found) if np.ndim(found) == 0 else found.astype(np.int64)
