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
    """A new store that gets its name once the block has filled it; an error leaves no file. Raises FileExistsError."""
    with beside(path) as building:
        building.write_bytes(empty_store(PAGE_SIZE_DEFAULT if page_size is None else page_size))
        with pagestore.open(building) as store:
            yield store
        os.link(building, path)
        sync_folder(path)


@contextmanager
def removed_if_empty(path: Path) -> Iterator[None]:
    """Where there is no file yet and the block makes a store, remove it if the block fails without a version in it."""
    there = path.exists()
    try:
        yield
    except BaseException:
        if not there and path.exists():
            with suppress(PagestoreError, OSError), pagestore.open(path, create=False) as store:  # nobody else writes
                if not store.version:
                    path.unlink()
        raise
