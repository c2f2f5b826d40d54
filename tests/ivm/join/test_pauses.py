"""Joins return now and then, so that a signal is handled; what they find does not depend on when they do."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import random
import ivm
from ivm.join.kernels import flat_join, leapfrog

pause = {pause}
flat_join.PAUSE = leapfrog.PAUSE = pause
QUERIES = {{
    "q(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).":
        lambda e: {{(x, y, z) for x, y in e for v, z in e if y == v and (x, z) in e}},
    "q(x, w) <- edge(x, y), edge(y, z), edge(z, w).":
        lambda e: {{(x, w) for x, y in e for v, z in e if y == v for u, w in e if z == u}},
    "q(x, y) <- edge(x, y), edge(y, z), !edge(z, x), x < z.":
        lambda e: {{(x, y) for x, y in e for v, z in e if y == v and (z, x) not in e and x < z}},
}}
for seed in range(3):
    rng = random.Random(seed)
    edges = {{(rng.randint(0, 6), rng.randint(0, 6)) for _ in range(22)}}
    for maintenance in "match", "probe":
        with ivm.open(":memory:", threads=1) as ws:
            ws.install("edge(x, y) -> int(x), int(y).", "facts")
            ws.insert("edge", sorted(edges))
            for n, (text, truth) in enumerate(QUERIES.items()):
                assert {{*ws.query(text)}} == truth(edges), (seed, text)
                ws.install(text.replace("q(", f"v{{n}}("), f"v{{n}}", maintenance=maintenance)
                assert {{*ws[f"v{{n}}"]}} == truth(edges), (seed, text, maintenance)
            now = set(edges)
            for _ in range(3):
                gone, new = rng.choice(sorted(now)), (rng.randint(0, 6), rng.randint(0, 6))
                now = now - {{gone}} | {{new}}
                with ws.transaction() as txn:
                    txn.delete("edge", [gone])
                    txn.insert("edge", [new])
            for n, (text, truth) in enumerate(QUERIES.items()):
                assert {{*ws[f"v{{n}}"]}} == truth(now), (seed, text, maintenance)
            assert ws.check() == []
print("equal")
"""


def test_joins_that_pause_after_each_operation_find_the_same(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore::RuntimeWarning"}
    command = [sys.executable, "-c", PROGRAM.format(pause=1)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert done.stdout == "equal\n", done.stderr
