"""A scheduler of processes, and what must hold of the histories that they make."""

import json
import os
import select
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from warnings import catch_warnings, simplefilter

import ivm
from tests.reliability.histories.work import (
    ACCOUNTS,
    MONEY,
    MOVE,
    RULES,
    Log,
    Seen,
    Undone,
    continued,
    transact,
    watching,
    writing,
)
from tests.reliability.interrupts import memory

STEPS_MAX = 20_000  # of a life
IN_A_ROW = 40  # steps, after which another process goes on: the one that did may wait for it
CALLS, FEW = 50, 10  # steps of a transaction, about, and of a part of it
CROWD, AT_ONCE = 40, 3  # writers of a history of many, and how many of them there are at a time
HARM = 0.3  # share of these moments at which a process is killed or interrupted


def lives(seed: int, amount: int) -> Counter[str]:
    """As `run`, in a process under the library."""
    counts: Counter[str] = Counter()
    number = 0
    while counts["kills"] < amount:
        with tempfile.TemporaryDirectory(prefix="histories-", dir=memory()) as folder:
            try:
                kind = (Held, Crowd, Held, Life)[number % 4]
                kind(Path(folder), Random(f"{seed} {number}"), counts).live()
            except Exception as error:
                raise AssertionError(
                    f"life {number} of seed {seed}: {type(error).__name__}: {error}"
                ) from error
        number += 1
        counts["histories"] = number
    return counts


class Child:
    """A process under the scheduler, and what it has said."""

    def __init__(self, work: Callable[[Callable[..., None]], None]) -> None:
        heard, told = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(heard)
            _work(work, told)
        os.close(told)
        self.lines = os.fdopen(heard)
        self.priority, self.ended = 0.0, False

    def waits(self) -> None:
        """Wait until it stops again or ends; raises AssertionError if it ended with an error."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        self.ended = not os.WIFSTOPPED(status)
        if self.ended and os.waitstatus_to_exitcode(status) not in (0, -signal.SIGKILL):
            raise AssertionError(f"a process ended with {status}: {self.lines.read()}")

    def goes_on(self, steps: int = 1) -> None:
        """Let it make some steps, if it does not end before."""
        for _ in range(steps):
            if not self.ended:
                os.kill(self.pid, signal.SIGCONT)
                self.waits()

    @property
    def has_said(self) -> bool:
        """Whether it has said anything yet."""
        return bool(select.select([self.lines], [], [], 0)[0])

    def dies(self) -> None:
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            self.waits()

    def said(self) -> list[Any]:
        """What it has said in all, once it has ended."""
        with self.lines:
            return [json.loads(line) for line in self.lines if line.endswith("\n")]


def _work(work: Callable[[Callable[..., None]], None], told: int) -> None:
    code = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        work(lambda *what: os.write(told, (json.dumps(what) + "\n").encode()))
        code = 0
    except KeyboardInterrupt:
        code = 0
    except BaseException:
        os.write(told, traceback.format_exc().encode())
    finally:
        os._exit(code)


class Life:
    """A store, and some processes that write to it, watch it, are killed and started again."""

    def __init__(self, folder: Path, random: Random, counts: Counter[str]) -> None:
        self.path, self.random, self.counts = folder / "s.pages", random, counts
        self.syncs = ["commit"] if random.random() < 0.75 else ["commit", "commit", "full", "off"]
        self.children: list[Child] = []
        with ivm.open(
            self.path, retain=random.choice([2, "all", "all", "all"]), page_size=4096, sync="off"
        ) as workspace:
            workspace.install(RULES)
            with workspace.transaction() as txn:
                txn.insert("account", [(i, MONEY // ACCOUNTS) for i in range(ACCOUNTS)])
                txn.insert("counter", [(0, 0)])
            # what it imports is not imported by each process
            with suppress(Undone), workspace.transaction() as txn:
                transact(txn, (0, 0), random, Seen(), "rolled back")
            for _ in range(2):  # the second time as it is made from then on
                workspace.prepare_transaction(*MOVE).execute((0, 1, MONEY + 1, 0, 0))
            self.seen = continued(workspace, Seen())

    def live(self) -> None:
        """Run everything, and judge it."""
        try:
            self.run()
            self.judge()
        finally:
            for child in self.children:
                child.dies()

    def run(self) -> None:
        """Let one process at a time go on, until all have ended."""
        random, few = self.random, self.random.random() < 0.6
        for _ in range(random.randint(3, 5)):
            self.begin()
        if random.random() < 0.3:
            self.begin(watches=True)
        with ivm.open(self.path, mode="r", threads=1) as reader:
            running = list[Child]()
            for _ in range(STEPS_MAX):
                running = [child for child in self.children if not child.ended]
                if not running:
                    break
                if random.random() < 1 / IN_A_ROW:
                    self.change(running)
                    continue
                self.choose(running, few).goes_on()
                if random.random() < 0.05:
                    self.seen = continued(reader, self.seen)
                self.counts["steps"] += 1
            assert not running, "the processes do not come to an end"
            self.seen = continued(reader, self.seen)

    def begin(self, watches: bool = False) -> None:
        """Start a process, which stops before it opens the file."""
        number, seed = len(self.children), self.random.random()
        sync, fail = (
            self.random.choice(self.syncs),
            self.random.randrange(12) if self.random.random() < 0.1 else 0,
        )
        work = (
            watching(self.path) if watches else writing(self.path, number, sync, fail, Random(seed))
        )
        child = Child(work)
        self.children.append(child)
        child.priority = self.random.random()
        child.waits()

    def choose(self, running: list[Child], few: bool) -> Child:
        """Return who goes on: with `few` changes the one of the highest priority, else any."""
        return (
            max(running, key=lambda child: child.priority) if few else self.random.choice(running)
        )

    def change(self, running: list[Child]) -> None:
        """Let another process have the highest priority, and perhaps do harm to one at the same
        moment.
        """
        last = max(running, key=lambda child: child.priority)
        last.priority = min(child.priority for child in running) - self.random.random()
        if self.random.random() < HARM:
            self.harm(self.random.choice(running))

    def harm(self, child: Child) -> None:
        """Kill a process, or interrupt it; perhaps another one follows."""
        if self.random.random() < 0.7:
            child.dies()
            self.counts["kills"] += 1
        else:
            os.kill(child.pid, signal.SIGINT)
            self.counts["interrupts"] += 1
        if len(self.children) < 9:
            self.begin()

    def judge(self) -> None:
        """Compare what was acknowledged and watched with what is there."""
        said = [child.said() for child in self.children]
        with catch_warnings():
            simplefilter("error")
            with ivm.open(self.path, threads=1) as workspace:
                log, notes = continued(workspace, self.seen)
                faults = workspace.check()
                assert not faults, faults[0]
                workspace.insert("account", [(ACCOUNTS, 0)])
        for lines in said:
            watched: Log = []
            for what, *about in lines:
                if what == "committed":
                    assert log.count((*about,)) == 1, (
                        f"{about} is acknowledged, and the log is {log}"
                    )
                    self.counts["commits acknowledged"] += 1
                elif what == "noted":
                    assert (*about,) in notes, f"{about} is acknowledged, and the notes are {notes}"
                    self.counts["commits acknowledged"] += 1
                elif what == "not noted":
                    assert (*about,) not in notes, f"{about} was refused, and the notes are {notes}"
                    self.counts["refused by a condition"] += 1
                elif what == "rolled back":
                    assert (*about,) not in log, f"{about} was rolled back, and the log is {log}"
                elif what == "watched":
                    watched += [(*row,) for row in about[0]]
                    assert watched == log[: len(watched)], (
                        f"{watched} was watched, and the log is {log}"
                    )
                else:
                    self.counts[what] += 1
        self.counts["versions read"] += len(log)


class Held(Life):
    """Three writers: one sleeps at some step, another one dies at some step, and the third goes on
    from what is there.

    first   ── some steps ──▶ sleeps                      a few more, sleeps                 goes on
    second                    ── some steps ──▶ sleeps                       dies
    third                                                                         goes on
    """

    def run(self) -> None:
        """Let each commit once, and then go on as that says."""
        for _ in range(3):
            self.begin()
            while not self.children[-1].has_said:
                self.children[-1].goes_on()
        first, second, third = self.children
        with ivm.open(self.path, mode="r", threads=1) as reader:
            for child, least, most in (
                (first, 20, 40),
                (second, CALLS, 2 * CALLS),
                (first, 0, FEW),
            ):
                child.goes_on(self.random.randint(least if self.random.random() < 0.7 else 0, most))
                self.seen = continued(reader, self.seen)
            if not second.ended:
                self.harm(second)
            for child in (third, first) * 2:
                child.goes_on(self.random.choice([CALLS, 2 * CALLS]))
                self.seen = continued(reader, self.seen)
            for _ in range(STEPS_MAX):
                running = [child for child in self.children if not child.ended]
                if not running:
                    return
                self.random.choice(running).goes_on()
        raise AssertionError("the processes do not come to an end")


class Crowd(Life):
    """Many writers, a few at a time, of which most are killed at a step that is drawn before: each
    goes on from what those before it have left, wherever they were.
    """

    def run(self) -> None:
        """Let one at a time go on, and another one begin for each that ends."""
        random, few = self.random, self.random.random() < 0.6
        left = dict[Child, float]()  # the steps that each still makes
        with ivm.open(self.path, mode="r", threads=1) as reader:
            for _ in range(CROWD * STEPS_MAX):
                running = [child for child in self.children if not child.ended]
                if len(running) < AT_ONCE and len(self.children) < CROWD:
                    self.begin()
                    dies = random.random() < 0.9
                    left[self.children[-1]] = random.randint(0, 3 * CALLS) if dies else STEPS_MAX
                    continue
                if not running:
                    return
                child = self.choose(running, few)
                if left[child] <= 0:
                    child.dies()
                    self.counts["kills"] += 1
                    self.seen = continued(reader, self.seen)
                    continue
                child.goes_on()
                left[child] -= 1
                self.counts["steps"] += 1
                if random.random() < 1 / IN_A_ROW:
                    child.priority = min(one.priority for one in running) - random.random()
        raise AssertionError("the processes do not come to an end")


if __name__ == "__main__":
    print(json.dumps(lives(int(sys.argv[1]), int(sys.argv[2]))))
