"""`python -m ivm` runs the command `ivm`."""

import sys

from pagestore_tools.cli.main import ivm

if __name__ == "__main__":
    sys.exit(ivm())
