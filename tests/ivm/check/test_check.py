"""All that is kept for rules, compared with what follows from relations: nothing is found where
nothing is wrong, and each kind of damage is found by its name.
"""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import ConstructError, DivergenceError, FunctionConflictError
from pagestore.trees.kernels.node_buffer import ERASE, INSERT, SET
from pagestore.trees.read import read_batches
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times
from tests.support.strategies import FULL, cases

relaxed = settings(max_examples=times(8), suppress_health_check=list(HealthCheck))
thorough = settings(max_examples=1500, suppress_health_check=list(HealthCheck))
ways = st.fixed_dictionaries(
    {
        "maintenance": st.sampled_from(["match", "match", "auto", "probe"]),
        "granularity": st.sampled_from([1, 1, 2, 5]),
    }
)


def sound(case: tuple[str, list], options: dict) -> None:
    """After each transaction there is nothing to find."""
    text, transactions = case
    with tempfile.TemporaryDirectory() as folder:
        try:
            mirror = Mirror(Path(folder) / "store.pages", text, **options)
        except ConstructError:
            reject()
        for edits in transactions:
            mirror.change(edits)
            assert mirror.workspace.check() == []
        kept = mirror.workspace._rules_now().program.predicates  # views of bodies may be left out
        for name, predicate in mirror.program.predicates.items():
            if not predicate.extensional and name in kept:
                mirror.workspace.verify(name)
        mirror.close()


@relaxed
@given(cases(FULL, count_max=8), ways)
def test_nothing_is_found_where_nothing_is_wrong(case, options):
    sound(case, options)


@pytest.mark.campaign
@thorough
@given(cases(FULL, count_max=12), ways)
def test_nothing_is_found_where_nothing_is_wrong_at_length(case, options):
    sound(case, options)


@relaxed
@given(cases(FULL, count_max=8), ways, st.randoms(use_true_random=False))
def test_sensitivity_that_passes_will_do(case, options, random):
    """Where intervals are taken away and nothing is found, what follows is maintained all the
    same.
    """
    forgotten(case, options, random)


@pytest.mark.campaign
@thorough
@given(cases(FULL, count_max=12), ways, st.randoms(use_true_random=False))
def test_sensitivity_that_passes_will_do_at_length(case, options, random):
    forgotten(case, options, random)


def forgotten(case: tuple[str, list], options: dict, random) -> None:
    text, transactions = case
    with tempfile.TemporaryDirectory() as folder:
        try:
            mirror = Mirror(
                Path(folder) / "store.pages", text, **{**options, "maintenance": "match"}
            )
        except ConstructError:
            reject()
        for number, edits in enumerate(transactions):
            mirror.change(edits)
            names = hidden(mirror.workspace, "$sense:")
            if number == 0 and names:
                name = random.choice(names)
                rows = words(mirror.workspace, name)
                some = rows[:, [random.random() < 0.3 for _ in range(rows.shape[1])]]
                damage(mirror.workspace, name, ERASE, some)
                if mirror.workspace.check():
                    break  # found
        mirror.close()


# -- damage by hand

RULES = """
edge(x, y) -> int(x), int(y). weight[x] = w -> int(x), float(w). name[x] = t -> int(x), string(t).
tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).
reach(x) <- edge(x, _).
degree[x] = n <- agg<<n = count()>> edge(x, _).
spent[x] = s <- agg<<s = sum(y)>> edge(x, y).
least[x] = m <- agg<<m = min(y)>> edge(x, y).
mass[] = w <- agg<<w = total(v)>> weight[_] = v.
all[] = n <- agg<<n = count()>> edge(_, _).
named(t) <- name[x] = t, reach(x).
to(x, y) <- edge(x, z), edge(y, z), x < y.
"""


@pytest.fixture(params=["match", "probe"])
def workspace(tmp_path, request):
    with ivm.open(tmp_path / "s.pages", sync="off") as workspace:
        workspace.install(RULES, maintenance=request.param)
        with workspace.transaction() as txn:
            txn.insert("edge", [(x, y) for x in range(8) for y in range(x % 3, 8, 2)])
            txn.insert("weight", [(1, 0.5), (2, 1e300)])
            txn.insert("name", [(1, "one"), (7, "seven")])
        workspace.maintenance = request.param
        yield workspace


def hidden(workspace: ivm.Workspace, prefix: str) -> list[str]:
    """The hidden trees whose names begin so, that have records."""
    with workspace.store.snapshot() as snap:
        names = [*snap._version.catalog.relations]
        return [name for name in names if name.startswith(prefix) and snap.tree(name).count]


def words(workspace: ivm.Workspace, name: str) -> np.ndarray:
    """All records of a tree."""
    with workspace.store.snapshot() as snap:
        tree = snap.tree(name)
        return np.concatenate(
            [np.empty((tree.spec.columns, 0), np.int64), *read_batches(snap.pages, tree)], axis=1
        )


def damage(workspace: ivm.Workspace, name: str, action: int, rows: np.ndarray) -> None:
    """Edit a tree past all protection."""
    with workspace.store.transaction() as txn:
        txn.declare_maintained()
        txn.apply(name, np.full(rows.shape[1], action), np.ascontiguousarray(rows))


def mended(workspace: ivm.Workspace) -> None:
    """One call mends it all; what was scanned is scanned, and maintenance goes on."""
    workspace.repair()
    assert workspace.check() == [] and workspace.store.check() == []
    with workspace.transaction() as txn:
        txn.delete("edge", [(1, 1), (2, 4)])
        txn.insert("edge", [(9, 1), (1, 0)])
    assert workspace.check() == []


def found(workspace: ivm.Workspace) -> list[str]:
    return [str(violation) for violation in workspace.check()]


def test_a_row_of_a_view_that_does_not_follow(workspace):
    damage(workspace, "tri", INSERT, np.array([[77], [78], [79]]))
    assert found(workspace) == [
        f"view rows: tri: it has (77, 78, 79), which does not follow; {len(workspace['tri'])} "
        f"records, and "
        f"{len(workspace['tri']) - 1} follow"
    ]
    with pytest.raises(
        DivergenceError, match=r"tri is not what follows from scratch: it has \(77, 78, 79\)"
    ):
        workspace.verify("tri")
    workspace.verify("reach")
    mended(workspace)


def test_a_row_of_a_view_that_is_missing(workspace):
    damage(workspace, "named", ERASE, words(workspace, "named")[:, :1])
    assert "view rows: named: it has no (one), which follows" in found(workspace)[0]
    mended(workspace)


def test_a_support(workspace):
    rows = words(workspace, "named")[:, :1].copy()
    rows[1] = 5
    damage(workspace, "named", SET, rows)
    assert found(workspace)[0].startswith("support: named: it has (one, 5), and (one, 1) follows")
    with pytest.raises(DivergenceError, match="named"):
        workspace.verify("named")
    mended(workspace)


@pytest.mark.parametrize("view", ["degree", "spent", "least"])
def test_a_value_of_an_aggregate(workspace, view):
    rows = words(workspace, view)[:, :1].copy()
    rows[1] += 1
    damage(workspace, view, SET, rows)
    [fault] = found(workspace)
    assert fault.startswith(f"view rows: {view}: it has (0, ")
    mended(workspace)


@pytest.mark.parametrize("view", ["least", "mass", "all"])
def test_what_is_kept_apart(workspace, view):
    name = f"$apart:{view}"
    rows = words(workspace, name)[:, :1].copy()
    damage(workspace, name, ERASE, rows)
    [fault] = found(workspace)
    assert fault.startswith(f"aggregate: {name}: it has no (")
    mended(workspace)


def test_a_permuted_index(workspace):
    names = hidden(workspace, "$index:")
    assert names
    for name in names:
        damage(workspace, name, ERASE, words(workspace, name)[:, :2])
    faults = found(workspace)
    assert [fault.split(",")[0] for fault in faults] == [f"index: {name}" for name in names]
    assert "of edge: it has no (" in faults[0]
    workspace.verify("tri")  # which no index has a say in
    mended(workspace)


def test_sensitivity(workspace):
    names = hidden(workspace, "$sense:")
    assert bool(names) == (workspace.maintenance == "match")
    for name in names:
        damage(workspace, name, ERASE, words(workspace, name))
    faults = found(workspace)
    assert [fault.split(",")[0] for fault in faults] == [f"sensitivity: {name}" for name in names]
    assert all("no interval of edge(" in fault and "(words)" in fault for fault in faults)
    mended(workspace)


def test_trees_that_are_gone_or_of_another_shape(workspace):
    workspace.store.snapshot()
    with workspace.store.transaction() as txn:
        txn.declare_maintained()
        gone = [*hidden(workspace, "$"), "reach"]
        for name in [*gone, "least"]:
            txn.drop(name)
        txn.create("least", "x: int64, m: int64")
    faults = found(workspace)
    for name in gone:
        assert any(name in fault and "it is missing" in fault for fault in faults), name
    assert (
        "view rows: least: it has 2 key and 0 value words, and should have 1 key and 1 value words"
        in faults
    )
    mended(workspace)


def test_edits_over_what_cannot_be_name_the_remedy(workspace):
    """Trees that are missing, or have another shape, and supports that are too low."""

    def refused(said):
        version = workspace.store.version
        for edit in (lambda: workspace.exec("-edge(0, 0)."), lambda: plain()):
            with pytest.raises(
                DivergenceError, match=f"{said}; what is stored .*`ivm fsck --repair` rebuilds it"
            ):
                edit()
        assert workspace.store.version == version

    def plain():
        with workspace.store.transaction() as txn:
            txn["edge"].delete([(0, 0)])

    damage(workspace, "degree", ERASE, words(workspace, "degree")[:, :1])
    refused(r"key \(0,\): the support would fall below 0; more is taken away than was added")
    with workspace.store.transaction() as txn:
        txn.declare_maintained()
        txn.drop("named")
        txn.create("named", "t: string")
    refused("named has 1 key and 0 value words")
    with workspace.store.transaction() as txn:
        txn.declare_maintained()
        txn.drop("$apart:all")
    refused(r"\$apart:all is missing")
    mended(workspace)


def test_a_relation_that_is_gone(workspace):
    with workspace.store.transaction() as txn:
        txn.declare_maintained()
        txn.drop("edge")
    assert any("edge, which rules read, is missing" in fault for fault in found(workspace))
    mended(workspace)
    assert list(workspace["edge"]) == [(1, 0), (9, 1)]


def test_an_edit_past_the_views(workspace):
    """What earlier releases let through."""
    damage(workspace, "edge", ERASE, words(workspace, "edge")[:, 3:9])
    assert len(found(workspace)) > 5
    for view in ("tri", "reach", "degree", "least", "all"):
        with pytest.raises(DivergenceError):
            workspace.verify(view)
    mended(workspace)


def test_what_a_version_does_not_say(workspace):
    with workspace.store.transaction() as txn:
        txn.declare_maintained()
        txn.properties.pop("pagestore.dependants")
    [fault] = found(workspace)
    assert (
        fault
        == "dependants: the version does not say which relations its views depend on; `ivm fsck "
        "--repair` writes it"
    )
    mended(workspace)


def test_scans_of_views_stay_with_a_repair(workspace):
    with workspace.store.transaction() as txn:
        txn.add_scan("degree", "max:n")
        txn.add_scan("tri", "count")
    mended(workspace)
    assert workspace["degree"].scans == ["max:n"] and workspace["tri"].scans == ["count"]
    assert workspace["degree"].scan("max:n") == max(n for _, n in workspace["degree"])


def test_relations_that_make_rules_fail(tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off") as workspace:
        workspace.install("f[x] = y -> int(x), int(y). g[y] = x <- f[x] = y.")
        damage(workspace, "f", INSERT, np.array([[1, 2], [7, 7]]))
        assert found(workspace)[0].startswith("functions: g[7] got two values, 1 and 2")
        with pytest.raises(FunctionConflictError):
            workspace.repair()
        damage(workspace, "f", ERASE, np.array([[2], [7]]))
        workspace.repair()
        assert workspace.check() == [] and list(workspace["g"]) == [(7, 1)]


def test_progress_is_told(workspace):
    told = []
    workspace.check(progress=told.append)
    assert any("evaluating tri" in text for text in told) and any(
        "comparing" in text for text in told
    )


def test_each_branch_is_checked_and_mended_alone(workspace):
    workspace.store.branch("b")
    with workspace.store.transaction(branch="b") as txn:
        txn.declare_maintained()
        txn["edge"].insert([(50, 51)])
    assert workspace.check() == [] and workspace.check("b")
    with workspace.store.transaction(branch="b") as txn:  # goes on from what is wrong
        txn["edge"].insert([(51, 52)])
    version = workspace.repair("b")
    assert workspace.store.branches["b"] == version and workspace.check("b") == []
    assert (50,) in list(workspace.store.snapshot("b")["reach"]) and (50,) not in list(
        workspace["reach"]
    )
