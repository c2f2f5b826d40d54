"""Merges, reverts and cherry-picks beside a model of versions as dicts, and what is refused."""

import itertools
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagestore
from pagestore import Store
from pagestore.admin.merge import MERGED, Conflict, Merge
from pagestore.errors import MergeError, MissingError, RetainedError, VersionError
from pagestore.salvage import salvage
from pagestore.store import empty_store
from pagestore.versions.handle import Handle
from tests.support.programs.amounts import times
from tests.support.simulator import FALLBACK, SimulatedFile, crashes

# a crash may leave half a commit
pytestmark = pytest.mark.filterwarnings("ignore::pagestore.errors.RecoveryWarning")
Rows = dict[Any, Any]
State = dict[str, Rows]
RULES = "ours", "theirs", "larger", "sum", None


class Model:
    """Versions as dicts: what each holds, and which ones it contains."""

    def __init__(self, store: Store) -> None:
        self.states: dict[int, State] = {0: {}}
        self.contains: dict[int, set[int]] = {0: {0}}
        self.parents: dict[int, int] = {}
        self.merged: dict[int, int | None] = {}  # the second parents of merges
        self.rules = {0: "[]"}  # what was installed
        self.heads = {"main": 0}
        self.store = store
        self.told: list[tuple[int, int, Merge]] = []  # merges, from and to versions, as dry runs

    def commit(self, branch: str, version: int, state: State, *others: int) -> None:
        """Note a version that a commit has made of a branch's newest one, and of others."""
        if version == self.heads[branch]:
            return
        self.parents[version] = self.heads[branch]
        parts = [self.contains[one] for one in (self.heads[branch], *others)]
        self.rules[version] = self.rules[self.heads[branch]]
        self.merged[version] = others[0] if others else None
        self.states[version], self.contains[version] = state, set.union({version}, *parts)
        self.heads[branch] = version


def three_way(base: State, ours: State, theirs: State, rule: Any) -> State | None:
    """Merge by keys; None where a conflict is left."""
    made: State = {}
    for name in {**base, **theirs, **ours}:
        sides = [state.get(name) for state in (base, ours, theirs)]
        if sides[0] == sides[2]:
            found = sides[1]
        elif sides[0] == sides[1]:
            found = sides[2]
        else:
            assert sides[1] is not None and sides[2] is not None, "no relation is dropped"
            found = {}
            for key in {**sides[1], **sides[2], **(sides[0] or {})}:
                was, mine, yours = ((side or {}).get(key) for side in sides)
                if name == "bag":
                    value: Any = max((mine or 0) + (yours or 0) - (was or 0), 0) or None
                elif was == yours or mine == yours:
                    value = mine
                elif was == mine:
                    value = yours
                elif rule in ("ours", "theirs"):
                    value = mine if rule == "ours" else yours
                elif rule == "larger":
                    value = max(one for one in (mine, yours) if one is not None)
                elif rule == "sum" and None not in (mine, yours):
                    value = mine + yours - (was or 0)
                else:
                    return None
                if value is not None:
                    found[key] = value
        if found is not None:
            made[name] = found
    return made


def shown(snapshot: Any) -> State:
    """The relations of a version as the model has them."""
    state: State = {}
    for name in (one for one in CREATED if one in snapshot):
        rows = [*snapshot[name]]
        if name == "bag":
            state[name] = {row: rows.count(row) for row in rows}
        elif name == "pair":
            state[name] = dict.fromkeys(rows, 1)
        else:
            state[name] = dict(rows)
    return state


CREATED = {
    "text": "k: string, v: int64",
    "pair": "a: int64, b: string",
    "bag": "a: int64, b: string",
}


def edit(txn: Any, state: State, chance: random.Random) -> None:
    """Change some rows, or make or drop a relation, in a transaction and in the model."""
    for _ in range(chance.randrange(1, 4)):
        name = chance.choice([*CREATED])
        if name not in state:
            if name not in txn.base.catalog.relations:
                txn.create(
                    name, CREATED[name], key="k" if name == "text" else None, bag=name == "bag"
                )
                state[name] = {}
            continue
        rows, key = state[name], (chance.randrange(4), f"t{chance.randrange(3)}")
        if name == "text":
            key = f"key {chance.randrange(6)}"  # type: ignore[assignment]
            if chance.random() < 0.3:
                txn[name].delete([(key,)])
                rows.pop(key, None)
            else:
                rows[key] = chance.randrange(-9, 99)
                txn[name].set([(key, rows[key])])
        elif chance.random() < 0.4:
            txn[name].delete([key])
            left = rows.pop(key, 1) - 1
            if name == "bag" and left:
                rows[key] = left
        else:
            txn[name].insert([key])
            rows[key] = rows.get(key, 0) + 1 if name == "bag" else 1


def run(
    seed: int, steps: int, store: Store | None = None, more: Callable[..., None] | None = None
) -> Model:
    """Run a random history of edits, branches, merges, rebases, reverts and picks in a store; call
    `more` after each step with the model, and what is random.
    """
    chance = random.Random(seed)
    with store or pagestore.open(":memory:", retain="all") as store:
        model = Model(store)
        for step in range(steps):
            branch, other = (chance.choice([*model.heads]) for _ in range(2))
            head = model.states[model.heads[branch]]
            action, rule = chance.randrange(11), chance.choice(RULES)
            if action == 0 and len(model.heads) < 4:
                store.branch(f"b{step}", branch)
                model.heads[f"b{step}"] = model.heads[branch]
            elif action <= 3 and branch != other:
                there = model.heads[other]
                common = max(model.contains[there] & model.contains[model.heads[branch]])
                _compare(
                    model,
                    branch,
                    (common, there),
                    rule,
                    lambda *a, o=other, **k: store.merge(o, *a, **k),
                    there,
                )
            elif action <= 5 and model.parents:
                version = chance.choice([*model.parents])
                both = version, model.parents[version]
                back = chance.random() < 0.5
                do = store.revert if back else store.cherry_pick
                both = both if back else both[::-1]
                if all({*model.states[one]} == {*head} for one in both):
                    _compare(
                        model, branch, both, rule, lambda *a, v=version, d=do, **k: d(v, *a, **k)
                    )
            elif action == 6 and "main" != branch != other:
                with suppress(RetainedError):
                    _rebase(model, branch, other, rule)
            else:
                state = {name: dict(rows) for name, rows in head.items()}
                with store.transaction(branch=branch) as txn:
                    edit(txn, state, chance)
                    model.commit(branch, txn.commit(), state)
            if more:
                more(model, chance)
            for name, number in model.heads.items():
                assert shown(store.snapshot(name)) == model.states[number], (seed, step, name)
        assert store.check() == []
    return model


def _compare(
    model: Model, branch: str, both: tuple[int, int], rule: Any, do: Any, *other: int
) -> None:
    """Merge in the store and in the model."""
    base, theirs = (model.states[one] for one in both)
    wanted = three_way(base, model.states[model.heads[branch]], theirs, rule)
    if wanted is None:
        refused = [{"dry_run": True}, {}] if rule else [{}]
        for how in refused:
            with pytest.raises(MergeError, match="and nothing is changed") as error:
                do(branch, on_conflict=rule, **how)
            listed = do(branch, dry_run=True).conflicts
            assert error.value.conflicts and {*error.value.conflicts} <= {*listed}
        return
    tried = do(branch, on_conflict=rule, dry_run=True)
    assert tried.base == both[0] and model.store.branches[branch] == model.heads[branch]
    done = do(branch, on_conflict=rule)
    assert done.conflicts == tried.conflicts
    if done.version != model.heads[branch]:
        [info] = model.store.history(1, branch)
        assert (info.version, info.merged) == (done.version, *(other or (None,)))
        model.told.append((model.heads[branch], done.version, tried))
    model.commit(branch, done.version, wanted, *other)


def _rebase(model: Model, branch: str, onto: str, rule: Any) -> None:
    """Rebase in the store and in the model."""
    store, start, head = model.store, model.heads[onto], model.heads[branch]
    line, known = list[int](), model.contains[start]
    while head not in known:
        line, head = [head, *line], model.parents[head]
    if head == start:
        assert store.rebase(branch, onto).version == model.heads[branch]
        return
    if model.rules[model.heads[branch]] not in (model.rules[head], model.rules[start]):
        with pytest.raises(MergeError, match="has rules or kept views of its own"):
            store.rebase(branch, onto, rule)
        return
    wanted: list[State | None] = [model.states[start]]
    line = [one for one in line if model.merged.get(one) not in known]
    for one in line:
        base, theirs = model.states[model.parents[one]], model.states[one]
        wanted.append(wanted[-1] and three_way(base, wanted[-1], theirs, rule))
    if None in wanted:
        with pytest.raises(MergeError, match="and nothing is changed"):
            store.rebase(branch, onto, rule)
        assert {*store.branches} == {*model.heads}
        return
    tried = store.rebase(branch, onto, rule, dry_run=True)
    done = store.rebase(branch, onto, rule)
    assert done.base == tried.base == head
    assert [one[:5] for one in done.conflicts] == [one[:5] for one in tried.conflicts]
    model.heads[branch] = start
    made = [one for one in reversed(store.history(branch=branch)) if one.version > start]
    assert len(made) <= len(line)
    for info in made:  # steps that changed nothing made no version
        state = shown(store.at(info.version))
        wanted = wanted[wanted.index(state) :]
        model.commit(branch, info.version, state)
    assert wanted[-1] == model.states[model.heads[branch]]
    kept = {info.version for info in store.history()}
    model.parents = {one: parent for one, parent in model.parents.items() if one in kept}


def test_random_histories() -> None:
    """The state of each branch is the model's after every step."""
    for seed in range(times(12)):
        run(seed, 30)


@pytest.mark.campaign
def test_many_random_histories() -> None:
    """Ten thousand of them."""
    for seed in range(10_000):
        run(seed, 30)


def priced(**values: int) -> Store:
    """A store in memory with a price for each name."""
    store = pagestore.open(":memory:")
    with store.transaction() as txn:
        txn.create("price", "item: string, cents: int64, note: string?", key="item")
        txn["price"].insert([(name, cents, None) for name, cents in values.items()])
    return store


def put(store: Store, branch: str, **values: int | None) -> int:
    """Set or delete prices on a branch."""
    with store.transaction(branch=branch) as txn:
        for name, cents in values.items():
            if cents is None:
                txn["price"].delete([(name,)])
            else:
                txn["price"].set([(name, cents, None)])
        return txn.commit()


def test_a_conflict_says_who_made_it() -> None:
    """It has the key, the three values, and the versions that made the values."""
    store = priced(tea=1, pie=2, jam=3)
    store.branch("shop")
    mine = put(store, "main", tea=5)
    put(store, "main", jam=9)
    yours = put(store, "shop", tea=None, jam=9)
    put(store, "shop", pie=8)
    with pytest.raises(MergeError) as error:
        store.merge("shop")
    wanted = Conflict("price", ("tea",), (1, None), (5, None), None, (mine, yours))
    assert error.value.conflicts == (wanted,)
    assert str(error.value) == (
        "shop conflicts in 1 row, and nothing is changed: price['tea'] was 1, None, is 5, None since "
        f"version {mine} here and gone since version {yours} there. Choose with on_conflict=, or edit "
        "one side first"
    )
    seen = []
    done = store.merge("shop", on_conflict={"price": lambda one: seen.append(one) or (7, "both")})
    assert seen == [wanted] and done.conflicts == (wanted,)
    assert [*store.snapshot()["price"]] == [("jam", 9, None), ("pie", 8, None), ("tea", 7, "both")]
    assert store.merge("shop").version == done.version  # there is nothing new


def test_what_is_refused() -> None:
    """Names, rules and versions that mean nothing, and columns that both sides changed."""
    store = priced(tea=1)
    store.branch("shop")
    for call, error, said in (
        (lambda: store.merge("main"), MergeError, "name another branch"),
        (lambda: store.merge("none"), MissingError, "there is no branch 'none'"),
        (
            lambda: store.merge("shop", on_conflict="mine"),
            MergeError,
            "on_conflict='mine': it is one",
        ),
        (lambda: store.revert(0), VersionError, "version 0 is the first"),
    ):
        with pytest.raises(error, match=said):
            call()
    for branch, type_ in (("shop", "int64"), ("main", "float64")):
        with store.transaction(branch=branch) as txn:
            txn.add_column("price", f"b: {type_}", 0)
    with pytest.raises(MergeError, match="both sides changed it: both changed the column 'b'"):
        store.merge("shop")
    with store.transaction(branch="shop") as txn:
        txn.drop("price")
    with pytest.raises(MergeError, match="'price' was dropped there, and changed"):
        store.merge("shop")


def test_schemas_follow_where_one_side_changed_them() -> None:
    """New, dropped and remade relations, renamed columns and new scans, with edits of the other."""
    store = priced(tea=1)
    store.branch("shop")
    with store.transaction(branch="shop") as txn:
        txn.create("new", "x: string").insert([("word",)])
        txn.rename_column("price", "cents", "pence")
        txn.properties["mood"] = "good"
    put(store, "main", pie=2)
    with store.transaction() as txn:
        txn.add_scan("price", "sum:cents")
    store.merge("shop")
    with store.snapshot() as now:
        assert [*now["price"]] == [("pie", 2, None), ("tea", 1, None)] and [*now["new"]] == [
            ("word",)
        ]
        assert now["price"].schema.names == ("item", "pence", "note")
        assert now.properties["mood"] == "good" and now["price"].scan("sum:pence") == 3
    store.merge("main", into="shop")
    with store.transaction(branch="shop") as txn:
        txn.drop("new")
        txn.add_column("price", "b: int64", 4)
        txn["price"].delete([("tea",)])
    assert store.merge("shop", dry_run=True).conflicts == ()
    store.merge("shop")
    assert [*store.snapshot()["price"]] == [("pie", 2, None, 4)] and "new" not in store.snapshot()
    assert store.check() == []


def test_a_merge_reads_and_writes_what_changed() -> None:
    """Pages are bounded by the changes, not by the rows; a dry run writes none."""
    with pagestore.open(":memory:") as store:
        with store.transaction() as txn:
            txn.create("r", "a: int64, b: int64", key="a").bulk(
                [{"a": range(200_000), "b": range(200_000)}]
            )
        store.branch("f")
        for branch, at in (("main", 1), ("f", 100_000)):
            with store.transaction(branch=branch) as txn:
                txn["r"].set([(at + i * 500, -1) for i in range(100)])
        tried = store.merge("f", dry_run=True)
        assert tried.changes["r"].num_rows == 200
        before = store.stat().pages
        assert store.merge("f").conflicts == ()
        assert store.stat().pages - before < 4 * 100
        assert dict(store.snapshot()["r"].range((100_000,), (100_001,))) == {100_000: -1}
        assert len(store.snapshot()["r"]) == 200_000


def test_pages_of_a_merge_by_the_changes_and_the_height(tmp_path: Path) -> None:
    """At most 2 for each change and level are read, and the file grows by no more."""
    for rows, changes in itertools.product((20_000, 200_000), (10, 100)):
        path = tmp_path / f"{rows} {changes}.pages"
        with pagestore.open(path, page_size=4096) as store:
            with store.transaction() as txn:
                keys = np.arange(rows)
                txn.create("r", "a: int64, b: int64", key="a").bulk([{"a": keys, "b": keys}])
            store.branch("f")
            chosen = np.random.default_rng(1).permutation(rows)[: 2 * changes].reshape(2, -1)
            for branch, keys in zip(("main", "f"), chosen, strict=True):
                with store.transaction(branch=branch) as txn:
                    txn["r"].set([(int(key), -1) for key in keys])
        with pagestore.open(path) as store:
            pages, begun = store._handle.mapping.pages, store.stat().pages
            before = pages.seen.copy()
            store.merge("f")
            height = store.snapshot()["r"].tree.height
            read = int((store._handle.mapping.pages.seen[: len(before)] != before).sum())
            most = 2 * 2 * changes * height
            assert read < most and store.stat().pages - begun < most, (rows, changes, read)


def test_merged_versions_are_kept_and_branches_can_go() -> None:
    """The newest common version outlives retention; the tag of a merge goes with its branch."""
    store = priced(tea=1, pie=1)
    store.retain = 2
    store.branch("shop")
    put(store, "shop", pie=5)
    store.merge("shop")
    for cents in range(12):
        put(store, "shop", tea=cents)
        put(store, "main", jam=cents)
    store.vacuum()
    assert store.merge("shop").conflicts == ()
    assert {row[:2] for row in store.snapshot()["price"]} == {("tea", 11), ("pie", 5), ("jam", 11)}
    assert [*store.tags] == ["merged shop into main"]
    store.delete_branch("shop")
    assert store.tags == {} and store.check() == []
    assert "mood" not in store.snapshot().properties


@pytest.mark.parametrize("sync", ["full", "commit"])
@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.campaign)])
def test_a_crash_leaves_a_merge_whole_or_undone(sync: str, stride: int) -> None:
    """Its rows, its parents and the tag that keeps what it merged are one commit."""
    start = empty_store(4096)
    file = SimulatedFile(start)
    store = Store(Handle(file, sync=sync))
    with store.transaction() as txn:
        txn.create("r", "x: int64, y: int64", key="x").insert([(i, 0) for i in range(400)])
    store.branch("b")
    for branch, x in (("main", 1), ("b", 300)):
        with store.transaction(branch=branch) as txn:
            txn["r"].set([(x, 7)])
    before = {branch: dict(store.snapshot(branch)["r"]) for branch in store.branches}
    begun = len(file.operations)
    version = store.merge("b").version
    merged = before["main"] | {300: 7}
    for done, image in islice(crashes(start, file.operations, random.Random(1)), 0, None, stride):
        if done < begun:
            continue
        found = Store(Handle(SimulatedFile(image)))
        rows = dict(found.snapshot()["r"])
        whole = found.version == version
        assert rows == (merged if whole else before["main"])
        assert found.tags == ({"merged b into main": 3} if whole else {})
        assert found.merge("b").version == version
        assert found.history(1)[0].merged == 3
        assert dict(found.snapshot()["r"]) == merged
        assert [v for v in found.check() if v.invariant not in FALLBACK] == []


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.campaign)])
def test_a_crash_leaves_a_branch_as_it_was_or_rebased(stride: int) -> None:
    """What it was is there until all is done, and the rebase can then be done."""
    start = empty_store(4096)
    file = SimulatedFile(start)
    store = Store(Handle(file))
    with store.transaction() as txn:
        txn.create("r", "x: int64, y: int64", key="x").insert([(i, 0) for i in range(400)])
    store.branch("b")
    for branch, x in (("main", 1), ("b", 300), ("b", 301)):
        with store.transaction(branch=branch) as txn:
            txn["r"].set([(x, 7)])
    before = dict(store.snapshot("b")["r"])
    begun = len(file.operations)
    store.rebase("b")
    both = before | {1: 7}
    for done, image in islice(crashes(start, file.operations, random.Random(1)), 0, None, stride):
        if done < begun:
            continue
        found = Store(Handle(SimulatedFile(image)))
        assert dict(found.snapshot("b")["r"]) in (before, both)
        assert found.rebase("b").conflicts == ()
        assert dict(found.snapshot("b")["r"]) == both and [*found.branches] == ["main", "b"]
        assert [v for v in found.check() if v.invariant not in FALLBACK] == []


def test_a_merge_of_a_branch_that_is_gone_is_rebased() -> None:
    """What was merged is brought along, though its versions are not retained."""
    store = priced(tea=1)
    store.branch("shop")
    store.branch("trial")
    put(store, "trial", pie=2)
    put(store, "shop", jam=3)
    store.merge("trial", "shop")
    put(store, "main", tea=5)
    store.rebase("trial", "main", "theirs")
    store.delete_branch("trial")
    store.rebase("shop")
    assert {row[0] for row in store.snapshot("shop")["price"]} == {"tea", "pie", "jam"}
    assert len(store.history(branch="shop")) == 2


def test_what_two_branches_merged_is_kept_for_them() -> None:
    """A branch that both merged stays, so that a merge of the two knows what either took back."""
    store = priced(tea=1)
    store.retain = 1
    for name in ("shop", "trial"):
        store.branch(name)
    put(store, "trial", pie=2)
    store.merge("trial")
    store.revert(store.version)
    store.merge("trial", "shop")
    store.merge("shop", "trial")
    put(store, "trial", jam=3)
    for change in (store.delete_branch, store.rebase):
        with pytest.raises(RetainedError, match="'main' and 'shop' both merged 'trial'"):
            change("trial")
    store.vacuum()
    store.merge("shop")
    assert dict(store.snapshot()["price"]) == {"tea": (1, None)}
    store.delete_branch("trial")
    assert [*store.branches] == ["main", "shop"] and store.check() == []


def test_a_check_reads_what_versions_say_of_merges() -> None:
    """That it reads, and is of versions that came before."""
    for text, said in (
        ("nonsense", "does not read"),
        ('{"version": 1}', "does not read"),
        ('{"version": 2, "with": 1, "lines": {"1": 99}}', "contains version 99"),
        ('{"version": 2, "with": 3, "lines": {"1": 1}}', "contains version 3"),
    ):
        store = priced(tea=1)
        with store.transaction() as txn:
            txn.properties[MERGED] = text
        (found,) = store.check()
        assert found.invariant == "record" and said in str(found), str(found)


def test_copies_with_other_numbers_forget_merges(tmp_path: Any) -> None:
    """A restored dump and a salvaged store number versions anew: what was merged is not said."""
    with pagestore.open(tmp_path / "s.pages") as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([(1,)])
        store.branch("b")
        with store.transaction(branch="b") as txn:
            txn["r"].insert([(2,)])
        store.merge("b")
        assert MERGED in store.snapshot().properties
        store.dump(tmp_path / "dump")
    with pagestore.open(":memory:") as restored:
        restored.restore(tmp_path / "dump")
        assert MERGED not in restored.snapshot().properties
    with (
        pagestore.open(tmp_path / "s.pages", mode="r") as store,
        pagestore.open(tmp_path / "saved.pages") as saved,
    ):
        salvage(store, saved)
        assert MERGED not in saved.snapshot().properties
