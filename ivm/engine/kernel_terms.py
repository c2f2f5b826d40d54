"""What a plan computes, as a kernel computes it: columns for its variables, and one operation
after the other.
"""

from collections.abc import Mapping
from itertools import count

from ivm.engine.kernels import terms as kernel
from ivm.engine.kernels.terms import CONSTANT, FLOAT, RATIO, TEST
from ivm.lang.ir import Binary, Compare, Const, Term, Type, Var
from ivm.lang.types import has_ids, scale, word_range
from ivm.plan.plan import Plan
from ivm.terms.conditions import SAME
from ivm.terms.encoder import plain_word
from ivm.terms.evaluator import type_of
from ivm.views.heads import Head
from ivm.ways.reach import EQUAL, Tested, places_of
from pagestore.host import WORD_MAX, WORD_MIN

OPERATIONS = {"+": kernel.ADD, "-": kernel.SUBTRACT, "*": kernel.MULTIPLY, "/": kernel.DIVIDE}
# the least and the greatest sign of a difference that passes, and whether others do instead
SIGNS = {
    "=": (0, 0, 0), SAME: (0, 0, 0), "!=": (0, 0, 1),
    "<": (-1, -1, 0), "<=": (-1, 0, 0), ">": (1, 1, 0), ">=": (0, 1, 0),
}  # fmt: skip


class UnfitError(Exception):
    """A term that the kernel does not compute: a function, the order of texts, what may be null."""


class Terms:
    """The columns of a plan's variables, and rows of `terms` (kernels/terms.py) that compute
    those that it lacks.
    """

    def __init__(self, plan: Plan, head: Head, types: Mapping[str, Type], tests: Tested) -> None:
        """Lay out the terms of a plan and of its head.  Raises UnfitError for one that is not computed."""
        self._types, self._nulls = types, plan.null_words
        self.columns = places_of(plan)
        # the columns of a binding that are read
        self.read = 1 + max(self.columns.values(), default=-1)
        self._next = count(self.read)
        self.rows: list[tuple[int, ...]] = []
        # which rows have the word of a text, that of a transaction
        self.texts: list[tuple[int, Const]] = []
        for name, node in head.late_steps if tests.exact else head.steps:
            if isinstance(node, Compare):
                self._add_test(node)
            elif isinstance(node, Var | Const | Binary):
                self.columns[name] = self._column(node)
            else:
                raise UnfitError

    @property
    def width(self) -> int:
        """How many columns a binding has in all."""
        return max([self.read, *(row[kernel.TARGET] + 1 for row in self.rows)])

    def _column(self, term: Term) -> int:
        """Return the column of a term, which the rows so far compute.  Raises UnfitError."""
        if isinstance(term, Var):
            if term.name not in self.columns:
                raise UnfitError
            return self.columns[term.name]
        if isinstance(term, Const):
            is_text = has_ids(term.type) and term.value is not None
            if is_text:
                self.texts.append((len(self.rows), term))
            return self._made(CONSTANT, 0, 0, 0 if is_text else plain_word(term), 0)
        if not isinstance(term, Binary):
            raise UnfitError
        left, right, type_ = self._number(term.left), self._number(term.right), self._type(term)
        if type_ != "float64":
            return self._made(OPERATIONS[term.op], left, right, *word_range(type_))
        if self._type(term.left) == "float64":
            return self._made(FLOAT + OPERATIONS[term.op], left, right, WORD_MIN, WORD_MAX)
        power = (scale(self._type(term.right)) or 0) - (scale(self._type(term.left)) or 0)
        return self._made(RATIO, left, right, 10 ** max(0, power), 10 ** max(0, -power))

    def _number(self, term: Term) -> int:
        """Return the column of an operand, which is not null.  Raises UnfitError."""
        if (isinstance(term, Var) and term.name in self._nulls) or (
            isinstance(term, Const) and term.value is None
        ):
            raise UnfitError
        return self._column(term)

    def _type(self, term: Term) -> Type:
        """Return the type of a term. Raises UnfitError for a variable that is not the rule's."""
        try:
            return type_of(term, self._types)
        except KeyError:
            raise UnfitError from None

    def _made(self, operation: int, left: int, right: int, least: int, greatest: int) -> int:
        target = next(self._next)
        self.rows.append((operation, left, right, target, least, greatest, 0))
        return target

    def _add_test(self, one: Compare) -> None:
        """Add a comparison.  Raises UnfitError."""
        if one.op not in SIGNS or (one.op not in EQUAL and has_ids(self._type(one.left))):
            raise UnfitError
        left, right = self._number(one.left), self._number(one.right)
        self.rows.append((TEST, left, right, 0, *SIGNS[one.op]))
