"""What holds space in a store: relations, versions, readers."""

import os
from typing import NamedTuple

import numpy as np

from pagestore.admin.check import free_pages, holding_all
from pagestore.errors import CorruptionError
from pagestore.pages.layout import ENTRY_COUNT, HEADER, TYPE
from pagestore.relations.relation import Relation
from pagestore.relations.snapshot import Snapshot, newest_snapshot, take_snapshot
from pagestore.storage.file import VERSION_LOCK
from pagestore.storage.system import lock_holders, process_start
from pagestore.trees.read import pages_of
from pagestore.trees.tree import Tree
from pagestore.values.dictionary import PLACES
from pagestore.versions.handle import Handle
from pagestore.versions.store_state import Version
from pagestore.versions.version_table import VersionTable

NO_IDS = np.zeros(0, np.int64)


class Reader(NamedTuple):
    """A version that is being read, and the process that reads it; `pid` is 0 if unknown."""

    version: int
    pid: int
    started: float  # when the process started, in seconds since boot


class Stat(NamedTuple):
    """Sizes in pages of `page_size` bytes.

    `relations` is for the newest version; `only` is what no other version reaches, which dropping
    that version frees. `texts` are in the dictionary, `texts_removed` have left it.
    """

    page_size: int
    pages: int
    free: int
    relations: dict[str, int]
    store: int
    only: dict[int, int]
    readers: list[Reader]
    texts: int
    texts_removed: int


def measure_store(handle: Handle) -> Stat:
    """See Store.stat. O(versions * index pages)."""
    readers = list_readers(handle)
    with holding_all(handle):
        return _measure(handle, readers)


def _measure(handle: Handle, readers: list[Reader]) -> Stat:
    reach = {}
    for entry in [*handle.read_versions(VersionTable.entries)]:
        snapshot = take_snapshot(handle, entry.version)
        if snapshot is not None:  # no writer has dropped it meanwhile
            with snapshot:
                reach[entry.version] = _reached(handle, snapshot._version)
    with newest_snapshot(handle) as snapshot:
        names = snapshot._version.catalog.relations
        texts = snapshot._version.trees[PLACES.tree_id].count
        relations = {name: len(_pages_of(handle, snapshot.tree(name))) for name in names}
    pages, free = _sizes(handle)
    counts = np.zeros(max([pages, *(int(ids.max()) + 1 for ids in reach.values())]), np.int64)
    for ids in reach.values():
        counts[ids] += 1
    only = {version: int((counts[ids] == 1).sum()) for version, ids in reach.items()}
    data = max(0, pages - free - int((counts > 0).sum()))
    return Stat(
        handle.page_size,
        pages,
        free,
        relations,
        data,
        only,
        readers,
        texts,
        handle.state.texts_removed,
    )


class ColumnSize(NamedTuple):
    """What a column of a relation takes in the leaves of its tree: bytes, and bits of a value.

    `letters` are the bytes of its distinct texts, which are in the dictionary once for all columns.
    """

    relation: str
    column: str
    type: str
    bytes: int
    bits: float
    letters: int


def measure_columns(handle: Handle) -> list[ColumnSize]:
    """See Store.column_sizes."""
    sizes = list[ColumnSize]()
    with newest_snapshot(handle) as snapshot:
        for name, info in snapshot._version.catalog.relations.items():
            if info.schema is None:
                continue
            tree, relation = snapshot.tree(name), snapshot[name]
            bits = _leaf_bits(handle, tree)
            for place, column in enumerate(info.schema.stored):
                letters = _letters(snapshot, relation, place) if column.type.interned else 0
                size, each = int(bits[place]) // 8, float(bits[place] / max(tree.count, 1))
                sizes.append(ColumnSize(name, column.name, str(column.type), size, each, letters))
    return sizes


def _letters(snapshot: Snapshot, relation: Relation, place: int) -> int:
    """Return the bytes of the distinct texts of a column."""
    ids = np.unique(np.concatenate([NO_IDS, *(word[0] for word in relation.words((place,)))]))
    texts = snapshot.dictionary.texts(ids[ids > 0], binary=True)
    return sum(map(len, texts.to_pylist()))


def _leaf_bits(handle: Handle, tree: Tree) -> np.ndarray:
    """Return the bits that each column of a tree takes in all leaves, int64[C]."""
    columns, pages = tree.spec.columns, handle.mapping.pages
    ids = _pages_of(handle, tree)
    ends = ids * pages.page_words
    heads = pages.words[ends[:, None] + np.arange(HEADER + 2 * columns)]
    leaves = heads[heads[:, TYPE] >> 8 & 0xFF == 0]
    widths = leaves[:, HEADER + 1 :: 2] & 0xFF
    bits: np.ndarray = (widths * leaves[:, ENTRY_COUNT, None]).sum(axis=0)
    return bits


def _sizes(handle: Handle) -> tuple[int, int]:
    """Return the number of pages, and of free pages, as of one commit."""
    while True:
        state = handle.refresh()
        try:
            return state.commit.top, len(free_pages(handle))
        except CorruptionError:  # a writer may have reused the list's pages meanwhile
            if handle.refresh().sequence == state.sequence:
                raise


def _reached(handle: Handle, version: Version) -> np.ndarray:
    """Return the pages of a version, each once: its trees, its record, its catalog."""
    page_words = handle.mapping.pages.page_words
    parts = [_pages_of(handle, tree) for tree in version.trees.values()]
    parts += [np.array(run.ids(page_words), np.int64) for run in (version.run, version.catalog.run)]
    return np.concatenate(parts)


def _pages_of(handle: Handle, tree: Tree) -> np.ndarray:
    return pages_of(handle.mapping.pages, tree) if tree.root else np.zeros(0, np.int64)


def list_readers(handle: Handle) -> list[Reader]:
    """See Store.readers."""
    versions = {entry.version for entry in handle.read_versions(VersionTable.entries)}
    here = [
        Reader(version, os.getpid(), process_start(os.getpid()))
        for version in sorted(handle.locks.pins)
    ]
    others = []
    for version in sorted(versions):
        if handle.file.locked(VERSION_LOCK + version, 1) is not None:
            pids = lock_holders(handle.file.path, VERSION_LOCK + version)
            others += [Reader(version, pid, process_start(pid)) for pid in pids] or [
                Reader(version, 0, 0.0)
            ]
    return sorted(set(here + others))
