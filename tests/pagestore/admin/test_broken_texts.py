"""Texts that are not UTF-8, of stores that took them before: fsck says where they are, and a
command mends them.
"""

import io
import json

import numpy as np
import pyarrow as pa
import pytest

import ivm
import pagestore
from pagestore.admin.broken_texts import mend_texts
from pagestore.errors import CorruptionError, EditError, WordError
from pagestore.values.dictionary import broken_among
from pagestore_tools.cli.main import pagestore as pagestore_command

LATIN = [b"caf\xe9", b"na\xefve", b"\xff", b"plain", b"caf\xc3\xa9 two"]


def raw(texts):
    """A column of strings with any bytes, as Parquet may have it."""
    return pa.array(texts, pa.binary()).view(pa.string())


@pytest.fixture
def unlooked(monkeypatch):
    """Values come in as they did before they were looked at."""
    monkeypatch.setattr("pagestore.values.exact.damage_of", lambda array: None)


@pytest.fixture
def path(tmp_path, unlooked):
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        with ws.store.transaction() as txn:
            rows = pa.table({"k": range(5), "v": raw(LATIN), "b": pa.array(LATIN)})
            txn.create("r", "k: int64, v: string, b: bytes", key="k").insert(rows)
            txn.create("names", "name: string").insert(pa.table({"name": raw(LATIN)}))
            txn.create("fine", "name: string").insert(["caf\xe9", "plain"])
        ws.install(
            "by[v] = n <- agg<<n = count()>> r[_] = (v, _). first[] = m <- agg<<m = min(v)>> "
            "names(v)."
        )
    return tmp_path / "s.pages"


def command(capsys, *words):
    code = pagestore_command([str(word) for word in words])
    return code, capsys.readouterr().out


def test_fsck_says_where_they_are(path, capsys):
    code, said = command(capsys, "fsck", path)
    assert code == 1
    assert (
        "r: column 'v' has 3 texts that are not UTF-8, the first at slot 0: pagestore fsck "
        "--repair-texts" in said
    )
    assert (
        "names: column 'name' has 3 texts" in said
        and "column 'b'" not in said
        and "fine" not in said
    )
    with (
        pagestore.open(path, mode="r") as store,
        pytest.raises(CorruptionError, match="pagestore fsck says more"),
    ):
        list(store.snapshot()["r"])


@pytest.mark.parametrize("encoding", ["latin-1", ""])
def test_they_are_mended_and_views_follow(path, encoding, capsys):
    code, said = command(capsys, "fsck", path, "--repair-texts", *[encoding] * bool(encoding))
    assert code == 1 and "r: 3 records with texts that were no UTF-8, mended in version" in said
    expected = ["café", "naïve", "ÿ"] if encoding else ["caf\\xe9", "na\\xefve", "\\xff"]
    expected += ["plain", "café two"]
    with ivm.open(path) as ws:
        assert list(ws["r"]) == [
            (i, text, raw) for i, (text, raw) in enumerate(zip(expected, LATIN, strict=True))
        ]
        assert (
            sorted(ws["names"])
            == sorted((text,) for text in expected)
            == sorted((text,) for text, _ in ws["by"])
        )
        assert list(ws["first"]) == [(min(expected),)]
        assert ws.check() == []
        ws.store.vacuum(keep_versions=1)
        assert ws.store.check() == []
        dumped = io.BytesIO()
        ws.store.dump(dumped)
    with pagestore.open(":memory:") as other:
        dumped.seek(0)
        other.restore(dumped)
        assert [text for _, text, _ in other.snapshot()["r"]] == expected
    assert command(capsys, "fsck", path)[0] == 0
    code, said = command(capsys, "fsck", path, "--repair-texts", "--json")
    assert code == 0 and json.loads(said)["mended"] == []


def test_what_the_encoding_has_not_changes_nothing(path):
    with pagestore.open(path, sync="off") as store:
        before = store.version
        for encoding, says in (
            ("ascii", r"b'.*' does not read as ascii"),
            ("nonsense", "unknown encoding"),
        ):
            with pytest.raises(WordError, match=says):
                mend_texts(store._handle, encoding)
        assert store.version == before


def test_keys_that_become_one_are_refused(tmp_path, unlooked):
    with pagestore.open(":memory:") as store:
        with store.transaction() as txn:
            names = txn.create("names", "name: string, n: int64", key="name")
            names.insert(pa.table({"name": raw([b"caf\xe9", b"caf\xc3\xa9"]), "n": [1, 2]}))
        with pytest.raises(
            EditError, match="two records have one key; name another encoding, or none"
        ):
            mend_texts(store._handle, "latin-1")
        assert [one.records for one in mend_texts(store._handle)] == [1]
        assert list(store.snapshot()["names"]) == [("caf\\xe9", 1), ("café", 2)]


def test_every_branch_is_mended(unlooked):
    with pagestore.open(":memory:") as store:
        with store.transaction() as txn:
            txn.create("r", "v: string").insert(
                pa.table({"v": raw([b"\xe9", b"long " * 2000 + b"\xe9"])})
            )
        store.branch("other")
        assert [(one.branch, one.records) for one in mend_texts(store._handle, "latin-1")] == [
            ("main", 2),
            ("other", 2),
        ]
        for branch in ("main", "other"):
            assert list(store.snapshot(branch)["r"]) == [("long " * 2000 + "é",), ("é",)]
        assert mend_texts(store._handle, "latin-1") == []


def test_broken_texts_are_found_among_any():
    texts = ["é", "", "\0", "𝄞", "a"]
    whole = [text.encode() for text in texts]
    cut = [part for text in whole for part in (text[:1], text[1:])]  # which together are texts
    for some in (whole, cut, [b"\xc3", b"\xa9"]):
        expected = [
            i for i, text in enumerate(some) if text.decode(errors="replace").encode() != text
        ]
        assert broken_among(some) == expected
    assert np.array_equal(broken_among([]), [])
