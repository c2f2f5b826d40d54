"""Questions that keys answer: each of their tables is read at the words of a prefix of its key.

    SELECT t.n, m.top FROM total t JOIN most m USING (who) WHERE who = ?

    slot 0             the word of the parameter
    step total(0, 1, 2)    the records that begin with slot 0; their other words go to slots 1 and 2
    step most(0, 3)        the same, once for each of these

No program is made and no plan: O(rows * height) in all.  More rows than `ROWS_MOST` are left to
rules, which take all of them at a time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from ivm.answer import ListedAnswer
from ivm.sql.answers import are_as_stored
from ivm.sql.prepared.shape import number_of
from ivm.sql.queries.clauses import Rows
from ivm.sql.queries.expressions import COMPARE, GIVEN
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder
from ivm.sql.terms import Atom, Call, Lit, Literal, Place, Term, Test, Typed, Var
from ivm.sql.types import BIGINT, VARCHAR, SqlType
from pagestore.host import NULL, WORD_MAX, Type, read_batches, value_of_word

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MOST = 1000
HELPED = "SEMI", "ANTI"  # joins that are helper views
TYPES: dict[type, SqlType] = {int: BIGINT, str: VARCHAR}  # of values that are words of columns
TESTS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
COMPARED: tuple[type[exp.Expr], ...] = (*COMPARE, exp.Between)
Words = tuple[int, ...]


class TooMany(Exception):
    """More rows are read than one after the other should be."""


class Step(NamedTuple):
    """Records of a relation, whose words go to `slots` by their places, those of the first
    `prefix` columns from slots.
    """

    name: str
    prefix: Words
    keys: int
    slots: tuple[tuple[int, int], ...]  # of the records' other words
    required: Words  # the places that are not null
    weight: int | None  # the place of how often a row of a bag is there


class Seeks(NamedTuple):
    """A question's steps, `tests` of words of slots, and its columns: slots with their types."""

    steps: tuple[Step, ...]
    tests: tuple[tuple[Callable[[int, int], bool], int, int], ...]
    constants: tuple[tuple[int, Any], ...]  # slots with the values that the text has there
    columns: tuple[tuple[int, Type], ...]
    schema: pa.Schema

    def answer(self, source: Any, values: Sequence[int | str]) -> ListedAnswer | None:
        """Return the rows in a version or a transaction; None if there are too many."""
        id_of = source.dictionary.id_of
        try:
            given = {
                slot: id_of(value.encode()) if isinstance(value, str) else value
                for slot, value in (*enumerate(values), *self.constants)
            }
        except UnicodeEncodeError:
            return None
        if not all(-WORD_MAX <= word < WORD_MAX for word in given.values()):
            return None
        try:
            found = self._found(source, given)
        except TooMany:
            return None
        columns, texts = self.columns, source.dictionary
        rows = [
            tuple([value_of_word(type_, row[slot], texts) for slot, type_ in columns])
            for row in found
        ]
        if len(rows) > 1:
            rows.sort(key=_in_order)
        return ListedAnswer(rows, self.schema)

    def _found(self, source: Any, given: dict[int, int]) -> list[dict[int, int]]:
        """Return the words of all slots, for each row of the answer."""
        rows = [given]
        for step in self.steps:
            rows = [new for row in rows for new in _followed(step, source, row)]
            if len(rows) > ROWS_MOST:
                raise TooMany
        return [
            row
            for row in rows
            if all(
                row[left] != NULL != row[right] and holds(row[left], row[right])
                for holds, left, right in self.tests
            )
        ]


def _in_order(row: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    """Return by what rows are sorted, nulls first."""
    return [(value is not None, value) for value in row]


def _followed(step: Step, source: Any, row: dict[int, int]) -> list[dict[int, int]]:
    """Return the words of slots with those of each record that a step finds."""
    rows = list[dict[int, int]]()
    prefix = tuple([row[slot] for slot in step.prefix])
    for record in _records(source, step, prefix):
        new = {**row}
        if all(
            new.setdefault(slot, record[place]) == record[place] for place, slot in step.slots
        ) and not any(record[place] == NULL for place in step.required):
            rows += [new] * (1 if step.weight is None else record[step.weight])
    return rows


def _records(source: Any, step: Step, prefix: Words) -> list[Words]:
    """Return the records of a relation that begin with words.  Raises TooMany."""
    if len(prefix) == step.keys:
        values = source.finder(step.name).find(prefix)
        return [] if values is None else [(*prefix, *values)]
    tree, behind = source.tree(step.name), (*prefix[:-1], prefix[-1] + 1)
    batch = next(read_batches(source.pages, tree, prefix, behind, None, ROWS_MOST + 1), None)
    if batch is None:
        return []
    if batch.shape[1] > ROWS_MOST:
        raise TooMany
    return list(zip(*batch.tolist(), strict=True))


# -- from a query


def seeks_of(
    node: exp.Expr, kinds: Sequence[type], queries: Queries, source: Any, schema: pa.Schema
) -> Seeks | None:
    """Return how keys answer a query whose values are places of a text; None if they do not.

    `kinds` are the types of the values, and `schema` is that of the answers.  Raises SqlError.
    """
    if not _with_given(node, kinds):
        return None
    builder, rows = queries.builder, queries.query(node, None, top=True)
    literals = [builder.resolved(literal) for literal in rows.body.literals]
    planned = Planned(builder, rows, kinds, source)
    if builder.rules or rows.order or not are_as_stored(rows) or not planned.plan(literals):
        return None
    columns = [planned.column(builder.resolve(value.term)) for _, value in rows.columns]
    known = tuple([column for column in columns if column is not None])
    if len(known) < len(columns):
        return None
    constants = tuple([(slot, lit.value) for lit, slot in planned.constants.items()])
    return Seeks((*planned.steps,), (*planned.tests,), constants, known, schema)


def _with_given(node: exp.Expr, kinds: Sequence[type]) -> bool:
    """Let the places of values stand for variables; return whether each is compared with a column
    in a condition that must hold.
    """
    for place in node.find_all(exp.Placeholder):
        number = number_of(place.name)
        type_ = TYPES.get(kinds[number])
        test, other = compared_with(place)
        if type_ is None or test is None or not isinstance(other, exp.Column):
            return False
        around = test.parent
        while isinstance(around, exp.And | exp.Paren):
            around = around.parent
        is_outer = isinstance(around, exp.Join) and (around.side or around.kind in HELPED)
        if not isinstance(around, exp.Where | exp.Join) or is_outer:
            return False
        if place.parent_select is not node:  # whose helper views have no such variable
            return False
        given = place.meta[GIVEN] = Place(number)
        given.typed = Typed(Var(_given_name(number)), type_, False)
    return True


def compared_with(place: exp.Expr) -> tuple[exp.Expr | None, exp.Expr | None]:
    """Return the comparison that a place is a side of, and its other side; None for no such place."""
    test = place.parent
    if not isinstance(test, COMPARED):
        return None, None
    return test, test.this if test.this is not place else test.args.get("expression")


class Planned:
    """Steps while they are found: the slots of variables, and the types of what is in them."""

    def __init__(self, builder: Builder, rows: Rows, kinds: Sequence[type], source: Any) -> None:
        given = {_given_name(n): TYPES[kind] for n, kind in enumerate(kinds)}
        self.steps: list[Step] = []
        self.tests: list[tuple[Callable[[int, int], bool], int, int]] = []
        self.constants: dict[Lit, int] = {}  # the slot of each
        self._types: dict[int, Type] = {}
        self._slots = {name: n for n, name in enumerate(given)}
        self._fresh, self._source = count(len(given)), source
        self._required = builder.names_of(rows.body.required)
        typed = {name: Typed(Var(name), type_, False) for name, type_ in given.items()}
        self._columns = typed | rows.body.columns
        # no two values were equated, and each is compared with columns of its own type alone:
        # a text is another word as a UUID, whose letters are small, or as JSON
        self._fits = all(
            builder.resolve(Var(name)) == Var(name) and word_type(self._columns[name].type) == type_
            for name, type_ in given.items()
        )

    def plan(self, literals: Sequence[Literal]) -> bool:
        """Find steps for all literals; return whether there are."""
        left = [literal for literal in literals if isinstance(literal, Atom)]
        others = [one for one in literals if not isinstance(one, Atom)]
        for one in others:
            if not isinstance(one, Test) or not self._is_compared(one.term):
                return False
        while self._fits and left:
            best = max(left, key=lambda one: len(self._prefix(one)))
            if not self._step(best):
                return False
            left.remove(best)
        return self._fits and bool(self.steps) and all(map(self._test, others))

    def column(self, term: Term) -> tuple[int, Type] | None:
        """Return the slot of a variable, and the type of what is in it."""
        slot = self._slots.get(term.name) if isinstance(term, Var) else None
        type_ = None if slot is None else self._types.get(slot)
        return None if slot is None or type_ is None else (slot, type_)

    def _is_compared(self, term: Term) -> bool:
        """Return whether a condition compares words; a constant variable gets its slot."""
        if not (isinstance(term, Call) and term.name in TESTS and len(term.args) == 2):
            return False
        types = [*map(self._type_of, term.args)]
        if None in types or types[0] != types[1]:
            return False
        if types[0] != BIGINT and term.name not in ("=", "!="):
            return False
        for side, other in (term.args, term.args[::-1]):
            if isinstance(other, Lit):
                slot = self._constant(other)
                if term.name == "=" and isinstance(side, Var):
                    self._slots.setdefault(side.name, slot)
        return True

    def _type_of(self, term: Term) -> SqlType | None:
        """Return BIGINT for all whole numbers of a word, VARCHAR for texts, None for others."""
        if isinstance(term, Lit):
            return TYPES.get(type(term.value)) if term.store in ("int64", "string") else None
        typed = self._columns.get(term.name) if isinstance(term, Var) else None
        return None if typed is None else word_type(typed.type)

    def _constant(self, lit: Lit) -> int:
        if lit not in self.constants:
            self.constants[lit] = next(self._fresh)
        return self.constants[lit]

    def _slot_of(self, term: Term) -> int | None:
        if isinstance(term, Lit):
            return self._constant(term)
        return self._slots.get(term.name) if isinstance(term, Var) else None

    def _prefix(self, atom: Atom) -> list[int]:
        """Return the slots that the first arguments of an atom are in."""
        places = list[int]()
        for term in atom.keys:
            if not isinstance(term, Var) or term.name not in self._slots:
                break
            places.append(self._slots[term.name])
        return places

    def _step(self, atom: Atom) -> bool:
        """Add the step of an atom; return whether its key leads to its records."""
        prefix, relation = self._prefix(atom), self._source[atom.name]
        stored = relation.info.schema.stored
        visible = len(stored) + atom.weighs
        if not prefix or relation.computed_place is not None or len(atom.terms) != visible:
            return False
        slots, required = list[tuple[int, int]](), list[int]()
        for place, term in enumerate(atom.terms[: len(stored)]):
            if term is None:
                continue
            if not isinstance(term, Var):
                return False
            if term.name not in self._slots:
                self._slots[term.name] = next(self._fresh)
            slot = self._slots[term.name]
            self._types.setdefault(slot, stored[place].type)
            if self._types[slot].name != stored[place].type.name:
                return False
            if place >= len(prefix):
                slots.append((place, slot))
            if term.name in self._required:
                required.append(place)
        weight = len(stored) if atom.weighs else None
        keys = relation.info.spec.keys
        self.steps.append(Step(atom.name, (*prefix,), keys, (*slots,), (*required,), weight))
        return True

    def _test(self, literal: Literal) -> bool:
        """Add a test of words, after those of all steps; return whether both are known."""
        assert isinstance(literal, Test) and isinstance(literal.term, Call)
        slots = [*map(self._slot_of, literal.term.args)]
        if slots[0] is None or slots[1] is None:
            return False
        self.tests.append((TESTS[literal.term.name], slots[0], slots[1]))
        return True


def word_type(type_: SqlType) -> SqlType | None:
    """Return BIGINT for all whole numbers of a word, VARCHAR for texts, None for others."""
    if type_.is_integer and type_.store == BIGINT.store:
        return BIGINT
    return VARCHAR if type_ == VARCHAR else None


def _given_name(number: int) -> str:
    """Return the name of the variable that stands for a value."""
    return f"_p{number}"
