"""`ivm why FILE 'tri(1, 2, 3)'`: why a row is in a view, or why not; with --since, which edits
changed the view.
"""

import argparse

from ..cli.answers import answer, cell_text, common, counted, number, version_or_name
from ..cli.workspace_options import on_branch, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument(
        "row",
        help="a row as rules write it, _ being any value, or SELECT * FROM a view WHERE ...; with "
        "--since a view",
    )
    parser.add_argument(
        "--at", metavar="VERSION", type=version_or_name, help="as of a version, a tag or a branch"
    )
    parser.add_argument(
        "--most", type=number, default=1, metavar="N", help="follow so many derivations down (1)"
    )
    parser.add_argument(
        "--since",
        metavar="VERSION",
        type=version_or_name,
        help="the rows that changed since then, each with its edits",
    )


def run(options: argparse.Namespace) -> int:
    """Print the proof, or what is missing; return 1 if the row is not there."""
    with opened(options, "r") as workspace:
        if options.since is not None:
            changes = workspace.why_changed(options.row, options.since, options.at)
            lines = [
                f"{'+' if change.inserted else '-'} {', '.join(map(cell_text, change.row))}   by "
                f"{' '.join(change.edits)}"
                for change in changes
            ]
            data = {"view": options.row, "changes": [change._asdict() for change in changes]}
            answer(options, data, "\n".join([*lines, counted(len(changes), "row") + " changed"]))
            return 0
        why = workspace.why(options.row, version=options.at, most=options.most)
        answer(options, why.data, str(why))
    return 0 if why.holds else 1
