"""Count the files and moves of walks through the code: `python -m tests.walks`.

    a key to disk            transaction, insert, commit
    a text to plans          rules that every pass has to do with, compiled against a store
    a text to rows           one rule installed over a relation with rows
    a store to rules         a store opened that has a block of rules, and these compiled
    a delta to rows          two edges into the relation that two views read
    a query of SQL to its rows         one join and one group; and the same query as a rule

Then it prints the measures of tests/walks/gates.py, with what each is to be at most.

A *move* is a call from one file of the packages into another. It *climbs* if the file that is
called imports, directly or through others, the file that calls. `NUMBA_DISABLE_JIT=1` lets kernels
run as plain Python, so that they are seen.
"""

import gc
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tests.walks.gates import gates

ROOT = Path(__file__).parents[2]
PACKAGES = ("pagestore", "ivm", "tools")
KERNELS = re.compile("/kernels/|^pagestore/(pages|sorting)/")
RULES = "triangle(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).  degree[x] = d <- agg<<d = count()>> edge(x, _)."
DECLARATION = "edge(x, y) -> int(x), int(y)."
PASSES = """  // something to do for every pass
    triangle(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).
    quiet(x) <- edge(x, _), !(edge(x, y), edge(y, _)), edge(_, _).
    tenth(x, z) <- edge(x, y), edge(y / 10, z).
    after(x, y) <- edge(x, _), edge:next[x] = y.
    week[x] = n <- agg<<n = max(y)>> edge(x, _), edge(z, y), z <= x, z > x - 7.
    most[x] = m <- agg<<m = max(y)>> edge(x, y).  least[] = m <- agg<<m = min(y)>> edge(_, y).
    reach(x, y) <- edge(x, y).  reach(x, z) <- reach(x, y), edge(y, z).
"""
EDGES = [(1, 2), (2, 3), (1, 3), (3, 4)]


class Walk(NamedTuple):
    """The moves from file to file of one piece of work, each with how often it was made."""

    moves: Counter[tuple[str, str]]

    @property
    def files(self) -> set[str]:
        """The files that were entered."""
        return {file for move in self.moves for file in move}

    @property
    def parses(self) -> int:
        """How often the parser was asked for a text's statements, of which it keeps some."""
        return sum(times for (_, file), times in self.moves.items() if file == "ivm/lang/parse.py")

    def measured(self, above: Callable[[str, str], bool]) -> tuple[int, int, int]:
        """The files, the calls from one into another, and the climbs, where a kernel and all
        below it is one call.
        """
        seen = Walk(
            Counter(
                {move: n for move, n in self.moves.items() if not any(map(KERNELS.search, move))}
            )
        )
        return len(seen.files), sum(seen.moves.values()), len(seen.climbs(above))

    def climbs(self, above: Callable[[str, str], bool]) -> list[tuple[str, str]]:
        """The moves into a file that stands above the one which calls."""
        return sorted(move for move in self.moves if above(move[1], move[0]))


def walks() -> dict[str, Walk]:
    """All walks, each in a store of its own, after one that is not watched: imports and caches
    are no moves.
    """
    found, of = {}, {
        "a key to disk": _key, "a text to plans": _plans, "a text to rows": _text,
        "a store to rules": _rules,
        "a delta to rows": _delta, "a query of SQL to its rows": _sql,
        "the same query as a rule": _query,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, walk in of.items():
            walk(Path(folder) / "warm.pages", _unwatched)
            Path(folder, "warm.pages").unlink()
            found[name] = walk(Path(folder) / f"{name}.pages", watched)
    return found


def _key(path: Path, watch: Callable[[], Any]) -> Walk:
    import pagestore

    with pagestore.open(path) as store:
        with store.transaction() as txn:
            txn.create("edge", "x: int64, y: int64").insert(EDGES)
        with watch() as moves, store.transaction() as txn:
            txn["edge"].insert([(3, 5)])
    return Walk(moves)


def _text(path: Path, watch: Callable[[], Any]) -> Walk:
    with _with_facts(path) as ws, watch() as moves:
        ws.install(RULES.partition("  ")[0], name="rules")
    return Walk(moves)


def _plans(path: Path, watch: Callable[[], Any]) -> Walk:
    from ivm.rules.compile import with_block
    from ivm.rules.installed import Options
    from ivm.rules.relations import Relations

    with _with_facts(path) as ws, ws.store.sketch() as sketch:
        installed = ws.rules_of(sketch)
        with watch() as moves:
            with_block(PASSES, installed, Relations(sketch), "rules", Options())
    return Walk(moves)


def _rules(path: Path, watch: Callable[[], Any]) -> Walk:
    import ivm

    with _with_facts(path) as ws:
        ws.install(RULES, name="rules")
    with watch() as moves, ivm.open(path) as ws:
        assert ws.blocks
    return Walk(moves)


def _delta(path: Path, watch: Callable[[], Any]) -> Walk:
    with _with_facts(path) as ws:
        ws.install(RULES, name="rules")
        with watch() as moves, ws.transaction() as txn:
            txn.insert("edge", [(1, 4), (2, 4)])
    return Walk(moves)


def _sql(path: Path, watch: Callable[[], Any]) -> Walk:
    with _with_facts(path) as ws, watch() as moves:
        ws.sql(
            "SELECT a.x, count(*) AS n FROM edge a JOIN edge b ON a.y = b.x GROUP BY a.x"
        ).to_arrow()
    return Walk(moves)


def _query(path: Path, watch: Callable[[], Any]) -> Walk:
    with _with_facts(path) as ws, watch() as moves:
        ws.query("q[x] = n <- agg<<n = count()>> edge(x, y), edge(y, z).").to_arrow()
    return Walk(moves)


def _with_facts(path: Path) -> Any:
    """Open a workspace that has the edges and no rule yet."""
    import ivm

    ws = ivm.open(path)
    ws.install(DECLARATION, name="facts")
    with ws.transaction() as txn:
        txn.insert("edge", EDGES)
    return ws


@contextmanager
def _unwatched() -> Iterator[Counter[tuple[str, str]]]:
    yield Counter()


@contextmanager
def watched() -> Iterator[Counter[tuple[str, str]]]:
    """Count the calls from one file of the packages into another until the block ends."""
    moves: Counter[tuple[str, str]] = Counter()
    names: dict[CodeType, str | None] = {}

    def file_of(frame: FrameType | None) -> str | None:
        """The nearest file of the packages, from a frame on outwards: what other libraries call
        back counts as ours.
        """
        while frame:
            if frame.f_code not in names:
                path = Path(frame.f_code.co_filename)
                inside = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES
                names[frame.f_code] = str(path.relative_to(ROOT)) if inside else None
            if name := names[frame.f_code]:
                return name
            frame = frame.f_back
        return None

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (callee := file_of(frame)) and names[frame.f_code]:
            caller = file_of(frame.f_back)
            if caller and caller != callee:
                moves[caller, callee] += 1

    gc.collect()
    gc.disable()  # what it finalizes belongs to no walk
    sys.setprofile(called)
    try:
        yield moves
    finally:
        sys.setprofile(None)
        gc.enable()


def import_order() -> Callable[[str, str], bool]:
    """Whether one file stands above another: it imports the other, directly or through others."""
    import grimp

    graph = grimp.build_graph("pagestore", "ivm", cache_dir=None)
    below: dict[str, set[str]] = {}

    def above(file: str, other: str) -> bool:
        module, lower = _module(file), _module(other)
        if module not in below:
            below[module] = (
                graph.find_upstream_modules(module) if module in graph.modules else set()
            )
        return lower in below[module]

    return above


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def main() -> int:
    """Print the counts, every climb, and all measures; return 1 if one is beyond its limit."""
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
        return subprocess.run(
            [sys.executable, "-m", "tests.walks"], env=environment, cwd=ROOT
        ).returncode
    above = import_order()
    counted = dict[str, tuple[int, int, int]]()
    for name, walk in walks().items():
        climbs = walk.climbs(above)
        counts = f"{len(walk.files)} files, {len(walk.moves)} moves, {len(climbs)} climbs"
        print(f"{name}: {counts}" + f", {walk.parses} parses" * bool(walk.parses))
        for caller, callee in climbs:
            print(f"    {caller} calls {callee}")
        counted[name] = walk.measured(above)
    print(f"\n{'':68} {'now':>9} {'at most':>9}")
    found = gates(counted)
    print(*found, sep="\n")
    return int(not all(gate.holds for gate in found))
