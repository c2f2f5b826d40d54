"""Rules that explode, in processes whose memory is limited from outside: an error of ours, and
nothing is lost.
"""

import subprocess
import sys

import pytest

SCRIPT = r"""
import os, re, resource, sys
import numpy as np
import ivm

RULES = {
    "pairs": "p(x, y) <- a(x), b(y).",
    "pairs that are computed": "p(x + y) <- a(x), b(y), x != y.",
    "sums of pairs": "p[x, y] = s <- agg<<s = sum(z)>> a(x), b(y), z = x * y.",
    "medians of pairs": "p[x] = s <- agg<<s = median(z)>> a(x), b(y), z = x * y.",
    "pairs that are not in a relation": "p(x, y) <- a(x), b(y), !hub(x, y).",
    "paths through a hub": "p(x, z) <- hub(x, y), hub(y, z).",
    "longer paths through a hub": "p(x, w) <- hub(x, y), hub(y, z), hub(z, w).",
    "a closure": "p(x, y) <- next(x, y). p(x, z) <- p(x, y), next(y, z).",
    "a closure by itself": "p(x, y) <- next(x, y). p(x, z) <- p(x, y), p(y, z).",
    "distances": "p[x, y] = d <- agg<<d = min(e)>> (next(x, y), e = 1 ; p[x, z] = c, next(z, y), e = c + 1).",
}
SQL = {
    "a product": "select a.x, b.x as y from a, b order by a.x + b.x",
    "windows over a product": "select a.x, rank() over (partition by b.x order by a.x) as r from a, b",
}
NUMBERS = np.arange(60_000)

def prepared(path):
    ws = ivm.open(path, sync="off", threads=2)
    pairs = "".join(f"{name}(x, y) -> int(x), int(y). " for name in ("hub", "next"))
    ws.install("a(x) -> int(x). b(x) -> int(x). small(x) -> int(x). " + pairs, name="facts")
    ws.install("kept(x) <- small(x), x > 1.", name="kept")
    spokes = np.zeros_like(NUMBERS[1:])
    with ws.transaction() as txn:
        txn.insert("a", [NUMBERS])
        txn.insert("b", [NUMBERS])
        txn.insert("small", [NUMBERS[:5]])
        txn.insert("hub", [np.append(spokes, NUMBERS[1:]), np.append(NUMBERS[1:], spokes)])
        txn.insert("next", [NUMBERS[:17_000], NUMBERS[:17_000] + 1])
    ws.query("q(x) <- small(x), x < 3.")
    return ws

def explode(ws, kind, what):
    if kind == "sql":
        return ws.sql(SQL[what])
    return ws.query(RULES[what]) if kind == "query" else ws.install(RULES[what], name="p")

def outcome(ws, kind, what):
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + (150 << 20), before[1]))
    version = ws.store.version
    try:
        explode(ws, kind, what)
        return "done"
    except ivm.errors.LimitError as error:
        if not re.match(r"(query|p):\d+:\d+: [a-z ]+: .*\d rows so far", str(error)):
            return str(error)
    assert ws.store.version == version and "p" not in ws
    with ws.transaction() as txn:
        txn.insert("small", [(77,)])
    assert (77,) in list(ws["kept"]) and ws.store.version == version + 1
    resource.setrlimit(resource.RLIMIT_AS, before)
    assert not (found := [*ws.store.check(), *ws.check()]), found
    return "LimitError, and nothing is lost"

kind = sys.argv[1]
for number, what in enumerate(SQL if kind == "sql" else RULES):
    if os.fork() == 0:  # a store belongs to the process that opened it
        try:
            print(f"{what}: {outcome(prepared(f'{sys.argv[2]}.{number}'), kind, what)}", flush=True)
        except BaseException as error:
            print(f"{what}: {type(error).__name__} {error}", flush=True)
        os._exit(0)
    if os.wait()[1]:
        print(f"{what}: ended by a signal", flush=True)
"""


@pytest.mark.parametrize(("kind", "number"), [("install", 10), ("query", 10), ("sql", 2)])
def test_rules_that_explode(tmp_path, kind, number):
    """The error says which step met how many rows; the store is as before, and the next
    transaction follows.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, tmp_path / "s"], capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == number, done.stderr
    assert {line.partition(": ")[2] for line in lines} == {"LimitError, and nothing is lost"}, (
        done.stdout
    )
