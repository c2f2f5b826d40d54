"""The table of a dialect, and how a tree is translated by it.

`calls` are functions by their parameters, each with DuckDB's expression of them:

    nvl(a, b)        coalesce(:a, :b)
    concat_ws(*a)    concat_ws(*a)            as many arguments as are given
    pi()             pi()

or a function of Python, which is given the arguments, and returns DuckDB's tree. A name of `same`
means what DuckDB's function means. `operators` are nodes of the tree by their kinds. `instead` says
what to write for functions that are not evaluated. All else that is called is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple, TypeAlias

import sqlglot
from sqlglot import exp

from ivm.sql.errors import SqlError, written
from ivm.sql.functions.known import reading
from ivm.sql.naming.names import output_name

Meaning: TypeAlias = str | Callable[..., exp.Expr]
NAMED = re.compile(r"(?<![:\w]):([a-z]\w*)")
MANY = re.compile(r"\*([a-z]\w*)")
# nodes of a statement: arguments that a meaning has twice double what is within them
LARGEST = 200_000
_PARSED: dict[str, exp.Expr] = {}


class Table(NamedTuple):
    """A dialect: its name for messages, and what its functions and operators mean (see above)."""

    name: str
    dialect: str
    same: frozenset[str]
    calls: Mapping[str, Meaning]
    operators: Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr | None]]
    instead: Mapping[str, str]
    meanings: dict[str, list[tuple[list[str], Meaning]]]  # of calls, by their names

    def names(self) -> list[str]:
        """Return the names of all functions that have a meaning."""
        return sorted({*self.same, *self.meanings})


def table(
    name: str,
    dialect: str,
    same: str,
    calls: Mapping[str, Meaning],
    operators: Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr | None]],
    instead: Mapping[str, str],
) -> Table:
    """Return a table; `same` are names with blanks between them, and a name of `calls` may be
    several: `nvl|ifnull(a)`.

    A name of `instead` may be several, too: `rand|random`.
    """
    meanings: dict[str, list[tuple[list[str], Meaning]]] = {}
    for signature, meaning in calls.items():
        names, parameters = signature.removesuffix(")").split("(")
        for one in names.split("|"):
            meanings.setdefault(one, []).append(([p for p in parameters.split(", ") if p], meaning))
    words = {one: word for names, word in instead.items() for one in names.split("|")}
    return Table(name, dialect, frozenset(same.split()), calls, operators, words, meanings)


def translated(node: exp.Expr, rows: Table) -> exp.Expr:
    """Return a statement as DuckDB writes it; what it selects keeps its names.  Raises SqlError."""
    _name_columns(node)
    root = exp.Paren(this=node)
    size = 0
    for one in [*root.walk(bfs=False)][::-1]:  # what is within a call before the call
        meaning = None
        if isinstance(one, exp.Anonymous) and isinstance(one.parent, exp.Hint):
            continue
        if isinstance(one, exp.Anonymous):
            meaning = _called(one, rows)
        elif change := rows.operators.get(type(one)):
            with reading(one):
                meaning = change(one)
                if meaning is None or meaning is one:
                    one.args.items()  # it stays, with all that it has
        if meaning is not None and meaning is not one:
            size += sum(1 for _ in meaning.walk())
            if size > LARGEST:
                raise SqlError(
                    "the functions of this statement are nested too deeply: take it in several "
                    "views",
                    one,
                )
            said = written(one, rows.dialect)[:80]  # for errors
            for call in meaning.find_all(exp.Anonymous, exp.Transform, exp.ArrayFilter, exp.ToMap):
                call.meta.setdefault("written", said)
            _replace(one, meaning)
    tree: exp.Expr = root.this
    tree.pop()
    return tree


def _name_columns(node: exp.Expr) -> None:
    """Name what queries select as DuckDB would name it, before it is written in other words."""
    for select in [*node.find_all(exp.Select)]:
        for item in select.expressions:
            if (
                not isinstance(item, exp.Alias | exp.Aliases | exp.Column | exp.Star | exp.Dot)
                and not item.is_star
            ):
                item.replace(exp.alias_(item.copy(), output_name(_plain_casts(item)), quoted=True))


def _plain_casts(item: exp.Expr) -> exp.Expr:
    """Return a copy in which CAST is one, though the parser takes Spark's for a TRY_CAST."""
    copy = exp.Paren(this=item.copy())
    for cast in [*copy.find_all(exp.TryCast)]:
        if not cast.args.get("safe"):
            cast.replace(exp.Cast(this=cast.this, to=cast.to))
    tree: exp.Expr = copy.this
    return tree


def _called(node: exp.Anonymous, rows: Table) -> exp.Expr:
    """Return the meaning of a call.  SqlError for a function or number of arguments without one."""
    name, given = node.name.lower(), node.expressions
    for parameters, meaning in rows.meanings.get(name, ()):
        if (values := _bound(parameters, given)) is not None:
            if callable(meaning):
                return meaning(node)
            return duckdb(_spread(meaning, parameters, given), values, node)
    if name in rows.same:
        names = [f"a{n}" for n in range(len(given))]
        return duckdb(
            f"{name}({', '.join(f':{arg}' for arg in names)})",
            dict(zip(names, given, strict=True)),
            node,
        )
    raise _unknown(node, rows)


def _bound(parameters: Sequence[str], given: Sequence[exp.Expr]) -> dict[str, exp.Expr] | None:
    """Return arguments by the names of their parameters; None if their number differs."""
    if parameters and parameters[-1].startswith("*"):
        *parameters, rest = parameters
        if len(given) <= len(parameters):
            return None
        many = {f"{rest[1:]}{n}": value for n, value in enumerate(given[len(parameters) :])}
        return {**dict(zip(parameters, given, strict=False)), **many}
    return dict(zip(parameters, given, strict=True)) if len(parameters) == len(given) else None


def _spread(meaning: str, parameters: Sequence[str], given: Sequence[exp.Expr]) -> str:
    """Return a text in which `*a` is as many arguments as are given."""
    count = len(given) - len(parameters) + 1
    return MANY.sub(lambda match: ", ".join(f":{match[1]}{n}" for n in range(count)), meaning)


def _unknown(node: exp.Anonymous, rows: Table) -> SqlError:
    name = node.name.lower()
    if name in rows.instead:
        return SqlError(
            f"{name}: this function of {rows.name} is not evaluated: {rows.instead[name]}", node
        )
    if name in rows.meanings:
        forms = ", or ".join(f"{name}({', '.join(p)})" for p, _ in rows.meanings[name])
        return SqlError(
            f"{name} with {len(node.expressions)} arguments is not evaluated: write {forms}", node
        )
    near = get_close_matches(name, rows.names(), 1, 0.75)
    hint = f": did you mean {near[0]}?" if near else "; docs/dialects.md lists those that are"
    return SqlError(
        f"{name}: this function is not evaluated in dialect {rows.dialect!r}{hint}", node
    )


# -- trees of DuckDB


def duckdb(
    text: str, values: Mapping[str, exp.Expr] | None = None, origin: exp.Expr | None = None
) -> exp.Expr:
    """Return the tree of an expression in which `:name` are trees; it has the place of `origin`
    in the statement.
    """
    if text not in _PARSED:
        named = NAMED.sub(r'"$\1"', text)
        _PARSED[text] = (
            sqlglot.parse_one(f"SELECT ({named})", dialect="duckdb").expressions[0].this.pop()
        )
    new = _PARSED[text].copy()
    for place in [*new.find_all(exp.Column)]:
        if values and place.name.startswith("$"):
            value = _grouped(values[place.name[1:]].copy(), place.parent)
            new = value if place is new else new
            place.replace(value)
    if origin is not None and "line" in origin.meta:
        new.meta.update({key: origin.meta[key] for key in ("line", "col", "start", "end")})
    return new


def _grouped(value: exp.Expr, around: exp.Expr | None) -> exp.Expr:
    """Return a value in parentheses if it is an operation within another one."""
    inside = isinstance(
        around, exp.Binary | exp.Unary | exp.Predicate | exp.Bracket
    ) and not isinstance(around, exp.Paren)
    loose = isinstance(value, exp.Binary | exp.Unary | exp.Predicate) and not isinstance(
        value, exp.Paren | exp.Dot
    )
    return exp.Paren(this=value) if inside and loose else value


def _replace(node: exp.Expr, new: exp.Expr) -> None:
    """Put a meaning in the place of a call; the aggregates in it take over what follows the
    call: FILTER and OVER.
    """
    around: list[exp.Expr] = []
    top = node
    while (
        isinstance(top.parent, exp.Filter | exp.Window | exp.IgnoreNulls | exp.WithinGroup)
        and top.arg_key == "this"
    ):
        top = top.parent
        around.append(top)
    if isinstance(new, exp.Array) and isinstance(node.parent, exp.Paren):
        node = node.parent  # see read.py's _constructor
    if not around or isinstance(new, exp.AggFunc | exp.IgnoreNulls) or not (folds := _folds(new)):
        node.replace(new)
        return
    for fold in folds:
        wrapped = fold
        for outer in around:
            wrapped = _wrapped(wrapped, outer)
        if fold is new:
            new = wrapped
        else:
            fold.replace(wrapped)
    top.replace(exp.Paren(this=new))


def _folds(node: exp.Expr) -> list[exp.Expr]:
    """Return the aggregates of an expression, each with a FILTER of its own."""
    calls = [
        call
        for call in node.walk()
        if isinstance(call, exp.AggFunc) and not call.find_ancestor(exp.AggFunc)
    ]
    return [call.parent if isinstance(call.parent, exp.Filter) else call for call in calls]


def _wrapped(fold: exp.Expr, outer: exp.Expr) -> exp.Expr:
    """Return an aggregate with FILTER or OVER; both conditions hold if it has a FILTER already."""
    copy = outer.copy()
    if isinstance(copy, exp.Filter) and isinstance(fold, exp.Filter):
        both = exp.and_(fold.expression.this.copy(), copy.expression.this.copy())
        return exp.Filter(this=fold.this.copy(), expression=exp.Where(this=both))
    copy.set("this", fold.copy())
    return copy
