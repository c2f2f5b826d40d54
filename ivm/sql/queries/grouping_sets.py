"""ROLLUP, CUBE and GROUPING SETS: the union of one GROUP BY for each set, with nulls for what it
does not group.
"""

from __future__ import annotations

from itertools import combinations

from sqlglot import exp

from ivm.sql.errors import SqlError, written
from ivm.sql.queries.aggregates import Grouping, markers_among
from ivm.sql.queries.clauses import Clauses
from ivm.sql.queries.scope import Scope, text_of
from ivm.sql.queries.sets import union
from ivm.sql.terms import Lit, Term, Typed
from ivm.sql.types import BIGINT

SETS_MAX = 64


def apply(select: Clauses, group: exp.Group, found: list[exp.Expr]) -> None:
    """Replace the body of a query by its groups, one set after the other."""
    sets = _sets(select, group)
    if len(sets) > SETS_MAX:
        raise SqlError(f"GROUP BY has {len(sets)} sets, and {SETS_MAX} is the most", group)
    keys = list({text_of(key): key for keys_of in sets for key in keys_of}.values())
    markers, found = markers_among(found)
    builder, scope = select.builder, select.scope
    values = [select.evaluate(key) for key in keys]
    parts = []
    for keys_of in sets:
        inside = {text_of(key) for key in keys_of}
        chosen = [v for key, v in zip(keys, values, strict=True) if text_of(key) in inside]
        inner = Scope(scope.body.copy(), scope.sources, scope.parent, scope.aliases)
        grouping = Grouping(builder, inner, select.queries.subqueries, chosen, not chosen, found)
        body, aggregates, groups = grouping.evaluate()
        listed = dict(zip([text_of(k) for k in keys if text_of(k) in inside], groups, strict=False))
        nulls = [Typed(Lit(None, v.type.store), v.type, True) for v in values]
        row = [listed.get(text_of(key), null) for key, null in zip(keys, nulls, strict=True)]
        row += [aggregates[text_of(node)] for node in found]
        row += [marker(node, keys, inside) for node in markers]
        parts.append((body, row))
    body, columns = union(builder, scope.body.outer, parts)
    select.go_on(body)
    grouped: dict[Term, Typed] = {}
    select.replaced = {}
    for key, value, new in zip(keys, values, columns, strict=False):
        grouped[builder.resolve(value.term)] = new
        select.replaced[text_of(key)] = new
    select.grouped = grouped
    for node, new in zip([*found, *markers], columns[len(keys) :], strict=True):
        select.replaced[text_of(node)] = new


def marker(node: exp.Expr, keys: list[exp.Expr], inside: set[str]) -> Typed:
    """`GROUPING(a, b)`: a bit for each expression, 1 if the set does not group it.  Raises
    SqlError for an expression of no set.
    """
    number, known = 0, {*map(text_of, keys)}
    for item in node.expressions or keys:
        if text_of(item) not in known:
            raise SqlError(f"GROUPING takes what GROUP BY has, and not {written(item)}", node)
        number = 2 * number + (text_of(item) not in inside)
    return Typed(Lit(number, "int64"), BIGINT, False)


def _sets(select: Clauses, group: exp.Group) -> list[list[exp.Expr]]:
    """Return the sets of expressions that are grouped."""
    sets: list[list[exp.Expr]] = [[]]
    for clause in group.expressions:
        if not isinstance(clause, exp.Rollup | exp.Cube | exp.GroupingSets):
            sets = [[*part, *_items(select, clause)] for part in sets]
            continue
        sets = [[*part, *more] for part in sets for more in _of_clause(select, clause)]
    return sets


def _of_clause(select: Clauses, clause: exp.Expr) -> list[list[exp.Expr]]:
    parts = [_items(select, item) for item in clause.expressions]
    if isinstance(clause, exp.Rollup):
        return [[e for part in parts[:n] for e in part] for n in range(len(parts), -1, -1)]
    if isinstance(clause, exp.Cube):
        chosen = [c for n in range(len(parts), -1, -1) for c in combinations(parts, n)]
        return [[e for part in group for e in part] for group in chosen]
    sets: list[list[exp.Expr]] = []
    for item in clause.expressions:
        if isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets):
            sets += _of_clause(select, item)
        else:
            sets.append(_items(select, item))
    return sets


def _items(select: Clauses, node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Tuple):
        return [select.named(item, "GROUP BY") for item in node.expressions]
    if isinstance(node, exp.Paren):
        return [select.named(node.this, "GROUP BY")]
    return [select.named(node, "GROUP BY")]
