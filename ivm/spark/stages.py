"""The stages that an executor runs in cells between two shuffles: `stage(batch, cell, messages) ->
messages`.

Lost cells are rebuilt from what the others send to them, and from the others' copies of their base
rows:

cells 0, 2, 3       all that they would send to cell 1 if every row were new, and the fragment rows whose home it is
cell 1, round 0     the base rows;  a later round: the messages for it, and those that cell 1 sent itself
"""

import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ivm.spark import cell as cells
from ivm.spark.cell import (
    TICK,
    Batch,
    CellsError,
    Message,
    changes_of,
    found_at,
    kept,
    messages_of,
    opened,
)
from ivm.spark.executors import (
    SQL_SCHEMA,
    Executor,
    Rounds,
    Stage,
    mapped,
    read_messages,
    through,
    ticks,
    write_messages,
)
from ivm.spark.layout import BASE, FRAGMENT, Layout
from ivm.spark.shares import Sizes, counts, hash_value, limit, replication
from pagestore.host import Violation, as_inserted

REBUILT = ".rebuilt"  # suffix of a generation's folder for the stores that are rebuilt
RESULT = 0  # the channel of messages to the driver


def create(batch: Batch, cell: int, _: list[Message], rules: Mapping[str, Any]) -> list[Message]:
    """Make the cell's store."""
    cells.create(batch.folder, batch.layout, cell, rules, batch.options)
    return []


def step(batch: Batch, cell: int, messages: list[Message], round: int) -> list[Message]:
    """Apply a round."""
    return cells.step(batch, cell, round, messages)


def undo(batch: Batch, cell: int, _: list[Message]) -> list[Message]:
    """Undo a batch."""
    cells.undo(batch, cell)
    return []


def rows_of(batch: Batch, cell: int, _: list[Message], name: str, changed: bool) -> list[Message]:
    """Send the rows of a relation or view, or their changes, to the driver."""
    return [Message(cell, RESULT, cells.write_table(cells.rows_of(batch, cell, name, changed)))]


def table_of(message: Message) -> pa.Table:
    """Return the rows in a message."""
    return cells.read_table(message.payload)


def fault(batch: Batch, cell: int, _: list[Message]) -> list[Message]:
    """Report why the cell's store is not as the newest batch left it, if so."""
    fault_text = cells.fault_of(batch, cell)
    return [Message(cell, RESULT, fault_text.encode())] if fault_text else []


def audit(batch: Batch, cell: int, _: list[Message]) -> list[Message]:
    """Send all that other cells should have."""
    return cells.audit(batch, cell)


def compare(batch: Batch, cell: int, messages: list[Message]) -> list[Message]:
    """Send the cell's violations to the driver."""
    return [Message(cell, RESULT, pickle.dumps(cells.compare(batch, cell, messages)))]


def violations_of(message: Message) -> list[Violation]:
    """Return the violations that `compare` found."""
    violations: list[Violation] = pickle.loads(message.payload)
    return violations


def moved(batch: Batch, cell: int, _: list[Message], old: Batch) -> list[Message]:
    """Send the base rows of an old cell to their home cells in a new layout."""
    messages: list[Message] = []
    for number, channel in enumerate(batch.layout.channels if cell < old.layout.cells else ()):
        if channel.kind == BASE:
            rows = cells.rows_of(old, cell, channel.target)
            messages += messages_of(as_inserted(rows), number, channel)
    return messages


def sizes_of(batch: Batch, cell: int, _: list[Message], cells_wanted: int) -> list[Message]:
    """Send the row counts of the cell's relations and views, and hashes of values that many of
    its base rows have.
    """
    sizes: dict[str, int] = {}
    frequent: dict[tuple[str, int], dict[int, int]] = {}
    bases = {channel.target for channel in batch.layout.channels if channel.kind == BASE}
    for name in batch.layout.homes:
        table = cells.rows_of(batch, cell, name.replace("$", " @"))
        sizes[name] = table.num_rows
        for place, column in enumerate(
            table.columns if name in bases and table.num_columns > 1 else ()
        ):
            few = table.num_rows / cells_wanted / 2
            frequent[name, place] = {
                hash_value(value, column.type): n
                for value, n in counts(column)
                if n > few and value is not None
            }
    return [Message(cell, RESULT, pickle.dumps((sizes, frequent)))]


def merge_sizes(messages: Iterable[Message], cells_wanted: int) -> Sizes:
    """Add up the sizes of all cells."""
    sizes: Counter[str] = Counter()
    frequent: dict[tuple[str, int], Counter[int]] = {}
    for message in messages:
        of_cell, by_column = pickle.loads(message.payload)
        sizes.update(of_cell)
        for column, hashes in by_column.items():
            frequent.setdefault(column, Counter()).update(hashes)
    hot = {
        column: frozenset(
            hash_ for hash_, n in counts.items() if n > limit(sizes[column[0]], cells_wanted)
        )
        for column, counts in frequent.items()
    }
    return Sizes(
        {name: max(1, n) for name, n in sizes.items()},
        {column: hashes for column, hashes in hot.items() if hashes},
    )


# -- lost cells


def copies_of_bases(
    layout: Layout, lost: Collection[int], tables: Mapping[str, Any]
) -> dict[int, str]:
    """Return, for each base channel without a table, a fragment with a copy of each row in a cell
    that is not lost.

    Raises CellsError if there is none, since a row may have been in lost cells only.
    """
    names: dict[int, str] = {}
    for number, base in enumerate(layout.channels):
        if base.kind == BASE and base.target not in tables:
            for channel in layout.channels:
                copies = (
                    channel.kind == FRAGMENT
                    and channel.source == base.target
                    and replication(channel.routing)
                )
                if copies > len(lost):
                    names[number] = channel.target
    missing = [c.target for n, c in enumerate(layout.channels) if c.kind == BASE and n not in names]
    if missing := [name for name in missing if name not in tables]:
        raise CellsError(
            f"lost are cells {', '.join(map(str, sorted(lost)))}, and rows of {', '.join(missing)} "
            "that were at home there may be in no other: give tables= with all rows of each, as "
            "they were after the newest batch"
        )
    return names


def sent_to(
    batch: Batch, cell: int, _: list[Message], lost: Collection[int], copies: Mapping[int, str]
) -> list[Message]:
    """Return what a cell sends to lost ones if every row is new, and the rows of its `copies`
    whose home they are.
    """
    if cell in lost:
        return []
    sent: list[Message] = []
    with opened(batch, cell, mode="r") as workspace:
        version, _progress = found_at(workspace.store, batch, cell)
        with kept(workspace.store, version, cell) as snap:
            for number, channel in enumerate(batch.layout.channels):
                if channel.kind != BASE:
                    table = changes_of(workspace, channel, cell, batch.layout.cells, None, version)
                elif number in copies:
                    table = as_inserted(snap[copies[number]].to_arrow())
                else:
                    continue
                sent += [
                    message
                    for message in messages_of(table, number, channel)
                    if message.cell in lost
                ]
    return sent


def collected(table: Any, send: Callable[[Any], list[Message]]) -> list[Message]:
    """Return the messages that `send` makes of a table or a DataFrame, in this process."""
    if not hasattr(table, "mapInArrow"):
        return send(table)
    return read_messages(mapped(table, send, SQL_SCHEMA).toArrow())


def made_again(
    run: Executor,
    batch: Batch,
    lost: Collection[int],
    messages: list[Message],
    install: Mapping[str, Any],
) -> Rounds:
    """Make the stores of lost cells from messages of all rounds, in a folder next to that of
    their generation.
    """
    folder = Path(batch.folder + REBUILT)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    file = folder / "messages.parquet"
    pq.write_table(write_messages([*messages, *ticks(lost)]), file)
    batch = batch._replace(
        folder=str(folder),
        number=max(0, batch.number),
        token=f"{batch.token} again",
        versions=(0,) * batch.layout.cells,
    )
    rounds: list[Stage] = [partial(_again, round=r, lost=lost) for r in range(batch.layout.rounds)]
    done = through(run, batch, [partial(_create_anew, rules=install), *rounds], [str(file)])
    done.raise_failure()
    return done


def _create_anew(
    batch: Batch, cell: int, messages: list[Message], rules: Mapping[str, Any]
) -> list[Message]:
    create(batch, cell, [], rules)
    return messages


def _again(
    batch: Batch, cell: int, messages: list[Message], round: int, lost: Collection[int]
) -> list[Message]:
    """Apply the messages of a round, and pass on those of later ones."""
    later = [
        m for m in messages if m.channel != TICK and batch.layout.channels[m.channel].round > round
    ]
    now = [
        m for m in messages if m.channel == TICK or batch.layout.channels[m.channel].round == round
    ]
    return later + [m for m in cells.step(batch, cell, round, now) if m.cell in lost]
