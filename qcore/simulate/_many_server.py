"""Simulation of the GI/GI/N+GI queue: first come, first served, with servers that may rest."""

import math
import warnings

import numpy as np

from qcore._numerics import checks
from qcore.errors import UnstableSystem
from qcore.simulate._batches import warn_if_correlated, warn_if_short
from qcore.simulate._laws import law_of_times
from qcore.simulate._many_server_run import LONGEST_LINE, Queue, Run
from qcore.simulate._queue_policies import NonIdling, ServerIdle, Thinned
from qcore.simulate._relaxation import memory_of

MOST_SERVERS = 10**7
MOST_CUSTOMERS = 10**11
MOST_EDGES = 10**5
LEAST_LOAD = 1e-9
GREATEST_LOAD = 1e12


def many_server_queue(
    servers,
    interarrival,
    service,
    patience,
    policy,
    customers,
    seed,
    warmup=None,
    *,
    abandonment_cost=0.0,
    utilization_cost=None,
    holding_cost=0.0,
    wait_edges=None,
    age_edges=None,
):
    r"""Simulate the GI/GI/N+GI queue, first come, first served, and return long-run averages.

    Customer n arrives at :math:`A_n` with service time :math:`S_n` and patience :math:`R_n`. Let
    :math:`F` be the epoch at which the first of the servers becomes available. Then

    .. math:: V_n = (F - A_n)^+, \qquad
        \text{served iff } V_n \le R_n, \qquad
        F \leftarrow A_n + V_n + S_n + \tau,

    where :math:`\tau` is the time that a server rests after a service. With the number :math:`B` of
    busy servers, :math:`Q` of waiting customers and :math:`R(T)` of those lost by time :math:`T`,
    by abandonment or rejection, the long-run cost per server is

    .. math:: \lim_{T \to \infty} \frac1T \left(a \frac{R(T)}{N}
        + \int_0^T g_U\!\left(\frac{B(t)}{N}\right) + h \frac{Q(t)}{N} \, dt \right).

    Parameters
    ----------
    servers : int
        Number of servers N, from 1 to 10⁷.
    interarrival, service : law
        Of non-negative times with a finite mean > 0; see the notes for what is a law.
    patience : law or None
        Of non-negative times; None if nobody abandons.
    policy : NonIdling, Thinned or ServerIdle
        Who is admitted, and whether servers rest.
    customers : int
        Number of arrivals over which averages are taken, from 1000 to 10¹¹.
    seed : int
        Every random number is a function of it. A customer of given number has the same
        interarrival, service and patience times under every policy and number of servers.
    warmup : int, optional
        Number of arrivals to an empty system that come before and are left out of the averages.
        By default a tenth of ``customers``, or as many as it takes to forget the empty start if
        that is more, but no more than ``customers``.
    abandonment_cost, holding_cost : float, optional
        Cost a of each abandonment or rejection, and h of a waiting customer per unit of time.
    utilization_cost : callable, optional
        Cost :math:`g_U` per server and unit of time, as a function of the fraction of busy
        servers in [0, 1]. It is called once for each number of servers.
    wait_edges, age_edges : array_like, optional
        Increasing edges >= 0 of the bins of the histograms of waits, potential waits and ages in
        the queue, and of the ages in service; at most 10⁵.

    Returns
    -------
    QueueEstimates

    Raises
    ------
    ValueError
        If an argument is outside its domain, the offered load (mean service and rest over mean
        interarrival time) is outside of 10⁻⁹ to 10¹², or more customers would wait at once than
        one gigabyte holds (3·10⁷).
    UnstableSystem
        If nobody abandons and the admitted load is not below what the servers can do.

    Warns
    -----
    UserWarning
        If the run or its warm-up is too short for what the system remembers, if a law of
        interarrival or service times has no finite variance or, without abandonment, services have
        so heavy a tail that the mean wait has none, or if the run itself shows that its
        batches are correlated. Standard errors are then too small.

    Notes
    -----
    A law of times is one of

    - a number: a constant time;
    - a one-dimensional sample: its times are drawn with replacement, each with the same chance;
    - a frozen law of ``scipy.stats``, continuous or discrete, ``stats.rv_histogram`` and
      ``stats.rv_discrete(values=…)`` included;
    - a random variable of SciPy's newer kind, made by ``stats.make_distribution``,
      ``stats.Mixture`` and the like.

    Kiefer and Wolfowitz's recursion with a loser tree of the epochs at which servers become
    available; the number of busy servers comes from merging starts and completions, both of
    which the recursion yields in order. Averages are exact integrals over the run, not samples,
    except for the ages, which are seen at equally spaced moments. A customer costs 20 to 100 ns,
    more where SciPy draws the times. Memory does not depend on ``customers``: 100 bytes a
    server and 32 bytes a customer waiting.

    Times are drawn by inversion from a table of the quantile function wherever it is smooth: the
    relative error of a time is below 1e-9. Other laws are drawn by SciPy, more slowly.

    Standard errors come from 64 batches of equal numbers of arrivals and allow for the correlation
    of neighbouring batches. They are honest if a batch lasts two relaxation times and what is
    estimated happened dozens of times: where servers idle in a few short spells only, the interval
    of the busy fraction may cover 79 % (10 servers, load 1.2, patience of 20 mean services, 60,000
    customers). The relaxation time is estimated beforehand from the laws, as that of the virtual
    wait's diffusion and of the services under way; with abandonment in overload it is about the
    mean patience, which may be very long. The page of benchmarks has a table of how often value ±
    1.96 standard errors covers the exact value: 88 to 100 % of runs in the systems of that table,
    of 1 to 1000 servers, Markovian or not, that give no warning. The probability of what was
    possible but never seen, or always, is reported as 0 or 1 with the standard error
    1/``customers``, and its rate likewise.

    Results and policies can be pickled, compared and hashed. The same seed gives the same result in
    every process.

    References
    ----------
    - J. Kiefer, J. Wolfowitz, "On the theory of queues with many servers", Transactions of
      the American Mathematical Society 78 (1955).
    - G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators",
      OOPSLA (2014).

    Examples
    --------
    >>> from scipy import stats
    >>> from qcore.simulate import NonIdling, many_server_queue
    >>> estimates = many_server_queue(
    ...     servers=10,
    ...     interarrival=stats.gamma(2.0, scale=0.05),
    ...     service=stats.lognorm(1.0, scale=0.6),
    ...     patience=stats.expon(),
    ...     policy=NonIdling(),
    ...     customers=100_000,
    ...     seed=1,
    ... )
    >>> round(estimates.busy_fraction.value, 2)
    0.89

    One server with a constant service time, at load 0.8: half the wait of exponential services.

    >>> estimates = many_server_queue(
    ...     1, stats.expon(), 0.8, None, NonIdling(), customers=500_000, seed=1
    ... )
    >>> abs(estimates.waiting_time.value - 1.6) < 0.1
    True
    """
    servers = checks.count("servers", servers, at_least=1, at_most=MOST_SERVERS)
    customers = checks.count("customers", customers, at_least=1000, at_most=MOST_CUSTOMERS)
    seed = checks.random_seed(seed)
    if not isinstance(policy, NonIdling | Thinned | ServerIdle):
        raise ValueError(
            f"policy = {checks.shown(policy)}: must be NonIdling(), Thinned(…) or ServerIdle(…)"
        )
    queue = Queue(
        servers=servers,
        interarrival=law_of_times("interarrival", interarrival, finite_mean=True),
        service=law_of_times("service", service, finite_mean=True),
        patience=(
            None
            if patience is None
            else law_of_times("patience", patience, finite_mean=False, positive_mean=False)
        ),
        admission=policy.admission_probability,
        rest=policy.idle_time,
        abandonment_cost=_price("abandonment_cost", abandonment_cost),
        holding_cost=_price("holding_cost", holding_cost),
        utilization_cost=_cost_table(utilization_cost, servers),
        wait_edges=_edges("wait_edges", wait_edges),
        age_edges=_edges("age_edges", age_edges),
    )
    _check_load(queue)
    memory = memory_of(queue)
    to_forget = math.ceil(memory.warmup / queue.interarrival.mean)
    if warmup is None:
        warmup = min(max(customers // 10, to_forget), customers)
    else:
        warmup = checks.count("warmup", warmup, at_most=MOST_CUSTOMERS)
    _check_line(queue, memory, customers + warmup)
    _warn_of_heavy_tails(queue)
    warned = warn_if_short(
        customers,
        warmup,
        relaxation=memory.relaxation,
        forgotten=memory.warmup,
        interarrival=queue.interarrival.mean,
        stacklevel=2,
    )
    run = Run(queue, seed)
    run.simulate(warmup, customers)
    estimates = run.estimates()
    if not warned:
        warn_if_correlated(customers, run.measures(), stacklevel=2)
    return estimates


def _price(name, price):
    return checks.scalar(name, price, at_least=0.0, at_most=checks.LARGEST)


def _check_load(queue):
    """Refuse loads at which epochs would lose their digits, or nothing would be stable."""
    cycle = queue.service.mean + queue.rest
    offered = cycle / queue.interarrival.mean
    if not LEAST_LOAD <= offered <= GREATEST_LOAD:
        raise ValueError(
            f"interarrival: mean {queue.interarrival.mean:g} must be such that (mean service time "
            f"+ idle time) / mean interarrival time is from {LEAST_LOAD:g} to {GREATEST_LOAD:g}, "
            f"but it is {offered:g}"
        )
    load = _offered_load(queue)
    if queue.patience is None and load >= queue.servers:
        raise UnstableSystem(
            "patience = None: without abandonment the system is stable only if admission "
            "probability * (mean service time + idle time) / mean interarrival time < servers, "
            f"but {load:g} >= {queue.servers}"
        )


def _check_line(queue, memory, arrivals):
    waiting = min(queue.admission * memory.wait / queue.interarrival.mean, arrivals)
    if waiting > LONGEST_LINE:
        raise ValueError(
            f"patience: so long that about {waiting:.3g} customers would wait at once; there is "
            f"room for {LONGEST_LINE}"
        )


def _warn_of_heavy_tails(queue):
    for name in ("interarrival", "service"):
        if not np.isfinite(getattr(queue, name).squared_variation):
            warnings.warn(
                f"{name}: has no finite variance, so that averages converge slowly and standard "
                "errors are too small, however many customers there are",
                stacklevel=3,
            )
    # A wait is long when all servers that the load can spare have long services at once. Mean waits
    # have a finite variance if its tail falls faster than the third power: for one server, if
    # services have a fourth moment.
    spare = queue.servers - math.floor(_offered_load(queue))
    if queue.patience is None and spare * (queue.service.tail_index - 1) <= 3:
        warnings.warn(
            f"service: has so heavy a tail, of power {queue.service.tail_index:.3g}, that without "
            "abandonment the mean wait converges slowly and its standard error is too small, "
            "however many customers there are",
            stacklevel=3,
        )


def _offered_load(queue):
    return queue.admission * (queue.service.mean + queue.rest) / queue.interarrival.mean


def _cost_table(utilization_cost, servers):
    """Return the cost at every number of busy servers."""
    if utilization_cost is None:
        return None
    if not callable(utilization_cost):
        raise ValueError(
            f"utilization_cost = {checks.shown(utilization_cost)}: must be a function of the busy "
            "fraction"
        )
    fractions = np.arange(servers + 1) / servers
    try:
        cost = np.array([float(utilization_cost(fraction)) for fraction in fractions])
    except TypeError as wrong:
        raise ValueError(f"utilization_cost: must give numbers, but: {wrong}") from wrong
    inside = np.abs(cost) <= checks.LARGEST
    if not np.all(inside):
        raise ValueError(
            f"utilization_cost({fractions[~inside][0]}) = {cost[~inside][0]}: must be finite "
            f"and at most {checks.LARGEST:g} in size on [0, 1]"
        )
    return cost


def _edges(name, edges):
    if edges is None:
        return np.empty(0)
    edges = np.array(checks.real(name, edges, at_least=0.0))
    if edges.ndim != 1 or not 2 <= len(edges) <= MOST_EDGES or not np.all(np.diff(edges) > 0):
        raise ValueError(
            f"{name} = {checks.shown(edges)}: must be at least two increasing numbers, and at most "
            f"{MOST_EDGES}"
        )
    return edges
