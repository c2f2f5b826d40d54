"""Check which symbols a library of kernels imports: only C of 2012, and Python's stable ABI."""

from pathlib import Path
from typing import Any

GLIBC = 2, 17
PYTHON = 3, 11


def check_library(path: Path) -> None:
    """Raise ValueError for a symbol that a supported system lacks, or text relocations."""
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        elf = ELFFile(file)
        if any(
            tag.entry.d_tag == "DT_TEXTREL"
            for tag in elf.get_section_by_name(".dynamic").iter_tags()
        ):
            raise ValueError(
                f"{path.name}: its code holds addresses, which the loader would have to write"
            )
        for name, version in undefined_symbols(elf):
            if not is_allowed(name, version):
                raise ValueError(
                    f"{path.name} needs {name} {version}, which not every system that it is for has"
                )


def undefined_symbols(elf: Any) -> list[tuple[str, str]]:
    """Return the symbols that a library imports, each with its version: "GLIBC_2.14", or "" if it
    has none.

    Weak ones are omitted, since the loader does not require them.
    """
    numbers = elf.get_section_by_name(".gnu.version")
    needed = elf.get_section_by_name(".gnu.version_r")
    symbols = []
    for place, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        if (
            symbol.name
            and symbol.entry.st_shndx == "SHN_UNDEF"
            and symbol.entry.st_info.bind != "STB_WEAK"
        ):
            number = numbers.get_symbol(place).entry.ndx if numbers else "VER_NDX_GLOBAL"
            version = needed.get_version(number)[1].name if isinstance(number, int) else ""
            symbols.append((symbol.name, version))
    return symbols


def is_allowed(name: str, version: str) -> bool:
    """Return whether every system that the library is for has this symbol.

    >>> is_allowed("memcpy", "GLIBC_2.14"), is_allowed("memcpy", "GLIBC_2.34"), is_allowed("numba_unpickle", "")
    (True, False, False)
    >>> is_allowed("PyErr_Format", ""), is_allowed("_PyObject_NextNotImplemented", "")
    (True, False)
    """
    if version.startswith("GLIBC_"):
        return tuple(map(int, version.removeprefix("GLIBC_").split("."))) <= GLIBC
    import abi3info
    from abi3info.models import Symbol

    stable = abi3info.FUNCTIONS.get(Symbol(name)) or abi3info.DATAS.get(Symbol(name))
    return stable is not None and (stable.added.major, stable.added.minor) <= PYTHON
