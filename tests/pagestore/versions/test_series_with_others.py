"""Series of commits of two handles of a file, among all else that may be done to it, by random
choice.

A third process commits, too, and is killed; syncs and writes of slots fail. The model is what was
acknowledged, and of what failed either nothing or some first commits, which all handles agree on.
"""

import errno
import os
import signal
from contextlib import closing, suppress
from random import Random

import pytest

import ivm
import pagestore
from pagestore.errors import ClosedError, PoisonedError
from pagestore.storage.meta import SLOT_SIZE
from tests.support.simulator import compiled

pytestmark = [
    compiled,
    pytest.mark.filterwarnings("ignore::pagestore.errors.RecoveryWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
RULES = """
r(x, y) -> int(x), int(y). q(x, y) -> int(x), int(y).
big(x) <- r(x, y), y > 4. pairs[x] = n <- agg<<n = count()>> r(x, _).
"""
CHILD = 1000  # the first of the rows of a process that is killed
SLOTS = 2 * SLOT_SIZE


class Shown:
    """What a store shows: the rows of each branch and of each tag."""

    def __init__(self, branches=None, tags=None):
        self.branches, self.tags = branches or {}, tags or {}

    def __eq__(self, other):
        return (self.branches, self.tags) == (other.branches, other.tags)

    def __repr__(self):
        return f"{self.branches} {self.tags}"

    def with_rows(self, name, rows, branch="main", erase=False):
        before = self.branches[branch]
        rows = before[name] - {*rows} if erase else before[name] | {*rows}
        return Shown({**self.branches, branch: {**before, name: rows}}, self.tags)


def rows_of(snapshot):
    r = frozenset(snapshot["r"])
    assert [*snapshot["big"]] == sorted({(x,) for x, y in r if y > 4})
    assert sum(n for _, n in snapshot["pairs"]) == len(r)
    return {"r": r, "q": frozenset(snapshot["q"])}


def shown(store):
    branches, tags = {}, {}
    for name in store.branches:
        with store.snapshot(name) as snapshot:
            branches[name] = rows_of(snapshot)
    for name in store.tags:
        with store.at(name) as snapshot:
            tags[name] = rows_of(snapshot)
    return Shown(branches, tags)


class Side:
    """One handle, whose syncs and slots fail on request."""

    def __init__(self, path, sync):
        self.workspace = ivm.open(path, threads=1, sync=sync)
        self.store, self.sync = self.workspace.store, sync
        self.failed, self.held = False, []  # snapshots, and what they must show
        self.put = {name: self.workspace.prepare(name) for name in "rq"}
        self.fails = {"sync": 0, "slot": 0}  # which of the next fails
        file = self.store._handle.file
        write = file.pwrite

        def fail(kind):
            self.fails[kind] -= 1
            if self.fails[kind] == 0:
                raise OSError(errno.EIO, f"simulated failure of a {kind}")

        def pwrite(data, offset):
            if offset < SLOTS:
                fail("slot")
            write(data, offset)

        file.fdatasync, file.pwrite = lambda: fail("sync"), pwrite  # nobody cuts the power

    def hold(self):
        self.held.append((snapshot := self.store.snapshot(), rows_of(snapshot)))

    def verify_held(self):
        for snapshot, rows in self.held:
            try:
                found = rows_of(snapshot)
            except ClosedError:
                assert self.failed, "only a failure ends a snapshot"
            else:
                assert found == rows, f"version {snapshot.version}"


class Play:
    """Two handles, and what they must show."""

    def __init__(self, path, random):
        self.path, self.random = path, random
        self.syncs = [random.choice(["off", "commit", "full"]) for _ in range(2)]
        with closing(
            ivm.open(path, page_size=4096, threads=1, retain=random.choice([1, 1, 2, 40, "all"]))
        ) as workspace:
            workspace.install(RULES)
        self.sides = [Side(path, sync) for sync in self.syncs]
        self.model = Shown({"main": {"r": frozenset(), "q": frozenset()}})
        self.often = random.choice([1.0, 0.3, 0.03])  # how often what was done is read at once
        self.turns = random.choice([0.03, 0.15, 0.5])  # how often the other handle goes on
        self.series = self.failures = self.killed = 0
        self.others = random.choice([0.05, 0.25])  # how often something else is done
        self.which, self.name, self.prepared = 0, "r", True

    def step(self):
        random = self.random
        if random.random() < self.turns:
            self.which = random.randrange(2)
        if random.random() < 0.05:
            self.name, self.prepared = random.choice("rq"), random.random() < 0.5
        side = self.sides[self.which]
        if side.failed and random.random() < 0.5:
            self._reopen(side)
        if random.random() < 0.03:
            side.fails[random.choice(["sync", "slot"])] = random.choice([1, 1, 2])
        if random.random() > self.others:
            self._commit_some(side)
        else:
            random.choice(
                [
                    self._edit,
                    self._edit,
                    self._tag,
                    self._branch,
                    *2 * [self._untag, self._delete_branch],
                    self._retain,
                    self._vacuum,
                    self._reopen,
                    self._again,
                    self._hold,
                    self._hold,
                    self._release,
                    self._kill,
                ]
            )(side)
        self.verify(self.often)

    def _attempt(self, side, *changes):
        """Make changes, each a function and what is shown afterwards; if one fails, find out
        what there is.
        """
        known = [self.model]
        try:
            for change, after in changes:
                known.append(after)
                change()
        except (OSError, PoisonedError) as error:
            assert (isinstance(error, OSError) and "simulated" in str(error)) or side.failed, (
                "it had not failed"
            )
            side.failed = side.store._handle.committer.cause is not None
            self._find_out(known)
        else:
            assert not side.failed
            self.model = known[-1]

    def _find_out(self, known):
        self.failures += 1
        with pagestore.open(self.path, "r") as reader:
            found = shown(reader)
        assert found in known
        self.model = found

    def _rows(self):
        return [
            (self.random.randrange(60), self.random.randrange(8))
            for _ in range(self.random.choice([1, 1, 1, 2, 9]))
        ]

    def _commit_of_a_series(self, side, before):
        """Something that a series may commit, and what is shown afterwards."""
        rows, erase, name = self._rows(), self.random.random() < 0.3, self.name
        action = "delete" if erase else "insert"
        after = before.with_rows(name, rows, erase=erase)
        if not self.prepared:
            return lambda: getattr(side.workspace, action)(name, rows), after
        put = side.put[name]

        def commit():
            put.clear()
            for row in rows:
                getattr(put, action)(*row)
            put.commit()

        return commit, after

    def _commit_some(self, side):
        """Commit once, or make several durable together, as threads do."""
        handle, group = side.store._handle, self.random.choice([0, 0, 0, 1, 3, 6])
        series = handle.committer.series
        if not group:
            self._attempt(side, self._commit_of_a_series(side, self.model))
        else:
            changes, after = [], self.model
            for _ in range(group):
                changes.append(self._commit_of_a_series(side, after))
                after = changes[-1][1]
                if self.random.random() < 0.2:
                    changes.append((side.hold, after))

            def flush():
                del handle.complete
                handle.complete(handle.committer.made)

            handle.complete = lambda number: None
            try:
                self._attempt(side, *changes, (flush, after))
            finally:
                vars(handle).pop("complete", None)
                with suppress(PoisonedError):
                    handle.complete(handle.committer.made)
        self.series += series is not None and series is handle.committer.series

    def _edit(self, side):
        """Edit by a transaction, of some branch."""
        branch, rows = self.random.choice([*self.model.branches]), self._rows()

        def edit():
            with side.store.transaction(branch=branch) as txn:
                txn[self.name].insert(rows)

        self._attempt(side, (edit, self.model.with_rows(self.name, rows, branch)))

    def _tag(self, side):
        name, model = f"t{self.random.randrange(3)}", self.model
        if name not in model.tags:
            after = Shown(model.branches, {**model.tags, name: model.branches["main"]})
            self._attempt(side, (lambda: side.store.tag(name), after))

    def _untag(self, side):
        for name in self.model.tags:
            model = self.model
            after = Shown(
                model.branches, {tag: rows for tag, rows in model.tags.items() if tag != name}
            )
            self._attempt(side, (lambda name=name: side.store.untag(name), after))

    def _branch(self, side):
        name, model = f"b{self.random.randrange(2)}", self.model
        if name not in model.branches:
            after = Shown({**model.branches, name: model.branches["main"]}, model.tags)
            self._attempt(side, (lambda: side.store.branch(name), after))

    def _delete_branch(self, side):
        for name in self.model.branches.keys() - {"main"}:
            model = self.model
            after = Shown(
                {branch: rows for branch, rows in model.branches.items() if branch != name},
                model.tags,
            )
            self._attempt(side, (lambda name=name: side.store.delete_branch(name), after))

    def _retain(self, side):
        retain = self.random.choice([1, 2, 5, 40, "all"])
        self._attempt(side, (lambda: setattr(side.store, "retain", retain), self.model))

    def _vacuum(self, side):
        change = (
            side.store.compact
            if self.random.random() < 0.2
            else lambda: side.store.vacuum(keep_versions=1)
        )
        self._attempt(side, (change, self.model))

    def _reopen(self, side):
        side.fails = {"sync": 0, "slot": 0}
        side.store.reopen()
        self._release(side)
        side.failed = False

    def _again(self, side):
        """Close a handle and open another."""
        side.fails = {"sync": 0, "slot": 0}
        side.held.clear()
        side.workspace.close()
        self.sides[self.which] = Side(self.path, self.random.choice(["off", "commit", "full"]))

    def _hold(self, side):
        side.hold()

    def _release(self, side):
        for snapshot, _ in side.held:
            snapshot.close()
        side.held.clear()

    def _kill(self, _):
        """Kill a process that commits: each byte that it has sent is a commit."""
        first, wanted, (read, write) = (
            CHILD * (1 + self.killed),
            self.random.randrange(12),
            os.pipe(),
        )
        child = os.fork()
        if not child:
            with suppress(BaseException):
                os.close(read)
                commit_for_ever(
                    self.path, self.random.choice(["off", "commit", "full"]), first, write
                )
            os._exit(1)
        os.close(write)
        said = 0
        while said < wanted:
            got = len(os.read(read, 1))
            assert got, "the process ended of itself"
            said += got
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while os.read(read, 1):
            said += 1
        os.close(read)
        rows = [(first + n, 7) for n in range(said + 1)]
        self._find_out([self.model.with_rows("q", rows[:said]), self.model.with_rows("q", rows)])
        self.killed += 1

    def verify(self, often=1.0):
        for side in self.sides:
            if self.random.random() < often:
                assert shown(side.store) == self.model, side.sync
            if self.random.random() < often:
                side.verify_held()


def commit_for_ever(path, sync, first, write):
    """Commit a row more each time, for which a byte is sent."""
    with pagestore.open(path, sync=sync, threads=1) as store:
        put = store.prepare("q")
        store._handle.file.fdatasync = lambda: None
        for n in range(10**6):
            put.insert(first + n, 7)
            put.commit()
            os.write(write, b".")


def play(path, seed, steps):
    random = Random(seed)
    played = Play(path, random)
    for _ in range(steps):
        played.step()
    for side in played.sides:
        side.fails = {"sync": 0, "slot": 0}
        if side.failed:
            side.store.reopen()
            side.held.clear()
    played.verify()
    for side in played.sides:
        assert side.store.check() == []
        side.workspace.close()
    with pagestore.open(path) as store:
        assert shown(store) == played.model
        assert store.check() == []
    return played


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param([*range(8), 304], id="some"),
        pytest.param(range(1000, 1600), marks=pytest.mark.campaign, id="many"),
    ],
)
def test_handles_show_what_was_acknowledged_whatever_else_is_done(seeds, tmp_path):
    series = failures = killed = 0
    for seed in seeds:  # a handle that was closed still takes memory
        played = play(tmp_path / f"{seed}.pages", seed, 120)
        series, failures = series + played.series, failures + played.failures
        killed += played.killed
    assert series > 5 * len(seeds)
    assert failures > len(seeds) and killed > len(seeds) // 2
