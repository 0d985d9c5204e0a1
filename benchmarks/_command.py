"""The command line that all benchmarks share."""

import argparse
from pathlib import Path


def run(description, report, customers=None):
    """Print the text that ``report`` returns, and write it to ``--output`` if that is given.

    With ``customers`` the benchmark also takes ``--customers``, which is passed on to ``report``.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    if customers is not None:
        parser.add_argument("--customers", type=int, default=customers)
    arguments = vars(parser.parse_args())
    output = arguments.pop("output")
    text = report(**arguments).rstrip() + "\n"
    print(text, end="")
    if output:
        output.write_text(text, encoding="utf-8")
