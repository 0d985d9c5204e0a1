r"""Deferrals in large systems: what a deferral is worth, and how far apart the returns should be.

:math:`K` servers of rate :math:`\mu`, arrival rate :math:`\lambda = \mu(K + \beta\sqrt K)`, and
:math:`K \to \infty`. With :math:`h = \varphi(\beta)/\Phi(-\beta)`, Erlang's blocking probability is
:math:`B_K \sim h/\sqrt K`. A loss system with :math:`D` deferrals loses at least what one with
:math:`D` waiting places loses, :math:`B_{K,D}`, and at its best spacing hardly more. In units of
the service time:

==================================  ================  =====================================
deferrals in use                    best spacing      loss beyond its bound
==================================  ================  =====================================
:math:`D` fixed                     :math:`K^{-2/3}`  :math:`K^{-4/3}` beyond :math:`B_{K,D}`
:math:`D = \delta\sqrt K`           :math:`K^{-2/3}`  :math:`K^{-2/3}` beyond :math:`B_{K,D}`
limited by a mean time, zero beta   :math:`K^{-2/3}`  :math:`K^{-2/3}` beyond 0
the same, :math:`\beta > 0`         :math:`K^{-3/4}`  :math:`K^{-3/4}` beyond the throughput bound
the same, :math:`\beta < 0`         :math:`K^{-1/2}`  :math:`K^{-1}` beyond 0, both up to logarithms
==================================  ================  =====================================

The bounds and identities are theorems; the expansions are formal, and agree with the exact optima.
Functions of :math:`\beta` and other scaled arguments alone return limits for :math:`K \to \infty`.
Those that are given :math:`K` estimate their error there, and refuse where it would be large:
`SpacingExpansion.estimate` serves any :math:`D` from one to the order of :math:`\sqrt K`.
"""

from qcore.deferral.asymptotics._fixed_number import (
    SpacingEstimate,
    SpacingExpansion,
    dsrt_spacing,
    esrt_spacing,
)
from qcore.deferral.asymptotics._many import (
    ManyDeferrals,
    TimeLimit,
    UnderloadedTimeLimit,
    many_deferrals,
    mean_time_limit,
    scaled_waiting_room_blocking,
    underloaded_time_limit,
)
from qcore.deferral.asymptotics._slot import (
    deferral_slot_value,
    scaled_erlang_b,
    throughput_floor,
    waiting_room_blocking,
)

__all__ = [
    "ManyDeferrals",
    "SpacingEstimate",
    "SpacingExpansion",
    "TimeLimit",
    "UnderloadedTimeLimit",
    "deferral_slot_value",
    "dsrt_spacing",
    "esrt_spacing",
    "many_deferrals",
    "mean_time_limit",
    "scaled_erlang_b",
    "scaled_waiting_room_blocking",
    "throughput_floor",
    "underloaded_time_limit",
    "waiting_room_blocking",
]
