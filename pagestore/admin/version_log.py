"""The history of a store, a line for each version."""

from datetime import datetime
from itertools import islice
from typing import NamedTuple

from pagestore.errors import CorruptionError
from pagestore.relations.snapshot import moment
from pagestore.versions.commit_record import Commit
from pagestore.versions.handle import Handle
from pagestore.versions.version_table import Entry


class VersionInfo(NamedTuple):
    """A line of the history."""

    version: int
    timestamp: datetime
    message: str
    branch: str
    parent: int
    tags: tuple[str, ...]


def describe_versions(handle: Handle, limit: int | None, branch: str | None) -> list[VersionInfo]:
    """See Store.history."""
    if limit is not None and limit < 0:
        raise ValueError(f"limit={limit}: give a number of versions, 0 or more, or None for all")
    state = handle.refresh()
    wanted = None if branch is None else handle.branch_id(branch)
    while True:
        entries = (e for e in state.versions.newest_first(handle.mapping.pages) if wanted in (None, e.branch))
        described = list(islice((info for e in entries if (info := _described(handle, e))), limit))
        if described or limit == 0 or wanted is not None:
            return described
        state = handle.refresh()  # all of the entries were dropped while they were read


def _described(handle: Handle, entry: Entry) -> VersionInfo | None:
    """Return a line of the history; None if the writer drops the version meanwhile."""
    settings = handle.state.settings
    try:
        commit = Commit.read(handle.mapping, entry.run, entry.version)
    except CorruptionError as error:
        if handle.refresh().versions.find(handle.mapping.pages, entry.version):
            fact = f"it holds the record of version {entry.version}, which does not read"
            raise CorruptionError(fact, page=error.page) from None
        return None
    tags = tuple(sorted(tag for tag, version in settings.tags.items() if version == entry.version))
    branch = next((name for name, number in settings.branches.items() if number == entry.branch), "")
    return VersionInfo(entry.version, moment(entry.timestamp), commit.message, branch, commit.parent, tags)
