"""Tables of symbols, by which the texts of large batches are packed (values/kernels/text_symbols.py).

A table is made for a batch whose texts it packs in clearly less room than the newest tables do; it
is never changed. `SYMBOLS` keeps them: record (table, code) -> symbol, size. Tables are numbered from
1; table 0 has no symbols.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from pagestore.pages.layout import Pages
from pagestore.runtime.kernel import TypedKernel
from pagestore.storage.mapping import Mapping
from pagestore.trees.read import read
from pagestore.trees.tree import Spec, Tree
from pagestore.values.kernels import text_symbols
from pagestore.values.kernels.text_symbols import ESCAPE, SIZES
from pagestore.values.text_order import PackedTexts

SYMBOLS = Spec(7, 2, 2)
TABLES_MAX = 255
SAMPLE = 1 << 15  # bytes of a batch from which its table is made
ROUNDS = 5  # in which the symbols of a table are joined to longer ones
SIZE_MAX = 8  # bytes of a symbol
NEWEST = 4  # tables that a batch is tried with
SAVED = 0.02  # of the bytes of a batch, that a new table saves more than the best of them does
TABLE_ROOM = 1 << 12  # bytes that a table takes, about

PARSE = TypedKernel(text_symbols.parse_texts)
PACK = TypedKernel(text_symbols.pack_texts)

_loaded: WeakKeyDictionary[Mapping, tuple[Tree, np.ndarray]] = WeakKeyDictionary()


class SymbolTable(NamedTuple):
    """The symbols int64[256] of a table and their sizes, by code, and the first code int64[257] for
    each byte that a symbol may begin with; and its number.
    """

    symbols: np.ndarray
    sizes: np.ndarray
    starts: np.ndarray
    number: int

    @classmethod
    def of(cls, symbols: np.ndarray, sizes: np.ndarray, number: int) -> SymbolTable:
        """Return the table of distinct symbols int64[n] of these sizes, for n up to ESCAPE."""
        first = symbols & 255
        ordered = np.lexsort((symbols, -sizes, first))
        padded = np.zeros((2, SIZES), np.int64)
        padded[:, : len(symbols)] = symbols[ordered], sizes[ordered]
        starts = np.searchsorted(first[ordered], np.arange(257))
        return cls(padded[0], padded[1], starts, number)

    @classmethod
    def for_texts(cls, texts: PackedTexts, number: int) -> SymbolTable:
        """Return a table that packs texts well. O(bytes of the texts)."""
        table = NO_SYMBOLS
        for _ in range(ROUNDS):
            table = table.improved(table.parsed(texts))
        return table._replace(number=number)

    def room(self, texts: PackedTexts) -> int:
        """Return how many bytes the codes of texts take. O(bytes of the texts)."""
        codes = self.parsed(texts)
        return int((codes >= 0).sum() + (codes >= ESCAPE).sum())

    def pack(self, texts: PackedTexts) -> tuple[np.ndarray, np.ndarray]:
        """Return how many parts each text has, int64[n], and all parts. No text is long. O(bytes of
        the texts).
        """
        counts = np.empty(len(texts), np.int64)
        words = np.empty(int((texts.lengths + 9 >> 3).sum()), np.int64)
        data = texts.data
        n = PACK.call(*self, texts.offsets, data.address, data.size, counts, words)
        return counts, words[:n]

    def records(self) -> np.ndarray:
        """Return the records int64[4, n] of the table in SYMBOLS."""
        n = int((self.sizes > 0).sum())
        codes = np.arange(n)
        return np.stack([np.full(n, self.number), codes, self.symbols[:n], self.sizes[:n]])

    def parsed(self, texts: PackedTexts) -> np.ndarray:
        """Return the codes of texts, as `parse_texts` writes them."""
        codes = np.empty(texts.size + len(texts), np.int64)
        data = texts.data
        return codes[: PARSE.call(*self[:3], texts.offsets, data.address, data.size, codes)]

    def improved(self, codes: np.ndarray) -> SymbolTable:
        """Return the table of the symbols, and joined pairs of them, that stand for most bytes of
        the texts that this table parses into `codes`.
        """
        symbols = np.concatenate([self.symbols[:ESCAPE], np.arange(256)])
        sizes = np.concatenate([self.sizes[:ESCAPE], np.ones(256, np.int64)])
        single, counts = np.unique(codes[codes >= 0], return_counts=True)
        # eight times the worth, since a byte without a symbol takes two
        worth = counts * np.where(sizes[single] == 1, SIZE_MAX, sizes[single])
        both = (codes[:-1] >= 0) & (codes[1:] >= 0)
        pairs, together = np.unique(codes[:-1][both] << 9 | codes[1:][both], return_counts=True)
        left, right = pairs >> 9, pairs & 511
        fitting = sizes[left] + sizes[right] <= SIZE_MAX
        left, right, together = left[fitting], right[fitting], together[fitting]
        joined = symbols[left] | symbols[right] << 8 * sizes[left]
        joined_sizes = sizes[left] + sizes[right]
        candidates = np.stack(
            [
                np.concatenate([symbols[single], joined]),
                np.concatenate([sizes[single], joined_sizes]),
            ]
        )
        found, place = np.unique(candidates, axis=1, return_inverse=True)
        gains = np.bincount(
            place.ravel(), np.concatenate([worth, together * joined_sizes]), found.shape[1]
        )
        best = np.argsort(-gains, kind="stable")[:ESCAPE]
        return SymbolTable.of(found[0, best], found[1, best], 0)


NO_SYMBOLS = SymbolTable.of(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)


def tables_in(pages: Pages, tree: Tree) -> np.ndarray:
    """Return all tables of a tree that has some, as kernels read them, int64[512 * tables].
    O(records).
    """
    numbers, codes, symbols, sizes = read(pages, tree)
    tables = np.zeros((int(numbers.max()), 2, SIZES), np.int64)
    tables[numbers - 1, 0, codes], tables[numbers - 1, 1, codes] = symbols, sizes
    return tables.ravel()


def committed_tables(mapping: Mapping, pages: Pages, tree: Tree) -> np.ndarray:
    """As `tables_in` for a committed tree of a file, read once for all its readers."""
    loaded = _loaded.get(mapping)
    if loaded is None or loaded[0] != tree:
        loaded = _loaded[mapping] = tree, tables_in(pages, tree)
    return loaded[1]


def newest_of(tables: np.ndarray) -> list[SymbolTable]:
    """Return the newest of the tables that `tables_in` returns, to pack by."""
    made, parts = [], tables.reshape(-1, 2, SIZES)
    for number in range(max(0, len(parts) - NEWEST), len(parts)):
        symbols, sizes = parts[number, :, parts[number, 1] > 0].T
        made.append(SymbolTable.of(symbols, sizes, number + 1))
    return made


def sample_of(texts: PackedTexts) -> PackedTexts:
    """Return some of the texts, spread over all, of about SAMPLE bytes together.

    >>> len(sample_of(PackedTexts.of([b"ab"] * 100_000)))
    14286
    """
    return texts.at(np.arange(0, len(texts), texts.size // SAMPLE + 1))
