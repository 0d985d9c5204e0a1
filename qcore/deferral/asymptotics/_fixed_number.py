"""The best spacing for a number of deferrals, from one to twice the square root of the servers."""

import math
from dataclasses import dataclass

import numpy as np

from qcore._numerics import checks
from qcore.deferral import _parameters
from qcore.deferral.asymptotics import _constants
from qcore.deferral.asymptotics._many import many_errors
from qcore.deferral.asymptotics._shared import LARGEST_BETA, documented
from qcore.deferral.asymptotics._slot import normal_hazard, slot_value
from qcore.deferral.asymptotics._two_errors import TwoErrors
from qcore.erlang import erlang_b

_MOST_DEFERRALS = {"fixed": 100, "exponential": 10**6}
_CONSTANTS = {"fixed": _constants.deterministic, "exponential": _constants.exponential}
_LARGEST_DELTA = 20.0
_LARGEST_ERROR = 0.5
_MOST_SERVERS = 1e18


@dataclass(frozen=True)
class SpacingEstimate:
    r"""The best spacing in a system of a given size, the loss with it, and how far off both may be.

    Attributes
    ----------
    spacing : float
        Best time between returns, fixed or mean, in the unit of time of the service rate.
    spacing_error : float
        Estimate of its relative error.
    excess : float
        :math:`P_B - B_{K,D}`: the loss beyond that of as many waiting places.
    excess_error : float
        Estimate of its relative error.
    """

    spacing: float
    spacing_error: float
    excess: float
    excess_error: float


@dataclass(frozen=True)
class SpacingExpansion:
    r"""The best spacing for a number of deferrals, and the loss with it.

    `leading`, `correction` and `excess` are coefficients for :math:`K \to \infty` with the number
    of deferrals fixed; they describe systems with :math:`D \ll K^{1/12}`. `spacing` and `estimate`
    are for a system of any size in their domain.

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
    law : str
        ``"fixed"`` or ``"exponential"`` times between returns.
    """

    max_deferrals: int
    beta: float
    leading: float
    correction: float
    excess: float
    law: str

    def spacing(self, servers, service_rate=1.0):
        """Return the best spacing, in the unit of time of the service rate; see `estimate`."""
        return self.estimate(servers, service_rate).spacing

    @documented
    def estimate(self, servers, service_rate=1.0):
        r"""Estimate the best spacing and the loss with it for a number of servers.

        .. math::

            P_B - B_{K,D} \approx \frac{B_K}{K} \min_t [E_1(t) + E_2(t)], \qquad
            x^* = \frac{t}{K\mu}

        with :math:`E_1` for servers that idle while somebody is deferred and :math:`E_2` for
        returns that find nobody idle. For fixed :math:`D` the minimum has the two orders of the
        expansion; it passes through the plateau :math:`t = \sqrt{3(h-\beta)/2}\,K^{1/4}` and ends
        in the law of `many_deferrals`.

        Parameters
        ----------
        servers : float
            Number of servers :math:`K`, from 1 to 1e18.
        %(one_service_rate)s

        Returns
        -------
        SpacingEstimate

        Raises
        ------
        ValueError
            If an argument is outside its range, if there are more than :math:`20\sqrt K` deferrals
            or nobody arrives, or if the estimate of either relative error exceeds 1/2: then the
            system is too small, or too far from critical load, for its size.

        Notes
        -----
        Formal. With :math:`\delta = D/\sqrt K`, the estimates of the relative errors are

        .. math::

            \frac{c}{t} + \frac{4|\beta|}{5}\sqrt{\frac tK} + \frac{3|\beta| t}{10\sqrt K}
            \min\Bigl(1, \frac Dt\Bigr) + \frac{3\delta}{20}\Bigl|\frac{t}{\sqrt K}
            - \frac{\sqrt K}{t^2}\Bigr|

        with :math:`c = 2` for the spacing and :math:`9/2` for the excess: the discreteness of the
        walk, its drift, and that of the number deferred. The constants were fitted to exact optima.
        On a grid of 1,000 and 10,000 servers, :math:`-4 \le \beta \le 4` and up to :math:`2\sqrt K`
        deferrals the errors are below the estimates. With :math:`\beta = 0.1` and a million servers
        the exponential spacing is within 3 % for every :math:`D` tried from 1 to 3000.

        Examples
        --------
        >>> found = esrt_spacing(20, 0.1).estimate(10**6)
        >>> round(1e6 * found.spacing, 1), round(found.spacing_error, 2)  # exact: 47.8
        (48.6, 0.04)
        """
        servers = checks.scalar("servers", servers, at_least=1.0, at_most=_MOST_SERVERS)
        service_rate = _parameters.rate("service_rate", service_rate)
        root, load = math.sqrt(servers), servers + self.beta * math.sqrt(servers)
        delta = self.max_deferrals / root
        if load <= 0.0:
            raise ValueError(
                f"servers = {servers!r}, beta = {self.beta!r}: K + beta sqrt(K) must be positive"
            )
        if delta > _LARGEST_DELTA:
            raise ValueError(
                f"servers = {servers!r}: max_deferrals = {self.max_deferrals} must be at most "
                f"{_LARGEST_DELTA:g} sqrt(servers)"
            )
        stage, errors = TwoErrors(
            self.max_deferrals,
            _CONSTANTS[self.law](self.max_deferrals),
            float(slot_value(np.asarray(self.beta))) * root,
            self.law == "fixed",
            *many_errors(self.beta, delta),
        ).least()
        drift = (
            0.8 * abs(self.beta) * math.sqrt(stage / servers)
            + 0.3 * abs(self.beta) * min(stage, self.max_deferrals) / root
            + 0.15 * delta * abs(stage / root - root / stage**2)
        )
        found = SpacingEstimate(
            spacing=stage / servers / service_rate,
            spacing_error=2.0 / stage + drift,
            excess=erlang_b(servers, load) * errors / servers,
            excess_error=4.5 / stage + drift,
        )
        if max(found.spacing_error, found.excess_error) > _LARGEST_ERROR:
            raise ValueError(
                f"servers = {servers!r}: for max_deferrals = {self.max_deferrals} and beta = "
                f"{self.beta!r} the relative errors may be {found.spacing_error:.2g} (spacing) and "
                f"{found.excess_error:.2g} (excess), must be at most {_LARGEST_ERROR}"
            )
        return found


@documented
def esrt_spacing(max_deferrals, beta):
    r"""Expand the best mean spacing when returns are spaced by exponential times.

    .. math::

        K^{2/3} \frac{\mu}{\alpha^*} = c + j \sqrt c \, K^{-1/6} + O(K^{-1/3}), \qquad
        c = \left[ \frac{3\sqrt\pi}{2} \frac{\Gamma(D)}{\Gamma(D + 3/2)} (h - \beta) \right]^{2/3},
        \quad j = \sum_{i=1}^{D-1} (i + 1) \frac{(1/2)_{i-1}}{(i - 1)!}

    Parameters
    ----------
    max_deferrals : int
        Number of deferrals :math:`D`, from 1 to 1,000,000.
    %(beta)s

    Returns
    -------
    SpacingExpansion
        The coefficients; its `estimate` is for a number of servers.

    %(raises)s

    Notes
    -----
    A formal expansion, the coefficients computed to 1e-12. The term of order :math:`K^{-1/6}`
    vanishes for :math:`D = 1` only.

    %(source)s

    Examples
    --------
    >>> round(10**6 * esrt_spacing(1, 0.1).spacing(10**6), 1)  # exact: 132.2
    132.5
    """
    return _expand(max_deferrals, beta, "exponential")


@documented
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
        Number of deferrals :math:`D`, from 1 to 100; the constants cost a time of order
        :math:`D^2`, once for each :math:`D`.
    %(beta)s

    Returns
    -------
    SpacingExpansion
        The coefficients; its `estimate` is for a number of servers.

    %(raises)s

    Notes
    -----
    A formal expansion. The integral equation is solved by double-exponential quadrature, the
    coefficients to 1e-12 (leading) and 1e-10 (correction).

    %(source)s

    Examples
    --------
    >>> dsrt_spacing(2, 0.1).leading
    0.58309...
    """
    return _expand(max_deferrals, beta, "fixed")


def _expand(max_deferrals, beta, law):
    deferrals = checks.count(
        "max_deferrals", max_deferrals, at_least=1, at_most=_MOST_DEFERRALS[law]
    )
    beta = checks.scalar("beta", beta, at_least=-LARGEST_BETA, at_most=LARGEST_BETA)
    constants = _CONSTANTS[law](deferrals)
    balance = constants.balance * float(slot_value(np.asarray(beta)))
    leading = balance ** (2 / 3)
    return SpacingExpansion(
        max_deferrals=deferrals,
        beta=beta,
        leading=leading,
        correction=constants.correction * math.sqrt(leading),
        excess=1.5 * float(normal_hazard(beta)) * constants.cost * balance ** (1 / 3),
        law=law,
    )
