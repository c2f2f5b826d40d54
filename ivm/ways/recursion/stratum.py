"""Strata of views that read themselves: filled by rounds, and followed by the cheapest of three
means.

a kernel call      rules that copy columns; a deletion suspends what follows from it
in memory          a linear stratum, with all that follows from the changes
round by round     rules that compute values
"""

from collections.abc import Mapping

from ivm.memory import EVALUATING, within_memory
from ivm.plan import costs
from ivm.plan.plan import Index
from ivm.rules.rule import InstalledStratum
from ivm.ways.recursion.compiled import CompiledStratum, compiled
from ivm.ways.recursion.facts import Facts, limits_of
from ivm.ways.recursion.fixpoint import Fixpoint
from ivm.ways.recursion.semilattice import fixpoint_of
from ivm.ways.storing import apply, check_stored_function, note_difference, store
from ivm.ways.tries import bindings_of
from ivm.ways.way import Context
from pagestore.host import Tree

Trees = Mapping[str, Mapping[Index, Tree]]  # of the indices of views


def fill(context: Context, stratum: InstalledStratum) -> None:
    """Evaluate the rules of a recursive stratum, whose views are empty.  Raises MaintainError."""
    for rule in stratum.rules:
        context.build_indices(rule.indices)
    fixpoint = fixpoint_over(context, stratum)
    base = []
    with within_memory(EVALUATING, where=stratum.rules[0].definition.where):
        for plan in fixpoint.base:
            trees = {trie.index: context.tree(trie.index) for trie in plan.tries}
            evaluation = bindings_of(context, plan, trees)
            fixpoint.work.operations += evaluation.operations
            base.append((plan, [part.rows for part in evaluation.parts]))
        fixpoint.fill(base)
    _account(context, stratum, *fixpoint.work.counts)
    for name in stratum.recursive:
        mark = unordered(name)
        context.built.pop(mark, None)
        if not fixpoint.ordered:
            context.built[mark] = (1, 1)
        check_stored_function(context, name, context.txn.tree(name))


def refill(context: Context, stratum: InstalledStratum) -> None:
    """Evaluate a recursive stratum from scratch, from what it reads outside the stratum;
    otherwise like `fill`.
    """
    Facts(context.txn, context.installed, stratum, context.encode).clear()
    fill(context, stratum)


def changed_below(context: Context, stratum: InstalledStratum) -> frozenset[Index]:
    """Return the indices of relations outside a stratum that it reads and that have changed."""
    return frozenset(compiled(context.installed, stratum).below.intersection(context.deltas))


def follow(context: Context, stratum: InstalledStratum) -> Trees | None:
    """Bring the views of a recursive stratum up to date with the deltas so far, of which it reads
    some.

    Return None if that is done; or if evaluating them anew is cheaper, their old trees.
    """
    known, changed = compiled(context.installed, stratum), changed_below(context, stratum)
    sizes = [(len(context.deltas[name].actions), context.before[name].count) for name in changed]
    anew = costs.refills_at_once(sizes) or any(
        unordered(name) in context.built for name in stratum.recursive
    )
    with within_memory(EVALUATING, where=stratum.rules[0].definition.where):
        if known.plain and not anew:
            return _follow_by_kernel(context, stratum, known)
        trees = {name: context.trees_of(name) for name in stratum.recursive}
        return trees if anew or not _follow_in_rounds(context, stratum, known, trees) else None


def _follow_by_kernel(
    context: Context, stratum: InstalledStratum, known: CompiledStratum
) -> Trees | None:
    """Follow by one call of a kernel, or in memory; as `follow`."""
    allowed = known.allowed(context.txn, costs.REFILL_FROM, costs.REFILL_SHARE)
    outcome = known.maintain(context.txn, context.before, context.deltas, allowed)
    if not outcome.finished:
        trees = {name: context.trees_of(name) for name in stratum.recursive} | outcome.written
        done = known.linear and follow_in_memory(context, stratum, known, trees)
        return None if done else trees
    _account(context, stratum, *outcome.counts)
    for name, edits in outcome.edits.items():
        stored = context.installed.stored[name]
        if name not in outcome.written:
            store(context, name, *edits)
        else:
            apply(context, stored.names, stored.places, *edits, stored.layout.visible)
    for name, old in outcome.written.items():
        note_difference(context, name, old)
    return None


def follow_in_memory(
    context: Context, stratum: InstalledStratum, known: CompiledStratum, trees: Trees
) -> bool:
    """Follow with all that follows from the changes in memory; return whether that succeeded."""
    transition = context.transition(known.below)
    fixpoint = fixpoint_over(context, stratum)
    if not fixpoint.maintain_in_memory(transition):
        return False
    _note_followed(context, stratum, fixpoint, trees)
    return True


def _follow_in_rounds(
    context: Context, stratum: InstalledStratum, known: CompiledStratum, trees: Trees
) -> bool:
    """Follow round by round; return whether that succeeded."""
    transition = context.transition(known.below)
    fixpoint = fixpoint_over(context, stratum)
    most = costs.REFILL_FROM + fixpoint.facts.count() // costs.REFILL_SHARE
    if not fixpoint.maintain(transition, most):
        return False
    _note_followed(context, stratum, fixpoint, trees)
    return True


def _note_followed(
    context: Context, stratum: InstalledStratum, fixpoint: Fixpoint, trees: Trees
) -> None:
    _account(context, stratum, *fixpoint.work.counts)
    for name, old in trees.items():
        note_difference(context, name, old)


def fixpoint_over(context: Context, stratum: InstalledStratum) -> Fixpoint:
    """Return the Fixpoint of a recursive stratum over the transaction's trees."""
    txn, installed, encode = context.txn, context.installed, context.encode
    return fixpoint_of(txn, installed, stratum, encode, context.threads, limits_of(stratum))


def _account(
    context: Context, stratum: InstalledStratum, operations: int, rounds: int, examined: int
) -> None:
    for name in stratum.recursive:
        account = context.accounts[name]
        account.operations += operations
        account.rounds += rounds
        account.examined += examined


def unordered(name: str) -> str:
    """Return the key in `built` that marks a recursive aggregate with values not in order
    (Fixpoint.ordered).
    """
    return f"$unordered:{name}"
