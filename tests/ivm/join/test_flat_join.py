"""Full evaluation over flat tries gives the bindings of the join over pages, by whatever way it
takes.
"""

from dataclasses import replace
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import RangeError
from ivm.join import evaluate as evaluate_module
from ivm.join import flat as flat_layout
from ivm.join.evaluate import evaluate, first_ranges
from ivm.join.flat import FlatJoin, Layout, flatten, is_flat_cheaper
from ivm.join.join import Join, concatenated
from ivm.join.kernels import flat_join
from ivm.join.kernels import flat_join as collect
from ivm.join.kernels import flat_trace as certify
from ivm.join.kernels import flat_trace as traced
from ivm.join.kernels.intersect import OVERLAYS
from ivm.memory import allowing
from ivm.plan.plan import sensors_of
from pagestore.host import WORD_MAX, WORD_MIN
from pagestore.sorting.tuples import ascending
from pagestore.trees.tree import Spec, Tree
from tests.support.memory import MemoryPager
from tests.support.programs.amounts import times
from tests.support.programs.flat_joins import (
    BODIES,
    both,
    both_joins,
    counted,
    distinct,
    group,
    in_order,
    plan_of,
    relations,
    sorted_trace,
    tries_of,
    whole,
)


@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=times(13), deadline=None)
@given(data=st.data())
def test_the_same_bindings_and_trace(name, data):
    variables, body = BODIES[name]
    plan = plan_of(body, data.draw(st.permutations(variables.split())))
    pager = MemoryPager(512, pages_max=1 << 13)
    trees = tries_of(pager, plan, data.draw(relations()))
    batch = data.draw(st.sampled_from([1, 3, 1 << 10]))
    (_, rows, _), (_, flat_rows, _) = both(pager, plan, trees, batch=batch)
    assert flat_rows.tolist() == rows.tolist()
    if "!=" not in body:
        sensors = sensors_of(plan, plan.trace_sensors)
        (_, rows, trace), (_, flat_rows, flat_trace) = both(pager, plan, trees, sensors)
        assert flat_rows.tolist() == rows.tolist()
        assert [in_order(t) for t in flat_trace] == [in_order(t) for t in trace]
        assert sorted_trace(both_joins(pager, plan, trees, sensors, 30)[1]) == distinct(trace)


@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=times(13), deadline=None)
@given(data=st.data())
def test_one_join_goes_over_ranges_in_any_order(name, data):
    """Bindings, how often each is counted, and the trace are those of joins that went over one
    range only.
    """
    variables, body = BODIES[name]
    plan = plan_of(body, data.draw(st.permutations(variables.split())))
    pager = MemoryPager(512, pages_max=1 << 13)
    trees = tries_of(pager, plan, data.draw(relations()))
    ranges = data.draw(
        st.permutations([(WORD_MIN, 1), (2, 2), (3, 5), (6, 1 << 40), (WORD_MAX, WORD_MAX)])
    )
    sensors = (
        sensors_of(plan, plan.trace_sensors)
        if "!=" not in body and data.draw(st.booleans())
        else None
    )
    rows = Join(pager.pages, plan.shape, trees).bindings()
    paged, flat = both_joins(
        pager, plan, trees, sensors, data.draw(st.sampled_from([1, 3, 1 << 10]))
    )
    for low, high in ranges:
        expected, trace = paged.over((low, high)).all()
        assert expected.tolist() == rows[:, (rows[0] >= low) & (rows[0] <= high)].tolist()
        flat_rows, flat_trace = flat.over((low, high)).all()
        assert flat_rows.tolist() == expected.tolist()
        assert [in_order(t) for t in flat_trace] == [in_order(t) for t in trace]
    listed = frozenset(data.draw(st.sets(st.integers(0, plan.shape.levels - 1))))
    layout = Layout(flatten(pager.pages, plan.shape, trees), plan.shape, listed=listed)
    long, short = FlatJoin(layout), FlatJoin(layout)
    for first in ranges:
        counts = [group(join.over(first).bindings(), join.times, listed) for join in (long, short)]
        short = FlatJoin(layout)
        assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "name, listed, granularity, late",
    [
        ("triangle", None, 0, set()),
        ("four", None, 0, {"overlay"}),
        ("triangle", {0}, 0, {"sort_slice"}),
        ("five", {0}, 0, {"overlay", "sort_slice"}),
        ("four", {0}, 1, {"leapfrog", "sort_slice"}),
        ("four", {0}, 2, {"certify", "overlay", "sort_slice"}),
        ("walk", {0}, 2, {"certify", "foretell", "sort_slice"}),
    ],
)
def test_only_what_a_plan_needs_is_compiled_for_it(name, listed, granularity, late, monkeypatch):
    """A first triangle waits for no rows of bits, and for no sort."""
    compiled = []
    kernels = {
        "overlay": flat_join,
        "sort_slice": collect,
        "leapfrog": traced,
        "certify": certify,
        "foretell": certify,
    }
    for one, module in kernels.items():
        monkeypatch.setattr(
            getattr(module, one), "address", lambda one=one: compiled.append(one) or 1
        )
    variables, body = BODIES[name]
    pager, plan = MemoryPager(512), plan_of(body, variables.split())
    pairs, triples = np.array([[1, 1, 2], [2, 3, 3]]), np.array([[1, 1, 2], [2, 3, 3], [4, 5, 6]])
    trees = tries_of(pager, plan, {"r": pairs, "s": pairs, "u": pairs[:1], "t": triples})
    sensors = sensors_of(plan, plan.trace_sensors if granularity else ())
    flat = flatten(pager.pages, plan.shape, trees)
    layout = Layout(flat, plan.shape, sensors, listed and frozenset(listed), granularity)
    assert {*compiled} == late
    assert layout.grounds[:, OVERLAYS].any() == ("overlay" in late)


def test_batches_are_kept_in_few_pieces_of_memory():
    """Page faults of a batch at a time took as long as a join."""
    pager = MemoryPager(4096, pages_max=1 << 13)
    plan = plan_of(BODIES["apart"][1], ["x", "y"])
    trees = tries_of(pager, plan, {"u": np.arange(90)[None]})
    join = FlatJoin(Layout(flatten(pager.pages, plan.shape, trees), plan.shape), batch=50)
    batches = [out for out, _ in join.batches()]
    assert concatenated(batches).tolist() == [list(side) for side in np.triu_indices(90, 1)]
    assert len(batches) == 81
    assert len({id(out.base) for out in batches}) <= 10


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("is_flat", [True, False])
def test_threads_share_ranges_and_not_joins(threads, is_flat, monkeypatch):
    """Bindings in order and the trace are those of one thread; each thread goes over its ranges
    with one join.
    """
    rng = np.random.default_rng(5)
    edges = np.unique(rng.integers(0, 80, (2, 2500)), axis=1)
    pager = MemoryPager(4096, pages_max=1 << 13)
    plan = plan_of(BODIES["triangle"][1], ["x", "y", "z"])
    trees = tries_of(pager, plan, {"r": edges, "s": edges})
    sensors = sensors_of(plan, plan.sensors)
    monkeypatch.setattr(evaluate_module, "PARALLEL_FROM", 0)
    monkeypatch.setattr(evaluate_module, "is_flat_cheaper", lambda *_: is_flat)
    kind = "FlatJoin" if is_flat else "Join"
    made = Mock(wraps=getattr(evaluate_module, kind))
    monkeypatch.setattr(evaluate_module, kind, made)
    alone = evaluate(pager.pages, plan.shape, trees, sensors=sensors)
    assert made.call_count == 1
    found = evaluate(pager.pages, plan.shape, trees, sensors=sensors, threads=threads)
    assert made.call_count == 1 + threads
    assert len(found.parts) > threads
    assert found.bindings.tolist() == alone.bindings.tolist()
    for trace, expected in zip(found.recorded, alone.recorded, strict=True):
        assert in_order(whole(trace)) == in_order(whole(expected))
        assert np.array_equal(
            np.concatenate([*ascending(trace)], axis=1), np.unique(whole(expected), axis=1)
        )


@pytest.mark.parametrize("is_flat", [True, False])
@pytest.mark.parametrize("others", [0, 40])
def test_ranges_where_much_has_the_least_word(others, is_flat, monkeypatch):
    """No range ends below it."""
    firsts = np.repeat([WORD_MIN, *range(others)], [900, *[5] * others])
    edges = np.stack([firsts, np.arange(len(firsts))])
    pager = MemoryPager(4096, pages_max=1 << 13)
    plan = plan_of("r(x, y), s(x, y)", ["x", "y"])
    trees = tries_of(pager, plan, {"r": edges, "s": edges})
    monkeypatch.setattr(evaluate_module, "PARALLEL_FROM", 0)
    monkeypatch.setattr(evaluate_module, "is_flat_cheaper", lambda *_: is_flat)
    assert evaluate(pager.pages, plan.shape, trees, threads=2).bindings.tolist() == edges.tolist()


@pytest.mark.parametrize("rule", ["r(x, y), s(x, y)", "r(x, y), u(x)"])
def test_ranges_are_the_same_from_flat_tries(rule, monkeypatch):
    """Of skewed keys, too: some have many branches, and one more than a range should have."""
    rng = np.random.default_rng(4)
    edges = np.unique(np.stack([rng.zipf(1.4, 4000) % 500, rng.integers(0, 5000, 4000)]), axis=1)
    pager = MemoryPager(4096, pages_max=1 << 13)
    plan = plan_of(rule, ["x", "y"])
    trees = tries_of(pager, plan, {"r": edges, "s": edges, "u": np.unique(edges[0])[None]})
    monkeypatch.setattr(evaluate_module, "PARALLEL_FROM", 0)
    ranges = first_ranges(pager.pages, plan.shape, trees, 16)
    assert ranges == first_ranges(
        pager.pages, plan.shape, trees, 16, flatten(pager.pages, plan.shape, trees)
    )
    assert 8 < len(ranges) <= 16 and ranges[0][0] == WORD_MIN and ranges[-1][1] == WORD_MAX
    assert all(high + 1 == low for (_, high), (low, _) in pairwise(ranges))
    if "s" in rule:
        sizes = [np.count_nonzero((edges[0] >= low) & (edges[0] <= high)) for low, high in ranges]
        assert max(sizes) <= edges.shape[1] / 16 + np.bincount(edges[0]).max()


@pytest.mark.parametrize(
    ("marks", "ground", "bits"),
    [
        (0, 0, 0),
        (1 << 20, 0, 1),
        (1 << 20, 70, 1 << 10),
        (1 << 20, 1 << 12, 1 << 8),
        (1 << 20, 1 << 12, 1 << 17),
    ],
)
def test_dense_slices_in_every_way(marks, ground, bits, monkeypatch):
    """Long slices, skewed ones too, so that merging, leaping and marking all happen; and rows of
    bits, of which there is room for none, for some grounds, for some rows, for all.
    """
    monkeypatch.setattr(flat_layout, "MARKS_MAX", marks)
    monkeypatch.setattr(flat_layout, "GROUND_MAX", ground)
    monkeypatch.setattr(flat_layout, "BITS_MAX", bits)
    rng = np.random.default_rng(1)
    edges = np.unique(np.stack([rng.zipf(1.5, 6000) % 300, rng.integers(0, 300, 6000)]), axis=1)
    pager = MemoryPager(4096, pages_max=1 << 13)
    for name in ("triangle", "four"):
        variables, body = BODIES[name]
        for order in (variables.split(), variables.split()[::-1]):
            plan = plan_of(body, order)
            trees = tries_of(pager, plan, {"r": edges, "s": edges[:, ::3]})
            (_, rows, _), (_, flat_rows, _) = both(pager, plan, trees, batch=1000)
            assert rows.shape[1] > 1000
            assert (flat_rows == rows).all()
            counts = FlatJoin(
                Layout(flatten(pager.pages, plan.shape, trees), plan.shape, listed=frozenset())
            )
            assert counts.bindings().shape[1] == 1
            assert np.concatenate(counts.times).tolist() == [rows.shape[1]]


def test_an_outer_intersection_is_done_once():
    """In a bipartite core the slices of x and y share 100 keys, passed once a pair and not once
    a triple.
    """
    n = 40
    pairs = [(x, y) for x in range(n) for y in range(x + 1, n)]
    far = [(x, w) for x in range(n) for w in range(1000, 1100)]
    edges = np.array(sorted(pairs + far), np.int64).T
    pager = MemoryPager(4096, pages_max=1 << 13)
    plan = plan_of(BODIES["four"][1], ["x", "y", "z", "w"])
    trees = tries_of(pager, plan, {"r": edges})
    (paged, rows, _), (flat, flat_rows, _) = both(pager, plan, trees, batch=1 << 16)
    assert (flat_rows == rows).all()
    assert flat.operations < paged.operations


def test_what_is_left_to_the_join_over_pages():
    big, small = Tree(2, 2, 1 << 20, Spec(1, 2, 0)), Tree(3, 1, 10, Spec(2, 1, 0))
    plan = plan_of("r(x, y), u(x)", ["x", "y"])
    trees = {"r": big, "u": small}
    assert not is_flat_cheaper(plan.shape, [trees[t.index.predicate] for t in plan.tries]), (
        "ten keys, a million records"
    )
    trees["u"] = small._replace(pointer=4, count=1 << 19)
    assert is_flat_cheaper(plan.shape, [trees[t.index.predicate] for t in plan.tries])
    with allowing(64_000_000):
        assert not is_flat_cheaper(plan.shape, [trees[t.index.predicate] for t in plan.tries]), (
            "84 MB"
        )
    many = [Tree(2, 2, 1 << 26, big.spec), Tree(4, 1, 1 << 24, small.spec)]
    with allowing(1 << 33):
        assert is_flat_cheaper(plan.shape, many), "memory alone says how many there may be"
    assert not is_flat_cheaper(replace(plan.shape, absent=np.array([0])), [big, small])
    held = plan_of("r(5, y), s(y, z)", ["$1", "y", "z"])
    assert not is_flat_cheaper(held.shape, [big, big])


@pytest.mark.parametrize("maintenance", ["match", "probe"])
@pytest.mark.parametrize("atoms", [61, 62, 63, 64, 65, 66, 130])
def test_more_parts_than_bits(atoms, maintenance, tmp_path):
    """Sets of a level's parts are the bits of a word: x meets more."""
    body = ", ".join(["r(x, y)", *(f"r(y, x{i})" for i in range(1, atoms))])
    with ivm.open(tmp_path / "p.pages", sync="off", threads=1) as ws:
        ws.install("r(x, y) -> int(x), int(y). +r(1, 2).")
        ws.install(f"q(x) <- {body}.", name="q", maintenance=maintenance)
        assert list(ws["q"]) == [], "nothing leaves 2"
        ws.exec("+r(2, 3).")
        assert list(ws["q"]) == [(1,)]
        ws.verify("q")
        ws.exec("-r(2, 3).")
        assert list(ws["q"]) == []


@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=times(13), deadline=None)
@given(data=st.data())
def test_what_is_not_asked_for_is_counted(name, data):
    """Grouped by the levels listed, the bindings are as many as all of them are, and come in
    some order.
    """
    variables, body = BODIES[name]
    plan = plan_of(body, data.draw(st.permutations(variables.split())))
    pager = MemoryPager(512, pages_max=1 << 13)
    trees = tries_of(pager, plan, data.draw(relations()))
    listed = frozenset(data.draw(st.sets(st.integers(0, plan.shape.levels - 1))))
    batch = data.draw(st.sampled_from([1, 3, 1 << 10]))
    rows = Join(pager.pages, plan.shape, trees).bindings()
    flat = FlatJoin(
        Layout(flatten(pager.pages, plan.shape, trees), plan.shape, listed=listed), batch=batch
    )
    assert group(flat.bindings(), flat.times, listed) == counted(
        rows[sorted(listed)], np.ones(rows.shape[1], np.int64)
    )


def test_ends_of_paths_cost_what_their_parts_cost():
    """n fans of n edges three deep hold n ** 4 paths, and n * n pairs at each step."""
    n = 30
    layers = [
        np.array([(a + s, b + s + 1000) for a in range(n) for b in range(n)]).T
        for s in (0, 1000, 2000)
    ]
    edges = np.concatenate(layers, axis=1)
    pager = MemoryPager(4096, pages_max=1 << 13)
    plan = plan_of("r(x, y), r(y, z), r(z, w)", ["x", "y", "z", "w"])
    trees = tries_of(pager, plan, {"r": edges})
    flat = FlatJoin(
        Layout(flatten(pager.pages, plan.shape, trees), plan.shape, listed=frozenset({0, 3}))
    )
    found = flat.bindings()
    assert found.shape[1] == n * n
    assert np.concatenate(flat.times).tolist() == [n * n] * (n * n)
    assert flat.operations < 20 * n**3 < n**4
    sensors = sensors_of(plan, plan.trace_sensors)
    coarse = FlatJoin(
        Layout(
            flatten(pager.pages, plan.shape, trees), plan.shape, sensors, frozenset({0, 3}), n + 1
        )
    )
    assert coarse.bindings().tolist() == found.tolist()
    # that each of n ** 3 bindings leaves a row costs none
    assert coarse.operations == flat.operations


@pytest.mark.parametrize("listed", [{0, 14}, {0}, {}])
def test_a_count_beyond_64_bits_is_refused(listed):
    """Fourteen steps of 32 ways each are 2 ** 70 paths."""
    n, steps = 32, 14
    edges = np.array(
        [(s * n + a, s * n + n + b) for s in range(steps) for a in range(n) for b in range(n)]
    ).T
    names = [f"v{i}" for i in range(steps + 1)]
    body = ", ".join(f"r({a}, {b})" for a, b in pairwise(names))
    pager = MemoryPager(4096, pages_max=1 << 13)
    plan = plan_of(body, names)
    trees = tries_of(pager, plan, {"r": edges})
    flat = FlatJoin(
        Layout(flatten(pager.pages, plan.shape, trees), plan.shape, listed=frozenset(listed))
    )
    with pytest.raises(RangeError, match="cannot be counted"):
        flat.bindings()
