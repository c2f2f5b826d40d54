"""What a store asks of an operating system beyond POSIX, and what it does where a system lacks it.

Two things have no counterpart: locks of byte ranges that belong to an open file, and a map that shows what is written
to the file. A store needs both, and so it runs on Linux (docs/reliability.md).
"""

import ctypes
import errno
import fcntl
import os
import sys

ZEROS = bytes(1 << 20)
_STATFS = 256  # bytes, more than a struct statfs has; its first long is the kind of file system

_libc = ctypes.CDLL(None, use_errno=True)


def sync_data(fd: int) -> None:
    """Return once all that was written to a file is on the disk, and its size."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS, whose fsync leaves it in the drive
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        getattr(os, "fdatasync", os.fsync)(fd)


def allocate(fd: int, offset: int, count: int) -> None:
    """Make room for `count` bytes at `offset`, growing the file. OSError(ENOSPC) leaves the file as it was."""
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
    """Write zeros behind a file's end: without them a full disk would show only when a page is written."""
    while begin < end:
        begin += os.pwrite(fd, ZEROS[: end - begin], begin)


def file_system(fd: int) -> int:
    """Linux's number of the kind of file system that an open file is on; 0 if it is not known."""
    about = ctypes.create_string_buffer(_STATFS)
    if sys.platform != "linux" or _libc.fstatfs(ctypes.c_int(fd), about):
        return 0
    return ctypes.c_long.from_buffer(about).value
