"""The turn of a transaction that any process may make, since it is given as data: a call.

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
from functools import partial
from typing import Any, Self

from pagestore.relations.prepared import settle, withdraw
from pagestore.versions.catalog import MAIN
from pagestore.versions.handle import Handle
from pagestore.versions.locks import Writer
from pagestore.versions.offers import PARTS_MAX, PLACES, Offer, Offered
from pagestore.versions.series import Edit

CALL = ""  # stands for the name of a relation, which is never empty


class Turn:
    """A thread's turn to write, for one transaction."""

    outcome: int | None = None  # of the call, in bits, if another process has made it
    _taken: Sequence[Offered] = ()

    def __init__(self, store: Any, call: list[Edit], may: bool) -> None:
        """Take a store, and what is to be made; `may` says whether another process may do it."""
        handle: Handle = store._handle
        self._handle = handle
        shared = handle.mode != "r" and handle.open and store._branch == MAIN
        offers = handle.committer.offers if shared else None
        has_place = offers and (offers.place or (not handle.is_alone() and offers.open()))
        self._offers = offers if has_place else None
        fits = may and len(call) <= PARTS_MAX
        self._writer = Writer(Offer(CALL, CALL, call, lambda: fits))

    def __enter__(self) -> Self:
        handle, writer, offers = self._handle, self._writer, self._offers
        if not offers:
            return self
        offers.resume()
        try:
            handle.writers.take(writer, None, handle.committer.flush)
            if writer.shown and not writer.joint.number:
                settle(handle, writer)
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
        if handle.kept is self._writer:
            handle.kept = None
        handle.committer.taking = None
        handle.writers.give_back(self._writer)
        if kind:
            offers.stop()
        elif self.outcome is None:
            offers.made(self._taken)
            offers.lead()
        offers.rest()
