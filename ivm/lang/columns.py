"""Read one column of a function of several values as a function, by LogiQL's hierarchical names.

    customer[c] = (n, e, a) -> int(c), string(n), string?(e), int(a).

    p(c, e) <- customer:email[c] = e.                           means    p(c, e) <- customer(c, _, e, _).
    p(n, e) <- customer:name[c] = n, customer:email[c] = e.     means    p(n, e) <- customer(c, n, e, _).

The column of a function of one value is the function: price:p[i] = x is price[i] = x. A predicate whose own name has
this form takes precedence.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from re import fullmatch
from typing import NamedTuple

from ivm.errors import ArityError, ConstructError
from ivm.lang.ir import Atom, Const, Literal, Negation, Predicate, Rule, Var
from ivm.lang.traverse import unnamed_in, variables


def with_columns(rule: Rule, known: Mapping[str, Predicate]) -> Rule:
    """Replace reads of single columns by reads of the whole functions.  Raises ArityError, ConstructError."""
    taken = {v.name for disjunct in rule.body for v in variables(*disjunct)} | {v.name for v in variables(*rule.heads)}
    columns = _Columns(known, (f"_{n}" for n in count(1000) if f"_{n}" not in taken), unnamed_in(rule))
    body = tuple(tuple(columns.read(literal)[0] for literal in columns.checked(disjunct)) for disjunct in rule.body)
    return rule if body == rule.body else replace(rule, body=body)


Conjunction = tuple[Literal, ...]


class _Columns(NamedTuple):
    """The context in which columns are read: predicates, names for new variables, and variables written `_`."""

    known: Mapping[str, Predicate]
    fresh: Iterator[str]
    unnamed: set[str]

    def place(self, literal: Literal) -> tuple[str, str]:
        """Return the function and column that a literal may read, else two empty texts."""
        if not isinstance(literal, Atom) or literal.value is None or literal.predicate in self.known:
            return "", ""
        name, _, column = literal.predicate.rpartition(":")
        return name, column

    def checked(self, conjunction: Conjunction) -> Conjunction:
        """Return the conjunction. Raises ConstructError for two columns at a key `_`: their rows could differ."""
        seen: dict[tuple[str, tuple[object, ...]], str] = {}
        for literal in conjunction:
            name, column = self.place(literal)
            if not isinstance(literal, Atom) or name not in self.known:
                continue
            key = tuple("_" if isinstance(v, Var) and v.name in self.unnamed else v for v in literal.args)
            other = seen.setdefault((name, key), column)
            if other != column and "_" in key:
                at = ", ".join(map(str, key))
                raise ConstructError(
                    literal.where,
                    f"{name}:{column}[{at}] may be of another row than {name}:{other}[{at}]: for one row write the "
                    "same variable for `_` in both, for any two rows a variable of its own in each",
                )
        return conjunction

    def read(self, literal: Literal) -> tuple[Literal, tuple[Var, ...]]:
        """Return the literal reading whole functions, and the variables added to it."""
        if isinstance(literal, Negation):
            parts = [*map(self.read, self.checked(literal.body))]
            more = tuple(v for _, added in parts for v in added)
            return replace(literal, body=tuple(part for part, _ in parts), exists=(*literal.exists, *more)), ()
        name, column = self.place(literal)
        predicate = self.known.get(name)
        if not isinstance(literal, Atom) or literal.value is None or predicate is None:
            return literal, ()
        if predicate.value is not None and column == predicate.columns[-1]:
            return replace(literal, predicate=name), ()
        if predicate.key_count is None or column not in predicate.columns[predicate.key_count :]:
            return literal, ()
        if len(literal.args) != predicate.key_count:
            reason = f"{literal.predicate} takes {predicate.key_count} arguments, not {len(literal.args)}"
            raise ArityError(literal.where, f"{reason}: {predicate}")
        value = literal.value
        if isinstance(value, Var) and value.name in self.unnamed:  # a `_` here tests whether a value exists
            value = Var(f"{next(self.fresh)}v", where=value.where)
        others = predicate.columns[predicate.key_count :]
        values = [value if other == column else Var(next(self.fresh), where=literal.where) for other in others]
        added = tuple(v for v in values if isinstance(v, Var) and v is not literal.value)
        return Atom(name, (*literal.args, *values), where=literal.where), added


# -- atoms of one row

ASKED = r"_\d+v"  # a variable that tests whether a column has a value


def with_one_atom_a_row(rule: Rule, known: Mapping[str, Predicate]) -> Rule:
    """Merge the atoms that read one function of several values at one key, to avoid a self-join."""
    unnamed = unnamed_in(rule)
    body = tuple(_merged(disjunct, known, unnamed) for disjunct in rule.body)
    return rule if body == rule.body else replace(rule, body=body)


def _merged(conjunction: Conjunction, known: Mapping[str, Predicate], unnamed: set[str]) -> Conjunction:
    places, found = dict[tuple[object, ...], int](), list[Literal]()
    for literal in conjunction:
        if isinstance(literal, Negation):
            body = _merged(literal.body, known, unnamed)
            own = {v for v in variables(*body) if v in literal.exists} | {
                v for v in literal.exists if v in _nested(body)
            }
            literal = replace(literal, body=body, exists=tuple(v for v in literal.exists if v in own))
        predicate = known.get(literal.predicate) if isinstance(literal, Atom) else None
        if isinstance(literal, Atom) and predicate and predicate.key_count is not None:
            key = literal.predicate, literal.args[: predicate.key_count]
            place = places.setdefault(key, len(found))
            if place < len(found) and (one := _one_atom(found[place], literal, unnamed)):
                found[place] = one
                continue
        found.append(literal)
    return tuple(found)


def _nested(conjunction: Conjunction) -> set[Var]:
    return {v for part in conjunction if isinstance(part, Negation) for v in variables(*part.body)}


def _one_atom(one: Literal, other: Atom, unnamed: set[str]) -> Atom | None:
    """Merge two atoms that read one row; return None if they have different terms for a column."""
    assert isinstance(one, Atom)
    terms = [_one_term(a, b, unnamed) for a, b in zip(one.args, other.args, strict=True)]
    args = tuple(term for term in terms if term is not None)
    return replace(one, args=args) if len(args) == len(terms) else None


def _one_term(a: Var | Const, b: Var | Const, unnamed: set[str]) -> Var | Const | None:
    for term, instead in ((a, b), (b, a)):
        if isinstance(term, Var) and (term.name in unnamed or fullmatch(ASKED, term.name)):
            asks = isinstance(instead, Var) and instead.name in unnamed and term.name not in unnamed
            return term if asks else instead
    return a if a == b else None
