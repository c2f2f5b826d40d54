"""Random programs under random edits: what is maintained equals what the slow truth derives,
each time.
"""

import tempfile
from math import inf
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from ivm.engine import choice, schedule
from ivm.errors import ConstructError, FunctionConflictError
from ivm.plan import costs
from ivm.rules import rule as installed_rule
from ivm.rules.compile import query
from ivm.ways import probe
from pagestore.sorting.tuples import FEW
from tests.support import naive
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times
from tests.support.simulator import compiled
from tests.support.strategies import BASIC, DECLARATIONS, FULL, Features, cases, renumbered

RELATIONS = Features(functions=False, arithmetic=False, aggregates=False)
FAR = Features(arithmetic=False, aggregates=False, negation=True, disjunction=True, heads_max=2)
END = 2**63
NUMBERS = [
    (-END, -END + 1, -1, 0),
    (-END + 1, -END + 2, END - 3, END - 2),
    (-END + 2, -5, 7, END - 2),
    (-END, 0, 1, END - 1),
    (END - 4, END - 3, END - 2, END - 1),
    (-(2**62), -(2**61), 2**61, 2**62),
    (-(2**40), -1, 2**20, 2**40),
    (0, 1, 2**31, 2**32),
    (10**18, 10**18 + 1, 10**18 + 2, 10**18 + 5),
]
EXAMPLES = times(15)  # of each test; campaigns run thousands
relaxed = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))


def follow(case: tuple[str, list], **options: object) -> None:
    """Install, then edit, comparing each time; reopen halfway."""
    text, transactions = case
    with tempfile.TemporaryDirectory() as folder:
        try:
            mirror = Mirror(Path(folder) / "store.pages", text, **options)
        except ConstructError:
            reject()
        for number, edits in enumerate(transactions):
            mirror.change(edits)
            if number == len(transactions) // 2:
                mirror.reopen()
        mirror.close()


def follow_loaded(case: tuple[str, list], **options: object) -> None:
    """Load, then install, then edit, comparing each time; at the end the whole store passes its
    check.
    """
    text, (load, *transactions) = case
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "store.pages", DECLARATIONS)
        mirror.change(load)
        try:
            mirror.install("views", text.removeprefix(DECLARATIONS), **options)
        except ConstructError:
            reject()
        for edits in transactions:
            mirror.change(edits)
        assert mirror.workspace.store.check() == []
        mirror.close()


@relaxed
@given(cases(RELATIONS))
def test_joins_comparisons_and_projections(case):
    follow(case)


@relaxed
@given(cases(BASIC))
def test_functions_arithmetic_and_aggregates(case):
    follow(case)


@relaxed
@given(cases(FULL))
def test_negation_disjunction_and_several_heads(case):
    follow(case)


@relaxed
@given(cases(BASIC), st.sampled_from([2, 8, 100]))
def test_coarse_intervals(case, granularity):
    follow(case, granularity=granularity, maintenance="match")


@pytest.mark.parametrize("maintenance", ["match", "probe"])
@relaxed
@given(
    case=cases(FAR), numbers=st.sampled_from(NUMBERS), granularity=st.sampled_from([1, 1, 2, 16])
)
def test_numbers_far_apart_and_at_the_ends(maintenance, case, numbers, granularity):
    """Loaded before the views, so that what they record is built at once, in words as wide as
    the numbers ask for.
    """
    follow_loaded(renumbered(case, numbers), granularity=granularity, maintenance=maintenance)


@pytest.mark.parametrize("maintenance", ["match", "probe"])
@relaxed
@given(case=cases(FULL))
def test_matching_and_probing(maintenance, case):
    follow(case, maintenance=maintenance)


@compiled
@relaxed
@given(cases(FULL), st.sampled_from([1, 1, 3]))
def test_matching_by_the_kernel_and_by_python(case, granularity):
    """The same rows, intervals that are hit and kept, and operations."""
    text, transactions = case
    found = []
    for few in (FEW, 0):
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(schedule, "FEW", few)
            try:
                mirror = Mirror(
                    Path(folder) / "store.pages", text, maintenance="match", granularity=granularity
                )
            except ConstructError:
                reject()
            workspace, accounts = mirror.workspace, []
            for edits in transactions:
                mirror.change(edits)
                views = sorted(
                    name for name, one in workspace.predicates.items() if not one.extensional
                )
                accounts.append(
                    [{**workspace.stats(view), "maintain_seconds": 0} for view in views]
                )
            assert workspace.store.check() == []
            found.append(accounts)
            mirror.close()
    assert found[0] == found[1]


def follow_with_threads(case: tuple[str, list]) -> None:
    """Probed, every branch by another of three threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 3)
        patch.setattr(probe, "SHARE", 1)
        follow(case, maintenance="probe")


def follow_huge_deltas(case: tuple[str, list], rows: int, maintenance: str) -> None:
    """Deltas of more than a few rows are evaluated in full; the next small one relies on what
    that recorded.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice.Choice, "_propagating", lambda *_: inf)
        patch.setattr(costs, "LARGE_FROM", rows)
        patch.setattr(installed_rule, "SIZES_FACTOR", 1.5)  # and for that it is planned anew
        patch.setattr(installed_rule, "SIZES_FREE", 0)
        follow(case, maintenance=maintenance)


def ask(case: tuple[str, list]) -> None:
    """The views of a program asked, not installed: the answer is the last one, and nothing is
    left behind.
    """
    text, transactions = case
    rules = text.removeprefix(DECLARATIONS)
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "store.pages", DECLARATIONS)
        mirror.change([edit for edits in transactions for edit in edits])
        version, names = mirror.workspace.store.version, set(mirror.workspace)
        program = query(rules, mirror.program)
        try:
            truth = naive.evaluate(mirror.program.including(program), mirror.state)
        except FunctionConflictError:
            with pytest.raises(FunctionConflictError):
                mirror.workspace.query(rules)
        else:
            answer = mirror.workspace.query(rules)
            assert sorted(answer) == sorted(naive.rows_of(truth[program.answer]))
            assert answer.to_arrow().column_names == list(
                program.predicates[program.answer].columns
            )
        assert (mirror.workspace.store.version, set(mirror.workspace)) == (version, names)
        mirror.compare()
        mirror.close()


@relaxed
@given(cases(FULL))
def test_branches_that_threads_share(case):
    follow_with_threads(case)


@relaxed
@given(cases(FULL), st.sampled_from([0, 2, 4]), st.sampled_from(["match", "probe"]))
def test_huge_deltas_between_small_ones(case, rows, maintenance):
    follow_huge_deltas(case, rows, maintenance)


@relaxed
@given(cases(FULL))
def test_questions(case):
    ask(case)


LONG = cases(FULL, count_max=12, size_max=12)


@pytest.mark.campaign
@settings(max_examples=3000, suppress_health_check=list(HealthCheck), deadline=None)
@given(LONG, st.sampled_from([0, 2, 4]), st.sampled_from(["match", "probe"]))
def test_campaign_of_ways(case, rows, maintenance):
    follow_with_threads(case)
    follow_huge_deltas(case, rows, maintenance)
    ask(case)


@pytest.mark.campaign
@pytest.mark.parametrize("maintenance", ["auto", "match", "probe"])
@settings(max_examples=3000, suppress_health_check=list(HealthCheck), deadline=None)
@given(case=LONG, granularity=st.sampled_from([1, 1, 3, 100]))
def test_campaign(maintenance, case, granularity):
    follow(case, granularity=granularity, maintenance=maintenance)


@pytest.mark.campaign
@settings(max_examples=3000, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    case=cases(FAR, count_max=12, size_max=12),
    numbers=st.sampled_from(NUMBERS),
    granularity=st.sampled_from([1, 1, 2, 16]),
)
def test_campaign_of_numbers(case, numbers, granularity):
    follow_loaded(renumbered(case, numbers), granularity=granularity, maintenance="match")


def test_an_index_that_is_built_late_goes_with_the_plans_that_read_it():
    """It stayed when the rules got other plans, and so could not be built once more."""
    views = (
        "v0(x) <- g[_, _] = _, g[0, 0] = 0, g[0, _] = 0, a(x).\n"
        "v1(w, y) <- a(x), f[0] = 0, g[x, y] = w, g[0, 0] = w"
        " ; a(0), r(0, y), e(x, 0), y = 0, y = 0, a(w).\n"
        "v2(x) <- a(0), t(0, 0, 0), a(x)."
    )
    stored = [("a", (0,)), ("e", (0, 0)), ("r", (0, 0)), ("r", (0, 2)), ("r", (3, 0)),
              ("r", (0, 3)), ("r", (2, 0)), ("t", (0, 0, 0)), ("f", (0, 0)), ("g", (1, 3, 0)),
              ("g", (3, 0, 0)), ("g", (0, 2, 0))]  # fmt: skip
    first = [(*fact, True) for fact in stored]
    gone = [("a", (0,), False)]
    more = [("f", (2, 0), True), ("g", (0, 0, 0), True)]
    last = [("f", (0, 0), False), ("a", (0,), True), ("a", (2,), False)]
    follow_huge_deltas(
        (f"{DECLARATIONS}\n{views}", [first, gone, gone, gone + more, last]), 4, "probe"
    )
