"""Kernels that were compiled before the package was installed: which library fits, and what is in it.

    pagestore/shipped/x86-64-v3.abi3.so      for processors of that level or a higher one
    pagestore/shipped/sources.json           the files of kernels that it was made of, by digest

A library is used if its sources are those of this package. Otherwise, and for a kernel that it lacks, numba compiles.
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "pagestore" / "shipped"
DTYPES = {"int64": "l", "int32": "h", "uint8": "B", "boolean": "?"}
FEATURES = {  # what the flags of /proc/cpuinfo must say
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"},
}


def shipped(function: Any, arguments: tuple[Any, ...]) -> Callable[..., Any] | None:
    """The machine code of a kernel for arguments of these types, as Python calls it; None if it was not shipped."""
    module = library()
    return module.functions.get(key_of(function, arguments)) if module else None


def shipped_address(function: Any, arguments: tuple[Any, ...]) -> int | None:
    """The address by which other kernels call a kernel; None if it was not shipped."""
    module = library()
    return module.addresses.get(key_of(function, arguments)) if module else None


@cache
def library() -> Any:
    """The library for this processor, loaded; None if there is none for these sources.

    `PAGESTORE_KERNELS=jit` leaves it alone, for whoever works on kernels.
    """
    if os.environ.get("PAGESTORE_KERNELS") == "jit" or not sources_are_those(FOLDER / "sources.json"):
        return None
    for level in levels():
        path = FOLDER / f"{level}.abi3.so"
        if path.exists():
            loader = ExtensionFileLoader("_kernels", str(path))
            spec = spec_from_file_location("_kernels", path, loader=loader)
            assert spec
            module = module_from_spec(spec)
            loader.exec_module(module)
            return module
    return None


def levels() -> list[str]:
    """The levels that this processor can run, the best first."""
    if platform.machine() == "aarch64":
        return ["aarch64"]
    if platform.machine() != "x86_64":
        return []
    text = Path("/proc/cpuinfo").read_text()
    flags = {*text.partition("\nflags")[2].partition("\n")[0].replace(":", " ").split()}
    found = []
    v2 = FEATURES["x86-64-v2"] <= flags
    if v2 and FEATURES["x86-64-v3"] <= flags:
        found.append("x86-64-v3")
    return [*found, "x86-64-v2"] if v2 else found


def sources_are_those(path: Path) -> bool:
    """Are the files of kernels those that a library was made of?"""
    try:
        said = json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return bool(said) and digests(said) == said


def digests(names: Mapping[str, str] | list[str]) -> dict[str, str]:
    """A digest of each of some files, "" for one that is not there."""
    found = {}
    for name in names:
        path = ROOT / name
        found[name] = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() if path.exists() else ""
    return found


def key_of(function: Any, arguments: tuple[Any, ...]) -> str:
    """What a kernel for arguments of these types is looked up by."""
    return f"{function.__module__}.{function.__qualname__} {guard_of(arguments)}"


def guard_of(arguments: tuple[Any, ...]) -> str:
    """The types of arguments as shim.c reads them: i an integer, ? a truth value, A an array, (...) a group.

    An array has the letter of its items, the number of its dimensions, and w if it is written to.

    >>> from pagestore.runtime.arguments import MappedWords, Table
    >>> guard_of((int, Table, MappedWords))
    'iAl2wAl1r'
    """
    return "".join(map(_guard, arguments))


def _guard(argument: Any) -> str:
    if argument is int:
        return "i"
    if argument is bool:
        return "?"
    if isinstance(argument, tuple):  # an arguments.Key
        (columns,) = argument
        return f"({'i' * columns})"
    if hasattr(argument, "_fields"):
        fields = get_type_hints(argument, include_extras=True)
        return f"({''.join(_guard(fields[name]) for name in argument._fields)})"
    assert get_origin(argument) is Annotated, argument
    text = get_args(argument)[1]
    if text.startswith("Array"):
        return "Al1r"
    item, _, shape = text.partition("[")
    return f"A{DTYPES[item]}{shape.count(',') + 1}w"
