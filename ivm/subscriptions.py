"""Subscriptions: functions to call after a commit with a view's changes, as an Arrow table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ivm.lang.ir import Predicate
from ivm.names import declared_name
from ivm.views.delta import Delta
from pagestore.host import INSERT, Snapshot, differing, row_changes, sort_order

if TYPE_CHECKING:
    import pyarrow as pa

OnChange = Callable[["pa.Table"], None]


class Subscriptions:
    """Functions to call after commits, by view.  Iterating gives the names of views that have
    subscribers.

    A relation's name stands for all its rows, also those that follow from rules, as long as it has
    any.

    Threads may begin and end subscriptions while another thread commits.
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[object, OnChange]] = {}
        self._guard = threading.RLock()

    def __iter__(self) -> Iterator[str]:
        with self._guard:
            return iter([*self._of])

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and declared_name(name) in self._of

    def add(self, name: str, on_change: OnChange) -> Callable[[], None]:
        """Subscribe to a view; return a function that ends the subscription."""
        subscription = object()
        with self._guard:
            self._of.setdefault(name, {})[subscription] = on_change

        def end() -> None:
            """End the subscription; a second call does nothing."""
            with self._guard:
                left = self._of.get(name, {})
                left.pop(subscription, None)
                if not left:
                    self.drop(name)

        return end

    def drop(self, name: str) -> None:
        """End all subscriptions of a view."""
        with self._guard:
            self._of.pop(name, None)

    def tell(self, tables: Mapping[str, pa.Table]) -> None:
        """Pass each subscriber the changes of its view; if some raise, raise the first error after
        all were called.

        The list is made before the first call, since a subscriber may subscribe or uninstall.
        """
        with self._guard:
            told = [
                (name, on_change)
                for name in tables
                for on_change in self._of.get(name, {}).values()
            ]
        failures = []
        for name, on_change in told:
            try:
                on_change(tables[name])
            except Exception as error:
                error.add_note(
                    f"raised by a subscriber of {name}: the changes that it received are "
                    f"committed, and stay"
                )
                failures.append(error)
        if failures:
            raise failures[0]


def changes(snap: Snapshot, predicate: Predicate, delta: Delta, texts: pa.Array | None) -> pa.Table:
    """Return the changes of a predicate as a table: its columns, and `_change_type` insert or
    delete.

    `texts` are the values of a concat, None for others.
    """
    import pyarrow as pa

    names = predicate.columns
    if snap[predicate.name].info.bag:
        order = sort_order(delta.rows[:-1])
        delta = Delta(*row_changes(delta.actions[order], delta.rows.take(order, axis=1)))
        names = names[:-1]
    columns = zip(predicate.stored_types[: len(names)], delta.rows, strict=True)
    arrays = [snap.decode(type_, np.ascontiguousarray(words)) for type_, words in columns]
    if texts is not None:
        arrays[-1] = texts
        changed = differing(delta.actions, delta.rows[:-1], texts)
        arrays, delta = [array.filter(pa.array(changed)) for array in arrays], delta.where(changed)
    kinds = pa.array(np.where(delta.actions == INSERT, "insert", "delete"))
    return pa.table([*arrays, kinds], names=[*names, "_change_type"])
