"""A writer's turn to commit: it is waited for, and what other processes have made of the writer's
offer is found out.

And the turn of a transaction that any process may make, since it is given as data: a call.

    turn = Turn(store, call, may)
    with turn:                            waits for the turn, or until another process has made it
        if turn.outcome is None:
            with store.transaction() as txn:
                for offered in turn.calls():    what other processes wait for
                    ...                         is made, too; or `turn.refuse`: it is left to them
                turn.take(all that is made)

An offer's edits are a call's (versions/offers.py); the first says what the others are given to.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Self

from pagestore.errors import PagestoreError, TransactionError
from pagestore.versions.catalog import MAIN
from pagestore.versions.handle import Handle
from pagestore.versions.locks import Writer
from pagestore.versions.offers import FOLDER, PARTS_MAX, PLACES, Joint, Offer, Offered, Offers
from pagestore.versions.series import Edit
from pagestore.versions.version_table import VersionTable

CALL = ""  # stands for the name of a relation, which is never empty
WITHDRAWING = 2.0  # seconds that an interrupted commit waits to learn whether it was made


def take_turn(handle: Handle, writer: Writer) -> None:
    """Wait for a writer's turn to commit, and hold the lock; its `joint` has a number instead if
    another thread or process has committed what it offers.

    Raises as `settle`, and TransactionError if this thread has a transaction open.
    """
    offers = handle.committer.offers
    if offers and offers.place:
        offers.resume()
    handle.writers.take(writer, None, handle.committer.flush)
    if writer.shown and not writer.joint.number:
        settle(handle, writer)


def settle(handle: Handle, writer: Writer) -> None:
    """Find out whether another process has committed what a writer offered, which holds the lock;
    withdraw it if not. Raises TransactionError if nobody can know that any more.
    """
    offers = handle.committer.offers
    assert offers
    taken, said = offers.taken(), offers.version()
    offers.withdraw()
    writer.shown = False
    if said:
        writer.joint = Joint.elsewhere(said)
    if said or not (taken and taken[0]):
        return
    handle.check_turn()
    handle.committer.flush()
    version, timestamp = taken
    entry = handle.read_versions(VersionTable.find, version)
    if entry is not None and entry.timestamp == timestamp:
        writer.joint = Joint.elsewhere(version)
    elif entry is None and version <= handle.state.last_version:
        raise TransactionError(
            f"another process was to commit these edits as version {version} and did not say that "
            f"it has, and one that does not see {FOLDER} has dropped that version: read whether "
            f"the rows are there, and repeat the edits if not"
        )


def withdraw(handle: Handle, writer: Writer) -> int:
    """Offer a writer's edits no longer, and return the version that has them; 0 if none has."""
    writer.over = True
    with handle.committer.lock:  # whoever takes them in has it until that is done
        version = writer.joint.version
    if writer.shown and not version:
        with suppress(PagestoreError), handle.writing(WITHDRAWING):
            settle(handle, writer)
        if writer.shown and handle.committer.offers:
            handle.committer.offers.withdraw()  # another process may be committing it
    return writer.joint.version


def _offers_of(store: Any) -> Offers | None:
    """Return the offers of the processes that write to a store; None if this one is alone, or does
    not share syncs with others.
    """
    handle: Handle = store._handle
    shared = handle.mode != "r" and handle.open and store._branch == MAIN
    offers = handle.committer.offers if shared else None
    return (
        offers if offers and (offers.place or (not handle.is_alone() and offers.open())) else None
    )


class Turn:
    """A thread's turn to write, for one transaction."""

    outcome: int | None = None  # of the call, in bits, if another process has made it
    _taken: Sequence[Offered] = ()

    @staticmethod
    def is_shared(store: Any) -> bool:
        """Return whether other processes write to a store, which may make each other's calls."""
        return _offers_of(store) is not None

    def __init__(self, store: Any, call: list[Edit], may: bool) -> None:
        """Take a store, and what is to be made; `may` says whether another process may do it."""
        self._handle: Handle = store._handle
        self._offers = _offers_of(store)
        fits = may and len(call) <= PARTS_MAX
        self._writer = Writer(Offer(CALL, CALL, call, lambda: fits))

    def __enter__(self) -> Self:
        handle, writer, offers = self._handle, self._writer, self._offers
        if not offers:
            return self
        try:
            take_turn(handle, writer)
        except BaseException as error:
            if version := withdraw(handle, writer):
                error.add_note(f"the transaction was committed, as version {version}")
            handle.writers.give_back(writer)
            raise
        if writer.joint.number:
            self.outcome = offers.outcome()
        else:
            handle.kept = writer
        return self

    def calls(self) -> list[Offered]:
        """Return what other processes wait for; only in the transaction."""
        return self._offers.of(CALL, PLACES * PARTS_MAX) if self._offers else []

    def refuse(self, offered: Offered) -> None:
        """Leave a call to its process; only in the transaction."""
        assert self._offers
        self._offers.refuse([offered])

    def take(self, made: list[Offered]) -> None:
        """Say which calls the transaction makes, with what comes of each; only in it."""
        if offers := self._offers:
            self._taken = made
            self._handle.committer.taking = partial(offers.take, made)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        handle, offers = self._handle, self._offers
        if not offers:
            return
        handle.committer.taking = None
        handle.writers.give_back(self._writer)
        if kind:
            offers.stop()
        elif self.outcome is None:
            offers.made(self._taken)
            offers.lead()
        offers.rest()
