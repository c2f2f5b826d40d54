"""Rebuild views and everything else that is stored for rules, from base relations alone."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ivm.engine.fill import Filler
from ivm.engine.installed import Installed, InstalledRule
from ivm.engine.recompute import recompute
from ivm.engine.stored import create_relation
from ivm.plan.constants import Encoder
from pagestore.host import Snapshot, Transaction, read_batches

Progress = Callable[[str], None]  # takes a line that describes the current step


def no_progress(text: str) -> None:
    """Show nothing."""


def rebuild(
    txn: Transaction,
    installed: Installed,
    rules: Sequence[InstalledRule],
    recording: bool = True,
    progress: Progress = no_progress,
) -> dict[str, tuple[int, int]]:
    """Drop and refill everything stored for some rules, in dependency order; keep the scans of views.

    `rules` must hold every rule whose views they read. Without `recording` no sensitivity index is built. Returns the
    sizes of the indices that were built, like `Filler.built`. Raises MaintainError. O(evaluating the rules).
    """
    views = {name for rule in rules for name in rule.writes}
    scans = {name: txn[name].scans for name in views if name in txn}
    for name in installed.derived_by(rules):
        if name in txn:
            txn.drop(name)
    for predicate in installed.program.predicates.values():
        if predicate.extensional or predicate.name in views:
            create_relation(txn, predicate, installed)
    filler = Filler(txn, installed, Encoder(txn), txn.threads, recording=recording)
    filler.fill(_reporting(rules, progress))
    for name, texts in scans.items():
        for text in texts:
            if text not in txn[name].scans:
                txn.add_scan(name, text)
    return filler.built


def evaluate(source: Snapshot | Transaction, installed: Installed, name: str, threads: int) -> list[np.ndarray]:
    """Compute the visible words of a view from what its rules read, in parts int64[C, n] and key order.

    A recursive view is evaluated in a sketch, with its stratum, and so is an aggregate with a state.
    Raises as `recompute`.
    """
    if not installed.stores(name):
        return recompute(source, installed, Encoder(source), name, threads)
    stratum = next((s for rule, s in installed.recursion.items() if name in rule.writes), None)
    assert isinstance(source, Transaction), "a stratum, and the state of an aggregate, stands in trees of a transaction"
    if stratum is None:
        rebuild(source, installed, [rule for rule in installed.rules if name in rule.writes], recording=False)
    else:
        Filler(source, installed, Encoder(source), threads).refill(stratum)
    columns = tuple(range(installed.layouts[name].visible))
    return [*read_batches(source.pages, source.tree(name), columns=columns)]


def rules_below(installed: Installed, name: str) -> list[InstalledRule]:
    """Return the rules that a view depends on, directly or through other views; its own rules come last."""
    wanted, found = {name}, list[InstalledRule]()
    for stratum in reversed(installed.strata):
        if any(wanted.intersection(rule.writes) for rule in stratum.rules):
            found = [*stratum.rules, *found]
            wanted.update(stratum.reads)
    return found


def _reporting(rules: Sequence[InstalledRule], progress: Progress) -> Iterator[InstalledRule]:
    """Yield the rules; call `progress` before each."""
    for number, rule in enumerate(rules, 1):
        progress(f"evaluating {', '.join(rule.writes)}, {number} of {len(rules)}")
        yield rule
