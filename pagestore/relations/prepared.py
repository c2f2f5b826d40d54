"""Edits of one relation that are collected without a lock, and then committed as one transaction.

put = store.prepare("edge")
put.insert(1, 2)                  keeps the row; nothing is looked up or encoded
put.delete(2, 3)
put.commit()                      begins a transaction, edits, commits: the lock is held for this only
"""

import asyncio
from collections.abc import Callable
from typing import Any

INSERT, DELETE, SET = "insert", "delete", "set"


class Prepared:
    """Collected edits; `commit` makes them one transaction, in their order, and begins anew."""

    def __init__(self, begin: Callable[[], Any], edit: Callable[[Any, str, list[tuple[Any, ...]]], None]) -> None:
        """`begin` begins a transaction, and `edit` makes its edits of one kind, a method of a relation."""
        self._begin, self._edit = begin, edit
        self._runs: list[tuple[str, list[tuple[Any, ...]]]] = []  # rows that follow each other with one action
        self._action = ""

    def __len__(self) -> int:
        """Return how many edits are collected."""
        return sum(len(rows) for _, rows in self._runs)

    def insert(self, *row: Any) -> None:
        """Collect the insertion of a row. O(1)."""
        self._rows_of(INSERT).append(row)

    def delete(self, *row: Any) -> None:
        """Collect the deletion of a row, or of a key. O(1)."""
        self._rows_of(DELETE).append(row)

    def set(self, *row: Any) -> None:
        """Collect the insertion of a row in place of the values of its key. O(1)."""
        self._rows_of(SET).append(row)

    def _rows_of(self, action: str) -> list[tuple[Any, ...]]:
        if action != self._action:
            self._action = action
            self._runs.append((action, []))
        return self._runs[-1][1]

    def clear(self) -> None:
        """Forget the edits."""
        self._runs, self._action = [], ""

    def commit(self) -> int:
        """Commit the edits as one version and return it; the newest one if there are none.

        After an error the store is unchanged, and the edits are still collected. Raises as a transaction's methods.
        """
        runs = self._runs
        with self._begin() as txn:
            for action, rows in runs:
                self._edit(txn, action, rows)
            version: int = txn.commit()
        if self._runs is runs:
            self.clear()
        return version

    async def commit_async(self) -> int:
        """Commit the edits collected so far in a thread; more may be collected meanwhile, for the next commit."""
        taken = Prepared(self._begin, self._edit)
        taken._runs = self._runs
        self.clear()
        try:
            return await asyncio.to_thread(taken.commit)
        except BaseException:
            self._runs, self._action = taken._runs + self._runs, ""  # as `commit` leaves them
            raise
