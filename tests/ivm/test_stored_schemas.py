"""Relations that a store has are known to rules by their schemas, without a declaration."""

import random
from datetime import date

import pytest

import ivm
import pagestore
from ivm.errors import (
    ArityError,
    ConstructError,
    RuleSyntaxError,
    RuleTypeError,
    UnknownPredicateError,
)
from ivm.rules import compile as engine_compile
from ivm.rules.compile import compile
from ivm.rules.installed import PROPERTY
from ivm.rules.relations import declaration_of
from pagestore.errors import SchemaError
from pagestore.values.types import Schema
from pagestore_tools.cli.main import ivm as ivm_command
from tests.support.programs.generations import planning_of, planning_without

SALES = [(1, "a", 3), (2, "b", 4), (3, "a", 5)]


@pytest.fixture
def path(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.create("sale", "id: int64, shop: string, n: int64", key="id").insert(SALES)
        txn.create("city", "shop: string, city: string?", key="shop").insert(
            [("a", "Rome"), ("b", None)]
        )
        txn.create("blob", "n: int64, raw: uint64?", key="n")
    return tmp_path / "s.pages"


@pytest.mark.parametrize(
    ("schema", "key", "declared"),
    [
        ("x: int64, y: int64", None, "r(x, y) -> int64(x), int64(y)."),
        ("y: float64, x: string", "x", "r[x] = y -> string(x), float64(y)."),
        ("x: date, y: decimal(8,2)?", "x", "r[x] = y -> date(x), decimal(8,2)?(y)."),
        (
            "x: bool, y: timestamp, z: int64",
            "x",
            "r[x] = (y, z) -> bool(x), timestamp(y), int64(z).",
        ),
        (
            "my col: int64, agg: int64, c1: int64",
            None,
            "r(`my col`, agg, c1) -> int64(`my col`), int64(agg), int64(c1).",
        ),
        (
            "a`b: int64, _: int64, true: int64",
            None,
            "r(c1, `_`, `true`) -> int64(c1), int64(`_`), int64(`true`).",
        ),
        ("x: int64, y: bytes", "x", "r[x] = y -> int64(x), bytes(y)."),
        ("x: int64, y: timestamp(UTC)?", "x", "r[x] = y -> int64(x), `timestamp(UTC)`?(y)."),
        ("x: int64, y: uint64?", "x", None),
        ("x: int64, y: int64?, z: int64", "x", "r[x] = (y, z) -> int64(x), int64?(y), int64(z)."),
    ],
)
def test_a_schema_as_a_declaration(schema, key, declared):
    found = declaration_of("r", Schema.parse(schema, key))
    assert found == declared
    if found:
        (predicate,) = compile(found).predicates.values()
        assert predicate.types == tuple(
            str(c.type).rstrip("?") for c in Schema.parse(schema, key).stored
        )
    assert (
        declaration_of("a `quote`", Schema.parse(schema, key))
        is declaration_of("$hidden", None)
        is None
    )


def test_rules_read_what_no_text_declares(path):
    with ivm.open(path) as workspace:
        query = "q(c, n) <- sale(_, s, n), city[s] = c."
        assert list(workspace.query(query)) == [("Rome", 3), ("Rome", 5)]
        assert list(workspace.query("q(s, c) <- city:city[s] = c.")) == [("a", "Rome")]
        with pytest.raises(SchemaError, match="rules cannot read 'blob': its column raw is uint64"):
            workspace.query("q(n) <- blob[n] = _.")
        two_rows = workspace.query(
            "q(s, n) <- sale:shop[i] = s, sale:n[j] = n, sale:shop[_] = s, sale:shop[_] = _."
        )
        assert len(two_rows) == 6
        assert workspace.blocks == {}
        workspace.install(
            "total[s] = t <- agg<<t = sum(n)>> sale(_, s, n).\nhas(s) <- sale(_, s, _), city[s] = "
            "_."
        )
        workspace.install("dear(s) <- total[s] = t, t > 7, sale(_, s, _).", name="more")
        assert list(workspace["total"]) == [("a", 8), ("b", 4)] and list(workspace["has"]) == [
            ("a",)
        ]
        with workspace.store.transaction() as txn:
            txn["sale"].set([(4, "b", 7)])
            txn["city"].set([("b", "Oslo")])
        assert list(workspace["total"]) == [("a", 8), ("b", 11)] and list(workspace["has"]) == [
            ("a",),
            ("b",),
        ]
    with ivm.open(path) as workspace:
        with workspace.transaction() as txn:
            txn.insert("sale", [(5, "c", 9)])
        assert list(workspace["dear"]) == [("a",), ("b",), ("c",)]
        assert workspace.check() == []
        workspace.uninstall("more")
        workspace.uninstall("main")
        assert {*workspace.query(query)} == {("Rome", 3), ("Rome", 5), ("Oslo", 4), ("Oslo", 7)}


def test_places_of_errors_are_those_of_the_text(path):
    with (
        ivm.open(path) as workspace,
        pytest.raises(
            UnknownPredicateError,
            match=r"^main:2:9: nothing declares or derives sal: did you mean sale",
        ),
    ):
        workspace.install("a(x) <- sale(x, _, _).\nb(x) <- sal(x, _, _).")


def test_names_of_any_kind(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        lines = txn.create(
            "Order Lines", "Order Date: date, n: int64, Größe: int64", key=("Order Date", "n")
        )
        lines.insert([(date(2013, 1, 31), 1, 4), (date(2013, 1, 31), 2, 5)])
    with ivm.open(tmp_path / "s.pages") as workspace:
        text = """
            customer:email[id] = e -> int(id), string(e).
            `My View`(größe, `the address`) <- `Order Lines`:`Größe`[_, id] = größe, customer:email[id] = `the address`.
            +customer:email[1] = "a".
        """
        workspace.install(text)
        assert list(workspace["My View"]) == [(4, "a")]
        assert (
            str(workspace.predicates["My View"])
            == "`My View`(größe, `the address`) -> int64(größe), string(`the address`)."
        )
        assert list(workspace.query("Q(`x y`) <- `My View`(`x y`, _).")) == [(4,)]
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.exec('+customer:email[2] = "b".')
        assert list(workspace["My View"]) == [(4, "a"), (5, "b")] and workspace.check() == []


def test_functions_of_several_values_that_a_text_declares(tmp_path):
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.install("""
            customer[c] = (name, email) -> int(c), string(name), string?(email).
            mailed(c, e) <- customer:email[c] = e.
            named(n) <- customer[_] = (n, _).
        """)
        with workspace.transaction() as txn:
            txn.insert("customer", [(1, "a", "x"), (2, "b", None)])
            txn.set("customer", [(1, "a", "y")])
        assert workspace["customer"].schema.key == ("c",)
        assert list(workspace["mailed"]) == [(1, "y")] and list(workspace["named"]) == [
            ("a",),
            ("b",),
        ]
        for text, error, reason in (
            (
                "p(e) <- customer:email[1, 2] = e.",
                ArityError,
                "customer:email takes 1 arguments, not 2",
            ),
            (
                "p(n, e) <- customer:name[_] = n, customer:email[_] = e.",
                ConstructError,
                r"wrong:1:34: customer:email\[_\] may be of another row than customer:name\[_\]: "
                r"for one row write",
            ),
            (
                "p() <- customer[1] = (_, _), !(customer:name[_] = n, customer:email[_] = n).",
                ConstructError,
                "any two",
            ),
            (
                "p(e) <- customer:phone[1] = e.",
                UnknownPredicateError,
                "declares or derives customer:phone",
            ),
            ("p[c] = (n, e) <- customer[c] = (n, e).", ConstructError, "a view has one value"),
            (
                "p(c) <- customer[c] = _, c = (1, 2).",
                RuleSyntaxError,
                "only a function has several values",
            ),
            (
                "f[x] = (y, z) -> int?(x), int(y), int(z).",
                RuleTypeError,
                "x is a key, and a key is never null",
            ),
        ):
            with pytest.raises(error, match=reason):
                workspace.install(text, name="wrong")
    with ivm.open(tmp_path / "s.pages") as workspace:
        assert workspace.check() == []


def test_a_text_may_declare_what_is_there(path):
    with ivm.open(path) as workspace:
        workspace.install(
            "city[s] = c -> string(s), string?(c). has(s) <- city[s] = _, sale(_, s, _)."
        )
        assert list(workspace["has"]) == [("a",)]


def test_the_command_prints_declarations(path, capsys):
    assert ivm_command(["declare", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "sale[id] = (shop, n) -> int64(id), string(shop), int64(n).",
        "city[shop] = city -> string(shop), string?(city).",
        "// blob (n: int64, raw: uint64?) is not read by rules",
    ]


BY_COLUMNS = """
pair(n, a) <- sale:shop[i] = n, sale:n[i] = a.
sums[n] = s <- agg<<s = sum(a)>> sale:shop[i] = n, sale:n[i] = a.
same(i, j) <- sale:shop[i] = n, sale:shop[j] = n, sale:n[i] = a, sale:n[j] = b, a < b.
noted(i) <- sale:shop[i] = _, sale:note[i] = _.
unnoted(i) <- sale:shop[i] = _, !(sale:note[i] = t, sale:n[i] = a, a > 1).
one(i) <- sale[i] = (_, a, _), sale:shop[i] = "x", a > 0.
differ(i, a, b) <- sale:n[i] = a, sale:n[i] = b.
"""
IN_ONE_ATOM = """
pair(n, a) <- sale(_, n, a, _).
sums[n] = s <- agg<<s = sum(a)>> sale(_, n, a, _).
same(i, j) <- sale(i, n, a, _), sale(j, n, b, _), a < b.
noted(i) <- sale(i, s, _, t), s = s, t = t.
unnoted(i) <- sale(i, s, _, _), s = s, !(sale(i, _, a, t), t = t, a > 1).
one(i) <- sale(i, "x", a, _), a > 0.
differ(i, a, b) <- sale(i, _, a, _), sale(i, _, b, _).
"""


@pytest.mark.parametrize("maintenance", ["match", "probe"])
def test_columns_of_one_row_are_one_atom(tmp_path, maintenance):
    """Rows and what is kept are those of the rule that names the relation once, edit by edit and
    by queries.
    """
    rng, stores = random.Random(maintenance), []
    for name, text in (("columns", BY_COLUMNS), ("atom", IN_ONE_ATOM)):
        stores.append(ivm.open(tmp_path / f"{name}.pages", sync="off"))
        stores[-1].install(
            "sale[i] = (shop, n, note) -> int(i), string(shop), int(n), string?(note).", "base"
        )
        stores[-1].install(text, "rules", maintenance=maintenance)
    views = [view for view in stores[0] if view != "sale"]
    for _ in range(15):
        rows = [
            (rng.randrange(8), rng.choice("xyz"), rng.randrange(3), rng.choice([None, "a"]))
            for _ in range(4)
        ]
        for ws in stores:
            with ws.transaction() as txn:
                txn.delete("sale", [(rows[0][0],)])
                txn.set("sale", {row[0]: row for row in rows[1:]}.values())
        for view in views:
            assert list(stores[0][view]) == list(stores[1][view]), view
    for line in BY_COLUMNS.strip().split("\n"):
        view = line.partition("(")[0].partition("[")[0]
        assert list(stores[0].query(f"asked_{line}")) == list(stores[0][view])
    for ws in stores:
        stores[stores.index(ws)] = (tries_of(ws), ws.check())
        ws.close()
    assert stores[0] == stores[1] and stores[0][1] == []


def test_rules_that_an_earlier_release_installed_keep_an_atom_for_each_column(
    tmp_path, monkeypatch
):
    """Their plans are saved for these; the same text, installed anew, is one atom."""
    path, text = tmp_path / "s.pages", "pair(n, a) <- sale:shop[i] = n, sale:n[i] = a."
    compiled = engine_compile.compile

    def apart(given, known, name, store, merging, *more):
        return compiled(given, known, name, store, False, *more)

    monkeypatch.setattr(engine_compile, "compile", apart)
    with ivm.open(path, sync="off") as ws:
        ws.install("sale[i] = (shop, n) -> int(i), string(shop), int(n).", "base")
        ws.install(text, "rules", maintenance="match")
        assert (planning_in(ws), tries_of(ws)) == (planning_without("ranges"), [2])
    monkeypatch.undo()
    with ivm.open(path, sync="off") as ws:
        ws.exec('+sale[1] = ("x", 2). +sale[2] = ("y", 3).')
        assert (list(ws["pair"]), tries_of(ws), ws.check()) == ([("x", 2), ("y", 3)], [2], [])
        ws.install(text, "rules", replace=True)
        assert (planning_in(ws), tries_of(ws)) == (planning_without("lean"), [1])
    with ivm.open(path, sync="off") as ws:
        ws.exec("-sale[1].")
        assert (list(ws["pair"]), tries_of(ws), ws.check()) == ([("y", 3)], [1], [])


def planning_in(ws: ivm.Workspace) -> int:
    with ws.store.snapshot() as snap:
        return planning_of(snap.properties[PROPERTY])


def tries_of(ws: ivm.Workspace) -> list[int]:
    """How many atoms each conjunction is evaluated with."""
    with ws.store.snapshot() as snap:
        return [len(plan.tries) for rule in ws.rules_of(snap).rules for plan in rule.plans]
