"""Backups: the pages of one version as a stream, taken while others read and write.

A backup is "pageBACK", a format number, and blocks as in a dump:

    HEAD   record      page size, uuid, base version (-1 for a full backup), version, its record's run, top, base commit
    PAGE   pages       ids (count, then int64 each), ascending, then the pages
    DONE   record      the number of pages

A full backup holds all pages that the newest version reaches, an incremental one those born after
the base. Applying a full backup and the increments after it, in order, gives a store with that one
version, byte for byte the same pages. An increment names the commit that it continues from by a
digest of its record, since diverged copies of one store have versions of the same numbers
(docs/decisions/0024-increments.md).
"""

import os
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from hashlib import blake2b
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from pagestore.admin.framing import Block, read_blocks, read_bytes, write_block
from pagestore.admin.tree_check import Walk
from pagestore.errors import CorruptionError, FormatError, VersionError
from pagestore.pages.layout import BIRTH, FIRST_PAGE, PAGE_MASK, PAGE_SIZE_MAX, PAGE_SIZE_MIN, WORD
from pagestore.relations.snapshot import Snapshot, newest_snapshot, snapshot_at
from pagestore.storage.file import File, beside, local_path, neighbours, read_from, sync_folder
from pagestore.storage.kernels.record import COMMIT
from pagestore.storage.mapping import Mapping, Run, extents_of, page_fault, pages_of_run
from pagestore.storage.meta import SLOT_SIZE, Meta
from pagestore.storage.pager import NO_ORIGIN
from pagestore.storage.records import FREE, RecordWriter, rows, word_list
from pagestore.values.codec import YEARS
from pagestore.values.dictionary import TEXT_TREES, TEXTS
from pagestore.versions.catalog import FIRST_TREE, MAIN_ID, RELATION_TREE_END
from pagestore.versions.commit_record import Commit
from pagestore.versions.handle import Handle
from pagestore.versions.store_state import Version, load_version, roots_of

FULL = -1  # the base of a full backup
NAME, FORMAT = b"pageBACK", 3
# in format 1 increments did not name the commit before, in format 2 no text was packed
NAMELESS, PLAIN = 1, 2
MAGIC = NAME + struct.pack("<I", FORMAT)
KINDS = b"HEAD", b"PAGE", b"DONE"
BLOCK_PAGES = 256
DIGEST = 16  # bytes
NO_COMMIT = bytes(DIGEST)
NUMBERS_MAX = 1 << 48  # above the numbers of versions, texts and branches
FILE_MAX = 1 << 44  # bytes of a store; ext4 holds no larger file
# a backup's `top` is SPAN_MIN at most, or SPAN for each page held
SPAN_MIN, SPAN = 1 << 24, 1 << 16
DENSE = 16  # up to DENSE pages below `top` for each page held, the file gets room for all pages
_NAMED = struct.Struct(f"<q16sqqqqq{DIGEST}s")
_HEADS = {NAMELESS: struct.Struct("<q16sqqqqq"), PLAIN: _NAMED, FORMAT: _NAMED}
_NUMBER = struct.Struct("<q")


class BackupHead(NamedTuple):
    """The head of a backup: what it is a backup of."""

    page_size: int
    uuid: bytes
    base: int
    version: int
    page: int
    words: int
    top: int
    commit: bytes | None = None  # digest of the commit that it continues from

    @property
    def run(self) -> Run:
        """Return the run with the commit's record."""
        return Run(self.page, self.words)


class Applied(NamedTuple):
    """A backup whose pages have been written in place, and the commit that they hold."""

    head: BackupHead
    commit: bytes
    pages: int


def write_backup(handle: Handle, out: IO[bytes], since: int | str | None) -> int:
    """See Store.backup. O(pages of the version)."""
    with ExitStack() as held:
        snapshot = held.enter_context(newest_snapshot(handle))
        version, meta = snapshot._version, handle.meta
        base, commit = FULL, NO_COMMIT
        if since is not None:
            before = held.enter_context(_base(handle, since, version.version))
            base, commit = before.version, _commit_at(handle.mapping, before._version.run)
        top = handle.state.commit.top
        ids = _reached(handle, snapshot)
        if top > _span(len(ids)):
            raise FormatError(
                f"{len(ids)} pages of {top} are too few for a backup; compact the store, or take a "
                f"dump"
            )
        out.write(MAGIC)
        head = BackupHead(
            meta.page_size, meta.uuid, base, version.version, *version.run, top, commit
        )
        write_block(out, b"HEAD", _NAMED.pack(*head))
        words = snapshot.pages.words.reshape(-1, snapshot.pages.page_words)
        ids = ids[words[ids, BIRTH] > base]
        for first in range(0, len(ids), BLOCK_PAGES):
            part = ids[first : first + BLOCK_PAGES]
            write_block(
                out, b"PAGE", _NUMBER.pack(len(part)) + part.tobytes() + words[part].tobytes()
            )
        write_block(out, b"DONE", _NUMBER.pack(len(ids)))
        return version.version


def _base(handle: Handle, since: int | str, newest_version: int) -> Snapshot:
    """Return a snapshot that an increment continues from. Raises VersionError, MissingError."""
    try:
        base = snapshot_at(handle, since)
    except VersionError as error:
        remedy = "take a full backup, and tag its version to keep it for the next increment"
        raise VersionError(
            f"{error}; an increment goes on from a version that exists: {remedy}"
        ) from None
    if base._version.branch != MAIN_ID or base.version > newest_version:
        base.close()
        raise VersionError(
            f"version {base.version} is none of the main branch, which is what a backup holds"
        )
    return base


def _commit_at(mapping: Mapping, run: Run) -> bytes:
    """Return the digest of the commit whose record is in a run. Raises CorruptionError."""
    return blake2b(mapping.read_run(run).tobytes(), digest_size=DIGEST).digest()


def _reached(handle: Handle, snapshot: Snapshot) -> np.ndarray:
    """Return the pages of a version, ascending; each verified."""
    walk = Walk(handle.mapping)
    walk.pages = snapshot.pages
    walk.reach(snapshot._version)
    walk.long_texts(snapshot._version.trees[TEXTS.tree_id])
    if walk.violations:
        raise CorruptionError(
            f"the version is damaged and cannot be backed up: {walk.violations[0]}"
        )
    return np.array(sorted(walk.owner), np.int64)


def _span(pages: int) -> int:
    """Return the greatest `top` for a store that uses `pages` pages: opening it takes memory for
    all pages below.
    """
    return max(SPAN_MIN, SPAN * pages)


# --- applying -----------------------------------------------------------------------------------


def restore_backup(
    path: str | os.PathLike[str], sources: Sequence[IO[bytes] | str | os.PathLike[str]]
) -> int:
    """Make a store at `path`, which must not exist, from a full backup and increments, as binary
    streams or files.

    Returns its version.

    Raises FormatError for backups that do not follow each other, CorruptionError for a cut or
    damaged one, or one that holds what no store would; then no file is left. Memory is bounded by a
    block, and a few bytes a page.
    """
    path = Path(local_path(path))
    if path.exists():
        raise FileExistsError(f"{path} already exists; restore to another name")
    if not sources:
        raise FormatError("there is no backup to begin with; give a full one first")
    done: list[Applied] = []
    with beside(path) as building:
        with closing(File(building, writable=True)) as file:
            for source in sources:
                with read_from(source) as stream:
                    done.append(_apply_one(stream, done, file))
            _finish(file, done)
        os.link(building, path)
        sync_folder(path)
    return done[-1].head.version


def _apply_one(source: IO[bytes], before: Sequence[Applied], file: File) -> Applied:
    """Verify the pages of one backup and write them in place."""
    number = _format(source)
    blocks = read_blocks(source, KINDS, "backup")
    head = _head(next(blocks), number)
    _check_place(head, before, number)
    count, last = 0, FIRST_PAGE - 1
    for block in blocks:
        if block.kind == b"DONE":
            (said,) = block.numbers(_NUMBER)
            if said != count:
                raise block.damaged(f"it holds {count} pages and says {said}")
            break
        ids, pages = _pages(block, head, last)
        for begin, end in neighbours(ids):
            file.pwrite(pages[begin:end], int(ids[begin]) * head.page_size)
        count, last = count + len(ids), int(ids[-1])
    try:
        commit = _commit_at(Mapping(file, head.page_size), head.run)
    except CorruptionError as error:
        raise CorruptionError(
            f"the backup of version {head.version} lacks its commit: {error}"
        ) from None
    return Applied(head, commit, count)


def _format(source: IO[bytes]) -> int:
    """Return the number of a backup's format. Raises FormatError."""
    magic = read_bytes(source, len(MAGIC))
    if not magic.startswith(NAME) or len(magic) < len(MAGIC):
        raise FormatError("this is not a backup; it should begin with 'pageBACK'")
    number: int = struct.unpack_from("<I", magic, len(NAME))[0]
    if number not in _HEADS:
        raise FormatError(
            f"this is a backup of format {number}, and this library reads format {FORMAT}"
        )
    return number


def _head(block: Block, number: int) -> BackupHead:
    """Return the head of a backup. Raises CorruptionError."""
    if block.kind != b"HEAD":
        raise block.damaged("HEAD belongs there")
    head = BackupHead(*block.numbers(_HEADS[number]))
    size, top = head.page_size, head.top
    if not PAGE_SIZE_MIN <= size <= PAGE_SIZE_MAX or size & (size - 1):
        raise block.damaged(f"there are no pages of {size} bytes")
    if not FULL <= head.base <= head.version < NUMBERS_MAX or head.version < 0:
        raise block.damaged(f"there is no version {head.version} that goes on from {head.base}")
    if not FIRST_PAGE < top <= FILE_MAX // size:
        raise block.damaged(f"there is no store of {top} pages")
    if not 0 < head.run.length < top * size or not FIRST_PAGE <= head.page <= top - len(
        head.run.ids(size // WORD)
    ):
        raise block.damaged(
            f"a record of {head.words} words at page {head.page} is not among the {top} pages"
        )
    return head


def _check_place(head: BackupHead, before: Sequence[Applied], number: int) -> None:
    """Raise FormatError for a backup that does not follow those before it."""
    name = f"the backup of version {head.version}"
    remedy = "give one full backup, then its increments in order"
    if before and (head.uuid, head.page_size) != (before[0].head.uuid, before[0].head.page_size):
        raise FormatError(f"{name} is of another store than the one before it")
    if head.base != (before[-1].head.version if before else FULL):
        is_ = "is a full one" if head.base == FULL else f"goes on from version {head.base}"
        place = (
            f"cannot follow version {before[-1].head.version}" if before else "cannot come first"
        )
        raise FormatError(f"{name} {is_} and {place}: {remedy}")
    if before and number == NAMELESS:
        fact = "is an increment of format 1, which does not say from which commit it goes on"
        raise FormatError(
            f"{name} {fact}; restore it with the library that wrote it, or take a full backup"
        )
    if before and head.commit != before[-1].commit:
        said, have = (commit.hex() for commit in (head.commit or b"", before[-1].commit))
        fact = f"goes on from commit {said} of version {head.base}, and the backup before it holds commit {have}"
        raise FormatError(
            f"{name} {fact}: they are of copies of the store that went different ways; {remedy}"
        )


def _pages(block: Block, head: BackupHead, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids int64[n] and pages int64[n, W] of a block, the first above `last`. Raises
    CorruptionError.
    """
    if block.kind != b"PAGE":
        raise block.damaged("PAGE belongs there")
    with block.reading():
        (n,) = _NUMBER.unpack_from(block.data)
        if n < 1 or len(block.data) != WORD + n * (WORD + head.page_size):
            raise ValueError(f"it says that it holds {n} pages, and has {len(block.data)} bytes")
        words = np.frombuffer(block.data, np.int64)
        ids, pages = words[1 : 1 + n], words[1 + n :].reshape(n, -1)
        if ids[0] <= last or (np.diff(ids) <= 0).any() or ids[-1] >= head.top:
            raise ValueError(f"its pages do not ascend from {last + 1} to {head.top - 1}")
        for page, content in zip(ids.tolist(), pages, strict=True):
            fault = page_fault(content, page)
            if fault:
                raise ValueError(f"page {page}: {fault}")
            if not head.base < content[BIRTH] <= head.version:
                raise ValueError(f"page {page} was born in version {content[BIRTH]}")
    return ids, pages


def _finish(file: File, done: Sequence[Applied]) -> None:
    """Verify all that is in the pages, write a commit for the one version, and the meta slots."""
    head, held = done[-1].head, sum(applied.pages for applied in done)
    if head.top > _span(held):
        raise CorruptionError(
            f"the backup says that the store has {head.top} pages, and holds {held}"
        )
    mapping = Mapping(file, head.page_size)
    _make_room(file, head.top * head.page_size, dense=head.top <= DENSE * held)
    mapping.cover(head.top)
    version, made, reached, next_text = _verified(mapping, head)
    page_words, free = head.page_size // WORD, np.ones(head.top, bool)
    free[:FIRST_PAGE] = free[reached] = False
    extents = extents_of(np.flatnonzero(free))
    checkpoint = RecordWriter(FREE)
    checkpoint.put_list(word_list(extents), 2)
    place = Run(head.top, len(checkpoint.words))
    file.write_pages(
        *pages_of_run(place, checkpoint.words, version.version, FREE, page_words), page_words
    )
    record = Commit(
        made.sequence + 1,
        version.version,
        1,
        timestamp=version.timestamp,
        last_version=version.version,
        next_tree=made.next_tree,
        next_branch=made.next_branch,
        next_text=next_text,
        checkpoint=place,
        system=roots_of({number: version.trees[number] for number in TEXT_TREES}),
        branches=word_list([MAIN_ID, version.version, *version.run, NO_ORIGIN]),
        recent=word_list([version.version, *version.run, version.timestamp, MAIN_ID]),
    )
    run = Run(place.ids(page_words).stop, record.length())
    record.top = run.ids(page_words).stop
    file.write_pages(
        *pages_of_run(run, record.encode(), version.version, COMMIT, page_words), page_words
    )
    slot = Meta(
        head.page_size, head.uuid, record.sequence, version.version, *run, record.top, True
    ).pack()
    for at_ in range(2):
        file.pwrite(slot, SLOT_SIZE * at_)
    file.fdatasync()


def _make_room(file: File, size: int, dense: bool) -> None:
    """Extend a file to a size, with holes unless `dense`: few bytes may demand terabytes."""
    if dense:
        file.fallocate(0, size)
    elif file.size() < size:
        file.truncate(size)


def _verified(mapping: Mapping, head: BackupHead) -> tuple[Version, Commit, list[int], int]:
    """Return the version in the pages, its commit's record, the pages that it reaches, the id of
    the next text.

    Raises CorruptionError for what no store would have written.
    """
    try:
        version = load_version(mapping, head.run, {}, head.version)
        made = Commit.decode(mapping.read_run(head.run))
    except CorruptionError as error:
        raise CorruptionError(f"the backup is not whole: {error}") from None
    walk = Walk(mapping)
    walk.reach(version)
    texts = walk.dictionary(version.trees)
    walk.dead_list(version.version, made)
    if walk.violations:
        raise CorruptionError(f"the backup is not whole: {walk.violations[0]}")
    faults = [*_faults(made, version, head, walk.owner.keys(), texts)]
    if faults:
        raise CorruptionError(f"the backup's version {head.version} cannot be: {faults[0]}")
    return version, made, sorted(walk.owner), texts + 1


def _faults(
    made: Commit, version: Version, head: BackupHead, reached: Collection[int], texts: int
) -> Iterator[str]:
    """Yield a sentence for each other fault of a commit's record."""
    if max(reached) >= head.top:
        yield f"it reaches page {max(reached)} of {head.top}"
    if (made.version, made.branch, made.administrative) != (head.version, MAIN_ID, 0):
        yield f"its record is of version {made.version} on branch {made.branch}"
    if not 0 <= made.sequence < NUMBERS_MAX or not 0 <= made.timestamp <= YEARS["timestamp"][1]:
        yield f"it is commit {made.sequence}, of time {made.timestamp}"
    if not MAIN_ID < made.next_branch < NUMBERS_MAX:
        yield f"the next branch would be number {made.next_branch}"
    if not max([FIRST_TREE - 1, *version.trees]) < made.next_tree <= RELATION_TREE_END:
        yield f"the next tree would be number {made.next_tree}"
    if not texts < made.next_text or not 0 <= texts < NUMBERS_MAX:
        yield f"the next text would be number {made.next_text}, and there is text {texts}"
    for _, page, birth in rows(made.dead, 3):
        # a file may be cut
        if not FIRST_PAGE <= page <= PAGE_MASK or page in reached or not 0 <= birth < made.version:
            yield f"it says that it replaced page {page} of version {birth}"
