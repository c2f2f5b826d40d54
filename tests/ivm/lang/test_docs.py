"""docs/rules.md runs: its programs derive the rows shown beneath them, its refusals read as
shown.
"""

import doctest
import re
from pathlib import Path

import pytest

import ivm
from ivm.errors import ConstructError, RuleError
from ivm.lang.parse import parse
from ivm.lang.program import NOTHING
from ivm.rules.compile import compile
from tests.support import naive

DOCS = Path(__file__).parents[3] / "docs"
COMING = DOCS / "coming-from"
TEXT = (DOCS / "rules.md").read_text()
BLOCKS = re.findall(r"```(logiql|refused|unevaluated)\n(.*?)```", TEXT, flags=re.DOTALL)


def test_every_example_derives_the_rows_it_shows():
    known, state, shown = NOTHING, {}, 0
    for kind, text in BLOCKS:
        if kind != "logiql":
            continue
        part = compile(text, known)
        known = known.including(part)
        state = {**naive.empty(part), **state}
        naive.edit(known, state, part.edits)
        full = naive.evaluate(known, state)
        for name, rows in re.findall(r"^// (\w+): (.*)$", text, flags=re.MULTILINE):
            assert sorted(naive.rows_of(full[name])) == sorted(written(rows, known, name)), name
            shown += 1
    assert shown > 20


def test_every_example_is_stored_as_it_shows():
    """The same rows by the workspace, which evaluates some of the rules otherwise than the slow
    truth.
    """
    with ivm.open(":memory:") as workspace:
        for number, (kind, text) in enumerate(BLOCKS):
            if kind != "logiql":
                continue
            workspace.install(text, f"block{number}")
            known = compile(
                "".join(found for other, found in BLOCKS[: number + 1] if other == "logiql")
            )
            for name, rows in re.findall(r"^// (\w+): (.*)$", text, flags=re.MULTILINE):
                assert sorted(workspace[name]) == sorted(written(rows, known, name)), name
        assert workspace.check() == []


@pytest.mark.parametrize("page", sorted(COMING.glob("*.md")), ids=lambda page: page.stem)
@pytest.mark.filterwarnings("ignore::ivm.errors.RuleWarning")
def test_each_page_for_users_of_others_has_ten_programs_that_run(page: Path) -> None:
    programs = re.findall(r"```logiql\n(.*?)```", page.read_text(), flags=re.DOTALL)
    if not programs:
        pytest.importorskip("pandas")
        failed, tried = doctest.testfile(str(page), module_relative=False)
        assert failed == 0 and tried > 10
        return
    assert len(programs) == 10
    for text in programs:
        with ivm.open(":memory:") as workspace:
            workspace.install(text, "block")
            shown = re.findall(r"^// (\w+): (.*)$", text, flags=re.MULTILINE)
            for name, rows in shown:
                assert sorted(workspace[name]) == sorted(written(rows, compile(text), name)), text
            assert shown, text


def written(rows: str, known, name: str) -> list[tuple]:
    """Rows as in a comment, read by the parser itself."""
    found = []
    for row in re.findall(r"\(([^()]*?),?\)", rows):
        [clause] = parse(f"p() <- q({row}).")
        found.append(tuple(arg.value for arg in clause.body.items[0].args))
    return found


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind == "refused"])
def test_every_refusal_reads_as_shown(block):
    rules, message = block.rstrip().rsplit("\n", 1)
    known = NOTHING
    for kind, text in BLOCKS:
        if kind == "logiql":
            known = known.including(compile(text, known))
    with pytest.raises(RuleError) as caught:
        compile(rules, known)
    known_places = re.sub(r"at rules:\d+:\d+", "at rules:1:1", str(caught.value))
    assert known_places == message


def test_what_is_not_evaluated_is_refused_as_shown():
    with ivm.open(":memory:") as workspace:
        workspace.install("".join(text for kind, text in BLOCKS if kind == "logiql"), "rules")
        shown = [text.rstrip().rsplit("\n", 1) for kind, text in BLOCKS if kind == "unevaluated"]
        for number, (rules, message) in enumerate(shown):
            # other examples derive views of these names
            rules = re.sub(r"\b([pgr])(?=[(\[])", rf"\1_{number}", rules)
            with pytest.raises(ConstructError) as caught:
                workspace.install(rules, "example")
            said = re.sub(r"(?<=\b[pgr])_\d", "", str(caught.value).partition(": ")[2])
            assert said == message.partition(": ")[2]
        assert len(shown) == 3
