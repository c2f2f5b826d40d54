"""A step of a transaction: either it is completed, or the transaction can only be rolled back.

A step changes a transaction's trees and page counts in many places. An exception that no step raises by itself (a
signal's, an interrupt, a failed write) may come between any two of them; the page counts are unknown then, so the
transaction cannot be committed. A rollback relies on none of them: the free pages are read again from the last commit.
"""

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from pagestore.errors import (
    EditError,
    ExistsError,
    MissingError,
    OrderError,
    SchemaError,
    TransactionError,
    WordError,
)

REFUSALS = EditError, ExistsError, MissingError, OrderError, SchemaError, WordError  # steps that raise these are undone

Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Work:
    """The lock of the free-page records, which a step holds, and whether a step was interrupted."""

    def __init__(self, lock: Any = None) -> None:
        self.lock = lock or RLock()  # held during a step, so that a store is not closed in the middle of one
        self.broken = False
        self.given: BaseException | None = None  # what a caller's iterator raised: it does not interrupt a step

    def check(self) -> None:
        """Raise TransactionError if a step was interrupted, or another transaction has read the free pages anew."""
        if self.broken:
            raise TransactionError("the transaction was interrupted in the midst of a change; roll it back, begin anew")


def step(change: Callable[Concatenate[Owner, Arguments], Result]) -> Callable[Concatenate[Owner, Arguments], Result]:
    """Decorate a method that changes what a transaction will commit, of an object with a `pager`. Steps may nest."""

    @wraps(change)
    def whole(self: Any, *args: Any, **named: Any) -> Result:
        work: Work = self.pager.work
        lock: Any = work.lock  # threading.Condition, too, calls `_is_owned`
        nested = lock._is_owned()
        with lock:
            if nested:
                return change(self, *args, **named)
            work.check()
            work.broken = True
            try:
                made = change(self, *args, **named)
            except BaseException as error:
                work.broken = not isinstance(error, REFUSALS) and error is not work.given
                work.given = None
                raise
            work.broken = False
            return made

    return cast(Callable[Concatenate[Owner, Arguments], Result], whole)
