"""Rules in a store: which rules a version has installed, the relations that they read, and the trees that they need.

Derive declarations from the schemas of relations that the store has and no text declares.

    edge     x: int64, y: int64                    edge(x, y) -> int64(x), int64(y).
    price    item: string, p: decimal(8,2)?        price[item] = p -> string(item), decimal(8,2)?(p).
    sale     id: int64, shop: string, n: int64     sale[id] = (shop, n) -> int64(id), string(shop), int64(n).

A relation with a key and other columns is a function of one value or several.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from ivm.engine.installed import PROPERTY, Installed
from ivm.errors import EditError, IvmError, RedefinitionError
from ivm.lang import compile
from ivm.lang.ir import Const, Predicate, show_name, show_type
from ivm.plan.expression import Encoder
from ivm.views.layouts import PLAIN, Layout, extensional_layout
from pagestore.errors import SchemaError
from pagestore.host import INSERT, Column, Dependants, Schema, Snapshot, Store, Transaction, Type, record_dependants

HOST = "ivm"
BUILT = "ivm.built"  # the property that holds the sizes of sensitivity indices when they were last built
# Each version stores these two sentences, for processes in which this package is not imported.
EDIT = "`import ivm` first, and its views follow, or edit in ivm.open(path).transaction()"
RELEASE = "`ivm uninstall` removes rules and all that is stored for them"


def saved_rules(source: Snapshot | Transaction) -> str | None:
    """Return the property of a version that lists the installed rules, as JSON; None if there are no rules."""
    holder = source.catalog if isinstance(source, Transaction) else source
    saved = holder.properties.get(PROPERTY)
    return None if saved is None else str(saved)


def load(source: Snapshot | Transaction, saved: str | None = None) -> Installed:
    """Load the rules of a version, or of the property `saved`.  Raises RuleError, IvmError, EditError."""
    saved = saved or saved_rules(source)
    return Installed.load(saved, Encoder(source), layouts_of(source)) if saved else Installed()


class KnownRules:
    """A cache of the rules of the versions used last, by their saved texts; threads share it.

    Each cache entry is one value, so that it is replaced atomically. The words of the rules' texts are
    ids, which are valid until texts are removed from the store's dictionary.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._removed = store, store.texts_removed
        self._newest: tuple[str | None, Installed] = None, Installed()
        self._other: tuple[str | None, Installed] = self._newest

    def of(self, source: Snapshot | Transaction) -> Installed:
        """Return the rules of a version, compiled if they are not cached.  Raises RuleError, IvmError, EditError.

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
        """Cache the rules of the newest version."""
        self._newest = saved, installed


def built_sizes(source: Snapshot | Transaction) -> dict[str, tuple[int, int]]:
    """Return the rows of each plan's indices and body at their last build, by its first sensitivity index's name."""
    holder = source.catalog if isinstance(source, Transaction) else source
    try:
        return {name: (rows, body) for name, (rows, body) in json.loads(holder.properties.get(BUILT, "{}")).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise IvmError(f"property {BUILT!r} says how large sensitivity indices were, and does not read ({error!r}): "
                       "`ivm fsck --repair` writes it anew") from None  # fmt: skip


class BuiltSizes:
    """A cache of `built_sizes`, valid while the property is the same: other processes and branches change it, too."""

    def __init__(self) -> None:
        self._known: tuple[str, dict[str, tuple[int, int]]] = "{}", {}

    def of(self, txn: Transaction) -> dict[str, tuple[int, int]]:
        """Return the sizes of a transaction's version."""
        saved = str(txn.catalog.properties.get(BUILT, "{}"))
        if saved != self._known[0]:
            self._known = saved, built_sizes(txn)
        return self._known[1]


def dependants_of(installed: Installed) -> Dependants:
    """Return the relations that the installed rules read, and the trees derived from them."""
    predicates = installed.program.predicates.values()
    reads = sorted(predicate.name for predicate in predicates if predicate.extensional)
    return Dependants(HOST, (*reads,), (*sorted(installed.derived_trees),), (PROPERTY, BUILT), EDIT, RELEASE)


def save(txn: Transaction, installed: Installed, built: dict[str, tuple[int, int]]) -> str:
    """Store the installed rules and their dependants in a transaction; return the property that lists the rules."""
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
    columns = tuple(Column(name, type_) for name, type_ in typed)
    key = predicate.columns[: layout.keys]
    if predicate.bag:
        txn.create(predicate.name, Schema(columns[:-1], key), hidden=layout.hidden, keys_null=True, bag=True)
        return
    scans = sorted(installed.scans.get(predicate.name, ()))
    txn.create(predicate.name, Schema(columns, key), key=key, scans=scans, hidden=layout.hidden, keys_null=True)


def plant(txn: Transaction, seeds: Mapping[str, Sequence[tuple[Const, ...]]]) -> None:
    """Insert rows of constants into relations that the rewriting of a query created."""
    encode = Encoder(txn)
    for name, rows in seeds.items():
        words = np.array([[encode(const) for const in row] for row in rows], np.int64).T.copy()
        txn.apply(name, np.full(words.shape[1], INSERT), words)


def drop_stray_trees(txn: Transaction, before: Installed, installed: Installed) -> None:
    """Drop hidden trees with names that new rules will use, since no rule has kept them up to date."""
    for name in installed.derived_trees - before.derived_trees:
        if name.startswith("$") and name in txn:
            txn.drop(name)


def layouts_of(source: Any) -> Callable[[Predicate], Layout]:
    """Return a function that gives an extensional predicate's layout: its relation's, if that exists already.

    The function raises EditError if the relation's columns do not fit the declaration.
    """

    def layout(predicate: Predicate) -> Layout:
        if predicate.name not in source:
            return extensional_layout(predicate)
        info = source[predicate.name].info
        schema = function_schema(info)
        types, declared = tuple(str(column.type) for column in schema.stored), predicate.stored_types
        keys = len(predicate.keys) if predicate.key_count is None else predicate.key_count
        functional = (predicate.value or predicate.key_count) is not None and len(schema.key) != max(1, keys)
        names = tuple(column.name for column in schema.stored)[: len(declared)]
        more = len(types) > len(declared) >= len(schema.key) and names == predicate.columns  # values added since
        if types[: len(declared)] != declared or functional or (len(types) != len(declared) and not more):
            raise EditError(
                f"the store has a relation {predicate.name} ({schema}; key {', '.join(schema.key)}), which does not "
                f"fit its declaration with {', '.join(declared)}; change the declaration, or load it otherwise"
            )
        return Layout(PLAIN, len(schema.key), len(declared) - len(schema.key), 0, bare=not predicate.keys)

    return layout


def layout_in(source: Any, installed: Installed, name: str) -> Layout | None:
    """Return the layout of the rules' relation in a version; None if it does not exist. Raises EditError."""
    return layouts_of(source)(installed.program.predicates[name]) if name in source else None


UNREAD = "uint64?"  # a type whose words differ from those of uint64
MARK = "// relations that the store had before, by their schemas:"


def declarations_for(source: Any, text: str, known: Mapping[str, Predicate], block: str) -> str:
    """Return declarations, after a mark, of the relations that a text reads and that only the store knows.

    The text is installed with them, so that its meaning does not depend on the store. Raises RuleSyntaxError, which
    names the block, and SchemaError for a relation of a type that rules lack.
    """
    from ivm.lang.declarations import mentioned  # imports the parser, which opening a workspace does not need

    needed = {name for name in mentioned(text, block) if name not in known}
    needed |= {name.rpartition(":")[0] for name in needed if name not in source} - {*known}
    names = sorted(name for name in needed if name in source)
    for name in names:
        _refuse_unread(name, source[name].info.schema)
    found = (declaration_of(name, function_schema(source[name].info)) for name in names)
    lines = [declaration for declaration in found if declaration]
    return declared_before("", *lines) if lines else ""


def declarations_of(source: Any, known: Mapping[str, Predicate]) -> dict[str, str | None]:
    """Return the declarations of all relations that rules do not derive, by name; None where they cannot declare it."""
    names = [name for name in source if name not in known or known[name].extensional]
    return {name: declaration_of(name, function_schema(source[name].info)) for name in names}


def declared_before(text: str, *lines: str) -> str:
    """Return what to append to a text so that it declares relations that existed before it."""
    return "\n".join(["", *lines] if f"\n{MARK}\n" in text else ["", MARK, *lines])


def stored_before(text: str) -> set[str]:
    """Return the relations that existed before an installed text: those declared after the mark."""
    return {*compile(text.partition(f"\n{MARK}\n")[2]).predicates}


def declaration_of(name: str, schema: Schema | None) -> str | None:
    """Return the declaration of a relation; None if rules cannot declare it."""
    if schema is None or set("`$\n") & {*name}:
        return None
    if any(str(column.type) == UNREAD for column in schema.stored):
        return None
    columns = _names([column.name for column in schema.stored])
    typed = ", ".join(f"{show_type(str(c.type))}({n})" for c, n in zip(schema.stored, columns, strict=True))
    name = show_name(name)
    if len(columns) == len(schema.key) + 1:
        return f"{name}[{', '.join(columns[:-1])}] = {columns[-1]} -> {typed}."
    if len(columns) > len(schema.key):
        keys, values = ", ".join(columns[: len(schema.key)]), ", ".join(columns[len(schema.key) :])
        return f"{name}[{keys}] = ({values}) -> {typed}."
    return f"{name}({', '.join(columns)}) -> {typed}."


def function_schema(info: Any) -> Schema:
    """Return the schema of a relation as rules read it: of a bag, a function from its rows to their multiplicities."""
    schema: Schema = info.schema
    if not info.bag:
        return schema
    names = (f"times{n}" if n else "times" for n in count())
    value = Column(next(name for name in names if name not in schema.names), Type("int64"))
    return Schema((*schema.columns, value), schema.key)


def _refuse_unread(name: str, schema: Schema | None) -> None:
    """Raise SchemaError for a relation with a column of a type that rules lack."""
    for column in schema.stored if schema else ():
        if str(column.type) == UNREAD:
            raise SchemaError(
                f"rules cannot read {name!r}: its column {column.name} is {UNREAD}, which rules lack: load it with "
                f"--cast {column.name}=int64, or with a value for its nulls"
            )


def _names(columns: list[str]) -> list[str]:
    """Return variable names for columns: their own names, or c1, c2, ... for names that rules cannot write."""
    own = ["" if set("`$\n") & {*name} else name for name in columns]
    free = (f"c{n}" for n in count(1) if f"c{n}" not in own)
    return [show_name(name or next(free)) for name in own]
