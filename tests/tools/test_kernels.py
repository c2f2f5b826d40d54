"""Kernels compiled ahead of time: what a library has, what its guards let in, and when it is
used.
"""

import gc
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import config, typeof
from numba.core.errors import NumbaError

from pagestore.runtime import library
from pagestore.runtime.jit.types import fits, types_of
from pagestore.runtime.kernel import TypedKernel, kernel
from pagestore.runtime.types import (
    Bytes,
    ByteTable,
    Flags,
    HalfWords,
    Key,
    MappedWords,
    Table,
    Tables,
    Words,
    guarded,
)
from pagestore.sorting.codes import ascends, merge_order
from pagestore_tools.kernels import build
from tests.support.programs.amounts import times

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(
        config.DISABLE_JIT or config.BOUNDSCHECK, reason="compiled otherwise, or not"
    ),
    pytest.mark.skipif(not library.levels(), reason="no library is made for such a processor"),
]


@pytest.fixture(autouse=True)
def any_kernels(monkeypatch):
    """These tests choose among libraries themselves, whatever the others run with."""
    monkeypatch.delenv("PAGESTORE_KERNELS", raising=False)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A library of the few kernels that merge, in its folder."""
    folder = tmp_path_factory.mktemp("shipped")
    assert build.main([str(folder), "--only", "ascends,merge_order"]) == 0
    return folder


@pytest.fixture
def used(shipped, monkeypatch):
    monkeypatch.setattr(library, "FOLDER", shipped)
    library.library.cache_clear()
    yield
    library.library.cache_clear()


def test_the_library_has_every_kernel_that_any_module_calls():
    """Also those of modules that are imported late: else numba is imported, and compiles, when a
    statement is first run.  A build has no package but numba and numpy.
    """
    made = re.compile(r"^\w+ = (TypedKernel|FunctionPointer)\(", re.MULTILINE)
    files = [path for name in ("ivm", "pagestore") for path in (ROOT / name).rglob("*.py")]
    calling = {
        ".".join(p.relative_to(ROOT).with_suffix("").parts)
        for p in files
        if made.search(p.read_text())
    }
    code = """
import sys
sys.modules |= dict.fromkeys(["pyarrow", "sqlglot", "zstandard", "sortedcontainers", "crc32c"])
from pagestore_tools.kernels import build
build._entries("")
print(*sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(calling) > 20
    assert calling - {*run.stdout.split()} == set()


def test_the_best_level_is_loaded_and_has_what_was_asked_for(used):
    module = library.library()
    assert sorted(key.split()[0].rpartition(".")[2] for key in module.functions) == [
        "ascends",
        "merge_order",
    ]
    assert library.shipped(ascends, (Words,)) is None  # for other types


def test_a_typed_kernel_takes_the_shipped_code_and_it_says_what_numbas_says(used, monkeypatch):
    monkeypatch.setattr(type(merge_order), "compile", None)  # nothing is compiled
    keys, order = np.random.default_rng(1).integers(0, 9, (2, 40)), np.empty(80, np.int64)
    TypedKernel(merge_order, Table, Words).call(keys, order)
    assert order[:40].tolist() == np.lexsort(keys[::-1]).tolist()
    typed = TypedKernel(ascends, Table)
    assert typed.call(np.array([[1, 2, 2], [3, 4, 5]])) and not typed.call(
        np.array([[1, 2, 2], [3, 5, 4]])
    )


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
    with pytest.raises(
        TypeError,
        match=r"kernel pagestore\.sorting\.codes\.ascends .*argument 0 is of another type",
    ):
        TypedKernel(ascends, Table).call(MISFITS[name])


def test_the_guard_refuses_what_may_not_be_written_to_and_too_few_or_many(used):
    typed = TypedKernel(merge_order, Table, Words)
    order = np.empty(6, np.int64)
    order.flags.writeable = False
    for wrong in ((WORDS, order), (WORDS,), (WORDS, np.empty(6, np.int64), 1), ()):
        with pytest.raises(TypeError, match="merge_order"):
            typed.call(*wrong)


def test_the_guard_lets_in_what_is_the_same_by_another_name(used):
    typed = TypedKernel(ascends, Table)
    assert typed.call(WORDS.astype(np.longlong)) and typed.call(WORDS.copy())
    assert typed.call(np.zeros((2, 0), np.int64)) and typed.call(
        np.arange(8).reshape(1, 8)[:, 2:4].copy()
    )


@pytest.mark.parametrize("change", ["another digest", "a file more", "nothing"])
def test_a_library_of_other_sources_is_left_alone(used, change, monkeypatch):
    said = json.loads(library.library().sources)
    name = next(iter(said))
    changed = {
        "another digest": {**said, name: "0" * 32},
        "a file more": {**said, "pagestore/no.py": "0" * 32},
        "nothing": {},
    }[change]
    assert library.sources_are_those(json.dumps(said)) and not library.sources_are_those(
        json.dumps(changed)
    )
    monkeypatch.setattr(library, "sources_are_those", lambda text: False)
    library.library.cache_clear()
    assert library.library() is None and "were edited" in library.missing()


def test_a_file_that_is_no_library_and_a_processor_that_runs_none_are_left_alone(
    tmp_path, monkeypatch
):
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


# --- the guard, against its twin in Python and against numba
# --------------------------------------------------


@kernel
def takes(value):
    return 1


class Group(NamedTuple):
    table: Table
    number: int
    flag: bool


TYPES = {
    "int": int, "bool": bool, "words": Words, "mapped": MappedWords, "halves": HalfWords,
    "bytes": Bytes,
    "flags": Flags, "table": Table, "byte table": ByteTable, "tables": Tables, "key": Key(2),
    "group": Group,
}  # fmt: skip
TYPED = {name: TypedKernel(takes, type_) for name, type_ in TYPES.items()}
DTYPES = ["i8", "i4", "u8", "u4", "u1", "i1", "?", "f8", ">i8", "q", "M8[ns]", "O"]


@pytest.fixture(scope="module")
def guards(tmp_path_factory):
    """`takes` of each type, out of a library that is made here."""
    build._begin(build._entries(__name__), build.LEVELS[library.levels()[0]])
    entries = build._compile_group([*build._Process.entries])
    gc.enable()
    path = build.link(tmp_path_factory.mktemp("guards"), entries)
    build.check_library(path)
    functions = library.loaded(path).functions
    return {
        name: functions[library.key_of(takes, typed.arguments)] for name, typed in TYPED.items()
    }


@st.composite
def arrays(draw):
    """Arrays of any type, order, stride, alignment and leave to write."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.lists(st.integers(0, 3), min_size=0, max_size=4))
    array = np.zeros(shape, dtype, order=draw(st.sampled_from("CF")))
    how = draw(
        st.sampled_from(
            ["as it is", "strided", "reversed", "transposed", "read-only", "misaligned"]
        )
    )
    if how == "strided" and shape:
        array = np.zeros([2 * n for n in shape], dtype)[(slice(None, None, 2),) * len(shape)]
    elif how == "reversed" and shape:
        array = array[::-1]
    elif how == "transposed":
        array = array.T
    elif how == "read-only":
        array.flags.writeable = False
    elif how == "misaligned" and dtype.kind != "O":
        raw = np.zeros(array.size * dtype.itemsize + 1, np.uint8)[1:]
        array = raw.view(dtype).reshape(shape)
    return array


words = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.sampled_from([np.int32(3), np.uint8(4), np.True_]),
)
others = st.sampled_from([None, 1.5, "7", b"7", np.float64(2), [1, 2], {}, np.array(3)])
values = st.recursive(
    st.one_of(arrays(), words, others),
    lambda parts: st.lists(parts, max_size=4).map(tuple),
    max_leaves=4,
)


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=times(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_guard_lets_in_what_its_twin_and_numba_do(guards, name, data):
    near = {
        "key": st.lists(words, max_size=3).map(tuple),
        "group": st.tuples(arrays(), words, st.one_of(words, others)),
    }
    value = data.draw(st.one_of(values, near.get(name, arrays())))
    twin = guarded(lambda *given: 1, "takes", TYPED[name].arguments)
    answers = []
    for call in (guards[name], twin):
        try:
            answers.append(call(value))
        except TypeError as error:
            assert "takes" in str(error)
            answers.append(0)
    assert answers[0] == answers[1], value
    if isinstance(value, np.ndarray):
        try:
            given_type = typeof(value)
        except (NumbaError, ValueError, NotImplementedError):
            # of an array that numba does not know
            given_type = None
        aligned = value.flags.aligned  # numba does not look
        assert answers[0] == (aligned and fits(types_of(TYPES[name])[0], given_type))


# --- without numba
# ---------------------------------------------------------------------------------------------


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
    done = subprocess.run(
        [sys.executable, "-c", FIRST, str(tmp_path)], capture_output=True, text=True
    )
    assert done.stdout.split("\n")[0] == "[(1, 2, 3), (2, 3, 4)] [] []", done.stderr


def test_what_must_be_compiled_says_so_where_there_is_no_compiler(tmp_path):
    """A host's kernel and an operator; and the engine's own kernels, if none were shipped."""
    work = """
        import sys
        sys.modules["numba"] = None
        import pagestore
        from pagestore.compiled import kernel
        from pagestore.errors import CompilerError
        from pagestore.runtime import library
        @kernel
        def own(x):
            return x
        def stored():
            library.library.cache_clear()
            library.FOLDER = library.Path(sys.argv[1])
            pagestore.open(sys.argv[1] + "/a.pages")
        for work in lambda: own(1), lambda: pagestore.register_operator("bitand", lambda a, b: a & b, -1), stored:
            try:
                work()
            except CompilerError as error:
                print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(work), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    assert all(
        line.endswith("numba is not installed: pip install 'pagestore-ivm[jit]'") for line in lines
    )
    assert (
        "the operator 'bitand'" in lines[1]
        and f"no library of kernels is in {tmp_path}" in lines[2]
    )


LATE = ("numba", "llvmlite", "pyarrow", "lark", "email", "sortedcontainers", "zstandard", "pandas")
STAGES = """
import sys, tempfile
def late(): print(*[name for name in LATE if name in sys.modules])
import pagestore
late()
import ivm
from tests.support.programs.amounts import times
late()
with tempfile.TemporaryDirectory() as folder:
    with pagestore.open(folder + "/a.pages") as store:
        late()
        with store.transaction() as txn:
            txn.create("edge", "x: int64, y: int64", key=("x", "y"), scans=["count"]).insert([(1, 2), (2, 3)])
        late()
        list(store.snapshot()["edge"])
        store.snapshot()["edge"].range((1,), (2,)).scan("count")
        late()
    with ivm.open(folder + "/a.pages") as ws:
        late()
        ws.install("edge(x, y) -> int(x), int(y). p(x, z) <- edge(x, y), edge(y, z).", name="p")
        late()
"""


def test_packages_are_imported_when_something_of_theirs_is_used():
    """After both imports, an opened store, a commit, an answer, an opened workspace and an
    installed rule.
    """
    done = subprocess.run(
        [sys.executable, "-c", f"LATE = {LATE}{STAGES}"], capture_output=True, text=True, cwd=ROOT
    )
    assert not done.returncode, done.stderr
    allowed = [*[set()] * 6, {"lark"}]
    compiling = set() if library.library() else {"numba", "llvmlite"}
    for stage, (line, most) in enumerate(zip(done.stdout.splitlines(), allowed, strict=True)):
        assert {*line.split()} <= most | (compiling if stage > 1 else set()), (stage, done.stderr)
