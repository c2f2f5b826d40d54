"""The named content of a version: relations, the store's hidden trees, and the host's properties.

A catalog is immutable once committed: a transaction that changes it copies it first. It is written
as one record, and only when it changed.

What hosts derive from a version's relations, as the version itself records it.

edge  ──▶  host "ivm"  ──▶  reach, $index:edge:1.0          recorded in a property of each version

What belongs to the whole store and seldom changes: retention, tags and the names of branches.
"""

import json
import re
from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from pagestore.errors import CorruptionError, DependantsError, SchemaError
from pagestore.pages.layout import COLUMNS_MAX, INDEX_COLUMNS_MAX, KEYS_MAX, WORD_MAX
from pagestore.pages.operators import CARRY, CHECKSUM, MAX, MIN, SUM, THEN, USER, is_name, name_of
from pagestore.storage.mapping import NO_RUN, Run
from pagestore.storage.meta import NUMBER_END
from pagestore.storage.records import (
    CATALOG,
    SETTINGS,
    RecordReader,
    RecordWriter,
    WordList,
    rows,
    text_of,
    utf8,
    word_list,
)
from pagestore.trees.tree import Spec
from pagestore.values.scan_spec import parse_scan, scan_names
from pagestore.values.types import Column, Schema, Type, may_be_narrow
from pagestore.versions.commit_record import lie_within

PROPERTY = "pagestore.dependants"
NARROW = "pagestore.narrow"  # of a catalog on disk: the narrow columns, by relation
# how a host names what it stores beside a relation of its own
PART = re.compile(r"(.+):part\d+", re.DOTALL)
OWN = "sql:"  # begins the names of relations that a host makes for itself, such as a clock
BAG = ("",)  # instead of the names of an interval's ends


def whole_of(name: str, names: Collection[str]) -> str:
    """Return which relation one is a part of, by the names: `v` for `v:part2` where `v:part1` is;
    else itself.

    >>> [whole_of(name, ["v", "v:part1", "v:part2", "r:part2"]) for name in ("v:part2", "v", "r:part2")]
    ['v', 'v', 'r:part2']
    """
    part = PART.fullmatch(name)
    return part[1] if part and f"{part[1]}:part1" in names else name


def is_own(name: str) -> bool:
    """Return whether a relation is one that hosts keep for themselves, beside those of users.

    >>> [is_own(name) for name in ("r", "v:part1", "sql:clock", "r$1")]
    [False, False, True, True]
    """
    return "$" in name or name.startswith(OWN)


def listed(names: Collection[str]) -> list[str]:
    """Return the relations that a message lists: without what hosts keep for themselves, and parts
    of others.

    >>> listed(["sql:one", "sql:clock", "r", "v", "v:part1", "v:part2", "r$1"])
    ['r', 'v']
    """
    wholes = {name: whole_of(name, names) for name in names if not is_own(name)}
    return [name for name, whole in wholes.items() if whole == name or whole not in wholes]


class Dependants(NamedTuple):
    """A host's dependencies: the relations it reads, the relations, hidden trees and properties
    that it maintains.

    `edit` and `release` go into the errors of refused changes: how to edit relations so that the
    host can follow, and how to make the host stop maintaining them.
    """

    host: str
    reads: tuple[str, ...]
    keeps: tuple[str, ...]
    properties: tuple[str, ...] = ()
    edit: str = "load that host first"
    release: str = "have that host release it"

    @property
    def content(self) -> tuple[object, ...]:
        """What is recorded, without the sentences, in which releases may differ."""
        return self[:4]


def recorded_dependants(properties: Mapping[str, str | bytes]) -> dict[str, Dependants]:
    """Return the dependants in the properties of a version, by host. Raises DependantsError if
    they cannot be read.
    """
    try:
        said = [Dependants(**load) for load in json.loads(properties.get(PROPERTY, "[]"))]
        for host, *names, _, _ in said:
            "".join(chain([host], *names))  # raises TypeError unless all are texts
        return {
            host: Dependants(host, tuple(reads), tuple(keeps), tuple(properties), *remedies)
            for host, reads, keeps, properties, *remedies in said
        }
    except (TypeError, ValueError, RecursionError) as error:
        raise DependantsError(
            f"property {PROPERTY!r} says what hosts keep, and does not read: {error}"
        ) from None


# tree numbers of relations; lower ones belong to the store itself
FIRST_TREE, RELATION_TREE_END = 16, 1 << 30


class Info(NamedTuple):
    """A relation: its name, its tree's shape, and its schema; trees of raw words have none.

    The first word after the key of a `bag` says how often it holds the row.
    """

    name: str
    spec: Spec
    schema: Schema | None
    intervals: tuple[str, str] | None = None  # the columns that are an interval's ends
    bag: bool = False

    @property
    def hidden(self) -> bool:
        """Whether it is a tree of raw words, which users do not see."""
        return self.schema is None


class Catalog:
    """Relations and properties of one version, and the run that holds them on disk."""

    def __init__(
        self,
        relations: Mapping[str, Info] = {},
        properties: Mapping[str, str | bytes] = {},
        run: Run = NO_RUN,
    ) -> None:
        self.relations = dict(relations)
        self.properties = dict(properties)
        self.run = run
        # the words of relations and their narrow columns, which copies share
        self._encoded: dict[str, tuple[Info, WordList, dict[str, str]]] = {}

    @cached_property
    def dependants(self) -> dict[str, Dependants]:
        """What hosts derive from relations, by host, of a committed catalog, which stays."""
        return recorded_dependants(self.properties)

    @cached_property
    def hosted(self) -> set[str]:
        """The relations that hosts keep up to date."""
        return {name for derived in self.dependants.values() for name in derived.keeps}

    @property
    def of_hosts(self) -> set[str]:
        """The relations that are no user's: merges leave them as they are on a branch."""
        return self.hosted | {name for name in self.relations if name.startswith(OWN)}

    def copy(self) -> "Catalog":
        """Return a copy that may be changed."""
        made = Catalog(self.relations, self.properties, self.run)
        made._encoded = self._encoded
        return made

    def same_as(self, other: "Catalog") -> bool:
        """Return whether both have the same content; their runs may differ."""
        return self.relations == other.relations and self.properties == other.properties

    def encode(self) -> WordList:
        """Encode the catalog as a record. Raises SchemaError for one that is not a text."""
        out = RecordWriter(CATALOG)
        out.put(len(self.relations))
        known, self._encoded = self._encoded, {}
        for name, info in self.relations.items():
            kept = known.get(name)
            self._encoded[name] = kept = (
                kept if kept and kept[0] is info else (info, _words_of(info), _narrow_of(info))
            )
            out.words += kept[1]
        narrow = {name: columns for name, (_, _, columns) in self._encoded.items() if columns}
        properties = self.properties | ({NARROW: json.dumps(narrow)} if narrow else {})
        out.put(len(properties))
        for name, value in properties.items():
            out.put_text(name, "property's name")
            out.put(int(isinstance(value, bytes)))
            out.put_bytes(
                value if isinstance(value, bytes) else utf8(value, f"value of property {name!r}")
            )
        return out.words

    @classmethod
    def decode(cls, content: np.ndarray, run: Run) -> "Catalog":
        """Decode a catalog's record. Raises CorruptionError, also for a catalog that no
        transaction would have made.
        """
        source = RecordReader(content, CATALOG)
        known: dict[object, tuple[bytes, Info]] = {}
        infos = [_take_info(source, known) for _ in range(source.take())]
        for names in ([info.name for info in infos], [info.spec.tree_id for info in infos]):
            if len(set(names)) < len(names):
                raise CorruptionError("the catalog has two relations of one name or tree")
        properties: dict[str, str | bytes] = {}
        for _ in range(source.take()):
            name, binary = source.take_text(), source.take()
            data = source.take_bytes()
            properties[name] = data if binary else text_of(data)
        narrow = _recorded_narrow(properties.pop(NARROW, "{}"))
        relations = {info.name: info for info in infos}
        for name in narrow.keys() & relations.keys():
            relations[name] = _narrowed(relations[name], narrow[name])
        return cls(relations, properties, run)


def _narrow_of(info: Info) -> dict[str, str]:
    """Return the narrow columns of a relation, by name."""
    columns = info.schema.columns if info.schema and info.schema.narrow else ()
    return {column.name: column.narrow for column in columns if column.narrow}


def _recorded_narrow(text: str | bytes) -> dict[str, dict[str, str]]:
    """Return the narrow columns by relation. Raises CorruptionError if they cannot be read."""
    try:
        return {relation: {**columns} for relation, columns in json.loads(text).items()}
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CorruptionError(
            f"property {NARROW!r} says which columns are narrow, and does not read: {error}"
        ) from None


def _narrowed(info: Info, narrow: Mapping[str, str]) -> Info:
    """Return a relation with its narrow columns; what an earlier release left is ignored."""
    if not info.schema:
        return info
    columns = tuple(
        column._replace(narrow=narrow[column.name])
        if may_be_narrow(column.type, narrow.get(column.name, ""))
        else column
        for column in info.schema.columns
    )
    return info._replace(schema=Schema(columns, info.schema.key))


def _words_of(info: Info) -> WordList:
    """Return the words of a relation in a record, without its purpose."""
    out = RecordWriter(CATALOG)
    out.put_text(info.name, "relation's name")
    out.put(info.spec.tree_id, info.spec.keys, info.spec.values)
    out.put_list(word_list(*info.spec.scans), 2)
    columns = info.schema.columns if info.schema else ()
    out.put(len(columns))
    for column in columns:
        out.put_text(column.name, "column's name")
        out.put_text(str(column.type))
    key = info.schema.key if info.schema else ()
    for names in (key, BAG if info.bag else info.intervals or ()):
        out.put(len(names))
        for name in names:
            out.put_text(name)
    return out.words[1:]


_BEGUN = 16  # words of a shape by which it is looked for: views of one kind have those of one
_type = lru_cache(1 << 10)(Type.parse)  # most columns of a store have one of a few types


def _take_info(source: RecordReader, known: dict[object, tuple[bytes, Info]]) -> Info:
    """Return a catalog's next relation; `known` has the words of shapes, by their first ones."""
    name, tree_id = source.take_text(), source.take()
    hidden, begun = name.startswith("$"), source.at
    key = hidden, bytes(source.words[begun : begun + _BEGUN])
    words, shape = known.get(key, (b"", None))
    end = begun + len(words) // 8
    if shape and words == bytes(source.words[begun:end]):
        source.at = end
    else:
        try:
            shape = _shape(hidden, *_take_shape(source))
        except CorruptionError as error:
            raise CorruptionError(f"the catalog's relation {name!r}: {error}") from None
        known[key] = bytes(source.words[begun : source.at]), shape
    if not name or not FIRST_TREE <= tree_id < RELATION_TREE_END:
        raise CorruptionError(f"the catalog's relation {name!r}: there is no tree {tree_id} of it")
    return Info(name, shape.spec._replace(tree_id=tree_id), *shape[2:])


def _take_shape(source: RecordReader) -> tuple[Any, ...]:
    keys, values = source.take_many(2)
    scans = (*rows(source.take_list(2), 2),)
    columns = tuple((source.take_text(), source.take_text()) for _ in range(source.take()))
    key, intervals = (tuple(source.take_text() for _ in range(source.take())) for _ in range(2))
    return keys, values, scans, columns, key, intervals


def _shape(
    hidden: bool,
    keys: int,
    values: int,
    scans: tuple[tuple[int, int], ...],
    columns: tuple[tuple[str, str], ...],
    key: tuple[str, ...],
    intervals: tuple[str, ...],
) -> Info:
    """Return a relation but for its name and tree. Raises CorruptionError."""
    schema, bag = None, intervals == BAG
    try:
        given = Schema(tuple(Column(name, _type(type_)) for name, type_ in columns), key)
        schema = Schema.parse(given, key, keys_null=True)
    except SchemaError as error:
        if columns:
            raise CorruptionError(str(error)) from None
    ends = None if bag or not intervals else intervals
    info = Info("", Spec(FIRST_TREE, keys, values, scans), schema, ends, bag)  # type: ignore[arg-type]
    if fault := _fault(info, hidden):
        raise CorruptionError(fault)
    return info


def _fault(info: Info, hidden: bool) -> str | None:
    """Why no transaction makes a relation of this shape, or None; kernels rely on it."""
    _, keys, values, scans = info.spec
    stored = info.schema.stored if info.schema else ()
    if info.hidden != hidden:
        return "the name of a hidden tree starts with $, and no other"
    too_wide = keys + values > COLUMNS_MAX or keys + 1 + len(scans) > INDEX_COLUMNS_MAX
    if not 1 <= keys <= KEYS_MAX or values < 0 or too_wide:
        return (
            f"{keys} key words, {values} value words and {len(scans)} words of folds make no record"
        )
    if info.schema and (len(info.schema.key) != keys or len(stored) > info.spec.columns):
        return f"its columns are ({info.schema}), and a record has {keys} key words and {values} value words"
    if not _are_scans(scans, len(stored) or info.spec.columns) or (
        info.schema and not _have_names(scans, info.schema)
    ):
        return f"{[*scans]} are not scans"
    if info.bag and (len(stored) != keys or not values or scans):
        return "a bag has a key of all its columns, a multiplicity and no scans"
    return _interval_fault(info) if info.intervals else None


def _are_scans(scans: tuple[tuple[int, int], ...], columns: int) -> bool:
    """Return whether rows (operator, column) are scans of records of `columns` columns, see
    pages/operators.py.
    """
    before = (-1, -1)
    for op, column in scans:
        if op == THEN:
            follows = before[0] in (MIN, MAX, THEN)
        elif op == CARRY:
            follows = before == (SUM, column)
        else:
            follows = True
        known = 0 <= op <= CHECKSUM or (USER <= op < 1 << 56 and is_name(name_of(op)))
        if not (follows and known and 0 <= column < columns + (op == CHECKSUM)):
            return False
        before = op, column
    return True


def _have_names(scans: tuple[tuple[int, int], ...], schema: Schema) -> bool:
    """Return whether scans are those that users can request by name."""
    try:
        named = [parse_scan(name, schema).rows for name in scan_names(scans, schema)]
    except SchemaError:
        return False
    return tuple(chain(*named)) == scans


def _interval_fault(info: Info) -> str | None:
    """As `_fault`, for a relation of intervals."""
    ends, stored = info.intervals, info.schema.stored if info.schema else ()
    places = [place for place, column in enumerate(stored) if ends and column.name in ends]
    if (
        not ends
        or len(ends) != 2
        or len(places) != 2
        or places[1] >= info.spec.keys
        or places[1] != places[0] + 1
    ):
        return f"{ends} are not neighbouring columns of its key"
    low, high = places
    if stored[low].type.nullable or stored[high].type.nullable:
        return f"{ends} are not ends of an interval, since they may be null"
    if (stored[low].name, stored[high].name) != ends or stored[low].type != stored[high].type:
        return f"{ends} are not ends of an interval"
    if (MAX, high) in info.spec.scans:
        return None
    return "it holds intervals and lacks the greatest of their ends"


RETAIN_DEFAULT = 16
RETAIN_ALL = 0
RETAIN_MAX = WORD_MAX
MAIN, MAIN_ID = "main", 1


@lru_cache(10_000)
def _named(name: str, number: int) -> WordList:
    """Return the words of a tag or branch, most of which are the same in the next settings."""
    out = RecordWriter(SETTINGS)
    out.put_text(name)
    out.put(number)
    return out.words[1:]


class Settings(NamedTuple):
    """Immutable settings. `retain` is a number of versions per branch, or RETAIN_ALL."""

    retain: int = RETAIN_DEFAULT
    tags: Mapping[str, int] = MappingProxyType({})
    branches: Mapping[str, int] = MappingProxyType({MAIN: MAIN_ID})

    def encode(self) -> WordList:
        """Encode the settings as a record."""
        out = RecordWriter(SETTINGS)
        out.put(self.retain)
        for names in (self.tags, self.branches):
            out.put(len(names))
            for kept in names.items():
                out.words += _named(*kept)
        return out.words

    @classmethod
    def decode(cls, content: np.ndarray) -> "Settings":
        """Decode the settings of a record. Raises CorruptionError."""
        source = RecordReader(content, SETTINGS)
        retain = source.take()
        tags, branches = (
            {source.take_text(): source.take() for _ in range(source.take())} for _ in range(2)
        )
        if (
            retain < 0
            or branches.get(MAIN) != MAIN_ID
            or not lie_within([*tags.values()], 0, NUMBER_END)
        ):
            raise CorruptionError(
                f"the settings say what cannot be: {retain} versions of {branches}, tags {tags}"
            )
        return cls(retain, tags, branches)


def check_name(name: str, what: str) -> None:
    """Raise SchemaError for a name that a tag or branch (`what`) cannot have."""
    if not utf8(name, what) or name.isdigit():
        raise SchemaError(f"{name!r} cannot be a {what}: it would read as a version number")


def retain_number(retain: int | str) -> int:
    """Return the number for a `retain=` argument.

    >>> retain_number("all"), retain_number(5)
    (0, 5)
    """
    if retain == "all":
        return RETAIN_ALL
    if isinstance(retain, bool) or not isinstance(retain, int) or not 1 <= retain <= RETAIN_MAX:
        raise SchemaError(f'retain={retain!r}: give a number of versions from 1 on, or "all"')
    return retain
