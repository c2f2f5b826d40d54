"""What a session says of itself and of the moment, as constants: `version()`, `current_schema()`,
`now()`.

A question and an edit have them, since both are done once.  A view that is kept follows from what
is stored, so it has none.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlglot import exp

from ivm.sql.literals import literal
from ivm.sql.naming.names import called, output_name
from ivm.sql.naming.schemas import DATABASE, schema_of
from ivm.sql.system.objects import DIALECT, USER
from ivm.sql.system.settings import VALUES
from pagestore import __version__

BESIDE = "beside"  # in the meta of a statement that reads more than tables and views of now
MOMENTARY = "momentary"  # in the meta of a statement that means another thing the next time


class Said(NamedTuple):
    """Where and when something is asked."""

    dialect: str
    moment: datetime

    @property
    def schema(self) -> str:
        """The schema of all tables."""
        return schema_of(self.dialect)

    @property
    def version(self) -> str:
        """The library, after the engine whose clients look for their own name."""
        text = f"ivm {__version__}"
        return f"PostgreSQL 15.0 ({text})" if self.dialect == "postgres" else text


ANSWERS: dict[str, Callable[[Said], Any]] = {
    "version currentversion": lambda said: said.version,
    "current_schema currentschema": lambda said: said.schema,
    "current_database currentdatabase current_catalog currentcatalog": lambda said: DATABASE,
    "current_user currentuser session_user sessionuser current_role currentrole user": lambda said: USER,
    "current_schemas currentschemas": lambda said: ["pg_catalog", said.schema],
    "pg_backend_pid": lambda said: 1, "pg_is_in_recovery": lambda said: False,
    "now current_timestamp currenttimestamp currenttimestampltz clock_timestamp "
    "statement_timestamp transaction_timestamp get_current_timestamp": lambda said: said.moment,
    "localtimestamp current_localtimestamp": lambda said: said.moment.replace(tzinfo=None),
    "current_date currentdate today": lambda said: said.moment.date(),
    "current_time currenttime localtime": lambda said: said.moment.time(),
    "random rand": lambda said: random.random(),
    "uuid gen_random_uuid uuid_generate_v4": lambda said: uuid.uuid4(),
}  # fmt: skip
_BY_NAME = {name: answer for names, answer in ANSWERS.items() for name in names.split()}
UNIFORM = ("random", "rand")
CHANCE = (*UNIFORM, "uuid", "gen_random_uuid", "uuid_generate_v4")
PER_ROW = "chance"  # in the meta of a table: the names and kinds of columns that chance fills


def answer(node: exp.Expr, nodes: Sequence[exp.Expr], dialect: str) -> None:
    """Let what its session says be constants in a question, or an edit, of which `nodes` are all
    parts.

    What chance gives each row of a question is a column of the only table.
    """
    said = Said(dialect, datetime.now(UTC))
    asks = isinstance(node, exp.Query)
    for part in nodes:
        value: exp.Expr | None = None
        if isinstance(part, exp.Table):
            part.meta[DIALECT] = dialect
            if _is_beside(part):
                node.meta[BESIDE] = True
        elif isinstance(part, exp.Select):
            if asks and part.args.get("sample"):
                _sample_the_table(part)
        elif isinstance(part, exp.Dot):
            call = part.expression
            if part.text("this").lower() == "pg_catalog" and isinstance(call, exp.Func):
                part.replace(call)
        elif isinstance(part, exp.Func | exp.Column):
            value = _value(part, said, asks)
        if value is not None:
            _name(part)
            part.replace(value)
            node.meta[MOMENTARY] = True


def constant_of(node: exp.Expr, moment: datetime | None = None) -> exp.Expr | None:
    """Return what an expression of a DEFAULT is a constant for; None if a session says none."""
    said = Said("duckdb", moment or datetime.now(UTC))
    return _value(node, said, False) if isinstance(node, exp.Func | exp.Column) else None


def simplify_definition(node: exp.Expr) -> None:
    """Let a DEFAULT of a moment or of chance be written as in every dialect, and leave out of a
    foreign key what it does anyway.
    """
    for key in node.find_all(exp.Reference):
        options = key.args.get("options") or []
        key.set("options", [o for o in options if not str(o).endswith((" NO ACTION", " RESTRICT"))])
    words = {"now": exp.CurrentTimestamp, "gen_random_uuid": exp.Uuid, "random": exp.Rand}
    for one in node.find_all(exp.DefaultColumnConstraint):
        if isinstance(one.this, exp.Anonymous) and (kind := words.get(one.this.name.lower())):
            one.set("this", kind())


def _is_beside(table: exp.Table) -> bool:
    """Return whether a name of a FROM may mean anything beside tables of the newest version."""
    parts = ("db", "sample", "version", "when")
    return (
        any(table.args.get(part) for part in parts)
        or isinstance(table.this, exp.Func)
        or table.name.lower().startswith("pg_")
        or "." in table.name  # a file
    )


def _value(node: exp.Expr, said: Said, asks: bool) -> exp.Expr | None:
    """Return what a part of a statement is a constant for; None for any other."""
    name = called(node)
    if name is None and said.dialect == "postgres" and _is_user(node):
        name = "user"  # a word of the language there
    if name == "current_setting" and (setting := VALUES.get(node.expressions[0].name.lower())):
        return exp.Literal.string(setting)
    if name == "set_config":
        given: exp.Expr = node.expressions[1].copy()
        return given
    if name in CHANCE and _is_of_rows(node):
        return _drawn(node, UNIFORM[0] if name in UNIFORM else name) if asks else None
    given_more = isinstance(node, exp.Anonymous) and node.expressions and name != "current_schemas"
    if name not in _BY_NAME or given_more:
        return None
    value = literal(_BY_NAME[name](said))
    return exp.Cast(this=value, to=exp.DataType.build("DOUBLE")) if name in UNIFORM else value


def _is_user(node: exp.Expr) -> bool:
    named = isinstance(node, exp.Column) and node.name == "user"
    return named and not (node.text("table") or node.this.args.get("quoted"))


def _only_table(select: exp.Expr | None) -> exp.Table | None:
    """Return the table of a SELECT from one table."""
    if select is None or select.args.get("joins") or not (source := select.args.get("from_")):
        return None
    return source.this if isinstance(source.this, exp.Table) else None


def _sample_the_table(select: exp.Select) -> None:
    """Let USING SAMPLE after a SELECT from one table be a sample of this."""
    table = _only_table(select)
    if table is not None and (sample := select.args.get("sample")):
        select.set("sample", None)
        table.set("sample", sample)


def _drawn(node: exp.Expr, kind: str) -> exp.Expr | None:
    """Return a column of the table of a SELECT that has, for each row, what chance gives; None if
    there are several tables.
    """
    select = node.parent_select
    table = _only_table(select)
    if select is None or table is None:
        return None
    if any(isinstance(item, exp.Column) and item.is_star for item in select.expressions):
        return None
    stars = [item for item in select.expressions if isinstance(item, exp.Star)]
    columns = table.meta.setdefault(PER_ROW, [])
    name = f"{kind} {len(columns)}"
    columns.append((name, kind))
    select.root().meta[BESIDE] = True
    for star in stars:
        star.set(
            "except_", [*(star.args.get("except_") or ()), exp.to_identifier(name, quoted=True)]
        )
    return exp.column(name, table.alias_or_name, quoted=True)


def _is_of_rows(node: exp.Expr) -> bool:
    """Return whether an expression is evaluated for each row of a FROM, or of an edit."""
    select = node.parent_select
    if isinstance(select, exp.Select):
        return bool(select.args.get("from_"))
    return node.find_ancestor(exp.Update, exp.Delete, exp.Merge) is not None


def _name(node: exp.Expr) -> None:
    """Keep the name of a column that is about to become a constant."""
    item: exp.Expr | None = node
    while item is not None and not isinstance(item.parent, exp.Select):
        item = item.parent
    if item is not None and item.arg_key == "expressions" and not isinstance(item, exp.Alias):
        alias = exp.Alias(alias=exp.to_identifier(called(item) or output_name(item), quoted=True))
        item.replace(alias)
        alias.set("this", item)
