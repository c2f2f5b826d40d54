"""Branches that are begun without a sync: what a crash or another process leaves of them."""

from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

import pagestore
from pagestore.errors import PoisonedError
from pagestore.store import Store, empty_store
from pagestore.versions.handle import Handle
from tests.support.simulator import FALLBACK, SimulatedFile, crashes

# a crash may leave half a commit
pytestmark = pytest.mark.filterwarnings("ignore::pagestore.errors.RecoveryWarning")


def shown(store: Store) -> dict[str, Any]:
    """Each branch with its rows."""
    with_rows = {name: store.snapshot(name) for name in store.branches}
    return {name: [*snap["r"]] if "r" in snap else [] for name, snap in with_rows.items()}


def made(store: Store, branch: str, x: int) -> None:
    """Commit a row on a branch, and others that it replaces."""
    with store.transaction(branch=branch) as txn:
        if "r" not in txn:
            txn.create("r", "x: int64, y: int64", key="x")
        txn["r"].set([(x, 1), *((n, x) for n in range(100, 300))])


def step(store: Store, chance: Random, number: int) -> bool:
    """Change a store at random; return whether all is durable then."""
    branch, action = chance.choice([*store.branches]), chance.randrange(10)
    if action < 6:
        store.branch(f"b{number}", branch)
        return False
    if action == 6:
        store.transaction(branch=branch).rollback()
        return False
    if action == 7:
        store.tag(f"t{number}")
    elif action == 8 and branch != "main" and not any(n > branch for n in store.branches):
        store.delete_branch(branch)
    else:
        made(store, branch, number)
    return True


@pytest.mark.parametrize("stride", [29, pytest.param(1, marks=pytest.mark.campaign)])
def test_a_crash_leaves_what_was_durable_or_came_after(stride: int) -> None:
    """Also where pages are reused, and goes on from there."""
    for seed in range(3):
        chance, start = Random(seed), empty_store(4096)
        file = SimulatedFile(start)
        store = Store(Handle(file))
        made(store, "main", 0)
        states, durable, at = [shown(store)], [0], [len(file.operations)]
        for number in range(24):
            begun = step(store, chance, number)
            states.append(shown(store))
            durable.append(len(states) - 1 if begun else durable[-1])
            at.append(len(file.operations))
        assert store.check() == []
        for done, image in islice(crashes(start, file.operations, chance), seed, None, stride):
            if done < at[0]:
                continue
            past = max(i for i, count in enumerate(at) if count <= done)
            found = Store(Handle(SimulatedFile(image)))
            assert shown(found) in states[durable[past] : past + 2], (seed, done)
            assert [v for v in found.check() if v.invariant not in FALLBACK] == []
            found.branch("after")
            made(found, "after", -1)
            assert [v for v in found.check() if v.invariant not in FALLBACK] == []


def test_no_sync_is_made_for_a_branch() -> None:
    """The next commit makes it durable with its own two, and so does the end; a group is short."""
    file = SimulatedFile(empty_store(4096), limit=1 << 26)
    store = Store(Handle(file))
    made(store, "main", 0)
    before = file.syncs
    for number in range(40):
        store.branch(f"b{number}")
    assert file.syncs == before
    made(store, "b7", 1)
    assert file.syncs == before + 2 and shown(Store(Handle(SimulatedFile(file.content()))))
    pages = store.stat().pages
    for number in range(200):
        store.branch(f"c{number}")
    assert file.syncs - before < 12 and store.stat().pages - pages < 1500
    store.tag("all")
    assert store.stat().pages - store.stat().free < pages and store.check() == []


def test_a_sync_that_fails_later() -> None:
    """It is the next commit's failure; the store can be opened again, and the branch is there."""
    for call in (lambda store: made(store, "b", 1), lambda store: store.untag("t")):
        file = SimulatedFile(empty_store(4096))
        store = Store(Handle(file))
        made(store, "main", 0)
        store.tag("t")
        store.branch("b")
        file.fail_syncs = {file.syncs + 1}
        with pytest.raises(OSError, match="simulated"):
            call(store)
        with pytest.raises(PoisonedError):
            store.branch("c")
        store.reopen()
        assert [*store.branches] == ["main", "b"] and store.check() == []
        made(store, "b", 2)


def test_several_handles(tmp_path: Path) -> None:
    """Another one sees the branch at once and goes on from it; the first one's end loses nothing."""
    path = tmp_path / "s.pages"
    with pagestore.open(path) as first:
        made(first, "main", 0)
        with pagestore.open(path) as second:
            first.branch("a")
            assert [*second.branches] == ["main", "a"]
            for number in range(5):
                made(second, "a", number)
                second.branch(f"b{number}", "a")
            first.transaction().rollback()
            first.branch("c")
            for number in range(3):  # its slots are those of several commits later
                made(second, "c", number)
            first.close()
            before = shown(second)
            assert [*before] == ["main", "a", *(f"b{n}" for n in range(5)), "c"]
            second.branch("d")
    with pagestore.open(path) as store:
        assert shown(store) == before | {"d": before["main"]} and store.check() == []
