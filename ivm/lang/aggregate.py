"""Aggregations: their form, `f[x] = r <- agg<<r = sum(v)>> body`, and their types.

agg<<n = count()>>              no argument                       agg<<l = min(v), h = max(v)>>    two heads
agg<<t = sum(v)>>               a term                            agg<<q = quantile(v, 0.9)>>      a constant
agg<<i = argmax(item, price)>>  the result, then its order        agg<<(n, v) = top(v, 3)>>        n numbers rows
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from ivm.errors import AggregateError
from ivm.lang.ir import ROPE, Aggregate, Atom, Const, Predicate, Rule, Type, Var, atoms, variables
from ivm.lang.program import recursive_names
from ivm.lang.syntax_tree import Node
from ivm.lang.types import UNORDERED, scale, wide_scale
from pagestore.host import has_inverse, is_operator, is_semilattice


class Operation(NamedTuple):
    """The signature of an aggregate: how many variables, which constants, and the message for
    misuse.

    `admits` accepts the type of the first variable. `gives` is the type of the result; None means
    that of the first variable, and `scaled` that of decimals. `numbered` says that a group has
    several rows, which the result's place numbers.

    The state of an operation that has an `end` gives it the least or the greatest assignments of a
    group, that of one with a `rank` those at a place in their order: at a "share" of all, in the
    "middle", "between" two, or the "first" of some. `sql` is what sqlglot makes of its call, if SQL
    has it as it is.
    """

    least: int
    most: int
    takes: str
    admits: Callable[[Type], bool] = lambda type_: True
    gives: Type | None = None
    constants: tuple[str, ...] = ()
    numbered: bool = False
    scaled: bool = False
    end: str = ""
    rank: str = ""
    sql: str = ""


def _is_number(type_: Type) -> bool:
    return type_ in ("int64", "float64") or scale(type_) is not None


def _is_ordered(type_: Type) -> bool:
    return type_ not in UNORDERED


MANY = 12  # arguments of one aggregate
# of helper views only: (place, n) = $parts(v, squares?, counts?), see views/exact_sum.py
PARTED = "$parts"
NUMBERS = "it takes int64, decimal and float64 columns"
ORDERED = "it takes numbers, dates, times and texts, and no bools"
TAKEN = "it takes what to show, then what to order by, as in argmax(item, price)"
MOMENT = Operation(1, 1, NUMBERS, _is_number, "float64")
EXTREME = Operation(1, 1, ORDERED, _is_ordered, end="least")
CHOICE = Operation(2, MANY, TAKEN, end="least")
END = Operation(
    1, MANY, "it takes what to show, then what to order by, as in first(price, day)", end="least"
)
SOME = Operation(
    1,
    MANY,
    "it takes what to show, what to order by, and a number of rows, as in top(item, price, 3)",
    constants=("k",),
    numbered=True,
    end="greatest",
    rank="first",
)
OPERATIONS = {
    "count": Operation(0, MANY, "it counts bindings, or those in which its arguments are not null",
    gives="int64"),
    "sum": Operation(1, 1, "it adds int64 and decimal columns; floats are added exactly by total",
                     lambda type_: type_ == "int64" or scale(type_) is not None, scaled=True),
    "total": Operation(1, 1, "it adds float64 columns; int64 and decimal columns are added by sum",
                       lambda type_: type_ == "float64"),
    "avg": MOMENT, "variance": MOMENT._replace(sql="Variance"),
    "stddev": MOMENT._replace(sql="Stddev"), "var_pop": MOMENT._replace(sql="VariancePop"),
    "stddev_pop": MOMENT._replace(sql="StddevPop"),
    "min": EXTREME, "max": EXTREME._replace(end="greatest"),
    "argmin": CHOICE, "argmax": CHOICE._replace(end="greatest"),
    "first": END, "last": END._replace(end="greatest"),
    "count_distinct": Operation(1, MANY, "it counts the different values of its arguments",
    gives="int64"),
    "median": Operation(1, 1, f"{NUMBERS}; quantile(x, 0.5) is of any ordered column", _is_number,
    "float64", rank="middle"),
    "quantile": Operation(1, 1, f"{ORDERED}, and a share, as in quantile(x, 0.9)", _is_ordered,
    None, ("share",), rank="share"),
    "quantile_cont": Operation(1, 1, f"{NUMBERS}, and a share, as in quantile_cont(x, 0.9)",
    _is_number, "float64", ("share",), scaled=True, rank="between", sql="PercentileCont"),
    "top": SOME, "bottom": SOME._replace(end="least"),
    "concat": Operation(1, MANY,
    "it joins string columns, in an order and with a separator if these are given, as in "
                        'concat(item, day, ", ")', lambda type_: type_ == "string", ROPE,
                        ("separator",)),
}  # fmt: skip
MEANS = tuple(op for op, of in OPERATIONS.items() if of._replace(sql="") == MOMENT)  # of exact sums
SQUARED = MEANS[1:]  # those that need the sum of squares, too
LOWER = tuple(op for op, of in OPERATIONS.items() if of.end == "least")
UPPER = tuple(op for op, of in OPERATIONS.items() if of.end == "greatest")
EXTREMES = tuple(op for op in (*LOWER, *UPPER) if not OPERATIONS[op].rank)
BY_RANK = {op: of.rank for op, of in OPERATIONS.items() if of.rank}  # by the operation
REFUSED = {
    "rank": "a row's rank is a count of rows: place[x] = n <- agg<<n = count()>> f[x] = v, f[_] = "
    "w, w <= v"
}
REGISTERED = Operation(
    1, 1, "a registered operator folds an int64 column", lambda type_: type_ == "int64"
)


def split_arguments(
    aggregate: Aggregate, terms: tuple[Node, ...]
) -> tuple[tuple[Node, ...], tuple[Const, ...]]:
    """Split the terms of an aggregate into its arguments and the constants that follow them."""
    operation = OPERATIONS.get(aggregate.op)
    taken = len(operation.constants) if operation else 0
    constants = (
        [term for term in terms[max(1, len(terms) - taken) :] if isinstance(term, Const)]
        if taken
        else []
    )
    return terms[: len(terms) - len(constants)], (*constants,)


def in_order_of(
    heads: tuple[Atom, ...], aggregates: tuple[Aggregate, ...]
) -> tuple[Aggregate, ...]:
    """Return the aggregates in the order of the heads that have their results as values.  Raises
    AggregateError.
    """
    named = {aggregate.result: aggregate for aggregate in aggregates}
    for aggregate in aggregates:
        if (
            len(aggregates) != len(heads)
            or [*(head.value for head in heads)].count(aggregate.result) != 1
        ):
            if len(aggregates) == 1:
                reason = "an aggregation has one head"
            else:
                reason = "each aggregate has one head"
            raise AggregateError(
                heads[0].where,
                f"{reason}, a function with {aggregate.result.name} as its value: f[x] = "
                f"{aggregate.result.name}",
            )
    return tuple(
        named[head.value] for head in heads if isinstance(head.value, Var) and head.value in named
    )


def in_key_order(rule: Rule, known: Mapping[str, Predicate]) -> Rule:
    """Return the rule, its aggregates ordered by key variables where they need and lack it."""
    if not rule.aggregates:
        return rule
    order = key_variables(rule, known)
    return replace(
        rule, aggregates=tuple(_in_key_order(aggregate, order) for aggregate in rule.aggregates)
    )


def _in_key_order(aggregate: Aggregate, order: tuple[Var, ...]) -> Aggregate:
    op, arguments = aggregate.op, aggregate.arguments
    if not arguments:
        return aggregate
    if (
        op in ("argmin", "argmax", "first", "last", "top", "bottom", "concat")
        and len(arguments) > 1
    ):
        return replace(aggregate, by=len(arguments) - 1)
    if (
        (op in OPERATIONS and op not in ("first", "last", "concat"))
        or is_semilattice(op)
        or has_inverse(op)
    ):
        return aggregate
    return replace(aggregate, arguments=(arguments[0], *order), by=len(order), implied=True)


def key_variables(rule: Rule, known: Mapping[str, Predicate]) -> tuple[Var, ...]:
    """Return the variables in key position in an atom of the body (*Key- and value-position*), by
    first appearance.

    In F[x] = a, G[y] = b, r = a + b they are x and y. A function of several values has only its
    keys there.
    """
    free = {v for disjunct in rule.body for v in variables(*disjunct)}
    keys = {name: predicate.key_count for name, predicate in known.items()}  # None for all of them
    args = (
        arg
        for disjunct in rule.body
        for atom in atoms(disjunct)
        for arg in atom.args[: keys.get(atom.predicate)]
    )
    return tuple(dict.fromkeys(arg for arg in args if isinstance(arg, Var) and arg in free))


def check_aggregate(rule: Rule, head: Atom, aggregate: Aggregate) -> None:
    """Raise AggregateError unless a head and its aggregate have the form of an aggregation."""
    op, result = aggregate.op, aggregate.result
    operation = operation_of(aggregate)
    count = len(aggregate.arguments) - (aggregate.by if op not in ("argmin", "argmax") else 0)
    if len(aggregate.arguments) < operation.least or count > operation.most:
        if operation.most == 1 and not operation.constants:
            few = f"{op} takes one argument, as in {op}(x)"
        else:
            few = ""
        raise AggregateError(aggregate.where, few or f"{op}: {operation.takes}")
    _check_constants(aggregate, operation)
    if operation.numbered != (aggregate.place is not None):
        form = f"(n, x) = {op}(x, 3)" if operation.numbered else f"x = {op}(...)"
        raise AggregateError(
            aggregate.where,
            f"{op} gives each group {'some rows' if operation.numbered else 'one row'}: write "
            f"{form}",
        )
    _check_absent(head, aggregate)
    keys = head.args if aggregate.place is None else head.args[:-1]
    if aggregate.place is not None and (
        not head.args or head.args[-1] != aggregate.place or aggregate.place in keys
    ):
        name = aggregate.place.name
        raise AggregateError(
            head.where,
            f"{name} numbers the rows of a group, so it is the last key: f[x, {name}] = "
            f"{result.name}",
        )
    if result in head.args:
        reason = f"an aggregation has one head, a function with {result.name} as its value"
        raise AggregateError(head.where, f"{reason}: f[x] = {result.name}")
    if sum(other.predicate == head.predicate for other in rule.heads) > 1:
        raise AggregateError(
            head.where,
            f"{head.predicate} is the head of two aggregates: give each a name of its own",
        )
    for one in aggregate.results:
        if any(one in variables(*disjunct) for disjunct in rule.body):
            raise AggregateError(one.where, f"{one.name} is the result, so the body cannot use it")


def _check_absent(head: Atom, aggregate: Aggregate) -> None:
    """Raise AggregateError unless `else` has a value for a function without keys."""
    if aggregate.absent is None:
        return
    if head.args:
        keys = ", ".join(map(str, head.args))
        shown = f"agg<<{aggregate.result.name} = {aggregate.op}(...) else ... for groups({keys})>>"
        raise AggregateError(
            aggregate.where,
            f"{head.predicate} has a row for each group in its body; say of which groups there is "
            f"one in any case, as in {shown}",
        )
    if aggregate.op == "concat" or isinstance(aggregate.absent.value, str):
        raise AggregateError(
            aggregate.where, "without keys, `else` takes a number, a date or null, and no text"
        )


def operation_of(aggregate: Aggregate) -> Operation:
    """Return the signature of an aggregate.  Raises AggregateError for an unknown name."""
    if aggregate.op in OPERATIONS:
        return OPERATIONS[aggregate.op]
    if is_operator(aggregate.op):
        return REGISTERED
    if aggregate.op in REFUSED:
        raise AggregateError(
            aggregate.where, f"{aggregate.op} is not an aggregate: {REFUSED[aggregate.op]}"
        )
    raise AggregateError(
        aggregate.where,
        f"{aggregate.op} is not an aggregate: there are {', '.join(OPERATIONS)}, and the operators "
        "that pagestore.register_operator has made",
    )


def serves_levels(op: str) -> bool:
    """Return whether an operation depends only on which values there are, not how often."""
    return op in EXTREMES or is_semilattice(op)


def _check_constants(aggregate: Aggregate, operation: Operation) -> None:
    """Raise AggregateError unless an aggregate's constants are valid."""
    values = [const.value for const in aggregate.constants]
    for what in operation.constants:
        value = values[0] if values else None
        good = {
            "k": isinstance(value, int) and 1 <= value <= ROWS_MAX,
            "share": isinstance(value, int | float | Decimal) and 0 <= value <= 1,
            "separator": value is None or isinstance(value, str),
        }[what]
        if not good:
            needed = {
                "k": f"a number of rows from 1 to {ROWS_MAX:,}",
                "share": "a share from 0 to 1",
                "separator": "a text",
            }
            raise AggregateError(
                aggregate.where, f"{aggregate.op}: its last argument is {needed[what]}, written out"
            )


ROWS_MAX = 10**15


def check_sole(rules: Sequence[Rule]) -> None:
    """Raise AggregateError if an aggregated function has a second rule, unless it is recursive."""
    first: dict[str, Rule] = {}
    recursive = recursive_names(rules)
    for rule in rules:
        for name in rule.writes:
            before = first.setdefault(name, rule)
            if before is rule:
                continue
            ops = [side.aggregate and side.aggregate.op for side in (before, rule)]
            if ops != [None, None] and not (name in recursive and ops[0] == ops[1]):
                reason = f"{name} is aggregated, so it has one rule, and has one at {before.where} already"
                raise AggregateError(rule.where, f"{reason}: join the bodies with `;`")


def result_types(aggregate: Aggregate, types: Mapping[str, Type]) -> dict[str, Type]:
    """Return the types of an aggregate's results.  Raises AggregateError if it does not accept
    its arguments' types.
    """
    operation, op = operation_of(aggregate), aggregate.op
    taken = [types[v.name] for v in aggregate.arguments]
    if taken and not operation.admits(taken[0]):
        if wide_scale(taken[0]) is not None and op in ("sum", "avg"):
            reason = "sum the four decimal:part[x, n] of its values, and put the sums together by decimal:joined"
            raise AggregateError(
                aggregate.where, f"{op} does not take {taken[0]}, of more than 18 digits: {reason}"
            )
        raise AggregateError(aggregate.where, f"{op} does not take {taken[0]}: {operation.takes}")
    ordering = (
        taken if operation.numbered and not aggregate.by else taken[1:] if aggregate.by else []
    )
    given = op in ("argmin", "argmax", "top", "bottom")  # an order by key variables may hold bools
    if given and (unordered := [type_ for type_ in ordering if not _is_ordered(type_)]):
        raise AggregateError(
            aggregate.where,
            f"{op} does not order {unordered[0]}: {ORDERED.replace('takes', 'orders')}",
        )
    result = operation.gives or taken[0]
    if operation.scaled and (digits := scale(taken[0])) is not None:
        result = f"decimal(18,{digits})"
    return {
        aggregate.result.name: result,
        **({aggregate.place.name: "int64"} if aggregate.place else {}),
    }
