"""Rules in a store: as a version saves them, compiled when something needs them, the relations that
they read, and the trees that they need.

    block v0   has paid, city, v0                  declares or derives these
    block v1   has v1            uses v0           reads paid, which v0 declares
    block v2   has v2            uses v0, v1

A question about v1 compiles v1 and v0, whatever else is installed; a transaction that edits paid
compiles all three.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from operator import index
from typing import Any

import numpy as np

from ivm.errors import EditError, IvmError, RedefinitionError, RuleError, RuleTypeError
from ivm.lang.ir import Const, Edit, Predicate
from ivm.lang.types import zone_named, zone_of
from ivm.names import WHOLE, is_tree_of_rules, permuted_name
from ivm.plan.plan import Index
from ivm.plan.planner import AUTO, Chosen
from ivm.rules.compile import Saved, compile, with_block
from ivm.rules.installed import (
    PLANNING,
    PROPERTY,
    Installed,
    Options,
    Rewrites,
)
from ivm.rules.relations import MARK, Relations
from ivm.rules.rule import Basis
from ivm.terms.encoder import Encoder, finder
from ivm.views.edit_composition import TAKE
from pagestore.errors import WordError
from pagestore.host import (
    ERASE,
    INSERT,
    NULL,
    SET,
    Column,
    Dependants,
    Edits,
    Schema,
    Snapshot,
    Store,
    Transaction,
    Type,
    catalog_of,
    narrowed,
    record_dependants,
    recorded_dependants,
)

HOST = "ivm"
PLANNING_BEFORE = 1  # as PLANNING_WITHOUT_RANGES, but for rules whose arithmetic may fail
REMEDY = "`pagestore dump --relation` and `restore` take the facts to a new store, and `ivm install` the rules"
ANOTHER = (
    "another release installed rules in this store, and what it stores for them is not what "
    f"this one would; {REMEDY}"
)
OTHERS_MAX = 16  # versions whose rules are kept, of branches and older ones
DAMAGED = LookupError, ValueError, TypeError, AttributeError, AssertionError, RecursionError
# the property that holds the sizes of sensitivity indices when they were last built
BUILT = "ivm.built"
# Each version stores these two sentences, for processes in which this package is not imported.
EDIT = "`import ivm` first, and its views follow, or edit in ivm.open(path).transaction()"
RELEASE = "`ivm uninstall` removes rules and all that is stored for them"


def saved_rules(source: Snapshot | Transaction) -> str | None:
    """Return the property of a version that lists the installed rules, as JSON; None if there
    are no rules.
    """
    holder = source.catalog if isinstance(source, Transaction) else source
    saved = holder.properties.get(PROPERTY)
    return None if saved is None else str(saved)


def load(
    source: Snapshot | Transaction, saved: str | None = None, relations: Any = None
) -> Installed:
    """Load the rules of a version, or of the property `saved`, over its relations or other ones.

    Reads what `Installed.save` wrote, in an earlier release, too, if its plans are the same.
    Raises RuleError, IvmError, EditError.
    """
    saved = saved or saved_rules(source)
    return SavedBlocks(saved).compiled(source, relations) if saved else Installed()


class SavedBlocks:
    """The blocks of rules that a version saved, as data, and which of them use others."""

    def __init__(self, saved: str) -> None:
        """Raises IvmError for a property that does not read, or that another release wrote."""
        with _reading():
            listed = json.loads(saved)
            self._planning = listed["planning"] if isinstance(listed, dict) else None
            if self._planning not in range(PLANNING_BEFORE, PLANNING + 1):
                raise IvmError(ANOTHER)
            self._blocks = {block["name"]: block for block in listed["blocks"]}
            self._deferred = {Index(n, (*order,)) for n, order in listed.get("deferred", ())}
            self._partial = frozenset(map(str, listed.get("partial", ())))
            self._owners = {n: b["name"] for b in self._blocks.values() for n in b.get("has", ())}
            self.are_linked = self._planning != PLANNING_BEFORE and all(
                "has" in block for block in self._blocks.values()
            )

    def needed(self, read: Iterable[str], edited: Iterable[str]) -> set[str]:
        """Return the blocks from which relations and views follow that are read, and those which
        follow what is edited.
        """
        changed = self._of(edited)
        for name, block in self._blocks.items():  # each after those that it uses
            if not changed.isdisjoint(block["uses"]):
                changed.add(name)
        blocks, left = set[str](), [*self._of(read), *changed]
        while left:
            name = left.pop()
            if name not in blocks:
                blocks.add(name)
                left += self._blocks[name]["uses"]
        return blocks

    def _of(self, names: Iterable[str]) -> set[str]:
        """Return the blocks that have some names."""
        whole = (predicate for name in names for predicate in (name, name + WHOLE))
        return {self._owners[name] for name in whole if name in self._owners}

    def compiled(self, source: Snapshot | Transaction, relations: Any = None) -> Installed:
        """Return all rules compiled, as `load` does."""
        store = Relations(source, relations, opening=True)
        if self._planning != PLANNING_BEFORE:
            return self.adding(Installed(), self._blocks, store)
        # raised where rules have more plans than were saved
        with suppress(IndexError, ValueError, AssertionError):
            installed = self.adding(Installed(), self._blocks, store)
            saved_plans = [len(r) for block in self._blocks.values() for r in block["orders"]]
            if saved_plans == [len(rule.plans) for rule in installed.rules]:
                return installed
        raise IvmError(ANOTHER)

    def completed(self, installed: Installed, known: Container[str], store: Relations) -> Installed:
        """Return all rules, of which those of the `known` blocks are compiled."""
        made = self.adding(installed, [n for n in self._blocks if n not in known], store)
        places = {name: place for place, name in enumerate(self._blocks)}
        blocks = sorted(made.blocks, key=lambda block: places[block.name])
        return replace(made, blocks=(*blocks,), elsewhere=frozenset())

    def adding(self, installed: Installed, names: Container[str], store: Relations) -> Installed:
        """Return rules with some blocks more.  Raises RuleError, EditError, IvmError."""
        with nullcontext() if self._planning == PLANNING_BEFORE else _reading():
            for block in self._blocks.values():
                if block["name"] in names:
                    installed = _with(installed, block, store)
        return replace(installed.deferring(self._deferred), partial=self._partial)


@contextmanager
def _reading() -> Iterator[None]:
    """Raise IvmError for errors of a property that does not read."""
    try:
        yield
    except IvmError:
        raise
    except DAMAGED as error:
        said = f"property {PROPERTY!r} says which rules are installed, and does not read ({error!r}): {REMEDY}"
        raise IvmError(said) from None


def _with(installed: Installed, block: dict[str, Any], store: Relations) -> Installed:
    """Return rules with a saved block."""
    orders = [[Chosen(*o) for o in rule] for rule in block["orders"]]
    rewrites = Rewrites(*(block.get(name, False) for name in Rewrites._fields))
    limits = tuple(block.get("limits", (None, None)))
    options = Options(block["granularity"], block.get("maintenance", AUTO), limits)
    bases = [_basis(*basis) for basis in block.get("bases", ())]
    saved = Saved(block["number"], orders, rewrites, bases)
    return with_block(block["text"], installed, store, block["name"], options, saved)


def _basis(
    sizes: dict[str, int],
    reason: str,
    operations: int,
    expected: float,
    estimated: Sequence[Sequence[float]] = (),
    found: Sequence[Sequence[int]] = (),
    turned: bool = False,
) -> Basis:
    """Return what plans were made for as it was stored.  Raises TypeError, ValueError,
    AttributeError if damaged.
    """
    return Basis(
        {name: index(rows) for name, rows in sizes.items()},
        reason.strip(),
        index(operations),
        float(expected),
        [[*map(float, steps)] for steps in estimated],
        [[*map(index, steps)] for steps in found],
        turned is True,
    )


class KnownRules:
    """A cache of the rules of the versions used last, by their saved texts; threads share it.

    Each step of the caches is one operation, which is atomic. The words of the rules' texts
    are ids, which are valid until texts are removed from the store's dictionary.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._removed = store, store.texts_removed
        self._newest: tuple[str | None, VersionRules] = None, VersionRules(None)
        # of other versions and branches, with those used last at the end
        self._others: dict[str | None, VersionRules] = {}

    def of(self, source: Snapshot | Transaction) -> Installed:
        """Return the rules of a version, compiled if they are not cached.  Raises RuleError,
        IvmError, EditError.

        For a transaction the saved text of its own version counts: another thread may have
        committed an installation and not stored its rules here yet.
        """
        return self.saved(source).all(source)

    def some(
        self, source: Snapshot | Transaction, read: Iterable[str], edited: Iterable[str] = ()
    ) -> Installed:
        """Return the rules of a version from which relations and views follow that are read, and
        those which follow what is edited; perhaps others, too.  Raises as `of`.
        """
        return self.saved(source).some(source, read, edited)

    def saved(self, source: Snapshot | Transaction) -> VersionRules:
        """Return the rules of a version as they are saved, perhaps compiled.  Raises IvmError."""
        removed = (
            source.texts_removed if isinstance(source, Transaction) else self._store.texts_removed
        )
        if self._removed != removed:
            self._removed = removed
            self._newest, self._others = (None, VersionRules(None)), {}
        saved = saved_rules(source)
        known, rules = self._newest
        if saved == known:
            return rules
        others = self._others
        rules = others.pop(saved) if saved in others else VersionRules(saved)
        others[saved] = rules
        if len(others) > OTHERS_MAX:
            others.pop(next(iter(others)), None)
        return rules

    def remember(self, saved: str, installed: Installed) -> None:
        """Cache the rules of the newest version."""
        self._newest = saved, VersionRules(saved, installed)


class VersionRules:
    """The rules of a version, of which some are compiled."""

    def __init__(self, saved: str | None, installed: Installed | None = None) -> None:
        """Take the property that lists them, and all if they are compiled.  Raises IvmError."""
        self.whole = Installed() if saved is None else installed  # once all are compiled
        self._blocks = SavedBlocks(saved) if saved and installed is None else None
        # the names of some blocks, with their rules
        self._some: tuple[frozenset[str], Installed] | None = None

    @property
    def are_linked(self) -> bool:
        """Whether it is known which blocks use others, which earlier releases did not save."""
        return self._blocks is None or self._blocks.are_linked

    def all(self, source: Snapshot | Transaction) -> Installed:
        """Return all rules, compiled if they are not.  Raises RuleError, IvmError, EditError."""
        if self.whole is None:
            assert self._blocks is not None
            known, installed = self._some or (frozenset(), None)
            self.whole = (
                self._blocks.compiled(source)
                if installed is None
                else self._blocks.completed(installed, known, Relations(source, opening=True))
            )
        return self.whole

    def some(
        self, source: Snapshot | Transaction, read: Iterable[str], edited: Iterable[str]
    ) -> Installed:
        """Return at least the rules that `KnownRules.some` says."""
        if self.whole is not None or self._blocks is None or not self._blocks.are_linked:
            return self.all(source)
        known, installed = self._some or (frozenset(), Installed(elsewhere=_indices(source)))
        if missing := self._blocks.needed(read, edited) - known:
            try:
                store = Relations(source, opening=True)
                installed = self._blocks.adding(installed, missing, store)
            except RuleError:
                self._some = None
                return self.all(source)  # which says what is wrong, if anything is
            self._some = known | missing, installed
        return installed


def _indices(source: Snapshot | Transaction) -> frozenset[Index]:
    """Return the permuted indices that the rules of a version keep."""
    said = recorded_dependants(catalog_of(source).properties).get(HOST)
    parts = map(permuted_name, said.keeps if said else ())
    return frozenset(Index(*part) for part in parts if part)


def stored_before(text: str) -> set[str]:
    """Return the relations that existed before an installed text: those declared after the mark."""
    return {*compile(text.partition(f"\n{MARK}\n")[2]).predicates}


def built_sizes(source: Snapshot | Transaction) -> dict[str, tuple[int, int]]:
    """Return the rows of each plan's indices and body at their last build, by its first
    sensitivity index's name.
    """
    return sizes_in(catalog_of(source).properties)


def sizes_in(properties: Mapping[str, str | bytes]) -> dict[str, tuple[int, int]]:
    """Return `built_sizes` of a version with some properties."""
    try:
        return {
            name: (rows, body)
            for name, (rows, body) in json.loads(properties.get(BUILT, "{}")).items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise IvmError(
            f"property {BUILT!r} says how large sensitivity indices were, and does not read "
            f"({error!r}): `ivm fsck --repair` writes it anew"
        ) from None


class BuiltSizes:
    """A cache of `built_sizes`, valid while the property is the same: other processes and
    branches change it, too.
    """

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
    return Dependants(
        HOST, (*reads,), (*sorted(installed.derived_trees),), (PROPERTY, BUILT), EDIT, RELEASE
    )


def save(txn: Transaction, installed: Installed, built: dict[str, tuple[int, int]]) -> str:
    """Store the installed rules and their dependants in a transaction; return the property that
    lists the rules.
    """
    txn.properties[BUILT] = json.dumps(built)
    saved = txn.properties[PROPERTY] = installed.save()
    record_dependants(txn, dependants_of(installed))
    return saved


def create_relation(txn: Transaction, predicate: Predicate, installed: Installed) -> None:
    """Create a predicate's tree; an extensional predicate may have one already, loaded before (see
    relations.py).

    Raises RedefinitionError for a view that has the name of a relation in the store, and
    RuleTypeError for an unknown time zone.
    """
    if predicate.name in txn:
        if predicate.extensional:
            return
        raise RedefinitionError(
            predicate.where,
            f"the store has a relation {predicate.name} with {len(txn[predicate.name]):,} rows, "
            f"which "
            "no rule may derive: give the view another name, or rename or drop the relation first",
        )
    for zone in filter(None, map(zone_of, predicate.types)):
        zone_named(zone, predicate.where)
    layout = installed.layouts[predicate.name]
    typed = zip(predicate.columns, map(Type.parse, predicate.stored_types), strict=True)
    columns = tuple(Column(name, type_) for name, type_ in typed)
    key = predicate.columns[: layout.keys]
    if predicate.bag:
        txn.create(
            predicate.name,
            Schema(columns[:-1], key),
            hidden=layout.hidden,
            keys_null=True,
            bag=True,
        )
        return
    scans = sorted(installed.scans.get(predicate.name, ()))
    txn.create(
        predicate.name,
        Schema(columns, key),
        key=key,
        scans=scans,
        hidden=layout.hidden,
        keys_null=True,
    )


def plant(txn: Transaction, seeds: Mapping[str, Sequence[tuple[Const, ...]] | np.ndarray]) -> None:
    """Insert rows of constants, or words int64[columns, n], into relations that the rewriting of
    a query created.
    """
    encode = Encoder(txn)
    for name, rows in seeds.items():
        if isinstance(rows, np.ndarray):
            words = rows
        else:
            words = np.array([[encode(const) for const in row] for row in rows], np.int64).T.copy()
        txn.apply(name, np.full(words.shape[1], INSERT), words)


def drop_stray_trees(txn: Transaction, before: Installed, installed: Installed) -> None:
    """Drop hidden trees with names that new rules will use: no rule kept them up to date."""
    rules = [rule for rule in installed.rules if rule.number not in before.numbered]
    for name in installed.derived_by(rules) - before.derived_trees:
        if is_tree_of_rules(name) and name in txn:
            txn.drop(name)


def words_of_edits(
    txn: Transaction, edits: tuple[Edit, ...], installed: Installed
) -> dict[str, Edits]:
    """Convert edits to words, by predicate, in the order of the text."""
    intern, find = Encoder(txn), finder(txn)
    action = {"+": INSERT, "-": ERASE, "^": SET}
    found: dict[str, list[tuple[int, list[int]]]] = {}
    for edit in edits:
        terms = edit.args if edit.value is None else (*edit.args, edit.value)
        words = [*map(find if edit.action == "-" else intern, terms)]
        _narrow(txn, edit, terms, words)
        spec = txn.tree(edit.predicate).spec
        layout = installed.layouts.get(edit.predicate)
        taken = edit.action == "-" and (edit.value is not None or spec.keys < len(words))
        if edit.action != "-" or taken:
            words += _undeclared(txn, edit, len(words) if layout is None else layout.visible, taken)
        words += [0] * (spec.columns - len(words))
        found.setdefault(edit.predicate, []).append((TAKE if taken else action[edit.action], words))
    return {
        name: (
            np.array([a for a, _ in rows], np.int64),
            np.array([w for _, w in rows], np.int64).T.copy(),
        )
        for name, rows in found.items()
    }


def _narrow(txn: Transaction, edit: Edit, terms: tuple[Const, ...], words: list[int]) -> None:
    """Change the words of a row to those that narrow columns have.  Raises RuleTypeError for the
    insertion of a value that one of them does not have.
    """
    schema = txn[edit.predicate].schema
    for place in schema.narrow:
        column, word = schema.stored[place], np.array(words[place : place + 1], np.int64)
        try:
            words[place : place + 1] = narrowed(column, word, 0, edit.action != "-").tolist()
        except WordError as error:
            raise RuleTypeError(terms[place].where, str(error)) from None


def _undeclared(txn: Transaction, edit: Edit, declared: int, taken: bool) -> list[int]:
    """Return nulls for columns added to a relation since its declaration.  Raises EditError if
    they are not allowed.
    """
    more = txn[edit.predicate].schema.stored[declared:]
    if more and (taken or not all(column.type.nullable for column in more)):
        names = ", ".join(column.name for column in more)
        raise EditError(
            f"{edit.where}: {edit.predicate} has the column {names}, too, which its declaration "
            "lacks: edit whole rows in a transaction, or delete a key"
        )
    return [NULL] * len(more)
