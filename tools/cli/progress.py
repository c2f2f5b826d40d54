"""Show progress on stderr: a line that is overwritten on a terminal, else a line every ten seconds.

Compute batches in another thread, while the previous one is in use.

New stores that appear only when they are complete.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import pagestore
from pagestore.errors import PagestoreError
from pagestore.tooling import PAGE_SIZE_DEFAULT, beside, empty_store, sync_folder

from .answers import counted, plain

ERASE_LINE = "\r\x1b[K"
SOON = 0.5  # seconds after which progress is shown of what is mostly done before
FILLED = "filled"  # the last message of what fills views (ivm/join/join.py)
REPORT = 10.0  # seconds between two lines without a terminal


class Progress:
    """`with Progress("load") as progress: progress("3 of 7")` shows that until the end."""

    def __init__(self, what: str, quiet: bool = False) -> None:
        self.what = what
        self.on_terminal = sys.stderr.isatty()
        self.quiet = quiet
        self._next = time.monotonic() + REPORT
        self._is_shown = False  # whether there is a line to erase

    def __enter__(self) -> Self:
        return self

    def __call__(self, text: str) -> None:
        if self.quiet:
            return
        line = plain(f"{self.what}: {text}")
        if self.on_terminal:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            # erasing would leave part of a line that wraps
            self._show(ERASE_LINE + line[: width - 1])
            self._is_shown = True
        elif time.monotonic() >= self._next:
            self._show(line + "\n")
            self._next = time.monotonic() + REPORT

    def clear(self) -> None:
        """Erase the line, so that output can be printed."""
        if self._is_shown:
            self._show(ERASE_LINE)
            self._is_shown = False

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def _show(self, text: str) -> None:
        print(text, end="", file=sys.stderr, flush=True)


def pace(rows: int, share: float, seconds: float) -> str:
    """Describe how many rows are done, how fast, and the time left, given the fraction that is
    done.

    >>> pace(3_000_000, 0.25, 2.0)
    '3,000,000 rows, 25 %, 1,500,000 rows/s, 6 s left'
    """
    rate = f"{rows / seconds:,.0f} rows/s" if seconds > 0 else ""
    done = counted(rows, "row"), f"{share:.0%}".replace("%", " %")
    return ", ".join(filter(None, [*done, rate, _left(share, seconds)]))


def _left(share: float, seconds: float) -> str:
    """Describe the time left, given the fraction that is done and the time that it took; empty
    if nothing says.
    """
    return f"{seconds * (1 - share) / share:.0f} s left" if 0 < share < 1 and seconds > 0 else ""


@contextmanager
def compiling_shown() -> Iterator[None]:
    """Show which kernels are compiled while the block runs: those not in the package."""
    with Progress("compiling, once") as progress:

        def show(record: logging.LogRecord) -> None:
            progress(
                str(
                    record.args[0] if isinstance(record.args, tuple) and record.args else record.msg
                )
            )

        with _listening("pagestore.kernels", logging.INFO, show):
            yield


@contextmanager
def filling_shown(what: str, quiet: bool = False) -> Iterator[None]:
    """Show which view is filled while the block runs, and how many rows were found for it, after
    SOON seconds of it.

    With the time left for it, if the plan estimates how many rows there will be, and these are not
    reached.
    """
    # when the first view was begun, and this one; how many rows it is to have
    began = begun = expected = 0.0
    view = ""

    def show(record: logging.LogRecord) -> None:
        nonlocal began, begun, expected, view
        said, is_view, now = record.getMessage(), record.levelno >= logging.INFO, time.monotonic()
        if is_view:
            began, begun, expected = began if view else now, now, getattr(record, "expected", 0.0)
            view = "" if said == FILLED else said
        if not view:  # the answer is printed now
            progress.clear()
        elif now >= began + SOON:
            share = 0.0 if is_view else getattr(record, "rows", 0) / max(expected, 1.0)
            left = f"{_left(share, now - begun) or f'{now - began:.0f} s'}"
            progress(f"{view}{'' if is_view else f', {said}'}, {left}")

    with Progress(what, quiet) as progress, _listening("ivm.filling", logging.DEBUG, show):
        yield


@contextmanager
def _listening(name: str, level: int, show: Callable[[logging.LogRecord], None]) -> Iterator[None]:
    """Call a function, and nothing else, with each message of a logger, from a level on, while
    the block runs.
    """
    log, handler = logging.getLogger(name), logging.Handler()
    before, propagated = log.level, log.propagate
    handler.emit = show  # type: ignore
    log.addHandler(handler)
    log.setLevel(level)
    # other libraries, such as that of mcp, write what the root gets to stderr
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
        log.propagate = propagated


Batch = TypeVar("Batch")


def made_ahead(batches: Iterable[Batch]) -> Generator[Batch, None, None]:
    """Yield the batches, computing one ahead in a thread; an error is raised in place of its batch.

    >>> list(made_ahead(x * x for x in range(4)))
    [0, 1, 4, 9]
    """
    source = iter(batches)
    with ThreadPoolExecutor(1) as maker:
        waiting = maker.submit(next, source, None)
        while (batch := waiting.result()) is not None:
            waiting = maker.submit(next, source, None)
            yield batch


@contextmanager
def made(path: Path, page_size: int | None = None) -> Iterator[pagestore.Store]:
    """Yield a new store that gets its name after the block; an error leaves no file. Raises
    FileExistsError.
    """
    with beside(path) as building:
        building.write_bytes(empty_store(PAGE_SIZE_DEFAULT if page_size is None else page_size))
        with pagestore.open(building) as store:
            yield store
        os.link(building, path)
        sync_folder(path)


@contextmanager
def removed_if_empty(path: Path) -> Iterator[None]:
    """Delete the store that the block made if the block fails before the first version; keep an
    existing file.
    """
    there = path.exists()
    try:
        yield
    except BaseException:
        if not there and path.exists():
            # nobody else writes
            with suppress(PagestoreError, OSError), pagestore.open(path, create=False) as store:
                if not store.version:
                    path.unlink()
        raise
