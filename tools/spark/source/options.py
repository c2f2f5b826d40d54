"""The options of a read or a write, as Spark passes them: texts by case-insensitive name.

Open stores and versions, in tasks and when a read is planned.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from os.path import abspath
from typing import Any

import ivm  # noqa: F401 - so that concats are read as texts
import pagestore
from pagestore.errors import PagestoreError, VersionError
from pagestore.host import MAIN, Snapshot, Store, local_path

READING = """
    path relation branch columns keyFrom keyTo numPartitions versionAsOf timestampAsOf
    readChangeFeed startingVersion endingVersion startingTimestamp endingTimestamp startingBoundInclusive
    endingBoundInclusive deduplicationMode computeUpdates maxVersionsPerTrigger maxRowsPerTrigger
""".split()
WRITING = "path relation branch key operation lockTimeout stagingPath txnAppId txnVersion checkpointLocation".split()


class OptionsError(PagestoreError, ValueError):
    """An option is missing, unknown, or has an invalid value."""


class Options:
    """Options by name. Raises OptionsError for names that are not in `known`."""

    def __init__(self, given: Mapping[str, str], known: Iterable[str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        names = {name.lower(): name for name in known}
        for name in self._given.keys() - names.keys():
            near = get_close_matches(name, names, 1)
            if near:
                remedy = f"did you mean {names[near[0]]}?"
            else:
                remedy = f"there are {', '.join(names.values())}"
            raise OptionsError(f"there is no option {name}; {remedy}")
        if path := self._given.get("path"):
            self._given["path"] = abspath(local_path(path))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return an option's text."""
        return self._given.get(name.lower(), default)

    def required(self, name: str, remedy: str) -> str:
        """Return an option that must be given. Raises OptionsError."""
        value = self.text(name)
        if not value:
            raise OptionsError(f"option {name} is missing: {remedy}")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """Return names separated by commas; none if the option is missing."""
        return tuple(part.strip() for part in (self.text(name) or "").split(",") if part.strip())

    def one_of(self, name: str, default: str, values: Iterable[str]) -> str:
        """Return one of some words, case-insensitive. Raises OptionsError."""
        known = {value.lower(): value for value in values}
        given = (self.text(name) or default).lower()
        if given not in known:
            raise OptionsError(f"{name}={self.text(name)!r}: one of {', '.join(known.values())}")
        return known[given]

    def flag(self, name: str, default: bool = False) -> bool:
        """Return true or false. Raises OptionsError."""
        return self.one_of(name, str(default), ("true", "false")) == "true"

    def number(self, name: str, kind: type[Any] = int, least: float = 0) -> Any:
        """Return a number from `least` on; None if the option is missing. Raises OptionsError."""
        given = self.text(name)
        if given is None:
            return None
        try:
            value = kind(given)
        except ValueError:
            value = None
        if value is None or not value >= least:
            raise OptionsError(f"{name}={given!r}: a number from {least} on is wanted")
        return value

    def moment(self, name: str) -> datetime | None:
        """Return an ISO time, in UTC unless it has a zone; None if the option is missing. Raises
        OptionsError.
        """
        given = self.text(name)
        if given is None:
            return None
        try:
            value = datetime.fromisoformat(given.strip())
        except ValueError:
            example = "2026-11-25T12:30:00+01:00"
            raise OptionsError(f"{name}={given!r}: a time such as {example} is wanted") from None
        return value if value.tzinfo else value.replace(tzinfo=UTC)

    def exclusive(self, *names: str) -> None:
        """Raise OptionsError if two of some options are given."""
        given = [name for name in names if name in self]
        if len(given) > 1:
            raise OptionsError(f"{' and '.join(given)} exclude each other: give one of them")


SEEN_BY_ALL = "a store is one file, which must be at this path on the driver's node and on every node that runs tasks"


@contextmanager
def store_at(path: str) -> Iterator[Store]:
    """Open a store to read. Raises as `pagestore.open`; FileNotFoundError says what Spark needs."""
    try:
        store = pagestore.open(path, mode="r")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no store {path} on this node: {SEEN_BY_ALL}") from None
    with store:
        yield store


def version_requested(store: Store, options: Options) -> int:
    """Return the version selected by `versionAsOf`, `timestampAsOf` and `branch`, by default the
    newest.

    Raises VersionError, MissingError, OptionsError.
    """
    options.exclusive("versionAsOf", "timestampAsOf")
    branch, when = options.text("branch", MAIN), options.moment("timestampAsOf")
    given = options.text("versionAsOf")
    assert branch is not None
    if when is not None and branch != MAIN:
        for info in store.history(branch=branch):
            if info.timestamp <= when:
                return info.version
        raise VersionError(f"no retained version of branch {branch!r} is as old as {when}")
    if when is None and given is None:
        return newest_of(store, branch)
    version = when or (int(given) if given and given.strip().isdecimal() else given)
    assert version is not None
    with store.at(version) as snapshot:
        return snapshot.version


def newest_of(store: Store, branch: str) -> int:
    """Return the newest version of a branch. Raises MissingError."""
    with store.snapshot(branch) as snapshot:
        return snapshot.version


@contextmanager
def snapshot_at(path: str, version: int) -> Iterator[Snapshot]:
    """Open the version that a read was planned with. Raises VersionError if it is gone."""
    with store_at(path) as store, held(store, version) as snapshot:
        yield snapshot


def held(store: Store, version: int) -> Snapshot:
    """Open a version that existed when a read was planned. Raises VersionError, with a remedy,
    if it was dropped.
    """
    try:
        return store.at(version)
    except VersionError:
        raise VersionError(
            f"version {version} of {store.path} was there when this read was planned, and is no "
            "longer retained: read again, and keep versions for longer with store.retain, or tag "
            "the version that you read"
        ) from None
