"""Groups of arguments: named tuples that kernels take, so that a call can be read without counting positions.

    class Fresh(NamedTuple):            @kernel
        arena: Words                    def stamp(fresh, word):
        page: int                           fresh.arena[fresh.page] = word

numba takes a group apart where a kernel is entered, so a field costs what an argument costs. Only numba's look at the
types of a call from Python takes longer for a tuple, 10 us: Python calls such a kernel through a `Door`, which has
looked once.
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
    """The type of a tuple of `columns` words, as a single key is handed to a kernel."""

    columns: int


class Door:
    """A kernel as Python calls it with arguments of given types: groups, the arrays named above, int or bool.

    `door.call` trusts its callers: an array of another dtype or order is read as if it had the right one. It looks at
    no types, so a group costs no more than its fields do. The tests set `checking`, and then every call is looked at; a
    kernel that was shipped has a guard that looks, too.
    """

    checking = False
    every: ClassVar["list[Door]"] = []  # all doors of this process, in the order of their imports

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments
        Door.every.append(self)

    @cached_property
    def call(self) -> Callable[..., Any]:
        """The machine code, compiled or loaded when it is first asked for."""
        if not JIT:
            return self.function
        found = shipped(self.function, self.arguments)
        if found is not None:
            return found
        call = self.function.compile(self.arguments)
        return guarded(call, self.function.__qualname__, self.arguments) if self.checking else call
