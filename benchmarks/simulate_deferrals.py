"""Events a second of `qcore.simulate.deferrals` against simpy and ciw, in one run.

Every simulator gets processor time on one core; the peers simulate fewer customers. An event is
an arrival, a service or a return. Both peers simulate the loss system without deferrals; simpy
also simulates deterministically spaced returns, for which ciw has no vocabulary.
"""

import time

import ciw
import numpy as np
import simpy

from benchmarks import _command
from qcore.simulate import Dsrt, Esrt, FixedReturn, UniformReturn, deferrals

SERVICE_RATE = 1.0
REPEATS = 3


def arrival_rate(servers):
    return servers + 0.1 * servers**0.5


def run_qcore(servers, max_deferrals, policy, customers, seed):
    result = deferrals(
        servers,
        max_deferrals,
        arrival_rate(servers),
        SERVICE_RATE,
        policy,
        customers,
        seed,
    )
    census = result.census
    returns = result.deferral_probability.value * census.arrivals - census.in_deferral
    return census.arrivals + census.served + returns, result.blocking_probability.value


def run_simpy(servers, max_deferrals, policy, customers, seed):
    random = np.random.default_rng(seed)
    environment = simpy.Environment()
    desk = simpy.Resource(environment, servers)
    in_deferral = lost = events = 0
    last_return = 0.0

    def serve():
        nonlocal events
        with desk.request() as request:
            yield request
            yield environment.timeout(random.exponential(1 / SERVICE_RATE))
        events += 1

    def come_back(delay):
        nonlocal in_deferral, lost, events
        yield environment.timeout(delay)
        in_deferral -= 1
        events += 1
        if desk.count < servers:
            environment.process(serve())
        else:
            lost += 1

    def arrivals():
        nonlocal in_deferral, lost, last_return, events
        for _ in range(customers):
            yield environment.timeout(random.exponential(1 / arrival_rate(servers)))
            events += 1
            if desk.count < servers:
                environment.process(serve())
            elif in_deferral < max_deferrals:
                in_deferral += 1
                last_return = max(environment.now, last_return) + policy.spacing
                environment.process(come_back(last_return - environment.now))
            else:
                lost += 1

    environment.process(arrivals())
    environment.run()
    return events, lost / customers


def run_ciw(servers, max_deferrals, policy, customers, seed):
    ciw.seed(seed)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(arrival_rate(servers))],
        service_distributions=[ciw.dists.Exponential(SERVICE_RATE)],
        number_of_servers=[servers],
        queue_capacities=[0],
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(customers, method="Arrive")
    records = simulation.get_all_records(only=["service", "rejection"])
    lost = sum(record.record_type == "rejection" for record in records)
    return customers + len(records) - lost, lost / customers


CASES = (
    ("no deferrals", 10, 0, Dsrt(0.3), ((run_simpy, 20_000), (run_ciw, 10_000))),
    ("Dsrt", 1, 1, Dsrt(1.0), ((run_simpy, 20_000),)),
    ("Dsrt", 10, 2, Dsrt(0.3), ((run_simpy, 20_000),)),
    ("Dsrt", 1000, 10, Dsrt(0.01), ((run_simpy, 20_000),)),
    ("Esrt", 10, 2, Esrt(4.0), ()),
    ("FixedReturn", 10, 2, FixedReturn(0.5), ()),
    ("UniformReturn", 10, 2, UniformReturn(1.0), ()),
)


def events_per_second(run, *arguments):
    """Return the best rate of several runs, and the loss of the last."""
    best = 0.0
    for seed in range(REPEATS):
        start = time.process_time()
        events, loss = run(*arguments, seed)
        best = max(best, events / (time.process_time() - start))
    return best, loss


def table(customers):
    deferrals(1, 0, 1.0, 1.0, Dsrt(1.0), 100_000, 1)
    lines = [
        "| policy | servers | max. deferrals | simulator | customers | million events/s "
        "| qcore is faster by | P_B |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for name, servers, max_deferrals, policy, peers in CASES:
        ours, loss = events_per_second(run_qcore, servers, max_deferrals, policy, customers)
        rows = [("qcore", customers, ours, loss)]
        for run, fewer in peers:
            rate, loss = events_per_second(run, servers, max_deferrals, policy, fewer)
            rows.append((run.__name__.removeprefix("run_"), fewer, rate, loss))
        lines += [
            f"| {name} | {servers} | {max_deferrals} | {simulator} | {number:,} "
            f"| {rate / 1e6:.3g} | {ours / rate:.3g} | {loss:.3f} |"
            for simulator, number, rate, loss in rows
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    _command.run(__doc__, table, customers=5_000_000)
