"""Crafted dumps and backups are refused: the error says where, memory stays bounded, and no file
is left behind.
"""

import io
import struct
from random import Random

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from crc32c import crc32c

import pagestore
from pagestore.admin import backup, dump, framing
from pagestore.admin import dump as batches
from pagestore.admin.framing import BLOCK
from pagestore.errors import CorruptionError, FormatError, PagestoreError
from pagestore.storage.mapping import NO_RUN
from pagestore.values.scan_spec import parse_scan, scan_names
from pagestore.versions.catalog import Catalog
from tests.reliability.crafted import apart, run, together


def test_crafted_files_are_restored_or_refused():
    counts = run(seed=0, amount=150)
    assert sum(counts.values()) == 150 and {"dump: restored", "backup: restored"} <= counts.keys()
    assert counts["dump: CorruptionError"] > 25 < counts["backup: CorruptionError"]


@pytest.mark.campaign
def test_very_many_crafted_files():
    assert sum(run(seed=1, amount=100_000).values()) == 100_000


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    with pagestore.open(
        tmp_path_factory.mktemp("crafted") / "s.pages", page_size=4096, sync="off"
    ) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, s: string", key="k").insert(
                [(i, f"t{i}") for i in range(500)]
            )
        out, backed = io.BytesIO(), io.BytesIO()
        store.dump(out)
        store.backup(backed)
    return out.getvalue(), backed.getvalue()


def refused(data, tmp_path, match):
    with pagestore.open(tmp_path / "r.pages", sync="off") as target:
        with pytest.raises(PagestoreError, match=match) as caught:
            target.restore(io.BytesIO(data))
        assert isinstance(caught.value, CorruptionError)
        assert target.version == 0 and target.check() == []


def with_block(data, kind, change):
    """A dump or backup in which all blocks of one kind were changed."""
    found = [(its, change(content) if its == kind else content) for its, content in apart(data)]
    return together(data[:12], found)


def with_rows(data, change):
    """A dump whose rows are other columns."""

    def changed(content):
        batch = pa.ipc.open_stream(content).read_next_batch()
        columns = change([column.to_numpy() for column in batch.columns])
        return batches.pack(
            pa.record_batch({f"c{i}": pa.array(column) for i, column in enumerate(columns)})
        )

    return with_block(data, b"ROWS", changed)


def test_a_bomb_is_not_unpacked(dumped, tmp_path):
    packed = zstandard.ZstdCompressor(level=1).compress(bytes(framing.PLAIN_MAX + 8))
    assert len(packed) < 20_000
    header = BLOCK.pack(b"STOR", crc32c(packed), len(packed), framing.PLAIN_MAX + 8)
    refused(
        dump.MAGIC + header + packed,
        tmp_path,
        r"at byte 12 \(STOR\): it says that it has 134217736 bytes",
    )
    lies = BLOCK.pack(b"STOR", crc32c(packed), len(packed), 8)
    refused(dump.MAGIC + lies + packed, tmp_path, "does not say that it unpacks to 8 bytes")
    batch, sink = (
        pa.record_batch({"text": pa.array([bytes(1 << 24)], pa.large_binary())}),
        pa.BufferOutputStream(),
    )
    with pa.ipc.new_stream(
        sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_batch(batch)
    inner = sink.getvalue().to_pybytes()
    assert len(inner) < 10_000
    refused(
        with_block(dumped[0], b"TEXT", lambda _: inner),
        tmp_path,
        r"\(TEXT\): its batch is packed once more",
    )


def test_rows_are_as_the_dump_declares_them(dumped, tmp_path):
    data, _ = dumped
    assert with_rows(data, lambda columns: columns) == data
    for change, match in (
        (lambda c: c[:1], "it has the columns c0: int64, and c0: int64, c1: int64 belong there"),
        (lambda c: [*c, c[0]], "and c0: int64, c1: int64 belong there"),
        (lambda c: [c[0].astype(float), c[1]], "c0: double"),
        (lambda c: [c[0][::-1], c[1]], "key .498,. is not above"),
        (lambda c: [c[0][[0, 0, 1]], c[1][:3]], "key .0,. is not above"),
        (lambda c: [c[0], c[1] + 1], "column 's' of 'r' is of string, and has the word 501"),
        (lambda c: [c[0], c[1] - 1], "and has the word 0"),
        (lambda c: [c[0][:9], c[1][:9]], "says 1 and 500 rows at its end; it has 1 and 9"),
        (
            lambda c: [np.arange(70_000), np.ones(70_000, int)],
            "70000 rows, and a block holds 65536 at most",
        ),
    ):
        refused(with_rows(data, change), tmp_path, match)


def test_texts_are_whole_and_different(dumped, tmp_path):
    data, _ = dumped
    names = [f"t{i}".encode() for i in range(500)]

    def texts(values):
        return with_block(
            data,
            b"TEXT",
            lambda _: batches.pack(pa.record_batch({"text": pa.array(values, pa.large_binary())})),
        )

    assert texts(names) == data
    refused(texts([*names[:-1], names[0]]), tmp_path, "a text that was there before")
    refused(
        texts([*names[:-1], b"\xff"]),
        tmp_path,
        "column 's' of 'r' is of string, and has the word 500",
    )
    refused(
        texts([*names[:-1], None]), tmp_path, "column .s. of .r. is of string, and has the word 500"
    )
    wrong = bytearray(texts(names))
    apart_ = apart(bytes(wrong))
    kind, content = apart_[1]
    offsets = np.arange(1, 3, dtype=np.int64) * 2  # where texts end, as Arrow has it
    at = content.index(offsets.tobytes())
    apart_[1] = kind, content[:at] + struct.pack("<q", 1 << 40) + content[at + 8 :]
    refused(together(dump.MAGIC, apart_), tmp_path, r"\(TEXT\): .*(offset|spanned)")


def test_the_beginning_and_the_end_say_the_same(dumped, tmp_path):
    data, _ = dumped
    many = with_block(data, b"STOR", lambda _: struct.pack("<Q", 1 << 60))
    refused(many, tmp_path, "it said 1152921504606846976 versions at its beginning")
    refused(
        with_block(data, b"STOR", lambda content: content[:3]),
        tmp_path,
        r"at byte 12 \(STOR\): unpack requires",
    )
    found = apart(data)
    refused(together(dump.MAGIC, [*found[:-1], found[2]]), tmp_path, "another block belongs there")
    refused(together(dump.MAGIC, [*found[:3], found[-1]]), tmp_path, "TREE of 'r' belongs there")
    refused(
        together(dump.MAGIC, [*found[:4], *found[3:]]),
        tmp_path,
        "another block belongs there|was there before",
    )
    refused(
        together(dump.MAGIC, [found[0], (b"PART", b"x"), *found[2:]]),
        tmp_path,
        "TEXT belongs there",
    )
    with pagestore.open(tmp_path / "r.pages", sync="off") as target:
        assert target.restore(io.BytesIO(data)) == [1]


def test_a_catalog_is_one_that_a_transaction_would_have_made(tmp_path):
    """Each word of a catalog is replaced by many others: the result reads as another catalog, or
    is refused.
    """
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        txn.create(
            "r",
            "k: int64, d: decimal(9,2), s: string",
            key="k",
            scans=["sum:d", "max:d,k", "count", "checksum"],
        )
        txn.create_intervals("i", "a: int64, b: int64", ("a", "b"))
        txn.create_words("$w", 2, 3)
        txn.properties["p"] = "a text"
        content = np.array(txn.catalog.encode(), np.int64)
    rng, good = Random(0), 0
    for at in range(len(content)):
        for word in (-1, 0, 1, 2, 5, 9, 300, 1 << 31, 1 << 62, rng.randrange(1 << 40)):
            words = content.copy()
            words[at] = word
            try:
                catalog = Catalog.decode(words, NO_RUN)
            except CorruptionError:
                continue
            good += 1
            for info in catalog.relations.values():
                if info.schema:
                    assert all(
                        parse_scan(name, info.schema)
                        for name in scan_names(info.spec.scans, info.schema)
                    )
            assert Catalog.decode(np.array(catalog.encode(), np.int64), NO_RUN).same_as(catalog)
    assert good > 20


def crafted_backup(head, pages=(), done=None):
    """A backup of that head (page size, uuid, base, version, page, words, top) and pages (ids,
    bytes).
    """
    parts = [(b"HEAD", backup._HEADS[backup.FORMAT].pack(*head, backup.NO_COMMIT))]
    parts += [
        (b"PAGE", struct.pack(f"<{len(ids) + 1}q", len(ids), *ids) + data) for ids, data in pages
    ]
    parts += [
        (b"DONE", struct.pack("<q", sum(len(ids) for ids, _ in pages) if done is None else done))
    ]
    return together(backup.MAGIC, parts)


@pytest.mark.parametrize(
    ("head", "pages", "match"),
    [
        ((4096, -1, 1, 2, 50, 1 << 40), [([2], bytes(4096))], "no store of 1099511627776 pages"),
        ((4096, -1, 1, 2, 50, -3), [], "no store of -3 pages"),
        ((0, -1, 1, 2, 50, 10), [], "no pages of 0 bytes"),
        ((12345, -1, 1, 2, 50, 10), [([2], bytes(12345))], "no pages of 12345 bytes"),
        ((4096, -7, 1, 2, 50, 10), [], "no version 1 that goes on from -7"),
        ((4096, -1, 1 << 62, 2, 50, 10), [], "no version 4611686018427387904"),
        ((4096, -1, 1, 2, 1 << 50, 10), [], "a record of 1125899906842624 words at page 2"),
        ((4096, -1, 1, 1 << 50, 50, 10), [], "a record of 50 words at page"),
        ((4096, -1, 1, 2, 50, 10), [([-5], bytes(4096))], "do not ascend from 2 to 9"),
        ((4096, -1, 1, 2, 50, 10), [([1 << 30], bytes(4096))], "do not ascend from 2 to 9"),
        ((4096, -1, 1, 2, 50, 10), [([3, 3], bytes(8192))], "do not ascend"),
        (
            (4096, -1, 1, 2, 50, 10),
            [([2], bytes(4096))],
            "page 2: it says that it is page 0|its checksum",
        ),
        ((4096, -1, 1, 2, 50, 10), [([2], bytes(4000))], "it holds 1 pages, and has 4016 bytes"),
        ((4096, -1, 1, 2, 50, 10), [([1 << 40], b"")], "it holds 1 pages, and has 16 bytes"),
        ((4096, -1, 1, 2, 50, 10), [], "lacks its commit: page 2"),
    ],
)
def test_a_backup_holds_what_it_says(head, pages, match, tmp_path):
    size, *rest = head
    with pytest.raises(CorruptionError, match=match):
        backup.restore_backup(
            tmp_path / "b.pages", [io.BytesIO(crafted_backup((size, bytes(16), *rest), pages))]
        )
    assert [*tmp_path.iterdir()] == []


def test_pages_are_verified_before_they_are_written(dumped, tmp_path):
    _, backed = dumped

    def page(at, change, stamped=True):
        def changed(content):
            words = np.frombuffer(content, np.int64).copy()
            (n,) = struct.unpack_from("<q", content)
            pages = words[1 + n :].reshape(n, -1)
            change(pages[at])
            if stamped:
                pages[at, 0] = crc32c(pages[at, 1:].tobytes())
            return words.tobytes()

        return with_block(backed, b"PAGE", changed)

    assert page(0, lambda words: None) == backed
    number = int(np.frombuffer(apart(backed)[1][1], np.int64)[1])
    for data, match in (
        (
            page(0, lambda words: np.add.at(words, 20, 1), stamped=False),
            f"page {number}: its checksum does not match",
        ),
        (page(0, lambda words: np.put(words, 1, 77)), f"page {number}: it says that it is page 77"),
        (page(0, lambda words: np.put(words, 2, 9)), f"page {number} was born in version 9"),
        (page(-1, lambda words: np.put(words, 4, 1 << 60)), "not whole|lacks its commit"),
    ):
        with pytest.raises(CorruptionError, match=match):
            backup.restore_backup(tmp_path / "b.pages", [io.BytesIO(data)])
        assert [*tmp_path.iterdir()] == []


def test_few_pages_make_no_huge_store(dumped, tmp_path, monkeypatch):
    """Up to some size a restored store with few pages has holes; beyond it, backups are refused,
    and none is made.
    """
    _, backed = dumped
    (head,) = (content for kind, content in apart(backed) if kind == b"HEAD")
    fields = [*backup._HEADS[backup.FORMAT].unpack(head)]

    def of(top):
        fields[6] = top
        return with_block(backed, b"HEAD", lambda _: backup._HEADS[backup.FORMAT].pack(*fields))

    backup.restore_backup(tmp_path / "holes.pages", [io.BytesIO(of(1 << 20))])
    assert (
        (tmp_path / "holes.pages").stat().st_size
        > 1 << 32
        > (tmp_path / "holes.pages").stat().st_blocks << 12
    )
    with pagestore.open(tmp_path / "holes.pages", sync="off") as store:
        with store.transaction() as txn:
            txn["r"].insert([(1000 + n, f"more {n}") for n in range(2000)])
        assert len(store.snapshot()["r"]) == 2500
        monkeypatch.setattr(backup, "SPAN_MIN", 1 << 10)
        monkeypatch.setattr(backup, "SPAN", 1 << 6)
        with pytest.raises(FormatError, match="are too few for a backup; compact the store"):
            store.backup(io.BytesIO())
    with pytest.raises(CorruptionError, match="says that the store has 1048576 pages, and holds"):
        backup.restore_backup(tmp_path / "b.pages", [io.BytesIO(of(1 << 20))])
