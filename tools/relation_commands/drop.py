"""`pagestore drop FILE RELATION`: remove a relation and its lists; earlier versions keep it."""

import argparse

from ..cli.answers import answer, common, counted, opened, plain
from ..loading.elements import lists_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("relation", nargs="+", help="the relations to remove, all or none")


def run(options: argparse.Namespace) -> int:
    """Remove the relations; return the exit code."""
    rows = {}
    with opened(options, "rw") as store:
        with store.transaction(f"drop {' '.join(options.relation)}") as txn:
            for name in dict.fromkeys(
                n for relation in options.relation for n in (relation, *lists_of(txn, relation))
            ):
                rows[name] = len(txn[name])
                txn.drop(name)
        text = "\n".join(
            f"{plain(name)} dropped: {counted(count, 'row')}" for name, count in rows.items()
        )
        answer(options, {"dropped": rows, "version": store.version}, text)
    return 0
