"""A store with names and texts that mean harm, and the server of `ivm studio` that shows it."""

import http.client
import json
import re
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import ivm

SCRIPT = "<script>document.title='taken'</script>"
HOSTILE = f"r{SCRIPT}\x1b[31m\u202ez"
LONG = "n" * 10_000
TEXTS = [
    SCRIPT,
    "x" * 10_000,
    "\x00\x1b[2J\u202eabc",
    "\u2067turned\u2069",
    "שלום עולם",
    "line\nend\ttab",
    "\ufeff",
]
RULES = """edge(x, y) -> int(x), int(y).
hop(x, z) <- edge(x, y), edge(y, z).
path(x, y) <- edge(x, y).
path(x, z) <- path(x, y), edge(y, z).
lonely(x) <- edge(x, _), !edge(_, x).
+edge(1, 2). +edge(2, 3). +edge(3, 4). +edge(1, 3).
"""


def fill(path: Path) -> None:
    """Make the store: 250 sales, a graph, and what is hostile."""
    with ivm.open(path) as ws:
        ws.sql("""CREATE TABLE sale (id BIGINT PRIMARY KEY, shop TEXT NOT NULL, price DECIMAL(8,2) NOT NULL, note TEXT);
            CREATE MATERIALIZED VIEW turnover AS SELECT shop, sum(price) AS total FROM sale GROUP BY shop""")
        with ws.transaction("sales") as txn:
            shops = "north", "south"
            sales = [
                (n, shops[n % 2], Decimal(n) / 4, "قهوة" if n % 7 else None) for n in range(249)
            ]
            txn.insert("sale", [*sales, (2**63 - 1, "far", Decimal("0.10"), None)])
        ws.install(RULES, name="graph")
        # more than one relation has
        columns = ", ".join(f"id % 7 + {n} AS c{n}" for n in range(100))
        ws.sql(f"CREATE MATERIALIZED VIEW wide AS SELECT {columns} FROM sale")
        with ws.transaction(f"<img src=x onerror=alert(1)>{TEXTS[2]}") as txn:
            txn.inner.create(HOSTILE, f"k{SCRIPT}: string").insert(TEXTS)
            txn.inner.create(LONG, f"c{'o' * 5000}: int64").insert([1])
        ws.store.tag(f"<b>{TEXTS[2]}")
        ws.store.branch("<i>side", "main")


class Studio:
    """A running `ivm studio`; `call` posts JSON as the page does."""

    def __init__(self, path: Path, *options: str) -> None:
        command = [sys.executable, "-m", "ivm", "studio", str(path), *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.url = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[\w-]{32}/)", self.url)
        assert found, self.process.stderr.read()
        self.port, self.prefix = int(found[1]), found[2]

    def ask(
        self, method: str, target: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict, bytes]:
        """Return the status, the headers and the body of an answer; the target is a whole path."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(
            method, target, body, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        answer = connection.getresponse()
        found = (
            answer.status,
            {name.lower(): value for name, value in answer.getheaders()},
            answer.read(),
        )
        connection.close()
        return found

    def call(self, what: str, **given: object) -> dict:
        """Return what a call answers, also an error."""
        body = json.dumps(given).encode()
        _, _, answer = self.ask(
            "POST", f"{self.prefix}api/{what}", body, Content_Type="application/json"
        )
        return json.loads(answer)

    def end(self) -> int:
        """End it by TERM; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        _, complaints = self.process.communicate(timeout=30)
        assert not complaints, complaints
        return self.process.returncode
