"""Hosts: programs that keep something that follows from relations. They follow every change, or it is refused.

At the commit the trees are compared with those that the transaction began with, so it does not matter how they were
changed. Where a relation that a host reads has changed, the host carries the change on into what it keeps, in the
same commit. The commit is refused where that host is not loaded, or where it would change what a host keeps.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from pagestore.errors import DependantsError, ExistsError
from pagestore.trees.delta import Delta
from pagestore.trees.tree import Tree
from pagestore.values.types import Type
from pagestore.versions.dependants import PROPERTY, Dependants, recorded_dependants
from pagestore.versions.working_trees import WorkingTrees

ALL = "*"
CHANGES_PEEKED = 16  # changes read to see whether there are any


class Computed(NamedTuple):
    """A column whose values a host computes when they are read, from its own trees: what a record has says less.

    `place` is that of the column among a record's words, `type_` what its values are, and `values` gives an Arrow array
    of them: a source of the version, and words int64[C, n] of records.
    """

    place: int
    type_: Type
    values: Callable[[Any, np.ndarray], Any]


class Host(Protocol):
    """A program that keeps something of relations up to date; `mark` is a property that its versions have."""

    name: str
    mark: str

    def carry(self, txn: Any, before: Mapping[str, Tree]) -> Callable[[], None] | None:
        """Bring all that the host keeps up to date with relations that have changed, given their trees before.

        It is called at the commit, with all edits applied, and may raise, which rolls the transaction back. What it
        returns is called when the commit is done.
        """

    def dependants(self, txn: Any) -> Dependants | None:
        """What it keeps of a transaction's base version, which has the mark and no record of dependants."""

    def texts(self, snapshot: Any) -> Iterable[str | bytes]:
        """The texts that the host names in a version, in its rules say, and that must keep their ids.

        Ids in relations with a schema keep theirs anyway. The trees of raw words that the host keeps hold no others.
        """

    def check(self, store: Any, progress: Callable[[str], None]) -> list[Any]:
        """Violations: what the host keeps and does not follow from its relations."""

    def refusal(self, txn: Any, name: str) -> str | None:
        """Why a relation that the host reads may not be as a transaction leaves it: dropped, renamed, or made anew.

        None if the host goes on with that. A host that lacks this method goes on with none of it.
        """

    def computed(self, source: Any, name: str) -> Computed | None:
        """The column of a relation whose values the host computes; a host may lack this method."""


_hosts: dict[str, Host] = {}


def register_host(host: Host) -> None:
    """Let a host follow changes that this process makes. Raises ExistsError for a name that is taken."""
    if _hosts.setdefault(host.name, host) is not host:
        raise ExistsError(f"there is a host {host.name!r} already in this process")


def hosts() -> Mapping[str, Host]:
    """The hosts of this process by name."""
    return _hosts


def computed_column(source: Any, name: str) -> Computed | None:
    """The column of a relation, in a snapshot or a transaction, whose values a host of this process computes."""
    for host in _hosts.values():
        find = getattr(host, "computed", None)
        if find is not None and (found := find(source, name)):
            computed: Computed = found
            return computed
    return None


def record_dependants(txn: WorkingTrees, dependants: Dependants) -> None:
    """Record what a host keeps from this transaction on, in place of what it kept; one that keeps nothing is removed.

    Raises DependantsError where another host keeps or reads some of that: neither could then go first.
    """
    said = recorded_dependants(txn.catalog.properties)
    said.pop(dependants.host, None)
    for other in said.values():
        both = {*dependants.keeps} & {*other.keeps, *other.reads} | {*dependants.reads} & {*other.keeps}
        if both:
            raise DependantsError(
                f"{min(both)!r} belongs to host {other.host!r}: {dependants.host!r} cannot keep it, nor stand on it"
            )
    if dependants.reads or dependants.keeps:
        said[dependants.host] = dependants
    text = json.dumps([one._asdict() for one in said.values()])
    if said or PROPERTY in txn.catalog.properties:
        txn.properties[PROPERTY] = text


def let_hosts_follow(txn: WorkingTrees) -> list[Callable[[], None]]:
    """Let hosts carry the changes of a transaction into what they keep; returns functions to call after the commit.

    Raises DependantsError. O(relations that hosts read or keep), and O(changes) where there are any.
    """
    now, was, vouched = txn.catalog, txn.base.catalog, txn.vouched
    if now is was and was.dependants.keys() <= vouched and _hosts.keys() <= vouched:
        return []  # the common case, decided at once
    if ALL in vouched:
        return []
    if now is not was and now.properties.get(PROPERTY) != was.properties.get(PROPERTY):
        recorded_dependants(now.properties)  # one that does not read would make every later commit fail
    told = []
    for one in _standing(txn):
        _refuse_changed(txn, one)
        host = _hosts.get(one.host)
        before = {name: txn.base.trees[_number(txn, name)] for name in one.reads if _has_changed(txn, one, name, host)}
        if not before:
            continue
        if host is None:
            raise DependantsError(
                f"{_listed(before)} was changed, and what {one.host} keeps of it{_kept(one)} could not follow, "
                f"since {one.host} is not loaded in this process; nothing is changed: {one.edit}"
            )
        with txn.following():
            told.append(host.carry(txn, before))
    return [tell for tell in told if tell]


def _standing(txn: WorkingTrees) -> list[Dependants]:
    """The dependants of a transaction's base version, without those of hosts that the transaction vouches for."""
    catalog, vouched = txn.base.catalog, txn.vouched
    known = catalog.dependants
    found = [one for name, one in known.items() if name not in vouched]
    for name, host in _hosts.items():
        if host.mark in catalog.properties and name not in known and name not in vouched:
            found += filter(None, [host.dependants(txn)])
    return found


def _refuse_changed(txn: WorkingTrees, one: Dependants) -> None:
    """Raise DependantsError for a change of what a host keeps, of its record of dependants, or of its properties."""
    if txn.catalog is not txn.base.catalog:
        old, new = txn.base.catalog.properties, txn.catalog.properties
        for name in one.properties:
            if old.get(name) != new.get(name):
                raise DependantsError(f"property {name!r} belongs to {one.host}; nothing is changed: {one.release}")
        if one.host in txn.base.catalog.dependants and recorded_dependants(new).get(one.host) != one:
            said = f"property {PROPERTY!r} says what {one.host} keeps, which has not changed"
            raise DependantsError(f"{said}; nothing is changed: {one.release}")
    for name in one.keeps:
        if _has_changed(txn, one, name):
            raise DependantsError(
                f"{name!r} belongs to {one.host}, which keeps it as it follows from {_listed(one.reads)}; "
                f"nothing is changed: edit that, and it will follow"
            )


def _has_changed(txn: WorkingTrees, one: Dependants, name: str, host: Host | None = None) -> bool:
    """Has a relation changed its records? Raises DependantsError if it was dropped or made anew, and that matters."""
    number = _number(txn, name)
    if number is None:
        return False
    info = txn.catalog.relations.get(name)
    if info is not None and info.spec.tree_id == number:
        old, new = txn.base.trees[number], txn.tree(name)
        return old is not new and old != new and any(True for _ in Delta(txn.pages, old, new, rows=CHANGES_PEEKED))
    asked = getattr(host, "refusal", None)
    if asked is not None:
        if why := asked(txn, name):
            raise DependantsError(f"{why}; nothing is changed")
        return info is not None
    what = f"{one.host} stands on it{_kept(one)}" if name in one.reads else f"it belongs to {one.host}"
    raise DependantsError(f"{name!r} was dropped, renamed or made anew, and {what}; nothing is changed: {one.release}")


def _number(txn: WorkingTrees, name: str) -> Any:
    """The number of a relation's tree in the transaction's base version; None if there is no such relation."""
    info = txn.base.catalog.relations.get(name)
    return info.spec.tree_id if info else None


def _kept(one: Dependants) -> str:
    """What a host keeps, if anything, in parentheses."""
    return f" ({_listed(one.keeps)})" if one.keeps else ""


def _listed(names: Iterable[str], most: int = 3) -> str:
    """Names for a message, up to `most`; hidden trees only if there is nothing else."""
    known = sorted(names)
    shown = [name for name in known if "$" not in name] or known
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")
