"""The part of a check that reads pages: walk over trees and records, and note violations.

walk = Walk(mapping)
walk.reach(version)      each page of its trees and records, pages shared with other versions once
walk.violations          what is wrong, by the names of invariants in check.py
walk.owner               what reaches each page

Read a page's ScanTree back and compare it with a recomputation, in plain Python: for check and for
tests.

The bytes are described in scan_tree.py; the operators in operators.py. Nothing here shares code
with the kernels that write them.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.pages.layout import (
    BIRTH,
    BIRTH_MASK,
    ENTRY_COUNT,
    FIRST_PAGE,
    HEADER,
    INDEX,
    LEAF,
    RECORDS_A_WORD,
    SCAN,
    TYPE,
    WORD_MAX,
    page_type_fields,
    pointer_birth,
)
from pagestore.pages.operators import COUNT, Fold, Scans, _signed, fold_of, join
from pagestore.storage.mapping import Mapping, Run, page_fault
from pagestore.storage.records import rows
from pagestore.trees.read import UNPACK
from pagestore.trees.tree import Spec, Tree
from pagestore.values.codec import NULL, bounds_of
from pagestore.values.dictionary import PLACES, TEXTS, Dictionary, broken_among
from pagestore.values.text_order import LABELS, ORDER
from pagestore.versions.commit_record import Commit
from pagestore.versions.store_state import Version

TEXTS_AT_ONCE = 65536


class Violation(NamedTuple):
    """A violation: the invariant, the page, the pages from the root to it, and the fact."""

    invariant: str
    page: int | None
    path: tuple[int, ...]
    fact: str

    def __str__(self) -> str:
        where = "" if self.page is None else f": page {self.page}"
        path = f" (path {' > '.join(map(str, self.path))})" if self.path else ""
        return f"{self.invariant}{where}{path}: {self.fact}"


class Subtree(NamedTuple):
    """What is below a page: least and greatest key, records, folds, and the page's birth."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    records: int
    folds: tuple[int, ...]
    birth: int


class Walk:
    """A walk over trees and records, each page once. It fills `violations`, and `owner`: what
    reaches each page.
    """

    def __init__(self, mapping: Mapping):
        self.mapping = mapping
        self.pages = mapping.pages
        self.violations: list[Violation] = []
        self.owner: dict[int, str] = {}
        # by tree: each column's bounds of words, and if it is nullable
        self._bounds: dict[int, np.ndarray] = {}
        # by tree: the names of string columns by place
        self._strings: dict[int, dict[int, str]] = {}
        self._broken: list[int] = []  # the ids of texts that are not UTF-8
        self._done: dict[tuple[int, int], Subtree | None] = {}
        self._copied, self._copy = 0, np.zeros(0, np.int64)  # the page that was read last

    def reach(self, version: Version) -> None:
        """Walk over all that a version reaches."""
        name = f"version {version.version}"
        self.run_of(f"{name}'s commit", version.run)
        self.run_of(f"{name}'s catalog", version.catalog.run)
        names = {info.spec.tree_id: info.name for info in version.catalog.relations.values()}
        for info in version.catalog.relations.values():
            if info.schema:
                bounds = [
                    (*bounds_of(column.type), column.type.nullable) for column in info.schema.stored
                ]
                bounds += [(0, WORD_MAX, False)] * info.bag
                self._bounds[info.spec.tree_id] = np.array(bounds, np.int64)
                strings = {
                    i: c.name for i, c in enumerate(info.schema.stored) if c.type.name == "string"
                }
                self._strings[info.spec.tree_id] = strings
        for tree_id, tree in version.trees.items():
            self.tree(f"{name}, {names.get(tree_id, 'the dictionary')}", tree, version.version)

    def long_texts(self, texts: Tree) -> None:
        """Reach the runs of long texts that a dictionary points to."""
        self._long_texts(self._all(texts))

    def _long_texts(self, rows: np.ndarray) -> None:
        """Check long texts like `long_texts`, given the records (id, part, word) of all texts."""
        long = rows[0, (rows[1] == 0) & (rows[2] & 0xFFFF == 0xFFFF)]
        some = rows[:, (rows[1] < 3) & np.isin(rows[0], long)] if len(long) else rows[:, :0]
        for page, words in long_runs(map(tuple, some.T.tolist())):
            self.run_of("a long text", Run(page, words))

    def dictionary(self, trees: dict[int, Tree]) -> int:
        """Reach the texts in runs of their own, and compare the trees of texts; return the
        greatest id, or 0.
        """
        rows = self._all(trees[TEXTS.tree_id])
        self._long_texts(rows)
        ids = np.sort(rows[0, rows[1] == 0])
        if not np.array_equal(ids, np.sort(self._all(trees[PLACES.tree_id])[1])):
            self._add("dictionary", None, "the texts and the places do not hold the same ids")
        order, labels = self._all(trees[ORDER.tree_id]), self._all(trees[LABELS.tree_id])
        if not np.array_equal(order[:, np.argsort(order[1])], labels[::-1]):
            self._add("dictionary", None, "the order of texts and their labels do not say the same")
        elif order.shape[1] and not np.array_equal(ids, labels[0]):
            self._add("dictionary", None, "the texts and the labels do not hold the same ids")
        elif not self.violations:
            dictionary = Dictionary(lambda: self.pages, trees, self.mapping)
            ordered = order.shape[1] > 0
            self._each_text(dictionary, order[1] if ordered else ids, ordered)
        return int(ids.max(initial=0))

    def _each_text(self, dictionary: Dictionary, ids: np.ndarray, ordered: bool) -> None:
        """Check that texts ascend if their order is kept, and note those that are not UTF-8."""
        last: list[bytes] = []
        for at in range(0, len(ids), TEXTS_AT_ONCE):
            try:
                texts = last + dictionary.loaded(ids[at : at + TEXTS_AT_ONCE])
            except CorruptionError as error:
                self._add("dictionary", error.page, f"a text does not read: {error}")
                return
            wrong = next((i for i, (a, b) in enumerate(pairwise(texts)) if a >= b), None)
            if wrong is not None and ordered:
                fact = f"the text of id {ids[at + wrong + 1 - len(last)]} is not above the one that stands before it"
                self._add("dictionary", None, fact)
                return
            self._broken += [
                int(ids[at + place - len(last)])
                for place in broken_among(texts)
                if place >= len(last)
            ]
            last = texts[-1:]

    def strings(self) -> None:
        """Report records with texts that are no UTF-8 in columns; call `dictionary` first."""
        for page, tree_id in [*self._done] if self._broken else ():
            strings = self._strings.get(tree_id)
            if (
                strings
                and self._done[page, tree_id]
                and page_type_fields(self.word(page, TYPE))[0] == LEAF
            ):
                columns = self.columns(page)
                for place, name in strings.items():
                    bad = np.flatnonzero(np.isin(columns[place], self._broken))
                    if len(bad):
                        fact = (
                            f"{self.owner[page]}: column {name!r} has {len(bad)} texts that are "
                            f"not UTF-8, the first "
                        )
                        fact += (
                            f"at slot {bad[0]}: pagestore fsck --repair-texts makes texts of them"
                        )
                        self._add("texts", page, fact)

    def dead_list(self, version: int, commit: Commit) -> None:
        """Check the pages that a version's commit says it replaced."""
        roots = set(commit.roots[1::4])
        for _, page, birth in rows(commit.dead, 3):
            if birth >= version:
                self._add(
                    "dead lists", page, f"version {version} replaced it, and it was born in {birth}"
                )
            if page in roots:
                self._add(
                    "dead lists", page, f"version {version} lists it as dead and has it as a root"
                )

    def run_of(self, name: str, run: Run) -> None:
        """Reach the pages of a record."""
        if not run.page:
            return
        ids = run.ids(self.pages.page_words)
        for page in range(max(0, ids.start), min(ids.stop, len(self.pages.seen))):
            self.owner[page] = name
        try:
            self.mapping.read_run(run)
        except CorruptionError as error:
            self._add(
                "checksum" if "checksum" in str(error) else "record", error.page, f"{name}: {error}"
            )

    def tree(self, name: str, tree: Tree, version: int) -> None:
        """Walk over a tree of a version, its shared pages once."""
        if not tree.root:
            if tree.count or tree.height:
                self._add(
                    "record count",
                    None,
                    f"{name} has no pages, height {tree.height} and {tree.count} records",
                )
            return
        below = self._page(name, tree.root, tree.spec, tree.height - 1, ())
        if below is None:
            return
        if below.records != tree.count:
            self._add(
                "record count",
                tree.root,
                f"{name} says {tree.count} records and has {below.records}",
            )
        if below.birth > version:
            self._add("birth", tree.root, f"{name} reaches a page born in version {below.birth}")
        said = pointer_birth(tree.pointer)
        if said and said != below.birth & BIRTH_MASK:
            self._add("birth", tree.root, f"{name}: {_stale(below.birth, said)}", (tree.root,))

    def _page(
        self, name: str, page: int, spec: Spec, level: int, path: tuple[int, ...]
    ) -> Subtree | None:
        key = page, spec.tree_id
        if key not in self._done:
            self._done[key] = None  # a page that reaches itself ends here
            self._done[key] = self._fresh_page(name, page, spec, level, (*path, page))
        return self._done[key]

    def _fresh_page(
        self, name: str, page: int, spec: Spec, level: int, path: tuple[int, ...]
    ) -> Subtree | None:
        if not FIRST_PAGE <= page < len(self.pages.seen):
            self._add("shape", page, f"{name}: there is no such page", path)
            return None
        self.owner[page] = name
        fault = page_fault(self._slice(page), page)
        if fault:
            self._add("checksum", page, f"{name}: {fault}", path)
            return None
        fault = self._shape_fault(page, spec, level)
        if fault:
            self._add("shape", page, f"{name}: {fault}", path)
            return None
        columns = self.columns(page)
        self._key_order(name, page, columns[: spec.keys], path)
        for fault in scan_tree_faults(self._slice(page), spec.scans, level, spec.keys, columns):
            self._add("scan tree", page, f"{name}: {fault}", path)
        if level == 0:
            self._values(name, page, spec, columns, path)
            return self._leaf(page, spec, columns)
        return self._index(name, page, spec, level, columns, path)

    def _values(
        self, name: str, page: int, spec: Spec, columns: np.ndarray, path: tuple[int, ...]
    ) -> None:
        bounds = self._bounds.get(spec.tree_id)
        if bounds is None:
            return
        words = columns[: len(bounds)]
        bad = ((words < bounds[:, :1]) | (words > bounds[:, 1:2])) & (
            (words != NULL) | (bounds[:, 2:] == 0)
        )
        if bad.any():
            column, slot = np.argwhere(bad)[0].tolist()
            fact = (
                f"column {column} of slot {slot} has the word {words[column, slot]}, which is "
                f"not a value of its type"
            )
            self._add("values", page, f"{name}: {fact}", path)

    def _leaf(self, page: int, spec: Spec, columns: np.ndarray) -> Subtree:
        keys = columns[: spec.keys]
        n = columns.shape[1]
        folds = fold_of(spec.scans, 0, spec.keys, columns)
        return Subtree(_key(keys, 0), _key(keys, n - 1), n, folds, self.word(page, BIRTH))

    def _index(
        self,
        name: str,
        page: int,
        spec: Spec,
        level: int,
        columns: np.ndarray,
        path: tuple[int, ...],
    ) -> Subtree | None:
        """Compare each entry with the subtree below it."""
        keys, birth = columns[: spec.keys], self.word(page, BIRTH)
        before: tuple[int, ...] | None = None
        count, whole = 0, True
        births = births_of(columns, spec)
        for slot, child in enumerate(columns[spec.keys].tolist()):
            below = self._page(name, child, spec, level - 1, path)
            if below is None:
                whole = False
                continue
            if below.low != _key(keys, slot):
                self._add(
                    "separators",
                    page,
                    f"entry {slot} says {_key(keys, slot)}, page {child} starts at {below.low}",
                    path,
                )
            if before is not None and below.low <= before:
                self._add(
                    "key order",
                    child,
                    f"its key {below.low} is not above {before} of the page before",
                    (*path, child),
                )
            if below.birth > birth:
                self._add(
                    "birth",
                    child,
                    f"born in version {below.birth}, its parent in {birth}",
                    (*path, child),
                )
            if births[slot] not in (0, below.birth):
                self._add(
                    "birth", child, f"{name}: {_stale(below.birth, births[slot])}", (*path, child)
                )
            folds = tuple(columns[spec.keys + 1 : spec.keys + 1 + len(spec.scans), slot].tolist())
            if folds != below.folds:
                self._add(
                    "folds",
                    page,
                    f"entry {slot} says {folds}, page {child} folds to {below.folds}",
                    path,
                )
            before, count = below.high, count + below.records
        if not whole or before is None:
            return None
        folds = fold_of(spec.scans, level, spec.keys, columns)
        return Subtree(_key(keys, 0), before, count, folds, birth)

    def _shape_fault(self, page: int, spec: Spec, level: int) -> str | None:
        kind, its_level, columns, folds, tree_id = page_type_fields(self.word(page, TYPE))
        expected = spec.columns if level == 0 else spec.keys + 1 + len(spec.scans)
        if level and columns == expected + 1:
            expected += 1  # with births
        facts = {
            "kind": (kind, INDEX if level else LEAF),
            "level": (its_level, level),
            "columns": (columns, expected),
            "folds": (folds, len(spec.scans)),
            "tree": (tree_id, spec.tree_id),
        }
        for fact, (is_, should) in facts.items():
            if is_ != should:
                return f"its {fact} is {is_} and should be {should}"
        n = self.word(page, ENTRY_COUNT)
        if not 1 <= n <= RECORDS_A_WORD * self.pages.page_words:
            return f"it has {n} entries"
        for c in range(columns):
            descriptor = self.word(page, HEADER + 2 * c + 1)
            offset, width = descriptor >> 8, descriptor & 255
            if (
                width > 64
                or offset < HEADER + 2 * columns
                or offset * 64 + n * width > (self.pages.page_words - 1) * 64
            ):
                return f"column {c} of {n} entries, {width} bits each from word {offset}, does not lie inside"
        return None

    def _key_order(self, name: str, page: int, keys: np.ndarray, path: tuple[int, ...]) -> None:
        a, b = keys[:, :-1], keys[:, 1:]
        above = np.zeros(a.shape[1], bool)
        for c in range(len(keys) - 1, -1, -1):
            above = (b[c] > a[c]) | ((b[c] == a[c]) & above)
        for slot in np.flatnonzero(~above).tolist():
            fact = f"{name}: key {_key(keys, slot + 1)} at slot {slot + 1} is not above {_key(keys, slot)}"
            self._add("key order", page, fact, path)

    def sound(self, page: int, spec: Spec, level: int) -> bool:
        """Return whether the bytes of a page can be read as that part of a tree."""
        inside = FIRST_PAGE <= page < len(self.pages.seen)
        return (
            inside
            and not page_fault(self._slice(page), page)
            and not self._shape_fault(page, spec, level)
        )

    def columns(self, page: int) -> np.ndarray:
        """Return all columns of a page, decoded: int64[C, n]."""
        n = self.word(page, ENTRY_COUNT)
        columns = page_type_fields(self.word(page, TYPE))[2]
        out = np.empty((columns, n), np.int64)
        for c in range(columns):
            UNPACK.call(self._slice(page), 0, c, 0, n, out[c], 0)
        return out

    def _slice(self, page: int) -> np.ndarray:
        """Return a copy of a page: another process may rewrite it while it is checked."""
        if page != self._copied:
            size = self.mapping.page_size
            data = self.mapping.file.pread(size, page * size).ljust(size, b"\0")
            self._copied, self._copy = page, np.frombuffer(data, np.int64)
        return self._copy

    def word(self, page: int, at: int) -> int:
        """Return word `at` of a page."""
        return int(self._slice(page)[at])

    def _add(self, invariant: str, page: int | None, fact: str, path: tuple[int, ...] = ()) -> None:
        self.violations.append(Violation(invariant, page, path, fact))

    def _all(self, tree: Tree) -> np.ndarray:
        """Return the records of a tree, int64[C, n], without those of bad pages."""
        return np.concatenate(
            [np.empty((tree.spec.columns, 0), np.int64), *self._leaves(tree)], axis=1
        )

    def _leaves(self, tree: Tree) -> Iterator[np.ndarray]:
        stack = [(tree.root, tree.height - 1)] if tree.root else []
        while stack:
            page, level = stack.pop()
            passed = self._done.get((page, tree.spec.tree_id)) is not None
            # it may have been rewritten by now
            if not passed or not self.sound(page, tree.spec, level):
                continue
            columns = self.columns(page)
            if level == 0:
                yield columns
            else:
                stack += [(child, level - 1) for child in columns[tree.spec.keys].tolist()[::-1]]


def long_runs(records: Iterator[tuple[int, ...]]) -> set[tuple[int, int]]:
    """Return the runs (first page, words) that records (id, part, word) of the dictionary's texts
    point to.

    Records may lack parts if a page now belongs to another tree, which is a violation of its own.

    >>> long_runs(iter([(1, 2, 6), (2, 0, 0xFFFF), (3, 0, 0xFFFF), (3, 1, 5), (3, 2, 6)]))
    {(5, 6)}
    """
    parts_of: dict[int, dict[int, int]] = {}
    for id_, part, word in records:
        parts_of.setdefault(id_, {})[part] = word
    whole = (parts for parts in parts_of.values() if {0, 1, 2} <= parts.keys())
    return {(parts[1], parts[2]) for parts in whole if parts[0] & 0xFFFF == 0xFFFF}


def _key(keys: np.ndarray, slot: int) -> tuple[int, ...]:
    return tuple(keys[:, slot].tolist())


def births_of(columns: np.ndarray, spec: Spec) -> list[int]:
    """Return the births of an index page's children, given its columns; 0 if it has none."""
    births = columns[spec.keys + 1 + len(spec.scans) :]
    return births[0].tolist() if len(births) else [0] * columns.shape[1]


def _stale(birth: int, said: int) -> str:
    return f"it is the page of version {birth} where that of version {said} is meant: the disk did not write that one"


class ScanTree(NamedTuple):
    """Leaf j folds entries starts[j]..starts[j + 1]; nodes[k] is the fold of heap node k
    (nodes[0] is unused).
    """

    starts: list[int]
    nodes: list[Fold]


def read_scan_tree(page: np.ndarray, scans: Scans, level: int) -> ScanTree | None:
    """Return a page's ScanTree int64[W], or None. ValueError for one that no kernel writes."""
    header = int(page[SCAN])
    depth, area = header & 255, header >> 8 & 0xFFFFFF
    if not depth:
        return None
    n, leaves = int(page[ENTRY_COUNT]), 1 << depth
    if leaves > n or not 0 < area < len(page):
        raise ValueError(f"a ScanTree of {leaves} leaves at word {area} over {n} entries")
    offsets = _column(page, area, leaves)
    starts = [n * j // leaves + offset for j, offset in enumerate(offsets)] + [n]
    sizes = [0] * leaves + [b - a for a, b in pairwise(starts)]
    for k in range(leaves - 1, 0, -1):
        sizes[k] = sizes[2 * k] + sizes[2 * k + 1]
    words = [
        sizes
        if op == COUNT and level == 0
        else [0, *_column(page, area + 2 + 2 * f, 2 * leaves - 1)]
        for f, (op, _) in enumerate(scans)
    ]
    return ScanTree(starts, list(zip(*words, strict=True)))


def _column(page: np.ndarray, descriptor: int, n: int) -> list[int]:
    """Decode a narrow column, from one big integer."""
    base, place = int(page[descriptor]), int(page[descriptor + 1])
    offset, width = place >> 8, place & 255
    words = -(-n * width // 64)
    if width > 64 or offset + words > len(page) - 1:
        raise ValueError(f"a ScanTree column of {n} values, {width} bits each from word {offset}")
    bits = int.from_bytes(page[offset : offset + words].astype("<i8").tobytes(), "little")
    mask = (1 << width) - 1
    return [_signed(base + (bits >> i * width & mask)) for i in range(n)]


def scan_tree_faults(
    page: np.ndarray, scans: Scans, level: int, keys: int, columns: np.ndarray
) -> Iterator[str]:
    """Yield what is wrong with a page's ScanTree, given the page's decoded columns int64[C, n]."""
    try:
        tree = read_scan_tree(page, scans, level)
    except ValueError as error:
        yield str(error)
        return
    if tree is None:
        return
    starts, leaves = tree.starts, len(tree.starts) - 1
    if starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
        yield f"its leaves start at {starts}"
        return
    sizes = [0] * leaves + [b - a for a, b in pairwise(starts)]
    truth: list[Fold] = [()] * leaves
    truth += [fold_of(scans, level, keys, columns[:, a:b]) for a, b in pairwise(starts)]
    for k in range(leaves - 1, 0, -1):
        sizes[k] = sizes[2 * k] + sizes[2 * k + 1]
        truth[k] = join(scans, truth[2 * k], truth[2 * k + 1])
    for k in range(1, 2 * leaves):
        if tree.nodes[k] != truth[k]:
            yield f"node {k} of its ScanTree says {tree.nodes[k]}, its entries fold to {truth[k]}"
    for k in range(1, leaves):
        a, b = sizes[2 * k], sizes[2 * k + 1]
        if max(a, b) > 2 * min(a, b):
            yield f"the children of node {k} of its ScanTree fold {a} and {b} entries"
