"""The state of a run of edits: what the rows of `walk`, the words of `tally` and the status of a run mean.

Edits of the keys 2 and 7 go into this tree. The run is in the first leaf, where the 2 is done:

    index page 10     |  0 → 11   |  5 → 12   |           level      1     0
    leaves 11, 12     | 0 1 3 4   | 5 6 8 9   |           PAGE      10    11     the node it is in
                                                          SLOT       1     0     the next entry to be read
    node buffer of level 0   0 1 2 3 4                    END        2     1     the edit after those of this node
    node buffer of level 1   (nothing yet)                SIZE       0     5     entries in the node buffer
                                                          CHANGED    0     1     1 if a successor is to be made
                                                          RUNS       0     2     0..2 and 2..4 stay, the 2 is between
"""

from pagestore.pages.layout import WORD_MAX

INSERT, ERASE, SET, ADD = range(4)  # the paper's update-actions

# The status of a run. A run with too few pages, or too few rows for replaced pages, is SHORT and does not begin.
OK, CORRUPT, NEGATIVE, OVERFLOW, SHORT = range(5)

# The stages of a run: the entries of the root below the root, then the root and what comes above it.
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
    RUNS,  # runs of entries that stay, all from this one page to its one successor; -1 if there are others
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
    ROOT,  # the pointer to the new root
    HEIGHT,
    WRITTEN,  # pages written to the file
    WORDS,
) = range(11)
