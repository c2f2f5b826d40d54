"""Groups of arguments of the kernel that evaluates a recursion in memory (see pagestore/runtime/arguments.py)."""

from typing import NamedTuple

from pagestore.compiled import Table, Words


class Bodies(NamedTuple):
    """The conjunctions of a stratum, once for each atom that a fact may stand for, as flat_rounds.py lays them out.

    of[P + 1] says which rows of `bodies` begin with facts of predicate p; `steps`, `tests` and `lists` are what these
    refer to, `indices` are the indices of facts, `relations` what is read below the stratum, whose rows are in `data`.
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

    rows[n, W] have their words, then columns of their own; nexts[I, n] are chains of rows by index, begins[I, m] where
    these begin, and `ring` has the facts that wait. `dense` says by a fact's number which are there, if facts have
    numbers: a bit for each, or for an aggregate the row, from 1.
    """

    rows: Table
    nexts: Table
    begins: Table
    ring: Words
    dense: Words


class Run(NamedTuple):
    """Where a run stands.

    `progress` is as flat_rounds.py says, `values` are those of variables; for each step there is the row that it is at,
    and the greatest cost and rank of the facts up to there. Where threads share rounds, aside[P * n, W] has room for
    the n facts that a thread finds for each part while others read those that are there, puts[P] says how many it has
    found, and recent[M] which it found last with a slot; else these are empty.
    """

    progress: Words
    values: Words
    at: Words
    costs: Words
    ranks: Words
    aside: Table
    puts: Words
    recent: Words
