"""Texts of each dialect as trees of DuckDB's SQL, which the translation to rules reads.

The parser of a dialect knows its grammar and none of its functions: a call keeps its name, and the
table of the dialect says what it means. So a function that the table lacks is refused by the name
that it has there, and never taken for another that the parser makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from ivm.sql import syntax
from ivm.sql.dialects import postgres, spark, sqlite
from ivm.sql.dialects.release import refuse_other_parsers
from ivm.sql.dialects.table import Table, translated

TABLES: dict[str, Table] = {
    "postgres": postgres.TABLE,
    "sqlite": sqlite.TABLE,
    "spark": spark.TABLE,
}
DIALECTS = ("duckdb", *TABLES)
SYNTAX = (  # functions whose arguments have words between them
    "CAST", "TRY_CAST", "CEIL", "EXTRACT", "FLOOR", "GROUP_CONCAT", "LISTAGG", "OVERLAY",
    "POSITION", "STRING_AGG",
    "SUBSTRING", "TRIM",
)  # fmt: skip

refuse_other_parsers()


def parsed(text: str, dialect: str = "duckdb") -> list[exp.Expr]:
    """Return the statements of a text as its dialect writes them.  Raises SqlglotError."""
    found = (
        syntax.parsed(text, dialect)
        if dialect == "duckdb"
        else sqlglot.parse(text, dialect=_grammar(dialect))
    )
    return [_plain(one) for one in found if one is not None]


def in_duckdb(node: exp.Expr, dialect: str) -> exp.Expr:
    """Return a statement of a dialect as DuckDB would write it; its columns keep their names.
    Raises SqlError.
    """
    return node if dialect == "duckdb" else translated(node, TABLES[dialect])


def _plain(node: exp.Expr) -> exp.Expr:
    """Return a tree in which `NOT` is a node of its own, wherever a release of the parser keeps
    it as a part.
    """
    for one in [*node.find_all(exp.Is, exp.Like, exp.ILike)]:
        if one.args.get("negate"):
            one.set("negate", None)
            new = exp.Not(this=one.copy())
            node = new if one is node else node
            one.replace(new)
    return node


def _constructor(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    """Return a call in parentheses, since the parser takes `array(1, 2)[0]` for the list
    `array[0]`.
    """
    return exp.Paren(this=exp.Anonymous(this=name.lower(), expressions=arguments))


@cache
def _grammar(dialect: str) -> Any:
    """Return a dialect of the parser without its functions."""
    base: Any = type(Dialect.get_or_raise(dialect))
    known: dict[str, Callable[..., Any]] = base.parser_class.FUNCTION_PARSERS
    parser = type(
        "Parser",
        (base.parser_class,),
        {
            "FUNCTIONS": {name: partial(_constructor, name) for name in ("ARRAY", "LIST")},
            "FUNCTION_PARSERS": {name: known[name] for name in SYNTAX if name in known},
        },
    )
    return type(
        f"{base.__name__}WithoutFunctions", (base,), {"Parser": parser, "parser_class": parser}
    )
