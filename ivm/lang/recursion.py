"""Check the conditions of recursion, and bring recursive rules into the form that is evaluated.

    reach(x, z) <- reach(x, y), edge(y, z).                                             allowed
    win(x) <- move(x, y), !win(y).                                                      refused: through a negation
    size[x] = n <- agg<<n = sum(m)>> part(x, y), size[y] = m.                           refused: through a sum
    dist[y] = d <- agg<<d = min(c)>> dist[x] = e, edge[x, y] = w, c = e + w.            allowed: monotone in e

Rules without negation and aggregates are monotone: more rows never remove derived rows. So their
rounds end in the least fixpoint. For `min` (and `max`, the other way round) a smaller value must
never lead to a greater one. Of a user's semilattice nothing else is known, so its values may only
be passed on unchanged.
"""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from ivm.errors import RecursionRefusedError
from ivm.lang import ir
from ivm.lang.nulls import tests_null
from ivm.lang.program import Program, Stratum, recursive_names, strata_of
from ivm.names import BODY, is_body, named_part
from pagestore.host import is_operator, is_semilattice

EXTREMES = ("min", "max")
PASSED_ON = "of an operator that is registered a value may only be passed on as it is"
# which way the left side keeps a comparison true: down is 1
UPWARDS = {"<": 1, "<=": 1, ">": -1, ">=": -1}


def split_recursion(program: Program, known: Program) -> Program:
    """Bring recursive rules into the form that is evaluated: one head per rule, aggregates over
    their own conjunctions.

    Other rules stay unchanged.
    """
    rules = _with_own_auxiliaries(program.rules)
    names = recursive_names((*known.tied_to(rules), *rules))
    rules = [part for rule in rules for part in _split(rule, names)]
    names = recursive_names((*known.tied_to(rules), *rules))
    auxiliaries = {
        rule.heads[0].predicate: rule for rule in rules if BODY in rule.heads[0].predicate
    }
    folded = {
        head.predicate: part.op
        for rule in rules
        for head, part in zip(rule.heads, rule.aggregates, strict=False)
    }
    made: list[ir.Rule] = []
    for rule in rules:
        name = rule.heads[0].predicate
        if name in names and _is_semilattice(folded.get(name)):
            if rule.aggregate is None:
                rule = _as_aggregate(rule, folded[name])
            else:
                rule = _without_auxiliary(rule, auxiliaries)
        made.append(rule)
    read = {name for rule in made for name in rule.reads}
    left = (
        part
        for part in made
        if auxiliaries.keys().isdisjoint(part.writes) or not read.isdisjoint(part.writes)
    )
    return replace(program, rules=tuple(left))


def _with_own_auxiliaries(rules: Sequence[ir.Rule]) -> list[ir.Rule]:
    """Give each aggregating rule an auxiliary view of its own, if a view has several such rules."""
    split: list[ir.Rule] = []
    of: Counter[str] = Counter()
    for rule in rules:
        name = rule.heads[0].predicate
        if is_body(name):
            of[name] += 1
        if of[name] > 1:
            head = replace(rule.heads[0], predicate=f"{name}{of[name]}")
            rule = replace(rule, heads=(head,))
        elif split and split[-1].heads[0].predicate.startswith(name + BODY):
            # it aggregates that view
            rule = replace(rule, body=((ir.marked(split[-1].heads[0]),),))
        split.append(rule)
    return split


def _is_semilattice(op: str | None) -> bool:
    return op in EXTREMES or (op is not None and is_semilattice(op))


def _split(rule: ir.Rule, names: Container[str]) -> Iterator[ir.Rule]:
    """Yield one rule per head if one of the heads is recursive."""
    if any(name in names for name in rule.writes):
        aggregates = rule.aggregates or [None] * len(rule.heads)
        for head, aggregate in zip(rule.heads, aggregates, strict=True):
            yield replace(rule, heads=(head,), aggregates=(aggregate,) if aggregate else ())
    else:
        yield rule


def _without_auxiliary(rule: ir.Rule, bodies: dict[str, ir.Rule]) -> ir.Rule:
    """Inline an aggregate's auxiliary view: a semilattice ignores how often a value is derived."""
    literal = rule.body[0][0]
    if isinstance(literal, ir.Atom) and len(rule.body[0]) == 1:
        auxiliary = bodies.get(literal.predicate)
    else:
        auxiliary = None
    return (
        replace(rule, body=auxiliary.body) if auxiliary and auxiliary.heads[0] == literal else rule
    )


def _as_aggregate(rule: ir.Rule, op: str) -> ir.Rule:
    """Turn a rule without an aggregate into an aggregate rule of its aggregated function."""
    (head,) = rule.heads
    if not isinstance(head.value, ir.Var):
        return rule
    result = replace(head.value, name=f"{head.value.name}$")
    aggregate = ir.Aggregate(op, result, (head.value,), where=head.where)
    return replace(rule, heads=(replace(head, value=result),), aggregates=(aggregate,))


# -- refused recursion


def check_recursion(rules: Sequence[ir.Rule]) -> None:
    """Raise RecursionRefusedError for a cycle through negation or an aggregate that is not
    monotone, naming it.
    """
    for stratum in strata_of(rules):
        for rule in stratum.rules if stratum.recursive else ():
            _check_negations(rule, stratum)
            _check_aggregate(rule, stratum)
        for rule in stratum.rules if stratum.recursive else ():
            if rule.aggregate:
                sign = {"min": 1, "max": -1}.get(rule.aggregate.op, 0)
                for disjunct in rule.body:
                    _check_monotone(rule, disjunct, stratum, sign)


def _check_negations(rule: ir.Rule, stratum: Stratum) -> None:
    for disjunct in rule.body:
        for literal in disjunct:
            for atom in ir.atoms(literal.body) if isinstance(literal, ir.Negation) else ():
                if atom.predicate in stratum.recursive:
                    cycle = _cycle(rule, atom.predicate, stratum, "negates")
                    raise RecursionRefusedError(
                        atom.where,
                        f"recursion through a negation has no meaning: {cycle}; "
                        "negate only views that do not read this one",
                    )


def _check_aggregate(rule: ir.Rule, stratum: Stratum) -> None:
    ops = {rule.aggregate.op if rule.aggregate else "" for rule in stratum.rules}
    op, name = rule.aggregate.op if rule.aggregate else "", rule.heads[0].predicate
    read = next((name for name in rule.reads if name in stratum.recursive), name)
    if op and not _is_semilattice(op):
        remedy = (
            "register it as a semilattice if it is one" if is_operator(op) else "use min or max"
        )
        raise RecursionRefusedError(
            rule.where,
            f"recursion through {op} has no meaning: {_cycle(rule, read, stratum, 'aggregates')}; "
            f"let {op} read only views that do not read this one, or {remedy}",
        )
    if len(ops) > 1 and all(not op or _is_semilattice(op) for op in ops) and op == min(ops):
        raise RecursionRefusedError(
            rule.where,
            f"recursion through {max(ops)} takes only functions that are aggregated by {max(ops)}: "
            f"{_cycle(rule, read, stratum, 'reads')}; let views of other kinds read the function "
            f"once it is complete",
        )
    if op and not rule.heads[0].args:
        reason = f"{name}[] has one value and reads itself: recursion through {op} needs a key"
        raise RecursionRefusedError(rule.where, reason)


def _cycle(rule: ir.Rule, name: str, stratum: Stratum, verb: str) -> str:
    """Describe a cycle in words, from a rule's view through `name` and back."""
    reader, queue = {name: name}, [name]
    for at in queue:  # grows
        for read in {read for rule in stratum.rules if at in rule.writes for read in rule.reads}:
            if read in stratum.recursive and read not in reader:
                reader[read] = at
                queue.append(read)
    chain = [rule.heads[0].predicate]
    while chain[-1] != name:
        chain.append(reader[chain[-1]])
    first, *names = dict.fromkeys(named_part(name) for name in (chain[0], *reversed(chain)))
    return f"{first} {verb} " + ", which reads ".join([*names, first])


# -- monotone rules of min and max


def _check_monotone(rule: ir.Rule, disjunct: ir.Disjunct, stratum: Stratum, sign: int) -> None:
    """Raise RecursionRefusedError if a better value of the stratum may lead to a worse one, or to
    none.

    `sign` is 1 for min, where smaller is better, -1 for max, and 0 for a semilattice that a user
    registered.
    """
    atoms = [x for x in disjunct if isinstance(x, ir.Atom) and x.predicate in stratum.recursive]
    others = [x for x in disjunct if x not in atoms]
    values = [x.value for x in atoms]
    if any(not isinstance(v, ir.Var) for v in values) or len({*values}) < len(values):
        raise _not_monotone(rule, atoms[0], "its value must be a variable of its own")
    tainted = {v for v in values if isinstance(v, ir.Var)}
    held = {v for x in others if isinstance(x, ir.Atom) for v in ir.variables(x)} | {
        v for x in atoms for v in ir.variables(*x.args)
    }
    equations = [x for x in others if isinstance(x, ir.Compare) and x.op == "="]
    # whether a variable rises (1) or falls (-1) with the values of the stratum
    rising = dict.fromkeys(tainted, 1)
    while defined := [(x, v) for x in equations for v in _defined(x, rising, held)]:
        equation, target = defined[0]
        equations.remove(equation)
        source = equation.right if equation.left == target else equation.left
        way = _way(source, rising)
        if not sign and not isinstance(source, ir.Var):
            raise _not_monotone(rule, equation, PASSED_ON)
        if way is None:
            raise _not_monotone(
                rule, equation, "the result must only rise, or only fall, with the value"
            )
        rising[target] = way
    clamps = [
        x
        for x in others
        if isinstance(x, ir.Compare) and _is_clamp(rule, disjunct, x, tainted, sign)
    ]
    _check_uses(rule, [x for x in others if x not in clamps], equations, rising, held, sign)
    assert rule.aggregate and rule.aggregate.argument
    if rising.get(rule.aggregate.argument, 1) != 1:
        raise _not_monotone(rule, rule, "the result must rise with the value")


def _check_uses(
    rule: ir.Rule,
    others: Sequence[object],
    equations: Sequence[ir.Compare],
    rising: dict[ir.Var, int],
    held: set[ir.Var],
    sign: int,
) -> None:
    """Raise unless values restrict bindings only by bounds that better values satisfy, too."""
    if fault := next((v for v in (*ir.variables(*rule.heads[0].args), *held) if v in rising), None):
        raise _not_monotone(
            rule, fault, f"{fault.name} decides which rows exist, so it must not depend on a value"
        )
    for literal in others:
        if isinstance(literal, ir.Negation) and not rising.keys().isdisjoint(ir.variables(literal)):
            raise _not_monotone(rule, literal, "no value may occur in a negation")
        if not isinstance(literal, ir.Compare) or rising.keys().isdisjoint(ir.variables(literal)):
            continue
        if (literal.op == "=" and literal not in equations) or tests_null(literal):
            continue
        if not sign:
            raise _not_monotone(rule, literal, PASSED_ON)
        direction = sign * UPWARDS.get(literal.op, 0)
        left, right = _way(literal.left, rising), _way(literal.right, rising)
        if not direction or left not in (0, direction) or right not in (0, -direction):
            bound = "<` or `<=" if sign > 0 else ">` or `>="
            raise _not_monotone(rule, literal, f"a value may only be bounded, by `{bound}`")


def _is_clamp(
    rule: ir.Rule, disjunct: ir.Disjunct, bound: ir.Compare, values: set[ir.Var], sign: int
) -> bool:
    """Return whether another conjunction replaces the values beyond the bound by the bound itself.

    For max, `m = v, v <= w ; m = w, w < v` together give the lesser of v and w.
    """
    assert rule.aggregate and rule.aggregate.argument
    (value, other) = (bound.left, bound.right)
    least = {"<": 1, "<=": 1, ">": -1, ">=": -1}.get(bound.op, 0)
    if value not in values:
        value, other, least = other, value, -least
    if not sign or value not in values or not isinstance(other, ir.Var) or least != -sign:
        return False
    result = rule.aggregate.argument
    rest = {*disjunct} - {bound, ir.Compare("=", result, value), ir.Compare("=", value, result)}
    if len(rest) != len({*disjunct}) - 2:
        return False
    beyond = [ir.Compare(op, *pair) for op in UPWARDS for pair in ((other, value), (value, other))]
    beyond = [x for x in beyond if (UPWARDS[x.op] > 0) == ((x.left == other) == (least > 0))]
    taken = [ir.Compare("=", result, other), ir.Compare("=", other, result)]
    return any({*literal} == {*rest, x, y} for literal in rule.body for x in beyond for y in taken)


def adds_only(rule: ir.Rule, recursive: Container[str]) -> bool:
    """Return whether a recursive rule only adds to values, without clamping them.

    A bound that only worse values fail does not clamp; one that another conjunction uses in their
    place does.
    """
    sign = {"min": 1, "max": -1}.get(rule.aggregate.op, 0) if rule.aggregate else 0
    for disjunct in rule.body if sign else ():
        atoms = [x for x in disjunct if isinstance(x, ir.Atom) and x.predicate in recursive]
        values = {x.value for x in atoms if isinstance(x.value, ir.Var)}
        held = {v for x in disjunct if isinstance(x, ir.Atom) for v in ir.variables(x)}
        equations = [x for x in disjunct if isinstance(x, ir.Compare) and x.op == "="]
        rising = dict.fromkeys(values, 1)
        while defined := [(x, v) for x in equations for v in _defined(x, rising, held)]:
            equations.remove(defined[0][0])
            rising[defined[0][1]] = 1
            if not (_is_sum(defined[0][0].left) and _is_sum(defined[0][0].right)):
                return False
        if any(
            isinstance(x, ir.Compare) and _is_clamp(rule, disjunct, x, values, sign)
            for x in disjunct
        ):
            return False
    return sign != 0


def _is_sum(term: ir.Term) -> bool:
    if isinstance(term, ir.Call):
        return False
    return not isinstance(term, ir.Binary) or (
        term.op in "+-" and _is_sum(term.left) and _is_sum(term.right)
    )


def _defined(
    equation: ir.Compare, rising: dict[ir.Var, int], held: set[ir.Var]
) -> Iterator[ir.Var]:
    """Yield the variable that an equation computes from values of the stratum, if there is one."""
    for target, source in ((equation.left, equation.right), (equation.right, equation.left)):
        if isinstance(target, ir.Var) and target not in held and target not in rising:
            yield from [target] if any(v in rising for v in ir.variables(source)) else []


def _way(term: ir.Term, rising: dict[ir.Var, int]) -> int | None:
    """Return 1 if a term rises with the values, -1 if it falls, 0 if it is independent of them,
    None if unknown.
    """
    match term:
        case ir.Var():
            return rising.get(term, 0)
        case ir.Const():
            return 0
        case ir.Binary():
            left, right = _way(term.left, rising), _way(term.right, rising)
            if left is None or right is None:
                return None
            if term.op in "+-":
                right = right if term.op == "+" else -right
                return left or right if left * right >= 0 else None
            if left == right == 0:
                return 0
            factor, way = (term.left, right) if term.op == "*" and left == 0 else (term.right, left)
            if (
                isinstance(factor, ir.Const)
                and not isinstance(factor.value, bool | str)
                and factor.value > 0  # type: ignore[operator]
            ):
                return way
        case ir.Call("least" | "greatest", args):
            ways = {_way(arg, rising) for arg in args} - {0}
            return ways.pop() if len(ways) == 1 else 0 if not ways else None
        case ir.Call():
            return 0 if not any(v in rising for v in ir.variables(term)) else None
    return None


def _not_monotone(rule: ir.Rule, node: object, reason: str) -> RecursionRefusedError:
    assert rule.aggregate
    where = getattr(node, "where", rule.where)
    name = named_part(rule.heads[0].predicate)
    return RecursionRefusedError(
        where,
        f"recursion through {rule.aggregate.op} must be monotone, and {name} is not known to be: "
        f"{reason}",
    )
