"""The difference of two versions of a relation as an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pagestore.errors import SchemaError
from pagestore.pages.page_map import Pages
from pagestore.relations.range import Range
from pagestore.relations.snapshot import Snapshot
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.trees.apply import Edits, one_batch
from pagestore.trees.delta import Delta
from pagestore.trees.kernels.apply_layout import ERASE, INSERT
from pagestore.trees.reading import batch_rows
from pagestore.trees.tree import Tree

CHANGE = "_change_type"


def stream_changes(old: Snapshot, new: Snapshot, relation: str) -> pa.RecordBatchReader:
    """See Store.diff. The snapshots stay open until the stream is read or dropped."""
    before, after = old[relation], new[relation]
    if was_made_anew(before, after):
        raise SchemaError(
            f"{relation!r} was made anew between version {old.version} ({before.schema}) and version "
            f"{new.version} ({after.schema}); read both versions instead"
        )
    schema = after.schema.arrow.append(pa.field(CHANGE, pa.string(), nullable=False))
    return pa.RecordBatchReader.from_batches(schema, _batches(old, new, relation, schema))


def was_made_anew(before: Range, after: Range) -> bool:
    """Return whether a relation has other columns or another tree than in an earlier version; its scans may differ."""
    return before.schema != after.schema or before.info.spec._replace(scans=()) != after.info.spec._replace(scans=())


def pages_of_both(old: Snapshot, new: Snapshot) -> Pages:
    """Return the page map that has the pages of both snapshots."""
    return max(old.pages, new.pages, key=lambda pages: len(pages.seen))


def visible_changes(pages: Pages, old: Tree, new: Tree, visible: int) -> Iterator[Edits]:
    """Yield the difference of two trees in the first words of their records: actions int64[n], words int64[visible, n].

    A change of only the hidden words, such as how often a row of a view is derived, is left out. An erasure and the
    insertion at its key are in one batch.
    """
    held: Edits | None = None  # an erasure at the end of a batch, whose key the next one may insert
    for actions, words in Delta(pages, old, new):
        words = words[:visible]
        if held is not None:
            actions, words = np.concatenate([held[0], actions]), np.concatenate([held[1], words], axis=1)
        end = len(actions) - int(actions[-1] == ERASE)
        held = (actions[end:], words[:, end:]) if end < len(actions) else None
        yield from _unlike(actions[:end], words[:, :end])
    if held is not None:
        yield held


def _unlike(actions: np.ndarray, words: np.ndarray) -> Iterator[Edits]:
    """Yield the edits without erasures that the next insertion restores; nothing if none are left."""
    taken = (actions[:-1] == ERASE) & (actions[1:] == INSERT)
    back = np.flatnonzero(taken & (words[:, :-1] == words[:, 1:]).all(axis=0))
    there = np.ones(len(actions), bool)
    there[back], there[back + 1] = False, False
    if there.any():
        yield (actions, words) if there.all() else (actions[there], words[:, there])


def _batches(old: Snapshot, new: Snapshot, relation: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    pages = pages_of_both(old, new)
    latest = max(old, new, key=lambda snapshot: snapshot.version)[relation]  # its dictionary has the texts of both
    changes = visible_changes(pages, old.tree(relation), new.tree(relation), len(schema) - 1)
    if latest.sorts_texts:
        changes = _in_order(latest, [*changes])
    for actions, words in changes:
        columns, place = latest.record_batch(words).columns, latest.computed_place
        if place is not None:
            columns[place] = values_of_both(old[relation], new[relation], actions, words)
            changed = pa.array(
                differing(actions, np.delete(words, latest.schema.places[place], axis=0), columns[place])
            )
            columns, actions = [column.filter(changed) for column in columns], actions[changed.to_numpy(False)]
        yield pa.RecordBatch.from_arrays([*columns, _kinds(actions)], schema=schema)
        _ = pages_of_both(old, new)  # raises if one was closed: the pages may have been reused
    old.close()
    new.close()


def differing(actions: np.ndarray, keys: np.ndarray, values: pa.Array) -> np.ndarray:
    """Return which changes are real, bool[n]: those that do not restore an erased computed value of the same key."""
    rows = [*zip(map(tuple, keys.T.tolist()), values.to_pylist(), strict=True)]
    erased = {row for row, action in zip(rows, actions.tolist(), strict=True) if action == ERASE}
    inserted = {row for row, action in zip(rows, actions.tolist(), strict=True) if action != ERASE}
    both = erased & inserted
    return np.array([row not in both for row in rows], bool)


def values_of_both(before: Range, after: Range, actions: np.ndarray, words: np.ndarray) -> pa.Array:
    """Return the values of a computed column: by the old version for erased records, by the new one for the others."""
    erased = actions == ERASE
    parts = [
        side.record_batch(words[:, of]).columns[side.computed_place]
        for side, of in ((before, erased), (after, ~erased))
    ]
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.argsort(~erased, kind="stable"))))


def _in_order(relation: Range, parts: list[Edits]) -> Iterator[Edits]:
    """Yield changes in the order of the texts in their keys; a changed record's old values precede its new ones."""
    if parts:
        actions, words = one_batch(parts)
        order = relation.key_order(words)
        rows = batch_rows(len(words))
        for at in range(0, len(order), rows):
            some = order[at : at + rows]
            yield actions[some], words[:, some]


def _kinds(actions: np.ndarray) -> pa.Array:
    """Return "insert" or "delete" for each action, as an Arrow array; both words have six letters."""
    letters = np.where(actions == INSERT, b"insert", b"delete")
    ends = letters.itemsize * np.arange(len(letters) + 1, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(letters), [None, pa.py_buffer(ends), pa.py_buffer(letters)])
