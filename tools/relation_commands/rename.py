"""`pagestore rename FILE OLD NEW`: rename a relation; earlier versions keep the old name."""

import argparse

from ..cli.answers import answer, common, opened, plain
from ..loading.elements import lists_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("old", help="the relation")
    parser.add_argument("new", help="its new name")


def run(options: argparse.Namespace) -> int:
    """Rename the relation; return the exit code."""
    old, new = options.old, options.new
    with opened(options, "rw") as store:
        with store.transaction(f"rename {old} to {new}") as txn:
            for name in (*lists_of(txn, old), old):
                txn.rename(name, new + name.removeprefix(old))
        answer(
            options,
            {"renamed": {old: new}, "version": store.version},
            f"{plain(old)} is {plain(new)} now",
        )
    return 0
