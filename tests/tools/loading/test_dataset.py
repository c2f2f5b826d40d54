"""Parquet as Spark's jobs leave it, imitated with pyarrow: what is read, and what is refused and
how.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagestore.values.types import Type
from pagestore_tools.loading.agreement import open_dataset
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.dataset import Reading

PART = "part-{:05}-7f3b-c000.zstd.parquet"


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Path]:
    """`job(table, table)` writes them as the part files of one Spark job."""

    def write(*tables: pa.Table, folder: str = "", success: bool = True) -> Path:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for number, table in enumerate(tables):
            file = tmp_path / folder / PART.format(number)
            pq.write_table(table, file)
            (file.parent / f".{file.name}.crc").write_bytes(b"crc")
        if success:
            (tmp_path / "_SUCCESS").touch()
        return tmp_path

    return write


def rows(path: Path, nulls: str = "refuse") -> list[dict]:
    return [
        row
        for batch in open_dataset(path, Reading(nulls=nulls)).batches()
        for row in batch.to_pylist()
    ]


def test_files_are_read_in_name_order_and_marks_of_the_job_are_not_data(job) -> None:
    path = job(
        pa.table({"x": [1, 2]}), pa.table({"x": pa.array([], pa.int64())}), pa.table({"x": [3]})
    )
    (path / "_temporary").mkdir()
    (path / "_temporary" / "part-9.parquet").write_bytes(b"half a file")
    assert rows(path) == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert open_dataset(path).notes == []


def test_a_job_without_success_is_noted(job) -> None:
    (note,) = open_dataset(job(pa.table({"x": [1]}), success=False)).notes
    assert "_SUCCESS" in note


def test_partition_folders_become_columns(job) -> None:
    job(pa.table({"x": [1]}), folder="day=2/town=S%C3%A3o%20Paulo%2F1")
    path = job(pa.table({"x": [2]}), folder="day=__HIVE_DEFAULT_PARTITION__/town=Lima")
    assert rows(path, "drop") == [{"x": 1, "day": 2, "town": "São Paulo/1"}]
    with pytest.raises(DatasetError, match="column day is null in row 0"):
        rows(path)


def test_links_are_followed(job, tmp_path_factory) -> None:
    job(pa.table({"x": [1]}), folder="day=1")
    elsewhere = tmp_path_factory.mktemp("elsewhere") / PART.format(0)
    pq.write_table(pa.table({"x": [2]}), elsewhere)
    path = job()
    (path / "day=2").symlink_to(elsewhere.parent)
    (path / "day=3").mkdir()
    (path / "day=3" / "part-3.parquet").symlink_to(elsewhere)
    assert rows(path) == [{"x": 1, "day": 1}, {"x": 2, "day": 2}, {"x": 2, "day": 3}]
    elsewhere.unlink()
    with pytest.raises(
        DatasetError,
        match="day=3/part-3.parquet is not a file, or a link to one that no longer exists",
    ):
        rows(path)
    (path / "day=3" / "part-3.parquet").unlink()
    (path / "day=3" / "again").symlink_to(path)
    with pytest.raises(
        DatasetError, match="day=3/again is a link back to a folder that it is in: remove it"
    ):
        rows(path)


@pytest.mark.parametrize("digits", ["99999999999999999999", "٣", "007", "-0", "9" * 200])
def test_folders_named_by_what_is_no_int64_hold_text(job, digits: str) -> None:
    assert rows(job(pa.table({"x": [1]}), folder=f"code={digits}")) == [{"x": 1, "code": digits}]


def test_types_are_widened_to_what_a_relation_holds(job) -> None:
    moment = datetime(2013, 2, 8, 12, tzinfo=UTC)
    table = pa.table(
        {
            "i": pa.array([7], pa.int16()),
            "f": pa.array([0.5], pa.float32()),
            "t": pa.array([moment], pa.timestamp("ns", "UTC")),
            "s": pa.array(["a"]).dictionary_encode(),
            "v": pa.array(["b"], pa.string_view()),
            "d": pa.array([1], pa.decimal128(9, 2)),
        }
    )
    path = job(table)
    (batch,) = open_dataset(path).batches()
    assert batch.schema.field("t").type == pa.timestamp("us", "UTC")
    (batch,) = open_dataset(path, Reading(utc=True)).batches()
    assert batch.schema.types == [
        pa.int64(),
        pa.float64(),
        pa.timestamp("us"),
        pa.string(),
        pa.string(),
        pa.decimal128(9, 2),
    ]
    assert batch.column("t").to_pylist() == [moment.replace(tzinfo=None)]


def test_a_cast_names_the_values_that_do_not_fit(job) -> None:
    path = job(pa.table({"x": pa.array([1, 1 << 63, 2, 1 << 63], pa.uint64())}))
    says = "column x does not fit int64 in 2 rows, the first row 1 .9223372036854775808.: mend the source"
    with pytest.raises(DatasetError, match=says):
        list(open_dataset(path, Reading(casts={"x": Type("int64")})).batches())


def test_int96_far_from_1970_keeps_its_date(tmp_path: Path) -> None:
    moment = datetime(3013, 1, 1, tzinfo=UTC)  # beyond what nanoseconds in 64 bits reach
    table = pa.table({"t": pa.array([moment], pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "part-0.parquet", use_deprecated_int96_timestamps=True)
    assert [row["t"] for row in rows(tmp_path)] == [moment.replace(tzinfo=None)]


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ([pa.table({"x": [1, None]})], "part-00000.*column x is null in row 1.*--nulls drop"),
        ([pa.table({"x": [0.5, float("nan")]})], "part-00000.*column x is NaN in row 1"),
        (
            [pa.table({"x": [1]}), pa.table({"x": pa.array([1 << 63], pa.uint64())})],
            "part-00001.*column x is uint64, but it is int64 in .*part-00000.*: give --cast x=TYPE",
        ),
        (
            [pa.table({"x": pa.array([1], pa.timestamp("ns"))})],
            "column x does not fit timestamp in row 0",
        ),
        (
            [pa.table({"x": pa.array([None, 2**60, 0, 2**61], pa.timestamp("us")), "y": [1] * 4})],
            "(?s)column x is null in row 0.*column x is beyond timestamp, .* in 2 rows, the first "
            "row 1",
        ),
        (
            [
                pa.table({"x": [1, None, None], "y": [0.5, None, float("nan")]}),
                pa.table({"x": [None], "y": [1.0]}),
            ],
            "(?s)4 problems.*part-00000.*x is null in 2 rows, the first row 1.*y is null in row "
            "1.*y is NaN in row 2.*"
            "part-00001.*column x is null in row 0",
        ),
        (
            [pa.table({"x": pa.array([1], pa.decimal256(39, 2))})],
            "column x has type decimal.*--cast x='decimal.38",
        ),
        ([pa.table({"x": pa.nulls(1)})], "column x has type null"),
        (
            [pa.table({"x": [1]}), pa.table({"x": ["1"]})],
            "part-00001.*column x is string.*int64 in .*part-00000",
        ),
        ([pa.table({"x": [1], "y": [1]}), pa.table({"x": [1]})], "part-00001.*has no column y"),
        ([pa.table([[1], [2]], ["x", "x"])], "part-00000.*has two columns x: rename or leave out"),
        ([], "holds no file to load"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_sentence(
    job, tables: list[pa.Table], complaint: str
) -> None:
    with pytest.raises(DatasetError, match=complaint):
        rows(job(*tables))


def test_a_file_cut_short_is_named(job) -> None:
    path = job(pa.table({"x": list(range(1000))}))
    file = path / PART.format(0)
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(DatasetError, match="part-00000.*cut short"):
        rows(path)


def test_a_file_with_a_damaged_page_is_named(job) -> None:
    path = job(pa.table({"x": list(range(10_000))}))
    file = path / PART.format(0)
    content = bytearray(file.read_bytes())
    content[2000:3000] = bytes(1000)
    file.write_bytes(content)
    with pytest.raises(
        DatasetError, match="part-00000.*is damaged: .*: let the job write it again"
    ):
        rows(path)
