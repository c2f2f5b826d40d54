"""Texts of each dialect as trees of DuckDB's SQL, which the translation to rules reads.

The parser of a dialect knows its grammar and none of its functions: a call keeps its name, and the
table of the dialect says what it means. So a function that the table lacks is refused by the name
that it has there, and never taken for another that the parser makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.tokens import TokenType

from ivm.sql import syntax
from ivm.sql.dialects import postgres, spark, sqlite
from ivm.sql.dialects.release import refuse_other_parsers
from ivm.sql.dialects.table import Table, translated
from ivm.sql.errors import SqlError
from ivm.sql.functions.lists import SHIFTED
from ivm.sql.naming import schemas, source_text
from ivm.sql.syntax import path_of, query_in_place, refuse_halves, regroup, regroup_maps

TABLES: dict[str, Table] = {
    "postgres": postgres.TABLE,
    "sqlite": sqlite.TABLE,
    "spark": spark.TABLE,
}
DIALECTS = ("duckdb", *TABLES)
_OTHER: dict[type[exp.Expr], type[exp.Expr]] = {exp.Any: exp.All, exp.All: exp.Any}
CREATE_PIVOT = re.compile(r"(create\b.*?\bas)\s+((?:un)?pivot\b.*)", re.IGNORECASE | re.DOTALL)
# of what the parser counts from 0
SHIFTED_TYPES = (exp.DataType.Type.UNKNOWN, exp.DataType.Type.ARRAY)
NAMED_TYPES = "named types"  # in the meta of a statement that names types of CREATE TYPE
# in the meta of a join: tables are joined as they come, whatever commas are between them, and a
# name of USING is that of the first; columns of USING are shown before all others
IN_TURN, KEYS_FIRST = "in turn", "keys first"
JOINS = {"postgres": [KEYS_FIRST], "sqlite": [IN_TURN], "spark": [IN_TURN, KEYS_FIRST]}
DIALECT = "dialect"  # in the meta of a statement
ADAPTS = "adapts"  # in the meta of a set operation where a constant text may be of any type
SOURCE = "source"  # in the meta of a CREATE: its text and its dialect
COMMAS_MAX = 600_000  # of one text, outside quotes
ENDS = TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, TokenType.SEMICOLON  # of a name after AS
SYNTAX = (  # functions whose arguments have words between them
    "CAST", "TRY_CAST", "CEIL", "EXTRACT", "FLOOR", "GROUP_CONCAT", "LISTAGG", "OVERLAY",
    "POSITION", "STRING_AGG",
    "SUBSTRING", "TRIM",
)  # fmt: skip

refuse_other_parsers()
Answer: TypeAlias = Callable[[exp.Expr, Sequence[exp.Expr], str], None]


def _unanswered(_node: exp.Expr, _nodes: Sequence[exp.Expr], _dialect: str) -> None:
    """Replace nothing: a view follows from what is stored."""


def read(text: str, dialect: str = "duckdb", answer: Answer = _unanswered) -> list[exp.Expr]:
    """Return the statements of a text in a dialect as trees in which DuckDB's functions are known;
    a CREATE has its own text, and the dialect, under `SOURCE` in its meta.  Raises SqlError.

    `answer` may replace parts of a statement, given all of them, before its functions are known.
    """
    refuse_no_text(text, dialect)
    try:
        found = [_read(one, dialect, text, answer) for one in _parsed(text, dialect)]
    except SqlglotError as error:
        raise syntax.syntax_error(error, text) from None
    if any(isinstance(one, exp.Create) for one in found):
        for one, own in zip(found, _pieces(text, dialect), strict=True):
            one.meta[SOURCE] = own.strip(), dialect
    return found


def refuse_no_text(text: str, dialect: str) -> None:
    """Raise SqlError unless these are a text and a dialect."""
    if dialect not in DIALECTS:
        raise SqlError(f"dialect={dialect!r}: there is {', '.join(DIALECTS)}")
    if not isinstance(text, str):
        raise SqlError(f"{text!r} is not a text; statements are texts")


def saved_query(saved: dict[str, Any]) -> exp.Expr:
    """Return the query of a view, which is saved as the text of its CREATE with the dialect, or as
    a query of DuckDB's.
    """
    if "text" not in saved:
        return read(saved["query"])[0]
    query: exp.Expr = read(saved["text"], saved["dialect"])[0].expression
    return query


def to_save(node: exp.Create) -> dict[str, str]:
    """Return what a view saves of its CREATE.  Raises SqlError for a query of parameters that
    would be read as another.
    """
    if source := node.meta.get(SOURCE):
        return {"text": source[0], "dialect": source[1]}
    saved = {"query": node.expression.sql(dialect="duckdb")}
    (again,) = read(saved["query"])
    own, found = (
        [one.meta.get(SHIFTED) for one in of.find_all(exp.Bracket)] for of in (node, again)
    )
    if again.sql(dialect="duckdb") != saved["query"] or own != found:
        raise SqlError("a view is kept as a text: write values in place of parameters", node)
    return saved


def _pieces(text: str, dialect: str) -> list[str]:
    """Return the texts of the statements of a text, those between semicolons."""
    pieces, begin, empty = list[str](), 0, True
    end = len(text)
    for token in [*Dialect.get_or_raise(dialect).tokenize(text), None]:
        if token is not None and token.token_type != TokenType.SEMICOLON:
            empty = False
            continue
        pieces += [] if empty else [text[begin : end if token is None else token.start]]
        begin, empty = (end if token is None else token.end + 1), True
    return pieces


def _parsed(text: str, dialect: str) -> list[exp.Expr]:
    """Return the statements of a text in a dialect's own terms.  Raises SqlglotError, and
    SqlError for one that would take minutes to read.
    """
    if text.count(",") > COMMAS_MAX and syntax.QUOTED.sub("", text).count(",") > COMMAS_MAX:
        raise SqlError(
            f"this text has more than {COMMAS_MAX:,} values: load them into a table as Arrow or "
            "from a file, and name the table"
        )
    nodes = (
        syntax.parsed(text, dialect)
        if dialect == "duckdb"
        else _parsed_without_functions(text, dialect)
    )
    # a remark alone does nothing
    return [_plain(node) for node in nodes if not isinstance(node, exp.Semicolon | None)]


def _parsed_without_functions(text: str, dialect: str) -> list[exp.Expr | None]:
    grammar = Dialect.get_or_raise(_grammar(dialect))
    tokens = grammar.tokenize(text)
    for before, token, after in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False):
        ends = after is None or after.token_type in ENDS
        if (before.token_type, token.token_type) == (TokenType.ALIAS, TokenType.SELECT) and ends:
            token.token_type = TokenType.VAR  # a name, which PostgreSQL takes after AS
        elif (token.text.lower(), after and after.token_type) == ("window", TokenType.L_PAREN):
            token.token_type = TokenType.VAR  # a function of Spark
        elif token.token_type == TokenType.BYTE_STRING:  # E'...'
            token.token_type = TokenType.STRING
    with syntax.reading(text):
        return grammar.parser().parse(tokens, text)


def _is_shifted(node: exp.Bracket) -> bool:
    """Return whether the parser has made a place that counts from 1 one from 0: where it knows
    that it is a number.
    """
    if len(node.expressions) != 1 or (
        node.this.type is not None and node.this.type.this not in SHIFTED_TYPES
    ):
        return False
    type_ = annotate_types(node.expressions[0].copy()).type
    return type_ is not None and type_.this in exp.DataType.INTEGER_TYPES


def _read(node: exp.Expr, dialect: str, text: str, answer: Answer) -> exp.Expr:
    """Return a statement in DuckDB's terms, CREATE ... AS PIVOT as one of a subquery."""
    if isinstance(node, exp.Command) and (parts := CREATE_PIVOT.fullmatch(command_text(node))):
        text = f"{parts[1]} SELECT * FROM ({parts[2]})"
        (node,) = _parsed(text, dialect)
    elif isinstance(node, exp.Column) and node.table:  # of EXPLAIN
        node = exp.Table(this=node.this, db=node.args["table"], catalog=node.args.get("db"))
    nodes = [*node.walk(bfs=False)]
    refuse_halves(nodes)
    source_text.remember(nodes, text)
    if dialect in ("duckdb", "postgres"):
        regroup([*reversed(nodes)])
    for part in nodes:
        _change(part, node, dialect)
    regroup_maps(nodes)
    if isinstance(node, exp.Command):
        _parsed(query_in_place(f"{node.this}{node.expression}", text), dialect)
    answer(node, nodes, dialect)
    if dialect == "duckdb":
        return node
    node = translated(node, TABLES[dialect])
    node.meta[DIALECT] = dialect
    return node


def _change(part: exp.Expr, statement: exp.Expr, dialect: str) -> None:
    """Make a node what the translation reads, and note what the parser would lose."""
    if isinstance(part, exp.Bracket) and Dialect.get_or_raise(dialect).INDEX_OFFSET:
        part.meta[SHIFTED] = _is_shifted(part)
    # of a list
    if (
        isinstance(part, exp.Anonymous)
        and part.name.upper() == "ALL"
        and len(part.expressions) == 1
    ):
        part.replace(exp.All(this=exp.paren(part.expressions[0])))
    elif isinstance(part, exp.Lambda) and (path := path_of(part)) is not None:
        part.replace(path)
    elif isinstance(part, exp.DataType) and part.this == exp.DataType.Type.USERDEFINED:
        statement.meta[NAMED_TYPES] = True
    elif isinstance(part, exp.Table | exp.Column) and part.args.get("db"):
        schemas.leave_out(part, dialect)
    elif dialect != "duckdb" and isinstance(part, exp.SetOperation):
        part.meta[ADAPTS] = True
    elif isinstance(part, exp.ParseJSON) and part.args.get("is_literal"):  # JSON '[1]'
        part.replace(exp.cast(part.this.copy(), "JSON"))
    elif isinstance(part, exp.Join):
        part.meta.update(dict.fromkeys(JOINS.get(dialect, ()), True))
    if dialect == "postgres" and isinstance(part, exp.Table | exp.Unnest):
        postgres.name_column(part)


def command_text(node: exp.Command) -> str:
    """Return the text of a statement that the parser does not read."""
    return f"{node.this} {node.expression}".strip()


def _plain(node: exp.Expr) -> exp.Expr:
    """Return a tree in which `NOT` and `* ILIKE` are nodes of their own, wherever a release of
    the parser keeps them as parts.
    """
    for star in [*node.find_all(exp.Star)]:
        if (pattern := star.args.get("ilike")) is not None:
            star.set("ilike", None)
            whole = star.parent if isinstance(star.parent, exp.Column) else star
            whole.replace(exp.ILike(this=whole.copy(), expression=pattern))
    for test in [*node.find_all(exp.Is, exp.Like, exp.ILike)]:
        if test.args.get("negate"):
            test.set("negate", None)
            if swapped := _OTHER.get(type(test.expression)):  # NOT LIKE ANY: unlike one of them
                test.set("expression", swapped(this=test.expression.this))
            negated = test.parent if isinstance(test.parent, exp.Escape) else test
            new = exp.Not(this=negated.copy())
            node = new if negated is node else node
            negated.replace(new)
    return node


def _constructor(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    """Return a call in parentheses: the parser takes `array(1, 2)[0]` for the list `array[0]`."""
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
            "PLACEHOLDER_PARSERS": syntax.placeholders(base.parser_class),
            "ALTER_RENAME_REQUIRES_COLUMN": dialect == "spark",
        },
    )
    return type(
        f"{base.__name__}WithoutFunctions", (base,), {"Parser": parser, "parser_class": parser}
    )
