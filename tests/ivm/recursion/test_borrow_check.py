"""What a recursion costs in Python: a compiler's borrow check, and a shared text, are maintained
in kernels.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ivm
from ivm.engine.engine import Engine
from ivm.ways.recursion import stratum
from ivm.ways.recursion.compiled import CompiledStratum
from tests.support.calls import functions_called
from tests.support.mirror import Mirror
from tests.support.programs.borrow_check import DECLARATIONS, RULES, Facts, crate

TEXT = """
insert[e] = p -> int(e), int(p). removed(e) -> int(e).
firstChild[p] = c <- agg<<c = max(e)>> insert[e] = p.
nextSibling[x] = y <- agg<<y = max(s)>> insert[x] = p, insert[s] = p, s < x.
nextSiblingAnc[x] = n <- nextSibling[x] = n.
nextSiblingAnc[x] = n <- insert[x] = p, !(nextSibling[x] = _), nextSiblingAnc[p] = n.
nextElem[x] = n <- firstChild[x] = n.
nextElem[x] = n <- insert[x] = _, !(firstChild[x] = _), nextSiblingAnc[x] = n.
hasValue(x) <- insert[x] = _, !removed(x).
skipBlank[x] = y <- nextElem[x] = y, hasValue(y).
skipBlank[x] = y <- nextElem[x] = z, !hasValue(z), skipBlank[z] = y.
nextVisible[x] = y <- hasValue(x), skipBlank[x] = y.
"""


def edits(facts: Facts, inserted: bool) -> list:
    return [(name, row, inserted) for name, rows in facts.items() for row in rows]


def edit(workspace: ivm.Workspace, edits: list) -> None:
    with workspace.transaction() as txn:
        for name, row, inserted in edits:
            (txn.insert if inserted else txn.delete)(name, [row])


def test_functions_go_and_come_back(tmp_path: Path):
    """Whole functions, and single facts of them: what is maintained equals the slow truth each
    time.
    """
    mirror = Mirror(tmp_path / "borrow.pages", DECLARATIONS + RULES)
    functions = crate(3, points=14)
    for facts in functions:
        mirror.change(edits(facts, inserted=True))
    for inserted in (False, True):
        mirror.change(edits(functions[1], inserted))
    for one in edits(functions[2], inserted=False)[::9]:
        mirror.change([one])
        mirror.change([(*one[:2], True)])
    assert mirror.workspace.check() == []
    mirror.close()


def test_one_fact_of_a_borrow_check_takes_few_calls(tmp_path: Path):
    """A use of a variable goes and comes: with a dozen recursive views, however large they are."""
    counted = []
    for points in (40, 400):
        workspace = ivm.open(tmp_path / f"{points}.pages", sync="off", threads=1)
        workspace.install(DECLARATIONS + RULES)
        functions = crate(4, points)
        for facts in functions:
            edit(workspace, edits(facts, inserted=True))
        uses = functions[2]["used"][:6]
        for inserted in (False, True):
            edit(workspace, [("used", uses[0], inserted)])
        changes = [[("used", use, inserted)] for use in uses for inserted in (False, True)]
        found = [len(functions_called(partial(edit, workspace, change))) for change in changes]
        counted.append(sorted(found)[len(found) // 2])
        workspace.close()
    assert max(counted) <= FACT_CALLS, counted


def test_a_run_of_blanks_takes_few_calls(tmp_path: Path):
    """An element before removed ones is removed and returns: every step past a blank is the
    kernel's.

    What is left are calls for the rows that change, which are no longer few.
    """
    counted = []
    for blanks in (16, 253):
        workspace = ivm.open(tmp_path / f"{blanks}.pages", sync="off", threads=1)
        workspace.install(TEXT)
        n = blanks + 10
        edit(workspace, [("insert", (e, e - 1), True) for e in range(1, n)])
        edit(workspace, [("removed", (e,), True) for e in range(5, 5 + blanks)])
        end = [("removed", (5 + blanks,), True)]
        edit(workspace, end)
        edit(workspace, [(*end[0][:2], False)])
        counted.append(len(functions_called(partial(edit, workspace, end))))
        assert workspace.stats("skipBlank")["examined"] >= blanks
        workspace.verify("skipBlank")
        workspace.close()
    few, many = counted
    assert many <= few + BLANK_CALLS * (253 - 16), counted


FACT_CALLS = 1_500  # 1,269 at most, measured
BLANK_CALLS = 16  # for each blank; 12, measured, and hundreds where each is a step of Python


def test_a_function_goes_and_comes_back_without_filling_large_views_anew(
    monkeypatch, tmp_path: Path
):
    """Of twenty functions: what follows from a change of a linear view is found in memory where the
    kernel gives up; rounds that store what they find are few; views of few rows are not evaluated
    anew.
    """
    done = []

    def note(owner: Any, name: str, shown: Callable) -> None:
        work = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *given: (done.append((name, shown(*given))), work(*given))[1]
        )

    workspace = ivm.open(tmp_path / "borrow.pages", sync="off", threads=1)
    workspace.install(DECLARATIONS + RULES)
    functions = crate(20, points=300)
    edit(workspace, [one for facts in functions for one in edits(facts, inserted=True)])
    note(Engine, "_refill", lambda _, own, trees: {*own.recursive})
    note(
        Engine,
        "_evaluate_anew",
        lambda _, rules, waiting: {name for rule in rules for name in rule.writes},
    )
    note(stratum, "follow_in_memory", lambda _, own, *more: {*own.recursive})
    note(CompiledStratum, "_write", lambda *_: set())
    for facts in (functions[3], functions[6]):
        for inserted in (False, True):
            done.clear()
            edit(workspace, edits(facts, inserted))
            names = {name: [shown for work, shown in done if work == name] for name, _ in done}
            assert {"maybe_uninit"} not in names.get("_refill", []), names
            assert not any("subset_error" in shown for shown in names.get("_evaluate_anew", [])), (
                names
            )
            assert {"maybe_uninit"} in names.get("follow_in_memory", []) or facts is functions[6]
            assert len(names.get("_write", [])) < 16
    assert workspace.check() == []
    workspace.close()
