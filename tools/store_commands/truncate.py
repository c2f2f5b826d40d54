"""`pagestore truncate FILE RELATION`: remove all rows of a relation, which stays; views follow."""

import argparse

from ..cli.answers import answer, common, counted, opened, plain


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("relation")


def run(options: argparse.Namespace) -> int:
    """Remove the rows; the exit code."""
    name = options.relation
    with opened(options, "rw") as store:
        with store.transaction(f"truncate {name}") as txn:
            rows = len(txn[name])
            txn.truncate(name)
        answer(options, {"removed": rows, "version": store.version}, f"{plain(name)}: {counted(rows, 'row')} removed")
    return 0
