"""Readers and fsck recognise an old page where the disk lost the write of a newer one."""

import numpy as np
import pytest

import pagestore
from pagestore.errors import CorruptionError
from pagestore.pages.layout import BIRTH
from pagestore.trees.build import bulk
from pagestore.trees.edit import apply
from pagestore.trees.kernels.node_buffer import SET
from pagestore.trees.read import get, read, read_batches
from pagestore.trees.tree import Spec, Tree
from tests.reliability import stale
from tests.support.memory import MemoryPager

SPEC = Spec(1, 1, 1)


def test_any_page_put_back_to_what_it_held_before_is_noticed():
    outcomes = stale.run(seed=4, amount=60)
    assert (
        outcomes.total() == 60
        and sum(n for outcome, n in outcomes.items() if "error" in outcome) > 20
    )


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1000, 21000, 1000))
def test_many_of_them(seed):
    stale.run(seed, 1000)


def test_the_only_page_of_a_tree(tmp_path):
    """A tree of one leaf has no index page with its birth; the commit's record holds it."""
    path = tmp_path / "s.pages"
    images = []
    with pagestore.open(path, page_size=4096, retain=1) as store:
        for cents in range(12):
            with store.transaction() as txn:
                if not cents:
                    txn.create("balance", "account: int64, cents: int64", key="account")
                txn["balance"].set([(7, cents)])
            images.append(path.read_bytes())
        root = store.snapshot().tree("balance").root
    now = bytearray(path.read_bytes())
    page = slice(root * 4096, (root + 1) * 4096)
    older = {image[page] for image in images} - {bytes(now[page]), bytes(4096), b""}
    assert older
    for content in older:
        now[page] = content
        path.write_bytes(now)
        with pagestore.open(path, mode="r") as store:
            with pytest.raises(CorruptionError) as caught:
                list(store.snapshot()["balance"])
            assert caught.value.page == root
            assert ("birth", root) in {(found.invariant, found.page) for found in store.check()}


def wide_tree(pager: MemoryPager, n: int = 3000) -> Tree:
    return bulk(pager, SPEC, [np.stack([np.arange(n) << 40, np.arange(n)])])


@pytest.mark.parametrize("ask", ["scan", "get", "set", "read"])
def test_a_child_of_another_birth_is_refused_where_it_is_touched_first(ask):
    pager = MemoryPager()
    tree = wide_tree(pager)
    pager.version = 2
    new, *_ = apply(pager, tree, np.array([SET]), np.array([[500 << 40], [7]]))
    changed = [
        page
        for page in range(2, pager._next)
        if pager.pages.words[page * pager.page_words + BIRTH] == 2
    ]
    leaf = min(changed)
    pager._words[leaf * pager.page_words + BIRTH] = 1  # and the checksum with it
    stamped = pager._words[leaf * pager.page_words :][: pager.page_words].copy()
    pager._words[leaf * pager.page_words :][: pager.page_words] = 0
    pager.write(stamped, np.array([leaf]))
    questions = {
        "scan": lambda: list(read_batches(pager.pages, new)),
        "read": lambda: read(pager.pages, new, (499 << 40,), (501 << 40,)),
        "get": lambda: get(pager.pages, new, np.array([[500 << 40]])),
        "set": lambda: apply(pager, new, np.array([SET]), np.array([[500 << 40], [8]])),
    }
    with pytest.raises(CorruptionError) as caught:
        questions[ask]()
    assert caught.value.page == leaf
    assert len(list(read_batches(pager.pages, tree))) == 1  # the old one is whole


def test_births_take_few_bits():
    """All children of a fresh tree were born in one version; those of an old tree in many."""
    pager = MemoryPager()
    tree = wide_tree(pager)
    widths = []
    for version in range(2, 300):
        pager.version = version
        tree, *_ = apply(pager, tree, np.array([SET]), np.array([[version << 40], [-version]]))
        words = pager.pages.words[tree.root * pager.page_words :]
        widths.append(int(words[8 + 2 * 2 + 1]) & 255)
    assert widths[0] == 1 and widths == sorted(widths) and widths[-1] <= 9
