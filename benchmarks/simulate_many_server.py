"""Customers a second of `qcore.simulate.many_server_queue` against its peers, in one run.

Gamma interarrival times, lognormal service times, gamma patience, 1.1 times as many arrivals as the
servers can serve. Every simulator gets processor time on one core, and the peers simulate fewer
customers. ciw knows neither thinning nor resting servers. LINE's engine ``ldes`` is run as its
Python package would run it, but for one word of the model's file: the package writes
"reneging" where the engine reads "RENEGING". LINE counts completed services; its abandonments are
added.
"""

import json
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import ciw
import line_solver
import numpy as np
import simpy
from line_solver.io import linemodel_io
from scipy import stats

from benchmarks import _command
from qcore.simulate import NonIdling, ServerIdle, Thinned, many_server_queue

LOAD = 1.1
REPEATS = 3


def run_qcore(servers, policy, customers, seed):
    result = many_server_queue(
        servers,
        stats.gamma(2.0, scale=0.5 / (LOAD * servers)),
        stats.lognorm(1.0, scale=np.exp(-0.5)),
        stats.gamma(2.0, scale=0.5),
        policy,
        customers,
        seed,
        utilization_cost=np.square,
    )
    return result.census.arrivals, result.abandonment_probability.value


def run_simpy(servers, policy, customers, seed):
    random = np.random.default_rng(seed)
    environment = simpy.Environment()
    desk = simpy.Resource(environment, servers)
    admitted = getattr(policy, "admission_probability", 1.0)
    idle_time = getattr(policy, "idle_time", 0.0)
    abandoned = 0

    def customer():
        nonlocal abandoned
        with desk.request() as request:
            outcome = yield request | environment.timeout(random.gamma(2.0, 0.5))
            if request in outcome:
                yield environment.timeout(random.lognormal(-0.5, 1.0))
                if idle_time:
                    yield environment.timeout(idle_time)
            else:
                abandoned += 1

    def arrivals():
        for _ in range(customers):
            yield environment.timeout(random.gamma(2.0, 0.5 / (LOAD * servers)))
            if random.random() < admitted:
                environment.process(customer())

    environment.process(arrivals())
    environment.run()
    return customers, abandoned / customers


def run_ciw(servers, policy, customers, seed):
    ciw.seed(seed)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Gamma(2.0, 0.5 / (LOAD * servers))],
        service_distributions=[ciw.dists.Lognormal(-0.5, 1.0)],
        reneging_time_distributions=[ciw.dists.Gamma(2.0, 0.5)],
        number_of_servers=[servers],
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(customers, method="Arrive")
    records = simulation.get_all_records()
    abandoned = sum(record.record_type == "renege" for record in records)
    return customers, abandoned / customers


def run_line(servers, policy, customers, seed):
    model = line_solver.Network("queue")
    source = line_solver.Source(model, "Source")
    queue = line_solver.Queue(model, "Queue", line_solver.SchedStrategy.FCFS)
    sink = line_solver.Sink(model, "Sink")
    jobs = line_solver.OpenClass(model, "Jobs")
    queue.set_number_of_servers(servers)
    source.set_arrival(jobs, line_solver.Gamma.fit_mean_and_scv(1 / (LOAD * servers), 0.5))
    queue.set_service(jobs, line_solver.Lognormal.fit_mean_and_scv(1.0, np.e - 1))
    queue.set_patience(jobs, line_solver.Gamma.fit_mean_and_scv(1.0, 0.5))
    model.link(line_solver.Network.serial_routing(source, queue, sink))
    engine = Path(line_solver.__file__).parent / "bin" / "ldes"
    with tempfile.TemporaryDirectory() as folder:
        description, result = Path(folder) / "model.json", Path(folder) / "result.json"
        linemodel_io.save_model(model, str(description))
        description.write_text(description.read_text().replace('"reneging"', '"RENEGING"'))
        command = [engine, "solve", description, "-o", result]
        subprocess.run(
            [*command, "--samples", str(customers), "--seed", str(seed + 1)],
            check=True,
            capture_output=True,
        )
        found = json.loads(result.read_text())
    abandoned = found["impatience"]["renegedCustomers"][1][0]
    return customers + abandoned, abandoned / (customers + abandoned)


CASES = (
    (NonIdling(), 10, ((run_line, 500_000), (run_simpy, 20_000), (run_ciw, 10_000))),
    (NonIdling(), 100, ((run_line, 500_000), (run_simpy, 20_000), (run_ciw, 10_000))),
    (NonIdling(), 1000, ((run_line, 500_000), (run_simpy, 20_000), (run_ciw, 10_000))),
    (Thinned(0.85), 100, ((run_simpy, 20_000),)),
    (ServerIdle(0.2), 100, ((run_simpy, 20_000),)),
)


def processor_time():
    """Return the seconds used by this process and by those that it has started and awaited."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def customers_per_second(run, *arguments):
    """Return the best rate of several runs, and the abandonment probability of the last."""
    best = 0.0
    for seed in range(REPEATS):
        start = processor_time()
        customers, abandoned = run(*arguments, seed)
        best = max(best, customers / (processor_time() - start))
    return best, abandoned


def table(customers):
    run_qcore(1, NonIdling(), 100_000, 1)
    lines = [
        "| policy | servers | simulator | customers | million customers/s | qcore is faster by "
        "| abandonment probability |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for policy, servers, peers in CASES:
        ours, abandoned = customers_per_second(run_qcore, servers, policy, customers)
        rows = [("qcore", customers, ours, abandoned)]
        for run, fewer in peers:
            rate, abandoned = customers_per_second(run, servers, policy, fewer)
            rows.append((run.__name__.removeprefix("run_"), fewer, rate, abandoned))
        lines += [
            f"| {policy} | {servers} | {simulator} | {number:,} | {rate / 1e6:.3g} "
            f"| {ours / rate:.3g} | {abandoned:.3f} |"
            for simulator, number, rate, abandoned in rows
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    _command.run(__doc__, table, customers=5_000_000)
