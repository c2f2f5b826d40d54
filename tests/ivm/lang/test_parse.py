"""The parser's tables are made once and kept; what is kept makes the same of every text."""

import importlib

import pytest
from lark.exceptions import UnexpectedInput

from ivm.lang.parse import complaint

parse = importlib.import_module("ivm.lang.parse")  # the package has its function by that name

TEXTS = [
    "p(x) <- q(x), !r(x, _), x != 3; s(x).",
    'total[c] = n <- agg<<n = sum(v)>> sale(c, v), c != "tea". +edge(1, 2). ^price["tea"] = 3.50.',
    "p(x) <- q(x",
    "p(x) <- ,",
    ".",
    "d[x] = n <- agg<<n = count() q(x).",
]


def made_of(text: str) -> str:
    """What a parser made now makes of a text."""
    parser = parse._parser.__wrapped__()
    try:
        return parser.parse(text).pretty()
    except UnexpectedInput as error:
        return str(complaint(error, text, "rules"))


def test_tables_that_are_kept_make_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fresh = made_of(TEXTS[0])
    with monkeypatch.context() as kept:
        kept.delattr(parse.Lark, "_build_parser")
        later = [made_of(text) for text in TEXTS]
    assert later[0] == fresh
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    for text, made in zip(TEXTS, later, strict=True):
        assert made_of(text) == made
        (tmp_path / "elsewhere" / "pagestore" / "syntax.tables").unlink()


@pytest.mark.parametrize("damage", ["gone", "junk", "half", "a bit", "of another grammar"])
def test_tables_that_are_not_whole_are_made_again(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fresh = made_of(TEXTS[0])
    tables = tmp_path / "pagestore" / "syntax.tables"
    kept = tables.read_bytes()
    flipped = kept[:9000] + bytes([kept[9000] ^ 1]) + kept[9001:]
    other = parse._seal("start:", kept[parse.SEAL :]) + kept[parse.SEAL :]
    damages = {"gone": b"", "junk": b"junk", "half": kept[: len(kept) // 2], "a bit": flipped}
    tables.write_bytes(damages.get(damage, other))
    assert made_of(TEXTS[0]) == fresh
    monkeypatch.delattr(parse.Lark, "_build_parser")
    assert made_of(TEXTS[0]) == fresh


def test_where_tables_cannot_be_kept_they_are_made_every_time(tmp_path, monkeypatch):
    (tmp_path / "pagestore" / "syntax.tables").mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert made_of(TEXTS[0]) == made_of(TEXTS[0])
