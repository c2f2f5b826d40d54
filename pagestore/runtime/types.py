"""Types of the arguments of kernels, their description as text, and whether arguments fit it.

Groups of arguments are named tuples, so that a call can be read without counting positions.

    class Fresh(NamedTuple):            @kernel
        arena: Words                    def stamp(fresh, word):
        page: int                           fresh.arena[fresh.page] = word

numba unpacks a group when a kernel is entered, so a field costs what an argument costs. But numba
checks the types of every call from Python, which takes 10 us longer for a tuple: Python calls these
kernels through a `TypedKernel` (kernel.py), whose types are fixed.

A kernel does not check its arguments: an array of another order would give a wrong answer. The
guards of shipped kernels compare each argument with the text (shim.c); the functions here do the
same for kernels that are compiled when called.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

LINE = 8  # words of a cache line

Words = Annotated[np.ndarray, "int64[::1]"]
MappedWords = Annotated[np.ndarray, "Array(int64, 1, 'C', readonly=True)"]  # of the file
HalfWords = Annotated[np.ndarray, "int32[::1]"]
Bytes = Annotated[np.ndarray, "uint8[::1]"]
Flags = Annotated[np.ndarray, "boolean[::1]"]
Table = Annotated[np.ndarray, "int64[:, ::1]"]
ByteTable = Annotated[np.ndarray, "uint8[:, ::1]"]
Tables = Annotated[np.ndarray, "int64[:, :, ::1]"]

ITEMS = {"int64": "l", "int32": "h", "uint8": "B", "boolean": "?"}
DTYPES = {
    "l": np.dtype("int64"),
    "h": np.dtype("int32"),
    "B": np.dtype("uint8"),
    "?": np.dtype("bool"),
}


class Key(NamedTuple):
    """The type of a tuple of `columns` words, as which a single key is passed to a kernel."""

    columns: int


def guard_of(arguments: tuple[Any, ...]) -> str:
    """Describe the types of arguments: i an integer, ? a truth value, A an array, (...) a group.

    An array has the letter of its items, the number of its dimensions, and w if it is written to.

    >>> guard_of((int, Table, MappedWords))
    'iAl2wAl1r'
    """
    return "".join(map(_guard, arguments))


@cache  # of groups, which many kernels share
def _guard(argument: Any) -> str:
    if argument is int:
        return "i"
    if argument is bool:
        return "?"
    if isinstance(argument, Key):
        (columns,) = argument
        return f"({'i' * columns})"
    if hasattr(argument, "_fields"):
        return f"({guard_of(types_of_fields(argument))})"
    assert get_origin(argument) is Annotated, argument
    text = get_args(argument)[1]
    if text.startswith("Array"):
        return "Al1r"
    item, _, shape = text.partition("[")
    return f"A{ITEMS[item]}{shape.count(',') + 1}w"


def types_of_fields(group: Any) -> tuple[Any, ...]:
    """Return the types of a group's fields, in their order."""
    types = get_type_hints(group, include_extras=True)
    return tuple(types[name] for name in group._fields)


def guarded(call: Callable[..., Any], name: str, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Wrap a kernel so that it raises TypeError if an argument is not of its type."""
    return partial(_checked, call, name, guard_of(arguments))


def _checked(call: Callable[..., Any], name: str, guard: str, *given: Any) -> Any:
    at = 0
    for number, value in enumerate(given):
        if at == len(guard):
            break
        at, fitted = _fits(guard, at, value)
        if not fitted:
            raise TypeError(f"kernel {name} {guard}: argument {number} is of another type")
    else:
        if at == len(guard):
            return call(*given)
    raise TypeError(f"kernel {name} {guard} is given {len(given)} arguments")


def _fits(guard: str, at: int, value: Any) -> tuple[int, bool]:
    """Return the place after the type described at `at`, valid only if the value fits, and
    whether it fits.
    """
    kind = guard[at]
    if kind == "i":
        return at + 1, hasattr(value, "__index__") and not isinstance(value, np.ndarray)
    if kind == "?":
        return at + 1, isinstance(value, (int, np.bool))
    if kind == "A":
        item, dimensions, written = guard[at + 1], guard[at + 2], guard[at + 3]
        return at + 4, (
            isinstance(value, np.ndarray)
            and value.dtype == DTYPES[item]
            and value.ndim == int(dimensions)
            and value.flags.c_contiguous
            and value.flags.aligned
            and (written == "r" or value.flags.writeable)
        )
    at += 1
    for part in value if isinstance(value, tuple) else ():
        at, fitted = _fits(guard, at, part) if guard[at] != ")" else (at, False)
        if not fitted:
            return at, False
    return at + 1, isinstance(value, tuple) and guard[at] == ")"
