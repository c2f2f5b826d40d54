"""Kernels compiled ahead of time: what a library has, what its guards let in, and when it is used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config

from pagestore.runtime import library
from pagestore.runtime.arguments import Door, Table, Words
from pagestore.sorting.merge import ascends, merge_order
from pagestore_tools.kernels import build

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(config.DISABLE_JIT or config.BOUNDSCHECK, reason="compiled otherwise, or not"),
    pytest.mark.skipif(not library.levels(), reason="no library is made for such a processor"),
]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A library of the few kernels that merge, in its folder."""
    folder = tmp_path_factory.mktemp("shipped")
    assert build.main([str(folder), "--only", "sorting.merge"]) == 0
    return folder


@pytest.fixture
def used(shipped, monkeypatch):
    monkeypatch.setattr(library, "FOLDER", shipped)
    library.library.cache_clear()
    yield
    library.library.cache_clear()


def test_the_best_level_is_loaded_and_has_what_was_asked_for(used):
    module = library.library()
    assert sorted(key.split()[0].rpartition(".")[2] for key in module.functions) == ["ascends", "merge_order"]
    assert library.shipped(ascends, (Words,)) is None  # for other types


def test_a_door_takes_the_shipped_kernel_and_it_says_what_numbas_says(used, monkeypatch):
    monkeypatch.setattr(type(merge_order), "compile", None)  # nothing is compiled
    keys, order = np.random.default_rng(1).integers(0, 9, (2, 40)), np.empty(80, np.int64)
    Door(merge_order, Table, Words).call(keys, order)
    assert order[:40].tolist() == np.lexsort(keys[::-1]).tolist()
    door = Door(ascends, Table)
    assert door.call(np.array([[1, 2, 2], [3, 4, 5]])) and not door.call(np.array([[1, 2, 2], [3, 5, 4]]))


WORDS = np.arange(6).reshape(2, 3)
MISFITS = {
    "another order": np.asfortranarray(WORDS),
    "columns left out": np.arange(12).reshape(2, 6)[:, ::2],
    "one dimension": np.arange(6),
    "three dimensions": np.zeros((1, 2, 3), np.int64),
    "half as wide": WORDS.astype(np.int32),
    "without a sign": WORDS.astype(np.uint64),
    "floats": WORDS.astype(float),
    "the other end first": WORDS.astype(">i8"),
    "truth values": WORDS.astype(bool),
    "moments": WORDS.astype("datetime64[ns]"),
    "objects": WORDS.astype(object),
    "not aligned": np.frombuffer(bytearray(49), np.uint8)[1:].view(np.int64).reshape(2, 3),
    "a list": WORDS.tolist(),
    "a number": 7,
    "nothing": None,
    "a tuple": (1, 2),
}


@pytest.mark.parametrize("name", MISFITS)
def test_the_guard_refuses_what_the_kernel_was_not_compiled_for(used, name):
    with pytest.raises(TypeError, match=r"kernel pagestore\.sorting\.merge\.ascends .*argument 0 is of another type"):
        Door(ascends, Table).call(MISFITS[name])


def test_the_guard_refuses_what_may_not_be_written_to_and_too_few_or_many(used):
    door = Door(merge_order, Table, Words)
    order = np.empty(6, np.int64)
    order.flags.writeable = False
    for wrong in ((WORDS, order), (WORDS,), (WORDS, np.empty(6, np.int64), 1), ()):
        with pytest.raises(TypeError, match="merge_order"):
            door.call(*wrong)


def test_the_guard_lets_in_what_is_the_same_by_another_name(used):
    door = Door(ascends, Table)
    assert door.call(WORDS.astype(np.longlong)) and door.call(WORDS.copy())
    assert door.call(np.zeros((2, 0), np.int64)) and door.call(np.arange(8).reshape(1, 8)[:, 2:4].copy())


@pytest.mark.parametrize("change", ["another digest", "a file more", "nothing"])
def test_a_library_of_other_sources_is_left_alone(used, change, monkeypatch):
    said = json.loads(library.library().sources)
    name = next(iter(said))
    changed = {
        "another digest": {**said, name: "0" * 32},
        "a file more": {**said, "pagestore/no.py": "0" * 32},
        "nothing": {},
    }[change]
    assert library.sources_are_those(json.dumps(said)) and not library.sources_are_those(json.dumps(changed))
    monkeypatch.setattr(library, "sources_are_those", lambda text: False)
    library.library.cache_clear()
    assert library.library() is None and "were edited" in library.missing()


def test_a_file_that_is_no_library_and_a_processor_that_runs_none_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    library.library.cache_clear()
    assert library.library() is None and "no library of kernels" in library.missing()
    for level in library.levels():
        (tmp_path / f"{level}.abi3.so").write_bytes(b"\x7fELF, but nothing more")
    library.library.cache_clear()
    assert library.library() is None
    monkeypatch.setattr(library, "levels", list)
    library.library.cache_clear()
    assert library.library() is None and "this processor runs none" in library.missing()
    library.library.cache_clear()


FIRST = """
import sys
class Refuse:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import pathlib, tempfile
import ivm, pagestore
from pagestore.runtime import library
library.FOLDER = pathlib.Path(sys.argv[1])
with tempfile.TemporaryDirectory() as folder, ivm.open(folder + "/w.pages") as ws:
    ws.install("edge(x, y) -> int(x), int(y). tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).", name="p")
    with ws.transaction() as txn:
        txn.insert("edge", [(1, 2), (2, 3), (1, 3), (3, 4)])
    with ws.transaction() as txn:
        txn.insert("edge", [(2, 4)])
    print(list(ws["tri"]), ws.check(), ws.store.check())
"""


@pytest.mark.campaign
def test_everything_without_numba(tmp_path):
    assert build.main([str(tmp_path)]) == 0
    done = subprocess.run([sys.executable, "-c", FIRST, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "[(1, 2, 3), (2, 3, 4)] [] []", done.stderr


def test_imports_take_no_compiler():
    """Both packages, a store that is there to be opened, and the commands' help."""
    work = "import sys, pagestore, ivm; print([m for m in sys.modules if m in ('numba', 'llvmlite')])"
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True, env={**os.environ}, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stderr
