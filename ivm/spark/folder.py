"""The folder of some cells: what stands in it, and what is written so that a crash leaves the old state or the new one.

cells.json              the manifest: the layout, the generation, the newest batch that all cells have
lock                    held by the program that writes
generation-1/           a store for each cell; resharding makes the next generation beside it
pending/17/             a batch on its way: messages for the base relations, kept until all cells have them
pending/17/batch.json   written last, so that a batch without it was never begun
"""

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from ivm.spark.cell import CellsError

FORMAT = 1


class Folder:
    """A folder that all executors reach; this object holds its lock."""

    def __init__(self, path: str | os.PathLike[str], create: bool = False) -> None:
        self.path = Path(path).absolute()
        if create:
            self.path.mkdir(parents=True, exist_ok=True)
            if self._manifest.exists():
                raise CellsError(f"{self.path} has cells already: open them, or name another folder")
        elif not self._manifest.exists():
            raise CellsError(f"{self.path} has no cells.json: cells are made with Cells.create")
        self._lock = self._hold()

    def _hold(self) -> IO[str]:
        lock = open(self.path / "lock", "a+")  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "another"
            lock.close()
            raise CellsError(
                f"{self.path} is in use by process {holder}: one program writes to cells at a time"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        return lock

    def close(self) -> None:
        """Give the lock back."""
        self._lock.close()

    @property
    def _manifest(self) -> Path:
        return self.path / "cells.json"

    def load(self) -> dict[str, Any]:
        """The manifest. Raises CellsError for that of a later release."""
        found: dict[str, Any] = json.loads(self._manifest.read_text())
        if found.get("format") != FORMAT:
            raise CellsError(f"{self._manifest} has format {found.get('format')}, and this release reads {FORMAT}")
        return found

    def save(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest, durably."""
        write_durably(self._manifest, json.dumps({"format": FORMAT, **manifest}, indent=1))

    def generation(self, number: int) -> str:
        """The folder of a generation's stores."""
        return str(self.path / f"generation-{number}")

    def remove_others(self, number: int) -> None:
        """Remove what a crash left of other generations, and of batches that were never begun."""
        for path in self.path.glob("generation-*"):
            if path.name != f"generation-{number}":
                shutil.rmtree(path)
        for path in self.path.glob("pending/*"):
            if not (path / "batch.json").exists():
                shutil.rmtree(path)

    # -- batches on their way

    def new_batch(self, number: int) -> Path:
        """An empty folder for a batch's messages."""
        path = self.path / "pending" / str(number)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def begin_batch(self, number: int) -> str:
        """Say that a batch's messages are complete; returns the token of this attempt."""
        token = uuid4().hex
        self.mark_batch(number, token, "apply")
        return token

    def mark_batch(self, number: int, token: str, state: str) -> None:
        """Say whether a batch is to be applied or taken back."""
        path = self.path / "pending" / str(number)
        for file in path.rglob("*.parquet"):
            _sync(file)
        write_durably(path / "batch.json", json.dumps({"token": token, "state": state}))

    def pending(self) -> tuple[int, str, str] | None:
        """The batch that is on its way, if there is one: its number, token and state."""
        for path in self.path.glob("pending/*/batch.json"):
            found = json.loads(path.read_text())
            return int(path.parent.name), found["token"], found["state"]
        return None

    def files(self, number: int) -> list[str]:
        """The files of a batch's messages."""
        return sorted(str(file) for file in (self.path / "pending" / str(number)).rglob("*.parquet"))

    def end_batch(self, number: int) -> None:
        """Forget a batch: first that it was begun."""
        path = self.path / "pending" / str(number)
        (path / "batch.json").unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)


def write_durably(path: Path, text: str) -> None:
    """Write a small file whole or not at all, and sync it and its folder."""
    made = path.with_name(path.name + ".new")
    made.write_text(text)
    _sync(made)
    made.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
