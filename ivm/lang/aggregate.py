"""Aggregations: their form, `f[x] = r <- agg<<r = sum(v)>> body`, and their types."""

from collections.abc import Mapping, Sequence

from ivm.errors import AggregateError
from ivm.lang.dependencies import recursive_names
from ivm.lang.ir import Aggregate, Rule, Type
from ivm.lang.traverse import variables, writes
from ivm.lang.types import UNORDERED, scale

TAKES = {
    "count": "it counts bindings and takes no argument",
    "sum": "it adds int64 and decimal columns; floats are added exactly by total",
    "total": "it adds float64 columns; int64 and decimal columns are added by sum",
    "concat": "it joins string columns",
    "min": "it takes numbers, dates, timestamps and strings",
    "max": "it takes numbers, dates, timestamps and strings",
}


def check_aggregate(rule: Rule, aggregate: Aggregate) -> None:
    """Raise AggregateError unless the rule has the form of an aggregation."""
    op, result, head = aggregate.op, aggregate.result, rule.heads[0]
    if op not in TAKES:
        raise AggregateError(aggregate.where, f"{op} is no aggregate: there are {', '.join(TAKES)}")
    if (op == "count") != (aggregate.argument is None):
        reason = TAKES[op] if op == "count" else f"{op} takes one argument, as in {op}(x)"
        raise AggregateError(aggregate.where, reason)
    if len(rule.heads) > 1 or head.value != result or result in head.args:
        reason = f"an aggregation has one head, a function with {result.name} as its value"
        raise AggregateError(head.where, f"{reason}: f[x] = {result.name}")
    if any(result in variables(*disjunct) for disjunct in rule.body):
        raise AggregateError(result.where, f"{result.name} is the result, so the body cannot use it")


def check_sole(rules: Sequence[Rule]) -> None:
    """Raise AggregateError where an aggregated function has a second rule; one that reads itself may have more."""
    first: dict[str, Rule] = {}
    recursive = recursive_names(rules)
    for rule in rules:
        for name in writes(rule):
            before = first.setdefault(name, rule)
            ops = [one.aggregate and one.aggregate.op for one in (before, rule)]
            if before is not rule and ops != [None, None] and not (name in recursive and ops[0] == ops[1]):
                reason = f"{name} is aggregated, so it has one rule, and has one at {before.where} already"
                raise AggregateError(rule.where, f"{reason}: join the bodies with `;`")


def result_type(aggregate: Aggregate, types: Mapping[str, Type]) -> Type:
    """The type of the aggregate's result.  Raises AggregateError if it does not take its argument's type."""
    if aggregate.argument is None:
        return "int64"
    op, type_ = aggregate.op, types[aggregate.argument.name]
    digits = scale(type_)
    if op == "sum" and digits is not None:
        return f"decimal(18,{digits})"
    if not _admits(op, type_):
        raise AggregateError(aggregate.where, f"{op} does not take {type_}: {TAKES[op]}")
    return type_


def _admits(op: str, type_: Type) -> bool:
    if op in ("min", "max"):
        return type_ not in UNORDERED
    return type_ == {"sum": "int64", "total": "float64", "concat": "string"}[op]
