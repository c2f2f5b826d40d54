"""Relations of more columns than a key can have: joined on columns of any kind, edit by edit,
against loops.
"""

import random

import pytest

import ivm
import pagestore

WIDTH = 40
COLUMNS = [f"c{i}" for i in range(WIDTH)]


def wide(**used: str) -> str:
    """An atom of the wide relation that names the columns given."""
    return f"wide({', '.join(used.get(column, '_') for column in COLUMNS)})"


RULES = f"""
some(x) -> int(x).
pair(x, y) <- {wide(c0="x", c30="y")}.
value(y) <- {wide(c30="y")}.
columns(x, y) <- wide:c30[x] = y, wide:c31[x] = y.
joined(x, y) <- {wide(c0="x", c30="y")}, some(y).
equal(x, y) <- {wide(c0="x", c20="y", c39="y")}.
constant(x, z) <- {wide(c0="x", c38="3", c1="z")}.
text(x) <- {wide(c0="x", c10='"b"')}.
lacking(x) <- some(x), !{wide(c30="x")}.
both(x, y) <- {wide(c0="x", c5="a")}, {wide(c0="y", c35="a", c36="3")}.
total[y] = t <- agg<<t = sum(z)>> {wide(c30="y", c31="z")}.
"""


def expected(rows: dict, some: set) -> dict[str, set]:
    r = rows.values()
    return {
        "pair": {(w[0], w[30]) for w in r},
        "value": {(w[30],) for w in r},
        "columns": {(w[0], w[30]) for w in r if w[30] == w[31]},
        "joined": {(w[0], w[30]) for w in r if w[30] in some},
        "equal": {(w[0], w[20]) for w in r if w[20] == w[39]},
        "constant": {(w[0], w[1]) for w in r if w[38] == 3},
        "text": {(w[0],) for w in r if w[10] == "b"},
        "lacking": {(x,) for x in some if all(w[30] != x for w in r)},
        "both": {(v[0], w[0]) for v in r for w in r if v[5] == w[35] and w[36] == 3},
        "total": {(y, sum(w[31] for w in r if w[30] == y)) for y in {w[30] for w in r}},
    }


@pytest.mark.parametrize("maintenance", ["match", "probe", "auto"])
def test_views_follow_random_edits(tmp_path, maintenance):
    rng = random.Random(maintenance)

    def row(key: int) -> tuple:
        return tuple(
            key if i == 0 else rng.choice("abc") if i == 10 else rng.randrange(5)
            for i in range(WIDTH)
        )

    rows = {key: row(key) for key in range(30)}
    some: set = set()
    types = ", ".join(f"{column}: {'string' if column == 'c10' else 'int64'}" for column in COLUMNS)
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        txn.create("wide", types, key="c0").insert(list(rows.values()))
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.install(RULES, maintenance=maintenance)
        for step in range(20):
            with workspace.store.transaction() as txn:
                for key in rng.sample(range(40), rng.choice([1, 5, 20])):
                    if rng.random() < 0.3:
                        txn["wide"].delete([(key,)])
                        rows.pop(key, None)
                    elif key in rows and rng.random() < 0.5:  # one column changes
                        changed = [*rows[key]]
                        changed[rng.choice([1, 2, 5, 30, 35, 38, 39])] = rng.randrange(5)
                        rows[key] = tuple(changed)
                        txn["wide"].set([rows[key]])
                    else:
                        rows[key] = row(key)
                        txn["wide"].set([rows[key]])
            with workspace.transaction() as txn:
                x = rng.randrange(5)
                some ^= {x}
                (txn.insert if x in some else txn.delete)("some", [(x,)])
            for view, found in expected(rows, some).items():
                assert {*workspace[view]} == found, (step, view)
        for view in expected(rows, some):
            workspace.verify(view)
        assert workspace.check() == [] and workspace.store.check() == []
        assert "scan      of wide" in workspace.explain("value")
