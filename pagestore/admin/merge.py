"""Merges: what a branch changed since it and another parted is changed on the other branch, too.

    version 4    a 1  b 2  c 3
    main         a 5  b 2  c 3         version 6      merge     a 5  b 9  c 3
    feature      a 1  b 9  c 3         version 7

Both differences skip the pages that trees share, so a merge costs what was changed. Words mean the
same on all branches, which share the texts. A revert and a cherry-pick are merges with other bases.

A version says in a property which versions of other branches it contains, so the newest one that
two versions have in common is known without walking back. A tag keeps it while both branches exist.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pagestore.admin.merged_columns import BASE, OURS, THEIRS, MergedColumns
from pagestore.errors import CorruptionError, MergeError, SchemaError, VersionError
from pagestore.relations.snapshot import Snapshot, as_inserted, catalog_of, snapshot_at
from pagestore.relations.transaction import EphemeralTransaction, Transaction, begin_transaction
from pagestore.storage.pager import NO_ORIGIN
from pagestore.trees.build import bulk
from pagestore.trees.compare import delta
from pagestore.trees.edit import Edits
from pagestore.trees.kernels.node_buffer import ERASE, SET
from pagestore.trees.read import get, pages_of, read_batches
from pagestore.trees.tree import Tree
from pagestore.values.dictionary import TEXT_TREES
from pagestore.versions.catalog import PROPERTY, Catalog, Info, Settings, listed
from pagestore.versions.handle import Handle
from pagestore.versions.hosts import let_hosts_follow, methods
from pagestore.versions.version_table import VersionTable

if TYPE_CHECKING:
    import pyarrow as pa

MERGED, PULLED = NUMBERED = "pagestore.merged", "pagestore.pulled"  # they name versions
SHOWN = 3  # conflicts in a message
Row = tuple[Any, ...]


class Conflict(NamedTuple):
    """A key that both sides changed: its values in the version that both come from, in the branch
    merged into (`ours`), and in the other (`theirs`); None where it is not there.

    `versions` made the values of ours and theirs, as far back as versions are retained.
    """

    relation: str
    key: Row
    base: Row | None
    ours: Row | None
    theirs: Row | None
    versions: tuple[int, int]

    def __str__(self) -> str:
        shown = ["gone" if values is None else ", ".join(map(repr, values)) for values in self[2:5]]
        key = ", ".join(map(repr, self.key))
        return (
            f"{self.relation}[{key}] was {shown[0]}, is {shown[1]} since version "
            f"{self.versions[0]} here and {shown[2]} since version {self.versions[1]} there"
        )


class Merge(NamedTuple):
    """What a merge did, or would do: the version made, the one that both sides come from, the
    conflicts, and of a dry run the changes of each relation, and of what hosts keep of them.
    """

    version: int
    base: int
    conflicts: tuple[Conflict, ...]
    changes: Mapping[str, "pa.Table"]


Rule = str | Callable[[Conflict], Row | None]
OnConflict = Rule | Mapping[str, Rule] | None
RULES = "ours", "theirs", "larger", "sum"
UNRESOLVED: Any = object()


def merge(
    handle: Handle,
    source: str,
    into: str,
    on_conflict: OnConflict,
    dry_run: bool,
    message: str | None,
) -> Merge:
    """See Store.merge."""
    handle.refresh()
    theirs, ours = handle.branch_id(source), handle.branch_id(into)
    if theirs == ours:
        raise MergeError(f"branch {source!r} has nothing that it lacks itself: name another branch")
    versions = [handle.state.heads[branch].version for branch in (theirs, ours)]
    lines = [contained(handle, number) for number in versions]
    base = common(handle, *lines)
    said = message or f"merge {source}, version {versions[0]}"
    done = ThreeWay(base, versions[0], source, on_conflict)
    if base == versions[0]:
        return Merge(versions[1], base, (), {})
    if dry_run:
        return try_on(handle, into, [done])
    with begin_transaction(handle, said, into) as txn:
        if txn.base.version != versions[1]:
            raise MergeError(
                f"version {txn.base.version} of branch {into!r} was made during the merge, and "
                f"nothing is changed: merge again"
            )
        conflicts = done.apply(handle, txn)
        note_contained(txn, joined(lines), versions[0])
        txn._settings = _pinned(handle, source, into, versions[0])
        return Merge(txn.commit(), base, conflicts, {})


def change_as(
    handle: Handle,
    version: int | str,
    branch: str,
    on_conflict: OnConflict,
    dry_run: bool,
    back: bool = False,
) -> Merge:
    """Change a branch as one version changed what it was made from, or take `back` what that
    changed; see Store.cherry_pick and Store.revert.
    """
    number, parent = _parent_of(handle, version)
    base, theirs = (number, parent) if back else (parent, number)
    done = ThreeWay(base, theirs, f"version {theirs}", on_conflict)
    if dry_run:
        return try_on(handle, branch, [done])
    message = f"{'revert' if back else 'pick'} version {number}"
    with begin_transaction(handle, message, branch) as txn:
        conflicts = done.apply(handle, txn)
        return Merge(txn.commit(), base, conflicts, {})


def _parent_of(handle: Handle, version: int | str) -> tuple[int, int]:
    """Return the number of a version, and that of the one that it was made from."""
    number = handle.number(version)
    with snapshot_at(handle, number) as snap:
        parent = snap._version.parent
    if parent < 0:
        raise VersionError(f"version {number} is the first: it was made from no other")
    return number, parent


def merged_with(catalog: Catalog, version: int) -> int | None:
    """Return the second parent of a version that a merge made; else None."""
    record = _recorded(catalog)
    return int(record["with"]) if record.get("version") == version else None


def _recorded(catalog: Catalog) -> dict[str, Any]:
    """Return what a version says of the newest merge before it. Raises CorruptionError."""
    try:
        record: dict[str, Any] = json.loads(catalog.properties.get(MERGED, "{}"))
        if not record:
            return {}
        lines = {int(branch): int(number) for branch, number in record["lines"].items()}
        return {"version": int(record["version"]), "with": int(record["with"]), "lines": lines}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        said = f"property {MERGED!r} says what was merged, and does not read: {error}"
        raise CorruptionError(said) from None


def misstated(catalog: Catalog, version: int) -> str:
    """Return what is wrong with what a version says of merges; empty if nothing is."""
    try:
        record = _recorded(catalog)
    except CorruptionError as error:
        return str(error)
    newest = max(record["version"], record["with"], *record["lines"].values()) if record else 0
    return f"property {MERGED!r} says that it contains version {newest}" * (newest > version)


def contained(handle: Handle, number: int) -> dict[int, int]:
    """Return the newest version of each branch, by its number, that a version contains."""
    version = handle.version_of(number)
    assert version is not None
    lines = dict(_recorded(version.catalog).get("lines", {}))
    heads, branch = handle.state.heads, version.branch
    while True:
        lines[branch] = max(number, lines.get(branch, 0))
        if branch not in heads or heads[branch].origin == NO_ORIGIN:
            return lines
        number = heads[branch].origin
        branch = handle.entry(number).branch


def note_contained(txn: Transaction, lines: Mapping[int, int], parent: int | None = None) -> None:
    """Let a version say which versions it contains: the newest of each branch, and of a merge its
    second parent.
    """
    record = {"version": txn.version if parent is not None else -1, "with": parent or 0}
    txn.properties[MERGED] = json.dumps(record | {"lines": lines})


def joined(both: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return the newest version of each branch in several maps."""
    merges: dict[int, int] = {}
    for lines in both:
        for branch, number in lines.items():
            merges[branch] = max(number, merges.get(branch, 0))
    return merges


def common(handle: Handle, a: Mapping[int, int], b: Mapping[int, int]) -> int:
    """Return the newest retained version that two versions both contain."""
    for number in sorted((min(a[line], b[line]) for line in a.keys() & b.keys()), reverse=True):
        if handle.read_versions(VersionTable.find, number):
            return number
    raise VersionError("no version that both branches come from is retained: keep more, by retain=")


def tag_of(source: str, into: str) -> str:
    """Return the tag of the version of a branch that was merged last into another."""
    return f"merged {source} into {into}"


def _pinned(handle: Handle, source: str, into: str, version: int) -> Settings:
    """Return the settings with a tag that keeps the version of a branch merged last into another."""
    settings = handle.committer.state.settings
    return settings._replace(tags={**settings.tags, tag_of(source, into): version})


class ThreeWay:
    """The difference of two versions, to be done on a third one."""

    def __init__(self, base: int, theirs: int, name: str, on_conflict: OnConflict) -> None:
        self.numbers, self.name, self.on_conflict = (base, theirs), name, on_conflict
        rules = on_conflict.values() if isinstance(on_conflict, Mapping) else [on_conflict]
        for rule in rules:
            if not (rule is None or callable(rule) or rule in RULES):
                raise MergeError(
                    f"on_conflict={rule!r}: it is one of {', '.join(RULES)}, a function of a "
                    f"Conflict, or one of these by the name of a relation"
                )
        self.conflicts: list[Conflict] = []
        self.left: list[Conflict] = []  # those that no rule resolves

    def apply(self, handle: Handle, txn: Transaction, refuse: bool = True) -> tuple[Conflict, ...]:
        """Make the edits in a transaction; return the conflicts, all of which are resolved.

        Raises MergeError for others if they are to be refused.
        """
        with ExitStack() as held:
            self.handle, self.txn = handle, txn
            self.base, self.theirs = (
                held.enter_context(snapshot_at(handle, number)) for number in self.numbers
            )
            catalogs = self.base._version.catalog, self.theirs._version.catalog, txn.catalog
            kept = set[str]().union(*(catalog.of_hosts for catalog in catalogs))
            for name in dict.fromkeys([*self.base, *self.theirs]):
                if name not in kept:
                    self._merge_relation(name, *(c.relations.get(name) for c in catalogs))
            merge_said(txn, self.base, self.theirs)
            if self.left and refuse:
                self._refuse()
        return tuple(self.conflicts)

    def _refuse(self) -> None:
        """Raise MergeError for conflicts that are left."""
        n = len(self.left)
        shown = "; ".join(map(str, self.left[:SHOWN]))
        more = f"; and {n - SHOWN} more" if n > SHOWN else ""
        raise MergeError(
            f"{self.name} conflicts in {n} {'row' if n == 1 else 'rows'}, and nothing is changed: "
            f"{shown}{more}. Choose with on_conflict=, or edit one side first",
            tuple(self.left),
        )

    def _merge_relation(
        self, name: str, base: Info | None, theirs: Info | None, ours: Info | None
    ) -> None:
        """Merge one relation, its columns and its rows."""
        trees = [s.tree(name) if name in s else None for s in (self.base, self.theirs, self.txn)]
        old, new, here = trees
        if theirs == base and new == old:
            return
        if ours == base and here == old:
            self._take(name, theirs)
        elif theirs is None or ours is None:
            side = "there" if theirs is None else "here"
            raise MergeError(
                f"relation {name!r} was dropped {side}, and changed on the other side; nothing is "
                f"changed: drop it on both, or make it again"
            )
        elif (
            base is not None
            and _same_rows(base, theirs)
            and _same_rows(base, ours)
            and (theirs.schema in (base.schema, ours.schema) or ours.schema == base.schema)
        ):
            assert old is not None and new is not None and here is not None
            if theirs.schema != base.schema:
                self._declare(name, ours._replace(schema=theirs.schema))
            self._merge_rows(name, ours, old, new, here)
            self._refuse_nulls(name, base)
        elif (
            base is None
            and ours._replace(spec=theirs.spec) == theirs
            and _shape(ours) == _shape(theirs)
        ):
            assert new is not None and here is not None
            self._merge_rows(name, ours, None, new, here)
        elif base is not None and old is not None and new is not None and here is not None:
            self._merge_columns(
                name, MergedColumns((base, theirs, ours), (old, new, here), self.theirs, self.txn)
            )
        else:
            raise _differing(name, theirs, ours)

    def _merge_columns(self, name: str, merged: MergedColumns) -> None:
        """Merge a relation of which the sides have other columns. O(rows)."""
        txn = self.txn
        sides = [bulk(txn.pager, merged.spec(0), merged.rows(side)) for side in (BASE, THEIRS)]
        txn._remake(txn.catalog.relations[name], merged.schema, merged.rows(OURS))
        info = txn.catalog.relations[name]
        self._merge_rows(name, info, sides[0], sides[1], txn.tree(name))
        for tree in sides:
            if tree.root:
                txn.pager.retire_pages(pages_of(txn.pages, tree))

    def _refuse_nulls(self, name: str, base: Info) -> None:
        """Raise WordError for nulls of one side in columns that the other lets take none."""
        now = self.txn.catalog.relations[name].schema
        if now and base.schema and now != base.schema:
            took = [column.name for column in base.schema.columns if column.type.nullable]
            strict = [c.name for c in now.columns if c.name in took and not c.type.nullable]
            if strict:
                self.txn.refuse_nulls(name, strict)

    def _declare(self, name: str, info: Info) -> None:
        """Give a relation other columns, for the same records."""
        self.txn._changed_catalog().relations[name] = info
        self.txn._follow()

    def _take(self, name: str, theirs: Info | None) -> None:
        """Let a relation that has not changed here be as it is there, except its scans."""
        txn = self.txn
        ours = txn.catalog.relations.get(name)
        if theirs is not None and ours is not None and _same_rows(theirs, ours):
            if ours.schema != theirs.schema:
                self._declare(name, ours._replace(schema=theirs.schema))
            txn.apply(name, *delta(txn.pages, txn.tree(name), self.theirs.tree(name)))
            return
        if ours is not None:
            txn.drop(name)
        if theirs is not None:
            txn._adopt(theirs)
            tree = self.theirs.tree(name)
            txn.bulk(theirs, read_batches(txn.pages, tree) if tree.root else ())

    def _merge_rows(self, name: str, info: Info, old: Tree | None, new: Tree, here: Tree) -> None:
        """Merge rows by key: those that only one side changed, and what both changed alike."""
        pages, keys = self.txn.pages, info.spec.keys
        mine = delta(pages, old or Tree.empty(here.spec), here)
        actions, words = delta(pages, old or Tree.empty(new.spec), new)
        both = np.isin(_keys(words[:keys]), _keys(mine[1][:keys]))
        edits = [(actions[~both], words[:, ~both])]
        if both.any():
            shared = np.unique(words[:keys, both], axis=1)
            sides = [get(pages, tree or Tree.empty(here.spec), shared) for tree in (old, here, new)]
            edits += self._resolved(name, info, shared, sides)
        for some in edits:
            if len(some[0]):
                self.txn.apply(name, *some)

    def _resolved(
        self, name: str, info: Info, keys: np.ndarray, sides: list[tuple[np.ndarray, np.ndarray]]
    ) -> list[Edits]:
        """Return edits of keys that both sides changed."""
        _, (is_, mine), (will, yours) = sides
        same = (is_ == will) & ((mine == yours).all(axis=0) | ~is_)
        if info.bag:  # copies that each side added or took away
            counts = [masks * values[0] for masks, values in sides]
            total = np.maximum(counts[1] + counts[2] - counts[0], 0)
            rows = np.concatenate([keys, total[None]])
            return [(np.where(total > 0, SET, ERASE), rows)]
        places = np.flatnonzero(~same)
        some = np.ascontiguousarray(keys[:, places])
        shown = [
            self._rows(name, some, masks[places], values[:, places]) for masks, values in sides
        ]
        heads = self.txn.base.version, self.theirs.version
        makers = [_makers(self.handle, head, name, some, self.numbers[0]) for head in heads]
        edits = list[Edits]()
        for place, base, ours, theirs, *versions in zip(places, *shown, *makers, strict=True):
            key, _ = next(row for row in (base, ours, theirs) if row)
            was, now, new = (row and row[1] for row in (base, ours, theirs))
            conflict = Conflict(name, key, was, now, new, (int(versions[0]), int(versions[1])))
            ruled = self._ruled(conflict)
            if ruled is None or ruled == conflict.theirs:
                row = np.concatenate([keys[:, place], yours[:, place]])[:, None]
                edits.append((np.array([ERASE if ruled is None else SET]), row))
            elif ruled is not UNRESOLVED and ruled != conflict.ours:
                edits.append((np.array([SET]), self._encoded(name, key, ruled)))
        return edits

    def _ruled(self, conflict: Conflict) -> Row | None:
        """Return the values that a rule chooses; UNRESOLVED if it chooses none."""
        self.conflicts.append(conflict)
        given = self.on_conflict
        rule = given.get(conflict.relation) if isinstance(given, Mapping) else given
        ruled = rule(conflict) if callable(rule) else _chosen(conflict, rule)
        if ruled is UNRESOLVED:
            self.left.append(conflict)
        return ruled

    def _rows(
        self, name: str, keys: np.ndarray, there: np.ndarray, values: np.ndarray
    ) -> list[tuple[Row, Row] | None]:
        """Return the keys and the values of some rows in Python; None for those not there."""
        relation = self.txn[name]
        words = np.concatenate([keys, values])[: len(relation.schema.stored), there]
        batch, key = relation.record_batch(np.ascontiguousarray(words)), relation.schema.key
        columns = dict(zip(relation.schema.names, batch.columns, strict=True))
        parts = [
            zip(
                *(columns[column].to_pylist() for column in columns if (column in key) == side),
                strict=True,
            )
            for side in (True, False)
        ]
        rows = zip(parts[0], parts[1] if len(columns) > len(key) else repeat(()), strict=False)
        return [next(rows) if is_there else None for is_there in there.tolist()]

    def _encoded(self, name: str, key: Row, values: Row) -> np.ndarray:
        """Return the words of a row. Raises SchemaError, WordError for values that do not fit."""
        relation = self.txn[name]
        given = iter(key), iter(values)
        row = [next(given[column not in relation.schema.key]) for column in relation.schema.names]
        return relation.encode([(*row,)])


def merge_said(txn: Transaction, old: Snapshot, new: Snapshot) -> None:
    """Take properties that changed between a base and theirs, and not in ours, the transaction;
    hosts keep and merge their own, and what they demand.
    """
    sources: tuple[Snapshot | Transaction, ...] = old, new, txn
    catalogs = [catalog_of(source) for source in sources]
    owned = {p for c in catalogs for derived in c.dependants.values() for p in derived.properties}
    base, theirs, ours = (catalog.properties for catalog in catalogs)
    for name in dict.fromkeys([*base, *theirs]):
        sides = base.get(name), theirs.get(name), ours.get(name)
        if name in owned | {PROPERTY, *NUMBERED} or sides[0] == sides[1] or sides[1] == sides[2]:
            continue
        told = (method(txn, name, *sides) for method in methods("merged"))
        verdict = next((value for value in told if value is not None), None)
        if verdict is None and sides[0] != sides[2]:
            raise MergeError(
                f"property {name!r} was changed on both sides, and nothing is changed: give it "
                f"the same value on both"
            )
        value = sides[1] if verdict is None else verdict
        if value is None:
            txn.properties.pop(name, None)
        else:
            txn.properties[name] = value
    demands = (tell(txn, old, new) for tell in methods("demands"))
    txn.afterwards += [demand for demand in demands if demand]


def try_on(handle: Handle, branch: str, steps: Sequence[ThreeWay]) -> Merge:
    """Return what differences, one after the other, would change on a branch; change nothing.

    Raises MergeError for conflicts that the one rule given for all does not resolve.
    """
    with (
        snapshot_at(handle, max(step.numbers[1] for step in steps)) as theirs,
        EphemeralTransaction(snapshot_at(handle, branch), handle.state) as sketch,
    ):
        head = sketch.base.version
        newest = max(sketch.base, theirs._version)  # it has the texts of all
        sketch._trees |= {number: newest.trees[number] for number in TEXT_TREES}
        conflicts = [
            conflict
            for step in steps
            for conflict in step.apply(handle, sketch, refuse=isinstance(step.on_conflict, str))
        ]
        if not any(step.left for step in steps):
            let_hosts_follow(sketch)
        changes = {name: _changes(sketch, name) for name in listed([*sketch])}
        for tell in methods("changed"):
            changes = tell(sketch, changes)
        nonempty = {name: table for name, table in changes.items() if table.num_rows}
    return Merge(head, steps[0].numbers[0], tuple(conflicts), nonempty)


def _chosen(conflict: Conflict, rule: Rule | None) -> Any:
    """Return the values that a rule of RULES chooses; UNRESOLVED if it chooses none."""
    base, ours, theirs = conflict[2:5]
    if rule in ("ours", "theirs"):
        return ours if rule == "ours" else theirs
    if rule == "larger":
        sides = [row for row in (ours, theirs) if row is not None]
        return max(sides, key=lambda row: [(value is not None, value) for value in row])
    if rule is None or ours is None or theirs is None:
        return UNRESOLVED
    before = base or (0,) * len(ours)
    try:
        return tuple(
            a if a == b else a + (b - was) for was, a, b in zip(before, ours, theirs, strict=True)
        )
    except TypeError:  # texts and nulls have no sum
        return UNRESOLVED


def _makers(handle: Handle, number: int, name: str, keys: np.ndarray, base: int) -> np.ndarray:
    """Return the versions int64[n] that gave keys[K, n] the values that they have in a version.

    They are sought back to `base`, or to where a version is not retained. O(versions * keys).
    """
    made = np.full(keys.shape[1], number)
    open_, first, before = np.ones(keys.shape[1], bool), None, None
    while open_.any() and number > base:
        version = handle.version_of(number)
        if version is None or name not in version.catalog.relations:
            break
        tree = version.trees[version.catalog.relations[name].spec.tree_id]
        if tree != before:
            there, values = get(handle.mapping.pages, tree, keys)
            now = np.concatenate([there[None], values])
            first, before = now if first is None else first, tree
            open_ &= len(now) == len(first) and (now == first).all(axis=0)
        made[open_] = number
        number = version.parent
    return made


def _changes(sketch: EphemeralTransaction, name: str) -> "pa.Table":
    """Return what a sketch changed in a relation; all its rows if it has other columns now."""
    try:
        return sketch.changes(name)
    except SchemaError:
        return as_inserted(sketch[name].to_arrow())


def _keys(words: np.ndarray) -> np.ndarray:
    """Return keys int64[K, n] as one value each, which may be compared."""
    return np.ascontiguousarray(words.T).view([("", np.int64)] * len(words)).ravel()


def _same_rows(a: Info, b: Info) -> bool:
    """Return whether the records of two versions of a relation have words of the same meaning."""
    return _shape(a) == _shape(b) and (a.spec.tree_id == b.spec.tree_id or a.schema == b.schema)


def _shape(info: Info) -> tuple[int, int, bool]:
    return info.spec.keys, info.spec.values, info.bag


def _differing(name: str, theirs: Info, ours: Info) -> MergeError:
    return MergeError(
        f"relation {name!r} has the columns ({theirs.schema}) there and ({ours.schema}) here, and "
        f"both sides changed it; nothing is changed: give both the same columns first"
    )
