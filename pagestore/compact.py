"""Making a store as small as its content: pages that `bulk` fills, at the front of the file.

Every tree is built anew, bottom-up, by ordinary commits: first behind all other pages, so that the front is
empty when the versions before are dropped, then at the front; then the file is cut. Readers go on: what they
read stays where it is, and the file is cut behind it. Meanwhile the file grows by the size of its content.
"""

from typing import TYPE_CHECKING, NamedTuple

from .dictionary import PLACES, TEXTS
from .pager import NO_ORIGIN, STORE_LINEAGE
from .tree import bulk, pages_of, scan

if TYPE_CHECKING:
    from .store import Store


class Compact(NamedTuple):
    """Sizes of the file in bytes before and after."""

    before: int
    after: int


def run(store: "Store") -> Compact:
    """See Store.compact."""
    before = store._file.size()
    space = store._ledger.pager.space
    for appending in (True, False):
        store.vacuum(keep_versions=1)
        space.appending = appending
        try:
            for branch in store.branches:
                _rewrite(store, branch)
        finally:
            space.appending = False
    store.vacuum(keep_versions=1)
    return Compact(before, store._file.size())


def _rewrite(store: "Store", branch: str) -> None:
    """One commit that holds what the one before held, in other places."""
    store._ledger.pager.give_back()
    with store.transaction("compact", branch) as txn:
        txn.dictionary.move_long()
        for tree_id, tree in list(txn._trees.items()):
            if not tree.root:
                continue
            shared = tree_id in (TEXTS.tree_id, PLACES.tree_id)
            lineage, origin = (STORE_LINEAGE, NO_ORIGIN) if shared else (txn.pager.lineage, txn.pager.origin)
            with txn.pager.of(lineage, origin):
                txn._trees[tree_id] = bulk(txn.pager, tree.spec, scan(txn.pages, tree))
                txn.pager.retire_pages(pages_of(txn.pages, tree))
        txn._rewrite_catalog = True
