"""A program over cells and in one store: both get the same batches, and must have the same rows and
changes.

through_cells(text, transactions)       False where cells refuse the program, by name
"""

import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ivm
import pagestore
from ivm.answer import Answer
from ivm.errors import (
    AggregateError,
    ConstructError,
    FunctionConflictError,
    RangeError,
    RuleWarning,
)
from ivm.spark import Cells
from ivm.spark.cell import CellsError, path_of, rows_in
from ivm.spark.changes import CHANGE, key_count, schema_of

Edit = tuple[str, tuple, bool]
REFUSALS = FunctionConflictError, RangeError


class Twins:
    """Cells and one store that get the same batches; `change` compares rows, changes and
    refusals.
    """

    def __init__(self, folder: Path, text: str, cells: int, path: Path | str = ":memory:"):
        self.folder, self.number = folder / "cells", 0
        self.cells = Cells.create(self.folder, text, cells, options={"sync": "off"})
        self.one = ivm.open(path, sync="off")
        self.one.install(text)
        self.names = [name for name in self.one if "$" not in name]
        # the newest batch that was taken
        self.before = {name: [*self.one[name]] for name in self.names}

    def change(self, edits: Sequence[Edit]) -> None:
        """Send a batch, of each key its last edit; what the store refuses, the cells refuse."""
        newest: dict[tuple[str, tuple], tuple[tuple, bool]] = {}
        for name, row, inserted in edits:
            key = row[: key_count(self.one.predicates[name])]
            newest.pop((name, key), None)
            newest[name, key] = row, inserted
        self.number += 1
        before = {name: [*self.one[name]] for name in self.names}
        try:
            with self.one.transaction() as txn:
                for (name, key), (row, inserted) in newest.items():
                    txn.set(name, [row]) if inserted else txn.delete(name, [key])
        except REFUSALS:
            with pytest.raises(REFUSALS):
                self.apply(newest)
        else:
            self.apply(newest)
            self.before = before
        self.compare(self.before)

    def apply(self, newest: dict) -> None:
        """Send a batch to the cells."""
        self.cells.apply(self.number, tables(self.one, newest))

    def compare(self, before: dict[str, list[tuple]] | None = None) -> None:
        """All rows are the same, each once; and the changes, where the rows before are given."""
        rows, changes = _everything(self.cells, self.names)
        for name in self.names:
            there = Counter(map(_plain, self.one[name]))
            assert rows[name] == there, (
                f"{name} lacks {there - rows[name]} and has {rows[name] - there} too many"
            )
            if before is not None:
                then = Counter(map(_plain, before[name]))
                expected = Counter((*row, "insert") for row in there - then)
                expected += Counter((*row, "delete") for row in then - there)
                assert changes[name] == expected, (
                    f"changes of {name} are {changes[name]}, not {expected}"
                )
        # by the way of users, of which the others are the quick one
        name = self.names[self.number % len(self.names)]
        assert Counter(map(_plain, self.cells[name])) == rows[name]
        assert Counter(map(_plain, self.cells.changes(name))) == changes[name]

    def close(self) -> None:
        """Close both."""
        self.cells.close()
        self.one.close()


def through_cells(
    text: str, transactions: Iterable[Sequence[Edit]], cells: int = 3, checked: bool = True
) -> bool:
    """Whether cells take the program; then all batches passed through them, as through one store.

    Edits are (relation, row, inserted), a function's value last; of a deletion only the key
    matters.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuleWarning)  # of random programs
        try:
            twins = Twins(Path(folder), text, cells)
        except (ConstructError, AggregateError) as refused:
            assert "cells" in str(refused), refused
            return False
        try:
            for edits in transactions:
                twins.change(edits)
            assert not checked or twins.cells.check() == []
        finally:
            twins.close()
    return True


def tables(workspace: ivm.Workspace, newest: dict) -> dict[str, pa.Table]:
    """The changes of a batch, a table for each relation; of a deletion only the key matters."""
    found: dict[str, list] = {}
    for (name, _), (row, inserted) in newest.items():
        found.setdefault(name, []).append((*row, "insert" if inserted else "delete"))
    made = {}
    for name, rows in found.items():
        schema = schema_of(workspace.predicates[name], changed=True)
        columns = zip(schema, zip(*rows, strict=True), strict=True)
        made[name] = pa.table(
            [pa.array(values, field.type) for field, values in columns], names=schema.names
        )
    assert all(table.column_names[-1] == CHANGE for table in made.values())
    return made


def _everything(
    cells: Cells, names: Sequence[str]
) -> tuple[dict[str, Counter], dict[str, Counter]]:
    """Rows and changes by name, for which each cell is opened once."""
    found: tuple[dict[str, Counter], dict[str, Counter]] = ({}, {})
    for name in names:
        found[0][name], found[1][name] = Counter(), Counter()
    batch = cells._done_batch()
    for number in range(batch.layout.cells):
        if not path_of(batch.folder, number).exists():
            raise CellsError(f"{path_of(batch.folder, number)} is missing")
        with pagestore.open(path_of(batch.folder, number), mode="r") as store:
            for name in names:
                for counts, changed in zip(found, (False, True), strict=True):
                    schema = schema_of(cells._state.predicates[name], changed)
                    table = rows_in(store, batch, number, name, changed).cast(schema)
                    counts[name].update(map(_plain, Answer(table)))
    return found


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row whose times are told apart by their zones, and whose lists are values."""
    return tuple(value.isoformat() if hasattr(value, "isoformat") else value for value in row)
