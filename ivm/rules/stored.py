"""Rules in a store: read from a version, compiled when something needs them, and written; the
relations that they read, and the trees that they need.
"""

from __future__ import annotations

import json
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from operator import index
from typing import Any

import numpy as np

from ivm.errors import EditError, IvmError, RedefinitionError, RuleError, RuleTypeError
from ivm.lang.ir import Const, Edit, Predicate
from ivm.lang.types import zone_named, zone_of
from ivm.names import WHOLE, is_tree_of_rules
from ivm.plan.plan import Index
from ivm.plan.planner import AUTO, Chosen
from ivm.rules.compile import Saved, compile, with_block
from ivm.rules.installed import PLANNING, PROPERTY, Installed, Options, Rewrites
from ivm.rules.kept_blocks import keep, kept, key_of
from ivm.rules.relations import MARK, Relations
from ivm.rules.rule import Basis
from ivm.rules.saved import NO_RULES, PLANNING_BEFORE, Rest, SavedBlock, SavedRules
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
REMEDY = "`pagestore dump --relation` and `restore` take the facts to a new store, and `ivm install` the rules"
ANOTHER = (
    "another release installed rules in this store, and what it stores for them is not what "
    f"this one would; {REMEDY}"
)
ASKED_MAX = 64  # of what is read and edited, for which the rules of a version are at hand
OTHERS_MAX = 16  # versions whose rules are kept, of branches and older ones
DAMAGED = LookupError, ValueError, TypeError, AttributeError, AssertionError, RecursionError
# the property that holds the sizes of sensitivity indices when they were last built
BUILT = "ivm.built"
# Each version stores these two sentences, for processes in which this package is not imported.
EDIT = "`import ivm` first, and its views follow, or edit in ivm.open(path).transaction()"
RELEASE = "`ivm uninstall` removes rules and all that is stored for them"


def saved_rules(source: Snapshot | Transaction) -> str | None:
    """Return the property of a version that lists the rules, as JSON; None if there are none."""
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
    return all_compiled(read_rules(saved), source, relations) if saved else Installed()


def read_rules(saved: str) -> SavedRules:
    """Return the rules that a property lists.  Raises IvmError for one that does not read, or that
    another release wrote.
    """
    with _reading():
        listed = json.loads(saved)
        planning = listed["planning"] if isinstance(listed, dict) else 0
        if planning not in range(PLANNING_BEFORE, PLANNING + 1):
            raise IvmError(ANOTHER)
        blocks = {block["name"]: SavedBlock(block) for block in listed["blocks"]}
        deferred = {Index(n, (*order,)) for n, order in listed.get("deferred", ())}
        partial = map(str, listed.get("partial", ()))
        rules = SavedRules(planning, blocks, frozenset(deferred), frozenset(partial))
        assert {*rules.owners.values()} <= blocks.keys()
        return rules


def compiled(
    rules: SavedRules, source: Snapshot | Transaction, names: Container[str], relations: Any = None
) -> Installed:
    """Return the rules of some blocks and of all that these use, of which those are compiled that
    were not before.  Raises RuleError, EditError, IvmError.
    """
    part = {name: each for name, each in rules.blocks.items() if name in names}
    rest = Rest(rules, frozenset(part))
    if len(part) < len(rules.blocks):
        rest = rest.beside()
    store = Relations(source, relations, opening=True)
    is_due = rules.are_linked and not all(each.compiled for each in part.values())
    files = _take_kept(part, store) if is_due else {}
    # users first: what they use was compiled before them, if another thread compiles now
    known = {name: part[name].compiled for name in reversed(part)}
    installed = Installed.of([known[name] for name in part if known[name]], rest)
    with nullcontext() if rules.planning == PLANNING_BEFORE else _reading():
        for name in part:
            if known[name]:
                continue
            installed = _with(installed, part[name], store)
            block, layouts = installed.blocks[-1], installed.layouts
            for rule in block.rules:
                assert rule.basis.sizes.keys() <= installed.program.predicates.keys()
            layouts_here = {n: layouts[n] for n in block.part.predicates if n in layouts}
            part[name].compiled = block, layouts_here
            if name in files:
                keep(files[name], (block, layouts_here), store)
    blocks = {block.name: block for block in installed.blocks}
    installed = replace(
        installed, blocks=(*(blocks[name] for name in part),), partial=rules.partial
    )
    installed = installed.deferring(rules.deferred)
    return replace(installed, rest=replace(rest, base=installed))


def _take_kept(part: Mapping[str, SavedBlock], store: Relations) -> dict[str, str]:
    """Take what a process before this compiled blocks to, given after those that they use; return
    the names of the files of all of them.
    """
    files = dict[str, str]()
    for name, block in part.items():
        uses = block.saved["uses"]
        files[name] = key_of(block, [files[use] for use in uses])
        if not block.compiled and all(part[use].compiled for use in uses):
            block.compiled = kept(files[name], store)
    return files


def all_compiled(
    rules: SavedRules, source: Snapshot | Transaction, relations: Any = None
) -> Installed:
    """Return all rules compiled, as `load` does."""
    if rules.planning != PLANNING_BEFORE:
        return compiled(rules, source, rules.blocks, relations)
    # raised where rules have more plans than were saved
    with suppress(IndexError, ValueError, AssertionError):
        installed = compiled(rules, source, rules.blocks, relations)
        saved_plans = [len(r) for block in rules.blocks.values() for r in block.plans[0]]
        if saved_plans == [len(rule.plans) for rule in installed.rules]:
            return installed
    raise IvmError(ANOTHER)


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


def _with(installed: Installed, given: SavedBlock, store: Relations) -> Installed:
    """Return rules with one block more, which is compiled from what the store keeps of it."""
    block, (orders, bases) = given.saved, given.plans
    rewrites = Rewrites(*(block.get(name, False) for name in Rewrites._fields))
    limits = tuple(block.get("limits", (None, None)))
    options = Options(index(block["granularity"]), block.get("maintenance", AUTO), limits)
    chosen = [[Chosen(*o) for o in rule] for rule in orders]
    saved = Saved(block["number"], chosen, rewrites, [_basis(*basis) for basis in bases])
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
        self._newest: tuple[str | None, VersionRules] = None, VersionRules(NO_RULES)
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
            self._newest, self._others = (None, VersionRules(NO_RULES)), {}
        saved = saved_rules(source)
        known, rules = self._newest
        if saved == known:
            return rules
        others = self._others
        if saved in others:
            rules = others.pop(saved)
        else:
            rules = VersionRules(NO_RULES if saved is None else read_rules(saved))
        others[saved] = rules
        if len(others) > OTHERS_MAX:
            others.pop(next(iter(others)), None)
        return rules

    def remember(self, saved: SavedRules) -> None:
        """Cache the rules of the newest version."""
        self._newest = saved.text, VersionRules(saved)


class VersionRules:
    """The rules of a version, of which some are compiled."""

    def __init__(self, saved: SavedRules) -> None:
        self.saved, self.are_linked = saved, saved.are_linked
        self.whole = None if saved.blocks else Installed()  # once all are compiled
        # the names of some blocks, with their rules
        self._some: tuple[frozenset[str], Installed] | None = None
        self._asked: dict[Hashable, Installed] = {}  # what `some` has returned

    def all(self, source: Snapshot | Transaction) -> Installed:
        """Return all rules, compiled if they are not.  Raises RuleError, IvmError, EditError."""
        if self.whole is None:
            self.whole = all_compiled(self.saved, source)
        return self.whole

    def some(
        self, source: Snapshot | Transaction, read: Iterable[str], edited: Iterable[str]
    ) -> Installed:
        """Return at least the rules that `KnownRules.some` says."""
        if self.whole is not None or not self.are_linked:
            return self.all(source)
        asked = (*read,), (*edited,)
        if (installed := self._asked.get(asked)) is None:
            installed = self._compiled(source, *asked)
            if len(self._asked) >= ASKED_MAX:
                self._asked.clear()
            self._asked[asked] = installed
        return installed

    def _compiled(
        self, source: Snapshot | Transaction, read: Sequence[str], edited: Sequence[str]
    ) -> Installed:
        known, installed = self._some or (frozenset[str](), None)
        needed = self.needed(read, edited) | known
        if installed is None or needed != known:
            try:
                installed = compiled(self.saved, source, needed)
            except RuleError:
                self._some = None
                return self.all(source)  # which says what is wrong, if anything is
            self._some = frozenset(needed), installed
            if len(needed) == len(self.saved.blocks):
                self.whole = installed
        return installed

    def part(self, txn: Transaction, blocks: Iterable[str]) -> Installed:
        """Return the rules of some blocks, with which their installation or removal goes on without
        the others; or all rules.  Raises as `all`.
        """
        if HOST not in txn.base.catalog.dependants:
            return self.all(txn)
        return compiled(self.saved, txn, {*blocks})

    def needed(self, read: Iterable[str], edited: Iterable[str] = ()) -> set[str]:
        """Return the blocks from which relations and views follow that are read, and those which
        follow what is edited.
        """
        saved, changed = self.saved.blocks, self._of(edited)
        for name, block in saved.items() if changed else ():  # each after those that it uses
            if not changed.isdisjoint(block.saved["uses"]):
                changed.add(name)
        blocks, left = set[str](), [*self._of(read), *changed]
        while left:
            name = left.pop()
            if name not in blocks:
                blocks.add(name)
                left += saved[name].saved["uses"]
        return blocks

    def concerned(self, name: str, read: Iterable[str]) -> set[str]:
        """Return the blocks that an installation of rules which read or define something concerns:
        also those that read what a block of that name has, for its new rules.
        """
        block = self.saved.blocks.get(name)
        return self.needed(read, block.saved["has"] if block else ())

    def bereft(self, name: str) -> set[str]:
        """Return the blocks that a block's removal concerns: of each relation that it has, one of
        the readers, which declares it from then on.
        """
        block, views = self.saved.blocks.get(name), set[str]()
        lost = {*block.saved["has"]} if block else set[str]()
        for other, saved in self.saved.blocks.items() if lost else ():
            if other == name or (
                name in saved.saved["uses"] and not lost.isdisjoint(saved.saved["reads"])
            ):
                lost.difference_update(saved.saved["reads"])
                views.update(saved.saved["has"])
        return self.needed(views)

    def _of(self, names: Iterable[str]) -> set[str]:
        """Return the blocks that have some names."""
        owners = self.saved.owners
        whole = (predicate for name in names for predicate in (name, name + WHOLE))
        return {owners[name] for name in whole if name in owners}


def stored_before(text: str) -> set[str]:
    """Return the relations that existed before an installed text: those declared after the mark."""
    return {*compile(text.partition(f"\n{MARK}\n")[2]).predicates}


def built_sizes(source: Snapshot | Transaction) -> dict[str, tuple[int, ...]]:
    """Return the rows of each plan's indices and body at their last build, by its first
    sensitivity index's name.
    """
    return sizes_in(catalog_of(source).properties)


def sizes_in(properties: Mapping[str, str | bytes]) -> dict[str, tuple[int, ...]]:
    """Return `built_sizes` of a version with some properties."""
    try:
        return {
            name: (rows, body, *place)
            for name, (rows, body, *place) in json.loads(properties.get(BUILT, "{}")).items()
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
        self._known: tuple[str, dict[str, tuple[int, ...]]] = "{}", {}

    def of(self, txn: Transaction) -> dict[str, tuple[int, ...]]:
        """Return the sizes of a transaction's version."""
        saved = str(txn.catalog.properties.get(BUILT, "{}"))
        if saved != self._known[0]:
            self._known = saved, built_sizes(txn)
        return self._known[1]


def dependants_of(installed: Installed, said: Dependants | None = None) -> Dependants:
    """Return the relations that the installed rules read, and the trees derived from them; `said`
    are those of a version of which these rules are a part, as they were before.
    """
    reads, keeps = {*installed.extensional}, {*installed.derived_trees}
    if said and installed.rest.others:
        base = installed.rest.base
        reads |= {*said.reads} - base.extensional
        keeps |= {*said.keeps} - base.derived_trees
    return Dependants(HOST, (*sorted(reads),), (*sorted(keeps),), (PROPERTY, BUILT), EDIT, RELEASE)


def save(txn: Transaction, installed: Installed, built: dict[str, tuple[int, ...]]) -> SavedRules:
    """Store the installed rules and their dependants in a transaction, also those of the rest;
    return all as they are saved.
    """
    txn.properties[BUILT] = json.dumps(built)
    saved = installed.saved()
    said = recorded_dependants(txn.catalog.properties).get(HOST)
    txn.properties[PROPERTY] = saved.text
    record_dependants(txn, dependants_of(installed, said))
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
