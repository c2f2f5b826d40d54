"""`ivm mcp` answers the client of the package over stdio: it reads only, unless it is told to
write.
"""

import asyncio
import json
import signal
import subprocess
import sys

import pytest

import ivm
from pagestore_tools.cli.main import ivm as command
from tests.tools.serving.served import HOSTILE

pytest.importorskip(
    "mcp", reason="the mcp package is not installed: pip install 'pagestore-ivm[mcp]'"
)
from mcp import Client, StdioServerParameters, stdio_client

READING = [
    "overview",
    "describe",
    "rows",
    "query",
    "explain",
    "why",
    "history",
    "differences",
    "preview",
]


def asked(path, conversation, *options):
    """Run a conversation with a server of a store; it is given `call(tool, **arguments)` and the
    client.
    """

    async def run():
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "ivm", "mcp", str(path), *options]
        )
        async with Client(stdio_client(parameters)) as client:

            async def call(tool, **given):
                answer = await client.call_tool(tool, given)
                (content,) = answer.content
                return content.text if answer.is_error else json.loads(content.text)

            return await conversation(call, client)

    return asyncio.run(asyncio.wait_for(run(), 120))


def test_tools_describe_themselves_and_say_that_they_read_only(path):
    async def conversation(call, client):
        return (await client.list_tools()).tools, client.instructions

    tools, instructions = asked(path, conversation)
    assert [tool.name for tool in tools] == READING and "reads only" in instructions
    for tool in tools:
        assert tool.description and "  " not in tool.description and tool.annotations.read_only_hint
        assert "self" not in tool.input_schema["properties"]


def test_questions_of_every_kind(path):
    async def conversation(call, client):
        found = await call("overview")
        assert {one["name"]: one["rows"] for one in found["predicates"]}["path"] == 6
        assert (await call("describe", name="path"))["reads"] == ["edge"]
        assert (await call("rows", name="sale", offset=249))["rows"] == [
            [2**63 - 1, "far", "0.10", None]
        ]
        assert len((await call("rows", name="sale", limit=10**9))["rows"]) == 250
        assert (await call("query", text="SELECT sum(id) AS n FROM sale WHERE id < 9"))["rows"] == [
            [36]
        ]
        assert (await call("query", text="q(x) <- path(x, 4)."))["rows"] == [[1], [2], [3]]
        assert (await call("query", text="SELECT count(*) FROM sale", at=2))["rows"] == [[0]]
        assert (await call("explain", text="path"))["plan"]
        assert (await call("why", fact="path(1, 4)"))["proofs"][0]["from"][1][
            "fact"
        ] == "edge(3, 4)"
        assert ["+edge(4, 9)"] in (await call("why", fact="path(3, 9)"))["insertions"]
        versions = [one["version"] for one in (await call("history"))["versions"]]
        assert versions == sorted(versions, reverse=True)
        assert (await call("differences", old=2, new=3))["changes"][0]["inserted"] == 250
        texts = [row[0] for row in (await call("rows", name=HOSTILE))["rows"]]
        assert {"text": "x" * 4000, "length": 10_000} in texts

    asked(path, conversation)


def test_an_edit_is_tried_and_thrown_away_and_not_committed_without_leave(path):
    before = path.read_bytes()

    async def conversation(call, client):
        found = await call("preview", edits="+edge(4, 5). -edge(1, 2).")
        changes = {one["name"]: (one["inserted"], one["deleted"]) for one in found["changes"]}
        assert changes == {"edge": (1, 1), "hop": (1, 1), "path": (4, 1), "lonely": (1, 0)}
        assert "token" not in found
        assert (await call("rows", name="edge"))["total"] == 4
        for text in (
            "DELETE FROM sale",
            "DROP TABLE sale",
            "+edge(4, 5).",
            f"COPY sale TO '{path}.csv'",
        ):
            assert "questions only" in await call("query", text=text)
        assert "no relation" in await call("rows", name="nothing")
        assert "nothing declares" in await call("query", text="q(x) <- nothing(x).")
        assert "commit" in await call("commit", token="guessed")  # no such tool

    asked(path, conversation)
    assert path.read_bytes() == before


def test_a_commit_takes_the_token_of_its_preview(path):
    with ivm.open(path, mode="r") as reader:
        version = reader.store.version

        async def conversation(call, client):
            assert [tool.name for tool in (await client.list_tools()).tools] == [*READING, "commit"]
            assert "no preview has this token" in await call("commit", token="guessed")
            stale = await call("preview", edits="DELETE FROM edge WHERE x = 3")
            found = await call("preview", edits="INSERT INTO edge VALUES (4, 5)")
            assert reader.store.version == version
            assert await call("commit", token=found["token"]) == {"version": version + 1}
            assert "no preview has this token" in await call("commit", token=found["token"])
            assert f"{version + 1} is newer" in await call("commit", token=stale["token"])
            return await call("rows", name="path")

        assert [1, 5] in asked(path, conversation, "--write")["rows"]
        assert reader.store.version == version + 1 and reader.check() == []


def test_it_ends_with_its_client_and_by_a_signal(path):
    for number in (None, signal.SIGTERM, signal.SIGINT):
        server = [sys.executable, "-m", "ivm", "mcp", str(path)]
        process = subprocess.Popen(
            server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        client = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "ivm"
        process.stdin.close() if number is None else process.send_signal(number)
        assert (
            process.wait(30) == (0 if number is None else 128 + number)
            and process.stderr.read() == b""
        )
        process.stdout.close()


def test_without_the_package_it_says_what_to_install(path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    assert command(["mcp", str(path)]) == 1
    assert "pip install 'pagestore-ivm[mcp]'" in capsys.readouterr().err
