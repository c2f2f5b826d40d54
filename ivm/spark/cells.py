"""Cells: a program evaluated and maintained over HyperCube shards on several machines, with a store
for each shard.

    from ivm.spark import Cells

    with Cells.create("/shared/graph", rules, cells=8, spark=spark, tables={"edge": frame}) as
    cells:
        cells.apply(1, {"edge": changes})              each batch exactly once, despite failures and retries
        cells.read("tri")                              the view as a DataFrame

Without `spark` the cells run one after the other in this process.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from ivm.answer import Answer
from ivm.errors import OptionError, UnknownViewError
from ivm.lang.hints import hints
from ivm.lang.ir import Predicate
from ivm.names import ONE
from ivm.rules.compile import compile
from ivm.rules.installed import InstallOptions
from ivm.spark import stages
from ivm.spark.cell import TICK, Batch, CellsError, Message, messages_of
from ivm.spark.changes import as_changes, as_spark_has, key_count, schema_of, warn_of_others
from ivm.spark.executors import (
    SQL_SCHEMA,
    Executor,
    Here,
    OnSpark,
    Rounds,
    Stage,
    mapped,
    read_messages,
    sentence_first,
    streaming_query,
    through,
    ticks,
    write_messages,
)
from ivm.spark.folder import UNDO, Folder, Pending, State
from ivm.spark.follow import OpenOptions
from ivm.spark.layout import Layout, plan
from ivm.spark.select import ONE_ROW, columns_of, in_zone_of, is_sql, refuse_equal, rules_of
from ivm.spark.shares import Hot, measure
from pagestore.host import Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CELLS_MAX = 1 << 16


class Applied(NamedTuple):
    """The result of a batch: whether it was new, and what each cell that it reached did in each
    round.

    An account has `round`, `received` rows by channel, rows `sent` for each channel, and
    `operations` of joins.
    """

    number: int
    new: bool
    accounts: dict[int, list[dict[str, Any]]]

    @property
    def received(self) -> dict[int, int]:
        """The number of rows that each cell received."""
        return {
            cell: sum(sum(a["received"].values()) for a in account)
            for cell, account in self.accounts.items()
        }


class Cells:
    """Rules over cells in a folder that all executors reach. Close it, or use it in `with`.

    One program at a time writes, from any of its threads: batches run one after another. Every
    reader, in this program or in others, sees the newest batch that all cells have, even while
    another is under way.
    """

    def __init__(
        self, folder: Folder, spark: "SparkSession | None", manifest: dict[str, Any]
    ) -> None:
        """Use `Cells.create` or `Cells.open`."""
        self._folder = folder
        self._spark = spark
        self._run: Executor = Here() if spark is None else OnSpark(spark)
        self._state = State.of(manifest)
        self._one_at_a_time = RLock()

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        rules: str,
        cells: int,
        spark: "SparkSession | None" = None,
        tables: Mapping[str, Any] | None = None,
        sizes: Mapping[str, float] | None = None,
        hot: Hot | None = None,
        options: OpenOptions | None = None,
        **install: Unpack[InstallOptions],
    ) -> "Cells":
        """Lay a program out over cells, make their stores, and load `tables` (Arrow tables or
        DataFrames).

        The rules may be SQL in Spark's dialect: CREATE VIEW, or a SELECT, which becomes the view
        `answer`. The load precedes all batches and has no number. Until it is done there are no
        cells: after a crash, create them again. Shares are chosen by the row counts of `tables`, or
        by `sizes`. Hot values of `tables` are split, or those that `hot` names as hashes
        (`ivm.spark.shares.hash_value`) by relation and column. `options` are those of `ivm.open`,
        `install` those of `Workspace.install`: granularity, maintenance. Raises RuleError,
        OptionError, CellsError for a folder that has cells, and what `apply` raises.
        """
        _check_number(cells)
        with in_zone_of(spark):
            rules = _translated(rules, tables or {}) if is_sql(rules) else rules
        said, predicates = hints(rules, "rules"), compile(rules).predicates
        for warning in said:
            warnings.warn(warning, stacklevel=2)
        tables = _with_one(_known_tables(tables or {}, predicates), predicates)
        measured = measure(tables, predicates, cells)
        layout = plan(
            rules, cells, {**measured.sizes, **(sizes or {})}, measured.hot if hot is None else hot
        )
        place = Folder(folder, create=True)
        with _closed_if_it_fails(place):
            generation = place.next_generation()
            place.remove_others(generation, None)
            Path(place.generation(generation)).mkdir()
            made = cls(
                place,
                spark,
                {
                    "generation": generation,
                    "sequence": -1,
                    "done": -1,
                    "queries": {},
                    "token": "",
                    "pending": None,
                    "versions": [0] * cells,
                    "layout": layout._asdict(),
                    "options": dict(options or {}),
                    "install": install,
                },
            )
            made._all(partial(stages.create, rules=install))
            made._load(tables)
        return made

    def _load(self, tables: Mapping[str, Any]) -> None:
        """Load the initial tables, then save the manifest, which makes the cells exist."""
        values: dict[str, Any] = {}
        if tables:
            token = uuid4().hex
            self._keep(0, tables)
            done = through(self._run, self._batch(0, token), self._rounds(), self._folder.files(0))
            done.raise_failure()
            values = {"sequence": 0, "token": token, "versions": self._versions(done)}
        self._set(**values)
        self._folder.remove_batch(0)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        spark: "SparkSession | None" = None,
        mode: Literal["rw", "r"] = "rw",
    ) -> "Cells":
        """Open cells. A batch that did not reach all of them is finished, or undone, before this
        returns.

        With mode="r" nothing is changed, and another program may write. Raises CellsError if there
        are no cells, if one is missing or an older copy (see `rebuild`), or if another program has
        them open for writing.
        """
        place = Folder(folder, mode=mode)
        with _closed_if_it_fails(place):
            opened = cls(place, spark, place.load())
            if faults := opened._faults():
                raise CellsError(
                    f"{len(faults)} of {opened.layout.cells} cells are not as the newest batch "
                    f"left them, and their rows would lack: {'; '.join([*faults.values()][:3])}. "
                    "Cells.rebuild makes them from the others"
                )
            if mode != "r":
                opened._recover()
        return opened

    @classmethod
    def rebuild(
        cls,
        folder: str | os.PathLike[str],
        spark: "SparkSession | None" = None,
        tables: Mapping[str, Any] | None = None,
    ) -> "Cells":
        """Open cells of which some are missing, damaged or older copies, and rebuild these from the
        others.

        Base rows of a lost cell are taken from the copies that rules keep in other cells. A
        relation whose rows may have no copies must be in `tables`, with all rows that it had after
        the newest batch (`done`). `changes` has no rows until the next batch. O(rows of the lost
        cells), which pass through this process. Raises CellsError.
        """
        place = Folder(folder)
        with _closed_if_it_fails(place):
            opened = cls(place, spark, place.load())
            if lost := frozenset(opened._faults()):
                predicates = opened._state.predicates
                opened._make_again(
                    lost, _with_one(_known_tables(tables or {}, predicates), predicates)
                )
            opened._recover()
        return opened

    def _faults(self) -> dict[int, str]:
        """Return, by cell, what is wrong with those that are not as the newest batch left them."""
        return {message.cell: message.payload.decode() for message in self._all(stages.fault)}

    def _make_again(self, lost: frozenset[int], tables: Mapping[str, Any]) -> None:
        """Rebuild lost cells from others and from tables: next to the old stores, then in place."""
        manifest, batch = self._manifest, self._done_batch()
        copies = stages.copies_of_bases(batch.layout, lost, tables)
        messages = self._all(partial(stages.sent_to, lost=lost, copies=copies))
        for name, table in tables.items():
            messages += [
                message
                for message in stages.collected(table, self._sending(name))
                if message.cell in lost
            ]
        done = stages.made_again(self._run, batch, lost, messages, manifest["install"])
        self._folder.replace_stores(manifest["generation"])
        versions = [
            done.versions.get(c, 0) if c in lost else v for c, v in enumerate(manifest["versions"])
        ]
        self._set(token="", versions=versions)

    # -- the manifest

    @property
    def layout(self) -> Layout:
        """Which cells have which rows, and what they send."""
        return self._state.layout

    @property
    def done(self) -> int:
        """The number of the newest batch that all cells have; -1 before the first."""
        return int(self._now().manifest["done"])

    @property
    def _manifest(self) -> dict[str, Any]:
        return self._state.manifest

    def _now(self) -> State:
        """Return the newest state; in mode "r", reload it: another program may have written."""
        if self._folder.mode == "r":
            manifest = self._folder.load()
            same = manifest["generation"] == self._manifest["generation"]
            self._state = self._state._replace(manifest=manifest) if same else State.of(manifest)
        return self._state

    def _set(self, **values: Any) -> None:
        manifest = {**self._manifest, **values}
        self._folder.save(manifest)
        self._state = self._state._replace(manifest=manifest)

    def _batch(self, sequence: int, token: str) -> Batch:
        return self._batch_of(self._state, sequence, token)

    def _batch_of(self, state: State, sequence: int, token: str) -> Batch:
        manifest = state.manifest
        folder = self._folder.generation(manifest["generation"])
        return Batch(
            folder, state.layout, sequence, token, manifest["options"], tuple(manifest["versions"])
        )

    def _done_batch(self) -> Batch:
        state = self._now()
        return self._batch_of(state, state.manifest["sequence"], state.manifest["token"])

    # -- batches

    @sentence_first()
    def apply(self, number: int, changes: Mapping[str, Any], query: str | None = None) -> Applied:
        """Apply a batch of changes to all cells and bring every view up to date; do nothing for a
        batch that is done.

        Batches have rising numbers, as `foreachBatch` gives them, separately for each `query`.
        Without `query`, a streaming query of Spark is identified by its id, and all other batches
        belong to one query.

        `changes` has a table for each relation: any Arrow data or a DataFrame with its columns and,
        unless all rows are inserted, `_change_type` (insert, delete, update_preimage,
        update_postimage). Deletions are applied before insertions; an insertion replaces the value
        of a function's key; a deletion is by key. With `_commit_version`, only the newest change of
        each key counts. Raises MaintainError if the rules refuse the batch, which is then undone in
        all cells.
        """
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise OptionError(
                f"batch {number!r}: its number is a whole number from 0 on, above those before"
            )
        with self._writing():
            self._recover()
            changes = _known_tables(changes, self._state.predicates)
            query = query or streaming_query() or ""
            if number <= self._manifest["queries"].get(query, -1):
                return Applied(number, False, {})
            pending = Pending(self._manifest["sequence"] + 1, number, query, uuid4().hex)
            self._keep(pending.sequence, changes)
            self._set(pending=pending)
            return self._finish(pending)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock under which batches run one at a time. Raises CellsError in mode "r"."""
        if self._folder.mode == "r":
            raise CellsError(
                "these cells were opened with mode='r': open them without it to change them"
            )
        with self._one_at_a_time:
            yield

    def _keep(self, sequence: int, changes: Mapping[str, Any]) -> None:
        """Write the changes of relations durably, as messages to the home cells of their rows."""
        folder = self._folder.new_batch(sequence)
        for name, table in changes.items():
            channel, send = self.layout.base(name), self._sending(name)
            is_frame = hasattr(table, "mapInArrow")
            table = table if is_frame or isinstance(table, pa.Table) else pa.table(table)
            warn_of_others(
                table.columns if is_frame else table.column_names, self._state.predicates[name]
            )
            if is_frame:
                mapped(table, send, SQL_SCHEMA).write.parquet((folder / str(channel)).as_uri())
            else:
                pq.write_table(write_messages(send(table)), folder / f"{channel}.parquet")
        self._folder.sync_batch(sequence)

    def _sending(self, name: str) -> Callable[[Any], list[Message]]:
        """Return the function that makes messages of a relation's changes."""
        predicate = self._state.predicates[name]
        return partial(
            _sent_home, channel=self.layout.base(name), layout=self.layout, predicate=predicate
        )

    def _recover(self) -> None:
        """Bring all cells to the same batch, if a crash left some at an earlier one."""
        pending = Pending(*self._manifest["pending"]) if self._manifest["pending"] else None
        self._folder.remove_others(self._manifest["generation"], pending and pending.sequence)
        if pending:
            (self._take_back if pending.becomes == UNDO else self._finish)(pending)

    def _finish(self, pending: Pending) -> Applied:
        """Run all rounds of a batch, then delete its messages. Raises the error with which the
        rules refuse it.
        """
        batch = self._batch(pending.sequence, pending.token)
        done = through(self._run, batch, self._rounds(), self._folder.files(pending.sequence))
        if done.failure:
            refused = pending._replace(becomes=UNDO)
            self._set(pending=refused)
            self._take_back(refused)
            done.raise_failure()
        queries = {**self._manifest["queries"], pending.query: pending.number}
        self._set(
            sequence=pending.sequence,
            done=pending.number,
            queries=queries,
            token=pending.token,
            pending=None,
            versions=self._versions(done),
        )
        self._folder.remove_batch(pending.sequence)
        return Applied(pending.number, True, done.accounts)

    def _take_back(self, pending: Pending) -> None:
        self._run.run(
            self._batch(pending.sequence, pending.token), [stages.undo], None, self.layout.cells
        )
        self._set(pending=None)
        self._folder.remove_batch(pending.sequence)

    def _rounds(self) -> list[Stage]:
        return [partial(stages.step, round=r) for r in range(self.layout.rounds)]

    def _versions(self, done: Rounds) -> list[int]:
        """Return each cell's version after a batch."""
        return [
            done.versions.get(cell, version)
            for cell, version in enumerate(self._manifest["versions"])
        ]

    # -- reading

    def __getitem__(self, name: str) -> Answer:
        """Return all rows of a relation or view, in this process. Raises UnknownViewError."""
        return self._gathered(name, False)

    def changes(self, name: str) -> Answer:
        """Return the newest batch's changes to a relation or view: its columns and
        `_change_type`, insert or delete.
        """
        return self._gathered(name, True)

    def read(self, name: str, changed: bool = False) -> "DataFrame":
        """Return all rows of a relation or view as a DataFrame, or the newest batch's changes.

        It always has the rows of the batch that was newest at this call, whatever is applied
        meanwhile. A cell retains 32 batches at least; afterwards the DataFrame raises CellsError.
        """
        if self._spark is None:
            raise OptionError("these cells were opened without spark=: use cells[name]")
        batch = self._done_batch()
        return _reading(self._spark, batch, self._known(name), changed)

    def _gathered(self, name: str, changed: bool) -> Answer:
        batch = self._done_batch()
        predicate = self._known(name)
        rows = self._in_all(batch, partial(stages.rows_of, name=predicate.name, changed=changed))
        schema = schema_of(predicate, changed)
        table = pa.concat_tables(
            [schema.empty_table(), *(stages.table_of(m).cast(schema) for m in rows)]
        )
        return Answer(table.sort_by([(name, "ascending") for name in predicate.columns]))

    def _known(self, name: str) -> Predicate:
        predicates = self._state.predicates
        if name not in predicates:
            raise UnknownViewError(f"nothing declares or derives {name}")
        return predicates[name]

    def _all(self, stage: Stage) -> list[Message]:
        """Run a stage in every cell; return its messages."""
        return self._in_all(self._done_batch(), stage)

    def _in_all(self, batch: Batch, stage: Stage) -> list[Message]:
        left = self._run.run(batch, [stage], None, batch.layout.cells)
        return [message for message in left if message.channel != TICK]

    # -- care

    def check(self) -> list[Violation]:
        """Return all cells' faults, and rows that only one of two has. O(evaluating all rules)."""
        with self._writing():
            self._recover()
            left = self._run.run(
                self._done_batch(), [stages.audit, stages.compare], None, self.layout.cells
            )
        return [violation for message in left for violation in stages.violations_of(message)]

    def explain(self) -> str:
        """Describe each rule: its shares, how many rows that it reads a cell holds, its round,
        and what it sends.
        """
        return self.layout.explained()

    def reshard(self, cells: int) -> None:
        """Lay the program out over more or fewer cells, from their own stores; choose new shares.

        The new stores are made next to the old ones, which are deleted at the end: a crash leaves
        the old or the new. O(loading all relations). Raises OptionError.
        """
        _check_number(cells)
        with self._writing():
            self._recover()
            self._move_to(cells)

    def _move_to(self, cells: int) -> None:
        old, before = self._done_batch(), self._manifest
        sizes = stages.merge_sizes(self._all(partial(stages.sizes_of, cells_wanted=cells)), cells)
        layout = plan(self.layout.program, cells, sizes.sizes, sizes.hot)
        number = self._folder.next_generation()
        folder = Path(self._folder.generation(number))
        folder.mkdir()
        batch = Batch(
            str(folder), layout, max(0, old.number), uuid4().hex, before["options"], (0,) * cells
        )
        self._run.run(batch, [partial(stages.create, rules=before["install"])], None, cells)
        rounds = [partial(stages.step, round=r) for r in range(layout.rounds)]
        move: list[Stage] = [partial(stages.moved, old=old), *rounds]
        done = through(self._run, batch, move, None, max(old.layout.cells, cells))
        done.raise_failure()
        manifest = {
            **before, "generation": number, "layout": layout._asdict(), "sequence": batch.number,
            "token": "", "versions": [done.versions.get(cell, 0) for cell in range(cells)],
        }  # fmt: skip
        self._folder.save(manifest)
        self._state = State.of(manifest)
        self._folder.remove_others(number, None)

    def close(self) -> None:
        """Close the folder, so that others can open the cells."""
        self._folder.close()

    def __enter__(self) -> "Cells":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _closed_if_it_fails(place: Folder) -> Iterator[None]:
    """Close the folder if the block raises, so that others can open it."""
    try:
        yield
    except BaseException:
        place.close()
        raise


def _check_number(cells: int) -> None:
    """Raise OptionError for an invalid number of cells."""
    if not isinstance(cells, int) or not 1 <= cells <= CELLS_MAX:
        raise OptionError(f"cells={cells!r}: a whole number from 1 to {CELLS_MAX:,}")


def _sent_home(table: Any, channel: int, layout: Layout, predicate: Predicate) -> list[Message]:
    """Return a relation's changes as messages to the home cells of their rows."""
    return list(messages_of(as_changes(table, predicate), channel, layout.channels[channel]))


def _known_tables(tables: Mapping[str, Any], predicates: Mapping[str, Predicate]) -> dict[str, Any]:
    """Return the tables by relation. Raises UnknownViewError for one that is not declared."""
    for name in tables:
        if name not in predicates or not predicates[name].extensional:
            known = ", ".join(sorted(n for n, p in predicates.items() if p.extensional))
            raise UnknownViewError(
                f"{name} is not a declared relation: there are {known or 'none'}"
            )
    return dict(tables)


def _with_one(tables: dict[str, Any], predicates: Mapping[str, Predicate]) -> dict[str, Any]:
    """Return tables with the relation of one row, if rules of SQL read it."""
    return {**tables, ONE: ONE_ROW} if ONE in predicates else tables


def _translated(text: str, tables: Mapping[str, Any]) -> str:
    """Return the rules of a text of SQL over tables. Raises SqlError, also for equal rows of one
    without a key.
    """
    schemas = {}
    for name, table in tables.items():
        if hasattr(table, "toArrow"):
            from pyspark.sql.pandas.types import to_arrow_schema

            schemas[name] = columns_of(to_arrow_schema(table.schema))
        else:
            schemas[name] = columns_of(table.schema)
    rules = rules_of(text, "answer", schemas, sets=True)
    for name, predicate in compile(rules).predicates.items():
        if name in tables and key_count(predicate) == len(predicate.columns):
            refuse_equal(name, tables[name], predicate.columns)
    return rules


def _reading(
    spark: "SparkSession", batch: Batch, predicate: Predicate, changed: bool
) -> "DataFrame":
    """Return the rows of all cells, or their changes, read by a task for each cell."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema, name = as_spark_has(schema_of(predicate, changed)), predicate.name

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for message in (message for part in batches for message in read_messages(part)):
            with sentence_first():
                rows = stages.rows_of(batch, message.cell, [], name, changed)
            for row in rows:
                yield from stages.table_of(row).cast(schema).to_batches()

    start: Any = spark.createDataFrame(write_messages(ticks(range(batch.layout.cells))), SQL_SCHEMA)
    return start.repartitionById(batch.layout.cells, "cell").mapInArrow(
        run, from_arrow_schema(schema)
    )
