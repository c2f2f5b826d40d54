"""The text of a concat, read on demand: the state of the aggregate is the rope (*Aggregations*).

    names[shop] = n <- agg<<n = concat(item, day, ", ")>> sold(shop, day, item).

    state   (shop, day, item; eta)        ws.rope("names", "harbour")   joins the items of a range of it

A change edits O(log n) pages of the state, for any length of the text.  The view's row has a checksum of the range, so
it changes when the text does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from re import search
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ivm.engine.engine import Engine
from ivm.engine.installed import PROPERTY, Installed
from ivm.engine.stored import load, saved_rules
from ivm.errors import IvmError, UnknownViewError
from ivm.lang.ir import ROPE
from ivm.maintenance.surgery import Delta
from ivm.plan.expression import Encoder
from ivm.views.aggregates import behind_prefixes, ordering_words
from ivm.views.layouts import Fold
from pagestore.host import (
    INSERT,
    Column,
    Computed,
    Pages,
    Rope,
    Snapshot,
    TextFinder,
    Transaction,
    Tree,
    Type,
    encode,
    printable,
    read_batches,
)

if TYPE_CHECKING:
    import pyarrow as pa


class ConcatRope(Rope):
    """The text of one group as a Rope, which reads its version while that is open.

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
        return printable(f"<rope of {self._name}>")

    @property
    def _bytes(self) -> bool:
        return False

    @cached_property
    def _separator(self) -> str:
        return str(self._fold.constants[0]) if self._fold.constants else ""

    def _texts(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc  # on demand: it takes as long to import as the rest of pyarrow

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
        """Yield the texts' ids in order, each once per assignment."""
        for rows in self._by_texts(self._records()):
            if rows.shape[1]:
                yield np.repeat(rows[-2], rows[-1])

    def _records(self) -> Iterator[np.ndarray]:
        """Yield records of the state in its order: a few first, for low latency, then many at a time."""
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
        """Yield records of the state in the order of their texts, which is not that of their words.

        Records that are equal before the first text are held back until all of them have been read.
        """
        first = self._fold.state.group + min(self._fold.state.texts)
        held: list[np.ndarray] = []
        for batch in batches:
            before = batch[:first]
            start = int(np.argmax((before == before[:, -1:]).all(axis=0)))  # from here on equal to the last one
            if start or (held and (held[-1][:first, -1] != before[:, -1]).any()):
                yield self._sorted(np.concatenate([*held, batch[:, :start]], axis=1), first)
                held = []
            held.append(batch[:, start:])
        if held:
            yield self._sorted(np.concatenate(held, axis=1), first)

    def _sorted(self, rows: np.ndarray, first: int) -> np.ndarray:
        """Sort records by their texts, if some agree in their `first` words, which precede all texts."""
        before = rows[:first]
        if rows.shape[1] < 2 or not (before[:, 1:] == before[:, :-1]).all(axis=0).any():
            return rows
        words = [*rows[: self._fold.state.group], *ordering_words(self._fold, rows, Encoder(self._source).keys)]
        return rows.take(np.lexsort(words[::-1]), axis=1)

    def sorted_between(self, last: tuple[int, ...]) -> Iterator[np.ndarray]:
        """Yield the records of all groups from this one to that with the key `last`, each group in its order."""
        tree = self._source.tree(self._fold.state.name)
        return self._by_texts(read_batches(self._source.pages, tree, self._key, _behind(last) or ()))


FIRST = 64  # texts that are read first
ROWS = 4096  # texts read at a time


def _behind(key: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the least prefix after all keys that begin with `key`; None if there is none."""
    behind, last = behind_prefixes(np.array(key)[:, None])
    return None if last[0] else tuple(behind[:, 0].tolist())


def rope_of(source: Snapshot | Transaction, installed: Installed, name: str, key: tuple[Any, ...]) -> ConcatRope:
    """Return the rope of a concat's group.  Raises UnknownViewError for another view, KeyError if there is no group."""
    predicate = installed.predicate(name)
    fold = installed.layouts[name].fold
    if predicate.value != ROPE or not fold:
        raise UnknownViewError(f"{name} is not a concat, so it has no rope")
    if len(key) != len(predicate.keys):
        raise KeyError(f"{name} has {len(predicate.keys)} keys, and {key!r} has {len(key)}")
    texts = TextFinder(source.dictionary)
    typed = zip(predicate.keys, key, strict=True)
    words = tuple(int(encode(Column("key", Type.parse(t)), [value], texts)[0]) for t, value in typed) or (0,)
    rope = ConcatRope(source, name, fold, words)
    if next(rope._ids(), None) is None:
        raise KeyError(key)
    return rope


# -- the texts of many groups, for readers of rows

FEW = 256  # groups that are read one by one


def concats_of(source: Snapshot | Transaction) -> Mapping[str, Fold]:
    """Return the concats among the views of a version."""
    saved = saved_rules(source)
    return _concats(saved, source) if saved and search(r"concat\s*\(", saved) else {}


_known: dict[str, dict[str, Fold]] = {}  # a cache by the saved rules


def _concats(saved: str, source: Snapshot | Transaction) -> Mapping[str, Fold]:
    found = _known.get(saved)
    if found is None:
        installed = Installed()
        with suppress(IvmError):  # rules that no longer compile have no known views
            installed = load(source, saved)
        named = {n: layout.fold for n, layout in installed.layouts.items() if "$" not in n}
        found = {n: fold for n, fold in named.items() if fold and fold.op == "concat"}
        if len(_known) >= KNOWN_MAX:
            _known.clear()
        _known[saved] = found
    return found


KNOWN_MAX = 16


def computed_text(source: Snapshot | Transaction, name: str) -> Computed | None:
    """Return the computed column of a concat's texts, for pagestore; None for another relation."""
    fold = concats_of(source).get(name)
    if fold is None:
        return None
    place = source[name].info.spec.keys if fold.grouped else 0
    return Computed(place, Type.parse("string"), partial(texts_of, name=name, fold=fold))


def texts_of(source: Any, words: np.ndarray, name: str, fold: Fold) -> pa.Array:
    """Return the texts of a concat's rows int64[C, n], in any order, as an Arrow array; null for a missing group."""
    import pyarrow as pa

    keys = words[: fold.state.group] if fold.grouped else np.zeros((1, words.shape[1]), np.int64)
    wanted = list(map(tuple, keys.T.tolist()))
    if len(wanted) <= FEW:
        found = {key: rope for key in wanted if (rope := _text(ConcatRope(source, name, fold, key))) is not None}
    else:
        found = _texts_between(ConcatRope(source, name, fold, min(wanted)), max(wanted))
    texts = [found.get(key) for key in wanted]
    size = sum(len(text.encode()) for text in texts if text)
    return pa.array(texts, pa.string() if size < 1 << 31 else pa.large_string())


def _text(rope: ConcatRope) -> str | None:
    return str(rope) if next(rope._ids(), None) is not None else None


def _texts_between(first: ConcatRope, last: tuple[int, ...]) -> dict[tuple[int, ...], str]:
    """Return the texts of all groups from `first` to the one with key `last`, by their keys."""
    found: dict[tuple[int, ...], list[str]] = {}
    group = first._fold.state.group
    for rows in first.sorted_between(last):
        if rows.shape[1]:
            times = rows[-1]
            texts = first._source.decode("string", np.repeat(rows[-2], times)).to_pylist()
            for key, text in zip(map(tuple, np.repeat(rows[:group], times, axis=1).T.tolist()), texts, strict=True):
                found.setdefault(key, []).append(text)
    return {key: first._separator.join(texts) for key, texts in found.items()}


# -- the texts of changes


class Before(NamedTuple):
    """The version that a transaction starts from, with the interface that ropes read."""

    txn: Transaction

    @property
    def pages(self) -> Pages:
        """The page map, which still has the pages of that version."""
        return self.txn.pages

    @property
    def dictionary(self) -> Any:
        """All texts."""
        return self.txn.dictionary

    def tree(self, name: str) -> Tree:
        """Return the tree of a relation."""
        return self.txn.base.trees[self.txn.base.catalog.relations[name].spec.tree_id]

    def decode(self, type_: str, words: np.ndarray) -> pa.Array:
        """Return the Arrow array of words int64[n]."""
        return self.txn.decode(type_, words)


def note_erased(engine: Engine, names: Iterable[str], told: Mapping[str, Delta] = {}) -> None:
    """Read, before the commit, the texts of rows erased from watched concats; `told` as in Workspace._notify."""
    predicates = engine.installed.program.predicates
    for name in names:
        if name in predicates and predicates[name].value == ROPE:
            change = told.get(name) or engine.change_of(name)
            fold = _concats_before(engine.txn).get(name) if change else None
            if change and fold:
                rows = change.rows[:, change.actions != INSERT]
                engine.erased[name] = texts_of(Before(engine.txn), rows, name, fold)


def _concats_before(txn: Transaction) -> Mapping[str, Fold]:
    saved = txn.base.catalog.properties.get(PROPERTY)
    return _concats(str(saved), txn) if saved else {}


def texts_of_changes(snap: Snapshot, engine: Engine, name: str, change: Delta) -> pa.Array:
    """Return the texts of a concat's erased and inserted rows; `snap` is of the new version."""
    import pyarrow as pa

    inserted = change.actions == INSERT
    gone = engine.erased.get(name, pa.nulls(int(np.count_nonzero(~inserted)), pa.string()))
    fold = engine.installed.layouts[name].fold
    assert fold
    parts = [gone, texts_of(snap, change.rows[:, inserted], name, fold)]
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.argsort(inserted, kind="stable"))))
