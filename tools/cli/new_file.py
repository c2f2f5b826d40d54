"""A file that a command writes, or a store: there with all it should hold, or as it was before."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pagestore
from pagestore.storage.file import beside, sync_folder


@contextmanager
def written(name: str, source: str) -> Iterator[IO[bytes]]:
    """A binary stream that takes the place of the file `name` when all of it is written, and was made of `source`.

    A pipe or a device is written to as it is.
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
            open(path, "ab").close()  # who may not write to a file may not replace it either
            shutil.copymode(path, temporary)
        with open(temporary, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
        sync_folder(path)


@contextmanager
def made(path: Path) -> Iterator[pagestore.Store]:
    """A new store that gets its name when all of it is there, or leaves nothing. Raises FileExistsError."""
    with beside(path) as building:
        building.unlink()  # only its name is wanted
        with pagestore.open(building) as store:
            yield store
        os.link(building, path)
        sync_folder(path)
