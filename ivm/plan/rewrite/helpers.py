"""Turn negated conjunctions into helper views, so that the join only negates single atoms.

    p(x) <- a(x), !(edge(x, y), b(y)).

    p$not0(x) <- edge(x, y), b(y).          p(x) <- a(x), !p$not0(x).

The helper is maintained like any view. It has a support count for the variables that it projects
away, so the join need not search for another witness of a refuted binding.  A function that is
negated by its key, as in !name[x] = _, needs none: a key has one row, which the join looks up.

Turn look-ups by a computed key into joins with a helper view, so that the join can seek by the key.

    p(x, n) <- a(x), name[x / 10] = n.

    p$key0(x, d) <- a(x), d = x / 10.          p(x, n) <- p$key0(x, d), name[d] = n.

Without the helper, each row of a would be compared with each row of name.  Only equations between
atoms that nothing else connects are rewritten; others just filter bindings that are joined anyway.
All literals connected to the term's variables move to the helper, so its rows are filtered as
before.  A sum out of range for its type is not a failure here, since no stored value equals it.

Keep the rows of facts in a helper view, which is filled and never maintained.

    p("tea", 3). p("cake", 4).

    p$facts0(x, y) <- x = "tea", y = 3 ; x = "cake", y = 4.          p(x, y) <- p$facts0(x, y).

Give a body without a positive atom, which holds once or not at all, a helper view of one row.

    p(x) <- x = 3, !q(x).

    p$one(0).          p(x) <- p$one(0), x = 3, !q(x).

Turn an existential part of a body, which must hold for some values only, into a helper view of one
row.

    p(x) <- a(x), b(y, z), y < z.

    p$some0(0) <- b(y, z), y < z.          p(x) <- a(x), p$some0(0).

Without the helper, each x would be derived once per row of b with y < z, and a change of b would
scan all of a.  A rule whose aggregates depend on how often a binding is there is not rewritten:
all do but the least and the greatest value.

Read the text of a concat from a helper view, since the concat's own row has only a checksum of it.

    p(x) <- names[x] = t, known(t).

    p$text0[x] = t <- names[x] = t$.           the text of each group, renewed when the group changes
    p(x) <- p$text0[x] = t, known(t).

Handle arithmetic that fails in a helper view: raise only if a binding of the rule itself needs the
value.

    p(x) <- a(x), x != 0, !(b(y), c(y / x)).

    p$not0(x) <- b(y), c(d), d = y / x, a(x).          if this fails for x, p$not0$fails gets (x, code)
    p(x) <- a(x), x != 0, !p$not0(x).
    p$refused0(code) <- a(x), x != 0, !p$not0(x), p$not0$fails(x, code).          refused

A literal is true, false, or fails. A conjunction is false if one of its literals is false;
otherwise it fails if one of them fails. So the result depends neither on which literals are helper
views nor on their order.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from itertools import count

from ivm.errors import ConstructError
from ivm.lang.ir import (
    ROPE,
    Atom,
    Binary,
    Call,
    Compare,
    Const,
    Disjunct,
    Literal,
    Negation,
    Predicate,
    Rule,
    Term,
    Var,
    as_read,
    atoms,
    is_table,
    literals_of,
    tied,
    variables,
)
from ivm.lang.program import Program, recursive_names
from ivm.lang.types import ends
from ivm.plan.linear import linear
from ivm.terms.evaluator import binaries, may_fail, type_of
from pagestore.host import KEYS_MAX

# helpers with a concat's texts, by its name and constant keys
Groups = dict[tuple[str, tuple[Const | None, ...]], str]
EXTREMES = ("min", "max")  # a value counts as much once as often
NO_COLUMN, ONLY, ZERO = Var("nothing$"), Var("only$"), Const(0, "int64")


def lift_texts(program: Program, known: Program) -> Program:
    """Put helper views of the concats whose texts are read before the rules, which read these."""
    all_, read = program.over(known), {name for rule in program.rules for name in rule.reads}
    if not any(all_[name].value == ROPE for name in read):
        return program
    predicates, rules, helpers = dict(program.predicates), list[Rule](), Groups()
    for rule in program.rules:
        rules += _with_text_helpers(rule, predicates, all_, helpers)
    return replace(program, predicates=predicates, rules=tuple(rules))


def _with_text_helpers(
    rule: Rule, predicates: dict[str, Predicate], known: Mapping[str, Predicate], helpers: Groups
) -> Iterator[Rule]:
    def replaced(literal: Literal) -> Literal:
        if isinstance(literal, Negation):
            return replace(literal, body=tuple(map(replaced, literal.body)))
        if not isinstance(literal, Atom) or not _reads_text(literal, rule, known):
            return literal
        return replace(literal, predicate=helpers[_group(literal)])

    for atom in (atom for disjunct in rule.body for atom in atoms(disjunct)):
        if _reads_text(atom, rule, known) and _group(atom) not in helpers:
            helpers[_group(atom)] = name = f"{rule.heads[0].predicate}$text{len(helpers)}"
            helper = _texts_of(atom, known[atom.predicate], name, rule)
            _define(helper.heads[0], helper, predicates)
            yield helper
    yield replace(rule, body=tuple(tuple(map(replaced, disjunct)) for disjunct in rule.body))


def _reads_text(atom: Atom, rule: Rule, known: Mapping[str, Predicate]) -> bool:
    value = atom.value
    return known[atom.predicate].value == ROPE and not (
        isinstance(value, Var) and rule.types[value.name] == ROPE
    )


def _group(atom: Atom) -> tuple[str, tuple[Const | None, ...]]:
    """Return which of a concat's groups an atom reads: its name, and keys that are constants."""
    return atom.predicate, tuple(arg if isinstance(arg, Const) else None for arg in atom.args)


def _texts_of(atom: Atom, concat: Predicate, name: str, rule: Rule) -> Rule:
    """Return the rule of a helper view with the texts of the groups that an atom reads."""
    *keys, text = map(Var, concat.columns)
    word = Var(f"{text.name}$")
    types = {
        **dict(zip(concat.columns, concat.types, strict=True)),
        text.name: as_read(ROPE),
        word.name: ROPE,
    }
    read = tuple(
        arg if isinstance(arg, Const) else key for arg, key in zip(atom.args, keys, strict=True)
    )
    body = (replace(atom, args=read, value=word),)
    head = Atom(name, (*keys,), text, where=atom.where)
    text_ = f"{rule.text}  (the texts that it reads)"
    return Rule((head,), (body,), types=types, text=text_, where=rule.where, texts=True)


def lift_constants(program: Program) -> Program:
    """Put helper views of one row before the rules that have a conjunction without a positive
    atom, which read them.
    """
    predicates, rules = dict(program.predicates), list[Rule]()
    for rule in program.rules:
        if is_table(rule):
            rules += _table(rule, predicates)
            continue
        bare = [not any(isinstance(x, Atom) for x in disjunct) for disjunct in rule.body]
        if not any(bare):
            rules.append(rule)
            continue
        name = f"{rule.heads[0].predicate}$one"
        if name not in predicates:
            head, text = Atom(name, (ONLY,), where=rule.where), f"{rule.text}  (its one row)"
            holds = ((Compare("=", ONLY, ZERO),),)
            rules.append(
                Rule((head,), holds, types={ONLY.name: "int64"}, text=text, where=rule.where)
            )
            _define(head, rules[-1], predicates)
        atom = Atom(name, (ZERO,), where=rule.where)
        body = tuple(
            (atom, *disjunct) if lone else disjunct
            for lone, disjunct in zip(bare, rule.body, strict=True)
        )
        rules.append(replace(rule, body=body))
    return replace(program, predicates=predicates, rules=tuple(rules))


def _table(rule: Rule, predicates: dict[str, Predicate]) -> Iterator[Rule]:
    """Yield the rule of a helper view with the rows of facts, and the rule that reads it."""
    (head,) = rule.heads
    name = next(name for n in count() if (name := f"{head.predicate}$facts{n}") not in predicates)
    table = replace(rule, heads=(replace(head, predicate=name),))
    _define(table.heads[0], table, predicates)
    yield table
    yield replace(rule, body=(table.heads,))


def lift_negations(program: Program, functions: Mapping[str, Predicate] = {}) -> Program:
    """Put helper views of negations before the rules, which then negate single atoms: of relations,
    or of some `functions` by their keys.

    A helper of a recursive rule reads none of the recursive views: it must be complete before they
    are evaluated. Raises ConstructError if it would have to.
    """
    recursive, predicates = recursive_names(program.rules), dict(program.predicates)
    rules = list[Rule]()
    for rule in program.rules:
        reads = recursive if any(head.predicate in recursive for head in rule.heads) else ()
        rules += _Lift(predicates, reads, functions).rules(rule)
    negations = (x for rule in rules for x in literals_of(rule.body) if isinstance(x, Negation))
    sought = any(negation.exists for negation in negations)
    return replace(program, predicates=predicates, rules=tuple(rules), sought=sought)


class _Lift:
    """Collects the helpers of one rule."""

    def __init__(
        self,
        predicates: dict[str, Predicate],
        recursive: Container[str],
        functions: Mapping[str, Predicate],
    ) -> None:
        self._predicates, self._recursive, self._functions = predicates, recursive, functions
        self._helpers: list[Rule] = []

    def rules(self, rule: Rule) -> Iterator[Rule]:
        body = tuple(
            tuple(self._literal(rule, disjunct, literal) for literal in disjunct)
            for disjunct in rule.body
        )
        for helper in self._helpers:
            yield from _Lift(self._predicates, (), self._functions).rules(helper)
        yield replace(rule, body=body)

    def _literal(self, rule: Rule, disjunct: Disjunct, literal: Literal) -> Literal:
        if not isinstance(literal, Negation):
            return literal
        held = {v for atom in disjunct if isinstance(atom, Atom) for v in variables(atom)}
        if _simple(literal, held) or self._is_sought(literal, held):
            return literal
        free, equations = _sources(literal, held, disjunct)
        name = f"{rule.heads[0].predicate}$not{len(self._helpers)}"
        while name in self._predicates:
            name += "_"
        around = tuple(
            x for x in disjunct if not (isinstance(x, Atom) and x.predicate in self._recursive)
        )
        body = _bound(literal, free, equations, around, rule.types)
        known = {v for x in body if isinstance(x, Atom) for v in variables(x)}
        if around != disjunct and not known.issuperset(free):
            needed = ", ".join(v.name for v in free if v not in known)
            raise ConstructError(
                literal.where,
                f"the negation needs {needed} from a view that reads itself; derive what is "
                "negated as a view of its own, with those variables bound",
            )
        head, probe = Atom(name, free, where=literal.where), Atom(name, free, where=literal.where)
        types = {**rule.types, NO_COLUMN.name: "int64"}
        if not free:  # the helper holds one row, or none
            head, probe = replace(head, args=(NO_COLUMN,)), replace(probe, args=(ZERO,))
            body += (Compare("=", NO_COLUMN, ZERO),)
        columns = tuple(v.name for v in variables(head))
        self._predicates[name] = Predicate(
            name, tuple(types[c] for c in columns), None, False, columns, where=literal.where
        )
        helper = _rule(head, body, types, rule)
        self._helpers.append(
            failing(helper, free, self._predicates) if may_fail(body, set(), types) else helper
        )
        return Negation((probe,), where=literal.where)

    def _is_sought(self, negation: Negation, held: set[Var]) -> bool:
        """Return whether it is one atom of a function that has a row for a key, whatever its
        values, and the key is held.
        """
        atom, *others = negation.body
        function = self._functions.get(atom.predicate) if isinstance(atom, Atom) else None
        if others or function is None or not isinstance(atom, Atom):
            return False
        keys = function.key_count if atom.value is None else len(atom.args)
        values = atom.terms[keys:] if keys else ()
        return (
            0 < len(values) == len({*values})
            and {*values} == {*negation.exists}
            and held.issuperset(variables(*atom.terms[:keys]))
        )


def _simple(negation: Negation, held: set[Var]) -> bool:
    """Return whether it is one atom without local or computed variables or a value, which the
    join can look up.
    """
    if len(negation.body) != 1 or negation.exists:
        return False
    atom = negation.body[0]
    return (
        isinstance(atom, Atom)
        and not isinstance(atom.value, Var)
        and held.issuperset(variables(atom))
    )


def _sources(
    negation: Negation, held: set[Var], around: Disjunct
) -> tuple[tuple[Var, ...], Disjunct]:
    """Return the outer atoms' variables that determine those of a negation, and the equations
    that compute these.
    """
    sources, equations = list(variables(negation)), dict[Literal, None]()
    for v in sources:  # grows
        if v not in held:
            its = [
                c
                for c in around
                if isinstance(c, Compare) and c.op == "=" and v in (c.left, c.right)
            ]
            equations |= dict.fromkeys(its)
            sources += [w for c in its for w in variables(c) if w not in sources]
    return tuple(dict.fromkeys(v for v in sources if v in held)), tuple(equations)


def _bound(
    negation: Negation,
    free: tuple[Var, ...],
    equations: Disjunct,
    around: Disjunct,
    types: Mapping[str, str],
) -> Disjunct:
    """Return the body of a helper: the negated literals, and the atoms and equations around them if
    needed.

    They are needed if the negation does not bind the helper's columns itself or reads computed
    variables.  Other comparisons around it are then included if they cannot fail, since they make
    the helper smaller.
    """
    here = {v for atom in negation.body if isinstance(atom, Atom) for v in variables(atom)}
    if here.issuperset(free) and set(free).issuperset(variables(negation)):
        return negation.body
    held = {v for x in around if isinstance(x, Atom) for v in variables(x)}
    known = held.union(variables(*equations))
    filters = (
        x
        for x in around
        if isinstance(x, Compare)
        and known.issuperset(variables(x))
        and not may_fail((x,), known, types)
    )
    atoms = tuple(x for x in around if isinstance(x, Atom))
    return (*atoms, *dict.fromkeys((*equations, *filters)), *negation.body)


def _rule(head: Atom, body: Disjunct, types: Mapping[str, str], rule: Rule) -> Rule:
    return Rule(
        (head,), (body,), types=types, text=f"{rule.text}  (its negation)", where=head.where
    )


def lift_computed(program: Program, keyed: Mapping[str, Predicate], sure: bool = True) -> Program:
    """Put helper views of computed keys before the rules, which then read them.

    For an aggregate, which counts bindings, they have the keys of the predicates `keyed`, and all
    columns of others. With `sure` those of keys that cannot fail have no view of failures.
    """
    predicates, rules, lean = dict(program.predicates), list[Rule](), program.lean
    used = program.sure
    for rule in program.rules:
        made = [*_with_computing_helpers(rule, predicates, keyed, sure)]
        lean |= bool(keyed and rule.aggregates and len(made) > 1)
        used |= any(
            _divides_surely(x, helper.types)
            for helper in made[:-1]
            if not helper.failed
            for x in helper.body[0]
        )
        rules += made
    return replace(program, predicates=predicates, rules=tuple(rules), lean=lean, sure=used)


def _with_computing_helpers(
    rule: Rule, predicates: dict[str, Predicate], keyed: Mapping[str, Predicate], sure: bool
) -> Iterator[Rule]:
    body = []
    for disjunct in rule.body:
        split = _computing_helper(rule, disjunct, predicates, keyed, sure)
        while split:
            helper, disjunct = split
            yield helper
            split = _computing_helper(rule, disjunct, predicates, keyed, sure)
        body.append(disjunct)
    yield replace(rule, body=tuple(body))


def _computing_helper(
    rule: Rule,
    disjunct: Disjunct,
    predicates: dict[str, Predicate],
    keyed: Mapping[str, Predicate],
    sure: bool,
) -> tuple[Rule, Disjunct] | None:
    """Return a helper view for some equations, and the disjunct that reads it instead; None if
    none is needed.
    """
    held = {v for x in disjunct if isinstance(x, Atom) for v in variables(x)}
    sought = _sought(rule, disjunct, held)
    if not sought:
        return None
    for group in _tied([x for x in disjunct if x not in sought], held):
        moved = {x: v for x, v in sought.items() if _reads(x.right, group) and v not in group}
        inner = tuple(x for x in disjunct if _reads(x, group))
        outer = tuple(x for x in disjunct if x not in inner and x not in moved)
        used = {*variables(*rule.heads, *rule.aggregates, *outer)}
        if rule.aggregates:
            used.update(
                variables(
                    *(term for x in inner if isinstance(x, Atom) for term in _identifying(x, keyed))
                )
            )
        columns = tuple(
            dict.fromkeys([*(v for v in variables(*inner) if v in used), *moved.values()])
        )
        body = (*inner, *moved, *(guard for x in moved for guard in _within(x.right, rule)))
        risky = tuple(x for x in (*inner, *moved) if not (sure and _divides_surely(x, rule.types)))
        fails = may_fail(risky, {*moved.values()}, rule.types)
        told = tuple(
            v
            for v in variables(*columns, *(x for x in body if isinstance(x, Compare)))
            if v in held & group
        )
        if not moved or len(columns) > KEYS_MAX or (fails and len(told) == KEYS_MAX):
            continue
        name = f"{rule.heads[0].predicate}$key{sum('$key' in known for known in predicates)}"
        atom = Atom(name, columns, where=next(iter(moved)).where)
        types, names = tuple(rule.types[v.name] for v in columns), tuple(v.name for v in columns)
        predicates[name] = Predicate(name, types, None, False, names, where=atom.where)
        text = f"{rule.text}  (what it computes)"
        helper = Rule((atom,), (body,), types=rule.types, text=text, where=rule.where)
        return failing(helper, told, predicates) if fails else helper, (atom, *outer)
    return None


def _divides_surely(literal: Literal, types: Mapping[str, str]) -> bool:
    """Return whether a literal divides a whole number by a constant, which cannot fail."""
    match literal:
        case Compare("=", Var(), Binary("/", Var() as number, Const(int() as by))):
            return types[number.name] == "int64" and by not in (0, -1)
    return False


def _identifying(atom: Atom, keyed: Mapping[str, Predicate]) -> tuple[Var | Const, ...]:
    """Return the terms of an atom that tell its rows apart."""
    return atom.args[: keyed[atom.predicate].key_count] if atom.predicate in keyed else atom.terms


def _within(term: Term, rule: Rule) -> tuple[Compare, ...]:
    """Return comparisons that keep a sum within its type; none for other operations, which fail
    out of range.
    """
    type_ = type_of(term, rule.types)
    if not isinstance(term, Binary) or term.op not in "+-" or type_ == "float64":
        return ()
    least, greatest = (Const(value, type_) for value in ends(type_))
    return Compare(">=", term, least), Compare("<=", term, greatest)


def _reads(node: Term | Literal, group: set[Var]) -> bool:
    """Return whether a term or literal has variables, all of them in a group."""
    return bool(variables(node)) and group.issuperset(variables(node))


def _sought(rule: Rule, disjunct: Disjunct, held: set[Var]) -> dict[Compare, Var]:
    """Map equations `variable = term` to variables, if atoms hold these and the join cannot seek
    by the equations.
    """
    return {
        x: x.left
        for x in disjunct
        if isinstance(x, Compare) and x.op == "=" and isinstance(x.right, Binary | Call)
        if isinstance(x.left, Var) and x.left in held
        if not (_is_shift(x, rule) and held.issuperset(variables(x)))
    }


def _is_shift(equation: Compare, rule: Rule) -> bool:
    """Return whether an equation of two variables lets the join seek each by the other."""
    form = linear(equation, rule.types, lambda const: 0)
    return form is not None and form.seekable and len(form.times) <= 2


def _tied(literals: list[Literal], held: set[Var]) -> list[set[Var]]:
    """Return groups of variables connected by atoms and equations, each with the variables
    computed from it.
    """
    equations = [x for x in literals if isinstance(x, Compare) and x.op == "="]
    joins = [x for x in equations if isinstance(x.left, Var) and held.issuperset(variables(x))]
    groups = tied([*(x for x in literals if isinstance(x, Atom)), *joins])
    for x in equations * len(equations):
        for group in groups:
            defined = set(variables(x)) - group
            if len(defined) == 1 and defined <= {x.left, x.right} - held:
                group |= defined
    return groups


def lift_existentials(program: Program, extremes: bool = True) -> Program:
    """Put helper views of existential parts before the rules, which then read them; also before
    those of `extremes`, least and greatest values.
    """
    predicates, rules, factored = dict(program.predicates), list[Rule](), program.factored
    for rule in program.rules:
        if rule.range or not all(extremes and one.op in EXTREMES for one in rule.aggregates):
            rules.append(rule)
            continue
        for part in _split(rule):
            made = [*_lifted(part, predicates)]
            factored |= bool(rule.aggregates and len(made) > 1)
            rules += made
    return replace(program, predicates=predicates, rules=tuple(rules), factored=factored)


def _split(rule: Rule) -> tuple[Rule, ...]:
    """Split a rule by heads if one head alone leaves more parts existential than all together."""
    if len(rule.heads) == 1 or rule.aggregates:
        return (rule,)
    rules = tuple(replace(rule, heads=(head,)) for head in rule.heads)
    less = any(
        len(_untied_parts(part, disjunct)) > len(_untied_parts(rule, disjunct))
        for part in rules
        for disjunct in rule.body
    )
    return rules if less else (rule,)


def _lifted(rule: Rule, predicates: dict[str, Predicate]) -> Iterator[Rule]:
    body = []
    for disjunct in rule.body:
        for group in _untied_parts(rule, disjunct):
            helper, holds = existential(group, rule, predicates)
            yield failing(helper, (), predicates) if may_fail(group, set(), rule.types) else helper
            disjunct = (*(x for x in disjunct if x not in group), holds)
        body.append(disjunct)
    yield replace(rule, body=tuple(body))


def existential(group: Disjunct, rule: Rule, predicates: dict[str, Predicate]) -> tuple[Rule, Atom]:
    """Return a rule of a helper view, whose predicate is added, and the atom of it that holds
    where a part of a rule does.
    """
    name = f"{rule.heads[0].predicate}$some{sum('$some' in known for known in predicates)}"
    predicates[name] = Predicate(name, ("int64",), None, False, (ONLY.name,), where=rule.where)
    text, types = f"{rule.text}  (what has to be there)", {**rule.types, ONLY.name: "int64"}
    body, where = (*group, Compare("=", ONLY, ZERO)), rule.where
    helper = Rule((Atom(name, (ONLY,), where=where),), (body,), types=types, text=text, where=where)
    return helper, Atom(name, (ZERO,), where=where)


def _untied_parts(rule: Rule, disjunct: Disjunct) -> list[Disjunct]:
    """Return the parts that share no variable with the heads or other parts; none if there is
    only one part.
    """
    if sum(isinstance(x, Atom) for x in disjunct) < 2:
        return []
    groups = [
        (names, tuple(x for x in disjunct if not names.isdisjoint(variables(x))))
        for names in tied(disjunct)
    ]
    heads = set(variables(*rule.heads, *rule.aggregates))
    several = sum(any(isinstance(x, Atom) for x in g) for _, g in groups) > 1
    return [
        literals
        for names, literals in groups
        if several and names.isdisjoint(heads) and _is_many(literals)
    ]


def _is_many(literals: Disjunct) -> bool:
    """Return whether some atom can hold for several bindings: not a function without keys."""
    return any(
        isinstance(x, Atom) and any(isinstance(term, Var) for term in x.args) for x in literals
    )


CODE = Var("code$")  # which operator failed and why, see terms/evaluator.py


def failing(helper: Rule, columns: tuple[Var, ...], predicates: dict[str, Predicate]) -> Rule:
    """Give a helper a view of its failing bindings, with these columns and a code; add the view
    to `predicates`.
    """
    atom = Atom(f"{helper.heads[0].predicate}$fails", (*columns, CODE), where=helper.where)
    helper = replace(helper, failed=atom, types={**helper.types, CODE.name: "int64"})
    _define(atom, helper, predicates)
    return helper


def refuse_failures(program: Program) -> Program:
    """Add rules that refuse bindings for which a helper fails, or make its reader fail."""
    helpers = {rule.heads[0].predicate: rule for rule in program.rules if rule.failed}
    terms = {
        (x.where.line, x.where.column): x
        for rule in program.rules
        for b in rule.body
        for x in binaries(*b)
    }
    predicates, rules = dict(program.predicates), list[Rule]()
    for rule in program.rules:
        rules += _sure(rule, helpers, predicates)
        body = tuple(failing for disjunct in rule.body for failing in _failures(disjunct, helpers))
        if not body:
            continue
        made = replace(
            rule, heads=(), body=body, aggregates=(), types={**rule.types, CODE.name: "int64"}
        )
        if rule.failed is None:
            count = sum("$refused" in name for name in predicates)
            head = Atom(f"{rule.heads[0].predicate}$refused{count}", (CODE,), where=rule.where)
            _define(head, made, predicates)
            made = replace(made, heads=(head,), refuses=terms, text=f"{rule.text}  (what fails)")
        else:
            made = replace(made, heads=(rule.failed,))
        rules.append(made)
    return replace(program, predicates=predicates, rules=tuple(rules))


def _failures(disjunct: Disjunct, helpers: Mapping[str, Rule]) -> Iterator[Disjunct]:
    """Yield, for each helper in a conjunction, the conjunction in which that helper fails."""
    for literal in disjunct:
        atom = literal.body[0] if isinstance(literal, Negation) else literal
        helper = helpers.get(atom.predicate) if isinstance(atom, Atom) else None
        if helper is None or helper.failed is None:
            continue
        if isinstance(literal, Negation):
            yield (*disjunct, helper.failed)
            continue
        rest = tuple(x for x in disjunct if x is not literal)
        again: Disjunct = ()  # comparisons that compute the columns that the view of failures lacks
        if not set(variables(helper.failed)).issuperset(variables(atom)):
            again = tuple(x for x in helper.body[0] if isinstance(x, Compare))
        yield (*rest, helper.failed, *again)


def _sure(
    rule: Rule, helpers: Mapping[str, Rule], predicates: dict[str, Predicate]
) -> Iterator[Rule]:
    """Restrict a rule to bindings for which the helpers that it negates neither hold nor fail.

    Yields views of their failures, then the rule. Only a helper is changed: another rule is refused
    if a helper that it negates fails.
    """
    body = []
    for disjunct in rule.body:
        sure = list(disjunct)
        for literal in disjunct if rule.failed else ():
            atom = literal.body[0] if isinstance(literal, Negation) else None
            if not isinstance(atom, Atom) or atom.predicate not in helpers:
                continue
            name = f"{atom.predicate}$failing"
            if name not in predicates:
                helper = helpers[atom.predicate]
                assert helper.failed
                head, zero = replace(helper.heads[0], predicate=name), tuple(_zeros(helper))
                made = replace(helper, heads=(head,), body=((helper.failed, *zero),), failed=None)
                _define(head, made, predicates)
                yield made
            sure.append(Negation((replace(atom, predicate=name),), where=literal.where))
        body.append(tuple(sure))
    yield replace(rule, body=tuple(body))


def _zeros(helper: Rule) -> Iterator[Compare]:
    """Yield equations x = 0 for the columns of a helper that its view of failures lacks."""
    assert helper.failed
    for v in variables(*helper.heads):
        if v not in variables(helper.failed):
            yield Compare("=", v, Const(0, "int64"))


def _define(head: Atom, rule: Rule, predicates: dict[str, Predicate]) -> None:
    names = tuple(v.name for v in variables(head))
    types = tuple(rule.types[name] for name in names)
    keys, value = (types, None) if head.value is None else (types[:-1], types[-1])
    predicates[head.predicate] = Predicate(
        head.predicate, keys, value, False, names, where=head.where
    )
