"""Something is raised at any line of the library: what was being made is made, undone, or known to
be unknown.

A tracer raises at a chosen line of pagestore's, or ivm's, as the handler of a signal would.
Whatever was under way, the store holds what it held before or what the change would have made of
it; where its handle is poisoned `reopen` says which. No lock stays: the next transaction begins,
other versions can be dropped, and fsck finds nothing. Views follow from their rules, and so do
their sensitivity indices.
"""

import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from warnings import catch_warnings, simplefilter

import ivm
import pagestore
from pagestore.errors import PagestoreError, PoisonedError, TransactionError

Rows = dict[int, int]
PACKAGES = str(Path(pagestore.__file__).parent), str(Path(ivm.__file__).parent)
CHECKED = 10  # every so many interrupts all is checked
ALARM = 0.004  # seconds, at most, after which a signal comes
VIEWED = 0.3  # of the interrupts, that are of a store with views
RULES = {  # all matched with sensitivity indices
    "views": "two(x, z) <- r[x] = y, r[y] = z. end(x, y) <- r[x] = y, !r[y] = _. near(x, z) <- "
    "two(x, z), r[z] = x.",
    "more": "same(x, y) <- r[x] = z, r[y] = z.",
}


class Interrupt(BaseException):
    """What comes in between."""


def run(seed: int, amount: int) -> Counter[str]:
    """Interrupt `amount` changes of a store; raises AssertionError naming the seed and the one
    that hurt.
    """
    counts: Counter[str] = Counter()
    rng = Random(seed)
    with TemporaryDirectory(dir=memory()) as folder, catch_warnings():
        simplefilter("ignore")
        for kind, until in ((Viewed, round(VIEWED * amount)), (Patient, amount)):
            patient = kind(Path(folder) / f"{kind.__name__}.pages", rng)
            while counts["interrupts"] < until:
                try:
                    patient.interrupted(counts)
                except Exception as error:
                    raise AssertionError(
                        f"interrupt {counts['interrupts']} of seed {seed}: {error!r}"
                    ) from error
            patient.store.close()
    return counts


def memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def finalizes(frame: FrameType | None) -> bool:
    """Return whether a frame is of a finalizer, where Python prints what is raised and goes on: what a
    handle that was given up raises there, while it is closed, reaches nobody.
    """
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


class Patient:
    """A store, what it must hold, and how many lines each kind of change takes."""

    def __init__(self, path: Path, rng: Random):
        self.path, self.rng = path, rng
        self.rows: Rows = {}
        self.lines: dict[str, int] = {}
        self.armed = False  # whether a signal raises
        self.changes, self.keys, self.values = CHANGES, 2000, 1 << 40
        self.open(page_size=4096, retain=3)
        self.make()

    def open(self, **options: Any) -> None:
        """Open the store."""
        self.store = pagestore.open(self.path, threads=1, **options)

    def make(self) -> None:
        """Make the relations."""
        with self.store.transaction() as txn:
            txn.create("r", "k: int64, v: int64", key="k", scans=["count"])
            txn.create("names", "n: string")

    def prepare(self) -> Any:
        """Return rows that are prepared."""
        return self.store.prepare("r")

    def faults(self) -> list[Any]:
        """Return what is wrong with the store."""
        return self.store.check()

    def interrupted(self, counts: Counter[str]) -> None:
        """One change, broken off or not; then all is as before, or as after it."""
        name, many = self.rng.choice([*self.changes]), self.rng.choice([1, 5, 300])
        after = {
            self.rng.randrange(self.keys): self.rng.randrange(self.values) for _ in range(many)
        }
        if name == "prepared":
            self._begin_series()
        before, version = self.rows, self.store.version
        wanted = before | after if name in EDITING else before
        came = self._break_off(name, lambda: self.changes[name](self, after), counts)
        note = any("was committed" in note for note in getattr(came, "__notes__", ()))
        if name in ("close", "open"):
            with suppress(PagestoreError):
                self.store.close()
            self.open()
        self._go_on(counts)
        found = dict(self.store.snapshot()["r"])
        made = self.store.version > version
        assert found == (wanted if made else before), (
            f"{name}: neither what was there nor what was to be there"
        )
        assert not note or made, f"{name}: it was said to be committed and is not"
        counts["said to be made"] += note
        counts["made all the same"] += made
        self.rows = found
        if counts["interrupts"] % CHECKED == 0:
            self._check(counts)

    def _begin_series(self) -> None:
        """Commit prepared rows, which change nothing, so that the next such commit takes the
        short way.
        """
        self.put = self.prepare()
        for _ in range(self.rng.randrange(1, 12)):
            self.put.delete(-1)
            self.put.commit()

    def _break_off(
        self, name: str, change: Callable[[], None], counts: Counter[str]
    ) -> BaseException | None:
        """Make a change in which something is raised; what came out of it."""
        many = self.lines.get(name, 400)
        stop, passed = self.rng.randrange(1, many + 20), 0

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal passed
            if not frame.f_code.co_filename.startswith(PACKAGES):
                return None
            if event == "line":
                passed += 1
                if passed >= stop and not finalizes(frame):
                    sys.settrace(None)
                    raise Interrupt(
                        f"line {stop} of {name}, {frame.f_code.co_filename}:{frame.f_lineno}"
                    )
            return trace

        alarm = self.rng.random() < 0.2
        try:
            try:
                self.armed = True
                if alarm:
                    signal.signal(signal.SIGALRM, self._raise)
                    signal.setitimer(signal.ITIMER_REAL, self.rng.uniform(1e-5, ALARM))
                else:
                    sys.settrace(trace)
                change()
            finally:
                self.armed = False
            counts["too late"] += 1
        except Interrupt as interrupt:
            counts["interrupts"] += 1
            counts["signals" if alarm else "lines"] += 1
            return interrupt.with_traceback(None)
        except (PoisonedError, TransactionError) as error:
            # of a transaction that went on after the interrupt
            assert name == "go on inside", error
            counts["interrupts"] += 1
            return error.with_traceback(None)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            sys.settrace(None)
            if not alarm:
                self.lines[name] = max(self.lines.get(name, 0), passed)
        return None

    def _raise(self, _: int, frame: FrameType | None) -> None:
        if self.armed and not finalizes(frame):
            raise Interrupt("a signal")

    def _go_on(self, counts: Counter[str]) -> None:
        """Write to the store, which a poisoned handle is opened anew for."""
        try:
            with self.store.transaction() as txn:
                txn["names"].insert([("go on",)])
                txn.rollback()
        except PoisonedError:
            counts["poisoned"] += 1
            self.reopen()

    def reopen(self) -> None:
        """Open the poisoned handle anew."""
        self.store.reopen()

    def _check(self, counts: Counter[str]) -> None:
        faults = self.faults()
        assert not faults, faults[0]
        assert not self.store._handle.locks.pins, "a version is pinned that nobody reads"
        _administer(self, {})
        self.store.vacuum(keep_versions=1)
        assert len(self.store.history()) == 1, "a version is kept that nobody reads"
        self.store.close()
        self.open()
        assert self.store.recovery is None, self.store.recovery
        faults = self.faults()
        assert not faults, faults[0]
        assert dict(self.store.snapshot()["r"]) == self.rows
        counts["checks"] += 1


class Viewed(Patient):
    """A store with views of `r` that are matched."""

    def open(self, **options: Any) -> None:
        """Open the store, and a workspace over it."""
        super().open(**options)
        self.workspace = ivm.Workspace(self.store)

    def reopen(self) -> None:
        """Open the poisoned handle anew, and another workspace over it."""
        super().reopen()
        self.workspace = ivm.Workspace(self.store)

    def make(self) -> None:
        """Make the relations, and the views."""
        with self.store.transaction() as txn:
            txn.create("names", "n: string")
        self.changes, self.keys, self.values = OF_VIEWS, 60, 60
        self.workspace.install("r[k] = v -> int(k), int(v).")
        self.workspace.install(RULES["views"], "views", maintenance="match")

    def prepare(self) -> Any:
        """Return rows that are prepared."""
        return self.workspace.prepare("r")

    def faults(self) -> list[Any]:
        """Return what is wrong with the store, its views and their sensitivity indices."""
        return [*super().faults(), *self.workspace.check()]


def _commit(patient: Patient, after: Rows) -> None:
    with patient.store.transaction() as txn:
        txn["r"].set(list(after.items()))
        txn["names"].insert([(f"name {v} " * (400 if v % 3 == 0 else 1),) for v in after.values()])


def _commit_and_delete(patient: Patient, after: Rows) -> None:
    with patient.store.transaction() as txn:
        txn["names"].delete(list(txn["names"])[::2])
        with txn.savepoint():
            txn["r"].set(list(after.items()))


def _prepared(patient: Patient, after: Rows) -> None:
    for k, v in after.items():
        patient.put.set(k, v)
    patient.put.commit()


def _bulk(patient: Patient, after: Rows) -> None:
    with patient.store.transaction() as txn:
        txn["r"].set(list(after.items()))
        rows = list(txn["r"])
        txn.drop("r")
        txn.create("r", "k: int64, v: int64", key="k", scans=["count"]).bulk([rows])


def _go_on_inside(patient: Patient, after: Rows) -> None:
    """An interrupt that the transaction survives, if it may."""
    with patient.store.transaction() as txn:
        with suppress(Interrupt):
            txn["names"].insert([(f"inside {v}",) for v in after.values()])
            list(txn["names"])
        txn["r"].set(list(after.items()))


def _read(patient: Patient, after: Rows) -> None:
    with patient.store.at(patient.store.version) as snapshot:
        list(snapshot["r"]), len(snapshot["names"])
    patient.store.check()


def _administer(patient: Patient, after: Rows) -> None:
    store = patient.store
    for tag in store.tags:
        store.untag(tag)
    for branch in store.branches.keys() - {"main"}:
        store.delete_branch(branch)
    store.tag("now")
    store.untag("now")
    store.branch("b")
    store.delete_branch("b")
    store.retain = patient.rng.choice([2, 3, 4])


def _vacuum(patient: Patient, after: Rows) -> None:
    patient.store.vacuum(keep_versions=2)


def _close(patient: Patient, after: Rows) -> None:
    patient.store.close()


def _open(patient: Patient, after: Rows) -> None:
    handle = patient.store._handle
    handle.file.close()  # as if it had been killed
    handle.open = False
    pagestore.open(patient.path, threads=1)


CHANGES: dict[str, Callable[[Patient, Rows], None]] = {
    "commit": _commit,
    "commit and delete": _commit_and_delete,
    "prepared": _prepared,
    "bulk": _bulk,
    "go on inside": _go_on_inside,
    "read": _read,
    "administer": _administer,
    "vacuum": _vacuum,
    "close": _close,
    "open": _open,
}


def _edit(patient: Any, after: Rows) -> None:
    with patient.workspace.transaction() as txn:
        txn.set("r", list(after.items()))


def _install(patient: Any, after: Rows) -> None:
    workspace = patient.workspace
    if "more" in workspace.blocks:
        workspace.uninstall("more")
    else:
        workspace.install(RULES["more"], "more", maintenance="match")


def _read_views(patient: Any, after: Rows) -> None:
    list(patient.workspace["two"]), patient.workspace.verify("near")


OF_VIEWS: dict[str, Callable[[Any, Rows], None]] = {
    "commit": _commit,
    "edit": _edit,
    "prepared": _prepared,
    "install": _install,
    "read views": _read_views,
    "administer": _administer,
    "close": _close,
    "open": _open,
}
EDITING = "edit", "commit", "commit and delete", "prepared", "bulk", "go on inside"
