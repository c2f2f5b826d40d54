"""Names of any characters and lengths in errors, reprs and explanations."""

import pytest

import ivm
import pagestore
from ivm.errors import IvmError
from pagestore.errors import PagestoreError
from pagestore.printable import MESSAGE_MAX, printable

EVIL = "a\x1b]0;owned\x07\x1b[2J\u202e\u2066b"
HIDDEN = "\x1b\x07\u202e\u2066"
LONG = "n" * 100_000


def said(name: str) -> list[str]:
    """All that is said of a relation and of a view with a name."""
    texts = []
    with pagestore.open(":memory:") as store, ivm.open(":memory:") as ws:
        with store.transaction() as txn:
            texts.append(repr(txn.create(name, "k: int64")))
        snap = store.snapshot()
        texts += map(
            repr, (store, snap, snap[name], snap[name].mapping(), snap[name].range((1,), (2,)))
        )
        ws.install(
            f"e(x, y) -> int(x), string(y). `{name}`(x) <- e(x, _). `{name}c`[x] = t <- agg<<t = "
            f"concat(y)>> e(x, y)."
        )
        ws.exec('+e(1, "a").')
        texts += [repr(ws[name]), ws.explain(name), ws.explain("e"), repr(ws.rope(f"{name}c", 1))]
        texts += [
            repr(ws.query(f"`q{name}`(`{name}`) <- e(`{name}`, _).")),
            ws.explain(f"q(x) <- `{name}`(x)."),
        ]
        for failing in (
            lambda: snap[f"no{name}"],
            lambda: ws[f"no{name}"],
            lambda: ws.rope(name),
            lambda: ws.explain(f"no{name}"),
            lambda: ws.exec(f"+`{name}`(1)."),
            lambda: ws.query(f"q(x) <- `{name}`(x, x)."),
            lambda: ws.uninstall(name),
            lambda: ws.query(f"q(x) <- `no{name}`(x)."),
            lambda: ws.install(f"`{name}`(x) <- e(x, _).", "more"),
            lambda: ws.install(f"p(x) <- e(x, _), x = `{name}`."),
            lambda: store.at(name),
            lambda: snap[name].scan(name),
            lambda: snap[name].range((name,)),
            lambda: ws.transaction().insert(name, [(1,)]),
        ):
            with pytest.raises((IvmError, PagestoreError)) as caught:
                failing()
            texts.append(str(caught.value))
    return texts


def test_what_is_said_has_no_control_characters():
    texts = said(EVIL)
    assert len(texts) > 20
    for text in texts:
        assert not any(letter in text for letter in HIDDEN), ascii(text)
    assert sum("owned" in text for text in texts) > 15


def test_messages_are_not_as_long_as_names():
    errors = said(LONG)[-14:]
    assert all(len(text) < 2 * MESSAGE_MAX for text in errors), [*map(len, errors)]
    assert any("characters ..." in text for text in errors)


def test_lines_and_letters_of_words_stay():
    assert printable("ab\nä\u200d\t", kept="\n") == "ab\nä\u200d\\t"
