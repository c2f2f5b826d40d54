"""The memory accesses of a look-up and a delta, counted: probes, and cache lines that were not
prefetched in time.
"""

from bisect import bisect_left
from itertools import chain
from math import ceil, log2
from types import FunctionType, ModuleType, SimpleNamespace

import numpy as np
import pytest

from pagestore.pages import build as k_build
from pagestore.pages import build as k_shift
from pagestore.pages import layout
from pagestore.pages import page as k_page
from pagestore.pages import verify as k_enter
from pagestore.pages.layout import LEAF, TYPE, Pages, Shape
from pagestore.runtime.types import LINE
from pagestore.trees.build import bulk
from pagestore.trees.edit import apply
from pagestore.trees.kernels import compare as k_delta
from pagestore.trees.kernels import cursor as k_cursor
from pagestore.trees.kernels import edit as k_apply
from pagestore.trees.kernels import edit as k_leaf_merge
from pagestore.trees.kernels import lookup as k_point_lookup
from pagestore.trees.kernels import node_buffer as k_apply_layout
from pagestore.trees.kernels import node_buffer as k_node_buffer
from pagestore.trees.kernels import successor as k_successor
from pagestore.trees.kernels.arguments import Changes, Edits, Output, Part, Run, TreeRef
from pagestore.trees.kernels.lookup import LIKE, NEAR
from pagestore.trees.kernels.node_buffer import ALL, INSERT, WHOLE
from pagestore.trees.read import pages_of
from pagestore.trees.scratch import Scratch
from pagestore.trees.tree import Spec
from tests.support.memory import MemoryPager

ALL_COLUMNS = 255  # of a page that was verified


class Memory:
    """An array of words that plays the machine's memory: it notes in order which line was asked
    for, and how.
    """

    def __init__(self, words: np.ndarray) -> None:
        self.words = words
        self.asked: list[tuple[int, bool]] = []  # line, and whether somebody waits for it

    def __getitem__(self, i: int | slice) -> np.int64 | np.ndarray:
        first, end = (i.start, i.stop) if isinstance(i, slice) else (i, i + 1)
        self.asked += [(line, True) for line in range(first // LINE, -(-end // LINE))]
        return self.words[i]

    def word_at(self, byte: int) -> np.int64:
        self.asked += [(byte // 8 // LINE, True), ((byte + 7) // 8 // LINE, True)]
        return self.words.view(np.uint8)[byte : byte + 8].view(np.int64)[0]

    def prefetch(self, i: int) -> None:
        self.asked.append((i // LINE, False))

    def late(self, lines: range) -> int:
        """How many of these lines were first asked for after one of them had been waited for."""
        asked = [(line, waits) for line, waits in self.asked if line in lines]
        first = [waits for _, waits in asked].index(True)
        return len({line for line, _ in asked} - {line for line, _ in asked[: first + 1]})


def word_at(words: Memory | np.ndarray, byte: int) -> np.int64:
    return (words if isinstance(words, Memory) else Memory(words)).word_at(byte)


def plain(*modules: ModuleType, **others) -> SimpleNamespace:
    """The kernels of modules as plain Python over `Memory`, with objects in the place of
    addresses.
    """
    names = dict(
        chain.from_iterable(vars(module).items() for module in (layout, k_page, k_enter, *modules))
    )
    for name, value in names.items():
        function = getattr(value, "py_func", value)
        if isinstance(function, FunctionType):
            names[name] = FunctionType(function.__code__, names, closure=function.__closure__)
    names |= {"word_at": word_at, "prefetch": Memory.prefetch, "as_array": np.array}
    names |= {
        "either": lambda condition, a, b: a if condition else b,
        "words_at": lambda there, n: there,
    }
    names |= {"bytes_at": names["words_at"], "mapped_at": names["words_at"], **others}
    return SimpleNamespace(**names)


def sixteen_to_a_first_column(n, random):
    return np.stack(
        [np.arange(n) // 16, np.sort(random.integers(0, 1 << 40, (n // 16, 16)), axis=1).ravel()]
    )


def long_runs(n, random):
    return np.stack([np.arange(n) // 20_000, np.cumsum(random.integers(1, 1000, n))])


@pytest.mark.parametrize("kind", [sixteen_to_a_first_column, long_runs])
@pytest.mark.parametrize("values", [0, 1])
def test_a_look_up_waits_for_its_leaf_once(kind, values):
    random = np.random.default_rng(1)
    pager, rows = MemoryPager(8192, 1 << 10), kind(200_000, random)
    tree = bulk(
        pager,
        Spec(1, 2, values),
        [np.concatenate([rows, random.integers(0, 1 << 30, (values, 200_000))])],
    )
    words, _, page_words = pager.pages
    memory, seen, out = Memory(words), np.full(1 << 10, ALL_COLUMNS, np.uint8), np.zeros(values)
    ready = [memory, len(words), seen, len(seen), page_words, tree.root, tree.height, values, 0]
    find_record = plain(k_cursor, k_point_lookup).find_record

    def late(key):
        memory.asked.clear()
        assert find_record(ready, key, out) == 1
        leaf = ready[LIKE] // LINE
        return memory.late(range(leaf, leaf + page_words // LINE))

    known, unknown = [], []
    for key in rows[:, random.integers(0, 200_000, 300)].T.tolist():
        known.append(late(tuple(key)))
        ready[LIKE] = 0
        unknown.append(late(tuple(key)))
    assert np.mean(known) <= 2 < 3 <= np.mean(unknown)


def evenly(n):
    return list(range(0, 1000 * n, 1000))


def far_apart(n):
    return [1 << 40 if i == n - 1 else i for i in range(n)]


def doubling(n):
    return sorted((1 << i * 56 // n) + i for i in range(n))


def clusters(n):
    return [(i // 200 << 40) + i for i in range(n)]


def all_the_same(n):
    return [7] * n


@pytest.mark.parametrize("spread", [evenly, far_apart, doubling, clusters, all_the_same])
@pytest.mark.parametrize("n", [1, 40, 1300])
def test_a_bad_guess_costs_two_probes_and_a_good_one_spares_some(spread, n):
    values, probes = spread(n), []
    near = plain(
        k_point_lookup,
        column=lambda *_: (0, 0, 40),
        bits=lambda words, start, width, i: probes.append(i) or values[i],
        bits_at=lambda words, at, mask: probes.append(at // 40) or values[at // 40],
        prefetch=lambda *_: None,
    ).near
    for x in {value + d for value in values for d in (-1, 0, 1)}:
        span = values[-1] - values[0]
        for guess in {0, n // 2, n, min(max(n * (x - values[0]) // span, 0), n) if span else 0}:
            probes.clear()
            assert near(None, 0, 0, 0, n, x, guess) == bisect_left(values, x)
            assert len(probes) <= 2 + max(
                3 * ceil(log2(n) / 3 + 1), 1 + 3 * ceil(log2(min(n, 2 * NEAR)) / 2)
            )
            if spread is evenly and guess == x // 1000:
                # three at once for every two halvings
                assert len(probes) <= 3 + 3 * log2(2 * NEAR) / 2


def test_a_delta_skips_children_by_the_word_and_asks_for_leaves_while_it_compares_others():
    random = np.random.default_rng(2)
    pager = MemoryPager()
    old = bulk(pager, Spec(1, 2, 0), [sixteen_to_a_first_column(100_000, random)])
    more = np.stack([np.arange(500, 6000, 1000), random.integers(0, 1 << 40, 6)])
    new, *_ = apply(pager, old, np.full(6, INSERT), more)
    words, _, page_words = pager.pages
    lines = page_words // LINE
    before, after = (
        set(pages_of(pager.pages, old).tolist()),
        set(pages_of(pager.pages, new).tolist()),
    )
    leaves = {page for page in before ^ after if words[page * page_words + TYPE] & 255 == LEAF}

    memory, kernels = Memory(words), plain(k_delta)
    pages, state = (
        Pages(memory, np.full(1 << 14, ALL_COLUMNS, np.uint8), page_words),
        np.zeros((2, 20), np.int64),
    )
    refs = [TreeRef(pages, tree.root, tree.height, 2) for tree in (old, new)]
    actions, out = np.empty(100, np.int64), np.empty((2, 100), np.int64)
    kernels.start_delta(*refs, state)
    assert kernels.next_changes(refs[1], 2, state, actions, out) == 6
    assert np.array_equal(out[:, :6], more)
    late = [memory.late(range(lines * page, lines * (page + 1))) for page in leaves]
    above = sum(waits and line // lines not in leaves for line, waits in memory.asked)
    assert len(late) == 12 and np.count_nonzero(late) == 2  # of the first pair
    # words of index pages; 3,600 when 145 pairs of children were compared one by one
    assert above <= 2000


def test_edits_ask_for_the_next_leaf_before_they_write_one():
    random = np.random.default_rng(2)
    pager, spec = MemoryPager(), Spec(1, 2, 0)
    tree = bulk(pager, spec, [sixteen_to_a_first_column(100_000, random)])
    edits = np.stack([np.arange(100, 6000, 600), random.integers(0, 1 << 40, 10)])
    words, _, page_words = pager.pages
    room = Scratch()
    room.fit(page_words, 64, 2, 0, 10)
    memory, none = Memory(words), np.empty((0, 3), np.int64)
    pages = Pages(memory, np.full(1 << 14, ALL_COLUMNS, np.uint8), page_words)
    kernels = plain(k_build, k_shift, k_node_buffer, k_leaf_merge, k_successor, k_apply)
    kernels.apply_edits(
        TreeRef(pages, tree.root, tree.height, 2),
        Shape(2, 0, none, 0),
        Edits(np.full(10, INSERT), edits, 2),
        Part(WHOLE, 0, ALL),
        Output(room.arena, np.arange(1000, 1064), room.dead, 2, 12),
        Changes(np.empty(20, np.int64), np.empty((2, 20), np.int64)),
        Run(room.node, room.walk, room.tallies[0], room.work),
    )
    used, gone = room.tallies[0, [k_apply_layout.USED, k_apply_layout.DEAD]].tolist()
    leaves = [
        page
        for page in room.dead[:gone, 0].tolist()
        if words[page * page_words + TYPE] & 255 == LEAF
    ]
    lines = page_words // LINE
    late = [memory.late(range(lines * page, lines * (page + 1))) for page in leaves]
    # nobody could ask for the first
    assert (used, len(leaves), np.count_nonzero(late)) == (gone, 10, 1)
