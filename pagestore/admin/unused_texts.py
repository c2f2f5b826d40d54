"""Remove texts that no retained version holds from the dictionary; their pages are freed as others are.

    version 7    customer: ann, bob          both names are kept while version 7 is
    version 8    customer: bob               once version 7 is dropped, "ann" is removed

A text is held by the relations of all retained versions of all branches, since a later version must be able to show
what an earlier one had; and by what hosts name, like constants of installed rules. A tree of raw words that belongs
to no host may hold ids as well, so each of its words counts as one.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pagestore.errors import DependantsError
from pagestore.relations.snapshot import Snapshot, snapshot_at
from pagestore.relations.transaction import Transaction, begin_transaction
from pagestore.trees.delta import Delta
from pagestore.trees.kernels.apply_layout import INSERT
from pagestore.trees.reading import read_batches
from pagestore.trees.tree import Tree
from pagestore.values.dictionary import as_bytes
from pagestore.versions.handle import Handle
from pagestore.versions.hosts import hosts


class UnusedTexts(NamedTuple):
    """The number of texts removed, and why texts were kept if it is unknown which are unused."""

    removed: int = 0
    kept: str = ""


def remove_unused_texts(handle: Handle, message: str) -> UnusedTexts:
    """Remove the texts that nothing holds from the newest dictionary, in one commit, if there are any.

    O(rows of the oldest version + changes since + texts).
    """
    with begin_transaction(handle, message) as txn:
        try:
            unused = _unused(handle, txn)
        except DependantsError as error:
            txn.rollback()
            return UnusedTexts(kept=str(error))
        if len(unused):
            txn.vouch()
            txn.dictionary.remove(unused)
        else:
            txn.rollback()
    return UnusedTexts(len(unused))


def _unused(handle: Handle, txn: Transaction) -> np.ndarray:
    """Return the ids of texts that nothing holds. Raises DependantsError if a host that may hold some is not loaded."""
    ids = txn.dictionary.ids()
    return ids[~_held(handle, txn)[ids]] if len(ids) else ids


def _held(handle: Handle, txn: Transaction) -> np.ndarray:
    """Return whether each id is held by something, bool[ids + 1]."""
    held = np.zeros(txn.dictionary.next_id, bool)
    before: dict[str, Tree] = {}
    for entry in [*handle.state.versions.entries(handle.mapping.pages)]:
        with snapshot_at(handle, entry.version) as snapshot:
            before = _mark_rows(held, snapshot, before)
            for name in snapshot._version.catalog.dependants:
                if name not in hosts():
                    raise DependantsError(f"{name} is not loaded in this process, and may hold some of them")
                named = hosts()[name].texts(snapshot)
                held[[txn.dictionary.id_of(as_bytes(text)) for text in named]] = True
    return held


def _mark_rows(held: np.ndarray, snapshot: Snapshot, before: dict[str, Tree]) -> dict[str, Tree]:
    """Mark the ids in a version's records that the trees `before` do not have; return the version's trees."""
    catalog = snapshot._version.catalog
    hosted = {name for one in catalog.dependants.values() for name in one.keeps}
    trees: dict[str, Tree] = {}
    for info in catalog.relations.values():
        if info.schema is None:
            places = tuple(range(info.spec.columns)) if info.name not in hosted else ()
        else:
            places = tuple(place for place, column in enumerate(info.schema.stored) if column.type.interned)
        if places:
            trees[info.name] = tree = snapshot.tree(info.name)
            for words in _added(snapshot, before.get(info.name), tree, places):
                held[words[(words > 0) & (words < len(held))]] = True
    return trees


def _added(snapshot: Snapshot, before: Tree | None, tree: Tree, places: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yield some columns of the records that a tree has and the one before lacks, in batches."""
    if before is None or before.spec != tree.spec:
        yield from read_batches(snapshot.pages, tree, columns=places) if tree.count else ()
    else:
        for actions, words in Delta(snapshot.pages, before, tree):
            yield words[list(places)][:, actions == INSERT]
