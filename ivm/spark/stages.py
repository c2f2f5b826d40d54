"""The stages that an executor runs in cells between two shuffles: `stage(batch, cell, messages) -> messages`."""

import pickle
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from ivm.spark import cell as cells
from ivm.spark.cell import Batch, Message
from ivm.spark.changes import as_inserted
from ivm.spark.layout import BASE
from ivm.spark.routing import hash_value
from ivm.spark.sizes import Sizes, counts, limit
from pagestore.host import Violation

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
    found = cells.fault_of(batch, cell)
    return [Message(cell, RESULT, found.encode())] if found else []


def audit(batch: Batch, cell: int, _: list[Message]) -> list[Message]:
    """Send all that other cells should have."""
    return cells.audit(batch, cell)


def compare(batch: Batch, cell: int, messages: list[Message]) -> list[Message]:
    """Send the cell's violations to the driver."""
    return [Message(cell, RESULT, pickle.dumps(cells.compare(batch, cell, messages)))]


def violations_of(message: Message) -> list[Violation]:
    """Return the violations that `compare` found."""
    found: list[Violation] = pickle.loads(message.payload)
    return found


def moved(batch: Batch, cell: int, _: list[Message], old: Batch) -> list[Message]:
    """Send the base rows of an old cell to their home cells in a new layout."""
    found: list[Message] = []
    for number, channel in enumerate(batch.layout.channels if cell < old.layout.cells else ()):
        if channel.kind == BASE:
            rows = cells.rows_of(old, cell, channel.target)
            found += cells.messages_of(as_inserted(rows), number, channel)
    return found


def sizes_of(batch: Batch, cell: int, _: list[Message], cells_wanted: int) -> list[Message]:
    """Send the row counts of the cell's relations and views, and hashes of values that many of its base rows have."""
    sizes: dict[str, int] = {}
    frequent: dict[tuple[str, int], dict[int, int]] = {}
    bases = {channel.target for channel in batch.layout.channels if channel.kind == BASE}
    for name in batch.layout.homes:
        table = cells.rows_of(batch, cell, name.replace("$", " @"))
        sizes[name] = table.num_rows
        for place, column in enumerate(table.columns if name in bases and table.num_columns > 1 else ()):
            few = table.num_rows / cells_wanted / 2
            frequent[name, place] = {
                hash_value(value, column.type): n for value, n in counts(column) if n > few and value is not None
            }
    return [Message(cell, RESULT, pickle.dumps((sizes, frequent)))]


def merge_sizes(messages: Iterable[Message], cells_wanted: int) -> Sizes:
    """Add up the sizes of all cells."""
    sizes: Counter[str] = Counter()
    frequent: dict[tuple[str, int], Counter[int]] = {}
    for message in messages:
        of_cell, found = pickle.loads(message.payload)
        sizes.update(of_cell)
        for column, hashes in found.items():
            frequent.setdefault(column, Counter()).update(hashes)
    hot = {
        column: frozenset(hash_ for hash_, n in found.items() if n > limit(sizes[column[0]], cells_wanted))
        for column, found in frequent.items()
    }
    return Sizes(
        {name: max(1, n) for name, n in sizes.items()}, {column: found for column, found in hot.items() if found}
    )
