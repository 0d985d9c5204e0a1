"""A plain event-list simulation of the GI/GI/N+GI queue, written apart from qcore.

One event at a time: a service that ends, a rest that ends, an arrival, a patience that ends, in
this order where they coincide: a server free at the moment takes the customer.
Slow and short; it is what the fast simulation is compared with.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field

import numpy as np

ORDER = {"service ends": 0, "rest ends": 1, "arrival": 2, "patience ends": 3}


@dataclass
class Customer:
    arrival: float
    service: float
    patience: float
    in_queue: bool = False


@dataclass
class PlainRun:
    """Sums over a run: averages of one run are one independent observation."""

    servers: int
    cost: object
    arrivals: int = 0
    rejected: int = 0
    abandoned: int = 0
    served: int = 0
    delayed: int = 0
    waits: list = field(default_factory=list)
    duration: float = 0.0
    queue_integral: float = 0.0
    time_at_busy: np.ndarray = None

    def averages(self):
        fractions = np.arange(self.servers + 1) / self.servers
        busy = self.time_at_busy / self.duration
        return {
            "abandonment_probability": self.abandoned / self.arrivals,
            "rejection_probability": self.rejected / self.arrivals,
            "delay_probability": self.delayed / (self.arrivals - self.rejected),
            "waiting_time": float(np.mean(self.waits)),
            "busy_fraction": float(busy @ fractions),
            "queue_length": self.queue_integral / self.duration,
            "abandonment_rate": self.abandoned / self.duration,
            "rejection_rate": self.rejected / self.duration,
            "throughput": self.served / self.duration,
            "utilization_cost": float(busy @ [self.cost(f) for f in fractions]),
        }


def simulate(
    servers,
    draw_interarrival,
    draw_service,
    draw_patience,
    customers,
    warmup,
    generator,
    admission_probability=1.0,
    idle_time=0.0,
    cost=lambda fraction: fraction,
):
    """Run until ``warmup + customers`` have arrived; sums are taken from the warm-up's end on."""
    run = PlainRun(servers, cost)
    run.time_at_busy = np.zeros(servers + 1)
    events, tie = [], 0
    queue = deque()
    waiting = busy = 0
    free = servers
    clock = 0.0
    seen = 0
    measuring = warmup == 0

    def schedule(epoch, kind, customer=None):
        nonlocal tie
        heapq.heappush(events, (epoch, ORDER[kind], tie, kind, customer))
        tie += 1

    def begin_service(customer):
        nonlocal free, busy
        free -= 1
        busy += 1
        schedule(clock + customer.service, "service ends", customer)

    schedule(draw_interarrival(), "arrival")
    while True:
        epoch, _, _, kind, customer = heapq.heappop(events)
        if measuring:
            run.duration += epoch - clock
            run.queue_integral += waiting * (epoch - clock)
            run.time_at_busy[busy] += epoch - clock
        clock = epoch

        if kind == "arrival":
            seen += 1
            if seen > warmup + customers:
                return run
            if seen == warmup + 1:
                measuring = True
            schedule(clock + draw_interarrival(), "arrival")
            run.arrivals += measuring
            if generator.random() >= admission_probability:
                run.rejected += measuring
                continue
            customer = Customer(clock, draw_service(), draw_patience())
            if free:
                begin_service(customer)
                if measuring:
                    run.waits.append(0.0)
            else:
                customer.in_queue = True
                queue.append(customer)
                waiting += 1
                run.delayed += measuring
                if np.isfinite(customer.patience):
                    schedule(clock + customer.patience, "patience ends", customer)
        elif kind == "patience ends":
            if customer.in_queue:
                customer.in_queue = False
                waiting -= 1
                run.abandoned += measuring
                if measuring:
                    run.waits.append(clock - customer.arrival)
        elif kind == "service ends":
            busy -= 1
            run.served += measuring
            schedule(clock + idle_time, "rest ends")
        else:
            free += 1
            while queue and not queue[0].in_queue:
                queue.popleft()
            if queue:
                customer = queue.popleft()
                customer.in_queue = False
                waiting -= 1
                begin_service(customer)
                if measuring:
                    run.waits.append(clock - customer.arrival)
