"""How much memory is left: rows too many for it are an error in time, and not the end of the process.

Linux hands out memory that it does not have, and ends who uses it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from ivm.errors import RoomError

LOOK = 1 << 26  # bytes that an evaluation keeps from one look to the next; one takes 0.1 ms
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class Kept:
    """What one evaluation keeps, in all its threads together."""

    def __init__(self) -> None:
        self._size = self._looked = 0
        self._lock = Lock()

    def add(self, size: int) -> None:
        """Count some bytes.

        Raises RoomError where less is left than there are, since they may have to be sorted and stored.
        """
        with self._lock:
            self._size += size
            if self._size <= self._looked + LOOK:
                return
            self._looked = self._size
        room = left()
        if room < self._looked:
            raise RoomError(
                f"{self._looked / 1e9:,.1f} GB of rows are found, and {room / 1e9:,.1f} GB of memory are left, too few "
                "to go on; ask for less at once, or for an aggregate. To be matched, a view records less with a "
                'coarser granularity, and nothing with maintenance="probe"'
            )


def left() -> int:
    """Bytes that the process may still have: of the machine, swap included, and of its control groups.

    As many as there are where the system does not say.
    """
    try:
        machine = _fields(PROC / "meminfo")
        return min(1024 * (machine["MemAvailable:"] + machine["SwapFree:"]), *_left_of_groups())
    except (OSError, KeyError, ValueError):
        return sys.maxsize


def _left_of_groups() -> Iterator[int]:
    """What limits of the control group, of version 2, and of those that it is in leave, and more than any would."""
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
