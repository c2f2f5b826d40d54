"""Read a relation once, by blocks, for every plan whose body is this relation alone.

    a[g] = t <- agg<<t = sum(v)>> r(k, g, v), k > 7.        one pass over the columns g and v, from the key 8 on,
    b[g] = n <- agg<<n = count()>> r(k, g, v), k > 7.       that both rules share, as they share their filter
    c(k) <- r(k, g, v), g = 3.

Filters that cannot fail are applied here to whole columns; those on the first columns of the key become the range of
keys that is read.  What may fail is left to views/heads.py, since another literal may exclude it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ivm.lang.ir import MIRRORED, Const, Type, Var, variables
from ivm.lang.types import TEXTS
from ivm.plan.expression import SAME, Batch, Encoder, Evaluator
from ivm.plan.plan import Choice, Filter, Plan, compared
from pagestore.host import WORD_MAX, Pages, Tree, read_batches

Range = tuple[tuple[int, ...], tuple[int, ...]]  # lo <= key < hi, by prefixes of keys; () leaves an end open
WHOLE: Range = ((), ())


class Wanted(NamedTuple):
    """A plan of one relation, the variables whose columns are needed, and the types of its rule's variables."""

    plan: Plan
    names: frozenset[str]
    types: Mapping[str, Type]


def scan(pages: Pages, tree: Tree, wanted: Sequence[Wanted], encode: Encoder) -> Iterator[list[Batch]]:
    """Yield a batch for each of some plans from every block of their relation, with the bindings that pass the
    plan's `sure` filters; one batch at least.  O(rows of the common range of keys).  Raises CorruptionError.
    """
    places = [_places(one) for one in wanted]
    columns = sorted({column for one in places for column in one.values()}) or [0]
    at = {column: number for number, column in enumerate(columns)}
    lo, hi = _common([key_range(one.plan, encode) for one in wanted])
    alike: dict[object, list[int]] = {}
    for number, one in enumerate(wanted):
        alike.setdefault((one.plan.tries[0].text, one.plan.sure), []).append(number)
    groups = [
        (same, Evaluator(wanted[same[0]].types, encode, wanted[same[0]].plan.null_words)) for same in alike.values()
    ]
    blocks = read_batches(pages, tree, lo, hi, tuple(columns))
    for block in chain([next(blocks, np.empty((len(columns), 0), np.int64))], blocks):
        found = [Batch(0, {}, {})] * len(wanted)
        for same, evaluator in groups:
            named = {name: block[at[column]] for number in same for name, column in places[number].items()}
            kept = passing(wanted[same[0]].plan.sure, Batch(block.shape[1], named, {}), evaluator)
            for number in same:
                found[number] = kept._replace(columns={name: kept.columns[name] for name in places[number]})
        yield found


def _places(one: Wanted) -> dict[str, int]:
    """Map the variables that a plan needs or filters by to the relation's columns."""
    (trie,) = one.plan.tries
    names = one.names.union(v.name for v in variables(*compared(one.plan.sure)))
    found = {name: trie.index.order[depth] for depth, name in enumerate(one.plan.variables)}
    found |= {read.variable: read.column for read in one.plan.reads}
    return {name: column for name, column in found.items() if name in names}


def passing(filters: Sequence[Filter], batch: Batch, evaluator: Evaluator) -> Batch:
    """Return the bindings that pass filters, which cannot fail."""
    keep: np.ndarray | None = None
    for one in filters:
        holds, _ = evaluator.passes(one, batch)
        keep = holds if keep is None else keep & holds
    if keep is None or keep.all():
        return batch
    which = np.flatnonzero(keep)
    return Batch(len(which), {name: column.take(which) for name, column in batch.columns.items()}, {})


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
    lo, hi = list[int](), list[int]()
    for name in plan.variables:
        ends = [(op, encode(const)) for f in plan.sure for op, const in _ends(f, name)]
        equal = next((word for op, word in ends if op in ("=", SAME)), None)
        if equal is not None:
            lo.append(equal)
            hi.append(equal)
            continue
        above = [word + (op == ">") for op, word in ends if op in (">", ">=")]
        below = [word + (op == "<=") for op, word in ends if op in ("<", "<=")]
        if below and min(below) <= WORD_MAX:
            return _above(lo, above), (*hi, min(below))
        return _above(lo, above), after_prefix(hi)
    return (*lo,), after_prefix(hi)


def _ends(filter_: Filter, name: str) -> Iterator[tuple[str, Const]]:
    """Yield the operator and constant of a comparison of a variable with a constant whose word is in its order."""
    if isinstance(filter_, Choice):
        return
    left, op, right = filter_.left, filter_.op, filter_.right
    if isinstance(left, Const):
        left, op, right = right, MIRRORED.get(op, op), left
    if left != Var(name) or not isinstance(right, Const) or right.value is None:
        return
    if op in ("=", SAME) or right.type not in TEXTS:
        yield op, right


def _above(prefix: list[int], ends: list[int]) -> tuple[int, ...]:
    return (*prefix, max(ends)) if ends and max(ends) <= WORD_MAX else (*prefix,)


def after_prefix(prefix: Sequence[int]) -> tuple[int, ...]:
    """Return the least prefix after all keys with this one; () if there is none."""
    while prefix and prefix[-1] == WORD_MAX:
        prefix = prefix[:-1]
    return (*prefix[:-1], prefix[-1] + 1) if prefix else ()


def _common(ranges: Sequence[Range]) -> Range:
    """Return a range that includes some ranges."""
    los, his = [lo for lo, _ in ranges], [hi for _, hi in ranges]
    return min(los), (() if () in his else max(his))
