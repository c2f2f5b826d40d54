"""Commits, and the changes of a relation as they make them, in whatever process: for those who
watch.

    commits     5        6        7 (dropped)   8
    changes     5 to 6: +(1, 2)                 6 to 8: +(1, 3) -(1, 2)

A watcher holds the version up to which it has read, so that this is not dropped, and goes on to the
next one that is retained. One that is slow thus gets the changes of several commits together, and
its memory is bounded.

It sleeps until the system reports that the file was written to.
"""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from math import inf
from typing import Generic, NamedTuple, Self, TypeVar

from pagestore.errors import MissingError
from pagestore.relations.snapshot import (
    Snapshot,
    changes_table,
    newest_snapshot,
    snapshot_at,
    take_snapshot,
)
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.storage.system import FileEvents
from pagestore.versions.catalog import MAIN
from pagestore.versions.handle import Handle
from pagestore.versions.version_table import VersionTable

BURST = 8  # wakes without a commit that a watcher answers at once
PAUSE = 0.005  # seconds between further ones
# seconds after which a watcher checks that the store is open, and that it has missed nothing
LOOK = 1.0


class Change(NamedTuple):
    """What commits after version `since`, up to `version`, changed in a relation.

    `rows` is an Arrow table of the relation's columns and `_change_type`, "insert" or "delete"; a
    changed value is a delete and an insert.
    """

    since: int
    version: int
    rows: pa.Table


Found = TypeVar("Found")
# of a relation in two versions
Differences = Callable[[Snapshot, Snapshot, str], "pa.Table | None"]


class Watch(Generic[Found]):
    """An iterator that waits for commits to a branch; also asynchronous. Close it, or use it in
    `with`.

    `version` is the one up to which commits were read; closing ends a waiting iteration.
    """

    def __init__(
        self, handle: Handle, since: int | str | datetime | None, branch: str = MAIN
    ) -> None:
        self._closed = True  # until it is made
        self._handle = handle
        self._branch = handle.branch_id(branch)
        # first, so that no later commit is missed
        self._events = FileEvents(f"/proc/self/fd/{handle.file.fileno()}")
        self._told = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._to_close: list[Callable[[], None]] = [
            self._events.close,
            partial(os.close, self._told),
        ]
        self._uses: deque[None] = deque()  # an entry for each call that may wait by them
        self._fruitless = 0  # wakes without a commit since the last one
        self._at = newest_snapshot(handle, branch) if since is None else snapshot_at(handle, since)
        self._closed = False

    def _found(self, old: Snapshot, new: Snapshot) -> Found | None:
        """Return what is yielded for a version that follows another; None for nothing."""
        raise NotImplementedError

    @property
    def version(self) -> int:
        """The version up to which commits were read; pass it as `since` to go on from there."""
        return self._at.version

    def next(self, timeout: float | None = None) -> Found | None:
        """Return the next one, waiting for it; None after `timeout` seconds, or once this is
        closed.

        Raises ClosedError; one of a relation MissingError if that was dropped, SchemaError if it
        was made anew.
        """
        end = inf if timeout is None else time.monotonic() + timeout
        with self._using():
            while not self._closed:
                if (change := self._step()) is not None:
                    return change
                if (left := end - time.monotonic()) <= 0:
                    return None
                self._pause()
                if not self._closed:
                    select.select(
                        [self._events.fileno(), self._told], [], [], min(left, self._look)
                    )
        return None

    def __iter__(self) -> Iterator[Found]:
        return self

    def __next__(self) -> Found:
        change = self.next()
        if change is None:
            raise StopIteration
        return change

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Found:
        with self._using():
            while not self._closed:
                if (change := await asyncio.to_thread(self._step)) is not None:
                    return change
                await self._woken()
        raise StopAsyncIteration

    async def _woken(self) -> None:
        """Wait until the file was written to, or this was closed."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        fds = (self._events.fileno(), self._told)
        for fd in fds:
            loop.add_reader(fd, woken.set)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), self._look)
        finally:
            for fd in fds:
                loop.remove_reader(fd)
        if self._fruitless > BURST:
            await asyncio.sleep(PAUSE)

    def close(self) -> None:
        """Stop watching, and release the version and the descriptors. Idempotent."""
        if not self._closed:
            self._closed = True
            if not self._handle.forked:  # else it would be told to the watcher of the parent
                os.eventfd_write(self._told, 1)
            self._at.close()
        self._give_back()

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Keep the descriptors in the block. Raises ClosedError, ForkError."""
        if not self._closed:
            self._handle.check()  # in a forked child asyncio has no threads to find that out by
        self._uses.append(None)  # before it is seen whether this is closed
        try:
            yield
        finally:
            self._uses.pop()
            self._give_back()

    def _give_back(self) -> None:
        """Give the descriptors back, if this is closed and nobody waits by them: the last to
        wait does it then.
        """
        while self._closed and self._to_close and not self._uses:
            with suppress(IndexError):  # another thread does the same
                self._to_close.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Exception):  # it was never made
            self.close()

    @property
    def _look(self) -> float:
        return LOOK if self._events.reported else PAUSE

    def _pause(self) -> None:
        """Let writes gather, if many came without a commit: those of a load, say."""
        if self._fruitless > BURST:
            time.sleep(PAUSE)

    def _step(self) -> Found | None:
        """Read the next retained versions; return what the first with anything yields, or None."""
        with self._using():  # also in a thread whose task was cancelled
            if self._closed:
                return None
            self._events.clear()
        newest = next(self._handle.shown_states()).heads[self._branch].version
        if newest <= self._at.version:
            self._fruitless += 1
            return None
        self._fruitless = 0
        for entry in self._handle.read_versions(VersionTable.entries):
            if entry.branch != self._branch or not self._at.version < entry.version <= newest:
                continue
            # None if it was dropped meanwhile: a later one follows
            new = take_snapshot(self._handle, entry.version)
            if new is not None and (change := self._go_on(new)) is not None:
                return change
        return None

    def _go_on(self, new: Snapshot) -> Found | None:
        """Read a version, and hold that one instead."""
        old = self._at
        change = self._found(old, new)
        self._at = new
        old.close()
        return change


class Commits(Watch[int]):
    """The versions that commits make from one version on, an iterator that waits for them; also
    asynchronous.

    Versions that were dropped before they were read are left out.
    """

    def _found(self, old: Snapshot, new: Snapshot) -> int:
        return new.version


class Changes(Watch[Change]):
    """The changes of a relation from a version on, an iterator that waits; also asynchronous."""

    def __init__(
        self,
        handle: Handle,
        name: str,
        since: int | str | datetime | None,
        branch: str = MAIN,
        read: Differences | None = None,
    ) -> None:
        super().__init__(handle, since, branch)
        self._name, self._read = name, read or _differences
        if since is None and self._read(self._at, self._at, name) is None:
            self.close()
            raise MissingError(
                f"there is no relation {name!r} to watch; with since=0 it may be made later"
            )

    def _found(self, old: Snapshot, new: Snapshot) -> Change | None:
        rows = self._read(old, new, self._name)
        return (
            Change(old.version, new.version, rows) if rows is not None and rows.num_rows else None
        )


def _differences(old: Snapshot, new: Snapshot, name: str) -> pa.Table | None:
    return changes_table(old, new, name) if name in old or name in new else None
