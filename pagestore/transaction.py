"""A transaction: edits that become one version together, or leave nothing behind.

Edits through relations are buffered in order and applied once per tree, at the latest with the commit;
reading a relation applies its buffer first, so a transaction reads its own writes. Edits of words (`apply`)
are made at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from .apply import ALONE, apply_beside, net, one_batch
from .catalog import Catalog, Info
from .dependants import ALL, follow
from .dictionary import DictionaryWriter
from .errors import ClosedError, EditError, ExistsError, MissingError, SchemaError, TransactionError
from .fold import rows_of
from .gone import Gone
from .groups import Group, Groups
from .handle import Handle
from .ledger import Draft
from .operators import address_of
from .pager import Mark, Pager
from .record import utf8
from .scans import parse_scan, scan_names
from .settings import MAIN
from .state import State, Version
from .step import step
from .tree import ADD, ERASE, Finder, Pages, Spec, Tree, bulk, pages_of, scan
from .turns import Turn
from .words import KEYS_MAX, Column, Schema, Type, decode, encode
from .writable import WritableRelation

ENDED: Any = Gone(ClosedError, "the transaction has ended; begin another")
BUFFER_ROWS = 1 << 20  # a longer buffer is applied, so that memory stays bounded


class Transaction:
    """Use it in `with`: it commits on success and rolls back on an exception.

    >>> import pagestore, tempfile
    >>> store = pagestore.open(tempfile.mkdtemp() + "/graph.pages")
    >>> with store.transaction(message="first") as txn:
    ...     edge = txn.create("edge", "x: int64, y: int64")
    ...     edge.insert([(1, 2), (2, 3)])
    >>> list(store.snapshot()["edge"])
    [(1, 2), (2, 3)]
    >>> store.close()
    """

    def __init__(self, handle: Handle, turn: Turn, base: Version, branch: int, message: str | None):
        self._handle, self._ledger, self._turn = handle, handle.ledger, turn
        self._branch, self._message = branch, message or ""
        self._ledger.begin(branch)
        state = self._ledger.state
        trees = {**base.trees, 1: state.system[1], 2: state.system[2]}
        self._begin(self._ledger.pager, base, trees, state, handle.texts, self._ledger.reserve)

    def _begin(
        self, pager: Pager, base: Version, trees: dict[int, Tree], state: State, texts: dict[bytes, int], reserve: int
    ) -> None:
        self.pager, self.base = pager, base
        self._deletes, self._reserve = True, reserve
        self._trees, self._catalog = trees, base.catalog
        self._next_tree, self._texts = state.next_tree, (state.next_text, texts)
        self._buffers: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._relations: dict[str, WritableRelation] = {}
        self._finders: dict[str, Finder] = {}
        self._rewrite_catalog = False
        self.vouched: set[str] = set()
        self._open = True

    @cached_property
    def dictionary(self) -> DictionaryWriter:
        return DictionaryWriter(self.pager, self._trees, *self._texts)

    # --- relations ------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        schema: str | Schema | pa.Schema,
        key: Iterable[str] | str | None = None,
        scans: Iterable[str] | str = (),
        intervals: tuple[str, str] | None = None,
        hidden: int = 0,
    ) -> WritableRelation:
        """Make an empty relation. Without `key` all columns are the key.

        Each record has `hidden` more value words behind its columns (a support count, say) that only edits of
        words see.

        `scans` names folds to maintain ("count", "sum:col", "max:col", "argmax:col,other", ...; see
        scans.py); `intervals` names two neighbouring key columns that are the ends of an interval. Raises
        ExistsError, SchemaError.
        """
        parsed = Schema.parse(schema, key if key is None or isinstance(key, str) else tuple(key))
        stored = [column.name for column in parsed.stored]
        scans = [scans] if isinstance(scans, str) else list(scans)
        if intervals:
            if list(intervals) not in [stored[i : i + 2] for i in range(len(parsed.key) - 1)]:
                raise SchemaError(f"intervals={intervals!r}: two neighbouring key columns are wanted")
            types = [str(column.type) for column in parsed.stored if column.name in intervals]
            if types[0] != types[1]:
                raise SchemaError(f"intervals={intervals!r}: ends of one type are wanted, not {' and '.join(types)}")
            if f"max:{intervals[1]}" not in scans:
                scans.append(f"max:{intervals[1]}")
        folds = _rows(scans, parsed)
        self._create(name, parsed, len(parsed.key), len(stored) - len(parsed.key) + hidden, folds, intervals)
        return self[name]

    def create_intervals(
        self,
        name: str,
        schema: str | Schema | pa.Schema,
        ends: tuple[str, str],
        key: Iterable[str] | str | None = None,
        scans: Iterable[str] | str = (),
    ) -> WritableRelation:
        """Make an empty interval relation, to `stab`: `ends` are two neighbouring key columns, an interval's ends.

        Key columns before them part the intervals into groups, key columns behind them tell equal intervals
        apart. Both ends belong to an interval; no point is in one that ends before it begins.
        Raises ExistsError, SchemaError.

        >>> import pagestore, tempfile
        >>> with pagestore.open(tempfile.mkdtemp() + "/rooms.pages") as store, store.transaction() as txn:
        ...     booked = txn.create_intervals("booked", "room: int64, a: int64, b: int64", ("a", "b"))
        ...     booked.insert([(1, 900, 1030), (1, 1015, 1200), (2, 800, 1800)])
        ...     booked.stab(1, 1000), booked.overlaps(1, 1030, 1100), booked.remove_stabbed([(2, 900)]).num_rows
        ([(1, 900, 1030)], [(1, 900, 1030), (1, 1015, 1200)], 1)
        """
        return self.create(name, schema, key, scans, ends)

    def create_words(self, name: str, keys: int, values: int = 0, scans: tuple[tuple[int, int], ...] = ()) -> Tree:
        """Make a hidden tree of raw words; its name starts with "$". Raises ExistsError, SchemaError."""
        if not name.startswith("$"):
            raise SchemaError(f"{name!r}: the name of a hidden tree starts with $")
        if not 1 <= keys <= KEYS_MAX:
            raise SchemaError(f"a key has 1 to {KEYS_MAX} words, not {keys}")
        self._create(name, None, keys, values, scans, None)
        return self.tree(name)

    @step
    def add_scan(self, name: str, scan: str) -> None:
        """Maintain one more scan of a relation, which is built anew: O(records). Versions before have none.

        Raises ExistsError, SchemaError, MissingError for an operator that this process has not registered.
        """
        info = self._info(name)
        self._grows()
        rows = _rows([scan], self[name].schema)
        if rows_of(info.spec, rows):
            raise ExistsError(f"{name!r} has the scan {scan!r} already")
        self._rebuild(info, info.spec.scans + rows)

    @step
    def drop_scan(self, name: str, scan: str) -> None:
        """Maintain a scan of a relation no longer: O(records). Raises MissingError where there is none."""
        info = self._info(name)
        scans = info.spec.scans
        rows = rows_of(info.spec, parse_scan(scan, self[name].schema).rows)
        if rows is None:
            have = ", ".join(scan_names(scans, self[name].schema)) or "none"
            raise MissingError(f"{name!r} has no scan {scan!r}; it has {have}")
        self._rebuild(info, scans[: rows.first] + scans[rows.end :])

    @step
    def drop(self, name: str) -> None:
        """Remove a relation. O(its pages)."""
        info = self._info(name)
        self._buffers.pop(name, None)
        tree = self._trees.pop(info.spec.tree_id)
        if tree.root:
            self.pager.retire_pages(pages_of(self.pages, tree))
        del self._changed_catalog().relations[name]
        self._follow()

    def __getitem__(self, name: str) -> WritableRelation:
        relation = self._relations.get(name)
        if relation is None:
            relation = self._relations[name] = WritableRelation(self, self._info(name))
        return relation

    def __contains__(self, name: object) -> bool:
        return name in self._catalog.relations

    def __iter__(self) -> Iterator[str]:
        return (info.name for info in self._catalog.relations.values() if not info.hidden)

    @property
    def properties(self) -> dict[str, str | bytes]:
        """What the host keeps beside its relations; assign to it to change it."""
        return self._changed_catalog().properties

    # --- words ----------------------------------------------------------------------------------

    @property
    def pages(self) -> Pages:
        return self.pager.pages

    @property
    def threads(self) -> int:
        """How many apply many edits, and look many keys up, side by side."""
        return self.pager.threads

    @property
    def catalog(self) -> Catalog:
        """Which relations there are, of which shapes; another object where that has changed."""
        return self._catalog

    @property
    def version(self) -> int:
        """The version that the commit will make."""
        return self.pager.version

    def tree(self, name: str) -> Tree:
        """The tree behind a relation now, its buffered edits applied."""
        if name in self._buffers:
            self._flush(name)
        return self._trees[self._info(name).spec.tree_id]

    def finder(self, name: str) -> Finder:
        """Looks up single keys in a relation as it is now."""
        tree, pages, finder = self.tree(name), self.pages, self._finders.get(name)  # pages as they are then
        if finder is None or finder.tree is not tree or finder.pages is not pages:
            finder = self._finders[name] = Finder(pages, tree)
        return finder

    def edit(self, info: Info, actions: np.ndarray, rows: np.ndarray) -> None:
        """Buffer edits of stored words: actions int64[n], rows int64[C, n]."""
        if not len(actions):
            return
        if self._deletes and actions[0] != ERASE:
            self._grows()
        buffer = self._buffers.setdefault(info.name, [])
        buffer.append((actions, rows))
        if len(actions) >= BUFFER_ROWS or (len(buffer) % 64 == 0 and sum(len(a) for a, _ in buffer) >= BUFFER_ROWS):
            self._flush(info.name)

    @step
    def apply(
        self, name: str, actions: np.ndarray, rows: np.ndarray, visible: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Apply edits of words at once, sorted or not; returns the effective delta (see apply.py)."""
        wanted = self._info(name).spec.columns, len(actions)
        if rows.shape != wanted or rows.dtype != np.int64:
            raise SchemaError(f"{name!r} takes words int64{[*wanted]} here, not {rows.dtype}{[*rows.shape]}")
        return self.apply_beside((name,), ALONE, actions, rows, visible)[0]

    @step
    def apply_beside(
        self, names: Sequence[str], places: np.ndarray, actions: np.ndarray, rows: np.ndarray,
        visible: int | None = None,
    ) -> list[tuple[np.ndarray, np.ndarray]]:  # fmt: skip
        """Apply edits of words to the first of some relations, and what they changed to the others; all deltas.

        The others have the first one's columns places[t] each, see apply.py.
        """
        for name in self._buffers.keys() & names:
            self._flush(name)
        infos = [*map(self._info, names)]
        self._grows()
        return self._apply(infos, places, *net(actions, rows, infos[0].spec), visible)

    def groups(self, groups: Sequence[Group]) -> Groups:
        """Room for edits of some relations and what stands beside them, for as long as their shapes stay."""
        return Groups(groups, [self._info(name).spec for group in groups for name in group.names])

    @step
    def settle(self, groups: Groups, host: Callable[..., int], again: bool = False) -> int:
        """Settle what waits in groups within a kernel that `host` calls (see groups.py); returns what it returns.

        With `again` it goes on where it stopped before, and has more pages.
        """
        for name in [*self._buffers]:
            self._flush(name)
        self._grows()
        numbers = groups.numbers
        trees, returned = groups.settle(self.pager, [*map(self._trees.__getitem__, numbers)], host, again)
        self._trees.update(zip(numbers, trees, strict=True))
        return returned

    @step
    def replace(self, name: str, tree: Tree) -> None:
        """Put a tree built with `tree.bulk` on `txn.pager` in place of a relation's; O(old pages)."""
        info = self._info(name)
        if tree.spec != info.spec:
            raise SchemaError(f"{name!r} has the shape {info.spec}, the new tree {tree.spec}")
        self._buffers.pop(name, None)
        old = self._trees[info.spec.tree_id]
        if old.root:
            self.pager.retire_pages(pages_of(self.pages, old))
        self._trees[info.spec.tree_id] = tree

    @step
    def bulk(self, info: Info, batches: Iterable[np.ndarray]) -> int:
        """Fill an empty relation with ascending batches of words int64[C, n]; returns how many records."""
        self._grows()
        with self._atomic():
            self._trees[info.spec.tree_id] = bulk(self.pager, info.spec, self._given(batches))
        return self._trees[info.spec.tree_id].count

    def vouch(self, *hosts: str) -> None:
        """Say that whoever edits here keeps up to date what these hosts keep, all unless named (see dependants.py)."""
        self.vouched.update(hosts or (ALL,))

    def encode(self, type_: str | Type, values: Any) -> np.ndarray:
        """Words int64[n] of values; new texts enter the dictionary."""
        return encode(Column("value", Type.parse(type_)), values, self.dictionary)

    def decode(self, type_: str | Type, words: np.ndarray) -> pa.Array:
        """The Arrow array of words int64[n]."""
        return decode(Type.parse(type_), words, self.dictionary)

    # --- the end --------------------------------------------------------------------------------

    def commit(self) -> int:
        """Make the version and return its number.

        On an error the store is as it was, or it is not known what it is, and the handle is poisoned. Where something
        comes in between when the version is made (an interrupt, say), a note of the exception says its number.
        """
        ledger, before, turn = self._ledger, self._ledger.state, self._turn
        try:
            with self.pager.work.lock:
                made, told = self._make()
        except BaseException as error:
            if ledger.state is not before and not ledger.poison:
                error.add_note(f"the transaction was committed, as version {ledger.state.last_version}")
            raise
        finally:
            turn.over = True
            self._end()
        for tell in told:
            tell()
        return made

    def _make(self) -> tuple[int, list[Callable[[], None]]]:
        """Apply what is buffered, have what stands on it follow, and commit: the version, and who is to be told."""
        self._handle.check()
        self.pager.work.check()
        told = follow(self)
        for name in list(self._buffers):
            self._flush(name)
        texts: DictionaryWriter | None = self.__dict__.get("dictionary")  # few transactions ask for it
        version = self._ledger.commit(
            Draft(
                self._branch,
                self._trees,
                self._catalog,
                self.base.catalog,
                self._next_tree,
                texts.next_id if texts else self._texts[0],
                self._message,
                self._rewrite_catalog,
            )
        )
        if texts:
            texts.committed()
        self._handle.committed(version)
        return version.version, told

    def rollback(self) -> None:
        """Leave nothing behind: every page of the transaction is free again. O(1), and the next begins later.

        That one opens the books of free pages anew. O(pages of the store / 8) bytes.
        """
        if self._open:
            self._turn.over = True
            self._end()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what was done inside if it ends with an exception, which goes on. O(relations + pages).

        If the transaction ends inside, so does the savepoint.
        """
        self._settle()
        trees, catalog, next_tree = dict(self._trees), self._catalog, self._next_tree
        before = catalog.copy()
        next_id, added = self.dictionary.next_id, dict(self.dictionary.added)
        mark = self.pager.mark()
        try:
            yield
            if self._open:
                self._settle()
        except BaseException:
            if self._open and not self.pager.work.broken:
                self._go_back(mark, trees, catalog, before, next_tree)
                self.dictionary.next_id, self.dictionary.added = next_id, added
            raise
        finally:
            if self._open:
                self.pager.unmark()

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if not self._open:
            return
        try:
            if kind is None:
                self.commit()
            else:
                self.rollback()
        finally:
            self._turn.over = True

    def __reduce__(self) -> tuple:
        """Its pages are in this process: raises TransactionError."""
        raise TransactionError("a transaction stays in its process and is not copied; send a snapshot")

    # --- inside ---------------------------------------------------------------------------------

    @step
    def _settle(self) -> None:
        """Apply all that is buffered."""
        for name in list(self._buffers):
            self._flush(name)

    @step
    def _go_back(self, mark: Mark, trees: dict[int, Tree], catalog: Catalog, before: Catalog, next_tree: int) -> None:
        """Be as at a mark."""
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
        self, name: str, schema: Schema | None, keys: int, values: int,
        scans: tuple[tuple[int, int], ...], intervals: tuple[str, str] | None,
    ) -> None:  # fmt: skip
        self._grows()
        if name in self._catalog.relations:
            raise ExistsError(f"there is a relation {name!r} already; drop it first, or choose another name")
        if not name:
            raise SchemaError("a relation needs a name")
        if schema and str(name).startswith("$"):
            raise SchemaError(f"{name!r}: a name with $ in front is a hidden tree's; choose another")
        if values < 0:
            raise SchemaError(f"{name!r}: a record cannot have {values} more words")
        spec = self._fitting(name, Spec(self._next_tree, keys, values, scans))
        self._next_tree += 1
        self._changed_catalog().relations[name] = Info(name, spec, schema, intervals)
        self._trees[spec.tree_id] = Tree.empty(spec)

    def _fitting(self, name: str, spec: Spec) -> Spec:
        """A shape whose records and folds fit pages; SchemaError for another."""
        if not spec.fits(self.pages.page_words):
            raise SchemaError(
                f"{name!r}: {spec.columns} words a record and {len(spec.scans)} words of folds are too many for pages "
                f"of {8 * self.pages.page_words} bytes; take fewer scans or columns, or a store with a larger page_size"
            )
        return spec

    def _adopt(self, info: Info) -> None:
        """Make a relation as another store has it, unless it is here in that very shape."""
        here = self._catalog.relations.get(info.name)
        if here is not None and here == info:
            return
        if here is not None:
            self.drop(info.name)
        if any(other.spec.tree_id == info.spec.tree_id for other in self._catalog.relations.values()):
            raise SchemaError(f"{info.name!r}: another relation has its tree's number")
        self._fitting(info.name, info.spec)
        self._next_tree = max(self._next_tree, info.spec.tree_id + 1)
        self._changed_catalog().relations[info.name] = info
        self._trees[info.spec.tree_id] = Tree.empty(info.spec)

    def _rebuild(self, info: Info, scans: tuple[tuple[int, int], ...]) -> None:
        """Copy a relation's records into a tree with other scans."""
        old, spec = self.tree(info.name), self._fitting(info.name, info.spec._replace(scans=scans))
        if info.intervals and info.schema:
            ends = parse_scan(f"max:{info.intervals[1]}", info.schema)
            if not rows_of(spec, ends.rows):
                raise SchemaError(f"{info.name!r} holds intervals and needs the max scan of their ends")
        with self._atomic():
            self._trees[spec.tree_id] = bulk(self.pager, spec, scan(self.pages, old) if old.root else ())
            if old.root:
                self.pager.retire_pages(pages_of(self.pages, old))
        self._changed_catalog().relations[info.name] = info._replace(spec=spec)
        self._follow()

    def _follow(self) -> None:
        """Relations that somebody may hold are what they have become."""
        now = self._catalog.relations
        self._relations = {name: held for name, held in self._relations.items() if held.follow(now.get(name))}

    def _changed_catalog(self) -> Catalog:
        if self._catalog is self.base.catalog:
            self._catalog = self._catalog.copy()
        return self._catalog

    def _info(self, name: str) -> Info:
        info = self._catalog.relations.get(name)
        if info is None:
            raise MissingError(f"there is no relation {name!r}; there is {', '.join(self) or 'none'}")
        return info

    @step
    def _flush(self, name: str) -> None:
        """Apply what is buffered for a relation. On an error its buffer is gone, the relation as before."""
        parts = self._buffers.pop(name)
        info = self._catalog.relations[name]
        try:
            self._apply((info,), ALONE, *net(*one_batch(parts), info.spec), None)
        except EditError:
            turns = [[*turn] for _, turn in groupby(parts, _adds)]
            if len(turns) == 1:
                raise
            self._take_turns(info, turns)

    def _take_turns(self, info: Info, turns: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]]) -> None:
        """Apply buffered edits that add and others in turn: no batch can do both to one record."""
        number = info.spec.tree_id
        before = self._trees[number]
        try:
            with self._atomic():
                for turn in turns:
                    self._apply((info,), ALONE, *net(*one_batch(turn), info.spec), None)
        except BaseException:
            self._trees[number] = before
            raise

    def _apply(
        self, infos: Sequence[Info], places: np.ndarray, actions: np.ndarray, rows: np.ndarray, visible: int | None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        numbers = [info.spec.tree_id for info in infos]
        mark = self.pager.mark()
        try:
            trees = [self._trees[number] for number in numbers]
            trees, deltas = apply_beside(self.pager, trees, places, actions, rows, visible)
        except BaseException:
            self.pager.rewind(mark)
            raise
        finally:
            self.pager.unmark()
        self._trees.update(zip(numbers, trees, strict=True))
        return deltas

    def _given(self, batches: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Batches of somebody else's, whose exceptions leave a step as good as undone."""
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

    def _grows(self) -> None:
        """The transaction does more than delete: it must leave the disk's last pages to what frees space."""
        self._deletes, self.pager.spare = False, self._reserve

    def _end(self) -> None:
        """The turn is over, and nothing is kept."""
        if self._open:
            handle = self._handle
            self._let_go()
            handle.give_turn_back(self._turn)

    def _let_go(self) -> None:
        """Keep nothing, so that nobody who keeps the transaction can change what it made."""
        self._open = False
        self.pager = self.dictionary = self._trees = self._buffers = self._relations = self._catalog = ENDED
        self._handle = self._ledger = self.vouched = ENDED


def begin(handle: Handle, message: str | None = None, branch: str = MAIN, timeout: float | None = None) -> Transaction:
    """See Store.transaction."""
    if message:
        utf8(message, "message")
    turn = Turn()
    try:
        handle.take_turn(turn, timeout)
        number = handle.branch_id(branch)
        return Transaction(handle, turn, handle.head(number), number, message)
    except BaseException:
        handle.give_turn_back(turn)
        raise


def _adds(part: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether some buffered edits add to values."""
    return bool((part[0] == ADD).any())


def _restored(live: dict, before: dict) -> dict:
    """A dictionary that somebody may hold, with what was in it before."""
    live.clear()
    live.update(before)
    return live


def _rows(scans: Iterable[str], schema: Schema) -> tuple[tuple[int, int], ...]:
    """The rows of several scans. Raises SchemaError for one that is there twice, MissingError for an operator that
    this process has not registered.
    """
    rows: list[tuple[int, int]] = []
    seen = set()
    for text in scans:
        one = parse_scan(text, schema).rows
        if one in seen:
            raise SchemaError(f"scan {text!r} is there twice")
        seen.add(one)
        rows += one
    for code, _ in rows:
        address_of(code)
    return tuple(rows)
