"""Dumps and backups are read back unchanged; cut or damaged ones are refused; readers and
writers go on meanwhile.
"""

import io
import os
import socket
import tracemalloc
from decimal import Decimal

import numpy as np
import pytest

import pagestore
from pagestore.admin import backup, dump
from pagestore.admin.framing import BLOCK, read_blocks, write_block
from pagestore.errors import CorruptionError, FormatError, MissingError, VersionError


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    with pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off", retain="all") as store:
        for n in range(8):
            with store.transaction(message=f"m{n}") as txn:
                if not n:
                    txn.create("edge", "x: int64, y: int64", scans=["count"])
                    txn.create("item", "name: string, price: decimal(9,2), blob: bytes", key="name")
                    txn.create_words("$hidden", 2, 1)
                txn["edge"].insert(list(rng.integers(0, 200, (2, 400))))
                txn["edge"].delete(list(txn["edge"].range_head(50)))
                txn["item"].set([(f"n{n % 3}" * (500 if n % 2 else 1), Decimal(n), bytes(n))])
                ids = txn.encode("string", [f"hidden {n}"])
                txn.apply("$hidden", np.array([0]), np.array([ids, [n], [n]]))
                txn.properties["n"] = str(n)
            if n == 5:
                with store.transaction() as txn:
                    txn.drop("edge")
                    txn.create("edge", "x: int64, y: int64")
        store.tag("three", 3)
        yield store


def content(snapshot):
    """All that a user or host can see of a version."""
    hidden = [batch.tolist() for batch in snapshot["$hidden"].words()]
    texts = snapshot.decode("string", np.array(sorted(set(hidden[0][0])))).to_pylist()
    relations = {name: (relation.schema, sorted(relation)) for name, relation in snapshot.items()}
    return relations, hidden, texts, snapshot.properties, snapshot.message


def dumped(store, *args):
    out = io.BytesIO()
    store.dump(out, *args)
    return out.getvalue()


def test_every_version_comes_back(store, tmp_path):
    versions = [v.version for v in store.history()][:-1][::-1]
    data = dumped(store, versions)
    with pagestore.open(tmp_path / "r.pages", sync="off", retain="all") as target:
        made = target.restore(io.BytesIO(data))
        assert len(made) == len(versions) == 9
        for old, new in zip(versions, made, strict=True):
            assert content(target.at(new)) == content(store.at(old))
        assert target.tags == {"three": 3}
        assert target.check() == []
        assert dumped(target, made) == data  # and again


def test_some_relations_come_without_what_hosts_keep_of_all(store, tmp_path):
    data = dumped(store, None, ["item"])
    with pagestore.open(tmp_path / "r.pages", sync="off") as target:
        target.restore(io.BytesIO(data))
        with target.snapshot() as snapshot:
            assert list(snapshot) == ["item"]
            assert snapshot.properties == {}
            assert list(snapshot["item"]) == list(store.snapshot()["item"])


def test_no_version_at_all(store, tmp_path):
    data = dumped(store, [])
    with pagestore.open(tmp_path / "r.pages", sync="off") as target:
        assert target.restore(io.BytesIO(data)) == []
        assert target.version == 0
    with pytest.raises(FormatError, match="no backup to begin with"):
        backup.restore_backup(tmp_path / "b.pages", [])


def test_a_dump_that_fails_holds_no_version(store):
    with pagestore.open(store.path, mode="r") as reader:
        for versions, relations in (([3, 77], None), ([3], ["nope"])):
            with pytest.raises((VersionError, MissingError)) as caught:
                dumped(reader, versions, relations)
            # though the error holds all that was there
            assert caught.tb and not reader._handle.locks.pins


def test_chosen_relations(store, tmp_path):
    with pagestore.open(tmp_path / "r.pages", sync="off") as target:
        target.restore(io.BytesIO(dumped(store, None, ["item"])))
        assert list(target.snapshot()) == ["item"]
    with pytest.raises(MissingError):
        dumped(store, None, ["nope"])
    with pytest.raises(VersionError):
        dumped(store, [77])


def test_cut_and_damaged_dumps_are_refused(store, tmp_path):
    data = dumped(store, [3, 8])
    for n, cut in enumerate(range(0, len(data), len(data) // 40)):
        with (
            pagestore.open(tmp_path / f"c{n}.pages", sync="off") as target,
            pytest.raises((CorruptionError, FormatError), match="cut off|not a dump"),
        ):
            target.restore(io.BytesIO(data[:cut]))
    for n, at in enumerate(range(0, len(data), len(data) // 60)):
        wrong = bytearray(data)
        wrong[at] ^= 16
        with pagestore.open(tmp_path / f"d{n}.pages", sync="off") as target:
            try:
                target.restore(io.BytesIO(wrong))
            except (CorruptionError, FormatError):
                assert target.check() == []
            else:
                raise AssertionError(f"the flipped byte {at} went unnoticed")


def headers(data):
    """Where the blocks of a dump or backup begin."""
    at = 12
    while at < len(data):
        yield at
        at += BLOCK.size + BLOCK.unpack_from(data, at)[2]


def test_damaged_headers_are_named(store, tmp_path):
    backed = io.BytesIO()
    store.backup(backed)
    for data in (dumped(store, [7, 8]), backed.getvalue()):
        for at in headers(data):
            for byte in range(at, at + BLOCK.size):
                wrong = bytearray(data)
                wrong[byte] ^= 0x80  # the highest bit of a length, at the last byte
                with pytest.raises(
                    CorruptionError, match=f"at byte {at} |cut off at byte {len(data)};"
                ):
                    [*read_blocks(io.BytesIO(wrong[12:]), dump.KINDS + backup.KINDS)]
    wrong = bytearray(backed.getvalue())
    wrong[12:16] = b"PAGE"
    with pytest.raises(CorruptionError, match="HEAD belongs there"):
        backup.restore_backup(tmp_path / "b.pages", [io.BytesIO(wrong)])


def test_a_version_with_a_damaged_block_is_not_made(store, tmp_path):
    data = bytearray(dumped(store, [8]))
    [*_, rows, _] = headers(data)
    data[rows : rows + 4] = b"ROWs"
    with pagestore.open(tmp_path / "r.pages", sync="off") as target:
        with pytest.raises(CorruptionError, match=f"in the block at byte {rows}"):
            target.restore(io.BytesIO(data))
        assert target.version == 0


def test_restoring_over_content_is_refused(store):
    with pytest.raises(FormatError, match="not empty"):
        store.restore(io.BytesIO(dumped(store)))


def test_a_backup_and_its_increments(store, tmp_path):
    full, parts = io.BytesIO(), []
    with store.transaction() as txn:
        txn["edge"].insert(list(np.random.default_rng(1).integers(0, 1 << 40, (2, 30_000))))
    base = store.backup(full)
    for n in range(3):
        with store.transaction() as txn:
            txn["edge"].insert([(1000 + n, n)])
            txn["item"].set([("long" * 999 + str(n), Decimal(1), b"")])
        parts.append(io.BytesIO())
        base = store.backup(parts[-1], since=base)
    assert len(parts[0].getvalue()) < len(full.getvalue()) / 2
    sources = [full, *parts]
    for source in sources:
        source.seek(0)
    assert backup.restore_backup(tmp_path / "b.pages", sources) == store.version
    with pagestore.open(tmp_path / "b.pages", sync="off") as copy:
        assert copy.recovery is None
        assert copy.uuid == store.uuid
        assert content(copy.snapshot()) == content(store.snapshot())
        for n in range(20):
            with copy.transaction() as txn:
                txn["edge"].insert([(n, 5000)])
            assert copy.check() == []


def test_backups_out_of_order_or_cut_are_refused(store, tmp_path):
    full, part = io.BytesIO(), io.BytesIO()
    base = store.backup(full)
    with store.transaction() as txn:
        txn["edge"].insert([(1, 1)])
    store.backup(part, since=base)
    for sources in (
        [part],
        [full, full],
        [full, io.BytesIO(part.getvalue()[:-40])],
        [io.BytesIO(b"x" * 99)],
    ):
        for source in sources:
            source.seek(0)
        with pytest.raises((FormatError, CorruptionError)):
            backup.restore_backup(tmp_path / "b.pages", sources)
        assert not [p for p in tmp_path.iterdir() if "b.pages" in p.name]
    with pytest.raises(VersionError):
        store.backup(io.BytesIO(), since=99)


def test_a_backup_while_another_handle_writes(store, tmp_path):
    out = io.BytesIO()
    with pagestore.open(store.path, mode="r") as reader:
        before = content(reader.snapshot())

        class Busy(io.BytesIO):
            def write(self, data):
                with store.transaction() as txn:
                    txn["edge"].insert([(len(data), 77)])
                return super().write(data)

        store.retain = 1
        out = Busy()
        version = reader.backup(out)
    out.seek(0)
    backup.restore_backup(tmp_path / "b.pages", [io.BytesIO(out.getvalue())])
    with pagestore.open(tmp_path / "b.pages", mode="r") as copy:
        assert copy.version == version
        assert content(copy.snapshot()) == before
        assert copy.check() == []


def test_a_failed_restore_leaves_the_store_as_it_was(store, tmp_path):
    """Even where the first of several versions is whole; from a pipe as from a file."""
    data = dumped(store, [3, 8, 9])
    [*_, last, _] = headers(data)
    wrong = bytearray(data)
    wrong[last] ^= 1

    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    with pagestore.open(tmp_path / "r.pages", sync="off", retain="all") as target:
        size = target.stat()
        for source in (io.BytesIO(wrong), Pipe(wrong), Pipe(data[:-1])):
            with pytest.raises(CorruptionError):
                target.restore(source)
            assert (target.version, target.tags, target.history()[1:]) == (0, {}, [])
            assert target.check() == [] and target.stat() == size
            assert [path.name for path in tmp_path.iterdir() if "r.pages" in path.name] == [
                "r.pages"
            ]
        assert target.restore(Pipe(data)) == [1, 2, 3]
        assert content(target.at(2)) == content(store.at(8))


def test_texts_longer_than_a_block_come_in_parts(tmp_path, monkeypatch):
    """No block is longer than a reader accepts."""
    monkeypatch.setattr(dump, "TEXT_BYTES", 4000)
    texts = [
        bytes([i]) * n
        for i, n in enumerate([3, 9000, 1, 4000, 4001, 30, *range(1, 3000, 97), 50_000, 2])
    ]
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, b: bytes", key="k").insert([*enumerate(texts)])
        data = dumped(store)
    found = [
        block
        for block in read_blocks(io.BytesIO(data[12:]), dump.KINDS)
        if block.kind in (b"TEXT", b"PART")
    ]
    assert [block.kind for block in found].count(b"PART") == 2 + 1 + 12
    assert max(len(block.data) for block in found) < 12_000
    with pagestore.open(tmp_path / "r.pages", sync="off") as target:
        target.restore(io.BytesIO(data))
        assert [b for _, b in target.snapshot()["r"]] == texts
        assert dumped(target) == data


def test_memory_is_bounded_by_a_block(tmp_path, monkeypatch):
    """All texts of a dump are never in memory at once, though they come before the version that
    they belong to.
    """
    monkeypatch.setattr(dump, "TEXT_BYTES", 1 << 15)
    peaks = []
    for n in (500, 501, 5_000):  # of 900 bytes; the first time takes what stays
        with pagestore.open(tmp_path / f"s{n}", sync="off") as store:
            with store.transaction() as txn:
                txn.create("r", "s: string").insert([(f"{i:>900}",) for i in range(n)])
            data = dumped(store)
        with pagestore.open(tmp_path / f"r{n}", sync="off") as target:
            tracemalloc.start()
            target.restore(io.BytesIO(data))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert len(target.snapshot()["r"]) == n
    assert peaks[2] < peaks[1] + (2 << 20), peaks  # of 4.5 MB


# --- increments ---------------------------------------------------------------------------------


def backed_up(store, since=None):
    out = io.BytesIO()
    store.backup(out, since)
    return out.getvalue()


def applied(path, *parts):
    return backup.restore_backup(path, [*map(io.BytesIO, parts)])


def edited(store, *values):
    """Make one commit for each value, which sets all records of a relation to it."""
    for value in values:
        with store.transaction() as txn:
            if "r" not in txn:
                txn.create("r", "k: int64, v: int64", key="k")
            txn["r"].set([(k, value) for k in range(1000)])


def test_increments_of_copies_that_went_different_ways_do_not_mix(tmp_path):
    with pagestore.open(tmp_path / "a", page_size=4096, sync="off") as store:
        edited(store, 1)
        full = backed_up(store)
    increments = {}
    for name in "bc":
        applied(tmp_path / name, full)
        with pagestore.open(tmp_path / name, sync="off") as copy:
            edited(copy, ord(name))
            increments[name, 2] = backed_up(copy, 1)
            edited(copy, ord(name) + 10)
            increments[name, 3] = backed_up(copy, 2)
    for one, other in ("bc", "cb"):
        with pytest.raises(
            FormatError, match="version 3 goes on from commit .* of version 2, and .* holds commit"
        ):
            applied(tmp_path / "d", full, increments[one, 2], increments[other, 3])
        assert not (tmp_path / "d").exists()
        assert applied(tmp_path / (2 * one), full, increments[one, 2], increments[one, 3]) == 3
        with pagestore.open(tmp_path / (2 * one), sync="off") as copy:
            assert {v for _, v in copy.snapshot()["r"]} == {ord(one) + 10} and copy.check() == []


def test_increments_go_on_after_a_restore(tmp_path):
    """A copy has the store's uuid and its commits, so what it backs up goes on where the store
    ended.
    """
    parts, path = [], tmp_path / "0"
    for n in range(4):
        with pagestore.open(path, sync="off") as store:
            edited(store, n)
            parts.append(backed_up(store, store.version - 1 if n else None))
        path = tmp_path / str(n + 1)
        assert applied(path, *parts) == n + 1
    with pagestore.open(path, sync="off") as copy:
        assert {v for _, v in copy.snapshot()["r"]} == {3} and copy.check() == []


def test_an_increment_follows_nothing_but_its_base(tmp_path):
    with (
        pagestore.open(tmp_path / "s", sync="off") as store,
        pagestore.open(tmp_path / "o", sync="off") as other,
    ):
        edited(store, 1)
        edited(other, 1)
        full, other_full = backed_up(store), backed_up(other)
        edited(store, 2)
        second = backed_up(store, 1)
        edited(store, 3)
        third, both, none = backed_up(store, 2), backed_up(store, 1), backed_up(store, 3)
    for parts, match in (
        ([full, third], "goes on from version 2 and cannot follow version 1"),
        ([full, third, second], "goes on from version 2 and cannot follow version 1"),
        ([full, second, second], "goes on from version 1 and cannot follow version 2"),
        ([full, second, full], "is a full one and cannot follow version 2"),
        ([other_full, second], "is of another store"),
        ([second], "cannot come first"),
        ([full, none], "goes on from version 3"),
    ):
        with pytest.raises(FormatError, match=match):
            applied(tmp_path / "x", *parts)
    assert (
        applied(tmp_path / "1", full, second, third, none)
        == applied(tmp_path / "2", full, both)
        == 3
    )
    before = (tmp_path / "1").read_bytes()
    with pytest.raises(FileExistsError, match="already exists"):
        applied(tmp_path / "1", full, second)
    assert (tmp_path / "1").read_bytes() == before


def test_the_base_of_an_increment_is_kept(tmp_path):
    with pagestore.open(tmp_path / "s", sync="off", retain=1) as store:
        edited(store, 1)
        full = backed_up(store)
        store.tag("backed up")
        edited(store, *range(2, 40))
        part = backed_up(store, "backed up")
        assert part == backed_up(store, 1)
        store.branch("aside", 1)
        with store.transaction(branch="aside") as txn:
            txn["r"].delete([(1, 1)])
        with pytest.raises(VersionError, match="none of the main branch"):
            store.backup(io.BytesIO(), "aside")
        with pytest.raises(
            VersionError, match="version 2 is not retained.*full backup, and tag its version"
        ):
            store.backup(io.BytesIO(), 2)
    assert applied(tmp_path / "c", full, part) == 39


def test_backups_of_format_1(tmp_path):
    """A full one reads; an increment does not say from which commit it goes on."""
    with pagestore.open(tmp_path / "s", sync="off") as store:
        edited(store, 1)
        full = backed_up(store)
        edited(store, 2)
        part = backed_up(store, 1)

    def before(data):
        out = io.BytesIO()
        out.write(b"pageBACK\x01\0\0\0")
        for block in read_blocks(io.BytesIO(data[12:]), backup.KINDS):
            write_block(out, block.kind, block.data[:-16] if block.kind == b"HEAD" else block.data)
        return out.getvalue()

    assert applied(tmp_path / "c", before(full)) == 1
    assert applied(tmp_path / "d", before(full), part) == 2
    with pytest.raises(
        FormatError, match="increment of format 1.*restore it with the library that wrote it"
    ):
        applied(tmp_path / "x", full, before(part))
    with pytest.raises(FormatError, match="a backup of format 9, and this library reads format 3"):
        applied(tmp_path / "x", b"pageBACK\x09\0\0\0" + full[12:])


# --- what a file is -----------------------------------------------------------------------------


def test_a_restored_file_is_durable_with_its_name(store, tmp_path, monkeypatch):
    synced = []
    for name in ("fsync", "fdatasync"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os,
            name,
            lambda fd, real=real: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd)),
        )
    applied(tmp_path / "b.pages", backed_up(store))
    assert ".b.pages." in synced[-2] and synced[-1] == str(tmp_path)


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_what_is_no_file_is_no_store(tmp_path, mode):
    """Opening a pipe for reading would wait for a writer, so it is refused unopened."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind(str(tmp_path / "plug"))
        for path in (tmp_path / "pipe", tmp_path / "plug", "/dev/null", "/dev/zero"):
            with pytest.raises(FormatError, match="is not a store: it is not a file but a"):
                pagestore.open(path, mode)
    with pytest.raises(IsADirectoryError):
        pagestore.open(tmp_path, mode)
