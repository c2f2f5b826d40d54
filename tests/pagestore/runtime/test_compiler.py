"""How kernels are compiled: an inlined one once for all arguments; machine code only for those
that Python calls.
"""

import errno
import gc
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config, njit
from numba.core.caching import IndexDataCacheFile
from numba.core.errors import NumbaError

from pagestore.runtime.code_cache import (
    PACKAGES,
    cache_folder,
    digest_of,
    kernel_sources,
    remove_old,
    user_cache,
)
from pagestore.runtime.jit.cache import settings
from pagestore.runtime.jit.compiler import overridden
from pagestore.runtime.kernel import Kernel, TypedKernel, allocating, kernel, on_demand
from pagestore.runtime.types import Words

pytestmark = pytest.mark.skipif(
    bool(config.DISABLE_JIT or config.BOUNDSCHECK) or not overridden(),
    reason="compiled otherwise, or not",
)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch, tmp_path):
    """Compilations are counted, so none may be skipped because of the cache of an earlier run."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))


@kernel
def item(values, i):
    return values[i]


@kernel
def pick(values, i):  # by one test only, for what it was compiled for is counted
    return values[i]


@kernel
def first_two(values, written, i):
    total = pick(values, 0) + pick(values, i)
    written[1] = pick(written, 0)
    return total


@kernel
def fresh(n):
    return np.empty(n, np.int64)[0]


@allocating
def ones(n):
    values = np.empty(n, np.int64)
    values[:] = 1
    return item(values, 0)


def test_an_inlined_kernel_is_the_same_for_constants_and_variables_and_for_arrays_that_may_be_written_to():
    values, written = np.arange(5, 8), np.arange(2)
    values.flags.writeable = False
    assert first_two(values, written, 2) == 12
    assert first_two(values.copy(), written, 1) == 11
    assert len(pick.dispatcher.inlined.overloads) == 1 and not pick.dispatcher.overloads


@kernel
def rare(x):
    return -x


@on_demand(Words, int, bool)
def seldom(values, i, negative):
    return rare(values[i]) if negative else values[i]


@kernel
def perhaps(values, i, address):
    return seldom(address, values, i, True) if address else 0


def test_a_kernel_on_demand_is_compiled_when_its_address_is_needed():
    values = np.arange(5, 8)
    assert perhaps(values, 2, 0) == 0
    assert not rare.dispatcher.inlined.overloads
    assert perhaps(values, 2, seldom.address()) == -7
    assert len(rare.dispatcher.inlined.overloads) == 1


def test_a_typed_kernel_is_compiled_once(monkeypatch):
    @kernel
    def double(x):
        return 2 * x

    typed = TypedKernel(double, int)
    first = typed.call
    monkeypatch.setattr(Kernel, "compile", None)
    assert typed.call is first and first(4) == 8


def test_a_typed_kernel_that_is_checked_refuses_other_types():
    """Unchecked, it would take an array of another type for one of its own."""
    typed = TypedKernel(last, Words)
    assert typed.call(np.arange(3)) == 2
    for wrong in (np.arange(3, dtype=np.int32), np.arange(6)[::2], np.zeros(3), 7):
        with pytest.raises(TypeError, match="another type"):
            typed.call(wrong)


def test_a_kernel_that_makes_arrays_says_so():
    assert ones(3) == 1
    with pytest.raises(NumbaError, match="array passed into the function"):
        fresh(3)


@kernel
def last(values):
    return values[-1]


def test_an_index_that_varies_counts_from_the_front_and_the_functions_of_others_are_left_alone():
    values = np.arange(5, 8)
    assert njit(item.py_func)(values, -1) == last(values) == 7
    assert item(values[1:], -1) == 5  # which stands there: nobody asked whether it is negative


def test_the_compiler_set_otherwise_has_another_cache(monkeypatch):
    before = cache_folder(*settings())
    assert cache_folder(*settings()) == before
    monkeypatch.setattr(config, "BOUNDSCHECK", 1)
    assert cache_folder(*settings()) != before


def test_an_edit_of_any_file_behind_kernels_names_another_folder(tmp_path):
    """Constants count, too: they are part of the machine code of whoever imports them."""
    root = Path(__file__).parents[3]
    sources = kernel_sources(root)
    names = {str(path.relative_to(root)) for path in sources}
    assert {
        "pagestore/pages/layout.py",
        "pagestore/trees/kernels/node_buffer.py",
        "ivm/join/kernels/tries.py",
    } <= names
    assert not names & {"pagestore/store.py", "ivm/workspace.py", "pagestore/trees/edit.py"}
    decorated = re.compile(r"^@(kernel|inlined|on_demand|allocating|intrinsic)\b", re.MULTILINE)
    for path in (path for package in PACKAGES for path in (root / package).rglob("*.py")):
        assert not decorated.search(path.read_text()) or path in sources, path
        copy = tmp_path / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    before = digest_of(kernel_sources(tmp_path))
    assert before == digest_of(sources)
    for name in names:
        (tmp_path / name).write_text((root / name).read_text() + "\n")
        assert digest_of(kernel_sources(tmp_path)) != before, name
        (tmp_path / name).write_bytes((root / name).read_bytes())


FOUND = """
import sys
import numpy as np
from tests.pagestore.runtime.test_compiler import last, ones
for kernel, given in (last, np.arange(3)), (ones, 3):
    print(kernel(given), "numba.cpython.cmathimpl" in sys.modules)
"""


def test_a_kernel_found_on_disk_wants_no_compiler_unless_it_makes_arrays(tmp_path):
    for compiler in True, False:
        assert found(tmp_path) == ["2", str(compiler), "1", "True"]


def test_what_is_compiled_is_kept_at_home_or_else_in_a_folder_of_our_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path / "pagestore"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours = user_cache()
    assert (
        ours == user_cache() == tmp_path / f"pagestore-{os.getuid()}"
        and ours.stat().st_mode & 0o777 == 0o700
    )
    monkeypatch.setattr(os, "getuid", lambda: ours.stat().st_uid + 1)
    theirs = tmp_path / f"pagestore-{os.getuid()}"  # of somebody who knew the name
    theirs.mkdir()
    assert user_cache() not in (ours, theirs)
    theirs.rmdir()
    theirs.touch()
    assert user_cache() not in (ours, theirs) and user_cache().is_dir()


HOST = """
import numpy as np
from numba import config, njit
import pagestore, ivm
from tests.pagestore.runtime.test_compiler import last

@njit(cache=True)
def own(x):
    return x + 1

print(own(1), last(np.arange(3)), len(own.stats.cache_hits), len(last.dispatcher.stats.cache_hits), config.CACHE_DIR)
"""


def test_only_kernels_are_kept_in_the_folder_of_kernels(tmp_path):
    """A host's own functions stay beside their files, and nothing is compiled twice, by a second
    process either.
    """
    (tmp_path / "host.py").write_text(HOST)
    command = [sys.executable, str(tmp_path / "host.py")]
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment |= {
        "XDG_CACHE_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }

    def files(folder):
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}

    left = []
    for hits in (0, 1):
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert run.stdout.split() == ["2", "2", str(hits), str(hits)], run.stderr
        left.append(files(tmp_path))
    assert left[0] == left[1]
    beside, ours = files(tmp_path / "__pycache__"), files(tmp_path / "home" / "pagestore")
    assert len(beside) == len(ours) == 2 and beside | ours == left[0]
    assert all(path.name.startswith("host.own") for path in beside)


def test_a_module_that_a_kernel_takes_a_constant_of_counts_however_it_is_imported(tmp_path):
    (tmp_path / "ivm").mkdir()
    package = tmp_path / "pagestore"
    package.mkdir()
    for name in ("one", "two", "three", "apart"):
        (package / f"{name}.py").write_text("N = 1\n")
    (package / "kernels.py").write_text(
        "from pagestore import one\nfrom pagestore import (\n    two,\n)\n"
        "from pagestore.three import N\n@kernel\ndef f(): pass\n"
    )
    assert [path.stem for path in kernel_sources(tmp_path)] == ["kernels", "one", "three", "two"]


def test_folders_that_nobody_uses_any_more_are_removed(tmp_path):
    for age in range(12):
        folder = tmp_path / f"{age:016x}"
        folder.mkdir()
        (folder / "code").touch()
        os.utime(folder, (1e9 - age, 1e9 - age))
    (tmp_path / "syntax.tables").touch()
    remove_old(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [f"{age:016x}" for age in range(7)] + ["syntax.tables"]


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "empty": lambda path: path.write_bytes(b""),
    "other bytes": lambda path: path.write_bytes(b"x" * path.stat().st_size),
}


def found(cache: Path) -> list[str]:
    """What a process prints that keeps machine code in a folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command, root = [sys.executable, "-c", FOUND], Path(__file__).parents[3]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert run.stdout.split()[::2] == ["2", "1"], run.stderr
    return run.stdout.split()


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A folder of machine code, whole."""
    folder: Path = tmp_path_factory.mktemp("kept")
    found(folder)
    return folder


@pytest.mark.parametrize("kind", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_of_machine_code_is_written_anew(tmp_path, kind, damage, kept):
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    (file,) = [path for path in tmp_path.rglob(f"*{kind}") if "last" in path.name]
    DAMAGE[damage](file)
    assert found(tmp_path)[1] == "True"
    assert found(tmp_path)[1] == "False"  # found whole again
    assert [path for path in tmp_path.rglob(f"*{kind}") if "last" in path.name] == [file]


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_written_to_is_no_error(monkeypatch, fault):
    failed = []

    def fails(self, name, data):
        failed.append(name)
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(IndexDataCacheFile, "_save_data", fails)

    @kernel
    def kept_nowhere(x):
        return x + 3

    assert kept_nowhere(1) == 4 and failed


def test_two_processes_that_compile_the_same_at_once_do_not_hurt_each_other(tmp_path):
    command = [sys.executable, "-c", FOUND]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    root = Path(__file__).parents[3]
    both = [
        subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    assert [one.communicate()[0].split()[::2] for one in both] == [["2", "1"]] * 2


def test_each_kernel_that_is_compiled_is_named(caplog):
    @kernel
    def named(x):
        return x + 2

    with caplog.at_level("INFO", logger="pagestore.kernels"):
        assert named(1) == 3 and named(2) == 4
    (message,) = caplog.messages
    assert message.startswith("compiling ") and message.endswith("named")


def test_garbage_is_collected_again_after_compiling():
    assert gc.isenabled()

    @kernel
    def unseen(x):
        return x + 1

    assert unseen(1) == 2 and gc.isenabled()
    with pytest.raises(NumbaError):
        unseen("x")
    assert gc.isenabled()
