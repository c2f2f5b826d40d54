"""Raw tables become load-ready Parquet: what is kept, what goes into quarantine and why, and how
files are laid out.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagestore
from pagestore_tools.cli import main
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.manifest import read_manifest
from pagestore_tools.spark.recipe import Recipe, read_recipes, recipe_of
from tests.support.file_systems import hdfs_by_default


@pytest.fixture
def submitted(spark, monkeypatch: pytest.MonkeyPatch):
    """The command takes the session that exists, as under spark-submit."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "0")
    return spark


def lines(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in sorted(folder.glob("*.txt"))
        for line in file.read_text().splitlines()
    ]


def rows_of(folder: Path) -> list[tuple[Any, ...]]:
    return [
        tuple(row.values())
        for file in sorted(folder.glob("*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]


# --- against slow truth -------------------------------------------------------------------------

FIELDS = {
    "k": ["1", "2", "3", "x", ""],
    "g": ["a", "b", ""],
    "v": ["0", "1.5", "2.25", "2.255", "99", ""],
}


def naive(rows: list[dict[str, str]]) -> tuple[list[tuple[Any, ...]], Counter[str]]:
    """The rows that are kept, and how many come to which end; evaluated with loops and dicts."""
    ends: Counter[str] = Counter()
    by_key: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        if row["g"] == "b" and row["k"] == "1":
            ends["unwanted"] += 1
            continue
        key = int(row["k"]) if row["k"].isdecimal() else None
        try:
            value = Decimal(row["v"]) if row["v"] else None
        except InvalidOperation:
            value = None
        bad = [] if key is not None else ["k is null"] if not row["k"] else ["k does not fit int64"]
        if value is not None and value != round(value, 2):
            bad.append("v does not fit decimal(6,2) without a loss")
        elif value is not None and value > 50:
            bad.append("v is above 50")
        for reason in bad:
            ends[reason] += 1
        if bad:
            ends["quarantined"] += 1
        elif not row["g"]:
            ends["dropped"] += 1
        else:
            by_key.setdefault((key, row["g"]), []).append(value)
    kept = []
    for key_, values in by_key.items():
        if len({*values}) > 1:
            ends["conflicts"] += 1
            ends["quarantined"] += len(values)
        else:
            ends["duplicates"] += len(values) - 1
            kept.append((*key_, values[0]))
    return sorted(kept), ends


@pytest.mark.parametrize("seed", [1])
def test_random_rows_come_to_the_ends_that_loops_say(spark, tmp_path: Path, seed: int) -> None:
    from pagestore_tools.spark.prepare import prepare

    rng = random.Random(seed)
    rows = [{name: rng.choice(values) for name, values in FIELDS.items()} for _ in range(18)]
    raw = tmp_path / "raw.csv"
    raw.write_text("k,g,v\n" + "".join(",".join(row.values()) + "\n" for row in rows))
    columns = {
        "k": "int64",
        "g": {"type": "string", "nulls": "drop"},
        "v": {"type": "decimal(6,2)?", "most": 50},
    }
    where = "not (g <=> 'b' and k <=> '1')"
    section = {
        "source": str(raw),
        "key": ["k", "g"],
        "columns": columns,
        "where": where,
        "partitions": 2,
    }
    report = prepare(spark, recipe_of("r", section), tmp_path)
    kept, ends = naive(rows)
    assert rows_of(tmp_path / "r") == kept
    found = {
        name: getattr(report, name)
        for name in ("unwanted", "dropped", "quarantined", "duplicates", "conflicts")
    }
    assert {**found, **report.reasons} == {**dict.fromkeys(found, 0), **ends}
    assert report.raw == len(rows) == sum(found.values()) - report.conflicts + report.kept
    assert len(lines(tmp_path / "r.quarantine")) == report.quarantined
    assert json.loads((tmp_path / "r" / "_report.json").read_text())["kept"] == len(kept)


# --- types --------------------------------------------------------------------------------------

BAD, LOST = "does not fit", "without a loss"
TEXTS = [  # a text, a type, and its value or what is wrong with it
    ("12", "int64", 12),
    (" 12 ", "int64", 12),
    ("1.5", "int64", BAD),
    ("9223372036854775808", "int64", BAD),
    ("-9223372036854775808", "int64", -(2**63)),
    ("-9223372036854775808", "int64?", "stands for null"),
    ("1e3", "float64", 1000.0),
    ("nan", "float64", "is NaN"),
    ("abc", "float64", BAD),
    ("true", "bool", True),
    ("maybe", "bool", BAD),
    ("2024-02-29", "date", date(2024, 2, 29)),
    ("2023-02-29", "date", BAD),
    ("2024-02-29 10:00:00", "date", LOST),
    ("10000-01-01", "date", "outside the years"),
    ("2024-02-29 10:00:00.25", "timestamp", datetime(2024, 2, 29, 10, 0, 0, 250_000)),
    ("2024-02-29T10:00:00+02:00", "timestamp", LOST),
    ("2024-02-29T10:00:00+02:00", "timestamp(UTC)", datetime(2024, 2, 29, 8, tzinfo=UTC)),
    ("1.25", "decimal(9,2)", Decimal("1.25")),
    ("1.255", "decimal(9,2)", LOST),
    ("99999999.5", "decimal(9,2)", BAD),
    ("1.2500000000000000000001", "decimal(9,2)", LOST),
    ("1.2500", "decimal(9,2)", Decimal("1.25")),
    ("1d", "decimal(9,2)", BAD),
    ("1d", "float64", LOST),
    ("0x1p3", "float64", LOST),
    ("1F", "float64", LOST),
    ("-Infinity", "float64", float("-inf")),
    ("1e999", "float64", LOST),
    ("1e-999", "float64", LOST),
    ("9007199254740993", "float64", LOST),
    ("9007199254740992", "float64", 2.0**53),
    ("yes", "bool", LOST),
    ("12:30:00", "timestamp", BAD),
    ("T12:30", "timestamp", BAD),
    ("12:30:00", "timestamp(UTC)", LOST),
    ("2024", "timestamp", LOST),
    ("2024-02", "date", LOST),
    ("2024-02-29T00:00:00Z", "date", LOST),
    ("2024-02-29 00:00", "date", date(2024, 2, 29)),
    ("2024-02-29 10:00:00.1234567", "timestamp", LOST),
    ("2024-02-29 10:00:00.123456000", "timestamp", datetime(2024, 2, 29, 10, 0, 0, 123456)),
    ("2024-02-29 10:00:00.1234567Z", "timestamp(UTC)", LOST),
    ("2024-02-29 10:00", "timestamp(Europe/Berlin)", LOST),
    ("2024-02-29 10:00:00+01:00", "timestamp(Europe/Berlin)", datetime(2024, 2, 29, 9, tzinfo=UTC)),
    ("é", "string", "é"),
    ("é", "bytes", "é".encode()),
]


def test_every_type_from_text(spark) -> None:
    from pagestore_tools.spark.typed import REASONS, classify

    columns = {f"c{i}": {"type": kind, "from": f"x{i}"} for i, (_, kind, _) in enumerate(TEXTS)}
    rows = spark.createDataFrame(
        [tuple(text for text, _, _ in TEXTS)], [f"x{i}" for i in range(len(TEXTS))]
    )
    fine = [
        f"c{i}"
        for i, (_, kind, wanted) in enumerate(TEXTS)
        if not isinstance(wanted, str) or kind == "string"
    ]
    classified = classify(rows, recipe_of("r", {"key": ["c0"], "columns": columns}))
    # a year 10000 has no value in Python
    [row] = classified.select(*fine, REASONS).toArrow().to_pylist()
    for i, (text, kind, wanted) in enumerate(TEXTS):
        reasons = [reason for reason in row[REASONS] if reason.startswith(f"c{i} ")]
        if f"c{i}" not in fine:
            assert reasons and str(wanted) in reasons[0], (text, kind, reasons)
        else:
            assert (row[f"c{i}"], reasons) == (wanted, []), (text, kind)


CASTS = [  # an SQL value, a type, and whether it is held exactly
    ("cast(3.0 as double)", "int64", True),
    ("cast(3.5 as double)", "int64", False),
    ("cast(1e30 as double)", "int64", False),
    ("cast(1.5 as float)", "float64", True),
    ("cast(9007199254740993 as bigint)", "float64", False),
    ("cast(1.230 as decimal(20,3))", "decimal(9,2)", True),
    ("cast(1.234 as decimal(20,3))", "decimal(9,2)", False),
    ("timestamp_ntz'2024-01-01 00:00:00'", "date", True),
    ("timestamp_ntz'2024-01-01 01:00:00'", "date", False),
    ("date'2024-01-01'", "timestamp", True),
    ("2", "bool", False),
    ("1", "bool", False),
    ("true", "int64", False),
    ("true", "decimal(9,2)", False),
    ("7", "timestamp", False),
    ("7", "timestamp(UTC)", False),
    ("timestamp'2024-01-01 00:00:00'", "int64", False),
    ("timestamp'2024-01-01 00:00:00'", "float64", False),
    ("x'C3A9'", "string", True),
    ("x'FF'", "string", False),
    ("cast(7 as tinyint)", "int64", True),
    ("cast(7 as tinyint)", "string", True),
]


def test_every_type_from_others(spark) -> None:
    from pagestore_tools.spark.typed import REASONS, classify

    columns = {f"c{i}": {"type": kind, "from": sql} for i, (sql, kind, _) in enumerate(CASTS)}
    [row] = classify(spark.range(1), recipe_of("r", {"key": ["c0"], "columns": columns})).collect()
    for i, (sql, kind, exact) in enumerate(CASTS):
        assert exact == (not any(reason.startswith(f"c{i} ") for reason in row[REASONS])), (
            sql,
            kind,
            row[f"c{i}"],
        )


def test_columns_are_taken_as_they_are_or_refused_by_name(spark) -> None:
    from pagestore_tools.spark.typed import with_types

    held = "1 k, 1Y b, 1.5F f, 'a' s, true t, date'2024-01-01' d, 1.5BD m, x'00' y, timestamp'2024-01-01 00:00:00' z"
    recipe = with_types(Recipe("r", ("k",)), spark.sql(f"select {held}"))
    assert [str(one.type) for one in recipe.columns.values()] == [
        "int64",
        "int64?",
        "float64?",
        "string?",
        "bool?",
        "date?",
        "decimal(2,1)?",
        "bytes?",
        "timestamp(UTC)?",
    ]
    for sql in ("array(1)", "map('a', 1)", "named_struct('x', 1)", "interval 1 day", "null"):
        with pytest.raises(
            DatasetError,
            match=r"r: column c is of type .*, which no relation holds: say with columns",
        ):
            with_types(Recipe("r", ("k",)), spark.sql(f"select 1 k, {sql} c"))
    with pytest.raises(DatasetError, match="no column z for the key; there are k"):
        with_types(Recipe("r", ("z",)), spark.sql("select 1 k"))


# --- sources and layout -------------------------------------------------------------------------


def test_lines_that_do_not_read_are_kept_for_their_owner(spark, tmp_path: Path) -> None:
    from pagestore_tools.spark.prepare import bad_rows, classify, merge, read, with_types

    (tmp_path / "a.csv").write_text('k,s\n1,"say ""hi"""\n2\n3,a,b\n')
    (tmp_path / "b.jsonl").write_text(
        '{"k": 12345678901234567890.5, "s": "a"}\n{"k": 1,\n{"k": 2, "s": "b"}\n'
    )
    found = []
    for source in ("a.csv", "b.jsonl"):
        section = {
            "source": source,
            "key": ["k"],
            "columns": {"k": "int64", "s": "string"},
            "where": "k < '9'",
        }
        recipe = recipe_of("r", section, beside=tmp_path)
        raw = read(spark, recipe)
        classified = classify(raw, with_types(recipe, raw))
        bad = [
            json.loads(row[0])
            for row in bad_rows(classified, merge(classified, recipe), recipe).collect()
        ]
        found.append([(line["reasons"], line["row"]) for line in bad])
    unread = ["the line does not read"]
    assert found[0] == [(unread, {"line": "2"}), (unread, {"line": "3,a,b"})]
    assert (unread, {"line": '{"k": 1,'}) in found[1]
    assert (["k does not fit int64"], {"k": "12345678901234567890.5", "s": "a"}) in found[1]


def test_a_hot_value_is_split_and_files_ascend(spark, tmp_path: Path) -> None:
    from pagestore_tools.spark.prepare import prepare

    rows = spark.range(0, 3000).selectExpr(
        "if(id % 10 = 0, id, 7) as hot", "(id * 7919) % 3001 as y", "id as v"
    )
    section = {"key": ["hot", "y"], "partitions": 3, "row_group": 400}
    with hdfs_by_default(spark):
        report = prepare(spark, recipe_of("r", section), tmp_path, rows)
    manifest = read_manifest(tmp_path / "r")
    assert manifest is not None and report.kept == manifest.rows == 3000
    assert len(manifest.files) == 3 and max(file.rows for file in manifest.files) < 1500
    kept = rows_of(tmp_path / "r")
    assert kept == sorted(kept)
    sizes = [pq.ParquetFile(file) for file in (tmp_path / "r").glob("*.parquet")]
    assert (
        max(f.metadata.row_group(i).num_rows for f in sizes for i in range(f.num_row_groups)) <= 400
    )
    assert (
        main.pagestore(["load", str(tmp_path / "s.pages"), "r", str(tmp_path / "r"), "--quiet"])
        == 0
    )
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert [*store.snapshot()["r"]] == kept and store.snapshot()["r"].schema.key == ("hot", "y")


def test_the_newest_of_several_rows_is_preferred(spark, tmp_path: Path) -> None:
    from pagestore_tools.spark.prepare import prepare

    rows = spark.sql(
        "select * from values (1, 'old', 1), (1, 'new', 2), (2, 'one', 5), (2, 'one', 5) as t(k, "
        "s, day)"
    )
    columns = {"k": "int64", "s": "string"}
    report = prepare(
        spark, recipe_of("r", {"key": ["k"], "columns": columns, "prefer": "day"}), tmp_path, rows
    )
    assert rows_of(tmp_path / "r") == [(1, "new"), (2, "one")]
    assert (report.superseded, report.duplicates, report.conflicts, report.quarantined) == (
        1,
        1,
        0,
        0,
    )
    assert "1 superseded\n    such as key (k=1) in 2 rows" in str(report)


def test_the_zone_of_a_cluster_does_not_count(spark, tmp_path: Path) -> None:
    from pagestore_tools.spark.prepare import prepare

    (tmp_path / "r.csv").write_text("t\n2013-01-01 10:00:00.123456\n2013-07-01T10:00:00+02:00\n")
    wanted = {"source": str(tmp_path / "r.csv"), "key": ["t"], "columns": {"t": "timestamp(UTC)"}}
    theirs = {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    }
    before = {name: spark.conf.get(name) for name in theirs}
    try:
        for name, value in theirs.items():
            spark.conf.set(name, value)
        prepare(spark, recipe_of("r", wanted), tmp_path)
        assert {name: spark.conf.get(name) for name in theirs} == theirs
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    times = [datetime(2013, 1, 1, 10, 0, 0, 123456, UTC), datetime(2013, 7, 1, 8, tzinfo=UTC)]
    assert rows_of(tmp_path / "r") == [(time,) for time in times]


FAILING = [  # where v is x; several have a part in common
    "cast(v as int)",
    "1 / cast(v as int)",
    "element_at(array(1), cast(v as int))",
    "to_date(v, 'y')",
    "if(v = '1', 2, raise_error('no'))",
    "from_json(if(v = '1', '{}', '{'), 'a int', map('mode', 'FAILFAST')).a",
    "transform(array(v), x -> cast(x as int))[0]",
    "make_date(2024, 1, int(v))",
]


def test_sql_that_fails_for_a_row_is_a_reason_of_the_row(spark, tmp_path: Path) -> None:
    """SQL of a column, a bound, `where` and `prefer`."""
    from pagestore_tools.spark.prepare import prepare

    rows = spark.createDataFrame([("1", 1), ("x", 2), ("x", 3), ("1", 1)], "v string, k int")
    columns: dict[str, Any] = {
        f"c{i}": {"type": "string?", "from": sql} for i, sql in enumerate(FAILING)
    }
    columns |= {"k": "int64", "m": {"type": "int64?", "from": "3", "most": "int(v) + 5"}}
    section = {
        "key": ["k"],
        "columns": columns,
        "where": "cast(v as int) < 9",
        "prefer": "9 - cast(v as int)",
    }
    report = prepare(spark, recipe_of("r", section), tmp_path, rows)
    assert (report.raw, report.kept, report.duplicates, report.quarantined) == (4, 1, 1, 2)
    said = [f"c{i} fails: {sql}" for i, sql in enumerate(FAILING)]
    said += ["m: int(v) + 5 fails", "cast(v as int) < 9 fails", "9 - cast(v as int) fails"]
    assert report.reasons == dict.fromkeys(said, 2)
    assert [line["row"] for line in lines(tmp_path / "r.quarantine")] == [
        {"v": "x", "k": 2},
        {"v": "x", "k": 3},
    ]


def test_a_fill_that_is_no_value_is_refused(spark) -> None:
    from pagestore_tools.spark.typed import with_types

    for kind, fill, says in (
        ("int64", "n/a", "k does not fit int64"),
        ("decimal(9,2)", "1.255", "without a loss"),
    ):
        recipe = recipe_of("r", {"key": ["k"], "columns": {"k": {"type": kind, "fill": fill}}})
        with pytest.raises(DatasetError, match=rf"r: column k: fill = '{fill}': .*{says}"):
            with_types(recipe, spark.sql("select 1 k"))


def test_jdbc_and_tables_are_sources(spark, tmp_path: Path) -> None:
    from pagestore_tools.spark.prepare import read

    spark.sql("select 1 k, 'a' s").createOrReplaceTempView("raw_table")
    table = recipe_of("r", {"source": "raw_table", "format": "table", "key": ["k"]})
    assert [tuple(row) for row in read(spark, table).collect()] == [(1, "a")]
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    options = {
        "url": f"jdbc:derby:{tmp_path / 'db'};create=true",
        "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "query": "select 1 as k, 'a' as s from sysibm.sysdummy1",
    }
    jdbc = recipe_of("r", {"format": "jdbc", "options": options, "key": ["K"]})
    assert [tuple(row) for row in read(spark, jdbc).collect()] == [(1, "a")]


def test_the_command_takes_options(submitted, tmp_path: Path, capsys) -> None:
    (tmp_path / "trip.csv").write_text("id,city,paid\n1,Ulm,NA\n2,Bonn,7\nx,Kiel,8\n")
    words = ["prepare", str(tmp_path), str(tmp_path / "trip.csv"), "--key", "id", "--option",
        "nullValue=NA",
             "--column", "id: int64", "--column", "town: string = upper(city)", "--column",
             "paid: int64",
             "--fill", "paid=0", "--partitions", "1"]  # fmt: skip
    assert main.pagestore(words) == 0
    out = capsys.readouterr().out
    assert "trip: 2 of 3 rows kept, in 1 file of" in out and "1: id does not fit int64" in out
    assert rows_of(tmp_path / "trip") == [(1, "ULM", 0), (2, "BONN", 7)]
    assert lines(tmp_path / "trip.quarantine") == [
        {"reasons": ["id does not fit int64"], "row": {"id": "x", "city": "Kiel", "paid": "8"}}
    ]
    assert main.pagestore(words) == 1
    assert "trip already exists: give another folder, or overwrite it" in capsys.readouterr().err
    assert main.pagestore([*words, "--overwrite", "--strict", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["tables"][0]["kept"] == 2
    assert main.pagestore([*words, "--overwrite", "--where", "nothing = 1"]) == 1
    err = capsys.readouterr().err
    assert "pagestore prepare: Spark failed: [UNRESOLVED_COLUMN" in err and "\tat" not in err


@pytest.mark.campaign
def test_spark_submit_starts_the_job(tmp_path: Path) -> None:
    """It takes a JVM of its own."""
    pytest.importorskip(
        "pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'"
    )
    from pagestore_tools.spark import SUBMIT
    from pagestore_tools.spark.session import _environment

    (tmp_path / "trip.csv").write_text("id,town\n1,Ulm\nx,Kiel\n")
    submit = [Path(sys.executable).with_name("spark-submit"), "--master", "local[1]", SUBMIT]
    words = [
        str(tmp_path),
        str(tmp_path / "trip.csv"),
        "--key",
        "id",
        "--column",
        "id: int64",
        "--column",
        "town: string",
    ]
    with _environment(tmp_path):
        done = subprocess.run(
            [*submit, *words],
            capture_output=True,
            text=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    assert done.returncode == 0 and "trip: 1 of 2 rows kept" in done.stdout, done.stderr[-2000:]
    assert rows_of(tmp_path / "trip") == [(1, "Ulm")]


# --- recipes, without Spark ---------------------------------------------------------------------


def test_a_file_has_a_section_for_each_relation(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.json").touch()
    (tmp_path / "job.toml").write_text(
        '[a]\nsource = "a.csv.gz"\nkey = "x"\ncolumns = { x = "int64", y = { type = "string", fill '
        '= "" } }\n'
        '[b]\nsource = ["in", "s3a://bucket/x"]\nkey = ["x", "y"]\noptions = { multiLine = true }\n'
    )
    a, b = read_recipes(tmp_path / "job.toml")
    assert (a.name, a.format, a.sources, a.key) == (
        "a",
        "csv",
        (str(tmp_path / "a.csv.gz"),),
        ("x",),
    )
    assert (a.columns["x"].nulls, a.columns["y"].fill) == ("quarantine", "")
    assert (b.format, b.sources, b.options) == (
        "json",
        (str(tmp_path / "in"), "s3a://bucket/x"),
        {"multiLine": "true"},
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no section"),
        ("x = ", "is not TOML"),
        ("x = 1", r"\[x\]: a table is wanted, with source, format"),
        ("[x]\nkeys = 1", r"\[x\]: 'keys' is unknown; there is source, format"),
        ("[x]\nsource = 'a.csv'", r"\[x\]: there is no key"),
        ("[x]\nkey = 'k'\nsource = ['a.csv', 'b.json']", "of several formats, csv, json"),
        (
            "[x]\nkey = 'k'\ncolumns = { z = 'int64' }",
            "the key has k, which is not among the columns",
        ),
        (
            "[x]\nkey = 'k'\ncolumns = { k = 'int64?' }",
            "column k is in the key, which is never null: take int64",
        ),
        ("[x]\nkey = 'k'\ncolumns = { k = 'int' }", "column k: type: 'int' is not a type"),
        (
            "[x]\nkey = 'k'\ncolumns = { k = 'uint64' }",
            "Spark writes no uint64: take int64 or decimal",
        ),
        ("[x]\nkey = 'k'\ncolumns = { k = { from = 'a' } }", "column k has no type"),
        (
            "[x]\nkey = 'k'\ncolumns = { k = { type = 'int64', nulls = 'x' } }",
            "nulls = 'x': use keep, drop, quarantine",
        ),
        ("[x]\nkey = 'k'\nformat = 'orc'", "format = 'orc': use csv, json"),
        ("[x]\nkey = 'k'\npartitions = 0", "partitions = 0: a number from 1 on is wanted"),
        ("[x]\nkey = 'k'\nwhere = []", r"where = \[\]: a text is wanted"),
    ],
)
def test_recipes_that_are_none(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(DatasetError, match=says):
        read_recipes(tmp_path / "job.toml")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Sources of every kind, each with the columns k and v, and relations that exist."""
    table = pa.table({"k": [1], "v": ["a"]})
    for name in "a.parquet", "folder/part-0.parquet":
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / name)
    (tmp_path / "parts" / "p=1").mkdir(parents=True)
    pq.write_table(table, tmp_path / "parts" / "p=1" / "part-0.parquet")
    (tmp_path / "a.csv").write_text("\ufeffk,v\n1,a\n")
    (tmp_path / "b.csv").write_text("k,v,v\n1,a,b\n")
    (tmp_path / "a.jsonl").write_text('{"k": 1, "v": "a"}\n')
    for name in "made", "bad.quarantine":
        (tmp_path / "out" / name).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a.parquet", "--key", "id"], "a: no column id for the key; there are k, v"),
        (["folder", "--key", "k,id"], "folder: no column id for the key; there are k, v"),
        (["parts", "--key", "p,q"], "parts: no column q for the key; there are k, v, p"),
        (["a.csv", "--key", "K"], "a: no column K for the key; there are k, v"),
        (
            ["*.csv", "--key", "id", "--name", "r", "--column", "k: int64"],
            "the key has id, which is not among",
        ),
        (["no.csv", "--key", "k"], "no: there is no source no.csv: name a file or a folder"),
        (["no.jsonl", "--key", "k", "--column", "k: int64"], "there is no source no.jsonl"),
        (["a.csv", "no*.csv", "--key", "k"], "there is no source no*.csv"),
        (
            ["a.csv", "--key", "k", "--name", "made"],
            "made already exists: give another folder, or overwrite",
        ),
        (["a.csv", "--key", "k", "--name", "bad"], "bad.quarantine already exists"),
        (["--config", "no.toml"], "there is no file no.toml"),
    ],
)
def test_what_is_wrong_is_told_before_spark_starts(
    raw: Path, capsys, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setitem(sys.modules, "pagestore_tools.spark.session", None)  # an import of it fails
    monkeypatch.chdir(raw)
    assert main.pagestore(["prepare", "out", *words]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["a.parquet", "--key", "k"],
        ["parts", "--key", "p"],
        ["*.csv", "--key", "k", "--name", "r"],
        ["b.csv", "--key", "v1"],  # Spark's name of it
        ["a.csv", "--key", "_c0", "--option", "header=false"],
        ["a.jsonl", "--key", "other"],  # which may be in a later line
        ["{a,b}.csv", "--key", "k", "--name", "r"],
        ["s3a://bucket/x.csv", "--key", "k"],
        ["a.csv", "--key", "k", "--name", "made", "--overwrite"],
        ["shop.trips", "--key", "k", "--format", "table"],
    ],
)
def test_what_only_spark_knows_is_left_to_it(
    raw: Path, capsys, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setitem(sys.modules, "pagestore_tools.spark.session", None)
    monkeypatch.chdir(raw)
    assert main.pagestore(["prepare", "out", *words]) == 1
    assert "pagestore_tools.spark.session" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--key", "k"], "name the raw table's files"),
        (["a.csv", "--config", "x.toml"], "has the sources: leave them out here"),
        (["a.csv", "--key", "k", "--fill", "k=1"], "there is no --column k"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, capsys, words: list[str], says: str
) -> None:
    assert main.pagestore(["prepare", str(tmp_path), *words]) == 1
    assert says in capsys.readouterr().err
