"""A kernel takes the first steps of a few edits through all rules in one call; Python takes the
rest.
"""

import contextlib
import itertools

import numpy as np
import pytest
from numba import config

import ivm
from ivm.engine import schedule
from ivm.engine.schedule import Schedule
from ivm.errors import FunctionConflictError, RangeError
from ivm.rules.steps import Flush, steps_of
from ivm.ways import kept_extremes, scan
from pagestore.sorting import tuples
from pagestore.trees import edit
from pagestore_tools.bench.graphs import even, skewed
from pagestore_tools.bench.meter import Meter
from tests.support.programs.amounts import times
from tests.support.simulator import compiled

EDGES = "edge(x, y) -> int(x), int(y). mark(x) -> int(x). cost[x] = t -> int(x), int(t).\n"
PROGRAMS = {  # rules, and how many of the steps that an edge takes are a kernel's
    "triangles": ("v(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).", 3, 3),
    "4-cliques": ("v(x, y, z, w) <- edge(x, y), edge(y, z), edge(x, z), edge(x, w), edge(y, w), "
                  "edge(z, w).", 3, 3),
    "counted ends": ("v(x, z) <- edge(x, y), edge(y, z).", 3, 3),
    "columns in another order": ("v(z, x, y) <- edge(x, y), edge(y, z), mark(x).", 3, 3),
    "two rules write a view": ("v(x, z) <- edge(x, y), edge(y, z). v(x, x) <- edge(x, y), mark(y).",
    4, 4),
    "two heads": ("v(x, y), w(y, z) <- edge(x, y), edge(y, z), mark(y).", 4, 4),
    "a view of a view": ("u(x, z) <- edge(x, y), edge(y, z). v(x, z) <- u(x, z), edge(x, z).", 5,
    5),
    "values": ("v(x, y, t) <- edge(x, y), mark(y), cost[x] = t.", 3, 3),
    "negation": ("v(x, y) <- edge(x, y), !mark(y), mark(x).", 3, 3),
    "the greatest above": ("u(x, z) <- edge(x, y), edge(y, z). v[x] = n <- agg<<n = max(z)>> u(x, "
                           "z).", 5, 5),
    "the least of what is joined": ("v[y] = n <- agg<<n = min(x)>> edge(x, y), mark(y).", 3, 3),
    "a view above the least": ("u[x] = n <- agg<<n = min(y)>> edge(x, y). v(n, x) <- u[x] = n, "
                               "mark(n).", 5, 5),
    "a view above the greatest": ("u[x] = n <- agg<<n = max(y)>> edge(x, y). v(n, x) <- u[x] = n, "
                                  "mark(n).", 5, 5),
    "two that share a state": ("u[x] = n, v[x] = m <- agg<<n = min(y), m = max(y)>> edge(x, y).", 4,
    4),
    "many that share a state": (
        "u[x] = a, v[x] = b, w[x] = c, p[x] = d <- "
        "agg<<a = median(y), b = count_distinct(y), c = quantile(y, 0.9), d = quantile_cont(y, "
        "0.3)>> edge(x, y).", 6, 6
    ),
    "one of several that share a state is left": (
        "v[x] = a, w[x] = b <- agg<<a = avg(y), b = stddev(y)>> edge(x, y). u(x) <- v[x] = 9.0, "
        "mark(x).", 4, 6
    ),
    "the second of several that share a state": (
        "v[x] = b, w[x] = a <- agg<<b = stddev(y), a = avg(y)>> edge(x, y). u(x) <- w[x] = 9.0, "
        "mark(x).", 4, 6
    ),
    "the least of all": ("v[] = n <- agg<<n = min(y)>> edge(_, y).", 3, 3),
    "the greatest of all, or another": ("v[] = n <- agg<<n = max(y) else -1>> edge(9, y), mark(y).",
    3, 3),
    "the sum of all": ("v[] = n <- agg<<n = sum(y)>> edge(_, y). w(x) <- v[] = n, edge(x, n).", 5,
    5),
    "the count of all": ("v[] = n <- agg<<n = count()>> edge(_, _). w(x) <- v[] = n, edge(x, n).",
    5, 5),
    "the count of few, or none": ("v[] = n <- agg<<n = count() else 0>> edge(9, y), mark(y).", 3,
    3),
    "the mean of all": ("v[] = n <- agg<<n = avg(y)>> edge(_, y).", 3, 3),
    "levels of detail": (
        "u[x, y] = a, v[x] = b, w[] = c <- agg<<a = max(z), b = min(z), c = max(z)>> edge(x, y), "
        "edge(y, z).", 5, 5
    ),
    "the item of the least": ("v[x] = n <- agg<<n = argmin(y, t)>> edge(x, y), cost[y] = t.", 3, 3),
    "the item of the greatest": ("v[x] = n <- agg<<n = argmax(y, t)>> edge(x, y), cost[y] = t.", 3,
    3),
    "the first few": ("v[x, n] = y <- agg<<(n, y) = bottom(z, 3)>> edge(x, z).", 3, 3),
    "the last few of what is joined": ("v[x, n] = t <- agg<<(n, t) = top(s, 2)>> edge(x, y), "
                                       "cost[y] = s.", 3, 3),
    "a mean": ("v[x] = n <- agg<<n = avg(t)>> edge(x, y), cost[y] = t.", 3, 3),
    "variances": ("v[x] = n, w[x] = m <- agg<<n = variance(y), m = var_pop(y)>> edge(x, y).", 4, 4),
    "another aggregate above": ("u(x, z) <- edge(x, y), edge(y, z). v[x] = n <- agg<<n = "
                                "stddev(z)>> u(x, z).", 4, 5),
    "a sum of what is joined": ("v[x] = n <- agg<<n = sum(t)>> edge(x, y), cost[y] = t.", 3, 3),
    "a sum of rows": ("v[x] = n <- agg<<n = sum(y)>> edge(x, y). w[n] = m <- agg<<m = sum(x)>> "
                      "v[x] = n.", 5, 5),
    "a function": ("v[x, y] = t <- edge(x, y), cost[y] = t. w[x] = m <- agg<<m = sum(t)>> v[x, _] "
                   "= t.", 5, 5),
    "a function without a key": ("v[] = t <- edge(3, 40), cost[3] = t. w(x) <- v[] = x, mark(x).",
    5, 5),
    "a count above": ("u(x, z) <- edge(x, y), edge(y, z). v[x] = n <- agg<<n = count()>> u(x, z).",
    5, 5),
    "scans of a relation": ("u(x) <- edge(x, y), y < 9, x != 3. v[x] = n <- agg<<n = count()>> "
                            "edge(x, 9).", 5, 5),
    "a value that is left out": ("v(x, y) <- edge(x, y), cost[x] = t, t != y.", 3, 3),
    "a value that is left out of a copy": ("v(y, x) <- edge(x, y), cost[x] = _.", 3, 3),
    "a part of a key": ("v(x, y) <- edge(x, y), edge(y, _).", 3, 3),
    "a part of a key alone": ("v(x) <- edge(x, _).", 3, 3),
    "a part of another key, negated": ("v(x, y) <- edge(x, y), !edge(_, x).", 5, 5),
    "filters of what is joined": ("v(x) <- edge(x, y), cost[x] = t, cost[y] = s, s < t, t >= 4, s "
                                  "!= 9.", 3, 3),
    "a scan of a view": ("u(x, z) <- edge(x, y), edge(y, z). v(z) <- u(x, z), x > 4.", 5, 5),
    "a scan whose filter may fail": ("v(y) <- edge(x, y), x * y > 4.", 3, 3),
    "a filter above": ("u(x, y) <- edge(x, y), edge(y, x). v(x, y) <- u(x, y), mark(x), x * y < 9.",
    5, 5),
    "arithmetic": ("v(x, n) <- edge(x, y), cost[x] = t, n = (t - y) * 3 + x / (y + 1), n != 5.", 3,
    3),
    "constants": ('v(x, 7, "a text", 2.5) <- edge(x, y), mark(y).', 3, 3),
    "a function of texts": ('v(x, t) <- edge(x, y), mark(y), t = upper["a"].', 0, 3),
    "recursion": ("v(x, y) <- edge(x, y), mark(x). v(x, z) <- v(x, y), edge(y, z), y < z.", 3, 3),
    "recursion that joins itself": (
        "u(x, y) <- edge(x, y), mark(y). u(x, z) <- u(x, y), u(y, z). v(z) <- u(x, z), x > 4.", 5, 5
    ),
    "a sum above": ("u(x, y) <- edge(x, y), edge(y, x). v(x, y) <- u(x, y), mark(x), x + y < 9.", 5,
    5),
}  # fmt: skip
# rules, all of whose joins are matched with sensitivity indices, and the granularity of these
MATCHED = {
    "triangles": ("v(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).", 1),
    "coarse triangles": ("v(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).", 3),
    "cycles of four": (
        "v(x, y, z, w) <- edge(x, y), edge(y, z), edge(w, z), edge(x, w), mark(x), mark(y), "
        "mark(w), y < w.", 1
    ),
    "counted ends": ("v(x, z) <- edge(x, y), edge(y, z).", 1),
    "a part of a key": ("v(x, y) <- edge(x, y), edge(y, _), mark(x), mark(y).", 1),
    "negation of a row": ("v(x, y) <- edge(x, y), !edge(y, x), mark(y).", 1),
    "negation, coarse": ("v(y, x) <- edge(x, y), !mark(y), mark(x).", 2),
    "values": ("v(x, y, t) <- edge(x, y), mark(y), cost[x] = t.", 1),
    "values that join": ("v(x, y) <- edge(x, y), cost[x] = t, cost[y] = t.", 1),
    "ranges": ("v(x, y) <- mark(x), mark(y), y > x + 3, edge(x, z), edge(y, z).", 1),
    "arithmetic": ("v(x, n) <- edge(y, x), cost[x] = t, n = (t - y) * 3 + x / (y + 1), n != 5.", 1),
    "a function": ("v[x, y] = t <- edge(x, y), cost[y] = t, mark(x). w[x] = m <- agg<<m = sum(t)>> "
                   "v[x, _] = t.", 1),
    "a sum of what is joined": ("v[x] = n <- agg<<n = sum(t)>> edge(x, y), cost[y] = t, mark(y).",
    1),
    "the least of what is joined": ("v[y] = n <- agg<<n = min(x)>> edge(x, y), mark(y).", 1),
    "a count above": ("u(x, z) <- edge(x, y), edge(y, z). v[x] = n <- agg<<n = count()>> u(x, z).",
    1),
    "two heads": ("v(x, y), w(y, z) <- edge(x, y), edge(y, z), mark(y).", 1),
    "two rules": ("v(x, z) <- edge(x, y), edge(y, z). v(x, x) <- edge(x, y), mark(y).", 1),
    "several views": (
        "u(x, z) <- edge(x, y), edge(y, z). v(x, y) <- edge(x, y), edge(y, x). w(y) <- edge(x, y), "
        "!mark(x).", 1
    ),
    "a stack": (
        "u(x, z) <- edge(x, y), edge(y, z), edge(x, z). v(x, z) <- u(x, z), !edge(z, x), mark(z). "
        "w[z] = n <- agg<<n = count()>> v(x, z), cost[z] = x.", 1
    ),
    "below recursion": (
        "u(x, z) <- edge(x, y), edge(y, z), mark(x), mark(z). v(x, z) <- u(x, z). v(x, z) <- v(x, "
        "y), u(y, z).", 1
    ),
}  # fmt: skip
RANGES = {  # rules of ranges, of which the first or the last record is wanted
    "the next": "v[x] = n <- agg<<n = min(y)>> mark(x), mark(y), y > x.",
    "the one before": "v[x] = n <- agg<<n = max(y)>> mark(x), mark(y), y < x.",
    "the first of a window": "v[x] = n <- agg<<n = min(y)>> mark(x), mark(y), y >= x + 2, y <= x + "
    "5.",
    "the last of a window": "v[x] = n <- agg<<n = max(y)>> mark(x), mark(y), y < x, y > x - 4.",
    "the last of others": "v[x] = n <- agg<<n = max(y)>> cost[x] = t, mark(y), y <= x + 1.",
    "of a group": "v[x, y] = n <- agg<<n = max(z)>> edge(x, y), edge(x, z), z < y.",
    "the first of a group": "v[x, y] = n <- agg<<n = min(z)>> edge(x, y), edge(x, z), z > y.",
    "of those with a value": "v[x] = n <- agg<<n = max(z)>> cost[x] = t, cost[z] = t, z < x.",
    "a view above": "v[x] = n <- agg<<n = min(y)>> mark(x), mark(y), y > x. w(n) <- v[x] = n, "
    "edge(x, n).",
    "the one before in two columns": "v[x, y] = n <- agg<<n = argmax(z, w, z)>> edge(x, y), "
    "edge(w, z), if[w = x, z < y, w < x] = true.",
    "the next by value and key": "v[x] = n <- agg<<n = argmin(y, u, y)>> cost[x] = t, cost[y] = u, "
    "if[u = t, y > x, u > t] = true.",
}
WINDOWS = {  # of which the records are folded, or their parts added
    "the sum of a window": "v[x] = n <- agg<<n = sum(t)>> mark(x), cost[y] = t, y > x - 4, y <= x.",
    "how many are in a window": "v[x] = n <- agg<<n = count()>> mark(x), mark(y), y >= x, y < x + "
    "9.",
    "the mean of a group's window": "v[x, y] = n <- agg<<n = avg(z)>> edge(x, y), edge(x, z), z <= "
    "y, z > y - 9.",
    "the greatest of a window": "v[x] = n <- agg<<n = max(t)>> mark(x), cost[y] = t, y <= x, y > x "
    "- 6.",
    "the variance so far": "v[x] = n <- agg<<n = variance(t)>> mark(x), cost[y] = t, y <= x.",
    "the sum of a group up to here": "v[x, y] = n <- agg<<n = sum(z)>> edge(x, y), edge(x, z), z "
    "<= y.",
}
ENDS = {  # rules whose states keep a few values of each group
    "the least": "v[x] = n <- agg<<n = min(y)>> edge(x, y).",
    "the greatest": "v[x] = n <- agg<<n = max(y)>> edge(x, y).",
    "of another order": "v[y] = n <- agg<<n = max(x)>> edge(x, y), x != 3.",
    "the least of all": "v[] = n <- agg<<n = min(y)>> edge(_, y).",
    "the greatest of all": "v[] = n <- agg<<n = max(y)>> edge(x, y), x != 3.",
    "a view above": "u[x] = n <- agg<<n = min(y)>> edge(x, y). v(n, x) <- u[x] = n, mark(n).",
    "one above another": "u[x] = n <- agg<<n = min(y)>> edge(x, y). v[] = n <- agg<<n = max(y)>> "
    "u[_] = y.",
    "several": (
        "v[x] = n <- agg<<n = max(y)>> edge(x, y). u[y] = n <- agg<<n = min(x)>> edge(x, y). "
        "w[x] = n <- agg<<n = count()>> edge(x, _). p[] = n <- agg<<n = min(t)>> cost[_] = t."
    ),
    "of a view": "u(x, y) <- edge(x, y), mark(y). v[x] = n <- agg<<n = min(y)>> u(x, y).",
}
DENSE = np.indices((16, 30)).reshape(2, 480)[:, np.random.default_rng(4).random(480) < 0.5]


@pytest.fixture
def taken(monkeypatch):
    """How many steps each transaction of the test took in a kernel, and how many there were."""
    found = []
    run = Schedule.run

    def counted(self, *given):
        found.append((run(self, *given), len(self.steps)))
        return found[-1][0]

    monkeypatch.setattr(Schedule, "run", counted)
    return found


@pytest.fixture
def two_kept(monkeypatch):
    """Two values of each group are kept; which groups were filled again, in a list for each
    time.
    """
    found = []
    monkeypatch.setattr(kept_extremes, "KEPT", 2)
    monkeypatch.setattr(kept_extremes, "FEW", 1)
    monkeypatch.setattr(
        scan, "renewed", lambda *given: found.append(given[2]) or kept_extremes.renewed(*given)
    )
    return found


def opened(path, rules, edges=(), maintenance="probe", granularity=1):
    workspace = ivm.open(path, sync="off", page_size=4096, threads=1)
    workspace.install(EDGES + rules, maintenance=maintenance, granularity=granularity)
    with workspace.transaction() as txn:
        txn.insert("mark", [(x,) for x in range(0, 40, 2)])
        txn.insert("cost", [(x, x * x) for x in range(40)])
        txn.insert("edge", list(edges))
    return workspace


def views(workspace):
    return [name for name, predicate in workspace.predicates.items() if not predicate.extensional]


def churn(workspace, seed, rounds=15, values=range(40)):
    """Few edits of each relation, and of all; every view is compared with its rules."""
    random = np.random.default_rng(seed)
    for _ in range(rounds):
        with workspace.transaction() as txn:
            for name in random.choice(["edge", "edge", "mark", "cost"], random.integers(1, 3)):
                rows = random.choice(
                    values, (int(random.integers(1, 9)), len(workspace.predicates[name].columns))
                )
                if name == "cost":
                    txn.set(name, [*rows.T])
                elif random.random() < 0.5:
                    txn.insert(name, [*rows.T])
                else:
                    txn.delete(name, [*rows.T])
        for view in views(workspace):
            workspace.verify(view)
    assert workspace.store.check() == []


def at_the_ends(workspace, seed, rounds=120):
    """Yield edits of one edge; most take away the one with the least or the greatest number of
    all or of some.
    """
    random = np.random.default_rng(seed)
    for _ in range(rounds):
        rows = sorted(workspace["edge"], key=lambda row: row[::-1])
        is_new = len(rows) < 150 or random.random() < 0.2
        if (column := random.choice([0, 1, 2, 2])) < 2:
            number = rows[random.integers(len(rows))][column]
            rows = [row for row in rows if row[column] == number]
        new = int(random.integers(0, 16)), int(random.integers(0, 30))
        yield ("insert", new) if is_new else ("delete", rows[random.choice([0, -1])])


@pytest.mark.parametrize("program", PROGRAMS)
def test_views_are_right_however_far_the_kernel_goes(program, tmp_path, taken):
    rules, kernel, steps = PROGRAMS[program]
    workspace = opened(tmp_path / "s.pages", rules, skewed(40))
    churn(workspace, len(program))
    taken.clear()
    edge, calls = list(skewed(40)[:, :1]), []
    for change in ("delete", "insert"):
        with Meter(workspace.store) as meter, workspace.transaction() as txn:
            getattr(txn, change)("edge", edge)
        calls.append(meter.counts["kernel calls"])
    assert taken == [(0 if config.DISABLE_JIT else kernel, steps)] * 2
    assert config.DISABLE_JIT or kernel < steps or min(calls) <= 2, (
        "one call, and one with more pages"
    )
    workspace.close()


@pytest.mark.parametrize("program", MATCHED)
def test_matched_plans_are_one_call(program, tmp_path, taken, monkeypatch):
    """Also if intervals are hit, and replaced by others, of which the indices then have as many
    as if built anew.
    """
    rules, granularity = MATCHED[program]
    workspace = opened(tmp_path / "s.pages", rules, even(160, 8), "match", granularity)
    churn(workspace, len(program))
    taken.clear()
    hits, calls = 0, []
    monkeypatch.setattr(schedule, "GROWN", 1 << 60)
    for x, y in even(160, 8)[:, ::8].T.tolist():
        rows = [("edge", (x, y)), ("edge", (y, x)), ("mark", (x,)), ("cost", (y, x))]
        for change, (name, row) in itertools.product(("delete", "insert"), rows):
            with Meter(workspace.store) as meter, workspace.transaction() as txn:
                getattr(txn, "set" if (change, name) == ("insert", "cost") else change)(name, [row])
            calls.append(meter.counts["kernel calls"])
            hits += sum(workspace.stats(view)["matched"] for view in views(workspace))
    assert hits, "no interval was hit; this tests nothing"
    if config.DISABLE_JIT:
        assert {done for done, _ in taken} == {0}
    else:
        assert all(done == steps for done, steps in taken)
        assert sorted(calls)[len(calls) // 2] <= 2, "one call, and one with more pages"
    workspace.close()


@pytest.mark.parametrize("program", ENDS)
def test_states_of_a_few_values_are_left_only_when_they_run_out(program, tmp_path, taken, two_kept):
    workspace = opened(tmp_path / "s.pages", ENDS[program], DENSE)
    assert workspace._rules_now().cut, "all values are kept; this tests nothing"
    calls = {True: [], False: []}
    for change, row in at_the_ends(workspace, len(program)):
        taken.clear()
        two_kept.clear()
        with Meter(workspace.store) as meter, workspace.transaction() as txn:
            getattr(txn, change)("edge", [row])
        ((done, steps),) = taken
        if not config.DISABLE_JIT:
            assert (done < steps) == bool(two_kept), "left if and only if a group has run out"
        calls[bool(two_kept)].append(meter.counts["kernel calls"])
        for view in views(workspace) if two_kept or row[0] < 3 else ():
            workspace.verify(view)
    assert all(calls.values()), "no group ran out, or always one; this tests nothing"
    assert config.DISABLE_JIT or np.median(calls[False]) == 1
    assert workspace.check() == []
    workspace.close()


@compiled
def test_a_series_goes_on_when_a_group_has_run_out(tmp_path, taken, two_kept):
    workspace = opened(tmp_path / "s.pages", ENDS["several"], DENSE)
    put = workspace.prepare("edge")
    taken.clear()
    for change, row in at_the_ends(workspace, 1):
        getattr(put, change)(*row)
        put.commit()
    for view in views(workspace):
        workspace.verify(view)
    assert 5 < len(two_kept) < 60 and workspace.check() == []
    assert len(taken) <= 4 + 2 * len(two_kept), (
        "one transaction for each, and one that begins another series"
    )
    workspace.close()


@compiled
@pytest.mark.parametrize("limit", ["HITS", "REGIONS", "RECORDED", "PAGES"])
def test_what_is_matched_beyond_the_room_is_left_to_python(limit, tmp_path, taken, monkeypatch):
    """Of indices that the kernel could not renew, none is renewed."""
    for name in ("PAGES", "PAGES_MAX", "PAGES_AGAIN") if limit == "PAGES" else ():
        monkeypatch.setattr(edit, name, 16)
    if limit != "PAGES":
        monkeypatch.setattr(schedule, limit, 16)
    workspace = opened(tmp_path / "s.pages", MATCHED["a stack"][0], even(160, 8), "match")
    churn(workspace, 5)
    assert {done == steps for done, steps in taken if steps > 4} == {True, False}
    workspace.close()


@compiled
def test_stale_intervals_are_swept_after_the_kernel(tmp_path, taken, monkeypatch):
    """As many are kept as by Python alone; what a series of commits leaves goes with the next
    transaction.
    """
    sizes = {"kernel": [], "Python": [], "series": []}
    for way, kept in sizes.items():
        monkeypatch.setattr(schedule, "FEW", 0 if way == "Python" else tuples.FEW)
        workspace = opened(
            tmp_path / f"{way}.pages", MATCHED["triangles"][0], even(160, 8), "match"
        )
        taken.clear()
        random, put = np.random.default_rng(2), workspace.prepare("edge")
        for action in ["insert"] * 200 + ["delete"] * 200:
            edge = tuple(random.integers(0, 40, 2).tolist())
            if way == "series":
                getattr(put, action)(*edge)
                put.commit()
            else:
                with workspace.transaction() as txn:
                    getattr(txn, action)("edge", [edge])
            kept.append(
                (
                    workspace.stats("v")["sensitivity_rows"],
                    workspace.store.snapshot().properties["ivm.built"],
                )
            )
        workspace.verify("v")
        assert {done == steps for done, steps in taken} == {way != "Python"}
        assert (len(taken) < 100) == (way == "series"), len(taken)
        workspace.close()
    assert sizes["kernel"] == sizes["Python"]
    assert len({built for _, built in sizes["Python"]}) > 2, "nothing was swept; this tests nothing"
    assert len({built for _, built in sizes["series"]}) > 2


@pytest.mark.parametrize("program", RANGES)
def test_ranges_are_followed_by_the_kernel(program, tmp_path, taken):
    """Also at the ends of what a word holds, where a range or a step to the next prefix would
    leave it.
    """
    workspace = opened(tmp_path / "s.pages", RANGES[program], skewed(40), "auto")
    taken.clear()
    few = np.array([*range(-6, 7), *(end + i for end in (-(2**63), 2**63 - 7) for i in range(7))])
    for values in (range(40), few):
        churn(workspace, len(program), 20, values)
    assert (
        {done for done, _ in taken} == {0}
        if config.DISABLE_JIT
        else all(done == steps for done, steps in taken)
    )
    workspace.close()


@pytest.mark.parametrize("program", WINDOWS)
def test_windows_are_followed_by_the_kernel(program, tmp_path, taken):
    workspace = opened(tmp_path / "s.pages", WINDOWS[program], skewed(40), "auto")
    taken.clear()
    churn(workspace, len(program), 20)
    assert (
        {done for done, _ in taken} == {0}
        if config.DISABLE_JIT
        else all(done == steps for done, steps in taken)
    )
    workspace.close()


def test_windows_at_the_ends_of_words_are_left_to_python(tmp_path, taken):
    """Where a sum does not fit, the transaction is refused."""
    workspace = opened(tmp_path / "s.pages", WINDOWS["the sum of a window"], maintenance="auto")
    costs, refused = {x: x * x for x in range(40)}, []
    for x, t in (
        (2, 2**63 - 1),
        (2, 2**63 - 99),
        (4, 100),
        (4, -100),
        (6, -(2**63)),
        (9, 2**62),
        (8, 2**62),
        (9, 0),
    ):
        new = costs | {x: t}
        sums = [
            sum(new[y] for y in range(max(point - 3, 0), point + 1)) for point in range(0, 40, 2)
        ]
        fits = all(-(2**63) <= total < 2**63 for total in sums)
        with (
            contextlib.nullcontext() if fits else pytest.raises(RangeError),
            workspace.transaction() as txn,
        ):
            txn.set("cost", [(x, t)])
        costs = new if fits else costs
        refused.append(not fits)
        workspace.verify("v")
    assert {*refused} == {True, False}
    assert not all(done == steps for done, steps in taken)
    workspace.close()


@compiled
@pytest.mark.parametrize(
    ("module", "limit", "least"),
    [(edit, "PAGES", 12), (edit, "PAGES", 13), (schedule, "MOST", 4), (schedule, "FEW", 3)],
)
def test_a_kernel_that_has_not_enough_room_leaves_the_rest(
    module, limit, least, tmp_path, taken, monkeypatch
):
    monkeypatch.setattr(module, limit, least)
    if limit == "PAGES":
        monkeypatch.setattr(edit, "PAGES_MAX", least)
        monkeypatch.setattr(edit, "PAGES_AGAIN", least)
    if limit == "MOST":
        monkeypatch.setattr(edit, limit, least)
        monkeypatch.setattr(schedule, "FEW", least)
    workspace = opened(tmp_path / "s.pages", PROGRAMS["a view of a view"][0], skewed(40))
    churn(workspace, 5)
    through = {done == steps for done, steps in taken if steps > 4}
    assert through == {True, False}, "the kernel always went equally far; this tests nothing"
    workspace.close()


@compiled
def test_python_goes_on_between_a_state_and_its_view(tmp_path, monkeypatch):
    """A kernel that stops there leaves a state whose change the view has not followed."""
    left, state_changes = [], Schedule.state_changes
    monkeypatch.setattr(
        Schedule, "state_changes", lambda self: left.append(state_changes(self)) or left[-1]
    )
    for pages in range(11, 19):
        for limit in ("PAGES", "PAGES_MAX", "PAGES_AGAIN"):
            monkeypatch.setattr(edit, limit, pages)
        rules = (
            "u(x, z) <- edge(x, y), edge(y, z). v[x] = n <- agg<<n = max(z)>> u(x, z). w(n, x) "
            "<- v[x] = n, mark(n)."
        )
        workspace = opened(tmp_path / f"{pages}.pages", rules, skewed(40))
        churn(workspace, pages, rounds=25)
        workspace.close()
    assert {bool(changes) for changes in left} == {True, False}


@compiled
def test_a_kernel_that_has_too_few_pages_goes_on_with_more(tmp_path, taken, monkeypatch):
    monkeypatch.setattr(edit, "PAGES", 12)
    monkeypatch.setattr(edit, "PAGES_MAX", 12)
    begun, carried = [], Schedule._carried
    monkeypatch.setattr(
        Schedule,
        "_carried",
        lambda self, txn, begin: begun.append(begin) or carried(self, txn, begin),
    )
    workspace = opened(tmp_path / "s.pages", PROGRAMS["a view of a view"][0], skewed(40))
    taken.clear()  # of the edits that filled it
    churn(workspace, 5)
    assert len({begin for begin in begun if begin}) > 1, (
        "the first call always had enough; this tests nothing"
    )
    assert all(done == steps for done, steps in taken if steps > 2)
    workspace.close()


WAYS = {
    name: (rules, "probe", 1) for name, (rules, done, steps) in PROGRAMS.items() if done == steps
}
WAYS |= {name: (rules, "auto", 1) for name, rules in (RANGES | WINDOWS).items()}
WAYS |= {
    f"{name}, matched": (rules, "match", granularity)
    for name, (rules, granularity) in MATCHED.items()
}
WAYS |= {f"{name} of a few": (rules, "probe", 1) for name, rules in ENDS.items()}


@compiled
@pytest.mark.parametrize("program", WAYS)
def test_both_ways_do_the_same(program, tmp_path, monkeypatch, request):
    """Trees, dead lists and all: the pages that a version replaces are freed with it, whoever
    replaced them.
    """
    sizes, accounts = [], []
    rules, maintenance, granularity = WAYS[program]
    again = request.getfixturevalue("two_kept") if rules in ENDS.values() else None
    edges = skewed(60) if again is None else DENSE
    apart = {"maintain_seconds"}
    if (
        program == "below recursion, matched"
    ):  # Python may spend less on a stratum before it refills
        apart |= {"operations", "rounds", "examined"}
    for few in (tuples.FEW, 0):
        monkeypatch.setattr(schedule, "FEW", few)
        workspace = opened(tmp_path / f"{few}.pages", rules, edges, maintenance, granularity)
        for seed in range(times(1)):
            churn(workspace, seed)
            for change, row in () if again is None else at_the_ends(workspace, seed):
                with workspace.transaction() as txn:
                    getattr(txn, change)("edge", [row])
            accounts.append({k: v for k, v in workspace.stats("v").items() if k not in apart})
            sizes.append(
                len(workspace.store.stat().relations)
                and sum(workspace.store.stat().relations.values())
            )
        workspace.close()
    rounds = times(1)
    assert sizes[:rounds] == sizes[rounds:] and accounts[:rounds] == accounts[rounds:]
    assert again != [], "no group ran out; this tests nothing"


def test_subscribers_hear_of_what_a_kernel_did(tmp_path):
    workspace = opened(tmp_path / "s.pages", PROGRAMS["triangles"][0], np.array([[1, 2], [2, 3]]).T)
    heard = {"v": [], "edge": []}
    for name, tables in heard.items():
        workspace.subscribe(name, tables.append)
    with workspace.transaction() as txn:
        txn.insert("edge", [(1, 3)])
        txn.delete("edge", [(7, 7)])
    with workspace.transaction() as txn:
        txn.delete("edge", [(1, 2)])
    rows = {
        name: [[*row.values()] for table in tables for row in table.to_pylist()]
        for name, tables in heard.items()
    }
    assert rows == {
        "v": [[1, 2, 3, "insert"], [1, 2, 3, "delete"]],
        "edge": [[1, 3, "insert"], [1, 2, "delete"]],
    }
    workspace.close()


@compiled
def test_a_scan_of_a_view_that_came_later_is_kept(tmp_path):
    """The shapes that a schedule was laid out for have changed."""
    workspace = opened(tmp_path / "s.pages", PROGRAMS["triangles"][0], skewed(40))
    churn(workspace, 1, 3)
    with workspace.store.transaction() as txn:
        txn.add_scan("v", "max:z")
    churn(workspace, 2, 3)
    rows = workspace["v"].to_arrow().to_pydict()
    assert workspace["v"].scan("max:z") == max(rows["z"])
    workspace.close()


def test_sums_and_functions_are_checked_after_the_kernel(tmp_path, taken):
    rules = "big[x] = t <- agg<<t = sum(v)>> pays(x, v). only[x] = y <- edge(x, y), mark(y)."
    rules += "top[y] = n <- agg<<n = count()>> only[x] = y."
    workspace = opened(tmp_path / "s.pages", "pays(x, v) -> int(x), decimal(18,0)(v). " + rules)
    most = 10**18 - 1
    with workspace.transaction() as txn:
        txn.insert("pays", [(1, most - 3)])
        txn.insert("edge", [(1, 2)])
    taken.clear()
    for name, row, error in (("pays", (1, 4), RangeError), ("edge", (1, 4), FunctionConflictError)):
        before = {view: list(workspace[view]) for view in views(workspace)}
        with pytest.raises(error), workspace.transaction() as txn:
            txn.insert(name, [row])
        assert {view: list(workspace[view]) for view in views(workspace)} == before
    with pytest.raises(RangeError), workspace.transaction() as txn:
        txn.insert("pays", [(1, v) for v in range(most - 20, most - 4)])
    if not config.DISABLE_JIT:
        assert taken == [(3, 3), (5, 5), (2, 3)], (
            "the kernel did not carry them; this tests nothing"
        )
    workspace.close()


def test_a_sketch_does_not_touch_the_queues_of_the_writer(tmp_path, monkeypatch):
    """Previews and SQL evaluate in sketches, in any thread, while another one may be committing."""
    workspace = opened(tmp_path / "s.pages", PROGRAMS["triangles"][0], skewed(40))
    cleared = []
    monkeypatch.setattr(
        edit.EditQueues, "clear", lambda self: cleared.append(self) or self.waits.fill(0)
    )
    assert workspace.preview("+edge(100, 101).").changes["edge"].num_rows == 1
    assert not cleared
    with workspace.transaction() as txn:
        txn.insert("edge", [(100, 101)])
    assert cleared
    workspace.close()


def test_steps_are_in_order(tmp_path):
    """Each predicate is settled before it is read, after all that write it; what reads nothing
    new is left out.
    """
    rules = "u(x) <- edge(x, y), mark(y). v(x, y) <- edge(x, y), u(x). v(x, x) <- u(x), mark(x). "
    rules += "w(x) <- mark(x), !u(x)."
    workspace = opened(tmp_path / "s.pages", rules)

    def steps(*names):
        found = steps_of(workspace._rules_now(), frozenset(names))
        return [step.name if isinstance(step, Flush) else step.rule.writes for step in found]

    assert steps("edge") == ["edge", ("u",), "u", ("v",), ("v",), ("w",), "v", "w"]
    assert steps("cost") == ["cost"]
    assert steps("cost", "mark") == ["mark", ("u",), "u", ("v",), ("v",), ("w",), "cost", "v", "w"]
    workspace.close()


def test_only_so_many_courses_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "SCHEDULES_MAX", 2)
    workspace = opened(tmp_path / "s.pages", PROGRAMS["values"][0], skewed(40))
    churn(workspace, 3)
    assert 0 < len(workspace._rules_now().schedules) <= 2
    workspace.close()
