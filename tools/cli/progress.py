"""A line on stderr that says how far the work is; nothing is shown if stderr is no terminal."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from .answers import plain

ERASE_LINE = "\r\x1b[K"


class Progress:
    """`with Progress("load") as progress: progress("3 of 7")` shows "load: 3 of 7" until the block ends."""

    def __init__(self, what: str, quiet: bool = False) -> None:
        self.what = what
        self.shown = sys.stderr.isatty() and not quiet

    def __enter__(self) -> Self:
        return self

    def __call__(self, text: str) -> None:
        if self.shown:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            line = plain(f"{self.what}: {text}")[: width - 1]  # erasing would leave part of a line that wraps
            self._show(ERASE_LINE + line)

    def clear(self) -> None:
        """Erase the line, so that output can be printed."""
        self._show(ERASE_LINE)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.clear()

    def _show(self, text: str) -> None:
        if self.shown:
            print(text, end="", file=sys.stderr, flush=True)


@contextmanager
def compiling_shown() -> Iterator[None]:
    """Show which kernels are compiled while the block runs: those that the installed package did not bring."""
    log = logging.getLogger("pagestore.kernels")
    with Progress("compiling, once") as progress:
        handler = logging.Handler()
        handler.emit = lambda record: progress(str(record.args[0] if record.args else record.msg))  # type: ignore
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        try:
            yield
        finally:
            log.removeHandler(handler)
