"""The keys of a relation that a plan of it has to read: one range, or several if few texts satisfy
a filter.

c(k) <- r(k, g, v), k > 7, k <= 9.          keys from (8,) up to (10,)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from re import split

import numpy as np

from ivm.lang.ir import MIRRORED, Call, Compare, Const, Type, Var
from ivm.lang.types import has_ids
from ivm.plan.plan import Plan
from ivm.terms.conditions import SAME, Choice, Filter
from ivm.terms.encoder import Encoder
from pagestore.host import WORD_MAX, WORD_MIN

# lo <= key < hi, by prefixes of keys; () leaves an end open
Range = tuple[tuple[int, ...], tuple[int, ...]]
EVERY_KEY: Range = ((), ())
NO_KEY: Range = ((0,), (0,))
TextRange = tuple[bytes, bytes | None]  # from a text up to another, or to the last
# the texts of a range are sought in a relation that has at least so many rows for each of them
SHARE = 8
SEEK_ROWS = 64  # reading so many rows costs as much as a seek


def key_range(plan: Plan, encode: Encoder) -> Range:
    """Return the range of keys outside of which a plan's filters hold nowhere.

    >>> from ivm.lang.ir import Compare
    >>> from ivm.plan.plan import Index, Trie
    >>> x, y = Var("x"), Var("y")
    >>> filters = Compare("=", x, Const(5, "int64")), Compare("<", y, Const(9, "int64"))
    >>> trie = Trie(Index("e", (0, 1)), (0, 1), False, "e(x, y)")
    >>> key_range(Plan(("x", "y"), (trie,), (), (), (), filters), Encoder(None))
    ((5,), (5, 9))
    """
    return prefixes([_interval(plan, name, encode) for name in plan.variables])


def narrowed(
    intervals: Mapping[str, tuple[int, int]], plan: Plan, encode: Encoder
) -> dict[str, tuple[int, int]]:
    """Return the least and the most word of each variable, of intervals and by a plan's filters."""
    narrow = dict[str, tuple[int, int]]()
    for name in plan.variables:
        low, high = _interval(plan, name, encode)
        least, most = intervals.get(name, (WORD_MIN, WORD_MAX))
        narrow[name] = max(low, least), min(high, most)
    return narrow


def key_ranges(plan: Plan, types: Mapping[str, Type], count: int, encode: Encoder) -> list[Range]:
    """Return ranges of keys outside of which a plan's filters hold nowhere, where the relation has
    `count` rows.

    These are several, if a range of texts leaves few ids of the first column.  O(texts of the
    range).
    """
    whole = key_range(plan, encode)
    texts = text_ranges(plan.filters, types).get(Var(plan.variables[0])) if plan.variables else None
    return text_keys(whole, texts, count, encode)


def text_keys(whole: Range, texts: TextRange | None, count: int, encode: Encoder) -> list[Range]:
    """Return the ranges of keys whose first column is one of some texts; one, if there is
    another bound or no gain.
    """
    ids = (
        encode.between(*texts, count // SHARE) if whole == EVERY_KEY and texts is not None else None
    )
    if ids is None:
        return [whole]
    runs = np.split(np.sort(ids), np.flatnonzero(np.diff(np.sort(ids)) > 1) + 1) if len(ids) else []
    if len(runs) > count // SEEK_ROWS:
        return [whole]
    return [((int(run[0]),), (int(run[-1]) + 1,)) for run in runs] or [NO_KEY]


def prefixes(intervals: Sequence[tuple[int, int]]) -> Range:
    """Return a range that has all keys whose columns are in intervals, from a least to a most word
    each.

    >>> prefixes([(5, 5), (WORD_MIN, 8), (2, 2)]), prefixes([(5, 5), (7, 3)])
    (((5,), (5, 9)), ((5, 7), (5, 7)))
    """
    lo = list[int]()
    for least, most in intervals:
        if least > most:
            nothing = (*lo, min(least, WORD_MAX))
            return nothing, nothing
        if least < most:
            return (*lo, *([least] if least > WORD_MIN else ())), after_prefix([*lo, most])
        lo.append(least)
    return (*lo,), after_prefix(lo)


def _interval(plan: Plan, name: str, encode: Encoder) -> tuple[int, int]:
    """Return the least and the most word of a variable that a plan's filters admit."""
    ends = [(op, encode(const)) for f in plan.sure for op, const in _ends(f, name, encode)]
    equal = next((word for op, word in ends if op in ("=", SAME)), None)
    if equal is not None:
        return equal, equal
    above = [word + (op == ">") for op, word in ends if op in (">", ">=")]
    below = [word - (op == "<") for op, word in ends if op in ("<", "<=")]
    return max(above, default=WORD_MIN), min(below, default=WORD_MAX)


def text_ranges(literals: Iterable[object], types: Mapping[str, Type]) -> dict[Var, TextRange]:
    """Return the ranges outside which comparisons with constants exclude a variable's texts."""
    ranges = dict[Var, TextRange]()
    high: bytes | None
    for literal in literals:
        match literal:
            case Compare(
                "=", Call("string:starts_with", (Var() as x, Const(str() as text))), Const(True)
            ):
                low, high = text.encode(), text.encode() + b"\xff"  # no text has this byte
            case Compare("=", Call("string:like", (Var() as x, Const(str() as text))), Const(True)):
                low = split(r"[%_\\]", text)[0].encode()
                high = low + b"\xff"
            case Compare(op, Var() as x, Const(str() as text)) | Compare(
                op, Const(str() as text), Var() as x
            ):
                sign = op if literal.left is x else MIRRORED.get(op, op)
                if sign not in ("<", "<=", ">", ">="):
                    continue
                end = text.encode() + b"\0" * (sign in (">", "<="))  # the next text
                low, high = (end, None) if sign in (">", ">=") else (b"", end)
            case _:
                continue
        if types[x.name] == "string":
            least, most = ranges.get(x, (b"", None))
            ranges[x] = (
                max(least, low),
                min((end for end in (most, high) if end is not None), default=None),
            )
    return ranges


def _ends(filter_: Filter, name: str, encode: Encoder) -> Iterator[tuple[str, Const]]:
    """Yield the operator and constant of a comparison of a variable with a constant whose word
    is in its order.
    """
    if isinstance(filter_, Choice):
        return
    left, op, right = filter_.left, filter_.op, filter_.right
    if not isinstance(left, Var):
        left, op, right = right, MIRRORED.get(op, op), left
    const = encode.constant(right) if left == Var(name) else None
    if const is None or const.value is None:
        return
    if op in ("=", SAME) or not has_ids(const.type):
        yield op, const


def after_prefix(prefix: Sequence[int]) -> tuple[int, ...]:
    """Return the least prefix after all keys with this one; () if there is none."""
    while prefix and prefix[-1] == WORD_MAX:
        prefix = prefix[:-1]
    return (*prefix[:-1], prefix[-1] + 1) if prefix else ()
