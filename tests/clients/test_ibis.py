"""Ibis over a store: expressions beside DuckDB's answers, and kept while rows come and go."""

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

ibis = pytest.importorskip("ibis")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow_hotfix")

import ivm  # noqa: E402
from ivm.ibis import Backend  # noqa: E402

_ = ibis._


def rows(seed: int, count: int) -> Any:
    draw = random.Random(seed)
    some = lambda value: None if draw.random() < 0.15 else value  # noqa: E731
    start = datetime.datetime(2023, 12, 30, 22, 5)
    return pa.table(
        {
            "id": range(seed * 1000, seed * 1000 + count),
            "g": [draw.choice("abc") for _ in range(count)],
            "n": [some(draw.randrange(-9, 9)) for _ in range(count)],
            "x": [some(draw.randrange(-40, 40) / 8) for _ in range(count)],
            "s": [some(draw.choice(["", "Ab", "b c", "é-1"])) for _ in range(count)],
            "at": [
                some(start + datetime.timedelta(hours=draw.randrange(3000))) for _ in range(count)
            ],
            "d": pa.array(
                [Decimal(draw.randrange(999)) / 100 for _ in range(count)], pa.decimal128(9, 2)
            ),
            "l": [
                some([draw.randrange(3) for _ in range(draw.randrange(4))]) for _ in range(count)
            ],
        }
    )


EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "filter": lambda t, u: t.filter((t.n > 2) | t.s.isnull()).select("id", "g", "s"),
    "numbers": lambda t, u: t.select(
        "id", a=t.n + 1, b=t.x / 2, c=t.n % 4, e=t.n // 4, f=t.x.round(1), h=t.n.abs()
    ),
    "texts": lambda t, u: t.select(
        "id", a=t.s.upper(), b=t.s.length(), c=t.s.substr(0, 2), e=t.s + "!", f=t.s.contains("b")
    ),
    "more texts": lambda t, u: t.select(
        "id", a=t.s.replace("b", "q"), b=t.s.like("%b%"), c=t.s.re_search("^A"), e=t.s.find("b")
    ),
    "moments": lambda t, u: t.select(
        "id", a=t.at.year(), b=t.at.month(), c=t.at.truncate("M"), e=t.at.date(), f=t.at.hour()
    ),
    "cases": lambda t, u: t.select(
        "id",
        a=ibis.cases((t.n > 0, "more"), (t.n < 0, "less"), else_="none"),
        b=t.n.fill_null(0),
        c=ibis.coalesce(t.s, t.g),
    ),
    "casts": lambda t, u: t.select(
        "id", a=t.n.cast("string"), b=t.x.cast("int64"), c=t.d.cast("float64"), e=t.at.cast("date")
    ),
    "isin": lambda t, u: t.filter(t.g.isin(["a", "b"]) & t.n.between(-3, 3)).select("id"),
    "aggregates": lambda t, u: t.group_by("g").agg(
        a=t.n.sum(),
        b=t.n.count(),
        c=t.x.min(),
        e=t.x.max(),
        f=t.n.nunique(),
        h=t.d.sum(),
        k=t.count(),
        m=t.x.mean(),
    ),
    "having": lambda t, u: t.group_by("g").having(t.count() > 2).agg(a=t.n.max()),
    "where": lambda t, u: t.agg(
        a=t.n.sum(where=t.g == "a"), b=t.count(where=t.x > 0), c=(t.x > 0).any(), e=(t.n > 0).all()
    ),
    "deviations": lambda t, u: t.group_by("g").agg(
        a=t.x.std(), b=t.x.var(how="pop"), c=t.x.quantile(0.5)
    ),
    "inner join": lambda t, u: t.join(u, "g").select("id", "id_right", m=t.n * u.n),
    "left join": lambda t, u: t.left_join(u, [t.n == u.n]).select("id", "id_right"),
    "semi join": lambda t, u: t.semi_join(u, "n").select("id", "n"),
    "anti join": lambda t, u: t.anti_join(u, "n").select("id", "n"),
    "union": lambda t, u: t.select("g", "n").union(u.select("g", "n")),
    "distinct": lambda t, u: t.select("g", "s").distinct(),
    "difference": lambda t, u: t.select("n").difference(u.select("n")),
    "windows": lambda t, u: t.mutate(
        a=t.n.sum().over(group_by="g"), b=ibis.row_number().over(group_by="g", order_by="id")
    ).select("id", "a", "b"),
    "lag": lambda t, u: t.select(
        "id",
        a=t.n.lag().over(group_by="g", order_by="id"),
        b=t.x.cumsum().over(group_by="g", order_by="id"),
    ),
    "lists": lambda t, u: t.select("id", a=t.l.length(), b=t.l[0], c=t.l.contains(1)),
    "unnest": lambda t, u: t.select("id", a=t.l.unnest()).group_by("a").agg(n=_.count()),
    "scalar": lambda t, u: t.filter(t.x > t.x.mean()).select("id"),
    "first": lambda t, u: t.order_by(t.id.desc()).limit(4).select("id"),
    "pivot": lambda t, u: t.select("s", "g", "n").pivot_wider(
        names_from="g", values_from="n", values_agg="sum", names=["a", "b", "c"]
    ),
    "sql": lambda t, u: t.select("id", "g").filter(_.id > 1).mutate(k=_.g + "x"),
}


def told(table: Any) -> list[str]:
    """What a table holds, whatever the order of its rows; numbers as floats of twelve digits."""

    def one(value: Any) -> Any:
        return float(f"{value:.12g}") if isinstance(value, float | int | Decimal) else value

    return sorted(repr([one(value) for value in row.values()]) for row in table.to_pylist())


def test_expressions_are_those_of_duckdb_and_are_kept() -> None:
    with ivm.open(":memory:") as ws:
        own, truth = Backend.from_connection(ws), ibis.duckdb.connect()
        for seed, name in enumerate("tu"):
            made = rows(seed, 25)
            own.create_table(name, made)
            truth.con.register("made", made)
            truth.con.execute(f"CREATE TABLE {name} AS SELECT * FROM made")
        both = own, truth
        asked, wanted = ([con.table("t"), con.table("u")] for con in both)
        for name, made in EXPRESSIONS.items():
            found = made(*asked)
            assert told(own.to_pyarrow(found)) == told(truth.to_pyarrow(made(*wanted))), name
            own.create_view(f"kept {name}", found, materialized=True)
        more = rows(3, 9)
        own.insert("t", more)
        truth.con.register("more", more)
        truth.con.execute("INSERT INTO t SELECT * FROM more")
        for con in both:
            con.raw_sql("DELETE FROM u WHERE n > 3")
            con.raw_sql("UPDATE t SET n = n + 1 WHERE g = 'a'")
        for name, made in EXPRESSIONS.items():
            kept = own.table(f"kept {name}").to_pyarrow()
            assert told(kept) == told(truth.to_pyarrow(made(*wanted))), name


def test_a_whole_table_is_decoded_and_not_evaluated() -> None:
    """With the same values as a question has; lists, which are stored as texts, are evaluated."""
    with ivm.open(":memory:") as ws:
        con = Backend.from_connection(ws)
        made = rows(1, 50).append_column("small", pa.array([1, None] * 25, pa.int32()))
        con.create_table("listed", made)
        con.create_table("plain", made.drop_columns(["l"]))
        con.create_view(
            "kept", con.table("plain").group_by("g").agg(n=_.n.sum()), materialized=True
        )
        con.create_view("expanded", con.table("plain"))
        ws.sql("CREATE TABLE times (at TIME, f REAL, u UUID, j JSON, z TIMESTAMPTZ)")
        ws.sql(
            """INSERT INTO times VALUES ('10:00', 1.5, uuid(), '{"a": 1}', now()), (NULL, NULL, NULL, NULL, NULL)"""
        )
        whole = {name: con.table(name) for name in ("listed", "plain", "kept", "expanded", "times")}
        evaluated = {
            name: (one.limit(99).to_pyarrow(), one.limit(99).execute())
            for name, one in whole.items()
        }
        for name, table in whole.items():
            assert table.to_pyarrow().equals(evaluated[name][0]), name
            assert table.execute().equals(evaluated[name][1]), name
        decoded = {name for name, table in whole.items() if con._decoded(table) is not None}
        assert decoded >= {"plain", "times"} and decoded.isdisjoint({"listed", "expanded"}), decoded


def test_tables_and_views_are_made_and_dropped(tmp_path: Path) -> None:
    con = Backend()
    con.do_connect(tmp_path / "a.pages")
    table = con.create_table("t", pd.DataFrame({"a": [1, 2, None], "b": ["x", None, "z"]}))
    assert table.schema() == ibis.schema({"a": "float64", "b": "string"})
    con.create_table("e", schema={"k": "int32", "l": "array<float64>", "m": "map<string, int64>"})
    con.insert("e", [{"k": 1, "l": [1.0, None], "m": {"x": 2}}])
    assert con.table("e").to_pyarrow().to_pylist() == [{"k": 1, "l": [1.0, None], "m": [("x", 2)]}]
    con.create_view("v", table.filter(_.a > 1))
    con.create_view("w", table.agg(n=_.count()), materialized=True)
    assert con.table("v").execute().a.tolist() == [2.0]
    con.insert("t", con.table("v"))
    assert con.table("w").n.sum().execute() == 4
    other = ibis.memtable({"a": [1.0, 7.0], "c": [None, None]})
    assert con.execute(table.join(other, "a").count()) == 1
    assert con.list_tables() == ["e", "t", "v", "w"] and con.list_tables(like="^[vw]$") == [
        "v",
        "w",
    ]
    con.create_table("e", table.select("a"), overwrite=True)
    assert sum(one.num_rows for one in con.table("e").to_pyarrow_batches(chunk_size=2)) == 4
    for name in ("w", "v"):
        con.drop_view(name)
    con.drop_view("v", force=True)
    con.truncate_table("t")
    assert con.list_tables() == ["e", "t"] and table.count().execute() == 0
    with pytest.raises(ibis.common.exceptions.TableNotFound):
        con.table("nope")
    with pytest.raises(ibis.common.exceptions.UnsupportedOperationError):
        con.create_table("x", table, temp=True)
    con.disconnect()
    with ivm.open(tmp_path / "a.pages") as ws:
        assert {"e", "t"} == {
            name for (name,) in ws.sql("SELECT table_name FROM information_schema.tables") or ()
        }
