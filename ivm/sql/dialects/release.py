"""What the trees of the installed parser may hold, looked at once when SQL is first used.

`functions/known.py` says which parts of a tree are read. A release of sqlglot that calls such a
part otherwise would have it read as missing, in silence; so it is refused. A part that is new is
refused where a statement has it.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp, parser

from ivm.sql.errors import ParserError
from ivm.sql.functions.known import CLAUSES, STATEMENTS

RELEASES = "sqlglot>=30.25,<31"  # as pyproject.toml declares
SOME: dict[type[exp.Expr], set[str]] = {  # parts that not every such release has
    exp.Values: {"with_", "pivots"}, exp.Table: {"quoted"},
}  # fmt: skip


def refuse_other_parsers() -> None:
    """Raise ParserError if the installed parser lacks a part of a tree that is read, or is compiled,
    and so cannot be extended.
    """
    if not str(parser.__file__).endswith(".py"):
        raise ParserError(
            "sqlglotc makes sqlglot's parser one that cannot be extended: pip uninstall sqlglotc"
        )
    if lacking := ", ".join(_lacking()):
        raise ParserError(
            f"sqlglot {sqlglot.__version__} has no {lacking}: pip install '{RELEASES}'"
        )


def _lacking() -> Iterator[str]:
    for table in (CLAUSES, STATEMENTS):
        for kind, parts in table.items():
            for part in sorted(parts - {*kind.arg_types} - SOME.get(kind, set())):
                yield f"{kind.__name__}.{part}"
