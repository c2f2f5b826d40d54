"""A full disk under views: what deletes commits in the reserve, through every door, and what
grows changes nothing.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import ivm
from tests.support.file_systems import largest_file

RULES = {
    "none": "e(x, y) -> int(x), int(y).",
    "a projection": "e(x, y) -> int(x), int(y). p(x) <- e(x, _).",
    "a count and a join": """
        e(x, y) -> int(x), int(y). c[x] = n <- agg<<n = count()>> e(x, _). p(x, z) <- e(x, y), e(y, z).
    """,
    "a recursion": "e(x, y) -> int(x), int(y). r(x, y) <- e(x, y). r(x, z) <- r(x, y), e(y, z).",
    "a negation": "e(x, y) -> int(x), int(y). p(x) <- e(x, _), !e(_, x). m[x] = y <- agg<<y = "
    "max(z)>> e(x, z).",
}


def by_exec(workspace: ivm.Workspace, row: tuple[int, int]) -> None:
    workspace.exec(f"-e({row[0]}, {row[1]}).")


def by_transaction(workspace: ivm.Workspace, row: tuple[int, int]) -> None:
    with workspace.transaction() as txn:
        txn.delete("e", [row])


def by_store(workspace: ivm.Workspace, row: tuple[int, int]) -> None:
    with workspace.store.transaction() as txn:
        txn["e"].delete([row])


DOORS: list[Callable[[ivm.Workspace, tuple[int, int]], None]] = [by_exec, by_transaction, by_store]


def random_rows(rng: Random, n: int) -> list[tuple[int, int]]:
    return sorted({(rng.randrange(10**4), rng.randrange(10**4)) for _ in range(n)})


@pytest.mark.parametrize("rules", RULES)
def test_the_store_fills_the_disk(tmp_path: Path, rules: str) -> None:
    rng, rows = Random(2), set()
    with ivm.open(tmp_path / "w.pages", page_size=4096, retain="all", threads=1) as workspace:
        workspace.install(RULES[rules])
        with largest_file(3_000_000):
            with pytest.raises(OSError, match="no room on the disk"):
                while True:
                    new = random_rows(rng, 150)
                    with workspace.transaction() as txn:
                        txn.insert("e", new)
                    rows |= {*new}
            for door in DOORS:
                door(workspace, gone := min(rows))
                rows.remove(gone)
            with (
                pytest.raises(OSError, match="no room on the disk"),
                workspace.transaction() as txn,
            ):
                txn.insert("e", random_rows(rng, 100_000))
            workspace.store.vacuum(keep_versions=1)
            assert {*workspace["e"]} == rows
    with ivm.open(tmp_path / "w.pages") as workspace:
        assert {*workspace["e"]} == rows and not workspace.check()


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("n", [5, 1500])
def test_others_fill_the_disk_while_it_is_closed(tmp_path: Path, rules: str, n: int) -> None:
    rows = {*random_rows(Random(3), n)}
    path = tmp_path / "w.pages"
    with ivm.open(path, page_size=4096, threads=1) as workspace:
        workspace.install(RULES[rules])
        with workspace.transaction() as txn:
            txn.insert("e", sorted(rows))
    with largest_file(path.stat().st_size):
        for door in DOORS:
            with ivm.open(path, threads=1) as workspace:
                door(workspace, gone := min(rows))
                rows.remove(gone)
                assert {*workspace["e"]} == rows
    with ivm.open(path) as workspace:
        assert {*workspace["e"]} == rows and not workspace.check()
