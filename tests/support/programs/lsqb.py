"""Relations of the shape of the LSQB benchmark, at a small scale, and some of its questions.

country ─ city ─ person ─ member ─ forum ─ post ─ reply ─ tag ─ class of tags        few to one, seven times
person ─ knows ─ person ─ knows ─ person ─ interest        in both directions, some persons know many others
"""

import numpy as np

DECLARATIONS = """
    knows(x, y) -> int(x), int(y).  interest(x, t) -> int(x), int(t).  member(f, x) -> int(f), int(x).
    tagged(m, t) -> int(m), int(t).  city[x] = c -> int(x), int(c).  country[c] = k -> int(c), int(k).
    post[m] = f -> int(m), int(f).  reply[m] = n -> int(m), int(n).  class[t] = c -> int(t), int(c).
"""


def relations(persons: int, seed: int = 9) -> dict[str, np.ndarray]:
    """The rows int64[n, 2] of each relation; about 30 rows for each person in all, of which 5 to
    10 are of knows.
    """
    drawn, tags, forums, posts = (
        np.random.default_rng(seed),
        max(4, persons // 40),
        persons // 2,
        5 * persons,
    )
    pairs = drawn.zipf(1.7, (10 * persons, 2)) % persons
    pairs = np.concatenate([pairs, pairs[:, ::-1]])

    def distinct(rows: int, *below: int) -> np.ndarray:
        return np.unique(drawn.integers(0, below, (rows, 2)), axis=0)

    def function(rows: int, below: int) -> np.ndarray:
        return np.stack([np.arange(rows), drawn.integers(0, below, rows)], axis=1)

    return {
        "knows": np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0),
        "interest": distinct(3 * persons, persons, tags),
        "member": distinct(2 * persons, forums, persons),
        "tagged": distinct(8 * persons, 2 * posts, tags),
        "city": function(persons, 200),
        "country": function(200, 20),
        "post": function(posts, forums),
        "reply": function(2 * posts, posts),
        "class": function(tags, 10),
    }
