"""SQL's types: their names as DuckDB shows them, the types of columns that hold them, and what
operations give.

SQL                                            column of the store
TINYINT ... BIGINT, UINTEGER                   int64
DECIMAL(p,s), HUGEINT                          decimal(p,s), decimal(38,0)
sums of integers, products of decimals         int64, decimal(18,s): of one word, though their types have 38 digits
FLOAT, DOUBLE                                  float64
VARCHAR, CHAR(n), TEXT, UUID, JSON, ENUM       string
lists, STRUCT, MAP                             string: their values as JSON, without the brackets around them
BOOLEAN, DATE, TIME, TIMESTAMP                 bool, date, time, timestamp
"""

import re
from decimal import Decimal
from typing import NamedTuple

from ivm.sql.keywords import KEYWORDS
from ivm.wide import members

DIGITS = 18  # of a decimal in one word
MOST = 38  # of any decimal
FEW = 8  # digits after the point; with more, a word of 18 has too few before it for a sum
SUMMED = 15  # a sum of a column of more digits is kept in more than one word
WIDTHS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 38}  # decimal digits
UNSIGNED = {"UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20}
INTEGERS = WIDTHS | UNSIGNED
# of a value without its sign, as far as a word holds them
BITS = {
    "TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "UTINYINT": 8, "USMALLINT": 16,
    "UINTEGER": 32, "UBIGINT": 63,
}  # fmt: skip
FLOATS = ("FLOAT", "DOUBLE")


class SqlType(NamedTuple):
    """A type by its name, with the precision and scale of a decimal; `element` is the type of a
    list's values.

    A `wide` number has 38 digits; another of the same name and precision has those of one word, or
    is an error. The `fields` of a STRUCT have names and types; those of a MAP are its keys and its
    values. An ENUM has `words`.
    """

    name: str
    precision: int = 0
    scale: int = 0
    element: "SqlType | None" = None
    wide: bool = False
    fields: "tuple[tuple[str, SqlType], ...]" = ()
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.element is not None:
            return f"{self.element}[]"
        if self.name == "STRUCT":
            return f"STRUCT({', '.join(f'{_quoted(name)} {type_}' for name, type_ in self.fields)})"
        if self.fields:
            return f"{self.name}({', '.join(str(type_) for _, type_ in self.fields)})"
        if self.words:
            return f"ENUM({', '.join(_text(word) for word in self.words)})"
        return f"DECIMAL({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def is_integer(self) -> bool:
        """Whether values are whole numbers."""
        return self.name in INTEGERS

    @property
    def is_float(self) -> bool:
        """Whether values are floats."""
        return self.name in FLOATS

    @property
    def is_decimal(self) -> bool:
        """Whether values are decimals."""
        return self.name == "DECIMAL"

    @property
    def is_nested(self) -> bool:
        """Whether values are lists, structs or maps."""
        return self.element is not None or bool(self.fields)

    @property
    def is_number(self) -> bool:
        """Whether values are numbers."""
        return self.is_integer or self.is_float or self.is_decimal

    @property
    def range(self) -> tuple[Decimal, Decimal] | None:
        """The least and the greatest value of a number with bounds within a word, else None."""
        if self.wide or self.name == "HUGEINT":
            return None
        if self.name in BITS:
            bits, signed = BITS[self.name], self.name not in UNSIGNED
            return Decimal(-(2**bits) if signed else 0), Decimal(2**bits - 1)
        if self.is_decimal and self.precision <= DIGITS:
            most = Decimal(10**self.precision - 1).scaleb(-self.scale)
            return -most, most
        return None

    @property
    def has_short_sums(self) -> bool:
        """Whether a word holds the sum of a column of exact numbers."""
        short = self.is_decimal and self.precision <= SUMMED
        return short or (self.is_integer and BITS.get(self.name, DIGITS) < 32)

    def holds(self, other: "SqlType") -> bool:
        """Return whether every number of another type is one of this, perhaps with fewer digits."""
        ours = self.range
        if ours is None or other == BOOLEAN:
            return True
        theirs = other.range
        return theirs is not None and ours[0] <= theirs[0] and theirs[1] <= ours[1]

    @property
    def store(self) -> str:
        """The type of a column of the store that holds the values."""
        if self.wide:
            return f"decimal({self.precision or MOST},{self.scale})"
        if self.is_integer:
            return "int64"
        if self.is_decimal:
            return f"decimal({min(self.precision, DIGITS)},{self.scale})"
        return KINDS[self.name].store


class PostgresType(NamedTuple):
    """A type of PostgreSQL: its oid, its name in pg_type, its name in SQL, its bytes (-1: as many
    as it takes), its category, and the oid of a list of its values.
    """

    oid: int
    name: str
    shown: str
    size: int
    category: str
    array: int


class Kind(NamedTuple):
    """What is known of the types of a name: the type of a column of the store that has the values,
    PostgreSQL's type, the names of sqlglot, the function that reads a text as one, Spark's name of
    it, by which a function casts, and the function that reads a text as Spark does.
    """

    store: str
    postgres: PostgresType
    parsed: str = ""
    reads: str = ""
    spark: str = ""
    spark_reads: str = ""


BOOL = PostgresType(16, "bool", "boolean", 1, "B", 1000)
BYTEA = PostgresType(17, "bytea", "bytea", -1, "U", 1001)
INT8 = PostgresType(20, "int8", "bigint", 8, "N", 1016)
INT2 = PostgresType(21, "int2", "smallint", 2, "N", 1005)
INT4 = PostgresType(23, "int4", "integer", 4, "N", 1007)
TEXT = PostgresType(25, "text", "text", -1, "S", 1009)
OF_JSON = PostgresType(114, "json", "json", -1, "U", 199)
FLOAT4 = PostgresType(700, "float4", "real", 4, "N", 1021)
FLOAT8 = PostgresType(701, "float8", "double precision", 8, "N", 1022)
NUMERIC = PostgresType(1700, "numeric", "numeric", -1, "N", 1231)
_TEXTS = "VARCHAR CHAR TEXT NCHAR NVARCHAR BPCHAR"
_MOMENTS = "TIMESTAMP TIMESTAMPNTZ DATETIME TIMESTAMP_S TIMESTAMP_MS"
# fmt: off
KINDS = {  # the first of a type of the store is what SQL calls a column that it did not create
    "BIGINT": Kind("int64", INT8, "BIGINT BIGSERIAL", spark="bigint"),
    "TINYINT": Kind("int64", INT2, "TINYINT", spark="tinyint"),
    "SMALLINT": Kind("int64", INT2, "SMALLINT", spark="smallint"),
    "INTEGER": Kind("int64", INT4, "INT MEDIUMINT SERIAL", spark="int"),
    "HUGEINT": Kind("int64", NUMERIC, "INT128"),
    "UTINYINT": Kind("int64", INT2, "UTINYINT"),
    "USMALLINT": Kind("int64", INT4, "USMALLINT"),
    "UINTEGER": Kind("int64", INT8, "UINT"),
    "UBIGINT": Kind("int64", NUMERIC, "UBIGINT"),
    "DOUBLE": Kind("float64", FLOAT8, "DOUBLE", "float", "double"),
    "FLOAT": Kind("float64", FLOAT4, "FLOAT", "float", "float"),
    "DECIMAL": Kind("decimal", NUMERIC),
    "VARCHAR": Kind("string", TEXT, _TEXTS, spark="string"),
    "UUID": Kind("string", PostgresType(2950, "uuid", "uuid", 16, "U", 2951), "UUID",
                 "string:uuid"),
    "JSON": Kind("string", OF_JSON, "JSON JSONB", "string:whole_json"),
    "LIST": Kind("string", TEXT), "STRUCT": Kind("string", OF_JSON), "MAP": Kind("string", OF_JSON),
    "TUPLE": Kind("string", TEXT), "ENUM": Kind("string", TEXT),
    "BOOLEAN": Kind("bool", BOOL, "BOOLEAN", "bool", "boolean"),
    "DATE": Kind("date", PostgresType(1082, "date", "date", 4, "D", 1182), "DATE", "date",
                 "date", "spark:date"),
    "TIME": Kind("time", PostgresType(1083, "time", "time without time zone", 8, "D", 1183), "TIME",
                 "time"),
    "TIMESTAMP": Kind("timestamp", PostgresType(1114, "timestamp", "timestamp without time zone",
                                                8, "D", 1115), _MOMENTS, "datetime",
                      spark_reads="spark:moment"),
    "TIMESTAMP WITH TIME ZONE": Kind(
        "timestamp(UTC)",
        PostgresType(1184, "timestamptz", "timestamp with time zone", 8, "D", 1185),
        "TIMESTAMPTZ", "datetime:zoned", "timestamp", "spark:moment"),
    "INTERVAL": Kind("int64", PostgresType(1186, "interval", "interval", 16, "T", 1187),
                     "INTERVAL"),
    "BLOB": Kind("bytes", BYTEA, "BLOB BINARY VARBINARY"),
    "NULL": Kind("int64", TEXT),
}
# fmt: on
INTEGER, BIGINT, HUGEINT = SqlType("INTEGER"), SqlType("BIGINT"), SqlType("HUGEINT")
LONG, UBIGINT = SqlType("HUGEINT", wide=True), SqlType("UBIGINT")
FLOAT, DOUBLE, VARCHAR, BOOLEAN = map(SqlType, ("FLOAT", "DOUBLE", "VARCHAR", "BOOLEAN"))
DATE, TIMESTAMP, TIME, INTERVAL, NULL = map(
    SqlType, ("DATE", "TIMESTAMP", "TIME", "INTERVAL", "NULL")
)
TIMESTAMPTZ, UUID, BLOB = SqlType("TIMESTAMP WITH TIME ZONE"), SqlType("UUID"), SqlType("BLOB")
JSON = SqlType("JSON")
DATE_OF = "datetime:date"  # of a moment; that of its column's type reads a text, too
# the function that makes a time of another kind of time
OF_TIMES = {
    (TIMESTAMP, DATE): DATE_OF, (TIMESTAMPTZ, DATE): DATE_OF,
    (DATE, TIMESTAMP): "datetime", (TIMESTAMPTZ, TIMESTAMP): "datetime", (TIMESTAMP, TIME): "time",
}  # fmt: skip


def decimal(precision: int, scale: int) -> SqlType:
    """Return the type of decimals of so many digits, each of which can be stored."""
    return SqlType("DECIMAL", precision, scale, wide=precision > DIGITS)


def list_of(element: SqlType) -> SqlType:
    """Return the type of a list, which is kept as a text: its values as JSON, without the
    brackets around them.
    """
    return SqlType("LIST", element=element)


def map_of(keys: SqlType, values: SqlType) -> SqlType:
    """Return the type of a map, which is kept as its pairs are in a list."""
    return SqlType("MAP", fields=(("key", keys), ("value", values)))


def _quoted(name: str) -> str:
    plain = re.fullmatch("[a-z_][a-z0-9_]*", name) and name not in KEYWORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def _text(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"


def parsed(text: str) -> SqlType:
    """Return the type that `str` shows.

    >>> str(parsed("DECIMAL(8,2)[]").element), parsed("STRUCT(a INTEGER, b ENUM('x', 'y'))").fields[1][1].words
    ('DECIMAL(8,2)', ('x', 'y'))
    """
    if text.endswith("[]"):
        return list_of(parsed(text.removesuffix("[]")))
    name = text.partition("(")[0]
    if name == "ENUM":
        return SqlType(name, words=tuple(one[1:-1].replace("''", "'") for _, one in members(text)))
    if name in ("STRUCT", "TUPLE"):
        return SqlType(name, fields=tuple((field, parsed(type_)) for field, type_ in members(text)))
    if name == "MAP":
        return map_of(*(parsed(type_) for _, type_ in members(text)))
    if text.startswith("DECIMAL("):
        precision, scale = text[8:-1].split(",")
        return SqlType("DECIMAL", int(precision), int(scale))
    return SqlType(text)


def as_stored(type_: SqlType, text: str) -> SqlType:
    """Return a type as a column has it, which may be of when decimals had one word."""
    text = text.removesuffix("?")
    return type_._replace(wide=text.startswith("decimal") and type_of_store(text).wide)


def type_of_store(text: str) -> SqlType:
    """Return the type of a column that SQL did not create, by its type in the store."""
    text = text.removesuffix("?")
    if text.startswith("decimal"):
        precision, scale = text[8:-1].split(",")
        return decimal(int(precision), int(scale))
    names = {kind.store: name for name, kind in reversed(KINDS.items())}
    names |= {"uint64": "UBIGINT", "duration": "BIGINT"}
    return SqlType(
        names.get(text, TIMESTAMPTZ.name if text.startswith("timestamp(") else "VARCHAR")
    )


def as_decimal(type_: SqlType) -> SqlType:
    """Return the decimal that holds every integer of a type, or the decimal itself."""
    if not type_.is_integer:
        return type_
    return SqlType("DECIMAL", min(INTEGERS[type_.name], MOST), 0, wide=type_.wide)


def common(left: SqlType, right: SqlType) -> SqlType | None:
    """Return the type in which two types are compared or put into one column, or None."""
    if left == right or right.name == "NULL":
        return left
    if left.name == "NULL":
        return right
    if left.is_number and right.is_number:
        return _number(left, right)
    pair = {left.name, right.name}
    if pair <= {"DATE", "TIMESTAMP", TIMESTAMPTZ.name}:
        return TIMESTAMPTZ if TIMESTAMPTZ.name in pair else TIMESTAMP
    if pair <= {"ENUM", "VARCHAR"} or pair == {"JSON", "VARCHAR"}:
        return VARCHAR
    if left.element is not None and right.element is not None:
        element = common(left.element, right.element)
        return None if element is None else list_of(element)
    if left.name == right.name and left.name in ("STRUCT", "MAP"):
        return _by_name(left, right)
    return None


def _by_name(left: SqlType, right: SqlType) -> SqlType | None:
    """Return the struct or map whose fields hold those of two, which are the same by their names."""
    others = {name.lower(): type_ for name, type_ in right.fields}
    if {name.lower() for name, _ in left.fields} != {*others}:
        return None
    types = [(name, common(type_, others[name.lower()])) for name, type_ in left.fields]
    fields = tuple((name, type_) for name, type_ in types if type_ is not None)
    return left._replace(fields=fields) if len(fields) == len(types) else None


def _number(left: SqlType, right: SqlType) -> SqlType:
    if left.is_float or right.is_float:
        return DOUBLE if DOUBLE in (left, right) else FLOAT
    wide = left.wide or right.wide
    if left.is_integer and right.is_integer:
        return _integer(left, right)
    open_ended = "HUGEINT" in (left.name, right.name)
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if open_ended:
        whole = min(whole, MOST - scale)
    # where 38 are not enough, digits after the point go, as in DuckDB
    scale = min(scale, MOST - whole)
    return SqlType("DECIMAL", whole + scale, scale, wide=wide)


def _integer(left: SqlType, right: SqlType) -> SqlType:
    """Return the wider of two types; if one is unsigned, a signed one that holds its values."""
    wider = max(left, right, key=lambda t: INTEGERS[t.name])._replace(wide=left.wide or right.wide)
    unsigned = [t for t in (left, right) if t.name in UNSIGNED]
    if len(unsigned) != 1:
        return wider
    (signed,) = {left, right} - {*unsigned}
    least = next(name for name, digits in WIDTHS.items() if digits > UNSIGNED[unsigned[0].name])
    return max(SqlType(least), signed, key=lambda t: WIDTHS[t.name])._replace(wide=signed.wide)


def added(left: SqlType, right: SqlType) -> SqlType:
    """Return the type of a sum, a difference or a product of integers."""
    wider = _integer(left, right)
    return wider if wider in (left, right) or wider == HUGEINT else BIGINT
