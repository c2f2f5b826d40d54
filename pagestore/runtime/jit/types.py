"""numba's types of the arguments of kernels."""

from typing import Any, get_args

from numba import types
from numba.core.sigutils import normalize_signature

from pagestore.runtime.types import Key, types_of_fields


def fits(wanted: Any, given: Any) -> bool:
    """Return whether a type is the wanted one, or a writable array where a read-only one is wanted."""
    if isinstance(wanted, types.BaseNamedTuple) and isinstance(given, types.BaseNamedTuple):
        return wanted.instance_class is given.instance_class and all(
            map(fits, wanted.types, given.types)
        )
    return wanted == given or (
        isinstance(given, types.Array) and wanted == given.copy(readonly=True)
    )


def types_of(*arguments: Any) -> tuple[Any, ...]:
    """Return numba's types of arguments."""
    return tuple(map(_type_of, arguments))


def _type_of(argument: Any) -> Any:
    if argument is int or argument is bool:
        return types.int64 if argument is int else types.boolean
    if isinstance(argument, Key):
        return types.UniTuple(types.int64, argument.columns)
    if hasattr(argument, "_fields"):
        return types.BaseTuple.from_types(types_of(*types_of_fields(argument)), argument)
    (_, text) = get_args(argument)
    ((found,), _) = normalize_signature(f"({text},)")
    return found
