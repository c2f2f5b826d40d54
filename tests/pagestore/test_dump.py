"""Dumps and backups: what goes out comes back, cut or damaged ones are refused, others go on meanwhile."""

import io
from decimal import Decimal

import numpy as np
import pytest

import pagestore
from pagestore import backup, dump
from pagestore.blocks import BLOCK, read_blocks
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
        backup.apply(tmp_path / "b.pages", [])


def test_a_dump_that_fails_holds_no_version(store):
    with pagestore.open(store.path, mode="r") as reader:
        for versions, relations in (([3, 77], None), ([3], ["nope"])):
            with pytest.raises((VersionError, MissingError)) as caught:
                dumped(reader, versions, relations)
            assert caught.tb and not reader._handle.locks.pins  # though the error holds all that was there


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
            pytest.raises((CorruptionError, FormatError), match="cut off|no dump"),
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
                with pytest.raises(CorruptionError, match=f"at byte {at} |cut off at byte {len(data)};"):
                    [*read_blocks(io.BytesIO(wrong[12:]), dump.KINDS + backup.KINDS)]
    wrong = bytearray(backed.getvalue())
    wrong[12:16] = b"PAGE"
    with pytest.raises(CorruptionError, match="HEAD belongs there"):
        backup.apply(tmp_path / "b.pages", [io.BytesIO(wrong)])


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
    assert backup.apply(tmp_path / "b.pages", sources) == store.version
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
    for sources in ([part], [full, full], [full, io.BytesIO(part.getvalue()[:-40])], [io.BytesIO(b"x" * 99)]):
        for source in sources:
            source.seek(0)
        with pytest.raises((FormatError, CorruptionError)):
            backup.apply(tmp_path / "b.pages", sources)
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
    backup.apply(tmp_path / "b.pages", [io.BytesIO(out.getvalue())])
    with pagestore.open(tmp_path / "b.pages", mode="r") as copy:
        assert copy.version == version
        assert content(copy.snapshot()) == before
        assert copy.check() == []
