"""The text of a concat, read when it is asked for: the state of the aggregate is the rope (*Aggregations*).

    names[shop] = n <- agg<<n = concat(item, day, ", ")>> sold(shop, day, item).

    state   (shop, day, item; eta)        ws.rope("names", "harbour")   is the items of a range of it, with separators

A change edits O(log n) nodes of the state, which are pages, however long the text is.  The view's row has a checksum of
the range, so that it changes where the text does.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ivm.engine.installed import Installed
from ivm.errors import UnknownViewError
from ivm.lang.ir import ROPE
from ivm.plan.constants import Encoder
from ivm.views.aggregate_state import behind_prefixes, ordering_words
from ivm.views.states import Fold
from pagestore.host import Column, Rope, Snapshot, TextFinder, Transaction, Type, encode, read_batches


class ConcatRope(Rope):
    """The text of one group, as a Rope has it; it reads its version while that is open.

    >>> import ivm, tempfile
    >>> with ivm.open(tempfile.mkdtemp() + "/s.pages") as workspace:
    ...     workspace.install("item(n, s) -> int(n), string(s).")
    ...     workspace.install('list[] = t <- agg<<t = concat(s, ", ")>> item(_, s).', "rules")
    ...     _ = workspace.exec('+item(1, "tea"). +item(2, "cake").')
    ...     str(workspace.rope("list")), [*workspace.rope("list")]
    ('tea, cake', ['tea', ', cake'])
    """

    def __init__(self, source: Snapshot | Transaction, name: str, fold: Fold, key: tuple[int, ...]) -> None:
        self._source, self._name, self._fold, self._key = source, name, fold, key

    def __repr__(self) -> str:
        return f"<rope of {self._name}>"

    @property
    def _bytes(self) -> bool:
        return False

    @cached_property
    def _separator(self) -> str:
        return str(self._fold.constants[0]) if self._fold.constants else ""

    def _texts(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc  # late: it takes as long to import as the rest of pyarrow

        begun = False
        for words in self._ids():
            texts = self._source.decode("string", words)
            if self._separator:
                plain = texts.slice(0, 0 if begun else 1)
                others = pc.binary_join_element_wise(self._separator, texts.slice(len(plain)).cast(pa.string()), "")
                texts = pa.concat_arrays([plain.cast(pa.string()), others])
            begun = begun or len(texts) > 0
            yield texts

    def _ids(self) -> Iterator[np.ndarray]:
        """The texts' ids in order, each as often as there are assignments of it."""
        for rows in self._by_texts(self._records()):
            if rows.shape[1]:
                yield np.repeat(rows[-2], rows[-1])

    def _records(self) -> Iterator[np.ndarray]:
        """Records of the state in its order: a few, which are soon there, then many at a time."""
        pages, tree = self._source.pages, self._source.tree(self._fold.state.name)
        end = _behind(self._key)
        first = next(read_batches(pages, tree, self._key, end or (), rows=FIRST), None)
        if first is None:
            return
        yield first
        rest = _behind(tuple(first[: tree.spec.keys, -1].tolist()))
        if rest and first.shape[1] == FIRST:
            yield from read_batches(pages, tree, rest, end or (), rows=ROWS)

    def _by_texts(self, batches: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Records of the state in the order of their texts, whose words are in another one.

        Records that are alike before the first text are held until all of them are there.
        """
        group, first = self._fold.state.group, self._fold.state.group + min(self._fold.state.texts)
        held: list[np.ndarray] = []
        for batch in batches:
            before = batch[group:first]
            start = int(np.argmax((before == before[:, -1:]).all(axis=0)))  # from here on as the last one
            if start or (held and (held[-1][group:first, -1] != before[:, -1]).any()):
                yield self._sorted(np.concatenate([*held, batch[:, :start]], axis=1), first)
                held = []
            held.append(batch[:, start:])
        if held:
            yield self._sorted(np.concatenate(held, axis=1), first)

    def _sorted(self, rows: np.ndarray, first: int) -> np.ndarray:
        """Records in the order of their texts, if some are alike before the `first` of these."""
        before = rows[self._fold.state.group : first]
        if rows.shape[1] < 2 or not (before[:, 1:] == before[:, :-1]).all(axis=0).any():
            return rows
        words = ordering_words(self._fold, rows, Encoder(self._source).keys)
        return rows.take(np.lexsort(words[::-1]), axis=1)


FIRST = 64  # texts that are read first
ROWS = 4096  # texts read at a time


def _behind(key: tuple[int, ...]) -> tuple[int, ...] | None:
    """The least prefix behind all keys that begin with one; None if there is none."""
    behind, last = behind_prefixes(np.array(key)[:, None])
    return None if last[0] else tuple(behind[:, 0].tolist())


def rope_of(source: Snapshot | Transaction, installed: Installed, name: str, key: tuple[Any, ...]) -> ConcatRope:
    """The rope of a concat's group.  Raises UnknownViewError for another view, KeyError where there is no group."""
    predicate = installed.predicate(name)
    fold = installed.layouts[name].fold
    if predicate.value != ROPE or not fold:
        raise UnknownViewError(f"{name} is no concat, so it has no rope")
    if len(key) != len(predicate.keys):
        raise KeyError(f"{name} has {len(predicate.keys)} keys, and {key!r} has {len(key)}")
    texts = TextFinder(source.dictionary)
    typed = zip(predicate.keys, key, strict=True)
    words = tuple(int(encode(Column("key", Type.parse(t)), [value], texts)[0]) for t, value in typed) or (0,)
    rope = ConcatRope(source, name, fold, words)
    if next(rope._ids(), None) is None:
        raise KeyError(key)
    return rope
