"""Edit an existing relation by rows that are inserted, replace others, or are deleted."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from pagestore.host import ERASE, INSERT, SET, Transaction, WritableRelation, get, read_batches
from pagestore.tooling import LARGE_WORDS, additions, batch_rows, end_words, read, removals

from .fill import CONFLICTS_SHOWN, Conflicts

FEW_KEYS = 10_000  # that are looked up one by one
NO_KEY = "is a bag, which has no key by which rows are replaced"
PUT_IN_PLACE = "keep one of them, or put the new values in place with --upsert"
EDIT_ROWS = 1 << 20  # rows of one batch of edits: the larger, the fewer pages are written twice


class Edited:
    """The result of edits: the numbers of rows inserted, changed and deleted.

    `keys` are, in parts int64[K, n], those of the rows that replaced others, or that were deleted.
    """

    def __init__(self) -> None:
        self.inserted = self.changed = self.deleted = 0
        self.keys: list[np.ndarray] = []


def append(
    txn: Transaction,
    relation: WritableRelation,
    words: Iterable[np.ndarray],
    source: str,
    remedy: str = PUT_IN_PLACE,
    most: int = CONFLICTS_SHOWN,
) -> Edited:
    """Insert rows, int64[C, n] in any order; rows that exist already change nothing, but a bag gets
    each once more.

    Raises RepeatedKeys, with the number of such keys and at most `most` of them, if a key exists
    with other values. O(rows * height).
    """
    edited, keys = Edited(), len(relation.schema.key)
    conflicts = Conflicts(most)
    for rows in _large(words):
        if relation.info.bag:
            txn.apply(relation.name, *additions(rows))
            edited.inserted += rows.shape[1]
            continue
        actions, _ = txn.apply(relation.name, np.full(rows.shape[1], INSERT), rows)
        edited.inserted += len(actions)
        if len(actions) < rows.shape[1] and len(rows) > keys:
            stored = get(txn.pages, txn.tree(relation.name), rows[:keys], txn.threads)[1]
            differ = (stored != rows[keys:]).any(axis=0)
            conflicts.add(np.concatenate([rows[:keys], stored])[:, differ], rows[:, differ])
    conflicts.refuse(txn, relation, source, remedy)
    return edited


def upsert(
    txn: Transaction,
    relation: WritableRelation,
    words: Iterable[np.ndarray],
    keep_keys: bool = False,
) -> Edited:
    """Insert rows, int64[C, n], or replace the values of existing keys; the last row of a key
    counts.

    O(rows * height).
    """
    edited = Edited()
    for rows in _large(words):
        actions, _ = txn.apply(relation.name, np.full(rows.shape[1], SET), rows)
        changed = int(np.count_nonzero(actions == ERASE))
        edited.changed += changed
        edited.inserted += len(actions) - 2 * changed
        edited.keys += [rows[: len(relation.schema.key)]] * keep_keys
    return edited


def delete(
    txn: Transaction,
    relation: WritableRelation,
    words: Iterable[np.ndarray],
    keep_keys: bool = False,
) -> Edited:
    """Delete the rows with keys int64[K, n], or whole rows int64[C, n], only if their values are
    the same.

    A bag loses one row for each that is given.  O(rows * height).
    """
    edited, keys = Edited(), len(relation.schema.key)
    width = len(relation.schema.columns)
    for given in _large(words):
        rows = given
        if relation.info.bag:
            actions, rows = removals(*relation.view(), given, every=False)
            txn.apply(relation.name, actions, rows)
            edited.deleted -= int(rows[-1].sum())
            continue
        if len(given) > keys:
            found, stored = get(txn.pages, txn.tree(relation.name), given[:keys], txn.threads)
            rows = given[:, found & (stored == given[keys:]).all(axis=0)]
        rows = np.concatenate([rows[:keys], np.zeros((width - keys, rows.shape[1]), np.int64)])
        actions, gone = txn.apply(relation.name, np.full(rows.shape[1], ERASE), rows)
        edited.deleted += len(actions)
        edited.keys += [gone[:keys]] * keep_keys
    return edited


def delete_prefixes(
    txn: Transaction, relation: WritableRelation, words: Iterable[np.ndarray]
) -> Edited:
    """Delete rows whose keys begin with one of the prefixes int64[K, n], like `delete_below`."""
    edited = Edited()
    for prefixes in _large(words):
        edited.deleted += sum(
            _rows(relation, gone) for gone in delete_below(txn, relation, prefixes)
        )
        edited.keys.append(prefixes)
    return edited


def delete_matching(
    txn: Transaction, relation: WritableRelation, places: Sequence[int], words: Iterable[np.ndarray]
) -> Edited:
    """Delete the rows with one of int64[K, n] in the columns `places`. O(records) for a batch."""
    edited, keys = Edited(), len(relation.schema.key)
    for batch in _large(words):
        for gone in _erased(txn, relation, _matching(relation, places, batch)):
            edited.deleted += _rows(relation, gone)
            edited.keys.append(gone[:keys])
    return edited


def delete_below(
    txn: Transaction, relation: WritableRelation, keys: np.ndarray
) -> list[np.ndarray]:
    """Delete the rows whose keys begin with one of int64[K, n]; return them, in parts int64[C, n].

    O(n * height) for a few, O(records) for many.
    """
    return _erased(txn, relation, _below(relation, keys))


def count_returned(
    txn: Transaction, relation: WritableRelation, gone: list[np.ndarray]
) -> tuple[int, int, int]:
    """Count deleted rows, in parts int64[C, n]: all, those whose key exists again, and those of
    these whose values are different now. O(rows * height).
    """
    keys, every, again, other = len(relation.schema.key), 0, 0, 0
    for rows in gone:
        found, stored = get(txn.pages, txn.tree(relation.name), rows[:keys], txn.threads)
        every += rows.shape[1]
        again += int(np.count_nonzero(found))
        other += int(np.count_nonzero(found & (stored != rows[keys:]).any(axis=0)))
    return every, again, other


def are_repeated(parts: list[np.ndarray]) -> bool:
    """Return whether a key is repeated in parts int64[K, n]."""
    items = np.concatenate([_as_items(keys) for keys in parts]) if parts else np.zeros(0)
    return len(np.unique(items)) < len(items)


def _erased(
    txn: Transaction, relation: WritableRelation, parts: Iterable[np.ndarray]
) -> list[np.ndarray]:
    """Delete the records with keys, in parts int64[K, n]; return them, in parts int64[C, n]."""
    width, batches = relation.info.spec.columns, []
    for keys in parts:
        gone = np.concatenate([keys, np.zeros((width - len(keys), keys.shape[1]), np.int64)])
        batches.append(txn.apply(relation.name, np.full(keys.shape[1], ERASE), gone)[1])
    return batches


def _rows(relation: WritableRelation, records: np.ndarray) -> int:
    """Return how many rows there are in records int64[C, n]."""
    return int(records[-1].sum()) if relation.info.bag else records.shape[1]


def _below(relation: WritableRelation, keys: np.ndarray) -> list[np.ndarray]:
    """Return the keys of the records with prefixes int64[K, n], in parts."""
    pages, tree = relation.view()
    columns = tuple(range(tree.spec.keys))
    if keys.shape[1] <= FEW_KEYS:
        parts = [
            read(pages, tree, key, end_words(key), columns) for key in map(tuple, keys.T.tolist())
        ]
        return [np.concatenate(parts, axis=1)] if parts else []
    return _matching(relation, range(len(keys)), keys)


def _matching(
    relation: WritableRelation, places: Sequence[int], values: np.ndarray
) -> list[np.ndarray]:
    """Return in parts the keys of records that have one of int64[K, n] in columns at `places`."""
    pages, tree = relation.view()
    columns = tuple(sorted({*range(tree.spec.keys), *places}))
    at, items = [columns.index(place) for place in places], _as_items(values)
    return [
        batch[: tree.spec.keys, np.isin(_as_items(batch[at]), items)]
        for batch in (read_batches(pages, tree, columns=columns) if tree.count else ())
    ]


def _as_items(keys: np.ndarray) -> np.ndarray:
    """Return the keys int64[K, n] as n items that can be compared for equality."""
    rows = np.ascontiguousarray(keys.T)
    return rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel()


def _large(batches: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Concatenate batches to about EDIT_ROWS rows each, or LARGE_WORDS words."""
    held: list[np.ndarray] = []
    for batch in batches:
        held.append(batch)
        if sum(part.shape[1] for part in held) >= batch_rows(len(batch), EDIT_ROWS, LARGE_WORDS):
            yield np.concatenate(held, axis=1)
            held = []
    if held:
        yield np.concatenate(held, axis=1)
