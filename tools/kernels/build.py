"""Compile every kernel that Python calls into one shared library: `python -m
pagestore_tools.kernels.build FOLDER`.

    TypedKernel, FunctionPointer ──numba──▶ LLVM ──▶ objects without fixed addresses ──cc──▶
    FOLDER/<level>.abi3.so

numba compiles for the processor that `NUMBA_CPU_NAME` names, so each level is built in a process of
its own, which distributes the kernels over other processes. All symbols of a kernel's module except
its entry become internal. The objects are linked with shim.c, which has the functions of numba that
the entries call, and a guard before each entry.
"""

import argparse
import gc
import json
import multiprocessing
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from .elf import check_library

BASE = "+64bit,+cmov,+cx8,+fxsr,+mmx,+sse,+sse2"
V2 = BASE + ",+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2,+crc32"
LEVELS = {  # names of LLVM's processors, and their features
    "x86-64-v3": ("x86-64-v3", V2 + ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"),
    "x86-64-v2": ("x86-64-v2", V2),
    "x86-64": ("x86-64", BASE),
    "aarch64": ("generic", "+neon,+crc"),
}
SHIM = Path(__file__).with_name("shim.c")


class Entry(NamedTuple):
    """A function of the library: its key, guard, the names of its wrapper and C function, and
    object file.
    """

    key: str
    guard: str
    wrapper: str
    address: str
    machine_code: bytes


def main(arguments: list[str] | None = None) -> int:
    """Build the library of this machine's level, or of the levels given. Exit with 1 if a
    compiler fails.
    """
    parser = argparse.ArgumentParser(
        prog="pagestore_tools.kernels.build", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--level", choices=["own", "all", *LEVELS], default="own")
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXTS",
        help="only kernels whose names have one of these texts, separated by commas",
    )
    # numba is set for the level already
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.here:
        build(options.folder, options.level, options.only)
        return 0
    for level in wanted_levels(options.level):
        name, features = LEVELS[level]
        settings = {
            "NUMBA_CPU_NAME": name,
            "NUMBA_CPU_FEATURES": features,
            "PAGESTORE_KERNELS": "jit",
        }
        command = [
            sys.executable,
            "-m",
            __spec__.name,
            str(options.folder),
            "--level",
            level,
            "--here",
        ]
        done = subprocess.run([*command, "--only", options.only], env={**os.environ, **settings})
        if done.returncode:
            return 1
    return 0


def wanted_levels(requested: str) -> list[str]:
    """Return the levels to build: the best that this machine runs, all of its architecture, or
    the one given.
    """
    from pagestore.runtime.library import levels

    if requested == "own":
        return levels()[:1]
    if requested == "all":
        return [
            level for level in LEVELS if level.startswith("x86") == (platform.machine() == "x86_64")
        ]
    return [requested]


def build(folder: Path, level: str, only: str = "") -> None:
    """Build the library of one level; the process was started for that processor."""
    start = time.monotonic()
    entries = []
    for entry in compiled(only, LEVELS[level]):
        entries.append(entry)
        seconds = time.monotonic() - start
        print(
            f"{level}: {len(entries)} kernels in {seconds:.0f} s, {entry.key.partition(' ')[0]}",
            flush=True,
        )
    library = folder / f"{level}.abi3.so"
    with tempfile.TemporaryDirectory() as work:
        linked = link(Path(work), entries)
        check_library(linked)
        shutil.copyfile(linked, library.with_suffix(".new"))
    os.replace(library.with_suffix(".new"), library)
    print(
        f"{level}: {library.stat().st_size:,} bytes, {time.monotonic() - start:.0f} s", flush=True
    )


def compiled(only: str, target: tuple[str, str]) -> Iterator[Entry]:
    """Yield every entry with its machine code, once compiled. Kernels of one file share code,
    and a process.
    """
    every = _entries(only)
    groups = [[*group] for _, group in groupby(sorted(every, key=_file), _file)]
    # long guards indicate large kernels
    groups.sort(key=lambda group: -sum(len(key) for key in group))
    context = multiprocessing.get_context("fork")
    with context.Pool(min(len(groups), os.cpu_count() or 1), _begin, (every, target)) as pool:
        for entries in pool.imap_unordered(_compile_group, groups):
            yield from entries


def _entries(only: str) -> dict[str, Any]:
    """Return every `TypedKernel`, and every kernel that is called by its address, by key."""
    import ivm.sql.prepared.kernels.decide  # noqa: F401
    import pagestore.host  # noqa: F401 - with what they import, these modules make all of them
    from pagestore.runtime.kernel import FunctionPointer, TypedKernel
    from pagestore.runtime.library import key_of

    every: list[TypedKernel | FunctionPointer] = [*TypedKernel.every, *FunctionPointer.every]
    keyed = {key_of(one.function, one.arguments): one for one in every}
    return {key: one for key, one in keyed.items() if any(text in key for text in only.split(","))}


def _file(key: str) -> str:
    return key.partition(" ")[0].rpartition(".")[0]


class _Process:
    """The state of a process in the pool."""

    entries: ClassVar[dict[str, Any]]
    machine: ClassVar[Any]


def _begin(entries: dict[str, Any], target: tuple[str, str]) -> None:
    gc.disable()  # compiling makes millions of objects and little garbage
    _Process.entries, _Process.machine = entries, target_machine(*target)


def _compile_group(keys: list[str]) -> list[Entry]:
    from pagestore.runtime.jit.compiler import optimised
    from pagestore.runtime.types import guard_of

    objects = []
    for key in keys:
        one = _Process.entries[key]
        result = optimised(one.function.dispatcher, one.arguments)
        names = result.fndesc
        assert not result.environment.consts and not getattr(result, "reload_init", None), (
            f"{key} needs numba when it runs"
        )
        plain = one.function.dispatcher.targetoptions.get("no_cfunc_wrapper", False)
        wrapper = names.llvm_cpython_wrapper_name
        address = "" if plain else names.llvm_cfunc_wrapper_name
        module = private(result.library.get_llvm_str(), {wrapper, address})
        objects.append(
            Entry(
                key, guard_of(one.arguments), wrapper, address, _Process.machine.emit_object(module)
            )
        )
    return objects


def private(text: str, entries: set[str]) -> Any:
    """Return the LLVM module of an entry, with all symbols internal that no other module uses.

    Environments hold no constants, so any address but null works for them: it is written into the
    code.
    """
    import llvmlite.binding as llvm

    null = r"^(@_ZN08NumbaEnv\S+) = common (?:local_unnamed_addr )?global (ptr|i8\*) null"
    text = re.sub(
        null, r"\1 = internal constant \2 inttoptr (i64 1 to \2)", text, flags=re.MULTILINE
    )
    module = llvm.parse_assembly(text)
    for function in module.functions:
        if not function.is_declaration:
            function.linkage = "external" if function.name in entries else "internal"
    return module


def target_machine(name: str, features: str) -> Any:
    """Return the LLVM target machine that emits position-independent objects for a processor."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(f"{platform.machine()}-unknown-linux-gnu")
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", codemodel="small"
    )


def link(work: Path, entries: list[Entry]) -> Path:
    """Compile the shim and link everything, with the machine's C compiler or that of ziglang."""
    import numpy

    objects = []
    for number, entry in enumerate(entries):
        objects.append(work / f"{number}.o")
        objects[-1].write_bytes(entry.machine_code)
    (work / "table.h").write_text(table(entries))
    includes = [f"-I{sysconfig.get_path('include')}", f"-I{numpy.get_include()}", f"-I{work}"]
    flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-s"]
    library = work / "library.so"
    command = [*c_compiler(), *flags, *includes, str(SHIM), *map(str, objects), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def table(entries: list[Entry]) -> str:
    """Return the entries and the digests of their sources, as C for shim.c."""
    from pagestore.runtime.code_cache import kernel_sources
    from pagestore.runtime.library import ROOT, digests

    names = [str(path.relative_to(ROOT)) for path in kernel_sources(ROOT)]
    lines = [f"static const char sources[] = {json.dumps(json.dumps(digests(names)))};"]
    for number, entry in enumerate(entries):
        lines.append(
            f"extern PyObject *w{number}(PyObject *, PyObject *, PyObject *) "
            f'__asm__("{entry.wrapper}");'
        )
        if entry.address:
            lines.append(f'extern void a{number}(void) __asm__("{entry.address}");')
    lines.append("static struct entry table[] = {")
    for number, entry in enumerate(entries):
        address = f"(void *)a{number}" if entry.address else "0"
        lines.append(f'    {{"{entry.key}", "{entry.guard}", w{number}, {address}}},')
    return "\n".join([*lines, "    {0, 0, 0, 0}};", ""])


def c_compiler() -> list[str]:
    """Return the command of a C compiler: `CC`, the machine's, or zig's."""
    for name in filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")):
        if shutil.which(name.split()[0]):
            return name.split()
    return [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        f"{platform.machine()}-linux-gnu.2.17",
    ]  # as elf.py allows


if __name__ == "__main__":
    sys.exit(main())
