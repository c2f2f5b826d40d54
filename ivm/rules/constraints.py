"""Refuse what violates a constraint: its view, of what violates it, may not get a row
(lang/rewrite/constraints.py).
"""

from collections.abc import Iterable
from itertools import islice

from ivm.errors import ConstraintError
from ivm.lang.ir import Rule
from ivm.lang.rewrite.constraints import NONE
from ivm.rules.installed import Installed
from pagestore.host import Snapshot, Transaction

SHOWN = 3  # of the tuples that violate a constraint


def refuse_violations(source: Transaction, installed: Installed, views: Iterable[str]) -> None:
    """Raise ConstraintError for the first of some constraints, given by their views, that does
    not hold.  O(views).
    """
    for view in views:
        if count := source.tree(view).count:
            rule = installed.constraints[view]
            raise ConstraintError(
                rule.where, rule.text, columns_of(installed, view), first_rows(source, view), count
            )


def violated(source: Snapshot, installed: Installed) -> dict[str, Rule]:
    """Return the rules of constraints that do not hold, by view."""
    return {view: rule for view, rule in installed.constraints.items() if source.tree(view).count}


def columns_of(installed: Installed, view: str) -> tuple[str, ...]:
    """Return the variables of a constraint that its view has; none if it holds as a whole."""
    columns = installed.program.predicates[view].columns
    return () if columns == (NONE,) else columns


def first_rows(source: Transaction, view: str) -> list[tuple[object, ...]]:
    """Return a few of the rows that violate a constraint."""
    return [*islice(source[view], SHOWN)]
