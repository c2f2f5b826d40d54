"""Trees that are built in segments: the same records and folds as a tree built at once, and where
one segment is all, the same bytes.
"""

from pathlib import Path
from random import Random

import numpy as np
import pytest

import pagestore
from pagestore.errors import CorruptionError, OrderError, SchemaError
from pagestore.trees.build import Segment, build_segment
from pagestore.trees.read import pages_of

SCANS = ["count", "sum:v", "max:v"]


def records(seed: int, n: int) -> np.ndarray:
    """int64[3, n] that ascend strictly by the first two columns."""
    random = np.random.default_rng(seed)
    x = np.sort(random.integers(0, 1 + n // 3, n))
    return np.stack([x, np.arange(n), random.integers(-(10**9), 10**9, n)])


def segments(
    txn, folder: Path, words: np.ndarray, cuts: list[int], first: int = 50
) -> list[Segment]:
    spec = txn.tree("r").spec
    parts = np.split(words, cuts, axis=1)
    return [
        build_segment(
            folder / f"{i}.seg",
            spec,
            txn.version,
            first,
            txn.pages.page_words,
            np.array_split(part, 3, axis=1),
        )
        for i, part in enumerate(parts)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_random_cuts_make_the_tree_of_all_records(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    n = rng.choice([0, 1, 5, 300, 40_000])
    cuts = sorted(rng.randint(0, n) for _ in range(rng.randint(0, 6)))
    words = records(seed, n)
    with pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off") as store:
        for _ in range(rng.randint(0, 2)):  # so that free pages lie about
            with store.transaction() as txn:
                txn.create(f"old{store.version}", "x: int64").insert(
                    [(i,) for i in range(rng.randint(1, 5000))]
                )
        with store.transaction() as txn:
            txn.create("r", "x: int64, y: int64, v: int64", ("x", "y"), SCANS)
            assert txn.stitch("r", segments(txn, tmp_path, words, cuts)) == n
            assert [*txn["r"]] == [*zip(*words.tolist(), strict=True)]
        assert store.check() == []
        relation = store.snapshot()["r"]
        for _ in range(5):
            low, high = sorted((rng.randint(0, n), rng.randint(0, n)))
            inside = words[2, (words[0] >= low) & (words[0] < high)]
            found = [relation.range((low,), (high,)).scan(scan) for scan in SCANS]
            assert found == [len(inside), inside.sum(), inside.max() if len(inside) else None]
        edits = [(rng.randint(0, n), rng.randint(0, n), 7) for _ in range(200)]
        truth = {(x, y): v for x, y, v in zip(*words.tolist(), strict=True)} | {
            (x, y): v for x, y, v in edits
        }
        with store.transaction() as txn:
            txn["r"].set(edits)
        assert [*store.snapshot()["r"]] == [(*key, truth[key]) for key in sorted(truth)]
        assert store.check() == []


@pytest.mark.parametrize("n", [1, 700, 200_000])
def test_one_segment_has_the_bytes_of_a_load(tmp_path: Path, n: int) -> None:
    words = records(1, n)
    contents = []
    for way in ("bulk", "stitch"):
        with (
            pagestore.open(tmp_path / f"{way}.pages", sync="off") as store,
            store.transaction() as txn,
        ):
            relation = txn.create("r", "x: int64, y: int64, v: int64", ("x", "y"), SCANS)
            if way == "bulk":
                txn.bulk(relation.info, [words])
            else:
                txn.stitch("r", segments(txn, tmp_path, words, [], txn.pager.next_run()))
            tree = txn.tree("r")
            ids = np.sort(pages_of(txn.pages, tree))
            contents.append(
                (tree, ids, txn.pages.words.reshape(-1, txn.pages.page_words)[ids].copy())
            )
    (tree, ids, pages), (other_tree, other_ids, other_pages) = contents
    assert (
        tree == other_tree and np.array_equal(ids, other_ids) and np.array_equal(pages, other_pages)
    )


def test_segments_that_overlap_are_refused(tmp_path: Path) -> None:
    words = records(2, 100)
    with pagestore.open(tmp_path / "s.pages") as store:
        with (
            pytest.raises(OrderError, match="a segment begins with the key"),
            store.transaction() as txn,
        ):
            txn.create("r", "x: int64, y: int64, v: int64", ("x", "y"))
            one, other = segments(txn, tmp_path, words, [50])
            txn.stitch("r", [other, one])
        assert store.version == 0 and store.check() == []


@pytest.mark.parametrize("spoil", ["cut", "flip", "swap"])
def test_a_segment_that_is_not_what_was_built_is_refused(tmp_path: Path, spoil: str) -> None:
    with pagestore.open(tmp_path / "s.pages") as store:
        with pytest.raises(CorruptionError, match="load again"), store.transaction() as txn:
            txn.create("r", "x: int64, y: int64, v: int64", ("x", "y"))
            (one,) = segments(txn, tmp_path, records(3, 30_000), [])
            content = bytearray(Path(one.file).read_bytes())
            if spoil == "cut":
                del content[-1]
            elif spoil == "flip":
                content[-5000] ^= 4
            else:
                content[:8192], content[8192:16384] = content[8192:16384], content[:8192]
            Path(one.file).write_bytes(content)
            txn.stitch("r", [one])
        assert store.version == 0 and store.check() == []


def test_a_relation_that_has_records_is_refused(tmp_path: Path) -> None:
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        txn.create("r", "x: int64, y: int64, v: int64", ("x", "y")).insert([(1, 2, 3)])
        with pytest.raises(SchemaError, match="'r' has 1 records; segments fill empty relations"):
            txn.stitch("r", [])
