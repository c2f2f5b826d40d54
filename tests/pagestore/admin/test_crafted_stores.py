"""Stores with right checksums that lie end in answers or errors, never in a signal."""

import numpy as np
import pytest

import pagestore
from pagestore.errors import CorruptionError
from pagestore.pages.layout import BIRTH, CRC, ENTRY_COUNT, HEADER, ID, SCAN, TYPE
from pagestore.pages.operators import COUNT
from pagestore.pages.verify import enter
from pagestore.trees.build import bulk
from pagestore.trees.read import get, pages_of, read_batches
from pagestore.trees.tree import Spec, Tree
from tests.reliability import crafted_stores
from tests.support.memory import MemoryPager

KEYS = np.arange(150_000) << 45


def test_some_crafted_stores():
    outcomes = crafted_stores.run(seed=1, amount=100)
    assert outcomes.total() > 100 and any("CorruptionError" in outcome for outcome in outcomes)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_of_them(seed):
    crafted_stores.run(seed, 10_000)


class Crafted:
    """A tree of three levels, of which a page is changed and stamped anew."""

    def __init__(self) -> None:
        self.pager = MemoryPager()
        rows = np.stack([KEYS, KEYS])
        self.tree = bulk(self.pager, Spec(1, 1, 1, ((COUNT, 0),)), [rows])
        assert self.tree.height == 3
        self.pages = pages_of(self.pager.pages, self.tree).tolist()
        words = self.pager.pages.words
        level = [int(words[page * self.pager.page_words + TYPE]) >> 8 & 255 for page in self.pages]
        self.leaf, self.index = self.pages[level.index(0)], self.pages[level.index(1)]

    def change(self, page: int, changes: dict[int, int]) -> None:
        at = page * self.pager.page_words
        words = self.pager._words[at : at + self.pager.page_words].copy()
        for word, value in changes.items():
            words[word] = value
        self.pager._words[at : at + self.pager.page_words] = 0
        self.pager.write(words, np.array([page]))
        self.pager._seen[:] = 0

    def word(self, page: int, at: int) -> int:
        return int(self.pager._words[page * self.pager.page_words + at])


LIES = {
    "more entries than a page holds": lambda c, page: {ENTRY_COUNT: 1025},
    "no entries": lambda c, page: {ENTRY_COUNT: 0},
    "fewer than none": lambda c, page: {ENTRY_COUNT: -(1 << 62)},
    "a column behind the page": lambda c, page: {HEADER + 1: 512 << 8 | 8},
    "a column before the columns": lambda c, page: {HEADER + 1: 3 << 8 | 8},
    "a column far away": lambda c, page: {HEADER + 1: 1 << 61 | 8},
    "a column of 65 bits": lambda c, page: {HEADER + 1: c.word(page, HEADER + 1) & ~255 | 65},
    "columns that are too wide": lambda c, page: {
        HEADER + 3: c.word(page, HEADER + 3) & ~255 | 64,
        ENTRY_COUNT: 400,
    },
    "too few columns": lambda c, page: {TYPE: c.word(page, TYPE) & ~(255 << 16) | 1 << 16},
    "no columns": lambda c, page: {TYPE: c.word(page, TYPE) & ~(255 << 16)},
    "more columns than there is room for": lambda c, page: {TYPE: c.word(page, TYPE) | 255 << 16},
    "other folds": lambda c, page: {TYPE: c.word(page, TYPE) ^ 3 << 24},
    "another tree": lambda c, page: {TYPE: c.word(page, TYPE) ^ 1 << 32},
    "another level": lambda c, page: {TYPE: c.word(page, TYPE) ^ 2 << 8},
    "another number": lambda c, page: {ID: page + 1},
    "another birth": lambda c, page: {BIRTH: 7},
    "a ScanTree behind the page": lambda c, page: {SCAN: 1 | 511 << 8 | 9 << 32},
    "a ScanTree in the header": lambda c, page: {SCAN: 1 | 2 << 8 | 9 << 32},
    "a ScanTree of more leaves than entries": lambda c, page: {SCAN: 7 | 300 << 8 | 9 << 32},
    "a ScanTree that is too deep to be": lambda c, page: {SCAN: 255 | 300 << 8 | 9 << 32},
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", ["leaf", "index"])
def test_a_page_that_says_what_cannot_be_is_refused_at_first_touch(lie, kind):
    crafted = Crafted()
    page = getattr(crafted, kind)
    crafted.change(page, LIES[lie](crafted, page))
    with pytest.raises(CorruptionError) as caught:
        list(read_batches(crafted.pager.pages, crafted.tree))
    assert caught.value.page == page
    with pytest.raises(CorruptionError):
        get(crafted.pager.pages, crafted.tree, KEYS[None])


@pytest.mark.parametrize("child_id", [0, -1, 1 << 14, 1 << 40, -(1 << 62)])
def test_where_a_child_is_no_page_its_parent_lies(child_id):
    crafted = Crafted()
    crafted.change(
        crafted.index,
        {HEADER + 2: child_id, HEADER + 3: crafted.word(crafted.index, HEADER + 3) & ~255},
    )
    with pytest.raises(CorruptionError) as caught:
        list(read_batches(crafted.pager.pages, crafted.tree))
    assert caught.value.page == crafted.index


def test_a_page_with_fewer_columns_than_its_reader_wants_is_refused_though_it_was_verified():
    pager = MemoryPager()
    narrow, wide = (
        bulk(pager, Spec(1, 1, values), [np.ones((1 + values, 1), np.int64)]) for values in (0, 5)
    )
    list(read_batches(pager.pages, narrow))
    with pytest.raises(CorruptionError):
        list(read_batches(pager.pages, Tree.at(narrow.root, 1, 1, wide.spec, 0)))


def test_a_page_that_was_verified_is_not_looked_at_again():
    """Entering a verified page compares one byte and reads none of the page's words."""
    crafted = Crafted()
    list(read_batches(crafted.pager.pages, crafted.tree))
    pages = crafted.pager.pages
    nothing = pages._replace(words=np.zeros_like(pages.words))
    level = crafted.tree.height - 1
    assert (
        enter.py_func(nothing, crafted.tree.pointer, level, 2)
        == crafted.tree.root * pages.page_words
    )


def test_counts_that_lie_end_in_an_error(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path, page_size=4096) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64", scans=["count"]).insert([k << 50 for k in range(2000)])
        relation = store.snapshot()["r"]
        root = relation.tree.root
    data = np.frombuffer(bytearray(path.read_bytes()), np.int64)
    page = data[root * 512 : (root + 1) * 512]
    page[HEADER + 4] -= 50  # fold 0 of all children
    page[SCAN] = 0
    page[CRC] = crafted_stores.crc32c(page[1:].tobytes())
    path.write_bytes(data.tobytes())
    with pagestore.open(path, mode="r") as store:
        relation = store.snapshot()["r"]
        for rank in range(1900, 2000):
            with pytest.raises(CorruptionError):
                relation.select(rank)
