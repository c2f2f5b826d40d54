"""Read a relation once, by blocks, for every plan whose body is this relation alone.

    a[g] = t <- agg<<t = sum(v)>> r(k, g, v), k > 7.        one pass over the columns g and v, from the key 8 on,
    b[x] = n <- agg<<n = count()>> r(y, x, _), y > 7.       that both rules share, as they share their filter and
    c(k) <- r(k, g, v), g = 3.                              their groups, whatever their variables are called

Filters that cannot fail are applied here to whole columns; those on the first columns of the key
become the range of keys that is read, or several ranges, if few texts satisfy what bounds the first
one.  What may fail is left to views/heads.py, since another literal may exclude it.

A view of the least or greatest values keeps only a few of each group (kept_extremes.py); groups that have
run out of them are filled by another pass.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from ivm.join.groups import Known, Lookup, summed
from ivm.lang.ir import Type, Var, variables
from ivm.memory import EVALUATING, within_memory
from ivm.plan.key_ranges import Range, key_ranges
from ivm.plan.plan import Plan, Scan
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule
from ivm.terms.conditions import Filter, applies_functions, compared, leaves_few, renamed_filter
from ivm.terms.encoder import Encoder
from ivm.terms.evaluator import Batch, Evaluator
from ivm.views.heads import Columns
from ivm.views.layouts import MORE
from ivm.ways.kept_extremes import Ends, before_marks, renewed, run_out
from ivm.ways.pending import PendingRows, adds_up, head_spec
from ivm.ways.way import Context
from pagestore.host import ADD, Edits, Pages, Tree, distinct, read_batches

Batches = dict[int, Batch]
# bool[n], by a filter and the columns that may be null
Masks = dict[tuple[Filter, frozenset[str]], np.ndarray]


class Wanted(NamedTuple):
    """A plan of one relation, the variables whose columns are needed, and the types of its
    rule's variables.
    """

    plan: Plan
    names: frozenset[str]
    types: Mapping[str, Type]


def scan(
    pages: Pages, tree: Tree, wanted: Sequence[Wanted], encode: Encoder
) -> Iterator[tuple[int, Batches]]:
    """Yield the number of rows of each block of a relation that is read, and a batch by the place
    of each plan that reads it, with the bindings that pass the plan's `sure` filters; for each plan
    one block at least.

    Plans whose ranges of keys overlap are evaluated in one pass: each column is read once, each
    filter is evaluated once, and plans with the same filters get the same arrays.  O(rows of these
    ranges).  Raises CorruptionError.
    """
    ranges = [
        (place, keys)
        for place, request in enumerate(wanted)
        for keys in key_ranges(request.plan, request.types, tree.count, encode)
    ]
    readings = [_Reading.of(request) for request in wanted]
    for (lo, hi), some in _passes(ranges):
        columns = sorted({column for number in some for column in readings[number].columns}) or [0]
        at = {column: place for place, column in enumerate(columns)}
        alike: dict[object, list[int]] = {}
        for number in some:
            alike.setdefault((readings[number].filters, readings[number].nulls), []).append(number)
        blocks = read_batches(pages, tree, lo, hi, tuple(columns))
        for block in chain([next(blocks, np.empty((len(columns), 0), np.int64))], blocks):
            batch = Batch(
                block.shape[1], {str(column): block[place] for column, place in at.items()}, {}
            )
            masks: Masks = {}
            batches: Batches = {}
            for numbers in alike.values():
                which = readings[numbers[0]].passing(batch, encode, masks)
                needed = {
                    column for number in numbers for column in readings[number].places.values()
                }
                taken = {
                    c: block[at[c]] if which is None else block[at[c]].take(which) for c in needed
                }
                left = batch.n if which is None else len(which)
                for number in numbers:
                    places = readings[number].places.items()
                    batches[number] = Batch(
                        left, {name: taken[column] for name, column in places}, {}
                    )
            yield batch.n, batches


class _Reading(NamedTuple):
    """What a plan reads of its relation: columns, and of what passes its filters the `places` of
    needed variables.

    In `filters` and `types` each variable is named by its column, so that rules may name it as they
    like; the columns `nulls` may be null.
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
        """Return which rows pass the filters, None for all; `masks` says it for each filter that
        was evaluated.
        """
        keep: np.ndarray | None = None
        evaluator = Evaluator(self.types, encode, self.nulls)
        for filter_ in self.filters:
            mask = masks.get((filter_, self.nulls))
            if mask is None and applies_functions(filter_) and leaves_few(keep):
                keep[keep] = evaluator.passes(filter_, batch.only(keep))[0]
                continue
            if mask is None:
                mask = masks[filter_, self.nulls] = evaluator.passes(filter_, batch)[0]
            keep = mask.copy() if keep is None else keep & mask
        return None if keep is None or keep.all() else np.flatnonzero(keep)


def _passes(ranges: Sequence[tuple[int, Range]]) -> list[tuple[Range, list[int]]]:
    """Return ranges that do not overlap, each with the numbers of those that it includes.

    >>> _passes([(0, ((9,), (12,))), (1, ((1,), (2,))), (2, ((1, 5), (1, 8))), (3, ((10,), ()))])
    [(((1,), (2,)), [1, 2]), (((9,), ()), [0, 3])]
    """
    passes = list[tuple[Range, list[int]]]()
    for number, (lo, hi) in sorted(ranges, key=lambda item: item[1][0]):
        if passes and (not (last := passes[-1][0])[1] or lo < last[1]):
            some = [*dict.fromkeys((*passes[-1][1], number))]
            passes[-1] = ((last[0], max(last[1], hi) if last[1] and hi else ()), some)
        else:
            passes.append(((lo, hi), [number]))
    return passes


def fill(context: Context, rule: InstalledRule, number: int, waiting: PendingRows) -> None:
    """Add the edits of all plans of rules that are filled together and scan the same relation, in
    one pass.

    They are summed block by block, and the plans are done (`waiting.scanned`). O(rows of the
    relation).
    """
    plan = rule.plans[number]
    if plan in waiting.scanned:
        return
    name, installed = plan.tries[0].index.predicate, context.installed
    plans = {
        plan: owner
        for owner in waiting.rules
        for plan in owner.plans
        if isinstance(plan.way, Scan) and plan.tries[0].index.predicate == name
    }
    passed, read = [0] * len(plans), [0] * len(plans)
    views = {view for owner in plans.values() for view in owner.writes} & installed.scanned_ends
    ends = {view: Ends() for view in views}
    with within_memory(EVALUATING, where=rule.definition.where):
        for count, known, made in _blocks_for(context, plans):
            for place, (rows, edits) in made.items():
                read[place] += count
                passed[place] += rows
                for view, summed_up in summed_edits(installed, edits, known, ends):
                    waiting.add(view, summed_up)
        kept = {view: end.taken() for view, end in ends.items()}
        for view, kept_rows in kept.items():
            waiting.add(view, _adding(kept_rows))
    cut = frozenset(view for view, rows in kept.items() if (rows[-1] >= MORE).any())
    if installed.cut & views != cut:
        context.installed = replace(installed, partial=installed.partial - views | cut)
    for (one, owner), rows, count in zip(plans.items(), passed, read, strict=True):
        context.note_operations(owner, count)
        context.note_steps(owner, owner.plans.index(one), [rows])
    waiting.scanned |= {*plans}


Made = Iterable[tuple[str, Columns]]  # edits by view, with their rows as columns


def _blocks_for(
    context: Context, plans: Mapping[Plan, InstalledRule]
) -> Iterator[tuple[int, Known, dict[int, tuple[int, Made]]]]:
    """Yield for each block of a relation: how many rows it has, what is known of their groups, and
    what plans make.

    That is by the place of each plan: how many bindings passed its filters, and the edits that they
    make.
    """
    heads = [context.installed.heads[plan] for plan in plans]
    columns = [
        Wanted(plan, head.needed, rule.definition.types)
        for (plan, rule), head in zip(plans.items(), heads, strict=True)
    ]
    encode = context.encode
    tree = context.txn.tree(columns[0].plan.tries[0].index.predicate)
    pages = context.txn.pages  # after the tree: opening it may remap the file
    for count, batches in scan(pages, tree, columns, encode):
        yield count, {}, {p: (b.n, heads[p].insertions(b, encode)) for p, b in batches.items()}


def summed_edits(
    installed: Installed,
    made: Made,
    known: Known | None = None,
    ends: dict[str, Ends] | None = None,
) -> Iterator[tuple[str, Edits]]:
    """Yield edits by view; those of equal keys are added up where that makes them fewer.

    Views may share `known` groups of the same columns. Edits of views in `ends` are kept there
    while that pays.
    """
    for view, (actions, columns) in made:
        if ends and view in ends and known is not None:
            ends[view].add(columns, known)
            if not ends[view].pays:
                yield view, _adding(ends.pop(view).taken())  # all of them so far
            continue
        layout = installed.layouts[view]
        if adds_up(layout):
            rows = summed(columns, head_spec(layout, len(columns)).keys, known=known)
        else:
            rows = np.stack(columns)
        yield view, _adding(rows) if actions is None else (actions, rows)


def kept_edits(context: Context, name: str, edits: Edits) -> Edits:
    """Return a view's edits without those of values that its partial state leaves out."""
    if name not in context.installed.cut:
        return edits
    fold = context.installed.layouts[name].fold
    assert fold
    return before_marks(context.txn.pages, context.txn.tree(fold.state.name), *edits)


def renewed_state(context: Context, name: str, change: Edits) -> Edits | None:
    """Return the edits that fill the groups of a view's partial state that a change of it has made
    run out.

    Return None if no group has run out; else O(rows of the relation).
    """
    fold = context.installed.layouts[name].fold
    if not fold or not len(change[0]) or name not in context.installed.cut:
        return None
    state, group = context.txn.tree(fold.state.name), fold.state.group
    keys = run_out(context.txn.pages, state, distinct(change[1][:group]))
    if not keys.shape[1]:
        return None
    (rule,) = (rule for rule in context.installed.rules if name in rule.writes)
    lookup, ends = Lookup(keys), Ends()
    for _, known, made in _blocks_for(context, {rule.plans[0]: rule}):
        for _, edits in made.values():
            for _, (_, columns) in edits:
                which = np.flatnonzero(lookup.find(columns[:group]).times)
                ends.add([column.take(which) for column in columns], known)
    return renewed(context.txn.pages, state, keys, ends.least())


def _adding(rows: np.ndarray) -> Edits:
    return np.broadcast_to(ADD, rows.shape[1]), rows
