"""Why a row is in a view, or is not, in words and as data; and which edits changed a view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from ivm.errors import EditError, UnknownViewError
from ivm.lang.declarations import unknown
from ivm.lang.infer import typed_atom
from ivm.lang.ir import NOWHERE, Atom, Const, Predicate, Var, as_read, atoms, variables
from ivm.lang.parse import parse
from ivm.lang.syntax_tree import Anonymous, Change, split
from ivm.names import is_helper, view_of_part
from ivm.rules.installed import Installed
from ivm.rules.relations import Relations
from ivm.why.changes import Causes, Edit, Side
from ivm.why.derivations import Derivations, Fact, Step, shown, with_values, written_atom
from ivm.why.missing import Failure, Insertions, Missing, together
from ivm.why.proofs import Proofs, prove
from ivm.why.trials import Trials
from ivm.wide import statement_of
from pagestore.host import Snapshot, Store, printable

SHOWN = 10  # facts of one step
DEPTH = 100  # steps one below the other of which a proof is shown
Row = Sequence[Any] | Mapping[str, Any]
RulesOf = Callable[[Any], Installed]


@dataclass(frozen=True)
class Why:
    """Why a row is in a view, or why it is not; `str` says it in words, `data` as dicts and lists.

    `holds` says whether the row is there.  `derivations` is the number of steps by which it
    follows, of which `data` has the first, each with its facts down to rows of relations;
    `smallest` says whether these are the smallest proofs.
    """

    fact: str
    version: int
    holds: bool
    derivations: int
    smallest: bool
    data: dict[str, Any]

    def __str__(self) -> str:
        return printable(
            "\n".join(_proof_lines(self) if self.holds else _missing_lines(self)), kept="\n"
        )


class Cause(NamedTuple):
    """A row that came or went between two versions, and the edits responsible, as in rules."""

    inserted: bool
    row: tuple[Any, ...]
    edits: tuple[str, ...]


class Asker:
    """Answers questions about one version of a store."""

    def __init__(self, store: Store, rules_of: RulesOf, version: int, threads: int) -> None:
        self.store, self.version, self._threads = store, version, threads
        with store.at(version) as snap:
            self.installed = rules_of(snap)
        self.derivations = Derivations(partial(store.sketch, version), self.installed, threads)

    def why(self, name: str, row: Row | None, most: int) -> Why:
        """See Workspace.why."""
        goal = self.goal(name, row)
        places = {
            place: term.value for place, term in enumerate(goal.terms) if isinstance(term, Const)
        }
        rows = self.derivations.rows(goal.predicate, [places])
        if not rows:
            return self._why_not(goal)
        fact = Fact(goal.predicate, rows[0][1])
        proofs = self.prove(fact, most)
        below = [f for step in (*proofs.steps[:most], *proofs.chosen.values()) for f in step.facts]
        since = self._since([fact, *below])
        tree = _Tree(self, proofs, since)
        data = tree.data(fact, len(rows), most)
        return Why(data["fact"], self.version, True, len(proofs.steps), proofs.smallest, data)

    def prove(self, fact: Fact, most: int = 1) -> Proofs:
        """Return the proofs of a fact."""
        with self.store.sketch(self.version) as sketch:
            return prove(self.derivations, self.installed, sketch, fact, most)

    def text(self, fact: Fact) -> str:
        """Return a fact as rules write it, a row of a bag without how often it occurs."""
        return shown(fact, self.derivations.program.predicates[fact.predicate])

    def statement(self, step: Step) -> str:
        """Return what the author wrote: a rule, or the statement of SQL of a view."""
        name = view_of_part(step.rule.heads[0].predicate)
        for block in self.installed.blocks:
            if block.name == name and (statement := statement_of(block.text)):
                return statement
        return step.text

    # -- what is given

    def goal(self, name: str, row: Row | None) -> Atom:
        """Return the row that a call names: constants, and variables for what is not given."""
        if row is None:
            return self._written(name)
        predicate = self._predicate(name)
        if isinstance(row, Mapping):
            if unnamed := [column for column in row if column not in predicate.columns]:
                has = ", ".join(predicate.columns)
                raise EditError(f"{name} has no column {unnamed[0]!r}; it has {has}")
            places = {predicate.columns.index(column): value for column, value in row.items()}
        else:
            places = dict(
                enumerate(row if isinstance(row, Sequence) and not isinstance(row, str) else (row,))
            )
            if len(places) > len(predicate.types):
                raise EditError(
                    f"{name} has {len(predicate.types)} columns, and {len(places)} values are given"
                )
        return _atom(
            predicate,
            {place: Const(value, predicate.types[place]) for place, value in places.items()},
        )

    def _written(self, text: str) -> Atom:
        """Parse `tri(1, 2, 3)`, `total["ada"] = 5` or `total["ada"]`; `_` is any value."""
        body = text.strip().removesuffix(".")
        if body in self.derivations.program.predicates:
            columns = ", ".join(self.derivations.program.predicates[body].columns)
            raise EditError(
                f"{body} is all of a view: name a row, {body}({columns}), _ being any value"
            )
        (statement,) = parse(f"+{body}.", "fact")[:1]
        assert isinstance(statement, Change)
        call, value = split(statement.head)
        predicate = self._predicate(call.name)
        terms = [*call.args, *([] if value is None else [value])]
        if len(terms) > len(predicate.types):
            raise EditError(
                f"{call.name} has the columns {', '.join(predicate.columns)}, and {len(terms)} "
                f"values are given"
            )
        names = {
            place: term for place, term in enumerate(terms) if not isinstance(term, Anonymous | Var)
        }
        whole = _atom(
            predicate, {place: term for place, term in names.items() if isinstance(term, Const)}
        )
        if not all(isinstance(term, Const) for term in names.values()):
            raise EditError(f"{body}: a row is named by constants, and by _ for any value")
        return typed_atom(whole, predicate)

    def _predicate(self, name: str) -> Predicate:
        predicates = self.derivations.program.predicates
        if name in predicates:
            return predicates[name]
        with self.store.at(self.version) as snap:
            declared = Relations(snap).declared({name}, set(), self.derivations.program)
        if name not in declared:
            raise UnknownViewError(unknown(name, NOWHERE, predicates).reason)
        raise UnknownViewError(f"no rule reads {name}: its rows come from transactions alone")

    # -- since when

    def _since(self, facts: Iterable[Fact]) -> dict[Fact, int | None]:
        """Return the version that brought each fact of a relation; None if the oldest one that is
        kept has it.

        O(versions kept), and of those that changed a relation a look-up of each of its facts.
        """
        by_name: dict[str, list[Fact]] = {}
        for fact in dict.fromkeys(facts):
            if self.derivations.is_base(fact.predicate):
                by_name.setdefault(fact.predicate, []).append(fact)
        since: dict[Fact, int | None] = {fact: None for some in by_name.values() for fact in some}
        history = self.store.history()
        branch = next((entry.branch for entry in history if entry.version == self.version), None)
        older = [
            one.version for one in history if one.version < self.version and one.branch == branch
        ]
        for name, some in by_name.items():
            later = self.version
            for version in older if some else ():
                with self.store.at(version) as before, self.store.at(later) as after:
                    if name in before and name in after and before.tree(name) == after.tree(name):
                        gone = []
                    else:
                        gone = [f for f in some if not _has(before, f)]
                since |= dict.fromkeys(gone, later)
                some, later = [f for f in some if f not in gone], version
        return since

    # -- what is missing

    def _why_not(self, goal: Atom) -> Why:
        missing = Missing(self.derivations)
        # whose helper views nobody wrote, and nobody knows
        of_sql = self._is_of_sql(goal.predicate)
        trials = Trials(
            partial(self.store.sketch, self.version),
            self.installed,
            self.derivations,
            self._threads,
        )

        def true(sets: list[Insertions]) -> list[Insertions]:
            some = together(sets) if of_sql else sets  # what its helper views lack may be one row
            return [insertions for insertions in some if trials.bring(insertions, goal)]

        insertions = [] if self.derivations.is_base(goal.predicate) else missing.explain(goal, true)
        others = self._others(goal, self.derivations.program.predicates[goal.predicate])
        failures = missing.failures
        if of_sql:
            named = [
                (failure, [atom.predicate for atom in atoms(failure.fails)]) for failure in failures
            ]
            failures = [rule for rule, names in named if names and not any(map(is_helper, names))]
        data: dict[str, Any] = {
            "fact": self._text_of(goal),
            "version": self.version,
            "holds": False,
            "any": sorted({v.name for one in insertions for atom in one for v in variables(atom)}),
            "instead": [self.text(fact) for fact in others],
            "failures": _distinct(map(self._failure, failures)),
            "insertions": [sorted(map(self._edit, insertion)) for insertion in insertions],
            "complete": missing.complete,
        }
        return Why(data["fact"], self.version, False, 0, False, data)

    def _others(self, goal: Atom, predicate: Predicate) -> list[Fact]:
        """Return the row of a function's key that has another value, or the rows of SQL that
        begin like the goal.
        """
        keys = len(predicate.keys) if predicate.key_count is None else predicate.key_count
        given = {
            place: term.value
            for place, term in enumerate(goal.terms[:keys])
            if isinstance(term, Const)
        }
        if len(given) < keys:
            return []
        is_function = predicate.value is not None or predicate.key_count is not None
        begins = [
            {place: given[place] for place in range(count)} for count in range(keys - 1, 0, -1)
        ]
        for some in [given] if is_function else begins if self._is_of_sql(predicate.name) else []:
            if rows := self.derivations.rows(predicate.name, [some])[:SHOWN]:
                return [Fact(predicate.name, row) for _, row in rows]
        return []

    def _is_of_sql(self, name: str) -> bool:
        """Return whether a statement of SQL keeps a view."""
        return any(
            block.name == name and statement_of(block.text) for block in self.installed.blocks
        )

    def _edit(self, atom: Atom) -> str:
        """Return an insertion as rules write it; where the key has another value, as one that
        takes its place.
        """
        predicate = self.derivations.program.predicates[atom.predicate]
        count = len(predicate.keys) if predicate.key_count is None else predicate.key_count
        key = {
            place: term.value
            for place, term in enumerate(atom.terms[:count])
            if isinstance(term, Const)
        }
        is_function = predicate.value is not None or predicate.key_count is not None
        taken = is_function and len(key) == count and self.derivations.rows(atom.predicate, [key])
        return f"{'^' if taken else '+'}{self._text_of(atom)}"

    def _text_of(self, atom: Atom) -> str:
        return written_atom(atom, self.derivations.program.predicates[atom.predicate])

    def _failure(self, one: Failure) -> dict[str, Any]:
        literals = [with_values(literal, one.values, one.rule.types) for literal in one.fails]
        fails = [
            self._text_of(_unnamed(one)) if isinstance(one, Atom) else str(one) for one in literals
        ]
        named = {name: value for name, value in one.values.items() if not name.startswith("_")}
        where = {
            name: str(Const(value, as_read(one.rule.types[name]))) for name, value in named.items()
        }
        return {
            "rule": self.statement(Step(one.rule, ())),
            "fails": _distinct(fails),
            "where": where,
        }


def _unnamed(atom: Atom) -> Atom:
    """Write `_` for the variables that no author named."""
    terms = [
        Var("_") if isinstance(term, Var) and term.name.startswith("_") else term
        for term in atom.terms
    ]
    return replace(
        atom, args=(*terms[: len(atom.args)],), value=None if atom.value is None else terms[-1]
    )


def _distinct(items: Iterable[Any]) -> list[Any]:
    distinct: list[Any] = []
    for item in items:
        if item not in distinct:
            distinct.append(item)
    return distinct


def _atom(predicate: Predicate, given: Mapping[int, Const]) -> Atom:
    """Return an atom of a predicate with constants at some places."""
    terms = [given.get(place, Var(column)) for place, column in enumerate(predicate.columns)]
    if predicate.value is None:
        return Atom(predicate.name, (*terms,))
    return Atom(predicate.name, (*terms[:-1],), terms[-1])


def _has(snap: Snapshot, fact: Fact) -> bool:
    """Return whether a version has a fact of a relation."""
    if fact.predicate not in snap:
        return False
    relation = snap[fact.predicate]
    if relation.info.bag:
        return bool(relation.get(fact.row[:-1], 0) == fact.row[-1])
    names = [column.name for column in relation.schema.stored]
    record = tuple(
        fact.row[names.index(column.name)]
        for column in relation.schema.columns
        if column.name in names
    )
    return record in relation


class _Tree:
    """Writes proofs as data; a fact that was written already is not followed again."""

    def __init__(self, asker: Asker, proofs: Proofs, since: Mapping[Fact, int | None]) -> None:
        self._asker, self._proofs, self._since = asker, proofs, since
        self._written = set[Fact]()
        self._depth = 0  # of the step that is written

    def data(self, fact: Fact, matching: int, most: int) -> dict[str, Any]:
        """Return the fact's proofs."""
        proofs = self._proofs
        steps = [self._step(step) for step in proofs.steps[:most]]
        answer: dict[str, Any] = {
            "fact": self._asker.text(fact),
            "version": self._asker.version,
            "holds": True,
        }
        if fact in self._since:
            answer["since"] = self._since[fact]
        return answer | {
            "matching": matching,
            "derivations": len(proofs.steps),
            "smallest": proofs.smallest,
            "proofs": steps,
        }

    def _step(self, step: Step) -> dict[str, Any]:
        facts = [*dict.fromkeys(f for fact in step.facts for f in self._visible(fact))]
        self._depth += 1
        data: dict[str, Any] = {
            "rule": self._asker.statement(step),
            "from": [*map(self._fact, facts[:SHOWN])],
        }
        self._depth -= 1
        if len(facts) > SHOWN:
            data["more"] = len(facts) - SHOWN
        if absent := [*map(str, step.absent)]:
            data["absent"] = absent[:SHOWN]
        return data

    def _visible(self, fact: Fact) -> Iterable[Fact]:
        """Yield a fact, or what one of a helper view follows from, which no author wrote."""
        if not is_helper(fact.predicate) or fact not in self._proofs.chosen:
            yield fact
            return
        for below in self._proofs.chosen[fact].facts:
            yield from self._visible(below)

    def _fact(self, fact: Fact) -> dict[str, Any]:
        data: dict[str, Any] = {"fact": self._asker.text(fact)}
        if fact in self._since:
            return data | {"since": self._since[fact]}
        if fact in self._written:
            return data | {"above": True}
        if self._depth == DEPTH and fact in self._proofs.chosen:
            return data | {"deeper": True}
        self._written.add(fact)
        step = self._proofs.chosen.get(fact)
        return data if step is None else data | self._step(step)


def _proof_lines(why: Why) -> list[str]:
    data = why.data
    matching = f", the first of {data['matching']:,} that match" if data["matching"] > 1 else ""
    lines = [
        f"{why.fact}{_since(data)}{matching}"
        if "since" in data
        else f"{why.fact} is in version {why.version}{matching}"
    ]
    for proof in data["proofs"]:
        lines += [f"by {proof['rule']}", *_branches(proof, "")]
    more = why.derivations - len(data["proofs"])
    if more > 0:
        lines.append(f"and by {more:,} other derivation{'s' * (more > 1)}")
    if not why.smallest:
        lines.append(
            "(there are too many facts to find the smallest proof: this one follows the ranks of "
            "recursion)"
        )
    return lines


def _branches(step: dict[str, Any], margin: str) -> list[str]:
    items: list[tuple[str, dict[str, Any]]] = []
    for fact in step["from"]:
        rule = "   (ask for it, as its proof goes deeper)" if "deeper" in fact else ""
        if "rule" in fact:
            rule = f"   by {fact['rule']}"
        elif "above" in fact:
            rule = "   (see above)"
        items.append((f"{fact['fact']}{_since(fact)}{rule}", fact))
    if "more" in step:
        items.append((f"and {step['more']:,} more", {}))
    items += [(text, {}) for text in step.get("absent", ())]
    lines: list[str] = []
    for number, (text, fact) in enumerate(items):
        last = number == len(items) - 1
        lines.append(f"{margin}{'└─' if last else '├─'} {text}")
        if "from" in fact:
            lines += _branches(fact, margin + ("   " if last else "│  "))
    return lines


def _since(data: Mapping[str, Any]) -> str:
    if "since" not in data:
        return ""
    if data["since"] is None:
        return "   since before the oldest version kept"
    return f"   since version {data['since']}"


def _missing_lines(why: Why) -> list[str]:
    data = why.data
    lines = [f"{why.fact} is not in version {why.version}"]
    lines += [f"there is {text} instead" for text in data["instead"]]
    for rule, failures in groupby(data["failures"], lambda failure: failure["rule"]):
        lines.append(rule)
        for failure in failures:
            where = ", ".join(f"{name} = {value}" for name, value in failure["where"].items())
            lines.append(
                f"   fails at {', '.join(failure['fails'])}" + f"   where {where}" * bool(where)
            )
    if data["insertions"]:
        lines.append(
            "any of these would bring it:"
            if len(data["insertions"]) > 1
            else "this would bring it:"
        )
        lines += [f"   {' '.join(f'{text}.' for text in some)}" for some in data["insertions"]]
        lines += [f"   with values of {', '.join(data['any'])} that fit the rules"] * bool(
            data["any"]
        )
    if not data["complete"]:
        lines.append("(there may be others, also smaller ones: the search was cut)")
    return lines


def causes(old: Asker, new: Asker, view: str) -> list[Cause]:
    """Return a view's rows that differ between two versions, each with the edits responsible."""
    if (
        view not in new.derivations.program.predicates
        and view not in old.derivations.program.predicates
    ):
        raise UnknownViewError(unknown(view, NOWHERE, new.derivations.program.predicates).reason)
    causes_of = Causes(Side(old.derivations, old.prove), Side(new.derivations, new.prove))
    out = []
    for inserted, row in _changes(old, new, view):
        edits = causes_of.of(Fact(view, row), inserted)
        out.append(
            Cause(
                inserted,
                row,
                tuple(sorted(_edit_text(new if e.inserted else old, e) for e in edits)),
            )
        )
    return out


def _edit_text(asker: Asker, edit: Edit) -> str:
    return f"{'+' if edit.inserted else '-'}{asker.text(edit.fact)}"


def _changes(old: Asker, new: Asker, view: str) -> list[tuple[bool, tuple[Any, ...]]]:
    table = new.store.diff(old.version, new.version, view).read_all()
    predicate = (
        new.derivations.program.predicates.get(view) or old.derivations.program.predicates[view]
    )
    columns = [table.column(name).to_pylist() for name in predicate.columns]
    signs = [change == "insert" for change in table.column("_change_type").to_pylist()]
    return [(sign, row) for sign, row in zip(signs, zip(*columns, strict=True), strict=True)]
