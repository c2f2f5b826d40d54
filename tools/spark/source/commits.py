"""The commits of a change feed: versions of a branch, each with the version that it was made from."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pagestore.admin.version_log import VersionInfo
from pagestore.errors import VersionError
from pagestore.store import Store
from pagestore.versions.settings import MAIN

from .options import Options, OptionsError

LISTED = 32  # versions that are listed at first, the newest ones
KEEP = "keep versions for longer with store.retain or tags, and read more often"


class Commit(NamedTuple):
    """A version, and the earlier one that its changes are relative to."""

    before: int
    version: int
    timestamp: datetime


def commits_asked_for(store: Store, options: Options, newest: int) -> list[Commit]:
    """Return the commits between the bounds in the options, oldest first, up to version `newest` of the branch.

    Raises OptionsError, VersionError.
    """
    options.exclusive("startingVersion", "startingTimestamp")
    options.exclusive("endingVersion", "endingTimestamp")
    start, since = options.number("startingVersion"), options.moment("startingTimestamp")
    if start is None and since is None:
        raise OptionsError("a change feed begins at startingVersion, or at startingTimestamp: give one of them")
    branch = options.text("branch", MAIN) or MAIN
    end, until = options.number("endingVersion"), options.moment("endingTimestamp")
    for name, number in ("startingVersion", start), ("endingVersion", end):
        if number is not None and number > newest + (name == "startingVersion"):
            raise VersionError(f"{name}={number}: the newest version of branch {branch!r} is {newest}")
    first_in, last_in = options.flag("startingBoundInclusive", True), options.flag("endingBoundInclusive", True)
    first = 0 if start is None else start + (not first_in)
    infos = [info for info in _versions_since(store, branch, first) if info.version <= newest]
    if since is not None:
        infos = [info for info in infos if info.timestamp > since or (first_in and info.timestamp == since)]
        first = infos[0].version if infos else newest + 1
    if end is not None:
        infos = [info for info in infos if info.version < end or (last_in and info.version == end)]
    if until is not None:
        infos = [info for info in infos if info.timestamp < until or (last_in and info.timestamp == until)]
    return chain(store, infos, first, options)


def commits_after(store: Store, version: int, newest: int, options: Options) -> list[Commit]:
    """Return the commits of the branch after a version, up to `newest`, oldest first. Raises VersionError."""
    infos = _versions_since(store, options.text("branch", MAIN) or MAIN, version + 1)
    return chain(store, [info for info in infos if info.version <= newest], version + 1, options)


def is_net(options: Options) -> bool:
    """Return whether a feed has only the net changes between its bounds."""
    modes = "none", "dropCarryovers", "netChanges"  # commits never rewrite unchanged rows
    return options.one_of("deduplicationMode", "dropCarryovers", modes) == "netChanges"


def chain(store: Store, infos: Sequence[VersionInfo], first: int, options: Options) -> list[Commit]:
    """Return the commits of consecutive versions from `first` on; a single one for all if the feed is net.

    Raises VersionError if a version between them, or the one before them, is no longer retained.
    """
    if not infos:
        return []
    if is_net(options):
        infos = [infos[-1]._replace(parent=infos[0].parent)]
    before = infos[0].parent
    lost = before if before >= max(first, 1) else None  # version 0 changed nothing
    for info in infos:
        lost = info.parent if lost is None and info.parent != before else lost
        before = info.version
    if lost is not None:
        raise VersionError(
            f"{store.path}: what version {lost} changed is not known, since it is no longer retained; {KEEP}, "
            "or read deduplicationMode=netChanges"
        )
    origin = infos[0].parent
    try:
        store.at(origin).close()
    except VersionError:
        raise VersionError(
            f"{store.path}: what version {infos[0].version} changed is not known, since version {origin}, which it was "
            f"made from, is no longer retained; {KEEP}, or begin at a later version"
        ) from None
    return [Commit(info.parent, info.version, info.timestamp) for info in infos]


def _versions_since(store: Store, branch: str, first: int) -> list[VersionInfo]:
    """Return the retained versions of a branch from `first` on, oldest first; version 0 changed nothing."""
    limit = LISTED
    while True:
        infos = store.history(limit, branch)
        if len(infos) < limit or infos[-1].version < first:
            return [info for info in reversed(infos) if info.version >= max(first, 1)]
        limit *= 4
