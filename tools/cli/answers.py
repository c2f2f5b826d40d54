"""Arguments that every command has, and how answers are printed: for people, for programs."""

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from io import StringIO
from shutil import get_terminal_size
from typing import Any, Literal, TextIO

from rich.cells import cell_len, set_cell_size

import pagestore
from pagestore.host import printable
from pagestore.tooling import is_own, whole_of

LEAD = re.compile(r"(?:[│ ] {2})*[├└]─ |\s*(?:\S+ {2,})?")  # branches of a tree, or a label
KEPT = "(for rules and SQL)"  # what helpers of no single view are kept for
LEAST_COLUMN = 8  # places for a column, below which a table becomes lists


def common(parser: argparse.ArgumentParser, file: bool = True) -> None:
    """Add the arguments that every command has; `file` says whether the store's is one."""
    if file:
        parser.add_argument("file", help="the store's file")
    parser.add_argument("--json", action="store_true", help="answer in JSON on stdout")
    parser.add_argument(
        "--quiet", action="store_true", help="no answer and no progress, only the exit code"
    )


def everything(parser: argparse.ArgumentParser) -> None:
    """Add the argument that also lists internal relations of programs."""
    parser.add_argument(
        "--all", action="store_true", help="also what rules and SQL keep for themselves"
    )


def shown(options: argparse.Namespace, names: Collection[str]) -> list[str]:
    """Return the names of relations that a command lists."""
    owners = {name: owner(name, names) for name in names}
    return [
        name
        for name, owner in owners.items()
        if options.all or owner == name or owner not in (KEPT, *names)
    ]


def owner(name: str, names: Collection[str]) -> str:
    """Return which of some relations one is kept for: the name itself, a view, or KEPT for
    something of several.

    >>> [owner(name, ["v:part1", "v:part2", "r:part2"]) for name in ("v", "v:part1", "v:part2", "r:part2", "v$1")]
    ['v', 'v', 'v', 'r:part2', '(for rules and SQL)']
    """
    return KEPT if is_own(name) else whole_of(name, names)


def opened(options: argparse.Namespace, mode: Literal["rw", "r"] = "r") -> pagestore.Store:
    """Open the store of a command's file, which must exist."""
    return pagestore.open(options.file, mode=mode, create=False)


def answer(options: argparse.Namespace, data: Mapping[str, Any], text: str) -> None:
    """Print the answer: `text` for people, `data` for programs."""
    if options.json:
        print(as_json(data))
    elif not options.quiet and text:
        tell(text)


def tell(text: str) -> None:
    """Print lines for people.  Data that may hold line ends must be `plain` already."""
    print("\n".join(fitting(plain(line), sys.stdout) for line in text.split("\n")))


def complain(text: str) -> None:
    """Print one line on stderr."""
    print(fitting(plain(text), sys.stderr), file=sys.stderr)


def fitting(line: str, out: TextIO) -> str:
    """Return a line, on a terminal that is too narrow as several, which end between words.

    They begin below what follows the line's label, or its branch of a tree.
    """
    if not out.isatty() or cell_len(line) <= (room := get_terminal_size().columns):
        return line
    lead = LEAD.match(line)
    start = (lead[0] if lead else "").replace("├─", "│ ").replace("└─", "  ")
    indent = "".join(letter if letter in "│ " else " " for letter in start) or "  "
    return textwrap.fill(
        line,
        room,
        subsequent_indent=indent if len(indent) < room // 3 else "  ",
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def plain(value: object) -> str:
    r"""Return a value as text that is safe on a terminal: control and direction characters are
    escaped.

    >>> print(plain("a\x1b[2Jb\n\u202ec"), plain("Grüße"))
    a\x1b[2Jb\n\u202ec Grüße
    """
    return printable(str(value))


def cell_text(value: object, null: str = "null") -> str:
    """Return a value of a row as text that is safe on a terminal, None as `null`."""
    return null if value is None else plain(value)


def as_json(data: Any) -> str:
    """Return data as JSON; values that JSON lacks, like dates and infinite numbers, become texts.

    >>> from datetime import date
    >>> as_json([1, date(2013, 1, 31), float("-inf"), b"\\n"])
    '[1, "2013-01-31", "-Infinity", "0a"]'
    """
    try:
        return json.dumps(data, default=spelt, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(data, default=spelt), parse_constant=str))


def spelt(value: object) -> str:
    """Return a value as text; bytes are hexadecimal digits."""
    return value.hex() if isinstance(value, bytes) else str(value)


def version_or_name(text: str) -> int | str:
    """Parse a version of the command line: a number, a tag or a branch."""
    return int(text) if text.isdigit() else text


def number(text: str) -> int:
    """Parse a whole number of the command line.  Raises argparse.ArgumentTypeError."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text}: a number from 0 on is wanted")
    return int(text)


def size(count: int) -> str:
    """Return a number of bytes as text with a unit.

    >>> size(5 << 20)
    '5.0 MiB'
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    raise AssertionError


def counted(count: int, what: str) -> str:
    """Return a count with its noun, in the plural unless it is 1.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def is_exact(cell: Any) -> bool:
    """Return whether a cell of a table is a whole number or a decimal, whose places line up."""
    return isinstance(cell, int | Decimal)


def table(
    rows: Sequence[Sequence[object]],
    head: Sequence[str],
    is_number: Callable[[Any], bool] = is_exact,
    fits: bool = True,
    null: str = "null",
) -> str:
    """Format rows as aligned columns, numbers to the right; `head` names the columns. Wide letters
    take two places.

    None is written as `null`.

    On a terminal that is too narrow, texts continue in a second line, and only between words,
    unless `fits` is False.

    >>> print(table([("edge", 12)], ("relation", "pages")))
    relation  pages
    edge         12
    """
    cells = [[cell_text(cell, null) for cell in row] for row in (head, *rows)]
    widths = [max(cell_len(row[i]) for row in cells) for i in range(len(head))]
    columns = [[row[i] for row in rows if row[i] is not None] for i in range(len(head))]
    right = [bool(column) and all(map(is_number, column)) for column in columns]
    if (
        fits
        and sys.stdout.isatty()
        and sum(widths) + 2 * len(widths) - 2 > (room := get_terminal_size().columns)
    ):
        return _narrow(cells, right, room)
    lines = ["  ".join(map(_padded, row, widths, right)).rstrip() for row in cells]
    return "\n".join(lines)


def _narrow(cells: Sequence[Sequence[str]], right: Sequence[bool], room: int) -> str:
    """Format rows, the first of which is the head, in lines of at most `room` places.

    A word that is too long ends in an ellipsis. With very many columns each cell has a line of its
    own.
    """
    head, *rows = cells
    numbers = [
        max(cell_len(row[place]) for row in rows)
        for place, is_right in enumerate(right)
        if is_right
    ]
    texts = len(head) - len(numbers)
    if room < max(
        LEAST_COLUMN * len(head), sum(numbers) + LEAST_COLUMN * texts + 2 * len(head) - 2
    ):
        widest = max(map(cell_len, head))
        parts = [
            [
                f"{_padded(name, widest, False)}  {value}"
                for name, value in zip(head, row, strict=True)
            ]
            for row in rows
        ]
        return "\n\n".join(
            "\n".join(
                line if cell_len(line) <= room else set_cell_size(line, room - 1) + "…"
                for line in lines
            )
            for lines in parts
        )
    from rich.console import Console  # not above: most tables need none of it
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for place, (name, is_right) in enumerate(zip(head, right, strict=True)):
        # digits stay together
        least = max((cell_len(row[place]) for row in rows), default=0) if is_right else None
        made.add_column(
            Text(name),
            justify="right" if is_right else "left",
            overflow="ellipsis",
            min_width=least,
        )
    for row in rows:
        made.add_row(*map(Text, row))
    out = StringIO()
    Console(file=out, width=room, color_system=None, legacy_windows=False).print(made)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _padded(cell: str, width: int, right: bool) -> str:
    room = " " * (width - cell_len(cell))
    return room + cell if right else cell + room
