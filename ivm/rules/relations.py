"""Relations of a store as rules see them: how they are stored, and the declarations of those that
no text declares.

    edge     x: int64, y: int64                    edge(x, y) -> int64(x), int64(y).
    price    item: string, p: decimal(8,2)?        price[item] = p -> string(item), decimal(8,2)?(p).
    sale     id: int64, shop: string, n: int64     sale[id] = (shop, n) -> int64(id), string(shop), int64(n).

A relation with a key and other columns is a function of one value or several.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from re import compile, escape, findall, finditer
from typing import Any

import numpy as np

from ivm.errors import EditError, Where
from ivm.lang.functions import DECLARATION, USERS, users_functions
from ivm.lang.ir import NOWHERE, Predicate, Type, show_name, show_predicate
from ivm.lang.program import Program
from ivm.names import split_column
from ivm.plan.statistics import ROWS_ASSUMED, Distinct, Statistics
from ivm.terms.encoder import NotingEncoder
from ivm.views.layouts import PLAIN, Layout, extensional_layout
from pagestore.errors import SchemaError
from pagestore.host import Column, Schema, Snapshot, Transaction
from pagestore.host import Type as ColumnType

UNREAD = "uint64?"  # a type whose words differ from those of uint64
MARK = "// relations that the store had before, by their schemas:"
PLACE = "the store"  # where such a relation is declared, in messages


class Relations:
    """What a version of a store says to those who compile rules: its relations, its words, its
    numbers of rows.
    """

    def __init__(
        self,
        source: Snapshot | Transaction,
        relations: Any = None,
        views: Container[str] = (),
        opening: bool = False,
        whole: bool = False,
    ) -> None:
        """`relations` are those of another version, if not of `source`; trees of `views` are no
        relations.

        With `opening` a relation that does not fit its declaration has no layout, since one that no
        rule read may have been replaced; and nothing is estimated, since key orders are known.
        """
        self._relations: Any = source if relations is None else relations
        self._views, self._opening = views, opening
        statistics = Statistics(source, whole)
        self.encode = NotingEncoder(source)
        self.distinct: Distinct = _no_estimates if opening else statistics.distinct
        self.heavy = statistics.heavy

    def rows(self, name: str) -> int:
        """Return how many rows a predicate has; ROWS_ASSUMED for one that is not stored yet."""
        return self._relations.tree(name).count if name in self._relations else ROWS_ASSUMED

    def texts_between(self, low: bytes, high: bytes | None, most: int) -> np.ndarray | None:
        """Return the ids int64[n] of the texts from one up to another, or to the last; None for
        more than `most`.
        """
        return self.encode.between(low, high, most)

    def _has(self, name: str) -> bool:
        return name in self._relations and name not in self._views

    def declared(self, names: set[str], own: set[str], known: Program) -> dict[str, Predicate]:
        """Return the relations that a text mentions by some names and that only the store knows,
        sorted by name.

        The text itself defines those of the names `own`; `name:column` mentions the relation
        `name`. An installed text mentions no others, so none are looked for while opening. Raises
        SchemaError for a relation of a type that rules lack.
        """
        defined = own | known.predicates.keys()
        outside = {
            one for one in names - defined if split_column(one)[0] not in own and not self._opening
        }
        outside |= {split_column(name)[0] for name in outside if not self._has(name)} - defined
        predicates = dict[str, Predicate]()
        for name in sorted(filter(self._has, outside)):
            schema = function_schema(self._relations[name].info)
            _refuse_unread(name, schema)
            if predicate := predicate_of(name, schema, Where(PLACE, len(predicates) + 1, 1)):
                predicates[name] = predicate
        return predicates

    def layouts(self, predicates: Mapping[str, Predicate]) -> dict[str, Layout]:
        """Return the layouts of the extensional ones of some predicates. Raises as `layout`, but
        not while opening.
        """
        layouts = dict[str, Layout]()
        for name, predicate in predicates.items():
            with suppress(*[EditError] * self._opening):
                if predicate.extensional:
                    layouts[name] = self.layout(predicate)
        return layouts

    def layout(self, predicate: Predicate) -> Layout:
        """Return an extensional predicate's layout: its relation's, if that exists already.

        Raises EditError if the relation's columns do not fit the declaration.
        """
        if not self._has(predicate.name):
            return extensional_layout(predicate)
        schema = function_schema(self._relations[predicate.name].info)
        types = tuple(str(column.type) for column in schema.stored)
        declared = predicate.stored_types
        keys = len(predicate.keys) if predicate.key_count is None else predicate.key_count
        functional = (predicate.value or predicate.key_count) is not None and len(
            schema.key
        ) != max(1, keys)
        names = tuple(column.name for column in schema.stored)[: len(declared)]
        # values added since
        more = len(types) > len(declared) >= len(schema.key) and names == predicate.columns
        if (
            types[: len(declared)] != declared
            or functional
            or (len(types) != len(declared) and not more)
        ):
            raise EditError(
                f"the store has a relation {predicate.name} ({schema}; key "
                f"{', '.join(schema.key)}), which does not fit its declaration with "
                f"{', '.join(declared)}; change the declaration, or load it otherwise"
            )
        return Layout(
            PLAIN, len(schema.key), len(declared) - len(schema.key), 0, bare=not predicate.keys
        )


def _no_estimates(_predicate: str, _columns: tuple[int, ...]) -> float:
    raise AssertionError("a saved plan needs no estimates")


def with_declarations(text: str, program: Program) -> str:
    """Return a text with declarations, after a mark, of the relations that only the store declared,
    and of functions.

    A text is installed with them, so that its meaning does not depend on the store.
    """
    literals = [x for rule in program.rules for disjunct in rule.body for x in disjunct]
    functions = [
        f'{DECLARATION}("{name}", "{USERS[name]}").'
        for name in sorted({*users_functions(literals)})
    ]
    return declaring(
        text, *(program.predicates[name] for name in program.stored), functions=functions
    )


def declaring(text: str, *predicates: Predicate, functions: Iterable[str] = ()) -> str:
    """Return declarations of relations that existed before, and of functions, after a mark."""
    lines = [*(line for line in functions if line not in text), *map(show_predicate, predicates)]
    return "\n".join([text, *[MARK] * (f"\n{MARK}\n" not in text), *lines]) if lines else text


def declarations_of(source: Any, known: Mapping[str, Predicate]) -> dict[str, str | None]:
    """Return the declarations of all relations that rules do not derive, by name; None where
    they cannot declare it.
    """
    names = [name for name in source if name not in known or known[name].extensional]
    return {name: declaration_of(name, function_schema(source[name].info)) for name in names}


def declaration_of(name: str, schema: Schema | None) -> str | None:
    """Return the declaration of a relation; None if rules cannot declare it."""
    predicate = predicate_of(name, schema)
    return None if predicate is None else show_predicate(predicate)


def predicate_of(name: str, schema: Schema | None, where: Where = NOWHERE) -> Predicate | None:
    """Return a relation as a declaration of it would make it; None if rules cannot declare it."""
    if schema is None or set("`$\n") & {*name}:
        return None
    types = [str(column.type) for column in schema.stored]
    if UNREAD in types:
        return None
    columns = _names([column.name for column in schema.stored])
    nullable = tuple(place for place, type_ in enumerate(types) if type_.endswith("?"))
    plain: tuple[Type, ...] = tuple(type_.removesuffix("?") for type_ in types)
    keys, more = len(schema.key), len(types) - len(schema.key)
    if more == 1:
        return Predicate(name, plain[:-1], plain[-1], True, columns, nullable, where=where)
    return Predicate(
        name, plain, None, True, columns, nullable, keys if more else None, where=where
    )


def function_schema(info: Any) -> Schema:
    """Return the schema of a relation as rules read it: of a bag, a function from its rows to
    their multiplicities.
    """
    schema: Schema = info.schema
    if not info.bag:
        return schema
    names = (f"times{n}" if n else "times" for n in count())
    value = Column(next(name for name in names if name not in schema.names), ColumnType("int64"))
    return Schema((*schema.columns, value), schema.key)


def _refuse_unread(name: str, schema: Schema | None) -> None:
    """Raise SchemaError for a relation with a column of a type that rules lack."""
    for column in schema.stored if schema else ():
        if str(column.type) == UNREAD:
            raise SchemaError(
                f"rules cannot read {name!r}: its column {column.name} is {UNREAD}, which rules "
                f"lack: load it with --cast {column.name}=int64, or with a value for its nulls"
            )


def _names(columns: list[str]) -> tuple[str, ...]:
    """Return variable names for columns: their own, or c1, c2, ... if rules have none."""
    names = ["" if set("`$\n") & {*name} else name for name in columns]
    free = (f"c{n}" for n in count(1) if f"c{n}" not in names)
    return tuple(name or next(free) for name in names)


# -- reads of a relation that got other columns

TERM = r"""`[^`]*`\??|"(?:[^"\\]|\\.)*"|#[^#]*#|-?\w+(?:\.\d+)?\??"""
ENDS = r"\s*(?:[,;)]|\.(?!\d)|<-|->|$)"  # what follows an atom


def with_columns_of(text: str, was: Predicate, columns: Sequence[Column], declaration: str) -> str:
    """Return rules that read a relation with other columns than it `was` declared with, and as
    before.

    A new column is `_`.  The new `declaration` stays.  Raises EditError for an atom that is written
    in another way than SQL's rules write it, or that names a column which is gone.
    """
    pieces, end = list[str](), 0
    quoted = {
        place
        for match in finditer(r"\"(?:[^\"\\]|\\.)*\"|//[^\n]*", text)
        for place in range(*match.span())
    }
    for match in finditer(rf"(?<![\w:`$]){escape(show_name(was.name))}(?=[\[(])", text):
        if match.start() in quoted or text.startswith(declaration, match.start()):
            continue
        keys, values, after = _atom_at(text, match.end(), was)
        named = dict(zip(was.columns, keys + values, strict=True))
        gone = [
            term
            for name, term in named.items()
            if name not in {c.name for c in columns} and term.rstrip("?") != "_"
        ]
        if gone or (match.start() and text[match.start() - 1] in "+-^"):
            raise EditError(
                f"rules read columns of {was.name} by their positions, which have changed"
            )
        terms = [named.get(c.name, "_?" if str(c.type).endswith("?") else "_") for c in columns]
        pieces += text[end : match.end()], _written(terms[: len(keys)], terms[len(keys) :])
        end = after
    return "".join((*pieces, text[end:]))


def _written(keys: list[str], values: list[str]) -> str:
    if not values:
        return f"({', '.join(keys)})"
    return (
        f"[{', '.join(keys)}] = {values[0] if len(values) == 1 else '(' + ', '.join(values) + ')'}"
    )


def _atom_at(text: str, start: int, predicate: Predicate) -> tuple[list[str], list[str], int]:
    """Return the terms of the keys and values of an atom whose brackets start at a place, and
    where it ends.
    """
    many = rf"(?:\s*(?:{TERM})\s*(?:,|(?=[)\]])))*"
    shape = compile(
        rf"[\[(](?P<keys>{many})[\])](?:\s*=\s*(?:\((?P<values>{many})\)|(?P<value>{TERM})))?(?={ENDS})"
    )
    if match := shape.match(text, start):
        keys = findall(TERM, match["keys"])
        values = findall(TERM, match["values"] or match["value"] or "")
        if len(keys) + len(values) == len(predicate.columns) and (text[start] == "[") == bool(
            values
        ):
            return keys, values, match.end()
    raise EditError(
        f"rules read columns of {predicate.name} by their positions, which have changed"
    )
