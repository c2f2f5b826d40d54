"""Groups of arguments of the kernel that probes (see pagestore/runtime/arguments.py)."""

from typing import NamedTuple

from pagestore.compiled import Flags, Table, Tables, Words


class ProbeTable(NamedTuple):
    """The probes of a plan: words that stay the same, a row for each probe (see probe.py), columns of a binding."""

    static: Words
    probes: Table
    columns: int


class Branches(NamedTuple):
    """What changed in tries: actions, then words, of branches, in one array.

    spans[B, 3] say where some branches begin in `words`, how many there are, and how far apart their actions and words
    begin. actions[2] is what happened to a binding that is found with the old trees, and with the new ones.
    """

    words: Words
    spans: Table
    actions: Words


class ProbeRun(NamedTuple):
    """Where a probe stands: `progress` (see probe.py), the state of its join, its oracle, and room for its output.

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
    """Bindings found, bindings[C, n], and signs[n]: what happened to each."""

    signs: Words
    bindings: Table


class Composing(NamedTuple):
    """Room for a few bindings to be sorted and composed: order[2 n], fresh[n], and where they go then."""

    order: Words
    fresh: Flags
    found: Found
