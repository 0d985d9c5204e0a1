"""Speed and accuracy of qcore.erlang beside SciPy's formulas, pyworkforce and LINE.

Prints a Markdown table; every time is the best of several in this run, and the ratio is the one
that means something. Errors are relative, measured against ball arithmetic (Arb) on the same
inputs, and the largest is shown. Inputs are deterministic.

    python -m benchmarks.erlang [--output FILE]
"""

import contextlib
import importlib
import io
import math
import time
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx
from scipy import special, stats
from scipy.optimize import brentq

from benchmarks import _command
from qcore import erlang

SMALLEST = 1e-300
ELEMENTS = 4000
CHECKED = 300


@dataclass
class Row:
    function: str
    input: str
    method: str
    seconds: float | None
    ratio: float | None
    error: str


# References


def inverse_in_balls(servers, load):
    """Return 1/B = eᵃ a⁻ˢ Γ(s + 1, a) as a ball."""
    precision = 160
    while precision < 20000:
        ctx.prec = precision
        s, a = arb(servers), arb(load)
        value = a.exp() * a ** (-s) * a.gamma_upper(s + 1)
        if value.rel_accuracy_bits() > 70:
            return value
        precision *= 2
    raise ArithmeticError(f"no reference for servers = {servers!r}, load = {load!r}")


def blocking_in_balls(servers, load):
    return 1 / inverse_in_balls(servers, load)


def delay_in_balls(servers, load):
    s, a = arb(servers), arb(load)
    return s / (a + (s - a) * inverse_in_balls(servers, load))


def abandonment_in_balls(servers, load, rate):
    """Return (1 + F)/(1/B + F) and (1 + (1 − s/a)F)/(1/B + F), F summed term by term."""
    inverse = inverse_in_balls(servers, load)
    ctx.prec = max(ctx.prec, 400)
    s, a, theta = arb(servers), arb(load), arb(rate)
    term, total, queue = arb(1), arb(0), arb(0)
    largest, m = arb(0), 0
    while True:
        m += 1
        term = term * a / (s + theta * m)
        total += term
        queue += m * term
        largest = max(largest, term, key=float_log)
        if m > (load - servers) / rate and float_log(term) < float_log(largest) - 80:
            break
    return (1 + total) / (inverse + total), queue * theta / a / (inverse + total)


def float_log(ball):
    return float(ball.log().mid()) if ball > 0 else -math.inf


def largest_error(values, references):
    """Describe the largest relative error, and how often there is no number at all."""
    values = np.atleast_1d(np.asarray(values, dtype=float))
    lost = ~np.isfinite(values)
    errors = [
        float(abs((arb(float(value)) - reference) / reference).upper())
        for value, reference in zip(values, references, strict=True)
        if math.isfinite(value)
    ]
    text = f"{max(errors):.1e}" if errors else ""
    if lost.any():
        text += f"{'; ' if text else ''}no number at {100 * lost.mean():.0f} %"
    return text


# Measuring


def best_time(function, budget=0.4, least=3):
    function()
    best, start, runs = math.inf, time.perf_counter(), 0
    while runs < least or time.perf_counter() - start < budget:
        before = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - before)
        runs += 1
    return best


def compare(function, description, methods, elements, measure):
    """Time each method, in the order given; the first is qcore, which the ratios refer to."""
    rows = []
    for name, method in methods:
        try:
            with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
                seconds = best_time(method) / elements
                error = measure(method())
        except Exception as problem:  # a peer may fail in any way; the table says how
            reason = (str(problem).splitlines() or [""])[0][:60].replace("|", "/")
            rows.append(Row(function, description, name, None, None, f"fails: {reason}"))
            continue
        ratio = seconds / rows[0].seconds if rows else 1.0
        rows.append(Row(function, description, name, seconds, ratio, error))
    return rows


def imported(module):
    """Return a module, or an object whose use raises the error of importing it."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return importlib.import_module(module)
    except Exception as problem:  # reported in the table
        return Missing(problem)


class Missing:
    def __init__(self, problem):
        self.problem = problem

    def __getattr__(self, name):
        raise self.problem


# Peers


def scipy_poisson(servers, load):
    return stats.poisson.pmf(servers, load) / stats.poisson.cdf(servers, load)


def scipy_gamma(servers, load):
    log = servers * np.log(load) - load - special.gammaln(servers + 1)
    return np.exp(log - np.log(special.gammaincc(servers + 1, load)))


def scipy_delay(servers, load):
    return servers / (load + (servers - load) / scipy_gamma(servers, load))


def scipy_abandonment(servers, load, rate):
    total = special.hyp1f1(1, servers / rate + 1, load / rate) - 1
    inverse = 1 / scipy_gamma(servers, load)
    delay = (1 + total) / (inverse + total)
    return delay, (1 + (1 - servers / load) * total) / (inverse + total)


def scipy_staffing(load, target):
    root = brentq(
        lambda servers: scipy_gamma(servers, load) - target, load / 2, load + 50 * math.sqrt(load)
    )
    return math.ceil(root)


def scipy_delay_staffing(load, target):
    root = brentq(
        lambda servers: scipy_delay(servers, load) - target,
        load * (1 + 1e-9),
        load + 50 * math.sqrt(load),
    )
    return math.ceil(root)


def workforce(load):
    # One transaction an interval of length 1 that takes `load`; the answer is wanted at once.
    return imported("pyworkforce.queuing").ErlangC(transactions=1, aht=load, asa=1e-300, interval=1)


# The comparisons


def erlang_b_rows():
    rng = np.random.default_rng(1974)
    wide = 10 ** rng.uniform(0, 9, ELEMENTS)
    inputs = {
        "100 servers, abs(z) < 5": (
            np.full(ELEMENTS, 100.0),
            100 + 10 * rng.uniform(-5, 5, ELEMENTS),
        ),
        "real servers 1 … 1e9, abs(z) < 5": (
            wide,
            np.abs(wide + rng.uniform(-5, 5, ELEMENTS) * np.sqrt(wide)),
        ),
        "log-uniform, 1e-3 … 1e9 both": (
            10 ** rng.uniform(-3, 9, ELEMENTS),
            10 ** rng.uniform(-3, 9, ELEMENTS),
        ),
    }
    line = imported("line_solver.api.lossn.erlang")
    rows = []
    for description, (servers, load) in inputs.items():
        counted = [
            i
            for i in range(ELEMENTS)
            if erlang.log_erlang_b(servers[i], load[i]) > math.log(SMALLEST)
        ][:CHECKED]
        references = [blocking_in_balls(servers[i], load[i]) for i in counted]

        def measure(values, counted=counted, references=references):
            return largest_error(np.asarray(values)[counted], references)

        methods = [
            ("qcore", lambda s=servers, a=load: erlang.erlang_b(s, a)),
            ("SciPy, gammaln and gammaincc", lambda s=servers, a=load: scipy_gamma(s, a)),
        ]
        if np.all(servers == 100):
            methods += [
                ("SciPy, poisson.pmf/cdf", lambda s=servers, a=load: scipy_poisson(s, a)),
                ("LINE, erlang_b", lambda a=load: [line.erlang_b(float(x), 100) for x in a]),
            ]
        rows += compare("Erlang B", description, methods, ELEMENTS, measure)
    for servers, load in ((10**6, 999_000.0), (100, 1e6)):
        reference = [blocking_in_balls(servers, load)]
        rows += compare(
            "Erlang B",
            f"{servers:,} servers, load {load:,.0f}",
            [
                ("qcore", lambda s=servers, a=load: erlang.erlang_b(s, a)),
                ("SciPy, gammaln and gammaincc", lambda s=servers, a=load: scipy_gamma(s, a)),
                ("SciPy, poisson.pmf/cdf", lambda s=servers, a=load: scipy_poisson(s, a)),
                ("LINE, erlang_b", lambda s=servers, a=load: line.erlang_b(a, s)),
            ],
            1,
            lambda value, reference=reference: largest_error(value, reference),
        )
    return rows


def erlang_c_rows():
    line = imported("line_solver.api.lossn.erlang")
    rows = []
    for servers, load in ((100, 90.0), (100, 100 - 1e-9), (10**5, 99_700.0)):
        reference = [delay_in_balls(servers, load)]
        rows += compare(
            "Erlang C",
            f"{servers:,} servers, load {load:,.12g}",
            [
                ("qcore", lambda s=servers, a=load: erlang.erlang_c(s, a)),
                ("SciPy, gammaln and gammaincc", lambda s=servers, a=load: scipy_delay(s, a)),
                (
                    "pyworkforce, waiting_probability",
                    lambda s=servers, a=load: workforce(a).waiting_probability(s),
                ),
                ("LINE, erlang_c", lambda s=servers, a=load: line.erlang_c(a, s)),
            ],
            1,
            lambda value, reference=reference: largest_error(value, reference),
        )
    return rows


def erlang_a_rows():
    line = imported("line_solver.api.qsys.abandonment")
    rows = []
    for servers, load, rate in (
        (100, 1.0, 1.0),
        (100, 90.0, 0.01),
        (100, 110.0, 1.0),
        (100, 1e4, 1.0),
        (10**6, 1.001e6, 1.0),
    ):
        references = abandonment_in_balls(servers, load, rate)

        def own(s=servers, a=load, theta=rate):
            measures = erlang.erlang_a(s, a, theta)
            return measures.delay_probability, measures.abandonment_probability

        def line_measures(s=servers, a=load, theta=rate):
            # It reports both probabilities as complements, so that small ones are lost.
            found = line.qsys_erlanga(a, 1.0, theta, s)
            return 1 - found["probNoWait"], found["probAbandon"]

        rows += compare(
            "Erlang A",
            f"{servers:,} servers, load {load:,.10g}, rate {rate:g}",
            [
                ("qcore", own),
                (
                    "SciPy, hyp1f1 and gammaincc",
                    lambda s=servers, a=load, theta=rate: scipy_abandonment(s, a, theta),
                ),
                ("LINE, qsys_erlanga", line_measures),
            ],
            1,
            lambda values, references=references: largest_error(values, references),
        )
    return rows


def staffing_rows():
    line = imported("line_solver.api.qsys.qed")
    rows = []

    def fewest(probability, target):
        def measure(found):
            right = probability(float(found)) <= arb(target)
            right = right and probability(float(found - 1)) > arb(target)
            return "right" if right else f"wrong: {found}"

        return measure

    for load, target in ((1e6, 0.01), (1e6, 1e-9)):
        rows += compare(
            "Servers for blocking",
            f"load {load:,.0f}, target {target:g}",
            [
                ("qcore", lambda a=load, t=target: erlang.servers_for_blocking(a, t)),
                ("SciPy, brentq on gammaincc", lambda a=load, t=target: scipy_staffing(a, t)),
            ],
            1,
            fewest(lambda s, a=load: blocking_in_balls(s, a), target),
        )
    for load, target in ((99.5, 0.2), (1e6 - 0.5, 0.2)):
        methods = [
            ("qcore", lambda a=load, t=target: erlang.servers_for_delay(a, t)),
            ("SciPy, brentq on gammaincc", lambda a=load, t=target: scipy_delay_staffing(a, t)),
            (
                "LINE, qsys_mmk_qed_staffing, exact",
                lambda a=load, t=target: line.qsys_mmk_qed_staffing(a, 1.0, t, exact=True)[
                    "numServers"
                ],
            ),
        ]
        if load < 1e5:  # its search takes a time that grows as the cube of the load
            methods.append(
                (
                    "pyworkforce, required_positions",
                    lambda a=load, t=target: workforce(a).required_positions(1 - t)["positions"],
                )
            )
        rows += compare(
            "Servers for delay",
            f"load {load:,.10g}, target {target:g}",
            methods,
            1,
            fewest(lambda s, a=load: delay_in_balls(s, a), target),
        )
    return rows


# The table


def table(rows):
    lines = [
        "| function | input | method | time | time / qcore | largest relative error |",
        "|---|---|---|---:|---:|---|",
    ]
    for row in rows:
        spent = "" if row.seconds is None else duration(row.seconds)
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
        lines.append(
            f"| {row.function} | {row.input} | {row.method} | {spent} | {ratio} | {row.error} |"
        )
    return "\n".join(lines)


def duration(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def report():
    """Measure everything and return the table."""
    return table([*erlang_b_rows(), *erlang_c_rows(), *erlang_a_rows(), *staffing_rows()])


if __name__ == "__main__":
    _command.run(__doc__, report)
