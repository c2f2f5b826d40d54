"""The text of a concat, read on demand: the state of the aggregate is the rope (*Aggregations*).

    names[shop] = n <- agg<<n = concat(item, day, ", ")>> sold(shop, day, item).

    state   (shop, day, item; eta)        ws.rope("names", "harbour")   joins the items of a range of it

A change edits O(log n) pages of the state, for any length of the text.  The view's row has a
checksum of the range, so it changes when the text does.

A rule that reads the texts reads them from a helper view (plan/rewrite/helpers.py), which has the
text of each group as a string; that of a group is assembled when the group changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ivm.lang.ir import Atom, Const
from ivm.memory import slices
from ivm.rules.rule import InstalledRule
from ivm.terms.encoder import Encoder
from ivm.views.layouts import Fold, Layout
from ivm.ways.states import behind_prefixes, ordering_words
from ivm.ways.way import Context
from pagestore.host import (
    ERASE,
    INSERT,
    SET,
    Edits,
    Rope,
    Snapshot,
    Transaction,
    Tree,
    distinct,
    flags_of,
    of_texts,
    printable,
    ranks,
    read_batches,
    with_nulls,
)

if TYPE_CHECKING:
    import pyarrow as pa


class ConcatRope(Rope):
    """The text of one group as a Rope, which reads its version while that is open.

    >>> import ivm
    >>> with ivm.open(":memory:") as workspace:
    ...     workspace.install("item(n, s) -> int(n), string(s).")
    ...     workspace.install('list[] = t <- agg<<t = concat(s, ", ")>> item(_, s).', "rules")
    ...     _ = workspace.exec('+item(1, "tea"). +item(2, "cake").')
    ...     str(workspace.rope("list")), [*workspace.rope("list")]
    ('tea, cake', ['tea', ', cake'])
    """

    def __init__(
        self, source: Snapshot | Transaction, name: str, fold: Fold, key: tuple[int, ...]
    ) -> None:
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
                separator, none = of_texts([self._separator, ""])
                others = pc.binary_join_element_wise(
                    separator, texts.slice(len(plain)).cast(pa.string()), none
                )
                texts = pa.concat_arrays([plain.cast(pa.string()), others])
            begun = begun or len(texts) > 0
            yield texts

    def _ids(self) -> Iterator[np.ndarray]:
        """Yield the texts' ids in order, each once per assignment."""
        for rows in self._by_texts(self._records()):
            if rows.shape[1]:
                yield np.repeat(rows[-2], rows[-1])

    def _records(self) -> Iterator[np.ndarray]:
        """Yield records of the state in its order: few first, for low latency, then many."""
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
            # from here on equal to the last one
            start = int(np.argmax((before == before[:, -1:]).all(axis=0)))
            if start or (held and (held[-1][:first, -1] != before[:, -1]).any()):
                yield self._sorted(np.concatenate([*held, batch[:, :start]], axis=1), first)
                held = []
            held.append(batch[:, start:])
        if held:
            yield self._sorted(np.concatenate(held, axis=1), first)

    def _sorted(self, rows: np.ndarray, first: int) -> np.ndarray:
        """Sort records by their texts, if some agree in the `first` words, before all texts."""
        before = rows[:first]
        if rows.shape[1] < 2 or not (before[:, 1:] == before[:, :-1]).all(axis=0).any():
            return rows
        words = [
            *rows[: self._fold.state.group],
            *ordering_words(self._fold, rows, Encoder(self._source).keys),
        ]
        return rows.take(np.lexsort(words[::-1]), axis=1)

    def sorted_between(self, last: tuple[int, ...]) -> Iterator[np.ndarray]:
        """Yield the records of all groups from this one to that with the key `last`, each group
        in its order.
        """
        tree = self._source.tree(self._fold.state.name)
        return self._by_texts(
            read_batches(self._source.pages, tree, self._key, _behind(last) or ())
        )


FIRST = 64  # texts that are read first
ROWS = 4096  # texts read at a time


def _behind(key: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the least prefix after all keys that begin with `key`; None if there is none."""
    behind, last = behind_prefixes(np.array(key)[:, None])
    return None if last[0] else tuple(behind[:, 0].tolist())


# -- the texts of many groups

FEW = 256  # groups that are read one by one
# records in a range for each wanted group, beyond which groups are read one by one as well
SPARSE = 128


def texts_of(source: Any, words: np.ndarray, name: str, fold: Fold) -> pa.Array:
    """Return the texts of a concat's rows int64[C, n], in any order, as an Arrow array; null for
    a missing group.
    """

    keys = words[: fold.state.group] if fold.grouped else np.zeros((1, words.shape[1]), np.int64)
    numbers = list(map(tuple, keys.T.tolist()))
    if len(numbers) <= FEW or _records_between(source, fold, numbers) > SPARSE * len(numbers):
        by_key = {
            key: rope
            for key in numbers
            if (rope := _text(ConcatRope(source, name, fold, key))) is not None
        }
    else:
        by_key = _texts_between(ConcatRope(source, name, fold, min(numbers)), max(numbers))
    texts = [by_key.get(key) for key in numbers]
    there = np.array([text is not None for text in texts], bool)
    return with_nulls(of_texts([text for text in texts if text is not None]), there)


def _records_between(source: Any, fold: Fold, keys: list[tuple[int, ...]]) -> int:
    """Return how many records the groups from the least to the greatest of some keys have,
    without the last group.
    """
    first, last = ranks(
        source.pages, source.tree(fold.state.name), np.array([min(keys), max(keys)]).T.copy()
    )
    return int(last - first)


def _text(rope: ConcatRope) -> str | None:
    return str(rope) if next(rope._ids(), None) is not None else None


def _texts_between(first: ConcatRope, last: tuple[int, ...]) -> dict[tuple[int, ...], str]:
    """Return the texts of all groups from `first` to the one with key `last`, by their keys."""
    by_key: dict[tuple[int, ...], list[str]] = {}
    group = first._fold.state.group
    for rows in first.sorted_between(last):
        if rows.shape[1]:
            times = rows[-1]
            texts = first._source.decode("string", np.repeat(rows[-2], times)).to_pylist()
            for key, text in zip(
                map(tuple, np.repeat(rows[:group], times, axis=1).T.tolist()), texts, strict=True
            ):
                by_key.setdefault(key, []).append(text)
    return {key: first._separator.join(texts) for key, texts in by_key.items()}


# -- views of texts


def text_rows(
    context: Context, layout: Layout, name: str, fold: Fold, keys: np.ndarray
) -> np.ndarray:
    """Return rows int64[C, n] of a view of a concat's texts: of the groups keys[K, n] there are."""
    texts = texts_of(context.txn, keys, name, fold)
    there = flags_of(texts.is_valid())
    words = context.encode.words("string", texts.drop_null())[None]
    return words if layout.bare else np.concatenate([keys[: layout.keys, there], words])


def text_edits(
    context: Context, layout: Layout, view: Tree, name: str, fold: Fold, rows: np.ndarray
) -> Edits:
    """Return the edits of a view of a concat's texts after rows[C, n] of the concat changed;
    O(the changed texts).
    """
    if layout.bare:
        before = read_batches(context.txn.pages, view)
        gone = np.concatenate([*before, np.empty((1, 0), np.int64)], axis=1)
        new = text_rows(context, layout, name, fold, rows[:, :1])
        return np.repeat([ERASE, INSERT], [gone.shape[1], new.shape[1]]), np.concatenate(
            [gone, new], axis=1
        )
    keys = distinct(rows[: layout.keys])
    new = text_rows(context, layout, name, fold, keys)
    gone = np.concatenate([keys, np.zeros((1, keys.shape[1]), np.int64)])
    actions = np.repeat([ERASE, SET], [gone.shape[1], new.shape[1]])
    return actions, np.concatenate([gone, new], axis=1)


def fill(context: Context, rule: InstalledRule) -> Edits:
    """Return the edits that insert a concat's texts into their view, in key order; O(the texts)."""
    (name,), (concat, fold) = rule.writes, _concat_of(context, rule)
    layout, txn = context.installed.layouts[name], context.txn
    batches = read_batches(txn.pages, txn.tree(concat))
    parts = [
        text_rows(context, layout, concat, fold, chosen[:, some])
        for chosen in (_chosen(context, rule, rows) for rows in batches)
        for some in slices(chosen.shape[1], lambda: context.encode.passed)
    ]
    rows = np.concatenate([*parts, np.empty((layout.visible, 0), np.int64)], axis=1)
    return np.full(rows.shape[1], INSERT), rows


def follow(context: Context, rule: InstalledRule) -> Iterator[tuple[str, Edits]]:
    """Yield the edits of the view of a concat's texts: those of the groups that have changed."""
    (name,), (concat, fold) = rule.writes, _concat_of(context, rule)
    change = context.deltas.get(context.own(concat))
    rows = _chosen(context, rule, change.rows) if change else np.empty((0, 0), np.int64)
    if rows.size:
        context.accounts[name].operations += rows.shape[1]
        layout, view = context.installed.layouts[name], context.txn.tree(name)
        yield name, text_edits(context, layout, view, concat, fold, rows)


def _concat_of(context: Context, rule: InstalledRule) -> tuple[str, Fold]:
    """Return the concat whose texts a rule of texts reads."""
    (concat,) = rule.reads
    fold = context.installed.layouts[concat].fold
    assert fold
    return concat, fold


def _chosen(context: Context, rule: InstalledRule, rows: np.ndarray) -> np.ndarray:
    """Return the rows of a concat that have the constant keys in the body of a rule of texts."""
    ((atom,),) = rule.definition.body
    assert isinstance(atom, Atom)
    for place, key in enumerate(atom.args):
        if isinstance(key, Const):
            rows = rows[:, rows[place] == context.encode(key)]
    return rows
