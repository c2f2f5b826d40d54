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
from pagestore.versions.catalog import MAIN_ID, Info
from pagestore.versions.handle import Handle
from pagestore.versions.hosts import is_followed
from pagestore.versions.locks import Writer
from pagestore.versions.series import Series, Short, may_begin
from pagestore.versions.store_state import Version
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


class PreparedSeries(Prepared):
    """Collected edits of the main branch, which are commits of a series where that is possible."""

    host = ""  # the host that maintains, in the same commits, what follows from the edits; "" for none

    def __init__(
        self, store: Any, relation: str, begin: Callable[[], Any],
        edit: Callable[[Any, str, list[tuple[Any, ...]]], None],
    ) -> None:  # fmt: skip
        """Take a store, the name of its relation, and the arguments of `Prepared`."""
        super().__init__(self._begin_noted, edit)
        self._begin_transaction = begin
        self._handle: Handle = store._handle
        self._relation = relation
        self._subject: object = relation  # what a series is of, with all that decides how it commits
        self._misses = self._pause = 0  # commits that no series could make since one did; transactions before another

    def _short(self, head: Version, info: Info) -> Short | None:
        """Return how a series commits edits of integers after a version, which a transaction has made for these.

        None if a transaction must do it.
        """
        queues = self._handle.committer.queues
        if queues is None:
            return None
        return Short(queue_of(queues, info.spec, info.name), 0, NONE_CHECKED, FLUSH.call, (0,))

    def commit(self) -> int:
        """Commit as the next of a series, if the edits and the store are fit for it; else by a transaction."""
        handle, edits, version = self._handle, self._edits, 0
        if handle.mode == "r":
            return super().commit()
        committer = handle.committer
        if (
            (committer.series or committer.prepared)
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
                    if series and series.subject == self._subject and series.queues.put(edits, series.group):
                        try:
                            version = series.commit() or 0
                        except BaseException as error:
                            if series.fail(error):
                                raise
                        self._misses = 0 if version else self._misses + 1
                        number = committer.made
            finally:
                handle.writers.give_back(writer)
        if not version:
            return super().commit()
        if committer.durable < number:
            self._complete(number, version)
        if self._edits is edits:
            self._edits = []
        return version

    def _begin_noted(self) -> Any:
        """Begin a transaction, from whose commit a series may go on; later, where several were of no use."""
        txn, committer = self._begin_transaction(), self._handle.committer
        if self._pause:
            self._pause -= 1
        else:
            committer.prepared = self._subject, committer.state.last_version + 1
            self._pause = (1 << min(self._misses, 6)) - 1
        return txn

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
        """Begin a series after a commit that was made here, too, if nothing is in the way."""
        committer, handle = self._handle.committer, self._handle
        noted, committer.prepared = committer.prepared, None
        if noted != (self._subject, committer.state.last_version) or committer.state is not handle.state:
            return None
        head = handle.head(MAIN_ID)
        info = head.catalog.relations.get(self._relation)
        fits = info and may_begin(committer) and has_plain_rows(info) and not is_followed(head.catalog, self.host)
        short = self._short(head, info) if info and fits else None
        if short is None:
            self._misses += 1
            return None
        committer.series = series = Series(committer, self._subject, short, head.trees)
        return series


def has_plain_rows(info: Info) -> bool:
    """Return whether the rows of a relation are its records as they are: integers in the order of their columns."""
    spec, schema = info.spec, info.schema
    if schema is None or info.bag or spec.columns > NARROW:
        return False
    return schema.plain and schema.in_order and spec.columns == len(schema.columns)
