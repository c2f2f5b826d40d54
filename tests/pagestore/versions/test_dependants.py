"""Changes of relations that hosts read: followed, by whatever function they are made, or refused
as a whole.
"""

import json

import numpy as np
import pytest

import pagestore
from pagestore.errors import DependantsError, ExistsError, MissingError, WordError
from pagestore.trees.build import bulk
from pagestore.trees.kernels.node_buffer import ERASE, INSERT, SET
from pagestore.trees.tree import Tree
from pagestore.versions import hosts
from pagestore.versions.catalog import PROPERTY, Dependants
from pagestore.versions.hosts import record_dependants, register_host


class Totals:
    """A host that keeps in `totals` how many records each relation has."""

    name, mark = "totals", "totals.mark"

    def __init__(self, reads=("a", "b")):
        self.reads, self.carried, self.told = reads, [], []

    def set_up(self, txn):
        txn.declare_maintained(self.name)
        txn.create("totals", "name: string, n: int64", key="name")
        txn.properties[self.mark] = "1"
        record_dependants(
            txn,
            Dependants(
                self.name,
                self.reads,
                ("totals",),
                (self.mark,),
                "import totals",
                "drop them by hand",
            ),
        )

    def carry(self, txn, before):
        assert all(isinstance(tree, Tree) for tree in before.values())
        self.carried.append(sorted(before))
        txn["totals"].set([(name, len(txn[name])) for name in before])
        return lambda: self.told.append(sorted(before))

    def dependants(self, txn):
        return Dependants(self.name, self.reads, ("totals",), (self.mark,))

    def texts(self, snapshot):
        return []

    def check(self, store, progress):
        return []


@pytest.fixture
def host(monkeypatch):
    monkeypatch.setattr(hosts, "_hosts", {})
    host = Totals()
    register_host(host)
    return host


@pytest.fixture
def store(tmp_path, host):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create("a", "x: int64, y: int64", key="x")
            txn.create_intervals("b", "lo: int64, hi: int64", ("lo", "hi"))
            txn.create("other", "x: int64")
            host.set_up(txn)
        yield store
        assert store.check() == []


def totals(store, branch="main"):
    return dict(store.snapshot(branch)["totals"])


DOORS = {
    "insert": lambda txn: txn["a"].insert([(1, 2), (3, 4)]),
    "set": lambda txn: txn["a"].set([(1, 2)]),
    "add": lambda txn: txn["a"].add([(1, 2)]),
    "item": lambda txn: txn["a"].__setitem__(1, 2),
    "bulk": lambda txn: txn["a"].bulk([[(1, 2)], [(2, 2), (5, 5)]]),
    "words": lambda txn: txn.apply("a", np.array([INSERT, SET]), np.array([[1, 2], [3, 4]])),
    "edit": lambda txn: txn.edit(txn["a"].info, np.array([INSERT]), np.array([[1], [3]])),
    "replace": lambda txn: txn.replace(
        "a", bulk(txn.pager, txn["a"].info.spec, [np.array([[1, 2], [3, 4]])])
    ),
    "after a scan": lambda txn: (txn["a"].insert([(1, 2)]), txn.add_scan("a", "sum:y")),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("branch", ["main", "b"])
def test_the_host_carries_on_what_came_in_by(store, host, door, branch):
    store.branch("b")
    with store.transaction(branch=branch) as txn:
        DOORS[door](txn)
    assert totals(store, branch) == {"a": len(store.snapshot(branch)["a"])}
    assert host.carried == host.told == [["a"]]
    if branch == "b":
        assert totals(store) == {}


@pytest.mark.parametrize("door", DOORS)
def test_without_the_host_nothing_is_changed_by(store, host, door):
    hosts.hosts().clear()
    version, properties = store.version, store.snapshot().properties
    said = r"a was changed, and what totals keeps of it \(totals\) could not follow, .* changed: import totals"
    with pytest.raises(DependantsError, match=said), store.transaction() as txn:
        DOORS[door](txn)
    assert store.version == version and list(store.snapshot()["a"]) == [] and host.carried == []
    assert store.snapshot().properties == properties


OUT = {
    "delete": lambda txn: txn["a"].delete([(1,)]),
    "item": lambda txn: txn["a"].__delitem__(1),
    "words": lambda txn: txn.apply("a", np.array([ERASE]), np.array([[1], [0]])),
    "stabbed": lambda txn: txn["b"].remove_stabbed([5]),
    "overlaps": lambda txn: txn["b"].remove_overlaps([(5, 6)]),
}


@pytest.mark.parametrize("door", OUT)
@pytest.mark.parametrize("loaded", [True, False])
def test_records_that_go(store, host, door, loaded):
    with store.transaction() as txn:
        txn["a"].insert([(1, 2), (3, 4)])
        txn["b"].insert([(1, 9), (20, 21)])
    assert totals(store) == {"a": 2, "b": 2}
    if loaded:
        with store.transaction() as txn:
            OUT[door](txn)
        assert sorted(totals(store).values()) == [1, 2]
        return
    hosts.hosts().clear()
    with pytest.raises(DependantsError, match="could not follow"), store.transaction() as txn:
        OUT[door](txn)
    assert (
        totals(store) == {"a": 2, "b": 2}
        and len(store.snapshot()["a"]) == len(store.snapshot()["b"]) == 2
    )


REFUSED = {
    "drop": (
        lambda txn: txn.drop("a"),
        "'a' was dropped, renamed or replaced, and totals depends on it \\(totals\\)",
    ),
    "anew": (
        lambda txn: (txn.drop("a"), txn.create("a", "x: int64, y: int64", key="x")),
        "'a' was dropped, renamed or replaced, .*drop them by hand",
    ),
    "kept dropped": (
        lambda txn: txn.drop("totals"),
        "'totals' was dropped, renamed or replaced, and it belongs to totals",
    ),
    "kept edited": (
        lambda txn: txn["totals"].set([("a", 7)]),
        "'totals' belongs to totals.*as it follows from a, b",
    ),
    "mark": (
        lambda txn: txn.properties.update({"totals.mark": "2"}),
        "property 'totals.mark' belongs to totals",
    ),
    "record": (
        lambda txn: txn.properties.pop(PROPERTY),
        f"property '{PROPERTY}' says what totals keeps",
    ),
    "clear": (lambda txn: txn.properties.clear(), "property 'totals.mark' belongs to totals"),
    "nonsense": (lambda txn: txn.properties.update({PROPERTY: "{"}), "does not read"),
    "other nonsense": (lambda txn: txn.properties.update({PROPERTY: "[1]"}), "does not read"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("loaded", [True, False])
def test_what_is_refused_with_the_host_or_without(store, what, loaded):
    if not loaded:
        hosts.hosts().clear()
    version = store.version
    change, said = REFUSED[what]
    with pytest.raises(DependantsError, match=said), store.transaction() as txn:
        txn["other"].insert([(1,)])
        change(txn)
    assert store.version == version and list(store.snapshot()["other"]) == []


@pytest.mark.parametrize("loaded", [True, False])
def test_what_goes_on_as_ever(store, host, loaded, tmp_path):
    with store.transaction() as txn:
        txn["a"].insert([(1, 2)])
    del host.carried[:]
    if not loaded:
        hosts.hosts().clear()
    with store.transaction() as txn:
        txn["other"].insert([(1,)])
        txn.properties["mine"] = "x"
    with store.transaction() as txn:
        txn["a"].insert([(1, 2)])  # is there
        txn["a"].set([(9, 9)])
        txn["a"].delete([(9,)])
    with store.transaction() as txn:
        txn.add_scan("a", "sum:y")
        txn.add_scan("totals", "count")
    with store.transaction() as txn:
        txn.drop_scan("a", "sum:y")
        txn.create("more", "x: int64").insert([(1,)])
        with pytest.raises(ZeroDivisionError), txn.savepoint():
            txn["a"].insert([(5, 5)])
            txn.drop("totals")
            raise ZeroDivisionError
    store.tag("t")
    store.branch("b")
    store.vacuum(keep_versions=1)
    store.compact()
    with open(tmp_path / "b", "wb") as out:
        store.backup(out)
    assert (
        totals(store) == {"a": 1} and host.carried == [] and list(store.snapshot()["a"]) == [(1, 2)]
    )


def test_a_host_that_raises_leaves_nothing(store, host):
    def carry(txn, before):
        txn["totals"].set([("a", 99)])
        raise WordError("no")

    host.carry = carry
    with pytest.raises(WordError), store.transaction() as txn:
        txn["a"].insert([(1, 2)])
    assert totals(store) == {} and list(store.snapshot()["a"]) == []


def test_whoever_vouches_is_let_through(store, host):
    with store.transaction() as txn:
        txn.declare_maintained("totals")
        txn["a"].insert([(1, 2)])
        txn["totals"].set([("a", 1)])
    with store.transaction() as txn:
        txn.declare_maintained("somebody")
        txn["a"].insert([(2, 2)])
    assert totals(store) == {"a": 2} and host.carried == [["a"]]


def test_versions_without_a_record_are_asked_for(store, host):
    """An earlier release of the host made the version, which has only its mark."""
    with store.transaction() as txn:
        txn.declare_maintained()
        txn.properties.pop(PROPERTY)
    with store.transaction() as txn:
        txn["a"].insert([(1, 2)])
    assert totals(store) == {"a": 1}
    with pytest.raises(DependantsError, match="'totals' was dropped"), store.transaction() as txn:
        txn.drop("totals")


def test_a_host_that_keeps_nothing_any_more_is_forgotten(store, host):
    with store.transaction() as txn:
        txn.declare_maintained("totals")
        txn.drop("totals")
        del txn.properties["totals.mark"]
        record_dependants(txn, Dependants("totals", (), ()))
    assert json.loads(store.snapshot().properties[PROPERTY]) == []
    with store.transaction() as txn:
        txn["a"].insert([(1, 2)])
        txn.drop("b")
    assert host.carried == []


def test_hosts_keep_out_of_each_others_way(store, host):
    with pytest.raises(ExistsError, match="a host 'totals' already"):
        register_host(Totals())
    register_host(host)
    for reads, keeps in ((("totals",), ("x",)), (("other",), ("totals",)), (("other",), ("a",))):
        with (
            pytest.raises(DependantsError, match="belongs to host 'totals'"),
            store.transaction() as txn,
        ):
            record_dependants(txn, Dependants("second", reads, keeps))
    second = Totals(("a",))
    second.name, second.carry = "second", lambda txn, before: txn["copy"].insert([(1,)]) or None
    register_host(second)
    with store.transaction() as txn:
        txn.create("copy", "x: int64")
        record_dependants(txn, Dependants("second", ("a",), ("copy",)))
    with store.transaction() as txn:
        txn["a"].insert([(1, 2)])
    assert totals(store) == {"a": 1} and list(store.snapshot()["copy"]) == [(1,)]


def test_a_dump_is_restored_with_all_its_versions(store, host, tmp_path):
    for x in range(3):
        with store.transaction() as txn:
            txn["a"].insert([(x, x)])
    with open(tmp_path / "dump", "wb") as out:
        store.dump(out, [line.version for line in store.history()])
    del host.carried[:]
    for name, clear in (("with", False), ("without", True)):
        if clear:
            hosts.hosts().clear()
        with (
            pagestore.open(tmp_path / f"{name}.pages", retain="all") as copy,
            open(tmp_path / "dump", "rb") as source,
        ):
            versions = copy.restore(source)
            assert [dict(copy.at(version)["totals"]) for version in versions[-3:]] == [
                {"a": 1},
                {"a": 2},
                {"a": 3},
            ]
            if clear:
                with pytest.raises(DependantsError), copy.transaction() as txn:
                    txn["a"].insert([(7, 7)])
    assert host.carried == []


def test_relations_that_are_dumped_alone_are_free(store, tmp_path):
    hosts.hosts().clear()
    with open(tmp_path / "dump", "wb") as out:
        store.dump(out, relations=["a"])
    with pagestore.open(tmp_path / "c.pages") as copy, open(tmp_path / "dump", "rb") as source:
        copy.restore(source)
        with copy.transaction() as txn:
            txn["a"].insert([(7, 7)])
            with pytest.raises(MissingError):
                txn["totals"]
