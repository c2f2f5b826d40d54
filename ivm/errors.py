"""Every exception that `ivm` raises, grouped by the operation that raises it.

    IvmError
    ├── install, query   RuleError: a place in the text (file:line:column), and what is wrong there
    │     RuleSyntaxError, UnknownPredicateError, ArityError, RuleTypeError, SafetyError,
    │     RecursionRefusedError, RedefinitionError, AggregateError, ConstructError
    │                    OptionError: an invalid value of an option of `install`
    ├── uninstall        UninstallError
    ├── edit             EditError
    ├── maintain         MaintainError: the transaction is rolled back
    │     ConstraintError, FunctionConflictError, RangeError, LimitError and its RoomError,
    │     DivergenceError, RecomputeError, UnregisteredError
    └── read             UnknownViewError

Each message is a sentence with the evidence (predicate, key, place) and the remedy.
Errors of the underlying store (a corrupt page, a full disk) are those of `pagestore.errors`.
"""

import re
from typing import Any, NamedTuple

from pagestore.host import message as _message

# what users know by the name of the predicate itself
HELPERS = re.compile(r"\$(all|rows|edited|facts\d+)\b")
SHOWN = 100  # characters of a line that are shown


class Where(NamedTuple):
    """A place in a text; lines and columns count from 1."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"

    def with_caret(self, said: str, text: str) -> list[str]:
        """Return a sentence, then the line `text` of this place and a caret under the column, if
        the line is known.

        Of a long line, the part around the column is shown.

        >>> Where("rules", 1, 3).with_caret("x is wrong", "p(x).")
        ['x is wrong', 'p(x).', '  ^']
        """
        if not text:
            return [said]
        at = self.column - 1
        start = max(0, at - SHOWN // 2) if len(text) > SHOWN else 0
        shown = [letter if letter.isprintable() else " " for letter in text[start : start + SHOWN]]
        return [said, "".join(shown).rstrip(), " " * (at - start) + "^"]


class IvmError(Exception):
    """The base class of these errors."""

    def __str__(self) -> str:  # some errors are KeyErrors too, which print the message's repr
        return _message(HELPERS.sub("", " ".join(map(str, self.args))))


# -- install and query


class RuleError(IvmError, ValueError):
    """The text of a rule, declaration or edit is invalid. `where` is the place, `reason` the
    sentence.

    `others` are the errors of other statements of the text.
    """

    others: tuple["RuleError", ...] = ()

    def __init__(self, where: Where, reason: str):
        # rules need not come from a text
        super().__init__(f"{where}: {reason}" if where.line else reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return "\n".join(["\n  ".join(self._own_lines), *map(str, self.others)])

    @property
    def lines(self) -> list[str]:
        """The sentence, for a syntax error the line with a caret under the place, and the same
        of the others.
        """
        return [*self._own_lines, *(line for other in self.others for line in other.lines)]

    @property
    def _own_lines(self) -> list[str]:
        return [super().__str__()]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.where, self.reason), {**self.__dict__}


class RuleSyntaxError(RuleError):
    """The text does not parse. `text` is the line of the place, if known, shown with a caret."""

    text = ""

    @property
    def _own_lines(self) -> list[str]:
        return self.where.with_caret(super()._own_lines[0], self.text)


class UnknownPredicateError(RuleError, KeyError):
    """A rule or an edit names a predicate that nothing declares or derives: `name`, if known."""

    name = ""


class ArityError(RuleError):
    """An atom has a wrong number of arguments, or brackets where it needs parentheses."""


class RuleTypeError(RuleError):
    """Types do not fit: an argument, a comparison, an operator, a literal."""


class SafetyError(RuleError):
    """A variable would range over everything, because nothing in its conjunction binds it."""


class RecursionRefusedError(RuleError):
    """A view would depend on itself through a negation, or an aggregate that is not monotone."""


class RedefinitionError(RuleError):
    """A name is given a second meaning: declared twice, or both declared and derived."""


class AggregateError(RuleError):
    """An aggregation is not of the form `f[x] = r <- agg<<r = sum(v)>> body`."""


class ConstructError(RuleError, NotImplementedError):
    """The rule is well formed, but holds a construct that is not evaluated yet."""


class RuleWarning(UserWarning):
    """A text of rules probably has a mistake; the message has the place and the remedy."""


class OptionError(IvmError, ValueError):
    """An option of `install` has an invalid value."""


# -- uninstall


class UninstallError(IvmError, ValueError):
    """An installed block reads what is to be removed."""


# -- edit


class EditError(IvmError, ValueError):
    """Rows cannot be edited: the name is that of a view, or the columns do not fit."""


# -- maintain


class MaintainError(IvmError):
    """The views cannot be brought up to date with this transaction, so it is rolled back."""


class FunctionConflictError(MaintainError, ValueError):
    """A function has two values for one key. `key` and `values` are the evidence."""

    def __init__(self, predicate: str, key: tuple[Any, ...], values: tuple[Any, ...]):
        super().__init__(
            f"{predicate}[{', '.join(map(repr, key))}] got two values, {values[0]!r} and "
            f"{values[1]!r}: a function has one value per key, so change a rule or the rows that "
            "one of them follows from"
        )
        self.predicate, self.key, self.values = predicate, key, values

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.predicate, self.key, self.values)


class ConstraintError(MaintainError, ValueError):
    """A constraint does not hold.

    `constraint` is its text, `where` the place of that, `columns` are its variables, `rows` the
    values of these in the first tuples that violate it, and `count` is the number of all.
    """

    def __init__(
        self,
        where: Where,
        constraint: str,
        columns: tuple[str, ...],
        rows: list[tuple[Any, ...]],
        count: int,
    ):
        shown = [
            ", ".join(f"{c} = {v!r}" for c, v in zip(columns, row, strict=True))
            for row in rows
            if columns
        ]
        more = [f"and {count - len(rows):,} more"] * (count > len(rows))
        tuples = f" for {'; '.join([*shown, *more])}" if shown else ""
        super().__init__(f"{where}: `{constraint}` does not hold{tuples}: nothing was changed")
        self.where, self.constraint, self.columns, self.rows = where, constraint, columns, rows
        self.count = count

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.where, self.constraint, self.columns, self.rows, self.count)


class RangeError(MaintainError, ArithmeticError):
    """A computed value or a sum does not fit its type, or a division is by zero.

    `of` is the predicate or the text of rules with its `line` and `column`, `term` what has no
    value; of a value
    that is too large for its `type` there is the `total`.  They are empty where they are not known.
    """

    def __init__(
        self,
        said: str,
        *,
        of: str = "",
        line: int = 0,
        column: int = 0,
        term: str = "",
        total: str = "",
        type: str = "",
    ):
        super().__init__(said)
        self.of, self.line, self.column = of, line, column
        self.term, self.total, self.type = term, total, type


class UnregisteredError(MaintainError, LookupError):
    """Rules call a function that this process has not registered, or that gives no array."""


class LimitError(MaintainError, RuntimeError):
    """More rows, or rounds of a recursion, than the limits allow. Queries raise it, too.

    `beyond` says which limit of a recursion, and how far it has come.
    """

    beyond = ""


class RoomError(LimitError, MemoryError):
    """An evaluation has more rows than fit in the memory that it may take."""


class DivergenceError(MaintainError):
    """What is stored for rules disagrees with the relations; `ivm fsck --repair` rebuilds it."""


class RecomputeError(MaintainError):
    """A view would be evaluated from scratch, although only incremental maintenance is allowed."""


# -- read


class UnknownViewError(IvmError, KeyError):
    """No relation, function or view has this name, or it is not a view where one is needed."""
