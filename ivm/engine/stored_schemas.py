"""Derive declarations from the schemas of relations that the store has and no text declares.

    edge     x: int64, y: int64                    edge(x, y) -> int64(x), int64(y).
    price    item: string, p: decimal(8,2)?        price[item] = p -> string(item), decimal(8,2)?(p).
    sale     id: int64, shop: string, n: int64     sale[id] = (shop, n) -> int64(id), string(shop), int64(n).

A relation with a key and other columns is a function of one value or several.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any

from ivm.lang import compile
from ivm.lang.ir import Predicate, show_name, show_type
from pagestore.errors import SchemaError
from pagestore.host import Schema

UNREAD = "uint64?"  # a type whose words differ from those of uint64
MARK = "// relations that the store had before, by their schemas:"


def declarations_for(source: Any, text: str, known: Mapping[str, Predicate], block: str) -> str:
    """Return declarations, after a mark, of the relations that a text reads and that only the store knows.

    The text is installed with them, so that its meaning does not depend on the store. Raises RuleSyntaxError, which
    names the block, and SchemaError for a relation of a type that rules lack.
    """
    from ivm.lang.mentions import mentioned  # imports the parser, which opening a workspace does not need

    needed = {name for name in mentioned(text, block) if name not in known}
    needed |= {name.rpartition(":")[0] for name in needed if name not in source} - {*known}
    names = sorted(name for name in needed if name in source)
    for name in names:
        _refuse_unread(name, source[name].info.schema)
    found = (declaration_of(name, source[name].info.schema) for name in names)
    lines = [declaration for declaration in found if declaration]
    return "\n".join(["", MARK, *lines]) if lines else ""


def declarations_of(source: Any, known: Mapping[str, Predicate]) -> dict[str, str | None]:
    """Return the declarations of all relations that rules do not derive, by name; None where they cannot declare it."""
    names = [name for name in source if name not in known or known[name].extensional]
    return {name: declaration_of(name, source[name].schema) for name in names}


def stored_before(text: str) -> set[str]:
    """Return the relations that existed before an installed text: those declared after the mark."""
    return {*compile(text.partition(f"\n{MARK}\n")[2]).predicates}


def declaration_of(name: str, schema: Schema | None) -> str | None:
    """Return the declaration of a relation; None if rules cannot declare it."""
    if schema is None or set("`$\n") & {*name}:
        return None
    if any(str(column.type) == UNREAD for column in schema.stored):
        return None
    columns = _names([column.name for column in schema.stored])
    typed = ", ".join(f"{show_type(str(c.type))}({n})" for c, n in zip(schema.stored, columns, strict=True))
    name = show_name(name)
    if len(columns) == len(schema.key) + 1:
        return f"{name}[{', '.join(columns[:-1])}] = {columns[-1]} -> {typed}."
    if len(columns) > len(schema.key):
        keys, values = ", ".join(columns[: len(schema.key)]), ", ".join(columns[len(schema.key) :])
        return f"{name}[{keys}] = ({values}) -> {typed}."
    return f"{name}({', '.join(columns)}) -> {typed}."


def _refuse_unread(name: str, schema: Schema | None) -> None:
    """Raise SchemaError for a relation with a column of a type that rules lack."""
    for column in schema.stored if schema else ():
        if str(column.type) == UNREAD:
            raise SchemaError(
                f"rules cannot read {name!r}: its column {column.name} is {UNREAD}, which rules lack: load it with "
                f"--cast {column.name}=int64, or with a value for its nulls"
            )


def _names(columns: list[str]) -> list[str]:
    """Return variable names for columns: their own names, or c1, c2, ... for names that rules cannot write."""
    own = ["" if set("`$\n") & {*name} else name for name in columns]
    free = (f"c{n}" for n in count(1) if f"c{n}" not in own)
    return [show_name(name or next(free)) for name in own]
