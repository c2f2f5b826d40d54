"""A workspace beside the slow truth: both get the same edits, and must have the same rows."""

from collections.abc import Iterable
from pathlib import Path

import pytest

import ivm
from ivm.errors import ConstraintError, FunctionConflictError, RangeError
from ivm.lang.ir import ROPE
from ivm.names import WHOLE
from ivm.rules.compile import compile
from tests.support import naive

Edit = tuple[str, tuple, bool]
# of two that there are it is not said which comes first
REFUSALS = FunctionConflictError, RangeError, ConstraintError


class Mirror:
    """`Mirror(path, text)` installs the text; `change(edits)` is one transaction, then compares."""

    def __init__(self, path: Path | str, text: str, **options: object):
        self.path = path
        self.program = compile(text)
        self.state = naive.evaluate(self.program, naive.empty(self.program))
        self.workspace = ivm.open(path, sync="off")
        self.workspace.install(text, **options)
        self.compare()

    def install(self, name: str, text: str, **options: object) -> None:
        """Install more rules; where the truth refuses what they derive, so must the workspace."""
        program = self.program.including(compile(text, self.program))
        try:
            expected = naive.evaluate(program, self.state)
        except REFUSALS:
            with pytest.raises(REFUSALS):
                self.workspace.install(text, name, **options)
        else:
            self.workspace.install(text, name, **options)
            self.program, self.state = program, expected
        self.compare()

    def change(self, edits: Iterable[Edit]) -> None:
        """One transaction; where the truth refuses its result, so must the workspace, and
        nothing changes.
        """
        edits = list(edits)
        state = {name: rows.copy() for name, rows in self.state.items()}
        for name, row, inserted in edits:
            naive.change(state[name], row, inserted)
        try:
            expected = naive.evaluate(self.program, state)
        except REFUSALS:
            with pytest.raises(REFUSALS):
                self._edit(edits)
        else:
            self._edit(edits)
            self.state = expected
        self.compare()

    def insert(self, name: str, *rows: tuple) -> None:
        self.change([(name, row, True) for row in rows])

    def delete(self, name: str, *rows: tuple) -> None:
        self.change([(name, row, False) for row in rows])

    def reopen(self) -> None:
        self.workspace.close()
        self.workspace = ivm.open(self.path, sync="off")
        self.compare()

    def compare(self) -> None:
        """Every predicate of the workspace holds the rows of the truth, each once."""
        for name, predicate in self.program.predicates.items():
            if "$" not in name:
                rows = list(self.workspace[name])
                if predicate.value == ROPE:
                    assert [
                        (*key, str(self.workspace.rope(name, *key))) for *key, _ in rows
                    ] == rows, name
                truth = self.state.get(name + WHOLE, self.state[name])
                assert sorted(rows) == sorted(naive.rows_of(truth)), name
                assert len(self.workspace[name]) == len(rows), name
                assert all(len(row) == len(predicate.types) for row in rows)

    def close(self) -> None:
        self.workspace.close()

    def _edit(self, edits: list[Edit]) -> None:
        with self.workspace.transaction() as txn:
            for name, row, inserted in edits:
                if not inserted:
                    key = row[: len(self.program.predicates[name].keys)]
                    txn.delete(name, [key])
                elif self.program.predicates[name].value is None:
                    txn.insert(name, [row])
                else:
                    txn.set(name, [row])
