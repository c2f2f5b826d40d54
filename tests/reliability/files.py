"""Files of data that were damaged on their way: refused by name, or loaded as another reader reads
them.

Good Parquet, Arrow, CSV and JSON files are changed by some bytes, and cut. What is loaded of them
is what pyarrow, csv and json of Python read, each value as tests/support/exact.py has it. Many
files are loaded in one child process, with bounded memory, so that the parent sees a signal and the
file that did it.

    python -m tests.reliability.files 1 100000
"""

import csv
import io
import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pagestore
from pagestore.errors import PagestoreError
from pagestore.values.types import Schema, Type
from pagestore_tools.loading.load import load
from tests.support.exact import Refused, read, spelt
from tests.support.tables import plain

CHUNK = 2000  # files of a child process
SECONDS = 30  # that one may take, also where others work beside
DATA = 1 << 30  # bytes of memory that a child may take beyond what its parent has
ROWS = 40
SCHEMA = Schema.parse(
    "k: int64, n: int64?, f: float64?, d: decimal(9,2)?, b: bool?, day: date?, at: timestamp?, s: "
    "string?",
    ["k"],
)
BYTES = {
    "csv": b'",\n\r;\t\x000179.-+eExN\xff\xef\xc3 ',
    "json": b'"{}[],:\\\n\x000179.-+eEtfnu\xff\xc3 ',
}
MISSING = {"", "NA", "N/A", "NULL", "null", "NaN", "nan", "None"}
FOLDER = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
Row = tuple[Any, ...]


def run(seed: int, amount: int) -> Counter[str]:
    """Load so many damaged files; counts what came of them.

    Raises AssertionError that names the seed, the index and a file with the first one whose outcome
    is wrong: a signal, more memory or time than allowed, an error of another kind, other rows than
    the reference has.
    """
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        for first in range(0, amount, CHUNK):
            counts += _in_child(Path(folder), seed, first, min(CHUNK, amount - first))
    return counts


def _in_child(folder: Path, seed: int, first: int, amount: int) -> Counter[str]:
    words = [sys.executable, "-m", "tests.reliability.files", "in", folder, seed, first, amount]
    done = subprocess.run([*map(str, words)], cwd=Path(__file__).parents[2], capture_output=True)
    if done.returncode:
        if not (folder / "input").exists():
            raise AssertionError(
                f"a child that began nothing: {done.returncode}, {done.stderr.decode()[-3000:]}"
            )
        index, form, data = pickle.loads((folder / "input").read_bytes())
        kept = Path(tempfile.gettempdir(), f"damaged-{seed}-{index}.{form}")
        kept.write_bytes(data)
        how = f"signal {-done.returncode}" if done.returncode < 0 else done.stderr.decode()[-3000:]
        raise AssertionError(f"seed {seed}, input {index} (in {kept}): {how}")
    return pickle.loads(done.stdout)


def _child(folder: Path, seed: int, first: int, amount: int) -> Counter[str]:
    """Load files one after the other; the one under way is in a file."""
    goods()
    held = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (held + DATA, held + DATA))
    counts: Counter[str] = Counter()
    for index in range(first, first + amount):
        form, data = damaged(seed, index)
        (folder / "input").write_bytes(pickle.dumps((index, form, data)))
        path = folder / f"a.{form}"
        path.write_bytes(data)
        signal.alarm(SECONDS)
        counts[f"{form}: {outcome(path, form, index)}"] += 1
    return counts


# --- what came of it ----------------------------------------------------------------------------


def outcome(path: Path, form: str, index: int) -> str:
    """Load a file; says whether it was refused, and sees that it is right if it was not."""
    typed = form in ("parquet", "arrow")
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        if not typed:
            txn.create("r", SCHEMA)
        try:
            load(txn, "r", path, ["k"], "upsert" if not typed and index % 2 else "append")
        except PagestoreError as error:
            assert (
                str(path) in str(error) or "the relation" in str(error) or "column" in str(error)
            ), error
            return "refused"
        found = txn["r"].to_arrow()
    if typed and any(pa.types.is_nested(kind) for kind in reference_table(path, form).schema.types):
        return "loaded, with lists"
    expected = table_rows(reference_table(path, form)) if typed else text_rows(path, form)
    assert {*table_rows(found)} == expected, (
        table_rows(found) - expected,
        expected - table_rows(found),
    )
    return "loaded"


def table_rows(table: pa.Table) -> set[Row]:
    """The rows of a table as plain values."""
    columns = [column.to_pylist() for column in table.columns]
    return {tuple(map(plain, row)) for row in zip(*columns, strict=True)}


def reference_table(path: Path, form: str) -> pa.Table:
    """A file as pyarrow reads it by itself."""
    if form == "parquet":
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
    else:
        try:
            table = pa.ipc.open_file(str(path)).read_all()
        except pa.ArrowInvalid:
            table = pa.ipc.open_stream(str(path)).read_all()
    table.validate(full=True)
    return table


def text_rows(path: Path, form: str) -> set[Row]:
    """The rows of a file of texts, of which the last counts where keys are repeated."""
    rows: dict[Any, Row] = {}
    for given in csv_rows(path) if form == "csv" else json_rows(path):
        row = tuple(kept(given.get(one.name), one.type) for one in SCHEMA.columns)
        rows[row[0]] = row
    return {*rows.values()}


def kept(given: tuple[str, bool | None] | None, kind: Type) -> Any:
    """What a column keeps of a text, which is quoted or not."""
    if given is None:
        return None
    text, quoted = given
    if kind.name != "string":
        if quoted is None and text in MISSING:
            return None
        text = text.strip(" \t\n\r\x0b\x0c") if quoted is not False else text
    try:
        return plain(read(text, kind, quoted))
    except (Refused, ValueError):
        raise AssertionError(f"{text!r} was taken as {kind}") from None


def csv_rows(path: Path) -> Iterable[dict[str, tuple[str, bool | None]]]:
    """The rows of a CSV file as Python's reader has them."""
    text = path.read_bytes().decode("utf-8-sig").lstrip("\r\n")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    names = next(reader)
    for row in filter(None, reader):
        yield {name: (value, None) for name, value in zip(names, row, strict=True)}


def json_rows(path: Path) -> Iterable[dict[str, tuple[str, bool]]]:
    """The rows of a JSON file as Python's reader has them."""
    scan = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal).raw_decode
    numbers = json.JSONDecoder(
        parse_float=_Number, parse_int=_Number, parse_constant=_Number
    ).raw_decode
    text, at = path.read_bytes().decode("utf-8-sig"), 0
    listed = text.lstrip()[:1] == "["
    if listed:
        assert isinstance(json.loads(text), list)
    while True:
        while at < len(text) and text[at] in " \t\r\n" + ",[]" * listed:
            at += 1
        if at >= len(text):
            return
        row, _ = numbers(text, at)
        at = scan(text, at)[1]
        yield {
            name: (spelt(value), not isinstance(value, _Number | bool))
            for name, value in row.items()
            if value is not None
        }


class _Number(str):
    __slots__ = ()


# --- damage -------------------------------------------------------------------------------------


@cache
def goods() -> dict[str, list[bytes]]:
    """Good files of each format."""
    chance = random.Random(1)
    columns = {
        "k": [*range(ROWS)],
        "n": [chance.choice([None, 7, 2**53 + 1, -(2**62)]) for _ in range(ROWS)],
        "f": [chance.choice([None, 0.5, 1e22, 0.1]) for _ in range(ROWS)],
        "d": [chance.choice([None, Decimal("1.25"), Decimal("1234567.89")]) for _ in range(ROWS)],
        "b": [chance.choice([None, True, False]) for _ in range(ROWS)],
        "day": [date(2020, 1, 1) + timedelta(i) for i in range(ROWS)],
        "at": [datetime(2020, 1, 1, 12) + timedelta(microseconds=i) for i in range(ROWS)],
        "s": [chance.choice(["Ulm", "a,\"b\"\n", "", "ä", "x" * 40]) for _ in range(ROWS)],
    }  # fmt: skip
    table = pa.table(
        [pa.array(columns[one.name], one.type.arrow) for one in SCHEMA.columns], names=SCHEMA.names
    )
    found: dict[str, list[bytes]] = {"parquet": [], "arrow": [], "csv": [], "json": []}
    for options in (
        {"compression": "none", "use_dictionary": False},
        {"compression": "zstd", "write_page_checksum": True},
    ):
        out = io.BytesIO()
        pq.write_table(table, out, **options)
        found["parquet"].append(out.getvalue())
    for new in (pa.ipc.new_file, pa.ipc.new_stream):
        out = io.BytesIO()
        with new(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=5)
        found["arrow"].append(out.getvalue())
    texts = [
        [None if value is None else spelt(value) for value in row.values()]
        for row in table.to_pylist()
    ]
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        lines = io.StringIO(newline="")
        csv.writer(lines, quoting=quoting).writerows([SCHEMA.names, *texts])
        found["csv"].append(lines.getvalue().encode())
    numbers = {"k", "n", "f", "d", "b"}
    rows = [
        "{"
        + ", ".join(
            f'"{name}": {"null" if text is None else text if name in numbers else json.dumps(text)}'
            for name, text in zip(SCHEMA.names, row, strict=True)
        )
        + "}"
        for row in texts
    ]
    found["json"] = ["\n".join(rows).encode(), f"[{', '.join(rows)}]".encode()]
    return found


def damaged(seed: int, index: int) -> tuple[str, bytes]:
    """A format, and a file of it with some damage."""
    chance = random.Random(f"{seed} {index}")
    form = chance.choice([*goods()])
    data = bytearray(chance.choice(goods()[form]))
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(data))
        what = chance.random()
        some = BYTES.get(form, bytes([0, 1, 127, 128, 255, data[at] ^ 1 << chance.randrange(8)]))
        if what < 0.6:
            data[at] = chance.choice([*some, data[at] ^ 1 << chance.randrange(8)])
        elif what < 0.75:
            data[at:at] = bytes(chance.choices(some, k=chance.choice([1, 2, 8])))
        elif what < 0.9:
            del data[at : at + chance.choice([1, 1, 4, 100])]
        elif what < 0.95:
            del data[at:]
        else:
            data[at:at] = data[chance.randrange(len(data)) :][:200]
        data = data or bytearray(b"\n")
    return form, bytes(data)


if __name__ == "__main__":
    if sys.argv[1] == "in":
        _, _, folder_, *numbers_ = sys.argv
        sys.stdout.buffer.write(pickle.dumps(_child(Path(folder_), *map(int, numbers_))))
    else:
        print(run(int(sys.argv[1]), int(sys.argv[2])))
