"""Backups: the pages of one version as a stream, taken while others read and write.

A backup is "pageBACK", a format number, and blocks as in a dump:

    HEAD   record      page size, uuid, base version (-1 for a full backup), version, its record's run, top
    PAGE   pages       ids (count, then int64 each), then the pages
    DONE   record      the number of pages

A full backup holds all pages that the newest version reaches, an incremental one those born after the base.
Applying a full backup and the increments behind it, in order, gives a store with that one version, byte for
byte the same pages.
"""

import os
import struct
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from .blocks import read_blocks, write_block
from .check import Walk
from .dictionary import PLACES, TEXTS
from .errors import CorruptionError, FormatError, VersionError
from .file import File, beside
from .flat import flat
from .handle import Handle
from .layout import BIRTH, FIRST_PAGE, WORD
from .mapping import Mapping, Run, pages_of_run
from .meta import SLOT_SIZE, Meta
from .pager import NO_ORIGIN
from .record import COMMIT, Commit
from .settings import MAIN_ID
from .snapshot import Snapshot, newest
from .state import load_version, roots_of

FULL = -1  # the base of a full backup
MAGIC = b"pageBACK\x01\x00\x00\x00"
KINDS = b"HEAD", b"PAGE", b"DONE"
BLOCK_PAGES = 256
_HEAD = struct.Struct("<q16sqqqqq")


class Head(NamedTuple):
    """What a backup is of."""

    page_size: int
    uuid: bytes
    base: int
    version: int
    page: int
    words: int
    top: int


def write(handle: Handle, out: IO[bytes], since: int | None) -> int:
    """See Store.backup. O(pages of the version)."""
    with newest(handle) as snapshot:
        if since is not None and not 0 <= since <= snapshot.version:
            raise VersionError(f"there is no version {since} to go on from; the newest is {snapshot.version}")
        version = snapshot._version
        meta = handle.meta
        base = FULL if since is None else since
        head = Head(meta.page_size, meta.uuid, base, version.version, *version.run, handle.state.commit.top)
        out.write(MAGIC)
        write_block(out, b"HEAD", _HEAD.pack(*head))
        ids = _reached(handle, snapshot)
        words = snapshot.pages.words.reshape(-1, snapshot.pages.page_words)
        ids = ids[words[ids, BIRTH] > base]
        for first in range(0, len(ids), BLOCK_PAGES):
            part = ids[first : first + BLOCK_PAGES]
            data = struct.pack("<q", len(part)) + part.tobytes() + words[part].tobytes()
            write_block(out, b"PAGE", data)
        write_block(out, b"DONE", struct.pack("<q", len(ids)))
        return version.version


def _reached(handle: Handle, snapshot: Snapshot) -> np.ndarray:
    """The pages of a version, ascending; each verified."""
    walk = Walk(handle.mapping)
    walk.pages = snapshot.pages
    walk.reach(snapshot._version)
    walk.long_texts(snapshot._version.trees[TEXTS.tree_id])
    if walk.violations:
        raise CorruptionError(f"the version is damaged and cannot be backed up: {walk.violations[0]}")
    return np.array(sorted(walk.owner), np.int64)


def apply(path: str | os.PathLike[str], sources: Sequence[IO[bytes]]) -> int:
    """Make a store at `path`, where no file may be, from a full backup and increments. Returns its version.

    Raises FormatError for backups that do not follow each other, CorruptionError for a cut or damaged one.
    Streams: memory is bounded by a block.
    """
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"{path} is there already; restore to another name")
    if not sources:
        raise FormatError("there is no backup to begin with; give a full one first")
    heads: list[Head] = []
    with beside(path) as building, closing(File(building, writable=True)) as file:
        for source in sources:
            heads.append(_apply_one(source, heads, file))
        _finish(file, heads[-1])
        os.link(building, path)
    return heads[-1].version


def _apply_one(source: IO[bytes], heads: list[Head], file: File) -> Head:
    """Put the pages of one backup in their places."""
    if source.read(len(MAGIC)) != MAGIC:
        raise FormatError("this is no backup, or one of another format; it should begin with 'pageBACK'")
    blocks = read_blocks(source, KINDS, "backup")
    kind, data = next(blocks)
    if kind != b"HEAD":
        raise CorruptionError(f"the backup begins with a block {kind!r}; make it again")
    head = Head(*_HEAD.unpack(data))
    _check_place(head, heads)
    count = 0
    for kind, data in blocks:
        (n,) = struct.unpack_from("<q", data)
        if kind == b"DONE":
            if n != count:
                raise CorruptionError(f"the backup holds {count} pages and says {n}")
            break
        for i, page in enumerate(struct.unpack_from(f"<{n}q", data, 8)):
            at = 8 + 8 * n + i * head.page_size
            file.pwrite(data[at : at + head.page_size], page * head.page_size)
        count += n
    return head


def _check_place(head: Head, heads: list[Head]) -> None:
    """Raises FormatError for a backup that does not follow those before it."""
    if heads and head.uuid != heads[0].uuid:
        raise FormatError(f"the backup of version {head.version} is of another store than the one before it")
    if head.base != (heads[-1].version if heads else FULL):
        is_ = "is a full one" if head.base == FULL else f"goes on from version {head.base}"
        place = f"cannot follow version {heads[-1].version}" if heads else "cannot come first"
        remedy = "give one full backup, then its increments in order"
        raise FormatError(f"the backup of version {head.version} {is_} and {place}: {remedy}")


def _finish(file: File, head: Head) -> None:
    """Write a state around the one version, and the meta slots."""
    file.fallocate(0, head.top * head.page_size)
    mapping = Mapping(file, head.page_size)
    mapping.cover(head.top)
    version = load_version(mapping, Run(head.page, head.words), {}, head.version)
    walk = Walk(mapping)
    walk.reach(version)
    walk.long_texts(version.trees[TEXTS.tree_id])
    if walk.violations:
        raise CorruptionError(f"the backup is not whole: {walk.violations[0]}")
    made = Commit.decode(mapping.read_run(version.run))
    record = Commit(
        made.sequence + 1, version.version, 1, timestamp=version.timestamp, last_version=version.version,
        next_tree=made.next_tree, next_branch=made.next_branch, next_text=made.next_text,
        system=roots_of({spec.tree_id: version.trees[spec.tree_id] for spec in (TEXTS, PLACES)}),
        branches=flat([MAIN_ID, version.version, *version.run, NO_ORIGIN]),
        recent=flat([version.version, *version.run, version.timestamp, MAIN_ID]),
        added=flat([page for page in range(FIRST_PAGE, head.top) if page not in walk.owner]),
    )  # fmt: skip
    run, page_words = Run(head.top, record.length()), head.page_size // WORD
    record.top = head.top + len(run.ids(page_words))
    file.write_pages(*pages_of_run(run, record.encode(), version.version, COMMIT, page_words), page_words)
    slot = Meta(head.page_size, head.uuid, record.sequence, version.version, *run, record.top, True).pack()
    for at in range(2):
        file.pwrite(slot, SLOT_SIZE * at)
    file.fdatasync()
