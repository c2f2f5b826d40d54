"""`pagestore load FILE RELATION PARQUET_DIR --key x,y`: a folder of Parquet files becomes a relation.

Rows stream from the files into pages bottom-up, while their order is checked. Rows out of the relation's order are
sorted outside memory first, and the report says so. A key with texts is always sorted, since the store orders texts by
their ids in its dictionary.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

import pagestore
from pagestore.relations.transaction import Transaction
from pagestore.relations.writable import WritableRelation
from pagestore.values.types import Column, Schema, type_of_arrow

from ..cli.answers import answer, common, complain, counted
from ..cli.progress import Progress
from .external_sort import sort
from .parquet_dataset import Dataset, DatasetError, open_dataset

MEMORY = 256 << 20  # bytes that a sort may hold before it writes to temporary files


@dataclass
class Report:
    """The result of a load: rows in the relation, dropped for nulls, collapsed as identical, and whether it sorted."""

    relation: str
    files: int
    rows: int = 0
    dropped: int = 0
    collapsed: int = 0
    sorted: bool = False
    seconds: float = 0.0
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        rate = f"{counted(self.rows, 'row')} from {counted(self.files, 'file')} in {self.seconds:.1f} s"
        more = ["sorted first"] * self.sorted
        more += [f"{self.dropped:,} with nulls dropped"] * bool(self.dropped)
        more += [f"{counted(self.collapsed, 'duplicate')} collapsed"] * bool(self.collapsed)
        return f"{self.relation}: {', '.join([rate, *more])}"


class Disorder(Exception):
    """The stream is not ascending by key."""


def load(
    txn: Transaction,
    relation: str,
    path: str | Path,
    key: Sequence[str],
    nulls: str = "keep",
    memory: int = MEMORY,
    utc: bool = False,
    progress: Callable[[str], None] = lambda text: None,
    fill: Mapping[str, str] = MappingProxyType({}),
) -> Report:
    """Make the new relation `relation` with this key from the Parquet files under `path`.

    `nulls` says what becomes of a null: "keep" makes columns nullable, of values only; "drop" leaves out the row, and
    "refuse" ends the load. `fill` has values for the nulls of some columns. With `utc`, timestamps with a time zone are
    stored in UTC without it, else refused.
    Raises DatasetError, with the file, column and row of a value that cannot be loaded, or with a key that has two
    different values. O(rows) in bounded memory for sorted input, else O(rows log rows).
    """
    began = time.perf_counter()
    dataset = open_dataset(path, utc)
    dataset.fill_with(fill)
    new = txn.create(relation, _schema(dataset, key, nulls == "keep"))
    report = Report(relation, len(dataset.parts), notes=dataset.notes)
    stream = _Stream(txn, new, dataset, nulls, report, progress)
    try:
        if any(column.type.interned for column in new.schema.stored[: len(key)]):
            raise Disorder
        with txn.savepoint():
            report.rows = txn.bulk(new.info, stream.rising(stream.words()))
    except Disorder:
        report.collapsed, report.sorted, dataset.dropped = 0, True, 0
        report.rows = txn.bulk(new.info, stream.rising(sort(stream.words(), len(key), memory)))
    report.dropped, report.seconds = dataset.dropped, time.perf_counter() - began
    return report


@dataclass
class _Stream:
    """The dataset as batches of words int64[C, n], the key columns first."""

    txn: Transaction
    relation: WritableRelation
    dataset: Dataset
    nulls: str
    report: Report
    progress: Callable[[str], None]

    @property
    def keys(self) -> int:
        return len(self.relation.schema.key)

    def words(self) -> Iterator[np.ndarray]:
        """All rows in file order."""
        rows = 0
        for batch in self.dataset.batches(self.nulls, self.relation.schema.key):
            yield self.relation.encode(batch)
            rows += len(batch)
            self.progress(f"{rows:,} rows read")

    def rising(self, batches: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The batches without repeated rows.  Raises Disorder where a key falls, DatasetError where values differ."""
        last = np.empty((len(self.relation.schema.columns), 0), np.int64)
        for batch in batches:
            rows = np.concatenate([last, batch], axis=1)
            order = _steps(rows[: self.keys])
            if (order < 0).any():
                raise Disorder
            again = np.flatnonzero(order == 0)
            for row in again[(rows[:, again] != rows[:, again + 1]).any(axis=0)]:
                raise self._conflict(rows[:, row : row + 2])
            self.report.collapsed += len(again)
            yield np.delete(rows, again + 1, axis=1)[:, last.shape[1] :]
            last = rows[:, -1:]

    def _conflict(self, pair: np.ndarray) -> DatasetError:
        stored = self.relation.schema.stored
        texts = [self.txn.decode(column.type, words) for column, words in zip(stored, pair, strict=True)]
        one, other = (
            [f"{column.name}={text[row]}" for column, text in zip(stored, texts, strict=True)] for row in (0, 1)
        )
        return DatasetError(
            f"{self.dataset.path}: key ({', '.join(one[: self.keys])}) has both "
            f"({', '.join(one[self.keys :])}) and ({', '.join(other[self.keys :])}): "
            "keep one of them in the job, or make the column part of the key"
        )


def _steps(keys: np.ndarray) -> np.ndarray:
    """The step from each row of int64[K, n] to the next: 1 where the key rises, 0 where it stays, -1 where it falls.

    >>> _steps(np.array([[1, 1, 1, 2], [5, 6, 6, 0]])).tolist()
    [1, 0, 1]
    """
    steps = np.zeros(max(0, keys.shape[1] - 1), np.int8)
    for column in keys[::-1]:
        here, following = column[:-1], column[1:]
        steps = np.where(here == following, steps, np.where(here < following, 1, -1))
    return steps


def _schema(dataset: Dataset, key: Sequence[str], keep: bool) -> Schema:
    """The relation's columns; with `keep`, those may be null that may lack values.  Raises DatasetError for a key that
    names others.
    """
    names = ", ".join(dataset.columns)
    if not key:
        raise DatasetError(f"{dataset.path}: the relation needs a key: name at least one of {names}")
    for name in key:
        if name not in dataset.columns:
            raise DatasetError(f"{dataset.path}: no column {name} for the key; there are {names}")
    columns = [
        Column(name, type_of_arrow(name, kind)._replace(nullable=keep and name not in key and dataset.may_lack(name)))
        for name, kind in dataset.columns.items()
    ]
    return Schema.parse(Schema(tuple(columns), tuple(key)), key)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser, file=False)
    parser.add_argument("file", help="the store; made if it is not there")
    parser.add_argument("relation", help="the relation to make")
    parser.add_argument("path", help="a folder of Parquet files, or one file")
    parser.add_argument("--key", required=True, help="the key's columns, comma-separated, in order")
    parser.add_argument(
        "--nulls", choices=("keep", "refuse", "drop"), default="keep",
        help="what becomes of nulls: kept in columns of values (the default), refused, or their rows dropped",
    )  # fmt: skip
    parser.add_argument(
        "--fill", action="append", default=[], metavar="COLUMN=VALUE", help="a value for the nulls of a column"
    )
    parser.add_argument("--utc", action="store_true", help="store timestamps with a time zone in UTC, without the zone")


def _pair(text: str) -> tuple[str, str]:
    """`column=value` as both. Raises DatasetError."""
    name, sign, value = text.partition("=")
    if not sign:
        raise DatasetError(f"--fill {text}: say which value a column gets, as in --fill {text}=0")
    return name, value


def run(options: argparse.Namespace) -> int:
    """Load, and print the report; the exit code."""
    file, key = Path(options.file), [name.strip() for name in options.key.split(",")]
    there = file.exists()
    with pagestore.open(file) as store:
        try:
            with (
                store.transaction(message=f"load {options.path}") as txn,
                Progress(f"load {options.relation}", options.quiet) as progress,
            ):
                report = load(
                    txn, options.relation, options.path, key, options.nulls, utc=options.utc, progress=progress,
                    fill=dict(_pair(text) for text in options.fill),
                )  # fmt: skip
        finally:
            if (
                not there and not store.version
            ):  # the load failed; the lock is still held, so no other process has written
                file.unlink()
    for note in () if options.quiet else report.notes:
        complain(f"note: {note}")
    answer(options, asdict(report), str(report))
    return 0
