"""Make views that keep only the greatest rows of an order, and equivalences, views of what their
rules say.

    best(x, c) <= best(x, d) <- c > d.            best(x, c) makes way for best(x, d) where d is less

    best$kept[x] = c <- agg<<c = min(c)>> ...     one for each rule, whose reads of best are reads of best$kept if it
    best(x, c) <- best$kept[x] = c.               is recursive

So it is where rows are compared by one column only, and the others are equal.  Any other order
leaves all rows in a view of their own, which a recursion reads:

    best$rows(x, c) <- ...
    best$less(x, c, d) <- best$rows(x, c, d), best$rows(x, e, f), c > e, d >= f, (c != e ; d != f).
    best(x, c, d) <- best$rows(x, c, d), !best$less(x, c, d).

`lang:equivalence(same)` adds to the rules of same(x, y) what makes it reflexive, symmetric and
transitive, by the least member of each class:

    same$label[x] = x <- same$pair(x, _).         and for the second column
    same$label[y] = l <- agg<<l = min(m)>> same$label[x] = m, (same$pair(x, y) ; same$pair(y, x)).
    same(x, y) <- same$label[x] = l, same$label[y] = l.

If the rules of same read same, it is derived by rules for the three properties.

Where the text declares the view as a relation, too, same$asserted(x, y) reads the rows that
transactions have.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from ivm.errors import RuleSyntaxError
from ivm.lang.ir import MIRRORED, Aggregate, Predicate, Var
from ivm.lang.syntax_tree import (
    Aggregation,
    And,
    Anonymous,
    Application,
    Clause,
    Formula,
    Node,
    Not,
    Operation,
    Or,
    Subsumption,
    names_in,
    split,
    variables_in,
)
from ivm.names import ASSERTED

# what stays if a row goes where its value is so
EXTREMES = {">": "min", ">=": "min", "<": "max", "<=": "max"}


def with_closures(
    clauses: Sequence[Clause],
    orders: Sequence[Subsumption],
    equivalences: Sequence[Application],
    declared: Mapping[str, Predicate],
) -> list[Clause]:
    """Return clauses that derive what is said of views; `declared` are the relations of the text.

    Raises RuleSyntaxError for a view that has no rules, and is not declared.
    """
    made = list(clauses)
    for name in dict.fromkeys(order.lesser.name for order in orders):
        made = [
            *_kept(made, [one for one in orders if one.lesser.name == name], declared.get(name))
        ]
    for view in equivalences:
        made = [*_equivalence(made, view, declared.get(view.name))]
    return made


def _heads(clause: Clause) -> tuple[str, ...]:
    return tuple(split(head)[0].name for head in clause.heads)


def _reads(clause: Clause) -> set[str]:
    heads = (
        *(split(head)[1] for head in clause.heads),
        *(arg for head in clause.heads for arg in split(head)[0].args),
    )
    terms = (term for _, terms in clause.aggregates for term in terms)
    return {*names_in(clause.body, clause.groups, *heads, *terms)}


def _stratum(clauses: Iterable[Clause], name: str) -> set[str]:
    """Return a view, and those that read it and are read by it, directly or not."""
    reads: dict[str, set[str]] = {}
    for clause in clauses:
        for head in _heads(clause):
            reads.setdefault(head, set()).update(_reads(clause))
    return {name} | {view for view in _reached(reads, name) if name in _reached(reads, view)}


def _reached(reads: dict[str, set[str]], name: str) -> set[str]:
    names, new = set[str](), reads.get(name, set())
    while new := new - names:
        names |= new
        new = set[str]().union(*(reads.get(view, set()) for view in new))
    return names


def _rules_of(
    clauses: Sequence[Clause], view: Application, declared: Predicate | None
) -> tuple[list[Clause], list[Clause]]:
    """Return the rules of a view and the others. Raises RuleSyntaxError if it has none."""
    rules = [clause for clause in clauses if view.name in _heads(clause)]
    others = [clause for clause in clauses if clause not in rules]
    rules += [_asserted(declared, view)] if declared else []
    if not rules or any(
        len(clause.heads) > 1 or not isinstance(clause.heads[0], Application) for clause in rules
    ):
        reason = f"{view.name} needs rules in this text, each with one head, as in {view.name}(x, y) <- ..."
        raise RuleSyntaxError(view.where, reason)
    return rules, others


def _asserted(relation: Predicate, view: Application) -> Clause:
    """Return the rule that a view has the rows of a relation of its name."""
    row = tuple(Var(name, where=relation.where) for name in relation.columns)
    head = Application(view.name, row, False, where=relation.where)
    stored = replace(head, name=view.name + ASSERTED)
    return Clause(
        (head,), And((stored,)), (), where=relation.where, text=f"{head}, as transactions have it"
    )


# -- orders


def _kept(
    clauses: Sequence[Clause], orders: Sequence[Subsumption], declared: Predicate | None
) -> Iterator[Clause]:
    view, extreme = orders[0].lesser, _extreme(orders)
    name = view.name
    rules, others = _rules_of(clauses, view, declared)
    for rule in (
        *(order.greater for order in orders),
        *(order.lesser for order in orders),
        *(c.heads[0] for c in rules),
    ):
        if split(rule)[0].name != name or len(split(rule)[0].args) != len(view.args):
            raise RuleSyntaxError(
                rule.where, f"an order compares rows of one view, as those of {name}"
            )
    stratum = _stratum(clauses, name)
    is_recursive = len(stratum) > 1 or any(name in _reads(clause) for clause in rules)
    for clause in others:
        yield (
            _renamed(clause, name, extreme and extreme[0])
            if not stratum.isdisjoint(_heads(clause))
            else clause
        )
    for clause in rules:
        read = _renamed(clause, name, extreme and extreme[0])
        yield (
            _aggregated(read, *extreme)
            if extreme and is_recursive
            else _with_head(read, f"{name}$rows")
        )
    names = tuple(Var(f"c{n}", where=orders[0].where) for n in range(1, len(view.args) + 1))
    kept = replace(rules[-1], heads=(replace(view, args=names),), aggregates=(), groups=And(()))
    every = replace(view, name=f"{name}$rows", args=names)
    less = replace(view, name=f"{name}$less", args=names)
    if extreme and not is_recursive:
        yield _aggregated(replace(kept, body=And((every,))), *extreme)
    if extreme:
        yield replace(kept, body=And((_read_kept(replace(view, args=names), extreme[0]),)))
        return
    yield from map(_less, orders)
    yield replace(kept, body=And((every, Not(less, where=view.where))))


def _extreme(orders: Sequence[Subsumption]) -> tuple[int, str] | None:
    """Return the only column that an order compares, and the aggregate of the values that stay,
    if it is so.
    """
    if (
        len(orders) > 1
        or len(orders[0].body.items) != 1
        or not isinstance(orders[0].body.items[0], Operation)
    ):
        return None
    (order,), test = orders, orders[0].body.items[0]
    sides = [*zip(order.lesser.args, order.greater.args, strict=False)]
    places = [n for n, (a, b) in enumerate(sides) if a != b]
    if len(places) != 1:
        return None
    named = (*order.lesser.args, order.greater.args[places[0]])
    if len({*named}) < len(named) or not all(isinstance(v, Var) for v in named):
        return None
    if (test.right, test.left) == sides[places[0]]:
        test = replace(test, op=MIRRORED[test.op], left=test.right, right=test.left)
    if (test.left, test.right) != sides[places[0]] or test.op not in EXTREMES:
        return None
    return places[0], EXTREMES[test.op]


def _read_kept(atom: Application, place: int) -> Operation:
    keys = atom.args[:place] + atom.args[place + 1 :]
    call = Application(f"{atom.name}$kept", keys, True, where=atom.where)
    return Operation("=", call, atom.args[place], where=atom.where)


def _renamed(clause: Clause, name: str, place: int | None) -> Clause:
    """Return a clause that reads what a view keeps, or all its rows, instead of the view."""
    return replace(clause, body=And(tuple(_read(item, name, place) for item in clause.body.items)))


def _read(part: Formula, name: str, place: int | None) -> Formula:
    match part:
        case Application() if part.name == name and not part.function:
            return replace(part, name=f"{name}$rows") if place is None else _read_kept(part, place)
        case And() | Or():
            return replace(part, items=tuple(_read(item, name, place) for item in part.items))
        case Not() | Aggregation():
            return replace(part, item=_read(part.item, name, place))
    return part


def _aggregated(clause: Clause, place: int, op: str) -> Clause:
    """Return a view's rule as one of the function that keeps the extremes of a column."""
    head = clause.heads[0]
    assert isinstance(head, Application)
    taken = {v.name for part in (head, clause.body) for v in variables_in(part)}
    value, result = (
        Var(next(n for k in count() if (n := f"{letter}{k}") not in taken)) for letter in "vr"
    )
    operation = _read_kept(
        replace(head, args=(*head.args[:place], result, *head.args[place + 1 :])), place
    )
    body = And((*clause.body.items, Operation("=", value, head.args[place], where=head.where)))
    fold = Aggregate(op, result, where=head.where), (value,)
    return replace(clause, heads=(operation,), body=body, aggregates=(fold,))


def _with_head(clause: Clause, name: str) -> Clause:
    head = clause.heads[0]
    assert isinstance(head, Application)
    return replace(clause, heads=(replace(head, name=name),))


def _less(order: Subsumption) -> Clause:
    """Return the rule of the rows that make way for others."""
    every = f"{order.lesser.name}$rows"
    differ = tuple(
        Operation("!=", a, b, where=order.where)
        for a, b in zip(order.lesser.args, order.greater.args, strict=True)
        if a != b
    )
    if any(isinstance(arg, Anonymous) for arg in order.lesser.args) or not differ:
        reason = "an order compares two rows by columns that differ, and names those of the row that makes way"
        raise RuleSyntaxError(order.where, reason)
    atoms = replace(order.lesser, name=every), replace(order.greater, name=every)
    head = replace(order.lesser, name=f"{order.lesser.name}$less")
    known = tuple(formula for formula in differ if not isinstance(formula.right, Anonymous))
    body = And((*atoms, *order.body.items, *((Or(known),) if len(known) == len(differ) else ())))
    return Clause((head,), body, (), where=order.where, text=order.text)


# -- equivalences


def _equivalence(
    clauses: Sequence[Clause], view: Application, declared: Predicate | None
) -> Iterator[Clause]:
    rules, others = _rules_of(clauses, view, declared)
    name, where = view.name, rules[0].where
    if any(len(split(clause.heads[0])[0].args) != 2 for clause in rules):
        raise RuleSyntaxError(view.where, f"an equivalence has two columns: write {name}(x, y)")
    x, y, z, least, low = (Var(letter, where=where) for letter in ("x", "y", "z", "l", "m"))

    def atom(name: str, *args: Node) -> Application:
        return Application(name, args, False, where=where)

    def rule(head: Application | Operation, *body: Formula) -> Clause:
        return replace(rules[0], heads=(head,), body=And(body), aggregates=(), groups=And(()))

    if len(_stratum(clauses, name)) > 1 or any(name in _reads(clause) for clause in rules):
        yield from clauses
        yield rule(atom(name, y, x), atom(name, x, y))
        yield rule(atom(name, x, z), atom(name, x, y), atom(name, y, z))
        return
    pair, label = f"{name}$pair", f"{name}$label"
    yield from others
    yield from (_with_head(clause, pair) for clause in rules)

    def labelled(member: Var, value: Var) -> Operation:
        return Operation("=", Application(label, (member,), True, where=where), value, where=where)

    any_ = Anonymous(where=where)
    yield rule(labelled(x, x), Or((atom(pair, x, any_), atom(pair, any_, x))))
    linked = Or((atom(pair, x, y), atom(pair, y, x)))
    fold = Aggregate("min", least, where=where), (low,)
    yield replace(rule(labelled(y, least), labelled(x, low), linked), aggregates=(fold,))
    yield rule(atom(name, x, y), labelled(x, least), labelled(y, least))
