"""A cell's part of an exact total, as floats whose exact sum it is, so that nothing is rounded before the view.

The state of a total (ivm/views/exact_sum.py) has a word of 64 bits for each place of 32 bits. Each half is
exactly a float: a number of at most 32 bits, shifted by the place.
"""

import numpy as np
import pyarrow as pa

from ivm.errors import RangeError
from ivm.lang.ir import Predicate
from ivm.spark.layout import PLACE
from ivm.views.exact_sum import INFINITE, UNIT
from ivm.views.layouts import APART
from pagestore.host import INSERT, Snapshot, Tree, delta, pages_of_both, read_batches


def total_parts(old: Snapshot | None, new: Snapshot, predicate: Predicate) -> pa.Table:
    """Return the changes of a total's parts between two versions: group columns, place, part, `_change_type`.

    Without an old version, all parts are insertions. O(changes). Raises RangeError for a part beyond float64.
    """
    name = f"{APART}{predicate.name}"
    tree = new.tree(name)
    if old is None:
        actions, rows = _all(new, tree)
    else:
        actions, rows = delta(pages_of_both(old, new), old.tree(name), tree)
    keys = len(predicate.keys)
    group, (places, amounts) = rows[: keys or 1], rows[keys or 1 : (keys or 1) + 2]
    low, high = amounts & 0xFFFFFFFF, amounts >> 32  # amount = high * 2^32 + low
    parts, numbers, found = [], [], []
    for half, words in enumerate((low, high)):
        kept = (words != 0) | ((half == 0) & (amounts == 0))
        values = _floats(words[kept], places[kept] + half, predicate.name)
        parts.append(values)
        numbers.append(2 * places[kept] + half)
        found.append(np.flatnonzero(kept))
    which = np.concatenate(found)
    infinite = places[which] >= INFINITE
    value = np.where(infinite, np.where(places[which] == INFINITE, np.inf, -np.inf), np.concatenate(parts))
    columns = [
        new.decode(type_, np.ascontiguousarray(group[place, which])) for place, type_ in enumerate(predicate.keys)
    ]
    kinds = np.where(actions[which] == INSERT, "insert", "delete")
    return pa.table(
        [*columns, pa.array(np.concatenate(numbers)), pa.array(value), pa.array(kinds, pa.string())],
        names=[*predicate.columns[:keys], PLACE, predicate.columns[-1], "_change_type"],
    )


def _all(snap: Snapshot, tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    rows = np.concatenate([np.empty((tree.spec.columns, 0), np.int64), *read_batches(snap.pages, tree)], axis=1)
    return np.full(rows.shape[1], INSERT), rows


def _floats(words: np.ndarray, places: np.ndarray, name: str) -> np.ndarray:
    """Return words * 2^(32 place - UNIT) as floats; results in the places of infinities are not used."""
    with np.errstate(over="ignore"):
        values = np.ldexp(words.astype(np.float64), np.minimum(32 * places - UNIT, 2048).astype(np.int32))
    if not np.isfinite(values[places < INFINITE]).all():
        raise RangeError(f"{name}: what one cell makes of a total is beyond the range of float64")
    return np.asarray(values)
