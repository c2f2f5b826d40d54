"""Edits by key that were made before, with other values: each is a look-up, and an edit of rows.

    INSERT INTO t VALUES (?, ?)               the values as the columns have them; no row has the key
    UPDATE t SET n = n + ? WHERE id = ?       the row of the key, with a value replaced
    UPDATE ... WHERE id = ? AND n >= ?        the same, if the row meets the condition
    DELETE FROM t WHERE id = ?
    INSERT ... ON CONFLICT, MERGE             either, by whether a row has the key

Only what certainly succeeds is done here.  Whatever else there is, a value of another type, a null
where none may be, a key that a row has, is left to the translation of the statement, which has the
words for what is wrong.

Of many lists of values, each finds the rows as those before it left them, which no tree has yet: its
conditions are met or not by these, and what a key has in the end is stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from ivm.answer import ListedAnswer
from ivm.errors import IvmError
from ivm.sql.edits.literals import Row
from ivm.sql.edits.target import Places
from ivm.sql.prepared.cache import Kinds, Statement
from ivm.sql.prepared.cases import Keyed, Source, fitted
from ivm.sql.prepared.deciding import Decided
from ivm.sql.prepared.rows import Unusual, unchanged_catalog
from pagestore.errors import PagestoreError

if TYPE_CHECKING:
    import pyarrow as pa

    from ivm.sql.session import Host
    from ivm.transaction import Transaction

NOT_DONE = Unusual, IvmError, PagestoreError, UnicodeEncodeError


class Done(NamedTuple):
    """What an edit did: how many rows it changed, and the rows that RETURNING is about."""

    changed: int
    rows: list[Row]


@dataclass(frozen=True, eq=False)
class KeyedEdit(Keyed):
    """An edit of a table: `rows` are those that an INSERT adds, each with all its values, which are
    then those of the one case; a bag has none.
    """

    node: exp.Expr  # for the place of errors
    rows: tuple[tuple[Source, ...], ...] = ()
    returning: Places = ()  # the columns that RETURNING has, of `schema`
    schema: pa.Schema | None = None

    def run(self, txn: Transaction, given: Sequence[Sequence[Any]]) -> Done | None:
        """Edit the table in a transaction, by one or several lists of values; return what was done,
        None if nothing was.
        """
        try:
            given = self.listed(given)
            if self.cases:
                return self._by_keys(txn, given)
            txn.insert(self.name, columns=[*map(fitted, self.columns, zip(*given, strict=True))])
            return Done(len(given), [])
        except NOT_DONE:
            return None

    @property
    def is_single(self) -> bool:
        """Whether it changes one row at most for a list of values, by one case, and shows none."""
        return len(self.cases) == 1 and len(self.rows) <= 1 and self.schema is None

    def listed(self, given: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Return the values that cases are about, for lists of values of the statement."""
        if not self.rows:
            return given
        return [[one.value(own) for one in row] for own in given for row in self.rows]

    def answer(self, done: Done) -> ListedAnswer:
        """Return how many rows were changed, or what RETURNING says of them."""
        import pyarrow as pa

        if self.schema is None:
            return ListedAnswer([(done.changed,)], pa.schema({"Count": pa.int64()}))
        rows = [tuple([row[place] for place in self.returning]) for row in done.rows]
        return ListedAnswer(rows, self.schema)

    def _by_keys(self, txn: Transaction, given: Sequence[Sequence[Any]]) -> Done:
        """Change, remove or add the row of each key.  O(keys * height)."""
        decided = Decided(txn, [self], [given], whole=False)
        at, made, table = decided.at, decided.made, decided.tables[self.name]
        if decided.count < len(given) or (len(self.cases) > 1 and len(table.rows) < at.size):
            raise Unusual  # a statement edits no row twice
        decided.store()
        shown = at[made > 0] if self.schema is not None else at[:0, 0]
        return Done(int(made.sum()), table.shown(shown, self.cases[0].gone))


def in_turn(
    txn: Transaction,
    edits: Sequence[KeyedEdit],
    given: Sequence[Sequence[Sequence[Any]]],
    whole: bool,
) -> list[int]:
    """Make edits that are single for each of many lists of values, or none of them where one would
    change no row; return for each list how many rows the last one changed, as far as that is known
    here: if not of all, and all are to be made `whole`, nothing is done.

    `given` has the lists for each edit.  O(keys * height).
    """
    try:
        given = [edit.listed(own) for edit, own in zip(edits, given, strict=True)]
        decided = Decided(txn, edits, given, whole=True)
        if not whole or decided.count == len(given[0]):
            decided.store()
            return [int(made > 0) for made in decided.made[: decided.count, -1].tolist()]
    except NOT_DONE:
        pass
    return []


def made_again(
    txn: Transaction, statement: Statement, kinds: Kinds, values: Sequence[Any]
) -> ListedAnswer | None:
    """Make an edit in a transaction that is given; return its answer, None if nothing was done."""
    catalog = unchanged_catalog(txn)
    plan: KeyedEdit | None = catalog and statement.plan(kinds, catalog)
    done = None if plan is None else plan.run(txn, [values])
    return None if plan is None or done is None else plan.answer(done)


def made_alone(
    host: Host, statement: Statement, kinds: Kinds, values: Sequence[Any]
) -> ListedAnswer | None:
    """Make an edit in a transaction of its own; as `made_again`."""
    with host.transaction() as txn:
        answer = made_again(txn, statement, kinds, values)
        if answer is None:
            txn.rollback()
    return answer
