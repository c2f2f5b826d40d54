"""Operators and functions that several dialects share and DuckDB lacks, in DuckDB's terms."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Any

from sqlglot import exp

from ivm.sql.dialects.table import duckdb
from ivm.sql.errors import SqlError

_T = exp.DataType.Type
PADDED = (_T.CHAR, _T.NCHAR, _T.BPCHAR)
ROWS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In)
MARKS = re.compile(r"%(?:[-0+]*[0-9]*(?:\.[0-9]+)?[a-zA-Z%])")
FORM = re.compile(r"(?:[^%]|%s|%[-0+]*[0-9]*(?:\.[0-9]+)?[df]|%%)*")


def cast_as(prefix: str, node: exp.Cast) -> exp.Expr:
    """Return a cast as a function of a dialect, `spark_cast(x, 'INTEGER')`."""
    return exp.Anonymous(
        this=f"{prefix}_cast",
        expressions=[node.this, exp.Literal.string(node.to.sql(dialect="duckdb"))],
    )


def refuse_padded(node: exp.Expr, type_: exp.Expr | None) -> None:
    """Raise SqlError if a type is CHAR(n), or has it within."""
    if type_ is not None and any(part.this in PADDED for part in type_.walk()):
        raise SqlError(
            "CHAR(n) fills texts with blanks that comparisons overlook and LIKE does not: write "
            "varchar(n), or rpad(x, n)",
            node,
        )


def column_defined(node: exp.ColumnDef) -> None:
    """Let a column of a table be defined as it is in DuckDB, unless it is filled with blanks."""
    refuse_padded(node, node.args.get("kind"))


def like_with_backslash(node: exp.Expr) -> exp.Expr | None:
    """LIKE, in whose pattern `\\` makes the letter after it stand for itself."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) and node.arg_key == "this":
        return None
    if isinstance(pattern, exp.Literal):
        mark = exp.Literal.string("\\")
        return exp.Escape(this=node.copy(), expression=mark) if "\\" in pattern.name else None
    if isinstance(pattern, exp.Any | exp.All) and isinstance(pattern.this, exp.Tuple | exp.Paren):
        patterns = pattern.this.expressions or [pattern.this.this]
        tests = [type(node)(this=node.this.copy(), expression=p.copy()) for p in patterns]
        tests = [like_with_backslash(test) or test for test in tests]
        return exp.paren((exp.or_ if isinstance(pattern, exp.Any) else exp.and_)(*tests))
    if isinstance(pattern, exp.Any | exp.All | exp.Tuple):
        return None
    sign = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    return duckdb(
        f"CASE WHEN contains(:p, '\\') THEN failing(:s {sign} :p, 'a pattern with a backslash in a "
        f"column') ELSE :s {sign} :p END",
        {"s": node.this, "p": pattern},
    )


def like_called(kind: type[exp.Expr], node: exp.Anonymous) -> exp.Expr:
    """Return like(s, p) as the operator."""
    made = kind(this=node.expressions[0], expression=node.expressions[1])
    return like_with_backslash(made) or made


def decimal_digits(node: exp.DataType) -> exp.Expr | None:
    """Return DECIMAL, whose values are whole numbers of 10 digits unless it says other."""
    if node.this != _T.DECIMAL or node.expressions:
        return None
    return exp.DataType.build("DECIMAL(10,0)", dialect="duckdb")


def divided(prefix: str, node: exp.Expr) -> exp.Expr:
    """Return `/` as a function of a dialect."""
    return duckdb(f"{prefix}_divide(:a, :b)", {"a": node.this, "b": node.expression})


def either_way(node: exp.Between) -> exp.Expr | None:
    """BETWEEN, also SYMMETRIC."""
    symmetric = node.args.get("symmetric")
    node.set("symmetric", None)
    if not symmetric:
        return None
    low, high = node.args["low"], node.args["high"]
    return duckdb(
        ":x BETWEEN :a AND :b OR :x BETWEEN :b AND :a", {"x": node.this, "a": low, "b": high}
    )


def by_places(node: exp.Expr) -> exp.Expr | None:
    """Return a comparison of rows as comparisons of their values; a null leaves it open."""
    if isinstance(node.parent, exp.Update | exp.OnConflict):  # SET (a, b) = (1, 2)
        return None
    others = node.expressions if isinstance(node, exp.In) else [node.expression]
    if (
        not isinstance(node.this, exp.Tuple)
        or not others
        or not all(isinstance(tuple_, exp.Tuple) for tuple_ in others)
    ):
        return None
    tests = [_compared(type(node), node.this.expressions, tuple_.expressions) for tuple_ in others]
    return exp.paren(exp.or_(*tests), copy=False)


def _compared(kind: type[exp.Expr], left: list[exp.Expr], right: list[exp.Expr]) -> exp.Expr:
    if len(left) != len(right):
        raise SqlError(f"a row of {len(left)} values is compared with one of {len(right)}", left[0])
    pairs = [*zip(left, right, strict=True)]
    if kind in (exp.EQ, exp.In, exp.NEQ):
        same = exp.and_(*(exp.EQ(this=a.copy(), expression=b.copy()) for a, b in pairs))
        return exp.not_(same) if kind is exp.NEQ else same
    strict = exp.LT if kind in (exp.LT, exp.LTE) else exp.GT
    (a, b), *rest = pairs
    if not rest:
        return kind(this=a.copy(), expression=b.copy())
    later = _compared(kind, left[1:], right[1:])
    same = exp.EQ(this=a.copy(), expression=b.copy())
    return exp.or_(strict(this=a.copy(), expression=b.copy()), exp.and_(same, later))


def numbered_columns(node: exp.Values) -> None:
    """Name the columns of VALUES in FROM and WITH column1, column2, unless they have names."""
    alias = node.args.get("alias") or exp.TableAlias()
    around = node.parent.parent if isinstance(node.parent, exp.Subquery) else node.parent
    if not alias.columns and isinstance(around, exp.From | exp.Join | exp.CTE):
        width = len(node.expressions[0].expressions)
        names = [exp.to_identifier(f"column{n}") for n in range(1, width + 1)]
        node.set("alias", exp.TableAlias(this=alias.this, columns=names))


def refuse_unread(
    form: exp.Expr,
    pieces_of: Callable[[str], list[tuple[str, Any, str]] | None],
    words: Container[str] | None,
    known: str,
) -> None:
    """Raise SqlError for a pattern of dates that is not read, or has others than some words."""
    pieces = pieces_of(form.name) if isinstance(form, exp.Literal) else None
    if pieces is None or any(word and words and word not in words for word, _, _ in pieces):
        raise SqlError(f"a pattern of dates is written out, of {known}", form)


def shifted(node: exp.Expr, prefix: str = "") -> exp.Expr:
    """Return `<<` or `>>`, which keep the bits of their type."""
    side = "left" if isinstance(node, exp.BitwiseLeftShift) else "right"
    return duckdb(f"{prefix}shift_{side}(:a, :b)", {"a": node.this, "b": node.expression})


def printed(node: exp.Anonymous, meanings: dict[str, str]) -> exp.Expr:
    """Return printf, by what stands for an argument of %s, %d and %f. SqlError for others."""
    form, *values = node.expressions
    known = isinstance(form, exp.Literal) and FORM.fullmatch(form.name) is not None
    letters = [mark[-1] for mark in MARKS.findall(form.name) if mark != "%%"]
    if not known or len(letters) != len(values):
        raise SqlError(
            f"{node.name} takes a text that is written out, with %s, %d or %.2f for each value",
            node,
        )
    shown = [meanings[letter].format(f"a{n}") for n, letter in enumerate(letters)]
    given = {f"a{n}": value for n, value in enumerate(values)}
    return duckdb(f"spark_format({', '.join([':f', *shown])})", {"f": form, **given})


def unit_name(node: exp.Expr) -> str:
    """Return the name of a unit of time, in capitals and for one of it."""
    name = node.name.upper()
    return name.removesuffix("S") if name not in ("S",) else name
