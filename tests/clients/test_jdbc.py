"""`ivm serve`: PostgreSQL's own driver for Java, by which Metabase, DBeaver and many others ask."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pagestore_tools.serving.clients import Settings
from tests.clients.test_postgres import serving

java_gateway = pytest.importorskip("py4j.java_gateway")


JAVA = shutil.which("java")
DRIVER = Path("/usr/share/java/postgresql.jar")
pytestmark = pytest.mark.skipif(
    JAVA is None or not DRIVER.exists(),
    reason="Java or PostgreSQL's driver for it is not there: libpostgresql-jdbc-java",
)


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    """Java with the driver."""
    port = java_gateway.launch_gateway(classpath=str(DRIVER), java_path=JAVA, die_on_exit=True)
    gateway = java_gateway.JavaGateway(gateway_parameters=java_gateway.GatewayParameters(port=port))
    yield gateway.jvm
    gateway.shutdown()


@pytest.fixture
def client(java: Any) -> Iterator[Any]:
    for server in serving(Settings()):
        java.java.lang.Class.forName("org.postgresql.Driver")
        port = server.server_address[1]
        client = java.java.sql.DriverManager.getConnection(
            f"jdbc:postgresql://127.0.0.1:{port}/ivm?user=ivm&sslmode=disable"
        )
        yield client
        client.close()


def rows(answer: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Return the columns of an answer as texts, all of them without names."""
    about = answer.getMetaData()
    places = columns or range(1, about.getColumnCount() + 1)
    found = []
    while answer.next():
        found.append(tuple(answer.getString(place) for place in places))
    return found


TOLD: list[tuple[Callable[[Any], Any], list[tuple[Any, ...]]]] = [
    (lambda about: rows(about.getSchemas(), "TABLE_SCHEM"), [("information_schema",), ("pg_catalog",), ("public",)]),
    (lambda about: rows(about.getTables(None, "public", "%", None), "TABLE_TYPE", "TABLE_NAME")[3:],
     [("MATERIALIZED VIEW", "spent"), ("TABLE", "item"), ("TABLE", "orders")]),
    (lambda about: rows(about.getColumns(None, "public", "item", "%"), "COLUMN_NAME", "TYPE_NAME", "IS_NULLABLE"),
     [("id", "int4", "NO"), ("o", "int4", "YES")]),
    (lambda about: rows(about.getPrimaryKeys(None, "public", "orders"), "COLUMN_NAME", "KEY_SEQ"), [("id", "1")]),
    *[(lambda about, ask=ask: rows(ask(about), "FKTABLE_NAME", "FKCOLUMN_NAME", "PKTABLE_NAME", "PKCOLUMN_NAME"),
       [("item", "o", "orders", "id")])
      for ask in (lambda about: about.getImportedKeys(None, "public", "item"),
                  lambda about: about.getExportedKeys(None, "public", "orders"))],
    (lambda about: rows(about.getIndexInfo(None, "public", "orders", False, True), "INDEX_NAME", "COLUMN_NAME"),
     [("orders_name_key", "name"), ("orders_pkey", "id")]),
    (lambda about: rows(about.getBestRowIdentifier(None, "public", "orders", 0, True), "COLUMN_NAME"), [("id",)]),
    (lambda about: rows(about.getTypeInfo(), "TYPE_NAME")[:2], [("bool",), ("int8",)]),
    (lambda about: rows(about.getProcedures(None, None, "%")), []),
    (lambda about: rows(about.getTablePrivileges(None, "public", "item"), "PRIVILEGE")[:2], [("DELETE",), ("INSERT",)]),
    (lambda about: "analyze" in about.getSQLKeywords(), True),
]  # fmt: skip


def test_the_driver_tells_of_tables_keys_and_indices(client: Any) -> None:
    about = client.getMetaData()
    for ask, told in TOLD:
        assert ask(about) == told


def test_the_driver_asks_edits_and_goes_back(java: Any, client: Any) -> None:
    ask = client.prepareStatement("SELECT name, cents FROM orders WHERE id = ?")
    for number in range(12):  # prepared by the server on the way
        ask.setInt(1, 1 + number % 2)
        assert rows(ask.executeQuery()) == [("b", "-4.50") if number % 2 else ("a", "3.25")]
    client.setAutoCommit(False)
    edit = client.prepareStatement("INSERT INTO orders (id, name, cents) VALUES (?, ?, ?)", 1)
    for number in (50, 51):
        edit.setInt(1, number)
        edit.setString(2, f"n{number}")
        edit.setBigDecimal(3, java.java.math.BigDecimal("7.25"))
        edit.addBatch()
    assert [*edit.executeBatch()] == [1, 1]
    before = client.setSavepoint("before")
    assert client.createStatement().executeUpdate("DELETE FROM orders WHERE id >= 50") == 2
    client.rollback(before)
    client.commit()
    some = client.createStatement()
    some.setFetchSize(2)  # rows of the answer at a time
    assert rows(some.executeQuery("SELECT name FROM orders ORDER BY id")) == [
        ("a",),
        ("b",),
        ("n50",),
        ("n51",),
    ]
    client.rollback()
    with pytest.raises(java_gateway.Py4JJavaError, match="no column nope"):
        client.createStatement().executeQuery("SELECT nope FROM orders")
