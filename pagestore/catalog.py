"""What a version holds by name: relations, the store's hidden trees, and the host's properties.

A catalog is a value: a transaction that changes it copies it first. It is written as one record, and only
when it changed.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .errors import CorruptionError
from .flat import Flat, flat, rows
from .kernels.fold import CARRY, CHECKSUM, COUNT, MAX, MIN, SUM, THEN, USER
from .mapping import NO_RUN, Run
from .operators import is_name, name_of
from .record import CATALOG, Reader, Writer, utf8
from .tree import Spec
from .words import Column, Schema, Type

FIRST_TREE, TREE_END = 16, 1 << 32  # ids below the first belong to the store itself


class Info(NamedTuple):
    """A relation: its name, its tree's shape, and its schema; trees of raw words have none."""

    name: str
    spec: Spec
    schema: Schema | None
    intervals: tuple[str, str] | None = None  # the columns that are an interval's ends

    @property
    def hidden(self) -> bool:
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

    def copy(self) -> "Catalog":
        return Catalog(self.relations, self.properties, self.run)

    def same_as(self, other: "Catalog") -> bool:
        """Whether both say the same, wherever they stand."""
        return self.relations == other.relations and self.properties == other.properties

    def encode(self) -> Flat:
        """Its record. Raises SchemaError for a name or property that is no text."""
        out = Writer(CATALOG)
        out.put(len(self.relations))
        for info in self.relations.values():
            _put_info(out, info)
        out.put(len(self.properties))
        for name, value in self.properties.items():
            out.put_text(name, "property's name")
            out.put(int(isinstance(value, bytes)))
            out.put_bytes(value if isinstance(value, bytes) else utf8(value, f"value of property {name!r}"))
        return out.words

    @classmethod
    def decode(cls, content: np.ndarray, run: Run) -> "Catalog":
        try:
            return cls._decode(Reader(content, CATALOG), run)
        except (ValueError, IndexError) as error:  # of a schema or type that makes no sense
            if isinstance(error, CorruptionError):
                raise
            raise CorruptionError(f"the catalog says what cannot be: {error}", page=run.page) from None

    @classmethod
    def _decode(cls, source: Reader, run: Run) -> "Catalog":
        infos = [_take_info(source) for _ in range(source.take())]
        properties: dict[str, str | bytes] = {}
        for _ in range(source.take()):
            name, binary = source.take_text(), source.take()
            data = source.take_bytes()
            properties[name] = data if binary else data.decode()
        relations = {info.name: info for info in infos}
        if len({info.spec.tree_id for info in infos} | relations.keys()) < 2 * len(infos):
            raise ValueError("two relations are of one name, or share a tree")
        return cls(relations, properties, run)


def _put_info(out: Writer, info: Info) -> None:
    out.put_text(info.name, "relation's name")
    out.put(info.spec.tree_id, info.spec.keys, info.spec.values)
    out.put_list(flat(*info.spec.scans), 2)
    columns = info.schema.columns if info.schema else ()
    out.put(len(columns))
    for column in columns:
        out.put_text(column.name, "column's name")
        out.put_text(str(column.type))
    key = info.schema.key if info.schema else ()
    for names in (key, info.intervals or ()):
        out.put(len(names))
        for name in names:
            out.put_text(name)


def _check_spec(name: str, spec: Spec) -> None:
    """Raises ValueError for a tree that no relation has."""
    if not (FIRST_TREE <= spec.tree_id < TREE_END and spec.keys >= 1 and spec.values >= 0):
        raise ValueError(f"{name!r} has tree {spec.tree_id} of {spec.keys} + {spec.values} words")
    before = COUNT
    for op, column in spec.scans:
        after = {CARRY: (SUM,), THEN: (MIN, MAX, THEN)}.get(op)
        last = spec.columns + (op == CHECKSUM)
        known = 0 <= op <= CHECKSUM or (op >= USER and is_name(name_of(op)))
        if not known or not 0 <= column < last or (after and before not in after):
            raise ValueError(f"{name!r} has a scan ({op}, {column}) behind one of operator {before}")
        before = op


def _take_info(source: Reader) -> Info:
    name = source.take_text()
    tree_id, keys, values = source.take_many(3).tolist()
    scans = tuple((code, place) for code, place in rows(source.take_list(2), 2))
    columns = tuple(Column(source.take_text(), Type.parse(source.take_text())) for _ in range(source.take()))
    key, intervals = (tuple(source.take_text() for _ in range(source.take())) for _ in range(2))
    spec = Spec(tree_id, keys, values, scans)
    ends = (intervals[0], intervals[1]) if intervals else None
    _check_spec(name, spec)
    names = {column.name for column in columns}
    fits = len(key) == keys and {*(ends or ())} <= {*key} <= names and len(names) == len(columns) <= spec.columns
    if columns and not fits:
        raise ValueError(f"the columns of {name!r} are not those of its records")
    return Info(name, spec, Schema(columns, key) if columns else None, ends)
