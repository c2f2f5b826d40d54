"""Key orders of rules with many variables: found soon, and good; counted, without a clock."""

import random
from itertools import pairwise

import pytest

import ivm
from ivm.errors import ConstructError, RangeError
from ivm.plan import costs, join_order
from ivm.plan.conjunction import Conjunction
from ivm.plan.join_order import JoinOrders
from ivm.plan.plan import Columns
from ivm.plan.planner import make_plans
from ivm.rules.compile import compile
from tests.support.calls import functions_called

STAR = [f"r{i}(k, v{i})" for i in range(7)]
CHAIN = [f"r{i}(v{i}, v{i + 1})" for i in range(12)]
CYCLE = [f"r{i}(v{i}, v{(i + 1) % 8})" for i in range(8)]
TWO = [*CHAIN[:4], *(f"s{i}(w{i}, w{i + 1})" for i in range(4))]
CLIQUE = [f"r(v{i}, v{j})" for i in range(7) for j in range(i + 1, 7)]


def variables_of(body):
    """The variables of some atoms, once each."""
    return list(dict.fromkeys(v for atom in body for v in atom.split("(")[1][:-1].split(", ")))


def declared(body):
    """Declarations of the relations that some atoms read, each of two columns."""
    return "".join(
        f"{name}(x, y) -> int(x), int(y). "
        for name in sorted({atom.split("(")[0] for atom in body})
    )


def plan_of(body, distinct):
    """The plan of a view of all variables of some atoms."""
    program = compile(f"{declared(body)}p({', '.join(variables_of(body))}) <- {', '.join(body)}.")
    stored = {name: len(predicate.types) for name, predicate in program.predicates.items()}
    return make_plans(
        program.rules[0], program.predicates, stored, distinct, lambda const: const.value
    )[0]


def even(predicate, columns):
    """Every relation has 1,000 rows, and 500 values in each column."""
    return 500.0 if len(columns) == 1 else 1000.0


def untied(body, order):
    """How many variables of an order no atom ties to one before."""
    sides = [variables_of([atom]) for atom in body]
    near = [{v for side in sides if name in side for v in side} for name in order]
    return sum(not near[i].intersection(order[:i]) for i in range(len(order)))


@pytest.mark.parametrize(
    ("body", "parts"), [(STAR, 1), (CHAIN, 1), (CYCLE, 1), (CLIQUE, 1), (TWO, 2)]
)
def test_orders_go_on_where_an_atom_ties(body, parts, monkeypatch):
    """A variable that nothing ties to those before multiplies them all, so there is one for each
    part of a rule.

    Of thirteen atoms or more the orders that are compared in full are as many as would be of five
    variables.
    """
    whole = []
    cost = JoinOrders._cost
    monkeypatch.setattr(JoinOrders, "_cost", lambda *given: whole.append(1) or cost(*given))
    random.Random(4).shuffle(body := list(body))
    chosen = plan_of(body, even)
    assert len(chosen.variables) >= 7
    for order in (chosen, *chosen.probes):
        assert untied(body, order.variables) == parts
    assert len(whole) <= 120 * (1 + len(body))


def test_the_hub_of_a_star_is_no_dearer_than_its_ends(tmp_path):
    """wide(k, v0, ...) <- r0(k, v0), r1(k, v1), ...: 100 rows, where the ends alone have 20**7
    values.
    """
    with ivm.open(tmp_path / "p.pages", sync="off") as ws:
        ws.install(declared(STAR))
        with ws.transaction() as txn:
            for i in range(7):
                txn.insert(f"r{i}", [(j, j % 20) for j in range(100)])
        ws.install(f"wide({', '.join(variables_of(STAR))}) <- {', '.join(STAR)}.", name="wide")
        assert list(ws["wide"]) == [(j, *[j % 20] * 7) for j in range(100)]
        assert ws.stats("wide")["operations"] < 100 * 2 * 8


@pytest.mark.parametrize("length", [7, 8, 9, 12])
def test_one_row_finds_its_way_along_a_chain(length, tmp_path):
    """What a row of the last relation costs does not depend on how many there are."""
    found = []
    for rows in (100, 1000):
        with ivm.open(tmp_path / f"{rows}.pages", sync="off") as ws:
            ws.install(declared(CHAIN[:length]))
            with ws.transaction() as txn:
                for i in range(length):
                    txn.insert(f"r{i}", [(j, j) for j in range(rows)])
            ws.install(f"p(v0) <- {', '.join(CHAIN[:length])}.", name="p")
            ws.exec(f"-r{length - 1}(5, 5).")
            found.append(ws.stats("p")["operations"])
            ws.verify("p")
            assert len(ws["p"]) == rows - 1
    assert found[0] == found[1] < 6 * length


@pytest.mark.parametrize("seed", range(8))
def test_six_variables_have_an_order_that_is_near_the_cheapest(seed, monkeypatch):
    """Of relations whose columns are keys, where estimates of different orders agree."""
    rng = random.Random(seed)
    names = [f"v{i}" for i in range(6)]
    ends = {tuple(rng.sample(names, 2)) for _ in range(9)} | set(pairwise(names))
    body = [f"r{i}({a}, {b})" for i, (a, b) in enumerate(sorted(ends))]
    rows = {f"r{i}": rng.choice([10.0, 100.0, 1000.0, 10000.0]) for i in range(len(body))}
    chosen = plan_of(body, lambda predicate, columns: rows[predicate])
    monkeypatch.setattr(costs, "PERMUTED_MAX", 6)
    best = plan_of(body, lambda predicate, columns: rows[predicate])
    assert best.considered == 720 > 4 * chosen.considered
    assert chosen.cost <= 1.01 * best.cost


def test_rows_that_come_sorted_are_worth_an_order_somewhat_dearer(tmp_path):
    """Turned indices have half as many keys in front; but then all cliques, which are many more,
    would be sorted.
    """
    rng = random.Random(0)
    with ivm.open(tmp_path / "p.pages", sync="off") as ws:
        ws.install("edge(x, y) -> int(x), int(y).")
        with ws.transaction() as txn:
            txn.insert("edge", [(rng.randrange(400), rng.randrange(200)) for _ in range(4000)])
        body = "edge(x, y), edge(y, z), edge(x, z), edge(x, w), edge(y, w), edge(z, w)"
        ws.install(
            f"listed(x, y, z, w) <- {body}. counted[] = n <- agg<<n = count()>> {body}.",
            name="cliques",
        )
        assert "[x, y, z, w], the best of 24" in ws.explain("listed")
        assert "[x, y, z, w], the best of 24" not in ws.explain("counted")


def test_few_rows_are_sorted_rather_than_much_searched(tmp_path):
    with ivm.open(tmp_path / "p.pages", sync="off") as ws:
        ws.install("long(y, x) -> int(y), int(x). few(y) -> int(y).")
        with ws.transaction() as txn:
            txn.insert("long", [(i % 100, i) for i in range(10_000)])
            txn.insert("few", [(3,), (7,)])
        ws.install("found(x, y) <- long(y, x), few(y).", name="found", maintenance="match")
        assert "[y, x], the best of 2" in ws.explain("found")
        assert ws.stats("found")["operations"] < 500
        assert list(ws["found"]) == sorted((i, i % 100) for i in range(10_000) if i % 100 in (3, 7))


def test_a_product_of_few_is_cheaper_than_what_ties():
    """Two short lists under a long relation come first, although nothing ties them but it."""
    body = ["few(a, c)", "some(b, d)", "long(a, b)", "r0(c, e)", "r1(d, f)"]
    rows = {"few": 2.0, "some": 3.0}
    chosen = plan_of(
        body, lambda predicate, columns: rows.get(predicate, 1e6 if len(columns) == 2 else 1e4)
    )
    assert set(chosen.variables[:4]) == set("abcd")


@pytest.mark.parametrize(
    "body",
    [
        "f[x] = v, g[y] = v",
        "f[x] = v, g[y] = w, v = w",
        "f[x] = v, b(y), v = y",
        "f[x] = v, h[y] = v",
        "h[x] = v, h[y] = w, w = v",
        "f[x] = v, s[v] = w, f[y] = w",
    ],
)
@pytest.mark.parametrize("maintenance", ["match", "probe"])
def test_equal_values_of_functions_are_sought(body, maintenance, tmp_path):
    """What one value costs does not depend on how many others there are."""
    found = []
    for rows in (100, 1000):
        with ivm.open(tmp_path / f"{rows}.pages", sync="off") as ws:
            ws.install(
                "b(x) -> int(x).  s[x] = v -> int(x), int(v).  f[x] = v -> int(x), int(v).  "
                "g[x] = v -> int(x), int(v).  h[x] = n <- agg<<n = max(v)>> s[x] = v.",
                name="facts",
            )
            with ws.transaction() as txn:
                txn.insert("b", [(i,) for i in range(rows)])
                for name in "fgs":
                    txn.insert(name, [(i, i) for i in range(rows)])
            ws.install(f"p(x, y) <- {body}.", name="p", maintenance=maintenance)
            assert list(ws["p"]) == [(i, i) for i in range(rows)]
            ws.exec("^f[5] = 6. ^s[5] = 6. -b(7).")
            found.append(ws.stats("p")["operations"])
            ws.verify("p")
    assert found[0] == found[1] < 100


@pytest.mark.parametrize(
    ("rule", "rows_of"),
    [
        ("p(x, v) <- a(x), f[x / 2] = v.", lambda n: [(x, x // 2) for x in range(n)]),
        ("p(x, y) <- a(x), b(y), y = x * 2.", lambda n: [(x, 2 * x) for x in range(n // 2)]),
        (
            "p(x, t) <- a(x), x != 0, f[50 / x] = v, t = x + v.",
            lambda n: [(x, x + 50 // x) for x in range(1, n)],
        ),
        ("p(x, y) <- a(x), b(x / 2), f[x * 2] = y.", lambda n: [(x, 2 * x) for x in range(n // 2)]),
        (
            "p(w) <- f[x] = v, w = v * 2, b(w), !b(w + x).",
            lambda n: [(2 * x,) for x in range((n + 2) // 3, n // 2)],
        ),
        ("p[v] = c <- agg<<c = count()>> e(x, z), f[x * 0 + 7] = v.", lambda n: [(7, 3 * n)]),
    ],
)
def test_what_is_computed_is_sought(rule, rows_of, tmp_path):
    """What a row costs does not depend on how many others could have been what is computed of
    it.
    """
    found = []
    for rows in (100, 1000):
        with ivm.open(tmp_path / f"{rows}.pages", sync="off") as ws:
            ws.install(
                "a(x) -> int(x).  b(x) -> int(x).  f[x] = v -> int(x), int(v).  e(x, y) -> int(x), "
                "int(y).",
                name="facts",
            )
            with ws.transaction() as txn:
                for name in "ab":
                    txn.insert(name, [(i,) for i in range(rows)])
                txn.insert("f", [(i, i) for i in range(rows)])
                txn.insert("e", [(i, j) for i in range(rows) for j in range(3)])
            ws.install(rule, name="p", maintenance="probe")
            assert list(ws["p"]) == list(ws.query(rule.replace("p", "q", 1))) == rows_of(rows)
            for edit in ("-a(42). -f[42]. -e(5, 1).", "+a(42). +f[42] = 3. -b(8)."):
                ws.exec(edit)
                found.append(ws.stats("p")["operations"])
                ws.verify("p")
    assert max(found) < 100


@pytest.mark.parametrize("guard", ["x > m", "x != m", "!e(x, m)"])
def test_what_keeps_a_divisor_from_zero_does_so_wherever_it_comes_from(guard, tmp_path):
    with ivm.open(tmp_path / "p.pages", sync="off") as ws:
        ws.install(
            "a(x) -> int(x).  b(x) -> int(x).  m[] = v -> int(v).  e(x, y) -> int(x), int(y).",
            name="facts",
        )
        ws.install(f"p(x, y) <- a(x), m[] = m, {guard}, y = 12 / x, b(y), y > x.", name="p")
        ws.exec("+e(0, 0). +m[] = 0. +a(0). +a(2). +b(6). +b(4).")
        assert list(ws["p"]) == [(2, 6)]
        ws.exec("+a(3).")
        assert list(ws["p"]) == [(2, 6), (3, 4)]
        with pytest.raises(RangeError, match="division by zero"):
            ws.exec("^m[] = -1.")


def test_a_value_beside_as_many_keys_as_there_can_be(tmp_path):
    keys = [f"x{i}" for i in range(64)]
    f, row = f"f[{', '.join(keys)}] = v", f"f[{', '.join(map(str, range(64)))}]"
    with ivm.open(tmp_path / "p.pages", sync="off") as ws:
        types = ", ".join(f"int({name})" for name in (*keys, "v"))
        ws.install(f"{f} -> {types}.  b(v) -> int(v).  g[x] = v -> int(x), int(v).", name="facts")
        with pytest.raises(
            ConstructError, match=r"^p:1:10: the value of f is joined, .* 65 columns, .* 64; derive"
        ):
            ws.install(f"p(x0) <- {f}, b(v).", name="p")
        ws.install(f"p(y) <- {f}, g[y] = v.", name="p")
        ws.exec(f"+{row} = 3. +g[1] = 3. +g[2] = 4.")
        assert list(ws["p"]) == [(1,)]
        ws.exec(f"^{row} = 4.")
        assert list(ws["p"]) == [(2,)]


@pytest.mark.parametrize(
    ("literal", "held"), [("b[] = _", True), ("b[] = y", True), ("!b[] = _", False)]
)
@pytest.mark.parametrize("maintenance", ["match", "probe"])
def test_a_value_without_keys_that_nobody_reads(literal, held, maintenance, tmp_path):
    """What is asked is whether there is one."""
    with ivm.open(tmp_path / "p.pages", sync="off") as ws:
        ws.install("a(x) -> int(x). b[] = v -> int(v). +a(1).")
        ws.install(f"p(x) <- a(x), {literal}.", name="p", maintenance=maintenance)
        for edit, there in [("+b[] = 5.", True), ("^b[] = 6.", True), ("-b[] = 6.", False)]:
            ws.exec(edit)
            assert list(ws["p"]) == [(1,)] * (there == held), edit
            ws.verify("p")


def test_what_is_too_wide_to_match_is_refused_with_its_place(tmp_path):
    """A sensitivity interval is a key of the store: of a chain, its two ends and all variables
    before them.
    """
    body = ", ".join(f"e(v{i}, v{i + 1})" for i in range(66))
    with ivm.open(tmp_path / "p.pages", sync="off") as ws:
        ws.install("e(x, y) -> int(x), int(y). +e(1, 1).", name="facts")
        with pytest.raises(
            ConstructError, match=r'^wide:1:1: .* at most 64; .* maintenance="probe"'
        ):
            ws.install(f"p(v0) <- {body}.", name="wide", maintenance="match")
        ws.install(f"p(v0) <- {body}.", name="wide")
        assert list(ws["p"]) == [(1,)]


def test_bounds_are_explained_in_the_words_of_rules(tmp_path):
    with ivm.open(tmp_path / "p.pages", sync="off") as ws:
        ws.install(
            """
            day(d, n) -> date(d), int(n).
            name(s, d, p) -> string(s), date(d), decimal(9,2)(p).
            v(n) <- day(d, n), name("é", e, p), e > d - 3, d < #2013-02-01#, d >= #0001-01-01#, n != 3, p < 4.50, p > 1.
            w(p) <- name(_, d, p), name(_, d, q), p + q = 2.50, d < #0001-01-01#.
        """,
            maintenance="match",
        )
        lines = [line.split(maxsplit=1) for name in "vw" for line in ws.explain(name).splitlines()]
        assert sorted(text for kind, text in lines if kind == "bound") == sorted(
            [
                '$1 = "é"',
                "d <= #2013-01-31#",
                "d >= #0001-01-01#",
                "n != 3",
                "d <= e + 2",
                "p <= 4.49",
                "p >= 1.01",
                "p = - q + 2.50",
                "d <= day -719163 from 1970-01-01",
            ]
        )


@pytest.mark.parametrize("op", ["min(v)", "sum(v)", "avg(v)", "median(v)", "count_distinct(v)"])
def test_an_aggregate_that_takes_values_reads_a_relation_as_it_stands(op):
    """It needs each binding, so an order in which the join could count them is worth no permuted
    index.
    """
    with ivm.open(":memory:") as ws:
        ws.install("r[a] = (g, v) -> int(a), int(g), int(v).", "base")
        with ws.transaction() as txn:
            txn.set("r", [(a, a % 3, a * 7919 % 10007) for a in range(5000)])
        ws.install(f"m[g] = x <- agg<<x = {op}>> r[_] = (g, v).")
        assert "permuted" not in ws.explain("m")


@pytest.mark.parametrize(
    ("body", "most"), [([*STAR, "s(k, w)", "t(k, u)", "u(k, o)"], 6_000), (CHAIN[:10], 7_000)]
)
def test_a_star_or_a_chain_of_ten_atoms_is_planned_in_a_few_milliseconds(body, most):
    """Python calls, of which a thousand take about 0.3 ms: for the plan, and a probe from each
    atom.
    """
    plan_of(body, even)
    text = f"{declared(body)}p({', '.join(variables_of(body))}) <- {', '.join(body)}."
    program = len(functions_called(lambda: compile(text)))
    plan = []
    calls = len(functions_called(lambda: plan.append(plan_of(body, even)))) - program
    assert isinstance(plan[0].way, Columns) and len(plan[0].probes) == 10
    assert calls < most


def test_few_orders_of_a_cycle_of_ten_are_tried(monkeypatch):
    """A beam extends each prefix by what an atom ties to it; from the rows of an atom it looks
    for no products.
    """
    longer, tried = JoinOrders._longer, []

    def counted(*given):
        for one in longer(*given):
            tried.append(one)
            yield one

    monkeypatch.setattr(JoinOrders, "_longer", counted)
    body = [f"r{i}(v{i}, v{(i + 1) % 10})" for i in range(10)]
    plan = plan_of(body, even)
    assert len(plan.probes) == 10
    assert len(tried) < 900 + 10 * 200


def test_orders_of_many_atoms_are_found_in_calls_of_the_square_of_these():
    """As a view of SQL with many aggregates has them, which reads each by the columns of its
    groups.
    """

    def calls(atoms):
        body = [f"r{i}(k, v{i})" for i in range(atoms)]
        called = functions_called(lambda: plan_of(body, even))
        return sum(code.co_filename == join_order.__file__ for code in called)

    assert calls(20) < 4 * calls(10)


@pytest.mark.parametrize("atoms", [2, 12, 40])
def test_atoms_of_the_same_variables_share_a_layout(atoms, monkeypatch):
    """As the aggregates of one SELECT have them, each a function of the groups' columns."""
    laid, plan = [], Conjunction.plan
    monkeypatch.setattr(
        Conjunction, "plan", lambda self, *given: laid.append(given) or plan(self, *given)
    )
    declared = "".join(f"f{i}[x, y] = v -> int(x), int(y), int(v). " for i in range(atoms))
    body = ", ".join(f"f{i}[x, y] = v{i}" for i in range(atoms))
    program = compile(f"{declared} p(x, y, v0, v{atoms - 1}) <- {body}.")
    stored = {name: len(predicate.keys) for name, predicate in program.predicates.items()}
    stored["p"] = 4
    rule = program.rules[0]
    (made,) = make_plans(rule, program.predicates, stored, even, lambda const: const.value)
    assert isinstance(made.way, Columns) and len(made.probes) == atoms
    assert len(laid) <= 2


def test_atoms_in_key_order_are_probed_without_another_index(tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install(
            "a(x, y) -> int(x), int(y). b(x) -> int(x). v(x, y) <- a(x, y), !b(x).", name="p"
        )
        assert "probed: all tries follow the key order" in ws.explain("v")
        assert [name for name in ws.store.stat().relations if "@" in name or "sens" in name] == []
        with ws.transaction() as txn:
            txn.insert("a", [(1, 2), (1, 3), (2, 4)])
        with ws.transaction() as txn:
            txn.insert("b", [(1,)])
        assert list(ws["v"]) == [(2, 4)]
        with ws.transaction() as txn:
            txn.delete("b", [(1,)])
            txn.delete("a", [(1, 2)])
        assert list(ws["v"]) == [(1, 3), (2, 4)]
        ws.verify("v")
