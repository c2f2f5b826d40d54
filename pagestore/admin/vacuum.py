"""Drop versions on request, then texts that no version holds, and cut the file after the last used page."""

from collections.abc import Iterable
from typing import NamedTuple

from pagestore.admin.unused_texts import remove_unused_texts
from pagestore.errors import RetainedError, SchemaError
from pagestore.versions.handle import Handle
from pagestore.versions.settings import RETAIN_ALL
from pagestore.versions.version_table import Entry


class Vacuum(NamedTuple):
    """The result of a vacuum, or of a dry run: versions dropped, versions kept and why, and space freed.

    `texts_removed` have left the dictionary; `texts_kept` says why texts stay if it is unknown which are unused.
    """

    dropped: tuple[int, ...]
    kept: dict[int, str]
    pages_freed: int
    bytes_cut: int
    texts_removed: int = 0
    texts_kept: str = ""


def vacuum_store(handle: Handle, keep_versions: int | None, drop: Iterable[int] | None, dry_run: bool) -> Vacuum:
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
        done.dropped + also.dropped, also.kept, done.pages_freed + also.pages_freed, done.bytes_cut + also.bytes_cut,
        *texts,
    )  # fmt: skip


def drop_versions(handle: Handle, keep_versions: int | None, drop: Iterable[int] | None, dry_run: bool) -> Vacuum:
    """Drop versions, and cut the file; the caller holds the write lock. Raises as Store.vacuum."""
    chosen = _by_number(handle, drop) if drop is not None else _beyond(handle, keep_versions)
    reasons = {entry.version: reason for entry in chosen if (reason := why_kept(handle, entry.version))}
    if drop is not None and reasons:
        version, reason = next(iter(reasons.items()))
        raise RetainedError(f"version {version} cannot be dropped: {reason}")
    committer = handle.committer
    try:
        doomed = committer.locks.lock([entry for entry in chosen if entry.version not in reasons])
        free = [entry for entry in chosen if entry.version not in reasons and entry not in doomed]
        reasons |= {entry.version: "another process reads it" for entry in free}
        if drop is not None and free:
            raise RetainedError(f"version {free[0].version} cannot be dropped: another process reads it")
        if dry_run:
            return Vacuum(tuple(entry.version for entry in doomed), reasons, len(committer.plan(doomed).freed), 0)
        return _drop(handle, doomed, reasons)
    finally:
        committer.locks.unlock()


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
    handle.file.truncate(handle.state.commit.top * handle.page_size)
    handle.mapping.shrink()
    return Vacuum(tuple(entry.version for entry in doomed), reasons, freed, max(0, size - handle.file.size()))


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
