"""How often the simulators' intervals of 95 % cover the exact value, and whether they warn.

Exact values are those of birth-death chains, of the formula of Pollaczek and Khinchine, and of
Erlang's loss formula, which holds whatever the services; where there is none, one run thirty times
as long stands in. Services have mean 1.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from scipy import stats

from qcore.simulate import (
    Dsrt,
    Esrt,
    FixedReturn,
    NonIdling,
    ServerIdle,
    Thinned,
    deferrals,
    many_server_queue,
)

RUNS = 200
FEWEST_RUNS = 60  # of systems that need many customers
CUSTOMERS_IN_ALL = 20_000_000
LONGER = 30
QUEUE_MEASURES = (
    "busy_fraction",
    "abandonment_probability",
    "delay_probability",
    "waiting_time",
    "queue_length",
)
DEFERRAL_MEASURES = ("blocking_probability", "mean_busy", "mean_deferred")
SHORT_NAMES = {
    "busy_fraction": "busy",
    "abandonment_probability": "abandon",
    "delay_probability": "delay",
    "waiting_time": "wait",
    "queue_length": "queue",
    "blocking_probability": "blocking",
    "mean_busy": "busy",
    "mean_deferred": "deferred",
}

EXPONENTIAL = stats.expon()
GAMMA = stats.gamma(4.0, scale=0.25)
BURSTY = stats.gamma(0.25, scale=4.0)
LOGNORMAL = stats.lognorm(1.0, scale=np.exp(-0.5))
ALL = NonIdling()


def lomax(shape):
    """Return the law with tail (1 + t)^(-shape), scaled to mean 1."""
    return stats.lomax(shape, scale=shape - 1)


def patient(mean):
    return stats.expon(scale=mean)


# Name, servers, load a server, interarrival (scaled), service, patience, policy, customers.
QUEUES = (
    ("M/M/1", 1, 0.5, EXPONENTIAL, EXPONENTIAL, None, ALL, 20_000),
    ("M/M/1", 1, 0.9, EXPONENTIAL, EXPONENTIAL, None, ALL, 100_000),
    ("M/M/1, too short", 1, 0.95, EXPONENTIAL, EXPONENTIAL, None, ALL, 20_000),
    ("M/D/1", 1, 0.8, EXPONENTIAL, 1.0, None, ALL, 20_000),
    ("M/G/1, lognormal", 1, 0.7, EXPONENTIAL, LOGNORMAL, None, ALL, 100_000),
    ("M/G/1, Lomax 4.5", 1, 0.6, EXPONENTIAL, lomax(4.5), None, ALL, 200_000),
    ("M/G/1, Lomax 2.5", 1, 0.6, EXPONENTIAL, lomax(2.5), None, ALL, 200_000),
    ("M/M/3+M", 3, 1.1, EXPONENTIAL, EXPONENTIAL, patient(0.7), ALL, 20_000),
    ("G/G/3+G, bursty arrivals", 3, 0.9, BURSTY, GAMMA, LOGNORMAL, ALL, 50_000),
    ("G/D/10+D", 10, 1.1, GAMMA, 1.0, 0.5, ALL, 50_000),
    ("M/M/10+M", 10, 0.95, EXPONENTIAL, EXPONENTIAL, patient(10.0), ALL, 100_000),
    ("M/G/10+M, Lomax 2.5", 10, 1.2, EXPONENTIAL, lomax(2.5), patient(1.0), ALL, 100_000),
    ("M/G/10+M, Lomax 1.5", 10, 1.2, EXPONENTIAL, lomax(1.5), patient(1.0), ALL, 200_000),
    ("M/M/10+G, patience Lomax 1.5", 10, 1.2, EXPONENTIAL, EXPONENTIAL, lomax(1.5), ALL, 100_000),
    ("G/M/10+M, arrivals Lomax 1.5", 10, 0.9, lomax(1.5), EXPONENTIAL, patient(1.0), ALL, 100_000),
    ("M/G/20/20, lognormal", 20, 0.9, EXPONENTIAL, LOGNORMAL, 0.0, ALL, 100_000),
    ("M/G/20/20, Lomax 1.5", 20, 0.9, EXPONENTIAL, lomax(1.5), 0.0, ALL, 100_000),
    ("M/M/100", 100, 0.95, EXPONENTIAL, EXPONENTIAL, None, ALL, 200_000),
    ("M/M/100+M", 100, 1.0, EXPONENTIAL, EXPONENTIAL, patient(1.0), ALL, 50_000),
    ("M/M/100+M, slow", 100, 1.2, EXPONENTIAL, EXPONENTIAL, patient(10.0), ALL, 200_000),
    ("M/M/100+M, very slow", 100, 1.2, EXPONENTIAL, EXPONENTIAL, patient(100.0), ALL, 1_600_000),
    ("the same, too short", 100, 1.2, EXPONENTIAL, EXPONENTIAL, patient(100.0), ALL, 64_000),
    ("M/G/100+G, thinned", 100, 1.2, EXPONENTIAL, LOGNORMAL, GAMMA, Thinned(0.8), 100_000),
    ("M/G/100+G, resting", 100, 1.2, EXPONENTIAL, LOGNORMAL, GAMMA, ServerIdle(0.5), 200_000),
    ("M/M/1000+M", 1000, 1.0, EXPONENTIAL, EXPONENTIAL, patient(1.0), ALL, 300_000),
    ("M/G/1000+G", 1000, 1.2, EXPONENTIAL, LOGNORMAL, GAMMA, ALL, 500_000),
    ("the same, too short", 1000, 1.2, EXPONENTIAL, LOGNORMAL, GAMMA, ALL, 20_000),
)

# Name, servers, deferrals, load in all, policy, customers.
DEFERRALS = (
    ("Dsrt", 1, 1, 1.1, Dsrt(0.8), 10_000),
    ("Dsrt, rare returns", 3, 2, 3.0, Dsrt(50.0), 30_000),
    ("Esrt", 10, 2, 10.3, Esrt(4.0), 20_000),
    ("Esrt, many deferred", 10, 50, 11.0, Esrt(2.5), 200_000),
    ("the same, too short", 10, 50, 11.0, Esrt(2.5), 10_000),
    ("FixedReturn", 20, 5, 20.0, FixedReturn(2.0), 30_000),
    ("FixedReturn, too short", 3, 20, 4.0, FixedReturn(200.0), 10_000),
    ("Esrt", 100, 2, 101.0, Esrt(20.0), 30_000),
    ("Esrt", 1000, 5, 1000.0, Esrt(50.0), 300_000),
)


def markovian(servers, arrival_rate, abandonment_rate, states=20_000):
    """Solve the birth-death chain of M/M/N+M with services of mean 1."""
    number = np.arange(states)
    busy = np.minimum(number, servers)
    deaths = busy + (number - busy) * abandonment_rate
    log_weight = np.concatenate([[0.0], np.cumsum(np.log(arrival_rate) - np.log(deaths[1:]))])
    probability = np.exp(log_weight - log_weight.max())
    probability /= probability.sum()
    assert probability[-1] < 1e-20
    queue = probability @ (number - busy)
    return {
        "busy_fraction": probability @ busy / servers,
        "abandonment_probability": abandonment_rate * queue / arrival_rate,
        "delay_probability": probability[servers:].sum(),
        "waiting_time": queue / arrival_rate,
        "queue_length": queue,
    }


def one_server(load, variance):
    """Return the formula of Pollaczek and Khinchine for M/G/1 with services of mean 1."""
    wait = load * (1 + variance) / (2 * (1 - load))
    return {
        "busy_fraction": load,
        "abandonment_probability": 0.0,
        "delay_probability": load,
        "waiting_time": wait,
        "queue_length": load * wait,
    }


def loss_system(servers, load):
    """Return Erlang's loss probability by its recursion."""
    loss = 1.0
    for number in range(1, servers + 1):
        loss = load * loss / (number + load * loss)
    return {
        "busy_fraction": load * (1 - loss) / servers,
        "abandonment_probability": loss,
        "delay_probability": loss,
        "waiting_time": 0.0,
        "queue_length": 0.0,
    }


def exact_queue(servers, load, interarrival, service, patience):
    """Return the measures of a system for which they are known, or None."""
    if interarrival is not EXPONENTIAL:
        return None
    if patience == 0.0:
        return loss_system(servers, load * servers)
    if service is EXPONENTIAL and (patience is None or patience.dist.name == "expon"):
        rate = 0.0 if patience is None else 1 / patience.mean()
        return markovian(servers, load * servers, rate)
    if servers == 1 and patience is None:
        return one_server(load, 0.0 if service == 1.0 else service.var())
    return None


def simulations():
    """Yield name, servers, load, run as a function of customers and seed, customers, exact."""
    for name, servers, load, interarrival, service, patience, policy, customers in QUEUES:
        scale = interarrival.kwds.get("scale", 1.0) / (load * servers)
        law = interarrival.dist(*interarrival.args, scale=scale)
        exact = exact_queue(servers, load, interarrival, service, patience)

        def run(number, seed, system=(servers, law, service, patience, policy)):
            return many_server_queue(*system, customers=number, seed=seed)

        yield name, servers, load, run, customers, exact, QUEUE_MEASURES
    for name, servers, places, load, policy, customers in DEFERRALS:

        def run(number, seed, system=(servers, places, load, 1.0, policy)):
            return deferrals(*system, customers=number, seed=seed)

        yield name, servers, load / servers, run, customers, None, DEFERRAL_MEASURES


def coverage(run, customers, exact, measures, runs):
    """Return the fractions of runs whose interval covers, as text, and of runs that warn."""
    if exact is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reference = run(LONGER * customers, runs)
        exact = {name: getattr(reference, name).value for name in measures}
    covered, warned = dict.fromkeys(measures, 0), 0
    for seed in range(runs):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = run(customers, seed)
        warned += bool(caught)
        for name in measures:
            estimate = getattr(found, name)
            error = abs(estimate.value - exact[name])
            covered[name] += error <= 1.96 * estimate.standard_error + 1e-9 * abs(exact[name])
    shown = [f"{covered[name] / runs:.0%}" if exact[name] else "–" for name in measures]
    return shown, warned / runs


def table(runs):
    """Return the two tables in Markdown."""
    lines, columns = [], None
    for name, servers, load, run, customers, exact, measures in simulations():
        if measures is not columns:
            columns = measures
            heads = [SHORT_NAMES[measure] for measure in measures]
            lines += [
                "",
                "| system | servers | load a server | customers | runs | warns | "
                + " | ".join(heads)
                + " |",
                "|---|---:|---:|---:|---:|---:" + "|---:" * len(heads) + "|",
            ]
        chosen = max(FEWEST_RUNS, min(runs, CUSTOMERS_IN_ALL // customers))
        covered, warned = coverage(run, customers, exact, measures, chosen)
        lines.append(
            f"| {name} | {servers} | {load:.3g} | {customers:,} | {chosen} | {warned:.0%} | "
            + " | ".join(covered)
            + " |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines[1:]) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--output", type=Path, help="write the tables to this file")
    chosen = parser.parse_args()
    text = table(chosen.runs)
    if chosen.output:
        chosen.output.write_text(text, encoding="utf-8")
