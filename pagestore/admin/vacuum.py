"""Drop versions on request, then texts that no version holds, and cut the file after the last used
page.

Make a store as small as its content: pages filled by `bulk`, at the front of the file.

Every tree is rebuilt, bottom-up, by ordinary commits: first after all other pages, so that the
front is empty when the versions before are dropped, then at the front; then the file is cut.
Readers go on: what they read stays where it is, and the file is cut after it. Meanwhile the file
grows by the size of its content.

Remove texts that no retained version holds from the dictionary; their pages are freed as others
are.

    version 7    customer: ann, bob          both names are kept while version 7 is
    version 8    customer: bob               once version 7 is dropped, "ann" is removed

A text is held by the relations of all retained versions of all branches, since a later version must
be able to show what an earlier one had; and by what hosts name, like constants of installed rules.
A tree of raw words that belongs to no host may hold ids as well, so each of its words counts as
one.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from pagestore.errors import DependantsError, RetainedError, SchemaError
from pagestore.relations.snapshot import Snapshot, snapshot_at
from pagestore.relations.transaction import Transaction, begin_transaction
from pagestore.storage.pager import NO_ORIGIN, STORE_LINEAGE
from pagestore.trees.build import bulk
from pagestore.trees.compare import Delta
from pagestore.trees.kernels.node_buffer import INSERT
from pagestore.trees.read import pages_of, read_batches
from pagestore.trees.tree import Tree
from pagestore.values.dictionary import TEXT_TREES, as_bytes
from pagestore.versions.catalog import RETAIN_ALL
from pagestore.versions.handle import Handle
from pagestore.versions.hosts import hosts
from pagestore.versions.version_table import Entry


class Vacuum(NamedTuple):
    """The result of a vacuum, or of a dry run: versions dropped, versions kept and why, and space
    freed.

    `texts_removed` have left the dictionary; `texts_kept` says why texts stay if it is unknown
    which are unused.
    """

    dropped: tuple[int, ...]
    kept: dict[int, str]
    pages_freed: int
    bytes_cut: int
    texts_removed: int = 0
    texts_kept: str = ""


def vacuum_store(
    handle: Handle, keep_versions: int | None, drop: Iterable[int] | None, dry_run: bool
) -> Vacuum:
    """See Store.vacuum."""
    with handle.administering():
        done = drop_versions(handle, keep_versions, drop, dry_run)
    if dry_run or drop is not None:
        return done
    texts = remove_unused_texts(handle, "vacuum")
    if not texts.removed:
        return done._replace(texts_kept=texts.kept)
    with handle.administering():  # the version before the removal holds their pages
        also = drop_versions(handle, keep_versions, None, dry_run)
    return Vacuum(
        done.dropped + also.dropped,
        also.kept,
        done.pages_freed + also.pages_freed,
        done.bytes_cut + also.bytes_cut,
        *texts,
    )


def drop_versions(
    handle: Handle, keep_versions: int | None, drop: Iterable[int] | None, dry_run: bool
) -> Vacuum:
    """Drop versions, and cut the file; the caller holds the write lock. Raises as Store.vacuum."""
    chosen = _by_number(handle, drop) if drop is not None else _beyond(handle, keep_versions)
    reasons = {
        entry.version: reason for entry in chosen if (reason := why_kept(handle, entry.version))
    }
    if drop is not None and reasons:
        version, reason = next(iter(reasons.items()))
        raise RetainedError(f"version {version} cannot be dropped: {reason}")
    committer = handle.committer
    try:
        doomed = committer.locks.lock([entry for entry in chosen if entry.version not in reasons])
        free = [entry for entry in chosen if entry.version not in reasons and entry not in doomed]
        reasons |= {entry.version: "another process reads it" for entry in free}
        if drop is not None and free:
            raise RetainedError(
                f"version {free[0].version} cannot be dropped: another process reads it"
            )
        if dry_run:
            return Vacuum(
                tuple(entry.version for entry in doomed),
                reasons,
                len(committer.plan(doomed).freed),
                0,
            )
        return _drop(handle, doomed, reasons)
    finally:
        committer.locks.unlock(committer.locks.going)


def why_kept(handle: Handle, version: int) -> str:
    """Return why a version cannot be dropped; empty if it can."""
    state = handle.state
    names = {number: name for name, number in state.settings.branches.items()}
    for tag, tagged in state.settings.tags.items():
        if tagged == version:
            return f"tag {tag!r} names it; untag it first"
    for number, head in state.heads.items():
        if head.version == version:
            return f"it is the newest of branch {names[number]!r}"
        if head.origin == version:
            return f"branch {names[number]!r} begins at it; delete the branch first"
    if version in handle.locks.pins:
        return "a snapshot of this process reads it; close it first"
    return ""


def _drop(handle: Handle, doomed: list[Entry], reasons: dict[int, str]) -> Vacuum:
    committer = handle.committer
    size = handle.file.size()
    freed = len(committer.plan(doomed).freed)
    handle.administer(doomed=doomed, shrink=True)
    handle.administer(shrink=True)  # pages that the first commit freed can be cut off only after it
    top = handle.state.commit.top
    # first: after an interrupt, no commit may take a page that the file has no longer
    handle.mapping.shrink(top)
    handle.file.truncate(top * handle.page_size)
    return Vacuum(
        tuple(entry.version for entry in doomed), reasons, freed, max(0, size - handle.file.size())
    )


def _by_number(handle: Handle, versions: Iterable[int]) -> list[Entry]:
    return [handle.entry(version) for version in sorted(set(versions))]


def _beyond(handle: Handle, keep: int | None) -> list[Entry]:
    """Return the versions of each branch that are older than its newest `keep`."""
    state = handle.state
    retain = state.settings.retain if keep is None else keep
    if keep is not None and keep < 1:
        raise SchemaError(f"keep_versions={keep}: at least the newest version stays")
    if retain == RETAIN_ALL:
        return []
    entries = list(state.versions.entries(handle.mapping.pages))
    newer: dict[int, int] = {}
    beyond = []
    for entry in reversed(entries):
        newer[entry.branch] = newer.get(entry.branch, 0) + 1
        if newer[entry.branch] > retain:
            beyond.append(entry)
    return beyond[::-1]


class Compact(NamedTuple):
    """Sizes of the file in bytes before and after."""

    before: int
    after: int


def compact_store(handle: Handle) -> Compact:
    """See Store.compact."""
    before = handle.file.size()
    _vacuum(handle)
    remove_unused_texts(handle, "compact")
    for appending in (True, False):
        for branch in handle.state.settings.branches:
            _rewrite(handle, branch, appending)
        _vacuum(handle)
    return Compact(before, handle.file.size())


def _vacuum(handle: Handle) -> None:
    """Drop all versions but those that must stay, and cut the file."""
    with handle.administering():
        drop_versions(handle, keep_versions=1, drop=None, dry_run=False)


def _rewrite(handle: Handle, branch: str, appending: bool) -> None:
    """Make a commit with the content of the one before, in other places: behind all pages if
    `appending`, so that then it fits before these.
    """
    with begin_transaction(handle, "compact", branch) as txn, ExitStack() as stack:
        txn.declare_maintained()
        txn.pager.give_back()  # not earlier: another thread's transaction may be handing them out
        if appending:
            stack.enter_context(txn.pager.free_list.only_appending())
            txn.dictionary.pack()
        txn.dictionary.move_long()
        for tree_id, tree in list(txn._trees.items()):
            if not tree.root:
                continue
            shared = tree_id in TEXT_TREES
            lineage, origin = (
                (STORE_LINEAGE, NO_ORIGIN) if shared else (txn.pager.lineage, txn.pager.origin)
            )
            with txn.pager.retiring_into(lineage, origin):
                txn._trees[tree_id] = bulk(txn.pager, tree.spec, read_batches(txn.pages, tree))
                txn.pager.retire_pages(pages_of(txn.pages, tree))
        txn._rewrite_catalog = True


class UnusedTexts(NamedTuple):
    """The number of texts removed, and why texts were kept if it is unknown which are unused."""

    removed: int = 0
    kept: str = ""


def remove_unused_texts(handle: Handle, message: str) -> UnusedTexts:
    """Remove the texts that nothing holds from the newest dictionary, in one commit, if there are
    any.

    O(rows of the oldest version + changes since + texts).
    """
    with begin_transaction(handle, message) as txn:
        try:
            unused = _unused(handle, txn)
        except DependantsError as error:
            txn.rollback()
            return UnusedTexts(kept=str(error))
        if len(unused):
            txn.declare_maintained()
            txn.dictionary.remove(unused)
        else:
            txn.rollback()
    return UnusedTexts(len(unused))


def _unused(handle: Handle, txn: Transaction) -> np.ndarray:
    """Return the ids of texts that nothing holds. Raises DependantsError if a host that may hold
    some is not loaded.
    """
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
                    raise DependantsError(
                        f"{name} is not loaded in this process, and may hold some of them"
                    )
                named = hosts()[name].texts(snapshot)
                held[[txn.dictionary.id_of(as_bytes(text)) for text in named]] = True
    return held


def _mark_rows(held: np.ndarray, snapshot: Snapshot, before: dict[str, Tree]) -> dict[str, Tree]:
    """Mark ids of a version's records that the trees `before` lack; return the version's trees."""
    catalog = snapshot._version.catalog
    hosted = catalog.hosted
    trees: dict[str, Tree] = {}
    for info in catalog.relations.values():
        if info.schema is None:
            places = tuple(range(info.spec.columns)) if info.name not in hosted else ()
        else:
            places = tuple(
                place for place, column in enumerate(info.schema.stored) if column.type.interned
            )
        if places:
            trees[info.name] = tree = snapshot.tree(info.name)
            for words in _added(snapshot, before.get(info.name), tree, places):
                held[words[(words > 0) & (words < len(held))]] = True
    return trees


def _added(
    snapshot: Snapshot, before: Tree | None, tree: Tree, places: tuple[int, ...]
) -> Iterator[np.ndarray]:
    """Yield some columns of the records that a tree has and the one before lacks, in batches."""
    if before is None or before.spec != tree.spec:
        yield from read_batches(snapshot.pages, tree, columns=places) if tree.count else ()
    else:
        for actions, words in Delta(snapshot.pages, before, tree):
            yield words[list(places)][:, actions == INSERT]
