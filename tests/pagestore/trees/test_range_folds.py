"""Scans of trees of words against slow truth, and their operator applications counted."""

from itertools import pairwise
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagestore.admin.tree_check import read_scan_tree, scan_tree_faults
from pagestore.errors import MissingError
from pagestore.pages.layout import ENTRY_COUNT, TYPE, page_type_fields
from pagestore.pages.operators import (
    CARRY,
    CHECKSUM,
    COUNT,
    MAX,
    MIN,
    SUM,
    THEN,
    code_of,
    fold_of,
    register_operator,
)
from pagestore.pages.page import unpack
from pagestore.trees.build import bulk
from pagestore.trees.edit import apply, compose_edits
from pagestore.trees.folds import Rows, fold_many, ranks, rows_of, select, select_weighted
from pagestore.trees.kernels.node_buffer import ERASE, INSERT, SET
from pagestore.trees.read import pages_of, read_batches
from pagestore.trees.scratch import applications
from pagestore.trees.tree import Spec, Tree
from tests.support.memory import MemoryPager, Recycling
from tests.support.programs.amounts import times

WORDS = st.integers(-(2**63), 2**63 - 1)
# associative, and as far from commutative as can be
register_operator("later", lambda a, b: a * 0 + b, 0)

SCANS = (
    ((COUNT, 0),),
    ((SUM, 1), (CARRY, 1)),
    ((MIN, 1),),
    ((MAX, 1), (THEN, 0)),
    ((CHECKSUM, 2),),
    ((code_of("later"), 1),),
)


def spec_of(*scans):
    return Spec(5, 1, 1, tuple(row for scan_rows in scans for row in scan_rows))


def page_columns(pages, page):
    """(level, columns int64[C, n]) of a page."""
    at = page * pages.page_words
    level, columns = page_type_fields(int(pages.words[at + TYPE]))[1:3]
    n = int(pages.words[at + ENTRY_COUNT])
    out = np.empty((columns, n), np.int64)
    for c in range(columns):
        unpack(pages.words, at, c, 0, n, out[c], 0)
    return level, out


def faults(pager, tree):
    """All that is wrong with the ScanTrees of a tree's pages."""
    found = []
    for page in pages_of(pager.pages, tree).tolist() if tree.root else ():
        level, columns = page_columns(pager.pages, page)
        words = pager.pages.words[page * pager.page_words : (page + 1) * pager.page_words]
        found += scan_tree_faults(words, tree.spec.scans, level, tree.spec.keys, columns)
    return found


def records(pager, tree):
    batches = list(read_batches(pager.pages, tree)) if tree.root else []
    return (
        np.concatenate(batches, axis=1) if batches else np.empty((tree.spec.columns, 0), np.int64)
    )


def agrees(pager, tree, lo, hi):
    """Assert that every scan of every interval is the fold of the records in it."""
    rows = records(pager, tree)
    starts, stops = np.searchsorted(rows[0], lo), np.searchsorted(rows[0], hi)
    for one in SCANS:
        place = rows_of(tree.spec, one)
        if place is None:
            continue
        got = fold_many(pager.pages, tree, place, lo[None, :], hi[None, :])
        for i, (a, b) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
            if a >= b:
                assert not got.full[i]
            else:
                assert tuple(got.words[:, i].tolist()) == fold_of(one, 0, 1, rows[:, a:b]), (
                    one,
                    a,
                    b,
                )


@settings(max_examples=times(8))
@given(
    st.lists(st.sampled_from(SCANS), min_size=1, max_size=3, unique=True),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 400), st.integers(1, 60)),
        min_size=1,
        max_size=12,
    ),
    WORDS | st.integers(1, 1000),
    st.randoms(use_true_random=False),
)
def test_scans_are_the_folds_of_the_records(scans, steps, spread, random):
    """Random edits of random trees: each scan of random intervals, and each node of each page."""
    rng = np.random.default_rng(random.randrange(2**32))
    pager, spec = MemoryPager(4096, 1 << 12), spec_of(*scans)
    keys = np.arange(0, 6000, 2)
    spread = abs(spread) // 2 + 1
    tree = bulk(pager, spec, [np.stack([keys, rng.integers(-spread, spread, len(keys))])])
    for kind, start, size in steps:
        at = np.arange(size) + 15 * start if kind % 2 else rng.integers(0, 6000, size)
        actions = np.full(size, ERASE if kind == 3 else SET if kind else INSERT)
        edits = np.stack([at, rng.integers(-spread, spread, size)])
        tree, _, _ = apply(pager, tree, *compose_edits(actions, edits, spec))
    assert faults(pager, tree) == []
    lo, hi = rng.integers(-10, 6100, 40), rng.integers(-10, 6100, 40)
    agrees(pager, tree, lo, hi)


@settings(max_examples=times(13), deadline=None)
@given(
    st.lists(st.sampled_from([*SCANS[:3], ((MAX, 1),)]), min_size=1, max_size=3, unique=True),
    st.sampled_from([0, 3, 20, 46, 61]),
    st.lists(
        st.tuples(st.integers(0, 2**32), st.sampled_from([1, 30, 1000])), min_size=1, max_size=6
    ),
)
def test_new_values_of_records_that_stay(scans, width, steps):
    """Values around zero, so that sums change their sign; keys so wide that the index page has a
    ScanTree, too.
    """
    pager, spec, rng = Recycling(4096, 1 << 12), spec_of(*scans), np.random.default_rng(width)
    keys = np.arange(9000) << 33
    tree = bulk(pager, spec, [np.stack([keys, rng.integers(-(1 << width), 1 << width, len(keys))])])
    for seed, n in steps:
        rng = np.random.default_rng(seed)
        edits = np.stack(
            [
                np.sort(rng.choice(keys, n, replace=False)),
                rng.integers(-(1 << width), 1 << width, n),
            ]
        )
        tree, _, _ = apply(pager, tree, np.full(n, SET), edits)
        assert faults(pager, tree) == []
    agrees(pager, tree, rng.choice(keys, 40), rng.choice(keys, 40))


def test_unbounded_prefix_and_empty_intervals():
    pager = MemoryPager(4096, 1 << 10)
    keys = np.repeat(np.arange(300), 20), np.tile(np.arange(20), 300)
    tree = bulk(pager, Spec(5, 2, 0, ((COUNT, 0),)), [np.stack(keys)])
    none, lo = np.zeros((0, 2), np.int64), np.array([[7, 299]])
    hi = np.array([[9, 299], [5, 3]])
    count = rows_of(tree.spec, SCANS[0])
    assert fold_many(pager.pages, tree, count, none, none).words.tolist() == [[6000, 6000]]
    assert fold_many(pager.pages, tree, count, lo, none).words.tolist() == [[5860, 20]]
    assert fold_many(pager.pages, tree, count, lo, hi).words.tolist() == [[45, 3]]
    assert fold_many(pager.pages, tree, count, hi[:1], lo).words.tolist() == [[0, 0]]
    empty = fold_many(pager.pages, Tree.empty(tree.spec), count, lo, hi)
    assert not empty.full.any()


def test_rank_and_select_are_each_others_inverse():
    rng = np.random.default_rng(3)
    pager = MemoryPager(4096, 1 << 12)
    keys = np.unique(rng.integers(0, 10**6, 30000))
    tree = bulk(pager, spec_of(*SCANS[:2]), [np.stack([keys, keys % 97])])
    assert np.array_equal(select(pager.pages, tree, np.arange(len(keys)))[0], keys)
    assert np.array_equal(ranks(pager.pages, tree, keys[None, :]), np.arange(len(keys)))
    assert np.array_equal(ranks(pager.pages, tree, keys[None, :] + 1), np.arange(len(keys)) + 1)
    with pytest.raises(IndexError, match="rank -1 of"):
        select(pager.pages, tree, np.array([0, -1]))
    with pytest.raises(MissingError, match='"count" scan'):
        select(pager.pages, tree._replace(spec=spec_of(SCANS[1])), np.array([0]))


@pytest.mark.parametrize("n", [0, 1, 3, 200, 5000])
def test_a_record_is_selected_by_the_sum_of_a_column(n):
    """Each record stands for as many as its second value says: which holds each place, on pages
    of all levels.
    """
    rng = np.random.default_rng(n)
    pager, weights = MemoryPager(4096, 1 << 12), rng.choice([1, 1, 2, 7, 3000], n)
    rows = (
        np.stack([3 * np.arange(n), rng.integers(0, 9, n), weights])
        if n
        else np.empty((3, 0), np.int64)
    )
    tree = bulk(pager, Spec(0, 1, 2, ((COUNT, 0), (SUM, 2), (CARRY, 2))), [rows])
    keys = rng.choice(3 * np.arange(n + 1), n // 3, replace=False)  # and as it is after edits
    edits = np.stack([keys, np.zeros_like(keys), np.full_like(keys, 5)])
    tree = apply(pager, tree, *compose_edits(np.full(len(keys), SET), edits, tree.spec))[0]
    rows = np.concatenate([*read_batches(pager.pages, tree), rows[:, :0]], axis=1)
    ends = np.cumsum(rows[2])
    places = (
        np.unique(np.concatenate([ends - 1, ends - rows[2], rng.integers(0, ends[-1], 500)]))
        if n
        else ends
    )
    found = select_weighted(pager.pages, tree, 2, places)
    assert np.array_equal(found, rows[:, np.searchsorted(ends, places, "right")])
    with pytest.raises(MissingError):
        select_weighted(pager.pages, tree, 1, places)


def test_sums_beyond_a_word_are_exact():
    pager = MemoryPager(4096, 1 << 10)
    values = np.array([2**63 - 1, -(2**63)] * 3000)
    tree = bulk(pager, spec_of(SCANS[1]), [np.stack([np.arange(6000), values])])
    lo, hi = np.array([[0, 0, 1, 0]]), np.array([[6000, 5999, 6000, 1]])
    low, high = fold_many(pager.pages, tree, Rows(0, 2), lo, hi).words.tolist()
    truth = [sum(values[a:b].tolist()) for a, b in zip(lo[0], hi[0], strict=True)]
    assert [(h << 64) + (w & 2**64 - 1) for w, h in zip(low, high, strict=True)] == truth


@pytest.mark.parametrize("apart", [0, 2**54])
@pytest.mark.parametrize(
    "middle", [5, 0, -(2**53), 2**53, 2**53 - 4, 2**54, 2**54 - 4, -(2**54) - 4]
)
def test_sums_of_children_about_the_ends_of_a_word(middle, apart):
    """Leaves of 1,024 records whose sums lie close to 0, or to the sign or the carry of a low word.

    Where they are `apart`, those of every other leaf have the same low word, and another high one.
    """
    rng = np.random.default_rng(7)
    pager, n = MemoryPager(4096, 1 << 10), 200_000
    values = middle + rng.integers(-4, 5, n) + apart * (np.arange(n) // 1024 % 2)
    tree = bulk(pager, spec_of(SCANS[1]), [np.stack([np.arange(n), values])])
    sums = np.concatenate([[0], np.cumsum(values.astype(object))])
    lo, hi = np.sort(rng.integers(0, n, (2, 300)), axis=0)
    low, high = fold_many(pager.pages, tree, Rows(0, 2), lo[None], hi[None]).words.tolist()
    assert [(h << 64) + (w & 2**64 - 1) for w, h in zip(low, high, strict=True)] == (
        sums[hi] - sums[lo]
    ).tolist()


# --- counted -----------------------------------------------------------------------------------


def loaded(n, scans, page_size=8192, value=20):
    rng = np.random.default_rng(n)
    pager = MemoryPager(page_size, max(1 << 10, n // 64))
    tree = bulk(
        pager, spec_of(*scans), [np.stack([3 * np.arange(n), rng.integers(0, 1 << value, n)])]
    )
    return pager, tree


@pytest.mark.parametrize(
    "n", [10**3, 10**4, 10**5, 10**6, pytest.param(10**7, marks=pytest.mark.campaign)]
)
@pytest.mark.parametrize("one", SCANS[:5], ids=["count", "sum", "min", "max tuple", "checksum"])
def test_applications_of_a_scan(n, one):
    """At most 2 ceil(log2 n), and for each level of pages the entries of two cut ScanTree
    leaves.
    """
    pager, tree = loaded(n, [one])
    rng = np.random.default_rng(0)
    lo, hi = np.sort(rng.integers(0, 3 * n, (2, 300)), axis=0)
    most = 0
    for i in range(300):
        got = fold_many(
            pager.pages, tree, Rows(0, len(one)), lo[None, i : i + 1], hi[None, i : i + 1]
        )
        most = max(most, got.applications)
    assert most <= 2 * ceil(log2(n)) + 2 * leaf_entries_max(pager, tree) * tree.height


def leaf_entries_max(pager, tree):
    """Entries of the largest leaf of a ScanTree in any page; of a page without one, its entries."""
    most = 0
    for page in pages_of(pager.pages, tree).tolist():
        words = pager.pages.words[page * pager.page_words : (page + 1) * pager.page_words]
        level = page_type_fields(int(words[TYPE]))[1]
        if level == 0 and tree.spec.scans[0][0] == COUNT:
            continue
        found = read_scan_tree(words, tree.spec.scans, level)
        most = max(
            [most, *(b - a for a, b in pairwise(found.starts))]
            if found
            else [most, int(words[ENTRY_COUNT])]
        )
    return most


def edited_singly(n, one, edits, keys_of, page_size=4096):
    """A tree under single edits by a key pattern: (pager, tree, applications and pages for each
    edit).
    """
    rng = np.random.default_rng(4)
    pager = Recycling(page_size, 1 << 14)
    tree = bulk(pager, spec_of(one), [np.stack([2 * np.arange(n), rng.integers(0, 1000, n)])])
    pager.version += 1
    before, written = applications(), pager._next
    for i in range(edits):
        action = (INSERT, SET, ERASE)[i % 3 if keys_of == "random" else 0]
        key = {
            "ascending": 2 * n + i,
            "descending": -i,
            "random": int(rng.integers(0, 2 * n)),
            "clustered": n + 1 + 2 * (i * 7919 % 4001),
        }[keys_of]
        tree, _, _ = apply(
            pager, tree, np.array([action]), np.array([[key], [int(rng.integers(0, 1000))]])
        )
    return pager, tree, (applications() - before) / edits, (pager._next - written) / edits


@pytest.mark.parametrize("pattern", ["ascending", "descending", "random", "clustered"])
@pytest.mark.parametrize("one", SCANS[:5], ids=["count", "sum", "min", "max tuple", "checksum"])
def test_applications_of_an_update(one, pattern):
    """O(log B) applications for each page written, amortised: a path, a leaf or two, and
    rebalancing.
    """
    pager, tree, applied, written = edited_singly(20000, one, 1500, pattern)
    entries = max(
        page_columns(pager.pages, page)[1].shape[1] for page in pages_of(pager.pages, tree).tolist()
    )
    assert applied / written <= 2 * leaf_entries_max(pager, tree) + 6 * log2(entries)
    assert faults(pager, tree) == []


@pytest.mark.parametrize("one", SCANS[1:5], ids=["sum", "min", "max tuple", "checksum"])
def test_a_new_value_costs_its_path(one):
    """An edit takes the old value off a leaf, adds the new one and refolds a path: less than
    refolding the leaf.
    """
    rng = np.random.default_rng(7)
    pager = Recycling(8192, 1 << 12)
    tree = bulk(pager, spec_of(one), [np.stack([np.arange(50_000), rng.integers(0, 1000, 50_000)])])
    before, retired = applications(), len(pager.retired)
    for key, value in rng.integers(0, [50_000, 1000], (500, 2)).tolist():
        tree, _, _ = apply(pager, tree, np.array([SET]), np.array([[key], [value]]))
    assert applications() - before <= (3 + log2(2048 / 16)) * (len(pager.retired) - retired)
    assert faults(pager, tree) == []


@pytest.mark.parametrize("one", SCANS[1:3], ids=["sum", "min"])
def test_many_new_values_cost_a_few_applications_each(one):
    """Each edit takes a value off a leaf, adds one, and refolds part of a path, even with more
    edits than leaves.
    """
    rng = np.random.default_rng(8)
    pager = MemoryPager(8192, 1 << 12)
    tree = bulk(
        pager, spec_of(one), [np.stack([np.arange(50_000), rng.integers(0, 10**6, 50_000)])]
    )
    before = applications()
    for edits in (1000, 2000, 4000):
        keys = np.sort(rng.choice(50_000, edits, replace=False))
        tree, _, _ = apply(
            pager, tree, np.full(edits, SET), np.stack([keys, rng.integers(0, 10**6, edits)])
        )
    assert applications() - before <= 4 * 7000
    assert faults(pager, tree) == []


# --- as good as fresh --------------------------------------------------------------------------


def churned(pattern, rng, n):
    """Batches (action, keys) that leave about n of several times as many records."""
    if pattern in ("ascending", "descending"):  # a window of n keys slides over six times as many
        sign = 1 if pattern == "ascending" else -1
        for at in range(0, 6 * n, 150):
            yield INSERT, np.sort(sign * np.arange(at, at + 150))
            if at >= n:
                yield ERASE, np.sort(sign * np.arange(at - n, at - n + 150))
    elif pattern == "random":
        for _ in range(0, 6 * n, 150):
            yield INSERT, np.unique(rng.integers(0, 2 * n, 150))
            yield ERASE, np.unique(rng.integers(0, 2 * n, 150))
    else:
        for at in range(0, 4 * n, 150):
            yield INSERT, np.arange(at, at + 150)
        # three quarters of each cluster go, or of every four neighbours
        for at in range(0, 4 * n, 400):
            yield (
                ERASE,
                at
                + (
                    np.arange(300) if pattern == "clustered" else np.flatnonzero(np.arange(400) % 4)
                ),
            )


@pytest.mark.parametrize(
    "pattern", ["ascending", "descending", "random", "clustered", "every other"]
)
def test_a_churned_tree_is_as_good_as_a_fresh_one(pattern):
    """At most 2.5 times the pages and 1.5 times the applications of a scan that a bulk load of its
    records has, and ScanTrees as balanced: no node folds more than twice what its sibling does.
    """
    rng = np.random.default_rng(9)
    one, n = SCANS[2], 20000
    pager, spec = Recycling(4096, 1 << 16), spec_of(SCANS[2])
    tree = Tree.empty(spec)
    for action, keys in churned(pattern, rng, n):
        edits = np.stack([keys, rng.integers(0, 1000, len(keys))])
        tree, _, _ = apply(pager, tree, *compose_edits(np.full(len(keys), action), edits, spec))
        pager.version += 1
    assert faults(pager, tree) == []
    left = records(pager, tree)
    fresh = bulk(pager, spec, [left])
    assert len(pages_of(pager.pages, tree)) <= 2.5 * len(pages_of(pager.pages, fresh))
    assert tree.height <= fresh.height + 1
    lo, hi = np.sort(rng.integers(left[0].min(), left[0].max(), (2, 500)), axis=0)
    costs = [
        fold_many(pager.pages, t, Rows(0, len(one)), lo[None, :], hi[None, :]).applications
        for t in (tree, fresh)
    ]
    assert costs[0] <= 1.5 * costs[1]
