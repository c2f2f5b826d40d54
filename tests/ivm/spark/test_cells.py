"""A program over 1, 4 and 8 cells has the rows of one store after every batch, whatever is
refused or repeated.
"""

import os
import random
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

import ivm
import pagestore
from ivm.errors import (
    AggregateError,
    ConstructError,
    EditError,
    FunctionConflictError,
    RuleWarning,
    UnknownViewError,
)
from ivm.spark import Cells
from ivm.spark.cell import Batch, CellsError, Message
from ivm.spark.executors import Here, Stage
from tests.support.over_cells import REFUSALS, Twins, tables, through_cells
from tests.support.programs.typed_programs import POOLS, typed_case
from tests.support.strategies import FAILING, FULL, cases

CELLS = [1, 4, 8]
EXAMPLES = int(os.environ.get("EXAMPLES", "500"))  # of a campaign
relaxed = settings(
    max_examples=3,
    suppress_health_check=list(HealthCheck),
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
)


def follow(
    case: tuple[str, list],
    cells: int,
    during: Callable[[Twins, int], None] = lambda twins, number: None,
) -> None:
    text, transactions = case
    with tempfile.TemporaryDirectory() as folder:
        try:
            twins = Twins(Path(folder), text, cells)
        except ConstructError:
            reject()
        for number, edits in enumerate(transactions):
            during(twins, number)
            twins.change(edits)
        assert twins.cells.check() == []
        twins.close()


@pytest.mark.parametrize("cells", CELLS)
@relaxed
@given(case=cases(FULL, count_max=3))
def test_random_programs(case, cells):
    follow(case, cells)


@pytest.mark.parametrize("type_", POOLS)
def test_random_programs_over_every_type(type_: str) -> None:
    """Unions whose rules name their columns differently, or compute them, are among them."""
    assert through_cells(*typed_case(len(type_), type_), cells=3)


@pytest.mark.parametrize("cells", [1, 3])
def test_rows_of_one_rule_may_be_null_and_of_another_not(cells):
    text = (
        "o[x] = v -> int(x), datetime?(v). m[x] = v -> int(x), datetime(v). "
        "u(x, v) <- o[x] = v?. u(x, v) <- m[x] = v. u(x, v) <= u(y, w) <- x < y, v < w. "
        "n(x, c) <- m[x] = _, agg<<c = count() else 0>> o[x] = _. i(x) <- m[x] = _, x in (1, 2)."
    )
    moments = [datetime(2020, 1, day) for day in (1, 2, 3)]
    load = [("o", (1, None), True), ("m", (2, moments[0]), True), ("o", (2, moments[1]), True)]
    assert through_cells(
        text, [load, [("m", (1, moments[2]), True), ("o", (2, None), True)]], cells
    )


@relaxed
@given(case=cases(FAILING, count_max=3))
def test_what_the_rules_refuse_is_taken_back(case):
    follow(case, 4)


def test_ranges_and_neighbours_over_cells(tmp_path: Path) -> None:
    """A cell evaluates by ranges what lies in it, and cells are combined as for joins."""
    drawn = random.Random(3)
    twins = Twins(
        tmp_path,
        """a(x) -> int(x).  g(x, t) -> int(x), int(t).
        n(x, y) <- a(x), a:next[x] = y.   e(x, t) <- g(x, t), !g:previous[x, t] = _.
        c[x] = k <- agg<<k = count()>> a(x), g(_, t), t <= x, t > x - 3.
        m[x, t] = k <- agg<<k = max(u)>> g(x, t), a(u), u < t.""",
        4,
    )
    for _ in range(8):
        points = [("a", (drawn.randrange(12),), drawn.random() < 0.6) for _ in range(3)]
        twins.change(
            [
                *points,
                *(
                    ("g", (drawn.randrange(3), drawn.randrange(12)), drawn.random() < 0.7)
                    for _ in "ab"
                ),
            ]
        )
    assert twins.cells.check() == []
    twins.close()


# -- tasks that are repeated, and programs that end


class Repeating(Here):
    """Runs each stage twice, as a task that is tried again: both times the same messages come
    out.
    """

    def run(
        self, batch: Batch, stages: Sequence[Stage], files: Sequence[str] | None, cells: int
    ) -> list[Message]:
        def twice(stage: Stage) -> Stage:
            def run(batch: Batch, cell: int, messages: list[Message]) -> list[Message]:
                first, second = stage(batch, cell, messages), stage(batch, cell, messages[::-1])
                assert [m for m in first if m.channel >= 0] == [m for m in second if m.channel >= 0]
                return second

            return run

        return super().run(batch, [twice(stage) for stage in stages], files, cells)


class Ending(Here):
    """Ends the program before or after one of its tasks."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks

    def run(
        self, batch: Batch, stages: Sequence[Stage], files: Sequence[str] | None, cells: int
    ) -> list[Message]:
        def ending(stage: Stage) -> Stage:
            def run(batch: Batch, cell: int, messages: list[Message]) -> list[Message]:
                self.tasks -= 1
                if self.tasks == 0:
                    raise KeyboardInterrupt
                sent = stage(batch, cell, messages)
                if self.tasks == -1:
                    raise KeyboardInterrupt
                return sent

            return run

        return super().run(batch, [ending(stage) for stage in stages], files, cells)


@relaxed
@given(case=cases(FULL, count_max=2))
def test_tasks_that_are_tried_again(case):
    def repeat(twins: Twins, number: int) -> None:
        twins.cells._run = Repeating()

    follow(case, 4, repeat)


def end_somewhere(case: tuple[str, list], seed: int) -> None:
    """Each batch, or its being taken back, ends at a random task, and once more while the cells
    are opened again.
    """
    chance = random.Random(seed)

    class Interrupted(Twins):
        def apply(self, newest: dict) -> None:
            self.cells._run = Ending(chance.randint(1, 20))
            changes = tables(self.one, newest)
            try:
                self.cells.apply(self.number, changes)
            except KeyboardInterrupt:
                self.cells.close()
                try:
                    self.cells = Cells.open(self.folder)
                except REFUSALS:
                    self.cells = Cells.open(self.folder)
            finally:  # also where the rules refuse the batch before it ends
                self.cells._run = Here()
            self.cells.apply(self.number, changes)
            assert not self.cells.apply(self.number, {}).new

    text, transactions = case
    with tempfile.TemporaryDirectory() as folder:
        try:
            twins = Interrupted(Path(folder), text, 4)
        except ConstructError:
            reject()
        for edits in transactions:
            twins.change(edits)
        assert twins.cells.check() == []
        twins.close()


@relaxed
@given(case=cases(FULL, count_max=2), seed=st.integers(0, 1000))
def test_programs_that_end_between_the_commits_of_cells(case, seed):
    end_somewhere(case, seed)


# -- values and what is refused

VALUES = """
sale(shop, day, item, price) -> string(shop), date(day), int(item), decimal(8, 2)(price).
mass[item] = m -> int(item), float(m).
name[item] = n -> int(item), string?(n).
turnover[shop] = t <- agg<<t = sum(price)>> sale(shop, _, _, price).
first[item] = d <- agg<<d = min(day)>> sale(_, day, item, _), mass[item] = _.
last[day] = s <- agg<<s = max(shop)>> sale(shop, day, _, _).
weight[day] = w <- agg<<w = total(m)>> sale(_, day, item, _), mass[item] = m.
all[] = w <- agg<<w = total(m)>> mass[_] = m.
named(shop, n) <- sale(shop, _, item, _), name[item] = n.
nameless(item) <- sale(_, _, item, _), !name[item] = _.
twice[item] = n <- agg<<n = count()>> (sale(_, _, item, _) ; mass[item] = _).
busy(shop) <- turnover[shop] = t, t > 20.00.
"""
GATHERED = """
mean[shop] = m, spread[shop] = s, biggest[shop] = b, sales[shop] = n
    <- agg<<m = avg(price), s = stddev(price), b = max(price), n = count()>> sale(shop, _, _, price).
middle[day] = m <- agg<<m = median(m1)>> sale(_, day, item, _), mass[item] = m1.
most[] = q <- agg<<q = quantile(price, 0.9)>> sale(_, _, _, price).
shops[item] = n <- agg<<n = count_distinct(shop)>> (sale(shop, _, item, _) ; sale(shop, _, item, _), mass[item] = _).
dearest[day] = i <- agg<<i = argmax(item, price)>> sale(_, day, item, price).
newest[shop] = s <- agg<<s = last(name, day)>> sale(shop, day, item, _), name[item] = name.
three[shop, n] = p <- agg<<(n, p) = top(price, 3)>> sale(shop, _, _, price).
wide[] = v, narrow[] = w <- agg<<v = variance(m), w = var_pop(m)>> mass[_] = m.
fine(shop) <- mean[shop] = m, m > 5.0, shops[_] = n, n > 1, sales[shop] = n.
loudest[] = m <- agg<<m = max(s)>> mean[_] = s.
"""


@pytest.mark.parametrize("cells", CELLS)
def test_texts_dates_decimals_floats_and_nulls(cells: int, tmp_path: Path) -> None:
    from datetime import date
    from decimal import Decimal

    chance = random.Random(cells)
    twins = Twins(tmp_path, VALUES + GATHERED, cells)
    for _ in range(4):
        edits: list[tuple[str, tuple, bool]] = []
        for _ in range(25):
            item, kind = chance.randrange(6), chance.randrange(4)
            if kind < 2:
                price = Decimal(chance.randrange(900)) / 100
                row: tuple = (
                    chance.choice(["ä", "b", "tea, shop"]),
                    date(2013, 1, chance.randint(1, 3)),
                    item,
                    price,
                )
                edits.append(("sale", row, chance.random() < 0.8))
            elif kind == 2:
                edits.append(
                    (
                        "mass",
                        (item, chance.choice([0.1, -0.1, 1e150, 1e-150, 0.0]) * chance.random()),
                        True,
                    )
                )
            else:
                edits.append(
                    ("name", (item, chance.choice(["x", "y", None])), chance.random() < 0.8)
                )
        twins.change(edits)
    assert twins.cells.check() == []
    twins.close()


@pytest.mark.parametrize("cells", CELLS)
def test_a_view_unites_columns_with_and_without_nulls(cells: int, tmp_path: Path) -> None:
    text = """
    age[x] = a -> int(x), int?(a).  of(x) -> int(x).  size[x] = s -> int(x), int(s).
    any(a) <- age[_] = a?.
    any(s) <- size[_] = s, of(s).
    either(x) <- of(x).
    either(a) <- age[x] = a?, of(x).
    """
    chance = random.Random(cells)
    twins = Twins(tmp_path, text, cells)
    for _ in range(5):
        edits: list[tuple[str, tuple, bool]] = [
            ("of", (chance.randrange(4),), chance.random() < 0.7) for _ in range(3)
        ]
        edits += [
            ("age", (chance.randrange(5), chance.choice([None, 1, 2])), True) for _ in range(3)
        ]
        edits += [
            ("size", (chance.randrange(5), chance.randrange(3)), chance.random() < 0.7)
            for _ in range(3)
        ]
        twins.change(edits)
    assert twins.cells.check() == []
    twins.close()


def test_a_hot_value_is_split(tmp_path: Path) -> None:
    """Without it, one of four cells would hold all; the rows are those of one store all the
    same.
    """
    text = """e(x, y) -> int(x), int(y).  f(x, z) -> int(x), int(z).
    j(y, z) <- e(x, y), f(x, z).  n[x] = c <- agg<<c = count()>> e(x, y), f(x, z).  v(x, y) <- e(x, y), !f(x, y)."""
    e = pa.table({"x": [7] * 3000 + list(range(1000)), "y": list(range(4000))})
    f = pa.table({"x": [7, 7, *range(500)], "z": list(range(502))})
    one = ivm.open(":memory:")
    one.install(text)
    with one.transaction() as txn:
        txn.insert("e", e), txn.insert("f", f)
    with Cells.create(
        tmp_path / "c", text, 4, tables={"e": e, "f": f}, options={"sync": "off"}
    ) as cells:
        assert any(d.hot for channel in cells.layout.channels for d in channel.routing)
        change = pa.table(
            {"x": [7, 7, 8], "y": [1, 9999, 1], "_change_type": ["delete", "insert", "insert"]}
        )
        applied = cells.apply(1, {"e": change})
        with one.transaction() as txn:
            txn.delete("e", [(7, 1)]), txn.insert("e", [(7, 9999), (8, 1)])
        for name in one:
            assert list(cells[name]) == sorted(one[name])
        assert applied.new and cells.check() == []
        fragment = next(
            c.target
            for c in cells.layout.channels
            if c.source == "e" and any(d.spread for d in c.routing)
        )
        held = [len(part) for part in parts(cells, fragment)]
        assert max(held) < 1.5 * sum(held) / 4
        assert [*cells.changes("e")] == [(7, 1, "delete"), (7, 9999, "insert"), (8, 1, "insert")]


def parts(cells: Cells, relation: str) -> list[list[tuple]]:
    """What each cell has of a relation."""
    found = []
    for number in range(cells.layout.cells):
        with ivm.open(
            Path(cells._done_batch().folder) / f"cell-{number:05d}.pages", mode="r"
        ) as workspace:
            found.append([*workspace[relation]])
    return found


def test_resharding(tmp_path: Path) -> None:
    """From the cells' own stores; what a crash left of it is removed."""
    twins = Twins(tmp_path, VALUES, 4)
    twins.change([("mass", (item, item / 3), True) for item in range(50)])
    for count in (7, 2):
        twins.cells.reshard(count)
        assert twins.cells.layout.cells == count == len([*twins.folder.glob("generation-*/cell-*")])
        twins.compare()
        twins.change([("mass", (count, 1.0), True), ("mass", (1, 0.0), False)])
        assert twins.cells.check() == []
    twins.cells._run = Ending(5)
    with pytest.raises(KeyboardInterrupt):
        twins.cells.reshard(5)
    twins.cells.close()
    twins.cells = Cells.open(twins.folder)
    assert len([*twins.folder.glob("generation-*")]) == 1
    twins.compare()
    twins.close()


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (
            "e(x, y) -> int(x), int(y). r(x, y) <- e(x, y). r(x, z) <- r(x, y), e(y, z).",
            ConstructError,
            "r reads itself",
        ),
        ("e(x) -> int(x). +e(1).", ConstructError, "send them as a batch"),
        (
            "e(x) -> string(x). c[] = s <- agg<<s = concat(x)>> e(x).",
            AggregateError,
            "concat over cells",
        ),
        (
            "e(x) -> int(x). c[] = s <- agg<<s = count() else 0>> e(x).",
            AggregateError,
            "`else` without keys is not",
        ),
        (
            "e(x) -> int(x). lang:bag(c). c[x] = n <- agg<<n = count()>> e(x).",
            ConstructError,
            "c is a bag, and cells",
        ),
        ("`e @1`(x) -> int(x).", ConstructError, "names with @"),
        (
            "e[x] = _change_type -> int(x), int(_change_type).",
            ConstructError,
            "is named _change_type",
        ),
    ],
)
def test_what_cells_do_not_take(text: str, error: type, says: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=says):
        Cells.create(tmp_path / "c", text, 2)
    assert not (tmp_path / "c" / "cells.pages").exists()


def test_a_registered_operator_is_not_known_where_cells_run(tmp_path: Path) -> None:
    pagestore.register_operator("either", lambda a, b: a | b, 0)
    with pytest.raises(AggregateError, match="either is registered in this process only"):
        Cells.create(tmp_path / "c", "e(x) -> int(x). c[] = s <- agg<<s = either(x)>> e(x).", 2)


def test_what_batches_are_refused(tmp_path: Path) -> None:
    with Cells.create(tmp_path / "c", VALUES, 2, options={"sync": "off"}) as cells:
        for changes, error, says in (
            (
                {"weight": pa.table({"a": [1]})},
                UnknownViewError,
                "weight is not a declared relation",
            ),
            ({"mass": pa.table({"item": [1]})}, EditError, "mass has the columns item, m"),
            (
                {"mass": pa.table({"item": ["a"], "m": [1.0]})},
                EditError,
                "column 'item': string values for a column of type int64",
            ),
            ({"mass": pa.table({"item": [None], "m": [1.0]})}, EditError, "column item"),
            (
                {"mass": pa.table({"item": [1], "m": [1.0], "_change_type": ["upsert"]})},
                EditError,
                "'upsert'",
            ),
            (
                {"mass": pa.table({"item": [1, 1], "m": [1.0, 2.0]})},
                FunctionConflictError,
                "1.0 and 2.0",
            ),
        ):
            with pytest.raises(error, match=says):
                cells.apply(1, changes)
            assert len(cells["mass"]) == 0
        feed = pa.table(
            {
                "item": [1, 1, 1, 2],
                "m": [1.0, 1.0, 2.0, 3.0],
                "_change_type": ["insert", "update_preimage", "update_postimage", "insert"],
                "_commit_version": [1, 2, 2, 2],
            }
        )
        cells.apply(1, {"mass": feed})
        assert [*cells["mass"]] == [(1, 2.0), (2, 3.0)]
        with pytest.raises(CellsError, match="is being written by"):
            Cells.open(tmp_path / "c")
    with pytest.raises(CellsError, match="no cells.pages"):
        Cells.open(tmp_path)


def test_a_check_finds_what_one_cell_lacks(tmp_path: Path) -> None:
    text = "e(x, y) -> int(x), int(y). t(x, y, z) <- e(x, y), e(y, z), e(x, z)."
    with Cells.create(tmp_path / "c", text, 4, options={"sync": "off"}) as cells:
        cells.apply(1, {"e": pa.table({"x": [1, 2, 1, 3], "y": [2, 3, 3, 4]})})
        assert len(cells["t"]) == 1 and cells.check() == []
        fragment = next(
            channel.target for channel in cells.layout.channels if channel.kind == "fragment"
        )
        number = next(n for n, rows in enumerate(parts(cells, fragment)) if rows)
        with (
            ivm.open(Path(cells._done_batch().folder) / f"cell-{number:05d}.pages") as workspace,
            workspace.store.transaction() as txn,
        ):
            txn[fragment].delete([next(iter(workspace[fragment]))])
        found = cells.check()
        assert found and "lacks 1 rows that other cells have" in str(found[0])


@pytest.mark.campaign
@pytest.mark.parametrize("cells", [1, 2, 4, 7, 8])
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
@given(case=cases(FULL, count_max=6), seed=st.integers(0, 10**6))
def test_campaign(case, cells, seed):
    follow(case, cells)
    end_somewhere(case, seed)


@pytest.mark.campaign
def test_campaign_over_every_type() -> None:
    assert all(
        through_cells(*typed_case(seed), cells=seed % 4 + 1) for seed in range(100, 100 + EXAMPLES)
    )


def test_a_variable_that_is_used_once_is_warned_of_once(tmp_path: Path) -> None:
    with pytest.warns(RuleWarning) as caught:
        Cells.create(
            tmp_path / "c",
            "e(x, y) -> int(x), int(y). p(x) <- e(x, y).",
            2,
            options={"sync": "off"},
        ).close()
    assert [str(one.message).partition(" is")[0] for one in caught] == ["rules:1:41: y"]
