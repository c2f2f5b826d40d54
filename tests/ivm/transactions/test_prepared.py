"""Edits that are collected first, and transactions of asynchronous programs."""

import asyncio

import pytest

import ivm
import pagestore
from ivm.errors import EditError, FunctionConflictError
from pagestore.errors import WordError

RULES = """
edge(x, y) -> int(x), int(y).
price[item] = p -> string(item), int(p).
two(x, z) <- edge(x, y), edge(y, z).
"""


@pytest.fixture
def workspace(tmp_path):
    with ivm.open(tmp_path / "w.pages", sync="off") as workspace:
        workspace.install(RULES)
        yield workspace


def test_prepared_edits_are_one_transaction_in_their_order(workspace):
    put, before = workspace.prepare("edge"), workspace.store.version
    for k in range(5):
        put.insert(k, k + 1)
    put.delete(0, 1)
    put.insert(0, 2)
    assert len(put) == 7 and not workspace["edge"]
    assert put.commit() == before + 1 == workspace.store.version and len(put) == 0
    assert [*workspace["edge"]] == [(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert [*workspace["two"]] == [(0, 3), (1, 3), (2, 4), (3, 5)]
    assert put.commit() == workspace.store.version == before + 1  # nothing was collected


def test_prepared_edits_stay_where_the_commit_fails(workspace):
    put = workspace.prepare("price")
    put.insert("tea", 3)
    put.commit()
    put.insert("tea", 4)
    with pytest.raises(FunctionConflictError):
        put.commit()
    assert len(put) == 1 and dict(workspace["price"]) == {"tea": 3}
    put.clear()
    put.set("tea", 4)
    put.insert("pie", "much")
    with pytest.raises(WordError):
        put.commit()
    put.clear()
    put.set("tea", 5)
    put.commit()
    assert dict(workspace["price"]) == {"tea": 5}
    with pytest.raises(EditError):
        asyncio.run(workspace.commit_async(lambda txn: txn.insert("two", [(1, 2)])))


def test_relations_of_a_store(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, v: string", key="k")
        put = store.prepare("r")
        put.insert(1, "a")
        put.set(1, "b")
        put.insert(2, "c")
        put.delete(2)
        assert put.commit() == 2 and dict(store.snapshot()["r"]) == {1: "b"}


def test_single_edits_are_transactions(workspace):
    first = workspace.insert("edge", (1, 2))
    assert workspace.insert("edge", [(2, 3), (3, 4)]) == first + 1
    assert workspace.delete("edge", (3, 4)) == first + 2
    workspace.set("price", ("tea", 3))
    workspace.set("price", ("tea", 4))
    assert [*workspace["two"]] == [(1, 3)] and dict(workspace["price"]) == {"tea": 4}


def test_asynchronous_transactions_share_syncs(tmp_path):
    syncs = []

    async def one(workspace, k):
        if k % 3 == 0:
            async with workspace.transaction_async() as txn:
                txn.insert("edge", [(k, k + 1)])
                txn.set("price", [(f"item {k}", k)])
            return txn.version
        if k % 3 == 1:
            return await workspace.commit_async(lambda txn: txn.insert("edge", [(k, k + 1)]))
        put = workspace.prepare("edge")
        put.insert(k, k + 1)
        return await put.commit_async()

    async def all_of(workspace):
        return await asyncio.gather(*(one(workspace, k) for k in range(24)))

    with ivm.open(tmp_path / "w.pages", sync="commit", gather=0.005) as workspace:
        workspace.install(RULES)
        file = workspace.store._handle.file
        sync = file.fdatasync
        file.fdatasync = lambda: (syncs.append(1), sync())
        versions = asyncio.run(all_of(workspace))
        assert len({*versions}) == 24 and len(syncs) < 20
        assert (
            len(workspace["edge"]) == 24
            and len(workspace["two"]) == 23
            and len(workspace["price"]) == 8
        )
        assert not workspace.check()


def test_an_asynchronous_transaction_that_fails_changes_nothing(workspace):
    async def fail():
        async with workspace.transaction_async() as txn:
            txn.insert("edge", [(1, 2)])
            raise KeyError("no")

    with pytest.raises(KeyError):
        asyncio.run(fail())
    put = workspace.prepare("price")
    put.insert("tea", "much")
    with pytest.raises(WordError):
        asyncio.run(put.commit_async())
    assert len(put) == 1 and not workspace["edge"]
