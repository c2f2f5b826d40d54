"""What one process compiled is what the next one has: the same plans, over the same words, or none."""

import logging
import pickle
import shutil
import sys
from dataclasses import fields, is_dataclass
from functools import cache

import pytest

import ivm
from ivm.rules import kept_blocks

TABLES = "CREATE TABLE t (k BIGINT PRIMARY KEY, s TEXT, n BIGINT)"
VIEWS = [
    "CREATE MATERIALIZED VIEW few AS SELECT k, n FROM t WHERE s = 'few'",
    "CREATE MATERIALIZED VIEW total AS SELECT s, sum(n) AS n, min(n) AS least FROM t GROUP BY s",
    "CREATE MATERIALIZED VIEW both AS SELECT few.k, total.n FROM few, total WHERE total.s = 'few'",
    "CREATE MATERIALIZED VIEW pairs AS SELECT a.k FROM t a JOIN t b ON a.n = b.k WHERE b.s <> 'many'",
    "CREATE MATERIALIZED VIEW last AS SELECT k, lag(n) OVER (ORDER BY k) AS before FROM t",
]
RULES = "r(x, y) <- t:n[x] = y. r(x, z) <- r(x, y), t:n[y] = z."


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with views, and a cache without files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_blocks, "_folder", cache(kept_blocks._folder.__wrapped__))
    path = tmp_path / "s.pages"
    with ivm.open(path, sync="off") as ws:
        for statement in (TABLES, *VIEWS):
            ws.sql(statement)
        ws.install(RULES, name="reach")
        ws.sql("INSERT INTO t VALUES (1, 'few', 2), (2, 'many', 3), (3, 'few', NULL)")
    return path


def opened(path, caplog) -> tuple[list[str], list]:
    """Return the blocks that are compiled when all rules are asked for, and the rules."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "ivm.rules"), ivm.open(path, sync="off") as ws:
        rules = [rule for block in ws.blocks for rule in ws.rules_of(ws.store.snapshot()).rules]
        ws.sql("INSERT INTO t VALUES (4, 'few', 5)")
        ws.check()
        assert ws.sql("SELECT * FROM both ORDER BY k").to_arrow().to_pylist() == [
            {"k": 1, "n": 7}, {"k": 3, "n": 7}, {"k": 4, "n": 7}
        ]  # fmt: skip
        ws.sql("DELETE FROM t WHERE k = 4")
    return [
        r.getMessage().split()[-1] for r in caplog.records if "compiled" in r.getMessage()
    ], rules


def test_what_was_compiled_is_not_compiled_again(store, caplog):
    first, compiled = opened(store, caplog)
    again, taken = opened(store, caplog)
    assert {"few", "total", "both", "last", "reach"} <= {*first}
    assert again == []
    assert [shown(rule) for rule in taken] == [shown(rule) for rule in compiled]


def shown(value) -> object:
    """A value with all that it has, where `==` may compare less."""
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [shown(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, tuple | list):
        return [shown(part) for part in value]
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def test_a_copy_with_other_words_for_texts_compiles_anew(store, tmp_path, caplog):
    """Two stores of one file get other texts under the same words, then the same view."""
    found = {}
    for name, text in (("a", "x"), ("b", "rare")):
        path = tmp_path / f"{name}.pages"
        shutil.copy(store, path)
        with ivm.open(path, sync="off") as ws:
            ws.sql(f"INSERT INTO t VALUES (9, '{text}', 1)")
            ws.sql(
                "CREATE MATERIALIZED VIEW rare AS SELECT t.k FROM t JOIN t u ON t.n = u.k "
                "WHERE t.s = 'rare' AND u.s <> 'x'"
            )
        with ivm.open(path, sync="off") as ws:
            ws.sql("INSERT INTO t VALUES (10, 'rare', 1), (11, 'x', 1), (12, 'few', 1)")
            found[name] = ws.sql("SELECT k FROM rare ORDER BY k").to_arrow()["k"].to_pylist()
    assert found == {"a": [10], "b": [9, 10]}


@pytest.mark.parametrize("damage", [b"", b"\x80\x05", pickle.dumps((1, 2, 3)), pickle.dumps(7)])
def test_a_file_that_does_not_read_is_compiled_anew(store, caplog, damage):
    first, compiled = opened(store, caplog)
    for path in kept_blocks._folder().iterdir():
        path.write_bytes(damage)
    again, taken = opened(store, caplog)
    assert again == first and [*map(shown, taken)] == [*map(shown, compiled)]


@pytest.mark.parametrize("part", ["words", "layouts"])
def test_what_another_store_said_is_compiled_anew(store, caplog, part):
    opened(store, caplog)
    changed = 0
    for path in kept_blocks._folder().iterdir():
        file = kept_blocks.KeptBlock(*pickle.loads(path.read_bytes()))
        others = {"words": [(c, w + 1) for c, w in file.words], "layouts": {}}
        changed += getattr(file, part) != others[part]
        path.write_bytes(pickle.dumps((*file._replace(**{part: others[part]}),)))
    assert 0 < changed <= len(opened(store, caplog)[0])


def test_other_code_has_another_folder(store, caplog, monkeypatch):
    opened(store, caplog)
    before = kept_blocks._folder()
    kept_blocks._folder.cache_clear()
    monkeypatch.setattr(sys, "version", "another")
    assert kept_blocks._folder() != before


def test_a_folder_that_cannot_be_written_to_is_no_fault(store, caplog, monkeypatch):
    monkeypatch.setattr(kept_blocks, "_folder", lambda: store.with_name("absent"))
    assert opened(store, caplog)[0] == opened(store, caplog)[0] != []
