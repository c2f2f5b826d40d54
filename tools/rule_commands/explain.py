"""`ivm explain FILE VIEW`: how a view, or a query given instead of its name, is evaluated, and why."""

import argparse

from ..cli.answers import answer, common
from ..cli.workspace_options import opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("view", help="the name of a view, or rules of a query")


def run(options: argparse.Namespace) -> int:
    """Print the explanation; return the exit code."""
    with opened(options, "r") as workspace:
        text = workspace.explain(options.view)
        stats = {} if "<-" in options.view else workspace.stats(options.view)
        answer(options, {"view": options.view, "explain": text, **stats}, text)
    return 0
