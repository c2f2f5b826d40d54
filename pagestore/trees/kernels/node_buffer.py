"""Node buffers: the entries that the successor of a page will have, one buffer a level.

    columns 0..C-1    x y z . . w         decoded entries, and gaps for those only noted as runs
    column C          0 0 0     2         1 + the arena slot of the entry's child, if it is fresh; else 0
    C+1, C+2, C+3     (3, 5, 3)           run r: entries first..end of the old page, and the place of the first

Runs are decoded only where the new page cannot be made by shifting the old one's bits.
"""

from pagestore.pages.build import births_at
from pagestore.pages.layout import ENTRY_COUNT, pointer_to
from pagestore.pages.page import columns_of, unpack
from pagestore.runtime.kernel import kernel
from pagestore.trees.kernels.apply_layout import CORRUPT, EVIDENCE, PAGE, RUNS, SIZE, STATUS

pointer = kernel(pointer_to)


@kernel
def copy_run(words, columns, lo, hi, buffer, walk, level):
    """Append entries lo..hi of the current page of a level to its buffer.

    They are noted as a run and stay encoded, unless entries of another page are in the buffer as well.
    """
    at = walk[SIZE, level]
    walk[SIZE, level] = at + hi - lo
    r = walk[RUNS, level]
    row = columns + 1
    if lo >= hi:
        return
    if r < 0:
        decode(words, walk[PAGE, level], columns, lo, hi, buffer, at)
    elif r > 0 and buffer[row + 1, r - 1] == lo and buffer[row + 2, r - 1] + lo - buffer[row, r - 1] == at:
        buffer[row + 1, r - 1] = hi
    else:
        buffer[row, r] = lo
        buffer[row + 1, r] = hi
        buffer[row + 2, r] = at
        walk[RUNS, level] = r + 1


@kernel
def decode(words, page, columns, lo, hi, buffer, at):
    """Decode entries lo..hi of a page into a buffer; they are not fresh (the row after the columns).

    Children of a page of format 1 have unknown births.
    """
    there = min(columns, columns_of(words, page))
    for c in range(there):
        unpack(words, page, c, lo, hi, buffer[c], at)
    for c in range(there, columns):
        buffer[c, at : at + hi - lo] = 0
    for i in range(at, at + hi - lo):
        buffer[columns, i] = 0


@kernel
def decode_noted(words, columns, buffer, walk, level):
    """Decode the runs noted for a level, so that its buffer holds all of its entries."""
    row = columns + 1
    for r in range(walk[RUNS, level]):
        decode(words, walk[PAGE, level], columns, buffer[row, r], buffer[row + 1, r], buffer, buffer[row + 2, r])


@kernel
def prepend(source, page, columns, buffer, size):
    """Move the buffer's entries up and decode a page before them; returns the new size."""
    count = source[page + ENTRY_COUNT]
    for c in range(columns + 1):  # the row after the columns says which children are fresh
        for i in range(size - 1, -1, -1):
            buffer[c, i + count] = buffer[c, i]
    decode(source, page, columns, 0, count, buffer, 0)
    return size + count


@kernel
def read_columns(shape, level):
    """Return how many columns of a page are read; it may lack its children's births."""
    return shape.keys + shape.values if level == 0 else shape.keys + 1 + shape.scans.shape[0]


@kernel
def refuse(page_id, tally):
    """Stop the run at a corrupt page."""
    tally[STATUS] = CORRUPT
    tally[EVIDENCE] = page_id


@kernel
def birth_in(buffer, keys, scans, i):
    """Return the birth of the child of entry i of a buffer; 0 if unknown."""
    births = births_at(keys, scans.shape[0])
    return buffer[births, i] if births >= 0 else 0
