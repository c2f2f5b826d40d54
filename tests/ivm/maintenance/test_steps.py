"""Exact mode, `granularity=1`: each step of *Maintaining rule bodies* for each construct of the
paper's Figure 1, beside what sets and loops say of it.

After each transaction of a colliding history the versions before and after are taken apart: what the
product finds from the trees of both, and what has become of the indices that are stored.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from ivm.engine import sweep
from ivm.join.join import Join
from ivm.join.plan_arrays import Regions, change_oracle
from ivm.plan.plan import Index, Plan, Upkeep, sensors_of, tree_name
from ivm.views.delta import Delta, Transition, matches, region_columns, regions, surgeries
from ivm.ways.match import maintain
from pagestore.host import ERASE, INSERT, Pages, Snapshot, Tree, read_batches
from tests.ivm.maintenance.test_soundness import CONSTRUCTS, Edits
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times
from tests.support.strategies import DECLARATIONS, STORED

Row = tuple[int, ...]
Rows = set[Row]
DOMAIN = range(-3, 12)  # beyond all values on both sides


def rows_of(pages: Pages, tree: Tree, columns: int) -> Rows:
    """Return the rows of a tree in some of its first columns."""
    return {
        (*row,)
        for batch in read_batches(pages, tree, columns=(*range(columns),))
        for row in batch.T.tolist()
    }


def array(rows: Rows, columns: int) -> np.ndarray:
    return np.array(sorted(rows), np.int64).reshape(-1, columns).T


class Moment(NamedTuple):
    """A plan before and after a transaction: the trees of its tries, their visible rows by trie,
    and the rows of its sensitivity indices.
    """

    pages: Pages
    plan: Plan
    old: dict[Index, Tree]
    new: dict[Index, Tree]
    before: dict[Index, Rows]
    after: dict[Index, Rows]
    indices: list[Tree]
    stored: list[Rows]
    left: list[Rows]

    def delta(self, index: Index) -> Delta:
        """Return what changed of a trie, erased rows before inserted ones of their key."""
        keys = self.new[index].spec.keys
        gone, come = self.before[index] - self.after[index], self.after[index] - self.before[index]
        changes = [(row[:keys], -ERASE, row) for row in gone]
        changes = sorted(changes + [(row[:keys], -INSERT, row) for row in come])
        actions = np.array([-action for _, action, _ in changes], np.int64)
        return Delta(actions, np.array([row for *_, row in changes], np.int64).T)

    def branches(self, index: Index, depth: int) -> Rows:
        """Return the branches of a depth that came or went, and keys whose value changed."""
        there = [{row[:depth] for row in rows[index]} for rows in (self.before, self.after)]
        if depth < self.new[index].spec.keys:
            return there[0] ^ there[1]
        return {row[:depth] for row in self.before[index] ^ self.after[index]}

    def hit(self, number: int) -> Rows:
        """Return the stored intervals of a sensor that a branch of its trie stabs."""
        sensor = self.plan.sensors[number]
        d = sensor.depth
        branches = self.branches(self.plan.tries[sensor.trie].index, d + 1)
        return {
            row
            for row in self.stored[number]
            for branch in branches
            if row[:d] == branch[:d] and row[d] <= branch[d] <= row[d + 1]
        }

    def contributions(self) -> list[tuple[int, Rows]]:
        """Return the regions (prefix by level, first, last) of each level: intervals that are hit,
        and branches of tries that follow the key order.
        """
        found = list[tuple[int, Rows]]()
        for number, sensor in enumerate(self.plan.sensors):
            columns = region_columns(sensor)
            hit = {tuple(row[c] for c in columns) for row in self.hit(number)}
            found.append((sensor.level, hit))
        sensed = {(sensor.trie, sensor.depth) for sensor in self.plan.sensors}
        for t, trie in enumerate(self.plan.tries):
            depths = range(len(trie.levels))[-1 if trie.negated else 0 :]
            for depth in depths:
                if (t, depth) not in sensed:
                    assert trie.levels[: depth + 1] == (*range(depth + 1),)
                    there = self.branches(trie.index, depth + 1)
                    found.append((depth, {(*branch, branch[-1]) for branch in there}))
        return found

    def oracle(self) -> Regions | None:
        return change_oracle(
            self.plan.shape.levels,
            [(level, array(rows, level + 2)) for level, rows in self.contributions()],
        )

    def recorded(self) -> list[Rows]:
        """Return the intervals of evaluating the new version in the oracle."""
        oracle = self.oracle()
        if oracle is None:
            return [set() for _ in self.plan.sensors]
        trees = [self.new[trie.index] for trie in self.plan.tries]
        sensors = self.plan.sensor_arrays
        _, rows = Join(self.pages, self.plan.shape, trees, regions=oracle, sensors=sensors).all()
        return [{*map(tuple, one.T.tolist())} for one in rows]


def moments(mirror: Mirror, before: Snapshot, after: Snapshot) -> Iterator[Moment]:
    """Yield the matched plans of a workspace between two versions."""
    rules = mirror.workspace.rules_of(after)
    for rule in rules.rules:
        for number, plan in enumerate(rule.plans):
            if plan.way.upkeep is not Upkeep.MATCH:
                continue
            names = rule.sensitivity_names(number)
            widths = {
                trie.index: len(rules.predicate(trie.index.predicate, after).types)
                for trie in plan.tries
            }
            trees, rows = zip(
                *(
                    (
                        {i: snap.tree(tree_name(i)) for i in widths},
                        {
                            i: rows_of(snap.pages, snap.tree(tree_name(i)), n)
                            for i, n in widths.items()
                        },
                    )
                    for snap in (before, after)
                ),
                strict=True,
            )
            indices = [[snap.tree(name) for name in names] for snap in (before, after)]
            stored = [
                [rows_of(snap.pages, tree, tree.spec.columns) for tree in some]
                for snap, some in zip((before, after), indices, strict=True)
            ]
            yield Moment(after.pages, plan, *trees, *rows, indices[0], *stored)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """What each step of a construct has to be right for, made once for all steps; nothing is swept,
    so that all intervals come and go by these steps.
    """
    open_until_then = ExitStack()
    patched = open_until_then.enter_context(pytest.MonkeyPatch.context())
    patched.setattr(sweep, "GROWN", 10**9)

    @cache
    def of(construct: str) -> list[Moment]:
        rules, found = CONSTRUCTS[construct], list[Moment]()
        edits = Edits(5, [n for n in STORED if f"{n}(" in rules or f"{n}[" in rules])
        path = tmp_path_factory.mktemp("steps") / "store.pages"
        mirror = Mirror(path, DECLARATIONS + rules, maintenance="match")
        open_until_then.callback(mirror.close)
        mirror.change([edit for _ in range(12) for edit in edits.anything()])
        for _ in range(times(12)):
            edits.rows = {name: {*mirror.workspace[name]} for name in edits.rows}
            before = open_until_then.enter_context(mirror.workspace.store.snapshot())
            mirror.change(edits.transaction())
            after = open_until_then.enter_context(mirror.workspace.store.snapshot())
            found += moments(mirror, before, after)
            assert mirror.workspace.check() == []  # for each value that a level refuses or accepts
        return found

    with open_until_then:
        yield of


def no_value_inside(moment: Moment, number: int, rows: Iterable[Row], there: Rows) -> bool:
    """Return whether the atom of a sensor has no value within intervals, but for their ends."""
    d = moment.plan.sensors[number].depth
    return not any(
        one[:d] == row[:d] and row[d] < one[d] < row[d + 1] for row in rows for one in there
    )


def sensitivity(moment: Moment) -> None:
    """An interval for each operation of the evaluation of the version before, from the value where
    the iterator is to where it lands; nothing that is stored has a value within.
    """
    plan = moment.plan
    trees = [moment.old[trie.index] for trie in plan.tries]
    _, trace = Join(
        moment.pages, plan.shape, trees, sensors=sensors_of(plan, plan.trace_sensors)
    ).all()
    _, fresh = Join(moment.pages, plan.shape, trees, sensors=plan.sensor_arrays).all()
    for number, sensor in enumerate(plan.sensors):
        (at,) = (
            n
            for n, other in enumerate(plan.trace_sensors)
            if (other.trie, other.depth) == (sensor.trie, sensor.depth)
        )
        columns = [plan.trace_sensors[at].columns.index(column) for column in sensor.columns]
        operations = {*map(tuple, trace[at][columns].T.tolist())}
        assert {*map(tuple, fresh[number].T.tolist())} == operations
        there = moment.before[plan.tries[sensor.trie].index]
        rows = {*map(tuple, fresh[number].T.tolist())} | moment.stored[number]
        assert no_value_inside(moment, number, rows, there)


def surgery(moment: Moment) -> None:
    """Surgeries of each depth are the branches that only one version has."""
    for trie in moment.plan.tries:
        index = trie.index
        for depth in range(1, len(trie.levels) + 1):
            delta = moment.delta(index)
            if not delta:
                continue
            found = surgeries(moment.pages, delta, moment.old[index], moment.new[index], depth)
            assert {*map(tuple, found.rows.T.tolist())} == moment.branches(index, depth)


def matching(moment: Moment) -> None:
    """What branches hit are all stored intervals that hold them, and no others."""
    for number, sensor in enumerate(moment.plan.sensors):
        branches = moment.branches(moment.plan.tries[sensor.trie].index, sensor.depth + 1)
        if branches:
            hit = matches(moment.pages, moment.indices[number], array(branches, sensor.depth + 1))
            assert {*map(tuple, hit.T.tolist())} == moment.hit(number)
            assert regions(sensor, hit).shape == (sensor.level + 2, hit.shape[1])


def removal(moment: Moment) -> None:
    """What is hit goes, unless it is recorded again; all else stays."""
    recorded = moment.recorded()
    for number in range(len(moment.plan.sensors)):
        stored, left, hit = moment.stored[number], moment.left[number], moment.hit(number)
        assert not (hit - recorded[number]) & left
        assert stored - hit <= left


def oracle(moment: Moment) -> None:
    """The oracle is the union of what is hit, as disjoint intervals in order."""
    found = moment.oracle()
    for level in range(moment.plan.shape.levels):
        wanted = {
            (*row[:-2], x)
            for at, rows in moment.contributions()
            if at == level
            for row in rows
            for x in DOMAIN
            if row[-2] <= x <= row[-1]
        }
        rows = [] if found is None else found.rows[:, found.start[level] : found.start[level + 1]].T
        intervals = [(*row[: level + 2],) for row in map(tuple, np.asarray(rows).tolist())]
        covered = [(*row[:-2], x) for row in intervals for x in DOMAIN if row[-2] <= x <= row[-1]]
        assert covered == sorted(wanted)
        assert intervals == sorted(intervals)


def recording(moment: Moment) -> None:
    """What is stored afterwards is what was not hit, and what the oracle's evaluation recorded;
    each interval ends where the atom has its next value.
    """
    recorded = moment.recorded()
    for number, sensor in enumerate(moment.plan.sensors):
        kept = moment.stored[number] - moment.hit(number)
        assert moment.left[number] == kept | recorded[number]
        there = moment.after[moment.plan.tries[sensor.trie].index]
        assert no_value_inside(moment, number, recorded[number], there)


def result(moment: Moment) -> None:
    """The bindings that come and go in the oracle are those of the two versions."""
    deltas = {index: moment.delta(index) for index in moment.old}
    transition = Transition(moment.old, moment.new, deltas)
    found = maintain(moment.pages, moment.plan, transition, moment.indices)
    gone, come = (
        {
            (*row,)
            for row in Join(
                moment.pages, moment.plan.shape, [trees[t.index] for t in moment.plan.tries]
            )
            .bindings()
            .T.tolist()
        }
        for trees in (moment.old, moment.new)
    )
    changes = (
        []
        if found is None
        else zip(found.delta.actions.tolist(), found.delta.rows.T.tolist(), strict=True)
    )
    assert {(action, (*row,)) for action, row in changes} == {(ERASE, r) for r in gone - come} | {
        (INSERT, r) for r in come - gone
    }


STEPS = (sensitivity, surgery, matching, oracle, removal, recording, result)


@pytest.mark.parametrize(("construct", "step"), [*product(CONSTRUCTS, STEPS)])
def test_each_step_is_right_for_each_construct(construct, step, history):
    found = history(construct)
    assert any(moment.hit(n) for moment in found for n in range(len(moment.plan.sensors)))
    for moment in found:
        step(moment)
