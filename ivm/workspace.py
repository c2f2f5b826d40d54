"""A workspace: rules and data in one store file; every transaction leaves all views up to date.

with ivm.open("graph.pages") as ws:
    ws.install("edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, y), edge(y, z).")
    with ws.transaction() as txn:
        txn.insert("edge", [(1, 2), (2, 3), (1, 3)])
    ws["two"].to_arrow()
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

import pagestore
from ivm.answer import Answer
from ivm.check.check import Progress, check, evaluate, no_progress, rebuild, tree_difference
from ivm.engine.engine import Engine
from ivm.engine.fill import not_a_view
from ivm.errors import (
    DivergenceError,
    EditError,
    IvmError,
    MaintainError,
    OptionError,
    RuleError,
    RuleWarning,
    UninstallError,
    UnknownViewError,
)
from ivm.host import maintainers, record_dependants_everywhere
from ivm.installation import Blocks, Removal, compiled, warn
from ivm.lang.ir import ROPE, Predicate
from ivm.lang.program import Program
from ivm.lang.types import has_ids
from ivm.memory import allowing, within_memory, within_seconds
from ivm.names import CATALOG, moment_of, names_of, stored_as
from ivm.plan.plan import Plan
from ivm.plan.planner import AUTO
from ivm.prepared import PreparedEdits, ask
from ivm.question import answer, check_options, understand
from ivm.rope import rope_of
from ivm.rules.account import Account
from ivm.rules.compile import Given
from ivm.rules.constraints import violated
from ivm.rules.installed import Installed, InstallOptions, Limits, Options
from ivm.rules.relations import declarations_of
from ivm.rules.steps import rules_below
from ivm.rules.stored import HOST, KnownRules, built_sizes, save
from ivm.sql.prepared.cache import Asked
from ivm.subscriptions import OnChange
from ivm.terms.encoder import Encoder
from ivm.transaction import Maintainer, Sessions, Transaction
from ivm.trial import CollectedEdits, Edits, Preview, Trial, add_edits, edits_in
from ivm.ways.match import distance, trace_of
from ivm.ways.rope import ConcatRope, texts_of
from ivm.why.operations import Operation, operations
from ivm.wide import Parameters, Wide, changes, read
from ivm.workspace_snapshot import WorkspaceSnapshot, whole, workspace_html
from pagestore.errors import ReadOnlyError
from pagestore.host import (
    ACTIONS,
    ERASE,
    FEW,
    INSERT,
    MAIN,
    SET,
    EphemeralTransaction,
    Relation,
    Snapshot,
    Store,
    Type,
    Violation,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from ivm.sql.prepared.statement import PreparedStatement, PreparedTransaction
    from ivm.why.why import Asker, Cause, Row, Why
    from ivm.why.wishes import Suggestion

Dialect = Literal["duckdb", "postgres", "sqlite", "spark"]
NAMES_MAX = 1 << 10  # relations whose edits have what they need kept


def open(
    path: str | os.PathLike[str],
    threads: int | None = None,
    memory: int | None = None,
    *,
    mode: Literal["rw", "r"] = "rw",
    page_size: int | None = None,
    sync: Literal["full", "commit", "off"] = "full",
    retain: int | Literal["all"] | None = None,
    create: bool = True,
    timeout: float = 0.0,
    exclusive: bool = False,
    gather: float = 0.0,
    branch: str = MAIN,
) -> Workspace:
    """Open the workspace in a store file, or create it; the named options are those of
    `pagestore.open`.

    Up to `threads` threads share large pieces of work; by default one per core.  The rows of one
    evaluation may take `memory` bytes, by default a quarter of what the machine, a control group or
    `ulimit` allows; beyond that it raises RoomError.  Rules are compiled when something needs them,
    which raises RuleError if a text no longer compiles.  Raises pagestore's errors of opening,
    OptionError, IvmError.

    >>> import ivm
    >>> with ivm.open(":memory:") as ws:  # or the path of a file
    ...     ws.install("edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, y), edge(y, z).")
    ...     version = ws.insert("edge", [(1, 2), (2, 3)])
    ...     list(ws["two"])
    [(1, 3)]
    """
    if memory is not None and (not isinstance(memory, int) or memory < 1):
        raise OptionError(f"memory={memory!r}: it is a whole number of bytes, 1 or more, or None")
    store = pagestore.open(
        path, mode, page_size, sync, retain, create, threads, timeout, exclusive, gather, branch
    )
    try:
        workspace = Workspace(store, store.threads, memory)
        if store.mode == "rw":
            record_dependants_everywhere(store, workspace.rules)
        return workspace
    except BaseException:
        store.close()
        raise


class Workspace:
    """Rules and data in one store.  Close it, or use it in `with`."""

    def __init__(
        self,
        store: Store,
        threads: int = 1,
        memory: int | None = None,
        rules: KnownRules | None = None,
        files_allowed: bool = True,
    ) -> None:
        """Take a store, or one that is on a branch; `rules` are those compiled already, and
        `files_allowed`, which may be set, says whether statements may read and write files.
        """
        self.store, self.threads = store, threads
        self.memory, self.files_allowed = memory, files_allowed
        self._maintainer = Maintainer(store, threads, memory, rules)
        self.rules = self._maintainer.rules  # of the versions used last
        self._maintainer.put_in_words = self._put_in_words
        self._sessions = Sessions()
        self._asked = Asked()
        self._prepared: dict[str, PreparedEdits] = {}
        if store.mode == "rw":
            with store.snapshot() as snap:
                if not self.rules.saved(
                    snap
                ).saved.are_linked:  # else compiled when they are needed
                    self.rules_of(snap)
        maintainers.add(self._maintainer)

    # -- rules

    def install(
        self,
        text: Given,
        name: str = "main",
        granularity: int = 1,
        maintenance: Literal["auto", "match", "probe"] = "auto",
        rows_max: int | None = None,
        rounds_max: int | None = None,
        replace: bool = False,
        edit: Callable[[Transaction], None] | None = None,
    ) -> None:
        """Install declarations and rules under a name, fill the views, and run the text's edits,
        all in one commit.

        With `replace` a block of that name may exist. Its relations keep their rows, a view whose
        rules and inputs did not change keeps its pages, and blocks that read the old rules read the
        new ones.  `edit` may edit relations in the same commit, after the text: it is called with a
        transaction, which ends with the installation.

        With `granularity` g one sensitivity interval covers up to g consecutive operations, or
        operations on fewer than g keys: this takes less memory and more re-evaluation.
        `maintenance` is "match" (sensitivity indices), "probe" (permuted indices instead) or
        "auto", whichever is estimated to cost less (see `explain`). Mutually recursive views may
        have at most `rows_max` rows, and a transaction may take at most `rounds_max` rounds to
        derive them, else it raises LimitError; by default, only recursion that computes values is
        limited. Raises RuleError with file, line and column, OptionError, MaintainError, or
        UninstallError if other blocks read what a replaced block no longer has; then nothing is
        changed.

        >>> import ivm
        >>> ws = ivm.open(":memory:")
        >>> ws.install("paid[who] = x -> string(who), int(x). rich(who) <- paid[who] = x, x > 10.", name="shop")
        >>> ws.install("paid[who] = x -> string(who), int(x). rich(who) <- paid[who] = x, x > 5.", "shop", replace=True)
        """
        check_options(granularity, maintenance, rows_max, rounds_max)
        how = Options(granularity, maintenance, (rows_max, rounds_max))
        with self._blocks(f"install {name}") as blocks:
            blocks.install(text, name, how, replace, edit)

    @contextmanager
    def _blocks(self, message: str) -> Iterator[Blocks]:
        """Let blocks come and go in one transaction."""
        with self.store.transaction(message) as txn, allowing(self.memory):
            blocks = Blocks(txn, self.rules, self._maintainer.subscriptions, self.strict)
            yield blocks
        if blocks.saved is not None:
            self._maintainer.remember(
                blocks.saved, {name for done in blocks.done for name in done.gone}
            )
        for done in blocks.done:
            self._maintainer.committed(done.engine, done.evaluated, done.changes)

    def replace(
        self,
        name: str,
        text: str,
        edit: Callable[[Transaction], None] | None = None,
        **how: Unpack[InstallOptions],
    ) -> None:
        """Install a text instead of the block of a name, if there is one: `install` with `replace`,
        and its options.

        Views whose rules and inputs are the same keep their pages; of rules that come or go, only
        these are evaluated.
        """
        self.install(text, name, replace=True, edit=edit, **how)

    def lint(
        self, texts: Mapping[str, str]
    ) -> list[tuple[str, RuleError | UninstallError | RuleWarning]]:
        """Compile texts by name as `install` would with `replace`, one after the other, and change
        nothing.

        Returns what is wrong, or hardly meant, with the name of the text; the `where` of an error
        is its place. Works with mode="r", too.

        >>> import ivm
        >>> [(name, error.reason) for name, error in ivm.open(":memory:").lint({"a": "p(x) <- q(x)."})]
        [('a', 'nothing declares or derives q: declare it, as in q(x) -> int(x).')]
        """
        with self.store.sketch() as sketch:
            return compiled(sketch, self.rules_of(sketch), texts)

    def uninstall(self, name: str, relations: bool = False, dry_run: bool = False) -> Removal:
        """Remove a block with its views, indices and subscriptions; return what is removed and what
        stays.

        The relations that its text declares stay in the store with their rows; with `relations`
        they are removed, too, except those that existed before the block. With `dry_run` nothing is
        removed. Raises UninstallError if other blocks read a view, or a relation that would be
        removed.
        """
        with self._blocks(f"uninstall {name}") as blocks:
            removal = blocks.uninstall(name, relations)
            if dry_run:
                blocks.txn.rollback()
                blocks.saved = None
        return removal

    def replan(self) -> None:
        """Make the plans of all rules anew, for the rows that relations have now, with the indices
        that they need.

        Transactions do so themselves for rules whose relations have eight times the rows that the
        plans were made for, or an eighth (see `explain`).  O(n log n) for each new index; no view
        is evaluated, except to build sensitivity indices.  Raises MaintainError.
        """
        with self.store.transaction("replan") as txn, allowing(self.memory):
            txn.declare_maintained(HOST)
            engine = Engine(
                txn, self.rules_of(txn), Encoder(txn), self.threads, built=built_sizes(txn)
            )
            engine.replan.follow_data([rule for rule in engine.installed.rules if rule.plans])
            saved = save(txn, engine.installed, engine.built)
        self._maintainer.remember(saved)

    @property
    def strict(self) -> bool:
        """Whether transactions raise RecomputeError, not evaluate a view anew; may be set."""
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
    def constraints(self) -> tuple[str, ...]:
        """The texts of all installed constraints."""
        return tuple(rule.text for rule in self._rules_now().constraints.values())

    def violations(self) -> dict[str, Answer]:
        """Return what violates the installed constraints, by their texts; none if nothing does.

        No transaction and no installation leaves any, but a store that was repaired may have some.
        """
        with self.store.snapshot() as snap:
            broken = violated(snap, self.rules_of(snap)).items()
            return {rule.text: Answer(snap[view].to_arrow(), 0.0) for view, rule in broken}

    @property
    def predicates(self) -> Mapping[str, Predicate]:
        """Every declared relation, function and view, by name, but views in several relations."""
        return self._rules_now().named

    # -- data

    def on(self, branch: str) -> Workspace:
        """Return the workspace of another branch of the store, with the rules installed there.

        All its methods read, edit and install on that branch.  It shares the open file: closing it
        does nothing.  Raises MissingError.

        >>> import ivm
        >>> ws = ivm.open(":memory:")
        >>> ws.install("paid[who] = x -> string(who), int(x).")
        >>> _ = ws.insert("paid", ("ada", 7))
        >>> ws.store.branch("trial")
        >>> trial = ws.on("trial")
        >>> trial.install("total[] = t <- agg<<t = sum(x)>> paid[_] = x.", "totals")
        >>> _ = trial.insert("paid", ("bob", 3))
        >>> list(trial["total"]), [*ws], len(ws["paid"])
        ([(10,)], ['paid'], 1)
        """
        return Workspace(
            self.store.on(branch), self.threads, self.memory, self.rules, self.files_allowed
        )

    def what_if(self, branch: str | None = None) -> Trial:
        """Begin edits that are never committed, to see what they would change; for `with`.

        It takes no lock, so it does not wait for writers, and works with mode="r", too.

        >>> import ivm
        >>> ws = ivm.open(":memory:")
        >>> ws.install("edge(x, y) -> int(x), int(y).  hop(x, z) <- edge(x, y), edge(y, z).  +edge(1, 2).")
        >>> with ws.what_if() as trial:
        ...     trial.insert("edge", [(2, 3)])
        ...     trial.changes("hop").to_pylist(), list(trial["hop"])
        ([{'x': 1, 'z': 3, '_change_type': 'insert'}], [(1, 3)])
        >>> list(ws["hop"])
        []
        """
        sketch = self.store.sketch(branch)
        try:
            return Trial(sketch, self.rules_of(sketch), partial(self._sql_in, None), self.memory)
        except BaseException:
            sketch.rollback()
            raise

    def transaction(self, message: str | None = None, branch: str | None = None) -> Transaction:
        """Begin a transaction over extensional predicates; its commit maintains every view.

        >>> import ivm
        >>> ws = ivm.open(":memory:")
        >>> ws.install("paid[who] = x -> string(who), int(x). total[] = t <- agg<<t = sum(x)>> paid[_] = x.")
        >>> with ws.transaction("monday") as txn:
        ...     txn.insert("paid", [("ada", 7), ("bob", 3)])
        ...     txn.delete("paid", [("bob",)])
        >>> list(ws["total"])
        [(7,)]
        """
        return self._maintainer.begin(message, branch, partial(self._sql_in, None))

    def __getitem__(self, name: str) -> Any:
        """Return a relation or view in the newest version.  Raises UnknownViewError."""
        snap = self.store.snapshot()
        wide = read(snap, whole(snap, name))
        return self._relation(snap, name) if wide is None else wide

    def tick(self, moment: datetime | None = None, branch: str | None = None) -> int:
        """Move the clock of the kept views that have one, to now or to another moment; return the
        newest version.

        `now()` and `current_date` in a kept view mean where the clock is. It moves with each tick,
        and with a new view that reads it. A store without such a view has no clock, and nothing is
        committed. Views follow as they do an edit: what compares a moment with the clock by a
        window costs the rows within it, before and after. Raises EditError for a moment without a
        zone, MaintainError.

        >>> import ivm
        >>> from datetime import datetime, timezone
        >>> ws = ivm.open(":memory:")
        >>> ws.sql("CREATE TABLE due (id INT PRIMARY KEY, at TIMESTAMP NOT NULL)")
        >>> ws.sql("CREATE MATERIALIZED VIEW late AS SELECT id FROM due WHERE at < now()")
        >>> _ = ws.sql("INSERT INTO due VALUES (1, '2100-01-01'), (2, '2100-06-01')")
        >>> version = ws.tick(datetime(2100, 3, 1, tzinfo=timezone.utc))
        >>> list(ws["late"]), str(ws.moment)
        ([(1,)], '2100-03-01 00:00:00+00:00')
        """
        from ivm.sql.functions.clock import tick  # imports sqlglot, which others do not need

        return tick(self.store, moment, branch)

    @property
    def moment(self) -> datetime | None:
        """The moment that kept views with a clock answer for; None if there is none. `at` has that
        of another version.
        """
        return moment_of(self.store.snapshot())

    def rope(self, name: str, *key: Any) -> ConcatRope:
        """Return a concat group's text in the newest version: `str` reads it whole, iterating reads
        it piece by piece.

        Raises UnknownViewError for a view that is not a concat, KeyError if the group does not
        exist.
        """
        snap = self.store.snapshot()
        return rope_of(snap, self.rules_of(snap), name, key)

    def __contains__(self, name: object) -> bool:
        return name in [*self]

    def __iter__(self) -> Iterator[str]:
        with self.store.snapshot() as snap:
            return iter(names_of(snap, self.blocks))

    def at(self, version: int | str | None = None, branch: str | None = None) -> WorkspaceSnapshot:
        """Return all relations and views as of a version, tag or branch, by default the newest.

        Raises VersionError, MissingError; OptionError for both a version and a branch.
        """
        if version is not None and branch is not None:
            raise OptionError("at takes a version or a branch: a version is on one branch already")
        snap = self.store.snapshot(branch) if version is None else self.store.at(version)
        return WorkspaceSnapshot(
            snap,
            lambda text, parameters=None: self._ask(
                self.store.sketch(snap.version), text, parameters
            ),
            self.rules_of(snap).named,
            lambda name, key: rope_of(snap, self.rules_of(snap), name, key),
            partial(self._sql_in, snap.version, None),
        )

    def sql(
        self,
        text: str,
        parameters: Parameters = None,
        dialect: Dialect = "duckdb",
        incremental: str = "auto",
        timeout: float | None = None,
    ) -> Answer | None:
        """Run statements of SQL; return the rows of the last one, None if it has none
        (docs/sql.md).

        Each statement is one transaction, except between BEGIN and COMMIT.  `parameters` is a list
        of values for `?`, or a dict for `:name`.  Dialects are duckdb, postgres, sqlite and spark.
        With incremental="strict" a kept view is refused if an edit may cost more than its change,
        as under a window.  The statement that runs after `timeout` seconds ends in a LimitError,
        and nothing of it is kept.  Raises SqlError, MaintainError.

        >>> ws = open(":memory:")
        >>> list(ws.sql("CREATE TABLE paid (cents INT); INSERT INTO paid VALUES (?); SELECT * FROM paid", [250]))
        [(250,)]
        """
        from ivm.sql.statements import Statements  # imports sqlglot, which others do not need

        with allowing(self.memory), within_seconds(timeout):
            return Statements(self, sessions=self._sessions, asked=self._asked).run(
                text, parameters, dialect, incremental
            )

    def prepare_sql(
        self, text: str, dialect: Dialect = "duckdb", inside: Transaction | None = None
    ) -> PreparedStatement:
        """Return a statement of SQL to run with other values each time, alone or `inside` a
        transaction.

        Raises SqlError if it does not parse.

        >>> ws = open(":memory:")
        >>> ws.sql("CREATE TABLE paid (id INT PRIMARY KEY, cents INT)")
        >>> ws.prepare_sql("INSERT INTO paid VALUES (?, ?)").executemany([(1, 250), (2, 300)])
        2
        >>> list(ws.prepare_sql("SELECT cents FROM paid WHERE id = ?").execute([2]))
        [(300,)]
        """
        from ivm.sql.prepared.statement import PreparedStatement
        from ivm.sql.statements import Statements

        made = Statements(self, None, inside, None if inside else self._sessions, self._asked)
        return PreparedStatement(made.run, made.run_many, text, dialect, self.memory)

    def prepare_transaction(self, *texts: str, dialect: Dialect = "duckdb") -> PreparedTransaction:
        """Return statements of SQL that edit, to be one transaction with other values each time:
        made if each of them changes a row, else nothing of it is done.

        Each statement is given all parameters, by number (`$1`) or name.  Transactions that threads
        run at the same time are committed together.  Raises SqlError if a text does not parse.

        >>> ws = open(":memory:")
        >>> ws.sql("CREATE TABLE account (id INT PRIMARY KEY, cents INT)")
        >>> ws.insert("account", [(1, 250), (2, 0)])
        2
        >>> move = ws.prepare_transaction(
        ...     "UPDATE account SET cents = cents - $3 WHERE id = $1 AND cents >= $3",
        ...     "UPDATE account SET cents = cents + $3 WHERE id = $2",
        ... )
        >>> move.executemany([(1, 2, 200), (1, 2, 100), (2, 1, 150)]), list(ws["account"])
        ([True, False, True], [(1, 200), (2, 50)])
        """
        from ivm.sql.statements import Statements

        return Statements(self, asked=self._asked).prepared(texts, dialect, self.memory)

    @property
    def in_sql_transaction(self) -> bool:
        """Whether a BEGIN of `sql`, in this thread or task, waits for its COMMIT or ROLLBACK."""
        return self._sessions.open is not None

    def _sql_in(
        self,
        version: int | None,
        txn: Transaction | None,
        text: str,
        parameters: Parameters,
        dialect: str,
    ) -> Answer | None:
        """Run statements over a version, or in a transaction."""
        from ivm.sql.statements import Statements

        with allowing(self.memory):
            return Statements(self, version, txn, asked=self._asked if txn else None).run(
                text, parameters, dialect
            )

    def query(
        self,
        text: str,
        parameters: Mapping[str, Any] | None = None,
        rows_max: int | None = None,
        rounds_max: int | None = None,
        branch: str | None = None,
    ) -> Answer:
        """Evaluate rules once and store nothing: the answer is the head of the text's last rule.

        `parameters` has the values of `$name` in bodies. A text that is asked again, also with
        others of the same types, is not compiled again. It takes no lock, so it does not wait for
        writers, and works with mode="r", too.  Limits are as for `install`. Raises RuleError,
        OptionError, MaintainError.

        >>> import ivm
        >>> with ivm.open(":memory:") as ws:
        ...     ws.install("edge(x, y) -> int(x), int(y). +edge(1, 2). +edge(2, 3).")
        ...     list(ws.query("q(x, z) <- edge(x, y), edge(y, z)."))
        ...     list(ws.query("q(y) <- edge($from, y).", {"from": 2}))
        [(1, 3)]
        [(3,)]
        """
        check_options(1, AUTO, rows_max, rounds_max)
        with within_memory("asking a question"):
            return self._ask(self.store.sketch(branch), text, parameters, (rows_max, rounds_max))

    def _ask(
        self,
        sketch: EphemeralTransaction,
        text: str,
        parameters: Mapping[str, Any] | None = None,
        limits: Limits = (None, None),
    ) -> Answer:
        with sketch, allowing(self.memory):
            reply, warnings = ask(self._maintainer, self._asked, sketch, text, parameters, limits)
        warn(warnings, stacklevel=4)
        return reply

    # -- statistics and checks

    def stats(self, name: str) -> dict[str, Any]:
        """Return statistics of a view: its rows, sensitivity rows, and the work of the last
        transaction on it.

        Of prepared commits in a row only the newest is known, without its time.  Raises
        UnknownViewError.
        """
        with self.store.snapshot() as snap:
            return self._stats(snap, name)

    def _stats(self, snap: Snapshot, name: str) -> dict[str, Any]:
        installed, name = self.rules_of(snap), stored_as(snap, name)[0]
        if name not in snap:
            installed.predicate(name, snap)
        name = installed.whole(name)
        writers = [rule for rule in installed.rules if name in rule.writes]
        indices = [
            index
            for rule in writers
            for i in range(len(rule.plans))
            for index in rule.sensitivity_names(i)
        ]
        counts = {
            "rows": snap.tree(name).count,
            "sensitivity_rows": sum(snap.tree(index).count for index in indices),
        }
        return counts | asdict(self._maintainer.accounts.get(name, Account()))

    @within_memory("making a table")
    def evaluate(self, name: str) -> Answer:
        """Compute a view from the stored relations and views that it reads, and store nothing.

        `seconds` of the answer is the time it took.  Raises UnknownViewError for a relation,
        MaintainError.
        """
        import pyarrow as pa

        rules = self._rules_now()
        with (
            self.store.sketch()
            if rules.stores(rules.whole(name))
            else self.store.snapshot() as source
        ):
            installed = self.rules_of(source)
            name = installed.whole(name)
            predicate = installed.predicate(name, source)
            started = time.perf_counter()
            with allowing(self.memory):
                parts = evaluate(source, installed, name, self.threads)
            seconds = time.perf_counter() - started
            columns = [
                pa.chunked_array(
                    [source.decode(t, np.ascontiguousarray(part[c])) for part in parts],
                    type=t.arrow,
                )
                for c, t in enumerate(map(Type.parse, predicate.stored_types))
            ]
            if predicate.value == ROPE and (fold := installed.layouts[name].fold):
                columns[-1] = pa.chunked_array(
                    [texts_of(source, part, name, fold) for part in parts], pa.string()
                )
            table = pa.table(columns, names=list(predicate.columns))
        if any(map(has_ids, predicate.types)):  # words of texts have another order
            table = table.sort_by([(name, "ascending") for name in table.column_names])
        return Answer(table, seconds)

    def verify(self, name: str) -> None:
        """Compare a view, and the supports of its rows, with what follows from base relations
        alone.

        This rebuilds all views and indices that it depends on, in a temporary file.  Raises
        DivergenceError with a row that differs, UnknownViewError for a relation.
        """
        with self.store.sketch() as sketch, allowing(self.memory):
            installed = self.rules_of(sketch)
            name = installed.whole(name)
            predicate = installed.predicate(name, sketch)
            if predicate.extensional:
                raise not_a_view(name)
            rebuild(sketch, installed, rules_below(installed, [name]), recording=False)
            if difference := tree_difference(
                sketch, name, predicate.stored_types, installed.layouts[name].compared
            ):
                raise DivergenceError(
                    f"{name} is not what follows from scratch: {difference.fact}; see `ivm fsck`"
                )

    def declarations(self) -> dict[str, str | None]:
        """Return the declaration that rules infer for each relation of the store, by name; None if
        they cannot read it.

        >>> import ivm, pagestore
        >>> with pagestore.open("s.pages") as store, store.transaction() as txn:
        ...     txn.create("price", "item: string, p: decimal(8,2)?", key="item").insert([("tea", None), ("pie", 3)])
        >>> with ivm.open("s.pages") as workspace:
        ...     workspace.declarations(), list(workspace.query("q(i) <- price[i] = _."))
        ({'price': 'price[item] = p -> string(item), decimal(8,2)?(p).'}, [('pie',)])
        """
        with self.store.snapshot() as snap:
            return declarations_of(snap, self.rules_of(snap).program.predicates)

    def check(self, branch: str | None = None, progress: Progress = no_progress) -> list[Violation]:
        """Compare all that is stored for rules with what follows from base relations
        (ivm/check/check.py).

        Returns the violations in a branch's newest version, none if all is right; `store.check`
        checks the pages. `progress` is called with a line for each step.  O(evaluating all rules),
        in a temporary file.
        """
        with self.store.sketch(branch) as sketch, allowing(self.memory):
            return check(sketch, self.rules_of(sketch), progress)

    def repair(self, branch: str | None = None, progress: Progress = no_progress) -> int:
        """Rebuild all that is stored for rules from base relations, in one commit; return its
        version.

        The scans of views are kept; subscribers are not notified.  Raises MaintainError if a rule
        fails on the current relations.
        """
        with self.store.transaction("repair", branch) as txn, allowing(self.memory):
            txn.declare_maintained(HOST)
            installed = self.rules_of(txn)
            built = rebuild(txn, installed, installed.rules, progress=progress)
            save(txn, installed, built)
        return self.store.on(branch).version if branch else self.store.version

    def trace(
        self, name: str, version: int | str | None = None, until: int | str | None = None
    ) -> list[Operation]:
        """Return what iterators do, one operation after the other, when a view's rules are
        evaluated at a version: its trace (ivm/why/operations.py).

        With `until`, another version, those are touched that the changes from the one to the other
        hit. Raises UnknownViewError.  O(n log n) for n operations.

        >>> import ivm
        >>> with ivm.open(":memory:") as ws:
        ...     ws.install("a(x) -> int(x). b(x) -> int(x). c(x) <- a(x), b(x). +a(1). +a(4). +b(4).")
        ...     for step in ws.trace("c"):
        ...         print(step)
        a(x)  x  open    [-inf, 1]
        b(x)  x  open    [-inf, 4]
        a(x)  x  seek    [4, 4]
        a(x)  x  next    [4, +inf]
        """
        with (
            self._at(version) as snap,
            nullcontext() if until is None else self._at(until) as after,
        ):
            return [*operations(snap, self.rules_of(snap), self._plans_of(snap, name), after)]

    def trace_distance(self, name: str, old: int | str, new: int | str) -> int:
        """Count the trace rows that two versions differ by, erased or inserted. Raises IvmError."""
        with self._at(old) as before, self._at(new) as after:
            plans = self._plans_of(before, name), self._plans_of(after, name)
            if [plan.tries for plan in plans[0]] != [plan.tries for plan in plans[1]]:
                raise IvmError(
                    f"{name} has other rules at {old} than at {new}, or another join order: "
                    f"only traces of the same have a distance"
                )
            return sum(
                distance(trace_of(before, plan), trace_of(after, other))
                for plan, other in zip(*plans, strict=True)
            )

    def _at(self, version: int | str | None) -> Snapshot:
        """Return a version of the store, the newest if None."""
        return self.store.snapshot() if version is None else self.store.at(version)

    def _plans_of(self, snap: Snapshot, name: str) -> list[Plan]:
        """Return the plans of a view's rules at a version.  Raises UnknownViewError."""
        installed = self.rules_of(snap)
        if name not in installed.program.predicates:
            raise UnknownViewError(f"version {snap.version} has no view {name!r}")
        return [plan for rule in installed.rules if name in rule.writes for plan in rule.plans]

    def explain(self, name: str) -> str:
        """Explain in a text how a view, or a query (a text of rules), is evaluated and maintained,
        and why.

        Raises UnknownViewError, RuleError.
        """
        from ivm.explain import explain, explain_question

        if "<-" in name:
            with self.store.sketch() as sketch:
                return explain_question(sketch, self.rules_of(sketch), name)
        with self.store.snapshot() as snap:
            views = [(view, self._stats(snap, view)) for view in stored_as(snap, name)]
            return "\n".join(explain(self.rules_of(snap), one, stats, snap) for one, stats in views)

    def why(
        self, fact: str, row: Row | None = None, version: int | str | None = None, most: int = 1
    ) -> Why:
        """Say why a row is in a view: its proofs down to rows of relations, with the version that
        brought each.

        `fact` is written as in rules, `_` being any value, as a query of SQL (`SELECT * FROM total
        WHERE ...`), or as the name of a view, whose `row` is then given by its first values or by
        name.  The smallest of its derivations come first; `most` are followed down.  For a row that
        is not there the answer says which atoms fail, and the smallest sets of insertions that
        would bring it, each of which was tried as by `preview`. Raises UnknownViewError, EditError,
        RuleError, SqlError.

        >>> import ivm
        >>> ws = ivm.open(":memory:")
        >>> ws.install("edge(x, y) -> int(x), int(y).  hop(x, z) <- edge(x, y), edge(y, z). +edge(1, 2). +edge(2, 3).")
        >>> print(ws.why("hop(1, 3)"))
        hop(1, 3) is in version 1
        by hop(x, z) <- edge(x, y), edge(y, z).
        ├─ edge(1, 2)   since version 1
        └─ edge(2, 3)   since version 1
        >>> ws.why("hop", (2, 4)).data["insertions"]
        [['+edge(3, 4)']]
        """
        if fact.lstrip()[:6].upper() == "SELECT":
            from ivm.sql.statements import row_of

            fact, row = row_of(
                fact, self.predicates, self.sql if version is None else self.at(version).sql
            )
        return self._asker(version).why(fact, row, most)

    def make(self, wish: str) -> list[Suggestion]:
        """Return the smallest edits that bring about what is wished of a view: a row is to be there,
        or with a minus not to be. Nothing is changed.

        Each was tried as by `what_if`, and says what it changes; those that change least come
        first, and `commit` makes one. There are at most three edits in each; none are found if it
        takes more, or the wish is so already. Rows are written as in `why`. Raises UnknownViewError,
        EditError, RuleError.

        >>> import ivm
        >>> ws = ivm.open(":memory:")
        >>> ws.install("paid[who] = n -> string(who), int(n). total[] = t <- agg<<t = sum(n)>> paid[_] = n.")
        >>> version = ws.exec('+paid["ada"] = 15. +paid["bob"] = 1.')
        >>> str(ws.make("total[] = 1")[0])
        '-paid["ada"] = 15.'
        """
        from ivm.why.wishes import Wishes

        def edit(trial: Trial, edits: str) -> None:
            if edits:
                self._make(edits, trial)

        commit = partial(partial, self.commit_at)
        asker = self._asker(None)
        return Wishes(asker, self.threads, self.what_if, edit, commit).find(wish)

    def why_changed(self, view: str, old: int | str, new: int | str | None = None) -> list[Cause]:
        """Return the rows of a view that came and went between two versions, each with the edits
        responsible.

        Those are the edits in the smallest proof of a row, in the version that has it.  Raises
        UnknownViewError, VersionError.

        >>> import ivm
        >>> ws = ivm.open(":memory:")
        >>> ws.install("edge(x, y) -> int(x), int(y).  hop(x, z) <- edge(x, y), edge(y, z). +edge(1, 2). +edge(2, 3).")
        >>> version = ws.exec("-edge(2, 3).  +edge(2, 4).")
        >>> for change in ws.why_changed("hop", version - 1):
        ...     print("+" if change.inserted else "-", change.row, *change.edits)
        - (1, 3) -edge(2, 3)
        + (1, 4) +edge(2, 4)
        """
        from ivm.why.why import causes

        return causes(self._asker(old), self._asker(new), view)

    def _asker(self, version: int | str | None) -> Asker:
        from ivm.why.why import Asker

        with self._at(version) as snap:
            return Asker(self.store, self.rules_of, snap.version, self.threads)

    def subscribe(self, name: str, on_change: OnChange) -> Callable[[], None]:
        """Call `on_change` after each commit of this workspace that changed a view, with the
        changes as an Arrow table.

        Commits of other processes and handles are left out: `changes` has those, too.  The table
        has the view's columns and `_change_type` (insert or delete).  Returns a function that ends
        the subscription; so does uninstalling the view.  If `on_change` raises, the commit raises
        that error once every other subscriber has been called, and is still committed.  Raises
        ReadOnlyError with mode="r".
        """
        if self.store.mode == "r":
            raise ReadOnlyError(
                'with mode="r" nothing is committed; subscribe where it is, or use store.diff'
            )
        if not callable(on_change):
            raise OptionError(f"on_change={on_change!r}: a function of one table is called")
        with self.store.snapshot() as snap:
            if not isinstance(read(snap, name), Wide):
                self.rules_of(snap).predicate(name, snap)
        return self._maintainer.subscriptions.add(name, on_change)

    def changes(self, name: str, since: int | str | None = None) -> pagestore.Changes:
        """Return an iterator over what commits change in a relation or view, in any process; see
        Store.changes.

        Raises UnknownViewError, and as `at`.

        >>> import ivm
        >>> with ivm.open(":memory:") as ws:
        ...     ws.install("edge(x, y) -> int(x), int(y). tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).")
        ...     changes = ws.changes("tri")
        ...     version = ws.exec("+edge(1, 2). +edge(2, 3). +edge(1, 3).")
        ...     next(changes).rows.to_pylist()
        [{'x': 1, 'y': 2, 'z': 3, '_change_type': 'insert'}]
        """
        with self.store.snapshot() as snap:
            if read(snap, name) is None:
                self.rules_of(snap).predicate(name, snap)  # raises an error that lists what exists
        return self.store.changes(name, since, read=changes)

    def __repr__(self) -> str:
        return f"<workspace of {self.store!r}>"

    def _repr_html_(self) -> str:
        with self.store.snapshot() as snap:
            return workspace_html(snap, self.rules_of(snap).named)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside

    def rules_of(self, source: Snapshot | pagestore.Transaction) -> Installed:
        """Return the rules of a version."""
        return self.rules.of(source)

    def _rules_now(self) -> Installed:
        """Return the rules of the newest version; another process may have installed them."""
        with self.store.snapshot() as snap:
            return self.rules_of(snap)

    def _relation(self, snap: Snapshot, name: str) -> Relation:
        if name not in snap:
            self.rules_of(snap).predicate(name, snap)  # raises an error that lists what exists
        return snap[name]

    def _put_in_words(self, error: MaintainError) -> None:
        """Rewrite the message of an error in words of SQL, if SQL made the view or the table
        that it is about.
        """
        with self.store.snapshot() as snap:
            if CATALOG not in snap.properties:
                return
        from ivm.sql.statements import Statements  # imports sqlglot, which others do not need

        Statements(self).put_in_words(error)

    # -- edits that are transactions each

    def exec(self, text: str, branch: str | None = None) -> int:
        """Run edits (`+edge(1, 2). -edge(3, 4). ^price["tea"] = 3.50.`) as one transaction; return
        its version.

        An edit may have a body, as in `+seen(x) <- edge(x, _).`, which reads the state before the
        transaction. Relations of the store that no rule reads can be edited, too.  Raises
        RuleError, EditError, MaintainError.
        """
        with self.store.snapshot(branch) as snap:
            part = edits_in(text, snap, self.rules_of(snap))
        with self.transaction(branch=branch) as txn:
            add_edits(part, txn, partial(self._ask_at, branch))
            return txn.commit()

    def preview(self, edits: Edits, branch: str | None = None) -> Preview:
        """Return what edits would change in relations and views, and change nothing; its `commit`
        makes them.

        `edits` is a text as for `exec`, or a function that is called with a transaction, and again
        by `commit`.  This takes no lock, so it does not wait for writers, and works with mode="r",
        too.  Raises as the edits would.

        >>> import ivm
        >>> ws = ivm.open(":memory:")
        >>> ws.install("edge(x, y) -> int(x), int(y).  hop(x, z) <- edge(x, y), edge(y, z).  +edge(1, 2).")
        >>> preview = ws.preview("+edge(2, 3).")
        >>> preview.changes["hop"].to_pylist(), list(ws["hop"])
        ([{'x': 1, 'z': 3, '_change_type': 'insert'}], [])
        >>> version = preview.commit()
        >>> list(ws["hop"]), ws.preview(lambda txn: txn.delete("edge", [(8, 9)])).changes
        ([(1, 3)], {})
        """
        with self.what_if(branch) as trial:
            self._make(edits, trial)
            return Preview(
                trial.version,
                trial.all_changes(),
                partial(self.commit_at, trial.version, edits, branch),
            )

    def commit_at(self, version: int, edits: Edits, branch: str | None = None) -> int:
        """Make edits, given as for `preview`, in one transaction if `version` is the newest; return
        the one made.

        Raises EditError if there is a newer one.
        """
        with self.transaction(branch=branch) as txn:
            if (newest := txn.inner.base.version) != version:
                raise EditError(
                    f"the edits are for version {version}, and {newest} is newer: look at that one "
                    f"first"
                )
            self._make(edits, txn)
            return txn.commit()

    def _make(self, edits: Edits, txn: Transaction) -> None:
        """Add edits to a transaction, or a trial."""
        if callable(edits):
            edits(txn)
        else:
            part = edits_in(edits, txn.inner, self.rules_of(txn.inner))
            add_edits(part, txn, partial(self._ask_at, txn.inner.base.version))

    def _ask_at(self, version: int | str | None, query: Program) -> pa.Table:
        """Answer the question of an edit with a body."""
        with self.store.sketch(version) as sketch:
            understood = understand(sketch, self.rules_of(sketch), query)
            return answer(sketch, understood, self.threads).to_arrow()

    def insert(self, name: str, rows: Any) -> int:
        """Add a row, given as a tuple, or rows, as one transaction; return its version.  Raises as
        Transaction.

        >>> import ivm
        >>> with ivm.open(":memory:") as ws:
        ...     ws.install("edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, y), edge(y, z).")
        ...     _ = ws.insert("edge", (1, 2))
        ...     version = ws.insert("edge", [(2, 3), (2, 4)])
        ...     list(ws["two"])
        [(1, 3), (1, 4)]
        """
        return self._edited(name, INSERT, rows)

    def delete(self, name: str, rows: Any) -> int:
        """Remove a row or key, a tuple, or several, as one transaction; return its version."""
        return self._edited(name, ERASE, rows)

    def set(self, name: str, rows: Any) -> int:
        """Add a row, a tuple, or rows, replacing values, as one transaction; return its version."""
        return self._edited(name, SET, rows)

    def delete_range(self, name: str, lo: tuple[Any, ...] = (), hi: tuple[Any, ...] = ()) -> int:
        """Remove the rows with lo <= key < hi, both prefixes of a key, as one transaction;
        return its version.
        """
        return self._committed(lambda txn: txn.delete_range(name, lo, hi))

    def delete_where(self, name: str, condition: pc.Expression) -> int:
        """Remove the rows for which a condition is true, as one transaction; return its version.

        >>> import ivm, pyarrow.compute as pc
        >>> with ivm.open(":memory:") as ws:
        ...     ws.install("paid[day] = x -> int(day), int(x). total[] = t <- agg<<t = sum(x)>> paid[_] = x.")
        ...     _ = ws.insert("paid", [(1, 10), (2, 20), (3, 30), (4, 40)])
        ...     _ = ws.delete_range("paid", (2,), (4,))
        ...     _ = ws.delete_where("paid", pc.field("x") < 20)
        ...     list(ws["paid"]), list(ws["total"])
        ([(4, 40)], [(40,)])
        """
        return self._committed(lambda txn: txn.delete_where(name, condition))

    def _edited(self, name: str, action: int, rows: Any) -> int:
        """Commit edits of one kind; a few tuples as those that `prepare` collects."""
        rows = [rows] if isinstance(rows, tuple) else rows
        if not (isinstance(rows, list) and 0 < len(rows) <= FEW and {*map(type, rows)} == {tuple}):
            return self._committed(lambda txn: getattr(txn, ACTIONS[action])(name, rows))
        prepared = self._prepared.get(name)
        if prepared is None:
            if len(self._prepared) >= NAMES_MAX:
                self._prepared.clear()
            prepared = self._prepared[name] = PreparedEdits(self._maintainer, name)
        return prepared._commit([(action, row) for row in rows])

    def _committed(self, edit: Callable[[Transaction], Any]) -> int:
        with self.transaction() as txn:
            edit(txn)
            return txn.commit()

    def prepare(self, name: str) -> pagestore.Prepared:
        """Return an object that collects edits of a relation, row by row, and commits them as one
        transaction.

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
        return PreparedEdits(self._maintainer, name)

    async def commit_async(
        self, edit: Callable[[Transaction], Any], message: str | None = None
    ) -> int:
        """Call a function with a transaction, in a thread, and commit it; return the version.

        Commits that are awaited at the same time share syncs.  Nothing else may use the
        transaction.
        """

        def run() -> int:
            with self.transaction(message) as txn:
                edit(txn)
                return txn.commit()

        return await asyncio.to_thread(run)

    def transaction_async(self, message: str | None = None) -> CollectedEdits:
        """Return a transaction for `async with`: it collects edits, and commits them in a thread at
        the end.

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
