"""Evaluate one view from its own rules over the stored trees, without storing anything.

    recompute(snapshot, installed, encode, "tri")  ──▶  the rows that tri has now, in parts int64[C, n]

`Workspace.evaluate` returns these rows as a table, and times them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ivm.engine.head_edits import Source, check_sums, compose_rows, fold_bindings, head_spec
from ivm.engine.installed import Installed
from ivm.errors import RoomError, UnknownViewError
from ivm.join.evaluate import evaluate
from ivm.join.memory_guard import within_memory
from ivm.lang.ir import Rule
from ivm.plan.constants import Encoder
from ivm.plan.index import tree_name
from ivm.views.layouts import SUM
from pagestore.host import INSERT


def recompute(source: Source, installed: Installed, encode: Encoder, name: str, threads: int = 1) -> list[np.ndarray]:
    """Compute the visible words of a view, in parts int64[C, n] and key order.

    Raises UnknownViewError for a relation, RangeError and RoomError.
    """
    layout = installed.layouts[name]
    plans = [(rule.definition, plan) for rule in installed.rules if name in rule.writes for plan in rule.plans]
    if not plans:
        raise not_a_view(name)
    parts = []
    for definition, plan in plans:
        trees = [source.tree(tree_name(trie.index)) for trie in plan.tries]
        head = installed.heads[plan]
        with naming_the_rule(definition):
            evaluation = evaluate(source.pages, plan.shape, trees, threads=threads, asked=head.asked)
        if len(plans) == 1 and head.copies_all:
            return [part.rows for part in evaluation.parts]
        edits = fold_bindings(installed, head, evaluation.parts, INSERT, encode)
        parts += [edit for predicate, edit in edits if predicate == name]
    if not parts:  # the view holds bindings whose arithmetic fails, and there are none
        return [np.empty((layout.visible, 0), np.int64)]
    width, predicate = len(parts[0][1]), installed.program.predicates[name]
    found = compose_rows(source, predicate, parts, head_spec(layout, width))
    if layout.kind == SUM:
        check_sums(source, predicate, *found)
    return [rows[: layout.visible] for rows in found]


@contextmanager
def naming_the_rule(rule: Rule) -> Iterator[None]:
    """Prefix a RoomError, also one for refused memory, with the place of the rule that is being evaluated."""
    try:
        with within_memory("evaluating the rule"):
            yield
    except RoomError as error:
        raise RoomError(f"{rule.where}: {error}") from None


def not_a_view(name: str) -> UnknownViewError:
    """Return the error for a relation where a view is required."""
    return UnknownViewError(f"{name} is no view: its rows come from transactions, not from rules; name a view")
