"""Run the command `ivm` by `python -m ivm`."""

import sys

from pagestore_tools.cli.main import ivm

if __name__ == "__main__":
    sys.exit(ivm())
