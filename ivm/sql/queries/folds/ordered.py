"""Aggregates whose value depends on the order of rows: that of ORDER BY, else that of what tells
the rows apart.

string_agg(x, s ORDER BY y DESC)    concat(x, -y, s)
string_agg(x, s)                    concat(x, k, s)             k is the key of the rows
list(x)                             concat of the values as JSON, which readers see as a list
arg_max(x, y)                       first(x, k) of the rows whose y is the greatest
mode(x)                             argmax(x, n) of the number n of each value
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.conversions import as_json, bracketed, concat, convert, in_order, in_words, ranged
from ivm.sql.errors import SqlError, written
from ivm.sql.literals import constant
from ivm.sql.queries.folds.aggregate import Aggregate, Made
from ivm.sql.queries.row_numbers import parts_of, put_together
from ivm.sql.rules import Body
from ivm.sql.terms import Call, Lit, Term, Typed
from ivm.sql.types import BIGINT, BOOLEAN, DATE, INTEGER, UBIGINT, VARCHAR, list_of, map_of


def joined(one: Aggregate) -> Made:
    """string_agg: the texts that are not null, with a separator between them."""
    node = one.one.node
    separator = node.args.get("separator") or exp.Literal.string(",")
    if not separator.is_string:
        shown = written(separator)[:60]
        raise SqlError(
            f"the separator of string_agg is a text in quotes, and this is {shown}", separator
        )
    value = one.present(one.arguments()[0])
    if value.type != VARCHAR:
        value = one.builder.define(one.body, convert(value, VARCHAR, node))
    return one.fold("concat", VARCHAR, *one.listed(value), Lit(separator.name, "string"))


def listed(one: Aggregate) -> Made:
    """List of all values, nulls among them, as JSON without the brackets around it."""
    node = one.one.node
    value = one.builder.define(one.body, ranged(one.values.value(one.arguments()[0])))
    shown = one.builder.define(one.body, Typed(as_json(value, node), VARCHAR, False))
    type_ = list_of(value.type)
    return one.fold("concat", type_, *one.listed(shown), Lit(",", "string"))


def histogram(one: Aggregate) -> Made:
    """Return a map of how many rows have each value, in their order; null if none has one."""
    node = one.one.node
    value, number = one.by_value(one.argument())
    pair = [as_json(value, node), Lit(",", "string"), as_json(number, node)]
    shown = one.builder.define(one.body, Typed(bracketed(concat(*pair)), VARCHAR, False))
    by = convert(value, INTEGER) if value.type == BOOLEAN else in_order(value, node)
    order = one.builder.define(one.body, by)
    return one.fold(
        "concat", map_of(value.type, UBIGINT), shown.term, order.term, Lit(",", "string")
    )


def greatest(one: Aggregate) -> Made:
    """max(x, n), min(x, n), arg_max(x, y, n), arg_min(x, y, n): a list, the best values first."""
    node = one.one.node
    count = constant(node.args.get("count") or node.expressions[0])
    if count is None or not isinstance(count.term, Lit) or not isinstance(count.term.value, int):
        raise SqlError(f"{written(node)[:60]}: the number of values is a constant", node)
    by = node.args.get("expression") or node.this
    value = one.present(node.this)
    one.present(by)
    down = isinstance(node, exp.Max | exp.ArgMax)
    one.one = one.one._replace(order=[exp.Ordered(this=by.copy(), desc=down, nulls_first=False)])
    shown = one.builder.define(one.body, Typed(as_json(value, node), VARCHAR, False))
    whole = one.fold("concat", VARCHAR, *one.listed(shown), Lit(",", "string"))
    most = Lit(count.term.value, "int64")
    return one.computed(
        list_of(value.type), [whole], lambda t: Call("list:part", (t, Lit(1, "int64"), most))
    )


def end(one: Aggregate) -> Made:
    """FIRST and LAST, where a null is a value."""
    op = "last" if isinstance(one.one.node, exp.Last) else "first"
    value = one.builder.define(one.body, one.values.value(one.arguments()[0]))
    parts = parts_of(one.builder, one.body, value)
    ties = one.identity() if one.one.order and not one.body.weights else []
    rows = one.numbered([*parts, *one.places(), *ties])
    # so that all parts are of the same row
    by = [v.term for v in (*rows[len(parts) :], *rows[: len(parts)])]
    made = [one.fold(op, part.type, row.term, *by) for part, row in zip(parts, rows, strict=False)]
    if len(made) == 1 and value.type != BOOLEAN:
        return made[0]

    def together(*terms: Term) -> Term:
        found = [Typed(term, part.type, False) for term, part in zip(terms, parts, strict=True)]
        return put_together(one.builder, Body(), found, value.type, define=False).term

    return one.computed(value.type, made, together, nullable=len(made) > 1)


def arg_extreme(one: Aggregate) -> Made:
    """arg_min and arg_max: the first of the rows whose order is the least or greatest."""
    op = "min" if isinstance(one.one.node, exp.ArgMin) else "max"
    by_node = one.one.node.expression
    if isinstance(by_node, exp.Order):  # which says which of several rows is taken
        one.one = one.one._replace(order=by_node.expressions)
        by_node = by_node.this
    value, by = one.variables([one.one.node.this, by_node])
    by = one.builder.define(
        one.body, convert(by, INTEGER) if by.type == BOOLEAN else in_order(by, one.one.node)
    )
    if one.one.order and (one.one.distinct or value.type == BOOLEAN):
        raise SqlError(
            f"{written(one.one.node)[:60]}: ORDER BY is not evaluated with DISTINCT or "
            "of a BOOLEAN: leave it out",
            one.one.node,
        )
    if one.one.distinct or value.type == BOOLEAN:
        return one.fold(f"arg{op}", value.type, value.term, by.term)
    best = one.fold(op, by.type, by.term)
    one.builder.scan(best.table, one.body, [*one.key, by])
    ties = one.identity() if one.one.order and not one.body.weights else []
    value, *places = one.numbered([value, *one.places(), *ties])
    return one.fold("first", value.type, value.term, *(p.term for p in places))


def any_value(one: Aggregate) -> Made:
    """any_value: the first value that is not null; the least one of rows that may be equal."""
    value = one.argument()
    if value.type == BOOLEAN:
        return one.of_truths(value, "min")
    if one.one.order:
        return one.fold("first", value.type, *one.listed(value))
    if one.body.weights or one.one.distinct:
        return one.fold("min", value.type, value.term)
    return one.fold("first", value.type, value.term, *(p.term for p in one.places()))


def mode(one: Aggregate) -> Made:
    """Return the most frequent value; of several the first one, or the least if they are integers
    of 64 bits or dates.

    The least one, too, of rows that may be equal.
    """
    if one.one.node.this is None and len(one.one.order) == 1:  # WITHIN GROUP
        one.one = one.one._replace(node=exp.Mode(this=one.one.order[0].this), order=[])
    if one.one.distinct or one.one.order:
        raise SqlError("mode takes one expression, without DISTINCT and ORDER BY", one.one.node)
    value = one.argument()
    if value.type == BOOLEAN:
        made = _most_frequent(one, one.builder.define(one.body, convert(value, INTEGER)))
        return one.computed(BOOLEAN, [made], lambda number: Call("=", (number, Lit(1, "int64"))))
    words = value.type
    value = one.builder.define(one.body, in_order(value, one.one.node) if words.words else value)
    made = _most_frequent(one, value)
    return (
        made
        if not words.words
        else one.computed(words, [made], lambda place: in_words(place, words))
    )


def _most_frequent(one: Aggregate, value: Typed) -> Made:
    least = (value.type.is_integer and not value.type.wide) or value.type == DATE
    own, rows, key = value, one.body.copy(), [*one.key]
    value, number = one.by_value(value)
    counts = one.body.scans[0][0]
    best = one.fold("max", BIGINT, number.term)
    if not rows.weights and not least:
        one.body, one.key, value = rows, key, own
        number = one.builder.scan(counts, one.body, [*key, own])[-1]
    one.builder.scan(best.table, one.body, [*one.key, number])
    if rows.weights or least:
        return one.fold("min", value.type, value.term)
    return one.fold("first", value.type, value.term, *(p.term for p in one.places()))
