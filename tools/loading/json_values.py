"""Read JSON values as written: numbers by their digits, texts as texts. Arrow would convert between
the two.

    {"id": 7.0, "at": "12:30", "ok": true}      id  "7.0" a number     at  "12:30" a text     ok  a boolean

Columns of them are arrays of texts, which texts.py converts to the wanted types, unless a value is
of a kind that the type does not accept: a text is not an int64, a number not a text.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..cli.answers import counted
from .casts import DatasetError, Problems, Record, is_number, is_string, said
from .opened import Contradicted, Types, Wanted, is_nested
from .texts import typed

SPACE = re.compile(r"[ \t\r\n]*")
ELEMENT = "[]"  # the path of a list's elements
Path_ = tuple[str, ...]
NOTHING = type(None)


class Number(str):
    """A number as written."""

    __slots__ = ()


KINDS = {str: "a text", Number: "a number", bool: "a boolean", list: "a list", dict: "an object"}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in an object"
        )
    return values


DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=Number,
    parse_int=Number,
    parse_constant=Number,
    strict=True,
)


class NoType(Exception):
    """No type fits all values of a column. `row` is one that shows it, if known."""

    def __init__(self, fact: str, row: int | None = None) -> None:
        super().__init__(fact)
        self.row = row


# --- types --------------------------------------------------------------------------------------


def shape_of(
    values: Sequence[Any], path: Path_, types: Types, notes: list[str] | None = None
) -> pa.DataType:
    """Return the type wanted at a path, or else the one that fits the values. Raises NoType.

    If rows may go aside, it is one that fits more than half of a column's values, and `notes` get
    what it leaves out.

    >>> shape_of([{"a": Number("7")}, {"a": Number("1.5"), "b": ["x"]}], (), {})
    StructType(struct<a: double, b: list<item: string>>)
    """
    if (wanted := types.get(":".join(path))) is not None and not is_nested(wanted):
        return wanted
    kinds = set(map(type, values)) - {NOTHING}
    if len(kinds) > 1 and notes is not None and ELEMENT not in path:
        usual, count = Counter(type(value) for value in values if value is not None).most_common(1)[
            0
        ]
        others = [value for value in values if value is not None and type(value) is not usual]
        if count > len(others):
            values, kinds = [value if type(value) is usual else None for value in values], {usual}
            notes.append(
                f"column {named(path)} has {KINDS[usual]} in most rows: the rows of "
                f"{counted(len(others), 'other value')}, such as {others[0]!r:.60}, go aside"
            )
    if len(kinds) > 1:
        first, other = (
            next(row for row, value in enumerate(values) if type(value) is kind)
            for kind in sorted(kinds, key=lambda kind: kind.__name__)[:2]
        )
        raise NoType(
            _mixed(path, KINDS[type(values[first])], KINDS[type(values[other])]), max(first, other)
        )
    kind = kinds.pop() if kinds else NOTHING
    if kind is dict:
        names = dict.fromkeys(chain.from_iterable(value for value in values if value))
        inner = {name: [value.get(name) if value else None for value in values] for name in names}
        return pa.struct(
            [
                (name, shape_of(column, (*path, name), types, notes))
                for name, column in inner.items()
            ]
        )
    if kind is list:
        return pa.list_(
            shape_of(
                [*chain.from_iterable(value for value in values if value)],
                (*path, ELEMENT),
                types,
                notes,
            )
        )
    if kind is Number:
        return _number_shape(values, path)
    return {bool: pa.bool_(), str: pa.string()}.get(kind, pa.null())


def _mixed(path: Path_, one: str, other: str) -> str:
    remedy = f"--cast {_name_of_cast(path)}=string takes both as they are written"
    if path.count(ELEMENT) > 1 or {one, other} & {KINDS[list], KINDS[dict]}:
        remedy = "write one of them in the source, or leave it out with --columns"
    return f"column {named(path)} has {other} where other rows have {one}: {remedy}"


def _number_shape(values: Sequence[Any], path: Path_) -> pa.DataType:
    texts = pa.array([None if value is None else str(value) for value in values], pa.string())
    whole = not any(
        "." in value or "e" in value.lower() or "n" in value
        for value in values
        if value is not None
    )
    for kind in [pa.int64(), pa.uint64()] * whole + [pa.float64()]:
        try:
            typed(texts, kind, supposed=pa.types.is_floating(kind))
        except pa.ArrowInvalid:
            continue
        return kind
    raise NoType(
        f"column {named(path)} has numbers that neither int64 nor float64 keeps as they are: give "
        f"--cast {named(path)}='decimal(18,2)', or string, which keeps all digits, or float64"
    )


def merged(one: pa.DataType, other: pa.DataType, path: Path_, types: Types) -> pa.DataType:
    """Return the type for values of two types. Raises NoType."""
    kinds = pa.types
    if one == other or kinds.is_null(other):
        return one
    declared = types.get(":".join(path)) if path else None
    if kinds.is_null(one) or (declared is not None and not is_nested(declared)):
        return other if kinds.is_null(one) else one
    if kinds.is_struct(one) and kinds.is_struct(other):
        names = dict.fromkeys([field.name for field in [*one, *other]])
        null = pa.field("", pa.null())
        pairs = {
            name: [
                kind.field(name) if kind.get_field_index(name) >= 0 else null
                for kind in (one, other)
            ]
            for name in names
        }
        return pa.struct(
            [(name, merged(a.type, b.type, (*path, name), types)) for name, (a, b) in pairs.items()]
        )
    if kinds.is_list(one) and kinds.is_list(other):
        return pa.list_(merged(one.value_type, other.value_type, (*path, ELEMENT), types))
    if is_number(one) and is_number(other):
        return pa.float64() if pa.float64() in (one, other) else pa.uint64()
    raise NoType(_mixed(path, _kind_of(one), _kind_of(other)))


def _kind_of(shape: pa.DataType) -> str:
    if pa.types.is_struct(shape) or pa.types.is_list(shape):
        return KINDS[dict if pa.types.is_struct(shape) else list]
    return KINDS[Number if is_number(shape) else bool if pa.types.is_boolean(shape) else str]


def as_wanted(kind: pa.DataType, path: Path_, types: Types) -> pa.DataType:
    """Replace the parts of a type by those that are wanted, also where all rows are null."""
    type_ = types.get(":".join(path))
    if type_ is not None and not is_nested(type_):
        return type_
    if pa.types.is_null(kind):
        if (element := types.get(":".join((*path, ELEMENT)))) is not None:
            return pa.list_(element)
        names = [parts for name in types if ELEMENT not in (parts := name.split(":"))[len(path) :]]
        inner = dict.fromkeys(
            name[len(path)]
            for name in names
            if len(name) > len(path) and (*name[: len(path)],) == path
        )
        if inner:
            return pa.struct([(name, as_wanted(kind, (*path, name), types)) for name in inner])
        return type_ or kind
    if pa.types.is_struct(kind):
        return pa.struct(
            [(field.name, as_wanted(field.type, (*path, field.name), types)) for field in kind]
        )
    if pa.types.is_list(kind):
        kind = pa.list_(as_wanted(kind.value_type, (*path, ELEMENT), types))
    return _like(kind, type_)


def in_lists(name: str) -> list[str]:
    """Return the paths that a name such as `lines:sku` or `tags:value` may mean within lists.

    >>> in_lists("tags:value"), in_lists("lines:sku")
    (['tags:[]:value', 'tags:[]'], ['lines:[]:sku'])
    """
    parts = name.split(":")
    names = [":".join([*parts[:at], ELEMENT, *parts[at:]]) for at in range(1, len(parts))]
    if len(parts) > 1 and parts[-1] == "value":
        return [*names, ":".join([*parts[:-1], ELEMENT])]
    return names


def _like(kind: pa.DataType, target: pa.DataType | None) -> pa.DataType:
    """Replace the parts of a list's element type by those that are wanted."""
    if target is None or pa.types.is_null(kind):
        return target or kind
    if pa.types.is_struct(kind):
        held = {field.name: field.type for field in target} if pa.types.is_struct(target) else {}
        return pa.struct([(field.name, _like(field.type, held.get(field.name))) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_like(kind.value_type, target.value_type if is_nested(target) else None))
    return target


def named(path: Path_) -> str:
    """Return the name of the column at a path in structs and lists."""
    return ":".join(name for name in path if name != ELEMENT)


def _name_of_cast(path: Path_) -> str:
    """Return the column at a path as --cast names it: `tags:value` for the elements of a list."""
    return f"{named(path)}:value" if path[-1:] == (ELEMENT,) else named(path)


def space_end(text: str, at: int) -> int:
    """Return where the white space at a place of a text ends."""
    return SPACE.match(text, at).end()  # type: ignore[union-attr]  # it also matches the empty text


# --- rows ---------------------------------------------------------------------------------------


def rows_in(file: Path, block: bytes, line: int) -> list[dict[str, Any]]:
    """Return the objects in a block that begins at `line` of a file. Raises DatasetError for
    malformed JSON.
    """
    return [
        record.values for record in records_in(file, block, line) if isinstance(record.values, dict)
    ]


def records_in(file: Path, block: bytes, line: int, aside: bool = False) -> Iterator[Record]:
    """Yield the objects in a block that begins at `line` of a file. Raises DatasetError for
    malformed JSON.

    If lines that are none are put `aside`, yield each with its fault; an object over several lines
    still raises.
    """
    text, at, before = block.decode(), 0, 0
    while (at := space_end(text, at)) < len(text):
        line, before = line + text.count("\n", before, at), at
        try:
            value, end = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if not isinstance(error, RecursionError):
                why = getattr(error, "msg", error)
            else:
                why = "it is nested too deep"
            end = at + len(text[at:].partition("\n")[0])
            if not aside or _goes_on(text, at, end):
                where = line + text.count("\n", at, getattr(error, "pos", at))
                raise DatasetError(f"{file}, line {where}: no JSON: {why}: mend the line") from None
            yield Record(line, text[at:end], f"no JSON: {why}: mend the line")
        else:
            if isinstance(value, dict):
                yield Record(line, value)
            else:
                fault = "is not an object, which has the names of the columns: mend the line"
                if not aside:
                    raise DatasetError(f"{file}, line {line}: {text[at:end][:60]} {fault}")
                yield Record(line, text[at:end], fault)
        at = end


def _goes_on(text: str, at: int, end: int) -> bool:
    """Return whether a malformed object at a place of a text seems to go on after the line,
    which ends at `end`.
    """
    following = space_end(text, end)
    return text[at] == "{" and text[following : following + 1] in {'"', "}", "]", ","}


def numbered(value: Any) -> Any:
    """Return a value with its numbers as Python has them."""
    if isinstance(value, Number):
        try:
            return int(value) if value.lstrip("-").isdigit() else float(value)
        except ValueError:  # it has thousands of digits
            return str(value)
    if isinstance(value, dict):
        return {name: numbered(inner) for name, inner in value.items()}
    return [numbered(inner) for inner in value] if isinstance(value, list) else value


class Rows:
    """Converts JSON objects to columns of texts; values of a kind that the column does not
    accept are problems.
    """

    def __init__(self, file: Path, problems: Problems, wanted: Wanted, first_row: int) -> None:
        self.file, self.problems, self.wanted, self.first_row = file, problems, wanted, first_row

    def table(self, values: Sequence[dict[str, Any]], fields: pa.Schema) -> pa.Table:
        """Return the columns of some fields."""
        rows = range(self.first_row, self.first_row + len(values))
        arrays = [
            self._array([row.get(field.name) for row in values], field.type, (field.name,), rows)
            for field in fields
        ]
        return pa.table(arrays, names=fields.names)

    def _array(
        self, values: list[Any], kind: pa.DataType, path: Path_, rows: Sequence[int]
    ) -> pa.Array:
        if pa.types.is_struct(kind):
            values = self._taken(values, kind, {dict}, path, rows)
            columns = {
                field.name: [value and value.get(field.name) for value in values] for field in kind
            }
            arrays = [
                self._array(columns[one.name], one.type, (*path, one.name), rows) for one in kind
            ]
            empty = pa.array([value is None for value in values], pa.bool_())
            return pa.StructArray.from_arrays(arrays, [field.name for field in kind], mask=empty)
        if pa.types.is_list(kind):
            values = self._taken(values, kind, {list}, path, rows)
            counts = [len(value) if value else 0 for value in values]
            inner = [*chain.from_iterable(value for value in values if value)]
            of = [*chain.from_iterable(map(repeat, rows, counts))]
            elements = self._array(inner, kind.value_type, (*path, ELEMENT), of)
            empty = pa.array([value is None for value in values], pa.bool_())
            return pa.ListArray.from_arrays(
                pa.array(np.cumsum([0, *counts]), pa.int32()), elements, mask=empty
            )
        values = self._taken(
            values, kind, _takes(kind, ":".join(path) in self.wanted.requested), path, rows
        )
        try:
            return _texts(values)
        except UnicodeEncodeError:
            places = [
                place
                for place, value in enumerate(values)
                if isinstance(value, str) and not _is_utf8(value)
            ]
            where, of = f"{self.file}: column {named(path)}", [rows[place] for place in places]
            shown, plain = ascii(values[places[0]])[:60], () if ELEMENT in path else path
            self.problems.add_rows(
                where, "has half a surrogate pair", "mend the source", of, shown, plain
            )
            return _texts(
                [None if place in places else value for place, value in enumerate(values)]
            )

    def _taken(
        self,
        values: list[Any],
        kind: pa.DataType,
        takes: set[type],
        path: Path_,
        rows: Sequence[int],
    ) -> list[Any]:
        """Replace values of kinds that a type does not accept by one that fits, and add them to
        the problems.
        """
        wrong = set(map(type, values)) - takes - {NOTHING}
        if not wrong:
            return values
        if not self.wanted.thorough and ":".join(path) not in self.wanted.types:
            raise Contradicted(f"{self.file}: column {named(path)} is of another type later")
        for row in wrong:
            places = [place for place, value in enumerate(values) if type(value) is row]
            if not pa.types.is_nested(kind):
                what = said(kind)
            elif pa.types.is_list(kind):
                what = "list"
            else:
                what = "object"
            self.problems.add_rows(
                f"{self.file}: column {named(path)}",
                f"has {KINDS[row]}, which is not {what},",
                _remedy(row, kind, path),
                [rows[place] for place in places],
                repr(values[places[0]])[:60],
                () if ELEMENT in path else path,
            )
        other = None if pa.types.is_nested(kind) else _any(kind)
        return [value if value is None or type(value) in takes else other for value in values]


def _takes(kind: pa.DataType, requested: bool) -> set[type]:
    """Return the kinds of values that a type accepts; one `requested` with --cast accepts more."""
    if is_string(kind):
        return {str, Number, bool} if requested else {str}
    if is_number(kind):
        return {Number, str} if requested or pa.types.is_decimal(kind) else {Number}
    if pa.types.is_boolean(kind):
        return {bool, str} if requested else {bool}
    return set() if pa.types.is_null(kind) else {str}


def _any(kind: pa.DataType) -> str:
    """Return the text of some value of a type, to replace one that was reported, so that it is
    reported once.
    """
    kinds = pa.types
    if is_number(kind) or kinds.is_boolean(kind):
        return "0"
    if kinds.is_duration(kind) or kinds.is_time(kind):
        return "00:00:00" if kinds.is_duration(kind) else "00:00"
    return f"2000-01-01{'T00:00Z' * bool(kinds.is_timestamp(kind) and kind.tz)}"


def _remedy(have: type, kind: pa.DataType, path: Path_) -> str:
    name = _name_of_cast(path)
    if have in (list, dict) or pa.types.is_nested(kind) or path.count(ELEMENT) > 1:
        return "mend the source, or leave the column out with --columns"
    if is_string(kind):
        return f"--cast {name}=string takes it as it is written"
    if pa.types.is_temporal(kind):
        return "write it as a text, as ISO does: 2020-01-31T10:00:00"
    return f"--cast {name}={said(kind)} reads texts as well" if have is str else "mend the source"


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _texts(values: Iterable[Any]) -> pa.Array:
    spelt = {True: "true", False: "false"}
    return pa.array(
        [spelt[value] if type(value) is bool else value for value in values], pa.string()
    )
