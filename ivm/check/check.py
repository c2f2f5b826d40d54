"""Check everything stored for rules: rebuild it from base relations in a sketch, and compare.

    view rows      a view has the rows that its rules derive, through intermediate views, and no others
    support        the support stored with a row is its number of derivations
    rank           a row of a recursive view derives from rows that come before it (engine/recursion)
    aggregate      the state of min, max, total and aggregates without keys equals the rebuilt one
    index          a permuted index has the rows of its relation
    sensitivity    a sensitivity index is sound (soundness.py)
    functions      rules can be evaluated at all: no key has two values, no sum is out of range
    constraints    no row violates one
    dependants     the version records which trees depend on which relations

The message of each violation names the tree, and a row that differs.

Rebuild views and everything else that is stored for rules, from base relations alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ivm.check.soundness import Soundness
from ivm.engine.fill import Fill, not_a_view, shown_names
from ivm.errors import ConstraintError, MaintainError, UnregisteredError
from ivm.join.evaluate import evaluate as evaluate_plan
from ivm.memory import EVALUATING, within_memory
from ivm.plan.plan import tree_name
from ivm.rules.constraints import refuse_violations
from ivm.rules.installed import Installed, index_columns
from ivm.rules.rule import InstalledRule, InstalledStratum
from ivm.rules.stored import HOST, built_sizes, create_relation, dependants_of
from ivm.terms.encoder import Encoder
from ivm.views.delta import net_changes
from ivm.views.layouts import SUM
from ivm.ways.kept_extremes import exact
from ivm.ways.pending import check_sums, compose_rows, head_spec
from ivm.ways.recursion.facts import limits_of
from ivm.ways.recursion.semilattice import fixpoint_of
from ivm.ways.recursion.stratum import refill, unordered
from ivm.ways.tries import fold_bindings
from ivm.ways.way import Context
from pagestore.host import (
    ERASE,
    INSERT,
    Delta,
    Edits,
    EphemeralTransaction,
    Snapshot,
    Transaction,
    Tree,
    Violation,
    delta,
    read_batches,
)

Progress = Callable[[str], None]  # takes a line that describes the current step


def no_progress(text: str) -> None:
    """Show nothing."""


def rebuild(
    txn: Transaction,
    installed: Installed,
    rules: Sequence[InstalledRule],
    recording: bool = True,
    progress: Progress = no_progress,
) -> dict[str, tuple[int, ...]]:
    """Drop and refill everything stored for some rules, in dependency order; keep the scans of
    views.

    `rules` must hold every rule whose views they read. Without `recording` no sensitivity index is
    built. Returns the sizes of the indices that were built, like `Context.built`. Raises
    MaintainError. O(evaluating the rules).
    """
    views = {name for rule in rules for name in rule.writes}
    scans = {name: txn[name].scans for name in views if name in txn}
    for name in installed.derived_by(rules):
        if name in txn:
            txn.drop(name)
    for predicate in installed.program.predicates.values():
        if predicate.extensional or predicate.name in views:
            create_relation(txn, predicate, installed)
    context = Context(txn, installed, Encoder(txn), txn.threads, recording=recording)
    Fill(context).rules(_reporting(rules, progress))
    for name, texts in scans.items():
        for text in texts:
            if text not in txn[name].scans:
                txn.add_scan(name, text)
    return context.built


def evaluate(
    source: Snapshot | Transaction, installed: Installed, name: str, threads: int
) -> list[np.ndarray]:
    """Compute the visible words of a view from what its rules read, in parts int64[C, n] and key
    order.

    A recursive view is evaluated in a sketch, with its stratum, and so is an aggregate with a
    state. Raises as `recompute`.
    """
    if not installed.stores(name):
        return recompute(source, installed, Encoder(source), name, threads)
    stratum = next((s for rule, s in installed.recursion.items() if name in rule.writes), None)
    assert isinstance(source, Transaction), (
        "a stratum, and the state of an aggregate, are in trees of a transaction"
    )
    if stratum is None:
        rebuild(
            source,
            installed,
            [rule for rule in installed.rules if name in rule.writes],
            recording=False,
        )
    else:
        refill(Context(source, installed, Encoder(source), threads), stratum)
    columns = tuple(range(installed.layouts[name].visible))
    return [*read_batches(source.pages, source.tree(name), columns=columns)]


def recompute(
    source: Snapshot | Transaction,
    installed: Installed,
    encode: Encoder,
    name: str,
    threads: int = 1,
) -> list[np.ndarray]:
    """Compute the visible words of a view, in parts int64[C, n] and key order.

    Raises UnknownViewError for a relation, RangeError and RoomError.
    """
    layout = installed.layouts[name]
    plans = [
        (rule.definition, plan)
        for rule in installed.rules
        if name in rule.writes
        for plan in rule.plans
    ]
    if not plans:
        raise not_a_view(name)
    parts = []
    for definition, plan in plans:
        trees = [source.tree(tree_name(trie.index)) for trie in plan.tries]
        head = installed.heads[plan]
        with within_memory(EVALUATING, where=definition.where):
            evaluation = evaluate_plan(
                source.pages, plan.shape, trees, threads=threads, listed=head.listed
            )
        if len(plans) == 1 and head.copies_all:
            return [part.rows for part in evaluation.parts]
        edits = fold_bindings(installed, head, evaluation.parts, INSERT, encode)
        parts += [edit for predicate, edit in edits if predicate == name]
    if not parts:  # the view holds bindings whose arithmetic fails, and there are none
        return [np.empty((layout.visible, 0), np.int64)]
    width, predicate = len(parts[0][1]), installed.program.predicates[name]
    composed = [*compose_rows(source, predicate, parts, head_spec(layout, width))]
    if layout.kind == SUM:
        check_sums(source, predicate, *composed)
    return [rows[: layout.visible] for rows in composed]


def _reporting(rules: Sequence[InstalledRule], progress: Progress) -> Iterator[InstalledRule]:
    """Yield the rules; call `progress` before each."""
    for number, rule in enumerate(rules, 1):
        progress(f"evaluating {shown_names(rule.writes)}, {number} of {len(rules)}")
        yield rule


class Difference(NamedTuple):
    """How a tree differs from the rebuilt one, and whether only hidden words (supports) do."""

    hidden: bool
    fact: str


def check(
    sketch: EphemeralTransaction, installed: Installed, progress: Progress
) -> list[Violation]:
    """Return the violations in a sketch's version; leave the rebuilt trees in the sketch.
    O(evaluating all rules).
    """
    try:
        rebuild(sketch, installed, installed.rules, progress=progress)
    except UnregisteredError:
        raise
    except MaintainError as error:
        return [_violation("functions", str(error))]
    return [
        *_check_dependants(sketch, installed),
        *_check_constraints(sketch, installed),
        *(
            violation
            for name in installed.layouts
            for violation in _check_predicate(sketch, installed, name, progress)
        ),
        *(
            violation
            for rule in installed.rules
            for violation in _check_sensitivity(sketch, rule, progress)
        ),
        *(
            violation
            for stratum in installed.strata
            if stratum.recursive
            for violation in _check_ranks(sketch, installed, stratum)
        ),
    ]


def _check_dependants(sketch: EphemeralTransaction, installed: Installed) -> Iterator[Violation]:
    """Check that the version records which trees depend on which relations."""
    stored = sketch.base.catalog.dependants.get(HOST)
    if installed.blocks and (stored is None or stored.content != dependants_of(installed).content):
        yield _violation(
            "dependants",
            "the version does not say which relations its views depend on; `ivm fsck --repair` "
            "writes it",
        )


def _check_constraints(sketch: EphemeralTransaction, installed: Installed) -> Iterator[Violation]:
    """Check that nothing violates the constraints."""
    for view in installed.constraints:
        try:
            refuse_violations(sketch, installed, [view])
        except ConstraintError as error:
            yield _violation("constraints", str(error))


def _check_predicate(
    sketch: EphemeralTransaction, installed: Installed, name: str, progress: Progress
) -> Iterator[Violation]:
    """Check a view with its aggregate state, and the permuted indices of a predicate."""
    progress(f"comparing {shown_names([name])}")
    predicate, layout = installed.program.predicates[name], installed.layouts[name]
    if predicate.extensional and tree_before(sketch, name) is None:
        if not any(name in rule.reads for rule in installed.rules):
            return
        yield _violation("view rows", f"{name}, which rules read, is missing")
    if not predicate.extensional:
        found = tree_difference(sketch, name, predicate.stored_types, layout.compared)
        if found:
            yield _violation("support" if found.hidden else "view rows", f"{name}: {found.fact}")
        if layout.fold and (
            found := _state_difference(
                sketch, layout.fold.state.name, name in installed.scanned_ends
            )
        ):
            yield _violation("aggregate", f"{layout.fold.state.name}: {found.fact}")
    for index in installed.indices[name]:
        types = [predicate.stored_types[column] for column in index_columns(index, layout)]
        if found := tree_difference(sketch, tree_name(index), types):
            yield _violation("index", f"{tree_name(index)}, of {name}: {found.fact}")


def _check_sensitivity(
    sketch: EphemeralTransaction, rule: InstalledRule, progress: Progress
) -> Iterator[Violation]:
    """Check the sensitivity indices of a rule."""
    for number, plan in enumerate(rule.plans):
        names = rule.sensitivity_names(number)
        stored = [tree_before(sketch, name) for name in names]
        fresh = [sketch.tree(name) for name in names]
        missing = [name for name, tree in zip(names, stored, strict=True) if tree is None]
        views = ", ".join(rule.writes)
        yield from (
            _violation("sensitivity", f"{name}, of {views}: it is missing") for name in missing
        )
        if missing:
            continue
        trees = [sketch.tree(tree_name(trie.index)) for trie in plan.tries]
        soundness = Soundness(sketch.pages, plan, trees, [tree for tree in stored if tree], fresh)
        for s, name in enumerate(names):
            progress(f"{name}, of {views}")
            if gap := soundness.gap(s):
                context, value = gap
                words = {**context, plan.sensors[s].level: value}
                where = ", ".join(
                    f"{plan.variables[level]} = {word}" for level, word in sorted(words.items())
                )
                atom = plan.tries[plan.sensors[s].trie].text
                yield _violation(
                    "sensitivity",
                    f"{name}, of {views}: no interval of {atom} holds {where} (words)",
                )


def _check_ranks(
    sketch: EphemeralTransaction, installed: Installed, stratum: InstalledStratum
) -> Iterator[Violation]:
    """Check the ranks of a recursive stratum, provided that everything it reads is right."""
    if any(unordered(name) in built_sizes(sketch) for name in stratum.recursive):
        return  # it is evaluated from scratch at each change
    stored = {name: tree_before(sketch, name) for name in stratum.recursive}
    for name, tree in stored.items():
        if tree is None or tree.spec[1:3] != sketch.tree(name).spec[1:3]:
            return  # it is reported as missing, or of another shape
    fixpoint = fixpoint_of(
        sketch, installed, stratum, Encoder(sketch), sketch.threads, limits_of(stratum)
    )
    for name, tree in stored.items():
        assert tree
        none = np.empty((tree.spec.columns, 0), np.int64)
        fixpoint.facts.replace(
            name, [np.concatenate([*read_batches(sketch.pages, tree), none], axis=1)]
        )
    for name, row in fixpoint.unfounded():
        predicate = installed.program.predicates[name]
        yield _violation(
            "rank", f"{name}: {_shown(sketch, predicate.types, row)} follows from no rows before it"
        )


def _state_difference(
    sketch: EphemeralTransaction, name: str, is_partial: bool
) -> Difference | None:
    """Return how a state differs from the rebuilt one; of a partial one, before the marks of
    groups in either.
    """
    difference = tree_difference(sketch, name, ())
    old, new = tree_before(sketch, name), sketch.tree(name)
    if not difference or not is_partial or old is None or old.spec[1:3] != new.spec[1:3]:
        return difference
    was, follows = (
        np.concatenate(
            [*read_batches(sketch.pages, tree), np.empty((tree.spec.columns, 0), np.int64)], axis=1
        )
        for tree in (old, new)
    )
    return None if np.array_equal(exact(was, follows), exact(follows, was)) else difference


def tree_difference(
    sketch: EphemeralTransaction, name: str, types: Sequence[str], compared: int | None = None
) -> Difference | None:
    """Return how a tree of the sketch's version differs from the rebuilt one; None if it does not.

    `types` are those of the first columns; the words of the others are shown as numbers. If
    `compared` is given, only that many first columns are compared.
    """
    old, new = tree_before(sketch, name), sketch.tree(name)
    if old is None:
        return Difference(False, "it is missing")
    if old.spec[1:3] != new.spec[1:3]:
        shapes = (f"{spec.keys} key and {spec.values} value words" for spec in (old.spec, new.spec))
        return Difference(False, "it has {}, and should have {}".format(*shapes))
    differences: Iterable[Edits] = Delta(sketch.pages, old, new)
    if compared is not None:
        actions, rows = delta(sketch.pages, old, new)
        shown = net_changes(actions, rows[:compared], new.spec.keys)
        differences = [shown] if shown else []
    for actions, rows in differences:
        keys, seen = new.spec.keys, len(types) or len(rows)
        counts = f"; {old.count:,} records, and {new.count:,} follow"
        if len(actions) > 1 and (rows[:keys, 0] == rows[:keys, 1]).all():
            hidden = seen < len(rows) and (rows[:seen, 0] == rows[:seen, 1]).all()
            was, follows = (_shown(sketch, types, row) for row in rows[:, :2].T)
            return Difference(bool(hidden), f"it has {was}, and {follows} follows{counts}")
        row = _shown(sketch, types, rows[:seen, 0])
        what = (
            f"{row}, which does not follow" if actions[0] == ERASE else f"no {row}, which follows"
        )
        return Difference(False, f"it has {what}{counts}")
    return None


def tree_before(sketch: EphemeralTransaction, name: str) -> Tree | None:
    """Return a tree of the sketch's version; None if it does not exist."""
    info = sketch.base.catalog.relations.get(name)
    return sketch.base.trees[info.spec.tree_id] if info else None


def _shown(sketch: EphemeralTransaction, types: Sequence[str], words: np.ndarray) -> str:
    """Return a record as text."""
    values = [sketch.decode(type_, words[c : c + 1])[0].as_py() for c, type_ in enumerate(types)]
    return f"({', '.join(map(str, (*values, *words[len(types) :].tolist())))})"


def _violation(invariant: str, fact: str) -> Violation:
    return Violation(invariant, None, (), fact)
