"""The best spacing for a fixed number of deferrals."""

import math
from dataclasses import dataclass

import numpy as np

from qcore._numerics import checks
from qcore.deferral import _parameters
from qcore.deferral.asymptotics import _constants
from qcore.deferral.asymptotics._slot import LARGEST_BETA, normal_hazard, slot_value

_MOST_DEFERRALS = 100


@dataclass(frozen=True)
class SpacingExpansion:
    r"""The best spacing for a fixed number of deferrals, and the loss with it.

    Attributes
    ----------
    max_deferrals : int
        Number of deferrals :math:`D`.
    beta : float
        Load :math:`(\lambda/\mu - K)/\sqrt K`.
    leading : float
        :math:`c` in :math:`K^{2/3} \mu x^* = c + c_1 K^{-1/6} + O(K^{-1/3})`.
    correction : float
        :math:`c_1`.
    excess : float
        :math:`e` in :math:`P_B = B_{K,D} + e K^{-4/3}(1 + O(K^{-1/6}))`, where :math:`B_{K,D}` is
        the loss with :math:`D` waiting places.
    """

    max_deferrals: int
    beta: float
    leading: float
    correction: float
    excess: float

    def spacing(self, servers, service_rate=1.0):
        """Return the best spacing to both orders, in the unit of time of the service rate."""
        servers = _parameters.rate("servers", servers)
        rate = _parameters.rate("service_rate", service_rate)
        return (self.leading + self.correction * servers ** (-1 / 6)) * servers ** (-2 / 3) / rate


def esrt_spacing(max_deferrals, beta):
    r"""Expand the best mean spacing when returns are spaced by exponential times.

    .. math::

        K^{2/3} \frac{\mu}{\alpha^*} = c + j \sqrt c \, K^{-1/6} + O(K^{-1/3}), \qquad
        c = \left[ \frac{3\sqrt\pi}{2} \frac{\Gamma(D)}{\Gamma(D + 3/2)} (h - \beta) \right]^{2/3},
        \quad j = \sum_{i=1}^{D-1} (i + 1) \frac{(1/2)_{i-1}}{(i - 1)!}

    Parameters
    ----------
    max_deferrals : int
        Number of deferrals :math:`D`, from 1 to 100.
    beta : float
        Load :math:`\beta = (\lambda/\mu - K)/\sqrt K`, from -30 to 30.

    Returns
    -------
    SpacingExpansion
        Both coefficients, and the loss beyond that of :math:`D` waiting places.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    A formal expansion. Against exact optima at :math:`\beta = 0.1`, what remains times
    :math:`K^{1/3}` is -0.27 for :math:`D = 1` and -2.06 for :math:`D = 2` at :math:`K = 10^6`. The
    term of order :math:`K^{-1/6}` vanishes for :math:`D = 1` only. The expansion presumes
    :math:`D \ll K^{1/12}`.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), figure 8(b), where the question is asked.

    Examples
    --------
    >>> esrt_spacing(1, 0.1).spacing(10**6)
    0.0001325...
    """
    return _expand(max_deferrals, beta, _constants.exponential)


def dsrt_spacing(max_deferrals, beta):
    r"""Expand the best spacing when returns are spaced by a fixed time.

    .. math::

        K^{2/3} \mu x^* = c + j \sqrt c \, K^{-1/6} + O(K^{-1/3}), \qquad
        c = [\kappa_D (h - \beta)]^{2/3}

    with :math:`\kappa_1 = 2/\sqrt\pi`, :math:`j = \sqrt\pi/4` for :math:`D = 1`; for more deferrals
    both come from an integral equation on a stage,

    .. math::

        G = \delta_0 + \sum_{i=1}^{D-1} G k_i, \qquad
        k_i(e, v) = \frac{1}{\pi} \sqrt{\frac{1 - e}{i - 1 + v}} \, \frac{1}{i - e + v}, \qquad
        \kappa_D = \frac{\sqrt\pi \int (1 - e)^{-1/2} \, G(de)}
            {\sum_{i=1}^{D} \int\!\int_e^1 \sqrt{(i - \phi)/(\phi - e)} \, d\phi \, G(de)}.

    Parameters
    ----------
    max_deferrals : int
        Number of deferrals :math:`D`, from 1 to 100.
    beta : float
        Load :math:`\beta = (\lambda/\mu - K)/\sqrt K`, from -30 to 30.

    Returns
    -------
    SpacingExpansion
        Both coefficients, and the loss beyond that of :math:`D` waiting places.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    A formal expansion. The integral equation is solved by double-exponential quadrature, the
    coefficients to 1e-12 (leading) and 1e-10 (correction). At :math:`\beta = 0.1` and
    :math:`K = 10^7` the exact optimum is 0.1 %, 0.2 % and 0.4 % below both terms for
    :math:`D = 1, 2, 3`. The expansion presumes :math:`D \ll K^{1/12}`.

    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), figure 6, where the question is asked.

    Examples
    --------
    >>> dsrt_spacing(2, 0.1).leading
    0.58309...
    """
    return _expand(max_deferrals, beta, _constants.deterministic)


def _expand(max_deferrals, beta, constants_of):
    deferrals = checks.count("max_deferrals", max_deferrals, at_least=1, at_most=_MOST_DEFERRALS)
    beta = checks.scalar("beta", beta, at_least=-LARGEST_BETA, at_most=LARGEST_BETA)
    constants = constants_of(deferrals)
    balance = constants.balance * float(slot_value(np.asarray(beta)))
    leading = balance ** (2 / 3)
    return SpacingExpansion(
        max_deferrals=deferrals,
        beta=beta,
        leading=leading,
        correction=constants.correction * math.sqrt(leading),
        excess=1.5 * float(normal_hazard(beta)) * constants.cost * balance ** (1 / 3),
    )
