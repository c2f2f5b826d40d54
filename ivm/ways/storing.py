"""Edits of a predicate's trees, and what they change: its delta, for the rules that read it.

edits of tri ──▶ the tree of tri, "$index:tri:1.0" ──▶ what really changed: the deltas of both
"""

from collections.abc import Iterable, Mapping
from itertools import starmap

import numpy as np

from ivm.errors import DivergenceError, FunctionConflictError
from ivm.join.join import concatenated
from ivm.lang.ir import Predicate
from ivm.names import view_of_state
from ivm.plan.plan import Index
from ivm.views.delta import Delta, insertions, net_changes, visible_difference
from ivm.views.edit_composition import SumOverflow, edits_to_sums
from ivm.views.layouts import INVERTED, SUM, VALUES, State
from ivm.ways.pending import PendingRows, check_sums, checked_sums, out_of_range, whole_groups
from ivm.ways.states import FOLDED, edits_of, folded, view_rows
from ivm.ways.way import Context
from pagestore.errors import EditError
from pagestore.host import (
    ALONE,
    INSERT,
    Edits,
    Tree,
    ascending,
    begins,
    bulk,
    compose_edits,
    count_prefixes,
    delta,
    is_operator,
    one_batch,
    read_batches,
)


def store(context: Context, name: str, actions: np.ndarray, rows: np.ndarray) -> None:
    """Apply edits to the trees of a predicate, and record what they changed.

    Raises RangeError, FunctionConflictError.
    """
    stored = context.installed.stored[name]
    layout = stored.layout
    context.before |= context.trees_of(name)
    (actions, rows), *permuted = apply(
        context, stored.names, stored.places, actions, rows, layout.visible
    )
    if not len(actions):
        return
    change = Delta(actions, rows[: layout.visible])
    check_rows(context, name, change)
    note_change(context, name, stored.of_indices([change, *starmap(Delta, permuted)]))


def apply(
    context: Context,
    names: tuple[str, ...],
    places: np.ndarray,
    actions: np.ndarray,
    rows: np.ndarray,
    visible: int,
) -> list[Edits]:
    """Edit a tree and its indices as `apply_indexed`; return their deltas. Raises RangeError."""
    tree = context.txn.tree(names[0])
    predicate = context.predicate(view_of_state(names[0]))
    try:
        edits = compose_edits(actions, rows, tree.spec)
    except EditError:
        # the edits of a key exceed 64 bits, but the sum with the stored value may fit
        edits = _edits_to_sums(context, tree, predicate, rows)
    try:
        return context.txn.apply_indexed(names, places, *edits, visible)
    except EditError as error:
        _edits_to_sums(context, tree, predicate, rows)  # raises RangeError, with the key of a sum
        raise EditError(f"{predicate.name}: {error}") from error


def _edits_to_sums(context: Context, tree: Tree, predicate: Predicate, rows: np.ndarray) -> Edits:
    try:
        return edits_to_sums(context.txn.pages, tree, rows)
    except SumOverflow as overflow:
        raise out_of_range(context.txn, predicate, overflow) from None


def change_state(context: Context, state: State, actions: np.ndarray, rows: np.ndarray) -> Edits:
    """Edit a state, for the first aggregate that shares it; return its delta, which all use."""
    if state.name not in context.state_changes:
        if state.kind == INVERTED:
            tree = context.txn.tree(state.name)
            actions, rows = edits_of(context.txn.pages, tree, state.ops[0], rows)
        (context.state_changes[state.name],) = apply(
            context, (state.name,), ALONE, actions, rows, state.visible
        )
    return context.state_changes[state.name]


def adopt_change(context: Context, name: str, old: Tree) -> None:
    """Record how a predicate's tree differs from its old one, and apply the difference to its
    permuted indices.
    """
    txn, stored = context.txn, context.installed.stored[name]
    new, visible, keys = txn.tree(name), stored.layout.visible, stored.layout.keys
    if old.spec.columns != new.spec.columns:
        change = visible_difference(txn.pages, old, new, visible)
    else:
        actions, rows = delta(txn.pages, old, new)
        hidden = len(rows) > visible
        change = net_changes(actions, rows[:visible], keys) if hidden else Delta(actions, rows)
    if not change:
        return
    context.before |= stored.of_indices([old, *map(txn.tree, stored.names[1:])])
    permuted = [
        txn.apply(tree, change.actions, change.rows[place[: txn.tree(tree).spec.columns]])
        for tree, place in zip(stored.names[1:], stored.places[1:], strict=True)
    ]
    if stored.checked:
        check_function(context, name, change)
    note_change(context, name, stored.of_indices([change, *starmap(Delta, permuted)]))


def note_difference(context: Context, name: str, old: Mapping[Index, Tree]) -> None:
    """Record how the trees of a predicate differ from their old ones, in their visible columns."""
    txn, stored = context.txn, context.installed.stored[name]
    visible = stored.layout.visible
    before, after = old[stored.indices[0]], txn.tree(name)
    if before.count:
        actions, rows = delta(txn.pages, before, after)
        change = net_changes(actions, rows[:visible], stored.layout.keys)
    else:
        change = insertions(txn.pages, after, visible)
    context.before |= old
    if not change:
        return
    if stored.checked:
        check_function(context, name, change)
    permuted = [net_changes(change.actions, change.rows[place]) for place in stored.places[1:]]
    note_change(context, name, stored.of_indices([change, *permuted]))


def note_change(context: Context, name: str, deltas: Mapping[Index, Delta]) -> None:
    """Store the deltas of a predicate's indices for its readers, and count its changed rows."""
    context.deltas |= deltas
    actions = next(iter(deltas.values())).actions
    context.most_rows = max(context.most_rows, len(actions))
    # INSERT is 0, ERASE is 1
    account, erased = context.accounts[name], int(np.count_nonzero(actions))
    account.inserted, account.erased = len(actions) - erased, erased


def check_rows(context: Context, name: str, change: Delta) -> None:
    """Raise RangeError for a sum beyond its type, FunctionConflictError for a second value."""
    stored = context.installed.stored[name]
    if stored.layout.kind == SUM:
        inserted = change.rows[:, change.actions == INSERT]
        check_sums(context.txn, context.predicate(name), inserted)
    if stored.checked:
        check_function(context, name, change)


def check_function(context: Context, name: str, change: Delta) -> None:
    """Raise FunctionConflictError if a key that a delta inserts has two values in the tree."""
    keys = len(context.predicate(name).keys)
    inserted = change.rows[:keys, change.actions == INSERT]
    tree = context.txn.tree(name)
    crowded = np.flatnonzero(count_prefixes(context.txn.pages, tree, inserted, most=2) > 1)
    if len(crowded):
        raise _conflict(context, name, tuple(inserted[:, crowded[0]].tolist()), tree)


def check_stored_function(context: Context, name: str, tree: Tree) -> None:
    """Raise FunctionConflictError if a key has two values in the whole tree of a function, if
    that could be.
    """
    if context.installed.stored[name].checked:
        keys = len(context.predicate(name).keys)
        rows = np.empty((keys, 0), np.int64)
        for batch in read_batches(context.txn.pages, tree):
            rows = np.concatenate([rows[:, -1:], batch[:keys]], axis=1)
            for at in np.flatnonzero(~begins(rows))[:1]:
                raise _conflict(context, name, tuple(rows[:, at].tolist()), tree)


def _conflict(
    context: Context, name: str, key: tuple[int, ...], tree: Tree
) -> FunctionConflictError:
    types = context.predicate(name).types
    # the key has at least two rows
    rows = next(read_batches(context.txn.pages, tree, key, rows=2))
    columns = [
        context.txn.decode(type_, np.ascontiguousarray(rows[c])) for c, type_ in enumerate(types)
    ]
    shown = [tuple(column[i].as_py() for column in columns) for i in range(2)]
    return FunctionConflictError(name, shown[0][:-1], (shown[0][-1], shown[1][-1]))


def divergence(fact: str) -> DivergenceError:
    """Return the error for a stored tree that contradicts the relations."""
    return DivergenceError(
        f"{fact}; what is stored for rules does not follow from the relations: `ivm fsck --repair` "
        f"rebuilds it"
    )


def build_view(context: Context, name: str, waiting: PendingRows) -> None:
    """Build a view's tree, and its state if it has one, from all rows that its rules insert.

    Raises RangeError, FunctionConflictError.
    """
    layout, txn = context.installed.layouts[name], context.txn
    rows = _rows_of_state(context, name, waiting) if layout.fold else waiting.rows(name)
    if layout.kind == SUM:
        rows = checked_sums(txn, context.predicate(name), rows)
    tree = bulk(txn.pager, txn.tree(name).spec, rows)
    txn.replace(name, tree)
    if context.once and layout.fold and _is_sole(context, layout.fold.state):
        txn.replace(layout.fold.state.name, Tree.empty(layout.fold.state.spec))
    check_stored_function(context, name, tree)


def _is_sole(context: Context, state: State) -> bool:
    """Return whether a state is stored, and no more view is made of it."""
    folds = [layout.fold for layout in context.installed.layouts.values() if layout.fold]
    shared = sum(fold.state.name == state.name for fold in folds) > 1
    return state.name in context.txn and not shared and not state.spec.scans


def _rows_of_state(context: Context, name: str, waiting: PendingRows) -> Iterable[np.ndarray]:
    """Return the rows of an aggregate, in key order, from its state; build that, unless that has
    been done.

    A state that does not fit into memory is read group by group.
    """
    layout, txn, order = context.installed.layouts[name], context.txn, context.encode.keys
    fold = layout.fold
    assert fold
    state = fold.state
    held = 8 * state.spec.columns * txn.tree(state.name).count if state.name in txn else 0
    if not waiting.exceed(held) and not waiting.is_spilled(name):
        made, tree = _state_rows(context, name, state, waiting), Tree.empty(state.spec)
        if state.name in txn:
            tree = txn.tree(state.name)
        return [view_rows(name, layout, txn.pages, tree, made, order)]
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


def _state_rows(context: Context, name: str, state: State, waiting: PendingRows) -> np.ndarray:
    """Return the records of an aggregate's state; build its tree, unless an aggregate that shares
    it has done so.

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
