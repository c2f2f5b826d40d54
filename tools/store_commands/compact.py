"""`pagestore compact FILE`: make the file as small as its content."""

import argparse

import ivm as ivm  # registers its host, which reports the texts in its rules

from ..cli.answers import answer, common, opened, size
from ..cli.progress import Progress


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)


def run(options: argparse.Namespace) -> int:
    """Compact the file, and print both sizes; return the exit code."""
    with opened(options, "rw") as store, Progress("compact", options.quiet) as progress:
        progress("writing everything anew")
        done = store.compact()
        progress.clear()
        answer(options, done._asdict(), f"{size(done.before)} before, {size(done.after)} after")
    return 0
