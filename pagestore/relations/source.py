"""What a relation reads from: a snapshot, or a transaction with its own edits."""

from typing import Protocol

from pagestore.pages.page_map import Pages
from pagestore.trees.lookup import RecordFinder
from pagestore.trees.tree import Tree
from pagestore.values.dictionary import Dictionary


class Source(Protocol):
    """A version's trees and texts, as relations use them."""

    @property
    def pages(self) -> Pages:
        """The page map, for kernels."""

    @property
    def dictionary(self) -> Dictionary:
        """The texts of the version."""

    @property
    def threads(self) -> int:
        """The number of threads that look many keys up."""

    def tree(self, name: str) -> Tree:
        """Return the tree of words of a relation."""

    def finder(self, name: str) -> RecordFinder:
        """Return a finder of single keys in a relation."""
