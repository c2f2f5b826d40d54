"""Bags: relations that hold a row several times, stored once with its multiplicity in the word
after its columns.

bag        (1, "a")  (1, "a")  (2, "b")        read as that
stored     (1, "a"; 2)  (2, "b"; 1)            the key is all columns
"""

from collections.abc import Iterable, Iterator

import numpy as np

from pagestore.pages.layout import Pages
from pagestore.sorting.tuples import begins
from pagestore.trees.edit import Edits
from pagestore.trees.kernels.node_buffer import ADD, ERASE, INSERT
from pagestore.trees.read import get
from pagestore.trees.tree import Tree


def repeated(batches: Iterable[np.ndarray], rows: int) -> Iterator[np.ndarray]:
    """Yield stored words int64[C, <= rows] as often as their last word says, without that word.

    >>> [batch.tolist() for batch in repeated([np.array([[7, 8], [3, 1]])], 2)]
    [[[7, 7]], [[7, 8]]]
    """
    for batch in batches:
        ends = np.cumsum(np.maximum(batch[-1], 0))
        for at in range(0, int(ends[-1]) if len(ends) else 0, rows):
            places = np.arange(at, min(at + rows, int(ends[-1])))
            yield batch[:-1, np.searchsorted(ends, places, "right")]


def counted(words: np.ndarray) -> np.ndarray:
    """Return the distinct columns of words int64[C, n] in order, with how often each occurs:
    int64[C + 1, m].
    """
    distinct, times = np.unique(words, axis=1, return_counts=True)
    return np.concatenate([distinct, times[None]])


def additions(words: np.ndarray) -> Edits:
    """Return the edits that add each of rows int64[C, n] once."""
    records = counted(words)
    return np.full(records.shape[1], ADD), records


def removals(pages: Pages, tree: Tree, words: np.ndarray, every: bool) -> Edits:
    """Return the edits that remove each of rows int64[K, n] once, or all equal ones if `every`;
    no more than exist.
    """
    gone = counted(words)
    found, stored = get(pages, tree, gone[:-1])
    gone, stored = gone[:, found], stored[0, found]
    if every:
        gone[-1] = 0
        return np.full(gone.shape[1], ERASE), gone
    gone[-1] = -np.minimum(gone[-1], stored)
    return np.full(gone.shape[1], ADD), gone


def row_changes(actions: np.ndarray, words: np.ndarray) -> Edits:
    """Return the changes of a bag's rows, given those of its records (..., multiplicity) in key
    order.

    An erasure and the insertion at its key follow each other.

    >>> actions, words = np.array([ERASE, INSERT, INSERT]), np.array([[7, 7, 8], [3, 1, 2]])
    >>> (row_changes(actions, words)[0] == INSERT).tolist(), row_changes(actions, words)[1].tolist()
    ([False, False, True, True], [[7, 7, 8, 8]])
    """
    if not len(actions):
        return actions, words[:-1]
    starts = np.flatnonzero(begins(words[:-1]))
    more: np.ndarray = np.add.reduceat(np.where(actions == INSERT, words[-1], -words[-1]), starts)
    times: np.ndarray = np.abs(more)
    return np.repeat(np.where(more > 0, INSERT, ERASE), times), np.repeat(
        words[:-1, starts], times, axis=1
    )
