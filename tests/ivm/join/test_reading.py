"""A rule with one atom reads its relation: nothing is joined, and the rows are those of the
join.
"""

import numpy as np
import pytest

import ivm
from ivm.join import evaluate as module
from ivm.ways import scan

RULES = {
    "v(x, y, z) <- t(x, y, z).": lambda rows: rows,
    "v(x, y) <- t(x, y, _).": lambda rows: np.unique(rows[:, :2], axis=0),
    "v(z) <- t(_, 4, z), z < 100.": lambda rows: np.unique(rows[(rows[:, 1] == 4) & (rows[:,
    2] < 100), 2:], axis=0),
    "v(y) <- t(2, y, z), z >= 39000.": lambda rows: np.unique(rows[(rows[:, 0] == 2) & (rows[:,
    2] >= 39_000), 1:2]),
    "v(x) <- t(x, _, _).": lambda rows: np.unique(rows[:, :1], axis=0),
    "v[x] = n <- agg<<n = count()>> t(x, y, _), r(x, y).": None,  # two atoms are joined
    "v[y] = n <- agg<<n = count()>> t(_, y, _).": lambda rows: counted(rows[:, 1]),
    "v[x] = n <- agg<<n = max(z)>> t(x, _, z).": lambda rows: greatest(rows[:, 0], rows[:, 2]),
    "v(x, w) <- f[x] = w.": lambda rows: np.stack([np.arange(9), np.arange(9) ** 2], axis=1),
}  # fmt: skip


def counted(column: np.ndarray) -> np.ndarray:
    return np.stack(np.unique(column, return_counts=True), axis=1)


def greatest(groups: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.array([[x, values[groups == x].max()] for x in range(3)])


@pytest.mark.parametrize("rule", RULES)
def test_reading_finds_what_a_join_finds(rule, tmp_path, monkeypatch):
    drawn = np.random.default_rng(2)
    rows = np.unique(
        np.stack([drawn.integers(0, n, 200_000) for n in (3, 20, 40_000)], axis=1), axis=0
    )
    with ivm.open(tmp_path / "s.pages", sync="off", threads=1) as ws:
        ws.install(
            "t(x, y, z) -> int(x), int(y), int(z).  r(x, y) -> int(x), int(y).  f[x] = w -> "
            "int(x), int(w)."
        )
        with ws.transaction() as txn:
            txn.insert("t", [*rows.T])
            txn.insert("r", [*np.unique(rows[:, :2], axis=0).T])
            txn.set("f", [(x, x * x) for x in range(9)])
        reads = list[int]()
        # the latter where each row is a binding
        for place, name in ((module, "_read"), (scan, "scan")):
            read = getattr(place, name)
            monkeypatch.setattr(
                place, name, lambda *args, read=read: reads.append(1) or read(*args)
            )
        ws.install(rule, "rule")
        assert len(reads) == (RULES[rule] is not None)
        found = [list(row) for row in ws["v"]]
        monkeypatch.setattr(module, "_is_reading", lambda shape: False)
        ws.verify("v")  # by a join
        if RULES[rule]:
            assert found == RULES[rule](rows).reshape(len(found), -1).tolist()
