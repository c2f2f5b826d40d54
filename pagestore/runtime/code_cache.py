"""The folder of compiled kernels: one for each state of all kernel sources.

numba's `cache=True` checks only the file that defines a kernel, not the files of the kernels it
calls, so an edit in one file would leave stale machine code of the others. A folder named by a hash
of all these files never holds stale code. Only kernels go there (jit/compiler.py), not other
functions that a process compiles with numba. If the user has set NUMBA_CACHE_DIR, kernels go to
that folder. A few unused folders are kept.
"""

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

PACKAGES = "pagestore", "ivm"
DEFINES = re.compile(
    rb"^(@(kernel|inlined|on_demand|allocating|intrinsic)\b|\w+ = (kernel|function_pointer)\()",
    re.MULTILINE,
)
IMPORTS = re.compile(rb"^ *from ((?:pagestore|ivm)[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
FOLDERS_MAX = 6  # of other sources or settings; each has up to 40 MB


def cache_folder(*settings: str) -> Path:
    """Return the folder under the user's cache for this interpreter, the compiler's settings,
    and these sources.
    """
    return folder_named(
        digest_of(kernel_sources(Path(__file__).parents[2]), sys.version, *settings)
    )


def folder_named(name: str, kind: str = "") -> Path:
    """Return the folder of a name under the user's cache, made if it can be; a few others of its
    kind stay.
    """
    folder = user_cache() / kind / name
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        remove_old(folder.parent)
    return folder


def remove_old(parent: Path) -> None:
    """Remove all folders of compiled code but the last ones used; a process that uses a removed
    one compiles again.
    """
    folders = [path for path in parent.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name)]
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime)[: -FOLDERS_MAX - 1]:
        shutil.rmtree(folder, ignore_errors=True)


def digest_of(sources: Mapping[Path, bytes], *settings: str) -> str:
    """Return a name that is unique to these sources and settings."""
    digest = hashlib.sha256(" ".join(settings).encode())
    for source in sources.values():
        digest.update(source)
    return digest.hexdigest()[:16]


def kernel_sources(root: Path) -> dict[Path, bytes]:
    """Return the files below `root` that define kernels, and those of our packages that they
    import. O(all sources).

    A kernel is found by its decorator. Imported files count because their constants become part of
    machine code.
    """
    sources = {
        path: path.read_bytes()
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    }
    modules = {".".join(path.relative_to(root).with_suffix("").parts): path for path in sources}
    paths: set[Path] = set()
    waiting = [path for path, source in sources.items() if DEFINES.search(source)]
    while waiting:
        path = waiting.pop()
        if path not in paths:
            paths.add(path)
            waiting += [modules[name] for name in _imported(sources[path]) if name in modules]
    return {path: source for path, source in sources.items() if path in paths}


def _imported(source: bytes) -> list[str]:
    """Return the names of modules that a file imports from, and of what it imports, which may be
    modules, too.
    """
    found = []
    for package, names in IMPORTS.findall(source.replace(b"\\\n", b"")):
        module = package.decode()
        found += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names.decode()))]
    return found


def user_cache() -> Path:
    """Return the user's folder for compiled code, or a temporary one if the home directory
    cannot be written to.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pagestore"
    with suppress(OSError):
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    folder = Path(tempfile.gettempdir()) / f"pagestore-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(0o700, exist_ok=True)
        if folder.lstat().st_uid == os.getuid():
            return folder
    # code from another user's folder would run with our rights
    return Path(tempfile.mkdtemp(prefix="pagestore-"))
