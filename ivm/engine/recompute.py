"""TODO: ivm/engine/recompute.py."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ivm.engine.head_edits import Source, check_sums, composed, folded, spec_of
from ivm.engine.installed import Installed
from ivm.errors import RoomError, UnknownViewError
from ivm.join.evaluate import evaluate
from ivm.join.join import joined
from ivm.lang.ir import Rule
from ivm.plan.constants import Encode
from ivm.plan.index import tree_name
from ivm.views.aggregate_state import keeps_state, results
from ivm.views.layouts import SUM
from pagestore.host import INSERT


def recompute(source: Source, installed: Installed, encode: Encode, name: str, threads: int = 1) -> list[np.ndarray]:
    """The visible words of a view, in parts int64[C, n], from its own rules over what is stored; stores nothing.

    Raises UnknownViewError for a relation, RangeError and RoomError.
    """
    layout = installed.layouts[name]
    plans = [(views.rule, plan) for views in installed.rules if name in views.writes for plan in views.plans]
    if not plans:
        raise no_view(name)
    parts = []
    for rule, plan in plans:
        trees = [source.tree(tree_name(trie.index)) for trie in plan.tries]
        head = installed.heads[plan]
        with placed(rule):
            evaluation = evaluate(source.pages, plan.shape, trees, threads=threads, asked=head.asked)
        if len(plans) == 1 and head.copies_all:
            return [part.rows for part in evaluation.parts]
        edits = folded(installed, head, evaluation.parts, INSERT, encode)
        parts += [edit for predicate, edit in edits if predicate == name]
    if not parts:  # a view of what fails, and nothing does
        return [np.empty((layout.visible, 0), np.int64)]
    width, predicate = len(parts[0][1]), installed.program.predicates[name]
    found = composed(source, predicate, parts, spec_of(layout, width))
    if keeps_state(layout):
        found = [results(name, layout, joined(found))]
    if layout.kind == SUM:
        check_sums(source, predicate, *found)
    return [rows[: layout.visible] for rows in found]


@contextmanager
def placed(rule: Rule) -> Iterator[None]:
    """Rows too many for memory are those of a rule."""
    try:
        yield
    except RoomError as error:
        raise RoomError(f"{rule.where}: {error}") from None


def no_view(name: str) -> UnknownViewError:
    """The error of what is asked of a view only."""
    return UnknownViewError(f"{name} is no view: its rows come from transactions, not from rules; name a view")
