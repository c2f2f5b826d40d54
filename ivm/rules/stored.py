"""Rules in a store: which rules a version has installed, the relations that they read, and the
trees that they need.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import index
from typing import Any

import numpy as np

from ivm.errors import IvmError, RedefinitionError
from ivm.lang.ir import Const, Predicate
from ivm.lang.types import zone_named, zone_of
from ivm.names import is_tree_of_rules
from ivm.plan.plan import Index
from ivm.plan.planner import AUTO, Chosen
from ivm.rules.compile import Saved, compile, with_block
from ivm.rules.installed import (
    PLANNING,
    PLANNING_WITHOUT_RANGES,
    PROPERTY,
    Installed,
    Options,
    Rewrites,
)
from ivm.rules.relations import MARK, Relations
from ivm.rules.rule import Basis
from ivm.terms.encoder import Encoder
from pagestore.host import (
    INSERT,
    Column,
    Dependants,
    Schema,
    Snapshot,
    Store,
    Transaction,
    Type,
    record_dependants,
)

HOST = "ivm"
PLANNING_BEFORE = 1  # as PLANNING_WITHOUT_RANGES, but for rules whose arithmetic may fail
REMEDY = "`pagestore dump --relation` and `restore` take the facts to a new store, and `ivm install` the rules"
# the property that holds the sizes of sensitivity indices when they were last built
BUILT = "ivm.built"
OTHERS_MAX = 16  # sets of rules that are kept compiled, of branches and older versions
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
    if not saved:
        return Installed()
    store = Relations(source, relations, opening=True)
    try:
        found = json.loads(saved)
        planning = found["planning"] if isinstance(found, dict) else None
        if planning in range(PLANNING_WITHOUT_RANGES, PLANNING + 1):
            deferred = {Index(name, (*order,)) for name, order in found.get("deferred", ())}
            partial = frozenset(map(str, found.get("partial", ())))
            return replace(_loaded(found["blocks"], store).deferring(deferred), partial=partial)
    except IvmError:
        raise
    except (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        AssertionError,
        RecursionError,
    ) as error:
        said = f"property {PROPERTY!r} says which rules are installed, and does not read ({error!r}): {REMEDY}"
        raise IvmError(said) from None
    if planning == PLANNING_BEFORE:
        # raised where rules have more plans than were saved
        with suppress(IndexError, ValueError, AssertionError):
            installed = _loaded(found["blocks"], store)
            saved_plans = [len(rule) for block in found["blocks"] for rule in block["orders"]]
            if saved_plans == [len(rule.plans) for rule in installed.rules]:
                return installed
    raise IvmError(
        "another release installed rules in this store, and what it stores for them is not what "
        f"this one would; {REMEDY}"
    )


def _loaded(blocks: list[dict[str, Any]], store: Relations) -> Installed:
    installed = Installed()
    for block in blocks:
        orders = [[Chosen(*o) for o in rule] for rule in block["orders"]]
        rewrites = Rewrites(*(block.get(name, False) for name in Rewrites._fields))
        limits = tuple(block.get("limits", (None, None)))
        options = Options(block["granularity"], block.get("maintenance", AUTO), limits)
        bases = [_basis(*basis) for basis in block.get("bases", ())]
        saved = Saved(block["number"], orders, rewrites, bases)
        installed = with_block(block["text"], installed, store, block["name"], options, saved)
    return installed


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


def stored_before(text: str) -> set[str]:
    """Return the relations that existed before an installed text: those declared after the mark."""
    return {*compile(text.partition(f"\n{MARK}\n")[2]).predicates}


class KnownRules:
    """A cache of the rules of the versions used last, by their saved texts; threads share it.

    Each step of the caches is one operation, which is atomic. The words of the rules' texts
    are ids, which are valid until texts are removed from the store's dictionary.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._removed = store, store.texts_removed
        self._newest: tuple[str | None, Installed] = None, Installed()
        # of other versions and branches, with those used last at the end
        self._others: dict[str | None, Installed] = {}

    def of(self, source: Snapshot | Transaction) -> Installed:
        """Return the rules of a version, compiled if they are not cached.  Raises RuleError,
        IvmError, EditError.

        For a transaction the saved text of its own version counts: another thread may have
        committed an installation and not stored its rules here yet.
        """
        removed = (
            source.texts_removed if isinstance(source, Transaction) else self._store.texts_removed
        )
        if self._removed != removed:
            self._removed = removed
            self._newest, self._others = (None, Installed()), {}
        saved = saved_rules(source)
        known, installed = self._newest
        if saved == known:
            return installed
        others = self._others
        found = others.pop(saved, None)
        installed = load(source) if found is None else found
        others[saved] = installed
        if len(others) > OTHERS_MAX:
            others.pop(next(iter(others)), None)
        return installed

    def remember(self, saved: str, installed: Installed) -> None:
        """Cache the rules of the newest version."""
        self._newest = saved, installed


def built_sizes(source: Snapshot | Transaction) -> dict[str, tuple[int, int]]:
    """Return the rows of each plan's indices and body at their last build, by its first
    sensitivity index's name.
    """
    return sizes_in((source.catalog if isinstance(source, Transaction) else source).properties)


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
