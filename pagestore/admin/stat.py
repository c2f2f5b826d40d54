"""What holds space in a store: relations, versions, readers."""

import os
from typing import NamedTuple

import numpy as np

from pagestore.admin.check import free_pages
from pagestore.errors import CorruptionError
from pagestore.relations.snapshot import newest_snapshot, take_snapshot
from pagestore.storage.file import VERSION_LOCK
from pagestore.storage.system import lock_holders, process_start
from pagestore.trees.read import pages_of
from pagestore.trees.tree import Tree
from pagestore.values.dictionary import PLACES
from pagestore.versions.handle import Handle
from pagestore.versions.store_state import Version
from pagestore.versions.version_table import VersionTable


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


def measure_store(handle: Handle, readers: list[Reader]) -> Stat:
    """See Store.stat. O(versions * index pages)."""
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
    own = max(0, pages - free - int((counts > 0).sum()))
    return Stat(
        handle.page_size,
        pages,
        free,
        relations,
        own,
        only,
        readers,
        texts,
        handle.state.texts_removed,
    )


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
