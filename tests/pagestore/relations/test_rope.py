"""Ropes: the texts of a range as one text, in key order, at every version and through all care
of a store.
"""

import io
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagestore
from pagestore.errors import SchemaError
from pagestore.relations.rope import PIECES
from pagestore.trees import read as reading
from tests.support.programs.amounts import times


def told(tmp_path, texts, **options):
    """A store whose relation `line` holds texts by number."""
    store = pagestore.open(tmp_path / "lines.pages", **options)
    with store.transaction() as txn:
        txn.create(
            "line", "n: int64, text: string, raw: bytes, m: int64", key="n", scans=["sum:m"]
        ).insert([(n, text, text.encode(), n % 7) for n, text in enumerate(texts)])
    return store


TEXTS = [f"{n}·" * (n % 5) + ("x" * 1500 if n % 997 == 0 else "") for n in range(9000)]


def test_a_rope_is_the_join_of_its_range(tmp_path):
    with told(tmp_path, TEXTS) as store:
        line = store.snapshot()["line"]
        for lo, hi in [((), ()), ((3,), (4,)), ((17,), (8123,)), ((500,), (500,)), ((8990,), ())]:
            rope = line.range(lo, hi).scan("concat:text")
            inside = TEXTS[slice(*(bound[0] if bound else None for bound in (lo, hi)))]
            whole = "".join(inside)
            assert (str(rope), list(rope), rope.length) == (whole, inside, len(whole))
            assert bytes(rope) == whole.encode()
            raw = line.range(lo, hi).scan("concat:raw")
            assert bytes(raw) == whole.encode() and raw.length == len(whole.encode())


@settings(max_examples=times(30))
@given(
    st.lists(st.text(max_size=4), max_size=12),
    st.integers(-30, 30) | st.none(),
    st.integers(-30, 30) | st.none(),
)
def test_a_part_of_a_rope_is_that_of_the_text(tmp_path_factory, texts, start, stop):
    with told(tmp_path_factory.mktemp("rope"), texts) as store:
        line = store.snapshot()["line"]
        whole = "".join(texts)
        assert line.scan("concat:text")[start:stop] == whole[start:stop]
        assert line.scan("concat:text")[start:stop:2] == whole[start:stop:2]
        raw = b"".join(text.encode() for text in texts)
        assert line.scan("concat:raw")[start:stop] == raw[start:stop]


def test_a_rope_reads_what_is_asked_for(tmp_path, monkeypatch):
    """Making a rope reads no records, and its first pieces read one batch."""
    with told(tmp_path, TEXTS) as store:
        batches, read = [], reading.READ.call

        def counted(*args):
            batches.append(args[-1].shape)
            return read(*args)

        monkeypatch.setattr(reading.READ, "call", counted)
        rope = store.snapshot()["line"].scan("concat:text")
        assert batches == []
        assert list(islice(rope, 3)) == TEXTS[:3]
        assert rope[5:9] == "".join(TEXTS)[5:9]
        assert batches.count((1, PIECES)) == 2  # the others are of the dictionary


def test_ropes_of_versions_and_of_a_store_cared_for(tmp_path):
    with told(tmp_path, TEXTS[:2000], retain="all") as store:
        with store.transaction() as txn:
            txn["line"].set([(3, "new", b"", 0)])
            txn["line"].delete([5])
            assert (
                str(txn["line"].range((2,), (7,)).scan("concat:text"))
                == TEXTS[2] + "new" + TEXTS[4] + TEXTS[6]
            )
        changed = [*TEXTS[:3], "new", TEXTS[4], *TEXTS[6:2000]]
        assert str(store.at(1)["line"].scan("concat:text")) == "".join(TEXTS[:2000])
        out = io.BytesIO()
        store.dump(out)
        store.vacuum(keep_versions=1)
        assert store.check() == []
    with (
        pagestore.open(tmp_path / "lines.pages") as store,
        pagestore.open(tmp_path / "again.pages") as again,
    ):
        assert list(store.snapshot()["line"].scan("concat:text")) == changed
        again.restore(io.BytesIO(out.getvalue()))
        assert list(again.snapshot()["line"].scan("concat:text")) == changed


def test_what_is_no_rope(tmp_path):
    with told(tmp_path, ["a"]) as store:
        line = store.snapshot()["line"]
        with pytest.raises(SchemaError, match="n is a int64; strings and bytes are concatenated"):
            line.scan("concat:n")
        with pytest.raises(SchemaError, match="no column 'q'"):
            line.scan("concat:q")
        with pytest.raises(SchemaError, match="no scan is carried, just scan a range"):
            line.scan_many("concat:text", [(0,)], [(1,)])
        with (
            pytest.raises(SchemaError, match="no scan is carried, just scan a range"),
            store.transaction() as txn,
        ):
            txn.add_scan("line", "concat:text")
        with pytest.raises(TypeError, match="a rope gives slices"):
            line.scan("concat:text")[0]
        with pytest.raises(TypeError, match=r"use bytes\(rope\)"):
            str(line.scan("concat:raw"))
