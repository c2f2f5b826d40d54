"""Compile every kernel that Python calls into one shared library: `python -m pagestore_tools.kernels.build FOLDER`.

    Door, ByAddress ──numba──▶ LLVM ──▶ objects without fixed addresses ──cc──▶ FOLDER/<level>.abi3.so

numba compiles for the processor that `NUMBA_CPU_NAME` names, so a level is built in a process of its own. A kernel's
module says what it calls by names that nobody else needs: all of them become internal, but for its entry. What is left
is linked with shim.c, which has what the entries ask of numba, and a guard in front of each.
"""

import argparse
import ctypes
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

V2 = "+cx8,+cx16,+fxsr,+mmx,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+crc32,+popcnt,+sahf,+64bit,+cmov"
LEVELS = {  # names of LLVM's processors, and their features
    "x86-64-v2": ("x86-64-v2", V2),
    "x86-64-v3": ("x86-64-v3", V2 + ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"),
    "aarch64": ("generic", "+neon,+crc"),
}
SHIM = Path(__file__).with_name("shim.c")


class Entry(NamedTuple):
    """A function of the library: what the runtime looks it up by, its guard's text, its names, its module."""

    key: str
    guard: str
    wrapper: str
    function: str
    address: str
    module: str


def main(arguments: list[str] | None = None) -> int:
    """Build one level, or all that this machine can run. Exits with 1 where the compiler or the linker fails."""
    parser = argparse.ArgumentParser(prog="pagestore_tools.kernels.build", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--level", choices=LEVELS, help="only this one, in this process")
    parser.add_argument("--only", default="", metavar="TEXT", help="only kernels whose names have this in them")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.level:
        build(options.folder, options.level, options.only)
        return 0
    from pagestore.runtime.code_cache import kernel_sources
    from pagestore.runtime.library import ROOT, digests, levels

    names = [str(path.relative_to(ROOT)) for path in kernel_sources(ROOT)]
    (options.folder / "sources.json").write_text(json.dumps(digests(names), indent=1) + "\n")
    for level in levels():
        command = [sys.executable, "-m", "pagestore_tools.kernels.build", str(options.folder), "--level", level]
        command += ["--only", options.only]
        name, features = LEVELS[level]
        with tempfile.TemporaryDirectory() as cache:
            environment = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": cache}
            environment["PAGESTORE_KERNELS"] = "jit"
            subprocess.run(command, env={**os.environ, **environment}, check=True)
    return 0


def build(folder: Path, level: str, only: str = "") -> None:
    """Build the library of one level; the process was started for that processor."""
    entries = collected(only)
    name, features = LEVELS[level]
    with tempfile.TemporaryDirectory() as work:
        machine = target_machine(name, features)
        objects = []
        for number, entry in enumerate(entries):
            path = Path(work, f"{number}.o")
            path.write_bytes(machine.emit_object(private(entry)))
            objects.append(str(path))
        Path(work, "table.h").write_text(table(entries))
        library = folder / f"{level}.abi3.so"
        link(work, objects, library)
        ctypes.PyDLL(str(library), os.RTLD_NOW)  # OSError for a symbol that neither the shim nor Python nor C has


def collected(only: str) -> list[Entry]:
    """Every entry, compiled: of the doors, and of the kernels that are called by their address."""
    import ivm
    import pagestore.host  # noqa: F401 - its modules make doors
    import pagestore_tools.store_commands.page  # noqa: F401
    from pagestore.runtime.arguments import Door, types_of
    from pagestore.runtime.kernel import ByAddress
    from pagestore.runtime.library import guard_of, key_of

    assert ivm
    found: dict[str, Entry] = {}
    every: list[Door | ByAddress] = [*Door.every, *ByAddress.every]
    for one in every:
        key = key_of(one.function, one.arguments)
        if only in key and key not in found:
            print(f"{len(found) + 1} {key.partition(' ')[0]}", flush=True)
            found[key] = compiled(key, guard_of(one.arguments), one.function.dispatcher, types_of(*one.arguments))
    return [*found.values()]


def compiled(key: str, guard: str, dispatcher: Any, types: tuple[Any, ...]) -> Entry:
    """Compile one entry. A kernel that needs constants at run time cannot be shipped: AssertionError."""
    dispatcher.compile(types)
    result = dispatcher.overloads[types]
    names = result.fndesc
    assert not result.environment.consts and not result.reload_init, f"{key} needs numba when it runs"
    address = "" if dispatcher.targetoptions.get("no_cfunc_wrapper") else names.llvm_cfunc_wrapper_name
    return Entry(
        key, guard, names.llvm_cpython_wrapper_name, names.llvm_func_name, address, result.library.get_llvm_str()
    )


def private(entry: Entry) -> Any:
    """The module of an entry, in which all that nobody else asks for is internal.

    Environments hold no constants, so any address but null will do for them: it is written into the code.
    """
    import llvmlite.binding as llvm

    null = r"^(@_ZN08NumbaEnv\S+) = common (?:local_unnamed_addr )?global (ptr|i8\*) null"
    text = re.sub(null, r"\1 = internal constant \2 inttoptr (i64 1 to \2)", entry.module, flags=re.MULTILINE)
    module = llvm.parse_assembly(text)
    for function in module.functions:
        if not function.is_declaration:
            asked = function.name in (entry.wrapper, entry.function, entry.address)
            function.linkage = "external" if asked else "internal"
    return module


def target_machine(name: str, features: str) -> Any:
    """What makes objects for a processor that may be loaded anywhere."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = f"{platform.machine()}-unknown-linux-gnu"
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(cpu=name, features=features, opt=3, reloc="pic", codemodel="small")


def table(entries: list[Entry]) -> str:
    """The entries as shim.c takes them."""
    lines = []
    for number, entry in enumerate(entries):
        lines.append(f'extern PyObject *w{number}(PyObject *, PyObject *, PyObject *) __asm__("{entry.wrapper}");')
        if entry.address:
            lines.append(f'extern void a{number}(void) __asm__("{entry.address}");')
    lines.append("static struct entry table[] = {")
    for number, entry in enumerate(entries):
        address = f"(void *)a{number}" if entry.address else "0"
        lines.append(f'    {{"{entry.key}", "{entry.guard}", w{number}, {address}}},')
    return "\n".join([*lines, "    {0, 0, 0, 0}};", ""])


def link(work: str, objects: list[str], library: Path) -> None:
    """Compile the shim, and link all of it with the machine's C compiler, or with the one that ziglang brings."""
    import numpy

    includes = [f"-I{sysconfig.get_path('include')}", f"-I{numpy.get_include()}", f"-I{work}"]
    flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-s"]
    subprocess.run([*compiler(), *flags, *includes, str(SHIM), *objects, "-o", str(library)], check=True)


def compiler() -> list[str]:
    """The command of a C compiler."""
    import shutil

    for name in filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")):
        if shutil.which(name.split()[0]):
            return name.split()
    return [sys.executable, "-m", "ziglang", "cc", "-target", f"{platform.machine()}-linux-gnu.2.17"]


if __name__ == "__main__":
    sys.exit(main())
