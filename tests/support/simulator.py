"""A file in memory that stands in for pagestore.storage.file.File: it records operations, fails
on request, and replays what a crash could have left behind.
"""

import errno
import mmap
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import config

from pagestore.storage.file import CLOSED, PageWriter, stamped

SECTOR = 512
FALLBACK = ("meta slots", "record")  # how check() reports a commit that did not make it
REFUSES = PageWriter(
    os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
).words  # what a kernel writes by when it is to fail
compiled = pytest.mark.skipif(config.DISABLE_JIT, reason="only compiled kernels write")


class Operation(NamedTuple):
    """One call that changes the file or makes it durable."""

    kind: str  # "write", "sync", "failed sync", "grow", "cut"
    offset: int = 0
    data: bytes = b""


class SimulatedFile:
    """The interface of File over memory that kernels may write to as well. `operations` is the log;
    `fail` maps an operation's number to an error; what a kernel writes in one call counts as one.
    """

    writable = True

    def __init__(
        self,
        content: bytes,
        fail: dict[int, str] | None = None,
        limit: int = 1 << 24,
        page_size=4096,
    ):
        self.path = Path("simulated.pages")
        self.remembered: dict[Any, dict[Any, Any]] = {}
        self._page_size = page_size
        self._fd = os.memfd_create("simulated")
        weakref.finalize(self, os.close, self._fd)
        os.truncate(self._fd, limit)
        self._memory = np.frombuffer(mmap.mmap(self._fd, limit), np.uint8)
        self._memory[: len(content)] = np.frombuffer(content, np.uint8)
        self._size = len(content)
        self._page_writer = PageWriter(self._fd)
        self.operations: list[Operation] = []
        self.marks: list[tuple[int, int]] = []  # (operations so far, version)
        self.fail = fail or {}
        # numbers of syncs, as `syncs` counts them, that fail from now on
        self.fail_syncs: set[int] = set()
        self.calls = self.syncs = 0
        self.capacity = limit  # bytes of the disk

    def mark(self, version: int) -> None:
        """After the operations so far, a version of the main branch was acknowledged."""
        self.marks.append((len(self.operations), version))

    def acknowledged(self, done: int) -> tuple[int, int]:
        """The version whose commit had returned after `done` operations, and the one that may be
        under way.
        """
        finished = max((version for at, version in self.marks if at <= done), default=0)
        return finished, min((version for at, version in self.marks if at > done), default=finished)

    def check_place(self) -> None:
        pass

    def content(self) -> bytes:
        return self._memory[: self._size].tobytes()

    def size(self) -> int:
        return self._size

    def pread(self, count: int, offset: int) -> bytes:
        return self._memory[offset : min(offset + count, self._size)].tobytes()

    def pwrite(self, data, offset: int) -> None:
        data = memoryview(data).cast("B").tobytes()
        how = self._failure()
        if how == "short":
            data = data[: len(data) // 2]
        if how in ("short", None):
            self._memory[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
            self._size = max(self._size, offset + len(data))
            self.operations.append(Operation("write", offset, data))
        if how:
            raise OSError(errno.ENOSPC if how == "full" else errno.EIO, "simulated")

    def write_pages(self, arena: np.ndarray, ids: np.ndarray, page_words: int) -> None:
        for data, offset in stamped(arena, ids, page_words):
            self.pwrite(data, offset)

    def write_mapped(self, page_size: int) -> None:
        self._page_writer.page_size = page_size
        self._page_writer.widen(self._memory.view(np.int64))

    @property
    def page_writer(self) -> np.ndarray:
        if config.DISABLE_JIT:
            return CLOSED
        return REFUSES if self.calls + 1 in self.fail else self._page_writer.words

    def wrote(self, ids: np.ndarray) -> None:
        """Each page counts as a write of its own, so that a crash may keep any of them."""
        self.calls += bool(len(ids))
        for page in ids.tolist():
            start, end = page * self._page_size, (page + 1) * self._page_size
            assert end <= self._size, "a kernel wrote behind the end of the file"
            self.operations.append(Operation("write", start, self._memory[start:end].tobytes()))

    def fdatasync(self) -> None:
        self.syncs += 1
        if self._failure() or self.syncs in self.fail_syncs:
            self.operations.append(Operation("failed sync"))
            raise OSError(errno.EIO, "simulated")
        self.operations.append(Operation("sync"))

    def fallocate(self, offset: int, count: int) -> None:
        if self._failure() or offset + count > self.capacity:
            raise OSError(errno.ENOSPC, "simulated")
        self._size = max(self._size, offset + count)
        self.operations.append(Operation("grow", self._size))

    def truncate(self, size: int) -> None:
        if self._failure():
            raise OSError(errno.EIO, "simulated")
        self._page_writer.cut(size)
        self._memory[size : self._size] = 0
        self._size = size
        self.operations.append(Operation("cut", size))

    def was_cut(self, size: int) -> None:
        self._page_writer.cut(size)

    def map(self, count: int) -> np.ndarray:
        words = self._memory[:count].view(np.int64)
        words.flags.writeable = False
        return words

    def lock(self, kind: int, at: int, count: int = 1) -> bool:
        return True

    def lock_when_free(self, kind: int, at: int) -> None:
        pass

    def locked(self, at: int, count: int) -> int | None:
        return None

    def close(self, unlock: bool = True, unmap: bool = True) -> None:
        pass

    def _failure(self) -> str | None:
        self.calls += 1
        return self.fail.get(self.calls)


def crashes(
    start: bytes, operations: list[Operation], rng: Random, variants: int = 4
) -> Iterator[tuple[int, bytes]]:
    """What the disk may hold after a crash behind each prefix of the operations: (prefix length,
    content).

    What was written before the last sync is there. Each write since is kept, dropped, or torn at a
    sector, in any order; the file's length is the old or the new one.
    """
    durable = bytearray(start)
    open_: list[Operation] = []
    for done in range(len(operations) + 1):
        for variant in range(variants if open_ else 1):
            yield done, _crashed(durable, open_, rng, variant)
        if done < len(operations):
            operation = operations[done]
            if operation.kind == "sync":
                for pending in open_:
                    play(durable, pending)
                open_ = []
            elif operation.kind != "failed sync":
                open_.append(operation)


def _crashed(durable: bytearray, open_: list[Operation], rng: Random, variant: int) -> bytes:
    image = bytearray(durable)
    if variant == 0:
        chosen = list(open_)
    elif variant == 1:
        chosen = open_[-1:]  # the last one overtook all others
    else:
        chosen = [operation for operation in open_ if rng.random() < 0.6]
        rng.shuffle(chosen)
    for operation in chosen:
        if (
            variant >= 2
            and operation.kind == "write"
            and len(operation.data) > SECTOR
            and rng.random() < 0.4
        ):
            cut = SECTOR * rng.randrange(len(operation.data) // SECTOR)
            operation = operation._replace(data=operation.data[:cut])
        play(image, operation)
    return bytes(image)


def play(image: bytearray, operation: Operation) -> None:
    """Apply an operation to an image of a file."""
    if operation.kind == "write":
        end = operation.offset + len(operation.data)
        image.extend(bytes(max(0, end - len(image))))
        image[operation.offset : end] = operation.data
    elif operation.kind == "grow":
        image.extend(bytes(max(0, operation.offset - len(image))))
    elif operation.kind == "cut":
        del image[operation.offset :]
