"""``python -m qcore``: what the package answers, from the command line."""

import sys

from qcore.command.main import main

if __name__ == "__main__":
    sys.exit(main())
