"""What each column takes: the widths in the headers of all leaves, which are read byte by byte."""

import random
import struct
from collections import Counter

import pytest

import pagestore


def widths_in(path, tree: int) -> Counter[int]:
    """The bits of each column in the leaves of a tree, as docs/format.md lays pages out.

    The file has no page but those that one transaction wrote.
    """
    data, found = path.read_bytes(), Counter[int]()
    for start in range(2 * 8192, len(data), 8192):
        kind, level, columns, own, count = struct.unpack_from("<BBBxIQ", data, start + 24)
        if kind & 15 == 1 and not level and own == tree:
            for column in range(columns):
                found[column] += data[start + 64 + 16 * column + 8] * count
    return found


@pytest.mark.parametrize("rows", [0, 1, 5_000])
def test_the_bits_of_columns_are_those_of_all_leaves(rows, tmp_path):
    rng, path = random.Random(rows), tmp_path / "s.pages"
    listed = [
        (n * 3, rng.choice(["ada", "bo", ""]), rng.randrange(1 << n % 60)) for n in range(rows)
    ]
    with pagestore.open(path) as store:
        with store.transaction() as txn:
            txn.create("t", "k: int64, who: string?, n: int64?", key="k").insert(listed)
        with store.snapshot() as snap:
            tree = snap.tree("t").spec.tree_id
        sizes = store.column_sizes()
    assert [(one.relation, one.column) for one in sizes] == [("t", n) for n in ("k", "who", "n")]
    found = widths_in(path, tree)
    assert rows < 2 or all(found[place] for place in range(3))
    assert [one.bytes for one in sizes] == [found[place] // 8 for place in range(3)]
    assert [round(one.bits * rows) for one in sizes] == [found[place] for place in range(3)]
    assert [one.letters for one in sizes] == [0, len("".join({who for _, who, _ in listed})), 0]
