"""Cells: a program evaluated and maintained over HyperCube shards, an embedded store for each, past one machine.

    from ivm.spark import Cells

    with Cells.create("/shared/graph", rules, cells=8, spark=spark, tables={"edge": frame}) as cells:
        cells.apply(1, {"edge": changes})              each batch once, whatever fails and is tried again
        cells.read("tri")                              the view as a DataFrame

Without `spark` the cells run one after the other in this process.
"""

import json
import os
import shutil
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from ivm.answer import Answer
from ivm.errors import OptionError, UnknownViewError
from ivm.lang import compile
from ivm.lang.hints import hints
from ivm.lang.ir import Predicate
from ivm.spark import stages
from ivm.spark.cell import TICK, Batch, Message, failure_of, messages_of
from ivm.spark.changes import as_changes, schema_of, warn_of_others
from ivm.spark.executors import SQL_SCHEMA, Executor, Here, OnSpark, Stage, write_messages
from ivm.spark.folder import Folder
from ivm.spark.layout import Layout, plan
from ivm.spark.shares import Hot
from ivm.spark.sizes import measure
from pagestore.host import Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CELLS_MAX = 1 << 16
APPLY, UNDO = "apply", "undo"  # what is to become of the batch on its way


class Applied(NamedTuple):
    """What a batch did: whether it was new, and what each cell that it reached did in each round.

    An account has `round`, `received` rows by channel, rows `sent` for each channel, and `operations` of joins.
    """

    number: int
    new: bool
    accounts: dict[int, list[dict[str, Any]]]

    @property
    def received(self) -> dict[int, int]:
        """How many rows each cell got."""
        return {cell: sum(sum(a["received"].values()) for a in found) for cell, found in self.accounts.items()}


class Cells:
    """Rules over cells in a folder that all executors reach. Close it, or use it in `with`: one program at a time."""

    def __init__(self, folder: Folder, spark: "SparkSession | None") -> None:
        """Use `Cells.create` or `Cells.open`."""
        self._folder = folder
        self._spark = spark
        self._run: Executor = Here() if spark is None else OnSpark(spark)
        self._manifest: dict[str, Any] = {}
        self._predicates: Mapping[str, Predicate] = {}
        self.layout = Layout(1, "", "", 1, (), {}, ())

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], rules: str, cells: int, spark: "SparkSession | None" = None,
        tables: Mapping[str, Any] | None = None, sizes: Mapping[str, float] | None = None, hot: Hot | None = None,
        options: Mapping[str, Any] | None = None, **install: Any,
    ) -> "Cells":  # fmt: skip
        """Lay a program out over cells, make their stores, and load `tables` (Arrow tables or DataFrames) as batch 0.

        Shares are chosen from the rows of `tables`, or from `sizes`, and their hot values are split, or those that
        `hot` names as hashes (`ivm.spark.routing.hash_value`) by relation and column. `options` are those of
        `ivm.open`, `install` those of `Workspace.install`: granularity, maintenance. Raises RuleError, OptionError,
        CellsError for a folder that has cells, and what `apply` raises.
        """
        _check_number(cells)
        said, predicates = hints(rules, "rules"), compile(rules).predicates
        for warning in said:
            warnings.warn(warning, stacklevel=2)
        tables = _known_tables(tables or {}, predicates)
        found = measure(tables, predicates, cells)
        layout = plan(rules, cells, {**found.sizes, **(sizes or {})}, found.hot if hot is None else hot)
        made = cls(Folder(folder, create=True), spark)
        try:
            made._make(layout, {"options": dict(options or {}), "install": install})
            if tables:
                made.apply(0, tables)
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    def open(cls, folder: str | os.PathLike[str], spark: "SparkSession | None" = None) -> "Cells":
        """Open cells. A batch that did not reach all of them is brought to all, or taken back, before this returns.

        Raises CellsError if there are none, or another program has them open.
        """
        opened = cls(Folder(folder), spark)
        try:
            opened._adopt(opened._folder.load())
            opened._recover()
        except BaseException:
            opened.close()
            raise
        return opened

    def _make(self, layout: Layout, chosen: dict[str, Any]) -> None:
        self._folder.remove_others(-1, None)
        Path(self._folder.generation(1)).mkdir()
        self._adopt({"generation": 1, "done": -1, "layout": layout._asdict(), **chosen})
        self._all(partial(stages.create, rules=chosen["install"]))
        self._folder.save(self._manifest)

    def _adopt(self, manifest: dict[str, Any]) -> None:
        self._manifest = manifest
        self.layout = Layout.load(json.loads(json.dumps(manifest["layout"])))
        predicates = compile(self.layout.program).predicates
        self._predicates = {name: predicate for name, predicate in predicates.items() if "$" not in name}

    # -- batches

    @property
    def done(self) -> int:
        """The number of the newest batch that all cells have; -1 before the first."""
        return int(self._manifest["done"])

    def apply(self, number: int, changes: Mapping[str, Any]) -> Applied:
        """Bring a batch of changes to all cells, and every view up to date; a batch that is done already does nothing.

        Batches have rising numbers, as `foreachBatch` gives them. `changes` has a table for each relation: anything of
        Arrow or a DataFrame with its columns and, unless all rows are inserted, `_change_type` (insert, delete,
        update_preimage, update_postimage). Deletions come before insertions, an insertion replaces the value of a
        function's key, a deletion goes by the key. With `_commit_version`, of each key only the newest change counts.
        Raises MaintainError if the rules refuse the batch, which is then taken back from all cells.
        """
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise OptionError(f"batch {number!r}: its number is a whole number from 0 on, above those before")
        self._recover()
        if number <= self.done:
            return Applied(number, False, {})
        changes = _known_tables(changes, self._predicates)
        folder = self._folder.new_batch(number)
        for name, table in changes.items():
            self._keep(folder, name, table)
        self._folder.sync_batch(number)
        token = uuid4().hex
        self._set(pending=[number, token, APPLY])
        return self._finish(number, token)

    def _keep(self, folder: Path, name: str, table: Any) -> None:
        """Write a relation's changes, as messages to the cells where its rows are at home."""
        channel, predicate = self.layout.base(name), self._predicates[name]
        send = partial(_sent_home, channel=channel, layout=self.layout, predicate=predicate)
        is_frame = hasattr(table, "mapInArrow")
        table = table if is_frame or isinstance(table, pa.Table) else pa.table(table)
        warn_of_others(table.columns if is_frame else table.column_names, predicate)
        if is_frame:
            from ivm.spark.frames import mapped

            mapped(table, send, SQL_SCHEMA).write.parquet((folder / str(channel)).as_uri())
        else:
            pq.write_table(write_messages(send(table)), folder / f"{channel}.parquet")

    def _recover(self) -> None:
        """Bring all cells to the same batch, if a crash left some behind."""
        number, token, state = self._manifest.get("pending") or (None, "", "")
        self._folder.remove_others(self._manifest["generation"], number)
        if number is not None:
            (self._take_back if state == UNDO else self._finish)(number, token)

    def _finish(self, number: int, token: str) -> Applied:
        """Take a batch through all rounds, and forget it. Raises what the rules refuse it for."""
        batch = self._batch(number, token)
        rounds: list[Stage] = [partial(stages.step, round=r) for r in range(self.layout.rounds)]
        left = self._run.run(batch, rounds, self._folder.files(number), self.layout.cells)
        for message in left:
            if failure := failure_of(message):
                self._set(pending=[number, token, UNDO])
                self._take_back(number, token)
                raise failure
        self._set(done=number, token=token, pending=None)
        self._folder.remove_batch(number)
        return Applied(number, True, {m.cell: json.loads(m.payload).get("rounds", []) for m in left})

    def _take_back(self, number: int, token: str) -> None:
        self._run.run(self._batch(number, token), [stages.undo], None, self.layout.cells)
        self._set(pending=None)
        self._folder.remove_batch(number)

    def _batch(self, number: int, token: str) -> Batch:
        folder = self._folder.generation(self._manifest["generation"])
        return Batch(folder, self.layout, number, token, self._manifest["options"])

    def _set(self, **values: Any) -> None:
        manifest = {**self._manifest, **values}
        self._folder.save(manifest)
        self._manifest = manifest

    # -- reading

    def __getitem__(self, name: str) -> Answer:
        """All rows of a relation or view, in this process. Raises UnknownViewError."""
        return self._gathered(name, False)

    def changes(self, name: str) -> Answer:
        """What the newest batch did to a relation or view: its columns and `_change_type`, insert or delete."""
        return self._gathered(name, True)

    def read(self, name: str, changed: bool = False) -> "DataFrame":
        """All rows of a relation or view as a DataFrame, or what the newest batch changed; it reads when it is used."""
        from ivm.spark.frames import reading

        if self._spark is None:
            raise OptionError("these cells were opened without spark=: use cells[name]")
        self._recover()
        return reading(self._spark, self._done_batch(), self._known(name), changed)

    def _gathered(self, name: str, changed: bool) -> Answer:
        self._recover()
        predicate = self._known(name)
        found = self._all(partial(stages.rows_of, name=predicate.name, changed=changed))
        schema = schema_of(predicate, changed)
        table = pa.concat_tables([schema.empty_table(), *(stages.table_of(m).cast(schema) for m in found)])
        return Answer(table.sort_by([(name, "ascending") for name in predicate.columns]))

    def _known(self, name: str) -> Predicate:
        if name not in self._predicates:
            raise UnknownViewError(f"nothing declares or derives {name}")
        return self._predicates[name]

    def _done_batch(self) -> Batch:
        return self._batch(self.done, self._manifest.get("token", ""))

    def _all(self, stage: Stage) -> list[Message]:
        """What a stage leaves that runs in every cell."""
        left = self._run.run(self._done_batch(), [stage], None, self.layout.cells)
        return [message for message in left if message.channel != TICK]

    # -- care

    def check(self) -> list[Violation]:
        """The faults of all cells, and rows that one has and another lacks. O(evaluating all rules)."""
        self._recover()
        left = self._run.run(self._done_batch(), [stages.audit, stages.compare], None, self.layout.cells)
        return [violation for message in left for violation in stages.violations_of(message)]

    def explain(self) -> str:
        """Each rule's shares, how many rows a cell holds of what it reads, its round, and what it sends."""
        lines = [f"{self.layout.cells} cells, {self.layout.rounds} rounds"]
        for writer in self.layout.writers:
            shares = " ".join(f"{name}: {share}" for name, share in writer.shares.items()) or "none, in cell 0"
            lines += [
                writer.rule,
                f"    shares {shares}; about {writer.held:,.0f} rows in a cell; round {writer.round}",
            ]
            if writer.sent:
                lines += [f"    sends {', '.join(writer.sent)} to be combined"]
        return "\n".join(lines)

    def reshard(self, cells: int) -> None:
        """Lay the program out over more or fewer cells, from their own stores; shares are chosen anew.

        The new stores are made beside the old ones, which go when all is done: a crash leaves the one or the other.
        O(loading all relations). Raises OptionError.
        """
        _check_number(cells)
        self._recover()
        old, before = self._done_batch(), self._manifest
        found = stages.merge_sizes(self._all(partial(stages.sizes_of, cells_wanted=cells)), cells)
        layout = plan(self.layout.program, cells, found.sizes, found.hot)
        number = before["generation"] + 1
        shutil.rmtree(self._folder.generation(number), ignore_errors=True)
        Path(self._folder.generation(number)).mkdir()
        batch = Batch(self._folder.generation(number), layout, self.done, f"reshard {number}", before["options"])
        self._run.run(batch, [partial(stages.create, rules=before["install"])], None, cells)
        rounds = [partial(stages.step, round=r) for r in range(layout.rounds)]
        move: list[Stage] = [partial(stages.moved, old=old), *rounds]
        left = self._run.run(batch, move, None, max(old.layout.cells, cells))
        for message in left:
            if failure := failure_of(message):
                raise failure
        self._folder.save({**before, "generation": number, "layout": layout._asdict(), "token": batch.token})
        self._adopt(self._folder.load())
        self._folder.remove_others(number, None)

    def close(self) -> None:
        """Let others open the cells."""
        self._folder.close()

    def __enter__(self) -> "Cells":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_number(cells: int) -> None:
    """Raise OptionError for a number of cells that cannot be."""
    if not isinstance(cells, int) or not 1 <= cells <= CELLS_MAX:
        raise OptionError(f"cells={cells!r}: a whole number from 1 to {CELLS_MAX:,}")


def _sent_home(table: Any, channel: int, layout: Layout, predicate: Predicate) -> list[Message]:
    """A relation's changes as messages to the cells where its rows are at home."""
    return list(messages_of(as_changes(table, predicate), channel, layout.channels[channel]))


def _known_tables(tables: Mapping[str, Any], predicates: Mapping[str, Predicate]) -> dict[str, Any]:
    """Tables by relation. Raises UnknownViewError for a name that is no declared relation."""
    for name in tables:
        if name not in predicates or not predicates[name].extensional:
            known = ", ".join(sorted(n for n, p in predicates.items() if p.extensional))
            raise UnknownViewError(f"{name} is no declared relation: there are {known or 'none'}")
    return dict(tables)
