"""The host of docs/embedding.md, taken from that page, and the conformance suite against it and
against broken hosts.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from pagestore import compiled
from pagestore.conformance import check
from pagestore.trees.build import bulk
from pagestore.trees.tree import Spec
from pagestore.versions import hosts
from tests.support.memory import MemoryPager

PAGE = Path(__file__).parents[2] / "docs" / "embedding.md"


@pytest.fixture(scope="module")
def page() -> dict:
    """The names that the page's Python blocks define."""
    names: dict = {"__name__": "embedding"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_tour(page, tmp_path):
    page["tour"](tmp_path / "counters.pages")


def test_what_follows_is_carried_on(page, tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "_hosts", {})
    page["follow"](tmp_path / "counters.pages")


def test_the_server_conforms(page):
    page["conforms"]()


def test_the_kernel_sums_what_the_items_say(page, tmp_path):
    counters = page["Counters"](tmp_path / "c.pages")
    for key in range(-20_000, 20_000, 3):
        counters.put(key, key % 101)
    counters.commit()
    for low, high in ((-20_000, 20_000), (0, 0), (5, 17), (-7, 9_000), (19_999, 30_000)):
        assert counters.sum(low, high) == sum(
            value for key, value in counters.items() if low <= key < high
        )
    counters.close()


def test_the_suite_notices_a_host_that_forgets(page):
    class Forgetful(page["Counters"]):
        def remove(self, key):
            pass

    with pytest.raises(AssertionError):
        check(Forgetful)


def test_the_suite_notices_a_host_that_keeps_abandoned_edits(page):
    class Greedy(page["Counters"]):
        def abandon(self):
            self.commit()

    with pytest.raises(AssertionError, match="abandoned"):
        check(Greedy, seed=1)


def test_the_compiled_layer_is_documented():
    for name in compiled.__all__:
        assert name in compiled.__doc__


def test_a_cursor_goes_from_the_first_record_to_the_last():
    pager, keys = MemoryPager(512), np.arange(0, 3000, 3)
    tree = bulk(pager, Spec(1, 1, 0), [keys[None]])

    @njit
    def read(tree, cursor, out):
        n, status = 0, compiled.first(tree, cursor, 0)
        while status == 1:
            for slot in range(cursor[compiled.LEAF_ENTRIES]):
                out[n] = compiled.field(tree.pages.words, cursor[compiled.LEAF_PAGE], 0, slot)
                n += 1
            status = compiled.next_leaf(tree, cursor, 0)
        return n

    found = np.empty(len(keys), np.int64)
    cursor = np.empty(compiled.CURSOR_WORDS, np.int64)
    assert read(compiled.TreeRef(pager.pages, tree.root, tree.height, 1), cursor, found) == len(
        keys
    )
    assert (found == keys).all() and tree.height > 1
