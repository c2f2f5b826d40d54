"""Every invariant of a store, checked by name; fsck and the tests call the same code.

    meta slots       both read; after a clean close they say the same
    record           commits, catalogs, settings, merges and free lists read and point into the file
    checksum         a page's bytes are the ones that were written, and it knows its own number
    birth            no page is younger than the page or version that points to it, and it has the birth that these say
    shape            kind, level, columns and tree are what parent and catalog say; columns lie inside
    key order        keys ascend strictly within a page and from page to page
    separators       an index entry holds exactly the least key below its child
    folds            a fold in an index entry is the fold of the records below it
    scan tree        nodes of a page's ScanTree fold their entries, and siblings differ by 2 : 1 at most
    record count     a tree has as many records as its root entry says
    values           a word is one that a value of its column's type has
    page audit       every page is exactly one of: meta, free, reached by a version or the store itself
    dead lists       a page on the dead list of a version is not reached by it, and was born before it
    dictionary       texts and places are each other's inverse
    texts            a text in a column of strings is UTF-8

All violations are reported, not only the first. Pages that versions share are checked once.
O(pages).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pagestore.admin.merge import misstated
from pagestore.admin.tree_check import Violation, Walk
from pagestore.errors import CorruptionError
from pagestore.pages.layout import FIRST_PAGE
from pagestore.storage.meta import Meta
from pagestore.storage.pager import STORE_LINEAGE
from pagestore.storage.records import rows
from pagestore.values.dictionary import TEXT_TREES
from pagestore.versions.commit_record import Commit, checkpoint_of
from pagestore.versions.handle import Handle
from pagestore.versions.locks import Pin
from pagestore.versions.recovery import read_slots
from pagestore.versions.store_state import load_version
from pagestore.versions.version_table import DEAD, VERSION_TREE, DeadList, Entry, VersionTable

TRIES = 5


def check_store(handle: Handle) -> list[Violation]:
    """See Store.check."""
    again: set[tuple[str, int | None]] = set()
    for tried in range(TRIES):
        with holding_all(handle):
            sequence = handle.state.sequence
            violations = Check(handle).run()
            if not violations or handle.refresh().sequence == sequence:
                return violations
        # a writer may have reused pages while they were checked
        faults = {(v.invariant, v.page) for v in violations}
        again = again & faults if tried else faults
    return [v for v in violations if (v.invariant, v.page) in again]


@contextmanager
def holding_all(handle: Handle) -> Iterator[None]:
    """Pin all retained versions that are known, meanwhile."""
    held: dict[int, Pin] = {}
    try:
        while True:
            state = handle.refresh()
            readable = {entry.version for entry in handle.read_versions(VersionTable.readable)}
            for version in sorted(readable - held.keys()):
                if pin := handle.pin(version):
                    held[version] = pin
            if handle.refresh().sequence == state.sequence or readable <= held.keys():
                break
        yield
    finally:
        for pin in held.values():
            handle.unpin(pin)


class Check(Walk):
    """One pass over a whole store."""

    def __init__(self, handle: Handle):
        super().__init__(handle.mapping)
        self.handle = handle
        self.entries = handle.read_versions(VersionTable.readable)
        self.dead: dict[int, DeadList] = {}  # by version, if its record can be read

    def run(self) -> list[Violation]:
        """Return all violations, empty when all is well."""
        self._slots()
        state = self.handle.state
        self.run_of("the newest commit", state.run)
        self.run_of("settings", state.commit.settings)
        self.run_of("free list", state.commit.checkpoint)
        for tree_id in (VERSION_TREE.tree_id, DEAD.tree_id):
            self.tree(f"system tree {tree_id}", state.system[tree_id], state.last_version)
        for entry in self.entries:
            self._version(entry)
        self._text_trees()
        if len(self.entries) < len(state.versions):
            self._add(
                "record", None, "the history does not read, so nobody knows what its versions reach"
            )
        elif (free := self._free()) is not None:
            self._audit(free)
        return self.violations

    # --- versions -------------------------------------------------------------------------------

    def _slots(self) -> None:
        slots = read_slots(self.handle.file)
        for i, slot in enumerate(slots):
            if isinstance(slot, str):
                self._add("meta slots", i, f"slot {i} does not read: {slot}")
        metas = {i: slot for i, slot in enumerate(slots) if isinstance(slot, Meta)}
        closed = max((meta.sequence for meta in metas.values() if meta.clean), default=-1)
        for i, meta in metas.items():
            if meta.sequence < closed:
                fact = (
                    f"the store was closed after commit {closed}, and slot {i} says {meta.sequence}"
                )
                self._add("meta slots", i, fact)
        problems = self.handle.recovery.problems if self.handle.recovery else ()
        for problem in problems:
            if not problem.startswith("meta slot"):
                self._add("record", None, problem)

    def _version(self, entry: Entry) -> None:
        """Walk over all that one retained version reaches, and check that its record is its own."""
        name = f"version {entry.version}"
        try:
            self._dead_list(entry)
            version = load_version(self.mapping, entry.run, {}, entry.version)
        except (CorruptionError, ValueError) as error:
            self.run_of(f"{name}'s commit", entry.run)
            self._add(
                "record", getattr(error, "page", entry.page), f"{name} does not read: {error}"
            )
            return
        if version.branch != entry.branch:
            self._add(
                "record", entry.page, f"{name}'s record says that it is of branch {version.branch}"
            )
        if said := misstated(version.catalog, entry.version):
            self._add("record", entry.page, f"{name}: {said}")
        self.reach(version)

    def _dead_list(self, entry: Entry) -> None:
        commit = Commit.read(self.mapping, entry.run, entry.version)
        self.dead[entry.version] = commit.dead
        self.dead_list(entry.version, commit)

    def _text_trees(self) -> None:
        """Reach the dictionary of the newest commit."""
        state = self.handle.state
        for number in TEXT_TREES:
            self.tree("the dictionary", state.system[number], state.last_version)
        self.dictionary(state.system)
        self.strings()

    def _free(self) -> set[int] | None:
        """Return the free pages; None if their list cannot be read, a violation already."""
        try:
            return free_pages(self.handle)
        except CorruptionError:
            return None

    def _audit(self, free: set[int]) -> None:
        """Note pages below the top that are neither reached nor free, or both."""
        top = self.handle.state.commit.top
        for page in sorted(free & self.owner.keys()):
            self._add("page audit", page, f"it is free, and {self.owner[page]} reaches it")
        for page in sorted(page for page in free if not FIRST_PAGE <= page < top):
            self._add(
                "page audit", page, f"it is free, and the store has pages {FIRST_PAGE} to {top - 1}"
            )
        for page in sorted(page for page in self.owner if not FIRST_PAGE <= page < top):
            self._add(
                "page audit", page, f"{self.owner[page]} reaches it, beyond the store's top {top}"
            )
        waiting = self._waiting()
        for page in sorted(free & waiting):
            self._add(
                "page audit",
                page,
                "it is free, and readers of a retained version may still need it",
            )
        expected = waiting | free | self.owner.keys()
        for page in range(FIRST_PAGE, top):
            if page not in expected:
                self._add("page audit", page, "nothing reaches it, and it is not free")

    def _waiting(self) -> set[int]:
        """Return the dead pages that some retained version still needs."""
        state = self.handle.state
        waiting = set(state.commit.dead[1::3]) if state.commit.administrative else set()
        return waiting | self._needed_by_lineage()

    def _needed_by_lineage(self) -> set[int]:
        """Return the store's own pages that a reader of a retained version may still read."""
        state = self.handle.state
        needed = set(self._all(state.system[DEAD.tree_id])[2].tolist())
        before = -1
        for entry in self.entries:
            dead = rows(self.dead.get(entry.version, ()), 3)
            needed |= {
                page
                for lineage, page, birth in dead
                if lineage == STORE_LINEAGE and birth <= before
            }
            before = entry.version
        return needed


def free_pages(handle: Handle) -> set[int]:
    """Return all pages that are free in the newest commit."""
    commit = handle.state.commit
    return {*checkpoint_of(handle.mapping, commit).tolist(), *commit.added}.difference(
        commit.removed
    )
