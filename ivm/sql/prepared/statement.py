"""Statements of SQL that are prepared by hand, and run with other values each time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from ivm.answer import Answer
from ivm.errors import ConstraintError, EditError, FunctionConflictError, IvmError, RangeError
from ivm.memory import allowing
from ivm.sql.dialects.read import read
from ivm.sql.errors import SqlError
from ivm.sql.prepared.cache import Asked
from ivm.sql.prepared.edits import KeyedEdit, in_turn
from ivm.sql.prepared.rows import Unusual, unchanged_catalog
from ivm.sql.prepared.shape import kinds
from ivm.sql.syntax import Parameters
from pagestore.errors import PagestoreError
from pagestore.host import Offered, SyncQueue, Turn, thread_lock

if TYPE_CHECKING:
    from ivm.transaction import Transaction

Run = Callable[[str, Parameters, str], Answer | None]
EDITS = exp.Insert, exp.Update, exp.Delete, exp.Merge
NO_EDIT = "each text is one INSERT, UPDATE, DELETE or MERGE, without RETURNING"
SEVERAL = "several rows are changed, of which an outcome does not say how many"
UNKNOWN = "the thread that was to commit this, too, has failed: read whether it was made"
# what is wrong with one of the transactions, and refused before any is committed
REFUSED = SqlError, ConstraintError, RangeError, FunctionConflictError
ALONE = 8  # transactions that are run by themselves, before many are tried at once again
RunMany = Callable[[str, list[Any], str], int]


class PreparedStatement:
    """A statement with places for values: `?`, `$1` or `:name`."""

    def __init__(
        self, run: Run, run_many: RunMany, text: str, dialect: str, memory: int | None
    ) -> None:
        """Take what runs texts with one or many parameters.  SqlError if it does not parse."""
        read(text, dialect)
        self._run, self._run_many, self._memory = run, run_many, memory
        self._text, self._dialect = text, dialect

    def execute(self, parameters: Parameters = None) -> Answer | None:
        """Run the statement with some values, as `sql` does; return its answer."""
        with allowing(self._memory):
            return self._run(self._text, parameters, self._dialect)

    def executemany(self, rows: Iterable[Parameters]) -> int:
        """Run a statement that edits for each of many lists of values, in one transaction; return
        how many rows were edited.

        If one of them fails, nothing is changed.  The rows of an INSERT are added as one batch.
        """
        with allowing(self._memory):
            return self._run_many(self._text, [*rows], self._dialect)


class _Call:
    """What a thread wants to be made: lists of values, and what came of them."""

    def __init__(self, number: int, rows: list[Any]) -> None:
        self.number, self.rows = number, rows
        self.made: list[bool] | None = None
        self.error: Exception | None = None


class PreparedTransaction:
    """Statements that edit, which are one transaction with other values each time: made if each of
    them changes a row, else nothing of it is done.

    What threads want to be made at the same time is committed together, in one version with one
    sync; each transaction finds what those before it did, as if it came after them.
    """

    def __init__(self, run: Callable[[list[Any]], list[int]], memory: int | None) -> None:
        """Take what makes a transaction for each of many parameters, and commits them."""
        self._run, self._memory = run, memory
        self._waiting, self._queue, self._guard = deque[_Call](), SyncQueue(), thread_lock()
        self._called = self.durable = 0  # the numbers of the newest call, and of those committed

    def execute(self, parameters: Parameters = None) -> bool:
        """Run the transaction; return whether it was made.  Raises as `executemany`."""
        return self.executemany([parameters])[0]

    def executemany(self, rows: Iterable[Parameters]) -> list[bool]:
        """Run the transaction for each of many parameters; return for each whether it was made.

        All are committed together.  If one of them is wrong, or is refused by a constraint, none is
        made.  Raises SqlError, MaintainError.
        """
        rows = [*rows]
        with self._guard:
            self._called += 1
            call = _Call(self._called, rows)
            self._waiting.append(call)
        try:
            with allowing(self._memory):
                self._queue.await_sync(call.number, self)
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(call)
            raise
        if call.error is not None:
            raise call.error
        assert call.made is not None
        return call.made

    def sync_made(self) -> None:
        """Make what waits, of all threads: by the one whose turn it is."""
        calls = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            self._together(calls)
        except REFUSED as error:
            calls[0].error = error
            for call in calls if len(calls) > 1 else ():  # each has an error of its own, or none
                try:
                    call.error = None
                    self._together([call])
                except (IvmError, PagestoreError) as refused:
                    call.error = refused
        finally:
            for call in calls:
                if call.made is None and call.error is None:
                    call.error = EditError(UNKNOWN)
                self.durable = call.number

    def _together(self, calls: Sequence[_Call]) -> None:
        made = iter(self._run([row for call in calls for row in call.rows]))
        for call in calls:
            call.made = [next(made) > 0 for _ in call.rows]


class Call(NamedTuple):
    """Lists of parameters for some statements, which another process may have `offered`."""

    dialect: str
    texts: Sequence[str]
    rows: list[Any]
    offered: Offered | None = None

    @property
    def edits(self) -> list[tuple[int, tuple[Any, ...]]]:
        """It as edits that are offered to other processes."""
        return [(0, (self.dialect, *self.texts)), *((1, tuple(row)) for row in self.rows)]


def run_in_turn(statements: Any, texts: Sequence[str], dialect: str, rows: list[Any]) -> list[int]:
    """Run statements that edit for each list of parameters, or none of them where one would change
    no row; return for each list how many rows the last one has changed.  All are one transaction,
    with what other processes wait for.

    Another process says only that rows were changed: one, if there is one statement.
    """
    if not rows:
        return []
    call, host = Call(dialect, [*texts], rows), statements.host
    given = all(type(row) in (list, tuple) for row in rows)
    edits = call.edits if given else []
    for may_take in (True, False):
        offered = list[Offered]()
        try:
            with Turn(host.store, edits, given and host._maintainer.is_quiet) as turn:
                if turn.outcome is not None:
                    return [turn.outcome >> n + 1 & 1 for n in range(len(rows))]
                with host.transaction() as txn:
                    runner = statements.within(txn)
                    offered = turn.calls() if may_take else []
                    made = _run_calls(runner, txn, turn, [call, *map(_call_of, offered)])
            return made
        except REFUSED:  # of whose edits is not known
            if not offered:
                raise
    raise AssertionError


def run_single(statements: Any, text: str, dialect: str, parameters: Parameters) -> int:
    """Run a statement that edits a row, as `run_in_turn`; return how many rows it has changed."""
    row = () if parameters is None else parameters
    return run_in_turn(statements, [text], dialect, [row])[0]


def _call_of(offered: Offered) -> Call:
    (_, (dialect, *texts)), *rows = offered.edits
    return Call(dialect, texts, [row for _, row in rows], offered)


def _run_calls(runner: Any, txn: Transaction, turn: Turn, calls: list[Call]) -> list[int]:
    """Run calls in a transaction, those of the same statements at once; return what came of the
    first.
    """
    first_made, taken = list[int](), list[Offered]()
    while calls:
        first = calls[0]
        alike = [call for call in calls if call[:2] == first[:2]]
        calls = [call for call in calls if call[:2] != first[:2]]
        rows = [row for call in alike for row in call.rows]
        made = iter(_batch(runner, txn, first, rows, whole=True))
        for call in alike:
            came = [*islice(made, len(call.rows))]
            if call.offered is None:
                first_made = came or _run(runner, txn, call)
                continue
            try:
                with txn.savepoint():
                    came = came or _run(runner, txn, call)
                    if len(call.texts) == 1 and max(came) > 1:
                        raise EditError(SEVERAL)
            except (IvmError, PagestoreError):  # its own process does it, or says what is wrong
                turn.refuse(call.offered)
                continue
            outcome = 1 + sum(2 << n for n, is_made in enumerate(came) if is_made)
            taken.append(call.offered._replace(outcome=outcome))
    turn.take(taken)
    return first_made


def _run(runner: Any, txn: Transaction, call: Call) -> list[int]:
    """Run the statements of a call for one list of parameters after the other, as far as they are
    not run for many at once.
    """
    made, (dialect, texts, rows, _) = list[int](), call
    while len(made) < len(rows):
        made += _batch(runner, txn, call, rows[len(made) :], whole=False)
        for row in rows[len(made) :][:ALONE]:
            with suppress(Unusual), txn.savepoint():
                made.append(0)
                for text in texts:
                    changed = next(iter(runner.run(text, row, dialect) or [(0,)]))[0]
                    if not changed:
                        raise Unusual
                made[-1] = changed
    return made


def _batch(runner: Any, txn: Transaction, call: Call, rows: list[Any], whole: bool) -> list[int]:
    """Run statements for many lists of values at once; return what came of the first of them, of
    none if nothing is done, or if not all can be done, and are to be, `whole`.
    """
    plans, given = list[KeyedEdit](), list[list[Any]]()
    for text in call.texts:
        plan, values = planned(runner.asked, txn, text, rows, call.dialect)
        if plan is None or not plan.is_single:
            return []
        plans.append(plan)
        given.append(values)
    return in_turn(txn, plans, given, whole)


def planned(
    asked: Asked | None, txn: Transaction, text: str, rows: list[Any], dialect: str
) -> tuple[KeyedEdit | None, list[Any]]:
    """Return how keys do what a statement says, and its values for each of many parameters."""
    known = None if asked is None else asked.find_all(text, rows, dialect)
    catalog = unchanged_catalog(txn)
    if known is None or catalog is None:
        return None, []
    statement, values = known
    plan = statement.plan(kinds(values[0]), catalog)
    return (plan if isinstance(plan, KeyedEdit) else None), values


def prepared(
    statements: Any, texts: Sequence[str], dialect: str, memory: int | None
) -> PreparedTransaction:
    """Return a transaction of texts, the same one as long as somebody has it.  Raises SqlError
    unless each text is one statement that edits, without RETURNING.
    """
    for nodes in [read(text, dialect) for text in texts]:
        if [isinstance(n, EDITS) and not n.args.get("returning") for n in nodes] != [True]:
            raise SqlError(NO_EDIT, *nodes[:1])
    made = PreparedTransaction(partial(run_in_turn, statements, texts, dialect), memory)
    kept: PreparedTransaction = statements.asked.transactions.setdefault((dialect, *texts), made)
    return kept
