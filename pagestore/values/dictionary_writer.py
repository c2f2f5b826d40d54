"""A transaction's dictionary: new texts get an id, and before the commit a label.

Labels for new texts: numbers between those of their neighbours; where none is free, nearby texts
are relabelled.

    gap         100 .......... 200             two new texts between two others
    labels      100   133  166 200             their labels part the gap
    full gap    100 101                        nothing is between: the labels of the least range around it that has
                                               room are spread out, and some texts get other labels

The range is one of 2^b labels, aligned, that has at most (2 / CROWD)^b texts; so an insertion moves
O(log texts) texts, amortised, in any order of insertion (Bender, Cole, Demaine, Farach-Colton, Zito
2002, *Two simplified algorithms for maintaining order in a list*). Before the first text and after
the last one, new texts are `STRIDE` apart, so that texts added in ascending order leave the room
after them whole.

A bounded cache of the texts that a transaction met, with their ids: many rows repeat few texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pagestore.pages.layout import WORD_MAX
from pagestore.runtime.kernel import JIT, TypedKernel
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.runtime.lazy import zstandard
from pagestore.runtime.types import Words
from pagestore.storage.mapping import Run
from pagestore.storage.pager import STORE_LINEAGE, Pager, step
from pagestore.storage.records import TEXT, RecordWriter, to_word_list
from pagestore.trees.edit import apply, compose_edits
from pagestore.trees.kernels.node_buffer import ERASE, INSERT, SET
from pagestore.trees.read import get, read_batches
from pagestore.trees.tree import Spec, Tree
from pagestore.values.codec import numbers_of
from pagestore.values.dictionary import (
    LOADED_AT_ONCE,
    LONG_MARK,
    PLACES,
    TEXTS,
    Dictionary,
    all_as_bytes,
    keys_of,
    taken,
)
from pagestore.values.kernels import text_lookup
from pagestore.values.kernels.text_hash import FIRST
from pagestore.values.kernels.text_lookup import ID, LENGTH, TEXT_COUNT
from pagestore.values.kernels.text_symbols import PACKED, TABLE_WORDS
from pagestore.values.symbols import (
    NO_SYMBOLS,
    SAVED,
    SYMBOLS,
    TABLE_ROOM,
    TABLES_MAX,
    SymbolTable,
    newest_of,
    sample_of,
    tables_in,
)
from pagestore.values.text_order import (
    LABEL_END,
    LABELS,
    LONG,
    ORDER,
    PackedTexts,
    StoredOrder,
    TextOrder,
    hashes_of,
    ranked,
)

ORDERED_BYTES = 1 << 27  # of new texts that are sorted at once
FRAME_BYTES = 1 << 20  # raw bytes of long texts that share a run
CACHE_MAX = 1 << 17
MANY = 1 << 12  # texts; in fewer, Arrow finds the distinct ones
PACKED_FROM = 1 << 15  # bytes of texts that are added at once; fewer are not worth a table
PACKED_AT_ONCE = 1 << 16  # texts, of those that are packed later
REMOVED_AT_ONCE = 1 << 16  # texts


class DictionaryWriter(Dictionary):
    """A transaction's dictionary: `intern` adds new texts. `cache` keeps ids of committed texts."""

    def __init__(self, pager: Pager, trees: dict[int, Tree], next_id: int, cache: dict[bytes, int]):
        super().__init__(lambda: pager.pages, trees, pager.mapping)
        self.pager = pager
        self.next_id = next_id
        self.added: dict[bytes, int] = {}
        self.added_bytes = 0  # of new texts, also of those that were forgotten since
        self._cache = cache
        # tables of its own are not those of the file until it is committed
        self._symbols = self._tree(SYMBOLS), super()._tables()
        self._table: TextTable | None = None  # None also after a call that failed halfway
        self._first, self._labelled = next_id, self._tree(LABELS).count
        # else made before labels were kept
        self._whole = self._labelled == self._tree(PLACES).count

    def intern(self, texts: pa.Array) -> np.ndarray:
        """Return ids int64[n] of texts, adding new ones. O(bytes + distinct log dictionary)."""
        if JIT and len(texts) >= MANY:
            table, self._table = self._table or TextTable(), None
            ids = table.ids_of(
                PackedTexts.of(texts), lambda places: self._ids_of(taken(texts, places))
            )
            if ids is not None:  # else it stopped at a long text
                self._table = table
                return ids
        distinct = texts.dictionary_encode()
        known = self._ids_of(distinct.dictionary)
        words: np.ndarray = known[numbers_of(distinct.indices, np.int32)]
        return words

    def _ids_of(self, texts: pa.Array) -> np.ndarray:
        """Return ids int64[n] of distinct texts, adding new ones."""
        if len(texts) >= MANY:  # more than any cache is worth
            return self._resolve(PackedTexts.of(texts))
        keys = all_as_bytes(texts)
        known = zip(map(self.added.get, keys), map(self._cache.get, keys), strict=True)
        ids = np.array([added or cached or 0 for added, cached in known], np.int64)
        if len(places := np.flatnonzero(ids == 0)):
            unknown = [keys[i] for i in places.tolist()]
            ids[places] = self._resolve(PackedTexts.of(unknown))
            self.added.update(zip(unknown, ids[places].tolist(), strict=True))
        return ids

    @property
    def order(self) -> TextOrder:
        """The order of the texts, including new ones."""
        self.settle()
        return super().order

    def settle(self) -> None:
        """Label the texts that have no label yet. O(those log texts), plus the moves above."""
        if self._tree(LABELS).count < self._tree(PLACES).count:
            self._label(self._unlabelled())

    def committed(self) -> None:
        """Cache the ids of the transaction's texts, now that it is durable."""
        if len(self._cache) + len(self.added) > CACHE_MAX:
            self._cache.clear()
        self._cache.update(self.added)

    def go_back(self, next_id: int, added: dict[bytes, int]) -> None:
        """Restore an earlier `next_id` and `added`, forgetting the ids given since."""
        self.next_id, self.added, self._table = next_id, added, None

    @step
    def move_long(self) -> None:
        """Rewrite the runs of long texts into the lowest free pages. O(long texts)."""
        moved: dict[int, Run] = {}
        edits = []
        for id_, page, words in self.long_texts():
            if page not in moved:
                run = Run(page, words)
                moved[page] = self.pager.write_run(to_word_list(self._mapping.read_run(run)), TEXT)
                with self.pager.retiring_into(STORE_LINEAGE):
                    self.pager.retire_run(run)
            edits += [(id_, part, word) for part, word in enumerate(moved[page], start=1)]
        if edits:
            self._apply(TEXTS, np.array(edits, np.int64).T, SET)

    def skip(self, count: int) -> None:
        """Skip the next `count` ids, as though their texts had been removed."""
        self.settle()
        self.next_id += count
        self._first += count

    @step
    def remove(self, ids: np.ndarray) -> None:
        """Remove the texts of ids int64[n] from the dictionary; these ids are never given again.

        Rewrites long texts that shared a run with them. O((n + texts in those runs) log texts).
        """
        self._table = None
        runs = self._runs_without(ids)
        for at in range(0, len(ids), REMOVED_AT_ONCE):
            some = np.sort(ids[at : at + REMOVED_AT_ONCE])
            self._remove_places(some)
            if self._tree(LABELS).count:
                labels = get(self._pages(), self._tree(LABELS), some[None])[1][0]
                self._apply(ORDER, np.stack([labels, some]), ERASE)
                self._apply(LABELS, np.stack([some, labels]), ERASE)
                self._labelled -= len(some)
            self._erase_parts(some)
        for run, kept in runs.items():
            self._add_long(self.loaded(kept), kept)
            with self.pager.retiring_into(STORE_LINEAGE):
                self.pager.retire_run(run)

    def _erase_parts(self, ids: np.ndarray) -> None:
        """Erase all records of texts in TEXTS."""
        keys, part = list[np.ndarray](), 0
        while len(ids):
            some = np.stack([ids, np.full(len(ids), part)])
            there = get(self._pages(), self._tree(TEXTS), some)[0]
            keys.append(some[:, there])
            ids, part = ids[there], part + 1
        rows = np.concatenate([np.zeros((2, 0), np.int64), *keys], axis=1)
        self._apply(TEXTS, np.vstack([rows, np.zeros_like(rows[:1])]), ERASE)

    def _runs_without(self, ids: np.ndarray) -> dict[Run, np.ndarray]:
        """Return the runs that hold some of these texts, each with ids of its other texts."""
        runs: dict[Run, list[int]] = {}
        for id_, page, words in self.long_texts():
            runs.setdefault(Run(page, words), []).append(id_)
        kept = {run: np.setdiff1d(members, ids) for run, members in runs.items()}
        return {run: rest for run, rest in kept.items() if len(rest) < len(runs[run])}

    def _remove_places(self, ids: np.ndarray) -> None:
        """Free the places of texts, and move up the texts that were probed past them."""
        places = self._probe(PackedTexts.of(self.loaded(ids)))[1]
        behind, at = [np.zeros(0, np.int64)], places
        while len(at):
            at = at[at < WORD_MAX] + 1
            found, values = get(self._pages(), self._tree(PLACES), at[None])
            at = at[found]
            behind.append(values[0][found])
        moving = np.setdiff1d(np.concatenate(behind), ids)
        moved = PackedTexts.of(self.loaded(moving))
        places = np.concatenate([places, self._probe(moved)[1]])
        self._apply(PLACES, np.stack([places, np.zeros_like(places)]), ERASE)
        if len(moved):
            self._add_places(np.arange(len(moved)), moving, hashes_of(moved))

    @step
    def _resolve(self, texts: PackedTexts) -> np.ndarray:
        """Return ids int64[n] of distinct texts that no cache has, adding new ones."""
        ids, places = self._probe(texts)
        new = np.flatnonzero(ids == 0)
        if len(new):
            added = texts if len(new) == len(texts) else texts.at(new)
            ids[new] = np.arange(self.next_id, self.next_id + len(new))
            self.next_id += len(new)
            self.added_bytes += added.size
            self._add_places(new, ids, places)
            self._add_texts(added, ids[new])
        return ids

    def _unlabelled(self) -> np.ndarray:
        """Return the ids of the texts that have no label yet."""
        labels = self._tree(LABELS)
        if self._whole:
            return np.arange(self._first + labels.count - self._labelled, self.next_id)
        have = [*read_batches(self._pages(), labels, columns=(0,))] if labels.count else []
        return np.setdiff1d(
            self.ids(), np.concatenate([np.zeros(0, np.int64), *(batch[0] for batch in have)])
        )

    @step
    def _label(self, ids: np.ndarray) -> None:
        """Give labels to texts, in batches that fit in memory."""
        start, parts, size = 0, list[pa.Array](), 0
        for at in range(0, len(ids), LOADED_AT_ONCE):
            some = self.texts(ids[at : at + LOADED_AT_ONCE], binary=True)
            parts.append(some.cast(pa.large_binary()))
            size += some.nbytes
            end = at + len(some)
            if size >= ORDERED_BYTES or end == len(ids):
                texts = PackedTexts.of(pa.concat_arrays(parts))
                order = ranked(texts)
                self._place(ids[start:end][order], texts.at(order))
                start, parts, size = end, [], 0

    def _place(self, ids: np.ndarray, texts: PackedTexts) -> None:
        """Give labels to ascending texts of these ids."""
        order = self._stored_order()
        gaps = gaps_at(order, order.ranks(texts))
        labels, full = fitting_labels(gaps)
        crowded = np.repeat(full, gaps.counts)
        self._relabel(np.zeros((2, 0), np.int64), np.stack([labels[~crowded], ids[~crowded]]))
        starts = np.cumsum(gaps.counts) - gaps.counts
        for gap in np.flatnonzero(full).tolist():
            order, left = self._stored_order(), gaps.left_ids[gap : gap + 1]
            label = int(order.keys(left)[0]) if left[0] else 0
            make_room(
                order, label, ids[starts[gap] : starts[gap] + gaps.counts[gap]], self._relabel
            )

    def _stored_order(self) -> StoredOrder:
        return StoredOrder(self._pages, self._tree(ORDER), self._tree(LABELS), self)

    def _relabel(self, before: np.ndarray, after: np.ndarray) -> None:
        """Replace labels and ids int64[2, n] by others."""
        if before.shape[1]:
            self._apply(ORDER, before, ERASE)
        self._apply(ORDER, after)
        self._apply(LABELS, after[::-1], SET)

    def _add_places(self, new: np.ndarray, ids: np.ndarray, places: np.ndarray) -> None:
        """Add new ids at their places; of two that want one free place, the later probes on."""
        added = places[new]
        while True:
            order = np.argsort(added, kind="stable")
            clash = np.zeros(len(new), bool)
            clash[order[1:]] = added[order[1:]] == added[order[:-1]]
            taken = get(self.pager.pages, self._tree(PLACES), added[None])[0]
            if not (clash | taken).any():
                break
            added[clash | taken] += 1
        self._apply(PLACES, np.stack([added, ids[new]]))

    def _add_texts(self, texts: PackedTexts, ids: np.ndarray) -> None:
        long = texts.lengths >= LONG
        if long.any():
            self._add_long([texts.text(i) for i in np.flatnonzero(long).tolist()], ids[long])
            texts, ids = texts.at(np.flatnonzero(~long)), ids[~long]
        counts, words = self._table_for(texts).pack(texts)
        self._apply(TEXTS, np.stack([*keys_of(ids, counts), words]))

    def _table_for(self, texts: PackedTexts) -> SymbolTable:
        """Return the table of symbols by which to pack texts; adds one if that is worth its room."""
        if texts.size < PACKED_FROM:
            return NO_SYMBOLS
        sample, tables = sample_of(texts), self._tables()
        known = newest_of(tables)
        rooms = [table.room(sample) for table in known]
        last, least = len(tables) // TABLE_WORDS, min(rooms, default=sample.size)
        if last < TABLES_MAX:
            fresh = SymbolTable.for_texts(sample, last + 1)
            saved = (least - fresh.room(sample)) / max(1, sample.size)
            if saved * texts.size > TABLE_ROOM and saved > SAVED:
                self._apply(SYMBOLS, fresh.records())
                return fresh
        return known[rooms.index(least)] if known else NO_SYMBOLS

    @step
    def pack(self) -> None:
        """Pack the texts that were added by few at a time, if there are many of them. O(texts)."""
        ids = self._plain()
        for at in range(0, len(ids), PACKED_AT_ONCE):
            some = ids[at : at + PACKED_AT_ONCE]
            texts = PackedTexts.of(self.texts(some, binary=True))
            self._erase_parts(some)
            self._add_texts(texts, some)

    def _plain(self) -> np.ndarray:
        """Return the ids of texts of several parts that are not packed, nor long, ascending."""
        tree, plain = self._tree(TEXTS), [np.zeros(0, np.int64)]
        for ids, parts, words in read_batches(self._pages(), tree) if tree.count else ():
            heads = parts == 0
            lengths = words[heads] & (LENGTH | PACKED)
            plain.append(ids[heads][(lengths > FIRST) & (lengths < LONG)])
        return np.concatenate(plain)

    def _read_tables(self, tree: Tree) -> np.ndarray:
        return tables_in(self._pages(), tree)

    def _add_long(self, texts: list[bytes], ids: np.ndarray) -> None:
        group: list[tuple[bytes, int]] = []
        for text, id_ in zip(texts, ids.tolist(), strict=True):
            group.append((text, id_))
            if sum(len(t) for t, _ in group) >= FRAME_BYTES:
                self._add_frame(group)
                group = []
        if group:
            self._add_frame(group)

    def _add_frame(self, group: list[tuple[bytes, int]]) -> None:
        """Write long texts as one zstandard frame and record where each is."""
        raw = b"".join(text for text, _ in group)
        out = RecordWriter(TEXT)
        out.put_bytes(zstandard.compress(raw))
        out.put(len(raw))
        run = self.pager.write_run(out.words, TEXT)
        offset, rows = 0, []
        for text, id_ in group:
            for part, word in enumerate((LONG_MARK, *run, offset, len(text))):
                rows.append((id_, part, word))
            offset += len(text)
        self._apply(TEXTS, np.array(rows, np.int64).T, SET)

    def _apply(self, spec: Spec, rows: np.ndarray, action: int = INSERT) -> None:
        actions, edits = compose_edits(np.full(rows.shape[1], action), rows, spec)
        with self.pager.retiring_into(STORE_LINEAGE):
            self._trees[spec.tree_id] = apply(self.pager, self._tree(spec), actions, edits)[0]


STRIDE = 1 << 16  # labels between texts that are added before the first one or after the last one
CROWD = 1.4
LABEL_BITS = 62


class Gaps(NamedTuple):
    """Where new texts go: each gap's neighbours (their labels, and the left one's id), and the
    number of new texts.
    """

    left: np.ndarray
    right: np.ndarray
    left_ids: np.ndarray
    counts: np.ndarray


def gaps_at(order: StoredOrder, ranks: np.ndarray) -> Gaps:
    """Return the gaps for texts of these ranks, ascending, in an order."""
    ranks, counts = np.unique(ranks, return_counts=True)
    left, left_ids = np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64)
    right = np.full(len(ranks), LABEL_END)
    behind, before = ranks > 0, ranks < order.count
    if behind.any():
        left[behind], left_ids[behind] = order.entries(ranks[behind] - 1)
    if before.any():
        right[before] = order.entries(ranks[before])[0]
    return Gaps(left, right, left_ids, counts)


def fitting_labels(gaps: Gaps) -> tuple[np.ndarray, np.ndarray]:
    """Return labels int64[n] of all texts that go to the gaps, and which gaps are full (with
    meaningless labels).
    """
    left, right, _, counts = gaps
    first, last = left == 0, right == LABEL_END
    step = (right - left) // (counts + 1)
    step = np.where(first | last, np.minimum(step, STRIDE), step)
    starts = np.where(first, right - step * (counts + 1), left)
    starts = np.where(first & last, LABEL_END // 2 - step * (counts // 2), starts)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + np.repeat(step, counts) * (within + 1), step == 0


def make_room(
    order: StoredOrder,
    left: int,
    ids: np.ndarray,
    replace: Callable[[np.ndarray, np.ndarray], None],
) -> None:
    """Insert new ids int64[n] after the label `left` in this order, relabelling the least range
    that has room for them.

    Calls `replace` with the labels and ids int64[2, n] that were in the range, and those that
    replace them.
    """
    for bits in range(1, LABEL_BITS + 1):
        start = left >> bits << bits
        low, high, behind = order.labels_below(
            np.array([start, start + (1 << bits), left + 1])
        ).tolist()
        count = high - low + len(ids)
        if bits == LABEL_BITS or (count <= (2 / CROWD) ** bits and count < 1 << (bits - 1)):
            break
    before = order.between(low, high)
    at = behind - low
    after = np.concatenate([before[1, :at], ids, before[1, at:]])
    labels = start + (np.arange(count) + 1) * ((1 << bits) // (count + 1))
    replace(before, np.stack([labels, after]))


FEWEST = 1 << 13  # slots that a new table has
SLOTS_MAX, WORDS_MAX = 1 << 20, 1 << 22  # 42 MB in all

ENTER = TypedKernel(
    text_lookup.enter_texts, Words, Words, Words, Words, int, int, int, Words, Words
)
SPREAD = TypedKernel(text_lookup.spread_slots)


class TextTable:
    """A hash table from texts to their ids. After a call that raises it is of no use."""

    def __init__(self) -> None:
        self._slots, self._pool = np.zeros(FEWEST, np.int64), np.empty(4 * FEWEST, np.int64)
        self._used = np.zeros(2, np.int64)

    def ids_of(
        self, texts: PackedTexts, resolve: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray | None:
        """Return the ids int64[n] of n texts; None if one of them is long. O(bytes).

        `resolve` returns the ids of the texts at places int64[m], which are distinct and new to the
        table; it is called at the end, and whenever the table is full, which empties it.
        """
        ids, fresh = np.empty((2, len(texts)), np.int64)
        at, known, first = 0, 0, self._count
        while at < len(texts):
            new = fresh[self._count - first :]
            source = texts.offsets, texts.data.address, texts.data.size
            at = ENTER.call(self._slots, self._pool, self._used, *source, at, ids, new)
            if at < 0:
                return None
            if at == len(texts) or not self._grow():
                new = fresh[: self._count - first]
                self._pool[~ids[new] + ID] = resolve(new)
                waiting = known + np.flatnonzero(ids[known:at] < 0)
                ids[waiting] = self._pool[~ids[waiting] + ID]
                if at < len(texts):
                    self._forget()
                known, first = at, self._count
        return ids

    @property
    def _count(self) -> int:
        return int(self._used[TEXT_COUNT])

    def _grow(self) -> bool:
        """Make room for more texts, or for longer ones; False at the memory limit."""
        if 2 * self._count < len(self._slots):
            if len(self._pool) >= WORDS_MAX:
                return False
            self._pool = np.concatenate([self._pool, np.empty_like(self._pool)])
            return True
        if len(self._slots) >= SLOTS_MAX:
            return False
        wider = np.zeros(2 * len(self._slots), np.int64)
        SPREAD.call(self._slots, wider)
        self._slots = wider
        return True

    def _forget(self) -> None:
        self._slots[:] = 0
        self._used[:] = 0
