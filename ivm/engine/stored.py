"""Rules and a store: what a version says is installed, the relations that it takes, and what of them is kept for it."""

import json
from collections.abc import Callable
from typing import Any

from ivm.engine.installed import PROPERTY, Installed
from ivm.errors import EditError
from ivm.lang.ir import Predicate
from ivm.plan.constants import encoder
from ivm.views.layouts import PLAIN, Layout, extensional_layout
from pagestore.host import Dependants, Snapshot, Transaction, record_dependants

HOST = "ivm"
BUILT = "ivm.built"  # the property that holds the sizes of sensitivity indices when they were built
EDIT = "`import ivm` first, and its views follow, or edit in ivm.open(path).transaction()"
RELEASE = "`ivm uninstall` lets go of rules and of what they keep"


def saved_in(source: Snapshot | Transaction) -> str | None:
    """The property that says what is installed in a version."""
    holder = source.catalog if isinstance(source, Transaction) else source
    saved = holder.properties.get(PROPERTY)
    return None if saved is None else str(saved)


def load(source: Snapshot | Transaction, saved: str | None = None) -> Installed:
    """What is installed in a version, or `saved` of another.  Raises RuleError, IvmError, EditError."""
    saved = saved or saved_in(source)
    return Installed.load(saved, encoder(source), layouts_of(source)) if saved else Installed()


def built_in(source: Snapshot | Transaction) -> dict[str, tuple[int, int]]:
    """By sensitivity index its rows, and those of the body, when it was built."""
    holder = source.catalog if isinstance(source, Transaction) else source
    return {name: (rows, body) for name, (rows, body) in json.loads(holder.properties.get(BUILT, "{}")).items()}


def dependants_of(installed: Installed) -> Dependants:
    """What is kept for all that is installed, and of which relations."""
    predicates = installed.program.predicates.values()
    reads = sorted(predicate.name for predicate in predicates if predicate.extensional)
    return Dependants(HOST, (*reads,), (*sorted(installed.keeps),), (PROPERTY, BUILT), EDIT, RELEASE)


def save(txn: Transaction, installed: Installed, built: dict[str, tuple[int, int]]) -> str:
    """Say in a transaction what is installed, and what stands on which relations; returns the property."""
    txn.properties[BUILT] = json.dumps(built)
    saved = txn.properties[PROPERTY] = installed.save()
    record_dependants(txn, dependants_of(installed))
    return saved


def provide(txn: Transaction, predicate: Predicate, installed: Installed) -> None:
    """Create a predicate's relation, unless it was loaded before (see layouts_of)."""
    if predicate.extensional and predicate.name in txn:
        return
    layout = installed.layouts[predicate.name]
    schema = ", ".join(f"{n}: {t}" for n, t in zip(predicate.columns, predicate.types, strict=True))
    txn.create(predicate.name, schema, key=predicate.columns[: layout.keys], hidden=layout.hidden)


def drop_strays(txn: Transaction, before: Installed, installed: Installed) -> None:
    """Remove hidden trees under names that what is new will take: nobody has kept them up to date."""
    for name in installed.keeps - before.keeps:
        if name.startswith("$") and name in txn:
            txn.drop(name)


def layouts_of(source: Any) -> Callable[[Predicate], Layout]:
    """The layout of an extensional predicate: that of the relation if it is there, loaded before its declaration.

    Raises EditError if the relation's columns do not fit.
    """

    def layout(predicate: Predicate) -> Layout:
        if predicate.name not in source:
            return extensional_layout(predicate)
        schema = source[predicate.name].schema
        types = tuple(str(column.type) for column in schema.stored)
        functional = predicate.value is not None and len(schema.key) != max(1, len(predicate.keys))
        if types != predicate.types or functional:
            raise EditError(
                f"the store has a relation {predicate.name} ({schema}; key {', '.join(schema.key)}), which does not "
                f"fit its declaration with {', '.join(predicate.types)}; change the declaration, or load it otherwise"
            )
        return Layout(PLAIN, len(schema.key), len(types) - len(schema.key), 0, bare=not predicate.keys)

    return layout
