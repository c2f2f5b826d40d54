"""`pagestore print FILE [RELATION]`: print the rows of a relation or write them to a file; or
list the relations.
"""

import argparse

from ..cli.answers import answer, common, everything, opened, shown, table, version_or_name
from ..cli.rows import answer_rows, row_options


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("relation", nargs="?", help="a relation; without one, all are listed")
    parser.add_argument(
        "--at", type=version_or_name, metavar="VERSION", help="as of a version, tag or branch"
    )
    everything(parser)
    row_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print rows, or the list of relations; return the exit code."""
    with (
        opened(options) as store,
        store.snapshot() if options.at is None else store.at(options.at) as snapshot,
    ):
        if options.relation is not None:
            answer_rows(options, snapshot[options.relation])
            return 0
        rows = {name: len(snapshot[name]) for name in shown(options, snapshot)}
        answer(options, {"relations": rows}, table([*rows.items()], ("relation", "rows")))
    return 0
