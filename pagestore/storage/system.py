"""What a store needs of an operating system beyond POSIX, and substitutes where a system lacks it.

Two things have no substitute: locks of byte ranges that belong to an open file, and a map that
shows what is written to the file. A store needs both, and so it runs on Linux
(docs/reliability.md).

Find the processes that hold a byte lock on a file, as far as /proc shows them to this user.
"""

import ctypes
import errno
import fcntl
import os
import pwd
import re
import sys
import time
from contextlib import suppress
from pathlib import Path

ZEROS = bytes(1 << 20)
_IN_MODIFY, _REPORTS = 2, 1 << 12  # reports of writes, and bytes of them read at a time
_STATFS = 256  # bytes, more than a struct statfs has; its first long is the kind of file system

# the number of the call `futex`, and what it is asked for: to wait, to wake
_FUTEX, _WAIT, _WAKE = {"x86_64": 202, "aarch64": 98}.get(os.uname().machine), 0, 1
_NAP = 2e-4  # seconds between looks at a word where there is no such call

_libc = ctypes.CDLL(None, use_errno=True)


def sync_data(fd: int) -> None:
    """Return once all that was written to a file, and its size, is on the disk."""
    try:
        os.fdatasync(fd)
    except AttributeError:  # macOS, whose fsync leaves it in the drive
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC) if hasattr(fcntl, "F_FULLFSYNC") else os.fsync(fd)


def allocate(fd: int, offset: int, count: int) -> None:
    """Allocate `count` bytes at `offset`, growing the file; OSError(ENOSPC) leaves it unchanged."""
    size = os.fstat(fd).st_size
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, offset, count)
        else:
            _write_zeros(fd, size, offset + count)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            os.truncate(fd, size)
            raise
        os.truncate(fd, max(size, offset + count))


def _write_zeros(fd: int, begin: int, end: int) -> None:
    """Write zeros after a file's end, without which a full disk would show only at later writes."""
    while begin < end:
        begin += os.pwrite(fd, ZEROS[: end - begin], begin)


class FileEvents:
    """Reports of the system (inotify) that any process wrote to a file; `select` waits for them."""

    def __init__(self, path: str) -> None:
        """Begin to watch. `reported` is False where the system allows no more watches."""
        self._fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.reported = (
            self._fd >= 0 and _libc.inotify_add_watch(self._fd, os.fsencode(path), _IN_MODIFY) >= 0
        )
        if self._fd < 0:
            self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """Return the descriptor, which is readable from a report until `clear`."""
        return self._fd

    def clear(self) -> None:
        """Forget what was reported so far."""
        with suppress(BlockingIOError):
            while os.read(self._fd, _REPORTS):
                pass

    def close(self) -> None:
        """Stop watching. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def sleep_on(address: int, value: int, seconds: float) -> None:
    """Sleep until a word of shared memory, int64, is another than `value`, or for so long; perhaps
    less.

    Whoever changes the word calls `wake`.
    """
    if _FUTEX is None:
        time.sleep(min(_NAP, seconds))
        return
    whole = int(seconds)
    at_most = _Time(whole, int(1e9 * (seconds - whole)))
    half = ctypes.c_uint32(value & 0xFFFFFFFF)  # the system compares half of the word
    _libc.syscall(
        ctypes.c_long(_FUTEX), ctypes.c_void_p(address), _WAIT, half, ctypes.byref(at_most), None, 0
    )


def wake(address: int) -> None:
    """Wake the processes that sleep on a word of shared memory."""
    if _FUTEX is not None:
        _libc.syscall(ctypes.c_long(_FUTEX), ctypes.c_void_p(address), _WAKE, 1, None, None, 0)


def file_system(fd: int) -> int:
    """Return Linux's number of the kind of file system of an open file; 0 if it is not known."""
    about = ctypes.create_string_buffer(_STATFS)
    if sys.platform != "linux" or _libc.fstatfs(ctypes.c_int(fd), about):
        return 0
    return ctypes.c_long.from_buffer(about).value


def told(error: OSError) -> OSError:
    """Return the same error with a sentence as its text, instead of a number, the system's
    phrase and a path.
    """
    if error.errno is None or error.filename is None:
        return error
    worded = type(error)(in_words(error))
    worded.errno = error.errno
    return worded


def in_words(error: OSError) -> str:
    """Say what the system refused, for which file, and what helps; else return the error's text."""
    if error.errno is None or not isinstance(error.filename, str | bytes | os.PathLike):
        return str(error)
    name = os.fsdecode(error.filename)
    place = Path(os.path.abspath(name))
    if not name:
        return "the name of a file is empty: name one"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return _missing(name, place)
    if error.errno == errno.EISDIR:
        return f"{name} is a folder, and a file is wanted: name a file in it"
    if error.errno in (errno.EACCES, errno.EPERM):
        return _forbidden(name, place)
    said = os.strerror(error.errno).lower()
    return f"{name}: the system refuses it ({said})"


def _missing(name: str, place: Path) -> str:
    """Say that a file is missing, or the folder that it should be in."""
    from difflib import get_close_matches

    for folder in reversed(place.parents):
        if not folder.exists():
            return f"there is no folder {folder} for {name}: make it first, or mend the path"
        if not folder.is_dir():
            return f"{folder} is a file, so there is no {name} in it: mend the path"
    near: list[str] = []
    with suppress(OSError):  # only names are compared: endings are often alike
        stems = [file.stem for file in place.parent.iterdir() if file.suffix == place.suffix]
        near = get_close_matches(place.stem, stems, 1)
    remedy = f"; did you mean {near[0]}{place.suffix}?" if near else ": mend the path"
    return f"there is no file {name}{remedy}"


def _forbidden(name: str, place: Path) -> str:
    """Say what this user may not do, and who may allow it."""
    parents = [folder for folder in reversed(place.parents) if not os.access(folder, os.X_OK)]
    what = parents[0] if parents else place if place.exists() else place.parent
    verb = "look into" if parents else "read" if not os.access(what, os.R_OK) else "write to"
    owner = ""
    with suppress(OSError, KeyError):
        owner = f", which belongs to {pwd.getpwuid(os.stat(what).st_uid).pw_name}"
    return f"{name}: this user may not {verb} {what}{owner}: ask for the permission, or use a copy elsewhere"


def lock_holders(path: Path, at: int) -> list[int]:
    """Return the processes that hold a lock on byte `at`, ascending. O(open files of the machine)."""
    pattern = re.compile(rf"^lock:.*:{path.stat().st_ino} (\d+) (\d+)$", re.MULTILINE)
    holders = set()
    for info in Path("/proc").glob("[0-9]*/fdinfo/*"):
        with suppress(OSError):
            # one handle's neighbouring locks are one range
            for first, last in pattern.findall(info.read_text()):
                if int(first) <= at <= int(last):
                    holders.add(int(info.parts[2]))
    return sorted(holders)


def process_start(pid: int) -> float:
    """Return when a process began, in seconds since the machine's start; 0 if that cannot be seen."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def describe_holders(path: Path, at: int) -> str:
    """Describe for a message who holds a lock on byte `at`, and whether each is stopped."""
    return (
        " and ".join(map(_process, lock_holders(path, at))) or "a process that this user cannot see"
    )


def _process(pid: int) -> str:
    if pid == os.getpid():
        return f"this process ({pid})"
    with suppress(OSError, IndexError, ValueError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        return f"process {pid} ({name}{', stopped now' if state in 'Tt' else ''})"
    return f"process {pid}"
