"""Options and reports that `ivm bench` and `pagestore bench` share."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from ivm.errors import OptionError

from ..cli.progress import Progress
from .measure import Result, Row, measure
from .report import as_text, write


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all benchmarks."""
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds: for a look, or for CI")
    parser.add_argument("--only", metavar="WORD", default="", help="only the rows whose name has this word")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write the results there, as JSON and HTML")
    parser.add_argument("--quiet", action="store_true", help="no progress line")


def bench(title: str, rows: Iterable[Row], options: argparse.Namespace, about: str = "") -> int:
    """Measure the rows one by one, and print each when it is done; `about` says what is measured."""
    results: list[Result] = []
    try:
        with Progress(title, options.quiet) as progress:
            for row in rows:
                if options.only in row.name:
                    results.append(measure(row, progress))
                    progress.clear()
                    print(as_text(results[-1]), flush=True)
        if not results:
            raise OptionError(f"--only {options.only}: no row's name has this word; without it, all are shown")
    finally:  # a row that fails leaves the results before it
        if options.out:
            print("written:", *write(results, title.replace(" ", "-"), options.out, about))
    return 0
