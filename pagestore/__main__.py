"""`python -m pagestore` runs the command `pagestore`."""

import sys

from pagestore_tools.command import pagestore

if __name__ == "__main__":
    sys.exit(pagestore())
