"""`ivm watch FILE VIEW`: print the changes of a relation or view, commit by commit, as any
process makes them.
"""

import argparse
import sys
from typing import Any

from pagestore import Change

from ..cli.answers import as_json, common, number, plain, tell
from ..cli.workspace_options import changes, on_branch, on_tick, opened, ticking

TEXT, LINES = FORMATS = ("text", "jsonl")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    on_tick(parser)
    parser.add_argument("name", help="a relation or view")
    parser.add_argument(
        "--since", type=number, metavar="VERSION", help="after this version; else after the newest"
    )
    parser.add_argument(
        "--commits", type=number, metavar="N", help="end after the changes of this many commits"
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="text, or one object for each changed row"
    )


def run(options: argparse.Namespace) -> int:
    """Print changes until the user ends the command; return the exit code."""
    lines = options.json or options.format == LINES
    with (
        opened(options, "rw" if options.tick else "r") as workspace,
        ticking(workspace, options.tick),
        workspace.changes(options.name, options.since) as watched,
    ):
        for seen, change in enumerate(watched, 1):
            if lines:
                for row in _objects(change):
                    print(as_json(row))
            elif not options.quiet:
                tell(_text(change))
            sys.stdout.flush()
            if seen == options.commits:
                break
    return 0


def _text(change: Change) -> str:
    rows = changes(change.rows)
    come = sum(sign == "+" for sign, _ in rows)
    first = f"version {change.version}: {come:,} new, {len(rows) - come:,} removed"
    return "\n".join([first, *(f"  {sign} {', '.join(map(plain, row))}" for sign, row in rows)])


def _objects(change: Change) -> list[dict[str, Any]]:
    names = change.rows.column_names[:-1]
    return [
        {"version": change.version, "change": sign, "row": dict(zip(names, row, strict=True))}
        for sign, row in changes(change.rows)
    ]
