"""Checksums of pages against the crc32c package, and pages written by a kernel against the same
pages in memory.
"""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest
from crc32c import crc32c
from numba import config

import pagestore
from pagestore.errors import ClosedError, LockedError, PoisonedError
from pagestore.pages.layout import CRC, WORD
from pagestore.pages.verify import ONES, checksum, look_up, stamp
from pagestore.runtime.kernel import kernel
from pagestore.storage.file import IN_PLACE, File
from pagestore.storage.kernels.write import FD, PAGES, PAST, write_pages
from pagestore.storage.system import file_system
from tests.support.file_systems import largest_file
from tests.support.simulator import compiled

SIZES = [4096, 8192, 65536]


@kernel
def checksum_by_tables(words):
    crc = ONES
    for i in range(1, words.shape[0]):
        crc = look_up(crc, words[i])
    return crc ^ ONES


def random_pages(n, page_words, seed=0):
    return np.random.default_rng(seed).integers(-(1 << 63), (1 << 63) - 1, n * page_words)


def sums(arena, page_words):
    return [crc32c(page[1:].tobytes()) for page in arena.reshape(-1, page_words)]


@pytest.mark.parametrize("size", SIZES)
def test_checksums_by_the_instruction_and_by_tables(size):
    page_words = size // WORD
    words = random_pages(2, page_words, size)
    wanted = sums(words, page_words)
    assert [checksum(words, page, page_words) for page in (0, page_words)] == wanted
    assert [checksum_by_tables(page) for page in words.reshape(2, -1)] == wanted


@pytest.mark.parametrize("size", SIZES[:2])
@pytest.mark.parametrize("n", range(1, 8))
def test_pages_are_stamped_side_by_side(size, n):
    page_words = size // WORD
    arena = random_pages(n + 2, page_words, n)
    wanted = arena.copy().reshape(-1, page_words)
    wanted[1:-1, CRC] = sums(arena, page_words)[1:-1]
    stamp(arena, 1, n + 1, page_words)
    assert (arena == wanted.ravel()).all()


@pytest.mark.skipif(config.DISABLE_JIT, reason="tables all the same")
@pytest.mark.parametrize("features", ["", "+sse4.2"])
def test_a_processor_without_the_instruction(features):
    """LLVM would end the process if it were asked for one that is not among the features."""
    work = "import numpy as np\nfrom pagestore.pages.verify import checksum\nfrom pagestore.runtime.jit import llvm\n"
    work += "print(not llvm.crc_instruction()[0], checksum(np.arange(512), 0, 512))"
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    done = subprocess.run(
        [sys.executable, "-c", work], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", str(crc32c(np.arange(1, 512).tobytes()))], done.stderr


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "some.pages"
    path.write_bytes(bytes(64 * 4096))
    file = File(path, writable=True)
    # compiled and cached, unlimited
    file.write_pages(np.zeros(0, np.int64), np.zeros(0, np.int64), 512)
    yield file
    file.close()


@pytest.fixture
def mapped_file(file, monkeypatch):
    """A file whose pages, once written, are written again through a map."""
    monkeypatch.setattr("pagestore.storage.file.file_system", lambda fd: IN_PLACE[0])
    file.write_mapped(4096)
    file.map(64 * 4096)
    return file


def failing(*_):
    raise OSError(errno.EIO, "simulated")


def contents(file, page_words):
    return np.fromfile(file.path, np.int64).reshape(-1, page_words)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(6))
def test_pages_land_where_they_belong(file, size, seed):
    """Pages alone, among neighbours, and in runs longer than one write may be."""
    random = np.random.default_rng(seed)
    page_words, n = size // WORD, int(random.integers(1, 40))
    ids = (
        random.choice(64, n, replace=False)
        if seed % 2
        else np.sort(random.choice(44, n, replace=False) + 20)
    )
    arena = random_pages(n + 1, page_words, seed)
    wanted = np.zeros((64, page_words), np.int64)
    wanted[ids] = arena.reshape(-1, page_words)[:-1]
    wanted[ids, CRC] = sums(arena, page_words)[:-1]
    os.truncate(file.path, 64 * size)
    file.write_pages(arena, ids, page_words)
    assert (contents(file, page_words) == wanted).all()


IDS = np.array([9, 2, 3, 4, 5, 6, 11])


@pytest.mark.parametrize("limit", [4096 * 5 + 1000, 4096 * 5, 4096 * 4])
def test_an_error_in_the_middle(file, limit):
    """Pages before the error are written, one page may be half written, and none behind it is."""
    arena = random_pages(len(IDS), 512)
    ids = IDS[1:]
    with largest_file(limit), pytest.raises(OSError) as raised:
        file.write_pages(arena, ids, 512)
    assert raised.value.errno == errno.EFBIG
    wanted = np.zeros(64 * 512, np.int64)
    whole = wanted.reshape(-1, 512)
    whole[ids] = arena.reshape(-1, 512)[:-1]
    whole[ids, CRC] = sums(arena, 512)[:-1]
    wanted[limit // WORD :] = 0
    assert (contents(file, 512).ravel() == wanted).all()


@compiled
def test_the_kernel_counts_pages_that_are_whole(file):
    arena = random_pages(len(IDS), 512)
    with largest_file(4096 * 5 + 1000):
        assert write_pages(file.page_writer, arena, IDS, 512) == 0
        assert write_pages(file.page_writer, arena, IDS[1:], 512) == 3
        assert write_pages(file.page_writer, arena, IDS[1:4], 512) == 3


@pytest.mark.parametrize("seed", range(8))
def test_what_is_written_again_lands_where_it_belongs(mapped_file, seed):
    """Pages written by the descriptor, through the map, or some each way."""
    random = np.random.default_rng(seed)
    wanted = np.zeros((64, 512), np.int64)
    for turn in range(12):
        n = int(random.integers(1, 24))
        ids = (
            random.choice(64, n, replace=False)
            if turn % 2
            else np.arange(n) + int(random.integers(0, 64 - n))
        )
        arena = random_pages(n, 512, turn)
        mapped_file.write_pages(arena, ids, 512)
        wanted[ids] = arena.reshape(-1, 512)
        wanted[ids, CRC] = sums(arena, 512)
        assert (contents(mapped_file, 512) == wanted).all()


@pytest.mark.parametrize("size", SIZES)
def test_so_many_pages_that_they_go_past_the_cache(file, size, monkeypatch):
    """They go through the map, except pages that were not written before."""
    monkeypatch.setattr("pagestore.storage.file.file_system", lambda fd: IN_PLACE[0])
    os.truncate(file.path, 2 * PAST)
    file.write_mapped(size)
    file.map(2 * PAST)
    page_words, n = size // WORD, PAST // size
    ids = np.random.default_rng(1).permutation(2 * n)[: n + 1]
    for turn, some in enumerate((ids[:n], ids[1:], np.sort(ids))):
        arena = random_pages(len(some), page_words, turn)
        file.write_pages(arena, some, page_words)
        found = contents(file, page_words)[some]
        wanted = arena.reshape(-1, page_words)
        assert (found[:, CRC] == sums(arena, page_words)).all()
        assert (found[:, CRC + 1 :] == wanted[:, CRC + 1 :]).all()


@compiled
def test_only_what_was_written_before_goes_through_the_map(mapped_file):
    arena, again = random_pages(len(IDS), 512), random_pages(len(IDS), 512, 1)
    mapped_file.write_pages(arena, IDS, 512)
    with largest_file(0):  # nothing may be written by the descriptor
        mapped_file.write_pages(again, IDS, 512)
        with pytest.raises(OSError) as raised:
            mapped_file.write_pages(arena, np.array([9, 10]), 512)
    assert raised.value.errno == errno.EFBIG
    wanted = np.zeros((64, 512), np.int64)
    wanted[IDS], wanted[9] = again.reshape(-1, 512), arena[:512]
    wanted[IDS, CRC] = [sums(arena, 512)[0], *sums(again, 512)[1:]]
    assert (contents(mapped_file, 512) == wanted).all()


@compiled
def test_what_was_cut_off_must_be_written_anew(mapped_file):
    """Touching a mapped page behind the end of the file would end the process."""
    mapped_file.write_pages(random_pages(len(IDS), 512), IDS, 512)
    mapped_file.truncate(5 * 4096)
    assert [
        write_pages(mapped_file.page_writer, random_pages(3, 512), IDS[i : i + 3], 512)
        for i in (0, 1)
    ] == [3, 3]
    assert mapped_file.size() == 10 * 4096
    mapped_file.truncate(5 * 4096)
    with largest_file(0):
        assert write_pages(mapped_file.page_writer, random_pages(5, 512), IDS[1:6], 512) == 3
    assert mapped_file.size() == 5 * 4096


@compiled
def test_a_longer_map_knows_what_was_written(mapped_file):
    mapped_file.write_pages(random_pages(len(IDS), 512), IDS, 512)
    before = mapped_file.page_writer[PAGES]
    mapped_file.map(int(before + 1) * 4096)
    assert mapped_file.page_writer[PAGES] > before
    with largest_file(0):
        mapped_file.write_pages(random_pages(len(IDS), 512, 1), IDS, 512)


def test_a_closed_file_is_not_written(mapped_file):
    """Its descriptor may belong to another file by then."""
    mapped_file.write_pages(random_pages(len(IDS), 512), IDS, 512)
    before = contents(mapped_file, 512)
    mapped_file.close()
    assert mapped_file.page_writer[FD] == -1
    with pytest.raises(
        ClosedError, match="was closed, and what was not committed is lost; open it again"
    ):
        mapped_file.write_pages(random_pages(len(IDS), 512, 1), IDS, 512)
    assert (contents(mapped_file, 512) == before).all()


@compiled
@pytest.mark.parametrize("sync", ["full", "commit", "off"])
@pytest.mark.parametrize("kind", [0, *IN_PLACE])
def test_a_map_is_written_where_nothing_is_synced_and_pages_stay(tmp_path, monkeypatch, sync, kind):
    monkeypatch.setattr("pagestore.storage.file.file_system", lambda fd: kind)
    with pagestore.open(tmp_path / "s.pages", sync=sync) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64", key="k").insert([(1,)])
        assert bool(store._handle.file.page_writer[PAGES]) == (sync == "off" and kind in IN_PLACE)


def test_file_systems_are_told_apart(file):
    descriptor = os.open("/proc/self/stat", os.O_RDONLY)
    assert file_system(descriptor) == 0x9FA0
    os.close(descriptor)
    assert file_system(file._fd) not in (0, 0x9FA0)
    assert file_system(-1) == 0


def test_a_file_that_was_opened_to_be_read(file):
    reading = File(file.path, writable=False)
    with pytest.raises(OSError) as raised:
        reading.write_pages(random_pages(2, 512), np.array([3, 4]), 512)
    assert raised.value.errno == errno.EBADF
    reading.close()


@pytest.mark.parametrize("what", ["full", "error"])
def test_a_failed_write_leaves_the_store_as_it_was(tmp_path, monkeypatch, what):
    """One that says that the disk is full harms nothing; any other poisons the handle."""
    store = pagestore.open(tmp_path / "s.pages", sync="off")
    with store.transaction() as txn:
        txn.create("r", "k: int64, v: int64", key="k").insert([(k, k * k) for k in range(5000)])
    with store.transaction() as txn:  # its kernels are compiled, too
        txn["r"].set([(k, k * k) for k in (0, 2000, 4000)])
        len(txn["r"])
    seen = store._handle.committer.pager.pages.seen.copy()
    with largest_file(2 * store.page_size + 1000), monkeypatch.context() as patch:
        if what == "error":  # of what the kernel could not write
            patch.setattr("pagestore.storage.file.os.pwrite", failing)
        with pytest.raises(OSError), store.transaction() as txn:
            txn["r"].set([(k, 7) for k in (0, 2000, 4000)])
            len(txn["r"])
    assert (store._handle.committer.pager.pages.seen == seen).all()
    if what == "error":
        with pytest.raises(PoisonedError):
            store.transaction()
        store.reopen()
    with store.transaction() as txn:
        txn.create("s", "k: int64").insert([(1,)])
    with store.snapshot() as snapshot:
        assert list(snapshot["r"]) == [(k, k * k) for k in range(5000)]
    assert store.check() == []
    store.close()


def test_a_store_is_no_standard_stream(tmp_path):
    """Where a standard stream is closed, the next file opened would get its descriptor, and
    messages with it.
    """
    kept = os.dup(0)
    os.close(0)
    try:
        with pagestore.open(tmp_path / "s.pages", exclusive=True) as store:
            assert store._handle.file._fd > 2
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(0)
            assert pagestore.open(tmp_path / "s.pages", mode="r").version == 0
            with pytest.raises(LockedError):
                pagestore.open(tmp_path / "s.pages")
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_folder_is_named(tmp_path, mode):
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        pagestore.open(tmp_path, mode=mode)


def test_a_system_that_lacks_a_call_is_served_by_another(tmp_path, monkeypatch):
    """As macOS, which has neither fdatasync nor posix_fallocate."""
    synced = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.delattr(os, "posix_fallocate")
    monkeypatch.setattr(os, "fsync", lambda fd, sync=os.fsync: synced.append(sync(fd)))
    with pagestore.open(tmp_path / "s.pages") as store:
        with store.transaction() as txn:
            txn.create("a", "x: int64").insert([(x,) for x in range(100_000)])
        assert synced and len(store.snapshot()["a"]) == 100_000 and store.check() == []


def test_room_that_is_not_there_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    path = tmp_path / "s.pages"
    path.write_bytes(b"content")
    file = File(path, writable=True)
    with largest_file(1 << 16), pytest.raises(OSError, match="File too large"):
        file.fallocate(7, 1 << 20)
    assert path.read_bytes() == b"content"
    file.fallocate(7, 100)
    assert path.read_bytes() == b"content" + bytes(100)
    file.close()
