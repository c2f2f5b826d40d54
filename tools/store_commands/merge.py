"""`pagestore merge FILE BRANCH`: bring to a branch the changes of another; views follow."""

import argparse
from collections import Counter

import ivm as ivm  # registers its host, so that views follow

from ..cli.answers import answer, common, opened, plain


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("what", metavar="branch", help="the branch whose changes are merged")
    options_of_merges(parser, "merge")


def options_of_merges(
    parser: argparse.ArgumentParser,
    method: str,
    where: str = "--into",
    help_: str = "the branch that changes",
) -> None:
    """Add what merge, rebase, revert and cherry-pick have in common; `method` is the store's."""
    parser.set_defaults(method=method)
    parser.add_argument(where, dest="into", default="main", help=f"{help_} (default: main)")
    parser.add_argument(
        "--on-conflict",
        choices=("ours", "theirs", "larger", "sum"),
        help="what to take where both sides changed a row: without it they are refused",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would change; nothing is stored"
    )


def run(options: argparse.Namespace) -> int:
    """Make the version, and print what changed; return the exit code."""
    with opened(options, "r" if options.dry_run else "rw") as store:
        moved = options.what if options.method == "rebase" else options.into
        before = store.branches.get(moved)
        call = getattr(store, options.method)
        done = call(options.what, options.into, options.on_conflict, options.dry_run)
        lines = [f"conflict: {plain(str(one))}" for one in done.conflicts]
        for name, table in done.changes.items():
            kinds = Counter(table["_change_type"].to_pylist())
            lines.append(f"{plain(name)}: {kinds['insert']:,} new, {kinds['delete']:,} removed")
        if options.dry_run:
            lines.append("nothing is stored")
        elif done.version == before:
            lines.append("there is nothing new")
        else:
            lines.append(f"version {done.version}")
        data = {
            "version": done.version,
            "base": done.base,
            "conflicts": [one._asdict() for one in done.conflicts],
            "changes": {name: table.to_pylist() for name, table in done.changes.items()},
        }
        answer(options, data, "\n".join(lines))
    return 0
