"""SQL on rules: statements are translated to trees of rules; a file keeps these as text."""

from typing import Any

from ivm.names import is_helper as is_helper
from ivm.names import names_of as names_of
from ivm.names import wide_names as wide_names
from ivm.sql.system import postgres_types as postgres_types
from ivm.wide import statement_of as statement_of


def described(
    ws: Any, text: str, dialect: str = "duckdb"
) -> tuple[list[str], list[tuple[str, str]] | None]:
    """Return the types of the parameters `$1`, `$2` ... of a statement, and its columns by name and
    type, which it would have without values; nothing is run.  `ws` is a workspace.

    A type is empty where the statement does not say it, and the columns are None where only the
    answer has them.  Raises SqlError.
    """
    # imports sqlglot, which others do not need
    from ivm.sql.session import Reader
    from ivm.sql.statements import parse
    from ivm.sql.system.described import columns_of, parameter_types
    from ivm.sql.system.session import BESIDE

    with Reader(ws).catalog() as catalog:
        types = parameter_types(catalog, text, dialect)
        columns: list[tuple[str, str]] | None = []
        # LIMIT takes no null, and ANY no list of nothing
        given: list[Any] = [[] if t.endswith("[]") else 1 if "INT" in t else None for t in types]
        for node, explained in parse(text, dialect, given or None):
            is_plain = (
                not explained and BESIDE not in node.meta and node.key not in ("show", "describe")
            )
            columns = columns_of(catalog, node) if is_plain else None
    return types, columns


def split(text: str, dialect: str = "duckdb") -> list[str]:
    """Return the statements of a text, each at its place with blanks before it."""
    from ivm.sql.system.settings import pieces  # imports sqlglot, which others do not need

    return [*pieces(text, dialect)]


def settings() -> dict[str, str]:
    """Return what SHOW ALL shows: the settings that hold here, by name in small letters."""
    from ivm.sql.system.settings import VALUES  # imports sqlglot, which others do not need

    return dict(VALUES)


def reads_only(text: str, dialect: str = "duckdb") -> bool:
    """Return whether a text's statements change nothing.  SqlError if it does not parse."""
    # imports sqlglot, which others do not need
    from ivm.sql.statements import parse, read_nothing_else

    return read_nothing_else(parse(text, dialect))


def edits_rows(text: str, dialect: str = "duckdb") -> bool:
    """Return whether the statements of a text edit rows, or read them, and neither files nor what
    is declared.

    Raises SqlError for a text that does not parse.
    """
    # imports sqlglot, which others do not need
    from ivm.sql.statements import EDITS, QUERIES, parse

    return all(
        isinstance(node, (*EDITS, *QUERIES)) and not explained
        for node, explained in parse(text, dialect)
    )
