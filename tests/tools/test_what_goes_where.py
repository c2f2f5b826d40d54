"""Every type of value into every type of column by every way in: exactly as it is, or refused by
name.

The default suite takes a sample of each way; `-m campaign` takes all. What is measured is the table
of the document.
"""

import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivm
import pagestore
from pagestore.errors import PagestoreError, WordError
from pagestore.values.codec import encode, typed
from pagestore.values.types import Column, Type
from pagestore_tools.loading.load import load
from tests.support.what_goes_where import COLUMNS, DAY, SHOWN, SOURCES, Meaning, goes, meaning

DOCUMENT = Path(__file__).parents[2] / "docs" / "in-and-out.md"
SAMPLE = 350  # cells of each way
RULE_TYPES = {
    "int64": "int",
    "float64": "float",
    "timestamp": "datetime",
    "timestamp(Europe/Berlin)": "`timestamp(Europe/Berlin)`",
}
ALL = [
    (group, name, row)
    for group, arrays in SOURCES.items()
    for name, array in arrays.items()
    for row in range(len(array))
]


class Changed(Exception):
    """A library cannot hold a value, or has made another one of it before it comes to us."""


def _python(one: pa.Array) -> Any:
    """A value of Python, numpy or pandas that means the same."""
    try:
        value = one[0].as_py()
        again = meaning(pa.scalar(value, one.type))
    except (ValueError, OverflowError, pa.ArrowException):
        raise Changed from None
    if again != meaning(one[0]) and not (isinstance(value, float) and value != value):
        raise Changed
    return value


def _frame(made: Callable[[pa.Table], Any]) -> Callable[[pa.Array], Any]:
    """A frame of another library, if it means the same."""

    def give(one: pa.Array) -> Any:
        try:
            frame = made(pa.table({"x": one}))
            again = pa.table(frame)["x"]
        except Exception:  # whatever that library says
            raise Changed from None
        if len(again) != 1 or meaning(again.cast(_plain(again.type))[0]) != meaning(one[0]):
            raise Changed
        return frame

    return give


def _polars(table: pa.Table) -> Any:
    if pa.types.is_decimal256(table.schema.field(0).type):
        raise Changed  # polars panics
    return pl.from_arrow(table)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _numpy(one: pa.Array) -> np.ndarray:
    kind = one.type
    if (
        pa.types.is_decimal(kind)
        or pa.types.is_nested(kind)
        or pa.types.is_time(kind)
        or pa.types.is_date64(kind)
    ):
        raise Changed
    if pa.types.is_timestamp(kind) and kind.tz:
        raise Changed
    found = one.to_numpy(zero_copy_only=False)
    if found.dtype.kind in "Mm" and np.isnat(found[0]):
        raise Changed
    return found


def _dictionary(one: pa.Array) -> pa.Array:
    try:
        return one.dictionary_encode()
    except pa.ArrowException:
        raise Changed from None


def _within(one: pa.Array) -> pa.Array:
    """A value as a part of more."""
    try:
        return pa.chunked_array([pa.concat_arrays([one, one, one]).slice(1, 1), one.slice(0, 0)])
    except pa.ArrowException:
        raise Changed from None


def _insert(rows: Callable[[pa.Array], Any]) -> Callable[[Any, pa.Array], None]:
    return lambda relation, one: relation.insert(rows(one))


def _setitem(relation: Any, one: pa.Array) -> None:
    relation[_python(one)] = ()


WAYS: dict[str, Callable[[Any, pa.Array], Any]] = {
    "Arrow": _insert(lambda one: pa.table({"x": one})),
    "a dictionary of Arrow": _insert(lambda one: pa.table({"x": _dictionary(one)})),
    "a part of Arrow": _insert(lambda one: pa.table({"x": _within(one)})),
    "a reader of Arrow": _insert(lambda one: pa.table({"x": one}).to_reader()),
    "pandas": _insert(_frame(lambda table: table.to_pandas())),
    "pandas of Arrow": _insert(_frame(lambda table: table.to_pandas(types_mapper=pd.ArrowDtype))),
    "pandas of objects": _insert(
        lambda one: pd.DataFrame({"x": pd.Series([_python(one)], dtype=object)})
    ),
    "polars": _insert(_frame(_polars)),
    "duckdb": _insert(_frame(duckdb.from_arrow)),
    "numpy": _insert(lambda one: {"x": _numpy(one)}),
    "scalars of numpy": _insert(lambda one: [(_numpy(one)[0],)]),
    "scalars of Arrow": _insert(lambda one: [(one[0],)]),
    "tuples": _insert(lambda one: [(_python(one),)]),
    "tuples among others": _insert(lambda one: [(_python(one),), (_python(one),)]),
    "dicts": _insert(lambda one: [{"x": _python(one)}]),
    "columns": _insert(lambda one: {"x": [_python(one)]}),
    "set": lambda relation, one: relation.set([(_python(one),)]),
    "an item": _setitem,
    "update": lambda relation, one: relation.update([(_python(one), ())]),
    "bulk": lambda relation, one: relation.bulk([[(_python(one),)]]),
}


def _loaded(write: Callable[[pa.Table, str], None]) -> Callable[[Any, pa.Array], None]:
    """A file that another program has written, if it holds the value, and the command that loads
    it.
    """

    def give(relation: Any, one: pa.Array) -> None:
        with TemporaryDirectory() as folder:
            write(pa.table({"x": one}), file := f"{folder}/x")
            load(relation.source, relation.name, file, ["x"], "append")

    return give


def _write_arrow(table: pa.Table, file: str) -> None:
    with pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)


def _write_parquet(table: pa.Table, file: str) -> None:
    try:
        pq.write_table(table, file)
        [again], [given] = pq.read_table(file)["x"], table["x"]
    except (pa.ArrowException, ValueError, OSError):
        raise Changed from None
    if meaning(again) != meaning(given):
        raise Changed


WAYS |= {"load of Arrow": _loaded(_write_arrow), "load of Parquet": _loaded(_write_parquet)}
KEYS: dict[str, Callable[[Any, Any], Any]] = {  # each finds the one record, by its key
    "in": lambda relation, value: value in relation,
    "get": lambda relation, value: relation.get(value, "none") == (),
    "item": lambda relation, value: relation[value] == (),
    "get_many": lambda relation, value: relation.get_many([(value,)])[0].tolist() == [True],
    "range": lambda relation, value: len(relation.range((value,))) == 1,
    "prefix": lambda relation, value: len(relation.prefix(value)) == 1,
    "delete": lambda relation, value: relation.delete([(value,)]) is None and len(relation) == 0,
}  # fmt: skip


PLAIN = [text for text in COLUMNS if not text.endswith("?")]


def cells(way: str, share: int | None) -> list[tuple[str, pa.Array]]:
    """Columns and values: all, or some that differ from way to way."""
    every = [(text, *cell) for text in PLAIN for cell in ALL]
    chosen = every if share is None else random.Random(way).sample(every, share)
    return [(text, SOURCES[group][name].slice(row, 1)) for text, group, name, row in chosen]


def faults_of(way: str, share: int | None) -> Iterator[str]:
    """The cells where a way does otherwise than it should."""
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        relations = {text: txn.create(f"r{i}", f"x: {text}") for i, text in enumerate(PLAIN)}
        for text, one in cells(way, share):
            expected, relation = goes(meaning(one[0]), Type.parse(text)), relations[text]
            relation.clear()
            try:
                WAYS[way](relation, one)
                found = "taken" if not expected else meaning(relation.to_arrow()["x"][0])
                fault = "" if found == meaning(one[0]) else str(found)
            except Changed:
                continue
            except PagestoreError as error:
                fault = (
                    f"refused, {error}"
                    if expected
                    else ""
                    if re.search("column '?x", str(error))
                    else f"without a place, {error}"
                )
            if fault:
                yield f"{one.type} {meaning(one[0])} into {text}: {fault}"


def faults_of_keys(way: str, share: int | None) -> Iterator[str]:
    """The keys that a way does not find, or takes for another one."""
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        relations = {text: txn.create(f"r{i}", f"x: {text}") for i, text in enumerate(PLAIN)}
        for text, one in cells(way, share):
            expected, relation = goes(meaning(one[0]), Type.parse(text)), relations[text]
            relation.clear()
            if expected:
                relation.insert(pa.table({"x": one}))
            try:
                found = KEYS[way](relation, _python(one))
                fault = "" if found and expected else f"found {found}"
            except Changed:
                continue
            except PagestoreError as error:
                fault = f"refused, {error}" if expected else ""
            if fault:
                yield f"{one.type} {meaning(one[0])} in {text}: {fault}"


@pytest.mark.parametrize("way", WAYS)
def test_a_sample_of_every_way_in(way):
    assert [*faults_of(way, SAMPLE)] == []


@pytest.mark.parametrize("way", KEYS)
def test_a_sample_of_keys(way):
    assert [*faults_of_keys(way, SAMPLE)] == []


@pytest.mark.campaign
@pytest.mark.parametrize("way", [*WAYS, *KEYS])
def test_every_way_in(way):
    assert [*(faults_of if way in WAYS else faults_of_keys)(way, None)] == []


class Ids:
    """In place of a dictionary."""

    def intern(self, texts: pa.Array) -> np.ndarray:
        """Every text has an id."""
        return np.ones(len(texts), np.int64)


def taken(text: str, array: pa.Array) -> list[bool]:
    """Which values of an array go into a column, each by itself."""
    found = []
    for row in range(len(array)):
        try:
            encode(Column("x", Type.parse(text)), array.slice(row, 1), Ids())
            found.append(True)
        except WordError:
            found.append(False)
    return found


def test_the_table_of_the_document_is_what_is_measured():
    lines = ["| from | " + " | ".join(SHOWN) + " |", "|---" * (len(SHOWN) + 1) + "|"]
    for group, arrays in SOURCES.items():
        row = []
        for texts in SHOWN.values():
            found = [
                one for text in texts for array in arrays.values() for one in taken(text, array)
            ]
            expected = [
                goes(meaning(value), Type.parse(text))
                for text in texts
                for a in arrays.values()
                for value in a
            ]
            assert found == expected, (group, texts)
            row.append("all" if all(found) else "exact" if any(found) else "-")
        lines.append(f"| {group} | {' | '.join(row)} |")
    document = DOCUMENT.read_text()
    [table] = re.findall(
        r"test_what_goes_where.py measures it -->\n\n(.*?)\n\n<!-- end", document, re.DOTALL
    )
    assert table.splitlines() == lines


def test_values_together_do_as_each_by_itself():
    """A column of many values, some of them null, is refused at the first that does not fit."""
    chosen = random.Random(5)
    for arrays in SOURCES.values():
        for array in arrays.values():
            for text in COLUMNS:
                column = Column("x", Type.parse(text))
                rows = chosen.sample(range(len(array)), min(len(array), 4))
                some = pa.array([None, *rows, None], pa.int64())
                good = [goes(meaning(array[row]), column.type) for row in rows]
                try:
                    mixed = array.take(some)
                except pa.ArrowException:
                    continue  # of views Arrow takes none
                if (
                    all(good)
                    and column.type.nullable
                    and column.type.name not in ("string", "bytes")
                ):
                    assert [meaning(v) for v in typed(column, mixed)][1:-1] == [
                        meaning(array[row]) for row in rows
                    ]
                else:
                    with pytest.raises(WordError, match="column 'x'") as refused:
                        encode(column, mixed, Ids())
                    if any(good) and column.type.nullable:
                        bad = [f"row {row + 1}: " for row, one in enumerate(good) if not one]
                        assert any(row in str(refused.value) for row in bad)


LITERALS = {
    "7": ("number", 7), "-7": ("number", -7), "3.50": ("number", Fraction(7, 2)), "0.1": ("number",
    Fraction(1, 10)),
    "2.5e0": ("number", Fraction(5, 2)), "9223372036854775807": ("number", 2**63 - 1),
    "true": ("bool", True),
    "9223372036854775808": ("number", 2**63), "9007199254740993": ("number", 2**53 + 1),
    "1.239": ("number", Fraction(1239, 1000)),
    "#2013-01-31#": ("moment", 15736 * DAY), "#2013-01-31 00:00:00#": ("moment", 15736 * DAY),
    "#2013-01-31 17:05:00.25#": ("moment", 15736 * DAY + 61500250 * 10**6), "#17:05:00#": ("time",
    61500 * 10**9),
    '"7"': ("text", "7"), '"2013-01-31"': ("text", "2013-01-31"),
}  # fmt: skip


@pytest.mark.parametrize("literal", LITERALS)
def test_literals_of_rules(literal):
    """A literal that is taken means what it says; the digits of a float are the float nearest to
    them.
    """
    (kind, value), taken = LITERALS[literal], set[str]()
    with ivm.open(":memory:") as ws:
        ws.install(
            " ".join(f"r{i}(x) -> {RULE_TYPES.get(text, text)}(x)." for i, text in enumerate(PLAIN))
        )
        for i, text in enumerate(PLAIN):
            try:
                ws.exec(f"+r{i}({literal}).")
            except ivm.IvmError:
                continue  # a literal has a type
            taken.add(text)
            found = meaning(ws[f"r{i}"].to_arrow()["x"][0])
            if (kind, text) == ("number", "float64"):
                assert found == ("number", Fraction(float(value)))
            elif (kind, text) == ("number", "duration"):
                assert found == ("length", value * 1000)
            elif (kind, text) == ("text", "bytes"):
                assert found == ("bytes", value.encode())
            elif (kind, text) == ("moment", "timestamp(Europe/Berlin)"):
                assert found == ("instant", value - 3600 * 10**9)
            else:
                assert found == (kind, value), text
    assert taken and (kind != "moment" or value % DAY or {"date", "timestamp"} <= taken)


JSON: dict[str, Meaning] = {
    **{digits: ("number", Fraction(digits)) for digits in ("7", "-7", "7.0", "3.50", "0.1", "1.239",
    "1e2")},
    str(2**53 + 1): ("number", Fraction(2**53 + 1)),
    str(2**64 - 1): ("number", Fraction(2**64 - 1)), "true": ("bool", True), '"7"': ("text", "7"),
    '"a"': ("text", "a"),
    **{f'"{text}"': ("text", text) for text in (
        "12:30:00", "1:00:00", "true", "0.10", "2020-01-31", "2020-01-31T00:00:00",
        "2020-01-31T10:00:00.25",
        "2020-01-31T10:00:00.0000001", "2020-01-31T10:00:00+02:00",
    )},
}  # fmt: skip
# what texts of JSON are in columns of types that it has not
AS_TEXT: dict[tuple[str, str], Meaning] = {
    ("decimal(9,2)", "7"): ("number", Fraction(7)), ("decimal(18,0)", "7"): ("number", Fraction(7)),
    ("decimal(9,2)", "0.10"): ("number", Fraction(1, 10)), ("decimal(18,18)", "0.10"): ("number",
    Fraction(1, 10)),
    ("date", "2020-01-31"): ("moment", 18292 * DAY), ("date", "2020-01-31T00:00:00"): ("moment",
    18292 * DAY),
    ("timestamp", "2020-01-31"): ("moment", 18292 * DAY), ("timestamp",
    "2020-01-31T00:00:00"): ("moment", 18292 * DAY),
    ("timestamp", "2020-01-31T10:00:00.25"): ("moment", 18292 * DAY + 36_000_250 * 10**6),
    ("timestamp(Europe/Berlin)", "2020-01-31T10:00:00+02:00"): ("instant",
    18292 * DAY + 8 * 3600 * 10**9),
    ("time", "12:30:00"): ("time", 45_000 * 10**9),
    ("duration", "12:30:00"): ("length", 45_000 * 10**9), ("duration", "1:00:00"): ("length",
    3600 * 10**9),
}  # fmt: skip


def expected_of_json(written: str, text: str) -> Meaning | None:
    """What a value of JSON is in a column; None for what is refused."""
    what = JSON[written]
    if what[0] == "text":
        return (
            what
            if text == "string"
            else ("bytes", what[1].encode())
            if text == "bytes"
            else AS_TEXT.get((text, what[1]))
        )
    if what[0] == "number" and text == "float64" and what[1].denominator > 1:
        return "number", Fraction(float(what[1]))
    return what if goes(what, Type.parse(text)) else None


def load_as_expected(file: Path, expected_in: Callable[[str], Meaning | None]) -> None:
    """Load a file of one value into a column of every type: what is expected goes in, else the
    column is named.
    """
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        for i, text in enumerate(PLAIN):
            relation, expected = txn.create(f"r{i}", f"x: {text}"), expected_in(text)
            try:
                load(txn, relation.name, file, ["x"], "append")
            except PagestoreError as error:
                assert expected is None, (text, str(error))
                assert "column x" in str(error)
            else:
                assert meaning(relation.to_arrow()["x"][0]) == expected, text


@pytest.mark.parametrize("written", JSON)
def test_values_of_json(written, tmp_path):
    file = tmp_path / "x.json"
    file.write_text(f'{{"x": {written}}}\n')
    load_as_expected(file, lambda text: expected_of_json(written, text))


CSV = [
    *(text.strip('"') for text in JSON), "-0", "007", "0x10", "1_000", "9223372036854775808",
    "1e30", "inf", "nan",
    "True", "false", "0", "1", "2020-13-01", "24:00:00", "1.5", " 7",
    "caf\N{LATIN SMALL LETTER E WITH ACUTE}",
]  # fmt: skip


def expected_of_csv(written: str, text: str) -> Meaning | None:
    """What a text of CSV is in a column whose type is given; None for what is refused."""
    if text in ("string", "bytes"):
        return ("text", written) if text == "string" else ("bytes", written.encode())
    if text == "bool":
        return {
            "true": ("bool", True),
            "1": ("bool", True),
            "false": ("bool", False),
            "0": ("bool", False),
        }.get(written.lower())
    if (text, written) == ("duration", "24:00:00"):
        return "length", DAY
    if text in ("date", "time", "timestamp", "timestamp(Europe/Berlin)", "duration"):
        return AS_TEXT.get((text, written))
    if text == "float64" and written == "inf":
        return "beyond", "inf"
    if not re.fullmatch(r"-?\d+(\.\d+)?(e\d+)?", written.strip()):
        return None
    what = "number", Fraction(written.strip())
    if text == "float64" and not written.strip().lstrip("-").isdigit():
        return "number", Fraction(float(written))  # the nearest one
    return what if goes(what, Type.parse(text)) else None


@pytest.mark.parametrize("written", dict.fromkeys(CSV))
def test_texts_of_csv(written, tmp_path):
    file = tmp_path / "x.csv"
    file.write_text(f'x\n"{written}"\n')
    load_as_expected(file, lambda text: expected_of_csv(written, text))


def faults_of_spark(share: int | None, path: Path) -> Iterator[str]:
    """The cells where a batch write of Spark does otherwise than it should; types that Spark
    lacks are left out.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    from pagestore_tools.spark.source.options import WRITING, Options
    from pagestore_tools.spark.source.types import arrow_schema
    from pagestore_tools.spark.source.write import RelationWriter, target_of

    with pagestore.open(path, sync="off") as store, store.transaction() as txn:
        for i, text in enumerate(PLAIN):
            txn.create(f"r{i}", f"x: {text}")
    for text, one in cells("Spark", share):
        name, expected = f"r{PLAIN.index(text)}", goes(meaning(one[0]), Type.parse(text))
        try:
            spark: StructType = from_arrow_schema(
                pa.schema([pa.field("x", one.type, nullable=False)])
            )
            given = one.cast(arrow_schema(spark).field(0).type)
        except Exception:  # whatever that library says
            continue
        if meaning(given[0]) != meaning(one[0]):
            continue
        options = Options({"path": str(path), "relation": name}, WRITING)
        try:
            writer = RelationWriter(target_of(options, spark, True), options)
            writer.commit([writer.write(iter([pa.record_batch({"x": given})]))])
        except PagestoreError as error:
            fault = (
                f"refused, {error}"
                if expected
                else ""
                if "'x'" in str(error)
                else f"without a place, {error}"
            )
        else:
            with pagestore.open(path, mode="r") as store:
                found = meaning(store.snapshot()[name].to_arrow()["x"][0]) if expected else "taken"
            fault = "" if found == meaning(one[0]) else str(found)
        if fault:
            yield f"{spark.simpleString()} {meaning(one[0])} into {text}: {fault}"


def test_a_sample_of_spark(tmp_path):
    pytest.importorskip(
        "pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'"
    )
    assert [*faults_of_spark(SAMPLE, tmp_path / "s.pages")] == []


@pytest.mark.campaign
def test_all_of_spark(tmp_path):
    pytest.importorskip(
        "pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'"
    )
    assert [*faults_of_spark(None, tmp_path / "s.pages")] == []


def test_a_transaction_of_a_workspace_is_such_a_way():
    """It hands rows to the same conversions; what it takes and refuses is what a relation does."""
    with ivm.open(":memory:") as ws:
        ws.install(
            " ".join(f"r{i}(x) -> {RULE_TYPES.get(text, text)}(x)." for i, text in enumerate(PLAIN))
        )
        for text, one in cells("workspace", 150):
            name, expected = f"r{PLAIN.index(text)}", goes(meaning(one[0]), Type.parse(text))
            for edit in ("insert", "set", "delete"):
                with ws.transaction() as txn:
                    try:
                        getattr(txn, edit)(name, pa.table({"x": one}))
                    except PagestoreError as error:
                        assert not expected and "'x'" in str(error)
                        continue
                assert expected
                assert [meaning(v) for v in ws[name].to_arrow()["x"]] == [meaning(one[0])] * (
                    edit != "delete"
                )
