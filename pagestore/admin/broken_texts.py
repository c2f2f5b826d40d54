"""Texts that are not UTF-8, in columns of strings: find them, and repair them in a commit.

    b"caf\\xe9"      read as Latin-1      café
                    or escaped           caf\\xe9, with a backslash

New values are checked (values/exact.py); stores of earlier releases may have broken texts from
files of Parquet and Arrow. A relation that has one cannot be read. Earlier versions keep theirs
until they are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pagestore.errors import EditError, WordError
from pagestore.relations.relation import Relation
from pagestore.relations.transaction import Transaction, begin_transaction
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.trees.kernels.node_buffer import ERASE, SET
from pagestore.trees.read import get, read_batches
from pagestore.values.dictionary import Dictionary, broken_among
from pagestore.versions.handle import Handle

TEXTS_AT_ONCE = 65536


class Mended(NamedTuple):
    """The number of records of a relation whose texts a version of a branch repaired."""

    branch: str
    version: int
    relation: str
    records: int


def mend_texts(handle: Handle, encoding: str = "") -> list[Mended]:
    """Repair the values in columns of strings that are not UTF-8, in one commit for each branch
    that has some.

    They are decoded as `encoding`; without one, bytes that are not UTF-8 are escaped with a
    backslash. Views follow. Raises WordError for bytes that are not in the encoding, EditError
    where two keys become the same.
    """
    mended = []
    for branch in handle.refresh().settings.branches:
        with begin_transaction(handle, "texts that were no UTF-8", branch) as txn:
            records = _mend(txn, encoding)
            if records:
                version = txn.commit()
                mended += [Mended(branch, version, name, count) for name, count in records.items()]
            else:
                txn.rollback()
    return mended


def _mend(txn: Transaction, encoding: str) -> dict[str, int]:
    """Edit the records of one branch; return the number in each relation."""
    broken = np.array([*_broken_ids(txn.dictionary)], np.int64)
    hosted = txn.base.catalog.hosted
    records = {}
    for name in [*txn] if len(broken) else ():
        relation = txn[name]
        places = [
            i for i, column in enumerate(relation.schema.stored) if column.type.name == "string"
        ]
        if (
            places
            and name not in hosted
            and (count := _mend_relation(txn, relation, places, broken, encoding))
        ):
            records[name] = count
    return records


def _broken_ids(dictionary: Dictionary) -> Iterator[int]:
    ids = dictionary.ids()
    for at in range(0, len(ids), TEXTS_AT_ONCE):
        some = ids[at : at + TEXTS_AT_ONCE]
        yield from some[broken_among(dictionary.loaded(some))].tolist()


def _mend_relation(
    txn: Transaction, relation: Relation, places: list[int], broken: np.ndarray, encoding: str
) -> int:
    """Replace the records that have broken texts by repaired ones; return their number."""
    pages, tree = relation.view()
    batches = [np.zeros((tree.spec.columns, 0), np.int64)]
    for batch in read_batches(pages, tree) if tree.count else ():
        batches.append(batch[:, np.isin(batch[places], broken).any(axis=0)])
    before = np.concatenate(batches, axis=1)
    if not before.shape[1]:
        return 0
    after = before.copy()
    for place in places:
        some = np.isin(after[place], broken)
        after[place, some] = _mended_ids(txn.dictionary, after[place, some], encoding)
    _refuse_one_key(relation, before, after)
    txn.edit(relation.info, np.full(before.shape[1], ERASE), before)
    txn.edit(relation.info, np.full(after.shape[1], SET), after)
    return int(before.shape[1])


def _mended_ids(dictionary: Dictionary, ids: np.ndarray, encoding: str) -> np.ndarray:
    distinct, back = np.unique(ids, return_inverse=True)
    texts = [_decoded(text, encoding) for text in dictionary.loaded(distinct)]
    return dictionary.intern(pa.array(texts, pa.string()))[back]


def _decoded(text: bytes, encoding: str) -> str:
    try:
        return text.decode(encoding) if encoding else text.decode(errors="backslashreplace")
    except (UnicodeDecodeError, LookupError) as error:
        raise WordError(
            f"the text {text[:60]!r} does not read as {encoding}: {error}; name another encoding"
        ) from None


def _refuse_one_key(relation: Relation, before: np.ndarray, after: np.ndarray) -> None:
    """Raise EditError where a record whose key has changed would replace another record."""
    keys = len(relation.schema.key)
    moved = (before[:keys] != after[:keys]).any(axis=0)
    pages, tree = relation.view()
    taken, _ = get(pages, tree, np.ascontiguousarray(after[:keys, moved]))
    distinct = np.unique(after[:keys], axis=1)
    if taken.any() or distinct.shape[1] < after.shape[1]:
        raise EditError(
            f"{relation.name!r}: with other texts, two records have one key; name another "
            "encoding, or none, which writes the bytes with a backslash"
        )
