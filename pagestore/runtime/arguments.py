"""Groups of arguments: named tuples that kernels take, so that a call can be read without counting positions.

    class Fresh(NamedTuple):            @kernel
        arena: Words                    def stamp(fresh, word):
        page: int                           fresh.arena[fresh.page] = word

numba takes a group apart where a kernel is entered, so a field costs what an argument costs. Only numba's look at the
types of a call from Python takes longer for a tuple, 10 us: Python calls such a kernel through a `Door`, which has
looked once.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, NamedTuple, get_args, get_type_hints

import numpy as np

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
        wanted = types_of(*self.arguments)
        call = self.function.compile(wanted)
        return partial(_checked, call, wanted) if self.checking else call


def _checked(call: Callable[..., Any], wanted: tuple[Any, ...], *given: Any) -> Any:
    """Call a kernel; TypeError if an argument has another type than the kernel was compiled for."""
    from numba import typeof

    for found, type_ in zip(map(typeof, given), wanted, strict=True):
        if not fits(type_, found):
            raise TypeError(f"a kernel for {type_} is given {found}")
    return call(*given)


def fits(wanted: Any, given: Any) -> bool:
    """Is a type the one that is wanted, or the same array with leave to write to it?"""
    from numba import types

    if isinstance(wanted, types.BaseNamedTuple):
        return wanted.instance_class is given.instance_class and all(map(fits, wanted.types, given.types))
    return wanted == given or (isinstance(given, types.Array) and wanted == given.copy(readonly=True))


def types_of(*arguments: Any) -> tuple[Any, ...]:
    """numba's types of arguments."""
    return tuple(map(_type_of, arguments))


def _type_of(argument: Any) -> Any:
    from numba import types
    from numba.core.sigutils import normalize_signature

    if argument is int or argument is bool:
        return types.int64 if argument is int else types.boolean
    if isinstance(argument, Key):
        return types.UniTuple(types.int64, argument.columns)
    if hasattr(argument, "_fields"):
        fields = get_type_hints(argument, include_extras=True)
        return types.BaseTuple.from_types(types_of(*(fields[name] for name in argument._fields)), argument)
    (_, text) = get_args(argument)
    ((found,), _) = normalize_signature(f"({text},)")
    return found
