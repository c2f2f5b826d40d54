"""The queries of Nexmark kept by other engines over the same events: right, wrong or refused, and how
long all took.

Each query runs in a process of its own (streamed.py), with the interpreter that is given: one in
which `pyturso`, `pathway[sql]` and `duckdb` are installed, or some of them.
"""

import argparse
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from benchmarks import Command

from ..streams import STREAMS, Peer, bag
from .streamed import ENGINES

BATCHES = [1] * 20 + [100] * 10
SECONDS = 120  # that a query may take
ENDED = {"turso": {"q3", "q15", "q16", "q17", "q20"}}  # which end its process


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table as tuples."""
    return [(*row.values(),) for row in table.to_pylist()]


def asked(python: str, engine: str, folder: Path) -> dict[str, Any]:
    """Return what came of the query in a folder."""
    answer = folder / "answer.pickle"
    answer.unlink(missing_ok=True)
    command = [python, "-m", "benchmarks.peers.streamed", engine, str(folder)]
    root = Path(__file__).parents[2]
    try:
        subprocess.run(command, cwd=root, timeout=SECONDS, capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        return {"outcome": f"more than {SECONDS} s"}
    found = pickle.loads(answer.read_bytes()) if answer.exists() else {"outcome": "failed"}
    return dict(found)


def told(done: dict[str, Any], peer: Peer, query: str) -> str:
    """Return what came of a query, and the milliseconds of processor time of all, and of batches of
    1 and of 100, where an engine is given one after the other.
    """
    if done["outcome"] != "kept":
        return str(done["outcome"])
    took, right = done["took"], bag(done["rows"]) == bag(peer.answer(query))
    each = [took[-len(BATCHES) : -10], took[-10:-1]] if len(took) > 1 else []
    batches = ", ".join(f"{median(some):.2g}" for some in each)
    return f"{'right' if right else 'wrong'}, {sum(took):,.0f} ms" + f" ({batches})" * bool(each)


def run(options: argparse.Namespace) -> int:
    """Print a row of a table for each query."""
    stream, at = STREAMS["nexmark"], options.size
    peer, batches = Peer(stream, stream.state(at)), list[dict[str, Any]]()
    for size in BATCHES:
        edits = stream.batch(options.size, at, size)
        peer.edit(edits)
        batches.append({name: rows_of(rows) for _, name, rows in edits})
        at += size
    state = {name: rows_of(rows) for name, rows in stream.state(options.size).items()}
    engines = options.engines or [*ENGINES]
    print(f"| query, {options.size:,} events | {' | '.join(engines)} |")
    print(f"|---|{'---|' * len(engines)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for query in options.queries or stream.queries:
            text, cells = stream.queries[query], list[str]()
            given = stream.schema, text, state, batches
            (folder / "stream.pickle").write_bytes(pickle.dumps(given))
            for engine in engines:
                ended = query in ENDED.get(engine, ())
                done = {"outcome": "failed"} if ended else asked(options.python, engine, folder)
                cells.append(told(done, peer, text))
            print(f"| {query} | {' | '.join(cells)} |", flush=True)
    return 0


STREAM_PEERS = Command(run, {
    "--size": {"type": int, "default": 100_000, "help": "events before the first batch"},
    "--python": {"default": sys.executable, "help": "the interpreter that has the other engines"},
    "--engines": {"nargs": "*", "choices": [*ENGINES], "help": "some of them; all unless given"},
    "--queries": {"nargs": "*", "help": "some of them, as q3; all unless given"},
})  # fmt: skip
