"""Acyclic bodies by columns (columns.py): views are filled, and changed rows joined with the other
relations.

    region[s] changes for one of 100 stores ──▶ a range of sales by s, as columns ──▶ 100,000 rows
    of the view

A dimension's row with many partners is a hub: one range of an index has them all.  Where probes
would need an index that does not exist, a few changes are joined with whole relations, which
together costs as much as building it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice

from ivm.errors import RoomError
from ivm.join.kernels.tries import NE
from ivm.memory import within_memory
from ivm.plan.join_tree import is_exchangeable, is_linked, links_of
from ivm.plan.plan import Columns, Plan, indices_of
from ivm.rules.installed import index_columns
from ivm.rules.rule import InstalledRule
from ivm.ways.columns import ACTION, Changed, ColumnJoin, Sorted
from ivm.ways.pending import PendingRows
from ivm.ways.scan import summed_edits
from ivm.ways.way import Context
from pagestore.host import Edits, Tree


def fill(context: Context, rule: InstalledRule, number: int, waiting: PendingRows) -> bool:
    """Add the edits of an acyclic plan, joined by columns; build the indices that its maintenance
    needs.

    Return False, before the first edit, if rows of relations, to be looked up, take too much
    memory; then no index of the plan's tries is deferred. Raises RoomError if tries are no better:
    rows were multiplied, or link ranges.
    """
    plan, txn = rule.plans[number], context.txn
    trees = {trie.index.predicate: txn.tree(trie.index.predicate) for trie in plan.tries}
    needed, types = context.installed.heads[plan].needed, rule.definition.types
    join = ColumnJoin(txn.pages, plan, trees, needed, types, context.encode)
    edits = _bindings_of(context, rule, number, join)
    try:
        with within_memory("joining by columns"):
            first = [*islice(edits, 1)]
    except RoomError:
        multiplied = join.memory.rows > join.read
        if multiplied or is_linked(plan) or any(x.kind != NE for x in links_of(plan)):
            raise
        deferred = context.installed.deferred.difference(trie.index for trie in plan.tries)
        context.installed = replace(context.installed, deferred=deferred)
        return False
    for view, made in chain(first, edits):
        waiting.add(view, made)
    context.build_indices(() if context.once else indices_of(plan))
    return True


def _bindings_of(
    context: Context, rule: InstalledRule, number: int, join: ColumnJoin
) -> Iterator[tuple[str, Edits]]:
    """Yield the edits that insert all bindings of an acyclic plan."""
    head = context.installed.heads[rule.plans[number]]
    for batch, times in join.parts():
        yield from summed_edits(context.installed, head.insertions(batch, context.encode, times))
    context.note_operations(rule, join.read)
    context.note_steps(rule, number, join.met)


def follow(context: Context, rule: InstalledRule, plan: Plan) -> Iterable[tuple[str, Edits]]:
    """Yield the head edits of one plan for the changed rows of relations, joined with the others
    by columns.
    """
    head = context.installed.heads[plan]
    for t in changed_tries(context, plan):
        join = join_of(context, rule, plan, t)
        for batch, times in join.parts():
            made = head.insertions(batch, context.encode, times, batch.columns[ACTION])
            yield from summed_edits(context.installed, made)
        context.note_operations(rule, join.read)


def changed_tries(context: Context, plan: Plan) -> list[int]:
    """Return the tries of a plan whose relations have changed, if their rows can be joined with the
    others by columns; else none.
    """
    if not isinstance(plan.way, Columns):
        return []
    apart, layouts = _apart(plan), context.installed.layouts
    pairs = [*zip(apart.tries, plan.tries, strict=True)]
    keys = {shape.index.predicate: layouts[trie.index.predicate].keys for shape, trie in pairs}
    changed = [
        t
        for t, trie in enumerate(plan.tries)
        if context.own(trie.index.predicate) in context.deltas
    ]
    fits = all(is_exchangeable(apart, apart.tries[t].index.predicate, keys) for t in changed)
    return changed if fits else []


def join_of(context: Context, rule: InstalledRule, plan: Plan, t: int) -> ColumnJoin:
    """Return the join by columns of the changed rows of trie t: with the new rows of those before
    it, and the old rows of those after it, so that each binding that comes or goes is found once.
    """
    trees, indices = dict[str, Tree](), dict[str, list[Sorted]]()
    installed, apart = context.installed, _apart(plan)
    for place, (shape, trie) in enumerate(zip(apart.tries, plan.tries, strict=True)):
        name, read = trie.index.predicate, context.tree if place < t else context.oldest
        trees[shape.index.predicate] = read(context.own(name))
        indices[shape.index.predicate] = [
            (index_columns(index, installed.layouts[name]), read(index))
            for index in installed.indices[name]
        ]
    change = context.deltas[context.own(plan.tries[t].index.predicate)]
    types = rule.definition.types
    changed = Changed(apart.tries[t].index.predicate, change.rows, change.actions)
    needed = installed.heads[plan].needed
    return ColumnJoin(
        context.txn.pages, apart, trees, needed, types, context.encode, changed, indices
    )


@lru_cache(256)
def _apart(plan: Plan) -> Plan:
    """Return a plan with a name of its own for the relation of each trie, so that one of them
    can be exchanged.
    """
    named = (
        replace(trie, index=trie.index._replace(predicate=f"{t}:{trie.index.predicate}"))
        for t, trie in enumerate(plan.tries)
    )
    return replace(plan, tries=(*named,))
