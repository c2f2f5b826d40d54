"""One cell: a store of its own. Each round of a batch is applied to it exactly once, however often
it is retried.

    step(batch, cell, round, messages)      one transaction, then the messages that the cell sends for the next round

In the same commit as the rows, the property `cells.progress` has the batch, the version before it,
and the version after each of its rounds. A task that is retried finds its round there, changes
nothing, and reads from the same versions the same messages that it sent before. A reader of an
earlier batch follows these versions back.
"""

import json
import pickle
import warnings
from base64 import b64decode, b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ivm
import pagestore
from ivm.errors import IvmError, MaintainError, RangeError, RuleWarning
from ivm.lang.ir import Predicate
from ivm.names import APART
from ivm.spark.changes import (
    CHANGE,
    ORDER,
    difference,
    newest_changes,
    refuse_two_values,
    take_changes,
)
from ivm.spark.follow import OpenOptions
from ivm.spark.layout import BASE, CELL, PLACE, TOTAL, Channel, Layout
from ivm.spark.shares import route
from ivm.views.exact_sum import INFINITE, UNIT
from pagestore.errors import PagestoreError, SchemaError, VersionError, WordError
from pagestore.host import (
    INSERT,
    Snapshot,
    Store,
    Transaction,
    Tree,
    Violation,
    as_inserted,
    delta,
    pages_of_both,
    read_batches,
)

PROGRESS = "cells.progress"
TICK = -1  # the channel of messages that a cell sends itself: its account of the rounds so far
BATCHES_KEPT = 32  # at least, so that they can still be read
MESSAGE_ROWS = 1 << 18  # at most, so that each message fits into a row of Spark
# errors caused by the batch itself: a retry does not help
REFUSALS = MaintainError, WordError, SchemaError


class CellsError(IvmError):
    """Cells cannot do this: a batch is under way, a store is missing, or two programs write."""


class Message(NamedTuple):
    """Rows sent to a cell, as an Arrow stream; on channel TICK, what the cell did, as JSON."""

    cell: int
    channel: int
    payload: bytes


class Batch(NamedTuple):
    """A batch as cells know it. The token distinguishes attempts: tasks of one that was undone may
    still run.

    `number` counts the batches that all cells had before. `versions` has, from the manifest, the
    version of each cell after its newest batch: the one before this batch when it is applied, this
    batch when it is read.
    """

    folder: str
    layout: Layout
    number: int
    token: str
    options: dict[str, Any]  # of ivm.open
    versions: tuple[int, ...]


@dataclass(frozen=True)
class Progress:
    """The progress of a cell: its newest batch, the version before it, the versions after its
    rounds.

    `refused` is the token of a later batch that was undone.
    """

    number: int = -1
    token: str = ""
    begin: int = 0
    rounds: dict[str, int] = field(default_factory=dict)
    refused: str = ""

    @classmethod
    def of(cls, snap: Snapshot) -> "Progress":
        """Return the progress recorded in a version."""
        return cls(**json.loads(str(snap.properties.get(PROGRESS, "{}"))))

    def version(self, round: int) -> int:
        """Return the version after a round: that of the newest round up to it, or `begin`."""
        return max((v for r, v in self.rounds.items() if int(r) <= round), default=self.begin)

    @property
    def newest(self) -> int:
        """The version after its last round."""
        return max(self.rounds.values(), default=self.begin)


def path_of(folder: str, cell: int) -> Path:
    """Return the path of a cell's store."""
    return Path(folder, f"cell-{cell:05d}.pages")


def create(
    folder: str, layout: Layout, cell: int, rules: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Create the store of a cell atomically, unless it exists. `rules` are options of install."""
    path = path_of(folder, cell)
    if path.exists():
        return
    made = path.with_suffix(".new")
    made.unlink(missing_ok=True)
    retain = layout.rounds * (1 + BATCHES_KEPT)
    with ivm.open(made, **{"retain": retain, **options}) as workspace, warnings.catch_warnings():
        # `Cells.create` warns once, about the text that the user gave
        warnings.simplefilter("ignore", RuleWarning)
        workspace.install(layout.text, "cells", **rules)
    made.replace(path)


def opened(batch: Batch, cell: int, **options: Unpack[OpenOptions]) -> ivm.Workspace:
    """Open the workspace of a cell. Raises CellsError if its store is missing."""
    return ivm.open(
        _there(batch, cell), create=False, **{"timeout": 600.0, **batch.options, **options}
    )


def _there(batch: Batch, cell: int) -> Path:
    path = path_of(batch.folder, cell)
    if not path.exists():
        raise CellsError(f"{path} is missing, or the cells were laid out anew since they were read")
    return path


def found_at(store: Store, batch: Batch, cell: int) -> tuple[int, Progress]:
    """Return the version of a cell after a batch, and its progress then; later batches may be under
    way.

    Raises CellsError if the version is no longer retained, or if the store is not the one in the
    manifest.
    """
    with store.snapshot() as snap:
        version, progress = int(snap.version), Progress.of(snap)
    while progress.number > batch.number:
        version = progress.begin
        with kept(store, version, cell) as snap:
            progress = Progress.of(snap)
    refuse_other(batch, cell, progress)
    return version, progress


def kept(store: Store, version: int, cell: int) -> Snapshot:
    """Open a snapshot of a version of a cell. Raises CellsError if it is no longer retained."""
    try:
        return store.at(version)
    except VersionError:
        raise CellsError(
            f"cell {cell} does not keep version {version} any more, since newer batches came: read "
            f"the cells again, or "
            "create them with options={'retain': a larger number of versions}"
        ) from None


def refuse_other(batch: Batch, cell: int, progress: Progress) -> None:
    """Raise CellsError if the store is older or newer than the manifest says."""
    made, expected = progress.newest, batch.versions[cell]
    if made < expected:
        raise CellsError(
            f"{path_of(batch.folder, cell)} is an older copy: it has version {made}, and not "
            f"{expected}"
        )
    if made > expected:
        raise CellsError(
            f"{path_of(batch.folder, cell)} has version {made}, and by cells.pages it is "
            f"{expected}: bring back all of the folder from one backup"
        )


def fault_of(batch: Batch, cell: int) -> str:
    """Return why a cell's store is not as the newest batch left it, or an empty string."""
    try:
        with pagestore.open(_there(batch, cell), mode="r") as store:
            found_at(store, batch, cell)
    except (CellsError, PagestoreError) as error:
        return str(error)
    return ""


# -- rounds


def step(batch: Batch, cell: int, round: int, messages: Iterable[Message]) -> list[Message]:
    """Apply a round's messages in one commit, unless this was done; return the messages for the
    next round.

    If the rules refuse the batch, the error is not raised but sent in a message of the channel TICK
    (see `failure_of`), so that nothing retries it. Raises CellsError for a batch that was undone or
    that a newer one followed.
    """
    ticks, rows = [], defaultdict(list)
    for message in messages:
        if message.channel == TICK:
            ticks.append(json.loads(message.payload))
        else:
            rows[message.channel].append(message.payload)
    if failed := [tick for tick in ticks if "failure" in tick]:
        return [_tick(cell, failed[0])]
    account: list[Any] = ticks[0].get("rounds", []) if ticks else []
    with opened(batch, cell) as workspace:
        try:
            progress, received = _apply(workspace, batch, cell, round, rows)
            sent = list(_outgoing(workspace, batch, cell, round, progress))
        except REFUSALS as error:
            return [_tick(cell, {"failure": b64encode(pickle.dumps(error)).decode()})]
        with workspace.store.snapshot() as snap:
            names = [*workspace.rules_of(snap).program.predicates] if received else []
        work = [workspace.stats(name)["operations"] for name in names]
    counts: Counter[int] = Counter()
    for message in sent:
        counts[message.channel] += read_table(message.payload).num_rows
    account = [
        *account,
        {
            "round": round,
            "received": received,
            "sent": [{"channel": n, "rows": rows_} for n, rows_ in counts.items()],
            "operations": sum(work),
        },
    ]
    made = {"version": progress.newest} if progress.rounds else {}
    return [*sent, _tick(cell, {"cell": cell, "rounds": account, **made})]


def failure_of(message: Message) -> Exception | None:
    """Return the error with which a cell refused a batch, if it did."""
    told = json.loads(message.payload).get("failure")
    return pickle.loads(b64decode(told)) if told else None


def _tick(cell: int, told: Mapping[str, Any]) -> Message:
    return Message(cell, TICK, json.dumps(told).encode())


def _apply(
    workspace: ivm.Workspace, batch: Batch, cell: int, round: int, rows: Mapping[int, list[bytes]]
) -> tuple[Progress, dict[int, int]]:
    """Apply a round; return the progress after it, and the number of rows received by channel."""
    with workspace.store.snapshot() as snap:
        progress = Progress.of(snap)
    if progress.token != batch.token:
        if progress.number >= batch.number or progress.refused == batch.token:
            raise CellsError(
                f"cell {cell}: this batch was taken back or followed by another: open the cells "
                f"anew"
            )
        refuse_other(batch, cell, progress)
        progress = Progress(batch.number, batch.token, workspace.store.version)
    tables = {
        number: pa.concat_tables(map(read_table, sorted(files))) for number, files in rows.items()
    }
    received = {number: table.num_rows for number, table in tables.items()}
    if not tables or str(round) in progress.rounds:
        return progress, received
    with workspace.store.transaction(f"batch {batch.number}, round {round}") as txn:
        targets: dict[str, list[tuple[Channel, pa.Table]]] = defaultdict(list)
        for number, table in tables.items():
            channel = batch.layout.channels[number]
            targets[channel.target].append((channel, table))
        for name, entries in targets.items():
            # the decimals of each rule have digits of their own
            parts = [table for _, table in entries]
            _edit(txn, entries[0][0], name, pa.concat_tables(parts, promote_options="permissive"))
        progress = replace(
            progress, rounds=progress.rounds | {str(round): workspace.store.version + 1}
        )
        txn.properties[PROGRESS] = json.dumps(asdict(progress))
    return progress, received


def _edit(txn: Transaction, channel: Channel, name: str, table: pa.Table) -> None:
    """Apply changes to a relation: first deletions, then insertions."""
    relation = txn[name]
    keys = list(relation.schema.key)
    if channel.kind == BASE:
        table = newest_changes(table, keys)
        refuse_two_values(name, table, keys)
    take_changes(relation, table, keys if channel.kind == BASE else list(relation.schema.names))


def _outgoing(
    workspace: ivm.Workspace, batch: Batch, cell: int, round: int, progress: Progress
) -> Iterator[Message]:
    """Yield the next round's messages: how sources of channels changed since the batch began."""
    old, new = progress.begin, progress.version(round)
    if old == new:
        return
    for number, channel in enumerate(batch.layout.channels):
        if channel.kind != BASE and channel.round == round + 1:
            table = changes_of(workspace, channel, cell, batch.layout.cells, old, new)
            yield from messages_of(table, number, channel)


def changes_of(
    workspace: ivm.Workspace,
    channel: Channel,
    cell: int,
    cells: int,
    old: int | None,
    new: int | None,
) -> pa.Table:
    """Return the changes of a channel's source, in the columns of its target; without `old`, all
    rows as insertions.
    """
    with workspace.store.snapshot() if new is None else workspace.store.at(new) as snap:
        if channel.kind == TOTAL:
            before = None if old is None else workspace.store.at(old)
            table = total_parts(before, snap, workspace.predicates[channel.source])
        elif old is None:
            table = as_inserted(snap[channel.source].to_arrow())
        else:
            table = workspace.store.diff(old, int(snap.version), channel.source).read_all()
    if channel.target.endswith(" @part"):
        table = table.add_column(
            channel.keys, CELL, pa.repeat(channel.writer * cells + cell, table.num_rows)
        )
    # each rule names its own
    return table.rename_columns([*workspace.predicates[channel.target].columns, CHANGE])


def messages_of(table: pa.Table, number: int, channel: Channel) -> Iterator[Message]:
    """Yield the rows of a channel as messages to the cells that get them."""
    columns = sum(name not in (CHANGE, ORDER) for name in table.column_names)
    for cell, rows in route(table, channel.routing, columns):
        for start in range(0, rows.num_rows, MESSAGE_ROWS):
            yield Message(cell, number, write_table(rows.slice(start, MESSAGE_ROWS)))


def write_table(table: pa.Table) -> bytes:
    """Serialize a table as a compressed Arrow stream, without pandas' or Spark's metadata."""
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata().combine_chunks()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read_table(payload: bytes) -> pa.Table:
    """Deserialize a table that `write_table` wrote."""
    return pa.ipc.open_stream(payload).read_all()


# -- the whole of a cell


def undo(batch: Batch, cell: int) -> None:
    """Undo what a cell has of a refused batch, in one commit; tasks of the batch that still run
    are refused then.
    """
    with opened(batch, cell) as workspace:
        store = workspace.store
        with store.snapshot() as snap:
            progress = Progress.of(snap)
        if progress.refused == batch.token:
            return
        begun = progress.token == batch.token
        with store.transaction(f"batch {batch.number} is taken back") as txn:
            for name in {channel.target for channel in batch.layout.channels} if begun else ():
                _revert(workspace, txn, name, progress.begin, progress.newest)
            if begun:
                with store.at(progress.begin) as snap:
                    progress = Progress.of(snap)
            txn.properties[PROGRESS] = json.dumps(asdict(replace(progress, refused=batch.token)))


def _revert(workspace: ivm.Workspace, txn: Transaction, name: str, old: int, new: int) -> None:
    take_changes(
        txn[name], workspace.store.diff(new, old, name).read_all(), list(txn[name].schema.names)
    )


def rows_of(batch: Batch, cell: int, name: str, changed: bool = False) -> pa.Table:
    """Return a cell's rows of a relation or view after a batch; if `changed`, the batch's changes
    to them.

    Compiles no rules. Raises CellsError like `found_at`.
    """
    with pagestore.open(_there(batch, cell), mode="r") as store:
        return rows_in(store, batch, cell, name, changed)


def rows_in(store: Store, batch: Batch, cell: int, name: str, changed: bool) -> pa.Table:
    """Like `rows_of`, in a store that is open."""
    version, progress = found_at(store, batch, cell)
    with kept(store, version, cell) as snap:
        if not changed:
            return snap[name].to_arrow()
        none = snap[name].schema.arrow.empty_table()
    if progress.token != batch.token or not progress.rounds:
        return as_inserted(none)
    with kept(store, progress.begin, cell):
        return store.diff(progress.begin, version, name).read_all()


def audit(batch: Batch, cell: int) -> list[Message]:
    """Return what a cell would send if every row were new, for `compare`, and a tick to itself."""
    messages: list[Message] = []
    with opened(batch, cell, mode="r") as workspace:
        for number, channel in enumerate(batch.layout.channels):
            if channel.kind != BASE:
                messages += messages_of(
                    changes_of(workspace, channel, cell, batch.layout.cells, None, None),
                    number,
                    channel,
                )
    return [*messages, _tick(cell, {})]


def compare(batch: Batch, cell: int, messages: Iterable[Message]) -> list[Violation]:
    """Return faults of a cell's pages and views, and where fragments and parts differ from what
    `audit` sent.
    """
    expected: dict[str, list[pa.Table]] = defaultdict(list)
    for message in messages:
        if message.channel != TICK:
            target = batch.layout.channels[message.channel].target
            expected[target].append(read_table(message.payload).drop_columns([CHANGE]))
    with opened(batch, cell) as workspace:
        faults = [*workspace.store.check(), *workspace.check()]
        with workspace.store.snapshot() as snap:
            try:
                refuse_other(batch, cell, Progress.of(snap))
            except CellsError as error:
                faults.append(Violation("each cell has the newest batch", None, (), str(error)))
            for channel in batch.layout.channels:
                if channel.kind == BASE:
                    away = sum(
                        n != cell
                        for n, _ in route(snap[channel.target].to_arrow(), channel.routing)
                    )
                    fact = f"{channel.target} has rows of {away} other cells" if away else ""
                elif channel.target in expected or len(snap[channel.target]):
                    fact = _difference(
                        snap[channel.target].to_arrow(), channel.target, expected[channel.target]
                    )
                else:
                    continue
                if fact:
                    faults.append(Violation("the cells agree", None, (), f"cell {cell}: {fact}"))
    return [*dict.fromkeys(faults)]


def _difference(found: pa.Table, name: str, expected: list[pa.Table]) -> str:
    """Describe a row that one of two tables has and the other lacks; empty if there is none."""
    expected_rows = pa.concat_tables(
        [found.slice(0, 0), *(table.cast(found.schema) for table in expected)]
    )
    changed = difference(found, expected_rows)
    for kind, words in (
        ("insert", "lacks {} rows that other cells have"),
        ("delete", "has {} rows that other cells lack"),
    ):
        odd = changed.filter(pc.equal(changed[CHANGE], kind)).drop_columns([CHANGE])
        if odd.num_rows:
            return f"{name} {words.format(odd.num_rows)}, as {tuple(odd.slice(0, 1).to_pylist()[0].values())}"
    return ""


# -- exact totals: a cell's part is floats whose exact sum it is, so that nothing is rounded before
# the view. The state of a total (ivm/views/exact_sum.py) has a word of 64 bits for each place of 32
# bits. Each half is exactly a float: a number of at most 32 bits, shifted by the place.


def total_parts(old: Snapshot | None, new: Snapshot, predicate: Predicate) -> pa.Table:
    """Return the changes of a total's parts between two versions: group columns, place, part,
    `_change_type`.

    Without an old version, all parts are insertions. O(changes). Raises RangeError for a part
    beyond float64.
    """
    name = f"{APART}{predicate.name}"
    tree = new.tree(name)
    if old is None:
        actions, rows = _all_inserted(new, tree)
    else:
        actions, rows = delta(pages_of_both(old, new), old.tree(name), tree)
    keys = len(predicate.keys)
    group, (places, amounts) = rows[: keys or 1], rows[keys or 1 : (keys or 1) + 2]
    low, high = amounts & 0xFFFFFFFF, amounts >> 32  # amount = high * 2^32 + low
    parts, numbers, totals = [], [], []
    for half, words in enumerate((low, high)):
        kept = (words != 0) | ((half == 0) & (amounts == 0))
        values = _as_floats(words[kept], places[kept] + half, predicate.name)
        parts.append(values)
        numbers.append(2 * places[kept] + half)
        totals.append(np.flatnonzero(kept))
    which = np.concatenate(totals)
    infinite = places[which] >= INFINITE
    beyond = np.array([np.inf, -np.inf, np.nan])[np.where(infinite, places[which] - INFINITE, 0)]
    value = np.where(infinite, beyond, np.concatenate(parts))
    columns = [
        new.decode(type_, np.ascontiguousarray(group[place, which]))
        for place, type_ in enumerate(predicate.keys)
    ]
    kinds = np.where(actions[which] == INSERT, "insert", "delete")
    return pa.table(
        [
            *columns,
            pa.array(np.concatenate(numbers)),
            pa.array(value),
            pa.array(kinds, pa.string()),
        ],
        names=[*predicate.columns[:keys], PLACE, predicate.columns[-1], CHANGE],
    )


def _all_inserted(snap: Snapshot, tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    rows = np.concatenate(
        [np.empty((tree.spec.columns, 0), np.int64), *read_batches(snap.pages, tree)], axis=1
    )
    return np.full(rows.shape[1], INSERT), rows


def _as_floats(words: np.ndarray, places: np.ndarray, name: str) -> np.ndarray:
    """Return words * 2^(32 place - UNIT) as floats; those of infinities are not used."""
    with np.errstate(over="ignore"):
        values = np.ldexp(
            words.astype(np.float64), np.minimum(32 * places - UNIT, 2048).astype(np.int32)
        )
    if not np.isfinite(values[places < INFINITE]).all():
        raise RangeError(f"{name}: what one cell makes of a total is beyond the range of float64")
    return np.asarray(values)
