"""Node buffers: the entries that the successor of a page will have, one buffer a level.

    columns 0..C-1    x y z . . w         decoded entries, and gaps for those only noted as runs
    column C          0 0 0     2         1 + the arena slot of the entry's child, if it is fresh; else 0
    C+1, C+2, C+3     (3, 5, 3)           run r: entries first..end of the old page, and the place of the first

Runs are decoded only where the new page cannot be made by shifting the old one's bits.

The state of a run of edits: what the rows of `walk`, the words of `tally` and the status of a run
mean.

Edits of the keys 2 and 7 go into this tree. The run is in the first leaf, where the 2 is done:

    index page 10     |  0 → 11   |  5 → 12   |           level      1     0
    leaves 11, 12     | 0 1 3 4   | 5 6 8 9   |           PAGE      10    11     the node it is in
                                                          SLOT       1     0     the next entry to be read
    node buffer of level 0   0 1 2 3 4                    END        2     1     the edit after those of this node
    node buffer of level 1   (nothing yet)                SIZE       0     5     entries in the node buffer
                                                          CHANGED    0     1     1 if a successor is to be made
                                                          RUNS       0     2     0..2 and 2..4 stay, the 2 is between
"""

from pagestore.pages.build import births_at
from pagestore.pages.layout import ENTRY_COUNT, WORD_MAX, Shape, pointer_to
from pagestore.pages.page import columns_of, unpack
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import MappedWords, Table, Words

pointer = kernel(pointer_to)


@kernel
def copy_run(
    words: MappedWords, columns: int, lo: int, hi: int, buffer: Table, walk: Table, level: int
):
    """Append entries lo..hi of the current page of a level to its buffer.

    They are noted as a run and stay encoded, unless entries of another page are in the buffer as
    well.
    """
    at = walk[SIZE, level]
    walk[SIZE, level] = at + hi - lo
    r = walk[RUNS, level]
    row = columns + 1
    if lo >= hi:
        return
    if r < 0:
        decode(words, walk[PAGE, level], columns, lo, hi, buffer, at)
    elif (
        r > 0
        and buffer[row + 1, r - 1] == lo
        and buffer[row + 2, r - 1] + lo - buffer[row, r - 1] == at
    ):
        buffer[row + 1, r - 1] = hi
    else:
        buffer[row, r] = lo
        buffer[row + 1, r] = hi
        buffer[row + 2, r] = at
        walk[RUNS, level] = r + 1


@kernel
def decode(words: MappedWords, page: int, columns: int, lo: int, hi: int, buffer: Table, at: int):
    """Decode entries lo..hi of a page into a buffer; they are not fresh (the row after the
    columns).

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
def decode_noted(words: MappedWords, columns: int, buffer: Table, walk: Table, level: int):
    """Decode the runs noted for a level, so that its buffer holds all of its entries."""
    row = columns + 1
    for r in range(walk[RUNS, level]):
        decode(
            words,
            walk[PAGE, level],
            columns,
            buffer[row, r],
            buffer[row + 1, r],
            buffer,
            buffer[row + 2, r],
        )


@kernel
def prepend(source: MappedWords | Words, page: int, columns: int, buffer: Table, size: int):
    """Move the buffer's entries up and decode a page before them; returns the new size."""
    count = source[page + ENTRY_COUNT]
    for c in range(columns + 1):  # the row after the columns says which children are fresh
        for i in range(size - 1, -1, -1):
            buffer[c, i + count] = buffer[c, i]
    decode(source, page, columns, 0, count, buffer, 0)
    return size + count


@kernel
def read_columns(shape: Shape, level: int):
    """Return how many columns of a page are read; it may lack its children's births."""
    return shape.keys + shape.values if level == 0 else shape.keys + 1 + shape.scans.shape[0]


@kernel
def refuse(page_id: int, tally: Words):
    """Stop the run at a corrupt page."""
    tally[STATUS] = CORRUPT
    tally[EVIDENCE] = page_id


@kernel
def birth_in(buffer: Table, keys: int, scans: Table, i: int):
    """Return the birth of the child of entry i of a buffer; 0 if unknown."""
    births = births_at(keys, scans.shape[0])
    return buffer[births, i] if births >= 0 else 0


INSERT, ERASE, SET, ADD = range(4)  # the paper's update-actions

# The status of a run. A run with too few pages, or too few rows for replaced pages, is SHORT and
# does not begin.
OK, CORRUPT, NEGATIVE, OVERFLOW, SHORT = range(5)

# The stages of a run: the entries of the root below the root, then the root and what comes above
# it.
BELOW, ROOT_ON = 1, 2
WHOLE = BELOW | ROOT_ON
ALL = WORD_MAX  # after the last entry of any root

# The rows of `walk`, which has a column for each level.
(
    PAGE,  # where the node's words begin
    PAGE_ID,  # its number in the file
    ENTRIES,  # how many entries it has
    SLOT,  # the next one to be read
    END,  # the edit after those that belong below this node
    SIZE,  # entries in the node buffer
    CHANGED,  # 1 where the node buffer differs from the node
    # runs of entries that stay, all from this one page to its one successor; -1 if there are others
    RUNS,
    AHEAD,  # the entry that the edit AHEAD_EDIT goes below, looked up in advance
    AHEAD_EDIT,  # -1 for no edit
    ROWS,
) = range(11)

# The words of `tally`, the result of a run.
(
    STATUS,
    EVIDENCE,  # a page number for CORRUPT, an edit for NEGATIVE and OVERFLOW
    USED,  # pages made
    DEAD,  # pages replaced
    DELTA,  # rows of the effective delta
    EDIT,  # edits done
    GAIN,  # records added less records removed
    NEW_ROOT,  # the pointer to the new root
    NEW_HEIGHT,
    WRITTEN,  # pages written to the file
    WORDS,
) = range(11)
