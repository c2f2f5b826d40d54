"""Edits of one relation that are collected without a lock, and then committed as one transaction.

put = store.prepare("edge")
put.insert(1, 2)                  keeps the row; nothing is looked up or encoded
put.delete(2, 3)
put.commit()                      begins a transaction, edits, commits: the lock is held for this only

A few rows without new texts need no transaction if the commits before them were like this one, too
(versions/series.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from itertools import groupby
from logging import DEBUG
from operator import itemgetter
from typing import Any

import numpy as np

from pagestore.errors import PagestoreError
from pagestore.relations.turn import take_turn, withdraw
from pagestore.runtime import reports
from pagestore.trees.edit import FLUSH
from pagestore.trees.kernels.node_buffer import ERASE, INSERT, SET
from pagestore.values.codec import NULL, narrowed, word_of_value
from pagestore.values.dictionary import Dictionary
from pagestore.values.types import Column
from pagestore.versions.catalog import MAIN_ID, Info
from pagestore.versions.handle import Handle
from pagestore.versions.hosts import is_followed
from pagestore.versions.locks import Writer
from pagestore.versions.offers import Joint, Offer
from pagestore.versions.series import NAMED, Edit, Series, Short, may_begin
from pagestore.versions.store_state import Version
from pagestore.versions.working_trees import NARROW, NONE_CHECKED, SINGLE, queue_of

ACTIONS = {INSERT: "insert", ERASE: "delete", SET: "set"}
USEFUL = 4  # commits of a series that make up for beginning it
PAUSES = 6  # at most 2^PAUSES - 1 transactions come before the next series
TEXTS_CACHED = 1 << 14
# classes of values that become the same words alone and together
ALIKE = int, float, bool, date, str, bytes


class Prepared:
    """Collected edits; `commit` makes them one transaction, in their order, and begins anew."""

    def __init__(
        self, begin: Callable[[], Any], edit: Callable[[Any, str, list[tuple[Any, ...]]], None]
    ) -> None:
        """`begin` begins a transaction, `edit` makes edits of a kind, a method of a relation."""
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

        After an error the store is unchanged, and the edits are still collected. Raises as a
        transaction's methods.
        """
        edits = self._edits
        version = self._commit(edits)
        if self._edits is edits:
            self._edits = []
        return version

    def _commit(self, edits: list[Edit]) -> int:
        """Commit edits by a transaction: actions of the host, each with a row or a key to erase."""
        with self._begun() as txn:
            for action, run in groupby(edits, itemgetter(0)):
                self._edit(txn, ACTIONS[action], [row for _, row in run])
            version: int = txn.commit()
        return version

    def _begun(self) -> Any:
        return self._begin()

    async def commit_async(self) -> int:
        """Commit the edits collected so far in a thread; more may be collected meanwhile, for
        the next commit.
        """
        taken = self._edits
        self._edits = []
        try:
            return await asyncio.to_thread(self._commit, taken)
        except BaseException:
            self._edits = taken + self._edits  # as `commit` leaves them
            raise


class PreparedSeries(Prepared):
    """Collected edits of the main branch, which are commits of a series where that is possible."""

    # the host that maintains, in the same commits, what follows from the edits; "" for none
    host = ""

    def __init__(
        self,
        store: Any,
        relation: str,
        begin: Callable[[], Any],
        edit: Callable[[Any, str, list[tuple[Any, ...]]], None],
    ) -> None:
        """Take a store, the name of its relation, and the arguments of `Prepared`."""
        super().__init__(begin, edit)
        self._handle: Handle = store._handle
        self._relation = relation
        # what a series is of, with all that decides how it commits
        self._subject: object = relation
        self._made = 0  # commits of the newest series that was begun here
        # series that were of no use since one was; transactions before another
        self._misses = self._pause = 0

    def _short(self, head: Version, info: Info) -> Short | None:
        """Return how a series commits edits after a version, which a transaction has made for
        these.

        None if a transaction must do it.
        """
        queues = self._handle.committer.queues
        if queues is None:
            return None
        words = None if info.schema and info.schema.held_as_given else self._words(info).of
        return Short(
            queue_of(queues, info.spec, info.name), 0, NONE_CHECKED, FLUSH.call, (0,), words=words
        )

    def _words(self, info: Info) -> "RowWords":
        """Return what makes words of edits of a relation, until the store has other texts."""
        committer, schema = self._handle.committer, info.schema
        mapping = committer.mapping
        texts = Dictionary(lambda: mapping.pages, committer.state.system, mapping)
        return RowWords(schema.columns if schema else (), texts)

    def _commit(self, edits: list[Edit]) -> int:
        """Commit as the next of a series, if the edits and the store are fit for it; else by a
        transaction.
        """
        handle = self._handle
        if handle.mode == "r":
            return super()._commit(edits)
        committer, offers = handle.committer, handle.committer.offers
        fits = (
            (committer.series or committer.prepared or (offers and offers.place))
            and handle.open
            and 0 < len(edits) <= SINGLE
            and reports.metric is None
            and not reports.COMMIT.isEnabledFor(DEBUG)
        )
        if not fits:
            return super()._commit(edits)
        writer = Writer(NAMED(Offer, (self._subject, self._relation, edits, self._may_be_offered)))
        try:
            take_turn(handle, writer)
            if not writer.joint.number:
                self._lead(writer, edits)
            joint = writer.joint
            if not joint.number:
                # else the transaction would wait for its turn once more
                handle.kept = writer
                if offers and offers.place:
                    offers.begin()
                return super()._commit(edits)
            handle.writers.give_back(writer)  # first: others commit while this waits for a sync
            if committer.durable < joint.number:
                handle.complete(joint.number)
            if joint.offered and offers:
                offers.made(joint.offered)
        except BaseException as error:
            handle.writers.give_back(writer)
            version = withdraw(handle, writer)
            if not committer.cause:
                # what was made is shown, so that it must be durable
                handle.complete(committer.made)
                if version:
                    error.add_note(f"the transaction was committed, as version {version}")
            raise
        finally:
            if offers and offers.place:
                offers.rest()
        return joint.version

    def _lead(self, writer: Writer, edits: list[Edit]) -> None:
        """Commit a writer's edits as the next of a series, with those of threads and processes that
        wait; its `joint` has no version if a transaction must do it.
        """
        committer, writers = self._handle.committer, self._handle.writers
        offers = self._handle.committer.offers
        with committer.lock:
            series: Any = committer.series or self._begin_series()
            if series and series.subject == self._subject:
                waiting: Sequence[Writer] = ()
                writer.joint = Joint()
                if len(writers.queue) > 1:
                    waiting = writers.joining(self._subject, SINGLE - len(edits))
                if offers and offers.place:
                    all_edits = edits, *(other.offer.edits for other in waiting if other.offer)
                    most = SINGLE - sum(map(len, all_edits))
                    writer.joint.offers = offers.of(self._relation, most)
                try:
                    series.commit(edits, waiting, writer.joint)
                except BaseException as error:
                    if series.fail(error):
                        raise
                finally:
                    if waiting:
                        writers.serve(waiting, writer.joint)
                    if offers and offers.place:
                        offers.went_on(writer.joint)
                if writer.joint.number:
                    self._made += 1
                if self._made == USEFUL:
                    self._misses = 0

    def _may_be_offered(self) -> bool:
        """Return whether another process may commit the edits."""
        return True

    def _begun(self) -> Any:
        txn = self._begin()
        self._note(txn)
        return txn

    def _note(self, txn: Any) -> None:
        """Note that a series may go on from the commit of a transaction; later, where several
        were of no use.
        """
        committer = self._handle.committer
        if self._pause:
            self._pause -= 1
        else:
            committer.prepared = self._subject, committer.state.last_version + 1
            self._pause = (1 << min(self._misses, PAUSES)) - 1

    def _begin_series(self) -> Series | None:
        """Begin a series after a commit that was made here, too, if nothing is in the way."""
        committer, handle = self._handle.committer, self._handle
        noted, committer.prepared = committer.prepared, None
        fitting = self._subject, committer.state.last_version
        if noted != fitting or committer.state is not handle.state:
            return None
        head = handle.head(MAIN_ID)
        info = head.catalog.relations.get(self._relation)
        fits = may_begin(committer) and not is_followed(head.catalog, self.host)
        short = self._short(head, info) if info and fits and has_stored_rows(info) else None
        self._made, self._misses = 0, self._misses + 1  # until the series has been of use
        if short is None:
            return None
        if committer.offers and not handle.is_alone():
            committer.offers.open()
        committer.series = series = Series(committer, self._subject, short, head.trees)
        return series


def has_stored_rows(info: Info) -> bool:
    """Return whether the values of a row are the words of its record, in this order."""
    spec, schema = info.spec, info.schema
    if schema is None or info.bag or spec.columns > NARROW:
        return False
    return schema.in_order and spec.columns == len(schema.columns)


class RowWords:
    """Rows of some columns as words, while texts are neither added to the store nor removed."""

    def __init__(self, columns: Sequence[Column], texts: Dictionary) -> None:
        self._columns, self._id_of = columns, lru_cache(TEXTS_CACHED)(texts.id_of)

    def of(self, edits: list[Edit]) -> list[Edit] | None:
        """Return edits with words for values; None for a new text, or what may be refused."""
        encoded = list[Edit]()
        for action, row in edits:
            words = self._words_of(row, len(edits) == 1)
            if words is None:
                return None
            encoded.append((action, words))
        return encoded

    def _words_of(self, row: tuple[Any, ...], alone: bool) -> tuple[int, ...] | None:
        """Return the words of a row, or of its first values; None as `of`."""
        if len(row) > len(self._columns):
            return None
        words = list[int]()
        for column, value in zip(self._columns, row, strict=False):
            if not (alone or value is None or type(value) is column.type.kind.value in ALIKE):
                return None
            if value is None and column.type.nullable:
                words.append(NULL)
                continue
            try:
                word = word_of_value(column, value, self._id_of)
                if column.narrow:
                    word = int(narrowed(column, np.array([word]))[0])
            except PagestoreError:  # a transaction raises it, with the row
                return None
            if not word and column.type.interned:
                return None
            words.append(word)
        return tuple(words)
