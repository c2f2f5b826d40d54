"""Functions of terms beside DuckDB's, over empty and long texts, leap days, the ends of types,
and nulls.
"""

from collections.abc import Iterator
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal

import duckdb
import pyarrow as pa
import pytest

import ivm

COLUMNS = {
    "i": ("int?", pa.int64(), [0, 1, -1, 7, -7, 2**62, -(2**62), 1_000_000_007, None]),
    "j": ("int?", pa.int64(), [3, -3, 1, -2, 5, 63, 40, None, 2]),
    "f": ("float?", pa.float64(), [0.0, 0.5, -0.5, 2.5, -2.5, 1e300, -1e-300, 123456.789, None]),
    "s": ("string?", pa.string(), ["", "a", "ab,ba", "Straße", "𝄞é,", " x ", "ǆ%_", "a\nb", None]),
    "p": ("string?", pa.string(), ["", "a", ",", "ß", "é", " ", "%", "b", "q"]),
    "d": ("date?", pa.date32(), [date(2020, 2, 29), date(1969, 12, 31), date(1900, 2, 28),
    date(2000, 12, 31),
                                date(1, 1, 1), date(9999, 12, 31), date(2021, 1, 3), date(1970, 1,
                                1), None]),
    "t": ("datetime?", pa.timestamp("us"), [datetime(2020, 2, 29, 23, 59, 59, 999999),
    datetime(1969, 12, 31, 23, 0, 1),
                                           datetime(1900, 2, 28), datetime(2000, 1, 1), datetime(1,
                                           1, 1, 5),
                                           datetime(9999, 12, 31, 1), datetime(2024, 12, 30),
                                           datetime(1970, 1, 1),
                                           None]),
    "m": ("decimal(12, 3)?", pa.decimal128(12, 3), [Decimal(v) for v in ("0", "0.5", "-0.5",
    "1.005", "-1.005",
                                                   "999999999.999", "-2.500", "3.999")] + [None]),
}  # fmt: skip
SAME = [  # a term, and the same in DuckDB
    ("sign[i]", "sign(i)"), ("i % j", "i % j"),
    ("least[i, 5]", "least(i, 5) + i * 0"), ("greatest[s, \"b\"]", "greatest(s, 'b' || s[:0])"),
    ("bit_xor[i, j]", "xor(i, j)"),
    ("bit_and[i, j]", "i & j"), ("bit_or[i, j]", "i | j"), ("bit_not[i]", "~i"), ("lnot[i]",
    "(i = 0)::BIGINT"),
    ("trunc[f / 1e299]", "trunc(f / 1e299)::BIGINT"), ("floor[f]", "floor(f)"), ("ceil[f]",
    "ceil(f)"),
    ("round[m, 2]", "round(m, 2)"), ("floor[m]", "floor(m)"), ("ceil[m]", "ceil(m)"), ("abs[m]",
    "abs(m)"),
    ("trunc[m]", "trunc(m)::BIGINT"), ("decimal[m, 1]", "m::DECIMAL(18, 1)"), ("float[m]",
    "m::DOUBLE"),
    ("int[m]", "m::BIGINT"), ("string[m]", "m::VARCHAR"), ("string[i]", "i::VARCHAR"), ("string[t]",
    "t::VARCHAR"),
    ("m + decimal[m, 1]", "m + m::DECIMAL(18, 1)"), ("if[m < decimal[m, 1], 1, 0]",
    "if(m < m::DECIMAL(18, 1), 1, 0)"),
    ("sqrt[abs[f]]", "sqrt(abs(f))"), ("atan[f]", "atan(f)"), ("asinh[f / 1e300]",
    "asinh(f / 1e300)"),
    ("tanh[f]", "tanh(f)"), ("sinh[f / 1e300]", "sinh(f / 1e300)"), ("cosh[f / 1e300]",
    "cosh(f / 1e300)"),
    ("upper[s]", "upper(s)"), ("lower[s]", "lower(s)"), ("length[s]", "length(s)"), ("reverse[s]",
    "reverse(s)"),
    ("trim[s]", "trim(s)"), ("string:ltrim[s, p]", "ltrim(s, p)"), ("replace[s, p, \"z\"]",
    "replace(s, p, 'z')"),
    ("substring[s, j]", "substring(s, j)"), ("substring[s, 2, 2]", "substring(s, 2, 2)"),
    ("substr[s, 1, 2]", "substring(s, 2, 2)"), ("string:left[s, 2]", "left(s, 2)"),
    ("string:right[s, 2]", "right(s, 2)"),
    ('string:lpad[s, 4, "xy"]', "lpad(s, 4, 'xy')"), ('string:rpad[s, 4, "é"]', "rpad(s, 4, 'é')"),
    ("position[s, p]", "strpos(s, p)"), ("contains[s, p]", "contains(s, p)"),
    ("starts_with[s, p]", "starts_with(s, p)"),
    ("ends_with[s, p]", "ends_with(s, p)"), ("s + p", "s || p"), ("string:repeat[s, 2]",
    "repeat(s, 2)"),
    ('split_part[s, ",", 2]', "split_part(s, ',', 2)"), ('string:parts[s, ","]',
    "len(string_split(s, ','))"),
    ('regexp_matches[s, "^a|é"]', "regexp_matches(s, '^a|é')"),
    ('regexp_full_match[s, "[a-z]*"]', "regexp_full_match(s, '[a-z]*')"),
    ('regexp_replace[s, "(a|é)", "<\\\\1>"]', "regexp_replace(s, '(a|é)', '<\\1>', 'g')"),
    ('regexp_full_match[s, "a.b"]', "regexp_full_match(s, 'a.b')"), ("md5[s]", "md5(s)"),
    ("sha256[s]", "sha256(s)"),
    ('like[s, "a%"]', "s LIKE 'a%'"), ('string:ilike[s, "%SS%"]', "s ILIKE '%SS%'"),
    ('like[s, "_"]', "s LIKE '_'"),
    *((f"datetime:{part}[d]", f"{name}(d)") for part, name in (("year", "year"), ("month", "month"),
    ("day", "day"),
      ("quarter", "quarter"), ("week", "week"), ("yearday", "dayofyear"), ("weekday", "dayofweek"),
    ("isoweekday", "isodow"))),
    *((f"datetime:{part}[t]", f"{part}(t)") for part in ("hour", "minute", "second")),
    *((f'datetime:truncate[t, "{unit}"]', f"date_trunc('{unit}', t)::TIMESTAMP")
      for unit in ("year", "quarter", "month", "day", "hour", "minute", "second")),
    *((f'datetime:difference[t, datetime[d], "{unit}"]', f"date_diff('{unit}', t, d::TIMESTAMP)")
      for unit in ("year", "quarter", "month", "day", "hour", "minute", "second")),
    ("datetime:add_months[#2020-01-31#, j]", "(DATE '2020-01-31' + to_months(j::INTEGER))::DATE"),
    ('datetime:format[t, "%d.%m. %H:%M"]', "strftime(t, '%d.%m. %H:%M')"), ("datetime[d]",
    "d::TIMESTAMP"),
    ("date[t]", "t::DATE"), ("coalesce[i, j]", "coalesce(i, j)"), ("is_null[s]", "s IS NULL"),
    ("same[i, j]", "i IS NOT DISTINCT FROM j"), ("and[i > 0, j > 0]", "i > 0 AND j > 0"),
    ("or[i > 0, j > 0]", "i > 0 OR j > 0"), ("not[i > 0]", "NOT i > 0"), ("in[i, 1, 7]",
    "i IN (1, 7)"),
    ("mod[i, j]", "i % j"), ("power[j, 2]", "(j ** 2)::BIGINT"), ("j ^ 3", "(j ** 3)::BIGINT"),
    ("ratio[f, 2.5]", "f / 2.5"), ("exp[f / 1e298]", "exp(f / 1e298)"), ("ln[abs[f] + 1e0]",
    "ln(abs(f) + 1)"),
    ("log10[abs[f] + 1e0]", "log10(abs(f) + 1)"), ("log2[abs[f] + 1e0]", "log2(abs(f) + 1)"),
    ("pow[f / 1e299, 2e0]", "pow(f / 1e299, 2)"), ("sin[f / 1e298]", "sin(f / 1e298)"),
    ("cos[f / 1e298]", "cos(f / 1e298)"), ("tan[f / 1e298]", "tan(f / 1e298)"), ("asin[f / 1e300]",
    "asin(f / 1e300)"),
    ("acos[f / 1e300]", "acos(f / 1e300)"), ("acosh[abs[f] + 1e0]", "acosh(abs(f) + 1)"),
    ("atanh[f / 2e300]", "atanh(f / 2e300)"), ("atan2[f, -2.5]", "atan2(f, -2.5)"),
    ("atan2[-2.5, f]", "atan2(-2.5, f)"),
    ("string:rtrim[s, p]", "rtrim(s, p)"), ("concat[s, p, s]", "s || p || s"), ('ord[s + "x"]',
    "ord(s || 'x')"),
    ("chr[abs[j] * 1000 + 64]", "chr((abs(j) * 1000 + 64)::INTEGER)"),
    ("datetime:epoch[t]", "floor(epoch(t))::BIGINT"),
    ('match["[a-z]*", s]', "regexp_full_match(s, '[a-z]*')"), ("try[int[p]]",
    "try_cast(p AS BIGINT)"),
    ("to_number[string[i]]", "i"), ("int[string[i]]", "i"), ('string:format["{}/{}", i, s]',
    "i::VARCHAR || '/' || s"),
    ('datetime:parse[datetime:format[t, "2000-%m-%d %H:%M"], "%Y-%m-%d %H:%M"]',
     "strptime(strftime(t, '2000-%m-%d %H:%M'), '%Y-%m-%d %H:%M')"),
]  # fmt: skip
OF_INTEGERS = {  # what DuckDB lacks, as Python says it
    "land[i, j]": lambda i, j: int(bool(i and j)),
    "lor[i, j]": lambda i, j: int(bool(i or j)),
    "lxor[i, j]": lambda i, j: int(bool(i) != bool(j)),
    "shift_left[i % 8, 60]": lambda i, j: (abs(i) % 8 * (-1 if i < 0 else 1)) << 60,
    "shift_right[i, abs[j]]": lambda i, j: i >> abs(j),
    "shift_right_unsigned[i, abs[j]]": lambda i, j: signed((i % 2**64) >> abs(j)),
    "bshl[i, j]": lambda i, j: signed(i << j % 64),
    "bshr[i, j]": lambda i, j: i >> j % 64,
    "bshru[i, j]": lambda i, j: signed((i % 2**64) >> j % 64),
    "divide[j, 7, 3]": lambda i, j: (Decimal(j) / 7).quantize(Decimal("0.001"), ROUND_HALF_UP),
    "divide[decimal[j, 1], 4, 1]": lambda i, j: (Decimal(j) / 4).quantize(
        Decimal("0.1"), ROUND_HALF_UP
    ),
    "same[hash[i], hash[i + j - j]]": lambda i, j: True,
}


def signed(word: int) -> int:
    """The number of 64 bits in two's complement."""
    return (word + 2**63) % 2**64 - 2**63


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ivm.Workspace, duckdb.DuckDBPyConnection]]:
    rows = list(zip(range(9), *(values for *_, values in COLUMNS.values()), strict=True))
    types = ", ".join(f"{declared}({name})" for name, (declared, *_) in COLUMNS.items())
    with ivm.open(tmp_path_factory.mktemp("duck") / "s.pages") as workspace:
        workspace.install(f"e[k] = ({', '.join(COLUMNS)}) -> int(k), {types}.")
        with workspace.transaction() as txn:
            txn.insert("e", rows)
        connection = duckdb.connect()
        arrays = {name: pa.array(values, type_) for name, (_, type_, values) in COLUMNS.items()}
        connection.register("e", pa.table({"k": range(9), **arrays}))
        yield workspace, connection


@pytest.mark.parametrize(("term", "sql"), SAME)
def test_a_function_is_that_of_duckdb(both: tuple, term: str, sql: str) -> None:
    workspace, connection = both
    marked = ", ".join(f"{name}?" for name in COLUMNS)
    found = [*workspace.query(f"q(k, r) <- e[k] = ({marked}), r = {term}.")]
    expected = connection.sql(f"SELECT k, {sql} FROM e ORDER BY k").fetchall()
    for (_, mine), (_, theirs) in zip(found, expected, strict=True):
        assert mine == (pytest.approx(theirs, rel=1e-14) if isinstance(theirs, float) else theirs)


@pytest.mark.parametrize("term", OF_INTEGERS)
def test_a_function_of_integers_is_that_of_python(both: tuple, term: str) -> None:
    marked = ", ".join(f"{name}?" for name in COLUMNS)
    found = dict(both[0].query(f"q(k, r) <- e[k] = ({marked}), abs[j] < 63, r = {term}."))
    rows = zip(range(9), COLUMNS["i"][2], COLUMNS["j"][2], strict=True)
    known = {k: (i, j) for k, i, j in rows if j is not None and abs(j) < 63}
    assert found.keys() == known.keys()
    for k, (i, j) in known.items():
        null = i is None and "[i" in term and not term.startswith("same")
        assert found[k] == (None if null else OF_INTEGERS[term](i, j)), (i, j)
