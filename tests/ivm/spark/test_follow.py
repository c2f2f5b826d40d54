"""Views that follow tables kept elsewhere: change rows, snapshots, feeds; what is taken once,
and what is refused.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import ivm
import pagestore
from ivm.errors import (
    EditError,
    FunctionConflictError,
    OptionError,
    RecomputeError,
    RuleSyntaxError,
    UnknownPredicateError,
    UnknownViewError,
)
from ivm.rules.compile import compile
from ivm.spark.follow import PROGRESS, Feed, refresh
from ivm.spark.materialize import changed_rows

RULES = """edge(x, y) -> int(x), int(y).  name[x] = n -> int(x), string?(n).
tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).
deg[x] = n <- agg<<n = count()>> edge(x, _)."""


def edges(*rows: tuple, **more: list) -> pa.Table:
    return pa.table({"x": [r[0] for r in rows], "y": [r[1] for r in rows], **more})


def truth(rows: set[tuple]) -> tuple[list, list]:
    tri = [(x, y, z) for x, y in rows for a, z in rows if a == y and (x, z) in rows]
    return sorted(tri), sorted((x, sum(a == x for a, _ in rows)) for x in {x for x, _ in rows})


def found(path: Path) -> tuple[list, list]:
    with ivm.open(path, mode="r") as workspace:
        return sorted(workspace["tri"]), sorted(workspace["deg"])


def test_snapshots_are_compared(tmp_path: Path) -> None:
    chance, path = random.Random(1), tmp_path / "v.pages"
    for _ in range(5):
        rows = {(chance.randrange(8), chance.randrange(8)) for _ in range(25)}
        did = refresh(path, "views", RULES, {"edge": edges(*rows)})
        assert found(path) == truth(rows)
    again = refresh(path, "views", RULES, {"edge": edges(*rows)})
    with pagestore.open(path, mode="r") as store:
        assert store.diff(again.before, again.version, "edge").read_all().num_rows == 0
    assert again.before == did.version


def test_change_rows_are_taken_once(tmp_path: Path) -> None:
    """By their commit versions, or by the number of a batch."""
    path = tmp_path / "v.pages"
    feed = {"_change_type": ["insert"] * 3 + ["delete"], "_commit_version": [1, 1, 1, 2]}
    refresh(path, "views", RULES, {"edge": edges((1, 2), (2, 3), (1, 3), (2, 3), **feed)})
    assert found(path) == ([], [(1, 2)])
    refresh(
        path,
        "views",
        RULES,
        {"edge": edges((2, 3), (2, 3), _change_type=["delete", "insert"], _commit_version=[2, 3])},
    )
    assert found(path) == ([(1, 2, 3)], [(1, 2), (2, 1)])
    change = edges((1, 3), _change_type=["delete"])
    assert refresh(path, "views", RULES, {"edge": change}, batch=7).new
    refresh(path, "views", RULES, {"edge": edges((1, 3), _change_type=["insert"])})
    assert not refresh(path, "views", RULES, {"edge": change}, batch=7).new
    assert found(path)[0] == [(1, 2, 3)]
    names = pa.table({"x": [1], "n": ["a"], "_change_type": ["insert"]})
    assert refresh(path, "views", RULES, {"name": names}, batch=0).new  # of another stream
    assert refresh(path, "views", RULES, {"edge": change}, batch=7, query="other").new
    assert not refresh(path, "views", RULES, {"edge": change}, batch=7, query="other").new


def test_a_feed_is_read_from_where_it_was(tmp_path: Path) -> None:
    path, source = tmp_path / "v.pages", tmp_path / "source.pages"
    with pagestore.open(source, retain=4) as store:
        with store.transaction() as txn:
            relation = txn.create("links", "x: int64, y: int64", key=("x", "y"))
            relation.insert([(1, 2), (2, 3)])
        refresh(path, "views", RULES, {"edge": Feed(str(source), "links")}, incremental="strict")
        for row in [(1, 3), (4, 5)]:
            with store.transaction() as txn:
                txn["links"].insert([row])
        refresh(path, "views", RULES, {"edge": Feed(str(source), "links")}, incremental="strict")
        assert found(path) == ([(1, 2, 3)], [(1, 2), (2, 1), (4, 1)])
        for n in range(40):
            with store.transaction() as txn:
                txn["links"].insert([(9, n)])
        with pytest.raises(RecomputeError, match=r"edge: .*not retained|edge: .*version"):
            refresh(
                path, "views", RULES, {"edge": Feed(str(source), "links")}, incremental="strict"
            )
        refresh(path, "views", RULES, {"edge": Feed(str(source), "links")})
        assert found(path)[1][-1] == (9, 40)


def changes(*versions: tuple[int, list[tuple[str, tuple[int, int]]]], **more: list) -> pa.Table:
    """Versions of a table as a change feed tells of them."""
    rows = [(*row, kind, number) for number, some in versions for kind, row in some]
    x, y, kinds, numbers = zip(*rows, strict=True) if rows else ((),) * 4
    types = pa.int64(), pa.int64(), pa.string(), pa.int64()
    columns = [
        pa.array(column, type_) for column, type_ in zip((x, y, kinds, numbers), types, strict=True)
    ]
    return pa.table(
        [*columns, *more.values()], ["x", "y", "_change_type", "_commit_version", *more]
    )


class Table:
    """A table elsewhere, with its versions; rows of one with another `name` are others."""

    def __init__(self, chance: random.Random, name: int) -> None:
        self.chance, self.name = chance, name
        self.rows: set[tuple[int, int]] = set()
        self.versions: list[list[tuple[str, tuple[int, int]]]] = []

    def commit(self) -> None:
        values = range(4 * self.name, 4 * self.name + 4)
        rows = {
            (self.chance.choice(values), self.chance.choice(values))
            for _ in range(self.chance.randrange(1, 4))
        }
        self.versions.append(
            [("delete" if row in self.rows else "insert", row) for row in sorted(rows)]
        )
        self.rows ^= rows

    def changes(self, first: int, last: int | None = None) -> pa.Table:
        return changes(*[*enumerate(self.versions)][first:last])


@pytest.mark.parametrize("seed", range(4))
def test_versions_that_come_again_are_told_from_those_of_a_new_table(
    seed: int, tmp_path: Path
) -> None:
    """Some versions are always read again; a table that is made anew is refused until it comes
    as a snapshot.
    """
    chance, path = random.Random(seed), tmp_path / "v.pages"
    table, taken = Table(chance, 0), 0
    for step in range(12):
        if step % 5 == 4:
            table = Table(chance, step)
        for _ in range(chance.choice([1, 2, 20])):
            table.commit()
        source = table.changes(chance.randrange(taken + 1) if step % 5 != 4 else 0)
        if step % 5 == 4:
            with pytest.raises(
                EditError, match="edge: version 0 .* not newer than .*: the source was made anew"
            ):
                refresh(path, "views", RULES, {"edge": source}, sync="off")
            source, taken = edges(*table.rows), 0
        else:
            taken = len(table.versions)
        refresh(path, "views", RULES, {"edge": source}, sync="off")
        assert found(path) == truth(table.rows)
        if taken:
            older = chance.randrange(max(0, taken - 16), taken)
            refresh(path, "views", RULES, {"edge": table.changes(older, older + 3)}, sync="off")
            assert found(path) == truth(table.rows)


def test_what_makes_a_new_table_of_the_same_rows_another_one(tmp_path: Path) -> None:
    """Its versions come at other times."""
    path, moments = (
        tmp_path / "v.pages",
        [pa.array([n, n], pa.timestamp("us", "UTC")) for n in (5, 6)],
    )
    first, later = (
        changes((0, [("insert", (1, 2)), ("insert", (2, 3))]), _commit_timestamp=moment)
        for moment in moments
    )
    for _ in range(2):
        refresh(path, "views", RULES, {"edge": first})
    with pytest.raises(EditError, match="version 0 of the changes is not newer than 0"):
        refresh(path, "views", RULES, {"edge": later})


def test_versions_that_are_null_are_refused(tmp_path: Path) -> None:
    rows = edges((1, 2), (2, 3), _change_type=["insert"] * 2, _commit_version=[1, None])
    with pytest.raises(EditError, match="edge: _commit_version is null in 1 row"):
        refresh(tmp_path / "v.pages", "views", RULES, {"edge": rows})


def test_cursors_of_an_earlier_release(tmp_path: Path) -> None:
    """They have a number alone: older versions of rows are left out as they were, a feed is read
    whole.
    """
    path, source = tmp_path / "v.pages", tmp_path / "source.pages"
    refresh(path, "views", RULES, {"edge": changes((3, [("insert", (1, 2))]))})
    with pagestore.open(path) as store, store.transaction() as txn:
        txn.properties[PROGRESS] = '{"before": 1, "cursors": {"edge": 3}, "batches": {}}'
    refresh(
        path,
        "views",
        RULES,
        {"edge": changes((3, [("insert", (1, 2))]), (4, [("insert", (2, 3))]))},
    )
    assert found(path)[1] == [(1, 1), (2, 1)]
    with pagestore.open(path) as store, store.transaction() as txn:
        txn.properties[PROGRESS] = '{"before": 1, "cursors": {"edge": 0}, "batches": {}}'
    make(source, (5, 6))
    with pytest.raises(RecomputeError, match="did not note which store"):
        refresh(path, "views", RULES, {"edge": Feed(str(source), "links")}, "strict")
    refresh(path, "views", RULES, {"edge": Feed(str(source), "links")})
    assert found(path)[1] == [(5, 1)]


def make(
    path: Path, *versions: tuple[int, int], name: str = "links", key: tuple[str, ...] = ("x", "y")
) -> None:
    """Add a version with one more row each to a relation of a store."""
    with pagestore.open(path, retain="all") as store:
        for row in versions:
            with store.transaction() as txn:
                if name not in txn:
                    txn.create(name, "x: int64, y: int64", key=key)
                txn[name].insert([row])


def anew(path: Path, copy: Path) -> Feed:
    """Another file at the path, with more versions."""
    path.unlink()
    make(path, *[(4, n) for n in range(5)])
    return Feed(str(path), "links")


def apart(path: Path, copy: Path) -> Feed:
    """A copy of the file that went another way, and further."""
    shutil.copy(copy, path)
    make(path, (4, 5), (5, 6), (4, 6))
    return Feed(str(path), "links")


def older(path: Path, copy: Path) -> Feed:
    """A copy of the file as it was before."""
    shutil.copy(copy, path)
    return Feed(str(path), "links")


def dropped(path: Path, copy: Path) -> Feed:
    """Another relation of the name."""
    with pagestore.open(path) as store, store.transaction() as txn:
        txn.drop("links")
    make(path, (4, 5), key=("x",))
    return Feed(str(path), "links")


def renamed(path: Path, copy: Path) -> Feed:
    """A relation that was not there before."""
    make(path, (4, 5), (4, 6), name="later")
    return Feed(str(path), "later")


def other(path: Path, copy: Path) -> Feed:
    """Another relation, which was there before."""
    return Feed(str(path), "others")


def elsewhere(path: Path, copy: Path) -> Feed:
    """Another file."""
    make(path.with_name("elsewhere.pages"), *[(4, n) for n in range(5)])
    return Feed(str(path.with_name("elsewhere.pages")), "links")


def forgotten(path: Path, copy: Path) -> Feed:
    """The same file, of which too much has happened since."""
    make(path, (4, 5), (4, 6))
    with pagestore.open(path) as store:
        store.vacuum(keep_versions=1)
    return Feed(str(path), "links")


@pytest.mark.parametrize(
    "become", [anew, apart, older, dropped, renamed, other, elsewhere, forgotten]
)
def test_a_feed_that_cannot_go_on_is_compared(
    become: Callable[[Path, Path], Feed], tmp_path: Path
) -> None:
    """And refused, where it shall go on."""
    path, source, copy = tmp_path / "v.pages", tmp_path / "source.pages", tmp_path / "copy.pages"
    make(source, (7, 8), name="others")
    make(source, (1, 2), (2, 3))
    shutil.copy(source, copy)
    make(source, (1, 3))
    refresh(path, "views", RULES, {"edge": Feed(str(source), "links")}, "strict")
    before, feed = found(path), become(source, copy)
    with pytest.raises(
        RecomputeError,
        match="edge: .*; with incremental='auto' the whole relation is read and comp",
    ):
        refresh(path, "views", RULES, {"edge": feed}, "strict")
    assert found(path) == before == truth({(1, 2), (2, 3), (1, 3)})
    refresh(path, "views", RULES, {"edge": feed})
    with pagestore.open(feed.path, mode="r") as store:
        rows = {*store.snapshot()[feed.relation]}
    assert found(path) == truth(rows)
    make(Path(feed.path), (2, 9), name=feed.relation)
    refresh(path, "views", RULES, {"edge": feed}, "strict")
    assert found(path) == truth({*rows, (2, 9)})


def test_rows_without_a_key_are_not_followed(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.sql("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (1)")
    feed, rules = Feed(str(tmp_path / "s.pages"), "t"), "t(a) -> int(a). v(a) <- t(a)."
    with pytest.raises(
        EditError,
        match="t of .* may have equal rows, and a feed is followed by its key: give it one",
    ):
        refresh(tmp_path / "v.pages", "v", rules, {"t": feed})
    with pytest.raises(
        EditError, match="t may have equal rows, and those of a source are told apart by a key"
    ):
        refresh(
            tmp_path / "s.pages",
            "v",
            "v(a) <- t[a] = _.",
            {"t": pa.table({"a": [1], "_change_type": ["insert"]})},
        )


def test_a_feed_of_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"edge: there is no store .*no\.pages to follow"):
        refresh(
            tmp_path / "v.pages",
            "views",
            RULES,
            {"edge": Feed(str(tmp_path / "no.pages"), "links")},
        )


@pytest.mark.parametrize("rules", ["", RULES, RULES + " far(x, z) <- edge(x, y), edge(y, z)."])
def test_a_first_refresh_that_was_killed_begins_again(rules: str, tmp_path: Path) -> None:
    """Before its rules were installed, or after that, and then also with other rules."""
    path, many = tmp_path / "v.pages", [(n, n + 1) for n in range(300)]
    with ivm.open(path) as workspace:
        if rules:
            workspace.install(rules, "views")
    assert refresh(path, "views", RULES, {"edge": edges(*many)}, incremental="strict").new
    assert found(path) == truth({*many})


def test_strict_refuses_what_is_evaluated_anew(tmp_path: Path) -> None:
    path = tmp_path / "v.pages"
    many = [(n, n + 1) for n in range(20_000)]
    assert refresh(
        path, "views", RULES, {"edge": edges(*many)}, incremental="strict"
    ).recomputed == ("deg", "tri")
    kept = found(path)
    small = edges((0, 2), _change_type=["insert"])
    assert refresh(path, "views", RULES, {"edge": small}, incremental="strict").recomputed == ()
    large = edges(*many, _change_type=["delete"] * 20_000)
    with pytest.raises(RecomputeError, match="following it would cost more"):
        refresh(path, "views", RULES, {"edge": large}, incremental="strict")
    assert found(path) == ([(0, 1, 2)], [(0, 2), *kept[1][1:]])
    assert refresh(path, "views", RULES, {"edge": large}).recomputed
    more = RULES + " far(x, z) <- edge(x, y), edge(y, z)."
    with pytest.raises(RecomputeError, match="the rules of views are others"):
        refresh(path, "views", more, {}, incremental="strict")
    refresh(path, "views", more, {"edge": edges((2, 7), _change_type=["insert"])})
    with ivm.open(path) as workspace:
        assert [*workspace["far"]] == [(0, 7)]
        assert workspace.check() == []


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        ("int", pa.array(["7"])),
        ("int", pa.array([True])),
        ("int", pa.array([7], pa.timestamp("us"))),
        ("int", pa.array([7], pa.duration("us"))),
        ("int", pa.array([1.5])),
        ("string", pa.array([7])),
        ("string", pa.array([b"caf\xe9"]).view(pa.string())),
        ("date", pa.array([7], pa.timestamp("us", "Europe/Berlin"))),
        ("datetime", pa.array([7], pa.timestamp("us", "Europe/Berlin"))),
        ("datetime", pa.array([7], pa.timestamp("ns"))),
        ("decimal(4, 1)", pa.array([0.1])),
        ("float", pa.array([2**53 + 1])),
        ("bool", pa.array([1])),
    ],
)
def test_a_source_whose_type_has_changed_is_refused(type_, column, tmp_path: Path) -> None:
    with pytest.raises(EditError, match=r"r: column 'x'.*: "):
        refresh(
            tmp_path / "v.pages",
            "views",
            f"r(x) -> {type_}(x). s(x) <- r(x).",
            {"r": pa.table({"x": column})},
        )


@pytest.mark.parametrize(
    ("sources", "options", "error", "says"),
    [
        (
            {"tri": edges((1, 2))},
            {},
            UnknownViewError,
            "tri is not a declared relation: there are edge, name",
        ),
        ({"edge": pa.table({"x": [1]})}, {}, EditError, "edge has the columns x, y"),
        ({"edge": edges((1, 2))}, {"incremental": "always"}, OptionError, "auto or strict"),
        (
            {"name": pa.table({"x": [1, 1], "n": ["a", "b"]})},
            {},
            FunctionConflictError,
            "'a' and 'b'|'b' and 'a'",
        ),
    ],
)
def test_what_is_refused_changes_nothing(sources, options, error, says, tmp_path: Path) -> None:
    path = tmp_path / "v.pages"
    refresh(path, "views", RULES, {"edge": edges((5, 6))})
    with pytest.raises(error, match=says):
        refresh(path, "views", RULES, sources, **options)
    assert found(path) == ([], [(5, 1)])


FAR = "far(x, z) <- edge(x, y), edge(y, z)."
# rules that take the place of RULES, changes that come with them, and what is refused; None for
# nothing
OTHER = [
    (RULES + FAR, {"edge": edges((1, 3))}, None),
    (RULES + FAR, {}, None),
    (RULES.replace("count()", "count() "), {"edge": edges((1, 3))}, None),
    (RULES.replace("tri(", "triangle("), {"edge": edges((1, 2), _change_type=["delete"])}, None),
    (RULES + "seven[x] = 7 <- edge(x, _).", {"name": pa.table({"x": [1], "n": ["a"]})}, None),
    (RULES + "far(x, z) <- edge(x y).", {"edge": edges((1, 3))}, RuleSyntaxError),
    (RULES + "far(x, z) <- edges(x, z).", {"edge": edges((1, 3))}, UnknownPredicateError),
    (RULES + "end[x] = y <- edge(x, y).", {"edge": edges((1, 2), (1, 3))}, FunctionConflictError),
    (RULES + FAR, {"name": pa.table({"x": [1, 1], "n": ["a", "b"]})}, FunctionConflictError),
    (RULES + FAR, {"edge": pa.table({"x": ["a"], "y": [1]})}, EditError),
    (RULES + FAR, {"far": edges((1, 3))}, UnknownViewError),
]


@pytest.mark.parametrize(("rules", "changes", "error"), OTHER)
@pytest.mark.parametrize("is_first", [True, False])
def test_rules_and_rows_change_in_one_commit_or_not_at_all(
    rules, changes, error, is_first, tmp_path: Path
) -> None:
    """At each version there are all views, of all rows."""
    path = tmp_path / "v.pages"
    if not is_first:
        refresh(path, "views", RULES, {"edge": edges((1, 2), (2, 3))}, retain="all")
    before = state(path)
    if error:
        with pytest.raises(error):
            refresh(path, "views", rules, changes, retain="all")
        assert state(path) == before
        return
    did = refresh(path, "views", rules, changes, retain="all")
    assert (did.version, did.before) == (before[0] + 1, before[0])
    with ivm.open(path) as workspace, ivm.open(":memory:") as anew:
        assert workspace.check() == [] and workspace.blocks == {"views": rules}
        anew.install(rules, "views")
        with anew.transaction() as txn:
            for name in "edge", "name":
                txn.insert(name, workspace[name].to_arrow())
        assert {name: [*workspace[name]] for name in workspace} == {
            name: [*anew[name]] for name in anew
        }
        assert [info.version for info in workspace.store.history()] == [*range(did.version, -1, -1)]


def state(path: Path) -> tuple[int, dict[str, str], dict[str, list]]:
    """The version, the rules and all rows of a workspace, which a refresh that is refused may
    have made.
    """
    with ivm.open(path) as workspace:
        return (
            workspace.store.version,
            workspace.blocks,
            {name: [*workspace[name]] for name in workspace},
        )


def test_rules_that_change_with_a_batch_that_was_taken(tmp_path: Path) -> None:
    """The rules are replaced, and the batch is not taken again."""
    path, change = tmp_path / "v.pages", edges((1, 2), _change_type=["insert"])
    refresh(path, "views", RULES, {"edge": change}, batch=3)
    refresh(path, "views", RULES, {"edge": edges((1, 2), _change_type=["delete"])})
    did = refresh(path, "views", RULES + FAR, {"edge": change}, batch=3)
    assert not did.new and did.recomputed == ("far",)
    assert state(path)[2] == {"edge": [], "name": [], "tri": [], "deg": [], "far": []}


def test_what_a_refresh_changed_of_views_of_other_rules(tmp_path: Path) -> None:
    """The rows that came and went; all rows of a view that has other columns."""
    path = tmp_path / "v.pages"
    refresh(path, "views", RULES + FAR, {"edge": edges((1, 2), (2, 3), (3, 4))})
    other = RULES.replace("edge(x, _)", "edge(_, x)") + "far(x, y, z) <- edge(x, y), edge(y, z)."
    did = refresh(path, "views", other, {"edge": edges((4, 5), _change_type=["insert"])})
    found = {
        name: sorted(
            map(tuple, (row.values() for row in changed_rows(path, predicate, did).to_pylist()))
        )
        for name, predicate in compile(other).predicates.items()
        if name in ("edge", "deg", "far")
    }
    assert found == {
        "edge": [(4, 5, "insert", did.version)],
        "deg": [(1, 1, "delete", did.version), *((n, 1, "insert", did.version) for n in (4, 5))],
        "far": [(n, n + 1, n + 2, "insert", did.version) for n in (1, 2, 3)],
    }


def test_a_function_without_keys(tmp_path: Path) -> None:
    """It has one value, which an insertion replaces."""
    path, rules = (
        tmp_path / "v.pages",
        "limit[] = n -> int(n). e(x) -> int(x). top(x) <- e(x), limit[] = x.",
    )
    refresh(path, "views", rules, {"e": pa.table({"x": [1, 2, 3]})})
    for kinds, values, left in (
        (["insert"], [1], [(1,)]),
        (["insert"], [2], [(2,)]),
        (["delete", "insert"], [2, 3], [(3,)]),
        (["delete"], [3], []),
    ):
        refresh(path, "views", rules, {"limit": pa.table({"n": values, "_change_type": kinds})})
        assert state(path)[2]["limit"] == state(path)[2]["top"] == left
    with pytest.raises(FunctionConflictError, match=r"limit\[\] got two values, 1 and 2"):
        refresh(path, "views", rules, {"limit": pa.table({"n": [1, 2]})})
