"""What the planner knows of relations that it has read a part of: near the truth, also after
rows come and go.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import ivm
from ivm.plan import statistics
from ivm.plan.statistics import SAMPLE_ROWS, WHOLE_ROWS, Statistics
from pagestore.host import NULL

ROWS = 300_000
RNG = np.random.default_rng(5)
COLUMNS = {  # values of ROWS rows whose keys are in order
    "few values": RNG.integers(0, 40, ROWS),
    "each value about 10 times": RNG.integers(0, ROWS // 10, ROWS),
    "each value about 3 times": RNG.integers(0, ROWS // 3, ROWS),
    "each value once": RNG.permutation(ROWS) + 7,
    "neighbours are equal": np.arange(ROWS) // 12,
    "runs of a block": np.arange(ROWS) // 512,
    "skewed": (RNG.pareto(1.2, ROWS) * 50).astype(np.int64),
    "half is one value": np.where(np.arange(ROWS) % 2, 0, np.arange(ROWS)),
    "a hub among neighbours": np.where(np.arange(ROWS) < ROWS // 5, -1, np.arange(ROWS)),
}


def opened():
    workspace = ivm.open(":memory:", threads=1)
    workspace.install("r[k] = v -> int(k), int(v).", "facts")
    return workspace


def statistics_of(workspace):
    return Statistics(workspace.store.snapshot())


@pytest.mark.parametrize("kind", COLUMNS)
def test_estimates_are_near_the_truth_also_under_churn(kind):
    """First of all rows, then after a third of them has gone, others have come, and some have
    other values.
    """
    values = COLUMNS[kind]
    with opened() as workspace:
        with workspace.transaction() as txn:
            txn.insert("r", [np.arange(ROWS), values])
        _compare(workspace, values)
        with workspace.transaction() as txn:
            txn.delete("r", np.arange(ROWS)[::3])
            txn.insert("r", [np.arange(ROWS, ROWS + 50_000), values[:50_000]])
        kept = np.ones(ROWS, bool)
        kept[::3] = False
        _compare(workspace, np.concatenate([values[kept], values[:50_000]]))


def _compare(workspace, values):
    statistics = statistics_of(workspace)
    words, times = np.unique(values, return_counts=True)
    assert statistics.distinct("r", (0,)) == len(values)
    assert len(words) / 2.5 < statistics.distinct("r", (1,)) < 2.5 * len(words)
    heavy = {
        word: n
        for word, n in zip(words.tolist(), times.tolist(), strict=True)
        if n > len(values) / 32
    }
    heavy = {word: n for word, n in heavy.items() if n > 20 * len(values) / len(words)}
    found = statistics.heavy("r", 1)
    assert heavy.keys() <= found.keys()
    assert all(n / 1.5 < found[word] < 1.5 * n for word, n in heavy.items())
    (sample,) = statistics._samples.values()
    assert len(sample.column(1)) == sample.size <= 1.1 * SAMPLE_ROWS


def test_small_relations_and_whole_ones_are_known_exactly():
    values = COLUMNS["each value about 3 times"]
    for rows, whole in ((WHOLE_ROWS, False), (ROWS, True)):
        with opened() as workspace:
            with workspace.transaction() as txn:
                txn.insert("r", [np.arange(rows), values[:rows]])
            statistics = Statistics(workspace.store.snapshot(), whole)
            assert statistics.distinct("r", (1,)) == len(np.unique(values[:rows]))
            assert statistics.heavy("r", 1) == statistics.heavy("r", 0) == {}


def test_a_committed_relation_is_sampled_once_for_all_that_is_installed(monkeypatch):
    """Also for questions; what a transaction has changed itself is read again, and so is what
    another one committed. A question that is asked again is planned already. Of a relation only
    the columns are read that its atom shares with others.
    """
    read = []

    class Noted(statistics.Blocks):
        def read(self, *columns):
            read.extend(columns)
            return super().read(*columns)

    monkeypatch.setattr(statistics, "Blocks", Noted)
    with opened() as workspace:
        workspace.install("s[k] = v -> int(k), int(v).", "more")
        with workspace.transaction() as txn:
            for name in "rs":
                txn.insert(name, [np.arange(ROWS), np.arange(ROWS) % 9])
        rule = "(k, m) <- r[k] = v, s[m] = v, k < 9, m < 9."
        for number, times in (("1", 2), ("2", 0)):
            workspace.install("p" + number + rule, "p" + number)
            assert read == [1] * times
            read.clear()
        workspace.query("q" + rule)
        assert not read
        with workspace.transaction() as txn:
            txn.insert("r", [(ROWS, 1)])
        read.clear()
        workspace.query("q" + rule)
        assert not read
        workspace.query("another" + rule)
        assert len(read) == 1


@pytest.mark.parametrize("span", [3, 1000, 1 << 20, 1 << 61])
@pytest.mark.parametrize("ordered", [False, True])
def test_places_of_tuples_are_counted(span, ordered):
    drawn = np.random.default_rng(span % 97)
    rows = drawn.integers(0, span, (2, 3000))[:, drawn.integers(0, 900, 3000)]
    rows[0, :9] = NULL
    rows = rows[:, np.lexsort(rows[::-1])] if ordered else rows
    read = SimpleNamespace(read=lambda *columns: np.split(rows[[*columns]], 30, axis=1))
    sample = statistics.Sample(read, 9000)
    for columns in ((), (0,), (1,), (0, 1)):
        met = np.unique(np.concatenate([rows[[*columns]], sample.place[None]]), axis=1)
        _, times = np.unique(met[:-1], axis=1, return_counts=True)
        assert sorted(sample.places(columns)) == sorted(times)


def test_only_columns_that_atoms_share_are_counted(monkeypatch):
    """A column that occurs in one atom has one value for each row, once the columns before it
    are bound.
    """
    asked, given = list[tuple](), Statistics._of
    monkeypatch.setattr(
        Statistics, "_of", lambda self, *what: asked.append(what[:2]) or given(self, *what)
    )
    with opened() as workspace:
        workspace.install(
            "wide[k] = (a, b, c, d) -> int(k), int(a), int(b), int(c), int(d).", "wide"
        )
        with workspace.transaction() as txn:
            txn.insert(
                "wide", [np.arange(1000), *np.random.default_rng(1).integers(0, 50, (4, 1000))]
            )
            txn.insert("r", [np.arange(1000), np.arange(1000) % 7])
        workspace.install("p(a, b, c, d) <- wide[k] = (a, b, c, d), r[k] = 3.", "p")
        assert asked
        assert not {("wide", (column,)) for column in range(1, 5)} & {*asked}
