"""Make aggregates in bodies, and those whose results are columns of a relation, views of their own.

    p(x, n) <- a(x), agg<<n = count() else 0>> edge(x, y), n < 3.

    p$fold0[x] = n <- agg<<n = count() else 0 for a(x)>> edge(x, y).
    p(x, n) <- a(x), p$fold0[x] = n?, n < 3.

    s(x, n, m) <- agg<<n = count(), m = max(y)>> edge(x, y).         the whole body is aggregated, as for s[x] = n

The groups are the variables that occur outside the aggregate, too.  Those that it does not bind by
itself, and with `else` all of them, get their values from what surrounds it: from an atom that has
them, else from all of it.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from itertools import count

from ivm.errors import AggregateError
from ivm.lang.functions import function_named
from ivm.lang.ir import Aggregate, Var
from ivm.lang.syntax_tree import (
    Aggregation,
    And,
    Application,
    Clause,
    Formula,
    Node,
    Not,
    Operation,
    Or,
    items_of,
    split,
    variables_in,
    walk,
)

ALL = And(())  # no groups that have a row in any case
Folds = tuple[tuple[Aggregate, tuple[Node, ...]], ...]  # aggregates with their terms


def without_aggregations(clauses: Iterable[Clause], known: Container[str]) -> Iterator[Clause]:
    """Yield clauses without aggregates in their bodies, each after those of its helpers.  Raises
    AggregateError.
    """
    numbers = count()
    for clause in clauses:
        yield from _plain(_with_columns(clause), known, numbers)


def _with_columns(clause: Clause) -> Clause:
    """Return a clause with its aggregates in the body if its heads show their results otherwise
    than as values.
    """
    results = {v.name for fold, _ in clause.aggregates for v in fold.results}
    values = {
        head.right.name
        for head in clause.heads
        if isinstance(head, Operation) and isinstance(head.right, Var)
    }
    shown = {v.name for head in clause.heads for v in variables_in(head)}
    if not clause.aggregates or not results <= shown or values & results:
        return clause
    groups = clause.groups if clause.groups.items else None
    whole = Aggregation(clause.aggregates, clause.body, groups, where=clause.aggregates[0][0].where)
    return replace(clause, body=And((whole,)), aggregates=(), groups=ALL)


def _plain(clause: Clause, known: Container[str], numbers: Iterator[int]) -> Iterator[Clause]:
    plain = _OneClause(clause, known, numbers)
    body = plain.formula(clause.body, ())
    for helper in plain.helpers:
        yield from _plain(helper, known, numbers)
    yield (
        replace(clause, body=body if isinstance(body, And) else And((body,)))
        if plain.helpers
        else clause
    )


class _OneClause:
    """Replaces the aggregates in the body of one clause, but not those inside them."""

    def __init__(self, clause: Clause, known: Container[str], numbers: Iterator[int]) -> None:
        self._clause, self._known, self._numbers = clause, known, numbers
        self.helpers: list[Clause] = []
        parts = (
            *clause.heads,
            *(term for _, terms in clause.aggregates for term in terms),
            *clause.groups.items,
        )
        self._outside = {v.name for part in (*parts, clause.body) for v in _outer_variables(part)}

    def formula(self, formula: Formula, around: tuple[Formula, ...]) -> Formula:
        """Return a formula without aggregates; `around` are the formulas of its conjunctions."""
        match formula:
            case And():
                items = items_of(formula)
                return And(
                    tuple(
                        self.formula(item, (*around, *(x for x in items if x is not item)))
                        if isinstance(item, And | Or | Not | Aggregation)
                        else item
                        for item in items
                    )
                )
            case Or():
                return Or(tuple(self.formula(item, around) for item in formula.items))
            case Not():
                return replace(formula, item=self.formula(formula.item, around))
            case Aggregation():
                return self._replaced(formula, around)
        return formula

    def _replaced(self, one: Aggregation, around: tuple[Formula, ...]) -> Formula:
        """Return the atoms of the helpers of an aggregate; add these."""
        results = {v.name for fold, _ in one.aggregates for v in fold.results}
        inside = dict.fromkeys(v.name for v in (*variables_in(one.item), *_terms(one.aggregates)))
        if both := results.intersection(inside):
            reason = f"{min(both)} is the result of this aggregate, so it has no value inside: use another name there"
            raise AggregateError(
                one.where, f"{reason}, or put the aggregate after what it is not about"
            )
        shared = tuple(Var(name, where=one.where) for name in inside if name in self._outside)
        unbound = {v.name for v in shared} - self._bound(one.item)
        item, name = one.item, f"{split(self._clause.heads[0])[0].name}$fold{next(self._numbers)}"
        context = And(self._binding({v.name for v in shared}, one, around))
        if unbound:
            by = Application(f"{name}by", shared, False, where=one.where)
            self._add((by,), context, (), "what its aggregate is of")
            item, context = And((by, item)), And((by,))
        atoms: list[Formula] = []
        for absent in (False, True):
            folds = tuple(fold for fold in one.aggregates if (fold[0].absent is not None) == absent)
            heads = tuple(
                _call(f"{name}{chr(97 + len(atoms) + n)}", shared, fold)
                for n, (fold, _) in enumerate(folds)
            )
            groups = And(tuple(items_of(one.groups))) if one.groups else context if shared else ALL
            if folds:
                body = item if isinstance(item, And) else And((item,))
                values = [_valued(head, fold) for head, (fold, _) in zip(heads, folds, strict=True)]
                self._add(tuple(values), body, folds, "its aggregate", groups if absent else ALL)
            atoms += [
                _valued(head, fold, True) for head, (fold, _) in zip(heads, folds, strict=True)
            ]
        return And(tuple(atoms))

    def _add(
        self,
        heads: tuple[Application | Operation, ...],
        body: And,
        folds: Folds,
        what: str,
        groups: And = ALL,
    ) -> None:
        text = f"{self._clause.text}  ({what})"
        self.helpers.append(
            Clause(heads, body, folds, where=self._clause.where, text=text, groups=groups)
        )

    def _binding(
        self, needed: set[str], fold: Aggregation, around: tuple[Formula, ...]
    ) -> tuple[Formula, ...]:
        """Return formulas around an aggregate that bind variables: an atom, or all that do not
        follow from its results.

        A variable that follows from its results is one that nothing binds without what reads them.
        """
        follow = {v.name for aggregate, _ in fold.aggregates for v in aggregate.results}
        every, usable, left = self._bound(And((*around, fold))), list[Formula](), list(around)
        while len(usable) != len(left):
            usable = left
            left = [one for one in left if follow.isdisjoint(v.name for v in variables_in(one))]
            follow |= every - self._bound(And(tuple(left)))
        for formula in usable:
            if isinstance(formula, Application) and needed <= self._bound(formula):
                return (formula,)
        plain = tuple(formula for formula in usable if not isinstance(formula, Aggregation))
        return plain if needed <= self._bound(And(plain)) else tuple(usable)

    def _bound(self, formula: Formula) -> set[str]:
        """Return the names of the variables that a formula binds."""
        match formula:
            case And():
                return self._bound_by_all(items_of(formula))
            case Or():
                return set.intersection(*map(self._bound, formula.items))
            case Application():
                return {v.name for arg in formula.args for v in [arg] if isinstance(v, Var)}
            case Operation("=", Application() as call, value) if self._reads(call):
                return {v.name for v in (*call.args, value) if isinstance(v, Var)}
            case Aggregation():
                # else what is around binds them
                groups = any(fold.absent is None for fold, _ in formula.aggregates)
                results = {v.name for fold, _ in formula.aggregates for v in fold.results}
                return results | (self._bound(formula.item) if groups else set())
        return set()

    def _bound_by_all(self, items: list[Formula]) -> set[str]:
        names = set[str]().union(*map(self._bound, items))
        sides = [(x.left, x.right) for x in items if isinstance(x, Operation) and x.op == "="]
        sides += [(right, left) for left, right in sides]
        while more := {
            a.name
            for a, b in sides
            if isinstance(a, Var)
            and a.name not in names
            and names.issuperset(v.name for v in variables_in(b))
        }:
            names |= more
        return names

    def _reads(self, call: Application) -> bool:
        return not call.function or call.name in self._known or function_named(call.name) is None


def _outer_variables(part: Formula | Node) -> list[Var]:
    """Return the variables of a formula outside aggregates, and the results of these."""
    names: list[Var] = []
    for inner in walk(part, within=False):
        if isinstance(inner, Var):
            names.append(inner)
        elif isinstance(inner, Aggregation):
            names += (v for fold, _ in inner.aggregates for v in fold.results)
            names += variables_in(inner.groups) if inner.groups else ()
    return names


def _terms(folds: Folds) -> Iterator[Var]:
    for _, terms in folds:
        for term in terms:
            yield from variables_in(term)


def _call(name: str, shared: tuple[Var, ...], fold: Aggregate) -> Application:
    return Application(
        name, shared if fold.place is None else (*shared, fold.place), True, where=fold.where
    )


def _valued(call: Application, fold: Aggregate, marked: bool = False) -> Operation:
    return Operation("=", call, replace(fold.result, marked=marked), where=fold.where)
