"""Dumps: the content of a store as one stream, independent of pages, that any later version can read back.

A dump is "pageDUMP", a format number, and blocks. A block is a header of 24 bytes (kind, 4 letters; crc32c of
the packed bytes, u32; packed and plain length, u64 each; little-endian) and a zstandard frame:

    STOR   u64         the number of versions; then the texts of the dictionary follow, in order of ids
    TEXT   Arrow       one column of bytes: the next texts
    VERS   record      a version: number, message, tags, and the catalog as in the store (docs/format.md)
    TREE   record      relation name, 1 if its rows are the changes since the version dumped before, else 0
    ROWS   Arrow       its records as words; with changes, a first column that is 0 insert, 1 erase
    DONE   u64 x 2     the numbers of versions and rows, so that a cut is noticed

Relations are dumped as words, and the dictionary with the same ids, so that trees of raw words, which may
hold ids of texts, keep their meaning. The first version is dumped whole, each later one as its changes.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import IO

import numpy as np
import pyarrow as pa

from .blocks import read_blocks, write_block
from .catalog import Catalog
from .delta import Delta
from .dictionary import TEXTS
from .errors import CorruptionError, FormatError, MissingError
from .handle import Handle
from .mapping import NO_RUN
from .record import CATALOG, Reader, Writer
from .snapshot import Snapshot, at, newest
from .tags import add as add_tag
from .transaction import begin
from .tree import ERASE, INSERT, Tree, bulk

MAGIC = b"pageDUMP\x01\x00\x00\x00"
KINDS = b"STOR", b"TEXT", b"VERS", b"TREE", b"ROWS", b"DONE"
ROWS = 1 << 16


def dump(
    handle: Handle,
    out: IO[bytes],
    versions: Iterable[int | str] | None = None,
    relations: Sequence[str] | None = None,
) -> None:
    """Write versions (the newest by default) and relations (all, hidden ones and properties too) to a binary stream.

    Raises VersionError, MissingError. O(content of the first version + changes).
    """
    with ExitStack() as held:
        taken = (at(handle, version) for version in versions) if versions is not None else [newest(handle)]
        snapshots = sorted(map(held.enter_context, taken), key=lambda snapshot: snapshot.version)
        _write(out, snapshots, handle.refresh().settings.tags, relations)


def _write(
    out: IO[bytes], snapshots: Sequence[Snapshot], tags: Mapping[str, int], relations: Sequence[str] | None
) -> None:
    """Ascending versions, which may be none, as a dump."""
    out.write(MAGIC)
    write_block(out, b"STOR", struct.pack("<Q", len(snapshots)))
    for batch in _texts(snapshots[-1]) if snapshots else ():
        write_block(out, b"TEXT", _ipc([batch]))
    rows = 0
    before: Snapshot | None = None
    for snapshot in snapshots:
        names = [tag for tag, version in tags.items() if version == snapshot.version]
        catalog = _chosen(snapshot, relations)
        write_block(out, b"VERS", _version(snapshot, names, catalog))
        for info in catalog.relations.values():
            rows += _relation(out, before, snapshot, info.name)
        before = snapshot
    write_block(out, b"DONE", struct.pack("<QQ", len(snapshots), rows))


def restore(handle: Handle, source: IO[bytes]) -> list[int]:
    """Read a dump into an empty store; returns the numbers that its versions have now.

    Raises FormatError for what is no dump, CorruptionError where it is cut off or damaged; versions before
    that place are restored. Memory is bounded by a block.
    """
    if source.read(len(MAGIC)) != MAGIC:
        raise FormatError("this is no dump, or one of another format; it should begin with 'pageDUMP'")
    if handle.version or len(newest(handle)):
        raise FormatError(f"{handle.file.path} is not empty; restore into a new store")
    return _Restore(handle, read_blocks(source, KINDS)).run()


class _Restore:
    """One pass over the blocks of a dump."""

    def __init__(self, handle: Handle, blocks: Iterator[tuple[bytes, bytes]]):
        self.handle, self.blocks = handle, blocks
        self.texts: list[pa.Array] = []
        self.made: list[int] = []
        self.rows = 0

    def run(self) -> list[int]:
        (self.expected,) = struct.unpack("<Q", self._take(b"STOR"))
        kind, data = next(self.blocks)
        while kind == b"TEXT":
            self.texts.append(_batches(data)[0].column(0))
            kind, data = next(self.blocks)
        while kind == b"VERS":
            kind, data = self._version(data)
        if kind != b"DONE" or struct.unpack("<QQ", data) != (len(self.made), self.rows):
            raise CorruptionError(f"the dump ends with {kind!r} after {len(self.made)} of {self.expected} versions")
        return self.made

    def _version(self, data: bytes) -> tuple[bytes, bytes]:
        message, names, catalog = _read_version(data)
        with begin(self.handle, message) as txn:
            txn.vouch()  # what hosts keep is in the dump, too
            for texts in self.texts:
                txn.dictionary.intern(texts)
            self.texts = []
            for name in [n for n in txn._catalog.relations if n not in catalog.relations]:
                txn.drop(name)
            for info in catalog.relations.values():
                txn._adopt(info)
            txn.properties.clear()
            txn.properties.update(catalog.properties)
            kind, data = next(self.blocks)
            while kind == b"TREE":
                kind, data = self._tree(txn, data)
        self.made.append(self.handle.version)
        for tag in names:
            with self.handle.administering():
                add_tag(self.handle, tag)
        return kind, data

    def _tree(self, txn, data: bytes) -> tuple[bytes, bytes]:
        source = Reader(np.frombuffer(data, np.int64), CATALOG)
        name, changes = source.take_text(), source.take()
        kind, data = next(self.blocks)

        def batches() -> Iterator[np.ndarray]:
            nonlocal kind, data
            while kind == b"ROWS":
                for batch in _batches(data):
                    self.rows += batch.num_rows
                    yield np.stack([column.to_numpy() for column in batch.columns])
                kind, data = next(self.blocks)

        if changes:
            for batch in batches():
                txn.apply(name, np.where(batch[0] == 0, INSERT, ERASE), np.ascontiguousarray(batch[1:]))
        else:
            txn.replace(name, bulk(txn.pager, txn.tree(name).spec, batches()))
        return kind, data

    def _take(self, wanted: bytes) -> bytes:
        kind, data = next(self.blocks)
        if kind != wanted:
            raise CorruptionError(f"the dump has a block {kind!r} where {wanted!r} belongs")
        return data


# --- blocks -------------------------------------------------------------------------------------


def _ipc(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _batches(data: bytes) -> list[pa.RecordBatch]:
    return list(pa.ipc.open_stream(data))


def _texts(snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """All texts of the dictionary in the order of their ids."""
    count = snapshot._version.trees[TEXTS.tree_id].count and snapshot.dictionary.greatest_id()
    for first in range(1, count + 1, ROWS):
        ids = np.arange(first, min(first + ROWS, count + 1))
        yield pa.RecordBatch.from_arrays(
            [snapshot.dictionary.texts(ids, binary=True).cast(pa.large_binary())], ["text"]
        )


def _chosen(snapshot: Snapshot, names: Sequence[str] | None) -> Catalog:
    """What a dump has of a version. Properties, which hosts write, are about all relations, and go with all only."""
    catalog = snapshot._version.catalog.copy()
    for name in names or ():
        if name not in catalog.relations:
            raise MissingError(f"version {snapshot.version} has no relation {name!r}; it has {', '.join(snapshot)}")
    if names is not None:
        catalog.relations, catalog.properties = {name: catalog.relations[name] for name in names}, {}
    return catalog


def _version(snapshot: Snapshot, tags: list[str], catalog: Catalog) -> bytes:
    out = Writer(CATALOG)
    out.put(snapshot.version)
    out.put_text(snapshot.message)
    out.put(len(tags))
    for tag in tags:
        out.put_text(tag)
    return (out.words + catalog.encode()).tobytes()


def _read_version(data: bytes) -> tuple[str, list[str], Catalog]:
    source = Reader(np.frombuffer(data, np.int64), CATALOG)
    source.take()  # the number it had
    message = source.take_text()
    tags = [source.take_text() for _ in range(source.take())]
    return message, tags, Catalog.decode(source.words[source.at :], NO_RUN)


def _relation(out: IO[bytes], before: Snapshot | None, snapshot: Snapshot, name: str) -> int:
    """Write a relation, or its changes since the snapshot before; returns the number of rows."""
    tree = snapshot.tree(name)
    old = _same_tree(before, name, tree)
    head = Writer(CATALOG)
    head.put_text(name)
    head.put(int(old is not None))
    write_block(out, b"TREE", head.words.tobytes())
    rows = 0
    for batch in _changes(snapshot, old, tree) if old is not None else snapshot[name].words(rows=ROWS):
        rows += batch.shape[1]
        columns = [f"c{i}" for i in range(len(batch))]
        write_block(out, b"ROWS", _ipc([pa.RecordBatch.from_arrays([pa.array(column) for column in batch], columns)]))
    return rows


def _same_tree(before: Snapshot | None, name: str, tree: Tree) -> Tree | None:
    """The tree of the version before, if it is the same relation."""
    if before is None or name not in before._version.catalog.relations:
        return None
    old = before.tree(name)
    return old if old.spec == tree.spec else None


def _changes(snapshot: Snapshot, old: Tree, new: Tree) -> Iterator[np.ndarray]:
    for actions, words in Delta(snapshot.pages, old, new):
        yield np.concatenate([(actions != INSERT).astype(np.int64)[None], words])
