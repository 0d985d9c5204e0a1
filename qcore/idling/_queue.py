"""The Markovian queue that the closed forms and the decision process share."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import poisson

from qcore._numerics import checks
from qcore.idling.fluid import UtilizationCost, positive_rate, unit_cost

_LARGEST_CHAIN = 1_500_000
_LARGEST_SUM = 4_000_000
_TAIL = 1e-17


@dataclass(frozen=True)
class PolicyCost:
    """Long-run averages under a policy, per server.

    Attributes
    ----------
    cost : float
        Cost per unit time and server.
    busy_fraction : float
        E[B]/N.
    utilization_cost : float
        E[g_U(B/N)].
    abandonment_rate, rejection_rate : float
        Customers who abandon, or are rejected, per unit time and server.
    queue_length : float
        E[Q]/N.
    """

    cost: float
    busy_fraction: float
    utilization_cost: float
    abandonment_rate: float
    rejection_rate: float
    queue_length: float


class Queue:
    """The parameters, checked, and what follows from them alone."""

    def __init__(
        self,
        servers,
        arrival_rate,
        service_rate,
        abandonment_rate,
        abandonment_cost,
        utilization_cost,
        holding_cost,
    ):
        self.servers = checks.count("servers", servers, at_least=1)
        self.arrival_rate = positive_rate("arrival_rate", arrival_rate)
        self.service_rate = positive_rate("service_rate", service_rate)
        self.abandonment_rate = positive_rate("abandonment_rate", abandonment_rate)
        self.abandonment_cost = unit_cost("abandonment_cost", abandonment_cost)
        self.holding_cost = unit_cost("holding_cost", holding_cost)
        self.utilization_cost = UtilizationCost(utilization_cost)

    def tail(self, longest):
        """P(Poisson(λ/θ) > longest), the bound on P(Q > longest) for every policy."""
        return float(poisson.sf(longest, self.arrival_rate / self.abandonment_rate))

    def longest_queue(self, max_waiting):
        if max_waiting is not None:
            return checks.count("max_waiting", max_waiting, at_least=1)
        mean = self.arrival_rate / self.abandonment_rate
        self.refuse_large_chain((self.servers + 1) * (int(mean) + 1))  # it is longer than the mean
        lengths = np.arange(int(mean), int(mean + 40 * math.sqrt(mean)) + 40)
        return max(int(lengths[np.argmax(poisson.sf(lengths, mean) <= _TAIL)]), 1)

    def refuse_large_chain(self, states):
        if states > _LARGEST_CHAIN:
            ratio = self.arrival_rate / self.abandonment_rate
            raise ValueError(
                f"servers = {self.servers} and arrival_rate / abandonment_rate = {ratio:g}: the "
                f"chain has {float(min(states, 10**300)):.7g} states, must have at most "
                f"{_LARGEST_CHAIN}; a smaller max_waiting truncates the queue"
            )

    def averages(self, busy, waiting, distribution, rejected, lost):
        """`PolicyCost` from a distribution; rates of rejected and of lost customers, in all."""
        n = self.servers
        levels, place = np.unique(busy, return_inverse=True)
        weights = np.bincount(place, weights=distribution)
        used = sum(
            weight * self.utilization_cost(level / n)
            for level, weight in zip(levels.tolist(), weights.tolist(), strict=True)
            if weight > 0
        )
        queue = float(distribution @ waiting) / n
        abandonments = self.abandonment_rate * queue + lost / n
        return PolicyCost(
            cost=self.abandonment_cost * (abandonments + rejected / n)
            + self.holding_cost * queue
            + used,
            busy_fraction=float(weights @ levels) / n,
            utilization_cost=used,
            abandonment_rate=abandonments,
            rejection_rate=rejected / n,
            queue_length=queue,
        )

    def erlang_a(self, working, admission_probability):
        """Averages of a queue whose working servers never idle, under a thinned load."""
        rate = self.arrival_rate * admission_probability

        def down(x):
            return (
                np.minimum(x, working) * self.service_rate
                + np.maximum(x - working, 0) * self.abandonment_rate
            )

        if rate > working * self.service_rate:
            mode = working + int((rate - working * self.service_rate) / self.abandonment_rate)
        else:
            mode = int(rate / self.service_rate)
        system = (
            f"arrival_rate = {self.arrival_rate!r}, service_rate = {self.service_rate!r}, "
            f"abandonment_rate = {self.abandonment_rate!r}"
        )
        below = np.cumprod(until_negligible(lambda x: down(mode - x) / rate, mode, system))
        # Upwards until the queue is negligible beside itself, not only beside the mode.
        above = np.cumprod(until_negligible(lambda x: rate / down(mode + 1 + x), None, system,
                                             at_least=working - mode + 2))  # fmt: skip
        weights = np.concatenate((below[::-1], [1.0], above))
        number = np.arange(mode - below.size, mode + above.size + 1)
        weights /= weights.sum()
        return self.averages(
            np.minimum(number, working),
            np.maximum(number - working, 0),
            weights,
            self.arrival_rate * (1 - admission_probability),
            0.0,
        )


def until_negligible(ratio, limit, system, at_least=0):
    """Ratios at 0, 1, … (at most ``limit`` of them) until their product is negligible.

    Negligible beside 1 and beside the product of the first ``at_least``, and so is all that
    follows: the ratios fall, so that it is less than a geometric series.
    """
    found = []
    start, size, product = 0, 256, 1.0
    base = None
    while limit is None or start < limit:
        stop = start + size if limit is None else min(start + size, limit)
        if stop > _LARGEST_SUM:
            raise ValueError(
                f"{system}: the number in the system spreads over more values than are summed, "
                f"must be at most {_LARGEST_SUM}"
            )
        part = ratio(np.arange(start, stop, dtype=float))
        found.append(part)
        running = product * np.cumprod(part)
        if base is None and stop > at_least:
            base = running[max(at_least - start - 1, 0)] if at_least > start else product
        product, last = float(running[-1]), float(part[-1])
        if product == 0 or (
            base is not None and last < 1 and product <= 1e-22 * min(base, 1.0) * (1 - last)
        ):
            break
        start, size = stop, 2 * size
    return np.concatenate(found) if found else np.empty(0)
