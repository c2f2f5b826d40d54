"""Locks of versions: a version that is being read is not dropped, and one that is being dropped is not read.

Other processes see byte locks on the file (storage/file.py), threads of this one see pins and `_going`. A reader's
handle locks the byte of a version when its first snapshot takes it; the writer's own snapshots are only counted. A pin
lasts as long as something refers to it, so that an exception at any moment leaves none behind.
"""

import threading
from collections import deque
from collections.abc import Sequence
from weakref import ref

from pagestore.errors import CorruptionError
from pagestore.storage.file import EXCLUSIVE, SHARED, UNLOCKED, VERSION_LOCK, File
from pagestore.storage.meta import NUMBER_END
from pagestore.versions.version_table import Entry


class PinReference(ref["Pin"]):
    """A weak reference to a pin that equals only itself, even when the pin no longer exists."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Pin:
    """A claim that keeps a version from being dropped until it is unpinned, or until nothing refers to it."""

    __slots__ = ("__weakref__", "mark", "over", "version")

    def __init__(self, version: int):
        self.version, self.over = version, False
        self.mark: PinReference


class VersionLocks:
    """The pins and locks of one handle."""

    def __init__(self, file: File, writer: bool):
        self._file, self._writer = file, writer
        self._guard = threading.RLock()
        self._marks: dict[int, set[PinReference]] = {}  # the pins of each version
        self._versions: dict[PinReference, int] = {}
        self._forgotten: deque[PinReference] = deque()
        self._locked: set[int] = set()  # versions whose bytes this handle may have locked
        self._going: set[int] = set()  # versions that are being dropped

    @property
    def pins(self) -> set[int]:
        """The versions that snapshots of this handle read."""
        self.unlock_unread()
        return {*self._marks}

    def pin(self, version: int) -> Pin | None:
        """Pin a version, so that it is not dropped; return None if it is being dropped. O(1)."""
        if not 0 <= version < NUMBER_END:
            raise CorruptionError(f"there can be no version {version}")
        with self._guard:
            self._unlock_unread()
            if version in self._going:
                return None
            if not (self._writer or version in self._marks):
                self._locked.add(version)  # first, so that a lock left by an exception is known
                if not self._file.lock(SHARED, VERSION_LOCK + version):
                    self._locked.discard(version)
                    return None
            pin = Pin(version)
            pin.mark = PinReference(pin, self._forgotten.append)
            self._versions[pin.mark] = version
            self._marks.setdefault(version, set()).add(pin.mark)
            return pin

    def unpin(self, pin: Pin) -> None:
        """Release a pin. Idempotent. O(1)."""
        pin.over = True
        self._forgotten.append(pin.mark)
        self.unlock_unread()

    def unlock_unread(self) -> None:
        """Unlock the versions that no snapshot reads any more."""
        with self._guard:
            self._unlock_unread()

    def _unlock_unread(self) -> None:
        while self._forgotten:
            mark = self._forgotten[0]
            version = self._versions.get(mark)
            if version is not None:
                marks = self._marks.get(version, set())
                marks.discard(mark)
                if not marks:
                    self._marks.pop(version, None)
                self._versions.pop(mark, None)
            self._forgotten.popleft()  # last, so that after an exception the steps are merely repeated
        if len(self._locked) > len(self._marks):
            for version in self._locked - self._marks.keys():
                self._file.lock(UNLOCKED, VERSION_LOCK + version)
                self._locked.discard(version)

    def lock(self, entries: Sequence[Entry], parent: int = -1) -> list[Entry]:
        """Lock versions, ascending, against new readers until `unlock`; return them, without `parent` and any read."""
        if not entries:
            return []
        with self._guard:
            self._unlock_unread()
            free = [entry for entry in entries if entry.version != parent and entry.version not in self._marks]
            self._going.update(entry.version for entry in free)
            locked = free if self._lock_together(free) else [entry for entry in free if self._lock_together([entry])]
            self._going.intersection_update([entry.version for entry in locked])
        return locked

    def _lock_together(self, entries: Sequence[Entry]) -> bool:
        """Lock consecutive versions in one call; return False, locking none, if one is being read or missing."""
        if not entries or entries[-1].version - entries[0].version >= len(entries):
            return False
        return self._file.lock(EXCLUSIVE, VERSION_LOCK + entries[0].version, len(entries))

    def unlock(self) -> None:
        """Unlock the locked versions; new readers will find them dropped."""
        if self._going:
            first, last = min(self._going), max(self._going)
            self._file.lock(UNLOCKED, VERSION_LOCK + first, last - first + 1)
            self._going.clear()
