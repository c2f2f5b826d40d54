"""`pagestore push FILE OTHER [BRANCH]`: bring to another copy what a branch changed here."""

import argparse

from ..cli.answers import common
from .pull import of_copies
from .pull import run as run


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    of_copies(parser, "push")
