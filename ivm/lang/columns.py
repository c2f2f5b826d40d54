"""Read one column of a function of several values as a function, by LogiQL's hierarchical names.

    customer[c] = (n, e, a) -> int(c), string(n), string?(e), int(a).

    p(c, e) <- customer:email[c] = e.                           means    p(c, e) <- customer(c, _, e, _).
    p(n, e) <- customer:name[c] = n, customer:email[c] = e.     means    p(n, e) <- customer(c, n, e, _).

The column of a function of one value is the function: price:p[i] = x is price[i] = x. A predicate
whose own name has this form takes precedence.

Rewrite reads of the next and previous key of a relation or view, by LogiQL's hierarchical names.

    gap(x, y) <- a(x), a:next[x] = y, y - x > 1.

    gap$next0[x] = y <- agg<<y = min(y2)>> a(x), a(y2), y2 > x.          gap(x, y) <- a(x), gap$next0[x] = y, y - x > 1.

`visit:next[u, t]` is the first t of visit(u, ...) after t.  The helper has a row for each value
that the rest of the rule binds, and is evaluated by seeks (plan/rewrite/ranges.py).  A predicate or
column of that name takes precedence.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from re import findall, fullmatch
from typing import NamedTuple

from ivm.errors import ArityError, ConstructError, RecursionRefusedError, RuleTypeError, SafetyError
from ivm.lang import ir
from ivm.lang.aggregate import in_key_order
from ivm.lang.program import Program, strata_of
from ivm.names import named_part, split_column


def read_columns(program: Program, known: Program, merging: bool) -> Program:
    """Replace reads of single columns by reads of whole functions, and order aggregates by the keys
    of what they read.

    Without `merging`, each column of a row is read by an atom of its own. Raises ArityError,
    ConstructError.
    """
    predicates = program.over(known)
    apart = [with_columns(rule, predicates) for rule in program.rules]
    rules = [with_one_atom_a_row(rule, predicates) for rule in apart] if merging else apart
    return replace(
        program,
        rules=tuple(in_key_order(rule, predicates) for rule in rules),
        merged=rules != apart,
    )


def with_columns(rule: ir.Rule, known: Mapping[str, ir.Predicate]) -> ir.Rule:
    """Replace reads of single columns by reads of functions.  Raises ArityError, ConstructError."""
    if not any(":" in name and name not in known for name in rule.reads):
        return rule
    taken = {v.name for disjunct in rule.body for v in ir.variables(*disjunct)} | {
        v.name for v in ir.variables(*rule.heads)
    }
    columns = _Columns(
        known, (f"_{n}" for n in count(1000) if f"_{n}" not in taken), ir.unnamed_in(rule)
    )
    body = tuple(
        tuple(columns.read(literal)[0] for literal in columns.checked(disjunct))
        for disjunct in rule.body
    )
    return rule if body == rule.body else replace(rule, body=body)


Conjunction = tuple[ir.Literal, ...]


class _Columns(NamedTuple):
    """The context in which columns are read: predicates, names for new variables, and variables
    written `_`.
    """

    known: Mapping[str, ir.Predicate]
    fresh: Iterator[str]
    unnamed: set[str]

    def place(self, literal: ir.Literal) -> tuple[str, str]:
        """Return the function and column that a literal may read, else two empty texts."""
        if (
            not isinstance(literal, ir.Atom)
            or literal.value is None
            or literal.predicate in self.known
        ):
            return "", ""
        name, column = split_column(literal.predicate)
        return name, column

    def checked(self, conjunction: Conjunction) -> Conjunction:
        """Return the conjunction. Raises ConstructError for two columns at a key `_`: their rows
        could differ.
        """
        seen: dict[tuple[str, tuple[object, ...]], str] = {}
        for literal in conjunction:
            name, column = self.place(literal)
            if not isinstance(literal, ir.Atom) or name not in self.known:
                continue
            key = tuple(
                "_" if isinstance(v, ir.Var) and v.name in self.unnamed else v for v in literal.args
            )
            other = seen.setdefault((name, key), column)
            if other != column and "_" in key:
                at = ", ".join(map(str, key))
                raise ConstructError(
                    literal.where,
                    f"{name}:{column}[{at}] may be of another row than {name}:{other}[{at}]: for "
                    f"one row write the "
                    "same variable for `_` in both, for any two rows a variable of its own in each",
                )
        return conjunction

    def read(self, literal: ir.Literal) -> tuple[ir.Literal, tuple[ir.Var, ...]]:
        """Return the literal reading whole functions, and the variables added to it."""
        if isinstance(literal, ir.Negation):
            parts = [*map(self.read, self.checked(literal.body))]
            more = tuple(v for _, added in parts for v in added)
            return replace(
                literal, body=tuple(part for part, _ in parts), exists=(*literal.exists, *more)
            ), ()
        name, column = self.place(literal)
        predicate = self.known.get(name)
        if not isinstance(literal, ir.Atom) or literal.value is None or predicate is None:
            return literal, ()
        if predicate.value is not None and column == predicate.columns[-1]:
            return replace(literal, predicate=name), ()
        if predicate.key_count is None or column not in predicate.columns[predicate.key_count :]:
            return literal, ()
        if len(literal.args) != predicate.key_count:
            reason = f"{literal.predicate} takes {predicate.key_count} arguments, not {len(literal.args)}"
            raise ArityError(literal.where, f"{reason}: {predicate}")
        value = literal.value
        # a `_` here tests whether a value exists
        if isinstance(value, ir.Var) and value.name in self.unnamed:
            value = replace(value, name=f"{next(self.fresh)}v")
        others = predicate.columns[predicate.key_count :]
        values = [
            value if other == column else ir.Var(next(self.fresh), where=literal.where)
            for other in others
        ]
        added = tuple(v for v in values if isinstance(v, ir.Var) and v is not literal.value)
        return ir.Atom(name, (*literal.args, *values), where=literal.where), added


# -- atoms of one row

TESTED = r"_\d+v"  # a variable that tests whether a column has a value


def with_one_atom_a_row(rule: ir.Rule, known: Mapping[str, ir.Predicate]) -> ir.Rule:
    """Merge the atoms that read one function of several values at one key, to avoid a self-join."""
    unnamed = ir.unnamed_in(rule)
    body = tuple(_merged(disjunct, known, unnamed) for disjunct in rule.body)
    return rule if body == rule.body else replace(rule, body=body)


def _merged(
    conjunction: Conjunction, known: Mapping[str, ir.Predicate], unnamed: set[str]
) -> Conjunction:
    places, merged = dict[tuple[object, ...], int](), list[ir.Literal]()
    for literal in conjunction:
        if isinstance(literal, ir.Negation):
            body = _merged(literal.body, known, unnamed)
            unnamed_here = {v for v in ir.variables(*body) if v in literal.exists} | {
                v for v in literal.exists if v in _nested(body)
            }
            literal = replace(
                literal, body=body, exists=tuple(v for v in literal.exists if v in unnamed_here)
            )
        predicate = known.get(literal.predicate) if isinstance(literal, ir.Atom) else None
        if isinstance(literal, ir.Atom) and predicate and predicate.key_count is not None:
            key = literal.predicate, literal.args[: predicate.key_count]
            place = places.setdefault(key, len(merged))
            if place < len(merged) and (joined := _one_atom(merged[place], literal, unnamed)):
                merged[place] = joined
                continue
        merged.append(literal)
    return tuple(merged)


def _nested(conjunction: Conjunction) -> set[ir.Var]:
    return {
        v for part in conjunction if isinstance(part, ir.Negation) for v in ir.variables(*part.body)
    }


def _one_atom(literal: ir.Literal, other: ir.Atom, unnamed: set[str]) -> ir.Atom | None:
    """Merge two atoms that read one row; return None if they have different terms for a column."""
    assert isinstance(literal, ir.Atom)
    terms = [_one_term(a, b, unnamed) for a, b in zip(literal.args, other.args, strict=True)]
    args = tuple(term for term in terms if term is not None)
    return replace(literal, args=args) if len(args) == len(terms) else None


def _one_term(
    a: ir.Var | ir.Const, b: ir.Var | ir.Const, unnamed: set[str]
) -> ir.Var | ir.Const | None:
    for term, instead in ((a, b), (b, a)):
        if isinstance(term, ir.Var) and (term.name in unnamed or fullmatch(TESTED, term.name)):
            asks = (
                isinstance(instead, ir.Var) and instead.name in unnamed and term.name not in unnamed
            )
            if isinstance(instead, ir.Var) and term.name not in unnamed and not term.marked:
                # which asks for a value, so it is not null
                instead = replace(instead, marked=False)
            return term if asks else instead
    return (b if isinstance(a, ir.Var) and a.marked else a) if a == b else None


# the aggregate, and which values it takes
OPERATIONS = {"next": ("min", ">"), "previous": ("max", "<")}
FOUND = "near"  # prefix of the helpers' variables, before a number


def read_neighbours(program: Program, known: Program) -> Program:
    """Replace `a:next[x] = y` and `a:previous[x] = y` by helper views.  Raises RuleError."""
    if not any(
        split_column(name)[1] in OPERATIONS for rule in program.rules for name in rule.reads
    ):
        return program
    forms = {name: _form_of(predicate) for name, predicate in program.over(known).items()}
    for rule in program.rules:
        for head in rule.heads:
            forms.setdefault(
                head.predicate, (len(head.args), head.value is not None, len(head.args))
            )
    taken = {*forms}
    rules = tuple(
        made for rule in program.rules for made in _Neighbours(rule, forms, taken).rules()
    )
    return replace(program, rules=rules)


def is_neighbour(name: str) -> bool:
    """Return whether this is the helper of a `next` or a `previous`."""
    return any(f"${op}" in name for op in OPERATIONS)


def check_neighbours(rules: Iterable[ir.Rule]) -> None:
    """Raise RecursionRefusedError if a helper is recursive."""
    for stratum in strata_of([*rules]):
        for rule in stratum.rules:
            if stratum.recursive and is_neighbour(rule.heads[0].predicate):
                view = named_part(rule.heads[0].predicate)
                raise RecursionRefusedError(
                    rule.where,
                    f"{view} cannot seek from its own rows: derive the neighbours of all values as "
                    "a view of its own, as in after[x] = y <- a(x), a:next[x] = y",
                )


def check_ordered(rule: ir.Rule) -> None:
    """Raise RuleTypeError if neighbours of texts are read: trees order texts by id."""
    for head, aggregate in zip(rule.heads, rule.aggregates, strict=False):
        if is_neighbour(head.predicate) and rule.types[aggregate.result.name] == "string":
            raise RuleTypeError(
                rule.where,
                "neighbours are found among numbers, dates and timestamps, and this key is a "
                "string: write it as min or max of those that compare",
            )


# how many arguments a predicate has, whether it is a function, how many are keys
Form = tuple[int, bool, int]


def _form_of(predicate: ir.Predicate) -> Form:
    keys = len(predicate.keys)
    return (
        keys,
        predicate.value is not None,
        keys if predicate.key_count is None else predicate.key_count,
    )


class _Neighbours:
    """Replaces the reads of neighbours in one rule."""

    def __init__(self, rule: ir.Rule, forms: Mapping[str, Form], taken: set[str]) -> None:
        self._rule, self._forms, self._taken = rule, forms, taken
        self._helpers: list[ir.Rule] = []
        taken_here = {*findall(r"\w+", str(rule))}
        # each replaces a `_`
        self._unnamed = (ir.Var(name) for n in count(1) if (name := f"_{n}") not in taken_here)
        self._fresh = (ir.Var(name) for n in count(1) if (name := f"{FOUND}{n}") not in taken_here)

    def rules(self) -> Iterator[ir.Rule]:
        """Yield the helpers, then the rule that reads them; the rule alone if it has none."""
        body = tuple(self._conjunction(disjunct, ()) for disjunct in self._rule.body)
        yield from self._helpers
        yield replace(self._rule, body=body) if self._helpers else self._rule

    def _conjunction(self, literals: ir.Disjunct, around: ir.Disjunct) -> ir.Disjunct:
        """Return a conjunction with helpers, each made once its arguments are bound."""
        asking = [x for x in literals if isinstance(x, ir.Atom) and self._asks(x)]
        known = [*around, *(x for x in literals if x not in asking and not self._asks_inside(x))]
        made: dict[ir.Literal, ir.Literal] = {}
        while asking:
            unbound = [self._unbound(x, known) for x in asking]
            if None not in unbound:
                first = unbound[0]
                assert first
                name = "`_`" if first.name.startswith("_") else first.name
                raise SafetyError(
                    first.where,
                    f"{name} is not bound: {asking[0].predicate} seeks from values that other "
                    f"atoms bind",
                )
            atom = asking.pop(unbound.index(None))
            made[atom] = self._helper(atom, tuple(known))
            known.append(made[atom])
        return tuple(
            replace(x, body=self._conjunction(x.body, tuple(known)))
            if isinstance(x, ir.Negation)
            else made.get(x, x)
            for x in literals
        )

    def _asks_inside(self, literal: ir.Literal) -> bool:
        return isinstance(literal, ir.Negation) and any(
            self._asks(atom) for atom in ir.atoms((literal,))
        )

    def _asks(self, atom: ir.Atom) -> bool:
        """Return whether an atom reads a neighbour. Raises ArityError for another form."""
        name, op = split_column(atom.predicate)
        if op not in OPERATIONS or atom.predicate in self._forms or name not in self._forms:
            return False
        keys = self._forms[name][2]
        if atom.value is None:
            raise ArityError(
                atom.where, f"{atom.predicate} is a function: write {atom.predicate}[x] = y"
            )
        if not 1 <= len(atom.args) <= keys:
            most = (
                f"1 to {keys} arguments" if keys > 1 else "1 argument" if keys else "no arguments"
            )
            raise ArityError(
                atom.where,
                f"{atom.predicate} takes {most}, which are the leading keys of {name}, not "
                f"{len(atom.args)}",
            )
        return True

    @staticmethod
    def _unbound(atom: ir.Atom, literals: Iterable[ir.Literal]) -> ir.Var | None:
        bound = bound_by(literals)
        return next((v for v in ir.variables(*atom.args) if v not in bound), None)

    def _helper(self, atom: ir.Atom, literals: ir.Disjunct) -> ir.Atom:
        """Return the helper's atom that replaces a read of a neighbour; add the helper's rule."""
        name, op = split_column(atom.predicate)
        function, sign = OPERATIONS[op]
        arguments, is_function, _ = self._forms[name]
        needed = ir.variables(*atom.args)
        body = binding(needed, literals)
        *group, point = atom.args
        # an equation binds it, so that it is a variable
        if needed and (isinstance(point, ir.Const) or point in group):
            fresh = next(self._fresh)
            body, point = (*body, ir.Compare("=", fresh, point, where=atom.where)), fresh
        column, result = next(self._fresh), next(self._fresh)
        others = [next(self._unnamed) for _ in range(arguments - len(atom.args) + is_function)]
        terms = (*group, column, *others)
        if is_function:
            base = ir.Atom(name, terms[:-1], terms[-1], where=atom.where)
        else:
            base = ir.Atom(name, terms, where=atom.where)
        link = ir.Compare(sign, column, point, where=atom.where)
        aggregate = ir.Aggregate(function, result, (column,), where=atom.where)
        head = ir.Atom(self._name(op), needed, result, where=atom.where)
        text = f"{self._rule.text}  (its {atom.predicate})"
        self._helpers.append(
            ir.Rule((head,), ((*body, base, link),), (aggregate,), where=atom.where, text=text)
        )
        return replace(head, value=atom.value)

    def _name(self, op: str) -> str:
        names = (f"{self._rule.heads[0].predicate}${op}{n}" for n in count())
        name = next(name for name in names if name not in self._taken)
        self._taken.add(name)
        return name


def bound_by(literals: Iterable[ir.Literal]) -> set[ir.Var]:
    """Return the variables that atoms bind, and those that equations define from them."""
    bound = {v for x in literals if isinstance(x, ir.Atom) for v in ir.variables(x)}
    sides = [(x.left, x.right) for x in literals if isinstance(x, ir.Compare) and x.op == "="]
    sides += [(right, left) for left, right in sides]
    while more := {
        a
        for a, b in sides
        if isinstance(a, ir.Var) and a not in bound and bound.issuperset(ir.variables(b))
    }:
        bound |= more
    return bound


def binding(needed: tuple[ir.Var, ...], literals: ir.Disjunct) -> ir.Disjunct:
    """Return literals that bind the variables: the smallest atom that has them all, else all
    bound literals.
    """
    if not needed:
        return ()
    holding = [x for x in literals if isinstance(x, ir.Atom) and {*needed} <= {*ir.variables(x)}]
    if holding:
        return (min(holding, key=lambda x: len(ir.variables(x))),)
    bound = bound_by(literals)
    return tuple(x for x in literals if bound.issuperset(ir.variables(x)))
