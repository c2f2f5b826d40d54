"""Edits of one relation that are collected without a lock, and then committed as one transaction.

put = store.prepare("edge")
put.insert(1, 2)                  keeps the row; nothing is looked up or encoded
put.delete(2, 3)
put.commit()                      begins a transaction, edits, commits: the lock is held for this only

A few rows of integers need no transaction if the commits before them were like this one, too (versions/series.py).
"""

import asyncio
from collections.abc import Callable
from itertools import groupby
from logging import DEBUG
from operator import itemgetter
from typing import Any

from pagestore.runtime import reports
from pagestore.trees.edit import FLUSH
from pagestore.trees.kernels.node_buffer import ERASE, INSERT, SET
from pagestore.versions.catalog import MAIN_ID
from pagestore.versions.handle import Handle
from pagestore.versions.hosts import is_followed
from pagestore.versions.locks import Writer
from pagestore.versions.series import Series, may_begin
from pagestore.versions.working_trees import NARROW, NONE_CHECKED, SINGLE, queue_of

ACTIONS = {INSERT: "insert", ERASE: "delete", SET: "set"}

Edit = tuple[int, tuple[Any, ...]]


class Prepared:
    """Collected edits; `commit` makes them one transaction, in their order, and begins anew."""

    def __init__(self, begin: Callable[[], Any], edit: Callable[[Any, str, list[tuple[Any, ...]]], None]) -> None:
        """`begin` begins a transaction, and `edit` makes its edits of one kind, a method of a relation."""
        self._begin, self._edit = begin, edit
        self._edits: list[Edit] = []

    def __len__(self) -> int:
        """Return how many edits are collected."""
        return len(self._edits)

    def insert(self, *row: Any) -> None:
        """Collect the insertion of a row. O(1)."""
        self._edits.append((INSERT, row))

    def delete(self, *row: Any) -> None:
        """Collect the deletion of a row, or of a key. O(1)."""
        self._edits.append((ERASE, row))

    def set(self, *row: Any) -> None:
        """Collect the insertion of a row in place of the values of its key. O(1)."""
        self._edits.append((SET, row))

    def clear(self) -> None:
        """Forget the edits."""
        self._edits = []

    def commit(self) -> int:
        """Commit the edits as one version and return it; the newest one if there are none.

        After an error the store is unchanged, and the edits are still collected. Raises as a transaction's methods.
        """
        edits = self._edits
        version = self._commit(edits)
        if self._edits is edits:
            self._edits = []
        return version

    def _commit(self, edits: list[Edit]) -> int:
        """Commit edits by a transaction."""
        with self._begin() as txn:
            for action, run in groupby(edits, itemgetter(0)):
                self._edit(txn, ACTIONS[action], [row for _, row in run])
            version: int = txn.commit()
        return version

    async def commit_async(self) -> int:
        """Commit the edits collected so far in a thread; more may be collected meanwhile, for the next commit."""
        taken = self._edits
        self._edits = []
        try:
            return await asyncio.to_thread(self._commit, taken)
        except BaseException:
            self._edits = taken + self._edits  # as `commit` leaves them
            raise


class PreparedRows(Prepared):
    """Collected edits of a relation of a store's main branch."""

    def __init__(
        self, handle: Handle, relation: str, begin: Callable[[], Any],
        edit: Callable[[Any, str, list[tuple[Any, ...]]], None],
    ) -> None:  # fmt: skip
        super().__init__(begin, edit)
        self._handle, self._relation = handle, relation
        self._newest = -1  # the version that a transaction made last for this

    def commit(self) -> int:
        """Commit as the next of a series, if the edits and the store are fit for it; else by a transaction."""
        handle, edits, committer = self._handle, self._edits, self._handle.committer
        version: int | None = None
        if (
            (committer.series or self._newest >= 0)
            and handle.open
            and 0 < len(edits) <= SINGLE
            and reports.metric is None
            and not reports.COMMIT.isEnabledFor(DEBUG)
        ):
            writer = Writer()
            handle.writers.take(writer, None, committer.flush)
            try:
                with committer.lock:
                    series: Any = committer.series or self._begin_series()
                    if series and series.subject == self._relation and series.queues.put(edits, series.keys):
                        try:
                            version = series.commit(FLUSH.call, 0)
                        except BaseException as error:
                            if series.fail(error):
                                raise
                        number = committer.made
            finally:
                handle.writers.give_back(writer)
        if version is None:
            self._newest = super().commit()
            return self._newest
        if committer.durable < number:
            self._complete(number, version)
        if self._edits is edits:
            self._edits = []
        return version

    def _complete(self, number: int, version: int) -> None:
        """Return once a commit is durable; an exception that comes in between, such as an interrupt, gets a note."""
        try:
            self._handle.complete(number)
        except BaseException as error:
            if not self._handle.committer.cause:
                self._handle.complete(number)
                error.add_note(f"the transaction was committed, as version {version}")
            raise

    def _begin_series(self) -> Series | None:
        """Begin a series after a commit that was made here, too, of plain integers that nothing depends on."""
        committer, handle = self._handle.committer, self._handle
        newest, self._newest = self._newest, -1
        if committer.state.last_version != newest or committer.state is not handle.state or not may_begin(committer):
            return None
        head = handle.head(MAIN_ID)
        info, queues = head.catalog.relations.get(self._relation), committer.queues
        if info is None or info.schema is None or queues is None or is_followed(head.catalog):
            return None
        spec, schema = info.spec, info.schema
        whole = schema.plain and schema.in_order and not info.bag and spec.columns == len(schema.columns)
        if not whole or spec.columns > NARROW:
            return None
        queue, trees = queue_of(queues, spec, info.name), [head.trees[spec.tree_id]]
        committer.series = series = Series(committer, self._relation, queue, trees, NONE_CHECKED)
        return series
