"""Packages that are imported when something of theirs is first asked for.

Opening a store and reading integers takes none of them, and each costs a process time and memory: Arrow as much as
Python and numpy together.

    from pagestore.runtime.lazy import pyarrow as pa
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any


class LazyModule:
    """Stands for a module; imports it once, and keeps what was asked for.

    >>> LazyModule("fractions").Fraction(2, 4)
    Fraction(1, 2)
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        if not attribute.startswith("__"):
            setattr(self, attribute, value)
        return value


if TYPE_CHECKING:
    import crc32c as crc32c
    import pyarrow as pyarrow
    import sortedcontainers as sortedcontainers
    import zstandard as zstandard
else:
    crc32c, pyarrow = LazyModule("crc32c"), LazyModule("pyarrow")
    sortedcontainers, zstandard = LazyModule("sortedcontainers"), LazyModule("zstandard")
