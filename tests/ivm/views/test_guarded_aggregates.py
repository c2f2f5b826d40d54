"""Aggregates of computed values that a rule itself asks not to be null: one rule each, and no group
of nulls only.
"""

from functools import partial

import pytest

import ivm
from ivm.rules import compile as compiling
from ivm.rules.installed import Rewrites

BASE = "r[x] = (g, v) -> int(x), int(g), int?(v). "
BODIES = {
    "r[_] = (g, v?), y = v + 1, is_null[y] = false": 1,
    "r[_] = (g, v?), y = if[g = 1, v, 0], is_null[y] = false": 1,
    "r[_] = (g, v?), y = v + 1": 4,
    "r[_] = (g, v?), y = v + 1, is_null[v] = true": 4,
}
ROWS = [(1, 1, 5), (2, 1, None), (3, 2, None), (4, 3, 7), (5, 3, -2)]
OPS = {"sum": sum, "min": min, "max": max, "avg": lambda found: sum(found) / len(found)}


def truth(body, op, rows):
    """What a view holds: a group of nulls only has a row, of null, unless each body excludes it."""
    groups = {}
    for _, g, v in rows:
        value = 0 if "if[" in body and g != 1 else v if v is None else v + body.count("v + 1")
        if (value is None or "= true" not in body) and (value is not None or "false" not in body):
            groups.setdefault(g, []).append(value)
    kept = {g: [v for v in found if v is not None] for g, found in groups.items()}
    return {(g, OPS[op](found) if found else None) for g, found in kept.items()}


@pytest.mark.parametrize("guarding", [True, False])
def test_a_guarded_aggregate_is_one_rule_and_holds_what_it_held(guarding, tmp_path, monkeypatch):
    """Also if it was installed before, by several rules: then it stays as it is."""
    path = tmp_path / "s.pages"
    with ivm.open(path, sync="off") as ws:
        ws.install(BASE, name="base")
        if not guarding:
            monkeypatch.setattr(compiling, "Rewrites", partial(Rewrites, guarded=False))
        views = {}
        for n, (body, rules) in enumerate(BODIES.items()):
            for op in OPS:
                name = f"{op}{n}"
                views[name] = body, op
                ws.install(f"{name}[g] = s <- agg<<s = {op}(y)>> {body}.", name=name)
                made = next(b for b in ws._rules_now().blocks if b.name == name).rules
                few = len([one for one in made if "(its groups)" in one.definition.text])
                assert few == (rules > 1 or not guarding), (body, op)
        monkeypatch.undo()

    def compare(ws, rows):
        for name, (body, op) in views.items():
            assert {*ws[name]} == truth(body, op, rows), (name, body)

    with ivm.open(path, sync="off") as ws:
        rows = []
        for row in ROWS:
            with ws.transaction() as txn:
                txn.insert("r", [row])
            rows.append(row)
            compare(ws, rows)
        with ws.transaction() as txn:
            txn.delete("r", [ROWS[0], ROWS[3]])
        compare(ws, [ROWS[1], ROWS[2], ROWS[4]])
        assert ws.check() == []
