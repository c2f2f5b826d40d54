"""The changes of a relation as commits make them, in whatever process: for those who watch it.

    commits     5        6        7 (dropped)   8
    changes     5 to 6: +(1, 2)                 6 to 8: +(1, 3) -(1, 2)

A watcher holds the version up to which it has read, so that this is not dropped, and goes on to the next one that is
retained. One that is slow thus gets the changes of several commits together, and its memory is bounded.

It sleeps until the system reports that the file was written to.
"""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from math import inf
from typing import NamedTuple

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

BURST = 8  # wakes without a commit that a watcher answers at once
PAUSE = 0.005  # seconds between further ones
LOOK = 1.0  # seconds after which a watcher checks that the store is open, and that it has missed nothing


class Change(NamedTuple):
    """What commits after version `since`, up to `version`, changed in a relation.

    `rows` is an Arrow table of the relation's columns and `_change_type`, "insert" or "delete"; a changed value is a
    delete and an insert.
    """

    since: int
    version: int
    rows: pa.Table


class Changes:
    """The changes of a relation from a version on, an iterator that waits for commits; also asynchronous.

    `version` is the one up to which changes were read. Close it, or use it in `with`; closing ends a waiting iteration.
    """

    def __init__(self, handle: Handle, name: str, since: int | str | datetime | None, branch: str = MAIN) -> None:
        self._closed = True  # until it is made
        self._handle, self._name = handle, name
        self._branch = handle.branch_id(branch)
        self._events = FileEvents(f"/proc/self/fd/{handle.file.fileno()}")  # first, so that no later commit is missed
        self._told = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._fruitless = 0  # wakes without a commit since the last one
        self._at = newest_snapshot(handle, branch) if since is None else snapshot_at(handle, since)
        self._closed = False
        if since is None and name not in self._at:
            self.close()
            raise MissingError(f"there is no relation {name!r} to watch; with since=0 it may be made later")

    @property
    def version(self) -> int:
        """The version up to which changes were read; pass it as `since` to go on from there."""
        return self._at.version

    def next(self, timeout: float | None = None) -> Change | None:
        """Return the next change, waiting for it; None after `timeout` seconds, or once this is closed.

        Raises MissingError if the relation was dropped, SchemaError if it was made anew, ClosedError.
        """
        end = inf if timeout is None else time.monotonic() + timeout
        while not self._closed:
            if change := self._step():
                return change
            if (left := end - time.monotonic()) <= 0:
                return None
            self._pause()
            if not self._closed:
                select.select([self._events.fileno(), self._told], [], [], min(left, self._look))
        return None

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        change = self.next()
        if change is None:
            raise StopIteration
        return change

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> Change:
        loop = asyncio.get_running_loop()
        while not self._closed:
            if change := await loop.run_in_executor(None, self._step):
                return change
            woken = asyncio.Event()
            for fd in (self._events.fileno(), self._told):
                loop.add_reader(fd, woken.set)
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), self._look)
            finally:
                for fd in (self._events.fileno(), self._told):
                    loop.remove_reader(fd)
            if self._fruitless > BURST:
                await asyncio.sleep(PAUSE)
        raise StopAsyncIteration

    def close(self) -> None:
        """Stop watching, and release the version. Idempotent."""
        if not self._closed:
            self._closed = True
            with suppress(OSError):
                os.eventfd_write(self._told, 1)
            self._at.close()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
        with suppress(Exception):  # it was never made
            self._events.close()
            os.close(self._told)

    @property
    def _look(self) -> float:
        return LOOK if self._events.reported else PAUSE

    def _pause(self) -> None:
        """Let writes gather, if many came without a commit: those of a load, say."""
        if self._fruitless > BURST:
            time.sleep(PAUSE)

    def _step(self) -> Change | None:
        """Read the next versions that are retained, up to one with changes; return these, None if there are none."""
        self._events.clear()
        state = self._handle.refresh()
        if state.heads[self._branch].version == self._at.version:
            self._fruitless += 1
            return None
        self._fruitless = 0
        for entry in state.versions.entries(self._handle.mapping.pages):
            if entry.branch != self._branch or entry.version <= self._at.version:
                continue
            new = take_snapshot(self._handle, entry.version)  # None if it was dropped meanwhile: a later one follows
            if new is not None and (change := self._go_on(new)):
                return change
        return None

    def _go_on(self, new: Snapshot) -> Change | None:
        """Read the changes up to a version, and hold that one instead."""
        old = self._at
        if self._name not in old and self._name not in new:
            rows = None
        else:
            rows = changes_table(old, new, self._name)
        self._at = new
        old.close()
        return Change(old.version, new.version, rows) if rows is not None and rows.num_rows else None
