"""Commits that make a file longer than a process may map: an error of ours, and nothing is lost."""

import subprocess
import sys

import pytest

SCRIPT = r"""
import resource, sys
import numpy as np
import ivm, pagestore
from pagestore.errors import OutOfMemoryError

path, kind, left = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 20
ROWS = 600_000
ws = ivm.open(path, sync="off", threads=1)
ws.install("a(x, y) -> int(x), int(y). s(x) -> int(x).", name="facts")
if kind == "views":
    ws.install("kept(x) <- s(x), x > 1. c[] = n <- agg<<n = count()>> a(x, _).", name="views")

def insert(name, columns):
    if kind == "views":
        with ws.transaction() as txn:
            txn.insert(name, columns)
    else:
        with ws.store.transaction() as txn:
            txn[name].insert(columns)

insert("a", [np.arange(ROWS), np.arange(ROWS)])
insert("s", [np.arange(5)])
for number in range(-2, 1):  # kernels are compiled, if they are not shipped
    insert("a", [np.arange(30_000) - number * 30_000 + 2 * ROWS] * 2)
    insert("s", [np.array([50 + number])])
    assert len(list(ws["s"])) and not ws.check()
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
unlimited = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (taken + left, unlimited[1]))
refused = 0
for number in range(1, 100):
    version, rows = ws.store.version, len(ws["a"])
    name, given = ("s", [np.array([100 + number])]) if refused else ("a", [np.arange(200_000) - number * 200_000] * 2)
    try:
        insert(name, given)
    except (OutOfMemoryError, ivm.errors.RoomError) as error:
        assert "the system refused" in str(error), error
        assert (ws.store.version, len(ws["a"])) == (version, rows)
        refused += 1
    if refused == 2 or (refused and name == "s"):
        break
assert refused, "nothing was refused: this tests nothing"
resource.setrlimit(resource.RLIMIT_AS, unlimited)
insert("s", [np.array([99])])
assert (99,) in list(ws["kept" if kind == "views" else "s"])
found = [*ws.store.check(), *ws.check()]
print(found or "refused, and nothing is lost")
"""


@pytest.mark.parametrize("kind", ["views", "relations"])
@pytest.mark.parametrize("left", [8, 24])
def test_a_file_that_may_not_be_mapped(tmp_path, kind, left):
    given = [sys.executable, "-W", "ignore", "-c", SCRIPT, tmp_path / "s.pages", kind, str(left)]
    done = subprocess.run(given, capture_output=True, text=True)
    assert done.stdout == "refused, and nothing is lost\n", done.stderr
