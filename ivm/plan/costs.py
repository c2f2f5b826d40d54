"""Every measured number by which a way of evaluating a plan is chosen, and what each way costs.

1 is 30 ns, about that of an iterator operation of a join over flat tries.

    follow   alone          EDITED for each changed row
             by probes      for each binding found, at least ROW for each changed row
             by matching    for each operation, renewed interval and changed binding of a sample
             by columns     for each row that passes by, and for each relation
    anew     evaluating     for each operation that the last evaluation took, and each row stored
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import exp
from typing import NamedTuple

from ivm.plan.join_tree import links_of
from ivm.plan.plan import Columns, Plan

# of following a change
ROW = 16  # of a changed row that becomes a branch and is probed, without its operations
OPERATION = 2  # of an iterator operation over pages
BOUND = 6  # of a binding found, and of the edit that it becomes, beyond what that costs anew
STEPS = 3  # operations of a probe for each binding
EDITED = 3  # of a row of a delta that is a binding, beyond that of a row of a view evaluated anew
RENEWED = 8  # of an interval of a sensitivity index that is removed or recorded
INDEXED = 3  # of a row of a relation for which an index is built
REWRITTEN = 1.5  # of a row of a view on a page that edits touch
ON_PAGE = 170  # rows of a page of a view

# of columns, and of evaluating anew
READ = 0.6  # of a row that passes by in columns
TABLE = 12_000  # of each relation of a join by columns, and of each link, for the calls of Python
ANEW = 25_000  # of evaluating views anew, for the calls of Python
JOINED = 0.25  # of an operation of an evaluation in full
LISTED = 1  # of a binding that becomes rows of a view; one that is added up costs next to nothing
STORED = 0.8  # of a row of a view that is built, and compared with those before
RECORDED = 1  # of an interval of a sensitivity index that is written with all others
# of the rows of relations; a rule that took fewer operations counts what a subset lacks
SKIPPED = 0.1

# of turning from probing to matching, or back
LONG_OPERATION = 0.2  # of an operation of a probe that passes over long lists
# of joins by columns, and of indices that are built, as a share of what is estimated for them: where
# relations are in memory they took 0.2 to 0.4, and a rule that counts too much turns too early
PREPARED = 0.35
# of an operation of an evaluation over pages that records a sensitivity index, with its intervals
RECORDING = 2

# of choosing probes, matches or columns when a rule is planned
COLUMN_ROWS = 8  # rows that pass by in columns in the time of one iterator operation
# renewing an interval in its index takes as long as about 16 iterator operations
RENEWAL_OPERATIONS = 16
# A trace may be longer than estimated by this factor for each variable but the first: joined
# columns are seldom independent, and an error at one level multiplies that at the next.
CORRELATED = 16

# of orders of variables
# the cost of sorting one binding, or of merging it with equal ones, in iterator operations
MERGE_OPERATIONS = 8
SORTING_SHARE_MAX = 2  # the most that sorting adds, as a multiple of an order's own cost
EXTENDED = 2400  # of a prefix of an order that the search extends by one variable, in operations
PERMUTED_MAX = 5  # variables; up to this many, all permutations are tried, which takes milliseconds

# of filling by tries and by columns
LOOK_UP = 10  # records that a merge passes in the time of one lookup of a binding in s, measured
RANGE_ROWS = 300  # of a relation read whole that cost as much as finding the rows of one key

# of following a change of a recursive stratum
# An operation takes some 0.3 us, and evaluating a stratum anew 0.2 to 0.8 us for each row: the
# kernel stops after a fifth of that, so that what is given up costs a fifth more than evaluating
# anew.
STEP_OPERATIONS = 128  # for each of the steps that are free, two milliseconds together
FOLLOWED_SHARE = 0.15  # operations for each row
# that following a change of a linear stratum in memory costs as much as, at least
IN_MEMORY = 12288
WRITE_OPERATIONS = 800  # that storing the facts of a round costs as much as, at least

# from when on ways are compared
# the cost of probing before those of the other ways are estimated; none is much cheaper
FREE = 20_000
# rows; a delta of one relation with no more is propagated whatever it costs
# (engine/kernels/plans.py)
LARGE_FROM = 64
SAMPLED = 64  # rows of a delta whose matches are found to estimate what all cost, or one in
SAMPLED_SHARE = 16

# A recursive stratum is evaluated anew once REFILL_FROM plus one in REFILL_SHARE of its rows lost
# support.
REFILL_FROM = 256
REFILL_SHARE = 2
REFILL_SHARE_MAX = 0.25  # of the rows of a relation that it reads: if more have changed, it is, too


class Evaluated(NamedTuple):
    """What is known of a rule's full evaluation: the rows that it read then and would read now, its
    operations then, if they were `measured`, the bindings that it listed, how many of the rows that
    it read are left, and the intervals of its sensitivity indices.
    """

    then: int
    now: int
    operations: int
    measured: bool
    listed: int
    left: float
    recorded: int


def building(rows: int) -> float:
    """Return the cost of building indices of relations with so many rows together."""
    return INDEXED * rows


def alone(rows: int) -> float:
    """Return the cost of following changed rows of the only relation of a plan."""
    return float(EDITED * rows)


def probing(listed: float, expected: float, rows: int) -> float:
    """Return the cost of probing, where changed rows have so many bindings, and a row takes
    `expected` operations.
    """
    return max((BOUND + STEPS * OPERATION) * listed, OPERATION * expected * rows)


def probing_at_least(rows: int, indexed: int) -> float:
    """Return what probing changed rows costs at least, if so many rows are indexed before."""
    return ROW * rows + building(indexed)


def sampled(rows: int) -> int:
    """Return of how many changed rows one is matched to estimate what all cost."""
    return max(SAMPLED_SHARE, rows // SAMPLED)


def matching(every: int, operations: int, renewed: int, bindings: int) -> float:
    """Return the cost of matching, given what one row of so many took."""
    return float(every * (OPERATION * operations + RENEWED * renewed + EDITED * bindings))


def recording(rows: float, operations: float) -> float:
    """Return the cost of recording sensitivity indices by an evaluation that reads some rows."""
    return READ * rows + RECORDING * operations


@lru_cache(256)
def tables(plan: Plan) -> float:
    """Return the cost of a join by columns that finds nothing."""
    return float(TABLE * (len(plan.tries) + len(links_of(plan))))


def by_columns(fixed: float, rows: float, listed: float) -> float:
    """Return the cost of joins by columns: rows that pass by, bindings that become a view's."""
    return fixed + READ * rows + BOUND * listed


def deferring(listed: float, indexed: int) -> float:
    """Return what is saved, at most, by joining changed rows by columns while indices of so many
    rows are missing.
    """
    return building(indexed) + BOUND * listed


def rewriting(bindings: float, counts: Iterable[int]) -> float:
    """Return the cost of writing pages of views anew that scattered bindings touch, by rows."""
    return sum(REWRITTEN * rows * (1 - exp(-bindings * ON_PAGE / max(1, rows))) for rows in counts)


def anew(stored: float, joining: float) -> float:
    """Return the cost of evaluating views of so many rows anew, given that of all bindings."""
    return ANEW + STORED * stored + joining


def evaluating(plans: Sequence[Plan], rule: Evaluated) -> float:
    """Return the cost of finding all bindings of a rule: as many operations a row as last time."""
    grown = rule.now / rule.then if rule.then else 1.0  # of scans no sizes are kept
    operations = grown * rule.operations if rule.measured and rule.then else rule.now
    storing = LISTED * rule.listed * max(1.0, grown) * rule.left + RECORDED * rule.recorded
    if operations < SKIPPED * rule.now:
        return storing + operations
    fixed = storing + sum(map(tables, plans))
    if all(isinstance(plan.way, Columns) or len(plan.tries) == 1 for plan in plans):
        return fixed + READ * operations
    return fixed + READ * rule.now + JOINED * operations


def refills_at_once(changes: Iterable[tuple[int, int]]) -> bool:
    """Return whether a recursive stratum is evaluated anew, given the changed rows and all rows
    of what it reads.
    """
    return any(rows > max(LARGE_FROM, REFILL_SHARE_MAX * count) for rows, count in changes)
