"""Bags under rules: tables that hold rows several times and views that do, under random edits
against DuckDB.
"""

import random
from collections import Counter

import duckdb
import pytest

import ivm
import pagestore
from ivm.errors import RuleSyntaxError, RuleTypeError
from pagestore.errors import SchemaError

TABLES = {
    "sale": ("s: string?, k: int64?", (("", "a", "b"), (1, 2, 3)), True),
    "kind": ("k: int64?, x: int64?", ((1, 2, 3), (0, 1)), True),
    "item": ("i: int64, k: int64?", (range(6), (1, 2, 3)), False),
}
RULES = """
lang:bag(names). names[s] = n <- agg<<n = sum(m)>> sale[s?, _] = m.
lang:bag(joined). joined[s, x] = n <- agg<<n = sum(p)>> sale[s?, k] = m, kind[k, x?] = l, p = m * l.
part(1, s, k, m) <- sale[s?, k?] = m.
part(2, t, k, m) <- kind[k?, x?] = m, x = 0, t = "". part(3, t, k, m) <- kind[k?, x?] = m, x != 0, t = "".
part(4, t, k, m) <- kind[k?, x?] = m, !kind[k?, x] = m, t = "".
lang:bag(either). either[k] = n <- agg<<n = sum(m)>> part(_, _, k?, m).
lang:bag(kinds). kinds[k] = n <- agg<<n = count()>> item(_, k?).
lang:bag(again). again[k] = n <- agg<<n = sum(p)>> kinds[k?] = m, kind[k?, _] = l, p = m * l.
distinct(s) <- sale[s?, _] = _.
weighted[s] = t <- agg<<t = sum(y)>> sale[s?, k?] = m, y = k * m.
size[] = n <- agg<<n = sum(m) else 0>> sale[_, _] = m.
less[s, k] = d <- sale[s?, k?] = m, kind[k?, _] = _, d = m ; sale[s?, k?] = m, !kind[k?, _] = _, d = m - 1, d > 0.
"""
VIEWS = {
    "sale": "SELECT * FROM sale",
    "names": "SELECT s FROM sale",
    "joined": "SELECT s, x FROM sale JOIN kind USING (k)",
    "either": "SELECT k FROM sale UNION ALL SELECT k FROM kind",
    "kinds": "SELECT k FROM item",
    "again": "SELECT item.k FROM item JOIN kind ON item.k IS NOT DISTINCT FROM kind.k",
    "distinct": "SELECT DISTINCT s FROM sale",
    "weighted": "SELECT s, sum(k) FROM sale GROUP BY s",
    "size": "SELECT count(*) FROM sale",
}
SQL = {"int64": "BIGINT", "string": "VARCHAR"}


class Beside:
    """The tables in a workspace and in DuckDB, and what subscribers were told."""

    def __init__(self, path: str, rng: random.Random, **options) -> None:
        self.path, self.rng, self.sql = path, rng, duckdb.connect()
        self.told: dict[str, Counter] = {}
        with pagestore.open(path, retain="all") as store, store.transaction() as txn:
            for name, (schema, _, bag) in TABLES.items():
                txn.create(name, schema, bag=bag, keys_null=True)
                columns = ", ".join(
                    f"{c.name} {SQL[c.type.name]}" for c in txn[name].schema.columns
                )
                self.sql.execute(f"CREATE TABLE {name} ({columns})")
        self.ws = ivm.open(path, sync="off")
        self.edit(9, True)
        self.ws.install(RULES, **options)
        self.listen()

    def listen(self) -> None:
        for name in VIEWS:
            if name != "sale":
                self.told[name] = Counter(self.ws[name])
                self.ws.subscribe(name, lambda table, name=name: self.hear(name, table.to_pylist()))

    def hear(self, name: str, changes: list[dict]) -> None:
        for change in changes:
            *row, kind = change.values()
            self.told[name][tuple(row)] += 1 if kind == "insert" else -1

    def edit(self, most: int, beside: bool) -> None:
        with (self.ws.store if beside else self.ws).transaction() as txn:
            for name, (schema, values, bag) in TABLES.items():
                nullable = [column.endswith("?") for column in schema.split(", ")]
                columns = [column.partition(":")[0] for column in schema.split(", ")]
                same = " AND ".join(f"{column} IS NOT DISTINCT FROM ?" for column in columns)
                for _ in range(self.rng.randint(0, most)):
                    row = tuple(
                        None if null and self.rng.random() < 0.3 else self.rng.choice(some)
                        for null, some in zip(nullable, values, strict=True)
                    )
                    how = self.rng.choice(
                        ["insert", "insert", "delete", "every"] if bag else ["insert", "delete"]
                    )
                    times = self.rng.choice([1, 1, 3]) if bag else 1
                    edit = getattr(txn[name], how.replace("every", "delete")) if beside else None
                    edit = edit or (
                        lambda rows, n=name, h=how, **o: getattr(txn, h.replace("every", "delete"))(
                            n, rows, **o
                        )
                    )
                    edit([row] * times, **({"every": True} if how == "every" else {}))
                    if how == "insert":
                        if not bag:
                            self.sql.execute(f"DELETE FROM {name} WHERE {same}", row)
                        self.sql.executemany(f"INSERT INTO {name} VALUES (?, ?)", [row] * times)
                    else:
                        limit = f"LIMIT {times}" if how == "delete" else ""
                        some = f"SELECT rowid FROM {name} WHERE {same} {limit}"
                        self.sql.execute(f"DELETE FROM {name} WHERE rowid IN ({some})", row)

    def compare(self) -> None:
        for name, sql in VIEWS.items():
            found, wanted = Counter(self.ws[name]), Counter(self.sql.execute(sql).fetchall())
            assert found == wanted, (name, found - wanted, wanted - found)
            assert len(self.ws[name]) == wanted.total() == self.ws[name].to_arrow().num_rows
            assert name == "sale" or +self.told[name] == wanted, name


@pytest.mark.parametrize("maintenance", ["match", "probe", "auto"])
def test_bags_follow_edits(tmp_path, maintenance):
    rng = random.Random(maintenance)
    beside = Beside(str(tmp_path / "s.pages"), rng, maintenance=maintenance)
    beside.compare()
    for step in range(20):
        before, version = (
            {name: Counter(beside.ws[name]) for name in VIEWS},
            beside.ws.store.version,
        )
        beside.edit(rng.choice([1, 3, 9]), bool(step % 2))
        beside.compare()
        for name in VIEWS:
            changes = Counter(before[name])
            for change in (
                beside.ws.store.diff(version, beside.ws.store.version, name).read_all().to_pylist()
            ):
                *row, kind = change.values()
                changes[tuple(row)] += 1 if kind == "insert" else -1
            assert +changes == Counter(beside.ws[name]), name
            assert Counter(beside.ws.at(version)[name]) == before[name]
        if step == 9:
            beside.ws.close()
            beside.ws = ivm.open(beside.path, sync="off")
            beside.listen()
    assert beside.ws.check() == [] and beside.ws.store.check() == []
    beside.ws.repair()
    beside.compare()
    beside.ws.close()


def test_texts_edit_multiplicities(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.create("sale", "item: string, price: int64?", bag=True, keys_null=True)
    with ivm.open(tmp_path / "s.pages") as ws:
        for text in ("", "all(i) <- sale[i, _] = _."):  # first without rules that read it
            ws.install(text or "other(x) -> int(x).", f"block{len(text)}")
            ws.exec(
                '^sale["tea", 3] = 4. -sale["tea", 3] = 1. +sale["bun", null["int"]] = 2. '
                '+sale["bun", 1] = 1.'
            )
            ws.exec('-sale["bun", 1].')
            assert [*ws["sale"]] == [("bun", None)] * 2 + [("tea", 3)] * 3
            ws.exec('-sale["bun", null["int"]] = 5. -sale["no", 1] = 1.')
            assert [*ws["sale"]] == [("tea", 3)] * 3
        assert (
            str(ws.predicates["sale"])
            == "sale[item, price] = times -> string(item), int64?(price), int64(times)."
        )
        with ws.transaction() as txn, pytest.raises(SchemaError, match="is a bag"):
            txn.set("sale", [("tea", 1)])
        assert [*ws.query("lang:bag(q). q[i] = n <- agg<<n = sum(m)>> sale[i, _] = m.")] == [
            ("tea",)
        ] * 3


def test_a_view_becomes_a_bag_and_back(tmp_path):
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install("e(x, y) -> int(x), int(y). +e(1, 1). +e(1, 2). +e(2, 2).", "facts")
        rule = "v[x] = n <- agg<<n = count()>> e(x, _). w(x) <- v[x] = 2."
        for text, rows in (
            (rule, [(1, 2), (2, 1)]),
            (f"lang:bag(v). {rule}", [(1,), (1,), (2,)]),
        ) * 2:
            ws.install(text, "views", replace=True)
            assert [*ws["v"]] == rows and [*ws["w"]] == [(1,)]
        assert ws.check() == []


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        (
            "lang:bag(v). v[x] = y <- e(x, y).",
            RuleTypeError,
            "1:10: v is not a view of this text that counts rows",
        ),
        (
            "lang:bag(v). v[] = n <- agg<<n = count()>> e(_, _).",
            RuleTypeError,
            "v is not a view of this text that counts",
        ),
        ("lang:bag(e).", RuleTypeError, "e is not a view of this text"),
        (
            "lang:bag(1).",
            RuleSyntaxError,
            r"lang:bag takes the name of a view, as in lang:bag\(v\)",
        ),
    ],
)
def test_what_is_not_a_bag(text, error, reason, tmp_path):
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install("e(x, y) -> int(x), int(y).", "facts")
        with pytest.raises(error, match=reason):
            ws.install(text)
