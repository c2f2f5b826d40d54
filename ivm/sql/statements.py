"""Statements of SQL, one after the other: parsed, their parameters put in, and each done."""

from __future__ import annotations

import logging
import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.answer import Answer
from ivm.errors import (
    ConstraintError,
    FunctionConflictError,
    IvmError,
    LimitError,
    MaintainError,
    OptionError,
    RangeError,
    RuleError,
    RuleTypeError,
    UninstallError,
)
from ivm.sql import constraints, tables, views
from ivm.sql.answers import PART, answer, answered, finish, in_words, misfit
from ivm.sql.beside import versions
from ivm.sql.beside.file_rows import FileRows
from ivm.sql.beside.rows import put_beside
from ivm.sql.catalog import Catalog
from ivm.sql.dialects.read import (
    NAMED_TYPES,
    SOURCE,
    command_text,
    read,
    refuse_no_text,
    saved_query,
)
from ivm.sql.edits.change import delete, update
from ivm.sql.edits.insert import insert
from ivm.sql.edits.merge import merge
from ivm.sql.edits.returning import returned
from ivm.sql.edits.target import Target
from ivm.sql.errors import SqlError
from ivm.sql.functions.known import refuse_unknown_statement
from ivm.sql.functions.times import INTERVALS
from ivm.sql.naming.schemas import of_one_schema
from ivm.sql.prepared.cache import Asked, KeptQuestion, Statement
from ivm.sql.prepared.edits import Done, KeyedEdit, made_again, made_alone
from ivm.sql.prepared.general import ask_given, compiled
from ivm.sql.prepared.keyed import edit_of
from ivm.sql.prepared.rows import unchanged_catalog
from ivm.sql.prepared.seeks import Seeks, seeks_of
from ivm.sql.prepared.shape import kinds, written
from ivm.sql.prepared.statement import PreparedTransaction, planned, prepared, run_single
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder
from ivm.sql.session import Host, Reader
from ivm.sql.syntax import TOO_DEEP, Parameters, no_statement, spaced, syntax_error, with_parameters
from ivm.sql.system import pg_functions, session
from ivm.sql.system.settings import BEGINS, SHOWN, command, mark, pieces
from pagestore.errors import DependantsError, PagestoreError
from pagestore.host import Turn, catalog_of, of_numbers, of_texts

if TYPE_CHECKING:
    import pyarrow as pa

    from ivm.transaction import Sessions, Transaction

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # what it warns of is refused here, by name
QUERIES = (exp.Select, exp.SetOperation, exp.Values, exp.Subquery, exp.Pivot)
EDITS = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.TruncateTable)
ONE_BY_ONE = 3  # runs of a statement until it is known
SEVERAL = "a subquery used as a value has several rows: write max(x), any_value(x) or LIMIT 1 in it"
MISTAKE = "a mistake in ivm, please report it"
# what errors of rules begin with or have within, as a statement says it
WORDS = {
    rf"^nothing declares or derives ({'|'.join(INTERVALS)}):": (
        "an INTERVAL is not taken here: EXTRACT takes its parts"
    ),
    "^recursion through a negation": (
        "the recursion reads itself in NOT IN, NOT EXISTS, EXCEPT or the other side of an outer "
        "join: that has no meaning"
    ),
    "^(.+) is of block .* which reads block `(.+)`: put": (
        r"\1 reads \2: a view that reads itself is written WITH RECURSIVE"
    ),
    "has no row to begin with": "a view that reads itself is written WITH RECURSIVE",
    r"\(block `(.*)` reads `(.*)`, whose new rules it does not fit\)$": (
        r"\1 reads \2, and does not fit its new columns: DROP \1 first, and CREATE it again"
    ),
}
EXPLAIN = re.compile(r"\s*explain\s+(.*)", re.IGNORECASE | re.DOTALL)


def parse(text: str, dialect: str, parameters: Parameters = None) -> list[tuple[exp.Expr, bool]]:
    """Return the statements of a text, each with whether to explain it. Raises SqlError."""
    refuse_no_text(text, dialect)
    explained = EXPLAIN.fullmatch(text)
    text = spaced(explained.group(1) if explained else text)
    try:
        nodes = [one for part in _parts(text, dialect) for one in _statements(part, dialect)]
    except SqlglotError as error:
        raise syntax_error(error, text) from None
    if not nodes:
        raise SqlError("there is no statement in this text")
    for statement in nodes if parameters else ():
        statement.meta.pop(SOURCE, None)  # whose text has no values
    return [(one, explained is not None) for one in with_parameters(nodes, parameters)]


def _parts(text: str, dialect: str) -> Iterable[str]:
    """Return a text, or its statements if clients' own are among them."""
    return pieces(text, dialect) if BEGINS.search(text) else [text]


def _statements(part: str, dialect: str) -> list[exp.Expr]:
    """Return the statements of a part of a text, which has blanks for what is before it."""
    said = command(part) if BEGINS.search(part) else None
    if said is not None and said.name.upper() not in SHOWN:
        return [said]
    return of_one_schema(read(part, dialect, _answer), dialect)


def _answer(node: exp.Expr, nodes: Sequence[exp.Expr], dialect: str) -> None:
    """Let what its session says be constants in a statement that is done once."""
    filled = isinstance(node, exp.Create) and str(node.args.get("kind")).upper() == "TABLE"
    if isinstance(node, (*QUERIES, *EDITS, exp.From, exp.Copy)) or (filled and node.expression):
        session.answer(node, nodes, dialect)
        if dialect == "postgres":
            pg_functions.simplify(node, [*node.walk(bfs=False)])
    elif isinstance(node, exp.Create | exp.Alter):
        session.simplify_definition(node)


def read_nothing_else(statements: Sequence[tuple[exp.Expr, bool]]) -> bool:
    """Return whether statements change nothing."""
    return all(
        explained or isinstance(one, (*QUERIES, exp.Describe, exp.Show))
        for one, explained in statements
    )


def row_of(
    text: str, names: Iterable[str], run: Callable[[str], Answer | None]
) -> tuple[str, dict[str, Any]]:
    """Return the table, one of some names, of `SELECT * FROM table ...`, and its first row by
    columns.

    `run` answers the query.  Raises SqlError.
    """
    name, answer = _table_of(text, names), run(text)
    if not answer:
        raise SqlError(
            f"no row of {name} is selected; write the row as in rules to see why it is not there"
        )
    (row,) = answer.to_arrow().slice(0, 1).to_pylist()
    return name, row


def _table_of(text: str, names: Iterable[str]) -> str:
    """Return the name of the only table of a query of whole rows."""
    ((node, _),) = parse(text, "duckdb")[:1]
    tables = [table.name for table in node.find_all(exp.Table)]
    if (
        not node.find(exp.Star)
        or len(tables) != 1
        or not isinstance(node, exp.Select)
        or node.args.get("group")
    ):
        raise SqlError("a row is named by SELECT * FROM a view WHERE ...", node)
    return next((name for name in names if name.lower() == tables[0].lower()), tables[0])


class Statements:
    """Runs statements on a workspace, in a transaction or over an older version."""

    def __init__(
        self,
        host: Host,
        version: int | str | None = None,
        inside: Transaction | None = None,
        sessions: Sessions | None = None,
        asked: Asked | None = None,
    ) -> None:
        """Without `sessions`, BEGIN is refused, as it is in a transaction and over a version.
        `asked` are the statements that the newest version was asked before.
        """
        self.host, self.version, self.inside, self.sessions = host, version, inside, sessions
        self.asked = asked
        self.strict = False
        self._kept: KeptQuestion | None = None  # the newest question

    @property
    def open(self) -> Transaction | None:
        """The transaction that BEGIN opened in this thread or task."""
        return None if self.sessions is None else self.sessions.open

    def run(
        self,
        text: str,
        parameters: Parameters = None,
        dialect: str = "duckdb",
        incremental: str = "auto",
    ) -> Answer | None:
        """Run the statements of a text; return the answer of the last, if it has one."""
        if incremental not in ("auto", "strict"):
            raise OptionError(f"incremental={incremental!r}: it is 'auto' or 'strict'")
        self.strict = incremental == "strict"
        asked = None if self.asked is None else self.asked.find(text, parameters, dialect)
        if asked is None:
            return self._run_all(text, parameters, dialect)
        statement, values = asked
        own = kinds(values)
        turn = partial(run_single, self, text, dialect, parameters)
        if (again := self._again(statement, own, values, turn)) is not None:
            return again
        given = written(values)
        if self.asked is not None and given is not None and statement.translates(own):
            again = ask_given(
                self.asked,
                self._reader(),
                statement,
                dialect,
                values,
                own,
                given,
                partial(read, statement.text, dialect, _answer),
                partial(parse, text, dialect, parameters),
            )
            if again is not None:
                return again
        key = statement.text, dialect, given
        if (again := self._ask_again(key)) is not None:
            return again
        if self._txn is not None and not statement.edits:
            return self._run_all(text, parameters, dialect)
        before = None
        if statement.is_due(own):
            with self._reader().catalog() as catalog:
                before = self._catalog_of(catalog.source)
        self._kept, started = None, time.perf_counter()
        answer = self._run_all(text, parameters, dialect)
        statement.seconds = time.perf_counter() - started
        if before is not None and answer is not None:
            self._expect_again(statement, own, dialect, answer, before)
        if (
            self._kept
            and given is not None
            and statement.came_before
            and statement.known(own) is None
        ):
            assert self.asked is not None
            self.asked.keep(key, self._kept)
        return answer

    def _run_all(self, text: str, parameters: Parameters, dialect: str) -> Answer | None:
        """Run the statements of a text that is read anew."""
        answer: Answer | None = None
        nodes = parse(text, dialect, parameters)
        for node, explained in nodes:
            with self._errors_of_sql(node):
                answer = self._explain(node) if explained else self._run(node)
        if len(nodes) > 1:
            self._kept = None
        return answer

    def _ask_again(self, key: Any) -> Answer | None:
        """Answer a question that is kept compiled; None if it is not, or not for this catalog."""
        kept = None if self.asked is None else self.asked.questions.get(key)
        if kept is None or kept.node is None:
            return None
        with self._errors_of_sql(kept.node):
            return kept.answer(self._reader())

    def run_many(self, text: str, rows: list[Any], dialect: str) -> int:
        """Run a statement that edits for each list of parameters, all in one transaction or none;
        return the number of rows.
        """
        if self._txn is None:
            with self.host.transaction() as txn:
                return self.within(txn).run_many(text, rows, dialect)
        nodes, count = read(text, dialect), 0
        if len(nodes) != 1 or not isinstance(nodes[0], EDITS):
            raise SqlError("one INSERT, UPDATE, DELETE or MERGE is run for many values")
        with self._txn.savepoint():
            for place, row in enumerate(rows):
                if place == ONE_BY_ONE and (
                    done := self._batch(self._txn, text, rows[place:], dialect)
                ):
                    return count + done
                rows_ = self.run(text, row, dialect) or ()
                count += len(rows_) if nodes[0].args.get("returning") else next(iter(rows_))[0]
        return count

    def _batch(self, txn: Transaction, text: str, rows: list[Any], dialect: str) -> int | None:
        """Make the edits of many lists of values at once; None if nothing is done."""
        plan, values = planned(self.asked, txn, text, rows, dialect)
        done = None if plan is None else plan.run(txn, values)
        return None if done is None else done.changed

    def prepared(
        self, texts: Sequence[str], dialect: str, memory: int | None
    ) -> PreparedTransaction:
        """Return statements that edit as one transaction, to be run with other values each time."""
        return prepared(self, texts, dialect, memory)

    def within(self, txn: Transaction) -> Statements:
        """Return what runs statements in a transaction."""
        return Statements(self.host, None, txn, asked=self.asked)

    @property
    def _txn(self) -> Transaction | None:
        """The transaction that statements are part of."""
        return self.inside or self.open

    def _catalog_of(self, source: Any) -> Any:
        """Return the catalog that statements read; None for one that a transaction has changed."""
        return catalog_of(source) if self._txn is None else unchanged_catalog(self._txn)

    def _again(
        self,
        statement: Statement,
        own: tuple[type, ...],
        values: list[Any],
        turn: Callable[[], int],
    ) -> Answer | None:
        """Return what a statement does that came before and that keys are enough for; None if
        they are not, and nothing is done.

        Beside other processes that write, an edit of a row takes its `turn`.
        """
        if not statement.is_known(own):
            return None
        if self._txn is not None:
            return made_again(self._txn, statement, own, values) if statement.edits else None
        if isinstance(known := statement.known(own), KeyedEdit):
            if known.is_single and Turn.is_shared(self.host.store):
                with self._errors_of_sql(known.node):
                    return known.answer(Done(turn(), []))
            with self._errors_of_sql(known.node):
                return made_alone(self.host, statement, own, values)
        with self.host.store.snapshot() as source:
            plan: Seeks | None = statement.plan(own, catalog_of(source))
            return None if plan is None else plan.answer(source, values)

    def _expect_again(
        self, statement: Statement, own: tuple[type, ...], dialect: str, found: Answer, before: Any
    ) -> None:
        """Find out how keys do what a statement says that came twice, unless `before` it there was
        another catalog.
        """
        plan: Seeks | KeyedEdit | None = None
        with self._reader().catalog() as catalog:
            if self._catalog_of(catalog.source) is not before:
                return
            with suppress(SqlglotError, PagestoreError, IvmError):
                schema = found.schema
                match read(statement.text, dialect, _answer):
                    case [exp.Select() as node] if not (
                        session.BESIDE in node.meta or session.MOMENTARY in node.meta
                    ):
                        queries = self._queries(catalog)
                        plan = seeks_of(node, own, queries, catalog.source, schema)
                    case [exp.Insert() | exp.Update() | exp.Delete() | exp.Merge() as node]:
                        plan = edit_of(node, own, self._reader(), catalog, schema)
        statement.remember(own, before, plan)

    @contextmanager
    def _errors_of_sql(self, node: exp.Expr) -> Iterator[None]:
        """Let what goes wrong in a statement be said in the words of SQL, with its place."""
        try:
            yield
        except (ConstraintError, FunctionConflictError) as error:
            if said := self._violated(error):
                raise SqlError(said, node) from error
            raise
        except RangeError as error:
            raise SqlError(self._in_words(error, node), node) from error
        except LimitError as error:
            if not error.beyond:
                raise
            beyond = re.sub(r"^\w+=", "", error.beyond)
            said = f"WITH RECURSIVE goes beyond {beyond}; bound it, as by WHERE n < 100"
            raise LimitError(str(SqlError(said, node))) from error
        except RuleTypeError as error:
            raise misfit(error, None, node) from error
        except RuleError as error:
            matches = ((re.search(form, error.reason), said) for form, said in WORDS.items())
            said = next((match.expand(said) for match, said in matches if match), error.reason)
            raise SqlError(f"this is not evaluated: {said}", node) from error
        except (DependantsError, UninstallError) as error:
            raise SqlError(tables.readers(self.host, node) or str(error), node) from error
        except RecursionError:
            raise SqlError(TOO_DEEP, node) from None
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            if isinstance(error, IvmError | PagestoreError) or not _is_of_translation(error):
                raise
            shown = f"{type(error).__name__}: {str(error)[:60]}"
            raise SqlError(f"this is not evaluated: {MISTAKE} ({shown})", node) from error

    def put_in_words(self, error: MaintainError) -> None:
        """Let the error of a constraint or of a value say in SQL's words what is wrong, if SQL
        made the view.
        """
        if isinstance(error, ConstraintError | FunctionConflictError):
            error.args = (self._violated(error) or str(error),)
        elif isinstance(error, RangeError) and error.of:
            error.args = (self._in_words(error),)

    def _violated(self, error: ConstraintError | FunctionConflictError) -> str:
        """Return the error of a constraint of a table, or of a subquery of one row, in the words of
        SQL; empty for another.
        """
        if isinstance(error, FunctionConflictError):
            return SEVERAL if PART.search(error.predicate) else ""
        with Reader(self.host).catalog() as catalog:
            for name, table in catalog.tables.items():
                texts = [*(table.get("constraints") or {}).values()]
                if texts and error.where.source == constraints.constraints_of(name):
                    # each is a line; its rule has other columns once the table has
                    columns = catalog.source[name].schema.names
                    return constraints.violated(name, texts[error.where.line - 1], error, columns)
        return ""

    def _in_words(self, error: RangeError, node: exp.Expr | None = None) -> str:
        """Return in SQL's words that a value of a kept view, or of one that a statement creates,
        has no value.
        """
        name = PART.sub("", error.of)
        with Reader(self.host).catalog() as catalog, suppress(SqlError):
            kept = catalog.kept.get(name, {})
            if isinstance(node, exp.Create):
                query, given = node.expression, [n.name for n in node.this.expressions]
            elif kept:
                query, given = saved_query(kept), [n for n, _, _ in kept["columns"]]
            if name and (kept or isinstance(node, exp.Create)):
                rows, queries = views.translated(catalog, name, query, has_clock=True)
                names = [*given, *(n for n, _ in rows.columns[len(given) :])]
                trees = views.kept_trees(name, "", finish(queries.builder, rows, name, names))
                error = in_words(error, queries.builder, trees, name)
        return (
            f"a row has no value ({error}): TRY(...) and TRY_CAST give null there"
            if error.of
            else str(error)
        )

    def _run(self, node: exp.Expr) -> Answer | None:
        self._name_types(node)
        if isinstance(node, QUERIES):
            return self._query(node)
        refuse_unknown_statement(node)
        if isinstance(node, exp.From):
            return self._query(exp.select("*").from_(node), node)
        if isinstance(node, EDITS):
            return self._edit(node)
        if isinstance(node, exp.Copy):
            return self._copy(node)
        if isinstance(node, exp.Describe | exp.Show):
            with self._reader().catalog() as catalog:
                return views.described(catalog, node, self._queries)
        if isinstance(node, exp.Command) and node.name in ("SET", "RESET", "DISCARD", "DEALLOCATE"):
            return None  # what changes nothing
        if savepoint := _savepoint(node):
            mark(self.inside or self.open, node, savepoint)
            return None
        if isinstance(node, exp.Transaction | exp.Commit | exp.Rollback):
            self._bracket(node)
            return None
        if isinstance(node, exp.Command) and (
            parts := versions.BRANCH.fullmatch(command_text(node))
        ):
            self._refuse_inside(node)
            versions.run_branch(self.host.store, parts.groupdict(), node)
            return None
        change = self._definitions().get(type(node))
        if change is None or (isinstance(node, exp.Command) and not tables.is_of_type(node)):
            raise no_statement(node)
        self._refuse_inside(node)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            change(self.host, node)
        for warning in said:
            warnings.warn(warning.message, stacklevel=4)
        return None

    def _refuse_inside(self, node: exp.Expr) -> None:
        """Raise SqlError for a statement that is a commit of its own, where there can be none."""
        if self.version is not None:
            raise SqlError("an older version does not change: run this on the workspace", node)
        if self.inside is not None or self.open is not None:
            word = (node.name if isinstance(node, exp.Command) else node.key).upper()
            raise SqlError(f"{word} is a commit of its own: COMMIT or ROLLBACK first", node)

    def _name_types(self, node: exp.Expr) -> None:
        """Replace types that CREATE TYPE named by what they are."""
        if node.meta.pop(NAMED_TYPES, False):
            node.meta.pop(SOURCE, None)  # whose text names a type, which may be dropped
            with self._reader().catalog() as catalog:
                for type_ in [*node.find_all(exp.DataType)]:
                    if type_.this == exp.DataType.Type.USERDEFINED and (
                        shown := catalog.type_named(type_.args["kind"])
                    ):
                        type_.replace(exp.DataType.build(shown, dialect="duckdb"))

    def _definitions(self) -> dict[type[exp.Expr], Callable[[Host, Any], None]]:
        return {
            exp.Create: partial(
                views.create, strict=self.strict, read=self._rows_of_files().of_query
            ),
            exp.Drop: tables.drop,
            exp.Alter: tables.alter,
            exp.Command: tables.define_type,
        }

    def _reader(self) -> Reader:
        return Reader(self.host, self.version, self.inside or self.open)

    @staticmethod
    def _queries(catalog: Any, name: str = "sql") -> Queries:
        return Queries(Builder(name), catalog.schema())

    def _query(self, node: exp.Expr, statement: exp.Expr | None = None) -> Answer:
        """Answer a query, which may be part of a statement."""
        reader = self._reader()
        if session.BESIDE in (statement or node).meta:
            with reader.state() as state:
                beside = put_beside(reader, state, node)
                queries = self._queries(Catalog(state))
                return answer(
                    queries,
                    queries.query(beside, None, top=True),
                    lambda program: reader.ask_in(state, program),
                )
        with reader.catalog() as catalog:
            queries = self._queries(catalog)
            rows = queries.query(node, None, top=True)
            rules, table = answered(queries, rows, reader.ask)
        self._kept = compiled(reader, node, rules)
        return table

    def _explain(self, node: exp.Expr) -> Answer:
        import pyarrow as pa

        self._name_types(node)
        reader = self._reader()
        with reader.catalog() as catalog:
            if isinstance(node, exp.Column | exp.Table):
                text = self.host.explain(catalog.find(node.name) or node.name)
            else:
                query = node.expression if isinstance(node, exp.Create) else node
                if session.BESIDE in node.meta:
                    raise SqlError(
                        "EXPLAIN shows the rules of questions over tables and views", node
                    )
                text = views.explained(self._queries(catalog), query)
        return Answer(pa.table({"explain": of_texts(text.split("\n"))}))

    def _edit(self, node: exp.Expr, rows: pa.Table | None = None) -> Answer:
        if self.version is not None:
            raise SqlError("an older version does not change: run this on the workspace", node)
        if rows is None and session.BESIDE in node.meta:
            node, rows = self._rows_of_files().inserted(node)
        txn = self.inside or self.open
        if txn is not None:
            with txn.savepoint():  # a statement that fails leaves the transaction as it was
                return _edited(self.host, txn, node, rows)
        with self.host.transaction() as own:
            return _edited(self.host, own, node, rows)

    def _rows_of_files(self) -> FileRows:
        return FileRows(self._reader(), self.host.files_allowed, self._query)

    def _copy(self, node: exp.Copy) -> Answer:
        """COPY: rows of a file into a table, or of a query into a file."""
        made, rows = self._rows_of_files().copied(node)
        return _counted(rows.num_rows) if made is None else self._edit(made, rows)

    def _bracket(self, node: exp.Expr) -> None:
        if self.sessions is None:
            raise SqlError(
                f"{node.key.upper()}: this is inside a transaction of Python, which ends by itself",
                node,
            )
        txn = self.sessions.open
        if isinstance(node, exp.Transaction):
            if txn is not None:
                raise SqlError(
                    "BEGIN: a transaction has begun already: COMMIT or ROLLBACK first", node
                )
            self.sessions.begin(self.host.transaction())
            return
        if txn is None:
            raise SqlError(f"{node.key.upper()}: no transaction has begun", node)
        self.sessions.end()
        txn.commit() if isinstance(node, exp.Commit) else txn.rollback()


def _is_of_translation(error: Exception) -> bool:
    """Return whether an error is raised where statements are translated, not by what they run."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__", "")).startswith(("ivm.sql.", "sqlglot."))


def _savepoint(node: exp.Expr) -> str:
    """Return the name of the savepoint that a statement is about; empty for any other."""
    if isinstance(node, exp.Rollback):
        return node.text("savepoint")
    is_mark = isinstance(node, exp.Command) and node.name in ("SAVEPOINT", "RELEASE")
    return str(node.args["expression"]) if is_mark else ""


def _edited(host: Host, txn: Transaction, node: exp.Expr, rows: pa.Table | None) -> Answer:
    """Run one edit in a transaction; return the number of rows, or what RETURNING says of them.

    The `rows` are those of an INSERT, if they are from a file.
    """
    reader = Reader(host, None, txn)
    with reader.catalog() as catalog:
        if isinstance(node, exp.TruncateTable):
            count = sum(Target(txn, reader, catalog, one, node).clear() for one in node.expressions)
        else:
            table = node.this.this if isinstance(node.this, exp.Schema) else node.this
            target = Target(txn, reader, catalog, table, node)
            count = _run_edit(target, node, rows)
            if node.args.get("returning"):
                return Answer(returned(target, node))
    return _counted(count)


def _counted(rows: int) -> Answer:
    """Return how many rows a statement has changed or written, as its answer."""
    import pyarrow as pa

    return Answer(pa.table({"Count": of_numbers(pa.int64(), np.array([rows]))}))


def _run_edit(target: Target, node: exp.Expr, rows: pa.Table | None) -> int:
    if isinstance(node, exp.Insert):
        return insert(target, node, rows)
    if isinstance(node, exp.Update):
        return update(target, node)
    if isinstance(node, exp.Delete):
        return delete(target, node)
    assert isinstance(node, exp.Merge)
    return merge(target, node)
