"""Groups of arguments of the kernel that takes the steps of a schedule (see pagestore/runtime/arguments.py)."""

from typing import NamedTuple

from pagestore.compiled import Table, Words


class ScheduleTable(NamedTuple):
    """The steps of a schedule and the tables they refer to; schedule.py names the columns of each table.

    steps[S, 2], plans[P, 9] and heads[H, 4] refer to spans of the other arrays: probes[Q, PROBE] and the words `static`
    are those of all plans, indices and sources are numbers of trees, copies are columns of bindings.
    """

    static: Words
    steps: Table
    plans: Table
    probes: Table
    indices: Words
    sources: Words
    heads: Table
    copies: Words


class ScheduleRoom(NamedTuple):
    """Working memory of a schedule: the trees before its first step, and the old and new trees that a plan reads.

    before[T, TREE_WORDS] are rows of trees, versions the words (root, height, keys) of a plan's trees in either
    version, spans[B, 3] and actions[2] as for `probe_next`; operations[P] count those of each plan.
    """

    before: Table
    versions: Words
    spans: Table
    actions: Words
    operations: Words
