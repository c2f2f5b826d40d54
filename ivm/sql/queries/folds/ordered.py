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


def joined(agg: Aggregate) -> Made:
    """string_agg: the texts that are not null, with a separator between them."""
    node = agg.call.node
    separator = node.args.get("separator") or exp.Literal.string(",")
    if not separator.is_string:
        shown = written(separator)[:60]
        raise SqlError(
            f"the separator of string_agg is a text in quotes, and this is {shown}", separator
        )
    value = agg.present(agg.arguments()[0])
    if value.type != VARCHAR:
        value = agg.builder.define(agg.body, convert(value, VARCHAR, node))
    return agg.fold("concat", VARCHAR, *agg.listed(value), Lit(separator.name, "string"))


def listed(agg: Aggregate) -> Made:
    """List of all values, nulls among them, as JSON without the brackets around it."""
    node = agg.call.node
    value = agg.builder.define(agg.body, ranged(agg.values.value(agg.arguments()[0])))
    shown = agg.builder.define(agg.body, Typed(as_json(value, node), VARCHAR, False))
    type_ = list_of(value.type)
    return agg.fold("concat", type_, *agg.listed(shown), Lit(",", "string"))


def histogram(agg: Aggregate) -> Made:
    """Return a map of how many rows have each value, in their order; null if none has one."""
    node = agg.call.node
    value, number = agg.by_value(agg.argument())
    pair = [as_json(value, node), Lit(",", "string"), as_json(number, node)]
    shown = agg.builder.define(agg.body, Typed(bracketed(concat(*pair)), VARCHAR, False))
    by = convert(value, INTEGER) if value.type == BOOLEAN else in_order(value, node)
    order = agg.builder.define(agg.body, by)
    return agg.fold(
        "concat", map_of(value.type, UBIGINT), shown.term, order.term, Lit(",", "string")
    )


def greatest(agg: Aggregate) -> Made:
    """max(x, n), min(x, n), arg_max(x, y, n), arg_min(x, y, n): a list, the best values first."""
    node = agg.call.node
    count = constant(node.args.get("count") or node.expressions[0])
    if count is None or not isinstance(count.term, Lit) or not isinstance(count.term.value, int):
        raise SqlError(f"{written(node)[:60]}: the number of values is a constant", node)
    by = node.args.get("expression") or node.this
    value = agg.present(node.this)
    agg.present(by)
    down = isinstance(node, exp.Max | exp.ArgMax)
    agg.call = agg.call._replace(order=[exp.Ordered(this=by.copy(), desc=down, nulls_first=False)])
    shown = agg.builder.define(agg.body, Typed(as_json(value, node), VARCHAR, False))
    whole = agg.fold("concat", VARCHAR, *agg.listed(shown), Lit(",", "string"))
    most = Lit(count.term.value, "int64")
    return agg.computed(
        list_of(value.type), [whole], lambda t: Call("list:part", (t, Lit(1, "int64"), most))
    )


def end(agg: Aggregate) -> Made:
    """FIRST and LAST, where a null is a value."""
    op = "last" if isinstance(agg.call.node, exp.Last) else "first"
    value = agg.builder.define(agg.body, agg.values.value(agg.arguments()[0]))
    parts = parts_of(agg.builder, agg.body, value)
    ties = agg.identity() if agg.call.order and not agg.body.weights else []
    rows = agg.numbered([*parts, *agg.places(), *ties])
    # so that all parts are of the same row
    by = [v.term for v in (*rows[len(parts) :], *rows[: len(parts)])]
    made = [agg.fold(op, part.type, row.term, *by) for part, row in zip(parts, rows, strict=False)]
    if len(made) == 1 and value.type != BOOLEAN:
        return made[0]

    def together(*terms: Term) -> Term:
        typed = [Typed(term, part.type, False) for term, part in zip(terms, parts, strict=True)]
        return put_together(agg.builder, Body(), typed, value.type, define=False).term

    return agg.computed(value.type, made, together, nullable=len(made) > 1)


def arg_extreme(agg: Aggregate) -> Made:
    """arg_min and arg_max: the first of the rows whose order is the least or greatest."""
    op = "min" if isinstance(agg.call.node, exp.ArgMin) else "max"
    by_node = agg.call.node.expression
    if isinstance(by_node, exp.Order):  # which says which of several rows is taken
        agg.call = agg.call._replace(order=by_node.expressions)
        by_node = by_node.this
    value, by = agg.variables([agg.call.node.this, by_node])
    by = agg.builder.define(
        agg.body, convert(by, INTEGER) if by.type == BOOLEAN else in_order(by, agg.call.node)
    )
    if agg.call.order and (agg.call.distinct or value.type == BOOLEAN):
        raise SqlError(
            f"{written(agg.call.node)[:60]}: ORDER BY is not evaluated with DISTINCT or "
            "of a BOOLEAN: leave it out",
            agg.call.node,
        )
    if agg.call.distinct or value.type == BOOLEAN:
        return agg.fold(f"arg{op}", value.type, value.term, by.term)
    best = agg.fold(op, by.type, by.term)
    agg.joined(best.table, by)
    ties = agg.identity() if agg.call.order and not agg.body.weights else []
    value, *places = agg.numbered([value, *agg.places(), *ties])
    return agg.fold("first", value.type, value.term, *(p.term for p in places))


def any_value(agg: Aggregate) -> Made:
    """any_value: the first value that is not null; the least one of rows that may be equal."""
    value = agg.argument()
    if value.type == BOOLEAN:
        return agg.of_truths(value, "min")
    if agg.call.order:
        return agg.fold("first", value.type, *agg.listed(value))
    if agg.body.weights or agg.call.distinct:
        return agg.fold("min", value.type, value.term)
    return agg.fold("first", value.type, value.term, *(p.term for p in agg.places()))


def mode(agg: Aggregate) -> Made:
    """Return the most frequent value; of several the first one, or the least if they are integers
    of 64 bits or dates.

    The least one, too, of rows that may be equal.
    """
    if agg.call.node.this is None and len(agg.call.order) == 1:  # WITHIN GROUP
        agg.call = agg.call._replace(node=exp.Mode(this=agg.call.order[0].this), order=[])
    if agg.call.distinct or agg.call.order:
        raise SqlError("mode takes one expression, without DISTINCT and ORDER BY", agg.call.node)
    value = agg.argument()
    if value.type == BOOLEAN:
        made = _most_frequent(agg, agg.builder.define(agg.body, convert(value, INTEGER)))
        return agg.computed(BOOLEAN, [made], lambda number: Call("=", (number, Lit(1, "int64"))))
    words = value.type
    value = agg.builder.define(agg.body, in_order(value, agg.call.node) if words.words else value)
    made = _most_frequent(agg, value)
    if not words.words:
        return made
    return agg.computed(words, [made], lambda place: in_words(place, words))


def _most_frequent(agg: Aggregate, value: Typed) -> Made:
    least = (value.type.is_integer and not value.type.wide) or value.type == DATE
    own, rows, key = value, agg.body.copy(), [*agg.key]
    value, number = agg.by_value(value)
    counts = agg.body.scans[0][0]
    best = agg.fold("max", BIGINT, number.term)
    if not rows.weights and not least:
        agg.body, agg.key, value = rows, key, own
        number = agg.joined(counts, own)
    agg.joined(best.table, number)
    if rows.weights or least:
        return agg.fold("min", value.type, value.term)
    return agg.fold("first", value.type, value.term, *(p.term for p in agg.places()))
