"""TODO: pagestore/trees/kernels/apply_layout.py."""

INSERT, ERASE, SET, ADD = range(4)  # the paper's update-actions
# status of a run; one for which there are too few pages, or too few rows of a dead list, does not begin
OK, CORRUPT, NEGATIVE, OVERFLOW, SHORT = range(5)
# stages of a run: the entries of the root below the root, then the root and what comes above it
BELOW, ROOT_ON = 1, 2
WHOLE = BELOW | ROOT_ON
ALL = (1 << 63) - 1  # behind the last entry of any root

# rows of `walk`, one column per level
# RUNS: runs of entries copied so far from this one page to its one successor; -1 when there are others
# AHEAD: the entry that the edit number AHEAD_EDIT goes below, which was looked up before its turn; -1 for none was
PAGE, PAGE_ID, ENTRIES, SLOT, END, SIZE, CHANGED, RUNS, AHEAD, AHEAD_EDIT, ROWS = range(11)
# words of `tally`
STATUS, EVIDENCE, USED, DEAD, DELTA, EDIT, GAIN, ROOT, HEIGHT, WRITTEN, WORDS = range(11)
