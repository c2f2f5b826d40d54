"""What processes do to a store before the power is cut, and what must be in it afterwards.

A model is what a store holds, as JSON: relations with their rows, tags, branches, and what else
belongs to a workload. A step takes the store and its model, and returns what to do and the model
after it.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import zstandard

import ivm
import pagestore
from tests.test_fixtures import STORES

Model = dict[str, Any]
Step = tuple[Callable[[], object], Model]
OPTIONS: dict[str, Any] = {"page_size": 4096, "threads": 1}
RULES = {
    "main": "e(x, y) -> int(x), int(y). r(x, y) <- e(x, y), x < 20. r(x, z) <- r(x, y), e(y, z), x "
    "< 20.",
    "more": "d[x] = n <- agg<<n = count()>> e(x, _). lone(x) <- e(x, _), !e(_, x).",
    "texts": "t[x] = s -> int(x), string(s). m[] = s <- agg<<s = max(v)>> t[_] = v.",
    "matched": "q(x, y, z) <- e(x, y), e(y, z), e(x, z). p(x, z) <- q(x, _, z), !e(z, x).",
}


def read(store: pagestore.Store) -> Model:
    """What a store holds."""
    found: Model = {"tags": dict(store.tags), "retain": store.retain, "branches": {}}
    for branch in sorted(store.branches):
        with store.snapshot(branch) as snapshot:
            found["branches"][branch] = rows_of(snapshot)
            if branch == "main":
                found["properties"] = {k: v for k, v in snapshot.properties.items() if k == "p"}
    return found


def rows_of(snapshot: pagestore.Snapshot) -> Model:
    """All rows of a version."""
    return {name: sorted(relation) for name, relation in snapshot.items()}


def digest(model: Any) -> str:
    """A model as JSON: rows are equal if and only if their digests are."""
    return json.dumps(model, sort_keys=True, default=str)


class Plain:
    """Rows and texts, in transactions of every size."""

    files: tuple[str, ...] = ("s.pages",)

    def make(self, folder: Path, rng: Random) -> None:
        """Make the files."""
        with pagestore.open(folder / "s.pages", **OPTIONS) as store:
            store.retain = rng.choice([1, 2, 5, "all"])
            with store.transaction() as txn:
                txn.create("r", "k: int64, v: int64", key="k", scans=["count"]).set(
                    [(k, 0) for k in range(300)]
                )
                txn.create("t", "k: int64, t: string", key="k").set([(1, "one"), (2, "x" * 5000)])

    def open(self, folder: Path, **options: Any) -> Any:
        """The store, or a workspace over it."""
        return pagestore.open(folder / "s.pages", threads=1, **options)

    def store(self, opened: Any) -> pagestore.Store:
        """The store of what `open` gave."""
        return opened  # type: ignore[no-any-return]

    def version(self, opened: Any) -> int:
        """The newest version."""
        return self.store(opened).version

    def again(self, opened: Any, folder: Path, **options: Any) -> Any:
        """What to go on with after a failed write: the same, as it says that it should be done."""
        for tries in range(2):
            try:
                self.store(opened).reopen()
                break
            except OSError:
                if tries:
                    raise
        return opened

    def copy(self, folder: Path, image: Path) -> None:
        """Add to an image of the recorded files what else was on the disk."""

    def versions(self, opened: Any) -> Iterator[tuple[int, Any]]:
        """The versions that can be read, and their rows."""
        store = self.store(opened)
        for info in store.history():
            with store.at(info.version) as snapshot:
                yield info.version, self.rows_of(snapshot)

    def read(self, opened: Any) -> Model:
        """What it holds."""
        return read(self.store(opened))

    def newest(self, model: Model) -> Any:
        """The rows of the newest version, as `rows_of` gives those of any."""
        return model["branches"]["main"]

    def rows_of(self, snapshot: pagestore.Snapshot) -> Any:
        """All rows of a version."""
        return rows_of(snapshot)

    def check(self, opened: Any) -> list[Any]:
        """The faults."""
        return self.store(opened).check()

    def go_on(self, opened: Any) -> None:
        """Commit something."""
        with self.store(opened).transaction() as txn:
            txn.create("last", "k: int64").insert([(1,)])

    def step(self, opened: Any, model: Model, rng: Random) -> Step:
        """A random step."""
        return rng.choice([edit, edit, edit, texts, nothing])(opened, deepcopy(model), rng)


def edit(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Set some rows and delete others."""
    rows = dict(model["branches"]["main"]["r"])
    gone = rng.sample(sorted(rows), min(len(rows) // 3, rng.choice([0, 3, 400])))
    fresh = {
        rng.randrange(2000): rng.randrange(1 << 40) for _ in range(rng.choice([1, 3, 60, 1500]))
    }
    after = {k: v for k, v in rows.items() if k not in gone} | fresh
    model["branches"]["main"]["r"] = [[k, v] for k, v in sorted(after.items())]

    def do() -> None:
        with store.transaction() as txn:
            txn["r"].delete([(k,) for k in gone])
            txn["r"].set(sorted(fresh.items()))

    return do, model


def texts(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Set some texts, short and long."""
    fresh = {
        rng.randrange(40): rng.choice("abc") * rng.choice([1, 30, 5000])
        for _ in range(rng.choice([1, 20]))
    }
    rows = dict(model["branches"]["main"]["t"]) | fresh
    model["branches"]["main"]["t"] = [[k, v] for k, v in sorted(rows.items())]

    def do() -> None:
        with store.transaction() as txn:
            txn["t"].set(sorted(fresh.items()))

    return do, model


def nothing(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """A commit that writes no page of a tree."""
    model["properties"] = {"p": str(rng.randrange(10**9))}

    def do() -> None:
        with store.transaction("no rows") as txn:
            txn.properties.update(model["properties"])

    return do, model


class Small(Plain):
    """Prepared rows, mostly one after the other, so that they take the short way."""

    def make(self, folder: Path, rng: Random) -> None:
        """Make the files."""
        super().make(folder, rng)
        self.prepared: dict[int, pagestore.Prepared] = {}

    def step(self, opened: Any, model: Model, rng: Random) -> Step:
        """A random step."""
        if rng.random() < 0.1:
            return super().step(opened, model, rng)
        put = self.prepared.get(id(opened))
        if put is None:
            put = self.prepared[id(opened)] = opened.prepare("r")
        put.clear()  # of a commit that failed
        model = deepcopy(model)
        rows = dict(model["branches"]["main"]["r"])
        for _ in range(rng.randrange(1, 4)):
            k, v = rng.choice([*rows, -2, 5000]), rng.randrange(1 << 40)
            if rng.random() < 0.3:
                put.delete(k)
                rows.pop(k, None)
            else:
                put.set(k, v)
                rows[k] = v
        model["branches"]["main"]["r"] = [[k, v] for k, v in sorted(rows.items())]
        return put.commit, model


class Admin(Plain):
    """Relations that come and go, tags, branches, retention, vacuum and compact."""

    def step(self, opened: Any, model: Model, rng: Random) -> Step:
        """A random step."""
        steps = [
            edit,
            create,
            drop,
            truncate,
            rename,
            tag,
            untag,
            branch,
            delete_branch,
            retain,
            vacuum,
            compact,
        ]
        return rng.choice(steps)(opened, deepcopy(model), rng)


def _changing(
    store: pagestore.Store, change: Callable[[pagestore.Transaction], object]
) -> Callable[[], None]:
    def do() -> None:
        with store.transaction() as txn:
            change(txn)

    return do


def _others(model: Model) -> list[str]:
    return [name for name in model["branches"]["main"] if name[0] == "q"]


def create(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Make a relation, with rows or without."""
    main, rows = model["branches"]["main"], [[k] for k in range(rng.choice([0, 3, 900]))]
    name = next(name for n in range(99) if (name := f"q{n}") not in main)
    main[name] = rows
    return _changing(
        store, lambda txn: txn.create(name, "k: int64").insert([tuple(row) for row in rows])
    ), model


def drop(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Drop a relation."""
    if not _others(model):
        return create(store, model, rng)
    name = rng.choice(_others(model))
    del model["branches"]["main"][name]
    return _changing(store, lambda txn: txn.drop(name)), model


def truncate(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Empty a relation."""
    if not _others(model):
        return create(store, model, rng)
    name = rng.choice(_others(model))
    model["branches"]["main"][name] = []
    return _changing(store, lambda txn: txn.truncate(name)), model


def rename(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Rename a relation."""
    if not _others(model):
        return create(store, model, rng)
    old, new = rng.choice(_others(model)), f"qq{rng.randrange(10**9)}"
    main = model["branches"]["main"]
    main[new] = main.pop(old)
    return _changing(store, lambda txn: txn.rename(old, new)), model


def tag(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Tag the newest version."""
    name = f"t{rng.randrange(10**9)}"
    model["tags"][name] = store.version
    return lambda: store.tag(name), model


def untag(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Remove a tag."""
    if not model["tags"]:
        return tag(store, model, rng)
    name = rng.choice(sorted(model["tags"]))
    del model["tags"][name]
    return lambda: store.untag(name), model


def branch(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Make a branch, or edit the one that exists."""
    if "side" not in model["branches"]:
        model["branches"]["side"] = deepcopy(model["branches"]["main"])
        return lambda: store.branch("side"), model
    key = rng.randrange(10**6)
    rows = dict(model["branches"]["side"]["r"]) | {key: 7}
    model["branches"]["side"]["r"] = [[k, v] for k, v in sorted(rows.items())]

    def do() -> None:
        with store.transaction(branch="side") as txn:
            txn["r"].set([(key, 7)])

    return do, model


def delete_branch(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Delete the branch."""
    if "side" not in model["branches"]:
        return branch(store, model, rng)
    del model["branches"]["side"]
    return lambda: store.delete_branch("side"), model


def retain(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Keep more or fewer versions."""
    model["retain"] = rng.choice([1, 2, 3, 9, "all"])
    return lambda: setattr(store, "retain", model["retain"]), model


def vacuum(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Drop old versions, and cut the file."""
    return lambda: store.vacuum(keep_versions=rng.choice([1, 2, None])), model


def compact(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Write the store anew."""
    return store.compact, model


class Schema(Plain):
    """Columns and scans of a relation that come and go."""

    def make(self, folder: Path, rng: Random) -> None:
        """Make the files."""
        super().make(folder, rng)
        with self.open(folder) as store, store.transaction() as txn:
            txn.create("w", "k: int64", key="k").insert([(k,) for k in range(200)])

    def step(self, opened: Any, model: Model, rng: Random) -> Step:
        """A random step."""
        return rng.choice([edit, change_columns, change_columns, change_scans])(
            opened, deepcopy(model), rng
        )


def change_columns(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Add a column, or drop the last one."""
    main = model["branches"]["main"]
    columns = store.snapshot()["w"].schema.names
    if len(columns) > 1 and rng.random() < 0.5:
        main["w"] = [row[:-1] for row in main["w"]]
        return _changing(store, lambda txn: txn.drop_column("w", columns[-1])), model
    main["w"] = [[*row, len(columns)] for row in main["w"]]
    return _changing(
        store, lambda txn: txn.add_column("w", f"c{len(columns)}: int64", len(columns))
    ), model


def change_scans(store: pagestore.Store, model: Model, rng: Random) -> Step:
    """Add a scan, or drop it."""
    if "sum:v" in store.snapshot()["r"].scans:
        return _changing(store, lambda txn: txn.drop_scan("r", "sum:v")), model
    return _changing(store, lambda txn: txn.add_scan("r", "sum:v")), model


class Upgrade(Plain):
    """A store that an earlier release wrote: the first commit writes the new format."""

    def make(self, folder: Path, rng: Random) -> None:
        """Unpack one of them."""
        fixture = rng.choice([store for store in STORES if store.stat().st_size < 60_000])
        (folder / "s.pages").write_bytes(zstandard.decompress(fixture.read_bytes()))

    def step(self, opened: Any, model: Model, rng: Random) -> Step:
        """A random step."""
        steps = [create, drop, truncate, tag, untag, retain, vacuum, compact]
        return rng.choice(steps)(opened, deepcopy(model), rng)


class Views(Plain):
    """Base relations, and blocks of rules that come and go."""

    def make(self, folder: Path, rng: Random) -> None:
        """Make the files."""
        with ivm.open(folder / "s.pages", retain=rng.choice([1, 3]), **OPTIONS) as workspace:
            workspace.install(RULES["main"])
            if rng.random() < 0.5:
                workspace.install(RULES["matched"], "matched", maintenance="match")
            with workspace.transaction() as txn:
                txn.insert("e", random_edges(rng, 150))

    def open(self, folder: Path, **options: Any) -> ivm.Workspace:
        """A workspace."""
        return ivm.open(folder / "s.pages", threads=1, **options)

    def store(self, opened: Any) -> pagestore.Store:
        """Its store."""
        return opened.store  # type: ignore[no-any-return]

    def again(self, opened: Any, folder: Path, **options: Any) -> Any:
        """Another workspace over the store."""
        return type(opened)(super().again(opened, folder).store)

    def read(self, opened: Any) -> Model:
        """The edges, and which rules there are; of all else `check` says whether it follows from
        them.
        """
        return {"e": sorted(opened["e"]), "blocks": sorted(opened.blocks)}

    def newest(self, model: Model) -> Any:
        """The edges."""
        return model["e"]

    def rows_of(self, snapshot: pagestore.Snapshot) -> Any:
        """The edges of a version."""
        return sorted(snapshot["e"]) if "e" in snapshot else []

    def check(self, opened: Any) -> list[Any]:
        """The faults of the store, and of what is kept of the rules."""
        return [*opened.store.check(), *opened.check()]

    def step(self, opened: Any, model: Model, rng: Random) -> Step:
        """A random step."""
        model = deepcopy(model)
        if rng.random() < 0.3:
            return _install(opened, model, rng)
        gone = rng.sample(model["e"], min(len(model["e"]), rng.choice([0, 1, 5])))
        fresh = random_edges(rng, rng.choice([1, 5, 80]))
        left = {tuple(row) for row in model["e"] if row not in gone}
        model["e"] = sorted(map(list, left | {*fresh}))

        def by_workspace() -> None:
            with opened.transaction() as txn:
                txn.delete("e", [tuple(row) for row in gone])
                txn.insert("e", fresh)

        def by_store() -> None:
            with opened.store.transaction() as txn:
                txn["e"].delete([tuple(row) for row in gone])
                txn["e"].insert(fresh)

        def prepared() -> None:
            put = opened.prepare("e")
            for row in gone:
                put.delete(*row)
            for row in fresh:
                put.insert(*row)
            put.commit()

        return rng.choice([by_workspace, by_store, prepared]), model


def random_edges(rng: Random, n: int) -> list[tuple[int, int]]:
    """Up to `n` edges among 40 nodes, ascending."""
    return sorted({(rng.randrange(40), rng.randrange(40)) for _ in range(n)})


def _install(workspace: ivm.Workspace, model: Model, rng: Random) -> Step:
    name = rng.choice(["more", "texts", "matched"])
    if name in model["blocks"]:
        model["blocks"].remove(name)
        return lambda: workspace.uninstall(name), model
    model["blocks"] = sorted([*model["blocks"], name])
    maintenance = "match" if name == "matched" else "auto"
    return lambda: workspace.install(RULES[name], name, maintenance=maintenance), model
