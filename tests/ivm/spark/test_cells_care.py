"""Cells while others read them, cells that are lost or older copies, and numbers of batches of
several streams.
"""

import random
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from ivm.errors import ConstructError, FunctionConflictError, OptionError
from ivm.spark import Cells, stages
from ivm.spark.cell import Batch, CellsError, Message, path_of
from ivm.spark.executors import Here, Stage
from tests.support.over_cells import Twins
from tests.support.strategies import FULL, cases

RULES = """e(x, y) -> int(x), int(y).  f[x] = v -> int(x), int(v).
t(x, y, z) <- e(x, y), e(y, z), e(x, z).
d[x] = n <- agg<<n = count()>> e(x, _).
v(k) <- f[_] = k.
one[y] = x <- f[x] = y."""
QUICK = {"sync": "off"}
relaxed = settings(
    max_examples=3, suppress_health_check=list(HealthCheck), deadline=None, phases=[Phase.generate]
)


def edges(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({"x": [x for x, _ in rows], "y": [y for _, y in rows]})


def rows_at(cells: Cells, batch: Batch, name: str) -> list[tuple]:
    """What a DataFrame of a batch reads, whenever it is used."""
    found = cells._in_all(batch, partial(stages.rows_of, name=name, changed=False))
    return sorted(
        row for m in found for row in zip(*stages.table_of(m).to_pydict().values(), strict=True)
    )


class Between(Here):
    """Calls a function before and after each task, but not during itself."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.looking, self.to_do = False, look

    def look(self) -> None:
        if not self.looking:
            self.looking = True
            self.to_do()
            self.looking = False

    def run(
        self, batch: Batch, stages: Sequence[Stage], files: Sequence[str] | None, cells: int
    ) -> list[Message]:
        def looking(stage: Stage) -> Stage:
            def run(batch: Batch, cell: int, messages: list[Message]) -> list[Message]:
                self.look()
                sent = stage(batch, cell, messages)
                self.look()
                return sent

            return run

        return super().run(batch, [looking(stage) for stage in stages], files, cells)


# -- streams


def test_a_load_and_each_stream_have_numbers_of_their_own(tmp_path: Path) -> None:
    with Cells.create(
        tmp_path / "c", RULES, 3, tables={"e": edges((1, 2))}, options=QUICK
    ) as cells:
        assert cells.done == -1 and list(cells.changes("e")) == [(1, 2, "insert")]
        assert cells.apply(0, {"e": edges((2, 3))}).new
        assert not cells.apply(0, {"e": edges((2, 3))}).new
        assert not cells.apply(0, {"f": pa.table({"x": [1], "v": [2]})}).new  # whatever it has now
        assert cells.apply(0, {"e": edges((1, 3))}, query="second").new and cells.done == 0
        assert cells.apply(7, {"e": edges((3, 4))}, query="second").new and cells.done == 7
        assert not cells.apply(5, {"e": edges((9, 9))}, query="second").new
        assert cells.apply(1, {"e": edges((4, 5))}).new
        cells.reshard(2)
        assert list(cells.changes("e")) == []
    with Cells.open(tmp_path / "c") as cells:
        assert not cells.apply(7, {"e": edges((9, 9))}, query="second").new
        assert not cells.apply(1, {"e": edges((9, 9))}).new
        assert list(cells["e"]) == [(1, 2), (1, 3), (2, 3), (3, 4), (4, 5)]
        assert list(cells["t"]) == [(1, 2, 3)] and cells.check() == []


# -- readers


@relaxed
@given(case=cases(FULL, count_max=2))
def test_who_reads_has_one_batch_of_all_cells(case, tmp_path_factory):
    """This program and another one that only reads, between any two commits of cells; and
    batches that came before.
    """
    text, transactions = case

    class Watched(Twins):
        def apply(self, newest: dict) -> None:
            self.cells._run = Between(look)
            try:
                super().apply(newest)
            finally:
                self.cells._run = Here()

    try:
        twins = Watched(tmp_path_factory.mktemp("c"), text, 3)
    except ConstructError:
        reject()
    reader, pinned = Cells.open(twins.folder, mode="r"), []

    def look() -> None:
        for name in {chosen, *random.sample(twins.names, 1)}:
            assert sorted(reader[name]) == sorted(twins.cells[name]) == before[name], name
        for batch, held in pinned:
            assert rows_at(reader, batch, chosen) == held

    chosen = twins.names[-1]
    for edits in transactions:
        before = {name: sorted(twins.one[name]) for name in twins.names}
        pinned.append((reader._done_batch(), before[chosen]))
        twins.change(edits)
        for name in twins.names:
            assert sorted(reader[name]) == sorted(twins.one[name])
            assert sorted(reader.changes(name)) == sorted(twins.cells.changes(name))
    reader.close()
    twins.close()


def test_what_a_reader_may_not_do_and_what_cells_do_not_keep(tmp_path: Path) -> None:
    options = {**QUICK, "retain": 2}
    with Cells.create(tmp_path / "c", RULES, 2, options=options) as cells:
        reader = Cells.open(tmp_path / "c", mode="r")
        for change in (lambda: reader.apply(0, {}), lambda: reader.reshard(3), reader.check):
            with pytest.raises(CellsError, match="mode='r'"):
                change()
        batch = reader._done_batch()
        for number in range(9):
            cells.apply(number, {"e": edges(*((number, n) for n in range(9)))})
        with pytest.raises(CellsError, match="read the cells again"):
            rows_at(reader, batch, "e")
        assert len(reader["e"]) == 81 and reader.done == 8
        cells.reshard(3)
        assert len(reader["e"]) == 81 and reader.layout.cells == 3
        with pytest.raises(CellsError, match="laid out anew"):
            rows_at(reader, batch, "e")
        reader.close()
    with pytest.raises(OptionError, match="'rw' or 'r'"):
        Cells.open(tmp_path / "c", mode="w")


# -- cells that are lost


def lose(cells: Cells, number: int, copy: Path | None) -> None:
    """Put an older copy in the place of a cell, or nothing."""
    file = path_of(cells._done_batch().folder, number)
    file.unlink()
    if copy:
        shutil.copy(copy, file)


@pytest.mark.parametrize("missing", [False, True], ids=["older", "missing"])
@relaxed
@given(case=cases(FULL, count_max=2), seed=st.integers(0, 1000))
def test_lost_cells_are_noticed_and_made_again(missing, case, seed, tmp_path_factory):
    text, transactions = case
    chance, folder = random.Random(seed), tmp_path_factory.mktemp("c")
    try:
        twins = Twins(folder, text, 4)
    except ConstructError:
        reject()
    for edits in transactions:
        lost = chance.sample(range(4), chance.randint(1, 2))
        for number in lost:
            shutil.copy(
                path_of(twins.cells._done_batch().folder, number), folder / f"{number}.copy"
            )
        before = twins.cells._done_batch().versions
        twins.change(edits)
        moved = [n for n in lost if missing or before[n] != twins.cells._done_batch().versions[n]]
        for number in lost:
            lose(twins.cells, number, None if missing else folder / f"{number}.copy")
        if moved:
            with pytest.raises(CellsError, match="missing" if missing else "older copy"):
                twins.compare()
            twins.cells.close()
            for mode in ("r", "rw"):
                with pytest.raises(CellsError, match=r"Cells\.rebuild"):
                    Cells.open(twins.folder, mode=mode)
            bases = [name for name in twins.names if twins.one.predicates[name].extensional]
            sources = {name: twins.one[name].to_arrow() for name in bases}
            twins.cells = Cells.rebuild(twins.folder, tables=sources)
            twins.compare()
        assert twins.cells.check() == []
    twins.close()


def test_a_lost_cell_is_made_from_the_others_where_they_have_its_rows(tmp_path: Path) -> None:
    """Each row of e is in two cells for the triangles; one of f may be in one only."""
    rows, path = [(n % 7, n % 11) for n in range(77)], tmp_path / "c"
    with Cells.create(
        path, RULES.partition("f[x]")[0] + "t(x, y, z) <- e(x, y), e(y, z), e(x, z).", 8
    ) as cells:
        cells.apply(0, {"e": edges(*rows)})
        triangles = list(cells["t"])
        lose(cells, 3, None)
        with pytest.raises(CellsError, match="is missing"):
            cells.apply(1, {"e": edges(*((n, n) for n in range(50)))})
        with pytest.raises(CellsError, match="is missing"):
            list(cells["e"])
    with Cells.rebuild(path) as cells:  # the batch that was on its way goes on
        assert len(cells["e"]) == len({*rows, *((n, n) for n in range(50))})
        assert {*triangles} < {*cells["t"]} and cells.check() == [] and cells.done == 1
    with Cells.create(tmp_path / "d", RULES, 2, options=QUICK) as cells:
        cells.apply(0, {"e": edges(*rows), "f": pa.table({"x": [1, 2, 3, 4], "v": [5, 6, 7, 8]})})
        lose(cells, 0, None)
    with pytest.raises(
        CellsError, match="rows of .*f that were at home there may be in no other: give tables="
    ):
        Cells.rebuild(tmp_path / "d")


def test_a_damaged_cell_is_lost_too(tmp_path: Path) -> None:
    with Cells.create(
        tmp_path / "c", RULES, 2, tables={"e": edges((1, 2), (2, 3), (1, 3))}
    ) as cells:
        path_of(cells._done_batch().folder, 1).write_bytes(bytes(20000))
    with pytest.raises(CellsError, match="1 of 2 cells"):
        Cells.open(tmp_path / "c")
    with Cells.rebuild(
        tmp_path / "c", tables={"e": edges((1, 2), (2, 3), (1, 3)), "f": empty_f()}
    ) as cells:
        assert list(cells["t"]) == [(1, 2, 3)] and cells.check() == []


def empty_f() -> pa.Table:
    return pa.table({"x": pa.array([], pa.int64()), "v": pa.array([], pa.int64())})


# -- programs that end


class Ended(BaseException):
    """As when a program is killed."""


def ending(tasks: int) -> Between:
    """Ends the program before its n-th task."""
    left = iter(range(2 * tasks))

    def look() -> None:
        if next(left, None) is None:
            raise Ended

    return Between(look)


def test_cells_whose_create_was_killed_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it ends: then they are made anew, with all rows."""
    table = edges(*((n % 5, n % 3) for n in range(15)))
    path, tasks, finished = tmp_path / "c", 0, False
    while not finished:
        monkeypatch.setattr("ivm.spark.cells.Here", lambda tasks=tasks: ending(tasks))
        try:
            Cells.create(path, RULES, 2, tables={"e": table}, options=QUICK).close()
            finished = True
        except Ended:
            monkeypatch.undo()
            for mode in ("r", "rw"):
                with pytest.raises(CellsError, match="did not end: call it again"):
                    Cells.open(path, mode=mode)
        tasks += 1
    monkeypatch.undo()
    assert tasks > 6
    with Cells.open(path) as cells:
        assert len(cells["e"]) == 15 and cells.check() == []
    with pytest.raises(CellsError, match="has cells already"):
        Cells.create(path, RULES, 2)


def test_rows_that_create_refuses(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2], "v": [3, 3]})
    with pytest.raises(FunctionConflictError, match="one"):
        Cells.create(tmp_path / "c", RULES, 2, tables={"f": table}, options=QUICK)
    with Cells.create(
        tmp_path / "c", RULES, 2, tables={"f": table.slice(1)}, options=QUICK
    ) as cells:
        assert list(cells["one"]) == [(3, 2)]


def test_a_rebuild_that_ends_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Cells.create(tmp_path / "c", RULES, 2, options=QUICK) as cells:
        cells.apply(
            0,
            {"e": edges((1, 2), (2, 3), (1, 3), (4, 4)), "f": pa.table({"x": [1, 2], "v": [7, 8]})},
        )
        expected = {name: list(cells[name]) for name in ("e", "f", "t", "d", "v", "one")}
        sources = {name: cells[name].to_arrow() for name in ("e", "f")}
        lose(cells, 1, None)
    tasks, cells = 0, None
    while cells is None:
        monkeypatch.setattr("ivm.spark.cells.Here", lambda tasks=tasks: ending(tasks))
        try:
            cells = Cells.rebuild(tmp_path / "c", tables=sources)
        except Ended:
            tasks += 1
        monkeypatch.undo()
    cells._run = Here()
    assert (
        tasks > 4
        and {name: list(cells[name]) for name in expected} == expected
        and cells.check() == []
    )
    assert not [*(tmp_path / "c").glob("*.rebuilt")]
    cells.close()
