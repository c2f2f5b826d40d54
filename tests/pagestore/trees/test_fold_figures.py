"""The paper's figures of *Scans* and *Interval trees*, with scan-trees whose leaves are single
records.
"""

from decimal import Decimal

import numpy as np
import pytest

from pagestore.admin.tree_check import read_scan_tree
from pagestore.pages.build import write_page
from pagestore.pages.layout import LEAF, Entries, FreshPage, Shape, page_type
from pagestore.pages.operators import MAX, code_of, register_operator
from pagestore.pages.scan_tree import plant, work_words, write_tree
from pagestore.runtime.kernel import TypedKernel
from pagestore.runtime.types import Words
from pagestore.trees.build import bulk
from pagestore.trees.folds import interval_spec, overlaps_counted, stab_many
from pagestore.trees.kernels.folds import fold_page
from pagestore.trees.tree import Spec, fold_array
from tests.support.memory import MemoryPager
from tests.support.paper import example

PAGE_WORDS = 512
WRITE = TypedKernel(write_page, FreshPage, int, int, Entries)
PLANT = TypedKernel(plant, FreshPage, int, Shape, int, Entries, int, int, int, int, Words)
register_operator("digits", lambda a, b: a * 10 ** len(str(b)) + b, 0)


class Figure:
    """A leaf page over values, under a scan-tree of single records: a power of two of them."""

    def __init__(self, values, operator):
        n = len(values)
        self.spec = Spec(9, 1, 1, ((operator, 1),))
        self.scans = fold_array(self.spec)
        self.page = np.zeros(PAGE_WORDS, np.int64)
        node = np.array([range(n), values])
        work = np.zeros(work_words(PAGE_WORDS, 1), np.int64)
        fresh, entries = FreshPage(self.page, 0, PAGE_WORDS, 2, 1), Entries(node, 0, n)
        WRITE.call(fresh, page_type(LEAF, 0, 2, 1, 9), 2, entries)
        depth = n.bit_length() - 1
        PLANT.call(fresh, -1, Shape(1, 1, self.scans, 9), 0, entries, 1, 0, n, depth, work)
        write_tree(self.scans, 0, n, depth, n, 400, self.page, 0, PAGE_WORDS, work)

    def scan(self, i, j):
        """(a_i ⊕ ... ⊕ a_j counted from 1, how many subtrees that took)."""
        acc = np.zeros(4, np.int64)
        fold_page(self.page, 0, 0, 1, self.scans, 0, 1, i - 1, j, acc)
        return int(acc[0]), int(acc[3]) + 1

    def nodes(self):
        return [fold[0] for fold in read_scan_tree(self.page, self.spec.scans, 0).nodes]


def test_the_table_of_intervals():
    """a1..a8 = A18, a1..a3 = A12 ⊕ a3, a2..a8 = a2 ⊕ A34 ⊕ A58, a3..a7 = A34 ⊕ A56 ⊕ a7, a4..a7
    = a4 ⊕ A56 ⊕ a7.
    """
    figure = Figure(range(1, 9), code_of("digits"))
    assert figure.nodes()[1:8] == [12345678, 1234, 5678, 12, 34, 56, 78]
    assert figure.scan(1, 8) == (12345678, 1)
    assert figure.scan(1, 3) == (123, 2)
    assert figure.scan(2, 8) == (2345678, 3)
    assert figure.scan(3, 7) == (34567, 3)
    assert figure.scan(4, 7) == (4567, 3)


@pytest.mark.parametrize("n", [8, 16, 64])
def test_never_more_than_two_subtrees_a_level(n):
    figure = Figure(range(n), MAX)
    for i in range(1, n + 1):
        for j in range(i, n + 1):
            value, subtrees = figure.scan(i, j)
            assert value == j - 1
            assert subtrees <= 2 * (n.bit_length() - 1)


def test_maxsales_of_region_2():
    """maxsales[region] = maxtot <- agg<<maxtot = max(tot)>> sales[region, store] = tot."""
    sales = [int(Decimal(total) * 100) for *_, total in example("sales")["sales"]]
    figure = Figure(sales, MAX)
    assert figure.scan(6, 13) == (900000, 4)  # max(2900.00, 3500.00, 7024.00, 9000.00)
    assert figure.nodes()[:8][1:] == [1500000, 1500000, 900000, 800000, 1500000, 702400, 900000]


INTERVALS = example("interval_tree")
SMALL = INTERVALS["small"]


def test_the_interval_tree_stabbed_at_80():
    pager = MemoryPager(4096, 1 << 10)
    tree = bulk(pager, interval_spec(9, 0, 0), [np.array(INTERVALS["intervals"]).T])
    found = stab_many(pager.pages, tree, np.array([[INTERVALS["point"]]]))
    assert found.T.tolist() == INTERVALS["holding"]


def test_the_small_interval_query():
    """I = {[2,10], [3,7], [5,15], [6,9]}: what contains 10?"""
    pager = MemoryPager(4096, 1 << 10)
    tree = bulk(pager, interval_spec(9, 0, 0), [np.array(SMALL["intervals"]).T])
    assert stab_many(pager.pages, tree, np.array([[SMALL["point"]]])).T.tolist() == SMALL["holding"]


@pytest.mark.parametrize("n", [10**3, 10**4, 10**5])
@pytest.mark.parametrize("reaching", [0, 1, 7, 60])
def test_a_stab_looks_at_little(n, reaching):
    """O((m + 1) log n) folds and records for m matches, among many intervals that begin before
    the point.
    """
    a = 2 * np.arange(n)
    b = a + 1
    b[np.random.default_rng(n).choice(n - 1, reaching, replace=False)] = 4 * n
    pager = MemoryPager(4096, 1 << 12)
    tree = bulk(pager, interval_spec(9, 0, 0), [np.stack([a, b])])
    found, looked = overlaps_counted(pager.pages, tree, np.array([[2 * n], [2 * n]]), 100)
    assert found.shape[1] == reaching
    assert looked <= (reaching + 1) * (2 * np.log2(n) + 3 * 32)
