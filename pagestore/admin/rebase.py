"""Rebases: a branch begins anew on the newest version of another one, and does there again what each
of its versions did.

    main     1  2  5                         main     1  2  5
    trial       2  3  4     rebase trial     trial          5  6  7      6 does what 3 did, 7 what 4 did

The versions are made on a branch with a name of its own, which takes the place of the old one in a
single commit. Until then the old branch is as it was; a crash leaves the other, which the next
rebase removes.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from itertools import pairwise

from pagestore.admin.history import begin_branch, delete_branch, refuse_needed
from pagestore.admin.merge import (
    Conflict,
    Merge,
    OnConflict,
    ThreeWay,
    contained,
    joined,
    merged_with,
    try_on,
)
from pagestore.errors import MergeError, VersionError
from pagestore.relations.snapshot import snapshot_at
from pagestore.relations.transaction import begin_transaction
from pagestore.storage.pager import NO_ORIGIN
from pagestore.versions.commit_record import Commit
from pagestore.versions.handle import Handle
from pagestore.versions.hosts import methods


def rebase(handle: Handle, branch: str, onto: str, on_conflict: OnConflict, dry_run: bool) -> Merge:
    """See Store.rebase."""
    handle.refresh()
    number, other = handle.branch_id(branch), handle.branch_id(onto)
    if number == other:
        raise MergeError(f"branch {branch!r} is on itself already: name another branch")
    head, start = (handle.state.heads[branch_number].version for branch_number in (number, other))
    known = contained(handle, start)
    line = _line(handle, head, known)
    if line[0] == start:
        return Merge(head, start, (), {})
    _refuse_rules(handle, branch, head, line[0], start)
    steps = [
        ThreeWay(before, after, f"version {after}", on_conflict)
        for before, after in pairwise(line)
        if not _merges_known(handle, before, after, known)
    ]
    if dry_run and not steps:
        return Merge(start, line[0], (), {})
    if dry_run:
        return try_on(handle, onto, steps)._replace(base=line[0])
    refuse_needed(handle, branch)
    return _replace(handle, branch, onto, line, steps)


def _replace(
    handle: Handle, branch: str, onto: str, line: list[int], steps: list[ThreeWay]
) -> Merge:
    """Do the steps on a new branch, and let it take the place of the old one."""
    made = f"rebase of {branch}"
    with handle.administering():
        if made in handle.state.settings.branches:
            delete_branch(handle, made)
        begin_branch(handle, made, onto)
    conflicts: list[Conflict] = []
    try:
        for step in steps:
            entry = handle.entry(step.numbers[1])
            message = Commit.read(handle.mapping, entry.run, entry.version).message
            with begin_transaction(handle, message, made) as txn:
                conflicts += step.apply(handle, txn)
        with handle.administering():
            newest = handle.state.heads[handle.branch_id(branch)].version
            if newest != line[-1]:
                raise MergeError(
                    f"version {newest} of branch {branch!r} was made during the rebase, and "
                    f"nothing is changed: rebase again"
                )
            version = handle.state.heads[handle.branch_id(made)].version
            delete_branch(handle, branch, instead=made)
    except BaseException:
        with handle.administering():
            delete_branch(handle, made)
        raise
    return Merge(version, line[0], tuple(conflicts), {})


def _line(handle: Handle, head: int, known: Mapping[int, int]) -> list[int]:
    """Return the retained versions that lead to a head, from the newest that is `known`, which
    says the newest of each branch. O(retained versions).
    """
    branches = {entry.version: entry.branch for entry in handle.newest_first()}
    heads, line = handle.state.heads, list[int]()
    while True:
        branch = branches[head]
        for version in (at for at, where in branches.items() if where == branch and at <= head):
            line.append(version)
            if version <= known.get(branch, -1):
                return line[::-1]
        head = heads[branch].origin
        if head == NO_ORIGIN:
            raise VersionError(
                "no version that both branches come from is retained: keep more, by retain="
            )


def _merges_known(handle: Handle, before: int, after: int, known: Mapping[int, int]) -> bool:
    """Return whether a version is a merge of what is `known`, so that there is nothing to do; what
    it merged may be of a branch that is gone.
    """
    with snapshot_at(handle, after) as snapshot:
        if merged_with(snapshot._version.catalog, after) is None:
            return False
    had, its_branch = joined([known, contained(handle, before)]), handle.entry(after).branch
    lines = contained(handle, after).items()
    return all(number <= had.get(branch, -1) for branch, number in lines if branch != its_branch)


def _refuse_rules(handle: Handle, branch: str, *versions: int) -> None:
    """Raise MergeError if what hosts were told on a branch, such as rules, is neither what they
    were told before nor where it is to begin: three versions, the newest of the branch first.
    """
    with ExitStack() as held:
        shown = [held.enter_context(snapshot_at(handle, version)) for version in versions]
        for tell in methods("declared"):
            if tell(shown[0]) not in map(tell, shown[1:]):
                raise MergeError(
                    f"branch {branch!r} has rules or kept views of its own, which a rebase would "
                    f"lose, and nothing is changed: merge the other branch into it instead"
                )
