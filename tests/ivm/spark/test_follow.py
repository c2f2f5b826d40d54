"""Views that follow tables kept elsewhere: change rows, snapshots, feeds; what is taken once, and what is refused."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

import ivm
import pagestore
from ivm.errors import EditError, FunctionConflictError, OptionError, RecomputeError, UnknownViewError
from ivm.spark.follow import Feed, refresh

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
        path, "views", RULES, {"edge": edges((1, 2), (2, 3), _change_type=["delete", "insert"], _commit_version=[2, 3])}
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
            refresh(path, "views", RULES, {"edge": Feed(str(source), "links")}, incremental="strict")
        refresh(path, "views", RULES, {"edge": Feed(str(source), "links")})
        assert found(path)[1][-1] == (9, 40)


def test_strict_refuses_what_is_evaluated_anew(tmp_path: Path) -> None:
    path = tmp_path / "v.pages"
    many = [(n, n + 1) for n in range(300)]
    assert refresh(path, "views", RULES, {"edge": edges(*many)}, incremental="strict").recomputed == ("deg", "tri")
    kept = found(path)
    small = edges((0, 2), _change_type=["insert"])
    assert refresh(path, "views", RULES, {"edge": small}, incremental="strict").recomputed == ()
    large = edges(*many, _change_type=["delete"] * 300)
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
    ("sources", "options", "error", "says"),
    [
        ({"tri": edges((1, 2))}, {}, UnknownViewError, "tri is no declared relation"),
        ({"edge": pa.table({"x": [1]})}, {}, EditError, "edge has the columns x, y"),
        ({"edge": edges((1, 2))}, {"incremental": "always"}, OptionError, "auto or strict"),
        ({"name": pa.table({"x": [1, 1], "n": ["a", "b"]})}, {}, FunctionConflictError, "'a' and 'b'|'b' and 'a'"),
    ],
)
def test_what_is_refused_changes_nothing(sources, options, error, says, tmp_path: Path) -> None:
    path = tmp_path / "v.pages"
    refresh(path, "views", RULES, {"edge": edges((5, 6))})
    with pytest.raises(error, match=says):
        refresh(path, "views", RULES, sources, **options)
    assert found(path) == ([], [(5, 1)])
