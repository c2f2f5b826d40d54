"""SET, SHOW and RESET as clients send them, and the marks of a transaction: SAVEPOINT.

A setting is taken where it says what holds here anyway, and refused by its name where it would
change something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from ivm.sql.errors import SqlError
from ivm.transaction import Transaction

VALUES = {  # what holds here
    "autocommit": "on", "bytea_output": "hex", "client_encoding": "UTF8", "datestyle": "ISO, MDY",
    "default_transaction_isolation": "serializable", "default_transaction_read_only": "off",
    "idle_in_transaction_session_timeout": "0", "in_hot_standby": "off",
    "integer_datetimes": "on", "intervalstyle": "postgres", "is_superuser": "on",
    "lc_collate": "C", "lc_ctype": "C", "lock_timeout": "0", "max_identifier_length": "63", "max_index_keys": "32",
    "names": "UTF8", "row_security": "off", "search_path": "public", "server_encoding": "UTF8",
    "server_version": "15.0", "server_version_num": "150000", "session_authorization": "ivm",
    "standard_conforming_strings": "on", "statement_timeout": "0", "time_zone": "UTC",
    "timezone": "UTC", "transaction_isolation": "serializable", "transaction_read_only": "off",
    "transaction isolation level": "serializable",
}  # fmt: skip
# what changes no answer, whatever it is
FREE = ("application_name", "client_min_messages", "extra_float_digits", "jit")
SAME = {
    "search_path": {"public", "main", "pg_catalog", '"$user"', "$user", ""},
    "datestyle": {"iso", "mdy", "ymd", "dmy"},
    "names": {"utf8", "utf8mb4", "unicode"}, "client_encoding": {"utf8", "utf-8", "unicode"},
    "timezone": {"utc", "gmt", "etc/utc", "0"}, "time_zone": {"utc", "gmt", "+00:00", "0"},
    "autocommit": {"on", "1", "true"}, "row_security": {"off", "on"},
}  # fmt: skip
ALONE = r"savepoint|release|set|reset|show|discard|deallocate|start\s+transaction|begin"
BEGINS = re.compile(rf"(?:^|;)\s*(?:{ALONE})\b", re.IGNORECASE)
COMMAND = re.compile(rf"\s*({ALONE})\b\s*(.*?)\s*", re.IGNORECASE | re.DOTALL)
ASSIGNED = re.compile(
    r"(?:(?:session|local|global)\s+)?(time\s+zone|names|\w+(?:\.\w+)?)\s*(?:=|\bto\b|\s)\s*(.+)",
    re.IGNORECASE | re.DOTALL,
)
MODES = re.compile(
    r"(?:(?:work|transaction)\b)?(?:[\s,]*(?:isolation\s+level\s+(?:serializable|snapshot|"
    r"repeatable\s+read|read\s+(?:un)?committed)|read\s+write|(?:not\s+)?deferrable))*",
    re.IGNORECASE,
)
OF_TRANSACTIONS = re.compile(
    r"(?:session\s+characteristics\s+as\s+|session\s+)?transaction\b\s*(.*)", re.I | re.DOTALL
)
SHOWN = ("TABLES", "ALL TABLES")


def pieces(text: str, dialect: str) -> Iterator[str]:
    """Yield the statements of a text, each at its place, with blanks before it."""
    try:
        tokens = Dialect.get_or_raise(dialect).tokenize(text)
    except TokenError:
        yield text  # whose parser says what is wrong
        return
    ends = [token.start for token in tokens if token.token_type == TokenType.SEMICOLON]
    for start, end in zip([0, *(cut + 1 for cut in ends)], [*ends, len(text)], strict=True):
        if text[start:end].strip():
            yield re.sub(r"\S", " ", text[:start]) + text[start:end]


def command(text: str) -> exp.Expr | None:
    """Return a client's own statement, else None.  SqlError for one that would have an effect."""
    match = COMMAND.fullmatch(text)
    if match is None:
        return None
    word, rest = match[1].upper().split()[0], match[2]
    if word in ("START", "BEGIN"):
        _refuse_modes(rest)
        return exp.Transaction()
    if word == "SHOW":
        return exp.Show(this=rest)
    if word == "SET":
        _set(rest)
    elif word == "DEALLOCATE" and rest.upper() != "ALL":
        raise SqlError(f"DEALLOCATE {rest}: no statement was prepared by PREPARE")
    elif word == "SAVEPOINT" or word == "RELEASE":
        rest = re.sub(r"^savepoint\s+", "", rest, flags=re.IGNORECASE)
        if not re.fullmatch(r'"[^"]+"|\w+', rest):
            raise SqlError(f"{word} takes one name, and this is {rest or 'nothing'}")
    elif word == "RESET" and rest.lower() not in (*VALUES, *FREE, "all"):
        raise _unknown(word, rest)
    return exp.Command(this=word, expression=rest)


def _set(rest: str) -> None:
    """Take a setting that changes nothing.  Raises SqlError."""
    if match := OF_TRANSACTIONS.fullmatch(rest):
        _refuse_modes(match[1])
        return
    parts = ASSIGNED.fullmatch(rest)
    if parts is None:
        raise SqlError(f"SET {rest[:40]}: write SET name = value")
    name = re.sub(r"time\s+zone", "timezone", parts[1].lower())
    if name in FREE:
        return
    if name not in VALUES:
        raise _unknown("SET", name)
    given = {word.strip().strip("'").lower() for word in parts[2].split(",")}
    same = {*SAME.get(name, ()), "default", *re.split(r",\s*", VALUES[name].lower())}
    same |= (
        {"0", "false"}
        if VALUES[name] == "off"
        else {"1", "true"}
        if VALUES[name] == "on"
        else set()
    )
    if not given <= same:
        raise SqlError(f"SET {name}: it is {VALUES[name]} here, and cannot be {parts[2].strip()}")


def _refuse_modes(modes: str) -> None:
    """Raise SqlError for what a transaction is not."""
    if not MODES.fullmatch(modes.strip()):
        raise SqlError(
            f"transactions here are serializable, and read and write: leave out {modes.strip()}"
        )


def _unknown(word: str, name: str) -> SqlError:
    return SqlError(f"{word} {name}: there is no such setting; SHOW ALL lists those that are")


def shown(node: exp.Show) -> list[tuple[str, str]]:
    """Return the settings that SHOW names, with their values.  Raises SqlError."""
    name = re.sub(r"time\s+zone", "timezone", " ".join(node.name.lower().split()))
    if name == "all":
        return sorted(VALUES.items())
    if name in FREE:
        return [(name, "")]
    if name not in VALUES:
        raise SqlError(
            f"SHOW {node.name} is not evaluated: SHOW TABLES, SHOW ALL, DESCRIBE table", node
        )
    return [("transaction_isolation" if "level" in name else name, VALUES[name])]


def mark(txn: Transaction | None, node: exp.Expr, name: str) -> None:
    """SAVEPOINT, RELEASE and ROLLBACK TO.  Raises SqlError."""
    word = node.name if isinstance(node, exp.Command) else "ROLLBACK TO"
    if txn is None:
        raise SqlError(f"{word} {name}: no transaction has begun: BEGIN first", node)
    name = name.strip('"').lower() if not name.startswith('"') else name.strip('"')
    if word == "SAVEPOINT":
        txn.marks.set(name, txn.savepoint())
    elif not txn.marks.knows(name):
        raise SqlError(f"{word} {name}: there is no such savepoint", node)
    elif word == "RELEASE":
        txn.marks.release(name)
    else:
        txn.marks.go_back(name)
        txn.marks.set(name, txn.savepoint())
