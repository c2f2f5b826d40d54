"""Conjunctions, random relations and both joins over them, for tests of flat tries."""

import numpy as np
from hypothesis import strategies as st

from ivm.join.flat import FlatJoin, Layout, flatten
from ivm.join.join import Join, concatenated
from ivm.plan.planner import Chosen, make_plans
from ivm.rules.compile import compile
from pagestore.sorting.tuples import ascending, columns_of
from pagestore.trees.build import bulk
from pagestore.trees.tree import Spec, Tree

DECLARED = "r(x, y) -> int(x), int(y). s(x, y) -> int(x), int(y). u(x) -> int(x). t(x, y, z) -> int(x), int(y), int(z)."


BODIES = {
    "triangle": ("x y z", "r(x, y), s(y, z), r(x, z)"),
    "oriented": ("x y z", "r(x, y), r(y, z), r(x, z), x < y, y < z"),
    "unequal": ("x y", "r(x, y), s(x, y), x != y, y != 3"),
    "four": ("x y z w", "r(x, y), r(y, z), r(x, z), r(x, w), r(y, w), r(z, w)"),
    "path": ("x y z w", "r(x, y), s(y, z), r(z, w), y <= w"),
    "walk": ("x y z w", "r(x, y), s(y, z), r(z, w)"),
    "five": ("v w x y z", "t(v, w, x), t(w, x, y), t(x, y, z), r(v, z), s(w, z), r(v, y)"),
    "ternary": ("x y z", "t(x, y, z), r(y, z), u(z)"),
    "apart": ("x y", "u(x), u(y), x < y"),
    "alone": ("x y z", "t(x, y, z)"),
    "ranged": ("x y", "r(x, y), u(y), y >= 2, y <= 5"),
    "held": ("x y", "r(x, y), s(y, 3), r(y, y)"),
    "cut": ("x", "r(x, _), t(x, _, _), u(x)"),
    "near": ("x y z", "r(x, y), s(y, z), r(x, z), z >= x - 2, z <= y + 3"),
    "sum": ("x y z", "r(x, y), s(y, z), z <= x + y, z >= x - y + 4"),
    "far": ("x y z", "r(x, y), s(y, z), z >= x - 40000, y <= x + 300"),
}


KEYS = [  # whose trace rows are words, words with tails, and columns
    st.integers(0, 9),
    st.integers(0, 9) | st.sampled_from([-1, 1 << 20]),
    st.integers(0, 9) | st.sampled_from([-(2**63), 2**63 - 1, -1, 1 << 40]),
]


def plan_of(body, order):
    head = ", ".join(name for name in order if not name.startswith("$"))
    program = compile(DECLARED + f"q({head}) <- {body}.")
    stored = {name: len(p.types) for name, p in program.predicates.items()}
    given = () if body.endswith(("_)", "u(x)", "r(y, y)")) else [Chosen(order)]
    return make_plans(
        program.rules[0],
        program.predicates,
        stored,
        lambda p, c: 1000.0,
        lambda const: const.value,
        given,
    )[0]


def tries_of(pager, plan, relations):
    """A tree for each trie of the plan, its columns in the trie's order."""
    made = {}
    for trie in plan.tries:
        if trie.index not in made:
            rows = np.unique(relations[trie.index.predicate][list(trie.index.order)], axis=1)
            made[trie.index] = (
                bulk(pager, Spec(len(made) + 1, len(rows), 0), [rows]) if rows.size else None
            )
    trees = [made[trie.index] for trie in plan.tries]
    return [
        tree or Tree.empty(Spec(9, len(t.index.order), 0))
        for tree, t in zip(trees, plan.tries, strict=True)
    ]


def both(pager, plan, trees, sensors=None, batch=1 << 10, granularity=1):
    paged, flat = both_joins(pager, plan, trees, sensors, batch, granularity)
    return (paged, *paged.all()), (flat, *flat.all())


def both_joins(pager, plan, trees, sensors=None, batch=1 << 10, granularity=1):
    flattened = flatten(pager.pages, plan.shape, trees)
    return (
        Join(pager.pages, plan.shape, trees, sensors=sensors, batch=batch, granularity=granularity),
        FlatJoin(Layout(flattened, plan.shape, sensors, granularity=granularity), batch=batch),
    )


def whole(parts):
    return concatenated([*map(columns_of, parts)])


def in_order(rows):
    return rows[:, np.lexsort(rows[::-1])].tolist()


def sorted_trace(join):
    """The trace rows of each sensor, each once, in the order in which they are stored."""
    parts = zip(*(trace for _, trace in join.batches()), strict=True)
    return [[row for batch in ascending(some) for row in batch.T.tolist()] for some in parts]


def distinct(trace):
    """The same, of trace rows [C, n] of each sensor."""
    return [np.unique(rows, axis=1).T.tolist() for rows in trace]


@st.composite
def relations(draw):
    keys = draw(st.sampled_from(KEYS))

    def relation(width):
        return (
            np.array(draw(st.lists(st.tuples(*[keys] * width), max_size=40)), np.int64)
            .reshape(-1, width)
            .T
        )

    return {"r": relation(2), "s": relation(2), "u": relation(1), "t": relation(3)}


def group(found, times, listed):
    """How often each row of the levels listed is found."""
    return counted(
        found[sorted(listed)], np.concatenate(times or [np.ones(found.shape[1], np.int64)])
    )


def counted(rows, times):
    """How often each row is there."""
    counts = {}
    for row, n in zip(map(tuple, rows.T.tolist()), times.tolist(), strict=True):
        counts[row] = counts.get(row, 0) + n
    return counts
