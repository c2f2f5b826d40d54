"""Hosts: programs that maintain data derived from relations. They follow every change, or it is
refused.

The commit compares the trees with those that the transaction began with, so it does not matter how
they were changed. If a relation that a host reads has changed, the host updates its derived data in
the same commit. The commit is refused if that host is not loaded, or if the transaction itself
changed derived data.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from pagestore.errors import DependantsError, ExistsError
from pagestore.trees.compare import Delta
from pagestore.trees.tree import Tree
from pagestore.values.types import Type
from pagestore.versions.catalog import PROPERTY, Catalog, Dependants, recorded_dependants, whole_of
from pagestore.versions.working_trees import WorkingTrees

ALL = "*"
CHANGES_PEEKED = 16  # changes read to see whether there are any


class Computed(NamedTuple):
    """A column whose values a host computes from its own trees when they are read; its stored words
    are incomplete.

    `place` is the column's place among a record's words, `type_` the type of its values, and
    `values` computes an Arrow array of them from a source of the version, and words int64[C, n] of
    records.
    """

    place: int
    type_: Type
    values: Callable[[Any, np.ndarray], Any]


class Host(Protocol):
    """A program that keeps data derived from relations up to date; `mark` is a property that its
    versions have.
    """

    name: str
    mark: str

    def carry(self, txn: Any, before: Mapping[str, Tree]) -> Callable[[], None] | None:
        """Update the host's data for relations that have changed, given their trees before.

        Called at the commit, with all edits applied; it may raise, which rolls the transaction
        back. The function it returns is called when the commit is done.
        """

    def dependants(self, txn: Any) -> Dependants | None:
        """Return what the host maintains in a transaction's base version, which has the mark and
        no such record.
        """

    def texts(self, snapshot: Any) -> Iterable[str | bytes]:
        """Return the texts that the host names in a version, for example in its rules, and that
        must keep their ids.

        Ids in relations with a schema keep theirs anyway. The host's trees of raw words must hold
        no others.
        """

    def check(self, store: Any, progress: Callable[[str], None]) -> list[Any]:
        """Return violations: data of the host that do not follow from its relations."""

    def refusal(self, txn: Any, name: str) -> str | None:
        """Return why the host cannot accept that a transaction dropped, renamed or replaced a
        relation that it reads.

        None if it can. A host without this method accepts none of these.
        """

    def computed(self, source: Any, name: str) -> Computed | None:
        """Return the column of a relation whose values the host computes; it may lack this."""

    def merged(
        self, txn: Any, name: str, base: str | None, theirs: str | None, ours: str | None
    ) -> str | None:
        """Return what a property is after a merge, given its values in three versions and the
        merged relations; None if it is not the host's. A host may lack this method, and then keeps
        no properties to be merged.
        """

    def changed(self, sketch: Any, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a sketch changed, by the names that the host's users know, given the changes
        of relations. A host may lack this method, if it keeps what users see in one relation each.
        """

    def default(self, source: Any, name: str, column: str) -> Any:
        """Return the value of a relation's column in rows that do not say one; None if the host
        knows none. A host may lack this method.
        """

    def demands(self, txn: Any, base: Any, theirs: Any) -> Callable[[], None] | None:
        """Return what is done, once the host has followed a merge, so that it also demands of rows
        what theirs demands and a base did not; None for nothing. A host may lack this method.
        """

    def declared(self, snapshot: Any) -> Any:
        """Return what the host was told to keep in a version, such as rules, to be compared with
        that in others. A host may lack this method, if it is told nothing.
        """


_hosts: dict[str, Host] = {}


def register_host(host: Host) -> None:
    """Register a host in this process. Raises ExistsError for a name that is taken."""
    if _hosts.setdefault(host.name, host) is not host:
        raise ExistsError(f"there is a host {host.name!r} already in this process")


def hosts() -> Mapping[str, Host]:
    """Return the hosts of this process by name."""
    return _hosts


def methods(name: str) -> list[Callable[..., Any]]:
    """Return a method, which hosts may lack, of those hosts of this process that have it."""
    return [method for host in _hosts.values() if (method := getattr(host, name, None))]


def computed_column(source: Any, name: str) -> Computed | None:
    """Return the column of a relation, in a snapshot or a transaction, whose values a host of
    this process computes.
    """
    told = (find(source, name) for find in methods("computed"))
    column: Computed | None = next((computed for computed in told if computed), None)
    return column


def record_dependants(txn: WorkingTrees, dependants: Dependants) -> None:
    """Record what a host maintains from this transaction on, replacing its former record; an empty
    one is removed.

    Raises DependantsError if another host maintains or reads some of it: neither could then be
    updated first.
    """
    said = recorded_dependants(txn.catalog.properties)
    said.pop(dependants.host, None)
    for other in said.values():
        both = {*dependants.keeps} & {*other.keeps, *other.reads} | {*dependants.reads} & {
            *other.keeps
        }
        if both:
            raise DependantsError(
                f"{min(both)!r} belongs to host {other.host!r}: {dependants.host!r} cannot store "
                "its views in it, nor depend on it"
            )
    if dependants.reads or dependants.keeps:
        said[dependants.host] = dependants
    text = json.dumps([host._asdict() for host in said.values()])
    if said or PROPERTY in txn.catalog.properties:
        txn.properties[PROPERTY] = text


def let_hosts_follow(txn: WorkingTrees) -> list[Callable[[], None]]:
    """Let hosts update their data for the changes of a transaction; return functions to call after
    the commit.

    Raises DependantsError. O(relations that hosts read or keep), and O(changes) where there are
    any.
    """
    now, was, maintained = txn.catalog, txn.base.catalog, txn.maintained
    if (
        now is was
        and not txn.afterwards
        and was.dependants.keys() <= maintained
        and _hosts.keys() <= maintained
    ):
        return []  # the common case, decided at once
    if ALL in maintained:
        return []
    if now is not was and now.properties.get(PROPERTY) != was.properties.get(PROPERTY):
        recorded_dependants(now.properties)  # an unreadable one would make every later commit fail
    told = []
    for dependants in _standing(txn):
        _refuse_changed(txn, dependants)
        host = _hosts.get(dependants.host)
        before = {
            name: txn.base.trees[_number(txn, name)]
            for name in txn._touched(dependants.reads)
            if _has_changed(txn, dependants, name, host)
        }
        if not before:
            continue
        if host is None:
            raise DependantsError(
                f"{_listed(before)} was changed, and what {dependants.host} keeps of it{_kept(dependants)} could "
                f"not follow, "
                f"since {dependants.host} is not loaded in this process; nothing is changed: {dependants.edit}"
            )
        with txn.following():
            told.append(host.carry(txn, before))
    for demand in txn.afterwards:
        demand()
    return [tell for tell in told if tell]


def is_followed(catalog: Catalog, but: str) -> bool:
    """Return whether a host, of this process or not, but one, maintains something by the
    relations of a catalog.
    """
    marked = (name for name, host in _hosts.items() if host.mark in catalog.properties)
    return any(name != but for name in (*catalog.dependants, *marked))


def _standing(txn: WorkingTrees) -> list[Dependants]:
    """Return the dependants of a transaction's base version, without hosts that the transaction
    itself updates.
    """
    catalog, maintained = txn.base.catalog, txn.maintained
    known = catalog.dependants
    standing = [dependants for name, dependants in known.items() if name not in maintained]
    for name, host in _hosts.items():
        if host.mark in catalog.properties and name not in known and name not in maintained:
            standing += filter(None, [host.dependants(txn)])
    return standing


def _refuse_changed(txn: WorkingTrees, dependants: Dependants) -> None:
    """Raise DependantsError for a change of a host's data, record of dependants or properties."""
    if txn.catalog is not txn.base.catalog:
        old, new = txn.base.catalog.properties, txn.catalog.properties
        for name in dependants.properties:
            if old.get(name) != new.get(name):
                raise DependantsError(
                    f"property {name!r} belongs to {dependants.host}; nothing is changed: {dependants.release}"
                )
        if (
            dependants.host in txn.base.catalog.dependants
            and recorded_dependants(new).get(dependants.host) != dependants
        ):
            said = f"property {PROPERTY!r} says what {dependants.host} keeps, which has not changed"
            raise DependantsError(f"{said}; nothing is changed: {dependants.release}")
    for name in txn._touched(dependants.keeps):
        if _has_changed(txn, dependants, name):
            raise DependantsError(
                f"{name!r} belongs to {dependants.host}, which keeps it as it follows from "
                f"{_listed(dependants.reads)}; nothing is changed: edit that, and it will follow"
            )


def _has_changed(txn: WorkingTrees, one: Dependants, name: str, host: Host | None = None) -> bool:
    """Return whether a relation's records changed.

    Raises DependantsError if it was dropped or replaced, and that matters.
    """
    number = _number(txn, name)
    if number is None:
        return False
    info = txn.catalog.relations.get(name)
    if info is not None and info.spec.tree_id == number:
        old, new = txn.base.trees[number], txn.tree(name)
        return (
            old is not new
            and old != new
            and any(True for _ in Delta(txn.pages, old, new, rows=CHANGES_PEEKED))
        )
    asked = getattr(host, "refusal", None)
    if asked is not None:
        if why := asked(txn, name):
            raise DependantsError(f"{why}; nothing is changed")
        return info is not None
    if name in one.reads:
        what = f"{one.host} depends on it{_kept(one)}"
    else:
        what = f"it belongs to {one.host}"
    raise DependantsError(
        f"{name!r} was dropped, renamed or replaced, and {what}; nothing is changed: {one.release}"
    )


def _number(txn: WorkingTrees, name: str) -> Any:
    """Return the number of a relation's tree in the transaction's base version; None if it has
    no such relation.
    """
    info = txn.base.catalog.relations.get(name)
    return info.spec.tree_id if info else None


def _kept(dependants: Dependants) -> str:
    """Return what a host maintains, if anything, in parentheses."""
    return f" ({_listed(dependants.keeps)})" if dependants.keeps else ""


def _listed(names: Iterable[str], most: int = 3) -> str:
    """List names for a message, up to `most`; hidden trees only if there is nothing else."""
    known = sorted(names)
    shown = [*dict.fromkeys(whole_of(name, known) for name in known if "$" not in name)] or known
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")
