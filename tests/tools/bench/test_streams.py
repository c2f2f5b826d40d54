"""Streams of events through kept SQL give what DuckDB computes anew."""

import pyarrow as pa
import pytest

from benchmarks import streams
from benchmarks.__main__ import main

pytest.importorskip("duckdb")


@pytest.mark.parametrize("name", streams.STREAMS)
def test_any_part_of_a_stream_is_made_alone(name):
    """Two batches have the rows of one; what goes had come; no row comes twice."""
    stream, n = streams.STREAMS[name], 300

    def rows(first, size):
        found = {}
        for edit, table, some in stream.batch(n, first, size):
            found.setdefault((edit, table), []).extend(some.to_pylist())
        return found

    whole, first, second = rows(n, 151), rows(n, 70), rows(n + 70, 81)
    assert whole == {key: first.get(key, []) + second.get(key, []) for key in whole}
    state = stream.state(n)
    for (edit, table), some in whole.items():
        there = state[table].to_pylist()
        assert all((row in there) == (edit == "delete") for row in some)
        assert isinstance(state[table], pa.Table)


@pytest.mark.parametrize(
    ("stream", "queries"),
    [
        ("nexmark", "q5 q15"),
        ("tpch", "q4 q22"),
        *(pytest.param(name, "", marks=pytest.mark.campaign) for name in streams.STREAMS),
    ],
)
def test_kept_queries_follow_a_stream(stream, queries, monkeypatch, capsys):
    monkeypatch.setattr(streams, "BATCHES", {1: 2, 30: 2})
    chosen = ["--queries", *queries.split()] if queries else []
    assert main(["streams", stream, "--size", "300", *chosen]) == 0
    said = capsys.readouterr().out
    assert said.count(" 0 of 2 |") == len(queries.split() or streams.STREAMS[stream].queries)


def test_a_wrong_answer_is_counted(monkeypatch, capsys):
    monkeypatch.setattr(streams, "BATCHES", {1: 1})
    monkeypatch.setattr(streams.Peer, "answer", lambda self, query: [])
    assert main(["streams", "nexmark", "--size", "200", "--queries", "q0"]) == 1
    assert " 1 of 1 |" in capsys.readouterr().out


def test_other_engines_are_asked_in_a_process_of_their_own(capsys, monkeypatch):
    """One that computes anew is right; one that is not installed is none of the refused."""
    command = ["stream_peers", "--size", "300", "--queries", "q2", "q15", "--engines"]
    assert main([*command, "duckdb", "turso"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in said[2:]] == ["q2", "q15"]
    assert all(" right, " in line for line in said[2:])
    assert said[2].endswith("not installed |") and said[3].endswith("failed |")
    monkeypatch.setattr(streams.Peer, "answer", lambda self, query: [])
    assert main([*command, "duckdb"]) == 0
    assert "wrong, " in capsys.readouterr().out
