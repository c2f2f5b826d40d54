"""Many plans of one relation: which of them a change reaches, by one table of the constants in
their filters.

An edit pays for the views that its rows can reach, however many others read the same relation.
Conditions that the table cannot express are left out of it, so a plan that is not reached has no
change, and one that is reached may have.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ivm.lang.ir import MIRRORED, Compare, Const, Type, Var
from ivm.lang.types import has_ids
from ivm.plan.plan import Plan, Scan
from ivm.terms.conditions import SAME, Choice
from ivm.terms.encoder import Encode
from ivm.ways.kernels import reach as kernel
from ivm.ways.kernels.reach import Conditions
from pagestore.compiled import TypedKernel
from pagestore.host import NULL, WORD_MAX, WORD_MIN

REACHED = TypedKernel(kernel.reached)
EQUAL = "=", "!=", SAME  # comparisons that hold of texts if they do of their words
OPTIONS_MAX = 1 << 10  # of a plan; with more it counts as reached


class Test(NamedTuple):
    """A comparison of a column with a constant, null if that is None, or another column."""

    column: int
    op: str
    const: Const | None
    other: int = -1


class Tested(NamedTuple):
    """The options of a plan, each of which is a list of tests, and whether they are all of its
    `sure` filters.
    """

    options: list[list[Test]]
    exact: bool


def places_of(plan: Plan) -> dict[str, int]:
    """Return the column that each variable of a plan holds: of the relation if the plan scans
    it, else of bindings.
    """
    if not isinstance(plan.way, Scan):
        return {name: column for column, name in enumerate(plan.columns)}
    places = {name: plan.tries[0].index.order[depth] for depth, name in enumerate(plan.variables)}
    return places | {read.variable: read.column for read in plan.reads}


def tested(plan: Plan, types: Mapping[str, Type]) -> Tested:
    """Return the conditions of a plan as tests of the columns `places_of`, given the types of
    its variables.
    """
    places = places_of(plan)
    options, exact = [list[Test]()], True
    for atom in plan.sure:
        parts = [
            _tests(option, plan, places, types)
            for option in (atom.options if isinstance(atom, Choice) else ((atom,),))
        ]
        exact &= all(part.exact for part in parts)
        if len(options) * len(parts) > OPTIONS_MAX:
            return Tested([[]], exact=False)
        options = [[*tests, *more] for tests in options for part in parts for more in part.options]
    return Tested(options, exact)


def _tests(
    comparisons: Iterable[Compare], plan: Plan, places: Mapping[str, int], types: Mapping[str, Type]
) -> Tested:
    """Return the only option of some comparisons, which hold together."""
    tests, exact = list[Test](), True
    for comparison in comparisons:
        left, op, right = comparison.left, comparison.op, comparison.right
        if isinstance(left, Const):
            left, op, right = right, MIRRORED.get(op, op), left
        if isinstance(left, Var) and isinstance(right, Const) and _is_range(op, right):
            tests.append(Test(places[left.name], op, right))
        elif (
            isinstance(left, Var)
            and isinstance(right, Var)
            and (op in EQUAL or not has_ids(types[left.name]))
        ):
            tests.append(Test(places[left.name], op, None, places[right.name]))
        else:
            exact = False
            continue
        nullable = [
            side.name for side in (left, right) if isinstance(side, Var) and side.name in plan.nulls
        ]
        tests += [Test(places[name], "!=", None) for name in nullable if op != SAME]
    return Tested([tests], exact)


def _is_range(op: str, const: Const) -> bool:
    """Return whether the words that compare so with a constant are those of a range, or those
    outside of one.
    """
    return op == SAME or (const.value is not None and (op in EQUAL or not has_ids(const.type)))


class Reach:
    """The conditions of some plans, as a kernel takes them."""

    def __init__(self, plans: Sequence[Tested]) -> None:
        tests = [test for plan in plans for option in plan.options for test in option]
        options = [len(option) for plan in plans for option in plan.options]
        self.tests = tests
        self._texts = [t for t, test in enumerate(tests) if test.const and has_ids(test.const.type)]
        self._known = False
        self.conditions = Conditions(
            np.zeros((len(tests), kernel.TEST), np.int64),
            _spans(options),
            _spans([len(p.options) for p in plans]),
        )

    def encode(self, encode: Encode) -> None:
        """Fill in the words of constants, in each transaction: those of texts are its own."""
        for t in self._texts if self._known else range(len(self.tests)):
            self.conditions.tests[t] = _row(self.tests[t], encode)
        self._known = True

    def of(self, rows: np.ndarray) -> list[bool]:
        """Return whether any of the changed rows[C, n] reaches each plan.  O(n * tests)."""
        found = np.empty(len(self.conditions.plans), bool)
        REACHED.call(self.conditions, np.ascontiguousarray(rows), found)
        reached: list[bool] = found.tolist()
        return reached


def _row(test: Test, encode: Encode) -> tuple[int, int, int, int, int]:
    """Return the row of a test: no word is in the range from WORD_MAX to WORD_MIN."""
    word = 0 if test.other >= 0 else NULL if test.const is None else encode(test.const)
    if test.op in ("=", "!=", SAME):
        return test.column, word, word, test.op == "!=", test.other
    outside = {
        "<": (word, WORD_MAX),
        "<=": (word + 1, WORD_MAX),
        ">": (WORD_MIN, word),
        ">=": (WORD_MIN, word - 1),
    }
    low, high = outside[test.op]
    if low > WORD_MAX or high < WORD_MIN:  # nothing is outside
        low, high = WORD_MAX, WORD_MIN
    return test.column, low, high, 1, test.other


def _spans(lengths: Sequence[int]) -> np.ndarray:
    """Return where spans of given lengths, one after the other, begin and end: int64[n, 2]."""
    given = np.array(lengths, np.int64)
    ends = np.cumsum(given)
    return np.stack([ends - given, ends], axis=1)
