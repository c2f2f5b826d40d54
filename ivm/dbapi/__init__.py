"""PEP 249, the interface that Python's tools for databases share: `ivm.dbapi.connect(file)`.

>>> with connect(":memory:") as connection:
...     _ = connection.execute("CREATE TABLE paid (id INT PRIMARY KEY, cents INT)")
...     _ = connection.executemany("INSERT INTO paid VALUES (?, ?)", [(1, 250), (2, 50)])
...     connection.execute("SELECT sum(cents) AS total FROM paid").fetchall()
[(300,)]

As in `sqlite3`, an INSERT, UPDATE, DELETE or MERGE begins a transaction, which `commit` ends; until
then no other connection writes.  A question outside of one reads the newest version.  What creates
or drops a table or view is a commit of its own, and refused while a transaction is open.
"""

from ivm.dbapi.connection import Connection, Cursor, connect
from ivm.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from ivm.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    OTHER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Kind,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "OTHER", "ROWID", "STRING", "Binary", "Connection", "Cursor",
    "DataError", "DatabaseError", "Date", "DateFromTicks", "Error", "IntegrityError",
    "InterfaceError", "InternalError", "Kind", "NotSupportedError", "OperationalError",
    "ProgrammingError", "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Warning",
    "apilevel", "connect", "paramstyle", "threadsafety",
]  # fmt: skip

apilevel = "2.0"
threadsafety = 1  # threads may share the module, and each has connections of its own
paramstyle = "qmark"  # a dict serves `:name`
