"""`pagestore truncate FILE RELATION`: delete all rows of a relation, with their lists; views are
maintained.
"""

import argparse

from ..cli.answers import answer, common, counted, opened, plain
from ..loading.elements import lists_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("relation")


def run(options: argparse.Namespace) -> int:
    """Remove the rows; return the exit code."""
    name = options.relation
    with opened(options, "rw") as store:
        with store.transaction(f"truncate {name}") as txn:
            rows = len(txn[name])
            for relation in (name, *lists_of(txn, name)):
                txn.truncate(relation)
        answer(
            options,
            {"removed": rows, "version": store.version},
            f"{plain(name)}: {counted(rows, 'row')} removed",
        )
    return 0
