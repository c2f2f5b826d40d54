"""The ways in which facts follow from others by one rule, read from a version of a store.

    tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).

    tri(1, 2, 3)      follows by one step       from edge(1, 2), edge(2, 3), edge(1, 3)

Many facts are looked up at once: they are rows of a relation that exists for one query only, and
the rule's body is joined with it.  So a step costs one evaluation of the body, bound to the facts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from ivm.errors import LimitError
from ivm.lang.ir import (
    Aggregate,
    Atom,
    Binary,
    Call,
    Compare,
    Const,
    Literal,
    Negation,
    Predicate,
    Rule,
    Term,
    Type,
    Var,
    as_read,
    atoms,
    marked,
    show,
    show_name,
    unmarked,
    variables,
)
from ivm.lang.program import NOTHING, Program, recursive_names
from ivm.names import MULTIPLICITY
from ivm.plan.rewrite.aggregates import fold_bodies, separate_bodies
from ivm.question import answer, understand
from ivm.rules.compile import compile
from ivm.rules.installed import Installed, Limits
from ivm.rules.relations import Relations
from pagestore.host import EphemeralTransaction, Snapshot

WANTED, ANSWER, NUMBER = "why@wanted", "why$answer", Var("why$n")  # "@" lets any column be null
BINDINGS_MAX = 10_000  # of one rule for one batch of facts
FACTS_AT_ONCE = 200  # with some steps each, their bindings are fewer
DECIDING = ("min", "max")  # one value of these decides the result alone
Sketch = Callable[[], AbstractContextManager[EphemeralTransaction]]
Values = Mapping[str, Any]  # the values of variables by name


class Fact(NamedTuple):
    """A row of a predicate, a function's value last."""

    predicate: str
    row: tuple[Any, ...]


Body = tuple[Literal, ...]  # a conjunction with constants in place of its variables


class Step(NamedTuple):
    """How a fact follows by one rule: from the facts of a body, if nothing violates its negations.

    An aggregate follows from the bodies of all bindings of its group, or for min and max of one
    that has the result.
    """

    rule: Rule
    bodies: tuple[Body, ...]

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts of all bodies, each once."""
        return (*dict.fromkeys(fact for body in self.bodies for fact in facts_of(body)),)

    @property
    def absent(self) -> tuple[Negation, ...]:
        """The negations of all bodies, each once."""
        return (
            *dict.fromkeys(
                literal for body in self.bodies for literal in body if isinstance(literal, Negation)
            ),
        )

    @property
    def text(self) -> str:
        """The rule as its author wrote it, on one line."""
        return " ".join((self.rule.text or str(self.rule)).split())


def written(installed: Installed, source: Snapshot | EphemeralTransaction) -> Program:
    """Return the installed rules as they are before any rewriting for evaluation, but without
    views that it omits.
    """
    program = NOTHING
    for block in installed.blocks:
        relations = Relations(source, opening=True)
        part = compile(block.text, program, block.name, relations, block.rewrites.columns)
        part = separate_bodies(part, program) if block.rewrites.lean else part
        program = program.including(fold_bodies(part) if block.rewrites.scans else part)
    return program


class Derivations:
    """Finds steps in one version; `sketch` begins transactions over it that are never committed."""

    def __init__(self, sketch: Sketch, installed: Installed, threads: int = 1) -> None:
        self._sketch, self._installed, self._threads = sketch, installed, threads
        with sketch() as snap:
            self.program = written(installed, snap)
        self._known: dict[Fact, list[Step]] = {}

    def over(self, sketch: EphemeralTransaction) -> "Derivations":
        """Return what finds steps in a transaction as it is, under the same rules."""
        copied = copy(self)
        copied._sketch, copied._known = lambda: nullcontext(sketch), {}
        return copied

    def is_base(self, name: str) -> bool:
        """Return whether facts of a predicate come from transactions, not from rules."""
        return self.program.predicates[name].extensional

    def steps(self, facts: Iterable[Fact]) -> dict[Fact, list[Step]]:
        """Return the steps by which facts of views follow; those of a view are found together."""
        distinct = list(dict.fromkeys(facts))
        missing: dict[str, list[Fact]] = {}
        for fact in distinct:
            if fact not in self._known:
                missing.setdefault(fact.predicate, []).append(fact)
                self._known[fact] = []
        for name, some in missing.items():
            for rule in self.program.rules:
                if name in rule.writes:
                    for start in range(0, len(some), FACTS_AT_ONCE):
                        self._derive(rule, name, some[start : start + FACTS_AT_ONCE])
        return {fact: self._known[fact] for fact in distinct}

    def _derive(self, rule: Rule, name: str, facts: Sequence[Fact]) -> None:
        """Add the steps of one rule for facts of one view."""
        for place, head in enumerate(rule.heads):
            if head.predicate != name:
                continue
            if rule.aggregates:
                self._fold(rule, head, rule.aggregates[place], facts)
                continue
            for disjunct in rule.body:
                rows = [fact.row for fact in facts]
                for number, values in self.bindings(disjunct, rule.types, head.terms, rows):
                    self._known[facts[number]].append(
                        Step(rule, (with_values(disjunct, values, rule.types),))
                    )

    def _fold(self, rule: Rule, head: Atom, folded: Aggregate, facts: Sequence[Fact]) -> None:
        """Add the steps of an aggregating rule."""
        decides = folded.op in DECIDING
        for fact, bodies in zip(
            facts, self.groups(rule, head, facts, folded if decides else None), strict=True
        ):
            if decides:
                self._known[fact] += [Step(rule, (body,)) for body in bodies]
            elif bodies or folded.absent is not None:
                self._known[fact].append(Step(rule, (*bodies,)))

    def below(self, facts: Sequence[Fact], most: int) -> list[Fact] | None:
        """Return some facts, and all that these could follow from of views that read themselves;
        None if those of one view are more than `most`.

        One question finds those of a view, also where they are a long chain; a view that reads
        itself through others, or aggregates, is left to `steps`.  O(the join of the rules).
        """
        strata, views = recursive_names(self.program.rules), [*facts]
        for name in dict.fromkeys(fact.predicate for fact in facts):
            rules = [rule for rule in self.program.rules if name in rule.writes]
            if strata.get(name, ()) == frozenset([name]) and not any(r.aggregates for r in rules):
                rows = [fact.row for fact in facts if fact.predicate == name]
                if (more := self._below(name, rules, rows, most)) is None:
                    return None
                views += more
        return [*dict.fromkeys(views)]

    def _below(
        self, name: str, rules: Sequence[Rule], rows: Sequence[tuple[Any, ...]], most: int
    ) -> list[Fact] | None:
        types = self.program.predicates[name].types
        columns = tuple(Var(f"why$c{place}") for place in range(len(types)))
        shown, nullable = tuple(v.name for v in columns), (*range(len(types)),)
        typed = dict(zip(shown, types, strict=True))
        first = Rule((Atom(ANSWER, columns),), ((marked(Atom(WANTED, columns)),),), types=typed)
        program = Program(
            {
                WANTED: Predicate(WANTED, types, None, True, shown, nullable),
                ANSWER: Predicate(ANSWER, types, None, False, shown),
            },
            (first, *(asked for rule in rules for asked in _wanting(rule, name))),
            answer=ANSWER,
            stored=(WANTED,),
            seeds={WANTED: [tuple(map(Const, row, types)) for row in rows]},
        )
        try:
            return [Fact(name, row) for row in self._ask(program, (most, None))]
        except LimitError:
            return None

    def groups(
        self, rule: Rule, head: Atom, facts: Sequence[Fact], decided: Aggregate | None = None
    ) -> list[list[Body]]:
        """Return for each fact the bodies of all bindings of its group; if `decided`, of those
        that have its result.
        """
        results = results_of(rule) - ({decided.result} if decided else set())
        places = [i for i, term in enumerate(head.terms) if term not in results]
        rows = [tuple(fact.row[i] for i in places) for fact in facts]
        # by its atoms: a binding counts once
        firsts: list[dict[tuple[Literal, ...], Body]] = [{} for _ in facts]
        for disjunct in rule.body:
            body: Body = disjunct
            if decided and decided.argument:
                body = (*disjunct, Compare("=", decided.argument, decided.result))
            for number, values in self.bindings(
                body, rule.types, [head.terms[i] for i in places], rows
            ):
                bound = with_values(disjunct, values, rule.types)
                firsts[number].setdefault(bound if len(rule.body) == 1 else (*atoms(bound),), bound)
        return [[*bodies.values()] for bodies in firsts]

    def present(self, facts: Iterable[Fact]) -> set[Fact]:
        """Return those of some facts that hold; those of one predicate are looked up together."""
        by_name: dict[str, list[Fact]] = {}
        for fact in facts:
            if fact.predicate in self.program.predicates:
                by_name.setdefault(fact.predicate, []).append(fact)
        present = set[Fact]()
        for name, some in by_name.items():
            rows = self.rows(name, [dict(enumerate(fact.row)) for fact in some])
            present |= {some[number] for number, _ in rows}
        return present

    def rows(
        self, name: str, given: Sequence[Mapping[int, Any]]
    ) -> list[tuple[int, tuple[Any, ...]]]:
        """Return the rows of a predicate with given values at some places, the same in each,
        with their number.
        """
        predicate = self.program.predicates[name]
        terms = [Var(f"why$v{i}") for i in range(len(predicate.types))]
        types = {v.name: type_ for v, type_ in zip(terms, predicate.types, strict=True)}
        keys = len(predicate.keys)
        atom = marked(
            Atom(name, (*terms[:keys],), terms[keys] if predicate.value is not None else None)
        )
        places = [*given[0]] if given else []
        starts = [[row[place] for place in places] for row in given]
        bindings = self.bindings([atom], types, [terms[place] for place in places], starts)
        return [(number, tuple(values[v.name] for v in terms)) for number, values in bindings]

    def bindings(
        self,
        literals: Sequence[Literal],
        types: Mapping[str, Type],
        terms: Sequence[Term],
        rows: Sequence[Sequence[Any]],
    ) -> list[tuple[int, Values]]:
        """Join a conjunction with rows of values for `terms`: return each binding with the number
        of its row.

        There are at most BINDINGS_MAX.  O(the join), for all rows at once.
        """
        names = variables(*literals, *terms)
        given = [types[term.name] if isinstance(term, Var) else term.type for term in terms]  # type: ignore[union-attr]
        columns = (NUMBER.name, *(f"c{i}" for i in range(len(terms))))
        nullable = (*range(1, len(columns)),)
        asked = Predicate(WANTED, ("int64", *given), None, True, columns, nullable)
        heads = (NUMBER, *names)
        made = Predicate(
            ANSWER,
            ("int64", *(types[v.name] for v in names)),
            None,
            False,
            tuple(v.name for v in heads),
        )
        join = marked(Atom(WANTED, (NUMBER, *terms)))  # type: ignore[arg-type]
        rule = Rule(
            (Atom(ANSWER, heads),), ((join, *literals),), types={**types, NUMBER.name: "int64"}
        )
        seeds = [(Const(n, "int64"), *map(Const, row, given)) for n, row in enumerate(rows)]
        program = Program(
            {WANTED: asked, ANSWER: made},
            (rule,),
            (),
            ANSWER,
            stored=(WANTED,),
            seeds={WANTED: seeds},
        )
        return [
            (row[0], dict(zip([v.name for v in names], row[1:], strict=True)))
            for row in self._ask(program)
        ]

    def _ask(self, program: Program, limits: Limits = (None, None)) -> list[tuple[Any, ...]]:
        """Return the first rows of the answer to a question.  Raises LimitError."""
        with self._sketch() as sketch:
            there = {*sketch}
            question = understand(sketch, self._installed, program, limits)
            answered = answer(sketch, question, self._threads).to_arrow()
            for name in {*sketch} - there:  # another question may follow
                sketch.drop(name)
        columns = [column.to_pylist() for column in answered.slice(0, BINDINGS_MAX).columns]
        return [*zip(*columns, strict=True)]


def _wanting(rule: Rule, name: str) -> Iterator[Rule]:
    """Yield the rules by which a wanted fact of a view that reads itself wants others."""
    for head, disjunct in product(rule.heads, rule.body):
        asked = marked(Atom(ANSWER, head.terms))
        for atom in disjunct:
            if head.predicate == name and isinstance(atom, Atom) and atom.predicate == name:
                constant = {n: t for n, t in enumerate(atom.terms) if isinstance(t, Const)}
                types = {f"why$c{n}": t.type for n, t in constant.items()}
                terms = [Var(f"why$c{n}") if n in constant else t for n, t in enumerate(atom.terms)]
                given = [Compare("=", terms[n], t) for n, t in constant.items()]
                yield Rule(
                    (unmarked(Atom(ANSWER, (*terms,)), variables(*terms)),),
                    ((asked, *disjunct, *given),),
                    types={**rule.types, **types},
                )


def results_of(rule: Rule) -> set[Var]:
    """Return the variables that the aggregates of a rule define."""
    return {v for aggregate in rule.aggregates for v in aggregate.results}


def facts_of(body: Body) -> tuple[Fact, ...]:
    """Return the facts that the atoms of a body read, each once."""
    atoms = (literal for literal in body if isinstance(literal, Atom))
    facts = (
        Fact(atom.predicate, tuple(t.value for t in atom.terms if isinstance(t, Const)))
        for atom in atoms
    )
    return (*dict.fromkeys(facts),)


def with_values(node: Any, values: Values, types: Mapping[str, Type]) -> Any:
    """Return a literal, a term or a conjunction with the variables of `values` replaced."""
    match node:
        case tuple():
            return tuple(with_values(part, values, types) for part in node)
        case Var():
            return Const(values[node.name], types[node.name]) if node.name in values else node
        case Binary() | Compare():
            left = with_values(node.left, values, types)
            right = with_values(node.right, values, types)
            return replace(node, left=left, right=right)
        case Call():
            return replace(node, args=with_values(node.args, values, types))
        case Atom():
            args = with_values(node.args, values, types)
            return replace(
                node, args=args, value=node.value and with_values(node.value, values, types)
            )
        case Negation():
            inside = {name: value for name, value in values.items() if Var(name) not in node.exists}
            return replace(node, body=with_values(node.body, inside, types))
    return node


def shown(fact: Fact, predicate: Predicate) -> str:
    """Return a fact as rules write it; of a row that a bag holds several times also how often."""
    terms = tuple(map(Const, fact.row, map(as_read, predicate.types)))
    return written_atom(Atom(fact.predicate, terms), predicate)


def written_atom(atom: Atom, predicate: Predicate) -> str:
    """Return an atom as rules write it, with square brackets and several values where its
    predicate has them.
    """
    terms = [unmarked(Atom("", (term,)), variables(term)).args[0] for term in atom.terms]
    keys = len(predicate.keys) if predicate.key_count is None else predicate.key_count
    if predicate.bag or predicate.columns[-1:] == (MULTIPLICITY,):
        count = int(str(terms[-1])) if isinstance(terms[-1], Const) else 1
        row = show(Atom(atom.predicate, (*terms[:-1],)))
        return row if count == 1 else f"{row} ({count:,} equal rows)"
    if keys == len(terms):
        return show(Atom(atom.predicate, (*terms,)))
    values = ", ".join(map(show, terms[keys:]))
    given = ", ".join(map(show, terms[:keys]))
    return f"{show_name(atom.predicate)}[{given}] = {f'({values})' if len(terms) > keys + 1 else values}"
