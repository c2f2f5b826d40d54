"""`ivm query FILE 'q(x) <- edge(x, y), tri(x, y, _).'`: evaluate rules once, without storing them."""

import argparse

from ..cli.answers import common
from ..cli.rows import answer_rows, row_options
from ..cli.workspace_options import argument_or_stdin, limits, on_branch, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument(
        "text", help="rules; the last one's head is the answer; - reads them from stdin"
    )
    row_options(parser)
    limits(parser)


def run(options: argparse.Namespace) -> int:
    """Evaluate the query, and print its rows; return the exit code."""
    with opened(options, "r") as workspace:
        answer_rows(
            options,
            workspace.query(
                argument_or_stdin(options.text),
                rows_max=options.rows_max,
                rounds_max=options.rounds_max,
            ),
        )
    return 0
