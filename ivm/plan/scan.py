"""Read a relation once, by blocks, for every plan whose body is this relation alone.

    a[g] = t <- agg<<t = sum(v)>> r(k, g, v), k > 7.        one pass over the columns g and v, from the key 8 on,
    b[x] = n <- agg<<n = count()>> r(y, x, _), y > 7.       that both rules share, as they share their filter and
    c(k) <- r(k, g, v), g = 3.                              their groups, whatever their variables are called

Filters that cannot fail are applied here to whole columns; those on the first columns of the key become the range of
keys that is read, or several ranges, if few texts satisfy what bounds the first one.  What may fail is left to
views/heads.py, since another literal may exclude it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from re import split
from typing import NamedTuple

import numpy as np

from ivm.lang.ir import MIRRORED, Call, Compare, Const, Type, Var, variables
from ivm.lang.types import has_ids
from ivm.plan.plan import Plan
from ivm.terms.conditions import Choice, Filter, compared, renamed_filter
from ivm.terms.encoder import Encoder
from ivm.terms.evaluator import SAME, Batch, Evaluator
from pagestore.host import WORD_MAX, WORD_MIN, Pages, Tree, read_batches

Range = tuple[tuple[int, ...], tuple[int, ...]]  # lo <= key < hi, by prefixes of keys; () leaves an end open
EVERY_KEY: Range = ((), ())
NO_KEY: Range = ((0,), (0,))
Batches = dict[int, Batch]
Masks = dict[tuple[Filter, frozenset[str]], np.ndarray]  # bool[n], by a filter and the columns that may be null
TextRange = tuple[bytes, bytes | None]  # from a text up to another, or to the last
SHARE = 8  # the texts of a range are sought in a relation that has at least so many rows for each of them
SEEK_ROWS = 64  # reading so many rows costs as much as a seek


class Wanted(NamedTuple):
    """A plan of one relation, the variables whose columns are needed, and the types of its rule's variables."""

    plan: Plan
    names: frozenset[str]
    types: Mapping[str, Type]


def scan(pages: Pages, tree: Tree, wanted: Sequence[Wanted], encode: Encoder) -> Iterator[tuple[int, Batches]]:
    """Yield the number of rows of each block of a relation that is read, and a batch by the place of each plan that
    reads it, with the bindings that pass the plan's `sure` filters; for each plan one block at least.

    Plans whose ranges of keys overlap are evaluated in one pass: each column is read once, each filter is evaluated
    once, and plans with the same filters get the same arrays.  O(rows of these ranges).  Raises CorruptionError.
    """
    ranges = [
        (place, keys)
        for place, one in enumerate(wanted)
        for keys in key_ranges(one.plan, one.types, tree.count, encode)
    ]
    readings = [_Reading.of(one) for one in wanted]
    for (lo, hi), some in _passes(ranges):
        columns = sorted({column for number in some for column in readings[number].columns}) or [0]
        at = {column: place for place, column in enumerate(columns)}
        alike: dict[object, list[int]] = {}
        for number in some:
            alike.setdefault((readings[number].filters, readings[number].nulls), []).append(number)
        blocks = read_batches(pages, tree, lo, hi, tuple(columns))
        for block in chain([next(blocks, np.empty((len(columns), 0), np.int64))], blocks):
            batch = Batch(block.shape[1], {str(column): block[place] for column, place in at.items()}, {})
            masks: Masks = {}
            found: Batches = {}
            for numbers in alike.values():
                which = readings[numbers[0]].passing(batch, encode, masks)
                needed = {column for number in numbers for column in readings[number].places.values()}
                taken = {c: block[at[c]] if which is None else block[at[c]].take(which) for c in needed}
                left = batch.n if which is None else len(which)
                for number in numbers:
                    places = readings[number].places.items()
                    found[number] = Batch(left, {name: taken[column] for name, column in places}, {})
            yield batch.n, found


class _Reading(NamedTuple):
    """What a plan reads of its relation: columns, and of what passes its filters the `places` of needed variables.

    In `filters` and `types` each variable is named by its column, so that rules may name it as they like; the columns
    `nulls` may be null.
    """

    columns: set[int]
    places: Mapping[str, int]
    filters: tuple[Filter, ...]
    types: Mapping[str, Type]
    nulls: frozenset[str]

    @classmethod
    def of(cls, one: Wanted) -> "_Reading":
        (trie,) = one.plan.tries
        places = {name: trie.index.order[depth] for depth, name in enumerate(one.plan.variables)}
        places |= {read.variable: read.column for read in one.plan.reads}
        names = {Var(name): Var(str(column)) for name, column in places.items()}
        filtered = {v.name for v in variables(*compared(one.plan.sure))}
        types = {str(places[name]): one.types[name] for name in filtered & one.types.keys()}
        nulls = frozenset(str(places[name]) for name in filtered & one.plan.null_words)
        filters = tuple(renamed_filter(f, names) for f in one.plan.sure)
        columns = {places[name] for name in filtered | one.names if name in places}
        needed = {name: column for name, column in places.items() if name in one.names}
        return cls(columns, needed, filters, types, nulls)

    def passing(self, batch: Batch, encode: Encoder, masks: Masks) -> np.ndarray | None:
        """Return which rows pass the filters, None for all; `masks` says it for each filter that was evaluated."""
        keep: np.ndarray | None = None
        for one in self.filters:
            if (one, self.nulls) not in masks:
                masks[one, self.nulls] = Evaluator(self.types, encode, self.nulls).passes(one, batch)[0]
            keep = masks[one, self.nulls] if keep is None else keep & masks[one, self.nulls]
        return None if keep is None or keep.all() else np.flatnonzero(keep)


def _passes(ranges: Sequence[tuple[int, Range]]) -> list[tuple[Range, list[int]]]:
    """Return ranges that do not overlap, each with the numbers of those that it includes.

    >>> _passes([(0, ((9,), (12,))), (1, ((1,), (2,))), (2, ((1, 5), (1, 8))), (3, ((10,), ()))])
    [(((1,), (2,)), [1, 2]), (((9,), ()), [0, 3])]
    """
    found = list[tuple[Range, list[int]]]()
    for number, (lo, hi) in sorted(ranges, key=lambda one: one[1][0]):
        if found and (not (last := found[-1][0])[1] or lo < last[1]):
            some = [*dict.fromkeys((*found[-1][1], number))]
            found[-1] = ((last[0], max(last[1], hi) if last[1] and hi else ()), some)
        else:
            found.append(((lo, hi), [number]))
    return found


def key_range(plan: Plan, encode: Encoder) -> Range:
    """Return the range of keys outside of which a plan's filters hold nowhere.

    >>> from ivm.lang.ir import Compare
    >>> from ivm.plan.plan import Index, Trie
    >>> x, y = Var("x"), Var("y")
    >>> filters = Compare("=", x, Const(5, "int64")), Compare("<", y, Const(9, "int64"))
    >>> trie = Trie(Index("e", (0, 1)), (0, 1), False, "e(x, y)")
    >>> key_range(Plan(("x", "y"), (trie,), (), (), (), filters), lambda const: const.value)
    ((5,), (5, 9))
    """
    return prefixes(_interval(plan, name, encode) for name in plan.variables)


def key_ranges(plan: Plan, types: Mapping[str, Type], count: int, encode: Encoder) -> list[Range]:
    """Return ranges of keys outside of which a plan's filters hold nowhere, where the relation has `count` rows.

    These are several, if a range of texts leaves few ids of the first column.  O(texts of the range).
    """
    whole = key_range(plan, encode)
    texts = text_ranges(plan.filters, types).get(Var(plan.variables[0])) if plan.variables else None
    return text_keys(whole, texts, count, encode)


def text_keys(whole: Range, texts: TextRange | None, count: int, encode: Encoder) -> list[Range]:
    """Return the ranges of keys whose first column is one of some texts; one, if there is another bound or no gain."""
    ids = encode.between(*texts, count // SHARE) if whole == EVERY_KEY and texts is not None else None
    if ids is None:
        return [whole]
    runs = np.split(np.sort(ids), np.flatnonzero(np.diff(np.sort(ids)) > 1) + 1) if len(ids) else []
    if len(runs) > count // SEEK_ROWS:
        return [whole]
    return [((int(run[0]),), (int(run[-1]) + 1,)) for run in runs] or [NO_KEY]


def prefixes(intervals: Iterable[tuple[int, int]]) -> Range:
    """Return a range that has all keys whose columns are in intervals, from a least to a most word each.

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
    ends = [(op, encode(const)) for f in plan.sure for op, const in _ends(f, name)]
    equal = next((word for op, word in ends if op in ("=", SAME)), None)
    if equal is not None:
        return equal, equal
    above = [word + (op == ">") for op, word in ends if op in (">", ">=")]
    below = [word - (op == "<") for op, word in ends if op in ("<", "<=")]
    return max(above, default=WORD_MIN), min(below, default=WORD_MAX)


def text_ranges(literals: Iterable[object], types: Mapping[str, Type]) -> dict[Var, TextRange]:
    """Return the ranges outside which comparisons with constants exclude a variable's texts."""
    found = dict[Var, TextRange]()
    high: bytes | None
    for literal in literals:
        match literal:
            case Compare("=", Call("string:starts_with", (Var() as x, Const(str() as text))), Const(True)):
                low, high = text.encode(), text.encode() + b"\xff"  # no text has this byte
            case Compare("=", Call("string:like", (Var() as x, Const(str() as text))), Const(True)):
                low = split(r"[%_\\]", text)[0].encode()
                high = low + b"\xff"
            case Compare(op, Var() as x, Const(str() as text)) | Compare(op, Const(str() as text), Var() as x):
                own = op if literal.left is x else MIRRORED.get(op, op)
                if own not in ("<", "<=", ">", ">="):
                    continue
                end = text.encode() + b"\0" * (own in (">", "<="))  # the next text
                low, high = (end, None) if own in (">", ">=") else (b"", end)
            case _:
                continue
        if types[x.name] == "string":
            least, most = found.get(x, (b"", None))
            found[x] = max(least, low), min((one for one in (most, high) if one is not None), default=None)
    return found


def _ends(filter_: Filter, name: str) -> Iterator[tuple[str, Const]]:
    """Yield the operator and constant of a comparison of a variable with a constant whose word is in its order."""
    if isinstance(filter_, Choice):
        return
    left, op, right = filter_.left, filter_.op, filter_.right
    if isinstance(left, Const):
        left, op, right = right, MIRRORED.get(op, op), left
    if left != Var(name) or not isinstance(right, Const) or right.value is None:
        return
    if op in ("=", SAME) or not has_ids(right.type):
        yield op, right


def after_prefix(prefix: Sequence[int]) -> tuple[int, ...]:
    """Return the least prefix after all keys with this one; () if there is none."""
    while prefix and prefix[-1] == WORD_MAX:
        prefix = prefix[:-1]
    return (*prefix[:-1], prefix[-1] + 1) if prefix else ()
