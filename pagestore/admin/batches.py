"""Arrow batches in blocks: write a batch as a stream, and read it back from a stream that may be a stranger's.

Arrow trusts a stream: a body that unpacks to any size, columns of other types, offsets that lead elsewhere. So
`unpack` requires the given schema, refuses packed bodies, and validates the batch in full.
"""

from __future__ import annotations

import struct

from pagestore.runtime.lazy import pyarrow as pa

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
    """Return the one batch of a stream, of that schema, with `rows` rows at most and, unless `nulls`, no nulls.

    Raises ValueError, struct.error, or one of Arrow's errors (ArrowException, OSError). O(bytes).

    >>> batch = pa.record_batch({"c0": pa.array([1, 2])})
    >>> unpack(pack(batch), batch.schema, 2) == batch
    True
    >>> unpack(pack(batch), pa.schema({"c0": pa.int64(), "c1": pa.int64()}), 2)
    Traceback (most recent call last):
    ValueError: it has the columns c0: int64, and c0: int64, c1: int64 belong there
    """
    messages = pa.ipc.MessageReader.open_stream(data)
    found = pa.ipc.read_schema(_next(messages, "schema"))
    if not found.equals(schema):
        raise ValueError(f"it has the columns {_names(found)}, and {_names(schema)} belong there")
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
    """Return whether the buffers of a record batch are packed, by its header, a flatbuffer, before any is read."""
    (message,) = _OFFSET.unpack_from(metadata)
    at = message + _field(metadata, message, _HEADER)
    (header,) = _OFFSET.unpack_from(metadata, at)
    return bool(_field(metadata, at + header, _COMPRESSION))


def _field(data: bytes, table: int, number: int) -> int:
    """Return the offset of a field in a flatbuffer's table, 0 if it is absent."""
    places = table - _BACK.unpack_from(data, table)[0]
    (size,) = _PLACE.unpack_from(data, places)
    return _PLACE.unpack_from(data, places + 4 + 2 * number)[0] if size > 4 + 2 * number else 0
