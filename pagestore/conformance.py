"""A suite that a host runs against its own embedding of pagestore.

A host wraps itself as `Host` and calls `check(make)`, where `make(path)` opens it. Random edits are
compared with plain dicts, version by version, across reopening, and after edits that were abandoned
half-way.
"""

import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pagestore.store import open as open_store


class Host(Protocol):
    """The interface that the suite tests: an ordered map from int to int, with versions."""

    def put(self, key: int, value: int) -> None:
        """Buffer an edit."""

    def remove(self, key: int) -> None:
        """Buffer a removal; a missing key is not an error."""

    def commit(self) -> int:
        """Make the buffered edits durable together; return the version, or the previous one."""

    def abandon(self) -> None:
        """Drop the buffered edits."""

    def items(self, version: int | None = None) -> list[tuple[int, int]]:
        """Return all items of a version in key order, the newest by default."""

    def changes(self, old: int, new: int) -> list[tuple[str, int, int]]:
        """Return the changes, in key order: ("insert" or "delete", key, value), deletes before
        inserts of a key.
        """

    def close(self) -> None:
        """Release the store; buffered edits are lost."""


def check(make: Callable[[Path], Host], steps: int = 60, seed: int = 0) -> None:
    """Raise AssertionError with the seed and the step if the host misbehaves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "host.pages"
        Conformance(make, path, random.Random(seed)).run(steps, f"seed {seed}")


class Conformance:
    """One run: the host, and a dict with the items of each version."""

    def __init__(self, make: Callable[[Path], Host], path: Path, rng: random.Random):
        self.make, self.path, self.rng = make, path, rng
        self.host = make(path)
        self.versions: dict[int, dict[int, int]] = {}
        self.items: dict[int, int] = {}

    def run(self, steps: int, where: str) -> None:
        """Take random steps, then compare and check the store; `where` names the run in errors."""
        for step in range(steps):
            action = self.rng.choice(
                [self.commit, self.commit, self.commit, self.abandon, self.reopen, self.compare]
            )
            action(f"{where}, step {step}")
        self.reopen(where)
        self.compare(where)
        self.host.close()
        with open_store(self.path, mode="r") as store:
            assert store.check() == [], where

    def commit(self, where: str) -> None:
        """Edit, commit, and compare the newest version."""
        self.items = self._edit(self.items)
        version = self.host.commit()
        known = self.versions.get(version, self.items)
        assert known == self.items, f"{where}: version {version} was there before, with other items"
        self.versions[version] = self.items
        assert self.host.items() == sorted(self.items.items()), where

    def abandon(self, where: str) -> None:
        """Edit, abandon the edits, and check that none of them is left."""
        self._edit(self.items)
        self.host.abandon()
        assert self.host.items() == sorted(self.items.items()), f"{where}: abandoned edits show"

    def reopen(self, where: str) -> None:
        """Edit, close without a commit, open again, and check that none of the edits is left."""
        self._edit(self.items)
        self.host.close()
        assert os.path.exists(self.path), where
        self.host = self.make(self.path)
        assert self.host.items() == sorted(self.items.items()), f"{where}: after reopening"

    def compare(self, where: str) -> None:
        """Compare two recent versions and their difference, in either direction."""
        recent = sorted(self.versions)[-8:]
        if not recent:
            return
        a, b = self.rng.choice(recent), self.rng.choice(recent)
        assert self.host.items(a) == sorted(self.versions[a].items()), f"{where}: version {a}"
        assert self.host.changes(a, b) == _changes(self.versions[a], self.versions[b]), (
            f"{where}: from {a} to {b}"
        )

    def _edit(self, items: dict[int, int]) -> dict[int, int]:
        """Make random edits through the host; return the expected items."""
        items = dict(items)
        for _ in range(self.rng.choice([0, 1, 5, 200])):
            key = self.rng.randrange(-300, 300)
            if self.rng.random() < 0.3:
                self.host.remove(key)
                items.pop(key, None)
            else:
                items[key] = self.rng.randrange(10)
                self.host.put(key, items[key])
        return items


def _changes(old: dict[int, int], new: dict[int, int]) -> list[tuple[str, int, int]]:
    out = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            out += [("delete", key, old[key])] if key in old else []
            out += [("insert", key, new[key])] if key in new else []
    return out
