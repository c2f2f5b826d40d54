"""What Parquet files say beside their values: checksums of pages, nested columns by name, and
pandas' index.
"""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagestore
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.dataset import Reading
from pagestore_tools.loading.load import load


def loaded(path: Path, key: str = "k", **reading) -> pa.Table:
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        load(txn, "r", path, [key], reading=Reading(**reading))
        return txn["r"].to_arrow()


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("seed", range(10))
def test_a_page_that_its_checksum_contradicts_is_refused(
    seed: int, compression: str, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    table = pa.table(
        {"k": np.arange(2000), "v": np.random.default_rng(seed).integers(0, 2**60, 2000)}
    )
    path = tmp_path / "a.parquet"
    pq.write_table(
        table, path, write_page_checksum=True, compression=compression, use_dictionary=False
    )
    content = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(1)
    # behind the page's header
    place = chunk.data_page_offset + chance.randrange(200, chunk.total_compressed_size)
    content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="a.parquet is damaged: .*CRC"):
        loaded(path)


@pytest.mark.parametrize("order", [["a.b", "a"], ["a", "a.b"]])
@pytest.mark.parametrize("lacking", ["a.b", "a:b", "none"])
def test_a_dot_in_a_name_and_a_struct(order: list[str], lacking: str, tmp_path: Path) -> None:
    flat, within = [1, None if lacking == "a.b" else 2], [3, None if lacking == "a:b" else 4]
    columns = {"a.b": pa.array(flat), "a": pa.array([{"b": value} for value in within])}
    table = pa.table({**{name: columns[name] for name in order}, "k": [1, 2]})
    pq.write_table(table, tmp_path / "a.parquet")
    for names in ([], ["k", "a.b"], ["k", "a:b"], ["k", "a:b", "a.b"]):
        found = loaded(tmp_path / "a.parquet", columns=names)
        expected = {"k": [1, 2], "a.b": flat, "a:b": within}
        assert found.to_pydict() == {name: expected[name] for name in names or ["k", "a.b", "a:b"]}
        assert {field.name for field in found.schema if field.nullable} == {lacking} & {
            *found.column_names
        }


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("index", ["range", "unnamed", "named", "two", "a column"])
def test_an_index_of_pandas_is_a_column_if_it_has_a_name(
    index: str, suffix: str, tmp_path: Path
) -> None:
    """By load as by insert."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"k": [1, 2]})
    names = ["k"]
    if index == "unnamed":
        frame.index = pandas.Index([7, 8])
    elif index == "named":
        frame.index, names = pandas.Index([7, 8], name="i"), ["k", "i"]
    elif index == "two":
        frame.index = pandas.MultiIndex.from_tuples([(5, 6), (7, 8)], names=["i", None])
        names = ["k", "i"]
    table = pa.Table.from_pandas(frame)
    if index == "a column":
        names = ["k", "__index_level_0__"]
        table = pa.table({"k": [1, 2], names[1]: [7, 8]})
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as out:
            out.write_table(table)
    found = loaded(path)
    assert found.column_names == names
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        for number, some in enumerate([table, table.to_reader(), *[frame] * (index != "a column")]):
            inserted = txn.create(f"r{number}", found.schema, key="k")
            inserted.insert(some)
            assert inserted.to_arrow().equals(found)
