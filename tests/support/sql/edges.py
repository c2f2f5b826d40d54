"""Values at the edges of each type of SQL, as literals that every engine reads: for tables of
functions and casts.

A form names a kind, as `abs({number})` does; each type of that kind, with its edge values, is put
in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from tests.support.sql.texts import TEXTS

KINDS = {  # the types that take the place of a kind
    "number": ["INTEGER", "BIGINT", "DOUBLE", "DECIMAL(5,2)", "SMALLINT", "FLOAT", "HUGEINT",
    "DECIMAL(25,3)",
               "UBIGINT"],
    "integer": ["INTEGER", "BIGINT", "TINYINT", "UINTEGER", "HUGEINT"],
    "int": ["INTEGER", "BIGINT"],
    "float": ["DOUBLE"],
    "count": ["COUNT"],
    "text": ["VARCHAR"],
    "word": ["WORD"],
    "truth": ["BOOLEAN"],
    "date": ["DATE"],
    "timestamp": ["TIMESTAMP"],
    "moment": ["DATE", "TIMESTAMP"],
    "zoned": ["TIMESTAMPTZ"],
    "time": ["TIME"],
    "list": ["INTEGER[]", "VARCHAR[]"],
    "numbers": ["INTEGER[]", "DOUBLE[]"],
    "json": ["JSON"],
    "any": ["INTEGER", "DECIMAL(5,2)", "VARCHAR", "DATE", "BOOLEAN", "DOUBLE"],
}  # fmt: skip
# the types of kinds that have fewer values than their types
SQL = {"COUNT": "INTEGER", "WORD": "VARCHAR"}
_BITS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}


def _signed(bits: int) -> list[str]:
    most = 2**bits - 1
    return [
        "NULL",
        "0",
        "1",
        "-1",
        "2",
        "7",
        "-6",
        "100",
        str(most),
        str(-most),
        str(-most - 1),
        str(most // 2 + 1),
    ]


EDGES: dict[str, list[str]] = {
    **{name: _signed(bits) for name, bits in _BITS.items()},
    "UINTEGER": ["NULL", "0", "1", "7", str(2**32 - 1)],
    "UBIGINT": ["NULL", "0", "1", "7", str(2**63 - 1)],
    "HUGEINT": ["NULL", "0", "1", "-1", "7", "-6", str(2**63), str(-(2**63)),
    "99999999999999999999"],
    "COUNT": ["NULL", "0", "1", "-1", "2", "-2", "3", "40"],
    "DECIMAL(5,2)": ["NULL", "0", "1.5", "-1.5", "2.50", "0.05", "-0.01", "1", "-1", "999.99",
    "-999.99"],
    "DECIMAL(25,3)": ["NULL", "0", "1.5", "-2.5", "0.001", "1234567890123456789012.125"],
    "DOUBLE": ["NULL", "0", "1", "-1", "0.5", "-0.5", "2.5", "1.005", "-7.25", "1e15", "1e300",
    "-1e300", "1e-300",
               "9007199254740993", "'inf'", "'-inf'", "'nan'"],
    "FLOAT": ["NULL", "0", "1", "-1", "0.5", "0.1", "-2.5", "16777217", "3e38", "'inf'", "'nan'"],
    "BOOLEAN": ["NULL", "true", "false"],
    "VARCHAR": ["NULL", "''", "' '", "'a'", "'abc'", "'Abc aBc'", "'  x y '", "'äöü'", "'e\u0301a'",
    "'ß'",
                "'\U0001f600z'", "'a,b,,c'", "'aaaa'", "'%_'", "'12'", "'a''b'",
                "'" + "long " * 60 + "'", "'1.50'",
                "'İi'", "'Σς'"],
    "WORD": ["NULL", "''", "'a'", "'b'", "','", "'ab'", "'e'", "'\u0301'"],
    "DATE": ["NULL", "'1970-01-01'", "'2000-02-29'", "'2024-01-31'", "'2024-02-29'", "'2023-02-28'",
    "'2024-12-31'",
             "'2025-01-01'", "'1969-12-31'", "'1900-02-28'", "'0001-01-01'", "'0999-07-04'",
             "'9999-12-31'"],
    "TIMESTAMP": ["NULL", "'1970-01-01 00:00:00'", "'2024-02-29 23:59:59.999999'",
    "'2024-01-31 00:00:00'",
                  "'2024-02-29 12:30:15.5'", "'1969-12-31 23:59:59.9'", "'0001-01-01 00:00:00'",
                  "'0999-07-04 05:06:07'", "'9999-12-31 23:59:59'", "'2023-02-28 00:00:01'"],
    "TIMESTAMPTZ": ["NULL", "'1970-01-01 00:00:00+00'", "'2024-02-29 23:30:00+02'",
    "'1999-12-31 23:59:59.5-05:30'"],
    "TIME": ["NULL", "'00:00:00'", "'23:59:59.999999'", "'12:30:15.5'", "'01:02:03'"],
    "INTEGER[]": ["NULL", "[]", "[NULL]", "[1]", "[3,1,2]", "[1,NULL,1]", "[2,2,2,NULL]"],
    "DOUBLE[]": ["NULL", "[]", "[NULL]", "[1.5e0]", "[3e0,1.25e0,-2e0]", "[1e0,NULL,1e0]"],
    "VARCHAR[]": ["NULL", "[]", "[NULL]", "['']", "['b','a','c']", "['a',NULL,'a']",
    "['ä','e\u0301','a,b']"],
    "JSON": ["NULL", "'{}'", "'[]'", "'1'", "'\"t\"'", "'null'",
    "'{\"a\":[1,2,{\"b\":null}],\"c\":\"x\",\"d\":1.5}'",
             "'[1,[2,3],\"z\"]'"],
}  # fmt: skip
for _name, _texts in TEXTS.items():
    EDGES[f"texts of {_name}"] = ["NULL", *("'" + one.replace("'", "''") + "'" for one in _texts)]
    SQL[f"texts of {_name}"] = "VARCHAR"
NOT_STORED = {"'nan'", str(-(2**63))}  # values that no column of a table holds, as docs/sql.md says
SLOT = re.compile(r"\{(\w+)\}")


class Case(NamedTuple):
    """A form, and the type of each of its slots."""

    form: str
    types: tuple[str, ...]

    def call(self, *arguments: str) -> str:
        """Return the expression with texts in its slots."""
        left = iter(arguments)
        return SLOT.sub(lambda _: next(left), self.form)

    def rows(self, most: int) -> list[tuple[str, ...]]:
        """Return combinations of edge values, at most so many, spread evenly over all."""
        every = list(product(*(EDGES[type_] for type_ in self.types)))
        step = max(1, -(-len(every) // most))
        if step > 1 and not any(len(EDGES[type_]) % step for type_ in self.types[-1:]):
            step += 1  # so that each value of the last slot comes
        return every[::step]


def cases(form: str) -> Iterator[Case]:
    """Yield a form with each of the types that its slots stand for; slots of one kind have one
    type.
    """
    kinds = SLOT.findall(form)
    distinct = list(dict.fromkeys(kinds))
    for chosen in product(*(KINDS[kind] for kind in distinct)):
        named = dict(zip(distinct, chosen, strict=True))
        yield Case(form, tuple(named[kind] for kind in kinds))


def typed(literal: str, type_: str) -> str:
    """Return a literal as a constant of a type."""
    return f"CAST({literal} AS {SQL.get(type_, type_)})"
