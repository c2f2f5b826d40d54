"""The manifest of a folder of load-ready Parquet: its contents, so that a load can verify that it
is complete.

    trips/_manifest.json
        {"manifest": 1, "relation": "trip", "key": ["x"], "rows": 300,
         "columns": [{"name": "x", "type": "int64"}, {"name": "note", "type": "string?"}],
         "files": [{"name": "part-00000.parquet", "rows": 200, "bytes": 4711, "sha256": "9f8...",
                    "first": [1], "last": [200]}, ...]}

The files are in the order of their names, in which keys ascend across all files. `first` and `last`
are the keys of a file's first and last row; numbers are JSON numbers, everything else is a text.
`sha256sum` gives the same checksums.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pagestore.errors import SchemaError
from pagestore.host import Type
from pagestore.tooling import beside

from ..cli.answers import counted
from .casts import DatasetError
from .dataset import Reading

NAME = "_manifest.json"
VERSION = 1
THREADS = 4  # that read files for their checksums
SHOWN = 3  # files that an error names
REMEDY = "prepare it again, or remove _manifest.json to load the files as they are"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class File:
    """One file: its numbers of rows and bytes, checksum, and keys of its first and last row."""

    name: str
    rows: int
    bytes: int
    sha256: str
    first: Sequence[Any] | None
    last: Sequence[Any] | None


@dataclass(frozen=True)
class Manifest:
    """The contents of a folder; `columns` are names and types, nullable ones with `?`."""

    relation: str
    key: tuple[str, ...]
    columns: Mapping[str, Type]
    files: tuple[File, ...]

    @property
    def rows(self) -> int:
        """The number of rows of all files."""
        return sum(file.rows for file in self.files)

    def applied(self, reading: Reading) -> Reading:
        """Return the reading with the manifest's column types, except for its own casts."""
        named = {reading.renames.get(name, name): kind for name, kind in self.columns.items()}
        kinds = {
            name: kind
            for name, kind in named.items()
            if not reading.columns or name in reading.columns
        }
        casts = {name: kind for name, kind in kinds.items() if not (kind.zone and reading.utc)}
        return reading._replace(casts={**casts, **reading.casts})

    def to_json(self) -> str:
        """Return the manifest as it is written to its file."""
        columns = [{"name": name, "type": str(kind)} for name, kind in self.columns.items()]
        content = {"manifest": VERSION, "relation": self.relation, "key": self.key,
            "rows": self.rows,
                   "columns": columns, "files": [asdict(file) for file in self.files]}  # fmt: skip
        return json.dumps(content, indent=1) + "\n"


def write_manifest(
    folder: Path, relation: str, key: Sequence[str], columns: Mapping[str, Type]
) -> Manifest:
    """Write the manifest of a folder of Parquet files that ascend by key. O(bytes), in threads."""
    files = sorted(folder.glob("*.parquet"))
    with ThreadPoolExecutor(THREADS) as pool:
        manifest = Manifest(
            relation,
            tuple(key),
            dict(columns),
            tuple(pool.map(lambda f: _described(f, key), files)),
        )
    with beside(folder / NAME) as temporary:
        temporary.write_text(manifest.to_json())
        temporary.replace(folder / NAME)
    return manifest


def read_manifest(folder: Path) -> Manifest | None:
    """Return a folder's manifest; None if there is none. Raises DatasetError for an invalid one."""
    file = folder / NAME
    if not file.is_file():
        return None
    try:
        content = json.loads(file.read_text())
        if content["manifest"] != VERSION:
            raise DatasetError(
                f"{file} is of version {content['manifest']!r}, and this release reads {VERSION}"
            )
        columns = {column["name"]: Type.parse(column["type"]) for column in content["columns"]}
        files = tuple(File(**entry) for entry in content["files"])
        manifest = Manifest(content["relation"], tuple(content["key"]), columns, files)
        whole = manifest.rows == content["rows"]
    except (ValueError, KeyError, TypeError, SchemaError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{file} is not a manifest ({error!r}): {REMEDY}") from None
    if not whole:
        raise DatasetError(f"{file} is not a manifest (its rows do not add up): {REMEDY}")
    return manifest


def verified(sources: Sequence[str | Path], progress: Tell) -> Manifest | None:
    """Verify every source with a manifest; return the manifest if it is the only one."""
    manifests = [(Path(source), read_manifest(Path(source))) for source in sources]
    for folder, manifest in manifests:
        if manifest is not None:
            verify(folder, manifest, progress)
    return manifests[0][1] if len(manifests) == 1 else None


def verify(folder: Path, manifest: Manifest, progress: Tell = lambda text: None) -> None:
    """Compare the files of a folder with its manifest. O(bytes), on several threads.

    Raises DatasetError with every file that was changed, is missing or was added.
    """
    listed = {file.name: file for file in manifest.files}
    there = {str(file.relative_to(folder)) for file in folder.rglob("*") if _is_data(file, folder)}
    problems = [f"{name} is missing" for name in listed if name not in there]
    problems += [f"{name} is not listed" for name in sorted(there - listed.keys())]
    present = [file for name, file in listed.items() if name in there]
    with ThreadPoolExecutor(THREADS) as pool:
        for done, fault in enumerate(pool.map(lambda file: _fault(folder, file), present)):
            problems += [fault] * bool(fault)
            progress(f"{done + 1} of {counted(len(present), 'file')} verified")
    if problems:
        more = [f"{len(problems) - SHOWN} more"] * (len(problems) > SHOWN)
        raise DatasetError(
            f"{folder} is not what {NAME} says: {'; '.join([*problems[:SHOWN], *more])}: {REMEDY}"
        )


def _is_data(file: Path, folder: Path) -> bool:
    return file.is_file() and not any(
        part.startswith(("_", ".")) for part in file.relative_to(folder).parts
    )


def _fault(folder: Path, file: File) -> str:
    """Return what is wrong with a file, or an empty text."""
    size = (folder / file.name).stat().st_size
    if size != file.bytes:
        return f"{file.name} has {size} bytes instead of {file.bytes}"
    if _sha256(folder / file.name) == file.sha256:
        return ""
    return f"{file.name} was changed: its checksum differs"


def _described(file: Path, key: Sequence[str]) -> File:
    with pq.ParquetFile(file) as source:
        groups = [i for i in range(source.num_row_groups) if source.metadata.row_group(i).num_rows]
        first = _key_at(source, groups[0], key, 0) if groups else None
        last = _key_at(source, groups[-1], key, -1) if groups else None
        rows = source.metadata.num_rows
    return File(file.name, rows, file.stat().st_size, _sha256(file), first, last)


def _key_at(source: pq.ParquetFile, group: int, key: Sequence[str], row: int) -> list[Any]:
    columns = source.read_row_group(group, columns=list(key))
    return [_plain(columns[name][row].as_py()) for name in key]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, bool | int | float | str) else str(value)


def _sha256(file: Path) -> str:
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
