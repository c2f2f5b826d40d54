"""Joins return now and then, so that a signal is handled; what they find does not depend on when
they do.
"""

from random import Random

import pytest

import ivm
from ivm.join import join

QUERIES = {
    "q(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).": lambda e: {
        (x, y, z) for x, y in e for v, z in e if y == v and (x, z) in e
    },
    "q(x, w) <- edge(x, y), edge(y, z), edge(z, w).": lambda e: {
        (x, w) for x, y in e for v, z in e if y == v for u, w in e if z == u
    },
    "q(x, y) <- edge(x, y), edge(y, z), !edge(z, x), x < z.": lambda e: {
        (x, y) for x, y in e for v, z in e if y == v and (z, x) not in e and x < z
    },
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("maintenance", ["match", "probe"])
def test_joins_that_pause_after_each_operation_find_the_same(
    seed: int, maintenance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join, "STRIDE", 1)
    rng = Random(seed)
    now = {(rng.randint(0, 6), rng.randint(0, 6)) for _ in range(22)}
    with ivm.open(":memory:", threads=1) as ws:
        ws.install("edge(x, y) -> int(x), int(y).", "facts")
        ws.insert("edge", sorted(now))
        for n, (text, truth) in enumerate(QUERIES.items()):
            assert {*ws.query(text)} == truth(now), text
            ws.install(text.replace("q(", f"v{n}("), f"v{n}", maintenance=maintenance)
        for _ in range(4):
            for n, (text, truth) in enumerate(QUERIES.items()):
                assert {*ws[f"v{n}"]} == truth(now), text
            gone, new = rng.choice(sorted(now)), (rng.randint(0, 6), rng.randint(0, 6))
            now = now - {gone} | {new}
            with ws.transaction() as txn:
                txn.delete("edge", [gone])
                txn.insert("edge", [new])
        assert ws.check() == []
