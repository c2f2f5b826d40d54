"""Rows of a table by their keys, in a transaction with its edits so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ivm.views.edit_composition import TAKE
from pagestore.host import ERASE, INSERT, SET, Edits, begins, get, sort_order, value_of_word

if TYPE_CHECKING:
    from ivm.transaction import Transaction

Words = Sequence[int]
Row = tuple[Any, ...]


class Unusual(Exception):
    """A statement, or a value of it, that is not done here."""


class Edited(NamedTuple):
    """The keys of the first `done` edits of a list, with their values, or None if they are gone."""

    edits: list[Edits]
    done: int
    values: dict[Words, Words | None]


def unchanged_catalog(txn: Transaction) -> Any:
    """Return the catalog of the version that a transaction began with; None if it may become
    another one, or if the edits are not committed by the transaction.
    """
    catalog = txn._txn.catalog
    return catalog if txn._maintainer and catalog is txn._txn.base.catalog else None


class Rows:
    """The rows that keys of a table have, as edits leave them: rows[R, 1 + C], each with whether it
    is there and its words, in the order of the columns; `numbers` are those of each key.
    """

    def __init__(self, txn: Transaction, name: str, keys: np.ndarray) -> None:
        """Look rows up by keys[K, n], in the order of the table's key.  O(keys * height), and
        O(edits) once for each edit.
        """
        self._txn, self._name, source = txn, name, txn._txn
        self._schema = schema = source[name].schema
        if source[name].info.spec.columns != len(schema.columns):
            raise Unusual
        self.numbers = np.zeros(keys.shape[1], np.int64)
        if keys.shape[1] > 1:
            order = sort_order(keys)
            starts = begins(keys[:, order])
            self.numbers[order] = np.cumsum(starts) - 1
            keys = keys[:, order[starts]]
        there, values = get(source.pages, source.tree(name), keys)
        self.rows = np.concatenate([there[None], np.concatenate([keys, values])[schema.places]]).T
        if edited := _edited(txn, name):
            for place, key in enumerate(zip(*keys.tolist(), strict=True)):
                if key in edited:
                    found = edited[key]
                    row = np.array([*key, *(found or values[:, place])])[schema.places]
                    self.rows[place] = (found is not None, *row)
        self.rows = np.ascontiguousarray(self.rows)
        self._before = self.rows.copy()

    def shown(self, numbers: np.ndarray, before: bool) -> list[Row]:
        """Return rows by their numbers, as they are or were."""
        columns, texts = self._schema.columns, self._txn._txn.dictionary
        return [
            tuple([value_of_word(c.type, w, texts) for c, w in zip(columns, row, strict=True)])
            for row in (self._before if before else self.rows)[numbers, 1:].tolist()
        ]

    def store(self, added: Callable[[np.ndarray], np.ndarray]) -> None:
        """Edit the table, with what `added` has for the words of texts."""
        are, were = self.rows[:, 0] > 0, self._before[:, 0] > 0
        changed = are & (self.rows != self._before).any(axis=1)
        for place, column in enumerate(self._schema.columns, 1):
            if column.type.name == "string" and changed.any():
                self.rows[changed, place] = added(self.rows[changed, place])
        # `take` and `compress` leave rows as kernels read them, which indices do not
        words = self.rows[:, 1:].T.take(np.argsort(self._schema.places), axis=0)
        if changed.any():
            self._txn._put(self._name, SET, words.compress(changed, axis=1))
        if (gone := were & ~are).any():
            words[len(self._schema.key) :] = 0
            self._txn._put(self._name, ERASE, words.compress(gone, axis=1))


def _edited(txn: Transaction, name: str) -> dict[Words, Words | None]:
    """Return the values of the keys that were edited so far, which the store does not have yet."""
    source, edits = txn._txn, txn._edits.get(name, [])
    if not edits:
        return {}
    seen = txn.read_by_key.get(name)
    if seen is None or seen.edits is not edits:  # a savepoint that is undone leaves another list
        seen = Edited(edits, 0, {})
    known, find, keys = seen.values, source.finder(name).find, source.tree(name).spec.keys
    for actions, words in edits[seen.done :]:
        for action, *row in zip(actions.tolist(), *words.tolist(), strict=True):
            key, values = tuple(row[:keys]), tuple(row[keys:])
            there = known[key] if key in known else find(key)
            if action == SET or (action == INSERT and there is None):
                known[key] = values
            elif action == ERASE or (action == TAKE and there == values):
                known[key] = None
    txn.read_by_key[name] = seen._replace(done=len(edits))
    return known
