"""The state that a statement of SQL reads: the newest, a transaction's, or that of an older version.

    ws.sql(text)          each statement is a transaction of its own, except between BEGIN and COMMIT
    txn.sql(text)         edits of the transaction; queries see them
    ws.at(v).sql(text)    queries over an older version

A statement of a transaction reads the state that those before it left: the edits so far are applied
within a savepoint, which is undone after the statement.  What the statement reads, with all that
this follows from, is up to date there: tables, their indices and views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from ivm.answer import Answer
from ivm.lang.declarations import mentioned
from ivm.lang.ir import Const
from ivm.lang.program import Program
from ivm.names import CATALOG, ONE
from ivm.question import Question, evaluated, understand
from ivm.rules.stored import KnownRules
from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError
from ivm.terms.encoder import NONE_GIVEN
from ivm.transaction import undone
from pagestore.host import Store, catalog_of

if TYPE_CHECKING:
    from ivm.installation import Blocks
    from ivm.transaction import Maintainer, Transaction


class Host(Protocol):
    """What SQL needs of a workspace."""

    store: Store
    threads: int
    rules: KnownRules
    files_allowed: bool
    _maintainer: Maintainer

    @property
    def _blocks(self) -> Callable[[str], AbstractContextManager[Blocks]]:
        """Begin a transaction in which blocks of rules may come and go."""

    @property
    def transaction(self) -> Callable[..., Transaction]:
        """Begin a transaction."""

    @property
    def explain(self) -> Callable[[str], str]:
        """Explain how a view is evaluated."""


class Reader:
    """Where statements read: a version, or a transaction with its edits so far."""

    def __init__(
        self, host: Host, version: int | str | None = None, edited: Transaction | None = None
    ) -> None:
        self.host, self.version, self.edited = host, version, edited
        # the questions so far, with the catalog that each was compiled for, if somebody keeps them
        self.asked: list[tuple[Question, Any]] = []

    @contextmanager
    def state(self) -> Iterator[Any]:
        """Give a transaction in which rules can be evaluated, and that leaves nothing behind."""
        if self.edited is None:
            with self.host.store.sketch(self.version) as sketch:
                yield sketch
        else:
            with undone(self.edited._txn) as state:
                yield state

    @contextmanager
    def relation(self, name: str) -> Iterator[Any]:
        """Give a relation with the edits so far."""
        with self.state() as state:
            self.bring_up_to_date([name])
            yield state[name]

    @contextmanager
    def catalog(self) -> Iterator[Catalog]:
        """Give the tables and views that statements can name; until the block ends, `state` is of
        the same version, whatever is committed meanwhile.
        """
        if self.edited is not None:
            yield Catalog(self.edited._txn)
            return
        before, store = self.version, self.host.store
        # it is closed, since what compiles refers to it in circles
        with store.snapshot() if before is None else store.at(before) as snapshot:
            self.version = snapshot.version
            try:
                yield Catalog(snapshot)
            finally:
                self.version = before

    def bring_up_to_date(self, names: Iterable[str]) -> None:
        """Apply the edits so far within `state`, and let relations follow them."""
        if self.edited is not None:
            self.edited._apply_for(names)

    def ask(self, program: Program, given: Mapping[int, Const] = NONE_GIVEN) -> Answer:
        """Evaluate rules once."""
        with self.state() as state:
            return self.ask_in(state, program, given)

    def ask_in(
        self, state: Any, program: Program, given: Mapping[int, Const] = NONE_GIVEN
    ) -> Answer:
        """Evaluate rules once in a state, which is then as it was."""
        with undone(state):
            with_one(state)
            names, _ = mentioned(program.statements)
            texts = state.dictionary.next_id
            question = understand(state, self.host.rules.some(state, names), program)
            question = question._replace(given=given)
            lasts = state.dictionary.next_id == texts  # a new one has no id yet
            self.bring_up_to_date(question.reads)
            table, again = evaluated(state, question, self.host.threads)
            if again and lasts and self.edited is None:
                self.asked.append((again, state.base.catalog))
            return table

    def ask_again(self, state: Any, question: Question) -> Answer:
        """Evaluate a question that is compiled in a state, which is then as it was."""
        with undone(state):
            with_one(state)
            self.bring_up_to_date(question.reads)
            return evaluated(state, question, self.host.threads)[0]


def with_one(state: Any) -> None:
    """Create the relation of one row that rules of SQL read, if it does not exist."""
    if ONE not in state:
        state.create(ONE, "x: int64").insert([(0,)])


def change_catalog(host: Host, message: str, change: Callable[[Blocks, Catalog], None]) -> None:
    """Change tables, rules and what SQL says of them in one commit."""
    with host._blocks(message) as blocks:
        with_one(blocks.txn)
        catalog = Catalog(blocks.txn)
        change(blocks, catalog)
        blocks.txn.properties[CATALOG] = catalog.saved()


def refuse_changed(program: Program, before: Any, txn: Any, node: Any = None) -> None:
    """Raise SqlError if a table that rules read has other columns in a transaction than it had in
    the catalog `before`, which the rules were made for.
    """
    (names, made), now = mentioned(program.statements), catalog_of(txn)
    for name in names - made:
        table, same = before.relations.get(name), now.relations.get(name)
        if table and (not same or (table.schema, table.bag) != (same.schema, same.bag)):
            raise SqlError(f"{name} has changed meanwhile: run the statement again", node)
