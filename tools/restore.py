"""`pagestore restore IN... FILE`: a new store from a dump, or from a full backup and its increments."""

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from pagestore import backup

from .output import made
from .progress import Progress
from .report import answer, common


def arguments(parser: argparse.ArgumentParser) -> None:
    common(parser, file=False)
    parser.add_argument("source", nargs="+", help="a dump; or a full backup and its increments, in order; - is stdin")
    parser.add_argument("file", help="the new store's file")


def run(options: argparse.Namespace) -> int:
    if Path(options.file).exists():
        raise FileExistsError(f"{options.file} is there already; restore to another name")
    with ExitStack() as stack, Progress("restore", options.quiet) as progress:
        names = (os.dup(sys.stdin.fileno()) if source == "-" else source for source in options.source)
        sources = [stack.enter_context(open(name, "rb")) for name in names]
        progress(f"from {', '.join(options.source)}")
        if sources[0].peek(len(backup.MAGIC)).startswith(backup.MAGIC):  # a pipe cannot be read twice
            versions = [backup.apply(options.file, sources)]
        else:
            versions = _from_dump(Path(options.file), *sources)
        progress.clear()
        answer(options, {"versions": versions}, f"{options.file} has version {versions[-1] if versions else 0}")
    return 0


def _from_dump(path: Path, source: IO[bytes], *more: IO[bytes]) -> list[int]:
    """Make a store of a dump, or leave nothing."""
    if more:
        raise argparse.ArgumentError(None, "a dump is whole: restore one alone, each into a store of its own")
    with made(path) as store:
        return store.restore(source)
