"""Branches: a version can have more than one future, and all share its pages.

A branch is a name, a number and two versions: its newest, and the origin where it began. Pages born up to the
origin belong to the branch below and are left alone; the origin is retained as long as the branch is.
"""

from typing import TYPE_CHECKING

import numpy as np

from .errors import ExistsError, RetainedError
from .layout import BIRTH
from .settings import MAIN, check_name
from .state import FIRST_TREE, Head
from .tree import pages_of

if TYPE_CHECKING:
    from .store import Store


def begin(store: "Store", name: str, from_version: int | str | None) -> None:
    """See Store.branch."""
    state = store._state
    settings = state.settings
    check_name(name, "branch")
    if name in settings.branches or name in settings.tags:
        raise ExistsError(f"there is a branch or tag {name!r} already; choose another name")
    entry = store._entry(store.version if from_version is None else store._number(from_version))
    number = state.next_branch
    store._administer(
        settings=settings._replace(branches={**settings.branches, name: number}),
        heads={**state.heads, number: Head(entry.version, entry.run, entry.version)},
        next_branch=number + 1,
    )


def delete(store: "Store", name: str) -> None:
    """See Store.delete_branch."""
    state = store._state
    number = store._branch_id(name)
    if name == MAIN:
        raise RetainedError(f"the branch {MAIN!r} cannot be deleted")
    entries = [e for e in state.history.entries(store._mapping.pages) if e.branch == number]
    _refuse_needed(store, number, name, {entry.version for entry in entries})
    doomed = store._ledger.locks.lock(entries)
    try:
        if len(doomed) < len(entries):
            busy = next(entry.version for entry in entries if entry not in doomed)
            raise RetainedError(f"version {busy} of branch {name!r} is being read; close its readers first")
        settings = state.settings
        store._administer(
            settings=settings._replace(branches={n: i for n, i in settings.branches.items() if i != number}),
            heads={i: head for i, head in state.heads.items() if i != number},
            doomed=doomed,
            freed=_own_pages(store, number),
        )
    finally:
        store._ledger.locks.unlock(doomed)


def _refuse_needed(store: "Store", number: int, name: str, versions: set[int]) -> None:
    state = store._state
    for tag, version in state.settings.tags.items():
        if version in versions:
            raise RetainedError(f"tag {tag!r} names version {version} of branch {name!r}; untag it first")
    for other, other_number in state.settings.branches.items():
        if other_number != number and state.heads[other_number].origin in versions:
            raise RetainedError(f"branch {other!r} begins on branch {name!r}; delete it first")


def _own_pages(store: "Store", number: int) -> list[int]:
    """The pages of a branch's newest version that were born on it. O(pages of the changed relations)."""
    head = store._state.heads[number]
    if head.version == head.origin:
        return []
    newest, origin = store._version(head.version), store._version(head.origin)
    assert newest is not None
    words, _, page_words = store._mapping.pages
    own: list[int] = []
    for tree_id, tree in newest.trees.items():
        shared = origin is not None and origin.trees.get(tree_id) == tree
        if tree_id >= FIRST_TREE and tree.root and not shared:
            ids = pages_of(store._mapping.pages, tree)
            own += ids[words[ids * page_words + BIRTH] > head.origin].tolist()
    ids = np.array(newest.catalog.run.ids(page_words), np.int64)
    return own + ids[words[ids * page_words + BIRTH] > head.origin].tolist()
