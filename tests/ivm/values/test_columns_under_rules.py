"""Relations that get other columns, other names, or go, while rules are installed."""

import random

import pytest

import ivm
from ivm import errors
from pagestore.errors import DependantsError

RULES = """
p[i] = (c, a) -> int(i), string(c), int(a).  one[x] = y -> int(x), int(y).  r(x, y) -> int(x), int(y).
unread[x] = y -> int(x), int(y).
total[c] = s <- agg<<s = sum(a)>> p[_] = (c, a).
same(i, j) <- p:c[i] = c, p:c[j] = c, i < j.
both(x, y) <- one[x] = y, r(y, _).
ends(y) <- r(_, y), !one[y] = _.
"""


def truth(p, one, r):
    totals = {c: sum(a for d, a in p.values() if d == c) for c, _ in p.values()}
    return {
        "total": {*totals.items()},
        "same": {(i, j) for i in p for j in p if i < j and p[i][0] == p[j][0]},
        "both": {(x, y) for x, y in one.items() if any(y == a for a, _ in r)},
        "ends": {(y,) for _, y in r if y not in one},
    }


@pytest.mark.parametrize("maintenance", ["match", "probe", "auto"])
@pytest.mark.parametrize(
    ("column", "default", "values"),
    [("z: int64?", None, [None, 7]), ("z: string", "new", ["s", "t"])],
)
def test_views_stand_and_follow_while_columns_come_and_go(
    maintenance, column, default, values, tmp_path
):
    """Of a relation, a function of one value and one of several; in the same commit as edits; in
    a later process.
    """
    rng, path = random.Random(column + maintenance), tmp_path / "w.pages"
    p, one, r = {}, {}, set()
    with ivm.open(path, sync="off") as ws:
        ws.install(RULES, maintenance=maintenance)
    for step in range(24):
        with ivm.open(path, sync="off") as ws:
            with ws.store.transaction() if step % 2 else ws.transaction() as txn:
                edit(txn, step % 2 == 0, rng, (p, one, r), values if step % 12 >= 4 else None)
            if step % 12 == 3:
                with ws.store.transaction() as txn:
                    for name in ("p", "one", "r"):
                        txn.add_column(name, column, default)
                    p.popitem()
                    txn["p"].clear()
                    txn["p"].set([(i, *row, default) for i, row in p.items()])
            if step % 12 == 11:
                with ws.store.transaction() as txn:
                    for name in ("p", "one", "r"):
                        txn.drop_column(name, "z")
            for view, rows in truth(p, one, r).items():
                assert {*ws[view]} == rows, (step, view)
    with ivm.open(path, sync="off") as ws:
        assert ws.check() == [] == ws.store.check()


def edit(txn, through_rules: bool, rng, rows, values) -> None:
    """Random edits of the three relations, by a transaction of the workspace or the store;
    `values` of the new one.
    """
    p, one, r = rows
    for _ in range(5):
        i, more = rng.randrange(6), () if values is None else (rng.choice(values),)
        chosen = {
            "p": (rng.choice("abc"), rng.randrange(9)),
            "one": (rng.randrange(6),),
            "r": (rng.randrange(6),),
        }
        for name, row in chosen.items():
            key = (i, *row) if name == "r" else (i,)
            known = {"p": p, "one": one, "r": r}[name]
            if rng.random() < 0.3:
                txn.delete(name, [key]) if through_rules else txn[name].delete([key])
                known.discard(key) if name == "r" else known.pop(i, None)
                continue
            whole = [(i, *row, *more)]
            txn.set(name, whole) if through_rules else txn[name].set(whole)
            if name == "r":
                r.add(key)
            else:
                known[i] = row if name == "p" else row[0]


def test_edits_of_texts_leave_a_new_column_null_or_are_refused(tmp_path):
    with ivm.open(tmp_path / "w.pages", sync="off") as ws:
        ws.install(RULES)
        ws.exec('+p[1] = ("a", 2). +one[1] = 5.')
        with ws.store.transaction() as txn:
            txn.add_column("p", "note: string?", "old")
            txn.add_column("one", "z: int64", 4)
        ws.exec('^p[1] = ("b", 3). +p[2] = ("b", 4).')
        assert (list(ws["p"]), list(ws["total"])) == (
            [(1, "b", 3, None), (2, "b", 4, None)],
            [("b", 7)],
        )
        for text in ("^one[1] = 6.", "+one[2] = 6.", "-one[1] = 5.", '-p[1] = ("b", 3).'):
            with pytest.raises(
                errors.EditError, match=r"^exec:1:1: (p|one) has the column (note|z), too"
            ):
                ws.exec(text)
        ws.exec("-one[1]. -p[1].")
        assert (list(ws["one"]), ws.check()) == ([], [])


@pytest.mark.parametrize(
    "change",
    [
        lambda txn: txn.drop_column("p", "a"),
        lambda txn: txn.drop("p"),
        lambda txn: txn.rename("p", "q"),
        lambda txn: (txn.drop("p"), txn.create("p", "i: int64, c: string, a: int64")),
        lambda txn: (
            txn.rename("p", "q"),
            txn.create("p", "i: int64, a: int64, c: string", key="i"),
        ),
    ],
)
def test_what_rules_read_stays(change, tmp_path):
    """The error names the views and a way that keeps the table."""
    with ivm.open(tmp_path / "w.pages", sync="off") as ws:
        ws.install(RULES, "sums")
        ws.exec('+p[1] = ("a", 2).')
        with (
            pytest.raises(
                DependantsError,
                match=r"rules of same, total read \(sums:4:1\): uninstall block `sums` first",
            ),
            ws.store.transaction() as txn,
        ):
            change(txn)
        assert (list(ws["total"]), ws.check()) == ([("a", 2)], [])
        ws.uninstall("sums")
        with ws.store.transaction() as txn:
            change(txn)


@pytest.mark.parametrize(
    "change",
    [
        lambda txn: txn.drop("unread"),
        lambda txn: txn.rename("unread", "other"),
        lambda txn: txn.drop_column("unread", "y"),
        lambda txn: txn.add_column("unread", "z: int64", 0),
        lambda txn: (txn.drop("unread"), txn.create("unread", "s: string").insert(["a"])),
    ],
)
def test_what_no_rule_reads_changes_freely(change, tmp_path):
    path = tmp_path / "w.pages"
    with ivm.open(path, sync="off") as ws:
        ws.install(RULES)
        ws.exec('+p[1] = ("a", 2). +unread[1] = 2.')
        with ws.store.transaction() as txn:
            change(txn)
        ws.exec('+p[2] = ("a", 3).')
        assert (list(ws["total"]), ws.check()) == ([("a", 5)], [])
    with ivm.open(path, sync="off") as ws:
        ws.exec('+p[3] = ("b", 3).')
        ws.install("more(c) <- total[c] = _.", "more")
        assert (list(ws["more"]), ws.check(), ws.store.check()) == ([("a",), ("b",)], [], [])
        if "unread" in ws.store.snapshot():
            width = len(ws["unread"].schema.columns)
            if str(ws["unread"].schema.columns[0].type) == "int64":
                with ws.transaction() as txn:
                    txn.insert("unread", [(9,) * width])
                assert (9,) * width in list(ws["unread"])


BY_NAME = """
p[i] = (a, x, c) -> int(i), int(a), decimal(9, 2)?(x), string(c).  // columns. With points
w[i] = (u, v) -> int(i), int(u), int(v).
total[c] = s <- agg<<s = sum(a)>> p:c[i] = c, p:a[i] = a.
other(i) <- w:v[i] = v, !p:a[i] = v.
none(i) <- w[i] = (_, _).
"""
FREE = {  # changes of p: its columns, as rows of (i, a, c) fill them
    "a column less": "i: int64, a: int64, c: string",
    "another name": "i: int64, a: int64, note: decimal(9,2)?, c: string",
    "another type": "i: int64, a: int64, x: bool?, c: string",
    "another order": "i: int64, c: string, x: decimal(9,2)?, a: int64",
    "more columns": "i: int64, y: date?, a: int64, z: float64?, c: string",
}
BOUND = {  # changes that rules do not survive
    "a column that is read": "i: int64, a: int64, x: decimal(9,2)?",
    "its type": "i: int64, a: float64, x: decimal(9,2)?, c: string",
    "its nulls": "i: int64, a: int64?, x: decimal(9,2)?, c: string",
}


def made_again(txn, schema: str, rows: set[tuple[int, int, str]]) -> None:
    """The relation p with other columns, of which those that rows lack are null."""
    txn.drop("p")
    relation = txn.create("p", schema, key="i")
    for i, a, c in rows:
        known = {"i": i, "a": a, "c": c}
        relation.set([tuple(known.get(column.name) for column in relation.schema.stored)])


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "of the store"])
@pytest.mark.parametrize("change", FREE)
def test_columns_that_no_rule_reads_change_in_any_way(change, declared, tmp_path):
    """In one commit with edits of this relation and others; subscribers and later processes
    follow.
    """
    path, rows = tmp_path / "w.pages", {(1, 2, "a"), (2, 3, "b")}
    with ivm.open(path, sync="off") as ws:
        text = BY_NAME
        if not declared:
            with ws.store.transaction() as txn:
                txn.create("p", "i: int64, a: int64, x: decimal(9,2)?, c: string", key="i")
            text = "".join(line for line in BY_NAME.splitlines(True) if not line.startswith("p["))
        ws.install(text, "sums")
        ws.install("names(c) <- p:c[_] = c. twice(i) <- other(i), p:a[i] = _.", "more")
        with ws.store.transaction() as txn:
            txn["p"].set([(i, a, None, c) for i, a, c in rows])
            txn["w"].set([(1, 0, 2), (2, 0, 5)])
        told = []
        ws.subscribe("total", lambda table: told.extend(table.to_pylist()))
        rows |= {(3, 4, "b")}
        with ws.store.transaction() as txn:
            made_again(txn, FREE[change], rows)
            txn["w"].set([(3, 1, 4), (4, 1, 1)])
        assert {
            row["s"] for row in told if row["c"] == "b" and row["_change_type"] == "insert"
        } == {7}
        compare(ws)
        assert {*ws.query("q(c) <- p:c[_] = c.")} == {("a",), ("b",)} and ws.check() == []
    with ivm.open(path, sync="off") as ws:
        with ws.store.transaction() as txn:
            made_again(txn, FREE[change], rows | {(9, 5, "z")})
        compare(ws)
        ws.install("names(c) <- p:c[_] = c.", "more", replace=True)
        assert ws.check() == [] == ws.store.check()
        ws.uninstall("more")
        ws.uninstall("sums")


def compare(ws) -> None:
    p = {row["i"]: row for row in ws["p"].to_arrow().to_pylist()}
    w = {i: v for i, _, v in ws["w"]}
    assert dict(ws["total"]) == {
        c: sum(r["a"] for r in p.values() if r["c"] == c) for c in {r["c"] for r in p.values()}
    }
    other = {(i,) for i, v in w.items() if i not in p or p[i]["a"] != v}
    assert ({*ws["other"]}, {*ws["none"]}) == (other, {(i,) for i in w})
    assert ({*ws["names"]}, {*ws["twice"]}) == (
        {(r["c"],) for r in p.values()},
        {(i,) for (i,) in other if i in p},
    )


@pytest.mark.parametrize("change", BOUND)
def test_columns_that_rules_read_stay(change, tmp_path):
    with ivm.open(tmp_path / "w.pages", sync="off") as ws:
        ws.install(BY_NAME, "sums")
        ws.exec('+p[1] = (2, 0.50, "a").')
        with (
            pytest.raises(DependantsError, match="rules of other, total read"),
            ws.store.transaction() as txn,
        ):
            made_again(txn, BOUND[change], {(1, 2, "a")})
        assert (list(ws["total"]), ws.check(), ws.blocks["sums"]) == ([("a", 2)], [], BY_NAME)


def test_columns_that_rules_read_by_position_do_not_move(tmp_path):
    """Where they have the same types nothing else would show it."""
    with ivm.open(tmp_path / "w.pages", sync="off") as ws:
        ws.install(
            "p[i] = (x, a, b) -> int(i), string(x), int(a), int(b). d(a) <- p[_] = (_, a, _).",
            "sums",
        )
        ws.exec('+p[1] = ("s", 2, 3).')
        with pytest.raises(DependantsError, match="rules of d read"), ws.store.transaction() as txn:
            txn.drop("p")
            txn.create("p", "i: int64, b: int64, z: int64, a: int64", key="i").set([(1, 3, 0, 2)])
        assert (list(ws["d"]), ws.check()) == ([(2,)], [])


def test_a_text_that_declares_a_relation_and_reads_its_columns_is_installed_again(tmp_path):
    """The store has the relation by then, and the text's own declaration counts."""
    with ivm.open(tmp_path / "w.pages", sync="off") as ws:
        for _ in range(2):
            ws.install(BY_NAME, "sums")
            ws.exec('+p[1] = (2, 0.50, "a").')
            assert (list(ws["total"]), ws.blocks["sums"]) == ([("a", 2)], BY_NAME)
            ws.uninstall("sums")
