"""What a type checker says to users: a wrong option is found before the program runs, and a
right program is right.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = """
from typing import Any

import ivm
import pagestore
from ivm.spark import Cells, materialize

store = pagestore.open("a.pages", mode="w")  # wrong
store = pagestore.open("a.pages", sync="none")  # wrong
store = pagestore.open("a.pages", retain="some")  # wrong
store = pagestore.open("a.pages", mode="r", sync="commit", retain="all", timeout=1)
ws = ivm.open("a.pages", mode="w")  # wrong
ws = ivm.open("a.pages", memory="1 GiB")  # wrong
ws = ivm.open("a.pages", mode="rw", sync="off", retain=3)
ws.install("p(x) <- q(x).", maintenance="fast")  # wrong
ws.install("p(x) <- q(x).", maintenance="probe", replace=True)
ws.replace("main", "p(x) <- q(x).", maintenance="fast")  # wrong
ws.replace("main", "p(x) <- q(x).", granularity=4)
ws.delete_range("p", 3, 4)  # wrong
with ws.transaction() as txn:
    txn.insert([(1, 2)])  # wrong
    txn.insert("p", [(1, 2)])
version: str = ws.insert("p", (1, 2))  # wrong


ANY: Any = None


def refresh() -> None:
    Cells.open("cells", mode="w")  # wrong
    Cells.open("cells", mode="r")
    Cells.create("cells", "p(x) <- q(x).", 2, granularity=4, options={"sync": "off"})
    Cells.create("cells", "p(x) <- q(x).", 2, granul=4)  # wrong
    Cells.create("cells", "p(x) <- q(x).", 2, options={"sync": "none"})  # wrong
    materialize(ANY, "sales", "p(x) <- q(x).", {}, incremental="yes")  # wrong
    materialize(ANY, "sales", "p(x) <- q(x).", {}, incremental="strict", memory=1 << 30)
    materialize(ANY, "sales", "p(x) <- q(x).", {}, thread=3)  # wrong
    materialize(ANY, "sales", "p(x) <- q(x).", {}, mode="w")  # wrong
"""


def test_mypy_finds_wrong_options(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(PROGRAM)
    command = [
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--config-file=",
        "--follow-imports=silent",
    ]
    cache = [
        "--cache-dir",
        str(ROOT / ".mypy_cache" / "users"),
        "--ignore-missing-imports",
        str(tmp_path / "wrong.py"),
    ]
    done = subprocess.run(
        [sys.executable, *command, *cache], capture_output=True, text=True, cwd=ROOT
    )
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    wanted = {
        number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")
    }
    assert found == wanted, done.stdout + done.stderr
