"""What a program over cells does before the power is cut: batches, over several files."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa

from ivm.spark import Cells
from ivm.spark.folder import Folder
from tests.reliability.power_lives import OPTIONS, Model, Plain, Step, random_edges


class CellsOfViews(Plain):
    """A program over two cells and their manifest; batches bring all of them to the same state."""

    files = ("cells.pages", "generation-1/cell-00000.pages", "generation-1/cell-00001.pages")
    rules = """
        e(x, y) -> int(x), int(y). two(x, z) <- e(x, y), e(y, z). d[x] = n <- agg<<n = count()>> e(x, _).
    """

    def make(self, folder: Path, rng: Random) -> None:
        """Make the cells."""
        edges = pa.table({"x": [0, 1, 2], "y": [1, 2, 0]})
        options = {**OPTIONS, "sync": rng.choice(["full", "commit"])}
        Cells.create(folder, self.rules, 2, tables={"e": edges}, options=options).close()

    def open(self, folder: Path, **options: Any) -> Cells:
        """The cells, after what a crash left is brought to all of them, or taken back."""
        return Cells.open(folder)

    def version(self, opened: Any) -> int:
        """The newest batch."""
        return opened.done  # type: ignore[no-any-return]

    def again(self, opened: Any, folder: Path, **options: Any) -> Any:
        """The cells, opened again."""
        opened.close()
        return self.open(folder)

    def copy(self, folder: Path, image: Path) -> None:
        """Messages of batches: they were synced before the manifest named the batch."""
        shutil.rmtree(image / "pending", ignore_errors=True)
        if (folder / "kept").exists():
            shutil.copytree(folder / "kept", image / "pending")

    def versions(self, opened: Any) -> Iterator[tuple[int, Any]]:
        """The newest batch."""
        yield opened.done, self.read(opened)["e"]

    def read(self, opened: Any) -> Model:
        """The edges; of all else `check` says whether it follows from them."""
        return {"e": sorted(opened["e"])}

    def newest(self, model: Model) -> Any:
        """The edges."""
        return model["e"]

    def check(self, opened: Any) -> list[Any]:
        """The faults of all cells."""
        return opened.check()  # type: ignore[no-any-return]

    def go_on(self, opened: Any) -> None:
        """Apply a batch."""
        opened.apply(opened.done + 1, {"e": pa.table({"x": [70], "y": [71]})})

    def step(self, opened: Any, model: Model, rng: Random) -> Step:
        """A batch of insertions and deletions."""
        gone = rng.sample(model["e"], min(len(model["e"]), rng.choice([0, 1, 5])))
        fresh = [
            list(row) for row in random_edges(rng, rng.choice([1, 5, 80])) if list(row) not in gone
        ]
        kinds = ["delete"] * len(gone) + ["insert"] * len(fresh)
        x, y = zip(*gone, *fresh, strict=True) if kinds else ((), ())
        table = pa.table(
            {"x": pa.array(x, pa.int64()), "y": pa.array(y, pa.int64()), "_change_type": kinds}
        )
        left = {tuple(row) for row in model["e"] if row not in gone} | {tuple(row) for row in fresh}

        def do() -> None:
            with mock.patch.object(Folder, "sync_batch", _keep_messages):
                opened.apply(opened.done + 1, {"e": table})

        return do, {"e": sorted(map(list, left))}


_sync_batch = Folder.sync_batch


def _keep_messages(folder: Folder, number: int) -> None:
    """Sync a batch's messages, and keep them for images of later."""
    _sync_batch(folder, number)
    kept = folder.path / "kept" / str(number)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder.path / "pending" / str(number), kept)
