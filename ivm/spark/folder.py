"""The folder of some cells: what stands in it, and what is written so that a crash leaves the old state or the new one.

cells.pages             the manifest, as a property of a store without relations: the layout, the generation, the newest
                        batch that all cells have, the one on its way. The program that writes has it open
generation-1/           a store for each cell; resharding makes the next generation beside it
pending/17/             messages for the base relations of the batch on its way, kept until all cells have them
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pagestore
from ivm.spark.cell import CellsError
from pagestore.errors import LockedError
from pagestore.host import local_path

FORMAT, MANIFEST = 1, "cells"


class Folder:
    """A folder that all executors reach, which one program at a time has open."""

    def __init__(self, path: str | os.PathLike[str], create: bool = False) -> None:
        self.path = Path(local_path(path)).absolute()
        file = self.path / "cells.pages"
        if create:
            self.path.mkdir(parents=True, exist_ok=True)
        elif not file.exists():
            raise CellsError(f"{self.path} has no cells.pages: cells are made with Cells.create")
        try:
            self._store = pagestore.open(file, retain=1, create=create)
        except LockedError as error:
            raise CellsError(f"{error}: one program writes to cells at a time") from None
        if create == bool(self.load()):
            self.close()
            remedy = (
                "has cells already: open them, or name another folder" if create else "has cells that were not made"
            )
            raise CellsError(f"{self.path} {remedy}")

    def close(self) -> None:
        """Let others open it."""
        self._store.close()

    def load(self) -> dict[str, Any]:
        """The manifest, empty before the first. Raises CellsError for that of a later release."""
        with self._store.snapshot() as snap:
            found: dict[str, Any] = json.loads(str(snap.properties.get(MANIFEST, "{}")))
        if found and found["format"] != FORMAT:
            raise CellsError(f"{self.path} has format {found['format']}, and this release reads {FORMAT}")
        return found

    def save(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest, durably."""
        with self._store.transaction() as txn:
            txn.properties[MANIFEST] = json.dumps({"format": FORMAT, **manifest})

    def generation(self, number: int) -> str:
        """The folder of a generation's stores."""
        return str(self.path / f"generation-{number}")

    def remove_others(self, generation: int, batch: int | None) -> None:
        """Remove what a crash left of other generations, and of batches that are not on their way."""
        for path in self.path.glob("generation-*"):
            if path.name != f"generation-{generation}":
                shutil.rmtree(path)
        for path in self.path.glob("pending/*"):
            if path.name != str(batch):
                shutil.rmtree(path)

    # -- batches on their way

    def new_batch(self, number: int) -> Path:
        """An empty folder for a batch's messages."""
        path = self._batch(number)
        self.remove_batch(number)
        path.mkdir(parents=True)
        return path

    def sync_batch(self, number: int) -> None:
        """Bring a batch's messages to the disk."""
        path = self._batch(number)
        for one in (*path.rglob("*"), path, path.parent, self.path):
            descriptor = os.open(one, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def files(self, number: int) -> list[str]:
        """The files of a batch's messages."""
        return sorted(str(file) for file in self._batch(number).rglob("*.parquet"))

    def remove_batch(self, number: int) -> None:
        """Forget a batch's messages."""
        shutil.rmtree(self._batch(number), ignore_errors=True)

    def _batch(self, number: int) -> Path:
        return self.path / "pending" / str(number)
