"""Random expressions of SQL by their types: forms, of which each `{i}` is filled by an expression
of that type.

    {i}  INTEGER    {m}  DECIMAL    {f}  DOUBLE    {s}  VARCHAR    {d}  DATE    {t}  TIMESTAMP
    {b}  BOOLEAN    {l}  INTEGER[]  {k}  a small number
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

Columns = Sequence[tuple[str, str]]  # names with their types
FORMS = {
    "i": [
        "{i} + {i}", "{i} - {i}", "{i} // {k}", "{i} % {k}", "abs({i})", "sign({m})", "length({s})",
        "year({d})", "date_diff('month', {t}, {t})", "TRY_CAST({s} AS INTEGER)", "{l}[{k}]", "len({l})",
        "CASE WHEN {b} THEN {i} ELSE {i} END", "coalesce({i}, {i})", "nullif({i}, {i})",
        "greatest({i}, {i})", "strpos({s}, {s})", "xor({i}, {i})", "{d} - {d}", "list_position({l}, {i})",
        "CAST({b} AS INTEGER)", "yearweek({d})", "CAST(round({m}, -1) AS INTEGER)",
    ],
    "m": [
        "{m} + {m}", "{m} - {i}", "-{m}", "round({m}, 1)", "round({m}, -1)", "least({m}, {i})",
        "trunc({m})", "ceil({m})", "{m} * {k}", "{m} % {k}", "TRY_CAST({s} AS DECIMAL(8,2))", "even({m})",
        "CASE WHEN {b} THEN {m} ELSE {i} END",
    ],
    "f": [
        "{f} + {f}", "{i} / {k}", "{m} / {k}", "sqrt(abs({f}))", "round({f}, 2)", "floor({f})",
        "CAST({m} AS DOUBLE)", "power({k}, 2)", "coalesce({f}, {i})", "fmod({f}, 3)", "{f} % {k}",
        "epoch({t})", "list_avg({l})",
    ],
    "s": [
        "{s} || {s}", "upper({s})", "substr({s}, {k}, 2)", "left({s}, {k})", "reverse({s})", "trim({s})",
        "replace({s}, {s}, {s})", "CAST({i} AS VARCHAR)", "CAST({m} AS VARCHAR)", "CAST({t} AS VARCHAR)",
        "CAST({l} AS VARCHAR)", "concat({s}, {i})", "concat_ws('-', {s}, {s})", "lpad({s}, {k}, '*')",
        "split_part({s}, ',', {k})", "strftime({t}, '%Y-%m-%d %H')", "coalesce({s}, {s})",
        "greatest({s}, {s})", "regexp_replace({s}, '[a-c]', 'Z', 'g')", "array_to_string({l}, '|')",
        "printf('%d|%s', {i}, {s})", "dayname({d})",
    ],
    "d": ["{d} + {k}", "CAST({t} AS DATE)", "last_day({d})", "coalesce({d}, {d})", "TRY_CAST({s} AS DATE)"],
    "t": [
        "{t} + INTERVAL 1 DAY", "{t} - INTERVAL '2 months 3 hours'", "date_trunc('hour', {t})",
        "CAST({d} AS TIMESTAMP)", "time_bucket(INTERVAL '2 months', {t})", "least({t}, {t})",
        "{t} + to_days({k})",
    ],
    "b": [
        "{i} = {i}", "{i} < {m}", "{s} < {s}", "{d} < {t}", "NOT {b}", "{b} AND {b}", "{b} OR {b}",
        "{i} IS NULL", "{s} LIKE '%a%'", "{i} BETWEEN {k} AND {i}", "{i} IN ({i}, {k}, NULL)",
        "{s} IS DISTINCT FROM {s}", "list_contains({l}, {i})", "{l} = {l}", "({i}, {s}) < ({i}, {s})",
    ],
    "l": [
        "list_sort({l})", "list_concat({l}, {l})", "[{i}, {i}]", "{l}[{k}:{k}]", "coalesce({l}, {l})",
        "list_resize({l}, {k}, {i})", "list_select({l}, [1, {k}])", "list_where({l}, [true, {b}, false])",
        "list_sort(list_distinct({l}))", "list_filter({l}, lambda x: x > 1)",
    ],
    "k": ["length({s}) % 4 + 1"],
}  # fmt: skip
LITERALS = {
    "i": ["3", "-2", "0", "NULL::INTEGER"], "m": ["1.25", "-14.75", "NULL::DECIMAL(8,2)"],
    "f": ["2.5e0", "NULL::DOUBLE"], "s": ["'b'", "'1,a'", "NULL::VARCHAR"], "d": ["DATE '2020-02-29'"],
    "t": ["TIMESTAMP '2021-03-31 10:20:30'"], "b": ["true", "false"], "l": ["[2, NULL, 1, 2]"],
    "k": ["1", "2", "3", "5"],
}  # fmt: skip


def filled(chance: random.Random, form: str, columns: Columns, depth: int) -> str:
    """Return a form whose places have expressions of at most so many calls within each other."""
    return re.sub(r"\{([a-z])\}", lambda place: expression(chance, place[1], columns, depth), form)


def expression(chance: random.Random, type_: str, columns: Columns, depth: int) -> str:
    """Return an expression of a type: a column, a literal, or a form of others."""
    own = [name for name, its in columns if its == type_]
    if own and chance.random() < 0.4:
        return chance.choice(own)
    if depth <= 0 or chance.random() < 0.25:
        return chance.choice(own or LITERALS[type_])
    return f"({filled(chance, chance.choice(FORMS[type_]), columns, depth - 1)})"
