"""`pagestore revert FILE VERSION`: take back what one version changed; views follow."""

import argparse

from ..cli.answers import common, version_or_name
from .merge import options_of_merges
from .merge import run as run


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument(
        "what", metavar="version", type=version_or_name, help="the version that is taken back"
    )
    options_of_merges(parser, "revert")
