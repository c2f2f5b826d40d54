"""Load the rows of files into a new or an existing relation, in one of five modes.

    create       make the relation, which must not exist
    append       insert rows; a key that exists with other values is an error
    upsert       insert rows; replace the values of keys that exist
    replace      replace all rows of the relation by these
    delete       delete the rows with these values: of the key, of its first columns, of any others, or of all

Views that read the relation are maintained in the same commit. A load is atomic.
"""

import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import pagestore
from pagestore.errors import WordError
from pagestore.host import (
    Column,
    Schema,
    TextFinder,
    Transaction,
    WritableRelation,
    encode,
    narrowed,
)
from pagestore.tooling import type_of_arrow

from ..cli.answers import KEPT, counted, owner
from ..cli.progress import made_ahead, pace
from . import distributed
from .agreement import open_dataset
from .casts import DatasetError
from .dataset import KEEP, Dataset, Reading
from .edit import (
    NO_KEY,
    Edited,
    append,
    are_repeated,
    count_returned,
    delete,
    delete_below,
    delete_matching,
    delete_prefixes,
    upsert,
)
from .elements import Elements, list_types, lists_of
from .files import PARQUET
from .fill import CONFLICTS_SHOWN, Doubles, Filled, RepeatedKeys, fill
from .manifest import verified
from .opened import Contradicted

MEMORY = 256 << 20  # bytes that a sort may hold before it writes temporary files
CREATE, APPEND, UPSERT, REPLACE, DELETE = "create", "append", "upsert", "replace", "delete"
COLUMNS_NAMED = 12  # in a message
Tell = Callable[[str], None]


class Spread(NamedTuple):
    """A cluster whose tasks build a relation, and the shared folder for what they build."""

    cluster: distributed.Cluster
    folder: Path


@dataclass(kw_only=True)
class Counts:
    """How many rows were read for a relation, and how many inserted, changed and deleted in it."""

    rows: int = 0
    inserted: int = 0
    changed: int = 0
    deleted: int = 0

    def told(self, mode: str) -> list[str]:
        """Return the counts as phrases for messages."""
        return [
            *[f"{self.inserted:,} new"] * (mode in (APPEND, UPSERT)),
            *[f"{self.changed:,} changed"] * (mode == UPSERT),
            *[f"{self.deleted:,} deleted"] * (mode in (DELETE, REPLACE) or self.deleted > 0),
        ]


@dataclass
class Report(Counts):
    """The result of a load: the rows that filled or edited the relation, and their effect.

    `dropped` counts rows with nulls, `bad` those put aside, `collapsed` duplicates that were stored
    once. `sorted` says whether rows had to be sorted first. `views` are the relations of other
    programs that were maintained, `lists` those of the elements of lists and maps.
    """

    relation: str
    mode: str
    files: int
    dropped: int = 0
    bad: int = 0
    collapsed: int = 0
    sorted: bool = False
    seconds: float = 0.0
    notes: Sequence[str] = ()
    views: Sequence[str] = field(default=())
    lists: dict[str, Counts] = field(default_factory=dict)

    def __str__(self) -> str:
        rate = f"{counted(self.rows, 'row')} from {counted(self.files, 'file')} in {self.seconds:.1f} s"
        more = self.told(self.mode)
        more += ["sorted first"] * self.sorted
        more += [f"{self.dropped:,} with nulls dropped"] * bool(self.dropped)
        more += [f"{counted(self.bad, 'bad row')} put aside"] * bool(self.bad)
        more += [f"{counted(self.collapsed, 'duplicate')} collapsed"] * bool(self.collapsed)
        views = f"; {', '.join(self.views)} followed" if self.views else ""
        lists = [
            f"{name}: {', '.join([*[counted(part.rows, 'element')] * (self.mode != DELETE), *part.told(self.mode)])}"
            for name, part in self.lists.items()
        ]
        return "\n".join([f"{self.relation}: {', '.join([rate, *more])}{views}", *lists])


def load(
    txn: Transaction,
    relation: str,
    sources: str | Path | Sequence[str | Path],
    key: Sequence[str] = (),
    mode: str = CREATE,
    reading: Reading | None = None,
    memory: int = MEMORY,
    progress: Tell = lambda text: None,
    spread: Spread | None = None,
) -> Report:
    """Load the rows of files into a relation; `mode` is one of create, append, upsert, replace and
    delete.

    A missing relation is made with this key (but `delete` refuses it). The key may be omitted if
    the relation exists, or if the source is a folder with a manifest (manifest.py), which is
    verified first. With `spread` the tasks of a cluster build the relation (distributed.py). Raises
    DatasetError with all problems of the files, their columns and values, ExistsError if `create`
    finds the relation.
    """
    began = time.perf_counter()
    _refuse_mode(txn, relation, mode)
    sources = [sources] if isinstance(sources, str | Path) else list(sources)
    reading, report = (reading or Reading())._replace(thorough=bool(spread)), None
    while report is None:
        opened = _opened(txn, relation, sources, key, mode, reading, progress)
        supposing = opened.dataset.untyped and not reading.thorough
        try:
            with txn.savepoint() if supposing or reading.aside else nullcontext():
                report = _loaded(txn, opened, memory, progress, spread)
        except (Contradicted, WordError):
            if not supposing:
                raise
            progress("reading again, for types that fit all rows")
            reading = reading._replace(thorough=True, doubles=None)
        except RepeatedKeys as error:
            if not reading.aside or reading.doubles or error.relation != relation:
                raise
            progress("reading again, to put rows of double keys aside")
            reading = reading._replace(doubles=_doubles(txn, opened, error))
    report.seconds = time.perf_counter() - began
    return report


def _doubles(txn: Transaction, opened: "_Opened", error: RepeatedKeys) -> Doubles:
    """Return the keys of several values; those that an appended relation has keep these."""
    if opened.mode != APPEND or opened.relation not in txn:
        return Doubles(opened.key, error.keys, ())
    held = txn[opened.relation]
    names, kept = [column.name for column in held.schema.stored], []
    for key in error.keys:
        if (values := held.get(key, held)) is not held:
            kept.append(
                dict(
                    zip(
                        names,
                        (*key, *(values if isinstance(values, tuple) else (values,))),
                        strict=True,
                    )
                )
            )
    return Doubles(opened.key, error.keys, kept)


class _Opened(NamedTuple):
    """The input of a load, whose columns have been compared with the relation's."""

    relation: str
    mode: str
    key: tuple[str, ...]
    dataset: Dataset
    lists: dict[str, Elements | None]


def _opened(
    txn: Transaction,
    relation: str,
    sources: Sequence[str | Path],
    key: Sequence[str],
    mode: str,
    reading: Reading,
    progress: Tell,
) -> _Opened:
    """Open the files; add problems of their columns to the dataset's."""
    held = txn[relation] if relation in txn else None  # noqa: SIM401 - it has no get
    schema = held.schema if held is not None else None
    manifest = verified(sources, progress)
    if manifest and not schema:
        key, reading = tuple(key) or manifest.key, manifest.applied(reading)
    dataset = open_dataset(
        sources, reading, schema.arrow if schema else None, list_types(txn, relation)
    )
    key = tuple(key) or (schema.key if schema else ())
    _check_columns(dataset, held, key, mode)
    dataset.required = _required(relation, schema, key)
    dataset.narrow = {c.name: c.narrow for c in schema.columns if c.narrow} if schema else {}
    lists = _lists(txn, dataset, relation, key, mode) if not dataset.problems else {}
    if mode != DELETE:
        dataset.checked.update({list_.column: list_.check for list_ in lists.values() if list_})
    return _Opened(relation, mode, key, dataset, lists)


def _loaded(
    txn: Transaction, opened: _Opened, memory: int, progress: Tell, spread: Spread | None
) -> Report:
    """Load what was opened."""
    name, mode, key, dataset, lists = opened
    if dataset.problems:
        for _ in dataset.batches():  # also reports the problems of values in other columns
            pass
    there = name in txn
    unsigned = any(kind == pa.uint64() for kind in dataset.columns.values())
    # a nullable uint64 has other words
    if not there and unsigned and dataset.untyped and not dataset.reading.thorough:
        raise Contradicted(f"{dataset.name} has columns of uint64")
    held = txn[name] if there else txn.create(name, _schema(dataset, key, progress))
    report = Report(
        name, mode, len(dataset.parts), notes=dataset.notes, views=_following(txn, name)
    )
    edited = _Loading(txn, held, dataset, report, progress, spread).run(
        mode, memory, bool(lists), not there
    )
    for beside, elements in lists.items():
        _load_elements(txn, beside, elements, edited, report, memory, progress)
    # all columns were made nullable
    if not there and dataset.untyped and not dataset.reading.thorough:
        casts = dataset.reading.casts
        requested = {column for column, kind in casts.items() if kind.nullable}
        nullable = {column.name for column in held.schema.columns if column.type.nullable}
        txn.refuse_nulls(name, sorted(nullable - dataset.nulls_in - requested))
    report.dropped += dataset.dropped
    report.bad = dataset.reading.aside.rows if dataset.reading.aside else 0
    return report


@dataclass
class _Loading:
    """One load of a dataset, encoded as words, into a relation."""

    txn: Transaction
    relation: WritableRelation
    dataset: Dataset | Elements
    report: Report
    progress: Tell
    spread: Spread | None = None

    def run(self, mode: str, memory: int, keep_keys: bool = False, new: bool = False) -> Edited:
        """Carry out the mode; with `keep_keys`, return the keys that were changed or deleted.

        A `new` relation is filled bottom-up, which is faster, unless `upsert` finds repeated keys.
        """
        report, txn, relation = self.report, self.txn, self.relation
        if new and mode == UPSERT:
            try:
                with txn.savepoint():
                    return self.run(CREATE, memory)
            except RepeatedKeys:
                self.progress("reading again, since keys are repeated")
        elif new or mode in (CREATE, REPLACE):
            before = len(relation)
            txn.truncate(relation.name)
            filled = self._fill(memory)
            report.rows, report.inserted, report.deleted = filled.rows, filled.rows, before
            report.collapsed, report.sorted = filled.collapsed, filled.sorted
            return Edited()
        if mode == APPEND:
            edited = append(txn, relation, self.words(), self.dataset.name, most=self._most)
        elif mode == UPSERT:
            edited = upsert(txn, relation, self.words(), keep_keys)
        else:
            edited = self._delete(keep_keys)
        report.rows = self.dataset.given
        report.inserted, report.changed = edited.inserted, edited.changed
        report.deleted = edited.deleted
        return edited

    def words(self) -> Generator[np.ndarray, None, None]:
        """Yield all rows in order as batches of words int64[C, n], key columns first; for
        `delete` maybe only these.
        """
        began, adding = time.perf_counter(), self.report.mode != DELETE
        # else it may still read when another pass begins
        with closing(made_ahead(self.dataset.batches())) as batches:
            for batch in batches:
                yield self.relation.encode(batch, keys_allowed=not adding, add=adding)
                self.progress(
                    f"{pace(self.dataset.rows, self.dataset.share, time.perf_counter() - began)} "
                    f"read"
                )

    def _fill(self, memory: int) -> Filled:
        """Fill the relation, in this process or by the tasks of a cluster."""
        if self.spread and isinstance(self.dataset, Dataset):
            return distributed.fill(
                self.txn, self.relation, self.dataset, *self.spread, self.progress
            )
        return fill(
            self.txn,
            self.relation,
            self.words,
            memory,
            self.dataset.name,
            self._storing,
            most=self._most,
        )

    @property
    def _most(self) -> int:
        """How many keys with several values an error must have: all, if rows go aside."""
        if isinstance(self.dataset, Dataset) and self.dataset.reading.aside:
            return sys.maxsize
        return CONFLICTS_SHOWN

    def _delete(self, keep_keys: bool) -> Edited:
        """Delete the rows with the columns' values; by key, if the columns are a prefix of it."""
        schema, given = self.relation.schema, {*self.dataset.columns}
        if given in ({*schema.key}, {*schema.names}):
            return delete(self.txn, self.relation, self.words(), keep_keys)
        places = [place for place, column in enumerate(schema.stored) if column.name in given]
        if given == {*schema.key[: len(given)]}:
            return delete_prefixes(self.txn, self.relation, self._columns(places))
        return delete_matching(self.txn, self.relation, places, self._columns(places))

    def _columns(self, places: Sequence[int]) -> Iterator[np.ndarray]:
        """Yield some columns, as batches of words int64[K, n]."""
        columns = [self.relation.schema.stored[i] for i in places]
        finder = TextFinder(self.txn.dictionary)
        for batch in self.dataset.batches():
            yield np.array(
                [
                    narrowed(column, encode(column, batch.column(column.name), finder), 0, False)
                    for column in columns
                ]
            )

    def _storing(self, rows: int) -> None:
        self.progress(f"{rows:,} of {self.dataset.rows:,} rows sorted and stored")


def _lists(
    txn: Transaction, dataset: Dataset, relation: str, key: Sequence[str], mode: str
) -> dict[str, Elements | None]:
    """Return the relations of the relation's lists and maps, with the elements to load into them.

    For `delete`, the elements of existing relations are None. Adds to the dataset's problems.
    """
    there = lists_of(txn, relation)
    lists: dict[str, Elements | None] = dict.fromkeys(there if mode == DELETE else ())
    for column, kind in dataset.nested.items():
        name, elements = f"{relation}:{column}", Elements(dataset, column, kind, key)
        if name in there:
            elements.held = txn[name].schema.arrow
            elements.required |= {*_required(name, txn[name].schema, elements.keys)}
        known = elements.names_of_casts.values()
        for cast in dataset.reading.casts:
            if cast.startswith(f"{column}:") and cast not in {*known, *dataset.columns}:
                dataset.problems.add(
                    f"{elements.name}: no {cast} to cast; there is {', '.join(known)}",
                    "mend --cast",
                )
        bad = [field for field, held in elements.columns.items() if held is None]
        if bad and pa.types.is_null(elements.kind.field(0).type):
            dataset.problems.add(
                f"{elements.name}: all its lists are empty, so nothing says what is in them",
                f"say it with --cast {column}:value=TYPE, or leave it out with --columns",
            )
            continue
        if bad:
            dataset.problems.add(
                f"{elements.name}: {bad[0]} is of a type that a relation cannot hold ({kind})",
                "leave it out with --columns, or write it as another type",
            )
        elif relation in txn and name not in there:
            dataset.problems.add(
                f"{elements.name}: {relation!r} has no lists {column}",
                "leave it out with --columns",
            )
        elif mode != DELETE:
            lists[name] = elements
    for name in there if mode != DELETE else ():
        if name not in lists:
            dataset.problems.add(
                f"{dataset.name}: no column {name.removeprefix(f'{relation}:')} for the lists "
                f"{name}",
                "their elements would belong to no row, or to another",
            )
    return lists


def _load_elements(
    txn: Transaction,
    name: str,
    elements: Elements | None,
    edited: Edited,
    report: Report,
    memory: int,
    progress: Tell,
) -> None:
    """Load the elements of lists into their relation, in place of those of rows that changed."""
    mode = report.mode
    if mode == APPEND and report.inserted < report.rows:
        there = counted(report.rows - report.inserted, "row")
        raise DatasetError(
            f"{name}: {there} with a key that already exists, or comes twice: "
            "with their lists they are put in place of others by --upsert"
        )
    if name not in txn and elements:
        txn.create(name, elements.schema)
    relation = txn[name]
    if mode == UPSERT and are_repeated(edited.keys):
        raise DatasetError(f"{name}: a key comes twice, with two lists: keep one of them")
    gone = [rows for keys in edited.keys for rows in delete_below(txn, relation, keys)]
    list_report = Report(name, APPEND if mode == UPSERT else mode, report.files)
    if elements:
        elements.required |= {*_required(name, relation.schema, elements.keys)}
        _Loading(txn, relation, elements, list_report, progress).run(list_report.mode, memory)
        report.dropped += elements.left_out
    every, again, other = count_returned(txn, relation, gone)
    deleted = list_report.deleted + every - again
    report.lists[name] = Counts(
        rows=list_report.rows, inserted=list_report.inserted - again, changed=other, deleted=deleted
    )


def _schema(dataset: Dataset, key: Sequence[str], progress: Tell) -> Schema:
    """Return the schema of a new relation; value columns are nullable if nulls stay."""
    lacking, casts = set[str](), dataset.reading.casts
    if dataset.reading.nulls == KEEP:
        # whose footers say it
        if dataset.reading.thorough and any(part.format != PARQUET for part in dataset.parts):
            progress("looking for nulls")
        lacking = dataset.lacking() - {*key}
    columns = []
    for name, kind in dataset.columns.items():
        nullable = name in lacking or (name in casts and casts[name].nullable)
        columns.append(Column(name, type_of_arrow(name, kind)._replace(nullable=nullable)))
    return Schema.parse(Schema(tuple(columns), tuple(key)), key)


def _required(name: str, there: Schema | None, key: Sequence[str]) -> dict[str, str]:
    """Return the columns of a relation `name` that are never null, each with the reason."""
    columns = there.columns if there else ()
    kept = [column for column in columns if not column.type.nullable]
    unless = "unless it is dropped and loaded anew"
    reasons = {c.name: f"{name!r} keeps no nulls there ({c.name}: {c.type}) {unless}" for c in kept}
    nullable = {column.name for column in columns} - {*reasons}  # keys of bags
    return {
        **reasons,
        **dict.fromkeys((one for one in key if one not in nullable), "a key is never null"),
    }


def _refuse_mode(txn: Transaction, relation: str, mode: str) -> None:
    """Raise ExistsError or DatasetError if the mode cannot be applied to the relation."""
    if relation in txn and mode == CREATE:
        raise pagestore.errors.ExistsError(
            f"there is a relation {relation!r} already: add to it with --append or --upsert, put "
            "these rows in place of its own with --replace, or drop it first"
        )
    if relation in txn and mode == UPSERT and txn[relation].info.bag:
        raise DatasetError(
            f"{relation!r} {NO_KEY}: add rows with --append, or replace all with --replace"
        )
    if relation not in txn and mode == DELETE:
        raise DatasetError(
            f"there is no relation {relation!r} to delete from; there is {', '.join(txn) or 'none'}"
        )
    for derived in txn.base.catalog.dependants.values():
        if relation in derived.keeps:
            reads = ", ".join(name for name in derived.reads if "$" not in name)
            raise DatasetError(
                f"{relation!r} is a view, which {derived.host} keeps as it follows from {reads}: load "
                f"these, and it follows"
            )


def _following(txn: Transaction, relation: str) -> tuple[str, ...]:
    """Return the relations that other programs maintain from this one, without their helpers."""
    following = [
        derived.keeps
        for derived in txn.base.catalog.dependants.values()
        if relation in derived.reads
    ]
    owners = dict.fromkeys(owner(name, names) for names in following for name in names)
    return tuple(name for name in owners if name != KEPT)


def _check_columns(
    dataset: Dataset, relation: WritableRelation | None, key: Sequence[str], mode: str
) -> None:
    """Add a problem for each column that differs from the relation's; the key must be there."""
    problems, names = dataset.problems, ", ".join(dataset.columns)
    if not dataset.columns and problems:  # no file could be read
        return
    if relation is None:
        if not dataset.columns:
            raise DatasetError(
                f"{dataset.name} has no rows, which would say what columns there are: load it into "
                "a relation that exists, or a file that has some"
            )
        if not key:
            raise DatasetError(
                f"{dataset.name}: the relation needs a key: name at least one of {names} with --key"
            )
        for name in key:
            if name not in dataset.columns and name not in dataset.refused:
                problems.add(f"{dataset.name}: no column {name} for the key; there are {names}", "")
        return
    schema = relation.schema
    if tuple(key) != schema.key:
        raise DatasetError(
            f"the key of {relation.name!r} is {','.join(schema.key)}, not {','.join(key)}: leave "
            f"--key out"
        )
    extra = [name for name in dataset.columns if name not in schema.names]
    missing = [
        name for name in schema.names if name not in dataset.columns and name not in dataset.refused
    ]
    for name in missing if mode != DELETE else ():  # which uses only the given columns
        near = get_close_matches(name, extra, 1)
        remedy = f"rename one with --rename {near[0] if near else 'OLD'}={name}"
        problems.add(
            f"{dataset.name}: no column {name}, which {relation.name!r} has; there are {names}",
            remedy,
        )
    for name in extra:
        near = get_close_matches(name, missing or schema.names, 1)
        kept = ",".join(n for n in dataset.columns if n in schema.names)
        remedy = (
            f"leave it out with --columns {kept}" if kept else f"rename it with --rename {name}=NEW"
        )
        remedy = (
            f"if that is {near[0]}, rename it with --rename {name}={near[0]}, else {remedy}"
            if near
            else remedy
        )
        problems.add(
            f"{dataset.name}: a column {name}, which {relation.name!r} has not; {_has(schema)}",
            remedy,
        )


def _has(schema: Schema) -> str:
    """Return the relation's columns, for messages."""
    more = len(schema.names) - COLUMNS_NAMED
    return f"it has {', '.join(schema.names[:COLUMNS_NAMED])}" + f" and {more} more" * (more > 0)
