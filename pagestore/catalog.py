"""What a version holds by name: relations, the store's hidden trees, and the host's properties.

A catalog is a value: a transaction that changes it copies it first. It is written as one record, and only
when it changed.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .dependants import Dependants, recorded
from .flat import Flat, flat, rows
from .mapping import NO_RUN, Run
from .record import CATALOG, Reader, Writer, utf8
from .tree import Spec
from .words import Column, Schema, Type


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

    @cached_property
    def dependants(self) -> dict[str, Dependants]:
        """What hosts keep of the relations, by host; of a catalog that is committed and changes no more."""
        return recorded(self.properties)

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
        source = Reader(content, CATALOG)
        infos = [_take_info(source) for _ in range(source.take())]
        properties: dict[str, str | bytes] = {}
        for _ in range(source.take()):
            name, binary = source.take_text(), source.take()
            data = source.take_bytes()
            properties[name] = data if binary else data.decode()
        return cls({info.name: info for info in infos}, properties, run)


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


def _take_info(source: Reader) -> Info:
    name = source.take_text()
    tree_id, keys, values = source.take_many(3).tolist()
    scans = tuple((code, place) for code, place in rows(source.take_list(2), 2))
    columns = tuple(Column(source.take_text(), Type.parse(source.take_text())) for _ in range(source.take()))
    key, intervals = (tuple(source.take_text() for _ in range(source.take())) for _ in range(2))
    spec = Spec(tree_id, keys, values, scans)
    ends = (intervals[0], intervals[1]) if intervals else None
    return Info(name, spec, Schema(columns, key) if columns else None, ends)
