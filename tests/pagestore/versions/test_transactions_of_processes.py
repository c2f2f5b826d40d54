"""Prepared transactions of several processes: whoever leads makes those of all that wait, each made
or not as if they came one after the other, and once, whoever dies.
"""

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ivm
from ivm.errors import IvmError
from ivm.sql.errors import SqlError
from pagestore.errors import PagestoreError
from pagestore.versions import offers
from pagestore.versions.offers import OFFERED, TAKEN, Offers
from pagestore.versions.sync_modes import SharingCommitter
from tests.support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
CONTEXT = multiprocessing.get_context("fork")
TABLES = """
    CREATE TABLE account (i INT PRIMARY KEY, v BIGINT NOT NULL CHECK (v < 1000));
    CREATE TABLE done (w INT, k INT, PRIMARY KEY (w, k));
    CREATE TABLE other (n INT PRIMARY KEY);
    CREATE MATERIALIZED VIEW held AS SELECT sum(v) AS v, count(*) AS n FROM account;
"""
MOVE = (
    "UPDATE account SET v = v - $3 WHERE i = $1 AND v >= $3",
    "UPDATE account SET v = v + $3 WHERE i = $2",
    "INSERT INTO done VALUES ($4, $5)",
)
ACCOUNTS, HELD = 5, 100
Move = tuple[int, int, int, int, int]


def made(path: Path) -> Path:
    with ivm.open(path, retain="all") as ws:
        ws.sql(TABLES)
        ws.insert("account", [(i, HELD) for i in range(ACCOUNTS)])
    return path


def opened(path: Path) -> ivm.Workspace:
    return ivm.open(path, sync="commit", threads=1)


def own_offers(ws: ivm.Workspace) -> Offers:
    found: Offers = ws.store._handle.committer.offers
    return found


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ivm.Workspace]]:
    """Three workspaces of one file; the first leads, for long."""
    monkeypatch.setattr(offers, "LEADS", 30.0)
    monkeypatch.setattr(Offers, "resume", lambda self: setattr(self, "_goes_on", True))
    path = made(tmp_path / "s.pages")
    found = [opened(path) for _ in range(3)]
    for ws in found:
        assert own_offers(ws).open()
    found[0].prepare_transaction(*MOVE).execute((0, 0, 0, 9, 0))
    yield found
    for ws in found:
        ws.close()


def together(
    three: list[ivm.Workspace], own: Callable[[], Any], *waiting: Callable[[], Any]
) -> list[Any]:
    """Call what the other workspaces are to wait for, then `own` of the first; return what came."""
    with ThreadPoolExecutor(4) as pool:
        calls = []
        for ws, call in zip(three[1:], waiting, strict=False):
            calls.append(pool.submit(call))
            words, place = own_offers(ws)._words, own_offers(ws).place
            until(lambda w=words, p=place: w[p, OFFERED] > w[p, TAKEN])
        calls.insert(0, pool.submit(own))
        return [call.exception(30) or call.result() for call in calls]


def test_what_waits_is_one_version_each_with_its_own_outcome(three: list[ivm.Workspace]) -> None:
    one, _two, other = three
    moves, version = [ws.prepare_transaction(*MOVE) for ws in three], one.store.version
    came = together(
        three,
        lambda: moves[0].execute((0, 1, 100, 0, 0)),
        lambda: moves[1].executemany([(0, 2, 1, 1, 0), (1, 2, 200, 1, 1), (1, 2, 1, 1, 2)]),
        lambda: moves[2].execute((2, 0, 50, 2, 0)),
    )
    assert came[0] is True and came[2] is True
    assert came[1] in ([False, True, False], [True, False, True])  # by whose place is first
    assert {ws.store.version for ws in three} == {version + 1}
    assert [*other["held"]] == [(HELD * ACCOUNTS, ACCOUNTS)]
    assert [*one.at(version)["done"]] == [(9, 0)]


def test_transactions_that_the_leader_has_not_seen_are_made_too(three: list[ivm.Workspace]) -> None:
    one, two, other = three
    version = one.store.version
    add = two.prepare_transaction("INSERT INTO other VALUES ($1)")
    drop = other.prepare_transaction("DELETE FROM account WHERE i >= $1 AND v < 0")
    came = together(
        three,
        lambda: one.prepare_transaction(*MOVE).execute((0, 1, 1, 0, 0)),
        lambda: add.executemany([(1,), (2,)]),
        lambda: drop.execute((3,)),
    )
    assert came == [True, [True, True], False]
    assert two.store.version == version + 1
    assert [*one["other"]] == [(1,), (2,)]


def test_where_nothing_is_made_each_hears_so(three: list[ivm.Workspace]) -> None:
    version = three[0].store.version
    moves = [ws.prepare_transaction(*MOVE) for ws in three]
    came = together(
        three,
        *[lambda w=w: moves[w].execute((0, 1, 500, w, 0)) for w in range(3)],  # type: ignore[misc]
    )
    assert came == [False] * 3 and three[2].store.version == version


WRONG = {
    "the key of another row": (0, 1, 1, 9, 0),
    "a check": (0, 1, -950, 1, 1),
    "a text": (0, 1, "x", 1, 1),
    "too few": (0, 1),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_the_error_of_its_process_alone(
    three: list[ivm.Workspace], kind: str
) -> None:
    one, _two, _other = three
    moves = [ws.prepare_transaction(*MOVE) for ws in three]
    began = time.monotonic()
    came = together(
        three,
        lambda: moves[0].execute((0, 1, 1, 0, 0)),
        lambda: moves[1].execute(WRONG[kind]),
        lambda: moves[2].execute((1, 2, 1, 2, 0)),
    )
    assert time.monotonic() - began < 20
    assert isinstance(came[1], (IvmError, PagestoreError)), came
    assert [came[0], came[2]] == [True, True]
    assert sorted(one["done"]) == [(0, 0), (2, 0), (9, 0)]
    with pytest.raises(type(came[1])) as alone:
        moves[0].execute(WRONG[kind])
    # the value that is refused depends on which of the others came before
    said = [re.sub(r"v = \d+", "", str(e).partition("\n")[0]) for e in (alone.value, came[1])]
    assert said[0] == said[1]


def leading(one: ivm.Workspace, two: ivm.Workspace) -> Any:
    """Let the first process lead instead of the second."""
    own_offers(two).stop()
    move = one.prepare_transaction(*MOVE)
    assert move.execute((0, 1, 0, 8, 0)) and own_offers(two).are_taken()
    return move


# with values that come before, or any, others, and how many rows these change, or what is wrong
STATEMENTS: dict[str, tuple[str, Any, Any, Any]] = {
    "an update": ("UPDATE account SET v = v + ? WHERE i = ?", (1, 9), (1, 2), 1),
    "an update of no row": ("UPDATE account SET v = v + ? WHERE i = ?", (1, 9), (1, 10), 0),
    "an update whose condition is not met": (
        "UPDATE account SET v = v - $1 WHERE i = $2 AND v >= $1",
        *[(500, 1), (500, 2), 0],
    ),
    "an update that a CHECK refuses": (
        "UPDATE account SET v = ? WHERE i = ?",
        (1, 9),
        (1000, 1),
        "v < 1000",
    ),
    "an insert": ("INSERT INTO other VALUES (?)", [], (5,), 1),
    "an insert of a key that the table has": (
        "INSERT INTO other VALUES (?)",
        [],
        (51,),
        "n = 51 already",
    ),
    "a delete": ("DELETE FROM other WHERE n = ?", (1,), (50,), 1),
    "names": ("DELETE FROM other WHERE n = :n", {"n": 1}, {"n": 50}, 1),
    "literals": ("DELETE FROM other WHERE n = 50", None, None, 1),
    "an upsert": ("INSERT OR IGNORE INTO other VALUES (?)", [], (6,), 1),
    "several rows": ("DELETE FROM other WHERE n >= ?", (100,), (50,), 2),
    "what it returns": ("DELETE FROM other WHERE n = ? RETURNING n", (1,), (50,), 50),
}
NOT_OFFERED = {"names", "an upsert", "several rows", "what it returns"}


@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_statement_that_came_before_is_made_by_the_process_that_leads(
    three: list[ivm.Workspace], kind: str
) -> None:
    one, two, other = three
    text, before, values, right = STATEMENTS[kind]
    for n in range(60, 63):  # others, of which none is there
        literal = text.replace("50", str(n))
        two.sql(literal, [n] if before == [] else before)
    with other.transaction() as txn:
        txn.insert("other", [(50,), (51,)])
    move, offered = leading(one, two), kind not in NOT_OFFERED
    version = one.store.version
    if not offered:
        move.execute((0, 1, 1, 0, 0))
        own_offers(one).stop()
        came = [True, two.sql(text, values)]
    else:
        came = together(three, lambda: move.execute((0, 1, 1, 0, 0)), lambda: two.sql(text, values))
    assert came[0] is True
    if isinstance(right, str):
        assert isinstance(came[1], SqlError) and right in str(came[1])
    else:
        assert [*came[1]] == [(right,)]
        assert one.store.version - version == 1 + (not offered and right > 0)
    assert not one.check()


def test_a_statement_that_changes_several_rows_by_now_says_how_many(
    three: list[ivm.Workspace],
) -> None:
    """The table was replaced by one without the key by which the statement was made before."""
    one, two, other = three
    table, text = "CREATE TABLE pair (n INT, v INT)", "UPDATE pair SET v = v + 1 WHERE n = ?"
    two.sql(table.replace("n INT,", "n INT PRIMARY KEY,"))
    for _ in range(3):
        two.sql(text, (1,))
    other.sql(f"DROP TABLE pair; {table}; INSERT INTO pair VALUES (1, 1), (1, 2)")
    move = leading(one, two)
    came = together(three, lambda: move.execute((0, 1, 1, 0, 0)), lambda: two.sql(text, (1,)))
    assert came[0] is True and [*came[1]] == [(2,)]
    assert sorted(one["pair"]) == [(1, 2), (1, 3)]


def test_rows_that_others_offer_do_not_wait_for_long(
    three: list[ivm.Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leads by transactions makes no rows, so that it leads no longer once some are offered."""
    monkeypatch.setattr(offers, "LEADS", 0.05)
    one, two, _ = three
    move, put = one.prepare_transaction(*MOVE), two.prepare_sql("INSERT INTO other VALUES (?)")
    rows = two.prepare("other")
    put.execute((100,))

    def add() -> None:
        for n in range(20):
            rows.insert(n)
            rows.commit()

    with ThreadPoolExecutor(1) as pool:
        began, call = time.monotonic(), pool.submit(add)
        for k in range(10**5):
            if call.done():
                break
            move.execute((0, 1, 0, 0, k))
        call.result(1)
    assert time.monotonic() - began < 8  # half a second for each if it went on
    assert len([*one["other"]]) == 21


def draw(random: Random, w: int, k: int) -> Move:
    return random.randrange(ACCOUNTS), random.randrange(ACCOUNTS), random.randrange(1, 80), w, k


def moves(path: Path, w: int, seconds: float, said: Path) -> None:
    random, end = Random(w), time.monotonic() + seconds
    with opened(path) as ws, said.open("a", buffering=1) as out:
        move = ws.prepare_transaction(*MOVE)
        for k in range(10**6):
            row = draw(random, w, k)
            out.write(f"{[*row, move.execute(row)]}\n")
            if time.monotonic() > end:
                return
            if random.random() < 0.02:
                time.sleep(random.random() / 100)


def balances(rows: Any) -> tuple[int, ...]:
    return tuple(v for _, v in rows)


def orders(before: tuple[int, ...], batch: list[Move]) -> Iterator[list[tuple[int, ...]]]:
    """Yield the balances between the moves of a version, for each order in which all can be made."""
    for order in permutations(batch):
        states, now = [before], [*before]
        for a, b, x, *_ in order:
            if now[a] < x:
                break
            now[a] -= x
            now[b] += x
            states.append((*now,))
        else:
            yield states


def test_histories_of_processes_have_a_serial_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each version money is constant, and its moves have an order in which all of them can be
    made; each that was refused had too little money at some time between those of its process.
    """
    monkeypatch.setattr(Offers, "resume", lambda _: None)
    path, count = made(tmp_path / "s.pages"), 4
    with opened(path) as ws:
        begun = ws.store.version
    said = [tmp_path / str(w) for w in range(count)]
    processes = [CONTEXT.Process(target=moves, args=(path, w, 1.5, said[w])) for w in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    told = [[eval(line) for line in each.read_text().splitlines()] for each in said]
    by_name = {
        (w, k): (a, b, x, w, k) for each in told for a, b, x, w, k, is_made in each if is_made
    }
    made_in, seen = dict[tuple[int, int], int](), list[set[tuple[int, ...]]]()
    with ivm.open(path) as ws:
        assert not ws.check()
        assert {*ws["done"]} == by_name.keys()
        before, known = (HELD,) * ACCOUNTS, set[Any]()
        for version in range(begun + 1, ws.store.version + 1):
            with ws.at(version) as then:
                after, done = balances(then["account"]), {*then["done"]}
                assert [*then["held"]] == [(HELD * ACCOUNTS, ACCOUNTS)]
            batch = [by_name[name] for name in done - known]
            made_in |= dict.fromkeys(done - known, len(seen))
            found = [*orders(before, batch)]
            assert found, (version, before, batch)
            assert {states[-1] for states in found} == {after}
            seen.append({state for states in found for state in states})
            before, known = after, done
    assert len(made_in) > len({*made_in.values()}), "some share a version"
    for each in told:
        least = 0
        for n, (a, _, x, w, k, is_made) in enumerate(each):
            if is_made:
                assert made_in[w, k] >= least
                least = made_in[w, k]
                continue
            later = (made_in[w, one[4]] for one in each[n:] if one[5])
            window = seen[least : next(later, len(seen)) + 1]
            assert any(state[a] < x for states in window for state in states), (w, k)


STEPS = ["found", "taken", "recorded", "durable", "said"]


def dies(path: Path, step: str, at: int) -> None:
    """Lead until something is offered for the `at`th time; then die at a step."""
    seen = 0

    def die_at(this: str, offered: Any) -> None:
        nonlocal seen
        seen += this == step and bool(offered)
        if seen >= at:
            os.kill(os.getpid(), signal.SIGKILL)

    of, take, say, adopt = Offers.of, Offers.take, Offers.made, SharingCommitter._adopt

    def offered_of(self: Offers, *given: Any) -> Any:
        found = of(self, *given)
        die_at("found", found)
        return found

    def taken(self: Offers, found: Any, *given: Any) -> None:
        take(self, found, *given)
        die_at("taken", found)

    def adopted(self: SharingCommitter, *given: Any) -> None:
        taking = self.taking
        adopt(self, *given)
        die_at("recorded", taking and taking.args[0])  # type: ignore[attr-defined]

    def told(self: Offers, found: Any) -> None:
        die_at("durable", found)
        say(self, found)
        die_at("said", found)

    Offers.of, Offers.take, Offers.made, SharingCommitter._adopt = offered_of, taken, told, adopted  # type: ignore[method-assign]
    with opened(path) as ws:
        move = ws.prepare_transaction(*MOVE)
        for k in range(10**6):
            move.execute((0, 1, 0, 0, k))


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("step", STEPS)
def test_each_is_made_once_if_the_process_that_leads_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, at: int
) -> None:
    monkeypatch.setattr(Offers, "resume", lambda _: None)
    path = made(tmp_path / "s.pages")
    leader = CONTEXT.Process(target=dies, args=(path, step, at))
    leader.start()
    with opened(path) as ws:
        move, came = ws.prepare_transaction(*MOVE), list[bool]()
        assert own_offers(ws).open()
        monkeypatch.setattr(own_offers(ws), "lead", lambda: None)

        def is_over() -> bool:
            k = len(came)
            came.append(move.execute((2, 3, 1 if k % 3 else 500, 1, k)))
            return not leader.is_alive()

        with suppress(KeyboardInterrupt):
            until(is_over)
        assert leader.exitcode == -signal.SIGKILL
        is_over()
        done = [k for w, k in ws["done"] if w]
        assert done == [k for k, is_made in enumerate(came) if is_made]
        money = dict(ws["account"])
        assert money[2] == HELD - len(done) and money[3] == HELD + len(done)
        assert not ws.check()
