"""Exact costs of policies in closed form in the M/M/N+M queue, and the bound for all of them."""

import numpy as np

from qcore._numerics import checks
from qcore.idling._queue import Queue
from qcore.idling._shared import documented
from qcore.idling._stationary import rate_matrix, stationary
from qcore.idling.fluid import FluidControlProblem, UtilizationCost, positive_rate

_MOST_WHOLE_SERVERS = 1_000_000


def lower_bound(
    servers, arrival_rate, service_rate, *, abandonment_cost, utilization_cost, whole_servers=False
):
    r"""Lower bound on the cost per server of every policy, at this number of servers.

    .. math::

        C^N \ge \min_{0\le b\le\min(1,\lambda^N/(N\mu))}
            a\Bigl(\frac{\lambda^N}{N} - b\mu\Bigr) + g_U(b)

    since the throughput per server is :math:`\mu E[B]/N` whatever the policy, and
    :math:`E[g_U(B/N)] \ge g_U(E[B]/N)` by Jensen's inequality. It holds for rejection, holding
    costs, and any laws of arrivals, service (mean :math:`1/\mu`) and patience, provided that

    - services are completed once they are begun: whoever may interrupt long ones does better;
    - patience is finite with probability one, so that everybody is served, rejected or abandons:
      customers who never abandon may be left waiting for ever at no cost;
    - service times are independent of patience, and not known before service begins: else servers
      can take the short ones.

    Since B is a whole number, Jensen's inequality also holds for the piecewise linear function that
    agrees with :math:`g_U` at the multiples of 1/N; that gives a larger bound.

    Parameters
    ----------
    servers : int
        :math:`N \ge 1`.
    arrival_rate : float
        :math:`\lambda^N`, in all, customers per unit time; rates from 1e-150 to 1e150.
    service_rate : float
        :math:`\mu`, of one server.
    abandonment_cost : float
        :math:`a \ge 0`, per customer who abandons or is rejected; at most 1e150.
    utilization_cost : callable
        :math:`g_U`, non-decreasing and convex on [0, 1].
    whole_servers : bool, optional
        Whether to use that the number of busy servers is an integer, for at most 1,000,000 servers,
        at a call of ``utilization_cost`` for each. Default: False, the bound displayed.

    Returns
    -------
    float
        Without ``whole_servers``, `qcore.idling.FluidControlProblem.optimal_cost` at the rate
        :math:`\lambda^N/N`.

    Raises
    ------
    ValueError
        If an argument is out of its domain.

    References
    ----------
    The limiting form is Theorem 2 of Zhong, Ward and Puha, Operations Research Letters 50 (2022).

    Examples
    --------
    >>> round(lower_bound(10, 12.0, 1.0, abandonment_cost=1.0, utilization_cost=lambda b: b**2), 12)
    0.95
    """
    servers = checks.count("servers", servers, at_least=1)
    arrival_rate = positive_rate("arrival_rate", arrival_rate)
    whole_servers = checks.flag("whole_servers", whole_servers)
    if whole_servers:
        checks.count("servers", servers, at_least=1, at_most=_MOST_WHOLE_SERVERS)
        smooth = UtilizationCost(utilization_cost)
        levels = np.arange(servers + 1) / servers
        values = np.array([smooth(float(level)) for level in levels])

        def utilization_cost(b):
            return np.interp(b, levels, values)

    return FluidControlProblem(
        arrival_rate / servers, service_rate, abandonment_cost, utilization_cost
    ).optimal_cost


@documented
def thinned(
    servers,
    arrival_rate,
    service_rate,
    abandonment_rate,
    admission_probability,
    *,
    abandonment_cost,
    utilization_cost,
    holding_cost=0.0,
):
    r"""Cost of admitting each arrival with probability p and never idling: Erlang A at rate pλ.

    .. math::

        C = \frac{a\,(\theta E[Q] + (1-p)\lambda^N) + h\,E[Q]}{N} + E[g_U(\min(X, N)/N)],
        \qquad Q = (X - N)^+,

    with :math:`X` the birth--death process with rates :math:`p\lambda^N` up and
    :math:`\min(x, N)\mu + (x - N)^+\theta` down.

    Parameters
    ----------
    %(system)s
    admission_probability : float
        :math:`p`, in (0, 1].
    %(costs)s

    %(averages)s

    %(sum_raises)s

    Notes
    -----
    %(sum_notes)s

    References
    ----------
    Zhong, Ward and Puha, Operations Research Letters 50 (2022), Definition 4; Garnett, Mandelbaum
    and Reiman, Manufacturing & Service Operations Management 4 (2002), for Erlang A.

    Examples
    --------
    >>> costs = dict(abandonment_cost=1.0, utilization_cost=lambda b: b**2)
    >>> round(thinned(100, 120.0, 1.0, 1.0, 0.5 / 1.2, **costs).cost, 6)
    0.955
    """
    queue = Queue(
        servers,
        arrival_rate,
        service_rate,
        abandonment_rate,
        abandonment_cost,
        utilization_cost,
        holding_cost,
    )
    p = checks.scalar("admission_probability", admission_probability, above=0, at_most=1)
    return queue.erlang_a(queue.servers, p)


@documented
def non_idling(
    servers,
    arrival_rate,
    service_rate,
    abandonment_rate,
    *,
    abandonment_cost,
    utilization_cost,
    holding_cost=0.0,
):
    """Cost of admitting everybody and never idling while a customer waits: Erlang A.

    The same as `thinned` with admission probability 1.

    Parameters
    ----------
    %(system)s
    %(costs)s

    %(averages)s

    %(sum_raises)s

    Notes
    -----
    %(sum_notes)s

    Examples
    --------
    >>> costs = dict(abandonment_cost=1.0, utilization_cost=lambda b: b**2)
    >>> round(non_idling(100, 120.0, 1.0, 1.0, **costs).cost, 6)
    1.198857
    """
    return thinned(
        servers,
        arrival_rate,
        service_rate,
        abandonment_rate,
        1.0,
        abandonment_cost=abandonment_cost,
        utilization_cost=utilization_cost,
        holding_cost=holding_cost,
    )


@documented
def fewer_servers(
    servers,
    arrival_rate,
    service_rate,
    abandonment_rate,
    working_servers,
    *,
    abandonment_cost,
    utilization_cost,
    holding_cost=0.0,
):
    r"""Cost of serving with some of the servers only, at most ``working_servers`` at a time.

    Nobody is rejected, and none of the working servers idles while a customer waits: Erlang A with
    :math:`M` servers, whose utilization cost is still :math:`E[g_U(B/N)]`.

    Parameters
    ----------
    %(system)s
    working_servers : int
        :math:`M`, in 0, …, ``servers``. The fluid optimum suggests :math:`b_*N`, which is seldom an
        integer; since the cost is not symmetric about it, compare both neighbours, or all
        :math:`M`, rather than rounding.
    %(costs)s

    %(averages)s

    %(sum_raises)s

    Notes
    -----
    %(sum_notes)s

    With exponential services and patience and :math:`\theta = \mu` the number in the system is the
    same under every policy, and the best whole number :math:`M` is optimal among all policies.

    Examples
    --------
    >>> costs = dict(abandonment_cost=1.0, utilization_cost=lambda b: b**2)
    >>> round(fewer_servers(100, 120.0, 1.0, 1.0, 50, **costs).cost, 6)
    0.95
    """
    queue = Queue(
        servers,
        arrival_rate,
        service_rate,
        abandonment_rate,
        abandonment_cost,
        utilization_cost,
        holding_cost,
    )
    working = checks.count("working_servers", working_servers, at_most=queue.servers)
    return queue.erlang_a(working, 1.0)


@documented
def exponential_idling(
    servers,
    arrival_rate,
    service_rate,
    abandonment_rate,
    idle_time,
    *,
    abandonment_cost,
    utilization_cost,
    holding_cost=0.0,
    max_waiting=None,
):
    r"""Cost of letting each server rest for an exponential time after each service.

    The Markovian relative of the policy in which a server idles for the fixed time
    :math:`(1-b_*)/(b_*\mu)` after each service: here that is the mean :math:`\tau` of an
    exponential time. A server who has rested takes the next customer, so customers enter service
    at the ends of rests, which are no arrival or departure epochs: like the original, the policy
    is outside the class described at the head of `qcore.idling.markov`. The chain has states (busy,
    resting, waiting), where customers wait only while every server is busy or resting.

    Parameters
    ----------
    %(system)s
    idle_time : float
        :math:`\tau \ge 10^{-150}`, mean rest.
    %(costs)s
    %(max_waiting)s

    %(averages)s

    Raises
    ------
    ValueError
        If an argument is out of its domain, or if the chain has more than 1.5 million states.

    Notes
    -----
    The stationary distribution by a sparse LU factorisation, as for `policy_cost`. *Cost*: memory
    and time of the factors of (N + 1)(N + 2)/2 + (N + 1)J states, seconds at 100,000 states and
    minutes at the most that are accepted.

    Examples
    --------
    >>> costs = dict(abandonment_cost=1.0, utilization_cost=lambda b: b**2)
    >>> round(exponential_idling(20, 24.0, 1.0, 1.0, 1.0, **costs).cost, 4)
    0.9625
    """
    queue = Queue(
        servers,
        arrival_rate,
        service_rate,
        abandonment_rate,
        abandonment_cost,
        utilization_cost,
        holding_cost,
    )
    idle_time = checks.scalar("idle_time", idle_time, at_least=1 / checks.LARGEST)
    longest = queue.longest_queue(max_waiting)
    n = queue.servers
    queue.refuse_large_chain((n + 1) * (n + 2) // 2 + (n + 1) * longest)

    # Without a queue: (busy, resting), busy + resting <= n. With one: all others rest.
    busy, resting = (part.ravel() for part in np.indices((n + 1, n + 1)))
    within = busy + resting <= n
    busy, resting = busy[within], resting[within]
    label = np.full((n + 1, n + 1), -1)
    label[busy, resting] = np.arange(busy.size)
    long_busy, long_waiting = (part.ravel() for part in np.indices((n + 1, longest)))
    long_label = np.column_stack(
        (
            label[np.arange(n + 1), n - np.arange(n + 1)],
            busy.size + np.arange((n + 1) * longest).reshape(n + 1, longest),
        )
    )
    long_waiting = long_waiting + 1
    here = label[busy, resting]
    full = busy + resting == n
    links = [
        (here[~full], label[busy[~full] + 1, resting[~full]], queue.arrival_rate),
        (here[full], long_label[busy[full], 1], queue.arrival_rate) if longest else None,
    ]
    serving = busy > 0
    links.append(
        (here[serving], label[busy[serving] - 1, resting[serving] + 1],
         busy[serving] * queue.service_rate)
    )  # fmt: skip
    idle = resting > 0
    links.append((here[idle], label[busy[idle], resting[idle] - 1], resting[idle] / idle_time))
    here = long_label[long_busy, long_waiting]
    room = long_waiting < longest
    links.append(
        (here[room], long_label[long_busy[room], long_waiting[room] + 1], queue.arrival_rate)
    )
    serving = long_busy > 0
    links.append(
        (here[serving], long_label[long_busy[serving] - 1, long_waiting[serving]],
         long_busy[serving] * queue.service_rate)
    )  # fmt: skip
    idle = long_busy < n
    links.append(
        (here[idle], long_label[long_busy[idle] + 1, long_waiting[idle] - 1],
         (n - long_busy[idle]) / idle_time)
    )  # fmt: skip
    links.append(
        (here, long_label[long_busy, long_waiting - 1], long_waiting * queue.abandonment_rate)
    )
    rates = rate_matrix([link for link in links if link is not None], here.size + label.max() + 1)
    every_busy = np.concatenate((busy, long_busy))
    every_waiting = np.concatenate((np.zeros_like(busy), long_waiting))
    throughput = min(queue.arrival_rate, n / (1 / queue.service_rate + idle_time))
    working = throughput / queue.service_rate
    waiting = max(queue.arrival_rate - throughput, 0.0) / queue.abandonment_rate
    distance = np.abs(every_busy - working) + np.abs(every_waiting - waiting)
    in_use = np.concatenate((busy + resting, np.full_like(long_busy, n)))
    distribution = stationary(rates, int(np.argmin(distance)), in_use + every_waiting)
    lost = queue.arrival_rate * float(distribution[every_waiting == longest].sum())
    return queue.averages(every_busy, every_waiting, distribution, 0.0, lost)
