"""Which versions a commit drops: those beyond the newest N of its branch that nothing needs."""

from pagestore.pages.page_map import Pages
from pagestore.versions.settings import RETAIN_ALL
from pagestore.versions.store_state import StoreState
from pagestore.versions.version_table import Entry

OLD_BATCH = 32  # versions dropped at a time from the version tree, since each batch rewrites pages of it
BATCH = 8  # other versions dropped at a time, since a drop takes locks and reads a neighbour; at most half of `retain`


def needed_versions(state: StoreState) -> set[int]:
    """Return the versions that must not be dropped: tagged, a branch's newest, or a branch's origin."""
    versions = set(state.settings.tags.values())
    for head in state.heads.values():
        versions |= {head.version, head.origin}
    return versions


def excess_versions(state: StoreState, pages: Pages, branch: int) -> list[Entry]:
    """Return a branch's versions beyond the newest `retain`, with one being made; oldest first, [] until a batch.

    O(1) mostly, O(versions) if there are several branches.
    """
    retain, versions = state.settings.retain, state.versions
    batch = OLD_BATCH if retain > OLD_BATCH else max(1, min(BATCH, retain // 2))
    if retain == RETAIN_ALL or len(versions) - retain + 1 < batch:
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
