"""`pagestore load FILE RELATION SOURCE...`: load the rows of files into a new or an existing
relation.

Without a mode the relation is made. Views that read it follow in the same commit. All of a load is
done, or nothing.
"""

import argparse
import codecs
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

import pagestore
from pagestore.host import Type, local_path
from pagestore.tooling import written

from ..cli.answers import answer, common, complain, number, plain
from ..cli.progress import Progress, removed_if_empty
from ..loading.casts import Aside, DatasetError
from ..loading.csv_files import Dialect
from ..loading.dataset import KEEP, NULLS, Reading
from ..loading.files import FORMATS
from ..loading.load import APPEND, CREATE, DELETE, MEMORY, REPLACE, UPSERT, Report, Spread, load

BAD_KEPT = 1 << 20  # bytes of bad rows in memory; more wait in a temporary file
SOURCES_NAMED = 3  # in the message of a version
SYNONYMS = {  # what rules and SQL say
    "int": "int64", "integer": "int64", "bigint": "int64", "float": "float64", "double": "float64",
    "boolean": "bool",
    "text": "string", "varchar": "string", "datetime": "timestamp",
}  # fmt: skip
WITHOUT_SPARK = "{}: pip install 'pagestore-ivm[spark]'"


HELP = """
Load files into a relation: Parquet, CSV, JSON lines or Arrow.

examples:
  pagestore load shop.pages sale sales.parquet --key id    make the relation
  pagestore load shop.pages sale 'new/*.csv' --append      add rows
  pagestore load shop.pages sale fixed.jsonl --upsert      add or change rows
  pagestore load shop.pages sale gone.csv --delete         remove rows
  pagestore load shop.pages sale b.csv --append --bad bad.jsonl   skip bad rows

All rows are loaded, in one commit, or none. With --bad, those that do not fit
are written to a file with the reasons, and the others are loaded. Views that
read the relation are up to date in the same commit.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    helpful(parser, HELP, "pagestore load FILE RELATION SOURCE... [options]")
    common(parser, file=False)
    parser.add_argument("file", metavar="FILE", help="the store; it is made if it does not exist")
    parser.add_argument("relation", metavar="RELATION", help="the relation's name")
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="a file, a folder, or a pattern such as 'in/*.csv'",
    )
    _mode_options(parser)
    _value_options(parser)
    _file_options(parser)
    spark = spark_options(parser)
    spark.add_argument(
        "--spark", action="store_true", help="let tasks of Spark build the relation's pages"
    )
    spark.add_argument(
        "--segments",
        metavar="DIR",
        help="where these tasks leave pages: a folder that all workers "
        "see; FILE.segments by default",
    )


def helpful(parser: argparse.ArgumentParser, text: str, usage: str) -> None:
    """Begin a command's help with a short usage and its examples; lines have at most 80 columns."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.usage = text.strip(), usage


def spark_options(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the group of options of Spark that all commands with Spark have, and return it."""
    group = parser.add_argument_group("Spark")
    group.add_argument(
        "--cores", type=number, default=2, metavar="N", help="threads of Spark in this process (2)"
    )
    return group


def repeated(group: "argparse._ActionsContainer", name: str, **described: Any) -> None:
    """Add an option that may be given several times, to a group or a command."""
    group.add_argument(name, action="append", default=[], **described)


def key_option(group: "argparse._ArgumentGroup") -> None:
    """Add the option with the key of a new relation."""
    group.add_argument(
        "--key",
        type=names,
        default=[],
        metavar="A,B",
        help="the key columns of a new relation, in order",
    )


def _mode_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "what happens to the relation",
        "Without one of the first four, it is made, and must not exist.",
    )
    modes = group.add_mutually_exclusive_group()
    for mode, said in (
        (APPEND, "add rows; a key that exists with other values is an error"),
        (UPSERT, "add rows; where a key exists, change its values"),
        (REPLACE, "give the relation these rows and no others"),
        (
            DELETE,
            "remove the rows that have these values in the columns of the files: the key, the "
            "first columns of it, any other columns, or all",
        ),
    ):
        modes.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode, help=said)
    parser.set_defaults(mode=CREATE)
    key_option(group)
    group.add_argument(
        "--page-size",
        type=number,
        metavar="BYTES",
        help="of a new store, 4096 to 65536; by default 8192, or what the columns need",
    )


def _value_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("columns and values")
    group.add_argument(
        "--columns",
        type=names,
        default=[],
        metavar="A,B",
        help="load only these columns, in this order",
    )
    repeated(group, "--rename", type=pair, metavar="OLD=NEW", help="rename a column")
    repeated(
        group,
        "--cast",
        type=cast,
        metavar="COLUMN=TYPE",
        help="load a column as another type, such as string or decimal(9,2)",
    )
    group.add_argument(
        "--nulls",
        choices=NULLS,
        default=KEEP,
        help="keep nulls in columns that are not keys (the "
        "default), refuse them, or drop their rows",
    )
    repeated(
        group,
        "--fill",
        type=filling,
        metavar="COLUMN=VALUE",
        help="a value in place of a column's nulls",
    )
    group.add_argument(
        "--utc",
        action="store_true",
        help="store timestamps with a time zone in UTC, without the zone",
    )
    group.add_argument(
        "--bad",
        metavar="BAD",
        help="put bad rows into this file and load the others: a line of JSON "
        "for each row, with its file, line, column, value, reason and all its values",
    )


def _file_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "how the files are written",
        "All but the first and the last are for CSV, where the files do not show it.",
    )
    group.add_argument("--format", choices=FORMATS, help="the format, if the names do not say it")
    group.add_argument(
        "--delimiter", type=letter, metavar="X", help="what separates columns, such as ';' or tab"
    )
    group.add_argument(
        "--quote",
        type=quote,
        default='"',
        metavar="X",
        help="what encloses a text with delimiters or line breaks in it; '' for none",
    )
    group.add_argument(
        "--encoding",
        type=encoding,
        metavar="NAME",
        help="such as latin-1 or utf-16; by default UTF-8, or what a mark at the beginning says",
    )
    repeated(
        group,
        "--null",
        metavar="TEXT",
        help="a text that means null in every column, such as NA; may be given several times",
    )
    group.add_argument("--empty-is-null", action="store_true", help="an empty text means null")
    group.add_argument(
        "--no-header",
        action="store_true",
        help="the first line has values: the columns are those of "
        "the relation, in order, or column1, column2 ...",
    )
    group.add_argument(
        "--decimal",
        choices=[".", ","],
        default=".",
        metavar="MARK",
        help="the decimal mark: , for numbers like 1,5",
    )
    group.add_argument(
        "--thousands",
        type=quote,
        default="",
        metavar="MARK",
        help="what separates groups of three digits, such as , in 1,250.00",
    )
    repeated(
        group,
        "--date-format",
        type=date_format,
        metavar="FORMAT",
        help="how dates or times are written, such as %%d.%%m.%%Y or "
        "'%%m/%%d/%%Y %%H:%%M'; may be given several times; also for texts of other files with --cast",
    )


def names(text: str) -> list[str]:
    """Parse names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def pair(text: str) -> tuple[str, str]:
    """Parse OLD=NEW.  Raises argparse.ArgumentTypeError."""
    left, sign, other = (part.strip() for part in text.partition("="))
    if not (left and sign and other):
        raise argparse.ArgumentTypeError(f"{text}: it is written {'OLD=NEW'}")
    return left, other


def letter(text: str) -> str:
    """Parse a single character; `tab` is a tab.  Raises argparse.ArgumentTypeError."""
    text = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(text) != 1 or not text.isascii() or text in "\r\n":
        raise argparse.ArgumentTypeError(f"{text!r}: one character of ASCII is wanted, or tab")
    return text


def quote(text: str) -> str:
    """Parse a single character, or none.  Raises argparse.ArgumentTypeError."""
    return text and letter(text)


def encoding(text: str) -> str:
    """Check that Python knows an encoding.  Raises argparse.ArgumentTypeError."""
    try:
        "".encode(codecs.lookup(text).name)
    except (LookupError, ValueError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an encoding: such are utf-8, utf-16, latin-1, cp1252"
        ) from None
    return text


def date_format(text: str) -> str:
    """Check that a strptime format has day, month and year.  Raises argparse.ArgumentTypeError."""
    day = datetime(2026, 12, 31)
    try:
        is_read = datetime.strptime(day.strftime(text), text) == day
    except (ValueError, re.error):
        is_read = False
    if not is_read:
        raise argparse.ArgumentTypeError(
            f"{text!r} does not give a day: %d, %m or %b, and %Y or %y do, as in %d.%m.%Y"
        )
    return text


def filling(text: str) -> tuple[str, str]:
    """Parse a column and a value, which may be empty.  Raises argparse.ArgumentTypeError."""
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text}: say which value a column gets, as in {text}=0")
    return name.strip(), value


def cast(text: str) -> tuple[str, Type]:
    """Parse a column and a type.  Raises argparse.ArgumentTypeError."""
    name, _, kind = (part.strip() for part in text.partition("="))
    base, mark, _ = kind.partition("?")
    try:
        return name, Type.parse(f"{SYNONYMS.get(base.lower(), base)}{mark}")
    except pagestore.errors.SchemaError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None


def _few(sources: Sequence[str]) -> str:
    """Return the first sources, for the version's message."""
    more = f" and {len(sources) - SOURCES_NAMED} more" if len(sources) > SOURCES_NAMED else ""
    return ", ".join(sources[:SOURCES_NAMED]) + more


@contextmanager
def _spread(options: argparse.Namespace) -> Iterator[Spread | None]:
    """Yield the cluster that the options require, or None."""
    if not options.spark:
        yield None
        return
    if options.mode not in (CREATE, REPLACE):
        raise DatasetError(
            f"--spark builds a relation whole: make one, or give --replace instead of "
            f"--{options.mode}"
        )
    try:
        from ..spark.session import SparkCluster, session
    except ImportError as error:
        raise OSError(WITHOUT_SPARK.format(error)) from None
    with session("pagestore load", options.cores) as spark:
        yield Spread(
            SparkCluster(spark), Path(local_path(options.segments or f"{options.file}.segments"))
        )


def run(options: argparse.Namespace) -> int:
    """Load, and print the report; return the exit code."""
    try:
        report = _load(options, options.page_size)
    except pagestore.errors.SchemaError as error:
        if error.page_size is None or options.page_size or Path(options.file).exists():
            raise
        report = _load(options, error.page_size)  # into a new store, which may have any page size
    for note in () if options.quiet else report.notes:
        complain(f"note: {note}")
    if (
        options.mode == CREATE
        and not options.quiet
        and any(": --" in note for note in report.notes)
    ):
        drop = shlex.join(["pagestore", "drop", options.file, options.relation])
        complain(f"note: to load with such an option, make the relation anew: `{drop}` first")
    reasons = f"\n{plain(options.bad)}: the bad rows, with the reasons" if report.bad else ""
    answer(options, asdict(report), f"{report}{reasons}")
    return 0


@contextmanager
def _aside(options: argparse.Namespace) -> Iterator[Aside | None]:
    """Yield what writes bad rows to the options' file, if any; it appears after the block."""
    if options.bad is None:
        yield None
        return
    if options.spark:
        raise DatasetError(
            "--bad is not for --spark: let `pagestore prepare` put bad rows aside, and load what "
            "it makes"
        )
    with written(options.bad, options.file) as out, SpooledTemporaryFile(BAD_KEPT) as rows:
        yield Aside(rows)  # which may begin anew, and a pipe or a device cannot
        rows.seek(0)
        shutil.copyfileobj(rows, out)


def _load(options: argparse.Namespace, page_size: int | None) -> Report:
    """Load into the store; a new one has pages of this size, and is deleted if the load fails."""
    if options.thousands == options.decimal:
        raise DatasetError(
            f"--thousands {options.thousands} is the decimal mark, too: say with --decimal which "
            f"it is"
        )
    file = Path(options.file)
    reading = Reading(
        options.columns, dict(options.rename), dict(options.cast), options.nulls, options.utc,
        options.format, dict(options.fill), options.empty_is_null,
        dialect=Dialect(
            options.delimiter, options.quote, options.encoding, tuple(options.null), not
            options.no_header, options.decimal, options.thousands, tuple(options.date_format),
        ),
    )  # fmt: skip
    with (
        removed_if_empty(file),
        pagestore.open(file, page_size=page_size) as store,
        store.transaction(message=f"load {options.relation}: {_few(options.sources)}") as txn,
        Progress(f"load {options.relation}", options.quiet) as progress,
        _spread(options) as spread,
    ):
        with _aside(options) as aside:
            reading = reading._replace(aside=aside)
            report = load(
                txn,
                options.relation,
                options.sources,
                options.key,
                options.mode,
                reading,
                MEMORY,
                progress,
                spread,
            )
        progress(f"committing{'; views follow' if report.views else ''}")
        txn.commit()
    return report
