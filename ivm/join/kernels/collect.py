"""Collecting levels: the union of a level's candidates under all values before it, each with a count.

    two(x, z) <- edge(x, y), edge(y, z).        x = 1:  y = 2 gives z 3 5    y = 4 gives z 5 6    ──▶  3 ×1, 5 ×2, 6 ×1

This is possible where no lower level reads a variable and its values are not requested.
"""

from ivm.join.kernels.flat_cursors import rewind
from ivm.join.kernels.flat_layout import COLLECTED, COLLECTED_BASE, COUNT_LOW, NEXT, SORTS, SPARSE, STOP, TALLIES, TIMES
from pagestore.compiled import WORD_MAX, Words, kernel, late


@kernel
def collect(steps, scratch, counts, level):
    """Add a level's candidates to those it has collected.  Return False if a count does not fit a word."""
    n, low = steps[level, COLLECTED], steps[level, COUNT_LOW]
    times = steps[level - 1, TIMES]
    if steps[level, TALLIES]:
        return tally(steps[level], scratch, counts, times)
    fits = True
    for i in range(steps[level, NEXT], steps[level, STOP]):
        x = scratch[i]
        count = counts[x - low]
        scratch[n] = x
        n += count == 0
        counts[x - low] = count + times
        fits &= count <= WORD_MAX - times
    steps[level, COLLECTED] = n
    return fits


@kernel
def tally(step, scratch, counts, times):
    """Add the number of a level's candidates to a single count.  Return False if that does not fit a word."""
    n = step[STOP] - step[NEXT]
    if n == 0:
        return True
    if times > (WORD_MAX - counts[0]) // n:
        return False
    scratch[step[COLLECTED_BASE]] = step[COUNT_LOW]
    step[COLLECTED] = step[COLLECTED_BASE] + 1
    counts[0] += n * times
    return True


@late(Words, int, int, allocates=True)
def sort_slice(words, begin, end):
    """Sort words[begin:end]; return their number."""
    words[begin:end].sort()
    return end - begin


@kernel
def arrange(plan, steps, cursors, scratch, counts, level):
    """Make the keys that a level has collected its candidates, in order."""
    base, stop, low = steps[level, COLLECTED_BASE], steps[level, COLLECTED], steps[level, COUNT_LOW]
    if SPARSE * (stop - base) < counts.shape[0]:
        sort_slice(steps[level, SORTS], scratch, base, stop)
    else:
        n = base
        for i in range(counts.shape[0]):
            scratch[n] = low + i
            n += counts[i] != 0
    steps[level, NEXT], steps[level, STOP] = base, stop
    steps[level, COLLECTED] = base
    rewind(plan, cursors, level)
