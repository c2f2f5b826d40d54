"""Random recursions under edits that cut and mend cycles: what is maintained equals the slow
truth, each time.
"""

import tempfile
from pathlib import Path
from random import Random
from unittest.mock import Mock

import numpy as np
import pytest

import ivm
from ivm.engine import schedule
from ivm.plan import costs
from ivm.rules.compile import query
from ivm.ways import pending as filling
from ivm.ways.recursion import compiled, fixpoint
from ivm.ways.recursion import in_memory as flat_facts
from ivm.ways.recursion import in_memory as flat_rounds
from ivm.ways.recursion import in_memory as shared_rounds
from pagestore.host import read_batches
from tests.support import naive
from tests.support.mirror import Mirror
from tests.support.programs.recursive_programs import (
    DECLARATIONS,
    change,
    load,
    plain,
    program,
    recursion,
)

PROGRAMS, QUESTIONS, PART = 48, 12, 12  # of the suite; a campaign runs CAMPAIGN of them
CAMPAIGN = 20_000
TRANSACTIONS = 6


def follow(seed: int) -> None:
    """Install, load and edit, comparing each time; reopen halfway, then look at old versions, a
    branch, the check.
    """
    random = Random(seed)
    text = program(random)
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "store.pages", text)
        edits, states = load(random), {}
        for number in range(TRANSACTIONS):
            mirror.change(edits)
            states[mirror.workspace.store.version] = mirror.state
            if number == TRANSACTIONS // 2:
                mirror.reopen()
            edits = change(random, mirror.state)
        assert mirror.workspace.check() == []
        version = random.choice(sorted(states))
        with mirror.workspace.at(version) as old:
            for name in mirror.program.predicates:
                if "$" not in name:
                    assert sorted(old[name]) == sorted(naive.rows_of(states[version][name])), name
        _follow_branch(mirror, version, states[version], edits)
        mirror.close()


def _follow_branch(mirror: Mirror, version: int, state: naive.State, edits: list) -> None:
    """The same views on a branch that begins at an old version, edited through the store."""
    store = mirror.workspace.store
    store.branch("trial", version)
    state = {name: rows.copy() for name, rows in state.items()}
    with store.transaction(branch="trial") as txn:
        for name, row, inserted in edits:
            naive.change(state[name], row, inserted)
            relation = txn[name]
            if inserted:
                relation.set([row])
            else:
                relation.delete([row[: len(mirror.program.predicates[name].keys)]])
    expected = naive.evaluate(mirror.program, state)
    with store.snapshot("trial") as snap:
        for name in mirror.program.predicates:
            if "$" not in name:
                assert sorted(snap[name]) == sorted(naive.rows_of(expected[name])), name


def ask(seed: int) -> None:
    """Views that read themselves in a question, asked with constants: the answer is that of the
    whole views.
    """
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "store.pages", DECLARATIONS)
        mirror.change(load(random))
        for _ in range(3):
            rules = [
                rule
                for rule in random.choice((plain, recursion))(random)
                if not rule.startswith("v")
            ]
            asked = rules[-1].partition("(")[0]
            width = 1 + rules[-1].partition(")")[0].count(",")
            terms = [random.choice(("1", "2", "0", "x", "_")) for _ in range(width)]
            call = f"{'!' if random.random() < 0.2 and '_' not in terms else ''}{asked}({', '.join(terms)})"
            text = "\n".join([*rules, f"q(x) <- {call}, e(x, _)."])
            program = query(text, mirror.program)
            truth = naive.evaluate(mirror.program.including(program), mirror.state)
            assert sorted(mirror.workspace.query(text)) == sorted(truth["q"]), text
        mirror.close()


@pytest.mark.parametrize("first", range(0, PROGRAMS, PART))
def test_random_recursions(first):
    for seed in range(first, first + PART):
        follow(seed)


def test_random_recursions_that_are_never_evaluated_anew(monkeypatch):
    """Most tables here are so small that many deletions would be: with no limit none is."""
    monkeypatch.setattr(costs, "REFILL_FROM", 1 << 30)
    monkeypatch.setattr(fixpoint, "STEPS_FREE", 1 << 30)
    for seed in range(PART):
        follow(seed)


def test_random_recursions_that_are_often_evaluated_anew(monkeypatch):
    monkeypatch.setattr(costs, "REFILL_FROM", 1)
    monkeypatch.setattr(costs, "REFILL_SHARE", 8)
    monkeypatch.setattr(fixpoint, "STEPS_FREE", 2)
    for seed in range(PART):
        follow(seed)


@pytest.mark.parametrize("first", range(0, QUESTIONS, PART))
def test_random_questions(first):
    for seed in range(first, first + PART):
        ask(seed)


@pytest.mark.parametrize("seed", [2187, 3044])
def test_questions_about_views_that_read_views_of_fewer_columns(seed):
    ask(seed)


def in_memory(monkeypatch, numbers: int, parts: int) -> None:
    """Evaluate from the first row on in little room that grows; facts are told apart by numbers or
    by hashes.

    With 1 of `parts` one thread does all, with 2 threads share all rounds, with 3 they take ranges
    where they can.
    """
    monkeypatch.setattr(fixpoint, "PAGED_SHARE", 1 << 40)
    monkeypatch.setattr(flat_facts, "FACTS_MIN", 4)
    monkeypatch.setattr(flat_facts, "NUMBERS_MAX", numbers)
    monkeypatch.setattr(flat_facts, "SHARED_MIN", 1 if parts > 1 else 1 << 40)
    monkeypatch.setattr(shared_rounds, "ASIDE", 6)
    monkeypatch.setattr(flat_rounds, "RANGED_MIN", 2 if parts > 2 else 1 << 40)
    monkeypatch.setattr(costs, "REFILL_FROM", 1)
    monkeypatch.setattr(costs, "REFILL_SHARE", 8)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("numbers", [flat_facts.NUMBERS_MAX, 0])
def test_random_recursions_evaluated_in_memory(monkeypatch, numbers, parts):
    in_memory(monkeypatch, numbers, parts)
    first = PART * (2 * parts + (numbers > 0))  # others in each way
    for seed in range(first, first + 3 * PART // 4):
        follow(seed)


@pytest.mark.parametrize(("left", "parts"), [(0, 1), (600, 1), (0, 2), (1500, 3)])
def test_random_recursions_that_outgrow_memory(monkeypatch, left, parts):
    """Rounds over pages go on from what was derived in memory, also in several ranges of which
    some were not begun.
    """
    in_memory(monkeypatch, 0, parts)
    monkeypatch.setattr(flat_facts, "memory_left", lambda: left)
    short = Mock(wraps=flat_facts.FlatFacts.waiting)
    monkeypatch.setattr(flat_facts.FlatFacts, "waiting", lambda *of: short(*of))
    for seed in range(PART // 2):
        follow(seed)
    assert short.called


KEEPING = (  # a column of every fact is that of the one it derives from
    "p0(x, y) <- e(x, y). p0(x, z) <- p0(x, y), e(y, z).",
    "p0(x, y) <- e(x, y). p0(x, z) <- e(x, y), p0(y, z).",
    "p0(x, y) <- e(x, y), !f(x, y). p0(x, z) <- p0(x, y), f(y, z), !e(x, z).",
    "p0(x, y) <- e(x, y). p1(x, z) <- p0(x, y), f(y, z). p0(x, z) <- p1(x, y), e(y, z).",
    "p0(x, y, u) <- e(x, y), e(y, u). p0(x, z, u) <- p0(x, y, u), f(y, z). p0(x, y, z) <- p0(x, y, "
    "u), e(u, z).",
    "p0[x, y] = m <- agg<<m = min(c)>> (w[x, y] = c ; p0[x, z] = c, e(z, y)).",
)


@pytest.mark.parametrize(("allowed", "parts"), [(1200, 1), (2500, 3), (400, 1)])
def test_random_recursions_of_which_ranges_fit_into_memory(monkeypatch, allowed, parts):
    """One range is derived after the other, or by rounds over pages; facts wait for their trees
    in sorted runs.
    """
    in_memory(monkeypatch, 0, parts)
    monkeypatch.setattr(flat_facts, "memory_allowed", lambda: allowed)
    monkeypatch.setattr(filling, "memory_to_take", lambda: 100)
    monkeypatch.setattr(filling, "KEPT", 0)
    monkeypatch.setattr(fixpoint, "RUNS", 1 << 40)
    added, taken = Mock(wraps=filling.Runs.add), Mock(wraps=flat_rounds.FlatRounds._take)
    monkeypatch.setattr(filling.Runs, "add", lambda *of: added(*of))
    monkeypatch.setattr(flat_rounds.FlatRounds, "_take", lambda *of: taken(*of))
    pieces = Mock(side_effect=flat_rounds._pieces)
    monkeypatch.setattr(flat_rounds, "_pieces", pieces)
    for seed in range(PART):
        random = Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            mirror = Mirror(
                Path(folder) / "store.pages", DECLARATIONS + KEEPING[seed % len(KEEPING)]
            )
            mirror.change(load(random))
            mirror.change(change(random, mirror.state))
            assert mirror.workspace.check() == []
            mirror.close()
    finished = {call.args[2] for call in taken.call_args_list}
    assert added.called and pieces.call_count > PART and (allowed > 400) in finished


def test_random_recursions_whose_rounds_are_joined_by_parts(monkeypatch):
    """The bindings of most rounds exceed the bytes allowed."""
    monkeypatch.setattr(fixpoint.Fixpoint, "_flat", lambda self: None)
    monkeypatch.setattr(fixpoint, "memory_allowed", lambda: 1 << 20)
    monkeypatch.setattr(fixpoint, "BINDINGS_SHARE", 1 << 14)
    monkeypatch.setattr(schedule, "RECURSIVE_MOST", -1)
    monkeypatch.setattr(costs, "IN_MEMORY", -1)
    halves = Mock(side_effect=fixpoint.halves)
    monkeypatch.setattr(fixpoint, "halves", halves)
    for seed in range(PART):
        follow(seed)
    assert halves.call_count > PART


def test_random_recursions_of_which_all_that_follows_is_found_in_memory(monkeypatch):
    """The kernel gives up at once: linear strata lose all that follows from a change, and some
    of it returns.
    """
    monkeypatch.setattr(schedule, "RECURSIVE_MOST", -1)
    monkeypatch.setattr(costs, "IN_MEMORY", -1)
    monkeypatch.setattr(costs, "REFILL_SHARE_MAX", 1 << 30)
    monkeypatch.setattr(fixpoint, "FOLLOWING_SHARE", 1)
    found = []
    maintained = fixpoint.Fixpoint.maintain_in_memory

    def counted(one: fixpoint.Fixpoint, *given: object) -> bool:
        erased = sum(tree.count for tree in one.facts.trees.values())
        found.append(
            (maintained(one, *given), erased - sum(tree.count for tree in one.facts.trees.values()))
        )
        return found[-1][0]

    monkeypatch.setattr(fixpoint.Fixpoint, "maintain_in_memory", counted)
    for seed in range(2 * PART):
        follow(seed)
    assert sum(succeeded and lost > 0 for succeeded, lost in found) > PART // 4
    assert sum(succeeded and lost < 0 for succeeded, lost in found) > PART // 4


def stored(workspace: ivm.Workspace) -> dict[str, list]:
    """The words of all trees, with the ranks of recursive views."""
    with workspace.store.snapshot() as snap:
        trees = {name: snap.tree(name) for name in snap._version.catalog.relations}
        return {
            name: [*map(np.ndarray.tolist, read_batches(snap.pages, tree))]
            for name, tree in trees.items()
        }


@pytest.mark.parametrize(("most", "facts"), [(schedule.RECURSIVE_MOST, compiled.FACTS), (-1, 4)])
def test_the_kernel_and_rounds_over_pages_do_the_same(monkeypatch, tmp_path, most, facts):
    """The same rows with the same ranks, and as many rounds: where the kernel does all of a
    transaction, and where it takes a stratum alone, in more and more room.
    """
    monkeypatch.setattr(costs, "REFILL_FROM", 1 << 30)
    monkeypatch.setattr(costs, "REFILL_SHARE_MAX", 1 << 30)
    monkeypatch.setattr(fixpoint, "STEPS_FREE", 1 << 30)
    monkeypatch.setattr(compiled, "FACTS", facts)
    monkeypatch.setattr(schedule, "RECURSIVE_MOST", most)
    kernel = Mock(wraps=compiled.MAINTAIN.call)
    monkeypatch.setattr(compiled, "MAINTAIN", Mock(call=kernel))
    for seed in range(PART):
        random = Random(seed)
        text = DECLARATIONS + "\n".join(random.choice((plain, recursion))(random))
        one, other = (
            Mirror(tmp_path / f"{seed}.{name}.pages", text) for name in ("kernel", "rounds")
        )
        edits = load(random)
        for _ in range(TRANSACTIONS):
            one.change(edits)
            with monkeypatch.context() as patched:
                patched.setattr(
                    compiled.CompiledStratum,
                    "plain",
                    property(lambda _: False, lambda *_: None),
                    raising=False,
                )
                called = kernel.call_count
                other.change(edits)
                assert kernel.call_count == called
            assert stored(one.workspace) == stored(other.workspace), text
            for name in one.program.predicates:
                if name.startswith("p"):
                    counts = [mirror.workspace.stats(name) for mirror in (one, other)]
                    assert (
                        len({tuple(c[k] for k in ("inserted", "erased", "rounds")) for c in counts})
                        == 1
                    ), text
            edits = change(random, one.state)
        one.close()
        other.close()
    assert kernel.call_count > (PART if most < 0 else 0)


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(0, CAMPAIGN, 500))
def test_campaign(first, monkeypatch):
    """A third over pages and in memory as is usual; the others in memory only, in each way."""
    for seed in range(first, first + 500):
        with monkeypatch.context() as patched:
            if seed % 3:
                in_memory(
                    patched, numbers=flat_facts.NUMBERS_MAX * (seed % 2), parts=1 + seed % 4 % 3
                )
            follow(seed)
            ask(seed)
