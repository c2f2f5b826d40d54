"""What bindings must satisfy, as masks over their columns: the bounds of a plan, and filters that
cannot fail.

x <= y + 2      a sum of two columns, by halves of words
x = 7           one column and a word
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from ivm.join.kernels.tries import EQ, GE, HALF, LE, NE
from ivm.lang.ir import Type, variables
from ivm.plan.join_tree import link_of, names_of_bound, parted
from ivm.plan.linear import Linear
from ivm.plan.plan import Link, Plan
from ivm.terms.conditions import Filter, applies_functions, compared, leaves_few
from ivm.terms.encoder import Encoder
from ivm.terms.evaluator import COMPARE, Batch, Evaluator

Part = tuple[Batch, np.ndarray | None]  # bindings, and how many each represents; None for one
OPS = {EQ: "=", NE: "!=", GE: ">=", LE: "<="}
STRICT = {(LE, -1): "<", (GE, 1): ">"}  # by the kind and the constant of a bound


class Condition(NamedTuple):
    """What bindings must satisfy, given columns of some variables; a bound of two may be a link."""

    names: frozenset[str]
    holds: Callable[[Batch], np.ndarray]
    link: Link | None = None
    applies_functions: bool = False


def conditions_of(plan: Plan, types: Mapping[str, Type], encode: Encoder) -> list[Condition]:
    """Return a plan's bounds and `sure` filters as conditions on columns."""
    evaluator = Evaluator(types, encode, plan.null_words)
    conditions, linked = list[Condition](), dict[Filter, Link](plan.links)
    for b in plan.bounds:
        name = plan.variables[b.level]
        op = STRICT.get((b.kind, b.constant), "" if b.constant else OPS[b.kind])
        if op and [sign for _, sign in b.others] == [1]:
            holds = partial(_pair_holds, name, op, plan.variables[b.others[0][0]])
        elif b.others:
            times = {name: 1}
            for other, sign in b.others:
                times[plan.variables[other]] = times.get(plan.variables[other], 0) - sign
            form = Linear(times, OPS[b.kind], -b.constant)
            holds = partial(_linear_holds, form)
        else:
            holds = partial(_constant_holds, name, OPS[b.kind], b.constant)
        conditions.append(Condition(names_of_bound(plan, b), holds, link_of(plan, b)))
    for _, name in plan.apart:
        holds = partial(_pair_holds, name, "=", parted(name))
        conditions.append(Condition(frozenset((name, parted(name))), holds))
    for filter_ in plan.sure:
        names = frozenset(v.name for v in variables(*compared([filter_])))
        holds = partial(_passes, evaluator, filter_)
        conditions.append(Condition(names, holds, linked.get(filter_), applies_functions(filter_)))
    return conditions


def _passes(evaluator: Evaluator, filter_: Filter, batch: Batch) -> np.ndarray:
    return evaluator.passes(filter_, batch)[0]


def _pair_holds(left: str, op: str, right: str, batch: Batch) -> np.ndarray:
    holds: np.ndarray = COMPARE[op](batch.columns[left], batch.columns[right])
    return holds


def _linear_holds(form: Linear, batch: Batch) -> np.ndarray:
    high, low = np.full(batch.n, form.constant >> 32), np.full(batch.n, form.constant & HALF)
    for name, times in form.times.items():
        high += times * (batch.columns[name] >> 32)
        low += times * (batch.columns[name] & HALF)
    high += low >> 32
    holds: np.ndarray = COMPARE[form.op](np.where(high == 0, low & HALF, high), 0)
    return holds


def _constant_holds(name: str, op: str, constant: int, batch: Batch) -> np.ndarray:
    holds: np.ndarray = COMPARE[op](batch.columns[name], constant)
    return holds


def passing(conditions: Iterable[Condition], batch: Batch, times: np.ndarray | None) -> Part:
    """Return the bindings that satisfy conditions."""
    keep: np.ndarray | None = None
    for condition in conditions:
        if condition.applies_functions and leaves_few(keep):
            batch, times, keep = *_chosen(keep, batch, times), None
        holds = condition.holds(batch)
        keep = holds if keep is None else keep & holds
    return (batch, times) if keep is None or keep.all() else _chosen(keep, batch, times)


def _chosen(keep: np.ndarray, batch: Batch, times: np.ndarray | None) -> Part:
    which = np.flatnonzero(keep)
    columns = {name: column.take(which) for name, column in batch.columns.items()}
    return Batch(len(which), columns, {}), times if times is None else times[which]
