"""`pagestore cherry-pick FILE VERSION`: bring to a branch what one version of another changed."""

import argparse

from ..cli.answers import common, version_or_name
from .merge import options_of_merges
from .merge import run as run


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument(
        "what", metavar="version", type=version_or_name, help="the version to do here"
    )
    options_of_merges(parser, "cherry_pick")
