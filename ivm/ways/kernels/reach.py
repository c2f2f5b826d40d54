"""Find which plans of one relation its changed rows reach: those whose conditions on columns hold
for a row.

a(k) <- r(k, c, d), c = 3, d > 5.         plan 0    option: c in 3 to 3, d in 6 to the greatest word
b(k) <- r(k, c, d), (c < 2 ; d != 1).     plan 1    option: c up to 1;  option: d not in 1 to 1
"""

from typing import NamedTuple

from pagestore.compiled import Flags, Table, kernel

# columns of `tests`: a column of the relation, the least and the greatest word, whether the words
# outside pass, and the column with which it is compared (-1 for none), where the word is -1, 0 or 1
# if it is less, the same or greater
COLUMN, LOW, HIGH, OUTSIDE, OTHER, TEST = range(6)


class Conditions(NamedTuple):
    """The conditions of P plans: tests[T, TEST], the tests of each option[O, 2], and the options of
    each plan[P, 2].

    A plan is reached if all tests of one of its options hold.
    """

    tests: Table
    options: Table
    plans: Table


@kernel
def holds(conditions: Conditions, p: int, rows: Table, i: int):
    """Return whether the conditions of plan p hold for row i of rows[C, n]."""
    tests, options, plans = conditions.tests, conditions.options, conditions.plans
    for o in range(plans[p, 0], plans[p, 1]):
        t, end = options[o, 0], options[o, 1]
        while t < end:
            word = rows[tests[t, COLUMN], i]
            if tests[t, OTHER] >= 0:
                other = rows[tests[t, OTHER], i]
                word = int(word > other) - int(word < other)
            if (tests[t, LOW] <= word <= tests[t, HIGH]) == (tests[t, OUTSIDE] != 0):
                break
            t += 1
        if t == end:
            return True
    return False


@kernel
def reached(conditions: Conditions, rows: Table, found: Flags):
    """Set found[P] to whether any of rows[C, n] reaches each plan."""
    for p in range(conditions.plans.shape[0]):
        found[p] = False
        for i in range(rows.shape[1]):
            if holds(conditions, p, rows, i):
                found[p] = True
                break
