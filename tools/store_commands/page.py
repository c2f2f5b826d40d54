"""`pagestore page FILE N`: one page, drawn for a human."""

import argparse
from contextlib import suppress

import numpy as np

from pagestore.compiled import MappedWords, TypedKernel
from pagestore.errors import CorruptionError
from pagestore.host import Store
from pagestore.pages.layout import (
    BIRTH,
    CRC,
    ENTRY_COUNT,
    HEADER,
    LEAF,
    RUN,
    TYPE,
    page_type_fields,
)
from pagestore.pages.verify import is_whole
from pagestore.storage.mapping import page_fault
from pagestore.tooling import Walk
from pagestore.versions.store_state import SYSTEM

from ..cli.answers import answer, common, number, opened, table

KINDS = {1: "leaf", 2: "index", 3: "run"}
ROWS = 12  # entries shown at each end of a page

WHOLE = TypedKernel(is_whole, MappedWords, int, int)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("page", type=number, help="its number")
    parser.add_argument(
        "--all", action="store_true", help="every entry, not only the first and last"
    )


def run(options: argparse.Namespace) -> int:
    """Draw the page; return 1 if it is damaged."""
    with opened(options) as store:
        walk = Walk(store._handle.mapping)
        page_words = walk.pages.page_words
        if not 2 <= options.page < len(walk.pages.seen):
            raise OSError(
                f"{options.file} has pages 2 to {len(walk.pages.seen) - 1}; there is no page "
                f"{options.page}"
            )
        words = walk.pages.words[options.page * page_words : (options.page + 1) * page_words]
        kind, level, columns, folds, tree = page_type_fields(int(words[TYPE]))
        fault = page_fault(words, options.page)
        if (
            not fault
            and kind != RUN
            and not WHOLE.call(walk.pages.words, options.page * page_words, page_words)
        ):
            fault = "its columns do not lie inside"
        data = {
            "page": options.page,
            "kind": KINDS.get(kind, kind),
            "level": level,
            "tree": tree,
            "birth": int(words[BIRTH]),
            "count": int(words[ENTRY_COUNT]),
            "crc": int(words[CRC]),
            "fault": fault,
        }
        lines = [
            f"page {options.page}: {data['kind']}, level {level}, tree {tree}, born in version "
            f"{data['birth']}"
        ]
        lines.append(f"crc32c {data['crc']:08x}" + (f": {fault}" if fault else ""))
        if kind == RUN:
            lines.append(f"a record of {data['count']} bytes here")
        elif not fault:
            keys = _keys(store).get(tree, columns - 2 - folds)
            lines += _entries(walk, options, kind, columns, folds, keys, words)
        answer(options, data, "\n".join(lines))
    return 1 if fault else 0


def _keys(store: Store) -> dict[int, int]:
    """Return the number of key columns of each tree in the newest version, by the tree's number."""
    specs = [*SYSTEM.values()]
    with suppress(CorruptionError), store.snapshot() as snapshot:
        specs += [info.spec for info in snapshot._version.catalog.relations.values()]
    return {spec.tree_id: spec.keys for spec in specs}


def _entries(
    walk: Walk,
    options: argparse.Namespace,
    kind: int,
    columns: int,
    folds: int,
    keys: int,
    words: np.ndarray,
) -> list[str]:
    """Return the entries of a page as lines of a table."""
    values = walk.columns(options.page)
    names = [f"word {c}" for c in range(columns)]
    if kind != LEAF:
        names = [*(f"key {c}" for c in range(keys)), "child", *(f"fold {f}" for f in range(folds))]
        names += ["birth"] * (columns - len(names))  # a page of format 1 has no births
    widths = [int(words[HEADER + 2 * c + 1]) & 255 for c in range(columns)]
    head = tuple(f"{name} ({width} bits)" for name, width in zip(names, widths, strict=True))
    rows = [tuple(row) for row in values.T.tolist()]
    shown = rows if options.all or len(rows) <= 2 * ROWS else rows[:ROWS] + rows[-ROWS:]
    if len(shown) == len(rows):
        note = []
    else:
        note = [f"({len(rows) - len(shown)} entries between are left out; --all)"]
    return [f"{len(rows)} entries", table(shown, head), *note]
