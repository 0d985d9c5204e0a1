"""What each subcommand computes: one dictionary of measures for each load."""

import math

from qcore import admission, deferral, erlang, idling, simulate


def erlang_measures(options, clock, load):
    """Erlang C, or Erlang A where there is a patience; Erlang B without waiting."""
    if options.no_waiting:
        blocked = erlang.erlang_b(options.servers, load)
        busy = load * (1 - blocked) / options.servers if options.servers else 0.0
        return {
            "offered load": load,
            "servers": options.servers,
            "blocking probability": blocked,
            "occupancy": busy,
        }
    queue = erlang.queue(options.servers, load, _abandonment_rate(options, clock))
    return {"offered load": load, "servers": options.servers} | _measures(queue, options, clock)


def staffing(options, clock, load):
    """The fewest servers for a target, and the queue with so many."""
    rate = _abandonment_rate(options, clock)
    if options.blocking is not None:
        servers = erlang.servers_for_blocking(load, options.blocking)
        blocked = erlang.erlang_b(servers, load)
        return {"offered load": load, "servers": servers, "blocking probability": blocked}
    if options.delay is not None:
        servers = erlang.servers_for_delay(load, options.delay, rate)
    elif options.abandonment is not None:
        if not rate:
            raise ValueError("--abandonment needs --patience: without it nobody abandons")
        servers = erlang.servers_for_abandonment(load, options.abandonment, rate)
    elif options.mean_wait is not None:
        wait = clock.in_services("--mean-wait", options.mean_wait)
        servers = max(1, erlang.servers_for_mean_wait(load, wait, rate))
    else:
        if options.within is None:
            raise ValueError("--service-level needs --within, such as --within 20s")
        wait = clock.in_services("--within", options.within)
        servers = erlang.servers_for_service_level(load, options.service_level, wait, rate)
    queue = erlang.queue(servers, load, rate)
    return {"offered load": load, "servers": servers} | _measures(queue, options, clock)


def admission_measures(options, clock, load):
    """The queue under a rule of admission."""
    rule, control = _rule(options), options.control
    if options.places is not None and control is not None:
        raise ValueError("--control goes with a profile, not with --places")
    queue = admission.queue(options.servers, load / options.servers, rule, control)
    return {"offered load": load, "servers": options.servers} | _measures(queue, options, clock)


def deferral_measures(options, clock, load):
    """Deferrals with a spacing, or with the best one."""
    servers, most = options.servers, options.deferrals
    exponential = options.policy == "esrt"
    module = deferral.esrt if exponential else deferral.dsrt
    if options.spacing is not None:
        spacing = clock.in_services("--spacing", options.spacing)
    else:
        longest = clock.in_services("--longest", options.longest)
        if exponential:
            best = module.optimal_rearrival_rate(servers, most, load, 1.0, longest)
            spacing, most = 1 / best.rearrival_rate, best.max_deferrals
        else:
            best = module.optimal_spacing(servers, most, load, 1.0, longest)
            spacing, most = best.spacing, best.max_deferrals
    lost = module.blocking_probability(
        servers, most, load, 1.0, 1 / spacing if exponential else spacing
    )
    name = "mean spacing" if exponential else "spacing"
    return {
        "offered load": load,
        "servers": servers,
        "deferrals": most,
        f"{name} [{clock.unit}]": clock.shown(spacing),
        "lost": float(lost),
        "lost without deferrals (Erlang B)": erlang.erlang_b(servers, load),
    }


def idling_measures(options, clock, load):
    """The best busy fraction of the fluid, and what policies cost with so many servers."""
    servers = options.servers
    rate = 1 / clock.in_services("--patience", options.patience)

    def cost(fraction):
        return options.utilization_cost * fraction**options.exponent

    fluid = idling.FluidControlProblem(load / servers, 1.0, options.abandonment_cost, cost)
    costs = {"abandonment_cost": options.abandonment_cost, "utilization_cost": cost}
    admitted = fluid.admission_probability
    answer = {
        "offered load": load,
        "servers": servers,
        "best busy fraction (fluid)": fluid.optimal_busy_fraction,
        "cost per server (fluid)": fluid.optimal_cost,
        "no policy costs less than": idling.markov.lower_bound(servers, load, 1.0, **costs),
        "never idle costs": idling.markov.non_idling(servers, load, 1.0, rate, **costs).cost,
    }
    if admitted:
        thinned = idling.markov.thinned(servers, load, 1.0, rate, admitted, **costs)
        answer |= {"admit this share": admitted, "admitting that share costs": thinned.cost}
    return answer


def simulated_measures(options, clock, load):
    """A simulation, with standard errors."""
    from scipy import stats

    edges = None
    if options.within is not None:
        within = clock.in_services("--within", options.within)
        edges = [0.0, within] if within else None
    patience = None
    if options.patience is not None:
        patience = stats.expon(scale=clock.in_services("--patience", options.patience))
    variation = options.service_variation
    service = 1.0 if variation == 0 else stats.gamma(variation**-2, scale=variation**2)
    run = simulate.many_server_queue(
        options.servers,
        stats.expon(scale=1 / load),
        service,
        patience,
        simulate.NonIdling(),
        options.customers,
        options.seed,
        wait_edges=edges,
    )
    found = {
        "delay probability": run.delay_probability,
        "abandonment probability": run.abandonment_probability,
        "occupancy": run.busy_fraction,
        "mean queue": run.queue_length,
    }
    answer = {"offered load": load, "servers": options.servers}
    for name, one in found.items():
        answer |= {name: one.value, f"{name}, standard error": one.standard_error}
    wait = f"mean wait [{clock.unit}]"
    answer[wait] = clock.shown(run.waiting_time.value)
    answer[f"{wait}, standard error"] = clock.shown(run.waiting_time.standard_error)
    if edges:
        tail = run.waits.tail
        name = f"wait longer than {_written(options.within)}"
        answer |= {name: float(tail.value[1])}
        answer[f"{name}, standard error"] = float(tail.standard_error[1])
    return answer


def _abandonment_rate(options, clock):
    if options.patience is None:
        return 0.0
    return 1 / clock.in_services("--patience", options.patience)


def _rule(options):
    """Return the profile or the rule that was asked for."""
    if options.places is not None:
        return admission.from_probabilities([1.0] * options.places)
    if options.drift is not None:
        return admission.ModifiedDrift(options.drift)
    if options.buffer is not None:
        return admission.FiniteBuffer(options.buffer)
    if options.reluctance is not None:
        return admission.Abandonment(options.reluctance)
    return admission.PowerDecay(options.power)


def _measures(queue, options, clock):
    """Return what is said of every queue; times in the unit of the mean service time."""
    unit = clock.unit
    answer = {
        "delay probability": queue.delay_probability,
        "rejection probability": queue.rejection_probability,
        "abandonment probability": queue.abandonment_probability,
        f"mean wait [{unit}]": clock.shown(queue.mean_wait),
        f"nine in ten wait at most [{unit}]": clock.shown(queue.wait_quantile(0.9)),
        "mean queue": queue.mean_queue,
        "occupancy": queue.occupancy,
    }
    if options.within is not None:
        within = clock.in_services("--within", options.within)
        answer[f"served within {_written(options.within)}"] = queue.service_level(within)
        answer[f"wait longer than {_written(options.within)}"] = queue.wait_tail(within)
    return {name: float(value) + 0.0 for name, value in answer.items()}


def _written(quantity):
    unit = quantity.unit or " mean services"
    number = int(quantity.number) if quantity.number == math.floor(quantity.number) else None
    return f"{quantity.number if number is None else number}{unit}"
