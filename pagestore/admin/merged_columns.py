"""Columns of a relation that both sides of a merge changed, or whose rows one side changed and whose
columns the other.

    base    k a b      1 x y          merged    k a d
    theirs  k a b d    1 x y 7                  1 z 7
    ours    k a        1 z

A side that only renamed has the columns of the base in their places; one that added or dropped some
has them by their names. A column that one side dropped goes, and one that it added comes: both other
versions are read as if they had had its values, and rows that it lacks its default. So what is left
to compare are rows of three versions with the same columns.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from pagestore.errors import MergeError
from pagestore.relations.snapshot import Snapshot
from pagestore.relations.transaction import Transaction
from pagestore.trees.read import get, read_batches
from pagestore.trees.tree import Spec, Tree
from pagestore.values.codec import encode, narrowed
from pagestore.values.types import Column, Schema
from pagestore.versions.catalog import Info
from pagestore.versions.hosts import methods

BASE, THEIRS, OURS = range(3)


class MergedColumns:
    """The columns of a merged relation, and the rows of each side with these.

    `places` has for each column, in the order of records, its place in the records of the base,
    theirs and ours; None where it is not there.
    """

    def __init__(
        self, infos: Sequence[Info], trees: Sequence[Tree], theirs: Snapshot, txn: Transaction
    ) -> None:
        """Raises MergeError for columns that both sides changed differently."""
        self._infos, self._trees, self._theirs, self._txn = infos, trees, theirs, txn
        self.name = infos[OURS].name
        schemas = [info.schema for info in infos]
        if None in schemas or any(map(_has_more, infos)):
            raise self._refusal("its rows are counted, or end in words of a host")
        self._stored = [schema.stored for schema in schemas if schema]
        known = [_matched(infos[BASE], info) for info in infos]
        for name in known[BASE]:
            now = known[THEIRS].get(name), known[OURS].get(name)  # None if it was dropped
            if name not in now and now[0] != now[1]:
                raise self._refusal(f"both changed the column {name!r}")
        for side in (THEIRS, OURS):
            self._refuse_renamed(known, side, THEIRS + OURS - side)
        merged = [*self._of_both(known)]
        key = [place for place, names in enumerate(merged) if names[OURS] in schemas[OURS].key]  # type: ignore[union-attr]
        columns = [self._column(names) for names in merged]
        names = [column.name for column in columns]
        if len({*names}) < len(names) or any(
            info.spec.keys != len(key) or info.spec.keys != infos[BASE].spec.keys for info in infos
        ):
            raise self._refusal("they would have one name twice, or other keys")
        self.schema = Schema.parse(
            Schema((*columns,), (*(names[place] for place in key),)),
            [names[place] for place in key],
            keys_null=True,
        )
        stored = [names.index(column.name) for column in self.schema.stored]
        self.places = [
            [_place(self._stored[side], merged[n][side]) for side in (BASE, THEIRS, OURS)]
            for n in stored
        ]

    def _refuse_renamed(self, known: Sequence[dict[str, str]], side: int, other: int) -> None:
        """Raise MergeError if a side may have renamed a column and added or dropped others, which
        looks as if it had dropped one and added one of its type; unless the other side did, too.
        """
        names = [column.name for column in self._stored[other]]
        new = {
            column.type._replace(nullable=False): column.name
            for column in self._stored[side]
            if column.name not in known[side].values() and column.name not in names
        }
        for column in self._stored[BASE]:
            name = new.get(column.type._replace(nullable=False))
            if name and column.name not in known[side] and column.name in known[other]:
                raise self._refusal(f"{column.name!r} was dropped or is {name!r} now")

    def spec(self, tree_id: int) -> Spec:
        """Return the shape of a tree with these columns."""
        keys = len(self.schema.key)
        return Spec(tree_id, keys, len(self.schema.columns) - keys, ())

    def rows(self, side: int) -> Iterator[np.ndarray]:
        """Yield the rows of a side with the merged columns, int64[C, n]."""
        tree = self._trees[side]
        for batch in read_batches(self._txn.pages, tree) if tree.root else ():
            keys = np.ascontiguousarray(batch[: tree.spec.keys])
            yield np.vstack(
                [
                    batch[places[side]] if places[side] is not None else self._filled(side, n, keys)
                    for n, places in enumerate(self.places)
                ]
            )

    def _filled(self, side: int, place: int, keys: np.ndarray) -> np.ndarray:
        """Return the words of a column that a side lacks, for rows with keys int64[K, n]."""
        column, places = self.schema.stored[place], self.places[place]
        words = self._default(column)
        known = np.full(keys.shape[1], words is not None)
        filled = np.full(keys.shape[1], words or 0)
        says = [
            (there, values[place - keys.shape[0]])
            for place, tree in zip(places, self._trees, strict=True)
            if place is not None and tree.root
            for there, values in [get(self._txn.pages, tree, keys)]
        ]
        if says:  # by the one side that has the column, or by both alike
            told = np.logical_and.reduce([there & (word == says[0][1]) for there, word in says])
            filled, known = np.where(told, says[0][1], filled), known | told
        if side != BASE and not known.all():
            known |= get(self._txn.pages, self._trees[BASE], keys)[0]
            if not known.all():
                raise self._refusal(
                    f"new rows have no value for {column.name!r}: let it take nulls, or add it on "
                    f"both sides"
                )
        return filled

    def _default(self, column: Column) -> int | None:
        """Return the word of a column in rows that do not say one; None if there is none."""
        told = (
            tell(at, self.name, column.name)
            for tell in methods("default")
            for at in (self._theirs, self._txn)
        )
        value = next((value for value in told if value is not None), None)
        if value is None and not column.type.nullable:
            return None
        return int(narrowed(column, encode(column, [value], self._txn.dictionary))[0])

    def _of_both(self, known: Sequence[dict[str, str]]) -> Iterator[tuple[str | None, ...]]:
        """Yield the names that a merged column has in the base, in theirs and in ours."""
        theirs, ours = known[THEIRS], known[OURS]
        old = {name: base for base, name in ours.items()}
        added = [c.name for c in self._stored[THEIRS] if c.name not in theirs.values()]
        for column in self._columns(OURS):
            base = old.get(column.name)
            if base is None:
                yield None, column.name if column.name in added else None, column.name
            elif base in theirs:
                yield base, theirs[base], column.name
        mine = [c.name for c in self._stored[OURS] if c.name not in old]
        yield from ((None, name, None) for name in added if name not in mine)

    def _columns(self, side: int) -> Sequence[Column]:
        schema = self._infos[side].schema
        return schema.columns if schema else ()

    def _column(self, names: Sequence[str | None]) -> Column:
        """Return a merged column. Raises MergeError if both sides changed it differently."""
        base, theirs, ours = (
            next((c for c in self._stored[side] if c.name == name), None)
            for side, name in enumerate(names)
        )
        if theirs is None or ours is None or theirs in (ours, base):
            column = ours or theirs
        elif ours == base:
            column = theirs
        else:
            raise self._refusal(f"both changed the column {ours.name!r}")
        assert column is not None
        return column

    def _refusal(self, why: str) -> MergeError:
        theirs, ours = self._infos[THEIRS].schema, self._infos[OURS].schema
        return MergeError(
            f"relation {self.name!r} has the columns ({theirs}) there and ({ours}) here, and both "
            f"sides changed it: {why}; nothing is changed: give both the same columns first"
        )


def _matched(base: Info, side: Info) -> dict[str, str]:
    """Return the names that the columns of a base have on a side."""
    before, now = ([c.name for c in info.schema.stored] for info in (base, side) if info.schema)
    if base.spec.tree_id == side.spec.tree_id:
        return dict(zip(before, now, strict=True))
    return {name: name for name in before if name in now}


def _has_more(info: Info) -> bool:
    """Return whether records have words beside the columns, or ends of intervals."""
    return (
        info.bag
        or info.intervals is not None
        or info.schema is None
        or info.spec.columns != len(info.schema.columns)
    )


def _place(stored: Sequence[Column], name: str | None) -> int | None:
    return next((n for n, column in enumerate(stored) if column.name == name), None)
