"""`pagestore load FILE RELATION SOURCE...`: load the rows of files into a new or an existing relation.

    (nothing)    make the relation, which must not be there                            --key x,y
    --append     add rows; a key that exists with other values is an error
    --upsert     add rows; where the key is there, put their values in place of the old ones
    --replace    let the relation have these rows and no others
    --delete     take away the rows with these values: of the key, of its first columns, of any others, or of all

Views that read the relation follow in the same commit. All of a load is done, or nothing.
"""

import argparse
import codecs
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pagestore
from pagestore.storage.file import local_path
from pagestore.values.types import Type

from ..cli.answers import answer, common, complain, number
from ..cli.progress import Progress, removed_if_empty
from ..loading.casts import DatasetError
from ..loading.csv_files import Dialect
from ..loading.dataset import KEEP, NULLS, Reading
from ..loading.files import FORMATS
from ..loading.load import APPEND, CREATE, DELETE, MEMORY, REPLACE, UPSERT, Report, Spread, load

SOURCES_NAMED = 3  # in the message of a version
WITHOUT_SPARK = "{}: pip install 'pagestore-ivm[spark]'"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser, file=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = f"{parser.description}\n{(__doc__ or '').partition('SOURCE...`')[2].partition(chr(10))[2]}"
    parser.add_argument("file", help="the store; made if it is not there")
    parser.add_argument("relation", help="the relation")
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="a file, a folder, or a pattern such as 'in/*.csv'"
                        ": Parquet, CSV, JSON lines or Arrow")  # fmt: skip
    parser.add_argument(
        "--key", type=names, default=[], help="the new relation's key columns, comma-separated, in order"
    )
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--append", dest="mode", action="store_const", const=APPEND, help="add rows")
    modes.add_argument("--upsert", dest="mode", action="store_const", const=UPSERT, help="add rows, or change them")
    modes.add_argument("--replace", dest="mode", action="store_const", const=REPLACE, help="keep only these rows")
    modes.add_argument("--delete", dest="mode", action="store_const", const=DELETE, help="take rows away")
    parser.set_defaults(mode=CREATE)
    parser.add_argument("--rename", type=pair, action="append", default=[], metavar="OLD=NEW", help="rename a column")
    parser.add_argument("--columns", type=names, default=[], help="take only these, comma-separated, in this order")
    parser.add_argument("--cast", type=cast, action="append", default=[], metavar="COLUMN=TYPE",
                        help="take a column as another type, such as string or decimal(9,2)")  # fmt: skip
    parser.add_argument("--format", choices=FORMATS, help="what the files are, if their names do not say it")
    parser.add_argument("--nulls", choices=NULLS, default=KEEP, help="what becomes of nulls: kept in columns of values "
                        "(the default), refused, or their rows dropped")  # fmt: skip
    parser.add_argument("--fill", type=filling, action="append", default=[], metavar="COLUMN=VALUE",
                        help="a value for the nulls of a column")  # fmt: skip
    parser.add_argument("--empty-is-null", action="store_true", help="take an empty text of a CSV file as a null")
    text = parser.add_argument_group("how CSV files are written, where that does not follow from the files")
    text.add_argument("--delimiter", type=letter, metavar="X", help="what separates columns, such as ';' or tab")
    text.add_argument("--quote", type=quote, default='"', metavar="X", help="what is around a text with delimiters "
                      "or lines in it; '' for none")  # fmt: skip
    text.add_argument("--encoding", type=encoding, help="such as latin-1 or utf-16; else UTF-8, or as a mark at "
                      "the beginning says")  # fmt: skip
    text.add_argument("--null", action="append", default=[], metavar="TEXT", help="a text that is a null in every "
                      "column, such as '' or NA; may be given several times")  # fmt: skip
    text.add_argument("--no-header", action="store_true", help="the first line has values: columns are those of the "
                      "relation, in order, or column1, column2 ...")  # fmt: skip
    text.add_argument("--decimal", choices=[".", ","], default=".", help="the mark in numbers: 1,5 with a comma")
    parser.add_argument("--utc", action="store_true", help="store timestamps with a time zone in UTC, without the zone")
    parser.add_argument("--page-size", type=number, metavar="BYTES",
                        help="of a new store: 4096 to 65536; by default 8192, or what the columns need")  # fmt: skip
    parser.add_argument("--spark", action="store_true", help="let tasks of Spark build the relation's pages")
    parser.add_argument("--cores", type=number, default=2, help="threads of Spark in this process (2)")
    parser.add_argument("--segments", metavar="DIR", help="where Spark's tasks leave pages, a folder that all workers "
                        "see: FILE.segments by default")  # fmt: skip


def names(text: str) -> list[str]:
    """Parse names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def pair(text: str) -> tuple[str, str]:
    """Parse OLD=NEW.  Raises argparse.ArgumentTypeError."""
    one, sign, other = (part.strip() for part in text.partition("="))
    if not (one and sign and other):
        raise argparse.ArgumentTypeError(f"{text}: it is written {'OLD=NEW'}")
    return one, other


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


def filling(text: str) -> tuple[str, str]:
    """Parse a column and a value, which may be empty.  Raises argparse.ArgumentTypeError."""
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text}: say which value a column gets, as in {text}=0")
    return name.strip(), value


def cast(text: str) -> tuple[str, Type]:
    """Parse a column and a type.  Raises argparse.ArgumentTypeError."""
    name, _, kind = text.partition("=")
    try:
        return name.strip(), Type.parse(kind)
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
        raise DatasetError(f"--spark builds a relation whole: make one, or give --replace instead of --{options.mode}")
    try:
        from ..spark.session import SparkCluster, session
    except ImportError as error:
        raise OSError(WITHOUT_SPARK.format(error)) from None
    with session("pagestore load", options.cores) as spark:
        yield Spread(SparkCluster(spark), Path(local_path(options.segments or f"{options.file}.segments")))


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
    answer(options, asdict(report), str(report))
    return 0


def _load(options: argparse.Namespace, page_size: int | None) -> Report:
    """Load into the store; a new one has pages of this size, and is deleted if the load fails."""
    file = Path(options.file)
    reading = Reading(
        options.columns, dict(options.rename), dict(options.cast), options.nulls, options.utc, options.format,
        dict(options.fill), options.empty_is_null, dialect=Dialect(
            options.delimiter, options.quote, options.encoding, tuple(options.null), not options.no_header,
            options.decimal,
        ),
    )  # fmt: skip
    with (
        removed_if_empty(file),
        pagestore.open(file, page_size=page_size) as store,
        store.transaction(message=f"load {options.relation}: {_few(options.sources)}") as txn,
        Progress(f"load {options.relation}", options.quiet) as progress,
        _spread(options) as spread,
    ):
        report = load(
            txn, options.relation, options.sources, options.key, options.mode, reading, MEMORY, progress, spread
        )
        progress(f"committing{'; views follow' if report.views else ''}")
        txn.commit()
    return report
