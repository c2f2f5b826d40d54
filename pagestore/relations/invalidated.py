"""What stands in the place of something that is gone: a transaction's trees when it has ended, a dropped relation."""

from typing import Any


class Invalidated:
    """Whoever asks it for anything is told by an error.

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
