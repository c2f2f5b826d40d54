"""Relations that views depend on, edited door by door: by the store's transactions, processes
without ivm, dumps.
"""

import io
import json
import os
import subprocess
import sys
from typing import Any

import pyarrow.compute as pc
import pytest

import ivm
import pagestore
from ivm.errors import FunctionConflictError
from ivm.rules.installed import PROPERTY
from pagestore.errors import DependantsError
from pagestore.host import record_dependants
from pagestore.versions import catalog
from tests.support.hosts import without_host

RULES = "e(x, y) -> int(x), int(y). p(x) <- e(x, _). c[x] = n <- agg<<n = count()>> e(x, _)."


@pytest.fixture
def ws(tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off") as workspace:
        workspace.install(RULES)
        yield workspace


def clean(workspace):
    assert workspace.check() == [] and workspace.store.check() == []


def test_a_transaction_of_the_store_and_one_of_the_workspace(ws):
    with ws.store.transaction() as txn:
        txn["e"].insert([(1, 2), (1, 5)])
    with ws.transaction() as txn:
        txn.delete("e", [(1, 2)])
    assert list(ws["p"]) == [(1,)] and list(ws["c"]) == [(1, 1)]
    clean(ws)


def test_a_relation_that_was_there_before_its_rules(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.create_intervals("e", "x: int64, y: int64", ("x", "y")).bulk([[(1, 2), (1, 5), (7, 9)]])
        txn.create("f", "x: int64, t: string", key="x").insert([(1, "one")])
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install(RULES + "f[x] = t -> int(x), string(t). named(t) <- p(x), f[x] = t.")
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        assert txn["e"].remove_stabbed([8]).num_rows == 1
        txn["f"][1] = "uno"
        txn["e"].insert([(3, 3)])
    with ivm.open(tmp_path / "s.pages") as ws:
        assert list(ws["p"]) == [(1,), (3,)] and list(ws["named"]) == [("uno",)]
        clean(ws)


def test_many_rows_at_once(ws):
    rows = [(x, y) for x in range(300) for y in range(20)]
    with ws.store.transaction() as txn:
        txn["e"].bulk([rows])
    assert len(ws["p"]) == 300 and set(ws["c"]) == {(x, 20) for x in range(300)}
    with ws.store.transaction() as txn:
        txn["e"].delete(rows[7:])
        txn.add_scan("e", "count")
    assert list(ws["c"]) == [(0, 7)] and ws["e"].scan("count") == 7
    clean(ws)


def test_subscribers_hear_of_it_and_accounts_are_kept(ws):
    heard, other = [], ivm.Workspace(ws.store)
    other.subscribe("c", lambda table: heard.append(("other", table.to_pylist())))
    ws.subscribe("c", lambda table: heard.append(("ws", table.to_pylist())))
    ws.store.branch("b")
    with ws.store.transaction(branch="b") as txn:
        txn["e"].insert([(7, 7)])
    assert heard == [] and list(ws.store.snapshot("b")["c"]) == [(7, 1)]
    with ws.store.transaction() as txn:
        txn["e"].insert([(1, 2)])
    change = [{"x": 1, "n": 1, "_change_type": "insert"}]
    assert sorted(heard) == [("other", change), ("ws", change)]
    assert ws.stats("c")["inserted"] == other.stats("c")["inserted"] == 1


def test_a_subscriber_that_fails_leaves_what_was_committed(ws):
    def fail(table):
        raise ZeroDivisionError

    ws.subscribe("p", fail)
    with pytest.raises(ZeroDivisionError), ws.store.transaction() as txn:
        txn["e"].insert([(1, 2)])
    assert list(ws["p"]) == [(1,)]
    with ws.transaction() as txn:
        txn.insert("e", [(1, 3)])
    clean(ws)


def test_rules_that_refuse_a_change_roll_it_back(tmp_path):
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install(
            "f[x] = y -> int(x), int(y). one[] = t -> int(t). g[y] = x <- f[x] = y. k(t) <- one[] "
            "= t."
        )
        version = ws.store.version
        conflict = pytest.raises(FunctionConflictError, match=r"g\[5\] got two values, 1 and 2")
        with conflict, ws.store.transaction() as txn:
            txn["f"].insert([(1, 5), (2, 5)])
        conflict = pytest.raises(FunctionConflictError, match=r"one\[\] got two values, 3 and 4")
        with conflict, ws.store.transaction() as txn:
            txn["one"].insert([(3,), (4,)])
        assert ws.store.version == version and list(ws["f"]) == list(ws["one"]) == []
        with ws.store.transaction() as txn:
            txn["one"].insert([(3,)])
        with ws.store.transaction() as txn:
            txn["one"].delete([(3,)])
            txn["one"].insert([(4,)])
        assert list(ws["k"]) == [(4,)]
        clean(ws)


def test_old_versions_are_edited_by_their_own_rules(ws):
    with ws.transaction() as txn:
        txn.insert("e", [(1, 2)])
    old = ws.store.version
    ws.store.retain = "all"
    ws.install("q(y) <- e(_, y).", name="more")
    ws.store.branch("b", old)
    with ws.store.transaction(branch="b") as txn:
        txn["e"].insert([(3, 4)])
        txn.create("q", "x: int64").insert([(1,)])  # nobody's there
    assert list(ws.store.snapshot("b")["p"]) == [(1,), (3,)] and list(
        ws.store.snapshot("b")["q"]
    ) == [(1,)]
    assert ws.check("b") == []
    clean(ws)
    ws.uninstall("more")
    ws.uninstall("main", relations=True)
    with ws.store.transaction() as txn, without_host():
        txn.create("e", "x: string").insert([("free",)])


def script(text, *arguments):
    """What a process that has only pagestore prints."""
    run = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


def test_a_process_that_has_not_imported_ivm(ws):
    with ws.transaction() as txn:
        txn.insert("e", [(1, 2)])
    path = ws.store.path
    ws.close()
    out = script(
        """if True:
        import sys, pagestore
        with pagestore.open(sys.argv[1], sync="off") as store:
            for change in (lambda txn: txn["e"].insert([(3, 4)]), lambda txn: txn.drop("e"), lambda txn: txn.drop("c"),
                           lambda txn: txn["p"].insert([(3,)]), lambda txn: txn.add_scan("e", "count")):
                try:
                    with store.transaction() as txn:
                        change(txn)
                    print("committed")
                except pagestore.errors.DependantsError as error:
                    print(error)
            print(list(store.snapshot()["p"]), "ivm" in sys.modules, store.check())
        """,
        path,
    )
    edit, drop, drop_view, edit_view, scan, rows = out.splitlines()
    assert edit.startswith(
        "e was changed, and what ivm keeps of it (c, p) could not follow, since ivm is not loaded"
    )
    assert edit.endswith(
        "nothing is changed: `import ivm` first, and its views follow, or edit in "
        "ivm.open(path).transaction()"
    )
    assert drop.startswith(
        "'e' was dropped, renamed or replaced, and ivm depends on it (c, p); nothing is changed: "
        "`ivm unin"
    )
    assert drop_view.startswith("'c' was dropped, renamed or replaced, and it belongs to ivm")
    assert (
        edit_view
        == "'p' belongs to ivm, which keeps it as it follows from e; nothing is changed: edit "
        "that, and it will follow"
    )
    assert scan == "committed" and rows == "[(1,)] False []"


def test_a_store_with_the_sentences_of_an_earlier_release_opens_as_it_is(ws):
    """They are no difference: nothing is written, nothing is reported, and the next commit that
    says it has the new.
    """
    path = ws.store.path
    with ws.store.transaction() as txn:
        txn.declare_maintained("ivm")
        (said,) = catalog.recorded_dependants(txn.properties).values()
        record_dependants(txn, said._replace(edit="first that", release="lets go"))
    version = ws.store.version
    ws.close()
    with ivm.open(path) as ws:
        assert ws.store.version == version
        clean(ws)
        with ws.store.transaction() as txn:
            txn["e"].insert([(1, 2)])
        assert (list(ws["p"]), ws.store.version) == ([(1,)], version + 1)
        with pytest.raises(DependantsError, match="lets go"), ws.store.transaction() as txn:
            txn.properties["ivm"] = "nothing"
        ws.install("q(x) <- p(x).", "more")
        with (
            pytest.raises(DependantsError, match="removes rules and all that"),
            ws.store.transaction() as txn,
        ):
            txn.properties["ivm"] = "nothing"


def test_a_process_that_imports_ivm_and_opens_no_workspace(ws):
    path = ws.store.path
    ws.close()
    script(
        """if True:
        import sys, ivm, pagestore
        with pagestore.open(sys.argv[1]) as store, store.transaction() as txn:
            txn["e"].insert([(3, 4)])
        """,
        path,
    )
    with ivm.open(path) as again:
        assert list(again["p"]) == [(3,)]
        clean(again)


def forget(store, branch="main"):
    """As an earlier release has left it."""
    with store.transaction(branch=branch) as txn:
        txn.declare_maintained()
        txn.properties.pop(catalog.PROPERTY)


def test_a_store_of_an_earlier_release_is_protected_once_it_is_opened(ws):
    path = ws.store.path
    ws.store.branch("b")
    for branch in ("main", "b"):
        forget(ws.store, branch)
    ws.close()
    with ivm.open(path, mode="r"):
        pass
    with ivm.open(path) as again:
        version = again.store.version
        assert all(
            catalog.PROPERTY in again.store.snapshot(branch).properties for branch in ("main", "b")
        )
        clean(again)
    with ivm.open(path) as again:
        assert again.store.version == version
    with pagestore.open(path) as store, without_host():
        for branch in ("main", "b"):
            with pytest.raises(DependantsError), store.transaction(branch=branch) as txn:
                txn["e"].insert([(3, 4)])


def test_a_store_of_an_earlier_release_that_no_workspace_has_opened(ws):
    path = ws.store.path
    forget(ws.store)
    ws.close()
    with pagestore.open(path) as store:
        with pytest.raises(DependantsError, match="'e' was dropped"), store.transaction() as txn:
            txn.drop("e")
        with store.transaction() as txn:
            txn["e"].insert([(3, 4)])
        assert (
            list(store.snapshot()["p"]) == [(3,)]
            and catalog.PROPERTY in store.snapshot().properties
        )
    with ivm.open(path) as again:
        clean(again)


def test_dumps_with_rules_and_of_relations_alone(ws, tmp_path):
    ws.store.retain = "all"
    ws.install("tri(x, y, z) <- e(x, y), e(y, z), e(x, z).", name="tri", maintenance="probe")
    for x in range(3):
        with ws.store.transaction() as txn:
            txn["e"].insert([(x, y) for y in range(x, 4)])
    whole, alone = io.BytesIO(), io.BytesIO()
    ws.store.dump(whole, [line.version for line in ws.store.history()])
    hidden = [n for n in ws.store.snapshot()._version.catalog.relations if n.startswith("$index")]
    assert hidden
    ws.store.dump(alone, relations=["e", *hidden])
    for file in (whole, alone):
        file.seek(0)
    with pagestore.open(tmp_path / "whole.pages", retain="all") as store, without_host():
        store.restore(whole)
    with ivm.open(tmp_path / "whole.pages") as copy:
        clean(copy)
        assert list(copy["tri"]) == list(ws["tri"])
        with copy.store.transaction() as txn:
            txn["e"].delete([(0, 2)])
        clean(copy)
    with pagestore.open(tmp_path / "alone.pages") as store:
        store.restore(alone)
        with store.transaction() as txn, without_host():
            txn["e"].delete([(0, 2)])  # the index, which nobody knows, stays behind
    with ivm.open(tmp_path / "alone.pages") as copy:
        copy.install("e(x, y) -> int(x), int(y).", name="declared")
        assert len(list(copy.query("q(x, y, z) <- e(x, y), e(y, z), e(x, z)."))) < len(ws["tri"])
        copy.install("tri(x, y, z) <- e(x, y), e(y, z), e(x, z).", maintenance="probe")
        clean(copy)
        with copy.transaction() as txn:
            txn.insert("e", [(0, 2)])
        assert list(copy["tri"]) == list(ws["tri"])


def test_rules_that_cannot_be_read_let_nothing_by(ws):
    with ws.store.transaction() as txn:
        txn.declare_maintained()
        txn.properties[PROPERTY] = json.dumps({"planning": 0, "blocks": []})
    path = ws.store.path
    ws.close()
    with pagestore.open(path) as store:
        with (
            pytest.raises(ivm.IvmError, match="another release installed rules"),
            store.transaction() as txn,
        ):
            txn["e"].insert([(1, 2)])
        assert list(store.snapshot()["e"]) == []


def test_nothing_is_left_behind(tmp_path):
    """The folder of the store holds the store."""
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.install(RULES)
        workspace.check()
        workspace.verify("p")
    assert os.listdir(tmp_path) == ["s.pages"]


@pytest.mark.parametrize("edited", ["before", "between", "alone"])
def test_what_is_edited_through_inner_is_followed(edited: str) -> None:
    with ivm.open(":memory:") as ws:
        ws.install(
            "edge(x, y) -> int(x), int(y). hop(x, z) <- edge(x, y), edge(y, z)."
            "n[] = k <- agg<<k = count()>> edge(_, _)."
        )
        ws.insert("edge", [(1, 2), (2, 3)])
        told: list[Any] = []
        ws.subscribe("hop", lambda table: told.extend(table.to_pylist()))
        with ws.transaction() as txn:
            if edited == "between":
                txn.insert("edge", [(4, 5)])
            txn.inner["edge"].insert([(3, 4)])
            if edited == "before":
                txn.insert("edge", [(4, 5)])
            ends = [(2, 4)] if edited == "alone" else [(2, 4), (3, 5)]
            assert sorted(txn.sql("SELECT * FROM hop") or ()) == [(1, 3), *ends]
            assert sorted(
                txn.sql("SELECT a.x, b.y FROM edge a JOIN edge b ON a.y = b.x") or ()
            ) == [(1, 3), *ends]
        assert sorted(ws["hop"]) == [(1, 3), *ends] and not ws.check()
        assert [(row["x"], row["z"]) for row in told] == ends


def test_a_column_that_is_added_through_inner_is_followed() -> None:
    with ivm.open(":memory:") as ws:
        ws.install(
            "paid[who] = x -> string(who), int(x). total[] = t <- agg<<t = sum(x)>> paid[_] = x."
        )
        with ws.transaction() as txn:
            txn.inner.add_column("paid", "note: string?", None)
            txn.inner["paid"].insert([("ada", 7, "tea")])
        assert list(ws["total"]) == [(7,)] and not ws.check()


@pytest.mark.parametrize("replace", [False, True])
def test_edits_of_an_installation_see_those_before_them(replace: bool) -> None:
    text = "r(x) -> int(x). s(x) -> int(x). v(x, y) <- r(x), s(y), x < y. n[] = k <- agg<<k = count()>> r(_)."
    counts: list[int] = []

    def edit(txn: Any) -> None:
        txn.insert("r", [(1,), (2,), (3,), (4,)])
        counts.append(txn.delete_where("r", pc.field("x") == 1))
        txn.inner["s"].insert([(3,), (9,)])
        counts.append(txn.delete_range("r", (4,)))
        txn.delete("s", [(9,)])

    with ivm.open(":memory:") as ws:
        if replace:
            ws.install(text.replace("x < y", "x > y"))
        ws.install(text, edit=edit, replace=replace)
        assert counts == [1, 1] and not ws.check()
        assert (list(ws["r"]), list(ws["v"]), list(ws["n"])) == ([(2,), (3,)], [(2, 3)], [(2,)])


def test_a_preview_shows_what_is_edited_through_inner() -> None:
    with ivm.open(":memory:") as ws:
        ws.install("r(x) -> int(x). n[] = k <- agg<<k = count()>> r(_). +r(1).")
        preview = ws.preview(lambda txn: txn.inner["r"].insert([(2,)]))
        assert [row["k"] for row in preview.changes["n"].to_pylist()] == [1, 2] and len(
            ws["r"]
        ) == 1
        preview.commit()
        assert list(ws["n"]) == [(2,)] and not ws.check()
