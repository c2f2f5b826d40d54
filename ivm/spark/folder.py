"""The folder of cells: its contents, written so that a crash leaves either the old state or the new
one.

cells.pages             the manifest, as a property of a store without relations: the layout, the generation, the newest
                        batch that all cells have and each cell's version after it, the pending
                        batch. It is absent until the cells are complete. The program that writes
                        has this store open
generation-1/           a store for each cell; resharding makes the next generation next to it
generation-1.rebuilt/   stores of lost cells, until they are complete
pending/17/             messages for the base relations of the pending batch, kept until all cells have them
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pagestore
from ivm.errors import OptionError
from ivm.lang.ir import Predicate
from ivm.names import is_made
from ivm.rules.compile import compile
from ivm.spark.cell import CellsError
from ivm.spark.layout import Layout
from ivm.spark.stages import REBUILT
from pagestore.errors import LockedError
from pagestore.host import local_path

FORMAT, MANIFEST = 2, "cells"


APPLY, UNDO = "apply", "undo"  # what to do with the pending batch


class Pending(NamedTuple):
    """A pending batch: how many batches all cells had before, its number and query, whether to
    apply or undo it.
    """

    sequence: int
    number: int
    query: str
    token: str
    becomes: str = APPLY


class State(NamedTuple):
    """The manifest, and what is derived from its layout."""

    manifest: dict[str, Any]
    layout: Layout
    predicates: Mapping[str, Predicate]

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> "State":
        """Return the state of a manifest."""
        layout = Layout.load(json.loads(json.dumps(manifest["layout"])))
        predicates = compile(layout.program).predicates
        return cls(
            manifest,
            layout,
            {name: predicate for name, predicate in predicates.items() if not is_made(name)},
        )


class Folder:
    """A folder that all executors reach; one program at a time writes to it, others read."""

    def __init__(
        self, path: str | os.PathLike[str], create: bool = False, mode: Literal["rw", "r"] = "rw"
    ) -> None:
        if mode not in ("rw", "r"):
            raise OptionError(f"mode={mode!r}: cells are opened with 'rw' or 'r'")
        self.path, self.mode = Path(local_path(path)).absolute(), mode
        file = self.path / "cells.pages"
        if create:
            self.path.mkdir(parents=True, exist_ok=True)
        elif not file.exists():
            raise CellsError(f"{self.path} has no cells.pages: cells are made with Cells.create")
        try:
            if mode == "r":
                self._store = pagestore.open(file, mode="r")
            else:
                self._store = pagestore.open(file, retain=1, create=create, exclusive=True)
        except LockedError as error:
            raise CellsError(
                f"{error}: one program writes to cells at a time, others open them with mode='r'"
            ) from None
        if create == bool(self.load()):
            self.close()
            if create:
                remedy = "has cells already: open them, or name another folder"
            else:
                remedy = "has cells whose Cells.create did not end: call it again"
            raise CellsError(f"{self.path} {remedy}")

    def close(self) -> None:
        """Close the manifest's store, so that others can open it."""
        self._store.close()

    def load(self) -> dict[str, Any]:
        """Return the manifest, perhaps empty. Raises CellsError for another release's format."""
        with self._store.snapshot() as snap:
            saved: dict[str, Any] = json.loads(str(snap.properties.get(MANIFEST, "{}")))
        if saved and saved["format"] != FORMAT:
            raise CellsError(
                f"{self.path} has format {saved['format']}, and this release reads {FORMAT}"
            )
        return saved

    def save(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest, durably."""
        with self._store.transaction() as txn:
            txn.properties[MANIFEST] = json.dumps({"format": FORMAT, **manifest})

    def generation(self, number: int) -> str:
        """Return the folder of a generation's stores."""
        return str(self.path / f"generation-{number}")

    def next_generation(self) -> int:
        """Return a generation number that no folder has, not even one that a crash left."""
        numbers = [path.name.removeprefix("generation-") for path in self.path.glob("generation-*")]
        return 1 + max((int(number) for number in numbers if number.isdigit()), default=0)

    def remove_others(self, generation: int, batch: int | None) -> None:
        """Delete what a crash left of other generations, and of batches but the pending one."""
        for path in self.path.glob("generation-*"):
            if path.name != f"generation-{generation}":
                shutil.rmtree(path)
        for path in self.path.glob("pending/*"):
            if path.name != str(batch):
                shutil.rmtree(path)

    # -- pending batches

    def replace_stores(self, generation: int) -> None:
        """Move rebuilt stores into their generation, durably."""
        rebuilt = Path(self.generation(generation) + REBUILT)
        for path in rebuilt.glob("*.pages"):
            path.replace(Path(self.generation(generation), path.name))
        _sync(Path(self.generation(generation)))
        shutil.rmtree(rebuilt)

    def new_batch(self, number: int) -> Path:
        """Make an empty folder for a batch's messages."""
        path = self._batch(number)
        self.remove_batch(number)
        path.mkdir(parents=True)
        return path

    def sync_batch(self, number: int) -> None:
        """Sync a batch's messages to disk."""
        path = self._batch(number)
        for path_in in (*path.rglob("*"), path, path.parent, self.path):
            _sync(path_in)

    def files(self, number: int) -> list[str]:
        """Return the files of a batch's messages."""
        return sorted(str(file) for file in self._batch(number).rglob("*.parquet"))

    def remove_batch(self, number: int) -> None:
        """Delete a batch's messages."""
        shutil.rmtree(self._batch(number), ignore_errors=True)

    def _batch(self, number: int) -> Path:
        return self.path / "pending" / str(number)


def _sync(path: Path) -> None:
    """Sync a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
