"""What the `ivm` commands share: the workspace's file, texts of rules, and rows as answers."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa

import ivm
from ivm.errors import IvmError

from .answers import as_json, counted, number, table, tell

CHANGE = "_change_type"


def opened(options: argparse.Namespace, mode: str = "rw", create: bool = False) -> ivm.Workspace:
    """The workspace; it must be there unless the command may make one."""
    return ivm.open(options.file, mode=mode, create=create)


def text_of(path: str) -> str:
    """The text of a file, or of stdin for `-`.  Raises IvmError where it is no UTF-8."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise IvmError(f"{path} is no UTF-8 text: see its byte {error.start}") from None


def block_name(path: str) -> str:
    """What to install a file's rules under, unless told: its name without its ending; `main` for `-`."""
    return "main" if path == "-" else Path(path).stem


def argument_or_stdin(text: str) -> str:
    """The text itself, or stdin for `-`."""
    return text_of("-") if text == "-" else text


def limit(parser: argparse.ArgumentParser) -> None:
    """The argument of commands that print rows."""
    parser.add_argument("--limit", type=number, help="print so many rows at most")


def answer_rows(options: argparse.Namespace, names: Sequence[str], rows: Iterable[tuple], count: int) -> None:
    """Rows: a JSON object a line, or a table with how many there are."""
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
    """A value as it is written in rules, but for the quotes."""
    return str(value).lower() if isinstance(value, bool) else value


def changes(delta: pa.Table) -> list[tuple[str, tuple]]:
    """The rows that a transaction changed in a view, each with `+` or `-`."""
    signs = ["+" if change == "insert" else "-" for change in delta[CHANGE].to_pylist()]
    columns = [delta[name].to_pylist() for name in delta.column_names if name != CHANGE]
    return list(zip(signs, zip(*columns, strict=True), strict=True))
