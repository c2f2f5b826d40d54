"""Groups of several levels of detail that share a state: what is maintained is what the slow
truth says, each time.
"""

import math
import random
from pathlib import Path

import numpy as np
import pytest

import ivm
from ivm.plan.conjunction import ScanConjunction
from ivm.rules import compile
from ivm.rules.installed import PROPERTY
from ivm.ways import states
from pagestore.host import WORD_MAX, WORD_MIN
from tests.ivm.views.test_aggregates import counting
from tests.support import naive
from tests.support.mirror import Mirror
from tests.support.programs.generations import planning_of, planning_without
from tests.support.programs.recursive_programs import semilattice

TYPES = {
    "int": [0, 1, 2, -1, 7, WORD_MAX, WORD_MIN],
    "string": ["", "a", "b", "ab", "é", "z"],
    "float": [0.0, -1.5, 2.0, 1e300, -1e300],
}
KEYS = "cmk"
ENDS = [0, 1, WORD_MAX, WORD_MIN]  # nothing is behind the greatest prefix
LEVELS = """h[c, m] = d <- agg<<d = max(x)>> r(c, m, x).
    h1[c] = d <- agg<<d = max(z)>> r(c, _, z).
    h0[] = d <- agg<<d = min(x)>> r(c, m, x)."""
BASE = "r(c, m, x) -> int(c), int(m), int(x)."


def some_rule(rng: random.Random, name: str, type_: str) -> str:
    """An aggregate of r or of what no row of s forbids, over some groups, with names of its own."""
    names = dict(zip(KEYS + "x", rng.sample("abcdefgh", 4), strict=True))
    group = [names[key] for key in rng.sample(KEYS, rng.randint(0, 3))]
    x, body = names["x"], ", ".join(names.values())
    body = rng.choice(
        [
            f"r({body})",
            f"r({body})",
            f"r({body}), !s({names['c']})",
            f"r({body}), t({names['m']}, y)",
        ]
    )
    other = ["unite"] if type_ == "int" else []
    op = rng.choice(
        ["min", "max"] * 4
        + other * 3
        + ["median" if type_ != "string" else "count_distinct", "last"]
    )
    if rng.random() < 0.4:
        op, x = (
            rng.choice(["argmin", "argmax", "first", "last"]),
            f"{rng.choice([names['k'], x])}, {x}",
        )
    if rng.random() < 0.2:
        hi = f"{name}x[{', '.join(group[:1])}] = j"
        return f"{name}[{', '.join(group)}] = i, {hi} <- agg<<i = {op}({x}), j = max({names['x']})>> {body}."
    return f"{name}[{', '.join(group)}] = i <- agg<<i = {op}({x})>> {body}."


def some_edits(rng: random.Random, type_: str) -> list[tuple]:
    edits = []
    for _ in range(rng.randint(1, 6)):
        key = rng.choice(ENDS), rng.choice(ENDS), rng.randrange(2)
        row = "r", (*key, rng.choice(TYPES[type_]))
        other = rng.choice([("s", key[:1]), ("t", key[:2])])
        edits.append((*(row if rng.random() < 0.7 else other), rng.random() < 0.55))
    return edits


def branch_follows(mirror: Mirror, name: str, edits: list[tuple]) -> None:
    """A branch of the newest version, edited: it has the rows of the truth, and the main one has
    its own.
    """
    store, state = mirror.workspace.store, {n: rows.copy() for n, rows in mirror.state.items()}
    store.branch(name)
    with store.transaction(branch=name) as txn:
        for relation, row, inserted in edits:
            naive.change(state[relation], row, inserted)
            (txn[relation].insert if inserted else txn[relation].delete)([row])
    expected = naive.evaluate(mirror.program, state)
    with store.snapshot(name) as snap:
        for view, predicate in mirror.program.predicates.items():
            if not predicate.extensional:
                assert sorted(snap[view]) == sorted(naive.rows_of(expected[view])), view
    assert mirror.workspace.check(name) == []
    mirror.compare()


def follow(seed: int, path: Path) -> bool:
    """Random rules over random edits, opened again, at old versions, on a branch; were states
    shared by levels?
    """
    semilattice("unite")
    rng = random.Random(seed)
    type_ = rng.choice([*TYPES])
    base = f"r(c, m, k, x) -> int(c), int(m), int(k), {type_}(x). s(c) -> int(c). t(m, y) -> int(m), int(y)."
    rules = "\n".join(some_rule(rng, f"v{n}", type_) for n in range(rng.randint(2, 6)))
    mirror = Mirror(path, base)
    mirror.workspace.close()
    mirror.workspace = ivm.open(path, sync="off", retain="all")
    for _ in range(rng.choice([0, 2])):
        mirror.change(some_edits(rng, type_))
    without = mirror.program
    mirror.install("rules", rules)
    shared = any(block.rewrites.levels for block in mirror.workspace._rules_now().blocks)
    past = {}
    for _ in range(6):
        mirror.change(some_edits(rng, type_))
        past[mirror.workspace.store.version] = mirror.state
    mirror.reopen()
    branch_follows(mirror, "side", some_edits(rng, type_))
    mirror.workspace.uninstall("rules")
    mirror.program = without
    mirror.change(some_edits(rng, type_))
    mirror.install("rules", rules)
    mirror.change(some_edits(rng, type_))
    for version, state in past.items():
        with mirror.workspace.at(version) as snap:
            for name in mirror.program.predicates:
                assert sorted(snap[name]) == sorted(naive.rows_of(state[name])), name
    assert mirror.workspace.check() == [] and mirror.workspace.store.check() == []
    mirror.workspace.uninstall("rules")
    assert not any(
        "$apart" in name for name in mirror.workspace.store.snapshot()._version.catalog.relations
    )
    mirror.close()
    return shared


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_levels_are_the_truth(first, tmp_path):
    shared = [follow(seed, tmp_path / f"{seed}.pages") for seed in range(first, first + 10)]
    assert sum(shared) >= 3  # or the test says nothing


@pytest.mark.campaign
def test_campaign_of_levels(tmp_path):
    for seed in range(1000, 1600):
        follow(seed, tmp_path / f"{seed}.pages")


def kept_states(ws: ivm.Workspace) -> list[str]:
    with ws.store.snapshot() as snap:
        return sorted(name for name in snap._version.catalog.relations if name.startswith("$apart"))


@pytest.mark.parametrize(
    "rules, shared",
    [
        (LEVELS, "h, h0, h1"),
        (
            "h1[m] = d <- agg<<d = min(x)>> r(_, m, x). h[c, m] = d <- agg<<d = min(x)>> r(c, m, "
            "x).",
            "h, h1",
        ),
        (
            "h[c, m] = a, md[c, m] = b, h0[c] = d <- agg<<a = min(x), b = median(x), d = max(x)>> "
            "r(c, m, x).",
            "h, h0, md",
        ),
    ],
)
def test_one_state_serves_all_levels(rules, shared, tmp_path):
    with ivm.open(tmp_path / "l.pages", sync="off") as ws:
        ws.install(f"{BASE} {rules}")
        assert len(kept_states(ws)) == 1
        text = ws.explain("h")
        assert f"shared    by {shared}\n" in text and "serves several levels of detail" in text


@pytest.mark.parametrize(
    "rules",
    [
        # not nested
        "h[c] = d <- agg<<d = max(x)>> r(c, _, x). h0[m] = d <- agg<<d = max(x)>> r(_, m, x).",
        # other values
        "h[c] = d <- agg<<d = max(x)>> r(c, _, x). h0[] = d <- agg<<d = max(x)>> r(_, x, _).",
        # another body
        "h[c] = d <- agg<<d = max(x)>> r(c, _, x). h0[] = d <- agg<<d = max(x)>> r(x, _, x).",
        # how often counts
        "h[c] = d <- agg<<d = max(x)>> r(c, _, x). h0[] = d <- agg<<d = median(x)>> r(_, _, x).",
        # its order
        "h[c, m] = a, md[c, m] = b, h0[m] = d <- agg<<a = min(x), b = median(x), d = max(x)>> r(c, "
        "m, x).",
    ],
)
def test_what_shares_no_state(rules, tmp_path):
    with ivm.open(tmp_path / "l.pages", sync="off") as ws:
        ws.install(f"{BASE} {rules}")
        assert len(kept_states(ws)) == 2
        assert "levels of detail" not in ws.explain("h")


def test_a_delete_applies_the_operator_of_each_level_log_n_times(tmp_path, monkeypatch):
    sizes, most = (1000, 64000), []
    for size in sizes:
        with ivm.open(tmp_path / f"{size}.pages", sync="off") as ws:
            ws.install(f"{BASE} {LEVELS}")
            left = {(0, y % 50, y) for y in range(size)}
            with ws.transaction() as txn:
                txn.insert("r", [np.zeros(size, np.int64), np.arange(size) % 50, np.arange(size)])
            with monkeypatch.context() as patch:
                counts = counting(patch)
                patch.setattr(states, "all_of", None)  # reading a whole group would fail
                for y in (size - 1, size // 2, 0, 7, size - 2):
                    left.remove((0, y % 50, y))
                    ws.exec(f"-r(0, {y % 50}, {y}).")
                    values = [x for _, _, x in left]
                    assert (list(ws["h1"]), list(ws["h0"])) == (
                        [(0, max(values))],
                        [(min(values),)],
                    )
            most.append(sum(counts) / 5)
    assert all(0 < count <= 12 * math.log2(n) for count, n in zip(most, sizes, strict=True)), most


def saved_rules(ws: ivm.Workspace) -> str:
    with ws.store.snapshot() as snap:
        return snap.properties[PROPERTY]


def test_rules_of_a_release_without_levels_keep_their_states(tmp_path, monkeypatch):
    """What such a release stored is a state for each rule, so they go on with these; new blocks
    share.
    """
    path = tmp_path / "old.pages"
    with monkeypatch.context() as patch:
        # saved as such a release did
        patch.setattr(compile, "share_levels", lambda program, _: program)
        patch.setattr(ScanConjunction, "applies", lambda _: False)
        patch.setattr(compile, "may_be_partial", lambda _: False)
        with ivm.open(path, sync="off") as ws:
            ws.install(f"{BASE} {LEVELS}")
            ws.exec("+r(1, 2, 3). +r(1, 3, 9). +r(2, 2, 7).")
            assert planning_of(saved_rules(ws)) == planning_without("ranges")
    with ivm.open(path, sync="off") as ws:
        assert len(kept_states(ws)) == 3
        ws.exec("-r(1, 3, 9).")
        assert list(ws["h"]) == [(1, 2, 3), (2, 2, 7)]
        assert (list(ws["h1"]), list(ws["h0"])) == ([(1, 3), (2, 7)], [(3,)])
        ws.install(LEVELS.replace("h", "g"), "new")
        assert (len(kept_states(ws)), planning_of(saved_rules(ws))) == (4, planning_without("lean"))
    with ivm.open(path, sync="off") as ws:
        ws.exec("-r(1, 2, 3). +r(5, 5, 5).")
        for name in ("h", "g"):
            assert list(ws[f"{name}1"]) == [(2, 7), (5, 5)]
            assert list(ws[f"{name}0"]) == [(5,)]
        ws.uninstall("new")
        assert len(kept_states(ws)) == 3 and ws.check() == []
