"""A step of a transaction: made wholly, or the transaction can only be rolled back.

A step changes a transaction's trees and page counts in many places. An exception that no step raises by itself (a
signal's, an interrupt, a failed write) may come between any two of them; what was counted is unknown then, so the
transaction cannot be committed. A rollback relies on none of it: the books are opened anew from the last commit.
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
    """The books' lock, which a step holds, and whether a step was broken off."""

    def __init__(self, lock: Any = None) -> None:
        self.lock = lock or RLock()  # held during a step, so that a store is not closed in the midst of one
        self.broken = False
        self.given: BaseException | None = None  # what a caller's iterator raised: it breaks no step off

    def check(self) -> None:
        """Raises TransactionError after a step that was broken off, or when another transaction has new books."""
        if self.broken:
            raise TransactionError("the transaction was interrupted in the midst of a change; roll it back, begin anew")


def step(change: Callable[Concatenate[Owner, Arguments], Result]) -> Callable[Concatenate[Owner, Arguments], Result]:
    """Decorate a method that changes what a transaction will commit; its object has a `pager`. Steps may be nested."""

    @wraps(change)
    def whole(self: Any, *args: Any, **named: Any) -> Result:
        work: Work = self.pager.work
        lock: Any = work.lock  # threading.Condition, too, asks `_is_owned`
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
