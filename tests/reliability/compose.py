"""Random programs that compose, under random edits, against the slow truth; counts by pair of
constructs.

    python -m tests.reliability compose                 20,000 programs; --part 0.1 for a tenth
    python -m tests.reliability.compose 1000 17         what seed 17 of piece 1000 is, and what is wrong with it

After each transaction all views, what subscribers were told, and the answers of questions are what
rules that are evaluated with sets and loops say, or both refuse; at the end all that is kept passes
its check. What fails is made smaller and printed.
"""

import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from math import inf
from pathlib import Path
from random import Random
from unittest.mock import patch

import ivm
from ivm.engine import choice
from ivm.errors import (
    ConstraintError,
    ConstructError,
    FunctionConflictError,
    LimitError,
    RangeError,
    RuleError,
    RuleWarning,
)
from ivm.lang.ir import ROPE, Const
from ivm.lang.ir import Edit as Stated
from ivm.lang.program import Program
from ivm.lang.rewrite import numbers
from ivm.names import WHOLE
from ivm.plan import costs, key_ranges
from ivm.rules import rule as installed_rule
from ivm.rules.compile import compile, query
from ivm.ways import probe
from ivm.ways.recursion import fixpoint, in_memory
from pagestore.errors import WordError
from tests.support import naive
from tests.support.mirror import Edit
from tests.support.programs.compositions import (
    PAIRS,
    ROUNDS_MAX,
    WAYS,
    Case,
    Step,
    case_of,
    shuffled,
    smaller,
)
from tests.support.programs.statements import Replaced, Ruled

REFUSALS = FunctionConflictError, RangeError, LimitError, ConstraintError, WordError
ANEW, NEVER = 2, 1 << 30
SMALL = [
    (installed_rule, "SIZES_FACTOR", 1.5),
    (installed_rule, "SIZES_FREE", 0),
]  # plans are made anew again and again
# which the slow truth joins
FEW = [(numbers, "DIGIT", 4), (numbers, "UNITS", 64), (numbers, "LISTED_MAX", 4096)]
# texts of a range, however few rows there are
SOUGHT = [(key_ranges, "SHARE", 0.1), (key_ranges, "SEEK_ROWS", 0.1)]
PATCHES = {
    WAYS[1]: [*SOUGHT, (costs, "LARGE_FROM", 2), (choice.Choice, "_propagating", lambda *_: inf)],
    WAYS[2]: [
        (costs, "REFILL_FROM", NEVER),
        (costs, "REFILL_SHARE_MAX", NEVER),
        (fixpoint, "STEPS_FREE", NEVER),
    ],
    WAYS[3]: [
        *SOUGHT,
        (costs, "REFILL_FROM", 1),
        (costs, "REFILL_SHARE", 8),
        (fixpoint, "STEPS_FREE", ANEW),
        *SMALL,
    ],
    WAYS[4]: [(os, "cpu_count", lambda: 3), (probe, "SHARE", 1), (in_memory, "SHARED_MIN", 1)],
    WAYS[5]: [
        (fixpoint, "PAGED_SHARE", NEVER),
        (in_memory, "FACTS_MIN", 4),
        (in_memory, "NUMBERS_MAX", 0),
    ],
}
WANTED = [f"{reader} of {read}" for reader, read in PAIRS]


def run(seed: int, amount: int) -> Counter[str]:
    """Try programs; raises AssertionError with the first that fails, made smaller."""
    counts: Counter[str] = Counter()
    for number in range(amount):
        case, pairs, refused = case_of(f"{seed}.{number}")
        assert not refused, f"seed {seed}.{number}: {refused[0]}"
        found = error_of(case, counts)
        if found is not None:
            kind = type(found)
            least = smaller(case, lambda one, kind=kind: isinstance(error_of(one), kind))
            raise AssertionError(
                f"seed {seed}.{number}: {found!r}\nSmaller:\n{least}\n{error_of(least)!r}"
            ) from found
        counts["programs"] += 1
        counts.update(f"{reader} of {read}" for reader, read in {*pairs})
    return counts


def error_of(case: Case, counts: Counter[str] | None = None) -> Exception | None:
    """What is wrong with a case; None if nothing is, or if it cannot be played."""
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", RuleWarning)  # what is used once
        for module, name, value in (*FEW, *PATCHES.get(case.way, ())):
            stack.enter_context(patch.object(module, name, value))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) if case.lasting else None
        try:
            Play(
                case,
                folder / "store.pages" if folder else ":memory:",
                Counter() if counts is None else counts,
            ).all()
        except Exception as error:
            return None if isinstance(error, RuleError) and counts is None else error
    return None


class Play:
    """One case, played on a workspace and on the truth."""

    def __init__(self, case: Case, path: Path | str, counts: Counter[str]) -> None:
        self.case, self.path, self.counts = case, path, counts
        text = "\n".join(case.stored.values())
        self.program = compile(text)
        self.state = naive.empty(self.program)
        self.ws = ivm.open(path, sync="off")
        self.ws.install(text, "stored")
        self.told: dict[str, Counter] = {}
        self.ends: dict[str, Callable[[], None]] = {}  # of subscriptions
        self.texts: dict[str, str] = {"stored": text}  # of blocks, in their order

    def all(self) -> None:
        """Install, edit and compare; open again on the way."""
        load, *changes = self.case.transactions
        if self.case.loaded_first:
            self.change(load)
        for number, views in enumerate(self.case.blocks):
            self.install(f"block{number}", views, self.case.options[number])
        if not self.case.loaded_first:
            self.change(load)
        for number, step in enumerate(changes):
            if self.case.lasting and number == 1:
                self.ws.close()
                self.ws = ivm.open(self.path, sync="off")
                self.listen([*self.told])
            self.take(step)
        found = self.ws.check()
        assert not found, found
        if self.case.lasting:
            assert not (wrong := self.ws.store.check()), wrong
            self.ws.repair()
            self.compare()
        self.ws.close()

    def take(self, step: Step) -> None:
        match step:
            case Ruled():
                self.state_by_rule(step)
            case Replaced():
                self.replace(f"block{step.block}", "\n".join(step.views))
            case _:
                self.change(step)

    def install(self, name: str, views: list[str], options: dict) -> None:
        """Install a block, or see it refused; a block that reads what was refused is left out."""
        text = "\n".join(views)
        try:
            part = compile(text, self.program, source=name)
        except RuleError:
            return
        program = self.program.including(part)
        try:
            expected = naive.evaluate(program, self.state)
        except REFUSALS:
            self.refused(lambda: self.ws.install(text, name, **options))
            return
        other = shuffled(Random(text), views)
        same = naive.evaluate(self.program.including(compile(other, self.program)), self.state)
        assert all(same[view] == expected[view] for view in part.predicates if "$" not in view), (
            f"in an order: {other}"
        )
        try:
            self.ws.install(text, name, **options)
        except ConstructError as error:
            self.counts[f"not evaluated: {error.reason[:60]}"] += 1
            return
        self.program, self.state, self.texts[name] = program, expected, text
        if self.case.told:
            self.listen([view for view, one in part.predicates.items() if "$" not in view])
        self.compare()

    def replace(self, name: str, text: str) -> None:
        """Give a block another text; what other blocks cannot be compiled with is not tried."""
        if name not in self.texts:
            return
        texts = {**self.texts, name: text}
        try:
            program = Program()
            for source, one in texts.items():
                program = program.including(compile(one, program, source=source))
        except RuleError:
            return
        try:
            expected = naive.evaluate(program, self.state)
        except REFUSALS:
            self.refused(lambda: self.ws.replace(name, text, rounds_max=ROUNDS_MAX))
            self.compare()
            return
        gone = [
            view
            for view in self.told
            if columns_of(program, view) != columns_of(self.program, view)
        ]
        for view in gone:
            self.ends.pop(view)()
            del self.told[view]
        try:
            self.ws.replace(name, text, rounds_max=ROUNDS_MAX)
        except ConstructError:
            return
        self.counts["replaced"] += 1
        self.program, self.state, self.texts = program, expected, texts
        self.listen([view for view in gone if view in program.predicates])
        self.compare()

    def state_by_rule(self, step: Ruled) -> None:
        """Execute an edit with a body; the truth asks for its rows, and edits them one by one."""
        try:
            part = query(step.asked, self.program)
        except RuleError:  # it reads what was refused
            return
        if step.name not in self.program.predicates:
            return
        state = {name: rows.copy() for name, rows in self.state.items()}
        try:
            rows = [
                *naive.rows_of(
                    naive.evaluate(self.program.including(part), self.state)[part.answer]
                )
            ]
            predicate = self.program.predicates[step.name]
            for value, type_ in (
                pair for row in rows for pair in zip(row, predicate.stored_types, strict=False)
            ):
                if value is None and not type_.endswith("?"):
                    raise WordError(f"a null, which no {type_} is")
            once = naive.blank(predicate)
            for row in rows if step.sign != "-" else ():  # two values for one key
                naive.insert(predicate, once, row)
            edits = [
                self.stated(step, [Const(*one) for one in zip(row, predicate.types, strict=True)])
                for row in rows
            ]
            naive.edit(self.program, state, edits)
            expected = naive.evaluate(self.program, state)
        except REFUSALS:
            self.refused(lambda: self.ws.exec(step.text))
        else:
            self.ws.exec(step.text)
            self.state = expected
            self.counts["edits with bodies"] += 1
        self.compare()

    def stated(self, step: Ruled, row: list[Const]) -> Stated:
        if step.value is None:
            return Stated(step.sign, step.name, tuple(row))
        return Stated(step.sign, step.name, tuple(row[:-1]), row[-1])

    def rows(self, name: str) -> Counter:
        """The rows of a relation or a view as the truth has them, also those that follow."""
        return Counter(naive.rows_of(self.state.get(name + WHOLE, self.state[name])))

    def listen(self, names: list[str]) -> None:
        """Keep the rows of views by what subscribers are told."""
        for name in names:
            self.told[name] = self.rows(name)
            self.ends[name] = self.ws.subscribe(
                name, lambda table, name=name: self.hear(name, table.to_pylist())
            )

    def hear(self, name: str, changes: list[dict]) -> None:
        rows = self.told[name]
        for change in changes:
            *row, kind = change.values()
            rows[tuple(row)] += 1 if kind == "insert" else -1
            assert rows[tuple(row)] in (0, 1), f"subscribers of {name} are told of {change}"

    def change(self, edits: list[Edit]) -> None:
        """One transaction; where the truth refuses its result, so must the workspace, and
        nothing changes.
        """
        state = {name: rows.copy() for name, rows in self.state.items()}
        # others are of blocks that were refused
        edits = [edit for edit in edits if edit[0] in self.program.predicates]
        for name, row, inserted in edits:
            naive.put(self.program.predicates[name], state[name], row, inserted)
        try:
            expected = naive.evaluate(self.program, state)
        except REFUSALS:
            self.refused(lambda: self.edit(edits))
        else:
            self.edit(edits)
            self.state = expected
            self.counts["transactions"] += 1
        self.compare()

    def refused(self, run) -> None:
        self.counts["refused"] += 1
        try:
            run()
        except LimitError as error:
            assert "along their own derivation" in str(error), error
        except REFUSALS:
            pass
        else:
            raise AssertionError("what the rules refuse has passed")

    def edit(self, edits: list[Edit]) -> None:
        """One transaction of the workspace, or of the store below it."""
        begin = self.ws.store.transaction if self.case.beside else self.ws.transaction
        with begin() as txn:
            for name, row, inserted in edits:
                predicate = self.program.predicates[name]
                keys = len(predicate.keys) if predicate.key_count is None else predicate.key_count
                how = "delete" if not inserted else "insert" if keys == len(row) else "set"
                row = row if inserted else row[:keys]
                if self.case.beside:
                    getattr(txn[name], how)([row])
                else:
                    getattr(txn, how)(name, [row])

    def compare(self) -> None:
        """Views, what was told of them, and answers."""
        for name, predicate in self.program.predicates.items():
            if "$" in name:
                continue
            rows, truth = [*self.ws[name]], self.rows(name)
            if predicate.value == ROPE:
                assert [(*key, str(self.ws.rope(name, *key))) for *key, _ in rows] == rows
            assert Counter(rows) == truth, differs(name, Counter(rows), truth)
            if name in self.told:
                told = +self.told[name]
                assert told == truth, f"what subscribers were told: {differs(name, told, truth)}"
        for text in self.case.questions:
            self.ask(text)

    def ask(self, text: str) -> None:
        try:
            part = query(text, self.program)
        except RuleError:  # it reads what was refused
            return
        try:
            truth = naive.evaluate(self.program.including(part), self.state, refusing=False)
        except REFUSALS:
            self.refused(lambda: self.ws.query(text, rounds_max=ROUNDS_MAX))
            return
        try:
            rows, wanted = (
                Counter(self.ws.query(text, rounds_max=ROUNDS_MAX)),
                Counter(naive.rows_of(truth[part.answer])),
            )
        except ConstructError:
            return
        self.counts["answers"] += 1
        assert rows == wanted, differs(text, rows, wanted)


def columns_of(program: Program, name: str) -> tuple[str, ...] | None:
    """The types of a predicate's columns, if it exists, as those of its rows that follow are."""
    found = program.predicates.get(name + WHOLE, program.predicates.get(name))
    return found and found.stored_types


def differs(name: str, rows: Counter, truth: Counter) -> str:
    return f"{name} lacks {[*(truth - rows)][:5]} and has {[*(rows - truth)][:5]} too many"


if __name__ == "__main__":
    piece, number = sys.argv[1:]
    found, _, why = case_of(f"{piece}.{number}")
    print(found, *why, repr(error_of(found, Counter())), sep="\n")
