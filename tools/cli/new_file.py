"""New stores that appear only when they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pagestore
from pagestore.storage.file import beside, sync_folder


@contextmanager
def made(path: Path, page_size: int | None = None) -> Iterator[pagestore.Store]:
    """A new store that gets its name once the block has filled it; an error leaves no file. Raises FileExistsError."""
    with beside(path) as building:
        building.unlink()  # the store creates the file itself
        with pagestore.open(building, page_size=page_size) as store:
            yield store
        os.link(building, path)
        sync_folder(path)
