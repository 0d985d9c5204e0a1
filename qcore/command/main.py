"""The command line itself: subcommands, their options and worked examples."""

import argparse
import contextlib
import sys
import warnings

import qcore
from qcore.command import units

_ABOUT = """\
Answers about many-server queues. A time may carry a unit (ms, s, min, h, d) once --service does;
without units all times are multiples of the mean service time. Several loads give a column each.
"""
_EXAMPLES = {
    "erlang": """\
How long do callers wait? 48 calls a minute of one minute each, 50 agents, patience two minutes:
  python -m qcore erlang --servers 50 --arrivals 48/min --service 1min --patience 2min --within 20s
How many calls are blocked on 117 trunks at 100 erlangs?
  python -m qcore erlang --servers 117 --load 100 --no-waiting
""",
    "staff": """\
How many agents answer four calls in five within 20 seconds? 90 calls an hour of four minutes:
  python -m qcore staff --arrivals 90/h --service 4min --service-level 0.8 --within 20s
The same for a day of loads, as a table for a spreadsheet:
  python -m qcore staff --arrivals 60/h 90/h --service 4min --service-level 0.8 --within 20s --csv
""",
    "admission": """\
What does a waiting room of five do?
  python -m qcore admission --servers 10 --load 9 --places 5
What does it do to admit fewer, the longer the queue?
  python -m qcore admission --servers 100 --load 98 --drift 0.5 --within 0.1
""",
    "deferral": """\
When should a blocked customer come back, if two may be away, for ten services at most?
  python -m qcore deferral --servers 10 --load 10.3 --deferrals 2 --longest 10
""",
    "idle": """\
Is it worth idling, if work wears servers out?
  python -m qcore idle --servers 50 --load 60 --patience 1 --utilization-cost 1.2
""",
    "simulate": """\
Do services of constant length wait less than the formulas for exponential ones say?
  python -m qcore simulate --servers 50 --load 48 --patience 2 --service-variation 0 --within 0.25
""",
}
_PURPOSES = {
    "erlang": "Erlang B, C and A: delay, waits, abandonment, occupancy",
    "staff": "the fewest servers for a target",
    "admission": "the queue under a rule of admission",
    "deferral": "loss systems whose blocked customers come back",
    "idle": "servers that had better idle now and then",
    "simulate": "a simulation, with standard errors",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments=None):
    """Answer the command line; return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    clock = units.Clock(options.service)
    prog = f"{parser.prog} {options.command}"
    try:
        rows = _rows(options, clock)
    except ValueError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    from qcore.command import shown

    form = "json" if options.json else "csv" if options.csv else "table"
    with contextlib.suppress(BrokenPipeError):
        shown.write(rows, form, sys.stdout)
    return 0


def _rows(options, clock):
    loads = options.load
    if options.arrivals is not None:
        loads = [clock.per_service("--arrivals", one) for one in options.arrivals]
    answer = _answer(options.command)
    rows = []
    for number, load in enumerate(loads, start=1):
        if len(loads) > 1 and sys.stderr.isatty():
            print(f"load {number} of {len(loads)}", end="\r", file=sys.stderr, flush=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            rows.append(answer(options, clock, load))
        for warning in seen:
            print(f"warning: {warning.message}", file=sys.stderr)
    return rows


def _answer(command):
    # SciPy and Numba take a second to load, which --help and mistakes need not wait for.
    from qcore.command import answers

    return {
        "erlang": answers.erlang_measures,
        "staff": answers.staffing,
        "admission": answers.admission_measures,
        "deferral": answers.deferral_measures,
        "idle": answers.idling_measures,
        "simulate": answers.simulated_measures,
    }[command]


def _parser():
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="python -m qcore", description=_ABOUT, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"qcore {qcore.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, purpose in _PURPOSES.items():
        command = commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            epilog=f"examples:\n{_EXAMPLES[name]}",
            formatter_class=raw,
        )
        _add_shared(command)
        _OPTIONS[name](command)
    return parser


def _add_shared(command):
    demand = command.add_mutually_exclusive_group(required=True)
    demand.add_argument(
        "--load", type=units.number, nargs="+", help="offered load: arrivals in a mean service time"
    )
    demand.add_argument("--arrivals", type=units.rate, nargs="+", help="arrival rate, such as 90/h")
    command.add_argument(
        "--service", type=units.positive_time, help="mean service time, such as 4min"
    )
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write JSON")
    form.add_argument("--csv", action="store_true", help="write CSV, a row for each load")


def _add_servers(command, kind=units.positive_count):
    command.add_argument("--servers", type=kind, required=True, help="number of servers")


def _add_patience(command, required=False):
    command.add_argument(
        "--patience",
        type=units.positive_time,
        required=required,
        help="mean time after which a waiting customer abandons",
    )


def _add_within(command):
    command.add_argument("--within", type=units.time, help="acceptable wait, such as 20s")


def _erlang(command):
    _add_servers(command, units.positive)
    _add_patience(command)
    _add_within(command)
    command.add_argument("--no-waiting", action="store_true", help="nobody waits: Erlang B")


def _staff(command):
    _add_patience(command)
    _add_within(command)
    target = command.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--service-level", type=units.number, help="share of all served within --within"
    )
    target.add_argument("--delay", type=units.number, help="probability of waiting allowed")
    target.add_argument("--mean-wait", type=units.positive_time, help="mean wait allowed")
    target.add_argument("--abandonment", type=units.number, help="share that may abandon")
    target.add_argument(
        "--blocking", type=units.number, help="share that may be blocked, if nobody waits"
    )


def _admission(command):
    _add_servers(command, units.positive)
    _add_within(command)
    rule = command.add_mutually_exclusive_group(required=True)
    rule.add_argument("--places", type=units.count, help="so many may wait, nobody beyond")
    rule.add_argument("--drift", type=units.number, help="profile p^x, for 0 < p <= 1")
    rule.add_argument("--buffer", type=units.number, help="places over the root of the servers")
    rule.add_argument(
        "--reluctance", type=units.number, help="rate at which refusals grow with the queue"
    )
    rule.add_argument("--power", type=units.number, help="profile (1 + x)^-n, by its exponent n")
    command.add_argument("--control", choices=("global", "local"), help="how a profile is applied")


def _deferral(command):
    _add_servers(command)
    command.add_argument(
        "--deferrals", type=units.count, required=True, help="most who may be away"
    )
    command.add_argument(
        "--policy", choices=("dsrt", "esrt"), default="dsrt", help="fixed or exponential spacing"
    )
    spacing = command.add_mutually_exclusive_group(required=True)
    spacing.add_argument("--spacing", type=units.positive_time, help="spacing, or its mean")
    spacing.add_argument(
        "--longest", type=units.positive_time, help="longest time away: find the best spacing"
    )


def _idle(command):
    _add_servers(command)
    _add_patience(command, required=True)
    command.add_argument(
        "--abandonment-cost", type=units.number, default=1.0, help="of each abandonment"
    )
    command.add_argument(
        "--utilization-cost",
        type=units.number,
        default=1.2,
        help="c of the cost c·b^k of a busy fraction b, per server and mean service time",
    )
    command.add_argument("--exponent", type=units.number, default=2.0, help="k of that cost")


def _simulate(command):
    _add_servers(command)
    _add_patience(command)
    _add_within(command)
    command.add_argument(
        "--service-variation",
        type=units.number,
        default=1.0,
        help="standard deviation over mean of services: 1 exponential, 0 constant, else gamma",
    )
    command.add_argument("--customers", type=units.count, default=1_000_000, help="how many arrive")
    command.add_argument("--seed", type=units.count, default=1, help="of all random numbers")


_OPTIONS = {
    "erlang": _erlang,
    "staff": _staff,
    "admission": _admission,
    "deferral": _deferral,
    "idle": _idle,
    "simulate": _simulate,
}
