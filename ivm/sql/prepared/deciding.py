"""Edits by key, decided many at a time: each on the rows as those before it left them.

All values become words, all rows are looked up at once, and a kernel decides (kernels/decide.py);
what rows have become in the end is stored.  A text that the store lacks has a word of its own
meanwhile, and gets one of the store if a row has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ivm.sql.prepared.cases import Keyed, Source, fitted, stored_as_given
from ivm.sql.prepared.kernels.decide import CHANGED, DECIDE, GONE, REFUSED, SOURCE
from ivm.sql.prepared.rows import Rows, Unusual, Words
from ivm.sql.rules import Column
from ivm.sql.types import VARCHAR
from pagestore.host import NULL, WORD_MAX, TextFinder, Type, encode, narrowed
from pagestore.host import Column as Stored

if TYPE_CHECKING:
    from ivm.transaction import Transaction

PROGRAMS_MOST = 256
FEW = 4  # texts that are looked up one by one
WORDS = NULL, WORD_MAX
TEXT = Stored("text", Type("string"))


class Operand(NamedTuple):
    """A word of each transaction: from a source of a statement, by number, for a column of a table;
    none if it is compared.
    """

    statement: int
    source: Source
    name: str
    place: int
    column: Column | None


class Program(NamedTuple):
    """What edits by key are, as the kernel takes them, with the operands of their sources, then
    those of keys; and of each step the table, and which operands are its key.
    """

    steps: np.ndarray
    sources: np.ndarray
    operands: list[Operand]
    keys: list[tuple[str, list[int]]]


@lru_cache(PROGRAMS_MOST)
def program(edits: tuple[Keyed, ...]) -> Program:
    """Return what some edits are."""
    operands, sought = list[Operand](), list[list[Operand]]()
    sources, steps = list[Words](), list[Words]()
    for number, edit in enumerate(edits):
        name, columns = edit.name, edit.columns
        for case in edit.cases:
            ends = list[int]()
            for part in (case.tests, case.changed or (), [*enumerate(case.new)]):
                ends.append(len(sources))
                for target, source in part:
                    column = None if part is case.tests else columns[target]
                    operands.append(Operand(number, source, name, target, column))
                    place = -1 if source.place is None else source.place
                    null = columns[place].nullable and (column is None or column.nullable)
                    bounds = stored_as_given(column.type)[1:] if column and place >= 0 else WORDS
                    to = target + (column is not None)
                    sources.append((to, place + 1, source.sign, null, *bounds))
            kind = REFUSED if case.changed is None else GONE if case.gone else CHANGED
            steps.append((*ends, len(sources), kind))
            key = zip(edit.key, case.where, strict=True)
            sought.append([Operand(number, source, name, p, columns[p]) for p, source in key])
    operands += {part: None for key in sought for part in key if part not in operands}
    keys = [(key[0].name, [*map(operands.index, key)]) for key in sought]
    table = np.array(sources, np.int64).reshape(-1, SOURCE)
    return Program(np.array(steps, np.int64), table, operands, keys)


class Decided:
    """What was decided of edits for each of many lists of values, given for each edit, one after
    the other: of the first `count`, whether each step was `made`, and what the rows of the tables,
    by name, have become.  If `whole`, none of a list is made where one edit would change no row.

    Raises Unusual, IvmError, PagestoreError, UnicodeEncodeError.  O(keys * height).
    """

    def __init__(
        self,
        txn: Transaction,
        edits: Sequence[Keyed],
        given: Sequence[Sequence[Sequence[Any]]],
        whole: bool,
    ) -> None:
        self._source, self._texts, self._unknown = txn._txn, txn._txn.dictionary, dict[str, int]()
        what, n = program((*edits,)), len(given[0])
        self._given = [[*zip(*lists, strict=True)] for lists in given]
        words = np.empty((n, len(what.operands)), np.int64)
        for number, operand in enumerate(what.operands):
            words[:, number] = self._words(operand, n)
        self.at = np.empty((n, len(what.keys)), np.int64)
        self.tables: dict[str, Rows] = {}
        end = width = 0
        for name in dict.fromkeys(edit.name for edit in edits):
            steps = [step for step, (other, _) in enumerate(what.keys) if other == name]
            keys = np.concatenate([words[:, what.keys[step][1]] for step in steps]).T
            self.tables[name] = table = Rows(txn, name, keys)
            self.at[:, steps] = table.numbers.reshape(-1, n).T + end
            end, width = end + len(table.rows), max(width, table.rows.shape[1])
        rows = np.zeros((end, width), np.int64)
        for table in reversed(self.tables.values()):
            end -= len(table.rows)
            part = rows[end : end + len(table.rows), : table.rows.shape[1]]
            part[:], table.rows = table.rows, part
        self.made, room = np.zeros_like(self.at), np.empty((len(what.keys), width), np.int64)
        self.count: int = DECIDE.call(
            what.steps, what.sources, words, self.at, whole, rows, self.made, room
        )

    def store(self) -> None:
        """Edit the tables as their rows have become."""
        for table in self.tables.values():
            table.store(self._add)

    def _words(self, operand: Operand, n: int) -> np.ndarray:
        """Return the words int64[n] of an operand.  Raises Unusual, PagestoreError."""
        statement, source, name, place, column = operand
        values = source.column(self._given[statement], n)
        if source.place is not None:
            added = source.number is not None or source.constant is not None
            # of many lists only the first was looked at
            if added and {*map(type, values)} != {int}:
                raise Unusual
        elif column is not None:
            values = fitted(column, values)
            stored = self._source[name].schema.columns[place]
            if stored.type.name != "int64" and column.type != VARCHAR:
                return narrowed(stored, encode(stored, values, self._texts))
        kinds = {*map(type, values)} - {type(None)}
        if not kinds <= {int, str}:
            raise Unusual
        if str in kinds:
            ids = self._ids(dict.fromkeys([v for v in values if type(v) is str]))
            values = [ids[v] if type(v) is str else v for v in values]
        numbers = [v for v in values if v is not None] if None in values else values
        if numbers and not NULL < min(numbers) <= max(numbers) < WORD_MAX:
            raise Unusual
        return np.array([NULL if v is None else v for v in values] if None in values else values)

    def _ids(self, texts: Collection[str]) -> dict[str, int]:
        """Return the words of texts, of those that the store lacks their own ones."""
        known: Iterable[int] = [self._texts.id_of(text.encode()) for text in [*texts][:FEW]]
        if len(texts) > FEW:  # one look-up for all
            known = encode(TEXT, [*texts], TextFinder(self._texts)).tolist()
        return {
            text: word or self._unknown.setdefault(text, NULL + 1 + len(self._unknown))
            for text, word in zip(texts, known, strict=True)
        }

    def _add(self, words: np.ndarray) -> np.ndarray:
        """Return words of a column of texts with the store's own for texts that it lacked."""
        texts = [*self._unknown]
        new = (words > NULL) & (words <= NULL + len(texts))
        if new.any():
            words[new] = encode(TEXT, [texts[n] for n in words[new] - NULL - 1], self._texts)
        return words
