"""`ivm sql FILE 'SELECT ...'`: run statements of SQL, and print the rows of the last one."""

import argparse
import warnings
from pathlib import Path

from ..cli.answers import common, complain, tell
from ..cli.progress import removed_if_empty
from ..cli.rows import answer_rows, row_options
from ..cli.workspace_options import argument_or_stdin, on_branch, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument(
        "statements",
        nargs="?",
        default="-",
        help="statements; without them, or for -, those of stdin",
    )
    parser.add_argument("--dialect", default="duckdb", help="duckdb, postgres, sqlite or spark")
    row_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the statements, and print the rows of the last one; return the exit code."""
    from ivm.sql import reads_only

    text = argument_or_stdin(options.statements)
    reading = Path(options.file).exists() and reads_only(text, options.dialect)
    with (
        removed_if_empty(Path(options.file)),
        opened(options, "r" if reading else "rw", create=not reading) as workspace,
    ):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            answer = workspace.sql(text, dialect=options.dialect)
        for warning in said:
            complain(str(warning.message))
        if answer is not None:
            answer_rows(options, answer, "NULL")
        elif not options.quiet and not options.json:
            tell("done")
    return 0
