"""Relations that a store has are known to rules by their schemas, without a declaration."""

from datetime import date

import pytest

import ivm
import pagestore
from ivm.engine.stored_schemas import declaration_of
from ivm.errors import ArityError, ConstructError, RuleSyntaxError, RuleTypeError, UnknownPredicateError
from ivm.lang import compile
from pagestore.errors import SchemaError
from pagestore.values.types import Schema
from pagestore_tools.cli.main import ivm as ivm_command

SALES = [(1, "a", 3), (2, "b", 4), (3, "a", 5)]


@pytest.fixture
def path(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.create("sale", "id: int64, shop: string, n: int64", key="id").insert(SALES)
        txn.create("city", "shop: string, city: string?", key="shop").insert([("a", "Rome"), ("b", None)])
        txn.create("blob", "n: int64, raw: uint64?", key="n")
    return tmp_path / "s.pages"


@pytest.mark.parametrize(
    ("schema", "key", "declared"),
    [
        ("x: int64, y: int64", None, "r(x, y) -> int64(x), int64(y)."),
        ("y: float64, x: string", "x", "r[x] = y -> string(x), float64(y)."),
        ("x: date, y: decimal(8,2)?", "x", "r[x] = y -> date(x), decimal(8,2)?(y)."),
        ("x: bool, y: timestamp, z: int64", "x", "r[x] = (y, z) -> bool(x), timestamp(y), int64(z)."),
        (
            "my col: int64, agg: int64, c1: int64",
            None,
            "r(`my col`, agg, c1) -> int64(`my col`), int64(agg), int64(c1).",
        ),
        ("a`b: int64, _: int64, true: int64", None, "r(c1, `_`, `true`) -> int64(c1), int64(`_`), int64(`true`)."),
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
        assert predicate.types == tuple(str(c.type).rstrip("?") for c in Schema.parse(schema, key).stored)
    assert declaration_of("a `quote`", Schema.parse(schema, key)) is declaration_of("$hidden", None) is None


def test_rules_read_what_no_text_declares(path):
    with ivm.open(path) as workspace:
        query = "q(c, n) <- sale(_, s, n), city[s] = c."
        assert list(workspace.query(query)) == [("Rome", 3), ("Rome", 5)]
        assert list(workspace.query("q(s, c) <- city:city[s] = c.")) == [("a", "Rome")]
        with pytest.raises(SchemaError, match="rules cannot read 'blob': its column raw is uint64"):
            workspace.query("q(n) <- blob[n] = _.")
        two_rows = workspace.query("q(s, n) <- sale:shop[i] = s, sale:n[j] = n, sale:shop[_] = s, sale:shop[_] = _.")
        assert len(two_rows) == 6
        assert workspace.blocks == {}
        workspace.install("total[s] = t <- agg<<t = sum(n)>> sale(_, s, n).\nhas(s) <- sale(_, s, _), city[s] = _.")
        workspace.install("dear(s) <- total[s] = t, t > 7, sale(_, s, _).", name="more")
        assert list(workspace["total"]) == [("a", 8), ("b", 4)] and list(workspace["has"]) == [("a",)]
        with workspace.store.transaction() as txn:
            txn["sale"].set([(4, "b", 7)])
            txn["city"].set([("b", "Oslo")])
        assert list(workspace["total"]) == [("a", 8), ("b", 11)] and list(workspace["has"]) == [("a",), ("b",)]
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
        pytest.raises(UnknownPredicateError, match=r"^main:2:9: nothing declares or derives sal: did you mean sale"),
    ):
        workspace.install("a(x) <- sale(x, _, _).\nb(x) <- sal(x, _, _).")


def test_names_of_any_kind(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        lines = txn.create("Order Lines", "Order Date: date, n: int64, Größe: int64", key=("Order Date", "n"))
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
        assert list(workspace["mailed"]) == [(1, "y")] and list(workspace["named"]) == [("a",), ("b",)]
        for text, error, reason in (
            ("p(e) <- customer:email[1, 2] = e.", ArityError, "customer:email takes 1 arguments, not 2"),
            (
                "p(n, e) <- customer:name[_] = n, customer:email[_] = e.",
                ConstructError,
                r"wrong:1:34: customer:email\[_\] may be of another row than customer:name\[_\]: for one row write",
            ),
            ("p() <- customer[1] = (_, _), !(customer:name[_] = n, customer:email[_] = n).", ConstructError, "any two"),
            ("p(e) <- customer:phone[1] = e.", UnknownPredicateError, "declares or derives customer:phone"),
            ("p[c] = (n, e) <- customer[c] = (n, e).", ConstructError, "a view has one value"),
            ("p(c) <- customer[c] = _, c = (1, 2).", RuleSyntaxError, "only a function has several values"),
            ("f[x] = (y, z) -> int?(x), int(y), int(z).", RuleTypeError, "x is a key, and a key is never null"),
        ):
            with pytest.raises(error, match=reason):
                workspace.install(text, name="wrong")
    with ivm.open(tmp_path / "s.pages") as workspace:
        assert workspace.check() == []


def test_a_text_may_declare_what_is_there(path):
    with ivm.open(path) as workspace:
        workspace.install("city[s] = c -> string(s), string?(c). has(s) <- city[s] = _, sale(_, s, _).")
        assert list(workspace["has"]) == [("a",)]


def test_the_command_prints_declarations(path, capsys):
    assert ivm_command(["declare", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "sale[id] = (shop, n) -> int64(id), string(shop), int64(n).",
        "city[shop] = city -> string(shop), string?(city).",
        "// blob (n: int64, raw: uint64?) is not read by rules",
    ]
