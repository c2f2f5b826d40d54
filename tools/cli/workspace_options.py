"""Functions shared by the `ivm` commands: open the workspace, and read texts of rules."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, Literal

import pyarrow as pa

import ivm
from ivm.errors import IvmError
from pagestore.errors import PagestoreError

from .answers import complain, number

CHANGE = "_change_type"
DAY = 86_400


def opened(
    options: argparse.Namespace, mode: Literal["rw", "r"] = "rw", create: bool = False
) -> ivm.Workspace:
    """Open the workspace of a command's file, which must exist unless `create`."""
    branch = getattr(options, "branch", "main")
    return ivm.open(options.file, mode=mode, create=create, branch=branch)


def on_branch(parser: argparse.ArgumentParser) -> None:
    """Add the argument --branch of commands that `opened` opens a workspace for."""
    parser.add_argument("--branch", default="main", help="the branch to work on (default: main)")


def on_tick(parser: argparse.ArgumentParser) -> None:
    """Add the argument --tick of commands that `ticking` moves the clock for."""
    parser.add_argument(
        "--tick",
        type=_interval,
        metavar="SECONDS",
        help="move the clock of kept views, which now() is in them, at this interval",
    )


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= DAY:
        raise argparse.ArgumentTypeError(f"{text!r}: give seconds, above 0 and up to {DAY:,}")
    return seconds


@contextmanager
def ticking(workspace: ivm.Workspace, seconds: float | None) -> Iterator[None]:
    """Move the clock of kept views at an interval until the block ends; never for None."""
    ended = Event()

    def run() -> None:
        try:
            while not ended.wait(seconds):
                workspace.tick()
        except (IvmError, PagestoreError) as error:
            complain(f"the clock stands still: {error}")

    clock = Thread(target=run, daemon=True)
    if seconds is not None:
        clock.start()
    try:
        yield
    finally:
        ended.set()
        if seconds is not None:
            clock.join()


def text_of(path: str) -> str:
    """Read the text of a file, or of stdin for `-`.  Raises IvmError if it is not UTF-8."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise IvmError(f"{path} is not UTF-8 text: see its byte {error.start}") from None


def block_name(path: str) -> str:
    """Return the default name for a file's rules: its name without suffix, or `main` for `-`."""
    return "main" if path == "-" else Path(path).stem


def argument_or_stdin(text: str) -> str:
    """Return an argument, or the text of stdin for `-`."""
    return text_of("-") if text == "-" else text


def limits(parser: argparse.ArgumentParser) -> None:
    """Add the arguments --rows-max and --rounds-max of commands that evaluate recursion."""
    parser.add_argument(
        "--rows-max", type=number, help="the most rows of views that read one another"
    )
    parser.add_argument(
        "--rounds-max", type=number, help="the most rounds that deriving them may take"
    )


def changes(delta: pa.Table) -> list[tuple[str, tuple[Any, ...]]]:
    """The rows that a transaction changed in a view, each with `+` or `-`."""
    signs = ["+" if change == "insert" else "-" for change in delta[CHANGE].to_pylist()]
    columns = [delta[name].to_pylist() for name in delta.column_names if name != CHANGE]
    return list(zip(signs, zip(*columns, strict=True), strict=True))
