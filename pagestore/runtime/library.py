"""Kernels that were compiled ahead of time: find and load the library that fits this processor and
these sources.

    pagestore/shipped/x86-64-v3.abi3.so      for processors of that level or a higher one

A library records the kernel sources it was made from, and is used if they are those of this
package. Otherwise, and for a kernel that it lacks, numba compiles.
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from pagestore.runtime.types import guard_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "pagestore" / "shipped"
# only kernels compiled for it check bounds
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")
V2 = {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}
FLAGS = {  # of /proc/cpuinfo that a level needs, the best level first
    "x86-64-v3": V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v2": V2,
    "x86-64": set(),
}


def shipped(function: Any, arguments: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Return the machine code of a kernel for arguments of these types, for Python; None if it
    was not shipped.
    """
    module = library()
    return module.functions.get(key_of(function, arguments)) if module else None


def shipped_address(function: Any, arguments: tuple[Any, ...]) -> int | None:
    """Return the address by which other kernels call a kernel; None if it was not shipped."""
    module = library()
    return module.addresses.get(key_of(function, arguments)) if module else None


@cache
def library() -> Any:
    """Load the library for this processor; return None if there is none for these sources.

    `PAGESTORE_KERNELS` may name a level; "jit" and "plain" use no library (jit/compiler.py).
    """
    wanted = os.environ.get("PAGESTORE_KERNELS", "")
    for level in levels():
        if wanted in ("", level) and not CHECKED:
            module = loaded(FOLDER / f"{level}.abi3.so")
            if module and sources_are_those(module.sources):
                return module
    return None


def missing() -> str:
    """Return why there is no library, as a clause that follows "since"."""
    found = sorted(path.name for path in FOLDER.glob("*.so"))
    if os.environ.get("PAGESTORE_KERNELS") or library():
        return "it is none of those that were compiled before"
    if not found:
        return f"no library of kernels is in {FOLDER}"
    if not {f"{level}.abi3.so" for level in levels()}.intersection(found):
        return f"this processor runs none of {', '.join(found)} in {FOLDER}"
    return f"the kernels were edited after the libraries in {FOLDER} were made"


def loaded(path: Path) -> Any:
    """Load the module in a library; return None if there is none that this Python can load."""
    if not path.exists():
        return None
    loader = ExtensionFileLoader("_kernels", str(path))
    spec = spec_from_file_location("_kernels", path, loader=loader)
    assert spec
    try:
        module = module_from_spec(spec)
        loader.exec_module(module)
    except ImportError:
        return None
    return module


def levels() -> list[str]:
    """Return the levels that this processor can run, the best first."""
    if platform.machine() == "aarch64":
        return ["aarch64"]
    if platform.machine() != "x86_64":
        return []
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    flags = {*text.partition("\nflags")[2].partition("\n")[0].replace(":", " ").split()}
    return [level for level, wanted in FLAGS.items() if wanted <= flags]


def sources_are_those(text: str) -> bool:
    """Return whether the kernel sources are those that a library records in `text`."""
    said = json.loads(text)
    return bool(said) and digests(said) == said


def digests(names: Iterable[str]) -> dict[str, str]:
    """Return a digest of each of some files, "" for one that does not exist."""
    found = {}
    for name in names:
        path = ROOT / name
        found[name] = (
            hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() if path.exists() else ""
        )
    return found


def key_of(function: Any, arguments: tuple[Any, ...]) -> str:
    """Return the key by which a kernel for arguments of these types is looked up."""
    return f"{function.__module__}.{function.__qualname__} {guard_of(arguments)}"
