"""Recipes of `pagestore prepare`: a TOML file with one section for each relation to make of raw
tables.

    [flight]
    source = "raw/flights.csv"                # or a list; the format follows from the name, or `format`
    options = { nullValue = "NA" }            # of Spark's reader for that format
    key = ["t", "c"]
    where = "month <= 11"                     # SQL over the raw columns: which rows are wanted at all

    [flight.columns]                          # without it, all columns as they are
    t = { from = "time_hour", type = "timestamp(UTC)", nulls = "drop" }
    c = { from = "upper(carrier)", type = "string" }
    m = { from = "distance", type = "int64?", least = 0 }
    note = "string?"                          # the raw column of that name

A type with a question mark keeps nulls; without, a null is bad, unless `nulls = "drop"` drops its
row or `fill` gives a value. Nothing here needs pyspark, so that errors in a recipe are reported
before Spark starts.
"""

import csv
import glob
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pagestore.errors import SchemaError
from pagestore.host import Type

from ..cli.answers import counted
from ..loading.casts import DatasetError
from ..loading.manifest import Manifest

KEEP, DROP, QUARANTINE = NULLS = "keep", "drop", "quarantine"
CSV, JSON, PARQUET, JDBC, TABLE = FORMATS = "csv", "json", "parquet", "jdbc", "table"
SUFFIXES = {
    ".csv": CSV, ".tsv": CSV, ".json": JSON, ".jsonl": JSON, ".ndjson": JSON, ".parquet": PARQUET,
}  # fmt: skip
PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")
WITHOUT = {
    "uint64": "int64 or decimal(18,0)",
    "duration": "int64",
    "time": "int64 or string",
}  # types that Spark does not write, and alternatives
ROW_GROUP = 1 << 20  # rows, as many as the loader reads at once


class Wanted(NamedTuple):
    """A column to make: its type, and the SQL expression over the raw columns that gives it.

    `nulls` says how a row without a value is treated, after `fill` was applied. `least` and `most`
    are SQL literals or expressions that bound its values.
    """

    type: Type
    source: str
    nulls: str = QUARANTINE
    fill: str | None = None
    least: str | None = None
    most: str | None = None


class Recipe(NamedTuple):
    """How to prepare one raw table: its columns, which rows are wanted, and their layout.

    `sources` are paths, or the name of a table. Of several rows with one key, the one with the
    greatest value of the SQL expression `prefer` is kept; without it, such rows are conflicts.
    `partitions` is the number of files, 0 for the number of Spark's cores.
    """

    name: str
    key: tuple[str, ...]
    sources: tuple[str, ...] = ()
    format: str = PARQUET
    options: Mapping[str, str] = {}
    columns: Mapping[str, Wanted] = {}
    where: str | None = None
    prefer: str | None = None
    partitions: int = 0
    row_group: int = ROW_GROUP


def places_of(recipe: Recipe, out: Path) -> tuple[Path, Path]:
    """Return the folder that a recipe makes, and the one of its bad rows."""
    return out.resolve() / recipe.name, out.resolve() / f"{recipe.name}.quarantine"


def check_places(recipe: Recipe, out: Path, overwrite: bool) -> None:
    """Raise DatasetError if a recipe's folders exist already, or cannot be made."""
    there = [place for place in places_of(recipe, out) if place.exists()]
    if there and not overwrite:
        raise DatasetError(
            f"{there[0]} already exists: give another folder, or overwrite it with --overwrite"
        )
    if out.exists() and not out.is_dir():
        raise DatasetError(f"{out} is a file: name a folder for what is prepared")


def check_sources(recipe: Recipe) -> None:
    """Raise DatasetError for a local source that is missing, or lacks the key's columns.

    Columns are only checked if the recipe names none, in Parquet and in CSV that is read without
    options.
    """
    sources = () if recipe.format in (JDBC, TABLE) else recipe.sources
    files = [file for source in sources for file in _local_files(recipe, source)]
    missing, names = [*recipe.key], dict[str, None]()
    for file in () if recipe.columns else files:
        names |= dict.fromkeys(_names_in(recipe, file))
        missing = [name for name in missing if name not in names]
        if not missing:
            return
    if names:
        raise DatasetError(
            f"{recipe.name}: no column {missing[0]} for the key; there are {', '.join(names)}"
        )


def _local_files(recipe: Recipe, source: str) -> list[Path]:
    """Return a local source's files; none for a remote one. DatasetError if it is missing."""
    scheme, sign, rest = source.partition(":/")
    path = source if not sign else "/" + rest.lstrip("/") if scheme == "file" else ""
    if not path or "{" in path:  # alternatives, as Spark writes them
        return []
    paths = [Path(name) for name in (sorted(glob.glob(path)) if glob.has_magic(path) else [path])]
    if not paths or not paths[0].exists():
        raise DatasetError(
            f"{recipe.name}: there is no source {source}: name a file or a folder of such files"
        )
    return [
        file
        for folder in paths
        for file in (sorted(folder.rglob("[!_.]*")) if folder.is_dir() else [folder])
        if file.is_file()
    ]


def _names_in(recipe: Recipe, file: Path) -> list[str]:
    """Return a file's columns with those of its folders' names; none if only Spark can tell."""
    names: list[str] = []
    try:
        if recipe.format == PARQUET:
            names = pq.read_schema(file).names
        elif recipe.format == CSV and not recipe.options and file.suffix not in PACKED:
            with file.open(newline="", encoding="utf-8-sig") as lines:
                names = next(csv.reader(lines), [])
    except (OSError, ValueError, csv.Error, pa.ArrowException):
        return []  # Spark reports what is wrong with it
    if not all(names) or len({name.lower() for name in names}) < len(names):
        return []  # Spark gives such columns names of its own
    if names:
        return [*names, *(part.partition("=")[0] for part in file.parts[:-1] if "=" in part)]
    return []


def read_recipes(file: str | Path) -> list[Recipe]:
    """Parse the recipes of a file. Raises DatasetError for an invalid one, naming the section.
    Sources are relative to the file.
    """
    try:
        sections = tomllib.loads(Path(file).read_text())
    except (FileNotFoundError, IsADirectoryError):
        raise DatasetError(f"there is no file {file} of recipes") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DatasetError(f"{file} is not TOML: {error}") from None
    if not sections:
        raise DatasetError(f"{file} has no section: each is named for the relation that it makes")
    return [
        _recipe(name, section, f"{file}: [{name}]", Path(file).absolute().parent)
        for name, section in sections.items()
    ]


def recipe_of(
    name: str, section: Mapping[str, Any], where: str = "the options", beside: Path = Path()
) -> Recipe:
    """Return a relation's recipe from a section, as parsed from TOML. Raises DatasetError."""
    return _recipe(name, section, where, beside)


def _recipe(name: str, section: Any, where: str, beside: Path) -> Recipe:
    _check_names(section, SECTION, where)
    taken = {field: SECTION[field](value, f"{where}: {field}") for field, value in section.items()}
    if not taken.get("key"):
        raise DatasetError(
            f"{where}: there is no key (--key, or key = [...]): name the columns that tell rows "
            f"apart"
        )
    columns = {
        column: _wanted(column, value, f"{where}: column {column}", column in taken["key"])
        for column, value in taken.pop("columns", {}).items()
    }
    if columns and (unknown := [column for column in taken["key"] if column not in columns]):
        raise DatasetError(
            f"{where}: the key has {', '.join(unknown)}, which is not among the columns"
        )
    sources = tuple(taken.pop("source", ()))
    files = tuple(path if "://" in path else str(beside / path) for path in sources)
    kind = taken.pop("format", None) or _format_of(files, where)
    if kind not in FORMATS:
        raise DatasetError(f"{where}: format = {kind!r}: use {', '.join(FORMATS)}")
    if kind not in (JDBC, TABLE):
        sources = files
    return Recipe(name, sources=sources, format=kind, columns=columns, **taken)


def _wanted(name: str, value: Any, where: str, in_key: bool) -> Wanted:
    """Return the column for a section's entry."""
    fields = {"type": value} if isinstance(value, str) else value
    _check_names(fields, COLUMN, where)
    if "type" not in fields:
        raise DatasetError(f"{where} has no type")
    taken = {field: COLUMN[field](given, f"{where}: {field}") for field, given in fields.items()}
    kind: Type = taken.pop("type")
    nulls = taken.pop("nulls", KEEP if kind.nullable else QUARANTINE)
    if nulls not in NULLS:
        raise DatasetError(f"{where}: nulls = {nulls!r}: use {', '.join(NULLS)}")
    if in_key and nulls == KEEP:
        raise DatasetError(
            f"{where} is in the key, which is never null: take {str(kind).rstrip('?')}"
        )
    if kind.name in WITHOUT:
        raise DatasetError(f"{where}: Spark writes no {kind.name}: take {WITHOUT[kind.name]}")
    return Wanted(
        kind._replace(nullable=nulls == KEEP), taken.pop("from", f"`{name}`"), nulls, **taken
    )


def _check_names(section: Any, known: Mapping[str, Any], where: str) -> None:
    if not isinstance(section, Mapping):
        raise DatasetError(f"{where}: a table is wanted, with {', '.join(known)}")
    for name in section:
        if name not in known:
            raise DatasetError(f"{where}: {name!r} is unknown; there is {', '.join(known)}")


def _format_of(sources: Sequence[str], where: str) -> str:
    """Return the format by the sources' names; a folder has files of one format, or is Parquet."""
    formats = set()
    for source in sources:
        if not Path(source).is_dir():
            files = [source]
        else:
            files = [str(file) for file in sorted(Path(source).iterdir())]
        for file in files:
            for packing in PACKED:
                file = file.removesuffix(packing)
            formats |= {SUFFIXES[Path(file).suffix]} if Path(file).suffix in SUFFIXES else set()
    if len(formats) > 1:
        raise DatasetError(
            f"{where}: the sources are of several formats, {', '.join(sorted(formats))}: say which"
        )
    return formats.pop() if formats else PARQUET


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise DatasetError(f"{where} = {value!r}: a text is wanted")
    return str(value)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    return tuple(
        _text(text, where) for text in (value if isinstance(value, list | tuple) else [value])
    )


def _number(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DatasetError(f"{where} = {value!r}: a number from 1 on is wanted")
    return value


def _type(value: Any, where: str) -> Type:
    try:
        return Type.parse(_text(value, where))
    except SchemaError as error:
        raise DatasetError(f"{where}: {error}") from None


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise DatasetError(f"{where} = {value!r}: a table of names and values is wanted")
    return dict(value)


def _options(value: Any, where: str) -> dict[str, str]:
    return {name: _text(text, f"{where}: {name}") for name, text in _table(value, where).items()}


Take = Callable[[Any, str], Any]
SECTION: dict[str, Take] = {
    "source": _texts, "format": _text, "options": _options, "key": _texts, "columns": _table,
    "where": _text, "prefer": _text, "partitions": _number, "row_group": _number,
}  # fmt: skip
COLUMN: dict[str, Take] = {
    "type": _type, "from": _text, "nulls": _text, "fill": _text, "least": _text, "most": _text,
}  # fmt: skip


# -- what a job found

SHOWN = 160  # characters of an example
KINDS = {
    "duplicates": "duplicates collapsed",
    "superseded": "superseded",
    "conflicts": "conflicts of keys",
}


@dataclass
class Report:
    """Row counts by outcome: raw = unwanted + dropped + quarantined + duplicates + superseded +
    kept.

    `reasons` counts bad rows by reason, each with an example; a row may have several. `conflicts`
    counts keys, `conflict_rows` their rows, which are in quarantine.
    """

    relation: str
    folder: str
    quarantine: str
    raw: int = 0
    unwanted: int = 0
    dropped: int = 0
    quarantined: int = 0
    duplicates: int = 0
    superseded: int = 0
    conflicts: int = 0
    conflict_rows: int = 0
    kept: int = 0
    files: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def reason(self, reason: str, rows: int, example: str) -> None:
        """Add bad rows with a reason."""
        self.reasons[reason] = self.reasons.get(reason, 0) + rows
        self.examples.setdefault(reason, [example])

    def take(self, manifest: Manifest) -> None:
        """Record what was written."""
        self.kept, self.files = manifest.rows, len(manifest.files)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def __str__(self) -> str:
        lines = [f"{self.relation}: {self.kept:,} of {counted(self.raw, 'row')} kept, "
                 f"in {counted(self.files, 'file')} of {self.folder}"]  # fmt: skip
        counts: list[tuple[str, int, Sequence[str]]] = [
            ("not wanted", self.unwanted, []),
            ("dropped for nulls", self.dropped, []),
        ]
        counts += [
            (KINDS[kind], getattr(self, kind), self.examples.get(kind, []))
            for kind in ("duplicates", "superseded")
        ]
        lines += [
            line
            for what, rows, examples in counts
            if rows
            for line in _lines(f"{rows:,} {what}", examples)
        ]
        if self.quarantined:
            lines.append(f"  {self.quarantined:,} in quarantine, in {self.quarantine}")
            for reason, rows in self.reasons.items():
                lines += [
                    "  " + line for line in _lines(f"{rows:,}: {reason}", self.examples[reason])
                ]
            if self.conflicts:
                what = (
                    f"{self.conflict_rows:,}: {counted(self.conflicts, 'key')} with several values"
                )
                lines += ["  " + line for line in _lines(what, self.examples["conflicts"])]
        return "\n".join(lines)


def _lines(text: str, examples: Sequence[str]) -> list[str]:
    shown = [
        example if len(example) <= SHOWN else f"{example[: SHOWN - 3]}..." for example in examples
    ]
    return [f"  {text}", *(f"    such as {example}" for example in shown)]
