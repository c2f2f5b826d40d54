"""`python -m ivm` runs the command `ivm`."""

import sys

from pagestore_tools.command import ivm

if __name__ == "__main__":
    sys.exit(ivm())
