"""The number of a version that a user names by its number, a tag, a branch or a time."""

from collections.abc import Callable, Iterator
from datetime import datetime
from operator import index

from pagestore.errors import MissingError, VersionError
from pagestore.versions.catalog import MAIN_ID
from pagestore.versions.store_state import StoreState
from pagestore.versions.version_table import Entry


def number_of(
    name: int | str | datetime, state: StoreState, newest_first: Callable[[], Iterator[Entry]]
) -> int:
    """Return the number of a version; it may be dropped already.

    `newest_first` yields the retained versions. Raises VersionError for a number that was never
    given or a time before all of them, MissingError for an unknown tag or branch.
    """
    if isinstance(name, datetime):
        return _number_at(name, newest_first())
    if not isinstance(name, str):
        return _number_given(name, state.last_version)
    tags, branches = state.settings.tags, state.settings.branches
    if name in tags:
        return tags[name]
    if name in branches:
        return state.heads[branches[name]].version
    known = ", ".join([*tags, *branches])
    raise MissingError(f"there is no tag or branch {name!r}; there is {known}")


def _number_at(when: datetime, newest_first: Iterator[Entry]) -> int:
    """Return the newest version of the main branch made by a time."""
    try:
        limit = int(when.timestamp() * 1e6)
    except (OverflowError, ValueError, OSError):
        raise VersionError(f"{when} is out of the range of times that this system knows") from None
    for entry in newest_first:
        if entry.timestamp <= limit and entry.branch == MAIN_ID:
            return entry.version
    raise VersionError(
        f"no retained version is as old as {when}; store.history() lists those that exist"
    )


def _number_given(version: int, newest: int) -> int:
    try:
        number = index(version)
    except TypeError:
        raise VersionError(
            f"{version!r} is not a version; give a number, a tag, a branch or a time"
        ) from None
    if not 0 <= number <= newest:
        raise VersionError(f"version {number} is not retained; the newest is {newest}")
    return number
