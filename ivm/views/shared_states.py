"""Merge extremes over the same body into one rule, so that one state serves all their levels of
detail.

    h[c, m] = a <- agg<<a = max(x)>> r(c, m, x).    h0[] = b <- agg<<b = min(z)>> r(_, _, z).

    h[c, m] = a, h0[] = b$1 <- agg<<a = max(x), b$1 = min(x)>> r(c, m, x).

Bodies are the same if they differ only in the names of variables.  Only rules of one block are
merged, so what a block stores follows from its text (views/layouts.py says which groups share a
state).
"""

from collections.abc import Container, Iterator
from dataclasses import replace
from itertools import chain

from ivm.lang.aggregate import serves_levels
from ivm.lang.ir import Rule, Var, leaves, renamed
from ivm.lang.program import Program, recursive_names
from ivm.views.layouts import may_be_partial, state_names


def share_levels(program: Program, partial: bool) -> Program:
    """Merge the aggregates of a program that can share states, because their groups are nested.

    Recursive views are not changed.  If states may be `partial`, a least and a greatest value of
    one relation are not merged: each needs a few values of its own end, both together all.
    """
    rules, recursive = list[Rule](), recursive_names(program.rules)
    for rule in program.rules:
        if not rule.aggregates or rule.range or _is_one_of(rule, recursive):
            rules.append(rule)
            continue
        for place, earlier in enumerate(rules):
            if (
                merged := None
                if _is_one_of(earlier, recursive)
                else _merged(earlier, rule, partial)
            ):
                rules[place] = merged
                break
        else:
            rules.append(_levelled(rule))
    return replace(program, rules=tuple(rules))


def _is_one_of(rule: Rule, recursive: Container[str]) -> bool:
    return any(name in recursive for name in rule.writes)


def _levelled(rule: Rule) -> Rule:
    """Return the rule, marked if one of its states serves several levels."""
    shared = replace(rule, levels=True)
    return shared if state_names(shared) != state_names(rule) else rule


def _merged(earlier: Rule, rule: Rule, partial: bool) -> Rule | None:
    """Merge two rules into one if some of their heads would share a state; else return None."""
    if earlier.range or not earlier.aggregates:
        return None
    if not all(serves_levels(one.op) for one in (*earlier.aggregates, *rule.aggregates)):
        return None
    ends = {one.op for one in (*earlier.aggregates, *rule.aggregates)}
    if partial and len(ends) > 1 and may_be_partial(earlier) and may_be_partial(rule):
        return None
    names = _same_body(earlier, rule)
    if names is None:
        return None
    count = len(earlier.heads)
    results = [
        Var(f"{one.result.name}${count + n}", where=one.result.where)
        for n, one in enumerate(rule.aggregates)
    ]
    heads, aggregates, types = [*earlier.heads], [*earlier.aggregates], {**earlier.types}
    for head, aggregate, result in zip(rule.heads, rule.aggregates, results, strict=True):
        heads.append(renamed(head, {**names, aggregate.result: result}))
        arguments = tuple(renamed(v, names) for v in aggregate.arguments)
        aggregates.append(replace(aggregate, arguments=arguments, result=result))
        types[result.name] = rule.types[aggregate.result.name]
    both = replace(
        earlier, heads=tuple(heads), aggregates=tuple(aggregates), types=types, levels=True
    )
    states = state_names(both)
    shared = {*states[:count]} & {*states[count:]} - {""}
    return both if shared else None


def _same_body(one: Rule, other: Rule) -> dict[Var, Var] | None:
    """Map the variables of `other`'s body to those of `one`'s; None if the bodies differ in more
    than names.
    """
    pairs = list(zip(*(list(_variables(rule)) for rule in (other, one)), strict=False))
    names = dict(pairs)
    if len({*names.values()}) != len(names):
        return None
    body = tuple(tuple(renamed(literal, names) for literal in disjunct) for disjunct in other.body)
    return names if body == one.body else None


def _variables(rule: Rule) -> Iterator[Var]:
    return (leaf for leaf in leaves(chain(*rule.body)) if isinstance(leaf, Var))
