"""Which edits are done by key, and how: from a statement whose values are places of its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlglot import exp

from ivm.sql.catalog import Catalog
from ivm.sql.edits.insert import EXCLUDED, conflict_of
from ivm.sql.edits.target import Places, Target, is_default
from ivm.sql.literals import constant
from ivm.sql.prepared.cases import Case, Source, of_column
from ivm.sql.prepared.edits import KeyedEdit
from ivm.sql.prepared.rows import Unusual
from ivm.sql.prepared.seeks import TYPES, word_type
from ivm.sql.prepared.shape import number_of
from ivm.sql.queries.expressions import COMPARE
from ivm.sql.session import Reader
from ivm.sql.system.session import BESIDE, MOMENTARY
from ivm.sql.terms import Lit
from ivm.sql.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTERVAL, SqlType

if TYPE_CHECKING:
    import pyarrow as pa

EQUAL, UNEQUAL = 2, 5
TESTS = {"=": EQUAL, "!=": UNEQUAL, "<": 1, "<=": 3, ">": 4, ">=": 6}  # in which of -1, 0, 1
SIGNS: dict[type[exp.Expr], int] = {exp.Add: 1, exp.Sub: -1}
CLAUSES: dict[type[exp.Expr], set[str]] = {
    exp.Insert: {"this", "expression", "returning", "conflict", "alternative", "ignore"},
    exp.Update: {"this", "expressions", "where", "returning"},
    exp.Delete: {"this", "where", "returning"},
    exp.Merge: {"this", "using", "on", "using_cond", "whens", "returning"},
}
GIVEN_TYPES = TYPES | {float: DOUBLE, date: DATE, bool: BOOLEAN}  # of the values of a MERGE
Parts = tuple[tuple[int, Source], ...]


class Beside(NamedTuple):
    """A value of the row beside that of the table: of `excluded`, or of the source of a MERGE."""

    source: Source
    type: SqlType


def edit_of(
    node: exp.Expr, kinds: Sequence[type], reader: Reader, catalog: Catalog, schema: pa.Schema
) -> KeyedEdit | None:
    """Return a statement as an edit by key; None for any other.

    Values are places of its text, `kinds` their types; `schema` is that of its answer.  Raises
    SqlError for what is wrong.
    """
    others = node.args.keys() - CLAUSES[type(node)]
    if any(map(node.args.get, others)) or MOMENTARY in node.meta or BESIDE in node.meta:
        return None
    table = node.this.this if isinstance(node.this, exp.Schema) else node.this
    target = Target(cast(Any, None), reader, catalog, table, node)  # which edits nothing
    edit = KeyedEdit(target.name, tuple(target.columns), target.key, (), node)
    try:
        return _Translation(target, kinds).edit(node, edit, schema)
    except Unusual:
        return None


class _Translation:
    """What the expressions of a statement mean, whose row `beside` that of the table has names."""

    def __init__(self, target: Target, kinds: Sequence[type]) -> None:
        self.target, self.kinds = target, kinds
        self.beside: dict[tuple[str, str], Beside] = {}

    def edit(self, node: exp.Expr, edit: KeyedEdit, schema: pa.Schema) -> KeyedEdit:
        """Return how a statement is done.  Raises Unusual, SqlError."""
        if isinstance(node, exp.Insert):
            rows = [*self._rows(node)]
            if not any(map(node.args.get, ("returning", "conflict", "alternative", "ignore"))):
                each = (
                    rows.pop()
                    if len(rows) == 1 and edit.key
                    else tuple(map(Source, range(len(edit.columns))))
                )
                case = Case(tuple(each[place] for place in edit.key), None, new=each)
                return replace(edit, rows=(*rows,), cases=(case,) if edit.key else ())
            cases = [self._inserted(node, row) for row in rows]
        elif isinstance(node, exp.Merge):
            cases = [self._merged(node)]
        else:
            is_update = isinstance(node, exp.Update)
            changed = self._assigned(node) if is_update else ()
            key, checks = self._where(node)
            cases = [Case(key, changed, gone=not is_update, tests=checks)]
        if self.target.bag:
            raise Unusual
        edit = replace(edit, cases=(*cases,))
        if not node.args.get("returning"):
            return edit
        if len(cases) > 1:  # whose rows have an order
            raise Unusual
        return replace(edit, returning=self._returned(node), schema=schema)

    def _rows(self, node: exp.Insert) -> Iterator[tuple[Source, ...]]:
        """Yield the rows of VALUES, whole ones."""
        named = node.this.expressions if isinstance(node.this, exp.Schema) else []
        places = self.target.places(named, node)
        if not isinstance(node.expression, exp.Values):
            raise Unusual
        for row in node.expression.expressions:
            yield self._row(places, row.expressions if isinstance(row, exp.Tuple) else [row], node)

    def _row(
        self, places: list[int], items: Sequence[exp.Expr], node: exp.Expr
    ) -> tuple[Source, ...]:
        """Return a row of some values and the defaults of other columns."""
        if len(items) != len(places):
            raise Unusual
        given = dict(zip(places, items, strict=True))
        return tuple(
            self._value(place, given[place]) if place in given else self._default(place, node)
            for place in range(len(self.target.columns))
        )

    def _inserted(self, node: exp.Insert, row: tuple[Source, ...]) -> Case:
        """Return what becomes of one row of an INSERT with ON CONFLICT, or what it returns."""
        target = self.target
        where = tuple(row[place] for place in target.key)
        named = node.this.expressions if isinstance(node.this, exp.Schema) else []
        clause = conflict_of(target, node, target.places(named, node))
        if clause is None:
            return Case(where, None, new=row)
        words = node.args.get("conflict")
        defaults = words is not None and any(map(is_default, words.find_all(exp.Var, exp.Column)))
        if defaults or clause.keys != [tuple(sorted(target.key))]:
            raise Unusual
        self.beside = {
            (EXCLUDED, column.name.lower()): Beside(source, column.type)
            for column, source in zip(target.columns, row, strict=True)
        }
        assigned = {
            place: value
            for place, value in (clause.assigned or {}).items()
            if place not in target.key or words is not None  # which the row of OR REPLACE has
        }
        changed = self._changed(assigned)
        if not changed and clause.assigned is not None:  # which counts the row all the same
            raise Unusual
        checks = () if clause.where is None else self._checks(clause.where)
        return Case(where, changed, new=row, tests=checks)

    def _merged(self, node: exp.Merge) -> Case:
        """Return what a MERGE of one row does."""
        self.beside = self._source(node.args["using"])
        then: dict[bool, exp.Expr] = {}
        checks: Parts = ()
        for when in node.args["whens"].expressions:
            matched = when.args["matched"]
            condition = when.args.get("condition")
            if when.args.get("source") or matched in then or (condition and not matched):
                raise Unusual
            then[matched] = when.args["then"]
            checks += () if condition is None else self._checks(condition)
        case, change = Case(self._matching(node), tests=checks), then.get(True)
        fresh = then.get(False)
        if fresh is not None:
            if not isinstance(fresh, exp.Insert) or not isinstance(fresh.expression, exp.Tuple):
                raise Unusual
            places = self.target.places(fresh.this.expressions if fresh.this else [], fresh)
            case = case._replace(new=self._row(places, fresh.expression.expressions, fresh))
        if change is None:
            return case
        if change.name.upper() == "DELETE":
            return case._replace(gone=True)
        return case._replace(changed=self._assigned(change))

    def _source(self, node: exp.Expr) -> dict[tuple[str, str], Beside]:
        """Return the values of a source of one row by their names."""
        alias, names, values = node.args.get("alias"), list[str](), list[exp.Expr]()
        if alias is None:
            raise Unusual
        match node:
            case exp.Values(expressions=[exp.Tuple(expressions=values)]):
                pass
            case exp.Subquery(this=exp.Select() as query) if not any(
                value for key, value in query.args.items() if key != "expressions"
            ):
                names = [item.alias for item in query.expressions]
                values = [item.unalias() for item in query.expressions]
            case _:
                raise Unusual
        names = [column.name for column in alias.args.get("columns") or ()] or names
        if len({*map(str.lower, names)} - {""}) < len(values):
            raise Unusual
        return {
            (alias.name.lower(), name.lower()): self._given(value)
            for name, value in zip(names, values, strict=True)
        }

    def _given(self, node: exp.Expr) -> Beside:
        """Return a value of a source, whose type is not that of a column."""
        if not isinstance(node, exp.Placeholder):
            raise Unusual
        number = number_of(node.name)
        type_ = GIVEN_TYPES.get(self.kinds[number])
        if type_ is None:
            raise Unusual
        return Beside(Source(number), type_)

    def _matching(self, node: exp.Merge) -> tuple[Source, ...]:
        """Return where the values of the key come from that a row of a MERGE matches."""
        sources: dict[int, Source] = {}
        if names := node.args.get("using_cond"):
            alias = node.args["using"].alias_or_name
            tests: Iterator[tuple[exp.Expr, exp.Expr]]
            tests = iter((exp.column(name.name), exp.column(name.name, alias)) for name in names)
        else:
            tests = _equations([node.args["on"]])
        for sides in tests:
            other, column = sides if self._is_beside(sides[0]) else sides[::-1]
            place = self._own(column)
            if place in sources:
                raise Unusual
            sources[place] = self._other(other, self.target.columns[place].type)
        return self._key(sources)

    # -- conditions and values

    def _where(self, node: exp.Expr) -> tuple[tuple[Source, ...], Parts]:
        """Return where the values of a key come from, of a condition that says them, and what else
        it says of the row.
        """
        sources: dict[int, Source] = {}
        checks: Parts = ()
        for part in _parts([node.args["where"].this] if node.args.get("where") else []):
            given, place = self._given_key(part)
            if given is None or place is None or place in sources:
                checks += self._checks(part)
            else:
                sources[place] = given
        return self._key(sources), checks

    def _given_key(self, node: exp.Expr) -> tuple[Source | None, int | None]:
        """Return the value that an equation says of a column of the key, and the column's place."""
        if not isinstance(node, exp.EQ):
            return None, None
        column, given = (node.this, node.expression)
        if not isinstance(column, exp.Column):
            column, given = given, column
        if not isinstance(given, exp.Placeholder):
            return None, None
        place, number = self._own(column), number_of(given.name)
        type_ = TYPES.get(self.kinds[number])
        fits = type_ is not None and word_type(self.target.columns[place].type) == type_
        return (Source(number), place) if fits and place in self.target.key else (None, None)

    def _checks(self, node: exp.Expr) -> Parts:
        """Return the comparisons of words that a condition is made of."""
        checks = list[tuple[int, Source]]()
        for part in _parts([node]):
            left, right = self._compared(part.this), self._compared(part.expression)
            test, ordered = TESTS.get(COMPARE.get(type(part), ""), 0), left.type == BIGINT
            if not test or left.type != right.type or not (ordered or test in (EQUAL, UNEQUAL)):
                raise Unusual
            checks += [(0, left.source), (test, right.source)]
        return tuple(checks)

    def _compared(self, node: exp.Expr | None) -> Beside:
        """Return a side of a comparison: a value, or a column of either row."""
        if isinstance(node, exp.Placeholder):
            side = self._given(node)
        elif isinstance(node, exp.Column):
            place = None if self._is_beside(node) else self._own(node)
            side = (
                self.beside[_name(node)]
                if place is None
                else Beside(Source(place=place), self.target.columns[place].type)
            )
        else:
            known = None if node is None else constant(node)
            if known is None or not isinstance(known.term, Lit):
                raise Unusual
            side = Beside(Source(constant=known.term.value), known.type)
        type_, number = word_type(side.type), side.source.number
        if type_ is None or (number is not None and TYPES.get(self.kinds[number]) != type_):
            raise Unusual
        return side._replace(type=type_)

    def _key(self, sources: dict[int, Source]) -> tuple[Source, ...]:
        if {*sources} != {*self.target.key}:
            raise Unusual
        return tuple(sources[place] for place in self.target.key)

    def _own(self, node: exp.Expr) -> int:
        """Return the place of a column of the table."""
        if not isinstance(node, exp.Column) or node.text("table") not in ("", self.target.alias):
            raise Unusual
        return self.target.known(node.name, node)

    def _is_beside(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Column) and _name(node) in self.beside

    def _other(self, node: exp.Expr, type_: SqlType) -> Source:
        """Return a value of the row beside, which a column of a type stores as it is."""
        beside = self.beside.get(_name(node)) if isinstance(node, exp.Column) else None
        if beside is None:
            raise Unusual
        word = word_type(beside.type)
        if beside.type != type_ and (word is None or word != word_type(type_)):
            raise Unusual
        return beside.source

    def _value(self, place: int, node: exp.Expr) -> Source:
        """Return where a value that the statement gives to a column comes from."""
        if is_default(node):
            return self._default(place, node)
        self.target.refuse_numbers([place], node)
        type_ = self.target.columns[place].type
        if isinstance(node, exp.Placeholder):
            return Source(number_of(node.name))
        if self._is_beside(node):
            return self._other(node, type_)
        known = constant(node)
        if known is None:
            raise Unusual
        return Source(constant=of_column(known, type_))

    def _default(self, place: int, node: exp.Expr) -> Source:
        """Return a column's default, unless it is computed for each row."""
        if not self.target.has_lasting_default(place):
            raise Unusual
        return Source(constant=self.target.default(place, node))

    def _assigned(self, node: exp.Expr) -> Parts:
        """Return what the SET of an UPDATE, or of a part of a statement, assigns."""
        if not node.expressions or any(map(is_default, node.find_all(exp.Var, exp.Column))):
            raise Unusual
        return self._changed(self.target.assignments(node.expressions))

    def _changed(self, assigned: dict[int, exp.Expr]) -> Parts:
        """Return what is assigned to each column that is not of the key."""
        changed = list[tuple[int, Source]]()
        for place, value in assigned.items():
            if place in self.target.key:
                raise Unusual
            sign, type_ = SIGNS.get(type(value)), self.target.columns[place].type
            if sign is None:
                changed.append((place, self._value(place, value)))
            else:
                summed = self._own(value.this)
                types = type_, self.target.columns[summed].type
                if {*map(word_type, types)} != {BIGINT} or not all(t.range for t in types):
                    raise Unusual
                whole = self._whole(value.expression)
                changed.append((place, whole._replace(place=summed, sign=sign)))
        return tuple(changed)

    def _whole(self, node: exp.Expr) -> Source:
        """Return where a whole number comes from."""
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            return Source(constant=int(node.name))
        if self._is_beside(node):
            source = self._other(node, BIGINT)
        elif isinstance(node, exp.Placeholder):
            source = Source(number_of(node.name))
        else:
            raise Unusual
        kind = type(source.constant) if source.number is None else self.kinds[source.number]
        if kind is not int:
            raise Unusual
        return source

    def _returned(self, node: exp.Expr) -> Places:
        """Return the columns that RETURNING names."""
        places = list[int]()
        for item in node.args["returning"].expressions:
            star = isinstance(item, exp.Star) and not any(item.args.values())
            places += range(len(self.target.columns)) if star else [self._own(item.unalias())]
        types = [self.target.columns[place].type for place in places]
        if any(type_.is_nested or type_ == INTERVAL for type_ in types):  # are stored otherwise
            raise Unusual
        return tuple(places)


def _equations(left: list[exp.Expr]) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Yield both sides of the equations of conjunctions.  Raises Unusual for anything else."""
    for part in _parts(left):
        if not isinstance(part, exp.EQ):
            raise Unusual
        yield part.this, part.expression


def _parts(left: list[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the parts of conjunctions."""
    while left:
        part = left.pop()
        if isinstance(part, exp.Paren):
            left.append(part.this)
        elif isinstance(part, exp.And):
            left += [part.this, part.expression]
        elif isinstance(part, exp.Between) and not part.args.get("symmetric"):
            low, high = part.args["low"], part.args["high"]
            left += [exp.GTE(this=part.this, expression=low)]
            left += [exp.LTE(this=part.this, expression=high)]
        else:
            yield part


def _name(node: exp.Expr) -> tuple[str, str]:
    """Return the table and the name of a column, as they are compared."""
    return node.text("table").lower(), node.name.lower()
