"""Arrow data whose bytes were changed: refused by name, or taken as Arrow reads them; never a
signal or a traceback.

A child does it, since what Arrow does not look at, such as offsets, may kill a process.
"""

import os
import random
import subprocess
import sys

import pyarrow as pa
import pytest

import pagestore
from pagestore.errors import PagestoreError
from pagestore_tools.loading.load import load

N = 5


def tables():
    """One table for each type that has offsets, indices or validity to lead astray."""
    texts = pa.array(["caf\u00e9", "", None, "longer than twelve bytes", "efgh"])
    columns = {
        "string": texts,
        "large": texts.cast(pa.large_string()),
        "view": texts.cast(pa.string_view()),
        "bytes": texts.cast(pa.binary()),
        "bytes view": texts.cast(pa.binary()).cast(pa.binary_view()),
        "dictionary": texts.dictionary_encode(),
        "struct": pa.StructArray.from_arrays([texts, pa.array(range(N))], ["a", "b"]),
        "numbers": pa.array([1, None, 3, 4, 2**62]),
        "bool": pa.array([True, None, False, True, True]),
    }
    return {
        name: pa.table({"k": pa.array(range(N)), "v": column}) for name, column in columns.items()
    }


def rows_of(table):
    """The rows that there are in a table, or None where Arrow itself says that it is damaged."""
    try:
        table.validate(full=True)
        flat = table.flatten()
        return sorted({*map(repr, zip(*(c.to_pylist() for c in flat.columns), strict=True))})
    except (pa.ArrowException, UnicodeDecodeError, OverflowError):
        return None


def attempt(path, name):
    """Load a file and insert what Arrow reads of it; says what is wrong, or nothing."""
    try:
        with pa.OSFile(path) as file:
            opened = pa.ipc.open_file(file) if path.endswith("arrow") else pa.ipc.open_stream(file)
            table = opened.read_all()
    except (pa.ArrowException, OSError):
        table = None
    expected = None if table is None else rows_of(table)
    for way in ("load", "insert"):
        with pagestore.open(":memory:") as store, store.transaction() as txn:
            try:
                if way == "load":
                    load(txn, "r", path, ["k"])
                elif table is None:
                    continue
                else:
                    txn.create("r", table.schema, key="k").insert(table)
                found = sorted(map(repr, txn["r"]))
            except PagestoreError:
                continue
            nullable = way == "load" or all(not c.null_count for c in table.columns)
            if nullable and found != expected:
                return f"{way} of {name}: {found} where there is {expected}"
    return ""


def campaign(seed, times, folder):
    """Damage files and try them; prints what is wrong with each."""
    chosen = random.Random(seed)
    for name, table in tables().items():
        for kind, new in (("arrow", pa.ipc.new_file), ("arrows", pa.ipc.new_stream)):
            path = os.path.join(folder, f"x.{kind}")
            with new(path, table.schema) as out:
                out.write_table(table)
            with open(path, "rb") as file:
                whole = file.read()
            for turn in range(times):
                data = bytearray(whole)
                for _ in range(chosen.randint(1, 3)):
                    at = chosen.randrange(8, len(data))
                    data[at] = chosen.choice(
                        [0, 1, 127, 128, 255, data[at] ^ 1 << chosen.randrange(8)]
                    )
                with open(path, "wb") as file:
                    file.write(data)
                with open(os.path.join(folder, "now"), "w") as file:
                    file.write(f"{name} {kind} {turn}")
                if wrong := attempt(path, name):
                    print(f"{name} {kind} {turn}: {wrong}")


def run(seed, times, folder):
    """A campaign in a child: what it found, and the signal or traceback that ended it."""
    done = subprocess.run(
        [sys.executable, __file__, str(seed), str(times), str(folder)],
        capture_output=True,
        text=True,
        timeout=3000,
    )
    where = (folder / "now").read_text()
    return done.returncode, done.stdout, done.stderr[-2000:] and f"{where}: {done.stderr[-2000:]}"


def test_damaged_arrow_data(tmp_path):
    assert run(7, 15, tmp_path) == (0, "", "")


@pytest.mark.campaign
def test_a_campaign_of_damaged_arrow_data(tmp_path):
    for seed in range(int(os.environ.get("POINTS", "10"))):
        assert run(seed, 300, tmp_path) == (0, "", ""), seed


if __name__ == "__main__":
    campaign(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
