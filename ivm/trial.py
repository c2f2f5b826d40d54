"""Edits of a workspace: those of a text, those that are never made, or not yet (trials and
previews), and those that an asynchronous program collects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from ivm.engine.engine import Engine
from ivm.errors import EditError, UnknownViewError
from ivm.lang.ir import Edit
from ivm.lang.program import DerivedEdit, Program
from ivm.memory import allowing
from ivm.names import is_helper, wide_names
from ivm.rules.compile import compile
from ivm.rules.installed import Installed
from ivm.rules.relations import Relations
from ivm.rules.stored import built_sizes
from ivm.terms.encoder import Encoder
from ivm.transaction import Sql, Transaction
from ivm.wide import changed_in, read, with_wide
from pagestore.host import EphemeralTransaction

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc


Edits = str | Callable[[Transaction], Any]


def edits_in(text: str, source: Any, rules: Installed) -> Program:
    """Parse edits over a version or a transaction.  Raises RuleError, EditError for a text
    of anything else.
    """
    part = compile(text, rules.program, "exec", Relations(source), hinting=True)
    if part.rules or len(part.predicates) > len(part.stored):
        raise EditError("exec runs edits only; install declarations and rules, query questions")
    return part


def add_edits(part: Program, txn: Transaction, ask: Callable[[Program], pa.Table]) -> None:
    """Add edits of a text to a transaction; `ask` answers the questions of those with bodies."""
    for _, alike in groupby(part.edits, type):
        edits = [*alike]
        txn.edit(tuple(edit for edit in edits if isinstance(edit, Edit)))
        for edit in edits:
            if isinstance(edit, DerivedEdit) and (rows := ask(edit.query)):
                named = rows.rename_columns([*edit.columns])
                {"+": txn.insert, "-": txn.delete, "^": txn.set}[edit.action](edit.predicate, named)


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
        self.sketch, self._memory = sketch, memory

    @property
    def version(self) -> int:
        """The version that the edits are tried on."""
        return self.sketch.base.version

    def follow(self) -> None:
        """Apply the edits so far, and maintain the views.  Raises MaintainError as `commit`."""
        self._alive()
        sketch, installed = self.sketch, self._installed
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
        relation = read(self.sketch, name)
        if relation is None:
            self._installed.predicate(name, self.sketch)  # raises an error that lists what exists
        return self.sketch[name] if relation is None else relation

    def changes(self, name: str) -> pa.Table:
        """Return what the edits change in a relation or view: its columns, and `_change_type`.

        Raises UnknownViewError.
        """
        self.follow()
        if name in self.sketch:
            return self.sketch.changes(name)
        if name not in wide_names(self.sketch):
            raise UnknownViewError(f"there is no relation or view {name!r} to change")
        return changed_in(self.sketch, name)

    def all_changes(self) -> Mapping[str, pa.Table]:
        """Return what the edits change, of each relation and view that they change."""
        self.follow()
        sketch, blocks = self.sketch, [block.name for block in self._installed.blocks]
        names = [name for name in sketch if not is_helper(name, blocks)]
        return with_wide(sketch, {name: sketch.changes(name) for name in names})

    def __exit__(self, *_: object) -> None:
        self.rollback()


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
