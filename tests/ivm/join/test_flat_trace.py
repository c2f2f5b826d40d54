"""The trace that flat tries record: the rows of the join over pages where it is exact, and sound
where it is coarse.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.join import flat as flat_layout
from ivm.join.flat import FlatJoin, Layout, flatten
from ivm.join.join import Join
from ivm.join.kernels import flat_trace as rank_bitmap
from ivm.join.kernels.tries import EQ, GE, LE, NE
from ivm.plan.plan import sensors_of
from pagestore.host import WORD_MAX, WORD_MIN
from pagestore.sorting.tuples import Coded
from tests.support.memory import MemoryPager
from tests.support.programs.amounts import times
from tests.support.programs.flat_joins import (
    BODIES,
    both,
    both_joins,
    distinct,
    group,
    in_order,
    plan_of,
    relations,
    sorted_trace,
    tries_of,
)


@pytest.mark.parametrize("granularity", [1, 4])
@pytest.mark.parametrize(
    "top, tail", [(1 << 10, 0), (1 << 20, 5 * 20 - 63), (1 << 24, 5 * 24 - 63), (1 << 26, None)]
)
def test_trace_rows_are_as_narrow_as_keys_and_bounds(top, tail, granularity):
    """Five columns are a word, or a word and a tail, up to 126 bits; else they stay columns."""
    rng = np.random.default_rng(top)
    edges = np.unique(rng.choice([*range(40), top - 100], (2, 500)), axis=1)
    pager = MemoryPager(4096, pages_max=1 << 13)
    plan = plan_of("r(x, y), s(y, z), r(y, w), s(z, w), z <= x + 90", ["x", "y", "z", "w"])
    trees = tries_of(pager, plan, {"r": edges, "s": edges})
    sensors = sensors_of(plan, [sensor for sensor in plan.trace_sensors if sensor.level == 3])
    paged, flat = both_joins(pager, plan, trees, sensors, granularity=granularity)
    parts = [part for _, trace in flat.batches() for part in trace]
    assert all(isinstance(part, Coded) == (tail is not None) for part in parts)
    assert all(
        part.coding.tail == tail and (len(part.tails) > 0) == (tail > 0)
        for part in parts
        if tail is not None
    )
    if granularity == 1:
        assert sorted_trace(both_joins(pager, plan, trees, sensors)[1]) == distinct(paged.all()[1])


@pytest.mark.parametrize("marks", [0, 1 << 20])
@pytest.mark.parametrize("order", ["x y z", "y x z", "x z y", "z y x"])
def test_the_trace_of_dense_slices(marks, order, monkeypatch):
    """By ranks where one slice stays, be it the first or the second, whichever is longer; and
    without ranks.
    """
    monkeypatch.setattr(flat_layout, "MARKS_MAX", marks)
    rng = np.random.default_rng(3)
    edges = np.unique(np.stack([rng.zipf(1.5, 6000) % 300, rng.integers(-100, 200, 6000)]), axis=1)
    pager = MemoryPager(4096, pages_max=1 << 13)
    for body in (
        BODIES["triangle"][1],
        "r(x, z), s(y, z), r(x, y)",
        "r(x, z), r(y, z), s(x, y), z <= 90, z >= -20",
    ):
        plan = plan_of(body, order.split())
        trees = tries_of(pager, plan, {"r": edges, "s": edges[:, ::3]})
        sensors = sensors_of(plan, plan.trace_sensors)
        (paged, rows, trace), (flat, flat_rows, flat_trace) = both(
            pager, plan, trees, sensors, 1 << 18
        )
        assert np.array_equal(flat_rows, rows)
        assert all(in_order(a) == in_order(b) for a, b in zip(flat_trace, trace, strict=True))
        assert flat.operations == paged.operations
        assert sorted_trace(both_joins(pager, plan, trees, sensors, 1000)[1]) == distinct(trace)


@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=times(13), deadline=None)
@given(data=st.data())
def test_coarse_rows_certify_what_a_level_has(name, data):
    """A key of all parts is in a row of each, another in one of a part that lacks it; a row
    spans few operations.
    """
    variables, body = BODIES[name]
    plan = plan_of(body, data.draw(st.permutations(variables.split())))
    pager = MemoryPager(512, pages_max=1 << 13)
    found = data.draw(relations())
    trees = tries_of(pager, plan, found)
    granularity = data.draw(st.integers(2, 5))
    sensors = sensors_of(plan, plan.trace_sensors)
    expected, exact = Join(pager.pages, plan.shape, trees, sensors=sensors).all()
    listed = frozenset(data.draw(st.sets(st.integers(0, plan.shape.levels - 1))))
    layout = Layout(
        flatten(pager.pages, plan.shape, trees), plan.shape, sensors, listed, granularity
    )
    join = FlatJoin(layout, batch=data.draw(st.sampled_from([3, 1 << 10])))
    rows, coarse = join.all()
    assert group(rows, join.times, listed) == group(expected, [], listed)
    intervals = [trace_of(part) for part in coarse]
    for level, context, low, high in contexts(plan, found):
        parts = [s for s, sensor in enumerate(plan.trace_sensors) if sensor.level == level]
        slices = [slice_of(plan, found, plan.trace_sensors[s], context) for s in parts]
        for x in {
            v + d
            for v in set().union(*slices) | {low, high}
            for d in (-1, 0, 1)
            if low <= v + d <= high
        }:
            sensitive = [any(a <= x <= b for a, b in intervals[s].get(context, ())) for s in parts]
            has = [x in keys for keys in slices]
            if all(has):
                assert all(sensitive)
            else:
                assert any(s and not h for s, h in zip(sensitive, has, strict=True))
    for coarser, finer in zip(intervals, map(trace_of, exact), strict=True):
        for context, spans in coarser.items():
            begun = [a for a, _ in finer.get(context, ())]
            assert all(sum(a <= x <= b for x in begun) <= 2 * granularity for a, b in spans)


def trace_of(rows):
    """Trace rows [C, n] as the intervals of each context."""
    intervals = {}
    for a, b, *context in rows.T.tolist():
        intervals.setdefault(tuple(context), []).append((a, b))
    return intervals


def slice_of(plan, relations, sensor, context):
    """The keys that a trie has at a sensor's depth, under a context."""
    trie = plan.tries[sensor.trie]
    rows = relations[trie.index.predicate][list(trie.index.order)].T.tolist()
    held = [context[level] for level in trie.levels[: sensor.depth]]
    return {row[sensor.depth] for row in rows if row[: sensor.depth] == held}


def contexts(plan, relations, context=()):
    """(level, context, least, greatest key) of what a join over relations visits."""
    level = len(context)
    if level == len(plan.variables):
        return
    bounds = [
        (b.kind, b.constant + sum(sign * context[at] for at, sign in b.others))
        for b in plan.bounds
        if b.level == level
    ]
    low = max([WORD_MIN, *(x for kind, x in bounds if kind in (EQ, GE))])
    high = min([WORD_MAX, *(x for kind, x in bounds if kind in (EQ, LE))])
    if low > high:
        return
    yield level, context, low, high
    slices = [slice_of(plan, relations, s, context) for s in plan.trace_sensors if s.level == level]
    for x in sorted(set.intersection(*slices)):
        if low <= x <= high and (NE, x) not in bounds:
            yield from contexts(plan, relations, (*context, x))


@settings(max_examples=times(25), deadline=None)
@given(keys=st.lists(st.integers(-300, 300), min_size=1, unique=True), low=st.integers(-500, -300))
def test_ranks(keys, low):
    """Of every key between the first and the last, whatever was laid there before."""
    data, bits = np.array([9, 9, *sorted(keys), 9]), np.full(32, -1)
    every = np.arange(data[2], data[-2] + 1)
    rank_bitmap.lay_ranks(data, 2, len(data) - 1, low, bits, 2)
    assert [rank_bitmap.ranked(bits, 2, low, x) for x in every] == (
        2 + np.searchsorted(data[2:-1], every)
    ).tolist()


def test_trace_rows_that_outgrow_their_buffer():
    rng = np.random.default_rng(2)
    edges = np.unique(rng.integers(0, 60, (2, 1500)), axis=1)
    pager = MemoryPager(4096, pages_max=1 << 13)
    plan = plan_of(BODIES["triangle"][1], ["x", "y", "z"])
    trees = tries_of(pager, plan, {"r": edges, "s": edges})
    sensors = sensors_of(plan, plan.sensors)
    (_, rows, trace), (_, flat_rows, flat_trace) = both(pager, plan, trees, sensors, batch=100)
    assert (flat_rows == rows).all()
    assert [in_order(t) for t in flat_trace] == [in_order(t) for t in trace]
    assert sum(t.shape[1] for t in trace) > 10_000
