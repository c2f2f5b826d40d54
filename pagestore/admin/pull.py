"""Pulls and pushes: what a branch of one copy of a store changed, done in another copy.

    one copy      1  2  3       4  7        main
                       3  5  6  ^           main of s.pages: 5 does what 4 did there, 6 what 9 did
    s.pages       1  2  3  4  9             main

Copies of a store, made as files or from a backup, have versions in common, which have the same
number and were made at the same time. What a branch of the other copy changed since the newest of
these is done on a branch that follows it, and merged from there. A version of that branch says
which one of the other copy it is, so the next pull goes on from it, in either direction. Texts have
other ids in either copy, so rows go over, not pages; the differences skip all shared pages.

Each pull is a commit on the branch that follows, and a merge; a crash between leaves the first, from
which the next pull goes on.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pagestore.admin.history import begin_branch, delete_branch
from pagestore.admin.merge import (
    PULLED,
    Merge,
    OnConflict,
    contained,
    joined,
    merge,
    merge_said,
    note_contained,
)
from pagestore.errors import CorruptionError, MergeError
from pagestore.relations.relation import Relation
from pagestore.relations.snapshot import (
    CHANGE,
    Snapshot,
    changes_table,
    newest_snapshot,
    snapshot_at,
)
from pagestore.relations.transaction import Transaction, begin_transaction
from pagestore.relations.writable import WritableRelation
from pagestore.versions.commit_record import Commit
from pagestore.versions.handle import Handle

if TYPE_CHECKING:
    import pyarrow as pa


class Same(NamedTuple):
    """A version of either copy, which hold the same rows, and the newest version of each branch
    here, by its number, whose changes a version there contains.
    """

    here: int
    there: int
    lines: dict[int, int]


def pull(
    here: Handle,
    there: Handle,
    branch: str,
    into: str,
    on_conflict: OnConflict = None,
    push: bool = False,
) -> Merge:
    """See Store.pull and Store.push."""
    _refuse_others(here, there)
    if push and into in here.state.settings.branches:
        _refuse_unknown(here, there, into)
    follows = f"{branch} of {there.file.path.name}"
    with newest_snapshot(there, branch) as theirs:
        same = _newest_common(here, there, theirs.version)
        with snapshot_at(there, same.there) as base:
            _begin(here, follows, same)
            changed = [*_changed(base, theirs)]
            with begin_transaction(
                here, f"pull {follows}, version {theirs.version}", follows
            ) as txn:
                for name, changes in changed:
                    _copy(theirs, name, changes, txn)
                merge_said(txn, base, theirs)
                knows_more = same.lines != contained(here, same.here)
                if changed or knows_more or not txn.catalog.same_as(txn.base.catalog):
                    said = {"version": txn.version, "is": _identity(there, theirs.version)}
                    txn.properties[PULLED] = json.dumps(said)
                    note_contained(txn, same.lines)
                txn.commit()
    if into not in here.state.settings.branches:
        with here.administering():
            begin_branch(here, into, follows)
        version = here.newest_of(into)
        return Merge(version, version, (), {})
    return merge(here, follows, into, on_conflict, False, None)


def _refuse_others(here: Handle, there: Handle) -> None:
    """Raise MergeError unless two handles are of copies of one store."""
    here.refresh(), there.refresh()
    if here.meta.uuid != there.meta.uuid:
        raise MergeError(
            f"{there.file.path} is not a copy of {here.file.path}, and nothing is changed: copy the "
            f"file, or `pagestore backup` and `restore` it, and change the copy"
        )
    if here.file.path.resolve() == there.file.path.resolve():
        raise MergeError(f"{there.file.path} is this store itself: use merge")


def _refuse_unknown(here: Handle, there: Handle, into: str) -> None:
    """Raise MergeError if a branch has changes that the other copy lacks."""
    with newest_snapshot(here, into) as mine:
        same = _newest_common(there, here, mine.version)
        with snapshot_at(here, same.there) as base:
            if unknown := [*_changed(base, mine)]:
                raise MergeError(
                    f"branch {into!r} of {here.file.path} has changes of {unknown[0][0]!r} that "
                    f"{there.file.path} lacks, and nothing is changed: pull them there first"
                )


def _identity(handle: Handle, version: int) -> str:
    """Return what tells a version from those of the same number in other copies."""
    made = Commit.read(handle.mapping, handle.entry(version).run, version)
    said = repr((made.version, made.parent, made.branch, made.timestamp, made.message))
    return f"{version} {blake2b(said.encode(), digest_size=16).hexdigest()}"


def _newest_common(here: Handle, there: Handle, head: int) -> Same:
    """Return the newest version that leads to a head of the other copy, and is known here.

    It is known if it was made before one file became two, if it follows a version made here, or is
    followed by one. Raises MergeError if there is none.
    """
    lines, common = contained(there, head), list[tuple[int, int]]()
    mine = {_identity(here, entry.version): entry.version for entry in here.newest_first()}
    follow = {pulled: version for version in mine.values() if (pulled := _pulled(here, version))}
    for entry in sorted(there.newest_first(), reverse=True):
        if entry.version > lines.get(entry.branch, -1):
            continue
        identity = _identity(there, entry.version)
        names = identity, _pulled(there, entry.version)
        known = follow.get(identity) or next((mine[name] for name in names if name in mine), None)
        if known is not None:
            common.append((known, entry.version))
    if common:
        each = [{here.entry(known).branch: known} for known, _ in common]
        return Same(*common[0], joined([contained(here, common[0][0]), *each]))
    raise MergeError(
        f"{here.file.path} and {there.file.path} have no version in common that both retain, and "
        f"nothing is changed: tag one in each copy when you make it, or keep more, by retain="
    )


def _pulled(handle: Handle, version: int) -> str | None:
    """Return which version of another copy a version is, if a pull made it."""
    number = handle.version_of(version)
    if number is None or PULLED not in number.catalog.properties:
        return None
    try:
        said = json.loads(number.catalog.properties[PULLED])
        return str(said["is"]) if said["version"] == version else None
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        said = f"property {PULLED!r} says what was pulled, and does not read: {error}"
        raise CorruptionError(said) from None


def _begin(here: Handle, follows: str, same: Same) -> None:
    """Let the branch that follows the other copy end in a version; begin it anew if it does not."""
    with here.administering():
        branches = here.state.settings.branches
        if follows in branches and here.newest_of(follows) != same.here:
            delete_branch(here, follows)
            branches = here.state.settings.branches
        if follows not in branches:
            begin_branch(here, follows, same.here)


def _changed(base: Snapshot, theirs: Snapshot) -> Iterator[tuple[str, "pa.Table | None"]]:
    """Yield the relations of users that differ in two versions, with their changes; None if they
    are not the same relation.
    """
    catalogs = base._version.catalog, theirs._version.catalog
    kept = catalogs[0].of_hosts | catalogs[1].of_hosts
    for name in dict.fromkeys([*base, *theirs]):
        infos = [catalog.relations.get(name) for catalog in catalogs]
        if name not in kept and infos[0] != infos[1]:
            yield name, None
        elif name not in kept and (table := changes_table(base, theirs, name)).num_rows:
            yield name, table


def _copy(theirs: Snapshot, name: str, changes: "pa.Table | None", txn: Transaction) -> None:
    """Change a relation as the other copy changed it, or make it as it is there."""
    if changes is not None:
        for kind in ("delete", "insert"):
            places = np.flatnonzero(changes[CHANGE].to_numpy() == kind)
            getattr(txn[name], kind)(changes.take(places).drop_columns([CHANGE]))
        return
    if name in txn:
        txn.drop(name)
    if name in theirs:
        empty_copy(txn, theirs[name]).insert(theirs[name].to_arrow())


def empty_copy(txn: Transaction, relation: Relation) -> WritableRelation:
    """Create a relation as another one is, in another store, and without its rows."""
    info = relation.info
    scans = [
        scan for scan in relation.scans if not info.intervals or scan != f"max:{info.intervals[1]}"
    ]
    return txn.create(
        info.name,
        relation.schema,
        scans=scans,
        intervals=info.intervals,
        keys_null=True,
        bag=info.bag,
    )
