"""New stores that appear only when they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pagestore
from pagestore.errors import PagestoreError
from pagestore.pages.layout import PAGE_SIZE_DEFAULT
from pagestore.storage.file import beside, sync_folder
from pagestore.store import empty_store


@contextmanager
def made(path: Path, page_size: int | None = None) -> Iterator[pagestore.Store]:
    """Yield a new store that gets its name after the block; an error leaves no file. Raises FileExistsError."""
    with beside(path) as building:
        building.write_bytes(empty_store(PAGE_SIZE_DEFAULT if page_size is None else page_size))
        with pagestore.open(building) as store:
            yield store
        os.link(building, path)
        sync_folder(path)


@contextmanager
def removed_if_empty(path: Path) -> Iterator[None]:
    """Delete the store that the block made if the block fails before the first version; keep an existing file."""
    there = path.exists()
    try:
        yield
    except BaseException:
        if not there and path.exists():
            with suppress(PagestoreError, OSError), pagestore.open(path, create=False) as store:  # nobody else writes
                if not store.version:
                    path.unlink()
        raise
