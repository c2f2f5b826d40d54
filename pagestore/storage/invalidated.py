"""A stub for an object that is no longer valid: a transaction's trees, a dropped relation, the
map after a fork.
"""

from typing import Any


class Invalidated:
    """An object that raises an error at any use.

    >>> Invalidated(KeyError, "it was here").anything
    Traceback (most recent call last):
    ...
    KeyError: 'it was here'
    """

    def __init__(self, error: type[Exception], why: str) -> None:
        self._error, self._why = error, why

    def _refuse(self, *_: object) -> Any:
        raise self._error(self._why)

    __getattr__ = __getitem__ = __contains__ = __iter__ = _refuse
