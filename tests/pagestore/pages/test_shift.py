"""Pages made by shifting bits, against lists: values that just fit and values that do not; how
often it is done.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagestore
from pagestore.pages.build import PATIENCE, shift_page, write_page
from pagestore.pages.layout import (
    AGE,
    ENTRY_COUNT,
    HEADER,
    ID,
    LEAF,
    Entries,
    FreshPage,
    Kept,
    page_type,
)
from pagestore.pages.page import column, unpack
from pagestore.runtime.kernel import TypedKernel
from pagestore.runtime.types import MappedWords
from pagestore.trees.build import bulk
from pagestore.trees.edit import apply
from pagestore.trees.kernels.node_buffer import ERASE, INSERT, SET
from pagestore.trees.scratch import pages_shifted
from pagestore.trees.tree import Spec
from tests.support.memory import Recycling
from tests.support.programs.amounts import times

PAGE_WORDS, ROOM = 512, 400
WRITE = TypedKernel(write_page, FreshPage, int, int, Entries)
SHIFT = TypedKernel(shift_page, MappedWords, Kept, Entries, int, int, int, int, FreshPage)
WIDTHS = [0, 1, 2, 7, 8, 31, 32, 33, 62, 63, 64]


def signed(value):
    return (value + 2**63) % 2**64 - 2**63


def column_values(rng, n, width):
    """n words whose column takes `width` bits, words that just fit it, and words that just do
    not.
    """
    base = int(rng.integers(-(2**63), 2**63 - 2**width, endpoint=True)) if width < 64 else -(2**63)
    offsets = [
        0,
        2**width - 1,
        *rng.integers(0, 2**width - 1, n, np.uint64, endpoint=True).tolist(),
    ]
    return (
        [base + offset for offset in offsets[:n]],
        [signed(base + offset) for offset in (-1, 0, 2**width // 2, 2**width - 1, 2**width)],
    )


def edited(rng, n, edits):
    """Draws the entries of a page's successor: the number of an old entry, or None for a new
    one.
    """
    out = list(range(n))
    for _ in range(edits):
        at, kind = int(rng.integers(0, len(out) + 1)), int(rng.integers(0, 3))
        out[at : at + (kind > 0)] = [None] * (kind < 2)
    return out


def runs_of(entries):
    """(first, end, place) of the entries that stay, as `apply` notes them."""
    runs = []
    for place, entry in enumerate(entries):
        if entry is None:
            continue
        if runs and runs[-1][1] == entry and runs[-1][2] + entry - runs[-1][0] == place:
            runs[-1][1] += 1
        else:
            runs.append([entry, entry + 1, place])
    return runs


@settings(max_examples=times(200))
@given(
    st.integers(0, 2**32),
    st.integers(1, 150),
    st.lists(st.sampled_from(WIDTHS), min_size=1, max_size=3),
    st.integers(0, 9),
)
def test_a_shifted_page_holds_what_lists_say(seed, n, widths, edits):
    rng, columns = np.random.default_rng(seed), len(widths)
    drawn = [column_values(rng, n, width) for width in widths]
    page, arena = np.zeros(2 * PAGE_WORDS, np.int64), np.full(2 * PAGE_WORDS, -1)
    node = np.full((columns + 4, 512), -77)
    node[:columns, :n] = [values for values, _ in drawn]
    WRITE.call(
        FreshPage(page, 0, 1024, 2, 1),
        page_type(LEAF, 0, columns, 0, 9),
        columns,
        Entries(node, 0, n),
    )
    entries = edited(rng, n, edits)
    runs, m = runs_of(entries), len(entries)
    wanted = [
        [int(rng.choice(near)) if entry is None else values[entry] for entry in entries]
        for values, near in drawn
    ]
    node[:] = -77
    for i in (i for i, entry in enumerate(entries) if entry is None):
        node[:columns, i] = [values[i] for values in wanted]
    for r, run in enumerate(runs):
        node[columns + 1 :, r] = run
    age = max(n, m) - sum(end - first for first, end, _ in runs)
    kept, fresh = Kept(0, columns + 1, len(runs)), FreshPage(arena, 0, PAGE_WORDS, 7, 3)
    done = SHIFT.call(page, kept, Entries(node, 0, m), columns, -1, 0, ROOM, fresh)

    before = [column(page, 0, c)[2] for c in range(columns)]
    widest = [
        max(w, (max(v, default=0) - min(v, default=0)).bit_length())
        for w, v in zip(before, wanted, strict=True)
    ]
    if not done:
        assert PATIENCE * age > m or sum(-(-m * width // 64) for width in widest) > ROOM
        return
    assert arena[[ID, ENTRY_COUNT, AGE]].tolist() == [7, m, age]
    end = HEADER + 2 * columns
    for c, values in enumerate(wanted):
        _, start, width = column(arena, 0, c)
        out = np.zeros(m, np.int64)
        unpack(arena, 0, c, 0, m, out, 0)
        assert out.tolist() == values
        assert start == end, "columns stand side by side"
        assert width <= widest[c]
        end += -(-m * width // 64)
        assert not m * width % 64 or not int(arena[end - 1]) % 2**64 >> m * width % 64, (
            "bits behind the last value"
        )
    assert end <= HEADER + 2 * columns + ROOM
    assert not arena[end:PAGE_WORDS].any()
    assert (arena[PAGE_WORDS:] == -1).all()


STEPS = st.tuples(st.integers(0, 2**32), st.sampled_from([1, 2, 5, 40]), st.integers(0, 62))


@settings(max_examples=times(13), deadline=None)
@given(
    st.sampled_from([(), ("count",), ("sum:v", "max:v"), ("min:v", "checksum")]),
    st.lists(STEPS, min_size=1, max_size=20),
)
def test_stores_under_small_edits(tmp_path_factory, scans, steps):
    """Random small transactions on a real store give what they give on a dict, and violate no
    invariant.
    """
    path = tmp_path_factory.mktemp("shift") / "s.pages"
    with pagestore.open(path, page_size=4096, sync="off", retain=3) as store:
        model = {i * 3: i % 50 for i in range(3000)}
        with store.transaction() as txn:
            txn.create("r", "k: int64, v: int64", key="k", scans=scans).bulk([list(model.items())])
        for seed, n, width in steps:
            rng = np.random.default_rng(seed)
            keys = rng.choice(9100, n, replace=False).tolist()
            values = rng.integers(-(1 << width), 1 << width, n).tolist()
            with store.transaction() as txn:
                if seed % 3 == 0:
                    gone = [key for key in keys if key in model]
                    txn["r"].delete([(key, model.pop(key)) for key in gone])
                else:
                    txn["r"].set(columns=[keys, values])
                    model |= dict(zip(keys, values, strict=True))
        relation = store.snapshot()["r"]
        assert list(relation) == sorted(model.items())
        assert store.check() == []
        if "max:v" in scans:
            assert relation.scan("max:v") == max(model.values())
            assert relation.scan("sum:v") == sum(model.values())


def loaded(n):
    pager = Recycling(8192, 1 << 13)
    keys = np.arange(n) * 8
    return pager, bulk(pager, Spec(1, 1, 1), [np.stack([keys, keys % 1000])])


@pytest.mark.parametrize("edits", [1, 20])
def test_small_edits_shift_every_page_on_their_paths(edits):
    """All pages are shifted except full ones and some index pages, which are small here and soon
    measured anew.
    """
    pager, tree = loaded(100_000)
    every_30th = np.arange(0, 800_000, 240)
    tree, *_ = apply(
        pager, tree, np.full(len(every_30th), ERASE), np.stack([every_30th, every_30th])
    )
    rng = np.random.default_rng(5)
    before, written = pages_shifted(), len(pager.retired)
    for _ in range(200):
        keys = np.sort(rng.choice(800_000, edits, replace=False))
        tree, *_ = apply(
            pager, tree, rng.choice([INSERT, SET, ERASE], edits), np.stack([keys, keys % 1000])
        )
    assert pages_shifted() - before >= 0.9 * (len(pager.retired) - written)


def test_a_page_is_measured_anew_in_time():
    """Wide values that are gone do not keep a page wide for long."""
    pager, tree = loaded(500)
    for value in (2**55, 3, 4):
        for key in range(0, 4000, 8):
            tree, *_ = apply(pager, tree, np.array([SET]), np.array([[key], [value]]))
    at = tree.root * pager.page_words
    assert tree.height == 1
    assert column(pager.pages.words, at, 1)[2] <= 1
    assert pager.pages.words[at + AGE] * PATIENCE <= 500
