"""Every door that takes a statement refuses a text that does not parse in the words of SQL, with its
place: none lets an error of the parser through.
"""

import re

import pytest

import ivm
import ivm.dbapi
from ivm.errors import IvmError

TEXTS = {
    "a quote that is not closed": "INSERT INTO t VALUES ('a",
    "a name that is not closed": 'DELETE FROM "t',
    "a comment that is not closed": "DELETE FROM t /* all",
    "an end in the middle": "SELECT (",
    "a word in the wrong place": "UPDATE t SET WHERE a = 1",
}
GOOD = "UPDATE t SET a = 1 WHERE a = 2"
DOORS = {
    "sql": lambda ws, text, dialect: ws.sql(text, dialect=dialect),
    "EXPLAIN": lambda ws, text, dialect: ws.sql(f"EXPLAIN {text}", dialect=dialect),
    "prepare_sql": lambda ws, text, dialect: ws.prepare_sql(text, dialect),
    "prepare_transaction": lambda ws, text, dialect: ws.prepare_transaction(
        GOOD, text, dialect=dialect
    ),
}


@pytest.fixture(scope="module")
def ws(tmp_path_factory):
    with ivm.open(tmp_path_factory.mktemp("texts") / "s.pages", sync="off") as workspace:
        workspace.sql("CREATE TABLE t (a INT PRIMARY KEY)")
        yield workspace


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "sqlite", "spark"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_each_door_says_where_the_text_is_wrong(ws, door, text, dialect):
    with pytest.raises(IvmError) as error:
        door(ws, text, dialect)
    assert re.match(r"(sql:)?1:\d+: ", str(error.value))


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_each_door_names_the_dialects_that_there_are(ws, door):
    with pytest.raises(IvmError, match="dialect='oracle': there is duckdb, postgres"):
        door(ws, GOOD, "oracle")


@pytest.mark.parametrize("given", [None, 7, b"SELECT 1"])
@pytest.mark.parametrize("door", ["sql", "prepare_sql", "prepare_transaction"])
def test_each_door_refuses_what_is_no_text(ws, door, given):
    with pytest.raises(IvmError, match="is not a text; statements are texts"):
        DOORS[door](ws, given, "duckdb")


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("many", [False, True])
def test_the_driver_has_errors_of_its_own(tmp_path, text, many):
    with ivm.dbapi.connect(tmp_path / "d.pages") as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (a INT PRIMARY KEY)")
        with pytest.raises(ivm.dbapi.ProgrammingError):
            cursor.executemany(text, [(1,), (2,)]) if many else cursor.execute(text)
