"""Apply edits to a tree: sorted, one a key, in one descent; by several threads where they are many.

A large batch is cut where entries of the root begin. Each thread takes its part of the edits to the
leaves and back up, into an arena of its own; then the root is written over all parts.

    root          | a  b  c | d  e  f |           edits below a to c in one thread, below d to f in another
                  |  runs   |  runs   |           the resulting entries meet in the root's buffer

Edit queues: a few edits of several groups of trees, flushed within one call of a host's kernel.

    queues.clear()
    queues.wait(0, actions, rows)
    txn.flush(queues, HOST.call)        a kernel of the host flushes one queue after the other
    queues.changes(0)                   what changed in the first tree

Python takes longer between two calls of kernels than the calls take. See kernels/edit_groups.py.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from operator import add, attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from pagestore.errors import CorruptionError, EditError
from pagestore.pages.layout import Pages
from pagestore.runtime.kernel import TypedKernel
from pagestore.runtime.parallel import together
from pagestore.runtime.types import Flags, MappedWords, Table, Tables, Words
from pagestore.sorting.codes import ascends
from pagestore.sorting.tuples import FEW, MERGED, sort_order
from pagestore.storage.kernels.record import FINISH_WORDS, Finish, RecordRun, Span
from pagestore.storage.kernels.write import FD
from pagestore.storage.mapping import FULL
from pagestore.storage.pager import Pager as StorePager
from pagestore.trees.build import append
from pagestore.trees.kernels import build as k_build
from pagestore.trees.kernels import edit as k_apply
from pagestore.trees.kernels import edit_groups as kernel
from pagestore.trees.kernels.arguments import Edits as Batch
from pagestore.trees.kernels.arguments import (
    FlushRoom,
    IndexedTrees,
    Output,
    PageAccounts,
    Part,
    Queues,
    Reordering,
    Room,
)
from pagestore.trees.kernels.cursor import HEIGHT, ROOT
from pagestore.trees.kernels.edit_groups import apply_indexed_at, compose_few, compose_ordered
from pagestore.trees.kernels.finish import flush_and_finish
from pagestore.trees.kernels.node_buffer import (
    ADD,
    ALL,
    BELOW,
    CORRUPT,
    DELTA,
    ERASE,
    GAIN,
    INSERT,
    NEGATIVE,
    NEW_HEIGHT,
    NEW_ROOT,
    OK,
    ROOT_ON,
    SHORT,
    WHOLE,
    WORDS,
    WRITTEN,
)
from pagestore.trees.read import first_from, get
from pagestore.trees.scratch import TREES_MAX, Scratch, scratch
from pagestore.trees.tree import Pager, Spec, Tree, checked, fold_array

EDITS_MAX = 1 << 15  # edits of one descent; longer batches go in several
ARENA_PAGES_MAX = 512
PART_EDITS = 1 << 11  # edits that are worth a thread of their own; half a millisecond of work
APPENDED = 1 << 13  # edits; fewer are appended faster page by page than by a bulk load
PAGE_EDITS = 16  # edits that take as long as reading, making and writing a page
WHOLE_RUN = Part(WHOLE, 0, ALL)
ALONE = np.zeros((1, 1), np.int64)  # for a tree without permuted indices

Edits = tuple[np.ndarray, np.ndarray]  # actions int64[n], rows int64[C, n]

APPLY = TypedKernel(
    kernel.apply_and_write, Words, int, Pages, IndexedTrees, Batch, Part, Output, Tables, Table,
    Room, Reordering,
)  # fmt: skip

ADOPT = TypedKernel(k_apply.adopt, MappedWords, int, int, int, Tables, Table, Tables, Table)
ASCENDS = TypedKernel(ascends)
COMPOSE = TypedKernel(compose_ordered, int, int, Words, Table, Words, Flags, Words, Table)
COMPOSE_FEW = TypedKernel(compose_few, int, int, Words, Table, Words, Flags, Words, Table)
CUT = TypedKernel(k_apply.cut_edits)


def apply(
    pager: Pager, tree: Tree, actions: np.ndarray, edits: np.ndarray, visible: int | None = None
) -> tuple[Tree, np.ndarray, np.ndarray]:
    """Apply edits[C, n], sorted by key with at most one a key (see `compose_edits`), and return
    what they changed.

    Returns the new tree and the effective delta as (actions int64[m], rows int64[C, m]), in key
    order: a changed value is ERASE of the old row, then INSERT of the new one.  A change of values
    after the first `visible` columns (a support count, say) is made but not reported.  ADD adds to
    the value words; the last one is the support, and a record whose support reaches 0 is deleted.

    Raises EditError for a support below 0 or a sum beyond 64 bits, CorruptionError for a bad page;
    the tree is then as before and fresh pages are given back.  O(edits * height) page touches at
    most; pages are read and written once per batch.
    """
    news, ((actions, rows),) = apply_indexed(pager, (tree,), ALONE, actions, edits, visible)
    return news[0], actions, rows


def apply_indexed(
    pager: Pager,
    trees: Sequence[Tree],
    places: np.ndarray,
    actions: np.ndarray,
    edits: np.ndarray,
    visible: int | None = None,
) -> tuple[list[Tree], list[Edits]]:
    """Apply edits to the first tree as `apply`, and its delta to the others, which hold its columns
    in other orders.

    Row t of places[T, C] lists the columns of tree t, in its order; row 0 is ignored.  Returns the
    new trees, and the delta of each.  A few edits take one call of a kernel for all trees.
    """
    actions, edits = _own(actions), _own(edits)
    if not len(actions):
        return list(trees), [(actions, edits)] * len(trees)
    visible = trees[0].spec.columns if visible is None else visible
    if len(actions) <= FEW and len(trees) <= TREES_MAX:
        few = _apply_few(pager, trees, places, actions, edits, visible)
        if few:
            return few
    new, delta = _apply_many(pager, trees[0], actions, edits, visible)
    news, deltas = [new], [delta]
    for tree, columns in zip(trees[1:], places[1:], strict=True):
        edited = compose_edits(delta[0], delta[1][columns[: tree.spec.columns]], tree.spec)
        new, change = _apply_many(pager, tree, *edited, tree.spec.columns)
        news.append(new)
        deltas.append(change)
    return news, deltas


def _apply_few(
    pager: Pager,
    trees: Sequence[Tree],
    places: np.ndarray,
    actions: np.ndarray,
    edits: np.ndarray,
    visible: int,
) -> tuple[list[Tree], list[Edits]] | None:
    """Apply edits like `apply_indexed` by one kernel call; return None, changing nothing, if its
    room is too small.
    """
    pages, room, (columns, n) = pager.pages, scratch(), edits.shape
    _, heights, counts, specs = zip(*trees, strict=True)
    reserve = k_apply.reserve_of(max(heights), n, columns, pages.page_words)
    needed = len(trees) * (2 * n + reserve)
    room.fit(pages.page_words, needed, columns, len(specs[0].scans), 2 * n)
    ids, deltas = pager.reserve(needed), np.empty((len(trees), 1 + columns, 2 * n), np.int64)
    output = Output(room.arena, ids, room.dead, pager.version, reserve)
    done = APPLY.call(
        pager.page_writer(int(ids[-1]) + 1), kernel.apply_indexed_at.address(), pages,
        IndexedTrees(_rows_of(trees), places, fold_array(specs[0])), Batch(actions, edits, visible),
        WHOLE_RUN, output, deltas, room.tallies, room.room, room.reordering,
    )  # fmt: skip
    if done < len(trees):
        pager.release(ids)
        status, evidence, *_ = room.tallies[done].tolist()
        if status not in (OK, SHORT):
            raise _failure(status, evidence, specs[done], edits)
        return None
    _, _, used, gone, changed, _, gains, roots, heights, written = zip(
        *room.tallies[:done].tolist(), strict=True
    )
    made, replaced = sum(used), sum(gone)
    pager.wrote(room.arena, ids[:made], written[0])
    pager.release(ids[made:])
    pager.retire(room.dead[:replaced])
    changes = [
        (delta[0, :m], delta[1 : 1 + spec.keys + spec.values, :m])
        for delta, m, spec in zip(deltas, changed, specs, strict=True)
    ]
    return [*map(Tree, roots, heights, map(add, counts, gains), specs)], changes


def _rows_of(trees: Sequence[Tree]) -> np.ndarray:
    """Return trees as rows of TREE_WORDS, see trees/kernels/cursor.py."""
    return np.array([*map(_ROW, trees)], np.int64)


_ROW = attrgetter("pointer", "height", "spec.keys", "spec.values", "spec.tree_id")


def _apply_many(
    pager: Pager, tree: Tree, actions: np.ndarray, edits: np.ndarray, visible: int
) -> tuple[Tree, Edits]:
    """Apply edits like `apply`, in as many descents as needed."""
    built = _load(pager, tree, actions, edits)
    if built:
        return built
    tree, left, delta = _descend(pager, tree, actions, edits, visible)
    if not left:
        return tree, delta
    deltas = [delta]
    while left:
        tree, left, delta = _descend(pager, tree, *one_batch(left), visible)
        deltas.append(delta)
    actions, rows = one_batch(deltas)
    order = sort_order(rows[: tree.spec.keys])  # several parts may have left edits over
    return tree, (actions[order], rows.take(order, axis=1))


def _load(
    pager: Pager, tree: Tree, actions: np.ndarray, edits: np.ndarray
) -> tuple[Tree, Edits] | None:
    """Apply edits that only append records by a bulk load; return None for others, few, and a
    support to be refused.
    """
    kept = actions != ERASE
    if (
        np.count_nonzero(kept) <= (APPENDED if tree.root else FEW)
        or edits[-1, actions == ADD].min(initial=1) < 1
    ):
        return None
    if tree.root and (tree.spec.columns > k_build.WIDE or not is_after(pager.pages, tree, edits)):
        return None
    rows = edits if kept.all() else edits.compress(kept, axis=1)
    return append(pager, tree, [rows]), (np.full(rows.shape[1], INSERT), rows)


def is_after(pages: Pages, tree: Tree, rows: np.ndarray) -> bool:
    """Return whether rows[C, n] in key order, at least one, all come after the last record of a
    tree.  O(height).
    """
    return not tree.root or not first_from(pages, tree, rows[: tree.spec.keys, :1])[0][0]


class Share(NamedTuple):
    """A part of the edits, the pages that its run of the kernel may write, and its scratch."""

    actions: np.ndarray
    edits: np.ndarray
    ids: np.ndarray
    reserve: int
    room: Scratch
    deltas: np.ndarray


def _descend(
    pager: Pager, tree: Tree, actions: np.ndarray, edits: np.ndarray, visible: int
) -> tuple[Tree, list[Edits], Edits]:
    """Apply edits in one descent; return the new tree, edits left over, and the effective delta."""
    slots, starts = _cut(pager, tree, edits)
    parts = _parts(pager, tree, actions, edits, starts)
    try:
        if len(parts) == 1:
            page_writer = pager.page_writer(1 + int(parts[0].ids[-1]))
            _run(pager, page_writer, tree, visible, parts[0], Part(WHOLE, 0, ALL))
        else:
            _run_together(pager, tree, visible, parts, slots)
    except (CorruptionError, EditError):
        for part in parts:
            pager.release(part.ids)
        raise
    left, deltas, count = [], [], tree.count
    for part in parts:
        _, _, used, gone, m, took, gain, *_ = part.room.tallies[0].tolist()
        pager.release(part.ids[used:])
        pager.retire(part.room.dead[:gone])
        deltas.append((part.deltas[0, 0, :m], part.deltas[0, 1:, :m]))
        count += gain
        if took < len(part.actions):
            left.append((part.actions[took:], part.edits[:, took:]))
    if starts[-1] < len(actions):
        left.append((actions[starts[-1] :], edits[:, starts[-1] :]))
    root, height = parts[0].room.tallies[0, [NEW_ROOT, NEW_HEIGHT]].tolist()
    return Tree(root, height, count, tree.spec), left, one_batch(deltas)


def _cut(pager: Pager, tree: Tree, edits: np.ndarray) -> tuple[list[int], list[int]]:
    """Return the root entries and edits where a batch's parts begin, each list with its end."""
    n = edits.shape[1]
    # if each holds as many records as it can
    pages = min(n, tree.count // (2 * pager.pages.page_words))
    threads = min(pager.threads, (n + PAGE_EDITS * pages) // PART_EDITS)
    if threads < 2 or tree.height < 2:
        return [0, ALL], [0, min(n, EDITS_MAX)]
    cuts = np.zeros((2, threads + 1), np.int64)
    some = np.ascontiguousarray(edits[:, : threads * EDITS_MAX])
    parts = checked(CUT.call(tree.on(pager.pages), some, PAGE_EDITS, cuts), tree.spec)
    slots, starts = cuts[:, : parts + 1].tolist()
    return slots, starts


def _parts(
    pager: Pager, tree: Tree, actions: np.ndarray, edits: np.ndarray, starts: list[int]
) -> list[Share]:
    """Return the parts of a batch, each from one of `starts` to the next, with the pages and
    scratch for it.
    """
    columns, page_words = tree.spec.columns, pager.pages.page_words
    sizes = [b - a for a, b in pairwise(starts)]
    reserves = [k_apply.reserve_of(tree.height, n, columns, page_words) for n in sizes]
    rows = [
        min(ARENA_PAGES_MAX, 2 * n) + reserve for n, reserve in zip(sizes, reserves, strict=True)
    ]
    ids, parts = pager.reserve(sum(rows)), []
    for number, (a, n) in enumerate(zip(starts, sizes, strict=False)):
        room = scratch(number)
        room.fit(page_words, rows[number], columns, len(tree.spec.scans), n)
        some = actions[a : a + n], np.ascontiguousarray(edits[:, a : a + n])
        deltas = np.empty((1, 1 + columns, 2 * n), np.int64)
        parts.append(Share(*some, ids[: rows[number]], reserves[number], room, deltas))
        ids = ids[rows[number] :]
    return parts


def _run(
    pager: Pager, page_writer: np.ndarray, tree: Tree, visible: int, share: Share, stages: Part
) -> None:
    """Run the kernel and write the pages that it makes; the result is the first tally of the part's
    scratch.

    Raises CorruptionError or EditError.
    """
    actions, edits, ids, reserve, room, deltas = share
    tally = room.tallies[0]
    begin = 0 if stages.stages & BELOW else int(tally[WRITTEN])
    output = Output(room.arena, ids, room.dead, pager.version, reserve)
    APPLY.call(
        page_writer, kernel.apply_indexed_at.address(), pager.pages,
        IndexedTrees(_rows_of((tree,)), ALONE, fold_array(tree.spec)),
        Batch(actions, edits, visible), stages, output, deltas, room.tallies, room.room,
        room.reordering,
    )  # fmt: skip
    status, evidence, used, *_, written = tally.tolist()
    assert status != SHORT, "a run reserves what it needs, see _parts"
    if status != OK:
        raise _failure(status, evidence, tree.spec, edits)
    pager.wrote(room.arena[begin * pager.pages.page_words :], ids[begin:used], written - begin)
    tally[WRITTEN] = used


def _run_together(
    pager: Pager, tree: Tree, visible: int, parts: Sequence[Share], slots: list[int]
) -> None:
    """Run the parts in parallel, then the first one again to write the root over all of them."""
    spec, (first, *others) = tree.spec, parts
    # before any thread writes
    page_writer = pager.make_room(1 + max(int(part.ids[-1]) for part in parts))
    run = partial(_run, pager, page_writer, tree, visible)
    together(
        [
            partial(run, part, Part(BELOW, *ends))
            for part, ends in zip(parts, pairwise(slots), strict=True)
        ]
    )
    for part in others:
        ADOPT.call(
            pager.pages.words,
            spec.keys,
            len(spec.scans),
            tree.height - 1,
            first.room.node,
            first.room.walk,
            part.room.node,
            part.room.walk,
        )
    run(first, Part(ROOT_ON, 0, ALL))


def _failure(status: int, evidence: int, spec: Spec, edits: np.ndarray) -> Exception:
    if status == CORRUPT:
        return CorruptionError(page=evidence, tree=spec.tree_id)
    key = tuple(edits[: spec.keys, evidence].tolist())
    if status == NEGATIVE:
        return EditError(
            f"key {key}: the support would fall below 0; more is taken away than was added"
        )
    return EditError(
        f"key {key}: the sum does not fit a 64-bit word; use a wider type or smaller values"
    )


def _own(words: np.ndarray) -> np.ndarray:
    """Return words as kernels take them: contiguous int64 that may be written to, a copy only if
    they are not yet.
    """
    words = np.ascontiguousarray(words, np.int64)
    return words if words.flags.writeable else words.copy()


def compose_edits(
    actions: np.ndarray, edits: np.ndarray, spec: Spec
) -> tuple[np.ndarray, np.ndarray]:
    """Sort edits by key and compose those of one key, in the order given, into one.

    ADDs of a key add up; ERASE then INSERT becomes SET.  Raises EditError where one key is both
    added to and set.  O(n log n).

    >>> from pagestore.host import ERASE, INSERT
    >>> compose_edits(np.array([INSERT, INSERT, ERASE]), np.array([[7, 3, 7]]), Spec(1, 1, 0))
    (array([0, 1]), array([[3, 7]]))
    """
    n, keys = len(actions), spec.keys
    if n < 2:
        return actions, edits
    edits = _own(edits)
    if ASCENDS.call(edits[:keys]):
        return actions, edits
    given = keys, spec.columns, _own(actions), edits
    room = np.empty(n, bool), np.empty(n, np.int64), np.empty((spec.columns, n), np.int64)
    if n <= MERGED:
        left = COMPOSE_FEW.call(*given, np.empty(2 * n, np.int64), *room)
    else:
        left = COMPOSE.call(*given, sort_order(edits[:keys]), *room)
    _, actions, edits = room
    if left < -n:
        key = tuple(edits[: spec.keys, -1 - left - n].tolist())
        raise EditError(
            f"key {key}: what one batch adds does not fit a 64-bit word; add it in smaller batches"
        )
    if left < 0:
        key = tuple(edits[: spec.keys, -1 - left].tolist())
        raise EditError(
            f"key {key}: one batch both adds to and sets this record; apply them one after the "
            f"other"
        )
    return actions[:left], edits[:, :left]


def one_batch(parts: Sequence[Edits]) -> Edits:
    """Concatenate the actions and the rows of one or more parts."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([actions for actions, _ in parts]), np.concatenate(
        [rows for _, rows in parts], axis=1
    )


# pages that all queues together may write in a first call: at least, at most
PAGES, PAGES_MAX = 32, 256
PAGES_AGAIN = 1024  # ... in a second call, if they were too few
MOST = 4000  # edits in a queue
INTEGERS = {int}
MANY, SHORTER = 24, 8  # queues of more trees hold one in SHORTER of these


class EditQueue(NamedTuple):
    """The queue of a tree and its permuted indices, which have its columns places[T, C].

    Changes of the tree's first `visible` columns are reported.
    """

    names: tuple[str, ...]
    places: np.ndarray
    visible: int


# What `flush_queue` takes before the number of a queue; the last is the address of `apply_indexed`.
Flushing: TypeAlias = tuple[Pages, PageAccounts, Queues, FlushRoom, int]


NO_WORDS, NO_TABLE = np.zeros(0, np.int64), np.zeros((2, 1), np.int64)
NO_FINISH = Finish(
    np.zeros(FINISH_WORDS, np.int64), NO_WORDS, NO_WORDS, NO_WORDS, NO_WORDS, NO_WORDS, Span(0, 0),
    NO_TABLE, np.zeros(0, np.int32), RecordRun(NO_WORDS, 0, 0, NO_WORDS, NO_WORDS),
)  # fmt: skip
# of the page for a record, and a number of trees
LayOut: TypeAlias = Callable[[int, int], Finish | None]

FLUSH = TypedKernel(flush_and_finish)


class EditQueues:
    """Queues of edits for groups of trees of given shapes, and the results of flushing them."""

    def __init__(
        self, queues: Sequence[EditQueue], specs: Sequence[Spec], most: int = MOST
    ) -> None:
        """Make room for `most` edits in each queue."""
        self.numbers = [spec.tree_id for spec in specs]
        self._specs = specs
        self._ends = ends = [0, *accumulate(len(queue.names) for queue in queues)]
        scans = [fold_array(specs[first]) for first in ends[:-1]]
        scanned = [0, *accumulate(map(len, scans))]
        spans = zip(pairwise(ends), pairwise(scanned), queues, strict=True)
        self._columns = max(spec.columns for spec in specs)
        folds = max(len(spec.scans) for spec in specs)
        width = 1 + self._columns
        places = np.zeros((len(specs), width), np.int64)
        for first, queue in zip(ends[:-1], queues, strict=True):
            rows, columns = queue.places.shape
            places[first : first + rows, :columns] = queue.places
        shapes = np.array(
            [(*trees, *rows, queue.visible) for trees, rows, queue in spans], np.int64
        )
        self._table = np.array(
            [(0, 0, spec.keys, spec.values, spec.tree_id) for spec in specs], np.int64
        )
        self._pages = PAGES if most <= FEW else PAGES_MAX
        most = most if len(specs) <= MANY else most // SHORTER
        self._waiting = np.empty((len(queues), width, most), np.int64)
        self.waits = np.zeros(len(queues), np.int64)
        self._view = memoryview(self._waiting)  # type: ignore[arg-type]  # numpy takes as long for each word of a row
        self._deltas = np.empty((len(specs), width, 2 * most), np.int64)
        self._tallies = np.zeros((len(specs), WORDS), np.int64)
        self._taken = np.zeros(kernel.TAKEN, np.int64)
        self._retired = np.empty((2 * PAGES_AGAIN, 3), np.int64)
        self._queues = Queues(
            shapes,
            self._table,
            places,
            np.concatenate(scans),
            self._waiting,
            self.waits,
            self._deltas,
            self._tallies,
        )
        self._left: Sequence[Tree] = ()  # the trees that are in the table
        self._asked = PAGES_AGAIN, self._columns, folds, 2 * most
        moving, order = np.empty((2, width, 2 * most), np.int64), np.empty(4 * most, np.int64)
        self._reordering = Reordering(moving, order, np.empty(2 * most, bool))
        self._working: FlushRoom | None = None
        # pages of trees that the last call wrote, and of a record
        self._written = self._records = 0

    def keys(self, g: int) -> int:
        """Return how many words of a row of queue g are its key."""
        return self._specs[self._ends[g]].keys

    def clear(self) -> None:
        """Empty all queues."""
        self.waits.fill(0)

    def wait(self, g: int, actions: np.ndarray, rows: np.ndarray) -> None:
        """Put edits into the empty queue g: actions int64[n], rows int64[C, n] in any order.

        At most MOST / SHORTER edits fit in any queue.
        """
        n = self.waits[g] = len(actions)
        self._waiting[g, 0, :n], self._waiting[g, 1 : 1 + len(rows), :n] = actions, rows

    def put(self, edits: Sequence[tuple[int, tuple[int, ...]]], g: int) -> bool:
        """Put edits of integers into queue g, which is empty: actions, each with a row, or a key to
        erase.

        Return False if a row is not of that length, or has anything but integers of 64 bits.
        """
        waiting, (_, keys, values, _) = self._view, self._specs[self._ends[g]]
        columns = keys + values
        for n, (action, row) in enumerate(edits):
            count = keys if action == ERASE else columns
            if {*map(type, row)} != INTEGERS or len(row) != count:
                return False
            waiting[g, 0, n] = action
            try:
                for c, word in enumerate(row, 1):
                    waiting[g, c, n] = word
            except ValueError:  # more than 64 bits
                return False
            for c in range(1 + count, 1 + columns):
                waiting[g, c, n] = 0
        self.waits[g] = len(edits)
        return True

    def begin(
        self, pager: StorePager, trees: Sequence[Tree], again: bool, lay_out: LayOut | None = None
    ) -> Flushing:
        """Return what a kernel needs to flush queues of these trees; call `end` after it.

        With `again` it continues with the edits that an earlier call left, and has more pages. If
        `lay_out` lays out the record of the commit, in a page that it is given, the kernel may
        write that, too.
        """
        most = self._pages
        least = min(most, max(PAGES, 2 * self._written))
        ids = (
            pager.at_hand(PAGES_AGAIN, PAGES_AGAIN) if again else pager.at_hand(least + 1, most + 1)
        )
        try:
            page_writer = pager.make_room(int(ids[-1]) + 1)
        except OSError as error:
            ids = ids[ids < len(pager.pages.seen)]
            if error.errno not in FULL or not len(ids):
                raise
            # on a full disk, with the pages that the file has
            page_writer = pager.make_room(int(ids[-1]) + 1)
        finish = lay_out(int(ids[0]), len(trees)) if lay_out and page_writer[FD] >= 0 else None
        pages, room = pager.mapping.pages, scratch()  # the map, now that it holds the pages
        room.fit(pages.page_words, *self._asked)
        if not again:
            self.trees = trees
            self._tallies.fill(0)
        self._taken[:] = NOTHING
        if trees != self._left:  # mostly they are as the kernel left them
            self._table[:, ROOT : HEIGHT + 1] = [*map(_PLACE, trees)]
        # no trees until the kernel has returned
        self._left, self._ids, self._records = (), ids, 1 if finish else 0
        if finish:
            ids = ids[1:]
        accounts = PageAccounts(
            page_writer,
            pager.version,
            pager.lineage,
            ids,
            self._taken,
            self._retired,
            finish or NO_FINISH,
        )
        if (
            self._working is None
            or self._working.arena is not room.arena
            or self._working.room is not room.room
        ):
            self._working = FlushRoom(room.arena, room.dead, room.room, self._reordering)
        return pages, accounts, self._queues, self._working, apply_indexed_at.address()

    def end(self, pager: StorePager) -> Sequence[Tree]:
        """Report to the pager which pages the kernel took, and return the trees that it left."""
        written, gone, oldest, newest = self._taken.tolist()
        self._written = written
        pager.took(self._ids, self._records + written, self._retired[:gone], oldest, newest)
        tallies = self._tallies.T.tolist()
        (roots, heights) = self._table.T[ROOT : HEIGHT + 1].tolist()
        self._changed, self._gained = tallies[DELTA], tallies[GAIN]
        counts = map(add, map(_COUNT, self.trees), self._gained)
        self._left = [*map(_tree, zip(roots, heights, counts, self._specs, strict=True))]
        return self._left

    def begin_series(
        self, trees: Sequence[Tree], page_words: int
    ) -> tuple[tuple[Queues, np.ndarray, np.ndarray], FlushRoom, int, int]:
        """Return what a kernel needs to flush queues of these trees again and again, without
        `begin` and `end`.

        That is the queues, and where it notes the pages that it took and replaced; then its room,
        `apply_indexed`, and how many pages to have at hand, with one for a record. `begin` ends
        this.
        """
        self.clear()
        self._table[:, ROOT : HEIGHT + 1] = [*map(_PLACE, trees)]
        self._left, self.trees, room = (), trees, Scratch()
        room.fit(page_words, *self._asked)
        working = FlushRoom(room.arena, room.dead, room.room, self._reordering)
        least = 1 + min(self._pages, max(PAGES, 2 * self._written))
        return (
            (self._queues, self._taken, self._retired),
            working,
            apply_indexed_at.address(),
            least,
        )

    def found(self, pages: Pages, g: int, key: Sequence[int]) -> tuple[int, ...] | None:
        """Return the value words of a key in the tree of queue g as the newest flush left it;
        None if it has none.
        """
        t = self._ends[g]
        spec, (root, height) = self._specs[t], self._table[t, ROOT : HEIGHT + 1].tolist()
        there, values = get(pages, Tree(root, height, 0, spec), np.array(key, np.int64)[:, None])
        return tuple(values[:, 0].tolist()) if there[0] else None

    @property
    def gains(self) -> np.ndarray:
        """How many rows each tree gained in the newest flush, int64[T]: a view."""
        return self._tallies[:, GAIN]

    def note_changes(self) -> None:
        """Take over what a kernel has changed in the newest commit of a series, for `changes`
        and `turnover`.
        """
        self._changed, self._gained = (
            self._tallies[:, DELTA].tolist(),
            self._tallies[:, GAIN].tolist(),
        )

    def waiting(self, g: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the edits that are left in queue g: actions int64[n], rows int64[C, n]."""
        n, columns = self.waits[g], self._specs[self._ends[g]].columns
        return self._waiting[g, 0, :n].copy(), self._waiting[g, 1 : 1 + columns, :n].copy()

    def changes(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return tree t's delta, as numbered in all queues: actions int64[n], rows int64[C, n]."""
        block = self._deltas[t, : 1 + self._specs[t].columns, : self._changed[t]].copy()
        return block[0], block[1:]

    def turnover(self, t: int) -> tuple[int, int]:
        """Return how many rows tree t gained, and how many it lost."""
        changes, gain = self._changed[t], self._gained[t]
        return (changes + gain) // 2, (changes - gain) // 2


NOTHING = np.array([0, 0, ALL, 0])  # `taken` before a call (see kernels/arguments.py)
_tree = partial(tuple.__new__, Tree)  # skips the constructor, which Python would run for each
_PLACE, _COUNT = attrgetter("pointer", "height"), attrgetter("count")
