"""What docs/proof.md shows, on small sizes, with its bounds as assertions."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivm
import pagestore
from benchmarks import deltas, proof, trees
from benchmarks.__main__ import main
from benchmarks.families import MADE, REAL
from benchmarks.picture import Picture
from ivm.engine import sweep

TESTS = Path(__file__).parents[2]
PAGE = (TESTS.parent / "docs" / "proof.md").read_text()


@pytest.mark.parametrize("rule", proof.TRACED)
def test_the_bound_holds(rule, tmp_path):
    """Operations grow as the distance does, and not with the data."""
    found = [[*proof.distances(n, rule, tmp_path)] for n in (1000, 4000)]
    every = [one for some in found for one in some]
    assert max(one.operations / one.bound for one in every) <= 1
    assert 0.8 < proof.slope(every) < 1.3
    small, large = (
        sum(m.operations for m in some[:4]) / sum(1 + m.distance for m in some[:4])
        for some in found
    )
    assert large < 1.5 * small


def test_an_edit_of_a_celebrity_costs_her_followers_or_nothing(tmp_path):
    probed, matched = (
        [proof.spent(MADE["celebrity"](n), way, 12, tmp_path / f"{way}{n}").changes[-1] for n in (300, 3000)]
        for way in ("probe", "match")
    )  # fmt: skip
    assert probed[1] > 9 * probed[0] and matched[1] < 2 * matched[0]


def test_each_edit_of_a_family_changes_a_row(tmp_path):
    """Each edit of a family inserts or deletes one row, and views follow."""
    edges = np.unique(np.random.default_rng(1).integers(0, 40, (2, 200)), axis=1)
    edges = edges[:, edges[0] < edges[1]]
    families = {name: make(60) for name, make in MADE.items()}
    families |= {name: make(edges) for name, make in REAL.items()}
    for name, family in families.items():
        with ivm.open(tmp_path / name, sync="off") as workspace:
            workspace.install(family.declared + family.rule)
            with workspace.transaction() as txn:
                for relation, rows in family.facts.items():
                    txn.insert(relation, rows)
            for _, (edit, relation, rows) in zip(range(8), family.edits(), strict=False):
                before = len(workspace[relation])
                with workspace.transaction() as txn:
                    getattr(txn, edit)(relation, rows)
                assert len(workspace[relation]) - before == (1 if edit == "insert" else -1)
            workspace.verify("q")


def test_pictures_have_a_mark_for_each_measurement():
    text = Picture("a title", "across", "up").scattered(
        {"some": [(1, 2), (30, 40)], "others": [(5, 6)]}, {"twice": lambda x: 2 * x}
    )
    kinds = [part.get("class") for part in ElementTree.fromstring(text)]
    assert [kinds.count(f"dot{i}") for i in (0, 1)] == [3, 2]  # one each in the legend
    assert kinds.count("line2") == 2 and "nan" not in text


def test_marked_nodes_are_what_a_fold_and_a_stab_use():
    """Marked sales fold to all of the region, each once; marked intervals are all that hold the
    point, and no leaf that is not marked has one of them.
    """
    with pagestore.open(":memory:") as store:
        page, stabbed = trees.sales(store), trees.intervals(store)
    for first, end in ((0, 48), (0, 12), (15, 39), (13, 14), (11, 25)):
        nodes, entries = trees.parts(page, first, end)
        runs = [range(page.nodes[k].first, page.nodes[k].end) for k in nodes]
        assert sorted([*entries, *(i for run in runs for i in run)]) == [*range(first, end)]
        folds = [page.nodes[k].fold for k in nodes] + [page.rows[i][-1] for i in entries]
        assert max(folds) == max(row[-1] for row in page.rows[first:end])
    text = trees.draw_interval_tree()
    for a, b in stabbed.rows:
        assert ("<text class='small end hit'" in _line_with(text, f"[{a}, {b}]")) == (a <= 80 <= b)


def _line_with(text, part):
    """Return the first line that has a part, which is a record before it is a node."""
    return next(line for line in text.splitlines() if f">{part}<" in line)


def test_two_versions_share_all_but_a_path():
    pages = trees.versions_of_a_tree()
    for versions in ({0}, {1}):
        alone = [one.level for one in pages.values() if one.versions == versions]
        assert sorted(alone) == [0, 1]
    assert len(pages) > 20
    assert ElementTree.fromstring(trees.draw_versions()) is not None


def test_pages_of_a_difference_follow_what_differs():
    """At most O(δ log n), and no more than all pages; neighbours are on few."""
    for n in (2_000, 60_000):
        for delta in (1, 30, n // 10):
            scattered, near = (deltas.pages_compared(n, delta, spread) for spread in (True, False))
            assert 2 <= near <= scattered <= 2 * delta * np.log2(n)
            assert near <= 4 + delta / 20


@pytest.mark.parametrize("kind", ["sum", "min", "median", "concat"])
def test_an_edit_of_a_group_costs_pages_that_its_size_hardly_matters_for(kind, tmp_path):
    small, large = (deltas.of_aggregate(kind, n, tmp_path).middle for n in (100, 20_000))
    assert large <= small + 8


def test_simulated_trees_write_what_changed():
    """A B-tree writes a path for each change; a cascading tree loses none on the way down."""
    plain, cascading = deltas.BTree(40_000, 100), deltas.CascadingTree(40_000, 100)
    assert (plain.height, cascading.height) == (3, 4)
    assert plain.commit([0.5]) == 3 and plain.commit([0.1, 0.9]) == 2 + 2 + 1
    places = np.random.default_rng(1).random(30_000)
    pages = [cascading.commit(some.tolist()) for some in np.split(places, 300)]
    assert min(pages) == 1 and sum(pages) < 300 * 100 / 3
    waiting = cascading._waiting.values()
    assert max(map(len, waiting)) <= 100 and 0 < sum(map(len, waiting)) < 30_000


def test_an_index_stays_as_large_while_edges_go_and_come(tmp_path, capsys, monkeypatch):
    """The last tenth of the transactions is like the first; without sweeping it would not be."""
    x, y = np.unique(np.random.default_rng(1).integers(0, 60, (2, 900)), axis=1)
    pq.write_table(pa.table({"x": x, "y": y}), file := tmp_path / "graph.parquet")
    monkeypatch.setattr(proof, "OUT", 200)
    command = ["churn", str(file), "--transactions", "500"]
    assert main(command) == 0
    assert capsys.readouterr().out.count("\n| ") == 1 + proof.TENTHS
    monkeypatch.setattr(sweep, "GROWN", 10**9)
    assert main(command) == 1


def test_one_command_draws_all_that_the_page_shows(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(proof, "CHANGES", 10)
    monkeypatch.setattr(proof, "TIMES", 3)
    monkeypatch.setattr(deltas, "TIMES", 2)
    monkeypatch.setattr(deltas, "AGGREGATES", {"sum": deltas.AGGREGATES["sum"]})
    monkeypatch.setattr(deltas, "BATCHES", (1, 100))
    assert main(["proof", str(tmp_path), "--largest", "3"]) == 0
    shown = set(re.findall(r"\((proof-\w+\.svg)\)", PAGE))
    assert {file.name for file in tmp_path.iterdir()} == shown
    said = capsys.readouterr().out
    assert all(f"| {name}" in said for name in [*proof.TRACED, *proof.KINDS, *MADE])


def test_the_tests_that_the_page_names_are_there():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}(" in (TESTS / file).read_text(), test
