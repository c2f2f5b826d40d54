"""The options of a read or a write, as Spark passes them: texts by case-insensitive name."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from os.path import abspath
from typing import Any

from pagestore.errors import PagestoreError
from pagestore.storage.file import local_path

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
            remedy = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(names.values())}"
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
        found = {value.lower(): value for value in values}
        given = (self.text(name) or default).lower()
        if given not in found:
            raise OptionsError(f"{name}={self.text(name)!r}: one of {', '.join(found.values())}")
        return found[given]

    def flag(self, name: str, default: bool = False) -> bool:
        """Return true or false. Raises OptionsError."""
        return self.one_of(name, str(default), ("true", "false")) == "true"

    def number(self, name: str, kind: type[Any] = int, least: float = 0) -> Any:
        """Return a number of at least `least`; None if the option is missing. Raises OptionsError."""
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
        """Return an ISO time, in UTC unless it has a zone; None if the option is missing. Raises OptionsError."""
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
