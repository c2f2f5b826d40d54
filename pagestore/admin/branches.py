"""Branches: several lines of versions may continue from one version, and all share its pages.

A branch is a name, a number and two versions: its newest, and the origin where it began. Pages born up to the
origin belong to the branch below and are left alone; the origin is retained as long as the branch is.
"""

import numpy as np

from pagestore.errors import ExistsError, RetainedError
from pagestore.pages.layout import BIRTH
from pagestore.trees.reading import pages_of
from pagestore.versions.catalog import FIRST_TREE
from pagestore.versions.handle import Handle
from pagestore.versions.settings import MAIN, check_name
from pagestore.versions.store_state import Head


def begin_branch(handle: Handle, name: str, from_version: int | str | None) -> None:
    """See Store.branch."""
    state = handle.state
    settings = state.settings
    check_name(name, "branch")
    if name in settings.branches or name in settings.tags:
        raise ExistsError(f"there is a branch or tag {name!r} already; choose another name")
    entry = handle.entry(handle.version if from_version is None else handle.number(from_version))
    number = state.next_branch
    handle.administer(
        settings=settings._replace(branches={**settings.branches, name: number}),
        heads={**state.heads, number: Head(entry.version, entry.run, entry.version)},
        next_branch=number + 1,
    )


def delete_branch(handle: Handle, name: str) -> None:
    """See Store.delete_branch."""
    state = handle.state
    number = handle.branch_id(name)
    if name == MAIN:
        raise RetainedError(f"the branch {MAIN!r} cannot be deleted")
    entries = [e for e in state.versions.entries(handle.mapping.pages) if e.branch == number]
    _refuse_needed(handle, number, name, {entry.version for entry in entries})
    try:
        doomed = handle.committer.locks.lock(entries)
        if len(doomed) < len(entries):
            busy = next(entry.version for entry in entries if entry not in doomed)
            raise RetainedError(f"version {busy} of branch {name!r} is being read; close its readers first")
        settings = state.settings
        handle.administer(
            settings=settings._replace(branches={n: i for n, i in settings.branches.items() if i != number}),
            heads={i: head for i, head in state.heads.items() if i != number},
            doomed=doomed,
            freed=_own_pages(handle, number),
        )
    finally:
        handle.committer.locks.unlock()


def _refuse_needed(handle: Handle, number: int, name: str, versions: set[int]) -> None:
    state = handle.state
    for tag, version in state.settings.tags.items():
        if version in versions:
            raise RetainedError(f"tag {tag!r} names version {version} of branch {name!r}; untag it first")
    for other, other_number in state.settings.branches.items():
        if other_number != number and state.heads[other_number].origin in versions:
            raise RetainedError(f"branch {other!r} begins on branch {name!r}; delete it first")


def _own_pages(handle: Handle, number: int) -> list[int]:
    """Return the pages of a branch's newest version that were born on it. O(pages of the changed relations)."""
    head = handle.state.heads[number]
    if head.version == head.origin:
        return []
    newest, origin = handle.version_of(head.version), handle.version_of(head.origin)
    assert newest is not None
    words, _, page_words = handle.mapping.pages
    own: list[int] = []
    for tree_id, tree in newest.trees.items():
        shared = origin is not None and origin.trees.get(tree_id) == tree
        if tree_id >= FIRST_TREE and tree.root and not shared:
            ids = pages_of(handle.mapping.pages, tree)
            own += ids[words[ids * page_words + BIRTH] > head.origin].tolist()
    ids = np.array(newest.catalog.run.ids(page_words), np.int64)
    own += ids[words[ids * page_words + BIRTH] > head.origin].tolist()
    return own
