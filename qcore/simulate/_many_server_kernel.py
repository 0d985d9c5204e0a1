"""The inner loop of the simulation of the GI/GI/N+GI queue.

First come, first served with a patience known on arrival obeys the recursion of Kiefer and
Wolfowitz: a customer would enter service when the first of the N servers becomes available, and
abandons if the patience ends before. Resting for a constant time after a service only delays
that moment, so one recursion serves every policy here. Servers become available in the order in
which the recursion uses them; with a constant rest they also finish in that order, so merging the
two sorted sequences of completions and of starts counts the busy servers at every moment.

The earliest available server is found by a loser tree of integers: the bits of a non-negative
float order as an integer, and the lowest of them give way to the server's number.
"""

import numpy as np

from qcore._numerics.compiled import njit
from qcore.simulate._quantile_table import random_uniform

STATE = np.dtype(
    [
        ("now", "f8"),  # epoch of the last arrival
        ("merged_until", "f8"),  # the busy servers are counted up to this epoch
        ("next_snapshot", "f8"),
        ("batch_start", "f8"),
        ("time_left_in_line", "f8"),  # of the customers waiting when the batch began
        ("matched", "i8"),  # servers taken by the recursion so far
        ("merged", "i8"),  # starts of service merged so far
        ("idle", "i8"),  # servers not serving at merged_until
        ("in_line", "i8"),  # rows of ``line`` in use
        ("batch", "i8"),
        ("customers_to_boundary", "i8"),
    ]
)

# Columns of the sums over a batch.
(
    ARRIVALS,
    REJECTED,
    ABANDONED,
    SERVED,
    DELAYED,
    WAIT,
    SERVED_WAIT,
    DURATION,
    QUEUE,
    COUNTED_TIME,
    BUSY,
    COST,
    SNAPSHOTS,
    COLUMNS,
) = range(14)

# Columns of ``line``: customers who had to wait, with what the recursion did to their server.
ARRIVAL, ENTRY, LEAVES_LINE, DISPLACED_START, LINE_COLUMNS = range(5)


_STEP = np.uint64(1)
_NEVER = np.uint64(2**64 - 1)


@njit
def key_of(epoch, server, mask):
    """Return an integer that orders by the epoch and carries the server in its lowest bits."""
    return (np.float64(epoch).view(np.uint64) & ~mask) | server


@njit
def build_tree(tree, available):
    """Fill the loser tree: ``tree[0]`` is the winner, ``tree[n]`` the loser of the match at n."""
    leaves = len(tree)
    mask = np.uint64(leaves - 1)
    winners = np.full(2 * leaves, _NEVER)
    for leaf in range(len(available)):
        winners[leaves + leaf] = key_of(available[leaf], np.uint64(leaf), mask)
    for node in range(leaves - 1, 0, -1):
        tree[node] = max(winners[2 * node], winners[2 * node + 1])
        winners[node] = min(winners[2 * node], winners[2 * node + 1])
    tree[0] = winners[1]


@njit
def move_origin(state, tree, available, began, starts, line):
    """Count time from the earliest available server on, so that epochs keep their digits."""
    shift = available.min()
    available -= shift
    began -= shift
    starts -= shift
    line[: state.in_line] -= shift
    state.now -= shift
    state.merged_until -= shift
    state.next_snapshot -= shift
    state.batch_start -= shift
    build_tree(tree, available)


@njit
def forget_line(state, line):
    """Drop those whom the head of the line has passed; the entries to service are in order."""
    first = 0
    while first < state.in_line and line[first, ENTRY] <= state.now:
        first += 1
    kept = state.in_line - first
    for row in range(kept):
        line[row] = line[first + row]
    state.in_line = kept


@njit
def take_snapshot(state, epoch, rest, available, began, line, waits, ages, ages_row, queue_row):
    """Add to the histograms the ages in service and in the queue at the epoch."""
    for server in range(len(available)):
        if began[server] <= epoch < available[server] - rest:
            add_to(ages, ages_row, epoch - began[server])
    row = state.in_line - 1
    while row >= 0 and line[row, ENTRY] > epoch:
        if line[row, LEAVES_LINE] > epoch:
            add_to(waits, queue_row, epoch - line[row, ARRIVAL])
        if line[row, DISPLACED_START] <= epoch < line[row, ENTRY] - rest:
            add_to(ages, ages_row, epoch - line[row, DISPLACED_START])
        row -= 1


@njit
def add_to(edges, histogram, value):
    """Count the value in its bin ``edges[i] <= value < edges[i + 1]``; the last is beyond all."""
    if len(edges) and value >= edges[0]:
        histogram[np.searchsorted(edges, value, side="right") - 1] += 1


@njit
def close_batch(state, rest, available, starts, line, idle_time, total_idle_time, cost, sums):
    """Finish the sums of a batch at the present arrival and begin the next batch."""
    servers = len(available)
    total = sums[state.batch]
    time_left = 0.0
    row = state.in_line - 1
    while row >= 0 and line[row, ENTRY] > state.now:
        time_left += max(line[row, LEAVES_LINE] - state.now, 0.0)
        row -= 1
    total[QUEUE] = total[WAIT] - time_left + state.time_left_in_line
    total[DURATION] = state.now - state.batch_start
    state.time_left_in_line = time_left
    state.batch_start = state.now

    if state.merged_until < state.now:
        # Servers that have finished, but that nobody has taken since.
        completions = np.sort(available[available - rest <= state.now] - rest)
        idle, merged, until = state.idle, state.merged, state.merged_until
        done = 0
        while True:
            completion = completions[done] if done < len(completions) else np.inf
            start = starts[merged & (len(starts) - 1)] if merged < state.matched else np.inf
            epoch = min(completion, start, state.now)
            if epoch > until:
                idle_time[idle] += epoch - until
                until = epoch
            if completion <= start:
                if completion > state.now or done == len(completions):
                    break
                idle += 1
                done += 1
            else:
                if start > state.now:
                    break
                idle -= 1
                merged += 1
        state.merged_until = state.now

    for idle in range(servers + 1):
        total[COUNTED_TIME] += idle_time[idle]
        total[BUSY] += (servers - idle) * idle_time[idle]
        total[COST] += cost[servers - idle] * idle_time[idle]
        if state.batch > 0:
            total_idle_time[idle] += idle_time[idle]
        idle_time[idle] = 0.0
    state.batch += 1


@njit
def advance(
    state,
    first,
    batch_size,
    interarrivals,
    services,
    patiences,
    admission_seed,
    admission,
    rest,
    snapshot_spacing,
    tree,
    available,
    began,
    starts,
    line,
    idle_time,
    total_idle_time,
    cost,
    sums,
    wait_edges,
    age_edges,
    histograms,
):
    """Simulate the customers numbered from ``first`` on; see `qcore.simulate._many_server_run`."""
    customers = len(interarrivals)
    leaves = np.uint64(len(tree))
    mask = np.uint64(leaves - _STEP)
    starts_mask = len(starts) - 1
    waits_histogram, offered_histogram, ages_histogram, queue_histogram = histograms
    count_waits = len(wait_edges) > 0

    begin = 0
    while begin < customers:
        end = min(customers, begin + state.customers_to_boundary)
        now = state.now
        merged_until = state.merged_until
        matched = state.matched
        merged = state.merged
        idle = state.idle
        in_line = state.in_line
        winner = tree[0]
        total = sums[state.batch]
        rejected = 0
        abandoned = 0
        delayed = 0
        waiting = 0.0
        abandoned_waiting = 0.0
        for i in range(begin, end):
            now += interarrivals[i]
            while now > state.next_snapshot:
                state.in_line = in_line
                take_snapshot(
                    state,
                    state.next_snapshot,
                    rest,
                    available,
                    began,
                    line,
                    wait_edges,
                    age_edges,
                    ages_histogram[state.batch],
                    queue_histogram[state.batch],
                )
                total[SNAPSHOTS] += 1
                state.next_snapshot += snapshot_spacing
            if admission < 1.0 and random_uniform(admission_seed, first + i) >= admission:
                rejected += 1
                continue
            patience = patiences[i]
            server = winner & mask
            entry = available[server]
            wait = max(entry - now, 0.0)
            if count_waits:
                add_to(wait_edges, offered_histogram[state.batch], wait)
                add_to(wait_edges, waits_histogram[state.batch], min(wait, patience))
            if wait > patience:
                abandoned += 1
                delayed += 1
                waiting += patience
                abandoned_waiting += patience
                line[in_line, ARRIVAL] = now
                line[in_line, ENTRY] = entry
                line[in_line, LEAVES_LINE] = now + patience
                line[in_line, DISPLACED_START] = np.inf
                in_line += 1
                continue
            start = max(now, entry)
            if wait > 0.0:
                delayed += 1
                waiting += wait
                line[in_line, ARRIVAL] = now
                line[in_line, ENTRY] = entry
                line[in_line, LEAVES_LINE] = entry
                line[in_line, DISPLACED_START] = began[server]
                in_line += 1
            began[server] = start
            epoch = start + (services[i] + rest)
            available[server] = epoch
            winner = key_of(epoch, server, mask)
            node = (leaves + server) >> _STEP
            while node:
                loser = tree[node]
                tree[node] = max(loser, winner)
                winner = min(loser, winner)
                node >>= _STEP

            completion = entry - rest
            while merged < matched:
                previous = starts[merged & starts_mask]
                if previous > completion:
                    break
                if previous > merged_until:
                    idle_time[idle] += previous - merged_until
                    merged_until = previous
                idle -= 1
                merged += 1
            if completion > merged_until:
                idle_time[idle] += completion - merged_until
                merged_until = completion
            idle += 1
            starts[matched & starts_mask] = start
            matched += 1

        state.now = now
        state.merged_until = merged_until
        state.matched = matched
        state.merged = merged
        state.idle = idle
        state.in_line = in_line
        tree[0] = winner
        total[ARRIVALS] += end - begin
        total[REJECTED] += rejected
        total[ABANDONED] += abandoned
        total[SERVED] += end - begin - rejected - abandoned
        total[DELAYED] += delayed
        total[WAIT] += waiting
        total[SERVED_WAIT] += waiting - abandoned_waiting
        state.customers_to_boundary -= end - begin
        if state.customers_to_boundary == 0:
            close_batch(
                state, rest, available, starts, line, idle_time, total_idle_time, cost, sums
            )
            state.customers_to_boundary = batch_size
        begin = end


@njit
def census(state, rest, available, began, line):
    """Return the customers waiting, in service, served and not yet abandoned, at the last arrival.

    Each is counted by its own epochs, so that their sum is a check.
    """
    now = state.now
    waiting, in_service, yet_to_abandon = 0, 0, 0
    completed = state.matched - len(available)
    for server in range(len(available)):
        if available[server] - rest <= now:
            completed += 1
        elif began[server] <= now:
            in_service += 1
    for row in range(state.in_line):
        if line[row, LEAVES_LINE] > now:
            waiting += 1
        if line[row, DISPLACED_START] == np.inf:
            if line[row, LEAVES_LINE] > now:
                yet_to_abandon += 1
        elif line[row, ENTRY] - rest > now:
            completed -= 1
            if line[row, DISPLACED_START] <= now:
                in_service += 1
    return waiting, in_service, completed, yet_to_abandon
