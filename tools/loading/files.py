"""Find the files that sources name (files, folders, patterns), and each one's format, by its name
and first bytes.

    trips/_SUCCESS                                       a Spark job succeeded; if absent, a note is made
    trips/month=11/part-00000-<uuid>-c000.zstd.parquet   month is a column, its value is in the folder's name
    trips/month=__HIVE_DEFAULT_PARTITION__/part-…        where it is null; other values are percent-encoded
    trips/readme.md                                      not a table: left out, with a note

In a folder, a name that starts with `_` or `.` is not data.
"""

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from ..cli.answers import counted
from .casts import DatasetError

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
PARQUET, CSV, JSON, ARROW = FORMATS = ("parquet", "csv", "json", "arrow")
SUFFIXES = {
    ".parquet": PARQUET, ".pq": PARQUET, ".csv": CSV, ".tsv": CSV, ".tab": CSV, ".txt": CSV,
    ".json": JSON, ".jsonl": JSON, ".ndjson": JSON, ".arrow": ARROW, ".arrows": ARROW,
    ".ipc": ARROW, ".feather": ARROW,
}  # fmt: skip
PACKED = {".gz", ".bz2", ".zst", ".lz4"}  # of CSV and JSON
MAGIC = {b"PAR1": PARQUET, b"ARROW1": ARROW, b"\xff\xff\xff\xff": ARROW}
FOREIGN_NAMED = 3  # files that a note names


class Part(NamedTuple):
    """One file, its format, and the values of the partition columns that its folders name."""

    file: Path
    format: str
    values: dict[str, str | None]


class Files(NamedTuple):
    """The parts of sources, in the order of the sources and of the names within a folder, and
    notes on them.
    """

    parts: list[Part]
    notes: list[str]


def find_files(sources: Sequence[str | Path], format: str | None = None) -> Files:
    """Return the files of sources, each a file, a folder or a pattern like `data/*.csv`; `format`
    is that of all.

    Raises DatasetError for a source without files.
    """
    parts: list[Part] = []
    notes: list[str] = []
    for path in (path for source in sources for path in _matching(str(source))):
        if path.is_file():
            parts.append(Part(path, format or _format_of(path) or _unknown(path), {}))
        elif path.is_dir():
            paths, foreign = _in_folder(path, format)
            if not paths:
                raise DatasetError(
                    f"{path} holds no file to load: no Parquet, CSV, JSON lines or Arrow"
                )
            parts += paths
            notes += _notes(path, paths, foreign)
        elif path.exists():
            raise DatasetError(
                f"{path} is not a regular file: write what it gives to one, and load that"
            )
        else:
            raise DatasetError(f"{path}: no such file or folder")
    return Files(parts, notes)


def _matching(source: str) -> list[Path]:
    """Return the paths that a pattern matches; a path that exists is not a pattern."""
    if Path(source).exists() or not glob.has_magic(source):
        return [Path(source)]
    paths = [Path(path) for path in sorted(glob.glob(source, recursive=True))]
    if not paths:
        raise DatasetError(f"{source}: no file matches this pattern")
    return paths


def _in_folder(root: Path, format: str | None) -> tuple[list[Part], list[Path]]:
    """Return the parts in a folder, and the files that are not tables."""
    parts, foreign = [], []
    for file in _files(root):
        kind = format or _format_of(file)
        if kind is None:
            foreign.append(file)
        else:
            parts.append(Part(file, kind, _partition(file, root)))
    return parts, foreign


def _partition(file: Path, root: Path) -> dict[str, str | None]:
    """Return the partition columns named by the folders between a root and a file."""
    folders = (name.split("=", 1) for name in file.relative_to(root).parts[:-1] if "=" in name)
    values: dict[str, str | None] = {}
    for name, value in ((unquote(name), value) for name, value in folders):
        if name in values:
            raise DatasetError(f"{file} is in two folders {name}=: leave out one in the job")
        values[name] = None if value == NULL_FOLDER else unquote(value)
    return values


def _files(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Yield the files in a folder and below, by name; follow links, skip what Spark hides."""
    real = folder.resolve()
    if real in above:
        raise DatasetError(f"{folder} is a link back to a folder that it is in: remove it")
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir():
            yield from _files(entry, above | {real})
        elif entry.is_file():
            yield entry
        else:
            raise DatasetError(
                f"{entry} is not a file, or a link to one that no longer exists: put it back, or "
                f"remove it"
            )


def _format_of(file: Path) -> str | None:
    """Return the format of a file by its name, or by its first bytes; None if it is not a table."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes[-1:] and suffixes[-1] in PACKED:
        suffixes.pop()
    if suffixes[-1:] and suffixes[-1] in SUFFIXES:
        return SUFFIXES[suffixes[-1]]
    with open(file, "rb") as opened:
        head = opened.read(6)
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)


def _unknown(file: Path) -> str:
    raise DatasetError(
        f"{file}: neither its name nor its first bytes say what it is: say it with --format"
    )


def _notes(root: Path, parts: list[Part], foreign: list[Path]) -> list[str]:
    notes = []
    if (
        any(part.format == PARQUET for part in parts)
        and not (root / "_SUCCESS").exists()
        and _is_of_spark(parts)
    ):
        notes.append(f"{root} has no _SUCCESS: the job that wrote it may have failed half way")
    if foreign:
        named = ", ".join(str(file.relative_to(root)) for file in foreign[:FOREIGN_NAMED])
        more = f" and {len(foreign) - FOREIGN_NAMED} more" if len(foreign) > FOREIGN_NAMED else ""
        what = "that is not a table" if len(foreign) == 1 else "that are not tables"
        notes.append(
            f"{root} holds {counted(len(foreign), 'file')} {what}, left out: {named}{more}"
        )
    return notes


def _is_of_spark(parts: list[Part]) -> bool:
    """Return whether a Spark job wrote the files, by their names."""
    return any(part.file.name.startswith("part-") for part in parts)
