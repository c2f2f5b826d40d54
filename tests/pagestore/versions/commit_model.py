"""A model of how processes that share syncs commit (docs/format.md), and all that can come of it.

Some writers each make a few commits. Between any two steps another one may go on, one may be
killed, and any sync may fail. A step is what nobody can see half of: mostly one call of the system.
STEPS has them by the names that they have in docs/format.md; beside each stands the method of
pagestore/versions/ that it is.

    >>> explored([1, 1], kills=1).violation is None
    True
    >>> print(explored([2, 1], kills=1, without=["slots last"]).violation)
    the newest slot leads to Commit(sequence=2, chain=('02', '11'), listed=()), which is not whole

What was written is in `cache`, which all processes read; a sync brings what is `dirty` to the
`disk`, and one that fails brings none of it there, and leaves it not dirty. A commit of version v
has one page of rows and one of its record, both in place v: whoever misses a commit takes the same
pages for another one.

With `offers`, a writer that finds the lock taken may offer its edits to whoever has it, who may take
them into its own commit: then one entry of `chain` has several names, with a `+` between two.

Left out are commits that free pages, threads of one process, and other kinds of sync.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

MENDS = {  # parts of the protocol that can be left out, and what goes wrong then
    "slots last": "a commit that gets its slot between the two looks of the next writer is missed",
    "claim": "a slot leads to a commit whose process has died, and whose pages the next writer has "
    "taken",
    "claim lock": "a claim that came too late is taken for a commit",
    "pages are listed": "a power cut leaves a commit without the pages of one that it was built on",
    "slots alternate": "the only durable slot is overwritten",
    "doubt": "what a failed sync has lost is built on, unless `first again` writes it once more",
    "ensure": "a commit that nobody has synced is built on",
    "first again": "a process that has seen its sync fail is killed before it says so, and one that "
    "opens the file later builds on what that sync has lost",
    "taken first": "edits are made twice: nobody says that a commit has them until it is durable",
    "history": "edits are made twice: their process does not look whether a commit has them",
    "its own time": "another commit of that number is taken for the one that was to have the edits",
}
TORN = "torn"


class Commit(NamedTuple):
    """The record of a commit: its version is the length of `chain`, the names of all commits
    that it is built on.
    """

    sequence: int
    chain: tuple[str, ...]
    listed: tuple[int, ...] = ()  # the versions whose pages may not be on the disk, without its own

    @property
    def version(self) -> int:
        return len(self.chain)


class Slot(NamedTuple):
    sequence: int
    version: int
    doubt: bool = False


class Process(NamedTuple):
    """A writer: its next step, and what it has seen."""

    step: str = "open"
    left: int = 1  # commits to make
    new: bool = True  # whether it has led to none since it has opened the file
    known: Commit | None = None  # its own newest commit, which is durable
    slot: Slot = Slot(0, 0)  # as it was last seen
    found: Commit | None = None  # that another process shows
    base: Commit = Commit(0, ())  # what the next one is built on
    listed: tuple[int, ...] = ()
    next: int = 1  # the least sequence of the next commit
    own: Commit | None = None
    shown: int = 0  # the version that it shows, 0 for none
    claimed: int = 0
    synced: int = -1  # the sequence of the newest commit that it says is durable
    back: str = ""  # the step after `ensure`
    offer: str = ""  # the edits that others may commit
    # the version and the name of the commit that is to have them, 0 if none is; and whether it has
    taken: tuple[int, str] | None = None
    made: bool = False
    takes: tuple[int, ...] = ()  # the processes whose offers are in its own commit, and its name
    entry: str = ""
    late: bool = False  # whether that is said once the record is written
    # whether its next sync fails, since one of another process did: the system tells all
    told: bool = False


class State(NamedTuple):
    processes: tuple[Process, ...]
    cache: tuple[Any, ...]  # pages by version, then records by version, then two slots
    disk: tuple[Any, ...]
    dirty: int = 0  # bits of what is in the cache and may not be on the disk
    writer: int = -1  # who holds the lock of the writer, of the slots, of claims; -1 for nobody
    slots: int = -1
    claims: int = -1
    kills: int = 0  # left
    failures: int = 0
    acknowledged: tuple[str, ...] = ()
    read: tuple[str, ...] = ()  # what a reader has seen


Step = Callable[["Model", State, int], Iterator[State]]
STEPS: dict[str, tuple[Step, str]] = {}


def step(name: str, method: str) -> Callable[[Step], Step]:
    """Name a step, and the method that it is."""

    def named(function: Step) -> Step:
        STEPS[name] = function, method
        return function

    return named


class Model:
    """The steps of the protocol, perhaps without some of its MENDS."""

    def __init__(
        self, commits: Sequence[int], without: Collection[str] = (), offers: bool = False
    ) -> None:
        assert MENDS.keys() >= {*without}
        self.without, self.most = without, sum(commits)
        self.commits, self.offers = commits, offers

    def start(self, kills: int, failures: int) -> State:
        """Nothing was committed yet, and the store was closed cleanly."""
        cells = (None,) * 2 * self.most + (Slot(0, 0), None)
        first = "open" if failures else "take"
        processes = tuple(Process(first, n) for n in self.commits)
        return State(processes, cells, cells, kills=kills, failures=failures)

    def after(self, s: State) -> Iterator[tuple[str, State]]:
        """Yield each state that may be the next, and what leads to it."""
        for p, process in enumerate(s.processes):
            if process.step not in ("ended", "dead"):
                for new in STEPS[process.step][0](self, s, p):
                    yield f"{p} {process.step}", self.is_read(new)
                if s.kills and process.step != "open":
                    yield f"{p} is killed", self.dies(s, p)._replace(kills=s.kills - 1)

    # --- what steps read

    def newest(self, s: State) -> Slot:
        """The newest slot; of two with the same commit the one in doubt."""
        return max(slot for slot in s.cache[-2:] if slot)

    def record(self, cells: tuple[Any, ...], version: int) -> Commit | None:
        """What the record in the place of a version says, if it is of that version."""
        return cells[self.most + version - 1] if version else Commit(0, ())

    def shown(self, s: State, p: int, version: int) -> bool:
        """Whether another process shows a version, or has claimed it."""
        others = (one for n, one in enumerate(s.processes) if n != p)
        return version > 0 and any(version in (one.shown, one.claimed) for one in others)

    def shown_after(self, s: State, p: int, version: int) -> Commit | None:
        for later in range(self.most, version, -1):
            if self.shown(s, p, later) and (found := self.record(s.cache, later)):
                return found
        return None

    def is_synced(self, s: State, slot: Slot) -> bool:
        """Whether anybody says that the commit of a slot is durable, or it was there when the
        store was closed.
        """
        return slot.sequence == 0 or any(one.synced == slot.sequence for one in s.processes)

    # --- what steps do

    def set(self, s: State, p: int, **changes: Any) -> State:
        processes = [*s.processes]
        processes[p] = processes[p]._replace(**changes)
        return s._replace(processes=tuple(processes))

    def write(self, s: State, *cells: tuple[int, Any]) -> State:
        cache, dirty = [*s.cache], s.dirty
        for at, value in cells:
            cache[at], dirty = value, dirty | 1 << at % len(cache)
        return s._replace(cache=tuple(cache), dirty=dirty)

    def write_slot(self, s: State, slot: Slot, other: bool = False) -> State:
        return self.write(s, (len(s.cache) - 2 + (slot.sequence + other) % 2, slot))

    def sync(
        self, s: State, p: int, done: str, failed: str = "doubt", **changes: Any
    ) -> Iterator[State]:
        """A sync brings all that is dirty to the disk, or fails, and then brings nothing there,
        nor do later ones.
        """
        if not s.processes[p].told:
            yield self.set(self.synced(s), p, step=done, **changes)
        if s.failures or s.processes[p].told:
            failures = s.failures - (not s.processes[p].told)
            processes = tuple(
                one._replace(told=one.step not in ("open", "dead")) for one in s.processes
            )
            s = s._replace(dirty=0, failures=failures, processes=processes)
            yield self.set(s, p, step=failed, told=False)

    def synced(self, s: State) -> State:
        """All that is dirty is on the disk."""
        disk = tuple(
            new if s.dirty >> at & 1 else old
            for at, (old, new) in enumerate(zip(s.disk, s.cache, strict=True))
        )
        return s._replace(disk=disk, dirty=0)

    def dies(self, s: State, p: int) -> State:
        """All locks of a process go at once, as those of one do that gives up; it does nothing
        more.
        """
        s = self.set(s, p, step="dead", shown=0, claimed=0, synced=-1, offer="")
        return s._replace(
            writer=-1 if s.writer == p else s.writer,
            slots=-1 if s.slots == p else s.slots,
            claims=-1 if s.claims == p else s.claims,
        )

    # --- what must hold

    def is_read(self, s: State) -> State:
        """A reader looks which commits there are."""
        found = self.record(s.cache, self.newest(s).version)
        return s._replace(read=found.chain if found else ())

    def violation(self, s: State, before: State) -> str:
        """What is wrong in a state, or empty."""
        slot = self.newest(s)
        found = self.record(s.cache, slot.version)
        if found is None or found.sequence != slot.sequence or not self.is_whole(s.cache, found):
            return f"the newest slot leads to {found}, which is not whole"
        names = names_of(found.chain)
        if len({*names}) < len(names):
            return f"{found.chain} has something twice"
        if not {*s.acknowledged} <= {*names}:
            return f"{s.acknowledged} were acknowledged, and {found.chain} is there"
        if found.chain[: len(before.read)] != before.read:
            return f"a reader saw {before.read}, and then {found.chain}"
        return self.after_a_power_cut(s.cache, s.disk, s.dirty, s.acknowledged)

    def is_whole(
        self, cells: tuple[Any, ...], commit: Commit, versions: Sequence[int] | None = None
    ) -> bool:
        every = range(1, commit.version + 1) if versions is None else versions
        return all(cells[v - 1] == commit.chain[v - 1] for v in every)

    @lru_cache(1 << 18)  # noqa: B019 - as long as the model
    def after_a_power_cut(
        self,
        cache: tuple[Any, ...],
        disk: tuple[Any, ...],
        dirty: int,
        acknowledged: tuple[str, ...],
    ) -> str:
        """What is wrong with what a power cut may leave: any of what is dirty came to the disk."""
        bits = [at for at in range(len(cache)) if dirty >> at & 1]
        for kept in product((False, True), repeat=len(bits)):
            image = [*disk]
            for at, keep in zip(bits, kept, strict=True):
                if keep:
                    image[at] = cache[at]
            cells = tuple(image)
            chain = self.recovered(cells)
            if chain is None:
                return f"after a power cut no slot of {cells} leads to a commit"
            if chain == TORN:
                return f"after a power cut {cells} is taken for whole"
            if not {*acknowledged} <= {*names_of(chain)}:
                return f"{acknowledged} were acknowledged, and after a power cut {chain} is there"
        return ""

    def recovered(self, cells: tuple[Any, ...]) -> Any:
        """The chain of the commit that opening finds (recovery.py); TORN if it is damaged, None
        if there is none.
        """
        for slot in sorted((slot for slot in cells[-2:] if slot), reverse=True):
            found = self.record(cells, slot.version)
            listed = (*found.listed, found.version) if found and found.version else ()
            if found and found.sequence == slot.sequence and self.is_whole(cells, found, listed):
                return found.chain if self.is_whole(cells, found) else TORN
        return None


def names_of(chain: Sequence[str]) -> list[str]:
    """Return whose edits some commits have, each of several writers perhaps."""
    return "+".join(chain).split("+")


# --- the steps of a writer, in order


@step("open", "Handle._lock")
def opens(m: Model, s: State, p: int) -> Iterator[State]:
    yield m.set(s, p, step="take")


@step("take", "FileLock.take")
def take(m: Model, s: State, p: int) -> Iterator[State]:
    if s.writer < 0:
        process = s.processes[p]
        first = (
            ("knows.shown" if "slots last" not in m.without else "knows.slots")
            if process.known
            else "newest.slots"
        )
        yield m.set(s, p, step=first)._replace(writer=p)
    elif m.offers:
        yield m.set(s, p, step="offer")


@step("offer", "Offers.put")
def offer(m: Model, s: State, p: int) -> Iterator[State]:
    yield m.set(s, p, step="served", offer=f"{p}{s.processes[p].left}", taken=None, made=False)


@step("served", "FileLock._is_served")
def served(m: Model, s: State, p: int) -> Iterator[State]:
    process = s.processes[p]
    if process.made:
        yield from acknowledged(m, m.set(s, p, offer="", taken=None), p, [process.offer])
    elif process.taken and not process.taken[0]:
        yield m.set(s, p, step="take", offer="", taken=None)
    elif s.writer < 0:
        yield m.set(s, p, step="settle")._replace(writer=p)


@step("settle", "settle")
def settles(m: Model, s: State, p: int) -> Iterator[State]:
    process = s.processes[p]
    if process.made:
        s = m.set(s._replace(writer=-1), p, offer="", taken=None)
        yield from acknowledged(m, s, p, [process.offer])
    else:  # from now on nobody takes the offer, since this process has the lock
        kept = process.taken if "history" not in m.without and (process.taken or (0,))[0] else None
        yield m.set(s, p, step="newest.slots", offer="", taken=kept)


@step("history", "settle")
def history(m: Model, s: State, p: int) -> Iterator[State]:
    process, base = s.processes[p], s.processes[p].base
    assert process.taken
    version, entry = process.taken
    there = base.chain[version - 1 : version]
    if there == (entry,) or (there and "its own time" in m.without):
        yield m.set(s, p, step="slots", own=base)
    else:
        yield m.set(s, p, step="edit", taken=None)


@step("knows.shown", "SharedSyncs.is_newest")
def knows_shown(m: Model, s: State, p: int) -> Iterator[State]:
    process = s.processes[p]
    then = "knows.slots" if "slots last" not in m.without else "edit"
    newer = m.shown_after(s, p, process.known.version)
    yield m.set(s, p, step="newest.slots" if newer else then)


@step("knows.slots", "Handle._knows")
def knows_slots(m: Model, s: State, p: int) -> Iterator[State]:
    known = s.processes[p].known
    if m.newest(s).sequence != known.sequence:
        yield m.set(s, p, step="newest.slots")
    else:
        then = "edit" if "slots last" not in m.without else "knows.shown"
        yield m.set(s, p, step=then, base=known, listed=(), next=known.sequence + 1)


@step("newest.slots", "SharedSyncs.newest")
def newest_slots(m: Model, s: State, p: int) -> Iterator[State]:
    yield m.set(s, p, step="newest.shown", slot=m.newest(s))


@step("newest.shown", "SharedSyncs._shown_after")
def newest_shown(m: Model, s: State, p: int) -> Iterator[State]:
    if s.claims < 0 or "claim lock" in m.without:
        yield m.set(
            s, p, step="newest.again", found=m.shown_after(s, p, s.processes[p].slot.version)
        )


@step("newest.again", "SharedSyncs.newest")
def newest_again(m: Model, s: State, p: int) -> Iterator[State]:
    process, slot = s.processes[p], m.newest(s)
    if slot != process.slot:
        yield m.set(s, p, step="newest.shown", slot=slot)
    elif slot.doubt and "doubt" not in m.without:
        yield m.set(s, p, step="ensure.slots", back="newest.slots")
    elif found := process.found:
        next_ = found.sequence + 1
        if next_ % 2 == slot.sequence % 2 and "slots alternate" not in m.without:
            next_ += 1
        yield m.set(
            s, p, step="edit", base=found, next=next_, listed=(*found.listed, found.version)
        )
    else:
        yield m.set(s, p, step="pending")


@step("pending", "SharedSyncs._is_pending")
def pending(m: Model, s: State, p: int) -> Iterator[State]:
    slot = s.processes[p].slot
    base = m.record(s.cache, slot.version)
    go_on = {"step": "edit", "base": base, "next": slot.sequence + 1, "listed": ()}
    if m.is_synced(s, slot) or "ensure" in m.without:
        yield m.set(s, p, **go_on)
    elif m.shown(s, p, slot.version):
        yield m.set(s, p, **go_on | {"listed": (*base.listed, base.version)})
    else:
        yield m.set(s, p, step="ensure.slots", back="newest.slots")


@step("edit", "Transaction.commit")
def edit(m: Model, s: State, p: int) -> Iterator[State]:
    process = s.processes[p]
    if process.taken:
        yield m.set(s, p, step="history")
        return
    name = f"{p}{process.left}"
    if offered := tuple(q for q, one in enumerate(s.processes) if one.offer and not one.taken):
        entry = "+".join([name, *(s.processes[q].offer for q in offered)])
        yield m.set(s, p, step="joint", takes=offered, entry=entry)
        late = m.write(s, (process.base.version, entry))
        yield m.set(late, p, step="record", takes=offered, entry=entry, late=True)
    s = m.write(s, (process.base.version, name))
    yield m.set(s, p, step="record", entry=name)
    yield m.set(s, p, step="roll back")


@step("joint", "Offers.take")
def joint(m: Model, s: State, p: int) -> Iterator[State]:
    process = s.processes[p]
    if "taken first" not in m.without:
        s = are_taken(m, s, p)
    s = m.write(s, (process.base.version, process.entry))
    yield m.set(s, p, step="record")
    yield m.set(s, p, step="refuse")


def are_taken(m: Model, s: State, p: int, refused: bool = False) -> State:
    process = s.processes[p]
    taken = (0, "") if refused else (process.base.version + 1, process.entry)
    for q in process.takes:
        s = m.set(s, q, taken=taken)
    return s


@step("refuse", "Offers.went_on")
def refuse(m: Model, s: State, p: int) -> Iterator[State]:
    yield m.set(are_taken(m, s, p, refused=True), p, step="roll back", takes=())


@step("roll back", "Transaction.rollback")
def roll_back(m: Model, s: State, p: int) -> Iterator[State]:
    process, left = s.processes[p], s.processes[p].left - 1
    if process.found:  # that commit is made durable, since threads of this process may have seen it
        yield m.set(s, p, step="show", own=process.found)
    else:
        yield m.set(s, p, step="take" if left else "ended", left=left)._replace(writer=-1)


@step("record", "Committer._write_record")
def record(m: Model, s: State, p: int) -> Iterator[State]:
    process = s.processes[p]
    base, listed = process.base, () if "pages are listed" in m.without else process.listed
    own = Commit(process.next, (*base.chain, process.entry), listed)
    s = m.write(s, (m.most + base.version, own))
    yield from [m.set(s, p, step="joint.late", own=own)] if process.late else written(m, s, p, own)


def written(m: Model, s: State, p: int, own: Commit) -> Iterator[State]:
    yield m.set(s, p, step="show", own=own, late=False)
    # it is made durable under the lock of the writer
    yield m.set(s, p, step="slots", own=own, late=False)


@step("joint.late", "SharingCommitter._adopt")
def joint_late(m: Model, s: State, p: int) -> Iterator[State]:
    if "taken first" not in m.without:
        s = are_taken(m, s, p)
    yield from written(m, s, p, s.processes[p].own)


@step("show", "SharedSyncs.show")
def show(m: Model, s: State, p: int) -> Iterator[State]:
    yield m.set(s, p, step="release", shown=s.processes[p].own.version)


@step("release", "FileLock.release")
def release(m: Model, s: State, p: int) -> Iterator[State]:
    yield m.set(s, p, step="durable")._replace(writer=-1)


@step("durable", "SharedSyncs._is_durable")
def durable(m: Model, s: State, p: int) -> Iterator[State]:
    if s.slots < 0:
        slot = m.newest(s)
        done = slot.sequence >= s.processes[p].own.sequence and m.is_synced(s, slot)
        yield m.set(s, p, step="acknowledge" if done else "slots")


@step("slots", "SharedSyncs.complete")
def slots(m: Model, s: State, p: int) -> Iterator[State]:
    if s.slots < 0:
        yield m.set(s, p, step="complete")._replace(slots=p)


@step("complete", "SharedSyncs.complete")
def complete(m: Model, s: State, p: int) -> Iterator[State]:
    own, slot = s.processes[p].own, m.newest(s)
    if slot.doubt and "doubt" not in m.without:
        yield m.dies(s, p)
    elif not m.is_synced(s, slot) and "ensure" not in m.without:
        yield m.set(s, p, step="ensure.write", back="complete", slot=slot)
    elif slot.sequence >= own.sequence:
        yield m.set(s, p, step="leave")
    else:
        found = m.shown_after(s, p, own.version)
        then = "claim.lock" if found and "claim" not in m.without else "copy"
        yield m.set(s, p, step=then, slot=slot, found=found)


@step("claim.lock", "SharedSyncs._claim_after")
def claim_lock(m: Model, s: State, p: int) -> Iterator[State]:
    if s.claims < 0:
        yield m.set(s, p, step="claim.show")._replace(claims=p)


@step("claim.show", "SharedSyncs._claim_after")
def claim_show(m: Model, s: State, p: int) -> Iterator[State]:
    yield m.set(s, p, step="claim.look", claimed=s.processes[p].found.version)


@step("claim.look", "SharedSyncs._claim_after")
def claim_look(m: Model, s: State, p: int) -> Iterator[State]:
    version = s.processes[p].claimed
    if m.shown(s, p, version):
        yield m.set(s, p, step="copy", found=m.record(s.cache, version))._replace(claims=-1)
    else:
        yield m.set(s, p, step="complete", claimed=0)._replace(claims=-1)


@step("copy", "SharedSyncs._lead")
def copy(m: Model, s: State, p: int) -> Iterator[State]:
    process = s.processes[p]
    slot, chosen = process.slot, process.found or process.own
    if process.new and "first again" not in m.without:
        own = process.own
        again = [at for v in (*own.listed, own.version) for at in (v - 1, m.most + v - 1)]
        s = m.write(s, *((at, s.cache[at]) for at in again))
    if slot.sequence % 2 == chosen.sequence % 2 and "slots alternate" not in m.without:
        chosen = process.own
    s = m.set(s, p, step="slot", found=chosen, new=False)
    if slot.sequence % 2 == chosen.sequence % 2 and "slots alternate" not in m.without:
        yield m.set(m.write_slot(s, slot, other=True), p, step="copy.sync")
    else:
        yield s


@step("copy.sync", "SharedSyncs._lead")
def copy_sync(m: Model, s: State, p: int) -> Iterator[State]:
    yield from m.sync(s, p, "slot", "doubt.before")


@step("slot", "SharedSyncs.write_slot")
def slot(m: Model, s: State, p: int) -> Iterator[State]:
    led = s.processes[p].found
    yield m.set(m.write_slot(s, Slot(led.sequence, led.version)), p, step="sync")


@step("sync", "SharedSyncs.write_slot")
def sync(m: Model, s: State, p: int) -> Iterator[State]:
    yield from m.sync(s, p, "leave", synced=s.processes[p].found.sequence)


@step("doubt", "sync_all")
def doubt(m: Model, s: State, p: int) -> Iterator[State]:
    led = s.processes[p].found
    yield from doubted(m, s, p, Slot(led.sequence, led.version))


@step("doubt.before", "sync_all")
def doubt_before(m: Model, s: State, p: int) -> Iterator[State]:
    yield from doubted(m, s, p, s.processes[p].slot)


def doubted(m: Model, s: State, p: int, slot: Slot) -> Iterator[State]:
    if "doubt" not in m.without:
        s = m.write_slot(s, slot._replace(doubt=True))
    yield m.dies(s, p)


@step("leave", "SharedSyncs._leave")
def leave(m: Model, s: State, p: int) -> Iterator[State]:
    yield m.set(s, p, step="acknowledge", claimed=0)._replace(slots=-1)


@step("acknowledge", "SharedSyncs.hide")
def acknowledge(m: Model, s: State, p: int) -> Iterator[State]:
    process = s.processes[p]
    s = m.set(s, p, known=process.own, shown=0, found=None, taken=None)
    s = s._replace(writer=-1 if s.writer == p else s.writer)
    # of one that another process has made, the own edits, too
    names = [*process.own.chain[-1].split("+"), *[f"{p}{process.left}"] * bool(process.taken)]
    for new in acknowledged(m, s, p, names):
        yield m.set(new, p, step="made") if process.takes else new


def acknowledged(m: Model, s: State, p: int, names: Sequence[str]) -> Iterator[State]:
    """The caller of a commit goes on, and makes the next."""
    left = s.processes[p].left - 1
    s = m.set(s, p, step="take" if left else "ended", left=left)
    yield s._replace(acknowledged=tuple(dict.fromkeys([*s.acknowledged, *names])))


@step("made", "Offers.made")
def made(m: Model, s: State, p: int) -> Iterator[State]:
    process = s.processes[p]
    for q in process.takes:
        if (
            s.processes[q].taken == (process.own.version, process.entry)
            or "taken first" in m.without
        ):
            s = m.set(s, q, made=True)
    yield m.set(s, p, step="take" if process.left else "ended", takes=())


@step("ensure.slots", "SharedSyncs._ensure")
def ensure_slots(m: Model, s: State, p: int) -> Iterator[State]:
    if s.slots < 0:
        yield m.set(s, p, step="ensure.write")._replace(slots=p)


@step("ensure.write", "make_durable")
def ensure_write(m: Model, s: State, p: int) -> Iterator[State]:
    slot = m.newest(s)
    if slot.doubt:
        again = range(2 * m.most)
    else:
        listed = (*m.record(s.cache, slot.version).listed, slot.version)
        again = [at for v in listed for at in (v - 1, m.most + v - 1)]
    yield m.set(m.write(s, *((at, s.cache[at]) for at in again)), p, step="ensure.sync", slot=slot)


@step("ensure.sync", "make_durable")
def ensure_sync(m: Model, s: State, p: int) -> Iterator[State]:
    slot = s.processes[p].slot
    for new in m.sync(s, p, "ensure.slot", "doubt.before"):
        written = new.processes[p].step == "ensure.slot"
        yield m.write_slot(new, slot._replace(doubt=False)) if written else new


@step("ensure.slot", "make_durable")
def ensure_slot(m: Model, s: State, p: int) -> Iterator[State]:
    process = s.processes[p]
    for new in m.sync(s, p, process.back, "doubt.before", synced=process.slot.sequence):
        yield new._replace(slots=-1) if new.processes[p].step == "newest.slots" else new


class Explored(NamedTuple):
    """How many states there are, and the first that is wrong, with the steps that lead there."""

    states: int
    violation: str | None = None
    steps: tuple[str, ...] = ()


# the state before each one, and the step between: states by their hashes
Links = dict[int, tuple[int, str] | None]


def explored(
    commits: Sequence[int],
    kills: int = 0,
    failures: int = 0,
    without: Collection[str] = (),
    first: Sequence[int] = (),
    offers: bool = False,
) -> Explored:
    """Try all orders of the steps of writers that make so many commits each, the shortest first.

    `first` are the writers whose steps come first, none of them killed.
    """
    model = Model(commits, without, offers)
    start = model.start(kills, failures)
    for p in first:
        start = next(
            new
            for name, new in model.after(start)
            if name.startswith(f"{p} ") and "killed" not in name
        )
    came: Links = {hash(start): None}
    level = [start]
    while level:
        further: list[State] = []
        for state in level:
            after = [*model.after(state)]
            ended = all(one.step in ("ended", "dead") for one in state.processes)
            if not ended and all(name.endswith("killed") for name, _ in after):
                return Explored(len(came), "nobody can go on", _path(came, state))
            for name, new in after:
                if hash(new) in came:
                    continue
                came[hash(new)] = hash(state), name
                if wrong := model.violation(new, state):
                    return Explored(len(came), wrong, _path(came, new))
                further.append(new)
        level = further
    return Explored(len(came))


def _path(came: Links, state: State) -> tuple[str, ...]:
    steps, at = list[str](), hash(state)
    while link := came[at]:
        at, name = link
        steps.append(name)
    return tuple(reversed(steps))
