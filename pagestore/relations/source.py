"""What a relation reads from: a snapshot, or a transaction with its own edits."""

from typing import Protocol

from pagestore.pages.page_map import Pages
from pagestore.trees.lookup import RecordFinder
from pagestore.trees.tree import Tree
from pagestore.values.dictionary import Dictionary


class Source(Protocol):
    """A version's trees and texts, as relations ask for them."""

    @property
    def pages(self) -> Pages:
        """The map, for kernels."""

    @property
    def dictionary(self) -> Dictionary:
        """The texts of the version."""

    @property
    def threads(self) -> int:
        """How many threads look many keys up."""

    def tree(self, name: str) -> Tree:
        """The tree of words behind a relation."""

    def finder(self, name: str) -> RecordFinder:
        """A finder of single keys in a relation."""
