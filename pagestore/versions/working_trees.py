"""The trees of the version that a transaction makes: edits of words, buffered or applied at once,
and savepoints.

Edits of rows are buffered in order (`edit`) and applied once per tree, at the latest at the commit;
reading a tree applies its buffer first. Edits of words (`apply`) are applied at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from pagestore.errors import EditError, ExistsError, MissingError, SchemaError
from pagestore.pages.layout import KEYS_MAX, Pages
from pagestore.storage.kernels.record import Finish
from pagestore.storage.pager import Mark, Pager, step
from pagestore.trees.build import Segment, bulk, stitch
from pagestore.trees.edit import (
    ALONE,
    FLUSH,
    EditQueue,
    EditQueues,
    apply_indexed,
    compose_edits,
    one_batch,
)
from pagestore.trees.kernels.node_buffer import ADD, ERASE
from pagestore.trees.read import LARGE_WORDS, RecordFinder, batch_rows, pages_of
from pagestore.trees.tree import Spec, Tree
from pagestore.values.dictionary_writer import DictionaryWriter
from pagestore.values.types import Schema
from pagestore.versions.catalog import Catalog, Info, listed
from pagestore.versions.store_state import StoreState, Version

T = TypeVar("T")

BUFFER_ROWS = 1 << 20  # a longer buffer is applied, to bound memory
SINGLE = 12  # edits that make few pages
# words of a record, and relations, for whose last edits there are queues
NARROW, QUEUES_MAX = 16, 64
REMEMBERED_TREES = 256
NONE_CHECKED = np.zeros(0, np.int64)


class WorkingTrees:
    """The catalog and trees of a version in the making, starting from those of its base version."""

    _open = False
    # a small transaction reads it seven times: through a function of Python, that would be a
    # twentieth of its calls
    catalog: Catalog = property(  # type: ignore[assignment]
        attrgetter("_catalog"),
        doc="The relations and their shapes; a different object after a change.",
    )

    def _begin(
        self,
        pager: Pager,
        base: Version,
        trees: dict[int, Tree],
        state: StoreState,
        texts: dict[bytes, int],
        reserve: int,
    ) -> None:
        self.pager, self.base = pager, base
        self._deletes, self._follows, self._reserve = True, False, reserve
        self._trees, self._catalog = trees, base.catalog
        self._next_tree, self._texts = state.next_tree, (state.next_text, texts)
        self.texts_removed = state.texts_removed
        self._buffers: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        # the writable relations handed out to callers, by name
        self._relations: dict[str, Any] = {}
        self._finders: dict[str, RecordFinder] = {}
        self._rewrite_catalog = False
        self._edited = False  # whether rows were edited, even without effect
        self.maintained: set[str] = set()
        self.afterwards: list[Callable[[], None]] = []  # what hosts do after they followed a merge
        self._open = True

    @cached_property
    def dictionary(self) -> DictionaryWriter:
        """The dictionary of the store, to which the transaction may add texts."""
        return DictionaryWriter(self.pager, self._trees, *self._texts)

    def create_words(
        self, name: str, keys: int, values: int = 0, scans: tuple[tuple[int, int], ...] = ()
    ) -> Tree:
        """Create a tree of raw words; its name starts with "$". Raises ExistsError, SchemaError."""
        if not name.startswith("$"):
            raise SchemaError(f"{name!r}: the name of a hidden tree starts with $")
        if not 1 <= keys <= KEYS_MAX:
            raise SchemaError(f"a key has 1 to {KEYS_MAX} words, not {keys}")
        self._create(name, None, keys, values, scans, None)
        return self.tree(name)

    def __contains__(self, name: object) -> bool:
        return name in self._catalog.relations

    def __iter__(self) -> Iterator[str]:
        # a list, which is many times faster than what calls a function for each
        return iter(
            [info.name for info in self._catalog.relations.values() if info.schema is not None]
        )

    @property
    def properties(self) -> dict[str, str | bytes]:
        """What a host stores in addition to its relations; assign to it to change it."""
        return self._changed_catalog().properties

    @property
    def pages(self) -> Pages:
        """The page map, for kernels."""
        return self.pager.pages

    @property
    def threads(self) -> int:
        """The number of threads that apply large batches of edits, and look many keys up."""
        return self.pager.threads

    @property
    def version(self) -> int:
        """The version that the commit will make."""
        return self.pager.version

    def tree(self, name: str) -> Tree:
        """Return the current tree of a relation, with its buffered edits applied."""
        if name in self._buffers:
            self._flush(name)
        return self._trees[self._info(name).spec.tree_id]

    def _touched(self, names: Iterable[str]) -> list[str]:
        """Return those of some names whose relation was edited, even without effect, or is another
        than in the base version.
        """
        now, was = self._catalog.relations, self.base.catalog.relations
        trees, before = self._trees, self.base.trees
        return [
            name
            for name in names
            if (info := now.get(name)) is not was.get(name)
            or name in self._buffers
            or (info and trees[info.spec.tree_id] is not before[info.spec.tree_id])
        ]

    def remembered(self, tree: Tree) -> dict[Any, Any]:
        """Return a dict for what a host computes from the rows of a tree: a new one for a tree that
        is not committed.

        For others each transaction and sketch gets the same one while the store is open and they
        are few.
        """
        if self.base.trees.get(tree.spec.tree_id) != tree:
            return {}
        every = self.pager.mapping.file.remembered
        while tree not in every and len(every) >= REMEMBERED_TREES:
            every.pop(next(iter(every)), None)
        return every.setdefault(tree, {})

    def counts(self, names: Iterable[str]) -> list[int]:
        """Return the number of records of some relations."""
        if self._buffers:
            return [self.tree(name).count for name in names]
        relations, trees = self._catalog.relations, self._trees
        return [trees[relations[name].spec.tree_id].count for name in names]

    def finder(self, name: str) -> RecordFinder:
        """Return a finder of single keys in a relation as it is now."""
        # `tree` may replace the pages
        tree, pages, finder = self.tree(name), self.pages, self._finders.get(name)
        if finder is None or finder.tree is not tree or finder.pages is not pages:
            finder = self._finders[name] = RecordFinder(pages, tree)
        return finder

    def edit(self, info: Info, actions: np.ndarray, rows: np.ndarray) -> None:
        """Buffer edits of stored words: actions int64[n], rows int64[C, n]."""
        if not len(actions):
            return
        self._edited = True
        if self._deletes and actions[0] != ERASE:
            self._grows()
        buffer = self._buffers.setdefault(info.name, [])
        buffer.append((actions, rows))
        if len(actions) == 1 and len(buffer) % 64:
            return
        most = batch_rows(len(rows), BUFFER_ROWS, LARGE_WORDS)
        if len(actions) >= most or (
            len(buffer) % 64 == 0 and sum(len(a) for a, _ in buffer) >= most
        ):
            self._flush(info.name)

    @step
    def apply(
        self, name: str, actions: np.ndarray, rows: np.ndarray, visible: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Apply edits of words at once, sorted or not; return the effective delta."""
        shape = self._info(name).spec.columns, len(actions)
        if rows.shape != shape or rows.dtype != np.int64:
            raise SchemaError(
                f"{name!r} takes words int64{[*shape]} here, not {rows.dtype}{[*rows.shape]}"
            )
        return self.apply_indexed((name,), ALONE, actions, rows, visible)[0]

    @step
    def apply_indexed(
        self,
        names: Sequence[str],
        places: np.ndarray,
        actions: np.ndarray,
        rows: np.ndarray,
        visible: int | None = None,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Apply edits of words to the first of some relations, and their effect to the others;
        return all deltas.

        Relation t holds columns places[t] of the first one, see trees/edit.py.
        """
        for name in self._buffers.keys() & names:
            self._flush(name)
        infos = [*map(self._info, names)]
        self._edited |= len(actions) > 0
        self._grows()
        return self._apply(infos, places, *compose_edits(actions, rows, infos[0].spec), visible)

    def edit_queues(self, queues: Sequence[EditQueue]) -> EditQueues:
        """Return edit queues for groups of relations and their permuted indices, valid while their
        shapes are the same.

        Raises MissingError.
        """
        return EditQueues(
            queues, [self._info(name).spec for queue in queues for name in queue.names]
        )

    def _lay_out(self, page: int, trees: int, checked: np.ndarray) -> Finish | None:
        """Lay out the record of the commit for a kernel that makes its only edits; this
        transaction never commits.
        """
        return None

    def flush(
        self,
        queues: EditQueues,
        call: Callable[..., int],
        again: bool = False,
        checked: np.ndarray | None = None,
    ) -> int:
        """Flush edit queues (trees/edit.py) by a kernel; take over the trees that it leaves, and
        return what it does.

        `call` gets the arguments of `flush_queue` except the number of a queue. With `again` the
        kernel resumes where it stopped before, with more pages. Unless `checked` is None these are
        the only edits, and the kernel may finish the commit if it changes none of the trees with
        these numbers.
        """
        for name in [*self._buffers]:
            self._flush(name)
        pager = self.pager
        work, trees = pager.work, self._trees
        with work.lock:
            work.check()
            work.broken = True  # until the trees are known again
            self._edited = True
            self._grows()
            lay_out = None if checked is None or again else partial(self._lay_out, checked=checked)
            done = call(
                *queues.begin(pager, [*map(trees.__getitem__, queues.numbers)], again, lay_out)
            )
            trees.update(zip(queues.numbers, queues.end(pager), strict=True))
            work.broken = False
        return done

    def _flush_last(self, queues: dict[Spec, EditQueues]) -> None:
        """Apply the buffered edits of one relation, the transaction's last, if a kernel can also
        finish the commit.

        `queues` are those of relations edited so before. Deletions take another way, which asks for
        no page that it does not need, since they must succeed on a full disk.
        """
        if self._deletes:
            return
        ((name, parts),) = self._buffers.items()
        spec, n = self._catalog.relations[name].spec, sum(len(actions) for actions, _ in parts)
        if n > SINGLE or spec.columns > NARROW:
            return
        queue = queue_of(queues, spec, name)
        del self._buffers[name]
        queue.wait(0, *(parts[0] if len(parts) == 1 else one_batch(parts)))
        if not self.flush(queue, lambda *given: FLUSH.call(*given, 0), checked=NONE_CHECKED):
            self._buffers[name] = parts

    @step
    def replace(self, name: str, tree: Tree) -> None:
        """Replace a relation's tree by one built with `tree.bulk` on `txn.pager`; O(old pages)."""
        info = self._info(name)
        if tree.spec != info.spec:
            raise SchemaError(f"{name!r} has the shape {info.spec}, the new tree {tree.spec}")
        self._buffers.pop(name, None)
        old = self._trees[info.spec.tree_id]
        if old.root:
            self.pager.retire_pages(pages_of(self.pages, old))
        self._trees[info.spec.tree_id] = tree

    @step
    def truncate(self, name: str) -> None:
        """Remove all records of a relation, keeping its columns and scans. O(its pages)."""
        self.replace(name, Tree.empty(self._info(name).spec))

    @step
    def bulk(self, info: Info, batches: Iterable[np.ndarray]) -> int:
        """Fill an empty relation with ascending batches int64[C, n]; return how many records."""
        self._grows()
        with self._atomic():
            self._trees[info.spec.tree_id] = bulk(self.pager, info.spec, self._given(batches))
        return self._trees[info.spec.tree_id].count

    @step
    def stitch(self, name: str, segments: Sequence[Segment]) -> int:
        """Fill an empty relation with segments that other processes built (trees/build.py),
        ascending by key.

        Returns the number of records. Raises OrderError, CorruptionError.
        """
        info = self._info(name)
        if self.tree(name).count:
            raise SchemaError(
                f"{name!r} has {self.tree(name).count} records; segments fill empty relations"
            )
        self._grows()
        with self._atomic():
            self._trees[info.spec.tree_id] = stitch(self.pager, info.spec, segments)
        return self._trees[info.spec.tree_id].count

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is done inside if it ends with an exception, which propagates. O(relations +
        pages).

        If the transaction ends inside, so does the savepoint.
        """
        self._flush_all()
        trees = dict(self._trees)
        catalog = self._catalog
        next_tree = self._next_tree
        edited = self._edited
        before = catalog.copy()
        next_id, added = self.dictionary.next_id, dict(self.dictionary.added)
        mark = self.pager.mark()
        try:
            yield
            if self._open:
                self._flush_all()
        except BaseException:
            if self._open and not self.pager.work.broken:
                self._go_back(mark, trees, catalog, before, next_tree)
                self.dictionary.go_back(next_id, added)
                self._edited = edited
            raise
        finally:
            if self._open:
                self.pager.unmark()

    @step
    def _flush_all(self) -> None:
        """Apply all buffered edits."""
        for name in list(self._buffers):
            self._flush(name)

    @step
    def _go_back(
        self, mark: Mark, trees: dict[int, Tree], catalog: Catalog, before: Catalog, next_tree: int
    ) -> None:
        """Restore pages, trees and catalog as they were at a mark."""
        self.pager.rewind(mark)
        self._buffers.clear()
        self._trees.clear()
        self._trees.update(trees)
        self._catalog, self._next_tree = catalog, next_tree
        if catalog is not self.base.catalog:
            self._catalog = before
            before.properties = _restored(catalog.properties, before.properties)
        self._follow()

    @step
    def _create(
        self,
        name: str,
        schema: Schema | None,
        keys: int,
        values: int,
        scans: tuple[tuple[int, int], ...],
        intervals: tuple[str, str] | None,
        bag: bool = False,
    ) -> None:
        self._grows()
        self._refuse_name(name, hidden=schema is None)
        if values < 0:
            raise SchemaError(f"{name!r}: a record cannot have {values} more words")
        spec = self._fitting(name, Spec(self._next_tree, keys, values, scans))
        self._next_tree += 1
        self._changed_catalog().relations[name] = Info(name, spec, schema, intervals, bag)
        self._trees[spec.tree_id] = Tree.empty(spec)

    def _refuse_name(self, name: str, hidden: bool) -> None:
        """Raise ExistsError for a name that is taken, SchemaError for an invalid one."""
        if name in self._catalog.relations:
            raise ExistsError(
                f"there is a relation {name!r} already; drop it first, or choose another name"
            )
        if not name:
            raise SchemaError("a relation needs a name")
        if not hidden and str(name).startswith("$"):
            raise SchemaError(
                f"{name!r}: a name with $ in front is a hidden tree's; choose another"
            )

    def _fitting(self, name: str, spec: Spec) -> Spec:
        """Return the shape, if its records and folds fit pages. Raises SchemaError."""
        page_words = self.pager.pages.page_words
        if not spec.fits(page_words):
            size = spec.page_size_min
            remedy = "take fewer scans or columns" + ", or a store with a larger page_size" * (
                size is not None
            )
            if size:
                remedy += f": {size} is enough, and pagestore restore --page-size {size} makes one of a dump"
            raise SchemaError(
                f"{name!r}: {spec.columns} words a record and {len(spec.scans)} words of folds are "
                f"too many for pages of {8 * page_words} bytes; {remedy}",
                size,
            )
        return spec

    def _follow(self) -> None:
        """Update relations handed out from the catalog; dropped ones become invalid."""
        now = self._catalog.relations
        self._relations = {
            name: held for name, held in self._relations.items() if held.follow(now.get(name))
        }

    def _changed_catalog(self) -> Catalog:
        if self._catalog is self.base.catalog:
            self._catalog = self._catalog.copy()
        return self._catalog

    def _info(self, name: str) -> Info:
        info = self._catalog.relations.get(name)
        if info is None:
            raise MissingError(
                f"there is no relation {name!r}; there is {', '.join(listed([*self])) or 'none'}"
            )
        return info

    @step
    def _flush(self, name: str) -> None:
        """Apply the buffered edits of a relation. After an error nothing is left of them."""
        parts = self._buffers.pop(name)
        info = self._catalog.relations[name]
        try:
            edits = parts[0] if len(parts) == 1 else one_batch(parts)
            self._apply((info,), ALONE, *compose_edits(*edits, info.spec), None)
        except EditError:
            turns = [[*turn] for _, turn in groupby(parts, _adds)]
            if len(turns) == 1:
                raise
            self._take_turns(info, turns)

    def _take_turns(
        self, info: Info, turns: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]]
    ) -> None:
        """Apply buffered edits that add among others: no batch does both to one record."""
        number = info.spec.tree_id
        before = self._trees[number]
        try:
            with self._atomic():
                for turn in turns:
                    self._apply((info,), ALONE, *compose_edits(*one_batch(turn), info.spec), None)
        except BaseException:
            self._trees[number] = before
            raise

    def _apply(
        self,
        infos: Sequence[Info],
        places: np.ndarray,
        actions: np.ndarray,
        rows: np.ndarray,
        visible: int | None,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        numbers = [info.spec.tree_id for info in infos]
        mark = self.pager.mark()
        try:
            trees = [self._trees[number] for number in numbers]
            trees, deltas = apply_indexed(self.pager, trees, places, actions, rows, visible)
        except BaseException:
            self.pager.rewind(mark)
            raise
        finally:
            self.pager.unmark()
        self._trees.update(zip(numbers, trees, strict=True))
        return deltas

    def _given(self, batches: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Yield a caller's batches; an exception from its iterator does not break the step."""
        work = self.pager.work
        try:
            yield from batches
        except BaseException as error:
            work.given = error
            raise

    @contextmanager
    def _atomic(self) -> Iterator[None]:
        mark = self.pager.mark()
        try:
            yield
        except BaseException:
            self.pager.rewind(mark)
            raise
        finally:
            self.pager.unmark()

    @contextmanager
    def keeping_pages(self) -> Iterator[None]:
        """Inside, do not use pages again that this transaction wrote and then replaced: trees from
        before a change are still read.
        """
        self.pager.mark()
        try:
            yield
        finally:
            self.pager.unmark()

    @contextmanager
    def following(self, deletions: bool = True) -> Iterator[None]:
        """Mark changes inside as following from edits; from deletions, they may use the pages
        reserved for these.
        """
        before, self._follows = self._follows, deletions
        try:
            yield
        finally:
            self._follows = before

    def _grows(self) -> None:
        """Note that the transaction does more than delete: it must leave the last pages to
        commits that free space.
        """
        if not self._follows:
            self._deletes, self.pager.spare = False, self._reserve


def queue_of(queues: dict[Spec, EditQueues], spec: Spec, name: str) -> EditQueues:
    """Return the queue of a relation among those that are kept, QUEUES_MAX at most."""
    queue = queues.get(spec)
    if queue is None:
        if len(queues) >= QUEUES_MAX:
            queues.clear()
        queue = queues[spec] = EditQueues([EditQueue((name,), ALONE, spec.columns)], [spec], SINGLE)
    return queue


def _adds(part: tuple[np.ndarray, np.ndarray]) -> bool:
    """Return whether some buffered edits add to values."""
    return bool((part[0] == ADD).any())


def _restored(live: dict[str, T], before: dict[str, T]) -> dict[str, T]:
    """Restore the former content of a dictionary that callers may hold."""
    live.clear()
    live.update(before)
    return live
