"""Rules that list rows of constants, which no edit changes.

weekday(d, name) <- d = 1, name = "Monday" ; d = 2, name = "Tuesday".
"""

from collections.abc import Iterable

import numpy as np

from ivm.lang.ir import Compare, Const, Rule
from ivm.rules.rule import InstalledRule
from ivm.terms.encoder import Encoder
from ivm.ways.way import Context
from pagestore.host import INSERT, Edits


def fill(context: Context, rule: InstalledRule) -> Edits:
    """Return the edits that insert the rows that a rule lists.  O(rows)."""
    rows = rows_of_constants(rule.definition, context.encode)
    return np.full(rows.shape[1], INSERT), rows


def follow(_context: Context, _rule: InstalledRule) -> Iterable[tuple[str, Edits]]:
    """Return no edits: the rule reads nothing."""
    return ()


def rows_of_constants(rule: Rule, encode: Encoder) -> np.ndarray:
    """Return the rows of a rule of constants (lang/ir.py, is_table), int64[C, n]. O(rows)."""
    (head,) = rule.heads
    rows = []
    for disjunct in rule.body:
        given = {
            x.left: x.right
            for x in disjunct
            if isinstance(x, Compare) and isinstance(x.right, Const)
        }
        rows.append([encode(given[term]) for term in head.terms])
    return np.array(rows, np.int64).T.copy()
