"""The trace of an evaluation, operation by operation (*Aspiration*): what iterators did, in order.

    C(x) <- A(x), B(x).         A = {0, 2, 4, 5, 6}, B = {1, 2, 6, 7}

    A(x)  open  [-inf, 0]       B(x)  open  [-inf, 1]       A(x)  seek  [1, 2]       B(x)  seek  [2, 2]
    A(x)  next  [2, 4]          B(x)  seek  [4, 6]          A(x)  seek  [6, 6]       A(x)  next  [6, +inf]

The rows of a trace say no more than their atom, depth, interval and binding. The rest follows:
the first row under a binding is an open; a row that begins where the one before it ended is a next,
and every other one a seek, which begins later. Leapfrogging goes on to ever greater values, and
what is below a value comes after all that found it, and before the next from it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ivm.plan.plan import Plan, tree_name, type_of
from ivm.rules.installed import Installed
from ivm.terms.encoder import written
from ivm.views.delta import Delta, surgeries
from ivm.ways.match import trace_of
from pagestore.host import WORD_MAX, WORD_MIN, Snapshot, delta

KINDS = ("open", "seek", "look up", "next")
OPEN, SEEK, LOOK_UP, NEXT = range(4)
BELOW = LOOK_UP + 0.5  # in the order of operations at a value: those of deeper levels
ENDS = {WORD_MIN: "-inf", WORD_MAX: "+inf"}


class Operation(NamedTuple):
    """One operation of an iterator: of an atom of the rule whose plan has a number, at a depth,
    from 0 on; it would have ended otherwise if a key from `start` to `end` had come or gone.

    `variable` is what the keys are values of, `binding` has the values of the variables before it.
    All values are as rules write them; an open end is -inf or +inf. `words` are the two ends as
    they are stored, which are in the order of keys. `touched` says whether a change hits it.
    """

    plan: int
    atom: str
    depth: int
    kind: str
    start: str
    end: str
    variable: str
    binding: Mapping[str, str]
    words: tuple[int, int]
    touched: bool

    @property
    def place(self) -> tuple[object, ...]:
        """What two traces are compared by: all but the kind."""
        return self.plan, self.atom, self.depth, self.words, (*self.binding.values(),)

    def __str__(self) -> str:
        values = ", ".join(f"{name} = {value}" for name, value in self.binding.items())
        interval = f"[{self.start}, {self.end}]"
        return f"{self.atom}  {self.variable}  {self.kind:7} {interval:16} {values}".rstrip()


def operations(
    snap: Snapshot, installed: Installed, plans: Sequence[Plan], after: Snapshot | None = None
) -> Iterator[Operation]:
    """Yield what a full evaluation of some plans does at a version, in order; those are touched
    that the changes from there to `after` hit.

    O(n log n) for n operations, all of which are held; and O(n) for each branch that changes.
    """
    decoded = lru_cache(1 << 16)(lambda word, type_: ENDS.get(word) or written(word, type_, snap))
    for number, plan in enumerate(plans):
        rows = trace_of(snap, plan)
        types = [
            type_of(plan, level, installed.program.predicates)
            for level in range(len(plan.variables))
        ]
        kinds_of = kinds(plan, rows)
        hit = touched(snap, after, plan, rows) if after else np.zeros(rows.shape[1], bool)
        for i in in_order(plan, rows, kinds_of).tolist():
            sensor, a, b, *values = rows[:, i].tolist()
            trie, depth, level, _ = plan.trace_sensors[sensor]
            before = [decoded(*pair) for pair in zip(values[:level], types, strict=False)]
            yield Operation(
                number,
                plan.tries[trie].text,
                depth,
                KINDS[kinds_of[i]],
                decoded(a, types[level]),
                decoded(b, types[level]),
                plan.variables[level],
                dict(zip(plan.variables, before, strict=False)),
                (a, b),
                bool(hit[i]),
            )


def kinds(plan: Plan, rows: np.ndarray) -> np.ndarray:
    """Return the number in KINDS of each row int64[columns, n] of a plan's trace, int64[n]."""
    sensor, a, b = rows[:3]
    where = np.concatenate([rows[:1], rows[3:]])
    opens = np.append(True, (where[:, 1:] != where[:, :-1]).any(axis=0))[: len(a)]
    goes_on = np.append(False, a[1:] == b[:-1])[: len(a)]
    kind = np.where(opens, OPEN, np.where(goes_on, NEXT, SEEK))
    negated = np.array([plan.tries[sensor.trie].negated for sensor in plan.trace_sensors])
    return np.where(negated[sensor], LOOK_UP, kind)


def in_order(plan: Plan, rows: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Return the order in which the operations of a trace were done, as positions int64[n].

    At each level operations are ordered by value, and at a value by kind; what is done at deeper
    levels comes before the next from the value that is bound.
    """
    level = np.array([sensor.level for sensor in plan.trace_sensors])[rows[0]]
    keys = [rows[0]]
    for depth in reversed(range(len(plan.variables))):
        here, below = level == depth, level > depth
        keys.append(np.where(here, kind, np.where(below, BELOW, 0)))
        bound = rows[3 + depth] if 3 + depth < len(rows) else rows[1]
        keys.append(np.where(here, rows[1], np.where(below, bound, WORD_MIN)))
    return np.lexsort(keys)


def touched(before: Snapshot, after: Snapshot, plan: Plan, rows: np.ndarray) -> np.ndarray:
    """Return which rows of a plan's trace at the version before a change the change hits,
    bool[n]: a branch that came or went is in the row's interval, under its binding.

    O(rows * branches).
    """
    hit = np.zeros(rows.shape[1], bool)
    for number, (t, depth, *_) in enumerate(plan.trace_sensors):
        trie = plan.tries[t]
        old, new = (snap.tree(tree_name(trie.index)) for snap in (before, after))
        changed = Delta(*delta(after.pages, old, new))
        context = rows[[3 + level for level in trie.levels[:depth]]]
        for branch in surgeries(after.pages, changed, old, new, depth + 1).rows.T:
            same = (rows[0] == number) & (context == branch[:-1, None]).all(axis=0)
            hit |= same & (rows[1] <= branch[-1]) & (branch[-1] <= rows[2])
    return hit
