"""Where compiled kernels are kept: one folder per state of all kernel sources.

numba's `cache=True` looks only at the file a kernel stands in, not at the files of the kernels it calls, so
an edit in one file would leave stale machine code behind the others. A folder named by a hash of all of them
is either complete or new. Kernels alone go there (kernel.py), not what else a process compiles with numba; a user who
has set NUMBA_CACHE_DIR keeps it.
"""

import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from numba import __version__, config

SETTINGS = "BOUNDSCHECK", "OPT", "DEBUGINFO_DEFAULT", "ENABLE_PROFILING"  # of numba's, that make other code


def cache_folder() -> Path:
    """The folder for this interpreter, this numba as it is set and these sources, under the user's cache."""
    packages = Path(__file__).parents[2]
    sources = [packages / "pagestore" / "layout.py"]
    for package in ("pagestore", "ivm"):
        sources += sorted((packages / package / "kernels").glob("*.py"))
    settings = [str(getattr(config, name)) for name in SETTINGS]
    digest = hashlib.sha256(f"{sys.version} numba {__version__} {settings}".encode())
    for source in filter(Path.exists, sources):
        digest.update(source.read_bytes())
    return user_cache() / digest.hexdigest()[:16]


def user_cache() -> Path:
    """The user's own folder for what is compiled, or one for temporary files where a home cannot be written to."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pagestore"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    folder = Path(tempfile.gettempdir()) / f"pagestore-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(0o700, exist_ok=True)
        if folder.lstat().st_uid == os.getuid():
            return folder
    return Path(tempfile.mkdtemp(prefix="pagestore-"))  # what stands in anybody else's would be run as ours
