"""Packages that are imported on first use.

Opening a store and reading integers needs none of them, and each costs a process time and memory:
Arrow as much as Python and numpy together.

    from pagestore.runtime.lazy import pyarrow as pa
"""

from collections.abc import Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any


class LazyModule:
    """A proxy of a module; imports it on first use, and keeps the attributes that were read.

    >>> LazyModule("fractions").Fraction(2, 4)
    Fraction(1, 2)
    """

    def __init__(self, name: str, imported: Callable[[str], ModuleType] = import_module) -> None:
        self._name, self._imported = name, imported

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._imported(self._name), attribute)
        if not attribute.startswith("__"):
            setattr(self, attribute, value)
        return value


def extension_of(package: str) -> ModuleType:
    """Import the extension module `_package` of a package without the package's own file; else the
    package.

    The file of crc32c reads the version of its distribution, which imports the mail library: 35 ms.
    """
    location = find_spec(package)
    folders = location and location.submodule_search_locations
    spec = PathFinder.find_spec(f"_{package}", folders) if folders else None
    if spec is None or spec.loader is None:
        return import_module(package)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    import crc32c as crc32c
    import pyarrow as pyarrow
    import sortedcontainers as sortedcontainers
    import zstandard as zstandard
else:
    crc32c, pyarrow = LazyModule("crc32c", extension_of), LazyModule("pyarrow")
    sortedcontainers, zstandard = LazyModule("sortedcontainers"), LazyModule("zstandard")
