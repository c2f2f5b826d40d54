"""`pagestore rebase FILE BRANCH`: begin a branch anew on the newest version of another."""

import argparse

from ..cli.answers import common
from .merge import options_of_merges
from .merge import run as run


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("what", metavar="branch", help="the branch that begins anew")
    options_of_merges(parser, "rebase", "--onto", "the branch that it begins on")
