"""Make a store as small as its content: pages filled by `bulk`, at the front of the file.

Every tree is rebuilt, bottom-up, by ordinary commits: first after all other pages, so that the front is
empty when the versions before are dropped, then at the front; then the file is cut. Readers go on: what they
read stays where it is, and the file is cut after it. Meanwhile the file grows by the size of its content.
"""

from typing import NamedTuple

from pagestore.admin.unused_texts import remove_unused_texts
from pagestore.admin.vacuum import drop_versions
from pagestore.relations.transaction import begin_transaction
from pagestore.storage.pager import NO_ORIGIN, STORE_LINEAGE
from pagestore.trees.bulk import bulk
from pagestore.trees.reading import pages_of, read_batches
from pagestore.values.dictionary import TEXT_TREES
from pagestore.versions.handle import Handle


class Compact(NamedTuple):
    """Sizes of the file in bytes before and after."""

    before: int
    after: int


def compact_store(handle: Handle) -> Compact:
    """See Store.compact."""
    before = handle.file.size()
    space = handle.committer.pager.free_list
    _vacuum(handle)
    remove_unused_texts(handle, "compact")
    for appending in (True, False):
        space.appending = appending
        try:
            for branch in handle.state.settings.branches:
                _rewrite(handle, branch)
        finally:
            space.appending = False
        _vacuum(handle)
    return Compact(before, handle.file.size())


def _vacuum(handle: Handle) -> None:
    """Drop all versions but those that must stay, and cut the file."""
    with handle.administering():
        drop_versions(handle, keep_versions=1, drop=None, dry_run=False)


def _rewrite(handle: Handle, branch: str) -> None:
    """Make a commit with the content of the one before, in other places."""
    with begin_transaction(handle, "compact", branch) as txn:
        txn.vouch()
        txn.pager.give_back()  # not earlier: another thread's transaction may be handing them out
        txn.dictionary.move_long()
        for tree_id, tree in list(txn._trees.items()):
            if not tree.root:
                continue
            shared = tree_id in TEXT_TREES
            lineage, origin = (STORE_LINEAGE, NO_ORIGIN) if shared else (txn.pager.lineage, txn.pager.origin)
            with txn.pager.retiring_into(lineage, origin):
                txn._trees[tree_id] = bulk(txn.pager, tree.spec, read_batches(txn.pages, tree))
                txn.pager.retire_pages(pages_of(txn.pages, tree))
        txn._rewrite_catalog = True
