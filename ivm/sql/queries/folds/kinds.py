"""The aggregates by name: how the value of each follows from the rows of a group.

count(*)           v:part1[g] = n <- agg<<n = count()>> body.           or the sum of multiplicities
avg(x)             v:part1[g] = a <- agg<<a = avg(x)>> body.            rows whose x is null are left out
covar_pop(y, x)    (var_pop(x + y) - var_pop(x - y)) / 4
bit_or(x)          the sum of 2^b for each bit b that some x has
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial, reduce

from sqlglot import exp

from ivm.lang.aggregate import OPERATIONS
from ivm.sql.conversions import as_json, call, convert, in_order, in_words
from ivm.sql.errors import SqlError, written
from ivm.sql.functions.known import reading
from ivm.sql.functions.times import EPOCH, MICROSECONDS
from ivm.sql.naming.names import AGGREGATES
from ivm.sql.queries.folds import ordered
from ivm.sql.queries.folds.aggregate import Aggregate, Made
from ivm.sql.terms import Call, Lit, Term, Typed
from ivm.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DIGITS,
    DOUBLE,
    FLOAT,
    HUGEINT,
    INTEGER,
    INTERVAL,
    SUMMED,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    SqlType,
    list_of,
)

UINTEGER = SqlType("UINTEGER")
ONE = Lit(1, "int64")
BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32}
# moments and intervals, which have microseconds
MEASURED = (TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL)
PAIRS = (exp.CovarPop, exp.CovarSamp, exp.RegrCount, exp.RegrAvgx, exp.RegrAvgy, exp.RegrSxx,
         exp.RegrSyy, exp.RegrSxy, exp.RegrR2, exp.RegrIntercept, exp.RegrSlope, exp.Corr)  # fmt: skip


def made(agg: Aggregate) -> Made:
    """Add an aggregate's rules; return the function of the group that has it. Raises SqlError."""
    with reading(agg.call.node):
        return _made(agg)


def _made(agg: Aggregate) -> Made:
    node = agg.call.node
    if isinstance(node, exp.Min | exp.Max | exp.ArgMin | exp.ArgMax) and (
        node.expressions or node.args.get("count")
    ):
        return ordered.greatest(agg)
    if isinstance(node, exp.AnonymousAggFunc):
        return _NAMED[node.name.lower()](agg)
    for kinds, make in _KINDS:
        if isinstance(node, kinds):
            return make(agg)
    shown = written(node)
    raise SqlError(
        f"{shown[:60]}: this aggregate is not kept; docs/sql.md lists those that are", node
    )


def _count(agg: Aggregate) -> Made:
    nodes, inner = agg.arguments(), agg.call.node.this
    if isinstance(inner, exp.Distinct) and isinstance(inner.expressions[0], exp.Tuple):
        agg.tuples(nodes)  # a tuple of nulls is a value
    elif agg.call.distinct or not (
        nodes[0] is None or isinstance(nodes[0], exp.Star | exp.Literal)
    ):
        value = agg.values.value(nodes[0])
        if agg.total and not agg.call.distinct and agg.builder.may_be_null(agg.body, value):
            return agg.fold("sum", BIGINT, agg.weighed(agg.flag(value)), default=0)
        agg.variables(nodes)
    weight = agg.builder.weight(agg.body)
    if weight is None:
        return agg.fold("count", BIGINT, default=0)
    return agg.fold("sum", BIGINT, weight, default=0)


def _count_if(agg: Aggregate) -> Made:
    """count_if: null where every condition is."""
    if agg.call.distinct:
        raise SqlError("count_if of distinct values is not kept: write bool_or", agg.call.node)
    truth = agg.builder.define(agg.body, convert(agg.argument(BOOLEAN), INTEGER))
    return agg.fold("sum", HUGEINT, agg.weighed(truth))


def _sum(agg: Aggregate) -> Made:
    value, flag = agg.filled()
    if value.type == BOOLEAN:
        value = agg.builder.define(agg.body, convert(value, INTEGER))
    if not value.type.is_number:
        raise SqlError(f"sum takes numbers, and this is {value.type}: CAST it", agg.call.node)
    type_ = SqlType("DECIMAL", 38, value.type.scale) if value.type.is_decimal else HUGEINT
    if value.type.is_float:
        return agg.sum("total", DOUBLE, value, flag)
    # arithmetic is in one word itself
    declared = isinstance(agg.arguments()[0].unnest(), exp.Column | exp.Cast)
    if value.type.wide or (declared and SUMMED < value.type.precision <= DIGITS):
        return _long_sum(agg, value, type_._replace(wide=True))
    return agg.sum("sum", type_, value, flag)


def _long_sum(agg: Aggregate, value: Typed, type_: SqlType) -> Made:
    """Return a sum of up to 38 digits, put together from the sums of 32 bits of each number."""
    places = [Lit(place, "int64") for place in range(4 if value.type.wide else 2)]
    parts = [Typed(Call("decimal:part", (value.term, place)), BIGINT, False) for place in places]
    sums = [agg.fold("sum", BIGINT, agg.weighed(part)) for part in parts]
    scale = Lit(type_.scale, "int64")
    return agg.computed(type_, sums, lambda *found: Call("decimal:joined", (scale, *found)))


def _avg(agg: Aggregate) -> Made:
    value, flag = agg.filled(for_mean=True)
    if flag is not None:
        total, count = (agg.fold("sum", each.type, agg.weighed(each)) for each in (value, flag))
        mean = agg.computed(DOUBLE, [total, count], lambda s, n: _mean(s, call("greatest", n, ONE)))
        return mean._replace(present=count.table)
    if value.type == DATE:
        value = agg.builder.define(agg.body, convert(value, TIMESTAMP))
    if value.type in MEASURED:
        return _middle(agg, value)
    value = agg.as_number(value)
    weight = agg.builder.weight(agg.body)
    if weight is None and not value.type.wide:
        return agg.fold("avg", DOUBLE, value.term)
    op = "total" if value.type.is_float else "sum"
    total = (
        _long_sum(agg, value, value.type)
        if value.type.wide
        else agg.fold(op, value.type, agg.weighed(value))
    )
    count = agg.fold("count", BIGINT) if weight is None else agg.fold("sum", BIGINT, weight)
    float_ = value.type.is_float
    return agg.computed(DOUBLE, [total, count], partial(_mean, is_float=float_))


def _mean(total: Term, count: Term, is_float: bool = False) -> Term:
    return call("/", total if is_float else call("float", total), call("float", count))


def _middle(agg: Aggregate, value: Typed) -> Made:
    """avg of moments or intervals, to the microsecond: days and the rest are added apart."""
    day, micros = Lit(MICROSECONDS["DAY"], "int64"), _micros(agg, value)
    weight = agg.builder.weight(agg.body)
    sums = [
        agg.fold("sum", BIGINT, agg.weighed(Typed(Call(name, (micros.term, day)), BIGINT, False)))
        for name in ("/", "mod")
    ]
    count = agg.fold("count", BIGINT) if weight is None else agg.fold("sum", BIGINT, weight)

    def term(days: Term, rest: Term, n: Term) -> Term:
        left = Call("+", (Call("*", (Call("mod", (days, n)), day)), rest))
        # a half goes up in intervals alone
        more = n if value.type == INTERVAL else Call("-", (n, Lit(1, "int64")))
        half = Call(
            "if", (Call("<", (left, Lit(0, "int64"))), Call("-", (Lit(0, "int64"), more)), more)
        )
        nearest = Call(
            "/",
            (
                Call("+", (Call("*", (left, Lit(2, "int64"))), half)),
                Call("*", (n, Lit(2, "int64"))),
            ),
        )
        return _of_micros(Call("+", (Call("*", (Call("/", (days, n)), day)), nearest)), value.type)

    return agg.computed(value.type, [*sums, count], term)


def _micros(agg: Aggregate, value: Typed) -> Typed:
    """Return a moment as the microseconds since 1970, or an interval as its own."""
    since = Call("-", (Call("datetime", (value.term,)), Lit(EPOCH, "timestamp")))
    return agg.builder.define(
        agg.body, Typed(value.term if value.type == INTERVAL else since, BIGINT, False)
    )


def _of_micros(micros: Term, type_: SqlType) -> Term:
    """Return the moment or the interval of a number of microseconds."""
    if type_ == INTERVAL:
        return Call("elapsed", (micros,))
    return convert(
        Typed(Call("+", (Lit(EPOCH, "timestamp"), micros)), TIMESTAMP, False), type_
    ).term


def _extreme(agg: Aggregate) -> Made:
    op = "min" if isinstance(agg.call.node, exp.Min) else "max"
    value = agg.argument()
    return agg.of_truths(value, op) if value.type == BOOLEAN else _of_order(agg, op, value)


def _of_order(agg: Aggregate, op: str, value: Typed, *more: Term) -> Made:
    """Return a fold that depends on the order of values, which an ENUM has by their places."""
    key = agg.builder.define(agg.body, in_order(value, agg.call.node))
    made = agg.fold(op, key.type, key.term, *more)
    if value.type.words:
        return agg.computed(value.type, [made], lambda place: in_words(place, value.type))
    return made


def _every(agg: Aggregate) -> Made:
    value = agg.argument()
    return agg.of_truths(value, "min" if isinstance(agg.call.node, exp.LogicalAnd) else "max")


def _as_in_rules(agg: Aggregate) -> Made:
    """An aggregate that rules have as it is, of numbers."""
    op = AGGREGATES.get(type(agg.call.node), "stddev")  # which is stddev_samp, too
    value = agg.numbered([_as_word(agg, agg.number(agg.call.node))])[0]
    if op in ("stddev", "variance"):
        agg.total = False  # a group of one row has none
    return agg.fold(op, DOUBLE if OPERATIONS[op].gives else value.type, value.term)


def _median(agg: Aggregate) -> Made:
    return _continuous(agg, agg.numbered([agg.argument()])[0], 0.5)


def _as_word(agg: Aggregate, value: Typed) -> Typed:
    """Return a number of 38 digits as a DOUBLE, and any other as it is."""
    return agg.builder.define(agg.body, convert(value, DOUBLE)) if value.type.wide else value


def _mad(agg: Aggregate) -> Made:
    """mad: the median of the distances from the median."""
    value = agg.numbered([agg.number(agg.call.node)])[0]
    middle = agg.joined(_continuous(agg, value, 0.5).table)
    typed = convert(value, middle.type)
    distance = Typed(Call("abs", (Call("-", (typed.term, middle.term)),)), middle.type, False)
    return _continuous(agg, agg.builder.define(agg.body, distance), 0.5)


def _entropy(agg: Aggregate) -> Made:
    """Entropy of the values in bits: the sum of p * log2(1 / p) for the share p of each."""
    number = agg.by_value(agg.argument())[1]
    whole = agg.joined(agg.fold("sum", BIGINT, number.term).table)
    count, total = (Call("float", (each.term,)) for each in (number, whole))
    share = Call(
        "*", (Call("ratio", (count, total)), Call("log2", (Call("ratio", (total, count)),)))
    )
    part = agg.builder.define(agg.body, Typed(share, DOUBLE, False))
    agg.total = False
    return agg.fold("total", DOUBLE, part.term, default=0.0)


def _continuous(agg: Aggregate, value: Typed, share: float) -> Made:
    """Return a value between two, in a straight line; a decimal is cut after its last digit."""
    if value.type == DATE:
        value = agg.builder.define(agg.body, convert(value, TIMESTAMP))
    if value.type in MEASURED:
        part = agg.fold("quantile_cont", DOUBLE, _micros(agg, value).term, Lit(share, "float64"))
        return agg.computed(
            value.type, [part], lambda micros: _of_micros(_nearest(micros), value.type)
        )
    if not value.type.is_number:
        raise SqlError(
            f"{agg.call.node.key} takes numbers and moments, and this is {value.type}: "
            "quantile_disc takes any",
            agg.call.node,
        )
    if value.type.wide and value.type.is_decimal:
        raise SqlError(
            f"quantile_cont of {value.type} is not kept: CAST it to DOUBLE, or take quantile_disc",
            agg.call.node,
        )
    type_ = value.type if value.type.is_decimal or value.type == FLOAT else DOUBLE
    value = _as_word(agg, value)
    part = agg.fold("quantile_cont", type_, value.term, Lit(share, "float64"))
    return agg.computed(FLOAT, [part], partial(call, "float:single")) if type_ == FLOAT else part


def _nearest(number: Term) -> Term:
    """Return the nearest whole number, the greater one of two."""
    return Call("int", (Call("floor", (Call("+", (number, Lit(0.5, "float64"))),)),))


def _quantile(agg: Aggregate) -> Made:
    node = agg.call.node
    if isinstance(node, exp.ApproxQuantile):
        raise SqlError(
            "approx_quantile depends on how rows are gathered: write quantile_cont, which is exact",
            node,
        )
    if agg.call.order:
        share, argument = node.this, agg.call.order[0].this
        if agg.call.order[0].args.get("desc") and not isinstance(node, exp.PercentileCont):
            raise SqlError(
                "a quantile in descending order is that of 1 - share in ascending order", node
            )
    else:
        share, argument = node.args.get("quantile") or node.expression, node.this
    shares = share.expressions if isinstance(share, exp.Array) else [share]
    if not shares or not all(isinstance(each, exp.Literal) for each in shares):
        raise SqlError("the share of a quantile is a constant", node)
    value = agg.numbered(agg.variables([argument]))[0]
    if value.type == BOOLEAN:
        raise SqlError("a quantile of BOOLEAN is not kept: CAST it to INTEGER", node)
    down = bool(agg.call.order and agg.call.order[0].args.get("desc"))
    parts = [
        _share(agg, value, float(1 - Decimal(each.this)) if down else float(each.this))
        for each in shares
    ]
    if not isinstance(share, exp.Array):
        return parts[0]
    type_ = parts[0].table.columns[-1].type

    def listed(*terms: Term) -> Term:
        parts = [as_json(Typed(term, type_, False), node) for term in terms]
        return reduce(lambda a, b: Call("string:concat", (a, Lit(",", "string"), b)), parts)

    return agg.computed(list_of(type_), parts, listed)


def _share(agg: Aggregate, value: Typed, share: float) -> Made:
    if isinstance(agg.call.node, exp.PercentileCont):
        return _continuous(agg, value, share)
    return _of_order(agg, "quantile", value, Lit(share, "float64"))


def _bits(agg: Aggregate) -> Made:
    """bit_and, bit_or and bit_xor: the sum of the bits that no row lacks, that some row has, that
    oddly many have.

    A place of -1, which every row has, stands for no bit, so that a group without bits has a sum.
    """
    node = agg.call.node
    value = agg.argument()
    if not value.type.is_integer or value.type.wide:
        raise SqlError(
            f"{written(node)} takes integers of 64 bits, and this is {value.type}: CAST it", node
        )
    lacking, oddly = isinstance(node, exp.BitwiseAndAgg), isinstance(node, exp.BitwiseXorAgg)
    sign = BITS.get(value.type.name, 64) - 1
    (place,) = agg.builder.scan(agg.builder.numbers(-1, sign + 1), agg.body)
    none, zero, unit = (Lit(n, "int64") for n in (-1, 0, 1))
    term = Call("bit_not", (value.term,)) if lacking else value.term
    bit = Call("bit_and", (Call("shift_right", (term, Call("greatest", (place.term, zero)))), unit))
    agg.builder.test(agg.body, Call("or", (Call("=", (place.term, none)), Call("=", (bit, unit)))))
    if oddly:
        place, number = agg.by_value(place)
        odd = Call("=", (Call("mod", (number.term, Lit(2, "int64"))), unit))
        agg.builder.test(agg.body, Call("or", (Call("=", (place.term, none)), odd)))
    else:
        (place,) = agg.distinct([place])
    return _sum_of_bits(agg, place, sign, value.type, lacking)


def _sum_of_bits(agg: Aggregate, place: Typed, sign: int, type_: SqlType, flipped: bool) -> Made:
    none, zero, unit = (Lit(n, "int64") for n in (-1, 0, 1))
    below = Call("least", (Call("greatest", (place.term, zero)), Lit(sign - 1, "int64")))
    shifted = Call("shift_left", (unit, below))
    weight = Call(
        "if", (Call("=", (place.term, Lit(sign, "int64"))), Lit(-(2**sign), "int64"), shifted)
    )
    weight = Call("if", (Call("=", (place.term, none)), zero, weight))
    total = agg.fold("sum", type_, agg.builder.define(agg.body, Typed(weight, BIGINT, False)).term)
    return agg.computed(type_, [total], lambda n: Call("bit_not", (n,))) if flipped else total


def _of_pairs(agg: Aggregate) -> Made:
    """Covariances and regressions, of the pairs (y, x) without a null."""
    node = agg.call.node
    pair = agg.variables([node.this, node.expression])
    if isinstance(node, exp.RegrCount):
        weight = agg.builder.weight(agg.body)
        if weight is None:
            return agg.fold("count", UINTEGER, default=0)
        return agg.fold("sum", UINTEGER, weight, default=0)
    if any(not v.type.is_number for v in pair):
        raise SqlError(f"{node.key} takes numbers: CAST them", node)
    y, x = agg.numbered([agg.builder.define(agg.body, convert(v, DOUBLE, node)) for v in pair])
    return _MOMENTS_OF_PAIRS[type(node)](agg, y, x)


def _covariance(
    agg: Aggregate, y: Typed, x: Typed, op: str = "var_pop", times: bool = False
) -> Made:
    parts = []
    for sign in "+-":
        both = agg.builder.define(agg.body, Typed(Call(sign, (x.term, y.term)), DOUBLE, False))
        parts.append(agg.fold(op, DOUBLE, both.term))
    if op == "variance":
        agg.total = False  # a group of one row has none
    four = Lit(4.0, "float64")
    if not times:
        return agg.computed(DOUBLE, parts, lambda a, b: Call("/", (Call("-", (a, b)), four)))
    parts.append(agg.fold("count", BIGINT))
    return agg.computed(
        DOUBLE,
        parts,
        lambda a, b, n: Call("*", (Call("/", (Call("-", (a, b)), four)), Call("float", (n,)))),
    )


def _squares(agg: Aggregate, value: Typed) -> Made:
    parts = [agg.fold("var_pop", DOUBLE, value.term), agg.fold("count", BIGINT)]
    return agg.computed(DOUBLE, parts, lambda v, n: Call("*", (v, Call("float", (n,)))))


def _line(agg: Aggregate, y: Typed, x: Typed) -> Made:
    """regr_intercept: null where x does not vary."""
    means = [agg.fold("avg", DOUBLE, v.term) for v in (y, x)]
    parts = [*means, _covariance(agg, y, x), agg.fold("var_pop", DOUBLE, x.term)]
    zero, null = Lit(0.0, "float64"), Lit(None, "float64")

    def term(mean_y: Term, mean_x: Term, covariance: Term, variance: Term) -> Term:
        slope = Call("float:ratio", (covariance, variance))
        intercept = Call("-", (mean_y, Call("*", (slope, mean_x))))
        return Call("if", (Call("=", (variance, zero)), null, intercept))

    return agg.computed(DOUBLE, parts, term, nullable=True)


def _slope(agg: Aggregate, y: Typed, x: Typed) -> Made:
    """regr_slope: not a number, and so an error, where x does not vary."""
    parts = [_covariance(agg, y, x), agg.fold("var_pop", DOUBLE, x.term)]
    return agg.computed(
        DOUBLE, parts, lambda covariance, variance: Call("float:ratio", (covariance, variance))
    )


def _correlation(agg: Aggregate, y: Typed, x: Typed) -> Made:
    """corr: not a number, and so an error, where one side does not vary."""
    parts = [_covariance(agg, y, x), *(agg.fold("stddev_pop", DOUBLE, v.term) for v in (y, x))]
    return agg.computed(
        DOUBLE, parts, lambda covariance, a, b: Call("float:ratio", (covariance, Call("*", (a, b))))
    )


def _fit(agg: Aggregate, y: Typed, x: Typed) -> Made:
    """regr_r2: null where x does not vary, 1 where y does not."""
    parts = [_covariance(agg, y, x), *(agg.fold("var_pop", DOUBLE, v.term) for v in (y, x))]
    zero, null = Lit(0.0, "float64"), Lit(None, "float64")

    def term(covariance: Term, of_y: Term, of_x: Term) -> Term:
        share = Call("ratio", (Call("*", (covariance, covariance)), Call("*", (of_x, of_y))))
        varied = Call("if", (Call("=", (of_y, zero)), Lit(1.0, "float64"), share))
        return Call("if", (Call("=", (of_x, zero)), null, varied))

    return agg.computed(DOUBLE, parts, term, nullable=True)


_MOMENTS_OF_PAIRS: dict[type[exp.Expr], Callable[[Aggregate, Typed, Typed], Made]] = {
    exp.CovarPop: _covariance, exp.CovarSamp: lambda agg, y, x: _covariance(agg, y, x, "variance"),
    exp.RegrSxy: lambda agg, y, x: _covariance(agg, y, x, times=True),
    exp.RegrSxx: lambda agg, y, x: _squares(agg, x),
    exp.RegrSyy: lambda agg, y, x: _squares(agg, y),
    exp.RegrAvgx: lambda agg, y, x: agg.fold("avg", DOUBLE, x.term),
    exp.RegrAvgy: lambda agg, y, x: agg.fold("avg", DOUBLE, y.term), exp.RegrIntercept: _line,
    exp.RegrR2: _fit, exp.RegrSlope: _slope, exp.Corr: _correlation,
}  # fmt: skip
_NAMED: dict[str, Callable[[Aggregate], Made]] = {
    "mad": _mad, "entropy": _entropy, "histogram": ordered.histogram,
}  # fmt: skip
_KINDS: list[tuple[tuple[type[exp.Expr], ...], Callable[[Aggregate], Made]]] = [
    ((exp.Count,), _count), ((exp.CountIf,), _count_if), ((exp.Sum,), _sum), ((exp.Avg,), _avg),
    ((exp.Min, exp.Max), _extreme), ((exp.LogicalAnd, exp.LogicalOr), _every),
    ((exp.Median,), _median), ((exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg), _bits),
    ((exp.ArrayAgg,), ordered.listed), ((exp.Mode,), ordered.mode),
    ((exp.PercentileCont, exp.PercentileDisc, exp.Quantile), _quantile),
    ((exp.GroupConcat,), ordered.joined), ((exp.ArgMax, exp.ArgMin), ordered.arg_extreme),
    ((exp.AnyValue,), ordered.any_value), ((exp.First, exp.Last), ordered.end), (PAIRS, _of_pairs),
    ((exp.StddevSamp, *AGGREGATES), _as_in_rules),
]  # fmt: skip
