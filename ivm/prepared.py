"""Edits of a relation that rules read, collected and then committed together with what follows from them.

Of integers that are rows of a relation without values, and of rules whose steps a kernel takes, one commit after the
other is of a series (pagestore/versions/series.py): one call of the kernel, and no transaction.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ivm.engine.installed import Installed
from ivm.engine.schedule import Schedule, is_carried, schedule_of
from ivm.engine.stored import HOST
from ivm.transaction import NONE, Maintainer, Transaction
from pagestore.host import PreparedSeries, Short, Store

LOOK_AGAIN = 16  # commits after which sizes of relations are compared with those that plans were made for


class PreparedEdits(PreparedSeries):
    """Collected edits of a relation of a workspace."""

    host = HOST

    def __init__(self, store: Store, begin: Callable[[], Transaction], maintainer: Maintainer, name: str) -> None:
        super().__init__(store, name, self._begin_known, lambda txn, action, rows: getattr(txn, action)(name, rows))
        self._begin_by_rules, self._maintainer, self._name = begin, maintainer, name
        self._installed: Installed | None = None  # the rules of the newest transaction

    def _begin_known(self) -> Transaction:
        txn = self._begin_by_rules()
        self._installed = txn._installed
        self._subject = self._name, txn._installed
        return txn

    def _short(self, head: Any, info: Any) -> Short | None:
        """Return how a kernel commits edits and maintains all that follows from them, or None."""
        name, installed = self._name, self._installed
        if installed is None or info.spec.values or not installed.is_followed(name, info.spec):
            return None
        schedule = schedule_of(installed, frozenset([name]))
        if installed.layouts[name].bare or not is_carried(schedule, installed, head.catalog):
            return None
        work = _Work(self._maintainer, installed, schedule, name, head)
        return schedule.short(name, work.fits, work.note)


class _Work:
    """The commits of a series as its workspace sees them: whether plans still fit, and what was done."""

    def __init__(self, maintainer: Maintainer, installed: Installed, schedule: Schedule, name: str, head: Any) -> None:
        self._maintainer, self._installed, self._schedule, self._head = maintainer, installed, schedule, head
        self._names, self._gained = frozenset([name]), 0 * schedule.gains
        self._left = 1  # commits until sizes are compared again

    def fits(self) -> bool:
        """Return whether the next commit may be made without an Engine."""
        maintainer = self._maintainer
        if maintainer.subscriptions or maintainer.exceeding:
            return False
        self._left -= 1
        if self._left:
            return True
        self._left = LOOK_AGAIN
        return not self._installed.outgrown(self._names, self._counts)

    def _counts(self, names: Iterable[str]) -> list[int]:
        """Return how many rows some relations have now."""
        relations, trees, firsts = self._head.catalog.relations, self._head.trees, self._schedule.firsts
        return [
            trees[relations[name].spec.tree_id].count + (int(self._gained[firsts[name]]) if name in firsts else 0)
            for name in names
        ]

    def note(self) -> None:
        """Note the work of a commit, as that of a transaction."""
        self._gained += self._schedule.gains
        self._maintainer.carried, self._maintainer.evaluated = self._schedule, NONE
