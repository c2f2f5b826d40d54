"""`ivm trace FILE VIEW OLD NEW`: the distance of a view's evaluation traces at two versions."""

import argparse

from ivm import Workspace

from ..cli.answers import answer, common, plain, version_or_name
from ..cli.workspace_options import on_branch, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument("view")
    parser.add_argument("old", type=version_or_name, help="a version or tag")
    parser.add_argument("new", type=version_or_name, help="another one")


def run(options: argparse.Namespace) -> int:
    """Print how many trace rows differ; return the exit code."""
    with opened(options, "r") as workspace:
        answer_trace(options, workspace, options.view, options.old, options.new)
    return 0


def answer_trace(
    options: argparse.Namespace, workspace: Workspace, view: str, old: int | str, new: int | str
) -> None:
    """Print how many trace rows of a view differ between two versions."""
    distance = workspace.trace_distance(view, old, new)
    steps = sum(len(rows.T) for rows in workspace.trace(view, new))
    data = {"view": view, "distance": distance, "steps": steps}
    answer(options, data, f"{plain(view)}: {distance:,} of {steps:,} trace rows differ")
