"""Collect the problems of rows to load, so that all are reported at once.

a.csv: column born holds no date in 3 rows, the first row 17 ('31.12.'): give --cast born=string, or mend the file
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pagestore.errors import PagestoreError

from ..cli.answers import counted, plain


class DatasetError(PagestoreError, ValueError):
    """The sources cannot be loaded. `problems` has a sentence for each problem."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (plain(problems),) if isinstance(problems, str) else tuple(map(plain, problems))
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The problems, under a heading if there are several."""
        if len(self.problems) == 1:
            return self.problems
        return (f"{len(self.problems)} problems, and nothing is loaded:", *self.problems)


@dataclass
class Problem:
    """A problem of a column's values in one file, the number of rows with it, the first of them, and the remedy."""

    fact: str
    remedy: str
    rows: int = 0
    first_row: int | None = None
    example: str = ""
    line_of: Callable[[int], int] | None = None

    def __str__(self) -> str:
        where = f" in {counted(self.rows, 'row')}" if self.rows else ""
        if self.first_row is not None:
            first = f"line {self.line_of(self.first_row)}" if self.line_of else f"row {self.first_row}"
            where = f" in {first}" if self.rows == 1 else f"{where}, the first {'in ' * bool(self.line_of)}{first}"
        shown = f" ({self.example})" if self.example else ""
        return f"{self.fact}{where}{shown}" + f": {self.remedy}" * bool(self.remedy)


@dataclass
class Problems:
    """All problems by their fact; rows are counted from 0 in each file.

    `line_of` returns the line in which a row of the current file begins, if that has lines.
    """

    line_of: Callable[[int], int] | None = None
    found: dict[str, Problem] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.found)

    def add(self, fact: str, remedy: str) -> None:
        """Add a problem that does not belong to a row."""
        self.found.setdefault(fact, Problem(fact, remedy))

    def adopt(self, error: DatasetError) -> None:
        """Add the problems of an error."""
        for text in error.problems:
            self.add(text, "")

    def add_rows(self, fact: str, remedy: str, rows: int, first_row: int | None, example: str = "") -> None:
        """Add a problem of some rows; rows of the same fact are added up."""
        problem = self.found.setdefault(fact, Problem(fact, remedy, 0, first_row, example, self.line_of))
        problem.rows += rows

    def refuse(self) -> None:
        """Raise DatasetError if there are any."""
        if self.found:
            raise DatasetError([*map(str, self.found.values())])
