"""min and max: the first and the last of a group's values, through inserts, deletes and changes
of values.
"""

import random
import tempfile
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import ivm
from ivm.names import APART
from ivm.views.layouts import MORE
from ivm.ways import kept_extremes, scan, states
from pagestore.trees.folds import select
from pagestore.trees.read import read
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times

BASE = "e(x, y) -> int(x), int(y). f[x] = v -> int(x), int(v)."
PROGRAMS = [
    "m[x] = n <- agg<<n = min(y)>> e(x, y).",
    "m[x] = n <- agg<<n = max(y)>> e(x, y). top(x, z) <- m[x] = y, e(y, z).",
    "m[] = n <- agg<<n = max(v)>> f[x] = v, e(x, _). big(x) <- f[x] = v, m[] = v.",
    """m[x, z] = n <- agg<<n = min(s)>> e(x, y), e(y, z), f[y] = v, s = v - x.
       low[] = l <- agg<<l = min(n)>> m[_, _] = n.""",
    "m[x] = n <- agg<<n = max(y)>> (e(x, y) ; e(y, x)), !f[x] = 1.",
]
VALUES = st.sampled_from([0, 1, 2, 3, -(2**63), 2**63 - 1, 5, -1])
EDITS = st.tuples(st.sampled_from("ef"), st.tuples(VALUES, VALUES), st.booleans())


@pytest.mark.parametrize("program", PROGRAMS)
@settings(max_examples=times(12), suppress_health_check=list(HealthCheck))
@given(case=st.lists(st.lists(EDITS, max_size=10), min_size=1, max_size=6))
def test_extremes_are_the_truth(program, case):
    """Keys and values up to both ends of a word; a value that cannot be computed refuses the
    transaction.
    """
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "store.pages", f"{BASE} {program}")
        for edits in case:
            mirror.change(edits)
        mirror.reopen()
        for name in mirror.workspace:
            if name not in "ef" and "$" not in name:
                mirror.workspace.verify(name)
        assert mirror.workspace.store.check() == []
        mirror.workspace.uninstall("main", relations=True)
        assert list(mirror.workspace.store.snapshot()._version.catalog.relations) == []
        mirror.close()


@pytest.mark.parametrize(
    "type_, values",
    [
        ("float", [-1.5, 0.0, 2.25, 1e300, -1e-300]),
        ("decimal(8, 2)", [Decimal("-3.50"), Decimal("0.01"), Decimal("12.00")]),
        ("date", [date(1969, 12, 31), date(2013, 1, 31), date(1970, 1, 1)]),
    ],
)
def test_extremes_of_every_ordered_type(type_, values, tmp_path):
    with ivm.open(tmp_path / "m.pages") as ws:
        least, greatest = (
            f"{name}[] = n <- agg<<n = {op}(x)>> v[_] = x."
            for name, op in (("a", "min"), ("z", "max"))
        )
        ws.install(f"v[i] = x -> int(i), {type_}(x). {least} {greatest}")
        left = dict(enumerate(values))
        with ws.transaction() as txn:
            txn.insert("v", list(left.items()))
        while left:
            assert (list(ws["a"]), list(ws["z"])) == (
                [(min(left.values()),)],
                [(max(left.values()),)],
            )
            with ws.transaction() as txn:
                txn.delete("v", [max(left, key=left.get)])
            del left[max(left, key=left.get)]
        assert (list(ws["a"]), list(ws["z"])) == ([], [])


def test_a_change_does_not_look_at_its_group(tmp_path, monkeypatch):
    """One group of many rows: what takes the place of a deleted greatest is found by rank, not
    by reading the group.
    """
    n = 30000
    with ivm.open(tmp_path / "m.pages", sync="off") as ws:
        ws.install(f"{BASE} m[x] = g <- agg<<g = max(y)>> e(x, y).")
        with ws.transaction() as txn:
            txn.insert("e", [np.zeros(n, np.int64), np.arange(n)])
        read = []

        def counted(pages, tree, ranks):
            read.append(len(ranks))
            return select(pages, tree, ranks)

        monkeypatch.setattr("ivm.ways.states.select", counted)
        monkeypatch.setattr("ivm.engine.schedule.FEW", 0)  # a kernel seeks it, and counts nothing
        for left in range(n - 1, n - 11, -1):
            assert list(ws["m"]) == [(0, left)]
            with ws.transaction() as txn:
                txn.delete("e", [(0, left)])
        assert read == [1] * 10


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("key", ["x", ""])
def test_texts_of_a_group_are_read_where_its_extreme_has_gone(op, key, tmp_path, monkeypatch):
    """Not where others come or go, however many there are; also beside an aggregate that counts
    what there is.
    """
    drawn, read, all_of = random.Random(3), [], states.all_of

    def counted(groups, records):
        found = all_of(groups, records)
        read.append(found[0].shape[1])
        return found

    best = {"min": min, "max": max}[op]
    with ivm.open(tmp_path / "t.pages", sync="off") as ws:
        ws.install(f"""s[x, y] = t -> int(x), int(y), string(t).   v[{key}] = r <- agg<<r = {op}(t)>> s[x, _] = t.
            u[{key}] = r, w[{key}] = q <- agg<<r = {op}(t), q = quantile(t, 0)>> s[x, _] = t.""")
        there = {(x, y): f"{drawn.randrange(10**6)}" for x in range(2) for y in range(400)}
        with ws.transaction() as txn:
            txn.set("s", [(*key, text) for key, text in there.items()])
        monkeypatch.setattr(states, "all_of", counted)
        passes = 0
        for _ in range(60):
            row = drawn.choice([*there]) if drawn.random() < 0.7 else best(there, key=there.get)
            group = [text for at, text in there.items() if not key or at[0] == row[0]]
            told, change = best(group), drawn.choice(["set", "delete"])
            lost, text = there[row] == told and group.count(told) == 1, f"{drawn.randrange(10**6)}"
            read.clear()
            with ws.transaction() as txn:
                txn.set("s", [(*row, text)]) if change == "set" else txn.delete("s", [row])
            there.pop(row) if change == "delete" else there.update({row: text})
            passes += lost
            # one group's records each for w, and for u and v if their extreme has gone; a record or
            # two otherwise
            assert sum(n > 3 for n in read) == 1 + 4 * lost, (read, lost)
            for name in "uv":
                for *at, found in ws[name]:
                    assert found == best(
                        text for (x, _), text in there.items() if not at or x == at[0]
                    )
        assert 5 < passes < 55
        assert ws.check() == []


PARTIAL = [
    "m[x] = n <- agg<<n = min(y)>> e(x, y).  k[x] = n <- agg<<n = count()>> e(x, _).",
    "m[x] = n <- agg<<n = max(y)>> e(x, y).  top(x, y) <- m[x] = y, !f[x] = y.",
    "m[] = n <- agg<<n = max(v)>> f[_] = v.  low[] = n <- agg<<n = min(x)>> e(x, y), y != 5.",
    "m[y] = n <- agg<<n = min(x)>> e(x, y), x > 0.  p(x) <- e(x, _).  l[] = n <- agg<<n = min(x)>> "
    "p(x).",
]


@st.composite
def partial_programs(draw):
    """Draw rules of least and greatest values of one relation each, and of what reads them."""
    text = "p(x, y) <- e(x, y), !f[x] = y.\n"
    for view in "mno"[: draw(st.integers(1, 3))]:
        key, end = draw(st.sampled_from(["x", ""])), draw(st.sampled_from(["min", "max"]))
        bodies = ["e(x, y)", "e(y, x)", "p(x, y)", "f[x] = y", "f[y] = x"]
        bodies += [f"{other}[x] = y" for other in "mno" if f"{other}[x]" in text]
        body, filters = (
            draw(st.sampled_from(bodies)),
            ["", "", ", y > 2", ", x != 1", ", y < 9, y != 4"],
        )
        text += (
            f"{view}[{key}] = n <- agg<<n = {end}(y)>> {body}{draw(st.sampled_from(filters))}.\n"
        )
        text += draw(st.sampled_from(["", f"{view}1(n) <- {view}[{key}] = n, e({key or 1}, n).\n"]))
    return text


@pytest.mark.parametrize("few", [0, 10**9])  # kernels maintain little changes, or Python does
@pytest.mark.parametrize("program", [*PARTIAL, None])
@settings(max_examples=times(10), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_states_with_a_few_values_of_a_group_are_filled_again(program, few, data):
    """Two values of a group are kept: deleting the least ones makes it run out again and again."""
    value = (
        st.integers(-(2**63), -(2**63) + 3) | st.integers(0, 12) | st.integers(2**63 - 4, 2**63 - 1)
    )
    row = st.tuples(st.sampled_from("ef"), st.tuples(st.integers(0, 2), value))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_extremes, "KEPT", 2)
        patch.setattr(kept_extremes, "FEW", 1)
        patch.setattr("ivm.engine.schedule.FEW", few)
        mirror = Mirror(
            Path(folder) / "store.pages", f"{BASE} {program or data.draw(partial_programs())}"
        )
        mirror.change([(*one, True) for one in data.draw(st.lists(row, min_size=20, max_size=40))])
        marks = sum((rows[-1] >= MORE).any() for rows in kept_states(mirror.workspace))
        for _ in range(data.draw(st.integers(1, 8))):
            edits = data.draw(st.lists(st.tuples(row, st.booleans()), max_size=4))
            for name in "ef" if data.draw(st.booleans()) else ():  # the least and the greatest go
                there = sorted(mirror.workspace[name], key=lambda row: row[1])
                edits += [((name, row), False) for row in (*there[:2], *there[-2:])]
            mirror.change([(*one, inserted) for one, inserted in edits])
            assert mirror.workspace.check() == []
        mirror.reopen()
        for name in mirror.workspace:
            if name not in "ef" and "$" not in name:
                mirror.workspace.verify(name)
        event("with marks" if marks else "without marks")
        mirror.close()


def kept_states(workspace: ivm.Workspace) -> list[np.ndarray]:
    """Return the records of the states of aggregates, which are at least one."""
    snapshot = workspace.store.snapshot()
    names = [name for name in snapshot._version.catalog.relations if name.startswith(APART)]
    return [read(snapshot.pages, snapshot.tree(name)) for name in names]


def test_a_state_of_many_values_keeps_a_few_of_each_group(tmp_path):
    """What is kept, and how often the relation is read, while the least value goes again and
    again.
    """
    n, drawn = 100_000, np.random.default_rng(5)
    rows = {"i": np.arange(n), "g": drawn.integers(0, 3, n), "v": drawn.permutation(n)}
    with ivm.open(tmp_path / "m.pages", sync="off") as ws:
        ws.install("r[i] = (g, v) -> int(i), int(g), int(v).")
        with ws.transaction() as txn:
            txn.insert("r", pa.table(rows))
        ws.install(
            "m[g] = x <- agg<<x = min(v)>> r[_] = (g, v).  top[] = x <- agg<<x = max(v)>> r[_] = "
            "(_, v).",
            "m",
        )
        assert sorted(len(rows.T) for rows in kept_states(ws)) == [
            kept_extremes.KEPT + 1,
            3 * (kept_extremes.KEPT + 1),
        ]
    # which states are partial is stored with the rules
    with ivm.open(tmp_path / "m.pages", sync="off") as ws:
        again, order = [], np.argsort(rows["v"][rows["g"] == 1])
        ids, values = rows["i"][rows["g"] == 1][order], rows["v"][rows["g"] == 1][order]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                scan, "renewed", lambda *args: again.append(args) or kept_extremes.renewed(*args)
            )
            for place in range(2 * kept_extremes.KEPT + 5):
                assert dict(ws["m"])[1] == values[place]
                with ws.transaction() as txn:
                    txn.delete("r", [(int(ids[place]), 1, int(values[place]))])
        assert len(again) == 2 and ws.check() == []
