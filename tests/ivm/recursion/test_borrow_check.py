"""A borrow check of a compiler: a dozen recursive views over one another; one function has few of the facts."""

from tests.support.mirror import Mirror
from tests.support.programs.borrow_check import DECLARATIONS, RULES, Facts, crate


def edits(facts: Facts, inserted: bool) -> list:
    return [(name, row, inserted) for name, rows in facts.items() for row in rows]


def test_functions_go_and_come_back(tmp_path):
    """Whole functions, and single facts of them: what is maintained equals the slow truth each time."""
    mirror = Mirror(tmp_path / "borrow.pages", DECLARATIONS + RULES)
    functions = crate(4, points=40)
    for facts in functions:
        mirror.change(edits(facts, inserted=True))
    for facts in functions[1:3]:
        for inserted in (False, True):
            mirror.change(edits(facts, inserted))
    for one in edits(functions[2], inserted=False)[::7]:
        mirror.change([one])
        mirror.change([(*one[:2], True)])
    assert mirror.workspace.check() == []
    mirror.close()
