"""The program of docs/web-service.md, served by four processes to real clients."""

import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

import ivm

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
PAGE = Path(__file__).parents[3] / "docs" / "web-service.md"


@pytest.fixture
def url(tmp_path, monkeypatch):
    """Serve the program of the page with four workers."""
    (tmp_path / "votes.py").write_text(
        re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "votes:app", "--workers", "4", "--port", str(port)]
    monkeypatch.setenv("VOTES", str(tmp_path / "votes.pages"))
    with subprocess.Popen(command, cwd=tmp_path, stderr=(tmp_path / "log").open("w")) as server:
        try:
            until_served(f"http://127.0.0.1:{port}/counts")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def until_served(url):
    end = time.monotonic() + 60
    while True:
        try:
            return urllib.request.urlopen(url, timeout=10).read()
        except OSError:
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.1)


def told(url, voters, seen):
    """Read events until the counts that they say add up to so many votes."""
    counts = {}
    with urllib.request.urlopen(f"{url}/changes?since=0", timeout=60) as events:
        for line in events:
            name, _, value = line.decode().strip().partition(": ")
            if name == "id":
                seen.append(int(value))
            if name == "data":
                for change in json.loads(value):
                    if change["_change_type"] == "insert":
                        counts[change["choice"]] = change["n"]
                if sum(counts.values()) == voters:
                    seen.append(counts)
                    return


def test_four_workers_write_and_tell_of_all_changes(url, tmp_path):
    watchers = [[], []]
    threads = [threading.Thread(target=told, args=(url, 40, seen)) for seen in watchers]
    answers = []

    def vote(first):
        for voter in range(first, 40, 4):
            request = urllib.request.Request(
                f"{url}/votes/{voter}/{'abc'[voter % 3]}", method="POST"
            )
            answers.append(json.load(urllib.request.urlopen(request, timeout=60)))

    threads += [threading.Thread(target=vote, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    # each vote made a version of its own
    assert len({answer["version"] for answer in answers}) == 40
    assert len({answer["process"] for answer in answers}) > 1
    wanted = {"a": 14, "b": 13, "c": 13}
    for *versions, counts in watchers:
        assert counts == wanted and versions == sorted({*versions})
    assert json.loads(until_served(f"{url}/counts")) == wanted
    with ivm.open(tmp_path / "votes.pages", mode="r") as workspace:
        assert dict(workspace["count"]) == wanted and not workspace.check()


def events(url, path, headers=()):
    """Yield events: their versions and rows."""
    with urllib.request.urlopen(
        urllib.request.Request(url + path, headers=dict(headers)), timeout=60
    ) as lines:
        version = None
        for line in lines:
            name, _, value = line.decode().strip().partition(": ")
            if name == "id":
                version = int(value)
            if name == "data":
                yield (
                    version,
                    {
                        row["choice"]: row["n"]
                        for row in json.loads(value)
                        if row["_change_type"] == "insert"
                    },
                )


def test_those_who_come_when_the_first_versions_are_gone_get_all_rows(url, tmp_path):
    with ivm.open(tmp_path / "votes.pages", sync="off") as workspace:
        for voter in range(100):
            workspace.insert("vote", (str(voter), "ab"[voter % 2]))
        version = workspace.store.version
        assert version > 80 and workspace.store.history()[-1].version > 1
        watched = events(url, "/changes?since=0")
        assert next(watched) == (version, {"a": 50, "b": 50})
        workspace.insert("vote", ("eve", "mate"))
        assert next(watched) == (version + 1, {"mate": 1})
        missed = events(url, "/changes?since=0", {"Last-Event-ID": str(version)}.items())
        assert next(missed) == (version + 1, {"mate": 1})
