"""A store in memory: the newest commit's state, and single versions.

Which versions a commit drops: those beyond the newest N of its branch that nothing needs.
"""

from array import array
from collections.abc import Container, Sequence
from typing import NamedTuple

from pagestore.errors import CorruptionError
from pagestore.pages.layout import (
    BIRTH_AT,
    FIRST_PAGE,
    HEIGHT_MAX,
    PAGE_MASK,
    RECORDS_A_WORD,
    Pages,
)
from pagestore.storage.kernels.record import HEIGHT_BITS
from pagestore.storage.mapping import Mapping, Run
from pagestore.storage.meta import Meta
from pagestore.storage.pager import NO_ORIGIN
from pagestore.storage.records import WordList, rows, word_list
from pagestore.trees.tree import Spec, Tree
from pagestore.values.dictionary import PLACES, TEXT_TREES
from pagestore.versions.catalog import FIRST_TREE, MAIN_ID, RETAIN_ALL, Catalog, Settings
from pagestore.versions.commit_record import Commit
from pagestore.versions.version_table import DEAD, VERSION_TREE, Entry, VersionTable

# versions share those of texts
SYSTEM = {**TEXT_TREES, **{spec.tree_id: spec for spec in (VERSION_TREE, DEAD)}}
HEIGHTS = (1 << HEIGHT_BITS) - 1


class Version(NamedTuple):
    """One version: its trees by id (including the dictionary's) and its catalog."""

    version: int
    branch: int
    parent: int
    timestamp: int
    message: str
    run: Run
    trees: dict[int, Tree]
    catalog: Catalog


class Head(NamedTuple):
    """A branch's newest version, the run of its record, and where the branch began."""

    version: int
    run: Run
    origin: int = NO_ORIGIN


class StoreState(NamedTuple):
    """The content of the newest commit. Immutable: a commit makes the next state."""

    sequence: int
    last_version: int
    next_tree: int
    next_branch: int
    next_text: int
    heads: dict[int, Head]
    versions: VersionTable
    system: dict[int, Tree]
    settings: Settings
    commit: Commit
    run: Run

    @property
    def place(self) -> tuple[int, int, int]:
        """What tells this commit from others, as `Meta.place` does."""
        return self.sequence, *self.run

    @property
    def texts_removed(self) -> int:
        """The number of texts removed from the dictionary: all ids given, minus the texts in it."""
        return self.next_text - 1 - self.system[PLACES.tree_id].count


def load_state(mapping: Mapping, meta: Meta, lenient: bool = False) -> StoreState:
    """Load the state that a meta slot points to; if `lenient`, a new store's settings replace
    unreadable ones.

    Raises CorruptionError.
    """
    mapping.cover(meta.top)
    run = Run(meta.state, meta.words)
    commit = Commit.read(mapping, run)
    if commit.sequence != meta.sequence:
        raise CorruptionError(
            f"the record of commit {commit.sequence} is in place of {meta.sequence}", page=run.page
        )
    system = trees_of(commit.system, SYSTEM, mapping)
    heads = {
        branch: Head(version, Run(page, words), origin)
        for branch, version, page, words, origin in rows(commit.branches, 5)
    }
    try:
        if commit.settings.page:
            settings = Settings.decode(mapping.read_run(commit.settings))
        else:
            settings = Settings()
    except CorruptionError:
        if not lenient:
            raise
        settings = Settings()
    known = {*settings.branches.values()}
    if not (known == heads.keys() or (lenient and known <= heads.keys())) or commit.top != meta.top:
        raise CorruptionError(
            "the newest commit does not say where the branches are, or how many pages there are"
        )
    recent = [*map(Entry.of, rows(commit.recent, 5))]
    return StoreState(
        commit.sequence, commit.last_version, commit.next_tree, commit.next_branch,
        commit.next_text, heads, VersionTable(recent, commit.recent, system[VERSION_TREE.tree_id]),
        system, settings, commit, run,
    )  # fmt: skip


def load_version(
    mapping: Mapping, run: Run, catalogs: dict[tuple[Run, int], Catalog], version: int
) -> Version:
    """Load the version whose record is a run. `catalogs` caches catalogs by place and birth.

    Raises CorruptionError, also for the record of another version.
    """
    commit = Commit.read(mapping, run, version)
    catalog = load_catalog(mapping, commit.catalog, catalogs)
    specs = {info.spec.tree_id: info.spec for info in catalog.relations.values()}
    if not all(spec.fits(mapping.pages.page_words) for spec in specs.values()):
        raise CorruptionError(
            "the catalog says what cannot be: records that pages do not hold", page=catalog.run.page
        )
    trees = trees_of(commit.roots, specs, mapping)
    trees |= trees_of(
        word_list(*(row for row in rows(commit.system, 4) if row[0] in TEXT_TREES)),
        TEXT_TREES,
        mapping,
    )
    return Version(
        commit.version,
        commit.branch,
        commit.parent,
        commit.timestamp,
        commit.message,
        run,
        trees,
        catalog,
    )


def load_catalog(mapping: Mapping, run: Run, catalogs: dict[tuple[Run, int], Catalog]) -> Catalog:
    """Return the catalog in a run, from a cache by place and birth if it is there."""
    if not run.page:
        return Catalog()
    # its pages may have held another catalog of that length before
    key = run, mapping.birth_of(run.page)
    if key not in catalogs:
        catalogs[key] = Catalog.decode(mapping.read_run(run), run)
    return catalogs[key]


def trees_of(words: WordList, specs: dict[int, Spec], mapping: Mapping) -> dict[int, Tree]:
    """Return trees by id from rows (tree, root, height and birth, count); a tree without a row is
    empty.

    Raises CorruptionError for an impossible row.
    """
    trees = {tree_id: Tree.empty(spec) for tree_id, spec in specs.items()}
    top = len(mapping.pages.seen)
    most = top * RECORDS_A_WORD * mapping.pages.page_words
    for tree_id, root, word, count in rows(words, 4):
        height, birth = word & HEIGHTS, word >> HEIGHT_BITS
        if not (
            tree_id in specs
            and FIRST_PAGE <= root < top
            and 0 < height <= HEIGHT_MAX
            and 0 < count <= most
        ):
            fact = f"there can be no tree {tree_id} of height {height} with {count} records and root {root}"
            raise CorruptionError(fact)
        trees[tree_id] = Tree.at(root, height, count, specs[tree_id], birth)
    return trees


def roots_of(trees: dict[int, Tree], others: Container[int] = ()) -> WordList:
    """Return the rows of the trees that are not empty, without some others."""
    words: list[int] = []
    for tree_id, (pointer, height, count, _) in trees.items():
        if pointer and tree_id not in others:
            words += (
                tree_id,
                pointer & PAGE_MASK,
                height | pointer >> BIRTH_AT << HEIGHT_BITS,
                count,
            )
    return array("q", words)


FIRST_COMMIT = Commit(0, 0, branch=MAIN_ID, next_tree=FIRST_TREE)


# versions dropped at a time from the version tree, since each batch rewrites pages of it
OLD_BATCH = 32
# other versions dropped at a time, since a drop takes locks and reads a neighbour; at most half of
# `retain`
BATCH = 8


def needed_versions(state: StoreState) -> set[int]:
    """Return the versions that must not be dropped: tagged, a branch's newest or origin."""
    versions = set(state.settings.tags.values())
    for head in state.heads.values():
        versions |= {head.version, head.origin}
    return versions


def batch_of(retain: int) -> int:
    """Return how many versions are dropped at a time, at least, if `retain` are kept."""
    return OLD_BATCH if retain > OLD_BATCH else max(1, min(BATCH, retain // 2))


def older_than_shown(oldest: Sequence[Entry], newest: int, shown: int) -> Sequence[Entry]:
    """Return those of a branch's oldest versions after which it has another one up to `shown`, the
    version that the newest slot leads to: others read that until there is a newer slot.  `newest` is
    the branch's newest version.
    """
    if newest <= shown:
        return oldest
    return [entry for entry in oldest if entry.version <= shown][:-1]


def excess_versions(state: StoreState, pages: Pages, branch: int) -> list[Entry]:
    """Return a branch's versions beyond the newest `retain`, with one being made; oldest first, []
    until a batch.

    O(1) mostly, O(versions) if there are several branches.
    """
    retain, versions = state.settings.retain, state.versions
    if retain == RETAIN_ALL or versions.tree.count + len(versions.recent) < retain:
        return []
    batch = batch_of(retain)
    if len(versions) - retain + 1 < batch:
        return []
    entries = versions.entries(pages)
    if len(state.heads) > 1:
        entries = [entry for entry in entries if entry.branch == branch]
    beyond = len(entries) - retain + 1
    if beyond < batch:
        return []
    kept = needed_versions(state)
    doomed = [entry for entry in entries[:beyond] if entry.version not in kept]
    if not versions.tree.count:
        return doomed
    first_recent = versions.recent[0].version if versions.recent else 0
    old = sum(entry.version < first_recent for entry in doomed)
    return doomed if old >= OLD_BATCH else doomed[old:]
