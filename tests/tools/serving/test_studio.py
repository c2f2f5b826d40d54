"""`ivm studio` answers those who know its token, from this machine and this origin, with bounded
answers.
"""

import asyncio
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import ivm
import pagestore
from ivm import Answer
from pagestore_tools.cli.main import ivm as command
from pagestore_tools.serving import inspection
from pagestore_tools.serving import studio as studio_command
from tests.support.waiting import until
from tests.tools.serving.served import HOSTILE, LONG, SCRIPT, Studio

PAGE = Path(inspection.__file__).parent / "page"
EDIT = "DELETE FROM sale WHERE id = 7; INSERT INTO sale VALUES (900, 'new', 1.5, NULL)"
JSON = {"Content_Type": "application/json"}


def test_only_who_knows_the_token_and_comes_from_this_origin_is_answered(shown):
    overview = f"{shown.prefix}api/overview"
    own = f"http://127.0.0.1:{shown.port}"
    assert shown.ask("GET", shown.prefix)[0] == 200
    assert (
        shown.ask("POST", overview, b"{}", Origin=own, Sec_Fetch_Site="same-origin", **JSON)[0]
        == 200
    )
    assert shown.ask("POST", overview, b"{}", Host=f"localhost:{shown.port}", **JSON)[0] == 200
    refused = [
        ("GET", "/", {}),
        ("GET", f"/{'x' * 32}/", {}),
        ("GET", f"/{shown.prefix.strip('/')[:-1]}/", {}),
        ("GET", "/%C3%A9/", {}),
        ("GET", "*", {}),
        ("GET", shown.prefix, {"Host": f"evil.example:{shown.port}"}),
        ("GET", shown.prefix, {"Host": "127.0.0.1"}),
        ("POST", overview, {"Origin": "http://evil.example", **JSON}),
        ("POST", overview, {"Origin": "null", **JSON}),
        ("POST", overview, {"Origin": f"http://127.0.0.1:{shown.port + 1}", **JSON}),
        ("POST", overview, {"Sec_Fetch_Site": "cross-site", **JSON}),
        ("GET", f"{shown.prefix}api/events", {"Sec_Fetch_Site": "same-site"}),
    ]
    for method, target, headers in refused:
        status, _, body = shown.ask(method, target, b"{}" if method == "POST" else None, **headers)
        assert (status, b"sale" in body) in ((403, False), (400, False)), (target, headers)


def test_wrong_calls_are_refused_by_a_sentence(shown):
    api = f"{shown.prefix}api/"
    assert shown.ask("GET", f"{api}overview")[0] == 405
    # as a form could send it
    assert shown.ask("POST", f"{api}overview", b"{}", Content_Type="text/plain")[0] == 415
    assert shown.ask("POST", f"{api}close", b"{}", **JSON)[0] == 404
    assert shown.ask("POST", f"{api}overview", b"{" + b" " * (1 << 20), **JSON)[0] == 400
    for what, given in [
        ("rows", {}),
        ("rows", {"name": 1}),
        ("rows", {"name": "sale", "offset": "1"}),
        ("rows", {"name": "sale", "at": True}),
        ("overview", {"file": 1}),
        ("rows", {"name": "nothing"}),
        ("rows", {"name": "sale", "at": 10**9}),
        ("statement", {"text": "SELECT"}),
        ("statement", {"text": "q(x <-"}),
        ("statement", {"text": ""}),
        ("why_row", {"name": "sale", "at": 3, "place": 10**6}),
        ("explain", {"text": "sale(x"}),
    ]:
        assert shown.call(what, **given)["error"], (what, given)
    deep = b"[" * 10**5, b'{"name": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"
    for body in deep:
        status, _, said = shown.ask("POST", f"{api}rows", body, **JSON)
        assert status == 400 and "nested too deep" in said.decode()
    body = json.dumps([1]).encode()
    assert json.loads(shown.ask("POST", f"{api}overview", body, **JSON)[2]) == {
        "error": "wrong arguments: an object is wanted"
    }


def test_pages_allow_no_script_but_their_own(shown):
    for name in ("", "studio.css", "studio.js"):
        status, headers, body = shown.ask("GET", shown.prefix + name)
        policy = headers["content-security-policy"]
        assert status == 200 and body == (PAGE / (name or "index.html")).read_bytes()
        assert (
            "unsafe" not in policy
            and "default-src 'none'" in policy
            and "frame-ancestors 'none'" in policy
        )
        assert (
            headers["x-content-type-options"] == "nosniff"
            and headers["cache-control"] == "no-store"
        )
        # the name of a namespace, which nothing loads
        loaded = body.replace(b"http://www.w3.org/2000/svg", b"")
        assert not re.search(rb"https?://|<style|style=|onclick", loaded)
    script = (PAGE / "studio.js").read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|\.style\b", script
    )
    assert shown.ask("GET", f"{shown.prefix}../inspection.py")[0] == 404
    assert shown.ask("GET", f"{shown.prefix}page/index.html")[0] == 404


def test_what_there_is(shown):
    found = shown.call("overview")
    kinds = {one["name"]: (one["kind"], one["rows"]) for one in found["predicates"]}
    assert kinds == {
        "sale": ("relation", 250),
        "edge": ("relation", 4),
        HOSTILE: ("relation", 7),
        LONG: ("relation", 1),
        "turnover": ("view", 3),
        "hop": ("view", 3),
        "path": ("view", 6),
        "lonely": ("view", 1),
        "wide": ("view", 250),
    }
    lonely = shown.call("describe", name="lonely")
    assert (lonely["reads"], lonely["read_by"], lonely["block"]) == (["edge"], [], "graph")
    assert shown.call("describe", name="sale")["read_by"] == ["turnover", "wide"]
    assert shown.call("describe", name="turnover")["text"].startswith(
        "CREATE VIEW turnover AS SELECT"
    )
    assert len(shown.call("describe", name="wide")["columns"]) == 100
    assert shown.call("describe", name="sale")["columns"][:2] == [
        {"name": "id", "type": "int64", "key": True},
        {"name": "shop", "type": "string", "key": False},
    ]
    for name in ("path", "wide", "turnover"):
        assert "An edit costs" in " ".join(shown.call("explain", text=name)["sentences"])


def test_what_reads_what(shown, studio):
    found = shown.call("dependencies")
    levels = {one["name"]: (one["kind"], one["level"]) for one in found["nodes"]}
    assert levels == {
        "sale": ("relation", 0),
        "edge": ("relation", 0),
        HOSTILE: ("relation", 0),
        LONG: ("relation", 0),
        "turnover": ("view", 1),
        "hop": ("view", 1),
        "path": ("view", 1),
        "lonely": ("view", 1),
        "wide": ("view", 1),
    }
    assert sorted(found["edges"]) == [
        ["edge", "hop"],
        ["edge", "lonely"],
        ["edge", "path"],
        ["path", "path"],
        ["sale", "turnover"],
        ["sale", "wide"],
    ]
    own = shown.call("dependencies", name="sale")
    assert [one["name"] for one in own["nodes"]] == ["sale", "turnover", "wide"] and own[
        "more"
    ] == 0
    with ivm.open(studio.call("overview")["file"]) as ws:
        chain = [f"c{n}(x) <- c{n - 1}(x). c{n}(x) <- c{n + 1}(x)." for n in range(1, 3)]
        ws.install(
            f"c0(x) <- edge(x, _). {' '.join(chain)} c3(x) <- c2(x). top(x) <- c0(x), c3(x).",
            name="more",
        )
    levels = {one["name"]: one["level"] for one in studio.call("dependencies", name="c0")["nodes"]}
    assert levels == {"edge": 0, "c0": 1, "c1": 2, "c2": 1, "c3": 1, "top": 2}


def test_rows_come_in_pages(shown):
    seen = []
    for offset in range(0, 300, 100):
        page = shown.call("rows", name="sale", offset=offset)
        assert page["total"] == 250 and len(page["rows"]) == (100, 100, 50)[offset // 100]
        seen += page["rows"]
    # not as JavaScript rounds it
    assert [row[0] for row in seen] == [*map(str, range(249)), str(2**63 - 1)]
    assert seen[7] == ["7", "south", "1.75", None]
    assert shown.call("rows", name="sale", offset=10**9)["rows"] == []
    assert len(shown.call("rows", name="sale", limit=10**9)["rows"]) == 250
    wide = shown.call("rows", name="wide", offset=248, limit=1000)
    assert [len(row) for row in wide["rows"]] == [100, 100] and wide["total"] == 250
    for text in ("SELECT * FROM sale", "q(i, s) <- sale[i] = (s, _, _)."):
        page = shown.call("statement", text=text, offset=240)
        assert (page["total"], [row[0] for row in page["rows"]][-1]) == (250, str(2**63 - 1))
    texts = [row[0] for row in shown.call("rows", name=HOSTILE)["rows"]]
    assert {"text": "x" * 300, "length": 10_000} in texts and SCRIPT in texts


PLACED = [
    ("rows", {"name": "sale"}, "offset"), ("rows", {"name": "wide"}, "offset"), ("rows",
    {"name": "sale"}, "limit"),
    ("rows", {"name": "sale"}, "at"), ("statement", {"text": "SELECT * FROM sale"}, "offset"),
    ("statement", {"text": "q(x) <- edge(x, _)."}, "limit"), ("statement", {"text": "sale"},
    "offset"),
    ("history", {}, "offset"), ("history", {}, "limit"), ("why_row", {"name": "path", "at": 6},
    "place"),
    ("why_row", {"name": "path", "place": 0}, "at"), ("why", {"fact": "path(1, 4)"}, "most"),
    ("why", {"fact": "path(1, 4)"}, "at"), ("overview", {}, "at"), ("describe", {"name": "sale"},
    "at"),
    ("dependencies", {}, "at"), ("differences", {"old": 1}, "new"), ("differences", {"new": 1},
    "old"),
]  # fmt: skip


@pytest.mark.parametrize("what, given, name", PLACED)
def test_numbers_of_any_size_are_answered_or_refused(shown, what, given, name):
    for number in (10**30, -(10**30), 2**64, 2**63, 2**63 - 1, 2**48, -1):
        body = json.dumps({**given, name: number}).encode()
        status, _, said = shown.ask("POST", f"{shown.prefix}api/{what}", body, **JSON)
        assert status in (200, 400), (number, said)
        if name == "offset" and number > 2**48:
            assert status == 400 and "offset=" in said.decode()


def busy(process, seconds=0.5):
    """Return the share of a processor that a process takes."""

    def spent():
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = spent()
    time.sleep(seconds)
    return (spent() - before) / seconds


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM sale a, sale b, sale c, sale d WHERE a.id + b.id + c.id + d.id = -1",
        "q(a, b, c, d) <- sale(a, _, _, _), sale(b, _, _, _), sale(c, _, _, _), sale(d, _, _, _), "
        "a + b + c > d.",
    ],
)
def test_what_a_client_asked_ends_when_it_goes(studio, text):
    """Each question would take minutes."""
    asking = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=60)
    body = json.dumps({"text": text}).encode()
    asking.request(
        "POST", f"{studio.prefix}api/statement", body, {"Content-Type": "application/json"}
    )
    time.sleep(2)
    until(lambda: busy(studio.process) > 0.1)
    asking.close()
    until(lambda: busy(studio.process) < 0.05)
    assert studio.call("overview")["version"]
    studio.process.kill()  # it has said on its terminal how far the question was
    studio.process.communicate()


def test_a_table_of_many_columns_is_cut_into_smaller_pages():
    page = inspection._page(Answer(pa.table({f"c{n}": range(500) for n in range(200)})), 0, 1000)
    assert page["total"] == 500 and len(page["rows"]) == inspection.CELLS_MAX // 200


def test_an_edit_is_previewed_then_committed_once(studio, path):
    with ivm.open(path, mode="r") as reader:
        version = reader.store.version
        found = studio.call("statement", text=EDIT)
        assert (found["kind"], found["version"], reader.store.version) == (
            "preview",
            version,
            version,
        )
        changes = {
            one["name"]: (one.get("inserted"), one.get("deleted")) for one in found["changes"]
        }
        assert changes == {"sale": (1, 1), "turnover": (2, 1), "wide": (1, 1)}
        assert ["+", ["900", "new", "1.50", None]] in found["changes"][0]["rows"]
        assert studio.call("commit", token=found["token"]) == {"version": version + 1}
        assert reader.store.version == version + 1 and ("new", pytest.approx(1.5)) in list(
            reader["turnover"]
        )
        assert "no preview has this token" in studio.call("commit", token=found["token"])["error"]
        after = studio.call("differences", old=version, new=version + 1)["changes"]
        assert after == found["changes"]


def test_an_edit_is_not_committed_over_a_newer_version(studio, path):
    found = studio.call("statement", text="+edge(4, 5).")
    with ivm.open(path) as writer:
        writer.exec("+edge(7, 8).")
    assert "is newer" in studio.call("commit", token=found["token"])["error"]
    assert len(studio.call("rows", name="edge")["rows"]) == 5


def test_a_merge_is_previewed_then_committed_once(studio, path):
    """Conflicts first, then what a rule for them would change, refused once a branch moved on."""
    with ivm.open(path) as ws:
        ws.store.branch("trial")
        ws.on("trial").exec("+edge(4, 5).")
        for branch, cents in (("main", 9), ("trial", 8)):
            ws.on(branch).sql(f"UPDATE sale SET price = {cents}, shop = '{branch}' WHERE id = 0")
        heads = ws.store.branches
    merge = {"branch": "trial", "into": "main"}
    conflicts = studio.call("merge", **merge)["conflicts"]
    assert conflicts["total"] == 1
    assert conflicts["rows"] == [
        ["sale", "0", "north, 0.00, null", "main, 9.00, null", "trial, 8.00, null"]
    ]
    found = studio.call("merge", **merge, on_conflict="theirs")
    of = {one["name"]: one for one in found["changes"]}
    assert {*of} == {"sale", "turnover", "edge", "hop", "path"}
    assert (of["path"]["kind"], of["path"]["inserted"]) == ("view", 4)
    assert "and nothing is changed" in studio.call("merge", **merge, on_conflict="sum")["error"]
    lanes = studio.call("branches")
    assert {one["name"]: one["version"] for one in lanes["branches"]} == heads
    assert studio.call("commit", token=found["token"]) == {"version": max(heads.values()) + 1}
    assert studio.call("branches")["versions"][0]["merged"] == heads["trial"]
    with ivm.open(path) as ws:
        assert (4, 5) in ws["edge"] and (1, 5) in {*ws["path"]}
        ws.on("trial").exec("+edge(5, 6).")
        stale = studio.call("merge", **merge)
        ws.on("trial").exec("+edge(6, 7).")
    assert "'trial' has changed since" in studio.call("commit", token=stale["token"])["error"]
    assert "no branch 'none'" in studio.call("merge", branch="none")["error"]


def test_only_rows_are_edited(shown, tmp_path):
    target = tmp_path / "out.csv"
    for text in (
        f"COPY sale TO '{target}'",
        "DROP TABLE sale",
        "CREATE TABLE t (a INT)",
        "BEGIN",
        "a(x) -> int(x).",
    ):
        assert shown.call("statement", text=text)["error"], text
    for what in ("statement", "preview"):
        assert shown.call(what, text=f"DELETE FROM sale; COPY sale TO '{target}'")["error"]
    assert not target.exists() and shown.call("overview")["predicates"][0] == {
        "name": "sale",
        "kind": "relation",
        "rows": 250,
    }
    assert "does not change" in shown.call("statement", text="+edge(8, 9).", at=4)["error"]


def test_to_read_only(path):
    running = Studio(path, "--read-only")
    found = running.call("statement", text="+edge(4, 5).")
    assert found["changes"] and not found["writes"]
    assert "to read only" in running.call("commit", token=found["token"])["error"]
    assert len(running.call("rows", name="edge")["rows"]) == 4
    assert running.end() == 143


def test_older_versions_and_their_differences(shown):
    found = shown.call("history", limit=3)
    assert found["more"] and [one["version"] for one in found["versions"]] == sorted(
        (one["version"] for one in found["versions"]), reverse=True
    )
    whole = shown.call("history")["versions"]
    made = next(one["version"] for one in whole if one["message"] == "install graph")
    changes = {
        one["name"]: one for one in shown.call("differences", old=made - 1, new=made)["changes"]
    }
    assert changes["path"]["note"] == "made, 6 rows" and changes.keys() == {
        "edge",
        "hop",
        "path",
        "lonely",
    }
    back = {
        one["name"]: one for one in shown.call("differences", old=made, new=made - 1)["changes"]
    }
    assert back["path"]["note"] == "removed"
    assert "edge" not in [one["name"] for one in shown.call("overview", at=made - 1)["predicates"]]
    assert shown.call("statement", text="SELECT count(*) FROM sale", at=2)["rows"] == [["0"]]


def test_why_a_row_is_there(shown):
    version = shown.call("overview")["version"]
    rows = shown.call("rows", name="path")["rows"]
    found = shown.call("why_row", name="path", at=version, place=rows.index(["1", "4"]))
    assert found["rows"] == [["1", "4"]] and found["why"]["fact"] == "path(1, 4)"
    assert {"fact": "edge(3, 4)", "since": found["why"]["proofs"][0]["from"][-1]["since"]} in found[
        "why"
    ]["proofs"][0]["from"]
    assert shown.call("why", fact="path(4, 1)")["holds"] is False
    assert "since version" in shown.call("why_row", name="sale", at=version, place=3)["why"]["text"]
    assert shown.call("why_row", name="turnover", at=version, place=0)["why"]["proofs"]
    hostile = shown.call("why_row", name=HOSTILE, at=version, place=3)
    assert "no rule reads" in hostile["error"] and len(hostile["rows"][0][0]) == 10_000  # whole
    assert "error" in shown.call("why_row", name="wide", at=version, place=0)


def test_commits_of_other_processes_are_events(studio, path):
    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=60)
    connection.request("GET", f"{studio.prefix}api/events")
    stream = connection.getresponse()
    assert stream.getheader("content-type").startswith("text/event-stream")
    first = int(stream.readline().removeprefix(b"data: "))
    subprocess.run(
        [sys.executable, "-m", "ivm", "exec", str(path), "+edge(8, 9)."],
        check=True,
        capture_output=True,
    )
    assert (stream.readline(), stream.readline()) == (b"\n", f"data: {first + 1}\n".encode())
    assert studio.end() == 143  # though a client listens
    connection.close()


def test_it_holds_no_lock_and_leaves_no_reader(studio, path):
    with ivm.open(path, exclusive=True, timeout=0) as writer:
        writer.exec("+edge(8, 9).")
        assert studio.call("statement", text="+edge(9, 10).")["changes"]
    assert studio.end() == 143
    with pagestore.open(path) as store:
        assert store.readers() == []


def test_an_unforeseen_failure_is_said_on_the_terminal(monkeypatch, filled, capsys):
    pytest.importorskip("starlette")
    from pagestore_tools.serving import web

    inspector = inspection.Inspector(str(filled), writes=False)
    monkeypatch.setitem(web.CALLS, "overview", lambda _: 1 // 0)

    class Asked:
        path_params = {"call": "overview"}
        headers = {"content-type": "application/json"}

        async def stream(self):
            yield b"{}"

        async def receive(self):
            await asyncio.Event().wait()

    answer = asyncio.run(web._call(inspector, Asked()))
    assert answer.status_code == 500 and json.loads(answer.body)["error"].startswith("this failed")
    assert "ZeroDivisionError" in capsys.readouterr().err
    inspector.close()


def test_its_errors_are_sentences(tmp_path, path, capsys, monkeypatch):
    assert command(["studio", str(tmp_path / "none.pages")]) == 1
    assert "none.pages" in capsys.readouterr().err
    assert command(["studio", str(path), "--port", "70000"]) == 1
    assert "ports are numbers up to 65535" in capsys.readouterr().err
    with studio_command._bound(0) as taken:
        assert command(["studio", str(path), "--port", str(taken.getsockname()[1])]) == 1
    assert "choose another with --port" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert command(["studio", str(path)]) == 1
    assert "pip install 'pagestore-ivm[studio]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_a_signal_ends_it_while_a_query_runs_and_a_page_listens(studio, number):
    """The query runs for minutes, in a thread that nothing stops; uvicorn would wait for it, and
    for the page.
    """
    listening = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=60)
    listening.request("GET", f"{studio.prefix}api/events")
    assert listening.getresponse().readline().startswith(b"data: ")
    asking = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=60)
    rule = (
        "q(a, b, c, d, e) <- sale(a, _, _, _), sale(b, _, _, _), sale(c, _, _, _), sale(d, _, "
        "_, _), sale(e, _, _, _)."
    )
    asking.request(
        "POST",
        f"{studio.prefix}api/statement",
        json.dumps({"text": rule}),
        {"Content-Type": "application/json"},
    )
    time.sleep(1)
    assert studio.process.poll() is None
    studio.process.send_signal(number)
    # a tenth of a second where nothing else runs
    assert studio.process.wait(timeout=10) == 128 + number
    listening.close(), asking.close()
