"""Progress: a line with the rate and the time left; where there is no terminal, one line every
ten seconds.
"""

import io
import logging
import shlex
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivm
from pagestore_tools.cli import main, progress
from pagestore_tools.cli.progress import made_ahead


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_lines_in_a_log_are_ten_seconds_apart(clock, monkeypatch):
    err = io.StringIO()
    monkeypatch.setattr("sys.stderr", err)
    with progress.Progress("load") as told:
        for second in range(35):
            clock[0] = second
            told(f"row {second}")
    assert err.getvalue().splitlines() == ["load: row 10", "load: row 20", "load: row 30"]
    with progress.Progress("load", quiet=True) as told:
        clock[0] = 100
        told("row 100")
    assert "100" not in err.getvalue()


def test_a_load_says_how_far_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "REPORT", 0.0)
    pq.write_table(pa.table({"x": [3, 1, 2]}), tmp_path / "a.parquet")
    assert (
        main.pagestore(
            ["load", str(tmp_path / "s.pages"), "r", str(tmp_path / "a.parquet"), "--key", "x"]
        )
        == 0
    )
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines[0].startswith("load r: 3 rows, ")
        and lines[0].endswith(" read")
        and "rows/s" in lines[0]
    )
    assert "load r: 3 of 3 rows sorted and stored" in lines and lines[-1] == "load r: committing"
    assert (
        main.pagestore(["print", str(tmp_path / "s.pages"), "r", "-o", str(tmp_path / "b.parquet")])
        == 0
    )
    assert ": 3 rows, 100 %, " in capsys.readouterr().err


def test_an_installation_says_which_view_it_fills_and_how_many_rows_it_has(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "REPORT", 0.0)
    monkeypatch.setattr(progress, "SOON", 0.0)
    rules = "e(x, y) -> int(x), int(y). a(x, z) <- e(x, y), e(y, z). b(x, w) <- a(x, y), e(y, w), e(x, w). +e(1, 2)."
    (tmp_path / "r.logiql").write_text(rules)
    assert main.ivm(["install", str(tmp_path / "s.pages"), str(tmp_path / "r.logiql")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [
        line.rpartition(", ")[0] for line in lines if "filling" in line and "rows" not in line
    ] == ["ivm install: filling a, 1 of 2", "ivm install: filling b, 2 of 2"]
    assert (
        main.ivm(["query", str(tmp_path / "s.pages"), "q(x, y, z) <- e(x, y), e(y, z), e(x, z)."])
        == 0
    )
    assert "ivm query: filling q, 1 of 1, 0 rows, " in capsys.readouterr().err
    assert (
        main.ivm(
            [
                "query",
                str(tmp_path / "s.pages"),
                "q(x, y, z) <- e(x, y), e(y, z), e(x, z).",
                "--quiet",
            ]
        )
        == 0
    )
    assert capsys.readouterr().err == ""


def test_a_fill_says_the_time_that_is_left_by_the_estimated_rows(clock, monkeypatch, capsys):
    monkeypatch.setattr(progress, "REPORT", 0.0)
    log = logging.getLogger("ivm.filling")
    with progress.filling_shown("ivm install"):
        for now, said, more in [
            (0, "filling a, 1 of 2", {"expected": 100.0}),
            (10, "20 rows", {"rows": 20}),
            (20, "100 rows", {"rows": 100}),
            (30, "filling b, 2 of 2", {}),
            (34, "1 row", {"rows": 1}),
        ]:
            clock[0] = now
            log.log(logging.INFO if "of" in said else logging.DEBUG, said, extra=more)
    assert capsys.readouterr().err.splitlines() == [
        f"ivm install: {line}"
        for line in (
            "filling a, 1 of 2, 20 rows, 40 s left",
            "filling a, 1 of 2, 100 rows, 20 s",
            "filling b, 2 of 2, 30 s",
            "filling b, 2 of 2, 1 row, 34 s",
        )
    ]


def test_only_progress_gets_the_messages_that_it_asks_for(caplog):
    log = logging.getLogger("ivm.filling")
    with progress.filling_shown("ivm mcp", quiet=True):
        log.info("filling a, 1 of 1")
    assert not caplog.records and log.propagate


def test_rules_that_are_filled_say_how_many_rows_they_expect(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG, "ivm.filling"), ivm.open(tmp_path / "s.pages") as ws:
        ws.install("e(x, y) -> int(x), int(y).")
        ws.insert("e", [(x, y) for x in range(30) for y in range(30)])
        caplog.clear()
        ws.install("path(x, y, z) <- e(x, y), e(y, z), e(x, z).", "paths")
    expected = [one.expected for one in caplog.records if hasattr(one, "expected")]
    assert len(expected) == 1 and 2_700 <= expected[0] <= 270_000  # of 27,000
    assert max(one.rows for one in caplog.records if hasattr(one, "rows")) == 27_000


def test_what_is_left_before_anything_is_known():
    assert progress.pace(0, 0.0, 0.0) == "0 rows, 0 %"
    assert progress.pace(10, 1.0, 2.0) == "10 rows, 100 %, 5 rows/s"


def test_an_error_of_making_ahead_comes_in_its_place():
    def batches():
        yield 1
        yield 2
        raise OSError("gone")

    seen = []
    with pytest.raises(OSError, match="gone"):
        seen.extend(made_ahead(batches()))
    assert seen == [1, 2]
    ahead = made_ahead(batches())
    assert (next(ahead), next(ahead)) == (1, 2)
    ahead.close()


def test_progress_is_erased_before_the_answer(tmp_path):
    """On a terminal both are in the same place; where nothing was shown, nothing is erased."""
    pexpect = pytest.importorskip("pexpect")
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install("e(x, y) -> int(x), int(y). +e(1, 2). +e(2, 3).")
    program = "import sys; from pagestore_tools.cli import main, progress; progress.SOON = float(sys.argv[1]); "
    command = ["-c", f"{program} sys.exit(main.ivm(sys.argv[2:]))"]
    for soon, erased in ("0", True), ("1000", False):
        words = [soon, "query", str(tmp_path / "s.pages"), "q(x, z) <- e(x, y), e(y, z)."]
        said, code = pexpect.run(
            shlex.join([sys.executable, *command, *words]),
            withexitstatus=True,
            encoding="utf-8",
            timeout=60,
        )
        assert code == 0
        assert said.rpartition("\x1b[K")[2].startswith("x  z\r\n1  3\r\n1 row")
        assert ("filling q, 1 of 1" in said, progress.ERASE_LINE in said) == (erased, erased)
