"""Decide edits by key one after the other, each on the rows as those before it left them.

    row 0, row 1        8  2         v = v - x, if v >= x,  for x = 5, 3 and 9 of rows 0, 1 and 0
                        3  2         8 - 5: made           2 < 3: not made     3 < 9: not made

An edit is a step of a transaction, which is made if each of its steps changes a row, else undone.
"""

from pagestore.compiled import WORD_MIN, Table, TypedKernel, Words, kernel

# columns of `steps`, each an edit of one row: where the comparisons of the edit begin in `sources`,
# its assignments, and the words of a new row; where those words end; and what becomes of a row that
# has the key
TESTS, CHANGES, NEW, END, KIND = range(5)
CHANGED, GONE, REFUSED = range(3)
# columns of `sources`, each with a word in each transaction: the column that it goes to, or of the
# second side of a comparison the bits for less, equal, greater; the column to whose word it is
# added (0 for none), `sign` times; whether that may be null; the least and the greatest sum
TARGET, PLACE, SIGN, NULLABLE, LEAST, MOST, SOURCE = range(7)
UNFIT = 2  # of an edit: it is not decided here


@kernel
def add_row(sources: Table, q: int, words: Words, row: Words):
    """Add what a row has to a source's word; return whether that fits."""
    if sources[q, PLACE] == 0:
        return True
    before, own = row[sources[q, PLACE]], words[q] * sources[q, SIGN]
    words[q] = before
    if before == WORD_MIN:  # a null, which stays one, or the least number
        return sources[q, NULLABLE] != 0
    if own == WORD_MIN:  # nothing is added
        return True
    words[q] += own
    fits = sources[q, LEAST] <= words[q] <= sources[q, MOST]
    return fits and (own >= 0) == (words[q] >= before)


@kernel
def edit(step: Words, sources: Table, words: Words, row: Words):
    """Edit a row, whose first word says whether it is there; return whether it changes, or UNFIT."""
    if not row[0]:
        for q in range(step[NEW], step[END]):
            row[sources[q, TARGET]] = words[q]
        row[0] = step[END] > step[NEW]
        return row[0]
    if step[KIND] == REFUSED:
        return UNFIT
    for q in range(step[TESTS], step[NEW]):
        if not add_row(sources, q, words, row):
            return UNFIT
        if q < step[CHANGES] and (q - step[TESTS]) % 2:
            left, right = words[q - 1], words[q]
            test = 1 + (left > right) - (left < right)
            if left == WORD_MIN or right == WORD_MIN or not sources[q, TARGET] >> test & 1:
                return 0
    for q in range(step[CHANGES], step[NEW]):
        row[sources[q, TARGET]] = words[q]
    if step[KIND] == GONE:
        row[0] = 0
    return int(step[KIND] == GONE or step[NEW] > step[CHANGES])


@kernel
def decide(
    steps: Table, sources: Table, words: Table, at: Table, whole: bool, rows: Table, made: Table,
    room: Table
):  # fmt: skip
    """Set made[n, S] to whether each step changes its row at[n, S] of rows[R, 1 + C], by the words
    of sources, words[n, Q]; if `whole`, undo the steps before one that does not.  Return how many
    transactions were decided.  O(n).
    """
    for i in range(at.shape[0]):
        s, done = 0, 1
        while s < at.shape[1] and (done == 1 or not whole) and done != UNFIT:
            for c in range(rows.shape[1]):
                room[s, c] = rows[at[i, s], c]
            done = edit(steps[s], sources, words[i], rows[at[i, s]])
            made[i, s] = done
            s += 1
        while whole and done != 1 and s > 0:
            s -= 1
            for c in range(rows.shape[1]):
                rows[at[i, s], c] = room[s, c]
            made[i, s] = 0
        if done == UNFIT:
            return i
    return at.shape[0]


DECIDE = TypedKernel(decide)  # here, since a build imports no package that SQL needs
