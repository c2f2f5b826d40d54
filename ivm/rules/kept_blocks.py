"""Blocks that some process of this user compiled, so that another which opens the store does not.

    ~/.cache/pagestore/rules/0f3a…    the code that compiles, by the names, sizes and times of its files
        9c41…                         a block as it is saved, and those that it uses

They are Python's own pickles, so they are not in the store: that may come from anyone, and nothing
in it is run. What a block was compiled to depends on the store in two ways alone, which each file
has, too: words of texts, and how relations are stored. Where the store says another thing, or a
file does not read, the block is compiled anew.
"""

import logging
import os
import pickle
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from threading import get_ident
from typing import Any, NamedTuple

from ivm.lang.functions import DECLARATION
from ivm.lang.ir import Const
from ivm.rules.relations import Relations
from ivm.rules.saved import SavedBlock
from ivm.views.layouts import Layout
from pagestore.host import folder_named

# reports each block that is compiled, which takes milliseconds
LOG = logging.getLogger("ivm.rules")
FILES_MOST = 10_000  # of a folder; one has some 20 kB


class KeptBlock(NamedTuple):
    """What a block was compiled to, and what the store said meanwhile."""

    compiled: Any
    words: list[tuple[Const, int]]
    layouts: dict[str, Layout]


def key_of(block: SavedBlock, used: Iterable[str]) -> str:
    """Return the name of a block's file, given those of the blocks that it uses."""
    return sha256("\n".join((block.text, *used)).encode()).hexdigest()


def kept(key: str, store: Relations) -> Any:
    """Return what a block is compiled to over a store; None if no file says it."""
    try:
        file = KeptBlock(*pickle.loads((_folder() / key).read_bytes()))
        predicates = file.compiled[0].part.predicates
        if file.layouts == store.layouts(predicates) and all(
            store.encode(const) == word for const, word in file.words
        ):
            return file.compiled
    except Exception as error:  # a damaged pickle may raise anything
        if not isinstance(error, FileNotFoundError):
            LOG.info("%s does not read: %r", key, error)
    return None


def keep(key: str, compiled: Any, store: Relations) -> None:
    """Write what a block was compiled to over a store; nothing if the disk is full or read-only.

    A block that declares users' functions is not kept: compiling it makes these known.
    """
    block, words = compiled[0], [*store.encode.noted]
    store.encode.noted.clear()
    LOG.info("compiled block %s", block.name)
    if DECLARATION in block.text:
        return
    file = BytesIO()
    made = KeptBlock(compiled, words, store.layouts(block.part.predicates))
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump((*made,))
    path = _folder() / key
    with suppress(OSError):
        draft = path.with_suffix(f".{os.getpid()}-{get_ident()}")  # whole, or not there
        draft.write_bytes(file.getbuffer())
        draft.replace(path)


class _Pickler(pickle.Pickler):
    """Writes the fields of dataclasses, and nothing that they have computed from them since."""

    def reducer_override(self, value: Any) -> Any:
        if not is_dataclass(value) or isinstance(value, type) or hasattr(value, "__setstate__"):
            return NotImplemented  # those with slots name their fields themselves
        state = {field.name: getattr(value, field.name) for field in fields(value)}
        return object.__new__, (type(value),), state


@cache
def _folder() -> Path:
    """Return the folder of this code's blocks, emptied if it has too many."""
    root = Path(__file__).parents[1]
    files = (
        path for package in (root, root.with_name("pagestore")) for path in package.rglob("*.py")
    )
    stats = ((str(path), path.stat()) for path in files)
    said = sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
    folder = folder_named(sha256(f"{sys.version}{said}".encode()).hexdigest()[:16], "rules")
    with suppress(OSError):
        for path in [*folder.iterdir()][FILES_MOST:]:
            path.unlink()
    return folder
