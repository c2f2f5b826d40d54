"""`pagestore load FILE RELATION SOURCE...`: files become rows of a relation, a new one or one that is there.

    (nothing)    make the relation, which must not be there                            --key x,y
    --append     add rows; a key that is there with other values is an error
    --upsert     add rows; where the key is there, put their values in place of the old ones
    --replace    let the relation have these rows and no others
    --delete     take away the rows with these keys, or keys that begin so, or these whole rows

Views that read the relation follow in the same commit. All of a load is done, or nothing.
"""

import argparse
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

import pagestore
from pagestore.relations.transaction import Transaction
from pagestore.relations.writable import WritableRelation
from pagestore.values.codec import encode
from pagestore.values.dictionary import TextFinder
from pagestore.values.types import Column, Schema, Type, type_of_arrow

from ..cli.ahead import made_ahead
from ..cli.answers import answer, common, complain, counted
from ..cli.progress import Progress, pace
from .dataset import KEEP, NULLS, Dataset, Reading, open_dataset
from .edit import Edited, append, are_repeated, delete, delete_below, delete_prefixes, upsert
from .elements import Elements, lists_of
from .files import FORMATS, PARQUET
from .fill import fill
from .manifest import verified
from .problems import DatasetError

MEMORY = 256 << 20  # bytes that a sort may hold before it writes to temporary files
SOURCES_NAMED = 3  # in the message of a version
CREATE, APPEND, UPSERT, REPLACE, DELETE = "create", "append", "upsert", "replace", "delete"
Tell = Callable[[str], None]


@dataclass
class Report:
    """The result of a load: the rows that filled the relation, or that edited it, and what became of them.

    `dropped` are rows with nulls, `collapsed` identical ones that filled the relation once. `sorted` says whether they
    had to be sorted first. `views` are the relations that other programs keep and that followed, `lists` those of the
    elements of lists and maps, with the number of elements loaded.
    """

    relation: str
    mode: str
    files: int
    rows: int = 0
    inserted: int = 0
    changed: int = 0
    deleted: int = 0
    dropped: int = 0
    collapsed: int = 0
    sorted: bool = False
    seconds: float = 0.0
    notes: Sequence[str] = ()
    views: Sequence[str] = field(default=())
    lists: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        rate = f"{counted(self.rows, 'row')} from {counted(self.files, 'file')} in {self.seconds:.1f} s"
        more = [f"{self.inserted:,} new"] * (self.mode in (APPEND, UPSERT))
        more += [f"{self.changed:,} changed"] * (self.mode == UPSERT)
        more += [f"{self.deleted:,} deleted"] * (self.mode in (DELETE, REPLACE))
        more += ["sorted first"] * self.sorted
        more += [f"{self.dropped:,} with nulls dropped"] * bool(self.dropped)
        more += [f"{counted(self.collapsed, 'duplicate')} collapsed"] * bool(self.collapsed)
        more += [f"{counted(rows, 'element')} of {name}" for name, rows in self.lists.items()]
        views = f"; {', '.join(self.views)} followed" if self.views else ""
        return f"{self.relation}: {', '.join([rate, *more])}{views}"


def load(
    txn: Transaction,
    relation: str,
    sources: str | Path | Sequence[str | Path],
    key: Sequence[str] = (),
    mode: str = CREATE,
    reading: Reading | None = None,
    memory: int = MEMORY,
    progress: Tell = lambda text: None,
) -> Report:
    """Load the rows of files into a relation; `mode` is one of create, append, upsert, replace and delete.

    The relation is made with this key where it is not there, which `delete` refuses, and where it is the key may be
    left out, as where the source is a folder with a manifest (manifest.py), which is verified first. Raises
    DatasetError with all that is wrong with the files, their columns and their values, ExistsError for a relation that
    `create` finds there.
    """
    began = time.perf_counter()
    there = relation in txn
    _refuse_mode(txn, relation, mode)
    wanted = txn[relation].schema.arrow if there else None
    sources, reading = [sources] if isinstance(sources, str | Path) else list(sources), reading or Reading()
    manifest = verified(sources, progress)
    if manifest and not there:
        key, reading = tuple(key) or manifest.key, manifest.applied(reading)
    dataset = open_dataset(sources, reading, wanted)
    key = tuple(key) or (txn[relation].schema.key if there else ())
    _check_columns(dataset, txn[relation] if there else None, key, mode)
    dataset.required = _required(relation, txn[relation].schema if there else None, key)
    lists = _lists(txn, dataset, relation, key, mode) if not dataset.problems else {}
    if dataset.problems:
        for _ in dataset.batches():  # which tells what is wrong with the values of other columns, too
            pass
    held = txn[relation] if there else txn.create(relation, _schema(dataset, key, progress))
    report = Report(relation, mode, len(dataset.parts), notes=dataset.notes, views=_following(txn, relation))
    edited = _Loading(txn, held, dataset, report, progress).run(mode if there else CREATE, memory, bool(lists))
    for name, elements in lists.items():
        _load_elements(txn, name, elements, edited, report, memory, progress)
    report.dropped += dataset.dropped
    report.seconds = time.perf_counter() - began
    return report


@dataclass
class _Loading:
    """One load: the dataset as words for the relation."""

    txn: Transaction
    relation: WritableRelation
    dataset: Dataset | Elements
    report: Report
    progress: Tell

    def run(self, mode: str, memory: int, keep_keys: bool = False) -> Edited:
        """Carry out the mode; `keep_keys` asks for those that were changed or deleted."""
        report, txn, relation = self.report, self.txn, self.relation
        if mode in (CREATE, REPLACE):
            before = len(relation)
            txn.truncate(relation.name)
            filled = fill(txn, relation, self.words, memory, self.dataset.name, self._storing)
            report.rows, report.inserted, report.deleted = filled.rows, filled.rows, before
            report.collapsed, report.sorted = filled.collapsed, filled.sorted
            return Edited()
        if mode == APPEND:
            edited = append(txn, relation, self.words(), self.dataset.name)
        elif mode == UPSERT:
            edited = upsert(txn, relation, self.words(), keep_keys)
        elif _is_prefix(self.dataset.columns, relation):
            edited = delete_prefixes(txn, relation, self._prefixes())
        else:
            edited = delete(txn, relation, self.words(), keep_keys)
        report.rows = self.dataset.rows - self.dataset.dropped
        report.inserted, report.changed, report.deleted = edited.inserted, edited.changed, edited.deleted
        return edited

    def words(self) -> Iterator[np.ndarray]:
        """All rows in file order, as batches of words int64[C, n], the key columns first; only these of keys."""
        began, adding = time.perf_counter(), self.report.mode != DELETE
        for batch in made_ahead(self.dataset.batches()):
            yield self.relation.encode(batch, keys_allowed=not adding, add=adding)
            self.progress(f"{pace(self.dataset.rows, self.dataset.share, time.perf_counter() - began)} read")

    def _prefixes(self) -> Iterator[np.ndarray]:
        """The first columns of keys, as batches of words int64[K, n]."""
        columns, finder = self.relation.schema.stored[: len(self.dataset.columns)], TextFinder(self.txn.dictionary)
        for batch in self.dataset.batches():
            yield np.array([encode(column, batch.column(column.name), finder) for column in columns])

    def _storing(self, rows: int) -> None:
        self.progress(f"{rows:,} of {self.dataset.rows:,} rows sorted and stored")


def _lists(
    txn: Transaction, dataset: Dataset, relation: str, key: Sequence[str], mode: str
) -> dict[str, Elements | None]:
    """The relations of lists and maps beside the relation, with the elements that are loaded into them.

    What is there has None where only keys are given to delete. Adds to the dataset's problems.
    """
    there = lists_of(txn, relation)
    found: dict[str, Elements | None] = dict.fromkeys(there if mode == DELETE else ())
    for column, kind in dataset.nested.items():
        name, elements = f"{relation}:{column}", Elements(dataset, column, kind, key)
        bad = [field for field, held in elements.columns.items() if held is None]
        if bad:
            dataset.problems.add(f"{elements.name}: {bad[0]} is of a type that a relation cannot hold ({kind})",
                                 "leave it out with --columns, or write it as another type")  # fmt: skip
        elif relation in txn and name not in there:
            dataset.problems.add(f"{elements.name}: {relation!r} has no lists {column}", "leave it out with --columns")
        elif mode != DELETE:
            found[name] = elements
    for name in there if mode != DELETE else ():
        if name not in found:
            dataset.problems.add(f"{dataset.name}: no column {name.removeprefix(f'{relation}:')} for the lists {name}",
                                 "their elements would belong to no row, or to another")  # fmt: skip
    return found


def _load_elements(
    txn: Transaction, name: str, elements: Elements | None, edited: Edited, report: Report, memory: int, progress: Tell
) -> None:
    """Load the elements of lists into their relation, in place of those of the rows that were changed or are gone."""
    mode = report.mode
    if mode == APPEND and report.inserted < report.rows:
        there = counted(report.rows - report.inserted, "row")
        raise DatasetError(f"{name}: {there} with a key that is there already, or comes twice: "
                           "with their lists they are put in place of others by --upsert")  # fmt: skip
    if name not in txn and elements:
        txn.create(name, elements.schema)
    relation = txn[name]
    if mode == UPSERT and are_repeated(edited.keys):
        raise DatasetError(f"{name}: a key comes twice, with two lists: keep one of them")
    for keys in edited.keys:
        delete_below(txn, relation, keys)
    if elements:
        elements.required |= {*_required(name, relation.schema, elements.keys)}
        one = Report(name, APPEND if mode == UPSERT else mode, report.files)
        _Loading(txn, relation, elements, one, progress).run(one.mode, memory)
        report.lists[name] = one.rows
        report.dropped += elements.left_out


def _schema(dataset: Dataset, key: Sequence[str], progress: Tell) -> Schema:
    """The columns of a new relation; those of values may be null that lack some, if nulls are kept."""
    lacking, casts = set[str](), dataset.reading.casts
    if dataset.reading.nulls == KEEP:
        if any(part.format != PARQUET for part in dataset.parts):  # whose footers tell
            progress("looking for nulls")
        lacking = dataset.lacking() - {*key}
    columns = []
    for name, kind in dataset.columns.items():
        nullable = name in lacking or (name in casts and casts[name].nullable)
        columns.append(Column(name, type_of_arrow(name, kind)._replace(nullable=nullable)))
    return Schema.parse(Schema(tuple(columns), tuple(key)), key)


def _required(name: str, there: Schema | None, key: Sequence[str]) -> dict[str, str]:
    """The columns of a relation `name` that are never null, each with the reason."""
    columns = there.columns if there else ()
    reasons = {c.name: f"{name!r} keeps no nulls there ({c.name}: {c.type})" for c in columns if not c.type.nullable}
    return {**reasons, **dict.fromkeys(key, "a key is never null")}


def _refuse_mode(txn: Transaction, relation: str, mode: str) -> None:
    """Raise ExistsError or DatasetError where the mode cannot be carried out on the relation."""
    if relation in txn and mode == CREATE:
        raise pagestore.errors.ExistsError(
            f"there is a relation {relation!r} already: add to it with --append or --upsert, put these rows in place "
            "of its own with --replace, or drop it first"
        )
    if relation not in txn and mode == DELETE:
        raise DatasetError(f"there is no relation {relation!r} to delete from; there is {', '.join(txn) or 'none'}")
    for one in txn.base.catalog.dependants.values():
        if relation in one.keeps:
            reads = ", ".join(name for name in one.reads if "$" not in name)
            raise DatasetError(
                f"{relation!r} is a view, which {one.host} keeps as it follows from {reads}: load these, and it follows"
            )


def _following(txn: Transaction, relation: str) -> tuple[str, ...]:
    """What other programs keep of the relation, without hidden trees."""
    dependants = txn.base.catalog.dependants.values()
    return tuple(name for one in dependants if relation in one.reads for name in one.keeps if "$" not in name)


def _check_columns(dataset: Dataset, relation: WritableRelation | None, key: Sequence[str], mode: str) -> None:
    """Add to the dataset's problems where its columns are not the relation's; its key must be among them."""
    problems, names = dataset.problems, ", ".join(dataset.columns)
    if relation is None:
        if not dataset.columns and problems:
            return
        if not key:
            raise DatasetError(f"{dataset.name}: the relation needs a key: name at least one of {names} with --key")
        for name in key:
            if name not in dataset.columns and name not in dataset.refused:
                problems.add(f"{dataset.name}: no column {name} for the key; there are {names}", "")
        return
    schema = relation.schema
    if tuple(key) != schema.key:
        raise DatasetError(
            f"the key of {relation.name!r} is {','.join(schema.key)}, not {','.join(key)}: leave --key out"
        )
    needed = schema.names
    if mode == DELETE and set(dataset.columns) <= set(schema.key):
        needed = tuple(dataset.columns) if _is_prefix(dataset.columns, relation) else schema.key
    for name in (name for name in needed if name not in dataset.columns and name not in dataset.refused):
        remedy = "rename one with --rename OLD=NEW" + ", or name the key's first columns only" * (mode == DELETE)
        problems.add(f"{dataset.name}: no column {name}, which {relation.name!r} has; there are {names}", remedy)
    for name in (name for name in dataset.columns if name not in schema.names):
        kept = ",".join(n for n in dataset.columns if n in schema.names)
        remedy = f"leave it out with --columns {kept}"
        problems.add(f"{dataset.name}: a column {name}, which {relation.name!r} has not ({schema})", remedy)


def _is_prefix(columns: Collection[str], relation: WritableRelation) -> bool:
    """Whether columns are the first ones of a relation's key, and not all of it."""
    key = relation.schema.key
    return 0 < len(columns) < len(key) and set(columns) == set(key[: len(columns)])


# --- the command --------------------------------------------------------------------------------


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
    parser.add_argument("--utc", action="store_true", help="store timestamps with a time zone in UTC, without the zone")


def names(text: str) -> list[str]:
    """Names that are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def pair(text: str) -> tuple[str, str]:
    """Two names with a sign of equality between them.  Raises argparse.ArgumentTypeError."""
    one, sign, other = (part.strip() for part in text.partition("="))
    if not (one and sign and other):
        raise argparse.ArgumentTypeError(f"{text}: it is written {'OLD=NEW'}")
    return one, other


def filling(text: str) -> tuple[str, str]:
    """A column and a value, which may be empty.  Raises argparse.ArgumentTypeError."""
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text}: say which value a column gets, as in {text}=0")
    return name.strip(), value


def cast(text: str) -> tuple[str, Type]:
    """A column and a type.  Raises argparse.ArgumentTypeError."""
    name, _, kind = text.partition("=")
    try:
        return name.strip(), Type.parse(kind)
    except pagestore.errors.SchemaError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None


def _few(sources: Sequence[str]) -> str:
    """The first sources, for the version's message."""
    more = f" and {len(sources) - SOURCES_NAMED} more" if len(sources) > SOURCES_NAMED else ""
    return ", ".join(sources[:SOURCES_NAMED]) + more


def run(options: argparse.Namespace) -> int:
    """Load, and print the report; the exit code."""
    file = Path(options.file)
    reading = Reading(
        options.columns, dict(options.rename), dict(options.cast), options.nulls, options.utc, options.format,
        dict(options.fill),
    )  # fmt: skip
    there = file.exists()
    with pagestore.open(file) as store:
        try:
            with (
                store.transaction(message=f"load {options.relation}: {_few(options.sources)}") as txn,
                Progress(f"load {options.relation}", options.quiet) as progress,
            ):
                report = load(
                    txn, options.relation, options.sources, options.key, options.mode, reading, progress=progress
                )
                progress(f"committing{'; views follow' if report.views else ''}")
                txn.commit()
        finally:
            if (
                not there and not store.version
            ):  # the load failed; the lock is still held, so no other process has written
                file.unlink()
    for note in () if options.quiet else report.notes:
        complain(f"note: {note}")
    answer(options, asdict(report), str(report))
    return 0
