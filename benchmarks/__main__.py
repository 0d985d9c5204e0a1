"""Run every benchmark and renew the tables that the book includes."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
# Peers and qcore alike get one thread.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def main():
    """Run the benchmarks named on the command line, or all, one after the other."""
    names = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmarks", nargs="*", metavar="name", help=f"of {', '.join(names)}")
    chosen = parser.parse_args().benchmarks or names
    RESULTS.mkdir(exist_ok=True)
    for name in chosen:
        if name not in names:
            parser.error(f"there is no benchmark {name!r}")
        print(f"# {name}", flush=True)
        # A process each, so that none measures what another has imported or compiled.
        command = [sys.executable, "-m", f"benchmarks.{name}", "--output", RESULTS / f"{name}.md"]
        subprocess.run(command, check=True, env=os.environ | ONE_THREAD)


if __name__ == "__main__":
    main()
