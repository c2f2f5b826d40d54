"""`ivm uninstall FILE NAME [--relations] [--dry-run]`: remove an installed block with its views.

First it prints which views and relations are removed, and which relations stay, each with its
number of rows.
"""

import argparse
from collections.abc import Iterator

from ivm.installation import Removal
from ivm.sql import is_helper

from ..cli.answers import answer, common, counted, plain, tell
from ..cli.workspace_options import on_branch, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument("name", help="the block's name; `ivm print FILE` lists the names")
    parser.add_argument(
        "--relations", action="store_true", help="remove the relations that its text declares, too"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")


def run(options: argparse.Namespace) -> int:
    """Print what is removed, remove the block, and print the version; return the exit code."""
    with opened(options) as workspace:
        removal = workspace.uninstall(options.name, options.relations, dry_run=True)
        text = said(removal)
        if not (options.json or options.quiet) and text:
            tell(text)
        if not options.dry_run:
            removal = workspace.uninstall(options.name, options.relations)
        version = workspace.store.version
        if options.dry_run:
            done = "nothing is removed"
        else:
            done = f"{plain(options.name)} removed, version {version}"
        answer(options, {"name": options.name, "version": version, **removal._asdict()}, done)
    return 0


def said(removal: Removal) -> str:
    """Return what is removed and what stays, a line each."""
    return "\n".join(_lines(removal))


def _lines(removal: Removal) -> Iterator[str]:
    for name, rows in (
        (name, rows) for name, rows in removal.views.items() if not is_helper(name, removal.views)
    ):
        yield f"goes: {plain(name)}, a view of {counted(rows, 'row')}"
    for name, rows in removal.relations.items():
        yield f"goes: {plain(name)}, a relation of {counted(rows, 'row')}"
    for name, rows in removal.kept.items():
        yield f"stays: {plain(name)}, a relation of {counted(rows, 'row')}"
