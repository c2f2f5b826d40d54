"""The same random histories of views on this project and on others: how many answers are right.

Each engine runs in a process of its own (engines.py), with the interpreter that is given: one in
which `pyturso`, `pathway[sql]`, `duckdb`, `doltlite` and `psycopg` are installed, or some of them.
DuckDB and DoltLite, which keep no views, compute the answer again after each transaction.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks import Command

from ..clients import POSTGRES, postgres
from .engines import ENGINES
from .histories import VIEWS

OUTCOMES = ["right", "refused", "failed", "wrong"]
SECONDS = 3600  # that an engine may take


def outcomes(
    name: str, interpreter: str, histories: int, url: str = ""
) -> Counter[tuple[str, ...]]:
    """Return how often each (kind, outcome) occurred; empty where the engine is not installed."""
    command = [interpreter, "-m", "benchmarks.peers.engines", name, "0", str(histories)]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PEER_POSTGRES": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = [line.split(": ") for line in done.stdout.splitlines()]
    return Counter((kind, found) for kind, found in lines if kind in VIEWS and found in OUTCOMES)


def run(options: argparse.Namespace) -> int:
    """Print a row for each engine; return 1 if an answer of this project was not right."""
    print(f"| engine | {' | '.join(OUTCOMES)} | wrong in |")
    print("|---|" + "---|" * (len(OUTCOMES) + 1))
    ours = 0
    for name in options.engines or ENGINES:
        if name == "postgres" and not Path(POSTGRES).exists():
            counts = Counter[tuple[str, ...]]()
        elif name == "postgres":
            with tempfile.TemporaryDirectory() as folder, postgres(Path(folder), 1) as server:
                counts = outcomes(name, options.python, options.histories, server.url)
        else:
            python = sys.executable if name == "pagestore" else options.python
            counts = outcomes(name, python, options.histories)
        if not counts:
            print(f"| {name} | not installed |" + " |" * len(OUTCOMES), flush=True)
            continue
        sums = [sum(n for (_, found), n in counts.items() if found == one) for one in OUTCOMES]
        kinds = ", ".join(sorted(kind for kind, found in counts if found == "wrong"))
        print(f"| {name} | {' | '.join(map(str, sums))} | {kinds} |", flush=True)
        if name == "pagestore":
            ours = sum(sums) - sums[0]
    return int(ours > 0)


PEERS = Command(run, {
    "--histories": {"type": int, "default": 1000, "help": "random histories, of 21 kinds of views in turns"},
    "--python": {"default": sys.executable, "help": "the interpreter that has the other engines"},
    "--engines": {"nargs": "*", "choices": [*ENGINES], "help": "some of them; all unless given"},
})  # fmt: skip
