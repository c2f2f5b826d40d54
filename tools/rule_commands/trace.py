"""`ivm trace FILE VIEW OLD NEW`: the distance of a view's evaluation traces at two versions."""

import argparse

from ..cli.answers import answer, common, version_or_name
from ..cli.workspace_options import opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("view")
    parser.add_argument("old", type=version_or_name, help="a version or tag")
    parser.add_argument("new", type=version_or_name, help="another one")


def run(options: argparse.Namespace) -> int:
    """Print how many trace rows differ; return the exit code."""
    with opened(options, "r") as workspace:
        distance = workspace.trace_distance(options.view, options.old, options.new)
        steps = sum(len(rows.T) for rows in workspace.trace(options.view, options.new))
    data = {"view": options.view, "distance": distance, "steps": steps}
    answer(options, data, f"{options.view}: {distance:,} of {steps:,} trace rows differ")
    return 0
