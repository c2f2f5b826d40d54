"""New files and stores that appear only when they are complete; until then the old file, if any, stays."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pagestore
from pagestore.errors import PagestoreError
from pagestore.storage.file import beside, sync_folder


@contextmanager
def written(name: str, source: str) -> Iterator[IO[bytes]]:
    """A binary stream that replaces the file `name` once the block has written all of it.

    A pipe or a device is written to directly. Raises FileExistsError if `name` is the store `source` itself.
    """
    path = Path(name).resolve()
    if path.exists() and path.samefile(source):
        raise FileExistsError(f"{name} is the store itself; write to another file")
    if path.exists() and not path.is_file():
        with open(path, "wb") as out:
            yield out
        return
    with beside(path) as temporary:
        if path.exists():
            open(path, "ab").close()  # raises if the user may not write to the file that is to be replaced
            shutil.copymode(path, temporary)
        with open(temporary, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
        sync_folder(path)


@contextmanager
def made(path: Path, page_size: int | None = None) -> Iterator[pagestore.Store]:
    """A new store that gets its name once the block has filled it; an error leaves no file. Raises FileExistsError."""
    with beside(path) as building:
        building.unlink()  # the store creates the file itself
        with pagestore.open(building, page_size=page_size) as store:
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
