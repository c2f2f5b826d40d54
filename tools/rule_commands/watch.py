"""`ivm watch FILE VIEW`: print the changes of a relation or view, commit by commit, as any process makes them."""

import argparse

from pagestore import Change

from ..cli.answers import as_json, common, number, plain
from ..cli.workspace_options import changes, opened

TEXT, LINES = FORMATS = ("text", "jsonl")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("name", help="a relation or view")
    parser.add_argument("--since", type=number, metavar="VERSION", help="after this version; else after the newest")
    parser.add_argument("--commits", type=number, metavar="N", help="end after the changes of this many commits")
    parser.add_argument("--format", choices=FORMATS, help="text, or one object for each changed row")


def run(options: argparse.Namespace) -> int:
    """Print changes until the user ends the command; return the exit code."""
    lines = options.json or options.format == LINES
    with opened(options, "r") as workspace, workspace.changes(options.name, options.since) as watched:
        for seen, change in enumerate(watched, 1):
            if not options.quiet or options.json:
                print("\n".join(_objects(change) if lines else _text(change)), flush=True)
            if seen == options.commits:
                break
    return 0


def _text(change: Change) -> list[str]:
    rows = changes(change.rows)
    come = sum(sign == "+" for sign, _ in rows)
    first = f"version {change.version}: {come:,} new, {len(rows) - come:,} removed"
    return [first, *(f"  {sign} {', '.join(map(plain, row))}" for sign, row in rows)]


def _objects(change: Change) -> list[str]:
    names = change.rows.column_names[:-1]
    return [
        as_json({"version": change.version, "change": sign, "row": dict(zip(names, row, strict=True))})
        for sign, row in changes(change.rows)
    ]
