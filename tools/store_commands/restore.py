"""`pagestore restore IN... FILE`: a new store from a dump, or a full backup and increments."""

import argparse
import os
import stat
import sys
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import IO

from pagestore.admin import backup, dump
from pagestore.errors import FormatError, SchemaError
from pagestore.storage.meta import MAGIC as STORE

from ..cli.answers import answer, common, number
from ..cli.progress import Progress, made


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser, file=False)
    parser.add_argument(
        "source",
        nargs="+",
        help="a dump; or a full backup and its increments, in order; - is stdin",
    )
    parser.add_argument("file", help="the new store's file")
    parser.add_argument(
        "--page-size",
        type=number,
        metavar="BYTES",
        help="of the new store, from a dump: 4096 to "
        "65536, where wide relations need large pages (8192)",
    )


def run(options: argparse.Namespace) -> int:
    """Make the store, and print its newest version; return the exit code."""
    if Path(options.file).exists():
        raise FileExistsError(f"{options.file} already exists; restore to another name")
    with ExitStack() as stack, Progress("restore", options.quiet) as progress:
        sources = [stack.enter_context(_source(name)) for name in options.source]
        progress(f"from {', '.join(options.source)}")
        for name, source in zip(options.source, sources, strict=True):
            # peek, since a pipe cannot be read twice
            _refuse_other(name, source.peek(len(backup.NAME)))
        if sources[0].peek(len(backup.NAME)).startswith(backup.NAME):
            if options.page_size:
                raise argparse.ArgumentError(
                    None, "a backup has pages: restore a dump into a store with other pages"
                )
            versions = [backup.restore_backup(options.file, sources)]
        else:
            versions = _from_dump(Path(options.file), options.page_size, *sources)
        progress.clear()
        answer(
            options,
            {"versions": versions},
            f"{options.file} has version {versions[-1] if versions else 0}",
        )
    return 0


def _source(name: str) -> BufferedReader:
    """Open a file, or a pipe with a writer, to read a dump or backup. Raises OSError, FormatError."""
    if name == "-":
        return open(os.dup(sys.stdin.fileno()), "rb")
    mode = os.stat(name).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        raise FormatError(
            f"{name} is not a dump or backup: it is not a file or pipe, but a folder, a device or "
            f"a socket"
        )
    fd = os.open(
        name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    )  # O_NONBLOCK: a pipe without a writer reads as empty instead of blocking
    os.set_blocking(fd, True)
    return open(fd, "rb")


def _refuse_other(name: str, begins: bytes) -> None:
    """Raise FormatError for a source that does not begin like a dump or backup."""
    if begins.startswith(STORE):
        raise FormatError(
            f"{name} is a store, no dump or backup: copy the file while nobody writes to it"
        )
    if not begins.startswith((backup.NAME, dump.MAGIC[: len(backup.NAME)])):
        raise FormatError(
            f"{name} is not a dump or backup: name a file that `pagestore dump` or `pagestore "
            f"backup` wrote"
        )


def _from_dump(path: Path, page_size: int | None, source: IO[bytes], *more: IO[bytes]) -> list[int]:
    """Make a store of a dump, with larger pages if these are too small; an error leaves no file."""
    if more:
        raise argparse.ArgumentError(
            None, "a dump is whole: restore one alone, each into a store of its own"
        )
    try:
        with made(path, page_size) as store:
            return dump.restore(
                store._handle, source
            )  # without transactions: the store is not visible until it is complete
    except SchemaError as error:
        if page_size or error.page_size is None or not source.seekable():
            raise
        source.seek(0)
        return _from_dump(path, error.page_size, source)
