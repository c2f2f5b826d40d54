"""A guard against running out of memory: an evaluation that finds too many rows raises RoomError in time.

Linux grants memory that it does not have, and kills the process that uses it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from ivm.errors import RoomError

CHECK_BYTES = 1 << 26  # bytes between two looks at the memory left; a look takes 0.1 ms
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class MemoryUse:
    """The bytes of rows that one evaluation holds, over all its threads."""

    def __init__(self) -> None:
        self._size = self._looked = 0
        self._lock = Lock()

    def add(self, size: int) -> None:
        """Count some bytes.

        Raises RoomError if less memory is left than the rows take, since sorting and storing may need as much again.
        """
        with self._lock:
            self._size += size
            if self._size <= self._looked + CHECK_BYTES:
                return
            self._looked = self._size
        room = memory_left()
        if room < self._looked:
            raise RoomError(
                f"{self._looked / 1e9:,.1f} GB of rows are found, and {room / 1e9:,.1f} GB of memory are left, too few "
                "to go on; ask for less at once, or for an aggregate. To be matched, a view records less with a "
                'coarser granularity, and nothing with maintenance="probe"'
            )


def memory_left() -> int:
    """Bytes that the process may still use, by the machine (with swap) and by its control groups.

    sys.maxsize where the system does not say.
    """
    try:
        machine = _fields(PROC / "meminfo")
        return min(1024 * (machine["MemAvailable:"] + machine["SwapFree:"]), *_left_in_control_groups())
    except (OSError, KeyError, ValueError):
        return sys.maxsize


def _left_in_control_groups() -> Iterator[int]:
    """Bytes left by each limit of the process's control group (version 2) and of those around it, and sys.maxsize."""
    yield sys.maxsize
    for line in (PROC / "self" / "cgroup").read_text().splitlines():
        group = GROUPS / line.removeprefix("0::/")
        for folder in (group, *group.parents) if line.startswith("0::/") else ():
            limit = folder / "memory.max"
            if limit.exists() and (most := limit.read_text().strip()) != "max":
                taken = int((folder / "memory.current").read_text()) - _fields(folder / "memory.stat")["inactive_file"]
                yield int(most) - taken


def _fields(file: Path) -> dict[str, int]:
    return {name: int(value) for name, value, *_ in map(str.split, file.read_text().splitlines())}
