"""Histories of transactions that append to lists and read them, and whether some serial order
explains them.

Each value is appended once, and a list shows the order of its appends, so that the lists at the end
say who depended on whom (Kingsbury, Alvaro 2020, *Elle: Inferring Isolation Anomalies from
Experimental Observations*):

    append, append       the transaction of a value comes before that of the next value in its list
    append, read         the transaction of the last value read comes before the reader
    read, append         the reader comes before the transaction of the next value, which it did not see
    real time            a transaction that ended comes before those that began afterwards

The transactions are serial, in an order that agrees with real time, exactly if these have no cycle.
"""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple


class Done(NamedTuple):
    """An acknowledged transaction: when it began and ended, what it appended by list, and what
    it read of lists.
    """

    began: float
    ended: float
    appended: Mapping[int, Sequence[int]]
    read: Mapping[int, Sequence[int]]


def faults(history: Sequence[Done], lists: Mapping[int, Sequence[int]]) -> Iterator[str]:
    """Yield what is wrong with a history, given the lists at its end."""
    of = {
        value: i
        for i, done in enumerate(history)
        for values in done.appended.values()
        for value in values
    }
    for done in history:
        for key, values in done.appended.items():
            if missing := [value for value in values if lists.get(key, []).count(value) != 1]:
                yield f"{missing} were appended to list {key}, and are not in it once"
        for key, values in done.read.items():
            if list(lists.get(key, []))[: len(values)] != list(values):
                yield f"list {key} was read as {values}, which is no beginning of {lists.get(key)}"
    try:
        [*TopologicalSorter(dependencies(history, lists, of)).static_order()]
    except CycleError as error:
        yield f"transactions depend on each other: {[history[i] for i in error.args[1]]}"


def dependencies(
    history: Sequence[Done], lists: Mapping[int, Sequence[int]], of: Mapping[int, int]
) -> dict[int, set[int]]:
    """Return for each transaction those that come before it. `of` has the transaction of each
    acknowledged value.
    """
    before: dict[int, set[int]] = {i: set() for i in range(len(history))}
    for values in lists.values():
        acknowledged = [of[value] for value in values if value in of]
        for i, j in pairwise(acknowledged):
            before[j] |= {i} - {j}
    for j, done in enumerate(history):
        before[j] |= {i for i, other in enumerate(history) if other.ended < done.began}
        for key, values in done.read.items():
            there = lists.get(key, [])
            before[j] |= {of[value] for value in values[-1:] if value in of} - {j}
            for i in [of[value] for value in there[len(values) :] if value in of][:1]:
                before[i] |= {j} - {i}
    return before
