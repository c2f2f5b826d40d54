"""Slow truth: rules evaluated with sets and loops over Python values.  Nothing here is clever.
Rules of views that read themselves are evaluated again and again until nothing changes.

A state is a dict: a relation is a set of tuples, a function a dict from key tuple to value.
Bindings are dicts from variable name to value.  `evaluate` gives the state of all views, `supports`
how often each head row is derived.
"""

import math
import operator
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import reduce
from itertools import count, takewhile
from re import fullmatch, search

from ivm.errors import ConstraintError, FunctionConflictError, LimitError, RangeError
from ivm.lang.ir import (
    Aggregate,
    Atom,
    Binary,
    Call,
    Compare,
    Const,
    Edit,
    Literal,
    Predicate,
    Rule,
    Term,
    Var,
    variables,
)
from ivm.lang.nulls import tests_null
from ivm.lang.program import Program, strata_of
from ivm.lang.rewrite import numbers
from ivm.names import is_constraint
from ivm.terms.evaluator import risk
from pagestore.host import operator as registered
from pagestore.host import operator_code

State = dict[str, set | dict]
Binding = dict[str, object]

LEAST = -(2**63)
# after which a recursion whose values still become better is endless
ROUNDS, ROUNDS_PER_ROW = 100, 20
LISTED_MAX = 64  # numbers of a range: the join would take all pairs of the helpers' rows
COMPARE = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def empty(program: Program) -> State:
    """All predicates with no rows."""
    return {name: blank(predicate) for name, predicate in program.predicates.items()}


def blank(predicate: Predicate) -> set | dict:
    return set() if predicate.value is None else {}


def evaluate(program: Program, state: State, refusing: bool = True) -> State:
    """The state with every view derived anew from the extensional predicates; an error where a
    constraint is violated.

    Without `refusing`, the view of what violates a constraint is one as others.
    """
    full = {
        name: state.get(name, blank(predicate)) if predicate.extensional else blank(predicate)
        for name, predicate in program.predicates.items()
    }
    for rules, recursive in strata_of(program.rules):
        before: State | None = None
        for rounds in count() if recursive else ():
            now = {name: full[name].copy() for name in recursive}
            if before == now:
                break
            if rounds > ROUNDS + ROUNDS_PER_ROW * sum(map(len, now.values())):
                raise LimitError(f"{', '.join(recursive)}: there is no end")
            before = now
            derive(program, rules, full, passing=True)
        derive(program, rules, full)
    for rule in program.rules if refusing else ():
        (name, *_) = [head.predicate for head in rule.heads]
        if is_constraint(name) and full[name]:
            raise ConstraintError(rule.where, rule.text, (), [], len(full[name]))
    return full


def derive(program: Program, rules: Iterable[Rule], full: State, passing: bool = False) -> None:
    """Derive once what some rules say; a better value of an aggregate that reads itself replaces
    the one before.

    On the way to the answer, `passing`, a failure says nothing: the value that fails may not stay.
    """
    for rule in rules:
        # what is derived may change what the rule reads
        for name, row in list(derived(rule, full, passing)):
            if rule.aggregate and row[:-1] in full[name]:
                values = [(row[-1],), (full[name].pop(row[:-1]),)]
                row = (*row[:-1], *results(rule.aggregate, values)[0])
            insert(program.predicates[name], full[name], row)


def insert(predicate: Predicate, rows: set | dict, row: tuple) -> None:
    """Add a row; a function that gets a second value for a key is a conflict."""
    if LEAST in row:  # which is null where a column may be null
        types = predicate.stored_types
        row = tuple(
            None if pair == (LEAST, "int64?") else pair[0] for pair in zip(row, types, strict=True)
        )
    if isinstance(rows, set):
        rows.add(row)
    elif rows.setdefault(row[:-1], row[-1]) != row[-1]:
        raise FunctionConflictError(predicate.name, row[:-1], (rows[row[:-1]], row[-1]))


def change(rows: set | dict, row: tuple, inserted: bool) -> None:
    """Insert or delete a row; inserting into a function sets the value, deleting forgets the
    key.
    """
    delete(rows, row if isinstance(rows, set) else row[:-1])
    if inserted and isinstance(rows, set):
        rows.add(row)
    elif inserted:
        rows[row[:-1]] = row[-1]


def put(predicate: Predicate, rows: set | dict, row: tuple, inserted: bool) -> None:
    """As `change`, also for a function of several values, of which a row replaces the one of its
    key.
    """
    for other in [*rows] if predicate.key_count is not None else ():
        if other[: predicate.key_count] == row[: predicate.key_count]:
            rows.remove(other)
    change(rows, row, inserted)


def delete(rows: set | dict, row: tuple) -> None:
    """Remove a row if it is there; of a function the key says which."""
    if isinstance(rows, set):
        rows.discard(row)
    else:
        rows.pop(row, None)


def edit(program: Program, state: State, edits: Iterable[Edit]) -> None:
    """Apply the edits of a transaction in order; a conflict counts if its key is not edited
    again.
    """
    conflicts: dict[tuple, FunctionConflictError] = {}
    for e in edits:
        rows, key = state[e.predicate], tuple(c.value for c in e.args)
        row = key if e.value is None else (*key, e.value.value)
        if e.action == "+":
            try:
                insert(program.predicates[e.predicate], rows, row)
            except FunctionConflictError as conflict:
                conflicts[e.predicate, key] = conflict
        elif e.action == "^" or e.value is None or rows.get(key) == e.value.value:
            conflicts.pop((e.predicate, key), None)
            delete(rows, key)
            if e.action == "^":
                rows[key] = row[-1]
    for conflict in conflicts.values():
        raise conflict


# -- rules


def derived(rule: Rule, state: State, passing: bool = False) -> Iterator[tuple[str, tuple]]:
    """Every head row with its predicate, once for each binding of each disjunct that derives it."""
    if rule.aggregates:
        yield from aggregated(rule, state, passing)
        return
    for disjunct in rule.body:
        for binding in bindings(disjunct, {}, state, passing):
            for head in rule.heads:
                yield head.predicate, tuple(binding[term.name] for term in head.terms)


def supports(rule: Rule, state: State) -> dict[str, Counter]:
    """How many bindings derive each row of each head of a rule without aggregate."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for name, row in derived(rule, state):
        counts[name][row] += 1
    return counts


def bindings(
    literals: tuple[Literal, ...], binding: Binding, state: State, passing: bool = False
) -> Iterator[Binding]:
    """Every extension of the binding under which all literals hold.

    RangeError where one fails and all others hold, unless `passing`.
    """
    for extended, failure in outcomes(literals, binding, state):
        if failure and not passing:
            raise failure
        if not failure:
            yield extended


def outcomes(
    literals: tuple[Literal, ...], binding: Binding, state: State
) -> Iterator[tuple[Binding, RangeError | None]]:
    """Every extension under which no literal does not hold, and what failed.

    Atoms come first, then the variables that only equations define, then all else.  A variable
    whose term fails has the failure as its value, so that whatever reads it fails, too.
    """
    atoms = [literal for literal in literals if isinstance(literal, Atom)]
    others = [literal for literal in literals if not isinstance(literal, Atom)]
    for extended in joined(atoms, binding, state):
        extended = dict(extended)
        rest = list(others)
        while found := defining(rest, extended):
            literal, target, source = found
            rest.remove(literal)
            extended[target.name] = attempted(
                lambda source=source, known=extended: value(source, known)
            )
        results = [
            attempted(lambda literal=literal, known=extended: holds(literal, known, state))
            for literal in rest
        ]
        if not any(result is False for result in results):
            failures = [r for r in (*extended.values(), *results) if isinstance(r, RangeError)]
            yield extended, failures[0] if failures else None


def joined(atoms: list[Atom], binding: Binding, state: State) -> Iterator[Binding]:
    if not atoms:
        yield binding
        return
    atom, *rest = atoms
    for row in rows_of(state[atom.predicate]):
        if atom.predicate.endswith(("$blocks", "$units")) and row[0] >= LISTED_MAX:
            continue
        extended = unified(atom, row, binding)
        if extended is not None:
            yield from joined(rest, extended, state)


def defining(literals: list[Literal], binding: Binding) -> tuple[Compare, Var, Term] | None:
    """The equation to define a variable by next: the one least apt to fail, wherever it stands."""
    equations = [x for x in literals if isinstance(x, Compare) and x.op == "="]
    found = [(x, a, b) for x in equations for a, b in sides(x) if defines(a, b, binding)]
    return min(found, key=lambda one: (risk(one[0]), str(one[0])), default=None)


def attempted(run: Callable[[], object]) -> object:
    try:
        return run()
    except RangeError as failure:
        return failure


def sides(literal: Compare) -> list[tuple[Term, Term]]:
    return [(literal.left, literal.right), (literal.right, literal.left)]


def defines(target: Term, source: Term, binding: Binding) -> bool:
    return (
        isinstance(target, Var)
        and target.name not in binding
        and all(v.name in binding for v in variables(source))
    )


def holds(literal: Literal, binding: Binding, state: State) -> bool:
    """Whether a comparison or a negation holds under a binding of all its variables."""
    if isinstance(literal, Compare):
        left, right = total(literal.left, binding, units), total(literal.right, binding, units)
        if None in (left, right) and not tests_null(literal):
            return False
        return COMPARE[literal.op](left, right)
    for v in variables(literal):
        failure = binding[v.name]
        if isinstance(failure, RangeError):
            raise failure
    known = {
        name: v
        for name, v in without(literal.exists, binding).items()
        if not isinstance(v, RangeError)
    }
    inside = [failure for _, failure in outcomes(literal.body, known, state)]
    if None in inside:
        return False
    for failure in inside:
        raise failure
    return True


def without(hidden: tuple[Var, ...], binding: Binding) -> Binding:
    names = {v.name for v in hidden}
    return {name: v for name, v in binding.items() if name not in names}


def rows_of(rows: set | dict) -> Iterable[tuple]:
    return rows if isinstance(rows, set) else [(*key, v) for key, v in rows.items()]


def unified(atom: Atom, row: tuple, binding: Binding) -> Binding | None:
    """The binding with what an atom binds; a null is for marked arguments, and for `_` but as a
    function's value.
    """
    extended = dict(binding)
    for term, v in zip(atom.terms, row, strict=True):
        wanted = term.value if isinstance(term, Const) else extended.setdefault(term.name, v)
        if wanted != v or (v is None and not admits_null(term, atom)):
            return None
    return extended


def admits_null(term: Term, atom: Atom) -> bool:
    return isinstance(term, Var) and (
        term.marked or (term is not atom.value and bool(fullmatch(r"_\d+", term.name)))
    )


def nulls_first(row: tuple) -> list[tuple]:
    return [() if v is None else (v,) for v in row]


def value(term: Term, binding: Binding, leaf: Callable = lambda v: v) -> object:
    """A term's value; RangeError where it does not fit its type."""
    found = total(term, binding, leaf)
    return in_range(found) if isinstance(term, Binary) and found is not None else found


def total(term: Term, binding: Binding, leaf: Callable = lambda v: v) -> object:
    """A term's value, which fits its type but for a sum: what is only compared, in `units`, may
    be of any size.
    """
    if isinstance(term, Binary):
        if any(binding[v.name] is None for v in variables(term)):
            return None
        operand = total if term.op in "+-" else value
        return computed(
            term.op, operand(term.left, binding, leaf), operand(term.right, binding, leaf)
        )
    if isinstance(term, Call) and term.name == "try":
        try:
            return total(term.args[0], binding, leaf)
        except RangeError:
            return None
    if isinstance(term, Call):
        return leaf(called(term, [total(arg, binding) for arg in term.args]))
    found = term.value if isinstance(term, Const) else binding[term.name]
    if isinstance(found, RangeError):
        raise found
    return leaf(found)


CALLED: dict[str, Callable] = {
    "if": lambda c, a, b: a if c else b,
    "string:concat": lambda *texts: "".join(texts),
    "string:upper": str.upper,
    "string:like": lambda text, pattern: bool(fullmatch(pattern.replace("%", ".*").replace("_",
    "."), text)),
    "string": str,
    "round": lambda x: x.quantize(1, ROUND_HALF_UP),
    "datetime:month": lambda x: x.month,
    "abs": lambda x: x.copy_abs() if isinstance(x, Decimal) else abs(x),
    "sign": lambda x: (x > 0) - (x < 0),
    "mod": lambda a, b: (-1 if a < 0 else 1) * (abs(a) % abs(b)),
    "in": lambda a, *among: a in among,
    "least": min,
    "greatest": max,
    "string:length": len,
    "decimal": lambda x, digits: Decimal(x).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP),
    "string:parts": lambda text, separator: len(text.split(separator) if separator else [*text]),
    "string:split_part": lambda text, separator, n: dict(
        enumerate(text.split(separator) if separator else [*text], start=1)
    ).get(n, ""),
    "$count": lambda low, high, step: len(steps(low, high, step)[: numbers.LISTED_MAX + 1]),
    "$nth": lambda low, _, step, block, unit, size: computed("+", low, (block + unit) * step),
    "$within": lambda value, low, high, step: is_step(value, low, high, step),
    "string:contains": lambda text, part: part in text,
    "string:starts_with": str.startswith,
    "string:regexp_full_match": lambda text, pattern: bool(fullmatch(pattern, text)),
    "string:regexp_matches": lambda text, pattern: bool(search(pattern, text)),
    "power": operator.pow,
    "bit_xor": operator.xor,
    "not": operator.not_,
}  # fmt: skip


def called(term: Call, args: list) -> object:
    """The value of some functions of terms, null of a null; tests/ivm/plan/test_functions.py has
    all.
    """
    if None in args and term.name != "if":
        return None
    try:
        if term.name in COMPARE:
            return COMPARE[term.name](*args)
        found = CALLED[term.name](*args)
        kept = (
            ("least", "greatest", "if", "abs")
            if isinstance(found, Decimal)
            else ("least", "greatest")
        )
        # also of unsigned numbers, and of long decimals
        return found if term.name in kept else in_range(found)
    except ArithmeticError as error:
        raise RangeError(f"{term}: {error}") from None


def steps(low: object, high: object, step: object) -> range | list:
    """The numbers of a range, of units if they are moments; one more than may be listed of
    fractions.
    """
    if not isinstance(step, float | Decimal):
        return range(units(low), units(high), step)
    if step == 0:
        raise ZeroDivisionError("a step of 0")
    listed = (low + n * step for n in range(numbers.LISTED_MAX + 1))
    return list(takewhile(lambda v: v < high if step > 0 else v > high, listed))


def is_step(value: object, low: object, high: object, step: object) -> bool:
    if not isinstance(step, float | Decimal):
        return units(value) in range(units(low), units(high), step)
    inside = low <= value < high if step > 0 else high < value <= low
    return inside and low + type(step)(round((value - low) / step)) * step == value


def units(v: object) -> object:
    """A moment as a number of what is added to it: days of a date, microseconds of a timestamp."""
    if isinstance(v, datetime):
        return v if v.tzinfo else (v - datetime.min) // timedelta(microseconds=1)
    return v.toordinal() if isinstance(v, date) else v


# -- arithmetic and aggregates


def computed(op: str, a: object, b: object) -> object:
    try:
        result = (
            moment(op, a, b) if isinstance(a, date) or isinstance(b, date) else number(op, a, b)
        )
    except ArithmeticError as error:
        raise RangeError(f"{a} {op} {b}: {error}") from None
    return result if op in "+-" and not isinstance(result, float) else in_range(result)


def number(op: str, a: object, b: object) -> object:
    if op == "/" and (isinstance(a, Decimal) or isinstance(b, Decimal)):
        return float(Fraction(a) / Fraction(b))
    if op == "/" and isinstance(a, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if op == "/":
        return a / b
    return {"+": operator.add, "-": operator.sub, "*": operator.mul}[op](a, b)


def moment(op: str, a: object, b: object) -> object:
    """Dates count days, timestamps microseconds."""
    unit = (
        timedelta(microseconds=1)
        if isinstance(a, datetime) or isinstance(b, datetime)
        else timedelta(days=1)
    )
    if op == "-" and isinstance(b, date):
        return (a - b) // unit
    day, n = (a, b) if isinstance(a, date) else (b, a)
    return day + n * unit if op == "+" else day - n * unit


def in_range(v: object) -> object:
    if isinstance(v, Decimal):
        if abs(v.scaleb(-v.as_tuple().exponent)) >= 10**18:
            raise RangeError(f"{v} has more than 18 digits")
    elif isinstance(v, float) and math.isnan(v):
        raise RangeError("not a number")
    elif isinstance(v, int) and not -(2**63) <= v < 2**63:
        raise RangeError(f"{v} does not fit 64 bits")
    return v


def aggregated(rule: Rule, state: State, passing: bool = False) -> Iterator[tuple[str, tuple]]:
    """A row (key..., result) for each group and aggregate, or some rows (key..., place, result),
    with its predicate.
    """
    found = [
        binding for disjunct in rule.body for binding in bindings(disjunct, {}, state, passing)
    ]
    for head, aggregate in zip(rule.heads, rule.aggregates, strict=True):
        groups: dict[tuple, list[tuple]] = defaultdict(list)
        for binding in found:
            args = head.args if aggregate.place is None else head.args[:-1]
            groups[tuple(binding[v.name] for v in args)].append(
                tuple(binding[v.name] for v in aggregate.arguments)
            )
        if aggregate.absent is not None:
            groups[()]  # even if there is nothing to aggregate
        for group, members in groups.items():
            yield from ((head.predicate, (*group, *row)) for row in results(aggregate, members))


def results(aggregate: Aggregate, members: list[tuple]) -> list[tuple]:
    """What an aggregate makes of the arguments of all assignments: one result, none, or numbered
    ones.
    """
    op, constants = aggregate.op, [const.value for const in aggregate.constants]
    if aggregate.absent is not None and not members:
        return [(aggregate.absent.value,)]
    if op == "count":
        return [(len(members),)]
    taken = [member[0] for member in members]
    in_order = [member[-1] for member in sorted(((*m[1:], m[0]) for m in members), key=nulls_first)]
    try:
        if op in ("top", "bottom"):
            return [
                *enumerate((in_order[::-1] if op == "top" else in_order)[: constants[0]], start=1)
            ]
        if op in ("variance", "stddev") and len(members) == 1:
            return []
        if op == "quantile":
            share = Fraction(str(constants[0]))
            return [(in_order[max(0, math.ceil(share * len(members)) - 1)],)]
        if op == "quantile_cont":
            return [(interpolated(sorted(taken), float(constants[0])),)]
        if op == "count_distinct":
            return [(len(set(members)),)]
        if op == "concat":
            return [("".join(in_order) if not constants else constants[0].join(in_order),)]
        if op not in AGGREGATE:
            return [(reduce(registered(operator_code(op)).call, in_order),)]
        if op in CHOOSING:  # a value that exists fits its type
            return [(AGGREGATE[op](in_order if op in ENDS else taken),)]
        if op in WITH_INFINITIES and not all(map(math.isfinite, taken)):
            return [(with_infinities(op, sorted(taken)),)]
        return [(in_range(AGGREGATE[op](taken)),)]
    except OverflowError as error:
        raise RangeError(str(error)) from None


def interpolated(values: list, share: float) -> float | Decimal:
    """The value at a share of the way through sorted values, between two of them; a decimal is
    cut.
    """
    place = share * (len(values) - 1)
    low, high = values[math.floor(place)], values[math.ceil(place)]
    if isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high)):
        return with_infinities("median", [low, high] if place % 1 else [low, low])
    found = Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(place - math.floor(place))
    if not isinstance(low, Decimal):
        return float(found)
    unit = 10 ** -low.as_tuple().exponent
    return Decimal(int(float(found * unit))).scaleb(low.as_tuple().exponent)


def with_infinities(op: str, values: list[float]) -> float:
    """What an aggregate makes of sorted floats, some infinite, as IEEE 754 has it; a NaN is an
    error.
    """
    middle = values[(len(values) - 1) // 2], values[len(values) // 2]
    found = (
        sum(middle) / 2 if op == "median" else sum(values) if op in ("total", "avg") else math.nan
    )
    if math.isnan(found):
        raise RangeError(f"{op} of infinities is not a number")
    return found


def exact(values: list) -> list[Fraction]:
    return [Fraction(value) for value in values]


ENDS = ("argmin", "argmax", "first", "last")
WITH_INFINITIES = ("total", "avg", "variance", "var_pop", "stddev", "stddev_pop", "median")
CHOOSING = (*ENDS, "min", "max")
AGGREGATE = {
    "sum": sum,
    "min": min,
    "max": max,
    "total": math.fsum,
    "avg": lambda values: float(statistics.mean(exact(values))),
    "variance": lambda values: float(statistics.variance(exact(values))),
    "var_pop": lambda values: float(statistics.pvariance(exact(values))),
    "stddev": lambda values: float(statistics.stdev(exact(values))),
    "stddev_pop": lambda values: float(statistics.pstdev(exact(values))),
    "median": lambda values: float(statistics.median(exact(values))),
    "argmin": lambda values: values[0],
    "first": lambda values: values[0],
    "argmax": lambda values: values[-1],
    "last": lambda values: values[-1],
}
