"""One run of the GI/GI/N+GI queue: its state, its blocks of customers, its averages."""

from dataclasses import dataclass

import numpy as np

from qcore.simulate import _many_server_kernel as kernel
from qcore.simulate._batches import BATCHES, ratio
from qcore.simulate._estimate import Estimate
from qcore.simulate._laws import Law
from qcore.simulate._queue_estimates import Histogram, QueueCensus, QueueEstimates

BLOCK = 8192
LONGEST_LINE = 2**25  # rows, of 32 bytes each
GOLDEN_RATIO = 1.618033988749895


@dataclass(frozen=True)
class Queue:
    """A queue to be simulated: its laws, its policy, its costs, and what is to be seen of it."""

    servers: int
    interarrival: Law
    service: Law
    patience: Law | None
    admission: float
    rest: float
    abandonment_cost: float
    holding_cost: float
    utilization_cost: np.ndarray | None  # at 0, 1, …, N busy servers
    wait_edges: np.ndarray
    age_edges: np.ndarray


class Run:
    """The state of one simulation and its sums."""

    def __init__(self, queue, seed):
        self.queue = queue
        servers = queue.servers
        streams = np.random.SeedSequence(seed).spawn(4)
        self.seeds = np.array([stream.generate_state(1, np.uint64)[0] for stream in streams])
        self.generators = [np.random.default_rng(stream) for stream in streams]

        leaves = 1 << (servers - 1).bit_length()
        self.tree = np.zeros(leaves, dtype=np.uint64)
        self.available = np.zeros(servers)
        self.began = np.full(servers, -np.inf)
        self.starts = np.zeros(1 << (servers + 1).bit_length())
        self.line = np.zeros((2 * BLOCK, kernel.LINE_COLUMNS))
        self.idle_time = np.zeros(servers + 2)
        self.total_idle_time = np.zeros(servers + 1)
        self.cost = queue.utilization_cost
        if self.cost is None:
            self.cost = np.zeros(servers + 1)
        self.sums = np.zeros((BATCHES + 1, kernel.COLUMNS))
        waits, ages = queue.wait_edges, queue.age_edges
        self.histograms = tuple(
            np.zeros((BATCHES + 1, len(edges))) for edges in (waits, waits, ages, waits)
        )
        # An irrational number of arrivals, so that arrivals on a lattice are not met in step.
        self.snapshot_spacing = GOLDEN_RATIO * max(servers, 16) * queue.interarrival.mean
        # A record array, whose fields are attributes in plain Python as in compiled code.
        self.state = np.zeros(1, dtype=kernel.STATE).view(np.recarray)[0]
        self.state.next_snapshot = self.snapshot_spacing if len(waits) or len(ages) else np.inf
        kernel.build_tree(self.tree, self.available)

    def simulate(self, warmup, customers):
        """Let the customers of the warm-up arrive, then 64 batches of the others."""
        batch_size, longer_warmup = divmod(customers, BATCHES)
        total = warmup + customers
        # Customers beyond a multiple of the number of batches join the warm-up.
        self.state.customers_to_boundary = warmup + longer_warmup
        if warmup + longer_warmup == 0:
            self.state.customers_to_boundary = batch_size
            self.state.batch = 1
        blocks_per_origin = max(1, self.queue.servers // 1024)
        for block, first in enumerate(range(0, total, BLOCK)):
            self._advance(first, min(BLOCK, total - first), batch_size)
            kernel.forget_line(self.state, self.line)
            if (block + 1) % blocks_per_origin == 0:
                kernel.move_origin(
                    self.state, self.tree, self.available, self.began, self.starts, self.line
                )

    def _advance(self, first, count, batch_size):
        if self.state.in_line + count > len(self.line):
            if len(self.line) >= LONGEST_LINE:
                raise ValueError(
                    f"patience: more than {LONGEST_LINE - BLOCK} customers wait at once, for whom "
                    "there is no room; shorten patience, or the run"
                )
            self.line = np.concatenate([self.line, np.zeros_like(self.line)])
        kernel.advance(
            self.state,
            first,
            batch_size,
            *self._times(first, count),
            self.seeds[3],
            self.queue.admission,
            self.queue.rest,
            self.snapshot_spacing,
            self.tree,
            self.available,
            self.began,
            self.starts,
            self.line,
            self.idle_time,
            self.total_idle_time,
            self.cost,
            self.sums,
            self.queue.wait_edges,
            self.queue.age_edges,
            self.histograms,
        )

    def _times(self, first, count):
        """Return interarrival, service and patience times of the customers from ``first`` on."""
        laws = (self.queue.interarrival, self.queue.service, self.queue.patience)
        for law, seed, generator in zip(laws, self.seeds, self.generators, strict=False):
            yield np.full(count, np.inf) if law is None else law.draw(first, count, seed, generator)

    def census(self):
        """Return where every arrival is."""
        waiting, in_service, served, yet_to_abandon = kernel.census(
            self.state, self.queue.rest, self.available, self.began, self.line
        )
        total = self.sums.sum(axis=0)
        return QueueCensus(
            arrivals=int(total[kernel.ARRIVALS]),
            rejected=int(total[kernel.REJECTED]),
            served=int(served),
            abandoned=int(total[kernel.ABANDONED]) - int(yet_to_abandon),
            waiting=int(waiting),
            in_service=int(in_service),
        )

    def measures(self):
        """Return numerators and denominators, a number a batch, of the plain averages."""
        sums = self.sums[1:].T
        served, abandoned = sums[kernel.SERVED], sums[kernel.ABANDONED]
        admitted, duration = served + abandoned, sums[kernel.DURATION]
        counted = sums[kernel.COUNTED_TIME]
        return {
            "waiting_time": (sums[kernel.WAIT], admitted),
            "served_waiting_time": (sums[kernel.SERVED_WAIT], served),
            "busy_fraction": (sums[kernel.BUSY], counted * self.queue.servers),
            "queue_length": (sums[kernel.QUEUE], duration),
            "throughput": (served, duration),
            "utilization_cost": (sums[kernel.COST], counted),
        }

    def estimates(self):
        """Return all averages with their standard errors."""
        queue = self.queue
        sums = self.sums[1:].T
        arrivals, rejected = sums[kernel.ARRIVALS], sums[kernel.REJECTED]
        abandoned = sums[kernel.ABANDONED]
        admitted = sums[kernel.SERVED] + abandoned
        duration, snapshots = sums[kernel.DURATION], sums[kernel.SNAPSHOTS]
        lost_and_held = queue.abandonment_cost * (rejected + abandoned)
        lost_and_held = lost_and_held + queue.holding_cost * sums[kernel.QUEUE]
        measures = self.measures()
        averages = {name: _ratio(*pair) for name, pair in measures.items()}
        if queue.utilization_cost is None:
            averages["utilization_cost"] = None
        abandonments = _occurrences(abandoned, arrivals, possible=queue.patience is not None)
        rejections = _occurrences(rejected, arrivals, possible=queue.admission < 1.0)
        waits, potential_waits, service_ages, queue_ages = self.histograms
        return QueueEstimates(
            **averages,
            abandonment_probability=abandonments(arrivals),
            rejection_probability=rejections(arrivals),
            delay_probability=_occurrences(sums[kernel.DELAYED], admitted)(admitted),
            abandonment_rate=abandonments(duration),
            rejection_rate=rejections(duration),
            cost_per_server=_sum_of_ratios(
                (lost_and_held, duration * queue.servers), measures["utilization_cost"]
            ),
            busy_distribution=self.total_idle_time[::-1] / self.total_idle_time.sum(),
            census=self.census(),
            waits=_histogram(queue.wait_edges, waits, admitted),
            potential_waits=_histogram(queue.wait_edges, potential_waits, admitted),
            queue_ages=_histogram(queue.wait_edges, queue_ages, snapshots),
            service_ages=_histogram(queue.age_edges, service_ages, snapshots),
        )


def _histogram(edges, counts, of):
    if not len(edges):
        return None
    density, error = ratio(counts[1:, :-1] / np.diff(edges), of)
    beyond = np.cumsum(counts[1:, ::-1], axis=1)[:, ::-1]
    return Histogram(
        edges=edges, density=density, standard_error=error, tail=Estimate(*ratio(beyond, of))
    )


def _occurrences(events, trials, possible=True):
    """Return the function that estimates how often events occur per unit of a denominator.

    If a possible event never occurred, or always, its standard error is that of one occurrence.
    """
    seen = events.sum()
    certain = possible and seen in (0, trials.sum())

    def estimate(denominator):
        found = _ratio(events, denominator)
        error = 1 / float(denominator.sum()) if certain else found.standard_error
        return Estimate(found.value, error)

    return estimate


def _ratio(numerator, denominator):
    if not denominator.sum() > 0:
        raise ValueError("customers: too few, nothing happened that could be averaged over")
    value, error = ratio(numerator, denominator)
    return Estimate(float(value), float(error))


def _sum_of_ratios(*pairs):
    """Return the estimate of a sum of ratios, with the error of the sum of their residuals."""
    value, residuals = 0.0, np.zeros(BATCHES)
    for numerator, denominator in pairs:
        one = numerator.sum() / denominator.sum()
        value += one
        residuals += (numerator - one * denominator) / denominator.sum()
    return _ratio(value + BATCHES * residuals, np.ones(BATCHES))
