"""Opening a file: find the newest intact commit, and report what was wrong with others.

A fallback is never silent: `store.recovery` reports it, and is None after a clean close.

What can be read from the file may not be on the disk: a process that died may have written and not
synced, and a failed sync may have left pages that count as written and are not. So after anything
but a clean close, a writer first writes the newest commit again and syncs it, before it uses a page
that this commit freed (`make_durable`). If the failed sync covered more than one commit, the slot
says so, and all pages of the file are written again.

A slot is smaller than a disk sector, so no crash leaves half of one: an unreadable slot was
damaged. If it was the newer one, its commit's record, which was written before it, is still in the
file; all pages are searched for it. If there is none, or its pages are not intact, the other slot
was the newer one.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from pagestore.errors import CorruptionError, FormatError
from pagestore.pages.layout import (
    ENTRY_COUNT,
    FIRST_PAGE,
    HEADER,
    ID,
    PAGE_SIZE_MAX,
    PAGE_SIZE_MIN,
    RUN,
    TYPE,
    WORD,
    page_type_fields,
)
from pagestore.storage.file import File
from pagestore.storage.kernels.record import COMMIT
from pagestore.storage.mapping import Mapping, Run, page_fault
from pagestore.storage.meta import SIZE, SLOT_SIZE, Meta, slot_of, sync_all, unpack
from pagestore.storage.records import rows
from pagestore.trees.read import read_batches
from pagestore.values.dictionary import Dictionary
from pagestore.versions.commit_record import Commit, checksum_of
from pagestore.versions.store_state import StoreState, load_state, load_version

OTHER = "name a file that pagestore.open, pagestore load or ivm install has made"

TRIES, PAUSE = 3, 0.001  # how often, and after how many seconds, an unreadable slot is read again
AT_ONCE = 1 << 20  # bytes that are written again at a time


class Recovery(NamedTuple):
    """What opening found: the version in use, whether the store was closed cleanly, and a
    sentence for each problem.
    """

    version: int
    closed: bool
    problems: tuple[str, ...]

    def __str__(self) -> str:
        if self.closed:
            how = "was closed cleanly"
        else:
            how = "was not closed; nothing acknowledged is missing"
        if self.problems:
            how = "; ".join(self.problems)
        return f"version {self.version}: {how}"


def read_slots(file: File) -> list[Meta | str]:
    """Return both meta slots, or for each what is wrong with it."""
    for _ in range(TRIES):
        slots = [unpack(file.pread(SIZE, SLOT_SIZE * slot)) for slot in range(2)]
        if all(isinstance(slot, Meta) for slot in slots):
            break
        time.sleep(PAUSE)  # a writer may be writing it
    return slots


def newest_meta(file: File) -> Meta | None:
    """Return the newest readable slot; of two with the same commit the one in doubt."""
    slots = [slot for slot in read_slots(file) if isinstance(slot, Meta)]
    return max(slots, key=lambda slot: (slot.sequence, slot.in_doubt), default=None)


def recover(file: File, page_size: int | None) -> tuple[Meta, StoreState, Mapping, Recovery | None]:
    """Return the newest commit whose record can be read. Raises FormatError, CorruptionError if
    there is none.

    A writer may commit meanwhile: if the slots have changed, apparent damage is read again.
    """
    while True:
        slots = read_slots(file)
        try:
            newest = _newest_whole(file, slots, page_size)
        except CorruptionError:
            if read_slots(file) == slots:
                raise
        else:
            recovery = newest[3]
            if recovery is None or not recovery.problems or read_slots(file) == slots:
                return newest


def _newest_whole(
    file: File, slots: list[Meta | str], page_size: int | None
) -> tuple[Meta, StoreState, Mapping, Recovery | None]:
    """Return what `recover` does, for these slots."""
    metas = sorted((meta for meta in slots if isinstance(meta, Meta)), key=lambda m: -m.sequence)
    if not metas:
        raise _not_a_store(file, slots)
    if page_size is not None and page_size != metas[0].page_size:
        raise FormatError(
            f"{file.path} has pages of {metas[0].page_size} bytes, not {page_size}; leave "
            f"page_size out"
        )
    problems = [
        f"meta slot {i} does not read ({slot})"
        for i, slot in enumerate(slots)
        if isinstance(slot, str)
    ]
    if problems and (lost := _without_slot(file, metas[0])):
        problems[0] += (
            f"; commit {lost[1].sequence}, which it said is the newest, was found in the file"
        )
        return *lost, Recovery(lost[0].version, False, tuple(problems))
    for meta in metas:
        try:
            mapping = Mapping(file, meta.page_size)
            state = load_state(mapping, meta)
            if not meta.clean:
                verify(mapping, state)
            break
        except CorruptionError as error:
            problems.append(
                f"commit {meta.sequence} (version {meta.version}) is not whole: {error}"
            )
    else:
        said = "; ".join(dict.fromkeys(problems))
        raise CorruptionError(
            f"{file.path}: no commit reads: {said}; pagestore fsck --salvage OUT saves what reads"
        )
    recovery = Recovery(meta.version, meta.clean, tuple(problems))
    return meta, state, mapping, None if meta.clean and not problems else recovery


def _without_slot(file: File, older: Meta) -> tuple[Meta, StoreState, Mapping] | None:
    """Find the commit after that of the only readable slot in the file; return None if it is not
    intact. O(store).
    """
    mapping = Mapping(file, older.page_size)
    mapping.cover(file.size() // older.page_size)
    # the last of those that shared a sync
    for _, meta in sorted(_commits(mapping, older.uuid), reverse=True):
        if meta.sequence > older.sequence:
            with suppress(CorruptionError):
                state = load_state(mapping, meta)
                verify(mapping, state)
                _read_all(mapping, state)
                mapping.forget()
                return meta, state, mapping
    return None


def _read_all(mapping: Mapping, state: StoreState) -> None:
    """Read each branch's newest version, and the store's own trees. Raises CorruptionError."""
    if state.commit.checkpoint.page:
        mapping.read_run(state.commit.checkpoint)
    trees = {*state.system.values()}
    for head in state.heads.values():
        version = load_version(mapping, head.run, {}, head.version)
        trees.update(version.trees.values())
        for _, page, words in Dictionary(
            lambda: mapping.pages, version.trees, mapping
        ).long_texts():
            mapping.read_run(Run(page, words))
    for tree in trees:
        for _ in read_batches(mapping.pages, tree) if tree.root else ():
            pass


def make_durable(mapping: Mapping, state: StoreState, meta: Meta, both: bool) -> None:
    """Write the newest commit again, and sync it.

    With sync="full" all but the slot was synced before the slot was written; after a failed sync of
    several commits each page is in doubt. If the other slot is not intact, `both` slots then lead
    to the commit. Raises OSError.
    """
    write_again(mapping, state, meta.in_doubt)  # also pages of commits that others show
    sync_all(mapping.file, meta)
    slot, number = meta._replace(clean=False, in_doubt=False).pack(), slot_of(meta.sequence)
    for at in (number, 1 - number) if both else (number,):
        mapping.file.pwrite(slot, SLOT_SIZE * at)
        sync_all(mapping.file, meta)


def write_again(mapping: Mapping, state: StoreState, every: bool = False) -> None:
    """Write again what a commit's record lists, since it may not be on the disk, or every page."""
    file, size = mapping.file, mapping.page_size
    extents = [*rows(state.commit.written, 2), (state.run.page, len(state.run.ids(size // WORD)))]
    for first, count in [(FIRST_PAGE, file.size() // size - FIRST_PAGE)] if every else extents:
        for at in range(first * size, (first + count) * size, AT_ONCE):
            file.pwrite(file.pread(min(AT_ONCE, (first + count) * size - at), at), at)


def search(file: File) -> tuple[Meta, StoreState, Mapping, Recovery]:
    """Find the newest commit record in a file whose meta slots cannot be used.

    For salvage only: reads every page, accepts a truncated file, and needs no settings. Raises
    CorruptionError if there is none.
    """
    size = PAGE_SIZE_MIN
    while size <= PAGE_SIZE_MAX:
        mapping = Mapping(file, size, whole=False)
        mapping.cover(file.size() // size)
        for _, meta in sorted(_commits(mapping, bytes(16)), key=lambda commit: -commit[1].sequence):
            with suppress(CorruptionError):
                state = load_state(mapping, meta, lenient=True)
                how = f"no meta slot leads to a whole commit; commit {meta.sequence} was found by reading every page"
                return meta, state, mapping, Recovery(meta.version, False, (how,))
        size *= 2
    raise CorruptionError(
        f"{file.path}: there is no commit record that reads; nothing can be salvaged"
    )


def _commits(mapping: Mapping, uuid: bytes) -> Iterator[tuple[int, Meta]]:
    """Yield the time of each commit record in a file, and the meta slot that leads to it."""
    words, seen, page_words = mapping.pages
    for page in range(FIRST_PAGE, len(seen)):
        head = words[page * page_words : page * page_words + HEADER]
        if head[ID] != page or page_type_fields(int(head[TYPE])) != (RUN, 0, 0, 0, COMMIT):
            continue
        count, last = 0, page
        while (
            last < len(seen)
            and words[last * page_words + ENTRY_COUNT] == (page_words - HEADER) * WORD
        ):
            count, last = count + page_words - HEADER, last + 1
        run = Run(
            page,
            count
            + (int(words[last * page_words + ENTRY_COUNT]) // WORD if last < len(seen) else 0),
        )
        with suppress(CorruptionError):
            of = Commit.decode(mapping.read_run(run))
            about = uuid, of.sequence, of.last_version, *run, of.top, False
            yield of.timestamp, Meta(mapping.page_size, *about)


def verify(mapping: Mapping, state: StoreState) -> None:
    """Check the pages of a commit that may have reached the disk after its slot (sync="commit")."""
    ids = [
        page
        for first, count in rows(state.commit.written, 2)
        for page in range(first, first + count)
    ]
    words, page_words = mapping.pages.words, mapping.pages.page_words
    for page in ids:
        fault = page_fault(words[page * page_words : (page + 1) * page_words], page)
        if fault:
            raise CorruptionError(fault, page=page)
    if checksum_of(mapping, np.array(ids, np.int64)) != state.commit.checksum:
        raise CorruptionError("its pages are not the ones that were written")


def _not_a_store(file: File, slots: list[Meta | str]) -> Exception:
    """Return the error that says what kind of file this is, as far as its bytes show."""
    newer = [slot for slot in slots if isinstance(slot, str) and slot.startswith("format")]
    if newer:
        return FormatError(
            f"{file.path} is a store of {newer[0]}; use the library that wrote it, or dump and "
            f"restore"
        )
    if file.size() < 2 * SLOT_SIZE:
        return FormatError(
            f"{file.path} is not a store: it has {file.size()} bytes, too few; {OTHER}"
        )
    if all(slot == "bad magic" for slot in slots):
        return FormatError(
            f"{file.path} is not a store: it begins with {file.pread(8, 0)!r}; {OTHER}"
        )
    return CorruptionError(
        f"{file.path}: neither meta slot reads ({slots[0]}; {slots[1]}); "
        "pagestore fsck --salvage OUT saves what reads"
    )
