"""Branches: several lines of versions may continue from one version, and all share its pages.

A branch is a name, a number and two versions: its newest, and the origin where it began. Pages born
up to the origin belong to the branch below and are left alone; the origin is retained as long as
the branch is.

Tags: names of versions; a version is retained as long as it has one.

The history of a store, a line for each version.
"""

from datetime import datetime
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np

from pagestore.admin.merge import common, contained, merged_with, tag_of
from pagestore.errors import CorruptionError, ExistsError, MissingError, RetainedError
from pagestore.pages.layout import BIRTH
from pagestore.relations.snapshot import moment
from pagestore.trees.read import pages_of
from pagestore.versions.catalog import FIRST_TREE, MAIN, Settings, check_name
from pagestore.versions.commit_record import Commit
from pagestore.versions.handle import Handle
from pagestore.versions.store_state import Head, load_catalog
from pagestore.versions.version_table import Entry, VersionTable


def begin_branch(handle: Handle, name: str, from_version: int | str) -> None:
    """See Store.branch."""
    state = handle.state
    settings = state.settings
    check_name(name, "branch")
    if name in settings.branches or name in settings.tags:
        raise ExistsError(f"there is a branch or tag {name!r} already; choose another name")
    entry = handle.entry(handle.number(from_version))
    number = state.next_branch
    handle.administer(
        settings=settings._replace(branches={**settings.branches, name: number}),
        heads={**state.heads, number: Head(entry.version, entry.run, entry.version)},
        next_branch=number + 1,
    )


def delete_branch(handle: Handle, name: str, instead: str | None = None) -> None:
    """See Store.delete_branch; with `instead`, another branch takes the name in the same commit."""
    state = handle.state
    entries = refuse_needed(handle, name)
    number = handle.branch_id(name)
    tags = _without_merges(state.settings, name)
    try:
        doomed = handle.committer.locks.lock(entries)
        if len(doomed) < len(entries):
            busy = next(entry.version for entry in entries if entry not in doomed)
            raise RetainedError(
                f"version {busy} of branch {name!r} is being read; close its readers first"
            )
        branches = dict(state.settings.branches)
        del branches[name]
        if instead is not None:
            branches[name] = branches.pop(instead)
        handle.administer(
            settings=state.settings._replace(tags=tags, branches=branches),
            heads={i: head for i, head in state.heads.items() if i != number},
            doomed=doomed,
            freed=_own_pages(handle, number),
        )
    finally:
        handle.committer.locks.unlock(handle.committer.locks.going)


def _without_merges(settings: Settings, name: str) -> dict[str, int]:
    """Return the tags without those by which merges of a branch keep what they need."""
    pairs = [(name, other) for other in settings.branches]
    gone = {tag_of(*merge) for pair in pairs for merge in (pair, pair[::-1])}
    return {tag: version for tag, version in settings.tags.items() if tag not in gone}


def refuse_needed(handle: Handle, name: str) -> list[Entry]:
    """Return the versions of a branch. Raises RetainedError if a tag, another branch or a merge of
    two others needs one.
    """
    state = handle.state
    number = handle.branch_id(name)
    if name == MAIN:
        raise RetainedError(f"the branch {MAIN!r} cannot be deleted, nor begin anew")
    entries = [e for e in state.versions.entries(handle.mapping.pages) if e.branch == number]
    versions = {entry.version for entry in entries}
    for tag, version in _without_merges(state.settings, name).items():
        if version in versions:
            raise RetainedError(
                f"tag {tag!r} names version {version} of branch {name!r}; untag it first"
            )
    for other, other_number in state.settings.branches.items():
        if other_number != number and state.heads[other_number].origin in versions:
            raise RetainedError(f"branch {other!r} begins on branch {name!r}; delete it first")
    tags = state.settings.tags
    merged = [other for other in state.settings.branches if tag_of(name, other) in tags]
    for pair in combinations(merged, 2):
        number = common(handle, *(contained(handle, handle.newest_of(other)) for other in pair))
        if number in versions:
            raise RetainedError(
                f"branches {pair[0]!r} and {pair[1]!r} both merged {name!r}, and a merge of the two "
                f"needs its version {number}; merge one of them into the other first"
            )
    return entries


def _own_pages(handle: Handle, number: int) -> list[int]:
    """Return the pages of a branch's newest version born on it. O(pages of what changed)."""
    head = handle.state.heads[number]
    if head.version == head.origin:
        return []
    newest, origin = handle.version_of(head.version), handle.version_of(head.origin)
    assert newest is not None
    words, _, page_words = handle.mapping.pages
    born: list[int] = []
    for tree_id, tree in newest.trees.items():
        shared = origin is not None and origin.trees.get(tree_id) == tree
        if tree_id >= FIRST_TREE and tree.root and not shared:
            ids = pages_of(handle.mapping.pages, tree)
            born += ids[words[ids * page_words + BIRTH] > head.origin].tolist()
    ids = np.array(newest.catalog.run.ids(page_words), np.int64)
    born += ids[words[ids * page_words + BIRTH] > head.origin].tolist()
    return born


def add_tag(handle: Handle, name: str, version: int | str | datetime) -> None:
    """See Store.tag."""
    check_name(name, "tag")
    settings = handle.state.settings
    if name in settings.tags:
        remedy = f"untag it first, with `pagestore tag FILE {name} --delete`"
        raise ExistsError(f"tag {name!r} names version {settings.tags[name]} already: {remedy}")
    if name in settings.branches:
        raise ExistsError(
            f"there is a branch {name!r}, which the tag would hide; choose another name"
        )
    number = handle.entry(handle.number(version)).version
    handle.administer(settings=settings._replace(tags={**settings.tags, name: number}))


def remove_tag(handle: Handle, name: str) -> None:
    """See Store.untag."""
    settings = handle.state.settings
    tags = dict(settings.tags)
    if name not in tags:
        raise MissingError(f"there is no tag {name!r}; there is {', '.join(tags) or 'none'}")
    del tags[name]
    handle.administer(settings=settings._replace(tags=tags))


class VersionInfo(NamedTuple):
    """A line of the history."""

    version: int
    timestamp: datetime
    message: str
    branch: str
    parent: int
    tags: tuple[str, ...]
    merged: int | None = None  # the second parent of a merge


def describe_versions(handle: Handle, limit: int | None, branch: str | None) -> list[VersionInfo]:
    """See Store.history."""
    if limit is not None and limit < 0:
        raise ValueError(f"limit={limit}: give a number of versions, 0 or more, or None for all")
    handle.refresh()
    number = None if branch is None else handle.branch_id(branch)
    while True:
        entries = (e for e in handle.newest_first() if number in (None, e.branch))
        described = list(islice((info for e in entries if (info := _described(handle, e))), limit))
        if described or limit == 0 or number is not None:
            return described
        handle.refresh()  # all of the entries were dropped while they were read


def _described(handle: Handle, entry: Entry) -> VersionInfo | None:
    """Return a line of the history; None if the writer drops the version meanwhile."""
    settings = handle.state.settings
    try:
        commit = Commit.read(handle.mapping, entry.run, entry.version)
        catalog = load_catalog(handle.mapping, commit.catalog, handle._catalogs)
    except CorruptionError as error:
        handle.refresh()
        if handle.read_versions(VersionTable.find, entry.version):
            fact = f"it holds the record of version {entry.version}, which does not read"
            raise CorruptionError(fact, page=error.page) from None
        return None
    tags = tuple(sorted(tag for tag, version in settings.tags.items() if version == entry.version))
    branch = next(
        (name for name, number in settings.branches.items() if number == entry.branch), ""
    )
    return VersionInfo(
        entry.version,
        moment(entry.timestamp),
        commit.message,
        branch,
        commit.parent,
        tags,
        merged_with(catalog, entry.version),
    )
