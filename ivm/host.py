"""The host of rules in a store: maintains views under `store.transaction()`, as under a workspace's
edits.

with workspace.store.transaction() as txn:            or pagestore.open(file).transaction(), or one of a branch
    txn["edge"].delete([(1, 2)])                      its commit maintains the views, in the same version
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from ivm.check.check import check
from ivm.engine.engine import Engine
from ivm.errors import IvmError
from ivm.installation import install, is_declared, refit, refitted, uninstall
from ivm.lang.ir import constants
from ivm.memory import allowing
from ivm.names import CATALOG, CONSTRAINTS, named_part, tables_of_sql
from ivm.rope import computed_text, note_erased
from ivm.rules.installed import PLAIN, PROPERTY, Installed
from ivm.rules.stored import HOST, KnownRules, built_sizes, dependants_of, load, save, saved_rules
from ivm.terms.encoder import Encoder
from ivm.transaction import Maintainer
from ivm.views.delta import Delta
from ivm.wide import with_wide
from pagestore.errors import PagestoreError
from pagestore.host import (
    Computed,
    Dependants,
    EphemeralTransaction,
    Schema,
    Snapshot,
    Store,
    Transaction,
    Tree,
    Violation,
    record_dependants,
    recorded_dependants,
    register_host,
)

maintainers: WeakSet[Maintainer] = WeakSet()  # of all open workspaces in this process


class RuleHost:
    """pagestore's interface to the rules installed in any store (versions/catalog.py)."""

    name, mark = HOST, PROPERTY

    def __init__(self) -> None:
        self._texts: tuple[str | None, set[str]] = None, set()  # of the rules used last

    def carry(self, txn: Transaction, before: Mapping[str, Tree]) -> Callable[[], None]:
        """Maintain the views of a transaction's version, given the old trees of the relations that
        changed.

        Returns a function to call after the commit, which notifies workspaces over the same branch.
        Raises MaintainError.
        """
        same_branch = [maintainer for maintainer in [*maintainers] if maintainer.store.owns(txn)]
        if any(_schema(txn.base.catalog, name) != _schema(txn.catalog, name) for name in before):
            rules = _rules_before(txn)
            if not all(_fits(txn, rules, name) for name in before):
                return _refit(txn, rules, before, same_branch)
        installed = same_branch[0].rules.of(txn) if same_branch else load(txn)
        watched = {installed.whole(name) for one in same_branch for name in one.subscriptions}
        built = built_sizes(txn)
        strict = any(maintainer.strict for maintainer in same_branch)
        engine = Engine(
            txn,
            installed,
            Encoder(txn),
            txn.threads,
            watched=watched,
            built=dict(built),
            strict=strict,
        )
        with allowing(same_branch[0].memory if same_branch else None):
            engine.follow_changes(before)
        if (
            engine.built != built
            or engine.installed is not installed
            or HOST not in txn.base.catalog.dependants
        ):
            save(txn, engine.installed, engine.built)
        note_erased(engine, watched)
        notified = [one for one in same_branch if one.store.owns(txn, here=True)]
        return partial(_notify_all, notified, engine, engine.evaluated)

    def dependants(self, txn: Transaction) -> Dependants | None:
        """Return the dependants that an earlier release installed; None if this release cannot
        read its rules.
        """
        try:
            dependants_now = dependants_of(load(txn, str(txn.base.catalog.properties[PROPERTY])))
        except IvmError:
            return None
        return dependants_now if dependants_now.reads or dependants_now.keeps else None

    def texts(self, snapshot: Snapshot) -> set[str]:
        """Return the texts among the constants of a version's rules. Raises RuleError, IvmError."""
        saved = saved_rules(snapshot)
        if saved != self._texts[0]:
            blocks = (
                const.value for rule in load(snapshot).rules for const in constants(rule.definition)
            )
            self._texts = saved, {value for value in blocks if isinstance(value, str)}
        return self._texts[1]

    def refusal(self, txn: Transaction, name: str) -> str | None:
        """Return why the rules cannot use a relation that was dropped, renamed or recreated; None
        if they can.

        They can if no rule reads it, or if it still has the key and the value columns that rules
        read.
        """
        installed = _rules_before(txn)
        readers = [rule for rule in installed.rules if name in rule.reads]
        if not readers or _fits(txn, installed, name):
            return None
        if name in txn:
            with suppress(IvmError, PagestoreError):
                refitted(txn, installed)
                return None  # `carry` declares it as it is now
        views = ", ".join(sorted({named_part(view) for rule in readers for view in rule.writes}))
        blocks = " and ".join(
            f"`{b.name}`" for b in installed.blocks if any(rule in readers for rule in b.rules)
        )
        return (
            f"{name!r} was dropped, renamed or given other columns than the rules of {views} read "
            f"({readers[0].definition.where}): uninstall block {blocks} first, which keeps all "
            "relations, and install the rules again afterwards"
        )

    def merged(
        self, txn: Transaction, name: str, base: str | None, theirs: str | None, ours: str | None
    ) -> str | None:
        """Return what SQL says of a store after a merge: of tables what either side changed; views
        stay on the branch that they were made on.  None for another property.
        """
        if name != CATALOG:
            return None
        from ivm.sql.beside.merges import merged_catalog

        return merged_catalog(txn, *(json.loads(text or "{}") for text in (base, theirs, ours)))

    def default(self, source: Any, name: str, column: str) -> Any:
        """Return the value of a DEFAULT of SQL; None if there is none, or it is computed."""
        from ivm.sql.beside.merges import default_of  # imports sqlglot, which others do not need

        with suppress(IvmError):
            return default_of(source, name, column)

    def demands(
        self, txn: Transaction, base: Snapshot, theirs: Snapshot
    ) -> Callable[[], None] | None:
        """Return what lets tables have the constraints that theirs changed."""
        said = [tables_of_sql(side.properties) for side in (base, theirs)]
        names = [name for name in said[1] if name in txn and _demands(said, name)]
        return partial(_constrain, txn, names) if names else None

    def changed(self, sketch: EphemeralTransaction, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return changes without helpers, and with views that are in several relations."""
        return with_wide(sketch, changes)

    def declared(self, snapshot: Snapshot) -> object:
        """Return the blocks of a version, and what SQL says of its views."""
        said = json.loads(snapshot.properties.get(CATALOG, "{}"))
        blocks = [(block.name, block.text) for block in load(snapshot).blocks]
        return blocks, [said.get(kind, {}) for kind in ("views", "kept")]

    def computed(self, source: Any, name: str) -> Computed | None:
        """Return the texts of a concat, whose rows have checksums. Raises RuleError, IvmError."""
        return computed_text(source, name)

    def check(self, store: Store, progress: Callable[[str], None]) -> list[Violation]:
        """Return the violations in the newest version of each branch (check/check.py)."""
        faults = []
        for branch in store.branches:
            with store.sketch(branch) as sketch:
                faults += check(sketch, load(sketch), progress)
        return faults


def _demands(said: Iterable[Mapping[str, Any]], name: str) -> bool:
    """Return whether two versions, given their tables, do not demand the same of one's rows."""
    return len({(*tables.get(name, {}).get("constraints", {}).values(),) for tables in said}) > 1


def _constrain(txn: Transaction, tables: Iterable[str]) -> None:
    """Install tables' constraints after a merge. Raises SqlError for rows that violate them."""
    from ivm.sql.beside.merges import constraints_again, said_of

    txn.declare_maintained(HOST)
    rules = load(txn)
    for table in tables:
        program, block = constraints_again(txn, table), table + CONSTRAINTS
        known = rules.block(block) is not None
        if program is not None:
            with said_of(txn, table):
                rules = install(txn, rules, block, program, PLAIN, known, (), False).installed
        elif known:
            rules = uninstall(txn, rules, block, relations=False)[1]


def _schema(catalog: Any, name: str) -> Schema | None:
    info = catalog.relations.get(name)
    return info.schema if info else None


def _rules_before(txn: Transaction) -> Installed:
    """Return the rules of a transaction's base version, which read that version's relations."""
    saved = str(txn.base.catalog.properties[PROPERTY])
    before = {
        known: SimpleNamespace(info=info) for known, info in txn.base.catalog.relations.items()
    }
    return load(txn, saved, before)


def _fits(txn: Transaction, installed: Installed, name: str) -> bool:
    """Return whether no rule reads a relation, or it has the columns that are declared."""
    if not any(name in rule.reads for rule in installed.rules):
        return True
    return is_declared(txn, installed, installed.program.predicates[name])


def _refit(
    txn: Transaction, rules: Installed, before: Mapping[str, Tree], same_branch: list[Maintainer]
) -> Callable[[], None]:
    """Bring views up to date with relations whose columns are no longer those declared; return
    what `carry` returns.
    """
    watched = {rules.whole(name) for maintainer in same_branch for name in maintainer.subscriptions}
    done = refit(txn, rules, watched, before)
    note_erased(done.engine, watched, done.changes)
    notified = [maintainer for maintainer in same_branch if maintainer.store.owns(txn, here=True)]
    return partial(_notify_all, notified, done.engine, done.evaluated, done.changes)


def _notify_all(
    notified: list[Maintainer],
    engine: Engine,
    evaluated: Iterable[str],
    changes: Mapping[str, Delta] = {},
) -> None:
    """Tell every workspace of a commit, even if telling one of them fails."""
    with ExitStack() as stack:
        for maintainer in notified:
            stack.callback(maintainer.committed, engine, evaluated, changes)


def record_dependants_everywhere(store: Store, rules: KnownRules) -> None:
    """Record in each branch what its views depend on, if an earlier release did not; mostly this
    does nothing.
    """
    for branch in store.branches:
        with store.snapshot(branch) as snap, suppress(IvmError):
            stored = recorded_dependants(snap.properties).get(HOST)
            if stored and rules.saved(snap).saved.are_linked:
                continue
            installed = rules.of(snap)
            dependants = dependants_of(installed)
            if installed.blocks and (stored is None or stored.content != dependants.content):
                with store.transaction("record what views depend on", branch) as txn:
                    txn.declare_maintained(HOST)
                    record_dependants(txn, dependants)


register_host(RuleHost())
