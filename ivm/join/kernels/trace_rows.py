"""Turn notes into trace rows: columns, or words into which the columns are packed.

    context (x = 3), notes (2, 4) (5, 6)      columns   3 3 | 2 5 | 4 6      words   3·2·4   3·5·6, bits concatenated

Words are sorted and stored in a third of the time that columns take. Where a word has too few bits, a tail follows.
"""

from ivm.join.kernels.flat_layout import CODE_AT, CODE_HIGH, CODE_LOW, MARK, NOUGHT, ROOM, SOURCE, TAIL
from ivm.join.kernels.join_layout import BINDING, CROWD, ROW_COUNT, SOURCES, WIDTH
from pagestore.compiled import code_of, inlined, kernel


@kernel
def leave(plan, state, codes, rows, s, scratch, at, step, n):
    """Write n operations noted from scratch[at] on as trace rows of sensor s, if s >= 0."""
    if s < 0 or n == 0:
        return
    row = state[state[ROW_COUNT] + s]
    if codes[s, 0, TAIL] < 0:
        leave_columns(plan, state, rows[s], row, s, scratch, at, at + step[ROOM], n)
    else:
        leave_words(state, codes[s], rows[s], row, scratch, at, at + step[ROOM], n)
    state[state[ROW_COUNT] + s] = row + n
    state[CROWD] = max(state[CROWD], row + n)


@kernel
def leave_words(state, codes, rows, row, scratch, at, ends, n):
    """Do as `leave`, each row a word, or a word and a tail."""
    tail, word, rest = codes[0, TAIL], codes[0, NOUGHT], 0
    for c in range(2, codes.shape[0]):
        if codes[c, SOURCE] < 0:
            break
        x = state[state[BINDING] + codes[c, SOURCE]]
        if tail:
            above, below = coded(codes[c], tail, x - codes[c, CODE_LOW] + 1)
            word |= above
            rest |= below
        else:
            word += x << codes[c, CODE_AT]
    a, b = codes[0], codes[1]
    for r in range(n):
        x = code_of(scratch[at + r], a[CODE_LOW], a[CODE_HIGH])
        y = code_of(scratch[ends + r], b[CODE_LOW], b[CODE_HIGH])
        if a[MARK]:
            x = x << 1 | (x != y)
        if tail:
            x, below_x = coded(a, tail, x)
            y, below_y = coded(b, tail, y)
            rows[0, row + r] = word | x | y
            rows[1, row + r] = rest | below_x | below_y
        else:
            rows[0, row + r] = word | x << a[CODE_AT] | y << b[CODE_AT]


@inlined
def coded(code, tail, x):
    """Return what the code x of a column adds to the word and the tail of a row, see pagestore/sorting/codes.py."""
    at = code[CODE_AT]
    if at >= tail:
        return x << at - tail, 0
    return x >> tail - at, x << at & (1 << tail) - 1


@kernel
def leave_columns(plan, state, rows, row, s, scratch, at, ends, n):
    """Do as `leave`, with rows as columns of words."""
    for c in range(plan[WIDTH]):
        source = plan[plan[SOURCES] + s * plan[WIDTH] + c]
        if source >= 0:
            for r in range(row, row + n):
                rows[c, r] = state[state[BINDING] + source]
        elif source > -3:
            begins = at if source == -1 else ends
            for r in range(n):
                rows[c, row + r] = scratch[begins + r]
