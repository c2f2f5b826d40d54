"""Open stores and versions, in tasks and when a read is planned."""

from collections.abc import Iterator
from contextlib import contextmanager

import ivm  # noqa: F401 - so that concats are read as texts
import pagestore
from pagestore.errors import VersionError
from pagestore.relations.snapshot import Snapshot
from pagestore.store import Store
from pagestore.versions.settings import MAIN

from .options import Options

SEEN_BY_ALL = "a store is one file, which must be at this path on the driver's node and on every node that runs tasks"


@contextmanager
def store_at(path: str) -> Iterator[Store]:
    """Open a store to read. Raises like `pagestore.open`; FileNotFoundError says what Spark needs."""
    try:
        store = pagestore.open(path, mode="r")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no store {path} on this node: {SEEN_BY_ALL}") from None
    with store:
        yield store


def version_asked_for(store: Store, options: Options) -> int:
    """Return the version selected by `versionAsOf`, `timestampAsOf` and `branch`, by default the newest.

    Raises VersionError, MissingError, OptionsError.
    """
    options.exclusive("versionAsOf", "timestampAsOf")
    branch, when, given = options.text("branch", MAIN), options.moment("timestampAsOf"), options.text("versionAsOf")
    assert branch is not None
    if when is not None and branch != MAIN:
        for info in store.history(branch=branch):
            if info.timestamp <= when:
                return info.version
        raise VersionError(f"no retained version of branch {branch!r} is as old as {when}")
    if when is None and given is None:
        return newest_of(store, branch)
    wanted = when or (int(given) if given and given.strip().isdecimal() else given)
    assert wanted is not None
    with store.at(wanted) as snapshot:
        return snapshot.version


def newest_of(store: Store, branch: str) -> int:
    """Return the newest version of a branch. Raises MissingError."""
    with store.snapshot(branch) as snapshot:
        return snapshot.version


@contextmanager
def snapshot_at(path: str, version: int) -> Iterator[Snapshot]:
    """Open the version that a read was planned with. Raises VersionError if it was dropped since."""
    with store_at(path) as store, held(store, version) as snapshot:
        yield snapshot


def held(store: Store, version: int) -> Snapshot:
    """Open a version that existed when a read was planned. Raises VersionError, with a remedy, if it was dropped."""
    try:
        return store.at(version)
    except VersionError:
        raise VersionError(
            f"version {version} of {store.path} was there when this read was planned, and is no longer retained: "
            "read again, and keep versions for longer with store.retain, or tag the version that you read"
        ) from None
