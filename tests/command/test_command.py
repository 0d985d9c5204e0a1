"""The command line: the book's page is run, forms agree, and mistakes are one line."""

import csv
import io
import json
import re
import shlex
import subprocess
import sys

import pytest

from qcore import admission, erlang
from qcore.command.main import main

ERLANG = "erlang --servers 50 --arrivals 48/min --service 1min --patience 2min --within 20s"
STAFF = "staff --arrivals 60/h 90/h 120/h --service 4min --service-level 0.8 --within 20s"


def answer(capsys, line):
    """Return exit status, standard output and standard error of a command line."""
    try:
        status = main(shlex.split(line))
    except SystemExit as left:
        status = left.code
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def conversations(root):
    """Yield (command, what the page says it answers)."""
    page = (root / "book" / "command_line.md").read_text("utf-8")
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for part in re.split(r"^\$ python -m qcore ", block, flags=re.MULTILINE)[1:]:
            command, _, said = part.partition("\n")
            yield command, said


def numbers_apart(text):
    """Return the text with a mark in the place of each number, and the numbers."""
    number = r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])"
    return re.sub(rf" *{number}", " #", text), [float(one) for one in re.findall(number, text)]


def test_the_page_says_what_is_answered(root, capsys):
    asked = list(conversations(root))
    assert len(asked) >= 10
    for command, said in asked:
        status, out, err = answer(capsys, command)
        assert status == (2 if err else 0), command
        if "..." in said:
            start, _, end = said.partition("  ...\n")
            assert out.startswith(start), command
            assert out.endswith(end), command
            continue
        words, numbers = numbers_apart(out or err)
        words_said, numbers_said = numbers_apart(said)
        assert words == words_said, command
        assert numbers == pytest.approx(numbers_said, rel=2e-6), command


def test_numbers_are_those_of_the_package(capsys):
    found = json.loads(answer(capsys, f"{ERLANG} --json")[1])
    queue = erlang.queue(50, 48.0, 0.5)
    assert found["mean wait [min]"] == pytest.approx(queue.mean_wait, rel=1e-14)
    assert found["served within 20s"] == pytest.approx(queue.service_level(1 / 3), rel=1e-14)
    seconds = json.loads(answer(capsys, f"{ERLANG.replace('1min', '60s')} --json")[1])
    assert seconds["mean wait [s]"] == pytest.approx(60 * queue.mean_wait, rel=1e-13)
    assert seconds["abandonment probability"] == queue.abandonment_probability

    drift = json.loads(answer(capsys, "admission --servers 100 --load 98 --drift 0.5 --json")[1])
    queue = admission.queue(100, 0.98, admission.ModifiedDrift(0.5))
    assert drift["rejection probability"] == queue.rejection_probability


def test_csv_has_a_row_for_each_load_with_the_digits_of_json(capsys):
    rows = list(csv.DictReader(io.StringIO(answer(capsys, f"{STAFF} --csv")[1])))
    objects = json.loads(answer(capsys, f"{STAFF} --json")[1])
    assert [row["servers"] for row in rows] == ["7", "9", "11"]
    for row, one in zip(rows, objects, strict=True):
        assert {name: float(value) for name, value in row.items()} == one


@pytest.mark.parametrize(
    ("target", "measure", "most"),
    [
        ("--delay 0.2", "delay probability", 0.2),
        ("--mean-wait 5s", "mean wait [min]", 5 / 60),
        ("--abandonment 0.01", "abandonment probability", 0.01),
    ],
)
def test_staffing_meets_each_target(capsys, target, measure, most):
    line = f"staff --arrivals 48/min --service 1min --patience 2min {target} --json"
    found = json.loads(answer(capsys, line)[1])
    assert found[measure] <= most
    fewer = f"{ERLANG.replace('50', str(found['servers'] - 1))} --json"
    assert json.loads(answer(capsys, fewer)[1])[measure] > most


def test_a_simulation_says_how_far_it_may_be_off(capsys):
    line = (
        "simulate --servers 5 --load 4 --patience 2 --within 0.1 --customers 20000 --seed 3 --json"
    )
    found = json.loads(answer(capsys, line)[1])
    exact = erlang.queue(5, 4.0, 0.5)
    for name, value in (
        ("mean wait [mean services]", exact.mean_wait),
        ("wait longer than 0.1 mean services", exact.wait_tail(0.1)),
        ("abandonment probability", exact.abandonment_probability),
    ):
        assert abs(found[name] - value) < 4 * found[f"{name}, standard error"] < value
    regular = json.loads(answer(capsys, f"{line} --service-variation 0")[1])
    assert regular["mean wait [mean services]"] < found["mean wait [mean services]"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("erlang --servers 0 --load 1", "--servers"),
        ("erlang --servers 2 --load nan", "--load"),
        ("erlang --servers 2 --load 1 --arrivals 3/h", "--arrivals"),
        ("erlang --servers 2 --arrivals 3/week", "--arrivals"),
        ("erlang --servers 2 --load 1 --within -1s", "--within"),
        ("erlang --servers 2 --load 1 --within 20s", "--within"),
        ("staff --load 5 --service-level 0.8", "--within"),
        ("staff --load 5 --abandonment 0.1", "--patience"),
        ("staff --load 5 --service-level 1.5 --within 1", "target"),
        ("staff --load 5", "--service-level"),
        ("admission --servers 5 --load 4 --places many", "--places"),
        ("admission --servers 5 --load 4 --places 3 --control local", "--control"),
        ("admission --servers 5 --load 4 --drift 2", "p = 2.0"),
        ("deferral --servers 2.5 --load 4 --deferrals 1 --spacing 1", "--servers"),
        ("idle --servers 5 --load 4", "--patience"),
        ("simulate --servers 5 --load 4 --customers 10", "customers"),
        ("dance", "dance"),
    ],
)
def test_a_mistake_is_one_line_and_status_two(capsys, line, named):
    status, out, err = answer(capsys, line)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert named in err


@pytest.mark.parametrize(
    "command", ["erlang", "staff", "admission", "deferral", "idle", "simulate"]
)
def test_help_has_examples_that_run(capsys, command):
    status, out, _ = answer(capsys, f"{command} --help")
    assert status == 0
    examples = re.findall(r"^  python -m qcore (.*)$", out, re.MULTILINE)
    assert examples
    for example in examples:
        if command != "simulate":  # a million customers
            assert answer(capsys, example)[0] == 0, example


def test_it_starts_as_a_module_and_help_needs_no_numbers(root):
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "qcore", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    assert "staff" in run.stdout
    assert "scipy" not in run.stderr
    assert "numba" not in run.stderr
