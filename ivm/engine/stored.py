"""Rules in a store: which are installed in a version, which relations they read, and which trees they need."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ivm.engine.installed import PROPERTY, Installed
from ivm.errors import EditError, IvmError, RedefinitionError
from ivm.lang.ir import Const, Predicate
from ivm.plan.constants import Encoder
from ivm.views.layouts import PLAIN, Layout, extensional_layout
from pagestore.host import INSERT, Column, Dependants, Schema, Snapshot, Store, Transaction, Type, record_dependants

HOST = "ivm"
BUILT = "ivm.built"  # the property that holds the sizes of sensitivity indices when they were last built
# Each version stores these two sentences, and they are compared with what it should store, so they cannot change.
EDIT = "`import ivm` first, and its views follow, or edit in ivm.open(path).transaction()"
RELEASE = "`ivm uninstall` lets go of rules and of what they keep"


def saved_rules(source: Snapshot | Transaction) -> str | None:
    """The property of a version that says which rules are installed, as JSON; None if there are no rules."""
    holder = source.catalog if isinstance(source, Transaction) else source
    saved = holder.properties.get(PROPERTY)
    return None if saved is None else str(saved)


def load(source: Snapshot | Transaction, saved: str | None = None) -> Installed:
    """The rules of a version, or of the property `saved`.  Raises RuleError, IvmError, EditError."""
    saved = saved or saved_rules(source)
    return Installed.load(saved, Encoder(source), layouts_of(source)) if saved else Installed()


class KnownRules:
    """The rules of the versions that were used last, by their saved texts; threads share it.

    What is known of a saved text is one value, so that it is replaced as a whole. The words of the rules' texts are
    ids, which stay as they are until texts leave the store's dictionary.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._removed = store, store.texts_removed
        self._newest: tuple[str | None, Installed] = None, Installed()
        self._other: tuple[str | None, Installed] = self._newest

    def of(self, source: Snapshot | Transaction) -> Installed:
        """The rules of a version, compiled if they are not known.  Raises RuleError, IvmError, EditError.

        For a transaction the saved text of its own version counts: another thread may have committed an installation
        and not stored its rules here yet.
        """
        if self._removed != self._store.texts_removed:
            self._removed = self._store.texts_removed
            self._newest = self._other = None, Installed()
        saved = saved_rules(source)
        for known, installed in (self._newest, self._other):
            if saved == known:
                return installed
        installed = load(source)
        self._other = saved, installed
        return installed

    def remember(self, saved: str, installed: Installed) -> None:
        """Keep the rules of the newest version."""
        self._newest = saved, installed


def built_sizes(source: Snapshot | Transaction) -> dict[str, tuple[int, int]]:
    """For each plan, by its first sensitivity index: rows of its indices and of its body when these were last built."""
    holder = source.catalog if isinstance(source, Transaction) else source
    try:
        return {name: (rows, body) for name, (rows, body) in json.loads(holder.properties.get(BUILT, "{}")).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise IvmError(f"property {BUILT!r} says how large sensitivity indices were, and does not read ({error!r}): "
                       "`ivm fsck --repair` writes it anew") from None  # fmt: skip


class BuiltSizes:
    """What `built_sizes` finds, kept until the property is another one: other processes and branches change it, too."""

    def __init__(self) -> None:
        self._known: tuple[str, dict[str, tuple[int, int]]] = "{}", {}

    def of(self, txn: Transaction) -> dict[str, tuple[int, int]]:
        """The sizes that a transaction's version has."""
        saved = str(txn.catalog.properties.get(BUILT, "{}"))
        if saved != self._known[0]:
            self._known = saved, built_sizes(txn)
        return self._known[1]


def dependants_of(installed: Installed) -> Dependants:
    """The relations that the installed rules read, and the trees that follow from these."""
    predicates = installed.program.predicates.values()
    reads = sorted(predicate.name for predicate in predicates if predicate.extensional)
    return Dependants(HOST, (*reads,), (*sorted(installed.derived_trees),), (PROPERTY, BUILT), EDIT, RELEASE)


def save(txn: Transaction, installed: Installed, built: dict[str, tuple[int, int]]) -> str:
    """Write into a transaction which rules are installed and what depends on which relations; returns the property."""
    txn.properties[BUILT] = json.dumps(built)
    saved = txn.properties[PROPERTY] = installed.save()
    record_dependants(txn, dependants_of(installed))
    return saved


def create_relation(txn: Transaction, predicate: Predicate, installed: Installed) -> None:
    """Create a predicate's tree; an extensional predicate may have one already, loaded before (see layouts_of).

    Raises RedefinitionError for a view that has the name of a relation in the store.
    """
    if predicate.name in txn:
        if predicate.extensional:
            return
        raise RedefinitionError(
            predicate.where, f"the store has a relation {predicate.name} with {len(txn[predicate.name]):,} rows, which "
            "no rule may derive: give the view another name, or rename or drop the relation first"
        )  # fmt: skip
    layout = installed.layouts[predicate.name]
    typed = zip(predicate.columns, map(Type.parse, predicate.stored_types), strict=True)
    schema = Schema(tuple(Column(name, type_) for name, type_ in typed), predicate.columns[: layout.keys])
    scans = sorted(installed.scans.get(predicate.name, ()))
    txn.create(predicate.name, schema, key=predicate.columns[: layout.keys], scans=scans, hidden=layout.hidden)


def plant(txn: Transaction, seeds: Mapping[str, Sequence[tuple[Const, ...]]]) -> None:
    """Insert rows of constants into relations that the rewriting of a question made."""
    encode = Encoder(txn)
    for name, rows in seeds.items():
        words = np.array([[encode(const) for const in row] for row in rows], np.int64).T.copy()
        txn.apply(name, np.full(words.shape[1], INSERT), words)


def drop_stray_trees(txn: Transaction, before: Installed, installed: Installed) -> None:
    """Drop hidden trees that have the names which new rules will use: no rule has kept them up to date."""
    for name in installed.derived_trees - before.derived_trees:
        if name.startswith("$") and name in txn:
            txn.drop(name)


def layouts_of(source: Any) -> Callable[[Predicate], Layout]:
    """How to find the layout of an extensional predicate: its relation's, if that was loaded before the declaration.

    The function returned raises EditError if the relation's columns do not fit.
    """

    def layout(predicate: Predicate) -> Layout:
        if predicate.name not in source:
            return extensional_layout(predicate)
        schema = source[predicate.name].info.schema
        types, declared = tuple(str(column.type) for column in schema.stored), predicate.stored_types
        keys = len(predicate.keys) if predicate.key_count is None else predicate.key_count
        functional = (predicate.value or predicate.key_count) is not None and len(schema.key) != max(1, keys)
        names = tuple(column.name for column in schema.stored)[: len(declared)]
        more = len(types) > len(declared) >= len(schema.key) and names == predicate.columns  # values that it has since
        if types[: len(declared)] != declared or functional or (len(types) != len(declared) and not more):
            raise EditError(
                f"the store has a relation {predicate.name} ({schema}; key {', '.join(schema.key)}), which does not "
                f"fit its declaration with {', '.join(declared)}; change the declaration, or load it otherwise"
            )
        return Layout(PLAIN, len(schema.key), len(declared) - len(schema.key), 0, bare=not predicate.keys)

    return layout


def layout_in(source: Any, installed: Installed, name: str) -> Layout | None:
    """The layout that a relation of the rules has in a version; None if it is not there. Raises EditError."""
    return layouts_of(source)(installed.program.predicates[name]) if name in source else None
