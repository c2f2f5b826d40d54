"""Prepared edits of relations that rules read: one after the other, they are one call of a
kernel each.
"""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from random import Random

import numpy as np
import pytest

import ivm
from ivm.errors import IvmError
from pagestore.errors import PagestoreError
from pagestore.storage.free_list import FreeList
from pagestore_tools.bench.graphs import even, skewed
from tests.support.calls import functions_called
from tests.support.programs.amounts import times
from tests.support.simulator import compiled

pytestmark = [compiled, pytest.mark.usefixtures("unhurried")]
FACTS = "edge(x, y) -> int(x), int(y). mark[x] = y -> int(x), int(y). low(x) -> int(x)."
VIEWS = {
    "none": "",
    "triangles": "q(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).",
    "matched": "q(x, y, z) <- edge(x, y), edge(y, z), edge(x, z), x != y.",
    "pairs": "q(x, z) <- edge(x, y), edge(y, z).",
    "count": "q[x] = n <- agg<<n = count()>> edge(x, y).",
    "sum": "q[x] = t <- agg<<t = sum(y)>> edge(x, y).",
    "least": "q[x] = t <- agg<<t = min(y)>> edge(x, y).",
    "function": "q[x] = z <- edge(x, y), mark[y] = z.",
    "negation": "q(x, y) <- edge(x, y), !low(x).",
    "filter": "q(x, y) <- edge(x, y), x < y, y < 30.",
    "reach": "q(x, y) <- edge(x, y). q(x, z) <- q(x, y), edge(y, z).",
    "stack": "q(x, z) <- edge(x, y), edge(y, z). p[x] = n <- agg<<n = count()>> q(x, _). o(x) <- "
    "q(x, _).",
    "two levels": "q(x, z) <- edge(x, y), edge(y, z). p(x, w) <- q(x, z), mark[z] = w.",
    "limit": "q(x, y) <- edge(x, y), x != y. q(x, y), x = 59 -> y < 55.",
}


# commits of a series: a transaction words errors
LEAST = {"function": 20, "limit": -1, "negation": -1, "stack": -1}


def opened(path, views, **options):
    workspace = ivm.open(path, threads=1, **options)
    workspace.install(FACTS + views, maintenance="match" if views == VIEWS["matched"] else "auto")
    with workspace.transaction() as txn:
        txn.insert("edge", [(x, x * 7 % 60) for x in range(60)])
        txn.insert("mark", [(x, x % 4) for x in range(0, 60, 3)])
        txn.insert("low", [(x,) for x in range(5)])
    return workspace


@pytest.mark.parametrize("kind", VIEWS)
def test_series_maintain_what_transactions_do(kind, tmp_path):
    """Random edits, alike in two workspaces; what else happens there in between ends the series
    of one of them.
    """
    random, committed = Random(kind), 0
    sync = random.choice(["off", "commit"])
    with (
        opened(tmp_path / "a.pages", VIEWS[kind], sync=sync) as one,
        opened(tmp_path / "b.pages", VIEWS[kind]) as two,
    ):
        views = [
            name
            for name in ("q", "p", "o")
            if f"{name}(" in VIEWS[kind] or f"{name}[" in VIEWS[kind]
        ]
        put = one.prepare("edge")
        for step in range(120):
            actions = [
                random.choice(["insert", "insert", "delete", "set"])
                for _ in range(random.choice([1, 1, 2, 5]))
            ]
            rows = [(random.randrange(60), random.randrange(60)) for _ in actions]
            before = one.store._handle.committer.series
            outcomes = [
                outcome(prepared, put, actions, rows),
                outcome(by_transaction, two, actions, rows),
            ]
            put.clear()
            assert outcomes[0] == outcomes[1]
            committed += before is not None and before is one.store._handle.committer.series
            if step % 10 == 0:
                for name in ("edge", *views):
                    assert [*one[name]] == [*two[name]]
                for name in views:
                    one.verify(name)
            if step % 23 == 22:
                for workspace in (one, two):
                    workspace.set("mark", (step, 1))
        assert one.check() == [] == one.store.check()
    assert committed > LEAST.get(kind, 80), "commits of a series"


@pytest.mark.parametrize("kind", ["triangles", "matched", "count"])
def test_a_series_begins_after_many_edits(kind, tmp_path):
    """Of which Python took all steps, also if these are the first ones, or the first after scans
    were added.
    """
    with opened(tmp_path / "a.pages", VIEWS[kind]) as workspace:
        for added in (False, True):
            if added:
                with workspace.store.transaction() as txn:
                    txn.add_scan("edge", "max:y")
                    txn.add_scan("q", "count")
            put = workspace.prepare("edge")
            prepared(put, ["insert"] * 60, [(x, x + 2) for x in range(60)])
            for x in range(30):
                prepared(put, ["insert"], [(x, 100 + x)])
            assert workspace.store._handle.committer.series
        assert workspace["edge"].scan("max:y") == 129
        assert workspace["q"].scan("count") == len([*workspace["q"]])
        assert workspace.check() == [] == workspace.store.check()


EVERYDAY = """name(x, y) -> string(x), int(y). price[x] = y -> string(x), decimal(8, 2)(y).
    next[x] = y -> int(x), int(y).
    free[x] = y -> int(x), int?(y). loose(x, y) -> int(x), string(y). joined(y, z) <- name(x, y), price[x] = z.
    times[x] = n <- agg<<n = count()>> name(x, _). after(x, z) <- next[x] = y, next[y] = z."""
VALUES = {  # usual values of the second column of each relation, and odd ones
    "name": ((1, 2, 3), (1.0, 2.5, None, 1 << 70)),
    "price": ((1, Decimal("2.50"), "3.75", 1.5), ("x", 10**9)),
    "next": (range(9), ("1",)),
    "free": ((None, 1, 2), (-(1 << 63), 0.5)),
    "loose": (("a", "b", "c"), ("\ud800", b"b", 7)),
}


def everyday_row(random, name):
    key = f"t{random.randrange(12)}" if name in ("name", "price") else random.randrange(9)
    return key, random.choice(VALUES[name][random.random() < 0.02])


@pytest.mark.parametrize("seed", range(times(2)))
def test_everyday_edits_do_what_transactions_do(seed, tmp_path):
    """`insert`, `delete` and `set` of a workspace: the same rows, versions and errors, mostly in
    series.
    """
    random, committed = Random(seed), 0
    with (
        ivm.open(tmp_path / "a.pages", threads=1) as one,
        ivm.open(tmp_path / "b.pages", threads=1) as two,
    ):
        for workspace in (one, two):
            workspace.install(EVERYDAY)
        name = "name"
        for step in range(400):
            if random.random() < 0.03:
                name = random.choice([*VALUES])
            action, rows = (
                random.choice(["insert", "set", "set", "delete"]),
                [everyday_row(random, name)],
            )
            if random.random() < 0.05:
                rows += [everyday_row(random, name) for _ in range(random.choice([1, 2, 20]))]
            if action == "delete" and random.random() < 0.9:
                rows = [row[: 2 if name in ("name", "loose") else 1] for row in rows]
            if random.random() < 0.02:
                rows = random.choice([[], [(*rows[0], 1)], [()], [[*rows[0]]], [{"x": 1, "y": 1}]])
            before = one.store._handle.committer.series
            given = rows[0] if len(rows) == 1 and isinstance(rows[0], tuple) else rows
            outcomes = [
                outcome(getattr(one, action), name, given),
                outcome(edited, two, action, name, rows),
            ]
            assert outcomes[0] == outcomes[1], (action, name, rows)
            committed += before is not None and before is one.store._handle.committer.series
            if step % 20 == 0:
                for each in (*VALUES, "joined", "times", "after"):
                    assert [*one[each]] == [*two[each]]
        assert one.store.version == two.store.version
        assert one.check() == [] == one.store.check()
    assert committed > 60


@pytest.mark.parametrize("sync", ["off", "commit"])
def test_everyday_edits_of_threads(sync, tmp_path):
    """Texts that are new, and rows that are refused, so that series and transactions alternate
    in all threads.
    """
    with ivm.open(tmp_path / "a.pages", sync=sync, threads=1) as workspace:
        workspace.install(EVERYDAY)

        def work(thread):
            refused = 0
            for n in range(60):
                workspace.insert(
                    "name", (f"t{n // 9}" if n % 9 else f"new{thread}", 100 * thread + n)
                )
                if n % 20 == 0:
                    refused += outcome(workspace.insert, "next", (n, "no integer")) is not None
            return refused

        with ThreadPoolExecutor(6) as pool:
            assert [*pool.map(work, range(6))] == [3] * 6
        assert sorted(y for _, y in workspace["name"]) == [
            100 * thread + n for thread in range(6) for n in range(60)
        ]
        assert workspace.check() == [] == workspace.store.check()


def edited(workspace, action, name, rows):
    with workspace.transaction() as txn:
        getattr(txn, action)(name, rows)
        return txn.commit()


def test_an_everyday_edit_takes_few_functions_of_python(tmp_path):
    """A transaction takes 180 to 240."""
    with ivm.open(tmp_path / "a.pages", sync="off", threads=1) as workspace:
        workspace.install(EVERYDAY)
        workspace.insert("name", [(f"t{n}", 0) for n in range(12)])
        for name, most, row in [
            ("next", 46, lambda n: (n, n)),
            ("name", 33, lambda n: (f"t{n % 12}", n)),
            ("free", 46, lambda n: (n, None)),
        ]:
            calls = [
                len(functions_called(partial(workspace.insert, name, row(n)))) for n in range(100)
            ]
            assert np.median(calls) <= most, name


def outcome(commit, *given):
    try:
        commit(*given)
    except (IvmError, PagestoreError) as error:
        return type(error), str(error)
    return None


def prepared(put, actions, rows):
    for action, row in zip(actions, rows, strict=True):
        getattr(put, action)(*row)
    return put.commit()


def by_transaction(workspace, actions, rows):
    with workspace.transaction() as txn:
        for action, row in zip(actions, rows, strict=True):
            getattr(txn, action)("edge", [row])
        return txn.commit()


def test_statistics_are_of_the_newest_commit(tmp_path):
    with (
        opened(tmp_path / "a.pages", VIEWS["stack"]) as one,
        opened(tmp_path / "b.pages", VIEWS["stack"]) as two,
    ):
        put = one.prepare("edge")
        for n in range(60):
            prepared(put, ["insert", "insert"], [(n % 60, n + 100), (n + 100, n)])
            by_transaction(two, ["insert", "insert"], [(n % 60, n + 100), (n + 100, n)])
            for name in ("q", "p"):
                alike = [
                    workspace.stats(name) | {"maintain_seconds": 0} for workspace in (one, two)
                ]
                assert alike[0] == alike[1]
                assert alike[0]["inserted"] > 0


def test_subscribers_hear_of_prepared_edits(tmp_path):
    with opened(tmp_path / "a.pages", VIEWS["pairs"], sync="off") as workspace:
        put, heard = workspace.prepare("edge"), []
        for n in range(100, 110):
            put.insert(n, n + 1)
            put.commit()
        assert workspace.store._handle.committer.series is not None
        end = workspace.subscribe("q", heard.append)
        put.insert(110, 111)
        put.commit()
        end()
        assert len(heard) == 1
        put.insert(111, 112)
        put.commit()
        assert len(heard) == 1
        assert (110, 112) in workspace["q"]


def test_plans_are_made_anew_where_a_series_outgrows_them(tmp_path):
    with ivm.open(tmp_path / "a.pages", sync="off", threads=1) as workspace:
        workspace.install(FACTS + VIEWS["triangles"])
        workspace.insert("edge", (0, 1))
        put, plans = workspace.prepare("edge"), set()
        for n in range(3000):
            put.insert(n % 50, n // 50)
            put.commit()
            if n % 500 == 0:
                plans.add(workspace.explain("q"))
        workspace.verify("q")
        assert "had" not in str(workspace.explain("q"))


@pytest.mark.parametrize(
    ("kind", "most"), [("none", 20), ("triangles", 20), ("count", 20), ("sum", 20), ("least", 20)]
)
def test_functions_of_python_that_a_prepared_edge_takes(kind, most, tmp_path):
    """Of 150 to 190 functions in a transaction."""
    with opened(tmp_path / "a.pages", VIEWS[kind], sync="off") as workspace:
        with workspace.transaction() as txn:
            txn.insert("edge", list(skewed(1000)))
        put, found = workspace.prepare("edge"), []
        for n in range(100):
            put.insert(5000 + n, 5001 + n)
            found.append(len(functions_called(put.commit)))
    assert np.median(found[20:]) <= most
    assert max(found[20:]) <= 90, "of one that drops versions"


def test_no_prepared_edge_takes_much_more_than_most(tmp_path, monkeypatch):
    """The list of free pages is written anew in the series, here as often as where many
    triangles change.
    """
    monkeypatch.setattr(FreeList, "checkpoint_due", lambda self: self.changed() > 100)
    edges, found = even(10_000, 60), []
    with opened(tmp_path / "a.pages", VIEWS["triangles"], sync="off") as workspace:
        with workspace.transaction() as txn:
            txn.insert("edge", list(edges))
        put = workspace.prepare("edge")
        for edge in np.random.default_rng(3).permutation(edges.T)[:300].tolist():
            for edit in (put.delete, put.insert):
                edit(*edge)
                found.append(len(functions_called(put.commit)))
        assert workspace.store.check() == []
    assert sum(calls > 100 for calls in found) > 20, "of those that write the list"
    assert max(found[20:]) <= 8 * np.median(found)
