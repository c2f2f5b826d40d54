"""How trace rows are packed into words: the range of each column, its bits, and which columns are not sorted by.

    (x, a, b) with x in 0..999, a and b in 0..4095        10 + 13 + 13 bits: one word, sorted as one number

The least and the greatest word have codes of their own where they mean "no bound".
"""

from collections.abc import Sequence

import numpy as np

from ivm.join.flat_trie import Flat, level_bounds
from ivm.join.kernels import flat_layout, join_layout
from ivm.join.plan_arrays import Sensors, Shape
from pagestore.host import WORD_MAX, WORD_MIN, Coding, coding_within

WIDTH_MAX = 62  # bits of a column in packed trace rows: its code is shifted, and must not become negative


def coding_of(flat: Flat, shape: Shape, sensors: Sensors, s: int, exact: bool) -> Coding | None:
    """Return how to pack the trace rows of a sensor; None where they stay columns, as on level 0, which a range bounds.

    The least and the greatest word have codes only in a and b, where they mean "no bound". Rows are written context by
    context, in order, so columns after a and b are sorted already. In an `exact` trace b is a, if a was sought and
    found, or else the key after a, in the slice given by the columns before: so a gets a bit that says whether b
    differs, and rows need not be sorted by b.
    """
    ((atom, depth),) = np.argwhere(sensors.sensor == s)
    level, prefix = shape.argument_level[atom, depth], shape.argument_level[atom, :depth]
    sources = sensors.sources[s, : sensors.widths[s]].tolist()
    least, greatest = _reach(flat, shape, level)
    reach = max(least, WORD_MIN + 1), min(greatest, WORD_MAX - 1)
    lows, highs = zip(*(level_bounds(flat, shape, source) if source >= 0 else reach for source in sources), strict=True)
    a, b = sources.index(-1), sources.index(-2)
    marked = a if exact and {*sources[:a]} == {*prefix.tolist()} else -1
    coding = coding_within(lows, highs, len(sources) - (b if marked == a else b + 1), marked)
    if (
        level == 0
        or min(lows) == WORD_MIN
        or max(highs) == WORD_MAX
        or coding is None
        or coding.width.max() > WIDTH_MAX
    ):
        return None
    return coding


def _reach(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """Return the range of a and b in a level's trace rows: keys, successors of all but the last, and bounds."""
    low, high = level_bounds(flat, shape, level)
    for bound in shape.bounds[shape.bound_start[level] : shape.bound_start[level + 1]].tolist():
        least = greatest = bound[join_layout.CONSTANT]
        for other, sign in zip(bound[join_layout.OTHER :: 2], bound[join_layout.OTHER + 1 :: 2], strict=True):
            if other >= 0:
                ends = sorted(sign * key for key in level_bounds(flat, shape, other))
                least, greatest = least + ends[0], greatest + ends[1]
        low, high = min(low, least), max(high, greatest)
    return low, high


def code_table(codings: Sequence[Coding | None], sources: np.ndarray) -> np.ndarray:
    """Return the codings of sensors as kernels take them, codes[S, C, CODE] (see join/kernels/flat_layout.py)."""
    codes = np.full((*sources.shape, flat_layout.CODE), -1, np.int64)
    for code, coding, source in zip(codes, codings, sources, strict=True):
        if coding:
            source, at = source[: len(coding.width)], coding.bits - np.cumsum(coding.width)
            fields = np.stack([coding.low, coding.high, at, source, np.full(len(at), coding.tail)], axis=1)
            code[: len(at), : flat_layout.MARK] = fields[np.argsort(np.where(source < 0, -source, source + 3))]
            code[0, flat_layout.MARK] = coding.marked >= 0
            lows, _, at = code[2 : len(at), : flat_layout.SOURCE].T
            code[0, flat_layout.NOUGHT] = 0 if coding.tail else ((1 - lows) << at).sum()
    return codes
