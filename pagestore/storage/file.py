"""All input and output of a store, in one small object, so that a simulator can replace it.

This is all that a store does to its file: positioned reads and writes, one kind of sync, growing
and cutting, a map to read, a page writer for kernels, and byte locks. Locks belong to the open file
(Linux "open file description" locks): closing another handle of the same file does not drop them,
and the system drops them with the last process that holds the file open, however it ends. They are
at offsets far beyond any data:

    WRITER_LOCK          one byte, exclusive: its holder may change the store
    SINCE_LOCK + t       one byte, exclusive: held with WRITER_LOCK until the file is closed, since t seconds after 1970
    OPEN_LOCK            one byte, shared by all handles that are open for writing
    GUARD_LOCK           one byte, exclusive: its holder is joining the queue
    REFUSED_LOCK         one byte, shared: while it is held, no commit is shown to which no slot leads
    SLOTS_LOCK           one byte, exclusive: its holder writes a slot and syncs it, with handles that share syncs
    CLAIM_LOCK           one byte, exclusive while a shown commit is claimed, shared while one looks for the newest
    SHOWN_LOCK + n       one byte, shared: its holder shows a commit to which no slot leads (versions/shared_syncs.py)
    QUEUE_LOCK + n       one byte, exclusive: its holder is number n in the queue for WRITER_LOCK
    SYNCED_LOCK + s      one byte, shared: its holder has seen commit s become durable
    VERSION_LOCK + v     one byte per version: shared by readers of version v, exclusive while it is dropped
    MAKER_LOCK           one byte, exclusive: its holder is still making the file, under a hidden name

The words that tell kernels how to write a file's pages (storage/kernels/write.py); for why there
are two ways, see docs/decisions/0018-small-writes.md.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import re
import resource
import shutil
import stat
import struct
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property
from io import FileIO, TextIOBase
from itertools import pairwise
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np

from pagestore.errors import (
    ClosedError,
    ForkError,
    FormatError,
    LockedError,
    MovedError,
    OutOfMemoryError,
)
from pagestore.pages.layout import CRC, WORD
from pagestore.runtime.kernel import JIT, TypedKernel
from pagestore.runtime.lazy import crc32c
from pagestore.storage.kernels.write import FD, MAP, OUTLET, PAGES, PIECE, WRITTEN, write_pages
from pagestore.storage.system import allocate, file_system, sync_data, told

WRITER_LOCK, SINCE_LOCK, SINCE_END = 1 << 61, 3 << 60, 1 << 40
VERSION_LOCK, MAKER_LOCK = 1 << 62, 1 << 60
OPEN_LOCK, GUARD_LOCK, REFUSED_LOCK, SLOTS_LOCK, CLAIM_LOCK = (MAKER_LOCK + n for n in range(1, 6))
QUEUE_LOCK, QUEUE_END = 5 << 58, 1 << 57  # the first place, and the number of places
SHOWN_LOCK, SYNCED_LOCK = 6 << 60, 7 << 60
RESERVE_MIN = 1 << 26  # bytes of a map at least, so that a file may grow without being mapped anew
STANDARD = 2  # the last descriptor of the standard streams
SHARED, EXCLUSIVE, UNLOCKED = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK

open_files: weakref.WeakSet["File"] = weakref.WeakSet()
os.register_at_fork(after_in_child=lambda: [*map(File.disown, open_files)])

Buffer = Any  # bytes, a memoryview or an array: typing names this only from Python 3.12 on
_FLOCK = struct.Struct("hhqqi4x")
_WRITER = {k: _FLOCK.pack(k, os.SEEK_SET, WRITER_LOCK, 1, 0) for k in (EXCLUSIVE, UNLOCKED)}
IRREGULAR = (
    (stat.S_ISFIFO, "fifo"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "character device"),
    (stat.S_ISBLK, "block device"), (lambda mode: True, "special file"),
)  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)  # Python's own mmap ends where the file does
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
]  # fmt: skip
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED = ctypes.c_void_p(-1).value
_FIXED = 0x10  # MAP_FIXED, which Python's mmap does not name: replaces what is mapped there
IN_PLACE = 0xEF53, 0x01021994  # ext2 to ext4, tmpfs: rewriting a page takes no new space

WRITE = TypedKernel(write_pages)


class File:
    """An open store file. Errors of the operating system are raised as OSError, unchanged."""

    _forked = False
    # closes its descriptor exactly once, even if an exception comes in between
    _file: FileIO | None = None
    _locks: FileIO | None = None

    def __init__(self, path: str | os.PathLike[str], writable: bool) -> None:
        path = local_path(path)
        self.path, self._place = Path(path), os.path.abspath(path)
        self.writable = writable
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        refuse_irregular(path)
        self._fd = -1
        try:
            self._file = opened(path, flags)
        except OSError as error:
            raise told(error) from None
        # Locks have an open file of their own: a map keeps an open file alive, and a forked process
        # inherits maps.
        self._locks = opened(f"/proc/self/fd/{self._file.fileno()}", flags)
        self._fd = self._file.fileno()
        about = os.fstat(self._fd)
        self._identity = about.st_ino, about.st_dev
        self._map = np.zeros(0, np.int64)
        self._page_writer = PageWriter(self._fd)
        open_files.add(self)

    @cached_property
    def remembered(self) -> dict[Any, dict[Any, Any]]:
        """What a host remembers of committed trees while the file is open."""
        return {}

    @staticmethod
    def create(path: str | os.PathLike[str], content: bytes) -> None:
        """Make a file with all of `content`; after a crash or power cut it is whole or does not
        exist.

        Raise FileExistsError."""
        path = Path(local_path(path))
        with beside(path) as temporary:
            fd = os.open(temporary, os.O_RDWR | os.O_CLOEXEC)
            try:
                _write_all(fd, memoryview(content), 0)
                os.fsync(fd)
            finally:
                os.close(fd)
            os.link(temporary, path)  # unlike rename, refuses to replace a file made meanwhile
        sync_folder(path)

    @staticmethod
    def fill(path: str | os.PathLike[str], content: bytes) -> None:
        """Replace an empty file, as `NamedTemporaryFile` makes it, by one with all of `content`;
        others stay.

        After a crash or power cut it is whole or empty."""
        with open(path, "rb") as empty:
            fcntl.flock(empty, fcntl.LOCK_EX)  # of two processes only one finds it empty
            status = os.fstat(empty.fileno())
            if not status.st_size and os.path.samestat(status, os.stat(path)):
                with written(path) as out:
                    out.write(content)

    def fileno(self) -> int:
        """Return the file's descriptor."""
        self._check()
        return self._fd

    def size(self) -> int:
        """Return the bytes of the file."""
        self._check()
        return os.fstat(self._fd).st_size

    def links(self) -> int:
        """Return how many names the file has."""
        self._check()
        return os.fstat(self._fd).st_nlink

    def check_place(self) -> None:
        """Raise MovedError if the file's path does not lead to this file any more."""
        self._check()
        try:
            there = os.stat(self._place)
            same = (there.st_ino, there.st_dev) == self._identity
        except FileNotFoundError:
            same = False
        if not same:
            raise MovedError(
                f"the file {self.path} was deleted, moved or replaced while the store was open; "
                "what is written now would be lost; store.backup saves what was committed, then "
                "close the store and open the new file"
            )

    def pread(self, count: int, offset: int) -> bytes:
        """Read up to `count` bytes; fewer only at the file's end."""
        self._check()
        try:
            return os.pread(self._fd, count, offset)
        except OSError:
            self._check()  # another thread may have closed it meanwhile
            raise

    def pwrite(self, data: Buffer, offset: int) -> None:
        """Write all of `data`, in several calls if need be."""
        if self._forked or self._fd < 0:
            self._check()
        view = memoryview(data)
        if view.nbytes > PIECE or os.pwrite(self._fd, view, offset) < view.nbytes:
            _write_all(self._fd, view.cast("B"), offset)

    def write_pages(self, arena: np.ndarray, ids: np.ndarray, page_words: int) -> None:
        """Write checksums into the first n pages of an arena, and those to pages ids[n], neighbours
        in one call.

        A kernel does this; pages that it could not write are written here, as by `pwrite`. After an
        OSError any of the pages may have been written.
        """
        self._check()
        done = WRITE.call(self._opened(), arena, ids, page_words) if JIT else 0
        if done < len(ids):
            for data, offset in stamped(arena[done * page_words :], ids[done:], page_words):
                _write_all(self._fd, data, offset)

    def write_mapped(self, page_size: int) -> None:
        """Let kernels write pages through a map, if the file system rewrites a page in its place.

        On other file systems a full disk would end the process by a signal.
        """
        self._page_writer.page_size = page_size if file_system(self._fd) in IN_PLACE else 0

    @property
    def page_writer(self) -> np.ndarray:
        """The words of the PageWriter for kernels; the caller of the kernel reports the pages
        written to `wrote`.
        """
        return self._opened() if JIT else CLOSED

    def _opened(self) -> np.ndarray:
        if self._fd < 0:
            return CLOSED
        if not self._page_writer.covers(self._map.nbytes):
            try:
                self._page_writer.widen(mapped((self._fd, self._map.nbytes), writable=True))
            except OSError as error:
                if error.errno != errno.ENOMEM:
                    raise
                return CLOSED  # the process may map no more: pages are written by `pwrite`
        return self._page_writer.words

    def wrote(self, ids: np.ndarray) -> None:
        """Note that a kernel has written pages ids[n]; a file that records writes overrides it."""

    def fdatasync(self) -> None:
        """Return once all that was written is on the disk."""
        if self._forked or self._fd < 0:
            self._check()
        sync_data(self._fd)

    def fallocate(self, offset: int, count: int) -> None:
        """Allocate `count` bytes at `offset`, growing the file. ENOSPC leaves it as it was."""
        self._check()
        allocate(self._fd, offset, count)

    def truncate(self, size: int) -> None:
        """Make the file end after `size` bytes."""
        self._check()
        self._page_writer.cut(size)
        os.truncate(self._fd, size)

    def was_cut(self, size: int) -> None:
        """Note that another process has made the file end after `size` bytes."""
        self._page_writer.cut(size)

    def map(self, count: int) -> np.ndarray:
        """Map the first `count` bytes as int64 words: shared, read-only, alive as the array is."""
        if count > self._map.nbytes:
            self._map = mapped_ahead(self._fd, count)
        return self._map[: count // 8]

    def lock(self, kind: int, at: int, count: int = 1) -> bool:
        """Set (SHARED, EXCLUSIVE) or clear (UNLOCKED) a byte lock; return False if another open
        file holds one there.

        Raise LockedError for an exclusive lock if the file is open for reading.
        """
        if kind == EXCLUSIVE and not self.writable:
            self._check()
            raise LockedError(
                errno.EBADF, f"{self.path} is open for reading; an exclusive lock needs writing"
            )
        if self._forked or self._fd < 0:
            self._check()
        assert self._locks
        try:  # as `_control`, whose call would take as long as that of the system
            often = at == WRITER_LOCK  # each commit takes it
            said = _WRITER[kind] if often else _FLOCK.pack(kind, os.SEEK_SET, at, count, 0)
            fcntl.fcntl(self._locks, fcntl.F_OFD_SETLK, said)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            self._check()  # another thread may have closed it meanwhile
            raise
        return True

    def lock_when_free(self, kind: int, at: int) -> None:
        """Set a byte lock, waiting for others to clear theirs, however long it takes."""
        self._control(fcntl.F_OFD_SETLKW, kind, at, 1)

    def locked(self, at: int, count: int) -> int | None:
        """Return the first byte of [at, at + count) that another open file has locked, or None."""
        kind, _, start, _, _ = _FLOCK.unpack(self._control(fcntl.F_OFD_GETLK, EXCLUSIVE, at, count))
        return None if kind == UNLOCKED else max(start, at)

    def disown(self) -> None:
        """Give the file up in a forked child: the parent may write to it, and holds its locks."""
        self._forked = True
        self._page_writer.close()
        if self._locks:
            self._locks.close()

    def _control(self, command: int, kind: int, at: int, count: int) -> bytes:
        """Call the system for a byte lock."""
        if self._forked or self._fd < 0:
            self._check()
        assert self._locks
        try:
            return fcntl.fcntl(self._locks, command, _FLOCK.pack(kind, os.SEEK_SET, at, count, 0))
        except (OSError, ValueError):
            self._check()  # another thread may have closed it meanwhile
            raise

    def _check(self) -> None:
        if self._forked:
            raise ForkError(
                f"the handle of {self.path} came through a fork; open the store in this process"
            )
        if self._fd < 0:
            raise ClosedError(
                f"the store {self.path} was closed, and what was not committed is lost; open it "
                f"again"
            )

    def close(self, unlock: bool = True, unmap: bool = True) -> None:
        """Close the file and, if `unlock` (not if forked), drop its locks. Idempotent.

        Arrays of its pages stay readable; with the last of them the map goes, and the disk's room
        for a file that was removed. Without `unmap`, the map stays: a thread may be writing through
        it.
        """
        self._page_writer.close()
        if unmap:
            self._page_writer.unmap()
            self._map = np.zeros(0, np.int64)
        self._fd = -1
        if unlock and self._locks:
            self._locks.close()
        if self._file:
            self._file.close()

    def __del__(self) -> None:
        with suppress(Exception):  # it was never opened, or the interpreter ends
            self.close()


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the path of a file or folder that is mounted on this machine; it may be given as a URL
    `file:`.

    Every path that a user gives for a store, or for what is made of one, goes through here. Raise
    FormatError for a URL of another file system, which would be taken for a folder with a colon in
    its name.

    >>> local_path("file:///data/shop.pages"), local_path("shop.pages")
    ('/data/shop.pages', 'shop.pages')
    """
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise TypeError(f"{path!r} is not a path of a file: give a text or a Path") from None
    if not text:
        raise FileNotFoundError("the name of a file is empty: name one")
    scheme, colon, rest = text.partition(":/")
    if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]+", scheme):
        return text
    if scheme.lower() == "file":
        return "/" + rest.lstrip("/")
    raise FormatError(
        f"{text} is on {scheme}, and a file of a mounted file system is wanted, since a store is "
        f"mapped into memory: "
        f"name one of those, and copy it from or to {scheme} with a tool of that system"
    )


def refuse_irregular(path: str | os.PathLike[str]) -> None:
    """Raise FormatError or IsADirectoryError if a path is not a regular file: opening a fifo
    would wait for ever.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:  # opening it says what is wrong
        return
    if stat.S_ISDIR(mode):
        raise told(IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path)))
    if not stat.S_ISREG(mode):
        kind = next(name for test, name in IRREGULAR if test(mode))
        raise FormatError(f"{path} is not a store: it is not a file but a {kind}")


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Make an empty file in the folder of `path` under a unique hidden name; afterwards remove it
    if it still exists.

    First remove the files that killed makers of the same name have left.
    """
    path = Path(local_path(path))
    sweep(path)
    while True:
        temporary = path.with_name(f".{path.name}.{uuid4().hex}.new")
        try:  # making the file included: a signal may raise as soon as it is made
            with _maker(temporary, path) as maker:
                if _is_locked(maker, temporary, lockless=True):
                    yield temporary
                    return
        finally:
            with suppress(FileNotFoundError, NotADirectoryError):
                temporary.unlink()


def _maker(temporary: Path, path: Path) -> FileIO:
    """Make a hidden file. An error names `path`, which the caller gave."""
    try:
        return opened(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        raise told(OSError(error.errno, error.strerror, str(path))) from None


def sweep(path: Path) -> None:
    """Remove hidden files that killed makers of `path` have left, as far as this user may.
    O(files of the folder).
    """
    hidden = re.compile(rf"\.+{re.escape(path.name)}(\.[0-9a-f]{{32}}\.new)+")
    with suppress(OSError):
        for name in filter(hidden.fullmatch, os.listdir(path.parent)):
            with suppress(OSError), opened(path.with_name(name), os.O_RDWR | os.O_CLOEXEC) as left:
                if _is_locked(left, path.with_name(name)):
                    path.with_name(name).unlink()


def _is_locked(file: FileIO, path: Path, lockless: bool = False) -> bool:
    """Lock a hidden file; return False if another open file has it locked, or it was removed
    meanwhile.

    Return `lockless` if the file system has no locks.
    """
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(EXCLUSIVE, os.SEEK_SET, MAKER_LOCK, 1, 0))
    except OSError as error:
        return lockless and error.errno not in (errno.EAGAIN, errno.EACCES)
    return path.exists()


@contextmanager
def written(
    name: str | os.PathLike[str], source: str | os.PathLike[str] | None = None
) -> Iterator[IO[bytes]]:
    """Yield a binary stream that replaces the file `name` once the block has written all of it.

    A pipe or a device is written to directly. Raise FileExistsError if `name` is the store `source`
    itself.
    """
    path = Path(local_path(name)).resolve()
    if source is not None and path.exists() and Path(source).exists() and path.samefile(source):
        raise FileExistsError(f"{name} is the store itself; write to another file")
    if path.exists() and not path.is_file():
        with open(path, "wb") as out:
            yield out
        return
    with beside(path) as temporary:
        if path.exists():
            # raises if the user may not write to the file that is to be replaced
            open(path, "ab").close()
            shutil.copymode(path, temporary)
        with open(temporary, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
        sync_folder(path)


def written_to(
    out: IO[bytes] | str | os.PathLike[str], source: str | os.PathLike[str]
) -> AbstractContextManager[IO[bytes]]:
    """Return a given stream, or one that writes a file (see `written`)."""
    if isinstance(out, str | os.PathLike):
        return written(out, source)
    return nullcontext(_stream(out, "wb"))


def read_from(source: IO[bytes] | str | os.PathLike[str]) -> AbstractContextManager[IO[bytes]]:
    """Return a given stream, or one that reads a file."""
    if isinstance(source, str | os.PathLike):
        return open(source, "rb")
    return nullcontext(_stream(source, "rb"))


def _stream(given: Any, mode: str) -> Any:
    """Return the stream. Raise TypeError if it is not one of bytes: a text file, say."""
    method = "write" if mode == "wb" else "read"
    if isinstance(given, TextIOBase) or not callable(getattr(given, method, None)):
        raise TypeError(
            f"{given!r} is not a binary file to {method}: give a path, or what open(path, "
            f"{mode!r}) returns"
        )
    return given


def sync_folder(path: Path) -> None:
    """Sync the folder of a file: its name is then as durable as its content."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def stamped(
    arena: np.ndarray, ids: np.ndarray, page_words: int
) -> Iterator[tuple[memoryview, int]]:
    """Write checksums into n pages of an arena; yield the bytes and offset of each run of
    neighbours among ids[n].
    """
    size, data = page_words * WORD, arena.data.cast("B")
    for i in range(len(ids)):
        arena[i * page_words + CRC] = crc32c.crc32c(data[i * size + WORD : (i + 1) * size])
    for begin, end in neighbours(ids):
        yield data[begin * size : end * size], int(ids[begin]) * size


def neighbours(ids: np.ndarray) -> list[tuple[int, int]]:
    """Return (begin, end) of each run of ids that ascend one by one, among ids[n], n > 0.

    >>> neighbours(np.array([5, 6, 9, 3, 4]))
    [(0, 2), (2, 3), (3, 5)]
    """
    return [*pairwise([0, *(np.flatnonzero(np.diff(ids) != 1) + 1).tolist(), len(ids)])]


def mapped(*files: tuple[int, int], writable: bool = False) -> np.ndarray:
    """Map the first `count` bytes of each open file (fd, count), one file after the other, as
    words; shared.

    Words past a file's end must not be read before the file has grown. Every count but the last is
    a multiple of the system's page size. Raise OSError.
    """
    total = sum(count for _, count in files)
    held = (ctypes.c_char * total).from_address(
        _mmap(None, total, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
    )
    weakref.finalize(held, _libc.munmap, ctypes.addressof(held), total).atexit = False
    at = ctypes.addressof(held)
    for fd, count in files:
        _mmap(at, count, mmap.PROT_READ | mmap.PROT_WRITE * writable, mmap.MAP_SHARED | _FIXED, fd)
        at += count
    words = np.frombuffer(memoryview(held), np.int64)
    words.flags.writeable = writable
    return words


def mapped_ahead(fd: int, count: int, *before: tuple[int, int]) -> np.ndarray:
    """Map `count` bytes of an open file and as many to grow into, or only `count` if the process
    may map no more; what is `before` them is as in `mapped`.

    Where the address space is limited, a quarter is left to grow into: arrays and older maps need
    room, too. Raises OutOfMemoryError.
    """
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    for size in (
        max(count + count // (4 if limited else 1), RESERVE_MIN),
        max(count, mmap.PAGESIZE),
    ):
        try:
            return mapped(*before, (fd, size))
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
    raise OutOfMemoryError(
        f"the system refused to map {count:,} bytes of the store's file: allow the process an "
        "address space (ulimit -v) of several times the file's size"
    )


def _mmap(at: int | None, count: int, protection: int, flags: int, fd: int) -> int:
    address: int = _libc.mmap(at, count, protection, flags, fd, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return address


def opened(path: str | os.PathLike[str], flags: int) -> FileIO:
    """Open a file with a descriptor above the standard streams', closed when it is dropped."""
    return FileIO(not_standard(os.open(path, flags, 0o666)), "r+" if flags & os.O_RDWR else "r")


def not_standard(fd: int) -> int:
    """Replace a descriptor that is one of the standard streams' by a higher one.

    If a standard stream is closed, the next file opened gets its descriptor, and messages would go
    into the file.
    """
    if fd > STANDARD:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, STANDARD + 1)
    finally:
        os.close(fd)


def _write_all(fd: int, view: memoryview, offset: int) -> None:
    """Write all bytes of a view, in several calls if need be."""
    while len(view):
        written = os.pwrite(fd, view[:PIECE], offset)
        if not written:
            raise OSError(errno.EIO, "a write made no progress")
        view, offset = view[written:], offset + written


class PageWriter:
    """An open file and perhaps a map of it. A page goes through the map once the descriptor has
    written it before.
    """

    def __init__(self, fd: int) -> None:
        self.words = np.zeros(OUTLET, np.int64)
        self.words[FD] = fd
        self.page_size = 0  # bytes of a page; 0 if no map may be used
        self._map, self._written = np.zeros(0, np.int64), np.zeros(0, np.uint8)

    def covers(self, count: int) -> bool:
        """Return whether the map has `count` bytes, or none may be used."""
        return not self.page_size or int(self.words[PAGES]) * self.page_size >= count

    def widen(self, words: np.ndarray) -> None:
        """Replace the map by a longer one, int64[n], while nobody is writing."""
        written = np.zeros(words.nbytes // self.page_size, np.uint8)
        written[: len(self._written)] = self._written
        self.words[PAGES] = 0  # first: an exception may come in between, after the old map is freed
        self._map, self._written = words, written
        self.words[[MAP, PAGES, WRITTEN]] = words.ctypes.data, len(written), written.ctypes.data

    def cut(self, size: int) -> None:
        """Count pages past `size` bytes, to which the file was cut, as never written."""
        if self.page_size:
            self._written[size // self.page_size :] = 0

    def close(self) -> None:
        """Refuse to write from now on."""
        self.words[[FD, PAGES]] = -1, 0

    def unmap(self) -> None:
        """Free the map, while nobody is writing."""
        self.words[[MAP, PAGES]] = 0
        self._map = np.zeros(0, np.int64)


CLOSED = PageWriter(-1).words
