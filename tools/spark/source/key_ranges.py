"""Cut a tree into key ranges of about the same size, by the separators in its index pages.

root     | 10 -> p | 40 -> q |          the first level from the top with enough entries; no leaf is read
         p | 10 | 20 | 30 |   q | 40 | 50 |
two parts                               (): 10, 20    30, 40, 50 :()
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pagestore.admin.tree_check import Walk
from pagestore.relations.relation import Relation
from pagestore.trees.tree import Tree

ENTRIES_EACH = 8  # index entries per part, at least, if there are enough: subtrees differ in size


class KeyRange(NamedTuple):
    """The records of a tree with lo <= key < hi; bounds are key words, () is unbounded."""

    lo: tuple[int, ...] = ()
    hi: tuple[int, ...] = ()


def key_ranges(relation: Relation, walk: Walk, parts: int) -> list[KeyRange] | None:
    """Return at most `parts` ranges that together cover the relation, or range of one; fewer if it is small.

    None if the range is not contiguous in the tree, since its bounds are texts. O(index pages read).
    """
    stored = relation._stored(*relation.view())
    if stored is None:
        return None
    lo, hi = stored
    keys = _separators(walk, relation.tree, parts * ENTRIES_EACH)
    inside = [key for key in keys if (not lo or key[: len(lo)] > lo) and (not hi or key < hi)]
    cuts = [inside[len(inside) * part // parts] for part in range(1, parts)] if inside else []
    bounds = [lo, *dict.fromkeys(cuts), hi]
    return [KeyRange(*both) for both in pairwise(bounds)]


def _separators(walk: Walk, tree: Tree, enough: int) -> list[tuple[int, ...]]:
    """Return the separators, except the first, of the highest level of index pages with `enough` entries."""
    if tree.height < 2:
        return []
    keys, pages = tree.spec.keys, [tree.root]
    for level in range(tree.height - 1, 0, -1):
        entries = np.concatenate([walk.columns(page)[: keys + 1] for page in pages], axis=1)
        if entries.shape[1] >= enough or level == 1:
            break
        pages = entries[keys].tolist()
    return [*map(tuple, entries[:keys, 1:].T.tolist())]
