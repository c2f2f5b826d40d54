"""Find columns and types on which all files of some sources agree, given the types wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from .casts import (
    DatasetError,
    Problems,
    bad_rows,
    cast_to,
    fits,
    held_as,
    may_hold,
    remedy_between,
    remedy_for,
    said,
)
from .dataset import Column, Dataset, Reading
from .files import Part, find_files
from .formats import open_part
from .json_values import NoType, in_lists, merged
from .opened import Wanted, is_nested

NAMED = 3  # columns in a message


def open_dataset(
    sources: str | Path | Sequence[str | Path],
    reading: Reading | None = None,
    wanted: pa.Schema | None = None,
    lists: Mapping[str, pa.DataType] | None = None,
) -> Dataset:
    """Read the files' names and types. `wanted` are the columns of the existing relation, if any,
    `lists` its lists.

    Faulty columns are reported in the dataset's `problems` and left out of its columns. Raises
    DatasetError for missing sources.
    """
    reading = reading or Reading()
    paths = [sources] if isinstance(sources, str | Path) else list(sources)
    parts, notes = find_files(paths, reading.format)
    kinds = {name: kind.arrow for name, kind in reading.casts.items()}
    hints = {
        **(dict(zip(wanted.names, wanted.types, strict=True)) if wanted else {}),
        **(lists or {}),
        **kinds,
    }
    dataset = Dataset(
        ", ".join(map(str, paths)),
        parts,
        reading,
        notes=notes,
        wanted=hints,
        problems=Problems(aside=reading.aside),
    )
    back = {new: old for old, new in reading.renames.items()}
    inside = {path: kind for name, kind in kinds.items() for path in in_lists(name)}
    types = Wanted(
        {**inside, **{back.get(name, name): kind for name, kind in hints.items()}},
        frozenset([*inside, *(back.get(name, name) for name in kinds)]),
        reading.thorough,
    )
    agreed = _Agreed(dataset, hints, set(kinds))
    for part in parts:
        try:
            opened = open_part(part, types, dataset.problems, reading.dialect)
        except DatasetError as error:
            dataset.problems.adopt(error)
            dataset.unopened.add(part.file)
            continue
        if opened.untyped:
            dataset.opened[part.file] = opened
        dataset.notes += [hint for hint in opened.hints if hint not in dataset.notes]
        agreed.take(part, dataset.columns_of(part, opened), opened.untyped)
    agreed.settle(wanted)
    _settle_fill(dataset)
    return dataset


def _settle_fill(dataset: Dataset) -> None:
    """Convert the texts that replace nulls to values of their columns, or record the problem."""
    for name, text in dataset.reading.fill.items():
        kind = dataset.columns.get(name)
        if kind is None:
            known = ", ".join(dataset.columns)
            dataset.problems.add(
                f"{dataset.name}: no column {name} to fill; there are {known}", "mend --fill"
            )
        elif bad_rows(pa.array([text]), kind):
            dataset.problems.add(
                f"{dataset.name}: {text!r} is not a value of column {name} ({said(kind)})",
                "mend --fill",
            )
        else:
            dataset.fill[name] = cast_to(pa.array([text]), kind)[0]


@dataclass
class _Agreed:
    """Collects the types on which all files agree. `hints` are types that columns must have."""

    dataset: Dataset
    hints: Mapping[str, pa.DataType]
    casts: set[str]
    first: Part | None = None
    types: dict[str, pa.DataType] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def take(self, part: Part, columns: Mapping[str, Column], untyped: bool) -> None:
        """Agree on the columns of one more file, or record the problem."""
        names = set(columns)
        if self.first is not None and not self.dataset.reading.columns:
            for name in sorted(names ^ self.seen):
                has, lacks = (part, self.first) if name in names else (self.first, part)
                self._refuse(
                    name,
                    f"{lacks.file} has no column {name}, but {has.file} has",
                    "name those of all files with --columns, or write all files with one job",
                )
        for name in (name for name in self.dataset.reading.columns if name not in names):
            known = ", ".join(columns)
            self._refuse(
                name,
                f"{part.file} has no column {name}; it has {known}",
                "mend --columns or --rename",
            )
        for name, column in columns.items():
            self._agree(part, name, column.type, untyped)
        if self.first is None:
            self.first, self.seen = part, names

    def _agree(self, part: Part, name: str, kind: pa.DataType, untyped: bool) -> None:
        where, hint = f"{part.file}: column {name}", self.hints.get(name)
        in_folder = name in part.values
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        held = kind if pa.types.is_null(kind) else held_as(kind, self.dataset.reading.utc)
        # for example a decimal of more digits
        if held is None and hint is not None and may_hold(kind, hint):
            held = kind
        if name in self.casts and hint is not None:
            self.types[name] = hint
        elif is_nested(kind) or (pa.types.is_null(kind) and (hint is not None and is_nested(hint))):
            self._agree_on_lists(
                part, name, hint if hint is not None and pa.types.is_null(kind) else kind, untyped
            )
        elif held is None:
            self._refuse(
                name,
                f"{where} has type {kind}, which a relation cannot hold",
                remedy_for(name, kind),
            )
        elif hint is not None:
            if not (untyped or in_folder or may_hold(held, hint)):
                self._refuse(
                    name,
                    f"{where} is {held}, and {hint} in the relation",
                    remedy_between(name, held, hint),
                )
            self.types[name] = hint
        elif pa.types.is_null(held) and name in self.dataset.nested:
            pass
        elif name not in self.types or fits(self.types[name], held):
            self.types[name] = held
        elif not fits(held, self.types[name]) and self.first is not None:
            self._refuse(
                name,
                f"{where} is {held}, but it is {self.types[name]} in {self.first.file}",
                f"give --cast {name}=TYPE, or cast it in the job",
            )

    def _agree_on_lists(self, part: Part, name: str, kind: pa.DataType, untyped: bool) -> None:
        """Agree on the elements of lists; merge those of files without types."""
        nested = self.dataset.nested
        try:
            known = nested.setdefault(name, kind)
            if known != kind:
                if not untyped:
                    raise NoType(f"{known} elsewhere")
                nested[name] = merged(known, kind, (), {})
        except NoType:
            before = self.first.file if self.first else "the relation"
            self._refuse(
                name,
                f"{part.file}: column {name} is {kind}, but it is {nested[name]} in {before}",
                "leave it out with --columns, or write it alike",
            )

    def settle(self, wanted: pa.Schema | None) -> None:
        """Give the dataset its columns: those without a problem, in the order of the options or
        of the first file.
        """
        dataset = self.dataset
        for name in dataset.nested:
            # from a file with only nulls
            if name in self.types and pa.types.is_null(self.types[name]):
                del self.types[name]
        empty = [name for name, kind in self.types.items() if pa.types.is_null(kind)]
        if len(empty) > 1 and len(empty) == len(self.types) and not dataset.nested:
            dataset.refused |= {*empty}
            casts = " ".join(f"--cast {name}=TYPE" for name in empty[:NAMED])
            dataset.problems.add(
                f"{dataset.name} has no values, so nothing says of which types its columns are",
                f"say it with {casts}{' ...' * (len(empty) > NAMED)}",
            )
        for name in empty:
            if name not in self.dataset.refused:
                self._refuse(
                    name,
                    f"{dataset.name}: column {name} has type null",
                    remedy_for(name, pa.null()),
                )
        for name in (name for name in dataset.parts[0].values if name not in self.hints):
            if self.types.get(name) == pa.string() and all(
                _is_integer(p.values.get(name)) for p in dataset.parts
            ):
                self.types[name] = pa.int64()
        absent = [name for name in self.hints if name in self.casts and name not in self.types]
        for name in (
            one
            for one in absent
            if not any(one.startswith(f"{column}:") for column in dataset.nested)
        ):
            self._refuse(
                name,
                f"{dataset.name} has no column {name}; it has {', '.join(self.types)}",
                "mend --cast",
            )
        self._settle_renames()
        order = (
            dataset.reading.columns
            or (wanted and [n for n in wanted.names if n in self.types])
            or self.types
        )
        names = [*order, *(name for name in self.types if name not in order)]
        dataset.columns = {
            n: self.types[n] for n in names if n in self.types and n not in dataset.refused
        }

    def _settle_renames(self) -> None:
        for old, new in self.dataset.reading.renames.items():
            if new not in {*self.types, *self.dataset.nested} and not self.dataset.reading.columns:
                known = ", ".join(self.types)
                self._refuse(
                    new, f"{self.dataset.name} has no column {old}; it has {known}", "mend --rename"
                )

    def _refuse(self, name: str, fact: str, remedy: str) -> None:
        self.dataset.refused.add(name)
        self.dataset.problems.add(fact, remedy)


def _is_integer(text: str | None) -> bool:
    """Return whether a folder's value is null or an int64 in its usual form: 007 is not, as 7
    would lose zeros.
    """
    if text is None:
        return True
    digits = text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 21
    return digits and -(2**63) <= int(text) < 2**63 and str(int(text)) == text
