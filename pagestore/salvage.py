"""Copy what can still be read of a damaged store into a new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from pagestore.admin.check import Check
from pagestore.admin.merge import NUMBERED
from pagestore.admin.pull import empty_copy
from pagestore.admin.tree_check import births_of
from pagestore.errors import CorruptionError, PagestoreError
from pagestore.pages.layout import BIRTH, BIRTH_MASK, pointer_birth
from pagestore.relations.bags import repeated
from pagestore.relations.relation import Relation
from pagestore.relations.snapshot import Snapshot
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.storage.file import File
from pagestore.store import Store
from pagestore.store import open as open_store
from pagestore.trees.tree import Tree
from pagestore.versions.catalog import MAIN_ID, Info
from pagestore.versions.handle import Handle

ROWS = 1 << 16  # of a bag that are copied at once


class Lost(NamedTuple):
    """A part of a relation that cannot be read: the page, and the keys around it, None at an end.

    Or one record with an unreadable text: then there is no page, and both keys are the record's.
    Keys are words.
    """

    relation: str
    page: int | None
    after: tuple[Any, ...] | None
    before: tuple[Any, ...] | None

    def __str__(self) -> str:
        if self.page is None:
            return f"{self.relation}: the record {self.after} is lost, since a text of it does not read"
        lost = f"{self.relation}: page {self.page} is lost, with the records"
        return f"{lost} between {self.after} and {self.before}"


def open_damaged(path: str | os.PathLike[str]) -> Store:
    """Open a store for salvage, even if `pagestore.open` refuses it because neither meta slot leads
    anywhere.

    Raises CorruptionError if no commit record can be read.
    """
    try:
        return open_store(path, mode="r", create=False)
    except PagestoreError:
        return Store(Handle(File(path, writable=False), "r", searched=True))


def salvage(store: Store, target: Store) -> tuple[int, list[Lost]]:
    """Copy every readable record of every relation of the newest readable version into an empty
    store.

    Leaves out hidden trees of words, which their host can build anew. Returns the version and what
    was lost of it. Raises CorruptionError if no version can be read. O(pages).
    """
    check = Check(store._handle)
    check.run()
    lost: list[Lost] = []
    snapshot = _newest(store)
    with target.transaction("salvaged") as txn:
        for name in snapshot:
            relation = snapshot[name]
            copy = empty_copy(txn, relation)
            leaves = _readable(check, relation.info, relation.tree, lost)
            for words in repeated(leaves, ROWS) if relation.info.bag else leaves:
                batch = _decodable(relation, words, lost)
                if batch is not None:
                    copy.insert(batch)
        txn.properties.update(snapshot.properties)
        for name in NUMBERED:  # of versions that have other numbers here
            txn.properties.pop(name, None)
    return snapshot.version, lost


def _newest(store: Store) -> Snapshot:
    """Return the newest version of the main branch whose record and catalog can be read."""
    try:
        return store.snapshot()
    except CorruptionError as error:
        for entry in reversed(store._handle.state.versions.readable(store._handle.mapping.pages)):
            if entry.branch == MAIN_ID:
                with suppress(CorruptionError):
                    return store.at(entry.version)
        raise CorruptionError(
            f"no version's record and catalog read; nothing can be salvaged: {error}"
        ) from None


def _decodable(
    relation: Relation, words: np.ndarray, lost: list[Lost]
) -> pa.RecordBatch | pa.Table | None:
    """Return the batch, or those of its records whose texts can be read."""
    try:
        return relation.record_batch(words)
    except CorruptionError:
        if words.shape[1] == 1:
            key = tuple(words[: relation.info.spec.keys, 0].tolist())
            lost.append(Lost(relation.name, None, key, key))
            return None
    parts = [_decodable(relation, half, lost) for half in np.array_split(words, 2, axis=1)]
    good = [pa.table(part) for part in parts if part is not None]
    return pa.concat_tables(good) if good else None


def _readable(check: Check, info: Info, tree: Tree, lost: list[Lost]) -> Iterator[np.ndarray]:
    """Yield the readable leaves, in key order; a bad page is recorded with its neighbours' keys."""
    after: tuple[Any, ...] | None = None
    broken: list[int] = []
    for page, words in _leaves(
        check, tree.root, tree.height - 1, info, pointer_birth(tree.pointer)
    ):
        if words is None:
            broken.append(page)
            continue
        keys = words[: info.spec.keys]
        before = tuple(keys[:, 0].tolist())
        lost += [Lost(info.name, page, after, before) for page in broken]
        broken = []
        after = tuple(keys[:, -1].tolist())
        yield words
    lost += [Lost(info.name, page, after, None) for page in broken]


def _leaves(
    check: Check, page: int, level: int, info: Info, birth: int, low: list[int] | None = None
) -> Iterator[tuple[int, np.ndarray | None]]:
    """Yield the leaves below a page that a version wrote and whose first key is `low`.

    None for one that cannot be read, or is intact but older than the write that the disk lost.
    """
    if not page:
        return
    if not check.sound(page, info.spec, level) or (
        birth and (check.word(page, BIRTH) ^ birth) & BIRTH_MASK
    ):
        yield page, None
        return
    columns = check.columns(page)
    if low not in (None, columns[: info.spec.keys, 0].tolist()):
        yield page, None
    elif level == 0:
        yield page, columns
    else:
        births = births_of(columns, info.spec)
        for (*key, child), born in zip(
            columns[: info.spec.keys + 1].T.tolist(), births, strict=True
        ):
            yield from _leaves(check, child, level - 1, info, born, key)
