"""Rules that compare texts, and take the least and the greatest: against Python's order of
bytes, edit by edit.
"""

import random

import pytest

import ivm

RULES = """
name(x, s) -> int(x), string(s).
word[x] = s -> int(x), string(s).
less(x, y) <- name(x, s), name(y, t), s < t.
most(x, y) <- word[x] = s, word[y] = t, s <= t.
before(x) <- name(x, s), s < "m".
until(x) <- name(x, s), s <= "mé".
behind(s) <- name(_, s), s > "mé".
from(s) <- name(_, s), "m" <= s.
never(x) <- name(x, _), "b" < "a".
least[x] = m <- agg<<m = min(s)>> name(x, s).
greatest[x] = m <- agg<<m = max(s)>> name(x, s).
last[] = m <- agg<<m = max(s)>> name(_, s).
unequalled(x) <- name(x, s), !(name(y, t), y != x, t >= s).
above(x) <- name(x, s), !(word[x] = t, t >= s).
"""


def expected(names: set, words: dict) -> dict[str, set]:
    """The rows of all views."""
    raw = str.encode
    by_x = {x: [s for y, s in names if y == x] for x, _ in names}
    return {
        "less": {(x, y) for x, s in names for y, t in names if raw(s) < raw(t)},
        "most": {(x, y) for x, s in words.items() for y, t in words.items() if raw(s) <= raw(t)},
        "before": {(x,) for x, s in names if raw(s) < b"m"},
        "until": {(x,) for x, s in names if raw(s) <= raw("mé")},
        "behind": {(s,) for _, s in names if raw(s) > raw("mé")},
        "from": {(s,) for _, s in names if raw(s) >= b"m"},
        "never": set(),
        "least": {(x, min(own, key=raw)) for x, own in by_x.items()},
        "greatest": {(x, max(own, key=raw)) for x, own in by_x.items()},
        "last": {(max((s for _, s in names), key=raw),)} if names else set(),
        "unequalled": {(x,) for x, s in names if all(raw(t) < raw(s) for y, t in names if y != x)},
        "above": {(x,) for x, s in names if not (x in words and raw(words[x]) >= raw(s))},
    }


def in_order(rows) -> list:
    return sorted(
        rows, key=lambda row: [value.encode() if isinstance(value, str) else value for value in row]
    )


@pytest.mark.parametrize("seed", range(3))
def test_views_follow_random_edits(tmp_path, seed):
    rnd = random.Random(seed)
    names: set = set()
    words: dict = {}
    with ivm.open(tmp_path / "s.pages", retain="all") as workspace:
        workspace.install(RULES)
        for step in range(25):
            with workspace.transaction() as txn:
                gone = rnd.sample(sorted(names), min(len(names), rnd.choice([0, 1, 30])))
                new = {
                    (rnd.randrange(8), "".join(rnd.choices("amzé𐀀\0", k=rnd.randrange(4))))
                    for _ in range(rnd.choice([0, 1, 12]))
                }
                txn.delete("name", gone)
                txn.insert("name", [*new])
                names = names - {*gone} | new
                key, text = rnd.randrange(8), rnd.choice("amzé")
                txn.set("word", [(key, text)])
                words[key] = text
            for view, rows in expected(names, words).items():
                assert list(workspace[view]) == in_order(rows), (step, view)
        for view in expected(names, words):
            workspace.verify(view)
        assert workspace.check() == [] and workspace.store.check() == []


def test_a_constant_need_not_be_in_the_store(tmp_path):
    with ivm.open(tmp_path / "s.pages", retain="all") as workspace:
        workspace.install("name(s) -> string(s).")
        for text in ("b", "d"):
            workspace.exec(f'+name("{text}").')
        old = workspace.store.version
        workspace.exec('+name("c"). -name("d").')
        query = 'q(s) <- name(s), s >= "bb", s < "cc" ; name(s), s > "ccc".'
        assert list(workspace.query(query)) == [("c",)]
        assert list(workspace.at(old).query(query)) == [("d",)]


def test_views_of_a_store_whose_order_is_not_kept(tmp_path):
    """Labels are dropped, as a store of an earlier format has none; the next transaction makes
    them.
    """
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.install(RULES)
        workspace.exec('+name(1, "b"). +name(2, "a"). +name(1, "c").')
        with workspace.store.transaction() as txn:
            words = txn.dictionary
            for number in (5, 6):
                words._trees[number] = words._trees[number].empty(words._trees[number].spec)
            words.settle = lambda: None
        names = {(1, "b"), (2, "a"), (1, "c")}
        for _ in range(2):
            for view, rows in expected(names, {}).items():
                assert list(workspace[view]) == in_order(rows)
            workspace.exec('+name(0, "aa").')
            names.add((0, "aa"))
