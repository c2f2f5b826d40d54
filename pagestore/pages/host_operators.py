"""Scan operators that a host registers: compiled functions of two words, known by a short name.

The catalog stores the name as the operator's code, so a store opened elsewhere can say which operator is missing.
"""

import ctypes
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from pagestore.errors import CompilerError, ExistsError, MissingError, SchemaError
from pagestore.pages.fold_operators import USER
from pagestore.runtime.intrinsics import CALLBACK
from pagestore.runtime.kernel import JIT

NAMES_TAKEN = ("count", "sum", "min", "max", "argmin", "argmax", "checksum", "concat")


class Operator(NamedTuple):
    """A registered operator; `call` is the compiled function as Python calls it, and keeps its code alive.

    A `semilattice` is commutative and idempotent.  An operator with an `inverse` is an Abelian group.
    """

    name: str
    identity: int
    address: int
    call: Any
    semilattice: bool = False
    inverse: Any = None


_registered: dict[int, Operator] = {}


def register_operator(
    name: str,
    combine: Callable[[int, int], int],
    identity: int,
    semilattice: bool = False,
    inverse: Callable[[int], int] | None = None,
) -> None:
    """Make `combine`, associative over int64 words, a scan operator of this process; compiled by numba.

    `name` has 2 to 7 lower-case letters; `identity` is the fold of no records. Every process that writes, folds
    or checks a relation with this scan registers the operator first, and always the same one. A `semilattice`
    is commutative as well, and `combine(a, a)` is a, so that rules may aggregate by it within a recursion. One with an
    `inverse` is commutative, and `combine(a, inverse(a))` is the identity: rules then keep one value for each group,
    not the values folded into it. Raise SchemaError for a bad name, ExistsError for one that is taken,
    CompilerError if numba is not installed.

    >>> import math
    >>> register_operator("bitxor", lambda a, b: a ^ b, 0, inverse=lambda a: a)
    >>> register_operator("union", lambda a, b: a | b, 0, semilattice=True)  # of sets of up to 64 members, as bits
    """
    if not is_name(name):
        raise SchemaError(f"{name!r}: an operator's name is 2 to 7 letters a-z and none of {', '.join(NAMES_TAKEN)}")
    code = code_of(name)
    if code in _registered:
        raise ExistsError(f"there is an operator {name!r} already in this process")
    if not JIT:
        call = CALLBACK(combine)
        address = ctypes.cast(call, ctypes.c_void_p).value or 0
    else:
        compiled = _compiled(name, combine, "int64(int64, int64)")
        call, address = compiled.ctypes, compiled.address
    undo = inverse and (_compiled(name, inverse, "int64(int64)").ctypes if JIT else inverse)
    _registered[code] = Operator(name, identity, address, call, semilattice, undo)


def _compiled(name: str, function: Callable[..., int], signature: str) -> Any:
    """Compile an operator's function to one that C can call."""
    try:
        from numba import cfunc
    except ImportError:
        raise CompilerError(
            f"the operator {name!r} must be compiled, and numba is not installed: pip install 'pagestore-ivm[jit]'"
        ) from None
    return cfunc(signature)(function)


def is_name(name: str) -> bool:
    """Return whether an operator can have that name."""
    return bool(re.fullmatch(r"[a-z]{2,7}", name)) and name not in NAMES_TAKEN


def code_of(name: str) -> int:
    """Return the code of an operator's name: its letters as a little-endian word."""
    return int.from_bytes(name.encode(), "little")


def name_of(code: int) -> str:
    """Return the name of the operator with a code."""
    return code.to_bytes(8, "little").rstrip(b"\0").decode("ascii", "replace")


def is_operator(name: str) -> bool:
    """Return whether an operator of that name is registered in this process."""
    return is_name(name) and code_of(name) in _registered


def is_semilattice(name: str) -> bool:
    """Return whether an operator of that name is registered in this process as a semilattice."""
    return is_operator(name) and _registered[code_of(name)].semilattice


def has_inverse(name: str) -> bool:
    """Return whether an operator of that name is registered with an inverse."""
    return is_operator(name) and _registered[code_of(name)].inverse is not None


def operator(code: int) -> Operator:
    """Return the registered operator with a code. Raise MissingError."""
    found = _registered.get(code)
    if found is None:
        raise MissingError(
            f"this process has no scan operator {name_of(code)!r}; call pagestore.register_operator first"
        )
    return found


def address_of(code: int) -> int:
    """Return the address of an operator's machine code; 0 for a built-in one. Raise MissingError."""
    return operator(code).address if code >= USER else 0
