"""A workspace: rules and data in one store file; every transaction leaves all views up to date.

with ivm.open("graph.pages") as ws:
    ws.install("edge(x, y) -> int(x), int(y). tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).", name="triangles")
    with ws.transaction() as txn:
        txn.insert("edge", [(1, 2), (2, 3), (1, 3)])
    ws["tri"].to_arrow()
"""

import asyncio
import os
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

import pagestore
from ivm.answer import Answer
from ivm.bag import MULTIPLICITY, Bag, Wide, read
from ivm.check.check import Progress, check, evaluate, no_progress, rebuild, rules_below, tree_difference
from ivm.engine.compile import compile
from ivm.engine.fill import Account, not_a_view
from ivm.engine.installed import Installed, Limits, Options
from ivm.engine.relations import Relations, declarations_of
from ivm.engine.stored import HOST, save
from ivm.errors import DivergenceError, EditError, IvmError, OptionError
from ivm.host import maintainers, record_dependants_everywhere
from ivm.installation import Removal, install, uninstall, warn
from ivm.join.join import within_memory
from ivm.lang.ir import ROPE, Predicate
from ivm.lang.types import TEXTS
from ivm.maintenance.maintain import distance, trace_of
from ivm.plan.planner import AUTO
from ivm.question import answer, check_options, understand
from ivm.rope import note_erased, rope_of
from ivm.sql.parameters import Parameters
from ivm.subscriptions import OnChange
from ivm.transaction import CollectedEdits, EditsOf, Maintainer, Transaction
from ivm.views.rope import ConcatRope, texts_of
from ivm.workspace_snapshot import WorkspaceSnapshot, workspace_html
from pagestore.errors import ReadOnlyError
from pagestore.host import (
    MAIN,
    EphemeralTransaction,
    Relation,
    Snapshot,
    Store,
    Type,
    Violation,
)


def open(path: str | os.PathLike[str], threads: int | None = None, **options: Any) -> "Workspace":
    """Open the workspace in a store file, or create it; other options as for `pagestore.open`.

    Up to `threads` threads share large pieces of work; by default one per core.  Raises pagestore's errors of opening,
    and RuleError if an installed text no longer compiles; with mode="r", when its rules are first needed.
    """
    store = pagestore.open(path, threads=threads, **options)
    try:
        workspace = Workspace(store, store.threads)
        if store.mode == "rw":
            record_dependants_everywhere(store, workspace._maintainer.rules)
        return workspace
    except BaseException:
        store.close()
        raise


class Workspace:
    """Rules and data in one store.  Close it, or use it in `with`."""

    def __init__(self, store: Store, threads: int = 1) -> None:
        self.store, self.threads = store, threads
        self._maintainer = Maintainer(store, threads)
        self._statements: Any = None  # those of SQL
        if store.mode == "rw":  # reading views needs no rules
            self._rules_now()
        maintainers.add(self._maintainer)

    # -- rules

    def install(
        self, text: str, name: str = "main", granularity: int = 1, maintenance: str = AUTO,
        rows_max: int | None = None, rounds_max: int | None = None, replace: bool = False,
        edit: Callable[[Transaction], None] | None = None,
    ) -> None:  # fmt: skip
        """Install declarations and rules under a name, fill the views, and run the text's edits, all in one commit.

        With `replace` a block of that name may exist. Its relations keep their rows, a view whose rules and inputs did
        not change keeps its pages, and blocks that read the old rules read the new ones.  `edit` may edit relations in
        the same commit, after the text: it is called with a transaction, which ends with the installation.

        With `granularity` g one sensitivity interval covers up to g consecutive operations, or operations on fewer than
        g keys: this takes less memory and more re-evaluation.  `maintenance` is "match" (sensitivity indices), "probe"
        (permuted indices instead) or "auto", whichever is estimated to cost less (see `explain`).
        Mutually recursive views may have at most `rows_max` rows, and a transaction may take at most `rounds_max`
        rounds to derive them, else it raises LimitError; by default, only recursion that computes values is limited.
        Raises RuleError with file, line and column, OptionError, MaintainError, or UninstallError if other blocks read
        what a replaced block no longer has; then nothing is changed.
        """
        check_options(granularity, maintenance, rows_max, rounds_max)
        options = Options(granularity, maintenance, (rows_max, rounds_max))
        with self.store.transaction(f"install {name}") as txn:
            txn.declare_maintained(HOST)
            rules = self.rules_of(txn)
            watched = self._maintainer.subscriptions
            done = install(txn, rules, name, text, options, replace, watched, self.strict, edit)
            note_erased(done.engine, watched, done.changes)
            warn(next(block.part.warnings for block in done.installed.blocks if block.name == name))
        self._remember(done.saved, done.installed, done.gone)
        self._maintainer.committed(done.engine, done.evaluated, done.changes)

    def uninstall(self, name: str, relations: bool = False, dry_run: bool = False) -> Removal:
        """Remove a block with its views, indices and subscriptions; return what is removed and what stays.

        The relations that its text declares stay in the store with their rows; with `relations` they are removed, too,
        except those that existed before the block. With `dry_run` nothing is removed. Raises UninstallError if other
        blocks read a view, or a relation that would be removed.
        """
        with self.store.transaction(f"uninstall {name}") as txn:
            txn.declare_maintained(HOST)
            saved, left, removal = uninstall(txn, self.rules_of(txn), name, relations)
            if dry_run:
                txn.rollback()
                return removal
        self._remember(saved, left)
        return removal

    def _remember(self, saved: str, installed: Installed, gone: Container[str] = ()) -> None:
        """Use other rules from now on; drop the statistics and subscriptions of removed predicates."""
        kept = self._maintainer
        kept.rules.remember(saved, installed)
        for name in [*kept.accounts, *kept.subscriptions]:
            if name in gone or name not in installed.program.predicates:
                kept.accounts.pop(name, None)
                kept.subscriptions.drop(name)

    @property
    def strict(self) -> bool:
        """Whether transactions raise RecomputeError rather than evaluate a view from scratch; may be set."""
        return self._maintainer.strict

    @strict.setter
    def strict(self, strict: bool) -> None:
        self._maintainer.strict = strict

    @property
    def evaluated(self) -> frozenset[str]:
        """The views that the newest transaction or installation evaluated from scratch."""
        return self._maintainer.evaluated

    @property
    def blocks(self) -> dict[str, str]:
        """Installed texts by name."""
        return {b.name: b.text for b in self._rules_now().blocks}

    @property
    def predicates(self) -> Mapping[str, Predicate]:
        """Every declared relation and function and every view, by name."""
        return {name: predicate for name, predicate in self._rules_now().program.predicates.items() if "$" not in name}

    # -- data

    def transaction(self, message: str | None = None) -> Transaction:
        """Begin a transaction over extensional predicates; its commit maintains every view."""
        txn = self.store.transaction(message)
        try:
            installed = self.rules_of(txn)
        except BaseException:
            txn.rollback()
            raise
        return Transaction(txn, installed, self._maintainer, partial(self._sql_in, None))

    def insert(self, name: str, rows: Any) -> int:
        """Add a row, given as a tuple, or rows, as one transaction; return its version.  Raises as Transaction."""
        return self._edited(name, "insert", rows)

    def delete(self, name: str, rows: Any) -> int:
        """Remove a row or key, given as a tuple, or several, as one transaction; return its version."""
        return self._edited(name, "delete", rows)

    def set(self, name: str, rows: Any) -> int:
        """Add a row, given as a tuple, or rows, replacing values, as one transaction; return its version."""
        return self._edited(name, "set", rows)

    def _edited(self, name: str, action: str, rows: Any) -> int:
        with self.transaction() as txn:
            getattr(txn, action)(name, [rows] if isinstance(rows, tuple) else rows)
            return txn.commit()

    def prepare(self, name: str) -> pagestore.Prepared:
        """Return an object that collects edits of a relation, row by row, and commits them as one transaction.

        >>> import ivm
        >>> with ivm.open(":memory:") as ws:
        ...     ws.install("edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, y), edge(y, z).")
        ...     put = ws.prepare("edge")
        ...     put.insert(1, 2)
        ...     put.insert(2, 3)
        ...     version = put.commit()  # or `await put.commit_async()`
        ...     list(ws["two"])
        [(1, 3)]
        """
        return pagestore.Prepared(self.transaction, partial(EditsOf, name=name))

    async def commit_async(self, edit: Callable[[Transaction], Any], message: str | None = None) -> int:
        """Call a function with a transaction, in a thread, and commit it; return the version.

        Commits that are awaited at the same time share syncs.  Nothing else may use the transaction.
        """

        def run() -> int:
            with self.transaction(message) as txn:
                edit(txn)
                return txn.commit()

        return await asyncio.to_thread(run)

    def transaction_async(self, message: str | None = None) -> CollectedEdits:
        """Return a transaction for `async with`: it collects edits, and commits them in a thread at the end.

        >>> import asyncio, ivm
        >>> async def add(ws):
        ...     async with ws.transaction_async() as txn:
        ...         txn.insert("edge", [(1, 2), (2, 3)])
        ...     return txn.version, list(ws["two"])
        >>> with ivm.open(":memory:") as ws:
        ...     ws.install("edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, y), edge(y, z).")
        ...     asyncio.run(add(ws))
        (2, [(1, 3)])
        """
        return CollectedEdits(partial(self.commit_async, message=message))

    def exec(self, text: str) -> int:
        """Run edits (`+edge(1, 2). -edge(3, 4). ^price["tea"] = 3.50.`) as one transaction; return its version.

        Relations of the store that no rule reads can be edited, too.
        """
        with self.store.snapshot() as snap:
            part = compile(text, self.rules_of(snap).program, "exec", Relations(snap), hinting=True)
        if part.rules or len(part.predicates) > len(part.stored):
            raise EditError("exec runs edits only; install declarations and rules, query questions")
        with self.transaction() as txn:
            txn.edit(part.edits)
            return txn.commit()

    def __getitem__(self, name: str) -> Any:
        """Return a relation or view in the newest version, a `Bag` if rows may be equal.  Raises UnknownViewError."""
        snap = self.store.snapshot()
        found = read(snap, name)
        return self._relation(snap, name) if found is None else found

    def rope(self, name: str, *key: Any) -> ConcatRope:
        """Return a concat group's text in the newest version: `str` reads it whole, iterating reads it piece by piece.

        Raises UnknownViewError for a view that is not a concat, KeyError if the group does not exist.
        """
        snap = self.store.snapshot()
        return rope_of(snap, self.rules_of(snap), name, key)

    def __contains__(self, name: object) -> bool:
        return name in self.predicates

    def __iter__(self) -> Iterator[str]:
        return iter(self.predicates)

    def at(self, version: int | str) -> WorkspaceSnapshot:
        """Return all relations and views as of a version or tag."""
        snap = self.store.at(version)
        return WorkspaceSnapshot(
            snap,
            lambda text: self._ask(self.store.sketch(snap.version), text),
            self.rules_of(snap).program.predicates,
            lambda name, key: rope_of(snap, self.rules_of(snap), name, key),
            partial(self._sql_in, snap.version, None),
        )

    def sql(self, text: str, parameters: Parameters = None, dialect: str = "duckdb") -> Answer | None:
        """Run statements of SQL; return the rows of the last one, None if it has none (docs/sql.md).

        Each statement is one transaction, except between BEGIN and COMMIT.  `parameters` is a list of values for `?`,
        or a dict for `:name`.  Dialects are duckdb, postgres, sqlite and spark.  Raises SqlError, MaintainError.
        """
        if self._statements is None:
            from ivm.sql.statements import Statements  # imports sqlglot, which others do not need

            self._statements = Statements(self)
        found: Answer | None = self._statements.run(text, parameters, dialect)
        return found

    def _sql_in(
        self, version: int | None, txn: Transaction | None, text: str, parameters: Parameters, dialect: str
    ) -> Answer | None:
        """Run statements over a version, or in a transaction."""
        from ivm.sql.statements import Statements

        return Statements(self, version, txn).run(text, parameters, dialect)

    def query(self, text: str, rows_max: int | None = None, rounds_max: int | None = None) -> Answer:
        """Evaluate rules once and store nothing: the answer is the head of the text's last rule.

        It takes no lock, so it does not wait for writers, and works with mode="r", too.  Limits are as for `install`.
        Raises RuleError, OptionError, MaintainError.
        """
        check_options(1, AUTO, rows_max, rounds_max)
        with within_memory("asking a question"):
            return self._ask(self.store.sketch(), text, (rows_max, rounds_max))

    def _ask(self, sketch: EphemeralTransaction, text: str, limits: Limits = (None, None)) -> Answer:
        with sketch:
            question = understand(sketch, self.rules_of(sketch), text, limits)
            found = answer(sketch, question, self.threads)
        warn(question.program.warnings, stacklevel=4)
        return found

    # -- statistics and checks

    def stats(self, name: str) -> dict[str, Any]:
        """Return statistics of a view: its rows, sensitivity rows, and the work of the last transaction on it.

        Raises UnknownViewError.
        """
        with self.store.snapshot() as snap:
            return self._stats(snap, name)

    def _stats(self, snap: Snapshot, name: str) -> dict[str, Any]:
        installed = self.rules_of(snap)
        installed.predicate(name)
        writers = [rule for rule in installed.rules if name in rule.writes]
        indices = [index for rule in writers for i in range(len(rule.plans)) for index in rule.sensitivity_names(i)]
        counts = {"rows": snap.tree(name).count, "sensitivity_rows": sum(snap.tree(index).count for index in indices)}
        return counts | asdict(self._maintainer.accounts.get(name, Account()))

    @within_memory("making a table")
    def evaluate(self, name: str) -> Answer:
        """Compute a view from the stored relations and views that it reads, and store nothing.

        `seconds` of the answer is the time it took.  Raises UnknownViewError for a relation, MaintainError.
        """
        import pyarrow as pa

        rules = self._rules_now()
        with self.store.sketch() if rules.stores(name) else self.store.snapshot() as source:
            installed = self.rules_of(source)
            predicate = installed.predicate(name)
            started = time.perf_counter()
            parts = evaluate(source, installed, name, self.threads)
            seconds = time.perf_counter() - started
            columns = [
                pa.chunked_array([source.decode(t, np.ascontiguousarray(part[c])) for part in parts], type=t.arrow)
                for c, t in enumerate(map(Type.parse, predicate.stored_types))
            ]
            if predicate.value == ROPE and (fold := installed.layouts[name].fold):
                columns[-1] = pa.chunked_array([texts_of(source, part, name, fold) for part in parts], pa.string())
            table = pa.table(columns, names=list(predicate.columns))
        if not {*TEXTS}.isdisjoint(predicate.types):  # words of texts have another order
            table = table.sort_by([(name, "ascending") for name in table.column_names])
        return Answer(table, seconds)

    def verify(self, name: str) -> None:
        """Compare a view, and the supports of its rows, with what follows from base relations alone.

        This rebuilds all views and indices that it depends on, in a temporary file.  Raises DivergenceError with a row
        that differs, UnknownViewError for a relation.
        """
        with self.store.sketch() as sketch:
            installed = self.rules_of(sketch)
            predicate = installed.predicate(name)
            if predicate.extensional:
                raise not_a_view(name)
            rebuild(sketch, installed, rules_below(installed, name), recording=False)
            if found := tree_difference(sketch, name, predicate.stored_types, installed.layouts[name].compared):
                raise DivergenceError(f"{name} is not what follows from scratch: {found.fact}; see `ivm fsck`")

    def declarations(self) -> dict[str, str | None]:
        """Return the declaration that rules infer for each relation of the store, by name; None if they cannot read it.

        >>> import ivm, pagestore, tempfile
        >>> path = tempfile.mkdtemp() + "/s.pages"
        >>> with pagestore.open(path) as store, store.transaction() as txn:
        ...     txn.create("price", "item: string, p: decimal(8,2)?", key="item").insert([("tea", None), ("pie", 3)])
        >>> with ivm.open(path) as workspace:
        ...     workspace.declarations(), list(workspace.query("q(i) <- price[i] = _."))
        ({'price': 'price[item] = p -> string(item), decimal(8,2)?(p).'}, [('pie',)])
        """
        with self.store.snapshot() as snap:
            return declarations_of(snap, self.rules_of(snap).program.predicates)

    def check(self, branch: str = MAIN, progress: Progress = no_progress) -> list[Violation]:
        """Compare all that is stored for rules with what follows from base relations (ivm/check/check.py).

        Returns the violations in a branch's newest version, none if all is right; `store.check` checks the pages.
        `progress` is called with a line for each step.  O(evaluating all rules), in a temporary file.
        """
        with self.store.sketch(branch) as sketch:
            return check(sketch, self.rules_of(sketch), progress)

    def repair(self, branch: str = MAIN, progress: Progress = no_progress) -> int:
        """Rebuild all that is stored for rules from base relations, in one commit; return its version.

        The scans of views are kept; subscribers are not notified.  Raises MaintainError if a rule fails on the current
        relations.
        """
        with self.store.transaction("repair", branch) as txn:
            txn.declare_maintained(HOST)
            installed = self.rules_of(txn)
            built = rebuild(txn, installed, installed.rules, progress=progress)
            save(txn, installed, built)
        return self.store.branches[branch]

    def trace(self, name: str, version: int | str | None = None) -> list[np.ndarray]:
        """Return the trace of a view's rules at a version, int64[columns, n] per plan (ivm/maintenance/maintain.py)."""
        with self.store.snapshot() if version is None else self.store.at(version) as snap:
            installed = self.rules_of(snap)
            installed.predicate(name)
            plans = [plan for rule in installed.rules if name in rule.writes for plan in rule.plans]
            return [trace_of(snap, plan) for plan in plans]

    def trace_distance(self, name: str, old: int | str, new: int | str) -> int:
        """Count the trace rows that differ between two versions, erased and inserted ones.  Raises IvmError."""
        before, after = self.trace(name, old), self.trace(name, new)
        if [*map(len, before)] != [*map(len, after)]:
            raise IvmError(f"{name} has other rules at {old} than at {new}: only traces of the same have a distance")
        return distance(before, after)

    def explain(self, name: str) -> str:
        """Explain in a text how a view, or a query (a text of rules), is evaluated and maintained, and why.

        Raises UnknownViewError, RuleError.
        """
        from ivm.explain import explain, explain_question

        if "<-" in name:
            with self.store.sketch() as sketch:
                return explain_question(sketch, self.rules_of(sketch), name)
        with self.store.snapshot() as snap:
            stats = self._stats(snap, name)
            return explain(self.rules_of(snap), name, stats, snap)

    def subscribe(self, name: str, on_change: OnChange) -> Callable[[], None]:
        """Call `on_change` after each commit that changed a view, with the changes as an Arrow table.

        The table has the view's columns and `_change_type` (insert or delete).  Returns a function that ends the
        subscription; so does uninstalling the view.  If `on_change` raises, the commit raises that error once every
        other subscriber has been called, and is still committed.  Raises ReadOnlyError with mode="r".
        """
        if self.store.mode == "r":
            raise ReadOnlyError('with mode="r" nothing is committed; subscribe where it is, or use store.diff')
        if not callable(on_change):
            raise OptionError(f"on_change={on_change!r}: a function of one table is called")
        self._rules_now().predicate(name)
        return self._maintainer.subscriptions.add(name, on_change)

    def changes(self, name: str, since: int | str | None = None) -> pagestore.Changes:
        """Return an iterator over what commits change in a relation or view, in any process; see Store.changes.

        Raises UnknownViewError, EditError for a view whose columns are in several relations, and as `at`.

        >>> import ivm, tempfile
        >>> with ivm.open(tempfile.mkdtemp() + "/w.pages") as ws:
        ...     ws.install("edge(x, y) -> int(x), int(y). tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).")
        ...     changes = ws.changes("tri")
        ...     version = ws.exec("+edge(1, 2). +edge(2, 3). +edge(1, 3).")
        ...     next(changes).rows.to_pylist()
        [{'x': 1, 'y': 2, 'z': 3, '_change_type': 'insert'}]
        """
        with self.store.snapshot() as snap:
            found = read(snap, name)
            if found is None:
                self.rules_of(snap).predicate(name)  # raises an error that lists what exists
            if isinstance(found, Wide):
                raise EditError(f"{name} has more columns than one relation holds: watch a view of fewer of them")
        return self.store.changes(name, since, counted=MULTIPLICITY if isinstance(found, Bag) else None)

    def _repr_html_(self) -> str:
        with self.store.snapshot() as snap:
            return workspace_html(snap, self.rules_of(snap).program.predicates)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside

    def rules_of(self, source: Snapshot | pagestore.Transaction) -> Installed:
        """Return the rules of a version."""
        return self._maintainer.rules.of(source)

    def _rules_now(self) -> Installed:
        """Return the rules of the newest version; another process may have installed them."""
        with self.store.snapshot() as snap:
            return self.rules_of(snap)

    def _relation(self, snap: Snapshot, name: str) -> Relation:
        if name not in snap:
            self.rules_of(snap).predicate(name)  # raises an error that lists what exists
        return snap[name]
