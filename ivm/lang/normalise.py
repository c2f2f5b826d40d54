"""Turn a tree into rules: disjuncts, with every negation at an atom or a conjunction.

Three steps:

    hoist    nested terms get names
    scope    a variable that occurs only in the body belongs to the smallest conjunction around its uses
    expand   disjunctive normal form; !(A ; B) becomes !A, !B; !!A becomes A; !(x < y) becomes x >= y

A negation has the variables of its own scope in `exists`.  An aggregate counts each binding of the
variables of the head and the outermost conjunction once; if expansion binds other variables too, or
makes several disjuncts, the body moves to an auxiliary view over those variables.

Flatten a tree: every argument becomes a variable or a constant, every body a `Conj`.

    p(x) <- f(g[x] + 1), !h(x, _).      becomes      p(x) <- f(_1), g[x] = _2, _1 = _2 + 1, !h(x, _3).

The new literals join the conjunction of the atom that they come from, so each new variable has the
scope of its term.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from ivm.errors import AggregateError, ConstructError, RuleSyntaxError, SafetyError, Where
from ivm.lang import ir
from ivm.lang.aggregate import in_order_of, split_arguments
from ivm.lang.functions import function_named
from ivm.lang.program import Program
from ivm.lang.rewrite.aggregations import without_aggregations
from ivm.lang.rewrite.closures import with_closures
from ivm.lang.rewrite.constraints import clauses_of, name_of
from ivm.lang.syntax_tree import (
    BAG,
    EQUIVALENCE,
    MARKED,
    Aggregation,
    And,
    Anonymous,
    Application,
    Clause,
    Constraint,
    Formula,
    Node,
    Not,
    Operation,
    Or,
    Statement,
    Subsumption,
    Typed,
    items_of,
    parts_of,
    split,
)
from ivm.lang.types import folded
from ivm.names import BODY


@dataclass(frozen=True, slots=True)
class Conj:
    """dform, dform, ... (the paper's *Figure 1*)."""

    parts: tuple["Part", ...]


@dataclass(frozen=True, slots=True)
class Disj:
    """conj ; conj ; ..."""

    options: tuple[Conj, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """!conj"""

    body: Conj
    where: Where


Part = ir.Atom | ir.Compare | Disj | Refusal


class Hoist:
    """Names the terms in a clause's arguments and the function values inside its terms by
    variables.

    `taken` are the predicates' names, which take precedence over functions of terms.
    """

    def __init__(self, clause: Clause, known: Container[str] = ()):
        self.source, self.known = clause, known
        taken = _names(clause)
        self.fresh = (ir.Var(f"_{n}") for n in count(1) if f"_{n}" not in taken)

    def clause(self) -> tuple[tuple[ir.Atom, ...], tuple[ir.Aggregate, ...], Conj]:
        """Return the heads, the aggregates in their order, and the body.  Raises SafetyError for
        a misplaced `_`.
        """
        body = self.conjunction(self.source.body)
        extra: list[Part] = []
        heads = tuple(self.head(head, extra) for head in self.source.heads)
        aggregates = tuple(
            self.aggregate(aggregate, terms, extra) for aggregate, terms in self.source.aggregates
        )
        return heads, in_order_of(heads, aggregates), Conj((*body.parts, *extra))

    def head(self, head: Application | Operation, extra: list[Part]) -> ir.Atom:
        """Return a head with variables as arguments; add literals that define them to `extra`."""
        call, value = (head.left, head.right) if isinstance(head, Operation) else (head, None)
        assert isinstance(call, Application)
        if call.keys is not None:
            reason = f"a view has one value: derive a view for each of the values of {call.name}"
            raise ConstructError(call.where, reason)
        args = tuple(self.head_variable(arg, extra) for arg in call.args)
        result = None if value is None else self.head_variable(value, extra)
        return ir.Atom(call.name, args, result, where=call.where)

    def head_variable(self, node: Node, extra: list[Part]) -> ir.Var:
        """Return the variable for an argument of a head."""
        if isinstance(node, ir.Var | Anonymous) and node.marked:
            raise RuleSyntaxError(node.where, MARKED)
        if isinstance(node, Anonymous):
            raise SafetyError(
                node.where, "`_` in a head stands for no value: name a variable of the body"
            )
        return self.variable(node, extra)

    def aggregate(
        self, aggregate: ir.Aggregate, terms: tuple[Node, ...], extra: list[Part]
    ) -> ir.Aggregate:
        """Return the aggregate with variables as arguments, and with its constants."""
        for term in terms:
            if isinstance(term, ir.Var | Anonymous) and term.marked:
                raise RuleSyntaxError(term.where, MARKED)
        terms, constants = split_arguments(aggregate, terms)
        arguments = tuple(self.variable(term, extra) for term in terms)
        return replace(aggregate, arguments=arguments, constants=constants)

    # -- formulas

    def conjunction(self, node: Formula) -> Conj:
        """Convert a formula to a conjunction."""
        return Conj(tuple(part for item in items_of(node) for part in self.parts(item)))

    def parts(self, node: Formula) -> list[Part]:
        """Convert a formula to parts of its conjunction, with the literals that its terms need."""
        match node:
            case Or():
                return [Disj(tuple(self.conjunction(item) for item in node.items))]
            case Not():
                return [Refusal(self.conjunction(node.item), node.where)]
            case Operation():
                return self.comparison(node)
            case Typed():
                reason = f"a type is declared to the right of `->`, as in p({node.variable}) -> {node.type}"
                raise RuleSyntaxError(node.where, f"{reason}({node.variable}).")
            case Application():
                extra: list[Part] = []
                return [ir.Atom(node.name, self.simple(node.args, extra), where=node.where), *extra]
            case Subsumption():
                reason = (
                    "an order of rows is a statement of its own, as in p(x, y) <= p(x, z) <- y < z."
                )
                raise RuleSyntaxError(node.where, reason)
        raise AssertionError(node)

    def comparison(self, node: Operation) -> list[Part]:
        """Return a comparison, or the atom f[x] = v, with the literals that its terms need."""
        left, right = node.left, node.right
        if node.op == "=" and self.reads(right) and not self.reads(left):
            left, right = right, left
        extra: list[Part] = []
        if node.op == "=" and isinstance(left, Application) and self.reads(left):
            args = self.simple(left.args, extra)
            (value,) = self.simple((right,), extra)
            return [ir.Atom(left.name, args, value, where=left.where), *extra]
        terms = self.term(left, extra), self.term(right, extra)
        return [*extra, _oriented(node, *terms)]

    # -- terms: each appends the literals that it needs to `extra`

    def simple(self, nodes: Iterable[Node], extra: list[Part]) -> tuple[ir.Var | ir.Const, ...]:
        """Convert arguments to variables and constants."""
        return tuple(
            node if isinstance(node, ir.Const) else self.variable(node, extra) for node in nodes
        )

    def variable(self, node: Node, extra: list[Part]) -> ir.Var:
        """Convert a node to a variable: a new one for a term, a function's value or `_`."""
        if isinstance(node, ir.Var):
            return node
        marked = isinstance(node, Anonymous) and node.marked
        name = ir.Var(next(self.fresh).name, marked=marked, where=node.where)
        if isinstance(node, Application) and self.reads(node):
            extra.append(ir.Atom(node.name, self.simple(node.args, extra), name, where=node.where))
        elif not isinstance(node, Anonymous):
            extra.append(ir.Compare("=", name, self.term(node, extra), where=node.where))
        return name

    def term(self, node: Node, extra: list[Part]) -> ir.Term:
        """Convert a node to a term without applications; fold literals. Raises RuleTypeError."""
        match node:
            case Anonymous():
                raise SafetyError(
                    node.where, "`_` may only be an argument of an atom: it has no value here"
                )
            case Operation(op) if op in OPERATORS:
                sides = self.term(node.left, extra), self.term(node.right, extra)
                return ir.Call(OPERATORS[op], sides, where=node.where)
            case Operation():
                left, right = self.term(node.left, extra), self.term(node.right, extra)
                if isinstance(left, ir.Const) and isinstance(right, ir.Const):
                    literal = folded(node.op, left, right, node.where)
                    if literal is not None:
                        return literal
                return ir.Binary(node.op, left, right, where=node.where)
            case Application() if self.reads(node):
                return self.variable(node, extra)
            case Application():
                return self.application(node, extra)
            case _:
                return node

    def reads(self, node: Node) -> bool:
        """Return whether a node reads a predicate, and is not a function of terms."""
        if not isinstance(node, Application):
            return False
        return not node.function or node.name in self.known or function_named(node.name) is None

    def application(self, node: Application, extra: list[Part]) -> ir.Term:
        """Convert a function of terms."""
        name = function_named(node.name)
        assert name
        return ir.Call(
            name, tuple(self.argument(arg, extra) for arg in node.args), where=node.where
        )

    def argument(self, node: Node, extra: list[Part]) -> ir.Term:
        """Convert an argument of a function of terms, which may be a comparison."""
        if isinstance(node, Operation) and node.op in ir.MIRRORED:
            sides = self.term(node.left, extra), self.term(node.right, extra)
            return ir.Call(node.op, sides, where=node.where)
        return self.term(node, extra)


def _oriented(node: Operation, left: ir.Term, right: ir.Term) -> ir.Compare:
    """Return a comparison, mirrored if only its right side is a lone variable."""
    if isinstance(right, ir.Var) and not isinstance(left, ir.Var):
        return ir.Compare(ir.MIRRORED[node.op], right, left, where=node.where)
    return ir.Compare(node.op, left, right, where=node.where)


def _names(node: object) -> set[str]:
    """Return the variable names of a tree."""
    match node:
        case ir.Var():
            return {node.name}
        case tuple():
            return set().union(*map(_names, node))
        case Clause():
            return _names((node.heads, node.body, node.aggregates, node.groups))
        case Application():
            return _names(node.args)
        case Operation():
            return _names((node.left, node.right))
        case ir.Aggregate():
            return _names(node.results)
        case And() | Or():
            return _names(node.items)
        case Not() | Aggregation():
            return _names(parts_of(node))
    return set()


DISJUNCTS_MAX = 64
OPERATORS = {"%": "mod", "^": "power"}  # of functions


def normalise(program: Program, known: Program) -> Program:
    """Make rules of a program's clauses and constraints; the head of the last is its answer.
    Raises RuleError.
    """
    clauses, demands, left = list[Clause](), list[Constraint](), list[Statement]()
    orders, equivalences = list[Subsumption](), list[Application]()
    answer = None
    for statement in program.statements:
        match statement:
            case Subsumption():
                orders.append(statement)
                answer = statement.lesser.name
            case Constraint():
                demands.append(statement)
                answer = name_of(statement)
            case Clause() if (name := split(statement.heads[0])[0].name) != BAG:
                if name == EQUIVALENCE:
                    equivalences.append(_declared(statement))
                    name = equivalences[-1].name
                else:
                    clauses.append(statement)
                answer = name
            case _:
                left.append(statement)
    heads = [split(head)[0].name for clause in clauses for head in clause.heads]
    names = {*program.over(known), *heads}
    constraints = (clause for demand in demands for clause in clauses_of(demand, names))
    plain: Iterable[Clause] = without_aggregations((*clauses, *constraints), names)
    declared = {name: p for name, p in program.predicates.items() if name not in program.stored}
    plain = with_closures([*plain], orders, equivalences, declared)
    rules = _gathered(rule for clause in plain for rule in _rules_of(clause, names))
    return replace(program, rules=rules, statements=tuple(left), answer=answer)


def _declared(clause: Clause) -> Application:
    """Return the name of the view that a statement declares an equivalence, with its place."""
    head, _ = split(clause.heads[0])
    if len(head.args) != 1 or not isinstance(head.args[0], ir.Var) or clause.body.items:
        raise RuleSyntaxError(
            head.where, f"{EQUIVALENCE} takes the name of a view, as in {EQUIVALENCE}(v)."
        )
    return Application(head.args[0].name, (), False, where=head.args[0].where)


def _gathered(rules: Iterable[ir.Rule]) -> tuple[ir.Rule, ...]:
    """Return rules of which one for each predicate gives it rows of constants."""
    made, tables = list[ir.Rule](), dict[ir.Atom, list[ir.Disjunct]]()
    for rule in rules:
        head = rule.heads[0]
        if not ir.is_table(rule):
            made.append(rule)
        elif head in tables:
            tables[head] += rule.body
        else:
            tables[head] = [*rule.body]
            made.append(rule)
    return tuple(
        replace(rule, body=(*tables[rule.heads[0]],)) if ir.is_table(rule) else rule
        for rule in made
    )


def _rules_of(clause: Clause, known: Container[str]) -> list[ir.Rule]:
    """Return the rules of a clause: one, or an auxiliary view and the aggregate over it; `known`
    has the predicates.

    Raises RuleError.
    """
    hoist = Hoist(clause, known)
    heads, aggregates, body = hoist.clause()
    if not clause.body.items and not any(isinstance(part, ir.Atom) for part in body.parts):
        _check_fact(clause)
        if len(heads) > 1:
            return [
                rule
                for head in clause.heads
                for rule in _rules_of(replace(clause, heads=(head,)), known)
            ]
    bound = _in_heads(heads, aggregates)
    disjuncts = _distinct(_expand(body, bound, clause.where), hoist.fresh)
    rule = ir.Rule(heads, disjuncts, aggregates, where=clause.where, text=clause.text)
    scope = bound | _own(body, bound)
    made = [rule]
    if aggregates and not _counts_once(disjuncts, scope):
        made = _through_auxiliary(rule, scope)
    return _for_groups(made, clause, known) if clause.groups.items else made


def _check_fact(clause: Clause) -> None:
    """Raise SafetyError for a fact with a variable."""
    for name in sorted(_names(clause.heads)):
        reason = f"{name} is not bound: a fact has constants only, and a rule has a body after `<-`"
        raise SafetyError(clause.where, reason)


def _for_groups(rules: list[ir.Rule], clause: Clause, names: Container[str]) -> list[ir.Rule]:
    """Return the rules of aggregates with `else`, of which the last of `rules` is the rule, for the
    groups of a clause.

    n[x] = c <- agg<<c = count() else 0 for node(x)>> edge(x, _).

    n$some[x] = c <- agg<<c = count()>> edge(x, _). n$for(x) <- node(x). n[x] = c <- n$for(x),
    n$some[x] = c ; n$for(x), !n$some[x] = _, c = 0.
    """
    *made, rule = rules
    some = tuple(replace(head, predicate=f"{head.predicate}$some") for head in rule.heads)
    plain = tuple(replace(aggregate, absent=None) for aggregate in rule.aggregates)
    made.append(replace(rule, heads=some, aggregates=plain, text=f"{clause.text}  (what is there)"))
    for head, there, aggregate in zip(rule.heads, some, rule.aggregates, strict=True):
        if aggregate.absent is None or not head.args:
            reason = "has no `else`" if head.args else "has no keys, so it has no groups"
            raise AggregateError(
                aggregate.where, f"{head.predicate} {reason}: leave `for` out, or give both"
            )
        call = Application(
            f"{head.predicate}$for", tuple(dict.fromkeys(head.args)), False, where=head.where
        )
        text = f"{clause.text}  (its groups)"
        made += _rules_of(Clause((call,), clause.groups, (), where=clause.where, text=text), names)
        names_here = {v.name for v in ir.variables(head)}
        other = ir.Var(
            next(n for k in count() if (n := f"{aggregate.result.name}{k}") not in names_here),
            where=head.where,
        )
        among = ir.Atom(call.name, call.args, where=head.where)  # type: ignore[arg-type]
        groups, known = ir.marked(among), ir.marked(there)
        lacks = ir.Negation(
            (replace(known, value=replace(other, marked=True)),), (other,), where=head.where
        )
        absent = ir.Compare("=", aggregate.result, aggregate.absent, where=aggregate.where)
        body = (groups, known), (groups, lacks, absent)
        made.append(ir.Rule((head,), body, where=clause.where, text=clause.text))
    return made


def _in_heads(heads: tuple[ir.Atom, ...], aggregates: tuple[ir.Aggregate, ...]) -> set[ir.Var]:
    return {*ir.variables(*heads, *aggregates)}.difference(
        *(aggregate.results for aggregate in aggregates)
    )


def _counts_once(disjuncts: tuple[ir.Disjunct, ...], scope: set[ir.Var]) -> bool:
    return len(disjuncts) == 1 and scope.issuperset(ir.variables(*disjuncts[0]))


def _through_auxiliary(rule: ir.Rule, scope: set[ir.Var]) -> list[ir.Rule]:
    unnamed = ir.unnamed_in(rule)
    rule = replace(
        rule, body=tuple(tuple(_whole(x, unnamed) for x in disjunct) for disjunct in rule.body)
    )
    free = dict.fromkeys(v for disjunct in rule.body for v in ir.variables(*disjunct))
    args = tuple(replace(v, marked=False) for v in free if v in scope)
    atom = ir.Atom(f"{rule.heads[0].predicate}{BODY}", args, where=rule.where)
    return [replace(rule, heads=(atom,), aggregates=()), replace(rule, body=((ir.marked(atom),),))]


def _whole(literal: ir.Literal, unnamed: set[str]) -> ir.Literal:
    """Return an atom of a relation whose `_` still match null where they become columns of an
    auxiliary view.
    """
    if not isinstance(literal, ir.Atom) or literal.value is not None:
        return literal
    args = (
        replace(v, marked=True) if isinstance(v, ir.Var) and v.name in unnamed else v
        for v in literal.args
    )
    return replace(literal, args=tuple(args))


# -- scope


def _own(body: Conj, outer: set[ir.Var]) -> set[ir.Var]:
    """Return the variables scoped to this conjunction: in a literal of it, or in two parts."""
    own, uses = set[ir.Var](), Counter[ir.Var]()
    for part in body.parts:
        match part:
            case ir.Atom() | ir.Compare():
                own.update(ir.variables(part))
            case Disj():
                for option in part.options:
                    uses.update(_mentioned(option))
            case Refusal():
                uses.update(_mentioned(part.body))
    own.update(v for v, n in uses.items() if n > 1)
    return own - outer


def _mentioned(body: Conj) -> set[ir.Var]:
    mentioned: set[ir.Var] = set()
    for part in body.parts:
        match part:
            case ir.Atom() | ir.Compare():
                mentioned.update(ir.variables(part))
            case Disj():
                mentioned.update(*map(_mentioned, part.options))
            case Refusal():
                mentioned.update(_mentioned(part.body))
    return mentioned


# -- expand


def _expand(body: Conj, outer: set[ir.Var], where: Where) -> list[ir.Disjunct]:
    """Return the disjuncts of a conjunction; enclosing scopes own the variables `outer`."""
    scope = outer | _own(body, outer)
    return _product([_disjuncts(part, scope, where) for part in body.parts], where)


def _disjuncts(part: Part, scope: set[ir.Var], where: Where) -> list[ir.Disjunct]:
    match part:
        case Disj():
            return [
                disjunct for option in part.options for disjunct in _expand(option, scope, where)
            ]
        case Refusal():
            refuted = [_refute(d, scope, part.where) for d in _expand(part.body, scope, where)]
            return _product(refuted, where)
        case _:
            return [(part,)]


def _product(factors: list[list[ir.Disjunct]], where: Where) -> list[ir.Disjunct]:
    product: list[ir.Disjunct] = [()]
    for factor in factors:
        product = [done + disjunct for done in product for disjunct in factor]
        if len(product) > DISJUNCTS_MAX:
            reason = f"more than {DISJUNCTS_MAX} disjuncts: give some of its disjunctions a view of their own"
            raise ConstructError(where, f"written out, this rule has {reason}")
    return product


def _refute(disjunct: ir.Disjunct, scope: set[ir.Var], where: Where) -> list[ir.Disjunct]:
    """Return the disjuncts of `!disjunct`."""
    exists = tuple(v for v in ir.variables(*disjunct) if v not in scope)
    if len(disjunct) == 1 and isinstance(disjunct[0], ir.Negation):
        return [disjunct[0].body]
    if not exists and all(isinstance(literal, ir.Compare) for literal in disjunct):
        return [(_negated(literal),) for literal in disjunct if isinstance(literal, ir.Compare)]
    return [(ir.Negation(disjunct, exists, where=where),)]


def _negated(comparison: ir.Compare) -> ir.Compare:
    return replace(comparison, op=ir.NEGATED[comparison.op])


# -- hidden variables


def _distinct(disjuncts: Iterable[ir.Disjunct], fresh: Iterator[ir.Var]) -> tuple[ir.Disjunct, ...]:
    """Rename apart each negation's own variables, since expansion may have copied a negation."""
    hidden: set[ir.Var] = set()
    return tuple(
        tuple(_rename_hidden(literal, {}, hidden, fresh) for literal in disjunct)
        for disjunct in disjuncts
    )


def _rename_hidden(
    literal: ir.Literal,
    names: Mapping[ir.Var, ir.Var],
    hidden: set[ir.Var],
    fresh: Iterator[ir.Var],
) -> ir.Literal:
    if not isinstance(literal, ir.Negation):
        atom_or_comparison: ir.Literal = ir.renamed(literal, names) if names else literal
        return atom_or_comparison
    new = {v: replace(next(fresh), where=v.where) if v in hidden else v for v in literal.exists}
    hidden.update(new.values())
    body = tuple(_rename_hidden(inner, {**names, **new}, hidden, fresh) for inner in literal.body)
    return replace(literal, body=body, exists=tuple(new.values()))
