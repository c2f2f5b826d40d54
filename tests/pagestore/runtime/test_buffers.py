"""Large arrays are Arrow's memory for as long as they live, and small ones are not."""

import mmap

import pyarrow as pa
import pytest

import pagestore
from pagestore.runtime import buffers


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(buffers, "POOLED", 64)


def test_large_arrays_come_from_the_pool_and_go_back_there():
    before = pa.total_allocated_bytes()
    small, large = buffers.pooled(63), buffers.pooled(4, 16)
    assert pa.total_allocated_bytes() - before == 8 * 64
    large[:] = small[0] = 7
    part = large[1, 3:5]
    del large
    assert pa.total_allocated_bytes() - before == 8 * 64 and part.tolist() == [7, 7]
    del part
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize("pages", [0, 1, 3, 40])
def test_large_pages_are_asked_for_within_the_array(pages, monkeypatch):
    asked = []
    monkeypatch.setattr(buffers, "_madvise", lambda *given: asked.append(given))
    array = buffers.pooled(64 + pages * buffers.HUGE_PAGE // 8)
    begin, end = array.ctypes.data, array.ctypes.data + array.nbytes
    assert pages - 1 <= sum(length // buffers.HUGE_PAGE for _, length, _ in asked) <= pages
    for at, length, advice in asked:
        assert (
            begin <= at < at + length <= end
            and at % buffers.HUGE_PAGE == 0
            and advice == mmap.MADV_HUGEPAGE
        )


def test_a_relation_is_read_into_the_pool(tmp_path):
    with pagestore.open(tmp_path / "rows.pages") as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64, y: int64").insert([(x, -x) for x in range(100)])
        before = pa.total_allocated_bytes()
        columns = store.snapshot()["r"].to_numpy()
        assert pa.total_allocated_bytes() - before >= 8 * 200
        assert columns["x"].tolist() == list(range(100)) and columns["y"].sum() == -4950
        del columns
        assert pa.total_allocated_bytes() == before
