"""A program over cells and in one store: both get the same batches, and must have the same rows and changes.

through_cells(text, transactions)       False where cells refuse the program, by name
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ivm
from ivm.errors import AggregateError, ConstructError, FunctionConflictError, RangeError
from ivm.spark import Cells
from ivm.spark.changes import CHANGE, schema_of

Edit = tuple[str, tuple, bool]
REFUSALS = FunctionConflictError, RangeError


class Twins:
    """Cells and one store that get the same batches; `change` compares rows, changes and refusals."""

    def __init__(self, folder: Path, text: str, cells: int, path: Path | str = ":memory:"):
        self.folder, self.number = folder / "cells", 0
        self.cells = Cells.create(self.folder, text, cells, options={"sync": "off"})
        self.one = ivm.open(path, sync="off")
        self.one.install(text)
        self.names = [name for name in self.one if "$" not in name]
        self.before = {name: [*self.one[name]] for name in self.names}  # the newest batch that was taken

    def change(self, edits: Sequence[Edit]) -> None:
        """Send a batch, of each key its last edit; what the store refuses, the cells refuse."""
        newest: dict[tuple[str, tuple], tuple[tuple, bool]] = {}
        for name, row, inserted in edits:
            key = row[: len(self.one.predicates[name].keys)]
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
        for name in self.names:
            there = [*self.one[name]]
            assert Counter(map(_plain, self.cells[name])) == Counter(map(_plain, there)), name
            if before is not None:
                gone, come = Counter(map(_plain, before[name])), Counter(map(_plain, there))
                expected = Counter((*row, "insert") for row in come - gone)
                expected += Counter((*row, "delete") for row in gone - come)
                assert Counter(map(_plain, self.cells.changes(name))) == expected, f"changes of {name}"

    def close(self) -> None:
        """Close both."""
        self.cells.close()
        self.one.close()


def through_cells(text: str, transactions: Iterable[Sequence[Edit]], cells: int = 3, checked: bool = True) -> bool:
    """Whether cells take the program; then all batches passed through them, as through one store.

    Edits are (relation, row, inserted), a function's value last; of a deletion only the key matters.
    """
    with tempfile.TemporaryDirectory() as folder:
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
        made[name] = pa.table([pa.array(values, field.type) for field, values in columns], names=schema.names)
    assert all(table.column_names[-1] == CHANGE for table in made.values())
    return made


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row whose times are told apart by their zones, and whose lists are values."""
    return tuple(value.isoformat() if hasattr(value, "isoformat") else value for value in row)
