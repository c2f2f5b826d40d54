"""Labels for new texts: numbers between those of their neighbours; where none is free, nearby texts are relabelled.

    gap         100 .......... 200             two new texts between two others
    labels      100   133  166 200             their labels part the gap
    full gap    100 101                        nothing is between: the labels of the least range around it that has
                                               room are spread out, and some texts get other labels

The range is one of 2^b labels, aligned, that has at most (2 / CROWD)^b texts; so an insertion moves O(log texts) texts,
amortised, in any order of insertion (Bender, Cole, Demaine, Farach-Colton, Zito 2002, *Two simplified algorithms for
maintaining order in a list*). Before the first text and after the last one, new texts are `STRIDE` apart, so that texts
added in ascending order leave the room after them whole.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pagestore.values.text_order import LABEL_END, StoredOrder

STRIDE = 1 << 32
CROWD = 1.4
LABEL_BITS = 62


class Gaps(NamedTuple):
    """Where new texts go: each gap's neighbours (their labels, and the left one's id), and the number of new texts."""

    left: np.ndarray
    right: np.ndarray
    left_ids: np.ndarray
    counts: np.ndarray


def gaps_at(order: StoredOrder, ranks: np.ndarray) -> Gaps:
    """Return the gaps for texts of these ranks, ascending, in an order."""
    ranks, counts = np.unique(ranks, return_counts=True)
    left, left_ids = np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64)
    right = np.full(len(ranks), LABEL_END)
    behind, before = ranks > 0, ranks < order.count
    if behind.any():
        left[behind], left_ids[behind] = order.entries(ranks[behind] - 1)
    if before.any():
        right[before] = order.entries(ranks[before])[0]
    return Gaps(left, right, left_ids, counts)


def fitting_labels(gaps: Gaps) -> tuple[np.ndarray, np.ndarray]:
    """Return labels int64[n] of all texts that go to the gaps, and which gaps are full (with meaningless labels)."""
    left, right, _, counts = gaps
    first, last = left == 0, right == LABEL_END
    step = (right - left) // (counts + 1)
    step = np.where(first | last, np.minimum(step, STRIDE), step)
    starts = np.where(first, right - step * (counts + 1), left)
    starts = np.where(first & last, LABEL_END // 2 - step * (counts // 2), starts)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + np.repeat(step, counts) * (within + 1), step == 0


def make_room(
    order: StoredOrder, left: int, ids: np.ndarray, replace: Callable[[np.ndarray, np.ndarray], None]
) -> None:
    """Insert new ids int64[n] after the label `left` in this order, relabelling the least range that has room for them.

    Calls `replace` with the labels and ids int64[2, n] that were in the range, and those that replace them.
    """
    for bits in range(1, LABEL_BITS + 1):
        start = left >> bits << bits
        low, high, behind = order.labels_below(np.array([start, start + (1 << bits), left + 1])).tolist()
        count = high - low + len(ids)
        if bits == LABEL_BITS or (count <= (2 / CROWD) ** bits and count < 1 << (bits - 1)):
            break
    before = order.between(low, high)
    at = behind - low
    after = np.concatenate([before[1, :at], ids, before[1, at:]])
    labels = start + (np.arange(count) + 1) * ((1 << bits) // (count + 1))
    replace(before, np.stack([labels, after]))
