"""`ivm explain FILE VIEW`: how a view is evaluated and maintained, and why."""

import argparse

from ..cli.answers import answer, common
from ..cli.workspace_options import opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("view")


def run(options: argparse.Namespace) -> int:
    """Print the explanation; the exit code."""
    with opened(options, "r") as workspace:
        text = workspace.explain(options.view)
        answer(options, {"view": options.view, "explain": text, **workspace.stats(options.view)}, text)
    return 0
