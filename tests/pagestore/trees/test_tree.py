"""Trees against a dict: batches of every action, page accounting, bulk loads, ranges, deltas."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagestore.errors import CorruptionError, EditError, OrderError
from pagestore.pages import layout
from pagestore.pages.layout import HEADER
from pagestore.pages.operators import COUNT, MAX
from pagestore.runtime.parallel import together
from pagestore.trees import build as bulk_module
from pagestore.trees import read as lookup_module
from pagestore.trees.build import bulk, bulk_all
from pagestore.trees.compare import Delta, delta
from pagestore.trees.edit import EDITS_MAX, PAGE_EDITS, apply, compose_edits
from pagestore.trees.folds import interval_spec, stab_many
from pagestore.trees.kernels.edit import cut_edits
from pagestore.trees.kernels.node_buffer import ADD, ERASE, INSERT, SET
from pagestore.trees.read import (
    SHARE,
    Blocks,
    RecordFinder,
    count,
    count_prefixes,
    get,
    pages_of,
    read,
    read_batches,
)
from pagestore.trees.tree import Spec, Tree
from tests.support.memory import MemoryPager
from tests.support.programs.amounts import times

SPEC = Spec(1, 2, 1, ((MAX, 2), (COUNT, 0)))


def rows_of(pages, tree):
    return [row for batch in read_batches(pages, tree) for row in map(tuple, batch.T.tolist())]


def edited(model, actions, rows):
    """The dict after a batch of edits, made one by one."""
    model = dict(model)
    for action, (*key, value) in zip(actions.tolist(), rows.T.tolist(), strict=True):
        if action == INSERT:
            model.setdefault(tuple(key), value)
        elif action == ERASE:
            model.pop(tuple(key), None)
        else:
            model[tuple(key)] = value
    return model


def changes(old, new):
    """The delta between two dicts, ERASE before INSERT."""
    gone = [((*k, v), ERASE) for k, v in old.items() if new.get(k) != v]
    came = [((*k, v), INSERT) for k, v in new.items() if old.get(k) != v]
    return sorted(gone + came, key=lambda change: (change[0][:2], -change[1]))


@st.composite
def batches(draw, sizes=(1, 2, 30, 2500), domains=(3, 40, 4000)):
    """A few batches over a small or a wide domain, seeded so that they can be large."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    found = []
    for _ in range(draw(st.integers(1, 6))):
        n, domain = draw(st.sampled_from(sizes)), draw(st.sampled_from(domains))
        keys = rng.integers(-domain, domain, (2, n))
        values = rng.integers(-(1 << draw(st.sampled_from([1, 20, 62]))), 1 << 20, (1, n))
        kinds = draw(st.sampled_from([[INSERT], [ERASE], [INSERT, ERASE, SET]]))
        found.append((rng.choice(kinds, n), np.concatenate([keys, values])))
    return found


@settings(max_examples=times(30))
@given(batches())
def test_batches_against_a_dict(steps):
    follow_a_dict(steps, MemoryPager())


@settings(max_examples=times(30))
@given(
    batches(), st.integers(2, 5), st.sampled_from([4, 40, 512]), st.sampled_from([90, EDITS_MAX])
)
def test_batches_in_parts_against_a_dict(steps, threads, arena, most):
    pager = MemoryPager(pages_max=1 << 16)
    pager.threads = threads
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pagestore.trees.edit.PART_EDITS", 1)
        patch.setattr("pagestore.trees.edit.FEW", 0)  # few edits are never parted
        # parts that run short leave edits over, and so do batches of more than all may take
        patch.setattr("pagestore.trees.edit.ARENA_PAGES_MAX", arena)
        patch.setattr("pagestore.trees.edit.EDITS_MAX", most)
        follow_a_dict(steps, pager)


@settings(max_examples=times(30))
@given(batches((30, 2500), (40, 4000)), st.lists(st.booleans(), min_size=6, max_size=6))
def test_batches_after_the_last_record_against_a_dict(steps, after):
    """Some batches come after all records, and are loaded on; the tree is then edited like any
    other.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pagestore.trees.edit.APPENDED", 0)
        for number, (step, appended) in enumerate(zip(steps, after, strict=False)):
            step[1][0] += 10_000 * number * appended
        follow_a_dict(steps, MemoryPager())


def test_loading_on_writes_what_a_bulk_load_writes():
    n, pager, whole = 300_000, MemoryPager(pages_max=1 << 13), MemoryPager(pages_max=1 << 13)
    keys = np.arange(n)
    rows = np.array([keys // 9, keys, np.random.default_rng(1).integers(-(1 << 62), 1 << 62, n)])
    built = bulk(whole, SPEC, [rows])
    tree, loaded = bulk(pager, SPEC, [rows[:, : n // 3]]), n // 3
    for end in (n // 2, n):
        before = len(pager.live)
        tree, actions, delta = apply(pager, tree, np.full(end - loaded, SET), rows[:, loaded:end])
        assert len(pager.retired) <= 2 * tree.height, (
            "more than the last page of each level is replaced"
        )
        assert len(pager.live) - before <= len(whole.live) * (end - loaded) // n + 2 * tree.height
        assert (actions == INSERT).all() and (delta == rows[:, loaded:end]).all()
        loaded = end
    assert (read(pager.pages, tree) == rows).all() and tree.height == built.height == 3
    assert set(pages_of(pager.pages, tree).tolist()) == pager.live


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("crowd", [0.0, 0.5, 1.0])
def test_parts_of_a_batch_are_about_as_much_work(threads, crowd):
    """Even where most edits of the batch fall below a few entries of the root."""
    n, keys, rng = 10_000, 400_000, np.random.default_rng(threads)
    pager = MemoryPager(pages_max=1 << 12)
    tree = bulk(
        pager,
        SPEC,
        [np.array([np.arange(keys), np.zeros(keys, np.int64), np.ones(keys, np.int64)])],
    )
    assert tree.height == 2
    entries = int(pager.pages.words[tree.root * pager.pages.page_words + layout.ENTRY_COUNT])
    firsts = np.sort(
        np.where(rng.random(n) < crowd, rng.integers(0, keys // 5, n), rng.integers(0, keys, n))
    )
    cuts = np.zeros((2, threads + 1), np.int64)
    edits = np.array([firsts, np.zeros(n, np.int64)])
    assert cut_edits(tree.on(pager.pages), edits, PAGE_EDITS, cuts) == threads
    assert cuts[:, 0].tolist() == [0, 0]
    assert cuts[:, -1].tolist() == [entries, n]
    below = np.minimum(firsts * entries // keys, entries - 1)
    work = [
        end - start + PAGE_EDITS * len(set(below[start:end].tolist()))
        for start, end in pairwise(cuts[1].tolist())
    ]
    assert max(work) - min(work) < 0.25 * sum(work) / threads


def follow_a_dict(steps, pager):
    tree, model = Tree.empty(SPEC), {}
    for actions, rows in steps:
        wanted = edited(model, actions, rows)
        tree, *reported = apply(pager, tree, *compose_edits(actions, rows, SPEC))
        got = [
            (tuple(r), a) for a, r in zip(reported[0].tolist(), reported[1].T.tolist(), strict=True)
        ]
        assert got == changes(model, wanted)
        model = wanted
        assert rows_of(pager.pages, tree) == [(*k, v) for k, v in sorted(model.items())]
        assert tree.count == len(model)
        assert set(pages_of(pager.pages, tree).tolist()) == pager.live, "pages leaked or lost"


@settings(max_examples=times(15))
@given(batches(), st.integers(0, 6), st.integers(0, 6))
def test_deltas_of_any_two_versions(steps, i, j):
    pager, trees, models = MemoryPager(), [Tree.empty(SPEC)], [{}]
    for actions, rows in steps:
        trees.append(apply(pager, trees[-1], *compose_edits(actions, rows, SPEC))[0])
        models.append(edited(models[-1], actions, rows))
    i, j = i % len(trees), j % len(trees)
    actions, rows = delta(pager.pages, trees[i], trees[j])
    got = [(tuple(r), a) for a, r in zip(actions.tolist(), rows.T.tolist(), strict=True)]
    assert got == changes(models[i], models[j])


def big_tree(n=200_000, page_size=4096):
    pager = MemoryPager(page_size)
    keys = np.arange(n) * 7
    return pager, bulk(pager, Spec(1, 1, 0), [keys[None, : n // 3], keys[None, n // 3 :]]), keys


@pytest.mark.parametrize("churned", [False, True])
@pytest.mark.parametrize(
    "most, rows", [(1, 10**6), (8, 800), (64, 1 << 15), (64, 10**6), (10**4, 10**4)]
)
def test_blocks_lie_about_as_far_from_each_other(churned, most, rows):
    """They begin with leaves, none overlaps the next, and few pages are read."""
    pager, tree, keys = big_tree()
    if churned:
        some = keys[None, (np.arange(len(keys)) % 3 > 0) & (keys < 700_000)]
        tree, *_ = apply(pager, tree, np.full(some.shape[1], ERASE), some)
    whole, pager.pages.seen[:] = read(pager.pages, tree)[0], 0
    blocks = Blocks(pager.pages, tree, most, rows)
    found = [block[0] for block in blocks.read(0)]
    seen = np.count_nonzero(pager.pages.seen)
    begun = np.searchsorted(whole, [block[0] for block in found])
    ends = [*begun[1:], len(whole)]
    assert begun[0] == 0 and len(found) <= most
    for start, end, block in zip(begun, ends, found, strict=True):
        assert (block == whole[start : min(end, start + rows // len(found))]).all()
        assert end - start < 4 * len(whole) / len(found)
    assert seen <= 4 + 4 * len(found) + 2 * sum(map(len, found)) / 100
    assert [block.shape for block in blocks.read()] == [(0, len(block)) for block in found]


def test_blocks_of_a_small_tree_are_all_of_it():
    pager, tree, _ = big_tree(30)
    assert [block.tolist() for block in Blocks(pager.pages, tree, 8, 100).read(0)] == [
        [[*range(0, 210, 7)]]
    ]


def test_a_delta_reads_only_what_differs():
    pager, tree, keys = big_tree()
    assert tree.height >= 2
    shuffled = np.random.default_rng(1).permutation(keys)
    for lo, hi in ((0, 1), (1, 11), (11, 111)):
        k = hi - lo
        new, *_ = apply(pager, tree, np.full(k, ERASE), np.sort(shuffled[lo:hi])[None])
        walk = Delta(pager.pages, tree, new)
        assert sum(len(actions) for actions, _ in walk) == k
        assert 0 < walk.pages_read <= 2 * k * tree.height
        tree = new
    same = Delta(pager.pages, tree, tree)
    assert list(same) == []
    assert same.pages_read == 0


def test_a_batch_rewrites_only_the_pages_it_touches():
    pager, tree, keys = big_tree()
    before = set(pager.live)
    new, *_ = apply(pager, tree, np.full(1, ERASE), keys[None, [50_000]])
    assert len(set(pages_of(pager.pages, new).tolist()) - before) == tree.height
    assert len(pager.retired) == tree.height
    unchanged, actions, _ = apply(pager, new, np.full(2, INSERT), keys[None, [5, 90_000]])
    assert unchanged == new
    assert len(actions) == 0


def test_bulk_pages_are_in_order_and_full_but_for_a_sixteenth():
    pager, tree, keys = big_tree()
    assert np.array_equal(np.concatenate(list(read_batches(pager.pages, tree)), axis=1)[0], keys)
    # 1,024 records a page are the most there may be
    assert 4 <= len(pager.live) * 4096 / len(keys) * 15 / 16 < 4.1
    found, _ = get(pager.pages, tree, np.stack([keys + 1]))
    assert not found.any()
    assert get(pager.pages, tree, keys[None, ::-1])[0].all()


def test_the_first_edits_of_what_was_built_in_bulk_cut_no_page():
    pager, tree, keys = big_tree()
    more = np.random.default_rng(3).choice(keys, 3000, replace=False) + 1
    for part in np.sort(more.reshape(10, 300)):
        tree, actions, _ = apply(pager, tree, np.full(300, INSERT), part[None])
        assert len(actions) == 300
    assert len(pages_of(pager.pages, tree)) == len(pages_of(pager.pages, big_tree()[1]))


def test_bulk_refuses_disorder_with_the_record():
    pager = MemoryPager()
    with pytest.raises(OrderError, match=r"record 3: key \(5,\)"):
        bulk(pager, Spec(1, 1, 0), [np.array([[1, 2]]), np.array([[5, 5]])])


ENDS = [-(1 << 63), (1 << 63) - 1, 0]


@settings(max_examples=times(30))
@given(st.integers(0, 2**32), st.integers(1, 3), st.sampled_from([1, 5, 40, 63]), st.booleans())
def test_looking_up_many_in_any_order(seed, keys, bits, ends):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-(1 << bits - 1), 1 << bits - 1, (keys, 3000))
    rows[: keys - 1] //= 1 << max(0, bits - 3)  # long runs of equal first columns
    rows[:, : 300 * ends] = rng.choice(ENDS, (keys, 300 * ends))
    model = dict(zip(map(tuple, rows.T.tolist()), rng.integers(-9, 9, 3000).tolist(), strict=True))
    pager = MemoryPager()
    tree = bulk(
        pager, Spec(1, keys, 1), [np.array([(*key, model[key]) for key in sorted(model)]).T]
    )
    wanted = np.concatenate(
        [rows, np.clip(rows, ENDS[0] + 1, ENDS[1] - 1) + rng.choice([-1, 1], rows.shape)], axis=1
    )
    wanted = wanted[:, rng.integers(0, 6000, rng.choice([1, 40, 700, 6000]))]
    if rng.random() < 0.5:
        wanted = wanted[:, np.lexsort(wanted[::-1])]
    found, values = get(pager.pages, tree, wanted)
    answers = [model.get(key) for key in map(tuple, wanted.T.tolist())]
    assert found.tolist() == [answer is not None for answer in answers]
    assert values[0].tolist() == [answer or 0 for answer in answers]
    one = RecordFinder(pager.pages, tree)
    for key, answer in zip(wanted.T.tolist()[:50], answers, strict=False):
        assert one.find(tuple(key)) == (None if answer is None else (answer,))


def test_looking_up_side_by_side(monkeypatch):
    pager, tree, keys = big_tree()
    shares = []
    monkeypatch.setattr(
        lookup_module, "together", lambda tasks: shares.append(len(tasks)) or together(tasks)
    )
    wanted = np.random.default_rng(5).permutation(np.concatenate([keys, keys + 1]))[
        None, : 2 * SHARE + 1
    ]
    found, _ = get(pager.pages, tree, wanted)
    assert np.array_equal(found, np.isin(wanted[0], keys))
    assert np.array_equal(get(pager.pages, tree, wanted, 2)[0], found)
    assert np.array_equal(get(pager.pages, tree, wanted, 3)[0], found)
    assert shares == [2, 2]  # each of SHARE keys at least
    words = pager.pages.words.copy()
    words[pages_of(pager.pages, tree)[-1] * pager.pages.page_words + HEADER] ^= 1
    hurt = pager.pages._replace(words=words, seen=np.zeros_like(pager.pages.seen))
    with pytest.raises(CorruptionError):
        get(hurt, tree, np.sort(wanted), 2)


def test_records_that_are_not_there_are_missed():
    """Whole pages of an older version are noticed where all records are read: their number is
    wrong.
    """
    pager, tree, keys = big_tree()
    for wrong in (tree._replace(count=tree.count + 1), tree._replace(pointer=0, height=0)):
        with pytest.raises(
            CorruptionError, match=f"it leads to .* records, and the tree has {wrong.count}$"
        ):
            list(read_batches(pager.pages, wrong, rows=1000))
        with pytest.raises(CorruptionError, match=f"the tree has {wrong.count}$"):
            read(pager.pages, wrong)
        assert count(pager.pages, wrong, (int(keys[5]),)) == (len(keys) - 5 if wrong.root else 0)
    with pytest.raises(CorruptionError, match="the tree has 3$"):
        list(read_batches(pager.pages, tree._replace(count=3)))


@pytest.mark.parametrize("before", [[], [1 << 16], [1 << 12, 1 << 16]])
def test_a_thread_that_writes_pages_of_several_sizes(before):
    """Scratch that has room for large pages may still be too small for as many words of small
    pages.
    """
    rows = np.arange(1 << 16) >> np.array([[12], [8], [4], [0]]) & 15

    def work():
        for size in before:
            bulk(MemoryPager(size), Spec(1, 4, 0), [rows])
        pager = MemoryPager(1 << 12, 1 << 16)
        tree = bulk(pager, Spec(1, 4, 0), [rows])
        gone = rows[:, ::2]
        tree, actions, erased = apply(pager, tree, np.full(gone.shape[1], ERASE), gone)
        assert np.array_equal(erased, gone) and set(actions.tolist()) == {ERASE}
        assert np.array_equal(read(pager.pages, tree), rows[:, 1::2])

    with ThreadPoolExecutor(1) as fresh:  # what a thread works in only grows
        fresh.submit(work).result()


def test_looking_up_reads_only_the_way_to_a_key():
    pager, tree, keys = big_tree()
    for n in (1, 100):
        seen = np.zeros_like(pager.pages.seen)
        get(pager.pages._replace(seen=seen), tree, keys[None, 7 : 7 + n])
        assert np.count_nonzero(seen) <= tree.height + 1


def test_ranges_take_prefixes():
    pager = MemoryPager()
    rows = np.array([(a, b) for a in range(30) for b in range(40)]).T
    tree = bulk(pager, Spec(1, 2, 0), [rows])
    for lo, hi in [
        ((3,), (9,)),
        ((3, 7), (3, 20)),
        ((), (1,)),
        ((29, 5), ()),
        ((40,), ()),
        ((5,), (5,)),
    ]:
        got = [
            tuple(r)
            for batch in read_batches(pager.pages, tree, lo, hi, rows=37)
            for r in batch.T.tolist()
        ]
        wanted = [
            t
            for t in map(tuple, rows.T.tolist())
            if t[: len(lo)] >= lo and (not hi or t[: len(hi)] < hi)
        ]
        assert got == wanted
        assert list(map(tuple, read(pager.pages, tree, lo, hi).T.tolist())) == wanted
        assert read(pager.pages, tree, lo, hi, columns=(1,)).tolist() == [[b for _, b in wanted]]
        assert count(pager.pages, tree, lo, hi) == len(wanted)


def test_prefix_counts():
    pager = MemoryPager()
    rows = np.array([(a, b) for a in range(0, 30, 3) for b in range(a)]).T
    tree = bulk(pager, Spec(1, 2, 0), [rows])
    assert count_prefixes(pager.pages, tree, np.arange(31)[None], most=5).tolist() == [
        min(5, a) if a % 3 == 0 and a < 30 else 0 for a in range(31)
    ]


class TestSupport:
    """ADD adds to the value words; the last one is the support."""

    SPEC = Spec(1, 1, 2)

    def run(self, *batches):
        pager, tree = MemoryPager(), Tree.empty(self.SPEC)
        for rows in batches:
            edits = np.array(rows).T
            tree, *_ = apply(
                pager, tree, *compose_edits(np.full(edits.shape[1], ADD), edits, self.SPEC)
            )
        return rows_of(pager.pages, tree)

    def test_adds_up_and_goes_at_0(self):
        assert self.run([(1, 10, 1), (1, 5, 1), (2, 3, 1)], [(1, -10, -1), (2, -3, -1)]) == [
            (1, 5, 1)
        ]

    def test_below_0_is_refused(self):
        with pytest.raises(EditError, match=r"key \(1,\): the support would fall below 0"):
            self.run([(1, 10, 1)], [(1, -10, -2)])

    def test_overflow_is_refused(self):
        with pytest.raises(EditError, match=r"key \(4,\): the sum does not fit"):
            self.run([(4, 2**63 - 1, 1)], [(4, 1, 1)])
        with pytest.raises(EditError, match=r"key \(4,\): what one batch adds does not fit"):
            self.run([(4, 2**63 - 1, 1), (4, 1, 1)])

    def test_adding_and_setting_do_not_mix(self):
        edits = np.array([(1, 1, 1), (1, 2, 1)]).T
        with pytest.raises(EditError, match="both adds to and sets"):
            compose_edits(np.array([ADD, SET]), edits, self.SPEC)

    def test_hidden_changes_are_not_reported(self):
        pager, spec = MemoryPager(), Spec(1, 1, 1)
        tree, *_ = apply(pager, Tree.empty(spec), np.array([ADD]), np.array([[7], [1]]), visible=1)
        tree, actions, _ = apply(pager, tree, np.array([ADD]), np.array([[7], [1]]), visible=1)
        assert len(actions) == 0
        assert rows_of(pager.pages, tree) == [(7, 2)]


def test_net_composes_in_order():
    def one(*edits):
        actions, rows = compose_edits(
            np.array([a for a, _ in edits]),
            np.array([[5] * len(edits), [v for _, v in edits]]),
            Spec(1, 1, 1),
        )
        return [(a, v) for a, v in zip(actions.tolist(), rows[1].tolist(), strict=True)]

    assert one((INSERT, 1), (INSERT, 2)) == [(INSERT, 1)]
    assert one((INSERT, 1), (ERASE, 0), (INSERT, 3)) == [(SET, 3)]
    assert one((SET, 1), (ERASE, 0)) == [(ERASE, 0)]
    assert one((ERASE, 0), (SET, 4)) == [(SET, 4)]


@settings(max_examples=times(20))
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 2]), st.integers(1, 4000))
def test_stabs_against_a_filter(seed, alphas, n):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3000, n)
    rows = np.stack(
        [
            *rng.integers(0, 4, (alphas, n)),
            a,
            a + rng.integers(0, 40, n) ** 2,
            rng.integers(0, 99, n),
        ]
    )
    spec = interval_spec(1, alphas, 1)
    pager = MemoryPager()
    tree, *_ = apply(pager, Tree.empty(spec), *compose_edits(np.zeros(n, np.int64), rows, spec))
    stored = np.array(rows_of(pager.pages, tree)).T
    points = np.stack([*rng.integers(0, 5, (alphas, 3)), rng.integers(-5, 5000, 3)])
    hit = np.zeros(stored.shape[1], bool)
    for *alpha, x in points.T.tolist():
        here = (stored[alphas] <= x) & (x <= stored[alphas + 1])
        for c, value in enumerate(alpha):
            here &= stored[c] == value
        hit |= here
    assert np.array_equal(stab_many(pager.pages, tree, points), stored[:, hit])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_trees_side_by_side(threads, monkeypatch):
    """Each tree has its own records, in order and once; one thread at a time gets pages and
    writes them.
    """
    monkeypatch.setattr(bulk_module, "PARALLEL_FROM", 0)
    pager = AlonePager(512, pages_max=1 << 14)
    pager.threads = threads
    rng = np.random.default_rng(threads)
    loads = [
        (
            Spec(t, 1 + t % 3, 0, ((MAX, t % 3),)),
            [rng.integers(0, 300, (1 + t % 3, n)) for n in (700, 0, 90 * t)],
        )
        for t in range(6)
    ]
    trees = bulk_all(pager, loads)
    for tree, (spec, parts) in zip(trees, loads, strict=True):
        assert tree.spec == spec
        assert np.array_equal(
            read(pager.pages, tree), np.unique(np.concatenate(parts, axis=1), axis=1)
        )
    pages = np.concatenate([pages_of(pager.pages, tree) for tree in trees])
    assert len(np.unique(pages)) == len(pages)


class AlonePager(MemoryPager):
    """A pager that fails if two threads use it at once."""

    inside = 0

    def reserve(self, n):
        return self._alone(super().reserve, n)

    def write(self, arena, ids):
        self._alone(super().write, arena, ids)

    def release(self, ids):
        self._alone(super().release, ids)

    def _alone(self, call, *args):
        assert not self.inside, "two threads use the pager"
        self.inside += 1
        time.sleep(1e-5)
        try:
            return call(*args)
        finally:
            self.inside -= 1


def test_a_load_whose_source_edits_other_trees():
    """A dictionary adds texts while the rows with them are loaded: the two do not share scratch."""
    pager, other = MemoryPager(4096), Spec(2, 2, 1)
    aside, *_ = apply(
        pager, Tree.empty(other), np.zeros(5000, np.int64), np.arange(15_000).reshape(3, 5000)
    )
    expected = np.stack([np.arange(3000), np.arange(3000) * 7, np.arange(3000) + 5])

    def batches():
        nonlocal aside
        for at in range(0, 3000, 250):
            edits = np.arange(600).reshape(3, 200) + 20_000 + at
            aside, *_ = apply(pager, aside, np.zeros(200, np.int64), edits)
            yield expected[:, at : at + 250]

    tree = bulk(pager, SPEC, batches())
    assert (read(pager.pages, tree) == expected).all()


@settings(max_examples=times(30), deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 12)] * 3), unique=True, max_size=300),
    st.lists(st.tuples(*[st.integers(-1, 13)] * 2), max_size=60),
    st.booleans(),
)
def test_prefixes_are_counted_in_any_order(records, prefixes, ascending):
    pager, spec = MemoryPager(512), Spec(1, 3, 0)
    rows = np.array(sorted(records), np.int64).reshape(-1, 3).T.copy()
    tree, *_ = apply(pager, Tree.empty(spec), np.full(rows.shape[1], INSERT), rows)
    prefixes = sorted(prefixes) if ascending else prefixes
    for m in (1, 2):
        wanted = np.array([p[:m] for p in prefixes], np.int64).reshape(-1, m).T.copy()
        found = count_prefixes(pager.pages, tree, wanted, most=4).tolist()
        assert found == [min(4, sum(r[:m] == p[:m] for r in records)) for p in prefixes]
