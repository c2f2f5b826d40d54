"""SQL on rules: statements are translated to trees of rules; a file keeps these as text."""

from ivm.names import is_helper as is_helper
from ivm.names import names_of as names_of
from ivm.names import wide_names as wide_names
from ivm.wide import statement_of as statement_of


def reads_only(text: str, dialect: str = "duckdb") -> bool:
    """Return whether the statements of a text change nothing.  Raises SqlError for a text that
    does not parse.
    """
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
        isinstance(one, (*EDITS, *QUERIES)) and not explained
        for one, explained in parse(text, dialect)
    )
