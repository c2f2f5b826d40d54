"""Groups of arguments: named tuples that kernels take, so that a call can be read without counting positions.

    class Fresh(NamedTuple):            @kernel
        arena: Words                    def stamp(fresh, word):
        page: int                           fresh.arena[fresh.page] = word

numba unpacks a group when a kernel is entered, so a field costs what an argument costs. But numba checks the types of
every call from Python, which takes 10 us longer for a tuple: Python calls these kernels through a `Door`, whose types
are fixed.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from pagestore.runtime.guard import guarded
from pagestore.runtime.kernel import JIT
from pagestore.runtime.library import shipped

Words = Annotated[np.ndarray, "int64[::1]"]
MappedWords = Annotated[np.ndarray, "Array(int64, 1, 'C', readonly=True)"]  # of the file
HalfWords = Annotated[np.ndarray, "int32[::1]"]
Bytes = Annotated[np.ndarray, "uint8[::1]"]
Flags = Annotated[np.ndarray, "boolean[::1]"]
Table = Annotated[np.ndarray, "int64[:, ::1]"]
ByteTable = Annotated[np.ndarray, "uint8[:, ::1]"]
Tables = Annotated[np.ndarray, "int64[:, :, ::1]"]


class Key(NamedTuple):
    """The type of a tuple of `columns` words, as which a single key is passed to a kernel."""

    columns: int


class Door:
    """The typed entry of a kernel for calls from Python: argument types are groups, the arrays above, int or bool.

    `call` checks no types: an array of another dtype or order is read as if it had the right one, and a group costs
    no more than its fields. The tests set `checking`, and then every call is checked; a shipped kernel has a guard
    that checks, too.
    """

    checking = False
    every: ClassVar["list[Door]"] = []  # all of this process, in import order

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments
        Door.every.append(self)

    @cached_property
    def call(self) -> Callable[..., Any]:
        """The machine code, compiled or loaded on first use."""
        if not JIT:
            return self.function
        found = shipped(self.function, self.arguments)
        if found is not None:
            return found
        call = self.function.compile(self.arguments)
        return guarded(call, self.function.__qualname__, self.arguments) if self.checking else call
