"""What the simulation of the GI/GI/N+GI queue returns."""

from dataclasses import dataclass

import numpy as np

from qcore._numerics import checks
from qcore._numerics.comparable import Comparable
from qcore.simulate._estimate import Estimate


@dataclass(frozen=True)
class QueueCensus:
    """What became of every arrival of a run, the warm-up included, at its last arrival.

    ``arrivals = rejected + served + abandoned + waiting + in_service``, exactly; each number on
    the right is counted on its own.
    """

    arrivals: int
    rejected: int
    served: int
    abandoned: int
    waiting: int
    in_service: int


@dataclass(frozen=True, eq=False)
class Histogram(Comparable):
    """A measure on bins with standard errors.

    Attributes
    ----------
    edges : ndarray, shape (n + 1,)
    density : ndarray, shape (n,)
        Mean over each bin of the density of the measure.
    standard_error : ndarray, shape (n,)
    tail : Estimate
        Mass at or beyond each edge: arrays of shape (n + 1,).
    """

    edges: np.ndarray
    density: np.ndarray
    standard_error: np.ndarray
    tail: Estimate

    def quantile(self, probability):
        r"""Return the time that is exceeded with a chance of one minus this probability.

        The tail is taken to be linear within a bin, so that the answer is as fine as the bins;
        its standard error is that of the tail over the density of the bin. Meant for ``waits``
        and ``potential_waits``, whose mass is 1.

        Parameters
        ----------
        probability : float
            In (0, 1).

        Returns
        -------
        Estimate

        Raises
        ------
        ValueError
            If the quantile lies outside the edges, or nothing was seen in its bin.

        Examples
        --------
        >>> import numpy as np
        >>> from scipy import stats
        >>> from qcore.simulate import NonIdling, many_server_queue
        >>> run = many_server_queue(
        ...     1,
        ...     stats.expon(),
        ...     stats.expon(scale=0.8),
        ...     None,
        ...     NonIdling(),
        ...     customers=500_000,
        ...     seed=1,
        ...     wait_edges=np.linspace(0.0, 40.0, 401),
        ... )
        >>> exact = np.log(0.8 / 0.1) / 0.25  # P(W > t) = 0.8 exp(−t/4)
        >>> found = run.waits.quantile(0.9)
        >>> bool(abs(found.value - exact) < 4 * found.standard_error < 0.6)
        True
        """
        probability = checks.scalar("probability", probability, above=0.0, below=1.0)
        wanted = 1 - probability
        bin_ = int(np.searchsorted(-self.tail.value, -wanted, side="right")) - 1
        if not 0 <= bin_ < len(self.density):
            raise ValueError(
                f"probability = {probability}: must have a quantile within the edges, beyond which "
                f"lie {1 - self.tail.value[0]:.6g} below and {self.tail.value[-1]:.6g} above"
            )
        density = self.density[bin_]
        into = (self.tail.value[bin_] - wanted) / density
        error = np.interp(self.edges[bin_] + into, self.edges, np.asarray(self.tail.standard_error))
        return Estimate(float(self.edges[bin_] + into), float(error / density))


@dataclass(frozen=True, eq=False)
class QueueEstimates(Comparable):
    """Long-run averages of the GI/GI/N+GI queue.

    Attributes
    ----------
    abandonment_probability, rejection_probability : Estimate
        Fractions of all arrivals.
    delay_probability : Estimate
        Fraction of the admitted who do not enter service at once.
    waiting_time : Estimate
        Mean time in the queue of the admitted, whether they are served or abandon.
    served_waiting_time : Estimate
        The same of those who are served.
    busy_fraction : Estimate
        Time average of the number of busy servers, over the number of servers.
    queue_length : Estimate
        Time average of the number of customers waiting.
    abandonment_rate, rejection_rate, throughput : Estimate
        Abandonments, rejections and customers served per unit of time.
    utilization_cost : Estimate or None
        Time average of the given cost of the fraction of busy servers.
    cost_per_server : Estimate
        Cost per server and unit of time: the utilisation cost, and what abandonments, rejections
        and waiting customers cost. Its standard error allows for their dependence.
    busy_distribution : ndarray, shape (servers + 1,)
        Fraction of time during which exactly k servers are busy.
    census : QueueCensus
        Where every arrival of the run was at its end.
    waits, potential_waits : Histogram or None
        Probability density of the time in the queue of the admitted, and of the time that they
        would have waited with unlimited patience. Those who do not wait are in the bin of zero.
        ``waits.tail`` is the chance of waiting as long as each edge, ``waits.quantile`` inverts it.
    queue_ages, service_ages : Histogram or None
        Customers per unit of age: the measures of the times that those waiting have waited, and
        of the times that those in service have been served, averaged over equally spaced moments.
    """

    abandonment_probability: Estimate
    rejection_probability: Estimate
    delay_probability: Estimate
    waiting_time: Estimate
    served_waiting_time: Estimate
    busy_fraction: Estimate
    queue_length: Estimate
    abandonment_rate: Estimate
    rejection_rate: Estimate
    throughput: Estimate
    utilization_cost: Estimate | None
    cost_per_server: Estimate
    busy_distribution: np.ndarray
    census: QueueCensus
    waits: Histogram | None
    potential_waits: Histogram | None
    queue_ages: Histogram | None
    service_ages: Histogram | None
