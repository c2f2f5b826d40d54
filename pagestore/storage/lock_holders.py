"""Find the processes that hold a byte lock on a file, as far as /proc shows them to this user."""

import os
import re
from contextlib import suppress
from pathlib import Path


def lock_holders(path: Path, at: int) -> list[int]:
    """Return the processes that hold a lock on byte `at`, ascending. O(open files of the machine)."""
    pattern = re.compile(rf"^lock:.*:{path.stat().st_ino} (\d+) (\d+)$", re.MULTILINE)
    found = set()
    for info in Path("/proc").glob("[0-9]*/fdinfo/*"):
        with suppress(OSError):
            for first, last in pattern.findall(info.read_text()):  # one handle's neighbouring locks are one range
                if int(first) <= at <= int(last):
                    found.add(int(info.parts[2]))
    return sorted(found)


def process_start(pid: int) -> float:
    """Return when a process began, in seconds since the machine's start; 0 if that cannot be seen."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def describe_holders(path: Path, at: int) -> str:
    """Describe the holders of a lock on byte `at`, for a message: each process, and whether it is stopped."""
    return " and ".join(map(_process, lock_holders(path, at))) or "a process that this user cannot see"


def _process(pid: int) -> str:
    if pid == os.getpid():
        return f"this process ({pid})"
    with suppress(OSError, IndexError, ValueError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        return f"process {pid} ({name}{', stopped now' if state in 'Tt' else ''})"
    return f"process {pid}"
