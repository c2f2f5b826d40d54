"""Groups of arguments of the join over flat tries (see pagestore/runtime/arguments.py)."""

from typing import NamedTuple

from pagestore.compiled import ByteTable, Table, Tables, Words


class FlatTries(NamedTuple):
    """The tries of all atoms in one array, and where each depth of each is in it: place[A * D, PLACE]."""

    data: Words
    place: Table


class FlatRun(NamedTuple):
    """The state of a run.

    plan and state are as for `leapfrog` over pages, steps[L, STEP] the facts of each level, cursors[A * D, CURSOR]
    the slice that each iterator is in; `scratch` holds candidates and cached keys. flat_layout.py names the columns.
    """

    plan: Words
    state: Words
    steps: Table
    cursors: Table
    scratch: Words


class KeyTables(NamedTuple):
    """For each level, marks[L, m]: a byte for each key, 1 if shared; counts[L, m]: a word for each key collected."""

    marks: ByteTable
    counts: Table


class BitRows(NamedTuple):
    """Slices as bitmaps: universes grounds[L, GROUND], the row number of each slice, the bits (see bitmap_rows.py)."""

    grounds: Table
    numbers: Words
    bits: Words


class FlatOutput(NamedTuple):
    """Output buffers: bindings out[L, n], how often each counts times[n], and trace rows.

    Trace rows of sensor s go to rows[s, :, n], packed by codes[s, C, CODE]; one level writes at most `room` rows.
    """

    out: Table
    times: Words
    rows: Tables
    codes: Tables
    room: int
