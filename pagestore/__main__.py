"""`python -m pagestore` runs the command `pagestore`."""

import sys

from pagestore_tools.cli.main import pagestore

if __name__ == "__main__":
    sys.exit(pagestore())
