"""Rewrite what an aggregate ranges over, so that it lists fewer bindings.

Give an aggregate over a disjunction the conjunctions themselves, instead of a view of the body.

    n[g] = t <- agg<<t = count()>> r(k, g, v), (v < 3 ; v > 7).

    n$body(k, g, v) <- r(k, g, v), v < 3 ; r(k, g, v), v > 7.           what lang/normalise.py makes of it
    n[g] = t <- agg<<t = count()>> n$body(k, g, v).

    n[g] = t <- agg<<t = count()>> r(k, g, v), v < 3 ; r(k, g, v), v > 7.

These conjunctions of one atom become one plan: a scan with a choice among the comparisons, so that
a row counts once. Where atoms differ, each conjunction gets what those before it do not hold of:

    n[g] = t <- agg<<t = count()>> r(k, g, v), (v < 3, a[g] = x, x > 5 ; b(g)).

    n[g] = t <- agg<<t = count()>> r(k, g, v), v < 3, a[g] = x, x > 5 ; r(k, g, v), b(g), v >= 3 ;
                                   r(k, g, v), b(g), v < 3, !(a[g] = x, x > 5).

The view stays where a binding of the body may have several rows of an atom, or something may be
null.

Count and sum the parts of a body that no variable connects on their own, instead of listing how
they combine.

    n[x] = t <- agg<<t = count()>> a(x, y), b(z, w).

    n$part0[x] = f0 <- agg<<f0 = count()>> a(x, y).          n$part1[] = f1 <- agg<<f1 = count()>> b(z, w).
    n[x] = t <- agg<<t = sum(f)>> n$part0[x] = f0, n$part1[] = f1, f = f0 * f1.

A part that sums has the condition that the others have rows, without which its sum is of nothing.
With a thousand rows each, that reads two thousand rows in place of a million combinations. The same
holds of the sum of a product of which each factor is of one part: a number, or how often a row of
a bag is there.

Only whole numbers are summed so, since each product of floats is rounded; and no part has anything
that may fail, since it would fail also where another part has no rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from ivm.lang import ir
from ivm.lang.nulls import may_be_null, tests_null
from ivm.lang.program import NOTHING, Program, recursive_names
from ivm.names import ONE, is_body
from ivm.plan.conjunction import ChoiceConjunction
from ivm.plan.rewrite.helpers import existential
from ivm.terms.evaluator import COMPARE, may_fail

INT, PRODUCT = "int64", ir.Var("product$")
CONJUNCTIONS_MAX = 16  # of one aggregate; each is a plan


def fold_bodies(program: Program) -> Program:
    """Leave out the views of disjunctive bodies of one atom; the aggregates that read them get
    their conjunctions.
    """
    return _without_views(
        program, lambda body: body if _keeps_all(body) and ChoiceConjunction.joins(body) else None
    )


def separate_bodies(program: Program, known: Program = NOTHING) -> Program:
    """Leave out the views of disjunctions of joins; the aggregates that read them get conjunctions
    that exclude each other.
    """
    predicates = program.over(known)
    made = _without_views(
        program,
        lambda body: (
            None if ChoiceConjunction.joins(body) else _Separation(body, predicates).rule()
        ),
    )
    return program if made.rules == program.rules else replace(made, lean=True)


def _without_views(program: Program, conjunctions: Callable[[ir.Rule], ir.Rule | None]) -> Program:
    """Leave out the views of bodies for which there are `conjunctions`; the aggregates that read
    them get these.
    """
    recursive = recursive_names(program.rules)
    readers = Counter(name for rule in program.rules for name in rule.reads)
    bodies = {
        rule.heads[0].predicate: made
        for rule in program.rules
        if _is_body(rule)
        and readers[rule.heads[0].predicate] == 1
        and rule.heads[0].predicate not in recursive
        if (made := conjunctions(rule))
    }
    rules, folded = list[ir.Rule](), set[str]()
    for rule in program.rules:
        body = _body_of(rule, bodies)
        if body:
            rule = _with_body(rule, body)
            folded.add(body.heads[0].predicate)
        rules.append(rule)
    left = (rule for rule in rules if rule.heads[0].predicate not in folded)
    predicates = {name: one for name, one in program.predicates.items() if name not in folded}
    return replace(program, predicates=predicates, rules=tuple(left))


def _is_body(rule: ir.Rule) -> bool:
    """Return whether a rule derives what an aggregate ranges over, from several conjunctions."""
    plain = (
        not (rule.aggregates or rule.failed or rule.range or rule.texts) and len(rule.heads) == 1
    )
    return plain and len(rule.body) > 1 and is_body(rule.heads[0].predicate)


def _keeps_all(rule: ir.Rule) -> bool:
    return {*ir.variables(*rule.heads)}.issuperset(
        ir.variables(*(x for disjunct in rule.body for x in disjunct))
    )


def _body_of(rule: ir.Rule, bodies: Mapping[str, ir.Rule]) -> ir.Rule | None:
    """Return the rule of the view that is the only atom of an aggregate, by the same names; None
    if there is none.
    """
    if not rule.aggregates or rule.range or rule.failed or len(rule.body) != 1:
        return None
    atoms = [x for x in rule.body[0] if not isinstance(x, ir.Compare)]
    body = (
        bodies.get(atoms[0].predicate)
        if len(atoms) == 1 and isinstance(atoms[0], ir.Atom)
        else None
    )
    return body if body and ir.variables(*body.heads) == ir.variables(*atoms) else None


def _with_body(rule: ir.Rule, body: ir.Rule) -> ir.Rule:
    """Return an aggregate with the conjunctions of a view instead of the view, and its own
    comparisons in each.
    """
    comparisons: ir.Disjunct = tuple(x for x in rule.body[0] if isinstance(x, ir.Compare))
    return replace(
        rule,
        body=tuple((*disjunct, *comparisons) for disjunct in body.body),
        types={**body.types, **rule.types},
    )


class _Part(NamedTuple):
    """Literals of a conjunction that share variables of their own, which are `own`."""

    literals: ir.Disjunct
    own: tuple[ir.Var, ...]

    @property
    def refuted(self) -> ir.Literal:
        """The literal that holds where these do not."""
        first = self.literals[0]
        if len(self.literals) > 1 or self.own or isinstance(first, ir.Atom):
            return ir.Negation(self.literals, self.own, where=first.where)
        return (
            first.body[0]
            if isinstance(first, ir.Negation)
            else replace(first, op=ir.NEGATED[first.op])
        )


class _Separation:
    """Makes the conjunctions of a body exclude each other."""

    def __init__(self, body: ir.Rule, predicates: Mapping[str, ir.Predicate]) -> None:
        self._body, self._predicates, self._kept = body, predicates, {*ir.variables(*body.heads)}
        self._types: dict[str, ir.Type] = {**body.types}

    def rule(self) -> ir.Rule | None:
        """Return the rule with such conjunctions; None if a view of its rows is needed, or there
        would be too many.
        """
        if not all(map(self._is_simple, self._body.body)):
            return None
        disjuncts = list[ir.Disjunct]()
        for place, disjunct in enumerate(self._body.body):
            ways = [disjunct]
            for earlier in range(place):
                ways = [part for way in ways for part in self._without(way, earlier)]
            disjuncts += ways
            if len(disjuncts) > CONJUNCTIONS_MAX:
                return None
        return replace(self._body, body=tuple(disjuncts), types=self._types)

    def _is_simple(self, disjunct: ir.Disjunct) -> bool:
        """Return whether a row of the body has one binding of a conjunction, and what others
        lack can be refuted.
        """
        atoms = [x for x in disjunct if isinstance(x, ir.Atom)]
        extra = tuple(x for x in disjunct if not all(x in other for other in self._body.body))
        nulls = any(may_be_null(disjunct, self._predicates).values())
        if nulls or may_fail(extra, {*ir.variables(*atoms)}, self._body.types):
            return False
        for x in extra:
            if isinstance(x, ir.Negation) and (
                x.exists or len(x.body) > 1 or not isinstance(x.body[0], ir.Atom)
            ):
                return False
            if isinstance(x, ir.Compare) and tests_null(x):
                return False
        return self._named(atoms, ()).keys() >= {*ir.variables(*disjunct)}

    def _named(self, atoms: list[ir.Atom], way: ir.Disjunct) -> dict[ir.Var, ir.Var]:
        """Return the variables that a row of the body determines, by keys of atoms, each with its
        name in a conjunction `way` that has the same row of an atom.
        """
        names, waiting = {v: v for v in self._kept}, [*atoms]
        while atom := next(
            (a for a in waiting if names.keys() >= {*ir.variables(*self._key(a))}), None
        ):
            waiting.remove(atom)
            key = [ir.renamed(term, names) for term in self._key(atom)]
            alike = (a for a in way if isinstance(a, ir.Atom) and a.predicate == atom.predicate)
            same = next((a for a in alike if [*self._key(a)] == key), atom)
            for term, other in zip(atom.terms[len(key) :], same.terms[len(key) :], strict=True):
                if isinstance(term, ir.Var) and term not in names:
                    names[term] = other if isinstance(other, ir.Var) else term
        return names

    def _key(self, atom: ir.Atom) -> tuple[ir.Var | ir.Const, ...]:
        """Return the terms of an atom that identify its row."""
        return atom.args[: self._predicates[atom.predicate].key_count]

    def _without(self, way: ir.Disjunct, earlier: int) -> Iterator[ir.Disjunct]:
        """Yield conjunctions that hold where one does and an earlier one does not, of which no
        two hold together.
        """
        for part in self._parts(way, earlier):
            if _exclude_each_other((*way, *part.literals)):
                yield way
                return
            other = (*way, part.refuted)
            if not _exclude_each_other(other):
                yield other
            way = (*way, *part.literals)

    def _parts(self, way: ir.Disjunct, earlier: int) -> list[_Part]:
        """Return what an earlier conjunction has and another one lacks, comparisons first."""
        fresh = {
            v: replace(v, name=f"{v.name}$or{earlier}")
            for v in ir.variables(*self._body.body[earlier])
        }
        fresh = {v: new for v, new in fresh.items() if v not in self._kept}
        self._types |= {new.name: self._types[v.name] for v, new in fresh.items()}
        disjunct = [ir.renamed(x, fresh) for x in self._body.body[earlier]]
        names = self._named([x for x in disjunct if isinstance(x, ir.Atom)], way)
        left = [literal for x in disjunct if (literal := ir.renamed(x, names)) not in way]
        hidden = {*ir.variables(*left)}.difference(self._kept, ir.variables(*way))
        groups = ir.tied(ir.Atom("", (*hidden.intersection(ir.variables(x)),)) for x in left)
        alone = [_Part((x,), ()) for x in left if hidden.isdisjoint(ir.variables(x))]
        alone.sort(key=lambda part: not isinstance(part.literals[0], ir.Compare))
        of_groups = (
            tuple(x for x in left if not group.isdisjoint(ir.variables(x))) for group in groups
        )
        return [
            *alone,
            *(
                _Part(some, tuple(v for v in ir.variables(*some) if v in hidden))
                for some in of_groups
            ),
        ]


def _exclude_each_other(literals: ir.Disjunct) -> bool:
    """Return whether comparisons of one variable with constants hold for no value together."""
    limits = [limit for x in literals if (limit := _limit(x))]
    return any(_are_apart(limit, other) for limit, other in combinations(limits, 2))


def _limit(literal: ir.Literal) -> tuple[ir.Var, str, ir.Const] | None:
    """Return a comparison of a variable with a constant, the variable first."""
    match literal:
        case ir.Compare(op, ir.Var() as x, ir.Const() as const):
            return x, op, const
        case ir.Compare(op, ir.Const() as const, ir.Var() as x):
            return x, ir.MIRRORED[op], const
    return None


def _are_apart(one: tuple[ir.Var, str, ir.Const], other: tuple[ir.Var, str, ir.Const]) -> bool:
    (x, op, a), (y, other_op, b) = one, other
    if x != y or a.type != b.type or a.value is None or b.value is None:
        return False
    if "=" in (op, other_op):
        return not (
            COMPARE[other_op](a.value, b.value) if op == "=" else COMPARE[op](b.value, a.value)
        )
    if {op[0], other_op[0]} != {"<", ">"}:
        return False
    low, high = (a.value, b.value) if op[0] == ">" else (b.value, a.value)
    return not COMPARE["<=" if op[1:] == other_op[1:] == "=" else "<"](low, high)


# -- unconnected parts


def sum_parts(program: Program) -> Program:
    """Put views of the sums of parts before the counts and sums over several parts, which then
    multiply these.
    """
    predicates, rules = dict(program.predicates), list[ir.Rule]()
    recursive = recursive_names(program.rules)
    for rule in program.rules:
        is_recursive = rule.heads[0].predicate in recursive
        rules += [rule] if is_recursive or not _is_sum(rule) else _factored(rule, predicates)
    factored = program.factored or len(rules) > len(program.rules)
    return replace(program, predicates=predicates, rules=tuple(rules), factored=factored)


def _is_sum(rule: ir.Rule) -> bool:
    """Return whether a rule counts, or sums whole numbers, over one conjunction."""
    if rule.range or rule.failed or rule.texts or len(rule.aggregates) != 1 or len(rule.body) != 1:
        return False
    aggregate = rule.aggregates[0]
    whole = all(rule.types[v.name] == INT for v in aggregate.arguments)
    return aggregate.op in ("count", "sum") and whole and aggregate.absent is None


def _factored(rule: ir.Rule, predicates: dict[str, ir.Predicate]) -> Iterator[ir.Rule]:
    """Yield the rules of the sums of parts, whose predicates are added, and the rule that
    multiplies them; or the rule as it is.
    """
    (disjunct,), (aggregate,), (head,) = rule.body, rule.aggregates, rule.heads
    products = _products(rule)
    rest = [x for x in disjunct if x not in products.values()]
    bound = {*ir.variables(*rest, *head.args)}
    parts = _parts(rest, head) if bound.isdisjoint(products) else []
    if not parts or may_fail((*rest,), set(), rule.types):
        yield rule
        return
    factors = [f for v in aggregate.arguments for f in _factors(v, products)]
    types = {**rule.types, PRODUCT.name: INT}
    for part in parts:
        bound = {*ir.variables(*part)}
        inner = [f for f in factors if f in bound]
        total = ir.Var(f"{PRODUCT.name}{len(predicates)}")
        types[total.name] = INT
        keys = tuple(v for v in ir.variables(*head.args) if v in bound)
        name = f"{head.predicate}$part{len(predicates)}"
        atom = ir.Atom(name, keys, total, where=head.where)
        names = tuple(v.name for v in atom.terms if isinstance(v, ir.Var))
        predicates[name] = ir.Predicate(
            name, tuple(rule.types[v.name] for v in keys), INT, False, names, where=head.where
        )
        text = f"{rule.text}  (a part of what it adds up)"
        if inner:  # a sum may be beyond its type where another part has no rows
            others = (*(x for x in disjunct if x not in part and x not in products.values()),)
            helper, holds = existential(others, rule, predicates)
            yield helper
        whole = [*part, holds] if inner else part
        yield _summing(replace(rule, heads=(atom,), text=text, types=types), whole, inner)
        rest = [x for x in rest if x not in part] + [atom]
        factors = [f for f in factors if f not in bound] + [total]
    yield _summing(replace(rule, types=types), rest, factors)


def _summing(rule: ir.Rule, body: Iterable[ir.Literal], factors: Sequence[ir.Term]) -> ir.Rule:
    """Return a rule with another body, that sums a product of factors into the rule's head."""
    (head,), (aggregate,) = rule.heads, rule.aggregates
    assert isinstance(head.value, ir.Var)
    if not factors:
        folded = replace(aggregate, op="count", result=head.value, arguments=())
        return replace(rule, body=((*body,),), aggregates=(folded,))
    product = factors[0]
    for factor in factors[1:]:
        product = ir.Binary("*", product, factor, where=rule.where)
    if not isinstance(product, ir.Var):
        body = (*body, ir.Compare("=", PRODUCT, product, where=rule.where))
        product = PRODUCT
    folded = replace(aggregate, op="sum", result=head.value, arguments=(product,))
    return replace(rule, body=((*body,),), aggregates=(folded,))


def _products(rule: ir.Rule) -> dict[ir.Var, ir.Compare]:
    """Return the equations by which a product of whole numbers defines a variable that no atom has."""
    (disjunct,) = rule.body
    held = {*ir.variables(*(x for x in disjunct if not isinstance(x, ir.Compare)))}
    return {
        x.left: x
        for x in disjunct
        if isinstance(x, ir.Compare) and x.op == "=" and isinstance(x.left, ir.Var)
        if x.left not in held and rule.types[x.left.name] == INT and _is_product(x.right)
    }


def _is_product(term: ir.Term) -> bool:
    match term:
        case ir.Binary("*", left, right):
            return all(isinstance(x, ir.Var | ir.Const) or _is_product(x) for x in (left, right))
    return False


def _factors(term: ir.Term, products: Mapping[ir.Var, ir.Compare]) -> list[ir.Term]:
    """Return what a term multiplies, each as often as it does."""
    match term:
        case ir.Var() if term in products:
            return _factors(products[term].right, products)
        case ir.Binary():
            return [*_factors(term.left, products), *_factors(term.right, products)]
        case ir.Var() | ir.Const():
            return [term]
    raise AssertionError(term)


def _parts(literals: list[ir.Literal], head: ir.Atom) -> list[list[ir.Literal]]:
    """Return those parts that no variable connects to others and that may hold for several
    bindings of one row of the head; none unless there is another part that has rows.
    """
    parts = [
        [x for x in literals if not names.isdisjoint(ir.variables(x))]
        for names in ir.tied(literals)
    ]
    listed = [part for part in parts if any(map(_has_rows, part))]
    bound = {*head.args}
    return [
        part
        for part in listed
        if len(listed) > 1
        if any(isinstance(x, ir.Atom) and not bound.issuperset(ir.variables(*x.args)) for x in part)
    ]


def _has_rows(literal: ir.Literal) -> bool:
    """Return whether a literal is an atom that may have several rows."""
    return (
        isinstance(literal, ir.Atom)
        and literal.predicate != ONE
        and any(ir.variables(*literal.args))
    )
