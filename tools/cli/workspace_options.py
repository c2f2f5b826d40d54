"""Functions that the `ivm` commands share: they open the workspace, read texts of rules, and print rows."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

import ivm
from ivm.errors import IvmError

from .answers import as_json, counted, number, table, tell

CHANGE = "_change_type"


def opened(options: argparse.Namespace, mode: str = "rw", create: bool = False) -> ivm.Workspace:
    """The workspace of a command's file, which must exist unless `create`."""
    return ivm.open(options.file, mode=mode, create=create)


def text_of(path: str) -> str:
    """The text of a file, or of stdin for `-`.  Raises IvmError if it is no UTF-8."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise IvmError(f"{path} is no UTF-8 text: see its byte {error.start}") from None


def block_name(path: str) -> str:
    """The default name for a file's rules: the file's name without its ending, or `main` for `-`."""
    return "main" if path == "-" else Path(path).stem


def argument_or_stdin(text: str) -> str:
    """An argument that is a text, or the text of stdin for `-`."""
    return text_of("-") if text == "-" else text


def limit(parser: argparse.ArgumentParser) -> None:
    """Add the argument --limit of commands that print rows."""
    parser.add_argument("--limit", type=number, help="print at most this many rows")


def limits(parser: argparse.ArgumentParser) -> None:
    """Add the arguments --rows-max and --rounds-max of commands that evaluate recursion."""
    parser.add_argument("--rows-max", type=number, help="the most rows of views that read one another")
    parser.add_argument("--rounds-max", type=number, help="the most rounds that deriving them may take")


def answer_rows(
    options: argparse.Namespace, names: Sequence[str], rows: Iterable[tuple[object, ...]], count: int
) -> None:
    """Print rows as a JSON object a line, or as a table with their number, which is `count`."""
    if options.quiet and not options.json:
        return
    shown = list(islice(rows, options.limit))
    if options.json:
        for row in shown:
            print(as_json(dict(zip(names, row, strict=True))))
        return
    tell(table([tuple(map(cell, row)) for row in shown], tuple(names)))
    tell(f"{counted(count, 'row')}{f', {len(shown):,} shown' * (len(shown) < count)}")


def cell(value: object) -> object:
    """A value as rules write it, but without quotes."""
    return str(value).lower() if isinstance(value, bool) else value


def changes(delta: pa.Table) -> list[tuple[str, tuple[Any, ...]]]:
    """The rows that a transaction changed in a view, each with `+` or `-`."""
    signs = ["+" if change == "insert" else "-" for change in delta[CHANGE].to_pylist()]
    columns = [delta[name].to_pylist() for name in delta.column_names if name != CHANGE]
    return list(zip(signs, zip(*columns, strict=True), strict=True))
