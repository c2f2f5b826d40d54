"""Reading backward gives what reading forward does, the other way round, between any two bounds."""

import random

import numpy as np
import pytest

import pagestore
from pagestore.pages.layout import WORD_MAX, WORD_MIN
from pagestore.trees.read import read_backward


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_against_sorted_lists(seed: int, keys: int) -> None:
    """Over trees of one to three levels that many deletions have made uneven."""
    chance = random.Random(seed * 10 + keys)
    columns = ", ".join(f"c{i}: int64" for i in range(keys + 1))
    n = chance.choice([0, 1, 30, 3000, 120_000])
    with pagestore.open(":memory:", page_size=4096) as store, store.transaction() as txn:
        relation = txn.create("r", columns, key=[f"c{i}" for i in range(keys)])
        most = 2**62 if keys == 1 else 60  # wide words, so that there are three levels
        random_rows = np.random.default_rng(seed).integers(0, most, (keys + 1, n))
        random_rows[0, : n // 50] = chance.choice([WORD_MIN, WORD_MAX])
        relation.set(list(random_rows))
        stored = list(relation)
        gone = sorted(chance.sample(range(len(stored)), len(stored) // 2)) if stored else []
        relation.delete([stored[i][:keys] for i in gone])
        relation.delete([row[:keys] for row in stored[: len(stored) // 5]])
        left = list(relation)
        bounds = [
            (),
            (),
            *(chance.choice(left)[: chance.randint(1, keys)] for _ in range(12) if left),
        ]
        bounds += [(chance.randrange(-5, 10**6),) for _ in range(4)] + [
            (WORD_MAX,) * keys,
            (WORD_MIN,),
        ]
        for _ in range(25):
            lo, hi = chance.choice(bounds), chance.choice(bounds)
            expected = [row for row in left if row[:keys] >= lo and (not hi or row[:keys] < hi)][
                ::-1
            ]
            batches = list(read_backward(*relation.view(), lo, hi))
            assert [tuple(row) for batch in batches for row in batch.T.tolist()] == expected, (
                lo,
                hi,
            )
        assert list(reversed(relation)) == left[::-1]


def test_three_levels_down() -> None:
    """A leaf's neighbour may be the last one below another entry of the root."""
    with pagestore.open(":memory:", page_size=4096) as store, store.transaction() as txn:
        relation = txn.create("r", "x: int64, y: int64", key="x")
        relation.insert(
            [np.arange(150_000) << 44, np.random.default_rng(1).integers(0, 2**62, 150_000)]
        )
        assert relation.tree.height >= 3
        assert [x >> 44 for x, _ in reversed(relation)] == [*range(150_000)][::-1]
        # a leaf at once, no subtree
        assert max(batch.shape[1] for batch in read_backward(*relation.view())) < 1000


def test_pages_that_are_touched(monkeypatch) -> None:
    """The last rows of a large relation cost a few pages, whatever its size."""
    with pagestore.open(":memory:", page_size=4096) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([np.arange(500_000)])
        relation = store.snapshot()["r"]
        pages, tree = relation.view()
        seen = pages.seen.copy()
        seen[:] = 0
        batch = next(read_backward(pages._replace(seen=seen), tree))
        assert batch[0, 0] == 499_999 and np.count_nonzero(seen) <= tree.height
