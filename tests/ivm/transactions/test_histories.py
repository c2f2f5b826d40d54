"""Random histories of branches whose views follow, crashed between: rows are those of a model's
replay, views those of their rules evaluated from scratch, and every page is accounted for.
"""

import os
import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import ivm
import pagestore
from pagestore import Store
from pagestore.admin.merge import Merge
from pagestore.store import empty_store
from pagestore.versions.handle import Handle
from tests.pagestore.admin.test_merge import CREATED, Model, run, shown
from tests.support.programs.amounts import times
from tests.support.simulator import FALLBACK, SimulatedFile, crashes

# a crash may leave half a commit
pytestmark = pytest.mark.filterwarnings("ignore::pagestore.errors.RecoveryWarning")
RULES = (
    "total[] = s <- agg<<s = sum(v)>> text[_] = v.",
    "held(b) <- pair(_, b). alone(a, b) <- pair(a, b), !pair(a, \"t0\").",
    "near(a, b) <- pair(a, x), pair(b, x). far(a, b) <- near(a, b). far(a, c) <- far(a, b), near(b, c).",
    "SELECT b, list(a ORDER BY a) AS all_a, {'least': min(a), 'n': count(*)} AS about FROM pair GROUP BY b",
)  # fmt: skip
VIEWS = "total", "held", "alone", "near", "far", "block3"  # the last is in several relations


class Between:
    """What is done between the steps of a history: installations, crashes, checks, and a copy of
    the file at half of them, which pulls at the end.
    """

    def __init__(self, file: SimulatedFile, path: Path, steps: int) -> None:
        self.file, self.path, self.left, self.half = file, path, steps, steps // 2
        self.ws = ivm.Workspace(Store(Handle(file)))
        self.ws.store.retain = "all"
        self.done: Counter[str] = Counter()
        self.begin({"main": {}})

    def begin(self, state: dict[str, Any]) -> None:
        """Begin a step."""
        self.start, self.before = self.file.content(), state
        self.file.operations.clear()

    def __call__(self, model: Model, chance: random.Random) -> None:
        """After a step."""
        now = {name: model.states[number] for name, number in model.heads.items()}
        while model.told:
            self.compare(*model.told.pop())
        self.crash(now, chance)
        if chance.random() < 0.25:
            self.install(model, chance)
        self.left -= 1
        if self.left == self.half:
            self.path.write_bytes(self.file.content())
        if not self.left:
            with pagestore.open(self.path) as copy:
                copy.pull(self.ws.store)
                assert shown(copy.snapshot()) == now["main"]
                assert [v for v in copy.check() if v.invariant not in FALLBACK] == []
        if not self.left or chance.random() < 0.1:
            assert self.ws.check() == []
        self.begin(now)

    def compare(self, before: int, after: int, told: Merge) -> None:
        """A merge changed what its dry run said."""
        with self.ws.at(before) as old, self.ws.at(after) as new:
            found = {name: new.changes(name, old) for name in (*CREATED, *VIEWS)}
        changed = {name: table for name, table in found.items() if table and table.num_rows}
        self.done.update({*changed} & {*VIEWS})
        assert told.changes == changed

    def crash(self, now: dict[str, Any], chance: random.Random) -> None:
        """A crash within the step leaves what was before it, or after it."""
        images = crashes(self.start, self.file.operations, random.Random(chance.random()))
        skipped = chance.randrange(3 * len(self.file.operations) + 1)
        for _, image in islice(images, skipped, skipped + 1):
            found = Store(Handle(SimulatedFile(image)))
            for branch in {*found.branches} & {*now, *self.before}:
                sides = self.before.get(branch), now.get(branch)
                self.done["crash"] += sides[0] != sides[1]
                assert shown(found.snapshot(branch)) in sides
            assert [v for v in found.check() if v.invariant not in FALLBACK] == []

    def install(self, model: Model, chance: random.Random) -> None:
        """Install rules on a branch that has their relations, or uninstall them."""
        branch, number = chance.choice([*model.heads]), chance.randrange(len(RULES))
        state, on, name = model.states[model.heads[branch]], self.ws.on(branch), f"block{number}"
        if {"text", "pair"} <= {*state}:
            if name in on.blocks:
                on.uninstall(name)
            elif RULES[number].startswith("SELECT"):
                on.sql(f"CREATE MATERIALIZED VIEW {name} AS {RULES[number]}")
            else:
                on.install(RULES[number], name)
            for one in reversed(self.ws.store.history(branch=branch)):
                if one.version > model.heads[branch]:  # SQL's first view also makes a relation
                    model.commit(branch, one.version, state)
            model.rules[model.heads[branch]] = repr([*on.blocks.items()])
            self.done[name] += 1


def history(seed: int, folder: Path, steps: int = 24) -> Counter[str]:
    """Run a history; return how often what was done between its steps."""
    between = Between(SimulatedFile(empty_store(4096)), folder / f"{seed}.pages", steps)
    run(seed, steps, between.ws.store, between)
    (folder / f"{seed}.pages").unlink()
    return between.done


def test_random_histories(tmp_path: Path) -> None:
    """Some of them, in which each block is installed, and steps are crashed."""
    done = sum((history(seed, tmp_path) for seed in range(times(5))), Counter())
    assert {*done} >= {"crash", "held", "far", *(f"block{n}" for n in range(len(RULES)))}


@pytest.mark.campaign
def test_many_random_histories(tmp_path: Path) -> None:
    """Ten thousand, or as many as HISTORIES says."""
    for seed in range(int(os.environ.get("HISTORIES", "10000"))):
        history(seed, tmp_path)
