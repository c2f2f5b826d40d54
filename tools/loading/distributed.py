"""Fill an empty relation by many tasks: each builds the finished pages of a range of its keys.

    texts      each task writes the distinct texts of some files; this process assigns ids, in the order of the files
    build      each task reads some files again, replaces texts by those ids, and builds a segment, if the keys ascend
    or sort    else the cluster sorts the rows, as words, into ranges, and a segment is built of each
    stitch     the segments are appended to the store, and one tree is built over them

Texts take two passes, since ids must be known before pages are packed: a page is as wide as its
ids, and rows with a text in the key are in the order of their ids. Rewriting ids when segments are
appended would build every page a second time, in this process; the first pass reads only the
columns of texts.

A cluster runs the tasks on any machine: arguments and results are pickled, and files are in shared
folders.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagestore.errors import PagestoreError
from pagestore.host import (
    Column,
    Schema,
    Spec,
    Transaction,
    WritableRelation,
    encode,
    narrowed,
    typed,
)
from pagestore.tooling import Segment, build_segment, interned_as

from ..cli.answers import counted
from .casts import DatasetError, Problems
from .dataset import DROP, Dataset
from .files import ARROW, PARQUET, Part
from .fill import Conflicts, Disorder, Filled, records_of

TEXT = pa.schema([("text", pa.large_binary())])
T = TypeVar("T")
R = TypeVar("R")
Batches = Iterator[np.ndarray]


class Cluster(Protocol):
    """Runs tasks, `parallelism` at a time; a task that fails may be run again."""

    parallelism: int

    def each(self, task: Callable[[T], R], arguments: Sequence[T]) -> list[R]:
        """Return the task's result for each argument."""

    def ranges(
        self,
        words: Callable[[T], Batches],
        arguments: Sequence[T],
        columns: int,
        keys: int,
        build: Callable[[Batches], R],
    ) -> list[R]:
        """Return the result of `build` for each range of all arguments' rows, ascending by key;
        rows are words.
        """


class Place(NamedTuple):
    """Where segments are built: the folder, the tree's spec and version, and likely first page."""

    folder: str
    spec: Spec
    bag: bool
    version: int
    first: int
    page_words: int


@dataclass
class Task:
    """Some files of a dataset, to be encoded as words. `folder` has the task's output other than
    its segment.
    """

    dataset: Dataset
    schema: Schema
    folder: str
    number: int

    @property
    def texts(self) -> Path:
        """The file of the distinct texts of these files; that of their ids is next to it."""
        return Path(self.folder, f"{self.number:05}.texts")

    @property
    def ids(self) -> Path:
        """The file of the ids of these texts."""
        return self.texts.with_suffix(".npy")

    def codes(self, column: str) -> Path:
        """Return the file of a column's texts, each as an int64 index into `texts`."""
        return self.texts.with_suffix(f".{self.schema.names.index(column)}")

    @property
    def account(self) -> Path:
        """The file with the numbers of rows read and dropped, and their problems."""
        return self.texts.with_suffix(".json")


@dataclass
class Made:
    """A task's result: a segment, or why there is none; `rows` were read, `dropped` dropped."""

    segment: Segment | None = None
    rows: int = 0
    dropped: int = 0
    problems: Sequence[str] = ()
    disorder: bool = False
    filled: Filled = field(default_factory=Filled)
    conflicts: Conflicts = field(default_factory=Conflicts)


# --- in the process that holds the store
# -----------------------------------------------------------


def fill(
    txn: Transaction,
    relation: WritableRelation,
    dataset: Dataset,
    cluster: Cluster,
    folder: Path,
    progress: Callable[[str], None],
) -> Filled:
    """Fill an empty relation with the rows of a dataset, by a cluster's tasks, which write segments
    to a folder.

    Raises DatasetError as a load in this process does, and for files that are neither Parquet nor
    Arrow.
    """
    _refuse_formats(dataset)
    schema, spec = relation.schema, relation.info.spec
    with _emptied(folder) as inner:
        tasks = [
            Task(_part_of(dataset, parts), schema, str(inner), number)
            for number, parts in enumerate(_shared_out(dataset.parts, cluster.parallelism))
        ]
        if any(column.type.interned for column in schema.columns):
            progress(f"reading the texts of {counted(len(dataset.parts), 'file')}")
            _intern(txn, cluster, tasks)
        place = Place(
            str(inner),
            spec,
            relation.info.bag,
            txn.version,
            txn.pager.next_run(),
            txn.pages.page_words,
        )
        progress(f"building {counted(len(tasks), 'range')}")
        made = [] if relation.sorts_texts else cluster.each(partial(_build_in_order, place), tasks)
        filled = Filled()
        if not made or _out_of_order(made, spec.keys):
            filled.sorted = True
            progress("sorting rows into ranges, and building these")
            made = cluster.ranges(
                _words_noted, tasks, len(schema.columns), spec.keys, partial(_build, place)
            )
            made += [Made(None, *json.loads(task.account.read_text())) for task in tasks]
        _refuse(txn, relation, dataset, made)
        dataset.rows = sum(report.rows for report in made)
        dataset.dropped = sum(report.dropped for report in made)
        filled.collapsed = sum(report.filled.collapsed for report in made)
        progress(f"stitching {counted(len(made), 'range')}")
        filled.rows = sum(report.filled.rows for report in made)
        txn.stitch(relation.name, [report.segment for report in made if report.segment])
    return filled


def _refuse_formats(dataset: Dataset) -> None:
    for part in dataset.parts:
        if part.format not in (PARQUET, ARROW):
            raise DatasetError(
                f"{part.file} is {part.format}, whose types are guessed from all of it: "
                "make Parquet of it with `pagestore prepare`, or load it without --spark"
            )


@contextmanager
def _emptied(folder: Path) -> Iterator[Path]:
    """Make a new folder in one that is emptied before and deleted afterwards.

    The caller holds the store's write lock, so existing files are from a load that was killed.
    Tasks of that load may still run; they fail, since their folder is deleted.
    """
    shutil.rmtree(folder, ignore_errors=True)
    inner = folder.absolute() / uuid4().hex
    inner.mkdir(parents=True)
    try:
        yield inner
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _shared_out(parts: Sequence[Part], shares: int) -> list[list[Part]]:
    """Split files, in order, into at most `shares` groups of about equally many bytes."""
    sizes = np.array([max(1, part.file.stat().st_size) for part in parts])
    share = ((np.cumsum(sizes) - sizes / 2) * shares // sizes.sum()).astype(int)
    return [
        [part for part, its in zip(parts, share.tolist(), strict=True) if its == worker]
        for worker in np.unique(share)
    ]


def _part_of(dataset: Dataset, parts: list[Part]) -> Dataset:
    """Return the dataset of some of the files, with absolute paths, for a task in any folder."""
    parts = [part._replace(file=part.file.absolute()) for part in parts]
    return replace(dataset, parts=parts, notes=[], problems=Problems(), opened={})


def _intern(txn: Transaction, cluster: Cluster, tasks: list[Task]) -> None:
    """Assign ids to all tasks' texts, batch by batch, in the order a load would meet them."""
    cluster.each(_write_texts, tasks)
    for task in tasks:
        with pa.memory_map(str(task.texts)) as source:
            ids = [txn.dictionary.intern(batch.column(0)) for batch in pa.ipc.open_stream(source)]
        np.save(task.ids, np.concatenate([np.zeros(0, np.int64), *ids]))


def _out_of_order(made: Sequence[Made], keys: int) -> bool:
    """Return whether keys do not ascend, within a task or from one to the next."""
    segments = [part.segment for part in made if part.segment and part.segment.records]
    return any(part.disorder for part in made) or any(
        part.last >= other.entry[:keys] for part, other in pairwise(segments)
    )


def _refuse(
    txn: Transaction, relation: WritableRelation, dataset: Dataset, made: Sequence[Made]
) -> None:
    """Raise DatasetError with all problems that tasks found."""
    problems = dict.fromkeys(problem for part in made for problem in part.problems)
    if problems:
        raise DatasetError([*problems])
    conflicts = Conflicts()
    for part in made:
        conflicts.join(part.conflicts)
    conflicts.refuse(txn, relation, dataset.name)


# --- in tasks
# ----------------------------------------------------------------------------------------


def _write_texts(task: Task) -> None:
    """Write the distinct texts of each column and batch, in order of occurrence, and which row has
    which.

    Texts of the previous batch are not written again, since the store's process looks up every
    text.
    """
    columns = {column.name: column for column in task.schema.columns if column.type.interned}
    names = [*columns]
    # texts and their places
    known = dict.fromkeys(names, (pa.array([], pa.large_binary()), np.empty(0, np.int64)))
    dataset, met = task.dataset, 0
    if dataset.reading.nulls != DROP:  # else nulls in other columns decide which rows count
        dataset = replace(dataset, columns={name: dataset.columns[name] for name in names})
    with ExitStack() as made:
        out = made.enter_context(pa.OSFile(str(made.enter_context(_whole(task.texts))), "wb"))
        stream = made.enter_context(pa.ipc.new_stream(out, TEXT))
        codes = [
            made.enter_context(open(made.enter_context(_whole(task.codes(name))), "wb"))
            for name in names
        ]
        with suppress(DatasetError):  # the second pass reports the problems of all columns
            for batch in dataset.batches():
                for name, file in zip(names, codes, strict=True):
                    coded = _texts_of(columns[name], batch.column(name)).dictionary_encode()
                    texts, (before, places) = coded.dictionary.cast(pa.large_binary()), known[name]
                    ids = pc.index_in(texts, value_set=before).fill_null(-1).to_numpy()
                    new = ids < 0
                    places = np.where(new, met + np.cumsum(new) - 1, np.append(places, 0)[ids])
                    stream.write_batch(pa.record_batch([texts.filter(pa.array(new))], schema=TEXT))
                    places[coded.indices.to_numpy()].tofile(file)
                    known[name], met = (texts, places), met + int(new.sum())


def _texts_of(column: Column, values: pa.Array) -> pa.Array:
    """Return the texts by which the dictionary has a column's values, without nulls."""
    if column.type.wide:
        return interned_as(column.type, typed(column, values).drop_null())
    return values.drop_null()


@contextmanager
def _whole(file: Path) -> Iterator[Path]:
    """Yield a temporary name that replaces `file` at the end, so that two attempts of a task do
    not collide.
    """
    attempt = file.with_name(f"{file.name}.{uuid4().hex}")
    yield attempt
    attempt.replace(file)


class KnownTexts:
    """An interner that replays a column's ids in the order of the task's first pass."""

    def __init__(self, ids: np.ndarray, codes: Path) -> None:
        self._ids, self._codes, self._read = ids, codes, 0

    def intern(self, texts: pa.Array) -> np.ndarray:
        """Return the ids int64[n] of the next n texts."""
        codes = np.fromfile(self._codes, np.int64, len(texts), offset=self._read)
        self._read += codes.nbytes
        ids: np.ndarray = self._ids[codes]
        return ids


def _words_of(task: Task) -> Batches:
    """Yield the rows of a task's files as batches of words int64[C, n], the key columns first."""
    schema = task.schema
    interners: dict[str, Any] = dict.fromkeys(schema.names)
    for name in (column.name for column in schema.columns if column.type.interned):
        interners[name] = KnownTexts(np.load(task.ids), task.codes(name))
    for batch in task.dataset.batches():
        words = [
            narrowed(column, encode(column, batch.column(column.name), interners[column.name]))
            for column in schema.stored
        ]
        yield np.array(words).reshape(len(words), -1)


def _build_in_order(place: Place, task: Task) -> Made:
    """Build the segment of a task's files, if their keys ascend."""
    made = _build(place, _words_of(task))
    made.rows, made.dropped = task.dataset.rows, task.dataset.dropped
    return made


def _words_noted(task: Task) -> Batches:
    """Yield a task's rows as words, to be sorted; write their number and faults to `account`."""
    problems: tuple[str, ...] = ()
    try:
        yield from _words_of(task)
    except PagestoreError as error:
        problems = getattr(error, "problems", (str(error),))
    with _whole(task.account) as file:
        file.write_text(json.dumps([task.dataset.rows, task.dataset.dropped, problems]))


def _build(place: Place, batches: Batches) -> Made:
    """Build a segment of rows in order."""
    made = Made()
    # an attempt that failed may have left another
    file = Path(place.folder, f"{uuid4().hex}.segment")
    try:
        records = records_of(batches, place.spec, place.bag, made.filled, made.conflicts)
        made.segment = build_segment(
            file, place.spec, place.version, place.first, place.page_words, records
        )
    except Disorder:
        made.disorder = True
    except PagestoreError as error:
        made.problems = getattr(error, "problems", (str(error),))
    return made
