"""Edits that wait for queues of trees, flushed within one call of a host's, against dicts."""

import os

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import pagestore
from pagestore.pages.layout import Pages
from pagestore.runtime.kernel import TypedKernel
from pagestore.storage.file import PageWriter
from pagestore.trees import edit as grouping
from pagestore.trees.edit import EditQueue
from pagestore.trees.kernels.arguments import FlushRoom, PageAccounts, Queues
from pagestore.trees.kernels.edit_groups import flush_queue
from pagestore.trees.kernels.node_buffer import ADD, ERASE, INSERT, SET
from pagestore.trees.read import read_batches
from tests.support.programs.amounts import times
from tests.support.simulator import compiled

EDGES = EditQueue(("edge", "$back"), np.array([[0, 1], [1, 0]]), 2)
TIMES = EditQueue(("$times",), np.array([[0, 1]]), 1)

small = st.integers(0, 9)
edges = st.lists(st.tuples(st.sampled_from([INSERT, ERASE, SET]), small, small), max_size=8)
many_times = st.lists(st.tuples(small, st.integers(1, 3)), max_size=8)


def columns(rows, width):
    table = np.array(rows, np.int64).reshape(-1, width).T
    return table[0].copy(), table[1:].copy()


def waiting(queues, *edits):
    queues.clear()
    for g, (actions, rows) in enumerate(edits):
        queues.wait(g, actions, rows)


FLUSH = TypedKernel(flush_queue, Pages, PageAccounts, Queues, FlushRoom, int, int)


def flushed(txn, queues):
    """Flush one queue after the other, as a host does; return how many it could."""
    return txn.flush(queues, every)


def every(pages, accounts, queues, room, apply):
    waits = queues.waits
    assert accounts.ids[-1] < len(pages.seen), "the map does not hold the pages"
    for g in range(len(waits)):
        if waits[g] and not FLUSH.call(pages, accounts, queues, room, apply, g):
            return g
    return len(waits)


def rows_of(source, name):
    return [
        tuple(row)
        for batch in read_batches(source.pages, source.tree(name))
        for row in batch.T.tolist()
    ]


def begun(path, **options):
    store = pagestore.open(path, sync="off", **options)
    with store.transaction() as txn:
        txn.create("edge", "x: int64, y: int64", scans="max:y")
        txn.create_words("$back", 2)
        txn.create_words("$times", 1, 1)
    return store


@compiled
@settings(max_examples=times(30), suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.tuples(edges, many_times, st.booleans()), min_size=1, max_size=8))
def test_groups_against_dicts(tmp_path_factory, steps):
    there, counted = set(), {}
    with begun(tmp_path_factory.mktemp("groups") / "g.pages", page_size=4096) as store:
        for some, more, again in steps:
            before = set(there)
            with store.transaction() as txn:
                queues = txn.edit_queues([EDGES, TIMES])
                for _ in range(1 + again):  # the second time pages of this transaction are replaced
                    waiting(queues, columns(some, 3), columns([(ADD, *row) for row in more], 3))
                    assert flushed(txn, queues) == 2
                    for action, x, y in some:
                        there = there - {(x, y)} if action == ERASE else there | {(x, y)}
                    for key, number in more:
                        counted[key] = counted.get(key, 0) + number
                    if not again:
                        actions, rows = queues.changes(0)
                        found = {
                            (a, *row)
                            for a, row in zip(actions.tolist(), rows.T.tolist(), strict=True)
                        }
                        assert found == {(INSERT, *e) for e in there - before} | {
                            (ERASE, *e) for e in before - there
                        }
                        assert queues.turnover(0) == (len(there - before), len(before - there))
                assert rows_of(txn, "edge") == sorted(there)
            with store.snapshot() as snap:
                assert rows_of(snap, "edge") == sorted(there)
                assert rows_of(snap, "$back") == sorted((y, x) for x, y in there)
                assert rows_of(snap, "$times") == sorted(counted.items())
            assert store.check() == []


def untouched(txn, queues):
    """An edge waits that cannot be flushed: then nothing has happened, and the general way still
    works.
    """
    waiting(queues, columns([(INSERT, 1, 2)], 3))
    assert flushed(txn, queues) == 0
    assert queues.trees == [txn.tree(name) for name in ("edge", "$back", "$times")]
    assert [rows.tolist() for rows in queues.waiting(0)] == [[INSERT], [[1], [2]]]
    txn.apply_indexed(EDGES.names, EDGES.places, *queues.waiting(0))


def test_too_few_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(grouping, "PAGES", 4)
    monkeypatch.setattr(grouping, "PAGES_MAX", 4)
    with begun(tmp_path / "g.pages") as store:
        with store.transaction() as txn:
            untouched(txn, txn.edit_queues([EDGES, TIMES]))
        assert list(store.snapshot()["edge"]) == [(1, 2)] and store.check() == []


def test_a_file_that_a_kernel_cannot_write(tmp_path, monkeypatch):
    """The kernel only leaves the edits unflushed; the general way then raises the error."""
    with begun(tmp_path / "g.pages") as store:
        reading = os.open(tmp_path / "g.pages", os.O_RDONLY)
        monkeypatch.setattr(type(store._handle.file), "page_writer", PageWriter(reading).words)
        with store.transaction() as txn:
            untouched(txn, txn.edit_queues([EDGES, TIMES]))
        os.close(reading)
        assert list(store.snapshot()["edge"]) == [(1, 2)] and store.check() == []


@compiled
def test_a_rollback_takes_back_what_was_flushed(tmp_path):
    with begun(tmp_path / "g.pages") as store:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), store.transaction() as txn:
                queues = txn.edit_queues([EDGES, TIMES])
                waiting(queues, columns([(INSERT, 1, 2)], 3), columns([(ADD, 3, 1)], 3))
                assert flushed(txn, queues) == 2
                assert rows_of(txn, "$times") == [(3, 1)]
                raise ZeroDivisionError
            assert rows_of(store.snapshot(), "edge") == [] and store.check() == []


@compiled
def test_edits_of_a_relation_come_before_what_waits(tmp_path):
    with begun(tmp_path / "g.pages") as store, store.transaction() as txn:
        queues = txn.edit_queues([EDGES, TIMES])
        txn["edge"].insert([(1, 2)])
        waiting(queues, columns([(ERASE, 1, 2), (INSERT, 2, 2)], 3))
        assert flushed(txn, queues) == 2
        assert rows_of(txn, "edge") == [(2, 2)]


@compiled
def test_a_file_that_grows(tmp_path):
    """Few edits at a time, each of a leaf of its own; nothing is ever freed."""
    with begun(tmp_path / "g.pages", page_size=4096, retain="all") as store:
        with store.transaction() as txn:
            rows = np.array([np.arange(20_000), np.arange(20_000) % 7])
            txn.apply_indexed(EDGES.names, EDGES.places, np.full(20_000, INSERT), rows)
            queues = txn.edit_queues([EDGES])
        sizes = set()
        for step in range(60):
            with store.transaction() as txn:
                waiting(queues, columns([(INSERT, x, 9) for x in range(step, 20_000, 2500)], 3))
                assert flushed(txn, queues) == 1
            sizes.add(store._handle.file.size())
        assert len(sizes) > 2, "the file did not grow; this tests nothing"
        assert len(store.snapshot()["edge"]) == 20_480 and store.check() == []
