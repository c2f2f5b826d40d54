"""Groups of arguments of the kernel that probes (see pagestore/runtime/arguments.py)."""

from typing import NamedTuple

from pagestore.compiled import Flags, Table, Tables, Words


class ProbeTable(NamedTuple):
    """The probes of a plan: constant words, a row for each probe (see probe.py), columns of a binding."""

    static: Words
    probes: Table
    columns: int


class Branches(NamedTuple):
    """The changes of tries, in one array: for each trie the actions of its branches, then their words by column.

    spans[B, 3] say where the branches of a trie begin in `words`, how many there are, and the distance between columns.
    actions[2] is the action of a binding that is found in the old trees, and of one in the new trees.
    """

    words: Words
    spans: Table
    actions: Words


class ProbeRun(NamedTuple):
    """The state of a probe: `progress` (see probe.py), the state of its join, its oracle, and its output buffers.

    regions and start are an oracle of single values, out[C, n] bindings as the join finds them; rows and runs are as
    for `leapfrog`.
    """

    progress: Words
    state: Words
    regions: Words
    start: Words
    out: Table
    rows: Tables
    runs: Table


class Found(NamedTuple):
    """Bindings found, bindings[C, n], and signs[n]: the action of each."""

    signs: Words
    bindings: Table


class Composing(NamedTuple):
    """Buffers to sort and compose a few bindings: order[2 n], fresh[n], and the output."""

    order: Words
    fresh: Flags
    found: Found
