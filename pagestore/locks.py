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
        """Lock versions against new readers; those that somebody reads, and the parent, are left out."""
        locked = []
        for entry in entries:
            with self.guard:
                if entry.version == parent or entry.version in self.pins:
                    continue
                if not self._file.lock(EXCLUSIVE, VERSION_LOCK + entry.version):
                    continue
                self._going.add(entry.version)
            locked.append(entry)
        return locked

    def unlock(self, entries: Sequence[Entry]) -> None:
        """After the commit: whoever comes now finds that they are gone."""
        for entry in entries:
            self._file.lock(UNLOCKED, VERSION_LOCK + entry.version)
            self._going.discard(entry.version)
