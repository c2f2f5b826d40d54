"""Edits of a workspace as whole transactions: of one call, collected row by row, and of
asynchronous programs.

Edits can be previewed: they are applied to a sketch, which no version and no lock knows of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pagestore
from ivm.answer import Answer
from ivm.engine.engine import Engine
from ivm.errors import EditError, MaintainError, UnknownViewError
from ivm.lang.ir import Edit
from ivm.lang.program import DerivedEdit, Program
from ivm.memory import allowing
from ivm.names import CATALOG, is_helper, wide_names
from ivm.prepared import PreparedEdits
from ivm.question import answer, understand
from ivm.rules.compile import compile
from ivm.rules.installed import Installed
from ivm.rules.relations import Relations
from ivm.rules.stored import built_sizes
from ivm.terms.encoder import Encoder
from ivm.transaction import Maintainer, Sql, Transaction
from ivm.wide import changed_in, read
from pagestore.host import ACTIONS, ERASE, FEW, INSERT, SET, EphemeralTransaction, Store

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from ivm.sql.session import Host

Edits = str | Callable[[Transaction], Any]
NAMES_MAX = 1 << 10  # relations whose edits have what they need kept


class Preview(NamedTuple):
    """What edits would change: for each relation and view its changes, as an Arrow table; none for
    other ones.

    A table has the relation's columns and `_change_type`, "insert" or "delete".  `version` is the
    one that they were tried on.  `commit` makes the edits and returns their version; it raises
    EditError if there is a newer one by then.
    """

    version: int
    changes: Mapping[str, pa.Table]
    commit: Callable[[], int]


class Trial(Transaction):
    """A transaction that is never committed; reading it brings the views up to date with its edits.

    Use it in `with`, whose end discards the edits.
    """

    def __init__(
        self,
        sketch: EphemeralTransaction,
        installed: Installed,
        sql: Sql | None = None,
        memory: int | None = None,
    ) -> None:
        super().__init__(sketch, installed, None, sql)
        self._sketch, self._memory = sketch, memory

    @property
    def version(self) -> int:
        """The version that the edits are tried on."""
        return self._sketch.base.version

    def follow(self) -> None:
        """Apply the edits so far, and maintain the views.  Raises MaintainError as `commit`."""
        self._alive()
        sketch, installed = self._sketch, self._installed
        with allowing(self._memory):
            engine = Engine(
                sketch, installed, Encoder(sketch), sketch.threads, built=built_sizes(sketch)
            )
            self._apply_by(engine)
        self._installed, self._edits = engine.installed, {}
        self._trees = {name: sketch.tree(name) for name in self._trees}

    def __getitem__(self, name: str) -> Any:
        """Return a relation or view with the edits so far.  Raises UnknownViewError."""
        self.follow()
        found = read(self._sketch, name)
        if found is None:
            self._installed.predicate(name, self._sketch)  # raises an error that lists what exists
        return self._sketch[name] if found is None else found

    def changes(self, name: str) -> pa.Table:
        """Return what the edits change in a relation or view: its columns, and `_change_type`.

        Raises UnknownViewError.
        """
        self.follow()
        if name in self._sketch:
            return self._sketch.changes(name)
        if name not in wide_names(self._sketch):
            raise UnknownViewError(f"there is no relation or view {name!r} to change")
        return changed_in(self._sketch, name)

    def all_changes(self) -> Mapping[str, pa.Table]:
        """Return what the edits change, for each relation and view in which they change something."""
        self.follow()
        sketch, blocks = self._sketch, [block.name for block in self._installed.blocks]
        names = [name for name in sketch if not is_helper(name, blocks)]
        changes = {name: sketch.changes(name) for name in names}
        changes |= {
            name: table for name in wide_names(sketch) if (table := changed_in(sketch, name))
        }
        return {name: table for name, table in changes.items() if table.num_rows}

    def __exit__(self, *_: object) -> None:
        self.rollback()


class WorkspaceEdits:
    """The methods of a workspace that make a transaction each."""

    store: Store
    _maintainer: Maintainer
    _prepared: dict[str, PreparedEdits]  # of the relations that methods have edited
    threads: int
    memory: int | None
    transaction: Callable[..., Transaction]
    what_if: Callable[..., Trial]
    rules_of: Callable[..., Installed]
    _sql_in: Callable[..., Answer | None]

    def _put_in_words(self, error: MaintainError) -> None:
        """Rewrite the message of an error in words of SQL, if SQL made the view or the table
        that it is about.
        """
        with self.store.snapshot() as snap:
            if CATALOG not in snap.properties:
                return
        from ivm.sql.statements import Statements  # imports sqlglot, which others do not need

        Statements(cast("Host", self)).put_in_words(error)

    def exec(self, text: str, branch: str | None = None) -> int:
        """Run edits (`+edge(1, 2). -edge(3, 4). ^price["tea"] = 3.50.`) as one transaction; return
        its version.

        An edit may have a body, as in `+seen(x) <- edge(x, _).`, which reads the state before the
        transaction. Relations of the store that no rule reads can be edited, too.  Raises
        RuleError, EditError, MaintainError.
        """
        with self.store.snapshot(branch) as snap:
            part = self._edits_of(text, snap)
        with self.transaction(branch=branch) as txn:
            self._edit(txn, part, branch)
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
            self._edit(txn, self._edits_of(edits, txn.inner), txn.inner.base.version)

    def _edits_of(self, text: str, source: Any) -> Program:
        """Parse edits over a version or a transaction.  Raises RuleError, EditError for a text
        of anything else.
        """
        part = compile(text, self.rules_of(source).program, "exec", Relations(source), hinting=True)
        if part.rules or len(part.predicates) > len(part.stored):
            raise EditError("exec runs edits only; install declarations and rules, query questions")
        return part

    def _edit(self, txn: Transaction, part: Program, before: int | str | None) -> None:
        """Add edits of a text, of which those with bodies read the version `before`."""
        for _, alike in groupby(part.edits, type):
            edits = [*alike]
            txn.edit(tuple(edit for edit in edits if isinstance(edit, Edit)))
            for edit in edits:
                if isinstance(edit, DerivedEdit):
                    self._edit_from_rule(txn, edit, before)

    def _edit_from_rule(
        self, txn: Transaction, edit: DerivedEdit, before: int | str | None
    ) -> None:
        with self.store.sketch(before) as sketch:
            found = answer(
                sketch, understand(sketch, self.rules_of(sketch), edit.query), self.threads
            )
        if rows := found.to_arrow().rename_columns([*edit.columns]):
            {"+": txn.insert, "-": txn.delete, "^": txn.set}[edit.action](edit.predicate, rows)

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
        """Remove a row or key, given as a tuple, or several, as one transaction; return its
        version.
        """
        return self._edited(name, ERASE, rows)

    def set(self, name: str, rows: Any) -> int:
        """Add a row, given as a tuple, or rows, replacing values, as one transaction; return its
        version.
        """
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


class CollectedEdits:
    """A transaction for `async with`, which commits its edits in a thread; `version` is then the
    one it made.

    Methods are those of Transaction; they raise nothing, and what they would raise comes from the
    commit.
    """

    def __init__(self, commit: Callable[[Callable[[Transaction], None]], Awaitable[int]]) -> None:
        self._commit = commit
        self._edits: list[Callable[[Transaction], Any]] = []
        self.version: int | None = None

    def insert(self, name: str, rows: Any = None, *, columns: Any = None) -> None:
        """Collect an insertion; see Transaction.insert."""
        self._edits.append(lambda txn: txn.insert(name, rows, columns=columns))

    def delete(
        self, name: str, rows: Any = None, *, columns: Any = None, every: bool = False
    ) -> None:
        """Collect a deletion; see Transaction.delete."""
        self._edits.append(lambda txn: txn.delete(name, rows, columns=columns, every=every))

    def delete_range(self, name: str, lo: tuple[Any, ...] = (), hi: tuple[Any, ...] = ()) -> None:
        """Collect a deletion of a range; see Transaction.delete_range."""
        self._edits.append(lambda txn: txn.delete_range(name, lo, hi))

    def delete_where(self, name: str, condition: pc.Expression) -> None:
        """Collect a deletion by a condition; see Transaction.delete_where."""
        self._edits.append(lambda txn: txn.delete_where(name, condition))

    def set(self, name: str, rows: Any = None, *, columns: Any = None) -> None:
        """Collect rows to set; see Transaction.set."""
        self._edits.append(lambda txn: txn.set(name, rows, columns=columns))

    def _apply(self, txn: Transaction) -> None:
        for edit in self._edits:
            edit(txn)

    async def __aenter__(self) -> CollectedEdits:
        return self

    async def __aexit__(self, kind: type | None, *_: object) -> None:
        if kind is None:
            self.version = await self._commit(self._apply)
