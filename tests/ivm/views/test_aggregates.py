"""All aggregates, alone and together, over all types: what is maintained is what the slow truth
says, each time.
"""

import math
import random
import tempfile
from contextlib import nullcontext
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
import pagestore
from ivm.engine import schedule
from ivm.errors import AggregateError, RangeError, UnknownViewError
from ivm.lang.aggregate import BY_RANK, OPERATIONS
from ivm.rules.compile import compile, query
from ivm.ways import states, storing, tries
from pagestore.host import is_operator
from pagestore.trees.read import pages_of
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times
from tests.support.programs.recursive_programs import semilattice

BASE = """n(x, y) -> int(x), int(y).  m[x, y] = v -> int(x), int(y), int(v).  s[x, y] = t -> int(x), int(y), string(t).
    w[x, y] = v -> int(x), int(y), float(v).  p[x, y] = d -> int(x), int(y), decimal(8, 2)(d).
    b[x, y] = d -> int(x), int(y), date(d)."""
PROGRAMS = [
    "u[x] = r, k[x] = s <- agg<<r = unite(y), s = max(y)>> n(x, y).",
    """lo[x] = a, hi[x] = c, mid[x] = d, k[x] = e, q[x] = f <- agg<<a = min(v), c = max(v), d = median(v),
         e = count_distinct(v), f = quantile(v, 0.75)>> m[x, y] = v.""",
    "a[x] = r, va[x] = s, sd[x] = t, pv[x] = u, n2[x] = k <- agg<<r = avg(v), s = variance(v), t = "
    "stddev(v), "
    "u = stddev_pop(v), k = count()>> m[x, y] = v.",
    "q[x] = r, q2[] = s <- agg<<r = quantile_cont(v, 0.3), s = quantile_cont(v, 0.95)>> p[x, y] = "
    "v.  "
    "q3[] = k, q4[y] = u <- agg<<k = quantile_cont(v, 0.1), u = quantile_cont(v, 0)>> w[x, y] = v. "
    " "
    "q5[x] = k, q6[] = u <- agg<<k = quantile_cont(v, 0.25), u = quantile_cont(v, 1)>> m[x, y] = v.",
    "a[] = r, va[] = s, t[] = u, sd[y] = k, md[] = g <- agg<<r = avg(v), s = var_pop(v), u = "
    "total(v), k = stddev(v), "
    "g = median(v)>> w[x, y] = v.",
    "a[x] = r, va[] = s, md[x] = u, lo[] = k <- agg<<r = avg(v), s = variance(v), u = median(v), k "
    "= argmin(y, v)>> "
    "p[x, y] = v.",
    "top3[x, i] = r, low[i] = k, one[i] = u <- agg<<(i, r) = top(v, 3), (i, k) = bottom(y, v, 2), "
    "(i, u) = top(y, v, 1)"
    ">> m[x, y] = v.",
    "f[x] = r, l[x] = k, f2[] = u, l2[] = z <- agg<<r = first(v, y), k = last(v, y), u = first(v), "
    "z = last(v)>> "
    "m[x, y] = v.",
    'c1[x] = r, c2[] = k, c3[] = u <- agg<<r = concat(t), k = concat(t, ", "), u = concat(t, v, '
    '";")>> '
    "s[x, y] = t, m[x, y] = v.",
    "lo[x] = r, hi[] = k, am[x] = u, t2[i] = z <- agg<<r = min(t), k = max(t), u = argmax(t, v), "
    "(i, z) = top(t, v, 2)>> s[x, y] = t, m[x, y] = v.",
    "q[x] = r, k[] = u, al[x] = z, o[] = i <- agg<<r = quantile(t, 0.5), u = count_distinct(t), z "
    "= argmin(v, t), "
    "i = concat(t, t)>> s[x, y] = t, m[x, y] = v.",
    "lo[] = r, hi[x] = k, q[] = u, dd[x] = z <- agg<<r = min(d), k = argmax(d, y), u = quantile(d, "
    "0.5), "
    "z = count_distinct(d)>> b[x, y] = d.",
    "k[x] = r, j[] = u <- agg<<r = count_distinct(y, z), u = count_distinct(x)>> "
    "(n(x, y), n(y, z) ; n(y, x), n(z, z)).",
    """per[x] = r <- agg<<r = sum(v)>> m[x, _] = v.   best[i] = r <- agg<<(i, r) = top(x, t, 2)>> per[x] = t.
       mean[] = r <- agg<<r = avg(t)>> per[_] = t.   rich(x) <- best[_] = x, !n(x, x).""",
    "g1[x] = r, g2[] = u <- agg<<r = lastone(v), u = lastone(y)>> m[x, y] = v.",
    "g1[x] = r, g2[] = u, g3[y] = k, g4[x] = z <- agg<<r = bitdiff(v), u = wrapped(y), k = "
    "wrapped(v), z = wrapped(v)"
    ">> m[x, y] = v, n(y, _).",
]
KEYS = st.integers(0, 3)
INTS = st.sampled_from([0, 1, 2, -1, 7, 7, 2**62, -(2**63), 2**63 - 1])
TEXTS = st.sampled_from(["", "a", "b", "ab", "é", "z"])
FLOATS = st.floats(-1e100, 1e100).map(lambda v: v + 0.0) | st.sampled_from(
    [0.0, 0.5, 0.1, 5e-324, 1e16, -1e16]
)
DECIMALS = st.decimals(-999999, 999999, places=2)
DATES = st.dates(date(1969, 12, 1), date(1970, 2, 1))
VALUES = {"m": INTS, "s": TEXTS, "w": FLOATS, "p": DECIMALS, "b": DATES, "n": None}


@pytest.fixture(autouse=True, scope="module")
def lastone():
    """A registered operator whose order matters, and two that have an inverse."""
    semilattice("unite")
    if not is_operator("lastone"):
        pagestore.register_operator("lastone", lambda a, b: b, 0)
        pagestore.register_operator("bitdiff", lambda a, b: a ^ b, 0, inverse=lambda a: a)
        pagestore.register_operator("wrapped", lambda a, b: a + b, 0, inverse=lambda a: -a)


def edits_of(program: str) -> st.SearchStrategy:
    """Edits of the relations that a program reads."""
    read = {
        name: values
        for name, values in VALUES.items()
        if f"{name}[" in program or f"{name}(" in program
    }
    return st.one_of(
        *(
            st.tuples(
                st.just(name),
                st.tuples(KEYS, KEYS, *([] if values is None else [values])),
                st.booleans(),
            )
            for name, values in read.items()
        )
    )


def follow(program: str, transactions: list, lasting: bool = True) -> None:
    """Edit, comparing each time; a store that lasts is opened again, and all that is kept passes
    its check.
    """
    with tempfile.TemporaryDirectory() if lasting else nullcontext() as folder:
        mirror = Mirror(Path(folder) / "store.pages" if folder else ":memory:", f"{BASE} {program}")
        for edits in transactions:
            mirror.change(edits)
        if lasting:
            mirror.reopen()
            assert mirror.workspace.check() == []
            assert mirror.workspace.store.check() == []
            mirror.workspace.uninstall("main", relations=True)
            assert list(mirror.workspace.store.snapshot()._version.catalog.relations) == []
        mirror.close()


@pytest.mark.parametrize("program", PROGRAMS)
@settings(max_examples=times(8), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_aggregates_are_the_truth(program, data):
    edits = edits_of(program)
    follow(program, data.draw(st.lists(st.lists(edits, max_size=12), min_size=1, max_size=6)))


@pytest.mark.campaign
@pytest.mark.parametrize("program", PROGRAMS)
@settings(max_examples=1450, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_campaign_of_aggregates(program, data):
    """20,000 cases in all, every fourth of them in a file."""
    transactions = data.draw(
        st.lists(st.lists(edits_of(program), max_size=20), min_size=1, max_size=10)
    )
    follow(program, transactions, data.draw(st.integers(0, 3)) == 0)


def some_rows() -> dict[str, list[tuple]]:
    """Rows of every relation of BASE."""
    drawn = random.Random(7)
    values = {
        "m": lambda: drawn.randint(-5, 5),
        "s": lambda: drawn.choice("abc"),
        "w": drawn.random,
        "n": None,
        "p": lambda: Decimal(drawn.randint(0, 999)) / 100,
        "b": lambda: date(2013, 1, drawn.randint(1, 30)),
    }
    return {
        name: [(x, y, *([make()] if make else [])) for x in range(9) for y in range(30)]
        for name, make in values.items()
    }


@pytest.mark.parametrize("program", PROGRAMS[:8])
def test_loaded_before_the_rules_as_edited_after(program, tmp_path):
    """What is filled at once is what edits make of it, down to the state."""
    rows, stores = some_rows(), []
    for name in ("loaded", "edited"):
        with ivm.open(tmp_path / f"{name}.pages", sync="off") as ws:
            ws.install(BASE, "base")
            if name == "edited":
                ws.install(program, "rules")
            for relation, found in rows.items():
                for part in np.array_split(np.arange(len(found)), 3 if name == "edited" else 1):
                    with ws.transaction() as txn:
                        txn.insert(relation, [found[i] for i in part])
            if name == "loaded":
                ws.install(program, "rules")
            assert ws.check() == []
            stores.append({view: list(ws[view]) for view in ws})
    assert stores[0] == stores[1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_asked_once_is_what_is_kept(program, monkeypatch):
    """And a question makes no tree of state, unless it asks for what the tree's scans say."""
    trees, bulk = [], storing.bulk

    def counted(pager, spec, batches):
        trees.append(spec)
        return bulk(pager, spec, batches)

    with ivm.open(":memory:") as asked, ivm.open(":memory:") as kept:
        for ws in (asked, kept):
            ws.install(BASE, "base")
            with ws.transaction() as txn:
                for relation, rows in some_rows().items():
                    txn.insert(relation, rows)
        kept.install(program, "rules")
        monkeypatch.setattr(storing, "bulk", counted)
        answer = [tuple(row.values()) for row in asked.query(program).to_arrow().to_pylist()]
        if not any(op in program for op in ("concat", "unite", "lastone")):
            assert trees
            assert not any(spec.scans for spec in trees)
        name = query(program, compile(BASE)).answer
        last = [*kept[name]]
        assert answer == last


def test_medians_of_the_least_and_the_greatest_words(tmp_path):
    mirror = Mirror(tmp_path / "m.pages", f"{BASE} v[x] = r <- agg<<r = median(v)>> m[x, _] = v.")
    mirror.insert("m", (0, 0, -(2**63)))
    mirror.insert("m", (0, 1, 2**63 - 1), (1, 0, -(2**63)), (1, 1, -(2**63) + 1), (2, 0, 2**63 - 1))
    mirror.close()


TEXTED = [
    """a[i] = r, b[y, i] = q, c[] = u, d[t] = z <- agg<<(i, r) = top(t, 2), (i, q) = bottom(t, t, 3), u = lastone(v),
         z = concat(t)>> k[t, y] = v.""",
    "a[] = r, b[y] = q, c[y] = m <- agg<<r = first(t), q = last(v), m = count_distinct(t, v)>> "
    "k[t, y] = v.",
    "f[] = a, g[] = b, h[] = c <- agg<<a = count(), b = sum(v), c = avg(v)>> k[_, _] = v.",
    """lo[y] = r <- agg<<r = min(c)>> (y = 1, e(y, _), c = 0 ; lo[x] = m, e(x, y), c = m + 1).
       md[] = q, far[i] = z <- agg<<q = median(c), (i, z) = top(y, c, 2)>> lo[y] = c.""",
    "f[x] = q <- agg<<q = median(w)>> e(x, y), w = 6 / y.   all[] = q <- agg<<q = quantile(w, "
    "0.5)>> f[_] = w.",
]


@pytest.mark.parametrize(("known", "share"), [("quantile", 0.5), ("quantile_cont", 0.25)])
def test_an_operation_is_evaluated_by_its_row_and_not_by_its_name(
    known, share, tmp_path, monkeypatch
):
    """Whoever adds an aggregate adds a row: the kernel of few edits must not look at the name."""
    monkeypatch.setitem(OPERATIONS, "midrank", OPERATIONS[known])
    monkeypatch.setitem(BY_RANK, "midrank", BY_RANK[known])
    rules = "s(g, k, v) -> int(g), int(k), int(v)." + "".join(
        f" {view}[g] = n <- agg<<n = {op}(v, {share})>> s(g, _, v)."
        for view, op in (("old", known), ("new", "midrank"))
    )
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install(rules, name="rules")
        for edit in (
            "+s(1, 1, 5), +s(1, 2, 9), +s(1, 3, 7), +s(2, 1, 4).",
            "-s(1, 3, 7), +s(1, 4, 1).",
        ):
            ws.exec(edit)
            assert sorted(ws["new"]) == sorted(ws["old"])


@pytest.mark.parametrize("program", TEXTED)
def test_texts_as_keys_recursion_below_and_arithmetic_that_fails(program, tmp_path):
    drawn = random.Random(5)
    base = "k[t, y] = v -> string(t), int(y), int(v).  e(x, y) -> int(x), int(y)."
    mirror = Mirror(tmp_path / "t.pages", f"{base} {program}")
    for _ in range(40):
        texts = [(drawn.choice("abcde"), drawn.randrange(3), drawn.randrange(4)) for _ in range(2)]
        k = [("k", row, drawn.random() < 0.6) for row in texts]
        e = [
            ("e", (drawn.randrange(4), drawn.randrange(4)), drawn.random() < 0.6) for _ in range(2)
        ]
        mirror.change(k + e)
    mirror.reopen()
    for name in mirror.program.predicates:
        if name not in "ke" and "$" not in name:
            mirror.workspace.verify(name)
            assert len(mirror.workspace.evaluate(name)) == len(mirror.workspace[name])
    mirror.workspace.repair()
    mirror.compare()
    assert mirror.workspace.check() == []
    mirror.close()


def counted_folds(patch: pytest.MonkeyPatch, module: ModuleType) -> list[int]:
    """Lists from now on how often each fold of a module applies an operator, as it does for many
    edits.
    """
    patch.setattr(schedule, "FEW", 0)  # else a kernel folds, which is not counted
    counts: list[int] = []
    fold = module.fold_many

    def counted(*args):
        found = fold(*args)
        counts.append(found.applications)
        return found

    patch.setattr(module, "fold_many", counted)
    return counts


def counting(patch: pytest.MonkeyPatch) -> list[int]:
    """Lists from now on how often an operator is applied, and how many records are looked at."""
    counts = counted_folds(patch, states)

    def looked(read, *args):
        counts.append(len(args[-1]))
        return read(*args)

    for name in ("select", "select_weighted"):
        patch.setattr(states, name, partial(looked, getattr(states, name)))
    return counts


@pytest.mark.parametrize(
    "rule, after",
    [
        ("v[] = r <- agg<<r = max(y)>> n(_, y).", lambda left: max(left)),
        (
            "v[] = r <- agg<<r = median(y)>> n(_, y).",
            lambda left: float(left[(len(left) - 1) // 2] + left[len(left) // 2]) / 2,
        ),
        (
            "v[] = r <- agg<<r = quantile(y, 0.9)>> n(_, y).",
            lambda left: left[math.ceil(len(left) * 0.9) - 1],
        ),
        ("v[] = r <- agg<<r = count_distinct(y)>> n(_, y).", len),
        ("v[] = r <- agg<<r = concat(t)>> s[_, y] = t.", None),
    ],
)
def test_a_delete_applies_its_operator_log_n_times(rule, after, tmp_path, monkeypatch):
    """However large the group is: the records that are looked at, and applications of the
    operator, are counted.
    """
    sizes, most = (1000, 64000), []
    for size in sizes:
        with ivm.open(tmp_path / f"{size}.pages", sync="off") as ws:
            ws.install(f"{BASE} {rule}")
            with ws.transaction() as txn:
                txn.insert("n", [np.zeros(size, np.int64), np.arange(size)])
                txn.insert("s", [(0, y, f"{y};") for y in range(size if after is None else 1)])
            with monkeypatch.context() as patch:
                counts = counting(patch)
                patch.setattr(states, "all_of", None)  # reading a whole group would fail
                left = list(range(size))
                for y in (size - 1, size // 2, 0, 7, size // 3):
                    left.remove(y)
                    with ws.transaction() as txn:
                        txn.delete("n" if after else "s", [(0, y)])
                    if after:
                        assert list(ws["v"]) == [(after(left),)]
                    else:
                        assert str(ws.rope("v")) == "".join(f"{one};" for one in left)
            most.append(sum(counts) / 5)
    assert all(count <= 12 * math.log2(size) for count, size in zip(most, sizes, strict=True)), most


def test_the_greatest_is_deleted_until_there_is_none(tmp_path):
    """And so are the median and all else of the group, and its text, which end with its last
    row.
    """
    with ivm.open(tmp_path / "e.pages", sync="off", retain=2) as ws:
        ws.install(f"""{BASE}
            hi[x] = r, md[x] = q, nt[x] = k, ct[x] = u, tx[x] = z <- agg<<r = max(y), q = median(y),
                k = quantile(y, 0.9), u = count_distinct(y), z = concat(t, y, ",")>> s[x, y] = t.""")
        left = [*range(300)]
        with ws.transaction() as txn:
            txn.insert("s", [(0, y, f"t{y}") for y in left])
        while left:
            y = left.pop()
            with ws.transaction() as txn:
                txn.delete("s", [(0, y)])
            middle = [(0, (left[(len(left) - 1) // 2] + left[len(left) // 2]) / 2)] if left else []
            assert list(ws["hi"]) == [(0, y - 1)] * bool(left)
            assert list(ws["md"]) == middle
            assert list(ws["nt"]) == [(0, left[math.ceil(len(left) * 0.9) - 1]) for _ in left[:1]]
            assert list(ws["ct"]) == [(0, len(left))] * bool(left)
            if left:
                assert str(ws.rope("tx", 0)) == ",".join(f"t{y}" for y in left)
        assert not any(len(ws[name]) for name in ("hi", "md", "nt", "ct", "tx"))
        with ws.store.snapshot() as snap:
            assert snap.tree("$apart:hi").count == 0


def test_a_change_inside_a_long_concat_writes_a_path_of_pages(tmp_path):
    with ivm.open(tmp_path / "c.pages", sync="off", retain="all") as ws:
        ws.install(f'{BASE} v[] = r <- agg<<r = concat(t, ", ")>> s[_, y] = t.')
        with ws.transaction() as txn:
            txn.insert("s", [(0, y, f"text {y}") for y in range(100_000)])
        with ws.store.snapshot() as before:
            ws.exec('^s[0, 50000] = "another".')
            with ws.store.snapshot() as after:
                old, new = (
                    set(pages_of(snap.pages, snap.tree("$apart:v")).tolist())
                    for snap in (before, after)
                )
                assert len(new - old) <= 2 * after.tree("$apart:v").height
        rope = ws.rope("v")
        assert rope[: 2 + 6].startswith("text 0")
        assert sum(map(len, rope)) == rope.length == len(str(rope))
        assert ", text 49999, another, text 50001, " in str(rope)


def test_ropes_of_older_versions_and_what_rules_may_read(tmp_path):
    with ivm.open(tmp_path / "c.pages", sync="off", retain="all") as ws:
        ws.install(
            f'{BASE} v[x] = r <- agg<<r = concat(t, "-")>> s[x, _] = t. there(x) <- v[x] = _.'
        )
        ws.exec('+s[1, 1] = "a". +s[1, 2] = "b". +s[2, 1] = "c".')
        version, told = ws.store.version, []
        ws.subscribe("v", lambda table: told.append(table.num_rows))
        ws.exec('^s[1, 1] = "z".')
        assert told == [2]
        assert (str(ws.at(version).rope("v", 1)), str(ws.rope("v", 1))) == ("a-b", "z-b")
        assert list(ws["there"]) == [(1,), (2,)]
        for name, key in (("v", (3,)), ("v", ())):
            with pytest.raises(KeyError):
                ws.rope(name, *key)
        with pytest.raises(UnknownViewError, match="not a concat"):
            ws.rope("there", 1)
        assert list(ws.query('q(x) <- v[x] = r, r = "z-b".')) == [(1,)]
        assert list(ws.query('q[x] = r <- agg<<r = concat(t, "+")>> s[x, _] = t.')) == [
            (1, "z+b"),
            (2, "c"),
        ]


def test_explain_says_who_shares_a_state(tmp_path):
    with ivm.open(tmp_path / "e.pages", sync="off") as ws:
        ws.install(
            f"{BASE} lo[x] = a, mid[x] = c, all[] = d <- agg<<a = min(v), c = median(v), d = "
            f"max(v)>> m[x, _] = v."
        )
        assert (
            "state     $apart:lo: each group's values in order, with support counts, with a count "
            "of records, a sum of" in ws.explain("mid")
        )
        assert "shared    by all, lo, mid" in ws.explain("lo")
        ws.install("hi[x] = a, mean[x] = b <- agg<<a = max(v), b = avg(v)>> m[x, _] = v.", "other")
        assert "shared" not in ws.explain("hi")


def test_an_operator_with_an_inverse_keeps_no_values(tmp_path, monkeypatch):
    """One record for each group, however many assignments, and in however many parts they are
    found.
    """
    monkeypatch.setattr(tries, "PARTS_KEPT", 0)
    with ivm.open(tmp_path / "i.pages", sync="off") as ws:
        ws.install(f"{BASE} v[x] = r <- agg<<r = wrapped(y)>> n(x, y).")
        with ws.transaction() as txn:
            txn.insert("n", [np.arange(5000) % 2, np.arange(5000)])
        with ws.store.snapshot() as snap:
            assert snap.tree("$apart:v").count == 2
        ws.exec("-n(1, 4999). -n(0, 0).")
        assert list(ws["v"]) == [(0, sum(range(0, 5000, 2))), (1, sum(range(1, 4999, 2)))]
        assert "by the operator's inverse" in ws.explain("v")
        with ws.transaction() as txn:
            txn.delete("n", [(1, y) for y in range(1, 4999, 2)])
        assert list(ws["v"]) == [(0, sum(range(0, 5000, 2)))]
        assert ws.check() == []


def test_an_inverse_takes_back_many_at_once():
    """Bindings that are only counted come with how often they do."""
    rows = np.array([[1, 1, 1, 2], [5, 5, 7, 9], [10**12, -(10**12) + 3, 2, -1]])
    assert states.folded("wrapped", rows).tolist() == [[1, 2], [29, -9], [5, -1]]
    assert states.folded("bitdiff", rows).tolist() == [[1, 2], [5, 9], [5, -1]]


def test_an_operator_that_is_not_registered_is_refused(tmp_path):
    with (
        ivm.open(tmp_path / "o.pages", sync="off") as ws,
        pytest.raises(AggregateError, match="register_operator"),
    ):
        ws.install(f"{BASE} v[x] = r <- agg<<r = nosuch(y)>> n(x, y).")


def follow_magnitudes(path: Path, edits: int, checkpoints: int) -> None:
    """Random inserts and deletes of floats from 1e-320 to 1e308: the total is math.fsum of what
    is there.
    """
    drawn = np.random.default_rng(3)
    with ivm.open(path, sync="off") as ws:
        ws.install(
            "w[x] = v -> int(x), float(v). t[] = r, a[] = k <- agg<<r = total(v), k = avg(v)>> "
            "w[_] = v."
        )
        there: dict[int, float] = {}
        for _ in range(checkpoints):
            size = edits // checkpoints
            keys = drawn.integers(0, 4 * size, size).tolist()
            exponents = drawn.uniform(-320, 305, size)
            values = (
                np.where(drawn.random(size) < 0.5, -1, 1) * drawn.random(size) * 10.0**exponents
                + 0.0
            )
            with ws.transaction() as txn:
                gone = [key for key in keys if key in there and drawn.random() < 0.5]
                txn.delete("w", [(key,) for key in gone])
                for key in gone:
                    there.pop(key, None)
                new = {k: v for k, v in zip(keys, values.tolist(), strict=True) if k not in gone}
                there |= new
                txn.set("w", list(new.items()))
            assert list(ws["t"]) == [(math.fsum(there.values()),)]
        state = list(map(bytes, state_words(ws)))
        fresh = ivm.open(path.with_name("fresh.pages"), sync="off")
        fresh.install(
            "w[x] = v -> int(x), float(v). t[] = r, a[] = k <- agg<<r = total(v), k = avg(v)>> "
            "w[_] = v."
        )
        with fresh.transaction() as txn:
            txn.set("w", list(there.items()))
        # the state depends on the multiset alone
        assert list(map(bytes, state_words(fresh))) == state
        fresh.close()


def state_words(ws: ivm.Workspace) -> np.ndarray:
    with ws.store.snapshot() as snap:
        return np.concatenate(
            [batch.copy() for batch in states.read_batches(snap.pages, snap.tree("$apart:t"))],
            axis=1,
        )


def test_totals_of_all_magnitudes(tmp_path):
    follow_magnitudes(tmp_path / "w.pages", 4000, 20)


@pytest.mark.campaign
def test_campaign_of_magnitudes(tmp_path):
    follow_magnitudes(tmp_path / "w.pages", 1_000_000, 1000)


@pytest.mark.parametrize("seed", range(4))
def test_a_concat_is_in_the_order_of_texts_whenever_they_came(seed: int) -> None:
    """Ties of what orders are ordered by the texts themselves, also where they fill more than a
    batch.
    """
    rng = random.Random(seed)
    with ivm.open(":memory:") as workspace:
        workspace.install("""
            said(g, i, t) -> int(g), int(i), string(t).
            plain[g] = c <- agg<<c = concat(t)>> said(g, _, t).
            tied[g] = c <- agg<<c = concat(t, i, ", ")>> said(g, i, t).
            named[] = c <- agg<<c = concat(t, t, i, ";")>> said(_, i, t).""")
        for _ in range(6):
            with workspace.transaction() as txn:
                rows = [
                    (rng.randrange(2), rng.randrange(3), f"{rng.randrange(10**6)}")
                    for _ in range(2000)
                ]
                txn.insert("said", rows)
            with workspace.transaction() as txn:
                txn.delete("said", [row for row in workspace["said"] if rng.random() < 0.3])
        said = list(workspace["said"])
        for g in range(2):
            mine = [(i, t) for h, i, t in said if h == g]
            # the unnamed variable, too
            assert str(workspace.rope("plain", g)) == "".join(t for _, t in sorted(mine))
            assert str(workspace.rope("tied", g)) == ", ".join(t for _, t in sorted(mine))
        assert str(workspace.rope("named")) == ";".join(
            t for t, _ in sorted((t, i) for _, i, t in said)
        )


def test_infinities_follow_ieee_754():
    """A sample of one has no variance, whatever its value; the mean of infinities of one sign is
    that infinity.
    """
    workspace = ivm.open(":memory:")
    workspace.install(
        "e(x, y) -> int(x), float(y).  v[x] = r <- agg<<r = variance(y)>> e(x, y)."
        "a[x] = r <- agg<<r = avg(y)>> e(x, y).  m[x] = r <- agg<<r = median(y)>> e(x, y)."
    )
    inf = float("inf")
    with workspace.transaction() as txn:
        txn.insert("e", [(1, inf), (2, -inf), (3, 1.5)])
    assert list(workspace["v"]) == []
    assert list(workspace["a"]) == list(workspace["m"]) == [(1, inf), (2, -inf), (3, 1.5)]
    with (
        pytest.raises(RangeError, match="variance of inf is not a number"),
        workspace.transaction() as txn,
    ):
        txn.insert("e", [(1, 2.0)])
