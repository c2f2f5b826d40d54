"""Rows of a table by their keys, in a transaction with its edits so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from ivm.views.edit_composition import TAKE
from pagestore.host import ERASE, INSERT, SET, Edits, get, value_of_word

if TYPE_CHECKING:
    from ivm.transaction import Transaction

FEW = 8  # keys that are looked up one by one
Words = Sequence[int]
Row = tuple[Any, ...]


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


def rows_at(txn: Transaction, name: str, keys: list[Row]) -> list[Row | None]:
    """Return the rows of keys, None for a key that no row has.

    O(keys * height), and O(edits) once for each edit.
    """
    source = txn._txn
    relation, texts, find = source[name], source.dictionary, source.finder(name).find
    schema, edited = relation.schema, _edited(txn, name)
    types = [column.type for column in schema.stored]
    given = relation.encode(keys, keys_allowed=True, add=False)[: len(schema.key)]
    every, rows = [*zip(*given.tolist(), strict=True)], list[Row | None]()
    stored_rows: Iterable[Words | None] = map(find, every)
    if len(every) > FEW:  # one call of a kernel for all
        there, stored = get(source.pages, source.tree(name), given)
        columns, are_there = stored.tolist(), there.tolist()
        each = zip(*columns, strict=True) if columns else repeat((), len(every))
        pairs = zip(are_there, each, strict=True)
        stored_rows = (row if is_there else None for is_there, row in pairs)
    for key, values in zip(every, stored_rows, strict=True):
        if key in edited:
            values = edited[key]
        row = None
        if values is not None:
            words = (*key, *values)
            row = tuple([value_of_word(types[p], words[p], texts) for p in schema.places])
        rows.append(row)
    return rows


def is_any_there(txn: Transaction, name: str, columns: dict[str, Any]) -> bool:
    """Return whether a row has one of some keys, given by columns.  O(keys * height)."""
    source, edited = txn._txn, _edited(txn, name)
    words = source[name].encode(columns, keys_allowed=True, add=False)
    tree = source.tree(name)
    given = words[: tree.spec.keys]
    there = get(source.pages, tree, given)[0]
    if not edited:
        return bool(there.any())
    pairs = zip(zip(*given.tolist(), strict=True), there.tolist(), strict=True)
    return any(edited[key] is not None if key in edited else is_there for key, is_there in pairs)


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
