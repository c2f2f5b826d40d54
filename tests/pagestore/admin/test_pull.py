"""Copies of a store that pull and push branches, beside a model that counts what each has seen."""

import random
import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

import pagestore
from pagestore import Store
from pagestore.errors import MergeError, MissingError
from pagestore.salvage import salvage
from pagestore.store import empty_store
from pagestore.versions.handle import Handle
from tests.support.programs.amounts import times
from tests.support.simulator import FALLBACK, SimulatedFile, crashes

SCHEMA = {
    "text": "k: string, v: int64",
    "pair": "a: int64, b: string",
    "bag": "a: int64, b: string",
}


def begin(path: Path) -> None:
    """Make a store with a keyed relation, a set and a bag."""
    with pagestore.open(path) as store, store.transaction() as txn:
        for name, columns in SCHEMA.items():
            txn.create(name, columns, key="k" if name == "text" else None, bag=name == "bag")


class Copy:
    """A copy, how many of the edits of each copy it has, and the rows that its own edits made."""

    def __init__(self, store: Store, number: int, copies: int) -> None:
        self.store, self.number = store, number
        self.seen = [0] * copies
        self.made: list[dict[str, list[tuple[object, ...]]]] = [{name: [] for name in SCHEMA}]

    def edit(self, chance: random.Random) -> None:
        """Change rows that no other copy changes."""
        rows = {name: [*there] for name, there in self.made[-1].items()}
        with self.store.transaction() as txn:
            for _ in range(chance.randrange(1, 4)):
                name, n = chance.choice([*SCHEMA]), chance.randrange(6)
                key: tuple[object, ...] = (self.number, f"t{n} of {chance.randrange(9)}")
                if name == "text":
                    key = f"{self.number} key {n}", chance.randrange(9)
                    rows[name] = [one for one in rows[name] if one[0] != key[0]]
                    txn[name].set([key])
                elif key in rows[name] and (name == "pair" or chance.random() < 0.5):
                    txn[name].delete([key])
                    rows[name].remove(key)
                    continue
                else:
                    txn[name].insert([key])
                rows[name].append(key)
            txn.commit()
        self.made.append(rows)
        self.seen[self.number] += 1

    def check(self, copies: Sequence["Copy"]) -> None:
        """The rows are those of the edits seen."""
        with self.store.snapshot() as now:
            for name in SCHEMA:
                wanted = [
                    row
                    for one, seen in zip(copies, self.seen, strict=True)
                    for row in one.made[seen][name]
                ]
                assert [*now[name]] == sorted(wanted, key=repr), name


def run(seed: int, folder: Path, steps: int = 12) -> None:
    """A hub and two copies that exchange with it at random, and reopen."""
    chance = random.Random(seed)
    path = folder / f"{seed} 0.pages"
    begin(path)
    for number in (1, 2):
        shutil.copy(path, folder / f"{seed} {number}.pages")
    paths = [folder / f"{seed} {number}.pages" for number in range(3)]
    copies = [Copy(pagestore.open(one, sync="off"), i, 3) for i, one in enumerate(paths)]
    for _ in range(steps):
        one, hub = copies[chance.randrange(1, 3)], copies[0]
        action = chance.randrange(5)
        here, there = (one, hub) if chance.random() < 0.5 else (hub, one)
        joined = [max(both) for both in zip(here.seen, there.seen, strict=True)]
        if action <= 2:
            chance.choice(copies).edit(chance)
        elif action == 3:
            here.store.pull(there.store)
            here.seen = joined
        elif joined == here.seen:
            here.store.push(there.store)
            there.seen = joined
        else:
            with pytest.raises(MergeError, match="lacks, and nothing is changed: pull them there"):
                here.store.push(there.store)
        for copy in copies:
            copy.check(copies)
    for copy in copies:
        assert copy.store.check() == []
        copy.store.close()


def test_random_exchanges(tmp_path: Path) -> None:
    """Each copy has the rows of the edits that it has seen, and no conflict is made up."""
    for seed in range(times(4)):
        run(seed, tmp_path)


@pytest.mark.campaign
def test_many_random_exchanges(tmp_path: Path) -> None:
    """Two thousand of them."""
    for seed in range(2000):
        run(seed, tmp_path, 30)


def test_what_is_not_common_is_refused(tmp_path: Path) -> None:
    """Another store, this one itself, and a copy whose common versions are gone."""
    begin(tmp_path / "a.pages")
    shutil.copy(tmp_path / "a.pages", tmp_path / "b.pages")
    begin(tmp_path / "c.pages")
    a, b, c = (pagestore.open(tmp_path / f"{name}.pages", retain=2) for name in "abc")
    with a, b, c:
        with pytest.raises(MergeError, match="is not a copy of .*copy the file"):
            a.pull(c)
        with pytest.raises(MergeError, match="is this store itself: use merge"):
            a.pull(a.on("main"))
        with pytest.raises(MissingError, match="there is no branch 'none'; there is main"):
            a.pull(b, "none")
        for store in (a, b):
            for number in range(9):
                with store.transaction() as txn:
                    txn["text"].set([(store.path.name, number)])
            store.vacuum()
        with pytest.raises(MergeError, match="no version in common that both retain"):
            a.pull(b)
        assert [*a.branches] == ["main"]


def test_a_pull_reads_and_writes_what_changed(tmp_path: Path) -> None:
    """A few pages for each change, on either branch, and not those of all rows."""
    with pagestore.open(tmp_path / "a.pages") as a, a.transaction() as txn:
        txn.create("r", "a: int64, b: int64", key="a").bulk(
            [{"a": range(400_000), "b": range(400_000)}]
        )
    shutil.copy(tmp_path / "a.pages", tmp_path / "b.pages")
    with pagestore.open(tmp_path / "a.pages") as a, pagestore.open(tmp_path / "b.pages") as b:
        with b.transaction() as txn:
            txn["r"].set([(n * 100_000, -1) for n in range(4)])
        before = a.stat()
        a.pull(b)
        used = a.stat().pages - a.stat().free - (before.pages - before.free)
        assert 4 < used < 2 * 4 * 4 < before.pages / 4
        assert [value for _, value in a.snapshot()["r"]].count(-1) == 4


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.campaign)])
def test_a_crash_leaves_a_pull_to_be_done_again(stride: int) -> None:
    """Main has none of it or all; the next pull does what is left, once."""
    origin = SimulatedFile(empty_store(4096))
    with Store(Handle(origin)) as store, store.transaction() as txn:
        txn.create("r", "x: int64", bag=True).insert([(1,), (1,)])
    start = bytes(origin.content())
    file, other = SimulatedFile(start), SimulatedFile(start)
    other.path = Path("other.pages")
    store, there = Store(Handle(file)), Store(Handle(other))
    for one, row in ((store, (2,)), (there, (3,))):
        with one.transaction() as txn:
            txn["r"].insert([row])
    begun = len(file.operations)
    store.pull(there)
    for done, image in islice(crashes(start, file.operations, random.Random(1)), 0, None, stride):
        if done < begun:
            continue
        found = Store(Handle(SimulatedFile(image)))
        assert [*found.snapshot()["r"]] in ([(1,), (1,), (2,)], [(1,), (1,), (2,), (3,)])
        found.pull(there)
        assert [*found.snapshot()["r"]] == [(1,), (1,), (2,), (3,)]
        assert [v for v in found.check() if v.invariant not in FALLBACK] == []


KINDS = {  # schemas, keys and rows of relations of each kind
    "a bag": ("x: int64?, s: string?", None, [(1, "a"), (1, "a"), (None, None), (2, None)] * 3),
    "a bag of ranges": ("x: int64", None, [(n % 7,) for n in range(200_000)]),
    "a key": ("k: int64, s: string?", "k", [(1, None), (2, "a")]),
    "a key that may be null": ("k: int64?, n: int64", "k", [(None, 1), (3, 4)]),
    "all columns": ("a: string, b: int64", None, [("a", 1), ("a", 2)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_salvage_and_pull_copy_relations_of_all_kinds(kind, tmp_path):
    schema, key, rows = KINDS[kind]
    with pagestore.open(tmp_path / "a.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create("before", "x: int64")
        shutil.copy(tmp_path / "a.pages", tmp_path / "pulled.pages")
        with store.transaction() as txn:
            bag = "bag" in kind
            txn.create("t", schema, key, bag=bag, keys_null=True).insert(rows)
        with (
            pagestore.open(tmp_path / "saved.pages", sync="off") as saved,
            pagestore.open(tmp_path / "pulled.pages", sync="off") as pulled,
        ):
            assert salvage(store, saved)[1] == []
            pulled.pull(store)
            for copy in (saved, pulled):
                with copy.snapshot() as snap:
                    assert sorted(snap["t"], key=repr) == sorted(rows, key=repr)
                    assert (
                        snap["t"].info.bag == bag
                        and snap["t"].schema == store.snapshot()["t"].schema
                    )
                assert copy.check() == []


def test_a_pull_knows_all_that_the_other_branch_contains(tmp_path: Path) -> None:
    """Its rows are those of a version here, which is of another branch than that which follows."""
    with pagestore.open(tmp_path / "s.pages") as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([(1,)])
        store.branch("b")
        for branch, x in (("main", 2), ("b", 3)):
            with store.transaction(branch=branch) as txn:
                txn["r"].insert([(x,)])
        shutil.copy(tmp_path / "s.pages", tmp_path / "copy.pages")
        store.merge("b")
        store.revert(2)
        with pagestore.open(tmp_path / "copy.pages") as copy:
            for _ in range(2):
                version = copy.pull(store).version
                assert [*copy.snapshot()["r"]] == [*store.snapshot()["r"]] == [(1,), (3,)]
            assert copy.version == version == 5 and copy.check() == []
