"""Groups of arguments of the join over flat tries (see pagestore/runtime/arguments.py)."""

from typing import NamedTuple

from pagestore.compiled import ByteTable, Table, Tables, Words


class FlatTries(NamedTuple):
    """The tries of all atoms in one array, and where each depth of each stands in it: place[A * D, PLACE]."""

    data: Words
    place: Table


class FlatRun(NamedTuple):
    """Where a run stands.

    plan and state are as for `leapfrog` over pages, steps[L, STEP] what is known of each level, cursors[A * D, CURSOR]
    the slice that each iterator is in; candidates and what is kept of them stand in `scratch`. flat_layout.py names
    the columns.
    """

    plan: Words
    state: Words
    steps: Table
    cursors: Table
    scratch: Words


class KeyTables(NamedTuple):
    """For each level, marks[L, m]: a byte for each key shared; and counts[L, m]: a word for each key collected."""

    marks: ByteTable
    counts: Table


class BitRows(NamedTuple):
    """Slices as rows of bits: grounds[L, GROUND], the numbers of rows by slice, and the bits (see bitmap_rows.py)."""

    grounds: Table
    numbers: Words
    bits: Words


class FlatOutput(NamedTuple):
    """Where results go: bindings out[L, n], how often each is to be counted times[n], and trace rows.

    Trace rows of sensor s go to rows[s, :, n] as codes[s, C, CODE] say; one level leaves at most `room` of them.
    """

    out: Table
    times: Words
    rows: Tables
    codes: Tables
    room: int
