"""Merge a leaf with its edits: make the new records and the delta.

    leaf     1 a   3 b   5 c          edits    INSERT 2 x    ERASE 3    SET 5 c
    buffer   run 0..1   2 x   run 2..3         delta    INSERT 2 x    ERASE 3 b

Records between two edits that change something move as runs; an edit that changes nothing moves nothing.
"""

from pagestore.pages.build import ENDS, RECORD
from pagestore.pages.layout import ENTRY_COUNT
from pagestore.pages.page import field, lower, run_end
from pagestore.runtime.kernel import kernel
from pagestore.trees.kernels.apply_layout import (
    ADD,
    CHANGED,
    DELTA,
    EDIT,
    END,
    ENTRIES,
    ERASE,
    EVIDENCE,
    GAIN,
    INSERT,
    NEGATIVE,
    OK,
    OVERFLOW,
    PAGE,
    SIZE,
    STATUS,
)
from pagestore.trees.kernels.node_buffer import copy_run


@kernel
def merge_leaf(words, shape, edits, delta, run):
    """Append the current leaf, with its edits applied, to the buffer of level 0.

    Records between two effective edits move as column runs.  A leaf whose edits change nothing moves
    nothing (unless records carried over from its neighbour wait in the buffer).
    """
    keys, values, actions, rows, visible = shape.keys, shape.values, edits.actions, edits.rows, edits.visible
    node, walk, tally = run.node, run.walk, run.tally
    columns = keys + values
    page, entries = walk[PAGE, 0], walk[ENTRIES, 0]
    spare = node[-1]
    buffer, ends, record = node[0], spare[ENDS], spare[RECORD]
    copied = 0
    at = 0
    first = e = tally[EDIT]
    while e < walk[END, 0]:
        stored = False
        if at < entries:
            at, stored = follow(words, page, keys, rows, first, e, at, ends)
        exists = new_values(words, page, at, stored, keys, values, actions[e], rows, e, record, tally)
        if tally[STATUS] != OK:
            return
        if stored != exists or (stored and differs(words, page, at, record, keys, columns)):
            copy_run(words, columns, copied, at, buffer, walk, 0)
            copied = at
            shown = stored != exists or differs(words, page, at, record, keys, visible)
            if stored:
                copied += 1
                if shown:
                    report(ERASE, words, page, at, columns, delta, tally)
            if exists:
                size = walk[SIZE, 0]
                for c in range(columns):
                    buffer[c, size] = record[c]
                if shown:
                    report_buffer(INSERT, buffer, size, columns, delta, tally)
                walk[SIZE, 0] = size + 1
            tally[GAIN] += int(exists) - int(stored)
            walk[CHANGED, 0] = 1
        e += 1
    tally[EDIT] = e
    if walk[CHANGED, 0]:
        copy_run(words, columns, copied, entries, buffer, walk, 0)


@kernel
def report(action, words, page, slot, columns, delta, tally):
    """Append a stored record to the effective delta."""
    d = tally[DELTA]
    delta.actions[d] = action
    for c in range(columns):
        delta.rows[c, d] = field(words, page, c, slot)
    tally[DELTA] = d + 1


@kernel
def report_buffer(action, buffer, slot, columns, delta, tally):
    """Append a record of a buffer to the effective delta."""
    d = tally[DELTA]
    delta.actions[d] = action
    for c in range(columns):
        delta.rows[c, d] = buffer[c, slot]
    tally[DELTA] = d + 1


@kernel
def new_values(words, page, slot, stored, keys, values, action, edits, e, record, tally):
    """Write the record's values after edit e to `record`; return whether the record then exists."""
    for c in range(keys):
        record[c] = edits[c, e]
    for c in range(keys, keys + values):
        record[c] = edits[c, e]
        if stored and action == INSERT:
            record[c] = field(words, page, c, slot)
        elif stored and action == ADD:
            old = field(words, page, c, slot)
            total = old + edits[c, e]
            if (old ^ total) & (edits[c, e] ^ total) < 0:
                tally[STATUS] = OVERFLOW
                tally[EVIDENCE] = e
            record[c] = total
    if action == ADD:
        support = record[keys + values - 1]
        if support < 0:
            tally[STATUS] = NEGATIVE
            tally[EVIDENCE] = e
        return support > 0
    return action != ERASE


@kernel
def differs(words, page, slot, record, lo, hi):
    """Return whether a stored record differs from another in columns lo to hi."""
    for c in range(lo, hi):
        if field(words, page, c, slot) != record[c]:
            return True
    return False


@kernel
def follow(words, page, keys, edits, first, e, at, ends):
    """Return the first entry from `at` on that is not below the key of edit e, and whether it equals it.

    `ends` are the ends of the runs that share the first 1, 2, ... columns with the key of the edit before: only
    columns from the first that differs are searched. Edit `first` has none before it.
    """
    c = 0
    hi = words[page + ENTRY_COUNT]
    while e > first and edits[c, e] == edits[c, e - 1]:
        hi = ends[c]
        c += 1
    while c < keys:
        x = edits[c, e]
        at = lower(words, page, c, at, hi, x)
        if at == hi or field(words, page, c, at) != x:
            ends[c:keys] = at
            return at, False
        hi = run_end(words, page, c, at, hi, x)
        ends[c] = hi
        c += 1
    return at, True
