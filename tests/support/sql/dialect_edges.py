"""Forms over edge values of PostgreSQL's types, in `expressions/postgres_edges.txt`.

A form names a kind, as `abs({number})` does; each type of that kind, with its edge values, is put
in its place, in columns and as constants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from tests.support.sql import edges

SLOT = re.compile(r"\{(\w+)\}")
KINDS = {
    "number": ["int4", "int8", "float8", "numeric(8,2)", "int2", "float4"],
    "real": ["float8", "numeric(8,2)", "float4"],
    "int": ["int4", "int8", "int2"],
    "int4": ["int4"],
    "whole": ["int4", "int8"],
    "rest": ["int4", "int8", "numeric(8,2)", "int2"],
    "float": ["float8"],
    "exact": ["numeric(8,2)"],
    "digits": ["digits"],
    "count": ["count"],
    "text": ["text"],
    "word": ["word"],
    "numeral": ["numeral"],
    "moment": ["moment"],
    "truth": ["boolean"],
    "date": ["date"],
    "timestamp": ["timestamp"],
    "when": ["date", "timestamp"],
    "zoned": ["timestamptz"],
    "time": ["time"],
    "list": ["int4[]", "text[]"],
    "ints": ["int4[]"],
    "json": ["json"],
    "any": ["int4", "numeric(8,2)", "text", "date", "boolean", "float8"],
}
SQL = {
    "count": "int4", "digits": "int4", "word": "text", "numeral": "text", "moment": "text",
    "float8": "double precision", "float4": "real", "int2": "smallint", "int4": "integer",
    "int8": "bigint", "int4[]": "integer[]",
}  # fmt: skip


def _whole(bits: int) -> list[str]:
    most = 2**bits - 1
    return ["NULL", "0", "1", "-1", "7", "-6", str(most), str(-most)]


EDGES = {
    "int2": _whole(15), "int4": _whole(31), "int8": [*_whole(63), "9007199254740993"],
    "count": ["NULL", "0", "1", "-1", "2", "-2", "3", "40"],
    "digits": ["NULL", "0", "1", "-1", "2"],
    "numeric(8,2)": ["NULL", "0", "1.5", "-1.5", "2.50", "0.05", "-0.01", "1", "-2.55", "999999.99"],
    "float8": ["NULL", "0", "1", "-1", "0.5", "-0.5", "2.5", "1.005", "-7.25", "1e15", "1e16", "1e300",
               "-1e300", "1e-300", "9007199254740993", "0.1", "1e-5", "'Infinity'", "'-Infinity'", "'NaN'"],
    "float4": ["NULL", "0", "1", "-1", "0.1", "-2.5", "16777217", "3e38", "1e-30", "1e6", "'Infinity'"],
    "text": [one for one in edges.EDGES["VARCHAR"] if "long" not in one],
    "word": edges.EDGES["WORD"],
    "numeral": ["NULL", "''", "'12'", "' 12 '", "'-0'", "'+7'", "'1.5'", "'1e3'", "'1_000'", "'0x1F'", "'x'",
                "'32768'", "'2147483648'", "'9223372036854775808'", "'999.995'", "'1000'", "'NaN'", "'inf'",
                "'-Infinity'", "'1e400'", "'1e-400'", "'.5'", "'5.'", "'t'", "'TRUE'", "'of'", "'off '", "'o'",
                "'1'", "'0'", "'2'", "'-5'"],
    "moment": ["NULL", "''", "'2024-02-29'", "'2023-02-29'", "'2024-1-5'", "'0999-07-04'", "'2024-01-31 10:20:30.5'",
               "'2024-01-31T10:20'", "'2024-01-31 24:00:00'", "'2024-01-31 10:20:60'", "'10:20'", "'10:20:30.123456'",
               "'2024-01-31 10:20+02'", "'2024/01/31'", "'x'", "'infinity'", "'epoch'", "' 2024-01-31 '",
               "'2024-01-31 10:20:30.1234567'"],
    "boolean": ["NULL", "true", "false"],
    "date": edges.EDGES["DATE"], "timestamp": edges.EDGES["TIMESTAMP"],
    "timestamptz": edges.EDGES["TIMESTAMPTZ"], "time": edges.EDGES["TIME"],
    "int4[]": ["NULL", "'{}'", "'{NULL}'", "'{1}'", "'{3,1,2}'", "'{1,NULL,1}'", "'{2,2,2,NULL}'"],
    "text[]": ["NULL", "'{}'", "'{NULL}'", "'{\"\"}'", "'{b,a,c}'", "'{a,NULL,a}'"],
    "json": edges.EDGES["JSON"],
}  # fmt: skip
MOST = 24  # rows of a case, spread evenly over all combinations


def forms(form: str) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yield a form with each of its types: `abs({int4})`, its queries over columns and over
    constants, and those of each constant alone.
    """
    kinds = SLOT.findall(form)
    for chosen in product(*(KINDS[kind] for kind in dict.fromkeys(kinds))):
        named = dict(zip(dict.fromkeys(kinds), chosen, strict=True))
        types = [named[kind] for kind in kinds]
        rows = _spread([*product(*(EDGES[type_] for type_ in types))])
        name = _filled(form, [f"{{{one}}}" for one in types])
        columns = _filled(form, [f"x{n}" for n in range(len(types))])
        values = ", ".join(
            f"({k}, {', '.join(_typed(*one) for one in zip(row, types, strict=True))})"
            for k, row in enumerate(rows)
        )
        heads = ", ".join(["k", *(f"x{n}" for n in range(len(types)))])
        over = f"SELECT k, {columns} AS v FROM (VALUES {values}) AS e({heads})"
        calls = [
            _filled(form, [_typed(*one) for one in zip(row, types, strict=True)]) for row in rows
        ]
        both = ", ".join(f"{call} AS v{k}" for k, call in enumerate(calls))
        yield name, (over, f"SELECT {both}"), tuple(f"SELECT {call} AS v" for call in calls)


def _spread(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    step = -(-len(rows) // MOST)
    while step > 1 and any(len(rows) % step == 0 and step % n == 0 for n in (2, 3, 5, 7)):
        step += 1  # so that each value of each slot comes
    return rows[::step]


def _typed(literal: str, type_: str) -> str:
    return f"CAST({literal} AS {SQL.get(type_, type_)})"


def _filled(form: str, given: list[str]) -> str:
    left = iter(given)
    return SLOT.sub(lambda _: next(left), form)
