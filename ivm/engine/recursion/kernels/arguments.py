"""Groups of arguments of the kernel that evaluates a recursion in memory (see pagestore/runtime/arguments.py)."""

from typing import NamedTuple

from pagestore.compiled import Table, Words


class Bodies(NamedTuple):
    """The conjunctions of a stratum, once for each recursive atom that a new fact may match (see flat_rounds.py).

    of[P + 1] says which rows of `bodies` begin with facts of predicate p; these refer to `steps`, `tests` and `lists`;
    `indices` are the indices of facts, `relations` those read from outside the stratum, whose rows are in `data`.
    """

    of: Words
    bodies: Table
    steps: Table
    tests: Table
    lists: Words
    indices: Table
    relations: Table
    data: Words


class Facts(NamedTuple):
    """The facts of a stratum.

    rows[n, W] hold their words, then RANK, PREDICATE, WAITS; nexts[I, n] are chains of rows by index, begins[I, m]
    where these begin, and `ring` is the queue of facts. If facts have numbers, `dense` says by number which facts
    exist: a bit for each, or for an aggregate the row, from 1.
    """

    rows: Table
    nexts: Table
    begins: Table
    ring: Words
    dense: Words


class Run(NamedTuple):
    """The state of a run.

    `progress` is described in flat_rounds.py, `values` are those of variables; at, costs and ranks hold for each step
    its current row, and the greatest cost and rank of the facts up to it. If threads share rounds, aside[P * n, W] has
    space for n facts that a thread derives for each part while others read existing facts, puts[P] counts them, and
    recent[M] is the last one derived with a slot; else these are empty.
    """

    progress: Words
    values: Words
    at: Words
    costs: Words
    ranks: Words
    aside: Table
    puts: Words
    recent: Words
