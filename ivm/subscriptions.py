"""Who hears of what has changed in a view."""

import threading
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from ivm.lang.ir import Predicate
from ivm.maintenance.surgery import Delta
from pagestore.host import INSERT, Snapshot

OnChange = Callable[[pa.Table], None]


class Subscriptions:
    """Functions to call after commits, by view.  Iterating gives the views that have any.

    Threads may begin and end subscriptions while another one commits.
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
        return name in self._of

    def add(self, name: str, on_change: OnChange) -> Callable[[], None]:
        """Returns a function that ends the subscription."""
        subscription = object()
        with self._guard:
            self._of.setdefault(name, {})[subscription] = on_change

        def end() -> None:
            """Idempotent."""
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
        """Hand each subscriber the changes of its view.  One that fails keeps none of the others from hearing.

        Whom to tell is settled before anybody is called, who may subscribe, or uninstall.
        """
        with self._guard:
            told = [(name, on_change) for name in tables for on_change in self._of.get(name, {}).values()]
        failures = []
        for name, on_change in told:
            try:
                on_change(tables[name])
            except Exception as error:
                error.add_note(f"raised by a subscriber of {name}: what it was told of is committed, and stays")
                failures.append(error)
        if failures:
            raise failures[0]


def changes(snap: Snapshot, predicate: Predicate, delta: Delta) -> pa.Table:
    """The changes of a predicate as its subscribers see them: its columns and `_change_type`."""
    columns = zip(predicate.types, delta.rows, strict=True)
    arrays = [snap.decode(type_, np.ascontiguousarray(words)) for type_, words in columns]
    kinds = pa.array(np.where(delta.actions == INSERT, "insert", "delete"))
    return pa.table([*arrays, kinds], names=[*predicate.columns, "_change_type"])
