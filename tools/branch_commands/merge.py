"""`pagestore merge FILE BRANCH`: bring to a branch the changes of another; views follow."""

import argparse
from collections import Counter

import ivm as ivm  # registers its host, so that views follow
from pagestore.tooling import Merge

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
    on_conflict(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would change; nothing is stored"
    )


def on_conflict(parser: argparse.ArgumentParser) -> None:
    """Add the option that says what is done about conflicts."""
    parser.add_argument(
        "--on-conflict",
        choices=("ours", "theirs", "larger", "sum"),
        help="what to take where both sides changed a row: without it they are refused",
    )


def run(options: argparse.Namespace) -> int:
    """Make the version, and print what changed; return the exit code."""
    with opened(options, "r" if options.dry_run else "rw") as store:
        moved = options.what if options.method == "rebase" else options.into
        before = store.branches.get(moved)
        call = getattr(store, options.method)
        done = call(options.what, options.into, options.on_conflict, options.dry_run)
        answer_merge(options, done, before, options.dry_run)
    return 0


def answer_merge(
    options: argparse.Namespace, done: Merge, before: int | None, dry: bool = False
) -> None:
    """Print what a merge did, or of a `dry` one would do, to a branch that was at `before`."""
    lines = [f"conflict: {plain(str(conflict))}" for conflict in done.conflicts]
    for name, table in done.changes.items():
        kinds = Counter(table["_change_type"].to_pylist())
        lines.append(f"{plain(name)}: {kinds['insert']:,} new, {kinds['delete']:,} removed")
    made = "there is nothing new" if done.version == before else f"version {done.version}"
    lines.append("nothing is stored" if dry else made)
    data = {
        "version": done.version,
        "base": done.base,
        "conflicts": [conflict._asdict() for conflict in done.conflicts],
        "changes": {name: table.to_pylist() for name, table in done.changes.items()},
    }
    answer(options, data, "\n".join(lines))
