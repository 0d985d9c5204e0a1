"""The M/M/N+M queue: exact costs of policies, closed forms and any others, and the best policy.

*Model.* Customers arrive in a Poisson process at rate :math:`\\lambda^N`, are served by one of
:math:`N` servers for an exponential time at rate :math:`\\mu`, and abandon the queue after an
exponential patience at rate :math:`\\theta > 0`. With :math:`B` servers busy and :math:`Q`
customers waiting, the cost per server is

.. math::

    C = \\frac{a\\,(\\text{rate of abandonments} + \\text{rate of rejections}) + h\\,E[Q]}{N}
        + E\\bigl[g_U(B/N)\\bigr].

*Actions.* Customers enter service at arrival and departure epochs only. The state just before the
decision is (busy, waiting), where an arriving customer is counted among the waiting and a
departing one no longer among the busy; the decision is how many of the waiting enter service, any
number up to the number of free servers. Nobody enters when a customer abandons or is rejected.

All functions take the *total* arrival rate :math:`\\lambda^N`; costs and rates in the results are
per server.
"""

from qcore.idling._queue import PolicyCost
from qcore.idling.decision_process import OptimalPolicy, optimal_policy, policy_cost
from qcore.idling.policies import (
    exponential_idling,
    fewer_servers,
    lower_bound,
    non_idling,
    thinned,
)

__all__ = [
    "OptimalPolicy",
    "PolicyCost",
    "exponential_idling",
    "fewer_servers",
    "lower_bound",
    "non_idling",
    "optimal_policy",
    "policy_cost",
    "thinned",
]
