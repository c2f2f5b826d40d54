"""Dumps: the content of a store as one stream, independent of pages, that any later version can
read back.

A dump is "pageDUMP", a format number, and blocks. A block is a header of 24 bytes (kind, 4 letters;
crc32c of the packed bytes, u32; packed and plain length, u64 each; little-endian) and a zstandard
frame:

    STOR   u64         the number of versions; then the texts of the dictionary follow, in order of ids
    PART   bytes       not packed: a piece of the first text of the next block TEXT, which continues the pieces before
    TEXT   Arrow       one column of bytes: the next texts; null where the text of an id has left the dictionary
    VERS   record      a version: number, message, tags, and the catalog as in the store (docs/format.md)
    TREE   record      relation name, 1 if its rows are the changes since the version dumped before, else 0
    ROWS   Arrow       its records as words; with changes, a first column: 0 insert, 1 erase
    DONE   u64 x 2     the numbers of versions and rows, so that a cut is noticed

Relations are dumped as words, and the dictionary with the same ids, so that trees of raw words,
which may hold ids of texts, keep their meaning. The first version is dumped whole, each later one
as its changes.

A dump may come from a stranger: `restore` refuses what no store would hold (docs/format.md).

Arrow batches in blocks: write a batch as a stream, and read it back from a stream that may be a
stranger's.

Arrow trusts a stream: a body that unpacks to any size, columns of other types, offsets that lead
elsewhere. So `unpack` requires the given schema, refuses packed bodies, and validates the batch in
full.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from pagestore.admin.framing import Block, read_blocks, read_bytes, write_block
from pagestore.admin.history import add_tag
from pagestore.admin.merge import NUMBERED
from pagestore.errors import (
    CorruptionError,
    EditError,
    ExistsError,
    FormatError,
    MissingError,
    OrderError,
)
from pagestore.relations.snapshot import Snapshot, newest_snapshot, snapshot_at
from pagestore.relations.transaction import Transaction, begin_transaction
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.storage.mapping import NO_RUN
from pagestore.storage.records import CATALOG, RecordReader, RecordWriter
from pagestore.trees.build import bulk
from pagestore.trees.compare import Delta
from pagestore.trees.kernels.node_buffer import ERASE, INSERT
from pagestore.trees.read import read_batches
from pagestore.trees.tree import Tree, naming_path
from pagestore.values.codec import NULL, bounds_of
from pagestore.values.dictionary import Dictionary, is_utf8
from pagestore.values.objects import with_nulls
from pagestore.versions.catalog import MAIN, Catalog, Info, check_name
from pagestore.versions.handle import Handle

MAGIC = b"pageDUMP\x01\x00\x00\x00"
KINDS = b"STOR", b"PART", b"TEXT", b"VERS", b"TREE", b"ROWS", b"DONE"
ROWS = 1 << 16  # of a block, at most
ROWS_WORDS = 1 << 23  # words of a block of wide records, at most
TEXT_BYTES = 1 << 24  # of the texts of a block, about; longer texts are split into parts


def texts_schema() -> pa.Schema:
    """Return the schema of a block of texts."""
    return pa.schema({"text": pa.large_binary()})


_COUNT, _DONE = struct.Struct("<Q"), struct.Struct("<QQ")


def dump(
    handle: Handle,
    out: IO[bytes],
    versions: Iterable[int | str] | None = None,
    relations: Sequence[str] | None = None,
) -> None:
    """Write versions (the newest by default) and relations (all, hidden ones and properties too) to
    a binary stream.

    Raises VersionError, MissingError. O(content of the first version + changes).
    """
    with ExitStack() as held:
        taken = (
            (snapshot_at(handle, version) for version in versions)
            if versions is not None
            else [newest_snapshot(handle)]
        )
        snapshots = sorted(map(held.enter_context, taken), key=lambda snapshot: snapshot.version)
        _write(out, snapshots, handle.refresh().settings.tags, relations)


def _write(
    out: IO[bytes],
    snapshots: Sequence[Snapshot],
    tags: Mapping[str, int],
    relations: Sequence[str] | None,
) -> None:
    """Write ascending versions, maybe none, as a dump."""
    out.write(MAGIC)
    write_block(out, b"STOR", _COUNT.pack(len(snapshots)))
    if snapshots:
        _texts(out, snapshots[-1])
    rows = 0
    before: Snapshot | None = None
    for snapshot in snapshots:
        names = [tag for tag, version in tags.items() if version == snapshot.version]
        catalog = _chosen(snapshot, relations)
        write_block(out, b"VERS", _version(snapshot, names, catalog))
        for info in catalog.relations.values():
            rows += _relation(out, before, snapshot, info.name)
        before = snapshot
    write_block(out, b"DONE", _DONE.pack(len(snapshots), rows))


def restore(
    handle: Handle,
    source: IO[bytes],
    trial: Callable[[], AbstractContextManager[Handle]] | None = None,
) -> list[int]:
    """Read a dump into an empty store; return the new numbers of its versions.

    Raises FormatError for what is not a dump; CorruptionError where it is cut off, damaged, or has
    what no store would hold; MissingError for a scan operator that this process has not registered;
    SchemaError, with the `page_size` to make the store with, for a relation that is too wide for
    its pages. The version with the fault is not made then. Those before are, unless `trial` makes
    an empty store in which a dump of several versions is restored first. Memory is bounded by a
    block, or by a text that is longer.
    """
    if read_bytes(source, len(MAGIC)) != MAGIC:
        raise FormatError(
            "this is not a dump, or one of another format; it should begin with 'pageDUMP'"
        )
    state = handle.refresh()
    if state.last_version or state.settings.tags or len(newest_snapshot(handle)):
        raise FormatError(f"{handle.file.path} is not empty; restore into a new store")
    first = next(read_blocks(source, KINDS))
    if first.kind != b"STOR":
        raise first.damaged("STOR belongs there")
    (versions,) = first.numbers(_COUNT)
    if trial is None or versions < 2:
        return _Restore(handle, read_blocks(source, KINDS, at=first.end), versions).run()
    with _again(source) as again:
        place = again.tell()
        with trial() as other:
            _Restore(other, read_blocks(again, KINDS, at=first.end), versions).run()
        again.seek(place)
        return _Restore(handle, read_blocks(again, KINDS, at=first.end), versions).run()


@contextmanager
def _again(source: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield the rest of a stream in a form that can be read more than once."""
    if source.seekable():
        yield source
        return
    with TemporaryFile() as copy:
        copyfileobj(source, copy)
        copy.seek(0)
        yield copy


class _Restore:
    """One pass over the blocks of a dump after the first. `block` is the one read last."""

    def __init__(self, handle: Handle, blocks: Iterator[Block], versions: int):
        self.handle, self.blocks, self.expected = handle, blocks, versions
        self.block = self._next()
        self.made: list[int] = []
        self.tags: set[str] = set()
        self.versions = self.rows = self.texts = 0
        # by type of text, ids that no value may have: of texts that have left, or that are not
        # UTF-8
        self.refused: dict[str, list[int]] = {"string": [], "bytes": [], "decimal": []}

    def run(self) -> list[int]:
        # texts come before the first version, and may be more than memory holds
        txn = begin_transaction(self.handle)
        try:
            self._texts(txn)
            while self.block.kind == b"VERS":
                names = self._version(txn)
                self._check_end()  # a version is made only if the block after it can be read
                txn.commit()
                self._made(names)
                txn = begin_transaction(self.handle)
            self._check_end()
        finally:
            txn.rollback()
        return self.made

    def _next(self) -> Block:
        self.block = next(self.blocks)
        return self.block

    def _misplaced(self, expected: str) -> CorruptionError:
        return self.block.damaged(f"{expected} belongs there")

    def _check_end(self) -> None:
        """Raise CorruptionError unless another version follows, or a correct end."""
        if self.block.kind == b"VERS" and self.versions < self.expected:
            return
        if self.block.kind != b"DONE":
            raise self._misplaced("another block")
        said = (self.expected, *self.block.numbers(_DONE))
        had = (self.versions, self.versions, self.rows)
        if said != had:
            fact = "it said {} versions at its beginning and says {} and {} rows at its end".format(
                *said
            )
            raise self.block.damaged(f"{fact}; it has {self.versions} and {self.rows}")

    def _texts(self, txn: Transaction) -> None:
        """Add the texts to the dictionary with the ids that they had."""
        parts: list[bytes] = []
        while self.block.kind in (b"PART", b"TEXT"):
            if self.block.kind == b"PART":
                parts.append(self.block.data)
            else:
                with self.block.reading():
                    texts = unpack(self.block.data, texts_schema(), ROWS, nulls=True).column(0)
                    if parts:
                        if not texts[0].is_valid:
                            raise ValueError("a text that began in PART has no end")
                        begun = pa.array([b"".join([*parts, texts[0].as_py()])], pa.large_binary())
                        texts, parts = pa.concat_arrays([begun, texts[1:]]), []
                self._intern(txn, texts)
            self._next()
        if parts:
            raise self._misplaced("TEXT")

    def _intern(self, txn: Transaction, texts: pa.Array) -> None:
        ids = np.arange(self.texts + 1, self.texts + 1 + len(texts))
        self.texts += len(texts)
        absent = ids[texts.is_null().to_numpy(zero_copy_only=False)]
        for refused in self.refused.values():
            refused += absent.tolist()
        for part in np.split(ids, np.flatnonzero(np.diff(np.isin(ids, absent))) + 1):
            if part[0] in absent:
                txn.dictionary.skip(len(part))
            elif not np.array_equal(
                txn.dictionary.intern(texts.slice(part[0] - ids[0], len(part))), part
            ):
                raise self.block.damaged("it holds a text that was there before")
        txn.dictionary.settle()  # now, while they are few
        txn.dictionary.added.clear()  # the trees have them
        try:
            texts.cast(pa.large_string())
        except pa.ArrowInvalid:
            pairs = zip(ids.tolist(), texts.to_pylist(), strict=True)
            self.refused["string"] += [
                id_ for id_, text in pairs if text is not None and not is_utf8(text)
            ]

    def _version(self, txn: Transaction) -> list[str]:
        """Make the transaction hold the content of the next version; return its tags."""
        with self.block.reading():
            message, names, catalog = _read_version(self.block.data)
            for name in names:
                check_name(name, "tag")
                if name in self.tags or name in self.handle.state.settings.branches:
                    raise ExistsError(f"tag {name!r} is a name already")
                self.tags.add(name)
            txn.declare_maintained()  # what hosts keep is in the dump, too
            txn._edited = True  # a version is made even where it holds what the one before holds
            txn._message = message
            for name in [n for n in txn._catalog.relations if n not in catalog.relations]:
                txn.drop(name)
            for info in catalog.relations.values():
                txn._adopt(info)
            txn.properties.clear()
            txn.properties.update(catalog.properties)
        self._next()
        infos = dict(catalog.relations)
        while self.block.kind == b"TREE":
            self._tree(txn, infos)
        if infos:
            raise self._misplaced(f"TREE of {next(iter(infos))!r}")
        self.versions += 1
        return names

    def _made(self, names: list[str]) -> None:
        """Give the version that was just made its tags."""
        self.made.append(self.handle.newest_of(MAIN))
        for name in names:
            with self.handle.administering():
                add_tag(self.handle, name, MAIN)

    def _tree(self, txn: Transaction, infos: dict[str, Info]) -> None:
        """Read the rows of a relation that `infos` name."""
        with self.block.reading():
            source = RecordReader(np.frombuffer(self.block.data, np.int64), CATALOG)
            name, changes = source.take_text(), source.take()
            if name not in infos or changes not in (0, 1):
                raise ValueError(f"{name!r} is not a relation of the version, or was there before")
        info = infos.pop(name)
        self._next()
        batches = self._rows(info, changes)
        try:
            if changes:
                for batch in batches:
                    txn.apply(
                        name,
                        np.where(batch[0] == 0, INSERT, ERASE),
                        np.ascontiguousarray(batch[1:]),
                    )
            else:
                txn.replace(name, bulk(txn.pager, info.spec, batches))
        except (OrderError, EditError) as error:
            raise self.block.damaged(f"relation {name!r}, {error}") from None

    def _rows(self, info: Info, changes: int) -> Iterator[np.ndarray]:
        """Yield the words of a relation's blocks, int64[C, n]."""
        schema = pa.schema({f"c{i}": pa.int64() for i in range(changes + info.spec.columns)})
        while self.block.kind == b"ROWS":
            with self.block.reading():
                batch = unpack(self.block.data, schema, ROWS)
                words = np.stack([column.to_numpy() for column in batch.columns])
                if changes and ((words[0] < 0) | (words[0] > 1)).any():
                    raise ValueError("a change is 0 for an insert or 1 for an erasure")
                self._check_values(info, words[changes:])
            self.rows += batch.num_rows
            yield words
            self._next()

    def _check_values(self, info: Info, words: np.ndarray) -> None:
        """Raise ValueError for a word that no value of its column's type has."""
        for column, some in zip(info.schema.stored if info.schema else (), words, strict=False):
            least, most = bounds_of(column.type)
            if column.type.nullable:
                some = some[some != NULL]
            if column.type.interned:
                most = self.texts
            inside = some.min(initial=most) >= least and some.max(initial=least) <= most
            refused = self.refused.get(column.type.name, [])
            if inside and not refused:
                continue
            bad = (some < least) | (some > most) | np.isin(some, refused)
            if bad.any():
                word, place = some[int(np.argmax(bad))], f"column {column.name!r} of {info.name!r}"
                raise ValueError(f"{place} is of {column.type}, and has the word {word}")


# --- blocks -------------------------------------------------------------------------------------


def _texts(out: IO[bytes], snapshot: Snapshot) -> None:
    """Write all texts of the dictionary in the order of their ids."""
    dictionary = snapshot.dictionary
    count = int(dictionary.ids().max(initial=0))
    for first in range(1, count + 1, ROWS):
        ids = np.arange(first, min(first + ROWS, count + 1))
        lengths = dictionary.lengths(first, first + len(ids))
        for some in np.split(
            ids, 1 + np.flatnonzero(np.diff(np.cumsum(np.maximum(lengths, 0)) // TEXT_BYTES))
        ):
            texts = _texts_or_nulls(dictionary, some, lengths[some - first] >= 0)
            # only the first may be longer than a block
            begin = memoryview(texts[0].as_buffer() or b"")
            long = len(begin) > TEXT_BYTES
            while len(begin) > TEXT_BYTES:
                write_block(out, b"PART", bytes(begin[:TEXT_BYTES]))
                begin = begin[TEXT_BYTES:]
            if long:
                texts = pa.concat_arrays([pa.array([bytes(begin)], pa.large_binary()), texts[1:]])
            write_block(
                out, b"TEXT", pack(pa.RecordBatch.from_arrays([texts], schema=texts_schema()))
            )


def _texts_or_nulls(dictionary: Dictionary, ids: np.ndarray, there: np.ndarray) -> pa.Array:
    """Return the texts of ids int64[n] as an Arrow array, null where there[n] is False."""
    if not there.any():
        return pa.nulls(len(ids), pa.large_binary())
    texts = dictionary.texts(ids[there], binary=True).cast(pa.large_binary())
    return texts if there.all() else with_nulls(texts, there)


def _chosen(snapshot: Snapshot, names: Sequence[str] | None) -> Catalog:
    """Return the part of a catalog that goes into a dump.

    Properties, which hosts write, are about all relations, so they are dumped only with all of
    them."""
    catalog = snapshot._version.catalog.copy()
    for name in NUMBERED:  # of versions that get other numbers
        catalog.properties.pop(name, None)
    for name in names or ():
        if name not in catalog.relations:
            raise MissingError(
                f"version {snapshot.version} has no relation {name!r}; it has "
                f"{', '.join(snapshot) or 'none'}"
            )
    if names is not None:
        catalog.relations = {name: catalog.relations[name] for name in names}
        catalog.properties = {}
    return catalog


def _version(snapshot: Snapshot, tags: list[str], catalog: Catalog) -> bytes:
    out = RecordWriter(CATALOG)
    out.put(snapshot.version)
    out.put_text(snapshot.message)
    out.put(len(tags))
    for tag in tags:
        out.put_text(tag)
    return (out.words + catalog.encode()).tobytes()


def _read_version(data: bytes) -> tuple[str, list[str], Catalog]:
    source = RecordReader(np.frombuffer(data, np.int64), CATALOG)
    source.take()  # the number it had
    message = source.take_text()
    tags = [source.take_text() for _ in range(source.take())]
    return message, tags, Catalog.decode(np.asarray(source.words)[source.at :], NO_RUN)


def _relation(out: IO[bytes], before: Snapshot | None, snapshot: Snapshot, name: str) -> int:
    """Write a relation, or its changes since the snapshot before; returns the number of rows."""
    tree = snapshot.tree(name)
    old = _same_tree(before, name, tree)
    head = RecordWriter(CATALOG)
    head.put_text(name)
    head.put(int(old is not None))
    write_block(out, b"TREE", head.words.tobytes())
    rows, most = 0, min(ROWS, ROWS_WORDS // tree.spec.columns)
    with naming_path(snapshot.pages, tree):
        whole = read_batches(snapshot.pages, tree, rows=most)
        for batch in _changes(snapshot, old, tree) if old is not None else whole:
            rows += batch.shape[1]
            columns = [f"c{i}" for i in range(len(batch))]
            write_block(
                out, b"ROWS", pack(pa.RecordBatch.from_arrays([*map(pa.array, batch)], columns))
            )
    return rows


def _same_tree(before: Snapshot | None, name: str, tree: Tree) -> Tree | None:
    """Return the tree of the version before, if it is the same relation."""
    if before is None or name not in before._version.catalog.relations:
        return None
    old = before.tree(name)
    return old if old.spec == tree.spec else None


def _changes(snapshot: Snapshot, old: Tree, new: Tree) -> Iterator[np.ndarray]:
    for actions, words in Delta(snapshot.pages, old, new):
        yield np.concatenate([(actions != INSERT).astype(np.int64)[None], words])


_OFFSET, _PLACE, _BACK = struct.Struct("<I"), struct.Struct("<H"), struct.Struct("<i")
_HEADER, _COMPRESSION = 2, 3  # fields of a message, and of a record batch, in Arrow's Message.fbs


def pack(batch: pa.RecordBatch) -> bytes:
    """Return the bytes of a stream that holds one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpack(data: bytes, schema: pa.Schema, rows: int, nulls: bool = False) -> pa.RecordBatch:
    """Return the one batch of a stream, of that schema, with `rows` rows at most and, unless
    `nulls`, no nulls.

    Raises ValueError, struct.error, or one of Arrow's errors (ArrowException, OSError). O(bytes).

    >>> batch = pa.record_batch({"c0": pa.array([1, 2])})
    >>> unpack(pack(batch), batch.schema, 2) == batch
    True
    >>> unpack(pack(batch), pa.schema({"c0": pa.int64(), "c1": pa.int64()}), 2)
    Traceback (most recent call last):
    ValueError: it has the columns c0: int64, and c0: int64, c1: int64 belong there
    """
    messages = pa.ipc.MessageReader.open_stream(data)
    stored = pa.ipc.read_schema(_next(messages, "schema"))
    if not stored.equals(schema):
        raise ValueError(f"it has the columns {_names(stored)}, and {_names(schema)} belong there")
    message = _next(messages, "record batch")
    if _compressed(message.metadata.to_pybytes()):
        raise ValueError("its batch is packed once more")
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    if batch.num_rows > rows:
        raise ValueError(f"it has {batch.num_rows} rows, and a block holds {rows} at most")
    if not nulls and any(column.null_count for column in batch.columns):
        raise ValueError("it holds nulls")
    return batch


def _next(messages: pa.ipc.MessageReader, kind: str) -> pa.ipc.Message:
    try:
        message = messages.read_next_message()
    except StopIteration:
        raise ValueError(f"its stream ends where a {kind} belongs") from None
    if message.type != kind:
        raise ValueError(f"its stream has a {message.type} where a {kind} belongs")
    return message


def _names(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _compressed(metadata: bytes) -> bool:
    """Return whether the buffers of a record batch are packed, by its header, a flatbuffer,
    before any is read.
    """
    (message,) = _OFFSET.unpack_from(metadata)
    at = message + _field(metadata, message, _HEADER)
    (header,) = _OFFSET.unpack_from(metadata, at)
    return bool(_field(metadata, at + header, _COMPRESSION))


def _field(data: bytes, table: int, number: int) -> int:
    """Return the offset of a field in a flatbuffer's table, 0 if it is absent."""
    places = table - _BACK.unpack_from(data, table)[0]
    (size,) = _PLACE.unpack_from(data, places)
    return _PLACE.unpack_from(data, places + 4 + 2 * number)[0] if size > 4 + 2 * number else 0
