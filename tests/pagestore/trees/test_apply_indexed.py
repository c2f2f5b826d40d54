"""Edits of a tree and its permuted indices, against a dict: few edits in one call, many tree by
tree.
"""

import numpy as np
import pytest
from hypothesis import given, settings

import pagestore
from pagestore.errors import EditError
from pagestore.sorting import tuples
from pagestore.trees import edit as applying
from pagestore.trees.build import bulk
from pagestore.trees.edit import ALONE, apply, apply_indexed, compose_edits
from pagestore.trees.kernels.node_buffer import ADD, ERASE, INSERT, SET
from pagestore.trees.read import pages_of
from pagestore.trees.tree import Spec, Tree
from tests.pagestore.trees.test_tree import SPEC, batches, changes, edited, rows_of
from tests.support.memory import MemoryPager
from tests.support.programs.amounts import times

PLACES = np.array([[0, 1, 2], [1, 0, 2], [2, 1, 0]])
SPECS = (SPEC, Spec(2, 2, 1), Spec(3, 3, 0))


@pytest.fixture
def descents(monkeypatch):
    """A list with one entry for each descent of edits by the general way."""
    calls, descend = [], applying._descend
    monkeypatch.setattr(applying, "_descend", lambda *given: calls.append(1) or descend(*given))
    return calls


@pytest.mark.parametrize("few", [0, tuples.FEW])
@settings(max_examples=times(20))
@given(steps=batches())
def test_orders_beside_against_a_dict(few, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(applying, "FEW", few)
        patch.setattr(applying, "MERGED", few)
        pager, trees, model = (
            MemoryPager(pages_max=1 << 16),
            [Tree.empty(spec) for spec in SPECS],
            {},
        )
        for actions, rows in steps:
            wanted = edited(model, actions, rows)
            trees, deltas = apply_indexed(pager, trees, PLACES, *compose_edits(actions, rows, SPEC))
            found = changes(model, wanted)
            model = wanted
            for tree, columns, (kinds, changed) in zip(trees, PLACES, deltas, strict=True):
                keys = tree.spec.keys
                there = [(tuple(row[c] for c in columns), action) for row, action in found]
                assert [
                    (tuple(r), a) for r, a in zip(changed.T.tolist(), kinds.tolist(), strict=True)
                ] == sorted(there, key=lambda change: (change[0][:keys], -change[1]))
                rows = [(*key, value) for key, value in model.items()]
                assert rows_of(pager.pages, tree) == sorted(
                    tuple(row[c] for c in columns) for row in rows
                )
                assert tree.count == len(model)
        live = [page for tree in trees for page in pages_of(pager.pages, tree).tolist()]
        assert set(live) == pager.live, "pages leaked or lost"


def test_a_few_edits_that_need_more_pages_than_were_reserved(descents):
    """Wide values in the midst of pages of narrow ones cut each of them in three."""
    spec, pager, n = Spec(1, 1, 12), MemoryPager(pages_max=1 << 12), 40_000
    rows = np.zeros((13, n), np.int64)
    rows[0] = np.arange(n)
    tree = bulk(pager, spec, [rows])
    edits = np.full((13, 40), 1 << 61)
    edits[0] = np.arange(40) * 1000 + 500
    rows[:, edits[0]] = edits
    tree, actions, _ = apply(pager, tree, np.full(40, SET), edits)
    assert descents, "the room was enough; this test tests nothing"
    assert len(actions) == 80 and np.array_equal(np.array(rows_of(pager.pages, tree)).T, rows)
    assert set(pages_of(pager.pages, tree).tolist()) == pager.live


def test_a_refused_edit_leaves_no_page_behind():
    pager = MemoryPager()
    empty = [Tree.empty(spec) for spec in SPECS]
    trees, _ = apply_indexed(pager, empty, PLACES, np.array([INSERT]), np.ones((3, 1), int))
    before = set(pager.live)
    with pytest.raises(EditError, match="below 0"):
        apply_indexed(pager, trees, PLACES, np.array([ADD]), np.array([[1], [1], [-2]]))
    assert pager.live == before


@pytest.mark.parametrize("support", [-1, 0, 1])
def test_many_edits_of_an_empty_tree_build_it(support, descents):
    """Except where a support is 0 or below: the kernel for edits refuses those."""
    n, pager, rng = 5000, MemoryPager(pages_max=1 << 12), np.random.default_rng(7)
    rows = np.array([np.arange(n), np.zeros(n, np.int64), rng.integers(1, 9, n)])
    actions = rng.choice([INSERT, ERASE, SET, ADD], n)
    actions[n // 2], rows[2, n // 2] = ADD, support
    there = (actions != ERASE) & (rows[2] > 0)
    if support < 0:
        with pytest.raises(EditError, match=f"{n // 2}, 0.*below 0"):
            apply(pager, Tree.empty(SPEC), actions, rows)
        assert not pager.live
    else:
        tree, kinds, changed = apply(pager, Tree.empty(SPEC), actions, rows)
        assert set(kinds.tolist()) == {INSERT} and np.array_equal(changed, rows[:, there])
        assert np.array_equal(np.array(rows_of(pager.pages, tree)).T, changed)
        assert set(pages_of(pager.pages, tree).tolist()) == pager.live
    assert bool(descents) == (support < 1)


def test_nothing_to_do_touches_nothing():
    pager, tree = MemoryPager(), Tree.empty(SPEC)
    empty = np.zeros(0, np.int64), np.zeros((3, 0), np.int64)
    assert apply_indexed(pager, [tree], ALONE, *empty)[0] == [tree] and not pager.live


@pytest.mark.parametrize("n", [1, 2])
def test_edits_that_may_only_be_read_are_applied(n):
    pager, rows = MemoryPager(), np.arange(3 * n).reshape(n, 3).T
    rows.flags.writeable = False
    (tree,), _ = apply_indexed(pager, [Tree.empty(SPEC)], ALONE, np.broadcast_to(INSERT, n), rows)
    assert rows_of(pager.pages, tree) == [tuple(row) for row in rows.T.tolist()]


def test_parts_of_a_large_batch_make_one_tree_of_a_growing_file(tmp_path):
    rng = np.random.default_rng(5)
    with pagestore.open(tmp_path / "s.pages", sync="off", threads=2) as store:
        model = set(range(0, 3_000_000, 10))
        with store.transaction() as txn:
            txn.create("r", "x: int64").bulk([np.array(sorted(model))])
        for _ in range(4):
            more, less = rng.integers(0, 3_000_000, 20_000), rng.choice(sorted(model), 5_000)
            with store.transaction() as txn:
                txn["r"].insert([more])
                txn["r"].delete([less])
            model |= set(more.tolist())
            model -= set(less.tolist())
            assert np.array_equal(store.snapshot()["r"].to_numpy()["x"], sorted(model))
        assert not store.check()
