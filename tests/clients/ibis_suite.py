"""Ibis' own tests of backends over this one: `python -m tests.clients.ibis_suite string numeric`.

The package has the tests, and not the data, so the tables are drawn here.  Tests that list what
each backend answers do not know this one: they fail with KeyError.
"""

import datetime
import random
import sys
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import ivm.ibis

FILES = "set_ops join column conditionals string numeric aggregation generic temporal window array struct map json sql dot_sql param export"  # noqa: E501
TEXTS = [None, "Ideal", "Premium", "x", "ab", "Gold Glove"]


def alltypes(schema: pa.Schema) -> pa.Table:
    """The table that most tests ask: 7,300 rows, ten for each day of two years."""
    rows = []
    for number in range(7300):
        digit = number % 10
        day = datetime.datetime(2009, 1, 1) + datetime.timedelta(days=number // 10)
        at = day + datetime.timedelta(minutes=digit, milliseconds=450 * digit)
        rows.append(
            {
                "id": number, "bool_col": digit % 2 == 0, "tinyint_col": digit, "smallint_col": digit,
                "int_col": digit, "bigint_col": digit * 10, "float_col": digit * 1.1,
                "double_col": digit * 10.1, "date_string_col": f"{at:%m/%d/%y}", "string_col": str(digit),
                "timestamp_col": at, "year": at.year, "month": at.month,
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schema)


def drawn(schema: pa.Schema, draw: random.Random) -> pa.Table:
    """A table of 800 rows by chance."""

    def value(field: pa.Field) -> Any:
        if pa.types.is_floating(field.type):
            return round(draw.uniform(0, 60), 2)
        if pa.types.is_integer(field.type):
            years = field.name.startswith("year")
            return draw.randrange(1871, 2016) if years else draw.choice([None, *range(50)])
        named = field.name in ("playerID", "cut", "color", "lgID", "name")
        return f"{field.name[:3]}{draw.randrange(30):02}" if named else draw.choice(TEXTS)

    rows = [{one.name: value(one) for one in schema} for _ in range(800)]
    return pa.Table.from_pylist(rows, schema=schema)


def nested() -> dict[str, pa.Table]:
    """Small tables with lists, structs and maps, and for windows."""
    pairs = pa.map_(pa.string(), pa.int64())
    lists = pa.list_(pa.float64())
    return {
        "win": pa.table({"g": list("aaaaa"), "x": [0, 1, 2, 3, 4], "y": [3, 2, 0, 1, 1]}),
        "topk": pa.table({"x": pa.array([1, 1, None], pa.int64())}),
        "map": pa.table(
            {"idx": [1, 2], "kv": pa.array([[("a", 1), ("b", 2), ("c", 3)], [("d", 4), ("e", 5), ("f", 6)]], pairs)}
        ),
        "json_t": pa.table(
            {"rowid": [1, 2, 3], "js": ['{"a": [1,2,3,4], "b": 1}', '{"a":null,"b":2}', '{"a":"foo", "c":null}']}
        ),
        "struct": pa.table(
            {"abc": [{"a": 1.0, "b": "banana", "c": 2}, {"a": 2.0, "b": None, "c": 3}, None]}
        ),
        "array_types": pa.table(
            {
                "x": [[1, 2, 3], [4, 5], [6, None], [None, 1, None], [2, None, 3], [4, None, None, 5]],
                "y": [["a", "b", "c"], ["d", "e"], ["f", None], [None, "a", None], ["b", None], ["d", None, "e"]],
                "z": pa.array([[1.0, 2.0, 3.0], [4.0, 5.0], [6.0, None], [], None, [4.0, None, None, 5.0]], lists),
                "grouper": list("aaabbc"), "scalar_column": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
                "multi_dim": pa.array(
                    [[[], [1, 2, 3], None], [], [None, [], None], [[1], [2], [], [3, 4, 5]], None, [[1, 2, 3]]],
                    pa.list_(pa.list_(pa.int64())),
                ),
            }
        ),
    }  # fmt: skip


class Suite:
    """A plugin of pytest: the backend and its tables, under the names that Ibis' tests import."""

    def __init__(self) -> None:
        import ibis.backends as backends
        from ibis.backends.tests.base import BackendTest

        known = backends._get_backend_names
        backends._get_backend_names = lambda *args, **more: known(*args, **more) | {"ivm"}

        class TestConf(BackendTest):  # type: ignore[misc]
            check_dtype = stateful = False
            force_sort = supports_map = True
            deps = ()

            @classmethod
            def name(cls) -> str:
                return "ivm"

            @staticmethod
            def connect(**_: Any) -> ivm.ibis.Backend:
                made = ivm.ibis.Backend()
                made.do_connect(":memory:")
                return made

            def _load_data(self, **_: Any) -> None:
                from ibis.backends.conftest import TEST_TABLES

                draw = random.Random(1)
                for name, schema in TEST_TABLES.items():
                    own = schema.to_pyarrow()
                    made = alltypes(own) if name == "functional_alltypes" else drawn(own, draw)
                    self.connection.create_table(name, made)
                for name, made in nested().items():
                    self.connection.create_table(name, made)

        sys.modules["ibis.backends.ivm"] = ivm.ibis
        for name in ("ibis.backends.ivm.tests", "ibis.backends.ivm.tests.conftest"):
            sys.modules[name] = ModuleType(name)
        sys.modules["ibis.backends.ivm.tests.conftest"].TestConf = TestConf  # type: ignore[attr-defined]

    @pytest.fixture(scope="session")
    def data_dir(self, tmp_path_factory: pytest.TempPathFactory) -> Any:
        """Where Ibis keeps data in its repository: an empty folder."""
        return tmp_path_factory.mktemp("none")


if __name__ == "__main__":
    wanted = [f"ibis.backends.tests.test_{one}" for one in sys.argv[1:] or FILES.split()]
    options = [
        "-q",
        "--tb=line",
        "-m",
        "ivm",
        "-c",
        "/dev/null",
        "-W",
        "ignore",
        "-p",
        "no:cacheprovider",
    ]
    sys.exit(pytest.main([*options, "--pyargs", *wanted], plugins=[Suite()]))
