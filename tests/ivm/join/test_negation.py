"""Bindings that negated atoms reject, over trees of many pages, beside sets of Python.

Keys are looked up in ascending order where a negated atom's last column is the last variable, and
in any order else.
"""

from itertools import product

import numpy as np
import pytest

import ivm

DECLARED = "a(x) -> int(x). b(x) -> int(x). e(x, y) -> int(x), int(y). t(x, y, z) -> int(x), int(y), int(z)."
RULES = {  # rules for v, and whether they hold for x and y of the product of a and b
    "v(x, y) <- a(x), b(y), !e(x, y).": lambda x, y, e, t: (x, y) not in e,
    "v(x, y) <- a(x), b(y), !e(y, x).": lambda x, y, e, t: (y, x) not in e,
    "v(x, y) <- a(x), b(y), !b(x), !a(y).": None,
    "v(x, y) <- a(x), b(y), !e(x, y), !e(y, x).": lambda x, y, e, t: not {(x, y), (y, x)} & e,
    "v(x, y) <- a(x), b(y), !t(x, x, y).": lambda x, y, e, t: (x, x, y) not in t,
    "v(x, y) <- a(x), b(y), !t(x, y, 7).": lambda x, y, e, t: (x, y, 7) not in t,
    "v(x, y) <- a(x), b(y), !t(7, x, y), !e(x, 7).": lambda x, y, e, t: (
        (7, x, y) not in t and (x, 7) not in e
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_negated_atoms_reject_what_they_hold(rule, share, tmp_path):
    drawn = np.random.default_rng(int(100 * share))
    # so that a page holds few hundred rows
    values = [*range(10), *drawn.integers(1 << 20, 1 << 46, 50).tolist()]
    a, b = ({*drawn.choice(values, 45, replace=False).tolist()} for _ in range(2))
    pairs = {pair for pair in product(values, repeat=2) if drawn.random() < share}
    triples = (
        {(x, x, y) for x, y in pairs}
        | {(x, y, 7) for x, y in pairs}
        | {(7, y, x) for x, y in pairs}
    )
    triples = {row for row in triples if drawn.random() < 0.9}
    with ivm.open(tmp_path / "n.pages", page_size=4096, sync="off") as ws:
        ws.install(DECLARED, name="base")
        with ws.transaction() as txn:
            txn.insert("a", [(x,) for x in a])
            txn.insert("b", [(x,) for x in b])
            txn.insert("e", sorted(pairs))
            txn.insert("t", sorted(triples))
        for maintenance in ("probe", "match"):
            ws.install(rule, name=maintenance, maintenance=maintenance)
            holds = RULES[rule] or (lambda x, y, e, t: x not in b and y not in a)
            assert [*ws["v"]] == sorted(
                (x, y) for x, y in product(a, b) if holds(x, y, pairs, triples)
            )
            ws.uninstall(maintenance)
