"""Which versions are being read, and which are being dropped: one excludes the other.

Other processes see byte locks on the file (see file.py), threads of this one see `pins` and `going`. A reader's
handle locks the byte of a version when its first snapshot takes it; the writer's own snapshots are only counted.
"""

import threading
from collections.abc import Sequence

from .file import EXCLUSIVE, SHARED, UNLOCKED, VERSION_LOCK, File
from .history import Entry


class VersionLocks:
    """The books of one handle."""

    def __init__(self, file: File, writer: bool):
        self._file, self._writer = file, writer
        self.guard = threading.RLock()
        self.pins: dict[int, int] = {}  # versions that snapshots read, and how many do
        self._going: set[int] = set()  # versions that are being dropped

    def pin(self, version: int) -> bool:
        """Keep a version from being dropped; False if that is happening at this moment. O(1)."""
        with self.guard:
            if version in self._going:
                return False
            count = self.pins.get(version, 0)
            if not (count or self._writer or self._file.lock(SHARED, VERSION_LOCK + version)):
                return False
            self.pins[version] = count + 1
            return True

    def unpin(self, version: int) -> None:
        """A snapshot lets a version go. O(1)."""
        with self.guard:
            self.pins[version] -= 1
            if not self.pins[version]:
                del self.pins[version]
                if not self._writer:
                    self._file.lock(UNLOCKED, VERSION_LOCK + version)

    def lock(self, entries: Sequence[Entry], parent: int = -1) -> list[Entry]:
        """Lock versions, ascending, against new readers; those that somebody reads, and the parent, are left out."""
        if not entries:
            return []
        with self.guard:
            free = [entry for entry in entries if entry.version != parent and entry.version not in self.pins]
            locked = free if self._whole(free) else [entry for entry in free if self._whole([entry])]
            self._going.update(entry.version for entry in locked)
        return locked

    def _whole(self, entries: Sequence[Entry]) -> bool:
        """Lock versions that follow each other in one go; False, and nothing is locked, where that cannot be."""
        if not entries or entries[-1].version - entries[0].version >= len(entries):
            return False
        return self._file.lock(EXCLUSIVE, VERSION_LOCK + entries[0].version, len(entries))

    def unlock(self, entries: Sequence[Entry]) -> None:
        """After the commit: whoever comes now finds that they are gone."""
        if entries:
            first, last = entries[0].version, entries[-1].version
            self._file.lock(UNLOCKED, VERSION_LOCK + first, last - first + 1)
            self._going.difference_update(entry.version for entry in entries)
