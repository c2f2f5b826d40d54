"""A transaction over a snapshot that is never committed; users call it a sketch.

It begins at any version, in a store opened for reading too, and takes no writer's lock: its pages are in a temporary
file that extends the store's (storage/overlay_file.py). Queries are answered in one.
"""

from datetime import datetime

from pagestore.errors import TransactionError
from pagestore.pages.page_map import Pages
from pagestore.relations.snapshot import Snapshot, newest_snapshot, snapshot_at
from pagestore.relations.transaction import Transaction
from pagestore.storage.free_list import FreeList
from pagestore.storage.mapping import Mapping
from pagestore.storage.overlay_file import OverlayFile
from pagestore.storage.pager import STORE_LINEAGE, Pager
from pagestore.versions.handle import Handle
from pagestore.versions.store_state import StoreState
from pagestore.versions.turns import Turn


class EphemeralTransaction(Transaction):
    """A transaction that leaves nothing behind at its end. Use it in `with`, or roll it back.

    >>> import pagestore, tempfile
    >>> store = pagestore.open(tempfile.mkdtemp() + "/graph.pages")
    >>> with store.transaction() as txn:
    ...     txn.create("edge", "x: int64, y: int64").insert([(1, 2), (2, 3)])
    >>> with store.sketch() as sketch:
    ...     sketch["edge"].insert([(3, 4)])
    ...     len(sketch["edge"]), len(store.snapshot()["edge"])
    (3, 2)
    >>> len(store.snapshot()["edge"])
    2
    >>> store.close()
    """

    def __init__(self, snapshot: Snapshot, state: StoreState):
        self._snapshot = snapshot
        pages, base = snapshot.pages, snapshot._version
        page_size = 8 * pages.page_words
        self._overlay = OverlayFile(snapshot._handle.file, page_size)
        mapping, end = Mapping(self._overlay, page_size), self._overlay.end // page_size
        mapping.cover(end)
        known = min(end, len(pages.seen))
        mapping.pages.seen[:known] = pages.seen[:known]
        pager = Pager(mapping, FreeList(end), snapshot.threads)
        pager.begin(base.version + 1, STORE_LINEAGE, base.version)
        self._turn = Turn()
        self._begin(pager, base, dict(base.trees), state, {}, 0)

    @property
    def pages(self) -> Pages:
        """The page map, for kernels. Raises ClosedError once the snapshot or its store is closed."""
        _ = self._snapshot.pages
        return super().pages

    def commit(self) -> int:
        """Raise TransactionError."""
        raise TransactionError("a sketch is never committed; make the changes in store.transaction()")

    def rollback(self) -> None:
        """Discard all changes, and release the version. Idempotent."""
        if self._open:
            self._let_go()
            self._overlay.close()
            self._snapshot.close()

    def __enter__(self) -> "EphemeralTransaction":
        return self

    def __exit__(self, *_: object) -> None:
        self.rollback()


def begin_ephemeral(handle: Handle, version: int | str | datetime | None) -> EphemeralTransaction:
    """See Store.sketch."""
    snapshot = newest_snapshot(handle) if version is None else snapshot_at(handle, version)
    try:
        return EphemeralTransaction(snapshot, handle.state)
    except BaseException:
        snapshot.close()
        raise
