"""`ivm make FILE 'total["ada"] = 20'`: the smallest edits by which a view has a row, or with a minus
has it no more, after a `--`; with --do the first of them are made.
"""

import argparse

from ..cli.answers import answer, common
from ..cli.workspace_options import on_branch, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument(
        "wish", help="a row as rules write it; after --, -row for one that is to go"
    )
    parser.add_argument("--do", action="store_true", help="make the first of the edits found")


def run(options: argparse.Namespace) -> int:
    """Print the edits and what they change; return 1 if none were found."""
    with opened(options, "rw" if options.do else "r") as workspace:
        suggestions = workspace.make(options.wish)
        lines, data = [], []
        for suggestion in suggestions:
            counts = {name: table.num_rows for name, table in suggestion.changes.items()}
            changed = ", ".join(f"{n:,} of {name}" for name, n in counts.items())
            lines.append(f"{suggestion}   changes {changed}")
            data.append({"edits": [*suggestion.edits], "changes": counts})
        version = suggestions[0].commit() if options.do and suggestions else None
        if version is not None:
            lines.append(f"version {version} has the first")
        answer(options, {"suggestions": data, "version": version}, "\n".join(lines) or "none found")
    return 0 if suggestions else 1
