"""The loss system with deferrals as an event list in plain Python.

Written from the description of the policies, apart from the fast simulation: every service is an
event of its own, and exponentially spaced returns happen at the ticks of a Poisson clock that
runs all the time.
"""

import heapq
import itertools
import random
from collections import Counter
from math import sqrt


def deterministic_spacing(spacing):
    """No one deferred: back in ``spacing``; else ``spacing`` after the last one's return."""

    def return_time(now, in_deferral, _):
        return (max(in_deferral) if in_deferral else now) + spacing

    return return_time


def fixed_time(deferral_time):
    return lambda now, in_deferral, source: now + deferral_time


def uniform_time(max_deferral_time):
    return lambda now, in_deferral, source: now + source.uniform(0, max_deferral_time)


def simulate(
    servers,
    max_deferrals,
    arrival_rate,
    service_rate,
    customers,
    seed,
    return_time=None,
    clock=0.0,
    warmup=0,
):
    """Return the counts of everything that happened between the warm-up and the last arrival.

    Deferred customers return at ``return_time(now, return times of those in deferral, source)``,
    or, first deferred first, at the ticks of a Poisson clock of rate ``clock``.
    """
    source = random.Random(seed)
    order = itertools.count()
    events = []

    def schedule(time, kind):
        heapq.heappush(events, (time, next(order), kind))

    counts = Counter()
    busy = 0
    in_deferral = []
    schedule(source.expovariate(arrival_rate), "arrival")
    if clock:
        schedule(source.expovariate(clock), "tick")

    def admit(now):
        nonlocal busy
        busy += 1
        schedule(now + source.expovariate(service_rate), "departure")

    now = 0.0
    while counts["arrived"] < warmup + customers:
        time, _, kind = heapq.heappop(events)
        counts["busy time"] += busy * (time - now)
        counts["deferred time"] += len(in_deferral) * (time - now)
        now = time
        if kind == "tick":
            schedule(now + source.expovariate(clock), "tick")
            if not in_deferral:
                continue
            kind = "return"
        if kind == "departure":
            busy -= 1
            counts["served"] += 1
        elif kind == "return":
            in_deferral.remove(min(in_deferral))
            if busy < servers:
                counts["accepted return", busy] += 1
                admit(now)
            else:
                counts["lost on return"] += 1
        else:
            schedule(now + source.expovariate(arrival_rate), "arrival")
            if counts["arrived"] == warmup:
                before = Counter(counts, duration=now)
            counts["arrived"] += 1
            if busy < servers:
                admit(now)
            elif len(in_deferral) < max_deferrals:
                counts["deferred"] += 1
                if clock:
                    in_deferral.append(now)
                else:
                    back = return_time(now, in_deferral, source)
                    in_deferral.append(back)
                    schedule(back, "return")
            else:
                counts["lost on arrival"] += 1
    counts["duration"] = now
    counts.subtract(before)
    counts["busy"] = busy
    counts["in deferral"] = len(in_deferral)
    return counts


def measures(counts):
    """Return the long-run averages that the counts estimate."""
    arrived, duration = counts["arrived"], counts["duration"]
    return {
        "blocking_probability": (counts["lost on arrival"] + counts["lost on return"]) / arrived,
        "blocked_on_arrival": counts["lost on arrival"] / arrived,
        "blocked_on_return": counts["lost on return"] / arrived,
        "deferral_probability": counts["deferred"] / arrived,
        "mean_busy": counts["busy time"] / duration,
        "mean_deferred": counts["deferred time"] / duration,
    }


def estimates(runs):
    """Return mean and standard error of each measure over independent runs."""
    runs = [measures(counts) for counts in runs]
    result = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        mean = sum(values) / len(values)
        spread = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
        result[name] = (mean, sqrt(spread / len(values)))
    return result
