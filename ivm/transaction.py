"""A transaction over rules and data: it collects edits, and its commit maintains every view and
tells subscribers.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import numpy as np

import pagestore
from ivm.answer import Answer
from ivm.engine.engine import Engine
from ivm.engine.regret import Regret
from ivm.engine.schedule import Schedule, run_steps
from ivm.errors import EditError, FunctionConflictError, MaintainError
from ivm.lang.ir import ROPE, Edit
from ivm.memory import allowing
from ivm.rope import note_erased, texts_of_changes
from ivm.rules.account import Account
from ivm.rules.installed import Installed
from ivm.rules.saved import SavedRules
from ivm.rules.stored import BUILT, HOST, BuiltSizes, KnownRules, save, words_of_edits
from ivm.subscriptions import Subscriptions, changes
from ivm.terms.encoder import Encoder
from ivm.views.delta import Delta
from ivm.views.edit_composition import TAKE, Clash, compose, compose_bag
from ivm.wide import Wide, read
from pagestore.errors import ClosedError
from pagestore.host import (
    ERASE,
    INSERT,
    SET,
    Edits,
    Store,
    Tree,
    WritableRelation,
    given_rows,
    one_batch,
    read_batches,
    to_its_end,
)

if TYPE_CHECKING:
    import pyarrow.compute as pc

NONE: frozenset[str] = frozenset()

Sql = Callable[["Transaction", str, Any, str], Answer | None]


class Maintainer:
    """What an open workspace keeps between transactions: rules by version, statistics of views,
    and subscribers.
    """

    def __init__(
        self, store: Store, threads: int, memory: int | None = None, rules: KnownRules | None = None
    ) -> None:
        self.store, self.threads, self.memory = store, threads, memory
        self.rules = rules or KnownRules(store)
        self.subscriptions = Subscriptions()
        self._accounts: dict[str, Account] = {}
        # what took the newest commit of a series, until that is accounted for
        self.carried: Schedule | None = None
        # whether transactions raise RecomputeError rather than evaluate a view from scratch
        self.strict = False
        # the views that the newest transaction evaluated from scratch
        self.evaluated: frozenset[str] = frozenset()
        self._built_sizes = BuiltSizes()
        # operations a row, by the number of a rule, far too many
        self.exceeding: dict[int, float] = {}
        self.regret = Regret()
        # rewrites an error in words of SQL, if SQL made the view
        self.put_in_words: Callable[[MaintainError], None] = lambda error: None

    @property
    def is_quiet(self) -> bool:
        """Whether nobody here waits for what a commit does to views: any process may make it."""
        return not (self.subscriptions or self.exceeding or self.regret.due)

    @property
    def accounts(self) -> dict[str, Account]:
        """What the newest commit that touched a view did, by view."""
        if self.carried:
            schedule, self.carried = self.carried, None
            schedule.queues.note_changes()
            self._accounts |= schedule.account(0.0)
        return self._accounts

    def begin(
        self, message: str | None = None, branch: str | None = None, sql: "Sql | None" = None
    ) -> "Transaction":
        """Begin a transaction by the rules of the version that it begins with."""
        txn = self.store.transaction(message, branch)
        try:
            rules = self.rules.saved(txn)
            installed = rules.some(txn, (), ()) if rules.whole is None else rules.whole
        except BaseException:
            txn.rollback()
            raise
        return Transaction(txn, installed, self, sql, whole=rules.whole is not None)

    def commit(
        self, txn: pagestore.Transaction, installed: Installed, edits: Mapping[str, Edits]
    ) -> int:
        """Maintain every view, commit all as one version, tell subscribers; return the version."""
        accounted = self.accounts  # first, since this may use the same schedule
        txn.declare_maintained(HOST)
        erases, done = _only_erase(edits), None
        if not (self.subscriptions or self.exceeding or self.regret.due):  # as `is_quiet`
            if erases:
                with txn.following():
                    accounts, done = run_steps(txn, installed, edits, self._built_sizes.of)
            else:
                accounts, done = run_steps(txn, installed, edits, self._built_sizes.of)
            if accounts is not None:
                is_here, version = self.store.owns(txn, here=True), txn.commit()
                if installed.turned:
                    self.regret.account(installed, accounts, edits)
                if is_here:
                    accounted |= accounts
                    self.evaluated = NONE
                return version
        return self._commit_by_engine(txn, installed, edits, erases, done)

    def _commit_by_engine(
        self,
        txn: pagestore.Transaction,
        installed: Installed,
        edits: Mapping[str, Edits],
        erases: bool,
        done: int | None,
    ) -> int:
        """Commit as `commit`, after `done` steps by the kernel."""
        built = self._built_sizes.of(txn)
        engine = Engine(
            txn,
            installed,
            Encoder(txn),
            self.threads,
            watched=self.subscriptions,
            built=dict(built),
            strict=self.strict,
        )
        engine.replan.exceeding |= self.exceeding
        engine.replan.regret = self.regret
        with txn.following(erases), allowing(self.memory):
            engine.apply_edits(edits, done)
        if engine.built != built:
            txn.properties[BUILT] = json.dumps(engine.built)
        saved = None
        if engine.installed is not installed:
            saved = save(txn, engine.installed, engine.built)
        if self.subscriptions:
            note_erased(engine, self.subscriptions)
        is_here = self.store.owns(txn, here=True)
        version = txn.commit()
        self.exceeding = engine.replan.exceeding
        if saved:
            self.rules.remember(saved)
        if is_here:
            self.committed(engine, engine.evaluated)
        return version

    def committed(
        self, engine: Engine, evaluated: Iterable[str], other_changes: Mapping[str, Delta] = {}
    ) -> None:
        """Keep the statistics of a committed transaction, and pass subscribers the changes of their
        views.

        `evaluated` are the views that were evaluated from scratch; `other_changes` has the changes
        of those that `engine` does not know.
        """
        self._accounts |= engine.accounts
        self.evaluated = frozenset(evaluated)
        if self.subscriptions:
            to_its_end(partial(self._tell, engine, other_changes))

    def _tell(self, engine: Engine, other_changes: Mapping[str, Delta]) -> None:
        """Pass subscribers the changes of their views."""
        known = engine.installed.program.predicates
        names = {n: engine.installed.whole(n) for n in self.subscriptions if n in known}
        tables = {
            n: engine.erased[n] for n in self.subscriptions if n not in known and n in engine.erased
        }
        deltas = {
            n: delta
            for n, whole in names.items()
            if (
                delta := other_changes[whole] if whole in other_changes else engine.change_of(whole)
            )
        }
        if not deltas and not tables:
            return
        with self.store.snapshot() as snap:
            for name, delta in deltas.items():
                predicate = known[names[name]]
                texts = (
                    texts_of_changes(snap, engine, name, delta) if predicate.value == ROPE else None
                )
                tables[name] = changes(snap, predicate, delta, texts)
        self.subscriptions.tell({name: table for name, table in tables.items() if table.num_rows})

    def remember(self, saved: SavedRules, gone: Container[str] = ()) -> None:
        """Use other rules from now on; drop the statistics and subscriptions of predicates that
        they lack, or that are made anew, `gone`.
        """
        self.rules.remember(saved)
        names = saved.owners
        known = [*self.accounts, *self.subscriptions]
        with self.store.snapshot() as snap:
            for name in [name for name in known if name not in names or name in gone]:
                stored = None if name in names else read(snap, name)
                parts = (
                    [part.name for part in stored.relations] if isinstance(stored, Wide) else [name]
                )
                if any(part in gone or part not in names for part in parts):
                    self.accounts.pop(name, None)
                    self.subscriptions.drop(name)


class _Undone(Exception):
    """Ends a savepoint, so that what was done in it is undone."""


@contextmanager
def undone(txn: pagestore.Transaction) -> Iterator[pagestore.Transaction]:
    """Undo at the end what is done in a transaction of the store."""
    with suppress(_Undone), txn.savepoint():
        yield txn
        raise _Undone


class Transaction:
    """Edits of extensional predicates and of other relations of the store; the commit maintains all
    views.

    Leaving `with` commits, or rolls back on an exception, unless the transaction has already ended.
    Rows are lists of tuples or dicts, a dict of columns, or Arrow data, as for a relation's
    `insert`; `columns` is a list of columns.
    """

    def __init__(
        self,
        txn: pagestore.Transaction,
        installed: Installed,
        maintainer: Maintainer | None,
        sql: Sql | None = None,
        whole: bool = False,
    ) -> None:
        """Take rules, which are all that there are if `whole`.

        Without a maintainer the edits are only collected, for an installation that commits them,
        or a preview.

        `sql` runs statements of SQL in this transaction.
        """
        self._txn, self._installed, self._maintainer, self._sql = txn, installed, maintainer, sql
        self._edits: dict[str, list[Edits]] = {}
        self._open = True
        if maintainer:
            self._trees = {}
        else:
            self._trees = {name: txn.tree(name) for name in installed.extensional if name in txn}
        # whether `inner` was handed out, through which relations may change as well
        self._reached = False
        self._whole = whole
        self._followed = set[str]()  # the relations whose rules are compiled
        self.marks = Marks()
        # of relations, what reading them by keys found out of their edits
        self.read_by_key: dict[str, Any] = {}

    def insert(self, name: str, rows: Any = None, *, columns: Any = None) -> None:
        """Add rows.  If a function has another value for a key, the commit raises
        FunctionConflictError: use `set`.

        A bag then holds each row once more.  Raises EditError for a view, ClosedError.
        """
        (relation, read), rows = self._relation(name), given_rows(rows, columns)
        if read:
            words = relation.encode(rows)
            self._add(name, INSERT, _once(words) if relation.info.bag else words)
        else:
            relation.insert(rows)

    def delete(
        self, name: str, rows: Any = None, *, columns: Any = None, every: bool = False
    ) -> None:
        """Remove rows, or a function's keys.  A row that does not exist is ignored, as is a key
        with another value.

        The one key of a function f[] = t is ().  A bag loses one row for each that is given, or,
        with `every`, all that are equal to it.  Raises EditError for a view, ClosedError.
        """
        (relation, read), rows = self._relation(name), given_rows(rows, columns)
        if not read:
            relation.delete(rows, every=every)
            return
        if relation.info.bag:
            self._add(name, ERASE if every else TAKE, _once(relation.encode(rows, add=False)))
            return
        if self._installed.layouts[name].bare and _are_empty(rows):
            words = np.empty((0, 1), np.int64)
        else:
            words = relation.encode(rows, keys_allowed=True, add=False)
        schema = relation.info.schema or relation.schema  # nobody edits a column that is computed
        left = len(schema.columns) - len(words)
        if left:
            self._add(
                name, ERASE, np.concatenate([words, np.zeros((left, words.shape[1]), np.int64)])
            )
        else:
            function = (
                self._installed.predicate(name).value is not None
                or self._txn.tree(name).spec.values
            )
            self._add(name, TAKE if function else ERASE, words)

    def delete_range(self, name: str, lo: tuple[Any, ...] = (), hi: tuple[Any, ...] = ()) -> int:
        """Remove the rows with lo <= key < hi, bounded as by a relation's `range`; return how many.

        Raises EditError for a view, ClosedError.
        """
        relation, read = self._relation(name)
        if read:
            return self._delete(relation, relation.range(lo, hi).words)
        return relation.delete_range(lo, hi)

    def delete_where(self, name: str, condition: "pc.Expression") -> int:
        """Remove the rows for which a condition is true, such as `pc.field("price") > 10`; return
        how many.

        Raises EditError for a view, SchemaError for a condition that its columns cannot have,
        ClosedError.
        """
        relation, read = self._relation(name)
        if not read:
            return relation.delete_where(condition)
        return self._delete(relation, lambda: relation.words_where(condition))

    def _delete(self, relation: WritableRelation, find: Callable[[], Iterable[np.ndarray]]) -> int:
        """Remove a relation's rows, with the edits so far, that `find` yields; return how many."""
        name, keys = relation.name, len(relation.schema.key)
        with undone(self._txn):
            self._apply_for([name])
            batches = [*find()]
        for words in batches:
            bag = relation.info.bag
            self._add(
                name,
                ERASE,
                _once(words) if bag else np.concatenate([words[:keys], 0 * words[keys:]]),
            )
        return sum(words.shape[1] for words in batches)

    def set(self, name: str, rows: Any = None, *, columns: Any = None) -> None:
        """Add rows, replacing the values of a function's keys. Raises EditError, ClosedError."""
        (relation, read), rows = self._relation(name), given_rows(rows, columns)
        if read and not relation.info.bag:
            self._add(name, SET, relation.encode(rows))
        else:
            relation.set(rows)

    def _put(self, name: str, action: int, words: np.ndarray) -> None:
        """Make one edit of each row, which are words as the relation stores them."""
        relation, read = self._relation(name)
        if read:
            self._add(name, action, words)
        else:
            self._txn.edit(relation.info, np.full(words.shape[1], action), words)

    def edit(self, edits: tuple[Edit, ...]) -> None:
        """Add edits that were parsed from a text.  Raises FunctionConflictError for a relation
        that no rule reads.
        """
        self._alive()
        self._rules_for((), (edit.predicate for edit in edits))
        for name, parts in words_of_edits(self._txn, edits, self._installed).items():
            if self._is_read(name):
                self._edits.setdefault(name, []).append(parts)
            else:
                self._txn.edit(self._txn[name].info, *self._composed(name, [parts]))

    def sql(self, text: str, parameters: Any = None, dialect: str = "duckdb") -> Answer | None:
        """Run statements of SQL; edits are part of the transaction, and queries see them (see
        Workspace.sql).
        """
        self._alive()
        if self._sql is None:
            raise EditError("this transaction runs no SQL: use that of Workspace.transaction")
        return self._sql(self, text, parameters, dialect)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is edited inside if it ends with an exception, which propagates."""
        before = {name: len(parts) for name, parts in self._edits.items()}
        try:
            with self._txn.savepoint():
                yield
        except BaseException:
            if self._open:  # else it ended inside
                self._edits = {name: self._edits[name][:count] for name, count in before.items()}
            raise

    @property
    def inner(self) -> pagestore.Transaction:
        """The transaction of the store.  What is edited there comes before the edits of this."""
        if not self._reached and self._maintainer is not None:
            self._installed = self._maintainer.rules.of(self._txn)
        self._reached = True
        return self._txn

    def _rules_for(self, read: Iterable[str], edited: Iterable[str] = ()) -> Installed:
        """Return rules as `KnownRules.some` does, also those for what was edited before."""
        if not (self._maintainer is None or self._reached or self._whole):
            self._followed |= {*edited}
            self._installed = self._maintainer.rules.some(self._txn, read, self._followed)
        return self._installed

    def _is_read(self, name: str) -> bool:
        """Return whether the rules know a relation; edits of others go directly to the store."""
        info = self._txn.catalog.relations.get(name)
        return info is not None and self._installed.is_followed(name, info.spec)

    def composed(self) -> dict[str, Edits]:
        """Return one sorted edit per key and predicate.  Raises FunctionConflictError."""
        return {name: self._composed(name, parts) for name, parts in self._edits.items()}

    def _apply_for(self, names: Iterable[str]) -> None:
        """Apply the edits so far, and bring predicates with all that they follow from up to date.

        The commit does all this by itself, so it is to be undone before.  Raises as `commit`.
        """
        if before := self._before():
            installed = self._rules_for(names)
            self._apply()
            engine = Engine(self._txn, installed, Encoder(self._txn), self._txn.threads, built={})
            engine.follow_for(names, before)

    def _apply(self) -> None:
        """Apply the edits to the relations themselves, which no index and no view follows yet."""
        for name, (actions, words) in self.composed().items():
            self._txn.apply(name, actions, words)

    def _before(self) -> dict[str, Tree]:
        """Return the former trees of the relations that rules know and that may have changed."""
        names = self._installed.extensional if self._reached else self._edits
        if self._maintainer is None:
            return {name: self._trees[name] for name in names if name in self._trees}
        relations, trees = self._txn.base.catalog.relations, self._txn.base.trees
        return {name: trees[relations[name].spec.tree_id] for name in names if name in relations}

    def _is_changed(self) -> bool:
        """Return whether relations that rules know, or columns, were changed through `inner`."""
        if not self._reached:
            return False
        others = self._maintainer is not None and self._txn.catalog is not self._txn.base.catalog
        return others or any(self._txn.tree(name) != tree for name, tree in self._before().items())

    def _apply_by(self, engine: Engine) -> None:
        """Apply the edits, and let all that an engine maintains follow. Raises MaintainError."""
        if self._is_changed():
            self._apply()
            engine.follow_changes(self._before())
        elif edits := self.composed():
            engine.apply_edits(edits)

    def commit(self) -> int:
        """Maintain every view, commit all as one version, and return it.  On an error nothing is
        changed.

        Raises FunctionConflictError, MaintainError, ClosedError; EditError if an installation or a
        preview does so.
        """
        self._alive()
        self._open = False
        try:
            if self._maintainer is None:
                raise EditError(
                    "these edits are committed by what asked for them, an installation or a preview"
                )
            if self._is_changed():
                self._apply()
                # the host of the rules follows all that has changed (ivm/host.py)
                return self._txn.commit()
            return self._maintainer.commit(self._txn, self._installed, self.composed())
        except BaseException as error:
            self._txn.rollback()
            if self._maintainer is not None and isinstance(error, MaintainError):
                self._maintainer.put_in_words(error)
            raise

    def rollback(self) -> None:
        """End the transaction without changing anything."""
        self._open = False
        self._txn.rollback()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if not self._open:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def _alive(self) -> None:
        if not self._open:
            raise ClosedError("the transaction has ended; begin another")

    def _relation(self, name: str) -> tuple[WritableRelation, bool]:
        """Return a relation to edit, and whether the rules know it."""
        if not self._open:
            self._alive()
        if name not in self._followed:
            self._rules_for((), [name])
        if name not in self._txn and self._maintainer is not None:
            self._installed = self._maintainer.rules.of(self._txn)  # an error says what there is
        read, installed = self._is_read(name), self._installed
        if (read or name not in self._txn) and not (
            name in installed.extensional or installed.predicate(name).extensional
        ):
            raise EditError(f"{name} is a view; change what it reads from, the view follows")
        return self._txn[name], read

    def _add(self, name: str, action: int, words: np.ndarray) -> None:
        if words.shape[1]:
            actions = np.empty(words.shape[1], np.int64)
            actions.fill(action)
            self._edits.setdefault(name, []).append((actions, words))

    def _composed(self, name: str, parts: list[Edits]) -> Edits:
        """Return one sorted edit per key.  Raises FunctionConflictError for a second value that
        was not `set`.
        """
        actions, rows = parts[0] if len(parts) == 1 else one_batch(parts)
        info, layout = self._txn.catalog.relations[name], self._installed.layouts.get(name)
        bare = layout is not None and layout.bare and self._is_read(name)
        if len(actions) == 1 and not (info.spec.values or bare) and actions[0] != TAKE:
            return actions, rows
        tree = self._txn.tree(name)
        if info.bag:
            return compose_bag(self._txn.pages, tree, actions, rows)
        if bare:
            return self._compose_bare(name, actions, rows)
        try:
            return compose(self._txn.pages, tree, actions, rows, self._txn.threads)
        except Clash as clash:
            raise self._conflict(name, clash.row, clash.other) from None

    def _compose_bare(self, name: str, actions: np.ndarray, rows: np.ndarray) -> Edits:
        """Return the edits of a function without keys, f[] = t, which has at most one value."""
        stored = [
            int(w)
            for batch in read_batches(self._txn.pages, self._txn.tree(name))
            for w in batch[0]
        ]
        values = list(stored)
        for action, word in zip(actions.tolist(), rows[0].tolist(), strict=True):
            if action == INSERT and values and values != [word]:
                raise self._conflict(name, np.array([word]), np.array(values))
            if action != TAKE or values == [word]:
                values = [] if action in (ERASE, TAKE) else [word]
        edits = [(ERASE, w) for w in stored if w not in values] + [(INSERT, w) for w in values]
        table = np.array(edits, np.int64).reshape(-1, 2).T.copy()
        return table[0], table[1:]

    def _conflict(self, name: str, row: np.ndarray, other: np.ndarray) -> FunctionConflictError:
        keys = len(row) - len(other)
        types = [str(column.type) for column in self._txn[name].schema.stored]
        shown = [self._txn.decode(t, row[c : c + 1])[0].as_py() for c, t in enumerate(types)]
        before = [
            self._txn.decode(t, other[c : c + 1])[0].as_py() for c, t in enumerate(types[keys:])
        ]
        given, stored = tuple(shown[keys:]), tuple(before)
        pair = (stored[0], given[0]) if len(given) == 1 else (stored, given)
        return FunctionConflictError(name, tuple(shown[:keys]), pair)


class Marks:
    """The savepoints of SQL in a transaction, by name; those within one end with it.

    They do not lead back to it: its buffers would stay until garbage is collected.
    """

    def __init__(self) -> None:
        self._open: list[tuple[str, AbstractContextManager[None]]] = []

    def knows(self, name: str) -> bool:
        """Return whether a savepoint has a name."""
        return any(known == name for known, _ in self._open)

    def set(self, name: str, savepoint: AbstractContextManager[None]) -> None:
        """Begin a savepoint; of several of one name the newest counts."""
        savepoint.__enter__()
        self._open.append((name, savepoint))

    def release(self, name: str) -> None:
        """Keep what was edited since a savepoint, and forget it."""
        for savepoint in self._ended(name):
            savepoint.__exit__(None, None, None)

    def go_back(self, name: str) -> None:
        """Undo what was edited since a savepoint, and forget it."""
        for savepoint in self._ended(name):
            error = _Undone()
            with suppress(_Undone):
                savepoint.__exit__(_Undone, error, None)

    def _ended(self, name: str) -> Iterator[AbstractContextManager[None]]:
        """Yield the newest savepoint of a name after those within it, none of which stays."""
        newest = ""
        while newest != name:
            newest, savepoint = self._open.pop()
            yield savepoint


class Sessions:
    """The transactions that BEGIN opened: at most one of each thread, and one of each task of
    asyncio.

    Other threads and tasks neither see its edits nor end it.  It is rolled back if its thread or
    task ends before.
    """

    def __init__(self) -> None:
        # what it holds ends with the thread, and a lock with its transaction
        self._of_thread = threading.local()
        self._of_tasks: WeakKeyDictionary[asyncio.Task[Any], Transaction] = WeakKeyDictionary()

    @property
    def open(self) -> Transaction | None:
        """The transaction of the thread or task that asks."""
        task = _task()
        return getattr(self._of_thread, "open", None) if task is None else self._of_tasks.get(task)

    def begin(self, txn: Transaction) -> None:
        """Let a transaction be that of this thread or task."""
        task = _task()
        if task is None:
            self._of_thread.open = txn
        else:
            self._of_tasks[task] = txn
            task.add_done_callback(self._abandon)

    def end(self) -> None:
        """Forget the transaction of this thread or task."""
        task = _task()
        if task is None:
            self._of_thread.open = None
        else:
            self._of_tasks.pop(task)
            task.remove_done_callback(self._abandon)

    def _abandon(self, task: asyncio.Task[Any]) -> None:
        """Roll back the transaction of a task that has ended."""
        self._of_tasks.pop(task).rollback()


def _task() -> asyncio.Task[Any] | None:
    """Return the task that runs in this thread, if any."""
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return None


def _only_erase(edits: Mapping[str, Edits]) -> bool:
    """Return whether all edits are deletions."""
    for actions, _ in edits.values():
        if len(actions) and (
            actions[0] != ERASE or (len(actions) > 1 and (actions != ERASE).any())
        ):
            return False
    return True


def _once(words: np.ndarray) -> np.ndarray:
    """Return rows int64[K, n] with the multiplicity 1."""
    return np.concatenate([words, np.ones((1, words.shape[1]), np.int64)])


def _are_empty(rows: Any) -> bool:
    """Return whether all rows are (), the key of a function without keys."""
    return (
        isinstance(rows, list)
        and bool(rows)
        and all(isinstance(row, tuple) and not row for row in rows)
    )
