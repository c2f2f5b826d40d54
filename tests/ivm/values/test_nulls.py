"""Values that are null are not there: views over functions with nulls, edit by edit, against
sets and loops.
"""

import random
from datetime import timedelta

import pytest

import ivm
import pagestore
from ivm.errors import ConstructError, EditError, RuleTypeError

RULES = """
id(x) -> int(x).
email[x] = s -> int(x), string?(s).
age[x] = a -> int(x), int?(a).
rate[x] = r -> int(x), decimal(5, 2)?(r).
both(x, s, a) <- email[x] = s, age[x] = a.
has(x) <- email[x] = _.
lacks(x) <- id(x), !email[x] = _.
same(x, y) <- age[x] = a, age[y] = a.
alone(x) <- id(x), !(age[x] = a, age[y] = a, y != x).
three(x) <- age[x] = 3.
not3(x) <- id(x), !age[x] = 3.
either(x) <- email[x] = "a" ; age[x] = a, a > 2.
older[x] = b <- age[x] = a, b = a + 1.
n[] = c <- agg<<c = count()>> age[x] = _.
t[] = c <- agg<<c = sum(a)>> age[x] = a.
by[a] = c <- agg<<c = count()>> age[x] = a.
least[] = c <- agg<<c = min(s)>> email[x] = s.
"""
IDS = range(12)


def expected(emails: dict, ages: dict) -> dict[str, set]:
    e = {x: v for x, v in emails.items() if v is not None}
    a = {x: v for x, v in ages.items() if v is not None}
    return {
        "both": {(x, e[x], a[x]) for x in e if x in a},
        "has": {(x,) for x in e},
        "lacks": {(x,) for x in IDS if x not in e},
        "same": {(x, y) for x in a for y in a if a[x] == a[y]},
        "alone": {(x,) for x in IDS if not (x in a and any(y != x and a[y] == a[x] for y in a))},
        "three": {(x,) for x in a if a[x] == 3},
        "not3": {(x,) for x in IDS if a.get(x) != 3},
        "either": {(x,) for x in IDS if e.get(x) == "a" or a.get(x, 0) > 2},
        "older": {(x, v + 1) for x, v in a.items()},
        "n": {(len(a),)} if a else set(),
        "t": {(sum(a.values()),)} if a else set(),
        "by": {(v, sum(w == v for w in a.values())) for v in a.values()},
        "least": {(min(e.values()),)} if e else set(),
    }


@pytest.mark.parametrize("maintenance", ["match", "probe", "auto"])
def test_views_follow_random_edits(tmp_path, maintenance):
    rng = random.Random(maintenance)
    emails: dict = {}
    ages: dict = {}
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.install(RULES, maintenance=maintenance)
        with workspace.transaction() as txn:
            txn.insert("id", [(x,) for x in IDS])
        for step in range(30):
            with workspace.transaction() as txn:
                for _ in range(rng.choice([1, 4, 20])):
                    for name, values, choice in (
                        ("email", emails, "abc"),
                        ("age", ages, (1, 2, 3)),
                    ):
                        x = rng.randrange(len(IDS))
                        if rng.random() < 0.2:
                            txn.delete(name, [(x,)])
                            values.pop(x, None)
                        else:
                            values[x] = rng.choice([None, *choice])
                            txn.set(name, [(x, values[x])])
            for view, rows in expected(emails, ages).items():
                assert {*workspace[view]} == rows, (step, view)
            assert dict(workspace["email"]) == emails
        for view in expected(emails, ages):
            workspace.verify(view)
        assert workspace.check() == [] and workspace.store.check() == []
        assert str(workspace.predicates["email"]) == "email[x] = s -> int64(x), string?(s)."


def test_relations_with_nulls_that_were_there_before(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.create("email", "x: int64, s: string?", key="x").insert([(1, "a"), (2, None), (3, "b")])
    with ivm.open(tmp_path / "s.pages") as workspace:
        with pytest.raises(
            EditError, match=r"does not fit its declaration with int64, string; change"
        ):
            workspace.install("email[x] = s -> int(x), string(s).")
        workspace.install("email[x] = s -> int(x), string?(s). has(x) <- email[x] = _.")
        assert list(workspace["has"]) == [(1,), (3,)]
        assert list(workspace.query('q(x) <- email[x] = s, s != "a".')) == [(3,)]
        workspace.exec("-email[1].")
        assert list(workspace["has"]) == [(3,)]
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.exec('+email[4] = "c".')
        assert list(workspace["has"]) == [(3,), (4,)]


@pytest.mark.parametrize(
    "text", ["p(x) -> int?(x).", "f[x] = y -> int?(x), int(y).", "p(x, y) -> int(x), int?(y)."]
)
def test_a_key_is_never_null(text, tmp_path):
    with (
        ivm.open(tmp_path / "s.pages") as workspace,
        pytest.raises(
            (RuleTypeError, ConstructError),
            match="a key, .* a key is never null: only a function's value",
        ),
    ):
        workspace.install(text)


CUSTOMER_RULES = """
known(c, n) <- customer(c, n, _, _).
mailed(c, e) <- customer(c, _, e, _).
mailed_too(c) <- customer(c, _, e, _).
aged(c, d) <- customer(c, _, _, a), customer(d, _, _, a).
unmailed(c) <- customer(c, _, _, _), !customer(c, _, "a", _).
mailed_column(c, e) <- customer:email[c] = e.
unmailed_column(c) <- customer(c, _, _, _), !customer:email[c] = _.
with_age(c) <- customer:age[c] = _.
by_values(c, n) <- customer[c] = (n, _, 1).
summed(c, b) <- customer:age[c] = a, b = a + customer:age[c].
ages[] = n <- agg<<n = count()>> customer:age[_] = _.
strange(c) <- customer(c, _, _, a), !(customer(d, _, e, a), d != c).
"""


@pytest.mark.parametrize("maintenance", ["match", "probe"])
def test_relations_of_several_columns(tmp_path, maintenance):
    """An atom asks for the values that it names."""
    rng = random.Random(maintenance)
    rows: dict = {}
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.create("customer", "c: int64, name: string, email: string?, age: int64?", key="c")
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.install(CUSTOMER_RULES, maintenance=maintenance)
        for step in range(25):
            with workspace.store.transaction() as txn:
                for _ in range(rng.choice([1, 6])):
                    c = rng.randrange(10)
                    if rng.random() < 0.2:
                        txn["customer"].delete([(c,)])
                        rows.pop(c, None)
                    else:
                        rows[c] = (
                            rng.choice("xy"),
                            rng.choice([None, "a", "b"]),
                            rng.choice([None, 1, 2]),
                        )
                        txn["customer"].set([(c, *rows[c])])
            mail = {c: e for c, (_, e, _) in rows.items() if e is not None}
            age = {c: a for c, (_, _, a) in rows.items() if a is not None}
            wanted = {
                "known": {(c, row[0]) for c, row in rows.items()},
                "mailed": {*mail.items()},
                "mailed_too": {(c,) for c in mail},
                "mailed_column": {*mail.items()},
                "unmailed_column": {(c,) for c in rows if c not in mail},
                "with_age": {(c,) for c in age},
                "by_values": {(c, rows[c][0]) for c in age if age[c] == 1},
                "summed": {(c, 2 * a) for c, a in age.items()},
                "ages": {(len(age),)} if age else set(),
                "aged": {(c, d) for c in age for d in age if age[c] == age[d]},
                "unmailed": {(c,) for c in rows if mail.get(c) != "a"},
                "strange": {
                    (c,)
                    for c in age
                    if not any(d in mail and d != c and age[d] == age[c] for d in age)
                },
            }
            for view, found in wanted.items():
                assert {*workspace[view]} == found, (step, view)
        assert workspace.check() == []


LEAST = -(2**63)
DAYS = (
    "id(x) -> int(x). n[x] = v -> int(x), int?(v). d[x] = v -> int(x), duration?(v). w[x] = v "
    "-> int(x), duration(v)."
)


@pytest.mark.parametrize("function", ["n", "d"])
@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("{f}[x] = {least}", []),
        ("id(x), {f}[x] = {least}", []),
        ("{f}[x] = v, v = {least}", []),
        ("{f}[x] = v, v <= {least}", []),
        ("{f}s(x, {least}, _)", []),
        ("{f}s:v[x] = {least}", []),
        ("{f}:v[x] = {least}", []),
        ("id(x), !{f}[x] = {least}", [(1,), (2,)]),
        ("id(x), !({f}[x] = v, v = {least})", [(1,), (2,)]),
        ("id(x), !{f}s(x, {least}, _)", [(1,), (2,)]),
        ("id(x), ({f}[x] = {least} ; {f}[x] = 5)", [(2,)]),
    ],
)
def test_the_least_number_is_no_null(function, body, rows, tmp_path):
    """It is stored as nulls are, so nothing that reads a column which may be null has it: in
    views and in queries.
    """
    rule = f"p(x) <- {body.format(f=function, least=LEAST)}."
    with ivm.open(tmp_path / "s.pages", sync="off") as workspace:
        with workspace.store.transaction() as txn:
            for name, type_ in (("ns", "int64?"), ("ds", "duration?")):
                txn.create(name, f"x: int64, v: {type_}, o: int64", key="x")
        workspace.install(DAYS)
        workspace.install(rule, "p")
        values = (None, timedelta(microseconds=5)) if function == "d" else (None, 5)
        with workspace.transaction() as txn:
            txn.insert("id", [(1,), (2,)])
            txn.set(function, [*zip((1, 2), values, strict=True)])
            txn.set(f"{function}s", [*zip((1, 2), values, (7, 7), strict=True)])
        assert list(workspace["p"]) == list(workspace.query(rule.replace("p(", "q("))) == rows
        assert workspace.check() == []


@pytest.mark.parametrize("edit", ["+n[1] = {}.", "^n[1] = {}.", "-n[1] = {}.", "+d[1] = {}."])
def test_an_edit_writes_no_number_that_stands_for_null(edit, tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off") as workspace:
        workspace.install(DAYS)
        with pytest.raises(
            RuleTypeError, match=r"^exec:1:9: -9223372036854775808 stands for a null in a column of"
        ):
            workspace.exec(edit.format(LEAST))


def test_a_duration_has_its_least_value(tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off") as workspace:
        workspace.install(f"{DAYS} p(x) <- w[x] = {LEAST}. q(x) <- w[x] = v, v <= {LEAST + 1}.")
        workspace.exec(f"+w[1] = {LEAST}. +w[2] = {LEAST + 1}. +w[3] = {2**63 - 1}.")
        assert (list(workspace["p"]), list(workspace["q"])) == ([(1,)], [(1,), (2,)])
        workspace.exec(f"-w[1] = {LEAST}.")
        assert (list(workspace["p"]), workspace.check()) == ([], [])
        for beyond in (LEAST - 1, 2**63):
            with pytest.raises(
                RuleTypeError, match=r"^exec:1:9: .* microseconds are more than a duration holds"
            ):
                workspace.exec(f"+w[4] = {beyond}.")


def test_the_value_of_a_function_without_keys_is_not_null(tmp_path):
    with (
        ivm.open(tmp_path / "s.pages") as workspace,
        pytest.raises(RuleTypeError, match=r"^main:1:1: .* `-p\[\]\.`"),
    ):
        workspace.install("p[] = w -> int?(w).")
