"""Trees of views that are filled: from the rows that wait for them, and from the states of aggregates.

+1 at 5, +1 at 2, +1 at 5  ──▶  the tree of a count  2: 1   5: 2
values in order            ──▶  the state of a median  ──▶  the tree of the median
"""

from collections.abc import Iterable

import numpy as np

from ivm.join.join import concatenated
from ivm.views.layouts import INVERTED, SUM, VALUES, State
from ivm.ways.changes import check_stored_function
from ivm.ways.pending import Waiting, checked_sums, whole_groups
from ivm.ways.states import FOLDED, folded, view_rows
from ivm.ways.way import Context
from pagestore.host import Tree, ascending, bulk, is_operator, one_batch, read_batches


def build_view(context: Context, name: str, waiting: Waiting) -> None:
    """Build a view's tree, and its state if it has one, from all rows that its rules insert.

    Raises RangeError, FunctionConflictError.
    """
    layout, txn = context.installed.layouts[name], context.txn
    rows = _rows_of_state(context, name, waiting) if layout.fold else waiting.rows(name)
    if layout.kind == SUM:
        rows = checked_sums(txn, context.predicate(name), rows)
    tree = bulk(txn.pager, txn.tree(name).spec, rows)
    txn.replace(name, tree)
    check_stored_function(context, name, tree)


def _rows_of_state(context: Context, name: str, waiting: Waiting) -> Iterable[np.ndarray]:
    """Return the rows of an aggregate, in key order, from its state; build that, unless that has been done.

    A state that does not fit into memory is read group by group.
    """
    layout, txn, order = context.installed.layouts[name], context.txn, context.encode.keys
    fold = layout.fold
    assert fold
    state = fold.state
    held = 8 * state.spec.columns * txn.tree(state.name).count if state.name in txn else 0
    if not waiting.exceed(held) and not waiting.is_spilled(name):
        found, tree = _state_rows(context, name, state, waiting), Tree.empty(state.spec)
        if state.name in txn:
            tree = txn.tree(state.name)
        return [view_rows(name, layout, txn.pages, tree, found, order)]
    if state.name not in txn:
        _build_state(context, state, waiting.rows(name))
    tree = txn.tree(state.name)
    groups = whole_groups(read_batches(txn.pages, tree), fold.group)
    rows = (view_rows(name, layout, txn.pages, tree, some, order) for some in groups)
    return ascending([*rows]) if fold.order else rows


def _build_state(context: Context, state: State, rows: Iterable[np.ndarray]) -> None:
    txn, spec = context.txn, state.spec
    made = txn.create_words(state.name, spec.keys, spec.values, spec.scans).spec
    txn.replace(state.name, bulk(txn.pager, made, rows))


def _state_rows(context: Context, name: str, state: State, waiting: Waiting) -> np.ndarray:
    """Return the records of an aggregate's state; build its tree, unless an aggregate that shares it has done so.

    An evaluation `once` needs the tree only for its scans.
    """
    txn = context.txn
    if waiting.newest[0] == state.name:
        return waiting.newest[1]
    if state.name in txn:
        none = np.empty((state.spec.columns, 0), np.int64)
        return np.concatenate([*read_batches(txn.pages, txn.tree(state.name)), none], axis=1)
    if state.kind == INVERTED:
        rows = folded(state.ops[0], one_batch(waiting[name])[1])
    else:
        rows = concatenated([*waiting.rows(name)])
    scans = state.kind == VALUES and any(op in FOLDED or is_operator(op) for op in state.ops)
    if not context.once or scans:
        _build_state(context, state, [rows])
    waiting.newest = state.name, rows
    return rows
